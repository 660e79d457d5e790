"""A funding service that shares nothing with the program: sockets, some transfers, its own log.

It knows each ``ref_id`` once, keeps every byte of every request that reached it, and cuts, answers
and lags as it is told. With a certificate it speaks TLS, over memory buffers, so that what was on
the wire is known beside what could be read of it; as a proxy it takes ``CONNECT`` first, and the
tunnel ends at the same ledger.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from amounts import exactly

HOST: Final = "funding.example"
WITHDRAWALS: Final = "/v2/transfer/fiat-withdrawals"
PROFILE: Final = "7c1f0000-0000-4000-8000-00000000000a"
ACCOUNT: Final = "fa000000-0000-4000-8000-00000000000b"
INJECTED: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
CUTS: Final = ("fin", "rst", "close_notify", "inject")


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request.

    ``request_at`` and ``answer_at`` are shares of its bytes, and of those of its answer, after
    which the connection ends by ``how``. ``effect`` is whether it is carried out (once all of it is
    here), ``late`` that this happens at ``Ledger.deliver`` only. ``status`` is answered in place of
    the ledger's own answer, with ``body``.
    """

    request_at: float | None = None
    answer_at: float | None = None
    how: str = "fin"
    effect: bool = True
    late: bool = False
    status: int | None = None
    body: bytes = b"<html><body>Something stands before the service.</body></html>"
    kind: str = "text/html"


@dataclass
class Request:
    """One request as it was logged; ``wire`` counts its bytes before they were decrypted."""

    head: str = ""
    body: bytes = b""
    wire: int = 0
    made: str | None = None

    @property
    def target(self) -> str:
        return self.head.partition(" ")[2].partition(" ")[0]

    @property
    def is_payment(self) -> bool:
        return self.head.startswith(f"POST {WITHDRAWALS} ")


@dataclass
class Ledger:
    """What the service has, how it behaves, and what it saw; ``url`` is where it is asked."""

    url: str = ""
    log: list[Request] = field(default_factory=list)
    transfers: list[dict[str, Any]] = field(default_factory=list)
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)
    funds: Decimal = Decimal(1_000_000)
    fee: Decimal = Decimal(25)
    faults: list[Fault | None] = field(default_factory=list)  # of the next payments
    read_faults: dict[int, Fault] = field(default_factory=dict)  # by how many reads came before
    lags: bool = False  # lists show nothing newer than what they showed when it began
    funds_first: bool = False  # before it looks whether it knows the ref_id
    hides: frozenset[str] = frozenset()  # members that no list, Get or conflict shows
    existing: str = "all"  # what a conflict shows of the first: "all", "id" or "nothing"
    date_ahead_s: float = 0.0
    tunnels: list[int] = field(default_factory=list)  # statuses that CONNECT gets first
    wire_cut: tuple[int, int, str] | None = None  # after how many requests, bytes of the next, how
    late: list[tuple[Request, dict[str, Any]]] = field(default_factory=list)
    reads: int = 0
    before: Callable[[Request], object] = lambda _: None  # called as a request is here
    lock: threading.RLock = field(default_factory=threading.RLock)
    _shown: int = 0

    def __post_init__(self) -> None:
        self.accounts.setdefault(ACCOUNT, account(ACCOUNT))

    # ------------------------------------------------------------------ what the service does

    def payments(self, ref_id: str | None = None) -> list[dict[str, Any]]:
        """The withdrawals there are, under one ``ref_id`` if given."""
        return [t for t in self.transfers if t["type"].endswith("_WITHDRAWAL")
                and ref_id in (None, t.get("ref_id"))]  # fmt: skip

    @exactly()
    def add(self, **members: Any) -> dict[str, Any]:
        """A transfer that is there, however it came."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        row = {
            "id": str(uuid.uuid4()), "customer_id": "c", "profile_id": PROFILE, "amount": "1.00",
            "fee": "0", "asset": "USD", "direction": "DEBIT", "type": "WIRE_WITHDRAWAL",
            "status": "PENDING", "created_at": now, "updated_at": now,
        } | members  # fmt: skip
        sign = -1 if row["direction"] == "CREDIT" else 1
        row.setdefault("total", str(Decimal(row["amount"]) + sign * Decimal(row["fee"])))
        with self.lock:
            self.transfers.append({name: value for name, value in row.items() if value is not None})
        return self.transfers[-1]

    def lag(self) -> None:
        self.lags, self._shown = True, len(self.transfers)

    def deliver(self) -> None:
        """What was on its way for a while arrives."""
        with self.lock:
            waiting, self.late = self.late, []
            for request, wanted in waiting:
                self.withdraw(request, wanted)

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.deliver()
        self.faults.clear()
        self.read_faults.clear()
        self.lags = self.funds_first = False
        self.hides, self.existing, self.tunnels, self.wire_cut = frozenset(), "all", [], None

    @exactly()
    def withdraw(self, request: Request, wanted: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self.lock:
            ref_id = wanted.get("ref_id")
            known = next((t for t in self.transfers if ref_id and t.get("ref_id") == ref_id), None)
            fee = self.fee
            amount = Decimal(wanted["amount"] if "amount" in wanted else wanted["total"])
            total = amount + fee if "amount" in wanted else amount
            if total > self.funds and (known is None or self.funds_first):
                return problem(
                    403, "Insufficient funds", "https://funding.example/insufficient-funds"
                )
            if known is not None:
                shown = {"all": self.view(known), "id": {"id": known["id"]}, "nothing": None}
                meta = {"existing": shown[self.existing]} if shown[self.existing] else {}
                return problem(409, "Conflict", meta=meta)
            if wanted["fiat_account_id"].casefold() not in self.accounts:
                return problem(404, "Not Found")
            kept = ("ref_id", "profile_id", "asset", "fiat_account_id", "identity_id",
                    "account_id", "memo", "metadata")  # fmt: skip
            made = self.add(
                **{name: wanted[name] for name in kept if name in wanted},
                amount=str(total - fee),
                fee=str(fee),
                total=str(total),
            )
            self.funds -= total
            request.made = made["id"]
            return 200, made

    def view(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in row.items() if name not in self.hides}

    def listed(self, query: list[tuple[str, str]]) -> dict[str, Any]:
        rows = self.transfers[: self._shown] if self.lags else list(self.transfers)
        members = {"ids": "id", "ref_ids": "ref_id", "profile_ids": "profile_id",
                   "type": "type", "statuses": "status", "identity_ids": "identity_id"}  # fmt: skip
        for name in {name for name, _ in query} & members.keys():
            wanted = {value for given, value in query if given == name}
            rows = [row for row in rows if row.get(members[name]) in wanted]
        for name, bound in query:
            member, _, comparison = name.partition(".")
            if comparison:
                rows = [row for row in rows if _holds(row[member], comparison, bound)]
        one = dict(query)
        by = one.get("order_by", "CREATED_AT").lower()
        rows.sort(key=lambda row: row[by], reverse=one.get("order", "DESC") == "DESC")
        begin, limit = int(one.get("page_cursor", "0")), int(one.get("limit", "100"))
        cursor = str(begin + limit) if len(rows) > begin + limit else ""
        page = [self.view(row) for row in rows[begin : begin + limit]]
        return {"items": page, "next_page_cursor": cursor}

    def answer(self, request: Request, fault: Fault | None) -> tuple[int, Any]:
        method, path = request.head.partition(" ")[0], urlsplit(request.target).path
        query = parse_qsl(urlsplit(request.target).query)
        last = unquote(path.rsplit("/", 1)[-1])
        if path.endswith("/oauth2/token"):
            return 200, {"access_token": uuid.uuid4().hex, "expires_in": 3599, "scope": "",
                         "token_type": "bearer"}  # fmt: skip
        if request.is_payment:
            wanted = json.loads(request.body)
            if fault is not None and fault.late:
                self.late.append((request, wanted))
            if fault is None or (fault.effect and not fault.late):
                return self.withdraw(request, wanted)
            return 500, {}
        if "/balances/" in path:
            return 200, {"asset": last, "available": str(self.funds), "trading": "0"}
        if path.startswith("/v2/transfer/fiat-accounts") and method == "GET":
            there = self.accounts.get(last.casefold())
            return (200, there) if there else problem(404, "Not Found")
        if path == "/v2/transfer/transfers":
            return 200, self.listed(query)
        if path.startswith("/v2/transfer/transfers/"):
            found = [t for t in self.transfers if t["id"].casefold() == last.casefold()]
            return (200, self.view(found[0])) if found else problem(404, "Not Found")
        return problem(404, "Not Found")

    # ------------------------------------------------------------------ what is on the wire

    def serve(self, connection: socket.socket, context: ssl.SSLContext | None, proxy: bool) -> None:
        wire = Wire(connection)
        with suppress(OSError, EOFError), connection:
            if proxy:
                wire.read_to(b"\r\n\r\n")
                status = self.tunnels.pop(0) if self.tunnels else 200
                connection.sendall(f"HTTP/1.1 {status} Tunnel\r\n\r\n".encode())
                if status != 200:
                    return
                wire.data = b""
            if context is not None:
                wire.encrypt(context)
            while self.serve_one(wire):
                pass

    def serve_one(self, wire: Wire) -> bool:
        request = Request()
        if self.wire_cut is not None and len(self.log) == self.wire_cut[0]:
            _, count, how = self.wire_cut
            wire.wire = len(wire.connection.recv(count, socket.MSG_WAITALL))
            request.wire = wire.wire
            self.log.append(request)
            return wire.end(how)
        wire.read_to(b"\r\n\r\n")  # the head is sent at once
        head, _, wire.data = wire.data.partition(b"\r\n\r\n")
        request.head = head.decode("latin-1")
        length = next((int(line.split(":")[1]) for line in request.head.split("\r\n")
                       if line.lower().startswith("content-length:")), 0)  # fmt: skip
        with self.lock:
            self.log.append(request)
            fault: Fault | None = None
            if request.is_payment and self.faults:
                fault = self.faults.pop(0)
            elif not request.is_payment:
                fault = self.read_faults.get(self.reads)
                self.reads += 1
        if fault is not None and fault.request_at is not None:
            more = int(fault.request_at * (len(head) + 4 + length)) - len(head) - 4
            if more > 0:
                wire.read_count(min(more, length))
            request.body, request.wire = wire.data, wire.wire
            return wire.end(fault.how)
        wire.read_count(length)
        request.body, wire.data = wire.data[:length], wire.data[length:]
        request.wire, wire.wire = wire.wire, 0
        self.before(request)
        with self.lock:
            status, found = self.answer(request, fault)
        content = json.dumps(found).encode()
        kind = "application/json" if status < 400 else "application/problem+json"
        if fault is not None and fault.status is not None:
            status, content, kind = fault.status, fault.body, fault.kind
        date = formatdate(time.time() + self.date_ahead_s, usegmt=True)
        whole = (
            f"HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nDate: {date}\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        ).encode() + content
        if fault is not None and fault.answer_at is not None:
            wire.send(whole[: int(fault.answer_at * len(whole))])
            return wire.end(fault.how)
        wire.send(whole)
        return True


class Wire:
    """The service's end of a connection: plain, or TLS over memory."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.data, self.wire = connection, b"", 0
        self.tls: ssl.SSLObject | None = None
        connection.settimeout(30)
        # else the system holds an answer back until the other end has acknowledged TLS's tickets
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def encrypt(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self._until(self.tls.do_handshake)
        self.wire = self.incoming.pending  # of the request, whatever the handshake took

    def read_to(self, end: bytes) -> None:
        while end not in self.data:
            self._more()

    def read_count(self, count: int) -> None:
        while len(self.data) < count:
            self._more()

    def send(self, data: bytes) -> None:
        if self.tls is not None and data:
            self.tls.write(data)
            data = self.outgoing.read()
        self.connection.sendall(data)

    def end(self, how: str) -> bool:
        """End the connection by ``how``; what the other end still sends is read away, for else the
        system would end it by RST."""
        if how == "rst":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        if how == "close_notify" and self.tls is not None:
            with suppress(ssl.SSLError):
                self.tls.unwrap()
            self.connection.sendall(self.outgoing.read())
        if how == "inject":
            self.connection.sendall(INJECTED)
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(0.5)
        while self.connection.recv(65536):
            pass
        return False

    def _more(self) -> None:
        tls = self.tls
        self.data += self._receive() if tls is None else self._until(lambda: tls.read(65536))

    def _receive(self) -> bytes:
        received = self.connection.recv(65536)
        if not received:
            raise EOFError
        self.wire += len(received)
        return received

    def _until(self, act: Any) -> Any:
        """What ``act`` gives once TLS has all the bytes that it wants."""
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                self.connection.sendall(self.outgoing.read())
                self.incoming.write(self._receive())
            else:
                self.connection.sendall(self.outgoing.read())
                if done == b"":
                    raise EOFError
                return done


def problem(status: int, title: str, type: str = "about:blank", **more: Any) -> tuple[int, Any]:
    return status, {"type": type, "title": title, "status": status, **more}


def account(id_: str, **members: Any) -> dict[str, Any]:
    address = {"country": "US", "address1": "1 Quay", "city": "Boston", "zip_code": "02110"}
    wire = {
        "account_number": "000123456789", "fiat_account_owner_address": address,
        "routing_details": {"routing_number_type": "ABA", "routing_number": "021000021",
                            "bank_name": "First Harbor Bank", "bank_address": address},
    }  # fmt: skip
    return {
        "id": id_, "status": "APPROVED", "created_at": "2026-01-01T00:00:00Z",
        "fiat_account_owner": {"institution_details": {"name": "Supplier Ltd"}},
        "fiat_network_instructions": {"wire": wire}, **members,
    }  # fmt: skip


def ago(**given: float) -> str:
    return (datetime.now(UTC) - timedelta(**given)).isoformat().replace("+00:00", "Z")


def _holds(shown: str, comparison: str, bound: str) -> bool:
    left, right = (datetime.fromisoformat(text.replace("Z", "+00:00")[:26] + "+00:00")
                   if len(text) > 27 else datetime.fromisoformat(text.replace("Z", "+00:00"))
                   for text in (shown, bound))  # fmt: skip
    return {"lt": left < right, "lte": left <= right, "eq": left == right,
            "gte": left >= right, "gt": left > right}[comparison]  # fmt: skip


@contextmanager
def listening(
    context: ssl.SSLContext | None = None, *, proxy: bool = False
) -> Iterator[tuple[int, list[Ledger]]]:
    """The port of a server, and a list whose only item is the ledger that answers there."""
    current = [Ledger()]
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    given = (connection, context, proxy)
                    threading.Thread(target=current[0].serve, args=given, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield listener.getsockname()[1], current
        finally:
            listener.shutdown(socket.SHUT_RDWR)
