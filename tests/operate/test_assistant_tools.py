"""The tools of the server for assistants, which answer without the extra ``mcp``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab.base.errors import AnalysisError, InvalidRequest
from fundlab.operate.assistant import Desk


def test_a_balance_then_has_the_opening_that_the_service_said_and_what_settled_until_then(
    tmp_path: Path,
) -> None:
    service = FakeService(honours={"created_at", "updated_at", "ids"}, complete=True)
    now = [pd.Timestamp("2026-10-01", tz="UTC").value]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])

    def add(id_: str, total: str, made: str, settled: str) -> None:
        row = transfer(0, id=id_, profile_id="p-1", asset="USD", amount=total, total=total)
        service.transfers.append(row | {"created_at": made, "updated_at": settled})

    add("before", "1000", "2026-07-01T00:00:00Z", "2026-07-01T00:00:00Z")
    add("within", "30", "2026-09-02T00:00:00Z", "2026-09-02T00:00:00Z")
    tables = ["transfers", "balances"]
    store.sync(service, tables, since="2026-08-01", progress=False)  # type: ignore[arg-type]
    now[0] = pd.Timestamp("2026-11-02", tz="UTC").value
    add("over the month's end", "7", "2026-10-31T23:50:00Z", "2026-11-01T08:00:00Z")
    store.sync(service, tables, progress=False)  # type: ignore[arg-type]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"at": "2026-10-31"}, "1030"),
        ({"at": "2026-10-31", "basis": "created"}, "1037"),
        ({"at": "2026-10-31", "tz": "Etc/GMT+12"}, "1037"),  # which ends at noon UTC
        ({"at": "2026-08-02"}, "1000"),
    ]
    for asked, balance in cases:
        answer = Desk(store).balances(**asked)
        assert [row["balance"] for row in answer["rows"]] == [balance], asked
        assert answer["since"] == "2026-08-01T00:00:00.000000000Z"
    with pytest.raises(InvalidRequest, match="the store begins at 2026-08-01 00:00 UTC"):
        Desk(store).balances(at="2026-07-15")
    # What was made before August and settled before the first look is in the opening.
    remark = "its openings were observed until 2026-10-01 00:00 UTC"
    assert remark in Desk(store).balances(at="2026-08-02")["remark"]
    assert "remark" not in Desk(store).balances(at="2026-08-02", basis="created")
    assert "remark" not in Desk(store).balances(at="2026-10-31")
    answer = Desk(store).balances(at="2027-06-30")
    assert [row["balance"] for row in answer["rows"]] == ["1037"]
    assert answer["remark"] == "What is known ends at 2026-11-02 00:00 UTC."


def test_sums_of_a_period_say_what_the_store_has_not_of_it(tmp_path: Path) -> None:
    """600 came in July and 7 in August, 1 of each as a fee; the store begins on 1 August."""
    service = FakeService(honours={"created_at", "updated_at", "ids"}, complete=True)
    for n, (made, total) in enumerate({"07-01": "600", "08-05": "7"}.items()):
        times = dict.fromkeys(("created_at", "updated_at"), f"2026-{made}T00:00:00Z")
        service.transfers.append(transfer(n, amount=total, fee="1", total=total, **times))
    now = [pd.Timestamp("2026-08-06", tz="UTC").value]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    tables = ["transfers", "balances"]
    store.sync(service, tables, since="2026-08-01", progress=False)  # type: ignore[arg-type]
    now[0] = pd.Timestamp("2026-11-02", tz="UTC").value
    store.sync(service, tables, progress=False)  # type: ignore[arg-type]
    desk = Desk(store)
    for tool, column, sums in ((desk.flows, "inflow", ["7"]), (desk.fees, "fee", ["1"])):
        assert "remark" not in tool(period="2026-09")
        quarter = tool(period="2026-Q3")
        assert [row[column] for row in quarter["rows"]] == sums
        assert quarter["remark"] == (
            "The store begins at 2026-08-01 00:00 UTC: what moved from 2026-07-01 00:00 UTC until "
            "then is not in it, and the opening is of that time; 'fundlab sync --full' fetches it."
        )
        assert tool(period="2026-11")["remark"] == "What is known ends at 2026-11-02 00:00 UTC."
        with pytest.raises(AnalysisError, match="'2026-06' is over before the store begins"):
            tool(period="2026-06")
        with pytest.raises(AnalysisError, match="'2027-01' has not begun"):
            tool(period="2027-01")
        assert "remark" not in tool()
