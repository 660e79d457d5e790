"""``fundlab books``: a period as double entry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fundlab.base.errors import number_of
from fundlab.base.terminal import answer
from fundlab.cli.options import BasisOption, Json, StorePath, checked_period, existing_store

commands = typer.Typer()


@commands.command()
def books(
    period: Annotated[str, typer.Argument(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31.")],
    format: Annotated[Literal["beancount", "hledger", "csv"], typer.Option(help="Of the file.")],
    out: Annotated[Path, typer.Option(help="The file; an earlier one is replaced.")],
    accounts: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="A chart of accounts; one comes with the program."),
    ] = None,
    store: StorePath = None,
    basis: BasisOption = "settled",
    tz: Annotated[str, typer.Option(help="Zone that days are in.")] = "UTC",
    alone: Annotated[
        bool,
        typer.Option("--alone", help="With opening balances, though the period before is closed."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a period as books: a balanced entry a transfer.

    A closed period gives the same bytes for ever. Where the period before it is closed, too, its
    books go on from those, and what has changed there since is corrected on the first day.
    """
    from fundlab.reports.books import write_books

    checked_period(period, "PERIOD or --tz", tz)
    written = write_books(
        existing_store(store), period, out, format, accounts=accounts, basis=basis, tz=tz,
        alone=alone,
    )  # fmt: skip
    entries = written.entries.column("entry")
    count, asserted = len(entries.unique()), len(written.assertions)
    text = (
        f"{written.title}\n{count:,} {'entry' if count == 1 else 'entries'} and "
        f"{number_of(asserted, 'balance assertion')} in {out}"
    )
    answer(
        {"period": period, "title": written.title, "entries": count, "postings": len(entries),
         "assertions": asserted, "file": str(out)},
        as_json, text,
    )  # fmt: skip
