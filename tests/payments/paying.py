"""Four ways to pay at a ledger that is not ours, and how the world lies between: a user's machine
with its journal, production settings over TLS, through a proxy or not.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import pandas as pd
import requests
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from other_ledger import ACCOUNT, HOST, PROFILE, Ledger, Request, listening

import fundlab as fl
from fundlab import cli
from fundlab.base.errors import ActionRefused, CallError, FundlabError
from fundlab.client.client import Client
from fundlab.payments.identity import Entry
from fundlab.payments.journal import Journal

WAYS: Final = ("plan", "batch", "command", "raw")
PATHS: Final = ("proxy", "direct", "plain")
SECRET: Final = "the judge's secret"


@dataclass
class Attempt:
    """What one attempt to pay came to, and what the ledger's log says of it."""

    way: str
    transfer_id: str | None = None
    status: str | None = None  # of the transfer, as it was shown
    state: str | None = None  # of a batch's row
    error: BaseException | None = None
    text: str = ""  # all that was said of the failure
    refused_here: bool = False  # by the program, not by what it called
    sent: list[Request] = field(default_factory=list)
    beside: Attempt | None = field(default=None, repr=False, compare=False)
    """The one that another kernel made meanwhile: whose request is whose cannot be told."""

    @property
    def disowns(self) -> bool:
        """Whether nobody answered, and it does not say that it may have been carried out."""
        error = self.error
        return isinstance(error, CallError) and error.status is None and not error.in_doubt

    @property
    def says_unsent(self) -> bool:
        """Whether it says that nothing was sent; "nothing was sent now" is of this attempt only."""
        text = self.text.lower()
        return "nothing was sent" in text.replace("nothing was sent now", "")


@dataclass
class Machine:
    """A user's machine: settings, a store, a journal, and a connection to ``ledger``."""

    ledger: Ledger
    folder: Path
    certificate: Path
    proxied: bool
    said: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def journal_folder(self) -> Path:
        return self.folder / "journal"

    @property
    def keywords(self) -> dict[str, Any]:
        return {
            "base_url": self.ledger.url, "auth_url": self.ledger.url, "client_id": "judge",
            "client_secret": SECRET, "ca_bundle": self.certificate, "trust_env": self.proxied,
            "store": self.folder / "store", "journal": self.journal_folder, **self.settings,
        }  # fmt: skip

    def client(self) -> Client:
        return fl.connect(**self.keywords)

    def journal(self) -> pd.DataFrame:
        return fl.journal(folder=self.journal_folder)

    def entries(self) -> list[Entry]:
        """What ``journal`` is made of, without the frame."""
        files = self.journal_folder.glob("*.sqlite")
        return [entry for path in files for entry in Journal(path).entries()]

    def states(self, ref_id: str) -> list[str]:
        return [entry.state for entry in self.entries() if entry.ref_id == ref_id]

    def pay(self, way: str, **more: Any) -> Attempt:
        """One attempt by ``way``: nothing that goes wrong with the payment is raised."""
        payment = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "100.00"} | more
        attempt, before = Attempt(way), len(self.ledger.log)
        try:
            _BY[way](self, payment, attempt)
        except FundlabError as error:
            attempt.error, attempt.refused_here = error, isinstance(error, ActionRefused)
            notes = getattr(error, "__notes__", ())
            attempt.text = "\n".join([attempt.text, str(error), *notes])
        attempt.sent = [one for one in self.ledger.log[before:] if one.is_payment]
        return attempt


def _by_plan(machine: Machine, payment: dict[str, Any], attempt: Attempt) -> None:
    with machine.client() as client:
        plan = fl.plan_withdrawal(client, **payment, say=machine.said.append)
        made = plan.submit(confirm=plan.code)
    attempt.transfer_id, attempt.status = made.id, str(made.status)


def _by_batch(machine: Machine, payment: dict[str, Any], attempt: Attempt) -> None:
    with machine.client() as client:
        batch = fl.plan_withdrawals(client, pd.DataFrame([payment]), say=machine.said.append)
        (row,) = batch.submit(confirm=batch.code, progress=False).to_dict("records")
    attempt.state = row["state"]
    if row["state"] == "done":
        attempt.transfer_id, attempt.status = row["transfer_id"], row["status"]
    else:
        attempt.text = str(row["detail"])


def _by_command(machine: Machine, payment: dict[str, Any], attempt: Attempt) -> None:
    arguments = [
        "fundlab", "withdraw", "--profile", payment["profile_id"], "--amount", payment["amount"],
        "--fiat-account", payment["fiat_account_id"], "--yes", "--json",
        "--store", str(machine.folder / "store"), "--confirm-amount", payment["amount"],
    ]  # fmt: skip
    if "ref_id" in payment:
        arguments += ["--ref-id", payment["ref_id"]]
    names = {f"FUNDLAB_{name.upper()}": str(value) for name, value in machine.keywords.items()}
    before, argv = {name: os.environ.get(name) for name in names}, sys.argv
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        os.environ |= names
        sys.argv = arguments
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as end:
                code = int(end.code or 0)
    finally:
        sys.argv = argv
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    shown = json.loads(out.getvalue())
    machine.said += err.getvalue().splitlines()
    transfer = shown.get("transfer")
    if transfer is not None and code == 0:
        attempt.transfer_id, attempt.status = transfer["id"], transfer["status"]
    if code != 0 and transfer is None:
        attempt.error = FundlabError(f"exit status {code}")
        attempt.refused_here = shown.get("error", {}).get("type") == "ActionRefused"
        attempt.text = f"{out.getvalue()}\n{err.getvalue()}"


def _raw(machine: Machine, payment: dict[str, Any], attempt: Attempt) -> None:
    with machine.client() as client:
        made = client.create_fiat_withdrawal(**payment)
    attempt.transfer_id, attempt.status = made.id, str(made.status)


_BY: Final[dict[str, Callable[[Machine, dict[str, Any], Attempt], None]]] = {
    "plan": _by_plan, "batch": _by_batch, "command": _by_command, "raw": _raw,
}  # fmt: skip


def within_an_older_error(pay: Callable[[], Attempt]) -> Attempt:
    """``pay`` as it stands in a caller's ``except`` block: of a connection that was refused."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    try:
        requests.get(f"http://127.0.0.1:{port}", timeout=1)
    except requests.ConnectionError:
        return pay()
    raise AssertionError("somebody answers at a port that was closed")


def broken_law(machines: list[Machine], attempts: list[Attempt], ref_id: str | None) -> str | None:
    """Which law the ledger's log shows broken, for attempts at one intent; ``None`` if none.

    Raw calls without a ``ref_id`` are an intent each; those with one, and all others, are one.
    """
    ledger = machines[0].ledger
    calls = [one for one in attempts if one.way == "raw" and ref_id is None]
    for call in calls:
        made = [one.made for one in call.sent if one.made]
        if len(made) > 1:
            return f"one call made {len(made)} payments"
    if not calls:
        made = [row["id"] for row in ledger.payments(ref_id)]
        if len(made) > 1:
            return f"one intent made {len(made)} payments"
    for number, attempt in enumerate(attempts):
        # a call that failed speaks of itself, a refusal of the payment and all that went before
        before = attempts[: number + 1] if attempt.refused_here and not calls else [attempt]
        if attempt.says_unsent and any(one.wire for each in before for one in each.sent):
            return f"{attempt.way} says that nothing was sent: {attempt.text}"
        beside = attempt.beside
        if attempt.sent and attempt.disowns and (beside is None or beside.disowns):
            return f"{attempt.way} is not in doubt: {attempt.text}"
        if attempt.transfer_id is not None:
            there = [row for row in ledger.payments() if row["id"] == attempt.transfer_id]
            if not there or there[0]["status"] == "FAILED":
                return f"{attempt.way} takes {attempt.transfer_id} for the payment"
    # what the raw client or another machine pays under the caller's ref_id no journal here knows
    # before it is asked about once more
    strangers = {one.made for each in attempts if each.way == "raw" for one in each.sent}
    for machine in machines:
        done = []
        for entry in machine.entries():
            made = {payment["id"] for payment in ledger.payments(entry.ref_id)} - strangers
            if entry.state == "refused" and made and len(machines) == 1:
                return f"the journal says refused of {entry.ref_id}, which moved: {entry.detail}"
            if entry.state == "done":
                done.append(entry.resource_id)
        if len({*done}) < len(done):
            return "two entries of the journal stand for one transfer"
    for attempt in attempts:
        moved = (
            ledger.payments(ref_id) if ref_id else [one.made for one in attempt.sent if one.made]
        )
        if attempt.state == "refused" and moved:
            return f"the batch says refused of what moved: {attempt.text}"
    return None


# ------------------------------------------------------------------------------ the world


@dataclass
class World:
    """A ledger that can be reached by each of ``PATHS``."""

    folder: Path
    certificate: Path
    servers: dict[str, tuple[int, list[Ledger]]]
    count: int = 0

    def ledger(self, path: str = "proxy", **behaviour: Any) -> Ledger:
        """A new ledger, for machines to pay at by ``path``."""
        port, current = self.servers[path]
        url = {"proxy": f"https://{HOST}", "direct": f"https://{HOST}:{port}"}
        current[0] = Ledger(url.get(path, f"http://127.0.0.1:{port}"), **behaviour)
        return current[0]

    def machine(self, ledger: Ledger, **settings: Any) -> Machine:
        self.count += 1
        proxied = ledger.url == f"https://{HOST}"
        folder = self.folder / str(self.count)
        return Machine(ledger, folder, self.certificate, proxied, settings=settings)


@contextlib.contextmanager
def a_world(folder: Path) -> Iterator[World]:
    certificate = folder / "certificate.pem"
    context = certified(certificate)
    real = socket.getaddrinfo

    def resolve(host: Any, *given: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == HOST else host, *given, **more)

    with contextlib.ExitStack() as stack:
        servers = {
            "proxy": stack.enter_context(listening(context, proxy=True)),
            "direct": stack.enter_context(listening(context)),
            "plain": stack.enter_context(listening()),
        }
        before = os.environ.get("https_proxy")
        os.environ["https_proxy"] = f"http://127.0.0.1:{servers['proxy'][0]}"
        socket.getaddrinfo = resolve  # type: ignore[assignment]
        try:
            yield World(folder, certificate, servers)
        finally:
            socket.getaddrinfo = real
            os.environ.pop("https_proxy")
            if before is not None:
                os.environ["https_proxy"] = before


def certified(path: Path) -> ssl.SSLContext:
    """A server's context with a certificate of its own for ``HOST``, written to ``path``."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    names = x509.SubjectAlternativeName(
        [x509.DNSName(HOST), x509.IPAddress(ip_address("127.0.0.1"))]
    )
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.public_key(key.public_key()).add_extension(names, critical=False)
    builder = builder.not_valid_before(now - timedelta(days=1))
    builder = builder.not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = builder.add_extension(key_id, critical=False).sign(key, SHA256())
    path.write_bytes(made.public_bytes(Encoding.PEM))
    private = path.with_name("key.pem")
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, private)
    return context
