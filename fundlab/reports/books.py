"""The books of a period of a store: what was known when it was first closed, for ever. What has
changed since is corrected in the books of the first period that follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import narwhals as nw
import pandas as pd

from fundlab.analysis.books import (
    ENTRIES,
    UNMAPPED,
    Accounts,
    correcting,
    in_entries,
    postings_of,
    with_accounts,
    with_opening,
)
from fundlab.analysis.counting import KEYS, moment_of
from fundlab.analysis.counting import transfer_columns as wanted
from fundlab.analysis.engines import TIME, Workbench
from fundlab.analysis.reconcile import judge
from fundlab.base.errors import InvalidRequest
from fundlab.base.exact import EXACT
from fundlab.base.periods import period_bounds
from fundlab.evidence.closes import Close, closes_of
from fundlab.evidence.table_store import TableStore
from fundlab.exports.files import replacing
from fundlab.exports.ledgers import WRITERS, Books, Format
from fundlab.reports.inputs import check_known, moment
from fundlab.reports.job import transfers_known_until
from fundlab.settings.labels import names_given
from fundlab.store.duck import own_connection
from fundlab.store.scan import queries
from fundlab.tables.transfers import ZERO, Basis, Rows, change, counts, moved_asset, placed_at

if TYPE_CHECKING:
    import duckdb

_FUNDS: Final = {"role": "balance", "type": "", "direction": "", "crypto_network": ""}


def write_books(
    store: TableStore,
    period: str,
    out: Path,
    format: Format,
    *,
    accounts: Path | None = None,
    basis: Basis = "settled",
    tz: str | None = None,
    alone: bool = False,
) -> Books:
    """The books of ``period`` as one file at ``out``, whole or not at all; see :func:`books_of`."""
    books = books_of(store, period, accounts=accounts, basis=basis, tz=tz, alone=alone)
    with replacing(out) as unfinished:
        WRITERS[format](books, unfinished)
    return books


@queries
def books_of(
    store: TableStore,
    period: str,
    *,
    accounts: Path | None = None,
    basis: Basis = "settled",
    tz: str | None = None,
    alone: bool = False,
) -> Books:
    """The entries of ``period``, of what was known when it was first closed on ``basis``, else of
    what is known now.

    Where the period before it is closed, too, the books go on from those, in whatever zone its days
    were: what changed in earlier periods since is an entry on the first day for each transfer, and
    nothing is opened. Else, and with ``alone``, they begin with an entry of the balances that there
    were: where the store begins within the period, those of that time. The title says what is
    missing. Each balance that the service reported after the period's end, and that has not moved
    since, is asserted as it was when the period ended: of a period that is not over there is none.

    ``tz`` is the zone of the period's days, by default the one it was first closed in, else UTC.
    Raises ``InvalidRequest`` for another one than that, ``AnalysisError`` for a period that has not
    begun by what is known, or is over before the store begins.
    """
    # The first close of each period: what came later is a correction.
    closes: dict[str, Close] = {}
    for frozen in closes_of(store.records()):
        if frozen.basis == basis:
            closes.setdefault(frozen.period, frozen)
    close = closes.get(period)
    if close is not None and tz not in (None, close.tz):
        raise InvalidRequest(
            f"tz={tz!r}: books are those of the first close for ever, and {close} was first closed "
            f"with days in {close.tz}; leave tz out"
        )
    if tz is None:
        tz = "UTC" if close is None else close.tz
    first, end = period_bounds(period, tz)
    known_as = "not closed: they may change" if close is None else f"as closed at {close.record.at}"
    judgement = judge(store, pin=_pin(close))
    lacking = judgement.lacks(first, basis)
    begin = first if judgement.since is None else max(first, judgement.since.value)
    if close is None:
        known_until = transfers_known_until(store)
        check_known(period, first, end, known_until, judgement)
        if known_until < end:
            known_as = f"not over: known until {moment(known_until):%Y-%m-%d %H:%M} UTC"
    # The periods before by their names: those closed in other zones end at other moments.
    ends = {name: period_bounds(name, tz)[1] for name in closes}
    before = None if alone else next((closes[name] for name in ends if ends[name] == first), None)
    known = [one for name, one in closes.items() if ends[name] <= first or one is close]
    chart = Accounts.read(accounts, _names(known, frozen=close is not None))
    opening = judgement.opening if close is None else close.opening
    opened: frozenset[str] = frozenset()
    by = moment_of(basis)
    connection = own_connection()
    now = _transfers(store, basis, close, connection)
    with Workbench(now, by) as bench:
        if before is None:
            rows = _booked(bench, now, basis, opening, chart, (begin, end))
        else:
            earlier = books_of(store, before.period, accounts=accounts, basis=basis, tz=before.tz)
            opened = earlier.opened | {*earlier.accounts()}
            every = _booked(bench, now, basis, opening, chart)
            known_then = _transfers(store, basis, before, connection)
            then = _booked(bench, known_then, basis, before.opening, chart)
            start = max(first, before.end)
            inside = every.filter(nw.col("at") >= start, nw.col("at") < end)
            then = then.filter(nw.col("at") < before.end)
            changed = correcting(every.filter(nw.col("at") < start), then, first)
            rows = nw.concat([inside.select(*changed.collect_schema().names()), changed])
        rows = in_entries(bench, rows, tz)
        entries = bench.collect(rows.select(*ENTRIES.names)).cast(ENTRIES)
        assertions = _observed(bench, now, basis, store, close, chart, end)
    begins = "begin with opening balances" if before is None else f"go on from {before.period}"
    said = [f"Books of {period} ({basis} basis), {known_as}; {begins}.", lacking]
    said.append((store.service() or {}).get("base_url", ""))
    return Books(
        title=" ".join(filter(None, said)),
        first=_day(first, tz),
        last=_day(end - 1, tz),
        entries=entries,
        assertions=assertions,
        opened=opened,
    )


def _names(closes: Sequence[Close], *, frozen: bool) -> dict[str, str]:
    """What each profile is called in the books, for ever: as in the first close that had it, with
    or without a name; others by the names of today, unless these books are ``frozen``."""
    called: dict[str, str | None] = {}
    for close in sorted(closes, key=lambda close: close.record.at):
        for line in close.content["lines"]:
            profile = str(line[0]).lower()
            called.setdefault(profile, close.names.get(profile))
    if not frozen:
        for profile, name in names_given().items():
            called.setdefault(profile, name)
    return {profile: name for profile, name in called.items() if name is not None}


def _pin(close: Close | None) -> str | None:
    return None if close is None else close.pin


def _transfers(
    store: TableStore, basis: Basis, close: Close | None, connection: duckdb.DuckDBPyConnection
) -> duckdb.DuckDBPyRelation:
    rows = store.scan(
        "transfers", connection=connection, settled=basis == "settled", pin=_pin(close)
    )
    return cast("duckdb.DuckDBPyRelation", rows)


def _booked(
    bench: Workbench[Any],
    transfers: object,
    basis: Basis,
    opening: pd.DataFrame,
    chart: Accounts,
    span: tuple[int, int] | None = None,
) -> Rows:
    """The postings of ``transfers`` and what was there before them, with their accounts."""
    rows = with_opening(bench, postings_of(bench, transfers, "ledger", basis), opening, span)
    return with_accounts(bench, rows, chart)


def _observed(
    bench: Workbench[Any],
    transfers: object,
    basis: Basis,
    store: TableStore,
    close: Close | None,
    chart: Accounts,
    end: int,
) -> list[tuple[str, str, Decimal]]:
    """What each balance that the service reported after ``end`` was then: less what settled since,
    and with what was held. Those that have moved since they were observed say nothing."""
    observed: dict[tuple[str, str], tuple[int, Decimal]] = {}
    for row in store.read_arrow("balances", pin=_pin(close)).to_pylist():
        key, at = (row["profile_id"], row["asset"]), row["observed_at"].value
        if at >= end and (key not in observed or at > observed[key][0]):
            observed[key] = at, EXACT.add(row["available"], row["trading"])
    want = wanted(moment_of(basis), updated_at=TIME, created_at=TIME)
    rows = bench.take(transfers, want).with_columns(
        asset=moved_asset(), change=change(), at=placed_at(basis), done=counts("ledger")
    )
    after = nw.col("done") & (nw.col("at") >= end)
    held = ~nw.col("done") & counts("available")
    sums = rows.group_by(*KEYS).agg(
        touched=nw.col("updated_at").max(),
        moved=nw.when(after | held).then(nw.col("change")).otherwise(ZERO).sum(),
    )
    since = {
        (row["profile_id"], row["asset"]): (row["touched"], row["moved"])
        for row in bench.collect(sums).to_pylist()
    }
    return [
        (chart.account_of(_FUNDS | {"profile_id": profile, "asset": asset}, None) or UNMAPPED,
         asset, EXACT.subtract(reported, moved))
        for (profile, asset), (at, reported) in sorted(observed.items())
        for touched, moved in [since.get((profile, asset), (0, Decimal(0)))]
        if touched <= at
    ]  # fmt: skip


def _day(moment: int, zone: str) -> date:
    return pd.Timestamp(moment, unit="ns", tz="UTC").tz_convert(zone).date()
