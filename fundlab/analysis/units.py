"""Money as whole units of 10^-18, time as nanoseconds, as plain Python counts; back to text."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from fundlab.values import EXACT, Instant, plain_text

_SCALE: Final = 18


def units(amount: Decimal) -> int:
    return int(EXACT.scaleb(amount, _SCALE))


def decimal(amount: int) -> Decimal:
    return EXACT.scaleb(Decimal(amount), -_SCALE)


def plain(amount: int) -> str:
    """``10500000000000000000`` units as ``10.5``."""
    return plain_text(decimal(amount))


def moment(ns: int) -> str:
    return str(Instant.from_ns(ns))
