"""An answer that was lost, then a 409: no message advises what would pay a second time.

Each create operation that takes a ``ref_id``, with every kind of conflict that a service may
answer the second attempt with, and every answer to the question what is there.
"""

from __future__ import annotations

from typing import Any

import pytest
import scripted
from scripted import answer, problem, reset, token
from test_operations import WIRE

from fundlab.base import errors
from fundlab.client.client import Client

OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}
RULE = {
    "profile_id": "p", "source_asset": "USDC", "destination_asset": "USD",
    "source": {"profile": {"profile_id": "p"}},
}  # fmt: skip
CREATES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # what is asked for, what the service shows of it, and a member that another request had
    "create_fiat_withdrawal": (
        {"amount": "100.00", "fiat_account_id": "f", "profile_id": "p"},
        {
            "amount": "100",
            "asset": "USD",
            "fiat_account_id": "F",
            "profile_id": "p",
            "type": "WIRE_WITHDRAWAL",
            "direction": "DEBIT",
        },
        {"amount": "250.00"},
    ),
    "create_fiat_account": (
        {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE},
        {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE},
        {"fiat_account_owner": {"institution_details": {"name": "Other"}}},
    ),
    "create_fiat_deposit_instructions": (
        {"profile_id": "p", "fiat_network": "WIRE", "routing_number_type": "ABA"},
        {"profile_id": "p", "fiat_network_instructions": WIRE},
        {"profile_id": "q"},
    ),
    "create_deposit_address": (
        {"profile_id": "p", "crypto_network": "ETHEREUM"},
        {"profile_id": "p", "crypto_network": "ETHEREUM", "address": "0x1"},
        {"crypto_network": "SOLANA"},
    ),
    "create_orchestration_rule": (RULE, RULE, {"destination_asset": "USDT"}),
}
SHOWN_BY_ID = {"create_fiat_withdrawal", "create_fiat_account", "create_fiat_deposit_instructions"}
SAFE = "trying again with the same ref_id is safe"

every_create = pytest.mark.parametrize("operation", CREATES)


def conflict(existing: Any) -> bytes:
    meta = {} if existing is None else {"existing": existing}
    return problem(409, "Conflict", detail="ref_id used", meta=meta)


def call(client: Client, operation: str) -> Any:
    return getattr(client, operation)(**CREATES[operation][0], ref_id="a")


def refused(client: Client, operation: str) -> str:
    """The message of the conflict, which says first that it may have been carried out."""
    with pytest.raises(errors.Conflict) as caught:
        call(client, operation)
    message = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert message.startswith(f"{operation}: it may have been carried out; 409 Conflict")
    for advice in ("nothing was done", "nothing was sent", "another ref_id", "new intent"):
        assert advice not in message
    assert SAFE in message
    assert caught.value.in_doubt
    return message


@every_create
@pytest.mark.parametrize("given", [{}, {"ref_id": "a"}], ids=["no ref_id", "its ref_id"])
def test_what_exists_without_a_contradiction_is_the_answer(
    operation: str, given: dict[str, Any], server: scripted.Scripted, client: Client
) -> None:
    made = CREATES[operation][1] | {"id": "t-1"} | given
    server.script(reset, conflict(made))
    server.answers.append(answer(made))
    assert call(client, operation).id == "t-1"


@every_create
def test_an_id_alone_is_asked_for_and_compared(
    operation: str, server: scripted.Scripted, client: Client
) -> None:
    shown = CREATES[operation][1] | {"id": "t-1"}
    server.script(reset, conflict({"id": "t-1"}), answer(shown))
    if operation in SHOWN_BY_ID:
        assert call(client, operation).id == "t-1"
        assert server.received[-1].target.endswith("/t-1")
    else:
        assert "too little to tell whether it is what is asked for" in refused(client, operation)


@every_create
@pytest.mark.parametrize(
    "shown", [problem(404), problem(403), answer({"id": "t-1"}), answer(b"<html>")],
    ids=["not found", "not allowed", "no more", "no JSON"],
)  # fmt: skip
def test_an_id_alone_of_which_no_more_can_be_known(
    operation: str, shown: bytes, server: scripted.Scripted, client: Client
) -> None:
    server.script(reset, conflict({"id": "t-1"}), shown)
    said = refused(client, operation)
    assert "too little to tell whether it is what is asked for; look at it first" in said
    failed = operation in SHOWN_BY_ID and shown != answer({"id": "t-1"})
    assert ("Asking for what is there brought no more: " in said) is failed


MIXED_UP = {
    "create_fiat_withdrawal": ({"direction": "CREDIT"}, {"type": "WIRE_DEPOSIT"}),
    "create_fiat_account": (
        {"fiat_account_owner": {"institution_details": {"name": "Other"}}},
        {"fiat_network_instructions": {"wire": {"account_number": "XXXXX0000"}}},
    ),
    "create_fiat_deposit_instructions": (
        {"fiat_network_instructions": {"cubix": {"account_id": "x"}}},
    ),
    "create_deposit_address": ({"conversion_target_asset": "USD"},),
    "create_orchestration_rule": (
        {"source": {"crypto": {"network": "BASE"}}},
        {"destination": {"profile": {"profile_id": "q"}}},
    ),
}


@pytest.mark.parametrize(
    ("operation", "other"), [(name, other) for name in CREATES for other in MIXED_UP[name]]
)
def test_an_answer_about_something_else_leaves_the_request_in_doubt(
    operation: str, other: dict[str, Any], server: scripted.Scripted, client: Client
) -> None:
    """Without a ref_id in it, which the interface requires of no answer, only the rest tells."""
    made = CREATES[operation][1] | {"id": "t-1"}
    bodies = [made | other, made]
    if operation == "create_orchestration_rule":
        bodies = [{"rule": body} for body in bodies]
    server.script(*map(answer, bodies))
    with pytest.raises(
        errors.ProtocolError, match="the answer is about something else: "
    ) as caught:
        call(client, operation)
    assert str(caught.value).startswith(f"{operation}: it may have been carried out; ")
    assert SAFE in str(caught.value)
    assert (caught.value.in_doubt, caught.value.refused) == (True, False)
    assert call(client, operation).id == "t-1"


@every_create
@pytest.mark.parametrize("by_id", [False, True])
def test_something_else_under_the_ref_id(
    operation: str, by_id: bool, server: scripted.Scripted, client: Client
) -> None:
    _, made, other = CREATES[operation]
    another = made | other | {"id": "t-1"}
    server.script(reset, conflict({"id": "t-1"} if by_id else another), answer(another))
    said = "too little" if by_id and operation not in SHOWN_BY_ID else "belongs to 't-1', which is"
    assert said in refused(client, operation)


@every_create
@pytest.mark.parametrize(
    "existing", [None, "t-1", [], {}, {"id": "t-1", "ref_id": "b"}, {"id": "\ud800"}]
)
def test_a_conflict_that_says_nothing_about_the_ref_id(
    operation: str, existing: Any, server: scripted.Scripted, client: Client
) -> None:
    server.script(reset, conflict(existing), problem(404))
    refused(client, operation)


@every_create
@pytest.mark.parametrize("status", [400, 403, 404, 422, 429, 503])
def test_a_refusal_after_a_lost_answer_says_first_that_it_may_have_been_carried_out(
    operation: str, status: int, server: scripted.Scripted, client: Client
) -> None:
    server.script(reset, problem(status, headers={"Retry-After": "9999"}))
    with pytest.raises(errors.ServiceError) as caught:
        call(client, operation)
    message = str(caught.value)
    assert message.startswith(f"{operation}: it may have been carried out; {status}")
    assert SAFE in message
    for advice in ("ask for less", "change what it names", "nothing was sent"):
        assert advice not in message


def test_a_token_that_is_refused_after_a_lost_answer_is_no_denial(
    server: scripted.Scripted, client: Client
) -> None:
    server.token_answers[:] = [token(), answer({"error": "invalid_client"}, 401)]
    server.script(reset, problem(401))
    with pytest.raises(errors.AuthenticationFailed) as caught:
        call(client, "create_fiat_withdrawal")
    assert "it may have been carried out; 401" in str(caught.value)
    assert "nothing was sent" not in str(caught.value)


def test_what_an_answer_adds_of_its_own_does_not_make_it_anothers(
    server: scripted.Scripted, client: Client
) -> None:
    """What was made is looked at in full only where a conflict names it."""
    made = CREATES["create_fiat_withdrawal"][1] | {"id": "t-1", "metadata": {"source": "api"}}
    server.script(answer(made))
    assert call(client, "create_fiat_withdrawal").id == "t-1"


def test_what_the_service_added_is_no_reason_for_another_ref_id(
    server: scripted.Scripted, client: Client
) -> None:
    """An earlier run of the program may have made it, of which this one knows nothing."""
    made = CREATES["create_fiat_withdrawal"][1] | {"id": "t-1", "metadata": {"source": "api"}}
    server.script(conflict(made), answer(made))
    with pytest.raises(errors.Conflict, match="look at it first") as caught:
        call(client, "create_fiat_withdrawal")
    assert "another ref_id" not in str(caught.value)
