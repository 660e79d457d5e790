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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fundlab.analysis.engines import MONEY_TYPE
from fundlab.errors import AnalysisError, shorten
from fundlab.values import EXACT, exact_sum

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
_UNHEARD: Final = logging.NullHandler()
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
    content = _content(Path(path))
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


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise AnalysisError(f"statement={str(path)!r} is no file")
        if path.stat().st_size > MOST_BYTES:
            raise AnalysisError(f"statement={str(path)!r} has more than 256 MiB; split it")
        return path.read_bytes()
    except OSError as error:
        raise AnalysisError(f"statement={str(path)!r}: {error.strerror or error}") from error


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
    if start.startswith("<") and "camt.05" in start:
        return "camt.053"
    if start.startswith((":20:", "{1:")) or re.search(r"^:(20|60[FM]):", start, re.MULTILINE):
        return "mt940"
    return "csv"


# ---------------------------------------------------------------------------------- formats


def _text_of(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{error}; save the file as UTF-8") from error


def _csv(content: bytes) -> Iterator[Entry]:
    text = _text_of(content)
    header = text.split("\n", 1)[0]
    lines = csv.reader(
        io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count), strict=True
    )
    try:
        yield from _csv_entries(lines)
    except csv.Error as error:
        raise ValueError(f"line {lines.line_num}: {error}") from error


def _csv_entries(lines: Any) -> Iterator[Entry]:
    """The entries below the header; ``lines`` counts its lines in ``line_num``."""
    header = [name.strip() for name in next(lines, [])]
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
    for values in lines:
        if values:
            try:
                yield _csv_entry(names, values, chosen)
            except (ValueError, InvalidOperation) as error:
                shown = shorten(values)
                raise ValueError(f"line {lines.line_num}: {shown}: {error}") from error


def _csv_entry(
    names: Sequence[str], values: Sequence[str], chosen: Mapping[str, str | None]
) -> Entry:
    if len(values) != len(names):
        raise ValueError(f"{len(values)} values for {len(names)} columns")
    row = dict(zip(names, values, strict=True))
    found = {field: row[name].strip() for field, name in chosen.items() if name is not None}
    amount = _csv_amount(found)
    if found.get("amount"):
        _refuse_other_side(row, amount)
    return Entry(
        date.fromisoformat(found["booked_on"]), amount,
        *(found.get(field) or None for field in ("asset", "bank_ref", "memo")),
    )  # fmt: skip


def _csv_amount(found: Mapping[str, str]) -> Decimal:
    amount, credit, debit = (
        _exact(found.get(name) or "0") for name in ("amount", "credit", "debit")
    )
    if (credit and debit) or not any(found.get(name) for name in ("amount", "credit", "debit")):
        raise ValueError("give either a credit or a debit")
    side = debit.copy_abs().copy_negate() if debit else credit
    if side and found.get("amount") and side != amount:
        raise ValueError(
            f"the amount {amount} is not the {side} of the credit or debit column; give amounts "
            "with their sign, or leave that column out"
        )
    return side or amount


def _refuse_other_side(row: Mapping[str, str], amount: Decimal) -> None:
    """Amounts without a sign, beside a column that says which way they went."""
    for name, value in row.items():
        inward = _CSV_INWARD.get(value.strip().rstrip(".").lower())
        if inward is not None and amount and inward == amount.is_signed():
            raise ValueError(
                f"{name!r} says {value.strip()!r} of the amount {amount}; give amounts with their "
                "sign, or a credit and a debit column"
            )


def _exact(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text.strip(), re.ASCII):
        raise ValueError(f"{text!r} is no plain amount such as -1234.50")
    return Decimal(text.strip())


def _mt940(content: bytes) -> Iterator[Entry]:
    import mt940

    logging.getLogger("mt940").addHandler(_UNHEARD)
    text = re.sub(r"\r\n?", "\n", _text_of(content))
    try:
        with localcontext(EXACT):
            found = mt940.parse(
                text,
                processors={"post_transaction_details": []},  # which would lose the references
                options=mt940.Options(unbounded_details=True),
            )
    except RuntimeError as error:
        raise ValueError(f"{shorten(error.args[-1])} is no field of MT940") from error
    lines = len(re.findall(r"^[ \t]*:61:", text, re.MULTILINE))
    if not lines and ":60" not in text:
        raise ValueError("no :61: line and no balance")
    if len(found) != lines:
        raise ValueError(f"of {lines} :61: lines {len(found)} can be read")
    for line in found:
        yield _mt940_entry(line.data)


def _mt940_entry(told: Mapping[str, Any]) -> Entry:
    amount, mark, booked = told["amount"], told["status"], told.get("entry_date") or told["date"]
    if not told.get("id"):  # the parser cuts an amount that it does not understand
        raise ValueError(f"the :61: line of {booked} has no type after {amount.amount}, as in NTRF")
    if mark not in _INWARD:
        raise ValueError(f"mark {mark!r} is not one of C, RD, D, RC")
    reference = told.get("bank_reference") or told.get("customer_reference")
    details = _unstructured(str(told.get("transaction_details") or ""))
    memo = " ".join(
        str(part)
        for part in (told.get("customer_reference"), told.get("extra_details"), details)
        if part
    )
    return Entry(
        date(booked.year, booked.month, booked.day), _signed(amount.amount.copy_abs(), mark),
        amount.currency or None,
        reference or None, " ".join(memo.split()) or None,
    )  # fmt: skip


def _unstructured(details: str) -> str:
    """The text of an ``:86:`` line, without the marks of subfields (``166?00…?20…``).

    A subfield that is full goes on in the next one.
    """
    if not _STRUCTURED.match(details):
        return details
    fields = re.split(r"\?\d\d", details.replace("\n", ""))[1:]
    return "".join(field if len(field) == _FULL_FIELD else f"{field} " for field in fields)


def _signed(amount: Decimal, mark: str) -> Decimal:
    return amount if _INWARD[mark] else amount.copy_negate()


def _ofx(content: bytes) -> Iterator[Entry]:
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


def _camt(content: bytes) -> Iterator[Entry]:
    from defusedxml import DefusedXmlException, ElementTree

    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, DefusedXmlException) as error:
        raise ValueError(f"not XML: {error!r}") from error
    if root.find(".//{*}Stmt") is None:
        raise ValueError("no Stmt; a camt.052 or camt.054 is no statement")
    for entry in root.iterfind(".//{*}Stmt/{*}Ntry"):
        if _is_booked(entry):
            yield from _camt_entries(entry)


def _is_booked(entry: Any) -> bool:
    """The status stands in ``Sts``, since version 8 in ``Sts/Cd``; samples leave it out."""
    status = _text(entry, "{*}Sts/{*}Cd") or _text(entry, "{*}Sts") or "BOOK"
    if status not in ("BOOK", *_NOT_YET_BOOKED):
        raise ValueError(f"an entry has the status {status!r}")
    return status == "BOOK"


def _camt_entries(entry: Any) -> Iterator[Entry]:
    """The entry, or the payments that it is made of."""
    amount, currency, side = _camt_amount(entry)
    day = _text(entry, "{*}BookgDt/{*}Dt") or _text(entry, "{*}BookgDt/{*}DtTm")
    day = day or _text(entry, "{*}ValDt/{*}Dt")
    if day is None:
        raise ValueError("an entry has no booking date")
    booked = datetime.fromisoformat(re.sub(r"(Z|[+-]\d\d:\d\d)$", "", day)).date()
    reference = _text(entry, "{*}AcctSvcrRef") or _text(entry, "{*}NtryRef")
    payments = entry.findall("{*}NtryDtls/{*}TxDtls")
    amounts = [_payment_amount(payment, currency, side) for payment in payments]
    known = [each for each in amounts if each is not None]
    if len(payments) < 2 or len(known) < len(payments) or exact_sum(known) != amount:
        payments, known = [entry], [amount]
    for payment, each in zip(payments, known, strict=True):
        memo = [*_texts(payment, ".//{*}Ustrd"), *_texts(payment, ".//{*}EndToEndId")]
        memo += _texts(entry, "{*}AddtlNtryInf")
        ref = _text(payment, "{*}Refs/{*}AcctSvcrRef") or reference
        yield Entry(booked, each, currency, ref, " ".join(memo) or None)


def _camt_amount(entry: Any) -> tuple[Decimal, str | None, str]:
    amount, side = entry.find("{*}Amt"), _text(entry, "{*}CdtDbtInd")
    if amount is None:
        raise ValueError("an entry has no amount")
    if side not in ("CRDT", "DBIT"):
        raise ValueError(f"an entry's CdtDbtInd is {side}; CRDT or DBIT is needed")
    return _signed(_exact(amount.text or ""), side), amount.get("Ccy"), side


def _payment_amount(payment: Any, currency: str | None, side: str) -> Decimal | None:
    """What one payment of a batch came to, where it says so in the currency of the entry."""
    amount = payment.find("{*}Amt")
    amount = payment.find("{*}AmtDtls/{*}TxAmt/{*}Amt") if amount is None else amount
    if amount is None or amount.get("Ccy") != currency:
        return None
    own = _text(payment, "{*}CdtDbtInd")
    return _signed(_exact(amount.text or ""), own if own in ("CRDT", "DBIT") else side)


def _text(element: Any, path: str) -> str | None:
    found = element.find(path)
    return None if found is None or found.text is None else str(found.text).strip()


def _texts(element: Any, path: str) -> list[str]:
    return [found.text.strip() for found in element.iterfind(path) if found.text]
