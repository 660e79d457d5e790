"""Python's search for cycles, put off while much is made that holds none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_search(*, stays: bool = False) -> Iterator[None]:
    """Within this block nobody looks for cycles: among modules that are loaded, or a million
    numbers, there is none, and looking takes a tenth of the time. What ``stays``, as modules do, is
    old afterwards, so that no search goes through it soon."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if stays and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # into the oldest generation
            gc.enable()
