"""Who waits for a large store sees how far it is: in a terminal as a bar, elsewhere in the log."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fake_service import FakeService, moment, transfer

from fundlab import Store, reports
from fundlab.base import progress
from fundlab.operate.store import restored
from fundlab.store import compaction
from fundlab.store.scan import hold_in_duckdb

WAITS: dict[str, tuple[Callable[[Store, Path], Any], str]] = {
    "reading": (lambda store, _: store.read("transfers"), "reading transfers: 4 rows"),
    "reading one file": (lambda store, _: store.read("events"), "reading events: 2 rows"),
    "compaction": (lambda store, _: store.compact(), "merging transfers: 3 rows"),
    "backup": (lambda store, out: store.backup(str(out)), r"backing up: [\d,]{5,} bytes"),
    "publishing": (lambda store, out: store.publish(out), "publishing transfers: 3 rows"),
    "anchor": (lambda store, _: store.anchor(), "hashing transfers: 4 rows"),
    "report": (lambda store, _: reports.read_report(store), "reading transfers: 3 rows"),
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Three transfers, of which one has two versions."""
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(tmp_path / "journals"))
    events = [{"id": f"e-{n}", "created_at": moment(n)} for n in (1, 2)]
    service = FakeService([transfer(1), transfer(2)], events=events)
    store = Store(tmp_path / "store")
    store.sync(service)
    service.transfers = [transfer(1), transfer(2, status="FAILED"), transfer(3)]
    store.sync(service, full=True)
    return store


@pytest.fixture
def all_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for unit in progress.LEAST:
        monkeypatch.setitem(progress.LEAST, unit, 1)
    monkeypatch.setattr(sys.modules["fundlab.reports.job"], "HELD_ROWS", 1)


@pytest.mark.parametrize("name", WAITS)
def test_a_long_call_says_how_far_it_is(
    name: str, store: Store, tmp_path: Path, all_are_long: None, caplog: pytest.LogCaptureFixture
) -> None:
    work, said = WAITS[name]
    with caplog.at_level(logging.INFO, "fundlab"):
        work(store, tmp_path / "copy")
    pattern = f"{said} in .* a second"
    assert [line for line in caplog.messages if re.fullmatch(pattern, line)], caplog.messages


def test_so_does_what_comes_back_from_a_backup(
    store: Store, tmp_path: Path, all_are_long: None, caplog: pytest.LogCaptureFixture
) -> None:
    store.backup(str(tmp_path / "copy"))
    with caplog.at_level(logging.INFO, "fundlab"):
        restored(str(tmp_path / "copy"), tmp_path / "back")
    assert any(re.match(r"restoring: [\d,]{5,} bytes in ", line) for line in caplog.messages)


def test_in_a_terminal_it_is_a_bar(
    store: Store,
    all_are_long: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert len(store.read("transfers")) == 3
    shown = capsys.readouterr().err
    assert "reading transfers" in shown
    assert "/4 [" in shown
    with duckdb.connect() as connection:  # who needs the current rows alone waits for no others
        hold_in_duckdb(store.snapshot("transfers"), store.snapshot("events"), ["id"], connection)
    assert "/3 [" in capsys.readouterr().err


def test_a_sync_without_progress_merges_without_it(
    tmp_path: Path, all_are_long: None, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(compaction, "pays", lambda _: True)
    store, service = Store(tmp_path / "store"), FakeService([transfer(1)])
    for asked, shown in ((False, False), (None, True)):
        assert store.sync(service, full=True, progress=asked).compacted
        assert ("merging" in capsys.readouterr().err) is shown
        service.transfers = [transfer(1), transfer(2)]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.thorough) if n == "report" else n for n in WAITS]
)
def test_a_short_call_says_nothing(
    name: str, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work, said = WAITS[name]
    with caplog.at_level(logging.INFO, "fundlab"):
        work(store, tmp_path / "copy")
    assert not [line for line in caplog.messages if re.match(said, line)]
