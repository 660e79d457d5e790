"""A proxy on this machine between a client and the service, which adds each answer to a file.

Everything passes as it is, signatures too. What is kept has no header, no token, and of account
numbers the last four characters: they are masked before anything is written (`without_known`). A
sandbox that is started with the file (``--replay``) answers with it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit

import requests

from fundlab.base.errors import SandboxError
from fundlab.sandbox.openapi import TOKEN_PATH
from fundlab.sandbox.replay import Exchange, masked, without_known
from fundlab.settings.settings import checked, is_loopback

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
_WAIT_S: Final = 120
_HOP: Final = {
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length", "content-encoding", "host",
    "accept-encoding",
}  # fmt: skip
"""Headers of one connection, and of an encoding that is undone on the way."""


@contextmanager
def recording(
    base_url: str, out: Path, *, auth_url: str | None = None, port: int = 0,
    ca_bundle: Path | None = None,
) -> Iterator[str]:  # fmt: skip
    """A proxy before ``base_url``; its own address is yielded, in place of both addresses of the
    service. Answers are added to ``out`` (mode 0600). Raises ``SandboxError``, and
    ``SettingsError`` for certificates that cannot be read."""
    for name, url in (("base_url", base_url), ("auth_url", auth_url or base_url)):
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
            raise SandboxError(f"{name} must be an https:// address; http:// is for loopback only")
    bundle = True if ca_bundle is None else str(checked("ca_bundle", ca_bundle))
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
                    timeout=_WAIT_S, allow_redirects=False, verify=bundle,
                )  # fmt: skip
            except OSError as error:  # of requests, too; certificates may be lost since
                self.send_error(502, explain=type(error).__name__)
                return
            if not token:
                (asked, mine), (found, theirs) = masked(body), masked(answer.content)
                kept = Exchange(self.command, self.path, answer.status_code, asked, found)
                with writing:
                    numbers.update(mine | theirs)
                    masked_exchange = without_known(vars(kept), numbers)
                    line = json.dumps(masked_exchange, ensure_ascii=False, separators=(",", ":"))
                    os.write(descriptor, f"{line}\n".encode(errors="backslashreplace"))
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
