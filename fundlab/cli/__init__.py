"""The command ``fundlab``: parse, call, print.

Results go to standard output, progress and logs to standard error. Exit status: 0 done, 1 failed,
2 wrong usage, 3 done but breaks were found, 4 another run holds the store, 130 interrupted; a
shell says 143 where a signal (SIGTERM) ended the run.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, NoReturn

import typer

from fundlab import console
from fundlab.cli import banks, books, paying, reports, setup, trying
from fundlab.errors import FundlabError, SettingsError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit status: 0 done; 1 failed; 2 wrong usage; 3 done, but balances do not match or "
    "rows break a rule, or a closed period has moved; 4 another run holds the store; 130 "
    "interrupted (Ctrl-C); 143 ended by SIGTERM (a sandbox then ends with 0). After 130 and 143 "
    "run the same command again to go on.",
)
for group in (trying, setup, books, reports, banks, paying):
    app.add_typer(group.commands)


@app.callback()
def configure(
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Log calls; twice for details.")
    ] = 0,
) -> None:
    """Load, prove, study and report a funding service's transfers, exactly."""
    level = ["WARNING", "INFO", "DEBUG"][min(verbose, 2)]
    level = (os.environ.get("FUNDLAB_LOG") or level).upper()
    if level not in logging.getLevelNamesMapping():
        raise SettingsError(
            f"FUNDLAB_LOG={level!r} is not a valid level; give DEBUG, INFO or WARNING"
        )
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("fundlab").setLevel(level)


def main() -> NoReturn:
    """Run the command line; what goes wrong becomes one line or object, and an exit status."""
    status = 0
    try:
        console.prepare()
        run(sys.argv[1:])
    except typer.Exit as end:
        status = end.exit_code
    except (
        FundlabError, console.UsageError, OSError, OverflowError, KeyboardInterrupt
    ) as error:  # fmt: skip
        status = console.show_error(error, "--json" in sys.argv[1:])
    sys.exit(status)


def run(arguments: list[str]) -> None:
    """Do what ``arguments`` say; whatever goes wrong is raised."""
    command = typer.main.get_command(app)
    with command.make_context("fundlab", arguments) as context:
        command.invoke(context)
