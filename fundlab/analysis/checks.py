"""Rules every transfer keeps, and what looks odd: each a row of the result, with its rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import narwhals as nw
import pandas as pd

from fundlab.analysis.compare import known_of
from fundlab.analysis.counting import refuse, transfer_columns
from fundlab.analysis.engines import (
    JSON,
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
)
from fundlab.analysis.periods import length_ns
from fundlab.base.errors import AnalysisError
from fundlab.tables.transfers import (
    AMOUNTS,
    LINKS,
    TEXTS,
    TIMES,
    VIOLATION,
    Rows,
    filled,
    moved_asset,
    plain_digits,
    violations,
)

__all__ = ["anomalies", "invariants"]
__dir__ = __all__.copy  # what completion offers

_WANTED: Final = Wanted(
    "transfers",
    {
        **dict.fromkeys(TEXTS, TEXT),
        **dict.fromkeys(AMOUNTS, MONEY),
        **dict.fromkeys(TIMES, TIME),
    },
    {**dict.fromkeys(LINKS, TEXT), "auto_conversion": JSON},
)
_ACCOUNTS: Final = Wanted(
    "fiat_accounts", {"id": TEXT, "status": TEXT, "created_at": TIME, "updated_at": TIME}
)
_ANOMALY: Final = columns(
    ("rule transfer_id profile_id", TEXT_TYPE),
    ("created_at", TIME_TYPE),
    ("expected found related_id", TEXT_TYPE),
)
USUAL_SHARE: Final = 20
"""A fee is usual where at least one transfer in so many of its kind pays it; so of as many or fewer
no fee is unusual."""


def invariants(transfers: FrameT, complete: bool | None = None) -> FrameT:
    """``transfer_id``, ``rule``, ``expected``, ``found`` (text), sorted; empty when all hold. The
    same rules as in ``Store.verify``.

    Rules: ``required`` fields are there; ``status`` and ``direction`` are listed
    (others are kept when they are loaded, with a warning, but nobody can count them, so they are
    violations until somebody has looked); ``direction_of_type`` agrees with the type, where that
    is listed; ``total`` is amount less fee for credits, plus fee for debits; ``not_negative``
    holds for amount, fee and total; ``balance_asset`` is another than ``asset`` only where
    ``auto_conversion`` shows a conversion (``{}`` shows none; a frame without that column does not
    say), and never empty; ``updated_at`` is not before ``created_at``; ``unique_id`` holds;
    the ``halves`` of an internal transfer do not contradict each other (a row for each
    ``group_id``, under its first id; a half alone contradicts nothing); the other transfers that a
    ``conversion`` names are there, where the frame is ``complete``: ``False`` says that it holds
    only a part of them, such as one month; by default a frame read from a store knows.

    Raises :class:`AnalysisError` for missing columns and columns of another type.

    >>> fl.checks.invariants(transfers).empty
    True
    >>> wrong = transfers.assign(total=transfers["amount"])
    >>> fl.checks.invariants(wrong)
      transfer_id   rule expected found
    0          t2  total      225   200
    1          t5  total    100.5  75.5
    """
    if complete is None:
        complete = not isinstance(known_of(transfers, "transfers").get("since"), str)
    with Workbench(transfers) as bench:
        broken = violations(
            bench.take(transfers, _WANTED),
            collect=bench.collect,
            beside=bench.constant,
            complete=complete,
            shows_conversions="auto_conversion" in bench.names(),
        )
        return bench.give(broken.sort(*VIOLATION.names, nulls_last=True), VIOLATION)


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
    pay, where at least one fee is usual.

    The spans are pandas timedeltas. Raises :class:`AnalysisError` for missing columns and rows
    nobody can count.

    >>> fl.checks.anomalies(transfers).empty
    True
    >>> twice = transfers.assign(amount=transfers["amount"].iloc[1], status="COMPLETED")
    >>> fl.checks.anomalies(twice, repeated_within="5D")[["rule", "transfer_id", "related_id"]]
                  rule transfer_id related_id
    0  repeated_amount          t5         t2
    """
    spans = []
    for name, value in (
        ("repeated_within", repeated_within),
        ("approved_within", approved_within),
        ("dormant_for", dormant_for),
    ):
        try:
            spans.append(length_ns(value))
        except (ValueError, TypeError) as error:
            raise AnalysisError(
                f"{name}={value!r} is not a valid span of 0 or more; give '10min', '1h' or '90D'"
            ) from error
    repeated, approved, dormant = spans
    optional = ("fiat_account_id", "destination_address", "crypto_network")
    want = transfer_columns(
        "created_at", optional, type=TEXT, amount=MONEY, fee=MONEY, updated_at=TIME
    )
    with Workbench(transfers) as bench:
        taken = bench.take(transfers, want)
        needed = ("id", "profile_id", "created_at", "fee", "amount")
        refuse(bench, taken, needed, uncountable=True)
        rows = taken.filter(nw.col("status") != "FAILED").with_columns(asset=moved_asset())
        debits = rows.filter(nw.col("direction") == "DEBIT").with_columns(
            target=filled("fiat_account_id", "destination_address")
        )
        again = _beside_the_one_before(
            debits.filter(~nw.col("target").is_null()), "profile_id", "target", "asset", "amount"
        ).filter(nw.col("apart") <= repeated)
        expected = f"more than {_words(repeated)} between equal amounts to one account"
        anomalies = [_anomaly(again, "repeated_amount", nw.lit(expected))]

        woken = _beside_the_one_before(_around_gaps(rows, dormant), "profile_id")
        woken = woken.filter(nw.col("woken") == 1, nw.col("apart") >= dormant)
        expected = f"a transfer at least every {_words(dormant)}"
        anomalies.append(_anomaly(woken, "dormant_profile", nw.lit(expected)))

        kind = ["type", "asset", "network"]
        of_kind = rows.with_columns(network=nw.coalesce(nw.col("crypto_network"), nw.lit("")))
        shares = fee_shares(of_kind, kind)
        usual = shares.filter(nw.col("usual"))
        known = usual.group_by(*kind).agg(low=nw.col("fee").min(), high=nw.col("fee").max())
        rare = shares.filter(~nw.col("usual")).join(known, on=kind, how="inner")
        odd = of_kind.join(rare, on=[*kind, "fee"], how="inner").with_columns(
            related_id=nw.lit(None).cast(nw.String)
        )
        low, high = plain_digits(nw.col("low")), plain_digits(nw.col("high"))
        both = nw.concat_str([low, nw.lit(" to "), high])
        usual_fees = nw.when(nw.col("low") == nw.col("high")).then(low).otherwise(both)
        anomalies.append(_anomaly(odd, "unusual_fee", usual_fees, plain_digits(nw.col("fee"))))

        if fiat_accounts is not None:
            accounts = bench.take(fiat_accounts, _ACCOUNTS)
            accounts = accounts.filter(nw.col("status") == "APPROVED").select(
                fiat_account_id="id", approved=nw.coalesce("updated_at", "created_at")
            )
            fresh = debits.join(accounts, on="fiat_account_id", how="inner").with_columns(
                apart=nw.col("created_at") - nw.col("approved"), related_id="fiat_account_id"
            )
            fresh = fresh.filter(nw.col("apart") >= 0, nw.col("apart") < approved)
            expected = f"an account approved at least {_words(approved)} before"
            anomalies.append(_anomaly(fresh, "fresh_account", nw.lit(expected)))
        every = nw.concat(anomalies).sort("rule", "created_at", "transfer_id")
        return bench.give(every, _ANOMALY)


def _words(nanoseconds: int) -> str:
    """``1 hour``, ``90 days``."""
    parts = pd.Timedelta(nanoseconds).components._asdict().items()
    return (
        " ".join(f"{n:,} {unit if n != 1 else unit[:-1]}" for unit, n in parts if n) or "0 seconds"
    )


def _around_gaps(rows: Rows, length: int) -> Rows:
    """Those at the two moments around each gap of ``length`` (ns) and more between rows of a
    profile, with ``woken``: 1 at its end. To put all rows in order takes twenty times as long."""
    if not length:
        return rows.with_columns(woken=nw.lit(1))
    # Within a part, be it the one around 0 of an engine whose rest may be negative, no gap is as
    # long. (A quotient of such integers is not exact on Spark.)
    part = nw.col("created_at") - nw.col("created_at") % max(length // 2, 1)
    parts = rows.with_columns(part=part).group_by("profile_id", "part")
    spans = parts.agg(first=nw.col("created_at").min(), last=nw.col("created_at").max())
    before = nw.col("last").shift(1).over("profile_id", order_by="first")
    gaps = spans.with_columns(before=before).filter(nw.col("first") - nw.col("before") >= length)
    ends = [gaps.select("profile_id", created_at=name, woken=nw.lit(flag))
            for name, flag in (("first", 1), ("before", 0))]  # fmt: skip
    moments = nw.concat(ends).group_by("profile_id", "created_at").agg(nw.col("woken").max())
    return rows.join(moments, on=["profile_id", "created_at"], how="inner")


def _beside_the_one_before(rows: Rows, *same: str) -> Rows:
    """How far ``apart`` each row was made from the one before with the ``same`` values, and the id
    of that one (``related_id``)."""
    order = ["created_at", "id"]
    before = nw.col("created_at").shift(1).over(*same, order_by=order)
    related = nw.col("id").shift(1).over(*same, order_by=order)
    return rows.with_columns(before=before, related_id=related).with_columns(
        apart=nw.col("created_at") - nw.col("before")
    )


def fee_shares(rows: Rows, kind: Sequence[str]) -> Rows:
    """How many transfers of each ``kind`` pay each fee (``times``) of how many (``every``), and
    whether that makes it a ``usual`` one."""
    paid = rows.group_by(*kind, "fee").agg(times=nw.len())
    shares = paid.with_columns(every=nw.col("times").sum().over(*kind))
    return shares.with_columns(usual=nw.col("times") * USUAL_SHARE >= nw.col("every"))


def _anomaly(rows: Rows, rule: str, expected: nw.Expr, found: nw.Expr | None = None) -> Rows:
    """``found`` is by default how long after another moment the row was made (``apart``)."""
    if found is None:
        seconds = (nw.col("apart") // 1_000_000_000).cast(nw.Int64).cast(nw.String)
        found = nw.concat_str([seconds, nw.lit(" s after")])
    return rows.select(
        "profile_id",
        "created_at",
        "related_id",
        rule=nw.lit(rule),
        transfer_id=nw.col("id"),
        expected=expected,
        found=found,
    ).select(*_ANOMALY.names)
