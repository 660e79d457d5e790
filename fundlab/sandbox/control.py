"""What the sandbox's operator can do beside the interface; ``control_http`` serves the same.

Annotations are not postponed here: the control interface's document is made of them, elsewhere.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from fundlab.base.errors import SandboxError
from fundlab.base.values import Amount
from fundlab.client.signing import key_pair
from fundlab.models import CryptoNetwork, TransferStatus, TransferType
from fundlab.sandbox.access import Access
from fundlab.sandbox.accounts_and_addresses import add_destination_address, check_address
from fundlab.sandbox.bank_book import (
    Fault,
    Format,
    book,
    fiat_transfers,
    period_days,
    statement_file,
)
from fundlab.sandbox.behaviour import behaviour_of
from fundlab.sandbox.clock import nanos_text
from fundlab.sandbox.faults import ANY, FaultKind
from fundlab.sandbox.ledger import available, trading, units, units_text
from fundlab.sandbox.movements import (
    Arrival,
    change_transfer,
    finish_withdrawal,
    read_transfer,
    receive,
)
from fundlab.sandbox.refusals import invalid, not_found
from fundlab.sandbox.scheduled_work import finish_deposit, settle
from fundlab.sandbox.startup import (
    Checkpoint,
    Options,
    Service,
    add_customer,
    checkpoint,
    go_back,
    scope_names,
    start_over,
    take_over,
)
from fundlab.sandbox.world import (
    ASSETS,
    IDENTITY_STATUSES,
    World,
    check_asset,
    seeded_uuid,
    to_bytes,
)
from fundlab.settings.labels import name_of

Json = dict[str, Any]
MAX_CHECKPOINTS: Final = 20
SHOWN: Final = 50
ENDED_BY_HAND: Final = {"status_details": {"reason": "the sandbox's operator ended it"}}


@dataclass(frozen=True)
class Control:
    """The operator's actions. Each is one transaction; all answer plain JSON objects."""

    service: Service
    options: Options
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict, repr=False)

    @property
    def _world(self) -> World:
        return self.service.world

    @property
    def _access(self) -> Access:
        return self.service.access

    @property
    def _customer_id(self) -> str:
        return self._world.customer_id

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """One transaction, after what is due by now: as before every request."""
        with self.service.database.lock:
            settle(self._world)
            with self.service.database.transaction():
                yield

    # ------------------------------------------------------------------ clock

    def clock(self) -> Json:
        """Business time, and how far tokens and signatures see real time shifted."""
        with self.service.database.lock:
            return {
                "mode": self._world.clock.mode,
                "now": nanos_text(self._world.clock.now_ns()),
                "access_shift": self._world.access_clock.shift_s,
            }

    def advance(self, seconds: float) -> Json:
        """Move business time forward and settle what comes due; both outlive a kill."""
        with self.service.database.transaction():
            self._world.clock.advance(seconds)
            self._world.keep_time()
            settle(self._world)
        return self.clock()

    def shift_access(self, seconds: float) -> Json:
        """Let tokens and signatures see real time plus ``seconds``; 0 undoes it."""
        with self.service.database.lock:
            self._world.access_clock.shift(seconds)
        return self.clock()

    def revoke_tokens(self) -> Json:
        """Let every token expire at once."""
        with self.service.database.transaction():
            self._access.revoke_tokens()
        return {}

    # ------------------------------------------------------------------ credentials

    def credentials(self) -> list[Json]:
        """All credentials and their key ids, without the secrets."""
        database = self.service.database
        rows = database.all("SELECT client_id, customer_id, scopes, signing FROM credentials")
        return [
            {
                "client_id": client_id,
                "customer_id": customer_id,
                "scopes": scopes.split(),
                "signing": bool(signing),
                "signing_key_ids": [
                    row[0]
                    for row in database.all(
                        "SELECT kid FROM signing_keys WHERE client_id = ? ORDER BY kid", client_id
                    )
                ],
            }
            for client_id, customer_id, scopes, signing in rows
        ]

    def add_credential(
        self,
        client_id: str,
        scopes: Sequence[str] | None = None,
        *,
        signing: bool = False,
        new_customer: bool = False,
    ) -> Json:
        """A credential of the same customer, or of a new one with a profile of its own."""
        database, world = self.service.database, self._world
        with database.transaction():
            customer_id = self._customer_id
            if new_customer:
                customer_id = add_customer(world)
            credential = self._access.add_credential(
                client_id, customer_id, scope_names(scopes), signing=signing
            )
            profiles = database.all(
                "SELECT id FROM profiles WHERE customer_id = ? ORDER BY seq", customer_id
            )
        return {
            "client_id": client_id,
            "client_secret": credential.client_secret,
            "customer_id": customer_id,
            "profile_ids": [row[0] for row in profiles],
        }

    def rotate_secret(self, client_id: str) -> Json:
        """A new secret; client id, tokens and signing keys stay."""
        with self.service.database.transaction():
            rotated = self._access.rotate(client_id)
        return {"client_id": client_id, "client_secret": rotated.client_secret}

    def add_signing_key(
        self,
        client_id: str,
        signing_key_id: str,
        public_key: str | None = None,
        alg: Literal["ES256", "EdDSA"] = "ES256",
    ) -> Json:
        """Register a public key (PEM), or make a pair of ``alg`` and return the private key."""
        private, public = key_pair(alg) if public_key is None else (None, public_key)
        with self.service.database.transaction():
            algorithm = self._access.add_key(client_id, signing_key_id, public.encode())
        made: Json = {"client_id": client_id, "signing_key_id": signing_key_id, "alg": algorithm}
        if private is not None:
            made["private_key"] = private.decode()
        return made

    def require_signing(self, client_id: str, signing: bool) -> Json:
        """Make signatures required for a credential, or optional."""
        with self.service.database.transaction():
            self._access.require_signing(client_id, signing=signing)
        return {"client_id": client_id, "signing": signing}

    # ------------------------------------------------------------------ beyond the interface

    def add_destination_address(
        self,
        crypto_network: CryptoNetwork,
        address: str | None = None,
        nickname: str | None = None,
        bookmarked: bool = False,
        identity_id: str | None = None,
    ) -> Json:
        """Save a crypto destination address (§2.8)."""
        if crypto_network not in set(CryptoNetwork):
            raise invalid("crypto_network", f"must be one of {', '.join(CryptoNetwork)}")
        with self._settled():
            self._world.check_end_user(self._customer_id, identity_id, None)
            if address is not None:
                check_address("address", crypto_network, address)
            world = self._world
            saved = add_destination_address(
                world.database, world.seed, self._customer_id, world.stamp(),
                CryptoNetwork(crypto_network), address, nickname, bookmarked, identity_id,
            )  # fmt: skip
        return {name: value for name, value in saved.items() if value is not None}

    def add_identity(self, status: str = "APPROVED") -> Json:
        """An end user with an account, and the events of the interface about it (§6)."""
        if status not in IDENTITY_STATUSES:
            raise invalid("status", f"must be one of {', '.join(IDENTITY_STATUSES)}")
        world, customer_id = self._world, self._customer_id
        with self._settled():
            identity_id = world.new_id("identities")
            number = world.database.next_seq("identities")
            account_id = seeded_uuid(world.seed, "end_user_accounts", number)
            world.database.insert(
                "identities", id=identity_id, customer_id=customer_id, status=status,
                account_id=account_id,
            )  # fmt: skip
            stamp = world.stamp()
            change = {
                "id": seeded_uuid(world.seed, "status_changes", number),
                "identity_id": identity_id,
            }
            if status == "PENDING":
                documents = {**change, "required_documents": ["TAX_IDENTIFICATION"]}
                kind, object_type = "documents_required", "identity_required_documents"
                world.emit(customer_id, f"identity.{kind}", object_type, documents, stamp)
            else:
                change |= {"new_summary_status": status, "old_summary_status": "PENDING"}
                object_type = "identity_summary_status_change"
                world.emit(customer_id, f"identity.{status.lower()}", object_type, change, stamp)
        return {"identity_id": identity_id, "account_id": account_id, "status": status}

    def add_event(self, type: str, object_type: str, object: Json, is_test: bool = True) -> Json:
        """An event of any kind; a test event unless told otherwise."""
        world = self._world
        for name, value in (("type", type), ("object_type", object_type), ("object", object)):
            try:
                json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
            except (TypeError, ValueError, RecursionError) as error:
                raise invalid(name, f"is not JSON: {error}") from None
        with self._settled():
            stamp = world.stamp()
            world.emit(self._customer_id, type, object_type, object, stamp, is_test=is_test)
        return {}

    def crypto_deposit(self, address: str, asset: str, amount: str) -> Json:
        """What arrives at a deposit address; completes as a simulated wire does."""
        value = units(amount_of(amount, above_zero=True))
        if asset not in ASSETS or asset == "USD":
            raise invalid("asset", f"{asset[:40]!r} does not arrive on chain")
        database = self.service.database
        with self._settled():
            body = self._world.find("deposit_addresses", address=address)
            if body is None:
                raise not_found("deposit address", "address", address)
            number = database.next_seq("transfers")
            optional = {name: body.get(name) for name in ("identity_id", "account_id", "metadata")}
            optional["crypto_network"] = body["crypto_network"]
            hashed = [seeded_uuid(self._world.seed, f"hash{n}", number) for n in (1, 2)]
            optional["crypto_tx_hash"] = "0x" + "".join(hashed).replace("-", "")
            optional["crypto_tx_index"] = "0"
            arrival = Arrival(
                body["customer_id"], TransferType.CRYPTO_DEPOSIT, body["profile_id"], asset,
                value, f"address:{body['id']}", optional,
            )  # fmt: skip
            receive(self._world, arrival)
        return {}

    def set_trading(self, profile_id: str, asset: str, amount: str) -> Json:
        """Tie up ``amount`` of what a profile has in trading; the rest is available."""
        world, wanted = self._world, units(amount_of(amount))
        check_asset(asset)
        with self._settled():
            if not self.service.database.one("SELECT 1 FROM profiles WHERE id = ?", profile_id):
                raise not_found("profile", "profile_id", profile_id)
            change = wanted - world.ledger.balance(trading(profile_id), asset)
            if change > world.ledger.balance(available(profile_id), asset):
                raise invalid("amount", "exceeds what is available")
            entries = [
                (trading(profile_id), asset, change),
                (available(profile_id), asset, -change),
            ]
            world.ledger.post("trading", entries)
        return {"profile_id": profile_id, "asset": asset, "trading": units_text(wanted)}

    def deprecate_instructions(self, id: str) -> Json:
        """Make deposit instructions ``DEPRECATED``; deposits that quote them are refused."""
        database = self.service.database
        with self._settled():
            changed = self._world.find("fiat_deposit_instructions", id=id)
            if changed is None:
                raise not_found("deposit instructions", "id", id)
            changed["status"] = "DEPRECATED"
            database.run(
                "UPDATE fiat_deposit_instructions SET body = ? WHERE id = ?", to_bytes(changed), id
            )
        return changed

    def remove_transfer(self, id: str) -> Json:
        """Let a transfer disappear, as no interface does: neither its id nor a list brings it any
        more. Its events and the balances stay, and of one that is pending nothing comes."""
        with self._settled():
            removed = read_transfer(self._world, id)
            self._cancel_due(id)
            self.service.database.run("DELETE FROM transfers WHERE id = ?", id)
        return removed

    def deposit(self, profile_id: str, amount: str, asset: str = "USD") -> Json:
        """What arrives for a profile by wire, without instructions that it quotes; it completes as
        a simulated wire does."""
        value = units(amount_of(amount, above_zero=True))
        check_asset(asset)
        with self._settled():
            owner = self.service.database.one(
                "SELECT customer_id FROM profiles WHERE id = ?", profile_id
            )
            if owner is None:
                raise not_found("profile", "profile_id", profile_id)
            arrival = Arrival(
                owner[0], TransferType.WIRE_DEPOSIT, profile_id, asset, value, "control", {}
            )
            receive(self._world, arrival)
        return {}

    def finish_transfer(
        self, id: str, status: Literal["COMPLETED", "FAILED"] = "COMPLETED"
    ) -> Json:
        """End a pending transfer now, one way or the other, before it comes due."""
        world = self._world
        with self._settled():
            row = read_transfer(world, id)
            if row["status"] != "PENDING":
                raise invalid("id", f"the transfer is {row['status']}, not PENDING")
            failure = ENDED_BY_HAND if status == "FAILED" else {}
            source = self._cancel_due(id)
            now = world.clock.now_ns()
            if row["direction"] == "DEBIT":
                finish_withdrawal(world, id, now, failure)
            elif failure:
                change_transfer(world, row | failure, TransferStatus.FAILED, now)
            else:
                finish_deposit(world, id, source, now)
            return read_transfer(world, id)

    def _cancel_due(self, id: str) -> str:
        """Let what a transfer waits for not come; the source, of a deposit that would have."""
        database = self.service.database
        source = ""  # what waits for an approval has no time at which it is due
        for seq, kind, subject in database.all("SELECT seq, kind, subject FROM due"):
            due, origin = json.loads(subject) if kind == "deposit" else (subject, "")
            if due == id:
                database.run("DELETE FROM due WHERE seq = ?", seq)
                source = origin
        return source

    # ------------------------------------------------------------------ the bank

    def bank_statement(
        self,
        period: str,
        format: Format = "camt.053",
        *,
        side: Literal["service", "ours"] = "service",
        asset: str = "USD",
        opening: str = "0",
        daily: bool = False,
        page_lines: int | None = None,
        batch: float = 0.0,
        netted_fee: str = "0",
        late_days: int = 0,
        references: float = 1.0,
        errors: dict[Fault, int] | None = None,
        seed: int | None = None,
    ) -> Json:
        """The statement of the bank account behind the fiat transfers, for ``period`` (a year,
        month or day): ``text`` of the file, its ``name``, and what its ``lines`` stand for
        (``bank_ref``, ``booked_on``, ``amount``, ``kind``, ``transfer_ids``).

        ``side`` is the ``service``'s account or ``ours``. ``opening`` is the balance before the
        first transfer ever; periods read with the same options follow on each other. ``daily``
        writes a statement for each day (BAI2 always does), ``page_lines`` pages of so many lines
        (camt.053, MT940). ``batch`` is the share of lines that lump up to six transfers of a day
        and counterparty, ``netted_fee`` what the bank keeps back of every other line that comes
        in, ``late_days`` how much later than it settled a transfer may be valued, ``references``
        the share of lines that carry what the payer wrote. ``errors`` plants so many in every
        month: ``doubled``, ``missing``, ``amount``, ``charge``, ``unknown``, ``sign``.
        """
        kept, start = amount_of(netted_fee), amount_of(opening)
        check_asset(asset)
        for name, share in (("batch", batch), ("references", references)):
            if not 0 <= share <= 1:
                raise invalid(name, "must be from 0 to 1")
        for name, number in (("late_days", late_days), ("page_lines", page_lines or 0)):
            if not 0 <= number <= 10_000:
                raise invalid(name, "must be from 0 to 10,000")
        period_days(period)
        with self._settled():
            transfers = fiat_transfers(self._world, asset)
        lines = book(
            transfers, side=side, seed=self._world.seed if seed is None else seed, batch=batch,
            netted_fee=Decimal(kept), late_days=late_days, references=references,
            errors=errors or {},
        )  # fmt: skip
        account = "4000123456789" if side == "service" else "7000987654321"
        try:
            text, mine = statement_file(
                lines, period, format, asset=asset, account=account, opening=Decimal(start),
                daily=daily, page_lines=page_lines,
            )  # fmt: skip
        except ValueError as error:
            raise invalid("format", str(error)) from None
        ending = {"camt": "xml", "mt94": "sta"}.get(format[:4], format)
        shown = [
            {"bank_ref": line.bank_ref, "booked_on": str(line.booked_on),
             "amount": str(line.amount), "kind": line.kind,
             "transfer_ids": [part[0] for part in line.parts]}
            for line in mine
        ]  # fmt: skip
        return {"name": f"{account}-{period}.{ending}", "format": format, "text": text,
                "lines": shown}  # fmt: skip

    # ------------------------------------------------------------------ behaviour

    def behaviour(self) -> Json:
        """Delays, fees, failures and limits that are in force."""
        return self._world.behaviour.model_dump(mode="json")

    def configure(self, /, **changes: Any) -> Json:
        """Change what is given of the behaviour: members as a file of it has them, see
        `fundlab.sandbox.behaviour`. What is under way already keeps its time."""
        with self._settled():
            self._world.behave(behaviour_of(self.behaviour() | changes))
        return self.behaviour()

    # ------------------------------------------------------------------ faults and log

    def faults(self) -> list[Json]:
        """The faults in force, with how often each struck."""
        return self.service.faults.active()

    def add_fault(self, /, kind: FaultKind, operation: str = ANY, **options: Any) -> Json:
        """Arm a fault; options as ``Faults.add``."""
        return {"number": self.service.faults.add(kind, operation, **options)}

    def remove_fault(self, number: int) -> Json:
        """Disarm the fault of this number."""
        self.service.faults.remove(number)
        return {}

    def clear_faults(self) -> Json:
        """Disarm all faults."""
        self.service.faults.clear()
        return {}

    def requests(self) -> list[Json]:
        """The log of requests, oldest first."""
        return self.service.log.rows()

    def clear_requests(self) -> Json:
        """Empty the log of requests."""
        self.service.log.clear()
        return {}

    # ------------------------------------------------------------------ the whole

    def overview(self) -> Json:
        """What the page shows: clock, balances, the newest transfers and requests, faults."""
        with self._settled():
            balances = self._world.ledger.balances()
            bodies = self.service.database.all(
                "SELECT body FROM transfers ORDER BY seq DESC LIMIT ?", SHOWN
            )
        owned: dict[tuple[str, str], Json] = {}
        for (owner, asset), balance in sorted(balances.items()):
            account, _, profile_id = owner.partition("/")
            if profile_id:
                nothing = dict.fromkeys(("available", "held", "trading"), "0.00")
                called = {"profile_id": profile_id, "name": name_of(profile_id)}
                start = called | {"asset": asset} | nothing
                owned.setdefault((profile_id, asset), start)[account] = units_text(balance)
        return {
            "clock": self.clock(),
            "balances": list(owned.values()),
            "transfers": [json.loads(body) for (body,) in bodies],
            "faults": self.faults(),
            "requests": self.requests()[: -SHOWN - 1 : -1],
        }

    def ledger(self) -> Json:
        """Every ledger account, and per asset what all of them sum to (0 when it holds)."""
        with self._settled():
            totals = self._world.ledger.audit()
            accounts = self._world.ledger.balances()
        return {
            "totals": {asset: units_text(total) for asset, total in totals.items()},
            "accounts": [
                {"owner": owner, "asset": asset, "balance": units_text(balance)}
                for (owner, asset), balance in sorted(accounts.items())
            ],
        }

    def reset(self) -> Json:
        """Start over as on the first day: history, clocks and faults. Credentials, keys, tokens
        and the log of requests stay."""
        start_over(self.service, self.options)
        return self.clock()

    def checkpoint(self, name: str = "start") -> Json:
        """Remember everything as it is now under ``name``, in memory, for ``restore``."""
        kept = self.checkpoints
        if name not in kept and len(kept) >= MAX_CHECKPOINTS:
            raise SandboxError(f"{len(kept)} checkpoints are kept already; use a name again")
        kept[name] = checkpoint(self.service, kept.get(name))
        return {"name": name}

    def restore(self, name: str = "start") -> Json:
        """Put everything back as it was at the checkpoint: history, clocks, credentials, tokens,
        faults and the log of requests. It takes about 1 ms for each thousand transfers."""
        if name not in self.checkpoints:
            known = ", ".join(self.checkpoints) or "none"
            raise SandboxError(f"there is no checkpoint {name!r}; there are {known}")
        go_back(self.service, self.checkpoints[name])
        return self.clock()

    def save(self) -> bytes:
        """The whole state, without credentials, as the bytes of a SQLite file."""
        with self._settled():
            self._world.keep_time()
        return self.service.database.dump()

    def load(self, state: bytes) -> Json:
        """Take over a saved state and its business time; this sandbox's credentials stay."""
        try:
            take_over(self.service, state)
        except sqlite3.DatabaseError as error:
            raise SandboxError(f"not a saved state: {error}") from None
        return self.clock()


def amount_of(text: str, *, above_zero: bool = False) -> Amount:
    try:
        amount = Amount(text)
    except ValueError as error:
        raise invalid("amount", str(error)) from None
    if above_zero and not amount:
        raise invalid("amount", "must be greater than 0")
    return amount
