"""Account numbers: one mask everywhere, and the complete number only where one asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter
from rich.console import Console

import fundlab as fl
from fundlab import reports
from fundlab.base.errors import DataError, ProtocolError
from fundlab.cli.demo import BANK, OWNER
from fundlab.client.calls import read_answer
from fundlab.client.transport import Reply
from fundlab.models import CreateFiatAccount, FiatAccount, FiatNetworkInstructions
from fundlab.payments.accounts import look_alikes
from fundlab.payments.plan import bank_account
from fundlab.reports.figures import masked_account
from fundlab.sandbox import Sandbox

NUMBER = "000123456789"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with fl.sandbox.serve(seed=7, transfers=60, clock="manual") as running:
        yield running


def displays(value: object) -> dict[str, str]:
    """What a terminal, a notebook and a pretty printer make of ``value``."""
    bundle, _ = DisplayFormatter().format(value)
    page = StringIO()
    Console(file=page, width=400).print(value)
    return {"repr": repr(value), "str": str(value), "rich": page.getvalue(), **bundle}


def wire(number: object, **more: Any) -> dict[str, Any]:
    return {"wire": {**BANK["wire"], "account_number": number, **more}}


def account(number: object, **more: Any) -> FiatAccount:
    instructions = wire(number, **more)
    return FiatAccount.model_validate({"id": "a", "fiat_network_instructions": instructions})


def test_the_number_is_masked_in_every_display_and_complete_where_asked_for(
    sandbox: Sandbox,
) -> None:
    with sandbox.connect() as client:
        made = client.create_fiat_account(
            fiat_account_owner=OWNER, fiat_network_instructions=wire(NUMBER)
        )
        sandbox.clock.advance(11)
        found = client.get_fiat_account(made.id)
        frame = fl.load_fiat_accounts(client)
        plan = fl.plan_account_update(client, made.id, fiat_network_instructions=wire("99887766"))
    parts = [found.fiat_network_instructions, found.fiat_network_instructions.wire, [made]]
    for value in (found, made, *parts, plan, frame, frame["fiat_network_instructions"].tolist()):
        for kind, text in displays(value).items():
            assert NUMBER not in text, kind
            assert "99887766" not in text, kind
    assert "account_number='••••6789'" in repr(found)
    assert found.fiat_network_instructions.wire.account_number == NUMBER
    assert found.to_json()["fiat_network_instructions"]["wire"]["account_number"] == NUMBER


@pytest.mark.parametrize(
    "odd",
    [
        {"fiat_network_instructions": {"wallet_address": NUMBER}},
        {"fiat_network_instructions": {"cubix": {"account_id": NUMBER}}},
        {"fiat_network_instructions": wire("1", iban=NUMBER)},
        {"fiat_network_instructions": wire("1", beneficiaryAccountNumber=NUMBER)},
        {"fiat_network_instructions": wire("1", intermediary_routing_details={
            "bank_name": "Transit Bank", "account_number": NUMBER})},
        {"fiat_account_owner": {"fiat_network_instructions": {"cubix": {"account_id": NUMBER}}}},
        {"metadata": {"cubix": {"account_id": NUMBER}, "numbers": [{"account_no": NUMBER}]}},
    ],
)  # fmt: skip
def test_numbers_are_masked_wherever_the_service_puts_them(odd: dict[str, Any]) -> None:
    found = FiatAccount.model_validate({"id": "a", **odd})
    assert all(NUMBER not in text for text in displays(found).values())
    assert "••••6789" in repr(found)
    assert found.to_json() == {"id": "a", **odd}


def test_a_request_shows_no_number() -> None:
    body = {"fiat_account_owner": OWNER, "fiat_network_instructions": wire(NUMBER)}
    request = CreateFiatAccount.model_validate(body)
    assert all(NUMBER not in text for text in displays(request).values())
    assert request.to_json()["fiat_network_instructions"]["wire"]["account_number"] == NUMBER


def read(answer: Any) -> FiatAccount:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return read_answer(FiatAccount, "get_fiat_account", Reply(body, "request-1", 200))


def test_a_malformed_answer_is_told_without_the_number() -> None:
    for nested in (wire(int("7" + NUMBER)), wire([NUMBER]), {"wire": [wire(NUMBER)]}):
        with pytest.raises(DataError) as caught:
            read({"id": "a", "fiat_network_instructions": nested})
        assert NUMBER not in str(caught.value) + str(vars(caught.value))
    owner = {"fiat_network_instructions": wire(int("7" + NUMBER))}
    with pytest.raises(DataError) as caught:
        read({"id": "a", "fiat_account_owner": owner})
    assert NUMBER not in str(caught.value)
    with pytest.raises(ProtocolError, match="not JSON") as cut:
        read(b'{"wire":{"account_number": "%s' % NUMBER.encode())
    assert NUMBER not in str(cut.value)


numbers = st.text("0123456789ABCXYZabc -•é.", max_size=34) | st.from_regex(
    r"\A[A-Z]{2}[0-9]{2}( ?[0-9A-Z]{4}){2,7}\Z"
)


@given(numbers)
def test_plan_batch_report_and_repr_show_the_same_of_any_number(number: str) -> None:
    shown = bank_account(account(number)).number  # what the cards of plans and batches print
    kept = shown.removeprefix("••••")
    characters = [char for char in number if char.isalnum()]
    assert kept == ("".join(characters[-4:]) if len(characters) >= 8 else "")
    assert f"account_number={shown!r}" in repr(account(number))
    cubix = FiatNetworkInstructions.model_validate({"cubix": {"account_id": number}})
    assert f"account_id={shown!r}" in repr(cubix)
    assert bank_account(FiatAccount(id="a", fiat_network_instructions=cubix)).number == shown
    assert masked_account("a" * 36, json.dumps(wire(number))) == f"{shown} First Harbor Bank"


@pytest.mark.thorough
def test_the_cards_and_the_report_show_the_same(sandbox: Sandbox) -> None:
    shown = {"123456": "••••", "12345678": "••••5678", "GB33 BUKB 2020 1555 5555 55": "••••5555"}
    ids = []
    with sandbox.connect() as client:
        for number, expected in shown.items():
            made = client.create_fiat_account(
                fiat_account_owner=OWNER, fiat_network_instructions=wire(number)
            )
            ids.append(made.id)
            sandbox.clock.advance(11)
            profile = sandbox.profile_ids[0]
            payment = {"profile_id": profile, "fiat_account_id": made.id, "amount": "7.00"}
            plan = fl.plan_withdrawal(client, **payment, say=lambda line: None)
            batch = fl.plan_withdrawals(client, pd.DataFrame([payment]))
            for card in (repr(plan), plan._repr_html_(), repr(batch), batch._repr_html_()):
                assert f"First Harbor Bank {expected}" in card
                assert number not in card
            plan.submit(confirm=plan.code)
            sandbox.clock.advance(6)
        accounts = {"id": ids, "fiat_network_instructions": [json.dumps(wire(n)) for n in shown]}
        built = reports.build(
            fl.load_transfers(client), fl.load_balances(client), title="Report",
            as_of=sandbox.clock.now(), fiat_accounts=pd.DataFrame(accounts),
        )  # fmt: skip
    recipients = {*built.withdrawals["recipient"]}
    assert {f"{expected} First Harbor Bank" for expected in shown.values()} <= recipients


def test_two_hidden_numbers_are_not_taken_for_one_account() -> None:
    class Lists:
        def list_fiat_accounts(self, **asked: Any) -> list[FiatAccount]:
            return [account("111111")]

    shown = bank_account(account("222222"))
    assert look_alikes(Lists(), shown) == ()  # type: ignore[arg-type]
