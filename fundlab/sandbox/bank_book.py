"""The account at the bank through which the sandbox's fiat transfers pass: what it would book."""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

from fundlab.base.exact import EXACT
from fundlab.base.values import exact_sum
from fundlab.sandbox.bank_files import CENT, PAGED, WRITERS, Line, Statement
from fundlab.sandbox.refusals import invalid
from fundlab.sandbox.world import World

Json = dict[str, Any]
Format = Literal[
    "camt.053", "camt.052", "camt.054", "mt940", "mt942", "ofx", "bai2", "csv"
]  # fmt: skip
Fault = Literal["doubled", "missing", "amount", "charge", "unknown", "sign"]
FAULTS: Final[tuple[Fault, ...]] = ("doubled", "missing", "amount", "charge", "unknown", "sign")
_PERIOD: Final = re.compile(r"(\d{4})(?:-(\d\d))?(?:-(\d\d))?", re.ASCII)
_MOST_IN_A_BATCH: Final = 6


def period_days(period: str) -> tuple[date, date]:
    """First and last day of a year, month or day. Raises the 400 ``Refusal``."""
    match = _PERIOD.fullmatch(period)
    try:
        year, month, day = (int(part or 1) for part in match.groups()) if match else (0, 0, 0)
        first = date(year, month, day)
        if match and match[3]:
            return first, first
        after = (
            date(year + 1, 1, 1)
            if not match or not match[2] or month == 12
            else date(year, month + 1, 1)
        )
    except ValueError:
        raise invalid("period", f"{period[:20]!r} is not a year, month or day") from None
    return first, after - timedelta(days=1)


def fiat_transfers(world: World, asset: str) -> list[Json]:
    """Completed fiat transfers, by the time they settled, with the counterparty's name."""
    rows = world.database.all(
        "SELECT body, updated_at_ns FROM transfers WHERE status = 'COMPLETED' "
        "AND (type LIKE '%_DEPOSIT' OR type LIKE '%_WITHDRAWAL') AND type NOT LIKE 'CRYPTO_%' "
        "ORDER BY updated_at_ns, seq"
    )
    names: dict[str, str] = {}
    for account_id, body in world.database.all("SELECT id, body FROM fiat_accounts"):
        owner = json.loads(body).get("fiat_account_owner") or {}
        person = owner.get("person_details") or {}
        name = (owner.get("institution_details") or {}).get("name") or person.get("name")
        name = name or " ".join(filter(None, map(person.get, ("first_name", "last_name"))))
        names[account_id] = name or ""
    transfers = []
    for body, updated_ns in rows:
        row = json.loads(body)
        if row["asset"] == asset:
            settled = datetime.fromtimestamp(updated_ns // 10**9, UTC).date()
            name = names.get(row.get("fiat_account_id") or "", "")
            transfers.append(row | {"settled_on": settled, "counterparty": name})
    return transfers


def book(
    transfers: Iterable[Mapping[str, Any]],
    *,
    side: Literal["service", "ours"],
    seed: int,
    batch: float,
    netted_fee: Decimal,
    late_days: int,
    references: float,
    errors: Mapping[Fault, int],
) -> list[Line]:
    """Every line the bank ever booked, in its order. What happens to a transfer depends on its id
    and ``seed`` alone, and errors on their month: so one period follows on another."""
    days: dict[tuple[date, bool, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in transfers:
        enters = row["direction"] == ("CREDIT" if side == "service" else "DEBIT")
        days[row["settled_on"], enters, row["counterparty"]].append(row)
    lines: list[Line] = []
    for (day, enters, name), rows in days.items():
        rng = random.Random(f"{seed} {day} {enters} {name}")  # noqa: S311
        waiting = [*rows]
        while waiting:
            several = len(waiting) > 1 and rng.random() < batch
            size = rng.randint(2, min(_MOST_IN_A_BATCH, len(waiting))) if several else 1
            taken, waiting = waiting[:size], waiting[size:]
            parts = tuple(
                # The last is what the payer gives the bank to pass on.
                (
                    row["id"],
                    EXACT.multiply(Decimal(row["amount"]), 1 if enters else -1),
                    str(row.get("memo") or row.get("ref_id") or row["id"]),
                )
                for row in taken
            )
            quoted = rng.random() < references
            wrote = " ".join(text for _, _, text in parts) if quoted else ""
            batched = f"BATCH OF {size} " if size > 1 else ""
            late = rng.randint(0, late_days)
            kept = netted_fee if enters and netted_fee and rng.random() < 0.5 else Decimal(0)
            total = exact_sum(amount for _, amount, _ in parts)
            if total <= kept and enters:
                kept = Decimal(0)
            lines.append(
                Line(day + timedelta(days=late // 2), day + timedelta(days=late),
                     EXACT.subtract(total, kept), "", f"{batched}{wrote}".strip() or "TRANSFER",
                     name, parts, kept)
            )  # fmt: skip
    lines.sort(key=lambda line: (line.booked_on, line.parts[0][0]))
    return _as_booked(lines, seed, errors)


def _as_booked(lines: list[Line], seed: int, errors: Mapping[Fault, int]) -> list[Line]:
    """The lines with the bank's errors, so many of each kind a month, and its references."""
    months: dict[tuple[int, int], list[Line]] = defaultdict(list)
    for line in lines:
        months[line.booked_on.year, line.booked_on.month].append(line)
    numbers: dict[date, int] = defaultdict(int)
    done: list[Line] = []
    for month, booked in months.items():
        rng = random.Random(f"{seed} errors {month}")  # noqa: S311
        places = rng.sample(range(len(booked)), len(booked))
        struck = {
            places.pop(): fault for fault in FAULTS for _ in range(errors.get(fault, 0)) if places
        }
        for number, line in enumerate(booked):
            for made in _booked(struck.get(number), line, rng):
                numbers[made.booked_on] += 1
                bank_ref = f"{made.booked_on:%y%m%d}B{numbers[made.booked_on]:06}"
                done.append(replace(made, bank_ref=bank_ref))
    return done


def _booked(fault: Fault | None, line: Line, rng: random.Random) -> list[Line]:
    """What the bank books in place of ``line``."""
    if fault == "missing":
        return []
    if fault == "doubled":
        return [line, replace(line, kind="doubled")]
    if fault == "sign":
        return [replace(line, amount=line.amount.copy_negate(), kind="sign")]
    if fault == "amount":
        wrong = EXACT.add(line.amount, EXACT.multiply(CENT, rng.randint(1, 99)))
        return [replace(line, amount=wrong, kind="amount")]
    if fault == "charge":
        charge = EXACT.multiply(CENT, rng.randint(500, 4999))
        memo = "ACCOUNT CHARGES"
    elif fault == "unknown":
        charge = EXACT.multiply(CENT, -rng.randint(10_000, 999_999))
        memo = "PAYMENT OF UNKNOWN ORIGIN"
    else:
        return [line]
    own = replace(line, valued_on=line.booked_on, amount=charge.copy_negate(), memo=memo,
                  name="", parts=(), kept=Decimal(0), kind=str(fault))  # fmt: skip
    return [line, own]


def statement_file(
    lines: list[Line],
    period: str,
    format: Format,
    *,
    asset: str,
    account: str,
    opening: Decimal,
    daily: bool,
    page_lines: int | None,
) -> tuple[str, list[Line]]:
    """The text of the period's file, and the lines in it."""
    first, last = period_days(period)
    # BAI2 dates a whole account by its group.
    step = 1 if daily or format == "bai2" else (last - first).days + 1
    balance = exact_sum(
        [opening, *(statement.amount for statement in lines if statement.booked_on < first)]
    )
    mine = [line for line in lines if first <= line.booked_on <= last]
    by_day: dict[date, list[Line]] = defaultdict(list)
    for line in mine:
        by_day[line.booked_on].append(line)
    statements: list[Statement] = []
    while first <= last:
        days = [first + timedelta(days=n) for n in range(step)]
        of_days = tuple(line for day in days for line in by_day[day])
        # Numbered by the year: every day, month or year has its own.
        number = first.timetuple().tm_yday if step == 1 else first.month if step < 32 else 1
        statement = Statement(account, asset, number, first, days[-1], balance, of_days)
        balance = statement.closing
        statements += statement.pages(page_lines if format in PAGED else None)
        first = days[-1] + timedelta(days=1)
    return WRITERS[format](statements), mine
