"""Which transfers a bank's entries stand for: one for one, or several by their exact sum.

Evidence goes from strong to weak, step by step: what is fixed by hand, references, amounts with a
counterparty, amounts alone, sums. A step collects every group that is possible among what is still
open. Items that possible groups connect are judged together: where exactly one choice of groups
leaves none of them over, it is the answer; anything else has several answers, and is listed with
its candidates and left alone by all later steps. Nothing is ever chosen by order.

The only answer may still be a coincidence where there are many items: some line of the bank is of
no transfer, some transfer never reached the bank, and among thousands of sums some agree. So of
each answer that rests on amounts is reckoned how many such there would be by chance in the step; it
counts only where that is next to none, and is listed as a question otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations
from math import gcd
from typing import Any, Final, get_args

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.bank import EARLY, FIAT, SHORTEST_NAME, Side, runs, words
from fundlab.analysis.counting import choice, completed, refuse_repeated
from fundlab.analysis.engines import MONEY, TEXT, TIME, Wanted, Workbench
from fundlab.analysis.periods import DAY
from fundlab.arrow import AMOUNT_TYPE
from fundlab.errors import AnalysisError, number_of, shorten
from fundlab.exact import EXACT
from fundlab.statements.model import given_amount
from fundlab.tables.frames import to_frame
from fundlab.values import exact_sum, plain_text

_WANTED: Final = Wanted(
    "transfers",
    {
        **dict.fromkeys(("id", "asset", "direction", "type", "status"), TEXT),
        "amount": MONEY,
        "created_at": TIME,
        "updated_at": TIME,
    },
    {
        **dict.fromkeys(
            ("balance_asset", "profile_id", "ref_id", "memo", "fiat_account_id", "counterparty"),
            TEXT,
        ),
        "settled_at": TIME,
    },
)
_ENTRIES: Final = Wanted(
    "entries",
    {"entry_id": TEXT, "amount": MONEY},
    {**dict.fromkeys(("asset", "bank_ref", "own_ref", "counterparty", "memo"), TEXT),
     "charges": MONEY},
)  # fmt: skip
_SHORTEST_COUNTERPARTY: Final = 3
_EXHAUSTIVE: Final = 10
"""Of so many items every sum is tried. Of more a sum proves nothing, as chance makes it too."""
_FEW_PARTS: Final = 6
"""So many where even a sum that is the only one would be a coincidence: to list it."""
_STRAY: Final = 0.01
"""What part of the items is taken to belong to nothing on the other side."""
_BY_CHANCE: Final = 0.01
"""How many wrong groups of its kind a group may let expect in a step, and still be taken."""
_FEW: Final = 20
"""Among so few items altogether the only answer is taken: a person would see no other one."""
_ALIKE: Final = Decimal("0.01")
"""By what part another amount may differ and still be the same payment."""
_MOST_EDGES: Final = 4_000
_MOST_STEPS: Final = 5_000
_MOST_LISTED: Final = 20
_MANY: Final = 12
_LONGEST_RUN_OF_DAY: Final = 30
_LONGEST_RUN: Final = 64
_LONGEST_WINDOW: Final = 3_660
_EPOCH: Final = date(1970, 1, 1)
_TEXT: Final = pa.string()
PAIR: Final = ("entry_id", "transfer_id")
_GROUPS: Final = pa.schema(
    [("group", pa.int64()), ("how", _TEXT), ("entries", pa.int64()), ("transfers", pa.int64()),
     ("asset", _TEXT), ("bank_amount", AMOUNT_TYPE), ("amount", AMOUNT_TYPE),
     ("charges", AMOUNT_TYPE), ("difference", AMOUNT_TYPE), ("detail", _TEXT)]
)  # fmt: skip
_ITEM: Final = [
    ("side", _TEXT), ("item_id", _TEXT), ("asset", _TEXT), ("amount", AMOUNT_TYPE),
    ("on", pa.date32()),
]  # fmt: skip
_MEMBERS: Final = pa.schema([("group", pa.int64()), *_ITEM])
_CANDIDATES: Final = pa.schema(
    [("question", pa.int64()), ("candidate", pa.int64()), ("how", _TEXT), *_ITEM]
)
_OPEN: Final = pa.schema([*_ITEM, ("why", _TEXT)])
HOW: Final = (
    "fixed", "reference", "references", "counterparty", "counterparty_sum", "amount",
    "total_of_day", "run_of_day", "sum_of_day", "sum", "many", "fee", "other_amount",
)  # fmt: skip
"""Why a group matched, from strong to weak; ``other_amount`` agrees in its reference only."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A transfer as the bank would see it, signed and without our fee, or a bank's entry."""

    number: int
    """From 0 for entries, from -1 down for transfers."""
    id: str
    asset: str
    amount: Decimal
    first: int
    last: int
    charges: Decimal = Decimal(0)
    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    party: str = ""
    runs: frozenset[str] = frozenset()
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def gross(self) -> Decimal:
        """What came, or went, before the bank kept its charges back."""
        return EXACT.add(self.amount, self.charges) if self.charges else self.amount

    @property
    def kind(self) -> tuple[str, bool]:
        return self.asset, self.amount < 0


_Edge = frozenset[int]


@dataclass(frozen=True)
class Matching:
    """Entries and transfers in groups of equal sums, and what is left.

    ``groups``: ``group`` (from 1), ``how`` (one of ``HOW``), ``entries`` and ``transfers``
    (counts), ``asset``, ``bank_amount`` and ``amount`` (decimals, sums of both sides; what enters
    the account is positive), ``charges`` (what the bank kept back), ``difference`` (bank amount and
    charges less amount; 0 but for ``fixed`` and ``other_amount``), ``detail`` (in words).
    ``members``: ``group``, ``side`` (``bank`` or ``service``), ``item_id`` (``entry_id`` or
    transfer id), ``asset``, ``amount``, ``on`` (the day it was booked, or settled). ``candidates``:
    what has several answers: ``question``, ``candidate`` (each a possible group, at most 20
    listed), ``how`` and the columns of an item. ``open``: what is in no group: the columns of an
    item, and ``why``.
    """

    groups: pd.DataFrame
    members: pd.DataFrame
    candidates: pd.DataFrame
    open: pd.DataFrame

    def __repr__(self) -> str:
        questions = self.candidates["question"].nunique()
        return (
            f"Matching({number_of(len(self.groups), 'group')}, {len(self.open):,} items open, "
            f"{number_of(questions, 'question')})"
        )


def match(
    transfers: object,
    entries: pd.DataFrame,
    *,
    side: Side = "service",
    window: int = 3,
    asset: str = "USD",
    fees: Iterable[str | int | Decimal] = (),
    fixed: pd.DataFrame | None = None,
    forbidden: pd.DataFrame | None = None,
) -> Matching:
    """Completed fiat deposits and withdrawals against the ``entries`` of ``fl.bank.read``: see
    :class:`Matching`.

    ``transfers`` may have a column ``counterparty``, and ``settled_at`` (else ``updated_at``
    counts) beside those of the interface. ``side`` says whose account it is: the ``service``'s,
    which a deposit enters, or ``ours``. ``asset`` is that of entries without one. An entry may be
    booked or valued from the day a transfer was made to ``window`` days after it settled, and once
    all steps are done from the day before; one that names another transfer or counterparty is not
    of a transfer that it does not name. The steps, in this order:

    ``fixed``: the rows of the frame ``fixed`` (``entry_id``, ``transfer_id``; rows that share one
    are a group), whatever their amounts. ``reference``: same amount, and the entry names the
    transfer by id or ``ref_id``, as whole words; any day. ``references``: entries and transfers
    that name each other so, of equal sums. ``counterparty``: same amount, within the window, and
    the entry names the counterparty or repeats the memo; where both sides belong to such sums as
    come next, too, they are judged together. ``counterparty_sum``: the sum of several
    of those that it names, or of several entries that name the one. ``amount``: same amount within
    the window. Then sums, within the window and of one direction, of one entry for several
    transfers or one transfer for several entries: ``total_of_day``, of all of a day, or of its
    type, account, profile or counterparty; ``run_of_day``, of some that settled one after the
    other; ``sum_of_day``, of any of a day; ``sum``, of any. ``many``: several for several, all of
    one counterparty or up to three for three. ``fee``: as the first steps, less one of the ``fees``
    that the bank is known to keep back. ``other_amount``: named by reference, the same way, within
    1%. An amount also agrees where the entry's own ``charges`` make it up.

    No step takes a pair of ``forbidden`` (``entry_id``, ``transfer_id``) together. Of up to 10
    possible members every sum is tried; of more only all of them: a sum of any of many proves
    nothing. Among more than 20 items altogether an amount that no name supports and that comes
    often, and a sum that chance could have made, are candidates only, too. Raises
    :class:`AnalysisError` for rows nobody can count, and for unknown ids in ``fixed`` or
    ``forbidden``. Interface §2.4.

    >>> bank = pd.DataFrame({
    ...     "entry_id": ["b1", "b2", "b3"],
    ...     "booked_on": pd.to_datetime(["2026-10-01", "2026-10-02", "2026-10-02"]),
    ...     "amount": pd.array(["1000", "-120", "-80"], dtype="decimal"),
    ... })
    >>> fl.bank.match(transfers, bank).groups[["how", "entries", "transfers", "amount"]]
                how  entries  transfers  amount
    0        amount        1          1    1000
    1  total_of_day        2          1    -200
    """
    choice("side", side, get_args(Side))
    check_window(window)
    ours = _transfers(transfers, side)
    theirs = _entries(entries, asset)
    search = _Search(theirs, ours, window)
    search.take_by_hand(fixed, forbidden)
    search.step("reference", search.by_reference())
    search.step("references", search.by_references())
    for search.early in (0, EARLY):
        search.step("counterparty", search.by_counterparty())
        search.step("counterparty_sum", search.by_sum(search.named_pools))
        search.step("amount", search.by_amount())
        search.step("total_of_day", search.by_total())
        search.step("run_of_day", search.by_total(_LONGEST_RUN_OF_DAY))
        search.step("sum_of_day", search.by_sum(search.day_pools))
        search.step("sum", search.by_sum(search.window_pools))
        search.step("many", search.by_many())
    for fee in fees:
        less = given_amount("fees", fee)
        search.step("fee", search.by_reference(less), less)
        search.step("fee", search.by_amount(less, named=True), less)
        search.step("fee", search.by_amount(less), less)
        search.step("fee", search.by_sum(search.named_pools, less), less)
    search.step("other_amount", search.by_reference(None))
    return search.result()


def check_window(window: object) -> None:
    if (
        isinstance(window, bool)
        or not isinstance(window, int)
        or not 0 <= window <= _LONGEST_WINDOW
    ):
        raise AnalysisError(
            f"window={window!r}: give a whole number of days, 0 or more, up to {_LONGEST_WINDOW}"
        )


# -------------------------------------------------------------------------------- what comes in


def _transfers(transfers: object, side: Side) -> list[_Item]:
    with Workbench(transfers) as bench:
        needed = ("id", "asset", "amount", "created_at", "updated_at")
        done = completed(bench, transfers, _WANTED, *needed)
        done = done.filter(nw.col("type").is_in(FIAT))
        refuse_repeated(bench, done, "transfers", "id")
        rows = bench.collect(done.sort("created_at", "id")).to_pylist()
    for row in rows:
        row["settled_at"] = row["updated_at"] if row["settled_at"] is None else row["settled_at"]
    rows.sort(key=lambda row: (row["settled_at"], row["id"]))
    enters = "CREDIT" if side == "service" else "DEBIT"
    items = []
    for number, row in enumerate(rows, start=1):
        made = row["created_at"] // DAY
        names = [("".join(words(row[name] or "")), least) for name, least in (
            ("counterparty", _SHORTEST_COUNTERPARTY), ("memo", SHORTEST_NAME))]  # fmt: skip
        ids = ["".join(words(row[name] or "")) for name in ("id", "ref_id")]
        items.append(
            _Item(
                -number, row["id"], row["asset"],
                row["amount"] if row["direction"] == enters else row["amount"].copy_negate(),
                made, max(made, row["settled_at"] // DAY), Decimal(0),
                tuple(name for name in ids if len(name) >= SHORTEST_NAME),
                tuple(name for name, least in names if len(name) >= least),
                names[0][0] if len(names[0][0]) >= _SHORTEST_COUNTERPARTY else "",
                keys=tuple((name, row[name]) for name in (
                    "type", "fiat_account_id", "profile_id", "counterparty") if row[name]),
            )
        )  # fmt: skip
    return items


def _entries(entries: pd.DataFrame, asset: str) -> list[_Item]:
    if not isinstance(entries, pd.DataFrame) or "booked_on" not in entries.columns:
        raise AnalysisError("entries: give the entries of fl.bank.read, with a column 'booked_on'")
    with Workbench(entries) as bench:
        taken = bench.take(entries, _ENTRIES)
        refuse_repeated(bench, taken, "entries", "entry_id")
        rows = bench.collect(taken.select(*_ENTRIES.columns, *_ENTRIES.optional)).to_pylist()
    days: list[list[int | None]] = [
        [None if pd.isna(day) else (pd.Timestamp(day).date() - _EPOCH).days for day in column]
        for column in (entries.get(name, [None] * len(rows)) for name in ("booked_on", "valued_on"))
    ]
    items = []
    for number, (row, booked, valued) in enumerate(zip(rows, *days, strict=True)):
        if booked is None or row["amount"] is None or row["entry_id"] is None:
            missing = "booked_on" if booked is None else "amount or entry_id"
            raise AnalysisError(f"entries: {missing} is missing in row {number + 1}")
        said = " ".join(row[name] or "" for name in ("bank_ref", "own_ref", "counterparty", "memo"))
        both = booked, booked if valued is None else valued
        items.append(
            _Item(number, row["entry_id"], row["asset"] or asset, row["amount"], min(both),
                  max(both), row["charges"] or Decimal(0), runs=runs(words(said), _LONGEST_RUN))
        )  # fmt: skip
    return items


# --------------------------------------------------------------------------------- the search

_Pools = Callable[["_Item"], Iterable[Sequence["_Item"]]]


class _Search:
    """What is open on both sides; each step takes from it what has one answer."""

    def __init__(self, entries: Sequence[_Item], transfers: Sequence[_Item], window: int) -> None:
        self.items = {item.number: item for item in (*entries, *transfers)}
        self.window = window
        self.open = set(self.items)
        self.held: dict[int, str] = {}
        self.groups: list[tuple[str, list[_Item], Decimal]] = []
        self.questions: list[tuple[str, list[_Edge]]] = []
        self.forbidden: set[tuple[int, int]] = set()
        # Which entries name which transfers, and which counterparties.
        by_id: dict[str, list[_Item]] = defaultdict(list)
        for transfer in transfers:
            for name in transfer.ids:
                by_id[name].append(transfer)
        self.mentions = {
            entry.number: {
                transfer.number: transfer
                for name in sorted(entry.runs & by_id.keys())
                for transfer in by_id[name]
            }
            for entry in entries
        }
        parties = {transfer.party for transfer in transfers if transfer.party}
        self.naming = {entry.number for entry in entries if entry.runs & parties}
        self.early = 0
        self.longest = max((item.last - item.first for item in self.items.values()), default=0)
        self.mentioned = Counter(number for named in self.mentions.values() for number in named)
        self.crowded: dict[int, int] = {}
        # Of the step's groups, how many chance would make in place of each; and of how many tries.
        self.chance: dict[_Edge, float] = {}
        self.tries = 0
        self.doubts: dict[_Edge, str] = {}
        self.days_of: dict[tuple[bool, str, Decimal], list[int]] = defaultdict(list)
        for item in sorted(self.items.values(), key=lambda item: item.last):
            self.days_of[item.number >= 0, item.asset, item.amount].append(item.last)
        steps = [item.amount.as_tuple().exponent for item in self.items.values()]
        self.unit = Decimal((0, (1,), min([int(step) for step in steps], default=0)))

    # ------------------------------------------------------------------ what is open

    def left(self, *, entries: bool) -> list[_Item]:
        """In their order."""
        numbers = sorted((n for n in self.open if (n >= 0) == entries), key=abs)
        return [self.items[number] for number in numbers]

    def near(self, one: _Item, other: _Item) -> bool:
        """Whether an entry may be of a transfer: by its days, and by whom it names."""
        entry, transfer = (one, other) if one.number >= 0 else (other, one)
        earliest, latest = transfer.first - self.early, transfer.last + self.window
        if entry.first > latest or entry.last < earliest:
            return False
        mentions = self.mentions[entry.number]
        if transfer.number in mentions or not entry.runs.isdisjoint(transfer.names):
            return True
        # It names another transfer, or another counterparty.
        return not mentions and not (transfer.party and entry.number in self.naming)

    def allowed(self, edge: Collection[int]) -> bool:
        if not self.forbidden:
            return True
        entries = [number for number in edge if number >= 0]
        return not any((e, t) in self.forbidden for e in entries for t in edge if t < 0)

    # ------------------------------------------------------------------ possible groups

    def take_by_hand(self, fixed: pd.DataFrame | None, forbidden: pd.DataFrame | None) -> None:
        numbers = [
            {self.items[n].id: n for n in self.items if (n >= 0) == of_bank}
            for of_bank in (True, False)
        ]
        pairs: dict[str, list[tuple[int, int]]] = {}
        for label, frame in (("fixed", fixed), ("forbidden", forbidden)):
            pairs[label] = []
            for row in [] if frame is None else frame.to_dict("records"):
                found = []
                for name, known in zip(PAIR, numbers, strict=True):
                    if row.get(name) not in known:
                        raise AnalysisError(
                            f"{label}: {name}={shorten(row.get(name))} is not among what is "
                            "matched; give ids of the entries and transfers"
                        )
                    found.append(known[row[name]])
                pairs[label].append((found[0], found[1]))
        both = set(pairs["fixed"]) & set(pairs["forbidden"])
        if both:
            entry, transfer = (self.items[number].id for number in min(both))
            raise AnalysisError(f"{entry} and {transfer} are both fixed and forbidden")
        self.forbidden = set(pairs["forbidden"])
        for component in _components([frozenset(pair) for pair in pairs["fixed"]]):
            self._take("fixed", frozenset().union(*component), Decimal(0))

    def by_reference(self, less: Decimal | None = Decimal(0)) -> Iterator[_Edge]:
        """Pairs of an entry and a transfer that it names; ``None``: of any amount the same way."""
        for entry in self.left(entries=True):
            for transfer in self.mentions[entry.number].values():
                if transfer.number not in self.open or transfer.asset != entry.asset:
                    continue
                if less is None:
                    # Nearly the same amount, and neither names another one.
                    more = EXACT.subtract(entry.amount, transfer.amount).copy_abs()
                    alike = more <= EXACT.multiply(_ALIKE, abs(transfer.amount))
                    alone = len(self.mentions[entry.number]) == 1 == self.mentioned[transfer.number]
                    agrees = transfer.kind == entry.kind and alike and alone
                else:
                    agrees = transfer.amount in self.totals(entry, less)
                if agrees:
                    yield frozenset((entry.number, transfer.number))

    def totals(self, item: _Item, less: Decimal = Decimal(0)) -> tuple[Decimal, ...]:
        """What an item's counterpart may come to."""
        if item.number < 0:
            return (item.amount,)
        if less:
            return (EXACT.add(item.amount, less),)
        return (item.amount, item.gross) if item.charges else (item.amount,)

    def by_references(self) -> Iterator[_Edge]:
        named = [
            frozenset((entry.number, number))
            for entry in self.left(entries=True)
            for number in self.mentions[entry.number]
            if number in self.open and self.items[number].asset == entry.asset
        ]
        for component in _components(named):
            members = frozenset().union(*component)
            if len(members) > 2 and self._balanced(members):
                yield members

    def by_amount(self, less: Decimal = Decimal(0), *, named: bool = False) -> Iterator[_Edge]:
        waiting: dict[tuple[str, Decimal], list[_Item]] = defaultdict(list)
        for transfer in self.left(entries=False):
            waiting[transfer.asset, transfer.amount].append(transfer)
        asking: dict[tuple[str, Decimal], list[_Item]] = defaultdict(list)
        for entry in self.left(entries=True):
            for total in dict.fromkeys(self.totals(entry, less)):
                if (entry.asset, total) in waiting:
                    asking[entry.asset, total].append(entry)
        for key, entries in asking.items():
            transfers, edges = waiting[key], 0
            by_day: dict[int, list[_Item]] = defaultdict(list)
            for transfer in transfers:
                by_day[transfer.last].append(transfer)
            for entry in entries:
                # Where they are many, only those whose last day may be near.
                reach, close = self.reach(entry), transfers
                if len(transfers) > len(reach):
                    close = [item for day in reach for item in by_day.get(day, ())]
                for transfer in close:
                    if edges == _MOST_EDGES or (named and entry.runs.isdisjoint(transfer.names)):
                        continue
                    if self.near(entry, transfer):
                        edges += 1
                        edge = frozenset((entry.number, transfer.number))
                        others = 0 if named else self.alike(entry, transfer)
                        if others:
                            # That one is of nothing and the other, too, and they look the same.
                            self.chance[edge] = _STRAY * _STRAY * others
                            self.tries += 1
                        yield edge
            if edges == _MOST_EDGES:
                silent = [
                    e for e in entries if not (e.number in self.naming or self.mentions[e.number])
                ]
                for item in (*silent, *transfers):
                    self.held[item.number] = "too many of one amount"

    def by_counterparty(self) -> Iterator[_Edge]:
        """Pairs that a name supports. Where both sides of one belong to other sums of that name as
        well, those are another answer, and are judged with it."""
        pairs = [*self.by_amount(named=True)]
        sums: dict[int, list[_Edge]] = defaultdict(list)
        for edge in self.by_sum(self.named_pools):
            for number in edge:
                sums[number].append(edge)
        for pair in pairs:
            yield pair
            rivals = [[edge for edge in sums[number] if not pair <= edge] for number in pair]
            if all(rivals):
                yield from (edge for side in rivals for edge in side)

    def alike(self, entry: _Item, transfer: _Item) -> int:
        """How many others, matched or not, have the amount of one of them within its window."""
        reach, most = self.window + EARLY + self.longest, 0
        for one, other in ((entry, transfer), (transfer, entry)):
            days = self.days_of[other.number >= 0, other.asset, other.amount]
            if len(days) > 1:
                close = bisect_right(days, one.last + reach) - bisect_left(days, one.first - reach)
                most = max(most, close - 1)
        return most

    def by_sum(self, pools: _Pools, less: Decimal = Decimal(0)) -> Iterator[_Edge]:
        """One entry for several transfers, and one transfer for several entries."""
        for of_bank in (True, False):
            if less and not of_bank:
                continue
            # The open items of the other side by day and by name.
            entries = not of_bank
            self.by_day: dict[tuple[str, bool, int], list[_Item]] = defaultdict(list)
            self.by_name: dict[tuple[str, bool, str], list[_Item]] = defaultdict(list)
            self.by_mention: dict[int, list[_Item]] = defaultdict(list)
            known: set[str] = set()
            if entries:
                for entry in self.left(entries=True):
                    for number in self.mentions[entry.number]:
                        self.by_mention[number].append(entry)
                known = {name for item in self.left(entries=False) for name in item.names}
            for item in self.left(entries=entries):
                self.by_day[(*item.kind, item.last)].append(item)
                for name in sorted(item.runs & known) if entries else item.names:
                    self.by_name[*item.kind, name].append(item)
            weight = _STRAY if pools == self.named_pools else 1.0
            ones = self.left(entries=of_bank)
            for one in ones:
                found: set[_Edge] = set()
                # Among many, the sums of a small amount are too dense to say anything.
                best = weight * _chance(1, self.units(one.amount) or 1, [1])
                most = _EXHAUSTIVE if best * len(ones) <= _BY_CHANCE else _FEW_PARTS
                every = [*pools(one)]
                self.tries += bool(every)
                for pool in every:
                    for total in dict.fromkeys(self.totals(one, less)):
                        sums, complete = _sums(total, pool, self.unit, most)
                        for several, chance in sums:
                            edge = frozenset((one.number, *several))
                            found.add(edge)
                            before = self.chance.get(edge, 1.0)
                            self.chance[edge] = min(before, weight * chance)
                        if not complete:
                            self.crowded[one.number] = len(pool)
                yield from sorted(found, key=sorted)

    def named_pools(self, one: _Item) -> Iterator[list[_Item]]:
        """All that ``one`` names, or is named by, and those of each name."""
        if one.number >= 0:
            pools = [[*self.mentions[one.number].values()]]
            names: Iterable[str] = sorted(one.runs)
        else:
            pools = [[*self.by_mention.get(one.number, ())]]
            names = one.names
        pools += [self.by_name.get((*one.kind, name), []) for name in names]
        pools = [
            [i for i in pool if i.number in self.open and i.kind == one.kind and self.near(one, i)]
            for pool in pools
        ]
        every = {item.number: item for pool in pools for item in pool}
        pools.append([*every.values()])
        for pool in dict.fromkeys(
            tuple(sorted(pool, key=lambda i: _place(i.number))) for pool in pools
        ):
            if len(pool) > 1:
                yield [*pool]

    def day_pools(self, one: _Item) -> Iterator[list[_Item]]:
        """Those of each day, as far as they may belong to ``one``."""
        yield from (pool for pool in self._by_days(one) if len(pool) > 1)

    def window_pools(self, one: _Item) -> Iterator[list[_Item]]:
        near = [item for pool in self._by_days(one) for item in pool]
        if len(near) > 1:
            yield near

    def units(self, amount: Decimal) -> int:
        return int(amount / self.unit)

    def units_of(self, members: Iterable[int]) -> list[int]:
        return [self.units(self.items[number].gross) for number in members]

    def reach(self, one: _Item) -> range:
        """The last days of what may be near it, with those of its window."""
        end = one.last + self.window + EARLY + self.longest + 1
        return range(one.first - self.window - EARLY, end)

    def _by_days(self, one: _Item) -> Iterator[list[_Item]]:
        for day in self.reach(one):
            yield [i for i in self.by_day.get((*one.kind, day), ()) if self.near(one, i)]

    def by_total(self, longest: int | None = None) -> Iterator[_Edge]:
        """One entry for all transfers of a day, or of it and one of their keys; and the reverse.
        With ``longest`` for up to so many of a day that settled one after the other."""
        for of_bank in (True, False):
            days: dict[tuple[Any, ...], list[_Item]] = defaultdict(list)
            for item in self.left(entries=not of_bank):
                for key in (("", ""), *item.keys):
                    days[*item.kind, item.last, *key].append(item)
            totals: dict[tuple[str, Decimal], set[_Edge]] = defaultdict(set)
            made: dict[tuple[str, int], dict[_Edge, int]] = defaultdict(dict)
            for (asset, _, day, *_), items in days.items():
                starts = range(len(items) - 1) if longest else range(1)
                for start in starts:
                    end = start + longest if longest else len(items)
                    total, several = Decimal(0), []
                    for item in items[start:end]:
                        total = EXACT.add(total, item.amount)
                        several.append(item.number)
                        if len(several) > 1 and (longest or len(several) == len(items)):
                            edge = frozenset(several)
                            totals[asset, total].add(edge)
                            made[asset, day][edge] = self.units(total)
            sums = {key: sorted(of_day.values()) for key, of_day in made.items()}
            for one in self.left(entries=of_bank):
                self.tries += 1
                for total in dict.fromkeys(self.totals(one)):
                    for found in sorted(totals.get((one.asset, total), ()), key=sorted):
                        if all(self.near(one, self.items[number]) for number in found):
                            units = self.units(total)
                            alike = sum(
                                _count_alike(sums.get((one.asset, day), []), units)
                                for day in self.reach(one)
                            )
                            edge = found | {one.number}
                            # A bank that lumps a day lumps all of it: that is no arbitrary sum.
                            weight = 1.0 if longest else _STRAY
                            chance = weight * _chance(alike, units, self.units_of(found))
                            self.chance[edge] = chance
                            yield edge

    def by_many(self) -> Iterator[_Edge]:
        """Several entries for several transfers: all of one name at a time, or a few of a few."""
        named: dict[tuple[str, bool, str], list[_Item]] = defaultdict(list)
        kinds: dict[tuple[str, bool], list[_Item]] = defaultdict(list)
        transfers = self.left(entries=False)
        known = {name for item in transfers for name in item.names}
        for item in (*self.left(entries=True), *transfers):
            kinds[item.kind].append(item)
            for name in sorted(item.runs & known) or item.names:
                named[*item.kind, name].append(item)
        found: set[_Edge] = set()
        for items in named.values():
            for cluster in self._clusters(items):
                members = frozenset(item.number for item in cluster)
                several = all(sum((n >= 0) == side for n in members) > 1 for side in (True, False))
                if several and self._balanced(members) and self._all_near(members):
                    found.add(members)
        for items in kinds.values():
            for cluster in self._clusters(items):
                self.tries += 1
                found |= self._few_for_few(cluster)
        yield from sorted(found, key=sorted)

    def _clusters(self, items: Sequence[_Item]) -> Iterator[list[_Item]]:
        """Items without a gap of more than the window between their days."""
        cluster: list[_Item] = []
        end = 0
        for item in sorted(items, key=lambda item: (item.first, item.number)):
            if cluster and item.first > end + self.window + EARLY:
                yield cluster
                cluster = []
            cluster.append(item)
            end = max(end, item.last) if len(cluster) > 1 else item.last
        if cluster:
            yield cluster

    def _few_for_few(self, items: Sequence[_Item]) -> set[_Edge]:
        sides = [
            [item for item in items if (item.number >= 0) == of_bank] for of_bank in (True, False)
        ]
        if not all(1 < len(side) <= _MANY for side in sides):
            return set()
        sums: list[dict[Decimal, list[tuple[int, ...]]]] = []
        for side in sides:
            by_total: dict[Decimal, list[tuple[int, ...]]] = defaultdict(list)
            for size in (2, 3):
                for several in combinations(side, size):
                    total = exact_sum(item.gross for item in several)
                    by_total[total].append(tuple(item.number for item in several))
            sums.append(by_total)
        found: set[_Edge] = set()
        made = [
            sorted(self.units(total) for total, several in side.items() for _ in several)
            for side in sums
        ]
        for total, entries in sums[0].items():
            for some in entries:
                for others in sums[1].get(total, ()):
                    members = (*some, *others)
                    if self._all_near(members) and self._is_smallest(some, others):
                        edge = frozenset(members)
                        found.add(edge)
                        units = self.units(total)
                        alike = _count_alike(made[0], units) * _count_alike(made[1], units)
                        self.chance[edge] = _chance(alike, units, self.units_of(members))
        return found

    def _is_smallest(self, some: Sequence[int], others: Sequence[int]) -> bool:
        """Whether no part of the group would balance by itself."""
        parts = [
            {
                exact_sum(self.items[number].gross for number in part)
                for size in range(1, len(side))
                for part in combinations(side, size)
            }
            for side in (some, others)
        ]
        return parts[0].isdisjoint(parts[1])

    def _all_near(self, members: Collection[int]) -> bool:
        items = [self.items[number] for number in members]
        transfers = [item for item in items if item.number < 0]
        return all(self.near(e, t) for e in items if e.number >= 0 for t in transfers)

    def _balanced(self, members: Collection[int]) -> bool:
        items = [self.items[number] for number in members]
        paid = exact_sum(item.amount for item in items if item.number < 0)
        booked = [item for item in items if item.number >= 0]
        return paid in (
            exact_sum(item.amount for item in booked), exact_sum(item.gross for item in booked)
        )  # fmt: skip

    # ------------------------------------------------------------------ the judgement

    def step(self, how: str, edges: Iterable[_Edge], less: Decimal = Decimal(0)) -> None:
        self.chance, self.tries = {}, 0
        possible = [edge for edge in dict.fromkeys(edges) if self.allowed(edge)]
        for component in _components(possible):
            members = frozenset().union(*component)
            held = any(number in self.held for number in members)
            answer = None if held else _only_cover(members, component)
            if answer is None:
                self.questions.append((how, component))
                for number in members:
                    self.held.setdefault(number, "several answers")
            elif len(self.items) > _FEW and any(
                self.tries * self.chance.get(edge, 0) > _BY_CHANCE for edge in answer
            ):
                # Of one amount they stay together; of a sum, a better answer may come.
                if how == "amount":
                    self.questions.append((how, component))
                    self.held |= dict.fromkeys(members, "an amount that comes often")
                else:
                    self.doubts |= dict.fromkeys(answer, how)
            else:
                for edge in answer:
                    sums = how == "counterparty" and len(edge) > 2
                    self._take("counterparty_sum" if sums else how, edge, less)
        self.open -= self.held.keys()

    def _take(self, how: str, edge: _Edge, less: Decimal) -> None:
        self.open -= edge
        order = sorted(edge, key=_place)
        self.groups.append((how, [self.items[number] for number in order], less))

    # ------------------------------------------------------------------ the result

    def result(self) -> Matching:
        for edge, how in self.doubts.items():
            if edge <= self.open:
                self.questions.append((how, [edge]))
                for number in edge:
                    self.held.setdefault(number, "a sum that chance makes, too")

        def order(group: tuple[str, list[_Item], Decimal]) -> tuple[Any, ...]:
            return min(item.first for item in group[1]), [abs(i.number) for i in group[1]]

        groups, members = [], []
        for number, (how, items, less) in enumerate(sorted(self.groups, key=order), start=1):
            booked = [item for item in items if item.number >= 0]
            bank = exact_sum(item.amount for item in booked)
            ours = exact_sum(item.amount for item in items if item.number < 0)
            missing = EXACT.subtract(ours, bank)
            declared = exact_sum(item.charges for item in booked)
            charges = missing if missing and missing in (declared, less) else Decimal(0)
            groups.append(
                {"group": number, "how": how, "entries": len(booked),
                 "transfers": len(items) - len(booked), "asset": items[0].asset,
                 "bank_amount": bank, "amount": ours, "charges": charges,
                 "difference": EXACT.subtract(EXACT.add(bank, charges), ours),
                 "detail": _in_words(how, items, charges, EXACT.subtract(bank, ours))}
            )  # fmt: skip
            members += [{"group": number, **_row(item)} for item in items]
        candidates = []
        for question, (how, edges) in enumerate(self.questions, start=1):
            for place, edge in enumerate(edges[:_MOST_LISTED], start=1):
                for number in sorted(edge, key=_place):
                    named = {"question": question, "candidate": place, "how": how}
                    candidates.append({**named, **_row(self.items[number])})
        taken = {item.number for _, items, _ in self.groups for item in items}
        left = sorted(self.items.keys() - taken, key=_place)
        crowded = {
            number: f"too many combinations of {count} items"
            for number, count in self.crowded.items()
        }
        still = [
            {**_row(self.items[n]), "why": self.held.get(n) or crowded.get(n, "no counterpart")}
            for n in left
        ]
        return Matching(*(
            to_frame(pa.Table.from_pylist(rows, schema=schema))
            for rows, schema in ((groups, _GROUPS), (members, _MEMBERS),
                                 (candidates, _CANDIDATES), (still, _OPEN))
        ))  # fmt: skip


def _row(item: _Item) -> dict[str, Any]:
    return {"side": "bank" if item.number >= 0 else "service", "item_id": item.id,
            "asset": item.asset, "amount": item.amount,
            "on": _EPOCH + timedelta(days=item.last)}  # fmt: skip


def _in_words(how: str, items: Sequence[_Item], charges: Decimal, more: Decimal) -> str:
    booked = [item for item in items if item.number >= 0]
    others = [item for item in items if item.number < 0]
    entries = number_of(len(booked), "entry").replace("entrys", "entries")
    sides = f"{entries} for {number_of(len(others), 'transfer')}"
    said = {
        "fixed": "fixed by hand",
        "reference": "named by the bank, same amount",
        "references": f"named by the bank, same sum: {sides}",
        "counterparty": "same amount, counterparty or memo",
        "amount": "same amount",
        "counterparty_sum": f"same sum, counterparty or memo: {sides}",
        "total_of_day": f"the total of a day: {sides}",
        "run_of_day": f"same sum, one after the other on one day: {sides}",
        "sum_of_day": f"same sum, of one day: {sides}",
        "sum": f"same sum: {sides}",
        "many": f"same sum: {sides}",
        "fee": f"same sum less a known fee: {sides}",
        "other_amount": "named by the bank, but another amount",
    }[how]
    if charges:
        said += f"; the bank kept {plain_text(charges)}"
    elif more:
        said += f"; the bank has {plain_text(more.copy_abs())} {'more' if more > 0 else 'less'}"
    if not booked or not others:
        return said
    late = max(i.first for i in booked) - max(i.last for i in others)
    when = "the same day" if not late else f"{abs(late)} day{'s' * (abs(late) > 1)}"
    return f"{said}; booked {when}" + ("" if not late else " later" if late > 0 else " earlier")


# ------------------------------------------------------------------------------ sums and covers


def _sums(
    total: Decimal, pool: Sequence[_Item], unit: Decimal, most: int
) -> tuple[list[tuple[tuple[int, ...], float]], bool]:
    """The items of ``pool``, two or more, that sum to ``total``, each with how many such sums
    chance would make; and whether all were tried."""
    target = abs(int(total / unit))
    fits = [item for item in pool if abs(item.gross) < abs(total)]
    amounts = [abs(int(item.gross / unit)) for item in fits]
    if len(fits) < 2 or sum(amounts) < target:
        return [], True
    numbers = [item.number for item in fits]
    if sum(amounts) == target:
        return [(tuple(numbers), _chance(1, target, amounts))], True
    if len(fits) > most:
        return [], False
    sums = [(0, 0)]
    for place, amount in enumerate(amounts):
        sums += [(s + amount, mask | 1 << place) for s, mask in sums if s + amount <= target]
    found = []
    for hit in (mask for s, mask in sums if s == target):
        chosen = [place for place in range(len(fits)) if hit >> place & 1]
        step = gcd(*(amounts[place] for place in chosen))
        # Those of other amounts cannot make a round sum.
        odd = sum(1 << place for place, amount in enumerate(amounts) if amount % step)
        alike = sum(1 for s, mask in sums if s * 10 > target * 9 and not mask & odd)
        chance = _chance(2 * alike, target, [step])
        found.append((tuple(numbers[place] for place in chosen), chance))
    return found, True


def _count_alike(sums: Sequence[int], target: int) -> int:
    """How many of the sorted ``sums`` are within a tenth of ``target``."""
    low, high = sorted((target * 9 // 10, target * 11 // 10))
    return bisect_right(sums, high) - bisect_left(sums, low)


def _chance(alike: int, target: int, parts: Iterable[int]) -> float:
    """How many of ``alike`` sums within a tenth of ``target`` are it, if they are spread evenly
    over that fifth of it; sums of round amounts are round, and agree more often."""
    return alike * 5 * gcd(*parts) / abs(target)


def _place(number: int) -> tuple[bool, int]:
    """Entries first, each side in its order."""
    return number < 0, abs(number)


def _components(edges: Sequence[_Edge]) -> list[list[_Edge]]:
    """Groups that are connected by their members, in the order of the first of each."""
    parent: dict[int, int] = {}

    def root(number: int) -> int:
        while (above := parent.setdefault(number, number)) != number:
            parent[number] = parent[above]
            number = above
        return number

    for edge in edges:
        first, *others = edge
        for number in others:
            parent[root(number)] = root(first)
    found: dict[int, list[_Edge]] = defaultdict(list)
    for edge in edges:
        found[root(next(iter(edge)))].append(edge)
    return list(found.values())


def _only_cover(members: Collection[int], edges: Sequence[_Edge]) -> list[_Edge] | None:
    """The groups that leave no member over, if just one choice of them does."""
    if len(edges) == 1:
        return [*edges]
    of_member: Mapping[int, list[_Edge]] = {number: [] for number in members}
    for edge in edges:
        for number in edge:
            of_member[number].append(edge)
    answer: list[_Edge] | None = None
    steps = 0
    # Each state: what is still to be covered, and the groups chosen so far.
    states: list[tuple[frozenset[int], list[_Edge]]] = [(frozenset(members), [])]
    while states:
        left, chosen = states.pop()
        forced = True
        while left and forced:
            # A member that only one group can cover decides by itself.
            forced = False
            fewest: list[_Edge] | None = None
            for number in sorted(left):
                fits = [edge for edge in of_member[number] if edge <= left]
                steps += len(of_member[number])
                if len(fits) < 2:
                    fewest, forced = fits, True
                    break
                if fewest is None or len(fits) < len(fewest):
                    fewest = fits
            if steps > _MOST_STEPS * 10:
                return None
            if forced and fewest:
                left, chosen = left - fewest[0], [*chosen, fewest[0]]
            elif forced:
                break  # nothing covers it
            elif fewest is not None:
                states += [(left - edge, [*chosen, edge]) for edge in fewest]
        if not left:
            if answer is not None:
                return None
            answer = chosen
    return answer
