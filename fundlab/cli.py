"""The command ``fundlab``: parse, call, print.

Results go to standard output, progress and logs to standard error. Exit status: 0 done, 1 failed,
2 wrong usage, 3 done but breaks were found, 4 another run holds the store, 130 interrupted; a
shell says 143 where a signal (SIGTERM) ended the run.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn

import typer

from fundlab import console
from fundlab.console import BREAKS, FAILED, answer, say
from fundlab.errors import (
    ActionRefused,
    AnalysisError,
    CloseRefused,
    FundlabError,
    SettingsError,
    StoreError,
    number_of,
)

if TYPE_CHECKING:
    from fundlab.facade import Store

_UNWRAPPED: Final = 10_000

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit status: 0 done; 1 failed; 2 wrong usage; 3 done, but balances do not match or "
    "rows break a rule, or a closed period has moved; 4 another run holds the store; 130 "
    "interrupted (Ctrl-C); 143 ended by SIGTERM (a sandbox then ends with 0). After 130 and 143 "
    "run the same command again to go on.",
)
keys = typer.Typer(no_args_is_help=True, help="Keys that sign requests.")
app.add_typer(keys, name="keys")
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


@app.callback()
def configure(
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Log calls; twice for details.")
    ] = 0,
) -> None:
    """Load, prove, study and report a funding service's transfers, exactly."""
    level = ["WARNING", "INFO", "DEBUG"][min(verbose, 2)]
    level = (os.environ.get("FUNDLAB_LOG") or level).upper()
    if level not in logging.getLevelNamesMapping():
        raise SettingsError(
            f"FUNDLAB_LOG={level!r} is not a valid level; give DEBUG, INFO or WARNING"
        )
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("fundlab").setLevel(level)


@app.command()
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
    from fundlab.demo import run as run_demo

    result = run_demo(out, seed=seed, transfers=transfers, say=say)
    paid = result.withdrawal
    rows = [number_of(count, name.removesuffix("s")) for name, count in result.rows.items()]
    answer(
        result.to_json(),
        as_json,
        f"""\
synced      {" · ".join(rows)}
verdict     {result.verdict}
withdrawal  {paid.amount} USD + {paid.fee} fee: {paid.status}; available {paid.balance_before} → \
{paid.balance_after}, moved by exactly {paid.total}
store       {result.store}
report      {result.report}
done in     {result.seconds} s""",
    )
    if result.breaks:
        raise typer.Exit(BREAKS)


@app.command()
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
) -> None:
    """Serve the complete interface on this machine.

    The first line printed is one JSON object that says how to reach it.
    """
    from fundlab.sandbox import run
    from fundlab.settings import is_loopback

    if not is_loopback(host):
        raise typer.BadParameter(
            f"{host!r} is not loopback: the sandbox serves this machine only, on 127.0.0.0/8, ::1 "
            "or localhost",
            param_hint="--host",
        )
    run(
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
    )


@app.command()
def sync(
    tables: Annotated[list[TableName] | None, typer.Argument(help="All by default.")] = None,
    store: StorePath = None,
    since: Annotated[str | None, typer.Option(help="Only rows created from this time on.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Pages fetched at once.")] = 1,
    full: Annotated[
        bool,
        typer.Option("--full", help="Fetch everything again, also what is older than --since was."),
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(help="Folder of plain Parquet files of the current rows, for other tools."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring the store up to date."""
    from fundlab.analysis.closing import restatements
    from fundlab.api.client import connect
    from fundlab.facade import Store
    from fundlab.store.plain_files import export_files

    with connect() as client:
        books = Store(store or client.settings.store)
        if export is not None:
            export_files(books.path, export)  # before the sync: it may take long
        result = books.sync(client, tables=tables or None, since=since, workers=workers, full=full)
    moved = [str(one) for one in restatements(books)]
    body, text = result.to_json() | {"moved": moved}, "\n".join([str(result), *moved])
    failed: FundlabError | None = None
    if export is not None:
        try:
            files = books.export_current(export)
        except FundlabError as error:
            failed = error
            message = f"the sync is done, but not the export: {error}"
            body["error"] = {"type": type(error).__name__, "message": message}
        else:
            body["exported"] = {name: str(path) for name, path in files.items()}
            text += f"\ncurrent rows in {export}"
    answer(body, as_json, text)
    if failed is not None:
        if not as_json:
            say(f"fundlab: {message}")
        raise typer.Exit(FAILED)
    if moved:
        raise typer.Exit(BREAKS)


@app.command()
def verify(store: StorePath = None, as_json: Json = False) -> None:
    """Prove the store: files, rows and balances.

    Checks checksums, schemas, ids, row invariants, and balance changes against transfers.
    """
    books = _existing(store)
    found = books.verify()
    body = found.to_json()
    if not found.ok:
        message = f"{number_of(found.count, 'problem')} in {books.path}"
        body["error"] = {"type": "ProblemsFound", "message": message}
    answer(body, as_json, str(found))
    if not found.ok or found.moved:
        raise typer.Exit(BREAKS)


@app.command()
def compact(
    tables: Annotated[list[TableName] | None, typer.Argument(help="All by default.")] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Merge the files of the store.

    A sync does it by itself where it pays.
    """
    books = _existing(store)
    done = {name: str(path) for name, path in books.compact(tables or None).items()}
    text = f"merged the files of {', '.join(done)} in {books.path}"
    if not done:
        text = f"each table of {books.path} is one file already"
    answer({"store": str(books.path), "compacted": done}, as_json, text)


@app.command()
def export(
    table: Annotated[TableName, typer.Argument()],
    out: Annotated[Path, typer.Option(help="The file; an earlier one is replaced.")],
    format: Annotated[Literal["csv", "xlsx", "parquet", "json"], typer.Option(help="Of the file.")],
    store: StorePath = None,
    as_of: Annotated[str | None, typer.Option(help="What was known at this time.")] = None,
    since: Annotated[str | None, typer.Option(help="Rows created from this time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Rows created before this time.")] = None,
    as_json: Json = False,
) -> None:
    """Write one table to a file, every amount exact.

    Other programs open it safely: no text in it becomes a formula.
    """
    from fundlab.exports import export_table, names_another

    if names_another(out, format):
        raise typer.BadParameter(
            f"{out.name} names another format than {format}: change one of the two",
            param_hint="--out",
        )
    written = export_table(
        _existing(store), table, out, format, as_of=as_of, since=since, until=until
    )
    answer(written.to_json(), as_json, str(written))


@app.command()
def withdraw(
    profile: Annotated[str, typer.Option(help="Id of the profile that pays.")],
    fiat_account: Annotated[str, typer.Option(help="Id of the account that is paid.")],
    amount: Annotated[str, typer.Option(help="Without the fee, such as 100.00.")],
    asset: Annotated[str, typer.Option(help="What is paid.")] = "USD",
    ref_id: Annotated[str | None, typer.Option(help="Names the payment; else derived.")] = None,
    identity: Annotated[str | None, typer.Option(help="End user, third-party flows.")] = None,
    account: Annotated[str | None, typer.Option(help="The end user's account.")] = None,
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="One more like one of the last 24 hours.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree beforehand.")] = False,
    confirm_amount: Annotated[
        str | None, typer.Option(help="The amount again; --yes needs it in production.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until it has COMPLETED or FAILED.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 300.0,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Show a withdrawal's plan, ask, send it.

    The same command again finds what was sent, and sends nothing.
    """
    from fundlab import actions
    from fundlab.api.client import connect

    def ask(question: str) -> str:
        unanswered = ActionRefused(
            "code",
            "there was no answer; nothing was sent: answer at a terminal, or give --yes to agree "
            "beforehand",
        )
        return console.ask(question, unanswered, default="", show_default=False)

    with connect() as client:
        plan = actions.plan_withdrawal(
            client,
            profile_id=profile,
            fiat_account_id=fiat_account,
            amount=amount,
            asset=asset,
            ref_id=ref_id,
            identity_id=identity,
            account_id=account,
            allow_duplicate=allow_duplicate,
            store=store,
            say=say,
        )
        done = actions.withdraw(
            plan,
            yes=yes,
            confirm_amount=confirm_amount,
            ask=None if as_json or sys.stdin is None else ask,
            dry_run=dry_run,
            wait=wait,
            timeout=timeout,
            show=say if as_json else console.write,
        )
    answer(done.to_json(), as_json, str(done))
    if done.failed:
        raise typer.Exit(FAILED)


@app.command()
def report(
    store: StorePath = None,
    period: Annotated[
        str | None,
        typer.Option(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all by default."),
    ] = None,
    as_of: Annotated[str | None, typer.Option(help="What was known at this time.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the files.")] = Path("data/reports"),
    format: Annotated[str, typer.Option(help="Some of html,xlsx,csv.")] = "html,xlsx,csv",
    tz: Annotated[str, typer.Option(help="Zone that days and months are in.")] = "UTC",
    basis: BasisOption = "settled",
    catch_up: Annotated[
        bool,
        typer.Option(
            "--catch-up",
            help="Every month that is over and has no report in the folder, from --period on; "
            "current breaks are shown each time.",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print nothing while all is well.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the report of a period.

    Exit status 3 where balances do not match or rows break a rule.
    """
    from fundlab import reporting

    formats = [name.strip() for name in format.split(",") if name.strip()]
    unknown = [name for name in formats if name not in reporting.FORMATS]
    if unknown or not formats:
        raise typer.BadParameter(
            f"{format!r}: give some of {','.join(reporting.FORMATS)}", param_hint="--format"
        )
    if catch_up and as_of is not None:
        raise typer.BadParameter("give either --catch-up or --as-of", param_hint="--catch-up")
    _checked_period(period or "2000", "--period or --tz", tz)
    books = _existing(store)
    done: reporting.CaughtUp | reporting.Report
    if catch_up:
        done = reporting.catch_up(books, out, formats, since=period, tz=tz, basis=basis)
    else:
        found = reporting.read_report(books, period, as_of=as_of, tz=tz, basis=basis)
        done = reporting.write_report(found, out, formats)
    if as_json or done.is_alarming or done.proves_nothing or not quiet:
        answer(done.to_json(), as_json, done.text)
    if done.is_alarming:
        raise typer.Exit(BREAKS)


@app.command()
def bank(
    files: Annotated[list[Path], typer.Argument(help="Statements of one account.")],
    period: Annotated[
        str | None,
        typer.Option(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all their days."),
    ] = None,
    store: StorePath = None,
    side: Annotated[
        Literal["ours", "service"], typer.Option(help="Whose account at the bank it is.")
    ] = "service",
    format: Annotated[
        str | None, typer.Option(help="csv, mt940, camt.053, ofx or bai2; by its look.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="One of several in the files.")] = None,
    asset: Annotated[str, typer.Option(help="What is reconciled.")] = "USD",
    window: Annotated[int, typer.Option(min=0, help="Days a transfer may take.")] = 3,
    opening: Annotated[
        str | None, typer.Option(help="Balance before the first statement, if it declares none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove bank statements and reconcile them with the transfers.

    Exit status 3 where something stays unexplained.
    """
    from fundlab import bank as banking

    books = _existing(store)
    read = banking.read(*files, format=format, asset=asset, opening=opening)
    found = banking.reconcile(
        books, read, period, side=side, account=account, asset=asset, window=window
    )
    answer(found.to_json(), as_json, found.text)
    if not found.ok:
        raise typer.Exit(BREAKS)


@app.command()
def close(
    period: Annotated[str, typer.Argument(help="2026-10, 2026-Q4, 2026, 2026-W40 or a day.")],
    store: StorePath = None,
    basis: BasisOption = "settled",
    by: Annotated[str | None, typer.Option(help="Who closes it.")] = None,
    note: Annotated[str | None, typer.Option(help="Kept with the close.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the close pack.")] = None,
    with_breaks: Annotated[
        bool, typer.Option("--with-breaks", help="Close in spite of breaks, for --reason.")
    ] = False,
    restate: Annotated[
        bool, typer.Option("--restate", help="Accept what moved since it was closed, for --reason.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Of --with-breaks or --restate.")] = None,
    as_json: Json = False,
) -> None:
    """Close a period: check it, freeze its figures, write its pack.

    A closed period stays as it was closed; exit status 3 where something stands in the way, or it
    has moved. The same command again changes nothing.
    """
    from fundlab import reporting
    from fundlab.analysis.closing import restatements

    if (with_breaks or restate) != (reason is not None):
        raise typer.BadParameter(
            "give --reason with --with-breaks or --restate, and only then", param_hint="--reason"
        )
    _checked_period(period, "--period")
    books = _existing(store)
    done = None if restate else reporting.find_close(books, period, basis)
    moved = [] if done is None else [str(one) for one in restatements(books) if one.close == done]
    try:
        if done is None:
            done = books.close(
                period, basis, by, note, with_breaks=reason if with_breaks else None,
                restate=reason if restate else None,
            )  # fmt: skip
    except CloseRefused as refusal:
        body = {"period": period, "closed": False, "obstacles": list(refusal.obstacles)}
        error = {"type": "CloseRefused", "message": str(refusal)}
        text = [f"{period} is not closed:", *refusal.obstacles, refusal.advice]
        answer(body | {"error": error}, as_json, "\n".join(text))
        raise typer.Exit(BREAKS) from None
    lines = [f"{done} closed at {done.record.at[:19]}Z, record {done.hash[:16]}, pin {done.pin}"]
    body = {
        "period": period, "basis": basis, "closed": True, "closed_at": done.record.at,
        "hash": done.hash, "pin": done.pin, "moved": moved,
    }  # fmt: skip
    if out is not None:
        files = reporting.write_pack(books, done, out)
        body["files"] = [str(path) for path in files]
        lines.append(f"the pack is {files[0]} and {len(files) - 1} files beside it")
    answer(body, as_json, "\n".join([*lines, *moved]))
    if moved:
        raise typer.Exit(BREAKS)


@app.command()
def reopen(
    period: Annotated[str, typer.Argument(help="A closed one.")],
    by: Annotated[str, typer.Option(help="Who reopens it.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Record that a closed period is open again; its close is kept."""
    _existing(store).reopen(period, by=by, reason=reason)
    answer({"period": period, "by": by, "reason": reason}, as_json, f"{period} is open again")


@app.command()
def reperform(
    folder: Annotated[Path, typer.Argument(help="Of a close pack.")],
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Make a close pack again from the store, and compare it.

    Exit status 3 where something differs.
    """
    from fundlab import reporting

    found = reporting.reperform(_existing(store), folder)
    same = f"every figure and file of {folder} is what the store makes of its pin"
    text = "\n".join(found) or same
    answer({"folder": str(folder), "same": not found, "differences": found}, as_json, text)
    if found:
        raise typer.Exit(BREAKS)


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
        answer(body, as_json, public.rstrip())
    except console.NoOutput:
        out.unlink()  # a key whose public half nobody saw is of no use
        raise
    say(
        f"The private key is in {out} (mode 0600). Register the public key on the credential, then "
        f"set FUNDLAB_SIGNING_KEY={out} and FUNDLAB_SIGNING_KEY_ID to the id it gets there."
    )


@app.command()
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


def main() -> NoReturn:
    """Run the command line; what goes wrong becomes one line or object, and an exit status."""
    status = 0
    try:
        console.prepare()
        run(sys.argv[1:])
    except typer.Exit as end:
        status = end.exit_code
    except (
        FundlabError, console.UsageError, OSError, OverflowError, KeyboardInterrupt
    ) as error:  # fmt: skip
        status = console.show_error(error, "--json" in sys.argv[1:])
    sys.exit(status)


def run(arguments: list[str]) -> None:
    """Do what ``arguments`` say; whatever goes wrong is raised."""
    command = typer.main.get_command(app)
    with command.make_context("fundlab", arguments) as context:
        command.invoke(context)


def _checked_period(period: str, hint: str, tz: str = "UTC") -> None:
    from fundlab.analysis.periods import period_bounds

    try:
        period_bounds(period, tz)
    except AnalysisError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from None


def _existing(given: str | None) -> Store:
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
