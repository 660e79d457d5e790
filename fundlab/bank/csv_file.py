"""CSV as banks write it: the header where it stands, days and numbers in the file's own style, and
which way the money went by sign, by column or by word."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from fundlab.bank.model import Entry, Page, file_text, joined
from fundlab.base.errors import AnalysisError, shorten, with_likely
from fundlab.base.exact import EXACT
from fundlab.tables.schema import TABLES

_KNOWN: Final = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
CSV_COLUMNS: Final[Mapping[str, list[str]]] = _KNOWN["columns"]
"""What a column can be, and the names it is known by."""
WORDS: Final[Mapping[str, list[str]]] = _KNOWN["direction"]
"""Which way the money went, in a column of words."""
STATUS: Final[Mapping[str, list[str]]] = _KNOWN["status"]
"""Whether a line is booked; another one is none, as it may never be."""
_MONEY: Final = ("amount", "credit", "debit", "balance", "charges")
_MOST_PREAMBLE: Final = 40
_SIGN: Final = re.compile(r"[$€£]|USD|EUR|GBP|CHF")
_CALLED: Final = {"€": "EUR", "£": "GBP"}
_GROUPED: Final = {".": ",", ",": "."}
_CURRENCY: Final = re.compile(r"(.+?)[ _]*[\[(]?\b([A-Z]{3})[\])]?")
"""As in ``Amount (SGD)``."""
_WITH_NAMES: Final = ("%d %b %Y", "%d-%b-%Y", "%d %b %y", "%d-%b-%y", "%b %d, %Y", "%d %B %Y")


def read_csv(content: bytes, habits: Mapping[str, Any]) -> list[Page]:
    """``habits`` are the keys of a profile."""
    columns: Mapping[str, str] = habits.get("columns") or {}
    words: Mapping[str, Sequence[str]] = habits.get("words") or {}
    decimal = habits.get("decimal")
    if decimal not in (None, ".", ","):
        raise AnalysisError(f"decimal={decimal!r} is not one of '.', ','")
    for given in columns:
        if given not in CSV_COLUMNS:
            raise AnalysisError(
                f"columns: unknown {with_likely(given, CSV_COLUMNS)}; known are "
                f"{', '.join(CSV_COLUMNS)}"
            )
    text = file_text(content, habits.get("encoding"))
    if "\0" in text:
        raise ValueError("it holds bytes that no text has")
    if not columns:
        check_foreign(text)
    header, rows = table_of(text, columns, habits.get("skip") or 0)
    place, asset = places(header, rows, columns)

    def column(*fields: str) -> Iterator[str]:
        of = [place[field] for field in fields if field in place]
        return (values[n].strip() for _, values in rows for n in of if values[n].strip())

    form = habits.get("dates") or date_form(column("booked_on", "valued_on"))
    sign = decimal or decimal_sign(column(*_MONEY))
    page = Page("statement", 1)
    taken: list[tuple[int, list[str]]] = []
    ends: list[tuple[bool, Decimal]] = []
    status = _status(rows, place.get("status"), words, is_given="status" in columns)
    for (number, values), is_booked in zip(rows, status, strict=True):
        try:
            row = {field: values[n].strip() for field, n in place.items()}
            amounts = {name: _amount(row[name], sign) for name in _MONEY if row.get(name)}
            row["asset"] = _asset(row, row.get("asset") or asset or "")
            if {*amounts} == {"balance"} and number in (rows[0][0], rows[-1][0]):
                # A line that only says with which balance the file begins or ends.
                ends.append((number == rows[0][0], amounts["balance"]))
                continue
            if not amounts and not row.get("booked_on") and row.get("memo") and page.entries:
                # The text of the line before goes on.
                last = page.entries[-1]
                page.entries[-1] = replace(last, memo=joined(last.memo, row["memo"]))
                continue
            entry = _entry(row, amounts, number, form)
        except (ValueError, InvalidOperation) as error:
            raise ValueError(f"line {number}: {shorten(values)}: {error}") from error
        account = row.get("account") or None
        if taken and account != page.account:
            raise ValueError(f"line {number}: more than one account; give a file for each")
        page.account = account
        if is_booked:
            page.entries.append(entry)
            taken.append((number, values))
        else:
            page.unbooked.append(entry.amount)
    if "amount" in place:
        page.entries = [*_with_direction(page.entries, taken, header, place, words,
                                         is_given="direction" in columns)]  # fmt: skip
    page = _with_balances(page, ends)
    page.asset = page.asset or asset
    return [page]


def places(
    header: Sequence[str], rows: Sequence[tuple[int, list[str]]], columns: Mapping[str, str]
) -> tuple[dict[str, int], str | None]:
    """The column of each field, and the currency in which a header has its amounts."""
    names = [_name(name) for name in header]
    chosen = {
        field: next((name for name in common if name in names), None)
        for field, common in CSV_COLUMNS.items()
    }
    chosen |= {field: name.strip().lower() for field, name in columns.items()}
    exact = [name.strip().lower() for name in header]
    twice = [name for name in chosen.values() if name and names.count(name) > 1]
    if any(exact.count(name) != 1 for name in twice):
        raise ValueError(f"the header has more than one column {twice[0]!r}")
    place = {
        field: (exact if name in exact else names).index(name)
        for field, name in chosen.items()
        if name is not None
    }
    own = place.get("account", 0)
    if names[own] == "iban" and "account" not in columns and len({row[own] for _, row in rows}) > 1:
        del place["account"]  # it is the counterparty's
    found = (_CURRENCY.fullmatch(header[place[f]].strip()) for f in _MONEY if f in place)
    return place, next((match[2] for match in found if match), None)


def _name(header: str) -> str:
    """A column's name without the currency that stands after it."""
    plain = header.strip()
    if any(plain.lower() in common for common in CSV_COLUMNS.values()):
        return plain.lower()
    match = _CURRENCY.fullmatch(plain)
    return (match[1].rstrip(" _([") if match else plain).lower()


def _status(
    rows: Sequence[tuple[int, list[str]]], place: int | None, words: Mapping[str, Sequence[str]],
    *, is_given: bool,
) -> list[bool]:  # fmt: skip
    """Of each line whether it is booked."""
    known = {word.lower(): way == "booked" for way in STATUS
             for word in (*STATUS[way], *words.get(way, ()))}  # fmt: skip
    texts = [] if place is None else [values[place].strip() for _, values in rows]
    if not is_given and not any(text.lower() in known for text in texts):
        return [True] * len(rows)
    for (number, _), text in zip(rows, texts, strict=True):
        if text.lower() not in known:
            raise ValueError(
                f"line {number}: the status {text!r} is not known to be booked or not; the column "
                f"holds {', '.join(map(repr, sorted({*texts})[:8]))}: say which is which in a bank "
                "profile (words: booked, pending)"
            )
    return [known[text.lower()] for text in texts]


def check_foreign(text: str) -> None:
    """Raises ``ValueError`` for a table of a store, as ``fundlab export`` writes it."""
    names = {*re.split(r"\W+", text.partition("\n")[0])}
    own = next((table.name for table in TABLES.values() if {*table.schema.names} <= names), None)
    if own is not None:
        raise ValueError(
            f"it has the columns of a store's table {own}, as 'fundlab export' writes it; give the "
            "bank's own statement, which is matched with the transfers of the store"
        )


def lines_of(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        yield from ((reader.line_num, values) for values in reader)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def table_of(
    text: str, columns: Mapping[str, str], skip: int = 0
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, wherever it stands after ``skip`` lines, and what follows it, with the number of
    each line. Columns that are given by number are of a file without a header."""
    asked = {name.strip().lower() for name in columns.values()}
    dates = asked & {columns.get("booked_on", "").strip().lower()} or {*CSV_COLUMNS["booked_on"]}
    sums = {columns[f].strip().lower() for f in ("amount", "credit", "debit") if f in columns}
    sums = sums or {name for f in ("amount", "credit", "debit") for name in CSV_COLUMNS[f]}
    numbered = bool(asked) and all(name.isascii() and name.isdigit() for name in asked)

    def table(
        lines: list[tuple[int, list[str]]], whole: bool
    ) -> tuple[list[str], list[tuple[int, list[str]]]]:
        if numbered and whole and lines and len(lines[0][1]) >= max(map(int, asked)):
            return [str(n) for n in range(1, len(lines[0][1]) + 1)], lines
        for start, (_, header) in enumerate(lines[:_MOST_PREAMBLE]):
            names = {name.strip().lower() for name in header} | {_name(name) for name in header}
            if names & dates and names & sums and asked <= names:
                return header, lines[start + 1 :]
        return [], []

    shown: list[str] = []
    problem: ValueError | None = None
    for delimiter in sorted(",;\t|", key=text.count, reverse=True):
        lines: list[tuple[int, list[str]]] = []
        broken: ValueError | None = None
        try:
            lines.extend(lines_of(text, delimiter))
        except ValueError as error:
            if numbered and delimiter in text.partition("\n")[0]:
                raise
            broken = error
        header, rows = table([line for line in lines if line[0] > skip], broken is None)
        if header:
            if broken is not None:
                raise broken
            return header, _rows_of(header, rows)
        if broken is None:
            shown = shown or next((values for at, values in lines if at > skip and any(values)), [])
        else:
            problem = problem or broken
    if problem is not None and len(shown) < 2:
        raise problem
    if not shown:
        raise ValueError("it is empty; get it again from the bank")
    names = {name.strip().lower() for name in shown}
    for name in columns.values():
        if name.strip().lower() not in names:
            raise ValueError(f"it has no column {name!r}; the columns are {', '.join(shown)}")
    raise ValueError(
        f"a date and an amount column are needed; the columns are {shorten(', '.join(shown))}. "
        "Say in a bank profile which is which; 'fundlab bank profile new FILE' proposes one. Where "
        "the file is not CSV, give its format"
    )


def _rows_of(
    header: list[str], lines: Iterable[tuple[int, list[str]]]
) -> list[tuple[int, list[str]]]:
    rows = []
    for number, values in lines:
        if not any(value.strip() for value in values):
            continue
        if len(values) > len(header) and not any(values[len(header) :]):
            values = values[: len(header)]
        if len(values) == len(header) - 1 and not header[-1].strip():
            values = [*values, ""]
        if len(values) != len(header):
            problem = f"{len(values)} values for {len(header)} columns"
            raise ValueError(f"line {number}: {shorten(values)}: {problem}")
        rows.append((number, values))
    return rows


def date_form(texts: Iterable[str]) -> str:
    """``iso``, or the one form that all days of the file have. Days and months of which both could
    be first are distinguished by any above 12, and refused if there is none."""
    days = [*texts]
    if all(re.match(r"\d{4}-\d\d-\d\d", day) for day in days):
        return "iso"
    if all(re.fullmatch(r"\d{8}", day) for day in days):
        return "%Y%m%d"
    matches = [re.fullmatch(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d\d)", day) for day in days]
    parts = [match for match in matches if match]
    if len(parts) < len(days):
        for form in _WITH_NAMES:
            with suppress(ValueError):
                if [_day(day, form) for day in days]:
                    return form
        return "iso"  # which then names the first that is none
    sign, year = parts[0][2], "%Y" if len(parts[0][4]) == 4 else "%y"
    first, second = (max(int(match[n]) for match in parts) for n in (1, 3))
    if sign == "." or (first > 12 >= second):
        return f"%d{sign}%m{sign}{year}"
    if second > 12 >= first:
        return f"%m{sign}%d{sign}{year}"
    raise ValueError(
        f"{parts[0][0]!r} may begin with the day or the month, and no other line says which; give "
        f"it in a bank profile as dates, such as %d{sign}%m{sign}{year}"
    )


def decimal_sign(texts: Iterable[str]) -> str:
    """The sign that all amounts of the file may have; where both may be, it makes no difference or
    is refused."""
    amounts = [_bare(text) for text in texts]
    fits = [sign for sign in ".," if all(_plain(text, sign) for text in amounts)]
    if len(fits) == 2:
        unlike = [text for text in amounts if _plain(text, ".") != _plain(text, ",")]
        if unlike:
            raise ValueError(
                f"{unlike[0]!r} may have decimals or thousands; give decimal in a bank profile"
            )
    return fits[0] if fits else "."


def _bare(text: str) -> str:
    """``(12.50)``, ``12.50-`` and ``$12.50`` with a sign in front and nothing else."""
    bare = _SIGN.sub("", text.replace("\u2212", "-"))
    # white space stands at the ends, by the sign, and between groups of three digits
    bare = re.sub(r"\s*'\s*|(?<!\d)\s+|\s+(?!\d)|(?<=\d)\s(?=\d{3}(?!\d))", "", bare)
    if re.fullmatch(r"\(.*\)", bare):
        bare = f"-{bare[1:-1]}"
    return f"-{bare[:-1]}" if re.fullmatch(r"[\d.,]+-", bare) else bare


def _asset(row: Mapping[str, str], said: str) -> str:
    """The currency of a line's amounts: which they name, or else is ``said`` beside them."""
    named = {_CALLED.get(one, one) for name in _MONEY for one in _SIGN.findall(row.get(name, ""))}
    named -= {"$"}  # of several countries
    if len(named | {said} - {""}) > 1:
        beside = f", and its line says {said}" if said else ""
        raise ValueError(f"the amount is in {' and '.join(sorted(named))}{beside}")
    return next(iter(named), said)


def _plain(bare: str, decimal: str) -> str | None:
    """``bare`` as Python writes it; ``None`` where it is not an amount with that decimal sign."""
    point, group = re.escape(decimal), re.escape(_GROUPED[decimal])
    if not re.fullmatch(
        rf"[+-]?(\d+|\d{{1,3}}({group}\d{{3}})+|(?={point}\d))({point}\d*)?", bare, re.ASCII
    ):
        return None
    return bare.replace(_GROUPED[decimal], "").replace(decimal, ".")


def _amount(text: str, decimal: str) -> Decimal:
    plain = _plain(_bare(text), decimal)
    if plain is None:
        raise ValueError(f"{text!r} is not a plain amount such as -1234{decimal}50")
    return Decimal(plain)


def _entry(
    row: Mapping[str, str], amounts: Mapping[str, Decimal], number: int, dates: str
) -> Entry:
    amount, credit, debit = (amounts.get(name, Decimal(0)) for name in _MONEY[:3])
    if (credit and debit) or not amounts.keys() & {*_MONEY[:3]}:
        raise ValueError("give either a credit or a debit")
    side = debit.copy_abs().copy_negate() if debit else credit
    if side and "amount" in amounts and side != amount:
        raise ValueError(
            f"the amount {amount} is not the {side} of the credit or debit column; give amounts "
            "with their sign, or leave that column out"
        )
    booked, valued = (
        _day(row[name], dates) if row.get(name) else None for name in ("booked_on", "valued_on")
    )
    if booked is None:
        raise ValueError("it has no day")
    return Entry(
        booked, side or amount, row.get("asset") or None, row.get("bank_ref") or None,
        row.get("memo") or None, valued, row.get("own_ref") or None,
        row.get("counterparty") or None, charges=amounts.get("charges"),
        balance=amounts.get("balance"), line=number,
    )  # fmt: skip


def _with_direction(
    entries: Sequence[Entry], rows: Sequence[tuple[int, list[str]]], names: Sequence[str],
    place: Mapping[str, int], words: Mapping[str, Sequence[str]], *, is_given: bool,
) -> Iterator[Entry]:  # fmt: skip
    """The entries with the signs that a column of words gives them. Where amounts have signs of
    their own, the words must agree with them."""
    inward = {word.lower(): way == "in" for way in ("in", "out")
              for word in (*WORDS[way], *words.get(way, ()))}  # fmt: skip

    def way_of(text: str) -> bool | None:
        text = text.strip().rstrip(".").lower()
        if text in inward:
            return inward[text]
        ways = {inward[part] for part in re.findall(r"\w+", text) if len(part) > 1
                and part in inward}  # fmt: skip
        return ways.pop() if len(ways) == 1 else None

    own = place.get("direction")
    figures = {place.get(name) for name in (*_MONEY, "booked_on", "valued_on", "asset")}
    candidates = [own] if own is not None else [n for n in range(len(names)) if n not in figures]
    signed = any(entry.amount < 0 for entry in entries)
    for n in candidates:
        ways = [way_of(values[n]) for _, values in rows]
        several = {values[n].strip().lower() for _, values in rows}
        if not any(way is not None for way in ways):
            if not (is_given and n == own):
                continue
        elif None in ways and n != own:
            continue
        unknown = [(number, values[n]) for (number, values), way in zip(rows, ways, strict=True)
                   if way is None]  # fmt: skip
        if unknown and not signed:
            number, word = unknown[0]
            raise ValueError(
                f"line {number}: {names[n]!r} says {word!r}, which is not known to mean in or out; "
                f"the column holds {', '.join(map(repr, sorted(several)[:8]))}: say which is which "
                "in a bank profile (words), or give amounts with their sign"
            )
        if not signed:
            for entry, way in zip(entries, ways, strict=True):
                yield entry if way else replace(entry, amount=entry.amount.copy_negate()
                                                if entry.amount else entry.amount)  # fmt: skip
            return
        for entry, way, (number, values) in zip(entries, ways, rows, strict=True):
            if way is not None and entry.amount and way == (entry.amount < 0):
                raise ValueError(
                    f"line {number}: {names[n]!r} says {values[n]!r} of the amount {entry.amount}; "
                    "give amounts with their sign, or a credit and a debit column"
                )
    yield from entries


def _day(text: str, dates: str) -> date:
    try:
        if dates == "iso":
            return date.fromisoformat(re.sub(r"(?<=^\d{4}-\d\d-\d\d)[T ].*", "", text))
        return datetime.strptime(text, dates).date()  # noqa: DTZ007 - a day has no zone
    except ValueError as error:
        form = "2026-10-31" if dates == "iso" else dates
        raise ValueError(f"{error}; the form of days other than {form} is given in a bank profile "
                         "as dates, such as %d.%m.%Y") from error  # fmt: skip


def _with_balances(page: Page, ends: Sequence[tuple[bool, Decimal]]) -> Page:
    """Oldest first, with the balances at both ends where each line, or a line of their own (whether
    it is the file's first, and its balance), has one."""
    entries = page.entries
    if not entries:
        for is_first, declared in ends:
            setattr(page, "opening" if is_first else "closing", declared)
        return page
    page.asset = next((entry.asset for entry in entries if entry.asset), None)
    others = sorted({entry.asset for entry in entries if entry.asset} - {page.asset or ""})
    if others:
        currencies = ", ".join(others)
        page.contradictions.append(
            ("currency", page.asset, currencies,
             f"entries are in {page.asset} and in {currencies}; give a file for each")
        )  # fmt: skip
    backwards = entries[0].booked_on > entries[-1].booked_on
    if entries[0].booked_on == entries[-1].booked_on:
        # Dates do not say which way the file runs: the balances do, where they run one way only.
        steps = [len([*breaks(order)]) for order in (entries, entries[::-1])]
        backwards = steps[0] > steps[1]
    if backwards:
        entries.reverse()
    page.entries = [replace(entry, position=place) for place, entry in enumerate(entries, start=1)]
    first, last = page.entries[0], page.entries[-1]
    if first.balance is not None:
        page.opening = EXACT.subtract(first.balance, first.amount)
    page.closing, page.opening_on, page.closing_on = last.balance, first.booked_on, last.booked_on
    for is_first, declared in ends:
        name = "opening" if is_first != backwards else "closing"
        found = getattr(page, name)
        if found not in (None, declared):
            said = f"a line of its own has the {name} balance {declared}, the others give {found}"
            page.contradictions.append((name, declared, found, said))
        setattr(page, name, declared)
    return page


def breaks(entries: Sequence[Entry]) -> Iterator[tuple[int, Decimal, Decimal]]:
    """Of each entry whose balance is not the one before it and its amount its line, its balance,
    and what those two give."""
    for before, entry in pairwise(entries):
        if before.balance is None or entry.balance is None:
            continue
        expected = EXACT.add(before.balance, entry.amount)
        if expected != entry.balance:
            yield entry.line, entry.balance, expected
