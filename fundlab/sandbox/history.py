"""The seeded history: a year of transfers that ends on a fixed day and adds up.

The same seed gives the same ids, amounts and times on any day. Every transfer posts to the ledger,
so that the sum of the transfers is the balance; there is no opening balance. Debits are checked
against what was there when they were made: one that exceeds it is made smaller or becomes a
deposit, so that no balance is ever below zero.

========================  =====  =====================  ============  =========================
type                      share  assets                 median USD    fee
========================  =====  =====================  ============  =========================
CRYPTO_DEPOSIT            20 %   stablecoins, crypto    4 000         0
CRYPTO_WITHDRAWAL         16 %   stablecoins, crypto    2 500         schedule by network
WIRE_DEPOSIT              14 %   USD                    25 000        0; 15.00 for one in ten
WIRE_WITHDRAWAL           11 %   USD                    15 000        25.00 ABA, 40.00 SWIFT
INTERNAL_TRANSFER_*       10 %   any                    5 000         0
PAXOS_TRANSFER_CREDIT      4 %   any                    6 000         0
PAXOS_TRANSFER_DEBIT       4 %   any                    5 000         0
CUBIX_DEPOSIT              4 %   USD                    12 000        0
CUBIX_WITHDRAWAL           3 %   USD                    9 000         0
BANK_DEPOSIT               4 %   USD                    1 800         0
BANK_WITHDRAWAL            3 %   USD                    1 500         0.50
RTP_DEPOSIT                3 %   USD                    900           0
SEN_, SIGNET_, CBIT_*      4 %   USD                    30 000        0
========================  =====  =====================  ============  =========================

Amounts are lognormal with a heavy tail. Weekends carry a fifth of a weekday, the last three days of
a month twice a day, the year's end half as much again as its start. Of the rest: 2.5 % ``FAILED``;
``PENDING`` what had not settled when the history ends; 6 % of wire and stablecoin deposits are
converted into another stablecoin; 15 % belong to end users; 1 % share their time with the transfer
before them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from fundlab.models import CryptoNetwork, RoutingNumberType, StableAsset, TransferType
from fundlab.sandbox.accounts import crypto_withdrawal_fee
from fundlab.sandbox.clock import NS
from fundlab.sandbox.ledger import SCALE, units
from fundlab.sandbox.people import People, SavedAccount
from fundlab.sandbox.transfers import WIRE_FEES
from fundlab.values import Amount, Instant

HISTORY_END_NS: Final = Instant.parse("2026-11-01T00:00:00Z").ns
HISTORY_DAYS: Final = 365
DAY_NS: Final = 86_400 * NS
HISTORY_START_NS: Final = HISTORY_END_NS - HISTORY_DAYS * DAY_NS
QUIET_DAYS: Final = 2
"""At the start: accounts, instructions and addresses are set up before money moves."""

FAILED_SHARE: Final = 0.025
CONVERTED_SHARE: Final = 0.06
END_USER_SHARE: Final = 0.15
SAME_TIME_SHARE: Final = 0.01
USD_RESERVE: Final = 250_000 * SCALE
"""What the history leaves every profile in USD, so that withdrawals can be tried."""
OPENING_USD: Final = 2_000_000 * SCALE
CENT: Final = SCALE // 100

COMPLETED, PENDING, FAILED = 0, 1, 2
T: Final = TransferType


@dataclass(frozen=True)
class Kind:
    """One row of the table above. ``opposite`` is what it becomes when funds are short."""

    type: TransferType
    share: float
    assets: str
    median_usd: float
    settles_s: float
    opposite: TransferType | None = None

    @property
    def credit(self) -> bool:
        return self.type.direction == "CREDIT"


KINDS: Final = (
    Kind(T.CRYPTO_DEPOSIT, 0.20, "coins", 4_000, 900),
    Kind(T.CRYPTO_WITHDRAWAL, 0.16, "coins", 2_500, 1_200, T.CRYPTO_DEPOSIT),
    Kind(T.WIRE_DEPOSIT, 0.14, "usd", 25_000, 5_400),
    Kind(T.WIRE_WITHDRAWAL, 0.11, "usd", 15_000, 14_400, T.WIRE_DEPOSIT),
    Kind(T.INTERNAL_TRANSFER_DEBIT, 0.05, "any", 5_000, 0, T.PAXOS_TRANSFER_CREDIT),
    Kind(T.INTERNAL_TRANSFER_CREDIT, 0.05, "any", 5_000, 0),
    Kind(T.PAXOS_TRANSFER_CREDIT, 0.04, "any", 6_000, 20),
    Kind(T.PAXOS_TRANSFER_DEBIT, 0.04, "any", 5_000, 20, T.PAXOS_TRANSFER_CREDIT),
    Kind(T.CUBIX_DEPOSIT, 0.04, "usd", 12_000, 60),
    Kind(T.CUBIX_WITHDRAWAL, 0.03, "usd", 9_000, 90, T.CUBIX_DEPOSIT),
    Kind(T.BANK_DEPOSIT, 0.04, "usd", 1_800, 130_000),
    Kind(T.BANK_WITHDRAWAL, 0.03, "usd", 1_500, 100_000, T.BANK_DEPOSIT),
    Kind(T.RTP_DEPOSIT, 0.03, "usd", 900, 9),
    Kind(T.SEN_DEPOSIT, 0.008, "usd", 30_000, 30),
    Kind(T.SEN_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.SEN_DEPOSIT),
    Kind(T.SIGNET_DEPOSIT, 0.007, "usd", 30_000, 30),
    Kind(T.SIGNET_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.SIGNET_DEPOSIT),
    Kind(T.CBIT_DEPOSIT, 0.007, "usd", 30_000, 30),
    Kind(T.CBIT_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.CBIT_DEPOSIT),
)
KIND_OF: Final = {kind.type: index for index, kind in enumerate(KINDS)}
INTERNAL_DEBIT: Final = KIND_OF[T.INTERNAL_TRANSFER_DEBIT]
INTERNAL_CREDIT: Final = KIND_OF[T.INTERNAL_TRANSFER_CREDIT]


@dataclass(frozen=True)
class Asset:
    """``drawn`` decimals are drawn at once; ETH's eighteen need nine more."""

    name: str
    share: float
    price_usd: float
    drawn: int
    networks: tuple[CryptoNetwork, ...] = ()


N: Final = CryptoNetwork
ASSETS: Final = (
    Asset("USD", 0.40, 1, 2),
    Asset("USDC", 0.19, 1, 2, (N.ETHEREUM, N.SOLANA, N.BASE, N.POLYGON_POS, N.ARBITRUM_ONE)),
    Asset("USDG", 0.07, 1, 2, (N.ETHEREUM, N.SOLANA, N.INK, N.XLAYER)),
    Asset("PYUSD", 0.08, 1, 2, (N.ETHEREUM, N.SOLANA, N.STELLAR)),
    Asset("USDP", 0.05, 1, 2, (N.ETHEREUM, N.SOLANA)),
    Asset("BTC", 0.09, 98_000, 8, (N.BITCOIN,)),
    Asset("ETH", 0.07, 3_900, 9, (N.ETHEREUM, N.BASE, N.ARBITRUM_ONE)),
    Asset("SOL", 0.03, 190, 9, (N.SOLANA,)),
    Asset("LTC", 0.01, 95, 8, (N.LITECOIN,)),
    Asset("BCH", 0.01, 480, 8, (N.BITCOIN_CASH,)),
)
USD: Final = 0
STABLE: Final = [index for index, asset in enumerate(ASSETS) if asset.name in set(StableAsset)]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass
class Draft:
    """A history before it is written: one entry per transfer, in order of ``created_ns``.

    ``amounts`` and ``fees`` are units of 10^-18. ``balances`` and ``held`` are what each profile is
    left with per asset, in the order profile by profile.
    """

    kinds: list[int]
    profiles: list[int]
    assets: list[int]
    targets: list[int]
    networks: list[int]
    statuses: list[int]
    created_ns: list[int]
    updated_ns: list[int]
    amounts: list[int]
    fees: list[int]
    price_cents: list[int]
    places: list[int]
    users: list[int]
    balances: list[int]
    held: list[int]

    def __len__(self) -> int:
        return len(self.kinds)


def draft_history(people: People, transfers: int) -> Draft:
    """Draw ``transfers`` transfers and play them through, so that nobody is ever overdrawn."""
    rng = np.random.default_rng(people.seed)
    draft = _draw(rng, people, transfers)
    _play(draft, rng)
    return draft


# ---------------------------------------------------------------------------- drawing


def _draw(rng: np.random.Generator, people: People, count: int) -> Draft:
    profiles = len(people.profile_ids)
    created = _times(rng, count)
    kinds = _kinds(rng, count, profiles)
    days = (created - HISTORY_START_NS) // DAY_NS
    assets = _assets(rng, kinds)
    weights = 1 / np.arange(1, profiles + 1) ** 0.8
    owners = rng.choice(profiles, count, p=weights / weights.sum())
    opening = np.arange(min(profiles, count))
    owners[opening] = opening
    assets[opening] = USD
    usd = _usd(rng, kinds)
    usd[opening] = OPENING_USD / SCALE * rng.uniform(1, 4, len(opening))
    prices = _prices(rng)
    places = rng.integers(0, 2**31, count)
    networks = _networks(assets, places)
    amounts, cents = _amounts(rng, usd, assets, kinds, prices[days, assets])
    updated = _settled(rng, created, kinds)
    statuses = _statuses(rng, kinds, created, updated)
    statuses[opening] = COMPLETED
    targets = _targets(rng, kinds, assets, statuses, amounts)
    targets[opening] = USD
    users = _users(rng, people, created)
    _pair_internal(rng, kinds, profiles, owners, assets, amounts, cents, created, updated)
    targets = np.where((kinds == INTERNAL_DEBIT) | (kinds == INTERNAL_CREDIT), assets, targets)
    updated = np.where(statuses == PENDING, created, updated)
    return Draft(
        kinds.tolist(), owners.tolist(), assets.tolist(), targets.tolist(), networks.tolist(),
        statuses.tolist(), created.tolist(), updated.tolist(), amounts,
        _fees(people, kinds, assets, networks, places, created, amounts), cents.tolist(),
        places.tolist(), users.tolist(), [0] * (profiles * len(ASSETS)),
        [0] * (profiles * len(ASSETS)),
    )  # fmt: skip


def _times(rng: np.random.Generator, count: int) -> Ints:
    """Sorted, whole microseconds; weekday, month-end and office-hour rhythm."""
    first_day = QUIET_DAYS
    dates = np.datetime64(HISTORY_START_NS, "ns").astype("datetime64[D]") + np.arange(HISTORY_DAYS)
    weekday = (dates.astype("int64") + 3) % 7
    days_left = ((dates.astype("datetime64[M]") + 1).astype("datetime64[D]") - dates).astype(int)
    weight = np.where(weekday >= 5, 0.2, 1.0) * np.where(days_left <= 3, 2.0, 1.0)
    weight *= np.linspace(1.0, 1.5, HISTORY_DAYS)
    weight[:first_day] = 0
    day = rng.choice(HISTORY_DAYS, count, p=weight / weight.sum())
    hours = np.concatenate([np.full(7, 0.3), np.full(5, 1.0), np.full(8, 2.0), np.full(4, 0.7)])
    hour = rng.choice(24, count, p=hours / hours.sum())
    micros = rng.integers(0, 3_600_000_000, count)
    times = HISTORY_START_NS + day * DAY_NS + hour * 3_600 * NS + micros * 1_000
    times.sort()
    same = rng.random(count) < SAME_TIME_SHARE
    same[:1] = False
    # a run of marked entries shares the time of the last unmarked one before it
    anchor = np.maximum.accumulate(np.where(same, 0, np.arange(count))) if count else same
    result: Ints = times[anchor.astype(np.int64)]
    return result


def _kinds(rng: np.random.Generator, count: int, profiles: int) -> Ints:
    """Kinds in order; each internal debit is followed by its credit. Openings come first."""
    shares = np.array([kind.share for kind in KINDS])
    if profiles < 2:
        shares[INTERNAL_DEBIT] = 0
    shares[INTERNAL_CREDIT] = 0
    kinds = rng.choice(len(KINDS), count, p=shares / shares.sum())
    opening = min(profiles, count)
    kinds[:opening] = KIND_OF[T.WIRE_DEPOSIT]
    kinds[-1:] = KIND_OF[T.WIRE_DEPOSIT]
    debit = np.flatnonzero(kinds == INTERNAL_DEBIT)
    # a debit directly after another would be overwritten by that one's credit
    kept = debit[np.concatenate([[True], np.diff(debit) > 1])] if len(debit) else debit
    kinds[debit] = KIND_OF[T.CRYPTO_DEPOSIT]
    kinds[kept] = INTERNAL_DEBIT
    kinds[kept + 1] = INTERNAL_CREDIT
    return kinds


def _assets(rng: np.random.Generator, kinds: Ints) -> Ints:
    share = np.array([asset.share for asset in ASSETS])
    any_asset = rng.choice(len(ASSETS), len(kinds), p=share / share.sum())
    share[USD] = 0
    coin = rng.choice(len(ASSETS), len(kinds), p=share / share.sum())
    group = np.array([("usd", "coins", "any").index(kind.assets) for kind in KINDS])[kinds]
    return np.choose(group, [np.full(len(kinds), USD), coin, any_asset])


def _usd(rng: np.random.Generator, kinds: Ints) -> Floats:
    """Lognormal around the kind's median; one in a hundred from a Pareto tail."""
    median = np.array([kind.median_usd for kind in KINDS])[kinds]
    usd = median * np.exp(rng.normal(0, 1.2, len(kinds)))
    tail = rng.random(len(kinds)) < 0.01
    usd[tail] *= 1 + rng.pareto(1.5, int(tail.sum()))
    result: Floats = np.clip(usd, 1.0, 50_000_000)
    return result


def _prices(rng: np.random.Generator) -> Floats:
    """USD per unit, per day and asset: a random walk for all that is not USD-like."""
    steps = rng.normal(0.0003, 0.02, (HISTORY_DAYS, len(ASSETS)))
    steps[:, STABLE] = 0
    start = np.array([asset.price_usd for asset in ASSETS])
    prices: Floats = start * np.exp(np.cumsum(steps, axis=0))
    return prices


def _networks(assets: Ints, places: Ints) -> Ints:
    """An index into ``CryptoNetwork``, -1 for USD."""
    order = list(CryptoNetwork)
    networks = np.full(len(assets), -1)
    for index, asset in enumerate(ASSETS):
        if asset.networks:
            choices = np.array([order.index(network) for network in asset.networks])
            of_asset = assets == index
            networks[of_asset] = choices[places[of_asset] % len(choices)]
    return networks


def _amounts(
    rng: np.random.Generator, usd: Floats, assets: Ints, kinds: Ints, prices: Floats
) -> tuple[list[int], Ints]:
    """Units of 10^-18, and the day's price in USD cents."""
    decimals = np.array([asset.drawn for asset in ASSETS])[assets]
    on_chain = np.isin(kinds, [KIND_OF[T.CRYPTO_DEPOSIT]]) & np.isin(assets, STABLE)
    decimals = np.where(on_chain & (rng.random(len(usd)) < 0.3), 6, decimals)
    drawn = np.maximum(np.rint(usd / prices * 10.0**decimals), 1).astype(np.int64)
    low = rng.integers(0, 10**9, len(usd))
    low[np.array([asset.name != "ETH" for asset in ASSETS])[assets]] = 0
    amounts = [
        quantity * 10 ** (18 - places) + rest
        for quantity, places, rest in zip(
            drawn.tolist(), decimals.tolist(), low.tolist(), strict=True
        )
    ]
    cents = np.rint(prices * 100).astype(np.int64)
    return amounts, cents


def _settled(rng: np.random.Generator, created: Ints, kinds: Ints) -> Ints:
    median = np.array([kind.settles_s for kind in KINDS])[kinds]
    micros = np.rint(median * np.exp(rng.normal(0, 0.5, len(kinds))) * 1e6).astype(np.int64)
    return created + micros * 1_000


def _statuses(rng: np.random.Generator, kinds: Ints, created: Ints, updated: Ints) -> Ints:
    statuses = np.where(rng.random(len(kinds)) < FAILED_SHARE, FAILED, COMPLETED)
    statuses[np.isin(kinds, [INTERNAL_DEBIT, INTERNAL_CREDIT])] = COMPLETED
    instant = np.array([kind.settles_s == 0 for kind in KINDS])[kinds]
    recent = (created > HISTORY_END_NS - 2 * DAY_NS) & (rng.random(len(kinds)) < 0.3)
    last = np.arange(len(kinds)) >= len(kinds) - 4
    statuses[((updated >= HISTORY_END_NS) | recent | last) & ~instant] = PENDING
    return statuses


def _targets(
    rng: np.random.Generator, kinds: Ints, assets: Ints, statuses: Ints, amounts: list[int]
) -> Ints:
    """The asset credited: another stablecoin where a deposit of whole cents is converted."""
    convertible = np.isin(kinds, [KIND_OF[T.WIRE_DEPOSIT], KIND_OF[T.CRYPTO_DEPOSIT]])
    convertible &= np.isin(assets, STABLE) & (statuses == COMPLETED)
    convertible &= np.array([amount % CENT == 0 for amount in amounts], dtype=bool)
    converted = convertible & (rng.random(len(kinds)) < CONVERTED_SHARE)
    step = rng.integers(1, len(STABLE), len(kinds))
    return np.where(converted, (assets + step) % len(STABLE), assets)


def _users(rng: np.random.Generator, people: People, created: Ints) -> Ints:
    """An index into the end users approved by then, -1 for the customer's own."""
    approved = np.array([user.approved_ns + DAY_NS for user in people.users])
    known = np.searchsorted(approved, created)
    picked = (rng.random(len(created)) * known).astype(np.int64)
    own = (rng.random(len(created)) >= END_USER_SHARE) | (known == 0)
    return np.where(own, -1, picked)


def _pair_internal(
    rng: np.random.Generator,
    kinds: Ints,
    profiles: int,
    owners: Ints,
    assets: Ints,
    amounts: list[int],
    cents: Ints,
    created: Ints,
    updated: Ints,
) -> None:
    """Give each credit half the asset, amount and time of its debit, and another profile."""
    debit = np.flatnonzero(kinds == INTERNAL_DEBIT)
    if not len(debit):
        return
    credit = debit + 1
    owners[credit] = (owners[debit] + rng.integers(1, profiles, len(debit))) % profiles
    for column in (assets, cents, created):
        column[credit] = column[debit]
    updated[debit], updated[credit] = created[debit], created[debit]
    for index in debit.tolist():
        amounts[index + 1] = amounts[index]


def _fees(
    people: People,
    kinds: Ints,
    assets: Ints,
    networks: Ints,
    places: Ints,
    created: Ints,
    amounts: list[int],
) -> list[int]:
    """Units of 10^-18, by the table above."""
    incoming, bank = units(Amount("15.00")), units(Amount("0.50"))
    by_account = wire_fees_by_place(people)
    order = list(CryptoNetwork)
    crypto = {
        (index, order.index(network)): units(crypto_withdrawal_fee(asset.name, network))
        for index, asset in enumerate(ASSETS)
        for network in asset.networks
    }
    known = np.searchsorted([account.since_ns for account in wire_accounts(people)], created)
    fees = [0] * len(kinds)
    for i, (kind, asset, network, place, accounts) in enumerate(
        zip(
            kinds.tolist(), assets.tolist(), networks.tolist(), places.tolist(), known.tolist(),
            strict=True,
        )
    ):  # fmt: skip
        match KINDS[kind].type:
            case T.CRYPTO_WITHDRAWAL:
                fees[i] = crypto[asset, network]
            case T.WIRE_WITHDRAWAL:
                fees[i] = by_account[place % max(accounts, 1)]
            case T.BANK_WITHDRAWAL:
                fees[i] = bank
            case T.WIRE_DEPOSIT if place % 10 == 0 and amounts[i] > 100 * incoming:
                fees[i] = incoming
    return fees


def wire_accounts(people: People) -> list[SavedAccount]:
    """Approved wire accounts, oldest first."""
    return sorted(
        (account for account in people.accounts if account.kind != "CUBIX"),
        key=lambda account: account.since_ns,
    )


def wire_fees_by_place(people: People) -> list[int]:
    return [units(WIRE_FEES[RoutingNumberType(account.kind)]) for account in wire_accounts(people)]


# ---------------------------------------------------------------------------- playing


def _play(draft: Draft, rng: np.random.Generator) -> None:
    """Go through debits (when made) and credits (when settled) in time order, and mend."""
    shares = rng.integers(20, 600, len(draft)).tolist()
    quanta = [10 ** (18 - asset.drawn) for asset in ASSETS]
    width = len(ASSETS)
    balances, held = draft.balances, draft.held
    late: list[tuple[int, int]] = []
    for at, step, i in _steps(draft):
        while late and late[0][0] < at:
            _credit(draft, heapq.heappop(late)[1], balances, width)
        if step == _CREDIT:
            _credit(draft, i, balances, width)
            continue
        slot = draft.profiles[i] * width + draft.assets[i]
        if step == _RELEASE:
            if not KINDS[draft.kinds[i]].credit:
                balances[slot] += draft.amounts[i] + draft.fees[i]
            continue
        room = balances[slot] - (USD_RESERVE if draft.assets[i] == USD else 0)
        if draft.amounts[i] + draft.fees[i] > room:
            quantum = quanta[draft.assets[i]]
            amount = (room * shares[i] // 1000 - draft.fees[i]) // quantum * quantum
            if amount <= 20 * draft.fees[i] or amount < 50 * quantum:
                _turn_into_deposit(draft, i, late)
                continue
            draft.amounts[i] = amount
        total = draft.amounts[i] + draft.fees[i]
        balances[slot] -= total
        if draft.statuses[i] == PENDING:
            held[slot] += total
    while late:
        _credit(draft, heapq.heappop(late)[1], balances, width)


_DEBIT, _CREDIT, _RELEASE = 0, 1, 2


def _steps(draft: Draft) -> Iterator[tuple[int, int, int]]:
    """``(time, step, index)`` in time order; at the same time debits come before credits."""
    credit = np.array([kind.credit for kind in KINDS])[np.array(draft.kinds, dtype=np.int64)]
    statuses = np.array(draft.statuses, dtype=np.int64)
    created = np.array(draft.created_ns, dtype=np.int64)
    updated = np.array(draft.updated_ns, dtype=np.int64)
    debits = np.flatnonzero(~credit)
    settled = np.flatnonzero(credit & (statuses == COMPLETED))
    released = np.flatnonzero(~credit & (statuses == FAILED))
    index = np.concatenate([debits, settled, released]).astype(np.int64)
    step = np.repeat([_DEBIT, _CREDIT, _RELEASE], [len(debits), len(settled), len(released)])
    at = np.concatenate([created[debits], updated[settled], updated[released]])
    order = np.lexsort((step, at))
    return zip(at[order].tolist(), step[order].tolist(), index[order].tolist(), strict=True)


def _credit(draft: Draft, i: int, balances: list[int], width: int) -> None:
    if KINDS[draft.kinds[i]].type is T.INTERNAL_TRANSFER_CREDIT:
        draft.amounts[i] = draft.amounts[i - 1]
    balances[draft.profiles[i] * width + draft.targets[i]] += draft.amounts[i] - draft.fees[i]


def _turn_into_deposit(draft: Draft, i: int, late: list[tuple[int, int]]) -> None:
    """Too little there: the debit becomes a deposit; of an internal pair, both halves do."""
    kind = KINDS[draft.kinds[i]]
    opposite = kind.opposite
    if opposite is None:
        raise ValueError(f"{kind.type} has no opposite")
    draft.kinds[i] = KIND_OF[opposite]
    draft.fees[i] = 0
    draft.amounts[i] *= 4
    if kind.type is T.INTERNAL_TRANSFER_DEBIT:
        draft.kinds[i + 1] = KIND_OF[opposite]
    if draft.statuses[i] != PENDING:
        draft.statuses[i] = COMPLETED
        heapq.heappush(late, (draft.updated_ns[i], i))
