"""Compiling the C sources, and loading only what was compiled of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fundlab.base.compiled import SOURCES, compile_source, library_of, load

needs_a_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler: the package runs without one, too"
)


@pytest.mark.seconds
@needs_a_compiler
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_another_source_is_not_loaded(source: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copy(source, tmp_path))
    library = library_of(copied)
    assert load(copied) is None
    assert compile_source(copied, library, "-Wall", "-Wextra", "-Werror")
    assert load(copied) is not None
    copied.write_text(copied.read_text() + "\n")
    assert load(copied) is None
    assert compile_source(copied, library, "-UDIGEST")
    assert load(copied) is None


def test_without_a_compiler_there_is_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not compile_source(SOURCES[0], tmp_path / "none.so")
    assert load(SOURCES[0], tmp_path / "none.so") is None
