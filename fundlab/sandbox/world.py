"""What every operation works on: database, ledger, clocks, deterministic ids, events."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from fundlab.models.json_schema import ABSENT, Schema
from fundlab.sandbox.behaviour import Behaviour
from fundlab.sandbox.clock import AccessClock, BusinessClock, nanos_text
from fundlab.sandbox.database import Database
from fundlab.sandbox.ledger import Ledger
from fundlab.sandbox.refusals import conflict, invalid, not_found

MICROSECOND: Final = 1_000

ASSETS: Final = ("USD", "USDG", "PYUSD", "USDP", "USDC", "BTC", "ETH", "SOL", "LTC", "BCH")
"""Assets a balance can be asked for."""
BARRED_STATUSES: Final = ("DENIED", "DISABLED")
IDENTITY_STATUSES: Final = ("PENDING", "APPROVED", *BARRED_STATUSES)
END_USER: Final[Schema] = {
    "anyOf": [
        {"properties": {"account_id": ABSENT}},
        {"required": ["identity_id"]},
    ]
}
"""An ``account_id`` comes with the ``identity_id`` it belongs to: ``World.check_end_user``."""


class World:
    """The state of one sandbox. Everything that writes runs inside ``database.transaction()``."""

    def __init__(self, database: Database, clock: BusinessClock, access_clock: AccessClock) -> None:
        self.database, self.access_clock = database, access_clock
        self.ledger = Ledger(database)
        self.reload(clock)

    def reload(self, clock: BusinessClock) -> None:
        """Take over the clock and what the database remembers, when it is opened or replaced."""
        self.clock = clock
        self._last_stamp = int(self.database.get_meta("last_stamp_ns") or 0)
        self._last_event = int(self.database.get_meta("last_event_ns") or 0)
        stored = self.database.get_meta("behaviour")
        self.behaviour = Behaviour.model_validate_json(stored) if stored else Behaviour()
        self.seed = int(self.database.get_meta("seed") or 0)
        self.instance = self.database.get_meta("instance")
        self.customer_id = self.database.get_meta("customer_id") or ""
        self.cursor_key = seeded_uuid(self.seed, "cursor_key", 1).encode()

    def behave(self, behaviour: Behaviour) -> None:
        """As ``behaviour`` says from now on."""
        self.database.set_meta("behaviour", behaviour.model_dump_json())
        self.behaviour = behaviour

    # ------------------------------------------------------------------ ids and time

    def new_id(self, table: str) -> str:
        """The id of the row that is inserted next into ``table``: the same for the same seed."""
        return seeded_uuid(self.seed, table, self.database.next_seq(table))

    def stamp(self, at_ns: int | None = None) -> int:
        """The time of a change: now or ``at_ns``, in whole microseconds, never twice the same.

        Because no change is stamped at or before an earlier one, a pass in ascending order never
        misses a row that is written meanwhile.
        """
        wanted = self.clock.now_ns() if at_ns is None else at_ns
        wanted -= wanted % MICROSECOND
        self._last_stamp = max(wanted, self._last_stamp + MICROSECOND)
        self.database.set_meta("last_stamp_ns", str(self._last_stamp))
        return self._last_stamp

    def keep_time(self) -> None:
        """Note the business time, from which a later start goes on."""
        self.database.set_meta("business_ns", str(self.clock.now_ns()))

    def schedule(self, at_ns: int, kind: str, subject: str) -> None:
        self.database.insert("due", at_ns=at_ns, kind=kind, subject=subject)

    # ------------------------------------------------------------------ events

    def emit(
        self,
        customer_id: str,
        kind: str,
        object_type: str,
        payload: Mapping[str, Any],
        stamp_ns: int,
        *,
        is_test: bool = False,
    ) -> None:
        """Add an event (§2.10), a few nanoseconds after the change it tells of."""
        self._last_event = max(stamp_ns + 1, self._last_event + 1)
        self.database.set_meta("last_event_ns", str(self._last_event))
        event_id = self.new_id("events")
        body = {
            "id": event_id,
            "type": kind,
            "object_type": object_type,
            "object": dict(payload),
            "created_at": nanos_text(self._last_event),
            "undelivered_webhooks": 0,
        }
        self.database.insert(
            "events", id=event_id, customer_id=customer_id, created_at_ns=self._last_event,
            type=kind, is_test=int(is_test), body=to_bytes(body),
        )  # fmt: skip

    # ------------------------------------------------------------------ looking things up

    def find(self, table: str, **columns: str) -> dict[str, Any] | None:
        """The resource in ``table`` with these values, or ``None``."""
        where = " AND ".join(f"{name} = ?" for name in columns)
        stored = self.database.one(
            f"SELECT body FROM {table} WHERE {where}",  # noqa: S608 - our own names
            *columns.values(),
        )
        return json.loads(stored[0]) if stored is not None else None

    def check_profile(self, customer_id: str, profile_id: str) -> None:
        stored = self.database.one(
            "SELECT 1 FROM profiles WHERE id = ? AND customer_id = ?", profile_id, customer_id
        )
        if not stored:
            raise not_found("profile", "profile_id", profile_id)

    def check_end_user(
        self, customer_id: str, identity_id: str | None, account_id: str | None
    ) -> None:
        """Identity and account exist and belong together, and the identity may act."""
        if identity_id is None:
            if account_id is not None:
                raise invalid("account_id", "needs the identity_id it belongs to")
            return
        identity = self.database.one(
            "SELECT account_id, status FROM identities WHERE id = ? AND customer_id = ?",
            identity_id, customer_id,
        )  # fmt: skip
        if identity is None:
            raise not_found("identity", "identity_id", identity_id)
        if account_id is not None and account_id != identity[0]:
            raise not_found("account of this identity", "account_id", account_id)
        if identity[1] in BARRED_STATUSES:
            raise invalid("identity_id", f"the identity is {identity[1]}: nothing is done for it")

    def check_ref_id(self, table: str, customer_id: str, ref_id: str | None) -> None:
        """409 with the existing resource when ``ref_id`` was used for this kind of resource."""
        if ref_id is None:
            return
        existing = self.find(table, ref_id=ref_id, customer_id=customer_id)
        if existing is not None:
            raise conflict(f"ref_id {ref_id!r} is used already", existing)

    def get(self, table: str, what: str, customer_id: str, resource_id: str) -> bytes:
        """The rendered resource. Raises the 404 ``Refusal``."""
        stored = self.database.one(
            f"SELECT body FROM {table} WHERE id = ? AND customer_id = ?",  # noqa: S608 - our own names
            resource_id.lower(), customer_id,
        )  # fmt: skip
        if stored is None:
            raise not_found(what, "id", resource_id)
        body: bytes = stored[0]
        return body


def check_asset(asset: str) -> None:
    """Raises the 404 ``Refusal`` for one that no balance is in."""
    if asset not in ASSETS:
        raise not_found("asset", "asset", asset)


def own_identity(customer_id: str) -> str:
    """The identity of a customer itself, which deposit instructions of no end user name (§2.2).
    Given in a request or a filter it stands for none: other records name end users only."""
    return seeded_uuid(0, f"identity of {customer_id}", 1)


def seeded_uuid(seed: int, table: str, number: int) -> str:
    digest = hashlib.blake2b(f"{seed}/{table}/{number}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest, version=4))


def to_bytes(value: Mapping[str, Any]) -> bytes:
    """Compact UTF-8 JSON without the members that are ``None``."""
    given = {name: member for name, member in value.items() if member is not None}
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()
