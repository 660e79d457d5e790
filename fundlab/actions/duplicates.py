"""Duplicate candidates: earlier payments like the planned one, maybe the same wish to pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fundlab.actions.clock import shown_time
from fundlab.actions.intents import Intent, Pages, State
from fundlab.actions.kinds import WITHDRAWAL
from fundlab.actions.plan import Desk, Order
from fundlab.actions.recent import WINDOW, Recent, asked, created_ns
from fundlab.errors import ActionRefused
from fundlab.models import Transfer
from fundlab.values import EXACT


@dataclass(frozen=True)
class Candidate:
    """An earlier payment of the same amount, or the same total, to the same account; ``state`` as
    in the journal."""

    ref_id: str | None
    at: int
    state: State
    status: str | None = None
    transfer_id: str | None = None

    def described(self, now: int) -> str:
        """What is known of it, as the end of a sentence."""
        at = shown_time(self.at, now)
        if self.state == "done":
            known = f"{self.status}, transfer {self.transfer_id}, ref_id {self.ref_id!r}"
            return f"was submitted {at} already ({known})"
        confirmed = f"was confirmed {at} under ref_id {self.ref_id!r}"
        if self.state == "absent":
            return f"{confirmed}, not sent so far; running its own cell again sends it"
        return f"{confirmed}, its outcome is unknown; fl.resume() settles it"


def find_candidates(desk: Desk, wanted: Order, recent: Recent) -> list[Candidate]:
    """Candidates of the last 24 hours: the journal's by its clock, others by the service's.

    Where money is real, the service's clock finds those of the journal too: this machine's may be
    or have been wrong. A sandbox's is a business time, in which a day may take minutes.
    """
    arguments = wanted.arguments
    made, fee = recent.alike(arguments), recent.fee(arguments["fiat_account_id"])
    with desk.journal.reading() as pages:
        noted = journalled_candidates(desk, wanted, pages, fee)
        alike = _alike(pages, arguments, fee, since=0)
    known = {intent.outcome.resource_id for intent in alike}
    if desk.environment.is_production:
        known = {candidate.transfer_id for candidate in noted}
    return noted + [
        Candidate(t.ref_id, created_ns(t), "done", str(t.status), t.id)
        for t in made
        if t.id not in known
    ]


def journalled_candidates(
    desk: Desk, wanted: Order, pages: Pages, fee: Decimal | None
) -> list[Candidate]:
    """Those of the journal for which money moved, or still may; ``fee`` is the account's."""
    return [
        Candidate(
            intent.ref_id, intent.sent_at, intent.outcome.state, intent.outcome.status,
            intent.outcome.resource_id,
        )
        for intent in _alike(pages, wanted.arguments, fee, desk.now() - WINDOW)
        if intent.is_live and intent.ref_id != wanted.ref_id
    ]  # fmt: skip


def _alike(
    pages: Pages, arguments: Mapping[str, Any], fee: Decimal | None, since: int
) -> list[Intent]:
    """Intents that ask for the same, by amount or by total where ``fee`` tells one from the
    other."""
    found = pages.alike(WITHDRAWAL, arguments, since)
    if fee is None:
        return found
    name, wanted = asked(arguments)
    other, sum_of = ("total", EXACT.add) if name == "amount" else ("amount", EXACT.subtract)
    rest = {member: value for member, value in arguments.items() if member != name}
    return found + pages.alike(WITHDRAWAL, {**rest, other: str(sum_of(wanted, fee))}, since)


def refuse_duplicates(wanted: Order, candidates: Sequence[Candidate], now: int) -> None:
    """Refuses a payment that has candidates; nobody said that one more is meant."""
    if not candidates:
        return
    _, how_much = asked(wanted.arguments)
    unknown = next((candidate for candidate in candidates if candidate.state == "unknown"), None)
    advice = (
        "if you mean one more payment, plan it with allow_duplicate=True (--allow-duplicate), and "
        "each further one with a ref_id of its own"
        if unknown is None
        else "settle that first, then plan again"
    )
    raise ActionRefused(
        "duplicate",
        f"{how_much} {wanted.arguments['asset']} to this account "
        f"{(unknown or candidates[0]).described(now)}; nothing was sent: {advice}",
    )


def new_duplicates(
    desk: Desk, wanted: Order, made: Transfer, before: Recent, after: Recent
) -> str | None:
    """What to say of payments like ``made`` that somebody else made at the same time."""
    _, how_much = asked(wanted.arguments)
    known = {transfer.id for transfer in before.transfers} | {made.id}
    alike = after.alike(wanted.arguments)
    with desk.journal.reading() as pages:
        others = [t for t in alike if t.id not in known and not pages.knows(t)]
    if not others:
        return None
    named = ", ".join(f"{t.id} (ref_id {t.ref_id!r}, {t.status})" for t in others)
    return (
        f"possible duplicate: {how_much} {wanted.arguments['asset']} was paid to this account "
        f"as transfer {made.id} (ref_id {made.ref_id!r}), and by another program or machine at the "
        f"same time as {named}: "
        "look at them at once, and ask the service to stop what is too much"
    )
