"""What the people do, and what goes wrong: drawn from the seed before a run begins, so that any of
it can be left out and the rest stays as it is."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.environment import BEGIN_NS, NS

HOUR: Final = 3600 * NS
DAY: Final = 24 * HOUR
NETWORK: Final = (
    "refused",  # no connection: nothing was sent
    "lost",  # the request never arrives
    "unanswered",  # done, and the answer is lost
    "late",  # given up, then it arrives all the same
    "doubled",  # arrives twice; the second answer is the one that comes
    "cut",  # half of the answer
    "slow",  # within a second of the time-out
    "too_many",  # 429
    "broken",  # 500 before anything was done
    "gateway",  # 504, then it arrives all the same
    "forbidden",  # 403 of a firewall
    "broken_after",  # 502 after all was done
    "expired",  # the token has ended
    "stale",  # a list of transfers as it was when somebody asked for just that before
)
"""What may go wrong with one message."""
IN_DOUBT: Final = ("lost", "late", "gateway", "unanswered", "broken_after")
STEPS: Final = (
    "", "sends POST /v2", "gets 200 of POST", "COMMIT", "opens", "syncs", "renames", "removes",
)  # fmt: skip
"""How the step begins at which somebody ends; any step, those with a payment or a write."""
PEOPLE: Final = ("payer", "clerk", "auditor")


@dataclass(frozen=True)
class Happening:
    """``what`` happens at ``at`` (ns), done by or to ``who``."""

    number: int
    at: int
    who: str
    what: str
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def is_fault(self) -> bool:
        return self.what in FAULTS

    def __str__(self) -> str:
        days, rest = divmod(self.at - BEGIN_NS, DAY)
        clock = f"{rest // HOUR:02d}:{rest % HOUR // (60 * NS):02d}"
        return (
            f"{self.number:4d}  day {days} {clock}  {self.who}: {self.what} {json.dumps(self.more)}"
        )


FAULTS: Final = ("message", "kill", "cut_power", "full", "failing", "skew", "plant")


def drawn(seed: int, days: int) -> list[Happening]:
    """Everything of a run, in order of its time."""
    chance = random.Random(f"happenings {seed}")
    found: list[tuple[int, str, str, dict[str, Any]]] = []

    def add(at: int, who: str, what: str, **more: Any) -> None:
        found.append((at, who, what, more))

    def some_time(day: int) -> int:
        return BEGIN_NS + day * DAY + chance.randrange(DAY)

    syncs = [
        BEGIN_NS + day * DAY + quarter * 6 * HOUR + chance.randrange(60, 600) * NS
        for day in range(days) for quarter in range(4)
    ]  # fmt: skip

    def before_a_sync(day: int) -> int:
        return chance.choice(syncs[4 * day : 4 * day + 4]) - 30 * NS

    # How busy a day is differs from seed to seed, too.
    for hour in range(0, days * 24, chance.choice([1, 2, 4])):
        intent = hour + 1
        own = chance.random() < 0.5
        at = BEGIN_NS + hour * HOUR + chance.randrange(HOUR)
        if syncs[hour // 6] // HOUR == at // HOUR and chance.random() < 0.7:  # while one goes on
            at = syncs[hour // 6] + chance.randrange(-8 * NS, 4 * NS)
        add(at, "payer", "pay", intent=intent, named=own)
        if own and chance.random() < 0.1:  # a colleague pays the same invoice
            add(at + chance.randrange(-60, 60) * NS, "auditor", "pay", intent=intent, named=True)
    for day in range(days):
        for at in syncs[4 * day : 4 * day + 4]:
            add(at, "clerk", "sync", full=chance.random() < 0.1)
            if chance.random() < 0.3:  # and takes a lock for one that was left behind
                add(at + chance.randrange(5 * NS), "auditor", "sync", full=False,
                    unlock=chance.random() < 0.3)  # fmt: skip
        if chance.random() < 0.4:
            add(BEGIN_NS + day * DAY + 7 * HOUR, "clerk", "verify")
        for _ in range(chance.randrange(4)):
            add(some_time(day), "world", "deposit", cents=chance.randrange(1, 10**7),
                late=chance.choice([0, 0, 0, 400, 800, 3600, 100_000]))  # fmt: skip
        if chance.random() < 0.3:
            at = some_time(day)
            add(at, "auditor", "fund", cents=10**8 + day)
            if chance.random() < 0.5:
                add(at, "auditor", "message", kinds=[chance.choice(NETWORK)], method="POST /v2",
                    after=0)  # fmt: skip
        if chance.random() < 0.5:
            add(some_time(day), "payer", "slip")
        if chance.random() < 0.7:
            add(some_time(day), "auditor", "annotate", item=f"item-{chance.randrange(3)}",
                comment=f"said on day {day}")  # fmt: skip
        if chance.random() < 0.2:
            add(some_time(day), "world", chance.choice(["rotate", "rotate_key"]))
        if chance.random() < 0.5:
            add(some_time(day), "payer", "resume")
        if chance.random() < 0.3:
            own = chance.random() < 0.5
            add(some_time(day), "payer", "register", account=day + 1, named=own)
        if chance.random() < 0.6:
            add(some_time(day), "clerk", "backup")
        if chance.random() < 0.3:
            add(some_time(day), "clerk", "restore", with_journal=chance.random() < 0.5)
    closing = BEGIN_NS + 3 * HOUR + chance.randrange(12 * HOUR)
    if chance.random() < 0.7:
        add(closing, "clerk", "close", period="2026-10")
    if chance.random() < 0.4:
        again = closing + chance.choice([chance.randrange(5 * NS), chance.randrange(6 * HOUR)])
        add(again, "auditor", "close", period="2026-10")
    if chance.random() < 0.2:
        add(closing + chance.randrange(6 * HOUR), "auditor", "reopen", period="2026-10")

    # How much goes wrong differs from seed to seed: where all fails at once, nothing is tried.
    trouble = chance.choice([0.3, 1, 3])
    if chance.random() < 0.2:  # what a first sync has of it is for the next one
        add(BEGIN_NS, "clerk", "message", kinds=[chance.choice(NETWORK)] * 8, method="GET",
            after=chance.randrange(20))  # fmt: skip
    for day in range(days):
        for _ in range(round(chance.expovariate(1 / (6 * trouble)))):
            kinds = [chance.choice(NETWORK)] * chance.choice([1, 1, 8])
            if len(kinds) == 1:  # one after another goes wrong, each in its own way
                kinds += [chance.choice(NETWORK) for _ in range(chance.choice([0, 1, 2]))]
            if chance.random() < 0.15:  # refused, and there may be one before on its way
                kinds = [chance.choice(IN_DOUBT), "forbidden"]
            add(some_time(day), chance.choice(PEOPLE), "message", kinds=kinds,
                method=chance.choice(["", "GET", "POST /v2", "POST /v2"]),
                after=chance.randrange(4))  # fmt: skip
        for _ in range(round(chance.expovariate(1 / trouble))):
            at = chance.choice([some_time(day), before_a_sync(day)])
            add(at, chance.choice(PEOPLE), "kill", step=chance.choice(STEPS),
                after=chance.randrange(6))  # fmt: skip
        if chance.random() < 0.15 * trouble:
            add(some_time(day), "world", "cut_power", step=chance.choice(STEPS),
                after=chance.randrange(6))  # fmt: skip
        if chance.random() < 0.1 * trouble:
            at = chance.choice([some_time(day), before_a_sync(day)])
            add(at, "world", chance.choice(["full", "full", "failing"]),
                minutes=chance.choice([1, 60]))  # fmt: skip
        if chance.random() < 0.1 * trouble:
            add(some_time(day), chance.choice(PEOPLE), "skew",
                seconds=chance.choice([-1200, -90, -5, 5, 90, 1200, 0]))  # fmt: skip
    if chance.random() < 0.2:
        at = chance.choice([BEGIN_NS + 2 * HOUR, some_time(days - 1)])
        add(at, "world", "plant", cents=chance.randrange(1, 10**4))

    found.sort(key=lambda one: (one[0], one[1], one[2]))
    return [Happening(number, *one) for number, one in enumerate(found)]
