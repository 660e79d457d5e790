"""``fundlab mcp``: an assistant may look at a store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

commands = typer.Typer()


@commands.command()
def mcp(
    store: Annotated[str, typer.Argument(metavar="STORE", help="Its folder, or s3://….")],
    requests: Annotated[
        Path | None,
        typer.Option(
            "--requests", metavar="DIR",
            help="Let it write requests for payments there, for people to approve.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Serve a store to an assistant, read-only.

    By the Model Context Protocol (pip install 'fundlab[mcp]'), over standard input and
    output. The process has no credential; it sends nothing to the service.
    """
    from fundlab.operate.assistant import server
    from fundlab.operate.store import Store

    for name in [name for name in os.environ if name.startswith("FUNDLAB_")]:
        del os.environ[name]  # nothing it does needs a setting, least of all a secret
    books = Store(store, read_only=True)
    books.check_there()
    server(books, requests).run()
