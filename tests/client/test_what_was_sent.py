"""Whether a request left is told by the connection alone: through a proxy, in TLS, anywhere."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests
import scripted
from connect_proxy import ConnectProxy, connect_proxy
from scripted import answer, cut, problem, reset, skipping

from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.settings.settings import Settings

PAYMENT = {"amount": "100.00", "fiat_account_id": "f", "profile_id": "p"}
NAME = "bank.example"


class Bank(ThreadingHTTPServer):
    """A service of its own: each payment that it carries out stands in ``paid``, once for each
    ``ref_id``, and each request that it saw a byte of in ``seen``."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), Teller)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.paid: dict[str, dict[str, str]] = {}
        self.seen: list[str] = []
        self.proxy: ConnectProxy | None = None

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # the connection was ended under it, which is the point


class Teller(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Bank

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/oauth2/token":
            self.give(200, {"access_token": "t", "expires_in": 3599, "token_type": "bearer"})
            return
        asked = json.loads(body)
        self.server.seen.append(self.path)
        name = asked.get("ref_id") or f"without ref_id {len(self.server.paid)}"
        made = self.server.paid.setdefault(name, asked | {"id": f"t-{len(self.server.paid)}"})
        if self.server.proxy is not None:
            self.server.proxy.armed.set()
        self.give(200, made)

    def give(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@pytest.fixture
def bank(tls_certificate_of: Callable[[str], Path]) -> Iterator[Bank]:
    certificate = tls_certificate_of(NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    with Bank(context) as running:
        thread = Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def proxied(
    bank: Bank, tls_certificate_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Client, ConnectProxy]]:
    """A client of the bank with the settings of production, behind a proxy."""
    with connect_proxy(("127.0.0.1", bank.server_port)) as proxy:
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        bank.proxy = proxy
        settings = Settings.load(
            environ={}, config_file=Path("/nowhere"), base_url=f"https://{NAME}",
            auth_url=f"https://{NAME}", client_id="c", client_secret="secret-of-this-test",
            ca_bundle=str(tls_certificate_of(NAME)), trust_env=True,
        )  # fmt: skip
        with Client(settings, environment=skipping()) as client:
            yield client, proxy


def after_an_older_error(call: Callable[[], Any]) -> None:
    """Where a caller falls back on us: nothing was sent to the place that it tried first."""
    try:
        requests.get("http://127.0.0.1:1/", timeout=5)
    except requests.ConnectionError:
        call()


ENDINGS = ("fin", "rst", "plain bytes")


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_payment_whose_answer_a_proxy_loses_is_in_doubt_and_made_once(
    ending: str, bank: Bank, proxied: tuple[Client, ConnectProxy]
) -> None:
    client, proxy = proxied
    proxy.ending = ending
    with pytest.raises(errors.NetworkError) as caught:
        client.create_fiat_withdrawal(**PAYMENT)
    assert len(bank.paid) == 1
    assert len(bank.seen) > 1, "the same payment was asked for again, under one ref_id"
    assert caught.value.in_doubt
    assert "nothing was sent" not in str(caught.value)
    (ref_id,) = bank.paid
    assert ref_id in str(caught.value), "what to try again with"


@pytest.mark.parametrize("ending", ENDINGS)
def test_nor_does_an_older_error_of_the_caller_say_otherwise(
    ending: str, bank: Bank, proxied: tuple[Client, ConnectProxy]
) -> None:
    client, proxy = proxied
    proxy.ending = ending
    with pytest.raises(errors.NetworkError) as caught:
        after_an_older_error(lambda: client.create_fiat_withdrawal(**PAYMENT))
    assert len(bank.paid) == 1
    assert caught.value.in_doubt


def test_a_lost_answer_within_a_callers_except_block(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    client = make_client(environment=skipping())
    server.script(reset)
    with pytest.raises(errors.NetworkError, match="it may have been carried out") as caught:
        after_an_older_error(lambda: client.update_fiat_account("f", metadata={"a": "b"}))
    assert caught.value.in_doubt
    assert len(server.received) == 1


@pytest.mark.parametrize("line", [b"407 Proxy Authentication Required", b"403 Forbidden"])
def test_what_a_proxy_refuses_was_not_sent(
    line: bytes, bank: Bank, proxied: tuple[Client, ConnectProxy]
) -> None:
    client, proxy = proxied
    proxy.refuses = line
    with pytest.raises(errors.NetworkError, match=line.decode()) as caught:
        client.create_fiat_withdrawal(**PAYMENT)
    assert "nothing was sent" in str(caught.value)
    assert not caught.value.in_doubt
    assert (bank.seen, proxy.tunnels) == ([], 1)


def test_a_proxy_that_fails_is_asked_again(
    bank: Bank, proxied: tuple[Client, ConnectProxy]
) -> None:
    client, proxy = proxied
    proxy.refuses = b"503 Service Unavailable"
    with pytest.raises(errors.NetworkError, match=r"503 Service Unavailable.*nothing was sent"):
        client.create_fiat_withdrawal(**PAYMENT)
    assert proxy.tunnels == 6
    assert bank.seen == []


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
