"""What a service writes goes into messages and logs in one line, printable and cut."""

from __future__ import annotations

import time
import warnings
from typing import Any

import pytest
import scripted
from scripted import answer, problem

from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.http import clock_skew

NASTY = "x\x1b]0;own\x07\nsecond line\u202e" + "x" * 1_000_000
WITHDRAWAL = {"amount": "1.00", "fiat_account_id": "f", "profile_id": "p", "ref_id": "r"}
NOON = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.mark.parametrize("field", ["id", "amount", "created_at", "status"])
def test_no_field_of_a_malformed_record_runs_through_its_message(
    field: str, server: scripted.Scripted, client: Client
) -> None:
    record: dict[str, Any] = {"id": "t-1", "amount": "not one", field: NASTY}
    server.script(answer({"items": [record]}))
    with pytest.raises(errors.DataError) as caught:
        list(client.list_transfers())
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 500
    assert caught.value.record == record["id"]


def test_what_a_ref_id_made_before_is_named_in_one_line(
    server: scripted.Scripted, client: Client
) -> None:
    there = WITHDRAWAL | {"id": NASTY, "amount": "2.00"}
    server.script(problem(409, meta={"existing": there}), answer(there))
    with pytest.raises(errors.Conflict, match=r"stands for 'x.*too little to tell") as caught:
        client.create_fiat_withdrawal(**WITHDRAWAL)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_a_conflict_with_what_cannot_be_read_stays_one(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(problem(409, detail="used", meta={"existing": WITHDRAWAL | {"id": "\ud800"}}))
    with pytest.raises(errors.Conflict, match="409 Refused: used; look at what there is already"):
        client.create_fiat_withdrawal(**WITHDRAWAL)


def test_values_without_end_warn_a_hundred_times_in_short_lines(
    server: scripted.Scripted, client: Client
) -> None:
    rows = [{"id": f"t-{n}", "status": f"{n} {NASTY[:50_000]}"} for n in range(150)]
    server.script(answer({"items": rows}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(list(client.list_transfers())) == 150
        list(client.list_transfers())
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 100
    assert max(map(len, messages)) < 200
    assert all(map(str.isprintable, messages))


@pytest.mark.parametrize(
    ("date", "skew"),
    [
        ("Mon, 21 Sep 2026 14:14:20 GMT", 60.0), ("Mon, 21 Sep 2026 14:14:20", 60.0),
        ("Mon, 21 Sep 2026 14:14:20 -0000", 60.0), ("Mon, 21 Sep 2026 16:14:20 +0200", 60.0),
        ("", None), (None, None), (" ", None), ("today", None),
    ],
)  # fmt: skip
def test_a_date_without_a_zone_is_in_utc(
    date: str | None, skew: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert clock_skew(date, NOON) == skew
    finally:
        monkeypatch.undo()
        time.tzset()
