"""A server made of a bare socket: it records the very bytes it gets and answers as it is told.

``server.answers`` holds what comes next, one entry a request (the last one stays); the token
endpoint has ``server.token_answers``. An entry is the bytes to send, or a function of the socket
and the request.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fundlab.client.transport import Environment


def skipping(**other: Any) -> Environment:
    """``other`` are members of ``Environment``."""
    skipped = [0.0]

    def sleep(seconds: float) -> None:
        skipped[0] += seconds

    return Environment(clock=lambda: time.monotonic() + skipped[0], sleep=sleep, **other)


TOKEN = "token-of-the-scripted-server"


@dataclass(frozen=True)
class Received:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    def json(self) -> Any:
        return json.loads(self.body)


Answer = bytes | Callable[[socket.socket, Received], None]


def answer(body: Any = None, status: int = 200, **headers: str) -> bytes:
    """A complete answer: ``body`` is JSON to be, or bytes as they are."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def token(value: str = TOKEN, **members: Any) -> bytes:
    return answer(
        {"access_token": value, "expires_in": 3599, "scope": "", "token_type": "bearer"} | members
    )


def problem(status: int, title: str = "Refused", headers: Any = None, **members: Any) -> bytes:
    body = {"type": "about:blank", "title": title, "status": status} | members
    return answer(body, status, **({"Content_Type": "application/problem+json"} | (headers or {})))


def reset(connection: socket.socket, request: Received) -> None:
    """Break the connection with RST instead of answering."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionAbortedError


def hang(seconds: float) -> Answer:
    def wait(connection: socket.socket, request: Received) -> None:
        time.sleep(seconds)
        connection.close()

    return wait


def late(seconds: float, content: bytes) -> Answer:
    def wait(connection: socket.socket, request: Received) -> None:
        time.sleep(seconds)
        connection.sendall(content)

    return wait


def drip(content: bytes, every: float, start: bytes = b"") -> Answer:
    """``start`` at once, then ``content`` a byte at a time."""

    def send(connection: socket.socket, request: Received) -> None:
        connection.sendall(start)
        for index in range(len(content)):
            connection.sendall(content[index : index + 1])
            time.sleep(every)

    return send


def flood(start: bytes, content: bytes) -> Answer:
    """``start``, then ``content`` over and over until the client hangs up."""

    def send(connection: socket.socket, request: Received) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(content)

    return send


def cut(content: bytes) -> Answer:
    """``content``, then the end of the connection."""

    def send(connection: socket.socket, request: Received) -> None:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_RDWR)

    return send


@dataclass(repr=False)
class Scripted:
    """The running server."""

    url: str
    answers: list[Answer] = field(default_factory=lambda: [answer({})])
    token_answers: list[Answer] = field(default_factory=lambda: [token()])
    received: list[Received] = field(default_factory=list)
    token_requests: list[Received] = field(default_factory=list)
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def script(self, *answers: Answer) -> None:
        self.answers[:] = answers

    def _take(self, request: Received) -> Answer:
        with self.lock:
            asks_for_token = request.target.endswith("/oauth2/token")
            (self.token_requests if asks_for_token else self.received).append(request)
            queue = self.token_answers if asks_for_token else self.answers
            return queue.pop(0) if len(queue) > 1 else queue[0]

    def serve_connection(self, connection: socket.socket) -> None:
        self.connections += 1
        try:
            with connection, connection.makefile("rb") as stream:
                while (request := read_request(stream)) is not None:
                    action = self._take(request)
                    if isinstance(action, bytes):
                        connection.sendall(action)
                    else:
                        action(connection, request)
        except (OSError, ValueError):
            return  # the client hung up, or the script broke the connection


def read_request(stream: Any) -> Received | None:
    first = stream.readline()
    if not first.strip():
        return None
    method, target, _ = first.decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", "0")))
    return Received(method, target.rstrip(), headers, body, time.monotonic())


@contextmanager
def running() -> Iterator[Scripted]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted(f"http://127.0.0.1:{listener.getsockname()[1]}")

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(
                    target=server.serve_connection, args=(connection,), daemon=True
                ).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
