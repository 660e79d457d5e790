"""Thousands of seeded runs: payments by every way, over every path, while anything goes wrong.

Laws, by the ledger's own log: never two payments of one intent; never "nothing was sent" where it
has a byte of the request; never ``refused`` of what moved; and once all is calm, each intent is
there once, and its journal says so. ``CAMPAIGN_SEED=11 pytest -m campaign`` draws others;
``CAMPAIGN_FIRST=2790`` begins with that run of them, to play what broke a law again: threads meet
otherwise each time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Final

import pytest
from other_ledger import CUTS, Fault
from paying import PATHS, WAYS, Attempt, Machine, World, broken_law, within_an_older_error

import fundlab as fl

RUNS: Final = 5_000
PAGES: Final = (400, 401, 403, 404, 405, 408, 409, 410, 413, 418, 422, 425, 428, 429, 451, 500, 502,
                503, 504, 520)  # fmt: skip
PROBLEM: Final = json.dumps({"type": "about:blank", "title": "No", "status": 403}).encode()


def trouble(chance: Random) -> Fault:
    """What goes wrong with one request."""
    kind, how = chance.random(), chance.choice(CUTS)
    if kind < 0.25:
        return Fault(request_at=chance.random(), how=how)
    if kind < 0.55:
        effect = chance.random() < 0.7
        late = effect and chance.random() < 0.3
        share = chance.choice([0.0, chance.random(), 1.0])
        return Fault(answer_at=share, how=how, effect=effect, late=late)
    if kind < 0.9:
        effect = chance.random() < 0.7
        late = effect and chance.random() < 0.3
        return Fault(status=chance.choice(PAGES), effect=effect, late=late)
    if kind < 0.95:  # a problem body, of a service that has done nothing
        return Fault(status=403, effect=False, body=PROBLEM, kind="application/problem+json")
    return Fault(status=200, effect=chance.random() < 0.5)  # a page of a portal


def run(world: World, seed: int) -> tuple[str | None, str]:
    """One run; which law it broke, and what it was, in words."""
    chance = Random(f"payment {seed}")
    path = chance.choice(["proxy", "proxy", *PATHS])
    ledger = world.ledger(path)
    machines = [world.machine(ledger)]
    named = chance.random() < 0.6
    if named and chance.random() < 0.25:
        machines.append(world.machine(ledger))  # another machine: another journal
    ref_id = f"r-{seed}" if named else None
    raw = not named and chance.random() < 0.25
    ways = ["raw"] if raw else list(WAYS) if named else ["plan", "batch", "command"]
    story = [f"seed {seed}, {path}, {ref_id}"]
    attempts: list[Attempt] = []
    more = {"ref_id": ref_id} if ref_id else {}
    ledger.funds_first = chance.random() < 0.3
    if chance.random() < 0.3:
        ledger.funds = Decimal(130)
    ledger.existing = chance.choice(["all", "all", "id", "nothing"])
    if chance.random() < 0.2:
        names = ["fiat_account_id", "amount", "total", "ref_id", "direction", "type", "profile_id"]
        ledger.hides = frozenset(chance.sample(names, chance.randint(1, 2)))

    for number in range(chance.randint(1, 3)):
        if ledger.late and chance.random() < 0.3:
            ledger.deliver()
        ledger.faults = [
            trouble(chance) if chance.random() < 0.8 else None
            for _ in range(chance.choice([1, 2, 9]))
        ]
        begin = ledger.reads
        ledger.read_faults = {
            begin + chance.randrange(12): trouble(chance)
            for _ in range(chance.choice([0, 0, 0, 1, 3]))
        }
        if chance.random() < 0.3:
            ledger.tunnels = [chance.choice([200, 200, 502, 407]) for _ in range(4)]
        if chance.random() < 0.5:
            ledger.lag()
        else:
            ledger.lags = False
        way = chance.choice(ways)
        machine = chance.choice(machines)
        nested, together = chance.random() < 0.3, chance.random() < 0.25
        story.append(f"{number}: {way}{' nested' * nested}{' with another kernel' * together} "
                     f"{ledger.faults} lags={ledger.lags}")  # fmt: skip

        def pay(machine: Machine = machine, way: str = way) -> Attempt:
            return machine.pay(way, **more)

        if together and way != "command":  # whose environment is the whole process'
            others: list[Attempt] = []
            second = chance.choice([one for one in ways if one != "command"])
            kernel = threading.Thread(
                target=lambda machine=machine, second=second, others=others: others.append(
                    machine.pay(second, **more)
                )
            )
            kernel.start()
            mine = pay()
            kernel.join()
            # only what both say is held against the log
            both = [mine, *others]
            for one, other in zip(both, reversed(both), strict=True):
                one.beside = other
            if not all(one.says_unsent for one in both):
                for one in both:
                    one.text = ""
            if raw:  # two intents
                for one in both:
                    one.sent = []
            attempts += both
        else:
            attempts.append(within_an_older_error(pay) if nested else pay())
        story.append(
            f"   {[(one.transfer_id, one.state, one.text[-300:]) for one in attempts[-2:]]}"
        )
        if (problem := broken_law(machines, attempts, ref_id)) is not None:
            return problem, "\n".join(story)

    # All is calm again: what was begun is there once, and the journal says so.
    ledger.calm()
    if (problem := broken_law(machines, attempts, ref_id)) is not None:
        return f"once all has arrived: {problem}", "\n".join(story)
    if raw:
        return None, ""
    if not ledger.payments():
        ledger.funds = Decimal(1_000_000)
    for machine in machines:
        with machine.client() as client:
            frame = fl.resume(client, say=machine.said.append)
            unsettled = frame[frame["state"] == "unknown"]
            if len(unsettled):
                return f"resume leaves unknown: {unsettled.to_dict('records')}", "\n".join(story)
        last = machine.pay("plan", **more)
        attempts.append(last)
        made = ledger.payments()
        if len(made) != 1 or last.transfer_id != made[0]["id"]:
            said = f"{len(made)} payments, shown {last.transfer_id}: {last.text}"
            return f"once all is calm: {said}", "\n".join(story)
        if machine.states(str(made[0].get("ref_id"))) != ["done"]:
            return f"the journal says {machine.entries()}", "\n".join(story)
    problem = broken_law(machines, attempts, ref_id)
    return problem, "\n".join(story)


def campaign(world: World, seed: int, runs: int, most_s: float = float("inf")) -> str:
    """``runs`` runs from the seed on; fails with the first law that was broken."""
    began, count = time.monotonic(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(int(os.environ.get("CAMPAIGN_FIRST", "0")), runs):
            if time.monotonic() - began > most_s:
                break
            problem, story = run(world, seed * 1_000_000 + number)
            assert problem is None, f"run {number}: {problem}\n{story}"
            count += 1
            if (number + 1) % 100 == 0:
                sys.stderr.write(f"{number + 1} of {runs} runs, {time.monotonic() - began:.0f} s\n")
    return f"payments at another ledger: {count} runs, no law broken"


@pytest.mark.thorough
def test_some_runs(world: World, seed: int, figure: Callable[[str], None]) -> None:
    figure(campaign(world, seed, 200, most_s=20))


@pytest.mark.campaign
def test_payments_at_another_ledger(world: World, seed: int, figure: Callable[[str], None]) -> None:
    figure(campaign(world, seed, RUNS))
