"""What a verification of the store finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from decimal import Decimal
from typing import Any, Literal

import pandas as pd

from fundlab.errors import printable
from fundlab.values import plain_text

Rule = Literal[
    "file", "schema", "id", "required", "total", "direction", "halves", "conversion", "balance"
]


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it must be. ``where`` is a file, a transfer or an interval."""

    table: str
    rule: Rule
    where: str
    expected: str
    found: str
    cause: str = ""

    def __str__(self) -> str:
        because = f"; {self.cause}" if self.cause else ""
        return printable(
            f"{self.table}: {self.rule}: {self.where}: {self.found}, not {self.expected}{because}"
        )


@dataclass(frozen=True)
class Verification:
    """What was looked at, and every problem found. ``intervals`` are those between balances."""

    store: str
    files: int
    rows: int
    intervals: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_frame(self) -> pd.DataFrame:
        """One row a problem: ``table``, ``rule``, ``where``, ``expected``, ``found``, ``cause``."""
        names = [field.name for field in fields(Problem)]
        rows = [asdict(entry) for entry in self.problems]
        return pd.DataFrame(rows, columns=names, dtype="string")

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        looked = (
            f"{self.store}: {self.files} files, {self.rows:,} rows, {self.intervals} balance "
            f"changes: {len(self.problems) or 'no'} problem{'' if len(self.problems) == 1 else 's'}"
        )
        return "\n".join([looked, *map(str, self.problems)])


def plain(value: Decimal | None) -> str:
    """``10.500000000000000000`` as ``10.5``, and never an exponent."""
    return "nothing" if value is None else plain_text(value)
