"""What people accept of a store: rows that the service lists no more or refuses to show, rows that
could not be read, a profile that is no longer theirs. A record each, with who and why.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fundlab.base.errors import InvalidRequest, listed
from fundlab.base.values import Instant
from fundlab.evidence.observations import Accounts
from fundlab.evidence.quarantine import set_aside_rows
from fundlab.evidence.vanished_rows import gone_rows, gone_table
from fundlab.store.records import needed
from fundlab.store.snapshot import read_current, steadily
from fundlab.store.store_files import StoreFiles, texts
from fundlab.tables.frames import to_frame

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


def chosen(
    rows: Sequence[T],
    given: str | Sequence[str] | None,
    parameter: str,
    names_of: Callable[[T], Iterable[str | None]],
    unless: str,
) -> list[T]:
    """Those of ``rows`` that have a name among ``given``, whatever its case where there is none as
    it was written, by default all. Raises ``InvalidRequest`` for a name that none has: ``unless``
    says what they are not, and what shows those that are; and for one that several may mean."""
    if given is None:
        return [*rows]
    named = [(row, {name for name in names_of(row) if name is not None}) for row in rows]
    every = {name for _, names in named for name in names}
    wanted = {text: as_written(text, every) for text in texts(given, parameter)}
    if unknown := [text for text, name in wanted.items() if name is None]:
        raise InvalidRequest(f"{parameter} {sorted(unknown)!r} are not {unless}")
    return [row for row, names in named if not names.isdisjoint(wanted.values())]


def as_written(text: str, names: Collection[str]) -> str | None:
    """The one of ``names`` that is ``text``, else the one that is when case does not count. Raises
    ``InvalidRequest`` where that are several."""
    alike = [text] if text in names else sorted(n for n in names if n.lower() == text.lower())
    if len(alike) > 1:
        raise InvalidRequest(f"{text!r} may be {listed(alike)}: write it as it is")
    return alike[0] if alike else None


def accept_unreadable(
    store: StoreFiles, keys: str | Sequence[str] | None, *, by: str, reason: str
) -> list[str]:
    """Record that rows set aside need not be read; their keys."""
    needed(by=by, reason=reason)
    with store.lock() as check_held:
        mine = chosen(
            [row for row in set_aside_rows(store.records()) if row.state == "open"],
            keys, "keys", lambda row: (row.key, row.id),
            "rows set aside; 'fundlab quarantine list' (store.set_aside()) shows those in the "
            "state 'open'",
        )  # fmt: skip
        if mine:
            rows = [[row.table, row.key, str(Instant.from_ns(row.found_at))] for row in mine]
            said = {"rows": [], "invalid": rows, "by": by, "reason": reason}
            store.record("accept", said, check_held)
    return [row.key for row in mine]


def accept_missing(
    store: StoreFiles,
    state: Literal["gone", "refused"],
    ids: str | Sequence[str] | None,
    said: dict[str, Any],
    profile_id: str | None = None,
    accounts: Callable[[], Accounts] | None = None,
) -> pd.DataFrame:
    """Record what was ``said`` of the rows in this state, by default all, and with ``profile_id``
    and the store's ``accounts`` that the profile is no longer ours; those rows."""
    profile = {} if profile_id is None else {"profile_id": profile_id}
    needed(by=said["by"], reason=said["reason"], **profile)
    what = "refused" if state == "refused" else "rows that the service lists no more"
    with store.lock() as check_held:
        every = gone_rows(store.records())
        there = [row for row in every if row.state == state]
        others = [  # that were accepted the other way
            row for row in every
            if row.state == "accepted" and row.answer == state and row.counts != said["counts"]
        ]  # fmt: skip
        mine = chosen(
            there if ids is None else [*there, *others], ids, "ids", lambda row: (row.id,),
            f"{what}; 'fundlab verify' (store.gone()) shows those in the state {state!r}",
        )  # fmt: skip
        if profile_id is not None and accounts is not None:
            known = accounts()
            written = {one.profile_id for one in known.every}
            profile_id = as_written(profile_id, written) or profile_id
            where = {"profile_id": [profile_id]}
            rows = steadily(lambda: read_current(store.snapshot("transfers"), ["id"], where=where))
            theirs = set(rows.column("id").to_pylist())
            check_refused(known, profile_id, any(row.id in theirs for row in there))
            mine, said["profiles"] = [row for row in mine if row.id in theirs], [profile_id]
        said["rows"] = [[row.table, row.id, str(Instant.from_ns(row.gone_at))] for row in mine]
        if mine or profile_id is not None:
            store.record("accept", said, check_held)
    accepted = {row.id for row in mine}
    return to_frame(gone_table([row for row in gone_rows(store.records()) if row.id in accepted]))


def check_refused(accounts: Accounts, profile_id: str, has_refused_rows: bool) -> None:
    """Raises ``InvalidRequest`` unless it is the service that keeps a profile from a proof."""
    judged = [*accounts.compared, *accounts.unobserved]
    mine = [one for one in judged if one.profile_id == profile_id]
    wrong = f"profile_id={profile_id!r} cannot be left out"
    if not (has_refused_rows or any(one.unanswered in (403, 404) for one in mine)):
        refused = {one.profile_id for one in judged if one.unanswered in (403, 404)}
        raise InvalidRequest(
            f"{wrong}: the service refused {'nothing of it' if mine else 'no such profile'}; "
            f"it refused to show balances of: {', '.join(sorted(refused)) or 'none'}"
        )
    if broken := [one.asset for one in mine if one.difference]:
        raise InvalidRequest(
            f"{wrong} while its balances do not follow from its transfers: "
            f"{', '.join(broken)}; 'fundlab verify' names the likely causes"
        )
