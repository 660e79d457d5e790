"""By when a transfer settled, or by when it was created: where the time comes from, and that every
analysis and the report mean the same by it."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import closed_months as months
import pandas as pd
import pytest
from closed_months import CLOSED_AT, DAY, FEBRUARY, LATER, MARCH, D, text

import fundlab as fl
from fundlab import reports
from fundlab.base.errors import AnalysisError, InvalidRequest
from fundlab.reports.inputs import Held

KEYS = ["profile_id", "asset"]


def test_settled_at_is_of_the_event_else_of_the_first_completed_version(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 1)
    month.service.transfers.clear()
    month.service.events.clear()
    month.service.honours = {"created_at", "ids"}  # by updated_at it could not list the undated
    month.begin()
    by_event = month.add(FEBRUARY, "COMPLETED", FEBRUARY + DAY)
    by_update = month.add(FEBRUARY, "COMPLETED", FEBRUARY + DAY, event=False)
    undated = month.add(FEBRUARY, "COMPLETED", FEBRUARY + DAY, event=False)
    undated["updated_at"] = None
    waiting = month.add(FEBRUARY, "PENDING")
    store = fl.Store(tmp_path / "new", clock=lambda: month.now[0])
    month.store = store
    month.sync(CLOSED_AT)
    store.pin("before")
    for row in (by_event, by_update, undated):
        row |= {"memo": "again", "updated_at": text(MARCH + 4 * DAY)}
    waiting |= {"status": "COMPLETED", "updated_at": text(MARCH + 5 * DAY)}
    month.sync(LATER)
    rows = store.read("transfers", settled=True).set_index("id")
    expected = {
        by_event["id"]: (FEBRUARY + DAY + 17, "event"),
        by_update["id"]: (FEBRUARY + DAY, "updated_at"),
        undated["id"]: (CLOSED_AT, "seen"),
        waiting["id"]: (MARCH + 5 * DAY, "updated_at"),
    }
    for name, (at, source) in expected.items():
        assert (rows.loc[name, "settled_at"].value, rows.loc[name, "settled_from"]) == (at, source)
    before = store.read("transfers", pin="before", settled=True).set_index("id")
    assert pd.isna(before.loc[waiting["id"], "settled_at"])
    store.compact()
    again = store.read("transfers", settled=True).set_index("id")
    pd.testing.assert_frame_equal(rows, again)
    pinned = store.read("transfers", pin="before", settled=True).set_index("id")
    pd.testing.assert_frame_equal(before, pinned)
    arrow = store.read_arrow("transfers", columns=["total"], settled=True)
    assert arrow.column_names == ["total", "settled_at", "settled_from"]
    with pytest.raises(InvalidRequest, match="settled=True is for transfers"):
        store.read("events", settled=True)


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("seed", "basis"),
    [(0, "settled"), pytest.param(1, "created", marks=pytest.mark.thorough)],
)
def test_every_analysis_and_the_report_agree(tmp_path: Path, seed: int, basis: str) -> None:
    month = months.made(tmp_path / "store", seed)
    months.turn(month, 6)
    store = month.store
    rows = store.read("transfers", settled=True)
    expected = months.lines(month, basis)
    given = {"basis": basis}
    roll = fl.balances.roll_forward(rows, "2026-02", **given)
    found = roll[roll["amount"] != 0].set_index([*KEYS, "line", "type"])["amount"].to_dict()
    assert found == expected
    statement = fl.balances.statement(rows, "2026-02", **given).set_index(KEYS)
    closing = roll[roll["line"] == "closing"].set_index(KEYS)["amount"]
    assert statement["closing"].equals(closing)
    at = fl.balances.at(rows, pd.Timestamp(MARCH - 1, tz="UTC"), **given).set_index(KEYS)["balance"]
    assert (closing[closing != 0] == at[closing.index[closing != 0]]).all()
    daily = fl.balances.daily(rows, until="2026-02-28", **given)
    last = daily[daily["date"] == "2026-02-28"].set_index(KEYS)["balance"]
    assert (last == at[last.index]).all()
    running = fl.balances.running(rows, **given)
    inside = running[running["settled_at" if basis == "settled" else "created_at"].lt("2026-03-01")]
    assert (inside.groupby(KEYS)["balance"].last() == at).all()
    net = fl.flows.net(rows, "MS", **given)
    february = net[net["period"] == "2026-02-01"].set_index(KEYS)["net"]
    moved = (statement["closing"] - statement["opening"]).reindex(february.index)
    assert (february == moved).all()
    fees = fl.fees.summary(rows, ["profile_id", "asset"], freq="MS", **given)
    fees = fees[fees["period"] == "2026-02-01"].set_index(KEYS)["fee"]
    assert (fees == statement["fees"].reindex(fees.index)).all()
    report = reports.read_report(store, "2026-02", basis=basis)
    assert report.basis == basis
    table = report.balances.set_index(KEYS)
    assert (table["closing"] == closing.reindex(table.index, fill_value=D(0))).all()
    assert (table["opening"] + table["inflow"] - table["outflow"] == table["closing"]).all()
    available = fl.balances.at(rows, pd.Timestamp(MARCH - 1, tz="UTC"), view="available", **given)
    available = available.set_index(KEYS)["balance"].reindex(table.index, fill_value=D(0))
    assert (table["available"] == available).all()
    over_store = fl.balances.statement(store, "2026-02", **given).to_arrow_table()
    assert over_store["closing"].to_pylist() == statement["closing"].tolist()


def test_what_has_no_settled_at_says_how_to_get_it(tmp_path: Path) -> None:
    store = months.made(tmp_path / "store", 2).store
    rows = store.read("transfers")
    with pytest.raises(AnalysisError, match=r"store\.read\('transfers', settled=True\)"):
        fl.balances.at(rows, "2026-03-01", basis="settled")
    with pytest.raises(AnalysisError, match=r"give either basis='settled' or by='updated_at'"):
        fl.balances.at(rows, "2026-03-01", by="updated_at", basis="settled")
    with pytest.raises(AnalysisError, match="basis='paid' is not one of settled, created"):
        fl.flows.net(rows, basis="paid")  # type: ignore[arg-type]


@pytest.mark.seconds
@pytest.mark.parametrize("few", [350, 1])
def test_what_failed_after_the_period_was_open_and_held_at_its_end(
    few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("build", "job"):
        monkeypatch.setattr(sys.modules[f"fundlab.reports.{module}"], "HELD_ROWS", few)
    month = months.made(tmp_path / "store", 1)
    month.service.transfers.clear()
    month.service.events.clear()
    month.store = fl.Store(tmp_path / "new", clock=lambda: month.now[0])
    month.begin()

    def add(id_: str, total: int, made: int, status: str, changed: int, **more: str) -> None:
        row = {"id": id_, "customer_id": "c", "profile_id": "p-1", "asset": "USD", "fee": "0",
               "amount": f"{total}", "total": f"{total}", "direction": "DEBIT",
               "type": "WIRE_WITHDRAWAL", "status": status,
               "created_at": text(made), "updated_at": text(changed)}  # fmt: skip
        month.service.transfers.append(row | more)

    def change(id_: str, **to: str) -> None:
        next(row for row in month.service.transfers if row["id"] == id_).update(to)

    def told() -> tuple[dict[str, Any], Decimal, Decimal]:
        made = reports.read_report(month.store, "2026-02")
        cleared = made.open_items.set_index("id")["cleared_at"]
        (balance,) = made.balances.query("profile_id == 'p-1' and asset == 'USD'").to_dict(
            "records"
        )
        content = reports.close.figures_of(
            Held(month.store, "settled"), None, "2026-02", "UTC", "settled"
        )
        assert {item["id"] for item in content["open_items"]} == {*cleared.index}
        return (
            {id_: None if at is pd.NaT else at.value for id_, at in cleared.items()},
            balance["held"],
            balance["available"],
        )

    before = MARCH - 3 * DAY
    add("failed within", 60, FEBRUARY + 5 * DAY, "FAILED", FEBRUARY + 7 * DAY)
    add("failed after", 20, before, "PENDING", before)
    add("completed within", 7, before, "COMPLETED", before)
    add("a credit", 9, before, "PENDING", before, type="WIRE_DEPOSIT", direction="CREDIT")
    month.sync(CLOSED_AT)
    assert told() == ({"failed after": None, "a credit": None}, D(20), D(999_973))
    failed = MARCH + 4 * DAY
    for id_ in ("failed after", "a credit", "completed within"):
        change(id_, status="FAILED", updated_at=text(failed))
    month.sync(failed + DAY)
    assert told() == ({"failed after": failed, "a credit": failed}, D(20), D(999_980))
    for id_ in ("failed within", "failed after"):
        change(id_, memo="seen", updated_at=text(failed + 2 * DAY))
    month.sync(failed + 3 * DAY)
    assert told() == ({"failed after": failed, "a credit": failed}, D(20), D(999_980))
    month.store.compact()
    assert told() == ({"failed after": failed, "a credit": failed}, D(20), D(999_980))
