"""The C sources, compiled and loaded; where there is no C compiler, nothing is lost but speed.

Installing the package compiles them where there is a C compiler (``.hatch_build.py``).
``python fundlab/base/compiled.py`` does it in a working copy, and again after a change: a library
of another source than the one beside it is not used. ``CC`` names the compiler, as elsewhere.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCES = [
    Path(__file__).parents[1] / room / name
    for room, name in (("decimals", "kernels.c"), ("tables", "plain_pages.c"))
]


def library_of(source: Path) -> Path:
    return source.with_name(f"lib{source.stem}.so")


def compile_source(source: Path, library: Path, *flags: str) -> bool:
    """Whether there is a ``library`` of the ``source`` now."""
    made = library.with_suffix(".new")  # who has loaded the old one keeps it
    command = [
        *shlex.split(os.environ.get("CC") or "cc"),
        "-std=gnu11",
        "-O3",
        "-shared",
        "-fPIC",
        f'-DDIGEST="{_digest(source)}"',
    ]
    command += [*flags, "-o", str(made), str(source)]
    try:
        subprocess.run(command, check=True, stderr=subprocess.PIPE)  # noqa: S603 - nobody's input
    except (OSError, subprocess.CalledProcessError):
        return False
    made.replace(library)
    return True


def load(source: Path, library: Path | None = None) -> Any:
    """The compiled ``source``; ``None`` where it was not built, or of another source than now.
    Other threads run while it does."""
    try:
        compiled = ctypes.CDLL(str(library or library_of(source)))
        compiled.source_digest.restype = ctypes.c_char_p
        return compiled if compiled.source_digest() == _digest(source).encode() else None
    except (OSError, AttributeError):
        return None


def slow_path() -> str:
    """What is slower, and by how much, where a C source was not compiled; else nothing."""
    lacking = {source.stem for source in SOURCES if load(source) is None}
    slower = {
        "plain_pages": "pages are decoded about 6 times slower",
        "kernels": "amounts are multiplied and divided about 13 times slower",
    }
    return ", ".join(text for name, text in slower.items() if name in lacking)


def _digest(source: Path) -> str:
    return hashlib.sha256(source.read_bytes()).hexdigest()


if __name__ == "__main__":
    made = [compile_source(source, library_of(source)) for source in SOURCES]
    sys.exit(not all(made))
