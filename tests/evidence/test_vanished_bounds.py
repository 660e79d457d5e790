"""What the records say of rows that a list leaves out, control totals and sweeps, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fundlab.base.errors import StoreDamaged
from fundlab.base.values import Instant
from fundlab.evidence import vanished_rows
from fundlab.evidence.vanished_rows import (
    SWEEP_CYCLE_NS,
    SWEEP_EVERY_NS,
    Gone,
    accepted_gone,
    control_changes,
    control_known,
    control_lines,
    control_of,
    gone_lines,
    gone_rows,
    gone_table,
    still_counts,
    sweep_windows,
    unlisted,
    unlisted_rows,
    unlisted_table,
)
from fundlab.tables.schema import TABLES

DAY = 86_400 * 10**9


def record(at: int, kind: str = "pass", **content: Any) -> Any:
    return SimpleNamespace(at=str(Instant.from_ns(at)), kind=kind, content=content)


def accept(at: int, *ids: str, **more: Any) -> Any:
    rows = [["transfers", id_, ""] for id_ in ids]
    return record(at, "accept", **{"rows": rows, "by": "Ann", "reason": "why"} | more)


GONE = {"gone": {"transfers": ["a", "b"]}}
A = Gone("transfers", "a", 1, asked_at=1)


@pytest.mark.parametrize(
    ("records", "of_a"),
    [
        ([record(1, **GONE)], A),
        ([record(1, **GONE), record(2, asked={"transfers": ["a"]})],
         Gone("transfers", "a", 1, asked_at=2)),
        ([record(1, **GONE), record(2, back={"transfers": ["a"]})],
         Gone("transfers", "a", 1, "back", back_at=2, asked_at=1)),
        ([record(1, **GONE), record(2, listed={"transfers": ["a"]})],
         Gone("transfers", "a", 1, "back", back_at=2, asked_at=1)),
        ([record(1, **GONE), accept(2, "a")],
         Gone("transfers", "a", 1, "accepted", accepted_at=2, by="Ann", reason="why", asked_at=1)),
        ([record(1, **GONE), accept(2, "a", counts=False)],
         Gone("transfers", "a", 1, "accepted", accepted_at=2, by="Ann", reason="why", asked_at=1,
              counts=False)),
        ([record(1, refused={"transfers": ["a"]})],
         Gone("transfers", "a", 1, "refused", answer="refused", asked_at=1)),
        ([record(1, there={"transfers": ["a"]})],
         Gone("transfers", "a", 1, "there", answer="there", asked_at=1)),
        ([record(1, **GONE), record(2, "person", gone={"transfers": ["a"]}, rows=[])], A),
    ],
)  # fmt: skip
def test_what_became_of_a_row_that_a_list_left_out(records: Any, of_a: Gone) -> None:
    found = [row for row in unlisted_rows(records) if row.id == "a"]
    assert found == [of_a]
    assert gone_rows(records) == ([] if of_a.answer == "there" else unlisted_rows(records))


def test_a_row_that_was_there_by_its_id_and_is_gone_now_is_of_another_kind() -> None:
    for kind in ("gone", "refused", "there"):
        records = [
            record(1, there={"transfers": ["a"]}), record(2, **{kind: {"transfers": ["a"]}}),
        ]  # fmt: skip
        first, second = unlisted_rows(records)
        assert (first.state, first.back_at, first.answer) == ("back", 2, "there")
        assert (second.state, second.gone_at, second.back_at) == (kind, 2, None)
    again = [record(1, **GONE), record(2, back={"transfers": ["a"]}), record(3, **GONE)]
    states = [(row.id, row.gone_at, row.state) for row in unlisted_rows(again)]
    assert states == [("a", 1, "back"), ("b", 1, "gone"), ("a", 3, "gone"), ("b", 3, "gone")]


def test_a_pass_that_later_records_speak_of_is_missed() -> None:
    for lost in (accept(2, "a"), record(2, back={"transfers": ["a"]}),
                 record(2, asked={"transfers": ["a"]})):  # fmt: skip
        with pytest.raises(StoreDamaged, match="the pass that missed a of transfers is not there"):
            unlisted_rows([lost])


def test_which_accepted_rows_count_no_more() -> None:
    records = [
        record(1, observed=7, gone={"transfers": ["a", "b", "c"], "addresses": ["d"]},
               refused={"transfers": ["r"]}),
        record(2, gone={"transfers": ["e"]}),
        accept(3, "a", "e", "r", counts=False), accept(3, "b"),
        record(3, "accept", rows=[["addresses", "d", ""]], by="x", reason="y", counts=False),
    ]  # fmt: skip
    assert accepted_gone(records, "transfers") == {"a": 7, "e": 0}
    assert accepted_gone(records, "addresses") == {"d": 7}
    assert accepted_gone([*records, accept(4, "a")], "transfers") == {"e": 0}  # has the last word
    assert still_counts(accept(1)) is True
    assert gone_lines(records) == [
        "1 row of transfers is no longer at the service, and kept here as last seen: c "
        "(store.gone(); 'fundlab accept-gone' once you know why)."
    ]
    two = gone_lines([record(1, **GONE)])
    assert two[0].startswith("2 rows of transfers are no longer at the service")


def test_what_is_left_out_still_as_a_table() -> None:
    records = [record(1, **GONE, there={"transfers": ["t"]}), record(2, back={"transfers": ["b"]}),
               record(3, asked={"transfers": ["t"]}), accept(4, "a", counts=False)]  # fmt: skip
    left_out = unlisted_table(unlisted_rows(records))
    assert left_out.column("id").to_pylist() == ["t", "a"]
    assert left_out.column("answer").to_pylist() == ["there", "gone"]
    times = [left_out.column(name).cast("int64").to_pylist() for name in ("since", "asked_at")]
    assert times == [[1, 1], [3, 1]]
    every = gone_table(gone_rows(records))
    assert every.select(["id", "state", "by"]).to_pylist() == [
        {"id": "a", "state": "accepted", "by": "Ann"}, {"id": "b", "state": "back", "by": None},
    ]  # fmt: skip


# -------------------------------------------------------------------------- control totals


def control(**counts: tuple[int, str]) -> Mapping[Any, Any]:
    return {("2026-01", kind, "USD"): (n, Decimal(total)) for kind, (n, total) in counts.items()}


def test_what_changed_in_the_counts_and_totals() -> None:
    before = control(A=(2, "5.00"), B=(1, "1"), C=(1, "1"), D=(1, "1"), F=(1, "0"))
    after = control(A=(2, "5.00"), B=(2, "1"), C=(1, "1.50"), E=(1, "3"), F=(1, "0"))
    changes = control_changes(before, after)
    assert changes == [
        ["2026-01", "B", "USD", 2, "1"], ["2026-01", "C", "USD", 1, "1.5"],
        ["2026-01", "D", "USD", 0, "0"], ["2026-01", "E", "USD", 1, "3"],
    ]  # fmt: skip
    first = [[*key, n, str(total)] for key, (n, total) in before.items()]
    passes = [
        record(1, control={"transfers": first}), record(2), record(3, control={"other": [[1]]}),
        record(4, control={"transfers": changes}),
    ]  # fmt: skip
    assert control_known(passes, "transfers") == after
    assert control_known([], "transfers") == {}


def test_the_months_that_have_fewer_rows() -> None:
    before = control(A=(2, "5.00"), B=(1, "1"), C=(1, "1"), D=(1_000, "7"))
    after = control(A=(1, "2.50"), B=(1, "9"), C=(2, "1"))
    assert control_lines("transfers", before, after) == [
        "transfers 2026-01 A: 1 row at the service instead of 2, total 2.5 instead of 5 USD",
        "transfers 2026-01 D: 0 rows at the service instead of 1,000, total 0 instead of 7 USD",
    ]
    bare: Any = {("2026-02", "", ""): (2, Decimal(0))}
    assert control_lines("addresses", bare, {}) == [
        "addresses 2026-02: 0 rows at the service instead of 2"
    ]


def stored(monkeypatch: pytest.MonkeyPatch, table: str, *groups: list[dict[str, Any]]) -> Any:
    """A snapshot whose row groups hold these rows, as many as are current."""
    schema = TABLES[table].schema
    tables = [pa.Table.from_pylist(rows, schema) for rows in groups]
    monkeypatch.setattr(vanished_rows, "keep", lambda rows, current: rows.slice(0, current))

    class Reader:
        def __init__(self, rows: pa.Table) -> None:
            self.rows = rows

        def read(self, number: int, wanted: pa.Schema) -> pa.Table:
            return self.rows.select(wanted.names)

    def each(what: Any, since: int | None = None) -> list[Any]:
        return [what(Reader(rows), SimpleNamespace(number=0, current=len(rows))) for rows in tables]

    return SimpleNamespace(table=TABLES[table], in_each_group=each)


def made(id_: str, at: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "created_at": pd.Timestamp(at, tz="UTC"), "type": "A", "asset": "USD",
            "total": Decimal("1.50")} | more  # fmt: skip


def test_counts_and_totals_of_the_current_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [
        [made("a", "2026-01-01"), made("b", "2026-01-31T23:59:59.999999999"),
         made("c", "2026-02-01")],
        [made("d", "2026-01-15"), made("e", "2026-01-15", asset="BTC", total=None),
         made("f", "2026-01-15", type=None, asset=None), made("g", "2026-01-01") | {
             "created_at": None}],
    ]  # fmt: skip
    snapshot = stored(monkeypatch, "transfers", *groups)
    whole = {
        ("2026-01", "A", "USD"): (3, Decimal("4.50")), ("2026-02", "A", "USD"): (1, Decimal("1.5")),
        ("2026-01", "A", "BTC"): (1, Decimal(0)), ("2026-01", "", ""): (1, Decimal("1.5")),
        ("", "A", "USD"): (1, Decimal("1.5")),
    }  # fmt: skip
    assert control_of(snapshot, []) == whole
    left_out = whole | {("2026-01", "A", "USD"): (2, Decimal(3))}
    assert control_of(snapshot, ["d", "none"]) == left_out
    addresses = stored(monkeypatch, "addresses", [
        {"id": "a", "created_at": pd.Timestamp("2026-01-01", tz="UTC")}
    ])  # fmt: skip
    assert control_of(addresses, []) == {("2026-01", "", ""): (1, Decimal(0))}


@pytest.mark.parametrize(
    ("listed", "since", "missing"),
    [
        ([], None, "abcd"), (["a", "d"], None, "bc"), (["a", "b", "c", "d", "e"], None, ""),
        (["zz"], None, "abcd"), ([], 2, "bcd"), (["c"], 2, "bd"), (["c"], 3, "d"), ([], 9, ""),
    ],
)  # fmt: skip
def test_which_rows_a_pass_did_not_bring(
    listed: list[str], since: int | None, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [made(id_, "1970-01-01") | {"created_at": pd.Timestamp(n, tz="UTC")}
            for n, id_ in enumerate("abcd", 1)]  # fmt: skip
    snapshot = stored(monkeypatch, "transfers", rows[:3], rows[3:])
    stage: Any = SimpleNamespace(
        read=lambda names: [pa.table({"id": pa.array([id_], pa.string())}) for id_ in listed]
    )
    found = unlisted(snapshot, stage, since)
    assert found.column("id").to_pylist() == [*missing]
    assert found.column_names == ["id", "created_at"]
    assert unlisted(stored(monkeypatch, "transfers"), stage, None).num_rows == 0


# ---------------------------------------------------------------------------------- sweeps


@pytest.mark.parametrize(
    ("last", "days", "windows"),  # of 3,000 between 1,000 and 4,000
    [
        (0, 3, [(1_000, 1_300)]),
        (15, 3, [(2_500, 2_800)]),
        (28.5, 3, [(3_850, 4_000), (1_000, 1_150)]),
        (27, 3, [(3_700, 4_000)]),
        (27, 99, [(3_700, 4_000), (1_000, 1_450)]),  # a quarter at most
        (0, 7.5, [(1_000, 1_750)]),
        (0, 8, [(1_000, 1_750)]),
        (0, 0, []),
        (45, 3, [(2_500, 2_800)]),
    ],
)
def test_each_sweep_looks_at_the_share_of_its_time(
    last: float, days: float, windows: list[tuple[int, int]]
) -> None:
    assert (SWEEP_EVERY_NS, SWEEP_CYCLE_NS) == (DAY // 24, 30 * DAY)
    begun = int(last * DAY)
    found = list(sweep_windows(1_000, 4_000, begun, begun + int(days * DAY)))
    assert len(found) == len(windows)
    for given, wanted in zip(found, windows, strict=True):
        assert all(abs(one - other) <= 1 for one, other in zip(given, wanted, strict=True))
