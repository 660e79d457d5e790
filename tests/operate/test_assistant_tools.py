"""The tools of the server for assistants, which answer without the extra ``mcp``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab.base.errors import InvalidRequest
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
