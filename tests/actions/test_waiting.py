from __future__ import annotations

from typing import Any

import pytest

from fundlab.actions import wait_for
from fundlab.errors import ActionError
from fundlab.models import FiatAccount, Transfer


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
