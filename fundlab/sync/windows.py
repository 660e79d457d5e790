"""How a stretch of time is shared out among workers that read the same list.

A worker that still has pages before it gives half of the rest of its window away whenever another
has nothing to do, so windows end up narrow where rows are dense. A row may come twice where a
window is cut, and the caller drops repeats; none is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Window(NamedTuple):
    """From ``start`` (inclusive) to ``end`` (exclusive), ns; ``None`` is open."""

    start: int | None
    end: int | None

    def parts(self, count: int, span: tuple[int, int]) -> Iterator[Window]:
        """The window in ``count`` pieces of equal length, as far as rows are in ``span``."""
        low = span[0] if self.start is None else max(self.start, span[0])
        high = span[1] if self.end is None else min(self.end, span[1])
        cuts = {low + (high - low) * n // count for n in range(1, count)}
        edges = [self.start, *sorted(cut for cut in cuts if low < cut < high), self.end]
        return (Window(*pair) for pair in pairwise(edges))


@dataclass
class Board:
    """The windows nobody reads yet, and how many workers are looking for one."""

    newest: int  # the newest row's moment when the load began
    waiting: list[Window]
    busy: int = 0
    idle: int = 0
    stopped: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)

    def take(self) -> Window | None:
        """The next window; ``None`` once nothing is left to do for anybody."""
        with self.changed:
            self.idle += 1
            self.changed.wait_for(lambda: self.waiting or not self.busy or self.stopped)
            self.idle -= 1
            if self.stopped or not self.waiting:
                return None
            self.busy += 1
            return self.waiting.pop()

    def finished(self) -> None:
        with self.changed:
            self.busy -= 1
            self.changed.notify_all()

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    @property
    def hungry(self) -> bool:
        """Whether somebody waits for a window."""
        return self.idle > len(self.waiting)

    def split(self, window: Window, reached: int | None) -> Window | None:
        """Give away the later half of what is left of ``window``; the earlier half to go on with.

        ``None`` where nobody waits, or the window is too narrow: a page of rows of one moment
        must be walked through by its cursor.
        """
        if reached is None or (window.start is not None and reached <= window.start):
            return None
        middle = (reached + (self.newest if window.end is None else window.end)) // 2
        with self.changed:
            if not self.hungry or middle <= reached:
                return None
            self.waiting.append(Window(middle, window.end))
            self.changed.notify()
        return Window(reached, middle)
