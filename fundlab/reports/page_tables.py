"""Frames to the tables of the page: every cell as text, money exact, outside strings as they are.

Within one column the amounts of an asset show the same number of decimals, at least two, so that
their points line up and no digit is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pandas as pd

from fundlab.analysis.closing import CAUSES
from fundlab.bank.proof_of_cash import CATEGORIES
from fundlab.bank.reconciliation import Reconciliation
from fundlab.charts import humanise
from fundlab.display import Cell, Style, Table
from fundlab.evidence.verdict import SOUND
from fundlab.models import COMPLETED
from fundlab.reports.facts import TOTALS, Report, age_text, decimals
from fundlab.settings.labels import UUID, shorten_id

MAX_ROWS: Final = 250
MAX_TEXT: Final = 120
_SPAN: Final = re.compile(r"\b\d+ ?(?:D|h|min|s)\b", re.ASCII)
_PERIODS: Final = {"D": "Day", "W": "Week to", "MS": "Month", "QS": "Quarter from"}
_STATUSES: Final[Mapping[str, Cell]] = {
    "match": Cell("✓ match", "good"),
    "opening_unknown": Cell("opening not proved", "warn"),
    "closing_unknown": Cell("closing not known", "warn"),
    "break": Cell("✗ break", "bad"),
    "only_rebuilt": Cell("✗ not reported", "bad"),
    "only_reported": Cell("✗ not rebuilt", "bad"),
}
_TONES: Final[Mapping[str, Style]] = {**dict.fromkeys(COMPLETED, "good"), "FAILED": "bad"}

Column = tuple[str, Callable[..., Cell], str]
"""A label (``#`` marks numbers, set to the right), what makes a cell of a value, and the name of
the column in the frame."""


def page_tables(report: Report) -> dict[str, Table]:
    """Every table of the page, by its name in the template."""
    tz, zone = report.tz, f"({report.tz})"
    time = partial(time_cell, tz=tz)
    asset: Column = ("Asset", text, "asset")
    kind: Column = ("Type", type_name, "type")
    profile: Column = ("Profile", partial(profile_cell, labels=report.labels), "profile_id")
    amount: Column = ("#Amount", money, "amount")
    fee: Column = ("#Fee", money, "fee")
    total: Column = ("#Total", money, "total")
    transfers: Column = ("#Transfers", number, "count")
    created: Column = (f"Created {zone}", time, "created_at")
    thing = partial(event_object, labels=report.labels)
    rule: Column = ("Rule", words, "rule")
    expected: Column = ("Expected", text, "expected")

    reconciliation = report.reconciliation
    reconciliation = reconciliation.assign(sound=reconciliation["status"].isin(SOUND)).sort_values(
        ["sound", "asset", "profile_id"], kind="stable"
    )
    since: list[Column] = [(f"First seen {zone}", time, "since")] * (len(report.breaks) > 0)
    charged = report.fees[report.fees["fee"].astype("float64") != 0]
    drift: list[Column] = [("#Before", points, "bps_before"), ("#Drift", signed_points, "drift")]
    made = report.made_here
    into = report.links["stage"] == 1
    outer = report.links.assign(
        way=into.map({True: "from", False: "to"}),
        name=report.links["source"].where(into, report.links["target"]),
    )
    sums = outer.groupby(["asset", "way", "name"], as_index=False)["amount"].sum()
    ends = pd.DataFrame(sums).sort_values(
        ["asset", "way", "amount"], ascending=[True, True, False], kind="stable"
    )
    restated: list[Column] = [("#Restated", money, "restated")] * ("restated" in report.balances)
    return bank_tables(report.bank) | {
        "restatements": table(
            "Closed periods that have moved, transfer by transfer", report.restatements,
            [("Period", text, "period"), ("Basis", text, "basis"), asset, profile,
             ("Line", words, "line"), ("Type", type_name, "type"),
             ("#Closed", money, "then"), ("#Now", money, "now"),
             ("#Difference", money, "difference"), ("Why", cause, "cause"),
             ("Transfer", identifier, "transfer_id")],
        ),
        "balances": table(
            "Balances by asset and profile", report.balances,
            [asset, profile, ("#Opening", money, "opening"), *restated,
             ("#In", money, "inflow"),
             ("#Out", money, "outflow"), ("#Closing", money, "closing"),
             ("#Held by pending", money, "held"), ("#Available", money, "available")],
            sums=TOTALS["Balances"],
        ),
        "reconciliation": table(
            "Rebuilt and reported balances", reconciliation,
            [asset, profile, ("#Rebuilt", money, "rebuilt"), ("#Reported", money, "reported"),
             ("#Difference", money, "difference"), ("Verdict", _STATUSES.__getitem__, "status"),
             *since],
            sums=TOTALS["Reconciliation"],
        ),
        "causes": table(
            "What could make the differences, likeliest first", report.causes,
            [asset, profile, ("#Difference", money, "difference"), ("#Rank", number, "rank"),
             ("Cause", words, "cause"), amount, ("Detail", text, "detail"),
             ("Transfer", identifier, "transfer_id")],
        ),
        "ends": table(
            "Where money came from and where it went, one by one", ends,
            [asset, ("Way", text, "way"), ("Name", text, "name"), amount],
            sums=(),
        ),
        "transfers": table(
            "Transfers by asset, type and status", report.transfers,
            [asset, kind, ("Status", transfer_status, "status"), transfers, amount],
            sums=TOTALS["Transfer counts"],
        ),
        "flows": table(
            "Inflow and outflow, all profiles",
            report.flows.sort_values(["period", "asset"], ascending=[False, True], kind="stable"),
            [(_PERIODS[report.freq], partial(period_start, freq=report.freq, tz=tz), "period"),
             asset, ("#Inflow", money, "inflow"), ("#Outflow", money, "outflow"),
             ("#Net", money, "net")],
            sums=TOTALS["Flows"],
        ),
        "fees": table(
            "Fees by asset and type", charged.sort_values(["asset", "type"], kind="stable"),
            [asset, kind, transfers, amount, fee, ("#Basis points", points, "bps"),
             *(drift if report.first is not None else [])],
            sums=TOTALS["Fees"],
        ),
        "settlement": table(
            "Time to settle by type", report.settlement,
            [kind, transfers, ("#Half", age, "p50"), ("#90 %", age, "p90"), ("#99 %", age, "p99"),
             ("#Slowest", age, "max")],
        ),
        "ageing": table(
            "Pending transfers by age", report.ageing,
            [("Age", age_bracket, "age"), kind, asset, transfers, total,
             (f"Oldest {zone}", time, "oldest")],
            sums=TOTALS["Ageing"],
        ),
        "open_items": table(
            "Pending transfers, oldest first", report.open_items,
            [created, ("#Age", age, "age"), kind, asset, amount, total, profile,
             ("Transfer", identifier, "id")],
        ),
        "withdrawals": table(
            "Withdrawals made on this occasion" if made else "Withdrawals, latest first",
            report.withdrawals,
            [created, kind, asset, amount, fee, total, ("Status", transfer_status, "status"),
             ("To", text, "recipient"), ("Reference", identifier, "ref_id"),
             ("Transfer", short_identifier, "id")],
            MAX_ROWS if made else 25,
        ),
        "recipients": table(
            "Where completed withdrawals went", report.recipients,
            [("To", text, "recipient"), kind, asset, transfers, amount, fee,
             (f"Last {zone}", time, "last")],
            100, TOTALS["Recipients"],
        ),
        "violations": table(
            "Transfers that break a rule", report.violations,
            [rule, expected, ("Found", text, "found"), ("Transfer", identifier, "transfer_id")],
        ),
        "anomalies": table(
            "Transfers worth a look, latest first", report.anomalies,
            [created, rule, expected, ("Found", finding, "found"), profile,
             ("Transfer", identifier, "transfer_id")],
            50,
        ),
        "pairs": table(
            "Internal transfers whose halves do not match", report.pairs,
            [("State", pair_state, "status"), asset, amount, ("Group", identifier, "group_id"),
             ("Debit", identifier, "debit_id"), ("Credit", identifier, "credit_id")],
        ),
        "events": table(
            "Events by type", report.events,
            [("Event", text, "type"), ("#Count", number, "count")], 12,
        ),
        "notable": table(
            "Events of note, latest first", report.notable,
            [created, ("Event", text, "type"), ("Object", thing, "object"),
             ("Id", identifier, "id")],
            25,
        ),
    }  # fmt: skip


def bank_tables(bank: Reconciliation | None) -> dict[str, Table]:
    """Those of the reconciliation with the bank, where there is one."""
    if bank is None:
        return {}
    line: Column = ("Line", text, "label")
    frames = {name: frame.assign(asset=bank.asset) for name, frame in (
        ("statement", bank.statement), ("proof", bank.proof), ("items", bank.items))}  # fmt: skip
    return {
        "bank_statement": table(
            "Bank reconciliation", frames["statement"],
            [line, ("#Items", number, "items"), ("#Amount", known_money, "amount")],
        ),
        "bank_proof": table(
            "Proof of cash", frames["proof"],
            [line, ("#Opening", known_money, "opening"), ("#Receipts", money, "receipts"),
             ("#Disbursements", money, "disbursements"), ("#Closing", known_money, "closing")],
        ),
        "bank_items": table(
            "Open items of the bank reconciliation, oldest first", frames["items"],
            [("On", day, "on"), ("#Age in days", number, "age"),
             ("#Amount", money, "amount"), ("Line", bank_line, "category"),
             ("State", explained, "explained"), ("Why", text, "why"),
             ("Cleared", day, "cleared_on"), ("Memo", text, "memo"),
             ("Item", short_identifier, "item_id")],
        ),
    }  # fmt: skip


def table(
    caption: str,
    frame: pd.DataFrame,
    columns: Sequence[Column],
    limit: int = MAX_ROWS,
    sums: Sequence[str] = (),
) -> Table:
    """The first ``limit`` rows, and of the columns ``sums`` the totals of each asset, of all rows,
    where an asset has several. Cells know their place in order, so that the page sorts exact
    amounts without counting; missing ones come first."""
    shown = frame.head(limit)
    summed = frame.iloc[:0]
    if sums:
        there = [name for name in sums if name in frame]
        several = frame[frame["asset"].duplicated(keep=False)]
        summed = several.groupby(several["asset"].astype(str))[there].sum().reset_index()
    assets = shown["asset"].astype(str) if "asset" in shown.columns else None
    digits: dict[tuple[str, str], int] = {}
    for _, make, name in columns:
        if make in (money, known_money):
            pairs = [*zip(assets, shown[name], strict=True),  # type: ignore[arg-type]
                     *zip(summed["asset"], summed.get(name, ()), strict=False)]  # fmt: skip
            for asset, amount in pairs:
                if not pd.isna(amount):
                    digits[name, asset] = max(digits.get((name, asset), 2), decimals(amount))
    cells_by_column = []
    for _, make, name in columns:
        if make in (money, known_money):
            pairs = [*zip(assets, shown[name], strict=True)]  # type: ignore[arg-type]
            cells = [make(amount, digits.get((name, asset), 2)) for asset, amount in pairs]
        else:
            cells = [make(value) for value in shown[name]]
        values = sorted({cell.value for cell in cells if cell.value is not None})
        places = {value: place for place, value in enumerate(values)}
        if places:
            cells = [replace(cell, place=places.get(cell.value, -1)) for cell in cells]
        cells_by_column.append(cells)
    heads: list[tuple[str, Style]] = [
        (label.lstrip("#"), "number" if label[0] == "#" else "text") for label, _, _ in columns
    ]
    totals = []
    for row in summed.to_dict("records"):
        cells = [
            (Cell(cut(f"Total {row['asset']}")) if place == 0 else
             Cell("") if column not in sums or column not in row else
             make(row[column], digits.get((column, row["asset"]), 2))
             if make in (money, known_money) else make(row[column]))
            for place, (_, make, column) in enumerate(columns)
        ]  # fmt: skip
        totals.append(tuple(cells))
    rows = tuple(zip(*cells_by_column, strict=True))
    return Table(
        tuple(heads), rows, caption, hidden=max(len(frame) - limit, 0), totals=tuple(totals)
    )


# --------------------------------------------------------------------------------------- cells


def text(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else cut(str(value)))


def words(value: object) -> Cell:
    return Cell(str(value).replace("_", " "))


def cause(value: object) -> Cell:
    return Cell(CAUSES[str(value)])


def type_name(value: object) -> Cell:
    return Cell(humanise(str(value)))


def transfer_status(value: object) -> Cell:
    return Cell(humanise(str(value)), _TONES.get(str(value), "warn"))


def pair_state(value: object) -> Cell:
    return Cell(str(value).replace("_", " "), "bad")


def profile_cell(value: object, labels: Mapping[str, str]) -> Cell:
    """By its label, the id on hover."""
    label = labels.get(str(value), str(value))
    return Cell(cut(label), "short" if label == shorten_id(str(value)) else "text", cut(str(value)))


def identifier(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else cut(str(value)), "id")


def short_identifier(value: object) -> Cell:
    """Where there is no room, the whole on hover."""
    return Cell(shorten_id(str(value)), "short", cut(str(value)))


def money(amount: Any, digits: int) -> Cell:
    if pd.isna(amount):
        return Cell("–", "number")
    if not amount:
        return Cell("0", "zero", value=amount)
    return Cell(f"{amount:,.{digits}f}", "number", value=amount)


def known_money(amount: Any, digits: int) -> Cell:
    return Cell("unknown", "number") if pd.isna(amount) else money(amount, digits)


def bank_line(category: object) -> Cell:
    return Cell(CATEGORIES[str(category)])


def explained(value: object) -> Cell:
    return Cell("explained", "good") if value else Cell("✗ unexplained", "bad")


def number(count: Any) -> Cell:
    return Cell("–", "number") if pd.isna(count) else Cell(f"{count:,}", "number", value=int(count))


def points(bps: Any, spec: str = ",.2f") -> Cell:
    return Cell("–", "number") if pd.isna(bps) else Cell(f"{bps:{spec}}", "number", value=bps)


def signed_points(bps: Any) -> Cell:
    return points(bps, "+,.2f")


def age(length: pd.Timedelta) -> Cell:
    return Cell(age_text(length), "number", value=length)


def age_bracket(name: str) -> Cell:
    """``1h to 1D`` as ``1 h to 1 d``, in order of where it begins."""
    first, _, _ = name.partition(" ")
    return Cell(readable_spans(name), value=pd.Timedelta(0 if first == "under" else first))


def time_cell(at: Any, tz: str) -> Cell:
    if pd.isna(at):
        return Cell("–", "time")
    return Cell(f"{at.tz_convert(tz):%Y-%m-%d %H:%M:%S}", "time", at.isoformat(), at)


def day(value: Any) -> Cell:
    return Cell("–" if pd.isna(value) else str(value), "time")


def period_start(at: pd.Timestamp, freq: str, tz: str) -> Cell:
    local = at.tz_convert(tz)
    return Cell(f"{local:%Y-%m}" if freq == "MS" else f"{local:%Y-%m-%d}", "time", value=at)


def finding(value: Any) -> Cell:
    return text(value if pd.isna(value) else readable_spans(value))


def event_object(value: Any, labels: Mapping[str, str]) -> Cell:
    """A JSON object as words: ``type Wire withdrawal, status Failed, profile Treasury USD``."""
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        return text(value)
    if not isinstance(found, dict):
        return text(value)
    parts = []
    for name, member in found.items():
        members = [humanise(str(one)) for one in (member if isinstance(member, list) else [member])]
        shown = " and ".join(
            labels.get(one, shorten_id(one) if UUID.fullmatch(one) else one) for one in members
        )
        parts.append(f"{name.removesuffix('_id').replace('_', ' ')} {shown}")
    return text(", ".join(parts))


def readable_spans(words: str) -> str:
    """``8726400 s after`` as ``101 d after``."""
    return _SPAN.sub(lambda span: age_text(pd.Timedelta(span[0])), words)


def cut(words: str) -> str:
    return words if len(words) <= MAX_TEXT else f"{words[: MAX_TEXT - 1]}…"
