"""What a real deployment answered, kept and given again.

``record`` is a proxy on this machine between a client and the service: everything passes as it is,
signatures too, and each answer is added to a file. What is kept has no header, no token, and of
account numbers the last four characters: they are masked before anything is written, in their own
members and, once they stood there, in any other text. A sandbox that is started with the file
(``--replay``) answers with it.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import requests

from fundlab.base.errors import SandboxError
from fundlab.models import OPERATIONS
from fundlab.settings.secret import mask_number, without_numbers
from fundlab.settings.settings import is_loopback

TOKEN_PATH: Final = "/oauth2/token"
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
LONG_ENOUGH: Final = 6
_IN_TEXT: Final = re.compile(rf"(?<![\w.-])\w{{{LONG_ENOUGH},}}(?!\w|[.-]\w)")
"""Where a number may stand alone; an amount or a part of an id does not."""
_WAIT_S: Final = 120
_HOP: Final = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "content-encoding", "host",
    "accept-encoding",
}  # fmt: skip
"""Headers of one connection, and of an encoding that is undone on the way."""


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, as they are kept; a body that is not JSON is ``None``."""

    method: str
    target: str
    status: int
    request: Any
    answer: Any

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def key(self, ignoring: Set[str] = frozenset()) -> tuple[str, str, str, str]:
        """What the request asks, in whatever order its query and its body name it, but for members
        ``ignoring``."""
        query = sorted(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))
        body = json.dumps(_without(self.request, ignoring), sort_keys=True)
        return self.method, self.path, json.dumps(query), body


def read_recording(path: Path) -> list[Exchange]:
    """The exchanges in a file, oldest first. Raises ``SandboxError``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SandboxError(f"the recording {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SandboxError(f"{path} is not a recording: it is not UTF-8") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            one = Exchange(**json.loads(line))
            one.key()  # which reads the target
        except (ValueError, TypeError, AttributeError):
            raise SandboxError(f"{path} is not a recording: line {number}") from None
        found.append(one)
    return found


class Replay:
    """Recorded answers by request, body and all: one after another where it was asked repeatedly,
    the last one again and again. Members named in ``ignoring`` (such as ``ref_id``) may differ, at
    whatever depth. Not thread-safe: the sandbox asks under its lock."""

    def __init__(self, exchanges: list[Exchange], ignoring: Iterable[str] = ()) -> None:
        self._ignoring = frozenset(ignoring)
        self._left: defaultdict[Any, list[Exchange]] = defaultdict(list)
        self._numbers: set[str] = set()
        for one in exchanges:
            self._left[one.key(self._ignoring)].append(one)

    def answer(self, method: str, target: str, body: bytes = b"") -> Exchange | None:
        asked, numbers = masked(body)  # as it was when it was recorded
        self._numbers |= numbers
        request = without_known(asked, self._numbers)
        left = self._left.get(Exchange(method, target, 0, request, None).key(self._ignoring))
        if not left:
            return None
        return left.pop(0) if len(left) > 1 else left[0]


@contextmanager
def recording(
    base_url: str, out: Path, *, auth_url: str | None = None, port: int = 0,
    ca_bundle: Path | None = None,
) -> Iterator[str]:  # fmt: skip
    """A proxy before ``base_url``; its own address is yielded, in place of both addresses of the
    service. Answers are added to ``out`` (mode 0600). Raises ``SandboxError``."""
    for name, url in (("base_url", base_url), ("auth_url", auth_url or base_url)):
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise SandboxError(f"{name} must be an https:// address; http:// is for loopback only")
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        raise SandboxError(f"{out} cannot be written: {error.strerror}") from None
    service = requests.Session()
    service.trust_env = True
    service.headers.clear()
    writing, numbers = Lock(), set[str]()

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            length = self.headers.get("Content-Length", "0")
            local = is_loopback(urlsplit(f"//{self.headers.get('Host', '')}").hostname)
            if not (local and length.isdecimal() and int(length) <= MAX_BODY_BYTES):
                self.send_error(400)
                return
            body = self.rfile.read(int(length))
            token = self.path.partition("?")[0] == TOKEN_PATH
            to = (auth_url or base_url) if token else base_url
            passed = {n: v for n, v in self.headers.items() if n.lower() not in _HOP}
            try:
                answer = service.request(
                    self.command, to.rstrip("/") + self.path, data=body or None, headers=passed,
                    timeout=_WAIT_S, allow_redirects=False,
                    verify=str(ca_bundle) if ca_bundle else True,
                )  # fmt: skip
            except requests.RequestException as error:
                self.send_error(502, explain=type(error).__name__)
                return
            if not token:
                (asked, mine), (found, theirs) = masked(body), masked(answer.content)
                kept = Exchange(self.command, self.path, answer.status_code, asked, found)
                with writing:
                    numbers.update(mine | theirs)
                    masked_exchange = without_known(vars(kept), numbers)
                    line = json.dumps(masked_exchange, ensure_ascii=False, separators=(",", ":"))
                    os.write(descriptor, f"{line}\n".encode())
            self.send_response_only(answer.status_code)
            for name, value in answer.headers.items():
                if name.lower() not in _HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = pass_on  # noqa: N815 - names of the base

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: a query may name what is private."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Proxy)
    except OSError as error:
        os.close(descriptor)
        raise SandboxError(f"cannot listen on port {port}: {error.strerror}") from None
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        service.close()
        os.close(descriptor)


def _without(value: Any, names: Set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    return value


def masked(body: bytes) -> tuple[Any, set[str]]:
    """A body's JSON with its account numbers masked, and the numbers; ``None`` for any other."""
    try:
        value = json.loads(body)
        hidden = without_numbers(value)
        return hidden, set(numbers_of(value, hidden))
    except (ValueError, RecursionError):
        return None, set()


def numbers_of(value: Any, hidden: Any) -> Iterator[str]:
    """What of ``value`` is masked in ``hidden``, where it is long enough to be told from others."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from numbers_of(member, hidden[name])
    elif isinstance(value, list):
        for one, other in zip(value, hidden, strict=True):
            yield from numbers_of(one, other)
    elif value != hidden and len(str(value)) >= LONG_ENOUGH:
        yield str(value)


def without_known(value: Any, numbers: Set[str]) -> Any:
    """``value`` with each of ``numbers`` masked in its texts: in a memo, in metadata, as a name."""
    if isinstance(value, dict):
        return {name: without_known(member, numbers) for name, member in value.items()}
    if isinstance(value, list):
        return [without_known(one, numbers) for one in value]
    if isinstance(value, str):
        return _IN_TEXT.sub(
            lambda found: mask_number(found[0]) if found[0] in numbers else found[0], value
        )
    return value


def operation_at(method: str, path: str) -> str | None:
    """The operation of the interface that a request is for."""
    steps = path.strip("/").split("/")
    for name, operation in OPERATIONS.items():
        named = operation.path.strip("/").split("/")
        fits = len(named) == len(steps) and all(
            own.startswith("{") or own == step for own, step in zip(named, steps, strict=True)
        )
        if operation.method == method and fits:
            return name
    return None
