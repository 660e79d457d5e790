"""``fundlab approve`` and ``approvers``: another person looks, checks and signs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from fundlab.base import terminal
from fundlab.base.errors import ActionRefused
from fundlab.base.terminal import FAILED, answer, say
from fundlab.cli.options import Json, StorePath, existing_store

commands = typer.Typer()
approvers = typer.Typer(no_args_is_help=True, help="Who may approve payments, by their keys.")
commands.add_typer(approvers, name="approvers")


@commands.command()
def approve(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The request.")],
    key: Annotated[
        Path | None,
        typer.Option(
            envvar="FUNDLAB_APPROVAL_KEY", help="Your private key, of 'keys new --alg EdDSA'."
        ),
    ] = None,
    keyring: Annotated[
        str | None, typer.Option(metavar="NAME", help="Or its name in the system keyring.")
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Check a request for a payment with the service; sign it.

    The signature is a file beside the request. Nobody approves without a terminal, or what they
    asked for themselves.
    """
    from fundlab.cli.agreement import approve as sign
    from fundlab.cli.agreement import own_key
    from fundlab.client.client import connect

    if sys.stdin is None or not sys.stdin.isatty():
        raise ActionRefused(
            "approval", "standard input is not a terminal: a person approves, at one; nothing was "
            "signed"
        )  # fmt: skip
    if (key is None) is (keyring is None):
        raise typer.BadParameter("give exactly one of the two", param_hint="--key / --keyring")

    def ask(question: str, hidden: bool = False) -> str:
        unanswered = ActionRefused("approval", "there was no answer; nothing was signed")
        how = {"hide_input": True} if hidden else {"default": "", "show_default": False}
        return str(terminal.ask(question, unanswered, **how))

    with connect() as client:
        path = sign(
            client, file, existing_store(store),
            signer=lambda: own_key(key, keyring, ask=lambda question: ask(question, hidden=True)),
            ask=ask, show=say if as_json else terminal.write, say=say,
        )  # fmt: skip
    if path is None:
        answer({"approved": False, "file": None}, as_json, "not signed: the answer was no")
        raise typer.Exit(FAILED)
    answer({"approved": True, "file": str(path)}, as_json, f"approved: {path}")


@approvers.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Of the person.")],
    key: Annotated[Path, typer.Option(help="Their public key: what 'keys new' printed.")],
    role: Annotated[
        Literal["approver", "maker"], typer.Option(help="maker: may ask, never approve.")
    ] = "approver",
    by: Annotated[str | None, typer.Option(help="Who adds them; by default you.")] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Record whose key it is, in the store."""
    from fundlab.payments.approvals import add_person

    made = add_person(existing_store(store), name, key, role, by)
    answer(vars(made), as_json, f"{made.name} is {made.role}, key {made.key[:16]}…")


@approvers.command("list")
def list_people(store: StorePath = None, as_json: Json = False) -> None:
    """List who has a key, and since when."""
    from fundlab.display import Cell, Table
    from fundlab.payments.approvals import people

    found = list(people(existing_store(store)).values())
    table = Table(
        tuple((name, "text") for name in ("name", "role", "key", "since", "added by")),
        tuple(tuple(map(Cell, (one.name, one.role, f"{one.key[:16]}…", one.at[:19] + "Z",
                               one.by or ""))) for one in found),
    )  # fmt: skip
    text = (
        "\n".join(table.lines()) if found else "no approvers; 'fundlab approvers add' records one"
    )
    answer({"approvers": [vars(one) for one in found]}, as_json, text, well=False)


@approvers.command("remove")
def remove(
    name: Annotated[str, typer.Argument(help="Of the person.")],
    by: Annotated[str | None, typer.Option(help="Who removes them; by default you.")] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Record that a key does not count any more, nor what it signed."""
    from fundlab.payments.approvals import remove_person

    remove_person(existing_store(store), name, by)
    answer({"removed": name}, as_json, f"{name} is removed: what they signed does not count")
