"""``fundlab status`` and ``schedule``: did everything happen, and how it comes to happen."""

from __future__ import annotations

import getpass
import os
import re
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from fundlab.base.errors import FundlabError, SettingsError
from fundlab.base.terminal import BREAKS, FAILED, answer, say
from fundlab.cli.options import Json, StorePath, check_target, existing_store, last_month

ASKING_S: Final = 20.0
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_WITH_PASSWORD: Final = re.compile(r"[^/:]+://[^/?#:]*:[^/?#]*@")
_PATHS: Final = {
    "FUNDLAB_APPROVAL_KEY", "FUNDLAB_CA_BUNDLE", "FUNDLAB_CLIENT_SECRET_FILE", "FUNDLAB_JOURNAL",
    "FUNDLAB_SIGNING_KEY", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
}  # fmt: skip

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
    as_json: Json = False,
) -> None:
    """Say whether everything happened that was expected.

    One line while all is well. Exit status 1 where a sync or report is too old, it is not
    known whether a payment made from here was made or the service has it no more, the disk is full
    or the clock is wrong; 3 where they ran and breaks are open or a payment differs from its card.
    """
    from fundlab.operate.status import EXPECTED
    from fundlab.operate.status import status as look

    expected = [name.strip() for name in expect.split(",") if name.strip()]
    if not expected or not {*expected} <= {*EXPECTED}:
        raise typer.BadParameter(
            f"{expect!r}: give some of {','.join(EXPECTED)}", param_hint="--expect"
        )
    books = existing_store(store)
    with ExitStack() as stack:
        client = None
        if not offline:
            from fundlab.client.client import connect

            try:
                client = stack.enter_context(connect(call_timeout=ASKING_S))
            except SettingsError as error:
                error.add_note("Or give --offline: the service is not asked then")
                raise
        found = look(books, max_age=max_age, expect=expected, client=client)
    answer(found.to_json(), as_json, str(found), well=not found.unproved)
    if not found.ok:
        raise typer.Exit(FAILED if found.missed else BREAKS)


@commands.command()
def schedule(
    scheduler: Annotated[Literal["cron", "systemd", "launchd"], typer.Argument()],
    at: Annotated[str, typer.Option(help="Time of day.")] = "06:00",
    tz: Annotated[str | None, typer.Option(help="Its zone; by default the machine's.")] = None,
    work: Annotated[
        Path | None, typer.Option(help="Folder of data/reports; by default this one.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the files.")] = Path("schedule"),
    write: Annotated[
        bool, typer.Option("--write", help="Write the files, with their modes; else print them.")
    ] = False,
    period: Annotated[
        str | None, typer.Option(help="First month to report; by default the one that ended last.")
    ] = None,
    heartbeat: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            callback=check_target,
            help="Told of each report: of a night without, too.",
        ),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            metavar="mailto:…|URL",
            callback=check_target,
            help="Told, in a line, what did not end well.",
        ),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="Who runs it, with systemd; by default you.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what runs a sync and the reports each day.

    For cron, systemd or launchd: a script, a timer, and the settings in a file of mode 600.
    """
    from fundlab.operate.schedules import schedule as make
    from fundlab.settings.settings import SECRETS, Settings, profile_in_use, store_folder

    # What this shell has is what the timer will have; secrets stay where they are.
    names = [n for n in os.environ if n.startswith("FUNDLAB_") and n not in SECRETS]
    names += ["XDG_CONFIG_HOME", "XDG_DATA_HOME"]  # where the settings and the journal are
    names += ["REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", *_PROXIES, *map(str.upper, _PROXIES)]
    variables = {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}
    lost = [name for name in SECRETS if os.environ.get(name)]
    if heartbeat:
        variables["FUNDLAB_HEARTBEAT_REPORT"] = heartbeat
    if notify:
        variables["FUNDLAB_NOTIFY"] = notify
    for name, value in variables.items():  # the job runs in a folder of its own
        if name in _PATHS or (name.startswith("FUNDLAB_HEARTBEAT_") and "://" not in value):
            variables[name] = str(Path(value).expanduser().absolute())
    variables["FUNDLAB_STORE"] = str(store_folder())
    if (profile := profile_in_use()) is not None:  # whichever the file names by then
        variables["FUNDLAB_PROFILE"] = profile
        with suppress(SettingsError):  # where it has a secret of its own, the job needs no other
            Settings.load(profile, environ={})
            lost = [name for name in lost if name != "FUNDLAB_CLIENT_SECRET"]
    with_password = [
        name
        for name, value in variables.items()
        if _WITH_PASSWORD.match(value) or (name.lower() in _PROXIES and "@" in value)
    ]
    for name in with_password:
        del variables[name]
    here = (work or Path()).expanduser().absolute()
    try:
        made = make(
            scheduler, out.expanduser().absolute(), here, variables, at=at, tz=tz,
            user=user or getpass.getuser(), period=period or last_month(),
        )  # fmt: skip
    except FundlabError as error:
        raise typer.BadParameter(str(error)) from None
    if write:
        made.write()
    body = {
        "files": [
            {"path": str(one.path), "mode": f"{one.mode:o}", "content": one.content}
            for one in made.files
        ],
        "install": made.install, "written": write,
    }  # fmt: skip
    text = str(made)
    if write:
        text = "\n".join([*(str(one.path) for one in made.files), "then:", *made.install])
    answer(body, as_json, text)
    if lost:
        say(
            f"the job fails as long as it has no {' and '.join(lost)}, which this shell alone has: "
            f"name a client_secret_file in the profile, or put it into {made.files[0].path} by hand"
        )
    if with_password:
        say(
            f"the job goes without {' and '.join(with_password)}, which a password is in: put it "
            f"into {made.files[0].path} by hand"
        )
