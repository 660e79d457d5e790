"""What lies between the clients and the service: messages that are lost, late, doubled or cut.

``Line.exchange`` stands where a client has its connections (``fundlab.api.http.Http``) and calls
the sandbox's application as its server would, in the same process.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from requests.structures import CaseInsensitiveDict

from fundlab.api.http import Answer, Failure, Outgoing
from tests.simulation.schedule import Actor, Schedule


class Line:
    """The connections of one client."""

    def __init__(
        self,
        schedule: Schedule,
        app: Any,
        strikes: Callable[[Actor, str], str | None],
        later: Callable[[float, Callable[[], object]], None],
        revoke: Callable[[], object],
        chance: random.Random,
    ) -> None:
        self._schedule, self._app, self._strikes = schedule, app, strikes
        self._later, self._revoke, self._chance = later, revoke, chance

    def exchange(self, request: Outgoing, timeout: float) -> Answer | Failure:
        parts = urlsplit(request.url)
        asked = f"{request.method} {parts.path}"
        self._schedule.step(f"sends {asked}", self._chance.uniform(0.005, 0.05))
        actor = self._schedule.current
        kind = None if actor is None else self._strikes(actor, asked)
        if kind == "refused":
            return Failure("no connection (Connection refused)", sent=False)
        if kind in ("lost", "late"):
            if kind == "late":
                self._later(timeout + self._chance.uniform(0, 600), lambda: self._serve(request))
            self._schedule.sleep(min(timeout, 30))
            return Failure("the answer took too long", sent=True, timed_out=True)
        if kind == "too_many":
            return self._refusal(429, {"Retry-After": str(self._chance.randint(0, 20))})
        if kind == "broken":
            return self._refusal(500, {})
        if kind == "expired":
            self._revoke()
        answer = self._serve(request)
        if kind == "doubled":
            answer = self._serve(request)
        seconds = self._chance.uniform(0.005, 0.3) if kind != "slow" else min(timeout, 29.5)
        self._schedule.step(f"gets {answer.status} of {asked}", seconds)
        if kind == "unanswered":
            return Failure("the connection broke (ConnectionResetError)", sent=True)
        if kind == "cut":
            return Failure("the connection broke (IncompleteRead)", sent=True)
        if kind == "broken_after":
            return self._refusal(502, {})
        return answer

    def close(self) -> None:
        """There is no connection to close."""

    def _refusal(self, status: int, headers: dict[str, str]) -> Answer:
        headers["Content-Type"] = "text/html"
        return Answer(status, CaseInsensitiveDict(headers), b"<html>sorry</html>")

    def _serve(self, request: Outgoing) -> Answer:
        return serve(self._app, request)


def serve(app: Any, request: Outgoing) -> Answer:
    """What ``app`` answers; it waits for nothing, so its coroutine runs to its end at once."""
    parts = urlsplit(request.url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    headers = [(b"host", parts.netloc.encode())]
    headers += [(n.lower().encode(), str(v).encode("latin-1")) for n, v in request.headers.items()]
    body = request.body or b""
    if request.body is not None:
        headers.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1",
        "method": request.method, "scheme": "https", "path": unquote(parts.path),
        "raw_path": parts.path.encode(), "query_string": parts.query.encode(), "root_path": "",
        "headers": headers, "client": ("10.0.0.2", 40_000), "server": (parts.hostname, 443),
        "target": target.encode(),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    running = app(scope, receive, send)
    try:
        running.send(None)
    except StopIteration:
        begin, *rest = sent
        found = CaseInsensitiveDict(
            {name.decode("latin-1"): value.decode("latin-1") for name, value in begin["headers"]}
        )
        content = b"".join(message.get("body", b"") for message in rest)
        if found.get("Content-Encoding") == "gzip":
            content = gzip.decompress(content)
        return Answer(begin["status"], found, content)
    raise RuntimeError("the service waits for something")
