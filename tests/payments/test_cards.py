"""What plans look like, and what they must not show."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from amounts import exactly
from benches import approved_account

import fundlab as fl
from fundlab.base.errors import InvalidRequest, SettingsError
from fundlab.cli.demo import BANK
from fundlab.payments.identity import shown_time
from fundlab.payments.plan import announce
from fundlab.settings.settings import store_folder

NOON = 1_763_726_400 * 1_000_000_000  # 2025-11-21T12:00:00Z


def test_the_card_in_a_terminal(bench: Any) -> None:
    before = bench.available()
    bench.pay("1.00")
    bench.sandbox.clock.advance(6)
    plan = bench.plan("1000.50", now=lambda: NOON)
    lines = [line.strip() for line in repr(plan).splitlines()]
    assert lines[0].startswith(f"── SANDBOX · play money ── {bench.client.base_url} ─")
    assert lines[1] == "Withdraw 1,000.50 USD to Harbor Trading LLC"
    rows = {line.split("  ")[0]: " ".join(line.split("  ")[1:]).strip() for line in lines[3:14]}
    assert rows["From"] == f"profile Treasury · {bench.profile_id}"  # by its name in the sample
    assert rows["To"] == "Harbor Trading LLC First Harbor Bank ••••6789"
    assert rows["Amount"] == "1,000.50 USD"
    assert rows["Fee"].split("  ")[0].startswith("25.00 USD")
    assert rows["Total"] == "1,025.50 USD"
    with exactly():
        assert rows["Available before"] == f"{before - Decimal('26.00'):,.2f} USD"
        assert rows["Available after"] == f"{before - Decimal('1051.50'):,.2f} USD"
    assert f"confirmation code {plan.code} · expires 12:15 UTC" in lines


def test_production_has_a_band_that_cannot_be_missed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = bench.plan()
    assert "background: #1d6b52" in plan._repr_html_()
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    assert "background: #b3261e" in plan._repr_html_()
    assert "PRODUCTION · real money" in plan._repr_html_()
    assert repr(plan).startswith("── PRODUCTION · real money ──")


def test_texts_of_the_service_are_escaped(bench: Any) -> None:
    owner = {"institution_details": {"name": "<script>alert(1)</script>"}}
    account = approved_account(bench.sandbox, bench.client, fiat_account_owner=owner)
    page = bench.plan(fiat_account_id=account.id)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_no_secret_is_shown(bench: Any) -> None:
    plan = bench.plan()
    shown = repr(plan) + plan._repr_html_() + repr(vars(plan)) + str(plan.to_json())
    assert bench.sandbox.client_secret not in shown


def test_times_name_the_day_when_it_is_another() -> None:
    assert shown_time(NOON, NOON + 3600 * 10**9) == "12:00 UTC"
    assert shown_time(NOON, NOON + 12 * 3600 * 10**9) == "2025-11-21 12:00 UTC"


def test_fees_of_late_are_said_of_an_account_that_was_never_paid(bench: Any) -> None:
    wire = BANK["wire"]
    abroad = {"routing_number_type": "SWIFT", "routing_number": "DEUTDEFF"}
    swift = wire | {"routing_details": wire["routing_details"] | abroad}

    def account(**instructions: Any) -> Any:
        return approved_account(bench.sandbox, bench.client, fiat_network_instructions=instructions)

    def fee_line(**instructions: Any) -> str:
        shown = repr(bench.plan(fiat_account_id=account(**instructions).id))
        (line,) = [line for line in shown.splitlines() if line.startswith("  Fee")]
        return " ".join(line.split())

    for paid, fee in (
        ({"cubix": {"account_id": "harbor-1"}}, 0), ({"wire": wire}, 25), ({"wire": swift}, 40),
    ):  # fmt: skip
        assert bench.pay("1.00", fiat_account_id=account(**paid).id).fee == fee
    said = "Fee not known of late {} USD; no {}_WITHDRAWAL to this account"
    assert fee_line(cubix={"account_id": "harbor-2"}) == said.format("0.00", "CUBIX")
    assert fee_line(wire=wire | {"account_number": "555"}) == said.format("25.00 to 40.00", "WIRE")


@pytest.mark.parametrize("limit", ["ten", "-5", "1e3", ""])
def test_limits_that_are_none(bench: Any, limit: str) -> None:
    with pytest.raises(SettingsError, match=r"daily_withdrawal_limit .*such as '10000\.00'"):
        bench.sandbox.connect(daily_withdrawal_limit=limit)


def test_limits_come_from_the_environment_too(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNDLAB_WITHDRAWAL_LIMIT", "250.00")
    monkeypatch.setenv("FUNDLAB_ALLOWED_ACCOUNTS", "a, b")
    settings = bench.sandbox.connect().settings
    assert (settings.withdrawal_limit, settings.allowed_accounts) == (Decimal(250), ("a", "b"))


def test_the_journal_of_the_settings_is_the_default(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert store_folder({}, tmp_path / "none") == Path.cwd() / "data" / "store"
    monkeypatch.setenv("FUNDLAB_STORE", str(bench.store))
    bench.pay("3.00")
    assert fl.journal()["amount"].tolist() == [Decimal(3)]


def test_a_store_that_cannot_be_written_sends_nothing(bench: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(InvalidRequest, match="is a file; a store is a folder"):
        bench.plan(store=blocked)
    assert bench.made() == []


def test_a_name_cannot_repaint_the_terminal(bench: Any) -> None:
    name = "Mallory\x1b[2J\n  Amount  1.00 USD\u202e"
    owner = {"institution_details": {"name": name}}
    account = approved_account(bench.sandbox, bench.client, fiat_account_owner=owner)
    shown = repr(bench.plan(fiat_account_id=account.id))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "Mallory\ufffd[2J\ufffd  Amount  1.00 USD\ufffd" in shown
    frame = pd.DataFrame(
        {"profile_id": [bench.profile_id], "fiat_account_id": account.id, "amount": "1.00"}
    )
    batch = fl.plan_withdrawals(bench.client, frame)
    assert "Mallory\ufffd[2J\ufffd" in repr(batch)


def test_metadata_that_is_certified_is_shown(bench: Any) -> None:
    plan = bench.plan(metadata={"invoice": "Nº 7"})
    assert "Metadata invoice" in repr(plan)
    assert "Nº 7" in plan._repr_html_()


def test_one_service_has_one_code_however_it_is_spelt(bench: Any) -> None:
    url = bench.client.base_url.replace("127.0.0.1", "localhost")
    with bench.sandbox.connect(store=bench.store, base_url=url) as client:
        assert bench.plan(client=client).code == bench.plan().code


ODD = "Evil \u202e6789\x1b[2J"


def test_a_name_cannot_turn_round_the_digits_beside_it(bench: Any) -> None:
    owner = {"institution_details": {"name": ODD}}
    account = approved_account(bench.sandbox, bench.client, fiat_account_owner=owner)
    payments = pd.DataFrame(
        {"profile_id": [bench.profile_id], "fiat_account_id": [account.id], "amount": ["5.00"]}
    )
    batch = fl.plan_withdrawals(bench.client, payments)
    for shown in (bench.plan(fiat_account_id=account.id), batch):
        for text in (repr(shown), shown._repr_html_()):
            assert "Evil �6789�[2J" in text
            assert ODD not in text
            assert "\u202e" not in text


def test_a_line_under_the_cell_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    announce("PENDING\x1b[2J\nCOMPLETED: withdrawal w")
    assert capsys.readouterr().err == "PENDING�[2J�COMPLETED: withdrawal w\n"
