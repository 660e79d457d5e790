"""When each transfer settled or failed, and where that is known from.

The interface has no such time. It is the moment of the transfer's ``….completed`` event; else the
``updated_at`` of the version in which it is first seen completed; else when that version was
published. Later versions of a completed transfer do not move it. Until when a transfer that failed
was pending is known in the same way, without an event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.models import COMPLETED
from fundlab.store.changes import Hashes, hash_texts
from fundlab.store.parts import (
    FROM,
    TO,
    Part,
    PartReader,
    as_read,
    each_row_group,
    in_row_groups,
    repetitive,
)
from fundlab.store.snapshot import Snapshot, read_group_versions, read_versions
from fundlab.tables.expand import member
from fundlab.tables.schema import INSTANT_TYPE, SETTLED_AT

SETTLED_FROM: Final = "settled_from"
PLACE: Final = "_place"
"""Of a row: the number of its file among those of the snapshot, times 2^40, and its position."""
SETTLED: Final = pa.schema(
    [("id", pa.string()), (SETTLED_AT, INSTANT_TYPE), (SETTLED_FROM, pa.string()),
     (PLACE, pa.int64())]
)  # fmt: skip
ADDED: Final = (SETTLED_AT, SETTLED_FROM)
FAILED_AT: Final = "failed_at"
_FAILED: Final = "FAILED"
_SAYS_COMPLETED: Final = r"\Atransfer\..*\.completed?\z"
"""The types of the events that say so."""
_VERSION: Final = ("id", "status", "updated_at")
_EVENT: Final = ("type", "object", "created_at")
_COMPLETIONS: Final = pa.schema(
    [("transfer_id", pa.string()), ("at", pa.int64()), (FROM, pa.int32())]
)


def settlements(transfers: Snapshot, events: Snapshot) -> pa.Table:
    """``id``, ``settled_at``, ``settled_from`` (``event``, ``updated_at``, ``seen``) and ``_place``
    of each completed transfer, as known at these snapshots."""
    found = pa.concat_tables(
        [SETTLED.empty_table(),
         *(rows.select(SETTLED.names) for rows in settled_rows(transfers, events, ("id", PLACE)))]
    )  # fmt: skip
    return found.filter(pc.is_valid(found.column(SETTLED_AT)))


def settled_rows(
    transfers: Snapshot, events: Snapshot, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """``columns`` of the current rows (``_place`` among them: where each is), some rows at a time,
    with ``settled_at`` and ``settled_from``: one pass over the files. Texts that repeat come as the
    codes that the files hold, which take less time and memory."""
    schema, coded = transfers.table.schema, repetitive(transfers.table)
    names = [name for name in dict.fromkeys(("id", *_VERSION, *columns)) if name != PLACE]
    said = completions(events)
    hashes = hash_texts(said.column("transfer_id"))
    order = np.argsort(hashes)
    said, hashes = said.take(pa.array(order)), hashes[order]
    earlier: list[pa.Table] = []  # completed versions that were replaced since
    kept = [*_VERSION, FROM, TO, PLACE]

    def settled(rows: pa.Table) -> pa.Table:
        rows = known_at(rows, transfers.limit)
        stands = pc.is_null(rows.column(TO))
        ended = rows.filter(pc.invert(stands)).select(kept)
        earlier.append(ended.filter(_is_completed(ended)))
        if transfers.accepted_gone:
            out = pc.is_in(rows.column("id"), value_set=transfers.gone_ids)
            stands = pc.and_(stands, pc.invert(out))
        rows = _only(rows, stands).combine_chunks()
        ids = rows.column("id")
        before, mine = pa.concat_tables(earlier), said
        if before.num_rows:
            before = before.filter(pc.is_in(before.column("id"), value_set=ids.combine_chunks()))
        if said.num_rows:
            mine = said.take(pa.array(_places_of(hash_texts(ids), hashes)))
        found = settled_of(pa.concat_tables([before, rows.select(kept)]), mine, transfers)
        place = np.full(rows.num_rows, -1)
        place[np.searchsorted(*(one.column(PLACE).to_numpy() for one in (rows, found)))] = range(
            found.num_rows
        )
        return _beside(rows.select(columns), found, pa.array(place, mask=place < 0))

    # map holds none of the rows that it gave: they are large
    return map(settled, _in_turn(transfers, as_read(map(schema.field, names), coded), coded))


def _is_completed(rows: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(rows.column("status"), value_set=pa.array(COMPLETED))


def _places_of(wanted: Hashes, hashes: Hashes) -> npt.NDArray[np.int64]:
    """Where among the sorted ``hashes`` those ``wanted`` are, as often as they are there."""
    wanted = np.sort(wanted)  # np.unique takes ten times as long
    first, end = (np.searchsorted(hashes, wanted, side) for side in ("left", "right"))
    counts = end - first
    return np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())


def _in_turn(snapshot: Snapshot, schema: pa.Schema, coded: Sequence[str]) -> Iterator[pa.Table]:
    """Every version, as :func:`_placed` reads it, in row groups of the usual size; those of a base
    that were replaced come first, at once: no version comes before an earlier one."""
    work = _placed(snapshot, schema)
    groups = [(part, range(len(part.header.row_groups))) for part in snapshot.files]
    replaced = [(part, numbers[part.live_groups :]) for part, numbers in groups[:1]]
    first = list(each_row_group(replaced, work, coded))
    if first:
        yield pa.concat_tables(first)
    live = [(part, numbers[: part.live_groups]) for part, numbers in groups]
    yield from in_row_groups(each_row_group(live, work, coded))


def _placed(snapshot: Snapshot, schema: pa.Schema) -> Callable[[PartReader, int], pa.Table]:
    """Reads the versions of a row group, with ``_from``, ``_to`` and ``_place``."""
    places = {part.seq: number << 40 for number, part in enumerate(snapshot.files)}
    ends = snapshot.replaced  # once, before several threads ask for it

    def read(reader: PartReader, number: int) -> pa.Table:
        rows = read_group_versions(reader, number, ends, schema)
        start = places[reader.part.seq] + reader.part.starts[number]
        return rows.append_column(PLACE, pa.array(np.arange(start, start + rows.num_rows)))

    return read


def versions(
    snapshot: Snapshot, columns: Sequence[str], *, ids: pa.Array | None = None, since: int = 0
) -> pa.Table:
    """Some columns of every version known at ``snapshot``, with the publications from which on and
    until which it stood, ``_from`` and ``_to``, and where it is, ``_place``: of the rows with these
    ``ids``, or, read from the row groups that may have some, of those learned of or replaced
    ``since`` a publication, and maybe of others."""
    schema = pa.schema([snapshot.table.schema.field(name) for name in columns])
    read, id_ = _placed(snapshot, schema), pa.schema([snapshot.table.schema.field("id")])
    life = [pa.field(FROM, pa.int32()), pa.field(TO, pa.int32()), pa.field(PLACE, pa.int64())]
    empty = pa.schema([*schema, *life]).empty_table()

    def look(reader: PartReader, number: int) -> pa.Table:
        if ids is None:
            return read(reader, number)
        mine = pc.is_in(reader.read(number, id_).column("id"), value_set=ids)
        return read(reader, number).filter(mine) if pc.any(mine).as_py() else empty

    groups = [(part, _groups_since(snapshot, part, since)) for part in snapshot.files]
    return known_at(pa.concat_tables([empty, *each_row_group(groups, look)]), snapshot.limit)


def _groups_since(snapshot: Snapshot, part: Part, since: int) -> Sequence[int]:
    """The row groups of a file that have rows learned of or replaced since."""
    if part.seq > since:
        return range(len(part.header.row_groups))
    ends = snapshot.replaced.get(part.seq)
    return [] if ends is None else part.groups_of(ends.rows[ends.by > since])


def known_at(rows: pa.Table, limit: int) -> pa.Table:
    """The versions known at publication ``limit``; one that was replaced later still stands."""
    rows = _only(rows, pc.less_equal(rows.column(FROM), limit))
    until = rows.column(TO)
    stands = pc.if_else(pc.less_equal(until, limit), until, pa.scalar(None, pa.int32()))
    return rows.set_column(rows.schema.get_field_index(TO), TO, stands)


def _only(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Mostly all of them, which are then not copied."""
    return rows if pc.all(mask, skip_nulls=False).as_py() else rows.filter(mask)


def completions(events: Snapshot) -> pa.Table:
    """``transfer_id``, ``at`` (ns) of each event that says a transfer completed, and in which
    publication it was learned of (``_from``)."""
    schema = pa.schema([events.table.schema.field(name) for name in _EVENT])
    found = [_COMPLETIONS.empty_table()]
    for part in events.files:
        for rows in read_versions(part, {}, schema):
            rows = rows.filter(pc.less_equal(rows.column(FROM), events.limit))
            done = pc.match_substring_regex(rows.column("type"), _SAYS_COMPLETED)
            rows = rows.filter(pc.fill_null(done, False))
            texts = rows.column("object").to_pylist()
            named = pa.array(
                [text and member(text, "id", of_id=True) for text in texts], pa.string()
            )
            at = rows.column("created_at").cast(pa.int64())
            columns = [named, at, rows.column(FROM)]
            found.append(pa.Table.from_arrays(columns, schema=_COMPLETIONS))
    every = pa.concat_tables(found)
    return every.filter(pc.is_valid(every.column("transfer_id")))


def settled_of(rows: pa.Table, completed: pa.Table, transfers: Snapshot) -> pa.Table:
    """:func:`settlements` from the ``versions`` of transfers and the ``completions`` known."""
    rows = rows.filter(_is_completed(rows))
    first = _as_seen(rows, transfers)
    current = pc.is_null(rows.column(TO))
    before = rows.filter(pc.invert(current)).column("id").unique()
    now = first.filter(current)
    if len(before):  # some were completed in an earlier version, too: the first of them counts
        again = pc.is_in(now.column("id"), value_set=before)
        earlier = first.filter(pc.is_in(first.column("id"), value_set=before)).sort_by(FROM)
        firsts, place = _looked_up(earlier, "id", now.filter(again).column("id"))
        changed = firsts.take(place).set_column(4, PLACE, now.filter(again).column(PLACE))
        now = pa.concat_tables([now.filter(pc.invert(again)), changed])
    said, place = _looked_up(completed.sort_by("at"), "transfer_id", now.column("id"))
    settled_at = _first_of(said.column("at").take(place), now.column("at")).cast(INSTANT_TYPE)
    settled_from = pc.if_else(pc.is_valid(place), "event", now.column("from"))
    columns = [now.column("id"), settled_at, settled_from, now.column(PLACE)]
    return pa.Table.from_arrays(columns, schema=SETTLED)


def failures(transfers: Snapshot, ids: pa.Array) -> pa.Table:
    """``id``, ``failed_at`` of those of the transfers ``ids`` that were ever seen failed: when it
    was pending no more, as it was completed before or failed; missing of one that was pending no
    more, and did not say since when, as soon as it was seen."""
    rows = versions(transfers, _VERSION, ids=ids).sort_by(FROM)
    failed = pc.equal(rows.column("status"), _FAILED)
    rows = rows.filter(
        pc.is_in(rows.column("id"), value_set=rows.column("id").filter(failed).combine_chunks())
    )
    final = pc.is_in(rows.column("status"), value_set=pa.array([*COMPLETED, _FAILED]))
    failed = _as_seen(rows.filter(final), transfers)
    failed, _ = _looked_up(failed, "id", failed.column("id"))
    oldest, place = _looked_up(rows, "id", failed.column("id"))
    seen_before = pc.less(oldest.column(FROM).take(place), failed.column(FROM))
    known = pc.or_(pc.equal(failed.column("from"), "updated_at"), seen_before)
    at = pc.if_else(known, failed.column("at"), None).cast(INSTANT_TYPE)
    return pa.table({"id": failed.column("id"), FAILED_AT: at})


def _as_seen(rows: pa.Table, transfers: Snapshot) -> pa.Table:
    """``id``, ``at``, ``from``, ``_from`` and ``_place`` of the ``versions`` of transfers: when
    each began, as far as it says so itself, else when it was published."""
    published = np.zeros(transfers.limit + 1, np.int64)
    for entry in transfers.publications:
        published[entry.seq] = entry.published_at
    seen = pa.array(published[rows.column(FROM).to_numpy()])
    updated = rows.column("updated_at").cast(pa.int64())
    return pa.table(
        {
            "id": rows.column("id"),
            "at": _first_of(updated, seen),
            "from": pc.if_else(pc.is_valid(updated), "updated_at", "seen"),
            FROM: rows.column(FROM),
            PLACE: rows.column(PLACE),
        }
    )


def with_settlement(rows: pa.Table, settled: pa.Table) -> pa.Table:
    """``rows``, which have an ``id``, with the columns of ``settled`` beside them."""
    place = pc.index_in(rows.column("id"), value_set=settled.column("id").combine_chunks())
    return _beside(rows, settled, place)


def _beside(rows: pa.Table, settled: pa.Table, place: pa.Array | pa.ChunkedArray) -> pa.Table:
    for name in ADDED:
        rows = rows.append_column(SETTLED.field(name), settled.column(name).take(place))
    return rows


def _first_of(moments: pa.ChunkedArray, others: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """``others`` where there is no moment; before pyarrow 23 ``coalesce`` gives 0 in some places
    where the two come in different chunks."""
    return pc.if_else(pc.is_valid(moments), moments, others)


def _looked_up(
    rows: pa.Table, name: str, wanted: pa.ChunkedArray
) -> tuple[pa.Table, pa.ChunkedArray]:
    """The first of the ``rows`` of each ``name``, and where among them the ``wanted`` ones are."""
    codes = rows.column(name).combine_chunks().dictionary_encode().indices.to_numpy()
    firsts = rows.take(pa.array(np.unique(codes, return_index=True)[1], pa.int64()))
    return firsts, pc.index_in(wanted, value_set=firsts.column(name).combine_chunks())
