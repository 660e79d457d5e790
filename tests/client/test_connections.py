"""The connections by themselves: on pools, sockets and answers made up here."""

from __future__ import annotations

import errno
import http.client
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import certifi
import pytest
from urllib3.exceptions import (
    DecodeError,
    LocationValueError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from fundlab.client import connections
from fundlab.client.connections import Http, Wire, failure_of, pool_of
from fundlab.client.http import Answer, Failure, Outgoing

MIB = 1024 * 1024


class Response:
    """An answer in pieces; notes how it was read."""

    def __init__(self, *chunks: Any, length: int | None = None, **headers: str) -> None:
        self.chunks, self.length_remaining = list(chunks), length
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.status, self.reads = 200, list[Any]()

    def read(self, decode_content: bool) -> Any:
        self.reads.append(("whole", decode_content))
        found, self.chunks = b"".join(self.chunks), []
        return found

    def read1(self, size: int, decode_content: bool) -> Any:
        self.reads.append((size, decode_content))
        return self.chunks.pop(0) if self.chunks else b""

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Pool:
    """Answers with these, one after another; notes what was asked for."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked, self.closed = list(answers), list[Any](), False

    def urlopen(self, *given: Any, **named: Any) -> Any:
        self.asked.append((given, named))
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.closed = True


class Long(bytes):
    """A piece that only says how long it is."""

    size: int

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True


def long(size: int) -> Long:
    found = Long()
    found.size = size
    return found


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each pool was made for."""
    made: list[Any] = []

    def make(place: Any, proxy: str | None, bundle: str | None) -> Pool:
        made.append((place.geturl(), proxy, bundle))
        return Pool(Response(b"one"), Response(b"two"))

    monkeypatch.setattr(connections, "pool_of", make)
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return made


def asking(url: str = "https://api.example.com/v2/x?y=1", **given: Any) -> Outgoing:
    return Outgoing("GET", url, {"a": "b"}, **given)


def answered(*chunks: Any, rows: int = 0, **given: Any) -> tuple[Answer | Failure, Response]:
    response, http = Response(*chunks, **given), Http(connect_timeout=1, read_timeout=1)
    http._pools[("https://api.example.com", None)] = Pool(response)  # type: ignore[assignment]
    return http.exchange(asking(rows=rows), 9.0), response


# ------------------------------------------------------------------------ one exchange


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_call_without_time_sends_nothing(timeout: float, pools: list[Any]) -> None:
    found = Http(connect_timeout=1, read_timeout=1).exchange(asking(), timeout)
    assert found == Failure("the call's time was used up", sent=False)
    assert pools == []


@pytest.mark.parametrize(
    ("timeout", "connect", "read"), [(9.0, 3.0, 7.0), (5.0, 3.0, 5.0), (0.5, 0.5, 0.5)]
)
def test_what_is_asked_of_a_pool(
    timeout: float, connect: float, read: float, pools: list[Any]
) -> None:
    http = Http(connect_timeout=3.0, read_timeout=7.0)
    assert http.exchange(asking(body=b"z"), timeout) == Answer(200, {}, b"one")
    ((place, _),) = http._pools
    (pool,) = http._pools.values()
    ((given, named),) = pool.asked  # type: ignore[attr-defined]
    assert place == "https://api.example.com"
    assert given == ("GET", "/v2/x?y=1", b"z", {"a": "b"})
    limits = named.pop("timeout")
    assert (limits.connect_timeout, limits._read) == (connect, read)
    assert named.pop("retries").total is False
    assert named == dict.fromkeys(
        ("redirect", "assert_same_host", "preload_content", "decode_content"), False
    )
    assert connections._call.wire is None


def test_a_pool_is_kept_until_the_process_is_another_one(
    pools: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    http = Http(connect_timeout=1, read_timeout=1, ca_bundle="own.pem")
    assert [http.exchange(asking(), 9).body for _ in range(2)] == [b"one", b"two"]  # type: ignore[union-attr]
    assert len(pools) == 1
    monkeypatch.setattr(os, "getpid", lambda: 1)
    for _ in range(2):
        http.exchange(asking(), 9)
    http.exchange(asking("https://api.example.com:444/v2"), 9)
    assert pools == [("https://api.example.com/v2/x?y=1", None, "own.pem")] * 2 + [
        ("https://api.example.com:444/v2", None, "own.pem")
    ]
    held = [*http._pools.values()]
    http.close()
    assert [one.closed for one in held] == [True, True]  # type: ignore[attr-defined]
    assert http._pools == {}


@pytest.mark.parametrize(
    ("trusts", "url", "proxy"),
    [
        (True, "https://api.example.com/v2", "http://proxy:3128"),
        (True, "http://127.0.0.1/", None),
        (True, "https://own.example.com/v2", None), (None, "https://api.example.com/v2", None),
    ],
)  # fmt: skip
def test_proxies_are_those_of_an_environment_that_is_trusted(
    trusts: bool | None, url: str, proxy: str | None, pools: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By default none is; and none is for this machine."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "own.example.com")
    given = {} if trusts is None else {"trust_env": trusts}
    Http(connect_timeout=1, read_timeout=1, **given).exchange(asking(url), 9)
    assert pools == [(url, proxy, None)]


@pytest.mark.parametrize(
    ("rows", "mib", "says"), [(0, 8, "8 MiB"), (128, 8, "8 MiB"), (160, 10, "10 MiB")]
)
def test_an_answer_is_as_large_as_its_rows_may_be(rows: int, mib: int, says: str) -> None:
    """64 KiB a row; 8 MiB in any case."""
    found, response = answered(bytes(mib * MIB), rows=rows)
    assert isinstance(found, Answer)
    assert len(found.body) == mib * MIB
    assert response.reads == [(MIB, True), (MIB, True)]
    found, _ = answered(long(mib * MIB), long(1), rows=rows)
    assert found == Failure(f"the answer is larger than {says}", sent=True, final=True)


@pytest.mark.parametrize(
    ("length", "headers", "whole"),
    [
        (6, {}, True), (8 * MIB - 1, {}, True), (8 * MIB, {}, False), (None, {}, False),
        (0, {}, False), (6, {"content_encoding": "gzip"}, False),
    ],
)  # fmt: skip
def test_one_that_says_that_it_is_short_enough_is_read_at_once(
    length: int | None, headers: Mapping[str, str], whole: bool
) -> None:
    found, response = answered(b"abc", b"def", length=length, **headers)
    assert found == Answer(200, response.headers, b"abcdef")
    pieces = [(MIB, True)]
    assert response.reads == ([("whole", False), *pieces] if whole else pieces * 3)


def test_what_comes_beyond_what_an_answer_said_counts() -> None:
    response = Response(b"abc", length=8 * MIB - 1)
    response.read1 = lambda size, decode_content: long(2)  # type: ignore[method-assign]
    http = Http(connect_timeout=1, read_timeout=1)
    http._pools[("https://api.example.com", None)] = Pool(response)  # type: ignore[assignment]
    assert isinstance(http.exchange(asking(), 9.0), Failure)


@pytest.mark.parametrize("signs", [b",", b"[", b"{", b",[{"])
def test_how_many_values_it_may_hold(signs: bytes) -> None:
    """One for each 64 bytes of its bound: 131,072."""
    most = 131_072
    body = (signs * most)[:most]
    found, _ = answered(body)
    assert isinstance(found, Answer)
    found, _ = answered(body + b" ")
    assert isinstance(found, Answer)
    found, _ = answered(body + b"[")
    assert found == Failure("the answer holds more than 131,072 values", sent=True, final=True)


# ------------------------------------------------------------------------ what went wrong


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("stage", "error", "problem", "final"),
    [
        ("first byte", DecodeError(), "the answer is not coded as its header says", True),
        ("last byte", caused(ProtocolError("x"), http.client.UnknownProtocol("2")),
         "the answer is not in HTTP/1.1", True),
        ("first byte", TimeoutError(), "the answer took too long", False),
        ("last byte", ReadTimeoutError(None, "/", "x"), "the answer took too long", False),  # type: ignore[arg-type]
        ("last byte", ProtocolError("x", http.client.IncompleteRead(b"")),
         "the connection broke (IncompleteRead)", False),
        ("first byte", REFUSED, "the connection broke (ConnectionRefusedError)", False),
        ("settings", ImportError(), "the proxy is a SOCKS proxy, for which the package PySocks is "
         "missing", True),
        ("settings", LocationValueError(), "the proxy's address is not one of the form "
         "http://host:port or socks5h://", True),
        ("settings", OSError(), "the certificates of ca_bundle cannot be read", True),
        ("settings", DecodeError(), "the certificates of ca_bundle cannot be read", True),
        ("proxy", ProxyError("x", REFUSED),
         "the proxy of http_proxy or https_proxy cannot be used (Connection refused)", True),
        ("proxy", ProxyError("x", TimeoutError()),
         "the proxy of http_proxy or https_proxy cannot be used (no answer)", False),
        ("connection", ImportError(), "no connection (no answer)", False),
        ("connection", LocationValueError(), "no connection (no answer)", False),
        ("connection", caused(ProtocolError("x"), REFUSED), "no connection (Connection refused)",
         False),
        ("connection", TimeoutError(), "no connection (no answer)", False),
        ("tls", SSLError(ssl.SSLCertVerificationError(1, "self-signed")),
         "its certificate could not be verified", True),
        ("tls", SSLError(ssl.SSLError(1, "wrong version")), "no TLS connection: it speaks plain "
         "http, or TLS of no version known here", True),
        ("tls", SSLError(ssl.SSLEOFError(8, "eof")), "no connection (no answer)", False),
    ],
)  # fmt: skip
def test_what_went_wrong_is_told_by_where(
    stage: Any, error: Exception, problem: str, final: bool
) -> None:
    found = failure_of(error, Wire(0.0, stage))
    assert (found.problem, found.final) == (problem, final)
    assert found.sent is Wire(0.0, stage).sent is stage.endswith("byte")
    assert ("http_proxy" in (found.hint or "")) is ("proxy" in problem)


@pytest.mark.parametrize(
    ("tunnel", "final"),
    [("407 Proxy Authentication Required", True), ("502 Bad Gateway", False),
     ("0x04: Host unreachable", False), ("0403 no", True)],
)  # fmt: skip
def test_what_a_proxy_answered_that_gave_no_tunnel(tunnel: str, final: bool) -> None:
    found = failure_of(ProxyError("x", REFUSED), Wire(0.0, "proxy", tunnel))
    assert found.problem == f"the proxy of http_proxy or https_proxy cannot be used ({tunnel})"
    assert found.final is final


def test_an_error_that_is_its_own_cause_is_looked_at_once() -> None:
    error = ProtocolError("x")
    error.args = (error, REFUSED)
    assert (
        failure_of(error, Wire(0.0, "connection")).problem == "no connection (Connection refused)"
    )
    http = Http(connect_timeout=1, read_timeout=1)
    http._pools[("https://api.example.com", None)] = Pool(error)  # type: ignore[assignment]
    assert isinstance(http.exchange(asking(), 9.0), Failure)
    assert connections._call.wire is None


# ------------------------------------------------------------------------ bytes


@contextmanager
def wire(stage: Any = "settings", seconds: float = 30.0) -> Iterator[Wire]:
    connections._call.wire = found = Wire(time.monotonic() + seconds, stage)
    try:
        yield found
    finally:
        connections._call.wire = None


def test_each_read_waits_no_longer_than_is_left() -> None:
    here, there = socket.socketpair()
    with here, there:
        reader = connections._BoundedReader(here, "r")
        reader.timeout, reader.ended, buffer = 0.5, False, bytearray(8)
        for left, limit in ((9.0, 0.5), (0.4, 0.4)):
            there.send(b"abc")
            reader.deadline = time.monotonic() + left
            assert reader.readinto(buffer) == 3
            assert bytes(buffer[:3]) == b"abc"
            assert not reader.ended
            assert 0.9 * limit < (here.gettimeout() or 0) <= limit
        there.send(b"abc")
        reader.deadline = time.monotonic()
        with pytest.raises(TimeoutError, match="the call's time was used up"):
            reader.readinto(buffer)
        reader.deadline = time.monotonic() + 9
        there.close()
        assert (reader.readinto(buffer), reader.ended) == (3, False)
        assert (reader.readinto(buffer), reader.ended) == (0, True)
        reader.close()


def answer_of(content: bytes, stage: Any, limit: float | None = 5.0) -> tuple[Any, Wire]:
    """What ``_Response`` reads of ``content``."""
    here, there = socket.socketpair()
    with here, there:
        here.settimeout(limit)
        there.sendall(content)
        there.close()
        response = connections._Response(here, method="GET")
        with wire(stage) as noted, closing(response):
            try:
                response.begin()
            except http.client.HTTPException as error:
                return error, noted
            return (response.status, response.fp.raw.timeout, response.read()), noted


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


@pytest.mark.parametrize("status", [100, 102, 103, 199])
def test_the_final_answer_is_the_answer(status: int) -> None:
    interim = b"HTTP/1.1 %d Wait\r\nLink: x\r\n\r\n" % status
    found, noted = answer_of(interim * 2 + OK, "first byte")
    assert found == (200, 5.0, b"hi")
    assert (noted.stage, noted.tunnel) == ("last byte", "")


@pytest.mark.parametrize(
    ("stage", "after", "tunnel"),
    [("proxy", "proxy", ""), ("last byte", "last byte", ""), ("first byte", "last byte", "")],
)
def test_how_far_an_attempt_came(stage: str, after: str, tunnel: str) -> None:
    found, noted = answer_of(OK, stage, None)
    assert found == (200, float("inf"), b"hi")
    assert (noted.stage, noted.tunnel) == (after, tunnel)


def test_what_a_proxy_says_is_noted_in_80_characters() -> None:
    said = b"HTTP/1.1 407 " + b"\x1bx" * 100 + b" \r\nContent-Length: 0\r\n\r\n"
    found, noted = answer_of(said, "proxy")
    assert found[0] == 407
    assert noted.tunnel == "407 " + "\N{REPLACEMENT CHARACTER}x" * 38
    _, noted = answer_of(said, "first byte")
    assert noted.tunnel == ""


def test_what_is_no_answer() -> None:
    found, _ = answer_of(b"HTTP/1.1 101 Switching\r\n\r\n", "first byte")
    assert isinstance(found, http.client.UnknownProtocol)
    found, _ = answer_of(b"HTTP/1.1 200 OK\r\nContent-Len", "first byte")
    assert isinstance(found, http.client.IncompleteRead)


class Base:
    """The connection of urllib3 below, which notes what it is told."""

    def __init__(self, closed: bool, proxy: Any = None, socks: Any = None) -> None:
        self.is_closed, self.proxy, self._socks_options = closed, proxy, socks
        self._buffer, self.done = [b"GET / HTTP/1.1", b"A: b"], list[Any]()

    def _new_conn(self) -> Any:
        self.done.append(connections._call.wire.stage)
        return "a socket"

    def _tunnel(self) -> None:
        self.done.append("tunnel")

    def connect(self) -> None:
        self.done.append("connect")
        connections._call.wire.stage = "tls"

    def send(self, content: bytes) -> None:
        self.done.append((content, connections._call.wire.stage))


class Observed(connections._Observed, Base):
    _socks_options: Any = None


@pytest.mark.parametrize(
    ("closed", "body", "done"),
    [
        (True, b"{}", ["connect", (b"GET / HTTP/1.1\r\nA: b\r\n\r\n", "first byte"),
                       (b"{}", "first byte")]),
        (False, None, [(b"GET / HTTP/1.1\r\nA: b\r\n\r\n", "first byte")]),
    ],
)  # fmt: skip
def test_what_leaves_and_when(closed: bool, body: bytes | None, done: list[Any]) -> None:
    one = Observed(closed)
    with wire():
        one._send_output(body, encode_chunked=False)
    assert one.done == done
    assert one._buffer == []
    assert repr(one.done[-1 if body is None else -2][0]) == "b'***'"


@pytest.mark.parametrize(
    ("proxy", "socks", "during", "after"),
    [(None, None, "connection", "tls"), ("http://p", None, "proxy", "proxy"),
     (None, {"a": 1}, "proxy", "tls")],
)  # fmt: skip
def test_where_a_new_connection_stands(proxy: Any, socks: Any, during: str, after: str) -> None:
    one = Observed(True, proxy, socks)
    with wire() as noted:
        assert one._new_conn() == "a socket"
        assert (one.done, noted.stage) == ([during], after)
        one._tunnel()
        assert (one.done[-1], noted.stage) == ("tunnel", "tls")


# ------------------------------------------------------------------------ pools


def test_a_pool_for_one_origin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loaded: list[Any] = []

    class Context:
        def load_verify_locations(self, **given: str) -> None:
            loaded.append(given)

    monkeypatch.setattr(connections, "create_urllib3_context", Context)
    pool = pool_of(urlsplit("https://api.example.com:444"), None, None)
    assert (type(pool).__name__, pool.host, pool.port) == ("_TlsPool", "api.example.com", 444)
    assert pool.pool is not None
    assert pool.pool.maxsize == 32
    assert isinstance(pool.conn_kw["ssl_context"], Context)
    pool_of(urlsplit("https://api.example.com"), None, str(tmp_path))
    pool_of(urlsplit("https://api.example.com"), None, "own.pem")
    plain = pool_of(urlsplit("http://127.0.0.1:8000"), None, "own.pem")
    assert (type(plain).__name__, plain.port) == ("_PlainPool", 8000)
    assert loaded == [
        {"cafile": certifi.where()}, {"capath": str(tmp_path)}, {"cafile": "own.pem"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("proxy", "shown", "login"),
    [
        ("http://p:3128", "http://p:3128", None), ("p:3128", "http://p:3128", None),
        ("https://u:w@p:3128", "https://u:w@p:3128", "Basic dTp3"),
    ],
)  # fmt: skip
def test_a_pool_through_a_proxy(proxy: str, shown: str, login: str | None) -> None:
    pool = pool_of(urlsplit("http://api.example.com"), proxy, None)
    assert pool.proxy is not None
    assert pool.proxy.url == shown
    assert pool.proxy_headers.get("proxy-authorization") == login
    assert (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1) in pool.conn_kw["socket_options"]
    assert type(pool).__name__ == ("_TlsPool" if login else "_PlainPool")


@pytest.mark.parametrize("proxy", ["http://", "socks6://p:1080", "socks://p", "://"])
def test_an_address_that_no_proxy_has(proxy: str) -> None:
    with pytest.raises(LocationValueError):
        pool_of(urlsplit("http://api.example.com"), proxy, None)


def socks_pool(proxy: str, host: str = "http://api.example.com") -> Any:
    pytest.importorskip("socks", reason="a SOCKS proxy needs the package PySocks")
    return pool_of(urlsplit(host), proxy, None)


@pytest.mark.parametrize("scheme", ["socks4", "socks4a", "socks5", "socks5h"])
def test_a_pool_through_a_socks_proxy(scheme: str) -> None:
    pool = socks_pool(f"{scheme}://p:1080")
    options = pool.conn_kw["_socks_options"]
    assert (options["proxy_host"], options["username"], options["password"]) == ("p", None, None)
    options = socks_pool(f"{scheme}://u:w@p:1080").conn_kw["_socks_options"]
    assert (options["username"], options["password"]) == ("u", "w")


def test_a_socks_proxy_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "find_spec", lambda name: None)
    with pytest.raises(ImportError):
        pool_of(urlsplit("http://api.example.com"), "socks5://p:1080", None)


@pytest.mark.parametrize(
    ("told", "tunnel", "cause"),
    [
        (REFUSED, "", "same"),
        (Exception("0x05: " + "x" * 90), "0x05: " + "x" * 74, "same"),
        (SimpleNamespace(errno=None), "", "inner"),
    ],
)
def test_why_a_socks_proxy_gave_no_connection(
    told: Any, tunnel: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of PySocks, or what it wrapped: an error of the system is the reason itself."""
    pool = socks_pool("socks5://p:1080", "https://api.example.com")
    from urllib3.contrib.socks import SOCKSHTTPSConnection

    if cause == "inner":
        outer: Any = Exception("wrapped")
        outer.socket_err, told = REFUSED, outer
        inner: BaseException = REFUSED
    else:
        inner = told
        if not isinstance(told, OSError):
            told.errno = None

    def refuse(self: Any) -> None:
        error = NewConnectionError(self, "no way")
        error.__context__ = told
        raise error

    monkeypatch.setattr(SOCKSHTTPSConnection, "_new_conn", refuse)
    connection = pool.ConnectionCls(host="api.example.com", **pool.conn_kw)
    with wire() as noted, pytest.raises(NewConnectionError) as caught:
        connection._new_conn()
    assert caught.value.__cause__ is inner
    assert (noted.stage, noted.tunnel) == ("proxy", tunnel)
