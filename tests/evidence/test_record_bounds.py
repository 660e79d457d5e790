"""Rows set aside, profiles left out, closes and notes, of records made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from test_observation_bounds import account, snapshot
from test_vanished_bounds import accept, record

from fundlab.base.errors import InvalidRequest
from fundlab.base.values import Instant
from fundlab.evidence import closes, quarantine
from fundlab.evidence.acceptance import chosen
from fundlab.evidence.closes import Close, annotations_table, booked_since, closes_of, closes_table
from fundlab.evidence.observations import Accounts
from fundlab.evidence.quarantine import (
    SetAside,
    accepted_lines,
    left_out,
    open_lines,
    set_aside_rows,
    set_aside_table,
    with_evidence,
)
from fundlab.store.parts import FROM, TO

INVALID = {"invalid": {"transfers": [["k", "t", "why", "{}"], ["l", None, "how", "[]"]]}}
K = SetAside("transfers", "k", "t", "why", "{}", 1)


@pytest.mark.parametrize(
    ("later", "of_k"),
    [
        ([], K),
        ([record(2, readable={"transfers": ["k"]})],
         SetAside("transfers", "k", "t", "why", "{}", 1, "read", 2)),
        ([accept(2, invalid=[["transfers", "k", ""]])],
         SetAside("transfers", "k", "t", "why", "{}", 1, "accepted", 2, "Ann", "why")),
        ([record(2, readable={"transfers": ["k"]},
                 invalid={"transfers": [["k", "t", "new", "{}"]]})],
         SetAside("transfers", "k", "t", "new", "{}", 2)),
        ([accept(2)], K),
    ],
)  # fmt: skip
def test_what_became_of_a_row_set_aside(later: Any, of_k: SetAside) -> None:
    records = [record(1, **INVALID), *later]
    assert set_aside_rows(records)[0] == of_k
    table = set_aside_table(set_aside_rows(records))
    assert table.column("state").to_pylist() == [of_k.state, "open"]
    open_ones = ["t (why)"] * (of_k == K) + ["t (new)"] * (of_k.reason == "new") + ["l (how)"]
    noun = "2 rows of transfers are" if len(open_ones) == 2 else "1 row of transfers is"
    assert open_lines(records) == [
        f"{noun} set aside, which this version cannot read: {', '.join(open_ones)} ('fundlab "
        "quarantine list')."
    ]


def test_what_is_said_of_what_somebody_accepted() -> None:
    records = [
        record(1, **INVALID, gone={"transfers": ["a", "b"]}, refused={"transfers": ["r", "s"]}),
        accept(2, "a", "r", counts=False), accept(3, invalid=[["transfers", "k", ""]]),
    ]  # fmt: skip
    without = {"p": record(5 * 10**9, "accept", by="Bo", reason="sold\x1b")}
    assert accepted_lines(records, without) == [
        "1 row set aside was accepted.", "1 row refused by the service was accepted.",
        "1 row gone from the service was accepted.",
        "Profile p is left out, as no longer ours since 1970-01-01T00:00:05Z: accepted by Bo, "
        "because: sold�.",
    ]  # fmt: skip
    more = [*records, accept(4, "s")]
    assert accepted_lines(more, {})[1:] == [
        "2 rows refused by the service were accepted.", "1 row gone from the service was accepted.",
    ]  # fmt: skip
    assert accepted_lines([], {}) == []
    refused = open_lines(records)[-1]
    assert refused.startswith(
        "1 row of transfers is refused by the service (403), and kept as last"
    )
    assert ": s (" in refused


@pytest.mark.parametrize(("answered", "out"), [(6, True), (7, True), (8, False)])
def test_a_profile_is_left_out_until_its_balance_is_reported_again(
    answered: int, out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = accept(1, profiles=["p", "unknown"])
    said.number = 7
    other = record(2, profiles=["q"])
    every = (account(answered=answered), account(asset="BTC", answered=3),
             account(profile_id="q", answered=9))  # fmt: skip
    accounts = Accounts(every, None, 9)
    names = ["p", "unknown"] if out else ["unknown"]
    assert [*left_out(accounts, [said, other])] == names
    asked: list[Any] = []

    def rows(transfers: Any, columns: Any, where: Any) -> Any:
        asked.append(where)
        return SimpleNamespace(num_rows=4)

    monkeypatch.setattr(quarantine, "read_current", rows)
    found = with_evidence(accounts, snapshot(), [said, record(3, **INVALID)])
    assert [one.profile_id for one in found.every] == (["q"] if out else ["p", "p", "q"])
    assert (found.transfers, asked) == (5, [{"profile_id": names}])
    assert len(found.shortfalls) == 1
    assert len(found.accepted) == len(names)
    whole = with_evidence(accounts, snapshot(), [])
    assert (whole.transfers, whole.every, len(asked)) == (9, every, 1)


def test_which_are_chosen_by_their_names() -> None:
    rows = [("a", "1"), ("b", None), ("a", "2")]

    def those(given: Any) -> Any:
        return chosen(rows, given, "ids", lambda row: row, "rows")

    assert those(None) == rows
    assert those("a") == [rows[0], rows[2]]
    assert those(["2", "b"]) == [rows[1], rows[2]]
    with pytest.raises(InvalidRequest, match=r"ids \['c', 'd'\] are not rows"):
        those(["d", "a", "c"])


# ------------------------------------------------------------------------------------ closes


def close(number: int, kind: str = "close", **content: Any) -> Any:
    said = {"period": "2026-01", "basis": "created", "by": None, "note": "n", "pin": "p"} | content
    made = record(number * 10**9, kind, **said)
    made.number, made.hash = number, f"h{number}"
    return made


@pytest.mark.parametrize(
    ("later", "states"),
    [
        ([], ["closed"]),
        ([close(2)], ["restated", "closed"]),
        ([close(2, basis="settled")], ["closed", "closed"]),
        ([close(2, period="2026-02")], ["closed", "closed"]),
        ([close(2, "reopen")], ["reopened"]),
        ([close(2, "reopen", basis="settled")], ["reopened"]),
        ([close(2, "reopen", period="2026-02")], ["closed"]),
        ([close(2, "reopen"), close(3)], ["reopened", "closed"]),
        ([close(2), close(3, "reopen")], ["restated", "reopened"]),
        ([close(2, "accept")], ["closed"]),
    ],
)
def test_which_close_is_in_force(later: Any, states: list[str]) -> None:
    first = close(1)
    assert [one.state for one in closes_of([record(0, "person"), first, *later])] == states


def test_what_a_close_says_of_itself() -> None:
    content = {
        "tz": "UTC", "end": "1970-01-01T00:00:07Z", "known_at": "1970-01-01T00:00:09Z",
        "names": {"p": "Main"}, "lines": [["p", "USD", "opening", None, "1.50"]],
        "opening": [["p", "USD", "2"]], "publications": {"transfers": 4}, "by": "Ann",
    }  # fmt: skip
    one, bare = closes_of([close(1, **content), close(2, period="2026-02")])
    assert (one.tz, one.pin, one.hash, one.end, one.known_at) == (
        "UTC", "p", "h1", 7 * 10**9, 9 * 10**9,
    )  # fmt: skip
    assert (one.called("P"), one.called("q")) == ("Main (P)", "q")
    assert (one.limit("transfers"), one.limit("events")) == (4, 0)
    assert one.lines.astype(str).to_numpy().tolist()[0][2] == "opening"
    assert [str(value) for value in one.lines["amount"]] == ["1.5"]
    assert [str(value) for value in one.opening["balance"]] == ["2"]
    assert repr(one) == (
        "2026-01 (created basis), closed, made at 1970-01-01T00:00:01.000000000Z by Ann"
    )
    assert repr(bare).endswith("1970-01-01T00:00:02.000000000Z")
    table = closes_table([one, bare])
    assert table["closed_at"].astype("int64").tolist() == [10**9, 2 * 10**9]
    assert [value if isinstance(value, str) else None for value in table["by"]] == ["Ann", None]
    notes = annotations_table(
        [close(1), record(3, "annotate", item_id="t", owner="Bo", comment=None, by="Ann")]
    )
    assert notes["item_id"].tolist() == ["t"]
    assert (notes["owner"].tolist(), notes["at"].astype("int64").tolist()) == (["Bo"], [3])


def test_a_close_is_a_pin_of_what_is_known() -> None:
    limits = iter(range(1, 20))
    manifest = SimpleNamespace(number=7)
    kept: list[Any] = []
    store: Any = SimpleNamespace(
        manifest=lambda: manifest,
        snapshot=lambda name, manifest: SimpleNamespace(limit=next(limits)),
        record=lambda *given: kept.append(given) or close(8, **given[1]),
    )
    made = closes.seal(store, {"period": "2026-01", "basis": "created"}, "held", "seen")  # type: ignore[arg-type]
    assert (made.pin, made.state, made.seen) == ("close-2026-01-created-8", "closed", "seen")
    assert made == Close(made.record, "closed"), "what it was made of is no part of it"
    ((kind, content, held),) = kept
    assert (kind, held, content["publications"]) == (
        "close", "held", {name: n for n, name in enumerate(closes.TABLES, 1)},
    )  # fmt: skip


# ------------------------------------------------------- what a close was made of, and is now


LOOK = pa.schema([("id", pa.string()), ("created_at", pa.int64()), ("updated_at", pa.int64()),
                  (FROM, pa.int32()), (TO, pa.int32())])  # fmt: skip
SAID = pa.schema([("transfer_id", pa.string()), ("at", pa.int64()), (FROM, pa.int32())])


def since(
    monkeypatch: pytest.MonkeyPatch, rows: Any, said: Any = (), *, limits: Any = (3, 3),
    now: Any = (9, 9), gone: Any = ((), ()), end: int = 100, later: Any = (),
) -> Any:  # fmt: skip
    """The ids that a close of publication 3 was made of and that are there now, of those that may
    have changed it; ``None`` where it was not looked at."""
    table = pa.Table.from_pylist(
        [dict(zip(LOOK.names, row, strict=True)) for row in rows], schema=LOOK
    )
    events = pa.Table.from_pylist(
        [dict(zip(SAID.names, row, strict=True)) for row in said], schema=SAID
    )

    def versions(
        transfers: Any, columns: Any, *, since: int | None = None, ids: Any = None
    ) -> pa.Table:
        found = table
        if ids is not None:
            found = table.filter(pa.compute.is_in(table.column("id"), value_set=ids))
        elif since is not None:  # those learned of or replaced since
            found = table.filter(pa.array([
                row[FROM] > since or (row[TO] or 0) > since for row in table.to_pylist()
            ], pa.bool_()))  # fmt: skip
        return found

    monkeypatch.setattr(closes, "versions", versions)
    monkeypatch.setattr(closes, "completions", lambda _: events)
    monkeypatch.setattr(closes, "_BOOKED", ("id", FROM))
    monkeypatch.setattr(
        closes, "known_at", lambda rows, limit: pa.Table.from_pylist([
            row | {TO: None if (row[TO] or 99) > limit else row[TO]}
            for row in rows.to_pylist() if row[FROM] <= limit
        ], schema=LOOK),
    )  # fmt: skip
    settled: list[Any] = []
    monkeypatch.setattr(
        closes, "settled_of", lambda there, told, _: settled.append(told.num_rows) or "settled"
    )
    monkeypatch.setattr(closes, "with_settlement", lambda current, _: current)
    of = {"end": str(Instant.from_ns(end)),
          "publications": dict(zip(("transfers", "events"), limits, strict=True))}  # fmt: skip
    one = Close(close(1, **of), "closed")
    others = [
        Close(close(2, end=str(Instant.from_ns(until)), publications=dict.fromkeys(
            ("transfers", "events"), limit)), "closed")
        for limit, until in later
    ]  # fmt: skip
    found = booked_since(
        [*others, one], snapshot(limit=now[0], accepted_gone=dict.fromkeys(gone[1], 1)),
        snapshot(limit=now[1]), {name: set(gone[0]) for name in ("h1", "h2")},
    )  # fmt: skip
    if not found:
        assert found == []
        return None
    *more, (same, then, current) = found
    assert same is one
    if more:
        return [[row["id"] for row in table.to_pylist()] for _, *both in found for table in both]
    return [
        [(row["id"], row[FROM]) for row in table.to_pylist()] for table in (then, current)
    ] + [settled]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said", "found"),
    [
        ([("old", 50, 50, 1, None)], [], None),
        ([("new", 99, 200, 4, None)], [], [[], [("new", 4)]]),
        ([("new", 100, 200, 4, None)], [], None),
        ([("new", 200, 99, 4, None)], [], [[], [("new", 4)]]),
        ([("new", 200, None, 4, None)], [], [[], [("new", 4)]]),
        ([("new", 99, 200, 3, None)], [], None),
        ([("new", 200, 200, 4, None)], [("new", 99, 4)], [[], [("new", 4)]]),
        ([("new", 200, 200, 4, None)], [("new", 100, 4)], None),
        ([("t", 50, 50, 1, 4), ("t", 50, 300, 4, None)], [], [[("t", 1)], [("t", 4)]]),
        ([("t", 50, 50, 1, 3), ("t", 50, 300, 3, None)], [], None),
        ([("t", 200, 200, 1, None)], [("t", 150, 4)], [[("t", 1)], [("t", 1)]]),
        ([("t", 200, 200, 1, None)], [("t", 150, 3)], None),
        ([("t", 200, 200, 4, None)], [("t", 150, 4)], None),  # it was not known then
        ([("t", 200, 200, 3, None)], [("t", 150, 4)], [[("t", 3)], [("t", 3)]]),
    ],
)
def test_which_transfers_may_have_changed_a_close(
    rows: Any, said: Any, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = since(monkeypatch, rows, said)
    assert (made and made[:2]) == found


def test_a_close_of_what_is_known_now_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("t", 50, 50, 1, 4), ("t", 50, 300, 4, None)]
    assert since(monkeypatch, rows, limits=(9, 9)) is None
    for limits in ((9, 8), (8, 9)):
        assert since(monkeypatch, rows, limits=limits) is None
    assert since(monkeypatch, rows, limits=(3, 9)) is not None


def test_of_several_closes_the_earliest_says_from_when_and_the_latest_until_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of publication 6 and the moment 200 beside that of publication 3 and the moment 100."""
    for rows, said in (
        ([("x", 150, 300, 5, None)], []),
        ([("x", 500, 500, 5, None)], [("x", 150, 7)]),
        ([("x", 500, 500, 5, None)], [("x", 250, 7)]),  # told of later than either was made
    ):
        made = since(monkeypatch, rows, said, later=[(6, 200)])
        assert made == [["x"], ["x"], [], ["x"]], (rows, said)
    made = since(monkeypatch, [("x", 500, 500, 1, None)], [("x", 150, 5)], later=[(6, 200)])
    assert made == [["x"]] * 4
    assert since(monkeypatch, [("x", 200, 300, 5, None)], later=[(6, 200)]) is None


def test_what_was_accepted_as_gone_since_or_is_there_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("a", 50, 50, 1, None), ("b", 50, 50, 1, None), ("c", 50, 50, 1, None)]
    same = (9, 9)
    assert since(monkeypatch, rows, limits=same, gone=(["a"], ["a"])) is None
    made = since(monkeypatch, rows, limits=same, gone=(["a", "c"], ["b", "c"]))
    assert made[:2] == [[("b", 1)], [("a", 1)]]
    events = [("a", 10, 9), ("a", 10, 10), ("b", 10, 1)]
    made = since(monkeypatch, rows, events, limits=same, now=(9, 10), gone=(["a"], ["b"]))
    assert made[2] == [3, 2]  # of now, and of the close: what was told by then
