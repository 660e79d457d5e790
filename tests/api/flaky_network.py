"""A network between client and service that delays, doubles and drops what it carries."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from scripted import Received, read_request

LATE_S = 0.05


class FlakyNetwork:
    """Carries requests to ``target``; ``faults`` counts what it did to them."""

    def __init__(self, target: str, seed: int) -> None:
        self._host = urlsplit(target).netloc
        self._draw = random.Random(seed)
        self._lock = threading.Lock()
        self.faults: Counter[str] = Counter()

    def carry(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while (request := read_request(stream)) is not None:
                    fault = self._fault()
                    answer = self._forward(request)
                    if fault == "request doubled":
                        answer = self._forward(request)
                    elif fault == "answer late":
                        time.sleep(LATE_S)
                    elif fault == "answer lost":
                        return
                    connection.sendall(answer * 2 if fault == "answer doubled" else answer)
        except (OSError, http.client.HTTPException, ValueError):
            return  # one side hung up, or the service cut its answer: so does the network

    def _fault(self) -> str | None:
        with self._lock:
            kinds = ["request doubled", "answer late", "answer lost", "answer doubled"]
            fault = self._draw.choice(kinds) if self._draw.random() < 0.12 else None
            self.faults[str(fault)] += 1
            return fault

    def _forward(self, request: Received) -> bytes:
        upstream = http.client.HTTPConnection(self._host, timeout=30)
        try:
            upstream.request(
                request.method, request.target, request.body or None, dict(request.headers)
            )
            answer = upstream.getresponse()
            body = answer.read()
        finally:
            upstream.close()
        kept = [(k, v) for k, v in answer.getheaders() if k.lower() != "connection"]
        head = "".join(f"{name}: {value}\r\n" for name, value in kept)
        return f"HTTP/1.1 {answer.status} Whatever\r\n{head}\r\n".encode("latin-1") + body


@contextmanager
def flaky_network(target: str, seed: int) -> Iterator[tuple[str, FlakyNetwork]]:
    """The address under which ``target`` is reached over it, and the network."""
    network = FlakyNetwork(target, seed)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=network.carry, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", network
        finally:
            listener.shutdown(socket.SHUT_RDWR)
