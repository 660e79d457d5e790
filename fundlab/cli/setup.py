"""``fundlab init``, ``doctor`` and ``keys``: the way to the service."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from fundlab.base import terminal
from fundlab.base.errors import SettingsError, number_of
from fundlab.base.terminal import FAILED, answer, say
from fundlab.cli.options import PROFILE, Algorithm, Json, last_month

if TYPE_CHECKING:
    from fundlab.client.doctor import Check
    from fundlab.settings.settings import Settings

_SECRET: Final = "FUNDLAB_CLIENT_SECRET"
_KEY_PASSWORD: Final = "FUNDLAB_SIGNING_KEY_PASSWORD"
_UNWRAPPED: Final = 10_000
_MOST_NAMED: Final = 20
_REPLACED: Final = (
    "client_secret", "client_secret_file", "client_secret_keyring", "signing_key", "signing_keys",
    "signing_key_id", "sandbox",
)  # fmt: skip

commands = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="Keys that sign requests.")
commands.add_typer(keys, name="keys")


@commands.command()
def init(
    name: Annotated[
        str | None,
        typer.Option(help="Of the profile; by default --profile, or production, here sandbox."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", "--service", envvar="FUNDLAB_BASE_URL", help="The service's."),
    ] = None,
    auth_url: Annotated[
        str | None, typer.Option(envvar="FUNDLAB_AUTH_URL", help="Of the token endpoint.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(envvar="FUNDLAB_CLIENT_ID", help="Of the credential.")
    ] = None,
    secret_stdin: Annotated[
        bool,
        typer.Option(
            "--secret-stdin",
            help="Read the secret from standard input; else FUNDLAB_CLIENT_SECRET, or it is asked.",
        ),
    ] = False,
    secret_env: Annotated[
        bool,
        typer.Option("--secret-env", help="Leave the secret in FUNDLAB_CLIENT_SECRET, in no file."),
    ] = False,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep the secret in the system keyring.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            envvar="FUNDLAB_SIGNING_KEY",
            help="PEM private key that signs requests; made where there is none.",
        ),
    ] = None,
    key_id: Annotated[
        str | None,
        typer.Option(envvar="FUNDLAB_SIGNING_KEY_ID", help="The id its public key has there."),
    ] = None,
    ca_bundle: Annotated[
        Path | None,
        typer.Option(envvar="FUNDLAB_CA_BUNDLE", help="Certificates to trust, of your authority."),
    ] = None,
    sandbox: Annotated[bool, typer.Option("--sandbox", help="Money there is not real.")] = False,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="FUNDLAB_STORE",
            help="The store's folder, or s3://…; by default data/NAME in this folder.",
        ),
    ] = None,
    approvals: Annotated[
        str | None, typer.Option(help="How many other people must approve a payment.")
    ] = None,
    approval_from: Annotated[
        str | None, typer.Option(help="Of payments from this amount on; by default of each.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the profile where there is one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a profile of config.toml, and check that it works.

    Asks for what no option gives, and for names of the profiles that it finds. A service on this
    machine, or with --sandbox, is the profile sandbox unless it is named.
    """
    from fundlab.client import signing
    from fundlab.client.doctor import doctor as run_checks
    from fundlab.settings.config_file import (
        CHOSEN,
        check_profile_name,
        config_path,
        is_there,
        profile_names,
        read_config,
        write_profile,
    )
    from fundlab.settings.secret import Masked, Secret, into_keyring
    from fundlab.settings.settings import Settings, checked, is_loopback, profile_in_use

    name, service_given = name or os.environ.get(PROFILE), base_url is not None

    def ask(setting: str, question: str, option: str, **how: Any) -> Any:
        def accept(text: str) -> Any:
            try:
                return text and checked(setting, Secret(text) if "hide_input" in how else text)
            except SettingsError as error:
                if "hide_input" in how:  # of which nothing would be said but that it is wrong
                    say(str(error))
                raise typer.BadParameter(str(error)) from None

        unanswered = SettingsError(
            f"{setting} was not given; nothing was written: answer at a terminal, or give {option}"
        )
        return terminal.ask(question, unanswered, value_proc=accept, **how)

    # What is there already, before anything but the service is asked.
    path = config_path()
    config = read_config(path) if is_there(path) else {}
    if name is None:
        chosen = config.get(CHOSEN, Masked("production")).reveal()
        last = config[chosen].reveal().get("base_url") if chosen in profile_names(config) else None
        base_url = base_url or ask("base_url", "URL of the service", "--base-url", default=last)
        here = is_loopback(urlsplit(base_url).hostname)
        name = "sandbox" if sandbox or here else "production"
    check_profile_name(name)
    if name in profile_names(config) and not force:
        taken = f"{path} has a profile [{name}] already"
        kept = SettingsError(f"{taken}; nothing was written: give --force or another --name")
        replace = f"{taken}. Replace it? [y/N]"
        if not _agreed(replace, kept):
            raise kept
    before = {key: value for key, value in (config[name].reveal() if name in config else {}).items()
              if key in ("base_url", "auth_url", "client_id")}  # fmt: skip

    values: dict[str, Any] = {
        "base_url": base_url
        or ask("base_url", "URL of the service", "--base-url", default=before.get("base_url"))
    }
    same = before.get("auth_url") or values["base_url"]
    if same == before.get("base_url"):  # at the service then, so now
        same = values["base_url"]
    values["auth_url"] = auth_url or ask(
        "auth_url", "URL of its token endpoint", "--auth-url", default=same
    )
    values["client_id"] = client_id or ask(
        "client_id", "Client id", "--client-id", default=before.get("client_id")
    )
    if secret_env and (secret_stdin or keyring or _SECRET not in os.environ):
        raise SettingsError(
            f"--secret-env: set {_SECRET}, and give neither --secret-stdin nor --keyring; nothing "
            "was written"
        )
    typed = not (secret_stdin or _SECRET in os.environ)
    if secret_stdin:
        secret = Secret(sys.stdin.readline().strip())
    elif _SECRET in os.environ:
        secret = Secret(os.environ[_SECRET])
    else:
        secret = ask("client_secret", "Client secret", "--secret-stdin", hide_input=True)
    if sandbox:
        values["sandbox"] = True
    if ca_bundle is not None:
        values["ca_bundle"] = str(checked("ca_bundle", ca_bundle).absolute())
    values["store"] = str(checked("store", store or f"data/{name}"))
    folder = Path(values["store"])
    if files := [path for path in (folder, *folder.parents) if path.is_file()]:
        raise SettingsError(
            f"{files[0]} is a file, and a store is a folder; nothing was written: give another "
            "--store"
        )

    # The key: one that is there, or a new one, which has an id only once it is registered.
    public = None
    asking = not (auth_url and client_id and service_given)
    unanswered = SettingsError("nothing was written: give --key FILE")
    while key is None and asking:
        file = terminal.ask(
            "File of the private key that signs requests (unsigned: Enter)", unanswered,
            default="", show_default=False,
        )  # fmt: skip
        if not file:
            break
        make = f"There is no file {file}: make a new key there? [y/N]"
        if Path(file).expanduser().exists() or _agreed(make, unanswered):
            key = Path(file)
    if key is not None:
        key = key.expanduser().absolute()
        if not key.exists():
            public = signing.new_key("ES256", key)
            say(f"Register this public key on the credential; {key} is its private half.")
            say(public.rstrip())
        else:
            password = Secret(os.environ.get(_KEY_PASSWORD, ""))
            try:
                signing.load_signer(key, "", password if password.reveal() else None)
            except SettingsError as error:
                raise SettingsError(f"{error}; nothing was written") from None
        if key_id is None and asking:
            key_id = ask(
                "signing_key_id", "Id it got there (none yet: Enter)", "--key-id", default="",
                show_default=False,
            )  # fmt: skip
        if key_id:
            values |= {"signing_key": str(key), "signing_key_id": key_id}
    settings = Settings(**values, client_secret=secret)  # checked before anything is written
    if settings.is_production and asking and approvals is None:
        approvals = ask(
            "approvals", "How many other people must approve a payment", "--approvals", default="0"
        )
        if approvals and approval_from is None:
            approval_from = ask(
                "approval_from", "From which amount on (each payment: Enter)", "--approval-from",
                default="", show_default=False,
            )  # fmt: skip
    if approvals:
        values["approvals"] = checked("approvals", approvals)
    if approval_from:
        values["approval_from"] = str(checked("approval_from", approval_from))

    if keyring:
        entry = f"fundlab-{name}"
        into_keyring(entry, values["client_id"], secret)
        values["client_secret_keyring"] = entry
    elif not secret_env:
        values["client_secret"] = secret
    write_profile(path, name, values, _REPLACED)

    needed = [_SECRET] * secret_env + [_KEY_PASSWORD] * ("signing_key" in values)
    settings = Settings.load(
        name, environ={key: os.environ[key] for key in needed if key in os.environ}
    )
    checks = run_checks(settings)
    if (asking or typed) and all(check.ok for check in checks):
        _ask_names(path, settings)
    used = profile_in_use({key: text for key, text in os.environ.items() if key != PROFILE})
    run = "fundlab" if used == name else f"fundlab --profile {name}"
    steps = [
        f"{run} sync", f"{run} report {last_month()}",
        f"{run} schedule systemd --at 06:15 --write",
    ]  # fmt: skip
    if key is not None and not key_id:
        where_kept = shlex.quote(values["store"])
        steps.insert(
            0, f"fundlab init --name {name} --store {where_kept} --key {key} --key-id ID --force"
        )
    body = {"profile": name, "config": str(path), "public_key": public, "next": steps}
    then = f"run '{run} doctor', or 'fundlab init --name {name}' to give them anew"
    where = " with its secret (mode 600)"
    if keyring or secret_env:
        where = f"; its secret is in {'the system keyring' if keyring else _SECRET}"
    text = f"profile [{name}] is in {path}{where}; its store is {values['store']}"
    advice = "\n".join(["next:", *(f"  {one}" for one in steps)])
    if used is None:
        advice += f"\nWithout --profile or {PROFILE} no command takes [{name}]."
    _show_checks(checks, then, as_json, body, text, advice)


def _agreed(question: str, unanswered: SettingsError) -> bool:
    answered = terminal.ask(question, unanswered, default="n", show_default=False)
    return str(answered).lower() in ("y", "yes")


def _ask_names(path: Path, settings: Settings) -> None:
    """What the profiles of the newest transfers are called, for all that is shown later."""
    from fundlab.client.client import Client
    from fundlab.settings.config_file import write_names
    from fundlab.settings.labels import names_given

    newest: dict[str, Any] = {}
    with Client(settings) as client:
        for transfer in client.list_transfers(max_rows=1000, page_size=1000):
            newest.setdefault(transfer.profile_id or "", transfer)
    unnamed = {
        one: last for one, last in newest.items() if one and one.lower() not in names_given()
    }
    unanswered = SettingsError("no name was given")
    named: dict[str, str] = {}
    with suppress(SettingsError):  # nobody there to answer: then they stay without
        for profile, last in [*unnamed.items()][:_MOST_NAMED]:
            seen = f"last {last.type} {last.amount} {last.asset}, {last.created_at:%Y-%m-%d}"
            question = f"Name of profile {profile} ({seen}; none: Enter)"
            given = terminal.ask(question, unanswered, default="", show_default=False).strip()
            named |= {profile: given} if given else {}
    if named:
        write_names(path, named)
        say(f"{number_of(len(named), 'name')} written below [names] of {path}.")


@commands.command()
def doctor(as_json: Json = False) -> None:
    """Check the settings; name what is wrong.

    Settings, clock, token, each scope, signing and one read.
    """
    from fundlab.client.doctor import doctor as run_checks

    _show_checks(run_checks(), "run this again", as_json)


def _show_checks(
    checks: Sequence[Check],
    then: str,
    as_json: bool,
    body: Mapping[str, Any] | None = None,
    before: str = "",
    after: str = "",
) -> None:
    """The findings, between what else there is to say; ``after`` only where all is well."""
    wrong = [check.name for check in checks if not check.ok]
    whole = {**(body or {}), "ok": not wrong, "checks": [vars(check) for check in checks]}
    message = (
        f"{len(wrong)} of {len(checks)} checks failed: {', '.join(wrong)}; do what stands beside "
        f"each, then {then}"
    )
    if wrong:
        whole["error"] = {"type": "ChecksFailed", "message": message}
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    lines = []
    for check in checks:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
        lines += [f"      → {check.advice}"] if check.advice else []
    lines = [
        textwrap.fill(line, width, subsequent_indent=" " * 8, break_on_hyphens=False)
        for line in lines
    ]
    around = [*([before] if before else []), *lines, *([after] if after and not wrong else [])]
    answer(whole, as_json, "\n".join(around))
    if wrong:
        if not as_json:
            say(f"fundlab: {message}")
        raise typer.Exit(FAILED)


@keys.command("new")
def new_key(
    out: Annotated[
        Path | None, typer.Option(help="File of the private key; never overwritten.")
    ] = None,
    alg: Annotated[Algorithm, typer.Option(help="Kind of key; approvals need EdDSA.")] = "ES256",
    keyring: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Keep it in the system keyring, to approve with."),
    ] = None,
    encrypt: Annotated[
        bool,
        typer.Option("--encrypt", help=f"Ask for a password (or {_KEY_PASSWORD})."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a key pair: the private key in a file (mode 0600), the public key printed."""
    from fundlab.client import signing
    from fundlab.settings.secret import Secret

    if (out is None) is (keyring is None) or (keyring is not None and alg != "EdDSA"):
        raise typer.BadParameter(
            "give one of the two; in the keyring is room for --alg EdDSA",
            param_hint="--out / --keyring",
        )
    password = None
    if encrypt:
        unanswered = SettingsError(
            "no password was given; nothing was written: type it at a terminal, or set "
            f"{_KEY_PASSWORD}"
        )
        password = Secret(
            os.environ.get(_KEY_PASSWORD)
            or terminal.ask("Password", unanswered, hide_input=True, confirmation_prompt=True)
        )
    if out is None:
        from fundlab.cli.agreement import key_into_keyring

        public = key_into_keyring(str(keyring), password)
        answer({"alg": alg, "keyring": keyring, "public_key": public}, as_json, public.rstrip(),
               well=False)  # fmt: skip
        return
    public = signing.new_key(alg, out, password)
    body = {"alg": alg, "signing_key": str(out), "public_key": public}
    try:
        answer(body, as_json, public.rstrip(), well=False)  # nobody could see it later
    except terminal.NoOutput:
        out.unlink()  # a key whose public half nobody saw is of no use
        raise
    say(
        f"The private key is in {out} (mode 0600). Register the public key on the credential, then "
        f"set FUNDLAB_SIGNING_KEY={out.absolute()} and FUNDLAB_SIGNING_KEY_ID to the id it gets "
        "there."
    )
    if alg == "EdDSA":
        say(
            "To approve payments with it instead: keep what is printed in a file, have it added by "
            f"'fundlab approvers add NAME --key FILE', and give 'fundlab approve' --key {out}."
        )
