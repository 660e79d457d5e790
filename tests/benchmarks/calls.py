"""How much of the package one call leads a reader through: functions entered, and their files.

Run ``python tests/benchmarks/calls.py [--names JOB]``. A sandbox serves from threads that began
before and are not counted; client, store and journal are made before, too, and each job is the
first of its kind in this process. Counted are the distinct named functions of ``fundlab`` entered,
in any other thread, the databases that were opened, and the requests that the sandbox had, those
for a token aside. Below stand the private functions that the package names in one place only, as a
share of all, and how much there is to see: entries at the top, lines of each room, modules that
import each other, files that only hand names on, lines in all. Exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import runpy
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import fundlab as fl

PACKAGE = Path(fl.__file__).parent
TESTS = Path(__file__).parents[1]
BARS = {
    "plan and submit": {"functions": 90, "files": 15, "requests": 6, "openings of a journal": 2},
    "reconcile.compare": {"functions": 45, "files": 10},
    "idle sync": {"functions": 120, "files": 15},
    "get_transfer": {"functions": 22, "files": 6, "requests": 1},
}
NAMED_ONCE_PERCENT = 6.0
MOST_ENTRIES = 24
MOST_LINES = {"fundlab": 49_000, "tests": 52_000}
MOST_OF_A_ROOM, MOST_OF_THE_SANDBOX = 5_000, 7_500
MOST_OF_REEXPORTS = 80


def entered(job: Callable[[], object]) -> list[CodeType]:
    """The package's named functions that ``job`` enters."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(
        (
            code
            for code in codes
            if code.co_filename.startswith(f"{PACKAGE}{os.sep}")
            and code.co_name[0] != "<"
            and code.co_flags & inspect.CO_NEWLOCALS  # and no body of a class
        ),
        key=lambda code: (code.co_filename, code.co_firstlineno),
    )


def asked(service: fl.sandbox.Sandbox) -> int:
    """How many requests it has had, those for a token aside."""
    return int((~service.requests()["path"].str.endswith("/oauth2/token")).sum())


def named_once() -> tuple[list[str], int]:
    """Private functions whose name the package uses once, and how many functions there are."""
    functions: list[str] = []
    uses: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(node.name)
            elif isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
    private = [n for n in functions if n.startswith("_") and not n.startswith("__")]
    return [name for name in private if uses[name] <= 1], len(functions)


def lines_of(folder: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob("*.py"))


def layout() -> Iterator[tuple[str, int, int]]:
    """What there is to see of the package: a name, its count and the most it may be."""
    entries = [path for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "data")]
    yield "entries at the top", len(entries), MOST_ENTRIES
    rooms = {path.name: lines_of(path) for path in entries if path.is_dir()}
    for room, lines in sorted(rooms.items(), key=lambda one: -one[1]):
        yield (
            f"lines of {room}",
            lines,
            MOST_OF_THE_SANDBOX if room == "sandbox" else MOST_OF_A_ROOM,
        )
    yield "modules in a circle", in_circles(), 0
    longest = max(
        (len(text.splitlines()) for path in PACKAGE.rglob("*.py")
         if only_reexports(text := path.read_text(encoding="utf-8"))),
        default=0,
    )  # fmt: skip
    yield "lines of the longest file of re-exports", longest, MOST_OF_REEXPORTS
    for folder in (PACKAGE, TESTS):
        yield f"lines of {folder.name}/ in all", lines_of(folder), MOST_LINES[folder.name]


def in_circles() -> int:
    """How many modules stand in the first circle of imports that is met."""
    found = runpy.run_path(str(TESTS / "test_architecture.py"))
    try:
        TopologicalSorter({name: found["others"](name) for name in found["MODULES"]}).prepare()
    except CycleError as error:
        return len(error.args[1]) - 1
    return 0


def only_reexports(text: str) -> bool:
    """Whether a module holds nothing but imports, a docstring and ``__all__``."""
    body = ast.parse(text).body
    return any(isinstance(node, ast.ImportFrom) for node in body) and all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in body
    )


def main(shown: str | None) -> bool:
    """Print each count beside its bar; whether all are met."""
    met = True
    for name, count, most in layout():
        met &= count <= most
        print(f"{name:42} {count:7,} (bar {most:,}){'' if count <= most else '  MISSED'}")
    with (
        tempfile.TemporaryDirectory() as folder,
        fl.sandbox.serve(seed=7, transfers=2_000, signing=True) as service,
        service.connect() as client,
    ):
        store = fl.Store(Path(folder) / "store")
        store.sync(client)
        fl.resume(client, store=store)
        transfers, balances = fl.load_transfers(client), fl.load_balances(client)
        account = next(a for a in client.list_fiat_accounts() if a.status == "APPROVED")
        profile_id = service.profile_ids[0]

        def pay() -> object:
            plan = fl.plan_withdrawal(
                client,
                profile_id=profile_id,
                fiat_account_id=account.id,
                amount="100.00",
                store=store,
            )
            return plan.submit(confirm=plan.code)

        jobs: dict[str, Callable[[], object]] = {
            "get_transfer": lambda: client.get_transfer(transfers["id"].iloc[0]),
            "idle sync": lambda: store.sync(client),
            "reconcile.compare": lambda: fl.reconcile.compare(transfers, balances),
            "plan and submit": pay,
        }
        opened: list[str] = []

        def note_opening(event: str, given: tuple[Any, ...]) -> None:
            if event == "sqlite3.connect":
                opened.append(str(given[0]))

        sys.addaudithook(note_opening)
        for name, job in jobs.items():
            before = asked(service)
            opened.clear()
            codes = entered(job)
            counts = {
                "functions": len(codes),
                "files": len({code.co_filename for code in codes}),
                "openings of a journal": len(opened),
                "requests": asked(service) - before,
            }
            for what, bar in BARS[name].items():
                ok = counts[what] <= bar
                met &= ok
                print(f"{f'{name}: {what}':42} {counts[what]:7,} (bar {bar:,})"
                      f"{'' if ok else '  MISSED'}")  # fmt: skip
            if name == shown:
                for code in codes:
                    print(f"    {Path(code.co_filename).relative_to(PACKAGE)}: {code.co_qualname}")
    once, functions = named_once()
    share = 100 * len(once) / functions
    ok = share < NAMED_ONCE_PERCENT
    print(
        f"private and named once: {len(once)} of {functions:,} functions, {share:.1f}% "
        f"(bar {NAMED_ONCE_PERCENT:g}%){'' if ok else '  MISSED'}"
    )
    return met and ok


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", metavar="JOB", choices=BARS, help="list what JOB enters")
    sys.exit(0 if main(parser.parse_args().names) else 1)
