"""Invariants every transfer keeps, and what looks odd: each a row of the result, with its rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import narwhals as nw
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.anomalies import anomalies
from fundlab.analysis.engines import MONEY, TEXT, TIME, FrameT, Workbench, columns
from fundlab.analysis.rows import Rows
from fundlab.models import Direction, TransferType

__all__ = ["anomalies", "invariants"]

_TEXT: Final = pa.string()
_RESULT: Final = columns(transfer_id=_TEXT, rule=_TEXT, expected=_TEXT, found=_TEXT)
_REQUIRED: Final = (
    "id", "profile_id", "asset", "direction", "type", "status", "amount", "fee", "total",
    "created_at", "updated_at",
)  # fmt: skip


def invariants(transfers: FrameT) -> FrameT:
    """``transfer_id``, ``rule``, ``expected``, ``found`` (text), sorted; empty when all hold.

    Rules (interface §2.4): ``required`` fields are there; ``status`` and ``direction`` are
    known; ``direction_of_type`` agrees with the type; ``total`` is amount less fee for credits,
    plus fee for debits; ``not_negative`` holds for amount, fee and total; ``updated_at`` is not
    before ``created_at``; ``unique_id`` holds.

    >>> fl.checks.invariants(transfers).empty
    True
    >>> wrong = transfers.assign(total=transfers["amount"])
    >>> fl.checks.invariants(wrong)
      transfer_id   rule expected found
    0          t2  total      225   200
    1          t5  total    100.5  75.5
    """
    want = counted.transfer_columns(
        "created_at", type=TEXT, amount=MONEY, fee=MONEY, updated_at=TIME
    )
    with Workbench(transfers) as bench:
        rows = bench.take(transfers, want)
        found = nw.concat([violations.select(*_RESULT.names) for violations in _violations(rows)])
        result: FrameT = bench.give(found.sort(*_RESULT.names, nulls_last=True), _RESULT)
        return result


def _violations(rows: Rows) -> Iterator[Rows]:
    for name in _REQUIRED:
        missing = rows.filter(nw.col(name).is_null())
        yield _named(missing, "required", nw.lit(f"a value in {name}"), nw.lit("nothing"))
    for name, known in (("status", counted.STATUSES), ("direction", counted.DIRECTIONS)):
        strange = rows.filter(~nw.col(name).is_in(known))
        yield _named(strange, name, nw.lit(" or ".join(known)), nw.col(name))
    for direction in Direction:
        types = [kind.value for kind in TransferType if kind.direction is direction]
        wrong = rows.filter(nw.col("type").is_in(types), nw.col("direction") != direction.value)
        yield _named(wrong, "direction_of_type", nw.lit(direction.value), nw.col("direction"))
    yield _wrong_totals(rows)
    for name in ("amount", "fee", "total"):
        negative = rows.filter(nw.col(name) < 0)
        yield _named(
            negative, "not_negative", nw.lit(f"{name} of 0 or more"), counted.plain_digits(name)
        )
    early = rows.filter(nw.col("updated_at") < nw.col("created_at"))
    gap = (nw.col("created_at") - nw.col("updated_at")).cast(nw.String)
    before = nw.concat_str([gap, nw.lit(" ns before created_at")])
    yield _named(early, "updated_at", nw.lit("created_at or later"), before)
    named = rows.filter(~nw.col("id").is_null())
    counts = named.group_by("id").agg(count=nw.len()).filter(nw.col("count") > 1)
    often = nw.concat_str([nw.col("count").cast(nw.String), nw.lit(" rows")])
    yield _named(counts, "unique_id", nw.lit("1 row"), often)


def _wrong_totals(rows: Rows) -> Rows:
    credit = nw.when(nw.col("direction") == "CREDIT")
    right = credit.then(nw.col("amount") - nw.col("fee")).otherwise(
        nw.col("amount") + nw.col("fee")
    )
    known = rows.filter(nw.col("direction").is_in(counted.DIRECTIONS)).with_columns(right=right)
    wrong = known.filter(nw.col("total") != nw.col("right"))
    return _named(wrong, "total", counted.plain_digits("right"), counted.plain_digits("total"))


def _named(rows: Rows, rule: str, expected: nw.Expr, found: nw.Expr) -> Rows:
    return rows.select(
        nw.col("id").alias("transfer_id"),
        nw.lit(rule).alias("rule"),
        expected.alias("expected"),
        found.alias("found"),
    )
