"""What a service writes goes into messages and logs in one line, printable and cut."""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import pytest
import scripted
from scripted import answer, problem

from fundlab.base import errors
from fundlab.base.errors import UnknownValueWarning
from fundlab.client.calls import read_answer
from fundlab.client.client import Client
from fundlab.client.http import clock_skew
from fundlab.client.transport import Reply
from fundlab.models import OPERATIONS, Transfer

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


# ------------------------------------------------------------------------ what an answer says


def read(body: Any, model: Any = Transfer, **given: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_answer(model, "get_transfer", Reply(content, "r-1", 207), **given)


def test_what_an_answer_says_is_not_in_its_repr() -> None:
    assert repr(Reply(b"000123456789", "r-1", 200)) == "Reply(request_id='r-1', status=200)"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the answer is not JSON (it is empty)"),
        (b"<html>", "the answer is not JSON (it starts b'<html>')"),
        (b"7", "the answer is not a JSON object (it starts b'7')"),
        (b"[]", "the answer is not a JSON object (it starts b'[]')"),
        (b'{"id": "t", "x": NaN}', "the answer is not JSON"),
        (b'{"id": "t", "x": -Infinity}', "the answer is not JSON"),
        (b"{" + b"y" * 99, f"it starts b'{{{'y' * 59}'"),
        (b'{"iban": "DE1', "it starts b'{'"),
    ],
)  # fmt: skip
def test_what_is_no_answer(body: bytes, says: str) -> None:
    for given, hint in ((None, "check base_url: is this the service"), ("do this", "do this")):
        with pytest.raises(errors.ProtocolError) as caught:
            read(body, hint=given)
        assert says in str(caught.value)
        assert (caught.value.hint or "").startswith(hint)
        assert (caught.value.request_id, caught.value.status) == ("r-1", 207)
    assert read(b'{"id": "t", "memo": "NaN or Infinity"}').memo == "NaN or Infinity"


GOOD = {"id": "t-1", "amount": "1.00"}


@pytest.mark.parametrize(
    ("body", "page", "record", "field", "value", "raw"),
    [
        (GOOD | {"amount": "x"}, None, "t-1", "amount", "x", True),
        ({"id": 7}, None, None, "id", 7, True),
        ({"amount": "1"}, None, None, "id", None, True),
        ([GOOD, GOOD | {"amount": "x"}], 3, "t-1", "amount", "x", False),
        ([GOOD, {"id": 7}], 3, "number 2", "id", 7, False),
        ([GOOD, "text"], 3, "number 2", "items", "text", False),
        ({"items": 7}, 3, None, "items", 7, None),
    ],
)
def test_the_record_that_is_malformed_is_named(
    body: Any, page: int | None, record: str | None, field: str, value: Any, raw: bool | None
) -> None:
    """By its id, else by its position from 1."""
    if page is not None:
        body = {"items": body} if isinstance(body, list) else body
    model = Transfer if page is None else OPERATIONS["list_transfers"].answer
    with pytest.raises(errors.DataError) as caught:
        read(body, model, page=page)
    found = caught.value
    assert (found.page, found.record, found.value) == (page, record, value)
    assert found.field == field
    assert (found.raw is not None) is bool(raw) or raw is None
    assert "show it to the operator" in (found.hint or "")
    with pytest.raises(errors.DataError) as caught:
        read(body, model, page=page, hint="do this")
    assert caught.value.hint == "do this"


def test_a_value_that_is_not_listed_is_warned_of_once() -> None:
    seen: set[str] = set()
    with pytest.warns(UnknownValueWarning, match="Transfer.status is 'NEW', which the") as caught:
        read(GOOD | {"status": "NEW", "type": "WIRE_DEPOSIT"}, unlisted=seen)
    assert len(caught) == len(seen) == 1
    read(GOOD | {"status": "NEW"}, unlisted=seen)
    read(GOOD | {"status": "NEWER"})  # of nobody who counts
    page = {"items": [GOOD | {"id": str(n), "status": f"S{n}"} for n in range(150)]}
    with pytest.warns(UnknownValueWarning) as caught:
        read(page, OPERATIONS["list_transfers"].answer, unlisted=seen)
    assert len(caught) == 99  # a hundred in all
    read(GOOD | {"status": "ONE MORE"}, unlisted=seen)


def test_where_it_is_warned_is_the_line_that_asked(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"id": "t-1", "status": "NEW"}))
    with pytest.warns(UnknownValueWarning) as caught:
        client.get_transfer("t-1")
    assert [one.filename for one in caught] == [__file__]
