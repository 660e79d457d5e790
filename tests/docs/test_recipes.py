"""Each recipe, run as the cells of a kernel, displays what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cells import run_cells

from fundlab import docs

RECIPES = sorted((docs.SOURCE / "recipes").glob("*.md"))
CELL = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)\n```\n)?", re.DOTALL)


def test_there_are_as_many_as_the_readme_says_and_each_shows_something() -> None:
    every = [part for path in RECIPES for part in path.read_text("utf-8").split("\n## ")[1:]]
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert f"- {len(every)} tasks in a minute each:" in readme
    assert [one.partition("\n")[0] for one in every if "```text" not in one] == []
    assert all(one.partition("\n")[0].endswith("?") for one in every)


@pytest.mark.thorough
@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_displays_what_stands_below_it(path: Path, tmp_path: Path) -> None:
    cells = CELL.findall(path.read_text("utf-8"))
    displayed = run_cells([code for code, _ in cells], tmp_path)
    for (code, expected), shown in zip(cells, displayed, strict=True):
        assert "\n".join(one["text/plain"] for one in shown) == expected, code
