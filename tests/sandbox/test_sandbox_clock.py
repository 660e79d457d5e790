"""The two clocks: business time in three modes, and real time for tokens and signatures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sandbox_caller import (
    OWNER,
    RULES,
    WIRE,
    Caller,
    approved_account,
    caller_of,
    deposit,
    instructions,
)

from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox, serve
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


def test_business_time_ends_before_nanoseconds_run_out(sandbox: Sandbox, caller: Caller) -> None:
    century = 3_000_000_000
    for _ in range(2):
        sandbox.clock.advance(century)
    before = sandbox.clock.now()
    with pytest.raises(SandboxError, match=r"past 2250-01-01T00:00:00\.0{9}Z; a reset starts over"):
        sandbox.clock.advance(century)
    assert sandbox.clock.now() == before
    assert caller.get(LIST).ok
    sandbox.control.reset()
    assert sandbox.clock.now().ns == START


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


# ---------------------------------------------------------------------------- splitting time

HOUR = 3_600 * 10**9
Outcome = tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def waiting() -> Iterator[tuple[Sandbox, Caller, bytes]]:
    """A state in which everything that can come due is due later, and a sandbox to load it in."""
    with serve(empty=True, clock="manual", profiles=2) as sandbox:
        caller = caller_of(sandbox)
        wire_profile, chain_profile = sandbox.profile_ids
        chain = {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}}
        own = {"profile": {"profile_id": wire_profile}}
        make_rule(caller, wire_profile, "USD", "USDG", own, chain)
        bank = {"fiat": {"fiat_account_id": approved_account(caller, sandbox)["id"]}}
        source = {"crypto": {"network": "ETHEREUM"}}
        made = make_rule(caller, chain_profile, "USDC", "USD", source, bank)
        memo_id = instructions(caller, wire_profile)["memo_id"]
        sandbox.faults.add("late", seconds=20, count=1)
        for amount in ("50", "100", "200"):
            assert deposit(caller, memo_id, amount).ok
        sandbox.clock.advance(3)
        address = made["source"]["crypto"]["address"]
        sandbox.control.crypto_deposit(address, "USDC", "500.00")
        sandbox.control.crypto_deposit(address, "USDC", "25.13")
        reviewed = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
        assert caller.post("/v2/transfer/fiat-accounts", reviewed).ok
        yield sandbox, caller, sandbox.control.save()
        caller.close()


def make_rule(
    caller: Caller, profile_id: str, asset: str, into: str, source: object, destination: object
) -> dict[str, Any]:
    wanted = {
        "ref_id": asset, "profile_id": profile_id, "source_asset": asset, "source": source,
        "destination_asset": into, "destination": destination,
    }  # fmt: skip
    answer = caller.post(RULES, wanted)
    assert answer.ok, answer.text
    made: dict[str, Any] = answer.json()["rule"]
    return made


def outcome(waiting: tuple[Sandbox, Caller, bytes], steps_ns: list[int]) -> Outcome:
    """Everything that is seen an hour later, reached in ``steps_ns`` and the rest."""
    sandbox, caller, state = waiting
    sandbox.control.load(state)
    for step in [*steps_ns, HOUR - sum(steps_ns)]:
        sandbox.clock.advance(step / 10**9)
    return (
        list(caller.rows(LIST)), list(caller.rows("/v2/events", "events")),
        list(caller.rows("/v2/transfer/fiat-accounts")), sandbox.control.ledger(),
    )  # fmt: skip


@pytest.mark.seconds
@settings(max_examples=25, deadline=None)
@given(
    marks=st.lists(
        st.integers(0, 3_600_000) | st.sampled_from([7_000, 57_000, 60_000, 62_000, 65_000]),
        max_size=6,
    )
)
@example(marks=[57_000, 60_000, 62_000, 65_000])
def test_however_an_hour_is_split_the_outcome_is_the_same(
    waiting: tuple[Sandbox, Caller, bytes], marks: list[int]
) -> None:
    """``marks``: the milliseconds of the hour at which the clock stops over."""
    at_once = outcome(waiting, [])
    stops = [0, *sorted(marks)]
    steps = [(b - a) * 10**6 for a, b in itertools.pairwise(stops)]
    assert outcome(waiting, steps) == at_once
    assert {row["status"] for row in at_once[0]} == {"COMPLETED", "FAILED"}


def test_what_a_rule_sends_on_completes_five_seconds_after_it_was_sent(
    sandbox: Sandbox, caller: Caller
) -> None:
    profile_id = sandbox.profile_ids[0]
    chain = {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}}
    make_rule(caller, profile_id, "USD", "USDG", {"profile": {"profile_id": profile_id}}, chain)
    assert deposit(caller, instructions(caller, profile_id)["memo_id"], "100").ok
    sandbox.clock.advance(3_600)
    rows = {row["type"]: row for row in caller.rows(LIST)}
    sent = rows["CRYPTO_WITHDRAWAL"]
    assert (sent["status"], sent["created_at"], sent["updated_at"]) == (
        "COMPLETED", "2026-11-01T00:01:00.000001Z", "2026-11-01T00:01:05.000000Z",
    )  # fmt: skip
    arrived = rows["WIRE_DEPOSIT"]
    assert arrived["updated_at"] == "2026-11-01T00:01:00.000000Z"
    assert arrived["auto_conversion"]["to_transfer_id"] == sent["id"]
