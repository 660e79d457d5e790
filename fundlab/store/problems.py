"""What a verification of the store finds."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from fundlab.errors import printable
from fundlab.values import plain_text


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be. ``where`` is a file, the id of a row or an interval;
    ``rule`` is ``file``, ``schema``, ``balance`` or one of ``checks.invariants``."""

    table: str
    rule: str
    where: str
    expected: str
    found: str
    cause: str = ""

    def __str__(self) -> str:
        because = f"; {self.cause}" if self.cause else ""
        return printable(
            f"{self.table}: {self.rule}: {self.where}: {self.found}, not {self.expected}{because}"
        )


def plain(value: Decimal | None) -> str:
    """``10.500000000000000000`` as ``10.5``, and never an exponent."""
    return "nothing" if value is None else plain_text(value)
