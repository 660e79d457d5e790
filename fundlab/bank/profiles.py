"""A bank's habits in a small TOML file beside its statements, where their look does not say them.

format = "csv"
encoding = "cp1252"
skip = 4                       # lines before the table
dates = "%d.%m.%Y"
decimal = ","
asset = "EUR"
partial = true                 # it lists a part of what it sums up
reference = 'PAY-?\\d{7}'       # how a reference looks in its text
[columns]                      # by name, or by number where the file has no header
booked_on = "Buchung"
amount = "Umsatz in EUR"
direction = "Richtung"
[words]
in = ["Eingang"]
out = ["Ausgang"]
booked = ["final"]
pending = ["offen"]
[[rules]]                      # what you take for the same payment
says = "SETTLEMENT"            # an entry with these words
type = "ACH_DEPOSIT"           # a transfer of this type
days = 10
amount = "0.50"                # as far as the amounts may differ

Several banks' are shipped: give their name, such as ``chase``, in place of a file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from fundlab.bank import csv_file
from fundlab.bank.model import FIAT, Rule, check_window, file_text, given_amount, words
from fundlab.base.errors import AnalysisError, reason_of, with_likely

SHIPPED: Final = Path(__file__).parent / "banks"
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(
        ("format", "encoding", "dates", "decimal", "account", "asset", "reference"),
        (str, "a text"),
    ),
    "skip": (int, "a number of lines"),
    "partial": (bool, "true or false"),
    "columns": (dict, "a table such as amount = 'Betrag'"),
    "words": (dict, "a table of in, out, booked and pending, each a list of words"),
    "rules": (list, "tables [[rules]] of says, type, days and amount"),
}
_WORDS: Final = {"in", "out", "booked", "pending"}
_DAY: Final = re.compile(
    r"\d{1,4}([./-])\d{1,2}\1\d{1,4}.{0,15}|\d{1,2}[ -][A-Za-z]{3,}[ -]\d{2,4}"
)
_MONEY: Final = re.compile(r"[-+(]?[$€£]? ?\d[\d.,' ]*[.,]\d\d\)?-?|[-+]?\d+")


def shipped() -> list[str]:
    """The names of the profiles that come with the program."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def read_profile(profile: str | Path) -> dict[str, Any]:
    """What the profile says, as arguments of ``read``. Raises :class:`AnalysisError` for what is no
    TOML, an unknown key or a value of another kind."""
    path = Path(profile)
    try:
        if str(profile) in shipped() and not path.exists():
            path = SHIPPED / f"{profile}.toml"
        known = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AnalysisError(f"profile={str(profile)!r} is not TOML: {error}") from error
    except (OSError, ValueError) as error:  # the latter of a name that no file can have
        raise AnalysisError(
            f"profile={str(profile)!r}: {reason_of(error)}; give a file, or one of "
            f"{', '.join(shipped())}"
        ) from error
    for key, value in known.items():
        if key not in _KINDS:
            raise AnalysisError(
                f"profile={str(profile)!r}: unknown {with_likely(key, _KINDS)}; known are "
                f"{', '.join(_KINDS)}"
            )
        kind, shape = _KINDS[key]
        if type(value) is not kind or not _fits(key, value):
            raise AnalysisError(f"profile={str(profile)!r}: {key} must be {shape}")
    return known | {"rules": tuple(map(_rule, known.get("rules", ())))}


def _rule(given: Mapping[str, Any]) -> Rule:
    """Raises :class:`AnalysisError` for one that any entry and any transfer would fit."""
    names = {each.name for each in fields(Rule)}
    for name, value in given.items():
        if name not in names:
            raise AnalysisError(f"rules: unknown {with_likely(name, names)}")
        if name in ("says", "type") and not isinstance(value, str):
            raise AnalysisError(f"rules: {name} must be a text")
    rule = Rule(**given)
    if not words(rule.says) and not rule.type:
        raise AnalysisError("rules: give says or type, for which entries or transfers it is")
    if rule.type and rule.type not in FIAT:
        raise AnalysisError(f"rules: type={rule.type!r} is not one of {', '.join(FIAT)}")
    check_window(rule.days, "rules: days")
    amount = given_amount("rules: amount", rule.amount)
    if amount < 0:
        raise AnalysisError(f"rules: amount={amount} is negative")
    return replace(rule, amount=amount)


def _fits(key: str, value: Any) -> bool:
    if key == "columns":
        return all(isinstance(text, str) for text in value.values())
    if key == "words":
        return _WORDS.issuperset(value) and all(
            isinstance(some, list) and all(isinstance(word, str) for word in some)
            for some in value.values()
        )
    if key == "rules":
        return all(isinstance(rule, dict) for rule in value)
    if key == "reference":
        with suppress(re.error):
            return re.compile(value).groups < 2
        return False
    return key != "skip" or value >= 0


# -------------------------------------------------------------------------------- a new one


def proposed(file: str | Path) -> str:
    """A profile for ``file``, a CSV, as TOML: what its look says, what it leaves open as a comment.
    Raises :class:`AnalysisError` where no table is found in it."""
    content = Path(file).read_bytes()
    text = file_text(content)
    try:
        csv_file.check_foreign(text)
    except ValueError as error:
        raise AnalysisError(f"{file} is not a statement: {error}") from None
    try:
        header, rows = csv_file.table_of(text, {})
        place, asset = csv_file.places(header, rows, {})
        columns = {field: header[n] for field, n in place.items()}
    except ValueError:
        header, rows, columns = _guessed(text)
        if not columns:
            raise AnalysisError(
                f"{file}: no line has a day and an amount; a profile is for CSV, and other formats "
                "are known by their look"
            ) from None
        asset = None
    where = {field: header.index(name) for field, name in columns.items()}

    def values(*fields: str) -> list[str]:
        cells = (row[where[f]].strip() for _, row in rows for f in fields if f in where)
        return [value for value in cells if value]

    lines = ['format = "csv"']
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError:
        lines.append('encoding = "cp1252"   # a guess: it is not UTF-8; cp1250 is Central Europe')
    form, why = _said(lambda: csv_file.date_form(values("booked_on", "valued_on")), "%d/%m/%Y")
    lines += [f"dates = {_quoted(form)}{why}"] if form != "iso" else []
    sign, why = _said(
        lambda: csv_file.decimal_sign(values("amount", "credit", "debit", "balance")), "."
    )
    lines.append(f"decimal = {_quoted(sign)}{why}")
    if "asset" not in columns:
        lines.append(f"asset = {_quoted(asset)}" if asset else '# asset = "USD"')
    lines += ["[columns]", *(f"{name} = {_quoted(column)}" for name, column in columns.items())]
    unsigned = not any(re.search(r"[-(\u2212]", value) for value in values("amount"))
    words = sorted({*values("direction")})
    known = {word for some in csv_file.WORDS.values() for word in some}
    if "amount" in columns and unsigned:
        left = [word for word in words if word.lower() not in known]
        if left:
            lines += [
                f"[words]   # sort these: {', '.join(map(_quoted, left))}",
                "in = []",
                "out = []",
            ]
        if not words:
            lines.append("# no amount has a sign: give the column that says in or out (direction)")
    return "\n".join([*lines, ""])


def _said(look: Any, default: str) -> tuple[str, str]:
    """What the file says, or a default and that it does not."""
    try:
        return str(look()), ""
    except ValueError as error:
        advice = re.search(r"such as (%\S+)", str(error))
        form = default if advice is None else advice[1]
        return form, f"   # a guess: {str(error).partition(';')[0]}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _guessed(text: str) -> tuple[list[str], list[tuple[int, list[str]]], dict[str, str]]:
    """A table whose header is not known: its columns by what they hold."""
    for delimiter in sorted(",;\t|", key=text.count, reverse=True):
        try:
            lines = [line for line in csv_file.lines_of(text, delimiter) if any(line[1])]
        except ValueError:
            continue
        looks = [
            {_DAY if _DAY.fullmatch(cell) else _MONEY if _MONEY.fullmatch(cell) else None
             for cell in map(str.strip, row)}
            for _, row in lines
        ]  # fmt: skip
        first = next((n for n, look in enumerate(looks) if look.issuperset((_DAY, _MONEY))), None)
        if first is None:
            continue
        size = len(lines[first][1])
        rows = [line for line in lines[first:] if len(line[1]) == size]
        above = lines[first - 1][1] if first else []
        header = [str(n) for n in range(1, size + 1)]
        if len(above) == size and not any(_DAY.fullmatch(cell.strip()) for cell in above):
            header = above
        return header, rows, dict(_fields(header, [row for _, row in rows]))
    return [], [], {}


def _fields(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    columns = [[row[n].strip() for row in rows] for n in range(len(header))]
    days = [n for n, cells in enumerate(columns) if all(map(_DAY.fullmatch, cells))]
    yield from (
        (name, header[n]) for name, n in zip(("booked_on", "valued_on"), days, strict=False)
    )
    money = [n for n, cells in enumerate(columns) if n not in days and any(cells)
             and all(not cell or _MONEY.fullmatch(cell) for cell in cells)]  # fmt: skip
    # Amounts have cents, numbers of checks and accounts do not.
    money = [n for n in money if any(re.search(r"[.,]\d\d\D*$", c) for c in columns[n])] or money
    if money:
        yield "amount", header[money[0]]
    texts = [n for n in range(len(header)) if n not in (*days, *money) and any(columns[n])]
    few = [n for n in texts if len(rows) > 2 and len({*columns[n]}) == 2]
    if few and not any("-" in cell or "(" in cell for cell in columns[money[0]] if money):
        yield "direction", header[few[0]]
        texts.remove(few[0])
    if texts:
        yield "memo", header[max(texts, key=lambda n: sum(map(len, columns[n])))]
