"""Amounts in one currency, by prices that somebody gave: the service with a transfer, or a file.

What is valued is no part of the proof: balances are rebuilt and compared, a price is only said."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from fundlab.analysis.counting import completed, transfer_columns
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
    to_pandas,
)
from fundlab.analysis.periods import length_ns, with_period
from fundlab.base.arrow import AMOUNT_TYPE
from fundlab.base.errors import (
    AnalysisError,
    UnpricedWarning,
    first_line,
    listed,
    number_of,
    shorten,
)
from fundlab.base.periods import DAY, moment_or_close
from fundlab.base.values import length_text, moment_ns, overflow
from fundlab.evidence.table_store import TableStore
from fundlab.tables.transfers import Rows, moved_asset

if TYPE_CHECKING:
    import duckdb

__all__ = ["of", "totals"]
__dir__ = __all__.copy  # what completion offers

SERVICE_CURRENCY: Final = "USD"
"""That of ``notional_value`` (interface §2.4)."""
MAX_AGE: Final = "7D"
SMALLEST: Final = 100
"""What a transfer must be worth for its price to value others: ``notional_value`` has whole cents,
so that below it a price would be known to less than a hundredth of a per cent."""
_MONEY_COLUMNS: Final = (
    "balance", "available", "trading", "opening", "inflow", "outflow", "net", "closing", "held",
    "rebuilt", "reported", "amount", "fee", "total",
)  # fmt: skip
_TIMES: Final = ("created_at", "at", "observed_at")
_FILE: Final = Wanted("prices", {"asset": TEXT, "at": TIME, "price": MONEY}, {"currency": TEXT})
_SAID: Final = dict.fromkeys(("notional_value", "amount", "fee"), MONEY)
_TRANSFERS: Final = Wanted("prices", {"asset": TEXT, "created_at": TIME, **_SAID})
_ADDED: Final = columns(
    ("price", AMOUNT_TYPE), ("price_from", TEXT_TYPE), ("price_age", pa.duration("ns"))
)
_BATCH: Final = 122_880
"""Rows that are valued at once; DuckDB reads as many together."""
_NEVER: Final = -(2**63)
_WIDE: Final = pa.decimal256(38, 18)
_FACTOR: Final = pa.decimal256(37, 18)  # two of them have the 76 digits that Arrow holds


def of(
    frame: FrameT,
    currency: str = SERVICE_CURRENCY,
    prices: object = None,
    max_age: str | timedelta = MAX_AGE,
    amounts: Sequence[str] | None = None,
    at: str | datetime | None = None,
) -> FrameT:
    """The rows of ``frame`` with ``price`` (decimal), ``price_from`` (text), ``price_age``
    (duration), and for each of ``amounts`` the column ``<name>_value``: exact, in ``currency``.

    A transfer has its ``own`` price, ``notional_value`` by amount and fee, cut after 18 decimals;
    what is all of it is worth ``notional_value`` itself. Other rows have the newest price at or
    before them, from the ``transfers`` worth 100 and more, of ``frame`` or ``prices``, or a price
    ``given``; the currency itself is worth 1 (``currency``). One that is older than ``max_age`` is
    not used: price and values are missing then, and an :class:`UnpricedWarning` names the assets.
    Products are rounded half-even at 18 places.

    ``prices`` is one or several of: transfers, a ``Store`` or its path; a frame with ``asset``,
    ``at``, ``price`` and maybe ``currency`` (the others are left out), or a CSV or Parquet file of
    these. The service says dollars: in another currency only prices ``given`` count. ``at`` is the
    column of times of ``frame`` (by default ``created_at``, ``at`` or ``observed_at``), or one
    moment for all, of a bare date its close (UTC). ``amounts`` are of the asset whose balance
    changes; by default of transfers ``total`` and ``fee``, else the usual names. All rows are
    collected. Raises :class:`AnalysisError` for columns and prices that cannot be used,
    ``OverflowError`` for a value beyond 20 integer digits.

    >>> prices = pd.DataFrame({"asset": ["ETH"], "at": transfers["created_at"].head(1),
    ...                        "price": pd.array(["2500"], dtype="decimal")})
    >>> held = fl.balances.at(transfers.assign(asset="ETH"), "2026-10-03T12:00:00Z")
    >>> fl.value.of(held, prices=prices, at="2026-10-03T12:00:00Z").iloc[0, 1:]
    asset                       ETH
    balance                     715
    price                      2500
    price_from                given
    price_age       2 days 03:00:00
    balance_value           1787500
    Name: 0, dtype: object
    """
    valued_rows, unpriced = valued(frame, currency, prices, max_age, amounts, at)
    if unpriced:
        warnings.warn(unpriced, UnpricedWarning, stacklevel=2)
    return valued_rows


def valued(
    frame: FrameT,
    currency: str = SERVICE_CURRENCY,
    prices: object = None,
    max_age: str | timedelta = MAX_AGE,
    amounts: Sequence[str] | None = None,
    at: str | datetime | None = None,
) -> tuple[FrameT, str]:
    """What :func:`of` gives, and its warning (empty where every row has a price)."""
    limit = checked_age(max_age)
    with Workbench(frame) as bench, _fitting():
        names = bench.names()
        moves = {"direction", "total"}.issubset(names)
        said = {*_SAID, "created_at"}.issubset(names) and currency == SERVICE_CURRENCY
        if amounts is None:
            usual = ("total", "fee") if moves else _MONEY_COLUMNS
            amounts = [name for name in usual if name in names]
        amounts = [*amounts]
        when = at if at is not None else next((name for name in _TIMES if name in names), None)
        if when is None and amounts:
            raise AnalysisError(
                "the frame does not say at what time to value its amounts: it has no column "
                f"{', '.join(_TIMES[:-1])} or {_TIMES[-1]} among {', '.join(names)}; give a moment "
                'for all of them, such as fl.value.of(held, at="2026-10-31", prices=transfers), or '
                "the name of another column, as at="
            )
        if not amounts:
            raise AnalysisError(
                f"the frame has no amount to value; its columns are {', '.join(names)}"
            )
        by_column = isinstance(when, str) and when in names
        want = {"asset": TEXT, **dict.fromkeys(amounts, MONEY), **(_SAID if said else {})}
        want |= {str(when): TIME} if by_column else {}
        rows = bench.collect(
            bench.take(frame, Wanted("the frame", want, {"balance_asset": TEXT}), keep=True)
        )
        sources = [*prices] if isinstance(prices, list | tuple) else [prices]
        points = [_points(source, currency) for source in sources if source is not None]
        if said:
            points.append(_points(frame, currency))
        known_at = (
            str(when) if by_column else moment_or_close(cast("str | datetime", when), "at", "UTC")
        )
        rows, unpriced = _with_values(rows, points, known_at, amounts, currency, limit, own=said)
        if bench.lazy:
            place = rows.column_names.index("price_age")
            rows = rows.set_column(place, "price_age", rows.column(place).cast(pa.duration("ns")))
        values = {f"{name}_value": AMOUNT_TYPE for name in amounts}
        types = dict(zip(_ADDED.names, _ADDED.types, strict=True)) | values
        return bench.give_rows(bench.constant(rows), types), unpriced


def totals(
    valued: FrameT,
    by: str | Sequence[str] = ("asset",),
    freq: str | None = None,
    tz: str = "UTC",
    at: str = "created_at",
) -> FrameT:
    """Sums of what :func:`of` gave: the columns ``by`` (texts, none for one sum of all; and
    ``period``, with ``freq``, a pandas offset alias), ``count``, ``priced`` (int64), and every
    ``<name>_value`` (decimal) of the rows that are priced, missing where none is, sorted. Of
    transfers the completed ones count, by the times ``at``, under the asset whose balance changes.

    Raises :class:`AnalysisError` for missing columns, and for balances observed several times.

    >>> dollars = fl.value.of(transfers.assign(notional_value=None))
    >>> fl.value.totals(dollars, by=["direction", "asset"])
      direction asset  count  priced  total_value  fee_value
    0    CREDIT   USD      2       2         1060          0
    1     DEBIT   USD      2       2          285         25
    >>> fl.value.totals(dollars, by=())
       count  priced  total_value  fee_value
    0      4       4         1345         25
    """
    groups = [by] if isinstance(by, str) else [*by]
    with Workbench(valued) as bench:
        values = [n for n in bench.names() if n.endswith("_value") and n != "notional_value"]
        want = {**dict.fromkeys(groups, TEXT), **dict.fromkeys(("price", *values), MONEY)}
        observed = {"profile_id", "asset", "observed_at"}.issubset(bench.names())
        once = ("profile_id", "asset") if observed else ()
        if "status" in bench.names():
            rows = completed(bench, valued, transfer_columns(at, **want), at)
            rows = rows.with_columns(asset=moved_asset())
        else:
            want |= dict.fromkeys(once, TEXT) | ({} if freq is None else {at: TIME})
            rows = bench.take(valued, Wanted("valued", want))
        if once:
            times = bench.collect(rows.group_by(*once).agg(times=nw.len().cast(nw.Int64)))
            if any(number > 1 for number in times.column("times").to_pylist()):
                raise AnalysisError(
                    f"valued has {pc.sum(times.column('times')).as_py():,} observations of "
                    f"{len(times):,} balances, and a sum would count each several times: keep the "
                    "last, such as drop_duplicates(['profile_id', 'asset'], keep='last')"
                )
        types = dict.fromkeys(groups, TEXT_TYPE)
        if freq is not None:
            rows = with_period(bench, rows.with_columns(at=nw.col(at)), freq, tz)
            groups, types = ["period", *groups], {"period": TIME_TYPE, **types}
        keys = groups or ["value:all"]
        if not groups:
            rows = rows.with_columns(nw.lit("").alias(*keys))
        sums = rows.group_by(*keys).agg(
            count=nw.len().cast(nw.Int64),
            priced=nw.col("price").count().cast(nw.Int64),
            **{name: nw.col(name).sum() for name in values},
        )
        counted = dict.fromkeys(("count", "priced"), pa.int64())
        schema = pa.schema([*(types | counted | dict.fromkeys(values, AMOUNT_TYPE)).items()])
        return bench.give(_ordered(sums, keys, values).select(*schema.names), schema)


def summed(
    frame: duckdb.DuckDBPyRelation,
    prices: object,
    max_age: str | timedelta,
    amounts: Sequence[str],
    by: str,
    freq: str,
    tz: str,
    at: str,
) -> pa.Table:
    """What :func:`totals` gives of :func:`of`, for more transfers than memory holds."""
    limit, found = checked_age(max_age), []
    with Workbench(frame) as bench, _fitting():
        want = {"asset": TEXT, by: TEXT, "created_at": TIME, at: TIME, **_SAID}
        want |= dict.fromkeys(amounts, MONEY)
        points = [_points(one, SERVICE_CURRENCY) for one in (prices, frame)]
        rows = bench.take(frame, Wanted("transfers", want, {"balance_asset": TEXT})).to_native()
        reader = rows.to_arrow_reader(_BATCH)
        for batch in chain(reader, [pa.RecordBatch.from_pylist([], reader.schema)]):
            some, _ = _with_values(
                pa.Table.from_batches([batch]), points, "created_at", amounts, SERVICE_CURRENCY,
                limit, own=True,
            )  # fmt: skip
            moments = some.column(at).cast(TIME_TYPE)
            some = some.set_column(some.column_names.index(at), at, moments)
            found.append(totals(some, by, freq, tz, at))
    every = pa.concat_tables(found)
    with Workbench(every) as bench:
        keys, sums = every.column_names[:2], every.column_names[2:]
        rows = bench.constant(every).group_by(*keys).agg(nw.col(name).sum() for name in sums)
        ordered = _ordered(rows, keys, sums[2:]).select(*every.column_names)
        return bench.collect(ordered).cast(every.schema)


def _ordered(sums: Rows, keys: Sequence[str], values: Sequence[str]) -> Rows:
    """``sums`` by ``keys``, without ``values`` where none is priced."""
    there = nw.when(nw.col("priced") > 0)
    known = sums.with_columns(there.then(nw.col(name)).alias(name) for name in values)
    return known.sort(*keys, nulls_last=True)


@contextmanager
def _fitting() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OverflowError) as error:
        raise overflow("a price or a value") from error


def checked_age(max_age: str | timedelta) -> int:
    """``max_age`` in nanoseconds. Raises :class:`AnalysisError`."""
    try:
        return length_ns(max_age)
    except (ValueError, TypeError):
        wrong = f"max_age={shorten(max_age)} is not a length of time with its unit"
        raise AnalysisError(f"{wrong}: give days or hours, such as '30D' or '26h'") from None


def _unpriced(
    assets: pa.ChunkedArray, price: pa.ChunkedArray, age: pa.ChunkedArray, limit: int, currency: str
) -> str:
    """What has no price, and how old the newest is that was too old; empty where all have one."""
    rows = pa.table({"asset": assets, "age": age}).filter(price.is_null())
    ages = rows.group_by("asset").aggregate([("age", "min")]).sort_by("asset")
    if not len(rows):
        return ""
    above = f"above {length_text(limit)}"
    if not rows.column("age").null_count:
        every = -(-pc.max(rows.column("age")).as_py() // DAY)  # rounded up
        above = f"of {every}D for all of them"
    said = [
        f"{asset} ({'none found' if age is None else f'the newest is {length_text(age)} old'})"
        for asset, age in zip(*(ages.column(n).to_pylist() for n in ages.column_names),
                              strict=True)
    ]  # fmt: skip
    advice = "Give prices= (--prices)"
    if rows.column("age").null_count < len(rows):
        advice += f", or a max_age= (--max-age) {above}"
    if currency != SERVICE_CURRENCY:
        advice += f": the service's own are in {SERVICE_CURRENCY}"
    count = f"{len(rows):,} of {number_of(len(price), 'row')}"
    return f"no price in {currency} for {count}: {listed(said)}. {advice}"


def _with_values(
    rows: pa.Table,
    points: Sequence[pa.Table],
    when: str | int,
    amounts: Sequence[str],
    currency: str,
    limit: int,
    *,
    own: bool,
) -> tuple[pa.Table, str]:
    """``rows`` with what :func:`of` adds, by the prices ``points`` and with ``own`` by what the
    service said of each; and what has no price. ``when`` is a column, or nanoseconds."""
    assets = pc.coalesce(rows.column("balance_asset"), rows.column("asset"))
    moments = (
        rows.column(when)
        if isinstance(when, str)
        else pa.chunked_array([pa.repeat(when, len(rows))])
    )
    price, source, age = _newest(points, assets, moments, currency, limit)
    own = own and rows.column("notional_value").null_count < len(rows)
    if own:
        units, mine = _units(rows), _own_price(rows)
        known = pc.and_(mine.is_valid(), pc.equal(assets, rows.column("asset")))
        price, source, age = (
            pc.if_else(pc.fill_null(known, False), own_one, other)
            for own_one, other in ((mine, price), (pa.scalar("own"), source), (0, age))
        )
    unpriced = _unpriced(assets, price, age, limit, currency)
    age = pc.if_else(price.is_valid(), age, None)
    for name, column in zip(_ADDED.names, (price, source, age), strict=True):
        rows = rows.append_column(name, column)
    for name in amounts:
        both = to_pandas(pa.table({"amount": rows.column(name), "price": price}))
        value = pa.chunked_array([pa.array(both["amount"] * both["price"], AMOUNT_TYPE)])
        if own:  # the service's own figure, where it is that of this very amount
            worth = pc.equal(rows.column(name), units), pc.equal(source, "own")
            value = pc.if_else(pc.fill_null(pc.and_(*worth), False),
                               rows.column("notional_value"), value)  # fmt: skip
        rows = rows.append_column(f"{name}_value", value)
    return rows, unpriced


def _units(rows: pa.Table) -> pa.ChunkedArray:
    """What ``notional_value`` is of: amount and fee."""
    return pc.add(rows.column("amount").cast(_WIDE), rows.column("fee").cast(_WIDE))


def _own_price(rows: pa.Table) -> pa.ChunkedArray:
    """Of each transfer with ``notional_value``."""
    units = _units(rows)
    units = pc.if_else(pc.greater(units, 0), units, None)
    price = pc.divide(rows.column("notional_value").cast(_FACTOR), units.cast(_WIDE))
    return pc.round(price, 18, "towards_zero").cast(AMOUNT_TYPE)


def _points(source: Any, currency: str) -> pa.Table:
    """``asset``, ``at`` (ns), ``price``, ``given``: the prices that ``source`` has."""
    if isinstance(source, str | Path):
        if "://" in str(source) and str(source).lower().endswith((".csv", ".parquet")):
            raise AnalysisError(f"prices={str(source)!r}: give a file of this machine, or a store")
        if "://" in str(source) or Path(source).is_dir():
            source = TableStore(source)
            source.check_there()
        else:
            source = _read(Path(source))
    with Workbench(source) as bench:
        given = "price" in bench.names() and "at" in bench.names()
        taken = bench.take(source, _FILE if given else _TRANSFERS)
        rows = bench.collect(taken if given else taken.filter(nw.col("notional_value") >= SMALLEST))
    if given:
        rows = rows.filter(pc.fill_null(pc.equal(rows.column("currency"), currency), True))
        price, at = rows.column("price"), rows.column("at")
        wrong = pc.any(pc.fill_null(pc.less(price, 0), True)).as_py()
        if wrong or rows.column("asset").null_count or at.null_count:
            raise AnalysisError("prices: a row lacks asset, at or price, or its price is below 0")
    else:
        rows = rows.slice(0, None if currency == SERVICE_CURRENCY else 0)
        price, at = _own_price(rows), rows.column("created_at")
    source_of = pa.repeat(given, len(rows))
    points = {"asset": rows.column("asset"), "at": at, "price": price, "given": source_of}
    return pa.table(points).drop_null()


def _read(path: Path) -> pa.Table:
    """A file of prices, every digit as it is written."""
    texts = pa.csv.ConvertOptions(
        column_types=dict.fromkeys([*_FILE.columns, "currency"], TEXT_TYPE),
        null_values=[""],
        strings_can_be_null=True,  # as a Parquet file has them
    )
    try:
        if path.suffix.lower() == ".parquet":
            return pq.read_table(path)
        rows = pa.csv.read_csv(path, convert_options=texts)
        at = [moment_ns(text, f"{path}: at") for text in rows.column("at").to_pylist()]
        exact = rows.column("price").cast(AMOUNT_TYPE)
    except FileNotFoundError:
        raise AnalysisError(f"prices: the file {path} does not exist") from None
    except (OSError, pa.ArrowException, KeyError) as error:
        problem = first_line(error)
        raise AnalysisError(
            f"prices: {path} is not a CSV or Parquet file of asset, at and price: {problem}"
        ) from error
    rows = rows.drop_columns(["at", "price"]).append_column("price", exact)
    return rows.append_column("at", pa.array(at, pa.int64()).cast(TIME_TYPE))


def _newest(
    points: Sequence[pa.Table],
    assets: pa.ChunkedArray,
    moments: pa.ChunkedArray,
    currency: str,
    limit: int,
) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]:
    """Of each asset at each moment the newest price not older than ``limit``, where it is from, and
    the age (ns) of the newest of any age. Of several of one moment one that was given counts, else
    the highest."""
    order = ("asset", "at", "given", "price")
    types = (TEXT_TYPE, pa.int64(), pa.bool_(), AMOUNT_TYPE)
    none = pa.schema(zip(order, types, strict=True)).empty_table()
    every = pa.concat_tables([none, *(one.select(order).cast(none.schema) for one in points)])
    every = every.sort_by([(name, "ascending") for name in order])
    at, wanted = every.column("at").to_numpy(), moments.fill_null(_NEVER).to_numpy()
    names = every.column("asset").unique()
    codes, mine = (
        pc.fill_null(pc.index_in(one, names), -1).to_numpy()
        for one in (every.column("asset"), assets)
    )
    place = np.full(len(wanted), -1)
    for code in range(len(names)):
        low, high = np.searchsorted(codes, [code, code + 1])
        rows = np.flatnonzero(mine == code)
        before = np.searchsorted(at[low:high], wanted[rows], "right")
        place[rows] = np.where(before > 0, low + before, 0) - 1
    age = wanted - np.append(at, 0)[place]
    useless = (place < 0) | (age > limit)
    index = pa.array(place, mask=useless)
    source = pc.if_else(every.column("given").take(index), "given", "transfers")
    itself = pc.fill_null(pc.equal(assets, currency), False)
    one = pa.scalar(1).cast(AMOUNT_TYPE)
    return (
        pc.if_else(itself, one, every.column("price").take(index)),
        pc.if_else(itself, "currency", source),
        pc.if_else(itself, 0, pa.array(age, mask=place < 0)),
    )
