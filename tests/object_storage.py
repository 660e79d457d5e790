"""A server of S3 on this machine, which answers one request after another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from extra_packages import needs


class Forgetful:
    """Storage that does not know of If-None-Match, as much of it did until 2024."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def __call__(self, environ: dict[str, object], start_response: object) -> object:
        environ.pop("HTTP_IF_NONE_MATCH", None)
        return self.app(environ, start_response)


@contextmanager
def s3_server(conditional: bool = True) -> Iterator[str]:
    """Its address; the bucket ``books`` is there. Whether a name is taken, and the write, are one
    step, as it has one thread."""
    moto, serving = needs("moto.server"), needs("werkzeug.serving")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = moto.DomainDispatcherApplication(moto.create_backend_app)
    server = serving.make_server("127.0.0.1", 0, app if conditional else Forgetful(app))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.port}"
        requests.put(f"{address}/books", timeout=60).raise_for_status()
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(address: str) -> dict[str, str]:
    """With which the server is reached."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
