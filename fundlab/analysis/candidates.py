"""The few rows, of many, that could have made a difference: found by the engine.

Everything here is a search that may find too much and must not miss; what a row then explains is
judged by :mod:`fundlab.analysis.causes`. Each search is one expression and keeps at most a bounded
number of rows for each difference, except for copies, whose number is part of the answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis import rows as counted
from fundlab.analysis.anomalies import fee_shares
from fundlab.analysis.causes import (
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
    transposed,
)
from fundlab.analysis.engines import MONEY_TYPE, Workbench
from fundlab.analysis.rows import KEYS
from fundlab.analysis.units import decimal, units
from fundlab.models import INTERNAL_TYPES, TransferType
from fundlab.transfers import Rows, counts

_BEGINNING, _NOW = -(2**63), 2**63 - 1
_END: Final = 10**38
"""The first amount in units that no column holds."""
_KIND: Final = ("type", "sent", "network")
_ALIKE: Final = MOST_FEES + 1
"""How many rows of one amount or fee are looked at: more tell no more."""
_DIGITS: Final = 40
SEARCHED_FROM: Final = 2_000
"""Fewer rows are all looked at, which takes less time than to ask for some of them."""


def narrowed(taken: Rows) -> Rows:
    """The columns of :class:`Row`: ``asset`` is the one that moves, ``sent`` that of the transfer;
    ``signed`` is what the row would add if it counted, ``counted`` what it adds."""
    zero = counted.zero()
    named = counted.with_change(taken.with_columns(sent=nw.col("asset")))
    return named.select(
        "id", "profile_id", "asset", "sent", "direction", "status",
        type=nw.coalesce(nw.col("type"), nw.lit("")),
        network=nw.coalesce(nw.col("crypto_network"), nw.lit("")),
        group_id=nw.coalesce(nw.col("group_id"), nw.lit("")),
        ref_id=nw.coalesce(nw.col("ref_id"), nw.lit("")),
        amount=nw.coalesce(nw.col("amount"), zero),
        fee=nw.coalesce(nw.col("fee"), zero),
        total=nw.coalesce(nw.col("total"), zero),
        created=nw.coalesce(nw.col("created_at"), nw.lit(0)),
        updated=nw.coalesce(nw.col("updated_at"), nw.col("created_at"), nw.lit(0)),
        signed=nw.coalesce(nw.col("change"), zero),
        counted=nw.when(counts("available")).then(nw.col("change")).otherwise(zero),
    )  # fmt: skip


def rebuilt_at(
    bench: Workbench, rows: Rows, observed: pa.Table
) -> Mapping[tuple[str, str, int], int]:
    """What had moved each balance by each moment of ``observed`` (``profile_id``, ``asset``,
    ``at``), as far as a row tells: credits when they completed, debits from when they were made,
    given back when they failed."""
    if not observed.num_rows:
        return {}
    zero = counted.zero()
    credit = nw.col("direction") == "CREDIT"
    pairs = bench.constant(observed.group_by([*KEYS]).aggregate([]))
    theirs = rows.join(pairs, on=[*KEYS], how="semi")
    moves = nw.concat(
        [
            theirs.filter(credit, nw.col("counted") != 0).select(*KEYS, "signed", at="updated"),
            theirs.filter(~credit).select(*KEYS, "signed", at="created"),
            theirs.filter(~credit, nw.col("status") == "FAILED").select(
                *KEYS, signed=zero - nw.col("signed"), at="updated"
            ),
        ]
    )
    moments = bench.constant(observed).select(*KEYS, "at", signed=zero, turn=nw.lit(1))
    course = nw.concat([moves.with_columns(turn=nw.lit(0)).select(*moments.columns), moments])
    steps = course.group_by(*KEYS, "at", "turn").agg(nw.col("signed").sum())
    moved = nw.col("signed").cum_sum().over(*KEYS, order_by=["at", "turn"])
    found = steps.with_columns(moved=moved).filter(nw.col("turn") == 1)
    return {
        (row["profile_id"], row["asset"], row["at"]): units(row["moved"])
        for row in bench.collect(found.select(*KEYS, "at", "moved")).to_pylist()
    }


def evidence(
    bench: Workbench,
    rows: Rows,
    breaks: Sequence[Break],
    opened: pa.Table,
    *,
    begins_late: bool,
) -> Evidence:
    """Everything that causes of ``breaks`` are looked for in.

    The caller's engine is asked once for the rows of the balances that differ; from then on they
    are searched as Arrow columns in memory, wherever they came from."""
    if not breaks:
        return Evidence((), (), (), {}, (), begins_late)
    differ = bench.constant(_keyed(breaks))
    pairs = differ.select(*KEYS).unique()
    here = rows.join(pairs, on=[*KEYS], how="semi")
    elsewhere = (
        rows.filter(nw.col("sent") != nw.col("asset"))
        .join(pairs, on=[*KEYS], how="anti")
        .join(pairs, left_on=["profile_id", "sent"], right_on=[*KEYS], how="semi")
    )
    theirs = bench.collect(nw.concat([here, elsewhere]))
    halves = bench.collect(_odd_halves(rows))
    usual = bench.collect(fee_shares(rows.filter(nw.col("counted") != 0), _KIND).filter("usual"))
    with Workbench(theirs) as own:
        search = _Search(own, theirs, halves, usual, breaks)
        facts = search.facts(opened)
        if theirs.num_rows + halves.num_rows > SEARCHED_FROM:
            tables = [own.collect(found) for found in search.candidates(facts)]
        else:
            tables = [
                table.select(theirs.column_names).append_column("number", pa.nulls(table.num_rows))
                for table in (theirs, halves)
            ]
        alone = pc.unique(halves.filter(halves.column("alone")).column("group_id")).to_pylist()
        fees = _fees_of_kinds(usual)
        return Evidence(_rows(tables), breaks, facts, fees, sorted(alone), begins_late)


class _Search:
    """The rows of the balances that differ, in an engine of our own."""

    def __init__(
        self,
        bench: Workbench,
        theirs: pa.Table,
        halves: pa.Table,
        usual: pa.Table,
        breaks: Sequence[Break],
    ) -> None:
        self.bench, self.breaks, self.halves, self.usual = bench, breaks, halves, usual
        self.converted = pc.any(pc.not_equal(theirs.column("sent"), theirs.column("asset"))).as_py()
        self._columns = theirs.column_names
        self._every = bench.constant(theirs)
        self._differ = bench.constant(_keyed(breaks))
        self._theirs = self._every.join(self._differ, on=[*KEYS], how="semi")
        self._joined = self._every.join(self._differ, on=[*KEYS], how="inner").with_columns(
            inside=_within("created") | _within("updated")
        )
        self._inside = self._joined.filter("inside")

    def candidates(self, facts: Sequence[Facts]) -> Iterator[Rows]:
        """Every candidate with the ``number`` of its difference, which may be found twice."""
        counting = self._inside.filter(nw.col("counted") != 0)
        yield self._marked(facts).select(*self._columns, "number")
        yield self._odd_fees(counting).select(*self._columns, "number")
        for found in self._transposed(counting):
            yield found.select(*self._columns, "number")
        for found in (*self._copies(), *self._conversions(), *self._of_groups()):
            yield found.select(*self._columns, number=nw.lit(None).cast(nw.Int64))

    def _marked(self, facts: Sequence[Facts]) -> Rows:
        """Rows that only have to be looked at themselves; in the order of these reasons, of which
        each brings the latest."""
        rows = self._inside
        for column, targets in _targets(self.breaks).items():
            marked = self.bench.constant(targets).with_columns(**{f"{column} fits": nw.lit(True)})
            rows = rows.join(marked, on=["number", column], how="left")
        few = [number for number, fact in enumerate(facts) if fact.counting <= MAX_SUSPECTS]
        reasons = (
            nw.col("signed fits"),
            nw.col("amount fits"),
            _contradicts_itself(),
            nw.col("number").is_in(few),
            nw.col("fee fits"),
            nw.col("status").is_in(["FAILED", "PENDING"]),
        )
        reason = nw.lit(len(reasons))
        for place in reversed(range(len(reasons))):
            applies = nw.coalesce(reasons[place], nw.lit(False))
            reason = nw.when(applies).then(nw.lit(place)).otherwise(reason)
        found = rows.with_columns(reason=reason).filter(nw.col("reason") < len(reasons))
        return _latest(found, MAX_TOGETHER, "number", "reason")

    def _copies(self) -> Iterator[Rows]:
        counting = self._theirs.filter(nw.col("counted") != 0)
        for look in LOOKS:
            named = counting.filter(nw.col(look[0]) != "")
            key = [*KEYS, *look]
            often = named.group_by(*key).agg(copies=nw.len()).filter(nw.col("copies") > 1)
            yield named.join(often, on=key, how="semi")

    def _conversions(self) -> Iterator[Rows]:
        """Rows sent in the asset that differs, but booked on another one."""
        if self.converted:
            differ = self._differ.select("profile_id", sent="asset", counted="difference")
            sent = self._every.filter(nw.col("sent") != nw.col("asset"))
            same = ["profile_id", "sent", "counted"]
            yield _latest(sent.join(differ, on=same, how="semi"), _ALIKE, *same)

    def _of_groups(self) -> Iterator[Rows]:
        """Halves that differ from those of theirs, and halves that are alone anywhere."""
        if self.halves.num_rows:
            halves = self.bench.constant(self.halves)
            groups = self._theirs.select("group_id").unique()
            yield halves.filter(~nw.col("alone")).join(groups, on="group_id", how="semi")
            alone = halves.filter(nw.col("alone"), nw.col("counted") != 0)
            missing = self._differ.select("asset", counted=counted.zero() - nw.col("difference"))
            same = ["asset", "counted"]
            yield _latest(alone.join(missing, on=same, how="semi"), _ALIKE, *same)
            others = alone.join(missing, on=same, how="anti")
            yield _latest(others.join(self._differ, on="asset", how="semi"), MAX_TOGETHER, "asset")

    def _odd_fees(self, counting: Rows) -> Rows:
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

    def _transposed(self, counting: Rows) -> Iterator[Rows]:
        """Rows of which two neighbouring digits, changing places, would make the difference."""
        lines: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
        for number, one in enumerate(self.breaks):
            for direction, away in (("CREDIT", one.difference), ("DEBIT", -one.difference)):
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
                f"{name}_sum": nw.when(those).then(nw.col("signed")).otherwise(counted.zero())
                for name, those in sets.items()
            },
            after_id=nw.when(sets["after"]).then(nw.col("id")),
        )
        sums = rows.group_by("number").agg(
            *(nw.col(name).sum().cast(nw.Int64) for name in sets),
            *(nw.col(f"{name}_sum").sum() for name in sets if name != "counting"),
            nw.col("after_id").min(),
        )
        found = {row.pop("number"): row for row in _in_units(self.bench.collect(sums))}
        lows = self._lows(opened)
        return [
            Facts(**found.get(number, {}), **lows.get((one.profile_id, one.asset), {}))
            for number, one in enumerate(self.breaks)
        ]

    def _lows(self, opened: pa.Table) -> Mapping[Pair, dict[str, Any]]:
        """When each balance began to move, how low it ever was and since when below zero, as
        ``balances.running`` has it in the view ``available``; moments count as one."""
        counting = self._theirs.filter(nw.col("counted") != 0)
        steps = counting.group_by(*KEYS, "created").agg(nw.col("counted").sum())
        opening = self.bench.constant(opened)
        moved = nw.col("counted").cum_sum().over(*KEYS, order_by="created")
        course = steps.with_columns(moved=moved).join(opening, on=[*KEYS], how="left")
        course = course.with_columns(opened=nw.coalesce("opened", counted.zero())).with_columns(
            balance=nw.col("opened") + nw.col("moved")
        )
        below = nw.when(nw.col("balance") < 0).then(nw.col("created"))
        lows = (
            course.with_columns(below=below)
            .group_by(*KEYS)
            .agg(
                opened=nw.col("opened").min(),
                begun=nw.col("created").min(),
                lowest=nw.col("balance").min(),
                below=nw.col("below").min(),
            )
        )
        return {
            (row.pop("profile_id"), row.pop("asset")): row
            for row in _in_units(self.bench.collect(lows))
        }


def _odd_halves(rows: Rows) -> Rows:
    """Halves of internal transfers that are ``alone``, or differ in their totals."""
    internal = rows.filter(nw.col("type").is_in(INTERNAL_TYPES), nw.col("group_id") != "")
    sides = internal.group_by("group_id").agg(
        first=nw.col("type").min(),
        last=nw.col("type").max(),
        low=nw.col("total").min(),
        high=nw.col("total").max(),
    )
    sides = sides.with_columns(alone=nw.col("first") == nw.col("last"))
    odd = sides.filter(nw.col("alone") | (nw.col("low") != nw.col("high"))).select(
        "group_id", "alone"
    )
    return internal.join(odd, on="group_id", how="inner")


def _contradicts_itself() -> nw.Expr:
    """A type that goes the other way, or a total that is not amount and fee; so written that no
    amount of the interface overflows."""
    amount, fee, total = (nw.col(name) for name in ("amount", "fee", "total"))
    right = nw.when(nw.col("direction") == "CREDIT").then(amount - fee == total)
    wrong = ~right.otherwise(total - fee == amount)
    for direction in ("CREDIT", "DEBIT"):
        kinds = [kind.value for kind in TransferType if kind.direction == direction]
        wrong = wrong | (nw.col("type").is_in(kinds) & (nw.col("direction") != direction))
    return wrong


def _within(moment: str) -> nw.Expr:
    return (nw.col(moment) > nw.col("first")) & (nw.col(moment) <= nw.col("last"))


def _latest(rows: Rows, most: int, *by: str) -> Rows:
    """At most so many of each: the latest, ties by ``id``."""
    placed = rows.with_columns(one=nw.lit(1), age=0 - nw.col("created"))
    turn = nw.col("one").cum_sum().over(*by, order_by=["age", "id"])
    return placed.with_columns(turn=turn).filter(nw.col("turn") <= most)


def _keyed(breaks: Sequence[Break]) -> pa.Table:
    """The breaks as a table: what rows are joined with."""
    return pa.table(
        {
            "number": pa.array([*range(len(breaks))], pa.int64()),
            "profile_id": pa.array([one.profile_id for one in breaks], pa.string()),
            "asset": pa.array([one.asset for one in breaks], pa.string()),
            "difference": pa.array([decimal(one.difference) for one in breaks], MONEY_TYPE),
            "first": [_BEGINNING if one.first is None else one.first for one in breaks],
            "last": [_NOW if one.last is None else one.last for one in breaks],
            "observed": [_NOW if one.observed is None else one.observed for one in breaks],
        }
    )


def _targets(breaks: Iterable[Break]) -> Mapping[str, pa.Table]:
    """Of each break the values of a column that would explain it."""
    lines: dict[str, list[tuple[int, int]]] = {"signed": [], "amount": [], "fee": []}
    for number, one in enumerate(breaks):
        away = one.difference
        signed = {away, -away, *(part for part in _parts(-away, 2))}
        for shift in SHIFTS:
            signed.update(_parts(away, 10**shift - 1))
            signed.update(_parts(-away * 10**shift, 10**shift - 1))
        fees = {part for times in range(1, MOST_FEES + 1) for part in _parts(abs(away), times)}
        for column, values in (
            ("signed", signed), ("amount", _parts(abs(away), 2)), ("fee", fees),
        ):  # fmt: skip
            lines[column] += [(number, value) for value in values if abs(value) < _END]
    return {
        column: pa.table(
            {
                "number": pa.array([number for number, _ in found], pa.int64()),
                column: pa.array([decimal(value) for _, value in found], MONEY_TYPE),
            }
        )
        for column, found in lines.items()
    }


def _parts(amount: int, of: int) -> tuple[int, ...]:
    """``amount / of``, where that is a whole number of units."""
    return () if amount % of else (amount // of,)


def _rows(tables: Iterable[pa.Table]) -> list[Row]:
    """Each row once, however many searches found it; rows that are there twice, twice. In order of
    time, ties by all that they hold."""
    found: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        numbers = table.column("number").to_pylist()
        rows = _in_units(table.drop_columns(["number"]))
        copies = Counter(zip(numbers, (tuple(row.items()) for row in rows), strict=True))
        for (_, row), number in copies.items():
            found[row] = max(found[row], number)
    each = sorted(map(dict, found.elements()), key=lambda row: (row["created"], str(row)))
    return [Row(**row, place=place) for place, row in enumerate(each)]


def _in_units(table: pa.Table) -> list[dict[str, Any]]:
    """The rows with money as whole units."""
    columns = {
        name: [units(value) for value in column.to_pylist()]
        if pa.types.is_decimal(column.type)
        else column.to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _fees_of_kinds(usual: pa.Table) -> Mapping[Kind, Mapping[int, int]]:
    found: dict[Kind, dict[int, int]] = defaultdict(dict)
    for row in _in_units(usual):
        found[row["type"], row["sent"], row["network"]][row["fee"]] = row["times"]
    return found
