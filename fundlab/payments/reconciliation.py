"""The journal against the service: is each payment there once, and as its card showed it?

It looks at what the service shows, not at what the program concluded when it paid, and shares no
rule with that but the test of identity. ``card_differences`` holds an answer against the card at
once, ``reconcile`` the entries of journals against transfers, ``reconciled`` against those of a
store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from fundlab.base.errors import number_of
from fundlab.base.values import Instant, money_text
from fundlab.client.identity import is_this_payment
from fundlab.evidence.acceptance import chosen
from fundlab.evidence.table_store import TableStore
from fundlab.payments.identity import SECOND, WITHDRAWAL, Entry, shown_time
from fundlab.settings.settings import setting
from fundlab.store.records import needed
from fundlab.store.snapshot import read_current, steadily
from fundlab.tables.frames import to_frame

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["card", "missing", "moved", "several", "shared", "other"]
COLUMNS: Final = (
    "id", "ref_id", "type", "direction", "status", "amount", "fee", "total", "asset", "profile_id",
    "fiat_account_id", "created_at",
)  # fmt: skip
_LATE_NS: Final = 15 * 60 * SECOND
"""A list may lag so far behind; and so far clocks differ."""
_SHOWN: Final = 3


@dataclass(frozen=True)
class Difference:
    """What differs between the journal and the service: ``text`` is a sentence about it.

    ``card``: a transfer is not as its card showed it; ``missing``: no transfer answers an entry;
    ``moved``: an entry says that nothing was made, and something was; ``several``: an intent has
    more than one transfer; ``shared``: a transfer stands for more than one intent; ``other``: a
    debit that no journal of this user knows. ``ref_id`` and ``transfer_id`` say of which; ``what``
    is in what it differs: by these somebody ``accepted`` it (who, when and why).
    """

    kind: Kind
    ref_id: str | None
    transfer_id: str | None
    text: str
    what: str = ""
    accepted: str | None = None

    def __str__(self) -> str:
        return self.text if self.accepted is None else f"{self.text} ({self.accepted})"


@dataclass(frozen=True)
class Reconciliation:
    """``entries`` withdrawals of the journal were held against the transfers the service shows.

    ``differences`` are what is wrong and nobody ``accepted``; ``others`` debits that no journal of
    this user knows, where those may be: payments of colleagues and other programs. ``approved_by``
    says of each payment that others approved, by its ``ref_id``, who; ``statuses`` has that of each
    transfer that was made, by its id.
    """

    entries: int
    differences: tuple[Difference, ...]
    others: tuple[Difference, ...]
    accepted: tuple[Difference, ...] = ()
    approved_by: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    statuses: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def by_ref_id(self) -> dict[str, str]:
        """What is wrong with each payment, in words, by its ``ref_id``; what was accepted, too."""
        lines: dict[str, list[str]] = defaultdict(list)
        for difference in (*self.differences, *self.accepted):
            if difference.ref_id is not None:
                lines[difference.ref_id].append(str(difference))
        return {ref_id: "; ".join(words) for ref_id, words in lines.items()}

    @property
    def headline(self) -> str:
        """How many differences there are, and how many more were accepted; nothing for none."""
        differ, more = number_of(len(self.differences), "payment difference"), len(self.accepted)
        words = f"{differ} between journal and service ('fundlab journal' shows each)"
        if not self.differences:
            words = "" if not more else f"{number_of(more, 'payment difference')} accepted"
        elif more:
            words += f", {more:,} more accepted"
        return f"{words}." if words else ""

    def to_json(self) -> dict[str, list[dict[str, str | None]]]:
        return {
            "payment_differences": [asdict(difference) for difference in self.differences],
            "accepted_differences": [asdict(difference) for difference in self.accepted],
            "other_debits": [asdict(difference) for difference in self.others],
        }

    def __str__(self) -> str:
        lines = [difference.text for difference in self.differences]
        if self.accepted:
            lines.append(f"{number_of(len(self.accepted), 'payment difference')} accepted")
        lines += [difference.text for difference in self.others[:_SHOWN]]
        if len(self.others) > _SHOWN:
            lines.append(f"and {number_of(len(self.others) - _SHOWN, 'more debit')} like that")
        return "\n".join(lines)


def card_differences(card: Mapping[str, str | None], shown: Mapping[str, Any]) -> list[str]:
    """What the service has ``shown`` of a withdrawal otherwise than its ``card`` (the facts of the
    journal), each in words; what the card did not know, and what is not shown, is left out.

    >>> card_differences({"fee": "25", "asset": "USD"}, {"fee": "2500", "amount": "1"})
    ['fee 2,500.00 USD, the card showed 25.00']
    """
    asset, different = card.get("asset") or "", []
    for name in ("amount", "fee", "total", "asset", "profile_id", "fiat_account_id"):
        expected, now = card.get(name), shown.get(name)
        if expected is None or now is None:
            continue
        if name in ("amount", "fee", "total"):
            if Decimal(expected) != Decimal(now):
                figure, carded = money_text(Decimal(now)), money_text(Decimal(expected))
                different.append(f"{name} {figure} {asset}, the card showed {carded}")
        elif str(now).casefold() != expected.casefold():
            different.append(f"{name} {now}, the card showed {expected}")
    return different


def reconcile(
    entries: Iterable[Entry],
    transfers: pd.DataFrame | None,
    *,
    complete_until: int,
    only_own: bool = False,
) -> Reconciliation:
    """Hold the withdrawals of ``entries`` against ``transfers`` (``COLUMNS``; those of their ids,
    and every one that the service showed since the first entry, up to ``complete_until`` in ns),
    or, where there are none, against what the journal noted of their answers.

    Debits that no entry knows are ``others``, or, with ``only_own``, differences.
    """
    payments = [entry for entry in entries if entry.operation == WITHDRAWAL]
    rows: list[dict[str, Any]] = []
    if transfers is not None:
        given = transfers.astype(object)
        rows = given.where(transfers.notna(), None).to_dict("records")  # type: ignore[assignment]
    by_id = {str(row["id"]).casefold(): row for row in rows}
    by_ref_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["ref_id"] is not None:
            by_ref_id[str(row["ref_id"]).casefold()].append(row)
    stands_for: dict[str, list[Entry]] = defaultdict(list)
    known: set[str] = set()
    statuses: dict[str, str] = {}
    found: list[Difference] = []

    for entry in payments:
        of = f"withdrawal {entry.ref_id} of {shown_time(entry.recorded_at, complete_until)}"
        under = [
            row for row in by_ref_id[entry.ref_id.casefold()]
            if row["status"] != "FAILED"
            for shown in [{name: None if row[name] is None else str(row[name]) for name in COLUMNS}]
            if is_this_payment(entry.arguments, shown).answer != "no"  # not somebody else's
        ]  # fmt: skip
        known |= {str(row["id"]) for row in under}
        if len(under) > 1:
            ids = ", ".join(str(row["id"]) for row in under)
            text = f"{of} has {len(under)} transfers, not one: {ids}"
            found.append(Difference("several", entry.ref_id, str(under[0]["id"]), text, ids))
        if entry.state in ("refused", "absent") and under:
            found.append(Difference(
                "moved", entry.ref_id, str(under[0]["id"]),
                f"the journal says that {of} was {entry.state}, and the service has made transfer "
                f"{under[0]['id']} ({under[0]['status']}): run fl.resume()", entry.state,
            ))  # fmt: skip
        if entry.state != "done" or entry.resource_id is None:
            continue
        stands_for[entry.resource_id.casefold()].append(entry)
        made = by_id.get(entry.resource_id.casefold())
        if made is None:
            if entry.noted_at < complete_until - _LATE_NS:
                found.append(Difference(
                    "missing", entry.ref_id, entry.resource_id,
                    f"{of} is done by the journal, and the service shows no transfer "
                    f"{entry.resource_id}: ask the service what became of it",
                ))  # fmt: skip
            made = {"type": "WIRE_WITHDRAWAL", "direction": "DEBIT", "fee": entry.fee,
                    "total": entry.total}  # fmt: skip
        else:
            statuses[entry.resource_id] = str(made["status"])
        different = card_differences(entry.facts, made)
        kind = str(made["type"])
        if made["direction"] != "DEBIT" or not kind.endswith("_WITHDRAWAL"):
            different.insert(0, f"it is a {kind} ({made['direction']})")
        if different:
            found.append(Difference(
                "card", entry.ref_id, entry.resource_id,
                f"transfer {entry.resource_id} of {of} is not as its card: {'; '.join(different)}",
                "; ".join(different),
            ))  # fmt: skip
    for id_, several in stands_for.items():
        if len(several) > 1:
            names = ", ".join(entry.ref_id for entry in several)
            found.append(Difference(
                "shared", several[-1].ref_id, several[-1].resource_id,
                f"transfer {id_} stands for {len(several)} payments of the journal ({names}), and "
                "can be one of them only: the others may not have been made", names,
            ))  # fmt: skip

    others = tuple(
        Difference(
            "other", row["ref_id"], str(row["id"]),
            f"no journal of this user knows {row['type']} {row['id']} of "
            f"{money_text(Decimal(row['total']))} {row['asset']}, "
            f"{shown_time(row['created_at'].value, complete_until)}",
            f"total {money_text(Decimal(row['total']))} {row['asset']}",
        )
        for row in rows
        if row["direction"] == "DEBIT" and row["status"] != "FAILED"
        and str(row["id"]) not in known and str(row["id"]).casefold() not in stands_for
    )  # fmt: skip
    approved = {
        entry.ref_id: who for entry in payments if (who := entry.facts.get("approved_by"))
    }  # fmt: skip
    differences = (*found, *others) if only_own else tuple(found)
    return Reconciliation(
        len(payments), differences, () if only_own else others, approved_by=approved,
        statuses=statuses,
    )  # fmt: skip


def reconciled(
    store: TableStore, entries: Sequence[Entry], *, only_own: bool | None = None
) -> Reconciliation:
    """``entries``, those of this user's journals for the service of ``store``, held against its
    transfers: those of its ids, and every one from the first of them on. What was accepted in the
    store's records is set apart.

    Without entries there is nothing to compare, unless ``only_own`` (by default the setting
    ``only_own_payments``): then every debit of the store is a difference.
    """
    only_own = bool(setting("only_own_payments")) if only_own is None else only_own
    last = store.snapshot("transfers").last
    if last is None or not (entries or only_own):
        return _without_accepted(reconcile(entries, None, complete_until=0), store)
    import pandas as pd

    # what the journal knows is found whatever its time: the service's clock may be another
    named = {
        "id": [entry.resource_id for entry in entries if entry.resource_id is not None],
        "ref_id": [entry.ref_id for entry in entries],
    }

    def those(where: Mapping[str, Sequence[str]]) -> pd.DataFrame:
        found = steadily(lambda: read_current(store.current("transfers"), COLUMNS, where=where))
        return to_frame(found)

    by_id, by_ref_id = (those({name: texts}) for name, texts in named.items())
    moments = [*(one.value for one in by_id["created_at"]), *(one.recorded_at for one in entries)]
    begin = min(moments, default=None)
    since = None if begin is None else str(Instant.from_ns(begin - _LATE_NS))
    synced = store.runs().get("sync", {}).get("tables", {}).get("transfers")
    until = last.published_at if synced is None else Instant.parse(synced).ns
    newer = store.read("transfers", columns=list(COLUMNS), since=since)
    rows = pd.concat([newer, by_id, by_ref_id]).drop_duplicates("id")
    found = reconcile(entries, rows, complete_until=until, only_own=only_own)
    return _without_accepted(found, store)


def _without_accepted(found: Reconciliation, store: TableStore) -> Reconciliation:
    words = {
        tuple(key): f"accepted by {said['by']} on {record.at[:10]}, because: {said['reason']}"
        for record in store.records() if record.kind == "accept"
        for said in [record.content] for key in said.get("payments", ())
    }  # fmt: skip
    differences = [
        replace(one, accepted=words.get((one.kind, one.ref_id, one.transfer_id, one.what)))
        for one in found.differences
    ]
    return replace(
        found,
        differences=tuple(difference for difference in differences if difference.accepted is None),
        accepted=tuple(difference for difference in differences if difference.accepted is not None),
    )


def accept_payments(
    store: TableStore,
    entries: Sequence[Entry],
    ids: str | Sequence[str] | None = None,
    *,
    by: str,
    reason: str,
) -> list[Difference]:
    """Record in ``store`` that it is known why the payments ``ids`` (a ``ref_id`` or the id of a
    transfer; all by default) differ: exactly so, for another difference is a new one. Those
    differences. Raises ``InvalidRequest`` for one that does not differ, or without ``by`` or
    ``reason``."""
    needed(by=by, reason=reason)
    with store.lock() as check_held:
        mine = chosen(
            reconciled(store, entries).differences, ids, "ids",
            lambda difference: (difference.ref_id, difference.transfer_id),
            "payments that differ; 'fundlab sync' and 'fundlab journal' name those that do",
        )  # fmt: skip
        if mine:
            keys = [[one.kind, one.ref_id, one.transfer_id, one.what] for one in mine]
            said = {"rows": [], "payments": keys, "by": by, "reason": reason}
            store.record("accept", said, check_held)
    return mine
