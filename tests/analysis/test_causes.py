"""Each cause by hand: the row that has it, the very amount, and one unit beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from fundlab.analysis.causes import (
    SHOWN,
    Break,
    Cause,
    Evidence,
    Facts,
    Row,
    find_causes,
    transposed,
)

ONE = 10**18
SECOND = 10**9
_places = count()


def row(id: str | None = "a", total: int = 10, kind: str = "WIRE_DEPOSIT", **given: Any) -> Row:
    """A transfer of whole dollars in the fifth second; a withdrawal is a debit, all else a credit,
    its amount what the fee leaves or takes."""
    debit = "WITHDRAWAL" in kind or "DEBIT" in kind
    direction = given.pop("direction", "DEBIT" if debit else "CREDIT")
    fee, status = given.pop("fee", 0), given.pop("status", "COMPLETED")
    amount = given.pop("amount", total - fee if direction == "DEBIT" else total + fee)
    signed = -total if direction == "DEBIT" else total
    counts = status == "COMPLETED" or (status == "PENDING" and direction == "DEBIT")
    asset = given.pop("asset", "USD")
    at = given.pop("at", 5)
    return Row(
        id, given.pop("profile", "p"), asset, given.pop("sent", asset), direction, kind,
        given.pop("network", "WIRE"), status, amount * ONE, fee * ONE, total * ONE, signed * ONE,
        signed * ONE if counts else 0, at * SECOND, given.pop("updated", at) * SECOND,
        given.pop("group", ""), given.pop("ref", ""), next(_places),
    )  # fmt: skip


def found(
    difference: float, *rows: Row, facts: Facts | None = None, others: Any = (), usual: Any = None,
    alone: Any = (), begins_late: bool = False, **given: Any,
) -> list[Cause]:  # fmt: skip
    """The causes of a break of ``difference`` dollars, of ``p`` in dollars."""
    broken = Break("p", "USD", int(difference * ONE), **given)
    usual = {
        kind: {fee * ONE: n for fee, n in fees.items()} for kind, fees in (usual or {}).items()
    }
    evidence = Evidence(
        rows, [broken, *others], [facts or Facts(), *(Facts() for _ in others)], usual, alone,
        begins_late,
    )  # fmt: skip
    return find_causes(broken, 0, evidence)


def named(*given: Any, **options: Any) -> list[str]:
    """``cause`` or ``cause id`` of each, without what always applies."""
    causes = found(*given, **options)
    return [
        f"{one.cause} {one.transfer_id}" if one.transfer_id else one.cause
        for one in causes if one.cause != "missing_transfer"
    ]  # fmt: skip


def beside(amount: float) -> tuple[float, float]:
    """The least that may be too much and too little."""
    return amount + 1 / 8, amount - 1 / 8


OUT, IN = "WIRE_WITHDRAWAL", "WIRE_DEPOSIT"
TO, FROM = "INTERNAL_TRANSFER_CREDIT", "INTERNAL_TRANSFER_DEBIT"
NOW: dict[str, Any] = {"first": 4 * SECOND, "last": 9 * SECOND}
LATE: dict[str, Any] = {"first": 9 * SECOND, "last": None}
PEERS = {(IN, "USD", "WIRE"): {2: 30, 5: 3, 7: 3}}
TWO = [row("a", 10), row("b", 10)]
ODD = {
    "a": row("a", 12, amount=10),  # by -2
    "b": row("b", 10, direction="DEBIT"),  # by 20
    "c": row("c", 40, amount=40, fee=1),  # by -1
    "d": row("d", 37, amount=30),  # by -7
}


def other(difference: float, **given: Any) -> Break:
    return Break(
        given.pop("profile", "q"), given.pop("asset", "USD"), int(difference * ONE), **given
    )


@pytest.mark.parametrize(
    ("cause", "difference", "rows", "given"),
    [
        ("not_reported", 7, [], {"reported": False}),
        # one transfer twice: its id, its reference, its group and type, or all that is to be seen
        ("duplicate a", -10, [row("a", ref="x"), row("a")], {}),
        ("duplicate b", -10, [row("a", 10, ref="x"), row("b", 10, ref="x", at=6)], {}),
        ("duplicate b", -10, [row("a", 10, group="x"), row("b", 10, group="x", at=6)], {}),
        ("duplicate b", -10, TWO, {}),
        ("duplicate b", 10, [row("a", kind=OUT), row("b", kind=OUT)], {}),
        ("duplicate b", -10, TWO, NOW),
        ("duplicate b", -10, [row("a", 10, at=3), row("b", 10, at=3, updated=5)], NOW),
        ("duplicate c", -20, [*TWO, row("c", 10)], {}),
        # the wrong way, with the fee on the same side and on the other
        ("wrong_direction a", 20, [row("a", 10, direction="DEBIT")], {}),
        ("wrong_direction a", 20, [row("a", 10, fee=1, direction="DEBIT")], {}),
        ("wrong_direction a", 18, [row("a", 10, fee=1, direction="DEBIT")], {}),
        ("wrong_direction a", -20, [row("a", 10, OUT, direction="CREDIT")], {}),
        ("wrong_direction a", -22, [row("a", 10, OUT, fee=1, direction="CREDIT")], {}),
        # a total that is not the amount less or plus the fee
        ("wrong_total a", -3, [row("a", 12, amount=10, fee=1)], {}),
        ("fee a", -2, [row("a", 11, amount=10, fee=1)], {}),
        ("fee a", -1, [row("a", 10, amount=10, fee=1)], {}),
        ("wrong_total a", -1, [row("a", 11, amount=10)], {}),
        ("fee a", 2, [row("a", 14, OUT, amount=10, fee=2)], {}),
        ("wrong_total a", -2, [row("a", 10, OUT, amount=12)], {}),
        ("fee b", 3, [row("a", 9, fee=5), row("b", 20, fee=5)], {"usual": PEERS}),
        ("fee a", 3, [row("a", 9, fee=5)], {"usual": PEERS}),
        ("fee a", 3, [row("a", 9, fee=5)], {"usual": {(IN, "USD", "WIRE"): {2: 1}}}),
        ("fee b", 6, [row("a", 9, fee=5), row("b", 20, fee=5)], {"usual": PEERS}),
        ("fee", 3, [row(n, 9 + k, fee=5) for k, n in enumerate("abcd")], {"usual": PEERS}),
        ("fee t", 60, [row(n, 100 + k, fee=5) for k, n in enumerate("abcdefghijklmnopqrst")],
         {"usual": PEERS}),
        # halves of internal transfers
        ("mismatched_half a", 1,
         [row("a", 10, FROM, group="g"), row("b", 9, TO, group="g", profile="q")], {}),
        ("mismatched_half a", -1,
         [row("a", 10, TO, group="g"), row("b", 9, FROM, group="g", profile="q")], {}),
        ("missing_half b", 10, [row("b", 10, FROM, group="g", profile="q")], {"alone": ["g"]}),
        ("missing_half b", -10, [row("b", 10, TO, group="g", profile="q")], {"alone": ["g"]}),
        # two or three together, or all that is certain
        ("wrong_total b", -5, [row("a", 12, amount=10), row("b", 23, amount=20)], {}),
        ("together a", 18, [ODD["a"], ODD["b"]], {}),
        ("together a", 17, [ODD["a"], ODD["b"], ODD["c"]], {}),
        ("together a", 10, [*ODD.values()], {}),
        ("together f", 30, [row("e", 10, status="FAILED"), row("f", 20, at=6, status="FAILED")],
         {}),
        # another break of the opposite amount
        ("shifted_time a", 10, [row("a", 10)],
         NOW | {"others": [other(-10, profile="p", **LATE)], "first": None, "last": 4 * SECOND}
         | {"others": [other(-10, profile="p", first=4 * SECOND, last=9 * SECOND)]}),
        ("wrong_asset a", 10, [row("a", 10, asset="EUR")],
         {"others": [other(-10, profile="p", asset="EUR")]}),
        ("wrong_asset a", -10, [row("a", 10)], {"others": [other(10, profile="p", asset="EUR")]}),
        ("wrong_profile a", 10, [row("a", 10, profile="q")], {"others": [other(-10)]}),
        ("wrong_profile a", -10, [row("a", 10)], {"others": [other(10)]}),
        ("wrong_profile a", 10, [row("a", 10, OUT)], {"others": [other(-10)]}),
        ("wrong_conversion a", 10, [row("a", 10, asset="EUR", sent="USD")], {}),
        ("wrong_conversion a", 10, [row("a", 10, asset="EUR", sent="GBP")],
         {"others": [other(-10, profile="p", asset="EUR")]}),
        ("missing_both_halves", 10, [], {"others": [other(-10)]}),
        ("missing_both_halves", -10, [], {"others": [other(10)]}),
        ("missing_both_halves", 10, [], NOW | {"others": [other(-10, last=5 * SECOND)]}),
        # after it was looked at; in trading
        ("observed_earlier z", -8, [],
         {"observed": 1, "facts": Facts(after=2, after_sum=8 * ONE, after_id="z")}),
        ("trading", 7, [], {"trading": 7 * ONE}),
        ("trading", -7, [], {"trading": 7 * ONE}),
        # by what state a row is in
        ("failed_here a", 10, [row("a", 10, status="FAILED")], {}),
        ("failed_here a", -10, [row("a", 10, OUT, status="FAILED")], {}),
        ("pending a", 10, [row("a", 10, status="PENDING")], {}),
        ("pending a", 10, [row("a", 10, OUT, status="PENDING")], {}),
        ("failed_later a", -10, [row("a", 10)], {}),
        ("failed_later a", 10, [row("a", 10, OUT)], {}),
        ("counted_twice a", 10, [row("a", 10)], {}),
        ("counted_twice a", -10, [row("a", 10, OUT)], {}),
        ("reversed_sign a", -20, [row("a", 10, fee=1)], {}),
        ("reversed_sign a", -22, [row("a", 10, fee=1)], {}),
        ("reversed_sign a", 20, [row("a", 10, OUT, fee=1)], {}),
        ("reversed_sign a", 18, [row("a", 10, OUT, fee=1)], {}),
        ("reversed_sign a", -20, [row("a", 10, "NEW_KIND")], {}),
        ("pending", 25, [], {"facts": Facts(waiting=2, waiting_sum=25 * ONE)}),
        ("pending", 25, [], {"facts": Facts(held=2, held_sum=-25 * ONE)}),
        # what an amount only looks like
        ("fee a", 2, [row("a", 10, fee=2)], {}),
        ("fee a", -4, [row("a", 10, fee=2)], {}),
        ("fee", 2, [row(n, 100 + k, fee=2) for k, n in enumerate("abcd")], {}),
        ("several_fees", 6, [row(n, 100 + k, fee=2) for k, n in enumerate("abc")], {}),
        ("several_fees", -40,
         [row(n, 100 + k, fee=2) for k, n in enumerate("abcdefghijklmnopqrst")], {}),
        ("decimal_shift a", 90, [row("a", 10)], {}),
        ("decimal_shift a", -9, [row("a", 10)], {}),
        ("decimal_shift a", 10**9 - 10, [row("a", 10)], {}),
        ("transposed_digits a", 9, [row("a", 12)], {}),
        ("transposed_digits a", -9, [row("a", 21)], {}),
        ("transposed_digits a", -9, [row("a", 12, OUT)], {}),
        ("transposed_digits a", 90, [row("a", 3_120)], {}),
        ("transposed_digits", 9, [row(n, 112 + 100 * k) for k, n in enumerate("abcd")], {}),
        ("transposed_digits c", 9, [row(n, 112 + 100 * k) for k, n in enumerate("abc")], {}),
    ],
)  # fmt: skip
def test_a_cause_makes_just_the_difference(
    cause: str, difference: float, rows: list[Row], given: dict[str, Any]
) -> None:
    assert cause in named(difference, *rows, **given)
    if cause not in ("not_reported", "together a"):
        for amount in beside(difference):
            assert cause not in named(amount, *rows, **given)
    assert all(one.amount == int(difference * ONE) for one in found(difference, *rows, **given))


@pytest.mark.parametrize(
    ("cause", "difference", "rows", "given"),
    [
        ("duplicate", -10, [row("a", at=2), row("a", at=3)], NOW),  # neither within the interval
        ("duplicate", -10, [row("a", ref="x"), row("b", OUT and 10, OUT, ref="x")], {}),
        ("duplicate", -10, [row(None), row(None, 9)], {}),
        ("duplicate", 0.5, [row("a", status="FAILED"), row("a", status="FAILED")], {}),
        ("wrong_direction", 20, [row("a", 10, OUT)], {}),
        ("wrong_direction", 20, [row("a", 10, "NEW_KIND", direction="DEBIT")], {}),
        ("wrong_direction", 20, [row("a", 10, direction="DEBIT", status="FAILED")], {}),
        ("wrong_direction", 10, [row("a", 10, direction="DEBIT", status="FAILED")], {}),
        ("wrong_total", -2, [row("a", 12, amount=10, status="FAILED")], {}),
        ("wrong_total", -2, [row("a", 11, amount=10, fee=1)], {}),
        ("wrong_total", -1, [row("a", 10, amount=10, fee=1)], {}),
        ("fee a", 3, [row("a", 9, fee=5, kind="RTP_DEPOSIT")], {"usual": PEERS}),
        ("fee a", -2, [row("a", 9, fee=5)], {"usual": PEERS}),  # as many pay 5 as pay 7
        ("fee u", 63, [row(n, 9 + k, fee=5) for k, n in enumerate("abcdefghijklmnopqrstu")],
         {"usual": PEERS}),
        ("missing_half b", 10, [row("b", 10, FROM, group="g", profile="q")], {}),
        ("missing_half b", 10, [row("b", 10, FROM, group="g", profile="q", at=3)],
         NOW | {"alone": ["g"]}),
        ("missing_both_halves", 10, [],
         NOW | {"others": [other(-10, first=9 * SECOND, last=None)]}),
        ("missing_both_halves", 10, [], NOW | {"others": [other(-10, last=4 * SECOND)]}),
        ("missing_both_halves", 10, [], {"others": [other(-10, asset="EUR")]}),
        ("missing_both_halves", 10, [], {"others": [other(-10, profile="p")]}),
        ("wrong_profile", 10, [row("a", 10, profile="q", asset="EUR")],
         {"others": [other(-10, asset="EUR")]}),
        ("observed_earlier", -8, [], {"facts": Facts(after=2, after_sum=8 * ONE)}),
        ("observed_earlier", 0.5, [], {"observed": 1}),
        ("failed_later", -10, [row("a", 10, OUT, status="PENDING")], {}),
        ("failed_later", 10, [row("a", 10, OUT, status="PENDING")], {}),
        ("reversed_sign", 20, [row("a", 10, direction="DEBIT")], {}),
        ("pending", 25, [], {"facts": Facts(waiting=1, waiting_sum=25 * ONE)}),
        ("several_fees", 8, [row(n, 100 + k, fee=2) for k, n in enumerate("abc")], {}),
        ("several_fees", 42,
         [row(n, 100 + k, fee=2) for k, n in enumerate("abcdefghijklmnopqrstu")], {}),
        ("together a", 150,  # of which none is certain
         [row(n, 10 * 2**k, status="FAILED") for k, n in enumerate("abcd")], {}),
        ("decimal_shift", 99_990, [row("a", 10)], {}),  # by four powers
        ("transposed_digits", 9, [row("a", 13)], {}),
        ("transposed_digits", 9, [row("a", 12, status="FAILED")], {}),
    ],
)  # fmt: skip
def test_it_does_not_apply(
    cause: str, difference: float, rows: list[Row], given: dict[str, Any]
) -> None:
    causes = named(difference, *rows, **given)
    assert not [one for one in causes if one == cause or one.startswith(f"{cause} ")]


@pytest.mark.parametrize(
    ("difference", "given", "facts", "cause"),
    [
        (5, {}, Facts(begun=3, below=3, lowest=-5 * ONE), "missing_history"),
        (5, {"last": 2}, Facts(begun=3, below=4), "missing_history"),
        (5, {"last": 3}, Facts(begun=3, below=4), "ran_below_zero"),
        (5, {}, Facts(begun=3, below=4, lowest=-5 * ONE), "ran_below_zero"),
        (5, {}, Facts(begun=3, below=3, opened=1, lowest=-5 * ONE), "ran_below_zero"),
        (5, {"begins_late": True}, Facts(begun=3), "missing_history"),
        (5, {}, Facts(begun=3, below=4, lowest=-5 * ONE - 1), None),
        (5, {}, Facts(begun=3), None),
        (5, {}, Facts(below=3), None),
        (5, {"first": 1, "begins_late": True}, Facts(begun=3, below=3), None),
        (-5, {"begins_late": True}, Facts(begun=3, below=3), None),
        (5, {}, Facts(begun=3, below=3, lowest=ONE), "missing_history"),
    ],
)
def test_the_course_of_a_balance_shows_what_is_missing_before(
    difference: float, given: dict[str, Any], facts: Facts, cause: str | None
) -> None:
    causes = {*named(difference, facts=facts, **given)}
    assert causes & {"missing_history", "ran_below_zero"} == ({cause} if cause else set())


@pytest.mark.parametrize(
    ("rows", "facts", "given", "applies"),
    [
        ([row("a")], 3, {}, True),
        ([row("a")], 4, {}, False),
        ([row("a"), row("b", 11)], 2, {}, False),
        ([row("a"), row("b", 11)], 3, NOW, True),
        ([row("a"), row("b", 11)], 4, NOW, False),
    ],
)
def test_another_amount_is_supposed_of_few_rows(
    rows: list[Row], facts: int, given: dict[str, Any], applies: bool
) -> None:
    causes = named(3.5, *rows, facts=Facts(counting=facts), **given)
    assert causes == [f"changed_amount {one.id}" for one in rows] * applies


def test_of_each_kind_the_best_comes_first_and_five_at_most() -> None:
    assert SHOWN == 5
    pending = [row(str(n), 10, status="FAILED", at=n) for n in range(9)]
    causes = found(10, *pending, row("z", 10, at=20), facts=Facts(counting=1))
    assert [f"{one.cause} {one.transfer_id}" for one in causes] == [
        "failed_here 8", "counted_twice z", "missing_transfer None", "changed_amount z",
        "failed_here 7", "failed_here 6", "failed_here 5", "failed_here 4",
    ]  # fmt: skip


def test_the_rest_of_what_is_certain_is_missing() -> None:
    (cause, *_) = found(40, row("a", 12, amount=10))
    assert (cause.cause, cause.amount, cause.transfer_id) == ("together", 40 * ONE, "a")
    assert cause.detail == "wrong_total a: -2.00; missing_transfer: 42.00"


@pytest.mark.parametrize(
    ("away", "place", "digits"),
    [
        (9, 0, ("01", "12", "23", "34", "45", "56", "67", "78", "89")),
        (-9, 0, ("10", "21", "32", "43", "54", "65", "76", "87", "98")),
        (81, 0, ("09",)), (-72, 0, ("80", "91")), (90, 1, ("01", "12", "23", "34", "45", "56", "67",
                                                           "78", "89")),
        (6_300, 2, ("07", "18", "29")), (99, 0, ()), (0, 0, ()), (10, 0, ()), (-8, 0, ()),
    ],
)  # fmt: skip
def test_digits_that_changed_places(away: int, place: int, digits: tuple[str, ...]) -> None:
    assert transposed(away)[1] == digits
    if digits:
        assert transposed(away)[0] == place
        for pair in digits:
            before, after = int(pair), int(pair[::-1])
            assert (after - before) * 10**place == away


class TestBreak:
    @pytest.mark.parametrize(
        ("created", "updated", "held"),
        [(4, 4, False), (5, 5, True), (9, 9, True), (10, 10, False), (3, 5, True), (3, 10, False)],
    )
    def test_after_its_beginning_and_until_its_end(
        self, created: int, updated: int, held: bool
    ) -> None:
        broken = Break("p", "USD", 1, first=4 * SECOND, last=9 * SECOND)
        assert broken.holds(row("a", at=created, updated=updated)) is held
        assert Break("p", "USD", 1).holds(row("a", at=created, updated=updated))

    @pytest.mark.parametrize(
        ("made", "moments"),
        [
            (row("a", at=1, updated=2), (2,)),
            (row("a", at=1, updated=2, status="PENDING"), ()),
            (row("a", at=1, updated=2, status="FAILED"), ()),
            (row("a", kind=OUT, at=1, updated=2), (1,)),
            (row("a", kind=OUT, at=1, updated=2, status="PENDING"), (1,)),
            (row("a", kind=OUT, at=1, updated=2, status="FAILED"), (1, 2)),
        ],
    )
    def test_when_a_row_moved_the_balance(self, made: Row, moments: tuple[int, ...]) -> None:
        assert made.moves == tuple(SECOND * one for one in moments)
        broken = Break("p", "USD", 1, first=SECOND, last=2 * SECOND)
        assert broken.moved(made) is (2 in moments)

    @pytest.mark.parametrize(
        ("one", "other", "overlap"),
        [
            ((None, None), (None, None), True), ((1, 5), (5, 9), False), ((1, 5), (4, 9), True),
            ((5, 9), (1, 5), False), ((None, 5), (5, None), False), ((None, 5), (4, None), True),
            ((1, 5), (2, 3), True), ((6, None), (None, 6), False), ((5, None), (None, 6), True),
        ],
    )  # fmt: skip
    def test_two_that_overlap(self, one: Any, other: Any, overlap: bool) -> None:
        first, second = (Break("p", "USD", 1, first=a, last=b) for a, b in (one, other))
        assert first.overlaps(second) is overlap
        assert second.overlaps(first) is overlap


def test_a_row_that_moved_in_the_other_interval_alone_is_shifted() -> None:
    here, there = {"last": 4 * SECOND}, other(-10, profile="p", first=4 * SECOND, last=9 * SECOND)
    for made, shifted in (
        (row("a", 10), True),
        (row("a", 10, at=3, updated=5), True),
        (row("a", 10, OUT, at=3, updated=5), True),
        (row("a", 10, at=3), False),
        (row("a", 10, OUT, at=3, updated=5, status="FAILED"), False),
        (row("a", 9), False),
    ):
        assert ("shifted_time a" in named(10, made, others=[there], **here)) is shifted
    later = other(10, profile="p", first=9 * SECOND, last=12 * SECOND)
    made = row("a", 10, OUT, at=3, updated=10)  # it moved before either, and changed in the later
    assert "shifted_time a" not in named(-10, made, others=[later], **NOW)


@pytest.mark.parametrize(
    ("cause", "difference", "rows", "given", "detail"),
    [
        ("missing_transfer", 7, [], {},
         "a credit of 7.00 USD between the beginning and now"),
        ("missing_transfer", 1e-18, [], {},
         "a credit of 0.000000000000000001 USD between the beginning and now"),
        ("missing_transfer", -7, [], NOW,
         "a debit of 7.00 USD between 1970-01-01 00:00:04 UTC and 1970-01-01 00:00:09 UTC"),
        ("pending", 25, [
            row("b", 10, status="PENDING"), row("a", 15, status="PENDING", at=6),
            row("c", 9, OUT, status="PENDING"), row("d", 8),
        ], {"facts": Facts(waiting=2, waiting_sum=25 * ONE)}, "2 pending transfers: b, a"),
        ("pending", 15, [
            row("b", 6, OUT, status="PENDING"), row("a", 9, OUT, status="PENDING", at=6),
            row("c", 7, status="PENDING"), row("d", 8),
        ], {"facts": Facts(held=2, held_sum=-15 * ONE)}, "2 pending transfers: b, a"),
        ("duplicate", -10, [row("a", ref="x"), row("a")], {}, "there twice, its id"),
        ("duplicate", -10, [row("a", 10, ref="x"), row("b", 10, ref="x", at=6)], {},
         "there twice, as a"),
        ("observed_earlier", -8, [],
         {"observed": SECOND, "facts": Facts(after=2, after_sum=8 * ONE, after_id="z")},
         "2 made after 1970-01-01 00:00:01 UTC, when it was looked at"),
        ("missing_both_halves", 10, [], {"others": [other(-10)]},
         "an internal transfer of 10.00 USD from q to p"),
        ("missing_both_halves", -10, [], {"others": [other(10)]},
         "an internal transfer of 10.00 USD from p to q"),
        ("missing_both_halves", 1 / ONE, [], {"others": [other(-1 / ONE)]},
         "an internal transfer of 0.000000000000000001 USD from q to p"),
        ("reversed_sign", -20, [row("a", 10)], {}, "would be a debit at the service"),
        ("reversed_sign", 20, [row("a", 10, OUT)], {}, "would be a credit at the service"),
        ("missing_half", 10, [row("b", 10, FROM, group="g", profile="q")], {"alone": ["g"]},
         "the credit half of group g is missing; b is there"),
        ("missing_half", -10, [row("b", 10, TO, group="g", profile="q")], {"alone": ["g"]},
         "the debit half of group g is missing; b is there"),
    ],
)  # fmt: skip
def test_what_is_said_of_it(
    cause: str, difference: float, rows: list[Row], given: dict[str, Any], detail: str
) -> None:
    said = [one.detail for one in found(difference, *rows, **given) if one.cause == cause]
    assert detail in said


@pytest.mark.parametrize(("count", "ids"), [(5, "a, b, c, d, e"), (6, "a, b, c, d, e, …")])
def test_of_many_five_are_listed(count: int, ids: str) -> None:
    rows = [row(n, 12 + 2 * k, amount=10 + 2 * k) for k, n in enumerate("abcdef"[:count])]
    (first, *_) = found(-2 * count, *rows)
    assert (first.cause, first.detail) == ("wrong_total", f"{count} transfers: {ids}")
    kinds = [replace(one, total=one.total + k * ONE) for k, one in enumerate(rows)]
    (first, *_) = found(1_000, *kinds)
    assert first.detail.count(";") == min(count, 5) + (count > 5)
    assert ("; …" in first.detail) is (count > 5)


def test_halves_are_those_of_internal_transfers_of_one_group() -> None:
    halves = [row("a", 10, FROM, group="g"), row("b", 9, TO, group="g", profile="q")]
    assert "mismatched_half a" in named(1, *halves)
    for one, two in (
        ({"group": ""}, {"group": ""}), ({"group": "g"}, {"group": "h"}),
        ({"group": "g", "kind": OUT}, {"group": "g", "kind": IN}),
    ):  # fmt: skip
        pair = [
            row("a", 10, **{"kind": FROM} | one),
            row("b", 9, **{"kind": TO, "profile": "q"} | two),
        ]
        assert "mismatched_half a" not in named(1, *pair)
    same_side = [row("a", 10, FROM, group="g"), row("b", 9, FROM, group="g", profile="q")]
    assert not [one for one in named(19, *same_side) if one.startswith("mismatched_half")]
