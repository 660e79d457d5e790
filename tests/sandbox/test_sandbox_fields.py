"""Row by row, as ``interface_tables`` has them: fields, enumerations, bodies, parameters, scopes.

Fields and enumerations: §2.1, §2.2, §2.3, §2.4, §2.5, §2.6, §2.7, §2.8, §2.9, §2.10, §5.1, §7;
operations: §4.1, §4.2, §4.3, §4.4, §4.5, §4.6, §4.7, §4.8, §4.9, §4.10, §4.11, §4.12, §4.13, §4.14,
§4.15, §4.16, §4.17, §6; limits: §8.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from interface_tables import (
    ENUMERATIONS,
    NETWORKS,
    OPERATIONS,
    QUERIES,
    REQUESTS,
    RESOURCES,
    RULE_ASSETS,
    TOO_MANY,
    TRANSFER_STATUSES,
    TRANSFER_TYPES,
    TWICE,
    Field,
)  # fmt: skip
from sandbox_caller import Caller, Gallery, instructions

MISSING = "00000000-0000-4000-8000-000000000000"
FIELDS = [(name, field) for name, fields in RESOURCES.items() for field in fields]
ROUTING_TYPE = "fiat_network_instructions.wire.routing_details.routing_number_type"
SHOWN_OTHERWISE = {
    ("create_fiat_deposit_instructions", "routing_number_type"): (
        "routing_number_type", ROUTING_TYPE,
    ),
    ("create_fiat_deposit_instructions", "fiat_network"): None,
    ("create_crypto_withdrawal_fee", "identity_id"): None,
    ("create_orchestration_rule", "source"): ("source.crypto.network", "source.crypto.network"),
}  # fmt: skip
"""Operation and field → what of the body is shown where in the answer; §2.2 and §2.9 leave two
out."""
BODY_FIELDS = [(operation, field) for operation, fields in REQUESTS.items() for field in fields]
PARAMETERS = [(operation, name) for operation, names in QUERIES.items() for name in names]


# ---------------------------------------------------------------------------- §2: fields


@pytest.mark.parametrize(("resource", "name"), FIELDS)
def test_a_field_is_shown(gallery: Gallery, resource: str, name: str) -> None:
    """At least once, always where it is required, and always as its table says."""
    wanted = RESOURCES[resource][name]
    samples = gallery.samples[resource.partition(" ")[2]]
    shown = [sample[name] for sample in samples if name in sample]
    assert shown, f"no {resource} shows {name}"
    assert not wanted.required or len(shown) == len(samples)
    for value in shown:
        assert fits(value, wanted), (name, value)


@pytest.mark.parametrize("resource", RESOURCES)
def test_nothing_else_is_shown(gallery: Gallery, resource: str) -> None:
    for sample in gallery.samples[resource.partition(" ")[2]]:
        assert sample.keys() <= RESOURCES[resource].keys()


def fits(value: object, wanted: Field) -> bool:
    if isinstance(wanted.kind, tuple):
        return value in wanted.kind
    if isinstance(wanted.kind, str):
        return isinstance(value, str) and re.fullmatch(wanted.kind, value, re.ASCII) is not None
    return type(value) is wanted.kind


# ---------------------------------------------------------------------------- §2: enumerations


@pytest.mark.parametrize("kind", TRANSFER_TYPES)
def test_every_transfer_type_is_listed_alone(reader: Caller, kind: str) -> None:
    """§2.4."""
    rows = reader.get(f"/v2/transfer/transfers?type={kind}").json()["items"]
    direction = "CREDIT" if kind.endswith(("_DEPOSIT", "_CREDIT")) else "DEBIT"
    assert {(row["type"], row["direction"]) for row in rows} == {(kind, direction)}


@pytest.mark.parametrize("status", TRANSFER_STATUSES)
def test_every_transfer_status_is_listed_alone(reader: Caller, status: str) -> None:
    """§2.4."""
    rows = reader.get(f"/v2/transfer/transfers?statuses={status}").json()["items"]
    assert {row["status"] for row in rows} == {status}


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_has_saved_addresses_fees_and_deposit_addresses(
    gallery: Gallery, reader: Caller, network: str
) -> None:
    """§2.7."""
    path = f"/v2/transfer/crypto-destination-addresses?crypto_networks={network}"
    assert {row["crypto_network"] for row in reader.get(path).json()["addresses"]} == {network}
    body = {
        "asset": "USDC", "crypto_network": network, "amount": "10.00",
        "destination_address": reader.get(path).json()["addresses"][0]["address"],
    }  # fmt: skip
    quote = gallery.caller.post("/v2/transfer/fees/crypto-withdrawal", body)
    assert quote.json()["crypto_network"] == network
    body = {"profile_id": gallery.known["profile_id"], "crypto_network": network}
    made = gallery.caller.post("/v2/transfer/deposit-addresses", body)
    assert made.json()["crypto_network"] == network


@pytest.mark.parametrize("source", RULE_ASSETS)
@pytest.mark.parametrize("destination", RULE_ASSETS)
def test_every_pair_of_rule_assets(gallery: Gallery, source: str, destination: str) -> None:
    """§2.6: any two that differ, from what fits the asset."""
    caller, profile_id = gallery.caller, gallery.known["profile_id"]
    end = {"fiat": {"network": "CUBIX"}} if source == "USD" else {"crypto": {"network": "BASE"}}
    body = {
        "ref_id": gallery.ref_id(), "profile_id": profile_id, "source_asset": source,
        "destination_asset": destination, "source": end,
    }  # fmt: skip
    answer = caller.post("/v2/orchestration/rules", body)
    assert answer.status_code == (400 if source == destination else 200)
    if source != destination:
        rule = answer.json()["rule"]
        assert (rule["source_asset"], rule["destination_asset"]) == (source, destination)


@pytest.mark.parametrize("routing", ENUMERATIONS["2.1 RoutingNumberType"])
def test_every_routing_number_type_has_instructions(gallery: Gallery, routing: str) -> None:
    """§2.1."""
    made = instructions(
        gallery.caller, gallery.known["profile_id"], routing_number_type=routing
    )  # fmt: skip
    wire = made["fiat_network_instructions"]["wire"]
    assert wire["routing_details"]["routing_number_type"] == routing


# ---------------------------------------------------------------------------- §4: operations


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_needs_a_token_and_its_scope(gallery: Gallery, name: str) -> None:
    """§5.1, §7: 401 without a token, 403 with every scope but its own."""
    wanted = OPERATIONS[name]
    path = wanted.path.replace("{id}", MISSING).replace("{profile_id}", MISSING)
    body = {} if wanted.method != "GET" else None
    nobody = gallery.caller.call(wanted.method, path, body, {"Authorization": ""})
    assert nobody.status_code == 401
    assert nobody.headers["WWW-Authenticate"] == "Bearer"
    others = sorted({operation.scope for operation in OPERATIONS.values()} - {wanted.scope})
    token = gallery.caller.ask_token(" ".join(others)).json()["access_token"]
    refused = gallery.caller.call(
        wanted.method, path, body, {"Authorization": f"Bearer {token}"}
    )  # fmt: skip
    assert refused.status_code == 403
    assert refused.json()["meta"] == {"needed": wanted.scope, "found": others}
    assert refused.json()["type"].endswith("insufficient-scope")
    token = gallery.caller.ask_token(wanted.scope).json()["access_token"]
    allowed = gallery.caller.call(wanted.method, path, body, {"Authorization": f"Bearer {token}"})
    assert allowed.status_code in (200, 400, 404)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_full_body_is_accepted_and_shown(gallery: Gallery, name: str) -> None:
    """§4: every field comes back as it was sent, but for those of ``SHOWN_OTHERWISE``."""
    body = gallery.body(name)
    answer = send(gallery, name, body)
    assert answer.status_code == 200, answer.text
    if name == "initiate_sandbox_fiat_deposit":
        assert answer.content == b""
        return
    made = answer.json().get("rule", answer.json())
    for field, value in body.items():
        if (name, field) not in SHOWN_OTHERWISE:
            assert made[field] == value, field
        elif (where := SHOWN_OTHERWISE[name, field]) is not None:
            assert place(made, where[1]) == place(body, where[0])
        else:
            assert field not in made


def place(value: Any, path: str) -> Any:
    """What stands at a dotted ``path``."""
    for name in path.split("."):
        value = value[name]
    return value


@pytest.mark.parametrize(("name", "field"), BODY_FIELDS)
def test_a_body_field_is_checked(gallery: Gallery, name: str, field: str) -> None:
    """§§4.1 to 4.16: needed or not as its table says; a wrong type names the field."""
    body = gallery.body(name)
    body.pop(field, None)
    answer = send(gallery, name, body)
    if REQUESTS[name][field]:
        assert answer.status_code == 400
        assert answer.json()["meta"]["field"] == field
    elif field == "identity_id" and "account_id" in body:
        assert answer.json()["meta"]["field"] == "account_id"
    else:
        assert answer.status_code == 200, answer.text
    for wrong in (7, None):
        answer = send(gallery, name, {**gallery.body(name), field: wrong})
        assert answer.status_code == 400
        assert answer.json()["meta"]["field"].partition(".")[0] == field


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_parameter_is_checked(reader: Caller, name: str, parameter: str) -> None:
    """§§4.3, 4.5, 4.11, 4.15, 6, 8: at most 100 entries, listed values, RFC 3339."""
    value = QUERIES[name][parameter]
    query = f"{parameter}={value}"
    if value == TOO_MANY:
        entry = "BASE" if parameter == "crypto_networks" else "x"
        hundred = "&".join([f"{parameter}={entry}"] * 100)
        assert reader.get(f"{OPERATIONS[name].path}?{hundred}").status_code == 200
        query = f"{hundred}&{parameter}={entry}"
    elif value == TWICE:
        assert reader.get(f"{OPERATIONS[name].path}?{parameter}=x").status_code == 200
        query = f"{parameter}=x&{parameter}=x"
    refused = reader.get(f"{OPERATIONS[name].path}?{query}")
    assert refused.status_code == 400
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert refused.json()["meta"]["field"] == parameter


def send(gallery: Gallery, name: str, body: dict[str, Any]) -> Any:
    operation = OPERATIONS[name]
    path = operation.path.replace("{id}", gallery.known["fiat_account_id"])
    answer = gallery.caller.call(operation.method, path, body)
    if name == "update_fiat_account":
        gallery.sandbox.clock.advance(10)  # approved again
    return answer
