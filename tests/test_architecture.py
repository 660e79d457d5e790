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

FACTS = {"base", "decimals", "models", "tables"}
WORK = {"analysis", "bank", "charts", "exports", "operate", "reports", "sync"}
ROOMS: dict[str, set[str]] = {
    "base": set(),
    "decimals": {"base"},
    "settings": {"base"},
    "display": {"base", "decimals", "settings"},
    "models": {"base", "display", "settings"},
    "tables": {"base", "decimals", "models"},
    "transfers": FACTS,
    "client": FACTS | {"display", "settings"},
    "store": FACTS | {"display", "transfers"},
    "sync": FACTS | {"client", "display", "store"},
    "exports": FACTS | {"store"},
    "analysis": FACTS | {"display", "exports", "settings", "store", "transfers"},
    "bank": FACTS | {"analysis", "settings"},
    "charts": {"analysis", "base", "display", "settings"},
    "payments": FACTS | {"client", "display", "settings", "store"},
    "reports": FACTS
    | {"payments"}
    | {"analysis", "bank", "charts", "display", "exports", "settings", "store", "transfers"},
    "operate": FACTS
    | {"analysis", "client", "display", "payments", "reports", "settings", "store", "sync"}
    | {"transfers"},
    "sandbox.recording": {"base", "models", "settings"},
    "sandbox": {"base", "models", "sandbox.recording", "settings"},
    "sandbox.serve": {"base", "client", "display", "sandbox", "sandbox.recording", "settings"},
    "sandbox.run": {"base", "sandbox.serve"},
    "sandbox.__init__": {"base", "sandbox.run", "sandbox.serve"},
    "sandbox.pytest_fundlab": {"sandbox.__init__", "sandbox.serve"},
    "docs": {"base", "client", "models"},
    "cli": WORK
    | {"base", "client", "display", "docs", "models", "payments", "sandbox", "sandbox.__init__"}
    | {"sandbox.recording", "sandbox.run", "settings", "store"},
    "__main__": {"cli"},
    "__init__": WORK
    | {"base", "client", "decimals", "display", "models", "payments", "sandbox.__init__"}
    | {"settings"},
}
WITH = {"evidence": "store"}
"""Rooms that still know the other and are known by it: they count as one with it."""


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def room_of(module: str) -> str:
    """The longest listed name that the module's begins with."""
    first, _, inner = module.partition(".")
    module = f"{WITH[first]}.{inner}" if first in WITH else module
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
