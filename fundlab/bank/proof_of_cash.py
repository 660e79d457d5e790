"""The proof of cash: what the balances per bank and per transfers lack, in four columns.

Every matched group, open transfer and open entry has a flow that is true (what happened), one at
the bank and one in the service's books. What the bank lacks of the truth is in transit, outstanding
or its error; what the books lack is unrecorded or the service's error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum
from fundlab.tables.frames import to_frame

CATEGORIES: Final = {
    "deposits_in_transit": "Deposits in transit",
    "outstanding_withdrawals": "Outstanding withdrawals",
    "netted": "Netted by the bank",
    "bank_errors": "Errors of the bank",
    "undecided": "Undecided, net",
    "unrecorded": "Not recorded by the service",
    "tolerated": "Within a rule's tolerance",
    "service_errors": "Errors of the service",
}
"""What the bank's balance lacks (the first five), and what the service's lacks."""
_OF_BANK: Final = tuple(CATEGORIES)[:5]
_TEXT: Final = pa.string()
_DECISIONS: Final = {"bank_error": "bank_errors", "service_error": "service_errors"}
COLUMNS: Final = ("opening", "receipts", "disbursements", "closing")
_PROOF: Final = pa.schema(
    [("line", _TEXT), ("label", _TEXT), *((name, AMOUNT_TYPE) for name in COLUMNS)]
)
ITEMS: Final = pa.schema(
    [("side", _TEXT), ("item_id", _TEXT), ("asset", _TEXT), ("amount", AMOUNT_TYPE),
     ("on", pa.date32()), ("age", pa.int64()), ("category", _TEXT), ("cleared_on", pa.date32()),
     ("explained", pa.bool_()), ("why", _TEXT), ("memo", _TEXT)]
)  # fmt: skip

Flow = tuple[date, Decimal]


class Book:
    """The corrections of both balances, as they come, in the four columns of a period."""

    def __init__(self, first: date, last: date, decided: Mapping[str, str]) -> None:
        self.first, self.last, self.decided = first, last, decided
        self.corrections: dict[str, dict[str, Decimal]] = defaultdict(
            lambda: dict.fromkeys(COLUMNS, Decimal(0))
        )
        self.booked: list[Flow] = []
        """What the service has recorded."""
        self.listed: list[dict[str, Any]] = []

    def columns(self, flows: Iterable[Flow]) -> dict[str, Decimal]:
        """``flows`` up to the period's end: before it, in and out within it, and all of them."""
        known = [(day, amount) for day, amount in flows if day <= self.last]
        within = [amount for day, amount in known if day >= self.first]
        return {
            "opening": exact_sum(amount for day, amount in known if day < self.first),
            "receipts": exact_sum(amount for amount in within if amount > 0),
            "disbursements": exact_sum(amount.copy_abs() for amount in within if amount < 0),
            "closing": exact_sum(amount for _, amount in known),
        }

    def correct(self, category: str, add: Iterable[Flow], take: Iterable[Flow] = ()) -> bool:
        """Whether the balance at the end is corrected by it."""
        more, less = self.columns(add), self.columns(take)
        amounts = {name: EXACT.subtract(more[name], less[name]) for name in COLUMNS}
        for name, amount in amounts.items():
            self.corrections[category][name] = EXACT.add(self.corrections[category][name], amount)
        return amounts["closing"] != 0

    def note(
        self, side: str, item_id: str, day: date, amount: Decimal, category: str, why: str,
        *, explained: bool, cleared_on: date | None = None,
    ) -> None:  # fmt: skip
        if day > self.last:
            return
        decision = self.decided.get(item_id)
        if decision is not None:
            # An item carried on says so already.
            why = f"{why.partition('; decided: ')[0]}; decided: {decision}"
            if decision.startswith("match ") and not explained:
                # It was not taken, so it explains nothing.
                why, decision = f"{why}, which is not among what is matched", None
        self.listed.append(
            {"side": side, "item_id": item_id, "amount": amount, "on": day,
             "age": (self.last - day).days, "category": category, "cleared_on": cleared_on,
             "explained": explained or decision is not None,
             "why": why}
        )  # fmt: skip

    def take_group(
        self, flows: Mapping[str, list[tuple[str, date, Decimal]]], charges: Decimal,
        difference: Decimal, detail: str, *, tolerated: bool = False,
    ) -> None:  # fmt: skip
        bank = [(day, amount) for _, day, amount in flows["bank"]]
        service = [(day, amount) for _, day, amount in flows["service"]]
        self.booked += service
        named = [name for side in flows.values() for name, *_ in side]
        end = max((day for day, _ in bank), default=self.last)
        truth = [*service]
        error: list[Flow] = []
        if charges:
            # The bank kept it back, which the books do not know.
            kept = (end, charges.copy_negate())
            truth.append(kept)
            if self.correct("unrecorded", [kept]) or self.first <= end <= self.last:
                self.note("bank", flows["bank"][0][0], end, kept[1], "unrecorded",
                          f"kept back by the bank: {detail}", explained=True)  # fmt: skip
        if difference:
            wrong = (end, difference)
            of_service = any(self.decided.get(name) == "service_error" for name in named)
            category = ("tolerated" if tolerated else "service_errors" if of_service
                        else "bank_errors")  # fmt: skip
            if category == "bank_errors":
                self.correct(category, [], [wrong])
                error = [wrong]
            else:
                truth.append(wrong)
                self.correct(category, [wrong])
            explained = tolerated or any(name in self.decided for name in named)
            self.note(
                "bank", (flows["bank"] or flows["service"])[0][0], end, difference, category,
                detail, explained=explained,
            )  # fmt: skip
        total = exact_sum(amount for _, amount in service)
        before, after = self.columns([*truth, *error]), self.columns(bank)
        crosses = before["opening"] != after["opening"] or before["closing"] != after["closing"]
        moving = "deposits_in_transit" if total >= 0 else "outstanding_withdrawals"
        self.correct(moving if crosses else "netted", [*truth, *error], bank)
        if before["closing"] != after["closing"]:
            # What both have by then cancels out; of a block the earliest first.
            known = {
                side: sorted((day, name, much) for name, day, much in rows if day <= self.last)
                for side, rows in flows.items()
            }
            for entry in [*known["bank"]]:
                same = [row for row in known["service"] if row[2] == entry[2]]
                if same:
                    known["bank"].remove(entry)
                    known["service"].remove(same[0])
            for side, other in (("service", "bank"), ("bank", "service")):
                for day, name, amount in known[side]:
                    own = amount if side == "service" else amount.copy_negate()
                    later = max((d for _, d, _ in flows[other] if d > self.last), default=None)
                    self.note(side, name, day, own, moving,
                              "booked later" if later else "booked in part",
                              explained=True, cleared_on=later)  # fmt: skip

    def take_undecided(self, rows: Iterable[tuple[str, str, date, Decimal, str]]) -> None:
        """What has several answers: side, id, day, amount and why. Whichever is right, the bank
        lacks what the service has of it less what it has itself."""
        flows: dict[str, list[Flow]] = {"service": [], "bank": []}
        for side, item_id, day, amount, why in rows:
            flows[side].append((day, amount))
            own = amount if side == "service" else amount.copy_negate()
            self.note(side, item_id, day, own, "undecided", why, explained=False)
        self.booked += flows["service"]
        self.correct("undecided", flows["service"], flows["bank"])

    def take_carried(self, row: Mapping[str, Any]) -> None:
        """What a period before found, and is not matched again."""
        name, day, amount = row["item_id"], pd.Timestamp(row["on"]).date(), row["amount"]
        if row["category"] == "bank_errors":
            self.correct("bank_errors", [], [(day, amount)])
        elif row["side"] == "service":
            self.booked.append((day, amount))
            self.correct("service_errors", [], [(day, amount)])
        else:
            self.correct(row["category"], [(day, amount)])
        self.note(row["side"], name, day, amount, row["category"], row["why"],
                  explained=bool(row["explained"]))  # fmt: skip

    def take_entry(
        self, item_id: str, day: date, amount: Decimal, why: str, *, twice: bool
    ) -> None:
        default = "bank_errors" if twice else "unrecorded"
        category = _DECISIONS.get(self.decided.get(item_id, ""), default)
        flow = [(day, amount)]
        # An error of the bank never happened; all else did, and the books lack it.
        if category == "bank_errors":
            self.correct(category, [], flow)
        else:
            self.correct(category, flow)
        self.note("bank", item_id, day, amount, category, why, explained=False)

    def take_transfer(
        self, item_id: str, day: date, amount: Decimal, why: str, window: int, *, decided: bool
    ) -> None:
        flow = [(day, amount)]
        self.booked += flow
        moving = "deposits_in_transit" if amount >= 0 else "outstanding_withdrawals"
        wrong = self.decided.get(item_id) == "service_error"
        if wrong:
            self.correct("service_errors", [], flow)
        else:
            self.correct(moving, flow)
        fresh = decided and (self.last - day).days <= window
        reason = "not on the statement yet" if fresh else why
        category = "service_errors" if wrong else moving
        self.note("service", item_id, day, amount, category, reason, explained=fresh)

    def proof(
        self, bank: Mapping[str, Decimal], balance: Decimal | None, *, is_known: bool
    ) -> pd.DataFrame:
        """Without ``is_known`` there is no balance per transfers, only what moved it."""
        lines: dict[str, dict[str, Decimal]] = {"per_bank": dict(bank)}
        lines |= {name: self.corrections[name] for name in _OF_BANK}
        lines["adjusted_bank"] = _added(lines.values())
        service = self.columns((day, amount) for day, amount in self.booked if day >= self.first)
        own = [self.corrections[name] for name in CATEGORIES if name not in _OF_BANK]
        if balance is None:
            # The books begin with what the bank had, corrected by what was open then.
            known = EXACT.subtract(lines["adjusted_bank"]["opening"], _added(own)["opening"])
        else:
            known = EXACT.subtract(balance, service["closing"])
        lines["per_service"] = service | {
            "opening": known, "closing": EXACT.add(known, service["closing"])
        }  # fmt: skip
        lines |= {name: self.corrections[name] for name in CATEGORIES if name not in _OF_BANK}
        lines["adjusted_service"] = _added([lines["per_service"], *own])
        lines["difference"] = {
            name: EXACT.subtract(lines["adjusted_bank"][name], lines["adjusted_service"][name])
            for name in COLUMNS
        }
        labels = {
            "per_bank": "Balance per bank", "adjusted_bank": "Adjusted balance per bank",
            "per_service": "Balance per transfers",
            "adjusted_service": "Adjusted balance per transfers", "difference": "Difference",
            **CATEGORIES,
        }  # fmt: skip
        rows: list[dict[str, Any]] = [
            {"line": name, "label": labels[name], **row} for name, row in lines.items()
        ]
        for row in rows:
            if not is_known and row["line"] in ("per_service", "adjusted_service", "difference"):
                row.update(opening=None, closing=None)
        return to_frame(pa.Table.from_pylist(rows, schema=_PROOF))

    def items(self, asset: str, memos: Mapping[str, str | None]) -> pd.DataFrame:
        rows: list[dict[str, Any]] = []
        for row in sorted(self.listed, key=lambda row: (row["on"], row["item_id"])):
            memo = memos.get(row["item_id"])
            rows.append(row | {"asset": asset, "memo": None if pd.isna(memo) else memo})
        return to_frame(pa.Table.from_pylist(rows, schema=ITEMS))


def _added(rows: Iterable[Mapping[str, Decimal]]) -> dict[str, Decimal]:
    lines = [*rows]
    return {name: exact_sum(row[name] for row in lines) for name in COLUMNS}
