"""The control interface over HTTP: loopback only, off the interface's paths."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter, Body, Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response

from fundlab.errors import SandboxError
from fundlab.models import CryptoNetwork
from fundlab.sandbox.control import Control
from fundlab.sandbox.faults import ANY, FaultKind
from fundlab.sandbox.problems import Refusal

CONTROL_PREFIX: Final = "/_sandbox"
SQLITE_MEDIA_TYPE: Final = "application/vnd.sqlite3"
Json = dict[str, Any]


def control_router(control: Control) -> APIRouter:
    """Routes for every action of ``control``, the faults and the log."""
    router = APIRouter(
        prefix=CONTROL_PREFIX, include_in_schema=False, dependencies=[Depends(_local_only)]
    )
    faults, log = control.service.faults, control.service.log

    @router.get("")
    def paths() -> Json:
        listed = [
            f"{method} {route.path}"
            for route in router.routes
            for method in sorted(getattr(route, "methods", ()))
            if hasattr(route, "path")
        ]
        return {"paths": listed}

    for name in (
        "advance", "shift_access", "revoke_tokens", "add_credential", "rotate_secret",
        "add_signing_key", "require_signing", "add_destination_address", "add_identity",
        "add_event", "crypto_deposit", "set_trading", "deprecate_instructions", "reset",
    ):  # fmt: skip
        _add_action(router, name, getattr(control, name))
    for name in ("clock", "credentials", "ledger"):
        router.add_api_route(f"/{name}", getattr(control, name), methods=["GET"])

    @router.get("/state")
    def save() -> Response:
        return Response(control.save(), media_type=SQLITE_MEDIA_TYPE)

    @router.put("/state")
    async def load(request: Request) -> Json:
        state = await request.body()
        return await run_in_threadpool(control.load, state)

    @router.get("/requests")
    def requests() -> list[Json]:
        return log.rows()

    @router.delete("/requests")
    def clear_requests() -> Json:
        log.clear()
        return {}

    @router.get("/faults")
    def list_faults() -> list[Json]:
        return faults.active()

    @router.post("/faults")
    def add_fault(
        kind: Literal[FaultKind] = Body(), operation: str = Body(ANY), options: Json = Body({})
    ) -> Json:
        return {"number": faults.add(kind, operation, **options)}

    @router.delete("/faults")
    def clear_faults() -> Json:
        faults.clear()
        return {}

    @router.delete("/faults/{number}")
    def remove_fault(number: int) -> Json:
        faults.remove(number)
        return {}

    return router
