"""BAI2, the format of banks in the United States, with its control totals and counts of records.

Read here: the one parser of it for Python calls itself unfit for production, gives no lines and
leaves signs and decimals to its caller.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Final

from fundlab.bank.model import Entry, Page, file_text, joined
from fundlab.base.errors import shorten
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum

_DECIMALS: Final = {
    **dict.fromkeys(
        ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND",
         "VUV", "XAF", "XOF", "XPF"), 0,
    ),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
}  # fmt: skip
"""How many decimals the last digits of an amount are; two of any other currency."""
_NO_MONEY: Final = {"2": "a deletion of what was sent before", "4": "for testing only"}
"""Of which groups, by their status, nothing may be counted."""
_RECORDS: Final = ("01", "02", "03", "16", "49", "88", "98", "99")
_NEXT: Final = re.compile(r"/ *(?=(?:02|03|16|49|88|98|99),)", re.ASCII)
_NEXT_AFTER_TEXT: Final = re.compile(
    r"/ *(?=16,\d{3},[+-]?\d*,|49,[+-]?\d*,\d+/)|(?<=,)/ *(?=88,)", re.ASCII
)
"""Where a record ends and another one follows on the line; texts hold slashes of their own, so
there only what is unmistakably one."""
_STATUS: Final = {"010": "opening", "015": "closing", "045": "available"}
_TOTALS: Final = {"100": ("credits", "credit_sum"), "400": ("debits", "debit_sum")}


def read_bai2(content: bytes) -> list[Page]:
    text = re.sub(r"\r\n?", "\n", file_text(content))
    records: list[tuple[int, str, str, int]] = []  # line, code, the rest, records it is written in
    for number, line in _lines(text):
        code, comma, rest = line.rstrip().partition(",")
        if code not in _RECORDS or not comma:
            raise ValueError(
                f"line {number}: {shorten(line)} is not a record of BAI2, which begins with one of "
                f"{', '.join(_RECORDS)} and a comma"
            )
        if code == "88":
            if not records or records[-1][1] not in ("03", "16", "88"):
                raise ValueError(f"line {number}: there is nothing that 88 continues")
            line_of, kind, before, written = records[-1]
            # Where a record was ended another field follows, else its last one goes on; of a text
            # the lines stay apart.
            glue = "\n" if kind == "16" else "," if before.endswith("/") else ""
            records[-1] = (line_of, kind, before.removesuffix("/") + glue + rest, written + 1)
        else:
            records.append((number, code, rest, 1))
    if not records or records[0][1] != "01" or records[-1][1] != "99":
        raise ValueError("it does not begin with a record 01 and end with 99; the file was cut")
    pages: list[Page] = []
    # Control totals and counts of records of the account, group and file that are open.
    totals: dict[str, list[Any]] = {}
    group: list[str] = []
    for number, code, rest, written in records:
        try:
            fields = rest.split("\n")[0].removesuffix("/").split(",")
            for level in totals.values():
                level[1] += written
            if code == "01":
                totals["99"] = [Decimal(0), 1, 0]
            elif code in ("02", "03") and {"02": "98", "03": "49"}[code] in totals:
                raise ValueError("the trailer of what stands before it is missing")  # noqa: TRY301
            elif code == "02":
                totals["99"][2] += 1
                totals["98"] = [Decimal(0), 1, 0]
                group = [*fields, "", "", "", "", "", "", ""]
                if (status := group[2].strip()) in _NO_MONEY:
                    raise ValueError(f"the group is {_NO_MONEY[status]}: take it out")  # noqa: TRY301
            elif code == "03":
                totals["98"][2] += 1
                is_interim = group[6].strip() in ("1", "3")
                page = Page(
                    "interim" if is_interim else "statement", number, fields[0].strip() or None
                )
                page.asset = (fields[1:2] or [""])[0].strip() or group[5].strip() or "USD"
                page.closing_on = page.opening_on = _day(group[3])
                totals["49"] = [_summaries(page, fields[2:]), written, 0]
                pages.append(page)
            elif code == "16":
                if "49" not in totals:
                    raise ValueError("it stands outside of an account")  # noqa: TRY301
                entry, amount = _entry(pages[-1], number, rest)
                totals["49"][0] = EXACT.add(totals["49"][0], amount)
                if entry is not None:
                    pages[-1].entries.append(entry)
            else:
                _close(code, fields, totals, pages)
        except (ValueError, IndexError, KeyError) as error:
            raise ValueError(f"line {number}: {code},{shorten(rest)}: {error}") from error
    if not pages:
        raise ValueError("it holds no account")
    for page in pages:
        # A bank may report balances and totals without their details.
        page.summary_only = not page.entries and not page.declared.get("entries")
        # Or give the details of some: its control totals agree, and the sums it declares are of
        # more than is listed.
        if not page.contradictions and not page.summary_only:
            listed = {
                "credit_sum": exact_sum(e.amount for e in page.entries if e.amount > 0),
                "debit_sum": exact_sum(
                    e.amount.copy_negate() for e in page.entries if e.amount < 0
                ),
            }
            partly = [n for n, much in listed.items() if page.declared.get(n, much) > much]
            if partly and not any(page.declared.get(n, m) < m for n, m in listed.items()):
                page.summary_only = page.partial = True
    return pages


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The number of each line and a record of it: banks that write blocks put several on one."""
    in_text = False
    for number, line in enumerate(text.split("\n"), start=1):
        rest = line
        while rest.strip():
            in_text = rest.startswith("16,") or (in_text and rest.startswith("88,"))
            end = (_NEXT_AFTER_TEXT if in_text else _NEXT).search(rest)
            yield number, rest if end is None else rest[: end.start() + 1]
            rest = "" if end is None else rest[end.end() :]


def _close(code: str, fields: list[str], totals: dict[str, list[Any]], pages: list[Page]) -> None:
    """A trailer: what it declares against what stands before it."""
    inner = {"98": "49", "99": "98"}.get(code)
    if code not in totals or inner in totals:
        raise ValueError("it does not close what was opened last")
    amount, records, members = totals.pop(code)
    scale = _scale(pages[-1].asset) if pages else Decimal(1)
    what = {"49": "account", "98": "group", "99": "file"}[code]
    declared = [fields[0], fields[-1]] + ([fields[1]] if code != "49" else [])
    found = [amount, records] + ([members] if code != "49" else [])
    parts = ("control_total", "records", "groups" if code == "99" else "accounts")
    for part, said, counted in zip(parts, declared, found, strict=False):
        said = said.strip()
        if said and _whole(said) != counted:
            shown: tuple[Any, Any] = said, counted
            if part == "control_total":
                shown = EXACT.multiply(_whole(said), scale), EXACT.multiply(counted, scale)
            words = part.replace("_", " ")
            detail = f"the {words} of the {what} is declared as {shown[0]}, found is {shown[1]}"
            if pages:
                pages[-1].contradictions.append((part, *shown, detail))
    above = {"49": "98", "98": "99"}.get(code)
    if above:
        totals[above][0] = EXACT.add(totals[above][0], _whole(fields[0].strip() or "0"))


def _summaries(page: Page, fields: list[str]) -> Decimal:
    """Balances and totals of an account; the sum of all its amounts, for the control total."""
    scale, total, place = _scale(page.asset), Decimal(0), 0
    while place + 1 < len(fields):
        code, text = fields[place].strip(), fields[place + 1].strip()
        if not code:  # left where a record was ended
            place += 1
            continue
        count = (fields[place + 2 : place + 3] or [""])[0].strip()
        place += 3
        place += _funds_length(fields, place)
        if not text:
            continue
        amount = _whole(text)
        total = EXACT.add(total, amount)
        if code in _STATUS:
            setattr(page, _STATUS[code], EXACT.multiply(amount, scale))
        elif code in _TOTALS:
            counted, summed = _TOTALS[code]
            page.declared[summed] = EXACT.multiply(amount.copy_abs(), scale)
            if count:
                page.declared[counted] = _whole(count)
    return total


def _funds_length(fields: list[str], place: int) -> int:
    """How many fields the funds type and what belongs to it take."""
    kind = fields[place].strip() if place < len(fields) else ""
    if kind not in ("", "0", "1", "2", "D", "S", "V", "Z"):
        raise ValueError(f"the funds type {shorten(kind)} is not one of 0, 1, 2, D, S, V, Z")
    if kind == "D":
        return 2 + 2 * int(fields[place + 1])
    return {"S": 4, "V": 3}.get(kind, 1)


def _entry(page: Page, number: int, rest: str) -> tuple[Entry | None, Decimal]:
    lines = rest.split("\n")
    fields = lines[0].removesuffix("/").split(",")
    code, text = fields[0].strip(), fields[1].strip()
    amount = _whole(text or "0")
    after = 2 + _funds_length(fields, 2)
    valued = _day(fields[3]) if fields[2:3] == ["V"] and fields[3].strip() else None
    references = [*fields[after : after + 2], "", ""]
    remarks = ",".join(fields[after + 2 :])
    memo = joined(remarks, *(line.removesuffix("/") for line in lines[1:]))
    kind = int(code)
    if 100 <= kind <= 399 or 920 <= kind <= 959:
        signed = amount
    elif 400 <= kind <= 699 or 960 <= kind <= 999:
        signed = amount.copy_negate()
    elif kind == 890:  # a message without money
        return None, amount
    else:
        raise ValueError(f"type {code} says neither credit nor debit")
    entry = Entry(
        page.closing_on or date.min, EXACT.multiply(signed, _scale(page.asset)), page.asset,
        references[0].strip() or references[1].strip() or None, joined(references[1], memo), valued,
        references[1].strip() or None, None, code, "reversal" in (memo or "").lower(),
        position=len(page.entries) + 1, line=number,
    )  # fmt: skip
    return entry, amount


def _whole(text: str) -> Decimal:
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(
            f"{shorten(text)} is not a number of digits alone: amounts have no point, their last "
            "digits are the decimals"
        )
    return Decimal(text)


def _scale(asset: str | None) -> Decimal:
    return Decimal((0, (1,), -_DECIMALS.get(asset or "", 2)))


def _day(text: str) -> date:
    digits = text.strip()
    if not re.fullmatch(r"\d{6}|\d{8}", digits, re.ASCII):
        raise ValueError(f"{text!r} is not a day such as 261031")
    year = int(digits[:-4])
    year += 0 if len(digits) == 8 else 1900 if year >= 80 else 2000
    return date(year, int(digits[-4:-2]), int(digits[-2:]))
