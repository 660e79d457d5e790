"""``fundlab status``: did everything happen that was expected?"""

from __future__ import annotations

import re
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from fundlab.cli.options import Json, StorePath, existing_store
from fundlab.console import BREAKS, FAILED, answer
from fundlab.errors import SettingsError

ASKING_S: Final = 20.0

commands = typer.Typer()


def age(text: str) -> timedelta:
    """``26h``, ``90m`` or ``2d`` as a length of time."""
    found = re.fullmatch(r"(\d{1,6})([dhm])", text.strip(), re.ASCII)
    if found is None or int(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is not a valid length of time; give 26h, 90m or 2d")
    return int(found[1]) * {"d": timedelta(days=1), "h": timedelta(hours=1),
                            "m": timedelta(minutes=1)}[found[2]]  # fmt: skip


@commands.command()
def status(
    store: StorePath = None,
    max_age: Annotated[
        timedelta, typer.Option(parser=age, help="How old a sync or report may be.")
    ] = "26h",  # type: ignore[assignment]
    expect: Annotated[str, typer.Option(help="Some of sync,report,verify,close.")] = "sync,report",
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the service what time it is.")
    ] = False,
    prometheus: Annotated[
        Path | None, typer.Option(help="Text file of the figures, replaced at once.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say whether everything happened that was expected.

    One line while all is well. Exit status 1 where a sync or report is too old, a payment is
    pending, the disk is full or the clock is wrong; 3 where they ran and breaks are open.
    """
    from fundlab.api.client import connect
    from fundlab.status import EXPECTED
    from fundlab.status import status as look
    from fundlab.store import disk

    expected = [name.strip() for name in expect.split(",") if name.strip()]
    if not expected or not {*expected} <= {*EXPECTED}:
        raise typer.BadParameter(
            f"{expect!r}: give some of {','.join(EXPECTED)}", param_hint="--expect"
        )
    books = existing_store(store)
    with ExitStack() as stack:
        client = None
        if not offline:
            try:
                client = stack.enter_context(connect(call_timeout=ASKING_S))
            except SettingsError as error:
                error.add_note("Or give --offline: the service is not asked then")
                raise
        found = look(books, max_age=max_age, expect=expected, client=client)
    if prometheus is not None:
        with disk.replacing(prometheus.absolute()) as file:
            file.write(found.prometheus().encode())
    answer(found.to_json(), as_json, str(found))
    if not found.ok:
        raise typer.Exit(FAILED if found.missed else BREAKS)
