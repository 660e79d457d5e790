"""Orchestration rules: the plan says in words what will be converted into what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fundlab.client.arguments import Asset, End
from fundlab.display import Row
from fundlab.evidence.table_store import TableStore
from fundlab.models import OrchestrationRule
from fundlab.payments.plan import Plan, context_of, given_rows, new_plan
from fundlab.settings.labels import with_name

if TYPE_CHECKING:
    from fundlab.client.client import Client


def plan_rule(
    client: Client,
    *,
    profile_id: str,
    source_asset: Asset,
    destination_asset: Asset,
    source: End,
    destination: End | None = None,
    nickname: str | None = None,
    identity_id: str | None = None,
    account_id: str | None = None,
    ref_id: str | None = None,
    store: TableStore | str | Path | None = None,
    now: Callable[[], int] | None = None,
    say: Callable[[str], object] | None = None,
) -> Plan[OrchestrationRule]:
    """Plan a rule that converts what arrives (§4.14); ``submit`` creates it once.

    ``source`` and ``destination`` hold one of ``crypto``, ``fiat`` and ``profile``. Raises as
    ``plan_withdrawal``.

    >>> plan = fl.plan_rule(
    ...     client,
    ...     profile_id=sandbox.profile_ids[0],
    ...     source_asset="USDC",
    ...     destination_asset="USD",
    ...     source={"crypto": {"network": "ETHEREUM"}},
    ...     nickname="USDC in, dollars out",
    ... )
    >>> plan.submit(confirm=plan.code).nickname
    'USDC in, dollars out'
    """
    plan: Plan[OrchestrationRule] = new_plan(
        context_of(client, store, now, say), "create_orchestration_rule", ref_id,
        profile_id=profile_id, source_asset=source_asset, destination_asset=destination_asset,
        source=source, destination=destination, nickname=nickname, identity_id=identity_id,
        account_id=account_id,
    )  # fmt: skip
    arguments = plan.arguments
    into, target = arguments["destination_asset"], arguments.get("destination")
    rows = [
        Row("What arrives", f"{arguments['source_asset']} at {_end(arguments['source'])}"),
        Row("Becomes", into, "strong", "all of it, from now on"),
        Row(
            "Then goes to",
            _end(target) if target else f"profile {with_name(profile_id)}, where it stays",
        ),
        Row("Profile", with_name(profile_id), "faint"),
    ]
    if arguments.get("nickname"):
        rows.append(Row("Nickname", arguments["nickname"]))
    assets = f"{arguments['source_asset']} → {into}"
    return replace(
        plan,
        title=f"Convert every {arguments['source_asset']} into {into}",
        rows=(*rows, *given_rows(arguments)),
        warnings=("The interface has no operation that shows, changes or ends a rule.",),
        facts=MappingProxyType({"profile_id": profile_id, "asset": assets}),
    )


def _end(end: Mapping[str, Any]) -> str:
    """A source or destination in words."""
    if profile := end.get("profile"):
        return f"profile {profile.get('profile_id')}"
    if crypto := end.get("crypto"):
        address = crypto.get("address") or crypto.get("address_id") or "a new deposit address"
        return f"{address} on {crypto.get('network')}"
    fiat = end.get("fiat") or {}
    if fiat.get("fiat_account_id"):
        return f"fiat account {fiat['fiat_account_id']}"
    named = fiat.get("deposit_instructions_id") or fiat.get("memo_id") or "new"
    return f"deposit instructions {named}"
