"""The notebooks: kept with their outputs, and saying the same again from an empty folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from extra_packages import needs

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("[0-9]*.ipynb"))
SAME_EACH_TIME = ("01-first-hour", "02-closing-a-month", "03-fees", "09-the-banks-side",
                  "10-finding-a-difference", "11-after-the-close",
                  "12-from-close-to-the-ledger")  # fmt: skip
"""The others show clocks, ports or times of their own."""
LARGEST = 600_000
LONGEST_CELL_S = 120

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return needs("nbformat").read(path, as_version=4)


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def texts(notebook: Any) -> list[list[Any]]:
    """What each cell prints and shows; pictures differ between versions of what draws them, and
    where a step takes long its progress leaves empty displays."""
    return [
        [output.get("text") or ("a picture" if "image/png" in output.data else output.data)
         for output in cell.outputs if output.get("data") != {}]
        for cell in code_cells(notebook)
    ]  # fmt: skip


def complaints(notebook: Any) -> list[Any]:
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return [one for one in outputs if one.output_type == "error" or one.get("name") == "stderr"]


@pytest.mark.thorough
@every_notebook
def test_it_is_kept_with_its_outputs(path: Path) -> None:
    notebook = read(path)
    needs("nbformat").validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert complaints(notebook) == []
    assert not [one for cell in cells for one in cell.outputs if one.get("data") == {}]
    assert path.stat().st_size < LARGEST


@pytest.mark.slow
@every_notebook
def test_it_runs_from_an_empty_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    ran = read(path)
    resources = {"metadata": {"path": str(here)}}
    needs("nbclient").NotebookClient(
        ran, timeout=LONGEST_CELL_S, resources=resources, coalesce_streams=True
    ).execute()
    assert complaints(ran) == []
    assert [*here.iterdir()] == []
    if path.stem in SAME_EACH_TIME:
        assert texts(ran) == texts(read(path))
        assert [*temporary.iterdir()] == []
