"""A drafted history, written: places, transfers, their events and their ledger entries, in bulk."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fundlab.errors import SandboxError
from fundlab.models import CryptoNetwork, TransferStatus, TransferType
from fundlab.sandbox.clock import NS, micros_text, nanos_text
from fundlab.sandbox.database import Database
from fundlab.sandbox.history import (
    ASSETS,
    COMPLETED,
    FAILED,
    HISTORY_END_NS,
    HISTORY_START_NS,
    KINDS,
    PENDING,
    Draft,
    draft_history,
    wire_accounts,
)
from fundlab.sandbox.ledger import CONVERSION, FEES, OUTSIDE, SCALE, TRANSIT, units_text
from fundlab.sandbox.people import DEPARTMENTS, People, people_events, seed_places
from fundlab.sandbox.world import seeded_uuid

STATUSES: Final = (TransferStatus.COMPLETED, TransferStatus.PENDING, TransferStatus.FAILED)
T: Final = TransferType
INTERNAL: Final = (T.INTERNAL_TRANSFER_DEBIT, T.INTERNAL_TRANSFER_CREDIT)
REJECTED: Final = {
    "secondary_status": {"name": "REJECTED_BY_BANK", "detail": "the receiving side refused it"},
    "status_details": {"reason": "the receiving side refused it"},
}
RETURNED: Final = {
    "secondary_status": {"name": "COMPLIANCE_RETURNED", "detail": "returned to the sender"},
    "status_details": {"reason": "returned to the sender"},
}
IN_REVIEW: Final = {
    "secondary_status": {"name": "UNDER_REVIEW", "detail": "waiting for a compliance review"}
}
METADATA: Final = tuple(
    json.dumps({"department": department, "batch": f"{batch:03d}"})
    for department in DEPARTMENTS
    for batch in range(1, 9)
)


def seed_history(
    database: Database, people: People, transfers: int, *, pending_from_ns: int
) -> None:
    """Write the history of ``transfers`` transfers in the caller's transaction.

    Half of the ``PENDING`` ones finish within two days of ``pending_from_ns``; the others wait for
    a review that never comes.
    """
    seed_places(database, people, HISTORY_START_NS, HISTORY_END_NS, min(300, transfers // 200))
    draft = draft_history(people, transfers)
    writer = _Writer(people, draft)
    database.run_many(_INSERT_TRANSFER, writer.transfers())
    database.run_many(_INSERT_EVENT, writer.events())
    database.run_many(_INSERT_ENTRY, writer.entries())
    database.run_many(_INSERT_ACCOUNT, writer.accounts())
    database.run_many(_INSERT_DUE, writer.due(pending_from_ns))
    database.set_meta("last_stamp_ns", str(max([*draft.updated_ns, *draft.created_ns, 0])))
    database.set_meta("last_event_ns", str(writer.last_event_ns))


_INSERT_TRANSFER = (
    "INSERT INTO transfers (id, customer_id, created_at_ns, updated_at_ns, profile_id, "
    "identity_id, account_id, ref_id, group_id, crypto_tx_hash, type, status, secondary, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_EVENT = (
    "INSERT INTO events (id, customer_id, created_at_ns, type, is_test, body) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_ENTRY = "INSERT INTO ledger_entries (transfer_id, account, amount) VALUES (?, ?, ?)"
_INSERT_ACCOUNT = "INSERT INTO ledger_accounts (seq, owner, asset, balance) VALUES (?, ?, ?, ?)"
_INSERT_DUE = "INSERT INTO due (at_ns, kind, subject) VALUES (?, ?, ?)"


class _Writer:
    """Rows of a draft for each table, one at a time."""

    def __init__(self, people: People, draft: Draft) -> None:
        self._people, self._draft = people, draft
        rng = np.random.default_rng([people.seed, 1])
        self._ids = uuid_texts(rng, len(draft))
        self._rng = rng
        self._width = len(ASSETS)
        self._totals = [0] * self._account_count()
        self.last_event_ns = 0
        self._wires = wire_accounts(people)
        self._wires_since = [account.since_ns for account in self._wires]
        self._cubix = [account for account in people.accounts if account.kind == "CUBIX"]
        self._cubix_since = [account.since_ns for account in self._cubix]

    # ------------------------------------------------------------------ transfers

    def transfers(self) -> Iterator[tuple[Any, ...]]:
        draft, people = self._draft, self._people
        for i, transfer_id in enumerate(self._ids):
            kind = KINDS[draft.kinds[i]]
            status = draft.statuses[i]
            amount, fee = draft.amounts[i], draft.fees[i]
            profile_id = people.profile_ids[draft.profiles[i]]
            user = people.users[draft.users[i]] if draft.users[i] >= 0 else None
            if kind.type in INTERNAL:
                user = None
            ref_id = self._ref_id(i)
            optional: dict[str, Any] = {}
            if user is not None:
                optional["identity_id"] = user.identity_id
                optional["account_id"] = user.account_id
            group_id = self._group_id(i)
            if group_id:
                optional["group_id"] = group_id
            optional |= self._outcome(i)
            optional |= self._particulars(i, kind.type)
            extra = "".join(f',"{name}":{_json(value)}' for name, value in optional.items())
            ref = f'"ref_id":"{ref_id}",' if ref_id else ""
            total = amount - fee if kind.credit else amount + fee
            body = (
                f'{{"id":"{transfer_id}",{ref}"customer_id":"{people.customer_id}",'
                f'"profile_id":"{profile_id}","amount":"{units_text(amount)}",'
                f'"fee":"{units_text(fee)}","total":"{units_text(total)}",'
                f'"asset":"{ASSETS[draft.assets[i]].name}",'
                f'"direction":"{"CREDIT" if kind.credit else "DEBIT"}","type":"{kind.type}",'
                f'"status":"{STATUSES[status]}","created_at":"{micros_text(draft.created_ns[i])}",'
                f'"updated_at":"{micros_text(draft.updated_ns[i])}"{extra}}}'
            )
            yield (
                transfer_id, people.customer_id, draft.created_ns[i], draft.updated_ns[i],
                profile_id, optional.get("identity_id"), optional.get("account_id"), ref_id,
                group_id, optional.get("crypto_tx_hash"), kind.type.value, STATUSES[status].value,
                optional.get("secondary_status", {}).get("name"), body.encode(),
            )  # fmt: skip

    def _ref_id(self, i: int) -> str | None:
        """Six in ten debits carry the customer's own number."""
        draft = self._draft
        if KINDS[draft.kinds[i]].credit or draft.places[i] % 10 >= 6:
            return None
        return f"order-{self._people.seed}-{i + 1:08d}"

    def _group_id(self, i: int) -> str | None:
        kind = KINDS[self._draft.kinds[i]].type
        if kind is T.INTERNAL_TRANSFER_DEBIT:
            return seeded_uuid(self._people.seed, "history_groups", i)
        if kind is T.INTERNAL_TRANSFER_CREDIT:
            return seeded_uuid(self._people.seed, "history_groups", i - 1)
        return None

    def _outcome(self, i: int) -> dict[str, Any]:
        """Status details, and the conversion of a converted deposit."""
        draft = self._draft
        if draft.statuses[i] == FAILED:
            return RETURNED if KINDS[draft.kinds[i]].credit else REJECTED
        if draft.statuses[i] == PENDING:
            return {} if self._will_finish(i) else IN_REVIEW
        if draft.targets[i] != draft.assets[i]:
            own = self._ids[i]
            return {
                "balance_asset": ASSETS[draft.targets[i]].name,
                "auto_conversion": {"from_transfer_id": own, "to_transfer_id": own},
            }
        return {}

    def _will_finish(self, i: int) -> bool:
        return self._draft.places[i] % 2 == 0

    def _particulars(self, i: int, kind: TransferType) -> dict[str, Any]:
        """What only some types carry: chain, bank account, memo, metadata."""
        draft, place = self._draft, self._draft.places[i]
        if kind in (T.CRYPTO_DEPOSIT, T.CRYPTO_WITHDRAWAL):
            return self._on_chain(i, kind)
        if kind in (T.WIRE_DEPOSIT, T.CUBIX_DEPOSIT):
            network = "CUBIX" if kind is T.CUBIX_DEPOSIT else ("WIRE-ABA", "WIRE-SWIFT")[place % 2]
            profile_id = self._people.profile_ids[draft.profiles[i]]
            instructions = self._people.instructions[profile_id, network]
            return {"memo": instructions["memo_id"], "metadata": instructions["metadata"]}
        particulars: dict[str, Any] = {}
        if kind is T.CUBIX_WITHDRAWAL:
            known = max(bisect_left(self._cubix_since, draft.created_ns[i]), 1)
            particulars["fiat_account_id"] = self._cubix[place % known].id
        elif kind.endswith("_WITHDRAWAL"):
            known = max(bisect_left(self._wires_since, draft.created_ns[i]), 1)
            particulars["fiat_account_id"] = self._wires[place % known].id
        if place % 3 == 0:
            particulars["metadata"] = json.loads(METADATA[place % len(METADATA)])
        if place % 7 == 0:
            particulars["memo"] = f"invoice {place % 100_000:05d}"
        return particulars

    def _on_chain(self, i: int, kind: TransferType) -> dict[str, Any]:
        draft, place = self._draft, self._draft.places[i]
        network = _NETWORKS[draft.networks[i]]
        particulars: dict[str, Any] = {"crypto_network": network.value}
        if draft.statuses[i] == COMPLETED:
            digest = hashlib.blake2b(self._ids[i].encode(), digest_size=32).hexdigest()
            particulars["crypto_tx_hash"] = digest if network in _BARE_HASH else f"0x{digest}"
            particulars["crypto_tx_index"] = str(place % 4)
        if kind is T.CRYPTO_WITHDRAWAL:
            saved = self._people.addresses[network]
            particulars["destination_address"] = saved[place % len(saved)].address
        else:
            particulars["auto_conversion"] = {}
        cents = (draft.amounts[i] + draft.fees[i]) * draft.price_cents[i] // SCALE
        particulars["notional_value"] = f"{cents // 100}.{cents % 100:02d}"
        if draft.targets[i] != draft.assets[i]:
            del particulars["auto_conversion"]
        return particulars

    # ------------------------------------------------------------------ events

    def events(self) -> Iterator[tuple[Any, ...]]:
        """In order of time: each transfer's ``pending`` and final event, and those about people."""
        about_people = people_events(self._people)
        count = len(self._ids)
        pending, final = self._moments()
        moments = np.concatenate([pending, final, [event[0] for event in about_people]])
        order = np.argsort(moments, kind="stable")
        order = order[moments[order] > 0]
        ids = uuid_texts(self._rng, len(order))
        for event_id, place in zip(ids, order.tolist(), strict=True):
            ns = int(moments[place])
            if place < 2 * count:
                yield self._transfer_event(event_id, ns, place % count, settled=place >= count)
            else:
                _, kind, object_type, payload = about_people[place - 2 * count]
                yield self._event(event_id, ns, kind, object_type, _json(payload))
            self.last_event_ns = ns

    def _moments(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """When each transfer's two events are, in nanoseconds; 0 where there is none."""
        draft = self._draft
        nanos = np.array(draft.places, dtype=np.int64) % 499
        statuses = np.array(draft.statuses, dtype=np.int64)
        instant = np.array([KINDS[kind].type in INTERNAL for kind in draft.kinds], dtype=bool)
        pending = np.array(draft.created_ns, dtype=np.int64) + 1 + nanos
        final = np.array(draft.updated_ns, dtype=np.int64) + 501 + nanos
        return np.where(instant, 0, pending), np.where(statuses == PENDING, 0, final)

    def _transfer_event(self, event_id: str, ns: int, i: int, *, settled: bool) -> tuple[Any, ...]:
        draft = self._draft
        kind = KINDS[draft.kinds[i]].type
        status = STATUSES[draft.statuses[i]] if settled else TransferStatus.PENDING
        ref_id = self._ref_id(i)
        ref = f',"ref_id":"{ref_id}"' if ref_id else ""
        payload = (
            f'{{"id":"{self._ids[i]}","type":"{kind}","status":"{status}",'
            f'"profile_id":"{self._people.profile_ids[draft.profiles[i]]}"{ref}}}'
        )
        name = f"transfer.{kind.lower()}.{status.lower()}"
        return self._event(event_id, ns, name, "transfer_status_change", payload)

    def _event(
        self, event_id: str, ns: int, kind: str, object_type: str, payload: str
    ) -> tuple[Any, ...]:
        body = (
            f'{{"id":"{event_id}","type":"{kind}","object_type":"{object_type}",'
            f'"object":{payload},"created_at":"{nanos_text(ns)}","undelivered_webhooks":0}}'
        )
        return event_id, self._people.customer_id, ns, kind, 0, body.encode()

    # ------------------------------------------------------------------ ledger

    def _account_count(self) -> int:
        return (2 * len(self._people.profile_ids) + len(_SYSTEM)) * self._width

    def entries(self) -> Iterator[tuple[str, int, str]]:
        totals = self._totals
        for i, transfer_id in enumerate(self._ids):
            for account, change in self._posting(i):
                totals[account] += change
                yield transfer_id, account + 1, str(change)

    def _posting(self, i: int) -> list[tuple[int, int]]:
        """``(account, change)`` pairs of a transfer; they sum to zero per asset."""
        draft, width = self._draft, self._width
        if draft.statuses[i] == FAILED:
            return []
        kind = KINDS[draft.kinds[i]]
        asset, target = draft.assets[i], draft.targets[i]
        amount, fee = draft.amounts[i], draft.fees[i]
        own = draft.profiles[i] * width
        system = 2 * len(self._people.profile_ids) * width
        outside, fees, conversion, transit = (
            system + n * width for n in range(len(_SYSTEM))
        )  # fmt: skip
        fee_entry = [(fees + asset, fee)] if fee else []
        beyond = (transit if kind.type in INTERNAL else outside) + asset
        if not kind.credit:
            total = amount + fee
            if draft.statuses[i] == PENDING:
                held = len(self._people.profile_ids) * width + own + asset
                return [(own + asset, -total), (held, total)]
            return [(own + asset, -total), (beyond, amount), *fee_entry]
        if draft.statuses[i] == PENDING:
            return []
        total = amount - fee
        arrival = [(beyond, -amount), *fee_entry, (own + target, total)]
        if target != asset:
            arrival += [(conversion + asset, total), (conversion + target, -total)]
        return arrival

    def accounts(self) -> Iterator[tuple[int, str, str, str]]:
        """Accounts with their balances, checked against the draft."""
        people, width = self._people, self._width
        names = [f"available/{profile_id}" for profile_id in people.profile_ids]
        names += [f"held/{profile_id}" for profile_id in people.profile_ids]
        names += _SYSTEM
        expected = self._draft.balances + self._draft.held
        if self._totals[: len(expected)] != expected or min(expected, default=0) < 0:
            raise SandboxError("the seeded history does not add up")
        for number, total in enumerate(self._totals):
            if total:
                owner, asset = names[number // width], ASSETS[number % width].name
                yield number + 1, owner, asset, str(total)

    # ------------------------------------------------------------------ what is still to come

    def due(self, from_ns: int) -> Iterator[tuple[int, str, str]]:
        for i, transfer_id in enumerate(self._ids):
            if self._draft.statuses[i] != PENDING or not self._will_finish(i):
                continue
            at_ns = from_ns + (3_600 + self._draft.places[i] % (47 * 3_600)) * NS
            if KINDS[self._draft.kinds[i]].credit:
                yield at_ns, "deposit", json.dumps([transfer_id, "history"])
            else:
                yield at_ns, "withdrawal", transfer_id


_SYSTEM: Final = (OUTSIDE, FEES, CONVERSION, TRANSIT)
_NETWORKS: Final = tuple(CryptoNetwork)
_BARE_HASH: Final = (
    CryptoNetwork.BITCOIN, CryptoNetwork.BITCOIN_CASH, CryptoNetwork.LITECOIN,
    CryptoNetwork.SOLANA, CryptoNetwork.STELLAR,
)  # fmt: skip


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


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
