"""Python's search for cycles, put off while much is made that holds none."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_lock: Final = threading.Lock()
_inside: list[bool] = []
"""For each block that some thread is in, whether Python looked for cycles before the first."""
_frozen = False
"""Whether somebody had frozen something when it was last asked. It is not asked again then, for to
count goes through all of it."""


@contextmanager
def no_search(*, stays: bool = False) -> Iterator[None]:
    """Within this block nobody looks for cycles: among modules that are loaded, or a million
    numbers, there is none, and looking takes a tenth of the time. What ``stays``, as modules do, is
    old afterwards, so that no search goes through it soon. The last thread to leave such a block
    lets the search go on."""
    global _frozen
    with _lock:
        _inside.append(_inside[0] if _inside else gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            if _inside.pop() and not _inside:
                _frozen = _frozen or (stays and gc.get_freeze_count() > 0)
                if stays and not _frozen:
                    gc.freeze()
                    gc.unfreeze()  # into the oldest generation
                gc.enable()
