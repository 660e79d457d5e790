"""What every analysis of transfers begins with: the columns it needs, the rows that count and
their signed change, and a refusal that names the rows where one cannot be counted.

What counts, for which asset and by how much is said in :mod:`fundlab.tables.transfers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, get_args

import narwhals as nw
import pandas as pd

from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    Kind,
    Wanted,
    Workbench,
    columns,
)
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.periods import Moment, period_bounds
from fundlab.base.values import moment_ns
from fundlab.models import DIRECTIONS, STATUSES
from fundlab.tables.transfers import (
    MOMENTS,
    SETTLED_AT,
    TEXTS,
    ZERO,
    Basis,
    Rows,
    View,
    change,
    counts,
    held_or_settled,
    moved_asset,
)

KEYS: Final = ("profile_id", "asset")
_TAKEN: Final = {*TEXTS, "at", "balance", "change", "moved", "opened", "total"}
"""What the columns of these analyses are called inside."""
SHOWN_ROWS: Final = 5
_OPENING: Final = Wanted("opening", {"profile_id": TEXT, "asset": TEXT, "balance": MONEY})
_OPENED: Final = columns(("profile_id asset", TEXT_TYPE), ("opened", AMOUNT_TYPE))
_UNCOUNTABLE: Final = (
    *(
        (name, nw.col(name).is_null() | ~nw.col(name).is_in(known), f"is not one of {known}")
        for name, known in (("status", STATUSES), ("direction", DIRECTIONS))
    ),
    *((name, nw.col(name) == "", "is empty") for name in ("balance_asset", "asset")),
)
"""What no analysis that counts transfers will guess at: a column, in which rows, what is wrong."""
_COUNTED: Final = {
    **dict.fromkeys(("id", "profile_id", "asset", "type"), TEXT),
    **dict.fromkeys(("amount", "fee", "total"), MONEY), "created_at": TIME,
}  # fmt: skip
_sound: ContextVar[frozenset[str]] = ContextVar("sound", default=frozenset())


@contextmanager
def looked_through(transfers: object, basis: Basis) -> Iterator[None]:
    """Inside, analyses are of rows of ``transfers`` only, which are looked through once: where all
    can be counted and lack nothing, no analysis looks for it again."""
    by = MOMENTS[basis]
    sound: frozenset[str] = frozenset()
    with Workbench(transfers) as bench:
        rows = bench.take(transfers, transfer_columns(by, **_COUNTED))
        moment = nw.when(counts("ledger")).then(nw.col(by)).otherwise(nw.col("created_at"))
        needed = (*_COUNTED, by)
        try:
            refuse(bench, rows.with_columns(moment.alias(by)), needed, uncountable=True)
            sound = frozenset(needed)
        except AnalysisError:
            pass  # an analysis that needs what is missing says so
    token = _sound.set(sound)
    try:
        yield
    finally:
        _sound.reset(token)


def moment_of(basis: Basis | None, by: str = "created_at") -> str:
    """The column of times that ``basis`` means; without it ``by``."""
    if basis is None:
        return by
    choice("basis", basis, tuple(MOMENTS))
    if by not in ("created_at", MOMENTS[basis]):
        raise AnalysisError(f"give either basis={basis!r} or by={by!r}, not both")
    return MOMENTS[basis]


def check_reaches(transfers: object, asked: str, last: Callable[[], int]) -> None:
    """Raises ``AnalysisError``, beginning with ``asked``, where what happened until its ``last``
    moment is not all there: a frame was read with an ``until=`` that cut off later rows."""
    cut = transfers.attrs.get("until") if isinstance(transfers, pd.DataFrame) else None
    if isinstance(cut, str) and last() >= moment_ns(cut, "until"):
        raise AnalysisError(
            f"{asked}: the transfers were read with until={cut}, which cut off later ones; read "
            "them without it, or give an earlier time"
        )


def span_in(
    transfers: object, period: str | tuple[Moment, Moment], tz: str = "UTC"
) -> tuple[int, int]:
    """`period_bounds`, of ``transfers`` that must reach to the end of ``period``."""
    first, end = period_bounds(period, tz)
    check_reaches(transfers, f"period={period}", lambda: end - 1)
    return first, end


def is_taken(name: str, ours: Iterable[str], own: Iterable[str] = ()) -> bool:
    """Whether a caller's column ``name`` is one of ``ours`` to an engine, which may see no case,
    and none of its ``own``; or no name."""
    return not name or (name not in own and name.casefold() in {one.casefold() for one in ours})


def transfer_columns(by: str, optional: Iterable[str] = (), /, **extra: Kind) -> Wanted:
    """The columns that decide whether, when and how a transfer changes a balance, and ``extra``;
    ``optional`` are texts that may be absent."""
    if not isinstance(by, str) or is_taken(by, _TAKEN, ("at", "change")):
        raise AnalysisError(
            f"by={by!r}: give the name of a column of times, such as 'created_at', saying when a "
            "transfer counts; rename one that is called as a column of these analyses; what groups "
            "is the by= of fl.fees and fl.flux"
        )
    texts = dict.fromkeys(("id", "profile_id", "asset", "direction", "status"), TEXT)
    also = [name for name in ("balance_asset", *optional) if name not in extra]
    every = {**texts, "total": MONEY, by: TIME, **extra}
    return Wanted("transfers", every, dict.fromkeys(also, TEXT))


def signed_changes(
    bench: Workbench[Any],
    transfers: object,
    view: View,
    by: str,
    *,
    keep: bool = False,
    named: bool = False,
    **also: Kind,
) -> tuple[Rows, tuple[int, int] | None]:
    """The rows that count in ``view``: ``id`` (never missing with ``named``), ``profile_id``,
    ``asset`` (the one that changes), ``at`` (``by`` in ns) and the signed ``change``; ``also`` are
    more columns, kept as they are. And the first and the last ``at`` (0 without any), where they
    were looked for."""
    choice("view", view, get_args(View))
    held = by == SETTLED_AT and view == "available"
    want = transfer_columns(by, **also, **({"created_at": TIME} if held else {}))
    rows = bench.take(transfers, want, keep=keep)
    if held:
        rows = rows.with_columns(held_or_settled().alias(by))
    needed = (*(("id",) if named else ()), *KEYS, "total", by)
    span = None if _sound.get().issuperset(needed) else _span(bench, rows, view, by, needed)
    rows = rows.filter(counts(view))
    return rows.with_columns(asset=moved_asset(), change=change(), at=nw.col(by)), span


def _span(
    bench: Workbench[Any], rows: Rows, view: View, by: str, needed: Iterable[str]
) -> tuple[int, int]:
    """The first and the last time of those that count, once none of them lacks what is needed."""
    # What there is of each status and direction: one cheap look finds whatever is wrong.
    states = rows.group_by("status", "direction").agg(
        rows=nw.len(),
        first=nw.col(by).min(),
        last=nw.col(by).max(),
        empty=((nw.col("balance_asset") == "") | (nw.col("asset") == "")).any(),
        **{f"{name} there": nw.col(name).count() for name in needed},
    )
    found = bench.collect(states.with_columns(counting=counts(view))).to_pylist()
    counting = [state for state in found if state["counting"]]
    known = all(
        state["status"] in STATUSES and state["direction"] in DIRECTIONS and not state["empty"]
        for state in found
    )
    if not known or any(s[f"{name} there"] < s["rows"] for s in counting for name in needed):
        refuse(bench, rows, needed, among=counts(view), uncountable=True)
    first = min((state["first"] for state in counting), default=0)
    last = max((state["last"] for state in counting), default=0)
    return first, last


def completed(bench: Workbench[Any], transfers: object, want: Wanted, *needed: str) -> Rows:
    """The completed rows, sure to have ``needed``; every status and direction is known."""
    rows, done = bench.take(transfers, want), counts("ledger")
    refuse(bench, rows, needed, among=done, uncountable=True)
    return rows.filter(done)


def opening_balances(bench: Workbench[Any], opening: object) -> Rows:
    """``profile_id``, ``asset``, ``opened``; none where ``opening`` is ``None``. Unique keys."""
    if opening is None:
        return bench.constant(_OPENED.empty_table())
    rows = bench.take(opening, _OPENING)
    refuse(bench, rows, _OPENING.columns, "opening")
    refuse_repeated(bench, rows, "opening")
    return rows.select(*KEYS, opened=nw.col("balance"))


def balances_of(counting: Rows, opened: Rows) -> Rows:
    """Opening plus all changes, for each profile and asset that has either."""
    sums = counting.group_by(*KEYS).agg(moved=nw.col("change").sum())
    both = sums.join(opened, on=list(KEYS), how="full", suffix="_opened")
    return both.select(
        *(nw.coalesce(key, f"{key}_opened").alias(key) for key in KEYS),
        balance=nw.coalesce("opened", ZERO) + nw.coalesce("moved", ZERO),
    )


def refuse(
    bench: Workbench[Any],
    rows: Rows,
    needed: Iterable[str],
    label: str = "transfers",
    *,
    among: nw.Expr | None = None,
    uncountable: bool = False,
) -> None:
    """Raises :class:`AnalysisError` naming the first rows without a value in a column ``needed``,
    ``among`` those that matter; before those, if ``uncountable``, the ones that no analysis can
    count."""
    sound = _sound.get() if label == "transfers" else frozenset()
    faults = [*_UNCOUNTABLE] if uncountable and not sound else []
    for name in (name for name in needed if name not in sound):
        missing = nw.col(name).is_null()
        faults.append((name, missing if among is None else missing & among, "is missing"))
    if not faults:
        return
    there = bench.collect(
        rows.select(**{str(number): where.any() for number, (_, where, _) in enumerate(faults)})
    )
    for (column, where, problem), any_row in zip(faults, there.columns, strict=True):
        if any_row[0].as_py():
            named = "id" if label in ("transfers", "events", "quotes") else "profile_id"
            bad = rows.filter(where).select(row=nw.col(named), value=nw.col(column))
            first = bench.collect(bad.sort("row", "value").head(SHOWN_ROWS + 1)).to_pylist()
            value = first[0]["value"]
            what = "is missing" if value is None else f"{shorten(value)} {problem}"
            shown = ", ".join(str(row["row"]) for row in first[:SHOWN_ROWS])
            more = " and more" if len(first) > SHOWN_ROWS else ""
            raise AnalysisError(f"{label}: {column} {what} ({named} {shown}{more})")


def refuse_repeated(bench: Workbench[Any], rows: Rows, label: str, *key: str) -> None:
    """Raises :class:`AnalysisError` for a second row of a profile and asset, or of ``key``."""
    key = key or KEYS
    counted = rows.group_by(*key).agg(count=nw.len()).filter(nw.col("count") > 1)
    first = bench.collect(counted.sort(*key).head(SHOWN_ROWS).select(*key)).to_pylist()
    if first:
        shown = ", ".join(" ".join(row.values()) for row in first)
        raise AnalysisError(f"{label}: more than one row of {' and '.join(key)} {shown}")


def choice(parameter: str, value: object, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise AnalysisError(f"{parameter}={value!r} is not one of {', '.join(accepted)}")
