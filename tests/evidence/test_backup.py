"""Backups: complete, checked, never less than before; and what comes back from them."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fake_service import FakeService, transfer, withdrawal

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import ActionRefused, CallError, StoreDamaged, StoreError
from fundlab.cli import run
from fundlab.evidence import backup
from fundlab.operate.store import restored
from fundlab.payments.identity import WITHDRAWAL
from fundlab.payments.journal import Journal, create_journal, identity_of
from fundlab.store import compaction


@pytest.fixture
def service() -> FakeService:
    return FakeService([transfer(1), withdrawal(2)])


@pytest.fixture
def store(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    store = Store(tmp_path / "store")
    store.sync(service)
    store.pin("one")
    store.annotate("t-000001", comment="why")
    return store


@pytest.mark.seconds
def test_each_state_comes_back_as_it_was(
    store: Store, service: FakeService, tmp_path: Path
) -> None:
    for number in range(4):
        service.transfers.append(transfer(10 + number))
        store.sync(service)
        if number == 2:
            store.compact()
        anchor, done = store.anchor().line, store.backup(str(tmp_path / "copy"))
        assert done.copied > 0
        again, _ = restored(str(tmp_path / "copy"), tmp_path / f"back-{number}")
        assert again.verify(anchor).ok
        assert again.read("transfers").equals(store.read("transfers"))
    before = {path for path in (tmp_path / "copy").rglob("*") if "manifests" not in str(path)}
    assert store.backup(str(tmp_path / "copy")).copied == 0
    assert {p for p in (tmp_path / "copy").rglob("*") if "manifests" not in str(p)} == before
    kept = sorted((tmp_path / "copy" / backup.MANIFESTS).iterdir())
    assert [path.name.partition("-")[0] for path in kept] == [f"{n:08d}" for n in range(1, 6)]


def test_nothing_is_overwritten_and_damage_is_named(store: Store, tmp_path: Path) -> None:
    done = store.backup(str(tmp_path / "copy"))
    assert done.copied == done.files > 0
    with pytest.raises(StoreError, match="is not empty"):
        restored(str(tmp_path / "copy"), store.path)
    with pytest.raises(StoreError, match="there is no backup at"):
        restored(str(tmp_path / "none"), tmp_path / "back")
    part = next((tmp_path / "copy" / "transfers").iterdir())
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(StoreDamaged, match="is not what was written"):
        restored(str(tmp_path / "copy"), tmp_path / "back")
    assert not (tmp_path / "back").exists()
    store.backup(str(tmp_path / "copy"))  # mends what is shorter than it was
    assert restored(str(tmp_path / "copy"), tmp_path / "back")[0].verify().ok


def test_a_backup_into_a_store_is_refused(
    store: Store, service: FakeService, tmp_path: Path
) -> None:
    other = Store(tmp_path / "other")
    other.sync(service)
    before = {path: path.read_bytes() for path in other.path.rglob("*") if path.is_file()}
    for place in (other.path, other.path / "copy", store.path):
        with pytest.raises(StoreError, match=r"is within the store .*: give a folder beside it"):
            store.backup(str(place))
    after = {path: path.read_bytes() for path in other.path.rglob("*") if path.is_file()}
    assert after == before
    assert other.verify().ok


def test_beside_a_compaction_that_takes_files_away(
    store: Store, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fundlab.evidence import backup

    service.transfers.append(transfer(5))
    store.sync(service)
    copy, calls = backup._copy, []

    def interfering(*given: Any) -> list[Any]:
        if not calls:
            calls.append(1)
            monkeypatch.setattr(compaction, "GRACE_S", -10)
            store.compact()
            with store.lock():
                pass
        return copy(*given)

    monkeypatch.setattr(backup, "_copy", interfering)
    store.backup(str(tmp_path / "copy"))
    assert restored(str(tmp_path / "copy"), tmp_path / "back")[0].verify().ok


def approved(client: fl.Client) -> fl.models.FiatAccount:
    """An account of the customer's own that may be paid."""
    return next(
        one for one in client.list_fiat_accounts()
        if one.status == "APPROVED" and one.identity_id is None
    )  # fmt: skip


@pytest.mark.parametrize("clock", ["real", "manual"])  # by hand it is weeks behind this machine's
def test_a_restored_journal_pays_only_after_resume(
    clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    with (
        fl.sandbox.serve(seed=7, transfers=50, clock=clock) as sandbox,
        sandbox.connect() as client,
    ):
        store = Store(tmp_path / "store")
        store.sync(client)
        account = approved(client)
        wanted = {
            "profile_id": sandbox.profile_ids[0], "fiat_account_id": account.id, "store": store,
            "say": lambda line: None,
        }  # fmt: skip
        first = fl.plan_withdrawal(client, amount="1.00", **wanted)
        known = first.submit(confirm=first.code)
        if clock == "manual":
            sandbox.clock.advance(60)
            fl.resume(client, store=store)  # nothing is open
        store.backup(str(tmp_path / "copy"))
        second = fl.plan_withdrawal(client, amount="2.00", **wanted)
        paid = second.submit(confirm=second.code)

        shutil.rmtree(tmp_path / "journals")
        shutil.rmtree(store.path)
        _, said = restored(str(tmp_path / "copy"), store.path)
        assert "it pays nothing before fl.resume() has run" in said[-1]
        (journal,) = (tmp_path / "journals").iterdir()  # and nothing else beside it
        assert journal.stat().st_mode & 0o777 == 0o600
        third = fl.plan_withdrawal(client, amount="3.00", **wanted)
        with pytest.raises(ActionRefused, match=r"nothing was sent: run fl\.resume\(\) first"):
            third.submit(confirm=third.code)
        shown: list[str] = []
        with sandbox.connect() as new:  # which has asked nothing yet
            fl.resume(new, store=store, say=shown.append)
        assert any(paid.id in line for line in shown)
        assert not any(known.id in line for line in shown)
        again = fl.plan_withdrawal(client, amount="2.00", **wanted)
        found = again.submit(confirm=again.code)
        assert found.id == paid.id  # the same payment, by its ref_id, not another one
        third = fl.plan_withdrawal(client, amount="3.00", **wanted)
        third.submit(confirm=third.code)


def test_without_a_place_for_its_journal_no_store_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    with fl.sandbox.serve(seed=7, transfers=50) as sandbox, sandbox.connect() as client:
        store = Store(tmp_path / "store")
        store.sync(client)
        plan = fl.plan_withdrawal(
            client, amount="1.00", profile_id=sandbox.profile_ids[0], store=store,
            fiat_account_id=approved(client).id, say=lambda line: None,
        )  # fmt: skip
        plan.submit(confirm=plan.code)
    store.backup(str(tmp_path / "copy"))
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="is not a folder"):
        restored(str(tmp_path / "copy"), tmp_path / "back")
    assert not [*tmp_path.glob("*back*")]
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "elsewhere"))
    _, said = restored(str(tmp_path / "copy"), tmp_path / "back")
    assert "it pays nothing before fl.resume() has run" in said[-1]


@pytest.mark.parametrize(
    "count",
    [pytest.param(5, marks=pytest.mark.thorough), pytest.param(200, marks=pytest.mark.campaign)],
)
def test_nothing_is_paid_again_after_a_restore(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, figure: Any
) -> None:
    """Payments before a backup, beside it and after it, some of whose answers were lost; then the
    store and the journal are gone, come back, and every payment is asked for again."""
    chance, paid, refused = Random(seed), 0, 0
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    with fl.sandbox.serve(seed=7, transfers=400) as sandbox, sandbox.connect() as client:
        first = Store(tmp_path / "first")
        first.sync(client)
        account = approved(client)
        for trial in range(count):
            folder = tmp_path / str(trial)
            shutil.copytree(first.path, folder / "store")
            store = Store(folder / "store")
            usd = {one: client.get_profile_balance(one, "USD") for one in sandbox.profile_ids}
            profile = max(usd, key=lambda one: usd[one].available)

            def pay(amount: str, store: Store = store, profile: str = profile) -> str:
                plan = fl.plan_withdrawal(
                    client, profile_id=profile, fiat_account_id=account.id, amount=amount,
                    store=store, say=lambda line: None,
                )  # fmt: skip
                return str(plan.submit(confirm=plan.code).id)

            amounts = [f"{1 + trial}.{number:02d}" for number in range(4)]
            made = {amounts[0]: pay(amounts[0])}
            with ThreadPoolExecutor(1) as beside:
                backup = beside.submit(store.backup, str(folder / "copy"))
                made[amounts[1]] = pay(amounts[1])
                backup.result()
            made[amounts[2]] = pay(amounts[2])
            if chance.random() < 0.5:
                sandbox.faults.add("lost", "create_fiat_withdrawal", count=1)
            with suppress(CallError):
                made[amounts[3]] = pay(amounts[3])

            shutil.rmtree(tmp_path / "journals")
            shutil.rmtree(store.path)
            again, _ = restored(str(folder / "copy"), store.path)
            assert again.verify().ok
            try:
                pay(amounts[2], again)
            except ActionRefused:
                refused += 1
            fl.resume(client, store=again, say=lambda line: None)
            for amount in amounts:
                found = pay(amount, again)
                assert found == made.setdefault(amount, found)
            paid += len(amounts)
            shutil.rmtree(tmp_path / "journals")
            if trial % 10 == 9:
                print(f"{trial + 1} restores, {paid} payments", flush=True)
        rows = client.list_transfers(profile_ids=sandbox.profile_ids, page_size=1000)
        there = Counter(row.amount for row in rows if row.fiat_account_id == account.id)
        for trial in range(count):
            assert [there[Decimal(f"{1 + trial}.{n:02d}")] for n in range(4)] == [1] * 4
    figure(
        f"nobody is paid twice after a restore: {count} restores, {paid} payments asked for again: "
        f"{paid} transfers"
    )
    assert refused == count


def test_a_journal_that_is_here_stays(store: Store, service: FakeService, tmp_path: Path) -> None:
    owner = {"base_url": service.base_url, "client_id": service.client_id}
    book = Journal(tmp_path / "journals" / f"{identity_of(owner)[1]}.sqlite", owner)
    book.record("r-1", WITHDRAWAL, {"amount": "1", "fiat_account_id": "f"}, b"{}", {})
    store.backup(str(tmp_path / "copy"))
    (kept,) = (tmp_path / "copy" / "journals").iterdir()
    digest = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert kept.name == f"{book.path.name}.{digest[:16]}"
    book.record("r-2", WITHDRAWAL, {"amount": "2", "fiat_account_id": "f"}, b"{}", {})
    _, said = restored(str(tmp_path / "copy"), tmp_path / "back")
    assert "one is here already and stays" in said[-1]
    assert len(book.entries()) == 2


def test_from_the_command_line(store: Store, tmp_path: Path, capsys: Any) -> None:
    run(["backup", str(tmp_path / "copy"), "--store", str(store.path)])
    run(["restore", str(tmp_path / "copy"), "--store", str(tmp_path / "back")])
    assert "no problems" in capsys.readouterr().out


def test_a_restored_journal_is_on_the_disk_before_it_has_its_name(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = store.service()
    assert service is not None
    _, name = identity_of(service)
    path = tmp_path / "journals" / f"{name}.sqlite"
    create_journal(path, service)
    store.backup(tmp_path / "copy")
    path.unlink()
    synced: list[int] = []
    sync, link = os.fsync, os.link

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    def checked(source: Path, target: Path) -> None:
        assert source.stat().st_ino in synced
        link(source, target)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.link", checked)
    restored(tmp_path / "copy", tmp_path / "back")
    assert path.exists()


def test_a_copy_is_read_back_and_is_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"five!")
    digest = hashlib.sha256(b"five!").hexdigest()
    assert backup._copy(source, target, set(), digest) == [5, digest]
    assert backup._copy(source, tmp_path / "c", set()) == [5, digest]
    assert target.read_bytes() == b"five!"
    with pytest.raises(StoreDamaged, match="/a: is not what was written"):
        backup._copy(source, tmp_path / "d", set(), digest[::-1])
    assert not (tmp_path / "d").exists()

    @contextmanager
    def other(path: Path, **_: object) -> Iterator[io.BytesIO]:
        yield io.BytesIO()
        path.write_bytes(b"four")

    monkeypatch.setattr(backup.disk, "replacing", other)
    with pytest.raises(StoreDamaged, match="/e: is not what was copied there"):
        backup._copy(source, tmp_path / "e", set(), digest)


def test_a_backup_lists_each_folder_that_it_copies_to_once(
    store: Store, service: FakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.transfers.append(transfer(3))
    store.sync(service)
    iterdir, listed = Path.iterdir, Counter[Path]()

    def listing(folder: Path) -> Iterator[Path]:
        listed[folder] += 1
        return iterdir(folder)

    monkeypatch.setattr(Path, "iterdir", listing)
    store.backup(str(tmp_path / "copy"))
    restored(str(tmp_path / "copy"), tmp_path / "back")
    copied = Counter(path.parent for path in (tmp_path / "copy").glob("[!m]*/*"))
    assert min(copied[tmp_path / "copy" / name] for name in ("transfers", "records")) > 1
    assert {listed[folder] for folder in copied} == {1}
    hidden = [folder for folder in listed if folder.parent.name.startswith(".back.")]
    assert {listed[folder] for folder in hidden} == {1}


@pytest.mark.thorough
@pytest.mark.parametrize("there", ["", "memory://kept/"])
@pytest.mark.parametrize("at", ["a copy", "its manifest"])
def test_a_backup_clears_what_a_killed_one_left_half_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, at: str
) -> None:
    """In its folder, or of one elsewhere on this machine."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    to = f"{there or tmp_path}/copy"
    killed = f"""
import os, stat
from fundlab import Store
from fundlab.evidence import backup
real, canonical = os.fsync, backup.canonical
def dying():
    os.fsync = lambda it: os._exit(9) if stat.S_ISREG(os.fstat(it).st_mode) else real(it)
if {at!r} == "a copy":
    dying()
backup.canonical = lambda content: dying() or canonical(content)  # of the manifest
Store({str(store.path)!r}).backup({to!r})
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9

    def half_copied() -> list[Path]:
        return [one for one in tmp_path.rglob(".*.tmp") if one.is_file()]

    assert len(half_copied()) == 1
    assert store.backup(to).files > 0
    assert half_copied() == []


def test_the_newest_backup_is_read_and_must_be_what_its_name_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept" / backup.MANIFESTS
    folder.mkdir(parents=True)

    def write(number: int, content: bytes, named: bytes | None = None) -> None:
        digest = hashlib.sha256(content if named is None else named).hexdigest()[:16]
        (folder / f"{number:08d}-{digest}.json").write_bytes(content)

    write(1, b'{"at": "first", "files": {}, "journals": {}, "manifest": "{}"}')
    write(2, b'{"at": "second", "files": {}, "journals": {}, "manifest": "{}"}')
    (folder / "more.txt").touch()
    assert backup._manifest(tmp_path / "kept")["at"] == "second"
    monkeypatch.setattr(backup, "restore_manifest", lambda path, content: None)
    synced: list[tuple[Path, set[str]]] = []

    def sync_folder(there: Path) -> None:
        synced.append((there, {one.name for one in there.iterdir()}))

    monkeypatch.setattr(backup.disk, "sync_folder", sync_folder)
    target = tmp_path / "restored"
    target.mkdir()  # empty, as a user may have made it
    done = backup.restore(str(tmp_path / "kept"), target, tmp_path / "aside", pytest.fail)
    assert (done.at, done.files, done.bytes, done.journals) == ("second", 0, 0, ())
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
    assert synced[-1] == (tmp_path, {"kept", "restored"}), "its name is on disk"
    (target / "something").touch()
    with pytest.raises(StoreError, match="restored is not empty: restore into a new folder"):
        backup.restore(str(tmp_path / "kept"), target, tmp_path / "aside", pytest.fail)
    write(3, b"{}", named=b"other")
    with pytest.raises(StoreDamaged, match="make a new backup elsewhere"):
        backup._manifest(tmp_path / "kept")
