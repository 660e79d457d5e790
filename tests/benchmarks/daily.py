"""What years of daily syncs make of a store: how much slower it is read than one file a table.

Run ``python tests/benchmarks/daily.py [--days N] [--transfers N] [--folder DIR]``. Three stores of
the same rows: "synced", by N (1,100) real syncs of 100 new and 10 changed transfers, 100 events and
20 balances each, without HTTP, and a few more, until the next one merges the files of the
transfers: with as many files as there ever are; "parts", as it would be without any compaction,
published part by part; and "one file", the first one compacted. Each piece of work is done in turns
on the three, on a fresh copy, and the medians of the processors' time are compared: other work on
the machine does not change it. A sync is the mean of all from one merge to the next, that one
included. Bytes written count every file that was ever published. Exits with 1 if a bar of the
project is missed.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
from load import Bar
from made_pages import TYPES
from store import Spent, middle, size_of, spent

from fundlab import Store, reports
from fundlab.base.values import Instant
from fundlab.models import ProfileBalance
from fundlab.store import compaction, disk
from fundlab.store.changes import all_new
from fundlab.store.manifests import File
from fundlab.store.parts import BOOKKEEPING, Header, Publication, write_part
from fundlab.sync.run import SyncResult
from fundlab.tables import TABLES
from fundlab.tables.decode import decode_page

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PROFILES, ASSETS = 10, ("USD", "USDC")
SERVICE = {"base_url": "http://127.0.0.1:1", "client_id": "bench"}
TABLES_SYNCED = ("transfers", "events", "balances")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=1_100)
    parser.add_argument("--transfers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--without-parts", action="store_true", help="which take long to read")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="daily-bench-", dir=options.folder))
    try:
        bars = compare(folder, options)
    finally:
        shutil.rmtree(folder)
    print()
    for bar in bars:
        print(bar)
    return 0 if all(bar.reached for bar in bars) else 1


def compare(folder: Path, options: argparse.Namespace) -> list[Bar]:
    service = Service(options.transfers)
    compaction.GRACE_S = 0  # type: ignore[misc]  # a day passes from one sync to the next
    states: list[State] = []  # from one merge of the transfers to the next
    with counted() as written:
        started = time.perf_counter()
        store = Store(folder / "store", clock=service.clock)
        while True:
            service.pass_a_day()
            merged = "transfers" in sync(store, service).compacted
            if merged and len(states) > 1:
                break
            if service.day >= options.days - 1:
                states = [] if merged else states
                states.append(state(store, service, folder / f"day-{service.day}"))
        took = time.perf_counter() - started
    before, synced = states[-2:]
    days = synced.service.day
    month = f"{BEGIN + timedelta(days=days - 31):%Y-%m}"
    one = state(synced.store, synced.service, folder / "one")
    one.store.compact()
    with one.store.lock():
        pass  # which removes the files merged
    stores = {"synced": synced, "one file": one}
    if not options.without_parts:
        again = Service(options.transfers)
        stores["parts"] = State(publish_parts(folder / "parts", again, days), again)
    for name, (store, _) in stores.items():
        counts = {table: len(store.snapshot(table).files) for table in TABLES_SYNCED}
        rows = sum(part.rows for table in TABLES_SYNCED for part in store.snapshot(table).files)
        print(f"{name:9}{counts}, {rows:,} rows, {size_of(store) / 2**20:.1f} MB")
    most = sorted(written["files"])
    print(
        f"{days + 1:,} syncs in {took:.0f} s wrote {written['part'] / 2**20:.1f} MB of parts and "
        f"{written['base'] / 2**20:.1f} MB in {written['bases']} compactions of a table, at most "
        f"{most[-1] / 2**20:.1f} MB at once"
    )
    works: dict[str, Callable[[Store, Service], object]] = {
        "read": lambda store, _: store.read("transfers"),
        "scan, a count": lambda store, _: store.scan("transfers").aggregate("count(*)").fetchall(),
        "verify": lambda store, _: store.verify(),
        "report of a month": lambda store, _: reports.read_report(store, month),
    }
    bars = []
    for work, do in works.items():
        took_each = medians(do, stores, options.rounds, folder)
        print(f"{work}: " + ", ".join(f"{name} {each}" for name, each in took_each.items()))
        bars += judged(work, took_each, took_each["synced"].processor)
    turns = {**stores, "before a merge": before, "that merges": synced}
    del turns["synced"]
    took_each = medians(
        lambda store, service: sync(store, One(service)), turns, options.rounds, folder
    )
    print("sync of one row: " + ", ".join(f"{name} {each}" for name, each in took_each.items()))
    syncs = len(synced.store.snapshot("transfers").files)  # from one merge to the next
    plain, merging = took_each["before a merge"].processor, took_each["that merges"].processor
    bars += judged("sync of one row", took_each, plain + (merging - plain) / syncs)
    total = written["part"] + written["base"]
    bars.append(Bar("bytes written / those of the parts", total / written["part"], 25, False))
    per_day = written["base"] / days / 2**20
    bars.append(Bar("MB rewritten by a sync, on average", per_day, 2, False))
    return bars


class State(NamedTuple):
    """A store, and the service as it was then."""

    store: Store
    service: Service


def state(store: Store, service: Service, folder: Path) -> State:
    then = copy.deepcopy(service)
    return State(Store(shutil.copytree(store.path, folder), clock=then.clock), then)


def sync(store: Store, service: Service | One) -> SyncResult:
    return store.sync(service, TABLES_SYNCED, progress=False)  # type: ignore[arg-type]


def medians(
    do: Callable[[Store, Service], object], stores: Mapping[str, State], rounds: int, folder: Path
) -> dict[str, Spent]:
    """What it took on a fresh copy of each store, in turns; of the parts once: it takes long."""
    found: dict[str, list[Spent]] = {name: [] for name in stores}
    for _ in range(rounds):
        for name, each in stores.items():
            if name != "parts" or not found[name]:
                again = state(*each, folder / "copy")
                found[name].append(spent(lambda again=again: do(*again)))  # type: ignore[misc]
                shutil.rmtree(again.store.path)
    return {name: middle(each) for name, each in found.items()}


def judged(work: str, took: Mapping[str, Spent], synced: float) -> list[Bar]:
    one = took["one file"].processor
    bars = [Bar(f"{work}: synced daily / one file", synced / one, 1.5, False)]
    if "parts" in took:
        ratio = took["parts"].processor / one
        bars.append(Bar("  never compacted / one file", ratio, float("inf"), False))
    return bars


class counted:  # noqa: N801 - a context manager
    """Bytes of every file that is published meanwhile."""

    def __enter__(self) -> dict[str, Any]:
        self.original = disk.publish
        found: dict[str, Any] = Counter()
        found["files"] = []

        def publish(hidden: Path, path: Any) -> None:
            kind = path.name[:4]
            if kind in ("part", "base"):  # and no file of the stage
                size = hidden.stat().st_size
                found[kind] += size
                found["bases"] += kind == "base"
                found["files"].append(size)
            self.original(hidden, path)

        disk.publish = publish
        return found

    def __exit__(self, *exception: object) -> None:
        disk.publish = self.original


# ---------------------------------------------------------------------------- the service


class Service:
    """A day's transfers of ten profiles; every tenth is a withdrawal that completes the day after.

    It answers as the service does, from the rows of the last two days: no sync asks further back.
    """

    base_url, client_id = SERVICE["base_url"], SERVICE["client_id"]
    transport = SimpleNamespace(skew_s=0.0)

    def __init__(self, transfers: int) -> None:
        self.a_day, self.day = transfers, 0
        self.balances: Counter[tuple[str, str]] = Counter()
        self.pending: list[dict[str, Any]] = []
        self.transfers: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def clock(self) -> int:
        return Instant.parse(stamp(self.day, 0)).ns

    def pass_a_day(self) -> None:
        recent = stamp(self.day - 1, 0)
        done = [
            row | {"status": "COMPLETED", "updated_at": stamp(self.day, number)}
            for number, row in enumerate(self.pending)
        ]
        made = [self._transfer(number) for number in range(self.a_day)]
        self.pending = [row for row in made if row["status"] == "PENDING"]
        self.transfers = [r for r in self.transfers if r["updated_at"] >= recent] + done + made
        self.transfers.sort(key=lambda row: row["updated_at"])
        events = [
            {"id": f"e-{row['id']}", "created_at": row["created_at"], "event_type": "transfer.made",
             "object_type": "transfer_status_change", "object": {"id": row["id"]}}
            for row in made
        ]  # fmt: skip
        self.events = [row for row in self.events if row["created_at"] >= recent] + events
        self.day += 1

    def _transfer(self, number: int) -> dict[str, Any]:
        place = self.day * self.a_day + number
        pays = number % 10 == 9
        kind, direction = TYPES[1] if pays else TYPES[0]
        cents = (place * 7919) % 100_000 + 1 if pays else (place * 104_729) % 1_000_000 + 100_000
        pair = f"profile-{(place // 10 + place) % PROFILES}", ASSETS[place // 100 % 2]
        self.balances[pair] += -cents if pays else cents
        amount = f"{cents // 100}.{cents % 100:02d}"
        at = stamp(self.day, 1_000 + number * (80_000 // self.a_day))
        return {
            "id": f"{place * 2_654_435_761 % 2**64:016x}-{place:08x}", "ref_id": f"order-{place}",
            "profile_id": pair[0], "customer_id": "customer-1", "amount": amount, "fee": "0",
            "total": amount, "asset": pair[1], "balance_asset": pair[1], "direction": direction,
            "type": kind, "status": "PENDING" if pays else "COMPLETED", "created_at": at,
            "updated_at": at, "memo": f"invoice {place}", "metadata": {"desk": f"{place % 7}"},
        }  # fmt: skip

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        one = dict(params)
        if operation == "list_events":
            rows, by = self.events, "created_at"
        elif operation == "list_transfers":
            rows = self.transfers
            by = "updated_at" if one.get("order_by") == "UPDATED_AT" else "created_at"
        else:
            rows, by = [], "created_at"
        for name, value in params:
            if name.endswith(".gte"):
                rows = [row for row in rows if row[name[:-4]] >= value]
        rows = sorted(rows, key=lambda row: (row[by], row["id"]), reverse=one["order"] == "DESC")
        start = int(one.get("page_cursor", "0"))
        end = start + int(one["limit"])
        member = "events" if operation == "list_events" else "items"
        cursor = str(end) if end < len(rows) else ""
        return json.dumps({member: rows[start:end], "next_page_cursor": cursor}).encode()

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        available = Decimal(self.balances[profile_id, asset]) / 100
        return ProfileBalance.model_validate(
            {"asset": asset, "available": f"{available:f}", "trading": "0"}
        )


class One:
    """The same service with one transfer more."""

    base_url, client_id = SERVICE["base_url"], SERVICE["client_id"]
    transport = SimpleNamespace(skew_s=0.0)

    def __init__(self, service: Service) -> None:
        self.service, at = service, stamp(service.day - 1, 86_000)
        self.more = service.transfers[-1] | {
            "id": "one-more", "created_at": at, "updated_at": at, "asset": "USD", "total": "0",
            "balance_asset": "USD", "amount": "0", "fee": "0",
        }  # fmt: skip

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        body = json.loads(self.service.fetch_page(operation, params))
        if operation == "list_transfers":
            body["items"].append(self.more)
        return json.dumps(body).encode()

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        return self.service.get_profile_balance(profile_id, asset)


def stamp(day: int, second: int) -> str:
    moment = BEGIN + timedelta(days=day, seconds=second)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000000001Z"


# ---------------------------------------------------------------------------- one part a day


def publish_parts(folder: Path, service: Service, days: int) -> Store:
    """The store without any compaction: where each row is that a later one replaces is known from
    having written it, so no day searches those before."""
    store = Store(folder, clock=service.clock)
    places: dict[str, tuple[int, int]] = {}
    for day in range(1, days + 1):
        service.pass_a_day()
        since = stamp(day - 1, 0)
        fresh = service.transfers[
            bisect_left([row["updated_at"] for row in service.transfers], since) :
        ]
        events = [row for row in service.events if row["created_at"] >= since]
        files = {
            "transfers": written(store, "transfers", replacing(fresh, day, places), fresh, service)
        }
        rows = decode_page(TABLES["events"], json.dumps({"events": events}).encode()).rows
        files["events"] = written(store, "events", all_new(TABLES["events"], rows), events, service)
        seen = all_new(TABLES["balances"], observed(service))
        files["balances"] = written(store, "balances", seen, None, service)
        before = store.manifest().files
        with store.lock() as check_held:
            every = {table: [*before.get(table, ()), file] for table, file in files.items()}
            store.commit(check_held, service.clock(), every, service=SERVICE)
    return store


def replacing(
    records: list[dict[str, Any]], day: int, places: dict[str, tuple[int, int]]
) -> Iterator[pa.Table]:
    table = TABLES["transfers"]
    rows = decode_page(table, json.dumps({"items": records}).encode()).rows
    rows = table.in_order(rows)
    ids = rows.column("id").to_pylist()
    before = [places.get(name, (None, None)) for name in ids]
    for place, field in enumerate(BOOKKEEPING["part"]):
        rows = rows.append_column(field, pa.array([each[place] for each in before], field.type))
    places.update({name: (day, row) for row, name in enumerate(ids)})
    yield rows


def observed(service: Service) -> pa.Table:
    table = TABLES["balances"]
    rows = [
        {"profile_id": profile, "asset": asset, "available": Decimal(cents) / 100, "trading": 0,
         "observed_at": service.clock()}
        for (profile, asset), cents in sorted(service.balances.items())
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=table.schema)


def written(
    store: Store,
    name: str,
    groups: Iterable[pa.Table],
    records: list[dict[str, Any]] | None,
    service: Service,
) -> File:
    day = service.day
    watermark = {}
    if records:
        for kind in ("created", "updated")[: 2 if name == "transfers" else 1]:
            last = max(records, key=lambda row: row[f"{kind}_at"])
            watermark[kind] = {"at": last[f"{kind}_at"], "id": last["id"]}
    table = TABLES[name]
    publication = Publication(day, service.clock(), 0, {"since": None}, watermark)
    header = Header(name, 1, SERVICE, (publication,))
    draft = write_part(store.path / name, "part", table, header, groups)
    disk.publish(draft.hidden, draft.path)
    return draft.file


if __name__ == "__main__":
    sys.exit(main())
