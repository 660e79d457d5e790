"""A store's rows and records as its files have them: by the newest manifest, with pyarrow alone.

Nothing of the program is asked, so that what it reads can be held against this.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

_MANIFEST: Final = re.compile(r"manifests/(\d{8})\.json$")
Row = dict[str, Any]


def rows_of_folder(folder: Path, columns: Iterable[str]) -> dict[str, Row]:
    """Of a store on this machine; none where nothing was published."""
    names = [f"manifests/{path.name}" for path in folder.glob("manifests/*.json")]
    return rows(names, lambda name: (folder / name).read_bytes(), columns)


def records_of_folder(folder: Path) -> list[Row]:
    """The records of a store on this machine, oldest first; none where nothing was published.
    Raises ``ValueError`` where one is not what was written, ``FileNotFoundError`` where it is
    not there."""
    manifests = sorted(folder.glob("manifests/????????.json"))
    name = _manifest(manifests)["record"] if manifests else ""
    found: list[Row] = []
    while name:
        written = (folder / "records" / name).read_bytes()
        if hashlib.sha256(written).hexdigest()[:16] != name[9:25]:
            raise ValueError(f"{name} is not what was written")
        found.insert(0, json.loads(written))
        name = found[0]["previous"]
    return found


def rows(
    names: Iterable[str], read: Callable[[str], bytes], columns: Iterable[str]
) -> dict[str, Row]:
    """The newest version of each transfer, by its id: ``columns`` of it, times in ns. ``names`` are
    the files of a store, from its folder on, and ``read`` gives the bytes of one."""
    manifests = {int(found[1]): name for name in names if (found := _MANIFEST.search(name))}
    if not manifests:
        return {}
    manifest = json.loads(read(manifests[max(manifests)]))["manifest"]
    newest: dict[str, Row] = {}
    wanted = ["id", "updated_at", *columns]
    for name, *_ in manifest["files"].get("transfers", ()):
        table = pq.read_table(pa.BufferReader(read(f"transfers/{name}")))
        for row in _in_ns(table.select(list(dict.fromkeys(wanted)))).to_pylist():
            id_ = row.pop("id")
            before = newest.get(id_)
            # parts stand in the order in which they came, a base has the current version first
            if before is None or (
                row["updated_at"] >= before["updated_at"]
                if name.startswith("part-")
                else row["updated_at"] > before["updated_at"]
            ):
                newest[id_] = row
    return newest


def known_by_time(folder: Path, table: str) -> list[tuple[int, dict[str, int]]]:
    """When each publication of ``table`` was made (ns), oldest first, and what was known from then
    on: when each row had changed last, by its id."""
    published: list[tuple[int, int]] = []
    known: dict[int, dict[str, int]] = {}
    for name in files_of_folder(folder).get(table, ()):
        rows = _in_ns(pq.read_table(folder / table / name))
        metadata = pq.read_metadata(folder / table / name).metadata
        came = json.loads(metadata[b"fundlab"])["publications"]
        bounds = [one for one in rows.column_names if one.startswith("_")]
        versions = rows.select(["id", "updated_at", *bounds]).to_pylist()
        before = known[published[-1][0]] if published else {}
        for one in came:
            seq = one["seq"]
            published.append((seq, one["published_at"]))
            known[seq] = before | {
                row["id"]: row["updated_at"] for row in versions
                if name.startswith("part-")
                or (row[bounds[0]] <= seq and (row[bounds[1]] or seq + 1) > seq)
            }  # fmt: skip
    return [(at, known[seq]) for seq, at in published]


def _in_ns(table: pa.Table) -> pa.Table:
    at = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
    for name in at:
        number = table.column_names.index(name)
        table = table.set_column(number, name, table[name].cast(pa.int64()))
    return table


def watermarks(folder: Path) -> dict[str, dict[str, Any]]:
    """Of each table of a store on this machine up to where it is known: a moment and an id, by what
    the moment is of."""
    found = {}
    for table, names in files_of_folder(folder).items():
        metadata = pq.read_metadata(folder / table / names[-1]).metadata
        found[table] = json.loads(metadata[b"fundlab"])["publications"][-1]["watermark"]
    return found


def groups_of(folder: Path, table: str) -> list[tuple[int, int, int]]:
    """Of each row group of ``table`` in a store on this machine how many rows it has, and of when
    the first and the last are (ns), as its file says; of those whose rows all say it."""
    found: list[tuple[int, int, int]] = []
    for name in files_of_folder(folder).get(table, ()):
        metadata = pq.read_metadata(folder / table / name).metadata
        said = json.loads(metadata[b"fundlab"])["row_groups"]
        found += [(count, first, last) for count, first, last in said if first is not None]
    return found


def files_of_folder(folder: Path) -> dict[str, list[str]]:
    """The names of each table's files in a store on this machine, oldest first."""
    manifests = sorted(folder.glob("manifests/????????.json"))
    named = _manifest(manifests)["files"] if manifests else {}
    return {table: [name for name, *_ in files] for table, files in named.items()}


def _manifest(paths: list[Path]) -> Row:
    found: Row = json.loads(paths[-1].read_bytes())["manifest"]
    return found


# ------------------------------------------------------------------------------ by themselves

_KEYS: Final = {"balances": ("profile_id", "asset", "observed_at")}
_NUMBERED: Final = re.compile(r"(part|base)-(\d{8})-([0-9a-f]{16})\.parquet")
_AHEAD_NS: Final = 15 * 60 * 10**9
_SWEPT_NS: Final = 2 * 3600 * 10**9


def unsound(folder: Path, *, clock_is_right: bool = True, ended: bool = True) -> list[str]:
    """What of the files of a store on this machine is not as the others say, or as its own bytes
    are: sizes and hashes, who names whom, each statistic, which row replaces which, up to where a
    table is known. That is by moments only where the ``clock_is_right``. Unless each publication
    ``ended``, the next one makes up for the last: a head of the manifest before, a manifest that is
    not removed."""
    wrong: list[str] = []

    def check(condition: object, what: str) -> None:
        if not condition:
            wrong.append(what)

    paths = sorted((folder / "manifests").glob("????????.json"))
    number, digest = json.loads((folder / "head").read_bytes())
    check(len(paths) <= 2 + (not ended), f"{len(paths)} manifests are there")
    before: Row = {}
    heads = []
    for path in paths:
        whole = json.loads(path.read_bytes())
        newest, said = whole["manifest"], whole["sha256"]
        check(said == _sha256(newest), f"{path.name} is not what its hash says")
        check(newest["number"] == int(path.stem), f"{path.name} is number {newest['number']}")
        if before:
            check(newest["previous"] == before["sha256"], f"{path.name} names another before it")
            later = newest["at"] > before["manifest"]["at"]
            check(later or not clock_is_right, f"{path.name} is of {newest['at']}")
        before = whole
        heads.append([newest["number"], said])
    check([number, digest] in heads[-1 - (not ended) :], f"head has {number}, {digest}")
    for table, files in newest["files"].items():
        check(files, f"of {table} nothing is named")
        wrong += _unsound(folder, table, files, newest, clock_is_right)
    return wrong


def _unsound(
    folder: Path, table: str, files: list[list[Any]], manifest: Row, clock_is_right: bool
) -> list[str]:
    wrong: list[str] = []
    versions: dict[tuple[int, int], tuple[Any, ...]] = {}
    current: dict[Any, tuple[int, int]] = {}
    """Of each row its file's number and its place there."""
    last, swept, marks = 0, 0, dict[str, int]()
    key, moment = _KEYS.get(table, ("id",)), "observed_at" if table == "balances" else "created_at"

    for place, (name, size, sha256) in enumerate(files):

        def check(condition: object, what: str, name: str = name) -> None:
            if not condition:
                wrong.append(f"{table}/{name}: {what}")

        content = (folder / table / name).read_bytes()
        kind, digits, of_footer = _NUMBERED.fullmatch(name).groups()  # type: ignore[union-attr]
        check(len(content) == size, f"{len(content)} bytes, not {size}")
        check(hashlib.sha256(content).hexdigest() == sha256, "is not what was written")
        footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
        check(hashlib.sha256(footer).hexdigest()[:16] == of_footer, "its footer is another")
        file = pq.ParquetFile(pa.BufferReader(content))
        header = json.loads(file.metadata.metadata[b"fundlab"])
        publications, seq = header["publications"], int(digits)
        check(header["table"] == table, f"is of {header['table']}")
        check(header["service"] == manifest["service"], f"is of {header['service']}")
        check(kind == "part" or not place, "a base is not the first")
        check(publications[-1]["seq"] == seq, f"its last is {publications[-1]['seq']}")
        check(kind == "base" or len(publications) == 1, f"has {len(publications)} publications")
        for one in publications:
            at = one["published_at"]
            check(last < one["seq"] <= manifest["number"], f"{one['seq']} follows {last}")
            late = clock_is_right and at > _ns(manifest["at"])
            check(not late, f"of {at}, in a manifest of {manifest['at']}")
            since = one["query"].get("swept_at") or 0
            check(since >= swept or not clock_is_right, f"swept at {since}, and before at {swept}")
            near = at - since <= _SWEPT_NS or not swept
            check(table != "balances" or near or not clock_is_right, f"last swept at {since}")
            for mark, newest in one["watermark"].items():
                back = clock_is_right and _ns(newest["at"]) < marks.get(mark, 0)
                check(not back, f"{mark} goes back to {newest}")
                marks[mark] = _ns(newest["at"])
            last, swept = one["seq"], since
        if kind == "part":
            check(publications[0]["rows"] == file.metadata.num_rows, f"says {publications}")
        groups = range(file.metadata.num_row_groups)
        check(len(header["row_groups"]) == len(groups), f"{len(groups)} groups, not {header}")
        rows, start = [_in_ns(file.read_row_group(one)) for one in groups], 0
        live = len(groups) if kind == "part" else header["live_groups"]
        for group, some in enumerate(rows):
            least = file.metadata.row_group(group)
            columns = [least.column(one) for one in range(least.num_columns)]
            check(all(one.compression == "ZSTD" for one in columns), "is not compressed")
            moments = some[moment].to_pylist()
            known = None not in moments
            said = [len(moments), *((min(moments), max(moments)) if known else (None, None))]
            check(header["row_groups"][group] == said, f"{said}, not {header['row_groups'][group]}")
            keys = list(zip(*(some[one].to_pylist() for one in (moment, *key)), strict=True))
            sorts = kind == "base" and known and group < live
            check(not sorts or keys == sorted(keys), f"{group} is out of order")
            bounds = [some[one].to_pylist() for one in some.column_names if one.startswith("_")]
            values = some.drop_columns([one for one in some.column_names if one.startswith("_")])
            for at, (row, one, two) in enumerate(zip(values.to_pylist(), *bounds, strict=True)):
                id_ = tuple(row[member] for member in key)
                here = seq, start + at
                versions[here] = tuple(row.values())
                if kind == "base":
                    check((two is None) == (group < live), f"{here} until {two}")
                    check(two is None or one < two <= seq, f"{here} from {one} until {two}")
                    if two is None:
                        check(id_ not in current, f"{id_} is current twice")
                        current[id_] = here
                    continue
                replaces = None if one is None else (one, two)
                check(
                    current.get(id_) == replaces,
                    f"{here} replaces {replaces}, not {current.get(id_)}",
                )
                if replaces in versions:
                    check(versions[replaces] != versions[here], f"{here} is as it was")  # type: ignore[index]
                    changed = [one[values.column_names.index("updated_at")]
                               for one in (versions[replaces], versions[here])  # type: ignore[index]
                               if "updated_at" in values.column_names]  # fmt: skip
                    late = None in changed or changed == sorted(changed)
                    check(late, f"{here} is older than what it replaces")
                current[id_] = here
            start += len(moments)
        now = publications[-1]
        created = now["watermark"].get("created")
        if created and now["query"].get("since") is None and clock_is_right:
            names = values.column_names
            at_id, at_moment = names.index("id"), names.index(moment)
            there = [one[at_moment] for one in versions.values() if one[at_moment] is not None]
            until = now["published_at"] + _AHEAD_NS
            newest = max((one for one in there if one <= until), default=0)
            check(_ns(created["at"]) == newest, f"known up to {created}, and there is {newest}")
            ids = {one[at_id] for one in versions.values() if one[at_moment] == newest}
            check(created["id"] in ids, f"{created['id']} is not of {ids}")
        updated = now["watermark"].get("updated")
        if updated:
            check(
                (updated["id"],) in current or now["query"].get("since"), f"{updated} is not there"
            )
    return wrong


def _ns(text: str) -> int:
    """Of a moment as the program writes it."""
    whole, _, part = text.removesuffix("Z").partition(".")
    seconds = datetime.fromisoformat(whole).replace(tzinfo=UTC).timestamp()
    return int(seconds) * 10**9 + int(part.ljust(9, "0") or 0)


def _sha256(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
