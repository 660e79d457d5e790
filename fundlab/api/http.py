"""One HTTP exchange: the only place where bytes leave, bounded in time and size.

The connection pool, TLS and timeouts are those of ``requests``' adapter; its session is left out,
so there are no cookies, redirects or ``.netrc`` to guard against, and proxy variables count only
with ``trust_env``. The target goes out exactly as given, because it is signed.
"""

from __future__ import annotations

import http.client
import io
import os
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_environ_proxies
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, DecodeError, NewConnectionError

from fundlab.setting_values import is_loopback

SMALLEST_BOUND: Final = 8 * 1024 * 1024
"""Bytes of an answer that are read in any case, decompressed."""
_BYTES_A_ROW: Final = 64 * 1024
_BYTES_A_VALUE: Final = 64
"""At least, on average, in an answer near its bound: a value takes more in memory than on the wire,
so a page of the shortest would fill it."""
_PROXY_HINT: Final = "check the variables http_proxy, https_proxy and no_proxy, or trust_env"
_TUNNEL: Final = re.compile(r"Tunnel connection failed: ([0-9]{3}[ A-Za-z]{0,40})")
MAX_CONNECTIONS: Final = 32
_CHUNK: Final = 1024 * 1024
_NO_TLS: Final = {
    "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_VERSION_NUMBER",
}  # fmt: skip
"""What OpenSSL says before a request can be sent."""


class MaskedText(str):
    """A header value that tracebacks and logs show as ``'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class MaskedBytes(bytes):
    """A body that tracebacks and logs show as ``b'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "b'***'"


@dataclass(frozen=True)
class Outgoing:
    """A request ready to go: ``url`` ends in the encoded path and query."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    bound: int = SMALLEST_BOUND
    """How many bytes of the answer are read."""


@dataclass(frozen=True)
class Answer:
    """What came back, decoded from its transfer and content coding; header names in any case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """No usable answer. ``sent``: the request may have reached the service."""

    problem: str
    sent: bool
    timed_out: bool = False
    final: bool = False
    """Trying again would not help (certificate, proxy, size, coding)."""
    hint: str = ""
    """What to check, where it is not the address."""


def bound_of(rows: int) -> int:
    """How many bytes an answer of so many rows may have."""
    return max(rows * _BYTES_A_ROW, SMALLEST_BOUND)


class Http:
    """A pool of connections. Thread-safe."""

    def __init__(
        self,
        *,
        connect_timeout: float,
        read_timeout: float,
        ca_bundle: str | None = None,
        trust_env: bool = False,
    ) -> None:
        self._connect_timeout, self._read_timeout = connect_timeout, read_timeout
        self._verify: bool | str = ca_bundle or True
        self._trust_env = trust_env
        self._adapter, self._process = _Adapter(pool_maxsize=MAX_CONNECTIONS), os.getpid()

    def exchange(self, request: Outgoing, timeout: float) -> Answer | Failure:
        """Send ``request`` once; no longer than ``timeout`` seconds, whatever the service does.

        Connecting is the exception: a name with several addresses is tried at each for the connect
        timeout, and the system's resolver takes its own time.
        """
        if timeout <= 0:
            return Failure("the call's time was used up", sent=False, timed_out=True)
        _call.deadline = time.monotonic() + timeout
        try:
            with self._connections().send(
                _prepared(request),
                stream=True,
                timeout=(min(self._connect_timeout, timeout), min(self._read_timeout, timeout)),
                verify=self._verify,
                proxies=self._proxies(request.url),
            ) as response:
                body = _read_bounded(response, request.bound)
                if isinstance(body, str):
                    return Failure(body, sent=True, final=True)
                return Answer(response.status_code, response.headers, body)
        except (OSError, urllib3.exceptions.HTTPError) as error:  # requests' own are OSErrors
            return _failure(error)
        finally:
            _call.deadline = None

    def close(self) -> None:
        self._adapter.close()

    def _proxies(self, url: str) -> dict[str, str]:
        """None for this machine: what goes to it is not encrypted."""
        obeyed = self._trust_env and not is_loopback(url)
        return get_environ_proxies(url) if obeyed else {}

    def _connections(self) -> HTTPAdapter:
        """Those of this process: on its parent's, a forked one would read the parent's answers."""
        if self._process != os.getpid():
            self._adapter, self._process = _Adapter(pool_maxsize=MAX_CONNECTIONS), os.getpid()
        return self._adapter


def _prepared(request: Outgoing) -> requests.PreparedRequest:
    prepared = requests.PreparedRequest()  # filled by hand: prepare() would quote the URL anew
    prepared.method, prepared.url = request.method, request.url
    prepared.headers = CaseInsensitiveDict(request.headers)
    prepared.body = request.body
    if request.body is not None:
        prepared.headers["Content-Length"] = str(len(request.body))
    return prepared


def _read_bounded(response: requests.Response, bound: int) -> bytes | str:
    """The body, or what is wrong with its size."""
    chunks, size = [], 0
    while chunk := response.raw.read1(_CHUNK, decode_content=True):
        size += len(chunk)
        if size > bound:
            return f"the answer is larger than {bound / 2**20:.0f} MiB"
        chunks.append(chunk)
    body, most = b"".join(chunks), bound // _BYTES_A_VALUE
    if size > most and sum(map(body.count, (b",", b"[", b"{"))) > most:
        return f"the answer holds more than {most:,} values"
    return body


def _failure(error: Exception) -> Failure:
    causes = _causes(error)
    kinds = {type(cause).__name__ for cause in causes}
    if "SSLCertVerificationError" in kinds or "CertificateError" in kinds:
        return Failure("its certificate could not be verified", sent=False, final=True)
    if any(isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS for cause in causes):
        return Failure(
            "no TLS connection: it speaks plain http, or TLS of no version known here",
            sent=False,
            final=True,
        )
    if "CA certificate bundle" in str(error):
        return Failure("the certificates of ca_bundle cannot be read", sent=False, final=True)
    if isinstance(error, requests.exceptions.InvalidSchema):  # our own addresses are checked
        return Failure(
            "the proxy is a SOCKS proxy, for which the package PySocks is missing",
            sent=False, final=True, hint=f"pip install 'requests[socks]', or {_PROXY_HINT}",
        )  # fmt: skip
    if isinstance(error, requests.exceptions.InvalidURL):
        problem = "the proxy's address is not one of the form http://host:port"
        return Failure(problem, sent=False, final=True, hint=_PROXY_HINT)
    if "ProxyError" in kinds:
        return _proxy_failure(causes)
    if any(isinstance(cause, ConnectTimeoutError | NewConnectionError) for cause in causes):
        timed_out = not kinds & {"NewConnectionError", "NameResolutionError"}
        refused = next((c for c in causes if isinstance(c, OSError) and c.errno), None)
        reason = (refused.strerror if refused else None) or "no answer"
        return Failure(f"no connection ({reason})", sent=False, timed_out=timed_out)
    if "UnknownProtocol" in kinds:
        return Failure("the answer is not in HTTP/1.1", sent=True, final=True)
    if any(isinstance(cause, DecodeError) for cause in causes):
        return Failure("the answer is not coded as its header says", sent=True, final=True)
    if any(isinstance(cause, TimeoutError) for cause in causes) or "ReadTimeoutError" in kinds:
        return Failure("the answer took too long", sent=True, timed_out=True)
    return Failure(f"the connection broke ({type(causes[-1]).__name__})", sent=True)


def _proxy_failure(causes: list[BaseException]) -> Failure:
    """What is wrong with the proxy; only what it may overcome is tried again."""
    said = next(filter(None, (_TUNNEL.search(str(cause)) for cause in causes)), None)
    system = next((c for c in causes if isinstance(c, OSError) and c.errno and c.strerror), None)
    reason = said[1] if said else system.strerror if system else "no answer"
    passing = said[1].startswith("5") if said else system is None
    return Failure(
        f"the proxy of http_proxy or https_proxy cannot be used ({reason})",
        sent=False, final=not passing, hint=_PROXY_HINT,
    )  # fmt: skip


def _causes(error: BaseException) -> list[BaseException]:
    """``error`` and what is wrapped in it, outermost first."""
    found: list[BaseException] = []
    queue: list[Any] = [error]
    while queue:
        item = queue.pop(0)
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            reason = getattr(item, "reason", None)
            queue += [*item.args, reason, item.__cause__, item.__context__]
    return found


# ------------------------------------------------------------------- a deadline for every byte
# Socket timeouts bound one read; a service that sends a byte a second would never meet one. So
# each read of an answer, its headers too, waits no longer than what is left of the call.

_call: Final = threading.local()


class _DeadlineReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: Any, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline
        self._timeout: float = sock.gettimeout() or float("inf")
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the call's time was used up")
        self._sock.settimeout(min(self._timeout, left))
        count: int | None = self._raw.readinto(buffer)
        self.ended = count == 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        deadline = getattr(_call, "deadline", None) or float("inf")
        self._reader = _DeadlineReader(self.fp.detach(), sock, deadline)
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        super().begin()
        if self._reader.ended:  # http.client takes headers that stop short for complete
            raise http.client.IncompleteRead(b"")

    def _read_status(self) -> tuple[str, int, str]:
        """The status line of the final answer: http.client takes a 103 for one."""
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                raise http.client.UnknownProtocol(version)
            if status >= http.HTTPStatus.OK:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Discreet(http.client.HTTPConnection):
    """Keeps the head of a request out of the locals of frames that wait for the network."""

    _buffer: list[bytes]

    def _send_output(self, message_body: Any = None, **_options: Any) -> None:
        head = MaskedBytes(b"\r\n".join((*self._buffer, b"", b"")))
        self._buffer.clear()
        self.send(head)
        if message_body is not None:
            self.send(message_body)


class _PlainConnection(_Discreet, HTTPConnection):
    response_class = _Response


class _TlsConnection(_Discreet, HTTPSConnection):
    response_class = _Response


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_POOLS: Final = {"http": _PlainPool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager
