"""Would the tests notice? ``python -m tests.mutants --seed N`` plants faults, one at a time.

A mutant is one small change of the program: a bound, a sign, a constant, a condition, a call or a
check taken out, an exception swallowed. Which tests reach its line is measured once (coverage by
test, of the quick tests, folder by folder); only those run, the room's own first, in a fork of a
process that has collected all of them, where the function has its changed code. What is run as a
module is loaded has no test of its own: then those run that reach the module, in a fork of one that
has the large libraries loaded, and imports the program anew. A survivor is a hole, unless
``tests/mutants_accepted.txt`` says why it changes nothing: by the text of its line, so that the
reason expires when the line changes.

``--thorough`` lets what survives, or is reached by none, meet thorough tests that reach it, too,
as many as ``THOROUGH_S`` allows, which are measured like the others. ``--since REV`` takes only
lines that changed since then, and only the tests of their own rooms; ``--count`` how many, drawn by
the seed, after the first ``--from`` of its draw; ``--workers`` how many are judged at once.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import importlib
import inspect
import itertools
import json
import mmap
import multiprocessing
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, ClassVar, Final

import pytest

ROOT: Final = Path(__file__).parents[1]
ACCEPTED: Final = Path(__file__).with_name("mutants_accepted.txt")
ROOMS: Final = ("analysis", "bank", "client", "evidence", "payments", "store", "sync", "tables")
LONGEST_S: Final = 20
"""What the tests of a mutant that run first take together, by what they took when they were
measured: the quickest. What survives them meets the others, up to ``MOST_S`` in all."""
MOST_S: Final = 90
THOROUGH_S: Final = 200
"""What the thorough tests of a mutant take together, the quickest first: others are not run."""
THOROUGH: Final = ("-m", "thorough and not slow and not campaign")
STUCK_S: Final = 8
"""A test that takes so long in a fork of what was collected is run in a process of its own."""
_HEAVY: Final = (
    "pandas", "pyarrow.parquet", "duckdb", "pydantic", "requests", "narwhals", "hypothesis",
    "fastapi", "uvicorn", "typer", "msgspec", "cryptography.hazmat.primitives.serialization",
)  # fmt: skip
_SWAPS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
_NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """``path`` with ``before`` at ``start`` to ``end`` (bytes) become ``after``; ``loaded`` where
    it is run as the module is loaded, and not by whom it serves."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str
    text: str
    loaded: bool
    used_at: tuple[int, ...] = ()
    """Where the constant that it is part of is read, in its module."""
    nth: int = 1
    """Of those that make the same of a line of this text."""

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is accepted: its path, the text of its line, and what that becomes."""
        return self.path, self.text, self.after + f" #{self.nth}" * (self.nth > 1)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before!r} -> {self.after!r}"

    def applied(self, source: bytes | None = None) -> bytes:
        """Its module, as ``source`` or as it is now, with the change; other lines stay where they
        are."""
        source = (ROOT / self.path).read_bytes() if source is None else source
        after, lost = self.after, "\n" * (self.before.count("\n") - self.after.count("\n"))
        after = f"{after[:-1]}{lost})" if after.endswith(")") else after + lost
        return source[: self.start] + after.encode() + source[self.end :]


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
    called = {
        id(inner)
        for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)
        for part in (node.body if isinstance(node, ast.FunctionDef) else [node.body])
        for inner in ast.walk(part)
    }  # fmt: skip
    read = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) in called:
            read[node.id].append(node.lineno)
    used_at = {
        id(inner): tuple(read[target.id])
        for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
        for inner in ast.walk(node)
    }  # fmt: skip
    alike = Counter[tuple[str, str]]()
    placed = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    for node in sorted(placed, key=lambda one: (one.lineno, one.col_offset)):
        if id(node) in aside:
            continue
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        before = source[start:end].decode(errors="replace")
        if isinstance(node, ast.expr) and not _is(node, before):
            continue  # in an f-string, Python 3.11 does not know where
        for after in _changes(node):
            text = lines[node.lineno - 1].decode().strip()
            name, loaded = str(path.relative_to(ROOT)), id(node) not in called
            used, nth = used_at.get(id(node), ()), alike[text, after] + 1
            alike[text, after] = nth
            yield Mutant(name, node.lineno, start, end, before, after, text, loaded, used, nth)


def _is(node: ast.expr, source: str) -> bool:
    try:
        return ast.dump(ast.parse(f"({source}\n)", mode="eval").body) == ast.dump(node)
    except SyntaxError:
        return False


def _not_code(node: ast.AST) -> list[ast.AST]:
    """What of ``node`` no test could notice: annotations, and what only a type checker reads."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return [node]
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, ast.arg) and node.annotation is not None:
        return [node.annotation]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip":
        return list(node.keywords)  # that both are as long, where anything else were wrong before
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        return [node.returns, *node.decorator_list]
    if isinstance(node, ast.ClassDef):
        total = [one for one in node.keywords if one.arg == "total"]  # of a TypedDict
        return [*node.decorator_list, *total]  # that nothing may be assigned, which mypy holds
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


_took_s: defaultdict[str, float] = defaultdict(float)
_failed: set[str] = set()


def pytest_runtest_logstart(nodeid: str) -> None:
    """What is run from here on is of the test ``nodeid``: this module is a plugin of the
    measurement."""
    importlib.import_module("coverage").Coverage.current().switch_context(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _took_s[report.nodeid] += report.duration
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    Path(os.environ["MUTANTS_TIMES"]).write_text(json.dumps([_took_s, sorted(_failed)]))


@dataclass(frozen=True)
class Reached:
    """Of the tests of a folder: by path and line those that run it, and what each took (s)."""

    lines: dict[str, dict[str, list[str]]]
    took_s: dict[str, float]

    def by(self, mutant: Mutant) -> list[str]:
        """The tests of the folder that may notice ``mutant``."""
        lines = self.lines.get(mutant.path, {})
        if mutant.used_at:
            return sorted({test for line in mutant.used_at for test in lines.get(str(line), ())})
        if mutant.loaded:
            return sorted({test for tests in lines.values() for test in tests})
        return lines.get(str(mutant.line), [])


def folders() -> list[str]:
    """Those of the tests; what stands in none is in ``top``."""
    tests = ROOT / "tests"
    every = {path.relative_to(tests).parent.as_posix() for path in tests.rglob("test_*.py")}
    return sorted("top" if name == "." else name for name in every)


def reached(folder: str, only: Iterable[str] | None = None, chosen: Sequence[str] = ()) -> Reached:
    """What the quick tests of ``folder``, or those ``chosen``, reach, of the files ``only`` or of
    all; measured once for this state of the program and of these tests."""
    tests = ROOT / "tests" / folder
    files = sorted((ROOT / "tests").glob("test_*.py") if folder == "top" else tests.rglob("*.py"))
    state = hashlib.sha256(json.dumps([sorted(only) if only else None, *chosen]).encode())
    shared = {*(ROOT / "tests").glob("*.py")} - {*(ROOT / "tests").glob("test_*.py")}
    for path in sorted({*(ROOT / "fundlab").rglob("*.py"), *shared, *files} - {Path(__file__)}):
        state.update(path.read_bytes())
    kept = Path(tempfile.gettempdir()) / f"mutants-{folder}-{state.hexdigest()[:16]}.json"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as aside:
            config, times = Path(aside) / "rc", Path(aside) / "times"
            of = f"include = {','.join(only)}" if only else "source = fundlab"
            config.write_text(f"[run]\ndata_file = {aside}/data\n{of}\n")
            print(f"measuring which tests of {folder} reach what", flush=True)
            given = [*map(str, files)] if folder == "top" else [str(tests)]
            command = [sys.executable, "-m", "coverage", "run", f"--rcfile={config}", "-m",
                       "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants", "-n", "0",
                       *chosen, *given]  # fmt: skip
            passed = subprocess.run(
                command, cwd=ROOT, check=False, stdout=subprocess.PIPE,
                env=os.environ | {"MUTANTS_TIMES": str(times)},
            )  # fmt: skip
            if passed.returncode not in (*_PASSED, pytest.ExitCode.TESTS_FAILED):
                raise SystemExit(passed.stdout.decode()[-2000:])
            took_s, failed = json.loads(times.read_text())
            for test in failed:
                print(f"fails as it is, and judges nothing: {test}", flush=True)
            data = importlib.import_module("coverage").CoverageData(f"{aside}/data")
            data.read()
            lines = {
                str(Path(file).relative_to(ROOT)): {
                    str(line): sorted({*tests} - {"", *failed})
                    for line, tests in data.contexts_by_lineno(file).items()
                }
                for file in data.measured_files()
            }
            kept.write_text(json.dumps([lines, took_s]))
    return Reached(*json.loads(kept.read_text()))


def chosen_tests(
    mutant: Mutant, room: str, rooms: dict[str, Reached], most_s: float = MOST_S
) -> list[list[str]]:
    """The tests that run the line of ``mutant``, those of its own ``room`` first, the quickest
    first: those that take ``LONGEST_S`` together, and the others, until ``most_s``."""
    chosen: list[list[str]] = [[], []]
    total_s = 0.0
    for name in sorted(rooms, key=lambda one: one != room):
        took_s = rooms[name].took_s
        files: dict[str, list[str]] = defaultdict(list)  # what a module's tests share is made once
        for test in rooms[name].by(mutant):
            files[test.partition("::")[0]].append(test)
        mean_s = {
            file: sum(took_s.get(one, 1) for one in tests) / len(tests)
            for file, tests in files.items()
        }
        for file in sorted(files, key=mean_s.__getitem__):
            for test in sorted(files[file], key=lambda one: took_s.get(one, 1)):
                total_s += took_s.get(test, 1)
                if total_s < most_s or not any(chosen):
                    chosen[total_s >= LONGEST_S].append(test)
    return [tests for tests in chosen if tests]


# ------------------------------------------------------------------------------ running


_OPTIONS: Final = (
    "-x", "-q", "-p", "no:cacheprovider", "-n", "0", "-o", "faulthandler_timeout=30",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip
_PASSED: Final = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)  # of campaigns alone
_TIMES: Final = itertools.count(1_000_000_000)
"""Of the changed files, one each: by it and the size Python knows whether a compiled one is old."""


def survives(mutant: Mutant | None, tests: list[str], copy: Path, *among: str) -> bool:
    """Whether all of ``tests`` pass with ``mutant`` in the tree ``copy``; of none, as it is. With
    folders or files that they are ``among`` no others are collected."""
    judge = collected(copy, *among)
    with _planted(mutant, copy) as (target, whole, changed):
        until = time.monotonic() + 10 * LONGEST_S + len(tests)
        passed, others = True, tests
        if mutant is None or not mutant.loaded:
            passed, others = judge.passes(target, whole, changed, tests)
        if passed and others:
            anew = _in_a_fork(partial(_run_anew, copy, others), lambda: time.monotonic() > until)
            passed = anew is True  # and caught where it never ends
        return passed


def outlives(mutant: Mutant | None, tests: list[str], copy: Path) -> bool:
    """Whether all of these thorough tests pass; what makes them take twice as long as they may is
    noticed."""
    until = time.monotonic() + 2 * THOROUGH_S
    thorough = [*THOROUGH, "-o", "faulthandler_timeout=120", *tests]
    with _planted(mutant, copy):
        passed = _in_a_fork(partial(_run_anew, copy, thorough), lambda: time.monotonic() > until)
    return passed is True


@contextlib.contextmanager
def _planted(mutant: Mutant | None, copy: Path) -> Iterator[tuple[Path, bytes, bytes]]:
    """With ``mutant`` in the tree ``copy``: its file there, without and with it."""
    target = copy / (mutant.path if mutant else "pyproject.toml")
    whole = target.read_bytes()
    changed = mutant.applied(whole) if mutant else whole
    target.write_bytes(changed)
    os.utime(target, (when := next(_TIMES), when))
    try:
        yield target, whole, changed
    finally:
        target.write_bytes(whole)


def _enter(copy: Path) -> None:
    """This process tests ``copy`` from here on, and says nothing."""
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.path.insert(0, str(copy))
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def _run_anew(copy: Path, tests: list[str]) -> bool:
    _enter(copy)
    return pytest.main([*_OPTIONS, *tests]) in _PASSED


def _in_a_fork(passes: Callable[[], bool], too_long: Callable[[], bool]) -> bool | None:
    """What ``passes`` says in a fork of this process; None where it takes ``too_long``."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as aside:
        child = os.fork()
        try:
            if not child:
                with _never_returning():
                    os.setsid()
                    os.environ["TMPDIR"] = tempfile.tempdir = aside
                    if passes():
                        os._exit(0)
            while not too_long():
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    return os.waitstatus_to_exitcode(status) == 0
                time.sleep(0.01)
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)


@contextlib.contextmanager
def _never_returning() -> Iterator[None]:
    """A fork ends here, whatever is raised in it: its caller's work is not its own."""
    try:
        yield
    finally:
        os._exit(1)


class Collected:
    """A process that has collected the quick tests of ``copy``, all or those ``among``, and judges
    each mutant in a fork of itself.

    It runs no test of a function that ran while the tests were collected, whose result is there
    already, nor of one that it cannot find; and none that was stuck twice, as what uses Polars is,
    whose threads a fork does not have.
    """

    def __init__(self, copy: Path, among: Iterable[str] = ()) -> None:
        self._ours, self._its = multiprocessing.Pipe()
        self._ran: set[tuple[str, str, int]] = set()
        self._stuck = Counter[str]()
        self._at = mmap.mmap(-1, 8)
        if not os.fork():
            with _never_returning():
                self._ours.close()
                _enter(copy)
                sys.setprofile(self._note)
                pytest.main([*_OPTIONS, *among], plugins=[self])
        self._its.close()
        try:
            self._ours.recv()
        except EOFError:
            raise SystemExit("the tests of the program as it is cannot be collected") from None

    def passes(
        self, path: Path, whole: bytes, changed: bytes, tests: list[str]
    ) -> tuple[bool, list[str]]:
        """Whether ``tests`` pass with the module at ``path`` as ``changed`` instead of ``whole``,
        and those that it did not run."""
        self._ours.send((path, whole, changed, tests))
        passed, others = self._ours.recv()
        return passed, others

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._ran.add(_place(frame.f_code))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.setprofile(None)
        self._its.send("collected")
        live = defaultdict(list)
        for found in gc.get_objects():
            if type(found) is FunctionType:
                live[_place(found.__code__)].append(found)
        items = {item.nodeid: item for item in session.items}
        gc.freeze()  # what is here stays shared: no collection in a fork touches it
        with contextlib.suppress(EOFError):
            while True:
                path, whole, changed, tests = self._its.recv()
                swaps = self._swaps(live, path, whole, changed)
                known = {} if swaps is None else {one: items[one] for one in tests if one in items}
                self._its.send(self._judge(swaps or [], known, tests))
        return True

    def _judge(
        self, swaps: list[tuple[FunctionType, CodeType]], items: dict[str, pytest.Item],
        tests: list[str],
    ) -> tuple[bool, list[str]]:  # fmt: skip
        chosen = [one for one in tests if one in items and self._stuck[one] < 2]
        others = [one for one in tests if one not in chosen]
        while chosen:
            run = partial(self._run, swaps, [items[one] for one in chosen])
            passed = _in_a_fork(run, _Still(self._at))
            if passed is not None:
                return passed, others if passed else []
            stuck = int.from_bytes(self._at[:])
            self._stuck[chosen[stuck]] += 1
            others.append(chosen[stuck])
            chosen = chosen[stuck + 1 :]
        return True, others

    def _run(self, swaps: list[tuple[FunctionType, CodeType]], items: list[pytest.Item]) -> bool:
        for function, code in swaps:
            function.__code__ = code
        for place, item in enumerate(items):
            self._at[:] = place.to_bytes(8)
            following = items[place + 1] if place + 1 < len(items) else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                return False
        return True

    def _swaps(
        self, live: Mapping[Any, list[FunctionType]], path: Path, whole: bytes, changed: bytes
    ) -> list[tuple[FunctionType, CodeType]] | None:
        """Each function that is changed with its code then; none of a module that is not imported
        yet."""
        if not any(getattr(one, "__file__", "") == str(path) for one in [*sys.modules.values()]):
            return []
        before, after = (
            [*_functions(compile(source, str(path), "exec", dont_inherit=True))]
            for source in (whole, changed)
        )
        if [*map(_place, before)] != [*map(_place, after)]:
            return None
        ways = Counter(map(_place, before))
        swaps, outer, inner = [], None, None
        for old, new in zip(before, after, strict=True):
            if old == new:
                continue
            place = _place(old)
            outer, inner = outer or place, place
            for function in live.get(place, ()):
                if ways[place] > 1 or old.co_freevars != new.co_freevars:
                    return None
                swaps.append((function, new))
        return None if inner in self._ran or not live.get(outer) else swaps


@cache
def collected(copy: Path, *among: str) -> Collected:
    """The one of these tests of the tree ``copy``."""
    return Collected(copy, among)


def _place(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those in ``code``, each before what stands in it; a class is none."""
    for found in code.co_consts:
        if isinstance(found, CodeType):
            if found.co_flags & inspect.CO_OPTIMIZED:
                yield found
            yield from _functions(found)


class _Still:
    """Whether what ``at`` says stayed the same for ``STUCK_S``."""

    def __init__(self, at: mmap.mmap) -> None:
        at[:] = (0).to_bytes(8)
        self.at, self.seen, self.since = at, b"", 0.0

    def __call__(self) -> bool:
        if self.at[:] != self.seen:
            self.seen, self.since = self.at[:], time.monotonic()
        return time.monotonic() - self.since > STUCK_S


# ------------------------------------------------------------------------------ which mutants


def accepted() -> set[tuple[str, str, str]]:
    """The keys of survivors that somebody found to be the same; a line of the file each, its
    parts with a tab between them, the reason last."""
    lines = ACCEPTED.read_text(encoding="utf-8").splitlines() if ACCEPTED.exists() else []
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
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


@dataclass(frozen=True)
class Court:
    """What judges the mutants of a draw, in each of the processes that share it."""

    folder: str
    rooms: dict[str, Reached]
    among: tuple[str, ...]
    thorough: dict[str, Reached]
    until: float
    here: ClassVar[Court]

    def takes_over(self) -> None:
        """It is what judges in this process, from here on."""
        Court.here = self
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    @staticmethod
    def verdict(chosen: tuple[str, Mutant]) -> str | None:
        """What became of the mutant of a room; None where time was up before."""
        court, (room, mutant) = Court.here, chosen
        if time.monotonic() > court.until:
            return None
        if mutant.key in accepted():
            return "accepted"
        parts, outcome = chosen_tests(mutant, room, court.rooms), "caught"
        if not parts:
            outcome = "unreached"
        elif all(survives(mutant, tests, court.copy, *court.among) for tests in parts):
            outcome = "survived"
        if outcome != "caught":
            parts = chosen_tests(mutant, room, court.thorough, THOROUGH_S)
            if not all(outlives(mutant, tests, court.copy) for tests in parts):
                outcome = "thorough"
        return outcome

    @cached_property
    def copy(self) -> Path:
        """The tree in which this process plants its faults."""
        copy = Path(tempfile.mkdtemp(dir=self.folder)) / "copy"
        ignored = shutil.ignore_patterns(".venv", ".git", ".hypothesis", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, copy, ignore=ignored)
        few = [
            test for one in self.rooms.values()
            for test in sorted(one.took_s, key=one.took_s.__getitem__)[:3]
        ]  # fmt: skip
        if few and not survives(None, few, copy, *self.among):
            raise SystemExit("tests fail on a copy of the program as it is: no mutant is judged")
        return copy


def _end(*_: object) -> None:
    """With what works for this process."""
    for worker in multiprocessing.active_children():
        worker.terminate()
    sys.exit(143)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--from", type=int, default=0, help="after so many of the draw")
    parser.add_argument("--rooms", nargs="*", default=ROOMS)
    parser.add_argument("--since", help="only lines that changed since this revision")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="then no more are judged"
    )
    parser.add_argument("--thorough", action="store_true", help="for what survives")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)

    only = None if given.since is None else changed_lines(given.since)
    chosen: list[tuple[str, Mutant]] = []
    for room in given.rooms:
        for path in sorted((ROOT / "fundlab" / room).rglob("*.py")):
            chosen += [
                (room, mutant) for mutant in mutants(path)
                if only is None or mutant.line in only.get(mutant.path, ())
            ]  # fmt: skip
    random.Random(given.seed).shuffle(chosen)
    chosen = chosen[(first := vars(given)["from"]) : first + given.count]
    results = Counter[str]()
    print(f"seed {given.seed}", flush=True)
    asked = sorted({room for room, _ in chosen}) if only is not None or not chosen else folders()
    with ThreadPoolExecutor(given.workers) as measuring:

        def measured(*chosen: str) -> dict[str, Reached]:
            of = measuring.map(partial(reached, only=only, chosen=chosen), asked)
            return dict(zip(asked, of, strict=True))

        rooms, thorough = measured(), measured(*THOROUGH) if given.thorough else {}
    among = () if only is None else tuple(f"tests/{room}" for room in rooms)
    for name in _HEAVY:
        importlib.import_module(name)
    gc.freeze()
    began, killed = time.monotonic(), False
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        court = Court(folder, rooms, among, thorough, began + given.seconds)
        forking = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(given.workers, forking, Court.takes_over, (court,)) as workers:
            outcomes = zip(chosen, workers.map(Court.verdict, chosen), strict=True)
            try:
                for (_, mutant), outcome in outcomes:
                    if outcome is None:  # it was too late
                        continue
                    results[outcome] += 1
                    if outcome not in ("caught", "accepted"):
                        print(f"{outcome}: {mutant}", flush=True)
                    if not results.total() % 100:
                        print(f"{time.monotonic() - began:.0f} s: {dict(results)}", flush=True)
            except BrokenProcessPool:
                print("a process that judges was killed: no more are judged", flush=True)
                killed = True
    judged = results.total() - results["accepted"]
    share = 100 * results["caught"] / judged if judged else 100.0
    print(f"seed {given.seed}: {results['caught']:,} of {judged:,} mutants caught ({share:.1f}%), "
          f"{results['survived']} survived, {results['unreached']} on lines that no test "
          f"reaches, {results['thorough']} noticed by thorough tests alone, "
          f"{results['accepted']} accepted as the same")  # fmt: skip
    return int(killed or results["caught"] < judged)


if __name__ == "__main__":
    sys.exit(main())
