"""Every public name has an example, and every example in the package shows what happens.

The examples of a module are whole by themselves. Those of a function or class know their module
and the names that the package's docstring tells of: a sandbox, its client, a store, five transfers.
"""

from __future__ import annotations

import doctest
import importlib.util
import pkgutil
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox, serve

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
EXPLAINED = ("balances", "charts", "checks", "decimals", "events", "exports", "fees", "flows",
             "reconcile", "sandbox")  # fmt: skip
"""The public modules whose names count one by one."""
KEPT = ("assertions", "compact", "history", "pin", "pins", "read", "read_arrow", "scan", "sync",
        "verify")  # fmt: skip
"""What a user does with a store; the rest serves those who fill it."""
TRANSFERS = "fundlab.analysis"


def public_names() -> dict[str, Any]:
    """The functions and classes a user may call, by the path they are called by."""
    found = {f"fl.{name}": getattr(fl, name) for name in fl.__all__}
    for module in EXPLAINED:
        home = getattr(fl, module)
        for name in dir(home):
            found[f"fl.{module}.{name}"] = getattr(home, name)
    found |= {f"fl.Client.{name}": getattr(fl.Client, name) for name in OPERATIONS}
    found |= {f"fl.Store.{name}": getattr(fl.Store, name) for name in KEPT}
    return {path: value for path, value in found.items() if callable(value)}


def modules_with_examples() -> list[str]:
    every = ["fundlab", *(one.name for one in pkgutil.walk_packages(fl.__path__, "fundlab."))]
    specs = {name: importlib.util.find_spec(name) for name in every}
    return [
        name
        for name, spec in specs.items()
        if spec
        and (path := Path(str(spec.origin))).suffix == ".py"  # and not the compiled decoder
        and ">>> " in path.read_text(encoding="utf-8")
    ]


MODULES = modules_with_examples()
EXAMPLES = [
    test
    for name in MODULES
    for test in doctest.DocTestFinder().find(importlib.import_module(name), name)
    if test.examples
]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with serve(seed=7, transfers=50, clock="manual") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def synced(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of all that the sandbox has at its beginning, for each example to copy."""
    sandbox.control.reset()
    store = fl.Store(tmp_path_factory.mktemp("synced") / "store")
    with sandbox.connect(store=store.path) as client:
        store.sync(client, progress=False)
    return store.path


@pytest.fixture
def names(sandbox: Sandbox, tmp_path: Path) -> Iterator[Any]:
    """What the examples know: always the same, whichever ran before."""
    sandbox.control.reset()
    known: dict[str, Any] = {"fl": fl, "sandbox": sandbox, "folder": tmp_path}
    (made,) = [test for test in EXAMPLES if test.name == TRANSFERS]
    for step in made.examples:
        exec(compile(step.source, TRANSFERS, "single"), known)
    known["store"] = fl.Store(tmp_path / "store")
    with sandbox.connect(store=known["store"].path) as client:
        known["client"] = client
        yield known


def test_every_public_name_has_an_example() -> None:
    without = [
        path for path, value in public_names().items() if ">>> " not in (value.__doc__ or "")
    ]
    assert without == []


@pytest.mark.thorough
@pytest.mark.parametrize("test", EXAMPLES, ids=lambda test: test.name)
def test_the_example_shows_what_happens(
    test: doctest.DocTest, synced: Path, names: dict[str, Any]
) -> None:
    if any(re.search(r"\bstore\b", step.source) for step in test.examples):
        shutil.copytree(synced, names["store"].path)
    test.globs = {} if test.name in MODULES else {**test.globs, **names}
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)  # also under pytest -v
    runner.run(test, out=report.append, clear_globs=False)
    assert "".join(report) == ""
