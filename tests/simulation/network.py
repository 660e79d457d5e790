"""What lies between the clients and the service: messages that are lost, late, doubled or cut.

``Line.exchange`` stands where a client has its connections
(``fundlab.client.connections.Http``) and calls the sandbox's application as its server would, in
the same process. What a client may not do there, whatever it meets, is checked here, too.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from requests.structures import CaseInsensitiveDict

from fundlab.base.values import Instant
from fundlab.client.http import Answer, Failure, Outgoing
from tests.simulation import oracles
from tests.simulation.environment import NS, Virtual
from tests.simulation.happenings import BEHIND, HOUR, MAY_BE_DONE, ON_ITS_WAY
from tests.simulation.schedule import Wrong

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_REFUSALS: Final = {
    "too_many": 429, "broken": 500, "gateway": 504, "forbidden": 403, "timed_out": 408,
    ON_ITS_WAY: 504, "denied": 403,
}  # fmt: skip
"""What is answered before the service has done anything."""
_MOST_ATTEMPTS: Final = 6
_LIMIT: Final = re.compile(r"\blimit=\d+")


class Line:
    """The connections of one client."""

    def __init__(self, desk: Desk, chance: random.Random) -> None:
        self._desk, self._chance = desk, chance
        self._not_before = 0
        """Until when the service has asked to be left alone (ns)."""
        self._ends: dict[str, int] = {}
        """When each token given out here is no longer valid (ns)."""
        self._failed: tuple[str, int] = ("", 0)
        """The call that was sent in vain, and how often in a row."""
        self._behind: int | None = None
        """Since when its lists have nothing new (ns)."""

    def exchange(self, request: Outgoing, timeout: float) -> Answer | Failure:
        desk, chance = self._desk, self._chance
        parts = urlsplit(request.url)
        asked = f"{request.method} {parts.path}"
        desk.schedule.step(f"sends {asked}", chance.uniform(0.005, 0.05))
        bounds = parse_qs(parts.query)
        for name in ("created_at", "updated_at"):
            begin, end = bounds.get(f"{name}.gte"), bounds.get(f"{name}.lt")
            if begin and end and oracles.moment(begin[0]) >= oracles.moment(end[0]):
                raise Wrong(f"rows of no time at all are asked for: {request.url}")
        if Virtual.now_ns < self._not_before - NS:
            raise Wrong(f"{asked} was sent before the service wished for more")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        call, (before, count) = request.headers["X-Request-Id"], self._failed
        # one that ends between two attempts of a call, or while it waits as the service wished, is
        # for the service to refuse
        ended = self._ends.get(token, Virtual.now_ns)
        waited = ended <= self._not_before and Virtual.now_ns <= self._not_before + 30 * NS
        if ended < Virtual.now_ns and call != before and not waited:
            raise Wrong(f"{asked} was sent with a token that had ended")
        actor = desk.schedule.current
        if actor is not None:
            with desk.schedule.aside():
                oracles.written_down(desk, actor.name, request)
        kind = None if actor is None else desk.meets(actor, asked)
        outcome = self._outcome(request, timeout, asked, kind)
        if actor is not None and isinstance(outcome, Answer) and outcome.status == 401:
            desk.refused_tokens[actor.name].add(token)
        if actor is not None and request.method == "GET" and isinstance(outcome, Answer):
            desk.answers[actor.name].append((request.url, outcome))
            if outcome.status == 403:
                desk.forbidden.add(parts.path.rpartition("/")[2])
        if actor is not None and asked.startswith("POST /v2"):
            of_call = desk.posted.get(actor.name, ("", False)) == (call, True)
            desk.posted[actor.name] = call, of_call or kind in MAY_BE_DONE
        if asked == "POST /v2/orchestration/rules":
            self._is_confirmed(json.loads(request.body or b""))

        if before != call or (isinstance(outcome, Answer) and outcome.status < 400):
            count = 0
        self._failed = call, count + (kind is not None and kind != "too_many")
        if self._failed[1] > _MOST_ATTEMPTS:
            raise Wrong(f"{asked} was sent in vain {self._failed[1]} times")
        return outcome

    def _outcome(
        self, request: Outgoing, timeout: float, asked: str, kind: str | None
    ) -> Answer | Failure:
        desk, chance = self._desk, self._chance
        if kind == "refused":
            return Failure("no connection (Connection refused)", sent=False)
        if kind == "no_tunnel":
            return Failure("the proxy gives no tunnel (502)", sent=False)
        if kind in ("lost", "late"):
            if kind == "late":
                desk.do_later(timeout + chance.uniform(0, 600), lambda: self._serve(request))
            desk.schedule.sleep(min(timeout, 30))
            return Failure("the answer took too long", sent=True)
        if kind in ("gateway", "timed_out"):
            desk.do_later(chance.uniform(0, 600), lambda: self._serve(request))
        if kind == ON_ITS_WAY:
            desk.do_later(chance.uniform(700, 1100), lambda: self._serve(request))
        if kind in _REFUSALS:
            retry = {}
            if kind == "too_many":
                seconds = chance.randint(0, 20)
                retry = {"Retry-After": str(seconds)}
                self._not_before = Virtual.now_ns + seconds * NS
            return self._refusal(_REFUSALS[kind], retry, problem=kind in ("timed_out", "denied"))
        if kind == "expired":
            desk.control.revoke_tokens()
        if kind == BEHIND:
            self._behind = Virtual.now_ns
        answer = self._serve(request)
        if kind == "doubled" and (request.method == "GET" or b"ref_id" in (request.body or b"")):
            answer = self._serve(request)
        if asked == "POST /oauth2/token" and answer.status == 200:
            given = json.loads(answer.body)
            self._ends[given["access_token"]] = Virtual.now_ns + given["expires_in"] * NS
        seconds = chance.uniform(0.005, 0.3) if kind != "slow" else min(timeout, 29.5)
        desk.schedule.step(f"gets {answer.status} of {asked}", seconds)
        if kind in ("unanswered", "tunnel_ended"):
            return Failure("the connection broke (ConnectionResetError)", sent=True)
        if kind == "cut":
            return Failure("the connection broke (IncompleteRead)", sent=True)
        if kind == "broken_after":
            return self._refusal(502, {})
        if kind in ("page_after", BEHIND):
            return self._refusal(chance.choice([400, 403, 404, 405, 409, 413, 451]), {})
        is_list = asked.endswith("/transfers") and request.method == "GET"
        if desk.garbled and asked.startswith("GET /v2/transfer/transfers"):
            answer = self._garbled(answer)
        if is_list and self._behind is not None and answer.status == 200:
            found = json.loads(answer.body)
            newest = str(Instant.from_ns(self._behind))
            found["items"] = [row for row in found["items"] if row["created_at"] < newest]
            answer = Answer(answer.status, answer.headers, json.dumps(found).encode())
        return self._of_a_replica(answer) if kind == "stale" and is_list else answer

    def _is_confirmed(self, rule: dict[str, Any]) -> None:
        """A rule is asked for while its confirmation holds: 15 minutes, by a clock that may be
        wrong by 20 either way."""
        since = Virtual.now_ns - self._desk.confirmed[rule["nickname"]]
        if since > HOUR:
            raise Wrong(
                f"{rule['nickname']} was asked for {since // HOUR} h after it was confirmed"
            )

    def _of_a_replica(self, answer: Answer) -> Answer:
        """A list of transfers, each in its first version, as a replica has it that is behind."""
        found = json.loads(answer.body) if answer.status == 200 else {}
        rows = found.get("items", [])
        first = {row["id"]: self._desk.first_version(row) for row in rows}
        found["items"] = [first[row["id"]] for row in rows]
        if found["items"] == rows:
            return answer
        self._desk.misled = True
        return Answer(answer.status, answer.headers, json.dumps(found).encode())

    def _garbled(self, answer: Answer) -> Answer:
        """With an amount that nobody can read."""
        found = json.loads(answer.body) if answer.status == 200 else {}
        for row in found.get("items", [found]):
            if row.get("id") == self._desk.garbled:
                row["amount"] = "12,5"
        return (
            Answer(answer.status, answer.headers, json.dumps(found).encode()) if found else answer
        )

    def close(self) -> None:
        """There is no connection to close."""

    def _refusal(self, status: int, headers: dict[str, str], *, problem: bool = False) -> Answer:
        """A page, or a problem: the service's own, or of a gateway that has them, too."""
        headers["Content-Type"], body = "text/html", b"<html>sorry</html>"
        if problem:
            headers["Content-Type"] = "application/problem+json"
            body = json.dumps({"title": "Not now", "status": status}).encode()
        return Answer(status, CaseInsensitiveDict(headers), body)

    def _serve(self, request: Outgoing) -> Answer:
        actor = self._desk.schedule.current
        syncs = actor is not None and self._desk.doing.get(actor.name) == "sync"
        return serve(
            self._desk.app, request, self._desk.longest_page, self._desk.deaf if syncs else ()
        )


def serve(
    app: Any, request: Outgoing, longest_page: int | None, deaf: tuple[str, ...] = ()
) -> Answer:
    """What ``app`` answers; it waits for nothing, so its coroutine runs to its end at once. Its
    pages have at most ``longest_page`` rows, whatever was asked for, and filters that begin with
    one of ``deaf`` never come to it."""
    parts = urlsplit(request.url)
    query = "&".join(one for one in parts.query.split("&") if not deaf or not one.startswith(deaf))
    if longest_page is not None:
        query = _LIMIT.sub(f"limit={longest_page}", query)
    target = parts.path + (f"?{query}" if query else "")
    headers = [(b"host", parts.netloc.encode())]
    headers += [(n.lower().encode(), str(v).encode("latin-1")) for n, v in request.headers.items()]
    body = request.body or b""
    if request.body is not None:
        headers.append((b"content-length", str(len(body)).encode()))
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1",
        "method": request.method, "scheme": "https", "path": unquote(parts.path),
        "raw_path": parts.path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": headers, "client": ("10.0.0.2", 40_000), "server": (parts.hostname, 443),
        "target": target.encode(),
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    running = app(scope, receive, send)
    Virtual.at_service = True
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
    finally:
        Virtual.at_service = False
    raise RuntimeError("the service waits for something")
