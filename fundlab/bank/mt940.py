"""MT940 and MT942: one message for a page, fields by SWIFT's own grammar.

Read here, because the proof needs what parsers of this format give up: where a message ends, its
page, the line of each field, and that no line was passed over.
"""

from __future__ import annotations

import re
from calendar import monthrange
from contextlib import suppress
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Final

from fundlab.bank.model import Entry, Page, file_text, joined
from fundlab.base.errors import shorten
from fundlab.base.exact import EXACT

_FIELD: Final = re.compile(r":([0-9]{2}[A-Z]?|NS):(.*)", re.ASCII)
_BALANCE: Final = re.compile(r"([CD])(\d{6})([A-Z]{3})(\d+,\d*)", re.ASCII)
_COUNT: Final = re.compile(r"(\d{1,5})([A-Z]{3})(\d+,\d*)", re.ASCII)
_LAST: Final = re.compile("62[FM]|6[45]|90[CD]")
"""After the last balance or the totals a line with a hyphen ends the message; in the middle of one
it is of a text."""
_AMOUNT_LENGTH: Final = 25
"""SWIFT says 15; banks pad with zeros."""
_LINE: Final = re.compile(
    r"(\d{6})(\d{4}|[ ]{4})?(R?[CD])([A-Z])?[ ]?([\d,]+)[ ]?"  # value, entry date, mark, funds
    r"([A-Z][A-Z0-9 ]{3})([^\n]*)(?:\n(.*))?",
    re.ASCII | re.DOTALL,
)
_INWARD: Final = {"C": 1, "D": -1, "RC": -1, "RD": 1}
"""A reversal takes back a credit or a debit."""
_STRUCTURED: Final = re.compile(r"\d{3}\?\d\d")
_FULL_FIELD: Final = 27
"""Signs of a subfield of ``:86:``."""
_NAMES: Final = ("32", "33")
"""Subfields of ``:86:`` with the counterparty's name."""


def read_mt940(content: bytes) -> list[Page]:
    text = file_text(content)
    ends = r"\r\n?|@@" if text.lstrip().startswith("@@:") else r"\r\n?"
    lines = re.sub(ends, "\n", text).split("\n")
    fields: list[tuple[int, str, list[str]]] = []
    ended = False
    for number, line in enumerate(lines, start=1):
        field = _FIELD.match(line)
        if ended and not field:
            continue  # what stands between two messages
        if field:
            ended = False
            fields.append((number, field[1], [field[2]]))
        elif re.match(r"\s+:6[0-5][FM]?:", line):
            seen = [text.lstrip() == text for text in lines if text.lstrip().startswith(":61:")]
            raise ValueError(
                f"line {number} is indented: of {len(seen)} :61: lines {sum(seen)} can be read"
            )
        elif re.fullmatch(r"\s*-\}?.{0,40}|\x1a", line) and _LAST.fullmatch(
            next((tag for _, tag, _ in reversed(fields) if tag != "86"), "")
        ):
            ended = True
        elif fields and not line.startswith(("-", "{")):
            fields[-1][2].append(line.removesuffix("\x1a"))
        # else the blocks around a message
    pages: list[Page] = []
    for number, tag, texts in fields:
        value = "\n".join(texts).strip()
        try:
            if tag == "20":
                pages.append(Page("interim", number, id=value or None))
            elif pages:
                _take_field(pages[-1], number, tag, value)
            else:
                raise ValueError("it stands before :20:, which begins a statement")  # noqa: TRY301
        except ValueError as error:
            raise ValueError(f"line {number}: :{tag}:{shorten(value)}: {error}") from error
    if not any(page.entries or page.kind == "statement" or page.declared for page in pages):
        raise ValueError("no :61: line and no balance")
    return pages


def _take_field(page: Page, number: int, tag: str, value: str) -> None:
    if tag in ("25", "25P"):
        page.account = value.split("\n")[0].strip() or None
    elif tag in ("28", "28C"):
        match = re.fullmatch(r"(\d{1,18})(?:/(\d{0,9}))?(?!\d).*", value, re.ASCII | re.DOTALL)
        if match is None:
            raise ValueError("a statement number such as 235/1 is needed")
        page.sequence = int(match[1]) or None
        page.page = int(match[2] or 0) or None
    elif tag in ("60F", "60M", "62F", "62M", "64"):
        # Some banks go on with a header of their own right after it.
        balance = _BALANCE.fullmatch(value.split("\n")[0].strip().removesuffix("-"))
        if balance is None:
            raise ValueError("a balance such as C261031USD1000,00 is needed")
        amount, day = EXACT.multiply(_amount(balance[4]), _INWARD[balance[1]]), _day(balance[2])
        if page.asset not in (None, balance[3]):
            page.contradictions.append(
                ("currency", page.asset, balance[3], f":{tag}: is in {balance[3]}, the others in "
                 f"{page.asset}")
            )  # fmt: skip
        page.asset = page.asset or balance[3]
        if tag[:2] == "60":
            page.kind = "statement"
            page.opening_on, page.opening, page.first = day, amount, tag == "60F"
        elif tag[:2] == "62":
            page.kind = "statement"
            page.closing_on, page.closing, page.last = day, amount, tag == "62F"
        else:
            page.available = amount
    elif tag in ("90C", "90D"):
        total = _COUNT.fullmatch(value)
        if total is None:
            raise ValueError("a count and sum such as 3USD1000,00 are needed")
        name = "credit" if tag == "90C" else "debit"
        page.declared[f"{name}s"] = Decimal(total[1])
        page.declared[f"{name}_sum"] = _amount(total[3])
        page.asset = page.asset or total[2]
    elif tag == "34F":
        page.asset = page.asset or value[:3] or None
    elif tag == "61":
        page.entries.append(_entry(page, number, value))
    elif tag == "86" and page.entries and page.closing is None and not page.declared:
        last = page.entries[-1]
        said, party = _details(value)
        page.entries[-1] = replace(
            last, memo=joined(last.memo, said), counterparty=party or last.counterparty
        )


def _entry(page: Page, number: int, value: str) -> Entry:
    match = _LINE.fullmatch(value)
    if match is None:
        cut = re.match(r"\d{6}(?:\d{4})?R?[CD][A-Z]?([\d,]+)", value)
        if cut:
            raise ValueError(f"it has no type after {cut[1]}, as in NTRF")
        raise ValueError(f"{value!r} is not a field of MT940")
    valued, mark = _day(match[1]), match[3]
    booked = valued
    if match[2] and match[2].strip():
        # The year is that of the value date, but around its turn.
        days = []
        for year in (valued.year, valued.year - 1, valued.year + 1):
            with suppress(ValueError):
                days.append(_day(f"{year % 100:02}{match[2]}"))
        if not days:
            raise ValueError(f"{match[2]} is not a day of a month")
        booked = min(days, key=lambda day: abs(day - valued))
    own, _, bank = match[7].partition("//")
    reference = bank.strip() or own.strip() or None
    return Entry(
        booked, EXACT.multiply(_amount(match[5]), _INWARD[mark]), page.asset, reference,
        joined(own, match[8]), valued, own.strip() or None, None, match[6].strip(),
        mark.startswith("R"), position=len(page.entries) + 1, line=number,
    )  # fmt: skip


def _details(value: str) -> tuple[str, str | None]:
    """The text of ``:86:`` without the marks of its subfields (166?00…?20…), and the name in it."""
    if not _STRUCTURED.match(value):
        name = re.search(r"/NAME/([^/]+)", value.replace("\n", ""))
        return value, None if name is None else name[1].strip()
    numbers = re.findall(r"\?(\d\d)", flat := value.replace("\n", ""))
    fields = re.split(r"\?\d\d", flat)[1:]
    names = "".join(text for n, text in zip(numbers, fields, strict=True) if n in _NAMES)
    # One that is full goes on in the next.
    return "".join(f if len(f) == _FULL_FIELD else f"{f} " for f in fields), names.strip() or None


def _amount(text: str) -> Decimal:
    if not re.fullmatch(r"\d+,\d*", text, re.ASCII) or len(text) > _AMOUNT_LENGTH:
        raise ValueError(
            f"{text!r} is not an amount of MT940: digits, a comma, decimals, {_AMOUNT_LENGTH} signs"
        )
    return Decimal(text.replace(",", "."))


def _day(text: str) -> date:
    year, month, day = int(text[:2]), int(text[2:4]), int(text[4:])
    year += 1900 if year >= 80 else 2000
    if month == 2 and day in (29, 30):
        # A month of interest has 30 days at some banks, February too.
        day = min(day, monthrange(year, month)[1])
    return date(year, month, day)
