"""Frames to a frozen :class:`Report`: every figure of the page, none of its looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, Literal

import pandas as pd

from fundlab.analysis import balances, checks, fees, flows, reconcile
from fundlab.errors import AnalysisError, shorten

Tone = Literal["good", "bad", "warn", "plain"]

LATEST_WITHDRAWALS: Final = 10
_FREQUENCIES: Final = ((45, "D"), (180, "W"), (1900, "MS"), (10**9, "QS"))
_INTERNAL: Final = ("INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT")
_COMPONENTS: Final = ("fundlab", "pandas", "pyarrow", "duckdb", "narwhals", "matplotlib")


@dataclass(frozen=True)
class Verdict:
    """The first thing to read: does what the service reports follow from the transfers?"""

    tone: Tone
    headline: str
    detail: str
    compared: int
    breaks: int


@dataclass(frozen=True)
class KeyFigure:
    label: str
    value: str
    note: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Report:
    """Everything the page shows. Frames carry exact money and times in UTC; do not change them.

    ``balances``: ``profile_id``, ``asset``, ``ledger``, ``available`` at ``as_of``. ``daily``,
    ``flows``, ``fees`` (with ``bps``), ``fees_over_time``, ``reconciliation`` and ``violations``
    are what the functions of :mod:`fundlab.analysis` give. ``open_items`` adds ``age``;
    ``withdrawals`` are rows of the transfers.
    """

    title: str
    as_of: pd.Timestamp
    generated_at: pd.Timestamp
    first_change: pd.Timestamp | None
    last_change: pd.Timestamp | None
    tz: str
    freq: str
    verdict: Verdict
    key_figures: tuple[KeyFigure, ...]
    balances: pd.DataFrame
    daily: pd.DataFrame
    flows: pd.DataFrame
    fees: pd.DataFrame
    fees_over_time: pd.DataFrame
    reconciliation: pd.DataFrame
    open_items: pd.DataFrame
    withdrawals: pd.DataFrame
    violations: pd.DataFrame
    events: pd.DataFrame
    made_here: bool
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def breaks(self) -> pd.DataFrame:
        """The rows of ``reconciliation`` that do not match."""
        return self.reconciliation[self.reconciliation["status"] != "match"]


def build(
    transfers: pd.DataFrame,
    reported: pd.DataFrame,
    *,
    title: str,
    as_of: str | datetime,
    generated_at: str | datetime,
    events: pd.DataFrame | None = None,
    opening: pd.DataFrame | None = None,
    withdrawals: Sequence[str] | None = None,
    sources: Mapping[str, str] | None = None,
    tz: str = "UTC",
) -> Report:
    """The report of ``transfers`` and the ``reported`` balances (``fl.load_balances``), of one
    moment, ``as_of``.

    ``withdrawals`` are the ids of transfers made on this occasion; without it the latest are
    shown. ``sources`` tells how to get the same figures again: label to text, for example the
    store's path, the command, and :func:`versions`. ``generated_at`` is printed, never read from
    a clock. Raises what the analyses raise.
    """
    as_of, generated_at = _utc("as_of", as_of), _utc("generated_at", generated_at)
    comparison = reconcile.compare(transfers, reported, opening)
    violations = checks.invariants(transfers)
    open_items = _open_items(transfers, as_of)
    first, last = _span(transfers)
    freq = _frequency(first, last)
    fee_sums = fees.effective(transfers)
    return Report(
        title=title,
        as_of=as_of,
        generated_at=generated_at,
        first_change=first,
        last_change=last,
        tz=tz,
        freq=freq,
        verdict=_verdict(comparison, len(transfers)),
        key_figures=_key_figures(transfers, comparison, open_items, fee_sums, violations),
        balances=_balances(transfers, opening, as_of),
        daily=balances.daily(transfers, tz, as_of.tz_convert(tz).date(), opening),
        flows=flows.net(transfers, freq, tz),
        fees=fee_sums,
        fees_over_time=fees.summary(transfers, freq=freq, tz=tz),
        reconciliation=comparison,
        open_items=open_items,
        withdrawals=_withdrawals(transfers, withdrawals),
        violations=violations,
        events=_event_counts(events),
        made_here=withdrawals is not None,
        sources=dict(sources or {}),
    )


def versions(components: Iterable[str] = _COMPONENTS) -> dict[str, str]:
    """The installed versions of what computes and draws the report, for ``sources``."""
    found: dict[str, str] = {}
    for name in components:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


# --------------------------------------------------------------------------------- its parts


def _utc(parameter: str, moment: str | datetime) -> pd.Timestamp:
    try:
        stamp = pd.Timestamp(moment)
    except (ValueError, TypeError) as error:
        raise AnalysisError(
            f"{parameter}={shorten(moment)} is not a time; give ISO text or a datetime"
        ) from error
    if pd.isna(stamp):
        raise AnalysisError(f"{parameter} is missing (NaT); give a time")
    if stamp.tzinfo is None:  # like every time of the interface
        stamp = stamp.tz_localize("UTC")
    return stamp.tz_convert("UTC").as_unit("ns")


def _span(transfers: pd.DataFrame) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    if transfers.empty:
        return None, None
    return transfers["created_at"].min(), transfers["created_at"].max()


def _frequency(first: pd.Timestamp | None, last: pd.Timestamp | None) -> str:
    days = 0 if first is None or last is None else (last - first).days
    return next(freq for limit, freq in _FREQUENCIES if days <= limit)


def _balances(
    transfers: pd.DataFrame, opening: pd.DataFrame | None, as_of: pd.Timestamp
) -> pd.DataFrame:
    ledger = balances.at(transfers, as_of, opening, "ledger")
    available = balances.at(transfers, as_of, opening, "available")
    both = ledger.rename(columns={"balance": "ledger"}).merge(
        available.rename(columns={"balance": "available"}),
        on=["profile_id", "asset"],
        how="outer",
    )
    return both.sort_values(["asset", "profile_id"], kind="stable").reset_index(drop=True)


def _open_items(transfers: pd.DataFrame, as_of: pd.Timestamp) -> pd.DataFrame:
    pending = transfers[transfers["status"] == "PENDING"]
    pending = pending.sort_values(["created_at", "id"], kind="stable").reset_index(drop=True)
    return pending.assign(age=as_of - pending["created_at"])


def _withdrawals(transfers: pd.DataFrame, made: Sequence[str] | None) -> pd.DataFrame:
    if made is not None:
        missing = sorted(set(made) - set(transfers["id"]))
        if missing:
            raise AnalysisError(f"withdrawals names transfers that are not there: {missing}")
        rows = transfers[transfers["id"].isin(list(made))]
    else:
        rows = transfers[(transfers["direction"] == "DEBIT") & ~transfers["type"].isin(_INTERNAL)]
    rows = rows.sort_values(["created_at", "id"], ascending=[False, True], kind="stable")
    return (rows if made is not None else rows.head(LATEST_WITHDRAWALS)).reset_index(drop=True)


def _event_counts(events: pd.DataFrame | None) -> pd.DataFrame:
    if events is None or events.empty:
        return pd.DataFrame({"type": pd.Series(dtype="str"), "count": pd.Series(dtype="int64")})
    counts = events["type"].astype("str").value_counts().rename_axis("type").reset_index()
    return counts.sort_values(["count", "type"], ascending=[False, True]).reset_index(drop=True)


def _verdict(comparison: pd.DataFrame, transfers: int) -> Verdict:
    compared = len(comparison)
    broken = comparison[comparison["status"] != "match"]
    if not compared:
        return Verdict("warn", "Nothing to reconcile", "No balance was rebuilt or reported.", 0, 0)
    if broken.empty:
        detail = (
            f"All {compared:,} balances rebuilt from {transfers:,} transfers equal what the "
            "service reports, to the last of 18 decimals."
        )
        return Verdict("good", "Reconciled: 0 breaks", detail, compared, 0)
    count = len(broken)
    gaps = broken["difference"].abs().groupby(broken["asset"]).sum()
    sums = ", ".join(f"{plain(gap)} {asset}" for asset, gap in gaps.items())
    noun = "break" if count == 1 else "breaks"
    detail = (
        f"{count:,} of {compared:,} balances differ from what the service reports; "
        f"the differences, regardless of sign, add up to {sums}."
    )
    return Verdict("bad", f"Not reconciled: {count:,} {noun}", detail, compared, count)


def plain(amount: Decimal) -> str:
    """Every digit, at least two of them decimals, thousands separated: ``1,234.50``."""
    return f"{amount:,.{max(2, decimals(amount))}f}"


def decimals(amount: Decimal) -> int:
    """How many decimals ``amount`` needs."""
    return len(f"{amount:f}".partition(".")[2].rstrip("0"))


def _key_figures(
    transfers: pd.DataFrame,
    comparison: pd.DataFrame,
    open_items: pd.DataFrame,
    fee_sums: pd.DataFrame,
    violations: pd.DataFrame,
) -> tuple[KeyFigure, ...]:
    states: dict[Any, int] = transfers["status"].astype("str").value_counts().to_dict()
    completed = states.get("COMPLETED", 0) + states.get("COMPLETE", 0)
    matching = int((comparison["status"] == "match").sum())
    dollars: Any = fee_sums.loc[fee_sums["asset"] == "USD", "fee"].sum()
    assets = comparison["asset"].nunique()
    oldest = f"the oldest {age_text(open_items['age'].max())}" if len(open_items) else "none waits"
    return (
        KeyFigure(
            "Balances that match",
            f"{matching:,} of {len(comparison):,}",
            f"{comparison['profile_id'].nunique():,} profiles, {assets:,} assets",
            _tone(len(comparison), matching),
        ),
        KeyFigure(
            "Transfers",
            f"{len(transfers):,}",
            f"{completed:,} completed, {states.get('FAILED', 0):,} failed",
        ),
        KeyFigure("Open items", f"{len(open_items):,}", oldest),
        KeyFigure("Fees in USD", plain(dollars), "completed transfers"),
        KeyFigure(
            "Row checks",
            "all hold" if violations.empty else f"{len(violations):,} violated",
            "totals, fees, states, times, ids",
            "good" if violations.empty else "bad",
        ),
    )


def _tone(compared: int, matching: int) -> Tone:
    if not compared:
        return "plain"
    return "good" if matching == compared else "bad"


def age_text(age: pd.Timedelta) -> str:
    """``3 d 4 h``, ``12 min``: the two largest units."""
    seconds = max(int(age.total_seconds()), 0)
    parts = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"
