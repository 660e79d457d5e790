"""One request, from the bytes that arrived to the bytes that go back, without any HTTP library.

The order of refusals is 401 (token, then signature), 403 for a scope, then 404 and 400.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fundlab.models import Operation
from fundlab.sandbox.access import Access, SignedParts
from fundlab.sandbox.database import Database
from fundlab.sandbox.due import settle
from fundlab.sandbox.faults import Faults
from fundlab.sandbox.log import RequestLog
from fundlab.sandbox.operations import HANDLERS, Call
from fundlab.sandbox.problems import invalid
from fundlab.sandbox.reading import read_body, read_query
from fundlab.sandbox.world import World

Connections = dict[tuple[str, int], asyncio.Transport]
"""Open connections by the client's address."""


@dataclass(frozen=True)
class Arrived:
    """A request for one operation, exactly as it came over the wire."""

    signed: SignedParts
    path: Mapping[str, str]
    query_string: bytes
    authorization: Sequence[bytes]
    signatures: Sequence[bytes]
    content_types: Sequence[str]


@dataclass(frozen=True)
class Service:
    """A sandbox without its HTTP server."""

    database: Database
    world: World
    access: Access
    signature_header: str = "service-signature"
    faults: Faults = field(default_factory=Faults)
    log: RequestLog = field(default_factory=RequestLog)
    connections: Connections = field(default_factory=dict)

    def answer(self, operation: Operation, arrived: Arrived, *, late_s: float = 0) -> bytes:
        """The JSON of a 200. Raises ``Refusal`` for everything else.

        A writing operation is one transaction: it happens as a whole or not at all.
        """
        with self.database.lock:
            settle(self.world)
            caller = self.access.identify(arrived.authorization)
            self.access.check_signature(caller, arrived.signatures, arrived.signed)
            self.access.check_scope(caller, operation.scope)
            body = query = None
            if operation.query is not None:
                query = read_query(operation.query, arrived.query_string)
            if operation.body is not None:
                body = read_body(operation.body, arrived.signed.body, arrived.content_types)
            elif arrived.signed.body:
                raise invalid("body", "this operation takes none")
            call = Call(caller.customer_id, arrived.path, body, query, late_s)
            handler = HANDLERS[operation.name]
            if operation.method == "GET":
                return handler(self.world, call)
            with self.database.transaction():
                return handler(self.world, call)
