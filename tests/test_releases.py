"""What is uploaded: an sdist, a wheel with the C part for each kind of machine, and one without.

Each is built from a copy of what is tracked, checked as the registry does, and installed in a clean
environment, the sdist with a compiler and without.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from registry import run_at_registry

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[1]
LINUX = "manylinux_2_17_x86_64"
UV = [sys.executable, "-m", "uv"]
DEMO = ["demo", "--transfers", "300", "--out", "out"]


def run(*command: object, folder: Path, **environment: str) -> str:
    done = run_at_registry(
        [*map(str, command)], cwd=folder, env=os.environ | {"CI": "true"} | environment
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    return run("git", "ls-files", folder=ROOT).splitlines()


@pytest.fixture
def releases(
    once_a_run: Callable[[str, Callable[[Path], object]], Path], tracked: list[str]
) -> dict[str, Path]:
    """By kind."""

    def build(folder: Path) -> None:
        copy, made = folder.with_name("tree"), folder.with_name("made")
        for name in tracked:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
        kinds: dict[str, tuple[str, dict[str, str]]] = {
            "sdist": ("--sdist", {}),
            "pure": ("--wheel", {"FUNDLAB_PURE": "1", "FUNDLAB_DOCS": "1"}),
            "linux": ("--wheel", {"FUNDLAB_PLATFORM": LINUX}),
        }
        for kind, (what, environment) in kinds.items():
            out = ("--out-dir", made / kind)
            run(*UV, "build", "--quiet", what, *out, folder=copy, **environment)
        made.rename(folder)

    folder = once_a_run("releases", build)
    return {path.parent.name: path for path in folder.glob("*/fundlab-*")}


def test_their_names_say_which_machines_they_fit(releases: dict[str, Path]) -> None:
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None
    assert {kind: path.name for kind, path in releases.items()} == {
        "sdist": f"fundlab-{version[1]}.tar.gz",
        "pure": f"fundlab-{version[1]}-py3-none-any.whl",
        "linux": f"fundlab-{version[1]}-py3-none-{LINUX}.whl",
    }


def test_the_c_part_asks_for_no_newer_c_library(releases: dict[str, Path]) -> None:
    with zipfile.ZipFile(releases["linux"]) as wheel:
        libraries = [wheel.read(name) for name in wheel.namelist() if name.endswith(".so")]
    needed = [re.findall(rb"GLIBC_(\d+)\.(\d+)", library) for library in libraries]
    assert len(needed) == 2
    assert all(needed)
    assert max((int(a), int(b)) for found in needed for a, b in found) <= (2, 17)
    assert not any(b"libpython" in library for library in libraries)


def test_the_registry_would_take_them(releases: dict[str, Path]) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *releases.values(), folder=ROOT)


def test_they_hold_what_is_tracked_and_nothing_else(
    releases: dict[str, Path], tracked: list[str]
) -> None:
    package = {name for name in tracked if name.startswith("fundlab/")}
    moved = {"fundlab/sandbox/pytest_fundlab.py": "pytest_fundlab.py"}
    expected = {moved.get(name, name) for name in package}
    expected |= {
        "fundlab/" + name
        for name in tracked
        if name.startswith(("data/sample/", "data/statements/"))
    } | {f"fundlab/docs/{name}" for name in tracked if name.startswith("notebooks/")}
    for kind in ("pure", "linux"):
        with zipfile.ZipFile(releases[kind]) as wheel:
            found = {name for name in wheel.namelist() if ".dist-info/" not in name}
        site = {name for name in found if name.startswith("fundlab/docs/site/")}
        assert len(site) > 100 if kind == "pure" else not site  # where it was asked for
        found -= site
        compiled = {name for name in found if name.endswith(".so")}
        assert len(compiled) == (2 if kind == "linux" else 0)
        assert found - compiled == expected
    with tarfile.open(releases["sdist"]) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    ours = {name for name in inside if name not in ("PKG-INFO", "LICENSE", "CHANGELOG.md")}
    assert ours <= set(tracked)
    assert package <= ours


def test_the_documentation_of_a_release_needs_no_sphinx(
    releases: dict[str, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(releases["pure"]) as wheel:
        wheel.extractall(tmp_path)
    code = "import sys; sys.modules.update(dict.fromkeys(['sphinx', 'myst_nb', 'furo']))\n"
    code += "from fundlab.cli import main; sys.argv = ['fundlab', 'docs']; main()"
    said = run(sys.executable, "-c", code, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert said.strip() == (tmp_path / "fundlab/docs/site/index.html").as_uri()


@pytest.mark.parametrize(
    ("kind", "compiler"),
    [
        ("linux", "none"),
        ("sdist", "none"),
        pytest.param("sdist", "cc", marks=pytest.mark.slow),
        pytest.param("pure", "none", marks=pytest.mark.slow),
    ],
)
def test_it_is_installed_and_the_demo_reconciles(
    releases: dict[str, Path], tmp_path: Path, kind: str, compiler: str
) -> None:
    home = {"HOME": str(tmp_path), "CC": "/nowhere/cc" if compiler == "none" else "cc"}
    environment = tmp_path / "environment"
    run(*UV, "venv", "--quiet", "--seed", "--python", sys.executable, environment, folder=tmp_path)
    python = environment / "bin" / "python"
    release = tmp_path / releases[kind].name  # a place of its own: uv keeps what it built of one
    release.write_bytes(releases[kind].read_bytes())
    wanted = f"fundlab[sandbox] @ {release.as_uri()}"
    cache = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv"))}
    run(*UV, "pip", "install", "--quiet", "--python", python,
        wanted, folder=tmp_path, **home, **cache)  # fmt: skip
    run(python, "-m", "pip", "check", folder=tmp_path)
    program = environment / "bin" / "fundlab"
    assert "Reconciled: 0 breaks" in run(program, *DEMO, folder=tmp_path, **home)
    code = "from fundlab.base.compiled import slow_path; print(slow_path())"
    said = run(python, "-c", code, folder=tmp_path).strip()
    slow = "pages are decoded about 6 times slower"
    assert (slow in said) == (kind == "pure" or (kind == "sdist" and compiler == "none"))
    if slow in said:
        settings = {
            "FUNDLAB_BASE_URL": "http://127.0.0.1:1", "FUNDLAB_AUTH_URL": "http://127.0.0.1:1/t",
            "FUNDLAB_CLIENT_ID": "nobody", "FUNDLAB_CLIENT_SECRET": "nothing-of-that-kind",
        }  # fmt: skip
        done = subprocess.run(
            [program, "doctor"], capture_output=True, text=True, cwd=tmp_path,
            env=os.environ | home | settings,
        )  # fmt: skip
        assert "decoded about 6 times slower" in " ".join(done.stdout.split())
