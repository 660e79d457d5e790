from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benches import Bench, approved_account, impatient
from paying import World, a_world

import fundlab as fl
from fundlab.client.client import Client
from fundlab.payments import journal
from fundlab.payments.outcome import Seen
from fundlab.sandbox.serve import Sandbox


@pytest.fixture(scope="module", autouse=True)
def _quick_journals() -> Iterator[None]:
    """The journal waits for no disk, in this process: those that are killed have their own, and
    the simulation cuts the current."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal, "_BEGIN", (*journal._BEGIN, "PRAGMA synchronous = OFF"))
        yield


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    with fl.sandbox.serve(seed=7, transfers=300, clock="manual") as running:
        yield running


@pytest.fixture
def new_bench(sandbox: Sandbox, tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    opened: list[Client] = []

    def make(**settings: Any) -> Bench:
        store = tmp_path / f"store-{len(opened)}"
        own: dict[str, Any] = {"store": store}
        if opened:  # another user, or another machine
            own["journal"] = tmp_path / f"journal-{len(opened)}"
        client = impatient(sandbox.connect(**(own | settings)))
        opened.append(client)
        account = approved_account(sandbox, client)
        return Bench(sandbox, client, Path(client.settings.store), account, sandbox.profile_ids[0])

    yield make
    sandbox.faults.clear()
    for client in opened:
        client.close()


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    return new_bench()


@pytest.fixture(scope="module")  # its proxy stands in the environment, and gRPC would take it
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture
def world(_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which nobody waits before trying again."""
    monkeypatch.setattr("fundlab.client.transport.pause_before", lambda *_: 0.0)
    return _world


@pytest.fixture
def lagging(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The service's list does not show yet what was just made, until ``undo``."""
    with monkeypatch.context() as patched:
        patched.setattr("fundlab.payments.plan.look_up", lambda *given, **more: Seen())
        yield patched
