"""Imports point one way: a room may know only the rooms listed beside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fundlab"

BASE = {"errors", "values", "moments", "models"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "values": set(),
    "arrival": set(),
    "progress": set(),
    "background": set(),
    "paths": {"errors"},
    "unfinished": set(),
    "moments": {"errors", "values"},
    "decimals": {"errors"},
    "models": {"errors", "secret", "values"},
    "secret": {"errors"},
    "setting_values": {"errors", "secret"},
    "settings": {"errors", "secret", "setting_values"},
    "tables": BASE | {"decimals"},
    "api": BASE | {"background", "secret", "setting_values", "settings"},
    "load": BASE | {"api", "background", "tables", "progress"},
    "transfers": BASE | {"tables"},
    "store": BASE | {"paths", "tables", "transfers", "unfinished"},
    "sync": BASE | {"api", "load", "store", "tables", "progress"},
    "analysis": BASE
    | {"background", "decimals", "exports", "paths", "store", "tables", "transfers"},
    "charts": {"analysis", "decimals", "errors"},
    "exports": {"decimals", "errors", "paths", "tables", "unfinished"},
    "reporting": BASE
    | {
        "analysis",
        "charts",
        "decimals",
        "display",
        "exports",
        "paths",
        "secret",
        "store",
        "tables",
        "transfers",
        "unfinished",
    },
    "actions": BASE
    | {"api", "decimals", "display", "progress", "secret", "setting_values", "settings", "store"},
    "sandbox": {"errors", "models", "values"},
    "sample_store": {"errors", "store"},
    "display": {"decimals", "errors", "values"},
    "console": {"errors"},
}
ANYTHING_GOES = {"__init__", "__main__", "cli", "demo"}
DOORS = {("store", "sync"), ("store", "actions"), ("sandbox", "api")}
"""``Store.sync``, ``Store.verify`` (the journal) and ``Sandbox.connect`` reach forward, inside the
method."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path


def imports(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """Rooms imported when the code runs, and whether at the top of the module."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        top = isinstance(tree, ast.Module)
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = node.module.split(".")
            if parts == ["fundlab"]:
                yield from ((alias.name, top) for alias in node.names)
            elif parts[0] == "fundlab":
                yield parts[1], top
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "fundlab" and len(parts) > 1:
                    yield parts[1], top
        else:
            yield from imports(node)


@pytest.mark.parametrize(
    ("room", "path"), [pytest.param(r, p, id=str(p.relative_to(PACKAGE))) for r, p in modules()]
)
def test_imports_point_one_way(room: str, path: Path) -> None:
    if room in ANYTHING_GOES:
        return
    for known, at_top in imports(ast.parse(path.read_text(encoding="utf-8"))):
        if (room, known) in DOORS:
            assert not at_top, f"{path.name} imports {known} at the top"
        else:
            assert known == room or known in ROOMS[room], f"{path.name} imports {known}"


def test_every_room_is_listed() -> None:
    assert {room for room, _ in modules()} <= set(ROOMS) | ANYTHING_GOES
