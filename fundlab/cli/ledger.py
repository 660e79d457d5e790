"""``fundlab books``: a period as double entry."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, Literal

import typer

from fundlab.base.errors import number_of
from fundlab.base.terminal import answer, say
from fundlab.cli.options import BasisOption, Json, StorePath, checked_period, existing_store

_SUFFIXES: Final[dict[str, Literal["beancount", "hledger", "csv"]]] = {
    ".beancount": "beancount", ".hledger": "hledger", ".journal": "hledger", ".csv": "csv",
}  # fmt: skip
commands = typer.Typer()


@commands.command()
def books(
    period: Annotated[str, typer.Argument(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31.")],
    format: Annotated[
        Literal["beancount", "hledger", "csv"] | None,
        typer.Option(help="Of the file; by default by its suffix, else beancount."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="The file; an earlier one is replaced. - is standard output.")
    ] = Path("-"),
    accounts: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="A chart of accounts; one comes with the program."),
    ] = None,
    store: StorePath = None,
    basis: BasisOption = "settled",
    tz: Annotated[
        str | None,
        typer.Option(
            help="Zone of the period's days; by default the one it was first closed in, else UTC."
        ),
    ] = None,
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

    checked_period(period, "PERIOD or --tz", tz or "UTC")
    printed = str(out) == "-"
    form = format or ("beancount" if printed else _SUFFIXES.get(out.suffix.lower()))
    if form is None:
        raise typer.BadParameter(
            f"{out} ends in none of {', '.join(_SUFFIXES)}; give --format, too", param_hint="--out"
        )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "books" if printed else out
        written = write_books(
            existing_store(store), period, file, form, accounts=accounts, basis=basis, tz=tz,
            alone=alone,
        )  # fmt: skip
        text = file.read_text("utf-8") if printed else ""
    entries = written.entries.column("entry")
    count, asserted = len(entries.unique()), 0 if form == "csv" else len(written.assertions)
    said = f"{written.title}\n{count:,} {'entry' if count == 1 else 'entries'}"
    if form != "csv":  # which has postings only
        said += f" and {number_of(asserted, 'balance assertion')}"
    said += f" in {'the books' if printed else out}"
    if printed:
        say(said)
    answer(
        {"period": period, "title": written.title, "entries": count, "postings": len(entries),
         "assertions": asserted, **({"text": text} if printed else {"file": str(out)})},
        as_json, text.rstrip("\n") if printed else said, well=not printed,
    )  # fmt: skip
