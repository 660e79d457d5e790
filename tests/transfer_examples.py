"""Small transfers for the tests, and the same sums done by hand with plain ``Decimal`` loops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from amounts import exactly
from hypothesis import settings
from hypothesis import strategies as st

MONEY = pa.decimal128(38, 18)
TIME = pa.timestamp("ns", "UTC")
START = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
DAY = 86_400_000_000_000
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("profile_id", pa.string()),
        ("asset", pa.string()),
        ("balance_asset", pa.string()),
        ("direction", pa.string()),
        ("type", pa.string()),
        ("status", pa.string()),
        ("amount", MONEY),
        ("fee", MONEY),
        ("total", MONEY),
        ("created_at", TIME),
        ("updated_at", TIME),
        ("group_id", pa.string()),
    ]
)
Row = dict[str, Any]
laws = settings(max_examples=6, deadline=None)


def transfer(id_: str, **given: Any) -> Row:
    """One transfer: a completed deposit of 10 USD at the start of 2026 where not said otherwise."""
    row: Row = {
        "id": id_,
        "profile_id": "p1",
        "asset": "USD",
        "balance_asset": None,
        "direction": "CREDIT",
        "type": "WIRE_DEPOSIT",
        "status": "COMPLETED",
        "amount": Decimal("10"),
        "fee": Decimal("0"),
        "created_at": START,
        "group_id": None,
    }
    row.update(given)
    sign = -1 if row["direction"] == "CREDIT" else 1
    row.setdefault("total", exact_sum([row["amount"], sign * row["fee"]]))
    row.setdefault("updated_at", row["created_at"])
    return row


def arrow(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def pandas(rows: Iterable[Row]) -> pd.DataFrame:
    """Money as Decimal objects, enumerations as categories."""
    frame = arrow(rows).to_pandas()
    for name in ("direction", "type", "status"):
        frame[name] = frame[name].astype("category")
    return frame


def decimal_typed(rows: Iterable[Row]) -> pd.DataFrame:
    frame = pandas(rows)
    for name in ("amount", "fee", "total"):
        frame[name] = pd.array(frame[name].tolist(), dtype="decimal")
    return frame


def arrow_typed(rows: Iterable[Row]) -> pd.DataFrame:
    frame = pandas(rows)
    for name in ("amount", "fee", "total"):
        frame[name] = frame[name].astype(pd.ArrowDtype(MONEY))
    return frame


def relation(rows: Iterable[Row]) -> duckdb.DuckDBPyRelation:
    return duckdb.connect(":memory:").from_arrow(arrow(rows))


KINDS: dict[str, Callable[[Iterable[Row]], Any]] = {
    "objects": pandas,
    "decimal": decimal_typed,
    "arrow_dtype": arrow_typed,
    "arrow": arrow,
    "polars": lambda rows: pl.from_arrow(arrow(rows)),
    "polars_lazy": lambda rows: pl.from_arrow(arrow(rows)).lazy(),
    "duckdb": relation,
}
EVERY_KIND = [
    pytest.param(kind, marks=[] if kind in ("decimal", "arrow", "duckdb") else pytest.mark.thorough)
    for kind in KINDS
]
"""That each analysis gives the same of every kind is held once for all, in test_every_analysis."""


def records(frame: Any) -> list[dict[str, Any]]:
    """Any result as plain rows: Decimals, ISO times, ``None`` for missing."""
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, pl.DataFrame):
        frame = frame.to_arrow()
    if isinstance(frame, duckdb.DuckDBPyRelation):
        frame = frame.to_arrow_table()
    if isinstance(frame, pd.DataFrame):
        return [
            {name: _plain(value) for name, value in row.items()}
            for row in frame.astype(object).to_dict("records")
        ]
    columns = {name: _arrow_values(frame.column(name)) for name in frame.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _arrow_values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return [_plain(pd.Timestamp(v, unit="ns", tz="UTC")) if v is not None else None
                for v in column.cast(TIME).cast(pa.int64()).to_pylist()]  # fmt: skip
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    if value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp | datetime):
        stamp = pd.Timestamp(value)
        if stamp.tzinfo is None:
            return f"{stamp:%Y-%m-%d}"
        return stamp.tz_convert("UTC").as_unit("ns").isoformat()
    if isinstance(value, timedelta):
        return pd.Timedelta(value)
    if not isinstance(value, str | Decimal) and hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d}"
    return None if pd.isna(value) else value


# ------------------------------------------------------------------------------ sums by hand


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    context = Context(prec=100)
    result = Decimal(0)
    for amount in amounts:
        result = context.add(result, amount)
    return result


def change(row: Row, view: str) -> Decimal | None:
    if row["status"] in ("COMPLETED", "COMPLETE") or (
        view == "available" and row["status"] == "PENDING" and row["direction"] == "DEBIT"
    ):
        return row["total"] if row["direction"] == "CREDIT" else row["total"].copy_negate()
    return None


def key(row: Row) -> tuple[str, str]:
    return row["profile_id"], row["balance_asset"] or row["asset"]


def running_by_hand(rows: list[Row], view: str, by: str = "created_at") -> list[tuple[Any, ...]]:
    """``id``, asset and balance after each counting row."""
    balances: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    after = []
    for row in sorted(rows, key=lambda row: (row[by], row["id"])):
        signed = change(row, view)
        if signed is not None:
            balances[key(row)] = exact_sum([balances[key(row)], signed])
            after.append((row["id"], key(row)[1], balances[key(row)]))
    return after


def at_by_hand(rows: list[Row], when: int, view: str) -> dict[tuple[str, str], Decimal]:
    balances: dict[tuple[str, str], Decimal] = {}
    for row in rows:
        signed = change(row, view)
        if signed is not None and row["created_at"] <= when:
            balances[key(row)] = exact_sum([balances.get(key(row), Decimal(0)), signed])
    return balances


def day_by_hand(moment: int, tz: Any) -> str:
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=moment // 10**9)).astimezone(tz)
    return f"{local:%Y-%m-%d}"


# ---------------------------------------------------------------------------------- made up

amounts = st.decimals(
    min_value=0, max_value=Decimal(10) ** 15, places=18, allow_nan=False, allow_infinity=False
)


@st.composite
def transfers(draw: st.DrawFn, max_size: int = 25) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, max_size))):
        direction = draw(st.sampled_from(["CREDIT", "DEBIT"]))
        kinds = {
            "CREDIT": ["WIRE_DEPOSIT", "CRYPTO_DEPOSIT", "INTERNAL_TRANSFER_CREDIT"],
            "DEBIT": ["WIRE_WITHDRAWAL", "CRYPTO_WITHDRAWAL", "INTERNAL_TRANSFER_DEBIT"],
        }
        rows.append(
            transfer(
                f"t{number:02d}",
                profile_id=draw(st.sampled_from(["p1", "p2"])),
                asset=draw(st.sampled_from(["USD", "ETH"])),
                balance_asset=draw(st.sampled_from([None, None, "USDC"])),
                direction=direction,
                type=draw(st.sampled_from(kinds[direction])),
                status=draw(st.sampled_from(["COMPLETED", "COMPLETE", "PENDING", "FAILED"])),
                amount=draw(amounts),
                total=draw(amounts),
                fee=draw(amounts),
                created_at=START + draw(st.integers(0, 3)) + draw(st.integers(0, 400)) * DAY // 2,
                group_id=draw(st.sampled_from([None, "g1", "g2"])),
            )
        )
    return draw(st.permutations(rows))


TEXTS = (
    "id", "ref_id", "profile_id", "asset", "balance_asset", "direction", "type", "status",
    "group_id", "fiat_account_id", "destination_address", "crypto_network", "memo",
)  # fmt: skip
ALL_COLUMNS = pa.schema(
    [(name, pa.string()) for name in TEXTS]
    + [(name, MONEY) for name in ("amount", "fee", "total")]
    + [(name, TIME) for name in ("created_at", "updated_at")]
)
PLACES = {"USD": 2, "USDC": 6, "ETH": 18, "BTC": 8}
TYPES = ("WIRE_DEPOSIT", "CRYPTO_DEPOSIT", "WIRE_WITHDRAWAL", "CRYPTO_WITHDRAWAL", "INTERNAL")


@exactly()
def make_rows(count: int, seed: int = 7, profiles: int = 60) -> list[Row]:
    """``count`` transfers over 300 days: deposits, withdrawals, conversions, internal pairs."""
    random = Random(seed)
    rows: list[Row] = []
    step = 300 * DAY // count
    while len(rows) < count:
        created = START + len(rows) * step + random.randrange(step)
        profile = f"profile-{random.randrange(profiles):03d}"
        kind = random.choice(TYPES)
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
    return pa.Table.from_pylist(rows, schema=ALL_COLUMNS)


def balances_by_hand(rows: list[Row]) -> dict[tuple[str, str], Decimal]:
    """Available plus trading now, of every profile and asset that ever moved."""
    found: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        signed = change(row, "available")
        if signed is not None:
            found[key(row)] = exact_sum([found[key(row)], signed])
    return dict(found)


@exactly()
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
