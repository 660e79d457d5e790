"""Schemathesis against the served OpenAPI document: all checks, all phases, links followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from extra_packages import needs
from sandbox_caller import Caller, caller_of

from fundlab.sandbox import Sandbox, serve

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("examples", "calls"),
    [(1, 1_000), pytest.param(110, 5_000, marks=pytest.mark.campaign)],
)
def test_no_check_fails(tmp_path: Path, examples: int, calls: int, seed: int, figure: Any) -> None:
    """§§2 to 8 as the document tells them; ``schemathesis_hooks`` has what it cannot tell."""
    with serve(transfers=300, clock="fast") as sandbox:
        caller = caller_of(sandbox)
        report = explore(sandbox, caller, tmp_path, examples, seed)
        statuses = set(sandbox.requests()["status"])
        caller.close()
    made = report["test_cases"]["generated"]
    figure(
        f"the service holds: Schemathesis, all checks, {made:,} calls to "
        f"{report['operations']['tested']} operations in {len(report['phases'])} phases: 0 failures"
    )
    assert made >= calls
    assert {phase["status"] for phase in report["phases"].values()} == {"success"}
    assert report["operations"]["tested"] == 18
    assert statuses <= {200, 400, 401, 403, 404, 405, 409, 413, 415}


def explore(
    sandbox: Sandbox, caller: Caller, folder: Path, examples: int, seed: int
) -> dict[str, Any]:
    """Run every phase with every check; the report, once nothing failed."""
    needs("schemathesis")
    from schemathesis_hooks import KNOWN

    report = folder / "report.json"
    caller.http.get(f"{sandbox.base_url}/openapi.json")  # made once: slower than its reader waits
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{sandbox.base_url}/openapi.json",
        "--checks", "all", "--phases", "examples,coverage,fuzzing,stateful",
        "--max-examples", str(examples), "--seed", str(seed), "--generation-database", "none",
        "--generation-allow-x00", "false",  # refused everywhere, as the hostile bodies show
        "--header", f"Authorization: Bearer {caller.token()}", "--no-color",
        "--request-timeout", "60", "--report", "json", "--report-json-path", str(report),
    ]  # fmt: skip
    environment = {
        **os.environ,
        KNOWN: json.dumps(known_values(sandbox, caller)),
        "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    found: dict[str, Any] = json.loads(report.read_text())
    return found


def known_values(sandbox: Sandbox, caller: Caller) -> dict[str, list[str]]:
    """Some of what exists, by the names under which calls ask for it."""
    accounts = [row["id"] for row in caller.rows("/v2/transfer/fiat-accounts")]
    memos = [row["memo_id"] for row in caller.rows("/v2/transfer/fiat-deposit-instructions")]
    user = sandbox.control.add_identity()
    return {
        "profile_id": sandbox.profile_ids[:1],
        "identity_id": [user["identity_id"]],
        "account_id": [user["account_id"]],
        "asset": ["USD", "USDC", "BTC"],
        "fiat_account_id": accounts[:5],
        "memo_id": memos[:5],
    }
