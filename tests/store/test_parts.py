"""Files of the store, made by hand: what is written of one, what a reader takes it for, which rows
of several are current, and what is damage."""

from __future__ import annotations

import io
import json
import weakref
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fake_service import transfer

from fundlab.base.errors import StoreChanged, StoreDamaged, StoreError
from fundlab.store import compaction, disk, parts, snapshot
from fundlab.store.manifests import File
from fundlab.store.parts import Header, Part, PartReader, Publication, read_footer
from fundlab.store.snapshot import (
    Snapshot,
    read_current,
    read_history,
    read_versions,
    steadily,
    take_snapshot,
)
from fundlab.tables import TABLES, decode_page
from fundlab.tables.schema import SCHEMA_VERSION

TRANSFERS = TABLES["transfers"]
DAY_NS = 1_772_323_200 * 10**9  # 2026-03-01


def rows(*numbers: int, **columns: list[int | None]) -> pa.Table:
    """Transfers of these seconds of 2026-03-01, with the bookkeeping given."""
    body = json.dumps({"items": [transfer(n) for n in numbers]}).encode()
    found = decode_page("transfers", body).rows
    for name, values in columns.items():
        kind = pa.int64() if name == parts.REPLACED_ROW else pa.int32()
        found = found.append_column(pa.field(name, kind), pa.array(values, kind))
    return found


def new(*numbers: int) -> pa.Table:
    return rows(*numbers, _part=[None] * len(numbers), _row=[None] * len(numbers))


def write(folder: Path, kind: parts.Kind, *series: list[pa.Table], seq: int = 1) -> parts.Draft:
    entries = tuple(
        Publication(number, 10 * number) for number in range(1 if kind == "base" else seq, seq + 1)
    )
    header = Header("transfers", SCHEMA_VERSION, {}, entries)
    draft = parts.write_part(folder, kind, TRANSFERS, header, *series)
    disk.publish(draft.hidden, draft.path)
    return draft


def opened(folder: Path, draft: parts.Draft) -> Part:
    return parts.open_part(folder, draft.file, TRANSFERS)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(parts, "_opened", {})
    monkeypatch.setattr(parts, "_intact", {})


def test_a_draft_that_was_published_leaves_nothing_to_discard(tmp_path: Path) -> None:
    """As where the disk fails once the part has its name."""
    draft = write(tmp_path, "part", [new(1)])
    draft.discard()
    assert [path.name for path in tmp_path.iterdir()] == [draft.path.name]


class TestWritten:
    def test_a_part(self, tmp_path: Path) -> None:
        """Its second row group replaces a row, its third all."""
        whole = rows(1, 2, 3, 4, 5, _part=[None, None, None, 1, 1], _row=[None, None, None, 0, 8])
        draft = write(tmp_path, "part", [whole.slice(0, 3), whole.slice(3)], seq=2)
        part = opened(tmp_path, draft)
        assert (part.kind, part.seq, part.rows, part.live_groups) == ("part", 2, 5, 3)
        assert (list(part.starts), dict(part.replacing)) == ([0, 2, 4, 5], {1: 1, 2: 1})
        assert part.header.row_groups == tuple(
            (count, DAY_NS + first * 10**9, DAY_NS + last * 10**9)
            for count, first, last in ((2, 1, 2), (2, 3, 4), (1, 5, 5))
        )
        assert (part.header.live_groups, part.header.publications) == (
            None,
            (Publication(2, 20, 5),),
        )
        assert [[list(one) for one in group] for group in part.pointers] == [
            [[3], [1], [0]], [[4], [1], [8]],
        ]  # fmt: skip
        data = draft.path.read_bytes()
        assert draft.file == File(draft.path.name, len(data), sha256(data).hexdigest())
        assert draft.rows == 5
        assert [path.name for path in tmp_path.iterdir()] == [draft.path.name]

    def test_a_base_begins_with_what_is_current(self, tmp_path: Path) -> None:
        current = rows(1, 2, 3, _from=[1, 1, 2], _to=[None] * 3)
        gone = rows(1, 2, _from=[1, 1], _to=[2, 3])
        part = opened(tmp_path, write(tmp_path, "base", [current], [gone], seq=3))
        assert (part.kind, part.seq, part.rows, part.live_groups) == ("base", 3, 5, 2)
        assert (list(part.starts), dict(part.replacing)) == ([0, 2, 3, 5], {})
        assert [entry.rows for entry in part.header.publications] == [0, 0, 0]
        assert part.pointers == []

    @pytest.mark.parametrize("kind", ["part", "base"])
    def test_one_of_no_rows(self, tmp_path: Path, kind: parts.Kind) -> None:
        part = opened(tmp_path, write(tmp_path, kind, []))
        assert (part.rows, list(part.starts), part.live_groups) == (0, [0], 0)

    def test_a_row_without_a_moment_takes_its_row_groups_bounds(self, tmp_path: Path) -> None:
        whole = new(1, 2, 3)
        place = whole.schema.get_field_index("created_at")
        moments = pc.if_else(pa.array([True, False, True]), whole.column(place), None)
        part = opened(
            tmp_path, write(tmp_path, "part", [whole.set_column(place, "created_at", moments)])
        )
        third = DAY_NS + 3 * 10**9
        assert part.header.row_groups == ((2, None, None), (1, third, third))

    @pytest.mark.parametrize(
        ("given", "sizes"),
        [([], []), ([0], []), ([1], [1]), ([2], [2]), ([3], [2, 1]), ([1, 1], [2]),
         ([1, 2, 2], [2, 2, 1]), ([5, 1], [2, 2, 2])],
    )  # fmt: skip
    def test_row_groups_are_full_but_the_last(self, given: list[int], sizes: list[int]) -> None:
        whole = pa.table({"n": range(sum(given))})
        starts = [sum(given[:n]) for n in range(len(given))]
        tables = [whole.slice(start, count) for start, count in zip(starts, given, strict=True)]
        found = list(parts.in_row_groups(tables))
        assert [group.num_rows for group in found] == sizes
        assert [n for group in found for n in group.column("n").to_pylist()] == [*range(sum(given))]

    def test_a_row_group_is_held_by_who_asked_for_it_alone(self) -> None:
        groups = parts.in_row_groups(pa.table({"n": [n, n]}) for n in range(2))
        group = next(groups)
        held = weakref.ref(group)
        del group
        assert held() is None
        assert [one.num_rows for one in groups] == [2]

    def test_a_file_that_is_known_holds_the_bytes_of_its_footer_not_what_they_say(
        self, tmp_path: Path
    ) -> None:
        """Which takes ten times as much: 64 kB of each of many files, for as long as a process
        lasts."""
        draft = write(tmp_path, "part", [new(1, 2)])
        part = opened(tmp_path, draft)
        assert not any(isinstance(one, pq.FileMetaData) for one in vars(part).values())
        assert part.metadata.equals(pq.read_metadata(draft.path))

    def test_each_page_has_a_checksum(self, tmp_path: Path) -> None:
        draft = write(tmp_path, "part", [new(1, 2)])
        part = opened(tmp_path, draft)
        column = part.metadata.row_group(0).column(part.metadata.schema.names.index("memo"))
        whole = draft.path.read_bytes()
        at = column.data_page_offset + column.total_compressed_size - 1
        for place in (at, at - 3):  # levels, which no compression covers
            draft.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(StoreDamaged, match="row group 0 is not what was written"):
                PartReader(part).read(0, TRANSFERS.schema)


MAGIC = b"PAR1"


@pytest.mark.parametrize(
    ("content", "footer", "problem"),
    [
        (b"", None, "cut short, or not a Parquet file"),
        (MAGIC, None, "cut short, or not a Parquet file"),
        (b"\0\0\0" + MAGIC, None, "cut short, or not a Parquet file"),
        (b"\0\0\0\0PAR2", None, "cut short, or not a Parquet file"),
        (b"\0\0\0\0" + MAGIC, b"\0\0\0\0PAR1", ""),
        (b"\1\0\0\0" + MAGIC, None, "the footer's length is not what was written"),
        (b"f\1\0\0\0" + MAGIC, b"f\1\0\0\0PAR1", ""),
        (b"f\2\0\0\0" + MAGIC, None, "the footer's length is not what was written"),
        (b"rows f\1\0\0\0" + MAGIC, b"f\1\0\0\0PAR1", ""),
    ],
)
def test_a_footer_is_as_long_as_it_says(
    tmp_path: Path, content: bytes, footer: bytes | None, problem: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    if footer is None:
        with pytest.raises(StoreDamaged, match=problem):
            read_footer(path)
    else:
        expected = footer, sha256(footer).hexdigest()[:16], len(content)
        assert read_footer(path) == expected


def forged(folder: Path, change: Any = None, *, without: str = "", statistics: bool = True) -> File:
    """A part of one row, whose header was changed before it got its name."""
    header = {
        "table": "transfers", "schema_version": SCHEMA_VERSION, "service": {}, "live_groups": None,
        "publications": [{"seq": 1, "published_at": 7}], "row_groups": [[1, None, None]],
    }  # fmt: skip
    if change is not None:
        change(header)
    sink = io.BytesIO()
    table = new(1).drop_columns([without] if without else [])
    with pq.ParquetWriter(sink, table.schema, write_statistics=statistics) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"fundlab": json.dumps(header)})
    path = folder / "x"
    path.write_bytes(sink.getvalue())
    made = path.rename(folder / f"part-00000001-{read_footer(path)[1]}.parquet")
    return File(made.name, len(sink.getvalue()), sha256(sink.getvalue()).hexdigest())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda header: header.update(row_groups=[[2, None, None]]),
            "its row groups are not those",
        ),
        (lambda header: header.update(row_groups=[]), "its row groups are not those"),
        (lambda header: header.update(live_groups=-1), "its row groups are not those"),
        (lambda header: header.update(live_groups=2), "its row groups are not those"),
        (lambda header: header.update(table="events"), "holds events, not transfers"),
        (lambda header: header["publications"][0].update(seq=2), "holds publication 2, not 1"),
        (lambda header: header.update(publications=[]), "is not one of this store's files"),
        (lambda header: header.update(schema_version=2), "a newer fundlab"),
        (lambda header: header.pop("publications"), "is not one of this store's files"),
        (lambda header: header.update(more=1), "is not one of this store's files"),
    ],
)
def test_a_header_that_contradicts_the_file_is_damage(
    tmp_path: Path, change: Any, problem: str
) -> None:
    with pytest.raises(StoreError, match=problem):
        parts.open_part(tmp_path, forged(tmp_path, change), TRANSFERS)


def test_a_file_without_bookkeeping_is_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="has no column _part"):
        parts.open_part(tmp_path, forged(tmp_path, without="_part"), TRANSFERS)


@pytest.mark.parametrize(("statistics", "replacing"), [(True, {}), (False, {0: 1})])
def test_what_may_replace_is_all_where_the_footer_does_not_say(
    tmp_path: Path, statistics: bool, replacing: dict[int, int]
) -> None:
    part = parts.open_part(tmp_path, forged(tmp_path, statistics=statistics), TRANSFERS)
    assert part.replacing == replacing


class TestOpened:
    """A file that has not changed is not opened again, in as many files as are remembered."""

    @pytest.fixture(autouse=True)
    def settled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk, "has_settled", lambda state: True)
        monkeypatch.setattr(parts, "_KEPT_OPEN", 2)

    def test_the_last_ones_are_remembered(self, tmp_path: Path) -> None:
        one, other, third = (write(tmp_path, "part", [new(n)]) for n in (1, 2, 3))
        first, second = opened(tmp_path, one), opened(tmp_path, other)
        assert (opened(tmp_path, one) is first, opened(tmp_path, other) is second) == (True, True)
        opened(tmp_path, third)
        assert opened(tmp_path, other) is second
        assert opened(tmp_path, one) is not first

    def test_not_one_of_another_manifest(self, tmp_path: Path) -> None:
        draft = write(tmp_path, "part", [new(1)])
        opened(tmp_path, draft)
        other = File(draft.file.name, draft.file.size, "0" * 64)
        assert parts.open_part(tmp_path, other, TRANSFERS).file == other

    def test_not_one_that_changed(self, tmp_path: Path) -> None:
        draft = write(tmp_path, "part", [new(1)])
        opened(tmp_path, draft)
        whole = draft.path.read_bytes()
        draft.path.write_bytes(b"x" + whole)
        with pytest.raises(StoreDamaged, match=rf"has {len(whole) + 1:,} bytes instead of"):
            opened(tmp_path, draft)
        (tmp_path / "x").touch()
        with pytest.raises(StoreDamaged, match="is not a file of the store"):
            parts.open_part(tmp_path, File("x", 0, ""), TRANSFERS)

    def test_a_whole_file_is_read_once(self, tmp_path: Path) -> None:
        draft = write(tmp_path, "part", [new(1)])
        part = opened(tmp_path, draft)
        parts.check_files([part])
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(parts, "file_of", lambda path: pytest.fail("it was read again"))
            parts.check_files([part, part])
        content = bytearray(draft.path.read_bytes())
        content[9] ^= 1
        draft.path.write_bytes(bytes(content))
        with pytest.raises(StoreDamaged, match="is not what was written"):
            parts.check_files([part])
        draft.path.write_bytes(bytes(content[:-1]))
        with pytest.raises(StoreDamaged, match=r"has [\d,]+ bytes instead of"):
            parts.check_files([part])

    @pytest.mark.parametrize("check", [parts.check_files, lambda found: PartReader(found[0])])
    def test_one_that_is_gone_was_taken_away(self, tmp_path: Path, check: Any) -> None:
        draft = write(tmp_path, "part", [new(1)])
        part = opened(tmp_path, draft)
        draft.path.unlink()
        for read in (lambda: check([part]), lambda: opened(tmp_path, draft)):
            with pytest.raises(StoreChanged, match="a compaction took it away while it was read"):
                read()

    def test_a_disk_that_fails_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        draft = write(tmp_path, "part", [new(1)])

        def fails(*given: Any) -> Any:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(Path, "open", fails)
        with pytest.raises(StoreError, match="cannot be read: Input/output error") as caught:
            parts.file_of(draft.path)
        assert not isinstance(caught.value, StoreDamaged)


def test_row_groups_are_worked_on_in_their_order(tmp_path: Path) -> None:
    part = opened(tmp_path, write(tmp_path, "part", [new(*range(19))]))
    wanted = [(part, [9, 0]), (part, []), (part, [*range(1, 9)])]
    for tasks in (wanted, wanted[:1], [], wanted * 9):
        found = parts.each_row_group(
            tasks, lambda reader, number: reader.read(number, TRANSFERS.schema).column("id")[0]
        )
        assert [one.as_py() for one in found] == [
            f"t-{2 * number:06d}" for _, numbers in tasks for number in numbers
        ]
    ids = [1, 2, 3, 17, 18]
    assert part.groups_of(pc.cast(pa.array(ids), pa.int64()).to_numpy()) == [0, 1, 8, 9]


def test_a_column_that_a_file_lacks_is_missing_in_each_row(tmp_path: Path) -> None:
    part = opened(tmp_path, write(tmp_path, "part", [new(1, 2)]))
    schema = pa.schema([("colour", pa.string()), ("id", pa.string())])
    assert PartReader(part).read(0, schema).to_pylist() == [
        {"colour": None, "id": "t-000001"}, {"colour": None, "id": "t-000002"},
    ]  # fmt: skip
    assert PartReader(part).read(0, schema.remove(1)).to_pylist() == [{"colour": None}] * 2


@pytest.mark.parametrize(
    ("since", "begins"),
    [(None, None), ("1970-01-01T00:00:00Z", None), ("1970-01-01T00:00:00.000000001Z", 1),
     ("1969-12-31T23:59:59Z", None), ("2026-03-01T00:00:00Z", DAY_NS)],
)  # fmt: skip
def test_where_a_publications_rows_begin(since: str | None, begins: int | None) -> None:
    assert Publication(1, 7, query={} if since is None else {"since": since}).begins == begins


ALL_NEW: dict[str, list[int | None]] = {"_part": [None] * 5, "_row": [None] * 5}
SECOND = rows(2, 3, 6, _part=[1, 1, None], _row=[1, 2, None])
FOURTH = rows(2, 4, _part=[2, 1], _row=[0, 3])
BASE = [
    [rows(1, 3, 4, 5, 6, _from=[1, 2, 1, 1, 2], _to=[None] * 5), rows(2, _from=[2], _to=[None])],
    [rows(2, 3, _from=[1, 1], _to=[2, 2])],
]
KNOWN: dict[int, list[int]] = {
    0: [],
    1: [1, 2, 3, 4, 5],
    2: [1, 2, 3, 4, 5, 6],
    4: [1, 2, 3, 4, 5, 6],
}
"""Current rows by publication; there is none with the number 3."""


def seconds(table: pa.Table) -> list[int]:
    return sorted(int(name[2:]) for name in table.column("id").to_pylist())


class TestSnapshot:
    """In parts 1, 2 and 4; and with 1 and 2 merged into a base."""

    @pytest.fixture(params=["parts", "base"])
    def files(self, tmp_path: Path, request: pytest.FixtureRequest) -> list[File]:
        fourth = [FOURTH]
        if request.param == "base":
            first = [write(tmp_path, "base", *BASE, seq=2)]
            # of the base's rows 0 to 5, 2 is the last and 4 the third
            fourth = [rows(2, 4, _part=[2, 2], _row=[5, 2])]
        else:
            first = [
                write(tmp_path, "part", [rows(1, 2, 3, 4, 5, **ALL_NEW)]),
                write(tmp_path, "part", [SECOND], seq=2),
            ]
        return [draft.file for draft in (*first, write(tmp_path, "part", fourth, seq=4))]

    def take(self, folder: Path, files: list[File], **limits: Any) -> Snapshot:
        return take_snapshot(folder, TRANSFERS, files, **limits)

    @pytest.mark.parametrize(
        ("limits", "last"),
        [({"as_of": 9}, 0), ({"as_of": 10}, 1), ({"as_of": 19}, 1), ({"as_of": 20}, 2),
         ({"as_of": 39}, 2), ({"as_of": 40}, 4), ({"limit": 0}, 0), ({"limit": 1}, 1),
         ({"limit": 2}, 2), ({"limit": 3}, 2), ({"limit": 4}, 4), ({"limit": 9}, 4), ({}, 4),
         ({"as_of": 20, "limit": 1}, 1), ({"as_of": 10, "limit": 2}, 1)],
    )  # fmt: skip
    def test_what_was_known(
        self, tmp_path: Path, files: list[File], limits: dict[str, int], last: int
    ) -> None:
        taken = self.take(tmp_path, files, **limits)
        assert seconds(read_current(taken)) == KNOWN[last]
        assert (taken.limit, taken.count) == (last, len(KNOWN[last]))
        numbers = [entry.seq for entry in taken.publications]
        assert numbers == [number for number in (1, 2, 4) if number <= last]
        assert (taken.last and taken.last.seq) == (last or None)
        alive = replace(taken, accepted_gone={"t-000002": 1, "t-000006": 1, "t-9": 1})
        assert seconds(read_current(alive)) == [n for n in KNOWN[last] if n not in (2, 6)]
        assert alive.count == len([n for n in KNOWN[last] if n not in (2, 6)])

    def test_every_version(self, tmp_path: Path, files: list[File]) -> None:
        taken = self.take(tmp_path, files)
        found = read_history(taken)
        published = found.column("published_at").cast(pa.int64()).to_pylist()
        ids = [int(name[2:]) for name in found.column("id").to_pylist()]
        assert [*zip(ids, published, strict=True)] == [
            (1, 10), (2, 10), (3, 10), (4, 10), (5, 10), (2, 20), (3, 20), (6, 20), (2, 40), (4, 40)
        ]  # fmt: skip
        lives = [
            (int(row["id"][2:]), row["_from"], row["_to"])
            for part in taken.files
            for group in read_versions(part, taken.replaced, TRANSFERS.schema)
            for row in group.select(["id", "_from", "_to"]).to_pylist()
        ]
        assert sorted(lives, key=lambda life: (life[1], life[0])) == [
            (1, 1, None), (2, 1, 2), (3, 1, 2), (4, 1, 4), (5, 1, None),
            (2, 2, 4), (3, 2, None), (6, 2, None), (2, 4, None), (4, 4, None),
        ]  # fmt: skip

    def test_its_span_is_that_of_every_version(self, tmp_path: Path, files: list[File]) -> None:
        taken = self.take(tmp_path, files)
        assert taken.span == (DAY_NS + 10**9, DAY_NS + 6 * 10**9)
        assert self.take(tmp_path, []).span is None

    @pytest.mark.parametrize(
        ("first", "end", "found"),
        [(None, None, [1, 2, 3, 4, 5, 6]), (3, None, [3, 4, 5, 6]), (None, 3, [1, 2]),
         (2, 5, [2, 3, 4]), (6, 7, [6]), (7, None, []), (None, 1, []), (3, 3, [])],
    )  # fmt: skip
    def test_from_a_moment_until_another(
        self,
        tmp_path: Path,
        files: list[File],
        first: int | None,
        end: int | None,
        found: list[int],
    ) -> None:
        bounds = [None if one is None else DAY_NS + one * 10**9 for one in (first, end)]
        taken = self.take(tmp_path, files)
        assert seconds(read_current(taken, ["id"], first=bounds[0], end=bounds[1])) == found
        wanted = {"profile_id": ["P-1"], "id": ["T-000003", "t-000004"]}
        picked = read_current(taken, first=bounds[0], end=bounds[1], where=wanted)
        assert seconds(picked) == [n for n in found if n in (3, 4)]
        assert picked.schema.names == TRANSFERS.schema.names
        none = read_current(taken, ["id"], where={"profile_id": ["p-2"]})
        assert (none.num_rows, none.schema.names) == (0, ["id"])


def undated(*numbers: int) -> pa.Table:
    table = new(*numbers)
    place = table.schema.get_field_index("created_at")
    field = table.schema.field(place)
    return table.set_column(place, field, pa.nulls(len(numbers), field.type))


def test_a_row_without_a_moment_hides_none_of_its_row_group(tmp_path: Path) -> None:
    table = pa.concat_tables([new(1), undated(2), new(3, 4)])
    part = opened(tmp_path, write(tmp_path, "part", [table]))
    taken = take_snapshot(tmp_path, TRANSFERS, [part.file])
    for first, end, found in ((1, None, [1, 3, 4]), (None, 4, [1, 3]), (4, 5, [4]), (1, 2, [1])):
        bounds = [None if one is None else DAY_NS + one * 10**9 for one in (first, end)]
        assert seconds(read_current(taken, first=bounds[0], end=bounds[1])) == found


def test_the_row_groups_that_may_hold_a_moment(tmp_path: Path) -> None:
    part = opened(tmp_path, write(tmp_path, "part", [new(1, 3, 5, 7, 9)]))
    taken = take_snapshot(tmp_path, TRANSFERS, [part.file])
    for first, end, numbers in (
        (None, None, [0, 1, 2]), (3, None, [0, 1, 2]), (4, None, [1, 2]), (None, 5, [0]),
        (None, 6, [0, 1]), (9, None, [2]), (10, None, []), (None, 1, []), (4, 6, [1]),
    ):  # fmt: skip
        bounds = [None if one is None else DAY_NS + one * 10**9 for one in (first, end)]
        assert taken.numbers(part, *bounds) == numbers


@pytest.mark.parametrize(
    ("pointers", "problem"),
    [
        ([(9, 1), (1, 2)], "row 0 replaces row 1 of file 9, which has 0 rows"),
        ([(2, 2), (1, 2)], "row 0 replaces row 2 of file 2, which has 0 rows"),
        ([(3, 1), (1, 2)], "row 0 replaces row 1 of file 3, which has 0 rows"),
        ([(0, 1), (1, 2)], "row 0 replaces row 1 of file 0, which has 0 rows"),
        ([(-1, 1), (1, 2)], "row 0 replaces row 1 of file -1, which has 0 rows"),
        ([(1, 1), (1, 5)], "row 1 replaces row 5 of file 1, which has 5 rows"),
        ([(1, -1), (1, 2)], "row 0 replaces row -1 of file 1, which has 5 rows"),
        ([(1, 1), (1, None)], "row 1 replaces row -1 of file 1, which has 5 rows"),
        ([(1, 1), (None, 2)], "row 1 replaces row 2 of file -1, which has 0 rows"),
        ([(1, 3), (1, 3)], "row 3 is replaced twice, by publications 2 and 2"),
        ([(1, 0), (1, 4)], None),
    ],
)
def test_a_pointer_leads_to_a_row_of_an_earlier_file_and_no_other_does(
    tmp_path: Path, pointers: list[tuple[int | None, int | None]], problem: str | None
) -> None:
    first = write(tmp_path, "part", [rows(1, 2, 3, 4, 5, **ALL_NEW)])
    columns = {"_part": [part for part, _ in pointers], "_row": [row for _, row in pointers]}
    second = write(tmp_path, "part", [rows(2, 3, **columns)], seq=2)
    taken = take_snapshot(tmp_path, TRANSFERS, [first.file, second.file])
    if problem is None:
        assert {seq: ends.rows.tolist() for seq, ends in taken.replaced.items()} == {1: [0, 4]}
        return
    with pytest.raises(StoreDamaged, match=problem):
        read_current(taken)


def test_nothing_replaces_a_row_that_a_base_has_as_replaced(tmp_path: Path) -> None:
    base = write(tmp_path, "base", *BASE, seq=2)
    for row, problem in ((5, None), (6, "row 0 replaces row 6 of file 2, which has 6 rows")):
        later = write(tmp_path, "part", [rows(2, _part=[2], _row=[row])], seq=3)
        taken = take_snapshot(tmp_path, TRANSFERS, [base.file, later.file])
        if problem is None:
            assert taken.count == 6
        else:
            with pytest.raises(StoreDamaged, match=problem):
                read_current(taken)


@pytest.mark.parametrize("group_rows", [1, 2, 3, 100])
def test_parts_become_a_base_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_rows: int
) -> None:
    """What is current, then what was replaced; rows without a moment last of those."""
    second = rows(3, 5, 13, _part=[1, None, None], _row=[0, None, None])
    third = rows(2, 3, 9, 10, _part=[None, 2, 1, None], _row=[None, 1, 3, None])
    drafts = [
        write(tmp_path, "part", [rows(3, 4, 8, 9, 12, **ALL_NEW)]),
        write(tmp_path, "part", [undated(1), second], seq=2),
        write(tmp_path, "part", [third], seq=4),
    ]
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", group_rows)
    files = [draft.file for draft in drafts]
    draft = compaction.merge_files(tmp_path, take_snapshot(tmp_path, TRANSFERS, files))
    assert draft is not None
    found = pq.read_table(draft.hidden)
    lives = found.select(["_from", "_to"]).to_pydict()
    ids = [int(name[2:]) for name in found.column("id").to_pylist()]
    assert [*zip(ids, lives["_from"], lives["_to"], strict=True)] == [
        (2, 4, None), (3, 4, None), (4, 1, None), (5, 2, None), (8, 1, None), (9, 4, None),
        (10, 4, None), (12, 1, None), (13, 2, None), (1, 2, None), (3, 1, 2), (9, 1, 4), (3, 2, 4),
    ]  # fmt: skip
    assert (draft.rows, draft.path.name[:14]) == (13, "base-00000004-")
    disk.publish(draft.hidden, draft.path)
    base = opened(tmp_path, draft)
    assert base.starts[base.live_groups] == 10
    assert [entry.seq for entry in base.header.publications] == [1, 2, 4]
    again = take_snapshot(tmp_path, TRANSFERS, [draft.file])
    assert compaction.merge_files(tmp_path, again) is None
    assert compaction.merge_files(tmp_path, take_snapshot(tmp_path, TRANSFERS, [])) is None
    alone = compaction.merge_files(tmp_path, take_snapshot(tmp_path, TRANSFERS, files[:1]))
    assert alone is not None
    assert alone.rows == 5


@pytest.mark.parametrize(
    ("failures", "pause", "calls"),
    [(0, 100.0, 1), (9, 100.0, 10), (10, 100.0, None), (40, 0.0, 41), (12, 1.99, None)],
)
def test_what_a_compaction_takes_away_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, pause: float, calls: int | None
) -> None:
    """Ten times, and for twenty seconds."""
    now, made = [0.0], []
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: None)
    monkeypatch.setattr(snapshot, "time", clock)

    def read() -> int:
        made.append(1)
        now[0] += pause
        if len(made) <= failures:
            raise FileNotFoundError("x")
        return len(made)

    if calls is None:
        with pytest.raises(StoreDamaged, match="the store changes too fast to be read: x"):
            steadily(read)
    else:
        assert steadily(read) == calls


def test_a_row_group_has_as_many_rows_as_its_header_says(tmp_path: Path) -> None:
    part = parts.open_part(tmp_path, write(tmp_path, "part", [new(1, 2)]).file, TRANSFERS)
    schema = pa.schema([TRANSFERS.schema.field("id")])
    assert PartReader(part).read(0, schema).num_rows == 2
    reader = PartReader(replace(part, header=replace(part.header, row_groups=((4, None, None),))))
    with pytest.raises(StoreDamaged, match="row group 0 has 2 rows instead of 4"):
        reader.read(0, schema)
    lacking = pa.schema([("none", pa.string())])
    assert reader.read(0, lacking).column(0).to_pylist() == [None] * 4
