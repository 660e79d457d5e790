"""Making decimal columns, what they refuse, and whose memory they hold."""

from __future__ import annotations

import copy
import pickle
import re
from decimal import Context, Decimal, FloatOperation, Inexact, Overflow, Rounded, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from small_columns import LARGEST, D, column, values

from fundlab.decimals import DecimalArray, rolling, types_mapper
from fundlab.decimals.groups import PANDAS

# ---- making


@pytest.mark.parametrize(
    "source",
    [
        ["1.10", None],
        [D("1.1"), pd.NA],
        np.array(["1.1", None], dtype=object),
        pd.Series(["1.1", None], dtype="str"),
        pd.Series(["1.1", None], dtype="string[pyarrow]"),
        pd.Series(["1.1", None], dtype="category"),
        pa.array(["1.1", None]),
        *(pa.array([D("1.10"), None], getattr(pa, name)(7, 2))
          for name in ("decimal32", "decimal64") if hasattr(pa, name)),  # pyarrow 19 has them
        pa.array([D("1.10"), None], pa.decimal128(7, 2)),
        pa.array([D("1.10"), None], pa.decimal256(7, 2)),
        pa.chunked_array([pa.array([D("1.10")], pa.decimal128(7, 2)),
                          pa.array([None], pa.decimal128(7, 2))]),
        pd.Series([D("1.10"), None], dtype=pd.ArrowDtype(pa.decimal128(7, 2))),
    ],
    ids=lambda source: type(source).__name__,
)  # fmt: skip
def test_made_from(source: Any) -> None:
    assert values(DecimalArray(source)) == [D("1.1"), None]
    if not isinstance(source, pa.Array | pa.ChunkedArray):
        assert values(pd.array(source, dtype="decimal")) == [D("1.1"), None]
        assert values(pd.Series(source).astype("decimal")) == [D("1.1"), None]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64", "Int32", "UInt64", "int64[pyarrow]"])
def test_made_from_integers(dtype: str) -> None:
    info = np.iinfo(dtype.lower().removesuffix("[pyarrow]"))
    source = pd.Series([info.min, 0, info.max], dtype=dtype)
    assert source.astype("decimal").tolist() == [D(info.min), D(0), D(info.max)]


def test_made_from_what_can_be_listed() -> None:
    assert values(DecimalArray(D(i) / 2 for i in range(3))) == [0, D("0.5"), 1]
    assert values(DecimalArray(pd.arrays.SparseArray([1, 0]))) == [1, 0]
    for wrong in (5, "12", np.array([[1, 2], [3, 4]]), D("1.5"), {1, 2}, frozenset({1}), {1: 2}):
        with pytest.raises(TypeError, match="one-dimensional list"):
            DecimalArray(wrong)


def test_made_from_a_mixed_list() -> None:
    mixed = [D("1.5"), 2, "0.25", None, np.int64(-3), float("nan"), D("1E+3"), D("NaN")]
    assert values(column(*mixed)) == [D("1.5"), 2, D("0.25"), None, -3, None, 1000, None]


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "1.", "1e5", "1E-7", " 1", "1 ", "1\n", "1,5", "--1", "1_0", "nan", "٣", "0x1",
     "0" * 21, "0." + "0" * 19, "1" * 65, "0.1234567890123456789"],
)  # fmt: skip
def test_text_that_is_no_amount_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="at position 1") as caught:
        pd.array(["1.5", text], dtype="decimal")
    assert repr(text) in str(caught.value) or len(text) > 64


@pytest.mark.parametrize("text", ["0", "+1", "-.25", ".25", "007", "-0", LARGEST, "-" + LARGEST])
def test_text_that_is_an_amount(text: str) -> None:
    assert pd.array([text], dtype="decimal")[0] == D(text)


@pytest.mark.parametrize("value", [10**20, D(10) ** 20, "1" + "0" * 20, -(10**30), D("1E+30")])
def test_what_does_not_fit_overflows(value: Any) -> None:
    with pytest.raises(OverflowError):
        DecimalArray([value])


def test_a_decimal_is_never_rounded_on_entry() -> None:
    with pytest.raises(ValueError, match="more than 18 decimals"):
        DecimalArray([D("0.1234567890123456789")])
    assert DecimalArray([D("0.5" + "0" * 40)])[0] == D("0.5")


@pytest.mark.parametrize(
    "source",
    [[1.5], pd.Series([1.5]), pd.array([1.5, None], dtype="Float64"), pa.array([1.5]), [D(1), 1.5]],
)
def test_floats_enter_by_name_only(source: Any) -> None:
    with pytest.raises(TypeError, match=r"DecimalArray\.from_float"):
        DecimalArray(source)


@pytest.mark.parametrize(
    "value",
    [True, object(), pd.Timestamp("2026-01-01"), [1], b"1", np.timedelta64(1, "s"), np.True_],
)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        DecimalArray([D(1), value])


def test_from_float_says_how_it_rounds() -> None:
    made = DecimalArray.from_float([0.1, 2.675, 0.125, -0.375, None], decimals=2)
    assert values(made) == [D("0.1"), D("2.67"), D("0.12"), D("-0.38"), None]
    assert DecimalArray.from_float([0.1])[0] == D("0.100000000000000006")
    with pytest.raises(ValueError, match="from 0 to 18"):
        DecimalArray.from_float([0.1], decimals=19)
    with pytest.raises(OverflowError):
        DecimalArray.from_float([float("inf")])


@pytest.mark.parametrize("places", [2, np.int8(2), np.int64(2), np.uint8(2)])
def test_places_may_be_numpy_integers(places: Any) -> None:
    assert values(DecimalArray.from_float([123456.789], decimals=places)) == [D("123456.79")]
    assert values(column("123456.789").round(places)) == [D("123456.79")]


def test_rounding_to_tens_with_numpy_integers() -> None:
    source = column("123456.789", "-55")
    assert values(source.round(np.int64(-5))) == [100000, 0]
    assert values(source.round(np.int8(-2))) == [123500, -100]
    assert values(source.round(np.int64(-1))) == [123460, -60]
    assert values(source.round(-10_000)) == [0, 0]


@pytest.mark.parametrize("places", [2.0, "2", None, True, D(2)])
def test_places_are_whole_numbers(places: Any) -> None:
    for calculate in (
        lambda: column("1.5").array.round(places),
        lambda: DecimalArray.from_float([1.5], decimals=places),
    ):
        with pytest.raises(TypeError, match=r"decimals=.*whole number"):
            calculate()


def test_from_float_rounds_nothing_else() -> None:
    assert values(DecimalArray.from_float([1, 2.5, None], decimals=1)) == [1, D("2.5"), None]
    assert values(DecimalArray.from_float(np.array([2**53, -3]))) == [2**53, -3]
    assert values(DecimalArray.from_float(pd.array([0.5, None], dtype="Float64"))) == [
        D("0.5"), None]  # fmt: skip
    assert values(DecimalArray.from_float(pa.array([0.5, None]))) == [D("0.5"), None]
    assert values(DecimalArray.from_float([])) == []
    for wrong in (
        np.array([2**53 + 1]), [2**53 + 1], [2**53 + 1, 0.5], ["0.1"], [D("0.1")], column("0.1"),
        pd.Series([2**53 + 1, None], dtype="Int64"), pa.array([2**53 + 1]), pd.Series(["1"]),
        {1.5}, {1.5: 2.5}, 1.5, [True], np.array([True]),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            DecimalArray.from_float(wrong)


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint64, np.float32, np.float64, Fraction])
def test_comparing_with_a_scalar_of_another_kind(kind: Any) -> None:
    source = column("1", "5", None)
    assert values(source > kind(4)) == [False, True, None]
    assert values(source == kind(5)) == [False, True, None]
    assert values(kind(5) != source) == [True, False, None]
    assert values(source.between(kind(0), kind(4))) == [True, False, None]


def test_comparing_with_what_numpy_and_python_give() -> None:
    source = column("1", "5")
    top = pd.Series([1, 4]).max()
    assert values(source > top) == [False, True]
    assert values(source.clip(upper=top)) == [1, 4]
    assert source.to_frame().query("x > @top").index.tolist() == [1]
    assert values(source == np.iinfo(np.uint64).max) == [False, False]
    assert values(source * 3 < Fraction(10, 3)) == [True, False]
    for one in (True, np.bool_(True)):
        assert values(source == one) == [True, False]


# ---- refusing


@pytest.mark.parametrize(
    "other", [1.5, np.float64(1.5), pd.Series([1.5]), pd.Series([1.5], dtype="Float64")]
)
def test_floats_do_not_mix(other: Any) -> None:
    for calculate in (lambda: column("1") + other, lambda: other * column("1")):
        with pytest.raises(TypeError, match="from_float"):
            calculate()
    assert values(column("1") < other) == [True]


@pytest.mark.parametrize("other", ["1", True, pd.Timestamp("2026-01-01"), pd.Series(["1"])])
def test_what_is_no_number_does_not_mix(other: Any) -> None:
    with pytest.raises(TypeError):
        column("1") + other


def test_overflow_is_an_error_everywhere() -> None:
    big = column(LARGEST, LARGEST)
    one = pd.Series([0, 0])
    for calculate in [
        lambda: big + big, lambda: big - -big, lambda: big * 2, lambda: big / D("0.5"),
        lambda: big // D("0.5"), lambda: big**2, big.sum, big.cumsum, big.prod,
        lambda: big.groupby(one).sum(), lambda: big.groupby(one).cumsum(),
        lambda: big.groupby(one).transform("sum"), lambda: big.groupby(one).prod(),
        lambda: rolling(big, 2).sum(), lambda: big.round(-1), lambda: (-big).diff(1) - big.sum(),
        lambda: big.to_frame().sum(), lambda: pd.concat([big, big], axis=1).sum(axis=1),
    ]:  # fmt: skip
        with pytest.raises(OverflowError):
            calculate()
    assert big.mean() == D(LARGEST)
    assert big.groupby(one).mean().tolist() == [D(LARGEST)]


def test_division_by_zero_raises() -> None:
    for calculate in (lambda: column("1") / 0, lambda: 1 // column("0"), lambda: column("0") ** -1):
        with pytest.raises(ZeroDivisionError):
            calculate()
    assert values(column(None, "1") / column("0", "2")) == [None, D("0.5")]


def test_a_power_is_a_whole_number() -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        column("4") ** D("0.5")
    assert values(column("0", None, "2") ** 0) == [1, 1, 1]
    assert values(2 ** column("3", "-1", None)) == [8, D("0.5"), None]


# ---- memory


def test_arrow_shares_memory_both_ways() -> None:
    source = pa.array([D("1.5"), D("2.5"), D("3.5")], pa.decimal128(38, 18))
    array = DecimalArray.from_arrow(source)
    back = pa.array(array)
    assert back.buffers()[1].address == source.buffers()[1].address
    part = pa.array(DecimalArray.from_arrow(source.slice(1))[1:])
    assert part.to_pylist() == [D("3.5")]
    assert part.buffers()[1].address == source.buffers()[1].address + 32


@pytest.mark.parametrize("middle", [None, D("2.5")])
def test_arrow_is_never_written_to(middle: Any) -> None:
    source = pa.array([D("1.5"), middle, D("3.5")], pa.decimal128(38, 18))
    array = DecimalArray.from_arrow(source)
    view = array[1:]
    view[1] = "9"
    assert values(array) == [D("1.5"), middle, 9]
    assert source.to_pylist() == [D("1.5"), middle, D("3.5")]

    table = pa.table({"x": source})
    frame = table.to_pandas(types_mapper=types_mapper)
    frame.loc[0, "x"] = 9
    frame["x"].array[2] = 8
    assert values(frame["x"]) == [9, middle, 8]
    assert table["x"].to_pylist() == [D("1.5"), middle, D("3.5")]

    owned = column("1", "2").array.copy()
    before, view = pa.array(owned), owned[:]
    view[0] = 7
    assert before.to_pylist() == [1, 2]
    assert values(owned) == [7, 2]
    after = pa.array(owned)
    owned[1] = 8
    assert after.to_pylist() == [7, 2]


def test_views_of_views() -> None:
    array = column("1", "2", "3", "4").array
    assert values(array[::-1][1:3]) == [3, 2]
    assert values(array[1:][::-2]) == [4, 2]
    assert values(array[0:0][::-1]) == []
    assert pa.array(array[::2]).to_pylist() == [1, 3]


def test_what_is_written_after_a_column_was_found_without_gaps_counts() -> None:
    array = column("1", "2", "3").array.copy()
    asked, other = array[:2], column("1", "1", "1").array.copy()
    for _ in range(2):
        assert (array > other).tolist() == [False, True, True]
        assert (asked.max(skipna=False), array.max(skipna=False)) == (2, 3)
    view = array[1:]
    view[0] = None
    assert (array > other).tolist() == (other < array).tolist() == [False, pd.NA, True]
    assert (array > 1).tolist() == [False, pd.NA, True]
    assert asked.max(skipna=False) is pd.NA
    assert (asked.max(), array[2:].max(skipna=False)) == (1, 3)
    array[1] = "5"
    assert (array > 1).tolist() == [False, True, True]
    assert (asked.max(skipna=False), view.max(skipna=False)) == (5, 5)


def test_what_is_below_a_null_does_not_count() -> None:
    words = np.array([[5, 0], [2**64 - 1, 2**63 - 1]], np.uint64)
    buffers = [pa.py_buffer(b"\x01"), pa.py_buffer(words)]
    source = pa.Array.from_buffers(pa.decimal128(38, 18), 2, buffers)
    array = pd.Series(DecimalArray.from_arrow(source))
    assert array.sum() == D("5E-18")
    assert values(array + array) == [D("1E-17"), None]


def test_arrow_values_beyond_38_digits_are_refused() -> None:
    words = np.array([[0, 2**63 - 1]], np.uint64)
    source = pa.Array.from_buffers(pa.decimal128(38, 18), 1, [None, pa.py_buffer(words)])
    with pytest.raises(OverflowError):
        DecimalArray.from_arrow(source)
    for exponent in range(20, 38):  # some of which Arrow's own cast turns into other numbers
        with pytest.raises(OverflowError):
            DecimalArray.from_arrow(pa.array([D(10) ** exponent], pa.decimal128(38, 0)))
    for exponent in range(20, 76):
        with pytest.raises(OverflowError):
            DecimalArray.from_arrow(pa.array([D(10) ** exponent], pa.decimal256(76, 0)))
        with pytest.raises(OverflowError):
            DecimalArray([D(7) * D(10) ** exponent])
    with pytest.raises(ValueError, match="decimals"):
        DecimalArray.from_arrow(pa.array([D("1E-20")], pa.decimal128(38, 20)))


def test_a_value_takes_seventeen_bytes() -> None:
    assert column(*["1.5", None] * 500).memory_usage(index=False) == 17_000


def test_copies_and_pickles(frame: pd.DataFrame) -> None:
    for clone in (copy.deepcopy(frame), pickle.loads(pickle.dumps(frame)), frame.copy()):
        pd.testing.assert_frame_equal(clone, frame)
    part = pickle.loads(pickle.dumps(frame["x"].iloc[2:3]))
    assert part.tolist() == [D("-1.5")]
    tiny = pickle.loads(pickle.dumps(frame["x"].iloc[4]))
    assert (str(tiny), tiny) == ("0.0000001", D("1E-7"))


@pytest.mark.filterwarnings(r"ignore:\sA value is trying to be set on a copy")  # of pandas 2
def test_copy_on_write(frame: pd.DataFrame) -> None:
    other = frame[["x"]]
    other.loc[0, "x"] = 5
    again = pd.Series(frame["x"].array)
    again.iloc[1] = 6
    wrapped = DecimalArray(frame["x"])
    wrapped[2] = 7
    shared = (
        D(6) if PANDAS < (3, 0) else D("0.15")
    )  # there a Series is its array, not a copy on write
    assert frame["x"].tolist()[:3] == [D("1442725.09"), shared, D("-1.5")]


STRICT = Context(prec=5, Emin=-30, Emax=10, traps=[Inexact, Rounded, Overflow, FloatOperation])


def test_the_callers_decimal_context_does_not_matter() -> None:
    most = Decimal("99999999999999999999.999999999999999999")
    with localcontext(STRICT):
        array = DecimalArray.from_arrow(pa.array([most, Decimal("0.5")], pa.decimal256(60, 18)))
        assert array.isin([0.5, most]).tolist() == [True, True]
        assert array.isin([0.5, "x"]).tolist() == [False, True]


def test_endless_exponents_are_refused_at_once() -> None:
    for text, error in (("1E-999999999", ValueError), ("-3E+999999999", OverflowError)):
        for given in ([D(text)], [D(1), D(text), None], [D(text), "1"]):
            with pytest.raises(error, match=re.escape(text)):
                pd.array(given, dtype="decimal")
        column = pd.Series(["-1", "0", "2"], dtype="decimal")
        beyond = D(text) > 1
        assert (column > D(text)).tolist() == [D(one) > D(text) for one in ("-1", "0", "2")]
        assert (column == D(text)).sum() == 0
        assert not column.isin([D(text)]).any()
        assert not beyond
    assert pd.array([D("0E-999999999"), D("0E+999999999")], dtype="decimal").tolist() == [0, 0]
    assert pd.array([D("1." + "0" * 60)], dtype="decimal").tolist() == [1]
