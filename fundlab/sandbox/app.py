"""The HTTP face: routes of the interface, the token endpoint, faults, problem bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import struct
import time
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from functools import cache, partial
from html import escape
from typing import Any, Final, get_type_hints

from fastapi import APIRouter, FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fundlab.models import OPERATIONS, Operation, Token
from fundlab.models.requests import leniently
from fundlab.sandbox.access import SignedParts
from fundlab.sandbox.endpoints import ENDPOINTS, Call
from fundlab.sandbox.faults import LIST_FAULTS, NO_CONTENT, TOKEN, Fault
from fundlab.sandbox.lifecycle import Connections, Service
from fundlab.sandbox.listing import SAME_POSITION
from fundlab.sandbox.log import Logged
from fundlab.sandbox.openapi import OAUTH2, TOKEN_DESCRIBED, TOKEN_PATH, described, document
from fundlab.sandbox.reading import (
    MAX_BODY_BYTES,
    check_content_type,
    check_query,
    read_json_object,
    refusal_of,
)
from fundlab.sandbox.recording import Replay
from fundlab.sandbox.refusals import PROBLEM_MEDIA_TYPE, Refusal, TokenRefusal, invalid, phrase
from fundlab.sandbox.scheduled_work import settle

MAX_FORM_FIELDS: Final = 20
PAGE_END: Final = b'],"next_page_cursor":'

logger = logging.getLogger("fundlab.sandbox")

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def build_app(service: Service) -> FastAPI:
    """The application over ``service``."""
    app = FastAPI(
        openapi_url="/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False
    )
    app.state.service = service
    app.router.routes += _routes()
    for path, page in (("/", to_control), ("/health", health), ("/docs", documentation)):
        app.add_route(path, page, include_in_schema=False)
    app.add_exception_handler(HTTPException, framework_problem)
    app.add_exception_handler(Exception, broken)
    app.openapi = partial(_document, service.signature_header)  # type: ignore[method-assign]
    return app


async def to_control(_: Request) -> Response:
    return RedirectResponse("/_sandbox")


async def health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def documentation(request: Request) -> Response:
    """Each operation with its place, scope and schemas: as text, with nothing from elsewhere."""
    document = request.app.openapi()
    described = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            content = operation.get("requestBody", {}).get("content", {})
            schema = str(content.get("application/json", {}).get("schema", {}).get("$ref", ""))
            parameters = ", ".join(one["name"] for one in operation.get("parameters", ()))
            rows = {
                "": operation.get("description", ""), "body": schema.rpartition("/")[2],
                "parameters": parameters, "answers": ", ".join(operation["responses"]),
            }  # fmt: skip
            told = "".join(f"<p>{k} {escape(v)}</p>" for k, v in rows.items() if v)
            described.append(
                f"<section><h2>{escape(operation['operationId'])}</h2>"
                f"<p><code>{method.upper()} {escape(path)}</code></p>{told}</section>"
            )
    schemas = "".join(
        f"<details id='{escape(name)}'><summary>{escape(name)}</summary>"
        f"<pre>{escape(json.dumps(schema, indent=2))}</pre></details>"
        for name, schema in document["components"]["schemas"].items()
    )
    return HTMLResponse(
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<title>The sandbox's interface</title><style>body{font:16px/1.5 system-ui;margin:0 auto;"
        "padding:1rem;max-width:50rem}code,pre{overflow-wrap:anywhere;white-space:pre-wrap}"
        "</style><h1>The sandbox's interface</h1><p><a href='/openapi.json'>openapi.json</a> is "
        f"what tools read; <a href='/_sandbox'>the control page</a>.</p>{''.join(described)}"
        f"<h1>Schemas</h1>{schemas}",
        headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"},
    )


@cache
def _routes() -> list[BaseRoute]:
    """Every operation's and the token endpoint's, made once: it takes FastAPI a while."""
    router = APIRouter(route_class=GuardedRoute)
    for name, endpoint in ENDPOINTS.items():
        served = OPERATIONS[name]
        for model in (Token, served.answer, *get_type_hints(endpoint).values()):
            if isinstance(model, type) and issubclass(model, BaseModel):
                # Made when it is first used; FastAPI's own copies of it would lose its settings.
                model.model_config["defer_build"] = False
                model.model_rebuild()
        router.add_api_route(
            served.path, endpoint, methods=[served.method], name=name,
            response_model=served.answer,
            response_class=JSONResponse if served.answer else Response,
            dependencies=[Security(OAUTH2, scopes=[served.scope])], **described(served),
        )  # fmt: skip
    router.add_api_route(
        TOKEN_PATH, issue_token, methods=["POST"], name=TOKEN, response_model=Token,
        **TOKEN_DESCRIBED,
    )  # fmt: skip
    return router.routes


def own_document() -> dict[str, Any]:
    """The document of the interface as the sandbox serves it."""
    return _document("Service-Signature")


@cache
def _document(signature_header: str) -> dict[str, Any]:
    return document(_routes(), signature_header)


class GuardedRoute(APIRoute):
    """FastAPI's route, and what happens around each: body limit, faults, access, problems, log."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            service: Service = request.app.state.service
            started = time.perf_counter()
            has_cursor = bool(request.query_params.get("page_cursor"))
            faults = service.faults.strike(self.name, has_cursor=has_cursor)
            problem: str | None = None
            try:
                response = await strike_before(faults, service)
                if response is None:
                    arrived = Arrived(request, await limited_body(request))
                    if self.name == TOKEN:
                        response = await handle(arrived)
                    else:
                        operation = OPERATIONS[self.name]
                        late_s = sum(fault.seconds for fault in faults if fault.kind == "late")
                        response = _operate(service, operation, arrived, handle, late_s)
            except Refusal as refusal:
                problem = refusal.detail
                response = problem_response(refusal)
            except TokenRefusal as token_refusal:
                problem = token_refusal.description
                response = _token_response(token_refusal.status, token_refusal.body())
            if service.world.instance is not None:
                response.headers["Sandbox-Instance"] = service.world.instance
            service.log.add(
                Logged(
                    at_s=time.time(),
                    method=request.method,
                    path=request.scope["target"].decode("latin-1"),
                    operation=self.name,
                    status=response.status_code,
                    problem=problem,
                    faults=" ".join(fault.kind for fault in faults),
                    milliseconds=round((time.perf_counter() - started) * 1e3, 3),
                )
            )
            return strike_after(faults, request, response, service)

        return answer


class Arrived(Request):
    """A request whose ``content`` is here; ``members`` is its JSON, once it was read strictly."""

    def __init__(self, request: Request, content: bytes) -> None:
        async def replay() -> Message:
            return {"type": "http.request", "body": content, "more_body": False}

        super().__init__(request.scope, replay)
        self.content = content
        self.members: dict[str, Any] = {}

    async def json(self) -> Any:
        return self.members


def _operate(
    service: Service, operation: Operation, request: Arrived, handle: Handler, late_s: float
) -> Response:
    """The answer of a 200. Raises ``Refusal`` for everything else: 401 (token, then signature), 403
    for a scope, then 404 and 400.

    Access is checked here and not by a dependency, because FastAPI reads a body before it asks any,
    and a bad body of an unknown caller is a 401. All is one step under the lock; a writing
    operation is one transaction: it happens as a whole or not at all.
    """
    headers = request.scope["headers"]
    authorization = [value for name, value in headers if name == b"authorization"]
    signature_header = service.signature_header.lower().encode()
    signatures = [value for name, value in headers if name == signature_header]
    with service.database.lock:
        settle(service.world)
        caller = service.access.identify(authorization)
        service.rates.take(caller.client_id, service.world.behaviour.rate_limits)
        parts = SignedParts(request.method, request.scope["target"], request.content)
        service.access.check_signature(caller, signatures, parts)
        service.access.check_scope(caller, operation.scope)
        check_query(operation, request.scope["query_string"])
        if operation.body is not None:
            check_content_type(request.headers.getlist("content-type"))
            request.members = read_json_object(request.content)
        elif request.content:
            raise invalid("body", "this operation takes none")
        if service.replay is not None:
            return replayed(service.replay, request, request.content)
        request.state.call = Call(service.world, caller.customer_id, late_s)
        writing = operation.method != "GET"
        with service.database.transaction() if writing else nullcontext():
            try:
                with leniently(service.world.behaviour.lenient_requests):
                    return _at_once(handle(request))
            except RequestValidationError as error:
                raise refusal_of(operation, error.errors()) from None


def replayed(replay: Replay, request: Request, body: bytes = b"") -> Response:
    """The recorded answer. Raises the 404 ``Refusal`` where there is none."""
    target = request.scope["target"].decode("latin-1")
    found = replay.answer(request.method, target, body)
    if found is None:
        what = f"{request.method} {target}" + (" with this body" if body else "")
        raise Refusal(404, f"nothing was recorded for {what}"[:500])
    media = PROBLEM_MEDIA_TYPE if found.status >= 400 else "application/json"
    text = json.dumps(found.answer, separators=(",", ":"), ensure_ascii=False)
    body = b"" if found.answer is None else text.encode()
    return Response(body, found.status, media_type=media)


def _at_once(running: Coroutine[Any, Any, Response]) -> Response:
    """What ``running`` returns, which waits for nothing: so no other request comes in between."""
    try:
        running.send(None)
    except StopIteration as done:
        answered: Response = done.value
        return answered
    running.close()
    raise RuntimeError("an operation waits, though it holds the lock of the database")


async def issue_token(request: Request) -> Response:
    """§5.1. The form is read by hand: FastAPI's fields take the last of a repeated one, and any
    number of fields and files."""
    try:
        form = await request.form(max_files=0, max_fields=MAX_FORM_FIELDS)
    except (HTTPException, MultiPartException, ValueError):
        raise TokenRefusal(400, "invalid_request", "the form cannot be read") from None
    fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    service: Service = request.app.state.service
    with service.database.lock:
        client_id = dict(fields).get("client_id", "")
        if service.access.credential(client_id) is not None:  # with whatever secret
            service.token_rates.take(client_id, service.world.behaviour.token_rate_limits)
        token = service.access.issue_token(fields)
    return _token_response(200, json.dumps(token).encode())


# ---------------------------------------------------------------------------- faults


async def strike_before(faults: list[Fault], service: Service) -> Response | None:
    """Faults before the request is processed; the answer, where there is one already."""
    for fault in faults:
        if fault.kind == "latency":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "lapse_token":
            with service.database.transaction():
                service.access.revoke_tokens()
        elif fault.kind == "reset":
            return _Reset(service.connections)
        elif fault.kind == "rate_limit":
            wait = str(math.ceil(fault.seconds))
            raise Refusal(429, f"try again in {wait} s", headers={"Retry-After": wait})
        elif fault.kind == "status":
            body, headers = fault.body.encode(), dict(fault.headers)
            if not fault.body and fault.status not in NO_CONTENT:
                body = Refusal(fault.status, "injected fault").body()
                headers.setdefault("content-type", PROBLEM_MEDIA_TYPE)
            return Response(body, fault.status, headers=headers, media_type="application/json")
    return None


def strike_after(
    faults: list[Fault], request: Request, response: Response, service: Service
) -> Response:
    """Faults after the request was processed. Without an answer nothing is cut."""
    kinds = {fault.kind: fault for fault in faults}
    if "lost" in kinds or isinstance(response, _Reset):
        return _Reset(service.connections)
    if "status" not in kinds and not kinds.keys().isdisjoint(LIST_FAULTS):
        # a page that leads back to itself: under its own cursor, or under another text of it
        rows, end, _ = bytes(response.body).rpartition(PAGE_END)
        cursor = request.query_params["page_cursor"] + SAME_POSITION * ("duplicate_page" in kinds)
        if end and response.status_code == 200:
            response.body = b'%b%b"%b"}' % (rows, end, cursor.encode())
            response.headers["content-length"] = str(len(response.body))
    if "truncate" in kinds:
        return _Truncated(service.connections, response, kinds["truncate"].keep)
    return response


class _Reset(Response):
    """No answer: the connection is reset."""

    def __init__(self, connections: Connections) -> None:
        super().__init__(status_code=0)
        self._connections = connections

    async def __call__(self, scope: Scope, _receive: Receive, _send: Send) -> None:
        transport = self._connections.get(scope["client"])
        if transport is None:  # the client was faster
            return
        connection = transport.get_extra_info("socket")
        # lingering for zero seconds makes the kernel send RST instead of an orderly FIN
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


class _Truncated(Response):
    """The headers of ``whole`` and only a part of its body."""

    def __init__(self, connections: Connections, whole: Response, keep: float) -> None:
        super().__init__(status_code=whole.status_code)
        self.raw_headers = whole.raw_headers
        body = bytes(whole.body)
        self._connections, self._part = connections, body[: int(len(body) * keep)]

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await send({"type": "http.response.body", "body": self._part, "more_body": True})
        if transport := self._connections.get(scope["client"]):
            transport.close()


class _Protocol(H11Protocol):
    """uvicorn's HTTP protocol, leaving a handle on each connection so that it can be broken, and in
    ``scope["target"]`` what the request named as it was sent: uvicorn drops a lone ``?``."""

    connections_by_client: Connections

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        app, read, target = self.app, self.conn.next_event, b""

        def next_event() -> Any:
            nonlocal target
            event = read()
            target = getattr(event, "target", target)
            return event

        async def with_target(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "target": target}, receive, send)

        self.conn.next_event, self.app = next_event, with_target  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            self.connections_by_client[self.client] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.client is not None:
            self.connections_by_client.pop(self.client, None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        problem = Refusal(400, msg).body()
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n" % (PROBLEM_MEDIA_TYPE.encode(), len(problem))
        )
        self.transport.write(head + problem)
        self.transport.close()


def protocol_class(connections: Connections) -> type[asyncio.Protocol]:
    """The protocol for one server, which keeps its open connections in ``connections``."""
    return type("Protocol", (_Protocol,), {"connections_by_client": connections})


# ---------------------------------------------------------------------------- reading and refusing


async def limited_body(request: Request, most: int = MAX_BODY_BYTES) -> bytes:
    """The body, read no further than ``most`` bytes. Raises ``Refusal``."""
    too_large = Refusal(413, f"the body is larger than {most} bytes")
    declared = request.headers.get("content-length", "0")
    if not declared.isascii() or not declared.isdigit() or int(declared) > most:
        raise too_large
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise too_large
    except ClientDisconnect:
        raise Refusal(400, "the client left before its request was complete") from None
    return bytes(body)


def problem_response(refusal: Refusal) -> Response:
    return Response(
        refusal.body(), refusal.status, headers=refusal.headers, media_type=PROBLEM_MEDIA_TYPE
    )


def _token_response(status: int, body: bytes) -> Response:
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return Response(body, status, headers=headers, media_type="application/json")


async def framework_problem(request: Request, error: Exception) -> Response:
    """The framework's own refusals (404, 405 …) in the interface's form."""
    if not isinstance(error, HTTPException):
        raise error
    replay = request.app.state.service.replay
    if replay is not None and error.status_code == 404:
        with suppress(Refusal):  # it was not recorded either: the framework's own answer
            return replayed(replay, request)
    headers = dict(error.headers or {})
    status, detail = error.status_code, phrase(error.status_code)
    if status == 404 and not request.scope["raw_path"].startswith(b"/"):
        status, detail = 400, "the request target must be a path with its query, not a whole URL"
    if status == 405:
        allowed = sorted(
            method
            for route in request.app.routes
            if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
            for method in route.methods or ()
        )
        headers["Allow"] = ", ".join(allowed)
        detail = f"{request.method} is not allowed here; allowed: {headers['Allow']}"
    request.app.state.service.log.add(
        Logged(
            time.time(), request.method, request.scope["target"].decode("latin-1"), None,
            status, detail, "", 0.0,
        )
    )  # fmt: skip
    return problem_response(Refusal(status, detail, headers=headers))


async def broken(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return problem_response(Refusal(500, "the sandbox itself failed; its log has the traceback"))
