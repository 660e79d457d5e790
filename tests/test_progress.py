"""A bar where it is seen, one line in the log elsewhere, and no bar without standard error."""

from __future__ import annotations

import logging
import sys

import pytest

from fundlab.progress import progress_bar


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
