"""The functions of pandas that fundlab answers for, each with the issue that would end it."""

from __future__ import annotations

import re
import warnings
from pkgutil import resolve_name
from typing import Any

import pandas as pd
import pytest
from extra_packages import needs

from fundlab.decimals.gaps import GAPS, ON_IMPORT, Gap, GapWarning, close

OF_TOOLS = {"altair", "ibis", "seaborn"}
ALL_GAPS = [
    pytest.param(
        home := re.split("[.:]", gap.owner)[0],
        gap,
        id=gap.name,
        marks=[pytest.mark.thorough] * (home in OF_TOOLS),
    )
    for gap in (*GAPS, *(gap for gaps in ON_IMPORT.values() for gap in gaps))
]


@pytest.mark.parametrize(("home", "gap"), ALL_GAPS)
def test_each_answer_stands_in_its_place(home: str, gap: Gap) -> None:
    needs(home)
    placed = getattr(resolve_name(gap.owner), gap.name)
    assert hasattr(placed, "__wrapped__"), f"pandas has moved {gap.owner}.{gap.name}"
    assert placed.__wrapped__.__module__.startswith(home)
    assert gap.issue > 2_000


def test_a_place_that_is_not_there_is_a_warning_of_its_own() -> None:
    class Owner:
        def known(self) -> str:
            return "pandas"

    def answer(pandas_own: Any, owner: Owner) -> str:
        return f"not {pandas_own(owner)}"

    here = f"{__name__}:Owner"
    globals()["Owner"] = Owner
    gone = [Gap(here, "moved", 12345, answer), Gap("pandas.no_such", "known", 12345, answer)]
    with pytest.warns(GapWarning, match=rf"pandas {pd.__version__} has no .*issue #12345") as seen:
        close([*gone, Gap(here, "known", 12345, answer)])
    assert len(seen) == 2
    assert Owner().known() == "not pandas"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close([])
