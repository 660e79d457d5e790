"""Books as the files that ledgers and accounting systems read: Beancount, hledger, CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa

from fundlab.base.errors import OutputError
from fundlab.base.values import plain_text
from fundlab.exports.plain import write_csv

Format = Literal["beancount", "hledger", "csv"]
CSV_COLUMNS: Final = (
    "date", "account", "debit", "credit", "asset", "memo", "transfer_id", "reference", "entry",
)  # fmt: skip
_BEANCOUNT_ASSET: Final = re.compile(r"[A-Z][A-Z0-9'._-]{0,22}[A-Z0-9]|[A-Z]")
_BEANCOUNT_ACCOUNT: Final = re.compile(
    r"(Assets|Liabilities|Equity|Income|Expenses)(:[A-Z0-9][A-Za-z0-9-]*)+"
)
_LETTERS: Final = re.compile(r"[A-Za-z]+")
_NOT_PLAIN: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


@dataclass(frozen=True)
class Books:
    """The entries of a period, as ``fl.books.entries`` gives them, ready to be written.

    ``assertions`` are accounts, assets and the balance that each must have once the ``last`` day is
    over; ``opened`` the accounts that earlier books opened; ``title`` the first line.
    """

    title: str
    first: date
    last: date
    entries: pa.Table
    assertions: Sequence[tuple[str, str, Decimal]]
    opened: frozenset[str] = frozenset()

    def groups(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Each entry, by its key, with its postings."""
        rows = (
            row
            for batch in self.entries.to_batches(max_chunksize=65_536)
            for row in batch.to_pylist()
        )
        for key, postings in groupby(rows, lambda row: (row["date"], row["entry"])):
            yield key[1], list(postings)

    def accounts(self) -> list[str]:
        """Those that these books are the first to use."""
        used = {*self.entries.column("account").unique().to_pylist()}
        return sorted((used | {account for account, *_ in self.assertions}) - self.opened)


def write_beancount(books: Books, path: Path) -> None:
    """Raises ``OutputError`` for an account or asset that Beancount has no way to spell."""
    assets = books.entries.column("asset").unique().to_pylist()
    for name, values, spelling in (
        ("asset", assets, _BEANCOUNT_ASSET),
        ("account", books.accounts(), _BEANCOUNT_ACCOUNT),
    ):
        wrong = next((one for one in values if not spelling.fullmatch(one)), None)
        if wrong is not None:
            raise OutputError(
                f"{name} {wrong!r} is not a valid Beancount {name}; name it otherwise in the chart "
                "of accounts, or write hledger or csv"
            )

    def lines() -> Iterator[str]:
        yield f"; {_plain(books.title)}\n"
        for account in books.accounts():
            yield f"{books.first} open {account}\n"
        for entry, postings in books.groups():
            payee, memo = (_quoted(text) for text in _described(entry, postings))
            yield f"\n{postings[0]['date']} * {payee} {memo}\n"
            for name, text in _links(postings):
                yield f"  {name}: {_quoted(text)}\n"
            for account, amount, asset in _amounts(postings):
                yield f"  {account}  {amount} {asset}\n"
        yield "\n"
        for account, asset, balance in books.assertions:
            day = books.last + timedelta(days=1)  # Beancount looks before a day's entries
            yield f"{day} balance {account}  {plain_text(balance)} ~ 0 {asset}\n"

    _write(path, lines())


def write_hledger(books: Books, path: Path) -> None:
    def lines() -> Iterator[str]:
        yield f"; {_plain(books.title)}\ndecimal-mark .\n"
        for account in books.accounts():
            yield f"account {account}\n"
        for entry, postings in books.groups():
            payee, memo = _described(entry, postings)
            text = " | ".join(_plain(one).replace("|", "/") for one in (payee, memo) if one)
            links = ", ".join(f"{name}:{_plain(one)}" for name, one in _links(postings))
            tags = f"  ; {links}" if links else ""
            yield f"\n{postings[0]['date']} * {text.replace(';', ',')}{tags}\n"
            for account, amount, asset in _amounts(postings):
                yield f"    {account}  {amount} {_commodity(asset)}\n"
        if books.assertions:
            yield f"\n{books.last} * closing balances\n"
        for account, asset, balance in books.assertions:
            unit = _commodity(asset)
            yield f"    {account}  0 {unit} = {plain_text(balance)} {unit}\n"

    _write(path, lines())


def write_ledger_csv(books: Books, path: Path) -> None:
    """The postings as general ledgers import them: :data:`CSV_COLUMNS`."""
    write_csv(books.entries.select(CSV_COLUMNS), path)


WRITERS: Final[Mapping[Format, Callable[[Books, Path], None]]] = {
    "beancount": write_beancount,
    "hledger": write_hledger,
    "csv": write_ledger_csv,
}


def _write(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines)


def _described(entry: str, postings: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """What an entry is called, and the memo of its transfer."""
    kinds = dict.fromkeys(one["type"] for one in postings if one["type"])
    named = " and ".join(kind.replace("_", " ").lower() for kind in kinds)
    return named or entry, next((one["memo"] for one in postings if one["memo"]), "")


def _links(postings: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    ids = [*dict.fromkeys(one["transfer_id"] for one in postings if one["transfer_id"])]
    refs = [*dict.fromkeys(one["reference"] for one in postings if one["reference"])]
    for name, values in (("transfer", ids), ("reference", refs)):
        if values:
            yield name, " ".join(values)


def _amounts(postings: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Account, amount and asset of each posting. Within an entry the amounts of an asset have as
    many decimals each: Beancount lets an entry be off by half of the last one of the shortest."""
    decimals: dict[str, int] = {}
    signed = []
    for posting in postings:
        amount = posting["debit"] if posting["credit"] is None else posting["credit"].copy_negate()
        digits = len(plain_text(amount).partition(".")[2])
        decimals[posting["asset"]] = max(decimals.get(posting["asset"], 2), digits)
        signed.append((posting["account"], amount, posting["asset"]))
    for account, amount, asset in signed:
        yield account, plain_text(amount, decimals[asset]), asset


def _plain(text: str) -> str:
    """On one line, whoever wrote it."""
    return _NOT_PLAIN.sub(" ", text)


def _quoted(text: str) -> str:
    return '"' + _plain(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _commodity(asset: str) -> str:
    return asset if _LETTERS.fullmatch(asset) else '"' + _plain(asset).replace('"', "'") + '"'
