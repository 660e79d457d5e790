"""Secrets stay: every command under every failure, and no canary in what it says, logs or writes.

The canaries: the credential's secret, a wrong one, every token issued, the key's password and the
lines of its private key; plain, quoted for a URL, in base64 and in hexadecimal. Searched: standard
output and error, logs of everything at DEBUG, warnings, the traceback of what was raised with all
locals, its pickle, and every file and file name below a folder that is home, configuration,
temporary folder and store at once.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import pickle
import random
import socket
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives import serialization
from rich.console import Console
from rich.traceback import Traceback

import fundlab as fl
from fundlab import cli
from fundlab.cli.demo import BANK, OWNER
from fundlab.sandbox import Sandbox


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


PASSWORD, WRONG = "canary-of-the-key-8d41", "canary-of-a-wrong-secret-c7"
CRASHES = (
    "fundlab.client.connections.Http.exchange", "fundlab.client.transport.read_grant",
    "fundlab.client.transport.request_signature", "fundlab.client.transport.token_form",
    "fundlab.client.calls.read_answer", "fundlab.sync.table_pages.decode_page",
    "fundlab.store.disk.publish", "fundlab.store.parts.read_footer",
    "fundlab.payments.plan.Journal.record", "fundlab.client.connections.pool_of",
    "urllib3.connectionpool.HTTPConnectionPool.urlopen", "http.client.HTTPConnection.putheader",
    "fundlab.exports.plain.as_text", "fundlab.reports.page.render_html",
    "fundlab.settings.settings.Settings.load", "fundlab.settings.secret.read_private",
)  # fmt: skip


@dataclass
class Scene:
    """A sandbox that requires signatures, and one folder for all that is written."""

    sandbox: Sandbox
    folder: Path
    key: Path
    account: str
    canaries: list[str]
    tokens: list[str] = field(default_factory=list)
    searched: int = 0

    def environment(self) -> dict[str, str]:
        names = ("base_url", "auth_url", "client_id", "client_secret", "signing_key_id")
        given = {f"FUNDLAB_{name.upper()}": str(getattr(self.sandbox, name)) for name in names}
        return given | {
            "FUNDLAB_SIGNING_KEY": str(self.key), "FUNDLAB_SIGNING_KEY_PASSWORD": PASSWORD,
            "FUNDLAB_STORE": str(self.folder / "store"), "FUNDLAB_LOG": "DEBUG",
            "FUNDLAB_JOURNAL": str(self.folder / "journal"),
            "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder), "PYTHONWARNINGS": "",
        }  # fmt: skip

    def leaks(self, where: str, shown: str | bytes) -> list[str]:
        """Where a canary stands, in any spelling."""
        self.searched += 1
        text = shown.encode("utf-8", "replace") if isinstance(shown, str) else shown
        return [
            f"{where}: {canary[:6]}… as {name}"
            for canary in (*self.canaries, *self.tokens)
            for name, spelling in spellings(canary).items()
            if spelling in text
        ]


def spellings(secret: str) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "itself": raw,
        "quoted": quote(secret, safe="").encode(),
        "base64": base64.b64encode(raw).rstrip(b"=")[:-1],
        "hexadecimal": raw.hex().encode(),
    }


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(folder / "journal"))
    with fl.sandbox.serve(seed=3, transfers=60, clock="manual", signing=True) as sandbox:
        assert sandbox.signing_key is not None
        plain = sandbox.signing_key.read_bytes()
        sandbox.signing_key.unlink()  # the sandbox's own copy would be found, as it should
        key, lines = encrypted(plain, folder / "key.pem")
        found = Scene(sandbox, folder, key, "", [sandbox.client_secret, PASSWORD, WRONG, *lines])
        access = sandbox._service.access
        draw = access._random_text

        def recorded(length: int) -> str:
            found.tokens.append(draw(length))
            return found.tokens[-1]

        monkeypatch.setattr(access, "_random_text", recorded)
        with sandbox.connect(signing_key=str(key), signing_key_password=PASSWORD) as client:
            found.account = str(
                client.create_fiat_account(
                    fiat_account_owner=OWNER, fiat_network_instructions=BANK
                ).id
            )
            sandbox.clock.advance(11)
            fl.Store(folder / "store").sync(client)
        yield found


def encrypted(plain: bytes, path: Path) -> tuple[Path, list[str]]:
    """The key under its password, and the lines of the text that nobody is to see."""
    key = serialization.load_pem_private_key(plain, None)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSWORD.encode()),
        )
    )  # fmt: skip
    return path, [line for line in plain.decode().splitlines() if not line.startswith("---")]


def commands(scene: Scene) -> dict[str, list[str]]:
    """Every command but ``sandbox``, which says its secret by contract and is watched below."""
    out, store = str(scene.folder / "out"), str(scene.folder / "store")
    pay = ["withdraw", "--profile", scene.sandbox.profile_ids[0], "--fiat-account", scene.account]
    new_key = str(scene.folder / f"{random.getrandbits(64):x}.pem")
    return {
        "sync": ["sync", "--full"],
        "sync of one table": ["sync", "transfers", "--workers", "3", "--store", f"{store}-2"],
        "sync --json": ["sync", "--json"],
        "verify": ["verify"],
        "verify --json": ["verify", "--json"],
        "export csv": ["export", "transfers", "--format", "csv", "--out", f"{out}.csv"],
        "export json": ["export", "events", "--format", "json", "--out", f"{out}.json"],
        "export xlsx": ["export", "fiat_accounts", "--format", "xlsx", "--out", f"{out}.xlsx"],
        "export parquet": ["export", "balances", "--format", "parquet", "--out", f"{out}.parquet"],
        "compact": ["compact", "--json"],
        "report": ["report", "--out", out, "--format", "html,xlsx,csv"],
        "withdraw --dry-run": [*pay, "--amount", "1.00", "--dry-run"],
        "withdraw": [*pay, "--amount", "2.00", "--yes", "--json"],
        "withdraw too much": [*pay, "--amount", "99999999999.00", "--yes"],
        "withdraw nonsense": [*pay, "--amount", "-1", "--yes"],
        "doctor": ["doctor"],
        "doctor --json": ["doctor", "--json"],
        "keys new": ["keys", "new", "--out", new_key, "--encrypt"],
        "wrong usage": ["sync", "nothing", "--since", "never"],
        "help": ["--help"],
        "demo": ["demo", "--out", f"{out}-demo", "--transfers", "20"],
    }  # fmt: skip


# ---------------------------------------------------------------------------- failures

Failure = Callable[[Scene, pytest.MonkeyPatch], contextlib.AbstractContextManager[dict[str, str]]]


@contextmanager
def nothing(_: Scene, __: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    yield {}


def given(**settings: str) -> Failure:
    @contextmanager
    def failing(_: Scene, __: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
        yield {f"FUNDLAB_{name.upper()}": value for name, value in settings.items()}

    return failing


def mirrored(status: int, *names: str) -> Failure:
    """What was sent comes back from where ``names`` point to."""

    @contextmanager
    def failing(_: Scene, __: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
        with mirroring(status) as url:
            yield {f"FUNDLAB_{name.upper()}": url for name in names}

    return failing


@contextmanager
def nobody_there(_: Scene, __: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    yield {"FUNDLAB_BASE_URL": url, "FUNDLAB_AUTH_URL": url}


def faulty(kind: Any, **options: Any) -> Failure:
    @contextmanager
    def failing(scene: Scene, _: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
        scene.sandbox.faults.add(kind, **options)
        yield {}
        scene.sandbox.faults.clear()

    return failing


def crash_in(name: str) -> Failure:
    """A defect: the function raises what nobody expects, with all there is in its frames."""

    @contextmanager
    def failing(_: Scene, patch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
        def crashing(*arguments: Any, **keywords: Any) -> Any:
            raise RuntimeError("a defect")

        with patch.context() as patched:
            patched.setattr(name, crashing)
            yield {}

    return failing


FAILURES: dict[str, Failure] = {
    "none": nothing,
    "a wrong secret": given(client_secret=WRONG),
    "a secret in the address": given(base_url=f"https://user:{WRONG}@api.example/v2"),
    "a secret as a number": given(read_timeout=WRONG),
    "a wrong password": given(signing_key_password=WRONG),
    "a secret as the key's path": given(signing_key=WRONG),
    "a secret as the secret's file": given(client_secret="", client_secret_file=WRONG),
    "a secret as the certificates' path": given(ca_bundle=WRONG),
    "nobody there": nobody_there,
    "every answer lost": faulty("reset"),
    "answers cut short": faulty("truncate"),
    "tokens that lapse": faulty("lapse_token", probability=0.5),
    **{
        f"a mirror, {status}": mirrored(status, "base_url")
        for status in (200, 400, 401, 403, 409, 500)
    },
    **{
        f"a mirror for tokens, {status}": mirrored(status, "auth_url") for status in (200, 400, 401)
    },
    **{f"a defect in {name}": crash_in(name) for name in CRASHES},
}


# ---------------------------------------------------------------------------- running and looking


def pairs(scene: Scene) -> list[tuple[str, str]]:
    """Each command with each failure; the demo, which has a sandbox of its own, with none."""
    return [
        (command, failure)
        for command in commands(scene)
        for failure in FAILURES
        if command != "demo" or failure == "none"
    ]


@pytest.mark.parametrize("one_in", [50, pytest.param(1, marks=pytest.mark.campaign)])
def test_commands_under_failures(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, seed: int, figure: Any, one_in: int
) -> None:
    every, patch = pairs(scene), monkeypatch
    runs = random.Random(seed).sample(every, len(every) // one_in)
    patch.setattr("fundlab.client.transport.pause_before", lambda *_: 0.0)
    found, ended = [], {"done": 0, "refused": 0, "crashed": 0}
    for command, failure in runs:
        with FAILURES[failure](scene, patch) as changes:
            how, outputs = run(commands(scene)[command], scene.environment() | changes, patch)
        ended[how] += 1
        for where, shown in outputs.items():
            found += scene.leaks(f"{command}, {failure}: {where}", shown)
    found += [leak for path in files(scene) for leak in of_file(scene, path)]
    figure(
        f"secrets stay: {len(runs)} runs of {len({c for c, _ in runs})} commands under "
        f"{len({f for _, f in runs})} failures ({ended['done']} done, {ended['refused']} refused, "
        f"{ended['crashed']} crashed), {len(scene.canaries) + len(scene.tokens)} canaries, "
        f"{scene.searched:,} outputs and files: {len(found)} found"
    )
    assert not found, "\n".join(found[:40])
    assert min(ended.values()) > 0
    assert scene.tokens


def files(scene: Scene) -> list[Path]:
    return [path for path in scene.folder.rglob("*") if path.is_file()]


def of_file(scene: Scene, path: Path) -> list[str]:
    return scene.leaks(str(path), path.read_bytes() + str(path).encode())


def run(
    arguments: list[str], environment: dict[str, str], patch: pytest.MonkeyPatch
) -> tuple[str, dict[str, str | bytes]]:
    """How a command ended, and everything it gave away."""
    out, errors, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler, root = logging.StreamHandler(log), logging.getLogger()
    level = root.level
    crash_report: dict[str, str | bytes] = {}
    how = "done"
    with (
        patch.context() as patched, warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors),
    ):  # fmt: skip
        warnings.simplefilter("always")
        for name, value in environment.items():
            patched.setenv(name, value)
        patched.setattr(sys, "argv", ["fundlab", "-vv", *arguments])
        patched.setattr(cli, "run", reported(cli.run, crash_report))
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            cli.main()
        except SystemExit as ending:
            how = "refused" if ending.code else "done"
        except Exception:  # noqa: BLE001 - a defect of ours, whose traceback is looked at
            how = "crashed"
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
    outputs: dict[str, str | bytes] = {
        "standard output": out.getvalue(), "standard error": errors.getvalue(),
        "log": log.getvalue(), "warnings": "\n".join(map(str, warned)),
    }  # fmt: skip
    return how, outputs | crash_report


def reported(
    run_command: Callable[[list[str]], None], report: dict[str, str | bytes]
) -> Callable[[list[str]], None]:
    """``run_command``, with a report of what it raises, but for the frames of this module."""

    def reporting(arguments: list[str]) -> None:
        try:
            run_command(arguments)
        except Exception as error:
            trace = error.__traceback__
            report.update(shown(error.with_traceback(trace.tb_next if trace is not None else None)))
            raise

    return reporting


def shown(error: BaseException) -> dict[str, str | bytes]:
    """An exception as crash reports show it."""
    console = Console(file=io.StringIO(), width=200)
    console.print(
        Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True)
    )
    trace = traceback.TracebackException.from_exception(error, capture_locals=True)
    return {
        "traceback with locals": "".join(trace.format()),
        "rich traceback": console.file.getvalue(),  # type: ignore[attr-defined]
        "vars of the error": f"{error!r} {vars(error)!r} {getattr(error, '__notes__', [])!r}",
        "pickle of the error": pickled(error),
    }


def pickled(error: BaseException) -> bytes:
    try:
        return pickle.dumps(error)
    except (TypeError, AttributeError, pickle.PicklingError) as refusal:
        return str(refusal).encode()


def test_the_sandbox_says_its_secret_in_its_first_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And keeps it out of the log of requests and of what its control interface shows."""
    with fl.sandbox.serve(db=tmp_path / "s.db", transfers=20, clock="manual") as sandbox:
        secret = sandbox.client_secret
        with sandbox.connect() as client:
            next(client.list_transfers())
        views = [
            sandbox.control.credentials(),
            sandbox.control.requests(),
            sandbox.control.ledger(),
        ]
        assert secret in json.dumps(sandbox.announcement())
        assert secret not in json.dumps(views) + repr(sandbox) + repr(vars(sandbox))
        assert secret.encode() not in sandbox.control.save()
