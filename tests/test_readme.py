"""The README's examples run as the cells of a kernel, in an empty folder, and each shows its
result."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from cells import run_cells

README = Path(__file__).parents[1] / "README.md"
LEFT = """
rows = list(client.list_transfers(ref_ids=[plan.ref_id]))
sandbox.stop()
of_users = [one for one in plan.warnings if "end user" in one]
[(one.amount.text, str(one.status)) for one in rows], account.identity_id, of_users
"""


@pytest.mark.thorough
def test_each_example_shows_its_result(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    shows = [
        "Reconciled: 0 breaks. All 40 balances rebuilt from 3,000 transfers",
        "Treasury",
        "5,948,621.16",
        "5,834,323.03 USD of Treasury",
        "2,601.50",
        "",
        "Reconciled: 0 breaks",
        "SANDBOX · play money",
        "PENDING",
    ]
    displayed = run_cells([*examples, LEFT], tmp_path)
    assert displayed.pop()[0]["text/plain"] == "([('100.00', 'PENDING')], None, [])"
    for example, expected, shown in zip(examples, shows, displayed, strict=True):
        (one,) = shown  # what the last line of a cell gives, and a figure once
        assert expected in one["text/plain"].replace("\n", " "), example
    (chart,) = displayed[5]
    assert "image/png" in chart or "image/svg+xml" in chart
    for place in (1, 2, 3, 4, 6, 7):
        assert "<div class=" in displayed[place][0]["text/html"]
    shows_plan, sends = examples[-2:]
    assert ast.unparse(ast.parse(shows_plan).body[-1]) == "plan"  # the cell ends with its card
    assert "submit" not in shows_plan
    assert "submit(confirm=plan.code)" in sends


def test_what_it_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert len(links) >= 3
    assert [link for link in links if not (README.parent / link).exists()] == []
