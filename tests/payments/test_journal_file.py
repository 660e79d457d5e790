"""The journal's file where a disk or another program is in the way."""

from __future__ import annotations

import _thread
import os
import resource
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.payments.identity import Entry
from fundlab.payments.journal import Journal

SERVICE = {"base_url": "https://api.example.com", "client_id": "desk"}


def record(journal: Journal, ref_id: str) -> Entry:
    return journal.record(
        ref_id, "create_fiat_withdrawal", {"amount": "1"}, b'{"amount": "1"}', {"amount": "1"}
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path / "journal" / "service.sqlite", SERVICE)
    for number in range(5):
        record(made, f"r{number}")
    return made


def test_what_a_power_cut_left_half_done_is_undone(journal: Journal, tmp_path: Path) -> None:
    """The file was cut in the middle of a page; its rollback journal holds what was there."""
    copy = tmp_path / "copy.sqlite"
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as database:
        for pragma in ("cache_size = 1", "cache_spill = 1"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("BEGIN IMMEDIATE")
        row = ("o", 1, "f" * 64, "l" * 64, b"x" * 300, "{}", "s")
        for number in range(2_000):
            database.execute(
                "INSERT INTO intents (ref_id, name, operation, recorded_at, fingerprint, "
                "likeness, body, facts, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (f"x{number}", f"x{number}", *row),
            )  # fmt: skip
        shutil.copy(journal.path, copy)
        shutil.copy(f"{journal.path}-journal", f"{copy}-journal")
        database.execute("ROLLBACK")
    os.truncate(copy, copy.stat().st_size - 1_000)
    names = [intent.ref_id for intent in Journal(copy, SERVICE).entries()]
    assert names == ["r0", "r1", "r2", "r3", "r4"]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_journal_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "service.sqlite"
    with (
        files_of_at_most(8_192),
        pytest.raises(StoreError, match=rf"the journal {path} cannot be made: .*has room"),
    ):
        Journal(path, SERVICE)
    assert list(path.parent.iterdir()) == []
    assert Journal(path, SERVICE).entries() == []


def test_a_disk_without_hard_links_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*paths: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    path = tmp_path / "service.sqlite"
    with pytest.raises(StoreError, match="cannot be made: Operation not permitted"):
        Journal(path, SERVICE)
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_nothing_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "service.sqlite"
    path.symlink_to(tmp_path / "gone.sqlite")
    with pytest.raises(StoreError, match=r"is a link to .*gone.sqlite, which is not there; bring"):
        Journal(path, SERVICE)
    assert [entry.name for entry in tmp_path.iterdir()] == ["service.sqlite"]


def test_a_place_that_cannot_be_looked_at_is_not_taken_for_an_empty_one(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, iterdir = Path.stat, Path.iterdir

    def closed(path: Path, **given: bool) -> os.stat_result:
        if path == journal.path:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **given)

    def closed_folder(path: Path) -> Iterator[Path]:
        if path == journal.path.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return iterdir(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", closed)
        with pytest.raises(StoreError, match=r"cannot be looked at: Permission denied"):
            Journal(journal.path, SERVICE)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", closed_folder)
        with pytest.raises(StoreError, match=r"cannot be looked at: Permission denied"):
            fl.journal(folder=journal.path.parent)
    with pytest.raises(InvalidRequest, match=r"^folder='/\\ud83d' is not valid Unicode"):
        fl.journal(folder="/\ud83d")
    assert len(fl.journal(folder=journal.path.parent)) == 5


def test_waiting_for_another_program_can_be_interrupted(journal: Journal) -> None:
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.2, _thread.interrupt_main).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            record(journal, "late")
        assert time.monotonic() - started < 20
        other.execute("ROLLBACK")
    assert journal.find("late") is None
    assert record(journal, "late").ref_id == "late"


def test_a_journal_that_is_held_for_a_while_is_waited_for(journal: Journal) -> None:
    other = sqlite3.connect(journal.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    threading.Timer(0.3, lambda: other.execute("ROLLBACK")).start()
    assert record(journal, "late").ref_id == "late"
    other.close()


def test_a_new_sandbox_removes_the_journals_of_old_ones_and_no_others(tmp_path: Path) -> None:
    here, there = "http://127.0.0.1:8000", "https://api.example.com"
    days = {
        "sandbox-of-late": (29, here, "a"), "old-sandbox": (31, here, "b"),
        "damaged": (400, here, "c"), "no-sandbox": (400, here, ""),
        "production": (400, there, ""), "production-that-says-more": (400, there, "d"),
    }  # fmt: skip

    def make(name: str, base_url: str, instance: str) -> Path:
        path = tmp_path / f"{name}.sqlite"
        service = {"base_url": base_url, "client_id": "desk"}
        Journal(path, service | ({"instance": instance * 32} if instance else {}))
        return path

    paths = {name: make(name, *service) for name, (_, *service) in days.items()}
    with closing(sqlite3.connect(paths["damaged"], isolation_level=None)) as database:
        database.execute("UPDATE about SET value = 'e' WHERE name = 'instance'")
    for name, path in paths.items():
        moment = time.time() - days[name][0] * 86_400
        os.utime(path, (moment, moment))
    make("another-production", "https://b.example.com", "")
    assert all(path.exists() for path in paths.values())  # where money is real nothing is removed
    make("new-sandbox", here, "f")
    assert [name for name, path in paths.items() if not path.exists()] == ["old-sandbox"]
