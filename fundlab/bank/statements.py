"""Bank statements: files of any bank in, proved entries and statements out."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from fundlab.bank.bai2 import read_bai2
from fundlab.bank.camt import read_camt
from fundlab.bank.csv_file import CSV_COLUMNS, read_csv
from fundlab.bank.model import (
    ENTRIES,
    FINDINGS,
    FORMATS,
    STATEMENTS,
    Page,
    Rule,
    check_digits,
    file_text,
    given_amount,
)
from fundlab.bank.mt940 import read_mt940
from fundlab.bank.ofx import read_ofx
from fundlab.bank.profiles import read_profile
from fundlab.bank.proof import prove
from fundlab.base.errors import AnalysisError, StatementError, install_command, reason_of
from fundlab.base.exact import EXACT
from fundlab.base.values import check_unicode, exact_sum
from fundlab.tables.frames import to_frame

__all__ = ["CSV_COLUMNS", "FORMATS", "MOST_BYTES", "Statements", "read"]

MOST_BYTES: Final = 256 * 1024**2
_ADVICE: Final = (
    "the file was cut or edited, or another one belongs to it: get it again from the bank, or "
    "read it with strict=False, which lists everything that contradicts itself"
)


@dataclass(frozen=True)
class Statements:
    """What files of a bank say, once.

    ``entries``, a row for each booked entry or payment of a batch: ``entry`` (Int64, from 1 in the
    order of the statements), ``entry_id`` (stays the same whichever files it is read with),
    ``statement``, ``position`` (on its page; payments of a batch share it), ``account``, ``asset``,
    ``booked_on``, ``valued_on`` (days), ``amount`` (decimal; in is positive), ``charges`` (decimal,
    what the bank says it kept back of the amount), ``reversal``, ``code`` (the bank's kind of
    entry), ``bank_ref``, ``own_ref``, ``counterparty``, ``memo``, ``balance`` (decimal, after it),
    ``file``, ``line``.

    ``statements``, a row for each statement or page of one, by account and time: ``statement``,
    ``kind`` (``statement``, ``interim``, ``notice``), ``format``, ``account``, ``asset``, ``id``,
    ``sequence``, ``page``, ``last_page``, ``opening_on``, ``opening``, ``closing_on``, ``closing``,
    ``available``, ``entries``, ``credits``, ``credit_sum``, ``debits``, ``debit_sum`` (as found),
    ``proved`` (``balances``, ``follows``: by the closing balance before it, ``counts``: by declared
    counts and sums only, ``no``: it declares nothing to prove it by), ``file``, ``line``,
    ``sha256`` (of the file).

    ``findings``: ``file``, ``line``, ``statement``, ``rule``, ``declared``, ``found``, ``detail``;
    empty unless read with ``strict=False``.

    ``options`` are ``opening`` and ``profile`` where they were given, as the command line takes
    them; ``rules`` are those of the profile, for ``reconcile``.
    """

    entries: pd.DataFrame
    statements: pd.DataFrame
    findings: pd.DataFrame
    options: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Statements({len(self.entries):,} entries, {len(self.statements):,} statements, "
            f"{len(self.findings):,} findings)"
        )


def read(
    *files: str | Path,
    format: str | None = None,
    account: str | None = None,
    asset: str | None = None,
    opening: str | int | Decimal | None = None,
    closing: str | int | Decimal | None = None,
    profile: str | Path | None = None,
    strict: bool = True,
) -> Statements:
    """The statements in ``files``, proved: see :class:`Statements`.

    ``format`` is one of ``FORMATS``; by default each file's own look says which. The header of a
    CSV may stand after other lines; which way the money went is said by signs, by a credit and a
    debit column, or by words in a column (``Withdrawal``, ``Soll``, ``out``), of which an unknown
    one is refused. ``account`` and ``asset`` are those of files that name none. ``opening`` and
    ``closing`` are the balances before the first and after the last statement where the format
    declares none (OFX, CSV).

    ``profile`` is a TOML file with a bank's habits, where the look of its files leaves them open:
    which column is what, how days and amounts are written, the words of a direction column, the
    encoding; see :mod:`fundlab.bank.profiles`. What is given beside it counts first.

    Proved is that the opening balance and the entries give the closing one, that counts, sums and
    control totals are as declared, that all pages are there, that running balances run, and that
    each statement of an account follows the one before, in balance and number. The same statement
    twice is one, and so is an entry that several files have: by the bank's reference, or by day,
    amount and the balance after it. What contradicts itself raises
    :class:`fundlab.errors.StatementError`, which names file, statement, what is declared and what
    was found; with ``strict=False`` it is a row of ``findings`` instead. What cannot be read
    exactly raises :class:`fundlab.errors.AnalysisError` either way, and so do more than 256 MiB,
    entities in XML, and a format whose parser (the extra ``bank``) is not installed.

    >>> statement = folder / "october.csv"
    >>> lines = {"date": ["2026-10-01", "2026-10-05"], "amount": ["1000.00", "-12.00"],
    ...          "balance": ["1500.00", "1488.00"]}
    >>> pd.DataFrame(lines).to_csv(statement, index=False)
    >>> found = fl.bank.read(statement, asset="USD")
    >>> found.statements[["opening", "closing", "entries", "proved"]]
       opening  closing  entries    proved
    0      500     1488        2  balances
    """
    if not files:
        raise AnalysisError("no statement file is given; give one path or more")
    habits = {} if profile is None else read_profile(profile)
    given = {"format": format, "account": account}
    habits |= {name: value for name, value in given.items() if value}
    pages: list[Page] = []
    for file in files:
        if not isinstance(file, str | Path):
            raise AnalysisError(f"{file!r} is not a path; give each file by itself: read(*files)")
        for page in read_pages(file, habits):
            page.account = page.account or habits.get("account")
            page.asset = page.asset or habits.get("asset") or asset
            pages.append(page)
    for balance, name in ((opening, "opening"), (closing, "closing")):
        if balance is not None:
            exact = given_amount(name, balance)
            accounts = {(page.account, page.asset) for page in pages}
            if len(accounts) > 1:
                raise AnalysisError(
                    f"{name}= belongs to one account; the files are of {len(accounts)}"
                )
            # The first statement opens with it, or the last one closes; it may declare the same.
            # A file without entries may have no day: it is neither, beside others.
            dated = [page for page in pages if page.closing_on is not None] or pages
            days = [(page.closing_on or date.min, n) for n, page in enumerate(dated)]
            page = dated[(min(days) if name == "opening" else max(days))[1]]
            found = getattr(page, name)
            if found is None:
                setattr(page, name, exact)
            elif found != exact:
                said = f"{name}= gives {exact}, the file declares {found}"
                page.contradictions.append((name, exact, found, said))
    pages, findings = prove(pages)
    if findings and strict:
        raise StatementError(findings, _ADVICE)
    options = {"opening": opening, "bank-profile": profile}
    return Statements(
        to_frame(_entries(pages)), to_frame(_statements(pages)),
        to_frame(_table([{n: getattr(f, n) for n in FINDINGS.names} for f in findings], FINDINGS)),
        {name: str(value) for name, value in options.items() if value is not None},
        habits.get("rules", ()),
    )  # fmt: skip


def sample() -> list[Path]:
    """The files in which the bank of the sample store's customer has September and October 2026.

    Raises :class:`AnalysisError` where they were not installed.

    >>> bank = fl.bank.read(*fl.bank.sample())
    >>> fl.bank.reconcile(fl.sample(), bank, "2026-10").difference
    Decimal('0')
    """
    package = Path(__file__).parents[1]
    for folder in (package, package.parent):
        if files := sorted((folder / "data" / "statements").glob("*.xml")):
            return files
    raise AnalysisError("the sample's statements are not there; install fundlab again")


def read_pages(file: str | Path, habits: Mapping[str, Any]) -> list[Page]:
    """The pages of one file as they stand there, unproved; ``habits`` are those of a profile."""
    wanted, path = habits.get("format"), Path(file)
    check_unicode(str(path), f"statement={str(path)!r}")
    try:
        if path.exists() and not path.is_file():
            raise AnalysisError(f"statement={str(path)!r} is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise AnalysisError(f"statement={str(path)!r} has more than 256 MiB; split it")
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        raise AnalysisError(
            f"statement={str(path)!r}: {reason_of(error)}; give the path of a statement"
        ) from error
    if wanted is not None and wanted not in FORMATS:
        raise AnalysisError(f"format={wanted!r} is not one of {', '.join(FORMATS)}")
    kind, reader = next(
        (kind, reader)
        for reader in READERS
        for kind in [wanted if wanted in reader.names else reader.looks_like(_start(content))]
        if kind is not None and wanted in (None, kind)
    )
    try:
        with localcontext(EXACT):
            pages = reader.read(content, habits)
        for page in pages:
            for entry in page.entries:
                for amount in (entry.amount, entry.balance, entry.charges):
                    check_digits(amount, entry.line)
            of_one_way = (
                exact_sum(entry.amount for entry in page.entries if (entry.amount > 0) is credit)
                for credit in (True, False)
            )
            for amount in (page.opening, page.closing, page.available, *of_one_way):
                check_digits(amount, page.line)
    except (ValueError, LookupError, ArithmeticError) as error:
        raise AnalysisError(f"{path} is not a valid {kind} statement: {error}") from error
    except RecursionError as error:
        raise AnalysisError(f"{path} is not a valid {kind} statement: too deep") from error
    except ImportError as error:
        raise AnalysisError(
            f"{path}: {kind} needs {error.name}; run {install_command('bank')}"
        ) from error
    sha256 = hashlib.sha256(content).hexdigest()
    for page in pages:
        page.file, page.sha256, page.format = str(path), sha256, kind
        if habits.get("partial"):
            page.summary_only = page.partial = True
        if look := habits.get("reference"):
            # What looks so in its text is the entry's own reference.
            for n, entry in enumerate(page.entries):
                texts = (entry.own_ref, entry.bank_ref, entry.memo)
                if match := re.search(look, " ".join(text or "" for text in texts)):
                    page.entries[n] = replace(entry, own_ref=match[match.re.groups])  # 0 or 1
    return pages


@dataclass(frozen=True)
class Reader:
    """A format of statements: its names, of which the look of a file's first bytes says one or
    none, and what reads the whole. To add one is to add it to ``READERS``."""

    names: tuple[str, ...]
    looks_like: Callable[[str], str | None]
    read: Callable[[bytes, Mapping[str, Any]], list[Page]]


def _start(content: bytes) -> str:
    return re.sub(r"\r\n?", "\n", file_text(content[:8192])).lstrip("\ufeff \t\n")


def _looks_like_camt(start: str) -> str | None:
    if not start.startswith("<") or "<OFX>" in start.upper():
        return None
    named = re.search(r"camt\.05[234]", start)
    if named:
        return named[0]
    kinds = {"camt.053": "Stmt", "camt.052": "Rpt", "camt.054": "Ntfctn"}
    return next((k for k, tag in kinds.items() if re.search(rf"<(\w+:)?{tag}>", start)), "camt.053")


def _looks_like_mt940(start: str) -> str | None:
    if not re.search(r"^(\{1:.*|@@)?:(20|25P?|28C?|60[FM]|61):", start, re.MULTILINE):
        return None
    return "mt942" if re.search(r"^:(34F|13D):", start, re.MULTILINE) else "mt940"


READERS: Final = (
    Reader(("ofx",), lambda start: "ofx" if re.search(r"OFXHEADER|<OFX>", start, re.I) else None,
           lambda content, _: read_ofx(content)),
    Reader(("camt.053", "camt.052", "camt.054"), _looks_like_camt,
           lambda content, habits: read_camt(content, habits.get("format"))),
    Reader(("bai2",),
           lambda start: "bai2" if re.match(r"01,[^\n]*?[/\n]\s*02,", start) else None,
           lambda content, _: read_bai2(content)),
    Reader(("mt940", "mt942"), _looks_like_mt940, lambda content, _: read_mt940(content)),
    Reader(("csv",), lambda _: "csv", read_csv),
)  # fmt: skip


def _entries(pages: Iterable[Page]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    seen: Counter[tuple[Any, ...]] = Counter()
    own = [name for name in ENTRIES.names if name not in (
        "entry", "entry_id", "statement", "account", "asset", "file")]  # fmt: skip
    for number, page in enumerate(pages, start=1):
        for entry in page.entries:
            asset = entry.asset or page.asset
            # The same whichever files it stands in; equal ones are distinguished by their order.
            same = (page.account, asset, entry.booked_on, entry.amount.normalize(EXACT),
                    entry.bank_ref, entry.memo)  # fmt: skip
            seen[same] += 1
            named = hashlib.sha256(repr((*map(str, same), seen[same])).encode()).hexdigest()
            rows.append(
                {name: getattr(entry, name) for name in own}
                | {"entry": len(rows) + 1, "entry_id": f"bank-{named[:20]}", "statement": number,
                   "account": page.account, "asset": asset, "file": page.file}
            )  # fmt: skip
    return _table(rows, ENTRIES)


def _statements(pages: Iterable[Page]) -> pa.Table:
    rows = []
    for number, page in enumerate(pages, start=1):
        credits_ = [entry.amount for entry in page.entries if entry.amount > 0]
        debits = [entry.amount.copy_negate() for entry in page.entries if entry.amount < 0]
        found = {
            "statement": number, "last_page": page.last, "entries": len(page.entries),
            "credits": len(credits_), "credit_sum": exact_sum(credits_),
            "debits": len(debits), "debit_sum": exact_sum(debits),
        }  # fmt: skip
        rows.append({n: found[n] if n in found else getattr(page, n) for n in STATEMENTS.names})
    return _table(rows, STATEMENTS)


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.table(columns, schema=schema)
