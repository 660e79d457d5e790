"""Limits of one's own, from the settings; nothing but changing the settings gets round them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from fundlab.actions.clock import start_of_day
from fundlab.actions.intents import Intent, Journal, Pages
from fundlab.errors import ActionRefused
from fundlab.settings import Settings

WITHDRAWAL: Final = "create_fiat_withdrawal"
_CHANGE: Final = "nothing was sent: pay less, or change the setting"


def check_limits(settings: Settings, fiat_account_id: str, amount: Decimal) -> None:
    """Refuses a withdrawal above ``withdrawal_limit`` or to an account that is not allowed."""
    limit, allowed = settings.withdrawal_limit, settings.allowed_accounts
    if limit is not None and amount > limit:
        raise ActionRefused(
            "own_limit",
            f"amount={amount} is {amount - limit} above your limit of {limit} for one withdrawal "
            f"(setting withdrawal_limit); {_CHANGE}",
        )
    if allowed is not None and fiat_account_id not in allowed:
        raise ActionRefused(
            "own_limit",
            f"fiat_account_id={fiat_account_id!r} is none of your {len(allowed)} allowed accounts "
            "(setting allowed_accounts); nothing was sent: pay one of those, or add it there",
        )


def check_daily_limit(
    settings: Settings,
    journal: Journal | Pages,
    amounts: Sequence[Decimal],
    ref_ids: Sequence[str],
    now: int,
) -> None:
    """Refuses what would bring this UTC day's withdrawals in the journal above the daily limit."""
    limit = settings.daily_withdrawal_limit
    if limit is None:
        return
    earlier = journal.recorded_since(WITHDRAWAL, start_of_day(now))
    spent = sum(
        (
            amount_of(intent)
            for intent in earlier
            if intent.is_live and intent.ref_id not in ref_ids
        ),
        Decimal(0),
    )
    wanted = sum(amounts, Decimal(0))
    if spent + wanted > limit:
        raise ActionRefused(
            "own_limit",
            f"amount={wanted} with the {spent} already withdrawn today (UTC) is "
            f"{spent + wanted - limit} above your daily limit of {limit} (setting "
            f"daily_withdrawal_limit); {_CHANGE}",
        )


def amount_of(intent: Intent) -> Decimal:
    return Decimal(intent.facts.get("amount") or 0)
