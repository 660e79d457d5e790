"""A service that says everything it was told: every header and body comes back in its answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def mirroring(status: int) -> Iterator[str]:
    """The address of one that answers every request with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            heard = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            said = {"headers": dict(self.headers), "body": heard.decode("latin-1")}
            answer: dict[str, Any] = {
                "type": "about:blank", "title": f"No, {said}", "status": status,
                "detail": json.dumps(said), "meta": {"existing": said, "sent": said},
                "error": "invalid_client", "error_description": str(said), "id": str(said),
                "items": [{"id": str(said), "amount": str(said)}],
            }  # fmt: skip
            content = json.dumps(answer).encode()
            self.send_response(status, "No")
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Request-Id", self.headers.get("Authorization", "none")[:128])
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_GET  # noqa: N815 - the names http.server looks for

        def log_message(self, *_: object) -> None:
            """Nothing: what this server hears is no output of fundlab's."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
