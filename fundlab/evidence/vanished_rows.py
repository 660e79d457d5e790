"""What the service lists no more: rows that a pass over all of them did not bring.

Such a row stays with its last values. That it is gone, or back, stands in the store's records: one
of the kind ``pass`` for every pass that found something, with what changed in the counts and
control totals by month, type and asset. Until somebody accepts it, it counts as before and is named
by every sync, verification and report. That somebody accepts it is a record beside the closes: from
then on it is no current row, it stands in no figure, and only history has it; unless who accepts it
says that it still counts, because the service's balances still have it. Who accepts it last has
the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from decimal import Decimal
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import exact_table, groups, of_numbers
from fundlab.base.errors import StoreDamaged, listed, number_of
from fundlab.base.exact import EXACT
from fundlab.base.values import Instant, plain_text
from fundlab.store.changes import hash_texts
from fundlab.store.parts import PartReader
from fundlab.store.records import RECORDS, RESTORE, Record
from fundlab.store.snapshot import Group, Snapshot, keep
from fundlab.store.staging import Stage
from fundlab.tables.schema import INSTANT_TYPE

SWEEP_EVERY_NS: Final = 3_600 * 10**9
SWEEP_CYCLE_NS: Final = 30 * 86_400 * 10**9
"""Ordinary syncs look at old rows again, a share of them for the time since the last look: all of
them in this time."""
_LARGEST_SHARE: Final = 0.25
_TEXT: Final = pa.string()
_GONE: Final = pa.schema(
    [("table", _TEXT), ("id", _TEXT), ("gone_at", INSTANT_TYPE), ("state", _TEXT),
     ("back_at", INSTANT_TYPE), ("accepted_at", INSTANT_TYPE), ("by", _TEXT), ("reason", _TEXT),
     ("answer", _TEXT)]
)  # fmt: skip

_UNLISTED: Final = pa.schema(
    [("table", _TEXT), ("id", _TEXT), ("answer", _TEXT), ("since", INSTANT_TYPE),
     ("asked_at", INSTANT_TYPE)]
)  # fmt: skip
ANSWERS: Final = ("there", "gone", "refused")

Key = tuple[str, str, str]
"""Month, type and asset; of a table without them ``""``."""
Control = Mapping[Key, tuple[int, Decimal]]
"""How many rows, and the sum of their totals."""


@dataclass(frozen=True)
class Gone:
    """A row that the service listed no more at ``gone_at``, and what became of that: ``state`` is
    its ``answer`` to who asked for it by its id, last at ``asked_at`` (``gone``; ``there``; or
    ``refused``: it is there, but not shown to this credential), ``accepted`` (``by`` somebody, for
    a ``reason``; whether it ``counts`` since) or ``back`` (listed again)."""

    table: str
    id: str
    gone_at: int
    state: str = "gone"
    back_at: int | None = None
    accepted_at: int | None = None
    by: str | None = None
    reason: str | None = None
    answer: str = "gone"
    asked_at: int = 0
    counts: bool = True


def unlisted_rows(records: Iterable[Record]) -> list[Gone]:
    """Every row that a list of the service ever left out, and what became of that, oldest first.
    Raises ``StoreDamaged`` where a pass that later records speak of is missing."""
    found: list[Gone] = []
    place: dict[tuple[str, str], int] = {}  # of the last time that each was

    def change(table: str, id_: str, **changes: Any) -> None:
        if (table, id_) not in place:
            raise StoreDamaged(
                f"the pass that missed {id_} of {table} is not there any more", path=RECORDS,
                hint=RESTORE,
            )  # fmt: skip
        found[place[table, id_]] = replace(found[place[table, id_]], **changes)

    for record in records:
        said, at = record.content, Instant.parse(record.at).ns

        def each(name: str, said: Mapping[str, Any] = said) -> Iterator[tuple[str, str]]:
            return ((table, id_) for table, ids in said.get(name, {}).items() for id_ in ids)

        if record.kind == "accept":
            for table, id_, _ in said["rows"]:
                change(table, id_, state="accepted", accepted_at=at, by=said["by"],
                       reason=said["reason"], counts=still_counts(record))  # fmt: skip
        if record.kind != "pass":
            continue
        for key in chain(each("back"), each("listed")):
            change(*key, state="back", back_at=at)
        for answer in ANSWERS:
            for key in each(answer):
                if key in place and found[place[key]].answer == "there":
                    change(*key, state="back", back_at=at)  # it is of another kind now
                place[key] = len(found)
                found.append(Gone(*key, at, answer, answer=answer, asked_at=at))
        for key in each("asked"):
            change(*key, asked_at=at)
    return found


def gone_rows(records: Iterable[Record]) -> list[Gone]:
    """Those of ``unlisted_rows`` that were gone or refused, whatever became of that."""
    return [row for row in unlisted_rows(records) if row.answer != "there"]


def still_counts(accepted: Record) -> bool:
    """Whether rows accepted as gone stay current rows."""
    return bool(accepted.content.get("counts", True))


def accepted_gone(records: Sequence[Record], table: str) -> dict[str, int]:
    """The ids of the rows that are accepted as gone and count no more, and the first publication
    of the balances that was read without each."""
    observed = {
        Instant.parse(one.at).ns: one.content.get("observed", 0)
        for one in records if one.kind == "pass"
    }  # fmt: skip
    return {
        row.id: observed[row.gone_at]
        for row in gone_rows(records)
        if row.table == table
        and row.state == "accepted"
        and row.answer == "gone"
        and not row.counts
    }


def gone_table(rows: Sequence[Gone]) -> pa.Table:
    return exact_table(_GONE, [astuple(row)[: len(_GONE)] for row in rows])


def unlisted_table(rows: Iterable[Gone]) -> pa.Table:
    """Those that the list still leaves out."""
    left_out = [(row.table, row.id, row.answer, row.gone_at, row.asked_at)
                for row in rows if row.back_at is None]  # fmt: skip
    return exact_table(_UNLISTED, left_out)


def gone_lines(records: Iterable[Record]) -> list[str]:
    """What is not accepted or back yet; a line for each table."""
    return table_lines(
        [(row.table, row.id) for row in gone_rows(records) if row.state == "gone"],
        "no longer at the service, and kept here as last seen: {} (store.gone(); 'fundlab "
        "accept-gone' once you know why).",
    )


def table_lines(rows: Sequence[tuple[str, str]], what: str) -> list[str]:
    """How many ``rows`` (table and name) of each table are ``what``, which names the first."""
    by_table: dict[str, list[str]] = {}
    for table, name in rows:
        by_table.setdefault(table, []).append(name)
    return [
        f"{number_of(len(names), 'row')} of {table} {'is' if len(names) == 1 else 'are'} "
        f"{what.format(listed(names))}"
        for table, names in by_table.items()
    ]


def unlisted(snapshot: Snapshot, stage: Stage, since: int | None) -> pa.Table:
    """Of the current rows created from ``since`` on (ns) those whose ids ``stage`` has not: ``id``
    and the moment of each."""
    table = snapshot.table
    schema = pa.schema([table.schema.field(name) for name in ("id", table.moment)])
    hashes = [np.empty(0, np.uint64)]
    hashes += [hash_texts(rows.column("id")) for rows in stage.read(["id"])]
    listed = np.sort(np.concatenate(hashes))

    def missing(reader: PartReader, group: Group) -> pa.Table:
        rows = keep(reader.read(group.number, schema), group.current)
        if since is not None:
            begin = pa.scalar(since, INSTANT_TYPE)
            rows = rows.filter(pc.greater_equal(rows.column(table.moment), begin))
        looked = hash_texts(rows.column("id"))
        if not len(listed):
            return rows
        there = listed[np.minimum(np.searchsorted(listed, looked), len(listed) - 1)] == looked
        return rows.filter(of_numbers(~there))

    return pa.concat_tables([schema.empty_table(), *snapshot.in_each_group(missing, since)])


# ------------------------------------------------------------------------- control totals


def control_of(snapshot: Snapshot, without: Iterable[str]) -> Control:
    """The counts and totals of the current rows, those with the ids ``without`` left out."""
    table, names = snapshot.table, snapshot.table.schema.names
    present = [name for name in ("type", "asset", "total") if name in names]
    left_out = pa.array(list(without), pa.string())
    needed = [*(["id"] if len(left_out) else []), table.moment, *present]
    schema = pa.schema([table.schema.field(name) for name in needed])

    by = ["_month", *(name for name in present if name != "total")]

    def count(reader: PartReader, group: Group) -> list[tuple[dict[str, Any], int, Decimal | None]]:
        rows = keep(reader.read(group.number, schema), group.current)
        if len(left_out):
            rows = rows.filter(pc.invert(pc.is_in(rows.column("id"), value_set=left_out)))
        months = pc.floor_temporal(rows.column(table.moment), unit="month").cast(pa.int64())
        found = []
        for values, mine in groups(rows.append_column("_month", months), by):
            total = pc.sum(mine.column("total")).as_py() if "total" in present else None
            found.append((dict(zip(by, values, strict=True)), mine.num_rows, total))
        return found

    control: dict[Key, tuple[int, Decimal]] = {}
    for one, number, more in chain.from_iterable(snapshot.in_each_group(count)):
        month = "" if one["_month"] is None else str(Instant.from_ns(one["_month"]))[:7]
        key = month, one.get("type") or "", one.get("asset") or ""
        rows, total = control.get(key, (0, Decimal(0)))
        control[key] = rows + number, EXACT.add(total, more or Decimal(0))
    return control


def control_known(passes: Iterable[Record], table: str) -> Control:
    """The counts and totals of the last pass over ``table``."""
    control: dict[Key, tuple[int, Decimal]] = {}
    for record in passes:
        for month, kind, asset, count, total in record.content.get("control", {}).get(table, ()):
            control[month, kind, asset] = count, Decimal(total)
    return {key: value for key, value in control.items() if value[0]}


def control_changes(before: Control, after: Control) -> list[list[Any]]:
    """What a pass keeps: the entries that are not as ``before``."""
    return [
        [*key, count, plain_text(total)]
        for key in sorted({*before, *after})
        for count, total in [after.get(key, (0, Decimal(0)))]
        if before.get(key) != after.get(key)
    ]


def control_lines(table: str, before: Control, after: Control) -> list[str]:
    """The months of which there are fewer rows than there were, in words."""
    lines = []
    for key, (count, total) in sorted(before.items()):
        now, sum_now = after.get(key, (0, Decimal(0)))
        if now < count:
            what = " ".join(filter(None, (table, *key[:2])))
            money = f", total {plain_text(sum_now)} instead of {plain_text(total)}" * bool(key[2])
            lines.append(
                f"{what}: {number_of(now, 'row')} at the service instead of {count:,}{money} "
                f"{key[2]}".rstrip()
            )
    return lines


# ------------------------------------------------------------------------- sweeps


def sweep_windows(oldest: int, newest: int, last: int, now: int) -> Iterator[tuple[int, int]]:
    """The stretches of time (ns) that a sweep at ``now`` looks at, the last one having been at
    ``last``: the same share of the time between the ``oldest`` row and the ``newest``."""
    begin = (last % SWEEP_CYCLE_NS) / SWEEP_CYCLE_NS
    end = begin + min((now - last) / SWEEP_CYCLE_NS, _LARGEST_SHARE)
    pieces = [(begin, min(end, 1.0)), (0.0, end - 1.0)]
    for first, until in pieces:
        if until > first:
            span = newest - oldest
            yield oldest + int(span * first), oldest + int(span * until)
