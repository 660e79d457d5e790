"""The package is as its docstring maps it: which rooms there are, and which imports which.

Where in a module an import stands makes no difference: within a function, for types alone or by
name (``import_module``) it counts as at the top.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from pathlib import Path

import pytest

import fundlab

PACKAGE = Path(__file__).parents[1] / "fundlab"
MOST_ENTRIES = 24
ROOM = re.compile(r"^    (\w+) +(\S.*?) *\[([^]]*)\]$", re.MULTILINE)
DESCRIPTION, MAP = (fundlab.__doc__ or "").split("The rooms, from the top down.")
LINES = {name: names.split() for name, _, names in ROOM.findall(MAP)}
REST = [name for name, _, _ in ROOM.findall(MAP.rpartition("\n\n")[2])]

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def allowed(room: str) -> set[str]:
    """The rooms that the map lets ``room`` import."""
    rooms = list(LINES)
    below = set(rooms[rooms.index(room) + 1 :])
    named = below if LINES[room] == ["all", "below"] else set(LINES[room])
    return named if room in REST else named | set(REST)


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that one of them imports; of a package its ``__init__``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                names = [f"{module}.{alias.name}" for alias in node.names]
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.Call(
                func=ast.Name("import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                names = [name]
            case _:
                continue
        for name in names:
            first, _, inner = name.partition(".")
            around = inner.rpartition(".")[0]
            candidates = (inner, f"{inner}.__init__", around, f"{around}.__init__")
            if first == "fundlab" and inner:
                yield next((module for module in candidates if module in MODULES), "__init__")


@cache
def others(module: str) -> set[str]:
    """The other modules that one of them imports."""
    return set(imports(MODULES[module])) - {module}


def test_the_docstring_maps_the_folders() -> None:
    kept = {
        path.name.removesuffix(".py")
        for path in PACKAGE.iterdir()
        if path.name[0] not in "_." and path.suffix != ".typed"
    }
    assert set(LINES) == kept


def test_what_the_docstring_names_is_there() -> None:
    named = re.findall(r"^    .+ (\w+/\w+)$", DESCRIPTION, re.MULTILINE)
    assert {name for name in named if name.replace("/", ".") not in MODULES} == set()
    assert len(named) == DESCRIPTION.partition("::")[2].count("\n    ")


def test_the_tasks_come_first_and_what_they_call_is_there() -> None:
    tasks = DESCRIPTION.partition("Importing registers")[0]
    called = re.findall(r"``(?:store = )?(fl|store)\.([a-z_.]+)", tasks, re.IGNORECASE)
    assert len(called) >= 10
    for start, path in called:
        attrgetter(path)({"fl": fundlab, "store": fundlab.Store}[start])


def test_the_top_is_seen_at_a_glance() -> None:
    entries = [path.name for path in PACKAGE.iterdir() if path.name not in ("__pycache__", "data")]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_a_module_imports_what_its_room_may() -> None:
    for module in (name for name in MODULES if "." in name or name in LINES):
        room = module.partition(".")[0]
        for imported in others(module) - {"__init__"}:
            other = imported.partition(".")[0]
            assert other == room or other in allowed(room), f"{module} imports {imported}"


def test_a_room_imports_only_what_stands_below_it() -> None:
    rooms = list(LINES)
    for room, line in LINES.items():
        assert set(line) <= {*rooms[rooms.index(room) + 1 :], "all", "below"}, room


def test_no_two_modules_import_each_other() -> None:
    try:
        TopologicalSorter({module: others(module) for module in MODULES}).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_tests_mirror_the_package() -> None:
    """A folder of tests is a room, or tries all of them together."""
    together = {"benchmarks", "campaigns", "simulation", "wire"}
    folders = {path.name for path in Path(__file__).parent.iterdir() if path.is_dir()}
    assert {name for name in folders if name != "__pycache__"} - together <= set(LINES)


def test_every_module_of_the_tests_has_a_name_of_its_own() -> None:
    """Their folders all stand on the path: of two of one name, the second cannot be collected."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py"))
    del names["conftest.py"]
    assert [name for name, count in names.items() if count > 1] == []
