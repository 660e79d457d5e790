"""The command ``fundlab``: parse, call, print.

Results go to standard output, progress and logs to standard error. Exit status: 0 done, 1 failed,
2 wrong usage, 3 done but breaks were found, 4 another run holds the store.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from fundlab.errors import FundlabError, SettingsError, StoreLocked

FAILED: Final = 1
BREAKS: Final = 3
LOCKED: Final = 4

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
StorePath = Annotated[
    Path,
    typer.Option("--store", envvar="FUNDLAB_STORE", help="The store's folder."),
]
DEFAULT_STORE: Final = Path("data/store")


@app.callback()
def configure(
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Log calls; twice for details.")
    ] = 0,
) -> None:
    """Load, prove, study and report a funding service's transfers, exactly."""
    level = ["WARNING", "INFO", "DEBUG"][min(verbose, 2)]
    level = os.environ.get("FUNDLAB_LOG", level).upper()
    if level not in logging.getLevelNamesMapping():
        raise SettingsError(f"FUNDLAB_LOG={level!r} is no level; give DEBUG, INFO or WARNING")
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("fundlab").setLevel(level)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the store and the report.")] = Path(
        "data/demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the sandbox's history.")] = 7,
    transfers: Annotated[int, typer.Option(min=1, help="Transfers in the history.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Run the whole job on an embedded sandbox, from the first sync to the report."""
    from fundlab import demo as job

    result = job.run(out, seed=seed, transfers=transfers, say=_say)
    paid = result.withdrawal
    _answer(
        result.to_json(),
        as_json,
        f"""\
synced      {_counted(result.rows)}
reconciled  {result.balances} balances, {result.breaks} breaks
withdrawal  {paid.amount} USD + {paid.fee} fee: {paid.status}; available {paid.balance_before} → \
{paid.balance_after}, moved by exactly {paid.total}
store       {result.store}
report      {result.report}
done in     {result.seconds} s""",
    )
    if result.breaks:
        raise typer.Exit(BREAKS)


@app.command()
def sandbox(
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 0,
    db: Annotated[Path | None, typer.Option(help="SQLite file; kept for a later start.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the history.")] = 7,
    transfers: Annotated[int, typer.Option(min=0, help="Transfers in the history.")] = 2_000,
    profiles: Annotated[int, typer.Option(min=1, help="Profiles of the customer.")] = 5,
    signing: Annotated[bool, typer.Option("--signing", help="Require signed requests.")] = False,
    signing_alg: Annotated[str, typer.Option(help="ES256 or EdDSA.")] = "ES256",
    clock: Annotated[str, typer.Option(help="real, fast (60 times) or manual.")] = "real",
    empty: Annotated[bool, typer.Option("--empty", help="No history.")] = False,
) -> None:
    """Serve the whole interface on this machine; the first line printed says how to reach it."""
    from fundlab.sandbox import run

    run(
        host=host,
        port=port,
        db=db,
        seed=seed,
        transfers=transfers,
        profiles=profiles,
        signing=signing,
        signing_alg=signing_alg,
        clock=clock,
        empty=empty,
    )


@app.command()
def sync(
    tables: Annotated[list[str] | None, typer.Argument(help="All tables by default.")] = None,
    store: StorePath = DEFAULT_STORE,
    since: Annotated[str | None, typer.Option(help="Only rows created from this time on.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Pages fetched at once.")] = 1,
    full: Annotated[bool, typer.Option("--full", help="Fetch everything again.")] = False,
    as_json: Json = False,
) -> None:
    """Bring the store up to date."""
    from fundlab.api.client import connect
    from fundlab.store import Store

    with connect() as client:
        result = Store(store).sync(
            client, tables=tables or None, since=since, workers=workers, full=full
        )
    _answer(result.to_json(), as_json, str(result))


def main() -> NoReturn:
    """Run the command line; what fundlab raises becomes one line and an exit status."""
    try:
        app()
    except FundlabError as error:
        status = LOCKED if isinstance(error, StoreLocked) else FAILED
        if "--json" in sys.argv[1:]:
            _write(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))
        else:
            _say(f"fundlab: {' '.join(str(error).split())}")
    sys.exit(status)


def _say(step: str) -> None:
    sys.stderr.write(f"{step}\n")
    sys.stderr.flush()


def _answer(body: dict[str, Any], as_json: bool, text: str) -> None:
    _write(json.dumps(body, default=str) if as_json else text)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _counted(rows: dict[str, int]) -> str:
    return " · ".join(f"{count:,} {table}" for table, count in rows.items())
