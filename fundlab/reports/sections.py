"""The tables of a report, each once: how it is made, and what page, workbook and CSV show of it.

To add one, add a :class:`Section` here: its ``make`` gets all that is known of the period, and
``part`` says at the end of which part of the page it stands. What it lacks a test names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pandas as pd

from fundlab.analysis import fees, flows
from fundlab.analysis.closing import Restatement
from fundlab.analysis.value import checked_age
from fundlab.base.values import length_text
from fundlab.display import Table
from fundlab.evidence.verdict import SOUND, Judgement
from fundlab.reports import figures
from fundlab.reports.facts import Report
from fundlab.reports.inputs import DAY, PLACED, Relation, Span, frame_of
from fundlab.reports.page_tables import (
    MAX_ROWS,
    STATUSES,
    Column,
    age,
    age_bracket,
    bank_line,
    cause,
    day,
    driver,
    event_object,
    explained,
    finding,
    identifier,
    known_age,
    known_money,
    money,
    number,
    pair_state,
    period_start,
    points,
    price,
    profile_cell,
    several_ids,
    short_identifier,
    signed_points,
    table,
    text,
    time_cell,
    transfer_status,
    type_name,
    words,
    worth,
)
from fundlab.tables.transfers import Basis

if TYPE_CHECKING:
    from fundlab.bank.reconciliation import Reconciliation

CALENDAR_DAYS: Final = 371
_PERIODS: Final = {"D": "Day", "W": "Week to", "MS": "Month", "QS": "Quarter from"}


@dataclass(frozen=True)
class Material:
    """What sections are made from. Of the transfers: ``rows`` all that are known, ``inside`` those
    of the period, ``until`` those until its end, ``outer`` those inside that are not between own
    profiles, ``drawn`` as ``until`` with the ``busy`` profiles by name, ``pending`` at ``open_at``,
    and ``before`` those of the period before."""

    rows: Relation
    inside: Relation
    until: Relation
    outer: Relation
    drawn: Relation
    pending: Relation
    open_at: pd.Timestamp
    before: Relation
    has_before: bool
    span: Span
    balances: pd.DataFrame
    roll_forward: pd.DataFrame
    violations: pd.DataFrame
    judgement: Judgement
    reported: pd.DataFrame
    busy: Sequence[str]
    opening: pd.DataFrame | None
    opened: pd.DataFrame | None
    moved: Sequence[Restatement]
    events: object
    fiat_accounts: pd.DataFrame | None
    recipients: figures.Recipients
    made_here: Sequence[str] | None
    differences: Mapping[str, str]
    approved_by: Mapping[str, str]
    labels: Mapping[str, str]
    freq: str
    tz: str
    basis: Basis
    max_age: str


class Columns:
    """The columns that several tables of a ``report`` share."""

    def __init__(self, report: Report) -> None:
        self.report, zone = report, f"({report.tz})"
        time = partial(time_cell, tz=report.tz)
        self.asset: Column = ("Asset", text, "asset")
        self.type: Column = ("Type", type_name, "type")
        self.profile: Column = (
            "Profile", partial(profile_cell, labels=report.labels), "profile_id"
        )  # fmt: skip
        self.amount: Column = ("#Amount", money, "amount")
        self.fee: Column = ("#Fee", money, "fee")
        self.total: Column = ("#Total", money, "total")
        self.transfers: Column = ("#Transfers", number, "count")
        self.difference: Column = ("#Difference", money, "difference")
        self.created: Column = (f"Created {zone}", time, "created_at")
        self.since: Column = (f"First seen {zone}", time, "since")
        self.oldest: Column = (f"Oldest {zone}", time, "oldest")
        self.last: Column = (f"Last {zone}", time, "last")
        self.rule: Column = ("Rule", words, "rule")
        self.expected: Column = ("Expected", text, "expected")
        self.object: Column = ("Object", partial(event_object, labels=report.labels), "object")
        self.period: Column = (
            _PERIODS[report.freq], partial(period_start, freq=report.freq, tz=report.tz), "period"
        )  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A table of the report. ``make`` gives its frame, which is ``report.<name>``. Workbook and CSV
    show it as ``sheet`` with a ``note``; the page with a ``caption`` the ``columns`` of the first
    ``limit`` rows that ``rows`` picks, the sums of ``totals`` for each asset, and where there is
    no row the words ``empty``. ``part`` is the part of the page it stands at the end of; where it
    is left out, the template has a place for it. Without a ``sheet`` no file has it; one that is
    ``only_data`` is a CSV file and no sheet of the workbook."""

    name: str
    make: Callable[[Material], pd.DataFrame]
    sheet: str = ""
    note: str | Callable[[Report], str] = ""
    caption: str | Callable[[Report], str] = ""
    columns: Callable[[Columns], Sequence[Column]] | None = None
    rows: Callable[[Report], pd.DataFrame] | None = None
    totals: tuple[str, ...] = ()
    limit: int | Callable[[Report], int] = MAX_ROWS
    empty: str = ""
    part: str = ""
    only_data: bool = False

    def table(self, report: Report) -> Table:
        """As the page shows it."""
        assert self.columns is not None  # noqa: S101 - for the type checker
        return table(
            self.caption(report) if callable(self.caption) else self.caption,
            self.rows(report) if self.rows is not None else getattr(report, self.name),
            self.columns(Columns(report)),
            self.limit(report) if callable(self.limit) else self.limit,
            self.totals,
        )


def breaks_first(report: Report) -> pd.DataFrame:
    frame = report.reconciliation
    frame = frame.assign(sound=frame["status"].isin(SOUND))
    return frame.sort_values(["sound", "asset", "profile_id"], kind="stable")


def each_end(report: Report) -> pd.DataFrame:
    """``asset``, ``way``, ``name``, ``amount`` of every source and recipient of ``links``."""
    into = report.links["stage"] == 1
    outer = report.links.assign(
        way=into.map({True: "from", False: "to"}),
        name=report.links["source"].where(into, report.links["target"]),
    )
    sums = outer.groupby(["asset", "way", "name"], as_index=False)["amount"].sum()
    return pd.DataFrame(sums).sort_values(
        ["asset", "way", "amount"], ascending=[True, True, False], kind="stable"
    )


def charged(report: Report) -> pd.DataFrame:
    frame = report.fees[report.fees["fee"].astype("float64") != 0]
    return frame.sort_values(["asset", "type"], kind="stable")


def ageing(made: Material) -> pd.DataFrame:
    """The older brackets come first."""
    frame = frame_of(flows.ageing(made.pending, made.open_at))
    return frame.sort_values("oldest", kind="stable", ignore_index=True)


def dollars(report: Report) -> str:
    """What all of it is worth, and how much of it that is."""
    found = report.exposure["closing_value"].dropna()
    return (
        f"Closing balances in USD: {worth(found.sum() if len(found) else None).text} for "
        f"{len(found):,} of {len(report.exposure):,}; by prices, so not part of the proof"
    )


def all_assets(report: Report) -> pd.DataFrame:
    """The latest month first."""
    sums = report.worth.groupby("period").sum(numeric_only=False).drop(columns="asset")
    return sums.sort_index(ascending=False).reset_index()


def last_days(made: Material) -> pd.DataFrame:
    span = Span(made.span.end - CALENDAR_DAYS * DAY, made.span.end)
    return figures.flows_of_all(span.of(made.outer, PLACED), "D", made.tz, made.basis)


SECTIONS: Final = (
    Section(
        "by_profile",
        lambda made: figures.by_profile(made.balances, made.busy),
        caption=lambda report: (
            "Closing balances" + ", and what the period changed" * (report.first is not None)
        ),
        columns=lambda c: [
            c.asset,
            ("#All", money, "closing"),
            *[("#Before", money, "opening"), ("#Change", money, "change")]
            * (c.report.first is not None),  # in sight, however many profiles and digits there are
            *[(f"#{c.report.labels.get(one, one.capitalize())}", money, one)
              for one in c.report.by_profile.columns[1:-3]],
        ],
        empty="No balances.",
    ),
    Section(
        "balances", lambda made: made.balances, "Balances",
        caption="Balances by asset and profile",
        columns=lambda c: [
            c.asset, c.profile, ("#Opening", money, "opening"),
            *[("#Restated", money, "restated")] * ("restated" in c.report.balances),
            ("#In", money, "inflow"), ("#Out", money, "outflow"), ("#Closing", money, "closing"),
            ("#Held by pending", money, "held"), ("#Available", money, "available"),
        ],
        totals=("opening", "restated", "inflow", "outflow", "closing", "held", "available"),
        empty="No balances.",
    ),
    Section(
        "reconciliation", lambda made: made.judgement.table, "Reconciliation",
        "of everything known, not only of the period",
        caption="Rebuilt and reported balances",
        columns=lambda c: [
            c.asset, c.profile, ("#Rebuilt", money, "rebuilt"), ("#Reported", money, "reported"),
            c.difference, ("Verdict", STATUSES.__getitem__, "status"),
            *[c.since] * (len(c.report.breaks) > 0),
        ],
        rows=breaks_first,
        totals=("rebuilt", "reported", "difference"),
        empty="Nothing to compare.",
    ),
    Section(
        "causes",
        lambda made: figures.causes(
            made.rows, made.reported, made.opening, made.judgement.broken
        ),
        "Causes", "what could make each difference, likeliest first",
        caption="What could make the differences, likeliest first",
        columns=lambda c: [
            c.asset, c.profile, c.difference, ("#Rank", number, "rank"),
            ("Cause", words, "cause"), c.amount, ("Detail", text, "detail"),
            ("Transfer", identifier, "transfer_id"),
        ],
        empty="No cause was found.",
    ),
    Section(
        "course",
        lambda made: figures.course(made.drawn, made.span, made.opened, made.tz, made.basis),
        "Balance course",
        "the busiest profiles by name, the others as one; fl.balances.daily has every one",
        only_data=True,
    ),
    Section(
        "assertions", lambda made: made.judgement.observations, "Observed balances", only_data=True
    ),
    Section("roll_forward", lambda made: made.roll_forward, "Roll-forward"),
    Section(
        "restatements", lambda made: figures.restatements(made.moved), "Restatements",
        "of closed periods: what leads to what is known now",
        caption="Closed periods that have moved, transfer by transfer",
        columns=lambda c: [
            ("Period", text, "period"), ("Basis", text, "basis"), c.asset, c.profile,
            ("Line", words, "line"), c.type, ("#Closed", money, "then"), ("#Now", money, "now"),
            c.difference, ("Why", cause, "cause"), ("Transfer", identifier, "transfer_id"),
        ],
    ),
    Section(
        "movements", lambda made: figures.movements(made.inside, made.balances), "Movements",
        only_data=True,
    ),
    Section(
        "transfers", lambda made: figures.transfers_by_type(made.inside), "Transfer counts",
        "by type, asset and status",
        caption="Transfers by asset, type and status; amounts before fees",
        columns=lambda c: [
            c.asset, c.type, ("Status", transfer_status, "status"), c.transfers, c.amount
        ],
        totals=("count", "amount"),
        empty="No transfers.",
    ),
    Section(
        "flows",
        lambda made: figures.flows_of_all(made.outer, made.freq, made.tz, made.basis),
        "Flows", "transfers between own profiles left out",
        caption="Inflow and outflow, all profiles",
        columns=lambda c: [
            c.period, c.asset, ("#Inflow", money, "inflow"), ("#Outflow", money, "outflow"),
            ("#Net", money, "net"),
        ],
        rows=lambda report: report.flows.sort_values(
            ["period", "asset"], ascending=[False, True], kind="stable"
        ),
        totals=("inflow", "outflow", "net"),
    ),
    Section(
        "exposure",
        lambda made: figures.exposure(made.balances, made.until, made.span, made.max_age),
        "Worth in USD",
        lambda report: "not part of the proof: by the newest price not older than "
        + length_text(checked_age(report.max_age)),
        caption=dollars,
        columns=lambda c: [
            c.asset, c.profile, ("#Closing", money, "closing"),
            ("#Price", price, "price"), ("From", text, "price_from"),
            ("#Age", known_age, "price_age"), ("#In USD", worth, "closing_value"),
        ],
        totals=("closing_value",),
        empty="No balance is left.",
        part="balances",
    ),
    Section(
        "flux",
        lambda made: figures.changes_against(
            made.before, made.outer, known=made.has_before
        ),
        "Flux", "against the period before; transfers between own profiles left out",
        caption="What made the larger changes, at least a twentieth of what moved of an asset",
        columns=lambda c: [
            c.asset, c.type, ("Driver", driver, "driver"), ("#Before", money, "before"),
            ("#Now", money, "after"), c.difference, ("#Explained", money, "explained"),
            ("By transfers", several_ids, "transfers"),
        ],
        rows=lambda report: report.flux[report.flux["transfers"].notna()],
        empty="No change against a period before is that large.",
        part="flows",
        only_data=True,
    ),
    Section(
        "worth",
        lambda made: figures.worth_by_month(made.until, made.span, made.tz, made.max_age),
        "Months in USD", "not part of the proof; transfers between own profiles left out",
        caption="Month by month in USD, all assets; by prices, so not part of the proof",
        columns=lambda c: [
            ("Month", partial(period_start, freq="MS", tz=c.report.tz), "period"),
            c.transfers, ("#Priced", number, "priced"), ("#In", worth, "inflow_value"),
            ("#Out", worth, "outflow_value"), ("#Fees", worth, "fee_value"),
        ],
        rows=all_assets,
        empty="No transfer was completed.",
        part="flows",
        only_data=True,
    ),
    Section("daily_flows", last_days),
    Section(
        "links", lambda made: figures.links(made.inside, made.recipients, made.labels), "Links",
        caption="Where money came from and where it went, one by one, after fees",
        columns=lambda c: [
            c.asset, ("Way", text, "way"), ("Name", text, "name"), c.amount
        ],
        rows=each_end,
        only_data=True,
    ),
    Section(
        "fees", lambda made: figures.fees_against(made.inside, made.before), "Fees",
        "bps are basis points; drift is against the period before",
        caption="Fees by asset and type",
        columns=lambda c: [
            c.asset, c.type, c.transfers, c.amount, c.fee, ("#Basis points", points, "bps"),
            *[("#Before", points, "bps_before"), ("#Drift", signed_points, "drift")]
            * (c.report.first is not None),
        ],
        rows=charged,
        totals=("count", "amount", "fee"),
        empty="No type of transfer was charged a fee.",
    ),
    Section(
        "fees_over_time",
        lambda made: frame_of(
            fees.summary(made.inside, freq=made.freq, tz=made.tz, basis=made.basis)
        ),
        "Fees over time", only_data=True,
    ),
    Section(
        "settlement", lambda made: frame_of(flows.settlement_time(made.inside)), "Settlement",
        "from the creation of a transfer to its settlement",
        caption="Time to settle by type",
        columns=lambda c: [
            c.type, c.transfers, ("#Half", age, "p50"), ("#90 %", age, "p90"),
            ("#99 %", age, "p99"), ("#Slowest", age, "max"),
        ],
        only_data=True,
    ),
    Section("hours", lambda made: figures.hours(made.inside)),
    Section(
        "open_items", lambda made: figures.open_items(made.pending, made.open_at), "Open items",
        lambda report: f"pending at {report.aged_at}, with their age then",
        caption=lambda report: f"Pending at {report.aged_at}, oldest first",
        columns=lambda c: [
            c.created, ("#Age", age, "age"), c.type, c.asset, c.amount, c.total, c.profile,
            ("Transfer", identifier, "id"),
        ],
    ),
    Section(
        "ageing", ageing, "Ageing",
        lambda report: f"pending at {report.aged_at}, by age then",
        caption=lambda report: f"Pending at {report.aged_at}, by age then",
        columns=lambda c: [
            ("Age", age_bracket, "age"), c.type, c.asset, c.transfers, c.total, c.oldest
        ],
        totals=("count", "total"),
        empty="No transfer was pending then.",
    ),
    Section(
        "withdrawals",
        lambda made: figures.withdrawals(
            made.inside, made.recipients, made.made_here, made.differences, made.approved_by
        ),
        "Withdrawals", "the latest first",
        caption=lambda report: (
            "Withdrawals made on this occasion" if report.made_here else "Withdrawals, latest first"
        ),
        columns=lambda c: [
            c.created, c.type, c.asset, c.amount, c.fee, c.total,
            ("Status", transfer_status, "status"), ("To", text, "recipient"),
            ("Reference", identifier, "ref_id"), ("Transfer", short_identifier, "id"),
            *[(head, text, name) for head, name in
              (("Approved by", "approved_by"), ("Difference", "difference"))
              if c.report.withdrawals[name].notna().any()],
        ],
        limit=lambda report: MAX_ROWS if report.made_here else 25,
        empty="None.",
    ),
    Section(
        "recipients", lambda made: figures.recipient_sums(made.inside, made.recipients),
        "Recipients",
        caption="Where completed withdrawals went",
        columns=lambda c: [
            ("To", text, "recipient"), c.type, c.asset, c.transfers, c.amount, c.fee, c.last
        ],
        totals=("count", "amount", "fee"),
        limit=100,
        empty="No withdrawal was completed.",
    ),
    Section(
        "violations", lambda made: made.violations, "Row checks",
        caption="Transfers that break a rule",
        columns=lambda c: [
            c.rule, c.expected, ("Found", text, "found"), ("Transfer", identifier, "transfer_id")
        ],
        empty="Every transfer keeps the rules on totals, fees, states, times and ids.",
        part="checks",
    ),
    Section(
        "anomalies",
        lambda made: figures.anomalies(made.until, made.span, made.fiat_accounts), "Anomalies",
        caption="Transfers worth a look, latest first",
        columns=lambda c: [
            c.created, c.rule, c.expected, ("Found", finding, "found"), c.profile,
            ("Transfer", identifier, "transfer_id"),
        ],
        limit=50,
        empty="No transfer stands out: none repeated, none from a dormant profile, none to a "
        "fresh account, no unusual fee.",
        part="checks",
    ),
    Section(
        "pairs",
        lambda made: frame_of(flows.internal_pairs(made.until).filter("status <> 'paired'")),
        "Internal pairs", "halves of internal transfers that do not match",
        caption="Internal transfers whose halves do not match",
        columns=lambda c: [
            ("State", pair_state, "status"), c.asset, c.amount, ("Group", identifier, "group_id"),
            ("Debit", identifier, "debit_id"), ("Credit", identifier, "credit_id"),
        ],
        empty="The halves of every internal transfer match.",
        part="checks",
    ),
    Section(
        "events", lambda made: figures.event_counts(made.events, made.span), "Events",
        caption="Events by type",
        columns=lambda _: [("Event", text, "type"), ("#Count", number, "count")],
        limit=12,
        only_data=True,
    ),
    Section(
        "notable", lambda made: figures.notable_events(made.events, made.span), "Notable events",
        "refusals, failures and requests for papers, latest first",
        caption="Events of note, latest first",
        columns=lambda c: [
            c.created, ("Event", text, "type"), c.object, ("Id", identifier, "id")
        ],
        limit=25,
        empty="No refusal, failure or request for papers.",
    ),
)  # fmt: skip


EMPTY: Final = {section.name: section.empty for section in SECTIONS} | {
    "bank_statement": "", "bank_proof": "", "bank_items": "No item is open.",
}  # fmt: skip
"""What the page says where a table has no row."""


def page_tables(report: Report) -> dict[str, Table]:
    """Every table of the page, by its name."""
    own = {section.name: section.table(report) for section in SECTIONS if section.columns}
    return bank_tables(report.bank) | own


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
