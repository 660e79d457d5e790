from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from sandbox_caller import Caller, Gallery, caller_of, make_gallery

from fundlab.sandbox import Sandbox, serve

# Where it is installed, jsonschema loads it for IRIs, which no schema here has: 38 grammars, 2.5 s.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """An empty sandbox whose business time stands still."""
    with serve(empty=True, clock="manual", profiles=2) as running:
        yield running


@pytest.fixture
def caller(sandbox: Sandbox) -> Iterator[Caller]:
    made = caller_of(sandbox)
    yield made
    made.close()


@pytest.fixture
def signed() -> Iterator[Sandbox]:
    """An empty sandbox that requires signatures."""
    with serve(empty=True, clock="manual", signing=True) as running:
        yield running


@pytest.fixture(scope="module")
def seeded() -> Iterator[Sandbox]:
    """A sandbox with a history, for tests that only read."""
    with serve(transfers=1_200, clock="manual", seed=11) as running:
        yield running


@pytest.fixture(scope="module")
def reader(seeded: Sandbox) -> Iterator[Caller]:
    made = caller_of(seeded)
    yield made
    made.close()


@pytest.fixture(scope="module")
def gallery(reader: Caller) -> Iterator[Gallery]:
    """A sandbox in which everything has been made once, and the transfers of a history."""
    with serve(empty=True, clock="manual", profiles=2) as running:
        caller = caller_of(running)
        made = make_gallery(running, caller)
        made.samples["Transfer"] += reader.get("/v2/transfer/transfers?limit=1000").json()["items"]
        yield made
        caller.close()
