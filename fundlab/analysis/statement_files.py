"""Bank statement files of four formats, read by maintained parsers into one Arrow table.

CSV by Arrow, MT940 by ``mt-940``, OFX by ``ofxtools``, camt.053 as plain XML by ``defusedxml``;
the parsers come with the extra ``bank``. Amounts stay the decimals the file has.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fundlab.analysis.engines import MONEY_TYPE
from fundlab.errors import AnalysisError, shorten

ENTRIES: Final = pa.schema(
    [
        ("entry", pa.int32()),
        ("booked_on", pa.date32()),
        ("amount", MONEY_TYPE),
        ("asset", pa.string()),
        ("bank_ref", pa.string()),
        ("memo", pa.string()),
    ]
)
FORMATS: Final = ("csv", "mt940", "camt.053", "ofx")
_CSV_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "booked_on": ("date", "booking date", "booked on", "posted", "posting date", "value date"),
    "amount": ("amount", "value"),
    "credit": ("credit", "paid in", "deposit", "deposits"),
    "debit": ("debit", "paid out", "withdrawal", "withdrawals"),
    "asset": ("currency", "asset", "ccy"),
    "bank_ref": ("reference", "bank reference", "transaction id", "id", "ref"),
    "memo": ("memo", "description", "details", "narrative", "text", "payee"),
}


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
    with a date (ISO), and an amount or a credit and a debit column; common names are known.
    Raises :class:`AnalysisError` naming file and line for what cannot be read exactly, and where
    the extra ``bank`` is not installed.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise AnalysisError(f"statement={str(path)!r}: {error.strerror or error}") from error
    kind = _looks_like(content) if format is None else format
    if kind not in FORMATS:
        raise AnalysisError(f"format={format!r} is not one of {', '.join(FORMATS)}")
    read = {"csv": _csv, "mt940": _mt940, "camt.053": _camt, "ofx": _ofx}[kind]
    try:
        entries = [*read(content)]
        return _table(entries)
    except (ValueError, LookupError, InvalidOperation, pa.ArrowInvalid) as error:
        raise AnalysisError(f"{path}: no {kind} statement that can be read: {error}") from error
    except ImportError as error:
        raise AnalysisError(f"{path}: {kind} needs {error.name}; install fundlab[bank]") from error


def _table(entries: Iterable[Entry]) -> pa.Table:
    rows = [*entries]
    values = {
        "entry": range(1, len(rows) + 1),
        **{name: [getattr(row, name) for row in rows] for name in ENTRIES.names[1:]},
    }
    return pa.table([pa.array(values[field.name], field.type) for field in ENTRIES], schema=ENTRIES)


def _looks_like(content: bytes) -> str:
    start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n").decode("latin-1")
    if "OFXHEADER" in start or "<OFX>" in start.upper():
        return "ofx"
    if start.startswith("<") and "camt.053" in start:
        return "camt.053"
    if start.startswith((":20:", "{1:")) or re.search(r"^:(20|60[FM]):", start, re.MULTILINE):
        return "mt940"
    return "csv"


# ---------------------------------------------------------------------------------- formats


def _csv(content: bytes) -> Iterator[Entry]:
    from pyarrow import csv

    header = content.split(b"\n", 1)[0].decode("utf-8-sig")
    separator = max(",;\t", key=header.count)
    names = [name.strip().strip('"') for name in header.strip("\r").split(separator)]
    text = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True
    )
    rows = csv.read_csv(
        io.BytesIO(content.removeprefix(b"\xef\xbb\xbf")),
        parse_options=csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=text,
    )
    known = {name.strip().lower(): name for name in rows.column_names}
    chosen = {
        field: next((known[name] for name in common if name in known), None)
        for field, common in _CSV_NAMES.items()
    }
    if chosen["booked_on"] is None or not (chosen["amount"] or chosen["credit"]):
        raise ValueError(f"needed are a date and an amount column, found are {', '.join(names)}")
    for number, row in enumerate(rows.to_pylist(), start=2):
        found = {field: row[name] for field, name in chosen.items() if name is not None}
        try:
            yield Entry(
                date.fromisoformat(found["booked_on"]), _csv_amount(found),
                *(found.get(field) for field in ("asset", "bank_ref", "memo")),
            )  # fmt: skip
        except (ValueError, TypeError, InvalidOperation) as error:
            raise ValueError(f"line {number}: {shorten(found)}: {error}") from error


def _csv_amount(found: Mapping[str, str | None]) -> Decimal:
    if found.get("amount"):
        return _exact(str(found["amount"]))
    credit, debit = found.get("credit"), found.get("debit")
    if bool(credit) == bool(debit):
        raise ValueError("give either a credit or a debit")
    return _exact(credit) if credit else -abs(_exact(str(debit)))


def _exact(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text.strip(), re.ASCII):
        raise ValueError(f"{text!r} is no plain amount such as -1234.50")
    return Decimal(text.strip())


def _mt940(content: bytes) -> Iterator[Entry]:
    import mt940

    text = content.decode("utf-8")
    try:
        found = mt940.parse(text)
    except RuntimeError as error:
        raise ValueError(str(error.args[0])) from error
    if not re.search(r"^:61:", text, re.MULTILINE) and ":60" not in text:
        raise ValueError("no :61: line and no balance")
    for line in found:
        told: dict[str, Any] = line.data
        amount = told["amount"]
        booked = told.get("entry_date") or told["date"]
        reference = told.get("bank_reference") or told.get("customer_reference")
        memo = " ".join(
            str(told[name])
            for name in ("customer_reference", "extra_details", "transaction_details")
            if told.get(name)
        )
        yield Entry(
            date(booked.year, booked.month, booked.day), amount.amount, amount.currency or None,
            reference or None, " ".join(memo.split()) or None,
        )  # fmt: skip


def _ofx(content: bytes) -> Iterator[Entry]:
    from ofxtools.header import OFXHeaderError
    from ofxtools.Parser import OFXTree, ParseError

    tree = OFXTree()
    try:
        tree.parse(io.BytesIO(content))
        statements = tree.convert().statements
    except (ParseError, OFXHeaderError) as error:
        raise ValueError(str(error).splitlines()[0]) from error
    for statement in statements:
        for line in statement.transactions or ():
            memo = " ".join(part for part in (line.name, line.memo) if part)
            booked = line.dtposted.astimezone(UTC).date()
            yield Entry(booked, line.trnamt, statement.curdef, line.fitid, memo or None)


def _camt(content: bytes) -> Iterator[Entry]:
    from defusedxml import DefusedXmlException, ElementTree

    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, DefusedXmlException) as error:
        raise ValueError(f"not XML: {error!r}") from error
    for entry in root.iterfind(".//{*}Stmt/{*}Ntry"):
        amount = entry.find("{*}Amt")
        sign = {"CRDT": 1, "DBIT": -1}[_text(entry, "{*}CdtDbtInd") or ""]
        booked = _text(entry, "{*}BookgDt/{*}Dt") or _text(entry, "{*}BookgDt/{*}DtTm")
        booked = booked or _text(entry, "{*}ValDt/{*}Dt")
        if amount is None or booked is None:
            raise ValueError("an entry has no amount or no booking date")
        memo = [*_texts(entry, ".//{*}Ustrd"), *_texts(entry, ".//{*}EndToEndId")]
        memo += _texts(entry, "{*}AddtlNtryInf")
        yield Entry(
            datetime.fromisoformat(booked).date(), sign * _exact(amount.text or ""),
            amount.get("Ccy"), _text(entry, "{*}AcctSvcrRef") or _text(entry, "{*}NtryRef"),
            " ".join(memo) or None,
        )  # fmt: skip


def _text(element: Any, path: str) -> str | None:
    found = element.find(path)
    return None if found is None or found.text is None else str(found.text).strip()


def _texts(element: Any, path: str) -> list[str]:
    return [found.text.strip() for found in element.iterfind(path) if found.text]
