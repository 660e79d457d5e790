"""The control interface over HTTP: actions and views, the page, their document, and who may ask."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.resources import files
from inspect import cleandoc, isfunction
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import FastAPI
from pydantic import TypeAdapter, ValidationError, validate_call
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from fundlab.base.errors import SandboxError
from fundlab.models import OPERATIONS
from fundlab.sandbox.app import limited_body, problem_response
from fundlab.sandbox.behaviour import Behaviour
from fundlab.sandbox.control import Control, Json
from fundlab.sandbox.faults import ANY, TOKEN, Fault
from fundlab.sandbox.reading import read_json_object
from fundlab.sandbox.refusals import PROBLEM_MEDIA_TYPE, Refusal, first_fault, invalid
from fundlab.sandbox.startup import Options
from fundlab.settings.settings import is_loopback

KEY_HEADER: Final = "Sandbox-Control-Key"
CONTROL_PREFIX: Final = "/_sandbox"
DOCUMENT_PATH: Final = f"{CONTROL_PREFIX}/openapi.json"
SCHEMA_REF: Final = "#/components/schemas/{model}"
STATE_PATH: Final = f"{CONTROL_PREFIX}/state"
SQLITE_MEDIA_TYPE: Final = "application/vnd.sqlite3"
MAX_CONTROL_BODY_BYTES: Final = 16 * 1024 * 1024
MAX_STATE_BYTES: Final = 4 * 1024**3
VIEWS: Final = ("clock", "credentials", "ledger", "faults", "requests", "overview", "behaviour")
ACTIONS: Final = tuple(
    name
    for name, value in vars(Control).items()
    if isfunction(value) and name[0] != "_" and name not in (*VIEWS, "save", "load")
)
"""Every other public method: what the operator can do is told once."""

Endpoint = Callable[[Request], Awaitable[Response]]


def add_control(app: FastAPI, control: Control) -> None:
    """Serve ``control`` under ``/_sandbox``, off the interface's paths, to this machine only; or,
    where other machines are let in, to those who have its key.

    ``POST /_sandbox/<action>`` takes the arguments of a method as a JSON object,
    ``GET /_sandbox/<view>`` shows something; ``GET /_sandbox`` lists both.
    """

    async def index(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            nonce = secrets.token_urlsafe(16)
            page = files("fundlab.sandbox").joinpath("control.html").read_text(encoding="utf-8")
            return HTMLResponse(page.replace("{nonce}", nonce), headers=page_headers(nonce))
        listed = {"actions": list(ACTIONS), "views": list(VIEWS), "state": STATE_PATH}
        return JSONResponse(listed | {"document": DOCUMENT_PATH})

    async def describe(_: Request) -> Response:
        return JSONResponse(control_document())

    async def save(_: Request) -> Response:
        return Response(control.save(), media_type=SQLITE_MEDIA_TYPE)

    async def load(request: Request) -> Response:
        return JSONResponse(control.load(await limited_body(request, MAX_STATE_BYTES)))

    async def show(view: Callable[[], Any], _: Request) -> Response:
        return JSONResponse(view())

    async def act(name: str, request: Request) -> Response:
        declared = request.headers.get("content-type", "").partition(";")[0].strip()
        if declared != "application/json":  # what a web page cannot send across origins unasked
            raise Refusal(415, "the content type must be application/json")
        body = await limited_body(request, MAX_CONTROL_BODY_BYTES)
        arguments: dict[str, Any] = read_json_object(body) if body else {}
        if "self" in arguments:  # which older releases of pydantic take for the wrapper's own
            raise Refusal(400, f"{name} has no argument 'self'")
        return JSONResponse(checked_action(name)(control, **arguments))

    async def answer(endpoint: Endpoint, request: Request) -> Response:
        """Problems for whatever is refused. Page and document hold nothing that needs a key."""
        try:
            check_access(request, control.options, keyless=endpoint in (index, describe))
            return await endpoint(request)
        except Refusal as error:
            refusal = error
        except SandboxError as error:
            refusal = Refusal(400, str(error))
        except ValidationError as error:
            refusal = invalid(*first_fault(error))
        return problem_response(refusal)

    def add(path: str, method: str, endpoint: Endpoint) -> None:
        app.add_route(path, partial(answer, endpoint), methods=[method], include_in_schema=False)

    add(CONTROL_PREFIX, "GET", index)
    add(f"{CONTROL_PREFIX}/", "GET", index)  # as browsers and people complete it
    add(DOCUMENT_PATH, "GET", describe)
    add(STATE_PATH, "GET", save)
    add(STATE_PATH, "PUT", load)
    for name in VIEWS:
        add(f"{CONTROL_PREFIX}/{name}", "GET", partial(show, getattr(control, name)))
    for name in ACTIONS:
        add(f"{CONTROL_PREFIX}/{name}", "POST", partial(act, name))


@cache
def checked_action(name: str) -> Callable[..., Json]:
    """The method of ``Control``, which checks its arguments; made when it is first called."""
    action: Callable[..., Json] = validate_call(getattr(Control, name))
    return action


def page_headers(nonce: str) -> dict[str, str]:
    """The page runs its own script and asks its own sandbox, in no frame; nothing else."""
    own = f"'nonce-{nonce}'"
    policy = (
        f"default-src 'none'; script-src {own}; style-src {own}; connect-src 'self'; "
        "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy, "X-Frame-Options": "DENY", "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
    }  # fmt: skip


@cache
def control_document() -> Json:
    """The control interface as an OpenAPI document, every argument with its type and default."""
    paths: Json = {}
    schemas: Json = {}
    answered = {
        "200": {"description": "Done", "content": {"application/json": {"schema": {}}}},
        "default": {
            "description": "Refused",
            "content": {PROBLEM_MEDIA_TYPE: {"schema": {"type": "object"}}},
        },
    }
    models = {"add_fault": Fault, "configure": Behaviour}
    for name in ACTIONS:
        action = getattr(Control, name)
        if name in models:  # whose options are those of a fault, or of the behaviour
            taken = TypeAdapter(models[name]).json_schema(ref_template=SCHEMA_REF)
        else:
            bound: Any = partial(action, None)
            taken = TypeAdapter(bound).json_schema(ref_template=SCHEMA_REF)
        schemas |= taken.pop("$defs", {})
        if name in models:
            model = models[name].__name__
            schemas[model], taken = taken, {"$ref": SCHEMA_REF.format(model=model)}
        paths[f"{CONTROL_PREFIX}/{name}"] = {
            "post": described_by(action, name, "actions")
            | {
                "requestBody": {"content": {"application/json": {"schema": taken}}},
                "responses": answered,
            }
        }
    for name in VIEWS:
        view = described_by(getattr(Control, name), f"show_{name}", "views")
        paths[f"{CONTROL_PREFIX}/{name}"] = {"get": view | {"responses": answered}}
    file = {"content": {SQLITE_MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
    paths[STATE_PATH] = {
        "get": described_by(Control.save, "save", "state")
        | {"responses": {"200": {"description": "The state", **file}}},
        "put": described_by(Control.load, "load", "state")
        | {"requestBody": file, "responses": answered},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "The sandbox's control interface",
            "version": "1",
            "description": "What a sandbox's operator can do beside the service's own interface.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": KEY_HEADER,
                        "description": "Where the sandbox was started with one."},
            },
        },
        "security": [{}, {"key": []}],
        "x-operations": [ANY, TOKEN, *OPERATIONS],
    }  # fmt: skip


def described_by(method: Any, name: str, tag: str) -> Json:
    """Name, summary and description of a method's operation: from its docstring."""
    text = cleandoc(method.__doc__ or "")
    summary = " ".join(text.partition("\n\n")[0].split())
    return {"operationId": name, "tags": [tag], "summary": summary, "description": text}


def check_access(request: Request, options: Options, *, keyless: bool = False) -> None:
    """Who asks is this machine, under a name of its own (against DNS rebinding), and from a web
    page of its own, if any. Where other machines are let in, a page must be the sandbox's own. And
    they have the key, where there is one: no page of another origin knows it, whatever name it goes
    by. Raises the 403 ``Refusal``."""
    try:
        asked_from = urlsplit(request.headers.get("origin", f"//{request.url.netloc}"))
        page, host = asked_from.netloc, asked_from.hostname or ""
    except ValueError:
        page = host = ""
    if options.allow_remote and page != request.url.netloc:
        raise Refusal(403, "the control interface answers no page of another origin")
    peer = request.client.host if request.client is not None else ""
    local = all(map(is_loopback, (peer, request.url.hostname or "", host)))
    if not (options.allow_remote or local):
        raise Refusal(403, "the control interface answers this machine only")
    key = request.headers.get(KEY_HEADER, "").encode()
    if (
        options.control_key
        and not keyless
        and not hmac.compare_digest(key, options.control_key.encode())
    ):
        raise Refusal(403, f"the control interface needs its key in the header {KEY_HEADER}")
