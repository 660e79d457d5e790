"""What the people do, and what goes wrong: drawn from the seed before a run begins, so that any of
it can be left out and the rest stays as it is."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fundlab.sandbox.bank_book import FAULTS as FAULTS_OF_A_BANK
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
    "stale",  # transfers as they were a little before, of a replica that is behind
)
"""What may go wrong with one message."""
BEFORE_IT: Final = (
    "no_tunnel",  # a proxy that gives none: nothing was sent
    "tunnel_ended",  # done, and the proxy's tunnel ends before the answer
    "timed_out",  # 408 of what stands before the service; then it arrives all the same
    "page_after",  # a page with a status of 4xx, after all was done
)
"""What a proxy or a gateway does to a message; drawn apart: older seeds stay."""
BEHIND: Final = "page_behind"
"""As ``page_after``, and for a while the lists that the client gets have nothing of it."""
IN_DOUBT: Final = ("lost", "late", "gateway", "unanswered", "broken_after")
ON_ITS_WAY: Final = "queued"
"""504, then it arrives all the same, after whoever sent it has come back."""
MAY_BE_DONE: Final = (*IN_DOUBT, "cut", *BEFORE_IT[1:], BEHIND, ON_ITS_WAY)
"""After which a request may have been carried out, and no answer of the service said so."""
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


FAULTS: Final = ("message", "storage", "kill", "cut_power", "full", "failing", "skew", "plant")
_IN_A_WRITE: Final = ("opens store/", "syncs store/", "renames store/")
_SHARE: Final = 0.5
"""Of the seeds that have any one of the ``meetings``."""


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
            tables = ["transfers", "events"] if chance.random() < 0.2 else None
            add(at, "clerk", "sync", full=chance.random() < 0.1, tables=tables)
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
        if chance.random() < 0.7:
            add(some_time(day), "payer", "slip")
        if chance.random() < 0.7:
            add(some_time(day), "auditor", "annotate", item=chance.randrange(1000),
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

    meetings(chance, syncs, add, sandbox=is_sandbox(seed))
    errands(random.Random(f"errands {seed}"), days, add)
    gateways(random.Random(f"gateways {seed}"), days, add)
    offices(random.Random(f"offices {seed}"), days, add)
    bank(random.Random(f"bank {seed}"), syncs, add)
    controls(random.Random(f"controls {seed}"), days, add)
    counters(random.Random(f"counters {seed}"), days, add)
    deaths(random.Random(f"deaths {seed}"), days, add)
    found.sort(key=lambda one: (one[0], one[1], one[2]))
    return [Happening(number, *one) for number, one in enumerate(found)]


def is_sandbox(seed: int) -> bool:
    """Whether the service of this run says that its money is play money."""
    return seed % 4 < 2


def meetings(
    chance: random.Random, syncs: Sequence[int], add: Callable[..., None], *, sandbox: bool
) -> None:
    """Situations in which two parts meet at a bad moment, which chance alone seldom makes: each in
    a share of the seeds, around one of the ``syncs``."""
    intents = itertools.count(9_000)

    def held() -> bool:
        return chance.random() < _SHARE

    def pay(at: int, **more: Any) -> None:
        add(at, "payer", "pay", intent=next(intents), named=chance.random() < 0.5, **more)

    def meets(at: int, who: str, method: str, *kinds: str, after: int = 0) -> None:
        add(at, who, "message", kinds=list(kinds), method=method, after=after)

    def some() -> int:
        return chance.choice(syncs)

    def later() -> int:
        return chance.choice(syncs[1:])

    first = syncs[0]

    # The first sync ends in the middle, and what it had moves before it goes on.
    if held():
        pay(first - chance.randrange(2, 30) * NS)
        kind = chance.choice(["lost", "refused", "broken", "cut"])
        meets(first, "clerk", "GET", *[kind] * 8, after=chance.randrange(1, 8))
    if held():  # of transfers alone: who reads no balances does not ask again what has moved
        add(BEGIN_NS + 20 * NS, "clerk", "sync", full=False, tables=["transfers"])
        meets(BEGIN_NS + 20 * NS, "clerk", "GET", *["broken"] * 6, after=chance.randrange(1, 4))
        add(BEGIN_NS + 300 * NS, "world", "deposit", cents=chance.randrange(1, 10**7), late=0,
            dated=chance.randrange(70 * DAY, 300 * DAY) // NS)  # fmt: skip
    # Somebody dies between two writes of a sync.
    if held():
        add(some(), "clerk", "kill", step=chance.choice(_IN_A_WRITE), after=chance.randrange(12))
    # A folder is made, its maker dies, the next one writes into it; then the power goes.
    if chance.random() < 0.7:
        add(first, "clerk", "kill", step="syncs ", after=0)
        add(first + 400 * NS, "world", "cut_power", step="", after=0)
    # The power goes in the middle of a sync or a payment.
    if held():
        at, step = some(), chance.choice(["syncs", "renames", "COMMIT", "gets 200 of POST", ""])
        add(at, "world", "cut_power", step=step, after=chance.randrange(12))
    # The disk is full in the middle of a write.
    if held():
        add(some(), "world", "full", minutes=5, step=chance.choice(_IN_A_WRITE[1:]),
            after=chance.randrange(8))  # fmt: skip
    if held():  # when something is said of a row, or a month is closed
        at = some() + HOUR + chance.randrange(HOUR)
        step = chance.choice(["syncs store/records/.", "syncs store/manifests/."])
        if "records" in step and chance.random() < 0.7:
            add(at, "auditor", "annotate", item=8, comment="on a full disk")
        else:
            add(at, "auditor", "close", period="2026-10")
        add(at - NS, "world", "full", minutes=5, step=step, after=0)
    # A payment may still arrive after the next attempt was refused; or it never does.
    if held():
        at = some() + chance.randrange(3 * HOUR)
        pay(at)
        meets(at, "payer", "POST /v2", chance.choice(["late", "late", "gateway"]), "forbidden")
    if held():
        at = some() + chance.randrange(3 * HOUR)
        pay(at)
        meets(at, "payer", "POST /v2", *[chance.choice(["lost", "lost", "unanswered"])] * 8)
    # One message goes wrong in a way that must not matter.
    if held():
        kind = chance.choice(["expired", "too_many", "too_many", "broken", "cut", "slow"])
        meets(some(), "clerk", "GET", kind, after=chance.randrange(12))
    if held():
        at = some() + chance.randrange(3 * HOUR)
        pay(at)
        meets(at, "payer", chance.choice(["GET", "POST /v2"]), chance.choice(["expired", "slow"]))
    # Money moves while a sync reads: a payment, and deposits, which come due after a minute.
    if held():
        at = later()
        pay(at + chance.randrange(-NS, 3 * NS))
        for number in range(12):
            add(at - 60 * NS + number * NS // 2, "world", "deposit",
                cents=chance.randrange(1, 10**7), late=0)  # fmt: skip
    # What appears late under its old time, with a newer one known; or is entered under a date.
    if held():
        at = later()
        add(at - chance.randrange(40, 100) * NS, "world", "deposit",
            cents=chance.randrange(1, 10**7), late=chance.randrange(200, 800))  # fmt: skip
        pay(at - chance.randrange(5, 20) * NS)
    if held():
        add(later() + chance.randrange(HOUR), "world", "deposit", cents=chance.randrange(1, 10**7),
            late=0, dated=chance.randrange(HOUR, 48 * HOUR) // NS)  # fmt: skip
    if held():
        add(syncs[1] + chance.randrange(HOUR), "world", "deposit",
            cents=chance.randrange(1, 10**7), late=chance.choice([4_000, 20_000]))  # fmt: skip
        add(syncs[3] + HOUR, "clerk", "sync", full=True)
    # A replica of the service is behind, just after the store has learned of a payment.
    if held() and held():
        at = some()
        pay(at - chance.randrange(100, 200) * NS)
        add(at + 60 * NS, "auditor", "sync", full=chance.random() < 0.3)
        meets(at + 60 * NS, "auditor", "GET /v2/transfer/transfers", *["stale"] * 3)
    # Somebody takes the lock of a slow sync for one that was left behind.
    if held():
        at = later()
        pay(at - chance.randrange(20) * NS)
        meets(at, "clerk", "GET", "slow", after=chance.randrange(3))
        add(at + chance.randrange(1, 8) * NS, "auditor", "sync", full=False, unlock=True)
    # The store is restored with the journal of a time before the last payments.
    if held():
        at = later() + HOUR // 2
        add(at, "auditor", "annotate", item=9, comment="before the backup")
        pay(at + NS)
        add(at + HOUR // 4, "clerk", "backup")
        pay(at + HOUR // 2)
        add(at + HOUR, "clerk", "restore", with_journal=chance.random() < 0.8)
        pay(at + HOUR + HOUR // 4)
    # A bank account is registered; money is wired in without a name.
    if held():
        add(some() + HOUR, "payer", "register", account=90, named=chance.random() < 0.5)
    if sandbox:
        at = some() + HOUR
        add(at, "auditor", "fund", cents=2 * 10**8 + chance.randrange(10**6))
        meets(at, "auditor", "POST /v2", chance.choice(["unanswered", "cut", "late"]))
    # A balance is wrong, a sync sees it, and the month is closed; twice.
    if held():
        if chance.random() < 0.5:
            add(BEGIN_NS + HOUR, "world", "plant", cents=chance.randrange(1, 10**4))
        at = syncs[1] + chance.randrange(HOUR)
        add(at, "clerk", "close", period="2026-10")
        add(at + HOUR // 2, "auditor", "close", period="2026-10")
    # Old rows are read from files that were merged.
    if held():
        at = later()
        for number in range(4):
            pay(at + number * HOUR // 8)
            add(at + number * HOUR // 8 + 300 * NS, "auditor", "sync", full=False)
        add(at + HOUR // 2 + 600 * NS, "auditor", "compact")
        pay(at + HOUR)
    # Somebody writes the report, while others go on; it is dear, so not in many seeds.
    if chance.random() < 0.15:
        at = later() + chance.randrange(-5 * NS, HOUR)
        add(at, "auditor", "report", period=chance.choice([None, "2026-10", "2026-11"]))


def errands(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """Batches under own limits, rules, ref_ids that stand for something else, and what a proxy or a
    gateway makes of a payment."""
    for day in range(days):
        begin = BEGIN_NS + day * DAY
        for number in range(chance.choice([0, 1, 1, 2])):
            at = begin + chance.randrange(20 * HOUR)
            first = 20_000 + 100 * day + 10 * number
            add(at, "payer", "batch", intents=list(range(first, first + chance.randint(2, 4))),
                limit=chance.choice([None, 650, 2_000]))  # fmt: skip
            if chance.random() < _SHARE:
                kinds = [chance.choice((*BEFORE_IT, "unanswered", "lost"))] * chance.choice([1, 8])
                add(at, "payer", "message", kinds=kinds, method="POST /v2",
                    after=chance.randrange(3))  # fmt: skip
            if chance.random() < 0.3:
                add(at, "payer", "kill", step=chance.choice(STEPS), after=chance.randrange(12))
        if chance.random() < _SHARE:  # a single payment, through the same
            at = begin + chance.randrange(20 * HOUR)
            add(at, "payer", "pay", intent=30_000 + day, named=chance.random() < 0.5)
            add(at, "payer", "message", method="POST /v2", after=0,
                kinds=[chance.choice(BEFORE_IT) for _ in range(chance.choice([1, 8]))])  # fmt: skip
        if chance.random() < _SHARE:
            at = begin + chance.randrange(20 * HOUR)
            add(at, "payer", "convert", rule=day, named=chance.random() < 0.5)
            if chance.random() < _SHARE:
                kinds = [chance.choice((*BEFORE_IT, "unanswered", "late"))] * chance.choice([1, 8])
                add(at, "payer", "message", kinds=kinds, method="POST /v2", after=0)
        if chance.random() < _SHARE:
            at = begin + chance.randrange(20 * HOUR)
            add(at, "world", "taken", name=day)
            add(at + chance.randrange(1, 600) * NS, "payer", "take", name=day)
            if chance.random() < 0.3:  # asked before, it was free
                add(at, "payer", "message", kinds=["stale"], method="GET /v2/transfer", after=0)


def gateways(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """What a gateway answers in the service's place until a person gives up; rules that nobody asks
    for again, and what arrives under them; limits of the day that just cover a batch, or do not; a
    ref_id that is taken, for other ways to pay."""
    for day in range(days):
        begin = BEGIN_NS + day * DAY
        if chance.random() < _SHARE:
            at = begin + chance.randrange(20 * HOUR)
            add(at, "payer", "pay", intent=5_000 + day, named=chance.random() < 0.5)
            add(at, "payer", "message", method="POST /v2/transfer", after=0,
                kinds=chance.choice([["timed_out"] * 6, [BEHIND]]))  # fmt: skip
        if chance.random() < _SHARE:
            at = begin + chance.randrange(20 * HOUR)
            add(at, "payer", "convert", rule=101 + day, named=chance.random() < 0.5, once=True)
            if chance.random() < _SHARE:
                kind = chance.choice(["no_tunnel", "tunnel_ended", "timed_out"])
                add(at, "payer", "message", kinds=[kind] * 6, method="POST /v2", after=0)
        if chance.random() < _SHARE:
            first = 6_000 + 10 * day
            add(begin + chance.randrange(20 * HOUR), "payer", "batch",
                intents=list(range(first, first + 3)), limit=chance.choice([-1, 0]))  # fmt: skip
        if chance.random() < _SHARE:  # the service refuses what it may have from before
            at = begin + chance.randrange(20 * HOUR)
            add(at, "payer", "pay", intent=5_100 + day, named=chance.random() < 0.5)
            add(at, "payer", "message", method="POST /v2/transfer", after=0,
                kinds=[ON_ITS_WAY] * 6 + ["denied"])  # fmt: skip
        for rule in (day, 101 + day):
            add(begin + chance.randrange(20, 24) * HOUR, "world", "arrive", rule=rule,
                cents=chance.randrange(1, 10**6))  # fmt: skip
        if chance.random() < _SHARE:
            at = begin + chance.randrange(20 * HOUR)
            add(at, "world", "taken", name=100 + day)
            add(at + chance.randrange(1, 600) * NS, "payer", "take", name=100 + day,
                way=chance.choice(["batch", "client"]))  # fmt: skip


def offices(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """What other offices do with the same store and service: quotes, other assets and internal
    transfers; rows that vanish or cannot be read; a month and its bank statement; rows published,
    and a store in a bucket."""

    def held() -> bool:
        return chance.random() < 0.3

    for day in range(days):
        begin = BEGIN_NS + day * DAY

        def some_time(begin: int = begin) -> int:
            return begin + 2 * HOUR + chance.randrange(20 * HOUR)

        if held():
            at = some_time()
            add(at, "auditor", "quote", cents=chance.randrange(1, 10**7))
            if held():
                add(at, "auditor", "message", method="POST /v2", after=0,
                    kinds=[chance.choice(["unanswered", "cut", "broken_after"])])  # fmt: skip
        if held():
            add(some_time(), "world", "stablecoin", cents=chance.randrange(1, 10**7),
                asset=chance.choice(["USDC", "USDG", "PYUSD"]))  # fmt: skip
        if held():
            add(some_time(), "world", "move", cents=chance.randrange(1, 10**4))
        if held():  # before a month is closed, or after it
            at = some_time()
            add(at, "world", "vanish", which=chance.randrange(1000))
            add(at + HOUR // 2, "clerk", "sync", full=True)
            if chance.random() < _SHARE:
                add(at + HOUR, "clerk", "accept_gone")
        if held():
            add(begin, "world", "garble", which=chance.randrange(1000))
            if chance.random() < _SHARE:
                add(some_time(), "auditor", "accept_set_aside")
            if chance.random() < _SHARE:
                at = some_time()
                add(at, "world", "garble", which=None)
                add(at + HOUR // 2, "clerk", "sync", full=True)
        if held():
            fault = "doubled" if chance.random() < _SHARE else None
            add(some_time(), "auditor", "reconcile", fault=fault)
        if held():
            at = some_time()
            add(at, "auditor", "publish")
            add(at + chance.randrange(4 * HOUR), "auditor", "publish")
            if chance.random() < _SHARE:
                add(at, "auditor", "kill", step=chance.choice(("opens", "syncs", "renames")),
                    after=chance.randrange(12))  # fmt: skip
        if held():
            at = some_time()
            add(at, "auditor", "elsewhere")
            add(at + chance.randrange(2 * NS), "clerk", "elsewhere")
            add(at + HOUR, "clerk", "elsewhere")
            if chance.random() < _SHARE:
                add(at, chance.choice(["auditor", "clerk"]), "kill",
                    step="puts", after=chance.randrange(12))  # fmt: skip
        if held():
            add(begin + 16 * HOUR + chance.randrange(4 * HOUR), "auditor", "reopen",
                period="2026-10")  # fmt: skip
            add(begin + 22 * HOUR, "auditor", "close", period="2026-10")


def controls(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """Payments that another person must approve, the approval maybe one that does not count; rows
    that somebody loads into a notebook, while others come."""
    for day in range(days):
        begin = BEGIN_NS + day * DAY
        ways = ["nobody", "maker", "another code", "another payment"]
        for number, first in enumerate(chance.sample(ways, 2)):
            at = begin + 8 * HOUR + chance.randrange(14 * HOUR)
            add(at, "payer", "approved", intent=7_000 + 10 * day + number,
                named=chance.random() < 0.5, first=first)  # fmt: skip
            if chance.random() < _SHARE:
                kinds = [chance.choice((*BEFORE_IT, "unanswered", "late"))] * chance.choice([1, 8])
                add(at, "payer", "message", kinds=kinds, method="POST /v2", after=0)
            if chance.random() < 0.3:
                add(at, "payer", "kill", step=chance.choice(STEPS), after=chance.randrange(12))
        for _ in range(chance.choice([0, 1, 2])):
            at = begin + chance.randrange(22 * HOUR)
            add(at, "auditor", "load", order=chance.choice(["ASC", "DESC"]),
                since=chance.choice([None, chance.randrange(60)]),
                workers=chance.choice([1, 2, 3, 4]), limit=chance.choice([3, 10, 100]))  # fmt: skip
            if chance.random() < _SHARE:
                for number in range(6):
                    add(at + number * NS // 3, "world", "move", cents=chance.randrange(1, 10**4))


def counters(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """Payments typed at a terminal, deposits that somebody asks for and waits for, a bucket that
    does not take a write or does not say that it did."""
    for day in range(days):
        begin = BEGIN_NS + day * DAY
        for number in range(2):
            at, named = begin + chance.randrange(21 * HOUR), chance.random() < 0.5
            given = {"intent": 8_000 + 10 * day + number, "named": named}
            add(at, "payer", "command", as_json=chance.random() < 0.5, **given)
            if chance.random() < _SHARE:
                kinds = [chance.choice((*BEFORE_IT, "unanswered", "late"))] * chance.choice([1, 8])
                add(at, "payer", "message", kinds=kinds, method="POST /v2", after=0)
            if chance.random() < 0.3:
                add(at, "payer", "kill", step=chance.choice(STEPS), during="command",
                    after=chance.randrange(12))  # fmt: skip
            add(at + HOUR, "payer", "ask")
            if chance.random() < _SHARE:
                at += HOUR + HOUR // 2
                add(at, "payer", "command", as_json=chance.random() < 0.5, **given)
        at = begin + chance.randrange(21 * HOUR)
        add(at, "payer", "receive", number=7_000 + day, named=chance.random() < 0.5,
            network=chance.choice([None, None, "ETHEREUM", "SOLANA"]))  # fmt: skip
        if chance.random() < 0.3:
            kinds = [chance.choice(IN_DOUBT)] * chance.choice([1, 8])
            add(at, "payer", "message", kinds=kinds, method="POST /v2", after=0)
        if chance.random() < _SHARE:
            at = begin + 2 * HOUR + chance.randrange(20 * HOUR)
            add(at, "auditor", "elsewhere")
            add(at, "auditor", "storage", kinds=[chance.choice(["refused", "unanswered"])],
                method="puts", after=chance.randrange(8))  # fmt: skip


def deaths(chance: random.Random, days: int, add: Callable[..., None]) -> None:
    """Somebody ends in the middle of what is seldom done, each in a share of the seeds."""
    for day in range(days):
        at = BEGIN_NS + (day * 24 + 8) * HOUR + chance.randrange(12 * HOUR)
        what = chance.choice(["annotate", "close", "publish", "reopen"])
        more: dict[str, Any] = {"period": "2026-10"} if what in ("close", "reopen") else {}
        if what == "annotate":
            more = {"item": chance.randrange(1000), "comment": f"in the middle of day {day}"}
        if what == "reopen":
            add(at - HOUR, "auditor", "close", period="2026-10")
        if what == "close":
            add(at - HOUR, "auditor", "reopen", period="2026-10")
        steps = chance.choice([8, 24, 300]) if what == "publish" else 20
        add(at, "auditor", "kill", step="", during=what, after=chance.randrange(steps))
        add(at + 60 * NS, "auditor", what, **more)


def bank(chance: random.Random, syncs: Sequence[int], add: Callable[..., None]) -> None:
    """The last month against a statement in which the bank erred, once in each way that it may,
    soon after the first sync: later the store seldom has all of the month."""
    if chance.random() < _SHARE:
        at = syncs[0] + chance.randrange(1, 90) * 60 * NS
        add(at, "auditor", "reconcile", fault=chance.choice(FAULTS_OF_A_BANK))
