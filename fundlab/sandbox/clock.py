"""The sandbox's two clocks: business time, and real time for tokens and signatures.

Business time follows real time (``real``), runs 60 times as fast (``fast``) or stands still until
it is moved (``manual``). It never runs backwards, also across restarts on one database.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

from fundlab.base.errors import SandboxError
from fundlab.base.values import Instant

ClockMode = Literal["real", "fast", "manual"]
NS: Final = 1_000_000_000
RATES: Final[dict[str, int]] = {"real": 1, "fast": 60, "manual": 0}
DAY_NS: Final = 86_400 * NS
HISTORY_DAYS: Final = 365
HISTORY_END_NS: Final = Instant.parse("2026-11-01T00:00:00Z").ns
HISTORY_START_NS: Final = HISTORY_END_NS - HISTORY_DAYS * DAY_NS
MAX_STEP_S: Final = 100 * 366 * 86400
LAST_NS: Final = Instant.parse("2250-01-01T00:00:00Z").ns
"""As far as business time is moved: some years before 64-bit nanoseconds end."""


class BusinessClock:
    """Nanoseconds of business time. Not thread-safe: the sandbox reads it under its lock."""

    def __init__(
        self, mode: ClockMode, start_ns: int, ticks: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.mode: ClockMode = mode
        self._rate, self._start_ns, self._ticks = RATES[mode], start_ns, ticks
        self._origin = ticks()

    def now_ns(self) -> int:
        return self._start_ns + (self._ticks() - self._origin) * self._rate

    def advance(self, seconds: float) -> None:
        """Move business time forward by ``seconds``; in every mode."""
        if not 0 <= seconds <= MAX_STEP_S:
            raise SandboxError(f"seconds {seconds!r} must be from 0 to {MAX_STEP_S}")
        step_ns = round(seconds * NS)
        if self.now_ns() + step_ns > LAST_NS:
            raise SandboxError(
                f"seconds {seconds!r} would move business time past {Instant.from_ns(LAST_NS)}; "
                "a reset starts over"
            )
        self._start_ns += step_ns


class AccessClock:
    """Real time as seen by tokens and signatures, shifted to try expiry and skew."""

    def __init__(self, real: Callable[[], float] = time.time) -> None:
        self._real = real
        self.shift_s = 0.0

    def now_s(self) -> float:
        return self._real() + self.shift_s

    def shift(self, seconds: float) -> None:
        """See real time plus ``seconds`` from now on; 0 undoes it."""
        if not -MAX_STEP_S <= seconds <= MAX_STEP_S:
            raise SandboxError(f"seconds {seconds!r} must be from -{MAX_STEP_S} to {MAX_STEP_S}")
        self.shift_s = float(seconds)


def micros_text(ns: int) -> str:
    """RFC 3339 in UTC with six fractional digits; ``ns`` is whole microseconds."""
    return f"{str(Instant.from_ns(ns))[:-4]}Z"


def nanos_text(ns: int) -> str:
    """RFC 3339 in UTC with nine fractional digits."""
    return str(Instant.from_ns(ns))
