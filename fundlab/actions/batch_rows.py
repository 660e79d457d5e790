"""The table of a batch: what it must hold, its rows as arguments, the results beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import numpy as np
import pandas as pd

from fundlab.decimals import DecimalArray
from fundlab.decimals.scalars import is_missing
from fundlab.errors import InvalidRequest, shorten

NEEDED: Final = ("profile_id", "fiat_account_id", "amount")
OPTIONAL: Final = ("asset", "ref_id", "identity_id", "account_id", "memo", "metadata")
_OF_ONE: Final = ("total", "allow_duplicate")
"""What ``plan_withdrawal`` takes for one payment and a table does not for each row."""
RESULT: Final = ("ref_id", "state", "status", "transfer_id", "fee", "total", "detail")
_ALIKE: Final = 0.92


def check_table(payments: object) -> None:
    """Refuses what is not a table of payments, naming the column that is missing, or a slip."""
    if not isinstance(payments, pd.DataFrame):
        kind = f"{type(payments).__module__.partition('.')[0]} {type(payments).__name__}"
        raise InvalidRequest(
            f"payments is a {kind.removeprefix('builtins ')}; give a pandas DataFrame with "
            f"{', '.join(NEEDED)} (of another kind of table: its to_pandas())"
        )
    names = [*map(str, payments.columns)]
    for name in _OF_ONE:
        if name in names:
            raise InvalidRequest(
                f"payments has the column {name}, which a table does not take for each row: rename "
                f"or drop it, or pay with plan_withdrawal({name}=…) one by one; nothing was sent"
            )
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise InvalidRequest(
            f"payments lacks {', '.join(missing)}; it has {', '.join(names)}. "
            f"Give {', '.join(NEEDED)}, and {', '.join(OPTIONAL)} if needed"
        )
    for problem in (*_twice(names), *_taken(names), *_slips(names)):
        raise InvalidRequest(f"{problem}; nothing was sent")
    if payments.empty:
        raise InvalidRequest("payments is empty; give one row for each payment")


def rows_of(payments: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The arguments of each row; what is missing of ``OPTIONAL`` is left out."""
    columns = [name for name in (*NEEDED, *OPTIONAL) if name in payments.columns]
    for values in zip(*(payments[name] for name in columns), strict=True):
        row = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in zip(columns, values, strict=True)
        }
        yield {name: v for name, v in row.items() if name in NEEDED or not is_missing(v)}


def check_row(row: Mapping[str, Any]) -> None:
    """Refuses a row without what a payment needs."""
    for name in NEEDED:
        value = row[name]
        if is_missing(value):
            raise InvalidRequest(f"{name} is missing")
        if name != "amount" and not isinstance(value, str):
            raise InvalidRequest(f"{name}={shorten(value)} is not a valid id; give text")


def beside(payments: pd.DataFrame, results: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """``payments`` with the columns of ``RESULT``."""
    frame = payments.copy()
    for name in RESULT:
        values = [result[name] for result in results]
        if name in ("fee", "total"):
            frame[name] = DecimalArray._from_sequence(values)
        else:
            frame[name] = pd.array(values, dtype="str")
    return frame


def _twice(names: Sequence[str]) -> Iterator[str]:
    for name in (*NEEDED, *OPTIONAL):
        if names.count(name) > 1:
            yield f"payments has {names.count(name)} columns {name}: leave one"


def _taken(names: Sequence[str]) -> Iterator[str]:
    taken = [name for name in names if name in RESULT and name not in OPTIONAL]
    if taken:
        yield (
            f"payments has {', '.join(taken)}, where the result puts what came of each payment: "
            "rename or drop them"
        )


def _slips(names: Sequence[str]) -> Iterator[str]:
    known = {_letters(name): name for name in (*NEEDED, *OPTIONAL)}
    for name in names:
        close = get_close_matches(_letters(name), known, n=1, cutoff=_ALIKE)
        if close and name not in known.values():
            meant = known[close[0]]
            yield f"payments has the column {name}: did you mean {meant}? rename or drop it"


def _letters(name: str) -> str:
    return "".join(char for char in name.lower() if char.isalpha())
