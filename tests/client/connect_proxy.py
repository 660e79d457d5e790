"""An HTTPS proxy (CONNECT) that relays bytes to one place, and ends a connection as it is told.

``ending`` is what it does to the connection on which a POST was carried out, in place of the
answer: ``"fin"``, ``"rst"`` or ``"plain bytes"`` (not of TLS, on an established connection).
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from select import select


@dataclass
class ConnectProxy:
    """``armed``: the answer that comes next is lost, by ``ending``; ``refuses`` is a status line
    that is given in place of a tunnel."""

    url: str
    target: tuple[str, int]
    ending: str = "fin"
    refuses: bytes = b""
    armed: threading.Event = field(default_factory=threading.Event)
    tunnels: int = 0

    def serve(self, client: socket.socket) -> None:
        self.tunnels += 1
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        if self.refuses:
            client.sendall(b"HTTP/1.1 " + self.refuses + b"\r\nContent-Length: 0\r\n\r\n")
            client.close()
            return
        service = socket.create_connection(self.target)
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with client, service, suppress(OSError):
            while True:  # one thread for both ways: a socket that another one reads has no RST
                readable, _, _ = select([client, service], [], [])
                for source, target in ((client, service), (service, client)):
                    if source not in readable:
                        continue
                    data = source.recv(65536)
                    if not data:
                        return
                    if source is service and self.armed.is_set():
                        self.armed.clear()
                        self.lose(client)
                        return
                    target.sendall(data)

    def lose(self, client: socket.socket) -> None:
        if self.ending == "rst":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self.ending == "plain bytes":
            client.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def connect_proxy(target: tuple[str, int]) -> Iterator[ConnectProxy]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = ConnectProxy(f"http://127.0.0.1:{listener.getsockname()[1]}", target)

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=proxy.serve, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield proxy
        finally:
            listener.shutdown(socket.SHUT_RDWR)
