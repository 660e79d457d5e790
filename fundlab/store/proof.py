"""Proof that a store is what was written, and that its tables agree with each other.

Files, pages, schemas and ids; the invariants of each transfer; and between any two balances
observed, the change must equal the sum of the transfers the store learned of in between. That
needs no clock: each observation says which publication of the transfers it belongs to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.errors import StoreDamaged
from fundlab.store.assertions import broken_intervals
from fundlab.store.parts import Part, check_data, stored_schema
from fundlab.store.problems import Problem, Verification, plain
from fundlab.store.remote import StorePath
from fundlab.store.snapshot import Snapshot, read_standing, take_snapshot
from fundlab.store.versions import read_versions
from fundlab.tables.schema import TABLES

MAX_PROBLEMS: Final = 1_000
ROW_COLUMNS: Final = (
    "id", "type", "direction", "status", "amount", "fee", "total", "asset", "group_id",
    "auto_conversion",
)  # fmt: skip
_WIDE: Final = pa.decimal256(60, 18)


def verify_store(path: StorePath) -> Verification:
    """Read every byte of the store at ``path`` and check it; see the top of this module."""
    files = rows = intervals = 0
    problems: list[Problem] = []
    snapshots: dict[str, Snapshot] = {}
    for name, table in TABLES.items():
        try:
            snapshot = take_snapshot(path / name, table)
        except (StoreDamaged, OSError) as error:
            problems.append(Problem(name, "file", str(path / name), "whole", str(error)))
            continue
        damage = list(_damage(snapshot))
        problems += damage
        files += len(snapshot.files)
        if not damage:
            rows += sum(part.rows for part in snapshot.files)
            snapshots[name] = snapshot
            problems += _repeated_ids(snapshot)
    if "transfers" in snapshots:
        problems += _broken_rows(snapshots["transfers"])
        if "balances" in snapshots:
            breaks, intervals = broken_intervals(snapshots["transfers"], snapshots["balances"])
            problems += breaks
    return Verification(str(path), files, rows, intervals, tuple(problems[:MAX_PROBLEMS]))


# ---------------------------------------------------------------------------- files, ids, rows


def _damage(snapshot: Snapshot) -> Iterator[Problem]:
    for part in snapshot.files:
        try:
            check_data(part)
            yield from _wrong_schema(snapshot, part)
            for _ in read_versions(part, {}, snapshot.table.schema):
                pass  # reading verifies the checksum of every page
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


def _broken_rows(snapshot: Snapshot) -> Iterator[Problem]:
    rows = read_standing(snapshot, ROW_COLUMNS)
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
    yield from _unequal_halves(rows)
    yield from _loose_conversions(snapshot, rows)


def _unequal_halves(rows: pa.Table) -> Iterator[Problem]:
    """Internal transfers whose two halves are both here and not of one amount."""
    internal = rows.filter(
        pc.and_(
            pc.match_substring(rows.column("type"), "INTERNAL_TRANSFER_"),
            pc.invert(pc.equal(rows.column("status"), "FAILED")),
        )
    )
    halves: dict[str, list[dict[str, Any]]] = {}
    for row in internal.filter(pc.is_valid(internal.column("group_id"))).to_pylist():
        halves.setdefault(row["group_id"], []).append(row)
    for group, pair in halves.items():
        if len(pair) == 2 and (pair[0]["amount"], pair[0]["asset"]) != (
            pair[1]["amount"],
            pair[1]["asset"],
        ):
            texts = [f"{plain(half['amount'])} {half['asset']}" for half in pair]
            yield Problem("transfers", "halves", f"group {group}", *texts)


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
        for name, end in json.loads(row["auto_conversion"]).items()
        if name in ("from_transfer_id", "to_transfer_id") and end
    ]
    named = pa.array([str(end) for _, _, end in ends], pa.string())
    there = pc.is_in(named, value_set=rows.column("id").combine_chunks()).to_pylist()
    for (row_id, name, end), known in zip(ends, there, strict=True):
        if not known:
            where = f"{row_id}, {name}"
            yield Problem("transfers", "conversion", where, "a transfer", f"{end}, which is none")
