"""One canary secret and one canary token, every operation, every failure: found nowhere."""

from __future__ import annotations

import io
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

import pytest
import scripted
from IPython.core.ultratb import VerboseTB
from rich.console import Console
from rich.traceback import Traceback
from scripted import answer, problem
from test_operations import SENT

from fundlab import errors
from fundlab.api.client import Client, connect
from fundlab.api.transport import Environment

SECRET, TOKEN = "canary-5f0c2d", scripted.TOKEN


def clean(text: str | bytes) -> None:
    shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
    assert SECRET not in shown
    assert TOKEN not in shown


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


def rich_text(error: BaseException) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(
        Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True)
    )
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text


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
    "malformed, echoing the token": answer({"id": 5, "items": TOKEN, "addresses": TOKEN}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_error_of_any_operation_shows_it(
    fault: str, server: scripted.Scripted, make_client: Callable[..., Client],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    client = make_client(environment=Environment(sleep=lambda seconds: None, draw=lambda: 0.0))
    for name, arguments, *_ in SENT:
        if name == "initiate_sandbox_fiat_deposit" and fault.split(",")[0] in (
            "not JSON",
            "malformed",
        ):
            continue  # its answer is not read
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
            clean(rich_text(error))
        pickle_text(error)
    clean(caplog.text)
    assert "list_transfers" in caplog.text


def pickle_text(error: BaseException) -> None:
    """Whether or not an error can be pickled, nothing of it leaks."""
    try:
        clean(pickle.dumps(error))
    except TypeError as refusal:
        clean(str(refusal))


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
    client = make_client(environment=Environment(sleep=lambda seconds: None))
    server.token_answers[:] = [reply]
    error = raised(client, "get_transfer", {"id": "t"})
    for shown in (captured(error), verbose(error), rich_text(error), repr(vars(error))):
        clean(shown)
    clean(caplog.text)


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
]


@pytest.mark.parametrize("bad", BAD)
def test_a_secret_beside_a_wrong_setting_is_not_shown(
    bad: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", SECRET)
    monkeypatch.delenv("FUNDLAB_AUTH_URL", raising=False)
    given = {"base_url": "https://a.example", "auth_url": "https://a.example", "client_id": "c"}
    with pytest.raises(errors.SettingsError) as caught:
        connect(**(given | {"client_secret": SECRET} | bad))
    clean(str(caught.value))
    frames = list(frames_of_ours(caught.value.__traceback__))
    assert frames
    for frame in frames:
        clean(repr(frame.f_locals))
