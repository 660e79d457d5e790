"""What the event feed tells: the course of a transfer or identity, statuses, deliveries waiting.

An event's ``object`` is JSON text; it is decoded here, event by event, on one machine. Interface
§2.10, §6.
"""

from __future__ import annotations

from typing import Final

import msgspec
import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TIME,
    TIME_TYPE,
    FrameT,
    Workbench,
    columns,
    wanted,
)
from fundlab.analysis.rows import gap as missing
from fundlab.analysis.rows import refuse
from fundlab.errors import AnalysisError, shorten
from fundlab.transfers import Rows

__all__ = ["backlog", "identity_statuses", "timeline"]

_TEXT: Final = pa.string()
_EVENTS: Final = wanted(
    "events",
    {"object_type": TEXT, "undelivered_webhooks": MONEY},
    id=TEXT,
    type=TEXT,
    object=TEXT,
    created_at=TIME,
)
_TIMELINE: Final = columns(
    at=TIME_TYPE,
    event_id=_TEXT,
    type=_TEXT,
    status=_TEXT,
    transfer_id=_TEXT,
    identity_id=_TEXT,
    since_previous=pa.duration("ns"),
)
_STATUSES: Final = columns(
    identity_id=_TEXT,
    status=_TEXT,
    start=TIME_TYPE,
    end=TIME_TYPE,
    duration=pa.duration("ns"),
    event_id=_TEXT,
)
_BACKLOG: Final = columns(
    type=_TEXT, events=pa.int64(), undelivered=pa.int64(), oldest=TIME_TYPE, newest=TIME_TYPE
)


class _Object(msgspec.Struct):
    """The members of an event's object that say whose it is and what became of it."""

    id: str | None = None
    status: str | None = None
    identity_id: str | None = None
    new_summary_status: str | None = None
    old_summary_status: str | None = None


_OURS: Final = ("transfer.", "identity.")
_decoder: Final = msgspec.json.Decoder(_Object)


def timeline(
    events: FrameT, *, transfer_id: str | None = None, identity_id: str | None = None
) -> FrameT:
    """``at``, ``event_id``, ``type``, ``status``, ``transfer_id``, ``identity_id``,
    ``since_previous`` (a timedelta), oldest first: the course of one transfer or one identity, or
    of all that ``events`` hold.

    ``status`` is what the object became, where the event says so. Raises :class:`AnalysisError`
    for an event whose ``object`` is not JSON, or none of a transfer or identity where its type says
    so, and where both ids are given.

    >>> events = fl.load_events(client)
    >>> failed = next(client.list_transfers(statuses=["FAILED"]))
    >>> fl.events.timeline(events, transfer_id=failed.id)[["type", "status"]]
                                type   status
    0  transfer.bank_deposit.pending  PENDING
    1   transfer.bank_deposit.failed   FAILED
    """
    if transfer_id is not None and identity_id is not None:
        raise AnalysisError("give either transfer_id or identity_id, not both")
    with Workbench(events) as bench:
        found = _decoded(bench, events)
        for name, value in (("transfer_id", transfer_id), ("identity_id", identity_id)):
            if value is not None:
                found = found.filter(pc.fill_null(pc.equal(found.column(name), value), False))
        found = found.append_column("event_id", found.column("id"))
        found = found.append_column("since_previous", _steps(found.column("at")))
        result: FrameT = bench.give_table(found.select(_TIMELINE.names).cast(_TIMELINE))
        return result


def identity_statuses(events: FrameT) -> FrameT:
    """``identity_id``, ``status``, ``start``, ``end``, ``duration`` (a timedelta), ``event_id``,
    sorted: from when until when each identity had which status; ``end`` and ``duration`` are
    missing while it lasts.

    The status before the first known change has no ``start`` and no ``event_id``. Raises
    :class:`AnalysisError` for an event whose ``object`` is not JSON or names no identity.

    >>> statuses = fl.events.identity_statuses(fl.load_events(client))
    >>> statuses[["status", "start"]].head(2)
         status                               start
    0   PENDING                                 NaT
    1  APPROVED 2026-04-30 00:00:00.000000035+00:00
    """
    with Workbench(events) as bench:
        found = _decoded(bench, events)
        known = found.filter(pc.is_valid(found.column("new_status"))).to_pylist()
        nobody = next((row["id"] for row in known if row["identity_id"] is None), None)
        if nobody is not None:
            raise AnalysisError(f"events: a new status, but no identity_id (id {nobody})")
        by_identity: dict[str, list[dict[str, object]]] = {}
        for row in sorted(known, key=lambda row: (row["identity_id"], row["at"], row["id"])):
            by_identity.setdefault(row["identity_id"], []).append(row)
        spells = [spell for rows in by_identity.values() for spell in _spells(rows)]
        table = pa.Table.from_pylist(spells, schema=_as_integers(_STATUSES)).cast(_STATUSES)
        result: FrameT = bench.give_table(table)
        return result


def backlog(events: FrameT) -> FrameT:
    """``type``, ``events``, ``undelivered`` (int64), ``oldest``, ``newest``, sorted by type: the
    events with webhooks not delivered yet, and how many of those webhooks there are.

    >>> events = fl.load_events(client, type="identity.approved")
    >>> fl.events.backlog(events).empty
    True
    >>> waiting = events.assign(undelivered_webhooks=1)
    >>> fl.events.backlog(waiting)[["type", "events", "undelivered"]]
                    type  events  undelivered
    0  identity.approved       6            6
    """
    with Workbench(events) as bench:
        rows = bench.take(events, _EVENTS)
        refuse(bench, rows, missing("created_at"), missing("type"), label="events")
        waiting = rows.filter(nw.col("undelivered_webhooks") > 0)
        sums = waiting.group_by("type").agg(
            events=nw.len().cast(nw.Int64),
            undelivered=nw.col("undelivered_webhooks").sum().cast(nw.Int64),
            oldest=nw.col("created_at").min(),
            newest=nw.col("created_at").max(),
        )
        result: FrameT = bench.give(sums.sort("type"), _BACKLOG)
        return result


def completion_times(bench: Workbench, events: object) -> pa.Table:
    """``transfer_id`` and ``completed`` (ns): the first event that says a transfer completed."""
    empty = pa.schema([("transfer_id", _TEXT), ("completed", pa.int64())]).empty_table()
    if events is None:
        return empty
    found = _decoded(bench, events)
    done = pc.and_kleene(
        pc.is_valid(found.column("transfer_id")),
        pc.match_substring_regex(found.column("type"), r"\.completed?\z"),
    )
    first = found.filter(pc.fill_null(done, False)).group_by("transfer_id")
    return first.aggregate([("at", "min")]).rename_columns(["transfer_id", "completed"])


def _decoded(bench: Workbench, events: object) -> pa.Table:
    """The events in order, with ``at`` (ns) and what their objects say."""
    taken: Rows = bench.take(events, _EVENTS)
    refuse(bench, taken, missing("id"), missing("type"), missing("created_at"), label="events")
    rows = bench.collect(taken.sort("created_at", "id"))
    texts = (rows[name].to_pylist() for name in ("id", "type", "object"))
    objects = [_object(*event) for event in zip(*texts, strict=True)]
    of_transfers = pc.starts_with(rows.column("type"), "transfer.").to_pylist()
    told = {
        "status": [one.new_summary_status or one.status for one in objects],
        "identity_id": [one.identity_id for one in objects],
        "new_status": [one.new_summary_status for one in objects],
        "old_status": [one.old_summary_status for one in objects],
        "transfer_id": [
            one.id if moved else None for one, moved in zip(objects, of_transfers, strict=True)
        ],
    }
    for name, values in told.items():
        rows = rows.append_column(name, pa.array(values, _TEXT))
    return rows.append_column("at", rows.column("created_at"))


def _object(event_id: str, kind: str, text: str | None) -> _Object:
    try:
        return _Object() if text is None else _decoder.decode(text)
    except msgspec.MsgspecError as error:
        if isinstance(error, msgspec.ValidationError) and not kind.startswith(_OURS):
            return _Object()  # JSON, of an event that these analyses are not about
        raise AnalysisError(
            f"events: object {shorten(text)} is no event object: {error} (id {event_id})"
        ) from error


def _steps(moments: pa.ChunkedArray) -> pa.Array:
    steps = np.diff(moments.to_numpy(), prepend=0) if len(moments) else np.zeros(0, np.int64)
    return pa.array(steps, pa.int64(), mask=np.arange(len(steps)) == 0)


def _spells(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """One identity's statuses, each until the next."""
    first = rows[0]
    spells: list[dict[str, object]] = []
    if first["old_status"] is not None:
        spells.append({"status": first["old_status"], "start": None, "event_id": None})
    spells += [
        {"status": row["new_status"], "start": row["at"], "event_id": row["id"]} for row in rows
    ]
    for spell, following in zip(spells, [*spells[1:], None], strict=True):
        spell["identity_id"] = first["identity_id"]
        spell["end"] = None if following is None else following["start"]
        start, end = spell["start"], spell["end"]
        known = isinstance(start, int) and isinstance(end, int)
        spell["duration"] = end - start if known else None  # type: ignore[operator]
    return spells


def _as_integers(schema: pa.Schema) -> pa.Schema:
    """Times and durations as the nanoseconds they are computed in."""
    return pa.schema(
        [
            field.with_type(pa.int64()) if not pa.types.is_string(field.type) else field
            for field in schema
        ]
    )
