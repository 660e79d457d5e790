"""The command ``fundlab``: parse, call, print.

Results go to standard output, progress and logs to standard error. Exit status: 0 done, 1 failed,
2 wrong usage, 3 done but breaks were found, 4 another run holds the store, 130 interrupted; a
shell says 143 where a signal (SIGTERM) ended the run.
"""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from copy import copy
from functools import cache
from typing import Annotated, Final, NoReturn

import typer
from typer.core import TyperGroup

import fundlab
from fundlab.base import terminal
from fundlab.base.errors import FundlabError, SettingsError, install_command
from fundlab.cli import (
    approvals,
    assistant,
    backups,
    banks,
    docs,
    ledger,
    lists,
    options,
    paying,
    reports,
    sandbox,
    setup,
    status,
    store,
)
from fundlab.settings.settings import WATCHED

_COLLECTED_AFTER: Final = 100_000
"""New objects until cycles among them are looked for: by Python's own 700 a command did so often
while its modules were loaded, a tenth of its start."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="The service and its credential are in FUNDLAB_BASE_URL, FUNDLAB_AUTH_URL, "
    "FUNDLAB_CLIENT_ID and FUNDLAB_CLIENT_SECRET, or in a profile of config.toml, which "
    "--profile or FUNDLAB_PROFILE names. Exit status: 0 done; 1 failed; 2 wrong usage; 3 done, "
    "but balances do not match, rows break a rule, a closed period has moved, a payment differs "
    "from its card or something at the bank is unexplained; 4 another run holds the store; 130 "
    "interrupted (Ctrl-C); 143 ended by SIGTERM (a sandbox then ends with 0). After 130 and 143 "
    "run the same command again to go on.",
)
for group in (sandbox, setup, store, backups, lists, reports, ledger, banks, paying, approvals,
              status, assistant, docs):  # fmt: skip
    app.add_typer(group.commands)


def show_version(asked: bool) -> None:
    if asked:
        terminal.write(f"fundlab {fundlab.__version__}")
        raise typer.Exit


@app.callback()
def configure(
    version: Annotated[  # noqa: ARG001 - its callback answers
        bool,
        typer.Option("--version", is_eager=True, callback=show_version, help="Print the version."),
    ] = False,
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
    exit_status = 0
    gc.set_threshold(_COLLECTED_AFTER)
    atexit.register(_skip_last_collection)
    try:
        terminal.prepare()
        if "_FUNDLAB_COMPLETE" in os.environ:  # a shell asks what may follow
            root_command().main(prog_name="fundlab")
        run(sys.argv[1:])
    except typer.Exit as end:
        exit_status = end.exit_code
    except (
        FundlabError, terminal.UsageError, OSError, OverflowError, KeyboardInterrupt
    ) as error:  # fmt: skip
        exit_status = terminal.show_error(error, "--json" in sys.argv[1:])
    except ModuleNotFoundError as error:  # the installation is that of client and sandbox
        if (error.name or "fundlab").partition(".")[0] == "fundlab":
            raise
        lacking = SettingsError(
            f"{error.name} is not installed: client and sandbox do without it, this command does "
            f"not; run {install_command()}"
        )
        exit_status = terminal.show_error(lacking, "--json" in sys.argv[1:])
    sys.exit(exit_status)


def _skip_last_collection() -> None:
    """A last look for cycles took a fifth of a short command and an eighth of a report. DuckDB
    2.0.0 reports what it does not get back as leaks."""
    if getattr(sys.modules.get("duckdb"), "__version__", "") != "2.0.0":
        gc.freeze()


def run(arguments: list[str]) -> None:
    """Do what ``arguments`` say; whatever goes wrong is raised."""
    if arguments[:2] == ["sandbox", "mirror"]:  # a program of that name follows a --
        arguments = arguments[1:]
    # the documentation has a page of each
    command = root_command(arguments[0] if arguments and arguments[0] != "docs" else None)
    with terminal.results(), command.make_context("fundlab", arguments) as context:
        command.invoke(context)


@cache
def root_command(wanted: str | None = None) -> TyperGroup:
    """The command with its commands, and the options that each of them takes too; of the modules
    only the one that has ``wanted``, if one has: all of them take a while to make."""
    made = copy(app)
    made.registered_groups = [
        group for group in app.registered_groups if wanted in _names(group.typer_instance)
    ] or app.registered_groups
    root = typer.main.get_command(made)
    assert isinstance(root, TyperGroup)  # noqa: S101 - for the type checker
    common, every = typer.main.get_command(options.common).params, [root]
    for command in every:
        every.extend(getattr(command, "commands", {}).values())
        if command.name in WATCHED and command.callback is not None:
            params, command.callback = options.watched(command.name, command.callback)
            command.params += params
        taken = {name for parameter in command.params for name in parameter.opts}
        command.params += [option for option in common if not taken & {*option.opts}]
    return root


def _names(commands: typer.Typer | None) -> list[str | None]:
    assert commands is not None  # noqa: S101 - for the type checker
    own = [one.name or typer.main.get_command_name(one.callback.__name__)
           for one in commands.registered_commands if one.callback]  # fmt: skip
    return [*own, *(group.name for group in commands.registered_groups)]
