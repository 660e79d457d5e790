"""What is damaged or missing in a store, set aside so that it can be fetched again.

Nothing is removed: a file that is not what was written, and the files after it, whose rows replace
rows of it, go to the folder ``set-aside``. A record says what was lost: from then on the chain of
the store has a gap there that is known, and a pin that named a state which is lost says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import StoreDamaged, StoreError
from fundlab.evidence.anchors import read_head, record_links, table_links
from fundlab.evidence.vanished_rows import PASSES
from fundlab.store import disk
from fundlab.store.parts import FILE_NAME, Part, check_data, find_parts, open_part, own_part
from fundlab.store.pins import PINS, each_pin
from fundlab.store.records import RECORDS, RESTORE
from fundlab.store.remote import RemotePath, StorePath
from fundlab.tables.schema import TABLES, Table

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

SET_ASIDE: Final = "set-aside"


@dataclass
class Repair:
    """What a repair found: ``lines`` say it in words. ``aside`` are the files set aside, ``lost``
    the names of what the chain misses, ``tables`` from which publication on each table lost what it
    had, and is to be fetched again."""

    lines: list[str] = field(default_factory=list)
    aside: list[StorePath] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self.lines or ["nothing is damaged or missing"])

    def to_json(self) -> dict[str, Any]:
        return {"found": self.lines, "set_aside": [str(path) for path in self.aside],
                "lost": self.lost, "fetch": sorted(self.tables)}  # fmt: skip


def look_for_damage(store: TableStore) -> Repair:
    """What would be set aside, and what is lost with it. Reads every byte."""
    found = Repair()
    for name, table in TABLES.items():
        _look_at_table(store.path / name, table, found)
    for pin, limits in each_pin(store.path / PINS):
        if not isinstance(limits, Mapping):
            found.lines.append(f"the pin {pin}: {limits}")
    for lane, read in ((RECORDS, store.records), (PASSES, store.passes)):
        try:
            read()
        except StoreDamaged as error:
            found.lines.append(f"{lane}: {error}")
            return found
    known = lost_names(store)
    for lost in missing_names(store, without=found.tables):
        folder, _, file = lost.partition("/")
        if lost in known or folder in found.tables:
            continue
        found.lost.append(lost)
        if folder in TABLES:
            found.tables[folder] = int(file[5:13])
            found.lines.append(f"{lost} is missing: what it had is fetched again")
        else:
            found.lines.append(f"{lost} is missing: {RESTORE}")
    return found


def missing_names(store: TableStore, without: Collection[str] = ()) -> list[str]:
    """The files that the chain names and that are not there; of the tables ``without``, which
    cannot be read, nothing is known."""
    links = [*record_links(RECORDS, store.records()), *record_links(PASSES, store.passes())]
    for name in TABLES:
        if name not in without:
            links += table_links(store.snapshot(name))
    there = {link.name for link in links}
    head = read_head(store.path)
    named = [link.previous for link in links if link.previous]
    named += [] if head is None else [head.name]
    # of what was merged, the name goes without its hash
    return [
        name for name in dict.fromkeys(named)
        if name not in there and "-".join(name.split("-")[:2]) not in there
    ]  # fmt: skip


def _look_at_table(folder: StorePath, table: Table, found: Repair) -> None:
    left_out: dict[StorePath, str] = {}
    files: Mapping[Any, StorePath] = {}
    try:
        files = find_parts(folder, left_out)
    except StoreDamaged:
        # Of two that were both written, and none says which one the next was written after: the
        # later one goes aside.
        by_number: dict[str, list[Part]] = {}
        for path in disk.files_in(folder):
            part = own_part(path) if FILE_NAME.fullmatch(path.name) else None
            if part is not None:
                by_number.setdefault(path.name[:13], []).append(part)
        for same in by_number.values():
            same.sort(key=lambda part: part.header.publications[-1].published_at)
            left_out |= dict.fromkeys((part.path for part in same[1:]), "a second file")
    # What a second file of a number held is fetched again.
    for path in left_out:
        found.aside.append(path)
        twin = own_part(path)
        if twin is not None:
            found.tables[table.name] = twin.seq + 1
        lost = "nothing is lost" if twin is None else "set aside, what it held is fetched again"
        what = "not a file of the store" if twin is None else "a second file of its number"
        found.lines.append(f"{table.name}/{path.name}: {what}; {lost}")
    if not files:
        return
    base = max((seq for kind, seq in files if kind == "base"), default=0)
    later = sorted(seq for kind, seq in files if kind == "part" and seq > base)
    wrong: int | None = None
    expected = base + 1
    for seq in ([base] if base else []) + later:
        path = files["base" if seq == base else "part", seq]
        if wrong is None and seq > expected:
            wrong = expected
            found.lines.append(
                f"{table.name}: publication {expected} is missing: the versions of rows from it on "
                "are lost, what is current is fetched again"
            )
        if wrong is None and (problem := _problem(path, table)):
            wrong = seq
            found.lines.append(
                f"{table.name}/{path.name}: {problem}: the versions of rows "
                f"{'up to' if seq == base else 'from'} publication {seq} "
                f"{'and later ' * (seq == base)}are lost, what is current is fetched again"
            )
        if wrong is not None:
            found.aside.append(path)
        expected = seq + 1
    if wrong is not None:
        # of a base the files before it may still be there, for an hour
        found.tables[table.name] = 1 if wrong == base else wrong
        if wrong == base:
            found.aside += [path for path in files.values() if path not in found.aside]


def _problem(path: StorePath, table: Table) -> str:
    try:
        check_data(open_part(path, table))
    except (StoreError, OSError) as error:
        return error.problem if isinstance(error, StoreDamaged) else str(error)
    return ""


def set_aside(store: TableStore, found: Repair, check_held: Callable[[], None]) -> None:
    """Move the files of ``found``, and record what was lost; the caller holds the lock."""
    check_held()
    disk.take_turn(store.path)
    for path in found.aside:
        target = store.path / SET_ASIDE / path.parent.name / path.name
        with disk.named(path):
            if isinstance(path, RemotePath) and isinstance(target, RemotePath):
                path.filesystem.create_dir(target.parent.key, recursive=True)
                path.filesystem.move(path.key, target.key)
            elif not isinstance(path, RemotePath) and not isinstance(target, RemotePath):
                disk.make_folder(target.parent)
                path.rename(target)
                disk.sync_folder(path.parent)
    lost = [*lost_names(store), *missing_names(store)]
    content = {"lost": lost, "tables": found.tables, "found": found.lines}
    store.record("repair", content, check_held)


def lost_names(store: TableStore) -> list[str]:
    """What earlier repairs recorded as lost."""
    repairs = [one for one in store.records() if one.kind == "repair"]
    return list(repairs[-1].content["lost"]) if repairs else []
