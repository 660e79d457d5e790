"""Rows that a sync could not read, kept as they came until they can be read or somebody accepts
them.

They stand in the store's records: of a pass, where a sync notes what it met, and of what people
accepted. As long as one is open no verdict is *proved*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Final

import pyarrow as pa

from fundlab.base.arrow import exact_table
from fundlab.base.errors import number_of, printable
from fundlab.base.values import Instant
from fundlab.evidence.observations import Accounts
from fundlab.evidence.vanished_rows import Gone, gone_rows, table_lines
from fundlab.store.records import Record
from fundlab.store.snapshot import Snapshot, read_current
from fundlab.tables.schema import INSTANT_TYPE

_TEXT: Final = pa.string()
_SET_ASIDE: Final = pa.schema(
    [("table", _TEXT), ("key", _TEXT), ("id", _TEXT), ("reason", _TEXT), ("raw", _TEXT),
     ("found_at", INSTANT_TYPE), ("state", _TEXT), ("ended_at", INSTANT_TYPE), ("by", _TEXT),
     ("because", _TEXT)]
)  # fmt: skip


@dataclass(frozen=True)
class SetAside:
    """A row that could not be read when it came at ``found_at``. ``key`` is of its bytes; ``state``
    is ``open``, ``read`` (it came again, readable or otherwise) or ``accepted`` (``by`` somebody),
    since ``ended_at``."""

    table: str
    key: str
    id: str | None
    reason: str
    raw: str
    found_at: int
    state: str = "open"
    ended_at: int | None = None
    by: str | None = None
    because: str | None = None


def set_aside_rows(records: Iterable[Record]) -> list[SetAside]:
    """Every row that was ever set aside, oldest first."""
    found: dict[tuple[str, str], SetAside] = {}
    for record in records:
        said, at = record.content, Instant.parse(record.at).ns
        if record.kind == "pass":
            for table, keys in said.get("readable", {}).items():
                for key in keys:
                    found[table, key] = replace(found[table, key], state="read", ended_at=at)
            for table, rows in said.get("invalid", {}).items():
                for key, id_, reason, raw in rows:
                    found[table, key] = SetAside(table, key, id_, reason, raw, at)
        for table, key, _ in said.get("invalid", ()) if record.kind == "accept" else ():
            found[table, key] = replace(
                found[table, key], state="accepted", ended_at=at, by=said["by"],
                because=said["reason"],
            )  # fmt: skip
    return list(found.values())


def left_out(accounts: Accounts, records: Iterable[Record]) -> dict[str, Record]:
    """The profiles that somebody accepted as no longer ours, and the record of it; without those
    of which the service has reported a balance since."""
    reported: dict[str, int] = {}
    for one in accounts.every:
        reported[one.profile_id] = max(one.answered, reported.get(one.profile_id, 0))
    return {
        profile: record
        for record in records
        if record.kind == "accept"
        for profile in record.content.get("profiles", ())
        if reported.get(profile, 0) <= record.number
    }


def open_lines(records: Sequence[Record]) -> list[str]:
    """What keeps a verdict from being proved: rows set aside, and rows that the service refuses to
    show; a sentence for each table."""
    return [
        *table_lines(
            [(one.table, f"{one.id or one.key} ({one.reason})")
             for one in set_aside_rows(records) if one.state == "open"],
            "set aside, which this version cannot read: {} ('fundlab quarantine list').",
        ),
        *table_lines(
            [(one.table, one.id) for one in gone_rows(records) if one.state == "refused"],
            "refused by the service (403), and kept as last seen: {} ('fundlab accept-refused' "
            "once you know why).",
        ),
    ]  # fmt: skip


def accepted_lines(records: Sequence[Record], without: Mapping[str, Record]) -> list[str]:
    """What holds a verdict back no more, because somebody accepted it; ``without``: profiles."""
    gone: list[Gone] = [one for one in gone_rows(records) if one.state == "accepted"]
    aside = [one for one in set_aside_rows(records) if one.state == "accepted"]
    counts = {
        "set aside": len(aside),
        "refused by the service": sum(one.answer == "refused" for one in gone),
        "gone from the service": sum(one.answer == "gone" for one in gone),
    }
    lines = [
        f"{number_of(count, 'row')} {what} {'was' if count == 1 else 'were'} accepted."
        for what, count in counts.items()
        if count
    ]
    for profile, record in without.items():
        said = record.content
        lines.append(
            f"Profile {profile} is left out, as no longer ours since {record.at[:19]}Z: accepted "
            f"by {said['by']}, because: {printable(said['reason'])}."
        )
    return lines


def with_evidence(accounts: Accounts, transfers: Snapshot, records: Sequence[Record]) -> Accounts:
    """``accounts`` and their count of ``transfers`` without those of profiles that are no longer
    ours, and what is said of rows that are not in them."""
    without = left_out(accounts, records)
    theirs = {"profile_id": list(without)}
    out = read_current(transfers, ["profile_id"], where=theirs).num_rows if without else 0
    return replace(
        accounts,
        every=tuple(one for one in accounts.every if one.profile_id not in without),
        no_longer_ours=tuple(one for one in accounts.every if one.profile_id in without),
        transfers=accounts.transfers - out,
        shortfalls=tuple(open_lines(records)),
        accepted=tuple(accepted_lines(records, without)),
    )


def set_aside_table(rows: Sequence[SetAside]) -> pa.Table:
    return exact_table(_SET_ASIDE, [astuple(row) for row in rows])
