"""Proof that a store is what was written, and that its tables agree with each other.

Files, pages, schemas and ids; the invariants of each transfer; and between any two balances
observed, the change must equal the sum of the transfers the store learned of in between. That
needs no clock: each observation says which publication of the transfers it belongs to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.errors import (
    StoreChanged,
    StoreDamaged,
    StoreError,
    first_line,
    number_of,
    printable,
)
from fundlab.base.pandas_hook import without_pandas
from fundlab.base.progress import progress_bar
from fundlab.base.values import Instant
from fundlab.evidence.observations import (
    COLUMNS,
    Moves,
    Problem,
    Sums,
    accounts_of,
    broken_changes,
    looks_of,
)
from fundlab.evidence.quarantine import with_evidence
from fundlab.evidence.vanished_rows import accepted_gone, gone_rows
from fundlab.evidence.verdict import Judgement, judge_accounts
from fundlab.store import disk
from fundlab.store.changes import Hashes, hash_texts
from fundlab.store.duck import shared_connection
from fundlab.store.manifests import MANIFESTS, Manifest
from fundlab.store.parts import (
    FILE_NAME,
    FROM,
    ROW_GROUP_ROWS,
    THREADS,
    TO,
    Part,
    PartReader,
    check_data,
    each_row_group,
    in_row_groups,
    stored_schema,
)
from fundlab.store.records import RECORDS, Record
from fundlab.store.snapshot import Ends, Snapshot, read_current, steadily, with_life
from fundlab.tables.schema import TABLES, Table
from fundlab.tables.transfers import (
    RULED,
    TIMES,
    VIOLATION,
    Rows,
    broken_groups,
    broken_rows,
    conversion_ends,
    is_half,
    linked,
    loose,
)

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

    from fundlab.evidence.table_store import TableStore

MAX_PROBLEMS: Final = 1_000
_JUDGED_AT_ONCE: Final = 2 * ROW_GROUP_ROWS
"""Transfers in memory before they are held to the rules: to ask takes as long as 60,000 rows."""
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
DAMAGE: Final = ("file", "schema", "pointer", "anchor")
"""The rules that a file breaks which is not what was written."""


@dataclass(frozen=True, repr=False)
class Verification:
    """What was looked at, and the problems found, all but ``unlisted`` of them.

    ``intervals`` are the observations of balances that were compared with the transfers,
    ``unexplained`` the breaks whose cause was not looked for. ``judgement`` is ``None`` where the
    store is too damaged for one.
    """

    store: str
    files: int
    rows: int
    intervals: int
    problems: tuple[Problem, ...]
    unlisted: int = 0
    unexplained: int = 0
    judgement: Judgement | None = None
    moved: tuple[str, ...] = ()
    """The closed periods of which the store would now say something else, a line for each."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and what the balances prove is all there is."""
        short = self.judgement is not None and self.judgement.is_alarming
        return not self.problems and not short

    @property
    def is_damaged(self) -> bool:
        """Whether a file is not what was written."""
        return any(entry.rule in DAMAGE for entry in self.problems)

    @property
    def count(self) -> int:
        return len(self.problems) + self.unlisted

    def to_frame(self) -> pd.DataFrame:
        """One row a problem: ``table``, ``rule``, ``where``, ``expected``, ``found``, ``cause``."""
        import pandas as pd

        names = [field.name for field in fields(Problem)]
        rows = [asdict(entry) for entry in self.problems]
        return pd.DataFrame(rows, columns=names, dtype="string")

    def to_json(self) -> dict[str, Any]:
        names = ("store", "files", "rows", "intervals", "unlisted", "unexplained", "ok")
        judged = None if self.judgement is None else self.judgement.to_json()
        problems = [asdict(entry) for entry in self.problems]
        return {**{name: getattr(self, name) for name in names}, "problems": problems,
                "judgement": judged, "moved": list(self.moved)}  # fmt: skip

    def _repr_html_(self) -> str:
        from fundlab.display import Card, show  # which loads pandas

        judged, table = self.judgement, show(self.to_frame())
        found = str(self).splitlines()[0]
        return Card(
            "Verification",
            tables=(table,) if self.problems else (),
            warnings=self.moved,
            headline=found.removeprefix(f"{self.store}: "),
            detail="No balances to compare." if judged is None else judged.text,
            tone="bad" if self.problems else "warn" if judged is None else judged.tone,
            notes=(*["all of them: store.verify().to_frame()"] * (table.hidden > 0), self.store),
        )._repr_html_()

    def __str__(self) -> str:
        lines = [
            f"{self.store}: {number_of(self.files, 'file')}, {number_of(self.rows, 'row')}, "
            f"{number_of(self.intervals, 'balance observation')} compared: "
            f"{number_of(self.count, 'problem') if self.count else 'no problems'}"
        ]
        if self.judgement is not None:
            lines.append(printable(self.judgement.text))
        lines += map(printable, self.moved)
        lines += map(str, self.problems)
        if self.is_damaged:
            lines.append(
                "Restore the files that are not what was written from a backup, or run 'fundlab "
                "repair': it says what is lost, and fetches it again where it can."
            )
        if self.unexplained:
            verb = "is" if self.unexplained == 1 else "are"
            more = number_of(self.unexplained, "more break")
            lines.append(f"… and {more} {verb} not explained one by one")
        if self.unlisted:
            verb = "is" if self.unlisted == 1 else "are"
            lines.append(f"… and {number_of(self.unlisted, 'more problem')} {verb} not listed")
        return "\n".join(lines)

    __repr__ = __str__


def verify_store(store: TableStore) -> Verification:
    """Read every byte of ``store`` and check it; see the top of this module.

    A sync or a compaction at the same time does no harm, and is not taken for a problem.
    """
    try:
        return steadily(lambda: _verify(store, store.manifest()))
    except (StoreError, OSError) as error:
        return Verification(str(store.path), 0, 0, 0, (_damage(MANIFESTS, MANIFESTS, error),))


def _verify(store: TableStore, manifest: Manifest) -> Verification:
    problems: list[Problem] = []
    accepted: dict[str, int] = {}
    records: list[Record] = []
    try:
        records = store.records(manifest)
        accepted = accepted_gone(records, "transfers")
        for row in gone_rows(records):
            if row.state == "gone":
                found_at = f"not listed since {Instant.from_ns(row.gone_at)}"
                problems.append(
                    Problem(row.table, "gone", row.id, "at the service, or accepted", found_at)
                )
    except StoreDamaged as error:
        problems.append(_damage(RECORDS, RECORDS, error))
    snapshots: dict[str, Snapshot] = {}
    found_in: dict[str, list[Problem]] = {}
    for name in TABLES:
        try:
            snapshots[name], found_in[name] = store.snapshot(name, manifest=manifest), []
        except StoreChanged:
            raise
        except (StoreError, OSError) as error:
            found_in[name] = [_damage(name, name, error)]
    rows_checked = None
    for name, snapshot in snapshots.items():
        if name == "transfers":
            looks = looks_of(snapshots["balances"]) if "balances" in snapshots else []
            snapshot = replace(snapshot, accepted_gone=accepted)
            rows_checked = _RowsChecked(snapshot, looks)
        try:
            found_in[name] = _check_table(snapshot, rows_checked if name == "transfers" else None)
        except StoreChanged:
            raise
        except (StoreError, OSError) as error:
            found_in[name] = [_damage(name, name, error)]
    problems += [problem for name in TABLES for problem in found_in[name]]
    intact = {name for name, wrong in found_in.items() if not wrong}
    there = [(name, path.name) for name in TABLES for path in disk.files_in(store.path / name)]
    newest = store.manifest().number  # after what is there, as a sync may be under way
    problems += [
        Problem(name, "file", file, f"a publication up to {newest}",
                "of a later one: the manifests were rolled back")
        for name, file in there
        if (match := FILE_NAME.fullmatch(file)) and int(match[2]) > newest + 1
    ]  # fmt: skip
    # Tables of another service or credential than the manifest's.
    for name, snapshot in snapshots.items():
        for part in snapshot.files:
            if part.header.service != manifest.service:
                texts = [" ".join(one.values()) for one in (manifest.service, part.header.service)]
                where = part.path.name
                problems.append(Problem(name, "file", where, f"of {texts[0]}", f"of {texts[1]}"))
                intact.discard(name)
    files = sum(len(snapshot.files) for snapshot in snapshots.values())
    rows = sum(part.rows for name in intact for part in snapshots[name].files)
    found = Verification(str(store.path), files, rows, 0, ())
    if rows_checked is not None and "transfers" in intact:
        balances = snapshots["balances"] if "balances" in intact else None
        try:
            found = _check_rows(rows_checked, balances, records, found)
        except StoreChanged:
            raise
        except (StoreError, OSError) as error:
            problems.append(_damage("transfers", "transfers", error))
    every = [*problems, *found.problems]
    count, listed = len(every) + found.unlisted, tuple(every[:MAX_PROBLEMS])
    return replace(found, problems=listed, unlisted=count - len(listed))


# ---------------------------------------------------------------------------- files and ids


def _check_table(snapshot: Snapshot, use: _RowsChecked | None = None) -> list[Problem]:
    """What is wrong with the files and ids of ``snapshot``, the newest. Each byte and page is read
    once; ``use`` is shown every version as it is read."""
    table = snapshot.table
    with ThreadPoolExecutor(THREADS) as threads:
        checked = list(threads.map(_check_file, snapshot.files))
    damage = [problem for problems in checked for problem in problems]
    ends: Mapping[int, Ends] = {}
    try:
        ends = snapshot.replaced
    except FileNotFoundError:
        raise
    except StoreError:
        use = None  # what is wrong with them is said below
    hashes: dict[int, list[Hashes]] = {part.seq: [] for part in snapshot.files}
    sound = [part for part, wrong in zip(snapshot.files, checked, strict=True)
             if not any(problem.rule == "file" for problem in wrong)]  # fmt: skip

    def inspect(reader: PartReader, number: int) -> tuple[int, list[Problem], pa.Table | None]:
        try:
            rows, problems = _inspect(reader, number, table)
        except FileNotFoundError:
            raise  # only a fresh listing can say whether it is missing or was merged
        except (StoreError, OSError) as error:
            return reader.part.seq, [_damage(table.name, reader.part.path.name, error)], None
        shown = table.key if use is None else (*dict.fromkeys((*table.key, *RULED, *COLUMNS)),)
        return reader.part.seq, problems, with_life(reader, number, ends, rows.select(shown))

    def versions() -> Iterator[pa.Table]:
        groups = [(part, range(len(part.header.row_groups))) for part in sound]
        with progress_bar(
            sum(part.rows for part in snapshot.files), desc=f"verifying {table.name}"
        ) as bar:
            for seq, problems, rows in each_row_group(groups, inspect):
                damage.extend(problems)
                if rows is None:
                    continue
                hashes[seq].append(_hashes_of(rows.select(table.key)))
                bar.update(rows.num_rows)
                if not damage:
                    yield rows

    every = versions()
    if use is not None:
        use.take(every)
    for _ in every:
        pass
    if damage or not snapshot.files:
        return damage
    known = {seq: np.concatenate([*each, np.empty(0, np.uint64)]) for seq, each in hashes.items()}
    damage = list(_wrong_pointers(snapshot, known))
    if damage:
        return damage
    current = []
    for part in snapshot.files:
        mask = np.arange(part.rows) < part.starts[part.live_groups]
        if part.seq in ends:
            mask[ends[part.seq].rows] = False
        current.append(known[part.seq][mask])
    ordered = np.sort(np.concatenate(current))
    if (ordered[1:] == ordered[:-1]).any():  # of the same text, or of one chance in 10^19
        counts = read_current(replace(snapshot, accepted_gone={}), table.key)
        counts = counts.group_by(list(table.key)).aggregate([([], "count_all")])
        often = counts.filter(pc.greater(counts.column("count_all"), 1))
        for row in often.slice(0, MAX_PROBLEMS).to_pylist():
            times = f"{row.pop('count_all')} rows"
            damage.append(Problem(table.name, "unique_id", _key_text(row), "1 row", times))
    return damage


def _check_file(part: Part) -> list[Problem]:
    """What is wrong with the bytes of a file, and the types of its columns."""
    table = part.header.table
    schema = stored_schema(TABLES[table], part.kind)
    try:
        check_data(part)
    except FileNotFoundError:
        raise
    except (StoreError, OSError) as error:
        return [_damage(table, part.path.name, error)]
    return [
        Problem(table, "schema", f"{part.path.name}, column {column.name}",
                str(schema.field(column.name).type), str(column.type))
        for column in part.metadata.schema.to_arrow_schema()
        if column.name in schema.names and column.type != schema.field(column.name).type
    ]  # fmt: skip


def _inspect(reader: PartReader, number: int, table: Table) -> tuple[pa.Table, list[Problem]]:
    """The rows of a row group, and those of a base that stood from or until publications that it
    cannot know; verifies the checksum of every page."""
    part = reader.part
    rows = reader.read(number, stored_schema(table, part.kind))
    if part.kind != "base":
        return rows, []
    since, until = rows.column(FROM), rows.column(TO)
    right = pc.and_(pc.greater_equal(since, 1), pc.less_equal(since, part.seq))
    ended = pc.and_(pc.greater(until, since), pc.less_equal(until, part.seq))
    right = pc.and_(right, pc.is_null(until) if number < part.live_groups else ended)
    wrong = rows.filter(pc.invert(pc.fill_null(right, False)))
    return rows, [
        Problem(
            table.name, "pointer", f"{part.path.name}, row group {number}",
            f"publications 1 to {part.seq}", f"publications {row[FROM]} to {row[TO]}",
        )
        for row in wrong.slice(0, MAX_PROBLEMS).to_pylist()
    ]  # fmt: skip


def _hashes_of(keys: pa.Table) -> Hashes:
    """A 64-bit hash of each key: who does not know the salts of this run cannot aim at two with
    one."""
    found = np.zeros(keys.num_rows, np.uint64)
    for column in keys.columns:
        if not pa.types.is_string(column.type):
            column = column.cast(pa.int64()).cast(pa.string())
        found = found * _ODD + hash_texts(column)
    return found


def _damage(table: str, where: str, error: Exception) -> Problem:
    found = first_line(error)
    if isinstance(error, StoreDamaged):
        found = error.problem
        where = where if error.path is None else error.path.rpartition("/")[2]
    return Problem(table, "file", where, "intact", found)


def _wrong_pointers(snapshot: Snapshot, hashes: Mapping[int, Hashes]) -> Iterator[Problem]:
    """Rows said to replace a row that is not there, one of another id, or one replaced already."""
    table = snapshot.table
    try:
        snapshot.replaced  # noqa: B018 - checks where each of them leads
    except StoreDamaged as error:
        yield replace(_damage(table.name, table.name, error), rule="pointer")
        return
    for pointer in snapshot.pointers:
        mine, other = hashes[pointer.part.seq], hashes[pointer.target.seq]
        wrong = np.flatnonzero(mine[pointer.rows] != other[pointer.replaced])[:MAX_PROBLEMS]
        for place in wrong:
            row, replaced = int(pointer.rows[place]), int(pointer.replaced[place])
            where = f"{pointer.part.path.name}, row {row}"
            mine_id, other_id = (
                _key_text(_key_at(part, at, table))
                for part, at in ((pointer.part, row), (pointer.target, replaced))
            )
            to = f"row {replaced} of {pointer.target.path.name}"
            yield Problem(
                table.name, "pointer", where, f"an earlier version of {mine_id}",
                f"{to}, {other_id}",
            )  # fmt: skip


def _key_at(part: Part, row: int, table: Table) -> dict[str, Any]:
    (number,) = part.groups_of(np.array([row]))
    keys = PartReader(part).read(number, table.schema.empty_table().select(table.key).schema)
    return dict(keys.slice(row - part.starts[number], 1).to_pylist()[0])


def _key_text(key: Mapping[str, Any]) -> str:
    return " ".join(map(str, key.values()))


# ---------------------------------------------------------------------------- rows


class _RowsChecked:
    """What is seen of the transfers while their files are verified: what they move balances by, and
    which rules they break, one by one and together, as ``checks.invariants`` has them."""

    def __init__(self, transfers: Snapshot, looks: Sequence[int]) -> None:
        self.transfers, self._looks = transfers, looks
        self.moved: Sums = ({}, {}, Counter(), 0)
        self._broken: list[dict[str, str]] = []
        self._waiting: list[pa.Table] = []
        self._halves: list[pa.Table] = []
        self._links: list[pa.Table] = []
        self._ids = [np.empty(0, np.uint64)]

    def take(self, versions: Iterator[pa.Table]) -> None:
        with closing(shared_connection()) as connection, without_pandas():
            self.moved = Moves(self.transfers).sums(self._looks, self._seen(connection, versions))
            self._end(connection)

    def _seen(
        self, connection: duckdb.DuckDBPyConnection, versions: Iterator[pa.Table]
    ) -> Iterator[pa.Table]:
        for rows in in_row_groups(versions):
            yield rows
            current = rows.filter(pc.is_null(rows.column(TO))).select(RULED)
            if self.transfers.accepted_gone:
                gone = pc.is_in(current.column("id"), value_set=self.transfers.gone_ids)
                current = current.filter(pc.invert(gone))
            for name in TIMES:
                place = current.column_names.index(name)
                current = current.set_column(place, name, current.column(name).cast(pa.int64()))
            self._waiting.append(current)
            if sum(map(len, self._waiting)) >= _JUDGED_AT_ONCE:
                self._judge(connection)  # not in the end only: they fill the memory
            eager = nw.from_native(current, eager_only=True)
            self._halves.append(eager.filter(is_half()).to_native())
            self._links.append(linked(eager).to_native())
            self._ids.append(hash_texts(current.column("id")))

    def _judge(self, connection: duckdb.DuckDBPyConnection) -> None:
        rows = pa.concat_tables(self._waiting)
        self._waiting.clear()
        self._keep(broken_rows(_lazy(connection, rows), _collected))
        pa.default_memory_pool().release_unused()

    def _end(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._waiting:
            self._judge(connection)
        if sum(map(len, self._halves)):
            halves = pa.concat_tables(self._halves)
            self._keep(broken_groups(_lazy(connection, halves), _collected))
        if self._links and self.transfers.begins is None:
            ends = conversion_ends(pa.concat_tables(self._links))
            if not ends.num_rows:
                return
            ids, wanted = np.sort(np.concatenate(self._ids)), hash_texts(ends.column("end"))
            there = ids[np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)] == wanted
            self._keep([loose(_lazy(connection, ends.filter(pa.array(~there))))])

    def _keep(self, broken: Sequence[Rows]) -> None:
        for rows in broken:
            found = _collected(rows.sort(*VIOLATION.names).head(MAX_PROBLEMS))
            self._broken += found.to_pylist()

    def problems(self) -> list[Problem]:
        """The first of them, in the order of the engine: what has no id comes first."""
        found = sorted(
            self._broken,
            key=lambda one: [(one[n] is not None, one[n] or "") for n in VIOLATION.names],
        )
        return [
            Problem("transfers", row["rule"], row["transfer_id"], row["expected"], row["found"])
            for row in found[:MAX_PROBLEMS]
        ]


def _lazy(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Rows:
    return nw.from_native(connection.from_arrow(rows))


def _collected(rows: Rows) -> pa.Table:
    table: pa.Table = rows.to_native().to_arrow_table()
    return table


def _check_rows(
    seen: _RowsChecked, balances: Snapshot | None, records: list[Record], found: Verification
) -> Verification:
    """``found``, and what is wrong within the transfers, and between them and the balances."""
    problems, transfers = seen.problems(), seen.transfers
    if balances is None:
        return replace(found, problems=tuple(problems))
    accounts = with_evidence(accounts_of(transfers, balances, seen.moved), transfers, records)
    try:
        judgement = judge_accounts(accounts)
    except OverflowError as error:
        beyond = Problem("balances", "balance", found.store, "sums that fit", str(error))
        return replace(found, problems=(*problems, beyond))
    breaks, explained, count = broken_changes(accounts, transfers, MAX_PROBLEMS)
    return replace(
        found,
        problems=(*problems, *breaks),
        intervals=accounts.intervals,
        unlisted=count - len(breaks),
        unexplained=count - explained,
        judgement=judgement,
    )
