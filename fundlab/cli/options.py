"""What several commands take, and the store that they open."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from fundlab.base import terminal
from fundlab.base.errors import AnalysisError, FundlabError, InvalidRequest, StoreError

if TYPE_CHECKING:
    from fundlab.operate.store import Store

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
        "--store",
        help="The store's folder, or s3://…; by default that of the settings, else data/store.",
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
    settings_profile: Annotated[  # a command's own `profile` is another
        str | None,
        typer.Option(
            "--profile",
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
            callback=terminal.hush,
            expose_value=False,
            help="Print nothing while all is well.",
        ),
    ] = False,
) -> None:
    pass


watching = typer.Typer(add_completion=False)
"""Never called either: the options of commands that tell somebody how they end."""


def check_target(parameter: typer.CallbackParam, text: str | None) -> str | None:
    if not text:
        return text
    from fundlab.operate.notifications import checked_target

    try:
        return checked_target(text, parameter.opts[0])
    except FundlabError as error:
        raise typer.BadParameter(str(error)) from None


@watching.command()
def _(
    heartbeat: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            callback=check_target,
            help="Told of the start and the end: a file, or URL/start, URL, URL/STATUS.",
        ),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            envvar="FUNDLAB_NOTIFY",
            metavar="mailto:…|URL",
            callback=check_target,
            help="Told, in a line, where it does not end well.",
        ),
    ] = None,
) -> None:
    pass


def watched(name: str, command: Callable[..., None]) -> tuple[list[Any], Callable[..., None]]:
    """The options by which ``command`` tells somebody how it ends, and the command that does."""
    parameters = typer.main.get_command(watching).params
    parameters[0].envvar = f"FUNDLAB_HEARTBEAT_{name.upper()}"

    def run(heartbeat: str | None, notify: str | None, **given: Any) -> None:
        if not heartbeat and not notify:
            command(**given)
            return
        from fundlab.operate.notifications import beating

        with beating(name, heartbeat, notify) as outcome:
            try:
                command(**given)
            except typer.Exit as end:
                outcome.status = end.exit_code
                raise
            except BaseException as error:
                outcome.status, _, outcome.verdict = terminal.explained(error)
                raise
            finally:
                outcome.verdict = outcome.verdict or terminal.answered.partition("\n")[0]

    return parameters, run


class TableName(StrEnum):
    """The tables of a store, named again so that ``--help`` needs not load them."""

    TRANSFERS = "transfers"
    EVENTS = "events"
    ADDRESSES = "addresses"
    FIAT_ACCOUNTS = "fiat_accounts"
    DEPOSIT_INSTRUCTIONS = "deposit_instructions"
    BALANCES = "balances"


def last_month() -> str:
    """The month that ended last."""
    return f"{datetime.now(UTC).replace(day=1) - timedelta(days=1):%Y-%m}"


def checked_period(period: str, hint: str, tz: str = "UTC") -> None:
    from fundlab.base.periods import period_bounds

    try:
        period_bounds(period, tz)
    except AnalysisError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def _checked_age(text: str) -> str:
    if text != PRICE_AGE:  # to check it pandas is loaded
        from fundlab.analysis import value

        try:
            value.checked_age(text)
        except AnalysisError as error:
            raise typer.BadParameter(str(error)) from None
    return text


PRICE_AGE: Final = "7D"
PriceAge = Annotated[
    str,
    typer.Option("--max-age", callback=_checked_age, help="How old a price of a currency may be."),
]


def checked_moment(parameter: typer.CallbackParam, text: str | None) -> str | None:
    """``text``, if it is a time: told before anything is asked of settings, store or service."""
    from fundlab.base.values import moment_ns, start_ns

    try:
        if text is not None:
            name = parameter.name or ""
            (moment_ns if name == "as_of" else start_ns)(text, name)
    except FundlabError as error:
        raise typer.BadParameter(str(error)) from None
    return text


AsOf = Annotated[
    str | None,
    typer.Option("--as-of", callback=checked_moment, help="What was known at this time."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", callback=checked_moment, help="Created from this time, day or month on."
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", callback=checked_moment, help="Created before this time, day or month."
    ),
]


def checked_span(since: str | None, until: str | None) -> list[str | None]:
    """Both as RFC 3339."""
    from fundlab.base.values import Instant, span_ns

    try:
        ends = span_ns(since, until)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error), param_hint="--until") from None
    return [None if at is None else str(Instant.from_ns(at)) for at in ends]


def id_of_profile(of: str | None) -> str | None:
    """The id of a funding profile that is given by its id or the user's name for it."""
    from fundlab.settings.labels import id_of

    try:
        return None if of is None else id_of(of)
    except InvalidRequest as error:
        raise typer.BadParameter(str(error)) from None


def existing_store(given: str | None) -> Store:
    """The store, not an empty one that a mistyped path would stand for."""
    from fundlab.operate.store import Store
    from fundlab.settings.settings import store_folder

    store = Store(given or store_folder())
    store.check_there()
    if not isinstance(store.path, Path) and store.service() is None:
        raise StoreError(f"there is no store at {store.path}; run 'fundlab sync' with it first")
    return store
