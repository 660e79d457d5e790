"""Which transfers count, and what is said of those that nobody can count."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from transfer_examples import DAY, START, decimal_typed, records, table, transfer

import fundlab as fl
from fundlab.analysis.counting import moment_of
from fundlab.base.errors import AnalysisError

D = Decimal
OUT = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}


@pytest.mark.parametrize(
    ("given", "view", "says"),
    [
        ({"status": "WEIRD"}, "ledger", "transfers: status 'WEIRD' is not one of"),
        ({"status": None}, "ledger", "transfers: status is missing"),
        ({"direction": "UP"}, "ledger", "transfers: direction 'UP' is not one of"),
        (
            {"direction": "UP", "status": "FAILED"},
            "ledger",
            "transfers: direction 'UP' is not one of",
        ),
        ({"asset": ""}, "ledger", "transfers: asset"),
        ({"balance_asset": ""}, "ledger", "transfers: balance_asset"),
        ({"balance_asset": "", "status": "FAILED"}, "ledger", "transfers: balance_asset"),
        ({"total": None}, "ledger", "transfers: total is missing"),
        ({"profile_id": None}, "ledger", "transfers: profile_id is missing"),
        ({"asset": None}, "ledger", "transfers: asset is missing"),
        ({"created_at": None}, "ledger", "transfers: created_at is missing"),
        ({"total": None, "status": "FAILED"}, "ledger", None),
        ({"total": None, "status": "PENDING"}, "available", None),
        ({"total": None, "status": "PENDING"} | OUT, "ledger", None),
        ({"total": None, "status": "PENDING"} | OUT, "available", "transfers: total is missing"),
        ({}, "ledger", None),
    ],
)
def test_a_row_that_counts_has_all_it_takes(
    given: dict[str, Any], view: Any, says: str | None
) -> None:
    rows = table([transfer("a", total=D(3)), transfer("bad") | given])
    if says is None:
        found = records(fl.balances.changes(rows, view))
        assert [row["transfer_id"] for row in found] == ["a", "bad"][: 1 + (not given)]
    else:
        with pytest.raises(AnalysisError, match=f"{says}.* \\(id bad\\)"):
            fl.balances.changes(rows, view)


@pytest.mark.parametrize(
    ("count", "named"), [(5, "0, 1, 2, 3, 4)"), (6, "0, 1, 2, 3, 4 and more)")]
)
def test_five_rows_are_named_of_many(count: int, named: str) -> None:
    rows = table([transfer(str(n)) | {"total": None} for n in range(count)])
    with pytest.raises(AnalysisError) as caught:
        fl.balances.changes(rows)
    assert str(caught.value) == f"transfers: total is missing (id {named}"


@pytest.mark.parametrize(
    ("basis", "by", "column"),
    [
        (None, "created_at", "created_at"), (None, "updated_at", "updated_at"),
        ("created", "created_at", "created_at"), ("settled", "created_at", "settled_at"),
        ("settled", "settled_at", "settled_at"), ("created", "updated_at", None),
        ("settled", "updated_at", None), ("booked", "created_at", None),
    ],
)  # fmt: skip
def test_one_thing_says_which_time_counts(basis: Any, by: str, column: str | None) -> None:
    if column is None:
        with pytest.raises(AnalysisError, match="basis='"):
            moment_of(basis, by)
    else:
        assert moment_of(basis, by) == column


def settled(*rows: tuple[str, str, str, int, int]) -> pa.Table:
    """Direction and status, created and settled on these days."""
    made = [
        transfer(id_, status=status, created_at=START + made_on * DAY,
                 **(OUT if direction == "DEBIT" else {}))
        for id_, direction, status, made_on, _ in rows
    ]  # fmt: skip
    moments = pa.array([START + done_on * DAY for *_, done_on in rows], pa.int64())
    return table(made).append_column("settled_at", moments.cast(pa.timestamp("ns", "UTC")))


@pytest.mark.parametrize(("view", "days"), [("ledger", {"a": 2, "b": 5}),
                                            ("available", {"a": 2, "b": 3})])  # fmt: skip
def test_what_is_available_falls_when_a_debit_is_made(view: Any, days: dict[str, int]) -> None:
    rows = settled(("a", "CREDIT", "COMPLETED", 1, 2), ("b", "DEBIT", "COMPLETED", 3, 5))
    found = records(fl.balances.changes(rows, view, basis="settled"))
    moments = {row["transfer_id"]: pd.Timestamp(row["at"]).value for row in found}
    assert moments == {id_: START + day * DAY for id_, day in days.items()}


def reported(*given: tuple[str, str, int], day: int = 9) -> pd.DataFrame:
    frame = pd.DataFrame([*given], columns=["profile_id", "asset", "available"])
    frame["available"] = pd.array([str(one) for one in frame["available"]], dtype="decimal")
    frame["trading"] = pd.array(["0"] * len(frame), dtype="decimal")
    frame["observed_at"] = pd.Timestamp(START + day * DAY, tz="UTC")
    return frame


def test_what_is_on_one_side_only_is_called_so() -> None:
    rows = [transfer("a"), transfer("b", asset="EUR"), transfer("c", asset="GBP", amount=D(0)),
            transfer("d", asset="ETH")]  # fmt: skip
    given = reported(("p1", "USD", 10), ("p1", "EUR", 9), ("p2", "USD", 4), ("p2", "EUR", 0))
    found = records(fl.reconcile.compare(table(rows), given))
    names = ("profile_id", "asset", "difference", "status")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("p1", "ETH", -10, "only_rebuilt"), ("p1", "EUR", -1, "break"), ("p1", "GBP", 0, "match"),
        ("p1", "USD", 0, "match"), ("p2", "EUR", 0, "match"), ("p2", "USD", 4, "only_reported"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("known", "seen", "difference"),
    [("1", "1", 0), ("1", "2", 3), (None, None, 0), ("1", None, 3)],
)
def test_what_moved_since_a_balance_was_observed_is_left_out(
    known: str | None, seen: str | None, difference: int
) -> None:
    """Where both are of one publication."""
    rows, given = decimal_typed([transfer("a")]), reported(("p1", "USD", 13))
    rows.attrs |= {"publication": known} if known else {}
    given.attrs |= {"moved": [("p1", "USD", "-3")]} | ({"publication": seen} if seen else {})
    (row,) = records(fl.reconcile.compare(rows, given))
    assert row["difference"] == difference
    assert (len(fl.reconcile.explain(rows, given)) > 0) == bool(difference)


@pytest.mark.parametrize(
    ("known", "seen", "opening", "status"),
    [
        ({}, {}, False, "match"), ({"until": "x"}, {}, False, "closing_unknown"),
        ({}, {"until": "x"}, False, "closing_unknown"),
        ({"since": "x"}, {}, False, "opening_unknown"), ({"since": "x"}, {}, True, "match"),
        ({"since": None}, {}, False, "match"),
    ],
)  # fmt: skip
def test_a_store_that_does_not_know_all_matches_nothing(
    known: dict[str, Any], seen: dict[str, Any], opening: bool, status: str
) -> None:
    rows, given = decimal_typed([transfer("a")]), reported(("p1", "USD", 10))
    rows.attrs |= known
    given.attrs |= seen
    opened = pa.table({"profile_id": ["p1"], "asset": ["USD"],
                       "balance": pa.array([D(0)], pa.decimal128(38, 18))})  # fmt: skip
    (row,) = records(fl.reconcile.compare(rows, given, opening=opened if opening else None))
    assert row["status"] == status
    off = reported(("p1", "USD", 11)).assign(observed_at=given["observed_at"])
    off.attrs |= seen
    causes = fl.reconcile.explain(rows, off, opening=opened if opening else None)
    assert (len(causes) > 0) == (
        status == "match"
    )  # of a balance that is not known nothing is said


def test_of_a_balance_the_newest_counts_and_two_of_one_time_do_not() -> None:
    older, newer = reported(("p1", "USD", 9)), reported(("p1", "USD", 10), day=10)
    (row,) = records(fl.reconcile.compare(table([transfer("a")]), pd.concat([newer, older])))
    assert row["status"] == "match"
    twice = reported(("p1", "USD", 9), ("p1", "USD", 10))
    with pytest.raises(AnalysisError, match="more than one row of profile_id and asset p1 USD"):
        fl.reconcile.compare(table([transfer("a")]), twice)
