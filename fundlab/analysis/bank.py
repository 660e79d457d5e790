"""Fiat transfers against a bank's statement: what is on both, and what only on one."""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final, Literal, get_args

import narwhals as nw
import pyarrow as pa

from fundlab.analysis.counting import choice, completed, refuse_repeated
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
)
from fundlab.analysis.periods import DAY
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, OtherSideWarning
from fundlab.base.values import plain_text
from fundlab.models import TransferType

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
    dict.fromkeys(("balance_asset", "ref_id", "memo", "fiat_account_id"), TEXT),
)
_RESULT: Final = columns(
    ("status transfer_id", TEXT_TYPE),
    ("entry", pa.int32()),
    ("asset", TEXT_TYPE),
    ("amount bank_amount", AMOUNT_TYPE),
    ("created_at", TIME_TYPE),
    ("booked_on", pa.date32()),
    ("bank_ref memo detail", TEXT_TYPE),
)
FIAT: Final = tuple(
    kind.value
    for kind in TransferType
    if kind.value.endswith(("_DEPOSIT", "_WITHDRAWAL")) and not kind.value.startswith("CRYPTO_")
)
SHORTEST_NAME: Final = 6
_WORD: Final = re.compile(r"[0-9a-z]+")
_Sum = tuple[str, Decimal]
EARLY: Final = 1
"""How many days before it was made a transfer may be booked: west of Greenwich days end later."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """A transfer as the bank would see it: signed, in its own asset, without our fee."""

    id: str
    asset: str
    amount: Decimal
    created: int
    settled: int
    ids: tuple[str, ...]
    memo: str

    @property
    def sum(self) -> _Sum:
        return self.asset, self.amount

    @property
    def days(self) -> tuple[int, int]:
        return self.created // DAY, max(self.created, self.settled) // DAY


@dataclass(frozen=True, slots=True)
class _Entry:
    entry: int
    asset: str
    amount: Decimal
    day: int
    words: tuple[str, ...]

    @property
    def sum(self) -> _Sum:
        return self.asset, self.amount


def bank(
    transfers: FrameT,
    statement: str | Path,
    format: str | None = None,
    window: int = 3,
    asset: str = "USD",
    side: Side = "service",
) -> FrameT:
    """Completed fiat deposits and withdrawals against the statement file of a bank account:
    ``status``, ``transfer_id``, ``entry`` (int32, from 1), ``asset``, ``amount`` and
    ``bank_amount`` (decimals; what came into the account is positive), ``created_at``,
    ``booked_on`` (a day), ``bank_ref``, ``memo``, ``detail``; in that order of status, then time.

    ``statement`` is CSV, MT940, camt.053 or OFX (``format`` says which where its look does not);
    ``asset`` is that of entries which name no currency. ``side`` says whose account it is of: the
    ``service``'s, which a deposit enters, or ``ours`` at our own bank, which a deposit to the
    service leaves (-1000) and a withdrawal enters. Where more entries would match on the other side
    an ``OtherSideWarning`` says so. Each entry is matched at most once:

    ``exact``: same amount, and the bank's reference or memo holds the transfer's id or ``ref_id``,
    as whole words; the longest name first. ``window``: same amount, booked from the day it was made
    to ``window`` days after it was settled: those whose ``memo`` the bank repeats, then as many as
    can be, whose window ends first coming first; then those booked the day before, where the bank's
    day ends later than ours. ``memo``: another amount, but money the same way, and either named by
    id or ``ref_id``, or within the window with the transfer's ``memo``. What is left is
    ``only_transfers`` or ``only_bank``. ``amount`` is the transfer's ``amount``: the fee does not
    pass through the bank. Days are UTC. The entries of a file count as those of one account.

    Raises :class:`AnalysisError` for rows nobody can count, duplicate ids, and a file that cannot
    be read exactly. Interface §2.4.

    >>> statement = folder / "october.csv"
    >>> lines = {"date": ["2026-10-01", "2026-10-05"], "amount": ["1000.00", "-12.00"]}
    >>> pd.DataFrame(lines).to_csv(statement, index=False)
    >>> found = fl.reconcile.bank(transfers, statement)
    >>> found[["status", "transfer_id", "amount", "bank_amount"]]
               status transfer_id  amount  bank_amount
    0          window          t1    1000         1000
    1  only_transfers          t2    -200         <NA>
    2       only_bank        <NA>    <NA>          -12
    >>> own_account = folder / "own.csv"
    >>> lines = {"date": ["2026-10-01", "2026-10-02"], "amount": ["-1000.00", "200.00"]}
    >>> pd.DataFrame(lines).to_csv(own_account, index=False)
    >>> found = fl.reconcile.bank(transfers, own_account, side="ours")
    >>> found[["status", "transfer_id", "amount", "bank_amount"]]
       status transfer_id  amount  bank_amount
    0  window          t1   -1000        -1000
    1  window          t2     200          200
    """
    choice("side", side, get_args(Side))
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise AnalysisError(f"window={window!r}: give a whole number of days, 0 or more")
    from fundlab.bank.statements import read_statement  # the room of the bank rests on this one

    file = read_statement(statement, format)
    entries = [
        _Entry(
            row["entry"],
            row["asset"] or asset,
            row["amount"],
            (row["booked_on"] - date(1970, 1, 1)).days,
            words(f"{row['bank_ref'] or ''} {row['memo'] or ''}"),
        )
        for row in file.to_pylist()
    ]
    with Workbench(transfers) as bench:
        needed = ("id", "asset", "amount", "created_at", "updated_at")
        done = completed(bench, transfers, _WANTED, *needed).filter(nw.col("type").is_in(FIAT))
        refuse_repeated(bench, done, "transfers", "id")
        enters = "CREDIT" if side == "service" else "DEBIT"
        moved = [
            _Moved(
                row["id"],
                row["asset"],
                row["amount"] if row["direction"] == enters else row["amount"].copy_negate(),
                row["created_at"],
                row["updated_at"],
                tuple("".join(words(row[name])) for name in ("id", "ref_id") if row[name]),
                "".join(words(row["memo"] or "")),
            )
            for row in bench.collect(done.sort("created_at", "id")).to_pylist()
        ]
        pairs = _match(moved, entries, window)
        # Perhaps a statement of the other side's account. That an amount goes the other way is no
        # proof of it, as with a payment that came back.
        if 2 * pairs.equal < len(entries):
            turned = [replace(one, amount=one.amount.copy_negate()) for one in moved]
            others = _match(turned, entries, window).equal
            if others > pairs.equal:
                account = "our own bank account" if side == "service" else "the service's account"
                other = "ours" if side == "service" else "service"
                warnings.warn(
                    f"{pairs.equal} of {len(entries)} entries match with side={side!r}, {others} "
                    f"would with side={other!r}: is this a statement of {account}?",
                    OtherSideWarning,
                    stacklevel=2,
                )
        return bench.give(_result(moved, file, pairs, asset), _RESULT)


def words(text: str) -> tuple[str, ...]:
    """Letters and digits only: banks drop dashes, cut lines and change case."""
    return tuple(_WORD.findall(text.lower()))


def runs(parts: Sequence[str], longest: int) -> frozenset[str]:
    """The words ``parts``, and neighbouring ones put together to at most ``longest`` characters:
    banks cut names into several."""
    found = set()
    for first in range(len(parts)):
        run = ""
        for word in parts[first:]:
            run += word
            if len(run) > longest:
                break
            found.add(run)
    return frozenset(found)


# --------------------------------------------------------------------------------- matching


@dataclass(frozen=True, slots=True)
class _Mention:
    """A name of a transfer in an entry: its id or ``ref_id``, or only its memo."""

    one: _Moved
    entry: _Entry
    by_id: bool
    length: int

    @property
    def order(self) -> tuple[bool, int, int, int, str, int]:
        """Ids before memos, long names before short ones, then the nearest."""
        one, entry = self.one, self.entry
        distance = _distance(one, entry)
        return not self.by_id, -self.length, distance, one.created, one.id, entry.entry


class _Pairs(dict[str, tuple[_Entry, str, str]]):
    """For each matched transfer its entry, the status and a word on it; each entry once."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[int] = set()

    @property
    def equal(self) -> int:
        """How many agree in their amount."""
        return sum(status != "memo" for _, status, _ in self.values())

    def is_free(self, one: _Moved, entry: _Entry) -> bool:
        return one.id not in self and entry.entry not in self.taken

    def add(self, one: _Moved, entry: _Entry, status: str, detail: str) -> None:
        if self.is_free(one, entry):
            self[one.id] = (entry, status, detail)
            self.taken.add(entry.entry)


def _match(moved: Sequence[_Moved], entries: Sequence[_Entry], window: int) -> _Pairs:
    pairs = _Pairs()

    def near(one: _Moved, entry: _Entry) -> bool:
        first, last = one.days
        return first - EARLY <= entry.day <= last + window

    for mention in _mentions(moved, entries, equal=True, keep=lambda _, __, by_id: by_id):
        pairs.add(mention.one, mention.entry, "exact", "named by the bank")
    for mention in _mentions(
        moved, entries, equal=True, keep=lambda one, entry, _: near(one, entry)
    ):
        days = _days_apart(mention.one, mention.entry)
        pairs.add(mention.one, mention.entry, "window", f"{days}, with its memo")
    for early in (0, EARLY):
        # As many pairs of an equal amount as the dates allow: each entry, by day, goes to the
        # transfer whose window ends first.
        waiting: dict[_Sum, list[_Moved]] = defaultdict(list)
        for one in sorted(moved, key=lambda one: one.days[0], reverse=True):
            if one.id not in pairs:
                waiting[one.sum].append(one)
        made: dict[_Sum, list[tuple[int, int, str, _Moved]]] = defaultdict(list)
        for entry in sorted(entries, key=lambda entry: (entry.day, entry.entry)):
            later, due = waiting[entry.sum], made[entry.sum]
            while later and later[-1].days[0] - early <= entry.day:
                one = later.pop()
                heappush(due, (one.days[1], one.created, one.id, one))
            while due and due[0][0] + window < entry.day:
                heappop(due)
            if due and pairs.is_free(due[0][-1], entry):
                one = heappop(due)[-1]
                pairs.add(one, entry, "window", _days_apart(one, entry))
    left = [one for one in moved if one.id not in pairs]
    free = [entry for entry in entries if entry.entry not in pairs.taken]
    for mention in _mentions(
        left,
        free,
        equal=False,
        keep=lambda one, entry, by_id: (
            (one.amount < 0) == (entry.amount < 0) and (by_id or near(one, entry))
        ),
    ):
        one, entry = mention.one, mention.entry
        detail = _days_apart(one, entry)
        if one.asset != entry.asset:
            detail = f"the bank has {entry.asset} instead of {one.asset}"
        elif one.amount != entry.amount:
            theirs, ours = plain_text(entry.amount), plain_text(one.amount)
            detail = f"the bank has {theirs} instead of {ours}"
        pairs.add(one, entry, "memo", detail)
    return pairs


def _mentions(
    moved: Iterable[_Moved],
    entries: Iterable[_Entry],
    *,
    equal: bool,
    keep: Callable[[_Moved, _Entry, bool], bool],
) -> list[_Mention]:
    """The names that stand in entries, whole words only, in their order; banks may cut a name into
    several words. ``equal``: only where entry and transfer agree on asset and amount."""
    known: dict[str, dict[_Sum, list[tuple[_Moved, bool]]]] = defaultdict(lambda: defaultdict(list))
    for one in moved:
        for name in one.ids:
            known[name][one.sum].append((one, True))
        if one.memo not in one.ids:
            known[one.memo][one.sum].append((one, False))
    names = {name: sums for name, sums in known.items() if len(name) >= SHORTEST_NAME}
    longest = max(map(len, names), default=0)
    found = []
    for entry in entries:
        found += [
            _Mention(one, entry, by_id, len(name))
            for name in runs(entry.words, longest) & names.keys()
            for same in ([names[name].get(entry.sum, [])] if equal else names[name].values())
            for one, by_id in same
            if keep(one, entry, by_id)
        ]
    return sorted(found, key=lambda mention: mention.order)


def _distance(one: _Moved, entry: _Entry) -> int:
    first, last = one.days
    return max(first - entry.day, entry.day - last, 0)


def _days_apart(one: _Moved, entry: _Entry) -> str:
    days = _distance(one, entry)
    return "booked the same day" if not days else f"booked {days} day{'s' * (days > 1)} off"


def _result(moved: Sequence[_Moved], file: pa.Table, pairs: _Pairs, asset: str) -> pa.Table:
    bank_rows = {row["entry"]: row for row in file.to_pylist()}
    lines: list[dict[str, Any]] = []
    for one in moved:
        entry, status, detail = pairs.get(one.id, (None, "only_transfers", "not on the statement"))
        theirs = {} if entry is None else bank_rows.pop(entry.entry)
        ours = {"transfer_id": one.id, "created_at": one.created, "asset": one.asset}
        amounts = {"amount": one.amount, "bank_amount": theirs.get("amount")}
        lines.append({**theirs, **ours, **amounts, "status": status, "detail": detail})
    for row in bank_rows.values():
        amounts = {"amount": None, "bank_amount": row["amount"]}
        said = {"status": "only_bank", "detail": "no such transfer"}
        lines.append({**row, **amounts, **said, "asset": row["asset"] or asset})
    ranks = ("exact", "window", "memo", "only_transfers", "only_bank")
    lines.sort(key=lambda line: ranks.index(line["status"]))
    arrays = [pa.array([line.get(field.name) for line in lines], field.type) for field in _RESULT]
    return pa.Table.from_arrays(arrays, schema=_RESULT)
