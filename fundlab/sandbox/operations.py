"""One handler for each operation of §4: a checked request in, a rendered answer out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fundlab.models import Query, Request
from fundlab.sandbox import accounts, pages, quotes, rules, transfers
from fundlab.sandbox.ledger import available, trading, units_text
from fundlab.sandbox.problems import not_found
from fundlab.sandbox.world import ASSETS, World, to_bytes


@dataclass(frozen=True)
class Call:
    """What a handler needs of a request that passed all checks of access and form."""

    customer_id: str
    path: Mapping[str, str] = field(default_factory=dict)
    body: Request | None = None
    query: Query | None = None
    late_s: float = 0


Handler = Callable[[World, Call], bytes]


def _create(make: Callable[[World, str, Any], Mapping[str, Any]]) -> Handler:
    return lambda world, call: to_bytes(make(world, call.customer_id, call.body))


def _get(table: str, what: str) -> Handler:
    return lambda world, call: world.get(table, what, call.customer_id, call.path["id"])


def _list(world: World, call: Call) -> bytes:
    if call.query is None:
        raise TypeError("a list needs a query")
    return pages.page(world.database, world.cursor_key, call.customer_id, call.query)


def _deposit(world: World, call: Call) -> bytes:
    wanted: Any = call.body
    transfers.initiate_deposit(world, call.customer_id, wanted, late_s=call.late_s)
    return b""


def _update_fiat_account(world: World, call: Call) -> bytes:
    wanted: Any = call.body
    account_id = call.path["id"]
    return to_bytes(accounts.update_fiat_account(world, call.customer_id, account_id, wanted))


def _create_rule(world: World, call: Call) -> bytes:
    wanted: Any = call.body
    return to_bytes({"rule": rules.create_rule(world, call.customer_id, wanted)})


def _balance(world: World, call: Call) -> bytes:
    profile_id, asset = call.path["profile_id"], call.path["asset"]
    world.check_profile(call.customer_id, profile_id)
    if asset not in ASSETS:
        raise not_found("asset", "asset", asset)
    balance = {
        "asset": asset,
        "available": units_text(world.ledger.balance(available(profile_id), asset)),
        "trading": units_text(world.ledger.balance(trading(profile_id), asset)),
    }
    return to_bytes(balance)


HANDLERS: Final[Mapping[str, Handler]] = {
    "create_fiat_deposit_instructions": _create(accounts.create_instructions),
    "get_fiat_deposit_instructions": _get("fiat_deposit_instructions", "deposit instructions"),
    "list_fiat_deposit_instructions": _list,
    "initiate_sandbox_fiat_deposit": _deposit,
    "list_transfers": _list,
    "get_transfer": _get("transfers", "transfer"),
    "get_profile_balance": _balance,
    "create_fiat_account": _create(accounts.create_fiat_account),
    "get_fiat_account": _get("fiat_accounts", "fiat account"),
    "update_fiat_account": _update_fiat_account,
    "list_fiat_accounts": _list,
    "create_fiat_withdrawal": _create(transfers.create_withdrawal),
    "create_deposit_address": _create(accounts.create_deposit_address),
    "create_orchestration_rule": _create_rule,
    "list_crypto_destination_addresses": _list,
    "create_crypto_withdrawal_fee": _create(quotes.create_fee_quote),
    "list_events": _list,
}
