"""What is damaged or missing in a store, set aside so that it can be fetched again.

Nothing is removed: a file that is not what was written, and the files after it, whose rows replace
rows of it, go to the folder ``set-aside``. A new manifest names what is left, with a record that
says what was lost: a pin that named a state which is lost says so from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from fundlab.base.errors import StoreDamaged, StoreError
from fundlab.store import disk
from fundlab.store.manifests import File, Manifest, load_manifest, numbers_of, read_head
from fundlab.store.parts import FILE_NAME, Part, check_data, file_of, open_part
from fundlab.store.records import RECORDS, RESTORE, intact_records, read_records
from fundlab.store.remote import RemotePath, StorePath
from fundlab.tables.schema import TABLES, Table

if TYPE_CHECKING:
    from fundlab.evidence.table_store import TableStore

SET_ASIDE: Final = "set-aside"


@dataclass
class Repair:
    """What a repair found: ``lines`` say it in words. ``aside`` are the files set aside, ``lost``
    the names of what is missing, ``tables`` from which publication on each table lost what it had,
    and is to be fetched again. ``manifest`` is what is left, ``records`` the names of those that
    are, where any is missing."""

    lines: list[str] = field(default_factory=list)
    aside: list[StorePath] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    tables: dict[str, int] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=Manifest)
    records: list[str] | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines or ["nothing is damaged or missing"])

    def to_json(self) -> dict[str, Any]:
        return {"found": self.lines, "set_aside": [str(path) for path in self.aside],
                "lost": self.lost, "fetch": sorted(self.tables)}  # fmt: skip


def look_for_damage(store: TableStore) -> Repair:
    """What would be set aside, and what is lost with it. Reads every byte."""
    found = Repair()
    try:
        found.manifest = store.manifest()
    except StoreDamaged as error:
        name = str(error.path).removeprefix(f"{store.path}/")
        found.lines.append(f"{name}: {error.problem}: made again of what is there")
        found.lost.append(name)
        found.manifest = _made_again(store.path)
    left = {
        name: _look_at_table(store.path / name, table, found)
        for name, table in TABLES.items()
    }  # fmt: skip
    found.manifest = replace(found.manifest, files=left)
    try:
        read_records(store.path / RECORDS, found.manifest.record)
    except StoreDamaged as error:
        name = f"{RECORDS}/{str(error.path).rpartition('/')[2]}"
        found.records = [record.name for record in intact_records(store.path / RECORDS)]
        if name not in found.lost:
            found.lost.append(name)
        found.lines.append(f"{name}: {error.problem}: {RESTORE}")
    return found


def _made_again(store: StorePath) -> Manifest:
    """A manifest of what the folders hold, where the newest one is lost: of each table the newest
    base and what came after it."""
    numbers, known = numbers_of(store), Manifest()
    for number in sorted(numbers, reverse=True):
        with suppress(StoreDamaged):
            known = load_manifest(store, number)
            break
    reached, files, service = max([0, *numbers]), {}, known.service
    with suppress(StoreDamaged):
        reached = max(reached, read_head(store)[0])
    for name, table in TABLES.items():
        parts = [part for path in disk.files_in(store / name) if (part := _intact(path, table))]
        base = max((part.seq for part in parts if part.kind == "base"), default=0)
        there = {
            part.seq: part
            for part in parts
            if (part.kind == "base" and part.seq == base) or part.seq > base
        }
        named = {int(file.name[5:13]): file for file in known.files.get(name, ())}
        wanted = {seq: file for seq, file in named.items() if seq > base}
        wanted = {seq: part.file for seq, part in there.items()} | wanted
        files[name] = tuple(wanted[seq] for seq in sorted(wanted))
        for part in there.values():
            service, reached = part.header.service, max(reached, part.seq)
    newest = max((one.name for one in intact_records(store / RECORDS)), default="")
    return replace(known, number=reached, service=service, files=files, record=newest)


def _look_at_table(folder: StorePath, table: Table, found: Repair) -> tuple[File, ...]:
    """Those of its files that are left: all before the first that is damaged or missing."""
    files = found.manifest.files.get(table.name, ())
    for place, file in enumerate(files):
        try:
            check_data(open_part(folder, file, table))
        except FileNotFoundError:
            problem = "is missing"
            found.lost.append(f"{table.name}/{file.name}")
        except (StoreError, OSError) as error:
            problem = error.problem if isinstance(error, StoreDamaged) else str(error)
        else:
            continue
        is_base, seq = file.name.startswith("base"), int(file.name[5:13])
        found.lines.append(
            f"{table.name}/{file.name}: {problem}: the versions of rows "
            f"{'up to' if is_base else 'from'} publication {seq} "
            f"{'and later ' * is_base}are lost, what is current is fetched again"
        )
        found.tables[table.name] = 1 if is_base else seq
        left = (folder / one.name for one in files[place:])
        found.aside += [path for path in left if path.exists()]
        return tuple(files[:place])
    return tuple(files)


def _intact(path: StorePath, table: Table) -> Part | None:
    """The part at ``path``, if there is one whose footer is what was written."""
    if not FILE_NAME.fullmatch(path.name):
        return None
    try:
        return open_part(path.parent, file_of(path), table)
    except StoreError:
        return None


def set_aside(store: TableStore, found: Repair, check_held: Callable[[], None]) -> None:
    """Move the files of ``found``, and publish what is left with a record of what was lost; the
    caller holds the lock."""
    check_held()
    for path in found.aside:
        target = store.path / SET_ASIDE / path.parent.name / path.name
        with disk.named(path):
            if isinstance(path, RemotePath) and isinstance(target, RemotePath):
                path.filesystem.create_dir(target.parent.key, recursive=True)
                path.filesystem.move(path.key, target.key)
            elif not isinstance(path, RemotePath) and not isinstance(target, RemotePath):
                disk.make_folder(target.parent)
                path.rename(target)
                for folder in (target.parent, path.parent):  # there before it is gone here
                    disk.sync_folder(folder)
    manifest = found.manifest
    content: dict[str, Any] = {"lost": found.lost, "tables": found.tables, "found": found.lines}
    if found.records is not None:
        content["records"] = found.records
    store.commit(check_held, store.clock(), manifest.files, [("repair", content)], before=manifest)
