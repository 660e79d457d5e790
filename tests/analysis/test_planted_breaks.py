"""Every kind of break, planted in a sound history: found, and named among the first three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from transfer_examples import (
    DAY,
    START,
    Row,
    balances_by_hand,
    change,
    history_by_hand,
    key,
    make_rows,
    observed,
    records,
    table,
)

from fundlab.analysis import explain, reconcile

NOW = START + 400 * DAY
CENT = Decimal("0.01")
Pair = tuple[str, str]


@dataclass
class World:
    """Rows as the store has them, balances as the service has them, and what must be found."""

    rows: list[Row]
    balances: dict[Pair, Decimal]
    expected: dict[Pair, tuple[set[str], str | None, int]] = field(default_factory=dict)
    observed_at: int = NOW
    trading: Decimal = Decimal(0)
    assertions: Any = None

    def pick(self, **wanted: Any) -> Row:
        """A row in the middle of the history; a value may be a test."""
        start = len(self.rows) // 3
        for row in self.rows[start:]:
            if all(v(row[k]) if callable(v) else row[k] == v for k, v in wanted.items()):
                return row
        raise LookupError(wanted)

    def expect(
        self, pair: Pair, cause: str, transfer_id: str | None = None, within: int = 3
    ) -> None:
        """One of these causes is listed for ``pair``, and among the first ``within``."""
        self.expected[pair] = (set(cause.split("|")), transfer_id, within)

    def add(self, pair: Pair, amount: Decimal) -> None:
        self.balances[pair] = self.balances.get(pair, Decimal(0)) + amount


Plant = Callable[[World], None]
PLANTS: dict[str, Plant] = {}
DONE: dict[str, Any] = {"status": "COMPLETED", "balance_asset": None}
UNPAIRED: dict[str, Any] = {**DONE, "group_id": None}


def plant(function: Plant) -> Plant:
    PLANTS[function.__name__] = function
    return function


def plants(**variants: Any) -> Callable[[Callable[[World, Any], None]], None]:
    """One plant for each keyword."""

    def note(function: Callable[[World, Any], None]) -> None:
        for name, value in variants.items():
            PLANTS[f"{function.__name__}_{name}"] = lambda w, v=value: function(w, v)

    return note


# ------------------------------------------------------------------------------ rows missing


@plants(
    wire_deposit={"type": "WIRE_DEPOSIT", **DONE},
    crypto_deposit={"type": "CRYPTO_DEPOSIT", **DONE},
    wire_withdrawal={"type": "WIRE_WITHDRAWAL", **DONE},
    crypto_withdrawal={"type": "CRYPTO_WITHDRAWAL", **DONE},
    pending_withdrawal={"type": "WIRE_WITHDRAWAL", "status": "PENDING"},
    conversion={"type": "CRYPTO_DEPOSIT", "balance_asset": "USD", "status": "COMPLETED"},
)
def drop(world: World, wanted: dict[str, Any]) -> None:
    row = world.pick(**wanted)
    world.rows.remove(row)
    world.expect(key(row), "missing_transfer")


@plants(debit="DEBIT", credit="CREDIT")
def lose_half(world: World, side: str) -> None:
    row = world.pick(type=f"INTERNAL_TRANSFER_{side}")
    (other,) = (one for one in world.rows if one["group_id"] == row["group_id"] and one is not row)
    world.rows.remove(row)
    world.expect(key(row), "missing_half", other["id"])


@plant
def lose_both_halves(world: World) -> None:
    group = world.pick(type="INTERNAL_TRANSFER_DEBIT")["group_id"]
    for row in [row for row in world.rows if row["group_id"] == group]:
        world.rows.remove(row)
        world.expect(key(row), "missing_both_halves", within=1)


@plant
def drop_months_of_a_profile(world: World) -> None:
    pair = key(world.pick(type="WIRE_DEPOSIT", **DONE))
    gone = [
        row
        for row in world.rows
        if key(row) == pair
        and row["group_id"] is None
        and 50 <= (row["created_at"] - START) // DAY < 110
    ]
    assert len(gone) > 1
    world.rows = [row for row in world.rows if row not in gone]
    world.expect(pair, "missing_transfer")


# ------------------------------------------------------------------------------- rows double


@plants(
    deposit={"type": "WIRE_DEPOSIT", **DONE},
    withdrawal={"type": "WIRE_WITHDRAWAL", **DONE},
    pending={"type": "CRYPTO_WITHDRAWAL", "status": "PENDING"},
    debit_half={"type": "INTERNAL_TRANSFER_DEBIT"},
    credit_half={"type": "INTERNAL_TRANSFER_CREDIT"},
)
def double(world: World, wanted: dict[str, Any]) -> None:
    row = world.pick(**wanted)
    world.rows.append({**row, "id": f"{row['id']}-copy"})
    world.expect(key(row), "duplicate", f"{row['id']}-copy")


@plant
def double_under_the_same_id(world: World) -> None:
    row = world.pick(type="CRYPTO_DEPOSIT", **DONE)
    world.rows.append(dict(row))
    world.expect(key(row), "duplicate", row["id"])


@plant
def double_minutes_later_with_its_ref_id(world: World) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    world.rows.append({**row, "id": "the-copy", "created_at": row["created_at"] + 10**11})
    world.expect(key(row), "duplicate", "the-copy")


@plant
def double_a_page(world: World) -> None:
    pair = key(world.pick(type="WIRE_DEPOSIT", **DONE))
    page = [row for row in world.rows if key(row) == pair and change(row, "ledger")][-5:]
    world.rows += [{**row, "id": f"{row['id']}-copy"} for row in page]
    world.expect(pair, "duplicate")


# ---------------------------------------------------------------------------- amounts changed


@plants(deposit=("WIRE_DEPOSIT", CENT), withdrawal=("WIRE_WITHDRAWAL", -CENT))
def change_a_cent_of_total(world: World, what: tuple[str, Decimal]) -> None:
    row = world.pick(type=what[0], **DONE)
    row["total"] += what[1]
    world.expect(key(row), "wrong_total", row["id"])


@plant
def change_the_last_digit(world: World) -> None:
    row = world.pick(type="CRYPTO_DEPOSIT", asset="ETH", **DONE)
    row["total"] += Decimal("1E-18")
    world.expect(key(row), "wrong_total", row["id"])


@plant
def change_a_half(world: World) -> None:
    row = world.pick(type="INTERNAL_TRANSFER_CREDIT", asset="USD")
    row["amount"] += CENT
    row["total"] += CENT
    world.expect(key(row), "mismatched_half", row["id"])


@plant
def change_a_cent_everywhere_in_the_row(world: World) -> None:
    row = world.pick(type="WIRE_DEPOSIT", **DONE)
    mine = [one for one in world.rows if one["profile_id"] == row["profile_id"]]
    moments = [START + hours * DAY // 24 for hours in range(1, 24 * 302, 4)]
    world.assertions = history_by_hand(mine, moments)
    row["amount"] += CENT
    row["total"] += CENT
    world.expect(key(row), "changed_amount", row["id"])


@plants(left_out=0, twice=2, taken_the_wrong_way=-1)
def fee(world: World, times: int) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    row["total"] = row["amount"] + times * row["fee"]
    world.expect(key(row), "fee", row["id"])


@plants(nothing=0, twice=2)
def fee_unlike_its_peers(world: World, times: int) -> None:
    """Every other wire withdrawal pays 25; amount, fee and total of the row agree."""
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    row["fee"] *= times
    row["total"] = row["amount"] + row["fee"]
    world.expect(key(row), "fee", row["id"], within=1)


@plants(in_the_rows=True, only_in_their_totals=False)
def fee_doubled_on_several_rows(world: World, in_the_rows: bool) -> None:
    profile = world.pick(type="WIRE_WITHDRAWAL", **DONE)["profile_id"]
    rows = [row for row in world.rows if row["type"] == "WIRE_WITHDRAWAL"
            and row["profile_id"] == profile and row["status"] == "COMPLETED"][:5]  # fmt: skip
    for row in rows:
        row["total"] += row["fee"]
        row["fee"] *= 2 if in_the_rows else 1
    world.expect((profile, "USD"), "fee", rows[-1]["id"], within=1)


@plant
def fee_doubled_several_times_at_the_service(world: World) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    world.add(key(row), -4 * row["fee"])
    world.expect(key(row), "several_fees")


@plants(hundred=2, thousandth=-3)
def shift_the_point(world: World, places: int) -> None:
    row = world.pick(type="WIRE_DEPOSIT", **DONE)
    row["amount"] = row["total"] = row["amount"].scaleb(places)
    world.expect(key(row), "decimal_shift", row["id"])


# --------------------------------------------------------------------------- booked elsewhere


@plants(deposit="WIRE_DEPOSIT", withdrawal="WIRE_WITHDRAWAL")
def swap_asset(world: World, kind: str) -> None:
    row = world.pick(type=kind, **DONE)
    world.expect(key(row), "wrong_asset", row["id"])
    row["asset"] = "BTC"
    world.expect(key(row), "wrong_asset", row["id"])


@plants(not_done=None, of_another_asset="ETH")
def conversion(world: World, target: str | None) -> None:
    row = world.pick(type="CRYPTO_DEPOSIT", balance_asset="USD", status="COMPLETED")
    world.expect(key(row), "wrong_conversion|wrong_asset", row["id"])
    row["balance_asset"] = target
    world.expect(key(row), "wrong_conversion|wrong_asset", row["id"])


@plant
def conversion_made_up(world: World) -> None:
    row = world.pick(type="CRYPTO_DEPOSIT", asset="USDC", **DONE)
    world.expect(key(row), "wrong_conversion", row["id"])
    row["balance_asset"] = "USD"
    world.expect(key(row), "wrong_conversion", row["id"])


@plants(deposit="WIRE_DEPOSIT", withdrawal="CRYPTO_WITHDRAWAL")
def wrong_profile(world: World, kind: str) -> None:
    row = world.pick(type=kind, profile_id=lambda name: name != "profile-002", **DONE)
    world.expect(key(row), "wrong_profile", row["id"])
    row["profile_id"] = "profile-002"
    world.expect(key(row), "wrong_profile", row["id"])


@plants(deposit="WIRE_DEPOSIT", withdrawal="WIRE_WITHDRAWAL")
def turn_around(world: World, kind: str) -> None:
    row = world.pick(type=kind, **DONE)
    row["direction"] = "DEBIT" if row["direction"] == "CREDIT" else "CREDIT"
    world.expect(key(row), "wrong_direction", row["id"])


@plants(deposit=("WIRE_DEPOSIT", "WIRE_WITHDRAWAL"), withdrawal=("WIRE_WITHDRAWAL", "WIRE_DEPOSIT"))
def reverse_the_sign(world: World, types: tuple[str, str]) -> None:
    """The row contradicts itself nowhere."""
    row = world.pick(type=types[0], **DONE)
    row["type"] = types[1]
    row["direction"] = "DEBIT" if row["direction"] == "CREDIT" else "CREDIT"
    sign = 1 if row["direction"] == "DEBIT" else -1
    row["total"] = row["amount"] + sign * row["fee"]
    world.expect(key(row), "reversed_sign", row["id"], within=1)


# ------------------------------------------------------------------------------ states differ


@plants(
    deposit_failed=("WIRE_DEPOSIT", "FAILED", "failed_here"),
    withdrawal_failed=("WIRE_WITHDRAWAL", "FAILED", "failed_here"),
    deposit_pending=("WIRE_DEPOSIT", "PENDING", "pending"),
)
def mark(world: World, what: tuple[str, str, str]) -> None:
    row = world.pick(type=what[0], **UNPAIRED)
    row["status"] = what[1]
    world.expect(key(row), what[2], row["id"])


@plants(deposit="WIRE_DEPOSIT", withdrawal="CRYPTO_WITHDRAWAL")
def failed_at_the_service(world: World, kind: str) -> None:
    row = world.pick(type=kind, **UNPAIRED)
    world.add(key(row), row["total"] if row["direction"] == "DEBIT" else -row["total"])
    world.expect(key(row), "failed_later", row["id"])


@plants(deposit="WIRE_DEPOSIT", withdrawal="CRYPTO_WITHDRAWAL")
def counted_twice_by_the_service(world: World, kind: str) -> None:
    row = world.pick(type=kind, **UNPAIRED)
    world.add(key(row), row["total"] if row["direction"] == "CREDIT" else -row["total"])
    world.expect(key(row), "counted_twice", row["id"])


@plant
def hold_given_back(world: World) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", status="PENDING")
    world.add(key(row), row["total"])
    world.expect(key(row), "pending", row["id"])


@plant
def every_pending_deposit_completed(world: World) -> None:
    pair = key(world.pick(type="WIRE_DEPOSIT", status="PENDING"))
    waiting = [
        row
        for row in world.rows
        if key(row) == pair and row["status"] == "PENDING" and row["direction"] == "CREDIT"
    ]
    for row in waiting:
        world.add(pair, row["total"])
    world.expect(pair, "pending", waiting[0]["id"] if len(waiting) == 1 else None)


# -------------------------------------------------------------------------- time, observation


@plant
def shift_time(world: World) -> None:
    row = world.pick(type="WIRE_DEPOSIT", **DONE)
    mine = [one for one in world.rows if one["profile_id"] == row["profile_id"]]
    world.assertions = history_by_hand(mine, [START + day * DAY for day in range(1, 310, 10)])
    row["created_at"] += 40 * DAY
    row["updated_at"] += 40 * DAY
    world.expect(key(row), "shifted_time", row["id"])


@plant
def extra_reported_balance(world: World) -> None:
    pair = ("profile-003", "PYUSD")
    world.add(pair, Decimal("12.34"))
    world.expect(pair, "missing_transfer")


@plant
def a_profile_nobody_knows(world: World) -> None:
    pair = ("profile-999", "USD")
    world.add(pair, Decimal("5"))
    world.expect(pair, "missing_transfer")


@plant
def balance_not_reported(world: World) -> None:
    pair = key(world.pick(type="WIRE_DEPOSIT", **DONE))
    del world.balances[pair]
    world.expect(pair, "not_reported")


@plant
def looked_at_too_early(world: World) -> None:
    counting = [row for row in world.rows if change(row, "available") is not None]
    last = max(counting, key=lambda row: row["created_at"])
    world.add(key(last), -change(last, "available"))  # type: ignore[operator]
    world.observed_at = last["created_at"] - 1
    world.expect(key(last), "observed_earlier", last["id"])


@plant
def trading_counted_twice(world: World) -> None:
    pair = key(world.pick(type="WIRE_DEPOSIT", **DONE))
    world.trading = Decimal("321.5")
    world.add(pair, world.trading)
    world.expect(pair, "trading")


@plant
def two_breaks_in_one_balance(world: World) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    row["total"] += CENT
    world.rows.append({**world.pick(type="WIRE_DEPOSIT", asset="USD", status="COMPLETED",
                                    profile_id=row["profile_id"]), "id": "the-copy"})  # fmt: skip
    world.expect(key(row), "together")


@plant
def a_missing_deposit_hides_a_wrong_total(world: World) -> None:
    row = world.pick(type="WIRE_WITHDRAWAL", **DONE)
    row["total"] += CENT
    other = world.pick(type="WIRE_DEPOSIT", profile_id=row["profile_id"], **DONE)
    world.rows.remove(other)
    world.expect(key(row), "together", row["id"], within=1)


@plants(of_many=False, of_few=True)
def transpose_digits(world: World, narrow: bool) -> None:
    """Two different neighbouring digits change places, as when somebody types."""

    def differ(amount: Decimal) -> bool:
        return len(f"{amount:.2f}") > 6 and f"{amount:.2f}"[1] != f"{amount:.2f}"[2]

    row = world.pick(type="WIRE_DEPOSIT", amount=differ, **DONE)
    if narrow:
        mine = [one for one in world.rows if one["profile_id"] == row["profile_id"]]
        moments = [START + hours * DAY // 24 for hours in range(1, 24 * 302, 4)]
        world.assertions = history_by_hand(mine, moments)
    text = f"{row['amount']:.2f}"
    row["amount"] = row["total"] = Decimal(text[0] + text[2] + text[1] + text[3:])
    world.expect(key(row), "transposed_digits", row["id"] if narrow else None)


# -------------------------------------------------------------------------------------- tests


def break_in(plant: Plant, rows: list[Row], balances: dict[Pair, Decimal]) -> World:
    world = World([dict(row) for row in rows], dict(balances))
    plant(world)
    return world


def explained(world: World) -> list[dict[str, Any]]:
    reported = observed(world.balances, world.observed_at, world.trading)
    return records(reconcile.explain(table(world.rows), reported, world.assertions))


def check(world: World) -> None:
    found = explained(world)
    assert {(row["profile_id"], row["asset"]) for row in found} == set(world.expected)
    for pair, (causes, transfer_id, within) in world.expected.items():
        first = [row for row in found if (row["profile_id"], row["asset"]) == pair]
        named = [(row["cause"], row["transfer_id"]) for row in first if row["rank"] <= within]
        assert any(
            cause in causes and (transfer_id is None or who == transfer_id) for cause, who in named
        ), (pair, causes, transfer_id, named)
        assert all(row["amount"] == row["difference"] for row in first)


def history(count: int) -> Iterator[tuple[list[Row], dict[Pair, Decimal]]]:
    rows = make_rows(count)
    yield rows, balances_by_hand(rows)


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[list[Row], dict[Pair, Decimal]]]:
    yield from history(3_000)


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[list[Row], dict[Pair, Decimal]]]:
    yield from history(50_000)


def test_there_are_forty_kinds() -> None:
    assert len(PLANTS) >= 40


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_break_is_named(name: str, small: Any) -> None:
    check(break_in(PLANTS[name], *small))


def test_nothing_planted_nothing_found(small: Any) -> None:
    rows, balances = small
    moments = [START + day * DAY for day in range(1, 310, 10)]
    world = World(rows, balances, assertions=history_by_hand(rows, moments))
    assert explained(world) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_break_among_fifty_thousand_is_named(
    name: str, large: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "SEARCHED_FROM", 0)
    check(break_in(PLANTS[name], *large))


@pytest.mark.slow
def test_nothing_planted_among_fifty_thousand_nothing_found(large: Any) -> None:
    rows, balances = large
    moments = [START + day * DAY for day in range(1, 310)]
    world = World(rows, balances, assertions=history_by_hand(rows, moments))
    assert explained(world) == []
