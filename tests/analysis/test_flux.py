"""What changed between two periods adds up to the last digit and names who made it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from transfer_examples import (
    ALL_COLUMNS,
    DAY,
    EVERY_KIND,
    KINDS,
    MONEY,
    START,
    Row,
    exact_sum,
    make_rows,
    records,
    table,
)
from transfer_examples import transfer as made

import fundlab as fl
from fundlab.analysis import flux
from fundlab.base.errors import AnalysisError

EXACT = Context(prec=200)
D = Decimal


def signed(row: Row, name: str = "total") -> Decimal:
    return row[name] if row["direction"] == "CREDIT" else row[name].copy_negate()


def done(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "COMPLETED"]


def pair(random: Random) -> tuple[list[Row], list[Row]]:
    return tuple(
        make_rows(random.randrange(20, 150), random.randrange(10**9), random.randrange(1, 6))
        for _ in range(2)
    )  # type: ignore[return-value]


def by_textbook(before: list[Row], after: list[Row]) -> dict[tuple[str, ...], Fraction]:
    """Asset, direction, driver: number times average, shares times averages, averages."""
    found: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
    groups = {(row["balance_asset"] or row["asset"], row["direction"]) for row in before + after}
    for group in groups:
        sides = [
            [
                row
                for row in rows
                if (row["balance_asset"] or row["asset"], row["direction"]) == group
            ]
            for rows in (before, after)
        ]
        kinds = {row["type"] for rows in sides for row in rows}
        n0, n1 = map(len, sides)
        if not n0:
            found[*group, "count"] = sum((Fraction(signed(row)) for row in sides[1]), Fraction(0))
            continue
        every = sum((Fraction(signed(row)) for row in sides[0]), Fraction(0))
        found[*group, "count"] = (n1 - n0) * every / n0
        for kind in kinds:
            old, new = (
                [Fraction(signed(row)) for row in rows if row["type"] == kind] for rows in sides
            )
            if not old:
                found[*group, "mix"] += sum(new)
                continue
            average = sum(old) / len(old)
            found[*group, "mix"] += (
                n1 * average * ((Fraction(len(new), n1) if n1 else 0) - Fraction(len(old), n0))
            )
            if new:
                found[*group, "average"] += len(new) * (sum(new) / len(new) - average)
    return found


def decimals(asset: str, *sides: list[Row]) -> int:
    """Of the sums by type of an asset, two at least: to that the drivers are rounded."""
    sums: dict[tuple[Any, ...], Decimal] = defaultdict(Decimal)
    for side, rows in enumerate(sides):
        for row in rows:
            if (row["balance_asset"] or row["asset"]) == asset:
                key = side, row["direction"], row["type"]
                sums[key] = exact_sum([sums[key], row["total"]])
    texts = [f"{amount:f}".partition(".")[2].rstrip("0") for amount in sums.values()]
    return max([2, *map(len, texts)])


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.campaign)])
def test_drivers_add_up_exactly_are_the_textbooks_and_name_what_was_planted(
    count: int, seed: int, figure: Callable[[str], None]
) -> None:
    planted: dict[str, int] = defaultdict(int)
    for number in range(count):
        random = Random(f"{seed} {number}")
        before, after = pair(random)
        asset = random.choice(["USD", "ETH"])
        huge = make_rows(10, 1, 1)[0] | {
            "asset": asset, "balance_asset": None, "direction": "CREDIT", "status": "COMPLETED",
            "type": "WIRE_DEPOSIT" if asset == "USD" else "CRYPTO_DEPOSIT", "group_id": None,
            "fee": Decimal(0),
        }  # fmt: skip
        how = random.choice(["one more", "one gone", "a new type"])
        ids = {f"planted-{place}" for place in range(3 if how == "a new type" else 1)}
        for id_ in ids:
            amount = Decimal(random.randrange(10**13, 10**14)).scaleb(-2)
            row = huge | {"id": id_, "amount": amount, "total": amount}
            row |= {"type": "RTP_DEPOSIT"} if how == "a new type" else {}
            (before if how == "one gone" else after).append(row)
        result = fl.flux.explain(table(before), table(after))
        found = records(result)

        sums: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
        for side, rows in ((-1, done(before)), (1, done(after))):
            for row in rows:
                key = row["balance_asset"] or row["asset"], row["direction"]
                sums[key].append(signed(row) if side > 0 else signed(row).copy_negate())
        differences: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
        drivers: dict[tuple[str, ...], Fraction] = defaultdict(Fraction)
        for row in found:
            differences[row["asset"], row["direction"]].append(row["difference"])
            drivers[row["asset"], row["direction"], row["driver"]] += Fraction(row["difference"])
        for group in {*sums, *differences}:
            assert exact_sum(differences[group]) == exact_sum(sums[group]), (number, group)
        parts = Counter((row["asset"], row["direction"]) for row in found)
        for driver, amount in by_textbook(done(before), done(after)).items():
            last = Fraction(1, 10 ** decimals(driver[0], done(before), done(after)))
            assert abs(drivers[driver] - amount) <= last * (parts[driver[:2]] + 1), (number, driver)
            assert drivers[driver] % last == 0

        named = {id_ for row in found for id_ in (row["transfers"] or "").split()}
        assert ids <= named, (number, how)
        planted[how] += 1
        limits: dict[str, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for side, rows in enumerate((done(before), done(after))):
            for row in rows:
                limits[row["balance_asset"] or row["asset"]][side] += Fraction(row["total"])
        for row in found:
            limit = max(limits[row["asset"]]) / 20
            left = abs(Fraction(row["difference"]) - Fraction(row["explained"]))
            names = (row["transfers"] or "").split()
            assert bool(names) <= (abs(row["difference"]) >= limit)
            assert left < limit or len(names) <= 20
    figure(f"{count} pairs of periods, {dict(planted)}: named each time")


@pytest.mark.seconds
def test_prices_have_a_driver_of_their_own_in_one_currency(seed: int) -> None:
    schema = ALL_COLUMNS.append(pa.field("total_value", MONEY))
    for number in range(60):
        random = Random(f"{seed} {number}")
        before, after = pair(random)
        cents = {asset: random.randrange(1, 10**6) for asset in ("USD", "USDC", "ETH", "BTC")}
        moved = cents | {"ETH": cents["ETH"] * 2, "USD": cents["USD"]}
        sides = []
        for rows, prices in ((before, cents), (after, moved)):
            for row in rows:
                price = prices[row["balance_asset"] or row["asset"]]
                value = EXACT.multiply(row["total"], Decimal(price).scaleb(-2))
                row["total_value"] = value.quantize(Decimal("1E-18"), context=EXACT)
            sides.append(pa.Table.from_pylist(rows, schema=schema))
        found = records(fl.flux.explain(*sides, value="total_value"))
        worth = [
            exact_sum(signed(row, "total_value") for row in done(rows)) for rows in (before, after)
        ]
        total = EXACT.subtract(worth[1], worth[0])
        assert exact_sum(row["difference"] for row in found) == total
        for row in found:
            if row["driver"] != "price":
                continue
            mine = [
                signed(one) for one in done(after)
                if (one["balance_asset"] or one["asset"], one["direction"], one["type"])
                == (row["asset"], row["direction"], row["type"])
            ]  # fmt: skip
            doubled = exact_sum(mine) * Decimal(cents["ETH"]).scaleb(-2)
            close = abs(Fraction(row["difference"]) - Fraction(doubled)) < Fraction(1, 10**9)
            assert row["asset"] != "ETH" or close
            assert row["asset"] == "ETH" or abs(row["difference"]) < Decimal("1E-9")


@pytest.mark.seconds
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_any_kind_of_frame_and_no_rows_at_all(kind: str) -> None:
    before, after = make_rows(60, 1, 3), make_rows(80, 2, 3)
    expected = records(fl.flux.explain(KINDS["arrow"](before), KINDS["arrow"](after)))
    found = fl.flux.explain(KINDS[kind](before), KINDS["arrow"](after))
    assert type(found) is type(KINDS[kind](before))
    assert records(found) == expected
    assert {row["driver"] for row in expected} == {"count", "mix", "average"}
    for rows in ([], before[:0]):
        assert records(fl.flux.explain(KINDS[kind](rows), KINDS["arrow"]([]))) == []
    alone = records(fl.flux.explain(KINDS[kind]([]), KINDS["arrow"](after), by=[]))
    assert {row["driver"] for row in alone} == {"count"}


@pytest.mark.parametrize("materiality", ["5 %", 0.05, "0", "1.5", None])
def test_a_materiality_that_is_no_share_is_named(materiality: Any) -> None:
    rows = KINDS["arrow"](make_rows(20, 1, 1))
    with pytest.raises(AnalysisError, match=r"materiality=.*: give a share such as '0.05'"):
        fl.flux.explain(rows, rows, materiality=materiality)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_one_frame_of_both_periods_is_taken_apart(kind: str) -> None:
    store = fl.sample()
    rows = store.read("transfers", settled=True)
    month = rows["settled_at"].dt.strftime("%Y-%m")
    both = [rows[month == name] for name in ("2026-09", "2026-10")]
    expected = fl.flux.explain(*both)
    pd.testing.assert_frame_equal(
        fl.flux.explain(rows, period="2026-10", basis="settled"), expected
    )
    made = make_rows(60, 1, 3)
    with pytest.raises(AnalysisError, match=r"give after=, .* or period= without it, such as"):
        fl.flux.explain(KINDS[kind](made))
    with pytest.raises(AnalysisError, match=r"period="):
        fl.flux.explain(KINDS[kind](made), KINDS[kind](made), period="2026-10")
    with pytest.raises(AnalysisError, match=r"period=\('2026-10-01', '2026-10-15'\): give a text"):
        fl.flux.explain(KINDS[kind](made), period=("2026-10-01", "2026-10-15"))  # type: ignore[arg-type]


def sums(number: int, moved: int, quantity: int | None = None) -> flux._Sums:
    return flux._Sums(number, moved, moved if quantity is None else quantity)


@pytest.mark.parametrize(
    ("was", "now", "numbers", "step", "drivers"),
    [
        (sums(2, 200), sums(3, 450), (2, 3), 1,
         {"count": 100, "mix": 0, "average": 150, "price": 0}),
        (sums(2, 200), sums(3, 300), (4, 4), 1, {"count": 0, "mix": 100, "average": 0, "price": 0}),
        (sums(2, 200), sums(3, 240), (4, 6), 1,
         {"count": 100, "mix": 0, "average": -60, "price": 0}),
        (sums(2, 200, 100), sums(2, 330, 110), (2, 2), 1,
         {"count": 0, "mix": 0, "average": 20, "price": 110}),
        (sums(2, -200), sums(0, 0), (2, 0), 1, {"count": 200, "mix": 0, "average": 0, "price": 0}),
        (sums(0, 0), sums(2, 50), (4, 6), 1, {"mix": 50}),
        (sums(0, 0), sums(2, 50), (0, 2), 1, {"count": 50}),
        (sums(3, 100), sums(2, 70), (3, 2), 10, {"count": -30, "mix": 0, "average": 0, "price": 0}),
    ],
)  # fmt: skip
def test_what_a_segment_changed_is_split_by_hand(
    was: flux._Sums, now: flux._Sums, numbers: tuple[int, int], step: int, drivers: dict[str, int]
) -> None:
    assert flux._drivers(was, now, numbers, step) == drivers


Ends = list[tuple[str, int, int]]


def ends(**amounts: int) -> Ends:
    return [(id_, amount, amount) for id_, amount in amounts.items()]


@pytest.mark.parametrize(
    ("driver", "was", "now", "difference", "before", "after", "limit", "named", "made"),
    [
        # two of three new ones make all but 20/3: enough where that is less than the limit
        ("count", sums(1, 10), sums(3, 30), 20, [], ends(c=10, b=10, a=10), 7, "a b", (40, 3)),
        ("count", sums(1, 10), sums(3, 30), 20, [], ends(c=10, b=10, a=10), (20, 3), "a b c",
         (20, 1)),
        ("count", sums(3, 30), sums(1, 10), -20, ends(a=10, b=20), ends(z=10), 1, "b a", (-20, 1)),
        ("count", sums(1, -10), sums(3, -30), -20, [], ends(a=-10, b=-20), 1, "b a", (-20, 1)),
        ("count", sums(3, -30), sums(1, -10), 20, ends(a=-10, b=-20), ends(z=-10), 1, "b a",
         (20, 1)),
        ("mix", sums(0, 0), sums(2, 30), 30, [], ends(a=10, b=20), 1, "b a", (30, 1)),
        ("mix", sums(0, 0), sums(2, -30), -30, [], ends(a=-10, b=-20), 1, "b a", (-30, 1)),
        # an average of 10 became 15: one of before is 10 below it, two of after 8 and 2 above
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=5, y=15), ends(a=12, b=18), 1, "x",
         (10, 1)),
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=10, y=10), ends(a=12, b=18), 1, "b a",
         (10, 1)),
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=5, y=15), ends(a=20, b=10), 1, "a",
         (10, 1)),
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=14), ends(a=13, b=10), 1, "a", (3, 1)),
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=10, y=10), ends(a=19), 1, "x y", (10, 1)),
        ("average", sums(2, 20), sums(2, 10), -10, [], ends(a=1, b=9), 1, "a b", (-10, 1)),
        # three of before leave 1, which is the limit, one of after 2
        ("average", sums(2, 20), sums(2, 30), 10, ends(x=12, y=12, z=12), ends(a=18), 1, "x y z",
         (9, 1)),
        # at a price of 2 before
        ("price", sums(2, 200, 100), sums(2, 230, 100), 30, [],
         [("a", 130, 50), ("b", 100, 50)], 1, "a", (30, 1)),
        ("price", sums(2, 200, 100), sums(2, 230, 100), 30, [],
         [("a", 95, 50), ("b", 135, 50)], 1, "b", (35, 1)),
        ("count", sums(1, 10), sums(3, 30), 20, [], [], 1, "", (0, 1)),
        # of the smallest difference that there is, and of a period without any
        ("count", sums(1, 10), sums(2, 11), 1, [], ends(a=1, b=10), (1, 2), "b", (10, 11)),
        ("count", sums(1, 1), sums(2, 2), 1, [], ends(a=1, b=1), (1, 2), "a b", (1, 1)),
        ("mix", sums(1, 10), sums(0, 0), 5, ends(x=10), [], 1, "x", (5, 1)),
    ],
)  # fmt: skip
def test_what_makes_most_of_it_is_named_by_hand(
    driver: str, was: flux._Sums, now: flux._Sums, difference: int, before: Ends, after: Ends,
    limit: Any, named: str, made: tuple[int, int],
) -> None:  # fmt: skip
    bound = Fraction(*limit) if isinstance(limit, tuple) else Fraction(limit)
    found = flux._makers(driver, was, now, difference, [before, after], bound)
    assert (" ".join(found[0]), found[1]) == (named, Fraction(*made))


@pytest.mark.parametrize(
    ("amount", "nearest"), [(24, 20), (25, 20), (26, 30), (35, 40), (-26, -30), (5, 0), (0, 0)]
)
def test_what_is_rounded_is_to_the_nearest_step(amount: int, nearest: int) -> None:
    assert flux._nearest(Fraction(amount), 10) == nearest


def test_twenty_at_most_are_named_the_largest_first() -> None:
    rows = [made(f"t-{n:02d}", amount=D(100 + n)) for n in range(45)]
    (row,) = records(fl.flux.explain(KINDS["arrow"]([]), KINDS["arrow"](rows)))
    assert row["transfers"].split() == [f"t-{n:02d}" for n in range(44, 24, -1)]
    assert row["explained"] == sum(100 + n for n in range(25, 45))
    paid = [{**row, "direction": "DEBIT", "type": "WIRE_WITHDRAWAL"} for row in rows]
    (row,) = records(fl.flux.explain(KINDS["arrow"]([]), KINDS["arrow"](paid)))
    assert row["transfers"].split() == [f"t-{n:02d}" for n in range(44, 24, -1)]


@pytest.mark.parametrize(("old", "new", "named"), [(95, 100, "b"), (96, 100, None), (100, 95, "b")])
def test_a_driver_of_just_the_share_is_material(old: int, new: int, named: str | None) -> None:
    """Five of a hundred, by default."""
    before, after = (
        KINDS["arrow"]([made(id_, amount=D(n))]) for id_, n in (("a", old), ("b", new))
    )
    (row,) = records(fl.flux.explain(before, after))
    assert (row["driver"], row["difference"], row["transfers"]) == ("average", new - old, named)
    assert row["explained"] == (new - old if named else 0)


def test_what_nobody_looked_into_has_nothing_explained() -> None:
    """Not the smallest unit of an asset either."""
    least = D("0.000000000000000001")
    small = {"type": "CRYPTO_DEPOSIT", "asset": "ETH"}
    before = [made("a", asset="ETH", amount=D(100)), made("b", amount=least, **small)]
    after = [made("c", asset="ETH", amount=D(300)), made("d", amount=3 * least, **small)]
    rows = records(fl.flux.explain(table(before), table(after)))
    assert [(row["difference"], row["explained"], row["transfers"]) for row in rows] == [
        (200, 200, "c"), (2 * least, 0, None),
    ]  # fmt: skip


def test_a_period_has_its_first_moment_and_not_its_end() -> None:
    month = 31 * DAY  # January is the one before February, which has 28 days
    rows = [
        made(id_, created_at=START + moment, amount=D(amount))
        for id_, moment, amount in (
            ("a", -1, 1), ("b", 0, 10), ("c", month - 1, 20), ("d", month, 300),
            ("e", month + 28 * DAY - 1, 400), ("f", month + 28 * DAY, 5_000),
        )
    ]  # fmt: skip
    (row,) = records(fl.flux.explain(KINDS["arrow"](rows), period="2026-02"))
    assert (row["before"], row["after"]) == (30, 700)
    assert {*row["transfers"].split()} <= {"d", "e"}


def test_the_drivers_of_an_asset_come_by_their_size() -> None:
    before = [made("a", amount=D(100)), made("b", asset="EUR", amount=D(7))]
    after = [made("c", amount=D(300)), made("d", amount=D(50))]
    after += [made(id_, asset="EUR", amount=D(9)) for id_ in "ef"]
    found = records(fl.flux.explain(KINDS["arrow"](before), KINDS["arrow"](after)))
    assert [(row["asset"], row["driver"], row["difference"]) for row in found] == [
        ("EUR", "count", 7), ("EUR", "average", 4), ("USD", "average", 150), ("USD", "count", 100),
    ]  # fmt: skip


def valued(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ALL_COLUMNS.append(pa.field("value", MONEY)))


def test_all_assets_are_taken_together_in_one_currency() -> None:
    """What is material, the order and the decimals are of all; the mix is of a direction."""
    out: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
    before = valued(
        made("a", amount=D(100), value=D(100)),
        made("e", amount=D(2), value=D(1000), asset="ETH"),
        made("d", amount=D(50), value=D(50), **out),
    )
    after = valued(
        made("a2", amount=D(30), value=D(30)),
        made("e2", amount=D(2), value=D(1200), asset="ETH"),
        made("d2", amount=D(350), value=D(350), **out),
    )
    names = ("asset", "direction", "driver", "before", "after", "difference", "transfers")
    assert [tuple(row[name] for name in names) for row in
            records(fl.flux.explain(before, after, value="value"))] == [
        ("USD", "DEBIT", "average", -50, -350, -300, "d2"),
        ("ETH", "CREDIT", "price", 1000, 1200, 200, "e2"),
        ("USD", "CREDIT", "average", 100, 30, -70, None),  # less than a twentieth of 1580
    ]  # fmt: skip
    alone = records(fl.flux.explain(before, after))
    assert [(row["asset"], row["direction"]) for row in alone] == [
        ("USD", "DEBIT"),
        ("USD", "CREDIT"),
    ]
    # One that is new beside another asset of its direction is a mix of theirs.
    new = valued(
        made("x", amount=D(5), value=D(500), asset="ETH"),
        made("y", amount=D(7), value=D(7), asset="EUR"),
    )
    old = valued(made("w", amount=D(3), value=D("300.001"), asset="ETH"))
    assert [(row["asset"], row["driver"], row["difference"]) for row in
            records(fl.flux.explain(old, new, value="value", by=[]))] == [
        ("ETH", "count", D("300.001")), ("ETH", "mix", D("-300.001")),
        ("ETH", "average", D("200.001")), ("EUR", "mix", 7), ("ETH", "price", D("-0.002")),
    ]  # fmt: skip


def test_drivers_have_two_decimals_at_least_and_as_many_as_the_sums() -> None:
    for least, third, two_thirds in ((0, "33.33", "66.67"), ("0.001", "33.334", "66.667")):
        rows = [made(name, amount=D(amount)) for name, amount in
                (("a", D(50) + D(least)), ("b", D(25)), ("c", D(25)))]  # fmt: skip
        found = fl.flux.explain(
            table(rows), table([made("x", amount=D(35)), made("y", amount=D(35))])
        )
        assert [(row["driver"], row["difference"]) for row in records(found)] == [
            ("count", -D(third)), ("average", D(70) - D(two_thirds))
        ]  # fmt: skip
