"""Limits of one's own, from the settings; nothing but changing the settings gets round them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from fundlab.actions.clock import start_of_day
from fundlab.actions.intents import Intent, Pages
from fundlab.actions.kinds import WITHDRAWAL
from fundlab.actions.recent import asked
from fundlab.actions.submission import arguments_of
from fundlab.errors import ActionRefused
from fundlab.models import Transfer
from fundlab.settings import Settings
from fundlab.values import EXACT, exact_sum

_CHANGE: Final = "nothing was sent: pay less, or change the setting"


def check_limits(settings: Settings, arguments: Mapping[str, Any]) -> None:
    """Refuses a withdrawal above ``withdrawal_limit`` or to an account that is not allowed.

    One by total counts with its total: what its fee will leave of it is not known before.
    """
    name, amount = asked(arguments)
    fiat_account_id = arguments["fiat_account_id"]
    limit, allowed = settings.withdrawal_limit, settings.allowed_accounts
    if limit is not None and amount > limit:
        above = EXACT.subtract(amount, limit)
        raise ActionRefused(
            "own_limit",
            f"{name}={amount} is {above} above your limit of {limit} for one withdrawal "
            f"(setting withdrawal_limit); {_CHANGE}",
        )
    if allowed is not None and fiat_account_id not in allowed:
        raise ActionRefused(
            "own_limit",
            f"fiat_account_id={fiat_account_id!r} is not one of your {len(allowed)} allowed "
            "accounts (setting allowed_accounts); nothing was sent: pay one of those, or add it "
            "there",
        )


def check_daily_limit(
    settings: Settings,
    pages: Pages,
    amounts: Sequence[Decimal],
    ref_ids: Sequence[str],
    now: int,
    shown: Iterable[Transfer],
) -> None:
    """Refuses what would bring the withdrawals sent on this UTC day above the daily limit.

    ``shown`` are those the service shows: which the journal knows, it counts only once.
    """
    limit = settings.daily_withdrawal_limit
    if limit is None:
        return
    noted = {
        intent.outcome.resource_id or intent.ref_id: amount_of(intent)
        for intent in pages.sent_since(WITHDRAWAL, start_of_day(now))
        if intent.is_live and intent.ref_id not in ref_ids
    }
    others = {
        transfer.id: transfer.amount or Decimal(0)
        for transfer in shown
        if transfer.status != "FAILED"
        and transfer.ref_id not in ref_ids
        and not pages.knows(transfer)
    }
    spent = exact_sum((*noted.values(), *others.values()))
    wanted = exact_sum(amounts)
    above = EXACT.subtract(EXACT.add(spent, wanted), limit)
    if above > 0:
        raise ActionRefused(
            "own_limit",
            f"{wanted} with the {spent} already withdrawn today (UTC) is {above} above your "
            f"daily limit of {limit} (setting daily_withdrawal_limit); {_CHANGE}",
        )


def amount_of(intent: Intent) -> Decimal:
    """What the withdrawal sent, as far as is known; of one by total else that total."""
    name, how_much = asked(arguments_of(intent))
    fee, total = intent.outcome.fee, intent.outcome.total
    if name == "total" and fee is not None and total is not None:
        return EXACT.subtract(Decimal(total), Decimal(fee))
    return how_much
