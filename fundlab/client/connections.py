"""The connections: the only place where bytes leave, bounded in time and size.

They are those of ``urllib3``: there are no cookies, redirects or ``.netrc`` to guard against, and
proxy variables count only with ``trust_env``, read as ``requests`` reads them. The target goes out
exactly as given, because it is signed.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, urlsplit

import certifi
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import (
    DecodeError,
    LocationValueError,
    NewConnectionError,
    ReadTimeoutError,
)
from urllib3.util.ssl_ import create_urllib3_context

from fundlab.base.errors import printable
from fundlab.client.http import Answer, Failure, MaskedBytes, Outgoing
from fundlab.settings.settings import is_loopback

SMALLEST_BOUND: Final = 8 * 1024 * 1024
"""Bytes of an answer that are read in any case, decompressed."""
_BYTES_A_ROW: Final = 64 * 1024
_BYTES_A_VALUE: Final = 64
"""At least, on average, in an answer near its bound: a value takes more in memory than on the wire,
so a page of the shortest would fill it."""
_PROXY_HINT: Final = "check the variables http_proxy, https_proxy and no_proxy, or trust_env"
_SOCKS: Final = ("socks4", "socks4a", "socks5", "socks5h")
_LONGEST_REASON: Final = 80
MAX_CONNECTIONS: Final = 32
_CHUNK: Final = 1024 * 1024


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
        self._ca_bundle, self._trust_env = ca_bundle, trust_env
        self._process = os.getpid()
        self._pools: dict[tuple[str, str | None], urllib3.HTTPConnectionPool] = {}

    def exchange(self, request: Outgoing, timeout: float) -> Answer | Failure:
        """Send ``request`` once; no longer than ``timeout`` seconds, whatever the service does.

        Connecting is the exception: a name with several addresses is tried at each for the connect
        timeout, and the system's resolver takes its own time.
        """
        if timeout <= 0:
            return Failure("the call's time was used up", sent=False)
        if self._process != os.getpid():  # on its parent's connections, a forked process would
            self._pools, self._process = {}, os.getpid()  # read the parent's answers
        place, proxy = urlsplit(request.url), None
        origin = f"{place.scheme}://{place.netloc}"
        if self._trust_env and not is_loopback(place.hostname):
            from requests.utils import get_environ_proxies, select_proxy

            # none for this machine: what goes to it is not encrypted
            proxy = select_proxy(request.url, get_environ_proxies(request.url))
        wire = _call.wire = Wire(time.monotonic() + timeout)
        try:
            pool = self._pools.get((origin, proxy))
            if pool is None:
                made = pool_of(place, proxy, self._ca_bundle)
                pool = self._pools.setdefault((origin, proxy), made)
            with pool.urlopen(
                request.method, request.url[len(origin) :], request.body, request.headers,
                retries=_ONCE, redirect=False, assert_same_host=False,
                timeout=urllib3.Timeout(
                    connect=min(self._connect_timeout, timeout),
                    read=min(self._read_timeout, timeout),
                ),
                preload_content=False, decode_content=False,
            ) as response:  # fmt: skip
                chunks, size, bound = [], 0, max(request.rows * _BYTES_A_ROW, SMALLEST_BOUND)
                length = response.length_remaining  # if it says so
                if length and length < bound and "content-encoding" not in response.headers:
                    chunks, size = [response.read(decode_content=False)], length
                while chunk := response.read1(_CHUNK, decode_content=True):
                    size += len(chunk)
                    if size > bound:
                        problem = f"the answer is larger than {bound / 2**20:.0f} MiB"
                        return Failure(problem, sent=True, final=True)
                    chunks.append(chunk)
                body, most = b"".join(chunks), bound // _BYTES_A_VALUE
                if size > most and sum(map(body.count, (b",", b"[", b"{"))) > most:
                    problem = f"the answer holds more than {most:,} values"
                    return Failure(problem, sent=True, final=True)
                return Answer(response.status, response.headers, body)
        except (OSError, ImportError, urllib3.exceptions.HTTPError) as error:
            return failure_of(error, wire)
        finally:
            _call.wire = None

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools = {}


@dataclass
class Wire:
    """What one attempt did on its connection, noted as it happens: whether bytes of the request
    left is known from here alone.

    ``stage`` is where it stands: ``settings`` of proxy and certificates, the ``proxy`` and its
    tunnel, the ``connection``, its ``tls``; then the request itself, from its ``first byte`` on,
    until its ``last byte`` has left. ``tunnel`` is what a proxy answered that gave none.
    """

    deadline: float
    stage: Literal["settings", "proxy", "connection", "tls", "first byte", "last byte"] = "settings"
    tunnel: str = ""

    @property
    def sent(self) -> bool:
        return self.stage in ("first byte", "last byte")


def failure_of(error: Exception, wire: Wire) -> Failure:
    """What went wrong: where, ``wire`` says; why, ``error`` and what its library wrapped in it."""
    causes: list[BaseException] = [error]  # outermost first; never the errors of a caller
    for cause in causes:
        inner = (*cause.args, getattr(cause, "reason", None), cause.__cause__)
        causes += [one for one in inner if isinstance(one, BaseException) and one not in causes]

    def met(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    system = [
        c for c in causes if isinstance(c, OSError) and c.errno and not isinstance(c, ssl.SSLError)
    ]
    reason = system[0].strerror if system else None
    proxy, no_answer = wire.tunnel or reason, "no answer"
    passing = wire.tunnel.startswith(("5", "0x"))  # a status of HTTP, a reply of SOCKS
    outcomes: tuple[tuple[bool, str, bool, str], ...] = (  # is it so, what, for good, advice
        (wire.sent and met(DecodeError), "the answer is not coded as its header says", True, ""),
        (wire.sent and met(http.client.UnknownProtocol), "the answer is not in HTTP/1.1", True, ""),
        (wire.sent and met(TimeoutError, ReadTimeoutError), "the answer took too long", False, ""),
        (wire.sent, f"the connection broke ({type(causes[-1]).__name__})", False, ""),
        (wire.stage == "settings" and isinstance(error, ImportError),
         "the proxy is a SOCKS proxy, for which the package PySocks is missing", True,
         f"pip install 'requests[socks]', or {_PROXY_HINT}"),
        (wire.stage == "settings" and isinstance(error, LocationValueError),  # ours are checked
         "the proxy's address is not one of the form http://host:port or socks5h://", True,
         _PROXY_HINT),
        (wire.stage == "settings", "the certificates of ca_bundle cannot be read", True, ""),
        (wire.stage == "proxy",
         f"the proxy of http_proxy or https_proxy cannot be used ({proxy or no_answer})",
         not passing if wire.tunnel else reason is not None, _PROXY_HINT),
        (met(ssl.SSLCertVerificationError), "its certificate could not be verified", True, ""),
        (met(ssl.SSLError) and not met(ssl.SSLEOFError),
         "no TLS connection: it speaks plain http, or TLS of no version known here", True, ""),
        (True, f"no connection ({reason or no_answer})", False, ""),
    )  # fmt: skip
    problem, final, hint = next(told[1:] for told in outcomes if told[0])
    return Failure(problem, wire.sent, final, hint)


# ------------------------------------------------------------------- a deadline for every byte
# Socket timeouts bound one read; a service that sends a byte a second would never meet one. So
# each read of an answer, its headers too, waits no longer than what is left of the call.

_call: Final = threading.local()


class _BoundedReader(socket.SocketIO):
    """The reading end of a connection, for one answer."""

    _sock: Any  # of the standard library's
    deadline: float
    timeout: float
    ended: bool

    def readinto(self, buffer: Any) -> int | None:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the call's time was used up")
        self._sock.settimeout(min(self.timeout, left))
        count = super().readinto(buffer)
        self.ended = count == 0
        return count


class _Response(http.client.HTTPResponse):
    def begin(self) -> None:
        super().begin()
        reader: Any = self.fp.raw
        if reader.ended:  # http.client takes headers that stop short for complete
            raise http.client.IncompleteRead(b"")

    def _read_status(self) -> tuple[str, int, str]:
        """The status line of the final answer, the first that is read of any, also of a proxy's:
        http.client takes a 103 for one."""
        reader: Any = self.fp.detach()
        reader.__class__ = _BoundedReader  # a second reader would count the connection twice
        reader.ended = False
        reader.deadline = _call.wire.deadline
        reader.timeout = reader._sock.gettimeout() or float("inf")
        if _call.wire.stage == "first byte":  # an answer is read once all of the request has left
            _call.wire.stage = "last byte"
        self.fp = io.BufferedReader(reader)
        while True:
            version, status, reason = super()._read_status()  # type: ignore[misc]
            if _call.wire.stage == "proxy" and status != http.HTTPStatus.OK:
                _call.wire.tunnel = printable(f"{status} {reason.strip()}"[:_LONGEST_REASON])
            if status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                raise http.client.UnknownProtocol(version)
            if status >= http.HTTPStatus.OK:
                return version, status, reason
            http.client.parse_headers(self.fp)


class _Observed:
    """Notes on the attempt's ``Wire`` how far it came, and keeps the head of a request out of the
    locals of frames that wait for the network."""

    _buffer: list[bytes]
    is_closed: bool
    proxy: Any
    _socks_options: Any = None

    def _new_conn(self) -> socket.socket:
        _call.wire.stage = "proxy" if self.proxy or self._socks_options else "connection"
        sock: socket.socket = super()._new_conn()  # type: ignore[misc]
        if not self.proxy:
            _call.wire.stage = "tls"
        return sock

    def _tunnel(self) -> None:
        super()._tunnel()  # type: ignore[misc]
        _call.wire.stage = "tls"

    def _send_output(self, message_body: Any = None, **_options: Any) -> None:
        head = MaskedBytes(b"\r\n".join((*self._buffer, b"", b"")))
        self._buffer.clear()
        if self.is_closed:  # the bytes of a tunnel and of a handshake are none of the request
            self.connect()  # type: ignore[attr-defined]
        _call.wire.stage = "first byte"
        self.send(head)  # type: ignore[attr-defined]
        if message_body is not None:
            self.send(message_body)  # type: ignore[attr-defined]


class _PlainPool(urllib3.HTTPConnectionPool):
    class ConnectionCls(_Observed, HTTPConnection):
        response_class = _Response


class _TlsPool(urllib3.HTTPSConnectionPool):
    class ConnectionCls(_Observed, HTTPSConnection):
        response_class = _Response


_ONCE: Final = urllib3.Retry(False)


def pool_of(
    place: SplitResult, proxy: str | None, ca_bundle: str | None
) -> urllib3.HTTPConnectionPool:
    """Connections to the origin of ``place``, through ``proxy`` if there is one.

    Raises ``OSError`` for certificates that cannot be read, ``LocationValueError`` for the address
    of a proxy, ``ImportError`` where the package for its kind is missing.
    """
    kept: dict[str, Any] = {"maxsize": MAX_CONNECTIONS}
    tls: type[_TlsPool] = _TlsPool
    if place.scheme == "https":
        context = kept["ssl_context"] = create_urllib3_context()
        bundle = ca_bundle or certifi.where()
        context.load_verify_locations(**{"capath" if Path(bundle).is_dir() else "cafile": bundle})
    if proxy is None:
        manager = urllib3.PoolManager(**kept)
    else:
        from requests.utils import get_auth_from_url

        proxy = proxy if "://" in proxy else f"http://{proxy}"
        scheme = urlsplit(proxy).scheme
        if not urlsplit(proxy).hostname or (scheme.startswith("socks") and scheme not in _SOCKS):
            raise LocationValueError
        user, password = get_auth_from_url(proxy)
        if scheme in _SOCKS:
            if find_spec("socks") is None:  # of which urllib3 only warns
                raise ImportError
            from urllib3.contrib.socks import SOCKSHTTPSConnection, SOCKSProxyManager

            class ThroughSocks(_TlsPool):  # here, as its package is one of the user's own choice
                class ConnectionCls(_Observed, SOCKSHTTPSConnection):
                    response_class = _Response

                    def _new_conn(self) -> socket.socket:
                        try:
                            return super()._new_conn()
                        except NewConnectionError as error:
                            told: Any = error.__context__  # of PySocks, or what it wrapped
                            told = getattr(told, "socket_err", None) or told
                            if not told.errno:
                                _call.wire.tunnel = printable(str(told)[:_LONGEST_REASON])
                            raise error from told

            manager = SOCKSProxyManager(proxy, user or None, password or None, **kept)
            tls = ThroughSocks
        else:
            auth = urllib3.make_headers(proxy_basic_auth=f"{user}:{password}") if user else {}
            manager = urllib3.ProxyManager(
                proxy, proxy_headers=auth, proxy_ssl_context=kept.get("ssl_context"),
                # urllib3 would let a body wait until its head is acknowledged, 40 ms each
                socket_options=HTTPConnection.default_socket_options, **kept,
            )  # fmt: skip
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": tls}
    return manager.connection_from_host(place.hostname, place.port, place.scheme)
