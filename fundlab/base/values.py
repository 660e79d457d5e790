"""The two scalar values of the interface whose text matters: amounts and instants.

Both are read under a strict grammar, keep the very text they came from, and give it back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, Final, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from fundlab.base.errors import InvalidRequest, a_type, shorten
from fundlab.base.exact import (
    AMOUNT_PARTS,
    AMOUNT_PATTERN,
    EXACT,
    MAX_AMOUNT_LENGTH,
    MAX_FRACTION_DIGITS,
    MAX_INTEGER_DIGITS,
)

_AMOUNT = re.compile(AMOUNT_PARTS)
_INSTANT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_MONTH: Final = re.compile(r"\d{4}-(0[1-9]|1[0-2])", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UNSET = re.compile(r"0001-01-01[Tt]00:00:00(?:\.0{1,9})?(?:[Zz]|[+-]00:00)", re.ASCII)
UUID: Final = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
_UUID = re.compile(UUID)
_LENGTHS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def id_text(text: str) -> str:
    """An id of the service as tables hold it: a UUID in small letters, as RFC 9562 writes it,
    because ids compare without regard to case; any other as it is."""
    return text.lower() if _UUID.fullmatch(text) else text


class Amount(Decimal):
    """A non-negative amount of money: a ``Decimal`` that keeps the text it was read from.

    ``Amount("0.50")`` equals ``Decimal("0.5")`` and ``str()`` gives ``0.50``. Accepts text matching
    the interface's pattern in full (§2), ``Decimal`` and ``int``; at most 64 characters, 20 integer
    and 18 fractional digits. Arithmetic gives plain ``Decimal``. Raises ``ValueError`` on anything
    else, on ``float`` in particular.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, value: str | int | Decimal) -> Self:
        if type(value) is str:  # nearly always
            text = value
        elif isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise ValueError(
                f"amount {value!r} is {a_type(value)}; give text such as '100.00', a Decimal or "
                "an int"
            )
        elif isinstance(value, Amount):
            text = value.text
        elif isinstance(value, Decimal):
            exponent = value.as_tuple().exponent
            if isinstance(exponent, int):  # before it is written out: one of nine digits makes a
                # gigabyte of text
                length = max(abs(value.adjusted()) if value else 0, -exponent)
                if length > MAX_AMOUNT_LENGTH:
                    raise ValueError(
                        f"amount of about {length} characters; at most {MAX_AMOUNT_LENGTH}"
                    )
            text = f"{value:f}" if value.is_finite() else str(value)
        elif isinstance(value, str):
            text = str(value)
        else:
            text = str(value) if -(10**64) < value < 10**64 else "too many digits"
        match = _AMOUNT.fullmatch(text)
        if match is None:
            raise ValueError(
                f"amount {text[:80]!r} must be digits, with a point before any decimals, such as "
                "'1250.00'; no sign, comma, space or exponent"
            )
        if len(text) > MAX_AMOUNT_LENGTH:
            raise ValueError(f"amount of {len(text)} characters; at most {MAX_AMOUNT_LENGTH}")
        if len(match[1]) > MAX_INTEGER_DIGITS or len(match[2] or "") > MAX_FRACTION_DIGITS:
            raise ValueError(
                f"amount {text!r} has {len(match[1])} integer and {len(match[2] or '')} fractional "
                f"digits; at most {MAX_INTEGER_DIGITS} and {MAX_FRACTION_DIGITS}"
            )
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text

    def __format__(self, spec: str, /) -> str:  # type: ignore[override]
        return format(Decimal(self), spec) if spec else self.text  # Decimal's own may say 0E-7

    def __repr__(self) -> str:
        return f"Amount('{self.text}')"

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (self.text,)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        read = core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls(value)
        )
        return core_schema.json_or_python_schema(
            # on the wire an amount is text: a number there may have lost digits already
            json_schema=core_schema.chain_schema([core_schema.str_schema(strict=True), read]),
            python_schema=read,
            serialization=core_schema.to_string_ser_schema(when_used="json"),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "string",
            "format": "decimal",
            "pattern": AMOUNT_PATTERN,
            "maxLength": MAX_AMOUNT_LENGTH,
            "examples": ["1442725.09"],
        }


def fraction_digits(amount: Amount) -> int:
    """How many decimals ``amount`` needs; trailing zeros do not count."""
    return len(amount.text.partition(".")[2].rstrip("0"))


def overflow(what: str) -> OverflowError:
    """The error where ``what`` has more digits than an amount may have."""
    return OverflowError(
        f"{what} has more than {MAX_INTEGER_DIGITS} integer digits: amounts hold "
        f"{MAX_INTEGER_DIGITS + MAX_FRACTION_DIGITS} digits, {MAX_FRACTION_DIGITS} of them "
        "decimals; look for a wrong amount, or take fewer transfers"
    )


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The sum, to its last digit; 0 of none."""
    return reduce(EXACT.add, amounts, Decimal(0))


def in_units(amount: Decimal) -> int:
    """How many units of 10^-18, the smallest an amount can have."""
    return int(amount.scaleb(MAX_FRACTION_DIGITS, EXACT))


def of_units(units: int) -> Decimal:
    return Decimal(units).scaleb(-MAX_FRACTION_DIGITS, EXACT)


def plain_text(value: Decimal, decimals: int = 0) -> str:
    """``value`` to its last digit, without exponent, and zeros only up to ``decimals`` of them.

    >>> plain_text(Decimal("1E+2")), plain_text(Decimal("0.500"), 2)
    ('100', '0.50')
    """
    whole, _, fraction = f"{Decimal(value):f}".partition(".")
    fraction = fraction.rstrip("0").ljust(decimals, "0")
    return f"{whole}.{fraction}" if fraction else whole


def money_text(value: Decimal, decimals: int = 2) -> str:
    """``1,234.50``: every digit there is, at least ``decimals`` of them, nothing rounded."""
    whole, point, fraction = plain_text(value, decimals).partition(".")
    sign = "-" * whole.startswith("-")
    return f"{sign}{int(whole.removeprefix('-')):,}{point}{fraction}"


def unless_unset(value: object) -> object:
    """``None`` for the time that services write for "not set": the first moment of the year 1."""
    return None if isinstance(value, str) and _UNSET.fullmatch(value) else value


class Instant(datetime):
    """A moment in UTC: a ``datetime`` that keeps nanoseconds and the RFC 3339 text it came from.

    Comparisons see microseconds, as ``datetime`` does; ``.ns`` is exact (nanoseconds since 1970).
    ``str()`` gives the text. ``Instant.parse`` raises ``ValueError`` unless the text is RFC 3339
    with a zone, at most 9 fractional digits, and within the years 1678 to 2261 that 64-bit
    nanoseconds can hold.
    """

    _text: str | None = None

    @classmethod
    def parse(cls, value: object) -> Self:
        """``value``: RFC 3339 text, an aware ``datetime``, or in UTC a ``date`` (its first moment)
        or NumPy's ``datetime64``."""
        if not isinstance(value, str):  # which it nearly always is
            if isinstance(value, cls):
                return value
            if isinstance(value, datetime):
                return cls._from_datetime(value)
            if isinstance(value, date):
                value = f"{value.isoformat()}T00:00:00Z"
            np = sys.modules.get("numpy")  # whoever gives one of its times has loaded it
            if np and isinstance(value, np.datetime64) and not np.isnat(value):
                value = f"{np.datetime_as_string(value, unit='ns', casting='unsafe')}Z"
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not a time; give RFC 3339 text or an aware datetime")
        match = _INSTANT.fullmatch(value)
        if match is None:
            raise ValueError(
                f"{value[:80]!r} is not an RFC 3339 time with a zone, such as "
                "'2026-10-01T09:30:00Z', with at most 9 fractional digits"
            )
        year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
        fraction = (match[7] or "").ljust(9, "0")
        zone: tzinfo = UTC
        if match[8]:
            hours, minutes = int(match[9]), int(match[10])
            if hours > 23 or minutes > 59:
                raise ValueError(f"{value!r} has no valid zone offset")
            offset = timedelta(hours=hours, minutes=minutes)
            zone = timezone(-offset if match[8] == "-" else offset)
        try:
            moment = datetime(year, month, day, hour, minute, second, tzinfo=zone)
            if zone is not UTC:
                moment = moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{value!r} is not a time: {error}") from None
        if not 1678 <= moment.year <= 2261:
            raise ValueError(f"{value!r} is outside the years 1678 to 2261")
        nanoseconds = int(fraction)
        self = cls(
            moment.year, moment.month, moment.day, moment.hour, moment.minute, moment.second,
            nanoseconds // 1000, tzinfo=UTC,
        )  # fmt: skip
        self._text = value
        since = moment - _EPOCH
        self.ns = (since.days * 86_400 + since.seconds) * 1_000_000_000 + nanoseconds
        return self

    @classmethod
    def from_ns(cls, ns: int) -> Self:
        """The instant ``ns`` nanoseconds after 1970-01-01T00:00:00Z, as text with nine digits."""
        seconds, fraction = divmod(ns, 1_000_000_000)
        moment = _EPOCH + timedelta(seconds=seconds)
        return cls.parse(f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z")

    @classmethod
    def _from_datetime(cls, value: datetime) -> Self:
        if value != value:  # pandas' NaT
            raise ValueError(f"{value!r} is not a time")
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; pass one, e.g. tzinfo=datetime.UTC")
        try:
            moment = value.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{value!r} is outside the years 1678 to 2261") from None
        # pandas.Timestamp carries the last three digits in an attribute of its own
        fraction = moment.microsecond * 1000 + int(getattr(value, "nanosecond", 0))
        text = f"{moment.year:04}-{moment:%m-%dT%H:%M:%S}"
        if fraction:
            text += "." + f"{fraction:09d}".rstrip("0")
        return cls.parse(f"{text}Z")

    @cached_property
    def ns(self) -> int:
        """Nanoseconds since 1970-01-01T00:00:00Z, exact."""
        # of one made by datetime arithmetic: any other has it from where it was made
        since_epoch: timedelta = self - Instant.parse(_EPOCH)
        return since_epoch // timedelta(microseconds=1) * 1000

    def __str__(self) -> str:
        return self._text if self._text is not None else self.isoformat().replace("+00:00", "Z")

    def __repr__(self) -> str:
        return f"Instant('{self}')"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return Instant.parse, (str(self),)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, tuple[str]]:
        return self.__reduce__()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.parse, serialization=core_schema.to_string_ser_schema(when_used="json")
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"type": "string", "format": "date-time"}


def check_unicode(text: str, what: str, done: str = "") -> None:
    """Raises ``InvalidRequest``, from ``what`` to ``done``, for half a character (a lone
    surrogate), as a terminal that is not of UTF-8 gives it: nothing can send or write it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        problem = f"{what} is not valid Unicode: it holds half a character{done}"
    else:
        return
    raise InvalidRequest(problem)  # from here: the codec's own error holds all of the text


def moment_ns(value: object, parameter: str) -> int:
    """Nanoseconds since 1970 of ``value``; ``parameter`` is its name in an error message.

    A calendar day stands for its first moment, and a ``datetime`` without a zone is in UTC, like
    every time of the interface. Text with a time of day must name its zone.

    Raises ``InvalidRequest`` for anything else.
    """
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return Instant.parse(f"{value}T00:00:00Z").ns
        if isinstance(value, datetime) and value.tzinfo is None:
            return Instant.parse(value.replace(tzinfo=UTC)).ns
        return Instant.parse(value).ns
    except ValueError as error:
        problem = f": {error}; give"
    accepted = "'2026-10-01', or a time with its zone, '2026-10-01T09:30:00Z'"
    if not isinstance(value, str):
        accepted += ", or a datetime"
    elif not _INSTANT.fullmatch(value) and not _DATE.fullmatch(value):
        problem = " is not a date: write"
    raise InvalidRequest(f"{parameter}={shorten(value)}{problem} {accepted}")


def start_ns(value: object, parameter: str) -> int | None:
    """As :func:`moment_ns` of an end of a range: a month, too, stands for its first moment, and
    ``None`` for no end."""
    if isinstance(value, str) and _MONTH.fullmatch(value):
        value += "-01"
    return None if value is None else moment_ns(value, parameter)


def span_ns(since: object, until: object) -> tuple[int | None, int | None]:
    """Both ends of a range. Raises ``InvalidRequest`` where no moment is in it."""
    begins, ends = start_ns(since, "since"), start_ns(until, "until")
    if begins is not None and ends is not None and ends <= begins:
        raise InvalidRequest(
            f"until={until} is not after since={since}: a month or day stands for its first "
            "moment, and rows of until itself are left out"
        )
    return begins, ends


def minute_text(ns: int | None) -> str:
    """``2026-10-31 17:04 UTC`` of nanoseconds since 1970, for people; of ``None`` nothing."""
    return "" if ns is None else f"{Instant.from_ns(ns):%Y-%m-%d %H:%M} UTC"


def length_text(ns: int) -> str:
    """A length of time for people, ``3 d 4 h``, ``12 min``, ``-1 s``, ``250 ms``: in its largest
    unit and the next one, rounded towards zero."""
    seconds, below = divmod(abs(ns), 10**9)
    sign = "-" * (ns < 0)
    if not seconds and below < 10**6:
        return "under 1 ms" if ns > 0 else "over -1 ms" if ns else "0 s"
    if not seconds:
        return f"{sign}{below // 10**6} ms"
    for (size, unit), (part, smaller) in pairwise(_LENGTHS):
        if seconds >= size:
            rest = seconds % size // part
            return f"{sign}{seconds // size:,} {unit}" + f" {rest} {smaller}" * bool(rest)
    return f"{sign}{seconds} s"
