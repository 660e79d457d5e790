"""Waiting for what the service takes its time over; interrupting loses nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fundlab.base.errors import (
    ActionError,
    InvalidRequest,
    NetworkError,
    StoreError,
    Unavailable,
    a_type,
    shorten,
)
from fundlab.base.progress import progress_bar
from fundlab.client.arguments import connected
from fundlab.evidence.table_store import TableStore
from fundlab.models import FiatAccount, Transfer
from fundlab.payments.journal import existing_journal, not_noted
from fundlab.payments.plan import context_of

if TYPE_CHECKING:
    from fundlab.client.client import Client

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0

Settling = TypeVar("Settling", Transfer, FiatAccount)
Answer = TypeVar("Answer")


def wait_for(
    client: Client,
    resource: Settling,
    *,
    timeout: float = 300.0,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    progress: bool | None = None,
    store: TableStore | str | Path | None = None,
) -> Settling:
    """Ask again, ever less often, until ``resource`` is no longer ``PENDING``; return it as it is.

    A transfer ends ``COMPLETED`` or ``FAILED``, a fiat account ``APPROVED`` or ``REJECTED``
    (interface §3): look at ``.status``. ``timeout`` is in seconds; ``progress`` shows the seconds
    waited (by default in a notebook or terminal). Interrupting loses nothing: call again with the
    same resource. With a sandbox on a manual clock pass ``sleep=sandbox.clock.advance``. The
    journal notes how it ended.

    Raises ``ActionError`` when the time is up; until then a service that is down is asked again.
    Raises ``StoreError``, which says how it ended, when this cannot be noted.

    >>> own = [one for one in client.list_fiat_accounts() if not one.identity_id]
    >>> account = next(one for one in own if one.status == "APPROVED")
    >>> transfer = client.create_fiat_withdrawal(
    ...     amount="10.00",
    ...     asset="USD",
    ...     fiat_account_id=account.id,
    ...     profile_id=sandbox.profile_ids[0],
    ... )
    >>> str(fl.wait_for(client, transfer, sleep=sandbox.clock.advance).status)
    'COMPLETED'
    """
    connected(client)
    if not isinstance(resource, Transfer | FiatAccount):
        raise InvalidRequest(
            f"resource is {a_type(resource)}; give the transfer or the fiat account that "
            "submit() returned"
        )
    if resource.status != "PENDING":
        return resource
    what = f"{type(resource).__name__} {resource.id}"
    fetch: Callable[[str], Any] = (
        client.get_transfer if isinstance(resource, Transfer) else client.get_fiat_account
    )
    again: Settling
    for again in answers(
        what, lambda: fetch(resource.id), timeout=timeout, sleep=sleep, clock=clock,
        progress=progress,
    ):  # fmt: skip
        if again.status == "PENDING":
            continue
        if again.ref_id is None:
            return again
        noun = "withdrawal" if isinstance(again, Transfer) else "fiat account"
        known, otherwise = f"{noun} {again.id} ended {again.status}", "fl.resume() notes it"
        try:
            book = (
                existing_journal(client)
                if store is None
                else context_of(client, store, None, None).journal
            )
            entry = None if book is None else book.find(again.ref_id)
        except StoreError as error:
            raise not_noted(error, known, otherwise) from error
        if book is not None and entry is not None and entry.resource_id == again.id:
            book.note(entry, "done", again, known=known, otherwise=otherwise)
        return again
    raise ActionError(
        f"{what} is still PENDING after {timeout:g} s; nothing is lost: call wait_for again, or "
        "give a longer timeout"
    )


def answers(
    what: str,
    ask: Callable[[], Answer],
    *,
    timeout: float,
    sleep: Callable[[float], object],
    clock: Callable[[], float],
    progress: bool | None,
) -> Iterator[Answer]:
    """What ``ask`` gives, after ever longer pauses, until ``timeout`` seconds are up: one at least.

    A service that is down may be back before then. Raises ``ActionError`` if it is not.
    """
    check_timeout(timeout)
    started, pause, trouble = clock(), FIRST_PAUSE_S, None
    with progress_bar(round(timeout), "s", desc=f"waiting for {what}", enabled=progress) as bar:
        asked = False
        while (left := timeout - (clock() - started)) > 0 or not asked:
            if left > 0:
                sleep(min(pause, left))
            pause, asked = min(pause * 1.5, LONGEST_PAUSE_S), True
            try:
                answer, trouble = ask(), None
            except (NetworkError, Unavailable) as error:
                trouble = error
            else:
                yield answer
            bar.update(round(clock() - started) - bar.n)
    if trouble is not None:
        raise ActionError(
            f"how {what} stands is not known after {timeout:g} s; nothing is lost: wait again when "
            f"the service is back ({trouble})"
        ) from trouble


def check_timeout(timeout: object) -> None:
    """Refuses what is not a number of seconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout < inf:
        raise InvalidRequest(f"timeout={shorten(timeout)} is not accepted; give seconds, 0 or more")
