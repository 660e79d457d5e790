"""A history drawn at random, as columns: what each transfer would be if funds were no matter."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fundlab.base.values import Amount
from fundlab.models import RoutingNumberType
from fundlab.sandbox.behaviour import WIRE_FEES
from fundlab.sandbox.clock import DAY_NS, HISTORY_DAYS, HISTORY_END_NS, HISTORY_START_NS, NS
from fundlab.sandbox.crypto_fees import crypto_withdrawal_fee
from fundlab.sandbox.history.proportions import (
    ADDED,
    ASSETS,
    COMPLETED,
    FAILED,
    INTERNAL,
    INTERNAL_CREDIT,
    INTERNAL_DEBIT,
    KIND_OF,
    KINDS,
    NETWORKS,
    PENDING,
    STABLE,
    TOGETHER,
    USD,
    T,
)
from fundlab.sandbox.ledger import SCALE, units
from fundlab.sandbox.seed_customers import People, SavedAccount

QUIET_DAYS: Final = 2
"""At the start: accounts, instructions and addresses are set up before money moves."""
FAILED_SHARE: Final = 0.025
CONVERTED_SHARE: Final = 0.06
END_USER_SHARE: Final = 0.15
SAME_TIME_SHARE: Final = 0.01
OPENING_USD: Final = 2_000_000
CENT: Final = SCALE // 100
INCOMING_WIRE_FEE: Final = units(Amount("15.00"))
BANK_WITHDRAWAL_FEE: Final = units(Amount("0.50"))

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class Draft:
    """A history before it is written: one entry per transfer, in order of ``created_ns``.

    ``kinds``, ``assets``, ``targets`` (the asset credited), ``networks``, ``profiles`` and
    ``users`` are places in their tables, -1 for none. ``places`` are random numbers that choose
    particulars. ``amounts`` and ``fees`` are units of 10^-18; ten million of them and compact
    columns beside them fit into memory.
    """

    kinds: array[int]
    profiles: array[int]
    assets: array[int]
    targets: array[int]
    networks: array[int]
    statuses: array[int]
    created_ns: array[int]
    updated_ns: array[int]
    price_cents: array[int]
    places: array[int]
    users: array[int]
    amounts: list[int]
    fees: list[int]

    def __len__(self) -> int:
        return len(self.kinds)


def draw_history(rng: np.random.Generator, people: People, count: int) -> Draft:
    """``count`` transfers. Each profile's first is a large wire, so that it has something."""
    profiles = len(people.profile_ids)
    created = _times(rng, count)
    kinds = _kinds(rng, people.seed, count, profiles)
    days = (created - HISTORY_START_NS) // DAY_NS
    assets = _assets(rng, kinds)
    # profiles of unequal activity, each once at the start
    weights = 1 / np.arange(1, profiles + 1) ** 0.8
    owners = rng.choice(profiles, count, p=weights / weights.sum())
    owners[: min(profiles, count)] = np.arange(min(profiles, count))
    opening = slice(0, min(profiles, count))
    assets[opening] = USD
    # lognormal around the kind's median; one in a hundred from a Pareto tail
    median = np.array([kind.median_usd for kind in KINDS])[kinds]
    usd = median * np.exp(rng.normal(0, 1.2, count))
    tail = rng.random(count) < 0.01
    usd[tail] *= 1 + rng.pareto(1.5, int(tail.sum()))
    usd = np.clip(usd, 1.0, 50_000_000)
    usd[opening] = OPENING_USD * rng.uniform(1, 4, len(usd[opening]))
    # USD per unit, per day and asset: a random walk for all that is not USD-like
    steps = rng.normal(0.0003, 0.02, (HISTORY_DAYS, len(ASSETS)))
    steps[:, STABLE] = 0
    walks = np.array([asset.price_usd for asset in ASSETS]) * np.exp(np.cumsum(steps, axis=0))
    prices = walks[days, assets]
    places = rng.integers(0, 2**31, count)
    networks = np.full(count, -1)
    for index, asset in enumerate(ASSETS):
        if asset.networks:
            choices = np.array([NETWORKS.index(network) for network in asset.networks])
            of_asset = assets == index
            networks[of_asset] = choices[places[of_asset] % len(choices)]
    amounts = _amounts(rng, usd, assets, kinds, prices)
    cents = np.rint(prices * 100).astype(np.int64)
    updated = _settled(rng, created, kinds)
    internal = np.isin(kinds, INTERNAL)
    statuses = np.where(rng.random(count) < FAILED_SHARE, FAILED, COMPLETED)
    statuses[internal] = COMPLETED
    recent = (created > HISTORY_END_NS - 2 * DAY_NS) & (rng.random(count) < 0.3)
    last = np.arange(count) >= count - 4
    statuses[((updated >= HISTORY_END_NS) | recent | last) & ~internal] = PENDING
    statuses[opening] = COMPLETED
    targets = _targets(rng, kinds, assets, statuses, amounts)
    targets[opening] = USD
    # an end user approved by then, -1 for the customer's own
    approved = np.array([user.approved_ns + DAY_NS for user in people.users])
    known = np.searchsorted(approved, created)
    users = (rng.random(count) * known).astype(np.int64)
    users[(rng.random(count) >= END_USER_SHARE) | (known == 0)] = -1
    # each internal credit has another profile than its debit, and else what its debit has
    debits = _internal_debits(kinds)
    others = rng.integers(1, max(profiles, 2), len(debits))
    owners[debits + 1] = (owners[debits] + others) % profiles
    for column in (assets, cents, created):
        column[debits + 1] = column[debits]
    for at in debits.tolist():
        amounts[at + 1] = amounts[at]
    targets = np.where(internal, assets, targets)
    updated = np.where(internal | (statuses == PENDING), created, updated)
    fees = _fees(people, kinds, assets, networks, places, created, amounts)
    return Draft(
        kinds=_column("b", kinds), profiles=_column("h", owners), assets=_column("b", assets),
        targets=_column("b", targets), networks=_column("b", networks),
        statuses=_column("b", statuses), created_ns=_column("q", created),
        updated_ns=_column("q", updated), price_cents=_column("q", cents),
        places=_column("i", places), users=_column("h", users), amounts=amounts, fees=fees,
    )  # fmt: skip


def wire_accounts(people: People) -> list[SavedAccount]:
    """Approved wire accounts, oldest first."""
    return sorted(
        (account for account in people.accounts if account.kind != "CUBIX"),
        key=lambda account: account.since_ns,
    )


def _column(code: str, values: npt.NDArray[Any]) -> array[int]:
    column: array[int] = array(code)
    column.frombytes(values.astype(code).tobytes())
    return column


def _times(rng: np.random.Generator, count: int) -> Ints:
    """Sorted, whole microseconds; weekday, month-end and office-hour rhythm."""
    dates = np.datetime64(HISTORY_START_NS, "ns").astype("datetime64[D]") + np.arange(HISTORY_DAYS)
    weekday = (dates.astype("int64") + 3) % 7
    following = dates.astype("datetime64[M]") + np.timedelta64(1, "M")
    days_left = (following.astype("datetime64[D]") - dates).astype(int)
    weight = np.where(weekday >= 5, 0.2, 1.0) * np.where(days_left <= 3, 2.0, 1.0)
    weight *= np.linspace(1.0, 1.5, HISTORY_DAYS)
    weight[:QUIET_DAYS] = 0
    day = rng.choice(HISTORY_DAYS, count, p=weight / weight.sum())
    hours = np.concatenate([np.full(7, 0.3), np.full(5, 1.0), np.full(8, 2.0), np.full(4, 0.7)])
    hour = rng.choice(24, count, p=hours / hours.sum())
    micros = rng.integers(0, 3_600_000_000, count)
    times = HISTORY_START_NS + day * DAY_NS + hour * 3_600 * NS + micros * 1_000
    times.sort()
    same = rng.random(count) < SAME_TIME_SHARE
    same[:1] = False
    # a run of marked entries shares the time of the last unmarked one before it
    anchor = np.maximum.accumulate(np.where(same, 0, np.arange(count)))
    result: Ints = times[anchor]
    return result


def _kinds(rng: np.random.Generator, seed: int, count: int, profiles: int) -> Ints:
    """Kinds in order; each internal debit is followed by its credit. Openings come first."""
    shares = np.array([kind.share for kind in TOGETHER])
    if profiles < 2:
        shares[INTERNAL_DEBIT] = 0
    shares[INTERNAL_CREDIT] = 0
    kinds = rng.choice(len(TOGETHER), count, p=shares / shares.sum())
    kinds[: min(profiles, count)] = KIND_OF[T.WIRE_DEPOSIT]
    kinds[-1:] = KIND_OF[T.WIRE_DEPOSIT]
    debits = _internal_debits(kinds)
    # a debit directly after another would be overwritten by that one's credit
    kept = debits[np.diff(debits, prepend=-2) > 1]
    kinds[debits] = KIND_OF[T.CRYPTO_DEPOSIT]
    kinds[kept] = INTERNAL_DEBIT
    kinds[kept + 1] = INTERNAL_CREDIT
    others = ~np.isin(kinds, INTERNAL)
    others[: min(profiles, count)] = others[-1:] = False
    for added in ADDED:
        own = np.random.default_rng([seed, *added.type.encode()])
        kinds[others & (own.random(count) < added.share)] = KIND_OF[added.type]
    return kinds


def _internal_debits(kinds: Ints) -> Ints:
    debits: Ints = np.flatnonzero(kinds == INTERNAL_DEBIT)
    return debits


def _assets(rng: np.random.Generator, kinds: Ints) -> Ints:
    share = np.array([asset.share for asset in ASSETS])
    any_asset = rng.choice(len(ASSETS), len(kinds), p=share / share.sum())
    share[USD] = 0
    coin = rng.choice(len(ASSETS), len(kinds), p=share / share.sum())
    group = np.array([("usd", "coins", "any").index(kind.assets) for kind in KINDS])[kinds]
    return np.choose(group, [np.full(len(kinds), USD), coin, any_asset])


def _amounts(
    rng: np.random.Generator, usd: Floats, assets: Ints, kinds: Ints, prices: Floats
) -> list[int]:
    """Units of 10^-18: too many for NumPy's integers, so a list of Python's."""
    decimals = np.array([asset.drawn for asset in ASSETS])[assets]
    on_chain = (kinds == KIND_OF[T.CRYPTO_DEPOSIT]) & np.isin(assets, STABLE)
    decimals = np.where(on_chain & (rng.random(len(usd)) < 0.3), 6, decimals)
    drawn = np.maximum(np.rint(usd / prices * 10.0**decimals), 1).astype(np.int64)
    low = rng.integers(0, 10**9, len(usd))
    low[np.array([asset.name != "ETH" for asset in ASSETS])[assets]] = 0
    scales = 10 ** (18 - decimals)
    return [
        quantity * scale + rest
        for quantity, scale, rest in zip(drawn.data, scales.data, low.data, strict=True)
    ]


def _settled(rng: np.random.Generator, created: Ints, kinds: Ints) -> Ints:
    median = np.array([kind.settles_s for kind in KINDS])[kinds]
    micros = np.rint(median * np.exp(rng.normal(0, 0.5, len(kinds))) * 1e6).astype(np.int64)
    return created + micros * 1_000


def _targets(
    rng: np.random.Generator, kinds: Ints, assets: Ints, statuses: Ints, amounts: list[int]
) -> Ints:
    """The asset credited: another stablecoin where a deposit of whole cents is converted."""
    convertible = np.isin(kinds, [KIND_OF[T.WIRE_DEPOSIT], KIND_OF[T.CRYPTO_DEPOSIT]])
    convertible &= np.isin(assets, STABLE) & (statuses == COMPLETED)
    convertible &= np.fromiter((amount % CENT == 0 for amount in amounts), bool, len(amounts))
    converted = convertible & (rng.random(len(kinds)) < CONVERTED_SHARE)
    step = rng.integers(1, len(STABLE), len(kinds))
    return np.where(converted, (assets + step) % len(STABLE), assets)


def _fees(
    people: People,
    kinds: Ints,
    assets: Ints,
    networks: Ints,
    places: Ints,
    created: Ints,
    amounts: list[int],
) -> list[int]:
    """Units of 10^-18, by the package's table."""
    on_chain = {
        (index, NETWORKS.index(network)): units(crypto_withdrawal_fee(asset.name, network))
        for index, asset in enumerate(ASSETS)
        for network in asset.networks
    }
    accounts = wire_accounts(people)
    by_account = [units(WIRE_FEES[RoutingNumberType(account.kind)]) for account in accounts]
    known = np.searchsorted([account.since_ns for account in accounts], created)
    fees = [0] * len(kinds)
    for i in np.flatnonzero(kinds == KIND_OF[T.CRYPTO_WITHDRAWAL]).tolist():
        fees[i] = on_chain[int(assets[i]), int(networks[i])]
    for i in np.flatnonzero(kinds == KIND_OF[T.WIRE_WITHDRAWAL]).tolist():
        fees[i] = by_account[places[i] % max(known[i], 1)]
    for i in np.flatnonzero(kinds == KIND_OF[T.BANK_WITHDRAWAL]).tolist():
        fees[i] = BANK_WITHDRAWAL_FEE
    for i in np.flatnonzero((kinds == KIND_OF[T.WIRE_DEPOSIT]) & (places % 10 == 0)).tolist():
        if amounts[i] > 100 * INCOMING_WIRE_FEE:
            fees[i] = INCOMING_WIRE_FEE
    return fees
