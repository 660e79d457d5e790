"""Bank statement files of four formats, read by maintained parsers into one Arrow table.

CSV by Python's own parser, MT940 by ``mt-940``, OFX by ``ofxtools``, camt.053 as plain XML by
``defusedxml``; all but the first come with the extra ``bank``. Amounts stay the decimals of the
file.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fundlab.decimals.text import AMOUNT_TYPE
from fundlab.errors import AnalysisError, shorten
from fundlab.exact import EXACT
from fundlab.values import exact_sum

ENTRIES: Final = pa.schema(
    [
        ("entry", pa.int32()),
        ("booked_on", pa.date32()),
        ("amount", AMOUNT_TYPE),
        ("asset", pa.string()),
        ("bank_ref", pa.string()),
        ("memo", pa.string()),
    ]
)
FORMATS: Final = ("csv", "mt940", "camt.053", "ofx")
MOST_BYTES: Final = 256 * 1024**2
_INWARD: Final = {
    "CRDT": True,
    "DBIT": False,
    "C": True,
    "D": False,
    "RC": False,  # takes back a credit
    "RD": True,
}
"""Which marks of camt.053 and MT940 say that money came in."""
_CSV_INWARD: Final = {
    **dict.fromkeys(("c", "cr", "credit", "crdt"), True),
    **dict.fromkeys(("d", "dr", "debit", "dbit"), False),
}
_STRUCTURED: Final = re.compile(r"\d{3}\?\d\d")
_FULL_FIELD: Final = 27
"""Signs of a subfield of ``:86:``."""
_NOT_YET_BOOKED: Final = ("PDNG", "INFO", "FUTR")
_CSV_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "booked_on": ("date", "booking date", "booked on", "posted", "posting date", "value date"),
    "amount": ("amount", "value"),
    "credit": ("credit", "paid in", "deposit", "deposits"),
    "debit": ("debit", "paid out", "withdrawal", "withdrawals"),
    "asset": ("currency", "asset", "ccy"),
    "bank_ref": ("reference", "bank reference", "transaction id", "id", "ref"),
    "memo": ("memo", "description", "details", "narrative", "text", "payee"),
}
_SILENT: Final = logging.NullHandler()
"""Without one a line that MT940's parser cannot read goes to stderr."""


@dataclass(frozen=True)
class Entry:
    """One line of a statement: what came in is positive, what went out negative."""

    booked_on: date
    amount: Decimal
    asset: str | None
    bank_ref: str | None
    memo: str | None


def read_statement(path: str | Path, format: str | None = None) -> pa.Table:
    """The entries of the file at ``path``: ``entry`` (int32, from 1), ``booked_on`` (date),
    ``amount`` (decimal, signed), ``asset`` (where the file names a currency), ``bank_ref`` and
    ``memo``.

    ``format`` is one of ``FORMATS``; by default the file's own look says which. CSV needs a header
    with a date (ISO), and an amount, or a credit or a debit column or both; common names are known.
    Of MT940 and camt.053 the mark says which way money went, a reversal the other way; of camt.053
    only booked entries count, and one that lists its payments and their amounts is those payments.
    Raises :class:`AnalysisError` naming file and line for what cannot be read exactly, where the
    extra ``bank`` is not installed, and for more than 256 MiB.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise AnalysisError(f"statement={str(path)!r} is not a file")
        if path.stat().st_size > MOST_BYTES:
            raise AnalysisError(f"statement={str(path)!r} has more than 256 MiB; split it")
        content = path.read_bytes()
    except OSError as error:
        raise AnalysisError(f"statement={str(path)!r}: {error.strerror or error}") from error
    kind = format_of(content) if format is None else format
    if kind not in FORMATS:
        raise AnalysisError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    read = {
        "csv": csv_entries,
        "mt940": mt940_entries,
        "camt.053": camt_entries,
        "ofx": ofx_entries,
    }[kind]
    try:
        entries = [*read(content)]
        values: dict[str, Any] = {"entry": range(1, len(entries) + 1)}
        values |= {name: [getattr(e, name) for e in entries] for name in ENTRIES.names[1:]}
        return pa.table({f.name: pa.array(values[f.name], f.type) for f in ENTRIES}, ENTRIES)
    except (ValueError, LookupError, InvalidOperation, pa.ArrowInvalid) as error:
        raise AnalysisError(f"{path} is not a valid {kind} statement: {error}") from error
    except ImportError as error:
        raise AnalysisError(f"{path}: {kind} needs {error.name}; install fundlab[bank]") from error


def format_of(content: bytes) -> str:
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").decode("latin-1")
    if "OFXHEADER" in start or "<OFX>" in start.upper():
        return "ofx"
    if start.startswith("<") and "camt.05" in start:
        return "camt.053"
    if start.startswith((":20:", "{1:")) or re.search(r"^:(20|60[FM]):", start, re.MULTILINE):
        return "mt940"
    return "csv"


def _text_of(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; save the file as UTF-8") from error


def _exact(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text.strip(), re.ASCII):
        raise ValueError(f"{text!r} is not a plain amount such as -1234.50")
    return Decimal(text.strip())


def _signed(amount: Decimal, mark: str) -> Decimal:
    return amount if _INWARD[mark] else amount.copy_negate()


# --------------------------------------------------------------------------------------- CSV


def csv_entries(content: bytes) -> Iterator[Entry]:
    text = _text_of(content)
    commonest = max(",;\t", key=text.split("\n", 1)[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=commonest, strict=True)
    try:
        lines = [(reader.line_num, values) for values in reader]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    header = [name.strip() for name in lines[0][1]] if lines else []
    names = [name.lower() for name in header]
    twice = [name for name in names if name and names.count(name) > 1]
    if twice:
        raise ValueError(f"the header has more than one column {twice[0]!r}")
    chosen = {
        field: next((name for name in common if name in names), None)
        for field, common in _CSV_NAMES.items()
    }
    sums = (chosen["amount"], chosen["credit"], chosen["debit"])
    if chosen["booked_on"] is None or not any(sums):
        found = ", ".join(header)
        raise ValueError(f"needed are a date and an amount column, found are {found}")
    for number, values in lines[1:]:
        if values:
            try:
                yield _csv_entry(names, values, chosen)
            except (ValueError, InvalidOperation) as error:
                raise ValueError(f"line {number}: {shorten(values)}: {error}") from error


def _csv_entry(
    names: Sequence[str], values: Sequence[str], chosen: Mapping[str, str | None]
) -> Entry:
    if len(values) != len(names):
        raise ValueError(f"{len(values)} values for {len(names)} columns")
    row = dict(zip(names, values, strict=True))
    found = {field: row[name].strip() for field, name in chosen.items() if name is not None}
    amounts = ("amount", "credit", "debit")
    amount, credit, debit = (_exact(found.get(name) or "0") for name in amounts)
    if (credit and debit) or not any(found.get(name) for name in amounts):
        raise ValueError("give either a credit or a debit")
    side = debit.copy_abs().copy_negate() if debit else credit
    if side and found.get("amount") and side != amount:
        raise ValueError(
            f"the amount {amount} is not the {side} of the credit or debit column; give amounts "
            "with their sign, or leave that column out"
        )
    amount = side or amount
    if amount and found.get("amount"):
        # Amounts without a sign, beside a column that says which way they went?
        for name, value in row.items():
            inward = _CSV_INWARD.get(value.strip().rstrip(".").lower())
            if inward is not None and inward == amount.is_signed():
                raise ValueError(
                    f"{name!r} says {value.strip()!r} of the amount {amount}; give amounts with "
                    "their sign, or a credit and a debit column"
                )
    texts = (found.get(field) or None for field in ("asset", "bank_ref", "memo"))
    return Entry(date.fromisoformat(found["booked_on"]), amount, *texts)


# ------------------------------------------------------------------------------------- MT940


def mt940_entries(content: bytes) -> Iterator[Entry]:
    import mt940

    logging.getLogger("mt940").addHandler(_SILENT)
    text = re.sub(r"\r\n?", "\n", _text_of(content))
    try:
        with localcontext(EXACT):
            found = mt940.parse(
                text,
                processors={"post_transaction_details": []},  # which would lose the references
                options=mt940.Options(unbounded_details=True),
            )
    except RuntimeError as error:
        raise ValueError(f"{shorten(error.args[-1])} is not a field of MT940") from error
    lines = len(re.findall(r"^[ \t]*:61:", text, re.MULTILINE))
    if not lines and ":60" not in text:
        raise ValueError("no :61: line and no balance")
    if len(found) != lines:
        raise ValueError(f"of {lines} :61: lines {len(found)} can be read")
    for line in found:
        said: Mapping[str, Any] = line.data
        amount, mark = said["amount"], said["status"]
        booked = said.get("entry_date") or said["date"]
        if not said.get("id"):  # the parser cuts an amount that it does not understand
            raise ValueError(
                f"the :61: line of {booked} has no type after {amount.amount}, as in NTRF"
            )
        if mark not in _INWARD:
            raise ValueError(f"mark {mark!r} is not one of C, RD, D, RC")
        details = str(said.get("transaction_details") or "")
        if _STRUCTURED.match(details):
            # Without the marks of subfields (166?00…?20…); one that is full goes on in the next.
            fields = re.split(r"\?\d\d", details.replace("\n", ""))[1:]
            details = "".join(f if len(f) == _FULL_FIELD else f"{f} " for f in fields)
        reference = said.get("bank_reference") or said.get("customer_reference")
        parts = (said.get("customer_reference"), said.get("extra_details"), details)
        memo = " ".join(" ".join(str(part) for part in parts if part).split())
        yield Entry(
            date(booked.year, booked.month, booked.day),
            _signed(amount.amount.copy_abs(), mark),
            amount.currency or None,
            reference or None,
            memo or None,
        )


# --------------------------------------------------------------------------------------- OFX


def ofx_entries(content: bytes) -> Iterator[Entry]:
    from ofxtools.header import OFXHeaderError
    from ofxtools.Parser import OFXTree, ParseError

    tree = OFXTree()
    try:
        tree.parse(io.BytesIO(content))
        for posted in tree.iter("DTPOSTED"):  # the day is that of the bank's own zone
            posted.text = re.sub(r"\[.*\]$", "", posted.text or "")
        statements = tree.convert().statements
    except (ParseError, OFXHeaderError) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if not statements:
        raise ValueError("it holds no statement")
    for statement in statements:
        for line in statement.transactions or ():
            memo = " ".join(part for part in (line.name, line.memo) if part)
            asset = line.cursym if line.curtype == "CURRENCY" else statement.curdef
            yield Entry(line.dtposted.date(), line.trnamt, asset, line.fitid, memo or None)


# ---------------------------------------------------------------------------------- camt.053


def camt_entries(content: bytes) -> Iterator[Entry]:
    from defusedxml import DefusedXmlException, ElementTree

    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, DefusedXmlException) as error:
        raise ValueError(f"not XML: {error!r}") from error
    if root.find(".//{*}Stmt") is None:
        raise ValueError("no Stmt; a camt.052 or camt.054 is not a statement")
    for entry in root.iterfind(".//{*}Stmt/{*}Ntry"):
        # The status stands in Sts, since version 8 in Sts/Cd; samples leave it out.
        status = _text(entry, "{*}Sts/{*}Cd") or _text(entry, "{*}Sts") or "BOOK"
        if status in _NOT_YET_BOOKED:
            continue
        if status != "BOOK":
            raise ValueError(f"an entry has the status {status!r}")
        found, side = entry.find("{*}Amt"), _text(entry, "{*}CdtDbtInd")
        if found is None:
            raise ValueError("an entry has no amount")
        if side not in ("CRDT", "DBIT"):
            raise ValueError(f"an entry's CdtDbtInd is {side}; CRDT or DBIT is needed")
        amount, currency = _signed(_exact(found.text or ""), side), found.get("Ccy")
        day = _text(entry, "{*}BookgDt/{*}Dt") or _text(entry, "{*}BookgDt/{*}DtTm")
        day = day or _text(entry, "{*}ValDt/{*}Dt")
        if day is None:
            raise ValueError("an entry has no booking date")
        booked = datetime.fromisoformat(re.sub(r"(Z|[+-]\d\d:\d\d)$", "", day)).date()
        # A batch is its payments, where each says what it came to in the entry's currency.
        payments, amounts = entry.findall("{*}NtryDtls/{*}TxDtls"), []
        for payment in payments:
            part = payment.find("{*}Amt")
            part = payment.find("{*}AmtDtls/{*}TxAmt/{*}Amt") if part is None else part
            if part is not None and part.get("Ccy") == currency:
                own = _text(payment, "{*}CdtDbtInd")
                mark = own if own in ("CRDT", "DBIT") else side
                amounts.append(_signed(_exact(part.text or ""), mark))
        if len(payments) < 2 or len(amounts) < len(payments) or exact_sum(amounts) != amount:
            payments, amounts = [entry], [amount]
        reference = _text(entry, "{*}AcctSvcrRef") or _text(entry, "{*}NtryRef")
        for payment, each in zip(payments, amounts, strict=True):
            memo = [*_texts(payment, ".//{*}Ustrd"), *_texts(payment, ".//{*}EndToEndId")]
            memo += _texts(entry, "{*}AddtlNtryInf")
            ref = _text(payment, "{*}Refs/{*}AcctSvcrRef") or reference
            yield Entry(booked, each, currency, ref, " ".join(memo) or None)


def _text(element: Any, path: str) -> str | None:
    found = element.find(path)
    return None if found is None or found.text is None else str(found.text).strip()


def _texts(element: Any, path: str) -> list[str]:
    return [found.text.strip() for found in element.iterfind(path) if found.text]
