"""Proof that a store is what was written, and that its tables agree with each other.

Files, pages, schemas and ids; the invariants of each transfer; and between any two balances
observed, the change must equal the sum of the transfers the store learned of in between. That
needs no clock: each observation says which publication of the transfers it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from fundlab.base.progress import progress_bar
from fundlab.base.values import Instant
from fundlab.evidence.observations import Problem, broken_changes, read_accounts
from fundlab.evidence.quarantine import with_evidence
from fundlab.evidence.vanished_rows import accepted_gone, gone_rows
from fundlab.evidence.verdict import Judgement, judge_accounts
from fundlab.store import disk
from fundlab.store.changes import equal_or_null
from fundlab.store.duck import shared_connection
from fundlab.store.manifests import MANIFESTS, Manifest
from fundlab.store.parts import (
    FILE_NAME,
    FROM,
    THREADS,
    TO,
    Part,
    PartReader,
    check_data,
    stored_schema,
)
from fundlab.store.records import RECORDS, Record
from fundlab.store.snapshot import Snapshot, keep, read_current, steadily
from fundlab.tables.schema import TABLES
from fundlab.tables.transfers import RULED, TIMES, VIOLATION, violations

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.evidence.table_store import TableStore

MAX_PROBLEMS: Final = 1_000
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
    intact: set[str] = set()
    for name in TABLES:
        try:
            snapshots[name], wrong = _check_table(store.snapshot(name, manifest=manifest))
        except StoreChanged:
            raise
        except (StoreError, OSError) as error:
            wrong = [_damage(name, name, error)]
        intact |= set() if wrong else {name}
        problems += wrong
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
    if "transfers" in intact:
        transfers = replace(snapshots["transfers"], accepted_gone=accepted)
        balances = snapshots["balances"] if "balances" in intact else None
        try:
            found = _check_rows(transfers, balances, records, found)
        except StoreChanged:
            raise
        except (StoreError, OSError) as error:
            problems.append(_damage("transfers", "transfers", error))
    every = [*problems, *found.problems]
    count, listed = len(every) + found.unlisted, tuple(every[:MAX_PROBLEMS])
    return replace(found, problems=listed, unlisted=count - len(listed))


# ---------------------------------------------------------------------------- files and ids


def _check_table(snapshot: Snapshot) -> tuple[Snapshot, list[Problem]]:
    """``snapshot``, the newest, and what is wrong with its files and ids."""
    table = snapshot.table
    found = []
    every = sum(part.rows for part in snapshot.files)
    with (
        ThreadPoolExecutor(THREADS) as threads,
        progress_bar(every, desc=f"verifying {table.name}") as bar,
    ):
        for one in threads.map(lambda part: _inspect(snapshot, part), snapshot.files):
            found.append(one)
            bar.update(one[1].num_rows)
    damage = [problem for problems, _ in found for problem in problems]
    keys = {part.seq: rows for part, (_, rows) in zip(snapshot.files, found, strict=True)}
    damage = damage or list(_wrong_pointers(snapshot, keys))
    if damage or not snapshot.files:
        return snapshot, damage
    rows = []
    for part in snapshot.files:
        current = np.arange(part.rows) < part.starts[part.live_groups]
        if part.seq in snapshot.replaced:
            current[snapshot.replaced[part.seq].rows] = False
        rows.append(keep(keys[part.seq], current))
    counts = pa.concat_tables(rows).group_by(list(table.key)).aggregate([([], "count_all")])
    often = counts.filter(pc.greater(counts.column("count_all"), 1))
    for row in often.slice(0, MAX_PROBLEMS).to_pylist():
        times = f"{row.pop('count_all')} rows"
        damage.append(Problem(table.name, "unique_id", _key_text(row), "1 row", times))
    return snapshot, damage


def _inspect(snapshot: Snapshot, part: Part) -> tuple[list[Problem], pa.Table]:
    """What is wrong with a file, and the keys of its rows; each byte and page is read once."""
    table, schema = snapshot.table, stored_schema(snapshot.table, part.kind)
    keys = [table.schema.empty_table().select(table.key)]
    problems: list[Problem] = []
    try:
        check_data(part)
        for column in part.metadata.schema.to_arrow_schema():
            expected = schema.field(column.name).type if column.name in schema.names else None
            if expected is not None and column.type != expected:
                where = f"{part.path.name}, column {column.name}"
                problems.append(
                    Problem(table.name, "schema", where, str(expected), str(column.type))
                )
        reader = PartReader(part)
        for number in range(len(part.header.row_groups)):
            rows = reader.read(number, schema)  # verifies the checksum of every page
            keys.append(rows.select(table.key))
            if part.kind != "base":
                continue
            # Versions that stood from or until publications that the base cannot know.
            since, until = rows.column(FROM), rows.column(TO)
            right = pc.and_(pc.greater_equal(since, 1), pc.less_equal(since, part.seq))
            ended = pc.and_(pc.greater(until, since), pc.less_equal(until, part.seq))
            right = pc.and_(right, pc.is_null(until) if number < part.live_groups else ended)
            wrong = rows.filter(pc.invert(pc.fill_null(right, False)))
            for row in wrong.slice(0, MAX_PROBLEMS).to_pylist():
                stood = f"publications {row[FROM]} to {row[TO]}"
                where = f"{part.path.name}, row group {number}"
                known = f"publications 1 to {part.seq}"
                problems.append(Problem(table.name, "pointer", where, known, stood))
    except FileNotFoundError:
        raise  # only a fresh listing can say whether it is missing or was merged
    except (StoreError, OSError) as error:
        problems.append(_damage(table.name, part.path.name, error))
    return problems, pa.concat_tables(keys)


def _damage(table: str, where: str, error: Exception) -> Problem:
    found = first_line(error)
    if isinstance(error, StoreDamaged):
        found = error.problem
        where = where if error.path is None else error.path.rpartition("/")[2]
    return Problem(table, "file", where, "intact", found)


def _wrong_pointers(snapshot: Snapshot, keys: Mapping[int, pa.Table]) -> Iterator[Problem]:
    """Rows said to replace a row that is not there, one of another id, or one replaced already."""
    table = snapshot.table
    try:
        snapshot.replaced  # noqa: B018 - checks where each of them leads
    except StoreDamaged as error:
        yield replace(_damage(table.name, table.name, error), rule="pointer")
        return
    for pointer in snapshot.pointers:
        mine = keys[pointer.part.seq].take(pa.array(pointer.rows))
        other = keys[pointer.target.seq].take(pa.array(pointer.replaced))
        same = [equal_or_null(mine.column(name), other.column(name)) for name in table.key]
        for place in np.flatnonzero(~np.logical_and.reduce(same))[:MAX_PROBLEMS]:
            where = f"{pointer.part.path.name}, row {pointer.rows[place]}"
            ids = [_key_text(rows.slice(place, 1).to_pylist()[0]) for rows in (mine, other)]
            to = f"row {pointer.replaced[place]} of {pointer.target.path.name}"
            yield Problem(
                table.name, "pointer", where, f"an earlier version of {ids[0]}", f"{to}, {ids[1]}"
            )


def _key_text(key: Mapping[str, Any]) -> str:
    return " ".join(map(str, key.values()))


# ---------------------------------------------------------------------------- rows


def _check_rows(
    transfers: Snapshot, balances: Snapshot | None, records: list[Record], found: Verification
) -> Verification:
    """``found``, and what is wrong within the transfers, and between them and the balances."""
    problems = list(_broken_rows(transfers))
    if balances is None:
        return replace(found, problems=tuple(problems))
    accounts = with_evidence(read_accounts(transfers, balances), transfers, records)
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


def _broken_rows(snapshot: Snapshot) -> Iterator[Problem]:
    """The rules of one transfer and of several, as ``checks.invariants`` has them."""
    found = read_current(snapshot, RULED)
    for name in TIMES:
        place = found.column_names.index(name)
        found = found.set_column(place, name, found.column(name).cast(pa.int64()))
    with closing(shared_connection()) as connection:
        broken = violations(
            nw.from_native(connection.from_arrow(found)),
            collect=lambda rows: rows.to_native().to_arrow_table(),
            beside=lambda rows: nw.from_native(connection.from_arrow(rows)),
            complete=snapshot.begins is None,
        )
        broken = broken.sort(*VIOLATION.names).head(MAX_PROBLEMS)
        for row in broken.to_native().to_arrow_table().to_pylist():
            yield Problem(
                "transfers", row["rule"], row["transfer_id"], row["expected"], row["found"]
            )
