"""Time stamps of anchors: asked of an authority, kept with the anchor, checked with it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fundlab import Store
from fundlab.base.errors import InvalidRequest, NetworkError, SettingsError
from fundlab.cli import run
from fundlab.timestamps import stamp

CONFIGURATION = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ordering = no
tsa_name = yes
ess_cert_id_chain = no
ess_cert_id_alg = sha256
"""


def make_authority(folder: Path) -> None:
    """A root, and a certificate for time stamps that it signed."""
    folder.mkdir()
    keys = {name: rsa.generate_private_key(65537, 2048) for name in ("root", "tsa")}
    names = {
        name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{folder.name} {name}")])
        for name in keys
    }
    now = datetime.now(UTC)
    for name, key in keys.items():
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING])
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[name])
            .issuer_name(names["root"])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name == "root", path_length=None), True)
        )
        if name == "tsa":
            builder = builder.add_extension(usage, critical=True)
        made = builder.sign(keys["root"], hashes.SHA256())
        (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "tsa.key").write_bytes(
        keys["tsa"].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    (folder / "serial").write_text("01")
    (folder / "tsa.cnf").write_text(CONFIGURATION.format(folder=folder))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of one, answered by OpenSSL, and its folder; ``/busy`` refuses."""
    folder = tmp_path_factory.mktemp("authority") / "here"
    make_authority(folder)

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = folder / "query"
            query.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            done = subprocess.run(
                ["openssl", "ts", "-reply", "-config", str(folder / "tsa.cnf"), "-section", "here",
                 "-queryfile", str(query)],
                capture_output=True, check=True,
            )  # fmt: skip
            self.send_response(503 if self.path == "/busy" else 200)
            self.end_headers()
            self.wfile.write(done.stdout)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", folder
    server.shutdown()
    server.server_close()


@pytest.fixture
def anchor(authority: tuple[str, Path], tmp_path: Path, capsys: Any) -> list[str]:
    """The arguments that verify a time-stamped anchor of a store, in the file ``anchor.json``."""
    (url, folder), store = authority, tmp_path / "store"
    with Store(store).lock():
        pass
    Store(store).pin("empty")
    out, ca = tmp_path / "anchor.json", ["--timestamp-ca", str(folder / "root.pem")]
    run(["anchor", "--store", str(store), "--out", str(out), "--timestamp", url, *ca])
    capsys.readouterr()
    return ["verify", "--store", str(store), "--anchor", str(out), *ca]


def test_a_stamped_anchor_says_when_and_by_whom(anchor: list[str], capsys: Any) -> None:
    run(anchor)
    said = capsys.readouterr().out
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    assert f"The anchor is not signed. It was time-stamped at {today}" in said
    assert "by CN=here tsa." in said


def test_a_stamp_of_another_anchor_does_not_hold(anchor: list[str], tmp_path: Path) -> None:
    path = tmp_path / "anchor.json"
    store = Store(tmp_path / "store")
    store.pin("later")
    path.write_text(json.dumps(store.anchor().to_json() | {
        "timestamp": json.loads(path.read_text())["timestamp"]
    }))  # fmt: skip
    with pytest.raises(SettingsError, match=r"the time stamp does not hold .*another anchor"):
        run(anchor)


def test_an_unknown_authority_is_refused(
    anchor: list[str], authority: tuple[str, Path], tmp_path: Path
) -> None:
    make_authority(tmp_path / "other")
    (tmp_path / "other" / "root.pem").rename(tmp_path / "root.pem")
    with pytest.raises(SettingsError, match=r"does not hold .*--timestamp-ca"):
        run([*anchor[:-1], str(tmp_path / "root.pem")])
    with pytest.raises(SettingsError, match="does not hold"):  # nor known to browsers
        run(anchor[:-2])
    with pytest.raises(SettingsError, match="does not hold"):
        stamp("text", authority[0])
    with pytest.raises(InvalidRequest, match="does not hold certificates"):
        stamp("text", authority[0], tmp_path / "anchor.json")


def test_an_authority_that_cannot_be_asked(authority: tuple[str, Path], tmp_path: Path) -> None:
    root = authority[1] / "root.pem"
    with pytest.raises(NetworkError, match="answered 503"):
        stamp("text", f"{authority[0]}/busy", root)
    with pytest.raises(NetworkError, match="did not answer"):
        stamp("text", "http://127.0.0.1:1", root)
    with pytest.raises(InvalidRequest, match="not the address"):
        stamp("text", "authority", root)
    Store(tmp_path / "store").pin("empty")
    with pytest.raises(typer.BadParameter, match="give --out"):
        run(["anchor", "--store", str(tmp_path / "store"), "--timestamp", authority[0]])
