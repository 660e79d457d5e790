"""What a killed run leaves half written goes with the next run; a living one's stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import fundlab as fl

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
        "import fundlab.exports.workbook as room",
        "room._write_sheets = lambda *given: os.kill(os.getpid(), 9)\n"
        "fl.exports.export_table(fl.sample(), 'balances', out / 'rows.xlsx', 'xlsx')",
    ),
    "the current rows": (
        "import fundlab.store.current as room",
        "room.in_row_groups = lambda *given: os.kill(os.getpid(), 9)\n"
        "fl.sample().export_current(out)",
    ),
}


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("what", DYING)
def test_a_later_run_sweeps_what_a_killed_one_left(what: str, tmp_path: Path) -> None:
    imports, run = DYING[what]
    script = DIES.format(imports=imports, run=run)
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True)
    assert died.returncode == -9, died.stderr.decode()
    assert hidden(tmp_path)
    if what == "the current rows":
        fl.sample().export_current(tmp_path)
    else:
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


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
