"""Faults to plant into the program, one at a time: what the simulation is worth is how many
of them it finds.

``bugs.txt`` has those that were picked by hand: a piece of a module's text, which is there once,
and what takes its place. ``--mutants SEED`` draws others, of what ``tests.mutants`` can change
where money is paid, stored and synced. The seeds are run once without a fault, to learn which of
them reach its line: the same seed does the same up to there, so no other can find it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_LOADED_ONCE: Final = (
    "cryptography.hazmat.primitives.serialization", "duckdb", "fastapi", "jinja2", "jwt",
    "matplotlib.figure", "msgspec", "narwhals", "pandas", "pyarrow.dataset", "pyarrow.parquet",
    "requests", "tqdm", "uvicorn", "xlsxwriter",
)  # fmt: skip
"""What the program loads that is not its own."""
_ROOMS: Final = ("payments", "store", "sync")
FOUND: Final = "found"
OUTCOMES: Final = ("it changes nothing that is seen", FOUND, "seen, and passed")
"""Of a process with a fault, by its exit status."""
RUNS: dict[int, Run] = {}
"""The seeds without a fault."""


@dataclass(frozen=True)
class Bug:
    name: str
    file: str
    old: str
    new: str
    at: int | None = None
    """Where ``old`` begins (bytes); where it is there once, if not said."""
    lines: tuple[int, ...] = ()
    """Of which one must be reached for the fault to do anything; any seed may do, if not said."""

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def planted(self) -> str:
        """The module's text with it. Raises ``ValueError`` where its place is not there once."""
        text = (_ROOT / self.file).read_text()
        if self.at is not None:
            whole, end = text.encode(), self.at + len(self.old.encode())
            return (whole[: self.at] + self.new.encode() + whole[end:]).decode()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has its text {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def chosen() -> Sequence[Bug]:
    """Those of ``bugs.txt``; with ``--mutants SEED`` on the command line as many as ``--count``
    says of the mutants of payments, store and sync that nobody found to change nothing, ``--from``
    so many on: a draw may be judged in pieces."""
    if "--mutants" not in sys.argv[:-1]:
        return BUGS
    from tests.mutants import accepted, mutants

    same = accepted()
    found = [
        Bug(str(one), one.path, one.before, one.after, one.start,
            one.used_at if one.loaded else (one.line,))
        for room in _ROOMS
        for path in sorted((_ROOT / "fundlab" / room).rglob("*.py"))
        for one in mutants(path) if one.key not in same
    ]  # fmt: skip
    random.Random(_given("--mutants", 0)).shuffle(found)
    first = _given("--from", 0)
    return found[first : first + _given("--count", 50)]


def _given(name: str, usual: int) -> int:
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else usual


def plant(name: str) -> None:
    """Have the module of the bug ``name`` loaded with it, from now on in this process."""
    bug = next(one for one in chosen() if one.name == name)
    text = bug.planted()

    class Loader(importlib.machinery.SourceFileLoader):
        def get_data(self, path: str) -> bytes:
            return text.encode() if path == self.path else super().get_data(path)

        def path_stats(self, path: str) -> dict[str, float]:
            raise OSError(path)  # nothing of it is cached

    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname, path, target=None):  # type: ignore[no-untyped-def]
            if fullname != bug.module:
                return None
            loader = Loader(fullname, str(_ROOT / bug.file))
            return importlib.util.spec_from_file_location(fullname, _ROOT / bug.file, loader=loader)

    sys.meta_path.insert(0, Finder())


@dataclass(frozen=True)
class Run:
    """What a seed does without a fault: the digest of its trace, and the lines that it reaches, by
    their file."""

    digest: str
    lines: dict[str, list[int]]


def each_bug() -> Sequence[int]:
    """In a process for each fault, which returns with the seeds to run with it planted; the one
    that asked ends with how many were not found."""
    for name in _LOADED_ONCE:
        importlib.import_module(name)

    bugs, outcomes, missed, failed = chosen(), Counter[str](), [], set[int]()
    first = _given("--seed", 1)
    seeds: Sequence[int] = range(first, first + _given("--seeds", 1))
    if bugs is not BUGS:
        handle, name = tempfile.mkstemp()
        os.close(handle)
        child = os.fork()
        if child == 0:
            sys.argv[1:] = ["--lines", name]
            return seeds
        os.waitpid(child, 0)
        written = json.loads(Path(name).read_text() or "{}")
        RUNS.update({int(seed): Run(*run) for seed, run in written.items()})
        Path(name).unlink()
        if failed := {*seeds} - {*RUNS}:
            print(f"fail without a fault, and judge none: {sorted(failed)}", flush=True)
        seeds = [*RUNS]
    for bug in bugs:
        those = [
            seed for seed in seeds
            if not bug.lines or {*bug.lines} & {*RUNS[seed].lines.get(bug.file, ())}
        ]  # fmt: skip
        child = os.fork() if those else None
        if child == 0:
            sys.argv[1:] = [*filter("--bugs".__ne__, sys.argv[1:]), "--stop", "--bug", bug.name]
            return those
        outcome = "no seed reaches its line"
        if child is not None:
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            outcome = FOUND if ended < 0 else OUTCOMES[ended] if RUNS or ended else "not found"
            if ended < 0:
                print(f"found: it goes on and on, or breaks down ({ended}): {bug.name}", flush=True)
        outcomes[outcome] += 1
        if outcome != FOUND:
            missed.append(bug.name)
            print(f"{outcome} ({len(those)} seeds): {bug.name}", flush=True)
    print(f"{len(missed)} of {len(bugs)} not found in {len(seeds)} seeds: {dict(outcomes)}")
    sys.exit(len(missed) > (3 if bugs is BUGS else len(bugs) // 5) or bool(failed))


@contextmanager
def lines_reached() -> Iterator[dict[str, list[int]]]:
    """The lines of what is paid, stored and synced that are run meanwhile, by their file; complete
    at the end."""
    found: dict[str, list[int]] = {}
    coverage = importlib.import_module("coverage")
    which = [f"{_ROOT}/fundlab/{room}/*" for room in _ROOMS]
    measured = coverage.Coverage(None, include=which, config_file=False, messages=False)
    measured.start()
    yield found
    measured.stop()
    data = measured.get_data()
    for file in data.measured_files():
        found[str(Path(file).relative_to(_ROOT))] = sorted(data.lines(file) or ())


def _read(text: str) -> tuple[Bug, ...]:
    """``=== name``, ``--- file``, the old text, a line ``<><>``, the new text; an empty line."""
    found = []
    for entry in text.removeprefix("=== ").removesuffix("\n").split("\n\n=== "):
        name, _, rest = entry.partition("\n--- ")
        file, _, texts = rest.partition("\n")
        old, _, new = texts.partition("\n<><>\n")
        found.append(Bug(name, file, old, new))
    return tuple(found)


BUGS: Final = _read(Path(__file__).with_name("bugs.txt").read_text())
