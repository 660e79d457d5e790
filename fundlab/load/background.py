"""Things produced in background threads, a little ahead of where they are used.

Whoever uses them never waits for a hung request: an interrupt comes through at once. What such a
thread is at then ends by itself, and nothing more is sent for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, TypeVar

from fundlab.api.transport import caller_gone

_POLL_S: Final = 0.1
_PATIENCE_S: Final = 0.25
"""For requests under way when nobody wants their answers any more; a hung one is left alone."""

A = TypeVar("A")
T = TypeVar("T")
Offer = Callable[[T], None]
Producer = Callable[[Offer[T]], None]


class _Stopped(Exception):
    """Nobody wants any more of it."""


@dataclass(frozen=True)
class _Failed:
    error: BaseException


_DONE: Final = object()


def produced(producers: Sequence[Producer[T]], ahead: int) -> Iterator[T]:
    """What the ``producers`` offer, each in a thread of its own, ``ahead`` items at most waiting.

    The first error of a producer is raised here and stops the others, as does closing the iterator.
    """
    ready: queue.Queue[Any] = queue.Queue(ahead)
    stopped = threading.Event()

    def offer(item: object) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
        raise _Stopped

    def run(producer: Producer[T]) -> None:
        caller_gone.set(stopped.is_set)
        try:
            try:
                producer(offer)
                offer(_DONE)
            except _Stopped:
                return
            except BaseException as error:  # noqa: BLE001 - raised again where it is used
                offer(_Failed(error))
        except _Stopped:
            return

    threads = [
        threading.Thread(target=run, args=(producer,), name=f"fundlab-pages-{number}", daemon=True)
        for number, producer in enumerate(producers, start=1)
    ]
    running = len(producers)
    try:
        for thread in threads:
            thread.start()
        while running:
            item = ready.get()
            if item is _DONE:
                running -= 1
            elif isinstance(item, _Failed):
                raise item.error
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
    waiting = deque(enumerate(items))

    def take(offer: Offer[tuple[int, T]]) -> None:
        while waiting:
            try:
                number, item = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            offer((number, work(item)))

    count = min(workers, len(waiting))
    return [made for _, made in sorted(produced([take] * count, 1), key=itemgetter(0))]
