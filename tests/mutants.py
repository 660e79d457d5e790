"""Would the tests notice? ``python -m tests.mutants --seed N`` plants faults, one at a time.

A mutant is one small change of the program: a bound, a sign, a constant, a condition, a call or a
check taken out, an exception swallowed. Which tests reach its line is measured once (coverage by
test function, of the room's own tests); only those run, in a fork of a process that has the large
libraries loaded. A survivor is a hole, unless ``tests/mutants_accepted.txt`` says why it changes
nothing: by the text of its line, so that the reason expires when the line changes.

``--since REV`` takes only lines that changed since then; ``--count`` how many, drawn by the seed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ACCEPTED: Final = Path(__file__).with_name("mutants_accepted.txt")
ROOMS: Final = ("analysis", "bank", "client", "evidence", "payments", "store", "sync", "tables")
ALONE: Final = {"transfers.py": ["tests/test_transfers.py"]}
"""Modules beside the rooms, and their tests."""
LONGEST_S: Final = 180
_HEAVY: Final = (
    "pandas",
    "pyarrow.parquet",
    "duckdb",
    "pydantic",
    "requests",
    "hypothesis",
    "narwhals",
)
_SWAPS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """``path`` with ``before`` at ``start`` to ``end`` (bytes) become ``after``."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before!r} -> {self.after!r}"

    def applied(self) -> bytes:
        source = (ROOT / self.path).read_bytes()
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of the module at ``path``."""
    source = path.read_bytes()
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    tree = ast.parse(source)
    aside = {
        id(inner) for node in ast.walk(tree) for part in _not_code(node) for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if id(node) in aside or not hasattr(node, "lineno"):
            continue
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode()
        for after in _changes(node):
            text = lines[node.lineno - 1].decode().strip()
            yield Mutant(str(path.relative_to(ROOT)), node.lineno, start, end, before, after, text)


def _not_code(node: ast.AST) -> list[ast.AST]:
    """What of ``node`` no test could notice: annotations, and what only a type checker reads."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return [node]
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, ast.arg) and node.annotation is not None:
        return [node.annotation]
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        return [node.returns, *node.decorator_list]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return [node]
    return []


def _changes(node: ast.AST) -> Iterator[str]:
    """What ``node`` may become, as source."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        ops = [_SWAPS[type(node.ops[0])](), *node.ops[1:]]
        yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPS and not _is_text(node):
        yield f"({ast.unparse(ast.BinOp(node.left, _SWAPS[type(node.op)](), node.right))})"
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(ast.BoolOp(_SWAPS[type(node.op)](), node.values))})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield str(not node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield str(node.value + 1)
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield _NAMES[node.id]
    elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(
        node, ast.Raise | ast.Continue
    ):
        yield "pass"
    elif (
        isinstance(node, ast.Return)
        and node.value is not None
        and not isinstance(node.value, ast.Constant)
    ):
        yield "return None"


def _is_text(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr | ast.List | ast.Tuple)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in sides
    )


# ------------------------------------------------------------------------------ which tests


def reached(room: str, tests: list[str]) -> dict[str, dict[int, list[str]]]:
    """Path → line → the tests that run it, of ``tests``; measured once for this state of both."""
    state = hashlib.sha256()
    for path in sorted([*(ROOT / "fundlab").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        state.update(path.read_bytes())
    kept = Path(tempfile.gettempdir()) / f"mutants-{room}-{state.hexdigest()[:16]}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "rc"
            config.write_text(
                f"[run]\ndata_file = {folder}/data\nsource = fundlab\n"
                "dynamic_context = test_function\n"
            )
            print(f"measuring which tests of {room} reach what", flush=True)
            command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m",
                       "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *tests]  # fmt: skip
            passed = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
            if passed.returncode:
                raise SystemExit(f"{' '.join(tests)} do not pass as they are: no mutant is judged")
            data = importlib.import_module("coverage").CoverageData(f"{folder}/data")
            data.read()
            found: dict[str, dict[int, list[str]]] = {}
            for file in data.measured_files():
                lines = {
                    line: sorted({_node_id(name) for name in names if name})
                    for line, names in data.contexts_by_lineno(file).items()
                }
                found[str(Path(file).relative_to(ROOT))] = lines
            kept.write_text(json.dumps(found))
    whole: dict[str, dict[str, list[str]]] = json.loads(kept.read_text())
    return {
        path: {int(line): names for line, names in lines.items()} for path, lines in whole.items()
    }


def _node_id(context: str) -> str:
    """``tests.payments.test_once.test_x`` as pytest names it."""
    parts = context.split(".")
    at = next((n for n, part in enumerate(parts) if part.startswith("test_")), len(parts) - 2)
    path = next(ROOT.glob(f"tests/**/{parts[at]}.py"), ROOT / "tests" / f"{parts[at]}.py")
    return "::".join([str(path.relative_to(ROOT)), *parts[at + 1 :]])


# ------------------------------------------------------------------------------ running


def survives(mutant: Mutant, tests: list[str], copy: Path) -> bool:
    """Whether all of ``tests`` pass with ``mutant`` in the tree ``copy``."""
    target = copy / mutant.path
    whole = target.read_bytes()
    target.write_bytes(mutant.applied())
    try:
        child = os.fork()
        if not child:
            os.setsid()
            os.chdir(copy)
            os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
            sys.path.insert(0, str(copy))
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-o", "timeout=60"]
            os._exit(int(pytest.main([*options, *tests])))
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status) == 0
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        target.write_bytes(whole)


def accepted() -> set[tuple[str, str, str]]:
    """Path, text of the line and what it becomes, of survivors that somebody found to be the same;
    a line of the file each, with its reason last."""
    lines = ACCEPTED.read_text(encoding="utf-8").splitlines() if ACCEPTED.exists() else []
    rows = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return {(path, text, after) for path, text, after, _ in rows}


def changed_lines(since: str) -> dict[str, set[int]]:
    """The lines of the program that were changed since the revision ``since``."""
    command = ["git", "diff", "-U0", since, "--", "fundlab"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, set[int]] = defaultdict(set)
    path = ""
    for line in shown.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif part := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first = int(part[1])
            found[path] |= {*range(first, first + int(part[2] or 1))}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--rooms", nargs="*", default=[*ROOMS, *ALONE])
    parser.add_argument("--since", help="only lines that changed since this revision")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then it ends")
    given = parser.parse_args()

    only = None if given.since is None else changed_lines(given.since)
    chosen: list[tuple[str, Mutant]] = []
    for room in given.rooms:
        place = ROOT / "fundlab" / room
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            chosen += [
                (room, mutant) for mutant in mutants(path)
                if only is None or mutant.line in only.get(mutant.path, ())
            ]  # fmt: skip
    random.Random(given.seed).shuffle(chosen)
    chosen = chosen[: given.count]
    excused, results, survivors = accepted(), Counter[str](), list[str]()
    began = time.monotonic()
    maps = {
        room: reached(room, ALONE.get(room, [f"tests/{room}"])) for room in {r for r, _ in chosen}
    }
    for name in _HEAVY:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
        )
        for room, mutant in chosen:
            if time.monotonic() - began > given.seconds:
                break
            if (mutant.path, mutant.text, mutant.after) in excused:
                results["accepted"] += 1
                continue
            tests = maps[room].get(mutant.path, {}).get(mutant.line, [])
            outcome = "unreached" if not tests else "caught"
            if tests and survives(mutant, tests, copy):
                outcome = "survived"
            results[outcome] += 1
            if outcome != "caught":
                survivors.append(f"{outcome}: {mutant}")
                print(survivors[-1], flush=True)
    judged = results["caught"] + results["survived"] + results["unreached"]
    share = 100 * results["caught"] / judged if judged else 100.0
    print(f"seed {given.seed}: {results['caught']:,} of {judged:,} mutants caught ({share:.1f}%), "
          f"{results['survived']} survived, {results['unreached']} on lines that no test of their "
          f"room reaches, {results['accepted']} accepted as the same")  # fmt: skip
    return int(results["caught"] < judged)


if __name__ == "__main__":
    sys.exit(main())
