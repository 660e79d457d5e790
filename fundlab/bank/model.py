"""What a bank's file says, whatever its format: pages of statements, and their entries."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.base.values import plain_text
from fundlab.models import TransferType

Kind = Literal["statement", "interim", "notice"]
"""With balances (camt.053, MT940, OFX, BAI2, CSV), of a day not over (camt.052, MT942), or single
entries (camt.054)."""

_TEXT: Final = pa.string()
ENTRIES: Final = pa.schema(
    [
        ("entry", pa.int64()),
        ("entry_id", _TEXT),
        ("statement", pa.int64()),
        ("position", pa.int64()),
        ("account", _TEXT),
        ("asset", _TEXT),
        ("booked_on", pa.date32()),
        ("valued_on", pa.date32()),
        ("amount", AMOUNT_TYPE),
        ("charges", AMOUNT_TYPE),
        ("reversal", pa.bool_()),
        ("code", _TEXT),
        ("bank_ref", _TEXT),
        ("own_ref", _TEXT),
        ("counterparty", _TEXT),
        ("memo", _TEXT),
        ("balance", AMOUNT_TYPE),
        ("file", _TEXT),
        ("line", pa.int64()),
    ]
)
STATEMENTS: Final = pa.schema(
    [
        ("statement", pa.int64()),
        ("kind", _TEXT),
        ("format", _TEXT),
        ("account", _TEXT),
        ("asset", _TEXT),
        ("id", _TEXT),
        ("sequence", pa.int64()),
        ("page", pa.int64()),
        ("last_page", pa.bool_()),
        ("opening_on", pa.date32()),
        ("opening", AMOUNT_TYPE),
        ("closing_on", pa.date32()),
        ("closing", AMOUNT_TYPE),
        ("available", AMOUNT_TYPE),
        ("entries", pa.int64()),
        ("credits", pa.int64()),
        ("credit_sum", AMOUNT_TYPE),
        ("debits", pa.int64()),
        ("debit_sum", AMOUNT_TYPE),
        ("proved", _TEXT),
        ("file", _TEXT),
        ("line", pa.int64()),
        ("sha256", _TEXT),
    ]
)
FINDINGS: Final = pa.schema(
    [
        ("file", _TEXT),
        ("line", pa.int64()),
        ("statement", _TEXT),
        ("rule", _TEXT),
        ("declared", _TEXT),
        ("found", _TEXT),
        ("detail", _TEXT),
    ]
)


FORMATS: Final = ("csv", "mt940", "mt942", "camt.053", "camt.052", "camt.054", "ofx", "bai2")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a statement: what came in is positive, what went out negative.

    ``position`` is its number on the page, shared by the payments of one booked batch.
    ``charges`` is what the bank says it kept back of the amount.
    """

    booked_on: date
    amount: Decimal
    asset: str | None = None
    bank_ref: str | None = None
    memo: str | None = None
    valued_on: date | None = None
    own_ref: str | None = None
    counterparty: str | None = None
    code: str | None = None
    reversal: bool = False
    charges: Decimal | None = None
    balance: Decimal | None = None
    position: int = 0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Rule:
    """What a user takes for the same payment: an entry with the words ``says`` and a transfer of
    ``type`` (each, where one is given), booked up to ``days`` after it settled, and off by at most
    ``amount``."""

    says: str = ""
    type: str = ""
    days: int = 3
    amount: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class Finding:
    """What contradicts itself: ``declared`` in the file, ``found`` in its entries or neighbours."""

    file: str
    line: int
    statement: str
    rule: str
    declared: str
    found: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}, {self.statement}: {self.detail}"


@dataclass(slots=True)
class Page:
    """A statement as it stands in a file, or one of its pages.

    ``declared`` are counts and sums by name (``entries``, ``credits``, ``debits``, ``credit_sum``,
    ``debit_sum``, ``sum``, ``net``); ``unbooked`` the amounts listed as pending, which some
    banks count among them. ``first`` and ``last`` say whether another page must stand before or
    after it. ``contradictions`` are the format's own: rule, declared, found, detail. A ``partial``
    page lists a part of what it sums up.
    """

    kind: Kind
    line: int
    account: str | None = None
    asset: str | None = None
    id: str | None = None
    sequence: int | None = None
    page: int | None = None
    first: bool = True
    last: bool = True
    opening_on: date | None = None
    opening: Decimal | None = None
    closing_on: date | None = None
    closing: Decimal | None = None
    available: Decimal | None = None
    declared: dict[str, Decimal] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    unbooked: list[Decimal] = field(default_factory=list)
    contradictions: list[tuple[str, Any, Any, str]] = field(default_factory=list)
    summary_only: bool = False
    partial: bool = False
    file: str = ""
    sha256: str = ""
    format: str = ""
    proved: str = "no"

    @property
    def name(self) -> str:
        number = self.id if self.sequence is None else str(self.sequence)
        text = f"statement {number}" if number else "the statement"
        text += f" page {self.page}" if self.page is not None else ""
        return text + (f" of account {self.account}" if self.account else "")

    @property
    def place(self) -> tuple[int, ...]:
        """By the end of a statement: banks begin one on the day of the one before, or the next."""
        opening, closing = self.opening_on, self.closing_on or self.opening_on
        days = [(day or date.min).toordinal() for day in (closing, opening)]
        return (*days, self.sequence or 0, self.page or 0)

    def content(self) -> tuple[Any, ...]:
        """What makes it the same statement again, wherever it stands."""
        entries = tuple((e.booked_on, e.amount, e.bank_ref, e.memo) for e in self.entries)
        return (self.kind, self.account, self.asset, self.sequence, self.page, self.opening_on,
                self.opening, self.closing_on, self.closing, entries)  # fmt: skip


def finding(page: Page, rule: str, declared: Any, found: Any, detail: str) -> Finding:
    said, there = (
        plain_text(value) if isinstance(value, Decimal) else str(value)
        for value in (declared, found)
    )
    return Finding(page.file, page.line, page.name, rule, said, there, detail)


FIAT: Final = tuple(
    kind.value
    for kind in TransferType
    if kind.value.endswith(("_DEPOSIT", "_WITHDRAWAL")) and not kind.value.startswith("CRYPTO_")
)
"""Types of transfers that pass through a bank."""
_WORD: Final = re.compile(r"[0-9a-z]+")
_LONGEST_WINDOW: Final = 3_660
_PLAIN: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)


def exact_amount(text: str) -> Decimal:
    """``text`` to its last digit. Raises ``ValueError`` unless it is plainly an amount."""
    text = text.strip()
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"{text!r} is not a plain amount such as -1234.50")
    return Decimal(text)


def in_one_currency(page: Page) -> None:
    """The account's currency is that of its entries, where only they say one; else entries in
    another contradict it."""
    assets = {entry.asset for entry in page.entries}
    if page.asset is None and len(assets) == 1:
        page.asset = assets.pop()
    elif others := sorted(map(str, assets - {page.asset})):
        other = ", ".join(others)
        page.contradictions.append(
            ("currency", page.asset, other, f"entries are in {other}, its account in {page.asset}")
        )


def check_digits(amount: Decimal | None, line: int) -> None:
    """Raises ``ValueError`` for an amount that the amount column cannot hold."""
    if amount:
        whole, fraction = amount.adjusted() + 1, -int(amount.as_tuple().exponent)
        if whole > MAX_INTEGER_DIGITS or fraction > MAX_FRACTION_DIGITS:
            raise ValueError(
                f"line {line}: {shorten(str(amount))} has more than {MAX_INTEGER_DIGITS} integer "
                f"or {MAX_FRACTION_DIGITS} fractional digits"
            )


def given_amount(name: str, value: object) -> Decimal:
    """An amount given as an argument. Raises :class:`AnalysisError` for what is not exact."""
    try:
        exact = Decimal("NaN" if isinstance(value, bool | float) else value)  # type: ignore[arg-type]
        check_digits(exact if exact.is_finite() else Decimal("1e99"), 0)
    except (InvalidOperation, TypeError, ValueError):
        raise AnalysisError(f"{name}={shorten(value)} is not an amount such as '100.50'") from None
    return exact


def file_text(content: bytes, encoding: str | None = None) -> str:
    """``content`` as text: UTF-8 unless the file or the caller says otherwise, and where it is not,
    Windows' Western one, of which Latin-1 is nearly a part."""
    for mark, name in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            encoding = name
    try:
        if encoding is not None:
            return content.decode(encoding)
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            return content.decode("cp1252")
    except UnicodeDecodeError:
        return content.decode("latin-1")
    except LookupError as error:
        raise ValueError(f"{error}; give an encoding that Python knows, such as cp1252") from error


def joined(*parts: str | None) -> str | None:
    """The words of ``parts`` on one line."""
    return " ".join(" ".join(part for part in parts if part).split()) or None


def words(text: str) -> tuple[str, ...]:
    """Letters and digits only: banks drop dashes, cut lines and change case."""
    return tuple(_WORD.findall(text.lower()))


def check_window(window: object, name: str = "window") -> None:
    """Raises :class:`AnalysisError` for what is not a valid number of days."""
    if (
        isinstance(window, bool)
        or not isinstance(window, int)
        or not 0 <= window <= _LONGEST_WINDOW
    ):
        raise AnalysisError(
            f"{name}={window!r}: give a whole number of days, 0 or more, up to {_LONGEST_WINDOW}"
        )
