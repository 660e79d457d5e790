"""What a morning's look says: did everything that was expected happen, and is anything open?

A store notes its last sync, verification and report. So a timer that died, a run that was killed
and a disk that was full show as what they leave behind: a run that is too old. A clock that jumped
shows as a run of the future, or beside the service's clock. Breaks and closed periods that moved
are judged anew, as verify judges them, whatever came since; the files' bytes and each row's rules
are not: what the last verification and report found of them stands until they find nothing.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow.compute as pc

from fundlab.base.compiled import slow_path
from fundlab.base.errors import CallError, InvalidRequest, StoreDamaged, listed, number_of, shorten
from fundlab.base.values import Instant, length_text
from fundlab.evidence.closes import closes_of
from fundlab.evidence.vanished_rows import gone_rows
from fundlab.evidence.verdict import count_breaks, nothing_compared, shortfalls_of
from fundlab.operate.store import moved_periods
from fundlab.payments.journal import Journal, identity_of
from fundlab.payments.journal_files import damaged_journals, journal_entries, journal_files
from fundlab.payments.reconciliation import reconciled
from fundlab.settings.settings import journal_folder
from fundlab.store.store_files import texts

if TYPE_CHECKING:
    from fundlab.client.client import Client
    from fundlab.evidence.table_store import TableStore

EXPECTED: Final = ("sync", "report", "verify", "close")
LEAST_FREE: Final = 500 * 10**6
CLOSED_WITHIN: Final = timedelta(days=10)
_AHEAD_NS: Final = 300 * 10**9
_LONG_PENDING_NS: Final = 7 * 86_400 * 10**9
_SENDING_NS: Final = 600 * 10**9

Kind = Literal["missed", "open"]


@dataclass(frozen=True)
class Finding:
    """What is not as it should be: ``missed`` (it was expected, and did not happen) or ``open``
    (it happened, and found something)."""

    about: str
    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.about}: {self.detail}"


@dataclass(frozen=True, repr=False)
class Status:
    """A store at the moment ``at`` (RFC 3339).

    ``synced`` has each table that was ever synced and when it was last; ``verified``, ``reported``
    and ``closed`` are the last of each (``closed_period`` says which), ``None`` where there was
    none. ``breaks`` and ``moved`` (closed periods) are those of now; ``problems`` (rows that break
    a rule, files that are not what was written) what the last verification found, or a later
    report; ``gone`` are rows that the service lists no more and nobody accepted. ``waiting`` is how
    many transfers are pending for more than seven days, the oldest ``waiting_since``: no finding,
    as it is the service's to settle them.
    ``pending`` are payments and other actions of which nobody knows whether they were carried out;
    ``payments`` is in how much the journal of this user differs from the service,
    ``accepted_differences`` how many more somebody accepted, ``other_debits`` how many debits no
    journal of this user knows, which is no finding unless the settings say ``only_own_payments``;
    ``free_bytes`` is ``None`` of a store elsewhere, ``clock_skew`` (seconds by which the service's
    clock is ahead) where it was not asked. ``slower`` says what is, where the C part is not in use.
    ``unproved`` says that no balance was ever compared, and why, in the words of the judgement; it
    is no finding, as it is none of a verification.
    """

    store: str
    at: str
    synced: Mapping[str, str]
    verified: str | None
    reported: str | None
    closed: str | None
    closed_period: str | None
    breaks: int
    problems: int
    moved: int
    gone: int
    waiting: int
    waiting_since: str | None
    pending: int
    payments: int
    accepted_differences: int
    other_debits: int
    free_bytes: int | None
    clock_skew: float | None
    findings: tuple[Finding, ...]
    slower: str = ""
    unproved: str = ""

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def missed(self) -> bool:
        """Whether something that was expected did not happen."""
        return any(one.kind == "missed" for one in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}

    def __str__(self) -> str:
        now = Instant.parse(self.at).ns
        times = {"synced": min(self.synced.values(), default=None), "verified": self.verified,
                 "reported": self.reported, "closed": self.closed}  # fmt: skip
        said = [f"{word} {_ago(now, at)}" for word, at in times.items() if at is not None]
        if self.accepted_differences:
            said.append(f"{number_of(self.accepted_differences, 'payment difference')} accepted")
        if self.other_debits:
            said.append(f"{number_of(self.other_debits, 'debit')} that no journal of yours knows")
        said += [f"{self.free_bytes / 1e9:,.1f} GB free"] if self.free_bytes is not None else []
        said += [self.slower] if self.slower else []
        line = f"{self.store}: {', '.join(said) or 'never synced'}"
        if self.waiting_since is not None:
            oldest = length_text(now - Instant.parse(self.waiting_since).ns)
            waiting = f"{number_of(self.waiting, 'transfer')} pending for up to {oldest}"
            line = f"{waiting}: {line}"
        open_ = [*map(str, self.findings)]
        open_ += [f"nothing to compare: {self.unproved}"] if self.unproved else []
        if not open_:
            return f"all is well{' but for ' if self.waiting else ': '}{line}"
        return "\n".join([*open_, line])

    __repr__ = __str__


def status(
    store: TableStore,
    *,
    max_age: timedelta = timedelta(hours=26),
    expect: str | Sequence[str] = ("sync", "report"),
    client: Client | None = None,
    now: int | None = None,
) -> Status:
    """The :class:`Status` of ``store``: what of ``expect`` (``sync``, ``report``, ``verify``,
    ``close``) is older than ``max_age``, and what is open.

    A report is expected once the store is older than ``max_age``, and a month to be closed within
    ten days of its end, from that of the first transfer on. With a ``client`` its service is asked
    what time it is, in one request without a token. ``now`` is the time in ns. Raises
    ``InvalidRequest`` for an argument that is not valid, ``StoreDamaged`` where the store cannot be
    read.
    """
    expected = texts(expect, "expect")
    if unknown := [name for name in expected if name not in EXPECTED]:
        raise InvalidRequest(f"expect={', '.join(unknown)!r}: give some of {', '.join(EXPECTED)}")
    if not isinstance(max_age, timedelta) or max_age <= timedelta(0):
        raise InvalidRequest(f"max_age={max_age}: give a timedelta of more than nothing")
    if not isinstance(now, int | None):
        raise InvalidRequest(f"now={shorten(now)}: give the nanoseconds since 1970")
    now = time.time_ns() if now is None else now
    findings: list[Finding] = []
    try:
        runs = store.runs()
    except StoreDamaged as error:
        runs = {}
        findings.append(Finding("notes", "missed", str(error)))

    # What was expected.
    age_ns = max_age / timedelta(microseconds=1) * 1000
    transfers = store.current("transfers")
    begun = min((one.published_at for one in transfers.publications), default=0)
    synced = runs.get("sync", {}).get("tables", {})
    dates = {name: runs.get(name, {}).get("at") for name in ("verify", "report")}
    oldest = min(synced, key=lambda name: synced[name], default=None)
    for name, at in {"sync": oldest and synced[oldest], **dates}.items():
        what = f"{name} of {oldest}" if name == "sync" and oldest else name
        if at is not None and Instant.parse(at).ns > now + _AHEAD_NS:
            detail = (
                f"the last was at {at[:19]}Z, which is yet to come: set the clock right; if it was "
                f"wrong then, run 'fundlab {name}'"
            )
            findings.append(Finding(what, "missed", detail))
        elif name not in expected:
            continue
        elif at is None and name == "report" and now - begun < age_ns:
            continue  # there was no time for one yet
        elif at is None:
            detail = f"there was none; run 'fundlab {name}', or say with --expect what to look for"
            findings.append(Finding(what, "missed", detail))
        elif now - Instant.parse(at).ns > age_ns:
            detail = (
                f"the last was {_ago(now, at)}, at {at[:19]}Z; see whether the timer runs and "
                f"what it says, then run 'fundlab {name}'"
            )
            findings.append(Finding(what, "missed", detail))
    closes = [one for one in closes_of(store.records()) if one.state == "closed"]
    last_close = max(closes, key=lambda one: one.end, default=None)
    if "close" in expected:
        grace = datetime.fromtimestamp(now / 1e9, UTC) - CLOSED_WITHIN
        due = grace.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        begins = (due - timedelta(days=1)).timestamp() * 1e9  # in whatever zone its months are
        has_any = transfers.span is not None and transfers.span[0] < due.timestamp() * 1e9
        if has_any and (last_close is None or last_close.end < begins):
            month = f"{due - timedelta(days=1):%Y-%m}"
            findings.append(Finding("close", "missed", f"run 'fundlab close {month}': it is over"))

    # What is open. A report looks at fewer problems than a verification: it takes none back.
    accounts, moved = store.accounts(), len(moved_periods(store))
    breaks = count_breaks(accounts)
    noted = {name: int(runs.get(name, {}).get("problems", 0)) for name in dates}
    if (dates["report"] or "") <= (dates["verify"] or ""):
        del noted["report"]
    look, problems = max(noted.items(), key=lambda one: one[1])
    for count, what, when in (
        (breaks, "break", ""), (problems, "problem", f", by the last {look}"),
        (moved, "moved period", ""),
    ):  # fmt: skip
        if count:
            detail = f"{number_of(count, what)}{when}; run 'fundlab verify'"
            findings.append(Finding(f"{what}s", "open", detail))

    findings += [Finding("proof", "open", line.rstrip(".")) for line in shortfalls_of(accounts)]
    if gone := [row.id for row in gone_rows(store.records()) if row.state == "gone"]:
        detail = (
            f"the service lists {number_of(len(gone), 'row')} no more: {listed(gone, 3)}; run "
            "'fundlab accept-gone' with the ids once you know why"
        )
        findings.append(Finding("gone rows", "open", detail))

    columns, until = ["created_at", "status"], str(Instant.from_ns(now - _LONG_PENDING_NS))
    old = store.read_arrow("transfers", columns=columns, until=until)
    old = old.filter(pc.equal(old.column("status"), "PENDING"))
    first = pc.min(old.column("created_at")).value

    # Payments of this user to the store's service.
    pending, service = 0, store.service()
    if service:
        begin = identity_of(service)[1]
        broken = {path for path, _ in damaged_journals(store)}
        for path in journal_files(journal_folder()):
            if path in broken:
                findings.append(
                    Finding("journal", "missed", f"{path} is not intact; see fundlab verify")
                )
            elif path.name.startswith(begin):
                pending += sum(
                    entry.state == "unknown" and now - entry.noted_at > _SENDING_NS
                    for entry in Journal(path).entries()
                )
    if pending:
        detail = f"{number_of(pending, 'action')} may or may not have been sent; ask with fl.resume"
        findings.append(Finding("payments", "missed", detail))

    against = reconciled(store, journal_entries(store))
    for one in against.differences:
        advice = f"run 'fundlab accept-payment {one.ref_id or one.transfer_id}' once you know why"
        how: Kind = "missed" if one.kind == "missing" else "open"
        findings.append(Finding("payments", how, f"{one.text}; {advice}"))

    free = None
    if isinstance(store.path, Path):
        free = shutil.disk_usage(store.path).free
        size = sum(path.stat().st_size for path in store.path.glob("*/*.parquet"))
        if free < max(LEAST_FREE, size):
            need = max(LEAST_FREE, size) / 1e6
            detail = f"{free / 1e6:,.0f} MB free; make room: a sync may need {need:,.0f} MB"
            findings.append(Finding("disk", "missed", detail))
    skew = None
    if client is not None:
        from fundlab.client.doctor import MAX_SKEW_S
        from fundlab.client.http import clock_skew

        try:
            answered = client.transport.probe().headers.get("Date")
        except CallError as error:
            findings.append(Finding("service", "missed", str(error)))
        else:
            skew = clock_skew(answered, now / 1e9)
        if skew is not None and abs(skew) > MAX_SKEW_S:
            way = "behind" if skew > 0 else "ahead of"
            detail = f"this machine's is {abs(skew):.0f} s {way} the service's; set it right"
            findings.append(Finding("clock", "missed", detail))
    return Status(
        store=str(store.path), at=str(Instant.from_ns(now)), synced=synced,
        verified=dates["verify"], reported=dates["report"],
        closed=None if last_close is None else last_close.record.at,
        closed_period=None if last_close is None else last_close.period,
        breaks=breaks, problems=problems, moved=moved, gone=len(gone), waiting=len(old),
        waiting_since=None if first is None else str(Instant.from_ns(first)), pending=pending,
        payments=len(against.differences), accepted_differences=len(against.accepted),
        other_debits=len(against.others), free_bytes=free, clock_skew=skew,
        findings=tuple(findings), slower=slow_path(), unproved=nothing_compared(accounts),
    )  # fmt: skip


def _ago(now: int, at: str) -> str:
    ns = now - Instant.parse(at).ns
    return f"{length_text(abs(ns))} {'ago' if ns >= 0 else 'ahead of this clock'}"
