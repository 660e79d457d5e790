"""What leads from the books as they were closed to what is known now, transfer by transfer."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from transfer_examples import DAY, START, Row, table, transfer

from fundlab.analysis import closing
from fundlab.analysis.closing import Restatement, _cause, bridge

D = Decimal
KNOWN = START + 5 * DAY
Line = tuple[str, str, str, str, str, int, int, int]
KEPT = transfer("kept", amount=D(50))
THEN: list[Row] = [
    KEPT,
    transfer("s", status="PENDING"),
    transfer("a"),
    transfer("d", amount=D(7), fee=D(1)),
    transfer("m", amount=D(5)),
    transfer("r", amount=D(6)),
    transfer("later", created_at=START + 31 * DAY),
]
NOW: list[Row] = [
    KEPT,
    transfer("s"),
    transfer("a", amount=D(12)),
    transfer("n", amount=D(3), updated_at=START + 1),
    transfer("b", amount=D(4), updated_at=START + 9 * DAY),
    transfer("m", amount=D(5), created_at=START - 1),
    transfer("r", amount=D(6), profile_id="p2"),
    transfer("later", amount=D(11), created_at=START + 31 * DAY),
]
MOVED: list[Line] = [
    ("p1", "opening", "", "m", "back_dated", 0, 5, 5),
    ("p1", "receipt", "WIRE_DEPOSIT", "a", "amount", 10, 12, 2),
    ("p1", "receipt", "WIRE_DEPOSIT", "b", "back_dated", 0, 4, 4),
    ("p1", "receipt", "WIRE_DEPOSIT", "d", "disappeared", 7, 0, -7),
    ("p1", "receipt", "WIRE_DEPOSIT", "m", "back_dated", 5, 0, -5),
    ("p1", "receipt", "WIRE_DEPOSIT", "n", "late", 0, 3, 3),
    ("p1", "receipt", "WIRE_DEPOSIT", "r", "row", 6, 0, -6),
    ("p1", "receipt", "WIRE_DEPOSIT", "s", "status", 0, 10, 10),
    ("p1", "fee", "", "d", "disappeared", -1, 0, 1),
    ("p2", "receipt", "WIRE_DEPOSIT", "r", "row", 0, 6, 6),
]


def lines(found: pd.DataFrame) -> list[Any]:
    assert set(found["asset"]) <= {"USD"}
    names = ["profile_id", "line", "type", "transfer_id", "cause", "then", "now", "difference"]
    return [tuple(row) for row in found[names].itertuples(index=False)]


def opened(amount: int) -> pd.DataFrame:
    return pd.DataFrame({"profile_id": ["p1", "p2"], "asset": "USD",
                         "balance": pd.array([amount, 8], dtype="decimal")})  # fmt: skip


def moved(openings: Any = None, then: list[Row] = THEN, now: list[Row] = NOW) -> pd.DataFrame:
    return bridge(
        table(then), table(now), "2026-01", known_at=KNOWN, basis="created", openings=openings
    )


def test_each_transfer_has_its_part_of_a_line_and_its_cause() -> None:
    opening = ("p1", "opening", "", "", "opening", 100, 101, 1)
    assert lines(moved((opened(100), opened(101)))) == [opening, *MOVED]
    assert lines(moved((opened(100), opened(100)))) == MOVED


def told(id_: str, **given: Any) -> dict[str, Any]:
    (row,) = table([transfer(id_, **given)]).to_pylist()
    return row


ROW = told("a", fee=D(1))


@pytest.mark.parametrize(
    ("was", "now", "cause"),
    [
        (None, None, "opening"),
        (ROW, None, "disappeared"),
        (None, told("a", updated_at=KNOWN), "late"),
        (None, told("a", updated_at=KNOWN + 1), "back_dated"),
        (None, ROW | {"updated_at": None}, "late"),
        (ROW, ROW | {"status": "FAILED"}, "status"),
        (ROW | {"status": "PENDING"}, ROW | {"total": D(3)}, "status"),
        (ROW, ROW | {"status": "COMPLETE", "total": D(3)}, "amount"),
        *((ROW, ROW | {name: D(3)}, "amount") for name in ("amount", "fee", "total")),
        (ROW, ROW | {"created_at": pd.Timestamp(START + 1, tz="UTC")}, "back_dated"),
        (ROW | {"settled_at": 1}, ROW | {"settled_at": 2}, "back_dated"),
        (ROW | {"settled_at": 1}, ROW | {"settled_at": 1}, "row"),
        (ROW, ROW | {"profile_id": "p2"}, "row"),
    ],
)  # fmt: skip
def test_why_a_transfers_part_is_another_one(was: Any, now: Any, cause: str) -> None:
    assert _cause(was, now, KNOWN) == cause


class Closed(SimpleNamespace):
    def __str__(self) -> str:
        return "the close of 2026-01"


def test_a_restatement_in_words() -> None:
    record = SimpleNamespace(at="2026-02-03T04:05:06")
    led = moved((opened(100), opened(101)))
    for basis, option in (("settled", ""), ("created", " --basis created")):
        frozen: Any = Closed(basis=basis, period="2026-01", record=record)
        found = Restatement(frozen, led)
        assert str(found) == (
            "the close of 2026-01 has moved since it was closed at 2026-02-03T04:05Z: 4 lines by 7 "
            "transfers and an opening taken over from the service; accept it with "
            f"'fundlab close 2026-01{option} --restate --reason …', and "
            "--with-breaks while there are breaks"
        )
    assert found.difference.values.tolist() == [["p1", "USD", D(8)], ["p2", "USD", D(6)]]
    alone = Restatement(frozen, found.bridge[found.bridge["transfer_id"] == "m"])
    assert alone.difference.empty
    assert "2 lines by 1 transfer;" in str(alone)
    lost = found.bridge[found.bridge["transfer_id"] == ""].head(1).assign(cause="lost")
    assert "1 line by rows of then that a repair found lost;" in str(Restatement(frozen, lost))


@pytest.mark.parametrize("begins", [None, 5])
def test_the_periods_that_moved_are_restated_the_earliest_first(
    begins: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three closes one has not moved. What was taken over counts where the store begins late."""

    def closed(number: int, end: int, basis: str, state: str = "closed") -> Any:
        return Closed(
            hash=f"h{number}", end=end, basis=basis, state=state, period="2026-01", tz="UTC",
            known_at=KNOWN, record=SimpleNamespace(number=number),
            opening=opened(100).iloc[: 2 if begins else 0],
        )  # fmt: skip

    closes = [closed(2, 9, "created"), closed(4, 3, "created"), closed(5, 1, "created")]
    records = [SimpleNamespace(number=number, kind="close") for number in range(1, 7)]
    gone: list[list[int]] = []

    def accepted_gone(before: Any, table: str) -> list[str]:
        assert table == "transfers"
        gone.append([record.number for record in before])
        return ["x"]

    def booked_since(given: Any, current: Any, events: Any, left_out: Any, *, every: bool) -> Any:
        assert every == bool(begins)
        assert (given, current, events.name) == (closes, "then", "events")
        assert left_out == {key: {"x"} for key in ("h2", "h4", "h5")}
        now, then = table(NOW), table(THEN)
        return [(one, now if one.end == 1 else then, now) for one in closes]

    taken_over = SimpleNamespace(opening=opened(100))
    monkeypatch.setattr(closing, "closes_of", lambda _: [*closes, closed(6, 1, "created", "open")])
    monkeypatch.setattr(closing, "accepted_gone", accepted_gone)
    monkeypatch.setattr(closing, "booked_since", booked_since)
    monkeypatch.setattr(closing, "steadily", lambda look: look())
    monkeypatch.setattr(closing, "judge_accounts", lambda accounts: taken_over)
    store: Any = SimpleNamespace(
        records=lambda as_of=None: records, current=lambda name, as_of: as_of,
        snapshot=lambda name, as_of: SimpleNamespace(name=name, begins=begins),
        accounts=lambda as_of: None,
    )  # fmt: skip
    found = closing.restatements(store, as_of="then")
    assert [one.close.end for one in found] == [3, 9]
    assert [lines(one.bridge) for one in found] == [MOVED, MOVED]
    assert gone == [[1], [1, 2, 3], [1, 2, 3, 4]]
    monkeypatch.setattr(closing, "closes_of", lambda _: [])
    assert closing.restatements(store) == []
