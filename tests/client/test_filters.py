"""One filter, one answer: however it is given and whatever the service makes of it.

The client's lists and the loaders ask a service over real HTTP that holds a few records and answers
oddly, as it is set up to. Which rows must come is worked out here, by hand or in a few own lines.
"""

from __future__ import annotations

import math
import operator
import socket
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import hypothesis
import numpy as np
import pandas as pd
import pytest
import scripted
from hypothesis import given, settings
from hypothesis import strategies as st

import fundlab as fl
from fundlab.base.errors import IgnoredFilterWarning, InvalidRequest, ProtocolError
from fundlab.client.client import Client
from fundlab.models import OPERATIONS

LISTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "transfers": ("list_transfers", fl.load_transfers),
    "events": ("list_events", fl.load_events),
    "addresses": ("list_crypto_destination_addresses", fl.load_addresses),
    "fiat_accounts": ("list_fiat_accounts", fl.load_fiat_accounts),
    "deposit_instructions": ("list_fiat_deposit_instructions", fl.load_deposit_instructions),
}
PATHS = {
    "transfers": "transfers", "events": "events", "addresses": "crypto-destination-addresses",
    "fiat_accounts": "fiat-accounts", "deposit_instructions": "fiat-deposit-instructions",
}  # fmt: skip
ITEMS = {"events": "events", "addresses": "addresses"}
MEMBER = {
    "ids": "id", "ref_ids": "ref_id", "profile_ids": "profile_id", "identity_ids": "identity_id",
    "identity_id": "identity_id", "account_ids": "account_id", "group_ids": "group_id",
    "crypto_tx_hashes": "crypto_tx_hash", "statuses": "status", "type": "type",
    "secondary_statuses": "secondary_status", "crypto_networks": "crypto_network",
    "addresses": "address", "nicknames": "nickname", "bookmarked_status": "bookmarked",
    "is_test": "is_test",
}  # fmt: skip
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt, "lte": operator.le, "eq": operator.eq,
    "gte": operator.ge, "gt": operator.gt,
}  # fmt: skip
Query = list[tuple[str, str]]


@dataclass
class Odd:
    """A service: ``records`` of one list, in order, in pages of ``size``; ``honours`` filters.

    ``shown`` makes of a record what is sent of it. ``repeats``: pages that come twice;
    ``empties``: pages without rows before each. ``stuck``: the first page for ever, each time
    under a new cursor.
    """

    table: str = "transfers"
    records: list[dict[str, Any]] = field(default_factory=list)
    honours: set[str] = field(default_factory=set)
    size: int = 1000
    shown: Callable[[dict[str, Any]], dict[str, Any]] = dict
    repeats: bool = False
    empties: bool = False
    stuck: bool = False
    cursor_name: str = "next_page_cursor"
    asked: list[Query] = field(default_factory=list)

    def answer(self, connection: socket.socket, request: scripted.Received) -> None:
        url = urlsplit(request.target)
        query = parse_qsl(url.query)
        self.asked.append(query)
        if url.path.rpartition("/")[2] != PATHS[self.table]:
            connection.sendall(scripted.problem(404))
            return
        one = dict(query)
        rows = [row for row in self.records if self.selects(row, query)]
        rows.sort(key=lambda row: row.get("created_at") or "", reverse=one.get("order") == "DESC")
        size = min(self.size, int(one["limit"]))
        step, kind = (int(part) for part in one.get("page_cursor", "0.0").split(".")[:2])
        pages = [rows[at : at + size] for at in range(0, len(rows), size)] or [[]]
        if self.stuck:
            sent, following = pages[0], f"{step + 1}.0"
        elif self.empties and kind == 0:
            sent, following = [], f"{step}.1"
        elif self.repeats and kind < 2:
            sent, following = pages[step], f"{step}.2"
        else:
            sent = pages[step]
            following = f"{step + 1}.0" if step + 1 < len(pages) else ""
        items = ITEMS.get(self.table, "items")
        page = {items: [self.shown(row) for row in sent], self.cursor_name: following}
        connection.sendall(scripted.answer(page))

    def selects(self, row: dict[str, Any], query: Query) -> bool:
        """Whether the filters that it honours let ``row`` pass."""
        return all(
            self._passes(row, name, {v for n, v in query if n == name})
            for name in self.honours & {n for n, _ in query}
        )

    def _passes(self, row: dict[str, Any], name: str, values: set[str]) -> bool:
        if name in MEMBER:
            held = row.get(MEMBER[name])
            held = held.get("name") if isinstance(held, dict) else held
            return (str(held).lower() if isinstance(held, bool) else held) in values
        member, _, comparison = name.partition(".")
        (bound,) = values
        return bool(row.get(member)) and COMPARE[comparison](ns(row[member]), ns(bound))


def ns(text: str) -> int:
    return pd.Timestamp(text).value


def transfer(number: int, **members: Any) -> dict[str, Any]:
    created = f"2026-03-01T00:{number // 60:02d}:{number % 60:02d}Z"
    return {
        "id": f"t-{number}", "customer_id": "c", "profile_id": f"P-{number % 3}",
        "amount": "1.00", "fee": "0", "total": "1.00", "asset": "USD", "direction": "CREDIT",
        "type": "WIRE_DEPOSIT", "status": "COMPLETED", "created_at": created,
        "updated_at": created, **members,
    }  # fmt: skip


@contextmanager
def served(odd: Odd) -> Iterator[Client]:
    with scripted.running() as server:
        server.script(odd.answer)
        with fl.connect(
            base_url=server.url, auth_url=server.url, client_id="c", client_secret="s" * 20
        ) as client:
            yield client


def listed(client: Client, table: str, **filters: Any) -> list[str]:
    return sorted(row.id for row in getattr(client, LISTS[table][0])(**filters))


def loaded(client: Client, table: str, **filters: Any) -> list[str]:
    return sorted(LISTS[table][1](client, **filters)["id"])


BOTH = pytest.mark.parametrize("rows_of", [listed, loaded])
Rows = Callable[..., list[str]]

# ----------------------------------------------------------------- however a filter is given


@pytest.mark.parametrize(
    "values",
    [
        lambda: (one for one in ("P-1", "P-2")),
        lambda: map(str.upper, ["p-1", "p-2"]),
        lambda: {"P-1": 0, "P-2": 0}.keys(),
        lambda: {"P-1", "P-2"},
        lambda: ("P-1", "P-2"),
        lambda: np.array(["P-1", "P-2"]),
        lambda: pd.Series(["P-1", "P-2"], index=[7, 3]),
        lambda: pd.Series(["P-1", "P-2", "P-1"], dtype="category"),
        lambda: pd.Index(["P-1", "P-2"], dtype="string"),
    ],
    ids=["generator", "map", "keys", "set", "tuple", "array", "Series", "categories", "Index"],
)
@pytest.mark.parametrize("honours", [set(), {"profile_ids"}], ids=["ignored", "honoured"])
@BOTH
@pytest.mark.filterwarnings("ignore:.*the service ignored profile_ids")
def test_a_filter_is_any_iterable_of_texts(
    rows_of: Rows, honours: set[str], values: Callable[[], Any]
) -> None:
    odd = Odd(records=[transfer(n) for n in range(6)], honours=honours)
    with served(odd) as client:
        assert rows_of(client, "transfers", profile_ids=values()) == ["t-1", "t-2", "t-4", "t-5"]
    assert sorted(v for n, v in odd.asked[0] if n == "profile_ids") == ["P-1", "P-2"]


@pytest.mark.parametrize(
    "empty",
    [[], (), set(), iter(()), np.array([], str), pd.Series([], dtype="string")],
    ids=["list", "tuple", "set", "iterator", "array", "Series"],
)
@BOTH
def test_of_no_values_come_no_rows_and_nothing_is_asked(rows_of: Rows, empty: Any) -> None:
    odd = Odd(records=[transfer(n) for n in range(6)])
    with served(odd) as client:
        assert rows_of(client, "transfers", profile_ids=empty) == []
        assert len(fl.load_balances(client, profile_ids=[])) == 0
    assert odd.asked == []


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"profile_ids": ["P-1", None]}, "profile_ids: entry 2 is None; give texts, without miss"),
        ({"profile_ids": pd.Series(["P-1", math.nan])}, "profile_ids: entry 2 is nan; give texts"),
        ({"profile_ids": pd.DataFrame({"profile_ids": ["P-1"]})}, "profile_ids is a DataFrame"),
        ({"profile_ids": {"P-1": 1}}, "profile_ids is a dict; give text or a list of texts"),
        ({"profile_ids": b"P-1"}, "profile_ids is a bytes"),
        ({"profile_ids": 5}, "profile_ids is an int"),
        ({"created_at_gte": 5}, "created_at_gte: 5 is not a time"),
        (
            {"created_at_gte": np.datetime64("NaT", "ns")},
            r"created_at_gte: \w+\.datetime64\('NaT'.*\) is not a time",
        ),
        ({"created_at_gte": pd.NaT}, "created_at_gte: NaT is not a time"),
        ({"created_at_gte": np.datetime64("9999-01-01")}, "outside the years 1678 to 2261"),
    ],
)
@BOTH
def test_what_a_filter_cannot_be_is_named(rows_of: Rows, bad: dict[str, Any], says: str) -> None:
    odd = Odd()
    with served(odd) as client, pytest.raises(InvalidRequest, match=says):
        rows_of(client, "transfers", **bad)
    assert odd.asked == []


@pytest.mark.parametrize(
    "moment",
    [
        date(2026, 3, 1),
        np.datetime64("2026-03-01"),
        np.datetime64("2026-03-01T00:00:00.000000000"),
        pd.Series(pd.to_datetime(["2026-03-01"])).to_numpy()[0],
    ],
    ids=repr,
)
@BOTH
def test_days_and_numpy_times_are_in_utc(rows_of: Rows, moment: Any) -> None:
    odd = Odd(records=[transfer(n) for n in range(6)])
    with served(odd) as client:
        assert len(rows_of(client, "transfers", created_at_gte=moment)) == 6
        assert len(fl.load_transfers(client, since=moment)) == 6
    for query in odd.asked:
        assert dict(query)["created_at.gte"].rstrip("Z").rstrip("0.") == "2026-03-01T00:00:"


def test_numpy_times_keep_their_nanoseconds() -> None:
    odd = Odd()
    with served(odd) as client:
        fl.load_transfers(client, since=np.datetime64("2026-03-01T01:02:03.123456789"))
    assert dict(odd.asked[0])["created_at.gte"] == "2026-03-01T01:02:03.123456789Z"


def test_numpy_integers_count() -> None:
    odd = Odd(records=[transfer(n) for n in range(6)])
    with served(odd) as client:
        rows = client.list_transfers(page_size=np.int64(2), max_rows=np.int32(3))
        assert len(list(rows)) == 3
        assert len(fl.load_transfers(client, workers=np.int64(2), limit=np.int16(4))) == 6
        for odd_number in (True, np.bool_(True), 2.0, "2", np.float64(2)):
            with pytest.raises(InvalidRequest, match=r"workers=.* give a whole number, 1 or more"):
                fl.load_transfers(client, workers=odd_number)


# ------------------------------------------------------ whatever the service makes of a filter


@pytest.mark.parametrize("name", ["identity_ids", "account_ids", "ref_ids", "profile_ids", "type"])
@BOTH
def test_rows_that_do_not_show_what_a_filter_is_about_are_kept_with_one_warning(
    rows_of: Rows, name: str
) -> None:
    value = "WIRE_DEPOSIT" if name == "type" else "x"
    member = MEMBER[name]
    odd = Odd(
        records=[transfer(n, **{member: value}) for n in range(5)],
        honours={name},
        shown=lambda row: {key: text for key, text in row.items() if key != member},
        size=2,
    )
    with served(odd) as client, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(rows_of(client, "transfers", **{name: [value]})) == 5
    (warning,) = caught
    assert warning.category is IgnoredFilterWarning
    assert f"{name} cannot be checked" in str(warning.message)
    assert warning.filename == __file__


def test_rows_without_the_time_that_was_asked_for_are_kept_with_a_warning() -> None:
    odd = Odd(records=[transfer(1), transfer(2, created_at=None)])
    with (
        served(odd) as client,
        pytest.warns(IgnoredFilterWarning, match="created_at_gte cannot be checked"),
    ):
        found = [one.id for one in client.list_transfers(created_at_gte="2020-01-01T00:00:00Z")]
    assert len(found) == 2


@BOTH
def test_ids_compare_without_regard_to_case(rows_of: Rows) -> None:
    mine, other = "6f1c9d2e-0b7a-4c59-8d3e-aa00bb11cc22", "6f1c9d2e-0b7a-4c59-8d3e-aa00bb11cc23"
    names = ("ids", "ref_ids", "profile_ids", "identity_ids", "account_ids", "group_ids")
    members = [MEMBER[name] for name in names]
    rows = [transfer(0) | dict.fromkeys(members, mine.upper())]
    rows += [transfer(1) | dict.fromkeys(members, other.upper())]
    with served(Odd(records=rows)) as client:
        shown = [mine if rows_of is loaded else mine.upper()]  # a table has them in small letters
        for name in names:
            with pytest.warns(IgnoredFilterWarning, match=f"ignored {name}"):
                assert rows_of(client, "transfers", **{name: [mine]}) == shown
            with pytest.warns(IgnoredFilterWarning, match=f"ignored {name}"):
                assert rows_of(client, "transfers", **{name: uuid.UUID(mine)}) == shown


@BOTH
def test_a_secondary_status_whose_name_is_no_text_is_not_checked(rows_of: Rows) -> None:
    rows = [transfer(n) | {"secondary_status": {"name": n and "x"}} for n in (0, 1)]
    with served(Odd(records=rows)) as client, pytest.warns(IgnoredFilterWarning):
        found = rows_of(client, "transfers", secondary_statuses=["x"])
    assert found == [row["id"] for row in rows]


@BOTH
def test_addresses_and_nicknames_compare_without_regard_to_case(rows_of: Rows) -> None:
    base = {"crypto_network": "BASE", "status": "APPROVED", "bookmarked": True}
    rows = [{"id": "a", "address": "0xabc", "nickname": "Büro"} | base]
    odd = Odd("addresses", rows)
    with served(odd) as client:
        assert rows_of(client, "addresses", addresses=["0xABC"]) == ["a"]
        assert rows_of(client, "addresses", nicknames="BÜRO") == ["a"]


@BOTH
def test_created_and_updated_filter_together(rows_of: Rows) -> None:
    rows = [transfer(n, updated_at=f"2026-03-02T00:00:{n:02d}Z") for n in range(9)]
    odd = Odd(records=rows)
    with served(odd) as client, pytest.warns(IgnoredFilterWarning, match="ignored updated_at_lt"):
        found = rows_of(
            client, "transfers", created_at_gte=rows[3]["created_at"],
            updated_at_lt=rows[6]["updated_at"],
        )  # fmt: skip
    assert found == ["t-3", "t-4", "t-5"]
    assert {name for name, _ in odd.asked[0]} == {"limit", "order", "order_by", "updated_at.lt"}


@BOTH
def test_either_identity_will_do(rows_of: Rows) -> None:
    rows = [{"id": one, "identity_id": one, "address": one} for one in "abc"]
    with (
        served(Odd("addresses", rows)) as client,
        pytest.warns(IgnoredFilterWarning, match="ignored identity_id, identity_ids"),
    ):
        assert rows_of(client, "addresses", identity_id="a", identity_ids=["b"]) == ["a", "b"]


# ------------------------------------------------------------------- more than a hundred values


@pytest.mark.parametrize("honours", [{"ids"}, set()], ids=["honoured", "ignored"])
@BOTH
@pytest.mark.filterwarnings("ignore:.*the service ignored ids")
def test_more_than_a_hundred_values_are_asked_in_hundreds(rows_of: Rows, honours: set[str]) -> None:
    odd = Odd(records=[transfer(n) for n in range(400)], honours=honours, size=30)
    wanted = [f"t-{n}" for n in range(0, 400, 2)] + ["nowhere", "t-0"]
    with served(odd) as client:
        assert rows_of(client, "transfers", ids=iter(wanted)) == sorted({*wanted} - {"nowhere"})
    assert {sum(n == "ids" for n, _ in query) for query in odd.asked} == {100, 1}


def test_hundreds_come_in_the_order_of_one_list() -> None:
    odd = Odd(records=[transfer(n) for n in range(300)], honours={"ids"})
    wanted = [f"t-{n * 7 % 300}" for n in range(300)]
    with served(odd) as client:
        newest = [row.id for row in client.list_transfers(ids=wanted, max_rows=4)]
        oldest = [row.id for row in client.list_transfers(ids=wanted, order="ASC", max_rows=4)]
    assert newest == ["t-299", "t-298", "t-297", "t-296"]
    assert oldest == ["t-0", "t-1", "t-2", "t-3"]


def test_two_long_filters_are_asked_in_every_combination() -> None:
    odd = Odd(records=[transfer(n) for n in range(300)], honours={"ids", "profile_ids"})
    ids, profiles = [f"t-{n}" for n in range(150)], [f"P-{n}" for n in range(1, 120)]
    with served(odd) as client:
        found = loaded(client, "transfers", ids=ids, profile_ids=profiles)
    assert found == sorted(f"t-{n}" for n in range(150) if n % 3)
    assert len(odd.asked) == 4


def test_balances_of_more_than_a_hundred_profiles() -> None:
    odd = Odd(records=[transfer(n) for n in range(9)], honours={"profile_ids"})
    profiles = [f"P-{n}" for n in range(1, 102)]
    with served(odd) as client:
        assert len(fl.load_balances(client, profile_ids=profiles)) == 0  # every balance is 404
    searched = [query for query in odd.asked if dict(query).get("limit")]
    assert [sum(n == "profile_ids" for n, _ in query) for query in searched] == [100, 1]
    assert len(odd.asked) == 4


def test_balances_that_cannot_be_found_are_warned_of() -> None:
    def nameless(row: dict[str, Any]) -> dict[str, Any]:
        return {member: value for member, value in row.items() if member != "profile_id"}

    odd = Odd(records=[transfer(n) for n in range(9)], shown=nameless)
    with (
        served(odd) as client,
        pytest.warns(IgnoredFilterWarning, match="load_balances: profile_ids cannot be checked"),
    ):
        assert len(fl.load_balances(client, profile_ids=["P-1"])) == 0


# --------------------------------------------------------------------------- lists without an end


@pytest.mark.parametrize("workers", [1, 4])
def test_a_load_ends_where_the_service_ignores_page_cursor(workers: int) -> None:
    odd = Odd(records=[transfer(n) for n in range(6)], stuck=True, size=3)
    with served(odd) as client:
        for ask in (
            lambda: list(client.list_transfers()),
            lambda: fl.load_transfers(client, workers=workers),
            lambda: fl.load_balances(client),
        ):
            odd.asked.clear()
            with pytest.raises(ProtocolError, match="without a new row, and no end: the service s"):
                ask()
            assert len(odd.asked) < 60


# ------------------------------------------------------------- every filter and every odd answer

TIMES = (
    "2026-03-01T00:00:00Z", "2026-03-01T00:00:00.000000001Z", "2026-03-01T01:00:00.5+01:00",
    "2026-03-02T00:00:00Z", "2025-12-31T23:59:59.999999999Z",
)  # fmt: skip
TEXTS = ("a", "A", "b", "Büro", "BÜRO", "straße")
NAMES = ("completed", "HELD", "held")
VALUES: dict[str, tuple[Any, ...]] = {
    "status": ("COMPLETED", "COMPLETE", "PENDING", "FAILED"),
    "type": ("WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "NEW_KIND"),
    "crypto_network": ("BASE", "SOLANA"),
    "bookmarked": (True, False),
    "is_test": (True, False),
    "secondary_status": (*({"name": n, "detail": "d"} for n in NAMES), {}, {"name": 5}),
    "created_at": TIMES,
    "updated_at": TIMES,
}
"""What a member may hold; texts where nothing is said. Any may be missing, or null."""


def filter_names(table: str) -> list[str]:
    fields = OPERATIONS[LISTS[table][0]].query.model_fields  # type: ignore[union-attr]
    return [name for name in fields if name not in ("limit", "order", "order_by", "page_cursor")]


def member_of(name: str) -> str:
    return MEMBER.get(name) or name.rpartition("_")[0]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Odd, dict[str, Any], int]:
    """A service with a few records, the filters to ask it with, and the workers that do."""
    table = draw(st.sampled_from([*sorted(LISTS), "addresses", "transfers", "transfers"]))
    names = filter_names(table)
    members = sorted({member_of(name) for name in names} - {"id"})
    records = []
    for number in range(draw(st.integers(2, 8))):
        record: dict[str, Any] = {"id": f"{draw(st.sampled_from('rR'))}-{number}"}
        for member in members:
            kept = draw(st.sampled_from(["held", "held", "held", "null", "missing"]))
            if kept != "missing":
                values = VALUES.get(member, TEXTS)
                record[member] = draw(st.sampled_from(values)) if kept == "held" else None
        records.append(record)
    filters = {}
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)):
        member, pool = member_of(name), VALUES.get(member_of(name), TEXTS)
        if member == "id":
            pool = [f"r-{n}" for n in range(6)]
        if member == "secondary_status":
            pool = NAMES
        one = st.sampled_from(pool)
        several = (name.endswith("s") and name != "bookmarked_status") or (table, name) == (
            "transfers",
            "type",
        )
        value = draw(
            st.lists(one, min_size=draw(st.integers(0, 2)), max_size=4) if several else one
        )
        if several and value and draw(st.integers(0, 5)) == 0:
            value = [f"other-{n}" for n in range(120)] + value
        filters[name] = value
    hidden = draw(st.sets(st.sampled_from(members), max_size=2))
    spell = draw(st.sampled_from([str, str.upper, str.lower, str.swapcase]))
    respelled = draw(
        st.sets(st.sampled_from(sorted({"id", *members} - {"type", "crypto_network"})))
    )

    def shown(record: dict[str, Any]) -> dict[str, Any]:
        sent = {member: value for member, value in record.items() if member not in hidden}
        for member in respelled & sent.keys():
            if isinstance(sent[member], str) and member not in VALUES:
                sent[member] = spell(sent[member])
        return sent

    sent_names = {n.replace("_at_", "_at.") if "_at_" in n else n for n in names}
    odd = Odd(
        table, records, draw(st.sets(st.sampled_from(sorted(sent_names)))),
        size=draw(st.integers(1, 4)), shown=shown, repeats=draw(st.booleans()),
        empties=draw(st.booleans()),
        cursor_name=draw(st.sampled_from(["next_page_cursor", "next_page"])),
    )  # fmt: skip
    return odd, filters, draw(st.sampled_from([1, 1, 2]))


def said(row: dict[str, Any], filters: dict[str, Any], name: str) -> bool | None:
    """Whether ``row``, as it was sent, meets a filter; ``None`` where it does not say."""
    member, value = member_of(name), filters[name]
    held = row.get(member)
    if member == "secondary_status" and held is not None:
        held = held.get("name") if isinstance(held.get("name"), str) else None
    if held is None:
        return None
    if member in ("created_at", "updated_at"):
        return COMPARE[name.rpartition("_")[2]](ns(held), ns(value))
    if isinstance(value, bool):
        return bool(held == value)
    same = [n for n in filters if member_of(n) == member]
    wanted = [
        v for n in same for v in (filters[n] if isinstance(filters[n], list) else [filters[n]])
    ]
    alias = {"complete": "completed"} if member == "status" else {}
    folded = [text.casefold() for text in (held, *wanted)]
    first, *rest = [alias.get(text, text) for text in folded]
    return first in rest


def expected(odd: Odd, filters: dict[str, Any]) -> list[str]:
    if any(value == [] for value in filters.values()):
        return []
    updated = any(name.startswith("updated_at") for name in filters)
    asked = [
        (name.replace("_at_", "_at."), str(one).lower() if isinstance(one, bool) else one)
        for name, value in filters.items()
        if not (updated and name.startswith("created_at"))
        for one in (value if isinstance(value, list) else [value])
    ]
    rows = [odd.shown(row) for row in odd.records if odd.selects(row, asked)]
    return sorted(
        row["id"] for row in rows if all(said(row, filters, name) is not False for name in filters)
    )


def answered(
    rows_of: Rows, client: Client, odd: Odd, filters: dict[str, Any], **more: Any
) -> tuple[list[str], set[str]]:
    """The ids that came, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ids = rows_of(client, odd.table, **filters, **more)
    texts = [str(w.message) for w in caught if w.category is IgnoredFilterWarning]
    kinds = {"ignored" if "ignored" in text else "unchecked" for text in texts}
    assert len(kinds) == len(texts)
    return ids, kinds


@pytest.mark.parametrize("cases_run", [100, pytest.param(5_000, marks=pytest.mark.campaign)])
def test_lists_and_loaders_give_the_same_rows_for_every_filter_and_odd_answer(
    cases_run: int, seed: int, figure: Callable[[str], None]
) -> None:
    with scripted.running() as server:
        client = fl.connect(
            base_url=server.url, auth_url=server.url, client_id="c", client_secret="s" * 20
        )

        @hypothesis.seed(seed)
        @settings(max_examples=cases_run, deadline=None, database=None)
        @given(cases())
        def check(case: tuple[Odd, dict[str, Any], int]) -> None:
            odd, filters, workers = case
            server.script(odd.answer)
            found = answered(listed, client, odd, filters)
            assert found[0] == expected(odd, filters)
            assert answered(loaded, client, odd, filters, workers=workers) == found

        with client:
            check()
    figure(f"lists and loaders: the same rows and warnings in {cases_run:,} cases")
