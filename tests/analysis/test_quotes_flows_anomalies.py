"""Quotes, batches, counterparties, conversions, open items and what looks odd, by literal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from transfer_examples import (
    DAY,
    START,
    TEXTS,
    Row,
    change,
    exact_sum,
    laws,
    make_rows,
    records,
    table,
    transfers,
)
from transfer_examples import transfer as basic

import fundlab as fl
from fundlab.analysis import checks, fees, flows
from fundlab.base.errors import AnalysisError, ServiceError
from fundlab.base.values import Instant

D = Decimal
MINUTE = DAY // 1440
TIME = pa.timestamp("ns", "UTC")


def transfer(id_: str, **given: Any) -> Row:
    return {**dict.fromkeys(TEXTS), **basic(id_, **given)}


KINDS: dict[str, Any] = {
    "arrow": table,
    "pandas": lambda rows: table(rows).to_pandas(),
    "polars": lambda rows: pl.from_arrow(table(rows)),
    "duckdb": lambda rows: duckdb.connect().from_arrow(table(rows)),
}
WIRE: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL", "fee": D("25")}
ETH: Row = {
    "direction": "DEBIT", "type": "CRYPTO_WITHDRAWAL", "asset": "ETH", "crypto_network": "BASE",
    "destination_address": "0xa",
}  # fmt: skip


def told(result: Any, *names: str) -> list[Any]:
    return [tuple(row[name] for name in names) for row in records(result)]


# ------------------------------------------------------------------------------------- fees


class Quoting:
    """A client that quotes by network, and refuses one."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def list_crypto_destination_addresses(self, **filters: Any) -> list[Any]:
        self.asked.append(filters)
        return [
            SimpleNamespace(crypto_network=network, address=f"to-{network}", nickname=None)
            for network in ("ETHEREUM", "BASE", "STELLAR", "BROKEN")
        ]

    def create_crypto_withdrawal_fee(self, **request: Any) -> Any:
        network = request["crypto_network"]
        if network in ("STELLAR", "BROKEN"):
            status = 400 if network == "STELLAR" else 503
            raise ServiceError(status, "Bad Request", "STELLAR does not carry ETH")
        fee = {"ETHEREUM": "0.0015", "BASE": "0.000000000000000001"}[network]
        amount, total = request.get("amount"), request.get("total")
        return SimpleNamespace(
            id=f"q-{network}", fee=fee, amount=amount, total=total,
            expires_at=Instant.from_ns(START + 7),
        )  # fmt: skip


class Three(Quoting):
    def list_crypto_destination_addresses(self, **filters: Any) -> list[Any]:
        return super().list_crypto_destination_addresses(**filters)[:3]


def test_quotes_cheapest_first_with_what_is_refused_last() -> None:
    client = Three()
    result = fees.compare_quotes(client, "ETH", "2", crypto_networks="BASE")
    assert client.asked == [{"crypto_networks": "BASE"}]
    assert result["fee"].dtype == "decimal"
    assert told(result, "id", "crypto_network", "fee", "total", "expires_at", "problem") == [
        ("q-BASE", "BASE", D("1E-18"), D("2.000000000000000001"),
         "2026-01-01T00:00:00.000000007+00:00", None),
        ("q-ETHEREUM", "ETHEREUM", D("0.0015"), D("2.0015"),
         "2026-01-01T00:00:00.000000007+00:00", None),
        (None, "STELLAR", None, None, None, "STELLAR does not carry ETH"),
    ]  # fmt: skip
    by_total = fees.compare_quotes(Three(), "ETH", total="2")
    assert by_total["amount"].iloc[1] == D("1.9985")


def test_quotes_lose_no_digit_to_the_callers_precision() -> None:
    much = "12345678901234567890.123456789012345678"
    with localcontext(prec=5):
        by_amount = fees.compare_quotes(Three(), "ETH", much)
        by_total = fees.compare_quotes(Three(), "ETH", total=much)
    assert by_amount["total"].iloc[0] == D("12345678901234567890.123456789012345679")
    assert by_total["amount"].iloc[0] == D("12345678901234567890.123456789012345677")


def test_quotes_need_one_amount_and_a_service_that_answers() -> None:
    for given_ in ({}, {"amount": "1", "total": "1"}):
        with pytest.raises(AnalysisError, match="exactly one of amount and total"):
            fees.compare_quotes(Quoting(), "ETH", **given_)
    with pytest.raises(ServiceError, match="503"):
        fees.compare_quotes(Quoting(), "ETH", "1")


class Told(Quoting):
    """Addresses by network and address; what is told of each, or the error."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def list_crypto_destination_addresses(self, **filters: Any) -> list[Any]:
        return [
            SimpleNamespace(crypto_network=place[0], address=place[1], nickname=None)
            for place in self.answers
        ]

    def create_crypto_withdrawal_fee(self, **request: Any) -> Any:
        answer = self.answers[request["crypto_network"] + request["destination_address"]]
        if isinstance(answer, ServiceError):
            raise answer
        amount, fee, total = answer
        ends = Instant.from_ns(START)
        return SimpleNamespace(id="q", fee=fee, amount=amount, total=total, expires_at=ends)


def test_a_quote_says_what_was_told_and_the_other_amount_where_only_one_was() -> None:
    client = Told(
        Bz=("2", "1", "5"), Ba=("2", "1", None), Az=(None, "1", "5"), Aa=(None, "1", None),
        Ca=(None, "0.5", None),
        Da=ServiceError(404, "Not Found", "no such"), Ab=ServiceError(400, "Bad Request", None),
    )  # fmt: skip
    names = ("crypto_network", "destination_address", "fee", "amount", "total", "problem")
    assert told(fees.compare_quotes(client, "ETH", "2"), *names) == [
        ("C", "a", D("0.5"), None, None, None),
        ("A", "a", 1, None, None, None),
        ("A", "z", 1, 4, 5, None),
        ("B", "a", 1, 2, 3, None),
        ("B", "z", 1, 2, 5, None),
        ("A", "b", None, None, None, "Bad Request"),
        ("D", "a", None, None, None, "no such"),
    ]
    for status in (401, 405):
        with pytest.raises(ServiceError, match=str(status)):
            fees.compare_quotes(Told(Aa=ServiceError(status, "x", "y")), "ETH", "2")


def quotes(*rows: tuple[str, str, str, int]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    money = pa.decimal128(38, 18)
    return pa.table(
        {
            "id": list(columns[0]),
            "crypto_network": ["BASE"] * len(rows),
            "destination_address": ["0xa"] * len(rows),
            "asset": ["ETH"] * len(rows),
            "amount": pa.array([D(x) for x in columns[1]], money),
            "fee": pa.array([D(x) for x in columns[2]], money),
            "expires_at": pa.array([START + x for x in columns[3]], pa.int64()).cast(TIME),
        }
    )


def test_drift_is_charged_less_quoted() -> None:
    offered = quotes(
        ("old", "10", "0.1", MINUTE), ("last", "10", "0.2", 3 * MINUTE), ("late", "10", "9", DAY),
        ("other", "11", "5", 3 * MINUTE),
    )  # fmt: skip
    rows = [
        transfer("t1", fee=D("0.25"), created_at=START, **ETH),
        transfer("t2", fee=D("0.2"), created_at=START + 10 * MINUTE, **ETH),
        transfer("t3", fee=D("0.2"), created_at=START, **{**ETH, "destination_address": "0xb"}),
        transfer("t4", fee=D("0.2"), status="FAILED", **ETH),
    ]
    result = fees.drift(offered, table(rows))
    names = ("transfer_id", "quote_id", "quoted", "charged", "drift", "status")
    assert told(result, *names) == [
        ("t1", "last", D("0.2"), D("0.25"), D("0.05"), "in_time"),
        ("t2", "last", D("0.2"), D("0.2"), D("0"), "expired"),
    ]
    with pytest.raises(
        AnalysisError, match="quotes: more than one row of id last, late, old, other"
    ):
        fees.drift(pa.concat_tables([offered, offered]), table(rows))


def test_a_quote_stands_for_five_minutes_both_ends_included() -> None:
    offered = quotes(("q", "10", "0.1", 10 * MINUTE))
    made = {"early": 5 * MINUTE - 1, "first": 5 * MINUTE, "last": 10 * MINUTE,
            "late": 10 * MINUTE + 1}  # fmt: skip
    rows = [transfer(name, created_at=START + at, **ETH) for name, at in made.items()]
    assert told(fees.drift(offered, table(rows)), "transfer_id", "status") == [
        ("first", "in_time"),
        ("last", "in_time"),
        ("late", "expired"),
    ]


@pytest.mark.parametrize(
    "analyse",
    [
        lambda rows: fees.drift(quotes(("q", "10", "0.1", 1)), rows),
        flows.ageing,
        flows.internal_pairs,
        checks.anomalies,
    ],
)
def test_rows_that_nobody_can_count_are_refused_by_name(
    analyse: Callable[[pa.Table], object],
) -> None:
    rows = [transfer("good", status="PENDING"), transfer("bad", status="ODD")]
    with pytest.raises(AnalysisError, match=r"status.*\(id bad\)"):
        analyse(table(rows))


def test_a_quote_without_its_fee_is_refused_by_name() -> None:
    offered = quotes(("q", "10", "0.1", 1), ("odd", "10", "0.1", 1))
    without = pa.array([D("0.1"), None], pa.decimal128(38, 18))
    place = offered.column_names.index("fee")
    with pytest.raises(AnalysisError, match=r"quotes.*fee.*\(id odd\)"):
        fees.drift(offered.set_column(place, "fee", without), table([transfer("t", **ETH)]))


@pytest.mark.parametrize("kind", KINDS)
def test_batching_by_literal(kind: str) -> None:
    rows = [
        transfer("a", fiat_account_id="f1", created_at=START + 1, **WIRE),
        transfer("b", fiat_account_id="f1", created_at=START + 2, **WIRE),
        transfer("c", fiat_account_id="f1", created_at=START + DAY, **WIRE),
        transfer("d", fiat_account_id="f2", created_at=START, **WIRE),
        transfer("e", fiat_account_id="f1", created_at=START, status="PENDING", **WIRE),
        transfer("f", created_at=START, **WIRE),
    ]
    names = ("target", "count", "amount", "fee", "single_fee", "saved")
    assert told(fees.batching(KINDS[kind](rows)), *names) == [
        ("f1", 2, D("20"), D("50"), D("25"), D("25"))
    ]
    by_month = told(fees.batching(KINDS[kind](rows), freq="MS"), *names)
    assert by_month == [("f1", 3, D("30"), D("75"), D("25"), D("50"))]


# ------------------------------------------------------------------------------------ flows


@pytest.mark.parametrize("kind", KINDS)
def test_counterparties_by_literal(kind: str) -> None:
    half: Row = {"group_id": "g", "asset": "USDC"}
    rows = [
        transfer("a", fiat_account_id="f1", **WIRE),
        transfer("b"),
        transfer("c", **{**ETH, "fee": D("1")}),
        transfer("d", type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT", **half),
        transfer("e", type="INTERNAL_TRANSFER_CREDIT", profile_id="p2", **half),
    ]
    names = ("profile_id", "kind", "counterparty", "asset", "count", "inflow", "outflow", "net")
    assert told(flows.counterparties(KINDS[kind](rows)), *names) == [
        ("p1", "address", "0xa", "ETH", 1, D("0"), D("11"), D("-11")),
        ("p1", "fiat_account", "f1", "USD", 1, D("0"), D("35"), D("-35")),
        ("p1", "profile", "p2", "USDC", 1, D("0"), D("10"), D("-10")),
        ("p1", "unknown", None, "USD", 1, D("10"), D("0"), D("10")),
        ("p2", "profile", "p1", "USDC", 1, D("10"), D("0"), D("10")),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_deposit_that_quotes_a_memo_comes_by_those_instructions(kind: str) -> None:
    rows = [
        transfer("a", memo="MEMO1"),
        transfer("b", memo="MEMO2", profile_id="p2"),
        transfer("c", memo="invoice 7"),
        transfer("d", memo="MEMO1", **WIRE),  # what one writes oneself says nothing of a sender
    ]
    given = pa.table({"id": ["i1", "i2", "i3"], "memo_id": ["MEMO1", "MEMO2", None]})
    names = ("profile_id", "kind", "counterparty", "count", "net")
    found = told(flows.counterparties(KINDS[kind](rows), instructions=given), *names)
    assert found == [
        ("p1", "instructions", "i1", 1, D("10")),
        ("p1", "unknown", None, 2, D("-25")),
        ("p2", "instructions", "i2", 1, D("10")),
    ]
    twice = pa.table({"id": ["i1", "i2"], "memo_id": ["MEMO1", "MEMO1"]})
    with pytest.raises(AnalysisError, match="instructions: more than one row of memo_id MEMO1"):
        flows.counterparties(KINDS[kind](rows), instructions=twice)


def test_a_store_brings_its_instructions_and_its_settlement_times() -> None:
    store = fl.sample()
    by_kind = flows.counterparties(store).df().groupby("kind")["count"].sum()
    transfers, memos = store.read("transfers"), store.read("deposit_instructions")["memo_id"]
    quoting = transfers[(transfers["status"] == "COMPLETED") & transfers["memo"].isin(memos)]
    assert by_kind["instructions"] == len(quoting) > 500
    settled = store.read("transfers", settled=True)
    settled = settled[settled["status"] == "COMPLETED"]
    longest = (
        (settled["settled_at"] - settled["created_at"])
        .groupby(settled["type"], observed=True)
        .max()
    )
    found = flows.settlement_time(store).df().set_index("type")["max"]
    assert found.to_dict() == longest[found.index].dt.round("us").to_dict()  # as intervals are


def test_halves_of_an_empty_group_are_not_each_others_counterparty() -> None:
    half: Row = {"group_id": "", "asset": "USDC"}
    rows = [
        transfer("a", type="INTERNAL_TRANSFER_DEBIT", direction="DEBIT", **half),
        transfer("b", type="INTERNAL_TRANSFER_CREDIT", profile_id="p2", **half),
    ]
    found = told(flows.counterparties(table(rows)), "profile_id", "kind", "counterparty")
    assert found == [("p1", "unknown", None), ("p2", "unknown", None)]


@given(rows=transfers())
@laws
def test_flows_of_counterparties_add_up_to_the_change(rows: list[Row]) -> None:
    rows = [{**dict.fromkeys(TEXTS), **row} for row in rows]
    found: dict[Any, Any] = defaultdict(list)
    for row in records(flows.counterparties(table(rows))):
        found[row["profile_id"], row["asset"]].append(row["net"])
    expected: dict[Any, Any] = defaultdict(list)
    for row in rows:
        signed = change(row, "ledger")
        if signed is not None:
            expected[row["profile_id"], row["balance_asset"] or row["asset"]].append(signed)
    assert {k: exact_sum(v) for k, v in found.items()} == {
        k: exact_sum(v) for k, v in expected.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_conversions_by_literal(kind: str) -> None:
    rows = [
        transfer("a", asset="USDC", balance_asset="USD", amount=D("5")),
        transfer("b", asset="USDC", balance_asset="USD", amount=D("6"), created_at=START + 1),
        transfer("c", asset="USDC", balance_asset="USDC"),
        transfer("d", asset="PYUSD", balance_asset="USD", **WIRE),
        transfer("e", asset="USDC", balance_asset="USD", status="FAILED"),
    ]
    names = ("direction", "from_asset", "to_asset", "count", "amount", "total")
    assert told(flows.conversions(KINDS[kind](rows)), *names) == [
        ("CREDIT", "USDC", "USD", 2, D("11"), D("11")),
        ("DEBIT", "USD", "PYUSD", 1, D("10"), D("35")),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_conversions_by_period_and_basis(kind: str) -> None:
    usual: Row = {"asset": "USDC", "balance_asset": "USD"}
    rows = [
        transfer("a", amount=D("5"), **usual),
        transfer("b", amount=D("6"), created_at=START + 31 * DAY, **usual),
    ]
    names = ("period", "from_asset", "count", "amount")
    january, february = (pd.Timestamp(f"2026-{month}-01", tz="UTC") for month in ("01", "02"))
    by_creation = flows.conversions(KINDS[kind](rows), freq="MS")
    assert [(pd.Timestamp(one), *rest) for one, *rest in told(by_creation, *names)] == [
        (january, "USDC", 1, D("5")),
        (february, "USDC", 1, D("6")),
    ]
    moments = pa.array([START + 40 * DAY, START + 41 * DAY], pa.int64()).cast(TIME)
    by_settlement = table(rows).append_column("settled_at", moments)
    (found,) = told(flows.conversions(by_settlement, "MS", basis="settled"), *names, "first")
    assert found[2:] == (2, D("11"), "2026-02-10T00:00:00+00:00")


@pytest.mark.parametrize("kind", KINDS)
def test_ageing_by_literal(kind: str) -> None:
    rows = [
        transfer(str(age), status="PENDING", created_at=START + 10 * DAY - age)
        for age in (0, DAY // 24 - 1, DAY // 24, DAY, 3 * DAY, 7 * DAY, 9 * DAY, 30 * DAY)
    ]
    rows += [transfer("done"), transfer("later", status="PENDING", created_at=START + 11 * DAY)]
    result = flows.ageing(KINDS[kind](rows), "2026-01-11")
    assert told(result, "age", "count", "total") == [
        ("under 1h", 2, D("20")),
        ("1h to 1D", 1, D("10")),
        ("1D to 3D", 1, D("10")),
        ("3D to 7D", 1, D("10")),
        ("7D to 30D", 2, D("20")),
        ("30D on", 1, D("10")),
    ]
    now = told(flows.ageing(KINDS[kind](rows)), "age", "count")
    assert now == [("30D on", 9)]  # "later", too: nothing is left out
    least = flows.ageing(KINDS[kind](rows[:1]), "2026-01-11", ["1ns", "2ns"])
    assert told(least, "age", "count") == [("under 1ns", 1)]
    for edges in ((), ("2D", "1D"), ("0D",), ("0D", "1D"), ("soon",)):
        with pytest.raises(AnalysisError, match="edges="):
            flows.ageing(KINDS[kind](rows), "2026-01-11", edges)


# --------------------------------------------------------------------------------- anomalies


def accounts(**approved: int) -> pa.Table:
    moments = pa.array([START + at for at in approved.values()], pa.int64()).cast(TIME)
    return pa.table(
        {
            "id": list(approved),
            "status": ["REJECTED" if name == "bad" else "APPROVED" for name in approved],
            "created_at": moments,
            "updated_at": moments,
        }
    )


@pytest.mark.parametrize("kind", KINDS)
def test_anomalies_by_literal(kind: str) -> None:
    wires = [
        transfer(f"w{n:02}", fiat_account_id=f"f{n}", created_at=START + n * DAY, **WIRE)
        for n in range(30)
    ]
    odd = [
        transfer("again", fiat_account_id="f3", created_at=START + 3 * DAY + 10 * MINUTE, **WIRE),
        transfer("fresh", fiat_account_id="new", created_at=START + 5 * DAY,
                 **{**WIRE, "amount": D(3)}),
        transfer("dear", created_at=START + 6 * DAY, **{**WIRE, "fee": D("25.01")}),
        transfer("slept", created_at=START + 130 * DAY),
        transfer("failed", fiat_account_id="f3", created_at=START + 3 * DAY + 1,
                 status="FAILED", **WIRE),
    ]  # fmt: skip
    known = accounts(new=5 * DAY - MINUTE, f4=0, bad=0)
    result = checks.anomalies(KINDS[kind](wires + odd), known)
    assert told(result, "rule", "transfer_id", "related_id", "expected", "found") == [
        ("dormant_profile", "slept", "w29", "a transfer at least every 90 days", "8726400 s after"),
        ("fresh_account", "fresh", "new",
         "an account approved at least 1 hour before", "60 s after"),
        ("repeated_amount", "again", "w03",
         "more than 10 minutes between equal amounts to one account", "600 s after"),
        ("unusual_fee", "dear", None, "25", "25.01"),
    ]  # fmt: skip


def test_anomalies_begin_at_their_bounds() -> None:
    hour = 60 * MINUTE
    rows = [
        transfer("first", fiat_account_id="at", created_at=START, **WIRE),
        transfer("repeated", fiat_account_id="at", created_at=START + 10 * MINUTE, **WIRE),
        transfer("later", fiat_account_id="at", created_at=START + 20 * MINUTE + 1, **WIRE),
        transfer("before", fiat_account_id="hence", created_at=START + 30 * MINUTE, **WIRE),
        transfer("settled", fiat_account_id="hour", created_at=START + hour, **WIRE),
        transfer("awake", created_at=START + hour + 90 * DAY - 1),
        transfer("woken", created_at=START + hour + 180 * DAY - 1),
    ]
    known = accounts(at=0, hence=30 * MINUTE + 1, hour=0)
    assert told(checks.anomalies(table(rows), known), "rule", "transfer_id") == [
        ("dormant_profile", "woken"),
        ("fresh_account", "first"),
        ("fresh_account", "repeated"),
        ("fresh_account", "later"),
        ("repeated_amount", "repeated"),
    ]


@pytest.mark.parametrize(("paying", "odd"), [(19, []), (20, ["dear"])])
def test_a_fee_of_one_in_twenty_is_usual(paying: int, odd: list[str]) -> None:
    rows = [
        transfer(f"w{n:02}", fiat_account_id=f"f{n}", created_at=START + n * DAY, **WIRE)
        for n in range(paying)
    ]
    rows.append(transfer("dear", created_at=START + DAY, **{**WIRE, "fee": D("25.01")}))
    assert checks.anomalies(table(rows))["transfer_id"].to_pylist() == odd


def test_a_quiet_history_has_no_anomalies_but_those_of_the_rules() -> None:
    assert records(checks.anomalies(table(make_rows(2_000)))) == []
    assert records(checks.anomalies(table([]))) == []
    for span in ("soon", "-1h", None):
        with pytest.raises(AnalysisError, match="repeated_within="):
            checks.anomalies(table([]), repeated_within=span)  # type: ignore[arg-type]


def rules_met(rows: list[Any], **given: Any) -> list[tuple[str, str]]:
    found = checks.anomalies(table(rows), **given)
    return [(row["rule"], row["transfer_id"]) for row in records(found)]


def test_accounts_may_be_a_relation_beside_rows_in_memory() -> None:
    known = duckdb.connect().from_arrow(accounts(new=5 * DAY - MINUTE))
    rows = [transfer("fresh", fiat_account_id="new", created_at=START + 5 * DAY, **WIRE)]
    assert rules_met(rows, fiat_accounts=known) == [("fresh_account", "fresh")]


@pytest.mark.parametrize(
    ("apart", "rule"),
    [(0, "repeated_amount"), (10 * MINUTE, "repeated_amount"), (10 * MINUTE + 1, None),
     (90 * DAY - 1, None), (90 * DAY, "dormant_profile")],
)  # fmt: skip
def test_an_anomaly_begins_at_just_the_span(apart: int, rule: str | None) -> None:
    paid = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL", "fiat_account_id": "f"}
    rows = [transfer("a", **paid), transfer("b", created_at=START + apart, **paid)]
    assert rules_met(rows) == ([(rule, "b")] if rule else [])


@pytest.mark.parametrize(("others", "unusual"), [(18, False), (19, False), (20, True)])
def test_a_fee_is_unusual_where_fewer_than_one_in_twenty_pay_it(others: int, unusual: bool) -> None:
    rows = [transfer(f"t{n}", fee=Decimal(1)) for n in range(others)]
    rows.append(transfer("odd", fee=Decimal(2)))
    assert rules_met(rows) == [("unusual_fee", "odd")] * unusual


@pytest.mark.parametrize(
    ("before", "fresh"),
    [(-1, False), (0, True), (60 * MINUTE - 1, True), (60 * MINUTE, False)],
)
def test_an_account_is_fresh_for_an_hour_from_its_approval(before: int, fresh: bool) -> None:
    paid = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL", "fiat_account_id": "f"}
    moment = pa.array([START - before], pa.int64()).cast(pa.timestamp("ns", "UTC"))
    for status in ("APPROVED", "PENDING"):
        accounts = pa.table(
            {"id": ["f"], "status": [status], "created_at": moment, "updated_at": moment}
        )
        met = rules_met([transfer("a", **paid)], fiat_accounts=accounts)
        assert met == [("fresh_account", "a")] * (fresh and status == "APPROVED")


@pytest.mark.parametrize("name", ["id", "profile_id", "created_at", "fee", "amount"])
def test_no_anomaly_is_looked_for_in_rows_that_lack_what_decides(name: str) -> None:
    row = transfer("a") | {name: None}
    with pytest.raises(AnalysisError, match=rf"transfers: {name} is missing"):
        checks.anomalies(table([row]))
