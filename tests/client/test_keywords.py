"""The keywords of ``connect()`` and the loaders are known to editors and type checkers."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import SettingsError
from fundlab.client.arguments import (
    AddressFilters,
    EventFilters,
    FiatAccountFilters,
    TransferFilters,
)
from fundlab.models import OPERATIONS
from fundlab.settings.settings import SettingKeywords

ROOT = Path(__file__).parents[2]
IMPORTS = """
from fundlab.client.client import connect
from fundlab.sync.loaders import load_addresses, load_transfers
from fundlab.sandbox import serve
"""
RIGHT = """
client = connect(base_url="https://a", client_secret_file="secret.txt", rate_limit=2)
load_transfers(client, statuses="PENDING", since="2026-01-01", workers=2, limit=10)
load_transfers(client, ids=(one for one in ["a"]), type=["WIRE_DEPOSIT"], order="DESC")
load_addresses(client, bookmarked_status=True, identity_id="i")
"""
WRONG = {
    'connect(base_ulr="https://a")': 'Unexpected keyword argument "base_ulr" for "connect"',
    'load_transfers(client, statuss="PENDING")': 'Unexpected keyword argument "statuss"',
    'load_transfers(client, status="PENDING")': 'Unexpected keyword argument "status"',
    'load_addresses(client, profile_ids=["a"])': 'Unexpected keyword argument "profile_ids"',
    'load_transfers(client, order="UP")': 'Argument "order" to "load_transfers" has incompatible',
    "load_transfers(client, ids=[5])": 'List item 0 has incompatible type "int"',
    "connect(sandbox=[])": 'Argument "sandbox" to "connect" has incompatible type',
    'serve().connect(cleint_id="a")': 'Unexpected keyword argument "cleint_id"',
}
NUMPY = """
import datetime, numpy, pandas, fundlab as fl
fl.load_transfers(client, since=datetime.date(2026, 1, 1), until=numpy.datetime64("2026-01-01"))
fl.load_transfers(client, workers=numpy.int64(2), profile_ids=pandas.Series(["a"]))
fl.load_transfers(client, created_at_gte=pandas.Timestamp("2026-01-01"), ids=numpy.array(["a"]))
"""


def complaints(source: str, folder: Path, *options: str) -> list[str]:
    """What mypy says of ``source``, a line each."""
    snippet = folder / "snippet.py"
    snippet.write_text(source)
    command = [sys.executable, "-m", "mypy", *options, "--no-error-summary", "--hide-error-context"]
    done = subprocess.run(
        [*command, f"--cache-dir={folder}", "--follow-imports=silent", "--no-pretty", str(snippet)],
        cwd=ROOT, env={"MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if ": error: " in line]


@pytest.mark.thorough
def test_mypy_catches_a_keyword_that_does_not_exist(tmp_path: Path) -> None:
    """Without the libraries, whose types take half a minute to read."""
    alone = ("--no-site-packages", "--ignore-missing-imports", "--config-file=")
    found = complaints(IMPORTS + RIGHT + "\n".join(WRONG), tmp_path, *alone)
    assert len(found) == len(WRONG)
    for line, expected in zip(found, WRONG.values(), strict=True):
        assert expected in line


@pytest.mark.slow
def test_mypy_takes_what_numpy_and_pandas_have(tmp_path: Path) -> None:
    assert complaints(IMPORTS + RIGHT + NUMPY, tmp_path, "--config-file=pyproject.toml") == []


@pytest.mark.parametrize(
    ("operation", "load", "keywords"),
    [
        ("list_transfers", fl.load_transfers, TransferFilters),
        ("list_events", fl.load_events, EventFilters),
        ("list_crypto_destination_addresses", fl.load_addresses, AddressFilters),
        ("list_fiat_accounts", fl.load_fiat_accounts, FiatAccountFilters),
        ("list_fiat_deposit_instructions", fl.load_deposit_instructions, FiatAccountFilters),
    ],
)
def test_a_loader_knows_every_filter_of_its_list(
    operation: str, load: Callable[..., object], keywords: Any
) -> None:
    query = OPERATIONS[operation].query
    assert query is not None
    assert keywords.__annotations__.keys() == query.model_fields.keys() - {"limit", "page_cursor"}
    shown = inspect.signature(load).parameters
    assert all(shown[name].default is None for name in keywords.__annotations__)
    assert (shown["workers"].default, shown["invalid"].default) == (1, "stop")
    assert f"{list(keywords.__annotations__)[-1]}: " in pydoc.render_doc(load)


def test_connect_knows_every_setting() -> None:
    with pytest.raises(SettingsError, match=r"unknown setting base_ulr \(did you mean base_") as e:
        fl.connect(base_ulr="https://a")  # type: ignore[call-arg]
    known = str(e.value).partition("known are ")[2].split(", ")
    assert sorted(SettingKeywords.__annotations__) == known
