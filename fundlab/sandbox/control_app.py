"""The control interface over HTTP: loopback only, off the interface's paths.

``POST /_sandbox/<action>`` takes the arguments of a ``Control`` method as a JSON object,
``GET /_sandbox/<view>`` shows something; ``GET /_sandbox`` lists both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import ValidationError, validate_call
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fundlab.errors import SandboxError
from fundlab.sandbox.app import limited_body
from fundlab.sandbox.control import Control
from fundlab.sandbox.reading import read_json_object
from fundlab.sandbox.refusals import PROBLEM_MEDIA_TYPE, Refusal, invalid

CONTROL_PREFIX: Final = "/_sandbox"
STATE_PATH: Final = f"{CONTROL_PREFIX}/state"
SQLITE_MEDIA_TYPE: Final = "application/vnd.sqlite3"
MAX_CONTROL_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_STATE_BYTES: Final = 4 * 1024**3
ACTIONS: Final = (
    "advance", "shift_access", "revoke_tokens", "add_credential", "rotate_secret",
    "add_signing_key", "require_signing", "add_destination_address", "add_identity", "add_event",
    "crypto_deposit", "set_trading", "deprecate_instructions", "add_fault", "remove_fault",
    "clear_faults", "clear_requests", "reset",
)  # fmt: skip
VIEWS: Final = ("clock", "credentials", "ledger", "faults", "requests")

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def add_control(app: FastAPI, control: Control) -> None:
    """Serve ``control`` under ``/_sandbox``."""

    async def index(_: Request) -> Response:
        return JSONResponse({"actions": list(ACTIONS), "views": list(VIEWS), "state": STATE_PATH})

    async def save(_: Request) -> Response:
        return Response(control.save(), media_type=SQLITE_MEDIA_TYPE)

    async def load(request: Request) -> Response:
        return JSONResponse(control.load(await limited_body(request, MAX_STATE_BYTES)))

    routes = [(CONTROL_PREFIX, "GET", index), (STATE_PATH, "GET", save), (STATE_PATH, "PUT", load)]
    routes += [(f"{CONTROL_PREFIX}/{name}", "GET", _view(control, name)) for name in VIEWS]
    routes += [(f"{CONTROL_PREFIX}/{name}", "POST", _action(control, name)) for name in ACTIONS]
    for path, method, endpoint in routes:
        app.add_route(path, _guarded(endpoint), methods=[method], include_in_schema=False)


def _view(control: Control, name: str) -> Endpoint:
    async def show(_: Request) -> Response:
        return JSONResponse(getattr(control, name)())

    return show


def _action(control: Control, name: str) -> Endpoint:
    call: Callable[..., Any] = validate_call(getattr(control, name))

    async def act(request: Request) -> Response:
        declared = request.headers.get("content-type", "").partition(";")[0].strip()
        if declared != "application/json":  # what a web page cannot send across origins unasked
            raise Refusal(415, "the content type must be application/json")
        body = await limited_body(request, MAX_CONTROL_BODY_BYTES)
        arguments: dict[str, Any] = read_json_object(body) if body else {}
        if "self" in arguments:  # which older releases of pydantic take for the wrapper's own
            raise Refusal(400, f"{name} has no argument 'self'")
        return JSONResponse(call(**arguments))

    return act


def _guarded(endpoint: Endpoint) -> Endpoint:
    """Local clients only, and problems for whatever is refused."""

    async def answer(request: Request) -> Response:
        try:
            _check_local(request)
            return await endpoint(request)
        except Refusal as error:
            refusal = error
        except SandboxError as error:
            refusal = Refusal(400, str(error))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            refusal = invalid(".".join(map(str, first["loc"])), first["msg"])
        return Response(
            refusal.body(), refusal.status, headers=refusal.headers, media_type=PROBLEM_MEDIA_TYPE
        )

    return answer


def _check_local(request: Request) -> None:
    """The peer is this machine, and so is the name it asked for (against DNS rebinding) and the
    web page it asks from, if any.
    """
    peer = request.client.host if request.client is not None else ""
    asked_from = request.headers.get("origin", "http://localhost")
    names = (request.url.hostname or "", _host_of(asked_from))
    if not is_loopback(peer) or not all(name == "localhost" or is_loopback(name) for name in names):
        raise Refusal(403, "the control interface answers this machine only")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
