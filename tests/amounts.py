"""Amounts of every length as a service might send them, and what each of them is, by hand."""

from __future__ import annotations

import decimal
import re
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

WHOLE_DIGITS, FRACTION_DIGITS = 20, 18
_INSIDE = re.compile(rf"[0-9]{{1,{WHOLE_DIGITS}}}|[0-9]{{0,{WHOLE_DIGITS}}}\.[0-9]{{1,18}}")


def random_amount(chance: Random) -> str:
    """Up to 38 digits; now and then more than 20 before the point, or more than 18 behind it."""
    kind = chance.random()
    if kind < 0.02:
        return chance.choice(("0", "0.0", ".5", "0." + "0" * 17 + "1", "9" * 20 + "." + "9" * 18))
    whole, fraction = chance.randint(0, WHOLE_DIGITS), chance.randint(0, FRACTION_DIGITS)
    if kind > 0.95:
        whole = chance.randint(WHOLE_DIGITS + 1, 38)
        fraction = chance.randint(0, 38 - whole)
    elif kind > 0.9:
        fraction = chance.randint(FRACTION_DIGITS + 1, 38)
        whole = chance.randint(0, 38 - fraction)
    elif kind > 0.8:  # what doubles and 28-digit contexts would round
        whole, fraction = WHOLE_DIGITS, FRACTION_DIGITS
    text = digits(chance, whole)
    return text + ("." + digits(chance, fraction) if fraction else "") or "0"


def digits(chance: Random, count: int) -> str:
    return "".join(chance.choices("0123456789", k=count))


def is_held(text: str) -> bool:
    """Whether a column of money can hold it."""
    return _INSIDE.fullmatch(text) is not None


def plain(text: str) -> str:
    """The one spelling of its value: no needless zero, no exponent, a digit before the point."""
    whole, _, fraction = text.replace(",", "").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


@contextmanager
def exactly() -> Iterator[None]:
    """Where a test adds up what it expects, also in a run under another context."""
    with decimal.localcontext(decimal.Context(prec=200)):
        yield
