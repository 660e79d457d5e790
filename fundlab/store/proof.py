"""Proof that a store is what was written, and that its tables agree with each other.

Files, pages, schemas and ids; the invariants of each transfer; and between any two balances
observed, the change must equal the sum of the transfers the store learned of in between. That
needs no clock: each observation says which publication of the transfers it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreDamaged, StoreError
from fundlab.store.assertions import COMPLETED, broken_intervals
from fundlab.store.parts import Part, check_data, stored_schema
from fundlab.store.pins import each_pin
from fundlab.store.problems import Problem, Verification, plain
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot, read_standing, steadily, take_snapshot
from fundlab.store.versions import read_versions
from fundlab.tables.expand import member
from fundlab.tables.schema import TABLES, Table

MAX_PROBLEMS: Final = 1_000
ROW_COLUMNS: Final = (
    "id", "profile_id", "type", "direction", "status", "amount", "fee", "total", "asset",
    "group_id", "auto_conversion",
)  # fmt: skip
REQUIRED: Final = (
    "profile_id", "asset", "type", "direction", "status", "amount", "fee", "total",
)  # fmt: skip
_WIDE: Final = pa.decimal256(60, 18)


def verify_store(path: StorePath, pins: StorePath) -> Verification:
    """Read every byte of the store at ``path`` and check it; see the top of this module.

    A sync or a compaction at the same time is no problem, nor is it taken for one.
    """
    named = list(each_pin(pins))  # first: what is published from here on is beyond all of them
    problems: list[Problem] = []
    snapshots: dict[str, Snapshot] = {}
    whole: set[str] = set()
    for name, table in TABLES.items():
        snapshot, wrong = _check_table(path / name, table)
        problems += wrong
        if snapshot is not None:
            snapshots[name] = snapshot
            whole |= {name} if not wrong else set()
    problems += [*_broken_pins(named, snapshots), *_strangers(snapshots)]
    intervals = 0
    if "transfers" in whole:
        wrong, intervals = _check_rows(path, "balances" in whole)
        problems += wrong
    files = sum(len(snapshot.files) for snapshot in snapshots.values())
    rows = sum(part.rows for name in whole for part in snapshots[name].files)
    return Verification(str(path), files, rows, intervals, tuple(problems[:MAX_PROBLEMS]))


# ---------------------------------------------------------------------------- files, ids, pins


def _check_table(folder: StorePath, table: Table) -> tuple[Snapshot | None, list[Problem]]:
    """The newest state, and what is wrong with its files and ids."""

    def look() -> tuple[Snapshot, list[Problem]]:
        snapshot = take_snapshot(folder, table)
        damage = list(_damage(snapshot))
        return snapshot, damage or list(_repeated_ids(snapshot))

    try:
        return steadily(look)
    except (StoreError, OSError) as error:
        return None, [Problem(table.name, "file", str(folder), "whole", str(error))]


def _damage(snapshot: Snapshot) -> Iterator[Problem]:
    for part in snapshot.files:
        try:
            check_data(part)
            yield from _wrong_schema(snapshot, part)
            for _ in read_versions(part, {}, snapshot.table.schema):
                pass  # reading verifies the checksum of every page
        except FileNotFoundError:
            raise  # only a fresh listing can say whether it is missing or was merged
        except (StoreDamaged, OSError) as error:
            yield Problem(snapshot.table.name, "file", part.path.name, "whole", str(error))


def _wrong_schema(snapshot: Snapshot, part: Part) -> Iterator[Problem]:
    expected = {field.name: field.type for field in stored_schema(snapshot.table, part.kind)}
    for field in part.metadata.schema.to_arrow_schema():
        if field.type != expected.get(field.name, field.type):
            where = f"{part.path.name}, column {field.name}"
            wanted, found = str(expected[field.name]), str(field.type)
            yield Problem(snapshot.table.name, "schema", where, wanted, found)


def _repeated_ids(snapshot: Snapshot) -> Iterator[Problem]:
    keys = list(snapshot.table.key)
    rows = read_standing(snapshot, keys)
    counts = rows.group_by(keys).aggregate([([], "count_all")])
    often = counts.filter(pc.greater(counts.column("count_all"), 1))
    for row in often.slice(0, MAX_PROBLEMS).to_pylist():
        where = " ".join(str(row[key]) for key in keys)
        found = f"{row['count_all']} current rows"
        yield Problem(snapshot.table.name, "id", where, "one", found)


def _broken_pins(
    pins: Sequence[tuple[str, Mapping[str, int] | StoreDamaged | OSError]],
    snapshots: Mapping[str, Snapshot],
) -> Iterator[Problem]:
    for name, limits in pins:
        if not isinstance(limits, Mapping):
            yield Problem("pins", "file", f"pin {name}", "whole", str(limits))
            continue
        for table, limit in limits.items():
            if table in snapshots and limit > snapshots[table].limit:
                found = f"{snapshots[table].limit}: the newest files are missing"
                yield Problem(table, "file", f"pin {name}", f"{limit} publications", found)


def _strangers(snapshots: Mapping[str, Snapshot]) -> Iterator[Problem]:
    """Tables of another service or credential than the first one."""
    last = {name: found.files[-1] for name, found in snapshots.items() if found.files}
    owner = next((part.header.service for part in last.values()), {})
    for name, part in last.items():
        if part.header.service != owner:
            texts = [" ".join(service.values()) for service in (owner, part.header.service)]
            yield Problem(name, "file", part.path.name, f"of {texts[0]}", f"of {texts[1]}")


# ---------------------------------------------------------------------------- rows


def _check_rows(path: StorePath, with_balances: bool) -> tuple[list[Problem], int]:
    """What is wrong within the transfers and between them and the balances, and the number of
    intervals between balances."""

    def look() -> tuple[list[Problem], int]:
        observed = take_snapshot(path / "balances", TABLES["balances"]) if with_balances else None
        # After the balances, so that all transfers they belong to are there.
        transfers = take_snapshot(path / "transfers", TABLES["transfers"])
        problems = list(_broken_rows(transfers))
        if observed is None:
            return problems, 0
        breaks, intervals = broken_intervals(transfers, observed)
        return [*problems, *_lost_transfers(transfers, observed), *breaks], intervals

    try:
        return steadily(look)
    except (StoreDamaged, OSError) as error:
        return [Problem("transfers", "file", str(path), "whole", str(error))], 0


def _lost_transfers(transfers: Snapshot, balances: Snapshot) -> Iterator[Problem]:
    """The newest transfers, where balances belong to publications that are not there."""
    proved_by = max((entry.proved_by or 0 for entry in balances.publications), default=0)
    if proved_by > transfers.limit:
        found = f"{transfers.limit}: the newest files are missing"
        yield Problem("transfers", "file", "balances", f"{proved_by} publications", found)


def _broken_rows(snapshot: Snapshot) -> Iterator[Problem]:
    rows = read_standing(snapshot, ROW_COLUMNS)
    for name in REQUIRED:
        for row in rows.filter(pc.is_null(rows.column(name))).slice(0, MAX_PROBLEMS).to_pylist():
            yield Problem("transfers", "required", row["id"], f"a value in {name}", "nothing")
    credit = pc.equal(rows.column("direction"), "CREDIT")
    amount, fee, total = (rows.column(name).cast(_WIDE) for name in ("amount", "fee", "total"))
    right = pc.if_else(credit, pc.subtract(amount, fee), pc.add(amount, fee))
    wrong = rows.append_column("right", right).filter(pc.not_equal(right, total))
    for row in wrong.slice(0, MAX_PROBLEMS).to_pylist():
        expected, found = plain(row["right"]), plain(row["total"])
        yield Problem("transfers", "total", row["id"], expected, found)
    incoming = pc.match_substring_regex(rows.column("type"), r"_(?:DEPOSIT|CREDIT)\z")
    known = pc.match_substring_regex(rows.column("type"), r"_(?:DEPOSIT|CREDIT|WITHDRAWAL|DEBIT)\z")
    wrong = rows.filter(pc.and_(known, pc.not_equal(incoming, credit)))
    for row in wrong.slice(0, MAX_PROBLEMS).to_pylist():
        expected = f"the direction of {row['type']}"
        yield Problem("transfers", "direction", row["id"], expected, row["direction"])
    yield from _broken_pairs(rows)
    yield from _loose_conversions(snapshot, rows)


def _broken_pairs(rows: pa.Table) -> Iterator[Problem]:
    """Internal transfers whose halves contradict each other.

    A half alone is none: the other one may belong to a profile that is not ours to see. Nor is a
    half that failed beside one that stands, as after another try.
    """
    internal = rows.filter(
        pc.and_(
            pc.starts_with(rows.column("type"), "INTERNAL_TRANSFER_"),
            pc.is_valid(rows.column("group_id")),
        )
    ).select(["group_id", "id", "type", "status", "amount", "asset"])
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in internal.to_pylist():
        groups.setdefault(row["group_id"], []).append(row)
    for group, halves in groups.items():
        contradiction = _contradiction(halves)
        if contradiction is not None:
            yield Problem("transfers", "halves", f"group {group}", *contradiction)


def _contradiction(halves: Sequence[Mapping[str, Any]]) -> tuple[str, str] | None:
    """What is expected and found, unless these can be the halves of one transfer."""
    standing = [half for half in halves if half["status"] != "FAILED"]
    kinds = [half["type"] for half in standing]
    if len(set(kinds)) < len(kinds):
        return "one debit and one credit", ", ".join(f"{h['id']} {h['type']}" for h in standing)
    if len(standing) == 2:
        debit, credit = (f"{plain(half['amount'])} {half['asset']}" for half in standing)
        return None if debit == credit else (debit, credit)
    done = len(standing) == 1 and standing[0]["status"] in COMPLETED
    if done and any(half["type"] != kinds[0] for half in halves):
        found = ", ".join(f"{half['id']} {half['status']}" for half in halves)
        return "both completed or both failed", found
    return None


def _loose_conversions(snapshot: Snapshot, rows: pa.Table) -> Iterator[Problem]:
    """Conversions that link to a transfer the store does not have, though it has all of them."""
    if any(entry.query.get("since") is not None for entry in snapshot.publications):
        return
    texts = rows.column("auto_conversion")
    linked = rows.select(["id", "auto_conversion"]).filter(
        pc.fill_null(pc.match_substring(texts, "_transfer_id"), False)
    )
    ends = [
        (row["id"], name, end)
        for row in linked.to_pylist()
        for name in ("from_transfer_id", "to_transfer_id")
        if (end := member(row["auto_conversion"], name))
    ]
    named = pa.array([end for _, _, end in ends], pa.string())
    there = pc.is_in(named, value_set=rows.column("id").combine_chunks()).to_pylist()
    for (row_id, name, end), known in zip(ends, there, strict=True):
        if not known:
            where = f"{row_id}, {name}"
            yield Problem("transfers", "conversion", where, "a transfer", f"{end}, which is none")
