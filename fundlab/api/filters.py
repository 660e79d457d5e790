"""The filters of a list, once: how they may be given, what is sent, which rows belong.

A service may ignore a filter that the interface does not list, leave out the member that it is
about, or spell an id in another case. So each row is held against what was asked: it belongs, or it
does not, or the answer does not say, and then it is kept.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Final
from uuid import UUID

from fundlab.api.validation import MODEL_NAMES, checked
from fundlab.errors import InvalidRequest, UnheededFilterWarning, shorten, with_likely
from fundlab.models import MAX_FILTER_ENTRIES, SPELLINGS, Operation, Query
from fundlab.values import Instant

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


@dataclass(frozen=True)
class Check:
    """One filter, to be held against the ``member`` of a row.

    ``wanted`` are texts as ``_comparable`` makes them, a flag, or nanoseconds since 1970.
    ``shown``: whether the interface has the member in its records.
    """

    name: str
    member: str
    wanted: frozenset[str] | bool | int
    compare: Callable[[Any, Any], Any] = operator.eq
    shown: bool = True

    def meets(self, found: Any) -> Any:
        """Whether ``found`` (of moments also an array) is what the filter asks for."""
        if isinstance(self.wanted, frozenset):
            return _comparable(self.member, found) in self.wanted
        return self.compare(found, self.wanted)

    def verdict(self, found: object) -> bool | None:
        """Whether a row that holds ``found`` belongs; ``None`` where the answer does not say."""
        return None if found is None else bool(self.meets(found))


@dataclass(frozen=True)
class Asked:
    """A list operation and what was asked of it, as ``ask`` makes it.

    ``filters`` go by the names of the query model: lists of texts, instants, flags, texts.
    ``label`` is what the user called, for messages.
    """

    operation: Operation
    filters: Mapping[str, Any]
    label: str

    def but(self, **filters: Any) -> Asked:
        """The same with other ``filters``; ``None`` takes one away."""
        changed = {**self.filters, **filters}
        return replace(self, filters={n: v for n, v in changed.items() if v is not None})

    @cached_property
    def sent(self) -> Mapping[str, Any]:
        """The filters that the service gets: of the two times one only, as its order demands."""
        if any(name.startswith("updated_at_") for name in self.filters):
            return {n: v for n, v in self.filters.items() if not n.startswith("created_at_")}
        return self.filters

    @cached_property
    def query(self) -> Query:
        """What is sent for one of the ``parts``."""
        if self.operation.query is None:
            raise InvalidRequest(f"{self.operation.name} does not list anything")
        return self.operation.query(**self.sent)

    def parts(self) -> list[Asked]:
        """What to ask, one after another, to have it all: lists of values go out in hundreds.

        Nothing is to be asked where a list is empty: no row has one of its values.
        """
        step = MAX_FILTER_ENTRIES
        lists = {
            name: [value[start : start + step] for start in range(0, len(value), step)]
            for name, value in self.filters.items()
            if isinstance(value, list)
        }
        return [
            self.but(**dict(zip(lists, part, strict=True))) for part in product(*lists.values())
        ]

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """What a row must hold. Of two filters about one member it needs to meet one."""
        texts: dict[str, set[str]] = {}
        for name, value in self.filters.items():
            if name in MEMBERS and not isinstance(value, bool):
                member, values = MEMBERS[name], value if isinstance(value, list) else [value]
                texts.setdefault(member, set()).update(_comparable(member, one) for one in values)
        checks = []
        for name, value in self.filters.items():
            member, _, comparison = name.rpartition("_")
            if isinstance(value, Instant):
                checks.append(Check(name, member, value.ns, _COMPARISONS[comparison]))
            elif name in MEMBERS:
                member = MEMBERS[name]
                wanted = value if isinstance(value, bool) else frozenset(texts[member])
                shown = (self.operation.name, member) not in _SELDOM_SHOWN
                checks.append(Check(name, member, wanted, shown=shown))
        return tuple(checks)


def _comparable(member: str, text: str) -> str:
    """What texts are compared by: a service may spell an id or an address in another case."""
    return (SPELLINGS.get(text.upper(), text) if member == "status" else text).casefold()


def ask(
    operation: Operation, given: Mapping[str, Any], *, label: str, own: Iterable[str] = ()
) -> Asked:
    """What ``given`` (keywords; ``None`` is not given) asks of a list operation.

    ``own`` are keywords that the caller takes beside these. Raises ``InvalidRequest``, naming the
    keyword, for one that is not a filter and for a value that it cannot be.
    """
    if operation.query is None:
        raise InvalidRequest(f"{operation.name} does not list anything")
    fields = operation.query.model_fields
    filters: dict[str, Any] = {}
    keywords: dict[str, str] = {}
    for keyword, value in given.items():
        name = MODEL_NAMES.get(keyword, keyword.replace(".", "_"))
        if name not in fields:
            known = [*(field for field in fields if field != "page_cursor"), *own]
            raise InvalidRequest(
                f"{label}: {with_likely(keyword, known)} is not accepted; "
                f"accepted are {', '.join(known)}; nothing was sent"
            )
        if value is not None:
            filters[name] = _normalised(operation.query, name, value, f"{label}: {keyword}")
            keywords[name] = keyword
    asked = Asked(operation, filters, label)
    if "page_cursor" in filters and len(asked.parts()) > 1:
        raise InvalidRequest(
            f"{label}: page_cursor continues a single list; give at most {MAX_FILTER_ENTRIES} "
            "values of each filter with it; nothing was sent"
        )
    sample = {
        n: v[:MAX_FILTER_ENTRIES] if isinstance(v, list) else v for n, v in asked.sent.items()
    }
    checked(operation.query, label, {keywords[name]: value for name, value in sample.items()})
    return asked


def _normalised(query: type[Query], name: str, value: Any, what: str) -> Any:
    if name.rpartition("_")[2] in _COMPARISONS:
        try:
            return Instant.parse(value)
        except ValueError as error:
            problem = str(error)
        raise InvalidRequest(f"{what}: {problem}; nothing was sent")
    if name == "limit":
        return whole_number(value, what)
    if name in ("bookmarked_status", "is_test"):
        if str(value) in ("True", "False"):  # NumPy has flags of its own
            return str(value) == "True"
        raise InvalidRequest(f"{what}={shorten(value)} is not accepted; give True or False")
    if query.takes_list(name):
        return texts(value, what)
    return _text(value) if isinstance(value, str | UUID) else value


def texts(value: Any, what: str) -> list[str]:
    """One text or any iterable of texts (an iterator, an array, a Series …) as a list, each once.

    Raises ``InvalidRequest`` beginning with ``what`` for anything else.
    """
    if isinstance(value, str | UUID):
        return [_text(value)]
    plain = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | bytearray)
    if not plain or getattr(value, "ndim", 1) != 1:
        raise InvalidRequest(
            f"{what} is a {type(value).__name__}; give text or a list of texts; nothing was sent"
        )
    found = list(value)
    for number, entry in enumerate(found, start=1):
        if not isinstance(entry, str | UUID):
            raise InvalidRequest(
                f"{what}: entry {number} is {shorten(entry)}; give texts, without missing values; "
                "nothing was sent"
            )
    return list(dict.fromkeys(map(_text, found)))


def _text(value: str | UUID) -> str:
    """A plain ``str`` of the same characters: members of enumerations would print their names."""
    return str.__str__(value) if isinstance(value, str) else str(value)


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
    if names := ", ".join(sorted(set(ignored))):
        warnings.warn(
            f"{label}: the service ignored {names}: rows that do not belong are left out here",
            UnheededFilterWarning,
            stacklevel=stacklevel + 1,
        )
    if names := ", ".join(sorted(set(unchecked))):
        warnings.warn(
            f"{label}: {names} cannot be checked where a row does not show what it is about; such "
            "rows are kept",
            UnheededFilterWarning,
            stacklevel=stacklevel + 1,
        )
