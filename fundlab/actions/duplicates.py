"""Duplicate candidates: earlier payments like the planned one, maybe the same wish to pay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from fundlab.actions.identity import DAY, NOT_ALIKE, SECOND, asked, shown_time
from fundlab.actions.journal import WITHDRAWAL, Journal, State
from fundlab.actions.plan import Context
from fundlab.errors import ActionRefused
from fundlab.exact import EXACT
from fundlab.models import Transfer, TransferType
from fundlab.values import Instant

_LOOKED_AT: Final = 100
_LONGEST_PAGE: Final = 1000
_FIAT: Final = tuple(
    kind for kind in TransferType if kind.endswith("_WITHDRAWAL") and not kind.startswith("CRYPTO")
)


class Candidate(NamedTuple):
    """An earlier payment to the same account that is, or may be, the same.

    ``how_much`` is what it was asked by, where that is a total and now an amount, or the reverse;
    ``text`` what is known of it, as the end of a sentence.
    """

    state: State
    transfer_id: str | None
    how_much: str | None
    text: str


@dataclass(frozen=True)
class Recent:
    """The newest fiat withdrawals of a profile, newest first: at least those of 24 hours.

    ``within_a_day`` are those of 24 hours that did not fail; ``today`` those of all profiles on
    this UTC day, where a daily limit is to be kept.
    """

    transfers: tuple[Transfer, ...]
    within_a_day: tuple[Transfer, ...]
    today: tuple[Transfer, ...]

    def alike(self, arguments: Mapping[str, Any]) -> list[Transfer]:
        """Those of a day of the same amount (or total) to the same account under another
        ``ref_id``."""
        name, wanted = asked(arguments)
        return [
            transfer
            for transfer in self.within_a_day
            if transfer.fiat_account_id == arguments["fiat_account_id"]
            and getattr(transfer, name) == wanted
            and transfer.asset == arguments["asset"]
            and transfer.ref_id != arguments["ref_id"]
        ]


def recent_withdrawals(context: Context, profile_id: str) -> Recent:
    """Read them: all of the last 24 hours by the service's clock, and the hundred newest.

    A sandbox's business time, which it tells nobody, may be behind: there the 24 hours before its
    newest withdrawal count.
    """
    client, settings = context.client, context.client.settings
    question: dict[str, Any] = {"type": _FIAT, "order": "DESC", "order_by": "CREATED_AT"}
    found = list(
        client.list_transfers(
            **question, profile_ids=[profile_id], page_size=_LOOKED_AT, max_rows=_LOOKED_AT
        )
    )
    now = context.now() + round(client.transport.skew_s * SECOND)  # by the service's clock
    since = now - DAY
    newest = found[0].created_at if found else None
    if newest is not None and not settings.is_production:
        since = min(since, newest.ns - DAY)
    oldest = found[-1].created_at if len(found) == _LOOKED_AT else None
    if oldest is not None and oldest.ns >= since:
        # rows of one moment may straddle the cut: ask from there on, and leave out what is known
        more = client.list_transfers(
            **question, profile_ids=[profile_id], created_at_lte=str(oldest),
            created_at_gte=str(Instant.from_ns(since)), page_size=_LONGEST_PAGE,
        )  # fmt: skip
        known = {transfer.id for transfer in found}
        found += [transfer for transfer in more if transfer.id not in known]
    today: tuple[Transfer, ...] = ()
    if settings.daily_withdrawal_limit is not None and settings.is_production:
        # only where money is real: a sandbox's history and business day are not the user's
        midnight = str(Instant.from_ns(now - now % DAY))
        today = tuple(
            client.list_transfers(**question, created_at_gte=midnight, page_size=_LONGEST_PAGE)
        )
    within_a_day = tuple(
        t
        for t in found
        if t.status != "FAILED" and (t.created_at is None or t.created_at.ns >= since)
    )
    return Recent(tuple(found), within_a_day, today)


def duplicate_candidates(
    context: Context, arguments: Mapping[str, Any], recent: Recent
) -> list[Candidate]:
    """Candidates of the last 24 hours: the journal's by its clock, others by the service's.

    Where money is real, the service's clock finds those of the journal too: this machine's may be
    or have been wrong. A sandbox's is a business time, in which a day may take minutes.
    """
    now, book = context.now(), context.journal
    found = journalled_candidates(context, arguments, book)
    listed = {candidate.transfer_id for candidate in found}
    for transfer in recent.alike(arguments):
        if context.client.settings.is_production:
            known = transfer.id in listed
        else:
            entry = book.find(transfer.ref_id or "")
            known = entry is not None and entry.resource_id == transfer.id
        if not known:
            made_at = transfer.created_at
            at = "at a time not shown" if made_at is None else shown_time(made_at.ns, now)
            found.append(
                Candidate(
                    "done", transfer.id, None,
                    f"was submitted {at} already ({transfer.status}, transfer {transfer.id}, "
                    f"ref_id {transfer.ref_id!r})",
                )
            )  # fmt: skip
    return found


def journalled_candidates(
    context: Context, arguments: Mapping[str, Any], book: Journal
) -> list[Candidate]:
    """Those of the journal for which money moved, or still may; also by total where an amount is
    asked for, or the reverse.

    What an earlier withdrawal cost does not tell what this one did: until its own fee is known,
    every amount up to a total may be the same as that total.
    """
    now, (name, wanted) = context.now(), asked(arguments)
    aside = ("amount", "total", *NOT_ALIKE)
    rest = {key: value for key, value in arguments.items() if key not in aside}
    found = []
    for entry in book.alike(WITHDRAWAL, arguments, now - DAY):
        theirs = entry.arguments
        if not entry.is_live or entry.ref_id == arguments["ref_id"]:
            continue
        if rest != {key: value for key, value in theirs.items() if key not in aside}:
            continue
        other, how_much = asked(theirs)
        if other == name:
            is_alike, shown = how_much == wanted, None
        else:
            amount, total = (wanted, how_much) if other == "total" else (how_much, wanted)
            fee = None if entry.fee is None else Decimal(entry.fee)
            is_alike = amount <= total if fee is None else EXACT.add(amount, fee) == total
            shown = f"{other}={how_much} {arguments['asset']}, maybe the same payment,"
        at = shown_time(entry.sent_at, now)
        if entry.state == "done":
            known = f"{entry.status}, transfer {entry.resource_id}, ref_id {entry.ref_id!r}"
            text = f"was submitted {at} already ({known})"
        elif entry.state == "absent":
            text = (
                f"was confirmed {at} under ref_id {entry.ref_id!r}, not sent so far; running its "
                "own cell again sends it"
            )
        else:
            text = (
                f"was confirmed {at} under ref_id {entry.ref_id!r}, its outcome is unknown; "
                "fl.resume() settles it"
            )
        if is_alike:
            found.append(Candidate(entry.state, entry.resource_id, shown, text))
    return sorted(found, key=lambda candidate: candidate.how_much is not None)


def refuse_duplicates(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> None:
    """Refuses a payment that has candidates; nobody said that one more is meant."""
    if not candidates:
        return
    unknown = next((candidate for candidate in candidates if candidate.state == "unknown"), None)
    advice = (
        "if you mean one more payment, plan it with allow_duplicate=True (--allow-duplicate), and "
        "each further one with a ref_id of its own"
        if unknown is None
        else "settle that first, then plan again"
    )
    shown = unknown or candidates[0]
    what = shown.how_much or f"{asked(arguments)[1]} {arguments['asset']}"
    raise ActionRefused(
        "duplicate", f"{what} to this account {shown.text}; nothing was sent: {advice}"
    )
