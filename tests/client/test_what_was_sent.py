"""What leaves a call in doubt and what settles it, and the ``ref_id`` that each create gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
import scripted
from scripted import answer, cut, problem, reset, skipping

from fundlab.base import errors
from fundlab.client.client import Client

PAYMENT = {"amount": "100.00", "fiat_account_id": "f", "profile_id": "p"}


def after_an_older_error(call: Callable[[], Any]) -> None:
    """Where a caller falls back on us: nothing was sent to the place that it tried first."""
    try:
        requests.get("http://127.0.0.1:1/", timeout=5)
    except requests.ConnectionError:
        call()


def test_a_lost_answer_within_a_callers_except_block(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())
    server.script(reset)
    with pytest.raises(errors.NetworkError, match="it may have been carried out") as caught:
        after_an_older_error(lambda: client.update_fiat_account("f", metadata={"a": "b"}))
    assert caught.value.in_doubt
    assert len(server.received) == 1


# ------------------------------------------------------------------ only the service settles it


PAGE = b"<html>Bad Request</html>"
UNSETTLED = [
    *(answer(PAGE, status, Content_Type="text/html")
      for status in (400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415,
                     416, 417, 422, 429, 431, 451)),
    problem(408), problem(425), problem(500), problem(503),
    answer(b"", 403), answer([], 400), answer({}, 400), answer({"error": "no"}, 400),
    problem(400, headers={"Content_Type": "text/html"}),
    answer({"title": "Not Found", "status": 404}, 400, Content_Type="application/json"),
    answer(b"", 302, Location="/x"), cut(b""), cut(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
    answer(b"<html>"), answer(b""),
]  # fmt: skip


@pytest.mark.parametrize("given", UNSETTLED, ids=range(len(UNSETTLED)))
def test_what_the_service_itself_did_not_say_leaves_it_in_doubt(
    given: scripted.Answer, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())
    server.script(given)
    with pytest.raises(errors.CallError) as caught:
        client.create_fiat_withdrawal(**PAYMENT, ref_id="r")
    assert caught.value.in_doubt
    assert "nothing was sent" not in str(caught.value)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429])
@pytest.mark.parametrize("kind", ["application/problem+json", "application/json; charset=utf-8"])
def test_a_problem_of_the_service_settles_it(
    status: int, kind: str, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())
    server.script(problem(status, headers={"Content_Type": kind, "Retry_After": "9999"}))
    with pytest.raises(errors.ServiceError) as caught:
        client.create_fiat_withdrawal(**PAYMENT, ref_id="r")
    assert not caught.value.in_doubt


# ------------------------------------------------------------------ a quote moves nothing

QUOTE = {"asset": "USDC", "destination_address": "0x1", "crypto_network": "BASE", "amount": "10"}
MIXED_UP = answer({"id": "q", "fee": "0.1", "asset": "USDG"})


@pytest.mark.parametrize(
    "given",
    [problem(503), reset, answer(b"<html>"), MIXED_UP],
)
@pytest.mark.parametrize("by_path", [False, True])
def test_a_quote_is_never_in_doubt(
    given: Any, by_path: bool, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    """It changes nothing, and no operation lists quotes; it is not sent again by itself (§4.16)."""
    client = make_client(environment=skipping())
    server.script(given)

    def ask() -> Any:
        if by_path:
            return client.post("/v2/transfer/fees/crypto-withdrawal", QUOTE)
        return client.create_crypto_withdrawal_fee(**QUOTE)

    if by_path and given == MIXED_UP:  # what a path answers is not compared
        assert ask()["asset"] == "USDG"
        return
    with pytest.raises(errors.CallError) as caught:
        ask()
    assert not caught.value.in_doubt
    assert "carried out" not in str(caught.value)
    assert "look for it" not in str(caught.value)
    assert len(server.received) == 1


# ------------------------------------------------------------------ each create has its ref_id


OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}
CREATES: dict[str, dict[str, Any]] = {
    "create_fiat_withdrawal": PAYMENT,
    "create_fiat_account": {
        "fiat_account_owner": OWNER,
        "fiat_network_instructions": {"cubix": {"account_id": "cx-1"}},
    },
    "create_fiat_deposit_instructions": {"profile_id": "p", "fiat_network": "CUBIX"},
    "create_deposit_address": {"profile_id": "p", "crypto_network": "ETHEREUM"},
}


@pytest.mark.parametrize("operation", CREATES)
def test_a_create_without_a_ref_id_is_sent_again_under_the_one_it_got(
    operation: str, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())

    def echo(connection: Any, request: scripted.Received) -> None:
        connection.sendall(answer(request.json() | {"id": "made"}))

    server.script(reset, echo)
    for _ in range(2):
        assert getattr(client, operation)(**CREATES[operation]).id == "made"
    sent = [request.json().pop("ref_id") for request in server.received]
    assert sent[0] == sent[1] != sent[2]


def test_a_path_of_the_interface_gets_one_too(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())
    server.script(reset, answer({"id": "made"}))
    body = PAYMENT | {"asset": "USD"}
    assert client.post("/v2/transfer/fiat-withdrawals", body) == {"id": "made"}
    first, second = (request.json() for request in server.received)
    assert first == second
    assert first.pop("ref_id")
    assert first == body
