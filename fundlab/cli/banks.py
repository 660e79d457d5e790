"""``fundlab bank``: statements of accounts at banks."""

from __future__ import annotations

import functools
import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from fundlab.base import terminal
from fundlab.base.errors import FundlabError, InvalidRequest
from fundlab.base.terminal import BREAKS, answer
from fundlab.cli.options import Json, StorePath, checked_period, existing_store

_SHOWN = ["booked_on", "amount", "asset", "memo", "balance"]


class _Files(TyperGroup):
    """``bank FILE…`` reconciles: what follows is a file or an option, unless it names a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = not args or args[0] in (*self.commands, "--help")
        return super().parse_args(ctx, args if named else ["reconcile", *args])


commands = typer.Typer()
bank = typer.Typer(
    cls=_Files,
    no_args_is_help=True,
    help="Prove bank statements, and reconcile the transfers. 'bank FILE…' is 'bank reconcile "
    "FILE…'.",
)
commands.add_typer(bank, name="bank")
profiles = typer.Typer(no_args_is_help=True, help="A bank's habits, as a small TOML file.")
bank.add_typer(profiles, name="profile")


@dataclass(frozen=True)
class BankOptions:
    """How ``bank``, ``report`` and ``close`` read statements and reconcile them."""

    side: Annotated[
        Literal["ours", "service"], typer.Option(help="Whose account at the bank it is.")
    ] = "service"
    account: Annotated[str | None, typer.Option(help="One of several in the files.")] = None
    asset: Annotated[str, typer.Option(help="What is reconciled with the bank.")] = "USD"
    window: Annotated[int, typer.Option(min=0, help="Days a transfer may take at the bank.")] = 3
    fees: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT,…", help="What the bank is known to keep back of a payment."),
    ] = None
    opening: Annotated[
        str | None, typer.Option(help="Balance before the first statement, if it declares none.")
    ] = None
    balance: Annotated[
        str | None, typer.Option(help="Balance per transfers at the period's end, if you know it.")
    ] = None
    carried: Annotated[
        Path | None,
        typer.Option(help="What 'fundlab bank --json' printed of the period before: its open "
                     "items."),
    ] = None  # fmt: skip
    profile: Annotated[
        Path | None,
        typer.Option(
            "--bank-profile",
            metavar="FILE|NAME",
            help="A TOML file with the bank's habits, or the name of a shipped one.",
        ),
    ] = None

    def asked(self) -> dict[str, Any]:
        """Those that are given otherwise than by default, for ``reconcile_files``."""
        found = {field.name: getattr(self, field.name) for field in fields(self)
                 if getattr(self, field.name) != field.default}  # fmt: skip
        if self.fees is not None:
            found["fees"] = [fee.strip() for fee in self.fees.split(",")]
        if self.carried is not None:
            found["carried"] = str(self.carried)
        if self.profile is not None:
            found["profile"] = str(self.profile)
        return found


def takes_bank_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of ``BankOptions``, which come to it as ``options``."""
    own, ours = (inspect.signature(of, eval_str=True).parameters for of in (command, BankOptions))
    taken = [one for one in (*own.values(), *ours.values()) if one.name != "options"]
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in taken]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        options = BankOptions(**{name: given.pop(name) for name in ours})
        command(**given, options=options)

    # Typer reads the signature, and the annotations again.
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return run


@bank.command("reconcile")
@takes_bank_options
def reconcile_statements(
    options: BankOptions,
    files: Annotated[list[Path], typer.Argument(help="Statements of one account.")],
    period: Annotated[
        str | None,
        typer.Option(help="2026, 2026-Q4, 2026-10, 2026-W40 or 2026-10-31; all their days."),
    ] = None,
    store: StorePath = None,
    format: Annotated[
        str | None, typer.Option(help="csv, mt940, camt.053, ofx or bai2; by its look.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove bank statements, and reconcile the transfers.

    Exit status 3 where something stays unexplained.
    """
    from fundlab.bank.reconciliation import reconcile_files

    if period is not None:
        checked_period(period, "--period")
    asked = options.asked()
    found = reconcile_files(existing_store(store), files, period, asked | {"format": format})
    answer(found.to_json(), as_json, found.text)
    if not found.ok:
        raise typer.Exit(BREAKS)


@bank.command("accept")
def accept_items(
    ids: Annotated[
        list[str],
        typer.Argument(help="Of entries (bank-…) and transfers; with both they belong together."),
    ],
    by: Annotated[str, typer.Option(help="Who accepts it.")],
    reason: Annotated[str, typer.Option(help="Why.")],
    kind: Annotated[
        Literal["match", "apart", "explained", "bank_error", "service_error", "open"] | None,
        typer.Option("--as", help="What it is; open takes back what was decided."),
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
) -> None:
    """Decide what is open: what belongs together, or is explained.

    Every later reconciliation, report and close pack goes by it.
    """
    from fundlab.bank.decisions import accept

    card = accept(existing_store(store), *ids, by=by, reason=reason, kind=kind)
    answer({"accepted": ids, "by": by, "reason": reason, "as": kind}, as_json, repr(card))


@bank.command("sample")
def sample_statements(
    period: Annotated[str, typer.Argument(help="Of --sandbox: a year, month or day.")] = "2026-10",
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Of the sandbox that the settings name.")
    ] = False,
    format: Annotated[str, typer.Option(help="Of --sandbox: csv, mt940, camt.053, ofx, bai2.")] = (
        "camt.053"
    ),
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path(),
) -> None:
    """Write statements to try 'fundlab bank' on: the sample's, or a sandbox's.

    They are of the bank account through which the fiat transfers pass.
    """
    from fundlab.bank.statements import sample
    from fundlab.client.client import connect

    if sandbox:
        with connect() as client:
            asked = {"period": period, "format": format}
            made = client.post("/_sandbox/bank_statement", asked)
        files, store = {made["name"]: made["text"]}, ""
    else:
        files = {path.name: path.read_text(encoding="utf-8") for path in sample()}
        store = f" --store {shlex.quote(str(sample()[0].parents[1] / 'sample'))}"
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (out / name).write_text(text, encoding="utf-8")
    names = shlex.join(str(out / name) for name in files)
    terminal.write(f"try: fundlab bank {names} --period {period}{store}")


@profiles.command("new")
def new_profile(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A CSV of the bank.")],
    out: Annotated[Path | None, typer.Option(help="Where it goes; a new file.")] = None,
) -> None:
    """Propose a profile from a file, and show what it would read."""
    from fundlab.bank.profiles import proposed
    from fundlab.bank.statements import read
    from fundlab.display import show

    text = proposed(file)
    if out is not None and out.exists():
        raise InvalidRequest(f"{out} is there already; give another --out, or change it by hand")
    with TemporaryDirectory() as folder:
        path = out or Path(folder) / "profile.toml"
        path.write_text(text, encoding="utf-8")
        try:
            found = read(file, profile=path, strict=False)
        except FundlabError as error:
            lines = [f"it cannot be read with this yet: {error}"]
        else:
            lines = [str(found), *str(show(found.entries[_SHOWN], rows=3)).splitlines(),
                     *map(str, found.findings["detail"])]  # fmt: skip
    terminal.write(text + "".join(f"# {line}\n" for line in lines).rstrip("\n"))


@profiles.command("list")
def list_profiles() -> None:
    """Show the names of the profiles that are shipped."""
    from fundlab.bank.profiles import shipped

    terminal.write("\n".join(shipped()))
