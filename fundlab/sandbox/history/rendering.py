"""A played history as rows for the database: transfers, events, and what is still to come."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from fundlab.models import CryptoNetwork, TransferStatus
from fundlab.sandbox.clock import NS
from fundlab.sandbox.history.drafting import Draft, wire_accounts
from fundlab.sandbox.history.proportions import (
    ASSETS,
    DIRECTIONS,
    FAILED,
    INTERNAL,
    INTERNAL_DEBIT,
    IS_CREDIT,
    KIND_OF,
    KINDS,
    NETWORKS,
    PENDING,
    T,
)
from fundlab.sandbox.ledger import SCALE, total_of, units_text
from fundlab.sandbox.movements import secondary
from fundlab.sandbox.seed_customers import DEPARTMENTS, People, people_events
from fundlab.sandbox.world import seeded_uuid

Row = tuple[Any, ...]
Ints = npt.NDArray[np.int64]

ROWS_AT_ONCE: Final = 50_000
TYPES: Final = tuple(kind.type.value for kind in KINDS)
STATUSES: Final = (
    TransferStatus.COMPLETED.value, TransferStatus.PENDING.value, TransferStatus.FAILED.value,
)  # fmt: skip
CRYPTO: Final = (KIND_OF[T.CRYPTO_DEPOSIT], KIND_OF[T.CRYPTO_WITHDRAWAL])
BY_INSTRUCTIONS: Final = (KIND_OF[T.WIRE_DEPOSIT], KIND_OF[T.CUBIX_DEPOSIT])
CUBIX: Final = (KIND_OF[T.CUBIX_DEPOSIT], KIND_OF[T.CUBIX_WITHDRAWAL])
BARE_HASH: Final = (
    CryptoNetwork.BITCOIN, CryptoNetwork.BITCOIN_CASH, CryptoNetwork.LITECOIN,
    CryptoNetwork.SOLANA, CryptoNetwork.STELLAR,
)  # fmt: skip
REJECTED: Final = {
    **secondary("CUSTOMER_REJECTED", "the receiving side refused it"),
    "status_details": {"reason": "the receiving side refused it"},
}
RETURNED: Final = {
    **secondary("TRAVEL_RULE_REJECTED", "returned to the sender"),
    "status_details": {"reason": "returned to the sender"},
}
WAITING: Final = secondary("PENDING_CUSTOMER_APPROVAL", "waiting for an approval")
ASKED: Final = secondary("TRAVEL_RULE_INFO_REQUESTED", "waiting for details of the sender")
METADATA: Final = tuple(
    {"department": department, "batch": f"{batch:03d}"}
    for department in DEPARTMENTS
    for batch in range(1, 9)
)

_to_json = msgspec.json.Encoder().encode
_fee_text = cache(units_text)  # there are few different fees


@dataclass(frozen=True)
class History:
    """A played draft, the people it is about and the ids of its transfers."""

    people: People
    draft: Draft
    ids: list[str]

    def ref_id(self, i: int) -> str | None:
        """Six in ten debits carry the customer's own number."""
        if IS_CREDIT[self.draft.kinds[i]] or self.draft.places[i] % 10 >= 6:
            return None
        return f"order-{self.people.seed}-{i + 1:08d}"

    def will_finish(self, i: int) -> bool:
        """Whether a ``PENDING`` transfer goes on by itself."""
        return self.draft.places[i] % 2 == 0


# ---------------------------------------------------------------------------- transfers


class TransferRows:
    """The rows of the table ``transfers``, in order of creation."""

    def __init__(self, history: History) -> None:
        self._history, self._people = history, history.people
        self._draft, self._ids = history.draft, history.ids
        self._wires = wire_accounts(history.people)
        self._wires_since = [account.since_ns for account in self._wires]
        self._cubix = [account for account in history.people.accounts if account.kind == "CUBIX"]
        self._cubix_since = [account.since_ns for account in self._cubix]

    def __iter__(self) -> Iterator[Row]:
        draft = self._draft
        for start in range(0, len(draft), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            created = _micros_texts(draft.created_ns[part])
            updated = _micros_texts(draft.updated_ns[part])
            for i, times in enumerate(zip(created, updated, strict=True), start):
                yield self._row(i, *times)

    def _row(self, i: int, created_at: str, updated_at: str) -> Row:
        draft, people, transfer_id = self._draft, self._people, self._ids[i]
        kind, amount, fee = draft.kinds[i], draft.amounts[i], draft.fees[i]
        profile_id = people.profile_ids[draft.profiles[i]]
        status = STATUSES[draft.statuses[i]]
        ref_id, group_id = self._history.ref_id(i), None
        if kind in INTERNAL:
            first = i if kind == INTERNAL_DEBIT else i - 1
            group_id = seeded_uuid(people.seed, "history_groups", first)
        body: dict[str, Any] = {"id": transfer_id}
        if ref_id is not None:
            body["ref_id"] = ref_id
        body |= {
            "customer_id": people.customer_id,
            "profile_id": profile_id,
            "amount": units_text(amount),
            "fee": _fee_text(fee),
            "total": units_text(total_of(DIRECTIONS[kind], amount, fee)),
            "asset": ASSETS[draft.assets[i]].name,
            "direction": DIRECTIONS[kind],
            "type": TYPES[kind],
            "status": status,
            "created_at": created_at,
            "updated_at": updated_at,
        }
        if draft.users[i] >= 0 and kind not in INTERNAL:
            user = people.users[draft.users[i]]
            body["identity_id"], body["account_id"] = user.identity_id, user.account_id
        if group_id is not None:
            body["group_id"] = group_id
        on_chain_in = kind in CRYPTO and IS_CREDIT[kind]
        if draft.statuses[i] == FAILED:
            body |= RETURNED if on_chain_in else REJECTED
        elif draft.statuses[i] == PENDING:
            if not self._history.will_finish(i):
                body |= ASKED if on_chain_in else WAITING
        elif draft.targets[i] != draft.assets[i]:
            body["balance_asset"] = ASSETS[draft.targets[i]].name
            body["auto_conversion"] = {
                "from_transfer_id": transfer_id, "to_transfer_id": transfer_id,
            }  # fmt: skip
        body |= self._particulars(i, kind)
        secondary = body.get("secondary_status")
        return (
            transfer_id, people.customer_id, draft.created_ns[i], draft.updated_ns[i], profile_id,
            body.get("identity_id"), body.get("account_id"), ref_id, group_id,
            body.get("crypto_tx_hash"), TYPES[kind], status, secondary and secondary["name"],
            _to_json(body),
        )  # fmt: skip

    def _particulars(self, i: int, kind: int) -> dict[str, Any]:
        """What only some types carry: chain, bank account, memo, metadata."""
        draft, place = self._draft, self._draft.places[i]
        if kind in CRYPTO:
            network = NETWORKS[draft.networks[i]]
            on_chain: dict[str, Any] = {"crypto_network": network.value}
            if STATUSES[draft.statuses[i]] == TransferStatus.COMPLETED:
                digest = hashlib.blake2b(self._ids[i].encode(), digest_size=32).hexdigest()
                on_chain["crypto_tx_hash"] = digest if network in BARE_HASH else f"0x{digest}"
                on_chain["crypto_tx_index"] = str(place % 4)
            if not IS_CREDIT[kind]:
                saved = self._people.addresses[network]
                on_chain["destination_address"] = saved[place % len(saved)]
            elif draft.targets[i] == draft.assets[i]:
                on_chain["auto_conversion"] = {}
            cents = (draft.amounts[i] + draft.fees[i]) * draft.price_cents[i] // SCALE
            on_chain["notional_value"] = f"{cents // 100}.{cents % 100:02d}"
            return on_chain
        if kind in BY_INSTRUCTIONS:
            bank = "CUBIX" if kind in CUBIX else ("WIRE-ABA", "WIRE-SWIFT")[place % 2]
            profile_id = self._people.profile_ids[draft.profiles[i]]
            instructions = self._people.instructions[profile_id, bank]
            return {"memo": instructions["memo_id"], "metadata": instructions["metadata"]}
        particulars: dict[str, Any] = {}
        if TYPES[kind].endswith("_WITHDRAWAL"):
            accounts, since = self._wires, self._wires_since
            if kind in CUBIX:
                accounts, since = self._cubix, self._cubix_since
            known = max(bisect_left(since, draft.created_ns[i]), 1)
            particulars["fiat_account_id"] = accounts[place % known].id
        if place % 3 == 0:
            particulars["metadata"] = METADATA[place % len(METADATA)]
        if place % 7 == 0:
            particulars["memo"] = f"invoice {place % 100_000:05d}"
        return particulars


# ---------------------------------------------------------------------------- events


@dataclass(frozen=True)
class Timeline:
    """When each event is, in order; ``places`` tell of what.

    The ``pending`` event of transfer *i* has place *i*, its final one *count + i*; those about
    people come after.
    """

    moments: Ints
    places: Ints

    @property
    def last_ns(self) -> int:
        return int(self.moments[-1]) if len(self.moments) else 0


def timeline(history: History) -> Timeline:
    """Each transfer's ``pending`` and final event, and those about people, in order of time."""
    draft = history.draft
    nanos = np.array(draft.places, dtype=np.int64) % 499
    final = np.array(draft.updated_ns) + 501 + nanos
    final[np.array(draft.statuses) == PENDING] = 0
    pending = np.array(draft.created_ns) + 1 + nanos
    pending[np.isin(np.array(draft.kinds), INTERNAL)] = 0
    about_people = np.array([event[0] for event in people_events(history.people)], dtype=np.int64)
    moments = np.concatenate([pending, final, about_people])
    order = np.argsort(moments, kind="stable")
    order = order[np.searchsorted(moments, 1, sorter=order) :]
    return Timeline(moments[order], order)


def event_rows(history: History, when: Timeline, rng: np.random.Generator) -> Iterator[Row]:
    """The rows of the table ``events``."""
    about_people, draft = people_events(history.people), history.draft
    count = len(draft)
    for start in range(0, len(when.places), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        moments = when.moments[part]
        texts: list[str] = np.datetime_as_string(
            moments.view("datetime64[ns]"), timezone="UTC"
        ).tolist()
        ids = uuid_texts(rng, len(moments))
        for event_id, ns, created_at, place in zip(
            ids, moments.tolist(), texts, when.places[part].tolist(), strict=True
        ):
            if place < 2 * count:
                i = place % count
                status = STATUSES[draft.statuses[i] if place >= count else PENDING]
                type_ = TYPES[draft.kinds[i]]
                payload = {
                    "id": history.ids[i],
                    "type": type_,
                    "status": status,
                    "profile_id": history.people.profile_ids[draft.profiles[i]],
                }
                ref_id = history.ref_id(i)
                if ref_id is not None:
                    payload["ref_id"] = ref_id
                kind = f"transfer.{type_.lower()}.{status.lower()}"
                object_type = "transfer_status_change"
            else:
                _, kind, object_type, payload = about_people[place - 2 * count]
            body = {
                "id": event_id, "type": kind, "object_type": object_type, "object": payload,
                "created_at": created_at, "undelivered_webhooks": 0,
            }  # fmt: skip
            yield event_id, history.people.customer_id, ns, kind, 0, _to_json(body)


# ---------------------------------------------------------------------------- what is to come


def due_rows(history: History, from_ns: int) -> Iterator[Row]:
    """The rows of the table ``due``: half of what is ``PENDING`` finishes within two days."""
    draft = history.draft
    for i in np.flatnonzero(np.array(draft.statuses) == PENDING).tolist():
        if not history.will_finish(i):
            continue
        at_ns = from_ns + (3_600 + draft.places[i] % (47 * 3_600)) * NS
        if IS_CREDIT[draft.kinds[i]]:
            yield at_ns, "deposit", json.dumps([history.ids[i], "history"])
        else:
            yield at_ns, "withdrawal", history.ids[i]


# ---------------------------------------------------------------------------- texts


def uuid_texts(rng: np.random.Generator, count: int) -> list[str]:
    """Random UUIDs of version 4."""
    raw = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    raw[:, 6] = raw[:, 6] & 0x0F | 0x40
    raw[:, 8] = raw[:, 8] & 0x3F | 0x80
    text = raw.tobytes().hex()
    return [
        f"{text[at : at + 8]}-{text[at + 8 : at + 12]}-{text[at + 12 : at + 16]}-"
        f"{text[at + 16 : at + 20]}-{text[at + 20 : at + 32]}"
        for at in range(0, 32 * count, 32)
    ]


def _micros_texts(ns: Sequence[int]) -> list[str]:
    """RFC 3339 in UTC with six fractional digits."""
    moments = np.array(ns, dtype=np.int64).view("datetime64[ns]").astype("datetime64[us]")
    texts: list[str] = np.datetime_as_string(moments, timezone="UTC").tolist()
    return texts
