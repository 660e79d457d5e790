"""Valued amounts against a plain-Python oracle, and the prices that are not used."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transfer_examples import (
    ALL_COLUMNS,
    DAY,
    EVERY_KIND,
    KINDS,
    MONEY,
    START,
    TIME,
    Row,
    make_rows,
    observed,
    records,
    table,
    transfer,
)

import fundlab as fl
from fundlab.analysis import value
from fundlab.base.errors import AnalysisError, StoreError, UnpricedWarning

EXACT = Context(prec=200)
CENT = Decimal("0.01")
D = Decimal
SCHEMA = ALL_COLUMNS.append(pa.field("notional_value", MONEY))


def rounded(value: Fraction, rounding: str) -> Decimal:
    units = EXACT.divide(Decimal(value.numerator), Decimal(value.denominator))
    return units.quantize(Decimal("1E-18"), rounding, EXACT)


def history(random: Random) -> tuple[list[Row], list[tuple[str, int, Decimal]]]:
    """Transfers of which some have a notional value, and prices of a file, many of them stale."""
    rows = make_rows(random.randrange(30, 160), random.randrange(10**9), 4)
    dollars = {"USDC": Decimal("0.9998"), "ETH": Decimal("2711.37"), "BTC": Decimal("91234.5")}
    for row in rows:
        row["notional_value"] = None
        if row["asset"] in dollars and random.random() < 0.4:
            units = EXACT.add(row["amount"], row["fee"])
            worth = EXACT.multiply(units, dollars[row["asset"]] * random.randrange(90, 110) / 100)
            row["notional_value"] = worth.quantize(CENT, ROUND_DOWN, EXACT)
        if random.random() < 0.05:  # worth too little to price others by
            row["notional_value"] = Decimal(random.randrange(0, 9999)).scaleb(-2)
    given = [
        (random.choice(["USDC", "ETH", "USD", "DOGE"]), START + random.randrange(300 * DAY),
         Decimal(random.randrange(10**9)).scaleb(-random.randrange(9)))
        for _ in range(random.randrange(0, 12))
    ]  # fmt: skip
    if given and random.random() < 0.3:  # at the moment of a transfer
        given.append((given[0][0], rows[0]["created_at"], Decimal("7.25")))
    return rows, given


def by_hand(
    rows: list[Row], given: list[tuple[str, int, Decimal]], limit: int
) -> list[tuple[str | None, int | None, Decimal | None, Decimal | None]]:
    """Source, age, value of the total and of the fee of each row."""
    points: dict[str, list[tuple[int, int, Fraction]]] = defaultdict(list)
    for asset, at, price in given:
        points[asset].append((at, 1, Fraction(price)))
    own: dict[str, Fraction] = {}
    for row in rows:
        units = Fraction(row["amount"]) + Fraction(row["fee"])
        if row["notional_value"] is not None and units > 0:
            cut = rounded(Fraction(row["notional_value"]) / units, ROUND_DOWN)
            own[row["id"]] = Fraction(cut)
            if row["notional_value"] >= 100:
                points[row["asset"]].append((row["created_at"], 0, Fraction(cut)))
    found: list[tuple[Any, ...]] = []
    for row in rows:
        asset, at = row["balance_asset"] or row["asset"], row["created_at"]
        before = [point for point in points[asset] if point[0] <= at]
        source: str | None = None
        age, price = 0, Fraction(0)
        if asset == row["asset"] and row["id"] in own:
            source, price = "own", own[row["id"]]
        elif asset == "USD":
            source, price = "currency", Fraction(1)
        elif before and at - max(before)[0] <= limit:
            last, is_given, price = max(before)
            source, age = ("given" if is_given else "transfers"), at - last
        if source is None:
            found.append((None, None, None, None))
            continue
        values = []
        for name in ("total", "fee"):
            value = rounded(Fraction(row[name]) * price, ROUND_HALF_EVEN)
            if source == "own" and row[name] == EXACT.add(row["amount"], row["fee"]):
                value = row["notional_value"]
            values.append(value)
        found.append((source, age, *values))
    return found


def priced(given: list[tuple[str, int, Decimal]]) -> pa.Table:
    assets, moments, prices = zip(*given, strict=True) if given else ((), (), ())
    return pa.table(
        {
            "asset": pa.array(assets, pa.string()),
            "at": pa.array(moments, pa.int64()).cast(TIME),
            "price": pa.array(prices, MONEY),
        }
    )


@pytest.mark.parametrize(
    "count", [10, pytest.param(200, marks=pytest.mark.thorough)], ids=["few", "all"]
)
def test_values_and_totals_are_those_of_a_plain_oracle(
    count: int, seed: int, figure: Callable[[str], None]
) -> None:
    sources: dict[str | None, int] = defaultdict(int)
    for number in range(count):
        random = Random(f"{seed} {number}")
        rows, given = history(random)
        limit = random.choice([0, 1, 7, 60]) * DAY
        frame = pa.Table.from_pylist(rows, schema=SCHEMA)
        expected = by_hand(rows, given, limit)
        lacking = any(source is None for source, *_ in expected)
        with pytest.warns(UnpricedWarning) if lacking else nullcontext():
            valued = fl.value.of(frame, prices=priced(given), max_age=pd.Timedelta(limit, "ns"))
        sums: dict[tuple[str, str], list[Any]] = defaultdict(lambda: [0, 0, Decimal(0), Decimal(0)])
        for row, got, (source, age, total, fee) in zip(
            rows, records(valued), expected, strict=True
        ):
            assert got["price_from"] == source, (number, row)
            assert (got["total_value"], got["fee_value"]) == (total, fee), (number, row)
            assert (None if age is None else pd.Timedelta(age, "ns")) == got["price_age"]
            sources[source] += 1
            if row["status"] == "COMPLETED":
                mine = sums[row["direction"], row["balance_asset"] or row["asset"]]
                mine[0] += 1
                if source is not None:
                    mine[1] += 1
                    mine[2], mine[3] = EXACT.add(mine[2], total), EXACT.add(mine[3], fee)
        found = fl.value.totals(valued, by=["direction", "asset"])
        assert {
            (row["direction"], row["asset"]): [*row.values()][2:] for row in records(found)
        } == {
            key: [*mine[:2], *(mine[2:] if mine[1] else [None] * 2)] for key, mine in sums.items()
        }
    assert set(sources) == {"own", "currency", "transfers", "given", None}
    figure(f"{count} histories, rows by the source of their price {dict(sources)}")


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_of_frame_is_given_back_with_its_own_columns(kind: str) -> None:
    rows = [row for row in make_rows(40, 3, 3) if row["asset"] in ("USD", "ETH")]
    prices = priced([("ETH", START, Decimal(2500))])
    frame = KINDS[kind](rows)
    found = fl.value.of(frame, prices=prices, max_age="400D")
    assert type(found) is type(frame)
    by_id = {row["id"]: row for row in records(found)}
    for row in rows:
        price = Decimal(1) if row["asset"] == "USD" else Decimal(2500)
        assert by_id[row["id"]]["total_value"] == row["total"] * price
        assert by_id[row["id"]]["created_at"] == records(KINDS["arrow"]([row]))[0]["created_at"]
    sums = records(fl.value.totals(found, freq="YS"))
    assert [row["asset"] for row in sums] == ["ETH", "USD"]


NOVEMBER = "2026-11-01T00:00:00Z"


def test_balances_have_the_price_of_a_moment_from_a_file_with_every_digit(tmp_path: Path) -> None:
    balances = pd.DataFrame({"profile_id": ["a", "a", "b"], "asset": ["ETH", "USD", "BTC"]})
    balances["balance"] = pd.array(["2", "3.10", "1"], dtype="decimal")
    text = (
        "asset,currency,at,price\n"
        "ETH,USD,2026-10-31T12:00:00.000000001Z,2500.123456789012345678\n"
        "ETH,EUR,2026-10-31T13:00:00Z,2100\nBTC,USD,2026-10-01T00:00:00Z,90000\n"
    )
    (tmp_path / "prices.csv").write_text(text, encoding="utf-8")
    said = (
        "no price in USD for 1 of 3 rows: BTC (the newest is 31 d old). "
        "Give prices= (--prices), or a max_age= (--max-age) of 31D for all of them"
    )
    with pytest.warns(UnpricedWarning, match=re.escape(said)):
        found = fl.value.of(balances, prices=tmp_path / "prices.csv", at=NOVEMBER)
    assert found["balance_value"].tolist() == [Decimal("5000.246913578024691356"), Decimal("3.1"),
                                               pd.NA]  # fmt: skip
    assert found["price_from"].tolist() == ["given", "currency", pd.NA]
    assert found["price_age"].iloc[0] == pd.Timedelta("12h") - pd.Timedelta(1, "ns")
    with pytest.warns(
        UnpricedWarning, match=r"ETH \(the newest is 11 h 59 min old\).* of 31D for all of them$"
    ):
        fl.value.of(balances, prices=tmp_path / "prices.csv", at=NOVEMBER, max_age="30min")
    said = (  # of none at all, no age would do
        r"^no price in EUR for 2 of 3 rows: BTC \(none found\), USD \(none found\)\. Give prices= "
        r"\(--prices\): the service's own are in USD$"
    )
    with pytest.warns(UnpricedWarning, match=said):
        euros = fl.value.of(balances, "EUR", tmp_path / "prices.csv", at=NOVEMBER)
    assert euros["balance_value"].tolist() == [Decimal(4200), pd.NA, pd.NA]
    sums = fl.value.totals(found, by=["profile_id", "asset"])
    assert sums[["count", "priced"]].sum().tolist() == [3, 2]
    days = ("31D", "31d", np.timedelta64(31, "D"), timedelta(31), pd.offsets.Day(31), "744:00:00")
    for max_age in days:
        fl.value.of(balances, prices=tmp_path / "prices.csv", at=NOVEMBER, max_age=max_age)


def test_the_service_says_dollars_and_no_other_currency() -> None:
    row = make_rows(20, 3, 3)[0] | {"asset": "ETH", "notional_value": Decimal(5000)}
    frame = pa.Table.from_pylist([row | {"balance_asset": None}], schema=SCHEMA)
    assert records(fl.value.of(frame))[0]["price_from"] == "own"
    for prices in (None, frame):
        with pytest.warns(UnpricedWarning, match=r"ETH \(none found\)"):
            assert records(fl.value.of(frame, "EUR", prices=prices))[0]["price_from"] is None


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({}, {"max_age": "soon"}, "max_age='soon' is not a length of time with its unit: give"),
        ({}, {"max_age": "30"}, "max_age='30' is not .* give days or hours, such as '30D'"),
        *(
            ({}, {"max_age": without_unit}, "max_age=.* is not a length of time with its unit")
            for without_unit in ("+30", "1 30", "1 30D", "3e1", "", None, True, 30, 30.0,
                                 np.int32(30), np.float32(3), np.timedelta64(30))
        ),
        ({}, {"prices": "nowhere.csv"}, "prices: the file nowhere.csv does not exist"),
        ({}, {"prices": "https://example.com/p.csv"}, "give a file of this machine, or a store"),
        ({"created_at": None}, {}, "does not say at what time to value its amounts: it has no "
         "column created_at, at or observed_at among .*, total, .*; give a moment for all of them, "
         r"such as fl\.value\.of\(held, at=\"2026-10-31\", prices=transfers\), or the name of an"),
        ({"total": None, "amount": None, "fee": None}, {}, "has no amount to value"),
        ({}, {"prices": Path(__file__).parent}, "there is no store at"),
        ({}, {"prices": pd.DataFrame({"asset": ["ETH"]})}, "prices has no column 'created_at'"),
    ],
)  # fmt: skip
def test_what_cannot_be_valued_is_named(
    change: dict[str, None], given: dict[str, Any], words: str
) -> None:
    frame = KINDS["decimal"](make_rows(20, 3, 3)).drop(columns=[*change])
    with pytest.raises((AnalysisError, StoreError), match=words):
        fl.value.of(frame, **given)


def test_a_price_below_nothing_and_one_that_does_not_fit_are_refused() -> None:
    frame = KINDS["arrow"](make_rows(20, 3, 3))
    with pytest.raises(AnalysisError, match="its price is below 0"):
        fl.value.of(frame, prices=priced([("ETH", START, Decimal(-1))]))
    huge = priced([("USDC", START, Decimal(10) ** 18)])
    with pytest.raises(OverflowError, match="a price or a value has more than 20 integer digits"):
        fl.value.of(frame, prices=huge, max_age="999D")


def test_the_largest_amount_that_a_table_holds_has_a_value() -> None:
    most = Decimal("99999999999999999999.999999999999999999")
    frame = KINDS["decimal"](make_rows(1, 3, 3)).assign(asset="USD", notional_value=None)
    for name, amount in (("amount", most - 1), ("fee", Decimal(1)), ("total", most)):
        frame[name] = pd.array([amount], dtype="decimal")
    assert [*fl.value.of(frame, amounts=["total"])["total_value"]] == [most]
    frame = frame.assign(asset="BTC", notional_value=pd.array(["100"], dtype="decimal"))
    assert [*fl.value.of(frame, amounts=["total"])["total_value"]] == [100]


@pytest.mark.parametrize("by", [(), "asset", ["profile_id", "asset"]])
def test_a_balance_observed_twice_is_not_added_up(by: Any) -> None:
    """A store's table of balances has every observation: its sum would be twice what there is."""
    observed = fl.sample().read("balances")
    assert (len(observed), len(observed.drop_duplicates(["profile_id", "asset"]))) == (80, 40)
    dollars = fl.value.of(observed, prices=fl.sample(), max_age="30D")
    with pytest.raises(AnalysisError, match="80 observations of 40 balances"):
        fl.value.totals(dollars, by=by)
    last = dollars.drop_duplicates(["profile_id", "asset"], keep="last")
    assert fl.value.totals(last, by=())["count"].item() == 40


def test_sums_of_values_some_rows_at_a_time_are_those_of_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In batches a price may be of another batch, and an asset priced in one of them only."""
    monkeypatch.setattr(value, "_BATCH", 2_048)
    done = fl.sample().scan("transfers").filter("status = 'COMPLETED'").project(
        "id, asset, balance_asset, coalesce(balance_asset, asset) AS moved, amount, fee, total, "
        "CASE WHEN asset <> 'LTC' THEN notional_value END AS notional_value, created_at"
    )  # fmt: skip
    early, late = (done.filter(f"created_at {sign} '2026-06-01'") for sign in ("<", ">="))
    amounts = ["total", "fee"]
    found = value.summed(late, early, "2D", amounts, "moved", "MS", "UTC", "created_at")
    with pytest.warns(UnpricedWarning):
        all_at_once = fl.value.of(
            late.to_arrow_table(), prices=early, max_age="2D", amounts=amounts
        )
    assert found.equals(fl.value.totals(all_at_once, "moved", "MS"))
    assert 0 < sum(found.column("priced").to_pylist()) < sum(found.column("count").to_pylist())
    assert found.column("total_value").null_count
    none = value.summed(late.limit(0), early, "2D", amounts, "moved", "MS", "UTC", "created_at")
    assert (none.num_rows, none.schema) == (0, found.schema)


def priced_transfers(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def test_a_price_is_used_at_its_moment_and_until_it_is_too_old() -> None:
    rows = [transfer(str(moment), asset="ETH", created_at=START + moment) for moment in
            (-1, 0, DAY, DAY + 1)]  # fmt: skip
    prices = priced([("BTC", START - 2, D(3)), ("ETH", START, D(7))])
    with pytest.warns(UnpricedWarning, match=r"2 of 4 rows: ETH .* above 1 d$") as said:
        found = fl.value.of(table(rows), prices=prices, max_age="1D")
    assert said[0].filename == __file__
    assert found.column("total_value").to_pylist() == [None, 70, 70, None]
    assert found.column("price_age").cast(pa.int64()).to_pylist() == [None, 0, DAY, None]


def test_a_transfer_of_a_hundred_prices_others_and_one_of_less_does_not() -> None:
    """``found`` has a column ``price``, too, and is one of transfers all the same."""
    rows = [
        transfer(str(n), asset="ETH", amount=D(n), created_at=START + n, notional_value=worth)
        for n, worth in ((2, D(100)), (3, D("99.99")), (5, None))
    ]
    found = fl.value.of(priced_transfers(*rows))
    assert found.column("price").to_pylist() == [50, D("33.33"), 50]
    again = fl.value.of(table(rows[2:]), prices=found)
    assert again.column("price").to_pylist() == [50]


def test_a_transfer_worth_nineteen_digits_has_a_price_of_its_own() -> None:
    worth = D("9999999999999999999.99")
    rows = [transfer("a", asset="ETH", amount=D(2), created_at=START, notional_value=worth)]
    assert fl.value.of(priced_transfers(*rows)).column("price").to_pylist() == [
        D("4999999999999999999.995")
    ]


def test_a_transfer_without_an_asset_or_a_moment_prices_no_other() -> None:
    """Nor does it make the moments of the others floating, whose last digits are lost."""
    rows = [
        transfer("a", asset=None, notional_value=D(200)),
        transfer("b", asset="ETH", notional_value=D(300), created_at=START + 1),
        transfer("c", asset="ETH", notional_value=D(400)) | {"created_at": None},
    ]
    held = [transfer("x", asset="ETH", created_at=START + DAY), transfer("y", asset=None)]
    with pytest.warns(UnpricedWarning, match=r"1 of 2 rows: None \(none found\)"):
        found = fl.value.of(table(held), prices=priced_transfers(*rows))
    assert found.column("price").to_pylist() == [30, None]
    assert found.column("price_age").cast(pa.int64()).to_pylist() == [DAY - 1, None]


def test_what_is_missing_has_no_value() -> None:
    rows = [
        transfer("no total", asset="ETH", notional_value=D(100)) | {"total": None},
        transfer("no asset", asset=None, notional_value=D(99)),
        transfer("moved", asset=None, balance_asset="USD", notional_value=D(99)),
    ]
    with pytest.warns(UnpricedWarning, match=r"1 of 3 rows: None \(none found\)"):
        found = fl.value.of(priced_transfers(*rows))
    assert found.column("price_from").to_pylist() == ["own", None, "currency"]
    assert found.column("total_value").to_pylist() == [None, None, 10]
    assert found.column("fee_value").to_pylist() == [0, None, 0]


@pytest.mark.parametrize("lacking", ["asset", "at", "price"])
def test_a_price_that_lacks_something_is_refused(lacking: str) -> None:
    prices = priced([("ETH", START, D(7)), ("ETH", START + 1, D(7))])
    column = pa.array([prices.column(lacking)[0].as_py(), None], prices.schema.field(lacking).type)
    prices = prices.set_column(prices.column_names.index(lacking), lacking, column)
    with pytest.raises(AnalysisError, match="prices: a row lacks asset, at or price"):
        fl.value.of(table([transfer("a")]), prices=prices)


@pytest.mark.parametrize("suffix", ["parquet", "PARQUET"])
def test_a_parquet_file_of_prices_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"prices.{suffix}"
    pq.write_table(priced([("ETH", START, D("7.123456789012345678"))]), path)
    found = fl.value.of(table([transfer("a", asset="ETH")]), prices=str(path))
    assert found.column("total_value").to_pylist() == [D("71.23456789012345678")]


def test_one_balance_of_several_observed_twice_is_refused() -> None:
    seen = [observed({("p1", "USD"): D(1), ("p2", "USD"): D(2)}, START),
            observed({("p1", "USD"): D(3)}, START + 1)]  # fmt: skip
    once, twice = (fl.value.of(pa.concat_tables(some)) for some in (seen[:1], seen))
    assert fl.value.totals(once, ()).column("available_value").to_pylist() == [3]
    with pytest.raises(AnalysisError, match="valued has 3 observations of 2 balances"):
        fl.value.totals(twice, ())


def test_sums_of_what_has_no_key_come_last() -> None:
    rows = [transfer("a"), transfer("b", memo="x"), transfer("c", memo="b")]
    found = records(fl.value.totals(fl.value.of(table(rows)), by="memo"))
    assert [(row["memo"], row["count"], row["total_value"]) for row in found] == [
        ("b", 1, 10), ("x", 1, 10), (None, 1, 10)
    ]  # fmt: skip


def test_a_bare_date_values_at_the_close_of_its_day() -> None:
    balances = pd.DataFrame({"asset": ["ETH"], "balance": pd.array(["2"], dtype="decimal")})
    noon = int(pd.Timestamp("2026-10-31T12:00:00Z").value)
    prices = priced([("ETH", noon, Decimal(2500))])
    found = fl.value.of(balances, prices=prices, at="2026-10-31", amounts=iter(["balance"]))
    assert found["balance_value"].tolist() == [5000]
    assert found["price_age"].iloc[0] == pd.Timedelta("12h") - pd.Timedelta(1, "ns")


def test_a_line_of_a_price_file_without_a_currency_is_in_dollars(tmp_path: Path) -> None:
    balances = pd.DataFrame({"asset": ["ETH"], "balance": pd.array(["2"], dtype="decimal")})
    (tmp_path / "p.csv").write_text("asset,currency,at,price\nETH,,2026-10-31T12:00:00Z,2500\n")
    found = fl.value.of(balances, prices=tmp_path / "p.csv", at="2026-10-31")
    assert found["balance_value"].tolist() == [5000]
