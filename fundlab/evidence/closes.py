"""Closes of periods and notes on open items, as the store's records have them; and what the
transfers that a close was made of have become since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import AMOUNT_TYPE, exact_table
from fundlab.base.values import Instant
from fundlab.store.parts import FROM, TO
from fundlab.store.records import Record
from fundlab.store.settlement_times import (
    completions,
    known_at,
    settled_of,
    versions,
    with_settlement,
)
from fundlab.store.snapshot import Snapshot
from fundlab.store.store_files import StoreFiles
from fundlab.tables.frames import to_frame
from fundlab.tables.schema import INSTANT_TYPE, TABLES

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.tables.transfers import Basis

State = Literal["closed", "restated", "reopened"]

ANNOTATED: Final = ("owner", "comment", "decision")
_LOOK: Final = ("id", "created_at", "updated_at")
_BOOKED: Final = (
    "id", "profile_id", "asset", "balance_asset", "direction", "type", "status", "amount", "fee",
    "total", "created_at", "updated_at",
)  # fmt: skip
_LINES: Final = pa.schema(
    [*((name, pa.string()) for name in ("profile_id", "asset", "line", "type")),
     ("amount", AMOUNT_TYPE)]
)  # fmt: skip
_TEXT: Final = pa.string()
_CLOSES: Final = pa.schema(
    [("period", _TEXT), ("basis", _TEXT), ("closed_at", INSTANT_TYPE), ("by", _TEXT),
     ("pin", _TEXT), ("hash", _TEXT), ("state", _TEXT), ("note", _TEXT)]
)  # fmt: skip
_NOTES: Final = pa.schema(
    [("item_id", _TEXT), *((name, _TEXT) for name in ANNOTATED), ("by", _TEXT),
     ("at", INSTANT_TYPE)]
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Close:
    """A period as it was closed: frozen, whatever the store learns later.

    ``content`` is the record: ``lines`` of the roll-forward, ``open_items``, ``figures``, what was
    ``accepted`` and what it ``restates``, amounts as text. ``state`` is ``closed`` (in force),
    ``restated`` (by a later one) or ``reopened``. ``seen`` is what it was made of, where it was
    made just now: its pack need not read that again.
    """

    record: Record
    state: State
    seen: Any = field(default=None, compare=False)

    @property
    def content(self) -> Mapping[str, Any]:
        return self.record.content

    @property
    def period(self) -> str:
        return str(self.content["period"])

    @property
    def basis(self) -> Basis:
        return cast("Basis", self.content["basis"])

    @property
    def tz(self) -> str:
        return str(self.content["tz"])

    @property
    def pin(self) -> str:
        return str(self.content["pin"])

    @property
    def names(self) -> dict[str, str]:
        """What its profiles were called then, by their ids in small letters."""
        return dict(self.content.get("names", {}))

    def called(self, profile_id: str) -> str:
        """The id, behind the name it had then."""
        name = self.names.get(profile_id.lower())
        return profile_id if name is None else f"{name} ({profile_id})"

    @property
    def end(self) -> int:
        """The first nanosecond after the period."""
        return Instant.parse(self.content["end"]).ns

    @property
    def known_at(self) -> int:
        return Instant.parse(self.content["known_at"]).ns

    @property
    def hash(self) -> str:
        """Of its record, which names everything else."""
        return self.record.hash

    @property
    def lines(self) -> pd.DataFrame:
        """The roll-forward, as ``fl.balances.roll_forward`` gives it."""
        rows = [(*key, Decimal(amount)) for *key, amount in self.content["lines"]]
        return to_frame(exact_table(_LINES, rows))

    @property
    def opening(self) -> pd.DataFrame:
        """``profile_id``, ``asset``, ``balance``: what was taken over from the service."""
        rows = [(*key, Decimal(amount)) for *key, amount in self.content["opening"]]
        names = ["profile_id", "asset", "balance"]
        fields = [(name, _TEXT) for name in names[:2]]
        return to_frame(exact_table(pa.schema([*fields, (names[2], AMOUNT_TYPE)]), rows))

    def limit(self, table: str) -> int:
        """The publication of ``table`` that it was made of."""
        return int(self.content["publications"].get(table, 0))

    def __str__(self) -> str:
        return f"{self.period} ({self.basis} basis)"

    def __repr__(self) -> str:
        by = f" by {self.content['by']}" if self.content["by"] else ""
        return f"{self}, {self.state}, made at {self.record.at}{by}"


def closes_of(records: Sequence[Record]) -> list[Close]:
    """Every close ever made, oldest first."""
    states: dict[int, State] = {}
    for place, record in enumerate(records):
        if record.kind not in ("close", "reopen"):
            continue
        ended: State = "restated" if record.kind == "close" else "reopened"
        for before in records[:place]:
            same = before.content.get("period") == record.content["period"]
            if record.kind == "close":
                same &= before.content.get("basis") == record.content["basis"]
            if same and states.get(before.number) == "closed":
                states[before.number] = ended
        if record.kind == "close":
            states[record.number] = "closed"
    return [Close(record, states[record.number]) for record in records if record.kind == "close"]


def seal(
    store: StoreFiles, content: Mapping[str, Any], check_held: Callable[[], None], seen: Any = None
) -> Close:
    """Record a close, which is a pin of what is known now, too. The caller holds the lock, and
    made ``content`` of what is known now."""
    manifest = store.manifest()
    limits = {name: store.snapshot(name, manifest=manifest).limit for name in TABLES}
    pin = f"close-{content['period']}-{content['basis']}-{manifest.number + 1}"
    whole = {**content, "pin": pin, "publications": limits}
    return Close(store.record("close", whole, check_held), "closed", seen)


def closes_table(closes: Sequence[Close]) -> pd.DataFrame:
    rows = [
        (one.period, one.basis, Instant.parse(one.record.at).ns, one.content["by"],
         one.pin, one.hash, one.state, one.content["note"])
        for one in closes
    ]  # fmt: skip
    return to_frame(exact_table(_CLOSES, rows))


def annotations_table(records: Sequence[Record]) -> pd.DataFrame:
    rows = [
        tuple(
            Instant.parse(record.at).ns if name == "at" else record.content.get(name)
            for name in _NOTES.names
        )
        for record in records
        if record.kind == "annotate"
    ]
    return to_frame(exact_table(_NOTES, rows))


def booked_since(
    closes: Sequence[Close],
    transfers: Snapshot,
    events: Snapshot,
    gone: Mapping[str, set[str]],
    *,
    every: bool = False,
) -> list[tuple[Close, pa.Table, pa.Table]]:
    """Each of ``closes``, and the transfers that may have changed a period that ended by then, as
    they were known to it and as they are now, with ``settled_at``; of the others both are the same.

    A transfer may have: one learned of later that was made, changed or, by its event, settled
    before the end; one of which a later version or event is known; and one that was accepted as
    gone since, or is listed again: ``gone`` are those accepted by each close, by its hash.
    Closes of which none may have are left out, unless ``every`` one is asked for.
    """
    gone_now = set(transfers.accepted_gone)
    due = [
        one for one in closes
        if every or (one.limit("transfers"), one.limit("events"), gone[one.hash])
        != (transfers.limit, events.limit, gone_now)
    ]  # fmt: skip
    if not due:
        return []
    first, last = (
        choose(one.limit("transfers") for one in due) for choose in (min, max)
    )  # fmt: skip
    told = min(one.limit("events") for one in due)
    end = pa.scalar(max(one.end for one in due))
    said, looked_at = completions(events), versions(transfers, _LOOK, since=first)
    learned = looked_at.filter(pc.greater(looked_at.column(FROM), first))
    early = [
        pc.fill_null(pc.less(learned.column(name).cast(pa.int64()), end), True)
        for name in _LOOK[1:]
    ]
    before = said.filter(pc.less(said.column("at"), end)).column("transfer_id").combine_chunks()
    early.append(pc.is_in(learned.column("id"), value_set=before))
    new = learned.filter(pc.or_(pc.or_(early[0], early[1]), early[2]))
    replaced = looked_at.filter(pc.fill_null(pc.greater(looked_at.column(TO), first), False))
    later = said.filter(pc.greater(said.column(FROM), told)).column("transfer_id")
    if len(later):
        known = versions(transfers, ("id",), ids=later.combine_chunks())
        known = known.filter(pc.less_equal(known.column(FROM), last)).column("id")
        later = later.filter(pc.is_in(later, value_set=known.combine_chunks()))
    differ = pa.array(sorted(set().union(*(gone[one.hash] ^ gone_now for one in due))), pa.string())
    ids = pa.chunked_array([*new.column("id").chunks, *replaced.column("id").chunks,
                            *later.chunks, differ], pa.string()).unique()  # fmt: skip
    if not every and not len(ids):
        return []
    rows = versions(transfers, _BOOKED, ids=ids)
    said = said.filter(pc.is_in(said.column("transfer_id"), value_set=ids))

    def at(limit: int, events_limit: int, left_out: set[str]) -> pa.Table:
        there = known_at(rows, limit)
        told = said.filter(pc.less_equal(said.column(FROM), events_limit))
        out = pc.is_in(there.column("id"), value_set=pa.array(sorted(left_out), pa.string()))
        stands = pc.and_(pc.is_null(there.column(TO)), pc.invert(out))
        current = there.filter(stands).select(_BOOKED)
        return with_settlement(current, settled_of(there, told, transfers))

    now = at(transfers.limit, events.limit, gone_now)
    return [
        (one, at(one.limit("transfers"), one.limit("events"), gone[one.hash]), now) for one in due
    ]
