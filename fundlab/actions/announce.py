"""One line to whoever runs a cell: under it in a notebook, on standard error elsewhere."""

from __future__ import annotations

import sys
from contextlib import suppress

from fundlab.errors import printable
from fundlab.progress import in_notebook


def announce(line: str) -> None:
    stream = sys.stdout if in_notebook() else sys.stderr
    with suppress(OSError):  # what was done is done, and returned, if nobody can be told as well
        stream.write(f"{printable(line)}\n")
        stream.flush()
