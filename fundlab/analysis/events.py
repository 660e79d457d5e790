"""What the event feed shows: the course of a transfer or identity, statuses, deliveries waiting.

An event's ``object`` is JSON text; it is decoded here, event by event, on one machine.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import msgspec
import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.analysis.counting import refuse
from fundlab.analysis.engines import (
    MONEY,
    TEXT,
    TEXT_TYPE,
    TIME,
    TIME_TYPE,
    FrameT,
    Wanted,
    Workbench,
    columns,
)
from fundlab.base.arrow import exact_table
from fundlab.base.errors import AnalysisError, shorten

__all__ = ["backlog", "identity_statuses", "timeline"]
__dir__ = __all__.copy  # what completion offers

_EVENTS: Final = Wanted(
    "events",
    {"id": TEXT, "type": TEXT, "object": TEXT, "created_at": TIME},
    {"object_type": TEXT, "undelivered_webhooks": MONEY},
)
_TIMELINE: Final = columns(
    ("at", TIME_TYPE),
    ("event_id type status transfer_id identity_id", TEXT_TYPE),
    ("since_previous", pa.duration("ns")),
)
_STATUSES: Final = columns(
    ("identity_id status", TEXT_TYPE),
    ("start end", TIME_TYPE),
    ("duration", pa.duration("ns")),
    ("event_id", TEXT_TYPE),
)
_BACKLOG: Final = columns(
    ("type", TEXT_TYPE), ("events undelivered", pa.int64()), ("oldest newest", TIME_TYPE)
)


class _Object(msgspec.Struct):
    """The members of an event's object that say whose it is and what became of it."""

    id: str | None = None
    status: str | None = None
    identity_id: str | None = None
    new_summary_status: str | None = None
    old_summary_status: str | None = None


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
        decoded = _decoded(bench, events)
        for name, value in (("transfer_id", transfer_id), ("identity_id", identity_id)):
            if value is not None:
                own = pc.utf8_lower(decoded.column(name))  # ids have no case
                decoded = decoded.filter(pc.fill_null(pc.equal(own, str(value).lower()), False))
        decoded = decoded.append_column("event_id", decoded.column("id"))
        at = decoded.column("at").to_numpy()
        since = pa.array(np.diff(at, prepend=0), pa.int64(), mask=np.arange(len(at)) == 0)
        decoded = decoded.append_column("since_previous", since)
        return bench.give(decoded.select(_TIMELINE.names), _TIMELINE)


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
        decoded = _decoded(bench, events)
        known = decoded.filter(pc.is_valid(decoded.column("new_status"))).to_pylist()
        nobody = next((row["id"] for row in known if row["identity_id"] is None), None)
        if nobody is not None:
            raise AnalysisError(f"events: a new status, but no identity_id (id {nobody})")
        spells: list[tuple[Any, ...]] = []
        known.sort(key=lambda row: (row["identity_id"], row["at"], row["id"]))
        for identity_id, rows in groupby(known, key=itemgetter("identity_id")):
            mine = [*rows]
            course = [(row["new_status"], row["at"], row["id"]) for row in mine]
            if mine[0]["old_status"] is not None:
                course.insert(0, (mine[0]["old_status"], None, None))
            ends = [start for _, start, _ in course[1:]] + [None]
            for (status, start, event_id), end in zip(course, ends, strict=True):
                lasted = None if start is None or end is None else end - start
                spells.append((identity_id, status, start, end, lasted, event_id))
        return bench.give(exact_table(_STATUSES, spells), _STATUSES)


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
        refuse(bench, rows, ("created_at", "type"), "events")
        waiting = rows.filter(nw.col("undelivered_webhooks") > 0)
        sums = waiting.group_by("type").agg(
            events=nw.len().cast(nw.Int64),
            undelivered=nw.col("undelivered_webhooks").sum().cast(nw.Int64),
            oldest=nw.col("created_at").min(),
            newest=nw.col("created_at").max(),
        )
        return bench.give(sums.sort("type"), _BACKLOG)


def _decoded(bench: Workbench[Any], events: object) -> pa.Table:
    """The events in order, with ``at`` (ns) and what their objects say."""
    taken = bench.take(events, _EVENTS)
    refuse(bench, taken, ("id", "type", "created_at"), "events")
    rows = bench.collect(taken.sort("created_at", "id"))
    decoder = msgspec.json.Decoder(_Object)
    said: dict[str, list[str | None]] = {
        name: [] for name in ("status", "identity_id", "new_status", "old_status", "transfer_id")
    }
    texts = (rows[name].to_pylist() for name in ("id", "type", "object"))
    for event_id, kind, text in zip(*texts, strict=True):
        try:
            found = _Object() if text is None else decoder.decode(text)
        except msgspec.MsgspecError as error:
            ours = kind.startswith(("transfer.", "identity."))
            if ours or not isinstance(error, msgspec.ValidationError):
                raise AnalysisError(
                    f"events: object {shorten(text)} is not a valid event object: {error} "
                    f"(id {event_id})"
                ) from error
            found = _Object()  # JSON, of an event that these analyses are not about
        said["status"].append(found.new_summary_status or found.status)
        said["identity_id"].append(found.identity_id)
        said["new_status"].append(found.new_summary_status)
        said["old_status"].append(found.old_summary_status)
        said["transfer_id"].append(found.id if kind.startswith("transfer.") else None)
    for name, values in said.items():
        rows = rows.append_column(name, pa.array(values, TEXT_TYPE))
    return rows.append_column("at", rows.column("created_at"))
