"""What several commands take, and the store that they open."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fundlab.errors import StoreError

if TYPE_CHECKING:
    from fundlab.facade import Store

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Algorithm = Literal["ES256", "EdDSA"]
BasisOption = Annotated[
    Literal["settled", "created"],
    typer.Option(help="By what a transfer belongs to a period: when it settled or was created."),
]
StorePath = Annotated[
    str | None,
    typer.Option(
        "--store", help="The store's folder, or s3://…; by default the settings' (data/store)."
    ),
]


class TableName(StrEnum):
    """The tables of a store, named again so that ``--help`` needs not load them."""

    TRANSFERS = "transfers"
    EVENTS = "events"
    ADDRESSES = "addresses"
    FIAT_ACCOUNTS = "fiat_accounts"
    DEPOSIT_INSTRUCTIONS = "deposit_instructions"
    BALANCES = "balances"


def existing_store(given: str | None) -> Store:
    """The store, not an empty one that a mistyped path would stand for."""
    from fundlab.facade import Store
    from fundlab.settings import store_folder

    path = given or store_folder()
    elsewhere = "://" in str(path)
    if not elsewhere and not Path(path).is_dir():
        raise StoreError(f"there is no store at {path}; run 'fundlab sync --store {path}' first")
    store = Store(path)
    if elsewhere and store.service() is None:
        raise StoreError(f"there is no store at {store.path}; run 'fundlab sync' with it first")
    return store
