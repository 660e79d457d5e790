"""The decimal column with its compiled loops, and without."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from small_columns import column

from fundlab.base.compiled import compile_source, load
from fundlab.decimals import kernels


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The library of today's source, whatever was installed."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: the package runs without these loops, too")
    path = tmp_path_factory.mktemp("compiled") / "libkernels.so"
    assert compile_source(kernels.SOURCE, path, "-Wall", "-Wextra", "-Werror")
    library = load(kernels.SOURCE, path)
    assert library is not None
    return library


@pytest.fixture(
    scope="module", params=["compiled", pytest.param("in NumPy", marks=pytest.mark.thorough)]
)
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test of a module that uses it runs with the loops, and in CI without them, too."""
    with pytest.MonkeyPatch.context() as patched:
        library = request.getfixturevalue("compiled") if request.param == "compiled" else None
        patched.setattr(kernels, "library", library)
        yield


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "k": list("aabbab"),
            "x": column("1442725.09", "0.15", "-1.5", None, "0.0000001", "3"),
            "n": range(6),
        }
    )
