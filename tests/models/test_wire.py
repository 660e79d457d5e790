"""JSON written by hand from the interface, not from the models: read whole, given back the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fundlab import models
from fundlab.base.values import Instant
from fundlab.models import (
    FiatAccount,
    FiatAccountStatus,
    FiatDepositInstructions,
    Resource,
    Transfer,
)

FILES = sorted((Path(__file__).parents[1] / "wire").glob("*.json"))


def wire(name: str) -> Any:
    path = Path(__file__).parents[1] / "wire" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))["body"]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_it_is_read_whole_and_goes_back_unchanged(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    model = getattr(models, recorded["model"])
    body = recorded["body"]
    for read in (model.model_validate_json(json.dumps(body)), model.model_validate(body)):
        again = read.to_json()
        assert json.dumps(again, sort_keys=True) == json.dumps(body, sort_keys=True)


def resources(kind: type[Resource] = Resource) -> set[type[Resource]]:
    """Every resource of the models, but for bases."""
    below = set(kind.__subclasses__())
    named = {
        kind
        for kind in below
        if kind.__module__.startswith("fundlab.models") and not kind.__name__.startswith("_")
    }
    return named.union(*(resources(kind) for kind in below))


def parts(value: Any) -> Iterator[Resource]:
    """``value`` and every resource in it."""
    if isinstance(value, Resource):
        yield value
        for _, inner in value:
            yield from parts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from parts(inner)


def test_every_answer_of_the_interface_has_a_file() -> None:
    recorded = {json.loads(path.read_text(encoding="utf-8"))["model"] for path in FILES}
    answers = {operation.answer for operation in models.OPERATIONS.values()} - {None}
    assert {answer.__name__ for answer in answers if answer} | {"Token", "Problem"} <= recorded


def test_every_resource_and_every_field_of_it_is_in_a_file() -> None:
    shown: dict[type[Resource], set[str]] = {}
    for path in FILES:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        for part in parts(getattr(models, recorded["model"]).model_validate(recorded["body"])):
            shown.setdefault(type(part), set()).update(part.model_fields_set)
    missing = {
        kind.__name__: sorted(set(kind.model_fields) - shown.get(kind, set()))
        for kind in resources()
        if not set(kind.model_fields) <= shown.get(kind, set())
    }
    assert missing == {}


def test_what_is_nested_in_unexpected_places_is_found() -> None:
    nested = FiatDepositInstructions.model_validate(wire("fiat_deposit_instructions_nested"))
    assert nested.status == "VALID"
    assert nested.metadata == {"batch": 7, "purpose": "funding"}
    assert nested.fiat_account_owner is not None
    assert nested.fiat_account_owner.name == "Omnibus LLC"
    inside = FiatAccount.model_validate(wire("fiat_account_in_owner"))
    assert inside.fiat_network_instructions is not None
    assert inside.fiat_network_instructions.wire is not None
    assert inside.fiat_network_instructions.wire.account_number == "XXXX4321"
    assert inside.fiat_account_owner is not None
    assert inside.fiat_account_owner.name == "Company GmbH"


def test_what_was_nested_is_read_as_what_stands_in_its_place() -> None:
    nested = {
        "wallet_address": "C", "status": "PENDING", "created_at": "2026-10-01T09:30:00.5Z",
        "updated_at": "soon",
    }  # fmt: skip
    account = FiatAccount.model_validate({"id": "f", "fiat_network_instructions": nested})
    assert account.status is FiatAccountStatus.PENDING
    assert isinstance(account.created_at, Instant)
    assert account.created_at.ns == 1_790_847_000_500_000_000
    assert account.updated_at == "soon"  # what it cannot be stays as it was read
    assert account.to_json() == {"id": "f", "fiat_network_instructions": nested}


@pytest.mark.parametrize("id_", ["", None, 7])
def test_a_row_without_an_id_is_none(id_: object) -> None:
    with pytest.raises(ValueError, match="id"):
        Transfer.model_validate({"id": id_})


def test_values_are_exact() -> None:
    transfer = Transfer.model_validate(wire("transfer_crypto_deposit"))
    assert str(transfer.amount) == ".25"
    assert str(transfer.total) == "0.250000000000000000"
    assert transfer.total == transfer.amount
    assert transfer.created_at is not None
    assert transfer.created_at.ns == 1_790_866_800_123_456_789
    assert str(transfer.created_at) == "2026-10-01T09:30:00.123456789-05:30"
    assert transfer.crypto_network == "OPTIMISM"
    assert transfer.ref_id is None


@pytest.mark.parametrize("model", ["Transfer", "FiatAccount", "DepositAddress", "Event"])
@pytest.mark.parametrize("broken", [{}, {"id": None}, {"id": 5}, [], "x"])
def test_what_has_no_id_is_malformed(model: str, broken: Any) -> None:
    kind: type[Resource] = getattr(models, model)
    with pytest.raises(ValueError, match="validation error"):
        kind.model_validate(broken)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("amount", "1.0\n"), ("amount", "-1"), ("amount", "1e3"), ("amount", ""), ("amount", "."),
        ("amount", 1), ("amount", 1.5), ("fee", "NaN"), ("total", "٣"), ("total", "1_000"),
        ("created_at", "2026-10-01"), ("created_at", "2026-10-01T09:30:00"), ("created_at", 5),
        ("created_at", "2026-02-30T00:00:00Z"), ("updated_at", "2026-10-01T09:30:00.1234567890Z"),
    ],
)  # fmt: skip
def test_what_is_really_malformed_is_refused(field: str, value: Any) -> None:
    body = json.dumps({"id": "t", field: value})
    with pytest.raises(ValueError, match=field):
        Transfer.model_validate_json(body)
