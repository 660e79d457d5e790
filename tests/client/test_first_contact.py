"""What a newcomer reads when something is not set up: each message says what to do next."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scripted
from scripted import skipping

from fundlab import sandbox
from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.signing import new_key
from fundlab.models import SCOPES

LACKING = "transfer:read_transfer"
QUICK = skipping()


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=3, signing=True) as running:
        yield running


def first_call(service: sandbox.Sandbox, **settings: Any) -> None:
    loaded = service.connect(**settings).settings
    with Client(loaded, environment=QUICK) as client:
        next(client.list_transfers())


WRONG: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("a misspelt setting", {"baseurl": "x"}, errors.SettingsError, "did you mean base_url"),
    ("http elsewhere", {"base_url": "http://api.example.com"}, errors.SettingsError,
     "http:// is for loopback only, use https://"),
    ("no scheme", {"base_url": "api.example.com"}, errors.SettingsError,
     "give a URL such as https://api.example.com"),
    ("no key file", {"signing_key": "/nowhere/key.pem"}, errors.SettingsError,
     "signing_key names no file (no such file or directory); give the path"),
    ("a path in base_url", {"base_url": "{url}/v2"}, errors.NotFound,
     "check base_url: it is what comes before /v2"),
    ("a path in auth_url", {"auth_url": "{url}/oauth2/token"}, errors.NotFound,
     "check auth_url: it is what comes before /oauth2/token"),
    ("a wrong secret", {"client_secret": "wrong"}, errors.AuthenticationFailed,
     "check client_id and client_secret, and that they belong to this auth_url"),
    ("a wrong client", {"client_id": "nobody"}, errors.AuthenticationFailed,
     "check client_id and client_secret"),
    ("another key id", {"signing_key_id": "another"}, errors.AuthenticationFailed,
     "check the credential, signing_key and signing_key_id, or run: fundlab doctor"),
    ("another key", {"signing_key": "{key}"}, errors.AuthenticationFailed,
     "check the credential, signing_key and signing_key_id, or run: fundlab doctor"),
    ("another header", {"signature_header": "Other"}, errors.AuthenticationFailed,
     "fundlab doctor"),
    ("nobody there", {"base_url": "http://127.0.0.1:1"}, errors.NetworkError,
     "Connection refused) after 6 attempts; nothing was sent; check base_url, the network"),
    ("nobody there for tokens", {"auth_url": "http://127.0.0.1:1"}, errors.NetworkError,
     "check auth_url, the network and the proxy, then try again"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "settings", "error", "advice"), WRONG, ids=[w[0] for w in WRONG])
def test_a_wrong_setting(
    name: str, settings: dict[str, Any], error: type[Exception], advice: str,
    service: sandbox.Sandbox, tmp_path: Path,
) -> None:  # fmt: skip
    new_key("ES256", tmp_path / "key.pem")
    places = {"url": service.base_url, "key": str(tmp_path / "key.pem")}
    given = {setting: value.format(**places) for setting, value in settings.items()}
    with pytest.raises(error) as caught:
        first_call(service, **given)
    assert advice in str(caught.value)
    assert type(caught.value) is error


def test_a_scope_that_is_not_granted() -> None:
    granted = [scope for scope in SCOPES if scope != LACKING]
    with (
        sandbox.serve(seed=7, transfers=1, scopes=granted) as service,
        pytest.raises(errors.ScopeMissing) as caught,
    ):
        first_call(service)
    message = str(caught.value)
    assert message.startswith("list_transfers: ")
    assert f"ask the administrator to grant the scope {LACKING} to this credential" in message


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_clock_that_is_off(seconds: int, service: sandbox.Sandbox) -> None:
    service.clock.shift_access(seconds)
    try:
        with pytest.raises(errors.AuthenticationFailed, match="check this machine's clock"):
            first_call(service)
    finally:
        service.clock.shift_access(0)


def test_no_network(service: sandbox.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(errors.NetworkError) as caught:
        first_call(service, auth_url="https://auth.example.com")
    message = str(caught.value)
    assert "auth.example.com: no connection (Name or service not known)" in message
    assert "nothing was sent; check auth_url, the network and the proxy" in message


def test_a_portal_that_answers_for_everything(
    server: scripted.Scripted, make_client: Callable[..., Client]
) -> None:
    server.script(scripted.answer(b"<html>Please sign in"))
    with pytest.raises(errors.ProtocolError) as caught:
        make_client().get_transfer("t")
    message = str(caught.value)
    assert "is not JSON (it starts b'<html>Please sign in')" in message
    assert "check base_url: is this the service, or a proxy or portal before it?" in message
