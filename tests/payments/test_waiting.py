from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import ActionError, InvalidRequest, StoreError, Unavailable
from fundlab.models import FiatAccount, Transfer
from fundlab.payments.actions import wait_for
from fundlab.payments.journal import Journal


class Service:
    """Answers with the given statuses, one a call, the last one for ever."""

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)
        self.calls = 0

    def _next(self) -> str:
        self.calls += 1
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def get_transfer(self, id: str) -> Transfer:
        return Transfer(id=id, status=self._next())

    def fetch_page(self, operation: str, params: object) -> bytes:
        raise AssertionError(f"{operation}: a wait asks for one resource")

    def get_fiat_account(self, id: str) -> FiatAccount:
        return FiatAccount(id=id, status=self._next())


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        return self.now


def wait(service: Service, resource: Any, timeout: float = 60.0) -> tuple[Any, Time]:
    time = Time()
    client: Any = service
    settled = wait_for(client, resource, timeout=timeout, sleep=time.sleep, clock=time.clock)
    return settled, time


@pytest.mark.parametrize("end", ["COMPLETED", "FAILED", "COMPLETE"])
def test_a_transfer_is_waited_for_until_it_ends(end: str) -> None:
    service = Service("PENDING", "PENDING", end)
    transfer, time = wait(service, Transfer(id="t", status="PENDING"))
    assert (transfer.id, transfer.status, service.calls) == ("t", end, 3)
    assert time.pauses == [0.5, 0.75, 1.125]


@pytest.mark.parametrize("end", ["APPROVED", "REJECTED"])
def test_an_account_is_waited_for_until_it_is_reviewed(end: str) -> None:
    account, _ = wait(Service("PENDING", end), FiatAccount(id="a", status="PENDING"))
    assert account.status == end


def test_what_has_ended_is_not_asked_for_again() -> None:
    service = Service("FAILED")
    assert wait(service, Transfer(id="t", status="COMPLETED"))[0].status == "COMPLETED"
    assert service.calls == 0


def test_a_wait_ends_with_its_timeout_and_says_what_to_do() -> None:
    service = Service("PENDING")
    with pytest.raises(ActionError, match=r"Transfer t is still PENDING after 7 s.*call wait_for"):
        wait(service, Transfer(id="t", status="PENDING"), timeout=7.0)


@pytest.mark.parametrize("odd", ["t", None, object()])
def test_what_is_no_resource_is_not_waited_for(odd: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"give the transfer or the fiat account that submit"):
        wait(Service("PENDING"), odd)


def test_a_plan_is_not_waited_for(bench: Any) -> None:
    with pytest.raises(InvalidRequest, match="resource is a WithdrawalPlan"):
        wait_for(bench.client, bench.plan())


@pytest.mark.parametrize("timeout", [float("nan"), float("inf"), -1, "5", None, True])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"timeout=.* is not accepted; give seconds, 0 or"):
        wait(Service("PENDING"), Transfer(id="t", status="PENDING"), timeout=timeout)


class Failing(Service):
    """Is down for its first ``failures`` answers."""

    def __init__(self, failures: int, *statuses: str) -> None:
        super().__init__(*statuses)
        self.failures = failures

    def get_transfer(self, id: str) -> Transfer:
        self.failures -= 1
        if self.failures >= 0:
            raise Unavailable(500, "Internal Server Error", operation="get_transfer")
        return super().get_transfer(id)


def test_a_service_that_is_down_for_a_while_is_asked_again() -> None:
    transfer, time = wait(Failing(2, "COMPLETED"), Transfer(id="t", status="PENDING"))
    assert (transfer.status, len(time.pauses)) == ("COMPLETED", 3)
    with pytest.raises(ActionError, match=r"how Transfer t stands is not known after 7 s.*500"):
        wait(Failing(99, "PENDING"), Transfer(id="t", status="PENDING"), timeout=7.0)


def test_the_journal_notes_how_it_ended(new_bench: Any) -> None:
    bench = new_bench(daily_withdrawal_limit="100")
    transfer = bench.pay("99.13")
    wait_for(bench.client, transfer, sleep=bench.sandbox.clock.advance)
    assert bench.journal()["status"].tolist() == ["FAILED"]
    assert bench.plan("100.00").amount == 100  # what failed was not withdrawn today


def test_whatever_the_store_the_journal_notes_it(bench: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    transfer = bench.pay("98.00", store=elsewhere)
    wait_for(bench.client, transfer, sleep=bench.sandbox.clock.advance)
    assert fl.journal(elsewhere)["status"].tolist() == ["COMPLETED"]


def test_the_journal_of_another_service_is_left_alone(bench: Any) -> None:
    transfer = bench.pay("97.00")
    bench.journal_file().with_name("loopback-000000000000.sqlite").touch()
    ended = wait_for(bench.client, transfer, sleep=bench.sandbox.clock.advance)
    assert ended.status == "COMPLETED"


def test_a_store_need_not_be_on_this_machine(new_bench: Callable[..., Any]) -> None:
    bench = new_bench(store="memory://books")
    transfer = bench.pay("96.00")
    wait_for(bench.client, transfer, sleep=bench.sandbox.clock.advance)
    found = fl.journal("memory://books")
    assert found["status"].tolist() == ["COMPLETED"]
    assert found["store"].tolist() == [str(fl.Store("memory://books").path)]


def test_an_end_that_cannot_be_noted_is_told(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    transfer = bench.pay("95.00")

    def full(*given: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(Journal, "_add", full)
    with pytest.raises(
        StoreError, match=rf"withdrawal {transfer.id} ended COMPLETED, but this could not be writte"
    ):
        wait_for(bench.client, transfer, sleep=bench.sandbox.clock.advance)
