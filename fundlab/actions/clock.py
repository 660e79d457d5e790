"""Moments as plans, journals and messages show them: in UTC, the day only when it is not today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fundlab.values import Instant

if TYPE_CHECKING:
    from fundlab.api.client import Client

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND


def shown_time(ns: int, now: int) -> str:
    """``14:02 UTC``, or ``2026-11-20 14:02 UTC`` on another day than ``now``'s."""
    moment = Instant.from_ns(ns)
    same_day = ns // DAY == now // DAY
    return f"{moment:%H:%M} UTC" if same_day else f"{moment:%Y-%m-%d %H:%M} UTC"


def ahead(client: Client) -> int:
    """Nanoseconds by which the service's clock is ahead of this machine's, by its last answer."""
    return round(client.transport.skew_s * SECOND)


def start_of_day(ns: int) -> int:
    """The first moment of the UTC day of ``ns``."""
    return ns - ns % DAY
