"""Things produced in background threads, a little ahead of where they are used.

Whoever uses them never waits for a hung request: an interrupt comes through at once. What such a
thread is at then ends by itself, and nothing more is sent for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import ContextVar
from operator import itemgetter
from typing import Any, Final, TypeVar

_POLL_S: Final = 0.1
_PATIENCE_S: Final = 0.25
"""For what is under way when nobody wants it any more; a hung request is left alone."""
_DONE: Final = object()

A = TypeVar("A")
T = TypeVar("T")

caller_gone: Final[ContextVar[Callable[[], bool]]] = ContextVar("caller_gone")
"""Set in threads that work for another: whether it is gone. Then nothing more is sent for it."""


def produced(sources: Sequence[Generator[T]], ahead: int) -> Generator[T]:
    """What the ``sources`` yield, each run in a thread of its own, ``ahead`` items at most waiting.

    The first error of a source is raised here and stops the others, as does closing the iterator:
    a source that runs is then closed in its own thread.
    """
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(ahead)
    stopped = threading.Event()

    def run(source: Generator[T]) -> None:
        entry: tuple[Any, BaseException | None]
        caller_gone.set(stopped.is_set)
        while not stopped.is_set():
            try:
                entry = next(source, _DONE), None
            except BaseException as error:  # noqa: BLE001 - raised again where it is used
                entry = _DONE, error
            while not stopped.is_set():
                try:
                    ready.put(entry, timeout=_POLL_S)
                    break
                except queue.Full:
                    continue
            if entry[0] is _DONE:
                return
        source.close()

    threads = [
        threading.Thread(target=run, args=(source,), name=f"fundlab-ahead-{number}", daemon=True)
        for number, source in enumerate(sources, start=1)
    ]
    running = len(threads)
    try:
        for thread in threads:
            thread.start()
        while running:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _DONE:
                running -= 1
            else:
                yield item
    finally:
        stopped.set()
        patience = time.monotonic() + _PATIENCE_S
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, patience - time.monotonic()))


def gathered(work: Callable[[A], T], items: Iterable[A], workers: int) -> list[T]:
    """What ``work`` makes of each item, in their order, by ``workers`` threads side by side.

    The first error is raised here, and no other item is begun.
    """
    waiting = deque[Any](enumerate(items))
    count = min(workers, len(waiting))
    waiting.extend([None] * count)  # an end for each
    made = produced(
        [
            ((number, work(item)) for number, item in iter(waiting.popleft, None))
            for _ in range(count)
        ],
        1,
    )
    return [one for _, one in sorted(made, key=itemgetter(0))]
