"""Differences between rebuilt and reported balances, and the transfers that could make them.

From the observations follows which balance differs, by how much and since when; the engine then
finds the few rows, of many, that could have made a difference. That search may find too much and
must not miss: what a row explains is judged by :mod:`fundlab.analysis.causes`. Each search is one
expression and keeps at most a bounded number of rows for each difference, except for copies, whose
number is part of the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis.causes import (
    FEW_BALANCES,
    LOOKS,
    MAX_SUSPECTS,
    MAX_TOGETHER,
    MOST_FEES,
    SHIFTS,
    Break,
    Evidence,
    Facts,
    Kind,
    Pair,
    Row,
    find_causes,
    transposed,
)
from fundlab.analysis.checks import fee_shares
from fundlab.analysis.compare import REPORTED, compared, known_of, moved_since, unknown_status
from fundlab.analysis.counting import KEYS, opening_balances, refuse
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    FrameT,
    Wanted,
    Workbench,
    column_names,
    columns,
)
from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.values import in_units, of_units
from fundlab.models import Direction
from fundlab.tables.transfers import (
    ZERO,
    Rows,
    change,
    counts,
    goes_against_its_type,
    has_right_total,
    is_half,
    moved_asset,
)

SEARCHED_FROM: Final = 2_000
"""Fewer rows are all looked at, which takes less time than to ask for some of them."""
EXPLAINED: Final = columns(
    ("profile_id asset", TEXT_TYPE),
    ("difference", AMOUNT_TYPE),
    ("rank", pa.int64()),
    ("cause transfer_id", TEXT_TYPE),
    ("amount", AMOUNT_TYPE),
    ("detail", TEXT_TYPE),
)
_MOMENT: Final = columns(("profile_id asset", TEXT_TYPE), ("at", pa.int64()))
_BREAK: Final = columns(
    ("number", pa.int64()),
    ("profile_id asset", TEXT_TYPE),
    ("difference", AMOUNT_TYPE),
    ("first last observed", pa.int64()),
)
_WANTED: Final = Wanted(
    "transfers",
    {
        **dict.fromkeys(("id", "profile_id", "asset", "direction", "type", "status"), TEXT),
        **dict.fromkeys(("amount", "fee", "total"), MONEY),
        **dict.fromkeys(("created_at", "updated_at"), TIME),
    },
    dict.fromkeys(("balance_asset", "group_id", "ref_id", "crypto_network"), TEXT),
)
_OBSERVED: Final = Wanted("assertions", REPORTED.columns)
_DIFFERENCES: Final = Wanted(
    "assertions", {"profile_id": TEXT, "asset": TEXT, "difference": MONEY, "observed_at": TIME}
)
_BEGINNING, _NOW = -(2**63), 2**63 - 1
_TOO_LARGE: Final = 10**38
"""The first amount in units that no column holds."""
_KIND: Final = ("type", "sent", "network")
_ALIKE: Final = MOST_FEES + 1
"""How many rows of one amount or fee are looked at: more would say no more."""
_DIGITS: Final = 40


def explain(
    transfers: FrameT, reported: object, assertions: object = None, opening: object = None
) -> FrameT:
    """``profile_id``, ``asset``, ``difference``, ``rank`` (int64, 1 the likeliest), ``cause``,
    ``transfer_id``, ``amount``, ``detail``, sorted: what could make each break, a difference that
    :func:`compare` finds; empty when everything matches, and where ``until=`` cut off rows.

    ``assertions`` are balances observed over time: ``store.read("balances")`` (the columns of
    ``reported``), or ``store.assertions()`` of a store that has every transfer, which knows what
    each differed by. With them each difference is narrowed to the interval between the last
    observation that agreed and the first that did not, several in one balance are separated
    (``difference`` is then that of the interval), and one that came and went is found too. Of
    plain observations, past balances are rebuilt from when transfers were made, completed or
    failed (``updated_at``). For ``transfers`` that are not the store's own rows (a copy of them,
    altered or older) give the plain observations: ``store.assertions()`` knows only how the store's
    own rows differed, and would narrow to where those agreed.

    A cause is listed only if its ``amount`` (reported less rebuilt) is exactly the difference.
    Causes stand in the order of :data:`fundlab.analysis.causes.CAUSES`, the best of each first;
    ``missing_transfer`` always is one of them. ``transfer_id`` is missing where no transfer is to
    blame, or too many look alike. Give all transfers, not only those of the profiles that differ:
    the other half of an internal transfer and the fees that others pay may be in sound profiles.
    The rows of the balances that differ are held in memory, as Arrow columns. Raises
    :class:`AnalysisError` as :func:`compare` does.

    >>> reported = pd.DataFrame(
    ...     {
    ...         "profile_id": ["main", "spare"],
    ...         "asset": "USD",
    ...         "available": pd.array(["614.50", "60"], dtype="decimal"),
    ...         "trading": pd.array(["0", "0"], dtype="decimal"),
    ...         "observed_at": pd.Timestamp("2026-10-31", tz="UTC"),
    ...     }
    ... )
    >>> known = transfers[transfers["id"] != "t3"]
    >>> causes = fl.reconcile.explain(known, reported)
    >>> causes[["profile_id", "difference", "cause", "amount"]].head(1)
      profile_id  difference         cause  amount
    0       main         -60  missing_half     -60
    >>> print(causes["detail"].iloc[0])
    the debit half of group g1 is missing; t4 is there
    """
    of_transfers, of_balances = known_of(transfers, "transfers"), known_of(reported, "balances")
    moved = moved_since(of_transfers, of_balances)
    with Workbench(transfers) as bench:
        sides = bench.collect(compared(bench, transfers, reported, opening, moved)).to_pylist()
        observed = _observations(bench, reported, assertions)
        opened = bench.collect(opening_balances(bench, opening))
        rows = search_columns(bench.take(transfers, _WANTED))
        past = moved_until(bench, rows, observed)
        cut = unknown_status(of_transfers, of_balances, opening) is not None
        breaks = [] if cut else [*find_breaks(sides, observed, opened, past)]
        # Most balances higher at the service: as where earlier transfers are not there.
        known = [side for side in sides if side["rebuilt"] is not None]
        higher = sum(side["difference"] > 0 for side in known)
        begins_late = len(known) >= FEW_BALANCES and 2 * higher > len(known)
        evidence = gather_evidence(bench, rows, breaks, opened, begins_late)
        lines = [
            (*(found.profile_id, found.asset), of_units(found.difference), rank, cause.cause,
             cause.transfer_id, of_units(cause.amount), cause.detail)
            for at, found in enumerate(breaks)
            for rank, cause in enumerate(find_causes(found, at, evidence), start=1)
        ]  # fmt: skip
        return bench.give(exact_table(EXPLAINED, lines), EXPLAINED)


# ------------------------------------------------------------------- which interval, how much


def _observations(
    bench: Workbench[Any], reported: object, assertions: object
) -> Mapping[Pair, list[dict[str, Any]]]:
    """Every observed balance by profile and asset, oldest first."""
    if assertions is None:
        frames = [(reported, REPORTED)]
    elif "difference" in column_names(assertions):
        frames = [(assertions, _DIFFERENCES)]
    else:
        frames = [(assertions, _OBSERVED), (reported, REPORTED)]
    observations: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for frame, want in frames:
        rows = bench.take(frame, want)
        refuse(bench, rows, want.columns, want.frame)
        for row in bench.collect(rows).to_pylist():
            entry = {"at": row["observed_at"], "trading": 0}
            if want is _DIFFERENCES:
                entry["difference"] = in_units(row["difference"])
            else:
                entry["trading"] = in_units(row["trading"])
                entry["total"] = in_units(row["available"]) + entry["trading"]
            if entry not in observations[row["profile_id"], row["asset"]]:
                observations[row["profile_id"], row["asset"]].append(entry)
    for entries in observations.values():
        entries.sort(key=lambda entry: entry["at"])
    return observations


def search_columns(taken: Rows) -> Rows:
    """The columns of :class:`Row`: ``asset`` is the one that moves, ``sent`` that of the transfer;
    ``signed`` is what the row would add if it counted, ``counted`` what it adds."""
    rows = taken.with_columns(sent=nw.col("asset"), asset=moved_asset(), change=change())
    texts = {
        "type": "type",
        "network": "crypto_network",
        "group_id": "group_id",
        "ref_id": "ref_id",
    }
    return rows.select(
        "id", "profile_id", "asset", "sent", "direction", "status",
        **{name: nw.coalesce(nw.col(column), nw.lit("")) for name, column in texts.items()},
        **{name: nw.coalesce(nw.col(name), ZERO) for name in ("amount", "fee", "total")},
        created=nw.coalesce(nw.col("created_at"), nw.lit(0)),
        updated=nw.coalesce(nw.col("updated_at"), nw.col("created_at"), nw.lit(0)),
        signed=nw.coalesce(nw.col("change"), ZERO),
        counted=nw.when(counts("available")).then(nw.col("change")).otherwise(ZERO),
    )  # fmt: skip


def moved_until(
    bench: Workbench[Any], rows: Rows, observed: Mapping[Pair, Sequence[dict[str, Any]]]
) -> Mapping[tuple[str, str, int], int]:
    """What had moved each balance that was observed several times by each of those moments of
    which the difference is not known yet, as far as a row says: credits when they completed,
    debits from when they were made, given back when they failed."""
    moments = exact_table(
        _MOMENT,
        [
            (*pair, entry["at"])
            for pair, entries in observed.items()
            if len(entries) > 1
            for entry in entries
            if "difference" not in entry
        ],
    )
    if not moments.num_rows:
        return {}
    credit = nw.col("direction") == "CREDIT"
    pairs = bench.constant(moments.group_by([*KEYS]).aggregate([]))
    theirs = rows.join(pairs, on=[*KEYS], how="semi")
    asked = bench.constant(moments).select(*KEYS, "at", signed=ZERO, turn=nw.lit(1))
    moves = [
        theirs.filter(credit, nw.col("counted") != 0).select(*KEYS, "signed", at="updated"),
        theirs.filter(~credit).select(*KEYS, "signed", at="created"),
        theirs.filter(~credit, nw.col("status") == "FAILED").select(
            *KEYS, signed=ZERO - nw.col("signed"), at="updated"
        ),
    ]
    course = nw.concat(
        [*(m.with_columns(turn=nw.lit(0)).select(*asked.columns) for m in moves), asked]
    )
    steps = course.group_by(*KEYS, "at", "turn").agg(nw.col("signed").sum())
    moved = nw.col("signed").cum_sum().over(*KEYS, order_by=["at", "turn"])
    last_steps = steps.with_columns(moved=moved).filter(nw.col("turn") == 1)
    return {
        (row["profile_id"], row["asset"], row["at"]): in_units(row["moved"])
        for row in bench.collect(last_steps.select(*KEYS, "at", "moved")).to_pylist()
    }


def find_breaks(
    sides: Sequence[Mapping[str, Any]],
    observed: Mapping[Pair, Sequence[dict[str, Any]]],
    opened: pa.Table,
    past: Mapping[tuple[str, str, int], int],
) -> Iterator[Break]:
    """Of each balance what it differs by; where it was observed several times, each interval over
    which that changes."""
    openings = {
        (row["profile_id"], row["asset"]): in_units(row["opened"]) for row in opened.to_pylist()
    }
    for side in sorted(sides, key=lambda side: (side["profile_id"], side["asset"])):
        pair = side["profile_id"], side["asset"]
        entries = observed.get(pair, ())
        total, trading = in_units(side["difference"]), entries[-1]["trading"] if entries else 0
        if len(entries) <= 1:
            at = entries[-1]["at"] if entries else None
            reported = side["reported"] is not None
            if total:
                yield Break(*pair, total, observed=at, reported=reported, trading=trading)
            continue
        before, first = 0, None
        for entry in entries:
            now = entry.get("difference")
            if now is None:
                now = entry["total"] - openings.get(pair, 0) - past[*pair, entry["at"]]
            if now != before:
                yield Break(
                    *pair, now - before, first, entry["at"], entry["at"], trading=entry["trading"]
                )
            before, first = now, entry["at"]
        if total != before:
            yield Break(*pair, total - before, first, None, first, trading=trading)


# ----------------------------------------------------------------------- which rows, of many


def gather_evidence(
    bench: Workbench[Any],
    rows: Rows,
    breaks: Sequence[Break],
    opened: pa.Table,
    begins_late: bool,
) -> Evidence:
    """Everything that causes of ``breaks`` are looked for in.

    The caller's engine is asked once for the rows of the balances that differ; from then on they
    are searched as Arrow columns in memory, wherever they came from."""
    if not breaks:
        return Evidence((), (), (), {}, (), begins_late)
    differ = exact_table(
        _BREAK,
        [
            (number, broken.profile_id, broken.asset, of_units(broken.difference),
             _BEGINNING if broken.first is None else broken.first,
             *(_NOW if at is None else at for at in (broken.last, broken.observed)))
            for number, broken in enumerate(breaks)
        ],
    )  # fmt: skip
    pairs = bench.constant(differ).select(*KEYS).unique()
    here = rows.join(pairs, on=[*KEYS], how="semi")
    elsewhere = (
        rows.filter(nw.col("sent") != nw.col("asset"))
        .join(pairs, on=[*KEYS], how="anti")
        .join(pairs, left_on=["profile_id", "sent"], right_on=[*KEYS], how="semi")
    )
    theirs = bench.collect(nw.concat([here, elsewhere]))
    # Halves of internal transfers that are alone, or differ in their totals.
    halves = rows.filter(is_half())
    groups = halves.group_by("group_id").agg(
        first=nw.col("type").min(),
        last=nw.col("type").max(),
        low=nw.col("total").min(),
        high=nw.col("total").max(),
    )
    odd = (
        groups.with_columns(alone=nw.col("first") == nw.col("last"))
        .filter(nw.col("alone") | (nw.col("low") != nw.col("high")))
        .select("group_id", "alone")
    )
    odd_halves = bench.collect(halves.join(odd, on="group_id", how="inner"))
    usual = bench.collect(fee_shares(rows.filter(nw.col("counted") != 0), _KIND).filter("usual"))
    with Workbench(theirs) as own:
        search = _Search(own, theirs, odd_halves, usual, breaks, differ)
        facts = search.facts(opened)
        if theirs.num_rows + odd_halves.num_rows > SEARCHED_FROM:
            tables = [own.collect(found) for found in search.candidates(facts)]
        else:
            tables = [
                table.select(theirs.column_names).append_column("number", pa.nulls(table.num_rows))
                for table in (theirs, odd_halves)
            ]
    # Each row once, however many searches found it; rows that are there twice, twice. In order of
    # time, ties by all that they hold.
    copies: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        numbers = table.column("number").to_pylist()
        lines = _rows_in_units(table.drop_columns(["number"]))
        mine = Counter(zip(numbers, (tuple(row.items()) for row in lines), strict=True))
        for (_, line), times in mine.items():
            copies[line] = max(copies[line], times)
    each = sorted(map(dict, copies.elements()), key=lambda row: (row["created"], str(row)))
    candidates = [Row(**row, place=position) for position, row in enumerate(each)]
    fees: dict[Kind, dict[int, int]] = defaultdict(dict)
    for row in _rows_in_units(usual):
        fees[row["type"], row["sent"], row["network"]][row["fee"]] = row["times"]
    alone = odd_halves.filter(odd_halves.column("alone")).column("group_id")
    return Evidence(
        candidates, breaks, facts, fees, sorted(pc.unique(alone).to_pylist()), begins_late
    )


class _Search:
    """The rows of the balances that differ, in an engine of our own."""

    def __init__(
        self,
        bench: Workbench[Any],
        theirs: pa.Table,
        halves: pa.Table,
        usual: pa.Table,
        breaks: Sequence[Break],
        differ: pa.Table,
    ) -> None:
        self.bench, self.breaks, self.halves, self.usual = bench, breaks, halves, usual
        self.converted = pc.any(pc.not_equal(theirs.column("sent"), theirs.column("asset"))).as_py()
        self._columns = theirs.column_names
        self._every = bench.constant(theirs)
        self._differ = bench.constant(differ)
        self._theirs = self._every.join(self._differ, on=[*KEYS], how="semi")
        within = [
            (nw.col(moment) > nw.col("first")) & (nw.col(moment) <= nw.col("last"))
            for moment in ("created", "updated")
        ]
        self._joined = self._every.join(self._differ, on=[*KEYS], how="inner").with_columns(
            inside=within[0] | within[1]
        )

    def candidates(self, facts: Sequence[Facts]) -> Iterator[Rows]:
        """Every candidate with the ``number`` of its difference, which may be found twice."""
        counting = self._joined.filter("inside", nw.col("counted") != 0)
        for found in (
            self.noticeable(facts), self.odd_fees(counting), *self.transposed(counting)
        ):  # fmt: skip
            yield found.select(*self._columns, "number")
        for found in (*self.copies(), *self.conversions(), *self.of_groups()):
            yield found.select(*self._columns, number=nw.lit(None).cast(nw.Int64))

    def noticeable(self, facts: Sequence[Facts]) -> Rows:
        """Rows that only have to be looked at themselves; in the order of these reasons, of which
        each brings the latest."""
        rows = self._joined.filter("inside")
        for column, targets in _targets(self.breaks).items():
            fitting = self.bench.constant(targets).with_columns(**{f"{column} fits": nw.lit(True)})
            rows = rows.join(fitting, on=["number", column], how="left")
        contradicts_itself = ~has_right_total()
        for direction in Direction:
            contradicts_itself = contradicts_itself | goes_against_its_type(direction)
        few = [number for number, fact in enumerate(facts) if fact.counting <= MAX_SUSPECTS]
        reasons = (
            nw.col("signed fits"),
            nw.col("amount fits"),
            contradicts_itself,
            nw.col("number").is_in(few),
            nw.col("fee fits"),
            nw.col("status").is_in(["FAILED", "PENDING"]),
        )
        reason = nw.lit(len(reasons))
        for place in reversed(range(len(reasons))):
            applies = nw.coalesce(reasons[place], nw.lit(False))
            reason = nw.when(applies).then(nw.lit(place)).otherwise(reason)
        odd_rows = rows.with_columns(reason=reason).filter(nw.col("reason") < len(reasons))
        return _latest(odd_rows, MAX_TOGETHER, "number", "reason")

    def copies(self) -> Iterator[Rows]:
        counting = self._theirs.filter(nw.col("counted") != 0)
        for look in LOOKS:
            named = counting.filter(nw.col(look[0]) != "")
            key = [*KEYS, *look]
            often = named.group_by(*key).agg(copies=nw.len()).filter(nw.col("copies") > 1)
            yield named.join(often, on=key, how="semi")

    def conversions(self) -> Iterator[Rows]:
        """Rows sent in the asset that differs, but booked on another one."""
        if self.converted:
            differ = self._differ.select("profile_id", sent="asset", counted="difference")
            sent = self._every.filter(nw.col("sent") != nw.col("asset"))
            same = ["profile_id", "sent", "counted"]
            yield _latest(sent.join(differ, on=same, how="semi"), _ALIKE, *same)

    def of_groups(self) -> Iterator[Rows]:
        """Halves that differ from those of theirs, and halves that are alone anywhere."""
        if self.halves.num_rows:
            halves = self.bench.constant(self.halves)
            groups = self._theirs.select("group_id").unique()
            yield halves.filter(~nw.col("alone")).join(groups, on="group_id", how="semi")
            alone = halves.filter(nw.col("alone"), nw.col("counted") != 0)
            missing = self._differ.select("asset", counted=ZERO - nw.col("difference"))
            same = ["asset", "counted"]
            yield _latest(alone.join(missing, on=same, how="semi"), _ALIKE, *same)
            others = alone.join(missing, on=same, how="anti")
            yield _latest(others.join(self._differ, on="asset", how="semi"), MAX_TOGETHER, "asset")

    def odd_fees(self, counting: Rows) -> Rows:
        """Rows with a fee that is not the usual one of their kind, where one of them, or all that
        pay the same fee, make the difference."""
        usual = self.bench.constant(self.usual).select(*_KIND, usual="fee")
        odd = counting.join(usual, on=[*_KIND], how="inner").filter(
            nw.col("fee") != nw.col("usual")
        )
        odd = odd.with_columns(away=nw.col("fee") - nw.col("usual"))
        same = ["number", *_KIND, "fee", "usual"]
        sums = odd.group_by(*same).agg(
            every=nw.col("away").sum(), away=nw.col("away").min(), wanted=nw.col("difference").min()
        )
        hits = sums.filter(
            (nw.col("every") == nw.col("wanted")) | (nw.col("away") == nw.col("wanted"))
        )
        return _latest(odd.join(hits, on=same, how="semi"), _ALIKE, *same)

    def transposed(self, counting: Rows) -> Iterator[Rows]:
        """Rows of which two neighbouring digits, changing places, would make the difference."""
        lines: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        for number, broken in enumerate(self.breaks):
            for direction, away in (("CREDIT", broken.difference), ("DEBIT", -broken.difference)):
                place, pairs = transposed(away)
                for pair in pairs:
                    lines[place].append((number, direction, pair))
        for place, found in lines.items():
            columns = dict(
                zip(("number", "direction", "digits"), zip(*found, strict=True), strict=True)
            )
            wanted = self.bench.constant(pa.table(columns))
            for name in ("amount", "total"):
                digits = nw.col(name).cast(nw.String).str.replace_all(".", "", literal=True)
                padded = nw.concat_str([nw.lit("0" * _DIGITS), digits])
                there = counting.with_columns(digits=padded.str.slice(-(place + 2), 2))
                alike = there.join(wanted, on=["number", "direction", "digits"], how="semi")
                yield _latest(alike, MAX_SUSPECTS + 1, "number")

    def facts(self, opened: pa.Table) -> Sequence[Facts]:
        """What is true of all rows of a difference, as one figure each."""
        inside, counting = nw.col("inside"), nw.col("counted") != 0
        pending, credit = nw.col("status") == "PENDING", nw.col("direction") == "CREDIT"
        moved = nw.when(credit).then(nw.col("updated")).otherwise(nw.col("created"))
        sets = {
            "counting": inside & counting,
            "waiting": inside & pending & credit,
            "held": inside & pending & ~credit,
            "after": counting & (moved > nw.col("observed")),
        }
        rows = self._joined.with_columns(
            **{
                name: nw.when(those).then(nw.lit(1)).otherwise(nw.lit(0))
                for name, those in sets.items()
            },
            **{
                f"{name}_sum": nw.when(those).then(nw.col("signed")).otherwise(ZERO)
                for name, those in sets.items()
            },
            after_id=nw.when(sets["after"]).then(nw.col("id")),
        )
        sums = rows.group_by("number").agg(
            *(nw.col(name).sum().cast(nw.Int64) for name in sets),
            *(nw.col(f"{name}_sum").sum() for name in sets if name != "counting"),
            nw.col("after_id").min(),
        )
        facts = {row.pop("number"): row for row in _rows_in_units(self.bench.collect(sums))}
        # When each balance began to move, how low it ever was and since when below zero, as
        # balances.running has it in the view "available"; moments count as one.
        steps = (
            self._theirs.filter(nw.col("counted") != 0)
            .group_by(*KEYS, "created")
            .agg(nw.col("counted").sum())
        )
        course = (
            steps.with_columns(moved=nw.col("counted").cum_sum().over(*KEYS, order_by="created"))
            .join(self.bench.constant(opened), on=[*KEYS], how="left")
            .with_columns(opened=nw.coalesce("opened", ZERO))
            .with_columns(balance=nw.col("opened") + nw.col("moved"))
        )
        below = nw.when(nw.col("balance") < 0).then(nw.col("created"))
        ends = (
            course.with_columns(below=below)
            .group_by(*KEYS)
            .agg(
                opened=nw.col("opened").min(),
                begun=nw.col("created").min(),
                lowest=nw.col("balance").min(),
                below=nw.col("below").min(),
            )
        )
        lows = {
            (row.pop("profile_id"), row.pop("asset")): row
            for row in _rows_in_units(self.bench.collect(ends))
        }
        return [
            Facts(**facts.get(number, {}), **lows.get((broken.profile_id, broken.asset), {}))
            for number, broken in enumerate(self.breaks)
        ]


def _latest(rows: Rows, most: int, *by: str) -> Rows:
    """At most so many of each: the latest, ties by ``id``."""
    placed = rows.with_columns(one=nw.lit(1), age=0 - nw.col("created"))
    turn = nw.col("one").cum_sum().over(*by, order_by=["age", "id"])
    return placed.with_columns(turn=turn).filter(nw.col("turn") <= most)


def _targets(breaks: Iterable[Break]) -> Mapping[str, pa.Table]:
    """Of each break the values of a column that would explain it."""
    lines: dict[str, list[tuple[int, int]]] = {"signed": [], "amount": [], "fee": []}
    for number, broken in enumerate(breaks):
        away = broken.difference
        signed = {away, -away, *(part for part in _parts(-away, 2))}
        for shift in SHIFTS:
            signed.update(_parts(away, 10**shift - 1))
            signed.update(_parts(-away * 10**shift, 10**shift - 1))
        fees = {part for times in range(1, MOST_FEES + 1) for part in _parts(abs(away), times)}
        for column, values in (
            ("signed", signed), ("amount", _parts(abs(away), 2)), ("fee", fees),
        ):  # fmt: skip
            lines[column] += [(number, value) for value in values if abs(value) < _TOO_LARGE]
    return {
        column: pa.table(
            {
                "number": pa.array([number for number, _ in found], pa.int64()),
                column: pa.array([of_units(value) for _, value in found], AMOUNT_TYPE),
            }
        )
        for column, found in lines.items()
    }


def _parts(amount: int, of: int) -> tuple[int, ...]:
    """``amount / of``, where that is a whole number of units."""
    return () if amount % of else (amount // of,)


def _rows_in_units(table: pa.Table) -> list[dict[str, Any]]:
    """The rows with money as whole units."""
    columns = {
        name: [in_units(value) for value in column.to_pylist()]
        if pa.types.is_decimal(column.type)
        else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
