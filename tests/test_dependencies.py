"""What is declared in ``pyproject.toml`` is all that is needed, from its lowest versions on.

Where ``TEST_VERSIONS`` is ``lowest``, exactly the lowest versions must be installed.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from extra_packages import needs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    name: [one for one in map(Requirement, lines) if one.name != "fundlab"]
    for name, lines in PROJECT["optional-dependencies"].items()
}
NEEDED = [Requirement(line) for line in PROJECT["dependencies"]]
OPTIONAL = [
    one
    for name in EXTRAS.keys() - {"all", "bench", "notebook", "test", "test-all", "tools"}
    for one in EXTRAS[name]
]
DECLARED = NEEDED + [one for found in EXTRAS.values() for one in found]
OF_ALL_TESTS = [one for name in ("docs", "notebook", "test-all") for one in EXTRAS[name]]
OF_TESTS = NEEDED + [
    one
    for name in ("bank", "delta", "keyring", "pdf", "remote", "sandbox", "test")
    for one in EXTRAS[name]
]
PART_OF = {
    "pydantic-core": "pydantic",  # pydantic asks for one exact version of it
    "pyspark-client": "pyspark",  # the same modules without the Java archives
}


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(one.name) for one in requirements}


def lowest(requirement: Requirement) -> Version:
    (bound,) = [one.version for one in requirement.specifier if one.operator == ">="]
    return Version(bound)


def imports(tree: ast.AST) -> Iterator[str]:
    """Names of the modules that are imported or asked for, but for those that only types need."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            yield node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "needs":
            if isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)
        else:
            yield from imports(node)


def imported(paths: list[Path]) -> set[str]:
    return {
        name.partition(".")[0]
        for path in paths
        for name in imports(ast.parse(path.read_text(encoding="utf-8")))
    } - {"fundlab", *sys.stdlib_module_names}


def distributions(modules: set[str]) -> set[str]:
    homes = packages_distributions()
    found = {canonicalize_name(home) for name in modules for home in homes.get(name, [name])}
    return {PART_OF.get(name, name) for name in found}


@pytest.mark.thorough
def test_every_import_is_declared() -> None:
    files = {path for path in (ROOT / "fundlab").rglob("*.py") if path.name != "pytest_fundlab.py"}
    assert distributions(imported(list(files))) - names(NEEDED + OPTIONAL) == set()


@pytest.mark.thorough
def test_every_import_of_the_tests_is_declared() -> None:
    needs("altair")  # what is installed says which modules are whose
    paths = list((ROOT / "tests").rglob("*.py"))
    beside = {path.stem for path in paths} | {"tests"}
    modules = imported(paths) - beside
    assert distributions(modules) - names(DECLARED) == set()


def test_every_dependency_is_declared_once_with_its_lowest_version() -> None:
    declared = [canonicalize_name(one.name) for one in DECLARED]
    assert len(declared) == len(set(declared))
    assert all(lowest(one) for one in DECLARED)


def test_all_is_every_extra_of_a_user_but_spark() -> None:
    (line,) = PROJECT["optional-dependencies"]["all"]
    beside = {"all", "bench", "spark", "test", "test-all", "tools"}
    assert Requirement(line).extras == set(EXTRAS) - beside


def test_the_licence_and_the_changelog_are_where_packagers_look() -> None:
    (licence,) = PROJECT["license-files"]
    assert (ROOT / licence).read_text(encoding="utf-8").startswith("MIT License")
    (author,) = PROJECT["authors"]
    assert author["name"] in (ROOT / licence).read_text(encoding="utf-8")
    changes = (ROOT / "fundlab/docs/CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {PROJECT['version']}" in changes


@pytest.mark.thorough
def test_without_its_extras_everything_public_can_be_imported() -> None:
    homes = packages_distributions()
    extras = names(OPTIONAL)
    absent = [root for root, found in homes.items() if extras & set(map(canonicalize_name, found))]
    assert {"defusedxml", "fsspec", "keyring", "typst"} <= set(absent)
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import fundlab as fl, fundlab.cli\n"
        "for name in dir(fl): getattr(fl, name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "requirement",
    [pytest.param(one, id=one.name) for one in OF_TESTS]
    + [pytest.param(one, id=one.name, marks=pytest.mark.thorough) for one in OF_ALL_TESTS],
)
def test_what_is_installed_is_what_is_declared(requirement: Requirement) -> None:
    installed = Version(version(requirement.name))
    if os.environ.get("TEST_VERSIONS") == "lowest":
        assert installed == lowest(requirement)
    else:
        assert installed in requirement.specifier


@pytest.mark.seconds
@pytest.mark.parametrize("command", [["sandbox"], ["demo"], ["sandbox", "mirror", "x.json"]])
def test_without_the_sandbox_its_extra_is_named(command: list[str]) -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['fastapi', 'starlette', 'uvicorn']))\n"
        f"sys.argv = ['fundlab', *{command!r}]\n"
        "import fundlab.cli; fundlab.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("[sandbox]'")
    assert "Traceback" not in done.stderr
