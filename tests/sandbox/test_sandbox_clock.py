"""The two clocks: business time in three modes, and real time for tokens and signatures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sandbox_caller import caller_of

from fundlab.errors import SandboxError
from fundlab.sandbox import Sandbox
from fundlab.sandbox.clock import AccessClock, BusinessClock, ClockMode

START = 1_793_491_200_000_000_000
LIST = "/v2/transfer/transfers"


class Ticks:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.ns = 987_654_321

    def __call__(self) -> int:
        return self.ns


@pytest.mark.parametrize(("mode", "passed"), [("real", 2.5), ("fast", 150), ("manual", 0)])
def test_business_time_follows_runs_ahead_or_stands_still(mode: ClockMode, passed: float) -> None:
    ticks = Ticks()
    clock = BusinessClock(mode, START, ticks)
    assert clock.now_ns() == START
    ticks.ns += 2_500_000_000
    assert clock.now_ns() == START + int(passed * 10**9)
    clock.advance(0.000_001)
    assert clock.now_ns() == START + int(passed * 10**9) + 1_000


@given(
    mode=st.sampled_from(["real", "fast", "manual"]),
    moves=st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 10**6))),
)
def test_business_time_never_runs_backwards(
    mode: ClockMode, moves: list[tuple[int, float]]
) -> None:
    ticks = Ticks()
    clock = BusinessClock(mode, START, ticks)
    last = clock.now_ns()
    for elapsed, seconds in moves:
        ticks.ns += elapsed
        clock.advance(seconds)
        assert clock.now_ns() >= last
        last = clock.now_ns()


@pytest.mark.parametrize("seconds", [-1, -1e-9, float("nan"), float("inf"), 4e9])
def test_impossible_steps_are_refused(seconds: float) -> None:
    clock = BusinessClock("manual", START)
    with pytest.raises(SandboxError, match="seconds"):
        clock.advance(seconds)
    assert clock.now_ns() == START


@pytest.mark.parametrize("seconds", [float("nan"), float("-inf"), 4e9])
def test_impossible_shifts_are_refused(seconds: float) -> None:
    clock = AccessClock(lambda: 1_000.0)
    with pytest.raises(SandboxError, match="seconds"):
        clock.shift(seconds)
    assert clock.now_s() == 1_000.0


@pytest.mark.parametrize(
    ("shift", "status"), [(0, 200), (1_790, 200), (1_810, 401), (-290, 200), (-310, 401)]
)
def test_signatures_go_by_shifted_real_time_and_not_by_business_time(
    signed: Sandbox, shift: float, status: int
) -> None:
    caller = caller_of(signed)
    assert caller.get(LIST).status_code == 200
    before = signed.clock.now().ns
    signed.clock.advance(365 * 86_400)
    assert caller.get(LIST).status_code == 200
    signed.clock.shift_access(shift)
    assert caller.get(LIST).status_code == status
    signed.clock.shift_access(0)
    assert caller.get(LIST).status_code == 200
    assert signed.clock.now().ns == before + 365 * 86_400 * 10**9
    caller.close()
