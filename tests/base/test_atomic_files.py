"""What a killed run leaves half written goes with the next run; a living one's stays."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fundlab as fl
from fundlab.base.atomic_files import sweep

DIES = """
import os, sys
from pathlib import Path
import fundlab as fl
{imports}
out = Path(sys.argv[1])
{run}
"""
DYING = {
    "an export": (
        "import fundlab.exports as room",
        "room._PLAIN = {'csv': lambda *given: os.kill(os.getpid(), 9)}\n"
        "fl.exports.export_table(fl.sample(), 'balances', out / 'rows.csv', 'csv')",
    ),
    "a workbook": (
        "import fundlab.exports.sheets as room",
        "room.as_text = lambda *given: os.kill(os.getpid(), 9)\n"
        "fl.exports.export_table(fl.sample(), 'balances', out / 'rows.xlsx', 'xlsx')",
    ),
}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "what", ["an export", pytest.param("a workbook", marks=pytest.mark.thorough)]
)
def test_a_later_run_sweeps_what_a_killed_one_left(what: str, tmp_path: Path) -> None:
    imports, run = DYING[what]
    script = DIES.format(imports=imports, run=run)
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True)
    assert died.returncode == -9, died.stderr.decode()
    assert hidden(tmp_path)
    ending = "csv" if what == "an export" else "xlsx"
    fl.exports.export_table(fl.sample(), "balances", tmp_path / f"rows.{ending}", ending)
    assert hidden(tmp_path) == []


def test_what_a_living_run_writes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    target = tmp_path / "rows.csv"
    others = [f".rows.csv.{'a' * 31}.tmp", f".rows.csv.old.{'b' * 32}.tmp", ".rows.csv.tmp"]
    for name in others:
        (tmp_path / name).touch()
    with fl.exports.replacing(target) as unfinished:
        unfinished.write_text("slow")
        fl.exports.write_rows(pa.table({"a": ["quick"]}), target, "csv")
        assert unfinished.read_text() == "slow"
    assert target.read_text() == "slow"
    assert sorted(hidden(tmp_path)) == sorted(others)
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def abandoned(target: Path) -> Path:
    left = target.with_name(f".{target.name}.{'c' * 32}.tmp")
    left.touch()
    return left


@pytest.mark.parametrize("refused", ["open", "unlink"])
def test_what_another_user_left_blocks_no_export(
    refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "rows.csv"
    foreign, system = abandoned(target), getattr(os, refused)

    def refuse(path: Any, *given: Any, **named: Any) -> Any:
        if Path(path) == foreign:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        return system(path, *given, **named)

    monkeypatch.setattr(os, refused, refuse)
    fl.exports.write_rows(pa.table({"a": ["x"]}), target, "csv")
    assert target.read_text() == '"a"\n"x"\n'
    assert hidden(tmp_path) == [foreign.name]


def test_a_sweeper_holds_what_it_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, unlink, held = abandoned(tmp_path / "rows.csv"), os.unlink, []

    def remove(path: Any, **named: Any) -> None:
        with left.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(path)
        unlink(path, **named)

    monkeypatch.setattr(os, "unlink", remove)
    sweep(tmp_path, "rows.csv")
    assert held == [left]
    assert hidden(tmp_path) == []


def test_a_file_that_a_sweeper_holds_before_its_writer_does_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, swept = fcntl.flock, []
    with ExitStack() as sweeper:

        def sweeper_first(handle: int, operation: int) -> None:
            if not swept:
                (path,) = tmp_path.iterdir()
                swept.append(path)
                flock(sweeper.enter_context(path.open()), operation)
            flock(handle, operation)

        monkeypatch.setattr(fcntl, "flock", sweeper_first)
        with fl.exports.replacing(tmp_path / "rows.csv") as unfinished:
            swept[0].unlink(missing_ok=True)
            assert unfinished.exists()
            unfinished.write_text("mine")
    assert (tmp_path / "rows.csv").read_text() == "mine"
    assert hidden(tmp_path) == []


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
