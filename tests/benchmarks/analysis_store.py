"""A store of any size for the benchmarks, in time order: one part, made a row group at a time, or
many, as daily syncs leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab import Store
from fundlab.base.values import Instant
from fundlab.store import disk
from fundlab.store.changes import all_new
from fundlab.store.parts import ROW_GROUP_ROWS, Header, Publication, write_part
from fundlab.tables.schema import TABLES

LARGE = 100_000
"""With fewer rows a benchmark only shows that it runs, and measures once."""

START = 1_767_225_600_000_000_000
YEAR_NS = 365 * 86_400 * 10**9
ASSETS = ("USD", "USDC", "ETH", "BTC", "USDP", "PYUSD", "USDG")
PROFILES = 200
TABLE = TABLES["transfers"]


def make_store(
    folder: Path,
    rows: int,
    service: Mapping[str, str] | None = None,
    watermark: Mapping[str, Mapping[str, str]] | None = None,
    published_at: int = 1,
    parts: int = 1,
) -> Store:
    """``rows`` transfers of 200 profiles over a year; 96 % completed. In several ``parts`` they
    have random ids, references and memos, each part also completes what was pending in the one
    before, and the last one observes each balance."""
    store = Store(folder)
    files, pending = [], None
    each = -(-rows // parts)
    for number in range(1, parts + 1):
        since = (number - 1) * each
        groups = _groups(rows, since, min(since + each, rows))
        if parts > 1:
            new = _described(pa.concat_tables(groups), since)
            groups = iter([new if pending is None else pa.concat_tables([new, pending])])
            pending = _completed(new, number)
        at = published_at - (parts - number) * 10**9
        publication = Publication(number, at, 0, {}, watermark or {})
        header = Header(TABLE.name, 1, service or {}, (publication,))
        draft = write_part(folder / TABLE.name, "part", TABLE, header, groups)
        disk.publish(draft.hidden, draft.path)
        files.append(draft.file)
        with store.lock() as check_held:
            store.commit(check_held, at, {TABLE.name: files}, service=service)
    if parts > 1:
        _observe(store, published_at + 1, service)
    return store


def _described(rows: pa.Table, since: int) -> pa.Table:
    """The rows as those of a service, with what most of them carry beside the amounts."""
    places = range(since, since + rows.num_rows)
    values = {
        "id": [f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}" for number in places],
        "ref_id": [f"order-{number}" for number in places],
        "memo": [f"invoice {number // 3}" for number in places],
        "metadata": [f'{{"desk":"{number % 7}"}}' for number in places],
        "auto_conversion": ["{}"] * rows.num_rows,
        "balance_asset": rows.column("asset").to_pylist(),
    }
    for name, texts in values.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, name, pa.array(texts, pa.string()))
    return rows


def _completed(rows: pa.Table, part: int) -> pa.Table:
    """The pending ones of a part's new rows, as the next part completes them."""
    places = np.flatnonzero(pc.equal(rows.column("status"), "PENDING"))
    done = rows.take(pa.array(places))
    values = {
        "status": pa.array(["COMPLETED"] * len(places), pa.string()),
        "_part": pa.array(np.full(len(places), part, np.int32)),
        "_row": pa.array(places),
    }
    for name, column in values.items():
        done = done.set_column(done.schema.get_field_index(name), name, column)
    return done


def _observe(store: Store, at: int, service: Mapping[str, str] | None) -> None:
    """What the service would report of each balance."""
    rows = store.read_arrow("transfers", columns=["profile_id", "asset", "direction", "status",
                                                  "total"])  # fmt: skip
    credit = pc.equal(rows.column("direction"), "CREDIT")
    done = pc.equal(rows.column("status"), "COMPLETED")
    held = pc.and_(pc.invert(credit), pc.equal(rows.column("status"), "PENDING"))
    total = rows.column("total")
    signed = pc.if_else(credit, total, pc.negate(total))
    moved = pc.if_else(pc.or_(done, held), signed, pa.scalar(Decimal(0), total.type))
    sums = rows.append_column("moved", moved).group_by(["profile_id", "asset"])
    found = sums.aggregate([("moved", "sum")]).to_pylist()
    table = TABLES["balances"]
    seen = [
        {"profile_id": row["profile_id"], "asset": row["asset"], "available": row["moved_sum"],
         "trading": Decimal(0), "observed_at": Instant.from_ns(at)}
        for row in found
    ]  # fmt: skip
    observed = all_new(table, pa.Table.from_pylist(seen, schema=table.schema))
    number = store.manifest().number + 1
    header = Header(table.name, 1, service or {}, (Publication(number, at, 0, {}, {}),))
    draft = write_part(store.path / table.name, "part", table, header, observed)
    disk.publish(draft.hidden, draft.path)
    with store.lock() as check_held:
        store.commit(check_held, at, {table.name: [draft.file]}, service=service)


def _groups(rows: int, since: int = 0, until: int | None = None) -> Iterator[pa.Table]:
    """Those from ``since`` until ``until`` of so many ``rows``."""
    rng = np.random.default_rng([20261101, since])
    until = rows if until is None else until
    step = YEAR_NS // rows
    profiles = pa.array(
        [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(PROFILES)]
    )
    for first in range(since, until, ROW_GROUP_ROWS):
        count = min(ROW_GROUP_ROWS, until - first)
        place = np.arange(first, first + count)
        created = pa.array(START + place * step + rng.integers(0, step, count))
        credit = rng.random(count) < 0.55
        amount, fee = _money(rng.integers(1, 2**40, count)), _money(np.zeros(count, np.int64))
        known = {
            "id": pa.array([f"{number:032x}" for number in place.tolist()]),
            "customer_id": _chosen(("customer",), np.zeros(count, np.int64)),
            "profile_id": profiles.take(pa.array(rng.integers(0, PROFILES, count))),
            "amount": amount,
            "fee": fee,
            "total": amount,
            "asset": _chosen(ASSETS, rng.integers(0, len(ASSETS), count)),
            "direction": _chosen(("DEBIT", "CREDIT"), credit),
            "type": _chosen(("WIRE_WITHDRAWAL", "WIRE_DEPOSIT"), credit),
            "status": _chosen(
                ("COMPLETED", "PENDING", "FAILED"), rng.choice(3, count, p=[0.96, 0.02, 0.02])
            ),
            "created_at": created.cast(pa.timestamp("ns", "UTC")),
            "updated_at": created.cast(pa.timestamp("ns", "UTC")),
        }
        columns = [known.get(field.name, pa.nulls(count, field.type)) for field in TABLE.schema]
        replaced = [pa.nulls(count, pa.int32()), pa.nulls(count, pa.int64())]
        names = [*TABLE.schema.names, "_part", "_row"]
        yield pa.table([*columns, *replaced], names=names)


def _chosen(texts: tuple[str, ...], which: np.ndarray) -> pa.Array:
    return pa.array(texts).take(pa.array(which.astype(np.int64)))


def _money(micros: np.ndarray) -> pa.Array:
    units = np.zeros((len(micros), 2), np.uint64)
    units[:, 0] = micros.astype(np.uint64) * np.uint64(10**6)
    return pa.Array.from_buffers(pa.decimal128(38, 18), len(micros), [None, pa.py_buffer(units)])
