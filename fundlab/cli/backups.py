"""``fundlab anchor``, ``backup``, ``restore``, ``repair``: a store stays what it was."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fundlab.base.errors import SettingsError
from fundlab.base.terminal import BREAKS, answer
from fundlab.cli.options import Json, StorePath, existing_store

if TYPE_CHECKING:
    from fundlab.client.signing import Signer

commands = typer.Typer()


@commands.command()
def anchor(
    out: Annotated[
        Path | None,
        typer.Option(help="A file that also names each thing; an earlier one is replaced."),
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Print a line that proves what the store and journals hold.

    Keep it elsewhere: print, mail or commit it. 'fundlab verify --anchor' proves with it that
    nothing of this was removed, rolled back or rewritten. Signed with the signing key, if one is
    set.
    """
    from fundlab.exports import replacing

    made = existing_store(store).anchor()
    signer = configured_signer()
    if signer is not None:
        signature = urlsafe_b64encode(signer.sign(made.line.encode())).rstrip(b"=").decode()
        made = replace(made, key=signer.kid, signature=signature)
    if out is not None:
        with replacing(out) as unfinished:
            unfinished.write_text(json.dumps(made.to_json(), indent=0), encoding="utf-8")
    body = {"anchor": made.signed_line, "file": None if out is None else str(out)}
    answer(body, as_json, made.signed_line)


@commands.command()
def backup(
    destination: Annotated[str, typer.Argument(help="A folder, or s3://….")],
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Copy what a backup lacks of the store.

    The copies are read back; of what an earlier run copied only the sizes are looked at ('fundlab
    restore' checks every byte). Nothing is ever removed there; it may run beside a sync.
    """
    done = existing_store(store).backup(destination)
    answer(vars(done), as_json, str(done))


@commands.command()
def restore(
    source: Annotated[str, typer.Argument(help="Where 'fundlab backup' wrote to.")],
    store: Annotated[str, typer.Option(help="A new folder for the store.")],
    as_json: Json = False,
) -> None:
    """Write a backup into a new folder, and verify it.

    A journal comes back only where there is none; it pays nothing before fl.resume() has asked the
    service about everything since. Exit status 3 where the store has problems.
    """
    from fundlab.operate.store import restored

    books, said = restored(source, store)
    found = books.verify()
    answer(found.to_json() | {"restored": said}, as_json, "\n".join([*said, str(found)]))
    if not found.ok:
        raise typer.Exit(BREAKS)


@commands.command()
def repair(
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing; 'fundlab sync --full' does it later.")
    ] = False,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Set damaged files aside, and fetch their rows again.

    Nothing is removed: what cannot be read goes to the store's folder set-aside. Records, pins and
    journals come back from a backup only.
    """
    from fundlab.client.client import connect

    books = existing_store(store)
    if offline:
        found = books.repair()
    else:
        with connect() as client:
            found = books.repair(client)
    answer(found.to_json(), as_json, str(found))


def configured_signer() -> Signer | None:
    """The signing key of the settings, if there is one."""
    from fundlab.client.signing import load_signer
    from fundlab.settings.settings import Settings

    try:
        settings = Settings.load()
    except SettingsError:
        if "FUNDLAB_SIGNING_KEY" in os.environ or "FUNDLAB_PROFILE" in os.environ:
            raise
        return None  # a store can be anchored where no service is set up
    if settings.signing_key is None or settings.signing_key_id is None:
        return None
    return load_signer(settings.signing_key, settings.signing_key_id, settings.signing_key_password)


def anchor_words(given: str) -> str:
    """Who signed the anchor, as far as the configured key shows it.

    Raises ``SettingsError`` where the signature is not that of the configured key of its name.
    """
    from fundlab.client.signing import is_signed
    from fundlab.evidence.anchors import read_anchor

    found = read_anchor(given)
    signer = None if found.signature is None else configured_signer()
    if found.signature is None:
        words = "The anchor is not signed."
    elif signer is None or signer.kid != found.key:
        words = f"The anchor says it is signed with the key {found.key}, which is not set here."
    else:
        signature = urlsafe_b64decode(found.signature + "=" * (-len(found.signature) % 4))
        if not is_signed(signer, found.line.encode(), signature):
            raise SettingsError(
                f"the anchor {given[:80]!r} is not signed with the key {found.key}: somebody "
                "changed it; take the one that you kept"
            )
        words = f"The anchor is signed with the key {found.key}."
    return words
