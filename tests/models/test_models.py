from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fundlab import models
from fundlab.models import (
    OPERATIONS,
    SCOPES,
    CreateFiatWithdrawal,
    CryptoDestinationAddressQuery,
    Direction,
    EventQuery,
    FiatAccountOwner,
    Resource,
    Transfer,
    TransferQuery,
    TransferStatus,
    TransferType,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
WITHDRAWAL = {"amount": "1.00", "asset": "USD", "fiat_account_id": "f", "profile_id": "p"}


def test_the_operations_are_those_of_the_interface() -> None:
    assert [(op.section, op.method, op.path) for op in OPERATIONS.values()] == [
        ("4.1", "POST", "/v2/transfer/fiat-deposit-instructions"),
        ("4.2", "GET", "/v2/transfer/fiat-deposit-instructions/{id}"),
        ("4.3", "GET", "/v2/transfer/fiat-deposit-instructions"),
        ("4.4", "POST", "/v2/sandbox/fiat-deposits"),
        ("4.5", "GET", "/v2/transfer/transfers"),
        ("4.6", "GET", "/v2/transfer/transfers/{id}"),
        ("4.7", "GET", "/v2/profiles/{profile_id}/balances/{asset}"),
        ("4.8", "POST", "/v2/transfer/fiat-accounts"),
        ("4.9", "GET", "/v2/transfer/fiat-accounts/{id}"),
        ("4.10", "PUT", "/v2/transfer/fiat-accounts/{id}"),
        ("4.11", "GET", "/v2/transfer/fiat-accounts"),
        ("4.12", "POST", "/v2/transfer/fiat-withdrawals"),
        ("4.13", "POST", "/v2/transfer/deposit-addresses"),
        ("4.14", "POST", "/v2/orchestration/rules"),
        ("4.15", "GET", "/v2/transfer/crypto-destination-addresses"),
        ("4.16", "POST", "/v2/transfer/fees/crypto-withdrawal"),
        ("4.17", "GET", "/v2/events"),
    ]
    assert {name: op.items for name, op in OPERATIONS.items() if op.query} == {
        "list_fiat_deposit_instructions": "items",
        "list_transfers": "items",
        "list_fiat_accounts": "items",
        "list_crypto_destination_addresses": "addresses",
        "list_events": "events",
    }
    assert OPERATIONS["get_transfer"].items is None


def test_the_scopes_are_those_of_the_interface() -> None:
    assert SCOPES == (
        "events:read_event", "fee:write_crypto_withdrawal_fee", "funding:read_profile",
        "orchestration:write_orchestration_rule", "transfer:read_crypto_destination_address",
        "transfer:read_fiat_account", "transfer:read_fiat_deposit_instructions",
        "transfer:read_transfer", "transfer:write_deposit_address", "transfer:write_fiat_account",
        "transfer:write_fiat_deposit_instructions", "transfer:write_fiat_withdrawal",
        "transfer:write_sandbox_fiat_deposit",
    )  # fmt: skip


def test_every_type_has_its_direction() -> None:
    inbound = {kind for kind in TransferType if re.search("DEPOSIT|CREDIT", kind)}
    assert {kind for kind in TransferType if kind.direction is Direction.CREDIT} == inbound


@pytest.mark.thorough
@given(st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=5))
def test_whatever_a_service_adds_is_given_back(extra: dict[str, Any]) -> None:
    fields = {field for field in Transfer.model_fields}  # noqa: C416
    body = {"id": "t"} | {name: value for name, value in extra.items() if name not in fields}
    assert Transfer.model_validate(body).to_json() == body


@pytest.mark.parametrize(
    "model",
    [value for value in vars(models).values()
     if isinstance(value, type) and issubclass(value, Resource) and "id" in value.model_fields],
)  # fmt: skip
def test_an_id_is_enough_and_null_is_kept(model: type[Resource]) -> None:
    needed = {name: "1" for name, field in model.model_fields.items() if field.is_required()} | {
        "id": "x"
    }
    nulls = {name: None for name in model.model_fields if name not in needed}
    assert model.model_validate(needed).to_json() == needed
    assert model.model_validate(needed | nulls).to_json() == needed | nulls


def test_enumerations_have_room_for_new_values() -> None:
    known = Transfer(id="t", status="COMPLETED", type="WIRE_DEPOSIT")
    assert known.status is TransferStatus.COMPLETED
    new = Transfer(id="t", status="COMPLETE", type="TELEPORT")
    assert (new.status, type(new.status), new.type) == ("COMPLETE", str, "TELEPORT")


def test_resources_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Transfer(id="t").id = "u"


def test_threads_that_need_a_model_first_at_the_same_time_all_have_it() -> None:
    lines = (
        "from concurrent.futures import ThreadPoolExecutor",
        "from threading import Barrier",
        "from fundlab.models import FiatAccount",
        "ready = Barrier(8)",
        "def read(number):",
        "    ready.wait()",
        "    return FiatAccount.model_validate({'id': str(number)}).id",
        "with ThreadPoolExecutor(8) as threads:",
        "    print(*threads.map(read, range(8)))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == list("01234567")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ({"institution_details": {"name": "X LLC"}, "person_details": None}, "X LLC"),
        ({"person_details": {"first_name": "Ada", "last_name": "Byron"}}, "Ada Byron"),
        ({"person_details": {"first_name": "Ada"}}, "Ada"),
        ({"person_details": {"name": "Ada Byron"}}, "Ada Byron"),
        ({"person_details": None}, None),
        ({}, None),
    ],
)
def test_an_owners_name(owner: dict[str, Any], name: str | None) -> None:
    assert FiatAccountOwner.model_validate(owner).name == name


# ------------------------------------------------------------------------------- requests


def test_a_request_sends_only_what_was_given() -> None:
    request = CreateFiatWithdrawal.model_validate(WITHDRAWAL)
    assert request.to_json() == WITHDRAWAL


@pytest.mark.parametrize(
    "metadata", [{str(n): "x" for n in range(6)}, {"k" * 100: "v" * 100}, {}, {"": ""}]
)
def test_metadata_within_the_limits(metadata: dict[str, str]) -> None:
    request = CreateFiatWithdrawal.model_validate(WITHDRAWAL | {"metadata": metadata})
    assert request.metadata == metadata


@pytest.mark.parametrize(
    "metadata",
    [{str(n): "x" for n in range(7)}, {"k" * 101: "v"}, {"k": "v" * 101}, {"k": 5}, {"k": None},
     ["k"], "k"],
)  # fmt: skip
def test_metadata_beyond_the_limits(metadata: Any) -> None:
    with pytest.raises(ValueError, match="metadata"):
        CreateFiatWithdrawal.model_validate(WITHDRAWAL | {"metadata": metadata})


# ------------------------------------------------------------------------------- queries


def test_a_query_always_sends_limit_order_and_order_by() -> None:
    assert TransferQuery.model_validate({}).to_params() == [
        ("limit", "100"), ("order", "DESC"), ("order_by", "CREATED_AT"),
    ]  # fmt: skip
    assert EventQuery.model_validate({}).to_params() == [("limit", "100"), ("order", "ASC")]


@pytest.mark.parametrize("name", ["updated_at_gt", "updated_at.gt"])
def test_a_filter_on_updates_is_ordered_by_them(name: str) -> None:
    query = TransferQuery.model_validate({name: "2026-01-01T00:00:00Z"})
    assert (query.order_by, query.order) == ("UPDATED_AT", "ASC")
    chosen = TransferQuery.model_validate({name: "2026-01-01T00:00:00Z", "order": "DESC"})
    assert chosen.order == "DESC"


@pytest.mark.parametrize("count", [1, 100, 101])
def test_a_filter_takes_at_most_100_entries(count: int) -> None:
    given = {"ids": [str(n) for n in range(count)]}
    if count <= 100:
        pairs = CryptoDestinationAddressQuery.model_validate(given).to_params()
        assert [pair for pair in pairs if pair[0] == "ids"] == [("ids", i) for i in given["ids"]]
    else:
        with pytest.raises(ValueError, match="at most 100"):
            CryptoDestinationAddressQuery.model_validate(given)


def test_a_query_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="extra"):
        TransferQuery.model_validate({"profile_id": "p"})
