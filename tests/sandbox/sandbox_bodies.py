"""Paths of the interface, parts of bodies, and what a refusal looks like."""

from __future__ import annotations

from typing import Any

from sandbox_caller import WIRE

from fundlab.sandbox import Sandbox

INSTRUCTIONS = "/v2/transfer/fiat-deposit-instructions"
ACCOUNTS = "/v2/transfer/fiat-accounts"
WITHDRAWALS = "/v2/transfer/fiat-withdrawals"
ADDRESSES = "/v2/transfer/deposit-addresses"
RULES = "/v2/orchestration/rules"
QUOTES = "/v2/transfer/fees/crypto-withdrawal"
SWIFT = {
    "wire": {
        "account_number": "DE89370400440532013000",
        "routing_details": {
            "routing_number_type": "SWIFT", "routing_number": "DEUTDEFF", "bank_name": "Bank",
        },
        "intermediary_routing_details": {
            "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "Between",
        },
    }
}  # fmt: skip
MISSING = "00000000-0000-4000-8000-000000000000"


def with_routing(number: str, place: str = "routing_details", kind: str = "ABA") -> dict[str, Any]:
    """``WIRE`` with another routing number, or of another kind, at ``place``."""
    details = {
        **WIRE["wire"]["routing_details"], "routing_number": number, "routing_number_type": kind,
    }  # fmt: skip
    return {"wire": {**WIRE["wire"], place: details}}


def withdrawal(sandbox: Sandbox, target_id: str, amount: str, **extra: Any) -> dict[str, Any]:
    return {
        "amount": amount, "asset": "USD", "fiat_account_id": target_id,
        "profile_id": sandbox.profile_ids[0], **extra,
    }  # fmt: skip


def assert_problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == status
    assert problem["title"]
    return problem
