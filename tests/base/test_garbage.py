"""The search for cycles is put off for a block, and left as it was found."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from fundlab.base import garbage
from fundlab.base.garbage import no_search


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What tests/conftest.py froze is not frozen within a test of this module."""
    monkeypatch.setattr(garbage, "_frozen", False)
    collecting = gc.isenabled()
    gc.unfreeze()
    yield
    gc.freeze()
    (gc.enable if collecting else gc.disable)()


@pytest.mark.parametrize("stays", [False, True])
def test_it_is_put_off_within_and_back_after_an_error_too(stays: bool) -> None:
    gc.enable()
    seen = []

    def fail() -> None:
        with no_search(stays=stays):
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())
        raise KeyError

    with pytest.raises(KeyError), no_search(stays=stays):
        fail()
    assert (seen, gc.isenabled()) == ([False, False], True)


@pytest.mark.parametrize("stays", [False, True])
def test_of_threads_that_overlap_the_last_one_lets_it_go_on(stays: bool) -> None:
    gc.enable()
    first, second = no_search(stays=stays), no_search()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


@pytest.mark.parametrize("stays", [False, True])
def test_who_had_turned_it_off_finds_it_off(stays: bool) -> None:
    gc.disable()
    with no_search(stays=stays):
        pass
    assert not gc.isenabled()


@pytest.mark.thorough
def test_a_cycle_made_within_is_found_later() -> None:
    class Node:
        pass

    gc.enable()
    with no_search(stays=True):
        node = Node()
        node.itself = node
        gone = weakref.ref(node)
        del node
    assert gone() is not None
    gc.collect()
    assert gone() is None


def test_what_somebody_froze_stays_frozen() -> None:
    gc.enable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with no_search(stays=True):
        pass
    assert gc.get_freeze_count() == frozen > 0


def test_what_is_frozen_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To count it is to go through it: 60 ms of 1.5 million objects, at each start of a sandbox."""
    gc.freeze()
    counted = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counted.append(1) or 1)
    for stays in (False, True, True):
        with no_search(stays=stays):
            pass
    assert counted == [1]


def test_as_long_as_nothing_is_frozen_what_stays_becomes_old() -> None:
    gc.enable()
    for _ in range(2):
        with no_search(stays=True):
            made = [[]]
        assert gc.get_freeze_count() == 0
        assert any(made is old for old in gc.get_objects(generation=2))
