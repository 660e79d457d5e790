"""What goes out in one HTTP exchange and what comes back, and what headers say of time.

`fundlab.client.connections` carries it: it is loaded with the first call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MASK: Final = "***"


class MaskedText(str):
    """A header value that tracebacks and logs show as ``'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{MASK}'"


class MaskedBytes(bytes):
    """A body that tracebacks and logs show as ``b'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"b'{MASK}'"


@dataclass(frozen=True)
class Outgoing:
    """A request ready to go: ``url`` ends in the encoded path and query.

    ``rows`` is how many rows the answer has at most, which bounds how many bytes of it are read.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    rows: int = 1


@dataclass(frozen=True)
class Answer:
    """What came back, decoded from its transfer and content coding; header names in any case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """No usable answer. ``sent``: bytes of the request left, so it may have been carried out."""

    problem: str
    sent: bool
    final: bool = False
    """Trying again would not help (certificate, proxy, size, coding)."""
    hint: str = ""
    """What to check, where it is not the address."""


# ----------------------------------------------------------------------- what headers say of time


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """``Retry-After`` in seconds from ``now`` (UNIX): a number or an HTTP date; else ``None``."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        return float(text[:12])
    moment = http_date(text)
    try:
        return None if moment is None else max(0.0, moment.timestamp() - now)
    except OverflowError:
        return None


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which the service's ``Date`` is ahead of ``now``; ``None`` if unreadable."""
    moment = http_date(date or "")
    return None if moment is None else moment.timestamp() - now


def http_date(text: str) -> datetime | None:
    """The moment that an HTTP date stands for, in UTC where it names no zone; else ``None``."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
