"""How fast a client may send: its own rate limit, and the pauses the service asks for."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pace:
    """Hands out moments to send at, at least ``1 / rate_limit`` seconds apart. Thread-safe."""

    def __init__(self, rate_limit: float | None, clock: Callable[[], float]) -> None:
        self._gap = 1 / rate_limit if rate_limit else 0.0
        self._clock = clock
        self._lock = threading.Lock()
        self._next = float("-inf")

    def wait_s(self, longest: float = float("inf")) -> float:
        """Take the next moment; the seconds until then. Beyond ``longest`` it is not taken."""
        with self._lock:
            now = self._clock()
            moment = max(now, self._next)
            if moment - now <= longest:
                self._next = moment + self._gap
            return moment - now

    def hold(self, seconds: float) -> None:
        """Nobody sends for ``seconds``: the service asked for a pause."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)
