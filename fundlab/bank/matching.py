"""Which transfers a bank's entries book: one for one, or several by their exact sum.

Evidence goes from strong to weak, step by step: what a person accepted, references, amounts with a
counterparty, amounts alone, sums. A step collects every group that is possible among what is still
open. Items that possible groups connect are judged together: one choice of groups that leaves none
of them over is the answer, and where several choices do, all of them are one block. Items of one
amount that nothing tells apart are a block as well, as many of each side as can be paired; how many
are left over is known, and which is not said. Anything else has several answers: it is listed with
its candidates and left alone by all later steps. Nothing is ever chosen by order.

A sum may agree by coincidence where there are many items. So of each answer that rests on a sum is
reckoned how many such there would be by chance in the step; it counts only where that is next to
none, and is listed as a question otherwise.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from math import gcd
from typing import Any, Final, Literal, get_args

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.counting import choice, completed, refuse_repeated
from fundlab.analysis.engines import MONEY, TEXT, TIME, Wanted, Workbench
from fundlab.bank.decisions import decisions_of
from fundlab.bank.model import FIAT, Rule, check_window, given_amount, words
from fundlab.bank.search import EARLY, Group, Item, Search, place_of
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, OtherSideWarning, number_of
from fundlab.base.periods import DAY
from fundlab.base.values import in_units, of_units, plain_text
from fundlab.tables.frames import to_frame

Side = Literal["ours", "service"]
"""Whose bank account a statement is of."""
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
_SHORTEST_NAME: Final = 6
_SHORTEST_COUNTERPARTY: Final = 3
_MOST_LISTED: Final = 20
_AT_ONCE: Final = 5_000
"""Rows that are Python objects at a time."""
_LONGEST_RUN_OF_DAY: Final = 30
_LONGEST_RUN: Final = 64
_LUMPED_BY: Final = ("type", "fiat_account_id", "profile_id", "counterparty")
_EPOCH: Final = date(1970, 1, 1)
_TEXT: Final = pa.string()
_GROUPS: Final = pa.schema(
    [("group", pa.int64()), ("how", _TEXT), ("block", pa.bool_()), ("entries", pa.int64()),
     ("transfers", pa.int64()), ("open_entries", pa.int64()), ("open_transfers", pa.int64()),
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
_OPEN: Final = pa.schema([*_ITEM, ("why", _TEXT), ("undecided", pa.bool_()), ("group", pa.int64())])
HOW: Final = (
    "accepted", "reference", "references", "counterparty", "counterparty_sum", "amount",
    "total_of_day", "run_of_day", "sum_of_day", "sum", "many", "fee", "rule", "tolerance",
    "other_amount",
)  # fmt: skip
"""Why a group matched, from strong to weak; ``other_amount`` agrees in its reference only."""


@dataclass(frozen=True)
class Matching:
    """Entries and transfers in groups of equal sums, and what is left.

    ``groups``: ``group`` (from 1), ``how`` (one of ``HOW``), ``block`` (bool: all of its items
    belong together, and nothing tells which with which), ``entries`` and ``transfers`` (counts),
    ``open_entries`` and ``open_transfers`` (how many of them a block leaves open), ``asset``,
    ``bank_amount`` and ``amount`` (decimals, sums of both sides; what enters the account is
    positive), ``charges`` (what the bank kept back), ``difference`` (bank amount and charges less
    amount; 0 but for ``accepted``, ``tolerance``, ``other_amount`` and what a block leaves open),
    ``detail`` (in words).
    ``members``: ``group``, ``side`` (``bank`` or ``service``), ``item_id`` (``entry_id`` or
    transfer id), ``asset``, ``amount``, ``on`` (the day it was booked, or settled). ``candidates``:
    what has several answers: ``question``, ``candidate`` (each a possible group, at most 20
    listed), ``how`` and the columns of an item. ``open``: what has no counterpart: the columns of
    an item, ``why``, ``undecided`` (bool: it has several answers) and ``group``: that of the block
    of which it is one, and then without ``item_id``, because nothing tells which.
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
    decisions: pd.DataFrame | None = None,
    rules: Sequence[Rule] = (),
) -> Matching:
    """Completed fiat deposits and withdrawals against the ``entries`` of ``fl.bank.read``: see
    :class:`Matching`.

    ``transfers`` may have a column ``counterparty``, and ``settled_at`` (else ``updated_at``
    counts) beside those of the interface. ``side`` says whose account it is: the ``service``'s,
    which a deposit enters, or ``ours``. ``asset`` is that of entries without one. An entry may be
    booked or valued from the day a transfer was made to ``window`` days after it settled, and once
    all steps are done from the day before; one that names another transfer or counterparty is not
    of a transfer that it does not name. The steps, in this order, of which each looks at what those
    before it have left, so that a run of a day that sums is no question beside other sums of it:

    ``accepted``: what somebody decided to be together, by ``decisions`` as ``store.annotations()``
    gives them (see :func:`fundlab.bank.accept`), whatever their amounts. ``reference``: same
    amount, and the entry names the transfer by id or ``ref_id``, as whole words; any day.
    ``references``: entries and transfers
    that name each other so, of equal sums. ``counterparty``: same amount, within the window, and
    the entry names the counterparty or repeats the memo; where both sides belong to such sums as
    come next, too, they are judged together. ``counterparty_sum``: the sum of several
    of those that it names, or of several entries that name the one. ``amount``: same amount within
    the window. Then sums, within the window and of one direction, of one entry for several
    transfers or one transfer for several entries: ``total_of_day``, of all of a day, or of its
    type, account, profile or counterparty; ``run_of_day``, of some that settled one after the
    other; ``sum_of_day``, of any of a day; ``sum``, of any. ``many``: several for several, all of
    one counterparty. ``fee``: as the first steps, less one of the ``fees``
    that the bank is known to keep back. ``rule``: same amount, by one
    of ``rules`` (of a bank's profile: ``statements.rules``); ``tolerance``: within its amount,
    where only one pair is. ``other_amount``: named by reference, the same way, within 1%. An amount
    also agrees where the entry's own ``charges`` make it up; where both do, of two transfers, or
    what is left over would be of one amount or another, it is asked.

    No step takes together what was decided to be apart. Of up to 10
    possible members every sum is tried; of more only all of them: a sum of any of many proves
    nothing. Among more than 20 items altogether a sum that chance could have made is a candidate
    only, too. Where fewer than half of the entries match and more would on the other side, an
    ``OtherSideWarning`` says so. Raises
    :class:`AnalysisError` for invalid rows.

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
    given = [given_amount("fees", fee) for fee in fees]
    ours, by_id = _transfers(transfers, side, rules)
    theirs = _entries(entries, asset, by_id, {name for item in ours for name in item.names}, rules)
    del by_id  # as large as the transfers themselves
    # Amounts are counted in the greatest unit that all are multiples of: a cent, most often.
    every = [*ours, *theirs]
    less_by, within = [in_units(fee) for fee in given], [in_units(rule.amount) for rule in rules]
    known = (*less_by, *within)
    unit = gcd(*(i.amount for i in every), *(i.charges for i in theirs), *known) or 1
    for item in every:
        item.amount //= unit
        item.charges //= unit
    less_by = [fee // unit for fee in less_by]
    steps = [(rule.days, amount // unit) for rule, amount in zip(rules, within, strict=True)]
    search = Search(theirs, ours, window)
    decided = decisions_of(
        decisions, {item.id for item in theirs}, {item.id for item in ours}
    )  # fmt: skip
    numbers = [{item.id: item.number for item in items} for items in (theirs, ours)]
    search.take_by_hand(
        *({(numbers[0][entry], numbers[1][transfer]) for entry, transfer in pairs}
          for pairs in (decided.together, decided.apart))
    )  # fmt: skip
    _take_steps(search, less_by, steps)
    matched = search.matched_entries
    if 2 * matched < len(theirs):
        # That an amount goes the other way is no proof of the other side's account, as with a
        # payment that came back; that more of them do is a reason to ask.
        for item in ours:
            item.amount, item.kind = -item.amount, (item.asset, not item.kind[1])
        turned = Search(theirs, ours, window)
        _take_steps(turned, less_by, steps)
        if turned.matched_entries > matched:
            account = "our own bank account" if side == "service" else "the service's account"
            other = "ours" if side == "service" else "service"
            warnings.warn(
                f"{matched} of {len(theirs)} entries match with side={side!r}, "
                f"{turned.matched_entries} would with side={other!r}: is this a statement of "
                f"{account}?",
                OtherSideWarning,
                stacklevel=2,
            )
        for item in ours:
            item.amount = -item.amount
    return _result(search, unit)


def _take_steps(search: Search, less_by: Iterable[int], rules: Iterable[tuple[int, int]]) -> None:
    search.step("reference", search.by_reference())
    search.step("references", search.by_references())
    for search.early in (0, EARLY):
        search.step("counterparty", search.by_counterparty())
        search.step("counterparty_sum", search.by_sum(search.named_pools))
        search.pair_amounts("amount")
        search.step("total_of_day", search.by_total())
        search.step("run_of_day", search.by_total(_LONGEST_RUN_OF_DAY))
        search.step("sum_of_day", search.by_sum(search.day_pools))
        search.step("sum", search.by_sum(search.window_pools))
        search.step("many", search.by_many())
    for less in less_by:
        search.step("fee", search.by_reference(less), less)
        search.step("fee", search.by_name(less), less)
        search.pair_amounts("fee", less)
        search.step("fee", search.by_sum(search.named_pools, less), less)
    for number, (days, within) in enumerate(rules):
        search.step("rule", search.by_rule(number, days, 0))
        search.step("tolerance", search.by_rule(number, days, within))
    search.step("other_amount", search.by_reference(None))
    search.ask_what_is_in_doubt()
    search.ask_of_two_amounts()


# -------------------------------------------------------------------------------- what comes in


def _transfers(
    transfers: object, side: Side, rules: Sequence[Rule]
) -> tuple[list[Item], dict[str, list[Item]]]:
    """In the order in which they settled; and those of each id and ``ref_id``."""
    with Workbench(transfers) as bench:
        needed = ("id", "asset", "amount", "created_at", "updated_at")
        done = completed(bench, transfers, _WANTED, *needed)
        done = done.filter(nw.col("type").is_in(FIAT))
        refuse_repeated(bench, done, "transfers", "id")
        done = done.with_columns(settled_at=nw.coalesce("settled_at", "updated_at"))
        rows = bench.collect(done.sort("settled_at", "id"))
    enters = "CREDIT" if side == "service" else "DEBIT"
    items: list[Item] = []
    by_id: dict[str, list[Item]] = defaultdict(list)
    shared: dict[Any, Any] = {}  # of what many rows repeat, one object
    for number, row in enumerate(_rows(rows), start=1):
        made = row["created_at"] // DAY
        names = [("".join(words(row[name] or "")), least) for name, least in (
            ("counterparty", _SHORTEST_COUNTERPARTY), ("memo", _SHORTEST_NAME))]  # fmt: skip
        said = tuple(name for name, least in names if len(name) >= least)
        keys = tuple((name, row[name]) for name in _LUMPED_BY if row[name])
        amount = in_units(row["amount"]) * (1 if row["direction"] == enters else -1)
        kind = row["asset"], amount < 0
        item = Item(
            -number, row["id"], shared.setdefault(kind, kind), amount, made,
            max(made, row["settled_at"] // DAY), names=shared.setdefault(said, said),
            keys=shared.setdefault(keys, keys),
            rules=tuple(n for n, rule in enumerate(rules) if rule.type in ("", row["type"])),
        )  # fmt: skip
        if len(names[0][0]) >= _SHORTEST_COUNTERPARTY:
            item.party = item.names[0]
        items.append(item)
        for name in {"".join(words(row[name] or "")) for name in ("id", "ref_id")}:
            if len(name) >= _SHORTEST_NAME:
                by_id[name].append(item)
    return items, by_id


def _entries(
    entries: pd.DataFrame, asset: str, by_id: Mapping[str, list[Item]], names: set[str],
    rules: Sequence[Rule],
) -> list[Item]:  # fmt: skip
    """In their order; ``by_id`` and ``names`` are what they may say of transfers."""
    if not isinstance(entries, pd.DataFrame) or "booked_on" not in entries.columns:
        raise AnalysisError("entries: give the entries of fl.bank.read, with a column 'booked_on'")
    with Workbench(entries) as bench:
        taken = bench.take(entries, _ENTRIES)
        refuse_repeated(bench, taken, "entries", "entry_id")
        rows = bench.collect(taken.select(*_ENTRIES.columns, *_ENTRIES.optional))
    days: list[list[int | None]] = []
    for name in ("booked_on", "valued_on"):
        column = entries.get(name, pd.Series([None] * len(entries), dtype=object))
        known = {day: (pd.Timestamp(day).date() - _EPOCH).days for day in column.dropna().unique()}
        days.append([known.get(day) for day in column])
    says = ["".join(words(rule.says)) for rule in rules]
    items = []
    for number, (row, booked, valued) in enumerate(zip(_rows(rows), *days, strict=True)):
        if booked is None or row["amount"] is None or row["entry_id"] is None:
            missing = "booked_on" if booked is None else "amount or entry_id"
            raise AnalysisError(f"entries: {missing} is missing in row {number + 1}")
        said = " ".join(row[name] or "" for name in ("bank_ref", "own_ref", "counterparty", "memo"))
        found = _runs(words(said))
        both = booked, booked if valued is None else valued
        amount = in_units(row["amount"])
        named = (item for name in sorted(found & by_id.keys()) for item in by_id[name])
        items.append(
            Item(number, row["entry_id"], (row["asset"] or asset, amount < 0), amount, min(both),
                 max(both), in_units(row["charges"] or Decimal(0)), tuple(sorted(found & names)),
                 mentions=tuple(dict.fromkeys(named)),
                 rules=tuple(n for n, text in enumerate(says) if not text or text in found))
        )  # fmt: skip
    return items


def _runs(parts: Sequence[str]) -> frozenset[str]:
    """The words ``parts``, and neighbouring ones put together: banks cut names into several."""
    runs = set()
    for first in range(len(parts)):
        run = ""
        for word in parts[first:]:
            run += word
            if len(run) > _LONGEST_RUN:
                break
            runs.add(run)
    return frozenset(runs)


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=_AT_ONCE):
        yield from batch.to_pylist()


# --------------------------------------------------------------------------------- what comes out


def _result(search: Search, unit: int) -> Matching:
    def money(units: int) -> Decimal:
        return of_units(units * unit)

    def row(item: Item) -> dict[str, Any]:
        return {"side": "bank" if item.number >= 0 else "service", "item_id": item.id,
                "asset": item.asset, "amount": money(item.amount),
                "on": _EPOCH + timedelta(days=item.last)}  # fmt: skip

    def order(group: Group) -> tuple[Any, ...]:
        return min(search.items[n].first for n in group.members), sorted(map(abs, group.members))

    ordered = sorted(search.groups, key=order)
    items_of = [[search.items[n] for n in sorted(g.members, key=place_of)] for g in ordered]

    def groups() -> Iterator[dict[str, Any]]:
        for number, (group, items) in enumerate(zip(ordered, items_of, strict=True), start=1):
            booked = [item for item in items if item.number >= 0]
            paired = [item for item in items if item.number not in group.rest]
            missing = sum(item.amount * (-1 if item.number >= 0 else 1) for item in paired)
            declared = sum(item.charges for item in paired)
            charges = missing if group.block or missing in (declared, group.less) else 0
            bank = sum(item.amount for item in booked)
            ours = sum(item.amount for item in items if item.number < 0)
            yield {
                "group": number, "how": group.how, "block": group.block, "entries": len(booked),
                "transfers": len(items) - len(booked),
                "open_entries": sum(number >= 0 for number in group.rest),
                "open_transfers": sum(number < 0 for number in group.rest),
                "asset": items[0].asset, "bank_amount": money(bank), "amount": money(ours),
                "charges": money(charges), "difference": money(bank + charges - ours),
                "detail": _in_words(group, items, money(charges), money(-missing)),
            }  # fmt: skip

    def members() -> Iterator[dict[str, Any]]:
        for number, items in enumerate(items_of, start=1):
            yield from ({"group": number, **row(item)} for item in items)

    def candidates() -> Iterator[dict[str, Any]]:
        for question, (how, edges) in enumerate(search.questions, start=1):
            for rank, edge in enumerate(edges[:_MOST_LISTED], start=1):
                for number in sorted(edge, key=place_of):
                    named = {"question": question, "candidate": rank, "how": how}
                    yield {**named, **row(search.items[number])}

    def still_open() -> Iterator[dict[str, Any]]:
        in_blocks = {number for group in ordered for number in group.rest}
        for number in sorted((search.open | search.held.keys()) - in_blocks, key=place_of):
            why = search.held.get(number)
            if why is None and number in search.crowded:
                why = f"too many combinations of {search.crowded[number]} items"
            yield row(search.items[number]) | {
                "why": why or "no counterpart", "undecided": number in search.held, "group": None,
            }  # fmt: skip
        for number, group in enumerate(ordered, start=1):
            for rest in sorted(group.rest, key=place_of):
                alike, left = (
                    sum((n >= 0) == (rest >= 0) for n in numbers)
                    for numbers in (group.members, group.rest)
                )
                yield row(search.items[rest]) | {
                    "item_id": None, "undecided": False, "group": number,
                    "why": f"{left} of {alike} alike, and nothing tells which",
                }  # fmt: skip

    return Matching(
        _frame(groups(), _GROUPS), _frame(members(), _MEMBERS),
        _frame(candidates(), _CANDIDATES), _frame(still_open(), _OPEN),
    )  # fmt: skip


def _frame(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> pd.DataFrame:
    batches = []
    while some := [*islice(rows, _AT_ONCE)]:
        batches.append(pa.RecordBatch.from_pylist(some, schema=schema))
    return to_frame(pa.Table.from_batches(batches, schema=schema).combine_chunks())


def _in_words(group: Group, items: Sequence[Item], charges: Decimal, more: Decimal) -> str:
    booked = [item for item in items if item.number >= 0]
    others = [item for item in items if item.number < 0]
    sides = f"{number_of(len(booked), 'entry')} for {number_of(len(others), 'transfer')}"
    said = {
        "accepted": "accepted by hand",
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
        "rule": "same amount, by a rule of the profile",
        "tolerance": "within the tolerance of a rule of the profile",
        "other_amount": "named by the bank, but another amount",
    }[group.how]
    if charges:
        said += f"; the bank kept {plain_text(charges)}"
    elif more:
        said += f"; the bank has {plain_text(more.copy_abs())} {'more' if more > 0 else 'less'}"
    if group.block:
        left = f", {len(group.rest)} of them open" if group.rest else ""
        return f"{said}; {sides}{left}, and nothing tells which with which"
    late = max(i.first for i in booked) - max(i.last for i in others)
    if not late:
        return f"{said}; booked the same day"
    return f"{said}; booked {number_of(abs(late), 'day')} {'later' if late > 0 else 'earlier'}"
