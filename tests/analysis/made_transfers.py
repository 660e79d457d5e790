"""A lively made-up history of any size, and its balances by a plain loop."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from transfer_examples import DAY, START, Row, change, exact_sum, key

MONEY = pa.decimal128(38, 18)
TIME = pa.timestamp("ns", "UTC")
TEXTS = (
    "id", "ref_id", "profile_id", "asset", "balance_asset", "direction", "type", "status",
    "group_id", "fiat_account_id", "destination_address", "crypto_network", "memo",
)  # fmt: skip
SCHEMA = pa.schema(
    [(name, pa.string()) for name in TEXTS]
    + [(name, MONEY) for name in ("amount", "fee", "total")]
    + [(name, TIME) for name in ("created_at", "updated_at")]
)
PLACES = {"USD": 2, "USDC": 6, "ETH": 18, "BTC": 8}
KINDS = ("WIRE_DEPOSIT", "CRYPTO_DEPOSIT", "WIRE_WITHDRAWAL", "CRYPTO_WITHDRAWAL", "INTERNAL")


def make_rows(count: int, seed: int = 7, profiles: int = 60) -> list[Row]:
    """``count`` transfers over 300 days: deposits, withdrawals, conversions, internal pairs."""
    random = Random(seed)
    rows: list[Row] = []
    step = 300 * DAY // count
    while len(rows) < count:
        created = START + len(rows) * step + random.randrange(step)
        profile = f"profile-{random.randrange(profiles):03d}"
        kind = random.choice(KINDS)
        crypto = kind.startswith("CRYPTO") or (kind == "INTERNAL" and random.random() < 0.5)
        asset = random.choice(("USDC", "ETH", "BTC")) if crypto else "USD"
        amount = Decimal(random.randrange(100, 10**9)).scaleb(-min(PLACES[asset], 8))
        common = {"asset": asset, "created_at": created, "amount": amount}
        if kind == "INTERNAL":
            other = f"profile-{(int(profile[-3:]) + 1) % profiles:03d}"
            group = f"group-{len(rows):07d}"
            for side, owner in (("DEBIT", profile), ("CREDIT", other)):
                rows.append(_row(len(rows), random, owner, f"INTERNAL_TRANSFER_{side}", side,
                                 group_id=group, **common))  # fmt: skip
            rows[-1]["status"] = rows[-2]["status"] = "COMPLETED"
            rows[-1]["updated_at"] = rows[-2]["updated_at"]
            continue
        side = "CREDIT" if kind.endswith("DEPOSIT") else "DEBIT"
        rows.append(_row(len(rows), random, profile, kind, side, **common))
    return rows[:count] if rows[count - 1]["group_id"] is None else rows[: count - 1]


def _row(number: int, random: Random, profile: str, kind: str, side: str, **given: Any) -> Row:
    fee = {"WIRE_WITHDRAWAL": Decimal("25"), "CRYPTO_WITHDRAWAL": Decimal("0.0005")}.get(kind)
    converts = kind == "CRYPTO_DEPOSIT" and given["asset"] == "USDC" and random.random() < 0.3
    row: Row = {
        **dict.fromkeys(TEXTS),
        "id": f"transfer-{number:07d}",
        "ref_id": f"ref-{number:07d}" if side == "DEBIT" and kind != "INTERNAL" else None,
        "profile_id": profile,
        "balance_asset": "USD" if converts else None,
        "direction": side,
        "type": kind,
        "status": random.choices(("COMPLETED", "PENDING", "FAILED"), (94, 3, 3))[0],
        "fee": fee or Decimal(0),
        "updated_at": given["created_at"] + random.randrange(1, 3_600) * 10**9,
        **given,
    }
    row["total"] = row["amount"] + row["fee"] if side == "DEBIT" else row["amount"] - row["fee"]
    return row


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def balances_by_hand(rows: list[Row]) -> dict[tuple[str, str], Decimal]:
    """Available plus trading now, of every profile and asset that ever moved."""
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        signed = change(row, "available")
        if signed is not None:
            found[key(row)] = exact_sum([found[key(row)], signed])
    return dict(found)


def observed(
    balances: dict[tuple[str, str], Decimal], at: int, trading: Decimal = Decimal(0)
) -> pa.Table:
    """Balances as the service reports them at ``at`` (ns)."""
    pairs = sorted(balances)
    return pa.table(
        {
            "profile_id": pa.array([pair[0] for pair in pairs], pa.string()),
            "asset": pa.array([pair[1] for pair in pairs], pa.string()),
            "available": pa.array([balances[pair] - trading for pair in pairs], MONEY),
            "trading": pa.array([trading] * len(pairs), MONEY),
            "observed_at": pa.array([at] * len(pairs), pa.int64()).cast(TIME),
        }
    )


def history_by_hand(rows: list[Row], moments: list[int]) -> pa.Table:
    """Every balance at each of ``moments``, from what had happened by then."""
    steps = []
    for row in rows:
        if row["direction"] == "CREDIT":
            if row["status"] == "COMPLETED":
                steps.append((row["updated_at"], key(row), row["total"]))
            continue
        steps.append((row["created_at"], key(row), -row["total"]))
        if row["status"] == "FAILED":
            steps.append((row["updated_at"], key(row), row["total"]))
    steps.sort(key=lambda step: step[0])
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    seen, tables = 0, []
    for moment in moments:
        while seen < len(steps) and steps[seen][0] <= moment:
            _, pair, amount = steps[seen]
            found[pair] = exact_sum([found[pair], amount])
            seen += 1
        tables.append(observed(dict(found), moment))
    return pa.concat_tables(tables)


def tampered(seed: int) -> tuple[list[Row], Any, Any]:
    """A small history with a few things wrong in it, on either side."""
    random = Random(seed)
    rows = [dict(row) for row in make_rows(300, seed, profiles=4)]
    balances = balances_by_hand(rows)
    moments = sorted(START + random.randrange(300) * DAY for _ in range(random.choice((0, 3, 12))))
    seen = history_by_hand(rows, moments) if moments else None
    for _ in range(random.randint(1, 5)):
        row = random.choice(rows)
        match random.randrange(10):
            case 0:
                rows.remove(row)
            case 1:
                rows.append({**row, "id": f"{row['id']}-copy"})
            case 2:
                rows.append(dict(row))
            case 3:
                row["total"] += random.choice((Decimal("0.01"), row["fee"], Decimal(1)))
            case 4:
                row["direction"] = random.choice(("CREDIT", "DEBIT"))
            case 5:
                row["status"] = random.choice(("COMPLETED", "PENDING", "FAILED"))
            case 6:
                row["profile_id"] = "profile-001"
            case 7:
                row["balance_asset"] = "USD"
            case 8:
                row["amount"] = row["total"] = row["amount"].scaleb(random.choice((1, 2)))
            case 9:
                row["fee"] *= 2
                row["total"] = row["amount"] + row["fee"]
    for pair in random.sample(sorted(balances), 2):
        balances[pair] += random.choice((Decimal(25), Decimal("-0.27"), Decimal(-75), Decimal(0)))
    return rows, observed(balances, START + random.choice((280, 400)) * DAY), seen
