"""``fundlab withdraw``: money leaves."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fundlab.base import terminal
from fundlab.base.errors import ActionRefused
from fundlab.base.terminal import BREAKS, FAILED, answer, say
from fundlab.cli.options import Json, StorePath, id_of_profile

commands = typer.Typer()


@commands.command()
def withdraw(
    profile: Annotated[
        str,
        typer.Option(
            callback=id_of_profile, help="Id or name of the profile that pays; not of config.toml."
        ),
    ],
    fiat_account: Annotated[str, typer.Option(help="Id of the account that is paid.")],
    amount: Annotated[
        str | None, typer.Option(help="Without the fee, such as 100.00; or give --total.")
    ] = None,
    total: Annotated[str | None, typer.Option(help="With the fee.")] = None,
    asset: Annotated[str, typer.Option(help="What is paid.")] = "USD",
    ref_id: Annotated[str | None, typer.Option(help="Names the payment; else derived.")] = None,
    identity: Annotated[str | None, typer.Option(help="End user, third-party flows.")] = None,
    account: Annotated[str | None, typer.Option(help="The end user's account.")] = None,
    memo: Annotated[str | None, typer.Option(help="Goes to the bank.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="At most 6, each its own option.")
    ] = None,
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="One more like one of the last 24 hours.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree beforehand.")] = False,
    confirm_amount: Annotated[
        str | None, typer.Option(help="The amount again; --yes needs it in production.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has COMPLETED or FAILED.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 300.0,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Show a withdrawal's plan, ask, send it.

    The same command again finds what was sent, and sends nothing. Exit status 3 where it was made,
    but not as the plan showed it, or where something could not be checked.
    """
    from fundlab.base.values import Amount
    from fundlab.client.client import connect
    from fundlab.payments import actions

    def ask(question: str) -> str:
        unanswered = ActionRefused(
            "code",
            "there was no answer; nothing was sent: answer at a terminal, or give --yes to agree "
            "beforehand",
        )
        return str(terminal.ask(question, unanswered, default="", show_default=False))

    if (amount is None) is (total is None):
        raise typer.BadParameter("give exactly one of the two", param_hint="--amount / --total")
    try:
        Amount(amount or total or "")
    except ValueError as error:
        hint = "--total" if amount is None else "--amount"
        raise typer.BadParameter(str(error), param_hint=hint) from None
    pairs = [entry.partition("=") for entry in metadata or []]
    if bad := [key for key, sign, _ in pairs if not (key and sign)]:
        raise typer.BadParameter(f"{bad[0]!r} is not KEY=VALUE", param_hint="--metadata")
    with connect() as client:
        plan = actions.plan_withdrawal(
            client,
            profile_id=profile,
            fiat_account_id=fiat_account,
            amount=amount,
            total=total,
            asset=asset,
            ref_id=ref_id,
            identity_id=identity,
            account_id=account,
            memo=memo,
            metadata={key: value for key, _, value in pairs} or None,
            allow_duplicate=allow_duplicate,
            store=store,
            say=say,
        )
        done = actions.withdraw(
            plan,
            yes=yes,
            confirm_amount=confirm_amount,
            ask=None if as_json or sys.stdin is None else ask,
            dry_run=dry_run,
            wait=wait,
            timeout=timeout,
            show=say if as_json else terminal.write,
        )
    answer(done.to_json(), as_json, str(done))
    if done.failed:
        raise typer.Exit(FAILED)
    if done.differences or plan.unchecked:
        raise typer.Exit(BREAKS)
