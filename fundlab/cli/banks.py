"""``fundlab bank``: statements of accounts at banks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fundlab.cli.options import Json, StorePath, checked_period, existing_store
from fundlab.console import BREAKS, answer

if TYPE_CHECKING:
    from fundlab.bank import Reconciliation
    from fundlab.facade import Store

commands = typer.Typer()
Side = Literal["ours", "service"]
SideOption = Annotated[Side, typer.Option(help="Whose account at the bank it is.")]
Account = Annotated[str | None, typer.Option(help="One of several in the files.")]
Asset = Annotated[str, typer.Option(help="What is reconciled with the bank.")]
Window = Annotated[int, typer.Option(min=0, help="Days a transfer may take at the bank.")]
Opening = Annotated[
    str | None, typer.Option(help="Balance before the first statement, if it declares none.")
]
Balance = Annotated[
    str | None, typer.Option(help="Balance per service at the period's end, if you know it.")
]
Carried = Annotated[
    Path | None,
    typer.Option(help="What 'fundlab bank --json' printed of the period before: its open items."),
]


@commands.command()
def bank(
    files: Annotated[list[Path], typer.Argument(help="Statements of one account.")],
    period: Annotated[
        str | None,
        typer.Option(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all their days."),
    ] = None,
    store: StorePath = None,
    side: SideOption = "service",
    format: Annotated[
        str | None, typer.Option(help="csv, mt940, camt.053, ofx or bai2; by its look.")
    ] = None,
    account: Account = None,
    asset: Asset = "USD",
    window: Window = 3,
    opening: Opening = None,
    balance: Balance = None,
    carried: Carried = None,
    as_json: Json = False,
) -> None:
    """Prove bank statements and reconcile them with the transfers.

    Exit status 3 where something stays unexplained.
    """
    if period is not None:
        checked_period(period, "--period")
    books = existing_store(store)
    found = reconciled(
        books, files, period, side, account, asset, window, opening, balance, carried, format
    )
    answer(found.to_json(), as_json, found.text)
    if not found.ok:
        raise typer.Exit(BREAKS)


def reconciled(
    books: Store, files: Sequence[Path], period: str | None, side: Side = "service",
    account: str | None = None, asset: str = "USD", window: int = 3, opening: str | None = None,
    balance: str | None = None, carried: Path | str | None = None, format: str | None = None,
    as_of: str | None = None,
) -> Reconciliation:  # fmt: skip
    from fundlab import bank as banking

    return banking.reconcile(
        books, banking.read(*files, format=format, asset=asset, opening=opening), period,
        side=side, account=account, asset=asset, window=window, balance=balance, carried=carried,
        as_of=as_of,
    )  # fmt: skip
