"""``fundlab docs``: the documentation, without a network."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer
from typer.core import TyperGroup

from fundlab.base.terminal import answer
from fundlab.cli.options import Json

commands = typer.Typer()


@commands.command()
def docs(
    context: typer.Context,
    open: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Print where the documentation is.

    Tasks, recipes, guides, notebooks, every command and every name, as files that need no network.
    A release has them; from a clone they are built the first time, in half a minute, with the extra
    docs: pip install '.[docs]'.
    """
    from fundlab.docs import build

    program = context.find_root().command
    assert isinstance(program, TyperGroup)  # noqa: S101 - for the type checker
    page = build(program)
    answer({"page": str(page)}, as_json, page.as_uri())
    if open:
        webbrowser.open(page.as_uri())
