"""``fundlab docs``: the documentation, without a network."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from fundlab.base.terminal import answer
from fundlab.cli.options import Json

commands = typer.Typer()


@commands.command()
def docs(
    open: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Print where the documentation is, building it the first time.

    Guides, notebooks, every command and every name, as files that need no network. Building takes
    half a minute, and the extra docs: pip install 'fundlab[docs]'.
    """
    from fundlab.cli import root_command  # which knows this module
    from fundlab.docs import build

    page = build(root_command())
    answer({"page": str(page)}, as_json, page.as_uri())
    if open:
        webbrowser.open(page.as_uri())
