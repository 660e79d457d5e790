"""Every rule of a transfer at its bound, in one pass over rows made by hand: what each breaks, and
what is said of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from test_transfers import MONEY

from fundlab.tables import transfers as meaning

S = 10**9
LARGEST = Decimal("9" * 20 + "." + "9" * 18)
RULED = pa.schema([
    *((name, pa.string()) for name in meaning.TEXTS), *((name, MONEY) for name in meaning.AMOUNTS),
    *((name, pa.int64()) for name in meaning.TIMES),
    *((name, pa.string()) for name in meaning.LINKS),
])  # fmt: skip
DEBIT = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}


def row(id_: str | None, **more: Any) -> dict[str, Any]:
    """A completed deposit of 10 USD for a fee of 1."""
    return {
        "id": id_, "profile_id": "p", "asset": "USD", "direction": "CREDIT",
        "type": "WIRE_DEPOSIT", "status": "COMPLETED", "amount": Decimal(10), "fee": Decimal(1),
        "total": Decimal(9), "created_at": 5 * S, "updated_at": 5 * S, "balance_asset": None,
        "group_id": None, "auto_conversion": None,
    } | more  # fmt: skip


def broken(*rows: dict[str, Any], **more: Any) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()

    def lazy(table: pa.Table) -> Any:
        return nw.from_native(connection.from_arrow(table))

    def collected(some: Any) -> pa.Table:
        return some.to_native().to_arrow_table()

    given: dict[str, Any] = {"complete": True} | more
    found = meaning.violations(
        lazy(pa.Table.from_pylist(rows, RULED)), collect=collected, beside=lazy, **given
    )
    return sorted((tuple(one.values()) for one in collected(found).to_pylist()), key=str)


ALONE: dict[str, tuple[dict[str, Any], list[tuple[str, str, str]]]] = {
    "sound": ({}, []),
    "complete": ({"status": "COMPLETE"}, []),
    "pending": ({"status": "PENDING", **DEBIT, "total": Decimal(11)}, []),
    **{f"no {name}": ({name: None}, [("required", f"a value in {name}", "nothing")])
       for name in ("profile_id", "asset", "direction", "type", "status", "amount", "fee", "total",
                    "created_at")},
    "no update": ({"updated_at": None}, []),
    "empty profile": ({"profile_id": ""},
                      [("required", "a value in profile_id", "an empty text")]),
    "empty asset": ({"asset": ""}, [("required", "a value in asset", "an empty text")]),
    "status": ({"status": "DONE"},
               [("status", "PENDING or COMPLETED or FAILED or COMPLETE", "DONE")]),
    "direction": ({"direction": "UP"}, [
        ("direction", "CREDIT or DEBIT", "UP"), ("direction_of_type", "CREDIT", "UP")]),
    "a deposit that takes": ({"direction": "DEBIT", "total": Decimal(11)},
                             [("direction_of_type", "CREDIT", "DEBIT")]),
    "a withdrawal that brings": ({"type": "WIRE_WITHDRAWAL"},
                                 [("direction_of_type", "DEBIT", "CREDIT")]),
    "an unlisted type": ({"type": "CARD_REFUND", "direction": "DEBIT", "total": Decimal(11)}, []),
    "credit total": ({"total": Decimal("9.000000000000000001")},
                     [("total", "9", "9.000000000000000001")]),
    "credit whole": ({"total": Decimal(100)}, [("total", "9", "100")]),
    "debit total": ({**DEBIT, "total": Decimal("10.50")}, [("total", "11", "10.5")]),
    "debit no fee": ({**DEBIT, "fee": Decimal(0), "total": Decimal("10.5")},
                     [("total", "10", "10.5")]),
    "debit fits": ({**DEBIT, "amount": Decimal("9" * 19 + "7." + "9" * 18), "total": Decimal(1)},
                   [("total", "9" * 19 + "8." + "9" * 18, "1")]),
    "debit full": ({**DEBIT, "amount": Decimal("9" * 19 + "8." + "9" * 18), "total": Decimal(1)},
                   [("total", str(LARGEST), "1")]),
    "debit over": ({**DEBIT, "amount": LARGEST, "total": Decimal(1)},
                   [("total", "more than 20 integer digits", "1")]),
    "debit fee over": ({**DEBIT, "amount": Decimal(1), "fee": LARGEST, "total": Decimal(1)},
                       [("total", "more than 20 integer digits", "1")]),
    "debit fee full": (
        {**DEBIT, "amount": Decimal(1), "fee": Decimal("9" * 19 + "8." + "9" * 18),
         "total": Decimal(1)}, [("total", str(LARGEST), "1")]),
    "negative amount": ({"amount": Decimal(-1), "total": Decimal(-2)}, [
        ("not_negative", "amount of 0 or more", "-1"),
        ("not_negative", "total of 0 or more", "-2")]),
    "negative fee": ({"fee": Decimal(-1), "total": Decimal(11)},
                     [("not_negative", "fee of 0 or more", "-1")]),
    "zeros": ({"amount": Decimal(0), "fee": Decimal(0), "total": Decimal(0)}, []),
    "empty balance asset": ({"balance_asset": ""},
                            [("balance_asset", "an asset or nothing", "an empty text")]),
    "same balance asset": ({"balance_asset": "USD"}, []),
    "other balance asset": ({"balance_asset": "EUR"}, [
        ("balance_asset", "USD, as no auto_conversion makes it another", "EUR")]),
    "nothing converted": ({"balance_asset": "EUR", "auto_conversion": " { } "}, [
        ("balance_asset", "USD, as no auto_conversion makes it another", "EUR")]),
    "converted": ({"balance_asset": "EUR", "auto_conversion": ' {\n"a": 1}'}, []),
    "a nanosecond early": ({"updated_at": 5 * S - 1},
                           [("updated_at", "created_at or later", "1 ns before created_at")]),
    "nearly a second early": ({"updated_at": 4 * S + 1}, [
        ("updated_at", "created_at or later", "999999999 ns before created_at")]),
    "a second early": ({"updated_at": 4 * S},
                       [("updated_at", "created_at or later", "1 s before created_at")]),
    "later": ({"updated_at": 5 * S + 1}, []),
}  # fmt: skip


def test_what_a_row_breaks_by_itself() -> None:
    rows = [row(name, **more) for name, (more, _) in ALONE.items()]
    wanted = [(name, *one) for name, (_, rules) in ALONE.items() for one in rules]
    assert broken(*rows) == sorted(wanted)
    silent = broken(*rows, shows_conversions=False)
    assert silent == sorted(
        one for one in wanted if "as no auto_conversion" not in one[2]
    )  # fmt: skip


def test_an_id_is_there_and_once() -> None:
    found = broken(row("a"), row("a"), row("b"), row(None), row(None), row("c"), row("c"), row("c"))
    assert found[:2] == [
        ("a", "unique_id", "1 row", "2 rows"),
        ("c", "unique_id", "1 row", "3 rows"),
    ]
    assert found[2:] == [(None, "required", "a value in id", "nothing")] * 2


def half(
    id_: str, side: str, group: str, status: str | None = "COMPLETED", **more: Any
) -> Any:  # fmt: skip
    total = Decimal(9 if side == "CREDIT" else 11)
    kind = f"INTERNAL_TRANSFER_{side}"
    given = {"direction": side, "type": kind, "total": total, "group_id": group, "status": status}
    return row(id_, **given | more)


HALVES: list[tuple[str, str | None, str]] = [
    ("D C", None, ""),
    ("D", None, ""),
    ("C", None, ""),
    ("D D C", "one debit and one credit", "2 and 1 that did not fail"),
    ("C C", "one debit and one credit", "0 and 2 that did not fail"),
    ("D Df C", None, ""),
    ("D Cf", "both completed or both failed", "the debit completed, the credit failed"),
    ("C Df", "both completed or both failed", "the credit completed, the debit failed"),
    ("Dp Cf", None, ""),
    ("Df Cf", None, ""),
    ("D C Cf", None, ""),
    ("D Cf Cf", "both completed or both failed", "the debit completed, the credit failed"),
    ("D Df", None, ""),
]
UNEQUAL: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"amount": Decimal("10.01"), "total": Decimal("9.01")}, "debit 10 USD, credit 10.01 USD"),
    ({"asset": "EUR"}, "debit 10 USD, credit 10 EUR"),
    ({"status": "PENDING", "amount": Decimal(7), "total": Decimal(6)},
     "debit 10 USD, credit 7 USD"),
]  # fmt: skip


def test_what_halves_break_together() -> None:
    states = {"": "COMPLETED", "f": "FAILED", "p": "PENDING"}
    sides = {"D": "DEBIT", "C": "CREDIT"}
    rows = [half("own", "DEBIT", ""), half("alone", "CREDIT", "other"), row("y", group_id="g0")]
    wanted = []
    for n, (halves, expected, found) in enumerate(HALVES):
        rows += [
            half(f"g{n:02}-{place}", sides[one[0]], f"g{n}", states[one[1:]])
            for place, one in enumerate(halves.split())
        ]
        if expected is not None:
            wanted.append((f"g{n:02}-0", "halves", f"{expected} in group g{n}", found))
    for n, (credit, differ) in enumerate(UNEQUAL):
        rows += [half(f"u{n}-a", "DEBIT", f"u{n}"), half(f"u{n}-b", "CREDIT", f"u{n}", **credit)]
        if differ is not None:
            wanted.append((f"u{n}-a", "halves", f"equal amounts in group u{n}", differ))
    assert broken(*rows) == wanted


def test_a_half_without_a_status_did_not_fail() -> None:
    rows = [half("a", "DEBIT", "g", status=None), half("b", "CREDIT", "g")]
    assert broken(*rows) == [("a", "required", "a value in status", "nothing")]


@pytest.mark.parametrize("complete", [True, False])
def test_the_ends_of_a_conversion_are_there(complete: bool) -> None:
    rows = [
        row("a", auto_conversion='{"from_transfer_id": "a", "to_transfer_id": "b"}'),
        row("b", auto_conversion='{"from_transfer_id": "gone", "to_transfer_id": "b"}'),
        row("c", auto_conversion='{"from_transfer_id": "a", "to_transfer_id": "lost"}'),
        row("d", auto_conversion='{"other": "x"}'),
        row("e", auto_conversion='{"to_transfer_id": null}'),
    ]
    wanted = [
        ("b", "conversion", "a transfer that is there in from_transfer_id", "gone"),
        ("c", "conversion", "a transfer that is there in to_transfer_id", "lost"),
    ]
    assert broken(*rows, complete=complete) == wanted * complete


def test_the_end_of_a_conversion_may_be_in_capitals() -> None:
    """As the ids of rows may be, which are in small letters here."""
    one, other = (f"0f5e2c1a-9b3d-4c7e-8a6f-abcdefabcde{n}" for n in "ab")
    ends = f'{{"from_transfer_id": "{one.upper()}", "to_transfer_id": "{other.upper()}"}}'
    assert broken(row(one, auto_conversion=ends), row(other, auto_conversion=ends)) == []


def test_what_a_row_means_for_its_period_and_its_line() -> None:
    table = pa.table({
        "direction": ["CREDIT", "DEBIT", "CREDIT", "DEBIT", "CREDIT"],
        "type": ["WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "INTERNAL_TRANSFER_CREDIT",
                 "INTERNAL_TRANSFER_DEBIT", "WIRE_DEPOSIT"],
        "asset": ["USD"] * 5, "balance_asset": [None, "USD", None, None, "EUR"],
        "created_at": [1, 2, 3, 4, 5], "settled_at": [11, None, 13, 14, 15],
        "total": pa.array([Decimal(n) for n in range(1, 6)], MONEY),
    })  # fmt: skip
    found = nw.from_native(duckdb.connect().from_arrow(table)).select(
        line=meaning.line(), held=meaning.held_or_settled(), created=meaning.placed_at("created"),
        settled=meaning.placed_at("settled"), change=meaning.change(), inflow=meaning.inflow(),
        outflow=meaning.outflow(),
    )  # fmt: skip
    assert found.to_native().to_arrow_table().to_pydict() == {
        "line": ["receipt", "disbursement", "internal", "internal", "conversion"],
        "held": [11, 2, 13, 4, 15], "created": [1, 2, 3, 4, 5], "settled": [11, 2, 13, 14, 15],
        "change": [Decimal(n) for n in (1, -2, 3, -4, 5)],
        "inflow": [Decimal(n) for n in (1, 0, 3, 0, 5)],
        "outflow": [Decimal(n) for n in (0, 2, 0, 4, 0)],
    }  # fmt: skip
    assert meaning.is_taken(None)
    assert (meaning.change_of("CREDIT", 5), meaning.change_of("DEBIT", 5)) == (5, -5)
    assert (meaning.right_total_of("CREDIT", 5, 1), meaning.right_total_of("DEBIT", 5, 1)) == (4, 6)
    assert meaning.direction_of_type("CARD_REFUND") is None
    assert meaning.direction_of_type("WIRE_DEPOSIT") == "CREDIT"
    for status, direction, view, counted in [
        ("PENDING", "DEBIT", "available", True), ("PENDING", "DEBIT", "ledger", False),
        ("PENDING", "CREDIT", "available", False), ("FAILED", "DEBIT", "available", False),
        ("COMPLETE", "DEBIT", "ledger", True), (None, None, "available", False),
    ]:  # fmt: skip
        assert meaning.does_count(status, direction, view) is counted  # type: ignore[arg-type]
