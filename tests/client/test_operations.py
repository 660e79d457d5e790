"""Each operation: what goes over the wire, what comes back, and what is refused before sending."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pandas as pd
import pytest
import scripted
from scripted import answer, problem

from fundlab.base import errors
from fundlab.base.values import Amount
from fundlab.client.client import Client
from fundlab.models import OPERATIONS, FiatAccountOwner, Transfer, TransferType

OWNER = {"person_details": {"first_name": "Ada", "last_name": "Byron"}}
WIRE = {
    "wire": {
        "account_number": "000123456789",
        "fiat_account_owner_address": {"country": "US"},
        "routing_details": {
            "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "First Bank",
            "bank_address": {"country": "US"},
        },
    }
}  # fmt: skip
RULE = {"id": "o", "ref_id": "r", "profile_id": "p"}

SENT: list[tuple[str, dict[str, Any], str, str, Any, Any]] = [
    (
        "create_fiat_deposit_instructions",
        {"profile_id": "p", "fiat_network": "WIRE", "routing_number_type": "ABA", "ref_id": "r"},
        "POST", "/v2/transfer/fiat-deposit-instructions",
        {"profile_id": "p", "fiat_network": "WIRE", "routing_number_type": "ABA", "ref_id": "r"},
        {"id": "d", "memo_id": "M"},
    ),
    (
        "get_fiat_deposit_instructions", {"id": "d 1"},
        "GET", "/v2/transfer/fiat-deposit-instructions/d%201", None, {"id": "d 1"},
    ),
    (
        "list_fiat_deposit_instructions", {"ids": "d", "page_size": 5},
        "GET", "/v2/transfer/fiat-deposit-instructions"
        "?limit=5&order=DESC&order_by=CREATED_AT&ids=d", None, {"items": [{"id": "d"}]},
    ),
    (
        "initiate_sandbox_fiat_deposit",
        {"amount": "5.00", "memo_id": "M", "fiat_network_instructions": WIRE,
         "fiat_account_owner": OWNER},
        "POST", "/v2/sandbox/fiat-deposits",
        {"amount": "5.00", "asset": "USD", "memo_id": "M", "fiat_network_instructions": WIRE,
         "fiat_account_owner": OWNER}, None,
    ),
    (
        "list_transfers",
        {"type": ["WIRE_DEPOSIT", TransferType.CRYPTO_DEPOSIT], "profile_ids": ("p", "q"),
         "order": "ASC"},
        "GET", "/v2/transfer/transfers?limit=100&order=ASC&order_by=CREATED_AT"
        "&profile_ids=p&profile_ids=q&type=WIRE_DEPOSIT&type=CRYPTO_DEPOSIT", None,
        {"items": [{"id": "t", "profile_id": "p", "type": "WIRE_DEPOSIT"}]},
    ),
    ("get_transfer", {"id": "t"}, "GET", "/v2/transfer/transfers/t", None, {"id": "t"}),
    (
        "get_profile_balance", {"profile_id": "p", "asset": "USD"},
        "GET", "/v2/profiles/p/balances/USD", None,
        {"asset": "USD", "available": "1.50", "trading": "0"},
    ),
    (
        "create_fiat_account",
        {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE, "metadata": {"a": "b"}},
        "POST", "/v2/transfer/fiat-accounts",
        {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE, "metadata": {"a": "b"}},
        {"id": "f", "status": "PENDING"},
    ),
    ("get_fiat_account", {"id": "f"}, "GET", "/v2/transfer/fiat-accounts/f", None, {"id": "f"}),
    (
        "update_fiat_account", {"id": "f", "metadata": {"a": "b"}},
        "PUT", "/v2/transfer/fiat-accounts/f", {"metadata": {"a": "b"}}, {"id": "f"},
    ),
    (
        "list_fiat_accounts", {"created_at_gte": "2026-01-01T00:00:00Z"},
        "GET", "/v2/transfer/fiat-accounts"
        "?limit=100&order=DESC&created_at.gte=2026-01-01T00%3A00%3A00Z&order_by=CREATED_AT", None,
        {"items": [{"id": "f", "created_at": "2026-01-01T00:00:00Z"}]},
    ),
    (
        "create_fiat_withdrawal",
        {"amount": Decimal("5.50"), "fiat_account_id": "f", "profile_id": "p", "ref_id": "r"},
        "POST", "/v2/transfer/fiat-withdrawals",
        {"ref_id": "r", "amount": "5.50", "asset": "USD", "fiat_account_id": "f",
         "profile_id": "p"},
        {"id": "t", "fee": "25.00"},
    ),
    (
        "create_fiat_withdrawal",
        {"total": "9.50", "fiat_account_id": "f", "profile_id": "p", "memo": "invoice 7"},
        "POST", "/v2/transfer/fiat-withdrawals",
        {"total": "9.50", "asset": "USD", "fiat_account_id": "f", "profile_id": "p",
         "memo": "invoice 7"},
        {"id": "t", "amount": "8.50", "total": "9.50"},
    ),
    (
        "create_deposit_address",
        {"profile_id": "p", "crypto_network": "SOLANA", "conversion_target_asset": "USD"},
        "POST", "/v2/transfer/deposit-addresses",
        {"profile_id": "p", "crypto_network": "SOLANA", "conversion_target_asset": "USD"},
        {"id": "a", "address": "x"},
    ),
    (
        "create_orchestration_rule",
        {"ref_id": "r", "profile_id": "p", "source_asset": "USDC", "destination_asset": "USD",
         "source": {"profile": {"profile_id": "p"}}},
        "POST", "/v2/orchestration/rules",
        {"ref_id": "r", "profile_id": "p", "source_asset": "USDC", "destination_asset": "USD",
         "source": {"profile": {"profile_id": "p"}}},
        {"rule": RULE},
    ),
    (
        "list_crypto_destination_addresses",
        {"crypto_networks": "BASE", "bookmarked_status": True, "identity_id": "i"},
        "GET", "/v2/transfer/crypto-destination-addresses?limit=100&order=DESC"
        "&order_by=CREATED_AT&crypto_networks=BASE&bookmarked_status=true&identity_id=i", None,
        {"addresses": [{"id": "a", "crypto_network": "BASE", "bookmarked": True}]},
    ),
    (
        "create_crypto_withdrawal_fee",
        {"asset": "BTC", "destination_address": "bc1", "crypto_network": "BITCOIN", "total": 2},
        "POST", "/v2/transfer/fees/crypto-withdrawal",
        {"asset": "BTC", "destination_address": "bc1", "crypto_network": "BITCOIN", "total": "2"},
        {"id": "q", "fee": "0.0001"},
    ),
    (
        "list_events", {"type": "identity.approved", "is_test": False, "page_size": 7},
        "GET", "/v2/events?limit=7&order=ASC&type=identity.approved&is_test=false", None,
        {"events": [{"id": "e", "type": "identity.approved"}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "method", "target", "body", "reply"), SENT, ids=[row[0] for row in SENT]
)
def test_operations(
    name: str, arguments: dict[str, Any], method: str, target: str, body: Any, reply: Any,
    server: scripted.Scripted, client: Client,
) -> None:  # fmt: skip
    server.script(answer(reply) if reply is not None else answer(b""))
    result = getattr(client, name)(**arguments)
    if name == "initiate_sandbox_fiat_deposit":
        assert result is None
    elif name.startswith("list_"):
        items = next(iter(reply))
        assert [row.to_json() for row in result] == reply[items]
    else:
        assert result.to_json() == (RULE if "rule" in reply else reply)
    (request,) = server.received
    assert (request.method, request.target) == (method, target)
    if body is None:
        assert request.body == b""
        assert "content-type" not in request.headers
    else:
        sent = request.json()
        if name != "initiate_sandbox_fiat_deposit" and "ref_id" not in body and method == "POST":
            takes_one = name != "create_crypto_withdrawal_fee"
            assert (sent.pop("ref_id", "")[:8] == "fundlab-") is takes_one
        assert sent == body


def test_there_is_one_method_for_each_operation() -> None:
    assert {row[0] for row in SENT} == set(OPERATIONS)
    for name, operation in OPERATIONS.items():
        parameters = set(inspect.signature(getattr(Client, name)).parameters) - {"self"}
        if operation.body:
            assert parameters - {"id"} == set(operation.body.model_fields), name
        elif operation.query:
            expected = set(operation.query.model_fields) - {"limit"} | {"page_size", "max_rows"}
            assert parameters == expected, name
        documentation = inspect.getdoc(getattr(Client, name)) or ""
        assert f"§{operation.section}" in documentation, name
        for parameter in parameters:
            told = f"``{parameter}``" in documentation or f":param {parameter}:" in documentation
            assert told, f"{name}: {parameter}"


MEMBERS: dict[str, Any] = {
    "profile_id": "p", "ref_id": "r", "identity_id": "i", "account_id": "a", "nickname": "n",
    "metadata": {"a": "b"}, "fiat_network": "WIRE", "routing_number_type": "ABA", "memo_id": "M",
    "fiat_account_owner": OWNER, "fiat_network_instructions": WIRE, "fiat_account_id": "f",
    "amount": "1.00", "total": "2.00", "asset": "USD", "memo": "m", "crypto_network": "SOLANA",
    "conversion_target_asset": "USD", "source_asset": "USDC", "destination_asset": "USD",
    "source": {"profile": {"profile_id": "p"}},
    "destination": {"crypto": {"address": "x", "network": "BASE"}},
    "destination_address": "x",
}  # fmt: skip


@pytest.mark.parametrize("left_out", ["amount", "total"])
@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.body])
def test_every_keyword_reaches_the_body(
    name: str, left_out: str, server: scripted.Scripted, client: Client
) -> None:
    body = OPERATIONS[name].body
    assert body is not None
    given = {field: MEMBERS[field] for field in body.model_fields}
    if "total" in given:
        del given[left_out]
    reply = {"rule": RULE} if "rule" in name else {"id": "f", "fee": "1"}
    server.script(answer(reply if OPERATIONS[name].answer else b""))
    path = {"id": "f"} if name == "update_fiat_account" else {}
    getattr(client, name)(**given, **path)
    assert server.received[0].json() == given


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.query])
def test_every_keyword_reaches_the_query(
    name: str, server: scripted.Scripted, client: Client
) -> None:
    query, page = OPERATIONS[name].query, OPERATIONS[name].items
    assert query is not None
    server.script(answer({page: []}))
    for field, about in query.model_fields.items():
        given: Any = "2026-10-01T00:00:00Z" if "_at_" in field else "BASE"
        given = {"limit": 7, "order": "ASC", "order_by": "CREATED_AT"}.get(field, given)
        given = True if "bool" in str(about.annotation) else given
        keyword = "page_size" if field == "limit" else field
        list(getattr(client, name)(**{keyword: given}))
        sent = dict(parse_qsl(urlsplit(server.received[-1].target).query))
        assert sent[about.alias or field] == str(given).replace("True", "true"), keyword


def test_models_are_taken_for_nested_objects(server: scripted.Scripted, client: Client) -> None:
    server.script(answer({"id": "f"}))
    owner = FiatAccountOwner.model_validate({"institution_details": {"name": "X"}})
    client.update_fiat_account("f", fiat_account_owner=owner)
    assert server.received[0].json() == {
        "fiat_account_owner": {"institution_details": {"name": "X"}}
    }


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("create_fiat_withdrawal", {"amount": "-1"}, "amount: amount '-1' must be digits"),
    ("create_fiat_withdrawal", {"amount": "0.00"}, "amount: .*must be greater than 0"),
    ("create_fiat_withdrawal", {"amount": "1.001"}, "amount: has more than 2 dec.*'1.001' given"),
    ("create_fiat_withdrawal", {"amount": 1.5}, "amount: must be a decimal string such as"),
    ("create_fiat_withdrawal", {"amount": "1\n"}, "must be digits"),
    ("create_fiat_withdrawal", {"amount": "1", "asset": "EUR"}, r"asset: .*'USD'.*'EUR' given"),
    ("create_fiat_withdrawal", {"amount": "1", "profile_id": ""}, "profile_id: .*at least 1"),
    ("create_fiat_withdrawal", {"amount": "1", "metadata": {str(n): "" for n in range(7)}},
     "metadata: Dictionary should have at most 6 items(;|$)"),
    ("create_fiat_withdrawal", {"amount": "1", "metadata": {"a": "x" * 101}}, "at most 100 char"),
    ("create_fiat_withdrawal", {"amount": "1", "ref_id": "\ud800"}, "ref_id: .*unicode"),
    ("create_crypto_withdrawal_fee", {}, "give exactly one of amount and total"),
    ("create_crypto_withdrawal_fee", {"amount": "1", "total": "1"}, "exactly one of amount and"),
    ("create_crypto_withdrawal_fee", {"amount": "1", "crypto_network": "MARS"},
     "crypto_network: .*'BITCOIN'.*'MARS' given"),
    ("create_fiat_deposit_instructions", {"fiat_network": "WIRE"}, "routing_number_type is needed"),
    ("create_fiat_deposit_instructions", {"fiat_network": "SEN"}, "'WIRE' or 'CUBIX'"),
    ("create_fiat_account", {"fiat_account_owner": {}}, "exactly one of institution_details and"),
    ("create_fiat_account", {"fiat_network_instructions": {}}, "exactly one of wire, cubix and"),
    ("create_orchestration_rule", {"destination_asset": "USDC"}, "must differ"),
    ("create_orchestration_rule", {"source": {}}, "exactly one of crypto, fiat and profile"),
    ("list_transfers", {"page_size": 0}, "page_size: .*1 .0 given"),
    ("list_transfers", {"page_size": 1001}, "page_size: .*1000 .1001 given"),
    ("list_events", {"page_size": 101}, "page_size: .*100 .101 given"),
    ("list_transfers", {"max_rows": -1}, "max_rows=-1 is not accepted; give a whole number, 0 or"),
    ("list_transfers", {"order": "UP"}, "order: .*'ASC' or 'DESC'"),
    ("list_transfers", {"ids": [str(n) for n in range(101)], "page_cursor": "x"},
     "page_cursor continues a single list; give at most 100 values"),
    ("list_transfers", {"ids": [1]}, "ids: entry 1 is 1; give texts, without missing values"),
    ("list_transfers", {"ids": ["a", None]}, "ids: entry 2 is None; give texts, without missing"),
    ("list_transfers", {"ids": [], "page_size": 0}, "page_size: .*1 .0 given"),
    ("list_transfers", {"created_at_gte": "2026-01-01"}, "created_at.gte: '2026-01-01' is not an"),
    ("list_transfers", {"created_at_gte": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001
    ("list_transfers", {"order_by": "UPDATED_AT", "created_at_lt": "2026-01-01T00:00:00Z"},
     "order_by UPDATED_AT does not match the filter on created_at"),
]  # fmt: skip


def masked(number: str) -> dict[str, Any]:
    return {"wire": WIRE["wire"] | {"account_number": number}}


REFUSED += [
    ("create_fiat_account", {"fiat_network_instructions": masked("XXXXXXXX6789")},
     r"wire.account_number is masked, .*give the complete number \(an attribute of what get_fiat"),
    ("update_fiat_account", {"fiat_network_instructions": masked("••••6789")}, "number is masked"),
    ("update_fiat_account", {"fiat_network_instructions": masked("X6789")}, "number is masked"),
    ("update_fiat_account", {"fiat_network_instructions": masked("XXXX")}, "number is masked"),
    ("update_fiat_account",
     {"fiat_network_instructions": {"cubix": {"account_id": "XXXXXXXXab-1"}}}, "id is masked"),
    ("update_fiat_account", {"fiat_network_instructions": {"wallet_address": "XXXXXXXX549B"}},
     "fiat_network_instructions.wallet_address is masked"),
    ("create_fiat_account", {"fiat_network_instructions": {"wallet_address": "••••549B"}},
     "fiat_network_instructions.wallet_address is masked"),
    ("initiate_sandbox_fiat_deposit", {"amount": "1.00", "fiat_network_instructions":
     masked("XX1234")}, "account_number is masked"),
    ("update_fiat_account", {"metadata": None}, "nothing to change is given; give one of fiat_acc"),
    ("create_fiat_account", {"fiat_network_instructions":
     {"wire": WIRE["wire"] | {"intermediary_routing_detials": {"routing_number": "SECRET"}}}},
     "fiat_network_instructions.wire.intermediary_routing_detials: unknown member; known: acc"),
    ("create_orchestration_rule", {"source": {"profile": {"profile_id": "p"}, "proflie": 1}},
     "source.proflie: unknown member; known: crypto, fiat, profile"),
    ("get_transfer", {"id": ".."},
     r"id='\.\.' is not accepted; give an id as text, without .*; nothing was sent"),
    ("list_transfers", {"page_size": True}, "page_size=True is not accepted; give a whole number"),
    ("list_transfers", {"page_size": "10"}, "page_size='10' is not accepted"),
    ("list_transfers", {"max_rows": True}, "max_rows=True is not accepted; give a"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_breaks_the_rules_is_refused_before_it_is_sent(
    name: str, change: dict[str, Any], message: str, server: scripted.Scripted, client: Client
) -> None:
    base = next(row[1] for row in SENT if row[0] == name)
    arguments = {key: value for key, value in base.items() if key not in ("amount", "total")}
    if name == "create_fiat_deposit_instructions":
        arguments.pop("routing_number_type")
    arguments |= change
    if name == "create_fiat_withdrawal":
        arguments.setdefault("amount", "1.00")
    with pytest.raises(errors.InvalidRequest, match=message) as caught:
        getattr(client, name)(**arguments)
    assert str(caught.value).startswith(name)
    assert "pydantic" not in str(caught.value)
    assert (server.received, server.token_requests) == ([], [])


@pytest.mark.parametrize("number", ["X67890", "XB6789", "1XXX6789", "DE02120300000000202051"])
def test_a_number_that_only_looks_masked_is_sent(
    number: str, server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"id": "f"}))
    client.update_fiat_account("f", fiat_network_instructions=masked(number))
    sent = server.received[0].json()["fiat_network_instructions"]["wire"]["account_number"]
    assert sent == number


def test_a_refusal_does_not_repeat_bank_details(client: Client) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        client.create_fiat_account(
            fiat_account_owner={"institution_details": {"name": "Hidden LLC", "person": 1}},
            fiat_network_instructions={"wire": {"account_number": 123456789}},
        )
    assert "123456789" not in str(caught.value)
    assert "Hidden" not in str(caught.value)


def test_the_deposit_simulator_is_for_sandboxes(
    make_client: Callable[..., Client], server: scripted.Scripted
) -> None:
    deposit = next(row[1] for row in SENT if row[0] == "initiate_sandbox_fiat_deposit")
    client = make_client(base_url="https://api.example.com")
    with pytest.raises(
        errors.InvalidRequest, match=r"api\.example\.com is not a sandbox; nothing was"
    ):
        client.initiate_sandbox_fiat_deposit(**deposit)
    assert server.token_requests == []


@pytest.mark.parametrize("body", [b"", b" \r\n", b"{}", b"null"])
def test_the_deposit_simulator_answers_nothing(
    body: bytes, server: scripted.Scripted, client: Client
) -> None:
    server.script(answer(body))
    deposit = next(row[1] for row in SENT if row[0] == "initiate_sandbox_fiat_deposit")
    client.initiate_sandbox_fiat_deposit(**deposit)


@pytest.mark.parametrize(
    "body",
    [b"<html><title>Login</title></html>", b'{"error": "not done"}', b"[]", b"busy",
     b'{"wire": {"account_number": "000123456789"}}'],
)  # fmt: skip
def test_a_page_in_place_of_the_deposit_simulators_empty_answer_is_in_doubt(
    body: bytes, server: scripted.Scripted, client: Client
) -> None:
    """§4.4: HTTP 200 with an empty body."""
    server.script(answer(body))
    deposit = next(row[1] for row in SENT if row[0] == "initiate_sandbox_fiat_deposit")
    with pytest.raises(errors.ProtocolError, match=r"may have been carried out.*empty") as caught:
        client.initiate_sandbox_fiat_deposit(**deposit)
    assert caught.value.in_doubt
    assert "it starts b" in str(caught.value)
    assert "456789" not in str(caught.value)
    assert len(server.received) == 1


def test_the_deposit_simulator_runs_where_the_profile_says_so(
    make_client: Callable[..., Client], server: scripted.Scripted
) -> None:
    deposit = next(row[1] for row in SENT if row[0] == "initiate_sandbox_fiat_deposit")
    client = make_client(base_url="https://sandbox.example.com", sandbox=True)
    server.token_answers[:] = [problem(401)]
    with pytest.raises(errors.AuthenticationFailed):  # it got as far as asking for a token
        client.initiate_sandbox_fiat_deposit(**deposit)
    assert len(server.token_requests) == 1


def test_times_of_every_kind_are_sent_with_all_their_digits(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"items": []}))
    for moment in (
        datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=UTC),
        pd.Timestamp("2026-01-02T03:04:05.123456789Z"),
        pd.Timestamp("2026-01-02T03:04:05", tz="Europe/Berlin"),
        "2026-01-02T03:04:05+01:00",
    ):
        list(client.list_transfers(created_at_gt=moment))
    sent = [request.target.split("created_at.gt=")[1].split("&")[0] for request in server.received]
    assert sent == [
        "2026-01-02T03%3A04%3A05.0006Z",
        "2026-01-02T03%3A04%3A05.123456789Z",
        "2026-01-02T02%3A04%3A05Z",
        "2026-01-02T03%3A04%3A05%2B01%3A00",
    ]


def test_transfers_filtered_by_update_come_in_its_order(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"items": []}))
    list(client.list_transfers(updated_at_gte="2026-01-02T03:04:05Z"))
    assert "order=ASC" in server.received[0].target
    assert "order_by=UPDATED_AT" in server.received[0].target


# ------------------------------------------------------------------------------- conflicts


def conflict(existing: Any) -> bytes:
    return problem(409, "Conflict", detail="ref_id used", meta={"existing": existing})


WITHDRAWAL = {
    "ref_id": "r", "amount": "100.00", "asset": "USD", "fiat_account_id": "f", "profile_id": "p",
}  # fmt: skip
MADE = WITHDRAWAL | {"id": "t-1", "type": "WIRE_WITHDRAWAL", "direction": "DEBIT"}


@pytest.mark.parametrize("amount", ["100.00", "100", "100.0", "0100.000"])
def test_an_existing_resource_equal_to_the_intent_is_success(
    amount: str, server: scripted.Scripted, client: Client
) -> None:
    existing = MADE | {"amount": amount, "status": "COMPLETED", "fee": "25.00"}
    server.script(conflict(existing), answer(existing))
    transfer = client.create_fiat_withdrawal(**WITHDRAWAL)
    assert isinstance(transfer, Transfer)
    assert transfer.to_json() == existing
    assert transfer.amount == Amount("100")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": "100.01"}, "amount is '100.01', not '100.00'"),
        ({"fiat_account_id": "g"}, "fiat_account_id is 'g', not 'f'"),
        ({"type": "INTERNAL_TRANSFER_DEBIT"}, "type is INTERNAL_TRANSFER_DEBIT"),
        ({"type": "WIRE_DEPOSIT", "direction": "CREDIT"}, "type is WIRE_DEPOSIT"),
        ({"direction": "CREDIT"}, "direction is CREDIT"),
    ],
)
def test_another_resource_under_the_ref_id_is_a_loud_error(
    change: dict[str, Any], message: str, server: scripted.Scripted, client: Client
) -> None:
    server.script(conflict({"id": "t-1"}), answer(MADE | change))
    with pytest.raises(errors.Conflict, match=message) as caught:
        client.create_fiat_withdrawal(**WITHDRAWAL)
    text = str(caught.value)
    assert "ref_id 'r' belongs to 't-1'" in text
    assert "nothing was done now; for a new intent choose another ref_id" in text
    assert caught.value.meta["existing"]["id"] == "t-1"


@pytest.mark.parametrize(
    "lacking", ["type", "direction", "profile_id", "fiat_account_id", "asset", "amount"]
)
def test_what_would_decide_and_is_not_shown_leaves_it_in_doubt(
    lacking: str, server: scripted.Scripted, client: Client
) -> None:
    shown = {name: value for name, value in MADE.items() if name != lacking}
    server.script(conflict(MADE), answer(shown))
    with pytest.raises(errors.Conflict, match=f"does not show {lacking}: too little") as caught:
        client.create_fiat_withdrawal(**WITHDRAWAL)
    assert caught.value.in_doubt


def test_a_total_equal_to_anothers_amount_is_another_payment(
    server: scripted.Scripted, client: Client
) -> None:
    by_total = {name: value for name, value in WITHDRAWAL.items() if name != "amount"}
    server.script(conflict(MADE), answer(MADE | {"fee": "25.00", "total": "125.00"}))
    with pytest.raises(errors.Conflict, match=r"total is '125\.00', not '100\.00'"):
        client.create_fiat_withdrawal(**by_total, total="100.00")


@pytest.mark.parametrize("existing", [None, "t-1", [], {}])
def test_a_conflict_that_shows_nothing_stays_an_error(
    existing: Any, server: scripted.Scripted, client: Client
) -> None:
    server.script(conflict(existing))
    with pytest.raises(errors.Conflict, match=r"409 Conflict: ref_id used; look at what there is"):
        client.create_fiat_withdrawal(**WITHDRAWAL)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_existing_rule_is_returned_bare(
    wrapped: bool, server: scripted.Scripted, client: Client
) -> None:
    arguments = next(row[1] for row in SENT if row[0] == "create_orchestration_rule")
    existing = arguments | {"id": "o", "status": "ACTIVE"}
    server.script(conflict({"rule": existing} if wrapped else existing))
    assert client.create_orchestration_rule(**arguments).to_json() == existing


def test_a_conflict_with_something_else_is_told_in_the_services_words(
    server: scripted.Scripted, client: Client
) -> None:
    arguments = next(row[1] for row in SENT if row[0] == "create_orchestration_rule")
    meta = {"existing": arguments | {"id": "o", "ref_id": "another"}}
    server.script(problem(409, "Conflict", detail="the source has a rule already", meta=meta))
    with pytest.raises(errors.Conflict, match="the source has a rule already; look at what") as e:
        client.create_orchestration_rule(**arguments)
    assert e.value.meta["existing"]["id"] == "o"


# ------------------------------------------------------------------------------- logging


def test_one_line_a_call_with_the_request_id(
    server: scripted.Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fundlab.api")
    server.script(answer({"id": "t"}, X_Request_Id="req-1"), problem(404), answer({"id": "t"}))
    client.get_transfer("t")
    with pytest.raises(errors.NotFound) as caught:
        client.get_transfer("t")
    client.get_transfer("t")
    ids = [request.headers["x-request-id"] for request in server.received]
    first, second, third = (record.getMessage() for record in caplog.records)
    assert first.startswith("get_transfer 200 in ")
    assert first.endswith("ms, request req-1")
    assert second.startswith("get_transfer 404 in ")
    assert second.endswith(ids[1])
    assert caught.value.request_id == ids[1]
    assert third.endswith(ids[2])
    assert len(set(ids)) == 3


def test_a_client_shows_whom_it_talks_to_and_as_whom(client: Client) -> None:
    assert repr(client) == f"Client(base_url={client.base_url!r}, client_id='client-1')"
    with client as same:
        assert same is client
