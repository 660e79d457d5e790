from __future__ import annotations

import uuid
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from transfer_examples import START, records

from fundlab.analysis import events
from fundlab.base.errors import AnalysisError

TIME = pa.timestamp("ns", "UTC")
STAMP = "2026-01-01T00:00:00.00000000"


def table(*rows: tuple[str, str, str | None, int, int]) -> pa.Table:
    names = ("id", "type", "object")
    columns = list(zip(*rows, strict=True)) if rows else [[]] * 5
    return pa.table(
        {
            **{name: pa.array(columns[n], pa.string()) for n, name in enumerate(names)},
            "created_at": pa.array([START + at for at in columns[3]], pa.int64()).cast(TIME),
            "undelivered_webhooks": pa.array(columns[4], pa.int64()),
        }
    )


def status(identity: str, old: str, new: str) -> str:
    return (
        f'{{"id":"x","identity_id":"{identity}","old_summary_status":"{old}",'
        f'"new_summary_status":"{new}"}}'
    )


EVENTS = table(
    ("e3", "transfer.wire_deposit.completed", '{"id":"t1","status":"COMPLETED"}', 7, 2),
    ("e1", "transfer.wire_deposit.pending", '{"id":"t1","status":"PENDING"}', 2, 0),
    ("e2", "identity.approved", status("i1", "PENDING", "APPROVED"), 3, 1),
    ("e4", "identity.disabled", status("i1", "APPROVED", "DISABLED"), 9, 0),
    ("e5", "identity.documents_required", '{"id":"y","identity_id":"i2"}', 5, 0),
    ("e6", "transfer.wire_deposit.completed", '{"id":"t2","status":"COMPLETED"}', 1, 3),
    ("e7", "strange", None, 8, 0),
)
KINDS: dict[str, Any] = {
    "arrow": lambda t: t,
    "pandas": lambda t: t.to_pandas(types_mapper={pa.string(): pd.StringDtype()}.get),
    "polars": pl.from_arrow,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_course_of_a_transfer(kind: str) -> None:
    result = records(events.timeline(KINDS[kind](EVENTS), transfer_id="t1"))
    assert records(events.timeline(KINDS[kind](EVENTS), transfer_id="T1")) == result  # no case
    of_another = uuid.UUID(int=1)  # as a UUID, which is no text
    assert records(events.timeline(KINDS[kind](EVENTS), transfer_id=of_another)) == []
    names = ("at", "event_id", "status", "since_previous")
    assert [tuple(row[name] for name in names) for row in result] == [
        (f"{STAMP}2+00:00", "e1", "PENDING", None),
        (f"{STAMP}7+00:00", "e3", "COMPLETED", pd.Timedelta(5, "ns")),
    ]


def test_the_course_of_an_identity_and_of_all() -> None:
    result = records(events.timeline(EVENTS, identity_id="i1"))
    assert [(row["event_id"], row["status"]) for row in result] == [
        ("e2", "APPROVED"),
        ("e4", "DISABLED"),
    ]
    assert [row["event_id"] for row in records(events.timeline(EVENTS))] == [
        "e6", "e1", "e2", "e5", "e3", "e7", "e4",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_statuses_as_intervals(kind: str) -> None:
    result = records(events.identity_statuses(KINDS[kind](EVENTS)))
    names = ("identity_id", "status", "start", "end", "duration", "event_id")
    assert [tuple(row[name] for name in names) for row in result] == [
        ("i1", "PENDING", None, f"{STAMP}3+00:00", None, None),
        ("i1", "APPROVED", f"{STAMP}3+00:00", f"{STAMP}9+00:00", pd.Timedelta(6, "ns"), "e2"),
        ("i1", "DISABLED", f"{STAMP}9+00:00", None, None, "e4"),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_for_delivery(kind: str) -> None:
    result = records(events.backlog(KINDS[kind](EVENTS)))
    assert [tuple(row.values()) for row in result] == [
        ("identity.approved", 1, 1, f"{STAMP}3+00:00", f"{STAMP}3+00:00"),
        ("transfer.wire_deposit.completed", 2, 5, f"{STAMP}1+00:00", f"{STAMP}7+00:00"),
    ]


def test_no_events_give_no_rows() -> None:
    for made in (events.timeline, events.identity_statuses, events.backlog):
        assert records(made(table())) == []  # type: ignore[operator]


@pytest.mark.parametrize("foreign", ['{"id":5,"status":{"code":1}}', "[1]", "7", "null"])
def test_an_object_of_another_kind_of_event_may_look_like_anything(foreign: str) -> None:
    mixed = pa.concat_tables([EVENTS, table(("e9", "custody.vault.changed", foreign, 1, 0))])
    known = records(events.timeline(EVENTS))
    found = [row for row in records(events.timeline(mixed)) if row["event_id"] != "e9"]
    assert [row["status"] for row in found] == [row["status"] for row in known]
    assert records(events.identity_statuses(mixed)) == records(events.identity_statuses(EVENTS))


def test_what_cannot_be_used_is_refused() -> None:
    with pytest.raises(
        AnalysisError, match=r"object '\{broken' is not a valid event object.*\(id e9\)"
    ):
        events.timeline(table(("e9", "t", "{broken", 1, 0)))
    for kind in ("transfer.wire_deposit.completed", "identity.approved"):
        with pytest.raises(AnalysisError, match=r"is not a valid event object.*\(id e9\)"):
            events.timeline(table(("e9", kind, '{"id":5}', 1, 0)))
    new = '{"id":"x","new_summary_status":"APPROVED"}'
    with pytest.raises(AnalysisError, match=r"a new status, but no identity_id \(id e9\)"):
        events.identity_statuses(table(("e9", "identity.approved", new, 1, 0)))
    with pytest.raises(AnalysisError, match="either transfer_id or identity_id"):
        events.timeline(EVENTS, transfer_id="a", identity_id="b")
    with pytest.raises(AnalysisError, match="events has no column 'object'"):
        events.backlog(EVENTS.drop_columns(["object"]))
    with pytest.raises(AnalysisError, match=r"events: type is missing \(id e9\)"):
        events.backlog(table(("e9", None, None, 1, 0)))  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["id", "type", "created_at"])
def test_an_event_that_lacks_what_it_is_told_by_is_refused(column: str) -> None:
    at = EVENTS.column_names.index(column)
    kept = [None, *EVENTS.column(column).to_pylist()[1:]]
    lacking = EVENTS.set_column(at, column, pa.array(kept, EVENTS.schema.field(column).type))
    with pytest.raises(AnalysisError, match=f"{column} .*is missing"):
        records(events.timeline(lacking))
