"""``fundlab sync``, ``verify``, ``compact``, ``export``: the store's files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from fundlab.base.errors import FundlabError, listed, number_of, printable
from fundlab.base.terminal import BREAKS, FAILED, answer, say
from fundlab.cli.options import (
    AsOf,
    Json,
    Since,
    StorePath,
    TableName,
    Until,
    checked_span,
    existing_store,
)

commands = typer.Typer()
quarantine = typer.Typer(help="Rows that a sync could not read.")
commands.add_typer(quarantine, name="quarantine")


@commands.command()
def sync(
    tables: Annotated[list[TableName] | None, typer.Argument(help="All by default.")] = None,
    store: StorePath = None,
    since: Since = None,
    workers: Annotated[int, typer.Option(min=1, help="Pages fetched at once.")] = 1,
    full: Annotated[
        bool,
        typer.Option("--full", help="Fetch everything again, also what is older than --since was."),
    ] = False,
    publish: Annotated[
        str | None,
        typer.Option(
            help="Folder or bucket of the current rows, month by month, for other engines; only "
            "what changed is written."
        ),
    ] = None,
    publish_format: Annotated[
        Literal["parquet", "delta"], typer.Option(help="Of --publish.")
    ] = "parquet",
    as_json: Json = False,
) -> None:
    """Bring the store up to date; hold payments against it.

    Exit status 3 where closed periods have moved, rows are gone, a balance is no longer reported,
    or a payment is not at the service as its card showed it.
    """
    from fundlab.client.client import connect
    from fundlab.evidence.quarantine import open_lines
    from fundlab.evidence.vanished_rows import gone_lines
    from fundlab.operate.store import Store, moved_periods
    from fundlab.payments.journal_files import damaged_journals, journal_entries
    from fundlab.payments.reconciliation import reconciled
    from fundlab.store.publishing import published_tables

    given = None if store is None else Store(store)
    with connect() as client:
        books = Store(client.settings.store) if given is None else given
        if publish is not None:  # looked at before the sync: it may take long
            published_tables(books.path, publish, publish_format)
        result = books.sync(client, tables=tables or None, since=since, workers=workers, full=full)
    records = books.records()
    moved = [*gone_lines(records), *open_lines(records), *map(str, moved_periods(books))]
    payments = reconciled(books, journal_entries(books))
    broken = [f"{path} is not intact; see fundlab verify" for path, _ in damaged_journals(books)]
    lines = [str(result), *moved, *broken, *([str(payments)] if str(payments) else [])]
    body = result.to_json() | {"moved": moved, "damaged_journals": broken, **payments.to_json()}
    text = "\n".join(lines)
    failed: FundlabError | None = None
    try:
        if publish is not None:
            published = books.publish(publish, publish_format)
            body["published"] = {name: asdict(one) for name, one in published.items()}
            size = sum(one.bytes for one in published.values())
            months = sum(len(one.written) for one in published.values())
            text += f"\npublished to {publish}: {number_of(months, 'month')}, {size / 1e6:.1f} MB"
    except FundlabError as error:
        failed = error
        message = f"the sync is done, but not the publication: {error}"
        body["error"] = {"type": type(error).__name__, "message": message}
    answer(body, as_json, text)
    if failed is not None:
        if not as_json:
            say(f"fundlab: {message}")
        raise typer.Exit(FAILED)
    # Those of profiles that are accepted as no longer ours are not among the accounts.
    lost = set(result.unreported)
    if lost:
        lost &= {(one.profile_id, one.asset) for one in books.accounts().every}
    if moved or broken or payments.differences or lost:
        raise typer.Exit(BREAKS)


@commands.command()
def verify(
    store: StorePath = None,
    anchor: Annotated[
        str | None, typer.Option(help="A line or file of 'fundlab anchor': all of it is there.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove the store: files, rows and balances.

    Checks checksums, schemas, ids, row invariants, and observed balances against transfers.
    """
    from fundlab.cli.backups import anchor_words

    books = existing_store(store)
    signed = None if anchor is None else anchor_words(anchor)
    found = books.verify(anchor)
    body = found.to_json()
    if signed is not None:
        body["anchor"] = signed
    if not found.ok:
        message = f"{number_of(found.count, 'problem')} in {books.path}"
        if not found.count and found.judgement is not None:
            message = found.judgement.headline
        body["error"] = {"type": "ProblemsFound", "message": message}
    answer(body, as_json, "\n".join(filter(None, [str(found), signed])))
    if not found.ok or found.moved:
        raise typer.Exit(BREAKS)


@commands.command("accept-gone")
def accept_gone(
    by: Annotated[str, typer.Option(help="Who knows of it.")],
    reason: Annotated[str, typer.Option(help="Why they are gone.")],
    ids: Annotated[list[str] | None, typer.Argument(help="All that are gone by default.")] = None,
    still_counts: Annotated[
        bool,
        typer.Option(
            "--still-counts",
            help="The service's balances still have them; with IDS, take an acceptance back.",
        ),
    ] = False,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Accept that the service lists certain rows no more.

    No figure has them from then on, and a closed period they were in has moved; history has them.
    To undo that, give their ids again with --still-counts.
    """
    books = existing_store(store)
    found = books.accept_gone(ids or None, by=by, reason=reason, still_counts=still_counts)
    done = found["id"].tolist()
    text = "no row is gone: 'fundlab verify' names those that are"
    if done:
        counts = "counted as before" if still_counts else "in no figure from now on"
        text = f"{number_of(len(done), 'row')} accepted as gone, {counts}: {listed(done)}"
    if done and not still_counts:
        text += "; to undo that, give the ids again with --still-counts"
    answer({"accepted": done, "by": by, "reason": reason}, as_json, text)


@commands.command()
def compact(
    tables: Annotated[list[TableName] | None, typer.Argument(help="All by default.")] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Merge the files of the store.

    A sync does it by itself where it pays.
    """
    books = existing_store(store)
    done = {name: str(path) for name, path in books.compact(tables or None).items()}
    text = f"merged the files of {', '.join(done)} in {books.path}"
    if not done:
        text = f"each table of {books.path} is one file already"
    answer({"store": str(books.path), "compacted": done}, as_json, text)


@commands.command()
def export(
    table: Annotated[TableName, typer.Argument()],
    out: Annotated[Path, typer.Option(help="The file; an earlier one is replaced.")],
    format: Annotated[
        Literal["csv", "xlsx", "parquet", "json"] | None,
        typer.Option(help="Of the file; by default what --out ends in."),
    ] = None,
    store: StorePath = None,
    as_of: AsOf = None,
    since: Since = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Write one table to a file, every amount exact.

    Other programs open it safely: no text in it becomes a formula.
    """
    from fundlab.exports import FORMATS, export_table, names_another

    begins, ends = checked_span(since, until)
    ends_in = (name for name in FORMATS if out.suffix.lower() == f".{name}")
    kind: Any = format or next(ends_in, None)
    if kind is None:
        raise typer.BadParameter(
            f"{out.name} does not end in .{', .'.join(FORMATS)}: give one of these, or --format",
            param_hint="--out",
        )
    if names_another(out, kind):
        raise typer.BadParameter(
            f"{out.name} names another format than {kind}: change one of the two",
            param_hint="--out",
        )
    written = export_table(
        existing_store(store), table, out, kind, as_of=as_of, since=begins, until=ends
    )
    answer(written.to_json(), as_json, str(written))


@commands.command("accept-refused")
def accept_refused(
    by: Annotated[str, typer.Option(help="Who knows of it.")],
    reason: Annotated[str, typer.Option(help="Why the service refuses them.")],
    ids: Annotated[list[str] | None, typer.Argument(help="All that are by default.")] = None,
    profile: Annotated[
        str | None,
        typer.Option("--of", metavar="PROFILE", help="One that is no longer yours: all of it."),
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Accept that the service refuses to show certain rows.

    They stay as last seen. A profile that is accepted as no longer yours is left out of later
    verdicts, which name it.
    """
    found = existing_store(store).accept_refused(
        ids or None, profile_id=profile, by=by, reason=reason
    )
    count = number_of(len(found), "row")
    text = f"{count} accepted" + (f", and the profile {profile} is left out" if profile else "")
    answer({"accepted": len(found), "profile": profile}, as_json, text)


@quarantine.command("list")
def list_set_aside(store: StorePath = None, as_json: Json = False) -> None:
    """Show the rows that a sync could not read, with their JSON."""
    rows = existing_store(store).set_aside()
    found = rows.assign(**{name: rows[name].astype("str") for name in ("found_at", "ended_at")})
    found = found.astype("object").where(rows.notna(), None)
    lines = [
        f"{row['key']}  {row['state']}  {row['table']}  {row['id'] or 'without an id'}: "
        f"{row['reason']}\n  {row['raw']}"
        for row in found.to_dict("records")
    ]
    answer({"rows": found.to_dict("records")}, as_json, "\n".join(map(printable, lines)) or "none")


@quarantine.command("retry")
def retry_set_aside(store: StorePath = None, as_json: Json = False) -> None:
    """Ask the service for the rows again.

    Exit status 3 while some are set aside and not accepted.
    """
    from fundlab.client.client import connect
    from fundlab.evidence.quarantine import open_lines

    books = existing_store(store)
    with connect() as client:
        left = books.retry_set_aside(client)
    open_ = open_lines(books.records())
    answer({"left": left, "lines": open_}, as_json, "\n".join(open_) or "all can be read")
    if left:
        raise typer.Exit(BREAKS)


@quarantine.command("accept")
def accept_set_aside(
    by: Annotated[str, typer.Option(help="Who accepts it.")],
    reason: Annotated[str, typer.Option(help="Why nobody needs to read them.")],
    keys: Annotated[list[str] | None, typer.Argument(help="Or ids; all by default.")] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Accept that certain rows are left out.

    No verdict waits for them any more; each says how many there are.
    """
    found = existing_store(store).accept_set_aside(keys or None, by=by, reason=reason)
    answer({"accepted": len(found)}, as_json, f"{number_of(len(found), 'row')} accepted")
