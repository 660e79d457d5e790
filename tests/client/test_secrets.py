"""One canary secret and one canary token, every operation, every failure: found nowhere."""

from __future__ import annotations

import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
import scripted
from IPython.core.ultratb import VerboseTB
from scripted import answer, problem, skipping
from test_leaks import SECRET, TOKEN, leaked, rich_traceback
from test_operations import SENT

from fundlab.base import errors
from fundlab.client.client import Client, connect
from fundlab.client.http import Answer
from fundlab.client.transport import without
from fundlab.settings.secret import Secret
from fundlab.settings.settings import Settings, checked_url


def clean(text: str | bytes) -> None:
    assert leaked(text) == []


def chained(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def frames_of_ours(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        if "/fundlab/" in trace.tb_frame.f_code.co_filename:
            yield trace.tb_frame
        trace = trace.tb_next


def verbose(error: BaseException) -> str:
    """IPython's verbose traceback: the source and every local of every frame."""
    return str(VerboseTB(theme_name="nocolor").text(type(error), error, error.__traceback__))


def captured(error: BaseException) -> str:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    return "".join(lines)


def raised(client: Client, name: str, arguments: dict[str, Any]) -> BaseException:
    try:
        result = getattr(client, name)(**arguments)
        if name.startswith("list_"):
            list(result)
    except errors.FundlabError as error:
        return error
    raise AssertionError(f"{name} did not fail")


ECHO = problem(403, f"Bearer {TOKEN} is bad", detail=f"token {TOKEN}", meta={"sent": TOKEN})
FAULTS = {
    "refused, echoing the token": ECHO,
    "server error": problem(500),
    "not JSON, echoing the token": answer(f"<html>{TOKEN}".encode()),
    "reset": scripted.reset,
    "redirect": answer(b"", 302, Location="http://127.0.0.1:1/"),
    "unauthorized": problem(401),
    "malformed, echoing the token": answer(
        {"id": 5, "items": TOKEN, "addresses": TOKEN, "events": TOKEN}
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS)
def test_no_error_of_any_operation_shows_it(
    fault: str, server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    client = make_client(environment=skipping(draw=lambda: 0.0))
    for name, arguments, *_ in SENT:
        server.script(FAULTS[fault])
        error = raised(client, name, arguments)
        for link in chained(error):
            clean(str(link))
            clean(repr(link))
            clean(repr(link.args))
            clean(repr(vars(link)))
            for frame in frames_of_ours(link.__traceback__):
                clean(repr(frame.f_locals))
        clean(captured(error))
        if name in ("get_transfer", "create_fiat_withdrawal"):
            clean(verbose(error))
            clean(rich_traceback(error))
        pickle_text(error)
    clean(caplog.text)
    assert "list_transfers" in caplog.text


def pickle_text(error: BaseException) -> None:
    """Whether or not an error can be pickled, nothing of it leaks."""
    try:
        clean(pickle.dumps(error))
    except TypeError as refusal:
        clean(str(refusal))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "reply",
    [
        answer({"error": "invalid_client", "error_description": SECRET}, 401),
        problem(400, SECRET),
        answer({"access_token": f"{TOKEN}\r\n"}),
        answer({"access_token": TOKEN, "expires_in": "never"}),
        answer(f"<html>{TOKEN}".encode()),
        scripted.reset,
        scripted.cut(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + TOKEN.encode()),
    ],
)
def test_no_failure_of_the_token_endpoint_shows_it(
    reply: scripted.Answer, server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    client = make_client(environment=skipping())
    server.token_answers[:] = [reply]
    error = raised(client, "get_transfer", {"id": "t"})
    for shown in (captured(error), verbose(error), rich_traceback(error), repr(vars(error))):
        clean(shown)
    clean(caplog.text)


ESCAPED = "".join(f"\\u{ord(char):04X}" for char in TOKEN[:3]) + TOKEN[3:]
ECHOES = {
    "in a redirect": answer(b"", 302, Location=f"http://127.0.0.1:1/?s={TOKEN}&t={SECRET}"),
    "in a redirect, quoted": answer(b"", 302, Location=f"/%{ord(TOKEN[0]):x}{TOKEN[1:]}"),
    "as request id": problem(403, headers={"X_Request_Id": TOKEN}),
    "as request id, the secret": problem(403, headers={"X_Request_Id": SECRET}),
    "escaped": answer(b'{"title": "No", "detail": "%s"}' % ESCAPED.encode(), 403),
    "escaped, in meta": answer(b'{"meta": {"sent": ["%s"]}}' % ESCAPED.encode(), 409),
    "as UTF-16": answer(f'{{"detail": "{TOKEN}"}}'.encode("utf-16"), 400),
    "escaped, in a resource": answer(b'{"id": "t", "status": 5, "x": "%s"}' % ESCAPED.encode()),
    "the secret": problem(400, f"not {SECRET}"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("echo", ECHOES)
def test_no_spelling_of_an_echo_shows_it(
    echo: str, server: scripted.Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.script(ECHOES[echo])
    error = raised(client, "get_transfer", {"id": "t"})
    assert isinstance(error, errors.CallError)
    for shown in (captured(error), verbose(error), rich_traceback(error), repr(vars(error))):
        clean(shown)
    clean(repr(error.request_id))
    clean(caplog.text)
    assert "get_transfer" in caplog.text


def test_an_echo_in_a_resource_or_its_request_id_is_masked(
    server: scripted.Scripted, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = b'{"id": "t", "memo": "%s", "amount": "0.10"}' % ESCAPED.encode()
    server.script(answer(body, X_Request_Id=f"for-{TOKEN}"))
    transfer = client.get_transfer("t")
    assert transfer.memo == "***"
    assert str(transfer.amount) == "0.10"
    assert "request for-***" in caplog.text
    clean(caplog.text)


def lower_hex(quoted: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), quoted)


def escaped_in_capitals(members: dict[str, str]) -> bytes:
    """JSON with every character of every text escaped, in capital hexadecimal."""

    def escaped(text: str) -> str:
        return "".join(rf"\u{ord(char):04X}" for char in text)

    pairs = (f'"{escaped(name)}": "{escaped(text)}"' for name, text in members.items())
    return f"{{{', '.join(pairs)}}}".encode()


def test_an_echo_in_escapes_is_masked_in_a_resource_and_nothing_else_is_written_anew() -> None:
    secret = Secret("a-secret-of-the-client-0123456789")
    escaped = "".join(f"\\u{ord(char):04x}" for char in secret.reveal())
    found = without(Answer(200, {}, f'{{"id":"t","memo":"{escaped}"}}'.encode()), secret)
    assert json.loads(found.body)["id"] == "t"
    assert secret.reveal() not in json.loads(found.body)["memo"]
    for body in (b'{ "id" : "t" }', b'{ "memo" : "a\\u0062c" }'):
        assert without(Answer(200, {}, body), secret).body == body


ODD_SECRETS = ['CANARY"sec\\ret', "CANARYé", "CANARY+ %/&?", "CANARY-ключ"]


@pytest.mark.parametrize("secret", ODD_SECRETS)
def test_no_spelling_of_an_odd_secret_is_shown(
    secret: str, server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    client = make_client(client_secret=secret, environment=skipping())
    refusal = {"error": "invalid_client", "error_description": f"not {secret}!"}
    for reply in (
        answer(refusal, 401),
        answer(json.dumps(refusal, ensure_ascii=False).encode(), 401),
        answer(escaped_in_capitals(refusal), 400),
        problem(400, secret, headers={"X_Request_Id": quote(secret)}),
        answer(b"", 302, Location=f"/?s={quote(secret, safe='')}"),
        answer(b"", 302, Location=f"/?s={lower_hex(quote_plus(secret))}"),
    ):
        server.token_answers[:] = [reply]
        error = raised(client, "get_transfer", {"id": "t"})
        for shown in (str(error), repr(error), captured(error), repr(vars(error)), caplog.text):
            assert "CANARY" not in shown


@pytest.mark.parametrize("with_token", [False, True])
@pytest.mark.parametrize(
    "place",
    [
        "http.client.HTTPResponse.begin",
        "http.client.HTTPConnection.send",
        "urllib3.connection.HTTPConnection.connect",
    ],
)
def test_an_interrupt_in_the_middle_of_a_call_shows_none(
    place: str, with_token: bool, server: scripted.Scripted, client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Frames of requests, urllib3 and http.client then hold what is sent, masked."""

    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    server.script(answer({"id": "t"}))
    if with_token:
        client.get_transfer("t")
        client.close()
    monkeypatch.setattr(place, interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        client.get_transfer("t")
    assert "urllib3" in captured(caught.value)
    for shown in (captured, verbose):
        clean(shown(caught.value))


BAD: list[dict[str, Any]] = [
    {"rate_limit": "x"},
    {"base_url": "http://a.example"},
    {"unknown": 1},
    {"signing_key": "/nowhere/k.pem", "signing_key_id": "k"},
    {"auth_url": None},
    {"clientsecret": SECRET},
    {"secret": SECRET},
    {"secret": {"is": [SECRET]}},
    {"client_secret": SECRET.encode()},
    {"client_secret": [SECRET]},
    {"client_secret": f"{SECRET} "},
    {"signing_key_password": SECRET.encode()},
    {"client_id": f"{SECRET} "},
    {"client_id": [SECRET]},
    {"signing_key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}", "signing_key_id": "k"},
    {"signing_key": f"-----BEGIN PRIVATE KEY-----{SECRET}", "signing_key_id": "k"},
    {"signing_key": SECRET * 30, "signing_key_id": "k"},
    {"signing_key": SECRET.encode(), "signing_key_id": "k"},
    {"signing_keys": SECRET},
    {"signing_keys": {"a": SECRET}, "signing_key_id": "b"},
    {"signing_keys": {"k": f"-----{SECRET}"}, "signing_key_id": "k"},
    {"client_secret": None, "client_secret_file": SECRET},
    {"signature_header": f"{SECRET}:"},
    {"signature_prefix": f"{SECRET} "},
    {"sandbox": SECRET},
    {"rate_limit": SECRET},
    {"withdrawal_limit": SECRET},
    {"allowed_accounts": {SECRET: 1}},
    *(
        {name: url}
        for name in ("base_url", "auth_url")
        for url in (
            f"https://u:{SECRET}@a.example:99999",
            f"https://u:{SECRET}@[a.example",
            f"https://u:{SECRET}@a.example",
            f"u:{SECRET}@a.example",
            f"https://a.example?key={SECRET}",
            f"https://a.example#{SECRET}",
            f"http://a.example/{SECRET}",
            SECRET.encode(),
        )
    ),
]


@pytest.mark.thorough
@pytest.mark.parametrize("bad", BAD)
def test_a_secret_beside_a_wrong_setting_is_not_shown(
    bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", SECRET)
    monkeypatch.delenv("FUNDLAB_AUTH_URL", raising=False)
    given = {"base_url": "https://a.example", "auth_url": "https://a.example", "client_id": "c"}
    with pytest.raises(errors.SettingsError) as caught:
        connect(**(given | {"client_secret": SECRET} | bad))
    assert_nothing_shown(caught.value)


@pytest.mark.parametrize(
    "table",
    [
        f'[p]\nclient_secrt = "{SECRET}"',
        f'[p]\nclient_secret = ["{SECRET}"]',
        f'[p]\nclient_secret = {{ is = "{SECRET}" }}',
        f'[p.prod]\nclient_secret = "{SECRET}"',
        f'[p]\nrate_limit = "x"\n[[a]]\nclient_secret = "{SECRET}"\n[b.c]\nsecret = "{SECRET}"',
        f'[q.p]\nclient_secret = "{SECRET}"',
        f'[q]\nsecret = "{SECRET}"',
        f'client_secret = "{SECRET}"',
    ],
)
def test_a_secret_in_a_wrong_place_of_the_file_is_not_shown(table: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.touch(0o600)
    path.write_text(table)
    with pytest.raises(errors.SettingsError) as caught:
        Settings.load("p", environ={"FUNDLAB_CLIENT_SECRET": SECRET}, config_file=path)
    assert_nothing_shown(caught.value)


def test_what_is_given_is_looked_for_where_it_would_show() -> None:
    """Else the tests above would find nothing whatever they did."""
    with pytest.raises(errors.SettingsError) as caught:
        checked_url("base_url", f"https://u:{SECRET}@a.example")
    with pytest.raises(AssertionError):
        assert_nothing_shown(caught.value)


def assert_nothing_shown(error: BaseException) -> None:
    for link in chained(error):
        clean(str(link))
        clean(repr(link.args))
        frames = list(frames_of_ours(link.__traceback__))
        assert frames
        for frame in frames:
            clean(repr(frame.f_locals))
    of_ours = error.with_traceback(from_ours(error.__traceback__))
    for shown in (captured(of_ours), rich_traceback(of_ours)):
        clean(shown)


def from_ours(trace: TracebackType | None) -> TracebackType | None:
    """``trace`` without the tests' own frames at its start, which hold what they give."""
    while trace is not None and "/fundlab/" not in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace
