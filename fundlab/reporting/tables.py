"""Frames to the tables of the page: every cell as text, money exact, outside strings as they are.

Within one table the amounts of an asset show the same number of decimals, at least two, so that
their points line up and no digit is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import pandas as pd

from fundlab.charts import humanise, shorten_id
from fundlab.reporting.facts import Report, age_text, decimals

Style = Literal["text", "number", "zero", "short", "id", "time", "good", "bad", "warn"]

MAX_ROWS: Final = 250
MAX_TEXT: Final = 120
_PERIODS: Final = {"D": "Day", "W": "Week to", "MS": "Month", "QS": "Quarter from"}
_VERDICTS: Final[dict[str, tuple[str, Style]]] = {
    "match": ("✓ match", "good"),
    "break": ("✗ break", "bad"),
    "only_rebuilt": ("✗ not reported", "bad"),
    "only_reported": ("✗ not rebuilt", "bad"),
}


@dataclass(frozen=True)
class Cell:
    text: str
    style: Style = "text"
    title: str = ""


@dataclass(frozen=True)
class View:
    """One table of the page. ``hidden`` rows were cut to keep the page small."""

    caption: str
    columns: tuple[tuple[str, Style], ...]
    rows: tuple[tuple[Cell, ...], ...]
    hidden: int = 0


def reconciliation(report: Report) -> View:
    frame = report.reconciliation
    broken_first = frame.assign(matches=frame["status"] == "match").sort_values(
        ["matches", "asset", "profile_id"], kind="stable"
    )
    money = _Money(broken_first, "rebuilt", "reported", "difference")

    def cells(row: Any) -> tuple[Cell, ...]:
        words, tone = _VERDICTS[row.status]
        return (
            _asset(row.asset), _short(row.profile_id), money(row, "rebuilt"),
            money(row, "reported"), money(row, "difference"), Cell(words, tone),
        )  # fmt: skip

    columns = _columns("Asset", "Profile", "#Rebuilt", "#Reported", "#Difference", "Verdict")
    return _view("Rebuilt and reported balances", columns, broken_first, cells)


def balances(report: Report) -> View:
    frame = report.balances
    frame = frame.assign(held=frame["ledger"] - frame["available"])
    money = _Money(frame, "ledger", "held", "available")

    def cells(row: Any) -> tuple[Cell, ...]:
        sums = (money(row, name) for name in ("ledger", "held", "available"))
        return (_asset(row.asset), _short(row.profile_id), *sums)

    columns = _columns("Asset", "Profile", "#Ledger", "#Held by pending", "#Available")
    return _view("Balances by asset and profile", columns, frame, cells)


def flows(report: Report) -> View:
    keys = ["period", "asset"]
    sums = report.flows.groupby(keys, sort=False)[["inflow", "outflow", "net"]].sum().reset_index()
    sums = sums.sort_values(keys, ascending=[False, True], kind="stable")
    money = _Money(sums, "inflow", "outflow", "net")

    def cells(row: Any) -> tuple[Cell, ...]:
        period = _period(row.period, report.freq, report.tz)
        amounts = (money(row, name) for name in ("inflow", "outflow", "net"))
        return (period, _asset(row.asset), *amounts)

    columns = _columns(_PERIODS[report.freq], "Asset", "#Inflow", "#Outflow", "#Net")
    return _view("Inflow and outflow, all profiles", columns, sums, cells)


def fees(report: Report) -> View:
    charged = report.fees[report.fees["fee"].astype("float64") != 0]
    frame = charged.sort_values(["asset", "type"], kind="stable")
    frame = frame.rename(columns={"count": "transfers"})  # a named tuple has a method of that name
    money = _Money(frame, "amount", "fee")

    def cells(row: Any) -> tuple[Cell, ...]:
        bps = Cell("–" if pd.isna(row.bps) else f"{row.bps:,.2f}", "number")
        return (
            _asset(row.asset), Cell(humanise(str(row.type))), Cell(f"{row.transfers:,}", "number"),
            money(row, "amount"), money(row, "fee"), bps,
        )  # fmt: skip

    columns = _columns("Asset", "Type", "#Transfers", "#Amount", "#Fee", "#Basis points")
    return _view("Fees by asset and type", columns, frame, cells)


def open_items(report: Report) -> View:
    frame = report.open_items
    money = _Money(frame, "amount", "total")

    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            _time(row.created_at), Cell(age_text(row.age), "number"),
            Cell(humanise(str(row.type))), _asset(row.asset), money(row, "amount"),
            money(row, "total"), _short(row.profile_id), Cell(str(row.id), "id"),
        )  # fmt: skip

    columns = _columns(
        "Created", "#Age", "Type", "Asset", "#Amount", "#Total", "Profile", "Transfer"
    )
    return _view("Pending transfers, oldest first", columns, frame, cells)


def withdrawals(report: Report) -> View:
    frame = report.withdrawals
    money = _Money(frame, "amount", "fee", "total")
    tones: dict[str, Style] = {"COMPLETED": "good", "COMPLETE": "good", "FAILED": "bad"}

    def cells(row: Any) -> tuple[Cell, ...]:
        status = str(row.status)
        sums = (money(row, name) for name in ("amount", "fee", "total"))
        return (
            _time(row.created_at), Cell(humanise(str(row.type))), _asset(row.asset), *sums,
            Cell(humanise(status), tones.get(status, "warn")), _recipient(row),
            _optional(row, "ref_id"), Cell(str(row.id), "id"),
        )  # fmt: skip

    columns = _columns(
        "Created", "Type", "Asset", "#Amount", "#Fee", "#Total", "Status", "To", "Reference",
        "Transfer",
    )  # fmt: skip
    caption = "Withdrawals made on this occasion" if report.made_here else "Latest withdrawals"
    return _view(caption, columns, frame, cells)


def violations(report: Report) -> View:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (
            Cell(str(row.rule).replace("_", " ")), _text(row.expected), _text(row.found),
            Cell(_cut(str(row.transfer_id)), "id"),
        )  # fmt: skip

    columns = _columns("Rule", "Expected", "Found", "Transfer")
    return _view("Transfers that break a rule", columns, report.violations, cells)


def events(report: Report) -> View:
    def cells(row: Any) -> tuple[Cell, ...]:
        return (_text(row.type), Cell(f"{row.events:,}", "number"))

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
            return Cell("0", "zero")
        return Cell(f"{amount:,.{self._digits[row.asset]}f}", "number")


def _view(
    caption: str,
    columns: tuple[tuple[str, Style], ...],
    frame: pd.DataFrame,
    cells: Any,
    limit: int = MAX_ROWS,
) -> View:
    rows = tuple(cells(row) for row in frame.head(limit).itertuples(index=False))
    return View(caption, columns, rows, max(len(frame) - limit, 0))


def _columns(*labels: str) -> tuple[tuple[str, Style], ...]:
    """``#`` marks a column of numbers, set to the right."""
    return tuple((label.lstrip("#"), "number" if label[0] == "#" else "text") for label in labels)


def _asset(asset: object) -> Cell:
    return _text(asset)


def _text(value: object) -> Cell:
    return Cell("–" if pd.isna(value) else _cut(str(value)))  # type: ignore[call-overload]


def _short(identifier: object) -> Cell:
    return Cell(shorten_id(str(identifier)), "short", _cut(str(identifier)))


def _optional(row: Any, name: str) -> Cell:
    value = getattr(row, name, None)
    return Cell("–" if pd.isna(value) else _cut(str(value)), "id")


def _recipient(row: Any) -> Cell:
    """Where the money went, shortened: the account's id or the crypto address."""
    for name in ("fiat_account_id", "destination_address"):
        value = getattr(row, name, None)
        if not pd.isna(value):
            return Cell(shorten_id(str(value)), "short")
    return Cell("–")


def _time(moment: pd.Timestamp) -> Cell:
    return Cell(f"{moment:%Y-%m-%d %H:%M:%S}", "time", moment.isoformat())


def _period(moment: pd.Timestamp, freq: str, tz: str) -> Cell:
    local = moment.tz_convert(tz)
    return Cell(f"{local:%Y-%m}" if freq == "MS" else f"{local:%Y-%m-%d}", "time")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
