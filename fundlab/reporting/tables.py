"""Frames to the tables of the page: every cell as text, money exact, outside strings as they are.

Within one table the amounts of an asset show the same number of decimals, at least two, so that
their points line up and no digit is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd
from pandas.api.typing import NaTType

from fundlab.charts import humanise, shorten_id
from fundlab.display import Cell, Style, Table
from fundlab.models import COMPLETED
from fundlab.reporting.facts import Report, age_text, decimals
from fundlab.store.judgement import SOUND

MAX_ROWS: Final = 250
MAX_TEXT: Final = 120
_SPAN: Final = re.compile(r"\b\d+ ?(?:D|h|min|s)\b", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_PERIODS: Final = {"D": "Day", "W": "Week to", "MS": "Month", "QS": "Quarter from"}
_VERDICTS: Final[dict[str, tuple[str, Style]]] = {
    "match": ("✓ match", "good"),
    "opening_unknown": ("opening not proved", "warn"),
    "break": ("✗ break", "bad"),
    "only_rebuilt": ("✗ not reported", "bad"),
    "only_reported": ("✗ not rebuilt", "bad"),
}


def reconciliation(report: Report) -> Table:
    frame = report.reconciliation
    broken_first = frame.assign(matches=frame["status"].isin(SOUND)).sort_values(
        ["matches", "asset", "profile_id"], kind="stable"
    )
    money = _Money(broken_first, "rebuilt", "reported", "difference")

    def cells(row: Any) -> tuple[Cell, ...]:
        words, tone = _VERDICTS[row.status]
        return (
            _asset(row.asset), _short(row.profile_id), money(row, "rebuilt"),
            money(row, "reported"), money(row, "difference"), Cell(words, tone),
            *((_time(row.since, report),) if off else ()),
        )  # fmt: skip

    off = len(report.breaks) > 0
    columns = _columns("Asset", "Profile", "#Rebuilt", "#Reported", "#Difference", "Verdict",
                       *([_when("First seen", report)] if off else []))  # fmt: skip
    return _view("Rebuilt and reported balances", columns, broken_first, cells)


def balances(report: Report) -> Table:
    names = ("opening", "inflow", "outflow", "closing", "held", "available")
    frame = report.balances
    money = _Money(frame, *names)

    def cells(row: Any) -> tuple[Cell, ...]:
        return (_asset(row.asset), _short(row.profile_id), *(money(row, name) for name in names))

    columns = _columns(
        "Asset", "Profile", "#Opening", "#In", "#Out", "#Closing", "#Held by pending", "#Available"
    )
    return _view("Balances by asset and profile", columns, frame, cells)


def flows(report: Report) -> Table:
    sums = report.flows.sort_values(["period", "asset"], ascending=[False, True], kind="stable")
    money = _Money(sums, "inflow", "outflow", "net")

    def cells(row: Any) -> tuple[Cell, ...]:
        period = _period(row.period, report.freq, report.tz)
        amounts = (money(row, name) for name in ("inflow", "outflow", "net"))
        return (period, _asset(row.asset), *amounts)

    columns = _columns(_PERIODS[report.freq], "Asset", "#Inflow", "#Outflow", "#Net")
    return _view("Inflow and outflow, all profiles", columns, sums, cells)


def fees(report: Report) -> Table:
    charged = report.fees[report.fees["fee"].astype("float64") != 0]
    frame = charged.sort_values(["asset", "type"], kind="stable")
    frame = frame.rename(columns={"count": "transfers"})  # a named tuple has a method of that name
    money = _Money(frame, "amount", "fee")
    compared = report.first is not None

    def cells(row: Any) -> tuple[Cell, ...]:
        drift = (_points(row.bps_before), _points(row.drift, signed=True)) if compared else ()
        return (
            _asset(row.asset), Cell(humanise(str(row.type))), _count(row.transfers),
            money(row, "amount"), money(row, "fee"), _points(row.bps), *drift,
        )  # fmt: skip

    labels = ["Asset", "Type", "#Transfers", "#Amount", "#Fee", "#Basis points"]
    columns = _columns(*labels, *(["#Before", "#Drift"] if compared else []))
    return _view("Fees by asset and type", columns, frame, cells)


def causes(report: Report) -> Table:
    frame = report.causes
    money = _Money(frame, "difference", "amount")

    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _asset(row.asset), _short(row.profile_id), money(row, "difference"), _count(row.rank),
            Cell(str(row.cause).replace("_", " ")), money(row, "amount"), _text(row.detail),
            _identifier(row.transfer_id),
        )  # fmt: skip

    columns = _columns(
        "Asset", "Profile", "#Difference", "#Rank", "Cause", "#Amount", "Detail", "Transfer"
    )
    return _view("What could make the differences, likeliest first", columns, frame, cells)


def ageing(report: Report) -> Table:
    frame = report.ageing.rename(columns={"count": "transfers"})
    money = _Money(frame, "total")

    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            Cell(_spans(row.age), value=_bracket(row.age)), Cell(humanise(str(row.type))),
            _asset(row.asset), _count(row.transfers), money(row, "total"),
            _time(row.oldest, report),
        )  # fmt: skip

    columns = _columns("Age", "Type", "Asset", "#Transfers", "#Total",
                       _when("Oldest", report))  # fmt: skip
    return _view("Pending transfers by age", columns, frame, cells)


def _bracket(age: str) -> pd.Timedelta:
    """Where ``under 1h``, ``1h to 1D``, ``7D on`` begins."""
    word, _, _ = age.partition(" ")
    return pd.Timedelta(0 if word == "under" else word)


def _spans(text: str) -> str:
    """``1h to 1D`` as ``1 h to 1 d``, ``8726400 s after`` as ``101 d after``."""
    return _SPAN.sub(lambda span: age_text(pd.Timedelta(span[0])), text)


def open_items(report: Report) -> Table:
    frame = report.open_items
    money = _Money(frame, "amount", "total")

    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _time(row.created_at, report), Cell(age_text(row.age), "number", value=row.age),
            Cell(humanise(str(row.type))), _asset(row.asset), money(row, "amount"),
            money(row, "total"), _short(row.profile_id), _identifier(row.id),
        )  # fmt: skip

    columns = _columns(
        _when("Created", report),
        "#Age",
        "Type",
        "Asset",
        "#Amount",
        "#Total",
        "Profile",
        "Transfer",
    )
    return _view("Pending transfers, oldest first", columns, frame, cells)


def withdrawals(report: Report) -> Table:
    frame = report.withdrawals
    money = _Money(frame.head(MAX_ROWS), "amount", "fee", "total")
    tones: dict[str, Style] = {**dict.fromkeys(COMPLETED, "good"), "FAILED": "bad"}

    def cells(row: Any) -> tuple[Cell, ...]:
        status = str(row.status)
        sums = (money(row, name) for name in ("amount", "fee", "total"))
        return (
            _time(row.created_at, report), Cell(humanise(str(row.type))), _asset(row.asset), *sums,
            Cell(humanise(status), tones.get(status, "warn")), _text(row.recipient),
            _identifier(row.ref_id), _identifier(row.id),
        )  # fmt: skip

    columns = _columns(
        _when("Created", report), "Type", "Asset", "#Amount", "#Fee", "#Total", "Status",
        "To", "Reference", "Transfer",
    )  # fmt: skip
    if report.made_here:
        return _view("Withdrawals made on this occasion", columns, frame, cells)
    return _view("Withdrawals, latest first", columns, frame, cells, limit=25)


def recipients(report: Report) -> Table:
    frame = report.recipients.rename(columns={"count": "transfers"})
    money = _Money(frame, "amount", "fee")

    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _text(row.recipient), Cell(humanise(str(row.type))), _asset(row.asset),
            _count(row.transfers), money(row, "amount"), money(row, "fee"), _time(row.last, report),
        )  # fmt: skip

    columns = _columns("To", "Type", "Asset", "#Transfers", "#Amount", "#Fee",
                       _when("Last", report))  # fmt: skip
    return _view("Where completed withdrawals went", columns, frame, cells, limit=100)


def settlement(report: Report) -> Table:
    frame = report.settlement.rename(columns={"count": "transfers"})

    def cells(row: Any) -> tuple[Cell, ...]:
        times = (Cell(age_text(age), "number", value=age) for age in
                 (row.p50, row.p90, row.p99, row.max))  # fmt: skip
        return (Cell(humanise(str(row.type))), _count(row.transfers), *times)

    columns = _columns("Type", "#Transfers", "#Half", "#90 %", "#99 %", "#Slowest")
    return _view("Time to settle by type", columns, frame, cells)


def anomalies(report: Report) -> Table:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _time(row.created_at, report), Cell(str(row.rule).replace("_", " ")),
            _text(row.expected), _text(_spans(row.found)), _short(row.profile_id),
            _identifier(row.transfer_id),
        )  # fmt: skip

    columns = _columns(_when("Created", report), "Rule", "Expected", "Found", "Profile", "Transfer")
    return _view("Transfers worth a look, latest first", columns, report.anomalies, cells, limit=50)


def pairs(report: Report) -> Table:
    frame = report.pairs
    money = _Money(frame, "amount")

    def cells(row: Any) -> tuple[Cell, ...]:
        ids = (_identifier(row.group_id), _identifier(row.debit_id), _identifier(row.credit_id))
        return (
            Cell(str(row.status).replace("_", " "), "bad"), _asset(row.asset),
            money(row, "amount"), *ids,
        )  # fmt: skip

    columns = _columns("State", "Asset", "#Amount", "Group", "Debit", "Credit")
    return _view("Internal transfers whose halves do not match", columns, frame, cells)


def notable(report: Report) -> Table:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _time(row.created_at, report),
            _text(row.type),
            _text(_object(row.object)),
            _identifier(row.id),
        )

    columns = _columns(_when("Created", report), "Event", "Object", "Id")
    return _view("Events of note, latest first", columns, report.notable, cells, limit=25)


def _object(text: Any) -> Any:
    """A JSON object as words: ``type Wire withdrawal, status Failed, profile 8d0d…d2ed``."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return text
    if not isinstance(found, dict):
        return text
    shown = {name.removesuffix("_id").replace("_", " "): value for name, value in found.items()}
    return ", ".join(f"{name} {_word(value)}" for name, value in shown.items())


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(map(_word, value))
    text = humanise(str(value))
    return shorten_id(text) if _UUID.fullmatch(text) else text


def violations(report: Report) -> Table:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            Cell(str(row.rule).replace("_", " ")), _text(row.expected), _text(row.found),
            _identifier(row.transfer_id),
        )  # fmt: skip

    columns = _columns("Rule", "Expected", "Found", "Transfer")
    return _view("Transfers that break a rule", columns, report.violations, cells)


def events(report: Report) -> Table:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (_text(row.type), _count(row.events))

    frame = report.events.rename(columns={"count": "events"})
    return _view("Events by type", _columns("Event", "#Count"), frame, cells, limit=12)


# --------------------------------------------------------------------------------------- cells


class _Money:
    """Formats the amounts of one table with as many decimals as their asset needs there."""

    def __init__(self, frame: pd.DataFrame, *names: str) -> None:
        self._digits: dict[str, int] = {}
        for name in names:
            for asset, amount in zip(frame["asset"], frame[name], strict=True):
                if not pd.isna(amount):
                    needed = decimals(amount)
                    self._digits[asset] = max(self._digits.get(asset, 2), needed)

    def __call__(self, row: Any, name: str) -> Cell:
        amount = getattr(row, name)
        if pd.isna(amount):
            return Cell("–", "number")
        if not amount:
            return Cell("0", "zero", value=amount)
        return Cell(f"{amount:,.{self._digits[row.asset]}f}", "number", value=amount)


def _view(
    caption: str,
    columns: tuple[tuple[str, Style], ...],
    frame: pd.DataFrame,
    cells: Any,
    limit: int = MAX_ROWS,
) -> Table:
    rows = [cells(row) for row in frame.head(limit).itertuples(index=False)]
    columns_of_cells = [_placed(column) for column in zip(*rows, strict=True)]
    placed = tuple(zip(*columns_of_cells, strict=True))
    return Table(columns, placed, caption, hidden=max(len(frame) - limit, 0))


def _placed(cells: Sequence[Cell]) -> list[Cell]:
    """Cells that know their place in order, so that the page sorts exact amounts without
    counting; missing ones come first."""
    values = sorted({cell.value for cell in cells if cell.value is not None})
    places = {value: place for place, value in enumerate(values)}
    if not places:
        return list(cells)
    return [replace(cell, place=places.get(cell.value, -1)) for cell in cells]


def _columns(*labels: str) -> tuple[tuple[str, Style], ...]:
    """``#`` marks a column of numbers, set to the right."""
    return tuple((label.lstrip("#"), "number" if label[0] == "#" else "text") for label in labels)


def _asset(asset: object) -> Cell:
    return _text(asset)


def _text(value: object) -> Cell:
    return Cell("–" if pd.isna(value) else _cut(str(value)))  # type: ignore[call-overload]


def _short(identifier: object) -> Cell:
    return Cell(shorten_id(str(identifier)), "short", _cut(str(identifier)))


def _identifier(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else _cut(str(value)), "id")


def _count(number: Any) -> Cell:
    return Cell(f"{number:,}", "number", value=int(number))


def _points(bps: Any, *, signed: bool = False) -> Cell:
    if pd.isna(bps):
        return Cell("–", "number")
    return Cell(f"{bps:+,.2f}" if signed else f"{bps:,.2f}", "number", value=bps)


def _time(moment: pd.Timestamp | NaTType, report: Report) -> Cell:
    if isinstance(moment, NaTType):
        return Cell("–", "time")
    local = moment.tz_convert(report.tz)
    return Cell(f"{local:%Y-%m-%d %H:%M:%S}", "time", moment.isoformat(), moment)


def _when(label: str, report: Report) -> str:
    return f"{label} ({report.tz})"


def _period(moment: pd.Timestamp, freq: str, tz: str) -> Cell:
    local = moment.tz_convert(tz)
    words = f"{local:%Y-%m}" if freq == "MS" else f"{local:%Y-%m-%d}"
    return Cell(words, "time", value=moment)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


VIEWS: Final[Mapping[str, Callable[[Report], Table]]] = {
    "balances": balances,
    "reconciliation": reconciliation,
    "causes": causes,
    "flows": flows,
    "fees": fees,
    "settlement": settlement,
    "ageing": ageing,
    "open_items": open_items,
    "withdrawals": withdrawals,
    "recipients": recipients,
    "violations": violations,
    "anomalies": anomalies,
    "pairs": pairs,
    "events": events,
    "notable": notable,
}
