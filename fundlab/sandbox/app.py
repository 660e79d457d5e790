"""The HTTP face: routes of the interface, the token endpoint, access, faults, problem bodies."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any, Final, get_type_hints

from fastapi import APIRouter, FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fundlab.models import OPERATIONS, Operation, Token
from fundlab.models.requests import leniently
from fundlab.sandbox.clock import nanos_text
from fundlab.sandbox.endpoints import ENDPOINTS
from fundlab.sandbox.faults import LIST_FAULTS, NO_CONTENT, TOKEN, Fault
from fundlab.sandbox.listing import SAME_POSITION
from fundlab.sandbox.log import Logged
from fundlab.sandbox.openapi import OAUTH2, TITLE, TOKEN_DESCRIBED, TOKEN_PATH, described, document
from fundlab.sandbox.reading import (
    MAX_BODY_BYTES,
    check_content_type,
    check_query,
    read_json_object,
    refusal_of,
)
from fundlab.sandbox.refusals import PROBLEM_MEDIA_TYPE, Refusal, TokenRefusal, invalid, phrase
from fundlab.sandbox.replay import Replay
from fundlab.sandbox.startup import Service

MAX_FORM_FIELDS: Final = 20
PAGE_END: Final = b'],"next_page_cursor":'

logger = logging.getLogger("fundlab.sandbox")


def build_app(service: Service) -> FastAPI:
    """The application over ``service``; its page at ``/docs`` asks nothing of other machines."""
    app = FastAPIOffline(
        title=TITLE, openapi_url="/openapi.json", redoc_url=None, redirect_slashes=False,
        swagger_ui_parameters={"validatorUrl": None},
    )  # fmt: skip
    app.state.service = service
    app.router.routes += _routes()
    app.add_route("/", to_control, include_in_schema=False)
    app.add_route("/health", health, include_in_schema=False)
    handlers: dict[type[Exception], Callable[..., Any]] = {
        Refusal: refuse, TokenRefusal: refuse_token, RequestValidationError: refuse_invalid,
        HTTPException: framework_problem, Exception: broken,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    app.openapi = partial(_document, service.signature_header)  # type: ignore[method-assign]
    return app


async def to_control(_: Request) -> Response:
    return RedirectResponse("/_sandbox")


async def health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


@cache
def _routes() -> list[BaseRoute]:
    """Every operation's and the token endpoint's, made once: it takes FastAPI a while."""
    router = APIRouter(route_class=OperationRoute)
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


# ---------------------------------------------------------------------------- around an operation


class OperationRoute(APIRoute):
    """FastAPI's route with ``Guard`` before it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = Guard(self.app, self.name)


class Guard:
    """ASGI middleware around one operation: faults, the body's limit, access, the log.

    Access is checked here and not by a dependency, because FastAPI reads a body before it asks any,
    and a bad body of an unknown caller is a 401.
    """

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app, self._name = app, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service: Service = scope["app"].state.service
        request, started = Request(scope, receive), time.perf_counter()
        cursor = request.query_params.get("page_cursor")
        faults = service.faults.strike(self._name, has_cursor=bool(cursor))
        kinds = {fault.kind: fault for fault in faults}
        answer = Answer()
        try:
            response = await struck(faults, service)
            if response is None:
                body = await limited_body(request)
                if self._name != TOKEN:
                    response = admit(service, OPERATIONS[self._name], request, body)
        except Refusal as refusal:
            response = await refuse(request, refusal)
        if response is not None:
            await response(scope, receive, answer.take)
        else:
            request.state.late_s = sum(fault.seconds for fault in faults if fault.kind == "late")

            async def arrived() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            with leniently(service.world.behaviour.lenient_requests):
                await self._app(scope, arrived, answer.take)
        if service.world.instance is not None:
            answer.headers.append((b"sandbox-instance", service.world.instance.encode()))
        with service.database.lock:
            time_there = nanos_text(service.world.clock.now_ns())
        answer.headers.append((b"sandbox-time", time_there.encode()))
        service.log.add(
            Logged(
                at_s=time.time(),
                method=request.method,
                path=target(scope).decode("latin-1"),
                operation=self._name,
                status=answer.status,
                problem=getattr(request.state, "problem", None),
                faults=" ".join(kinds),
                milliseconds=round((time.perf_counter() - started) * 1e3, 3),
            )
        )
        if "lost" in kinds or not answer.status:
            reset(scope)
            return
        if "status" not in kinds and not kinds.keys().isdisjoint(LIST_FAULTS):
            # a page that leads back to itself: under its own cursor, or under another text of it
            rows, end, _ = answer.body.rpartition(PAGE_END)
            if end and answer.status == 200:
                same = f"{cursor}{SAME_POSITION * ('duplicate_page' in kinds)}"
                answer.replace_body(b'%b%b"%b"}' % (rows, end, same.encode()))
        await answer.send(send, kinds["truncate"].keep if "truncate" in kinds else None)
        if "truncate" in kinds and (transport := transport_of(scope)):
            transport.close()


class Answer:
    """What an application answers, held until what happens to it is decided; status 0: nothing."""

    def __init__(self) -> None:
        self.status, self.headers, self.body = 0, list[tuple[bytes, bytes]](), b""

    async def take(self, message: Message) -> None:
        """As an application's ``send``."""
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
        else:
            self.body += message.get("body", b"")

    def replace_body(self, body: bytes) -> None:
        length = b"content-length"
        self.headers = [pair for pair in self.headers if pair[0] != length]
        self.headers.append((length, b"%d" % len(body)))
        self.body = body

    async def send(self, send: Send, keep: float | None) -> None:
        """With ``keep`` only that part of the body, and not its end."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        part = self.body if keep is None else self.body[: int(len(self.body) * keep)]
        more = keep is not None
        await send({"type": "http.response.body", "body": part, "more_body": more})


def admit(service: Service, operation: Operation, request: Request, body: bytes) -> Response | None:
    """Let the request in, or give the answer that was recorded of it. Raises ``Refusal``: 401
    (token, then signature), 403 for a scope, then 400."""
    headers = request.scope["headers"]
    authorization = [value for name, value in headers if name == b"authorization"]
    signature_header = service.signature_header.lower().encode()
    signatures = [value for name, value in headers if name == signature_header]
    with service.database.lock:
        caller = service.access.identify(authorization)
        service.rates.take(caller.client_id, service.world.behaviour.rate_limits)
        asked = target(request.scope)
        service.access.check_signature(caller, signatures, request.method, asked, body)
        service.access.check_scope(caller, operation.scope)
        check_query(operation, request.scope["query_string"])
        if operation.body is not None:
            check_content_type(request.headers.getlist("content-type"))
            read_json_object(body)
        elif body:
            raise invalid("body", "this operation takes none")
        if service.replay is not None:
            return replayed(service.replay, request, body)
    request.state.customer_id = caller.customer_id
    return None


def target(scope: Scope) -> bytes:
    """Path and query as they were sent. A query that is there and empty, a lone ``?``, is not seen:
    ASGI has no place for it."""
    raw, query = scope["raw_path"], scope["query_string"]
    return b"%b?%b" % (raw, query) if query else bytes(raw)


def replayed(replay: Replay, request: Request, body: bytes = b"") -> Response:
    """The recorded answer. Raises the 404 ``Refusal`` where there is none."""
    asked = target(request.scope).decode("latin-1")
    exchange = replay.answer(request.method, asked, body)
    if exchange is None:
        what = f"{request.method} {asked}" + (" with this body" if body else "")
        raise Refusal(404, f"nothing was recorded for {what}"[:500])
    media = PROBLEM_MEDIA_TYPE if exchange.status >= 400 else "application/json"
    text = json.dumps(exchange.answer, separators=(",", ":"), ensure_ascii=False)
    body = b"" if exchange.answer is None else text.encode()
    return Response(body, exchange.status, media_type=media)


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


async def struck(faults: list[Fault], service: Service) -> Response | None:
    """Faults before the request is processed; the answer, where there is one already."""
    for fault in faults:
        if fault.kind == "latency":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "lapse_token":
            with service.database.transaction():
                service.access.revoke_tokens()
        elif fault.kind == "reset":
            return Response(status_code=0)
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


def transport_of(scope: Scope) -> asyncio.Transport | None:
    """The connection that a request came by, if it is still there."""
    for connection in list(scope["app"].state.connections):
        if connection.client == scope["client"]:
            transport: asyncio.Transport = connection.transport
            return transport
    return None


def reset(scope: Scope) -> None:
    """Break the connection without an answer."""
    if transport := transport_of(scope):
        connection = transport.get_extra_info("socket")
        # lingering for zero seconds makes the kernel send RST instead of an orderly FIN
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


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


async def refuse(request: Request, refusal: Refusal) -> Response:
    request.state.problem = refusal.detail
    return problem_response(refusal)


async def refuse_invalid(request: Request, error: RequestValidationError) -> Response:
    return await refuse(
        request, refusal_of(OPERATIONS[request.scope["route"].name], error.errors())
    )


def _token_response(status: int, body: bytes) -> Response:
    headers = {"Cache-Control": "no-store", "Pragma": "no-cache"}
    return Response(body, status, headers=headers, media_type="application/json")


async def refuse_token(request: Request, refusal: TokenRefusal) -> Response:
    request.state.problem = refusal.description
    return _token_response(refusal.status, refusal.body())


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
            time.time(), request.method, target(request.scope).decode("latin-1"), None,
            status, detail, "", 0.0,
        )
    )  # fmt: skip
    return problem_response(Refusal(status, detail, headers=headers))


async def broken(request: Request, error: Exception) -> Response:
    logger.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    return problem_response(Refusal(500, "the sandbox itself failed; its log has the traceback"))
