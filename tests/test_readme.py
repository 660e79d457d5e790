"""The README's examples run as they stand, one after another, in an empty folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    # four on the sample, a payment from a store of one's own in two cells
    assert len(examples) == 6
    names: dict[str, Any] = {}
    try:
        for example in examples:
            exec(compile(example, str(README), "exec"), names)
        transfers = list(names["client"].list_transfers(ref_ids=[names["plan"].ref_id]))
        assert [(one.amount.text, one.status) for one in transfers] == [("100.00", "PENDING")]
        assert names["account"].identity_id is None  # an end user's is not one's own to pay
        assert not any("end user" in warning for warning in names["plan"].warnings)
        shows, sends = examples[-2:]
        assert ast.unparse(ast.parse(shows).body[-1]) == "plan"  # the cell ends with its card
        assert "submit" not in shows
        assert "submit(confirm=plan.code)" in sends
    finally:
        names["sandbox"].stop()


def test_what_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert len(links) >= 3
    assert [link for link in links if not (README.parent / link).exists()] == []
