from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import scripted
from scripted import answer, problem, skipping, token

from fundlab.base.errors import (
    AuthenticationFailed,
    CallError,
    NetworkError,
    ScopeMissing,
    SettingsError,
    SigningFailed,
)
from fundlab.client import doctor as module
from fundlab.client.client import Client
from fundlab.client.doctor import Check, clock, connection, doctor, one_read, token_and_scopes
from fundlab.client.http import Answer
from fundlab.client.signing import new_key
from fundlab.models import SCOPES

SECRET = "canary-8d2e41"
KNOCK = problem(401)
"""The service's answer to a read without a token."""


def failing(checks: list[Check]) -> list[Check]:
    return [check for check in checks if not check.ok]


def test_all_is_well(server: scripted.Scripted, client: Client) -> None:
    server.script(KNOCK, answer({"items": []}))
    checks = doctor(client.settings)
    assert failing(checks) == []
    assert [check.name for check in checks] == [
        "settings", "connection", "clock", "token", *(f"scope {name}" for name in SCOPES),
        "credential", "signing", "read",
    ]  # fmt: skip
    assert [request.method for request in server.received] == ["GET", "GET"]
    assert "authorization" not in server.received[0].headers


@pytest.mark.parametrize(
    ("sandbox", "kind"), [(False, "on this machine, so taken for a sandbox"), (True, "sandbox")]
)
def test_why_it_is_a_sandbox_is_said(
    server: scripted.Scripted, client: Client, sandbox: bool, kind: str
) -> None:
    server.script(KNOCK, answer({"items": []}))
    (settings, *_) = doctor(replace(client.settings, sandbox=sandbox))
    assert settings.detail.startswith(f"{client.base_url} ({kind}), a client_id")


def test_missing_settings_are_the_only_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BASE_URL", "AUTH_URL", "CLIENT_ID", "CLIENT_SECRET", "PROFILE"):
        monkeypatch.delenv(f"FUNDLAB_{name}", raising=False)
    (check,) = doctor()
    assert (check.name, check.ok) == ("settings", False)
    assert "FUNDLAB_CLIENT_SECRET" in check.detail


def test_a_key_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("BASE_URL", "AUTH_URL"):
        monkeypatch.setenv(f"FUNDLAB_{name}", "http://127.0.0.1:1")
    for name in ("CLIENT_ID", "CLIENT_SECRET", "SIGNING_KEY_ID"):
        monkeypatch.setenv(f"FUNDLAB_{name}", "c")
    monkeypatch.setenv("FUNDLAB_SIGNING_KEY", str(tmp_path / "none.pem"))
    (check,) = doctor()
    assert (check.name, check.ok) == ("settings", False)
    assert "signing_key names no file (no such file or directory)" in check.detail
    assert "fundlab keys new" in check.detail
    assert "none.pem" not in check.detail  # a secret, given where a path belongs, is not shown


def test_a_key_that_others_can_read_is_not_to_be_made_anew(
    make_client: Callable[..., Client], tmp_path: Path
) -> None:
    new_key("EdDSA", tmp_path / "k")
    settings = make_client(signing_key=tmp_path / "k", signing_key_id="k").settings
    (tmp_path / "k").chmod(0o644)
    check = doctor(settings)[-1]
    assert (check.name, check.ok) == ("signing key", False)
    assert "chmod 600" in check.detail
    assert check.advice == (
        "set the key, its file or signing_key_password right, then run this again"
    )


def test_no_connection(make_client: Callable[..., Client]) -> None:
    settings = make_client(base_url="http://127.0.0.1:1").settings
    (check,) = failing(doctor(settings, environment=skipping()))
    assert check.name == "connection"
    assert "127.0.0.1:1" in check.detail
    assert check.advice.startswith("nothing was sent; ")


@pytest.mark.parametrize(
    ("reply", "advice"),
    [
        (problem(404), "check base_url: it is what comes before /v2"),
        (answer(b"", 302, Location="/login"), "check base_url: no redirect is followed"),
        (
            answer(b"<html>Sign in</html>"),
            "check base_url and the network: a sign-in page or a proxy may answer in its place",
        ),
        (
            problem(500),
            "try again later; if it stays, show it to the operator of the service",
        ),
    ],
)
def test_a_place_that_is_not_the_service(
    reply: bytes, advice: str, server: scripted.Scripted, client: Client
) -> None:
    server.script(reply)
    (check,) = failing(doctor(client.settings, environment=skipping()))
    assert (check.name, check.advice) == ("connection", advice)
    assert server.token_requests == []


def test_a_clock_that_is_off(server: scripted.Scripted, client: Client) -> None:
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 1000))
    server.script(problem(401, headers={"Date": date}), answer({"items": []}))
    (check,) = failing(doctor(client.settings))
    assert check.name == "clock"
    assert "behind the service's" in check.detail


def test_an_unknown_credential_ends_the_examination(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(KNOCK)
    server.token_answers[:] = [answer({"error": "invalid_client"}, 401)]
    checks = doctor(client.settings)
    assert checks[-1].name == "token"
    assert "client_secret" in checks[-1].advice
    assert len(server.token_requests) == 1


def granting(*scopes: str) -> scripted.Answer:
    """A token endpoint at which the credential has these scopes."""

    def respond(connection: socket.socket, request: scripted.Received) -> None:
        asked = [name for name in SCOPES if name.encode() in request.body]
        refused = answer({"error": "invalid_scope"}, 400)
        connection.sendall(token() if {*asked} <= {*scopes} else refused)

    return respond


READS = [name for name in SCOPES if ":read_" in name]


def test_a_credential_that_only_reads_is_well(server: scripted.Scripted, client: Client) -> None:
    server.token_answers[:] = [granting(*READS)]
    server.script(KNOCK, answer({"items": []}))
    checks = {check.name: check for check in doctor(client.settings)}
    assert failing([*checks.values()]) == []
    assert checks["credential"].detail == (
        "may read everything that a sync fetches; may carry out nothing that changes anything"
    )
    pays = checks["scope transfer:write_fiat_withdrawal"]
    assert (pays.detail, pays.advice) == ("not granted, so no create_fiat_withdrawal", "")


def test_each_scope_that_a_sync_lacks_is_named(server: scripted.Scripted, client: Client) -> None:
    server.token_answers[:] = [granting("events:read_event", "transfer:write_fiat_withdrawal")]
    server.script(KNOCK, answer({"events": []}))
    checks = doctor(client.settings)
    found = failing(checks)
    lacking = [name for name in READS if name != "events:read_event"]
    assert [check.name for check in found] == [f"scope {name}" for name in lacking]
    assert found[-1].detail == (
        "not granted, so no list_transfers, get_transfer: a sync of all tables needs it"
    )
    assert "grant the scope transfer:read_transfer" in found[-1].advice
    (credential,) = [check for check in checks if check.name == "credential"]
    assert credential.detail == "may read list_events; may carry out create_fiat_withdrawal"


def test_a_credential_without_any_scope_may_do_nothing(
    server: scripted.Scripted, client: Client
) -> None:
    server.token_answers[:] = [granting()]
    server.script(KNOCK)
    assert doctor(client.settings)[-1].detail == "may do nothing: no scope is granted"


def test_a_secret_in_the_place_of_the_client_id_is_not_shown(
    server: scripted.Scripted, make_client: Callable[..., Client], tmp_path: Path
) -> None:
    new_key("EdDSA", tmp_path / "k")
    swapped = make_client(
        client_id=SECRET, client_secret="client-1", signing_key=tmp_path / "k",
        signing_key_id=f"{SECRET}-too",
    )  # fmt: skip
    server.script(KNOCK)
    said = {"error": "invalid_client", "error_description": f"no client {SECRET}"}
    server.token_answers[:] = [answer(said, 401)]
    assert SECRET not in repr(doctor(swapped.settings))
    server.token_answers[:] = [token()]
    server.script(KNOCK, answer({"items": []}))
    (check,) = [c for c in doctor(make_client().settings) if c.name == "token"]
    assert check.detail.endswith("knows this credential, client client-1")


@pytest.mark.parametrize(
    ("client_id", "shown"),
    [
        ("c", "no client c in the accounts of client-10"),
        ("client", "no client c in the accounts of client-10"),
        ("accounts", "no client c in the (the client_id) of client-10"),
        ("client-1", "no client c in the accounts of client-10"),
    ],
)
def test_what_the_token_endpoint_says_stays_readable(
    client_id: str, shown: str, server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    server.script(KNOCK)
    said = "no client c in the accounts of client-10"
    refused = {"error": "invalid_client", "error_description": said}
    server.token_answers[:] = [answer(refused, 401)]
    check = doctor(make_client(client_id=client_id).settings)[-1]
    assert check.name == "token"
    assert shown in check.detail


@pytest.mark.parametrize(("signed", "advice"), [(False, "set signing_key"), (True, "registered")])
def test_a_signature_that_is_missing_or_refused(
    signed: bool, advice: str, server: scripted.Scripted, make_client: Callable[..., Client],
    tmp_path: Path,
) -> None:  # fmt: skip
    new_key("EdDSA", tmp_path / "k")
    key = {"signing_key": tmp_path / "k", "signing_key_id": "k"} if signed else {}
    server.script(problem(401))
    (check,) = failing(doctor(make_client(**key).settings))
    assert check.name == "signing"
    assert advice in check.advice


def test_a_read_that_fails(server: scripted.Scripted, client: Client) -> None:
    server.script(problem(401), problem(500, "Bug"))
    (check,) = failing(doctor(client.settings, environment=skipping()))
    assert (check.name, "500 Bug" in check.detail) == ("read", True)


def test_a_page_that_is_no_list_is_no_read(server: scripted.Scripted, client: Client) -> None:
    server.script(KNOCK, answer(b"<html>Sign in</html>"))
    (check,) = failing(doctor(client.settings))
    assert check.name == "read"
    assert "not JSON" in check.detail
    assert "limit=1&" in server.received[1].target


def test_a_signer_that_fails_is_named(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    class Device:
        kid, alg = "hsm-7", "EdDSA"

        def sign(self, message: bytes) -> bytes:
            raise RuntimeError("the device is unplugged")

    server.script(KNOCK)
    (check,) = failing(doctor(make_client().settings, signer=Device()))
    assert check.name == "signing"
    assert "the signer of key hsm-7 raised RuntimeError" in check.detail


# ------------------------------------------------------------------------ each check by itself


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (200, "u answers 200 to a read without a token"), (299, "u answers 299 to a read"),
        (300, "u redirects to '/in'"), (399, "u redirects to '/in'"), (400, None), (401, None),
        (404, "u answers, but does not know /v2/events"), (405, None), (499, None),
        (500, "u answers 500: the service, or what is before it, fails"), (599, "u answers 599"),
    ],
)  # fmt: skip
def test_what_an_answer_without_a_token_says(status: int, detail: str | None) -> None:
    check = connection("u", Answer(status, {"Location": "/in"}, b""))
    assert (check.name, check.ok) == ("connection", detail is None)
    assert check.detail.startswith(detail or "u answers")
    assert bool(check.advice) is (detail is not None)


@pytest.mark.parametrize(
    ("skew", "ok", "detail"),
    [
        (None, True, "the service does not say what time it is"),
        (0.0, True, "within 0 s of the service's"), (300.0, True, "within 300 s of the service's"),
        (-300.0, True, "within 300 s of the service's"),
        (300.5, False, "this machine's clock is 300 s behind the service's"),
        (-301.0, False, "this machine's clock is 301 s ahead of the service's"),
    ],
)  # fmt: skip
def test_a_clock_may_be_five_minutes_off(skew: float | None, ok: bool, detail: str) -> None:
    check = clock(skew)
    assert (check.ok, check.detail, bool(check.advice)) == (ok, detail, not ok)


class Endpoint:
    """A client whose credential has these scopes, and whose reads end in ``error``."""

    def __init__(
        self, *scopes: str, production: bool = False, client_id: str = "client-1",
        error: Exception | None = None, signer: Any = None,
    ) -> None:  # fmt: skip
        self.scopes, self.client_id, self.error, self.signer = scopes, client_id, error, signer
        self.settings = SimpleNamespace(is_production=production, auth_url="https://auth")
        self.transport, self.asked = self, list[Any]()

    def fetch_token(self, scopes: frozenset[str], *, operation: str) -> None:
        assert operation == "doctor"
        self.asked += scopes
        if self.error is not None:
            raise self.error
        if not scopes <= {*self.scopes}:
            raise ScopeMissing(403, "Forbidden", hint="grant it")

    def _read(self, max_rows: int, page_size: int) -> Any:
        self.asked.append((max_rows, page_size))
        if self.error is not None:
            raise self.error
        return iter(())

    list_transfers = list_events = list_fiat_accounts = _read


def checked(client: Endpoint) -> tuple[dict[str, Check], list[str]]:
    checks, granted = token_and_scopes(client)  # type: ignore[arg-type]
    return {check.name: check for check in checks}, granted


SANDBOX = "transfer:write_sandbox_fiat_deposit"


@pytest.mark.parametrize("production", [False, True])
def test_scopes_of_a_sandbox_are_none_of_production(production: bool) -> None:
    client = Endpoint(*SCOPES, production=production)
    checks, granted = checked(client)
    own = [scope for scope in SCOPES if not (production and scope == SANDBOX)]
    assert granted == client.asked == own
    assert [*checks] == ["token", *(f"scope {scope}" for scope in own), "credential"]
    assert all(check.ok and not check.advice for check in checks.values())
    assert {check.detail for name, check in checks.items() if "scope" in name} == {"granted"}
    assert checks["token"].detail == "https://auth knows this credential, client client-1"


def test_scopes_that_lack() -> None:
    """Those for reading are a fault, with what to do; others may be withheld on purpose."""
    checks, granted = checked(Endpoint("transfer:write_fiat_withdrawal"))
    assert granted == ["transfer:write_fiat_withdrawal"]
    for scope in SCOPES:
        check, reads = checks[f"scope {scope}"], ":read_" in scope
        assert check.ok is (scope in granted or not reads), scope
        assert check.advice == ("grant it" if reads else "")
        assert check.detail.endswith(": a sync of all tables needs it") is reads
    assert checks["credential"] == Check(
        "credential", True, "may read nothing; may carry out create_fiat_withdrawal"
    )
    checks, granted = checked(Endpoint())
    assert granted == []
    assert checks["credential"].ok is False
    assert checks["credential"].detail == "may do nothing: no scope is granted"
    assert "administrator" in checks["credential"].advice


@pytest.mark.parametrize(
    ("client_id", "hint", "said"),
    [
        ("abcdefgh", None, "no (the client_id) or abcdefghi"),
        ("abcdefg", "try", "no abcdefgh or abcdefghi"),
    ],
)
def test_a_token_that_is_refused(client_id: str, hint: str | None, said: str) -> None:
    """Of an id of eight characters or more its text is no word of the answer."""
    error = CallError("doctor: no abcdefgh or abcdefghi", operation="doctor", hint=hint)
    client = Endpoint(*SCOPES, client_id=client_id, error=error)
    checks, granted = checked(client)
    assert (granted, len(client.asked)) == ([], 1)
    assert checks == {"token": Check("token", False, said, hint or "")}


@pytest.mark.parametrize(
    ("granted", "read"),
    [
        ([*SCOPES], "list_transfers"), (["transfer:read_transfer"], "list_transfers"),
        (["events:read_event", "transfer:read_fiat_account"], "list_events"),
        (["transfer:read_fiat_account"], "list_fiat_accounts"), ([], None),
        (["funding:read_profile"], None),
    ],
)  # fmt: skip
def test_one_read_of_one_row(granted: list[str], read: str | None) -> None:
    client = Endpoint()
    checks = one_read(client, granted)  # type: ignore[arg-type]
    if read is None:
        untried = "not tried: no scope to list transfers, events or fiat accounts"
        assert (checks, client.asked) == ([Check("read", True, untried)], [])
        return
    assert client.asked == [(1, 1)]
    assert checks == [
        Check("signing", True, "this credential needs no signatures"),
        Check("read", True, f"{read} answers"),
    ]


KEY = SimpleNamespace(kid="k-7", alg="EdDSA")
REFUSED = AuthenticationFailed(401, "Unauthorized")


@pytest.mark.parametrize(
    ("error", "signer", "name", "detail", "advice"),
    [
        (REFUSED, None, "signing", "an unsigned request with a fresh token was refused", "require"),
        (REFUSED, KEY, "signing", "a request signed with key k-7 was refused", "registered"),
        (SigningFailed("the device is gone"), KEY, "signing", "the device is gone", "the signer"),
        (NetworkError("no way", hint="the cable"), KEY, "read", "no way", "the cable"),
        (NetworkError("no way"), None, "read", "no way", ""),
        (None, KEY, "signing", "a request signed with EdDSA key k-7 was accepted", ""),
    ],
)
def test_what_a_read_says_of_signatures(
    error: Exception | None, signer: Any, name: str, detail: str, advice: str
) -> None:
    client = Endpoint(error=error, signer=signer)
    check, *more = one_read(client, [*SCOPES])  # type: ignore[arg-type]
    assert (check.name, check.ok) == (name, error is None)
    assert check.detail.startswith(detail)
    assert advice in check.advice
    assert bool(check.advice) is bool(advice)
    assert len(more) == (error is None)


@pytest.mark.parametrize(
    ("given", "kind", "key"),
    [
        ({"base_url": "https://api.example.com"}, "production", "no signing key"),
        ({"base_url": "https://api.example.com", "sandbox": True}, "sandbox", "no signing key"),
        (
            {"signing_key": "k", "signing_key_id": "k"},
            "on this machine, so taken for a sandbox",
            "with a signing key",
        ),
        ({"sandbox": True}, "sandbox", "no signing key"),
    ],
)  # fmt: skip
def test_what_was_set(
    given: dict[str, Any], kind: str, key: str, client: Client, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    """And that the C part is not in use; an error of the key ends the examination there."""

    def none(*_: Any, **__: Any) -> None:
        raise SettingsError("no such key")

    monkeypatch.setattr(module, "Client", none)
    monkeypatch.setattr(module, "slow_path", lambda: "no compiler")
    if "signing_key" in given:
        new_key("EdDSA", tmp_path / "k")
        given = {**given, "signing_key": tmp_path / "k"}
    settings = replace(client.settings, **given)
    found, speed, last = doctor(settings)
    assert found == Check(
        "settings", True, f"{settings.base_url} ({kind}), a client_id and its secret, {key}"
    )
    assert (speed.name, speed.ok, speed.detail) == (
        "speed", True, "the C part is not in use: no compiler",
    )  # fmt: skip
    assert "C compiler" in speed.advice
    assert (last.name, last.ok, last.detail) == ("signing key", False, "no such key")
    monkeypatch.setattr(module, "slow_path", lambda: "")
    assert [check.name for check in doctor(settings)] == ["settings", "signing key"]
