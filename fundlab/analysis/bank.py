"""Fiat transfers against a bank's statement: what is on both, and what only on one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.causes import plain, units
from fundlab.analysis.engines import (
    MONEY,
    MONEY_TYPE,
    TEXT,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
    wanted,
)
from fundlab.analysis.periods import DAY
from fundlab.analysis.statement_files import read_statement
from fundlab.errors import AnalysisError
from fundlab.models import TransferType

_TEXT: Final = pa.string()
_RESULT: Final = columns(
    status=_TEXT,
    transfer_id=_TEXT,
    entry=pa.int32(),
    asset=_TEXT,
    amount=MONEY_TYPE,
    bank_amount=MONEY_TYPE,
    created_at=TIME_TYPE,
    booked_on=pa.date32(),
    bank_ref=_TEXT,
    memo=_TEXT,
    detail=_TEXT,
)
_FIAT: Final = tuple(
    kind.value
    for kind in TransferType
    if kind.value.endswith(("_DEPOSIT", "_WITHDRAWAL")) and not kind.value.startswith("CRYPTO_")
)
_SHORTEST_NAME: Final = 6
_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")


@dataclass(frozen=True, slots=True)
class _Moved:
    """A transfer as its bank would see it: signed, in its own asset, without our fee."""

    id: str
    asset: str
    amount: Decimal
    created: int
    settled: int
    names: tuple[str, ...]

    @property
    def days(self) -> tuple[int, int]:
        return self.created // DAY, max(self.created, self.settled) // DAY


@dataclass(frozen=True, slots=True)
class _Entry:
    entry: int
    asset: str | None
    amount: Decimal
    day: int
    words: str


def bank(
    transfers: FrameT,
    statement: str | Path,
    format: str | None = None,
    window: int = 3,
    asset: str = "USD",
) -> FrameT:
    """Completed fiat deposits and withdrawals against the statement file of a bank account:
    ``status``, ``transfer_id``, ``entry`` (int32, from 1), ``asset``, ``amount`` and
    ``bank_amount`` (decimals; what came into the account is positive), ``created_at``,
    ``booked_on`` (a day), ``bank_ref``, ``memo``, ``detail``; in that order of status, then time.

    ``statement`` is CSV, MT940, camt.053 or OFX (``format`` says which where its look does not);
    ``asset`` is that of entries which name no currency. Each entry is matched at most once:

    ``exact``: same amount, and the bank's reference or memo holds the transfer's id, ``ref_id`` or
    ``memo``. ``window``: same amount, booked from the day it was made to ``window`` days after it
    was settled; the nearest day first. ``memo``: named in the memo, but another amount or day.
    What is left is ``only_transfers`` or ``only_bank``. ``amount`` is the transfer's ``amount``:
    the fee does not pass through the bank. Days are UTC.

    Raises :class:`AnalysisError` for rows nobody can count, duplicate ids, and a file that cannot
    be read exactly. Interface §2.4.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 0:
        raise AnalysisError(f"window={window!r}: give a whole number of days, 0 or more")
    file = read_statement(statement, format)
    with Workbench(transfers) as bench:
        moved = _moved(bench, transfers)
        entries = [_entry(row, asset) for row in file.to_pylist()]
        pairs = _match(moved, entries, window)
        result: FrameT = bench.give_table(_table(moved, file, pairs, asset))
        return result


def _moved(bench: Workbench, transfers: object) -> list[_Moved]:
    want = wanted(
        "transfers",
        dict.fromkeys(("ref_id", "memo", "fiat_account_id"), TEXT),
        **dict.fromkeys(("id", "asset", "direction", "type", "status"), TEXT),
        amount=MONEY,
        created_at=TIME,
        updated_at=TIME,
    )
    needed = ("id", "asset", "amount", "created_at", "updated_at")
    done = counted.completed(bench, bench.take(transfers, want), *needed)
    rows = bench.collect(done.filter(nw.col("type").is_in(_FIAT)).sort("created_at", "id"))
    _refuse_twins(want, rows.column("id").to_pylist())
    return [
        _Moved(
            row["id"],
            row["asset"],
            row["amount"] if row["direction"] == "CREDIT" else row["amount"].copy_negate(),
            row["created_at"],
            row["updated_at"],
            tuple(_plain(row[name]) for name in ("id", "ref_id", "memo") if row[name]),
        )
        for row in rows.to_pylist()
    ]


def _refuse_twins(want: Wanted, ids: Sequence[str]) -> None:
    twins = sorted(name for name, rows in Counter(ids).items() if rows > 1)
    if twins:
        shown = ", ".join(twins[: counted.SHOWN_ROWS])
        raise AnalysisError(f"{want.frame}: more than one row of id {shown}; see checks.invariants")


def _entry(row: dict[str, Any], asset: str) -> _Entry:
    day = (row["booked_on"] - date(1970, 1, 1)).days
    words = _plain(f"{row['bank_ref'] or ''} {row['memo'] or ''}")
    return _Entry(row["entry"], row["asset"] or asset, row["amount"], day, words)


def _plain(text: str) -> str:
    """Letters and digits only: banks drop dashes, cut lines and change case."""
    return _NOT_WORD.sub("", text.lower())


# --------------------------------------------------------------------------------- matching

_Pairs = dict[str, tuple[_Entry, str, str]]


def _match(moved: Sequence[_Moved], entries: Sequence[_Entry], window: int) -> _Pairs:
    """For each matched transfer its entry, the status and a word on it."""
    pairs: _Pairs = {}
    taken: set[int] = set()

    def pair(status: str, fits: Callable[[_Moved, _Entry], str | None]) -> None:
        left = [entry for entry in entries if entry.entry not in taken]
        found = [
            (_distance(one, entry), place, entry.entry, one, entry, detail)
            for place, one in enumerate(moved)
            if one.id not in pairs
            for entry in _candidates(status, one, by_amount, left)
            if entry.entry not in taken and (detail := fits(one, entry)) is not None
        ]
        for *_, one, entry, detail in sorted(found, key=lambda entry: entry[:3]):
            if one.id not in pairs and entry.entry not in taken:
                pairs[one.id] = (entry, status, detail)
                taken.add(entry.entry)

    by_amount: dict[tuple[str | None, Decimal], list[_Entry]] = defaultdict(list)
    for entry in entries:
        by_amount[entry.asset, entry.amount].append(entry)
    pair("exact", lambda one, entry: "named by the bank" if _named(one, entry) else None)
    pair(
        "window", lambda one, entry: _days_apart(one, entry) if _near(one, entry, window) else None
    )
    pair("memo", lambda one, entry: _differs(one, entry) if _named(one, entry) else None)
    return pairs


def _candidates(
    status: str,
    one: _Moved,
    by_amount: dict[tuple[str | None, Decimal], list[_Entry]],
    entries: Iterable[_Entry],
) -> Iterable[_Entry]:
    return entries if status == "memo" else by_amount.get((one.asset, one.amount), ())


def _named(one: _Moved, entry: _Entry) -> bool:
    return any(len(name) >= _SHORTEST_NAME and name in entry.words for name in one.names)


def _near(one: _Moved, entry: _Entry, window: int) -> bool:
    first, last = one.days
    return first <= entry.day <= last + window


def _distance(one: _Moved, entry: _Entry) -> int:
    first, last = one.days
    return max(first - entry.day, entry.day - last, 0)


def _days_apart(one: _Moved, entry: _Entry) -> str:
    days = _distance(one, entry)
    return "booked the same day" if not days else f"booked {days} days off"


def _differs(one: _Moved, entry: _Entry) -> str:
    if one.asset != entry.asset:
        return f"the bank has {entry.asset} instead of {one.asset}"
    if one.amount != entry.amount:
        theirs, ours = plain(units(entry.amount)), plain(units(one.amount))
        return f"the bank has {theirs} instead of {ours}"
    return _days_apart(one, entry)


def _table(moved: Sequence[_Moved], file: pa.Table, pairs: _Pairs, asset: str) -> pa.Table:
    bank_rows = {row["entry"]: row for row in file.to_pylist()}
    lines = []
    for one in moved:
        entry, status, detail = pairs.get(one.id, (None, "only_transfers", "not on the statement"))
        row = {} if entry is None else bank_rows.pop(entry.entry)
        ours = {
            "transfer_id": one.id, "asset": one.asset, "amount": one.amount,
            "created_at": one.created,
        }  # fmt: skip
        lines.append({**_theirs(row), **ours, "status": status, "detail": detail})
    for row in bank_rows.values():
        detail = "no such transfer"
        named = {"asset": row["asset"] or asset, "status": "only_bank", "detail": detail}
        lines.append({**_theirs(row), **named})
    ranks = ("exact", "window", "memo", "only_transfers", "only_bank")
    lines.sort(key=lambda line: ranks.index(line["status"]))
    arrays = [pa.array([line.get(field.name) for line in lines], field.type) for field in _RESULT]
    return pa.Table.from_arrays(arrays, schema=_RESULT)


def _theirs(row: dict[str, Any]) -> dict[str, Any]:
    names = ("entry", "booked_on", "bank_ref", "memo")
    return {**{name: row[name] for name in names if row}, "bank_amount": row.get("amount")}
