"""Sums that no amount can hold end a command in one line, never in a traceback."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab import Store
from fundlab.analysis.engines import engine_errors
from fundlab.base.errors import AnalysisError
from fundlab.models import ProfileBalance

LARGEST = "9" * 20
LIMIT = "has more than 20 integer digits: amounts hold 38 digits, 18 of them decimals"


class Small(FakeService):
    """Reports balances of 5, whatever the transfers make."""

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        return ProfileBalance.model_validate({"asset": asset, "available": "5", "trading": "0"})


class InTwoParts(FakeService):
    """Reports a balance whose parts are amounts, though their sum is none."""

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        parts = {"available": LARGEST, "trading": LARGEST}
        return ProfileBalance.model_validate({"asset": asset, **parts})


def large(number: int, **members: str) -> dict[str, str]:
    return transfer(number, amount=LARGEST, total=LARGEST, **members)


@pytest.fixture(params=["no balance", "small balance", "parts of a balance", "two profiles"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    store = Store(tmp_path / "store")
    if request.param == "no balance":
        store.sync(FakeService([large(1), large(2)]), tables=["transfers"])
    elif request.param == "small balance":
        store.sync(Small([large(1), large(2)]))
    elif request.param == "parts of a balance":
        store.sync(InTwoParts([transfer(1)]))
    else:
        store.sync(FakeService([large(1), large(2, profile_id="p-2")]))
    return store


@pytest.mark.thorough
@pytest.mark.parametrize("more", [[], ["--catch-up", "--period", "2026-03"]])
def test_a_report_says_in_one_line_what_overflowed(
    store: Store, more: list[str], tmp_path: Path, fundlab: Any
) -> None:
    arguments = ["report", "--store", store.path, "--out", tmp_path / "out", "--format", "csv"]
    status, out, error = fundlab(*arguments, *more, "--json")
    told = json.loads(out)["error"]
    assert (status, told["type"]) == (1, "OverflowError")
    assert LIMIT in told["message"] or "at most 38 digits" in told["message"]
    assert "Traceback" not in error
    status, out, error = fundlab(*arguments, *more)
    assert (status, out) == (1, "")
    (line,) = [line for line in error.splitlines() if line.startswith("fundlab: ")]
    assert told["message"] in line
    assert "Traceback" not in error


def test_what_can_be_checked_is_checked(store: Store, tmp_path: Path, fundlab: Any) -> None:
    status, out, _ = fundlab("verify", "--store", store.path, "--json")
    problems = {problem["rule"] for problem in json.loads(out)["problems"]}
    assert (status, problems) in ((0, set()), (3, {"balance"}))
    arguments = ["export", "transfers", "--format", "csv", "--out", tmp_path / "t.csv"]
    assert fundlab(*arguments, "--store", store.path)[0] == 0


def test_an_engine_that_cannot_cast_a_sum_says_the_same() -> None:
    rows = pa.table({"x": pa.array([Decimal(LARGEST)] * 2, pa.decimal128(38, 10))})
    cast = duckdb.connect().from_arrow(rows).aggregate("CAST(sum(x) AS DECIMAL(38, 18)) AS x")
    with pytest.raises(OverflowError, match=LIMIT), engine_errors():
        cast.fetchall()
    text = duckdb.connect().sql("SELECT CAST('x' AS INTEGER)")
    with pytest.raises(AnalysisError, match="Could not convert"), engine_errors():
        text.fetchall()


def test_the_sandbox_shows_no_value_that_its_client_refuses() -> None:
    """The worth of a deposit may have more digits than an amount: it is optional, and left out."""
    with fl.sandbox.serve(seed=3, transfers=0, clock="manual") as sandbox:
        client = sandbox.connect()
        profile = sandbox.profile_ids[0]
        made = client.create_deposit_address(profile_id=profile, crypto_network="BITCOIN")
        sandbox.control.crypto_deposit(made.address, "BTC", LARGEST)
        sandbox.clock.advance(120)
        newest = next(client.list_transfers(profile_ids=[profile], order="DESC"))
        assert (newest.amount, newest.status) == (Decimal(LARGEST), "COMPLETED")
        assert newest.notional_value is None
        sandbox.control.crypto_deposit(made.address, "ETH", "2.5")
        newest = next(client.list_transfers(profile_ids=[profile], order="DESC"))
        assert (newest.asset, newest.notional_value) == ("ETH", Decimal(6250))
        frame = fl.load_transfers(client, profile_ids=[profile])
        assert frame["notional_value"].notna().sum() == 1
