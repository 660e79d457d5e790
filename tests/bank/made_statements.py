"""Statements as a bank writes them, of made-up lines; and files that somebody cut or edited."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

from amounts import exactly

from fundlab.bank import statements
from fundlab.sandbox.bank_files import CENT, PAGED, WRITERS, Line, Statement

START = date(2026, 1, 1)
WORDS = ("wire out", "INVOICE 4711", "rent & heat <March>", "Zürich fee", "salary/May", "REF-1002")


@exactly()
def made(rng: random.Random, format: str, count: int = 3) -> list[Statement]:
    """``count`` statements in a row of one account, some of them on several pages."""
    balance = Decimal(rng.randint(-50_000, 9_000_000)) * CENT
    done: list[Statement] = []
    for number in range(1, count + 1):
        day = START + timedelta(days=10 * number)
        lines = []
        for n in range(rng.randint(2, 9)):
            amount = Decimal(rng.choice((-1, 1)) * rng.randint(1, 5_000_000)) * CENT
            booked = day if format == "bai2" else day + timedelta(days=n // 2)
            ref = f"{number:03}B{n:05}"
            late = booked + timedelta(days=rng.randint(0, 2))
            name = rng.choice(("", "ACME Ltd", "Globex"))
            memo = rng.choice(WORDS) if format != "bai2" else "wire"
            lines.append(Line(booked, late, amount, ref, memo, name))
        last = day if format == "bai2" else day + timedelta(days=9)
        one = Statement("4000123", "USD", number, day, last, balance, tuple(lines))
        balance = one.closing
        done += one.pages(rng.choice((None, 2, 3)) if format in PAGED else None)
    return done


@dataclass(frozen=True)
class Made:
    """A file, and what reads it."""

    format: str
    text: str
    opening: Decimal
    closing: Decimal

    def read(
        self, path: Path, text: str | None = None, *, strict: bool = True
    ) -> statements.Statements:
        path.write_bytes((self.text if text is None else text).encode())
        # What these formats do not declare their reader has to know.
        ends = {"opening": self.opening, "closing": self.closing}
        known = ends if self.format in ("ofx", "csv") else {}
        return statements.read(path, format=self.format, strict=strict, **known)  # type: ignore[arg-type]


def made_file(rng: random.Random, format: str) -> Made:
    pages = made(rng, format)
    return Made(format, WRITERS[format](pages), pages[0].opening, pages[-1].closing)


# ------------------------------------------------------------------------------------- mutants

_ENTRIES = {
    "camt": r"<Ntry>\n.*?</Ntry>\n",
    "mt94": r":61:.*?(?=:61:|:62|:90D)",
    "ofx": r"<STMTTRN>.*?</STMTTRN>\n",
    "bai2": r"(?<=\n)16,.*?(?=\n16,|\n49,)\n",
    "csv": r"(?<=\n)2026.*?\n",
}
_STATEMENTS = {
    "camt": r"<(Stmt|Rpt|Ntfctn)>\n.*?</\1>\n",
    "mt94": r"\{1:.*?-\}\r\n",
    "ofx": r"<STMTTRNRS>.*?</STMTTRNRS>\n",
    "bai2": r"02,.*?98,[^\n]*\n",
}
_AMOUNTS = {
    "camt": r"<Amt[^>]*>([\d.]+)<",
    "mt94": r":61:\d{10}[CD]([\d,]+)N",
    "ofx": r"<TRNAMT>-?([\d.]+)",
    "bai2": r"16,\d+,(\d+),",
    "csv": r"\A[^,]*,[^,]*,-?([\d.]+),",
}
_DECLARED = {
    "camt": (r"<NbOfNtries>(\d+)<", r"<Sum>([\d.]+)<", r"<TtlNetNtry><Amt>([\d.]+)<"),
    "camt.053": (r"</Cd></CdOrPrtry></Tp><Amt[^>]*>([\d.]+)<",),
    "mt940": (r":6[02][FM]:[CD]\d{6}USD([\d,]+)",),
    "mt942": (r":90[CD]:(\d+)USD", r":90[CD]:\d+USD([\d,]+)"),
    "ofx": (r"<BALAMT>-?([\d.]+)",),
    "bai2": (r",01[05],-?(\d+),", r",[14]00,(\d+),", r"49,(-?\d+),", r"98,(-?\d+),",
             r"99,-?\d+,(\d+),",
             r"49,-?\d+,(\d+)/"),
    "csv": (r"\n[^,]*,[^,]*,[^,]*,-?([\d.]+),",),
}  # fmt: skip


def _changed(rng: random.Random, text: str, at: re.Match[str]) -> str:
    """``text`` with one digit of the match's first group made another."""
    digits = [n for n in range(at.start(1), at.end(1)) if text[n].isdigit()]
    place = rng.choice(digits)
    other = rng.choice([digit for digit in "0123456789" if digit != text[place]])
    return text[:place] + other + text[place + 1 :]


def _pick(rng: random.Random, pattern: str, text: str) -> re.Match[str]:
    return rng.choice([*re.finditer(pattern, text, re.DOTALL)])


def _key(format: str) -> str:
    return format if format in _ENTRIES else format[:4]


def dropped(rng: random.Random, one: Made) -> str:
    at = _pick(rng, _ENTRIES[_key(one.format)], one.text)
    return one.text[: at.start()] + one.text[at.end() :]


def doubled(rng: random.Random, one: Made) -> str:
    at = _pick(rng, _ENTRIES[_key(one.format)], one.text)
    return one.text[: at.end()] + at[0] + one.text[at.end() :]


def altered(rng: random.Random, one: Made) -> str:
    at = _pick(rng, _ENTRIES[_key(one.format)], one.text)
    found = re.search(_AMOUNTS[_key(one.format)], at[0])
    assert found is not None
    return one.text[: at.start()] + _changed(rng, at[0], found) + one.text[at.end() :]


def turned(rng: random.Random, one: Made) -> str:
    """The sign of an entry."""
    at = _pick(rng, _ENTRIES[_key(one.format)], one.text)
    patterns: dict[str, tuple[str, dict[str, str]]] = {
        "camt": ("(CRDT|DBIT)", {"CRDT": "DBIT", "DBIT": "CRDT"}),
        "mt94": (r":61:\d{10}([CD])", {"C": "D", "D": "C"}),
        "ofx": ("<TRNAMT>(-?)", {"-": "", "": "-"}),
        "bai2": ("16,([14])", {"1": "4", "4": "1"}),
        "csv": (r"\A[^,]*,[^,]*,(-?)", {"-": "", "": "-"}),
    }
    pattern, other = patterns[_key(one.format)]
    found = re.search(pattern, at[0])
    assert found is not None
    entry = at[0][: found.start(1)] + other[found[1]] + at[0][found.end(1) :]
    return one.text[: at.start()] + entry + one.text[at.end() :]


def declared(rng: random.Random, one: Made) -> str:
    patterns = (*_DECLARED.get(one.format, ()), *_DECLARED.get(one.format[:4], ()))
    return _changed(rng, one.text, _pick(rng, rng.choice(patterns), one.text))


def missing(rng: random.Random, one: Made) -> str:
    """A statement or page that is not the last one: what comes after the last nobody can know.
    Of CSV, a line."""
    if one.format == "csv":
        return dropped(rng, one)
    found = [*re.finditer(_STATEMENTS[_key(one.format)], one.text, re.DOTALL)]
    at = rng.choice(found[1:-1])
    return one.text[: at.start()] + one.text[at.end() :]


def swapped(rng: random.Random, one: Made) -> str:
    """Two statements or pages, of CSV two lines."""
    patterns = _ENTRIES if one.format == "csv" else _STATEMENTS
    found = [*re.finditer(patterns[_key(one.format)], one.text, re.DOTALL)]
    place = rng.randrange(len(found) - 1)
    first, second = found[place], found[place + 1]
    middle = one.text[first.end() : second.start()]
    return one.text[: first.start()] + second[0] + middle + first[0] + one.text[second.end() :]


MUTATIONS: dict[str, Callable[[random.Random, Made], str]] = {
    "entry dropped": dropped,
    "entry doubled": doubled,
    "amount altered": altered,
    "sign turned": turned,
    "declared figure changed": declared,
    "statement or page missing": missing,
    "order swapped": swapped,
}
