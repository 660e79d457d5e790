"""Where it runs: Linux and macOS; elsewhere it says so at once, whatever is imported first."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ELSEWHERE = """\
import importlib, sys
sys.modules["fcntl"] = None  # as on Windows, where there is no such module
sys.platform = "win32"
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        print(f"{name}: {error}")
    else:
        print(f"{name}: imported")
"""


def test_without_the_locks_of_linux_and_macos_every_import_says_so_in_one_line() -> None:
    paths = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / "fundlab").rglob("*.py")]
    modules = [".".join(path.parts) for path in sorted(paths)]
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *modules], cwd=ROOT, capture_output=True, text=True
    )
    said = run.stdout.splitlines()
    assert (len(said), run.stderr) == (len(modules), "")
    assert len(modules) > 150
    for name, line in zip(modules, said, strict=True):
        assert line.startswith(f"{name}: fundlab runs on Linux and macOS, not on win32: "), line
        assert line.endswith("on Windows, install it in WSL")


def test_the_readme_and_the_metadata_say_the_same() -> None:
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    systems = {line for line in metadata["classifiers"] if line.startswith("Operating System")}
    assert systems == {"Operating System :: MacOS", "Operating System :: POSIX :: Linux"}
    assert "on Linux or macOS" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_files_are_locked_in_one_place() -> None:
    users = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "fundlab").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import) and any(one.name == "fcntl" for one in node.names)
    ]
    assert users == ["fundlab/base/atomic_files.py"]
