"""What changes something at the service, and the waiting for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fundlab.errors import ActionError
from fundlab.models import FiatAccount, Transfer

if TYPE_CHECKING:
    from fundlab.api.client import Client

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0

Settling = TypeVar("Settling", Transfer, FiatAccount)


def wait_for(
    client: Client,
    resource: Settling,
    *,
    timeout: float = 300.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Settling:
    """Ask again, ever less often, until ``resource`` is no longer ``PENDING``; return it as it is.

    A transfer ends ``COMPLETED`` or ``FAILED``, a fiat account ``APPROVED`` or ``REJECTED``
    (interface §3): look at ``.status``. ``timeout`` is in seconds. Interrupting loses nothing: call
    again with the same resource. With a sandbox on a manual clock pass
    ``sleep=sandbox.clock.advance``.

    Raises ``ActionError`` when the time is up.
    """
    started, pause = clock(), FIRST_PAUSE_S
    while resource.status == "PENDING":
        left = timeout - (clock() - started)
        if left <= 0:
            raise ActionError(
                f"{type(resource).__name__} {resource.id} is still PENDING after {timeout:g} s; "
                "nothing is lost: call wait_for again, or give a longer timeout"
            )
        sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)
        resource = _asked_again(client, resource)
    return resource


def _asked_again(client: Client, resource: Settling) -> Settling:
    fetch: Callable[[str], Any] = (
        client.get_transfer if isinstance(resource, Transfer) else client.get_fiat_account
    )
    again: Settling = fetch(resource.id)
    return again
