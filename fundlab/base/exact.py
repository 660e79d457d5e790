"""What every exact amount keeps to, whoever holds it: its digits, its text, and the context that
loses none of them. Here alone, and without another import, so that each room can take it from here.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, DivisionByZero, InvalidOperation, Overflow
from typing import Final

MAX_INTEGER_DIGITS: Final = 20
MAX_FRACTION_DIGITS: Final = 18
MAX_AMOUNT_LENGTH: Final = 64

AMOUNT_PATTERN: Final = r"^[0-9]*\.?[0-9]+$"
"""As the interface writes it (§2); the digits have limits besides, as :data:`AMOUNT` has them."""
AMOUNT_PARTS: Final = r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]+))?"
"""The same texts, their digits before and after the point taken apart."""
AMOUNT: Final = (
    rf"(?:[0-9]{{1,{MAX_INTEGER_DIGITS}}}"
    rf"|[0-9]{{0,{MAX_INTEGER_DIGITS}}}\.[0-9]{{1,{MAX_FRACTION_DIGITS}}})"
)

EXACT: Final = Context(
    prec=120,
    rounding=ROUND_HALF_EVEN,
    Emin=-(10**9),
    Emax=10**9,
    traps=[InvalidOperation, DivisionByZero, Overflow],
)
"""Sums, differences and products of up to three amounts in which no digit is lost, whatever the
thread's own context."""
