"""The HTTP face: routes of the interface, the token endpoint, faults, problem bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fundlab.models import OPERATIONS, Operation
from fundlab.sandbox.access import SignedParts
from fundlab.sandbox.faults import LIST_FAULTS, NO_CONTENT, TOKEN, Fault
from fundlab.sandbox.log import Logged
from fundlab.sandbox.openapi import document
from fundlab.sandbox.pages import SAME_POSITION
from fundlab.sandbox.problems import PROBLEM_MEDIA_TYPE, Refusal, TokenRefusal, phrase
from fundlab.sandbox.reading import MAX_BODY_BYTES
from fundlab.sandbox.service import Arrived, Connections, Service

TOKEN_PATH: Final = "/oauth2/token"
MAX_FORM_FIELDS: Final = 20
PAGE_END: Final = b'],"next_page_cursor":'

logger = logging.getLogger("fundlab.sandbox")

Answer = Callable[[Request, bytes, list[Fault]], Awaitable[Response]]


def build_app(service: Service) -> FastAPI:
    """The application over ``service``."""
    app = FastAPI(
        title="Fiat transfer, profile funding and request-signing service (sandbox)",
        openapi_url="/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    by_path: dict[str, list[Operation]] = {}
    for operation in OPERATIONS.values():
        by_path.setdefault(operation.path, []).append(operation)
    for path, operations in by_path.items():
        gate = _Gate(service, {operation.method: operation for operation in operations})
        app.add_api_route(
            path, gate.endpoint, methods=[operation.method for operation in operations]
        )
    app.add_api_route(TOKEN_PATH, _Gate(service, {}).token, methods=["POST"])
    app.add_exception_handler(HTTPException, _framework_problem)
    app.add_exception_handler(Exception, _broken)
    app.state.log = service.log
    app.openapi = lambda: document(service.signature_header)  # type: ignore[method-assign]
    return app


class _Gate:
    """What happens around every operation of one path: body limit, faults, log, problems."""

    def __init__(self, service: Service, operations: dict[str, Operation]) -> None:
        self._service, self._operations = service, operations

    async def endpoint(self, request: Request) -> Response:
        operation = self._operations[request.method]

        async def answer(request: Request, body: bytes, faults: list[Fault]) -> Response:
            return self._operate(operation, request, body, faults)

        return await self._guard(operation.name, request, answer)

    async def token(self, request: Request) -> Response:
        return await self._guard(TOKEN, request, self._issue_token)

    async def _guard(self, name: str, request: Request, answer: Answer) -> Response:
        started = time.perf_counter()
        has_cursor = bool(request.query_params.get("page_cursor"))
        faults = self._service.faults.strike(name, has_cursor=has_cursor)
        problem: str | None = None
        try:
            response = await _early_answer(faults, self._service)
            if response is None:
                body = await limited_body(request)
                response = await answer(request, body, faults)
        except Refusal as refusal:
            problem = refusal.detail
            response = _problem_response(refusal)
        except TokenRefusal as token_refusal:
            problem = token_refusal.description
            response = _token_response(token_refusal.status, token_refusal.body())
        if self._service.world.instance is not None:
            response.headers["Sandbox-Instance"] = self._service.world.instance
        self._log(request, name, response.status_code, problem, faults, started)
        return _broken_off(response, faults, self._service.connections)

    def _log(
        self, request: Request, name: str, status: int, problem: str | None, faults: list[Fault],
        started: float,
    ) -> None:  # fmt: skip
        self._service.log.add(
            Logged(
                at_s=time.time(),
                method=request.method,
                path=_target(request).decode("latin-1"),
                operation=name,
                status=status,
                problem=problem,
                faults=" ".join(fault.kind for fault in faults),
                milliseconds=round((time.perf_counter() - started) * 1e3, 3),
            )
        )

    def _operate(
        self, operation: Operation, request: Request, body: bytes, faults: list[Fault]
    ) -> Response:
        headers = request.scope["headers"]
        signature_header = self._service.signature_header.lower().encode()
        arrived = Arrived(
            signed=SignedParts(request.method, _target(request), body),
            path=request.path_params,
            query_string=request.scope["query_string"],
            authorization=[value for name, value in headers if name == b"authorization"],
            signatures=[value for name, value in headers if name == signature_header],
            content_types=request.headers.getlist("content-type"),
        )
        late_s = sum(fault.seconds for fault in faults if fault.kind == "late")
        content = self._service.answer(operation, arrived, late_s=late_s)
        if operation.query is not None:
            content = _page_faults(request, content, faults)
        return Response(content, media_type="application/json" if content else None)

    async def _issue_token(self, request: Request, body: bytes, _: list[Fault]) -> Response:
        form = await _form(request, body)
        token = self._service.access.issue_token(form)
        return _token_response(200, json.dumps(token).encode())


# ---------------------------------------------------------------------------- faults


async def _early_answer(faults: list[Fault], service: Service) -> Response | None:
    """Faults that strike before the request is processed."""
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
            return _injected(fault)
    return None


def _page_faults(request: Request, content: bytes, faults: list[Fault]) -> bytes:
    """A page that leads back to itself: under its own cursor, or under another text of it."""
    struck = {fault.kind for fault in faults if fault.kind in LIST_FAULTS}
    if not struck:
        return content
    rows = content.rpartition(PAGE_END)[0]
    cursor = request.query_params["page_cursor"]
    if "duplicate_page" in struck:
        cursor += SAME_POSITION
    return b'%b%b"%b"}' % (rows, PAGE_END, cursor.encode())


def _broken_off(response: Response, faults: list[Fault], connections: Connections) -> Response:
    """Faults that strike after the request was processed. Without an answer nothing is cut."""
    kinds = {fault.kind: fault for fault in faults}
    if "lost" in kinds or isinstance(response, _Reset):
        return _Reset(connections)
    if "truncate" in kinds:
        return _Truncated(connections, response, kinds["truncate"].keep)
    return response


def _injected(fault: Fault) -> Response:
    body, headers = fault.body.encode(), dict(fault.headers)
    if not fault.body and fault.status not in NO_CONTENT:
        body = Refusal(fault.status, "injected fault").body()
        headers.setdefault("content-type", PROBLEM_MEDIA_TYPE)
    return Response(body, fault.status, headers=headers, media_type="application/json")


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
        raise Refusal(400, "the client left before its request was whole") from None
    return bytes(body)


def _target(request: Request) -> bytes:
    target: bytes = request.scope["target"]
    return target


async def _form(request: Request, body: bytes) -> list[tuple[str, str]]:
    """The fields of a multipart or urlencoded form. Raises ``TokenRefusal``."""

    async def replay() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        form = await Request(request.scope, replay).form(max_files=0, max_fields=MAX_FORM_FIELDS)
    except (HTTPException, MultiPartException, ValueError):
        raise TokenRefusal(400, "invalid_request", "the form cannot be read") from None
    fields = form.multi_items()
    return [(name, value) for name, value in fields if isinstance(value, str)]


def _problem_response(refusal: Refusal) -> Response:
    return Response(
        refusal.body(), refusal.status, headers=refusal.headers, media_type=PROBLEM_MEDIA_TYPE
    )


def _token_response(status: int, body: bytes) -> Response:
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return Response(body, status, headers=headers, media_type="application/json")


async def _framework_problem(request: Request, error: Exception) -> Response:
    """The framework's own refusals (404, 405 …) in the interface's form."""
    if not isinstance(error, HTTPException):
        raise error
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
    request.app.state.log.add(
        Logged(
            time.time(), request.method, _target(request).decode("latin-1"), None,
            status, detail, "", 0.0,
        )
    )  # fmt: skip
    return _problem_response(Refusal(status, detail, headers=headers))


async def _broken(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return _problem_response(Refusal(500, "the sandbox itself failed; its log has the traceback"))
