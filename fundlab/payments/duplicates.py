"""Is there another payment like this one? The journal and the newest withdrawals may know.

Which arguments make a payment another is said by `fundlab.payments.identity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fundlab.base.errors import ActionRefused
from fundlab.base.exact import EXACT
from fundlab.base.values import Instant
from fundlab.client.identity import is_this_payment
from fundlab.models import Transfer, TransferType
from fundlab.payments.identity import (
    DAY,
    NOT_ALIKE,
    WITHDRAWAL,
    State,
    asked,
    canonical,
    shown_time,
)
from fundlab.payments.journal import Journal
from fundlab.payments.plan import Context

if TYPE_CHECKING:
    from fundlab.client.client import Client

MOST_SHOWN: Final = 3
_LOOKED_AT: Final = 25  # usually more than a day of a profile's withdrawals
_CLOCKS_APART_S: Final = 300
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
    """The newest fiat withdrawals of a profile: at least those of 24 hours, from ``since`` (ns) on.

    ``within_a_day`` are those that did not fail; ``today`` those of all profiles on this UTC day,
    where a daily limit is to be kept; ``trouble`` is what keeps the look from being complete.
    """

    transfers: tuple[Transfer, ...]
    within_a_day: tuple[Transfer, ...]
    today: tuple[Transfer, ...]
    since: int
    trouble: tuple[str, ...] = ()

    def alike(self, arguments: Mapping[str, Any], answer: str = "yes") -> list[Transfer]:
        """Those of a day that ask for the same under another ``ref_id``; with ``"unknown"`` those
        that do not show whether they do."""
        return [
            transfer
            for transfer in self.within_a_day
            if (transfer.ref_id or "").casefold() != arguments["ref_id"].casefold()
            and alike(arguments, transfer) == answer
        ]

    def unchecked(self, client: Client, arguments: Mapping[str, Any]) -> list[str]:
        """What could not be checked: of a few, Get may show what their list does not."""
        lines = list(self.trouble)
        for number, transfer in enumerate(self.alike(arguments, "unknown")):
            if number < MOST_SHOWN and alike(arguments, client.get_transfer(transfer.id)) == "no":
                continue
            lines.append(f"whether transfer {transfer.id} is a duplicate, which the service does "
                         "not show enough of")  # fmt: skip
            if number >= MOST_SHOWN:
                break
        return lines


def failed_in(*looks: Iterable[Transfer]) -> set[str]:
    """The transfers that the service showed as failed in any of ``looks``."""
    return {transfer.id for look in looks for transfer in look if transfer.status == "FAILED"}


def alike(arguments: Mapping[str, Any], transfer: Transfer) -> str:
    """Whether ``transfer`` may be the same payment under another name: yes, no or unknown."""
    name, wanted = asked(arguments)
    if getattr(transfer, name) not in (None, wanted):
        return "no"
    found = is_this_payment(arguments, transfer.to_json(), ours=True, without=NOT_ALIKE)
    return found.answer


def recent_withdrawals(context: Context, profile_id: str, before: Recent | None = None) -> Recent:
    """Read them: all of the last 24 hours, by the service's clock and this one, and what they lack
    of the ``_LOOKED_AT`` newest; with what was seen ``before`` only those of 24 hours anew."""
    client, settings = context.client, context.client.settings
    question: dict[str, Any] = {
        "type": _FIAT, "order": "DESC", "order_by": "CREATED_AT", "profile_ids": [profile_id],
    }  # fmt: skip
    newest = [*before.transfers] if before is not None else [
        *client.list_transfers(**question, page_size=_LOOKED_AT, max_rows=_LOOKED_AT)
    ]  # fmt: skip
    times = [transfer.created_at.ns for transfer in newest if transfer.created_at is not None]
    ordered = len(times) == len(newest) and times == sorted(times, reverse=True)
    skew_s, now = client.transport.skew_s, client.transport.service_ns(context.now())
    since = min(now, context.now()) - DAY
    transfers, full = newest, len(newest) >= _LOOKED_AT
    if before is not None or (full and not (ordered and times[-1] < since)):
        # all since then; what is known already is left out
        more = client.list_transfers(
            **question, created_at_gte=str(Instant.from_ns(since)), page_size=_LONGEST_PAGE
        )
        anew = {transfer.id: transfer for transfer in more}
        transfers = [*anew.values(), *(one for one in newest if one.id not in anew)]
    today: tuple[Transfer, ...] = ()
    daily = settings.daily_withdrawal_limit, settings.approval_daily_from
    if any(limit is not None for limit in daily) and settings.is_production:
        # only where money is real: a sandbox's history is not the user's
        question["profile_ids"], day = None, min(now - now % DAY, context.now())
        midnight = str(Instant.from_ns(day))
        today = tuple(
            client.list_transfers(**question, created_at_gte=midnight, page_size=_LONGEST_PAGE)
        )
    within_a_day = tuple(
        t
        for t in transfers
        if t.status != "FAILED" and (t.created_at is None or t.created_at.ns >= since)
    )
    trouble: tuple[str, ...] = ()
    if abs(skew_s) > _CLOCKS_APART_S:
        trouble = (
            f"duplicates and limits by one clock: this machine's and the service's are "
            f"{abs(skew_s):,.0f} s apart",
        )  # fmt: skip
    return Recent(tuple(transfers), within_a_day, today, since, trouble)


def duplicate_candidates(
    context: Context, arguments: Mapping[str, Any], book: Journal, recent: Recent,
    *, of_the_service: bool = True,
) -> list[Candidate]:  # fmt: skip
    """Candidates of the last 24 hours: the journal's by its clock, for which money moved or still
    may, less what ``recent`` shows as failed, also by total where an amount is asked for, or the
    reverse; and others that ``recent`` shows, by the clock ``of_the_service``, if not left out.

    What an earlier withdrawal cost does not tell what this one did: until its own fee is known,
    every amount up to a total may be the same as that total. The service's clock finds those of
    the journal too: this machine's may be or have been wrong.
    """
    now, (name, wanted) = context.now(), asked(arguments)
    aside = ("amount", "total", *NOT_ALIKE)
    rest = canonical({key: value for key, value in arguments.items() if key not in aside})
    failed = failed_in(recent.transfers)
    candidates = []
    for entry in book.alike(WITHDRAWAL, arguments, now - DAY):
        theirs = entry.arguments
        if not entry.is_live(failed) or entry.ref_id.casefold() == arguments["ref_id"].casefold():
            continue
        if rest != canonical({key: one for key, one in theirs.items() if key not in aside}):
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
            candidates.append(Candidate(entry.state, entry.resource_id, shown, text))
    candidates.sort(key=lambda candidate: candidate.how_much is not None)
    listed = {candidate.transfer_id for candidate in candidates}
    for transfer in recent.alike(arguments) if of_the_service else []:
        if transfer.id not in listed:
            made_at = transfer.created_at
            at = "at a time not shown" if made_at is None else shown_time(made_at.ns, now)
            text = f"was submitted {at} already ({transfer.status}, transfer {transfer.id}, "
            text += f"ref_id {transfer.ref_id!r})"
            candidates.append(Candidate("done", transfer.id, None, text))
    return candidates


def refuse_duplicates(arguments: Mapping[str, Any], candidates: Sequence[Candidate]) -> None:
    """Refuses a payment that has candidates; nobody said that one more is meant."""
    if not candidates:
        return
    unknown = next((candidate for candidate in candidates if candidate.state == "unknown"), None)
    advice = (
        "if you mean one more payment, plan it with allow_duplicate=True (--allow-duplicate), and "
        "each further one with a ref_id of its own (--ref-id)"
        if unknown is None
        else "settle that first, then plan again"
    )
    shown = unknown or candidates[0]
    what = shown.how_much or f"{asked(arguments)[1]} {arguments['asset']}"
    raise ActionRefused(
        "duplicate", f"{what} to this account {shown.text}; nothing was sent: {advice}"
    )
