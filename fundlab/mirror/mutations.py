"""Requests that a published document refuses, sent to a sandbox: which of them does it take?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any, Final
from uuid import uuid4

import requests

from fundlab.base.errors import SandboxError
from fundlab.models import OPERATIONS, CryptoNetwork
from fundlab.models.json_schema import fits
from fundlab.sandbox.openapi import TOKEN_PATH
from fundlab.sandbox.serve import Sandbox, serve

TAKEN: Final = (200, 403, 409)
"""Also where only the funds do not suffice, or the same is there already."""
LENGTHS: Final = (11, 21, 36, 41, 65, 101, 257)
_TIMEOUT_S: Final = 30
_ADDRESS: Final = {
    "country": "US", "address1": "1 Main St", "address2": "Floor 2", "city": "Rome",
    "province": "IL", "zip_code": "62701",
}  # fmt: skip
_BANK: Final = {
    "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "First Bank",
    "bank_address": _ADDRESS,
}  # fmt: skip
_DETAILS: Final = {
    "fiat_account_owner": {"person_details": {"first_name": "Ann", "last_name": "Lee"}},
    "fiat_network_instructions": {
        "wire": {
            "account_number": "1234567890", "fiat_account_owner_address": _ADDRESS,
            "routing_details": _BANK, "intermediary_routing_details": _BANK,
        }
    },
}  # fmt: skip


def requests_of(sandbox: Sandbox) -> dict[str, tuple[str, dict[str, Any]]]:
    """Path and valid body of each operation that takes one."""
    first, second = sandbox.profile_ids[:2]
    user = sandbox.control.add_identity()
    saved = sandbox.control.add_destination_address(CryptoNetwork.BASE)
    with sandbox.connect() as client:
        memo_id = client.create_fiat_deposit_instructions(
            profile_id=first, fiat_network="CUBIX"
        ).memo_id
        account_id = client.create_fiat_account(**deepcopy(_DETAILS)).id  # type: ignore[arg-type]
    sandbox.clock.advance(60)  # until it is approved
    profile, named = {"profile_id": first}, {"metadata": {"desk": "7"}}
    who = {name: user[name] for name in ("identity_id", "account_id")}
    bodies: dict[str, dict[str, Any]] = {
        "create_fiat_deposit_instructions": {
            **profile, **who, **named, "fiat_network": "WIRE", "routing_number_type": "SWIFT",
        },
        "initiate_sandbox_fiat_deposit": {
            **_DETAILS, "amount": "1.00", "asset": "USD", "memo_id": memo_id,
        },
        "create_fiat_account": {**_DETAILS, **who, **named},
        "update_fiat_account": {**_DETAILS, **named},
        "create_fiat_withdrawal": {
            **profile, **named, "amount": "1.00", "asset": "USD", "memo": "invoice 7",
            "fiat_account_id": account_id,
        },
        "create_deposit_address": {
            **profile, **who, **named, "crypto_network": "BASE", "conversion_target_asset": "USD",
        },
        "create_orchestration_rule": {
            **profile, "nickname": "n", "source_asset": "USDC", "destination_asset": "USD",
            "source": {"crypto": {"network": "SOLANA"}},
            "destination": {"profile": {"profile_id": second}},
        },
        "create_crypto_withdrawal_fee": {
            "asset": "USDC", "destination_address": saved["address"], "crypto_network": "BASE",
            "amount": "10.00",
        },
    }  # fmt: skip
    for name, body in bodies.items():
        model = OPERATIONS[name].body
        if model is not None and "ref_id" in model.model_fields:
            body["ref_id"] = str(uuid4())
    return {
        name: (OPERATIONS[name].path.replace("{id}", account_id), body)
        for name, body in bodies.items()
    }


def mutations(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, str, Any]]:
    """Member, kind of mutation, and ``value`` with that one member changed, at every depth."""
    yield ".".join((*at, "surplus")), "an unknown member", {**value, "surplus": "x"}
    for name, old in value.items():
        others: dict[str, Any] = {
            "null": None, "a number": 5, "true": True, "a list": [old], "an empty object": {},
            "an empty text": "",
        }  # fmt: skip
        if isinstance(old, str):
            others |= {f"{length} characters": "a" * length for length in LENGTHS}
            others |= {f"{text!r}": text for text in ("Straße 12", "a_b", "7.000", "1.234", "-1")}
        path = ".".join((*at, name))
        yield path, "its absence", {one: own for one, own in value.items() if one != name}
        for kind, other in others.items():
            yield path, kind, {**value, name: other}
        for inner, kind, changed in mutations(old, (*at, name)) if isinstance(old, dict) else ():
            yield inner, kind, {**value, name: changed}


def _fits(name: str, schema: Mapping[str, Any], body: Any, root: Mapping[str, Any]) -> bool:
    try:
        return fits(schema, body, root)
    except (LookupError, TypeError, AttributeError, re.error) as error:
        raise SandboxError(
            f"what the document says of the body of {name} cannot be read here: {error!r}; give a "
            "document that refers to itself only, with patterns that Python's re reads"
        ) from None


def taken(
    schemas: Mapping[str, Mapping[str, Any]], root: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """Operation, member and what is done to it, of each body that ``schemas`` (of the document
    ``root``, by operation) refuse and a sandbox takes; member and kind are empty for a body that is
    valid here. Of such nothing else is sent, as all that is made of it would be refused there."""
    with serve(empty=True, clock="manual", profiles=2) as sandbox, requests.Session() as http:
        form = {"grant_type": "client_credentials", "client_id": sandbox.client_id,
                "client_secret": sandbox.client_secret}  # fmt: skip
        token = http.post(sandbox.auth_url + TOKEN_PATH, data=form, timeout=_TIMEOUT_S).json()
        http.headers["Authorization"] = f"Bearer {token['access_token']}"
        for name, (path, base) in requests_of(sandbox).items():
            if name not in schemas:
                continue
            sound = _fits(name, schemas[name], base, root)
            for member, kind, body in mutations(base) if sound else [("", "", base)]:
                if _fits(name, schemas[name], body, root):
                    continue
                if body.get("ref_id", "") == base.get("ref_id"):
                    body = {**body, "ref_id": str(uuid4())}
                answer = http.request(
                    OPERATIONS[name].method, sandbox.base_url + path, data=json.dumps(body),
                    headers={"Content-Type": "application/json"}, timeout=_TIMEOUT_S,
                )  # fmt: skip
                if answer.status_code in TAKEN:
                    yield name, member, kind
