"""Damage is noticed: after any damage a store gives the same tables or an error, never others.

Bits flipped, files cut short, emptied and exchanged: parts, bases, pins, rows on their way in, and
the journal. ``verify`` must find every change of a part or base by itself.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from fake_service import FakeService, moment, transfer, withdrawal

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import FundlabError, NetworkError
from fundlab.models import Transfer
from fundlab.payments.journal import Journal
from fundlab.store import compaction, parts, snapshot, staging
from fundlab.store.parts import read_footer

Views = dict[str, Callable[[Store], Any]]
Command = Callable[..., tuple[int, str, str]]
KINDS = ("flipped", "cut short", "emptied", "exchanged")
IN_ROWS = "flipped in the rows"  # of small files most is footer
SERVICE = {"base_url": "https://api.example", "client_id": "client-1"}
NAMED = re.compile(r"\d{8}-[0-9a-f]{16}\.parquet|\.json|\.sqlite|publication \d")
JOURNAL = Path("journal") / "service.sqlite"


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "FILE_ROWS", 25)
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 60)
    monkeypatch.setattr(snapshot, "_PAUSE_S", 0)
    monkeypatch.setattr(compaction, "GRACE_S", -60)  # only files that are read are damaged


@dataclass
class Tally:
    """What became of each damage."""

    noticed: Counter[str] = field(default_factory=Counter)
    harmless: Counter[str] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)

    @property
    def files(self) -> int:
        return self.noticed.total() + self.harmless.total() + len(self.silent) + len(self.unnamed)


@pytest.mark.parametrize("count", [10, pytest.param(400, marks=pytest.mark.campaign)])
def test_damage_of_what_is_on_its_way_and_of_the_journal(
    tmp_path: Path, seed: int, figure: Any, count: int
) -> None:
    """Half of them to the stage, half to the journal."""
    chance, tally = random.Random(seed), Tally()
    damage_staged(tmp_path / "staged", chance, count // 2, tally)
    damage_journal(tmp_path / "paid", chance, count - tally.files, tally)
    figure(
        f"damage: {tally.files:,} files damaged, {tally.noticed.total():,} noticed "
        f"({', '.join(f'{n} {kind}' for kind, n in sorted(tally.noticed.items()))}), "
        f"{tally.harmless.total()} the same tables all the same, {len(tally.silent)} silent, "
        f"{len(tally.unnamed)} errors without a name"
    )
    assert tally.files == count
    assert not tally.silent, tally.silent[:20]
    assert not tally.unnamed, tally.unnamed[:20]


# ---------------------------------------------------------------------------- what is damaged


def service_at(stage: int) -> FakeService:
    """Three states of a service: withdrawals complete, and rows are added."""
    rows = [transfer(n, profile_id=f"p-{n % 3}") for n in range(150)]
    paid = [withdrawal(150 + n, profile_id="p-1", amount="0.5", total="0.5") for n in range(10)]
    for row in paid[: stage * 5]:
        row.update(status="COMPLETED", updated_at=moment(4000 * stage))
    rows += paid
    rows += [
        transfer(4000 * later + n, profile_id="p-2")
        for later in range(1, stage + 1)
        for n in range(20)
    ]
    events = [{"id": f"e-{n:04d}", "created_at": moment(n)} for n in range(60 + stage * 10)]
    return FakeService(rows, events=events, largest_page=20)


def published(folder: Path) -> Store:
    """Parts, a base, and pins between them."""
    store = Store(folder)
    store.sync(service_at(0))  # type: ignore[arg-type]
    store.pin("first")
    store.sync(service_at(1))  # type: ignore[arg-type]
    store.pin("second")
    store.compact(["events"])
    store.sync(service_at(2))  # type: ignore[arg-type]
    return store


def all_views() -> Views:
    """Every way to look at a store."""
    views: Views = {}
    for table in ("transfers", "events", "balances"):
        views |= {
            table: lambda store, table=table: store.read(table),
            f"{table} at the first pin": lambda store, table=table: store.read(table, pin="first"),
            f"{table} at the second": lambda store, table=table: store.read(table, pin="second"),
            f"history of {table}": lambda store, table=table: store.history(table),
        }
    return views | {"pins": lambda store: pd.Series(store.pins())}


def looked_at(
    store: Store, views: Views, whole: dict[str, Any], what: str, kind: str, tally: Tally
) -> None:
    """Every view is the same or an error with a name."""
    noticed = False
    for name, view in views.items():
        try:
            if not view(store).equals(whole[name]):
                tally.silent.append(f"{what}: {name}")
                return
        except FundlabError as error:
            if not NAMED.search(str(error)):
                tally.unnamed.append(f"{what}: {name}: {error!r}")
                return
            noticed = True
        except Exception as error:  # noqa: BLE001 - the very thing that is looked for
            tally.unnamed.append(f"{what}: {name}: {error!r}")
            return
    (tally.noticed if noticed else tally.harmless)[kind] += 1


@contextmanager
def damaged(path: Path, kind: str, files: list[Path], chance: random.Random) -> Iterator[None]:
    """``path`` with a damage, and as it was afterwards."""
    other = chance.choice([one for one in files if one != path and one.suffix == path.suffix])
    before, others = path.read_bytes(), other.read_bytes()
    if kind in ("flipped", IN_ROWS):
        broken = bytearray(before)
        end = len(before) - len(read_footer(path)[0]) if kind == IN_ROWS else len(before)
        broken[chance.randrange(end)] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
    elif kind == "cut short":
        path.write_bytes(before[: chance.randrange(1, len(before))])
    elif kind == "emptied":
        path.write_bytes(b"")
    else:
        path.write_bytes(others)
        other.write_bytes(before)
    yield
    path.write_bytes(before)
    other.write_bytes(others)


# ---------------------------------------------------------------------------- every way to the rows


@pytest.mark.parametrize(
    ("flips", "others"), [(4, 3), pytest.param(1_000, 400, marks=pytest.mark.campaign)]
)
def test_flips_and_other_damages_on_every_way_to_the_rows(
    tmp_path: Path, seed: int, figure: Any, fundlab: Command, flips: int, others: int
) -> None:
    """Of a part, a base, a record or the manifest. Each way gives what it gave before or an error
    that names a file."""
    chance, tally = random.Random(seed), Tally()
    store = published(tmp_path / "store")
    ways = all_ways(tmp_path, fundlab) | all_views()
    intact = {name: way(store) for name, way in ways.items()}
    assert fundlab("verify", "--store", store.path)[0] == 0
    files, manifest = sorted(store.path.rglob("*.parquet")), store.manifest()
    notes = [store.path / "records" / record.name for record in store.records()]
    notes.append(store.path / manifest.name)
    kinds = [IN_ROWS if n % 4 else "flipped" for n in range(flips)] + [
        KINDS[1 + n % 3] for n in range(others)
    ]
    for number, kind in enumerate(kinds):
        among = files if number % 8 else notes
        path = chance.choice(among)
        with damaged(path, kind, among, chance):
            what = f"{path.relative_to(tmp_path)} {kind} (#{number})"
            looked_at(store, ways, intact, what, kind, tally)
            status, out, _ = fundlab("verify", "--store", store.path)
            if status != 3 or not NAMED.search(out):
                tally.silent.append(f"{what}: verify ends with {status}: {out}")
    figure(
        f"damage: {tally.files:,} files damaged under {len(ways)} ways to the rows, "
        f"{tally.noticed.total():,} noticed, {len(tally.silent)} silent, "
        f"{len(tally.unnamed)} errors without a name"
    )
    assert not tally.silent, tally.silent[:20]
    assert not tally.unnamed, tally.unnamed[:20]
    assert tally.noticed.total() == flips + others  # each file is read by one of the ways


def all_ways(folder: Path, run: Command) -> Views:
    """Every one but ``read`` and Spark, with something to compare."""
    when, out = "2026-03-02", folder / "out"

    def commanded(*arguments: object) -> object:
        """What a command wrote. Its error is raised again, if it was one line that says which."""
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        status, _, said = run(*arguments, "--store", folder / "store")
        if status == 1 and said.startswith("fundlab: ") and said.count("\n") == 1:
            raise FundlabError(said)
        files = {path.name: path.read_bytes() for path in out.iterdir()}
        return pd.Series({"status": status, **files})

    def written(store: Store) -> object:
        fl.balances.write_running(store, folder / "running.parquet")
        return pq.read_table(folder / "running.parquet")

    def scanned(table: str, **state: str) -> Callable[[Store], Any]:
        return lambda store: store.scan(table, **state).order("created_at, id").to_arrow_table()

    return {
        "scan": scanned("transfers"),
        "scan of events": scanned("events"),
        "scan of balances": lambda store: (
            store.scan("balances").order("profile_id, asset, observed_at").to_arrow_table()
        ),
        "scan at the first pin": scanned("transfers", pin="first"),
        "scan of events at the first pin": scanned("events", pin="first"),
        "balances.at": lambda store: fl.balances.at(store, when).to_arrow_table(),
        "balances.running": lambda store: fl.balances.running(store).read_all(),
        "balances.write_running": written,
        "report": lambda _: commanded("report", "--format", "csv", "--out", out),
        "report --catch-up": lambda _: commanded(
            "report", "--catch-up", "--period", "2199-01", "--format", "csv", "--out", out
        ),
        "export transfers": lambda _: commanded(
            "export", "transfers", "--format", "csv", "--out", out / "a"
        ),
        "export events": lambda _: commanded(
            "export", "events", "--format", "json", "--out", out / "a"
        ),
    }


# ---------------------------------------------------------------------------- on the way in


def damage_staged(folder: Path, chance: random.Random, count: int, tally: Tally) -> None:
    """A sync that broke off has left rows; whatever happens to them, the next one is complete."""
    expected = None
    for number in range(count):
        store = Store(folder / str(number))
        broken_off(store)
        files = sorted(store.path.rglob("*.arrow"))
        kind = chance.choice(KINDS)
        spoil(chance.choice(files), kind, files, chance)
        what = f"stage {kind} (#{number})"
        try:
            store.sync(service_at(0))  # type: ignore[arg-type]
        except FundlabError:
            tally.noticed[kind] += 1
            continue
        except Exception as error:  # noqa: BLE001 - the very thing that is looked for
            tally.unnamed.append(f"{what}: {error!r}")
            continue
        found = store.read("transfers")
        expected = found if expected is None else expected
        ids = sorted(row["id"] for row in service_at(0).transfers)
        if not found.equals(expected) or sorted(found["id"]) != ids or not store.verify().ok:
            tally.silent.append(what)
        else:
            tally.harmless[kind] += 1


def spoil(path: Path, kind: str, files: list[Path], chance: random.Random) -> None:
    """A damage that stays."""
    steps = damaged(path, kind, files, chance)
    steps.__enter__()


def broken_off(store: Store) -> None:
    service, left = service_at(0), 6

    def breaks(operation: str, _: Any) -> None:
        nonlocal left
        left -= operation == "list_transfers"
        if left < 0:
            raise NetworkError("the connection was lost")

    service.hook = breaks
    with pytest.raises(NetworkError):
        store.sync(service)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- what was confirmed


def paid_in(folder: Path) -> Journal:
    journal = Journal(folder / JOURNAL, SERVICE, clock=lambda: 1_793_491_200_000_000_000)
    for number in range(12):
        wanted = {"amount": f"{number}.00", "asset": "USD"}
        entry = journal.record(
            f"ref-{number}", "create_fiat_withdrawal", wanted, json.dumps(wanted).encode(), wanted
        )
        journal.note(entry, "done", Transfer(id=f"t-{number}", status="PENDING"))
    return journal


def damage_journal(folder: Path, chance: random.Random, count: int, tally: Tally) -> None:
    """The file is read again as another kernel would: every intent as it was, or an error."""
    path = paid_in(folder).path
    other = paid_in(folder / "other").path
    views: Views = {"journal": lambda store: fl.journal(folder=path.parent)}
    whole = {"journal": fl.journal(folder=path.parent)}
    assert len(whole["journal"]) == 12
    for number in range(count):
        kind = chance.choice(("flipped", "flipped", "cut short", "emptied"))
        with damaged(path, kind, [path, other], chance):
            looked_at(Store(folder), views, whole, f"journal {kind} (#{number})", kind, tally)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
