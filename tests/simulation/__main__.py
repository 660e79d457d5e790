"""``python -m tests.simulation``: run seeds, replay one, shrink what fails, or plant faults."""

from __future__ import annotations

import sys

from tests.simulation import environment
from tests.simulation.bugs import RUNS, each_bug, lines_reached, plant

if __name__ == "__main__":
    environment.install()
    chosen_seeds = each_bug() if "--bugs" in sys.argv else None
    if "--bug" in sys.argv[:-1]:
        plant(sys.argv[sys.argv.index("--bug") + 1])
    environment.load()

import argparse
import json
import os
import resource
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.simulation.desk import Desk
from tests.simulation.happenings import Happening, drawn
from tests.simulation.shrink import shrunk
from tests.simulation.sometimes import REACHED, STATES, never

LONGEST_S = 100
"""Of the processor, for a seed."""


def main(chosen_seeds: Sequence[int] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after another")
    parser.add_argument("--days", type=int, default=1, help="days of each run")
    parser.add_argument("--seconds", type=float, help="no new seed after so many (real) seconds")
    parser.add_argument("--twice", action="store_true", help="each again: is its trace the same?")
    parser.add_argument("--without", default="", help="numbers of happenings left out: 3,17,18")
    parser.add_argument("--trace", action="store_true", help="print the trace")
    parser.add_argument("--bug", help="plant this fault of tests/simulation/bugs.txt first")
    parser.add_argument("--mutants", type=int, help="the seed of generated faults, for --bugs")
    parser.add_argument("--count", type=int, default=50, help="how many of those")
    parser.add_argument("--from", type=int, default=0, help="after so many of their draw")
    parser.add_argument("--bugs", action="store_true", help="each of them, and which are not found")
    parser.add_argument("--states", action="store_true", help="how often each rare state was")
    parser.add_argument("--stop", action="store_true", help="end with the first seed that fails")
    parser.add_argument("--shrink", action="store_true", help="find the fewest happenings")
    parser.add_argument("--lines", type=Path, help="a file for the lines each reaches that passes")
    parser.add_argument("--list", action="store_true", help="print what happens, and run nothing")
    given = parser.parse_args()
    without = {int(number) for number in given.without.split(",") if number}
    began, failed, ran = environment.real_clock_s(), 0, 0
    digests: dict[int, str] = {}
    seeds = chosen_seeds or range(given.seed, given.seed + given.seeds)
    reached: dict[int, tuple[str, dict[str, list[int]]]] = {}
    for seed in [*seeds, *(seeds if given.twice else ())]:
        chosen = [one for one in drawn(seed, given.days) if one.number not in without]
        if given.list:
            print(*chosen, sep="\n")
            continue
        if given.seconds is not None and environment.real_clock_s() - began > given.seconds:
            break
        ran += 1
        if given.bug is not None:  # with a fault a run may never end
            resource.setrlimit(resource.RLIMIT_CPU, (int(environment.real_cpu_s()) + LONGEST_S, -1))
        with nullcontext({}) if given.lines is None else lines_reached() as lines:
            desk, problem = run(seed, given.days, chosen, quiet=given.bug is not None)
        if given.trace:
            print(*desk.trace, sep="\n")
        if given.twice and digests.setdefault(seed, desk.digest) != desk.digest:
            failed += 1
            print(f"seed {seed} has made another trace before: {digests[seed]}")
        if problem is None:
            reached[seed] = desk.digest, lines
            continue
        failed += 1
        if given.bug is not None:
            what = f"{type(problem).__name__}: {problem}".partition("\n")[0]
            print(f"found by seed {seed}: {given.bug}: {what}", flush=True)
        if given.shrink:
            chosen = shrunk(chosen, lambda some: run(seed, given.days, some)[1] is not None)  # noqa: B023 - called at once
            desk, problem = run(seed, given.days, chosen)
            print(*chosen, *desk.trace, sep="\n")
        left_out = {one.number for one in drawn(seed, given.days)} - {one.number for one in chosen}
        print(
            f"replay: python -m tests.simulation --seed {seed} --days {given.days} --trace"
            + (f" --without {','.join(map(str, sorted(left_out)))}" if left_out else "")
        )
        if given.bug is None:
            traceback.print_exception(problem, file=sys.stdout)
        if given.stop:
            break
    if given.states:
        missed = never()
        print(*(f"{REACHED[state]:5d} {state}" for state in STATES), sep="\n")
        print(f"{len(missed)} of {len(STATES)} states not reached in {ran} runs: {missed}")
        failed += len(missed)
    if given.lines is not None:
        given.lines.write_text(json.dumps(reached))
    if given.bug is not None and not failed:
        print(f"not found in {ran} seeds: {given.bug}", flush=True)
        seen = any(RUNS[seed].digest != digest for seed, (digest, _) in reached.items() if RUNS)
        return 2 if seen else 0
    return 1 if failed else 0


def run(
    seed: int, days: int, chosen: list[Happening], *, quiet: bool = False
) -> tuple[Desk, Exception | None]:
    """The run of ``chosen``, and what was wrong with it; says in a line how it went."""
    began = environment.real_cpu_s()
    shared, here = Path("/dev/shm"), Path.cwd()
    place = tempfile.mkdtemp(prefix="desk-", dir=shared if shared.is_dir() else None)
    os.chdir(place)
    # journals and messages show where a store is: the same wherever that is in truth
    desk = Desk(seed, days, chosen, Path("/proc/self/cwd/desk"))
    problem = None
    try:
        desk.run()
    except Exception as error:  # noqa: BLE001 - printed by the caller, with how to replay it
        problem = error
    finally:
        os.chdir(here)
        shutil.rmtree(place)
    if not quiet:
        print(
            f"seed {seed}: {days} days, {len(chosen)} happenings, {desk.schedule.steps} steps, "
            f"{environment.real_cpu_s() - began:.1f} s: {desk.digest}"
            + (" FAILED" if problem is not None else ""),
            flush=True,
        )
    return desk, problem


if __name__ == "__main__":
    sys.exit(main(chosen_seeds))
