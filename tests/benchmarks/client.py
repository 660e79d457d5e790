"""What the client costs: beside bare ``requests``, and its signatures beside ``cryptography``.

Run ``python tests/benchmarks/client.py [CALLS]``. Both kinds of call go to one server on this
machine, over one connection kept open, in turns. The bare ones have the same headers, made by hand
beforehand, its signature too; ours are signed, checked and read into a model. Signing is measured
by itself, against the same bytes signed with ``cryptography`` alone. Prints microseconds (medians)
and ratios, and exits with 1 if a ratio misses its bar.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from fundlab.client.client import Client
from fundlab.client.signing import load_signer, new_key, request_signature
from fundlab.settings.settings import Settings

CALLS = 1500
TURN = 25
CALL_BAR, SIGNING_BAR = 1.3, 1.5
TARGET = "/v2/transfer/transfers/70000000-0000-4000-8000-000000000001"
TRANSFER = b"""{"id": "70000000-0000-4000-8000-000000000001", "ref_id": "pay-1",
"customer_id": "5e2b1c9a-7d44-4c8e-b0a3-1f9e8d7c6b5a",
"profile_id": "01d7a0cb-76a0-4d1c-9b6e-5a7f3c2e1b90", "amount": "100.00", "fee": "25.00",
"total": "125.00", "asset": "USD", "direction": "DEBIT", "type": "WIRE_WITHDRAWAL",
"status": "COMPLETED", "created_at": "2026-10-01T09:30:00.000001Z",
"updated_at": "2026-10-01T09:30:05Z", "fiat_account_id": "fa0b1c2d-0000-4000-8000-000000000001"}"""
TOKEN = b'{"access_token": "abc", "expires_in": 3599, "scope": "", "token_type": "bearer"}'


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.reply(TRANSFER)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(TOKEN)

    def reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        return


def serve(ready: Connection) -> None:
    """Answers in a process of its own, so that it does not share the interpreter's lock."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        ready.send(server.server_port)
        server.serve_forever()


def main(calls: int) -> int:
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(sender,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{receiver.recv()}"
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        for alg in ("ES256", "EdDSA"):
            key = Path(folder) / f"{alg}.pem"
            new_key(alg, key)
            missed += measured(url, key, alg, calls)
    process.terminate()
    process.join()
    print(f"bars missed: {', '.join(missed)}" if missed else "all bars reached")
    return 1 if missed else 0


def measured(url: str, key: Path, alg: str, calls: int) -> list[str]:
    """Prints both comparisons for one kind of key; the names of those that miss their bar."""
    settings = Settings.load(
        environ={}, base_url=url, auth_url=url, client_id="c", client_secret="s",
        signing_key=key, signing_key_id="k",
    )  # fmt: skip
    signer: Any = load_signer(key, "k")
    timestamp = int(time.time())

    def signature() -> str:
        return request_signature(
            signer, method="GET", target=TARGET, body=b"", timestamp=timestamp, prefix="service/"
        )

    headers = {"Authorization": "Bearer abc", "Service-Signature": signature()}
    signing_input = signature().rpartition(".")[0].encode()
    with Client(settings) as client, requests.Session() as session:

        def bare() -> None:
            session.get(f"{url}{TARGET}", headers=headers, timeout=30).json()

        rows = (
            ("signed call", lambda: client.get_transfer(TARGET[-36:]), bare, calls, CALL_BAR),
            ("signing", signature, lambda: sign_alone(signer.key, signing_input), calls * 4,
             SIGNING_BAR),
        )  # fmt: skip
        return [f"{alg} {name}" for name, *rest in rows if not reached(f"{alg} {name}", *rest)]


def sign_alone(key: Any, message: bytes) -> bytes:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(message, ec.ECDSA(SHA256()))
    signature: bytes = key.sign(message)
    return signature


def reached(
    name: str, ours: Callable[[], Any], bare: Callable[[], Any], times: int, bar: float
) -> bool:
    """Both in turns, so that other work on the machine meets both alike."""
    spent: dict[str, list[float]] = {"ours": [], "bare": []}
    for action in (ours, bare):
        for _ in range(TURN):
            action()
    for _ in range(times // TURN):
        for kind, action in (("ours", ours), ("bare", bare)):
            for _ in range(TURN):
                start = time.perf_counter()
                action()
                spent[kind].append(time.perf_counter() - start)
    mine, theirs = (statistics.median(spent[kind]) * 1e6 for kind in ("ours", "bare"))
    ratio = mine / theirs
    verdict = "ok" if ratio <= bar else "MISSED"
    print(f"{name:20}{mine:9.0f} µs, bare {theirs:7.0f} µs: {ratio:.2f} x (<= {bar}) {verdict}")
    return ratio <= bar


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else CALLS))
