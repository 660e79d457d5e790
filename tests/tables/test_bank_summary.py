"""A bank account is called the same wherever it is shown: card, list, report and matching."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fundlab.models import FiatAccount
from fundlab.payments.plan import bank_account
from fundlab.reports.figures import masked_account
from fundlab.tables.expand import bank_summary

BANK = {"routing_details": {"bank_name": "First Harbor Bank"}}
PERSON = {"first_name": "Ana", "last_name": "Ito", "name": "Ito Trading"}


@pytest.mark.parametrize(
    ("owner", "instructions", "shown"),
    [
        (
            {"person_details": PERSON},
            {"wire": {"account_number": "000123456789", **BANK}},
            ("Ana Ito", "••••6789", "First Harbor Bank", "wire"),
        ),
        (
            {"institution_details": {"name": "Acme Ltd"}, "person_details": None},
            {"wire": {"iban": "GB33 BUKB 2020 1555 5555 55"}},
            ("Acme Ltd", "••••5555", "", "wire"),
        ),
        (
            {"person_details": {"name": "Ito Trading"}},
            {"cubix": {"account_id": "CUBIX-12345678"}},
            ("Ito Trading", "••••5678", "CUBIX", "cubix"),
        ),
        ({}, {"wallet_address": "wallet-00005678"}, ("", "••••5678", "CUBIX", "cubix")),
        ({}, {}, ("", "", "", "")),
    ],
)
def test_everywhere_the_same(owner: Any, instructions: Any, shown: tuple[str, ...]) -> None:
    account = FiatAccount.model_validate(
        {"id": "a", "fiat_account_owner": owner, "fiat_network_instructions": instructions}
    )
    assert account.summary == shown
    assert bank_summary(json.dumps(owner), json.dumps(instructions)) == shown
    card = bank_account(account)
    assert (card.owner, card.number) == (shown[0] or "owner not shown", shown[1])
    words = f"{shown[1]} {shown[2]}".strip()
    assert masked_account("5f0c0e1a-0000", json.dumps(instructions)) == (words or "5f0c…0000")


@pytest.mark.parametrize("text", [None, "", "not JSON", "[1]", '{"wire": 5}'])
def test_what_cannot_be_read_says_nothing(text: str | None) -> None:
    assert bank_summary(text, text) == ("", "", "", "")
