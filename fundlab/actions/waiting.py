"""Waiting for what the service takes its time over; interrupting loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fundlab.errors import ActionError
from fundlab.models import FiatAccount, Transfer
from fundlab.progress import progress_bar

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
    progress: bool | None = None,
) -> Settling:
    """Ask again, ever less often, until ``resource`` is no longer ``PENDING``; return it as it is.

    A transfer ends ``COMPLETED`` or ``FAILED``, a fiat account ``APPROVED`` or ``REJECTED``
    (interface §3): look at ``.status``. ``timeout`` is in seconds; ``progress`` shows the seconds
    waited (by default in a notebook or terminal). Interrupting loses nothing: call again with the
    same resource. With a sandbox on a manual clock pass ``sleep=sandbox.clock.advance``.

    Raises ``ActionError`` when the time is up.
    """
    if resource.status != "PENDING":
        return resource
    what = f"{type(resource).__name__} {resource.id}"
    for _ in waiting(what, timeout=timeout, sleep=sleep, clock=clock, progress=progress):
        resource = _asked_again(client, resource)
        if resource.status != "PENDING":
            return resource
    raise ActionError(
        f"{what} is still PENDING after {timeout:g} s; nothing is lost: call wait_for again, or "
        "give a longer timeout"
    )


def waiting(
    what: str,
    *,
    timeout: float,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
    progress: bool | None,
) -> Iterator[None]:
    """One turn for each time to ask, after ever longer pauses, until ``timeout`` seconds are up."""
    started, pause = clock(), FIRST_PAUSE_S
    with progress_bar(round(timeout), "s", desc=f"waiting for {what}", enabled=progress) as bar:
        while (left := timeout - (clock() - started)) > 0:
            sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE_S)
            yield
            bar.update(round(clock() - started) - bar.n)


def _asked_again(client: Client, resource: Settling) -> Settling:
    fetch: Callable[[str], Any] = (
        client.get_transfer if isinstance(resource, Transfer) else client.get_fiat_account
    )
    again: Settling = fetch(resource.id)
    return again
