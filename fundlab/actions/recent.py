"""A profile's recent withdrawals, as the service has them: likely duplicates, the usual fee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from fundlab.actions.clock import DAY, ahead, start_of_day
from fundlab.models import Transfer, TransferType
from fundlab.values import Amount, Instant

if TYPE_CHECKING:
    from fundlab.api.client import Client

WINDOW: Final = DAY
_LOOKED_AT: Final = 100
_LONGEST_PAGE: Final = 1000
_FIAT: Final = tuple(
    kind for kind in TransferType if kind.endswith("_WITHDRAWAL") and not kind.startswith("CRYPTO")
)


@dataclass(frozen=True)
class Recent:
    """The newest fiat withdrawals of a profile (at least those of 24 hours), newest first.

    ``today`` are those of all profiles on this UTC day, where a daily limit is to be kept.
    """

    transfers: tuple[Transfer, ...]
    since: int  # nanoseconds since 1970: what is older is not recent
    today: tuple[Transfer, ...] = ()

    def to_account(self, fiat_account_id: str) -> list[Transfer]:
        """The recent ones to one account, failed ones left out."""
        return [
            transfer
            for transfer in self.transfers
            if transfer.fiat_account_id == fiat_account_id
            and transfer.status != "FAILED"
            and created_ns(transfer) >= self.since
        ]

    def alike(self, arguments: Mapping[str, Any]) -> list[Transfer]:
        """Recent ones of the same amount (or total) to the same account under another
        ``ref_id``."""
        name, wanted = asked(arguments)
        return [
            transfer
            for transfer in self.to_account(arguments["fiat_account_id"])
            if getattr(transfer, name) == wanted
            and transfer.asset == arguments["asset"]
            and transfer.ref_id != arguments["ref_id"]
        ]

    def fee(self, fiat_account_id: str) -> Decimal | None:
        """What the last withdrawal to the account cost; ``None`` if there was none."""
        paid = (t.fee for t in self.transfers if t.fiat_account_id == fiat_account_id)
        return next((fee for fee in paid if fee is not None), None)

    def usual_fees(self, network: str) -> list[Decimal]:
        """The fees of late on ``WIRE`` or ``CUBIX``, each once, lowest first."""
        kind = f"{network}_WITHDRAWAL"
        fees = (t.fee for t in self.transfers if t.type == kind)
        return sorted({fee for fee in fees if fee is not None})


def asked(arguments: Mapping[str, Any]) -> tuple[Literal["amount", "total"], Amount]:
    """Which of the two a withdrawal is asked for by, and how much."""
    name: Literal["amount", "total"] = "total" if "total" in arguments else "amount"
    return name, Amount(arguments[name])


def recent_withdrawals(client: Client, profile_id: str, now: int) -> Recent:
    """Read them: all of the last 24 hours by the service's clock, and the hundred newest.

    A sandbox's business time, which it tells nobody, may be behind: there the 24 hours before its
    newest withdrawal count.
    """
    asked: dict[str, Any] = {
        "profile_ids": [profile_id], "type": _FIAT, "order": "DESC", "order_by": "CREATED_AT",
    }  # fmt: skip
    found = list(client.list_transfers(**asked, page_size=_LOOKED_AT, max_rows=_LOOKED_AT))
    since = now + ahead(client) - WINDOW
    if found and not client.settings.is_production:
        since = min(since, created_ns(found[0]) - WINDOW)
    if len(found) == _LOOKED_AT and created_ns(found[-1]) >= since:
        # rows of one moment may straddle the cut: ask from there on, and leave out what is known
        more = client.list_transfers(
            **asked, created_at_lte=str(found[-1].created_at),
            created_at_gte=str(Instant.from_ns(since)), page_size=_LONGEST_PAGE,
        )  # fmt: skip
        known = {transfer.id for transfer in found}
        found += [transfer for transfer in more if transfer.id not in known]
    return Recent(tuple(found), since, _of_today(client, now))


def _of_today(client: Client, now: int) -> tuple[Transfer, ...]:
    """What a daily limit counts beside the journal: where money is real, for a sandbox's history
    and business day are not the user's."""
    settings = client.settings
    if settings.daily_withdrawal_limit is None or not settings.is_production:
        return ()
    today = str(Instant.from_ns(start_of_day(now + ahead(client))))
    return tuple(
        client.list_transfers(
            type=_FIAT, order="DESC", order_by="CREATED_AT", created_at_gte=today,
            page_size=_LONGEST_PAGE,
        )
    )  # fmt: skip


def created_ns(transfer: Transfer) -> int:
    return transfer.created_at.ns if transfer.created_at is not None else 0
