"""``fundlab doctor`` and ``fundlab keys``: the way to the service."""

from __future__ import annotations

import os
import shutil
import textwrap
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fundlab import console
from fundlab.cli.options import Algorithm, Json
from fundlab.console import FAILED, answer, say
from fundlab.errors import SettingsError

_UNWRAPPED: Final = 10_000

commands = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="Keys that sign requests.")
commands.add_typer(keys, name="keys")


@commands.command()
def doctor(as_json: Json = False) -> None:
    """Check the settings; name what is wrong.

    Settings, clock, token, each scope, signing and one read.
    """
    from fundlab.api.doctor import doctor as run_checks

    checks = run_checks()
    wrong = [check.name for check in checks if not check.ok]
    body: dict[str, Any] = {"ok": not wrong, "checks": [vars(check) for check in checks]}
    message = (
        f"{len(wrong)} of {len(checks)} checks failed: {', '.join(wrong)}; do what stands beside "
        "each, then run this again"
    )
    if wrong:
        body["error"] = {"type": "ChecksFailed", "message": message}
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
        lines += [f"      → {check.advice}"] if check.advice else []
    lines = [
        textwrap.fill(line, width, subsequent_indent=" " * 8, break_on_hyphens=False)
        for line in lines
    ]
    answer(body, as_json, "\n".join(lines))
    if wrong:
        if not as_json:
            say(f"fundlab: {message}")
        raise typer.Exit(FAILED)


@keys.command("new")
def new_key(
    out: Annotated[Path, typer.Option(help="File of the private key; never overwritten.")],
    alg: Annotated[Algorithm, typer.Option(help="Kind of key.")] = "ES256",
    encrypt: Annotated[
        bool,
        typer.Option("--encrypt", help="Ask for a password (or FUNDLAB_SIGNING_KEY_PASSWORD)."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key pair: the private key in a file (mode 0600), the public key printed."""
    from fundlab.api import signing
    from fundlab.secret import Secret

    password = None
    if encrypt:
        unanswered = SettingsError(
            "no password was given; nothing was written: type it at a terminal, or set "
            "FUNDLAB_SIGNING_KEY_PASSWORD"
        )
        password = Secret(
            os.environ.get("FUNDLAB_SIGNING_KEY_PASSWORD")
            or console.ask("Password", unanswered, hide_input=True, confirmation_prompt=True)
        )
    public = signing.new_key(alg, out, password)
    body = {"alg": alg, "signing_key": str(out), "public_key": public}
    try:
        answer(body, as_json, public.rstrip(), well=False)  # nobody could see it later
    except console.NoOutput:
        out.unlink()  # a key whose public half nobody saw is of no use
        raise
    say(
        f"The private key is in {out} (mode 0600). Register the public key on the credential, then "
        f"set FUNDLAB_SIGNING_KEY={out} and FUNDLAB_SIGNING_KEY_ID to the id it gets there."
    )
