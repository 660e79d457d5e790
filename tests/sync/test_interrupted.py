"""A store is whole and the next sync complete, wherever a run is killed or the disk fails."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interrupted import ROWS, Outcome, Run, Runner, first_state, second_state

from fundlab import Store
from fundlab.base.errors import StoreError
from fundlab.operate.store import restored

STATES = {"first": first_state, "second": second_state}
WORKS = ("first", "second", "merging", "compact")
FAULTS = ("ENOSPC", "EIO", "EDQUOT")


@pytest.fixture(scope="module")
def runner() -> Iterator[Runner]:
    started = Runner()
    yield started
    started.close()


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """Folders for stores, one after another."""
    return (tmp_path / f"store-{number}" for number in range(10_000))


def prepared(folder: Path, work: str) -> Store:
    """A store as it is before ``work``."""
    store = Store(folder)
    if work != "first":
        store.sync(first_state())
        store.pin("before")
    if work == "compact":
        store.sync(second_state())
    if work == "merging":
        store.compact()
    return store


def check_whole_and_completed(store: Store, work: str) -> None:
    """The state before or after, nothing between; and the next sync brings the rest."""
    before = {"first": 0, "second": ROWS + 10, "merging": ROWS + 10, "compact": ROWS + 40}[work]
    after = ROWS + 10 if work == "first" else ROWS + 40
    found = store.verify()
    assert found.ok, str(found)
    assert len(store.read("transfers")) in (before, after)
    assert len(store.read("events")) in ((0, ROWS) if work == "first" else (ROWS,))
    state = "first" if work == "first" else "second"
    store.sync(STATES[state]())
    if work != "first":
        frame = store.read("transfers", pin="before")
        assert Counter(frame["status"]) == {"COMPLETED": ROWS, "PENDING": 10}
    expected = {row["id"]: row["status"] for row in STATES[state]().transfers}
    frame = store.read("transfers")
    assert frame["id"].is_unique
    assert dict(zip(frame["id"], frame["status"], strict=True)) == expected
    assert len(store.read("events")) == ROWS
    found = store.verify()
    assert found.ok, str(found)
    left = [path.name for path in store.path.rglob("*") if path.is_file()]
    assert [name for name in left if name.endswith((".tmp", ".part", ".arrow"))] == []


def steps_of(runner: Runner, folder: Path, work: str) -> int:
    prepared(folder, work)
    (outcome,) = runner.run(Run(str(folder), work))
    assert outcome.ended == "done", outcome
    return outcome.steps


@pytest.mark.parametrize("count", [8, pytest.param(1_000, marks=pytest.mark.campaign)])
def test_killed_at_random_steps(
    runner: Runner, fresh: Iterator[Path], count: int, seed: int, figure: Any
) -> None:
    chance = random.Random(seed)
    steps = {work: steps_of(runner, next(fresh), work) for work in WORKS}
    ended: Counter[str] = Counter()
    for _ in range(count):
        work = chance.choice(WORKS)
        store = prepared(next(fresh), work)
        step = chance.randint(1, steps[work])
        (outcome,) = runner.run(Run(str(store.path), work, step, workers=chance.choice((1, 3))))
        assert outcome.ended in ("killed", "done"), outcome  # done: with workers steps vary
        ended[outcome.ended] += 1
        check_whole_and_completed(store, work)
    figure(
        f"a sync never loses: {count:,} runs to be killed at one of {sum(steps.values())} steps, "
        f"{ended['killed']:,} were: 0 rows lost, 0 doubled, 0 files unreadable"
    )
    assert ended["killed"] > count * 3 // 4


@pytest.mark.parametrize(
    "count",
    [pytest.param(4, marks=pytest.mark.thorough), pytest.param(200, marks=pytest.mark.campaign)],
)
def test_backups_beside_syncs_when_either_is_killed(
    runner: Runner, fresh: Iterator[Path], count: int, seed: int, figure: Any
) -> None:
    """What ended restores to one of the two states; what was killed leaves the backup before it."""
    chance, works = random.Random(seed), ("second", "merging", "compact")
    steps = {work: steps_of(runner, next(fresh), work) for work in works}
    steps["backup"] = steps_of(runner, next(fresh), "backup")
    ended: Counter[str] = Counter()

    def restores(copy: str) -> Store:
        store, _ = restored(copy, next(fresh))
        found = store.verify()
        assert found.ok, str(found)
        assert len(store.read("transfers", columns=["id"])) in (ROWS + 10, ROWS + 40)
        return store

    for trial in range(count):
        work = chance.choice(works)
        store = prepared(next(fresh), work)
        copy, had_one = f"{store.path}-copy", chance.random() < 0.5
        if had_one:
            store.backup(copy)
        struck = chance.choice(("sync", "backup", "both", "neither"))
        runs = [
            Run(str(store.path), what, chance.randint(1, steps[what]) * (struck in (who, "both")))
            for who, what in (("sync", work), ("backup", "backup"))
        ]
        outcomes = [outcome.ended for outcome in runner.run(*runs)]
        assert set(outcomes) <= {"done", "killed"}, outcomes
        ended.update(f"{who} {how}" for who, how in zip(("sync", "backup"), outcomes, strict=True))
        if had_one or outcomes[1] == "done":
            restores(copy)
        else:
            with pytest.raises(StoreError, match="there is no backup"):
                restored(copy, next(fresh))
        anchor = store.anchor().line
        store.backup(copy)
        assert restores(copy).verify(anchor).ok
        if trial % 10 == 9:
            print(f"{trial + 1} backups: {dict(ended)}", flush=True)
    figure(
        f"backups beside syncs: {count} pairs, {ended['backup killed']} backups and "
        f"{ended['sync killed']} syncs killed: every restore verifies, 0 rows lost"
    )
    assert ended["backup killed"] >= count // 10


@pytest.mark.parametrize("count", [5, pytest.param(500, marks=pytest.mark.campaign)])
def test_failures_of_the_disk(
    runner: Runner, fresh: Iterator[Path], count: int, seed: int, figure: Any
) -> None:
    chance = random.Random(seed)
    steps = {work: steps_of(runner, next(fresh), work) for work in WORKS}
    refused = 0
    for _ in range(count):
        work, fault = chance.choice(WORKS), chance.choice(FAULTS)
        store = prepared(next(fresh), work)
        step, lasting = chance.randint(1, steps[work]), chance.random() < 0.5
        (outcome,) = runner.run(Run(str(store.path), work, step, fault, lasting))
        assert outcome.ended in ("refused", "done"), outcome
        if outcome.ended == "refused":
            refused += 1
            assert "cannot be written" in outcome.message
            assert "\n" not in outcome.message
        check_whole_and_completed(store, work)
    figure(
        f"a sync never loses: {count} runs on a failing disk ({', '.join(FAULTS)}), {refused} "
        "refused by name: 0 rows lost, 0 doubled, 0 files unreadable"
    )
    assert refused > count // 4


def race(runner: Runner, folder: Path, count: int, killed_at: int) -> list[Outcome]:
    """``count`` syncs at once, one of them killed."""
    runs = [Run(str(folder), "first", killed_at if number == 0 else 0) for number in range(count)]
    return runner.run(*runs)


@pytest.mark.seconds
@pytest.mark.parametrize("count", [2, 6])
def test_several_at_once_and_one_killed(runner: Runner, fresh: Iterator[Path], count: int) -> None:
    for killed_at in (3, 40):
        folder = next(fresh)
        outcomes = race(runner, folder, count, killed_at)
        assert {outcome.ended for outcome in outcomes} <= {"killed", "done", "locked"}, outcomes
        check_whole_and_completed(Store(folder), "first")


@pytest.mark.campaign
def test_a_hundred_races(runner: Runner, fresh: Iterator[Path], figure: Any) -> None:
    for number in range(100):
        folder = next(fresh)
        race(runner, folder, (2, 6)[number % 2], 1 + number)
        check_whole_and_completed(Store(folder), "first")
    figure("a sync never loses: 100 races of two and six, one killed: 0 lost, 0 doubled")
