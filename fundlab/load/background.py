"""Things produced in background threads, a little ahead of where they are used."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

_POLL_S: Final = 0.1

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

    for number, producer in enumerate(producers, start=1):
        thread = threading.Thread(
            target=run, args=(producer,), name=f"fundlab-pages-{number}", daemon=True
        )
        thread.start()
    running = len(producers)
    try:
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
