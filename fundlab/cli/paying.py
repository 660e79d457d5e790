"""``fundlab withdraw``: money leaves."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fundlab.base import terminal
from fundlab.base.errors import ActionRefused
from fundlab.base.terminal import FAILED, answer, say
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
    amount: Annotated[str, typer.Option(help="Without the fee, such as 100.00.")],
    asset: Annotated[str, typer.Option(help="What is paid.")] = "USD",
    ref_id: Annotated[str | None, typer.Option(help="Names the payment; else derived.")] = None,
    identity: Annotated[str | None, typer.Option(help="End user, third-party flows.")] = None,
    account: Annotated[str | None, typer.Option(help="The end user's account.")] = None,
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

    The same command again finds what was sent, and sends nothing.
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

    try:
        Amount(amount)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--amount") from None
    with connect() as client:
        plan = actions.plan_withdrawal(
            client,
            profile_id=profile,
            fiat_account_id=fiat_account,
            amount=amount,
            asset=asset,
            ref_id=ref_id,
            identity_id=identity,
            account_id=account,
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
