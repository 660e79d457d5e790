"""Transfers an analyst would want to hear of, each with the rule that it meets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis import rows as counted
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TIME,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
    wanted,
)
from fundlab.errors import AnalysisError
from fundlab.transfers import Rows, moved_asset, plain_digits

_TEXT: Final = pa.string()
_RESULT: Final = columns(
    rule=_TEXT, transfer_id=_TEXT, profile_id=_TEXT, created_at=TIME_TYPE, expected=_TEXT,
    found=_TEXT, related_id=_TEXT,
)  # fmt: skip
_ACCOUNTS: Final = wanted("fiat_accounts", id=TEXT, status=TEXT, created_at=TIME, updated_at=TIME)
USUAL_SHARE: Final = 20
"""A fee is usual where at least one transfer in so many of its kind pays it."""
ENOUGH: Final = 20
"""Fewer transfers of a kind say nothing about its usual fee."""


def anomalies(
    transfers: FrameT,
    fiat_accounts: object = None,
    repeated_within: str = "10min",
    approved_within: str = "1h",
    dormant_for: str = "90D",
) -> FrameT:
    """``rule``, ``transfer_id``, ``profile_id``, ``created_at``, ``expected``, ``found``
    (text), ``related_id``, sorted: each transfer that meets a rule, once for each; failed ones
    are left out.

    ``repeated_amount``: the same amount of an asset from one profile to one account or address
    within ``repeated_within`` of the one before (``related_id``). ``fresh_account``: a withdrawal
    to a fiat account (``related_id``) approved less than ``approved_within`` before, by
    ``updated_at`` of ``fiat_accounts``; left out without them. ``dormant_profile``: the first
    transfer of a profile after ``dormant_for`` without any (``related_id`` is the last before).
    ``unusual_fee``: a fee that fewer than one in 20 transfers of the same type, asset and network
    pay, where there are 20 or more of them and at least one fee is usual.

    The spans are pandas timedeltas. Raises :class:`AnalysisError` for missing columns and rows
    nobody can count. Interface §2.3, §2.4.

    >>> fl.checks.anomalies(transfers).empty
    True
    >>> twice = transfers.assign(amount=transfers["amount"].iloc[1], status="COMPLETED")
    >>> fl.checks.anomalies(twice, repeated_within="5D")[["rule", "transfer_id", "related_id"]]
                  rule transfer_id related_id
    0  repeated_amount          t5         t2
    """
    spans = {
        name: _span(name, value)
        for name, value in (
            ("repeated_within", repeated_within),
            ("approved_within", approved_within),
            ("dormant_for", dormant_for),
        )
    }
    want = counted.transfer_columns(
        "created_at", type=TEXT, amount=MONEY, fee=MONEY, updated_at=TIME
    )
    optional = dict.fromkeys(("fiat_account_id", "destination_address", "crypto_network"), TEXT)
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want.with_optional(optional))
        needed = ("id", "profile_id", "created_at", "fee", "amount")
        counted.refuse(bench, taken, *counted.STATES, *map(counted.gap, needed))
        rows = taken.filter(nw.col("status") != "FAILED").with_columns(asset=moved_asset())
        found = [
            _repeated(rows, spans["repeated_within"]),
            _dormant(rows, spans["dormant_for"]),
            _unusual_fees(rows),
        ]
        if fiat_accounts is not None:
            accounts = bench.take(fiat_accounts, _ACCOUNTS)
            found.append(_fresh(rows, accounts, spans["approved_within"]))
        every = nw.concat(found).sort("rule", "created_at", "transfer_id")
        result: FrameT = bench.give(every, _RESULT)
        return result


def _span(name: str, value: str) -> int:
    try:
        span = pd.Timedelta(value)
    except (ValueError, TypeError) as error:
        raise AnalysisError(f"{name}={value!r} is no span; give '10min', '1h' or '90D'") from error
    if pd.isna(span) or span < pd.Timedelta(0):
        raise AnalysisError(f"{name}={value!r}: give a span of 0 or more, such as '10min'")
    return int(span.as_unit("ns").value)


def _repeated(rows: Rows, within: int) -> Rows:
    debits = rows.filter(nw.col("direction") == "DEBIT").with_columns(
        target=nw.coalesce("fiat_account_id", "destination_address")
    )
    same = ["profile_id", "target", "asset", "amount"]
    order = ["created_at", "id"]
    told = debits.filter(~nw.col("target").is_null()).with_columns(
        before=nw.col("created_at").shift(1).over(*same, order_by=order),
        related_id=nw.col("id").shift(1).over(*same, order_by=order),
    )
    close = told.filter(nw.col("created_at") - nw.col("before") <= within)
    return _named(
        close,
        "repeated_amount",
        nw.lit(f"more than {_text(within)} between equal amounts to one account"),
        _after("before"),
    )


def _dormant(rows: Rows, quiet: int) -> Rows:
    order = ["created_at", "id"]
    told = rows.with_columns(
        before=nw.col("created_at").shift(1).over("profile_id", order_by=order),
        related_id=nw.col("id").shift(1).over("profile_id", order_by=order),
    )
    woken = told.filter(nw.col("created_at") - nw.col("before") >= quiet)
    return _named(
        woken,
        "dormant_profile",
        nw.lit(f"a transfer at least every {_text(quiet)}"),
        _after("before"),
    )


def _fresh(rows: Rows, accounts: Rows, within: int) -> Rows:
    approved = accounts.filter(nw.col("status") == "APPROVED").select(
        related_id=nw.col("id"), approved=nw.coalesce("updated_at", "created_at")
    )
    told = rows.filter(nw.col("direction") == "DEBIT").join(
        approved, left_on="fiat_account_id", right_on="related_id", how="inner"
    )
    told = told.with_columns(
        since=nw.col("created_at") - nw.col("approved"), related_id=nw.col("fiat_account_id")
    )
    soon = told.filter(nw.col("since") >= 0, nw.col("since") < within)
    expected = nw.lit(f"an account approved at least {_text(within)} before")
    return _named(soon, "fresh_account", expected, _after("approved"))


def fee_shares(rows: Rows, kind: Sequence[str]) -> Rows:
    """How many transfers of each ``kind`` pay each fee (``times``) of how many (``every``), and
    whether that makes it a ``usual`` one."""
    paid = rows.group_by(*kind, "fee").agg(times=nw.len())
    shares = paid.with_columns(every=nw.col("times").sum().over(*kind))
    return shares.with_columns(usual=nw.col("times") * USUAL_SHARE >= nw.col("every"))


def _unusual_fees(rows: Rows) -> Rows:
    kind = ["type", "asset", "network"]
    named = rows.with_columns(network=nw.coalesce(nw.col("crypto_network"), nw.lit("")))
    shares = fee_shares(named, kind).filter(nw.col("every") >= ENOUGH)
    usual = shares.filter(nw.col("usual"))
    known = usual.group_by(*kind).agg(low=nw.col("fee").min(), high=nw.col("fee").max())
    rare = shares.filter(~nw.col("usual")).join(known, on=kind, how="inner")
    odd = named.join(rare, on=[*kind, "fee"], how="inner").with_columns(
        related_id=nw.lit(None).cast(nw.String)
    )
    span = nw.concat_str(
        [plain_digits(nw.col("low")), nw.lit(" to "), plain_digits(nw.col("high"))]
    )
    expected = (
        nw.when(nw.col("low") == nw.col("high")).then(plain_digits(nw.col("low"))).otherwise(span)
    )
    return _named(odd, "unusual_fee", expected, plain_digits(nw.col("fee")))


def _named(rows: Rows, rule: str, expected: nw.Expr, found: nw.Expr) -> Rows:
    return rows.select(
        nw.lit(rule).alias("rule"),
        nw.col("id").alias("transfer_id"),
        "profile_id",
        "created_at",
        expected.alias("expected"),
        found.alias("found"),
        "related_id",
    )


def _after(before: str) -> nw.Expr:
    seconds = (nw.col("created_at") - nw.col(before)) // 1_000_000_000
    return nw.concat_str([seconds.cast(nw.Int64).cast(nw.String), nw.lit(" s after")])


def _text(span: int) -> str:
    """``1 hour``, ``90 days``."""
    parts = pd.Timedelta(span).components
    words = [f"{n:,} {unit if n != 1 else unit[:-1]}" for unit, n in parts._asdict().items() if n]
    return " ".join(words) or "0 seconds"
