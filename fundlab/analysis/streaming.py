"""Running balances over a whole store in one pass, in memory that does not grow with it.

The parts are kept in time order, so it takes one exact sum of 128 bits for each profile and asset
to walk them. Reading, summing and writing go side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fundlab.analysis.counting import choice
from fundlab.analysis.engines import TEXT_TYPE, TIME_TYPE
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, shorten
from fundlab.base.threads import produced
from fundlab.decimals import groups, int128
from fundlab.models import DIRECTIONS, STATUSES
from fundlab.store.parts import PartReader
from fundlab.store.snapshot import Snapshot, keep
from fundlab.tables.transfers import View, does_count, is_taken, moved_asset_in

_Ints = npt.NDArray[np.int64]
CODED: Final = pa.dictionary(pa.int32(), TEXT_TYPE)
_KEY, _CHANGE = "key:", "change:"
_NEEDED: Final = (
    "id", "profile_id", "asset", "balance_asset", "direction", "status", "total", "created_at",
)  # fmt: skip
_NEVER_MISSING: Final = ("id", "profile_id", "asset", "created_at")
_UNIQUE: Final = ("id", "ref_id", "crypto_tx_hash", "group_id", "memo", "metadata")
_AHEAD: Final = 2
_ALL_TIME: Final = (-(2**63), 2**63 - 1)


def stream_running(
    snapshot: Snapshot,
    columns: Sequence[str] | None = None,
    opened: pa.Table | None = None,
    view: View = "ledger",
) -> pa.RecordBatchReader:
    """The transfers of ``snapshot`` that count, by ``created_at``, ties by ``id``, with the exact
    ``balance`` of their profile and asset after each; a batch at a time.

    ``columns`` are those wanted beside ``balance`` (all by default); repetitive text comes
    dictionary-coded. ``opened`` has ``profile_id``, ``asset``, ``opened``. Raises
    :class:`AnalysisError` for invalid rows, ``OverflowError`` for a balance beyond 20
    integer digits, ``StoreDamaged`` for a page that is not what was written, ``StoreChanged``
    where a compaction took away a file that is still to be read.
    """
    choice("view", view, get_args(View))
    names = snapshot.table.schema.names if columns is None else list(columns)
    strange = [name for name in names if name not in snapshot.table.schema.names]
    if strange:
        raise AnalysisError(
            f"columns: {snapshot.table.name} has no {', '.join(map(repr, strange))}"
        )
    schema = pa.schema(
        [*(_output_field(snapshot.table.schema.field(name)) for name in names),
         pa.field("balance", AMOUNT_TYPE)]
    )  # fmt: skip
    sums = _Sums(opened, view, names)
    batches = (
        batch
        for rows in _in_time_order(produced([_groups(snapshot, names, sums)], _AHEAD))
        for batch in sums.after(rows).select(schema.names).cast(schema).to_batches()
        if len(batch)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def write_stream(reader: pa.RecordBatchReader, path: str | Path) -> int:
    """Write the batches to one Parquet file while the next are computed; returns the rows."""
    from fundlab.exports import replacing  # loads what writes workbooks, too

    coded = [field.name for field in reader.schema if field.type == CODED]
    rows = 0
    with (
        replacing(path) as unfinished,
        pq.ParquetWriter(
            unfinished, reader.schema, compression="zstd", compression_level=1, use_dictionary=coded
        ) as writer,
    ):
        for batch in produced([(one for one in reader)], _AHEAD):
            writer.write_table(pa.Table.from_batches([batch]), row_group_size=len(batch))
            rows += len(batch)
    return rows


def _output_field(field: pa.Field) -> pa.Field:
    repetitive = field.type == TEXT_TYPE and field.name not in _UNIQUE
    return field.with_type(CODED) if repetitive else field


# --------------------------------------------------------------------------------- reading

_Group = tuple[int, int, pa.Table]
"""First and last moment (ns) of some rows, and the rows, already reduced to those that count."""


def _groups(snapshot: Snapshot, names: Sequence[str], sums: _Sums) -> Generator[_Group]:
    """The row groups of all files in order of their first moment."""
    places = []
    for part in snapshot.files:
        for number in snapshot.numbers(part):
            _, low, high = part.header.row_groups[number]
            if low is None or high is None:  # a row in it has no moment, which is refused
                low, high = _ALL_TIME
            places.append((low, high, part.seq, number, part))
    places.sort(key=lambda place: place[:4])
    last = {part.seq: place for place, (*_, part) in enumerate(places)}
    wanted = dict.fromkeys([*_NEEDED, *names])
    schema = pa.schema([_output_field(snapshot.table.schema.field(name)) for name in wanted])
    coded = [field.name for field in schema if field.type == CODED]
    readers: dict[int, PartReader] = {}
    for place, (low, high, seq, number, part) in enumerate(places):
        if seq not in readers:  # only those that are needed now: there may be thousands
            readers[seq] = PartReader(part, coded)
        group = snapshot.group(readers[seq], number)
        yield low, high, sums.counting(keep(readers[seq].read(number, schema), group.current))
        if place == last[seq]:
            del readers[seq]


def _in_time_order(groups: Iterable[_Group]) -> Iterator[pa.Table]:
    """The rows of all groups in order: those before the next group's first moment are safe."""
    waiting: list[pa.Table] = []
    last, _ = _ALL_TIME
    for low, high, rows in groups:
        safe, waiting = (waiting, []) if last < low else _split(waiting, low)
        if safe:
            yield _ordered(safe)
        waiting.append(rows)
        last = max(last, high)
    if waiting:
        yield _ordered(waiting)


def _split(waiting: list[pa.Table], moment: int) -> tuple[list[pa.Table], list[pa.Table]]:
    bound = pa.scalar(moment, TIME_TYPE)
    before = [pc.less(rows.column("created_at"), bound) for rows in waiting]
    pieces = list(zip(waiting, before, strict=True))
    safe = [rows.filter(mask) for rows, mask in pieces]
    rest = [rows.filter(pc.invert(mask)) for rows, mask in pieces]
    return [rows for rows in safe if rows.num_rows], [rows for rows in rest if rows.num_rows]


def _ordered(tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    moments = rows.column("created_at").cast(pa.int64()).to_numpy()
    steps = np.diff(moments)
    ties = np.flatnonzero(steps == 0)
    in_order = not (steps < 0).any()
    if in_order and len(ties):
        ids = rows.column("id")
        first, second = ids.take(pa.array(ties)), ids.take(pa.array(ties + 1))
        in_order = bool(pc.all(pc.less_equal(first, second)).as_py())
    if in_order:
        return rows
    order = pc.sort_indices(
        rows.select(["created_at", "id"]),
        sort_keys=[("created_at", "ascending"), ("id", "ascending")],
    )
    return rows.take(order)


# --------------------------------------------------------------------------------- summing


class _Keys:
    """A number for every profile and asset, counted from 0 as they are met."""

    def __init__(self) -> None:
        self._profiles: dict[str, int] = {}
        self._assets: dict[str, int] = {}
        self._numbers = np.array([[]], np.int32)
        self.count = 0

    def of(self, profiles: pa.ChunkedArray, assets: pa.ChunkedArray) -> _Ints:
        known, other = self._profiles, self._assets
        rows = _numbers(profiles, lambda text: known.setdefault(text, len(known)))
        columns = _numbers(assets, lambda text: other.setdefault(text, len(other)))
        height, width = self._numbers.shape
        if len(self._profiles) > height or len(self._assets) > width:
            wider = np.full((2 * len(self._profiles), len(self._assets)), -1, np.int32)
            wider[:height, :width] = self._numbers
            self._numbers = wider
        numbers = self._numbers[rows, columns].astype(np.int64)
        fresh = np.flatnonzero(numbers < 0)
        if len(fresh):
            for row, column in dict.fromkeys(
                zip(rows[fresh].tolist(), columns[fresh].tolist(), strict=True)
            ):
                self._numbers[row, column] = self.count
                self.count += 1
            numbers = self._numbers[rows, columns].astype(np.int64)
        return numbers


class _Sums:
    """The balance of every profile and asset so far, and the rules of what counts."""

    def __init__(self, opened: pa.Table | None, view: View, names: Sequence[str]) -> None:
        self._counts = np.array([[does_count(s, d, view) for d in DIRECTIONS] for s in STATUSES])
        self._kept = list(dict.fromkeys([*_NEVER_MISSING, *names]))
        self._keys = _Keys()
        self._balances = np.zeros((0, 2), np.uint64)
        if opened is not None:
            places = self._keys.of(opened.column("profile_id"), opened.column("asset"))
            self._balances = np.zeros((opened.num_rows, 2), np.uint64)
            self._balances[places] = _units(opened.column("opened"))

    def counting(self, rows: pa.Table) -> pa.Table:
        """The rows that count, with their key and signed change."""
        status = _places(rows, "status", STATUSES)
        direction = _places(rows, "direction", DIRECTIONS)
        counts = self._counts[status, direction]
        # An empty text is none, nor may an asset be missing where balance_asset says what changes:
        # a transfer always has one.
        for name in ("balance_asset", "asset"):
            empty = pc.equal(rows.column(name), "")
            if pc.any(empty).as_py():
                bad = rows.filter(empty).column("id")[0]
                raise AnalysisError(f"transfers: {name} '' is empty (id {bad})")
        if rows.column("asset").null_count:
            missing = rows.column("asset").is_null().to_numpy() & counts
            if missing.any():
                bad = rows.column("id")[int(np.argmax(missing))]
                raise AnalysisError(f"transfers: asset is missing (id {bad})")
        units = _units(rows.column("total"))
        taken = np.array([is_taken(name) for name in DIRECTIONS])[direction]
        signed = np.where(taken[:, None], int128.negative(units), units)
        priced = rows.column("total").is_valid().to_numpy()
        rows = rows.set_column(rows.column_names.index("asset"), "asset", moved_asset_in(rows))
        rows = rows.select(self._kept)
        if not counts.all():
            rows, signed, priced = rows.filter(pa.array(counts)), signed[counts], priced[counts]
        for name in _NEVER_MISSING:
            if rows.column(name).null_count:
                bad = rows.filter(pc.is_null(rows.column(name))).column("id")[0]
                raise AnalysisError(f"transfers: {name} is missing (id {bad})")
        if not priced.all():
            bad = rows.column("id")[int(np.argmin(priced))]
            raise AnalysisError(f"transfers: total is missing (id {bad})")
        keys = self._keys.of(rows.column("profile_id"), rows.column("asset"))
        return rows.append_column(_KEY, pa.array(keys)).append_column(_CHANGE, _money(signed))

    def after(self, rows: pa.Table) -> pa.Table:
        """``rows``, in order, with ``balance``: what each key is left with after each."""
        keys = rows.column(_KEY).to_numpy()
        fresh = self._keys.count - len(self._balances)
        if fresh:
            zeros = np.zeros((fresh, 2), np.uint64)
            self._balances = np.concatenate([self._balances, zeros])
        column = _units(rows.column(_CHANGE)), np.zeros(len(keys), bool)
        moved, _ = groups.running_sums(column, keys, len(self._balances), skipna=True)
        balance = int128.add(moved, self._balances[keys])
        self._balances[keys] = balance  # of several rows of a key the last one stays
        return rows.append_column("balance", _money(balance))


def _numbers(values: pa.ChunkedArray, number: Callable[[str], int]) -> _Ints:
    """What ``number`` says of each text, asked once for each that a batch holds; -1 of none."""
    parts = [np.zeros(0, np.int64)]
    coded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    for chunk in coded.chunks:
        table = np.array([*map(number, chunk.dictionary.to_pylist()), -1], np.int64)
        indices = chunk.indices.fill_null(len(table) - 1).to_numpy()
        parts.append(table[indices])
    return np.concatenate(parts)


def _places(rows: pa.Table, name: str, accepted: Sequence[str]) -> _Ints:
    """Where each value stands among the accepted ones. Raises ``AnalysisError`` for another."""
    places = _numbers(
        rows.column(name), lambda text: accepted.index(text) if text in accepted else -1
    )
    wrong = np.flatnonzero(places < 0)
    if len(wrong):
        value = rows.column(name)[int(wrong[0])].as_py()
        what = "is missing" if value is None else f"{shorten(value)} is not one of {accepted}"
        raise AnalysisError(f"transfers: {name} {what} (id {rows.column('id')[int(wrong[0])]})")
    return places


def _units(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    words = np.frombuffer(array.buffers()[1] or b"", np.uint64)
    return words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)


def _money(units: npt.NDArray[np.uint64]) -> pa.Array:
    memory = pa.py_buffer(np.ascontiguousarray(units))
    return pa.Array.from_buffers(AMOUNT_TYPE, len(units), [None, memory])
