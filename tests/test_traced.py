"""Power cuts: nothing gets its name before its bytes are on the disk, as the kernel sees it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from traced import TRACED, publications

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="needs strace, which sees what is asked of the kernel"
)


@needs_strace
def test_every_file_is_synced_before_its_name_and_its_folder_after(tmp_path: Path) -> None:
    folder, trace = tmp_path / "store", tmp_path / "trace"
    subprocess.run(
        ["strace", "-f", "-y", "-qq", "-o", str(trace), "-e", f"trace={TRACED}",
         sys.executable, str(Path(__file__).with_name("traced.py")), str(folder)],
        check=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    with trace.open(encoding="utf-8", errors="replace") as lines:
        found = publications(lines, folder)
    print(f"{found.count} files published, {len(found.unsafe)} of them not synced first")
    assert found.unsafe == []
    assert found.count > 15


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
