"""A store of any size for the benchmarks: one part, in time order, made a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from fundlab import Store
from fundlab.store import disk
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
) -> Store:
    """``rows`` transfers of 200 profiles over a year; 96 % completed."""
    header = Header(
        TABLE.name, 1, service or {}, (Publication(1, published_at, rows, {}, watermark or {}),)
    )
    store = Store(folder)
    with store.lock() as check_held:
        draft = write_part(folder / TABLE.name, "part", TABLE, header, _groups(rows))
        disk.publish(draft.hidden, draft.path)
        store.commit(check_held, published_at, {TABLE.name: [draft.file]}, service=service)
    return store


def _groups(rows: int) -> Iterator[pa.Table]:
    rng = np.random.default_rng(20261101)
    step = YEAR_NS // rows
    profiles = pa.array(
        [f"{number:08x}-0000-4000-8000-{number:012x}" for number in range(PROFILES)]
    )
    for first in range(0, rows, ROW_GROUP_ROWS):
        count = min(ROW_GROUP_ROWS, rows - first)
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
