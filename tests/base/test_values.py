from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fundlab.base.values import (
    Amount,
    Instant,
    exact_sum,
    fraction_digits,
    length_text,
    money_text,
    plain_text,
)

AMOUNTS = st.from_regex(r"[0-9]{0,20}\.[0-9]{1,18}|[0-9]{1,20}", fullmatch=True)
NS = st.integers(-9_214_560_000_000_000_000, 9_214_646_400_000_000_000 - 1)  # 1678 to 2261


# ------------------------------------------------------------------------------- amounts


@given(AMOUNTS)
def test_an_amount_keeps_its_text_and_its_value(text: str) -> None:
    amount = Amount(text)
    assert str(amount) == f"{amount}" == amount.text == text
    assert amount == Decimal(text)
    assert hash(amount) == hash(Decimal(text))
    with localcontext(prec=3):
        assert Amount(text) == amount


LONG = "12345678901.123456789012345678"


@pytest.mark.parametrize(
    ("amount", "plain", "money"),
    [
        (LONG, LONG, "12,345,678,901.123456789012345678"),
        ("-1234567.10", "-1234567.1", "-1,234,567.10"),
        ("-0.5", "-0.5", "-0.50"),
        ("1E+3", "1000", "1,000.00"),
        ("0E-7", "0", "0.00"),
        ("0.125", "0.125", "0.125"),
    ],
)
def test_amounts_as_text_keep_every_digit(amount: str, plain: str, money: str) -> None:
    assert (plain_text(Decimal(amount)), money_text(Decimal(amount))) == (plain, money)


def test_sums_are_exact_in_any_order() -> None:
    amounts = [Decimal(LONG), Decimal("0.000000000000000001"), Decimal("99999999999999999999")]
    assert exact_sum(amounts) == exact_sum(reversed(amounts))
    assert str(exact_sum(amounts)) == "100000000012345678900.123456789012345679"
    assert exact_sum([]) == 0


@given(AMOUNTS)
def test_an_amount_survives_copies_pickles_and_json(text: str) -> None:
    adapter = TypeAdapter(Amount)
    for same in (
        copy.copy(Amount(text)),
        copy.deepcopy(Amount(text)),
        pickle.loads(pickle.dumps(Amount(text))),
        adapter.validate_python(text),
        adapter.validate_json(f'"{text}"'),
        adapter.validate_json(adapter.dump_json(Amount(text))),
    ):
        assert (same, same.text, type(same)) == (Decimal(text), text, Amount)


@given(st.text(max_size=30))
def test_text_is_an_amount_exactly_when_the_pattern_says_so(text: str) -> None:
    matches = re.fullmatch(r"[0-9]*\.?[0-9]+", text, re.ASCII) is not None
    try:
        Amount(text)
    except ValueError:
        whole, _, fraction = text.partition(".")
        assert not matches or len(whole) > 20 or len(fraction) > 18
    else:
        assert matches


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "must be digits"), (".", "must be digits"), ("1.", "must be digits"),
        ("1\n", "must be digits"), (" 1", "must be digits"), ("+1", "must be digits"),
        ("-1", "must be digits"), ("1e3", "must be digits"), ("1,000", "must be digits"),
        ("1_0", "must be digits"), ("٣", "must be digits"), ("１", "must be digits"),
        ("NaN", "must be digits"), ("Infinity", "must be digits"), ("1.2.3", "must be digits"),
        (Decimal("NaN"), "must be digits"), (Decimal("-0"), "must be digits"),
        (10**70, "must be digits"), (-1, "must be digits"),
        ("1" * 21, "21 integer and 0 fractional"), ("0." + "1" * 19, "and 19 fractional"),
        (Decimal("1E-19"), "and 19 fractional"), ("0" * 65, "amount of 65 characters; at most 64"),
        (1.5, "is a float; give text such as '100.00', a Decimal or an int"),
        (True, "is a bool"), (None, "is a NoneType"), (b"1", "is a bytes"),
    ],
)  # fmt: skip
def test_what_is_no_amount_is_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Amount(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"), (Decimal("1E+3"), "1000"), (Decimal("1.50"), "1.50"), (Decimal("1E-18"),
        "0.000000000000000001"), (Amount(".25"), ".25"), ("00.10", "00.10"),
        ("9" * 20 + "." + "9" * 18, "9" * 20 + "." + "9" * 18),
    ],
)  # fmt: skip
def test_what_is_an_amount(value: Any, text: str) -> None:
    assert Amount(value).text == str(Amount(value)) == text


@pytest.mark.parametrize("text", ["1E+999999999", "-1E+999999999", "1E-999999999", "0E-999999999"])
def test_an_amount_too_long_to_be_written_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"characters; at most 64"):
        Amount(Decimal(text))  # a gigabyte, if it were


def test_on_the_wire_an_amount_is_text() -> None:
    adapter = TypeAdapter(Amount)
    for number in ("1", "1.5", "true", "null", "[]"):
        with pytest.raises(ValueError, match="valid string"):
            adapter.validate_json(number)


def test_zero_is_printed_without_an_exponent() -> None:
    assert f"{Amount('0.0000000')}" == "0.0000000"
    assert f"{Amount('0.0000000'):.2f}" == "0.00"
    assert f"{Amount('1234.5'):,.2f}" == "1,234.50"
    assert repr(Amount(".50")) == "Amount('.50')"


def test_arithmetic_gives_plain_decimals() -> None:
    result = Amount("1.10") + Amount("2.20")
    assert (result, type(result)) == (Decimal("3.30"), Decimal)
    assert type(-Amount("1")) is Decimal
    assert sum([Amount("0.1")] * 10, Decimal(0)) == 1


@pytest.mark.parametrize(
    ("text", "digits"), [("1", 0), ("1.00", 0), ("1.10", 1), (".001", 3), ("0.000000", 0)]
)
def test_trailing_zeros_are_no_decimals(text: str, digits: int) -> None:
    assert fraction_digits(Amount(text)) == digits


# ------------------------------------------------------------------------------- instants


@given(NS)
def test_nanoseconds_are_exact_both_ways(ns: int) -> None:
    instant = Instant.from_ns(ns)
    assert instant.ns == ns
    again = Instant.parse(str(instant))
    assert (again.ns, str(again)) == (ns, str(instant))
    assert pd.Timestamp(str(instant)).value == ns
    assert instant == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)


@given(NS, st.integers(-23 * 60 - 59, 23 * 60 + 59), st.integers(0, 9))
def test_any_offset_and_precision_is_read_exactly(ns: int, minutes: int, digits: int) -> None:
    ns -= ns % 10 ** (9 - digits)
    zone = timezone(timedelta(minutes=minutes))
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=ns // 10**9)).astimezone(zone)
    sign, (hours, rest) = ("-" if minutes < 0 else "+"), divmod(abs(minutes), 60)
    fraction = f".{ns % 10**9:09d}"[: digits + 1] if digits else ""
    text = f"{local:%Y-%m-%dT%H:%M:%S}{fraction}{sign}{hours:02d}:{rest:02d}"
    instant = Instant.parse(text)
    assert (instant.ns, str(instant)) == (ns, text)
    assert instant.tzinfo is UTC


@given(NS)
def test_instants_survive_copies_pickles_and_json(ns: int) -> None:
    adapter = TypeAdapter(Instant)
    instant = Instant.from_ns(ns)
    for same in (
        copy.copy(instant),
        copy.deepcopy(instant),
        pickle.loads(pickle.dumps(instant)),
        adapter.validate_python(str(instant)),
        adapter.validate_json(adapter.dump_json(instant)),
        Instant.parse(pd.Timestamp(ns, tz="UTC")),
    ):
        assert (same.ns, type(same)) == (ns, Instant)


@pytest.mark.parametrize(
    "text",
    [
        "2026-10-01", "2026-10-01T09:30:00", "2026-10-01 09:30:00Z", "2026-10-01T09:30Z",
        "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-10-01T24:00:00Z",
        "2026-10-01T09:30:00.Z", "2026-10-01T09:30:00.1234567890Z", "2026-10-01T09:30:00+24:00",
        "2026-10-01T09:30:00+01:60", "2026-10-01T09:30:00+0100", "2026-10-01T09:30:00Z\n",
        "٢026-10-01T09:30:00Z", "1677-12-31T23:59:59Z", "2262-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "", "now",
    ],
)  # fmt: skip
def test_what_is_no_instant(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has no|is outside"):
        Instant.parse(text)


@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        Instant.parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - any message will do, any other error will not


@pytest.mark.parametrize("value", [None, 5, b"2026", 1.5])
def test_other_types_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a time; give RFC 3339 text or an aware datetime"):
        Instant.parse(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 120, tzinfo=UTC), "2026-01-02T03:04:05.00012Z"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=5))), "2026-01-01T22:00:00Z"),
        (pd.Timestamp("2026-01-02T03:04:05.000000001Z"), "2026-01-02T03:04:05.000000001Z"),
    ],
)
def test_datetimes_are_taken_whole(value: datetime, text: str) -> None:
    assert str(Instant.parse(value)) == text


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone; pass one"):
        Instant.parse(datetime(2026, 1, 1))  # noqa: DTZ001


def test_arithmetic_goes_on_in_microseconds() -> None:
    start = Instant.parse("2026-01-01T00:00:00.000001999Z")
    later = start + timedelta(seconds=1)
    assert isinstance(later, Instant)
    assert str(later) == "2026-01-01T00:00:01.000001Z"
    assert later.ns == 1_767_225_601_000_001_000
    assert later - start == timedelta(seconds=1)
    assert repr(start) == "Instant('2026-01-01T00:00:00.000001999Z')"


@pytest.mark.parametrize(
    "value",
    [
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_a_moment_beyond_the_calendar(value: datetime) -> None:
    with pytest.raises(ValueError, match="outside the years 1678 to 2261"):
        Instant.parse(value)


# ------------------------------------------------------------------------------- lengths of time


@pytest.mark.parametrize(
    ("length", "text"),
    [
        ("0s", "0 s"), ("1ns", "under 1 ms"), ("999us", "under 1 ms"), ("250ms", "250 ms"),
        ("59.999s", "59 s"), ("60s", "1 min"), ("61s", "1 min 1 s"), ("1h59s", "1 h"),
        ("27h3min", "1 d 3 h"), ("1D59min", "1 d"), ("1234D5h", "1,234 d 5 h"), ("-90s",
        "-1 min 30 s"), ("-1ns", "over -1 ms"), ("-250ms", "-250 ms"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_said_in_its_two_largest_units(length: str, text: str) -> None:
    assert length_text(pd.Timedelta(length).value) == text


@given(st.integers(10**9, 9 * 10**18))
def test_what_is_said_of_a_length_is_not_more_than_it_and_less_by_a_24th_at_most(
    ns: int,
) -> None:
    said = pd.Timedelta(length_text(ns).replace(",", "").replace(" d", "D")).value
    assert 0 <= ns - said < max(ns // 24, 10**9)
