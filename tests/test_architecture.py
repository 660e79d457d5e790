"""Imports point one way: a room may know only the rooms beside it, which all stand above it here.

Where in a module an import stands makes no difference: within a function or for types alone it
counts as at the top.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fundlab"

FACTS = {"arrow", "decimals", "errors", "exact", "values", "moments", "models", "tables"}
WORK = {"analysis", "bank", "charts", "exports", "facade", "load", "reporting", "sync"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "exact": set(),
    "arrow": {"exact"},
    "values": {"exact"},
    "progress": set(),
    "background": set(),
    "unfinished": set(),
    "arrival": set(),
    "compiled": set(),
    "console": {"errors"},
    "paths": {"errors"},
    "secret": {"errors"},
    "decimals": {"arrival", "arrow", "compiled", "exact", "errors"},
    "moments": {"errors", "values"},
    "config_file": {"errors", "secret", "unfinished"},
    "names": {"config_file", "errors", "secret"},
    "display": {"names", "exact", "decimals", "errors", "values"},
    "settings": {"config_file", "exact", "errors", "secret"},
    "models": {"display", "errors", "exact", "secret", "values"},
    "tables": {"arrow", "compiled", "exact", "decimals", "errors", "models", "moments", "values"},
    "transfers": FACTS,
    "statements": FACTS,
    "api": FACTS | {"background", "display", "secret", "settings"},
    "load": FACTS | {"api", "background", "progress"},
    "store": FACTS | {"display", "paths", "transfers", "unfinished"},
    "query": {"errors", "store", "tables"},
    "sync": FACTS | {"api", "background", "display", "load", "progress", "store"},
    "exports": FACTS | {"decimals", "paths", "store", "unfinished"},
    "analysis": FACTS
    | {
        "background",
        "decimals",
        "display",
        "exports",
        "names",
        "paths",
        "secret",
        "statements",
        "store",
        "transfers",
    },
    "bank": FACTS | {"analysis", "statements"},
    "charts": {"analysis", "decimals", "display", "errors", "names"},
    "reporting": FACTS
    | {"analysis", "charts", "decimals", "display", "exports", "names", "paths", "progress"}
    | {"secret", "statements", "store", "transfers", "unfinished"},
    "intents": FACTS,
    "journals": FACTS | {"intents", "settings", "store"},
    "journal_files": FACTS | {"api", "intents", "journals", "settings", "store"},
    "actions": FACTS
    | {"api", "display", "intents", "journal_files", "journals", "names", "progress", "secret"}
    | {"settings", "store"},
    "timestamps": {"errors"},
    "facade": {
        "analysis",
        "api",
        "display",
        "errors",
        "journal_files",
        "moments",
        "paths",
        "reporting",
        "settings",
        "store",
        "sync",
        "tables",
        "transfers",
        "values",
    },
    "status": FACTS | {"analysis", "api", "journal_files", "journals", "settings", "store"},
    "heartbeat": {"errors", "settings", "store"},
    "schedules": {"errors", "store"},
    "sandbox.recording": {"errors", "models", "secret", "settings"},
    "sandbox": {"exact", "errors", "models", "sandbox.recording", "settings", "values"},
    "sandbox.serve": {"api", "display", "errors", "sandbox", "sandbox.recording", "secret"}
    | {"settings", "values"},
    "sandbox.foreground": {"errors", "sandbox.serve"},
    "sandbox.__init__": {"sandbox.foreground", "sandbox.serve"},
    "sandbox.pytest_fundlab": {"sandbox.__init__", "sandbox.serve"},
    "demo": WORK
    | {"actions", "api", "errors", "journal_files", "models", "sandbox.__init__", "settings"},
    "site": {"api", "errors", "models"},
    "cli": WORK
    | {"actions", "api", "config_file", "console", "demo", "display", "errors", "heartbeat"}
    | {"models", "moments", "names"}
    | {"sandbox", "sandbox.__init__", "sandbox.recording", "schedules", "secret"}
    | {"settings", "site", "status", "store", "tables", "timestamps", "values"},
    "__main__": {"cli"},
    "__init__": WORK
    | {"actions", "api", "arrival", "decimals", "display", "errors", "journal_files", "models"}
    | {"query", "sandbox.__init__", "settings"},
}


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def room_of(module: str) -> str:
    """The longest listed name that the module's begins with."""
    holds = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(holds, key=len, default=module)


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that one of them imports; of a package its ``__init__``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            every = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            every = [alias.name for alias in node.names]
        else:
            continue
        for name in every:
            first, _, inner = name.partition(".")
            around = inner.rpartition(".")[0]
            found = (inner, f"{inner}.__init__", around, f"{around}.__init__")
            if first == "fundlab" and inner:
                yield next(module for module in found if module in MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    room = room_of(module)
    for imported in imports(MODULES[module]):
        known = room_of(imported)
        assert known == room or known in ROOMS[room], f"{module} imports {imported}"


def test_every_room_knows_only_those_above_it() -> None:
    above: set[str] = set()
    for room, known in ROOMS.items():
        assert known <= above, f"{room} stands above {', '.join(known - above)}"
        above.add(room)


def test_every_module_of_the_tests_has_a_name_of_its_own() -> None:
    """Their folders all stand on the path: of two of one name, the second cannot be collected."""
    names = Counter(path.name for path in Path(__file__).parent.rglob("*.py"))
    del names["conftest.py"]
    assert [name for name, count in names.items() if count > 1] == []
