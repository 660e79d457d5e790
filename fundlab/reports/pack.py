"""The close pack: what a closed period is signed and audited by.

Everything in it comes from the record of the close and the pin it names, so that who has the store
can have every file made again. Page, PDF, workbook and tables (``pack_files.py``) say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

from fundlab.analysis import audit, balances, flows
from fundlab.analysis.closing import BRIDGE
from fundlab.analysis.reconcile import judge
from fundlab.bank.reconciliation import Reconciliation
from fundlab.base.periods import period_before, period_bounds
from fundlab.base.values import Instant, exact_sum
from fundlab.charts import humanise
from fundlab.decimals import DecimalDtype
from fundlab.display import Cell, Table
from fundlab.evidence.closes import Close, annotations_table
from fundlab.evidence.quarantine import set_aside_rows
from fundlab.evidence.table_store import TableStore
from fundlab.evidence.vanished_rows import gone_rows
from fundlab.evidence.verdict import KEYS, Judgement, gaps
from fundlab.reports.facts import BY_WHEN
from fundlab.reports.figures import changes_against
from fundlab.reports.inputs import (
    ASSET,
    COMPLETE,
    INTERNAL,
    PLACED,
    Held,
    Relation,
    Seen,
    Span,
    count,
    frame_of,
    moment,
    placed,
)
from fundlab.reports.page_tables import (
    bank_line,
    cause,
    day,
    driver,
    explained,
    identifier,
    money,
    number,
    profile_cell,
    several_ids,
    table,
    text,
    time_cell,
    type_name,
    words,
)
from fundlab.reports.sections import bank_tables
from fundlab.settings.labels import labels
from fundlab.store.records import Record
from fundlab.store.scan import queries
from fundlab.tables import TABLES

ALL: Final = "All profiles"
TOTAL: Final = "sum of the profiles"
"""What stands behind :data:`ALL`; page and paper set the rows that have it in bold."""
_SIDES: Final = {
    "opening": "opening", "receipt": "receipts", "disbursement": "disbursements",
    "conversion": "conversions", "internal": "internal", "fee": "fees",
    "unexplained": "unexplained", "closing": "closing",
}  # fmt: skip
_AGES: Final = ((1, "0–1 days"), (5, "2–5 days"), (30, "6–30 days"), (60, "31–60 days"),
                (90, "61–90 days"), (10**6, "over 90 days"))  # fmt: skip
_DAY: Final = pd.Timedelta(days=1)
_NONE: Final = "none"
_NOT_KNOWN: Final = "not known, no balance was compared"


@dataclass(frozen=True)
class Pack:
    """The tables of a close by the names of their files, and the facts beside them."""

    close: Close
    facts: Mapping[str, str]
    verdict: str
    unexplained: str
    proved: bool
    exceptions: tuple[str, ...]
    frames: Mapping[str, pd.DataFrame]
    bank: Reconciliation | None = None
    sample: audit.Sample | None = None
    has_before: bool = True
    """Whether the store has the period before, to compare with."""

    @property
    def labels(self) -> dict[str, str]:
        """How each profile is shown."""
        ids = [one for frame in self.frames.values() if "profile_id" in frame
               for one in frame["profile_id"]]  # fmt: skip
        return labels(ids, self.close.names)

    @property
    def title(self) -> str:
        return f"Close of {self.close.period}"

    @property
    def subtitle(self) -> str:
        known_at, by = self.facts["Known at"][:19], self.facts["Prepared by"]
        return f"{self.facts['Basis']} · known at {known_at}Z · prepared by {by}"

    @property
    def headline(self) -> str:
        bank = "" if self.bank is None else f". Bank: {self.bank.verdict.rstrip('.')}"
        return f"Unexplained difference: {self.unexplained}{bank}"

    @property
    def tone(self) -> Literal["good", "bad", "warn"]:
        """Good is only what is proved, and closed in spite of nothing."""
        bank = self.bank is None or self.bank.ok
        if self.proved and bank:
            return "good"
        return "warn" if bank and self.unexplained in (_NONE, _NOT_KNOWN) else "bad"


@queries
def read_pack(
    store: TableStore,
    close: Close,
    records: list[Record],
    bank: Reconciliation | None = None,
    sample: Mapping[str, Any] | None = None,
) -> Pack:
    """The pack of ``close`` from its pin; ``records`` are those known when it was written, ``bank``
    is the bank's side of the period at the same pin, ``sample`` how an audit sample is drawn
    (``fl.audit.sample``)."""
    content, pin = close.content, close.pin
    seen: Seen = close.seen or Seen(judge(store, pin=pin), Held(store, close.basis, pin=pin))
    judgement = seen.judgement
    lines = close.lines
    places = lines["line"].map(_SIDES)
    sides = pd.DataFrame(
        {name: lines["amount"].where(places == name, Decimal(0)) for name in _SIDES.values()}
    ).astype(DecimalDtype())
    keyed = pd.concat([lines[KEYS], sides], axis=1)
    sums = keyed.groupby(["asset", "profile_id"], as_index=False)[list(sides)].sum()
    roll = with_totals(pd.DataFrame(sums))
    notes = annotations_table(records)
    decided = notes[notes["decision"].notna()].reset_index(drop=True)
    restated, accepted = content["restates"], content["accepted"]
    bridge = pd.DataFrame([] if restated is None else restated["bridge"], columns=[*BRIDGE])
    for name in ("then", "now", "difference"):
        bridge[name] = exact_column(map(Decimal, bridge[name]))
    tz = close.tz
    with seen.rows.asked() as transfers:
        items = open_items(close, records, frame_of(flows.settlement_time(transfers)))
        totals = frame_of(Span(None, close.end).of(transfers).filter(COMPLETE).aggregate(
            f"{ASSET} AS asset, count(*) AS count, sum(amount) AS amount, sum(fee) AS fee, "
            "sum(total) AS total", ASSET,
        ).order("asset"))  # fmt: skip
        reconciled = reconciliation(roll, judgement, transfers, close)
        spans = [
            Span(*period_bounds(period, tz))
            for period in (close.period, period_before(close.period, tz))
        ]
        now, then = (span.of(placed(transfers, close.basis), PLACED) for span in spans)
        has_before = not judgement.lacks_moves(spans[1].first or 0, close.basis)
        flux = changes_against(then, now.filter(f"NOT {INTERNAL}"), known=has_before)
        sizes = {"transfers": count(transfers)}
    seen.rows.forget()  # Typst takes as much again
    sizes |= {name: store.current(name, pin=pin).count for name in TABLES if name not in sizes}
    data = [(name, close.limit(name), sizes[name]) for name in TABLES]
    drawn = None
    if sample is not None:
        drawn = audit.sample(close.period, store, **sample, basis=close.basis, tz=tz, pin=pin)
    exceptions = []
    if accepted is not None:
        exceptions = [f"Closed in spite of this, because: {accepted['reason']}"]
        exceptions += accepted["problems"]
    if restated is not None:
        old = restated["hash"][:16]
        exceptions.append(f"Restates the close {old}, because: {restated['reason']}")
    exceptions += exceptions_before(records[: records.index(close.record)])
    return Pack(
        close,
        facts_of(close, store.service() or {}, sorted({*lines["profile_id"]}), records, bank),
        content["figures"]["text"],
        unexplained(judgement, lines),
        accepted is None and judgement.tone == "good",
        tuple(exceptions),
        {
            "roll-forward": roll,
            "lines": lines.sort_values(["asset", "profile_id"], kind="stable", ignore_index=True),
            "reconciliation": reconciled,
            "proof-of-cash": proof_of_cash(roll, judgement, pd.Timestamp(content["first"])),
            "flux": flux,
            "open-items": items,
            "ageing": aged(items),
            **({} if bank is None else {
                "bank-reconciliation": bank.statement,
                "bank-proof-of-cash": bank.proof,
                "bank-items": with_notes(bank.items, records),
            }),
            **({} if drawn is None else {"audit-sample": drawn.rows}),
            "restatements": bridge,
            "decisions": decided[["item_id", "decision", "comment", "by", "at"]],
            "control-totals": totals,
            "data": pd.DataFrame(data, columns=["table", "publication", "rows"]),
        },
        bank,
        drawn,
        has_before,
    )  # fmt: skip


def unexplained(judgement: Judgement, lines: pd.DataFrame) -> str:
    """By how much the balances differ from the service's, and totals from their amount and fee;
    without regard to sign."""
    if judgement.state == "nothing_to_compare":
        return _NOT_KNOWN
    rest = gaps(lines[lines["line"] == "unexplained"], "amount")
    found = [judgement.gaps, f"{rest} in totals that are not their amount and fee" if rest else ""]
    return "; ".join(filter(None, found)) or _NONE


def exceptions_before(records: list[Record]) -> list[str]:
    """What somebody had accepted by the last of ``records``, who, and why."""
    lines = []
    for gone in gone_rows(records):
        if gone.state == "accepted":
            does = "refuses to show" if gone.answer == "refused" else "does not list"
            lines.append(
                f"The service {does} {gone.id} of {gone.table} since {_second(gone.gone_at)}; "
                f"accepted by {gone.by}, because: {gone.reason}"
                + "; it counts as before"
                * gone.counts
            )
    lines += [
        f"{aside.id or aside.key} of {aside.table} could not be read ({aside.reason}) at "
        f"{_second(aside.found_at)}; accepted by {aside.by}, because: {aside.because}"
        for aside in set_aside_rows(records) if aside.state == "accepted"
    ]  # fmt: skip
    return lines + [
        f"Profile {profile} is no longer ours, since {record.at[:19]}Z; accepted by "
        f"{record.content['by']}, because: {record.content['reason']}"
        for record in records if record.kind == "accept"
        for profile in record.content.get("profiles", ())
    ]  # fmt: skip


def _second(ns: int) -> str:
    return f"{str(Instant.from_ns(ns))[:19]}Z"


def facts_of(
    close: Close,
    service: Mapping[str, str],
    profiles: list[str],
    records: list[Record],
    bank: Reconciliation | None,
) -> dict[str, str]:
    content = close.content
    first, end = (content[name][:19] for name in ("first", "end"))
    command = f"fundlab close {close.period}"
    command += "" if close.basis == "settled" else f" --basis {close.basis}"
    command += "" if close.tz == "UTC" else f" --tz {close.tz}"
    made = sorted(content["versions"].items())
    return {
        "Entity": f"{service.get('client_id', '–')} at {service.get('base_url', '–')}",
        "Profiles": ", ".join(map(close.called, profiles)) or "–",
        "Period": f"{close.period}: {first}Z to {end}Z, excluded; days in {close.tz}",
        "Basis": BY_WHEN[close.basis],
        "Known at": content["known_at"],
        "Closed at": close.record.at,
        "Prepared by": content["by"] or "–",
        "Reviewed by": "see the sign-off",
        "Note": content["note"] or "–",
        "Pin": close.pin,
        "Record": f"{close.record.number}, SHA-256 {close.hash}",
        "Records read": f"the first {len(records)}, the last of them SHA-256 {records[-1].hash}",
        "Made by": command,
        "Performed again by": "fundlab reperform DIR --store STORE",
        "Versions": ", ".join(f"{name} {found}" for name, found in made),
        **({} if bank is None else {
            f"Statement {Path(file).name}": f"SHA-256 {digest}"
            for file, digest in bank.files.items()
        }),
    }  # fmt: skip


def reconciliation(
    roll: pd.DataFrame, judgement: Judgement, transfers: Relation, close: Close
) -> pd.DataFrame:
    """From the closing to what the service reports: what settled after the period, what pending
    debits hold, and what was learned since the balance was observed; then the difference."""
    end = moment(2**62)
    booked = frame_of(balances.at(transfers, end, judgement.opening, basis=close.basis))
    held = frame_of(balances.holds(transfers))[[*KEYS, "held"]]
    known = judgement.table[[*KEYS, "rebuilt", "reported", "difference"]]
    both = roll.loc[roll["profile_id"] != ALL, [*KEYS, "closing"]]
    for other in (booked, held, known):
        both = both.merge(other, on=KEYS, how="outer")
    for name in ("closing", "balance", "held"):
        both[name] = both[name].astype(DecimalDtype()).fillna(0)
    both["moved_after"] = both["balance"] - both["closing"]
    both["held"] = -both["held"]
    both["rebuilt"] = both["rebuilt"].fillna(both["balance"] + both["held"])
    both["learned_since"] = both["rebuilt"] - both["balance"] - both["held"]
    names = ["asset", "profile_id", "closing", "moved_after", "held", "learned_since", "rebuilt",
             "reported", "difference"]  # fmt: skip
    return both.sort_values(["asset", "profile_id"], ignore_index=True)[names]


def proof_of_cash(roll: pd.DataFrame, judgement: Judgement, first: pd.Timestamp) -> pd.DataFrame:
    """Both sides of each balance. The service reports balances only: its side is ours, and what
    the last observation before the period, and the last of all, differed by."""
    seen = judgement.observations
    before = seen[seen["observed_at"] < first].groupby(KEYS)["difference"].last()
    known = judgement.table.dropna(subset=["reported"]).set_index(KEYS)["difference"]
    rows: list[tuple[Any, ...]] = []
    for row in roll[roll["profile_id"] != ALL].to_dict("records"):
        pair = row["profile_id"], row["asset"]
        moves = [max(row[name], Decimal(0)) for name in ("conversions", "internal")]
        come = exact_sum([row["receipts"], *moves])
        gone = exact_sum([row["closing"], row["opening"].copy_negate(), come.copy_negate()])
        place = row["asset"], row["profile_id"]
        rows.append((*place, "books", row["opening"], come, gone, row["closing"]))
        service = [
            exact_sum([row[name], off[pair]]) if pair in off.index else None
            for name, off in (("opening", before), ("closing", known))
        ]
        rows.append((*place, "service", service[0], None, None, service[1]))
    names = ["asset", "profile_id", "side", "opening", "receipts", "disbursements", "closing"]
    found = pd.DataFrame(rows, columns=names)
    for name in names[3:]:
        found[name] = exact_column(found[name])
    return found


def exact_column(amounts: Iterable[Any]) -> pd.Series[Any]:
    return pd.Series([None if pd.isna(one) else one for one in amounts], dtype=DecimalDtype())


def with_totals(sides: pd.DataFrame) -> pd.DataFrame:
    """The rows of each asset, and their sum below them."""
    amounts = list(sides.columns[2:])
    sums = sides.groupby("asset", as_index=False)[amounts].sum().assign(profile_id=ALL)
    both = pd.concat([sides.assign(last=0), sums.assign(last=1)], ignore_index=True)
    both = both.sort_values(["asset", "last", "profile_id"], kind="stable", ignore_index=True)
    return both[["asset", "profile_id", *amounts]]


def open_items(close: Close, records: list[Record], settled: pd.DataFrame) -> pd.DataFrame:
    """The items of the close with their age, owner, comment, and when they should clear: nine in
    ten of their type settle within that time."""
    notes = last_notes(records)
    usual = dict(zip(settled["type"], settled["p90"], strict=True))
    rows = []
    end = moment(close.end)
    for item in close.content["open_items"]:
        created, note = pd.Timestamp(item["created_at"]), notes.get(item["id"], {})
        cleared = item["cleared_at"]
        rows.append({
            "created_at": created,
            "age": next(name for days, name in _AGES if (end - created) // _DAY <= days),
            "type": item["type"], "asset": item["asset"], "profile_id": item["profile_id"],
            "total": Decimal(item["total"]),
            "cause": "pending" if cleared is None else "cleared after the period",
            "owner": note.get("owner"), "comment": note.get("comment"),
            "expected": created + usual[item["type"]] if item["type"] in usual else None,
            "cleared_at": None if cleared is None else pd.Timestamp(cleared),
            "id": item["id"],
        })  # fmt: skip
    names = ["created_at", "age", "type", "asset", "profile_id", "total", "cause", "owner",
             "comment", "expected", "cleared_at", "id"]  # fmt: skip
    frame = pd.DataFrame(rows, columns=names)
    for name in ("created_at", "expected", "cleared_at"):
        frame[name] = pd.to_datetime(frame[name], utc=True).astype("datetime64[ns, UTC]")
    for name in ("age", "type", "asset", "profile_id", "cause", "owner", "comment", "id"):
        frame[name] = frame[name].astype("string")
    return frame.assign(total=exact_column(frame["total"]))


def last_notes(records: list[Record]) -> dict[str, dict[str, str]]:
    """The last owner, comment and decision of each item."""
    notes: dict[str, dict[str, str]] = {}
    for record in records:
        if record.kind == "annotate":
            mine = notes.setdefault(record.content["item_id"], {})
            mine |= {k: v for k, v in record.content.items() if v and k != "item_id"}
    return notes


def with_notes(items: pd.DataFrame, records: list[Record]) -> pd.DataFrame:
    """Items of the bank with their owner and comment."""
    notes = last_notes(records)
    for name in ("owner", "comment"):
        said = [notes.get(item, {}).get(name) for item in items["item_id"]]
        items = items.assign(**{name: pd.array(said, "string")})
    return items


def aged(items: pd.DataFrame) -> pd.DataFrame:
    """``asset``, ``age``, ``count``, ``total`` of the open items, the youngest first."""
    order = [name for _, name in _AGES]
    sums = items.groupby(["asset", "age"]).agg(count=("id", "size"), total=("total", "sum"))
    found = sums.reset_index()
    found["place"] = found["age"].map({name: place for place, name in enumerate(order)})
    return found.sort_values(["asset", "place"], ignore_index=True).drop(columns="place")


def pack_tables(pack: Pack) -> dict[str, Table]:
    """Every table of the page, by the name of its file."""
    time = partial(time_cell, tz=pack.close.tz)
    frames = pack.frames
    moved = frames["roll-forward"]
    shown = [name for name in _SIDES.values()
             if name in ("opening", "closing") or (moved[name] != 0).any()]  # fmt: skip
    asset = ("Asset", text, "asset")
    profile = ("Profile", partial(profile_name, labels=pack.labels), "profile_id")
    every = 10**9

    def amounts(**labels: str) -> list[Any]:
        return [(f"#{label}", money, name) for name, label in labels.items()]

    beside = bank_tables(pack.bank)
    if pack.bank is not None:
        beside = {
            "bank-reconciliation": beside["bank_statement"],
            "bank-proof-of-cash": beside["bank_proof"],
            "bank-items": table(
                "Open items at the bank, oldest first",
                frames["bank-items"].assign(asset=pack.bank.asset),
                [
                    ("On", day, "on"),
                    ("#Age in days", number, "age"),
                    ("#Amount", money, "amount"),
                    ("Line", bank_line, "category"),
                    ("State", explained, "explained"),
                    ("Why", text, "why"),
                    ("Cleared", day, "cleared_on"),
                    ("Owner", text, "owner"),
                    ("Comment", text, "comment"),
                    ("Memo", text, "memo"),
                    ("Item", identifier, "item_id"),
                ],
                every,
            ),
        }
    if pack.sample is not None:
        beside["audit-sample"] = table(
            "The sample, to be filled in", frames["audit-sample"].assign(asset=pack.sample.asset),
            [("Transfer", identifier, "transfer_id"), ("At", time, "at"), profile,
             ("Type", type_name, "type"), ("Stratum", words, "stratum"),
             *amounts(book="Book"), ("#Hits", number, "hits"), *amounts(audited="Audited"),
             ("Finding", text, "finding")], every,
        )  # fmt: skip
    return beside | {
        "flux": table(
            "What made the larger changes", frames["flux"][frames["flux"]["transfers"].notna()],
            [asset, ("Type", type_name, "type"), ("Driver", driver, "driver"), *amounts(
                before="Before", after="Now", difference="Difference", explained="Explained",
            ), ("By transfers", several_ids, "transfers")], every,
        ),
        "roll-forward": table(
            "Roll-forward by asset and profile", frames["roll-forward"],
            [asset, profile, *((f"#{name.capitalize()}", money, name) for name in shown)],
            every,
        ),
        "lines": table(
            "Receipts and disbursements by type", frames["lines"],
            [asset, profile, ("Line", words, "line"), ("Type", line_type, "type"),
             ("#Amount", money, "amount")], every,
        ),
        "reconciliation": table(
            "From the closing to what the service reports", frames["reconciliation"],
            [asset, profile, *amounts(
                closing="Closing", moved_after="Settled after", held="Held by pending",
                learned_since="Learned since", rebuilt="Rebuilt", reported="Reported",
                difference="Difference",
            )], every,
        ),
        "proof-of-cash": table(
            "Proof of cash", frames["proof-of-cash"],
            [asset, profile, ("Side", words, "side"), *amounts(
                opening="Opening", receipts="Receipts", disbursements="Disbursements",
                closing="Closing",
            )], every,
        ),
        "ageing": table(
            "Open items at the period's end, by age", frames["ageing"],
            [asset, ("Age", text, "age"), ("#Items", number, "count"), ("#Total", money, "total")],
            every,
        ),
        "open-items": table(
            "Open items at the period's end, oldest first", frames["open-items"],
            [("Created", time, "created_at"), ("Age", text, "age"), ("Type", type_name, "type"),
             asset, profile, ("#Total", money, "total"), ("Cause", words, "cause"),
             ("Owner", text, "owner"), ("Comment", text, "comment"),
             ("Expected", time, "expected"), ("Cleared", time, "cleared_at"),
             ("Item", identifier, "id")], every,
        ),
        "restatements": table(
            "What was restated, transfer by transfer", frames["restatements"],
            [asset, profile, ("Line", words, "line"), ("Type", line_type, "type"),
             *amounts(then="Closed", now="Now", difference="Difference"),
             ("Why", cause, "cause"), ("Transfer", identifier, "transfer_id")], every,
        ),
        "decisions": table(
            "Decisions", frames["decisions"],
            [("At", time, "at"), ("By", text, "by"), ("Item", identifier, "item_id"),
             ("Decision", text, "decision"), ("Comment", text, "comment")], every,
        ),
        "control-totals": table(
            "Control totals: completed transfers created until the period's end",
            frames["control-totals"],
            [asset, ("#Transfers", number, "count"),
             *amounts(amount="Amount", fee="Fee", total="Total")], every,
        ),
        "data": table(
            "Tables read", frames["data"],
            [("Table", words, "table"), ("#Publication", number, "publication"),
             ("#Rows", number, "rows")], every,
        ),
    }  # fmt: skip


def profile_name(value: object, labels: Mapping[str, str]) -> Cell:
    return Cell(ALL, title=TOTAL) if value == ALL else profile_cell(value, labels)


def line_type(value: object) -> Cell:
    return Cell(humanise(str(value)) if value else "–")


@dataclass(frozen=True)
class Section:
    """A part of the pack as people read it, on the page and on paper: a text above, facts, lines
    and the tables that have rows."""

    name: str
    title: str
    lead: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def pack_sections(pack: Pack) -> list[Section]:
    """Everything the pack says below its verdict, in the order in which it is signed."""
    tables = pack_tables(pack)

    def section(
        name: str,
        title: str,
        lead: str = "",
        *shown: tuple[str, str],
        lines: Sequence[str] = (),
        facts: Sequence[str] = (),
    ) -> Section:
        """``shown`` are names of tables, and what is said where one has no rows."""
        missing = [empty for table, empty in shown if empty and not tables[table].rows]
        return Section(
            name, title, lead, {label: pack.facts[label] for label in facts},
            (*lines, *missing), tuple(tables[table] for table, _ in shown if tables[table].rows),
        )  # fmt: skip

    bank = []
    if pack.bank is not None:
        derived = "The balance per transfers follows from the bank's opening balance. "
        bank = [
            section(
                "bank", "The bank's side",
                f"{pack.bank.title[:1].upper()}{pack.bank.title[1:]}; days are UTC. "
                + derived * (pack.bank.basis == "derived") + pack.bank.verdict,
                ("bank-reconciliation", ""), ("bank-proof-of-cash", ""),
                ("bank-items", "No item is open at the bank."),
            )
        ]  # fmt: skip
    sampled = []
    if pack.sample is not None:
        shown = (tables["audit-sample"],) if tables["audit-sample"].rows else ()
        lead = "Drawn again from the pin and the seed; fill in what the audit finds."
        facts = pack.sample.facts
        sampled = [Section("sample", "Audit sample", lead, facts, tables=shown)]
    return [
        section(
            "header", "What was closed",
            facts=("Entity", "Profiles", "Period", "Basis", "Known at", "Closed at",
                   "Prepared by", "Reviewed by", "Note"),
        ),
        section(
            "roll-forward", "Roll-forward",
            "Opening, and all that moved it, add up to the closing, line by line and in all.",
            ("roll-forward", "No balance moved."), ("lines", ""),
        ),
        section(
            "reconciliation", "Reconciliation to the reported balance",
            "Timing items stand between the closing and the rebuilt balance: what settled after "
            "the period, what pending withdrawals hold, what was learned since the balance was "
            "observed. The difference is what they do not explain.",
            ("reconciliation", "Nothing to compare."),
        ),
        section(
            "cash", "Proof of cash",
            "The service reports balances, not movements; its side is brought to the period's "
            "ends by the transfers known.",
            ("proof-of-cash", "No balance moved."),
        ),
        *bank,
        section(
            "flux", "What changed",
            f"Against {period_before(pack.close.period, pack.close.tz)}, transfers between own "
            "profiles left out: what is at least a twentieth of what moved of an asset, and the "
            "transfers that make it. The file of this table has all.",
            ("flux", "No change is that large." if pack.has_before
             else "The store has not all of that period: there is nothing to compare with."),
        ),
        section(
            "open", "Open items", f"Times are in {pack.close.tz}, here and below.",
            ("ageing", "No item was open at the end of the period."), ("open-items", ""),
        ),
        *sampled,
        section(
            "restatements", "Restatements", "",
            ("restatements", "This close restates none."),
        ),
        section(
            "exceptions", "Exceptions and decisions", "",
            ("decisions", "No decision was recorded."),
            lines=pack.exceptions or ("No exception was accepted.",),
        ),
        section(
            "data", "Data used", "", ("data", ""),
            ("control-totals", "No transfer was completed."),
            facts=("Pin", "Record", "Records read", "Made by", "Performed again by", "Versions",
                   *(fact for fact in pack.facts if fact.startswith("Statement "))),
        ),
        Section("signoff", "Sign-off"),
    ]  # fmt: skip
