"""Faults to plant into the program, one at a time: what the simulation is worth is how many
of them it finds.

``bugs.txt`` has those that were picked by hand: a piece of a module's text, which is there once,
and what takes its place. ``--mutants SEED`` draws others, of what ``tests.mutants`` can change
where money is paid, stored and synced.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
from collections.abc import Sequence
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


@dataclass(frozen=True)
class Bug:
    name: str
    file: str
    old: str
    new: str
    at: int | None = None
    """Where ``old`` begins (bytes); where it is there once, if not said."""

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
    says of the mutants of payments, store and sync."""
    if "--mutants" not in sys.argv[:-1]:
        return BUGS
    from tests.mutants import mutants

    def given(name: str, usual: int) -> int:
        return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else usual

    found = [
        Bug(str(one), one.path, one.before, one.after, one.start)
        for room in ("payments", "store", "sync")
        for path in sorted((_ROOT / "fundlab" / room).rglob("*.py"))
        for one in mutants(path)
    ]  # fmt: skip
    random.Random(given("--mutants", 0)).shuffle(found)
    return found[: given("--count", 50)]


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


def each_bug(seeds: str) -> None:
    """In a process for each fault, which returns to run the ``seeds`` with it planted; the one that
    asked ends with how many were not found."""
    for name in _LOADED_ONCE:
        importlib.import_module(name)

    missed, bugs = [], chosen()
    for bug in bugs:
        child = os.fork()
        if child == 0:
            sys.argv[1:] = [*filter("--bugs".__ne__, sys.argv[1:]), "--stop", "--bug", bug.name]
            return
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            missed.append(bug.name)
    print(f"{len(missed)} of {len(bugs)} not found in {seeds} seeds: {missed}")
    sys.exit(len(missed) > (3 if bugs is BUGS else len(bugs) // 5))


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
