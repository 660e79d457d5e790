"""Start and stop a sandbox, in the background of a notebook or test."""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import secrets
import shlex
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack
from urllib.parse import urlsplit

import uvicorn

from fundlab.base.errors import SandboxError
from fundlab.base.garbage import no_search
from fundlab.base.values import Instant
from fundlab.client.client import Client, connect
from fundlab.sandbox.app import build_app
from fundlab.sandbox.behaviour import read_behaviour
from fundlab.sandbox.clock import ClockMode
from fundlab.sandbox.control import Control
from fundlab.sandbox.control_http import CONTROL_PREFIX, add_control
from fundlab.sandbox.credentials import Wanted, read_credentials, wanted
from fundlab.sandbox.database import Database
from fundlab.sandbox.faults import Faults
from fundlab.sandbox.replay import Replay, read_recording
from fundlab.sandbox.startup import Options, check_whole, made_with, open_service, scope_names
from fundlab.settings.secret import Secret
from fundlab.settings.settings import ENVIRONMENT_PREFIX, SettingKeywords, is_loopback

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_TRANSFERS: Final = 2_000
DEFAULT_PROFILES: Final = 5
DEFAULT_SEED: Final = 7
DEFAULTS: Final = {
    "seed": DEFAULT_SEED, "transfers": DEFAULT_TRANSFERS, "profiles": DEFAULT_PROFILES,
}  # fmt: skip
ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - given by the user
"""Under which address of this machine one is reached that listens on all."""
MAX_PORT: Final = 65_535
START_TIMEOUT_S: Final = 10.0
STOP_TIMEOUT_S: Final = 2.0
"""For what is being answered when the sandbox stops."""
MAX_HEAD_BYTES: Final = 2 * 1024 * 1024
OF_A_SERVICE: Final = tuple(
    f"{ENVIRONMENT_PREFIX}{name.upper()}"
    for name in ("profile", *SettingKeywords.__annotations__)
    if name.startswith(("profile", "base", "auth", "client", "sign", "sandbox", "ca_"))
)
"""The variables that say which service is meant, and as whom."""


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    db: str | Path | None = None,
    seed: int = DEFAULT_SEED,
    transfers: int = DEFAULT_TRANSFERS,
    profiles: int = DEFAULT_PROFILES,
    signing: bool = False,
    signing_alg: Literal["ES256", "EdDSA"] = "ES256",
    clock: ClockMode = "real",
    empty: bool = False,
    scopes: Sequence[str] | None = None,
    signature_header: str = "Service-Signature",
    signature_prefix: str = "service/",
    client_id: str | None = None,
    client_secret: str | None = None,
    signing_key: str | Path | None = None,
    signing_key_id: str | None = None,
    credentials: str | Path | None = None,
    allow_remote: bool = False,
    control_key: str | None = None,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    tls_self_signed: bool = False,
    behaviour: str | Path | Mapping[str, Any] | None = None,
    load: str | Path | None = None,
    replay: str | Path | None = None,
    replay_ignoring: Sequence[str] = (),
) -> Sandbox:
    """Serve the whole interface from a background thread; use it as a context manager.

    ``host`` is a loopback address or ``localhost``, or any with ``allow_remote``. ``port`` 0 picks
    a free one. ``db`` is a file that a later start picks up (its history, seed and credentials
    stay; it holds their secrets in clear, mode 0600); without it everything lives in memory.
    ``transfers`` and ``profiles`` size the seeded history, the same for the same ``seed``;
    ``empty`` leaves it out. A million transfers take about a minute and 2.3 GB: give millions a
    ``db``. ``signing`` makes the credential require signatures and issues a key of
    ``signing_alg``. ``clock`` is ``real``, ``fast`` or ``manual``. ``scopes`` are those of the
    credential. Raises ``SandboxError`` naming the argument at fault.

    ``client_id``, ``client_secret`` and ``signing_key`` (a PEM file, registered under
    ``signing_key_id``; requests must then be signed) fix the credential, which is the sandbox's
    own otherwise; ``credentials`` is a TOML file of several, see `fundlab.sandbox.credentials`.

    ``behaviour`` is a TOML file, or a mapping, of delays, fees, failures and limits, see
    `fundlab.sandbox.behaviour`.

    ``load`` is a saved state to begin with (``sandbox.control.save()``). With ``replay``, a
    recording (`fundlab.sandbox.replay`), it answers what was recorded, and nothing else: to the
    same method, path, query and body, but for members of a body in ``replay_ignoring``.

    With ``allow_remote`` other machines reach it, and the control interface takes only requests
    whose header ``Sandbox-Control-Key`` holds ``control_key``, by default a fresh one. It serves
    HTTPS with ``tls_cert`` and ``tls_key`` (PEM files), or with a certificate of its own
    (``tls_self_signed``), which is written to ``tls_cert`` where that is given, for clients to
    trust (``ca_bundle``): for this machine by each of its names, and for ``host``.

    It stops with the block or with Python. A signal that ends the process at once (SIGKILL, and
    SIGTERM unless the script handles it) leaves the key in the folder for temporary files, mode
    0600.

    >>> with fl.sandbox.serve(seed=7, transfers=50, clock="manual") as sandbox:
    ...     found = fl.load_transfers(sandbox.connect())
    ...     later = sandbox.clock.advance(86_400)
    >>> len(found), str(later)[:10]
    (50, '2026-11-02')
    """
    chosen = {
        "client_id": client_id, "client_secret": client_secret,
        "signing_key": signing_key, "signing_key_id": signing_key_id,
    }  # fmt: skip
    given = {name: value for name, value in chosen.items() if value is not None}
    if credentials is not None and given:
        raise SandboxError(f"give either credentials or {', '.join(given)}: the file names them")
    made: tuple[Wanted, ...] = ()
    if credentials is not None:
        made = read_credentials(Path(credentials))
    elif given:
        made = (wanted("", **{"client_id": "sandbox", "scopes": scope_names(scopes), **given}),)
    options = Options(
        db=Path(db) if db is not None else None, seed=seed, transfers=0 if empty else transfers,
        profiles=profiles, signing=signing, signing_alg=signing_alg, clock=clock, empty=empty,
        scopes=scope_names(scopes), signature_header=signature_header,
        signature_prefix=signature_prefix, credentials=made, allow_remote=allow_remote,
        replay=None if replay is None else Replay(read_recording(Path(replay)), replay_ignoring),
        behaviour=read_behaviour(behaviour) if behaviour is not None else None,
        control_key=control_key or (secrets.token_urlsafe(32) if allow_remote else None),
    )  # fmt: skip
    options.check()
    if tls_self_signed and tls_key is not None:
        raise SandboxError("give either tls_self_signed or tls_key: the key is made or given")
    if not tls_self_signed and (tls_cert is None) != (tls_key is None):
        raise SandboxError("tls_cert and tls_key go together, or give tls_self_signed")
    tls = Tls(
        Path(tls_cert) if tls_cert is not None else None,
        Path(tls_key) if tls_key is not None else None, tls_self_signed,
    )  # fmt: skip
    sandbox = Sandbox(options, host, port, tls)
    try:
        state = Path(load).read_bytes() if load is not None else None
    except OSError as error:
        raise SandboxError(f"the state {load} cannot be read: {error.strerror}") from None
    try:
        sandbox._start()
        if state is not None:
            sandbox.control.load(state)
    except BaseException:
        sandbox.stop()
        raise
    return sandbox


@dataclass(frozen=True)
class Tls:
    """The PEM files by which HTTPS is served, given or to be made."""

    certificate: Path | None
    key: Path | None
    self_signed: bool


class Sandbox:
    """A running sandbox. ``repr`` and ``vars`` do not show the secret.

    >>> number = sandbox.faults.add("reset", "list_transfers", count=1)
    >>> len(fl.load_transfers(client))
    50
    >>> sandbox.requests()["faults"].tolist()[-2:]
    ['reset', '']
    """

    base_url: str
    auth_url: str
    control_url: str
    client_id: str

    def __init__(self, options: Options, host: str, port: int, tls: Tls) -> None:
        self._options, self._host, self._port, self._tls = options, host, port, tls
        self.control_key = Secret(options.control_key) if options.control_key else None
        self.ca_bundle: Path | None = None
        self._closing, self._process = ExitStack(), os.getpid()
        self._stopped = False
        self._folder: Path | None = None

    def _start(self) -> None:
        options, closing = self._options, self._closing
        atexit.register(self.stop)  # a notebook may be closed with a sandbox still running
        closing.callback(atexit.unregister, self.stop)
        listener = _listen(self._host, self._port, allow_remote=options.allow_remote)
        closing.callback(listener.close)
        database = Database(options.db)
        closing.callback(database.close)
        service = self._service = open_service(database, options)
        self.client_id = database.get_meta("client_id") or ""
        self.control = Control(service, options)
        self.clock = Clock(self.control)
        self.faults: Faults = service.faults

        def note_time() -> None:
            """So that a later start goes on from there."""
            with database.transaction():
                service.world.keep_time()

        closing.callback(note_time)

        self.signing_key: Path | None = None
        self.signing_key_id: str | None = None
        first = options.credentials[0] if options.credentials else None
        own = first.signing_key if first is not None else None
        if first is not None and own is not None and b"PRIVATE KEY" in own.read_bytes():
            self.signing_key, self.signing_key_id = own.resolve(), first.key_id
        key = None if own is not None else database.one(
            "SELECT kid, private_key FROM signing_keys WHERE client_id = ? "
            "AND private_key IS NOT NULL ORDER BY alg = ? DESC",
            self.client_id, options.signing_alg,
        )  # fmt: skip
        if key is not None:
            self.signing_key, self.signing_key_id = self._kept("signing-key.pem", key[1]), key[0]

        with no_search(stays=True):
            app = build_app(service)
            add_control(app, self.control)
        certificate, private = self._tls.certificate, self._tls.key
        if self._tls.self_signed:
            from fundlab.sandbox.certificate import self_signed  # X.509, which takes a while

            made, secret = self_signed([self._host])
            private = self._kept("tls-key.pem", secret)
            if certificate is None:
                certificate = self._kept("tls-certificate.pem", made)
            else:
                certificate.write_bytes(made)
            self.ca_bundle = certificate.resolve()
        config = uvicorn.Config(
            app, http="h11", ws="none", lifespan="off",
            loop="asyncio", access_log=False, log_config=None, log_level=logging.CRITICAL,
            server_header=False, proxy_headers=False, timeout_keep_alive=60,
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
            ssl_certfile=certificate, ssl_keyfile=private,
        )  # fmt: skip
        try:
            config.load()
        except (OSError, ValueError) as error:
            problem = f"cannot be used: {error}"
            if isinstance(error, ssl.SSLError):
                problem = (
                    "must be a certificate and its key without password, in PEM; or give "
                    "tls_self_signed"
                )
            raise SandboxError(f"tls_cert {certificate} and tls_key {private} {problem}") from None
        server = _Server(config)
        app.state.connections = server.server_state.connections
        thread = threading.Thread(
            target=server.run, args=([listener],), name="fundlab-sandbox", daemon=True
        )
        thread.start()

        def finish() -> None:
            server.end()
            try:
                thread.join()
            finally:
                thread.join()  # also when the first wait is interrupted
                app.router.routes.clear()  # FastAPI's caches keep the application
                del app.state.service

        closing.callback(finish)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise SandboxError("the sandbox's HTTP server did not start")
            time.sleep(0.002)
        reached = ANY_ADDRESS.get(self._host, self._host)
        shown = f"[{reached}]" if ":" in reached else reached
        scheme = "https" if certificate else "http"
        self.base_url = self.auth_url = f"{scheme}://{shown}:{listener.getsockname()[1]}"
        self.control_url = self.base_url + CONTROL_PREFIX

    def _kept(self, name: str, content: bytes) -> Path:
        """A file that is there for its owner while the sandbox runs."""
        if self._folder is None:
            # a TemporaryDirectory would also go when a forked process ends
            self._folder = Path(tempfile.mkdtemp(prefix="fundlab-"))
            self._closing.callback(shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        return path

    # ------------------------------------------------------------------ what a user needs

    @property
    def client_secret(self) -> str:
        credential = self._service.access.credential(self.client_id)
        return credential.client_secret if credential else ""

    @property
    def profile_ids(self) -> list[str]:
        database = self._service.database
        with database.lock:  # loading a state changes the customer
            rows = database.all(
                "SELECT id FROM profiles WHERE customer_id = ? ORDER BY seq",
                self._service.world.customer_id,
            )
        return [row[0] for row in rows]

    def connect(self, **overrides: Unpack[SettingKeywords]) -> Client:
        """A ready client of this sandbox; ``overrides`` go to ``fundlab.connect``.

        >>> with sandbox.connect() as other:
        ...     len(list(other.list_transfers()))
        50
        """
        return connect(**{**self._settings(), **overrides})

    def requests(self) -> pd.DataFrame:
        """The log of requests: ``at``, ``method``, ``path``, ``operation``, ``status``,
        ``problem``, ``faults``, ``milliseconds``.

        >>> balance = client.get_profile_balance(sandbox.profile_ids[0], "USD")
        >>> sandbox.requests()["operation"].iloc[-1]
        'get_profile_balance'
        """
        return self._service.log.frame()

    def checkpoint(self, name: str = "start") -> None:
        """Remember everything as it is now, for ``restore``."""
        self.control.checkpoint(name)

    def restore(self, name: str = "start") -> None:
        """Put everything back as it was at the checkpoint: in milliseconds for a small history.

        >>> sandbox.checkpoint()
        >>> later = sandbox.clock.advance(3_600)
        >>> sandbox.restore()
        >>> sandbox.clock.now() < later
        True
        """
        self.control.restore(name)

    def _settings(self) -> dict[str, Any]:
        """The keywords by which ``fundlab.connect`` reaches this sandbox and no other service."""
        made = {
            "base_url": self.base_url, "auth_url": self.auth_url, "client_id": self.client_id,
            "client_secret": self.client_secret,
            "signature_header": self._options.signature_header,
            "signature_prefix": self._options.signature_prefix,
        }  # fmt: skip
        if self.signing_key is not None and self.signing_key_id is not None:
            made |= {"signing_key": str(self.signing_key), "signing_key_id": self.signing_key_id}
        if self.ca_bundle is not None:
            made["ca_bundle"] = str(self.ca_bundle)
        if not is_loopback(urlsplit(self.base_url).hostname):
            made["sandbox"] = "true"
        return made

    def announcement(self) -> dict[str, Any]:
        """The JSON object of the contract, secret included."""
        left_out = ("signature_header", "signature_prefix", "sandbox")
        shown = {name: value for name, value in self._settings().items() if name not in left_out}
        shown |= {"control_url": self.control_url, "profile_ids": self.profile_ids}
        if self.control_key is not None:
            shown["control_key"] = self.control_key.reveal()
        return shown

    def environment(self) -> dict[str, str]:
        """The variables by which ``fundlab.connect()`` of another process finds this sandbox, with
        ``FUNDLAB_SANDBOX_CONTROL_URL`` and ``FUNDLAB_SANDBOX_PROFILE_IDS`` (parted by spaces).

        >>> sandbox.environment()["FUNDLAB_BASE_URL"] == sandbox.base_url
        True
        """
        made = self._settings() | {
            "sandbox_control_url": self.control_url,
            "sandbox_profile_ids": " ".join(self.profile_ids),
        }
        if self.control_key is not None:
            made["sandbox_control_key"] = self.control_key.reveal()
        return {f"{ENVIRONMENT_PREFIX}{name.upper()}": value for name, value in made.items()}

    def exports(self) -> str:
        """``environment`` as lines for a POSIX shell; what else names a service is unset there.

        >>> [line for line in sandbox.exports().splitlines() if "CLIENT_ID" in line]
        ['export FUNDLAB_CLIENT_ID=sandbox-...']
        """
        made = self.environment()
        others = [name for name in OF_A_SERVICE if name not in made]
        lines = [f"export {name}={shlex.quote(value)}" for name, value in made.items()]
        return "\n".join([f"unset {' '.join(others)}", *lines])

    def kept(self) -> str:
        """What ``db`` keeps from its first start although this one asks for something else."""
        asked, defaults = self._options, DEFAULTS
        first = made_with(self._service.database, asked)
        return "".join(
            f"{asked.db} keeps {name} {getattr(first, name)}; "
            f"{name} {getattr(asked, name)} is for a new file\n"
            for name, default in defaults.items()
            if getattr(asked, name) not in (default, getattr(first, name))
        )

    def stop(self) -> None:
        """Stop serving and leave no thread, port or file behind. Safe to call twice.

        In a process forked from the one that serves, it only forgets the sandbox.
        """
        self._stopped = True
        if self._process == os.getpid():
            self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else getattr(self, "base_url", "starting")
        return f"<Sandbox {state}, client_secret=***>"

    def _repr_html_(self) -> str:
        from fundlab.display import Card, Row, service_band  # which loads pandas

        if self._stopped:
            return Card(
                "Sandbox", notes=("stopped; fl.sandbox.serve() starts another",)
            )._repr_html_()
        profiles = self.profile_ids
        rows = (
            Row("business time", f"{self.clock.now():%Y-%m-%d %H:%M:%S} UTC"),
            Row("credential", self.client_id),
            Row("profiles", f"{len(profiles)}", detail=", ".join(profiles[:1]) + " …"),
        )
        follows = "sandbox.connect() · sandbox.clock.advance(3600) · sandbox.faults.add(…)"
        band = service_band(self.base_url, real_money=False)
        return Card("Sandbox", rows, notes=(f"{follows} · sandbox.stop()",), **band)._repr_html_()


class _Server(uvicorn.Server):
    """uvicorn's server, which ends when it is told, where uvicorn looks ten times a second; and
    leaves no connection half closed: the end of one over TLS takes as long as the other side likes.
    """

    _loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """From whatever thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        self._told, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not await self.on_tick(0):  # sets the time of answers
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 1)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - the servers have them
        for listening in self.servers:
            listening.close()
        state, deadline = self.server_state, time.monotonic() + STOP_TIMEOUT_S
        for connection in list(state.connections):
            connection.shutdown()
        while (state.connections or state.tasks) and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        for task in state.tasks:
            task.cancel()
        for connection in list(state.connections):
            connection.transport.abort()
        for _ in range(3):  # the turns of the loop in which their sockets are closed
            await asyncio.sleep(0)


class Clock:
    """The sandbox's clocks, as a notebook or test moves them."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def now(self) -> Instant:
        """Business time."""
        return Instant.parse(self._control.clock()["now"])

    def advance(self, seconds: float) -> Instant:
        """Move business time forward and settle what comes due; returns the new time."""
        return Instant.parse(self._control.advance(seconds)["now"])

    def shift_access(self, seconds: float) -> None:
        """Let tokens and signatures see real time plus ``seconds``; 0 undoes it."""
        self._control.shift_access(seconds)


def _listen(host: str, port: int, *, allow_remote: bool) -> socket.socket:
    check_whole("port", port, 0, MAX_PORT)
    if not (allow_remote or is_loopback(str(host))):
        raise SandboxError(
            f"host {host!r} is not loopback: the sandbox serves this machine only, on 127.0.0.0/8, "
            "::1 or localhost, unless allow_remote (--allow-remote) lets others in"
        )
    with ExitStack() as unless_bound:
        try:
            addresses = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
            family, kind, protocol, _, address = addresses[0]
            if not (allow_remote or is_loopback(str(address[0]))):
                raise SandboxError(f"host {host!r} is {address[0]} here, which is not loopback")
            # asyncio turns Nagle's delay off only on sockets that name their protocol
            listener = socket.socket(family, kind, protocol)
            unless_bound.callback(listener.close)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(512)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no host name"
            if getattr(error, "errno", None) == errno.EADDRINUSE:
                reason += "; port 0 picks a free one"
            raise SandboxError(f"cannot listen on host {host!r}, port {port}: {reason}") from None
        unless_bound.pop_all()
    return listener
