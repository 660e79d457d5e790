"""Some fifty wrong commands and as many wrong calls: each answer names the cause and the way out.

The table of them is ``wrong_usage.txt``; ``WRITE_TABLE=1`` writes it anew, to be looked at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

import fundlab as fl
from fundlab import sandbox
from fundlab.cli import root_command
from fundlab.settings.settings import Settings

TABLE = Path(__file__).with_name("wrong_usage.txt")
WAY_OUT = re.compile(
    r"\b(give|name|run|choose|change|check|set|write|needed|did you mean|is for|such as|do what)\b"
    r"|is not one of|there are|closed are|has |known are|should be|Try |no name holds|There are"
    r"|Options:|makes one"
)
"""What is accepted, what there is, or what to do: one of these words leads to it."""
TYPER = re.compile(r" Try '| Options:")
COMMANDS = [
    [], ["snyc"], ["sync", "transfer"], ["sync", "moons"], ["sync", "--workers", "0"],
    ["sync", "--since", "yesterday"], ["sync", "--stroe", "x"], ["sync"],
    ["sync", "--profile", "x"],
    ["verify", "--store", "nowhere"], ["verify", "now"], ["compact", "--store", "nowhere"],
    ["export", "transfers"], ["export", "moons", "--out", "a.csv", "--format", "csv"],
    ["export", "transfers", "--out", "a.xlsx", "--format", "csv"],
    ["export", "transfers", "--out", "a.pdf", "--format", "pdf"],
    ["export", "transfers", "--out", "october"],
    ["report", "--period", "October"], ["report", "--period", "2026-13"],
    ["report", "--tz", "Moon"],
    ["report", "--format", "pdf"], ["report", "--catch-up", "--as-of", "2026-10-01"],
    ["report", "--basis", "booked"], ["report", "--store", "nowhere"],
    ["close", "soon"], ["close"], ["close", "2026-10", "--with-breaks"],
    ["reopen", "2026-10"], ["bank"], ["bank", "a.csv", "--side", "theirs"],
    ["withdraw"], ["withdraw", "--profile", "p", "--fiat-account", "a", "--amount", "ten"],
    ["withdraw", "--profile", "9" * 8 + "-9999" * 3 + "-" + "9" * 12, "--fiat-account", "a",
     "--amount", "ten"],
    ["keys"], ["keys", "new"], ["keys", "new", "--alg", "RSA", "--out", "k"], ["doctor"],
    ["init", "--name", "a b"], ["status", "--max-age", "long"], ["status", "--expect", "moon"],
    ["schedule", "anacron"], ["schedule", "cron", "--at", "6am"],
    ["schedule", "cron", "--work", "my reports"],
    ["sync", "--store", r"C:\books"], ["status", "--store", "my books"],
    ["balances", "--limit", "0"], ["accounts"], ["transfers", "--store", "nowhere"],
    ["backup"], ["restore", "nowhere", "--store", "new"], ["anchor", "--store", "nowhere"],
    ["verify", "--anchor", "x"], ["accept-gone", "--all"], ["reperform", "nowhere"],
    ["sandbox", "--port", "-1"], ["sandbox", "--clock", "slow"],
    ["export", "events", "--out", "a.csv", "--format", "csv", "--until", "soon"],
    ["report", "--as-of", "soon"],
]  # fmt: skip
CALLS: list[Callable[[fl.Client, fl.Store], object]] = [
    lambda c, s: s.read("transfer"),
    lambda c, s: s.read("transfers", columns=["totl"]),
    lambda c, s: s.read("transfers", as_of="yesterday"),
    lambda c, s: s.read("transfers", pin="october"),
    lambda c, s: s.read("transfers", as_of="2026-10-01", pin="october"),
    lambda c, s: s.read("addresses", profile_id="x"),
    lambda c, s: s.read("events", settled=True),
    lambda c, s: s.scan("transfers", engine="polars"),
    lambda c, s: s.scan("transfers", engine="spark"),
    lambda c, s: s.scan("transfers", memory_limit="much"),
    lambda c, s: s.sync(c, tables=["moons"]),
    lambda c, s: s.sync(c, tables=[]),
    lambda c, s: s.sync(c, since="soon"),
    lambda c, s: s.pin("a/b"),
    lambda c, s: s.reopen("2026-10", by="Ana", reason="late"),
    lambda c, s: s.reopen("2026-10", by="", reason="late"),
    lambda c, s: s.annotate("t-1"),
    lambda c, s: s.compact(["moons"]),
    lambda c, s: s.publish(s.path),
    lambda c, s: fl.Store("s3//bucket\0"),
    lambda c, s: c.get_transfer(""),
    lambda c, s: c.get_transfer("nobody"),
    lambda c, s: list(c.list_transfers(statuses=["DONE"])),
    lambda c, s: list(c.list_transfers(page_size=0)),
    lambda c, s: list(c.list_transfers(created_at_gte="soon")),
    lambda c, s: c.get_profile_balance("nobody", "USD"),
    lambda c, s: fl.connect(base_url="http://example.com"),
    lambda c, s: fl.connect(base_urll="x"),  # type: ignore[call-arg]
    lambda c, s: Settings.load("nobody"),
    lambda c, s: s.known("moons"),
    lambda c, s: fl.load_transfers(c, statuses="DONE"),
    lambda c, s: fl.report(s, "October"),
    lambda c, s: fl.report("books"),  # type: ignore[arg-type]
    lambda c, s: fl.report(s, formats=["pdf"]),
    lambda c, s: fl.flows.net(s.read("transfers"), freq="Z"),
    lambda c, s: fl.balances.running(s.read("transfers"), view="net"),
    lambda c, s: fl.fees.summary(s.read("transfers"), by=["colour"]),
    lambda c, s: fl.plan_withdrawal(c, profile_id="p", fiat_account_id="a", amount="ten"),
    lambda c, s: fl.plan_withdrawal(c, profile_id="p", fiat_account_id="a", amount=1.5),
    lambda c, s: s.history("moons"),
    lambda c, s: s.sync("production"),  # type: ignore[arg-type]
    lambda c, s: fl.load_transfers("production"),  # type: ignore[arg-type]
    lambda c, s: fl.load_balances(None, ["p"], ["USD"]),  # type: ignore[arg-type]
    lambda c, s: fl.plan_deposit("production", profile_id="p"),  # type: ignore[arg-type]
    lambda c, s: fl.Store("nowhere").read("transfers"),
    lambda c, s: fl.Store("nowhere").verify(),
    lambda c, s: fl.reconcile.judge(fl.Store("nowhere")),
    lambda c, s: fl.Store(r"D:\books"),
    lambda c, s: fl.load_transfer,  # type: ignore[attr-defined]
    lambda c, s: fl.bank.read("nowhere.xml"),
    lambda c, s: fl.sql("select * from moons"),
    lambda c, s: fl.charts.flow_bars(s.read("transfers"), asset="USD"),
    lambda c, s: s.close("soon"),
    lambda c, s: fl.show("transfers"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=10) as serving:
        yield serving


def answers(fundlab: Any, service: sandbox.Sandbox, folder: Path) -> Iterator[tuple[str, str]]:
    for arguments in COMMANDS:
        status, _, err = fundlab(*arguments)
        assert status in (1, 2), arguments
        said = " ".join(line for line in err.splitlines() if not line.startswith("Usage:"))
        yield f"fundlab {' '.join(arguments)}", f"{status} {said}"
    source = Path(__file__).read_text(encoding="utf-8").partition("CALLS: ")[2]
    texts = re.findall(r"^    lambda c, s: (.*?),(?:  #.*)?$", source, re.MULTILINE)
    with service.connect() as client:
        store = fl.Store(folder / "books")
        store.sync(client, tables=["transfers"])
        for text, call in zip(texts, CALLS, strict=True):
            with pytest.raises((fl.errors.FundlabError, OSError, AttributeError)) as caught:
                call(client, store)
            yield text, f"{type(caught.value).__name__} {caught.value}"


@pytest.mark.seconds
def test_each_names_the_cause_and_the_way_out(
    fundlab: Any, service: sandbox.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FUNDLAB_STORE", str(tmp_path / "books"))
    (tmp_path / "books").mkdir()
    rows = []
    for wrong, said in answers(fundlab, service, tmp_path):
        text = " ".join(said.split()).replace(str(tmp_path), "FOLDER")
        text = re.sub(r"http://127\.0\.0\.1:\d+", "SERVICE", text)
        text = re.sub(r"(sandbox|request|req)[-_ ][0-9a-f-]{8,}", r"\1-ID", text)
        rows.append(f"{wrong}\n    {text}\n")
    if os.environ.get("WRITE_TABLE"):
        TABLE.write_text("\n".join(rows), encoding="utf-8")
    assert len(rows) == len(COMMANDS) + len(CALLS) > 100
    assert [row for row in rows if not WAY_OUT.search(row.partition("\n")[2])] == []
    expected = [f"{row}\n" for row in TABLE.read_text("utf-8").removesuffix("\n").split("\n\n")]
    if Version(version("typer")) < Version("0.29"):  # it words its own refusals in another way
        rows, expected = (
            [row for row in table if not TYPER.search(row)] for table in (rows, expected)
        )
    assert rows == expected


def test_no_two_parameters_of_a_command_have_one_name() -> None:
    """They would share one value, as ``--bank-profile`` and ``--profile`` did."""
    every: list[Any] = [root_command()]
    for command in every:
        every.extend(getattr(command, "commands", {}).values())
        names = [one.name for one in command.params]
        assert len({*names}) == len(names), command.name
    assert len(every) > 40
