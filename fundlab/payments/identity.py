"""Which payment is this?

A cell is run again, a kernel restarted, a notebook copied: none of that is a new wish to pay. So a
payment is known by what was asked for, not by when or where the cell ran:

- Its **ref_id**, unless given, is derived from its arguments and the journal's random id. The same
  arguments by the same user are therefore the same payment, today and next year, in whichever
  folder the notebook lies, and a rerun finds it in the journal. A colleague has another journal,
  hence other ref_ids: a colleague's payment is never silently taken for one's own (the service's
  recent transfers are looked at instead).
- A second payment alike is a decision, and must be stable under reruns too: it gets a ``ref_id`` of
  its own (``"rent-2026-12"``), or ``allow_duplicate=True``, which stands for *one* more payment
  with these arguments; running that cell again finds that one.
- ``100`` and ``100.00`` are the same amount. Metadata and memo belong to the arguments, yet do not
  make two payments of one when duplicates are looked for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

from fundlab.base.errors import ActionRefused
from fundlab.base.exact import EXACT
from fundlab.base.values import Amount, plain_text
from fundlab.client.identity import WITHDRAWAL as WITHDRAWAL

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
"""In nanoseconds, as all moments here."""
NOT_ALIKE: Final = ("ref_id", "metadata", "memo")
"""What may differ between a payment and its duplicate."""
State = Literal["unknown", "done", "refused", "absent"]
UPDATE: Final = "update_fiat_account"  # it makes nothing, but changes what is shown by its id
NOUNS: Final[Mapping[str, str]] = {
    WITHDRAWAL: "withdrawal",
    "create_fiat_account": "fiat account",
    UPDATE: "account update",
    "create_fiat_deposit_instructions": "deposit instructions",
    "create_deposit_address": "deposit address",
    "create_orchestration_rule": "orchestration rule",
}
"""The operations that are journalled, and what messages call them."""
_IDS: Final = ("profile_id", "fiat_account_id", "identity_id", "account_id")
_OTHER_NAMES: Final = {"wallet_address": "cubix.account_id"}  # two layouts of one number
_NUMBERS: Final = (".account_number", ".cubix.account_id")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was confirmed, and what is known to have become of it; times in ns since 1970.

    ``recorded_at`` is when it was confirmed first, in the journal with the id ``origin``,
    ``sent_at`` when it was last about to be sent. ``facts`` may be shown; ``body`` is what was
    sent, or of bank details only digests. ``detail`` says why it is in its ``state``.
    """

    number: int
    origin: str
    ref_id: str
    operation: str
    recorded_at: int
    fingerprint: str
    body: bytes = field(repr=False)
    facts: Mapping[str, str | None]
    batch: str | None
    store: str | None
    sent_at: int
    state: State
    noted_at: int
    resource_id: str | None
    status: str | None
    fee: str | None
    total: str | None
    detail: str | None

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords that send it again; a copy."""
        given: dict[str, Any] = json.loads(self.body)
        return given

    @property
    def is_derived(self) -> bool:
        """Whether the ``ref_id`` was derived with a journal's id, so that nobody else has it."""
        return self.ref_id.endswith(f"-{self.fingerprint[:32]}")

    def is_live(self, failed: Collection[str]) -> bool:
        """Whether money moved for it, or still may; ``failed`` are the transfers that the service
        has just shown as failed. Of one in doubt they say nothing."""
        if self.state == "done" and self.resource_id in failed:
            return False
        return self.state != "refused" and self.status != "FAILED"

    @property
    def is_settled(self) -> bool:
        """Whether it was made, and what it came to is known."""
        return self.state == "done" and self.status != "PENDING"

    @property
    def amount(self) -> Decimal:
        """What a withdrawal sent, as far as is known; of one by total else that total."""
        name, how_much = asked(self.arguments)
        if name == "total" and self.fee is not None and self.total is not None:
            return EXACT.subtract(Decimal(self.total), Decimal(self.fee))
        return how_much

    def asks(self, operation: str, arguments: Mapping[str, Any]) -> bool:
        """Whether it was confirmed for this; else they only share a ``ref_id``."""
        same = keyed(self.origin, operation, arguments)
        return (self.operation, self.fingerprint) == (operation, same)

    def check_asks(self, operation: str, arguments: Mapping[str, Any], now: int) -> None:
        """Refuses a ``ref_id`` of the caller's that was confirmed for something else."""
        if self.asks(operation, arguments):
            return
        was = ", ".join(str(value) for value in self.facts.values() if value)
        raise ActionRefused(
            "ref_id",
            f"ref_id={self.ref_id!r} stands for another action, confirmed "
            f"{shown_time(self.recorded_at, now)} ({was}); nothing was sent: choose another "
            "ref_id for this one",
        )


def asked(arguments: Mapping[str, Any]) -> tuple[Literal["amount", "total"], Amount]:
    """Which of the two a withdrawal is asked for by, and how much."""
    name: Literal["amount", "total"] = "total" if "total" in arguments else "amount"
    return name, Amount(arguments[name])


def canonical(value: Mapping[str, Any]) -> str:
    """One text for equal arguments, however their amounts and ids are written."""
    same = {
        name: plain_text(Decimal(text))
        if name in ("amount", "total")
        else text.casefold()
        if name in _IDS
        else text
        for name, text in value.items()
    }
    return json.dumps(same, sort_keys=True, separators=(",", ":"))


def keyed(
    journal_id: str, what: str, value: Mapping[str, Any], without: Collection[str] = ("ref_id",)
) -> str:
    """A digest of ``value`` that says nothing, of bank details say, to who has not the journal.

    Of what was asked for: equal for equal arguments in one journal, whatever the ``ref_id``.
    """
    kept = {name: member for name, member in value.items() if name not in without}
    text = f"{what}\n{canonical(kept)}"
    return hmac.new(journal_id.encode(), text.encode(), hashlib.sha256).hexdigest()


def traces(journal_id: str, details: Any, path: str = "") -> dict[str, str]:
    """A keyed digest of each text in ``details`` by its path.

    An update whose answer was lost is recognised by them: the journal may hold no bank details. Of
    numbers only the last four characters count, for a service may mask the others.
    """
    if isinstance(details, Mapping) and path != ".metadata":
        return {
            inner: digest
            for name, member in details.items()
            for inner, digest in traces(
                journal_id, member, f"{path}.{_OTHER_NAMES.get(name, name)}"
            ).items()
        }
    if details is None:
        return {}
    text = details if isinstance(details, str) else json.dumps(details, sort_keys=True)
    shown = text[-4:] if path.endswith(_NUMBERS) else text
    return {path: keyed(journal_id, path, {"text": shown})[:32]}


def shown_time(ns: int, now: int) -> str:
    """``14:02 UTC``, or ``2026-11-20 14:02 UTC`` on another day than ``now``'s."""
    moment = datetime.fromtimestamp(ns // SECOND, UTC)
    same_day = ns // DAY == now // DAY
    return f"{moment:%H:%M} UTC" if same_day else f"{moment:%Y-%m-%d %H:%M} UTC"
