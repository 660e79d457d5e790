"""Observations and what the transfers moved, publication by publication, of tables made by hand."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from fundlab.base.values import Instant
from fundlab.evidence import observations
from fundlab.evidence.observations import (
    Account,
    Accounts,
    Moves,
    Observation,
    Problem,
    _Break,
    accounts_of,
    asserted_balances,
    broken_changes,
    moved_since,
)
from fundlab.store.parts import FROM, TO
from fundlab.tables.schema import INSTANT_TYPE

USD = ("p", "USD")
MONEY = pa.decimal128(38, 18)


def seen(reported: str, moved: str, seq: int = 1, at: int = 0) -> Observation:
    return Observation(at, seq, Decimal(reported), Decimal(moved))


def account(*observed: Observation, **more: Any) -> Account:
    given: dict[str, Any] = {
        "profile_id": "p", "asset": "USD", "opening": Decimal(0), "observations": observed,
        "due": Decimal(0), "now": Decimal(0), "newest": 1, "answered": 0, "unanswered": None,
        "expected": True,
    }  # fmt: skip
    money = ("opening", "due", "now")
    return Account(**given | {
        name: Decimal(value) if name in money and value is not None else value
        for name, value in more.items()
    })  # fmt: skip


# --------------------------------------------------------------------------------- a balance


@pytest.mark.parametrize(
    ("observed", "more", "proof"),
    [
        ([], {}, "never_reported"),
        ([], {"answered": 1, "unanswered": 404}, "no_longer_reported"),
        ([], {"answered": 1, "unanswered": 403}, "no_longer_reported"),
        ([], {"answered": 0, "unanswered": 404}, "never_reported"),
        ([seen("5", "5")], {"now": "5", "answered": 1}, "now"),
        ([seen("5", "5")], {"now": "5", "answered": 1, "unanswered": 403}, "no_longer_reported"),
        ([seen("5", "5")], {"now": "5", "answered": 1, "unanswered": 200}, "now"),
        ([seen("5", "5")], {"now": "5", "newest": 2}, "until"),
        ([seen("5", "5", 2)], {"now": "5"}, "now"),
        ([seen("5", "5")], {"now": "6"}, "until"),
        ([seen("5", "5")], {"now": None}, "until"),
        ([seen("0", "0")], {"now": None}, "now"),
        ([seen("1", "1"), seen("2", "2"), seen("3", "3")], {"now": "3"}, "now"),
        (
            [seen("1", "1", 1), seen("2", "2", 1), seen("2", "2", 3)],
            {"now": "2", "newest": 3},
            "now",
        ),
    ],
)
def test_how_far_a_balance_is_proved(observed: Any, more: Any, proof: str) -> None:
    assert account(*observed, **more).proof == proof


def test_what_a_balance_differs_by_and_until_when_it_agreed() -> None:
    one = account(seen("5", "5", at=1), seen("8", "7", at=2), opening="0")
    assert (one.difference, one.proved_until) == (Decimal(1), 1)
    late = account(seen("5", "5", at=1), seen("8", "7", at=2), opening="1")
    assert (late.difference, late.proved_until) == (Decimal(0), 2)
    assert account(seen("5", "5", at=1), seen("7", "7", at=2)).proved_until == 2
    assert account(seen("6", "5", at=1)).proved_until is None
    bare = account(due="3", now="4")
    assert (bare.difference, bare.moved_since, bare.proved_until) == (Decimal(-3), Decimal(1), None)
    assert account(seen("5", "5"), now="9").moved_since == Decimal(4)


@pytest.mark.parametrize(
    ("offs", "broken"),
    [
        ("", ""), ("0", ""), ("1", "0"), ("11", "0"), ("12", "01"), ("10", ""), ("1012", "23"),
        ("101", "2"), ("010", ""), ("0110", ""), ("01101", "4"),
    ],
)  # fmt: skip
def test_at_which_observations_the_difference_changed(offs: str, broken: str) -> None:
    every = [seen(off, "0", at=n) for n, off in enumerate(offs)]
    found = account(*every).broken
    assert [now.at for _, now in found] == [int(n) for n in broken]
    assert [before and before.at for before, _ in found] == [
        int(n) - 1 if n != "0" else None for n in broken
    ]


def test_which_balances_count() -> None:
    every = (
        account(seen("1", "1"), seen("1", "1")), account(due="1"), account(),
        account(seen("2", "2")), account(expected=False),
    )  # fmt: skip
    whole = Accounts(every, None, 9)
    assert whole.compared == [every[0], every[1], every[3]]
    assert whole.unobserved == [every[2]]
    assert (whole.intervals, Accounts(every, 5, 9).intervals) == (3, 1)


def test_a_problem_in_one_line() -> None:
    one = Problem("t", "rule", "w", "a", "b")
    assert str(one) == "t: rule: w: b, not a"
    assert str(Problem("t", "rule", "w", "a", "b", "c\x1b")) == "t: rule: w: b, not a; c�"
    assert observations.plain(None) == "nothing"
    assert observations.plain(Decimal("10.500000000000000000")) == "10.5"


# -------------------------------------------------------------------------- what is asked for


def snapshot(**more: Any) -> Any:
    given: dict[str, Any] = {
        "publications": [], "limit": 3, "begins": None, "accepted_gone": {}, "files": [],
        "last": None, "gone_ids": pa.array([], pa.string()),
    }  # fmt: skip
    return SimpleNamespace(**given | more)


def looked(seq: int, **query: Any) -> Any:
    return SimpleNamespace(seq=seq, query=query)


def found(
    sums: Any, learned: Any, monkeypatch: pytest.MonkeyPatch, *, observed: Any = None,
    gone: Any = None, looks: Any = (), **transfers: Any,
) -> dict[tuple[str, str], Account]:  # fmt: skip
    monkeypatch.setattr(observations, "_observations", lambda *_: observed or {})
    monkeypatch.setattr(observations, "_gone_changes", lambda _: gone or {})
    standing = Counter(dict.fromkeys(sums, 1))
    balances = snapshot(publications=[*looks], last=looks[-1] if looks else None)
    accounts = accounts_of(snapshot(**transfers), balances, (sums, learned, standing, 7))
    assert accounts.transfers == 7 - len(transfers.get("accepted_gone", ()))
    return {(one.profile_id, one.asset): one for one in accounts.every}


@pytest.mark.parametrize(
    ("learned", "look", "query", "due"),
    [
        (1, None, {}, "0"), (1, 1, {}, "5"), (1, 2, {}, "8"), (2, 1, {}, "0"), (2, 2, {}, "8"),
        (1, 2, {"unsettled": [USD]}, "0"), (1, 2, {"unanswered": [(*USD, 403)]}, "0"),
        (1, 2, {"unanswered": [(*USD, 404)]}, "8"),
        (1, 2, {"unanswered": [("q", "USD", 403)]}, "8"),
    ],
)  # fmt: skip
def test_what_was_due_when_the_balances_were_last_read(
    learned: int, look: int | None, query: Any, due: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {USD: [(1, Decimal(5)), (2, Decimal(8))]}
    looks = [] if look is None else [looked(look, **query)]
    one = found(sums, {USD: learned}, monkeypatch, looks=looks)[USD]
    assert (one.due, one.now, one.expected, one.newest) == (Decimal(due), Decimal(8), True, 3)
    (status,) = {status for *pair, status in query.get("unanswered", ()) if tuple(pair) == USD} or {
        None
    }
    assert one.unanswered == status


def test_what_is_accepted_as_gone_is_due_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {USD: [(1, Decimal(5))]}
    for first, due in ((1, "3"), (2, "3"), (3, "5")):
        gone = {USD: [(first, Decimal(2))]}
        looks = [looked(2 if first != 1 else 0)] if first != 1 else []
        one = found(sums, {USD: 1}, monkeypatch, gone=gone, looks=looks, accepted_gone={"t": 1})[
            USD
        ]
        assert one.now == Decimal(3)
        assert one.due == (Decimal(due) if looks else Decimal(0))
        assert not one.expected  # the one that counted is gone
    only = found(
        {}, {}, monkeypatch, gone={USD: [(1, Decimal(2))]}, observed={USD: [seen("1", "1")]}
    )
    assert only[USD].now == Decimal(-2)


def test_which_balances_the_service_has_or_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [
        looked(4, moving=[("m", "USD", "1")], unsettled=[("old", "USD")]),
        looked(2, moving=[("m", "USD", "1")], unsettled=[("u", "USD")],
               unanswered=[("f", "USD", 403), ("n", "USD", 404)]),
    ]  # fmt: skip
    observed = {
        ("o", "USD"): [seen("9", "2", 1), seen("9", "2", 2)],
        ("m", "USD"): [seen("1", "1", 3)],
    }
    every = found({}, {}, monkeypatch, observed=observed, looks=looks, begins=5)
    assert [pair[0] for pair in every] == ["f", "m", "o", "u"]
    assert {pair[0]: one.answered for pair, one in every.items()} == {
        "f": 0, "m": 4, "o": 2, "u": 0,
    }  # fmt: skip
    assert every["o", "USD"].opening == Decimal(7)
    assert every["f", "USD"].unanswered == 403
    assert all(one.expected and one.now is None for one in every.values())
    whole = found({}, {}, monkeypatch, observed=observed)
    assert whole["o", "USD"].opening == Decimal(0)


@pytest.mark.parametrize(
    ("last", "limit", "gone", "reads"),
    [
        (None, 3, {}, False), (looked(3), 3, {}, False), (looked(4), 3, {}, False),
        (looked(2), 3, {}, True), (looked(3, unsettled=[]), 3, {}, True),
        (looked(3, unanswered=[]), 3, {}, True), (looked(3), 3, {"t": 3}, False),
        (looked(3), 3, {"t": 4, "u": 1}, True),
    ],
)  # fmt: skip
def test_when_the_transfers_are_read_for_what_moved_since(
    last: Any, limit: int, gone: Any, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = (
        account(seen("5", "5"), now="7.50"),
        account(seen("5", "5"), now="5"),
        account(now="1"),
    )
    monkeypatch.setattr(observations, "read_accounts", lambda *_: Accounts(every, None, 1))
    rows = moved_since(snapshot(limit=limit, accepted_gone=gone), snapshot(last=last))
    assert rows == [["p", "USD", "2.5"]] * reads


def test_every_observation_with_its_opening_oldest_first() -> None:
    every = (
        account(seen("6", "5", at=2), opening="1"), account(seen("7", "7", at=1), asset="BTC"),
        account(seen("7", "7", at=2), asset="BTC"),
    )  # fmt: skip
    for opened, rebuilt in ((False, "5"), (True, "6")):
        more = {"opened": True} if opened else {}
        table = asserted_balances(Accounts(every, None, 1), **more)
        assert table.column("observed_at").cast(pa.int64()).to_pylist() == [1, 2, 2]
        assert table.column("asset").to_pylist() == ["BTC", "BTC", "USD"]
        assert table.column("complete").to_pylist() == [True] * 3
        names = ("reported", "rebuilt", "difference")
        (last,) = table.select(names).slice(2).to_pylist()
        assert [int(last[name]) for name in names] == [6, int(rebuilt), 6 - int(rebuilt)]
    late = asserted_balances(Accounts(every, 5, 1))
    assert late.column("complete").to_pylist() == [False] * 3


# ------------------------------------------------------------------------ what they moved it by


def rows_of(*rows: Any) -> pa.Table:
    """Of ``(id, since, until)`` or with more members: a completed credit of 5 USD."""
    base = {
        "profile_id": "p", "asset": "USD", "balance_asset": None, "direction": "CREDIT",
        "status": "COMPLETED", "total": Decimal(5), "created_at": 100, "updated_at": 100,
    }  # fmt: skip
    made = [base | {"id": id_, FROM: since, TO: until} | more for id_, since, until, more in rows]
    schema = pa.schema([
        *((name, pa.string()) for name in ("id", "profile_id", "asset", "balance_asset",
                                           "direction", "status")),
        ("total", MONEY), ("created_at", INSTANT_TYPE), ("updated_at", INSTANT_TYPE),
        (FROM, pa.int32()), (TO, pa.int32()),
    ])  # fmt: skip
    return pa.Table.from_pylist(made, schema=schema)


def published(seq: int, begins: int | None = None, mark: int | None = None) -> Any:
    at = {"a": (mark or 0) - 7, "b": mark or 0, "c": 0}
    marks = {name: {"at": str(Instant.from_ns(ns))} for name, ns in at.items() if mark}
    return SimpleNamespace(seq=seq, begins=begins, watermark=marks)


def moves(*publications: Any, limit: int = 3) -> Moves:
    return Moves(snapshot(publications=[*publications], limit=limit))


@pytest.mark.parametrize(
    ("row", "counts", "change"),
    [
        ({}, True, "5"),
        ({"direction": "DEBIT"}, True, "-5"),
        ({"direction": "DEBIT", "status": "PENDING"}, True, "-5"),
        ({"status": "PENDING"}, False, "0"),
        ({"status": "FAILED"}, False, "0"),
        ({"total": None}, False, "0"),
        ({"direction": None}, False, "0"),
        ({"profile_id": None}, False, "0"),
        ({"asset": None}, False, "0"),
        ({"status": None}, False, "0"),
        ({"asset": None, "balance_asset": "EUR"}, True, "5"),
    ],
)
def test_what_a_version_does_to_its_balance(row: Any, counts: bool, change: str) -> None:
    (table,) = moves(published(1)).of([rows_of(("t", 1, None, row))])
    (made,) = table.to_pylist()
    assert (made["counts"], made["change"]) == (counts, Decimal(change))
    assert made["asset"] == ("EUR" if "balance_asset" in row else row.get("asset", "USD"))


def test_many_small_tables_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "ROW_GROUP_ROWS", 4)
    sizes = [2, 2, 1, 5, 1]
    tables = [pa.table({"n": [n] * size}) for n, size in enumerate(sizes)]
    found = [rows.column("n").to_pylist() for rows in observations._together(tables)]
    assert found == [[0, 0, 1, 1], [2, 3, 3, 3, 3, 3], [4]]
    assert [*observations._together([])] == []


def test_sums_by_the_publications_that_are_looked_at() -> None:
    rows = rows_of(
        ("a", 1, None, {}), ("b", 1, 2, {"direction": "DEBIT", "total": Decimal(2)}),
        ("c", 2, None, {"asset": "BTC"}), ("d", 3, None, {}), ("e", 4, None, {}),
        ("f", 2, 9, {"status": "FAILED"}), ("g", 3, 4, {"total": Decimal(1)}),
    )  # fmt: skip
    sums, learned, standing, count = moves(published(1)).sums(
        [1, 2], [rows.slice(0, 3), rows.slice(3)]
    )
    assert sums == {
        USD: [(1, Decimal(3)), (2, Decimal(5)), (3, Decimal(11))], ("p", "BTC"): [(2, Decimal(5))],
    }  # fmt: skip
    assert learned == {USD: 1, ("p", "BTC"): 2}
    assert (standing[USD], standing["p", "BTC"], count) == (3, 1, 5)
    assert moves(published(1)).sums([1, 2], [rows.slice(3), rows.slice(0, 3)]) == (
        sums,
        learned,
        standing,
        count,
    )
    assert moves().sums([], []) == ({}, {}, Counter(), 0)
    at = observations._at
    assert [at(sums[USD], seq) for seq in range(5)] == [Decimal(n) for n in (0, 3, 5, 11, 11)]


def brought(created: int, updated: int, direction: str = "DEBIT", since: int = 3) -> Any:
    """A transfer that publication ``since`` brought: the store began at 200 at 300, then at 200."""
    row = {"created_at": created, "updated_at": updated, "direction": direction}
    publications = [published(1, 300, 1000), published(2, 200, 2000), published(3, 100, 3000)]
    tables = moves(*publications).of([rows_of(("t", since, None, row))])
    return sorted(
        (made[FROM], made[TO], made["status"], made["counts"], int(made["change"]))
        for table in tables for made in table.to_pylist()
    )  # fmt: skip


@pytest.mark.parametrize(
    ("created", "updated", "since", "versions"),
    [
        (200, 500, 3, [(3, None)]), (199, 500, 3, [(0, 1), (1, None)]), (99, 500, 3, [(3, None)]),
        (100, 500, 3, [(0, 1), (1, None)]), (150, 1000, 3, [(0, 1), (1, None)]),
        (150, 1001, 3, [(0, 2), (2, None)]), (150, 2001, 3, [(0, 3), (3, None)]),
        (150, 9000, 3, [(0, 3), (3, None)]), (150, 500, 2, [(2, None)]),
        (250, 500, 3, [(3, None)]), (250, 500, 2, [(0, 1), (1, None)]), (300, 500, 2, [(2, None)]),
    ],
)  # fmt: skip
def test_what_a_wider_sync_brought_was_there_before(
    created: int, updated: int, since: int, versions: Any
) -> None:
    found = brought(created, updated, since=since)
    assert [one[:2] for one in found] == versions
    assert found[-1][2:] == ("COMPLETED", True, -5)
    if len(found) > 1:
        assert found[0][2:] == ("PENDING", True, -5)
        credit = brought(created, updated, "CREDIT", since)
        assert credit[0][2:4] == ("PENDING", False)


def stored(monkeypatch: pytest.MonkeyPatch, *tables: pa.Table, **more: Any) -> Any:
    """A snapshot whose files hold ``tables``, one each."""
    monkeypatch.setattr(observations, "read_versions", lambda part, *_: [part.table])
    files = [SimpleNamespace(table=rows, rows=len(rows)) for rows in tables]
    schema = tables[0].schema
    return snapshot(
        files=files, replaced={}, table=SimpleNamespace(schema=schema),
        publications=[published(1)], **more,
    )  # fmt: skip


def test_what_was_reported_by_publication_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("profile_id", "asset", "available", "trading", "observed_at", FROM)
    types = (pa.string(), pa.string(), MONEY, MONEY, INSTANT_TYPE, pa.int32())
    schema = pa.schema([*zip(names, types, strict=True)])
    tables = [
        pa.Table.from_pylist([dict(zip(names, ("p", *row), strict=True)) for row in rows], schema)
        for rows in (
            [("USD", Decimal(1), Decimal(2), 9, 2), ("USD", Decimal(4), Decimal(0), 8, 2)],
            [("USD", Decimal(5), Decimal(0), 20, 1), ("BTC", Decimal(7), Decimal(0), 7, 3),
             ("USD", Decimal(6), Decimal(0), 5, 4)],
        )
    ]  # fmt: skip
    balances = stored(monkeypatch, *tables, limit=3)
    sums = {USD: [(1, Decimal(10)), (2, Decimal(20))]}
    gone = {USD: [(2, Decimal(3)), (9, Decimal(100))]}
    found = observations._observations(balances, sums, gone)
    assert found == {
        USD: [seen("5", "10", 1, 20), seen("4", "17", 2, 8), seen("3", "17", 2, 9)],
        ("p", "BTC"): [seen("7", "0", 3, 7)],
    }
    assert observations.looks_of(snapshot(publications=[published(4), published(6)])) == [4, 6]


def test_what_is_accepted_as_gone_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(
        ("a", 1, None, {}), ("a", 1, 2, {"total": Decimal(99)}), ("b", 1, None, {}),
        ("c", 1, None, {"status": "FAILED"}), ("d", 1, None, {"direction": "DEBIT"}),
        ("e", 4, None, {}),
    )  # fmt: skip
    gone = {"a": 2, "c": 2, "d": 3, "e": 3}
    transfers = stored(
        monkeypatch, rows, accepted_gone=gone, gone_ids=pa.array([*gone], pa.string())
    )
    assert observations._gone_changes(transfers) == {USD: [(2, Decimal(5)), (3, Decimal(-5))]}
    transfers.accepted_gone = {}
    assert observations._gone_changes(transfers) == {}
    names = ("available", "trading")
    schema = pa.schema([
        ("profile_id", pa.string()), ("asset", pa.string()), (FROM, pa.int32()),
        ("observed_at", INSTANT_TYPE), *((name, MONEY) for name in names),
    ])  # fmt: skip
    balances = snapshot(table=SimpleNamespace(schema=schema))
    (one,) = observations.read_accounts(transfers, balances).every
    assert (one.now, one.expected) == (Decimal(5), True)


# ---------------------------------------------------------------------------------- its breaks


def test_what_could_be_the_cause() -> None:
    before, now = seen("5", "5", 1), seen("5", "8", 3)
    one = _Break(account(before, now), before, now)
    assert one.surplus == Decimal(-3)
    for change, since, until, status, cause in [
        ("-3", 4, None, "COMPLETED", {"late": "t"}), ("-3", 3, None, "COMPLETED", {}),
        ("3", 2, None, "COMPLETED", {"absent": "t"}), ("3", 1, None, "COMPLETED", {}),
        ("3", 3, 4, "COMPLETED", {"absent": "t"}), ("3", 3, 3, "COMPLETED", {}),
        ("3", 4, None, "COMPLETED", {}), ("3", 1, None, "PENDING", {"held": "t"}),
        ("3", 2, None, "PENDING", {"held": "t", "absent": "t"}), ("4", 2, None, "PENDING", {}),
    ]:  # fmt: skip
        one = _Break(account(before, now), before, now)
        move = {"change": Decimal(change), FROM: since, TO: until, "status": status, "id": "t"}
        one.consider(move)
        one.consider(move | {"id": "second"})
        assert one.causes == cause
    first = _Break(account(now, opening="1"), None, now)
    assert first.surplus == Decimal(-4)
    first.consider({"change": Decimal(4), FROM: 1, TO: None, "status": "COMPLETED", "id": "t"})
    assert first.causes == {"absent": "t"}
    opening = _Break(account(now, opening="1"), None, now)
    opening.consider({"change": Decimal(4), FROM: 0, TO: None, "status": "COMPLETED", "id": "t"})
    assert opening.causes == {}


def test_a_break_in_words() -> None:
    before, now = seen("5", "5", 1, 0), seen("5.50", "8", 3, 60 * 10**9)
    one = _Break(account(before, now), before, now)
    where = "profile p, USD, from 1970-01-01T00:00:00.000000000Z to 1970-01-01T00:01:00.000000000Z"
    made = ("a change of 3, as the transfers say", "a change of 0.5")
    for causes, cause in [
        ({}, "a transfer of -2.5 USD is missing here"),
        ({"absent": "a"}, "transfer a is not in the service's balance"),
        ({"absent": "a", "late": "l"}, "transfer l belongs here, but was learned of only later"),
        ({"absent": "a", "late": "l", "held": "h"},
         "the service does not hold the pending transfer h"),
    ]:  # fmt: skip
        one.causes = causes
        assert one.problem(explained=True) == Problem("balances", "balance", where, *made, cause)
        assert one.problem(explained=False).cause == ""
    first = _Break(account(now), None, now).problem(explained=False)
    assert first.where.startswith("profile p, USD, from the beginning to 1970-01-01T00:01:00")
    assert (first.expected, first.found) == (
        "a change of 8, as the transfers say", "a change of 5.5",
    )  # fmt: skip
    none = _Break(account(due="4"), None, None)
    none.consider({})
    assert none.problem(explained=True) == Problem(
        "balances", "balance", "profile p, USD", "a balance of 4, as the transfers say",
        "no balance at the service",
    )  # fmt: skip
    assert none.surplus == Decimal(-4)


@pytest.mark.parametrize(("count", "most"), [(0, 5), (3, 2), (3, 99), (25, 30), (25, 22), (25, 10)])
def test_the_first_break_of_each_balance_comes_first(
    count: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[int] = []
    monkeypatch.setattr(
        observations, "_look_for_causes", lambda some, _: looked_for.append(len(some))
    )
    every = [
        account(seen("1", "0", at=1), seen("2", "0", at=2), asset=f"A{n:02}", due="4")
        for n in range(count)
    ]
    gone = account(due="4", asset="gone")
    problems, explained, total = broken_changes(
        Accounts((gone, *every), None, 1), snapshot(), most
    )  # fmt: skip
    assert total == 1 + 2 * count
    assert explained == min(total, 20)
    assert looked_for == [explained]
    assert len(problems) == max(explained, min(total, most))
    named = [one.where.split(", ")[1] for one in problems[: 1 + count]]
    assert named == ["gone", *[f"A{n:02}" for n in range(count)]][: len(named)]
    assert sum(bool(one.cause) for one in problems) == explained - 1
    assert broken_changes(Accounts((), None, 1), snapshot(), most) == ([], 0, 0)
    assert looked_for == [explained]


def test_causes_are_looked_for_in_one_pass() -> None:
    before, now = seen("5", "5", 1), seen("5", "8", 3)
    breaks = [_Break(account(before, now, asset=asset), before, now) for asset in ("USD", "BTC")]
    every = moves(published(1))
    rows = rows_of(
        ("other", 2, None, {"total": Decimal(7)}), ("a", 2, None, {"total": Decimal(3)}),
        ("b", 4, None, {"total": Decimal(3), "direction": "DEBIT", "asset": "BTC"}),
        ("c", 2, None, {"total": Decimal(3), "profile_id": "q"}),
    )  # fmt: skip
    passes: list[Any] = []

    class Once:
        def __iter__(self) -> Any:
            passes.append(1)
            return every.of([rows])

    observations._look_for_causes(breaks, Once())  # type: ignore[arg-type]
    assert [one.causes for one in breaks] == [{"absent": "a"}, {}]
    late = Moves(snapshot(publications=[published(1)], limit=4)).of([rows])
    observations._look_for_causes(breaks[1:], late)  # type: ignore[arg-type]
    assert breaks[1].causes == {"late": "b"}
    assert passes == [1]
