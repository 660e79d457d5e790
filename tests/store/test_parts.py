"""One file of the store: what is written of it, what a reader takes it for, and what is damage."""

from __future__ import annotations

import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from fake_service import transfer

from fundlab.base.errors import StoreChanged, StoreDamaged, StoreError
from fundlab.store import disk, parts
from fundlab.store.manifests import File
from fundlab.store.parts import Header, Part, PartReader, Publication, read_footer
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
        Publication(number, 7) for number in range(1 if kind == "base" else seq, seq + 1)
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
            (Publication(2, 7, 5),),
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
        (lambda header: header.update(schema_version=SCHEMA_VERSION + 1), "a newer fundlab"),
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
        draft.path.write_bytes(content)
        with pytest.raises(StoreDamaged, match="is not what was written"):
            parts.check_files([part])
        draft.path.write_bytes(content[:-1])
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
