"""Fixtures of a sandbox for pytest, there as soon as fundlab is installed.

    def test_a_payment(fundlab_sandbox):
        with fundlab_sandbox.connect() as client:  # or fl.connect(): the environment names it
            ...

``fundlab_sandbox`` is a real service on this machine, the same for the same seed; what a test
changes is undone after it. Each worker of pytest-xdist has one of its own. A ``conftest.py`` may
override ``fundlab_sandbox_options``, the arguments of ``fundlab.sandbox.serve``.

It is installed beside the package, so that a suite which uses none of it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fundlab.sandbox import Sandbox

_numbers = count()


@pytest.fixture(scope="session")
def fundlab_sandbox_options() -> dict[str, Any]:
    """The arguments of ``fundlab.sandbox.serve``: a small history, and a clock moved by hand."""
    return {"seed": 7, "transfers": 200, "profiles": 2, "clock": "manual"}


@pytest.fixture(scope="session")
def fundlab_sandbox_session(fundlab_sandbox_options: dict[str, Any]) -> Iterator[Sandbox]:
    """The sandbox of the session. What is changed here, by other fixtures of the session say, stays
    for all tests."""
    from fundlab.sandbox import serve

    with serve(**fundlab_sandbox_options) as sandbox:
        yield sandbox


@pytest.fixture
def fundlab_sandbox(
    fundlab_sandbox_session: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sandbox]:
    """The sandbox of the session, named by the environment, its state put back after the test."""
    from fundlab.sandbox.serve import OF_A_SERVICE

    sandbox = fundlab_sandbox_session
    for name in OF_A_SERVICE:
        monkeypatch.delenv(name, raising=False)
    # the store and the journal of payments too: what they know of is undone
    own = tmp_path_factory.getbasetemp() / f"fundlab-{next(_numbers)}"
    folders = {"FUNDLAB_STORE": str(own / "store"), "FUNDLAB_JOURNAL": str(own / "journal")}
    for name, value in (sandbox.environment() | folders).items():
        monkeypatch.setenv(name, value)
    sandbox.checkpoint("before the test")
    yield sandbox
    sandbox.restore("before the test")
