"""What several commands take, and the store that they open."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from fundlab import console
from fundlab.errors import AnalysisError, StoreError

if TYPE_CHECKING:
    from fundlab.facade import Store

PROFILE: Final = "FUNDLAB_PROFILE"
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


common = typer.Typer(add_completion=False)
"""Its one command is never called: its options are those that all commands take."""


def choose_profile(context: typer.Context, profile: str | None) -> str | None:
    if profile is not None:
        before = os.environ.get(PROFILE)
        os.environ[PROFILE] = profile  # for whatever connects, in processes of ours too

        def restore() -> None:
            os.environ.pop(PROFILE)
            os.environ.update({} if before is None else {PROFILE: before})

        context.find_root().call_on_close(restore)
    return profile


@common.command()
def _(
    profile: Annotated[
        str | None,
        typer.Option(
            callback=choose_profile,
            expose_value=False,
            metavar="NAME",
            help="The profile of config.toml to use; or set FUNDLAB_PROFILE.",
        ),
    ] = None,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            callback=console.hush,
            expose_value=False,
            help="Print nothing while all is well.",
        ),
    ] = False,
) -> None:
    pass


class TableName(StrEnum):
    """The tables of a store, named again so that ``--help`` needs not load them."""

    TRANSFERS = "transfers"
    EVENTS = "events"
    ADDRESSES = "addresses"
    FIAT_ACCOUNTS = "fiat_accounts"
    DEPOSIT_INSTRUCTIONS = "deposit_instructions"
    BALANCES = "balances"


def checked_period(period: str, hint: str, tz: str = "UTC") -> None:
    from fundlab.analysis.periods import period_bounds

    try:
        period_bounds(period, tz)
    except AnalysisError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


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
