"""Each analysis on made-up frames, beside the same by a plain loop over plain rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from decimal import Decimal
from random import Random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transfer_examples import (
    DAY,
    START,
    TEXTS,
    TIME,
    Row,
    exact_sum,
    key,
    laws,
    records,
    table,
    transfer,
)

from fundlab.analysis import checks, events, fees, flows

D = Decimal
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DONE = ("COMPLETED", "COMPLETE")
TYPES = {"CREDIT": ("WIRE_DEPOSIT", "BANK_DEPOSIT"), "DEBIT": ("WIRE_WITHDRAWAL",)}
prices = st.decimals(0, D("1E12"), places=18, allow_nan=False, allow_infinity=False)


@st.composite
def wires(draw: st.DrawFn, max_size: int = 30) -> list[Row]:
    """Transfers that meet each other often: few accounts, amounts, fees and moments."""
    rows: list[Row] = []
    for number in range(draw(st.integers(0, max_size))):
        direction = draw(st.sampled_from(["DEBIT", "DEBIT", "DEBIT", "CREDIT"]))
        created = START + draw(st.sampled_from([0, 1, 2, 60, 61, 5_000])) * draw(
            st.sampled_from([1, SECOND, MINUTE, HOUR])
        )
        row = transfer(
            f"t{draw(st.integers(0, 9))}{number:02}",
            profile_id=draw(st.sampled_from(["p1", "p1", "p2"])),
            asset=draw(st.sampled_from(["USD", "USD", "USD", "USDC"])),
            balance_asset=draw(st.sampled_from([None, None, None, "USD", "EUR"])),
            direction=direction,
            type=draw(st.sampled_from(TYPES[direction])),
            status=draw(st.sampled_from([*DONE, "COMPLETED", "PENDING", "FAILED"])),
            amount=draw(st.sampled_from([D(5), D(7), D("0.000000000000000001"), draw(prices)])),
            fee=draw(st.sampled_from([D(1), D(1), D(1), D(2), draw(prices)])),
            created_at=created,
            updated_at=created + draw(st.integers(-5, 10**15)),
        )
        target = draw(st.sampled_from(["f1", "f1", "f2", None]))
        rows.append({**dict.fromkeys(TEXTS), **row, "fiat_account_id": target})
    return draw(st.permutations(rows))


def kinds(rows: list[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """The rows by ``names``, by the asset whose balance changes instead of their own."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(key(row)[1] if name == "asset" else row[name] for name in names)].append(row)
    return dict(sorted(found.items()))


def told(found: Any, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in records(found)]


def stamp(moment: int) -> str:
    return pd.Timestamp(moment, unit="ns", tz="UTC").isoformat()


# ------------------------------------------------------------------------------ fees and flows


@given(rows=wires())
@laws
def test_batching_saves_all_but_the_largest_fee(rows: list[Row]) -> None:
    sent = [
        {**row, "period": stamp(row["created_at"] // DAY * DAY)}
        for row in rows
        if row["status"] in DONE and row["direction"] == "DEBIT" and row["fiat_account_id"]
    ]
    expected = [
        (*name, len(group), exact_sum(row["amount"] for row in group),
         exact_sum(row["fee"] for row in group), max(row["fee"] for row in group),
         exact_sum(sorted(row["fee"] for row in group)[:-1]))
        for name, group in kinds(sent, "period", "profile_id", "type", "asset",
                                 "fiat_account_id").items()
        if len(group) > 1
    ]  # fmt: skip
    names = ("period", "profile_id", "type", "asset", "target", "count", "amount", "fee")
    assert told(fees.batching(table(rows)), *names, "single_fee", "saved") == expected


@given(rows=wires())
@laws
def test_conversions_are_summed_on_both_sides(rows: list[Row]) -> None:
    converted = []
    for row in rows:
        if row["status"] in DONE and row["balance_asset"] not in (None, row["asset"]):
            sides = [row["asset"], row["balance_asset"]]
            if row["direction"] == "DEBIT":
                sides.reverse()
            converted.append({**row, "from": sides[0], "to": sides[1]})
    expected = [
        (*name, len(group), exact_sum(row["amount"] for row in group),
         exact_sum(row["total"] for row in group),
         stamp(min(row["created_at"] for row in group)),
         stamp(max(row["created_at"] for row in group)))
        for name, group in kinds(converted, "profile_id", "direction", "from", "to").items()
    ]  # fmt: skip
    assert [tuple(row.values()) for row in records(flows.conversions(table(rows)))] == expected


@given(rows=wires())
@laws
def test_open_items_stand_in_the_bracket_of_their_age(rows: list[Row]) -> None:
    as_of = START + 2 * HOUR
    waiting = []
    for row in rows:
        age = as_of - row["created_at"]
        if row["status"] == "PENDING" and age >= 0:
            place = sum(age >= edge for edge in (MINUTE, HOUR, 2 * HOUR))
            waiting.append({**row, "place": place})
    ages = ("under 1min", "1min to 1h", "1h to 2h", "2h on")
    expected = [
        (kind, asset, ages[place], len(group), exact_sum(row["total"] for row in group),
         stamp(min(row["created_at"] for row in group)))
        for (kind, asset, place), group in kinds(waiting, "type", "asset", "place").items()
    ]  # fmt: skip
    found = flows.ageing(table(rows), "2026-01-01T02:00:00Z", ("1min", "1h", "2h"))
    assert [tuple(row.values()) for row in records(found)] == expected


@given(rows=wires())
@laws
def test_settlement_percentiles_lie_between_neighbours(rows: list[Row]) -> None:
    """Linear between the two ranks around (n - 1) p, a place that the engine holds as a float."""
    expected = []
    for (kind,), group in kinds([r for r in rows if r["status"] in DONE], "type").items():
        took = sorted(row["updated_at"] - row["created_at"] for row in group)
        points = []
        for share in (D("0.5"), D("0.9"), D("0.99")):
            place = share * (len(took) - 1)
            low = int(place)
            step = took[min(low + 1, len(took) - 1)] - took[low]
            points.append((took[low] + step * (place - low), 1 + step * len(took) / D(2**52)))
        expected.append((kind, len(took), *points, took[-1]))
    found = told(flows.settlement_time(table(rows)), "type", "count", "p50", "p90", "p99", "max")
    for row, right in zip(found, expected, strict=True):
        assert row[:2] == right[:2]
        assert row[5].value == right[5]
        for took, (point, slack) in zip(row[2:5], right[2:5], strict=True):
            assert abs(took.value - point) <= slack


# -------------------------------------------------------------------------------------- checks


@given(
    rows=wires(12),
    spoils=st.lists(
        st.sampled_from(
            [{"total": D("0.5")}, {"id": "same"}, {"id": None}, {"fee": None}, {"amount": D(-3)},
             {"status": "ODD"}, {"direction": "UP"}, {"profile_id": None}, {}]
        ),
        max_size=8,
    ),
)  # fmt: skip
@laws
def test_invariants_find_what_a_loop_finds(rows: list[Row], spoils: list[Row]) -> None:
    spoiled = [
        {**row, **(spoils[place] if place < len(spoils) else {})} for place, row in enumerate(rows)
    ]
    found = records(checks.invariants(table(spoiled)))
    seen = Counter((row["transfer_id"], row["rule"]) for row in found)
    assert seen == Counter(violations(spoiled))


def violations(rows: list[Row]) -> Any:
    required = ("id", "profile_id", "asset", "direction", "type", "status", "amount", "fee",
                "total", "created_at")  # fmt: skip
    for row in rows:
        name = row["id"]
        yield from ((name, "required") for column in required if row[column] is None)
        if row["status"] not in ("PENDING", "COMPLETED", "COMPLETE", "FAILED"):
            yield name, "status"
        if row["direction"] not in ("CREDIT", "DEBIT"):
            yield name, "direction"
        if row["direction"] != ("CREDIT" if row["type"].endswith("_DEPOSIT") else "DEBIT"):
            yield name, "direction_of_type"
        if row["direction"] in ("CREDIT", "DEBIT") and row["fee"] is not None:
            sign = -1 if row["direction"] == "CREDIT" else 1
            if row["total"] != exact_sum([row["amount"], sign * row["fee"]]):
                yield name, "total"
        for column in ("amount", "fee", "total"):
            if row[column] is not None and row[column] < 0:
                yield name, "not_negative"
        if row["updated_at"] < row["created_at"]:
            yield name, "updated_at"
    counts = Counter(row["id"] for row in rows if row["id"] is not None)
    yield from ((name, "unique_id") for name, count in counts.items() if count > 1)


@pytest.mark.seconds
@given(
    rows=wires(45),
    approved=st.dictionaries(st.sampled_from(["f1", "f2"]), st.integers(-5, 5).map(MINUTE.__mul__)),
)
@laws
def test_anomalies_are_those_of_the_rules(rows: list[Row], approved: dict[str, int]) -> None:
    accounts = pa.table(
        {
            "id": pa.array(approved, pa.string()),
            "status": pa.array(["APPROVED"] * len(approved), pa.string()),
            **dict.fromkeys(
                ("created_at", "updated_at"),
                pa.array([START + at for at in approved.values()], pa.int64()).cast(TIME),
            ),
        }
    )
    found = checks.anomalies(
        table(rows), accounts, repeated_within="1min", approved_within="1h", dormant_for="30min"
    )
    alive = [row for row in rows if row["status"] != "FAILED"]
    alive.sort(key=lambda row: (row["created_at"], row["id"]))
    expected = [*repeated(alive), *dormant(alive), *fresh(alive, approved), *unusual(alive)]
    names = ("rule", "transfer_id", "found", "related_id")
    assert sorted(told(found, *names), key=str) == sorted(expected, key=str)


def repeated(rows: list[Row]) -> Any:
    before: dict[Any, Row] = {}
    for row in rows:
        if row["direction"] == "DEBIT" and row["fiat_account_id"]:
            same = (*key(row), row["fiat_account_id"], row["amount"])
            gap = row["created_at"] - before.get(same, row)["created_at"]
            if same in before and gap <= MINUTE:
                yield "repeated_amount", row["id"], f"{gap // SECOND} s after", before[same]["id"]
            before[same] = row


@pytest.mark.parametrize("length", range(6))
def test_a_profile_wakes_after_the_length_wherever_its_gaps_are(length: int) -> None:
    """Of 300 profiles, a few nanoseconds apart, before and after 1970, some of them today."""
    random = Random(length)
    rows = [
        transfer(f"{number:03}-{random.randrange(9)}-{at}", profile_id=f"p{number}",
                 created_at=number % 2 * START + random.randrange(-9, 9))
        for number in range(300) for at in range(random.randrange(7))
    ]  # fmt: skip
    found = checks.anomalies(table(rows), dormant_for=f"{length}ns")
    rows.sort(key=lambda row: (row["created_at"], row["id"]))
    names = ("rule", "transfer_id", "found", "related_id")
    woken = [row for row in told(found, *names) if row[0] == "dormant_profile"]
    assert sorted(woken) == sorted(dormant(rows, length))
    assert len(woken) > 100


def dormant(rows: list[Row], length: int = 30 * MINUTE) -> Any:
    before: dict[str, Row] = {}
    for row in rows:
        last = before.get(row["profile_id"])
        if last is not None and row["created_at"] - last["created_at"] >= length:
            gap = (row["created_at"] - last["created_at"]) // SECOND
            yield "dormant_profile", row["id"], f"{gap} s after", last["id"]
        before[row["profile_id"]] = row


def fresh(rows: list[Row], approved: dict[str, int]) -> Any:
    for row in rows:
        account = row["fiat_account_id"]
        if row["direction"] == "DEBIT" and account in approved:
            since = row["created_at"] - START - approved[account]
            if 0 <= since < HOUR:
                yield "fresh_account", row["id"], f"{since // SECOND} s after", account


def unusual(rows: list[Row]) -> Any:
    for group in kinds(rows, "type", "asset").values():
        times = Counter(row["fee"] for row in group)
        some_usual = any(count * 20 >= len(group) for count in times.values())
        for row in group:
            if len(group) >= 20 and some_usual and times[row["fee"]] * 20 < len(group):
                text = f"{row['fee']:f}"
                plain = text.rstrip("0").rstrip(".") if "." in text else text
                yield "unusual_fee", row["id"], plain, None


# -------------------------------------------------------------------------------------- events

STATUSES = ("PENDING", "APPROVED", "DISABLED")


@st.composite
def told_events(draw: st.DrawFn) -> list[Row]:
    rows = []
    for number in range(draw(st.integers(0, 15))):
        of_transfer = draw(st.booleans())
        told = {"id": draw(st.sampled_from(["t1", "t2"])), "status": draw(st.sampled_from("AB"))}
        if not of_transfer:
            told = {"id": "o", "identity_id": draw(st.sampled_from(["i1", "i2"]))}
            if draw(st.booleans()):
                told["old_summary_status"] = draw(st.sampled_from(STATUSES))
                told["new_summary_status"] = draw(st.sampled_from(STATUSES))
        rows.append(
            {
                "id": f"e{draw(st.integers(0, 9))}{number:02}",
                "type": "transfer.wire_deposit" if of_transfer else "identity.changed",
                "object": draw(st.sampled_from([told, told, told, None])),
                "created_at": START + draw(st.integers(0, 6)),
                "undelivered_webhooks": draw(st.integers(0, 2)),
            }
        )
    return rows


def event_table(rows: list[Row]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in ("id", "type")}
    objects = [None if row["object"] is None else json.dumps(row["object"]) for row in rows]
    moments = pa.array([row["created_at"] for row in rows], pa.int64())
    waiting = [row["undelivered_webhooks"] for row in rows]
    return pa.table(
        {
            **{name: pa.array(values, pa.string()) for name, values in columns.items()},
            "object": pa.array(objects, pa.string()),
            "created_at": moments.cast(TIME),
            "undelivered_webhooks": pa.array(waiting, pa.int64()),
        }
    )


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["created_at"], row["id"]))


@given(rows=told_events(), chosen=st.sampled_from([None, "t1", "t2"]))
@laws
def test_the_timeline_is_the_events_in_order(rows: list[Row], chosen: str | None) -> None:
    expected, before = [], None
    for row in in_order(rows):
        content = row["object"] or {}
        moved = content.get("id") if row["type"].startswith("transfer.") else None
        if chosen is None or moved == chosen:
            step = None if before is None else row["created_at"] - before
            status = content.get("new_summary_status") or content.get("status")
            expected.append((row["id"], status, moved, content.get("identity_id"), step))
            before = row["created_at"]
    names = ("event_id", "status", "transfer_id", "identity_id", "since_previous")
    found = told(events.timeline(event_table(rows), transfer_id=chosen), *names)
    steps = [(*row[:4], None if row[4] is None else row[4].value) for row in found]
    assert steps == expected


@given(rows=told_events())
@laws
def test_statuses_follow_each_other_without_a_gap(rows: list[Row]) -> None:
    spells: list[list[Any]] = []
    for identity in ("i1", "i2"):
        mine: list[list[Any]] = []
        for row in in_order(rows):
            content = row["object"] or {}
            if content.get("identity_id") == identity and "new_summary_status" in content:
                if not mine:
                    mine.append([identity, content["old_summary_status"], None, None])
                mine[-1][3] = stamp(row["created_at"])
                mine.append([identity, content["new_summary_status"], mine[-1][3], None])
        spells += mine
    found = told(events.identity_statuses(event_table(rows)), "identity_id", "status", "start",
                 "end")  # fmt: skip
    assert [list(row) for row in found] == spells


@given(rows=told_events())
@laws
def test_the_backlog_is_what_was_not_delivered(rows: list[Row]) -> None:
    waiting = [row for row in in_order(rows) if row["undelivered_webhooks"]]
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in waiting:
        groups[row["type"]].append(row)
    expected = [
        (kind, len(group), sum(row["undelivered_webhooks"] for row in group),
         stamp(group[0]["created_at"]), stamp(group[-1]["created_at"]))
        for kind, group in sorted(groups.items())
    ]  # fmt: skip
    found = records(events.backlog(event_table(rows)))
    assert [tuple(row.values()) for row in found] == expected
