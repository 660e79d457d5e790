"""The roll-forward of a period, line by line, and the bridge from one state of it to another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis.counting import KEYS, completed, moment_of, opening_balances, span_in
from fundlab.analysis.counting import transfer_columns as wanted
from fundlab.analysis.engines import MONEY, TEXT, TEXT_TYPE, FrameT, Workbench, columns
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import number_of
from fundlab.base.periods import Moment, period_bounds
from fundlab.decimals import DecimalDtype
from fundlab.evidence.closes import Close, booked_since, closes_of
from fundlab.evidence.vanished_rows import accepted_gone
from fundlab.evidence.verdict import OPENING, judge_accounts
from fundlab.models import COMPLETED
from fundlab.store.records import repair_that_lost
from fundlab.store.snapshot import steadily
from fundlab.tables import to_frame
from fundlab.tables.transfers import LINES, SETTLED_AT, ZERO, Basis, Rows, change, line, moved_asset

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

_ENTRY: Final = (*KEYS, "line", "type")
_ROLL: Final = columns((" ".join(_ENTRY), TEXT_TYPE), ("amount", AMOUNT_TYPE))
_SIDE: Final = columns((f"id {' '.join(_ENTRY)}", TEXT_TYPE), ("amount", AMOUNT_TYPE))
BRIDGE: Final = (*_ENTRY, "cause", "transfer_id", "then", "now", "difference")
CAUSES: Final = {
    "late": "arrived late",
    "back_dated": "back-dated",
    "status": "changed status",
    "amount": "changed amount",
    "row": "changed in other members",
    "disappeared": "disappeared",
    "opening": "opening taken over from the service",
    "lost": "not known: a repair found that the rows of then are lost",
}
"""Why a transfer's part of a line is another one than it was."""
_OTHERS: Final = {
    "opening": "an opening taken over from the service",
    "lost": "rows of then that a repair found lost",
}
"""By what a line has moved that names no transfer."""


def roll_forward(
    transfers: FrameT,
    period: str | tuple[Moment, Moment],
    opening: object = None,
    tz: str = "UTC",
    basis: Basis = "created",
) -> FrameT:
    """``profile_id``, ``asset``, ``line``, ``type``, ``amount`` (decimal, signed): from the opening
    of each balance that moved until the period's end, or was opened, to its closing.

    ``line`` is ``opening``, ``receipt`` and ``disbursement`` (each by ``type`` of transfer),
    ``conversion`` (what a rule turned into another asset, by type), ``internal`` (between
    profiles, by type), ``fee``, ``unexplained`` (where a total is not amount and fee) or
    ``closing``; the others add up to it. ``period``, ``opening`` and ``tz`` as in
    ``balances.statement``, ``basis`` as in ``balances.changes``. Raises :class:`AnalysisError` for
    missing columns and invalid rows.

    >>> fl.balances.roll_forward(transfers, "2026-10")[["profile_id", "line", "amount"]].head(6)
      profile_id          line  amount
    0       main       opening       0
    1       main       receipt    1000
    2       main  disbursement    -200
    3       main      internal     -60
    4       main           fee     -25
    5       main       closing     715
    """
    first, end = span_in(transfers, period, tz)
    with Workbench(transfers, moment_of(basis)) as bench:
        entries = _entries(bench, transfers, basis, first, end).drop("id")
        opened = opening_balances(bench, opening)
        opened = opened.select(
            *KEYS, line=nw.lit("opening"), type=nw.lit(""), amount=nw.col("opened")
        )
        moved = nw.concat([entries, opened]).group_by(*_ENTRY).agg(nw.col("amount").sum())
        moved = bench.constant(bench.collect(moved))  # else each use goes through all rows again
        # An opening of every balance, though it be nothing.
        nothing = moved.select(*KEYS, line=nw.lit("opening"), type=nw.lit(""), amount=ZERO)
        every = nw.concat([moved, nothing])
        sums = every.group_by(*_ENTRY).agg(nw.col("amount").sum())
        closing = moved.group_by(*KEYS).agg(nw.col("amount").sum())
        closing = closing.select(*KEYS, line=nw.lit("closing"), type=nw.lit(""), amount="amount")
        place = reduce(
            lambda rest, entry: (
                nw.when(nw.col("line") == entry[1]).then(nw.lit(entry[0])).otherwise(rest)
            ),
            enumerate(LINES),
            nw.lit(len(LINES)),
        )
        both = nw.concat([sums, closing]).with_columns(place=place)
        return bench.give(both.sort(*KEYS, "place", "type"), _ROLL)


def _entries(bench: Workbench[Any], transfers: object, basis: Basis, first: int, end: int) -> Rows:
    """``id``, ``profile_id``, ``asset``, ``line``, ``type``, ``amount``: what each completed
    transfer until ``end`` adds to which line; the ``type`` of lines that have none is empty."""
    by = moment_of(basis)
    want = wanted(by, type=TEXT, amount=MONEY, fee=MONEY)
    needed = ("id", "profile_id", "asset", "type", "amount", "fee", "total", by)
    rows = completed(bench, transfers, want, *needed).filter(nw.col(by) < end)
    rows = rows.with_columns(
        line=line(),
        asset=moved_asset(),
        signed=change("amount"),
        change=change(),
    )
    key, no_type = ("id", *KEYS, by), nw.lit("")
    rest = nw.col("change") - nw.col("signed") + nw.col("fee")
    entries = nw.concat(
        [
            rows.select(*key, "line", "type", amount="signed"),
            rows.filter(nw.col("fee") != 0).select(
                *key, line=nw.lit("fee"), type=no_type, amount=ZERO - nw.col("fee")
            ),
            rows.filter(rest != 0).select(
                *key, line=nw.lit("unexplained"), type=no_type, amount=rest
            ),
        ]
    )
    before = nw.col(by) < first
    return entries.select(
        "id",
        *KEYS,
        line=nw.when(before).then(nw.lit("opening")).otherwise(nw.col("line")),
        type=nw.when(before).then(no_type).otherwise(nw.col("type")),
        amount=nw.col("amount"),
    )


def bridge(
    then: pa.Table,
    now: pa.Table,
    period: str | tuple[Moment, Moment],
    *,
    known_at: int,
    tz: str = "UTC",
    basis: Basis = "settled",
    openings: tuple[pd.DataFrame, pd.DataFrame] | None = None,
) -> pd.DataFrame:
    """``profile_id``, ``asset``, ``line``, ``type``, ``cause``, ``transfer_id``, ``then``, ``now``,
    ``difference``: what leads from the roll-forward of the transfers ``then`` to that of ``now``,
    transfer by transfer; its sum by line is the difference of the two.

    Both are Arrow tables of the same transfers at two times; those left out have not changed.
    ``known_at`` (ns) is when ``then`` was known; ``openings`` are what was taken over, then and
    now; where transfers fetched since make up an opening that was, nothing has moved. ``cause`` is
    one of :data:`CAUSES`.
    """
    first, end = period_bounds(period, tz)
    sides = []
    for rows in (then, now):
        with Workbench(rows) as bench:
            entries = _entries(bench, rows, basis, first, end)
            sums = entries.group_by("id", *_ENTRY).agg(nw.col("amount").sum())
            sides.append(to_frame(bench.collect(sums.select(*_SIDE.names)).cast(_SIDE)))
    if openings is not None:
        opened = [
            frame.rename(columns={"balance": "amount"}).assign(id="", line="opening", type="")
            for frame in openings
        ]
        sides = [
            pd.concat([side, more[_SIDE.names].astype(side.dtypes)])
            for side, more in zip(sides, opened, strict=True)
        ]
    both = sides[0].merge(sides[1], on=["id", *_ENTRY], how="outer", suffixes=("_then", "_now"))
    for side in ("then", "now"):
        both[side] = both[f"amount_{side}"].astype(DecimalDtype()).fillna(0)
    both["difference"] = both["now"] - both["then"]
    moved = both[both["difference"] != 0]
    was, becomes = (
        {row["id"]: row for row in rows.filter(pc.is_in(rows["id"], ids)).to_pylist()}
        for ids in [pa.array(moved["id"].unique(), pa.string())]
        for rows in (then, now)
    )
    causes = [_cause(was.get(name), becomes.get(name), known_at) for name in moved["id"]]
    moved = moved.assign(cause=pd.array(causes, "string"), transfer_id=moved["id"])
    # earlier transfers in place of an opening of the same amount: the line says what it said
    by_line = moved.groupby(list(_ENTRY), dropna=False)
    same = by_line["difference"].transform("sum") == 0
    replaced = moved["cause"].eq("opening").groupby([moved[n] for n in _ENTRY]).transform("any")
    moved = moved[~(same & replaced)]
    return _in_order(moved)


def bridge_by_line(then: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """:func:`bridge` of two roll-forwards, where the transfers of ``then`` are not known any
    more."""
    both = then.merge(now, on=list(_ENTRY), how="outer", suffixes=("_then", "_now"))
    both = both[both["line"] != "closing"].assign(cause="lost", transfer_id="")
    for side in ("then", "now"):
        both[side] = both[f"amount_{side}"].astype(DecimalDtype()).fillna(0)
    both["difference"] = both["now"] - both["then"]
    moved = both[both["difference"] != 0]
    return _in_order(moved.astype(dict.fromkeys(("cause", "transfer_id"), "string")))


def _in_order(moved: pd.DataFrame) -> pd.DataFrame:
    order = moved["line"].map({name: place for place, name in enumerate(LINES)})
    moved = moved.assign(place=order.astype("int64"))
    keys = ["asset", "profile_id", "place", "type", "transfer_id"]
    return moved.sort_values(keys, kind="stable", ignore_index=True)[list(BRIDGE)]


@dataclass(frozen=True)
class Restatement:
    """A closed period of which the store would now say something else, and why: ``bridge`` leads
    from what was closed to what is known now, transfer by transfer (see :func:`bridge`)."""

    close: Close
    bridge: pd.DataFrame

    @property
    def difference(self) -> pd.DataFrame:
        """``profile_id``, ``asset``, ``amount``: by how much the closing is another one."""
        sums = self.bridge.groupby(list(KEYS))["difference"].sum().rename("amount")
        return sums[sums != 0].reset_index()

    def __str__(self) -> str:
        lines = number_of(len(self.bridge[list(_ENTRY)].drop_duplicates()), "line")
        ids = self.bridge["transfer_id"].replace("", None)
        by = [number_of(ids.nunique(), "transfer")] if ids.notna().any() else []
        by += [_OTHERS[cause] for cause in self.bridge["cause"][ids.isna()].unique()]
        close = self.close
        basis = "" if close.basis == "settled" else f" --basis {close.basis}"
        return (
            f"{close} has moved since it was closed at {close.record.at[:16]}Z: {lines} by "
            f"{' and '.join(by)}; accept it with 'fundlab close {close.period}{basis} --restate "
            "--reason …', and --with-breaks while there are breaks"
        )


def closes_in_force(store: TableStore, as_of: str | datetime | None = None) -> list[Close]:
    """The closes in force, now or ``as_of``, oldest first."""
    records = store.records(as_of=as_of)
    return [one for one in closes_of(records) if one.state == "closed"]


def restatements(store: TableStore, *, as_of: str | datetime | None = None) -> list[Restatement]:
    """The closed periods of ``store`` that have moved since, as known ``as_of``, earliest first;
    a close that was restated or reopened is in force no more."""
    closes = closes_in_force(store, as_of)
    if not closes:
        return []
    records = store.records()
    gone, lost = {}, []
    for frozen in closes:
        number = frozen.record.number
        before = [record for record in records if record.number < number]
        gone[frozen.hash] = set(accepted_gone(before, "transfers"))
        if any(repair_that_lost(records, table, number) for table in ("transfers", "events")):
            lost.append(frozen)

    begins_late = store.snapshot("transfers", as_of).begins is not None

    @cache
    def opening() -> pd.DataFrame:
        if not begins_late:
            return to_frame(OPENING.empty_table())  # nothing was taken over
        return judge_accounts(store.accounts(as_of)).opening

    known = [one for one in closes if one not in lost]
    moved = [
        (close, bridge(
            then, now, close.period, known_at=close.known_at, tz=close.tz, basis=close.basis,
            openings=(close.opening, opening()),
        ))
        for close, then, now in steadily(
            lambda: booked_since(
                known, store.current("transfers", as_of), store.snapshot("events", as_of), gone,
                every=begins_late,  # what was taken over may be another, though no transfer is
            )
        )
    ]  # fmt: skip
    if lost:
        rows = store.read_arrow("transfers", as_of, settled=True)
    for close in lost:
        now = to_frame(roll_forward(rows, close.period, opening(), close.tz, close.basis))
        moved.append((close, bridge_by_line(close.lines, now)))
    found = [Restatement(close, lines) for close, lines in moved if len(lines)]
    return sorted(found, key=lambda frozen: (frozen.close.end, frozen.close.basis))


def _cause(was: dict[str, Any] | None, now: dict[str, Any] | None, known_at: int) -> str:
    if was is None and now is None:
        return "opening"
    if now is None:
        return "disappeared"
    if was is None:  # it says itself that it was not touched since, so it was only late
        changed = now["updated_at"]
        return "back_dated" if changed is not None and changed.value > known_at else "late"
    if (was["status"] in COMPLETED) != (now["status"] in COMPLETED):
        return "status"
    if any(was[name] != now[name] for name in ("amount", "fee", "total")):
        return "amount"
    dates = [name for name in ("created_at", SETTLED_AT) if name in was]
    return "back_dated" if any(was[name] != now[name] for name in dates) else "row"
