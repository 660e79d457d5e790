"""Who runs next. Each actor has a thread, and one of them runs at a time: at a step it says when
it goes on, and whoever is first by then goes on instead.

A *step* is where the program meets the world: a message, a write, a wait. There an actor can be
ended, as by SIGKILL: from then on none of its steps does anything, whatever its ``finally`` blocks
try.
"""

from __future__ import annotations

import gc
import heapq
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.environment import NS, Virtual

_COLLECTED: Final = 2000
"""Of so many steps each is where unreachable objects are looked for."""


class Killed(BaseException):
    """The actor's program is dead."""


class Wrong(AssertionError):
    """What must never be, was."""


@dataclass(eq=False)
class Actor:
    """A person at a machine, or the world outside; ``work`` is their whole day."""

    name: str
    work: Callable[[], None]
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    dead: bool = False
    """Since a kill, until its program is started again."""
    doomed: bool = False
    """To be killed at the next step."""
    error: BaseException | None = None


class Schedule:
    """One run's actors. ``trace`` gets a line for each step that anybody could see."""

    def __init__(self, trace: Callable[[str], None]) -> None:
        self._trace = trace
        self._waiting: list[tuple[int, int, Actor]] = []
        self._count = 0
        self._here = threading.local()
        self._main = threading.Semaphore(0)
        self.actors: list[Actor] = []
        self.steps = 0
        self._aside = False
        self.before_step: Callable[[Actor, str], None] = lambda actor, what: None

    def add(self, actor: Actor, at_ns: int) -> None:
        self.actors.append(actor)
        self._wait(actor, at_ns)

    @property
    def current(self) -> Actor | None:
        """Who runs; nobody in the thread that looks at the run from outside."""
        found: Actor | None = getattr(self._here, "actor", None)
        return found

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is looked at from outside the run: no step, and no time."""
        self._aside = True
        try:
            yield
        finally:
            self._aside = False

    def run(self) -> None:
        """Until every actor's day is over. Raises the first error of an actor."""
        threads = []
        for actor in self.actors:
            thread = threading.Thread(target=self._live, args=(actor,), name=actor.name)
            thread.start()
            threads.append(thread)
        self._hand_over()
        self._main.acquire()
        for thread in threads:
            thread.join()
        for actor in self.actors:
            if actor.error is not None:
                raise actor.error

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` of virtual time go by for whoever runs."""
        actor = self.current
        if actor is None:
            Virtual.now_ns += round(seconds * NS)
            return
        if actor.dead or self.failed:
            raise Killed
        self._go_on_at(actor, Virtual.now_ns + max(0, round(seconds * NS)))

    @property
    def failed(self) -> bool:
        """Whether an actor has ended with an error: the others then end at their next step."""
        return any(actor.error is not None for actor in self.actors)

    def step(self, what: str, seconds: float = 0.0) -> None:
        """The actor that runs is about to do ``what``, which takes ``seconds``: others may come
        first. Raises ``Killed`` if it is dead by then."""
        actor = self.current
        if self._aside:
            return
        if actor is None:
            Virtual.now_ns += round(seconds * NS)
            return
        if actor.dead or self.failed:
            raise Killed
        self.steps += 1
        if self.steps % _COLLECTED == 0:
            gc.collect()
        self._go_on_at(actor, Virtual.now_ns + round(seconds * NS))
        self.before_step(actor, what)
        if actor.doomed:
            self.kill(actor, what)
            raise Killed
        self._trace(f"{actor.name} {what}")

    def kill(self, actor: Actor, what: str) -> None:
        actor.doomed, actor.dead = False, True
        self._trace(f"{actor.name} killed before {what}")

    # ------------------------------------------------------------------------------ turns

    def _live(self, actor: Actor) -> None:
        self._here.actor = actor
        actor.turn.acquire()
        try:
            actor.work()
        except BaseException as error:  # noqa: BLE001 - raised again where the run is asked for
            actor.error = error
        self._hand_over()

    def _wait(self, actor: Actor, at_ns: int) -> None:
        self._count += 1
        heapq.heappush(self._waiting, (at_ns, self._count, actor))

    def _go_on_at(self, actor: Actor, at_ns: int) -> None:
        if not self._waiting or at_ns < self._waiting[0][0]:
            Virtual.now_ns = max(Virtual.now_ns, at_ns)
            return  # it is the next one anyway
        self._wait(actor, at_ns)
        self._hand_over()
        actor.turn.acquire()

    def _hand_over(self) -> None:
        if not self._waiting:
            self._main.release()
            return
        at_ns, _, actor = heapq.heappop(self._waiting)
        Virtual.now_ns = max(Virtual.now_ns, at_ns)
        actor.turn.release()
