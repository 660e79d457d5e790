"""Every part is on disk before it is visible: the system calls of many syncs, as strace saw them.

Whatever gets its name in the store, its bytes were synced after the last write to them and before
that call, and its folder was synced afterwards (``traced.py`` runs them and reads the trace).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from traced import TRACED, publications

PROGRAM = Path(__file__).with_name("traced.py")


def can_trace() -> bool:
    """strace is there and may look at a process of ours."""
    if shutil.which("strace") is None:
        return False
    tried = subprocess.run(
        ["strace", "-qq", "-e", "none", "true"], capture_output=True, check=False
    )
    return tried.returncode == 0


needs_strace = pytest.mark.skipif(
    not can_trace(), reason="needs strace, and leave to trace processes of one's own"
)


@needs_strace
def test_two_rounds(tmp_path: Path, seed: int, figure: Any) -> None:
    check_calls(tmp_path, seed, figure, 2)


@needs_strace
@pytest.mark.campaign
def test_forty_rounds(tmp_path: Path, seed: int, figure: Any) -> None:
    check_calls(tmp_path, seed, figure, 40)


def check_calls(folder: Path, seed: int, figure: Any, rounds: int) -> None:
    store, trace = (folder / "store").resolve(), folder / "calls.txt"
    subprocess.run(
        ["strace", "-f", "-y", "-s", "0", "-e", f"trace={TRACED}", "-e", "signal=none",
         "-o", str(trace), sys.executable, str(PROGRAM), str(store), str(rounds), str(seed)],
        check=True, timeout=900,
    )  # fmt: skip
    with trace.open(encoding="utf-8", errors="replace") as lines:
        found = publications(lines, store)
    figure(
        f"on disk before visible: {rounds} syncs, {found.count} files made visible, "
        f"{found.count - len(found.unsafe)} synced before and their folders after"
    )
    assert found.count > 6 * rounds
    assert found.unsafe == []


def test_what_the_reader_of_traces_finds(tmp_path: Path) -> None:
    good = [
        '7 openat(AT_FDCWD, "/s/t/.a.tmp", O_CREAT) = 3</s/t/.a.tmp>',
        '7 write(3</s/t/.a.tmp>, "PAR1", 4) = 4',
        "7 fsync(3</s/t/.a.tmp> <unfinished ...>",
        "8 close(5</x>) = 0",
        "7 <... fsync resumed>) = 0",
        '7 rename("/s/t/.a.tmp", "/s/t/a") = 0',
        "7 fsync(4</s/t>) = 0",
    ]
    assert publications(good, Path("/s")).unsafe == []
    assert publications(good, Path("/s")).count == 1
    assert publications(good, Path("/other")).count == 0
    late = [*good[:5], good[1], *good[5:]]
    assert publications(late, Path("/s")).unsafe == ["/s/t/a: renamed before its bytes were synced"]
    failed = [*good[:4], "7 <... fsync resumed>) = -1 EIO (Input/output error)", *good[5:]]
    assert "before its bytes" in publications(failed, Path("/s")).unsafe[0]
    lost = good[:-1]
    assert publications(lost, Path("/s")).unsafe == ["/s/t/a: its folder was not synced after"]
