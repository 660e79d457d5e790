"""One line to whoever runs a cell: under it in a notebook, on standard error elsewhere."""

from __future__ import annotations

import sys

from fundlab.progress import in_notebook


def announce(line: str) -> None:
    stream = sys.stdout if in_notebook() else sys.stderr
    stream.write(f"{line}\n")
    stream.flush()
