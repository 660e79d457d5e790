"""Compiles the decoder of plain pages; where there is no C compiler nothing is lost but speed.

Installing the package does it (``.hatch_build.py``). ``python fundlab/tables/compile.py`` does it
in a working copy, and again after a change: a library of another ``plain_pages.c`` is not used.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).with_name("plain_pages.c")
LIBRARY = Path(__file__).with_name("libplain_pages.so")


def source_digest() -> str:
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def compile_decoder(library: Path = LIBRARY, *flags: str) -> bool:
    """Whether there is a ``library`` of the source now."""
    made = library.with_suffix(".new")  # who has loaded the old one keeps it
    command = ["cc", "-std=gnu11", "-O2", "-shared", "-fPIC", f'-DDIGEST="{source_digest()}"']
    command += [*flags, "-o", str(made), str(SOURCE)]
    try:
        subprocess.run(command, check=True, stderr=subprocess.PIPE)  # noqa: S603 - nobody's input
    except (OSError, subprocess.CalledProcessError):
        return False
    made.replace(library)
    return True


if __name__ == "__main__":
    sys.exit(not compile_decoder())
