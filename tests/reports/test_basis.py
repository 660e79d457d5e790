"""By when a transfer settled, or by when it was created: where the time comes from, and that every
analysis and the report mean the same by it."""

from __future__ import annotations

from pathlib import Path

import closed_months as months
import pandas as pd
import pytest
from closed_months import CLOSED_AT, DAY, FEBRUARY, LATER, MARCH, D, text

import fundlab as fl
from fundlab import reports
from fundlab.base.errors import AnalysisError, InvalidRequest

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
