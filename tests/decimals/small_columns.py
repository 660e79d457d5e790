"""Small decimal columns, and what they hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pandas as pd

D = Decimal
LARGEST = "99999999999999999999.999999999999999999"


def column(*values: Any, name: str = "x") -> pd.Series:
    return pd.Series(values, dtype="decimal", name=name)


def values(series: Any) -> list[Any]:
    return [None if value is pd.NA else value for value in series.tolist()]
