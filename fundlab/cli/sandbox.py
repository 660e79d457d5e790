"""``fundlab demo`` and ``fundlab sandbox``: everything without a service."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import typer

from fundlab.base.errors import number_of
from fundlab.base.terminal import BREAKS, answer, say
from fundlab.cli.options import Algorithm, Json

commands = typer.Typer()


@commands.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of the store and the report.")] = Path(
        "data/demo"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the sandbox's history.")] = 7,
    transfers: Annotated[int, typer.Option(min=1, help="Transfers in the history.")] = 20_000,
    as_json: Json = False,
) -> None:
    """Run the whole job on a sandbox of its own.

    From the first sync over HTTP to the report.
    """
    from decimal import Decimal

    from fundlab.base.values import money_text
    from fundlab.cli.demo import run as run_demo

    result = run_demo(out, seed=seed, transfers=transfers, say=say)
    paid = result.withdrawal
    amount, fee, total, before, after = (
        money_text(Decimal(one))
        for one in (paid.amount, paid.fee, paid.total, paid.balance_before, paid.balance_after)
    )
    rows = [
        number_of(count, "observation") + " of balances"  # each is looked at several times
        if name == "balances"
        else number_of(count, name.removesuffix("s"))
        for name, count in result.rows.items()
    ]
    answer(
        result.to_json(),
        as_json,
        f"""\
synced      {" · ".join(rows)}
verdict     {result.verdict}
withdrawal  {amount} USD + {fee} fee: {paid.status}; available {before} → {after}, moved by \
exactly {total}
store       {result.store}
report      {result.report}
done in     {result.seconds} s""",
    )
    if result.breaks:
        raise typer.Exit(BREAKS)


@commands.command()
def sandbox(
    host: Annotated[str, typer.Option(help="Loopback address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 0,
    db: Annotated[Path | None, typer.Option(help="SQLite file; kept for a later start.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the history.")] = 7,
    transfers: Annotated[
        int, typer.Option(min=0, help="In the history; give --db for millions.")
    ] = 2_000,
    profiles: Annotated[int, typer.Option(min=1, help="Profiles of the customer.")] = 5,
    signing: Annotated[bool, typer.Option("--signing", help="Require signed requests.")] = False,
    signing_alg: Annotated[Algorithm, typer.Option(help="Of the signing key.")] = "ES256",
    clock: Annotated[
        Literal["real", "fast", "manual"], typer.Option(help="Business time; fast is 60 times.")
    ] = "real",
    empty: Annotated[bool, typer.Option("--empty", help="No history.")] = False,
    client_id: Annotated[str | None, typer.Option(help="Of the credential; else derived.")] = None,
    client_secret: Annotated[
        str | None,
        typer.Option(envvar="FUNDLAB_SANDBOX_CLIENT_SECRET", help="Of the credential; else made."),
    ] = None,
    signing_key: Annotated[
        Path | None, typer.Option(help="PEM key that signs; requests must then be signed.")
    ] = None,
    signing_key_id: Annotated[str | None, typer.Option(help="Of the signing key.")] = None,
    credentials: Annotated[
        Path | None, typer.Option(help="TOML file of several credentials with their scopes.")
    ] = None,
    load: Annotated[Path | None, typer.Option(help="Saved state to begin with.")] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Recording to answer with, and with nothing else.")
    ] = None,
    replay_ignoring: Annotated[
        list[str] | None, typer.Option(help="Member of a body that may differ from the recording.")
    ] = None,
    behaviour: Annotated[
        Path | None, typer.Option(help="TOML file of delays, fees, failures and limits.")
    ] = None,
    allow_remote: Annotated[
        bool,
        typer.Option("--allow-remote", help="Let other machines in; control then needs its key."),
    ] = False,
    control_key: Annotated[
        str | None,
        typer.Option(envvar="FUNDLAB_SANDBOX_CONTROL_KEY", help="Of the control interface."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="PEM certificate to serve HTTPS by.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    tls_self_signed: Annotated[
        bool,
        typer.Option("--tls-self-signed", help="Make a certificate; --tls-cert is where it goes."),
    ] = False,
    env: Annotated[
        bool, typer.Option("--env", help="Print lines that set the settings in a shell.")
    ] = False,
    command: Annotated[
        list[str] | None,
        typer.Argument(help="After --: run it with the sandbox's settings, then stop."),
    ] = None,
) -> None:
    """Serve the complete interface on this machine.

    The first line printed is one JSON object that says how to reach it. With -- COMMAND the
    sandbox lives as long as the command, finds it in its environment, and ends with its status.
    """
    from fundlab.sandbox import run
    from fundlab.settings.settings import is_loopback

    if not (allow_remote or is_loopback(host)):
        raise typer.BadParameter(
            f"{host!r} is not loopback: the sandbox serves this machine only, on 127.0.0.0/8, ::1 "
            "or localhost, unless --allow-remote lets others in",
            param_hint="--host",
        )
    if env and command:
        raise typer.BadParameter("a command has them in its environment", param_hint="--env")
    status = run(
        env=env,
        command=command or (),
        host=host,
        port=port,
        db=db,
        seed=seed,
        transfers=transfers,
        profiles=profiles,
        signing=signing,
        signing_alg=signing_alg,
        clock=clock,
        empty=empty,
        client_id=client_id,
        client_secret=client_secret,
        signing_key=signing_key,
        signing_key_id=signing_key_id,
        credentials=credentials,
        load=load,
        replay=replay,
        replay_ignoring=replay_ignoring or (),
        behaviour=behaviour,
        allow_remote=allow_remote,
        control_key=control_key,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_self_signed=tls_self_signed,
    )
    if status:
        raise typer.Exit(status)


@commands.command()
def record(
    base_url: Annotated[str, typer.Argument(help="Of the service, such as https://api…")],
    out: Annotated[Path, typer.Option(help="File that the answers are added to.")],
    auth_url: Annotated[str | None, typer.Option(help="Of its tokens, where it differs.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 0,
    ca_bundle: Annotated[Path | None, typer.Option(help="Certificates to trust.")] = None,
) -> None:
    """Keep what a service answers, with account numbers masked.

    Serves until Ctrl-C as the base and auth URL of any client, and passes everything on. Headers,
    tokens and secrets are never kept.
    """
    import signal
    from threading import Event

    from fundlab.mirror.recording import recording

    ended = Event()
    with recording(base_url, out, auth_url=auth_url, port=port, ca_bundle=ca_bundle) as url:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        answer({"base_url": url, "auth_url": url, "out": str(out)}, True, "")
        ended.wait()


@commands.command()
def mirror(
    file: Annotated[Path, typer.Argument(help="A recording, or an OpenAPI document (JSON, YAML).")],
    accepted: Annotated[
        Path | None,
        typer.Option(help='TOML of known differences: "<operation> <part> <member>" = "reason".'),
    ] = None,
    as_json: Json = False,
) -> None:
    """List where the sandbox and a deployment differ.

    Of a recording what was answered, of a document what is published.

    In three classes: we accept what they refuse, they answer what we never do, cosmetic. Exit
    status 3 where there is one of the first two that is not accepted.
    """
    from fundlab import sandbox

    sandbox.serve  # noqa: B018 - which names the extra where it is not installed
    from fundlab.mirror.comparison import COSMETIC, accepted_places, differences_of, lines_of

    places = accepted_places(accepted) if accepted is not None else {}
    differences = differences_of(file)
    known = {
        one: reason
        for one in differences
        for place, reason in places.items()
        if fnmatchcase(one.place, place)
    }
    left = [one for one in differences if one not in known]
    unmet = [p for p in places if not any(fnmatchcase(one.place, p) for one in differences)]
    notes = [f"accepted: {len(known)}"] * bool(known)
    notes += [f"accepted, but there is no such difference: {place}" for place in unmet]
    result = {
        "differences": [one.to_json() for one in left],
        "accepted": [one.to_json() | {"reason": reason} for one, reason in known.items()],
        "unmet": unmet,
    }
    answer(result, as_json, "\n".join([*lines_of(left), *notes]) or "no differences")
    if any(one.kind != COSMETIC for one in left):
        raise typer.Exit(BREAKS)
