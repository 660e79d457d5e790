"""A bar where it is seen, one line in the log elsewhere, no bar without standard error, and none
that stays in a notebook."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from extra_packages import needs

import fundlab as fl
from fundlab.base.progress import expect, progress_bar


@pytest.mark.parametrize("enabled", [None, True])
def test_a_closed_standard_error_gets_no_bar(
    enabled: bool | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with caplog.at_level(logging.INFO, "fundlab"), progress_bar(2, enabled=enabled) as bar:
        bar.update(2)
    assert caplog.messages[0].startswith("rows: 2 rows in ")


@pytest.mark.parametrize(("enabled", "shown"), [(None, False), (False, False), (True, True)])
def test_a_bar_goes_to_standard_error(
    enabled: bool | None, shown: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress_bar(2, desc="reading", enabled=enabled) as bar:
        bar.update(2)
    printed, errors = capsys.readouterr()
    assert (printed, "reading" in errors) == ("", shown)


def test_a_judgement_that_takes_no_second_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a terminal that a notebook reads, which would keep the emptied line."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert fl.reconcile.judge(fl.sample()).state == "proved"
    assert terminal.getvalue() == ""


def test_a_bar_says_how_many_a_second_and_how_long_still(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_bar(desc="reading", enabled=True) as bar:
        bar.start_t -= 10
        bar.last_print_t -= 10
        expect(bar, None)
        bar.update(250)
        assert "250 rows [00:10, 2" in str(bar)
        expect(bar, 1000)
        bar.refresh()
    shown = capsys.readouterr().err.split("\r")
    assert re.search(r"25%.* 250/1000 \[00:10<00:[23]\d, +2[345][.\d]* rows/s\]", "".join(shown))


WITHOUT_WIDGETS = "sys.modules['ipywidgets'] = None"
WITH_WIDGETS = "sys.modules.pop('ipywidgets', None)"
CELL = """
import sys
{before}
from fundlab.base.progress import expect, progress_bar
with progress_bar({total}, desc="reading") as bar:
    expect(bar, 4)
    for _ in range(4):
        bar.update(1)
        bar.refresh()
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    manager, client = needs("jupyter_client.manager").start_new_kernel()
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "kind"),
    [
        (WITHOUT_WIDGETS, "text/plain"),
        (WITH_WIDGETS, "application/vnd.jupyter.widget-view+json"),
    ],
    ids=["without widgets", "with widgets"],
)
def test_a_notebook_shows_a_bar_and_keeps_nothing_of_it(
    kernel: Any, before: str, kind: str
) -> None:
    heard: list[dict[str, Any]] = []
    answer = kernel.execute_interactive(
        CELL.format(before=before, total=None), output_hook=heard.append, timeout=60
    )
    assert answer["content"]["status"] == "ok", answer["content"]
    assert [one["content"] for one in heard if one["msg_type"] == "stream"] == []
    shown = [one["content"] for one in heard if one["msg_type"].endswith("display_data")]
    assert len({one["transient"]["display_id"] for one in shown}) == 1
    assert kind in shown[0]["data"]
    assert kind in shown[-2]["data"]
    assert shown[-1]["data"] == {}
    if kind == "text/plain":
        assert any("reading: 100%|" in one["data"].get(kind, "") for one in shown)


@pytest.mark.thorough
@pytest.mark.parametrize("before", [WITHOUT_WIDGETS, WITH_WIDGETS])
def test_what_is_done_at_once_leaves_no_output_in_a_notebook(kernel: Any, before: str) -> None:
    """An emptied output is an empty line in the notebook, and in its file."""
    heard: list[dict[str, Any]] = []
    cell = CELL.format(before=before, total=4).replace("bar.refresh()", "pass")
    answer = kernel.execute_interactive(cell, output_hook=heard.append, timeout=60)
    assert answer["content"]["status"] == "ok", answer["content"]
    assert [one for one in heard if one["msg_type"].endswith("display_data")] == []
    slow = cell.replace("pass", "__import__('time').sleep(0.3)")
    kernel.execute_interactive(slow, output_hook=heard.append, timeout=60)
    shown = [one["content"] for one in heard if one["msg_type"].endswith("display_data")]
    assert len({one["transient"]["display_id"] for one in shown}) == 1
    assert shown[-1]["data"] == {}
