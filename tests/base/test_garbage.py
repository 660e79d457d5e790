"""The search for cycles is put off for a block, and left as it was found."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from fundlab.base.garbage import no_search


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    collecting = gc.isenabled()
    yield
    gc.unfreeze()
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
    assert gc.get_freeze_count() == frozen
