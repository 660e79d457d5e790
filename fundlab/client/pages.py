"""The pages of a list, once: what is asked, how its pages are walked, which of their rows belong.

A service may ignore a filter that the interface does not list, leave out the member that it is
about, spell an id in another case, send a row or a page twice, or no end. So each row is held
against what was asked: it belongs, or it does not, or the answer does not say, and then it is kept;
and a walk that would not end is refused. A malformed page is refused where it is read: by
`fundlab.tables.decode` for tables, by ``calls.read_answer`` for models. ``calls.Rows`` makes
models of a page; `fundlab.sync.table_pages` makes Arrow tables of it.
"""

from __future__ import annotations

import mmap
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, product
from typing import Any, Final, NamedTuple
from uuid import UUID

from fundlab.base.errors import (
    IgnoredFilterWarning,
    InvalidRequest,
    ProtocolError,
    a_type,
    shorten,
    with_likely,
)
from fundlab.base.values import Instant
from fundlab.models import MAX_FILTER_ENTRIES, SPELLINGS, Operation
from fundlab.models.requests import MODEL_NAMES, checked

MAX_EMPTY_PAGES: Final = 1000
"""In succession, each with a cursor: a service that filters late may send many."""
MAX_REPEATED_PAGES: Final = 20
"""In succession, of rows that came before: a page may come twice, but not for ever."""
LAST_PLACE: Final = (1 << 22) - 1
MEMBERS: Final[Mapping[str, str]] = {
    "ids": "id",
    "ref_ids": "ref_id",
    "profile_ids": "profile_id",
    "identity_id": "identity_id",
    "identity_ids": "identity_id",
    "account_ids": "account_id",
    "group_ids": "group_id",
    "crypto_tx_hashes": "crypto_tx_hash",
    "crypto_networks": "crypto_network",
    "addresses": "address",
    "nicknames": "nickname",
    "bookmarked_status": "bookmarked",
    "is_test": "is_test",
    "type": "type",
    "statuses": "status",
    "secondary_statuses": "secondary_status",
}
"""Filters by value, and the member of a row that each is about; of a secondary status, the name."""
_SELDOM_SHOWN: Final = {
    ("list_crypto_destination_addresses", "identity_id"),
    ("list_events", "is_test"),
}
"""Members that the interface's own records lack (§2.8, §2.10): nothing to warn of."""
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
    "gte": operator.ge,
    "gt": operator.gt,
}

# ----------------------------------------------------------------------------- what is asked


class Asked:
    """What ``given`` (keywords; ``None`` is not given) asks of a list operation.

    ``label`` is what the user called, for messages; ``own`` are keywords that the caller takes
    beside these. Raises ``InvalidRequest``, naming the keyword, for one that is not a filter and
    for a value that it cannot be.

    ``filters`` go by the names of the query model: lists of texts, instants, flags, texts. ``sent``
    are the filters that the service gets: of the two times one only, as its order demands.
    ``checks`` are what a row must hold; of two filters about one member it needs to meet one.
    ``parts`` are what to ask, one after another, to have it all: lists of values go out in
    hundreds, and nothing is to be asked where one is empty. ``query`` is what is sent for one of
    the parts.
    """

    def __init__(
        self, operation: Operation, given: Mapping[str, Any], label: str, own: Iterable[str] = ()
    ) -> None:
        if operation.query is None:
            raise InvalidRequest(f"{operation.name} does not list anything")
        fields = operation.query.model_fields
        filters: dict[str, Any] = {}
        called: dict[str, str] = {}
        for keyword, value in given.items():
            name, what = MODEL_NAMES.get(keyword, keyword.replace(".", "_")), f"{label}: {keyword}"
            if name not in fields:
                known = [*(field for field in fields if field != "page_cursor"), *own]
                raise InvalidRequest(
                    f"{label}: {with_likely(keyword, known)} is not accepted; "
                    f"accepted are {', '.join(known)}; nothing was sent"
                )
            if value is None:
                continue
            called[name] = keyword
            if name.rpartition("_")[2] in _COMPARISONS:
                try:
                    filters[name] = Instant.parse(value)
                except ValueError as error:
                    raise InvalidRequest(f"{what}: {error}; nothing was sent") from None
            elif name == "limit":
                filters[name] = whole_number(value, what)
            elif name in ("bookmarked_status", "is_test"):
                if str(value) not in ("True", "False"):  # NumPy has flags of its own
                    raise InvalidRequest(
                        f"{what}={shorten(value)} is not accepted; give True or False"
                    )
                filters[name] = str(value) == "True"
            elif name in operation.query.lists:
                filters[name] = texts(value, what)
            else:
                filters[name] = texts(value, what)[0] if isinstance(value, str | UUID) else value

        self.operation, self.filters, self.label = operation, filters, label
        updated = any(name.startswith("updated_at_") for name in filters)
        self.sent = {
            name: value
            for name, value in filters.items()
            if not (updated and name.startswith("created_at_"))
        }
        wanted: dict[str, set[str]] = {}  # a service may spell an id or an address in another case
        for name, value in filters.items():
            if name in MEMBERS and not isinstance(value, bool):
                member, values = MEMBERS[name], value if isinstance(value, list) else [value]
                wanted.setdefault(member, set()).update(one.casefold() for one in values)
        statuses = wanted.get("status", set())
        for spellings in SPELLINGS.items():  # and a status otherwise
            both = {one.casefold() for one in spellings}
            statuses |= both if statuses & both else set()
        self.checks: list[Check] = []
        for name, value in filters.items():
            member, _, comparison = name.rpartition("_")
            if isinstance(value, Instant):
                self.checks.append(Check(name, member, value.ns, _COMPARISONS[comparison]))
            elif name in MEMBERS:
                member = MEMBERS[name]
                one = value if isinstance(value, bool) else frozenset(wanted[member])
                shown = (operation.name, member) not in _SELDOM_SHOWN
                self.checks.append(Check(name, member, one, shown=shown))
        step = MAX_FILTER_ENTRIES
        first = {
            called[name]: value[:step] if isinstance(value, list) else value
            for name, value in self.sent.items()
        }
        self.query = checked(operation.query, label, first)
        lists = {
            name: [value[start : start + step] for start in range(0, len(value), step)]
            for name, value in filters.items()
            if isinstance(value, list)
        }
        self.parts = [self]
        if any(len(hundreds) != 1 for hundreds in lists.values()):
            self.parts = [
                Asked(operation, {**filters, **dict(zip(lists, part, strict=True))}, label)
                for part in product(*lists.values())
            ]
        if "page_cursor" in filters and len(self.parts) > 1:
            raise InvalidRequest(
                f"{label}: page_cursor continues a single list; give at most {MAX_FILTER_ENTRIES} "
                "values of each filter with it; nothing was sent"
            )

    def but(self, **filters: Any) -> Asked:
        """The same with other ``filters``; ``None`` takes one away."""
        changed = {**self.filters, **filters}
        kept = {name: value for name, value in changed.items() if value is not None}
        return Asked(self.operation, kept, self.label)


class Check(NamedTuple):
    """One filter, to be held against the ``member`` of a row.

    ``wanted`` are texts without regard to case, a flag, or nanoseconds since 1970.
    ``shown``: whether the interface has the member in its records.
    """

    name: str
    member: str
    wanted: frozenset[str] | bool | int
    compare: Callable[[Any, Any], Any] = operator.eq
    shown: bool = True

    def verdict(self, found: Any) -> bool | None:
        """Whether a row that holds ``found`` belongs; ``None`` where the answer does not say."""
        if isinstance(found, Mapping):  # a secondary status
            name = found.get("name")
            found = name if isinstance(name, str) else None
        if found is None:
            return None
        if isinstance(self.wanted, frozenset):
            return str(found).casefold() in self.wanted
        return bool(self.compare(found.ns if isinstance(found, Instant) else found, self.wanted))


# ----------------------------------------------------------------------------- the walk


class Judged(NamedTuple):
    """Which rows of a page belong (``None``: all), the filters that the service ``ignored``, and
    those that some of the rows that belong leave open."""

    belong: list[bool] | None
    ignored: set[str]
    unchecked: set[str]


class Pages:
    """The pages of a list, one after another, whatever represents a page.

    ``params`` is what to send for the next page, until the walk has ``ended``. ``follow`` is told
    the cursor in each page, ``note`` the ids of its rows: they may be read in different threads.
    Both raise ``ProtocolError``, which begins with ``label``, where the walk would not end.
    """

    def __init__(self, label: str, params: list[tuple[str, str]]) -> None:
        self.label, self.params, self.ended = label, params, False
        self._first = [pair for pair in self.params if pair[0] != "page_cursor"]
        self._cursors: set[str] = set()
        # Ids that came before are known by their hash only, any number of them in 4 MiB, of which
        # the system gives what is used: a new one may be taken for one of them, but not all those
        # of many pages in succession.
        self._came = mmap.mmap(-1, LAST_PLACE + 1)
        self._empty = self._repeated = 0

    def follow(self, cursor: str | None) -> None:
        """Go on to the page of ``cursor``; the end of the list is an empty one or none."""
        if not cursor:
            self.ended = True
        elif cursor in self._cursors:
            raise self._endless(
                f"page {len(self._cursors) + 1} repeats the cursor {shorten(cursor)} of an earlier "
                "page; stopped rather than going in circles"
            )
        else:
            self._cursors.add(cursor)
            self.params = [*self._first, ("page_cursor", cursor)]

    def note(self, ids: Any) -> None:
        if self._any_new(ids):
            self._empty = self._repeated = 0
        elif len(ids):
            self._repeated += 1
        else:
            self._empty += 1
        if self._repeated > MAX_REPEATED_PAGES:
            raise self._endless(
                f"{self._repeated} pages in succession without a new row, and no end: the service "
                "seems to ignore page_cursor"
            )
        if self._empty > MAX_EMPTY_PAGES:
            raise self._endless(f"{self._empty} pages in succession without rows, and no end")

    def _any_new(self, ids: Any) -> bool:
        """Whether one of these did not come before; from now on they all did."""
        places = [hash(id_) & LAST_PLACE for id_ in ids]
        new = not all(map(self._came.__getitem__, places))
        for place in places:
            self._came[place] = 1
        return new

    def _endless(self, problem: str) -> ProtocolError:
        return ProtocolError(
            f"{self.label}: {problem}",
            hint="rows may be missing: ask again with another page size or narrower filters; if it "
            "stays, show it to the operator of the service",
            operation=self.label,
        )


class Walk(Pages):
    """The pages of what was asked; ``judge`` is told what the rows of each are, in place of
    ``note``. Where this is ``part_of`` a larger question, rows belong that belong to it: a service
    may cut the edges of a part more coarsely than named.
    """

    def __init__(self, asked: Asked, part_of: Asked | None = None) -> None:
        super().__init__(asked.label, asked.query.to_params())
        self.asked, self._whole = asked, part_of or asked
        self.checks = self._whole.checks

    def judge(self, ids: Any, verdicts: Sequence[tuple[Check, Sequence[bool | None]]]) -> Judged:
        """What becomes of the rows of a page: ``verdicts`` are those of each of ``checks``, which
        may be left out where all rows meet it."""
        self.note(ids)
        ignored = {check.name for check, met in verdicts if False in met}
        belong = None
        if ignored:
            belong = [False not in row for row in zip(*(met for _, met in verdicts), strict=True)]
        unchecked = {
            check.name
            for check, met in verdicts
            if check.shown and None in (met if belong is None else [*compress(met, belong)])
        }
        return Judged(belong, ignored & self._whole.sent.keys(), unchecked)


# ----------------------------------------------------------------------------- how values are given


def texts(value: Any, what: str) -> list[str]:
    """One text or any iterable of texts (an iterator, an array, a Series …) as a list, each once.

    Raises ``InvalidRequest`` beginning with ``what`` for anything else.
    """
    if isinstance(value, str | UUID):
        value = [value]
    plain = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | bytearray)
    if not plain or getattr(value, "ndim", 1) != 1:
        raise InvalidRequest(
            f"{what} is {a_type(value)}; give text or a list of texts; nothing was sent"
        )
    found = list(value)
    for number, entry in enumerate(found, start=1):
        if not isinstance(entry, str | UUID):
            raise InvalidRequest(
                f"{what}: entry {number} is {shorten(entry)}; give texts, without missing values; "
                "nothing was sent"
            )
    # members of enumerations would print their names
    plain_texts = (str.__str__(one) if isinstance(one, str) else str(one) for one in found)
    return list(dict.fromkeys(plain_texts))


def whole_number(value: Any, what: str, least: int | None = None) -> int:
    """``value``, an integer of Python's or NumPy's, as an ``int`` of at least ``least``.

    Raises ``InvalidRequest`` beginning with ``what`` for anything else.
    """
    wanted = "a whole number" if least is None else f"a whole number, {least} or more"
    try:
        flag = type(value).__name__ in ("bool", "bool_")  # NumPy has flags of its own
        number = None if flag else operator.index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        raise InvalidRequest(f"{what}={shorten(value)} is not accepted; give {wanted}")
    return number


def warn_of_filters(
    label: str, ignored: Iterable[str] = (), unchecked: Iterable[str] = (), *, stacklevel: int = 2
) -> None:
    """Say once what became of filters that the service ``ignored``, or that rows left open."""
    for names, text in (
        (ignored, "the service ignored {}: rows that do not belong are left out here"),
        (
            unchecked,
            "{} cannot be checked where a row does not show what it is about; such rows are kept",
        ),
    ):
        if names := sorted(names):
            warnings.warn(
                f"{label}: {text.format(', '.join(names))}",
                IgnoredFilterWarning,
                stacklevel=stacklevel + 1,
            )
