"""``fundlab report``, ``close``, ``reopen``, ``reperform``: a period, shown and closed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fundlab.base.errors import CloseRefused, FundlabError, number_of
from fundlab.base.paths import local_path
from fundlab.base.terminal import BREAKS, answer, explained, say
from fundlab.cli.banks import BankOptions, takes_bank_options
from fundlab.cli.options import (
    PRICE_AGE,
    AsOf,
    BasisOption,
    Json,
    PriceAge,
    StorePath,
    checked_period,
    existing_store,
)

commands = typer.Typer()
Bank = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE", help="A statement of the bank, reconciled in it; may be given again."
    ),
]


@commands.command()
@takes_bank_options
def report(
    options: BankOptions,
    of: Annotated[
        str | None,
        typer.Argument(
            metavar="[PERIOD]",
            help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all by default.",
        ),
    ] = None,
    store: StorePath = None,
    period: Annotated[str | None, typer.Option(help="The same, as an option.")] = None,
    as_of: AsOf = None,
    out: Annotated[Path, typer.Option(help="Folder of the files.")] = Path("data/reports"),
    format: Annotated[str, typer.Option(help="Some of html,xlsx,csv.")] = "html,xlsx,csv",
    tz: Annotated[str, typer.Option(help="Zone that days and months are in.")] = "UTC",
    basis: BasisOption = "settled",
    max_age: PriceAge = PRICE_AGE,
    catch_up: Annotated[
        bool,
        typer.Option(
            "--catch-up",
            help="Every month that is over and has no report in the folder, from --period on; "
            "current breaks are shown each time.",
        ),
    ] = False,
    bank: Bank = None,
    as_json: Json = False,
) -> None:
    """Write the report of a period.

    Exit status 3 where balances do not match, rows break a rule, a payment differs from its card,
    or something at the bank stays unexplained. --side and the options after it are those of
    'fundlab bank'.
    """
    from fundlab import reports

    formats = [name.strip() for name in format.split(",") if name.strip()]
    unknown = [name for name in formats if name not in reports.FORMATS]
    if unknown or not formats:
        raise typer.BadParameter(
            f"{format!r}: give some of {','.join(reports.FORMATS)}", param_hint="--format"
        )
    for given, name in ((as_of, "--as-of"), (bank, "--bank")):
        if catch_up and given:
            raise typer.BadParameter(f"give either --catch-up or {name}", param_hint="--catch-up")
    if of is not None and period not in (None, of):
        raise typer.BadParameter(f"give either {of} or --period {period}", param_hint="--period")
    period = of or period
    asked = _of_bank(bank, options)
    checked_period(period or "2000", "PERIOD or --tz", tz)
    books = existing_store(store)
    done: reports.CaughtUp | reports.Report
    if catch_up:
        done = reports.catch_up(books, out, formats, since=period, tz=tz, basis=basis,
                                max_age=max_age)  # fmt: skip
    else:
        reconciled = None
        if bank:
            from fundlab.bank.reconciliation import reconcile_files

            reconciled = reconcile_files(books, bank, period, asked, as_of=as_of)
        done = reports.report(
            books, period, as_of=as_of, out=out, formats=formats, tz=tz, basis=basis,
            bank=reconciled, max_age=max_age,
        )  # fmt: skip
    answer(done.to_json(), as_json, done.text, well=not done.proves_nothing)
    if done.is_alarming:
        raise typer.Exit(BREAKS)


@commands.command()
@takes_bank_options
def close(
    options: BankOptions,
    period: Annotated[str, typer.Argument(help="2026-10, 2026-Q4, 2026, 2026-W40 or a day.")],
    store: StorePath = None,
    basis: BasisOption = "settled",
    by: Annotated[str | None, typer.Option(help="Who closes it.")] = None,
    note: Annotated[str | None, typer.Option(help="Kept with the close.")] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            help="Zone of the period's days; by default the one it was last closed in, else UTC."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the close pack.")] = None,
    with_breaks: Annotated[
        bool, typer.Option("--with-breaks", help="Close in spite of breaks, for --reason.")
    ] = False,
    restate: Annotated[
        bool, typer.Option("--restate", help="Accept what moved since it was closed, for --reason.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Of --with-breaks or --restate.")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Draw so many monetary units to audit, in the pack.")
    ] = None,
    sample_asset: Annotated[str, typer.Option(help="Of --sample.")] = "USD",
    seed: Annotated[int, typer.Option(help="Of --sample: the same draws the same.")] = 0,
    bank: Bank = None,
    as_json: Json = False,
) -> None:
    """Check a period, freeze its figures, write its pack.

    A closed period stays as it was closed; exit status 3 where something stands in the way, it has
    moved, or something at the bank stays unexplained. The same command again changes nothing.
    --side and the options after it are those of 'fundlab bank'.
    """
    from fundlab import reports
    from fundlab.analysis import audit
    from fundlab.analysis.closing import restatements
    from fundlab.bank.reconciliation import reconcile_files

    if (with_breaks or restate) != (reason is not None):
        raise typer.BadParameter(
            "give --reason with --with-breaks or --restate, and only then", param_hint="--reason"
        )
    checked_period(period, "PERIOD or --tz", tz or "UTC")
    books = existing_store(store)
    asked = _of_bank(bank, options)
    if out is not None:
        out = local_path(out, "out")  # before anything is closed
    for given, name in ((bank, "--bank"), (sample, "--sample")):
        if given and out is None:
            raise typer.BadParameter("give the pack's folder with --out", param_hint=name)
    drawn: dict[str, Any] = {}
    if sample:
        drawn = {"method": "mus", "size": sample, "seed": seed, "asset": sample_asset}
    found = reports.find_close(books, period, basis)
    if found is not None and tz not in (None, found.tz):
        raise typer.BadParameter(
            f"{found} was closed with days in {found.tz}, not {tz}: leave --tz out, or reopen it",
            param_hint="--tz",
        )
    done = None if restate else found
    if bank:  # what the bank's files or the sample lack is said before anything is closed
        reconcile_files(books, bank, period, asked)
    if done is None and drawn:
        audit.sample(period, books, **drawn, basis=basis)
    moved = [] if done is None else [str(one) for one in restatements(books) if one.close == done]
    said = "closed at"
    if done is not None:
        said = "was closed already and nothing was changed: closed at"
    try:
        if done is None:
            done = books.close(
                period, basis, by, note, with_breaks=reason if with_breaks else None,
                restate=reason if restate else None, tz=tz,
            )  # fmt: skip
    except CloseRefused as refusal:
        refused = {"period": period, "closed": found is not None, "changed": False,
                   "obstacles": list(refusal.obstacles)}  # fmt: skip
        error = {"type": "CloseRefused", "message": str(refusal)}
        said = f"{found} stays as it was closed" if found else f"{period} is not closed"
        text = [f"{said}:", *refusal.obstacles, refusal.advice]
        answer(refused | {"error": error}, as_json, "\n".join(text))
        raise typer.Exit(BREAKS) from None
    by_whom = f" by {done.content['by']}" if done.content["by"] else ""
    lines = [
        f"{done} {said} {done.record.at[:19]}Z{by_whom}, record {done.hash[:16]}, pin {done.pin}"
        + ("" if done.tz == "UTC" else f"; its days are in {done.tz}")
    ]
    states, still_open = done.content["figures"]["transfers"], len(done.content["open_items"])
    count = number_of(sum(states.values()), "transfer") if states else "no transfer"
    lines.append(f"{count} in it, {number_of(still_open, 'item')} open at its end")
    if not states:
        lines[-1] += "; if another period was meant, 'fundlab reopen' takes it back"
    body: dict[str, Any] = {
        "period": period, "basis": basis, "closed": True, "closed_at": done.record.at,
        "changed": done is not found, "hash": done.hash, "pin": done.pin, "moved": moved,
        "transfers": states, "open_items": still_open,
    }  # fmt: skip
    files, failed, message = list[Path](), 0, ""
    try:
        if out is not None:
            files = reports.write_pack(books, done, out, bank or (), drawn or None, **asked)
    except (FundlabError, OSError) as error:
        failed, kind, why = explained(error)
        message = f"{done} is closed, but its pack is not written: {' '.join(why.split())}"
        body["error"] = {"type": kind, "message": message}
    if files:
        body["files"] = [str(path) for path in files]
        lines.append(f"the pack is {files[0]} and {len(files) - 1} files beside it")
        if not any(path.suffix == ".pdf" for path in files):
            lines.append(reports.NO_PDF)
    for path in files:
        if path.name.endswith(".bank.json"):
            body["bank"] = json.loads(path.read_text(encoding="utf-8"))
            lines.append(f"Bank: {body['bank']['verdict']}")
    answer(body, as_json, "\n".join([*lines, *moved]))
    if failed:
        if not as_json:
            say(f"fundlab: {message}")
        raise typer.Exit(failed)
    if moved or not body.get("bank", {"ok": True})["ok"]:
        raise typer.Exit(BREAKS)


def _of_bank(bank: list[Path] | None, options: BankOptions) -> dict[str, Any]:
    asked = options.asked()
    if asked and not bank:
        raise typer.BadParameter("give the statements that it is of with --bank")
    return asked


@commands.command()
def reopen(
    period: Annotated[str, typer.Argument(help="A closed one.")],
    by: Annotated[str, typer.Option(help="Who reopens it.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Record that a closed period is open again.

    Its close is kept.
    """
    existing_store(store).reopen(period, by=by, reason=reason)
    answer({"period": period, "by": by, "reason": reason}, as_json, f"{period} is open again")


@commands.command()
def reperform(
    folder: Annotated[Path, typer.Argument(help="Of a close pack.")],
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Make a close pack again from the store, and compare it.

    Exit status 3 where something differs.
    """
    from fundlab import reports

    found = reports.reperform(existing_store(store), folder)
    same = f"every figure and file of {folder} is what the store makes of its pin"
    text = "\n".join(found) or same
    answer({"folder": str(folder), "same": not found, "differences": found}, as_json, text)
    if found:
        raise typer.Exit(BREAKS)
