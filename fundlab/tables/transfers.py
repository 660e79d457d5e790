"""What a transfer means, once: whether it counts, for which asset, by how much, and which rules
its row must keep (interface §2.4, decisions on money). A fee is never negative: a credit's total is
its amount less the fee, a debit's the amount and the fee (``right_total_of``), and the direction
gives the total its sign (``change``).

Each fact is an expression that runs on every engine. Where the package also looks at rows one by
one, or at Arrow columns, a function beside it says the same; a property test holds them to each
other. How statuses are spelled and which direction belongs to a type are facts of the
enumerations: see ``fundlab.models``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.models import COMPLETED, DIRECTIONS, INTERNAL_TYPES, STATUSES, Direction, TransferType
from fundlab.tables.expand import member
from fundlab.tables.schema import SETTLED_AT as SETTLED_AT

View = Literal["ledger", "available"]
Basis = Literal["settled", "created"]
"""By what a transfer belongs to a period: when it settled, or when it was created."""
Rows = nw.LazyFrame[Any]

MOMENTS: Final[Mapping[Basis, str]] = {"settled": SETTLED_AT, "created": "created_at"}
"""The column that says when a completed transfer happened, on each basis."""

_DEBIT, _CREDIT = INTERNAL_TYPES
_MONEY: Final = nw.Decimal(38, 18)
ZERO: Final = nw.lit(0).cast(_MONEY)
_LARGEST: Final = "9" * 20 + "." + "9" * 18

# ------------------------------------------------------------------ what it does to a balance


def moved_asset() -> nw.Expr:
    """The asset whose balance changes."""
    return nw.coalesce(nw.col("balance_asset"), nw.col("asset"))


def moved_asset_in(rows: pa.Table) -> pa.ChunkedArray:
    """The same of Arrow columns, plain or dictionary-coded."""
    asset, other = rows.column("asset"), rows.column("balance_asset")
    if other.null_count == len(other):
        return asset
    return pc.coalesce(other.cast(pa.string()), asset.cast(pa.string())).dictionary_encode()


def counts(view: View) -> nw.Expr:
    """Whether it changes the balance: completed transfers do, failed ones never; a pending debit
    is held back, so it changes ``available``."""
    completed = nw.col("status").is_in(COMPLETED)
    if view == "ledger":
        return completed
    return completed | ((nw.col("status") == "PENDING") & (nw.col("direction") == "DEBIT"))


def does_count(status: str | None, direction: str | None, view: View) -> bool:
    held = view == "available" and status == "PENDING" and direction == "DEBIT"
    return held or status in COMPLETED


def change(of: str = "total") -> nw.Expr:
    """By how much: ``total``, or another column, added for a credit, taken for a debit."""
    added = nw.when(nw.col("direction") == "CREDIT").then(nw.col(of))
    return added.otherwise(ZERO - nw.col(of))


def is_taken(direction: str | None) -> bool:
    """Whether its change is less than nothing, as that of a debit."""
    return direction != "CREDIT"


def change_of(direction: str, total: int) -> int:
    """In units of 10^-18."""
    return -total if is_taken(direction) else total


def held_or_settled() -> nw.Expr:
    """When it changes what is available: a debit when it is made, a credit when it settles."""
    made = nw.when(nw.col("direction") == "DEBIT").then(nw.col("created_at"))
    return made.otherwise(nw.col(SETTLED_AT))


def placed_at(basis: Basis) -> nw.Expr:
    """When it belongs to a period: on the settled basis what has not settled, or failed, does when
    it is made."""
    created = nw.col(MOMENTS["created"])
    return created if basis == "created" else nw.coalesce(nw.col(SETTLED_AT), created)


def inflow() -> nw.Expr:
    """What it brings, unsigned; see :func:`outflow`."""
    return nw.when(nw.col("direction") == "CREDIT").then(nw.col("total")).otherwise(ZERO)


def outflow() -> nw.Expr:
    return nw.when(nw.col("direction") == "CREDIT").then(ZERO).otherwise(nw.col("total"))


LINES: Final = (
    "opening", "restatement", "receipt", "disbursement", "conversion", "internal", "fee",
    "unexplained", "closing",
)  # fmt: skip
"""Of a roll-forward, in their order; receipts and disbursements by type."""


def line() -> nw.Expr:
    """On which of :data:`LINES` a completed transfer's amount stands, by what moved it."""
    converted = nw.coalesce(nw.col("balance_asset") != nw.col("asset"), nw.lit(False))
    credit = nw.when(nw.col("direction") == "CREDIT").then(nw.lit("receipt"))
    outer = credit.otherwise(nw.lit("disbursement"))
    inner = nw.when(nw.col("type").is_in(INTERNAL_TYPES)).then(nw.lit("internal")).otherwise(outer)
    return nw.when(converted).then(nw.lit("conversion")).otherwise(inner)


def has_right_total() -> nw.Expr:
    """Whether ``total`` is amount less fee for a credit, amount plus fee for a debit. Written so
    that no amount of the interface overflows."""
    amount, fee, total = (nw.col(name) for name in ("amount", "fee", "total"))
    credit = nw.when(nw.col("direction") == "CREDIT").then(amount - fee == total)
    return credit.otherwise(total - fee == amount)


def right_total_of(direction: str, amount: int, fee: int) -> int:
    """In units of 10^-18."""
    return amount + fee if is_taken(direction) else amount - fee


def goes_against_its_type(direction: Direction) -> nw.Expr:
    """Whether it goes the other way, though its type is one that goes in ``direction``."""
    types = [kind.value for kind in TransferType if kind.direction is direction]
    return nw.col("type").is_in(types) & (nw.col("direction") != direction.value)


def direction_of_type(kind: str) -> Direction | None:
    """``None`` for a type that the interface does not list: its name promises nothing."""
    return TransferType(kind).direction if kind in TransferType.__members__ else None


def filled(*names: str) -> nw.Expr:
    """The first of these optional texts that is there; one that is empty is not."""
    return nw.coalesce(*(nw.when(nw.col(name) != "").then(nw.col(name)) for name in names))


def is_half() -> nw.Expr:
    """Whether it is one half of an internal transfer, and says of which group."""
    return nw.col("type").is_in(INTERNAL_TYPES) & (nw.col("group_id") != "")


def plain_digits(amount: nw.Expr) -> nw.Expr:
    """``10.500000000000000000`` as ``10.5``."""
    digits = amount.cast(nw.String).str.replace_all("0+$", "")
    return digits.str.replace_all("[.]$", "")


# ------------------------------------------------------------------- which rules a row must keep

TEXTS: Final = ("id", "profile_id", "asset", "direction", "type", "status")
AMOUNTS: Final = ("amount", "fee", "total")
TIMES: Final = ("created_at", "updated_at")
LINKS: Final = ("balance_asset", "group_id", "auto_conversion")
"""Optional; ``auto_conversion`` as JSON text."""
RULED: Final = (*TEXTS, *AMOUNTS, *TIMES, *LINKS)
VIOLATION: Final = pa.schema(
    [(name, pa.string()) for name in ("transfer_id", "rule", "expected", "found")]
)
_END: Final = pa.schema([(name, pa.string()) for name in ("transfer_id", "member", "end")])


class Rule(NamedTuple):
    """When a row is ``broken``, and what is said of it then."""

    name: str
    broken: nw.Expr
    expected: nw.Expr
    found: nw.Expr


def violations(
    rows: Rows,
    *,
    collect: Callable[[Rows], pa.Table],
    beside: Callable[[pa.Table], Rows],
    complete: bool,
    shows_conversions: bool = True,
) -> Rows:
    """``transfer_id``, ``rule``, ``expected``, ``found`` for each rule that a row breaks.

    ``rows`` have the columns ``RULED``: text, ``DECIMAL(38, 18)``, times as integer nanoseconds.
    ``collect`` takes rows out of their engine, ``beside`` brings a small table to it. ``complete``
    is false where not all transfers are there, ``shows_conversions`` where ``auto_conversion`` was
    not asked for.
    """
    often = rows.filter(~nw.col("id").is_null()).group_by("id").agg(rows=nw.len())
    times = nw.concat_str([nw.col("rows").cast(nw.String), nw.lit(" rows")])
    unique = Rule("unique_id", nw.col("rows") > 1, nw.lit("1 row"), times)
    broken = [_broken(often, unique), *broken_rows(rows, collect, shows_conversions)]
    broken += broken_groups(rows, collect)
    ends = conversion_ends(collect(linked(rows))) if complete else _END.empty_table()
    if ends.num_rows:
        known = rows.select(end=nw.col("id"))
        broken.append(loose(beside(ends).join(known, on="end", how="anti")))
    return nw.concat(broken)


def broken_rows(
    rows: Rows, collect: Callable[[Rows], pa.Table], shows_conversions: bool = True
) -> list[Rows]:
    """Those of :func:`violations` that a row breaks by itself."""
    rules = [*_of_one_row()]
    if shows_conversions:
        # Another asset than the transfer's, though no conversion made it another: {} is what
        # deposits carry that no rule converted.
        asset, other = nw.col("asset"), nw.col("balance_asset")
        converted = nw.col("auto_conversion").str.contains('^[ \t\r\n]*[{][ \t\r\n]*"')
        wrong = (other != "") & (other != asset) & ~nw.coalesce(converted, nw.lit(False))
        same = nw.concat_str([asset, nw.lit(", as no auto_conversion makes it another")])
        rules.append(Rule("balance_asset", wrong, same, other))
    return _those_broken(rows, rules, collect)


def broken_groups(rows: Rows, collect: Callable[[Rows], pa.Table]) -> list[Rows]:
    """Those of :func:`violations` that the halves of an internal transfer break together."""
    return _those_broken(_groups_of_halves(rows), [*_of_halves()], collect)


def _those_broken(
    rows: Rows, rules: Sequence[Rule], collect: Callable[[Rows], pa.Table]
) -> list[Rows]:
    """One pass says which rules are broken at all: mostly none, and each that is takes another."""
    broken = [nw.when(rule.broken).then(nw.lit(1)).count() for rule in rules]
    counts = collect(rows.select(one.alias(str(n)) for n, one in enumerate(broken)))
    found = zip(rules, counts.to_pydict().values(), strict=True)
    return [_broken(rows, rule) for rule, (count,) in found if count]


def linked(rows: Rows) -> Rows:
    """``id`` and ``auto_conversion`` of the rows whose conversion names another transfer."""
    names = nw.col("auto_conversion").str.contains("_transfer_id", literal=True)
    return rows.filter(names).select("id", "auto_conversion")


def loose(ends: Rows) -> Rows:
    """Those of :func:`violations` that the ``ends`` of conversions are which are not there."""
    expected = nw.concat_str([nw.lit("a transfer that is there in "), nw.col("member")])
    end = nw.col("end")
    rule = Rule("conversion", ~end.is_null(), expected, end)
    return _broken(ends.with_columns(id=nw.col("transfer_id")), rule)


def _of_one_row() -> Iterator[Rule]:
    for name in (*TEXTS, *AMOUNTS, "created_at"):  # live answers leave updated_at unset
        needed = nw.lit(f"a value in {name}")
        yield Rule("required", nw.col(name).is_null(), needed, nw.lit("nothing"))
    for name in ("profile_id", "asset"):
        needed = nw.lit(f"a value in {name}")
        yield Rule("required", nw.col(name) == "", needed, nw.lit("an empty text"))
    # A status nobody listed is kept by the loaders, but cannot be counted: no balance is sure
    # until somebody has looked. An unlisted type or network counts as any other.
    for name, known in (("status", STATUSES), ("direction", DIRECTIONS)):
        unlisted = ~nw.col(name).is_in(known)
        yield Rule(name, unlisted, nw.lit(" or ".join(known)), nw.col(name))
    for direction in Direction:
        wrong = goes_against_its_type(direction)
        yield Rule("direction_of_type", wrong, nw.lit(direction.value), nw.col("direction"))
    amount, fee = nw.col("amount"), nw.col("fee")
    # One branch after the other, as neither the sum nor the room left for it may overflow.
    total = plain_digits(amount + fee)
    room = nw.when(fee <= nw.lit(_LARGEST).cast(_MONEY) - amount).then(total)
    fits = nw.when((amount <= 0) | (fee <= 0)).then(total)
    more = fits.otherwise(room.otherwise(nw.lit("more than 20 integer digits")))
    credit = nw.when(nw.col("direction") == "CREDIT").then(plain_digits(amount - fee))
    wrong = nw.col("direction").is_in(DIRECTIONS) & ~has_right_total()
    yield Rule("total", wrong, credit.otherwise(more), plain_digits(nw.col("total")))
    for name in AMOUNTS:
        at_least = nw.lit(f"{name} of 0 or more")
        yield Rule("not_negative", nw.col(name) < 0, at_least, plain_digits(nw.col(name)))
    empty = nw.col("balance_asset") == ""
    yield Rule("balance_asset", empty, nw.lit("an asset or nothing"), nw.lit("an empty text"))
    early = nw.col("updated_at") < nw.col("created_at")
    gap = nw.col("created_at") - nw.col("updated_at")
    seconds = nw.concat_str([(gap // 10**9).cast(nw.String), nw.lit(" s before created_at")])
    short = nw.concat_str([gap.cast(nw.String), nw.lit(" ns before created_at")])
    before = nw.when(gap >= 10**9).then(seconds).otherwise(short)
    yield Rule("updated_at", early, nw.lit("created_at or later"), before)


def _groups_of_halves(rows: Rows) -> Rows:
    """A line for each group of internal transfers, under its first id."""
    internal = rows.filter(is_half())
    failed = nw.coalesce(nw.col("status") == "FAILED", nw.lit(False))
    sides: dict[str, nw.Expr] = {}
    for side, kind in (("debit", _DEBIT), ("credit", _CREDIT)):
        mine = nw.col("type") == kind
        stands = nw.when(mine & ~failed)
        sides |= {
            f"{side}s": stands.then(nw.lit(1)).otherwise(nw.lit(0)),
            f"failed_{side}s": nw.when(mine & failed).then(nw.lit(1)).otherwise(nw.lit(0)),
            f"{side}_amount": stands.then(nw.col("amount")),
            f"{side}_asset": stands.then(nw.col("asset")),
        }
    done = nw.when(nw.col("status").is_in(COMPLETED)).then(nw.lit(1)).otherwise(nw.lit(0))
    return (
        internal.with_columns(**sides, done=done)
        .group_by("group_id")
        .agg(
            nw.col("id").min(),
            nw.col("done").sum(),
            *(nw.col(n).sum() for n in sides if n.endswith("s")),
            *(nw.col(n).max() for n in sides if not n.endswith("s")),
        )
    )


def _of_halves() -> Iterator[Rule]:
    """Groups whose halves contradict each other. A half alone does not: the other one may belong to
    a profile that is not ours to see. Nor does a half that failed beside one that counts, as after
    another try."""
    debits, credits_ = nw.col("debits"), nw.col("credits")

    def of_group(text: str) -> nw.Expr:
        return nw.concat_str([nw.lit(f"{text} in group "), nw.col("group_id")])

    repeated = (debits > 1) | (credits_ > 1)
    number = [
        debits.cast(nw.Int64).cast(nw.String), nw.lit(" and "),
        credits_.cast(nw.Int64).cast(nw.String), nw.lit(" that did not fail"),
    ]  # fmt: skip
    yield Rule("halves", repeated, of_group("one debit and one credit"), nw.concat_str(number))
    differ = nw.col("debit_amount") != nw.col("credit_amount")
    differ = differ | (nw.col("debit_asset") != nw.col("credit_asset"))
    unequal = (debits == 1) & (credits_ == 1) & differ
    amounts = []
    for side in ("debit", "credit"):
        asset = nw.coalesce(nw.col(f"{side}_asset"), nw.lit("of no asset"))
        amount = plain_digits(nw.col(f"{side}_amount"))
        amount = nw.coalesce(amount, nw.lit("nothing"))
        amounts += [nw.lit(f"{side} "), amount, nw.lit(" "), asset, nw.lit(", ")]
    yield Rule("halves", unequal, of_group("equal amounts"), nw.concat_str(amounts[:-1]))
    alone = (debits + credits_ == 1) & (nw.col("done") == 1)
    for side, other in (("debit", "credit"), ("credit", "debit")):
        half = alone & (nw.col(f"{side}s") == 1) & (nw.col(f"failed_{other}s") > 0)
        found = nw.lit(f"the {side} completed, the {other} failed")
        yield Rule("halves", half, of_group("both completed or both failed"), found)


def conversion_ends(links: pa.Table) -> pa.Table:
    """``transfer_id``, ``member``, ``end``: the other transfers that conversions name."""
    ends = [
        (row_id, name, end)
        for batch in links.to_batches()
        for row_id, text in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        for name in ("from_transfer_id", "to_transfer_id")
        if (end := member(text, name, of_id=True)) and end != row_id
    ]
    columns = zip(*ends, strict=True) if ends else [()] * len(_END)
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=_END)


def _broken(rows: Rows, rule: Rule) -> Rows:
    return rows.filter(rule.broken).select(
        nw.col("id").alias("transfer_id"),
        nw.lit(rule.name).alias("rule"),
        rule.expected.alias("expected"),
        rule.found.alias("found"),
    )
