"""Duplicate candidates: earlier payments like the planned one, maybe the same wish to pay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from fundlab.actions.clock import shown_time
from fundlab.actions.intents import Intent, Pages, State
from fundlab.actions.kinds import WITHDRAWAL
from fundlab.actions.plan import Desk, Order
from fundlab.actions.recent import WINDOW, Recent, asked, created_ns
from fundlab.actions.submission import arguments_of
from fundlab.errors import ActionRefused
from fundlab.models import Transfer
from fundlab.values import EXACT


@dataclass(frozen=True)
class Candidate:
    """An earlier payment to the same account that is, or may be, the same; ``state`` as in the
    journal.

    ``how_much`` is what it was asked by, where that is a total and now an amount, or the reverse.
    """

    ref_id: str | None
    at: int
    state: State
    status: str | None = None
    transfer_id: str | None = None
    how_much: str | None = None

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
    made = recent.alike(wanted.arguments)
    with desk.journal.reading() as pages:
        noted = journalled_candidates(desk, wanted, pages)
        known = {t.id for t in made if _is_of(pages, t)}
    if desk.environment.is_production:
        known = {str(candidate.transfer_id) for candidate in noted}
    return noted + [
        Candidate(t.ref_id, created_ns(t), "done", str(t.status), t.id)
        for t in made
        if t.id not in known
    ]


def _is_of(pages: Pages, transfer: Transfer) -> bool:
    """Whether the journal notes that it made ``transfer``."""
    intent = pages.find(transfer.ref_id or "")
    return intent is not None and intent.outcome.resource_id == transfer.id


def journalled_candidates(desk: Desk, wanted: Order, pages: Pages) -> list[Candidate]:
    """Those of the journal for which money moved, or still may."""
    since, arguments = desk.now() - WINDOW, wanted.arguments
    found: list[tuple[Intent, str | None]] = [
        (intent, None) for intent in pages.alike(WITHDRAWAL, arguments, since)
    ]
    found += _in_the_other_form(pages, arguments, since)
    return [
        Candidate(
            intent.ref_id, intent.sent_at, intent.outcome.state, intent.outcome.status,
            intent.outcome.resource_id, how_much,
        )
        for intent, how_much in found
        if intent.is_live and intent.ref_id != wanted.ref_id
    ]  # fmt: skip


def _in_the_other_form(
    pages: Pages, arguments: Mapping[str, Any], since: int
) -> Iterator[tuple[Intent, str]]:
    """Intents by total where an amount is asked for, or the reverse, that may be the same payment.

    What an earlier withdrawal cost does not tell what this one did: until its own fee is known,
    every amount up to a total may be the same as that total.
    """
    name, wanted = asked(arguments)
    rest = _besides_the_sum(arguments)
    for intent in pages.to_account(WITHDRAWAL, arguments["fiat_account_id"], since):
        other, how_much = asked(arguments_of(intent))
        if other == name or _besides_the_sum(arguments_of(intent)) != rest:
            continue
        amount, total = (wanted, how_much) if other == "total" else (how_much, wanted)
        fee = intent.outcome.fee
        if amount <= total if fee is None else EXACT.add(amount, Decimal(fee)) == total:
            yield intent, f"{other}={how_much} {arguments['asset']}, maybe the same payment,"


def _besides_the_sum(arguments: Mapping[str, Any]) -> dict[str, Any]:
    aside = ("amount", "total", "ref_id", "metadata", "memo")
    return {name: value for name, value in arguments.items() if name not in aside}


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
    shown = unknown or candidates[0]
    what = shown.how_much or f"{how_much} {wanted.arguments['asset']}"
    raise ActionRefused(
        "duplicate",
        f"{what} to this account {shown.described(now)}; nothing was sent: {advice}",
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
