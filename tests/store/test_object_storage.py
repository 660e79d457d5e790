"""A store in a bucket, on a server that speaks S3: it answers as one here does, and of two machines
that publish at once one does, and the other is told."""

from __future__ import annotations

import errno
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_service import FakeService, moment, transfer
from object_storage import environment, s3_server
from obstore.fsspec import FsspecStore
from pyarrow import fs

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import InvalidRequest, StoreError, StoreLocked
from fundlab.cli import run
from fundlab.operate.store import restored
from fundlab.store import compaction, objects
from fundlab.store.remote import RemotePath

pytestmark = pytest.mark.thorough  # but for campaigns: a server takes seconds


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture(autouse=True)
def reached(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment(address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Store]:
    """The store at a URI, as one of several machines opens it."""

    def opened(name: str, uri: str) -> Store:
        monkeypatch.setenv("HOME", str(tmp_path / name))
        return Store(uri)

    return opened


def service_of(count: int) -> Any:
    return FakeService(
        [transfer(n) for n in range(count)], events=[{"id": "e", "created_at": moment(1)}]
    )


def test_it_answers_as_one_on_this_machine_does(
    machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = service_of(30)
    here, there = Store(tmp_path / "here"), machine("one", "s3://books/job")
    for store in (here, there):
        store.sync(service)
        store.pin("before")
    service.transfers[3] = transfer(3, status="FAILED", updated_at=moment(90))
    service.transfers.append(transfer(99))
    for store in (here, there):
        store.sync(service, tables=["transfers"], full=True)
        store.annotate("t-000001", comment="why", by="Ana")
        store.close("2026-03", by="Ana", with_breaks="opening balances are not known")
    other = machine("two", "s3://books/job")  # which has only what is there
    assert other.read("transfers").equals(here.read("transfers"))
    assert other.read("transfers", pin="before").equals(here.read("transfers", pin="before"))
    was, now = (one.history("transfers").drop(columns="published_at") for one in (here, other))
    assert now.equals(was)
    statuses = other.scan("transfers").aggregate("status, count(*)").order("status").fetchall()
    assert statuses == [("COMPLETED", 30), ("FAILED", 1)]
    assert list(other.annotations()["comment"]) == ["why"]
    assert other.closes()["period"].tolist() == ["2026-03"]
    assert str(other.repair()) == "nothing is damaged or missing"
    assert there.verify(other.anchor().line).problems == ()
    fl.report(other, "2026-03", out=tmp_path / "reports", formats=["csv"])
    assert list((tmp_path / "reports").rglob("*.csv"))
    assert other.publish(tmp_path / "current")["transfers"].written
    assert set(other.compact()) == set(here.compact())
    monkeypatch.setattr(compaction, "GRACE_S", -10)
    with there.lock():
        assert len(list((there.path / "transfers").iterdir())) == 1
    assert there.read("transfers").equals(here.read("transfers"))


# ------------------------------------------------------------------------ two writers


class Meeting:
    """The first manifest that each of two runs publishes is published when both are about to."""

    def __init__(self) -> None:
        self.barrier, self.seen = threading.Barrier(2, timeout=120), set[int]()

    def create(self, original: Any) -> Any:
        def create(path: RemotePath, content: bytes) -> None:
            if threading.get_ident() not in self.seen:
                self.seen.add(threading.get_ident())
                self.barrier.wait()
            original(path, content)

        return create


def contest(
    monkeypatch: pytest.MonkeyPatch, first: Callable[[], object], second: Callable[[], object]
) -> list[StoreLocked | None]:
    """What each of two runs was told."""
    meeting = Meeting()

    def outcome(work: Callable[[], object]) -> StoreLocked | None:
        try:
            work()
        except StoreLocked as error:
            return error
        return None

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(RemotePath, "create", meeting.create(RemotePath.create))
        return list(threads.map(outcome, (first, second)))


@pytest.mark.parametrize("count", [10, pytest.param(500, marks=pytest.mark.campaign)])
def test_of_two_writers_one_wins_and_the_other_is_told(
    count: int, machine: Any, monkeypatch: pytest.MonkeyPatch, seed: int, figure: Any
) -> None:
    """Syncs, pins, annotations and compactions of two machines, each pair met at the very write;
    ten pairs to a store."""
    chance, done, won = random.Random(seed), 0, Counter[str]()
    while done < count:
        rounds = min(10, count - done)
        won += contests([machine(n, f"s3://books/{seed}/{done}") for n in "ab"], rounds, chance,
                        monkeypatch)  # fmt: skip
        done += rounds
        print(f"{done} contests, won by {dict(won)}", flush=True)
    figure(
        f"two writers of one bucket: {count} contests, {won.total()} won by one "
        f"({', '.join(f'{n} {name}' for name, n in won.items())}), {count} told, 0 lost"
    )
    assert won.total() == count


def contests(
    stores: list[Store], rounds: int, chance: random.Random, monkeypatch: pytest.MonkeyPatch
) -> Counter[str]:
    service, won = service_of(3), Counter[str]()
    stores[0].sync(service, tables=["transfers"])
    notes, pins = [], set()
    for number in range(rounds):

        def sync(place: int) -> None:
            stores[place].sync(service, tables=["transfers"])

        def annotate(place: int, number: int = number) -> None:
            stores[place].annotate("t-000001", comment=f"{number} by {place}")

        def pin(place: int, number: int = number) -> None:
            stores[place].pin(f"{number}-{place}")

        def compact(place: int) -> None:
            stores[place].compact(["transfers"])

        # A compaction meets nobody where there is nothing to merge.
        merge = [compact] * (len(stores[0].snapshot("transfers").files) > 1)
        kinds = [chance.choice([sync, sync, annotate, pin, *merge]) for _ in range(2)]
        if sync in kinds:
            service.transfers.append(transfer(100 + number))
        told = contest(monkeypatch, *(partial(kinds[place], place) for place in range(2)))
        (loser,) = [place for place in range(2) if told[place] is not None]
        assert "has published since this one began" in str(told[loser])
        won[kinds[1 - loser].__name__] += 1
        kinds[loser](loser)  # run again, as it was told
        notes += [f"{number} by {place}" for place in range(2) if kinds[place] is annotate]
        pins |= {f"{number}-{place}" for place in range(2) if kinds[place] is pin}
    assert sorted(stores[1].read("transfers", columns=["id"])["id"]) == sorted(
        row["id"] for row in service.transfers
    )
    assert sorted(stores[0].annotations()["comment"]) == sorted(notes)
    assert set(stores[0].pins()) == pins
    assert stores[1].verify().ok
    return won


@pytest.mark.parametrize("write", ["create", "write_bytes"])
def test_a_run_that_is_killed_at_its_manifest_or_just_after(
    machine: Any, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    """Its files are there: they count from the manifest on, and ``head`` is made up for."""
    service = service_of(3)
    one, two = (machine(name, f"s3://books/killed-{write}") for name in ("one", "two"))
    one.sync(service)
    service.transfers.append(transfer(9))

    def killed(path: RemotePath, _: bytes) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RemotePath, write, killed)
        with pytest.raises(KeyboardInterrupt):
            one.sync(service)
    published = write == "write_bytes"
    assert len(two.read("transfers")) == 3 + published
    assert two.verify().ok
    assert two.sync(service)["transfers"].new == 1 - published
    assert len(one.read("transfers")) == 4
    assert one.verify().ok


def test_a_network_that_is_cut_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_RETRIES", {"max_retries": 0, "retry_timeout": timedelta(1)})
    with s3_server() as address:
        for name, value in environment(address).items():
            monkeypatch.setenv(name, value)
        store = Store("s3://books/cut")
        store.sync(service_of(3))
    for way in (
        lambda: store.read("transfers"), lambda: store.scan("transfers"), store.pins,
        lambda: store.sync(service_of(4)), lambda: store.backup(tmp_path / "copy"),
        lambda: store.annotate("t-000001", comment="x"), lambda: fl.reconcile.judge(store),
        lambda: fl.report(store, out=tmp_path / "reports"), store.anchor, store.compact,
    ):  # fmt: skip
        with pytest.raises(StoreError, match=r"s3://books/cut.* cannot be (read|written)"):
            way()
    assert "cannot be read" in str(store.verify())


@pytest.mark.parametrize("error", [FileExistsError(), OSError(errno.EIO, "connection closed")])
def test_an_answer_that_was_lost_is_no_other_run(
    error: OSError, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the client asks again the server says that the name is taken: by the very request."""
    store, original = machine("one", f"s3://books/lost-{error.errno}"), RemotePath.create

    def answered(path: RemotePath, content: bytes) -> None:
        original(path, content)
        raise error

    def lost(path: RemotePath, content: bytes) -> None:
        raise OSError(errno.EIO, "connection closed")

    monkeypatch.setattr(RemotePath, "create", answered)
    store.sync(service_of(2))
    store.pin("once")
    monkeypatch.setattr(RemotePath, "create", lost)
    with pytest.raises(StoreError, match="cannot be written: connection closed"):
        store.pin("twice")
    assert len(store.read("transfers")) == 2
    assert list(store.pins()) == ["once"]


def test_a_run_is_told_before_it_uploads(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (machine(name, "s3://books/early") for name in ("one", "two"))
    one.sync(service_of(3))
    snapshot = Store.snapshot

    def late(store: Store, *given: Any, **named: Any) -> Any:
        monkeypatch.setattr(Store, "snapshot", snapshot)
        two.pin("meanwhile")
        return snapshot(store, *given, **named)

    monkeypatch.setattr(Store, "snapshot", late)
    with pytest.raises(StoreLocked, match="run it again"):
        one.compact(["transfers"])
    assert two.verify().ok


# ------------------------------------------------------------------------ opening


def test_storage_that_ignores_the_condition_is_for_reading(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with s3_server(conditional=False) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        store = Store("s3://books/july")
        assert "s3://books/july is open for reading only: this storage lets a write" in caplog.text
        with pytest.raises(StoreError, match="If-None-Match"):
            store.sync(service_of(2))
        assert store.read("transfers").empty


def test_filesystems_of_others_are_for_reading(machine: Any, address: str) -> None:
    """One lacks the condition, the other takes it and forgets it."""
    machine("one", "s3://books/read").sync(service_of(3))
    arrow = fs.S3FileSystem(
        access_key="key", secret_key="secret", endpoint_override=address, region="us-east-1",
        scheme="http",
    )  # fmt: skip
    fsspec = FsspecStore("s3", client_options={"allow_http": True})
    for filesystem, why in ((arrow, "has no write that"), (fsspec, "although it was asked")):
        store = Store("books/read", filesystem=filesystem)
        assert len(store.read("transfers")) == 3
        with pytest.raises(StoreError, match=why):
            store.pin("after")


def test_a_bucket_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"s3://nowhere/books cannot be opened: .*"):
        Store("s3://nowhere/books")


def test_profiles_of_aws(machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StoreError, match="no credentials for S3 are set"):
        Store("s3://books/july")
    (tmp_path / "credentials").write_text(
        "[funds]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "funds")
    assert Store("s3://books/july").read("transfers").empty


# ------------------------------------------------------------------------ backups


def test_a_backup_in_a_bucket(
    machine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a store here and of one in a bucket; from the command line, too."""
    service = service_of(5)
    for name, store in (("here", Store(tmp_path / "here")), ("b", machine("one", "s3://books/b"))):
        store.sync(service)
        assert store.backup(f"s3://books/copies/{name}").copied > 0
        service.transfers.append(transfer(50))
        store.sync(service)
        anchor = store.anchor().line
        run(["backup", f"s3://books/copies/{name}", "--store", str(store.path)])
        assert store.backup(f"s3://books/copies/{name}").copied == 0
        target = tmp_path / f"back-{name}"
        run(["restore", f"s3://books/copies/{name}", "--store", str(target)])
        assert "no problems" in capsys.readouterr().out
        assert Store(target).verify(anchor).ok
        assert Store(target).read("transfers").equals(store.read("transfers"))
        service.transfers.pop()
    with pytest.raises(StoreError, match="there is no backup at s3://books/none"):
        restored("s3://books/none", tmp_path / "none")
    with pytest.raises(InvalidRequest, match="give a file or folder of this machine"):
        restored("s3://books/copies/b", "s3://books/elsewhere")
    assert not (tmp_path / "none").exists()
