"""The README's examples run as they stand, one after another, in an empty folder."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fundlab.sandbox import serve

README = Path(__file__).parents[1] / "README.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 9  # six on the sample, a store of one's own, a payment in two cells
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


@pytest.mark.thorough
def test_the_cron_line_reports_the_months_that_are_over_once_and_quietly(tmp_path: Path) -> None:
    (line,) = re.findall(r"^15 6 \* \* \* (.+)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    command = line.replace("/srv/funds", str(tmp_path))
    command = re.sub(r"\bfundlab (?=sync|report)", f"{sys.executable} -m fundlab ", command)
    assert command.count("-m fundlab") == 2
    with serve(transfers=200) as sandbox:
        settings = {
            "FUNDLAB_BASE_URL": sandbox.base_url,
            "FUNDLAB_AUTH_URL": sandbox.auth_url,
            "FUNDLAB_CLIENT_ID": sandbox.client_id,
            "FUNDLAB_CLIENT_SECRET": sandbox.client_secret,
        }
        environment = {"HOME": str(tmp_path), "PYTHONPATH": str(README.parent), **settings}
        written = []
        for _ in range(2):
            run = subprocess.run(
                ["/bin/sh", "-c", command], env=environment, capture_output=True, text=True
            )
            assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
            written.append({path: path.stat().st_mtime_ns for path in tmp_path.glob("reports/*")})
    last_month = pd.Timestamp.now("UTC").tz_localize(None).to_period("M") - 1
    months = [str(month) for month in pd.period_range("2026-10", last_month, freq="M")]
    pages = sorted(path.name for path in written[0] if path.suffix == ".html")
    assert pages == [f"report-{month}.html" for month in months]
    assert written[1] == written[0]


def test_the_unit_runs_what_cron_runs() -> None:
    text = README.read_text(encoding="utf-8")
    (line,) = re.findall(r"^15 6 \* \* \* cd /srv/funds && (.+)$", text, re.MULTILINE)
    (unit,) = re.findall(r"^ExecStart=/bin/sh -c '(.+)'$", text, re.MULTILINE)
    assert unit.replace("$$", "$") == line.replace(" >/dev/null", "")
