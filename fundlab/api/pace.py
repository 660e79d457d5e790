"""How fast a client may send: its own rate limit, and what the service's refusals teach it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from fundlab.api.retries import pause_before

_MEMORY_S: Final = 10.0
"""What was accepted before says nothing about how fast the service takes requests now."""
_LONGEST_GAP_S: Final = 2.0
"""A slower service names its pauses itself, or is asked ever more rarely."""
_SHORTEST_GAP_S: Final = 0.001
_FASTER: Final = 0.15
_SLOWER: Final = 1.3
_CLEAN_S: Final = 10.0
_CLEAN_COUNT: Final = 10
_FORGIVEN_AFTER: Final = 20
"""Accepted requests, and pauses' lengths of time, after which a refusal more slows nobody down."""
_EPISODE_S: Final = 60.0


class Pace:
    """Whose turn it is to send. Thread-safe.

    Calls line up, and turns come ``1 / rate_limit`` seconds apart. Where the service refuses
    requests as too many (429), all wait for as long as it asks, and turns come as far apart from
    then on as those it accepted. Further refusals slow down, clean stretches speed up, each by
    steps that grow as long as they go the same way. What was learned stays with the client.
    """

    def __init__(self, rate_limit: float | None, clock: Callable[[], float]) -> None:
        self._own_gap = self._gap = 1 / rate_limit if rate_limit else 0.0
        self._clock = clock
        self._next = float("-inf")
        self._accepted: deque[float] = deque()
        self._changed_at = float("-inf")
        self._faster = self._refusals = self._clean = 0
        self._learning = False
        self._good_gap = 0.0  # that a clean stretch was sent at; 0 where none is known
        self._troubles: dict[str, float] = {}
        self._begin()

    def line_up(self) -> object:
        """A place in the line, good until its turn was taken or it is left."""
        if self._process != os.getpid():
            self._begin()
        turn = object()
        with self._lock:
            self._line.append(turn)
        return turn

    def leave(self, turn: object) -> None:
        with self._lock:
            if turn in self._line:
                self._line.remove(turn)

    def wait_s(self, turn: object) -> float:
        """Seconds until ``turn`` comes, as far as is known now; 0 takes it."""
        with self._lock:
            now = self._clock()
            moment = self._next + (self._line.index(turn) * self._gap if self._gap else 0)
            if moment > now:
                return moment - now
            self._line.remove(turn)
            self._next = max(now, self._next) + self._gap
            return 0.0

    def hold(self, seconds: float) -> None:
        """Nobody sends for ``seconds``: the service asked for a pause."""
        with self._lock:
            self._next = max(self._next, self._clock() + seconds)

    def accepted(self, sent_at: float) -> None:
        """A request sent at ``sent_at`` was not too many."""
        with self._lock:
            now = self._clock()
            self._accepted.append(sent_at)
            if sent_at < self._changed_at:
                if self._learning and now < self._next:  # of the burst that was refused
                    self._gap = self._measured()
                return
            while self._accepted and self._accepted[0] < now - _MEMORY_S:
                self._accepted.popleft()
            self._clean, self._refusals = self._clean + 1, 0
            clean_s = now - self._changed_at
            if self._gap > self._own_gap and self._clean >= _CLEAN_COUNT and clean_s >= _CLEAN_S:
                self._good_gap = self._gap
                self._gap = max(self._gap / (1 + _FASTER * 2.0**self._faster), self._own_gap)
                if self._gap < _SHORTEST_GAP_S:
                    self._gap = self._own_gap
                self._faster += 1
                self._changed_at, self._clean = now, 0

    def refused(self, sent_at: float, asked: float | None, draw: float) -> float:
        """A request sent at ``sent_at`` was one too many: the seconds that nobody sends now.

        ``asked`` is what the service names, ``draw`` in [0, 1) the chance in what it does not.
        """
        with self._lock:
            now = self._clock()
            changed_at, news = self._changed_at, sent_at >= self._changed_at
            self._refusals += news
            pause = pause_before(max(self._refusals, 1), asked, draw)
            self._next = max(self._next, now + pause)
            if not news:
                return pause
            self._changed_at, self._learning = now, self._gap <= self._own_gap
            if self._learning:
                self._gap = self._measured()
            elif self._gap < self._good_gap:
                self._gap = self._good_gap
            elif self._clean < _FORGIVEN_AFTER or now - changed_at < _FORGIVEN_AFTER * pause:
                self._gap = min(self._gap * _SLOWER, max(_LONGEST_GAP_S, self._own_gap))
                self._good_gap = 0.0
            self._faster = self._clean = 0
            return pause

    def is_news(self, trouble: str) -> bool:
        """Whether ``trouble`` of this kind begins now: not met in the last minute."""
        with self._lock:
            now = self._clock()
            before = self._troubles.get(trouble, float("-inf"))
            self._troubles[trouble] = now
            return now - before > _EPISODE_S

    def _begin(self) -> None:
        """The line of this process: a forked one has not the threads that wait in its parent's."""
        self._process, self._lock = os.getpid(), threading.Lock()
        self._line: list[object] = []

    def _measured(self) -> float:
        """The seconds between two requests that the service accepted, its pause among them: of
        those sent shortly before it refused one, however late their answers come.
        """
        burst = [at for at in self._accepted if at >= self._changed_at - _MEMORY_S]
        measured = (self._next - min(burst, default=self._changed_at)) / max(len(burst), 1)
        return max(min(measured, _LONGEST_GAP_S), self._own_gap)
