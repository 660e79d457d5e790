"""When to send again, and how long to wait before: decisions only, no I/O."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from fundlab.api.http import Answer, Failure

MAX_ATTEMPTS: Final = 6
MAX_RETRY_AFTER_S: Final = 120.0
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 10.0
TOO_MANY: Final = 429
PASSING: Final = {408, 425, 500, 502, 503, 504, *range(520, 530)}
"""Statuses of a service, or what is before it, that may answer at the next try."""


def may_repeat(outcome: Answer | Failure, *, repeatable: bool) -> bool:
    """Whether the same bytes may be sent again after ``outcome``.

    What was never sent, or refused with 429, may always; the rest only when ``repeatable`` (a read,
    or a create whose ``ref_id`` stops a second one).
    """
    if isinstance(outcome, Failure):
        return not outcome.final and (repeatable or not outcome.sent)
    return outcome.status == TOO_MANY or (repeatable and outcome.status in PASSING)


def is_passing(outcome: Answer | Failure) -> bool:
    """Whether ``outcome`` may be gone at the next try."""
    if isinstance(outcome, Failure):
        return not outcome.final
    return outcome.status == TOO_MANY or outcome.status in PASSING


def pause_before(attempt: int, retry_after: float | None, draw: float) -> float:
    """Seconds to wait before the retry after ``attempt`` (from 1); ``draw`` is in [0, 1).

    At least ``retry_after``, and never less than without it: a service that says 0 is not pressed.
    """
    own = min(_FIRST_PAUSE_S * 2.0 ** (attempt - 1), _LONGEST_PAUSE_S) * (0.5 + draw / 2)
    return own if retry_after is None else max(retry_after, own)


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """``Retry-After`` in seconds from ``now`` (UNIX): a number or an HTTP date; else ``None``."""
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        return float(text[:12])
    moment = http_date(text)
    if moment is None:
        return None
    try:
        return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())
    except OverflowError:
        return None


def http_date(text: str) -> datetime | None:
    """The moment that an HTTP date stands for, in UTC where it names no zone; else ``None``."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
