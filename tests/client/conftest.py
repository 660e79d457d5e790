from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import scripted
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from fundlab.client.client import Client
from fundlab.settings.settings import Settings

SECRET = "canary-5f0c2d"


@pytest.fixture
def server() -> Iterator[scripted.Scripted]:
    with scripted.running() as running:
        yield running


@pytest.fixture
def make_client(server: scripted.Scripted) -> Iterator[Callable[..., Client]]:
    """A client of ``server``; keywords are settings, ``signer`` and ``environment``: of itself it
    waits in no time."""
    clients = []

    def make(**settings: Any) -> Client:
        own = {name: settings.pop(name, None) for name in ("signer", "environment")}
        own["environment"] = own["environment"] or scripted.skipping(draw=lambda: 0.0)
        given = {
            "base_url": server.url,
            "auth_url": server.url,
            "client_id": "client-1",
            "client_secret": SECRET,
        } | settings
        client = Client(Settings.load(environ={}, config_file=Path("/nowhere"), **given), **own)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def client(make_client: Callable[..., Client]) -> Client:
    return make_client()


@pytest.fixture(scope="session")
def tls_certificate_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A self-signed certificate for a name or address; its key lies beside it as ``key.pem``."""

    @cache
    def make(host: str) -> Path:
        folder = tmp_path_factory.mktemp("tls")
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        named: x509.GeneralName = x509.DNSName(host)
        if host[0].isdigit():
            named = x509.IPAddress(ip_address(host))
        now, ours = datetime.now(UTC), x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(ours, critical=False)
            .sign(key, SHA256())
        )
        (folder / "key.pem").write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        (folder / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        return folder / "certificate.pem"

    return make


@pytest.fixture(scope="session")
def tls_certificate(tls_certificate_of: Callable[[str], Path]) -> Path:
    return tls_certificate_of("127.0.0.1")


@pytest.fixture
def tls_url(tls_certificate: Path) -> Iterator[str]:
    """A token endpoint behind TLS that answers every request with an empty object."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls_certificate, tls_certificate.with_name("key.pem"))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            return  # the client refused the certificate

    with Server(("127.0.0.1", 0), Handler) as running:
        running.socket = context.wrap_socket(running.socket, server_side=True)
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()
