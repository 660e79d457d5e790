"""A file that is lost, swapped with another or older than it was is named on every way to the rows.

Files of tables, records, the newest manifest and ``head``; and whole folders as they were earlier.
A way that reads what is damaged must say so by the name of a file; any other gives what it gave.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_service import FakeService, moment, newest_manifest, transfer, withdrawal
from spark_sessions import spark_session

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import FundlabError
from fundlab.operate.status import status
from fundlab.store import compaction

TABLES = ("transfers", "events", "balances")
NAMED = re.compile(r"\d{8}-[0-9a-f]{16}\.(parquet|json)|manifests/\d{8}\.json|/head\b")
KINDS = ("lost", "swapped", "older", "folder rolled back")
Way = Callable[[Store], Any]


def service_at(stage: int) -> FakeService:
    rows = [transfer(n) for n in range(1, 12 + stage)] + [withdrawal(20, amount="3", total="3")]
    if stage:
        rows[-1].update(status="COMPLETED", updated_at=moment(100 * stage))
    events = [{"id": f"e-{n:03d}", "created_at": moment(n)} for n in range(5 + 2 * stage)]
    return FakeService(rows, events=events)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store of a base, parts, pins and notes, and beside it what it was before each step."""
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no power cut: half of the time
    monkeypatch.setattr(compaction, "pays", lambda snapshot: False)
    monkeypatch.setattr(compaction, "GRACE_S", -60)  # only files that count are there
    store = Store(tmp_path / "store")
    for stage in range(4):
        store.sync(service_at(stage))  # type: ignore[arg-type]
        store.pin(f"stage-{stage}")
        store.annotate("t-000001", comment=str(stage), by="Ana")
        if stage == 1:
            store.compact(["events"])
        shutil.copytree(store.path, tmp_path / f"earlier-{stage}")
    assert store.verify().ok
    return store


def every_way(folder: Path, spark: Any) -> dict[str, tuple[set[str], Way]]:
    """What each way reads, and the way, with something to compare."""

    def backed_up(store: Store) -> Any:
        shutil.rmtree(folder / "copy", ignore_errors=True)
        return store.backup(folder / "copy").files

    def reported(store: Store) -> Any:
        fl.report(store, out=folder / "reports", formats=["csv"])

    def closed(store: Store) -> Any:
        with pytest.MonkeyPatch.context() as patch:  # what it would record is of no interest
            patch.setattr("fundlab.operate.store.seal", lambda *_: SimpleNamespace(pin="p"))
            return store.close("2026-03", with_breaks="opening balances are not known")

    def queried(store: Store) -> Any:
        rows = store.scan("transfers")
        return fl.sql("SELECT count(*) AS n, sum(total) AS total FROM rows", rows=rows)["n"][0]

    every = {*TABLES, "records"}
    ways: dict[str, tuple[set[str], Way]] = {
        "judge": (
            {"transfers", "balances", "records"}, lambda store: fl.reconcile.judge(store).text,
        ),
        "sql": ({"transfers", "records"}, queried),
        "report": ({"transfers", "balances", "records"}, reported),
        "close": (every, closed),
        "backup": (every, backed_up),
        "anchor": (every, lambda store: store.anchor().line),
        "publish": (every, lambda store: sorted(store.publish(folder / "current"))),
        "status": ({"transfers", "balances", "records"}, lambda store: status(store).breaks),
        "pins": ({"records"}, lambda store: store.pins()),
    }  # fmt: skip
    for table in TABLES:
        ways |= {
            f"read {table}": ({table, "records"}, lambda store, t=table: len(store.read(t))),
            f"scan {table}": (
                {table, "records"}, lambda store, t=table: store.scan(t).shape,
            ),
            f"history of {table}": ({table, "records"}, lambda s, t=table: len(s.history(t))),
            f"Spark {table}": (
                {table, "records"}, lambda store, t=table: store.scan(t, spark=spark).count(),
            ),
        }  # fmt: skip
    return ways


@contextmanager
def damaged(store: Store, kind: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    """What is damaged (a table, ``records`` or ``manifest``), and how; as it was afterwards."""
    saved = store.path.with_name("saved")
    shutil.copytree(store.path, saved)
    manifest = store.manifest()
    files = {
        **{table: [store.path / table / file.name for file in manifest.files[table]]
           for table in TABLES},
        "records": [store.path / "records" / one.name for one in store.records()],
        "manifest": [newest_manifest(store.path), store.path / "head"],
    }  # fmt: skip
    what = chance.choice([*TABLES, "records", "manifest"])
    path = chance.choice(files[what])
    earlier = store.path.with_name(f"earlier-{chance.randrange(2)}")
    if kind == "lost":
        path.unlink()
    elif kind == "swapped":
        other = chance.choice([one for one in files[what] if one != path] or files["records"])
        mine, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(mine)
        path = other if other in files["records"] and what != "records" else path
    elif kind == "older":
        older = {"manifest": earlier / "head" if path.name == "head" else newest_manifest(earlier)}
        # any other file of an earlier day, of the same folder if there is one, under its name
        folder = earlier / (what if what != "manifest" else "")
        every = [*sorted(folder.glob("*.*")), *sorted(earlier.glob("*/*-*.*"))]
        found = next(one for one in every if one.name != path.name)
        path.write_bytes((older[what] if what == "manifest" else found).read_bytes())
    else:
        name = "manifests" if what == "manifest" else what
        path = store.path / name
        shutil.rmtree(path)
        shutil.copytree(earlier / name, path)
    try:
        yield what, f"{path.name} {kind}"
    finally:
        shutil.rmtree(store.path)
        saved.rename(store.path)


@pytest.fixture(scope="module")
def sail() -> Iterator[Any]:
    with spark_session("sail") as session:
        yield session


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize(
    ("part", "count"),
    [
        pytest.param(0, 12, marks=pytest.mark.thorough),
        *(pytest.param(part, 100, marks=pytest.mark.campaign) for part in range(10)),
    ],
)
def test_what_is_lost_swapped_or_older_is_named_on_every_way(
    kept: Store, tmp_path: Path, seed: int, figure: Any, sail: Any, part: int, count: int
) -> None:
    chance, ways = random.Random(f"{seed} {part}"), every_way(tmp_path, sail)
    intact = {name: way(kept) for name, (_, way) in ways.items()}
    named: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        with damaged(kept, kind, chance) as (what, how):
            for name, (reads, way) in ways.items():
                must = what == "manifest" or what in reads
                try:
                    same = way(kept) == intact[name]
                except FundlabError as error:
                    if not NAMED.search(str(error)):
                        wrong.append(f"{how} (#{number}), {name}: no file is named: {error}")
                    named[kind] += 1
                else:
                    if must or not same:
                        wrong.append(f"{how} (#{number}), {name}: silent")
            if kept.verify().ok:
                wrong.append(f"{how} (#{number}), verify: silent")
        if number % 25 == 24:
            print(f"{number + 1} damages: {dict(named)}, {len(wrong)} wrong", flush=True)
    figure(
        f"lost, swapped and older files: {count:,} (part {part}) under {len(ways)} ways to the "
        f"rows, {named.total():,} errors by name, {len(wrong)} silent or without a name"
    )
    assert not wrong, wrong[:20]
