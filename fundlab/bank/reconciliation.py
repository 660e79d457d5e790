"""Balance per bank against balance per transfers: the bank reconciliation and the proof of cash.

What statements, transfers, decisions and the period before say goes into the four columns of
:mod:`fundlab.bank.proof_of_cash`, so that the statement foots and the proof cross-foots, or
shows by how much it does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal, cast

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.engines import TEXT, TIME, Wanted, Workbench, is_store
from fundlab.bank.decisions import decisions_of
from fundlab.bank.matching import Matching, Side, match
from fundlab.bank.model import FIAT, check_window, exact_amount, given_amount
from fundlab.bank.proof_of_cash import CATEGORIES, COLUMNS, ITEMS, Book
from fundlab.bank.search import EARLY
from fundlab.bank.statements import Statements, read
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import AnalysisError, a_type, number_of
from fundlab.base.exact import EXACT
from fundlab.base.periods import DAY, period_bounds
from fundlab.base.values import exact_sum, money_text
from fundlab.display import Card, Cell, Shown, Style, Table
from fundlab.models import COMPLETED
from fundlab.settings.secret import mask_number
from fundlab.tables.expand import bank_summary
from fundlab.tables.frames import to_frame

_STATEMENT: Final = pa.schema(
    [("line", pa.string()), ("label", pa.string()), ("items", pa.int64()), ("amount", AMOUNT_TYPE)]
)
_DAYS: Final = Wanted("transfers", {"id": TEXT, "updated_at": TIME}, {"settled_at": TIME})
_TOTALS: Final = (
    "per_bank", "adjusted_bank", "ledger", "per_service", "adjusted_service", "difference",
)  # fmt: skip
_FROM_LEDGER: Final = {
    "ledger": "Ledger of all profiles",
    "in_other_assets": "Paid in, credited in another asset",
    "service_fees": "Fees, which never left the bank",
    "beside_bank": "Moved without the bank",
    "opened": "Opening at the bank less transfers before",
    "not_from_ledger": "Not explained by the ledger",
}
"""What leads from the service's ledger to the balance of what passed through the bank."""
_MOST_SHOWN: Final = 20
_FEW: Final = 3
"""Candidates that are named where an item has several."""
_MATCHED_AGAIN: Final = ["deposits_in_transit", "outstanding_withdrawals", "undecided"]
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True)
class Declared:
    """A closing balance that the bank states ``on`` a day, and to what its entries come by then."""

    on: date
    balance: Decimal
    by_entries: Decimal


@dataclass(frozen=True, repr=False)
class Reconciliation(Shown):
    """A period of one bank account.

    ``statement``: ``line``, ``label``, ``items`` (how many), ``amount`` (decimal) at the period's
    end: ``per_bank``, the corrections of it (``deposits_in_transit``, ``outstanding_withdrawals``,
    ``netted``, ``bank_errors``, ``undecided``: what has several answers, counted once),
    ``adjusted_bank``, ``per_service`` (what passed through the bank by the transfers, which is not
    the ledger), its corrections (``unrecorded``, ``tolerated`` by a rule of the profile,
    ``service_errors``), ``adjusted_service``, ``difference``. Of a store that has every transfer,
    and the service's account, ``per_service`` follows from the ``ledger`` of all profiles:
    ``in_other_assets`` (paid in, credited in another asset), ``service_fees`` (which never left the
    bank), ``beside_bank`` (of this asset, and no transfer of a bank), ``opened`` (what the opening
    balance is more than the transfers before it).
    ``proof``: the same lines with ``opening``, ``receipts``, ``disbursements``, ``closing``; in
    each the first two less the third are the fourth.
    ``items``: what the corrections consist of: ``side``, ``item_id``, ``asset``, ``amount``, ``on``
    (the day it was booked, or settled), ``age`` (days at the period's end), ``category``,
    ``cleared_on`` (the day of its counterpart, where that came later), ``explained``, ``why``,
    ``memo`` (of the bank); oldest first. Given to the next period as ``carried`` they keep their
    days.
    ``matching`` is what ``fl.bank.match`` gave. ``difference`` is that of the closing balances.
    ``basis`` says where the balance per transfers is from: ``given``; ``derived`` from the bank's
    opening balance and what was then open; or ``unknown``, with the balances and differences that
    follow from it missing, where the statements begin on a day (``begins``) before which transfers
    of the period may have been booked. ``declared`` is the last closing balance that the bank
    states within the period, with its day, where its entries do not come to it: it lists a part of
    them, or was read with ``strict=False``. ``files`` are the statements with the SHA-256 of each,
    ``options`` what was asked for otherwise than by default, as the command line takes it.
    """

    account: str | None
    asset: str
    first: date
    last: date
    begins: date
    basis: Literal["given", "derived", "unknown"]
    statement: pd.DataFrame
    proof: pd.DataFrame
    items: pd.DataFrame
    matching: Matching
    files: Mapping[str, str]
    options: Mapping[str, str]
    declared: Declared | None = None

    @property
    def difference(self) -> Decimal | None:
        (amount,) = self.proof.loc[self.proof["line"] == "difference", "closing"]
        return None if pd.isna(amount) else Decimal(amount)

    @property
    def unexplained(self) -> pd.DataFrame:
        """The items that neither time nor a decision explains."""
        return self.items[~self.items["explained"].astype(bool)]

    @property
    def ok(self) -> bool:
        """Whether all is explained, and nothing differs in any column."""
        return not self._complaints

    @property
    def verdict(self) -> str:
        """``All explained.``, or what is not, in one line."""
        words = "; ".join(self._complaints) or "all explained"
        return f"{words[0].upper()}{words[1:]}."

    @property
    def _complaints(self) -> list[str]:
        complaints = []
        if len(self.unexplained):
            complaints.append(f"{number_of(len(self.unexplained), 'item')} unexplained")
        (apart,) = _records(self.proof[self.proof["line"] == "difference"])
        if self.basis == "unknown":
            complaints.append(
                f"the balance per transfers is not known, as the statements begin on {self.begins} "
                f"and transfers settled before it may have been booked: give statements from "
                f"{self.first} on, or the balance"
            )
        elif apart["closing"]:
            complaints.append(f"the adjusted balances differ by {money_text(apart['closing'])}")
        elif any(apart[name] for name in COLUMNS):
            complaints.append("the columns of the proof of cash differ")
        if self.declared is not None:
            complaints.append(
                f"the bank declares {money_text(self.declared.balance)} on {self.declared.on}, the "
                f"entries that it lists come to {money_text(self.declared.by_entries)}"
            )
        return complaints

    @property
    def title(self) -> str:
        account = f"account {mask_number(self.account)}, " if self.account else ""
        return f"{account}{self.asset}, {self.first} to {self.last}"

    def to_json(self) -> dict[str, Any]:
        def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
            return [
                {
                    name: None if pd.isna(value) else str(value)
                    if isinstance(value, Decimal | date) else value
                    for name, value in row.items()
                }
                for row in _records(frame)
            ]  # fmt: skip

        return {
            "account": self.account, "asset": self.asset, "first": str(self.first),
            "last": str(self.last), "begins": str(self.begins), "basis": self.basis,
            "ok": self.ok, "verdict": self.verdict,
            "declared": None if self.declared is None else {
                name: str(value) for name, value in vars(self.declared).items()},
            "difference": None if self.difference is None else str(self.difference),
            "unexplained": len(self.unexplained), "matched": len(self.matching.groups),
            "statement": rows(self.statement), "proof": rows(self.proof),
            "items": rows(self.items), "files": dict(self.files),
            "options": dict(self.options),
        }  # fmt: skip

    @property
    def text(self) -> str:
        return repr(self.card())

    def card(self) -> Card:
        """The statement, what is unexplained and how to accept it."""
        lines = [
            (Cell("  " * (line["line"] not in _TOTALS) + line["label"]
                  + ("" if pd.isna(line["items"]) else f" ({line['items']:,})")),
             Cell("unknown" if pd.isna(line["amount"]) else money_text(line["amount"])))
            for line in _records(self.statement)
            if line["line"] in _TOTALS
            or line["items" if line["line"] in CATEGORIES else "amount"]
        ]  # fmt: skip
        tables = [Table((("", "long"), (self.asset, "number")), tuple(lines))]
        left = [
            (Cell(row["item_id"]), Cell(str(_day(row["on"]))), Cell(money_text(row["amount"])),
             Cell(str(row["age"])), Cell(f"{CATEGORIES[row['category']].lower()}: {row['why']}"))
            for row in _records(self.unexplained.head(_MOST_SHOWN))
        ]  # fmt: skip
        if left:
            hidden = len(self.unexplained) - len(left)
            columns: tuple[tuple[str, Style], ...] = (
                ("unexplained", "text"), ("on", "text"), ("amount", "number"), ("days", "number"),
                ("what", "long"))  # fmt: skip
            more = f"and {hidden} more" if hidden else ""
            tables.append(Table(columns, tuple(left), note=more, hidden=hidden))
        notes = [f"{number_of(len(self.matching.groups), 'group')} matched"]
        notes.append(
            "the balance per transfers is of those that pass through the bank"
            + ", from the bank's opening balance on" * (self.basis == "derived")
        )
        if left:
            notes.append(
                "to accept: fl.bank.accept(store, ID, …, by=, reason=) or "
                "fundlab bank accept ID … --by WHO --reason WHY"
            )
        return Card(
            f"Bank reconciliation, {self.title}", tables=tuple(tables), notes=tuple(notes),
            headline=self.verdict, tone="good" if self.ok else "bad",
        )  # fmt: skip


def reconcile(
    transfers: object,
    bank: Statements,
    period: str | None = None,
    *,
    side: Side = "service",
    account: str | None = None,
    asset: str = "USD",
    window: int = 3,
    balance: str | int | Decimal | None = None,
    carried: pd.DataFrame | str | Path | None = None,
    decisions: pd.DataFrame | None = None,
    fees: Iterable[str | int | Decimal] = (),
    as_of: str | datetime | None = None,
    pin: str | None = None,
) -> Reconciliation:
    """Transfers (a frame, or a store, whose settlements and counterparties it then knows) against
    the statements that ``fl.bank.read`` gave, for ``period`` (by default all their days): see
    :class:`Reconciliation`. Days are UTC; a transfer belongs to the day it settled.

    ``account`` chooses one of several. ``balance`` is that per transfers at the end,
    where you know it; without it the books begin with the bank's opening balance and what was then
    open. ``carried`` are the ``items`` of the period before, or the path of what ``fundlab bank
    --json`` printed of it: what is older than the period and the first statement counts only if it
    is among them, or if it settled after their period and the bank books it now; without
    ``carried``, if the bank books it now. ``decisions`` are what :func:`accept` recorded, by
    default all of the store; for transfers of a frame give ``store.annotations()``. ``as_of`` or
    ``pin`` is up to when the transfers of a store are known. The other arguments are those of
    ``fl.bank.match``.

    A transfer in transit is explained for ``window`` days, or where the bank booked it later, and
    so is what the bank says it kept back; what else is open, of another amount or booked twice is
    not, until somebody decides. Raises :class:`AnalysisError` where the statements declare no
    balance, or none is of the period.

    >>> statement = folder / "october.csv"
    >>> lines = {"date": ["2026-10-01", "2026-10-03"], "amount": ["1000.00", "-12.00"],
    ...          "balance": ["1500.00", "1488.00"]}
    >>> pd.DataFrame(lines).to_csv(statement, index=False)
    >>> found = fl.bank.reconcile(transfers, fl.bank.read(statement), "2026-10")
    >>> found.statement[["line", "amount"]]
                           line  amount
    0                  per_bank    1488
    1       deposits_in_transit       0
    2   outstanding_withdrawals    -200
    3                    netted       0
    4               bank_errors       0
    5                 undecided       0
    6             adjusted_bank    1288
    7               per_service    1300
    8                unrecorded     -12
    9                 tolerated       0
    10           service_errors       0
    11         adjusted_service    1288
    12               difference       0
    >>> found.ok, found.unexplained["age"].tolist()
    (False, [29, 28])
    """
    if not isinstance(bank, Statements):
        raise AnalysisError(f"bank: give what fl.bank.read gave, not {a_type(bank)}")
    check_window(window)
    usual = {"side": "service", "account": None, "asset": "USD", "window": 3, "balance": None}
    asked = {"side": side, "account": account, "asset": asset, "window": window, "balance": balance}
    options = {**bank.options}
    options |= {name: str(value) for name, value in asked.items() if value != usual[name]}
    fees = [*fees]
    if fees:
        options["fees"] = ",".join(map(str, fees))
    pages = _pages_of(bank, account, asset)
    account = pages["account"].iloc[0]
    account = None if pd.isna(account) else account
    if isinstance(carried, str | Path):
        options["carried"] = str(carried)
        carried = _items_in(Path(carried), account, asset)
    entries = bank.entries[bank.entries["statement"].isin(pages["statement"])]
    begin = min(_known([*pages["opening_on"], *entries["booked_on"]]), default=None)
    if begin is None:
        raise AnalysisError("the statements have neither entries nor days")
    if period is None:
        first, last = begin, max(_known([*pages["closing_on"], *entries["booked_on"]]))
    else:
        start, end = period_bounds(period)
        first, last = (_EPOCH + timedelta(days=moment // DAY) for moment in (start, end - 1))
        ending = max(_known([*pages["closing_on"], *entries["booked_on"]]), default=begin)
        if last < begin or first > ending:
            raise AnalysisError(
                f"period={period!r} is not in the statements, which are of {begin} to {ending}: "
                "give its own, or another period"
            )
    rows, every = transfers, None
    if is_store(transfers):
        every = _with_counterparties(transfers, as_of, pin)
        rows = every[every["type"].isin(FIAT)]
        if decisions is None:
            decisions = cast("Any", transfers).annotations()
    elif as_of is not None or pin is not None:
        raise AnalysisError("as_of and pin are of a store; give one, or the transfers known then")
    settled = _settled_days(rows)
    since = begin - timedelta(days=window + EARLY)
    booked_here = _known(entries["booked_on"])
    entries, old, kept = _with_carried(entries, carried, asset)
    if carried is not None:
        # What settled up to the end of the period before and is not carried had its entry then:
        # taken again, by one booked twice, it would restate what was closed.
        ends = (_day(on) + timedelta(days=int(age))
                for on, age in zip(carried["on"], carried["age"], strict=True))  # fmt: skip
        closed = max(ends, default=first - timedelta(days=1))
        if all(day > closed for day in booked_here):
            since = max(since, closed + timedelta(days=1))
    decided = decisions_of(decisions, {*entries["entry_id"]}, settled.keys())
    paired = {transfer for _, transfer in decided.together}
    # Of what settled before the statements and the period begin, only that is known to be open
    # which was carried.
    matching = match(
        _between(
            rows, asset, settled, min(since, first), old["service"] | paired,
            {row["item_id"] for row in kept},
        ),
        entries, side=side, window=window, asset=asset, fees=fees, decisions=decisions,
        rules=bank.rules,
    )  # fmt: skip
    booked = dict(zip(entries["entry_id"], entries["booked_on"].map(_day), strict=True))
    known = None if balance is None else given_amount("balance", balance)
    book = Book(first, last, decided.of_item)
    memos = dict(zip(entries["entry_id"], entries.get("memo", [None] * len(entries)), strict=True))
    twice = _doubled(matching, entries)
    on = booked | settled
    unsure = False  # whether what is open may have been booked before the statements begin
    flows: dict[int, dict[str, list[tuple[str, date, Decimal]]]] = {}
    for row in _records(matching.members):
        of_group = flows.setdefault(row["group"], {"bank": [], "service": []})
        of_group[row["side"]].append((row["item_id"], on[row["item_id"]], row["amount"]))
    answers = _answers(matching.candidates)
    undecided: list[tuple[str, str, date, Decimal, str]] = []
    for row in _records(matching.open):
        name, amount, why = row["item_id"], row["amount"], row["why"]
        if pd.isna(name):
            # Of a block any of that amount stands for it, in this period and in the next: one of
            # before that is not known to be open, else the last.
            alike = [one for one in flows[row["group"]][row["side"]] if one[2] == amount]
            before = [one for one in alike if row["side"] == "service" and one[0] not in
                      old["service"] and one[1] < min(begin, first)]  # fmt: skip
            stands_for = before[0] if before else max(alike, key=lambda one: one[1])
            flows[row["group"]][row["side"]].remove(stands_for)
            name = stands_for[0]
        elif name in answers:
            others = answers[name]
            more = f" and {len(others) - _FEW} more" if len(others) > _FEW else ""
            why = f"{why}: {', '.join(others[:_FEW])}{more}"
        day = on[name]
        known_open = name in old["service"]
        if row["side"] == "service" and day < min(begin, first) and not known_open:
            continue
        if row["undecided"] and name not in decided.of_item:
            undecided.append((row["side"], name, day, amount, why))
        elif row["side"] == "bank":
            told_why = "booked twice" if name in twice else why
            book.take_entry(name, day, amount, told_why, twice=name in twice)
        else:
            fits = why == "no counterpart" or not pd.isna(row["group"])
            book.take_transfer(name, day, amount, why, window, decided=fits)
        unsure = unsure or (row["side"] == "service" and first <= day < begin and not known_open)
    book.take_undecided(undecided)
    for row in _records(matching.groups):
        book.take_group(
            flows[row["group"]], row["charges"], Decimal(0) if row["block"] else row["difference"],
            row["detail"], tolerated=row["how"] == "tolerance",
        )  # fmt: skip
    for row in kept:
        book.take_carried(row)
    # What the bank has: from its first opening balance on, by all that it booked.
    known_openings = pages[pages["opening"].notna()]
    if known_openings.empty:
        raise AnalysisError(
            "the statements declare no opening balance; give opening= or --opening, the balance "
            "before the first"
        )
    first_page = known_openings.iloc[0]
    own = entries[~entries["entry_id"].isin(old["bank"])]
    own = own[own["statement"] >= first_page["statement"]]
    per_bank = book.columns(zip(own["booked_on"].map(_day), own["amount"], strict=True))
    for name in ("opening", "closing"):
        per_bank[name] = EXACT.add(per_bank[name], Decimal(first_page["opening"]))
    declared = _declared_otherwise(pages, own, Decimal(first_page["opening"]), last)
    basis: Literal["given", "derived", "unknown"] = "given"
    if known is None:
        basis = "unknown" if unsure else "derived"
    proof = book.proof(per_bank, known, is_known=basis != "unknown")
    items = book.items(asset, memos)
    counts: Sequence[str] = items["category"].tolist()
    lines = [
        {"line": line, "label": label, "amount": None if pd.isna(amount) else amount,
         "items": counts.count(line) if line in CATEGORIES else None}
        for line, label, amount in zip(
            proof["line"], proof["label"], proof["closing"], strict=True)
    ]  # fmt: skip
    if every is not None and every.attrs["since"] is None and side == "service":
        (place,) = (n for n, line in enumerate(lines) if line["line"] == "per_service")
        lines[place:place] = _from_ledger(every, asset, last, lines[place]["amount"], basis)
    return Reconciliation(
        account, asset, first, last, begin, basis,
        to_frame(pa.Table.from_pylist(lines, schema=_STATEMENT)), proof, items, matching,
        dict(zip(pages["file"], pages["sha256"], strict=True)), options, declared,
    )  # fmt: skip


def reconcile_files(
    store: object, files: Iterable[str | Path], period: str | None, options: Mapping[str, Any],
    **known: Any,
) -> Reconciliation:  # fmt: skip
    """What :func:`fundlab.bank.read` and :func:`reconcile` give together; ``options`` are those of
    both that a user gives, ``known`` what is known of the store then."""
    of_files = ("format", "opening", "profile")
    reading = {name: value for name, value in options.items() if name in of_files}
    rest = {name: value for name, value in options.items() if name not in of_files}
    statements = read(*files, asset=options.get("asset", "USD"), **reading)
    return reconcile(store, statements, period, **rest, **known)


# -------------------------------------------------------------------------------- what comes in


def _pages_of(bank: Statements, account: str | None, asset: str) -> pd.DataFrame:
    pages = bank.statements[bank.statements["kind"] == "statement"]
    if account is not None:
        pages = pages[pages["account"] == account]
    pages = pages[pages["asset"].isna() | (pages["asset"] == asset)]
    accounts = pages["account"].drop_duplicates().tolist()
    if not accounts:
        named = "" if account is None else f" of account {account}"
        raise AnalysisError(f"there is no statement{named} in {asset} with balances; camt.053, "
                            "MT940, OFX, BAI2 and CSV have them")  # fmt: skip
    if len(accounts) > 1:
        raise AnalysisError(f"the statements are of {len(accounts)} accounts; give account= one of "
                            f"{', '.join(map(str, accounts))}")  # fmt: skip
    return pages


def _declared_otherwise(
    pages: pd.DataFrame, entries: pd.DataFrame, opening: Decimal, last: date
) -> Declared | None:
    """The last closing balance of ``pages`` up to the day ``last``, where ``opening`` and
    ``entries`` up to its day come to another one."""
    closed = pages[pages["closing"].notna() & pages["closing_on"].notna()]
    closed = closed[closed["closing_on"].map(_day) <= last]
    if closed.empty:
        return None
    page = closed.loc[closed["closing_on"].map(_day).sort_values(kind="stable").index[-1]]
    on, balance = _day(page["closing_on"]), Decimal(page["closing"])
    until = entries[
        (entries["booked_on"].map(_day) <= on) & (entries["statement"] <= page["statement"])
    ]
    found = exact_sum([opening, *map(Decimal, until["amount"])])
    return None if found == balance else Declared(on, balance, found)


def _with_carried(
    entries: pd.DataFrame, carried: pd.DataFrame | None, asset: str
) -> tuple[pd.DataFrame, dict[str, set[str]], list[dict[str, Any]]]:
    """The entries with those that were open before and are in no file now; the ids of what was
    open; and what is no payment, which is not matched again."""
    old: dict[str, set[str]] = {"bank": set(), "service": set()}
    if carried is None or carried.empty:
        return entries, old, []
    missing = {*ITEMS.names} - {"memo"} - {*carried.columns}
    if missing:
        raise AnalysisError(f"carried has no column {', '.join(sorted(missing))}; give the items "
                            "of the reconciliation before")  # fmt: skip
    others = {*carried.loc[carried["side"] == "bank", "asset"].dropna()} - {asset}
    if others:
        raise AnalysisError(f"carried has items in {', '.join(sorted(others))}, and {asset} is "
                            "reconciled; give the items of the same account before")  # fmt: skip
    carried = carried[~carried["item_id"].isin(entries["entry_id"])]
    moving = carried["category"].isin(_MATCHED_AGAIN)
    # What the bank kept back, and errors, are no payment that another one could answer.
    for_good = ~moving & (carried["category"].ne("unrecorded") | carried["explained"].astype(bool))
    again = carried[~for_good]
    for name in old:
        old[name] = {*again.loc[again["side"] == name, "item_id"]}
    again = again[again["side"] == "bank"]
    if len(again):
        # One that was booked before its transfer settled stands there with the sign it corrects.
        early = again["category"].isin(_MATCHED_AGAIN)
        amounts = again["amount"].where(~early, -again["amount"])
        more = pd.DataFrame(
            {"entry_id": again["item_id"], "amount": amounts, "booked_on": again["on"],
             "memo": again.get("memo"), "asset": asset}
        )  # fmt: skip
        entries = pd.concat([entries, more])
    return entries, old, _records(carried[for_good])


def _settled_days(transfers: object) -> dict[str, date]:
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, _DAYS)
        at = nw.coalesce(nw.col("settled_at"), nw.col("updated_at"))
        rows = bench.collect(taken.select("id", at=at))
    return {
        name: _EPOCH + timedelta(days=moment // DAY)
        for name, moment in zip(*(rows.column(n).to_pylist() for n in ("id", "at")), strict=True)
        if moment is not None
    }


def _between(
    transfers: object, asset: str, settled: Mapping[str, date], since: date, old: set[str],
    done: set[str],
) -> Any:  # fmt: skip
    """The transfers of ``asset`` from ``since`` on, and those that were open before, without
    ``done``."""
    missing = sorted(old - settled.keys())
    if missing:
        raise AnalysisError(f"carried: transfer {missing[0]} is not among the transfers")
    wanted = [
        name for name, day in settled.items() if (day >= since or name in old) and name not in done
    ]
    frame: Any = nw.from_native(transfers)
    # An empty list has no type that Arrow could compare with.
    own = (nw.col("asset") == asset) | nw.col("id").is_in(sorted(old) or [""])
    return frame.filter(nw.col("id").is_in(wanted or [""]) & own).to_native()


def _items_in(path: Path, account: str | None, asset: str) -> pd.DataFrame:
    """The items of a reconciliation that was written as JSON. Raises ``AnalysisError`` where it is
    of another account or asset."""
    try:
        whole = json.loads(path.read_bytes())
        rows, of = whole["items"], (whole.get("account"), whole.get("asset"))
        for row in rows:
            row["amount"] = exact_amount(row["amount"])
            for name in ("on", "cleared_on"):
                row[name] = None if row[name] is None else date.fromisoformat(row[name])
        found = to_frame(pa.Table.from_pylist(rows, schema=ITEMS))
    except OSError as error:
        raise AnalysisError(f"carried={str(path)!r}: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException) as error:
        raise AnalysisError(f"carried={str(path)!r} is not what 'fundlab bank --json' prints; give "
                            "that of the period before") from error  # fmt: skip
    for name, theirs, ours in zip(("account", "asset"), of, (account, asset), strict=True):
        if None not in (theirs, ours) and theirs != ours:
            shown = (mask_number(str(one)) if name == "account" else one for one in (theirs, ours))
            raise AnalysisError(f"carried={str(path)!r} is of {name} {next(shown)}, not of "
                                f"{next(shown)}; give that of the period before")  # fmt: skip
    return found


def _with_counterparties(store: Any, as_of: str | datetime | None, pin: str | None) -> pd.DataFrame:
    """The transfers of a store, with the name of the account each withdrawal goes to."""
    rows: pd.DataFrame = store.read("transfers", as_of, pin=pin, settled=True)
    accounts = store.read("fiat_accounts", as_of, ["id", "fiat_account_owner"], pin=pin)
    names = {
        name: bank_summary(owner, None).owner or None
        for name, owner in zip(accounts["id"], accounts["fiat_account_owner"], strict=True)
    }
    return rows.assign(counterparty=rows["fiat_account_id"].map(names).astype("string"))


def _from_ledger(
    transfers: pd.DataFrame, asset: str, last: date, per_service: Decimal | None, basis: str
) -> list[dict[str, Any]]:
    """The lines from the ledger at the close of ``last`` to ``per_service``; none where a row lacks
    what the ledger counts."""
    done = transfers[
        transfers["status"].isin(COMPLETED)
        & (transfers["settled_at"] < pd.Timestamp(last + timedelta(days=1), tz="UTC"))
    ]
    counted = done[["total", "amount"]].notna().all(axis=1)
    if not (counted & done["direction"].isin(["CREDIT", "DEBIT"])).all():
        return []
    credit = done["direction"] == "CREDIT"
    total, amount = (done[name].where(credit, -done[name]) for name in ("total", "amount"))
    own = done["balance_asset"].fillna(done["asset"]) == asset
    at_bank = done["type"].isin(FIAT) & (done["asset"] == asset)
    found = {
        "ledger": exact_sum(total[own]),
        "in_other_assets": exact_sum(amount[at_bank & ~own]),
        "service_fees": exact_sum((amount - total)[at_bank & own]),
        "beside_bank": exact_sum(-total[own & ~at_bank]),
    }
    if per_service is not None:
        rest = "opened" if basis == "derived" else "not_from_ledger"
        found[rest] = EXACT.subtract(per_service, exact_sum(found.values()))
    return [
        {"line": line, "label": _FROM_LEDGER[line], "amount": amount, "items": None}
        for line, amount in found.items()
    ]


def _answers(candidates: pd.DataFrame) -> dict[str, list[str]]:
    """Of each item of a question those of the other side that it may belong to."""
    answers: dict[str, list[str]] = {}
    for _, group in candidates.groupby(["question", "candidate"], sort=False):
        sides = [group.loc[group["side"] == side, "item_id"].tolist()
                 for side in ("bank", "service")]  # fmt: skip
        for some, others in (sides, sides[::-1]):
            for name in some:
                known = answers.setdefault(name, [])
                known += [other for other in others if other not in known]
    return answers


def _doubled(matching: Matching, entries: pd.DataFrame) -> set[str]:
    """Open entries that are another one again, which is matched: same reference, amount, text."""
    keys = ["bank_ref", "amount", "memo"]
    if not {*keys}.issubset(entries.columns):
        return set()
    same = dict(
        zip(entries["entry_id"], zip(*(entries[k].astype(str) for k in keys), strict=True),
            strict=True)
    )  # fmt: skip
    referred = {*entries.loc[entries["bank_ref"].notna(), "entry_id"]}
    taken = {same[name] for name in matching.members["item_id"] if name in referred}
    held = [n for n in matching.open["item_id"] if n in referred]
    return {name for name in held if same[name] in taken}


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _day(value: Any) -> date:
    return pd.Timestamp(value).date()


def _known(days: Iterable[Any]) -> list[date]:
    return [_day(day) for day in days if not pd.isna(day)]
