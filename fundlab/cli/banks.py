"""``fundlab bank``: statements of accounts at banks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fundlab.cli.options import Json, StorePath, existing_store
from fundlab.console import BREAKS, answer

commands = typer.Typer()


@commands.command()
def bank(
    files: Annotated[list[Path], typer.Argument(help="Statements of one account.")],
    period: Annotated[
        str | None,
        typer.Option(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all their days."),
    ] = None,
    store: StorePath = None,
    side: Annotated[
        Literal["ours", "service"], typer.Option(help="Whose account at the bank it is.")
    ] = "service",
    format: Annotated[
        str | None, typer.Option(help="csv, mt940, camt.053, ofx or bai2; by its look.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="One of several in the files.")] = None,
    asset: Annotated[str, typer.Option(help="What is reconciled.")] = "USD",
    window: Annotated[int, typer.Option(min=0, help="Days a transfer may take.")] = 3,
    opening: Annotated[
        str | None, typer.Option(help="Balance before the first statement, if it declares none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove bank statements and reconcile them with the transfers.

    Exit status 3 where something stays unexplained.
    """
    from fundlab import bank as banking

    books = existing_store(store)
    read = banking.read(*files, format=format, asset=asset, opening=opening)
    found = banking.reconcile(
        books, read, period, side=side, account=account, asset=asset, window=window
    )
    answer(found.to_json(), as_json, found.text)
    if not found.ok:
        raise typer.Exit(BREAKS)
