"""Audit samples of transfers that anybody can draw again, and what is found in them projected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final, Literal, get_args

import narwhals as nw
import pandas as pd
import pyarrow as pa

from fundlab.analysis.counting import (
    SHOWN_ROWS,
    choice,
    completed,
    moment_of,
    span_in,
    transfer_columns,
)
from fundlab.analysis.engines import TEXT, TEXT_TYPE, TIME_TYPE, Workbench, columns, to_pandas
from fundlab.analysis.reconcile import judge
from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.errors import AnalysisError, number_of, shorten
from fundlab.base.exact import EXACT, MAX_FRACTION_DIGITS
from fundlab.base.periods import Moment
from fundlab.base.values import exact_sum, in_units, money_text, of_units
from fundlab.display import Card, Row, Shown
from fundlab.evidence.table_store import TableStore
from fundlab.exports import Sheet, replacing, write_csv, write_workbook
from fundlab.tables.transfers import Basis, moved_asset

__all__ = ["Sample", "evaluate", "factors", "sample"]
__dir__ = __all__.copy  # what completion offers

Method = Literal["mus", "random"]
_SHEET: Final = columns(
    ("transfer_id", TEXT_TYPE), ("at", TIME_TYPE), ("profile_id type stratum", TEXT_TYPE),
    ("book", AMOUNT_TYPE), ("hits", pa.int64()), ("audited", AMOUNT_TYPE), ("finding", TEXT_TYPE),
)  # fmt: skip
_FOUND: Final = columns(
    ("side", TEXT_TYPE), ("misstatements", pa.int64()),
    ("projected basic incremental allowance upper", AMOUNT_TYPE),
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Sample(Shown):
    """A sample as it was drawn. ``rows`` is the sheet to fill in: ``transfer_id``, ``at``,
    ``profile_id``, ``type``, ``stratum`` (``top``: of at least the ``interval``, all of them;
    ``interval``; ``random``), ``book``, ``hits``, and empty ``audited`` and ``finding``."""

    method: Method
    period: str
    asset: str
    seed: int
    confidence: Decimal
    count: int
    amount: Decimal
    interval: Decimal | None
    rows: pd.DataFrame
    pin: str | None = None
    missing: str = ""
    """What the store has not of the period, as a sentence."""

    @property
    def facts(self) -> dict[str, str]:
        """What a reader must know of it, and all it takes to draw it again."""
        book, top = (exact_sum(rows["book"]) for rows in (
            self.rows, self.rows[self.rows["stratum"] == "top"]))  # fmt: skip
        covered = float(Fraction(book) / Fraction(self.amount)) if self.amount else 0.0
        interval = [] if self.interval is None else [
            ("Interval", money_text(self.interval)),
            ("Top stratum", f"{money_text(top)} in {(self.rows['stratum'] == 'top').sum():,}"),
        ]  # fmt: skip
        return {
            "Method": "monetary units" if self.method == "mus" else "simple random",
            "Population": f"{money_text(self.amount)} {self.asset} in {self.count:,} transfers",
            "Sample": f"{money_text(book)} in {len(self.rows):,}",
            "Coverage": f"{covered:.1%}",
            **dict(interval),
            "Confidence": f"{self.confidence}",
            "Seed": f"{self.seed}",
            "Pin": self.pin or "–",
            **({"Missing": self.missing} if self.missing else {}),
        }

    def card(self) -> Card:
        facts = tuple(Row(name, value) for name, value in self.facts.items())
        return Card(f"Audit sample of {self.period}", facts)

    def sheet(self, path: str | Path) -> Path:
        """The sheet to fill in as a workbook (``.xlsx``, with the facts) or CSV."""
        path, rows = Path(path), pa.Table.from_pandas(self.rows, _SHEET, preserve_index=False)
        facts = pa.table({"fact": [*self.facts], "value": [*self.facts.values()]})
        with replacing(path) as unfinished:
            if path.suffix.lower() == ".csv":
                write_csv(rows, unfinished)
            else:
                write_workbook([Sheet("Sample", rows), Sheet("About", facts)], unfinished)
        return path

    def evaluate(self, found: Mapping[str, object] | pd.DataFrame) -> pd.DataFrame:
        """What is ``found`` in the sample, projected to the population: see :func:`evaluate`.

        ``found`` is the sheet, filled in, or the audited amount by ``transfer_id`` of those that
        are not as booked. A simple random sample is projected by its mean difference, the allowance
        by the normal distribution. Raises :class:`AnalysisError` for what is not in the sample or
        not audited.
        """
        audited = dict(zip(self.rows["transfer_id"], self.rows["book"], strict=True))
        if isinstance(found, pd.DataFrame):
            found = dict(zip(found["transfer_id"], found["audited"], strict=True))
            missing = [i for i in audited if pd.isna(found.get(i))]  # type: ignore[call-overload]
            _refuse(missing, "not audited")
        _refuse([one for one in found if one not in audited], "not in the sample")
        audited |= {name: _decimal(f"audited of {name}", one) for name, one in found.items()}
        pairs = [(book, audited[name]) for name, book in
                 zip(self.rows["transfer_id"], self.rows["book"], strict=True)]  # fmt: skip
        if self.interval is not None:
            return evaluate(self.interval, pairs, self.confidence)
        return _by_mean(self.count, pairs, self.confidence)


def sample(
    period: str | tuple[Moment, Moment],
    transfers: Any,
    method: Method = "mus",
    size: int | None = None,
    precision: str | Decimal | None = None,
    seed: int = 0,
    asset: str = "USD",
    confidence: str | Decimal = "0.95",
    basis: Basis = "created",
    tz: str = "UTC",
    pin: str | None = None,
) -> Sample:
    """A sample of the completed ``transfers`` (a frame, or a ``Store``, as of ``pin``) of
    ``period`` that moved ``asset``, by their ``total``; the same from the same pin and ``seed``.

    ``mus`` takes each transfer that holds one of the monetary units which are an interval apart,
    counted in order of ids from a start drawn by ``seed``: all of at least the interval, others
    with a chance in proportion. Give ``size`` (the interval is the population by it), or
    ``precision``, what the basic precision may be (the interval is that by the factor of
    ``confidence``). ``random`` takes ``size`` transfers, each with the same chance: those whose
    SHA-256 with the seed comes first. Raises :class:`AnalysisError` for what makes no sense, such
    as an ``asset`` that none of the transfers moved, of whatever period, and invalid rows.

    >>> drawn = fl.audit.sample("2026-10", transfers, size=2, seed=7)
    >>> drawn.interval, drawn.rows[["transfer_id", "stratum", "book"]].values.tolist()
    (Decimal('672.5'), [['t1', 'top', Decimal('1000')], ['t2', 'interval', Decimal('225')]])
    >>> drawn.evaluate({"t1": "990"})[["side", "projected", "upper"]]
                 side  projected   upper
    0   overstatement         10  2027.5
    1  understatement          0  2017.5
    """
    choice("method", method, get_args(Method))
    first, end = span_in(transfers, period, tz)
    by, sure = moment_of(basis), _confidence(confidence)
    if (size is None) == (precision is None) or (method == "random" and size is None):
        raise AnalysisError("give size or, for mus, precision; not both")
    if size is not None and (not isinstance(size, int) or size < 1):
        raise AnalysisError(f"size={shorten(size)} is not a number of 1 or more")
    missing = ""
    if isinstance(transfers, TableStore):
        missing = judge(transfers, pin=pin).lacks_moves(first, basis)
    if pin is not None:
        transfers = transfers.scan("transfers", settled=basis == "settled", pin=pin)
    with Workbench(transfers, by) as bench:
        want = transfer_columns(by, type=TEXT)
        rows = completed(bench, transfers, want, "id", "profile_id", "total", by)
        rows = rows.with_columns(asset=moved_asset(), at=nw.col(by))
        mine = rows.filter(
            nw.col("asset") == asset, nw.col("at") >= first, nw.col("at") < end, nw.col("total") > 0
        )
        every = bench.collect(mine.select("id", "at", "profile_id", "type", "total").sort("id"))
        if not len(every):  # of no rows at all there is a sample, of none
            known = bench.collect(rows.select("asset").unique()).column("asset").to_pylist()
            if known and asset not in known:
                raise AnalysisError(
                    f"asset={shorten(asset)}: no completed transfer moved it; give one of "
                    f"{', '.join(sorted(known))}"
                )
    amounts = [in_units(total) for total in every.column("total").to_pylist()]
    step = None
    if method == "mus":
        if size is not None:
            step = max(sum(amounts) // size, 1)
        else:
            (factor,) = factors(sure, 0)
            wanted = Fraction(_decimal("precision", precision)) / Fraction(factor)
            step = math.floor(wanted * 10**MAX_FRACTION_DIGITS)
        if step < 1:
            raise AnalysisError(f"precision={precision!r} is not an amount of more than 0")
        start = int.from_bytes(sha256(f"mus {seed}".encode()).digest(), "big") % step + 1
        # How many of the units start, start + step … each transfer holds.
        hits = [
            (end - start) // step - (end - units - start) // step
            for units, end in zip(amounts, accumulate(amounts), strict=True)
        ]
    else:
        drawn = sorted(
            range(len(amounts)),
            key=lambda place: sha256(f"{seed} {every.column('id')[place]}".encode()).digest(),
        )[:size]
        chosen = {*drawn}
        hits = [int(place in chosen) for place in range(len(amounts))]
    places = [place for place, count in enumerate(hits) if count]
    strata = ["random" if step is None else "top" if amounts[place] >= step else "interval"
              for place in places]  # fmt: skip
    taken = every.take(pa.array(places, pa.int64()))
    none = pa.nulls(len(places))
    arrays = [*taken.columns[:4], strata, taken.columns[4], [hits[place] for place in places],
              none, none]  # fmt: skip
    table = pa.table(arrays, names=_SHEET.names)
    return Sample(
        method, period if isinstance(period, str) else " to ".join(map(str, period)), asset, seed,
        sure, len(amounts), _amount(sum(amounts)), None if step is None else _amount(step),
        to_pandas(table.cast(_SHEET)), pin, missing,
    )  # fmt: skip


def evaluate(
    interval: str | Decimal,
    found: Iterable[tuple[object, object]],
    confidence: str | Decimal = "0.95",
    table: Sequence[str | Decimal] | None = None,
) -> pd.DataFrame:
    """``side`` (``overstatement``, ``understatement``), ``misstatements``, and the amounts
    ``projected``, ``basic``, ``incremental``, ``allowance`` (of the two), ``upper``: what book and
    audited amounts ``found`` in a sample of monetary units say of the population.

    What is off in an item of at least the interval counts as it is; of others its share of the book
    amount, the tainting, times the interval. Upper is that and the interval times the factor of
    none (basic precision), and for each tainting, the largest first, times what the factor grows by
    beyond 1. ``table`` has the factors, where it is not to be :func:`factors`.

    As in the notes to an auditing course with the interval 7,538 (90 %, projected 20,538: basic
    17,413, incremental 4,372, upper 42,323; coursehero.com/file/7750791), and in M. Causholli's
    (University of Florida, ACG 5637, lecture 12, chapter 16 problem 7, coursehero.com/file/6455584:
    upper 172,988), whose table has one decimal:

    >>> notes = [(71330, 60631), (18996, 17096), (30081, 21057), (3555, 1422)]
    >>> found = fl.audit.evaluate("42373", notes, "0.90", ["2.31", "3.91", "5.31", "6.71"])
    >>> round(found["upper"][0])
    172988
    """
    step, sure = Fraction(_decimal("interval", interval)), _confidence(confidence)
    sides: dict[str, list[Fraction]] = {"overstatement": [], "understatement": []}
    whole = dict.fromkeys(sides, Fraction(0))
    counts = dict.fromkeys(sides, 0)
    for pair in found:
        book, audited = (Fraction(_decimal("found", one)) for one in pair)
        if book == audited:
            continue
        if book <= 0:
            raise AnalysisError(
                f"found has a book amount of {pair[0]}: a sample by amount has none that is not "
                "above 0; give what was drawn"
            )
        side = "overstatement" if book > audited else "understatement"
        counts[side] += 1
        if book >= step:
            whole[side] += abs(book - audited)
        else:
            sides[side].append(abs(book - audited) / book)
    rows = []
    for side, taintings in sides.items():
        known = factors(sure, len(taintings)) if table is None else table
        numbers = [Fraction(Decimal(one)) for one in known]
        if len(numbers) <= len(taintings):
            raise AnalysisError(
                f"table has {len(numbers)} factors; {len(taintings) + 1} are needed"
            )
        worst = sorted(taintings, reverse=True)
        projected = whole[side] + step * sum(worst)
        grown = [more - less - 1 for less, more in pairwise(numbers)]
        incremental = step * sum(
            share * growth for share, growth in zip(worst, grown, strict=False)
        )
        rows.append((side, counts[side], projected, step * numbers[0], incremental))
    return _as_frame(rows)


def factors(confidence: str | Decimal, misstatements: int) -> list[Decimal]:
    """The confidence factors of none to so many ``misstatements``, as the AICPA's guide *Audit
    Sampling* prints them: the mean of a Poisson distribution, rounded up at two decimals.

    >>> [str(one) for one in fl.audit.factors("0.95", 4)]
    ['3.00', '4.75', '6.30', '7.76', '9.16']
    """
    risk, found = 1 - float(_confidence(confidence)), []
    for count in range(misstatements + 1):
        low, high = 0.0, 10.0 * (count + 10)
        for _ in range(80):
            mean = (low + high) / 2
            terms = (math.exp(i * math.log(mean) - mean - math.lgamma(i + 1))
                     for i in range(count + 1))  # fmt: skip
            low, high = (mean, high) if sum(terms) > risk else (low, mean)
        found.append(Decimal(math.ceil(high * 100 - 1e-7)).scaleb(-2, EXACT))
    return found


def _by_mean(
    count: int, pairs: Sequence[tuple[Decimal, Decimal]], confidence: Decimal
) -> pd.DataFrame:
    off = [Fraction(book) - Fraction(audited) for book, audited in pairs]
    mean = sum(off, Fraction(0)) / max(len(off), 1)
    spread = sum(((one - mean) ** 2 for one in off), Fraction(0)) / max(len(off) - 1, 1)
    error = spread / max(len(off), 1) * count * (count - len(off))
    quantile = Fraction(str(round(NormalDist().inv_cdf(float(confidence)), 3)))
    root = EXACT.sqrt(EXACT.divide(Decimal(error.numerator), Decimal(error.denominator)))
    allowance, none = quantile * Fraction(root), None
    return _as_frame([
        (side, sum(sign * one > 0 for one in off), sign * mean * count, none, allowance)
        for side, sign in (("overstatement", 1), ("understatement", -1))
    ])  # fmt: skip


def _as_frame(rows: Iterable[tuple[str, int, Fraction, Fraction | None, Fraction]]) -> pd.DataFrame:
    found = []
    for side, count, *amounts in rows:
        projected, basic, more = (
            None if one is None else _amount(round(one * 10**MAX_FRACTION_DIGITS))
            for one in amounts
        )
        allowance = exact_sum(filter(None, (basic, more)))
        parts = (projected, basic, None if basic is None else more, allowance)
        found.append((side, count, *parts, exact_sum(filter(None, (projected, allowance)))))
    return to_pandas(exact_table(_FOUND, found))


def _confidence(given: str | Decimal) -> Decimal:
    sure = _decimal("confidence", given)
    if not Decimal("0.5") <= sure < 1:
        raise AnalysisError(f"confidence={shorten(given)} is not from 0.5 to less than 1")
    return sure


def _decimal(name: str, given: object) -> Decimal:
    try:
        number = Decimal("NaN" if isinstance(given, float) else given)  # type: ignore[arg-type]
    except (ArithmeticError, TypeError, ValueError):
        number = Decimal("NaN")
    if not number.is_finite() or number < 0:
        raise AnalysisError(f"{name}={shorten(given)} is not an exact amount of 0 or more")
    return number


def _refuse(ids: Sequence[object], what: str) -> None:
    if ids:
        shown = ", ".join(map(str, ids[:SHOWN_ROWS]))
        raise AnalysisError(f"{number_of(len(ids), 'transfer')} {what}: {shown}")


def _amount(units: int) -> Decimal:
    return of_units(units).normalize(EXACT)
