"""``fundlab withdraw``: money leaves; what became of it: ``journal``, ``resume``,
``accept-payment``."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fundlab.base import terminal
from fundlab.base.errors import ActionRefused, number_of, printable
from fundlab.base.terminal import BREAKS, FAILED, answer, say
from fundlab.base.values import money_text
from fundlab.cli.options import Json, StorePath, existing_store, id_of_profile

if TYPE_CHECKING:
    import pandas as pd

commands = typer.Typer()


@commands.command()
def withdraw(
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            "--of",
            metavar="PROFILE",
            callback=id_of_profile,
            help="Funding profile that pays: its id or name. That of config.toml goes before the "
            "command.",
        ),
    ] = None,
    fiat_account: Annotated[
        str | None, typer.Option(help="Id of the account that is paid.")
    ] = None,
    amount: Annotated[
        str | None, typer.Option(help="Without the fee, such as 100.00; or give --total.")
    ] = None,
    total: Annotated[str | None, typer.Option(help="With the fee.")] = None,
    asset: Annotated[str | None, typer.Option(help="What is paid; else USD.")] = None,
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
    request: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a request for approval there; send nothing."),
    ] = None,
    why: Annotated[str | None, typer.Option(help="What for: goes into the request.")] = None,
    by: Annotated[str | None, typer.Option(help="Who asks; by default you.")] = None,
    approved: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The request that others approved; names the payment."),
    ] = None,
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
    from fundlab.cli.agreement import withdraw as carry_out
    from fundlab.client.client import connect
    from fundlab.payments.approvals import read_request
    from fundlab.payments.withdrawals import plan_withdrawal

    def ask(question: str) -> str:
        unanswered = ActionRefused(
            "code",
            "there was no answer; nothing was sent: answer at a terminal, or give --yes to agree "
            "beforehand",
        )
        return str(terminal.ask(question, unanswered, default="", show_default=False))

    given: dict[str, Any] = {}
    if approved is not None:
        named = (
            profile, fiat_account, amount, total, asset, ref_id, identity, account, memo, metadata,
            request, why, by,
        )  # fmt: skip
        if allow_duplicate or any(one is not None for one in named):
            raise typer.BadParameter("it names the payment; leave the rest out",
                                     param_hint="--approved")  # fmt: skip
        asked_for = read_request(approved)
        if len(asked_for.bodies) > 1:
            raise typer.BadParameter(
                "it asks for several payments: submit the batch in Python, with approved=FILE",
                param_hint="--approved",
            )
        (given,) = asked_for.arguments
        allow_duplicate = bool(asked_for.said["allow_duplicate"])
    elif profile is None or fiat_account is None:
        raise typer.BadParameter(
            "both are needed; 'fundlab profiles' lists the ones, 'fundlab accounts' the others",
            param_hint="--profile / --fiat-account",
        )
    elif (amount is None) is (total is None):
        raise typer.BadParameter("give exactly one of the two", param_hint="--amount / --total")
    try:
        Amount(given.get("amount") or given.get("total") or amount or total or "")
    except ValueError as error:
        hint = "--total" if amount is None else "--amount"
        raise typer.BadParameter(str(error), param_hint=hint) from None
    pairs = [entry.partition("=") for entry in metadata or []]
    if bad := [key for key, sign, _ in pairs if not (key and sign)]:
        raise typer.BadParameter(f"{bad[0]!r} is not KEY=VALUE", param_hint="--metadata")
    with connect() as client:
        given = given or {
            "profile_id": profile, "fiat_account_id": fiat_account, "amount": amount,
            "total": total, "asset": asset or "USD", "ref_id": ref_id, "identity_id": identity,
            "account_id": account, "memo": memo,
            "metadata": {key: value for key, _, value in pairs} or None,
        }  # fmt: skip
        plan = plan_withdrawal(
            client, allow_duplicate=allow_duplicate, store=store, say=say, **given
        )
        if request is not None and not dry_run:
            made = plan.request(request, why=why or "", by=by)
            text = (
                f"{plan}\nrequested, nothing was sent: {made.path}; others now run: {made.command}"
            )
            answer({"plan": plan.to_json(), "request": str(made.path)}, as_json, text, well=False)
            return
        done = carry_out(
            plan,
            yes=yes,
            confirm_amount=confirm_amount,
            ask=None if as_json or sys.stdin is None else ask,
            dry_run=dry_run,
            wait=wait,
            timeout=timeout,
            show=say if as_json else terminal.write,
            approved=approved,
        )
    body, paid = done.to_json(), done.transfer
    if paid is not None and done.failed:
        message = (
            f"withdrawal {paid.id} has FAILED at the service; ask it why, and to pay again, give "
            "the payment another --ref-id"
        )
        body["error"] = {"type": "ActionError", "message": message}
        if not as_json:
            say(f"fundlab: {message}")
    answer(body, as_json, str(done))
    if done.failed:
        raise typer.Exit(FAILED)
    if done.differences or plan.unchecked:
        raise typer.Exit(BREAKS)


def answer_with_rows(rows: pd.DataFrame, as_json: bool, nothing: str) -> None:
    """Rows of the journal: one line each, and what is to be said of it below."""
    from fundlab.display import Cell, Table

    found = rows.astype("object").where(rows.notna(), None).to_dict("records")
    for row in found:  # and not in the frame, whose columns of text have no None
        for name in ("confirmed_at", "noted_at", "amount", "fee", "total"):
            row[name] = None if row[name] is None else str(row[name])
    names = ("confirmed_at", "state", "status", "action", "amount", "asset", "account", "ref_id",
             "resource_id")  # fmt: skip
    columns = [one for one in names if any(row[one] for row in found)]
    table = Table(
        tuple((one, "number" if one == "amount" else "text") for one in columns),
        tuple(tuple(Cell(_shown(name, row[name])) for name in columns) for row in found),
    )
    heads, *shown = table.lines() if found else [nothing]
    lines = [heads]
    for row, line in zip(found, shown, strict=True):
        lines += [line, *(f"  {text}" for text in (row["detail"], row["difference"]) if text)]
    answer({"rows": found}, as_json, "\n".join(map(printable, lines)))


def _shown(column: str, value: str | None) -> str:
    if value is None or column not in ("confirmed_at", "amount"):
        return value or ""
    return f"{value[:19]}Z" if column == "confirmed_at" else money_text(Decimal(value))


@commands.command("journal")
def show_journal(
    store: Annotated[
        str | None, typer.Option("--store", help="Only what was confirmed with this one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what was ever confirmed here, and what became of it.

    Below each what differs from its card or from what the store has of it.
    """
    from fundlab.payments.journal_files import journal

    rows, nothing = journal(store), "nothing was ever confirmed here"
    if store and rows.empty:
        existing_store(store)
        if others := len(journal()):
            nothing = (
                f"nothing was confirmed with {store}; 'fundlab journal' without --store shows "
                f"what was with others: {number_of(others, 'row')}"
            )
    answer_with_rows(rows, as_json, nothing)


@commands.command("resume")
def ask_again(store: StorePath = None, as_json: Json = False) -> None:
    """Ask what became of payments that are not settled.

    Of all, whatever the store. Nothing is paid. Exit status 3 while the outcome of one is unknown.
    """
    from fundlab.client.client import connect
    from fundlab.payments.actions import resume

    with connect() as client:
        rows = resume(client, store=store, say=say)
    answer_with_rows(rows, as_json, "nothing was open")
    if (rows["state"] == "unknown").any():
        raise typer.Exit(BREAKS)


@commands.command("accept-payment")
def accept_payment(
    by: Annotated[str, typer.Option(help="Who knows of it.")],
    reason: Annotated[str, typer.Option(help="Why it differs.")],
    ids: Annotated[
        list[str] | None, typer.Argument(help="ref_ids or transfers; all that differ by default.")
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Accept that a payment is not as its card showed it.

    No sync or status ends otherwise for it any more, nor does a report; each counts it. A payment
    that comes to differ otherwise differs anew.
    """
    found = existing_store(store).accept_payments(ids or None, by=by, reason=reason)
    lines = [f"{number_of(len(found), 'difference')} accepted", *map(str, found)]
    answer({"accepted": [one.text for one in found]}, as_json, "\n".join(map(printable, lines)))
