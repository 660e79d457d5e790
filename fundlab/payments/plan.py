"""A plan: one action, frozen, that shows itself, is confirmed by its code and is carried out once.

``Plan.carry_out`` is the outline of what happens on ``submit``: an earlier run's result is looked
for, what was shown is looked at again, the entry is written down, then it is sent, then what became
of it is written down. It is safe at every instant: before the entry is on disk nothing has been
sent; after it, whoever runs the same plan again finds it, asks the service, and sends the same body
under the same ``ref_id``, of which the service carries out one. ``new_plan`` is what all plans
begin with; ``withdrawals``, ``accounts``, ``deposits`` and ``rules`` make them. ``resume`` settles
what an interruption left open.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import pandas as pd

from fundlab.base.errors import (
    ActionRefused,
    CallError,
    Conflict,
    InvalidRequest,
    NotFound,
    ProtocolError,
    ServiceError,
    StoreError,
    ValidationFailed,
    printable,
    shorten,
)
from fundlab.base.progress import in_notebook
from fundlab.base.values import Instant
from fundlab.client.arguments import connected
from fundlab.client.identity import Identity, is_this_payment
from fundlab.display import Card, Row, Shown, service_band
from fundlab.evidence.table_store import TableStore
from fundlab.models import OPERATIONS, FiatAccount, Request, Resource
from fundlab.models.requests import body_bytes, checked
from fundlab.payments.identity import (
    DAY,
    NOUNS,
    SECOND,
    UPDATE,
    WITHDRAWAL,
    Entry,
    canonical,
    keyed,
    shown_time,
    traces,
)
from fundlab.payments.journal import Journal, identity_of, open_journal
from fundlab.payments.journal_files import journal_frame
from fundlab.payments.outcome import Observed, Seen, observed_of, state_after
from fundlab.settings.secret import Masked

if TYPE_CHECKING:
    from fundlab.client.client import Client

EXPIRES_AFTER: Final = 15 * 60 * SECOND
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no letter that looks like a digit
_LISTED_BY: Final = {
    WITHDRAWAL: "list_transfers",
    "create_fiat_account": "list_fiat_accounts",
    "create_fiat_deposit_instructions": "list_fiat_deposit_instructions",
}
_SHOWN_BY: Final = {
    WITHDRAWAL: "get_transfer",
    "create_fiat_account": "get_fiat_account",
    UPDATE: "get_fiat_account",
    "create_fiat_deposit_instructions": "get_fiat_deposit_instructions",
}
"""Of addresses and rules the service shows nothing: repeating the request is the way to ask."""
_FEW: Final = 5
"""Resources under one ``ref_id``, or with none, that are asked for one by one."""
_WITH_BANK_DETAILS: Final = ("create_fiat_account", UPDATE)
_HOPE: Final = (
    "The journal holds it as unknown: run the same cell again, or fl.resume(); it is never done "
    "twice."
)

R = TypeVar("R", bound=Resource)


def announce(line: str) -> None:
    """Show a line under the cell of a notebook, on standard error elsewhere."""
    stream = sys.stdout if in_notebook() else sys.stderr
    with suppress(OSError):  # what was done is done, and returned, if nobody can be told as well
        stream.write(f"{printable(line)}\n")
        stream.flush()


@dataclass(frozen=True)
class Context:
    """What a plan is made with: a client, its service's journal, the store, a clock (ns since
    1970); ``say`` shows a line."""

    client: Client
    journal: Journal
    store: TableStore
    now: Callable[[], int]
    say: Callable[[str], object]


def context_of(
    client: Client,
    store: TableStore | str | Path | None,
    now: Callable[[], int] | None,
    say: Callable[[str], object] | None,
) -> Context:
    """The context at ``store``, by default that of the client's settings."""
    connected(client)
    clock = now or time.time_ns
    place = store if isinstance(store, TableStore) else TableStore(store or client.settings.store)
    book = open_journal(client, place, clock)
    return Context(client, book, place, clock, say or announce)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Plan(Shown, Generic[R]):
    """One action that can be confirmed. ``code`` is what confirms it; it expires after 15 minutes.

    ``rows`` and ``warnings`` are what the card shows, ``facts`` what the journal may keep,
    ``earlier`` the entry of an earlier run, ``elsewhere`` that the service has it although this
    journal has not, ``evidence`` what the code certifies beside the arguments; ``unchecked`` is
    what could not be checked, neither when it was planned nor, from then on, when it was sent.
    """

    context: Context
    operation: str
    body: Masked  # JSON of the arguments, that nobody can change; may hold bank details
    ref_id: str
    own_ref_id: bool
    planned_at: int
    title: str = ""
    rows: tuple[Row, ...] = ()
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    evidence: str = ""
    earlier: Entry | None = None
    elsewhere: bool = False
    batch: str | None = None
    unchecked: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> dict[str, Any]:
        """The body, and the id in the path of an update; a copy."""
        given: dict[str, Any] = json.loads(self.body.reveal())
        return given

    @property
    def code(self) -> str:
        """The confirmation code: of this action, to this account, in this environment."""
        book = self.context.journal
        return confirmation_code(book, self.operation, self.arguments, self.evidence)

    @property
    def is_submitted(self) -> bool:
        """Whether it was carried out before, by a run that shares this journal or not."""
        return self.elsewhere or (self.earlier is not None and self.earlier.state == "done")

    def submit(self, confirm: str | None = None) -> R:
        """Carry out exactly this plan, once; the resource the service made of it.

        ``confirm`` is ``plan.code``; in production it is needed, elsewhere it may be left out. An
        earlier run's result is returned, and said, instead of doing it again. Raises
        ``ActionRefused`` (wrong or missing code, expired, something changed since the plan; nothing
        was sent) and ``CallError`` as the client does; running it again is always safe.
        """
        check_code(self.context, self.code, confirm)
        with self.context.journal.opened() as (book, _):
            plan = replace(self, context=replace(self.context, journal=book))
            made: R = plan.carry_out(plan.look_again)
        return made

    def carry_out(self, look_again: Callable[[], Any]) -> Any:
        """What happens on ``submit``, step by step; ``look_again`` may refuse it."""
        context, book, arguments = self.context, self.context.journal, self.arguments
        kept = self.kept()

        # 1. Was it done before? The journal knows, and of an entry that is not settled the service,
        #    which may also know a ref_id of the caller's that was used without this journal.
        entry, made = self.earlier_run()
        if made is not None:
            return made
        if entry is None and self.own_ref_id and self.operation in _LISTED_BY:
            seen = look_up(context, self.operation, arguments)
            if (made := seen.resource) is not None:
                check_seen(self.operation, self.ref_id, seen)
                made_at = None if made.created_at is None else made.created_at.ns
                book.note(book.record(**kept, at=made_at), "done", made)
                said = said_of(self.operation, made)
                context.say(f"already submitted, from another store or program, {said}")
                return made

        # 2. Is everything as it was when the plan was shown? What has changed may be that another
        #    kernel has just carried out this very plan.
        try:
            now = look_again()
        except ActionRefused as refusal:
            entry, made = self.earlier_run()
            if made is not None:
                return made
            if entry is not None:
                check_doubt(entry, refusal)
            raise

        # 3. On disk before the first byte is sent, as an attempt of this kernel's. What the journal
        #    forbids, a limit or a payment alike, is looked for in the same transaction: nobody
        #    records in between.
        entry = book.record(**kept, allow=lambda current: self.check_journal(current, now))
        if entry.state == "done":  # another kernel was faster
            return already_made(context, entry)

        # 4. Sent, and what became of it written down.
        made = send(context, entry, arguments | {"ref_id": entry.ref_id})

        # 5. Is it as the card showed it?
        self.look_after(entry, made)
        return made

    def earlier_run(self) -> tuple[Entry | None, Any]:
        """The entry under this plan's ``ref_id``, and what the service has for it, if anything."""
        entry = self.context.journal.find(self.ref_id)
        if entry is None:
            return None, None
        entry.check_asks(self.operation, self.arguments, self.context.now())
        return entry, already_made(self.context, entry)

    def kept(self) -> dict[str, Any]:
        """What the journal keeps, for ``Journal.record``: the bytes that are sent, or of bank
        details digests."""
        arguments = self.arguments
        model = OPERATIONS[self.operation].body or Request
        lenient = self.context.client.settings.lenient_requests
        given = {name: arguments[name] for name in model.model_fields if name in arguments}
        request = checked(model, self.operation, given, lenient=lenient)
        body = body_bytes(request, self.operation)
        if self.operation in _WITH_BANK_DETAILS:
            masked = {"ref_id": self.ref_id, "masked": True, **self.digests()}
            body = json.dumps(masked).encode()
        return {
            "ref_id": self.ref_id, "operation": self.operation, "arguments": arguments,
            "body": body, "facts": self.facts, "batch": self.batch,
            "store": self.context.store.name,
        }  # fmt: skip

    def digests(self) -> dict[str, Any]:
        """What the journal keeps in place of bank details, to recognise what was asked for."""
        asked = {n: v for n, v in self.arguments.items() if n not in ("id", "ref_id")}
        return {"asked": traces(self.context.journal.id, asked)}

    def look_again(self) -> Any:
        """Refuses what is no longer as it was when the plan was shown; what it finds is for
        ``check_journal`` and ``look_after``."""
        check_expiry(self.context, self.planned_at)

    def check_journal(self, book: Journal, seen: Any = None) -> None:
        """Refuses, within the journal's transaction, what own limits do not allow."""

    def look_after(self, entry: Entry, made: R) -> None:
        """Warn, after it was sent, of what there is to be warned of."""

    # ------------------------------------------------------------------------------ showing

    @property
    def expires_at(self) -> int:
        """When the plan expires, in nanoseconds since 1970."""
        return self.planned_at + EXPIRES_AFTER

    @property
    def status(self) -> str | None:
        """What an earlier run left, in one sentence; ``None`` for a new plan."""
        earlier = self.earlier
        if earlier is None:
            return "already submitted, from another store or program" if self.elsewhere else None
        at = shown_time(earlier.recorded_at, self.context.now())
        if earlier.state == "done":
            again = "; to try again, use a ref_id of its own" if earlier.status == "FAILED" else ""
            return f"already submitted {at}, {earlier.status or 'done'}{again}"
        if earlier.state == "absent":
            return f"confirmed {at}, but the service does not know it; submit() sends it, once"
        if earlier.state == "refused":
            return (
                f"confirmed {at}, refused by the service ({earlier.detail}); it may be tried again"
            )
        return f"confirmed {at}, outcome unknown; submit() asks the service and does it once"

    def to_json(self) -> dict[str, Any]:
        """What the card shows, for a program; amounts and times as text."""
        client = self.context.client
        return {
            "action": NOUNS[self.operation],
            "title": self.title,
            "base_url": client.base_url,
            "production": client.settings.is_production,
            "ref_id": self.ref_id,
            "code": self.code,
            **self.facts,
            "warnings": self.all_warnings,
            "unchecked": self.unchecked,
            "status": self.status,
            "planned_at": str(Instant.from_ns(self.planned_at)),
            "expires_at": str(Instant.from_ns(self.expires_at)),
        }

    @property
    def all_warnings(self) -> list[str]:
        return [*(f"Not checked: {line}." for line in self.unchecked), *self.warnings]

    def card(self) -> Card:
        until = shown_time(self.expires_at, self.context.now())
        note, status = f"confirmation code {self.code} · expires {until}", self.status
        if self.operation == WITHDRAWAL and self.is_submitted:
            note += (
                " · for one more like it, plan with allow_duplicate=True and another ref_id "
                "(--allow-duplicate --ref-id NAME)"
            )
        sent = None if self.is_submitted else self.context.journal.find(self.ref_id)
        if sent is not None and sent.state == "done":  # since it was planned
            at = shown_time(sent.recorded_at, self.context.now())
            status = f"submitted {at}, {sent.status or 'done'}"
            note = f"{NOUNS[self.operation]} {sent.resource_id}"
        return service_card(
            self.context.client, self.title, self.rows, warnings=tuple(self.all_warnings),
            status=status, notes=(note,),
        )  # fmt: skip


def service_card(client: Client, title: str, rows: Sequence[Row] = (), **more: Any) -> Card:
    """A card under the name of the environment it is about."""
    band = service_band(client.base_url, real_money=client.settings.is_production)
    return Card(title, tuple(rows), **band, **more)


# ------------------------------------------------------------------------------ planning


def new_plan(
    context: Context,
    operation: str,
    ref_id: str | None,
    *,
    more: bool = False,
    known_by: Mapping[str, Any] = MappingProxyType({}),
    **given: Any,
) -> Plan[Any]:
    """A plan of ``operation`` with nothing to show yet: checked, named and looked up.

    Without ``ref_id`` one is derived from the arguments and ``known_by`` (see ``keyed`` in
    ``payments.identity``), another one with ``more``. Raises ``InvalidRequest`` naming the argument
    that the interface does not accept, and ``ActionRefused`` for a ``ref_id`` that stands for
    something else.
    """
    if ref_id is not None and not (
        isinstance(ref_id, str) and ref_id.strip() and ref_id.isprintable()
    ):
        raise InvalidRequest(
            f"ref_id={shorten(ref_id)} is not accepted; give text without line breaks, such as "
            "'rent-2026-12', or leave it out; nothing was sent"
        )
    wanted = {name: value for name, value in given.items() if value is not None}
    model = OPERATIONS[operation].body or Request
    known = {**wanted, "ref_id": "derived"}  # its own is put in below
    given = {name: known[name] for name in model.model_fields if name in known}
    lenient = context.client.settings.lenient_requests
    arguments = checked(model, operation, given, lenient=lenient).to_json()
    if "id" in wanted:  # of an update: it goes into the path
        arguments["id"] = wanted["id"]

    # an earlier run has it in the journal, under the name derived there
    book, kind, wanted = context.journal, "fundlab", {**arguments, **known_by}
    if more:
        kind = "fundlab-more"
    arguments["ref_id"] = ref_id or f"{kind}-{keyed(book.id, operation, wanted)[:32]}"
    earlier = book.find(arguments["ref_id"])
    if earlier is not None:
        earlier.check_asks(operation, arguments, context.now())
        arguments["ref_id"] = earlier.ref_id  # as it was written, and may have been sent

    # a ref_id of the caller's may have been used without this journal; a derived one holds the
    # journal's random id, so that nobody else has it
    elsewhere = False
    if ref_id and earlier is None and operation in _LISTED_BY:
        seen = look_up(context, operation, arguments)
        elsewhere = seen.resource is not None
        check_seen(operation, ref_id, seen)
    return Plan(
        context=context, operation=operation, body=Masked(json.dumps(arguments)),
        ref_id=arguments["ref_id"], own_ref_id=ref_id is not None, planned_at=context.now(),
        earlier=earlier, elsewhere=elsewhere,
    )  # fmt: skip


def confirmation_code(
    book: Journal, operation: str, arguments: Mapping[str, Any], evidence: str
) -> str:
    """Eight characters that stand for exactly this payment, such as ``K7QF-2M9D``.

    It belongs to the payment and to the account as it was shown: service, credential, ref_id, every
    argument, and ``evidence``, the account's owner, number and bank. It holds no time and no
    balance, so a code typed into a cell still fits when the notebook runs again, and no longer fits
    when the account has changed.
    """
    service, _ = identity_of(book.service)
    text = f"{service}\n{operation}\n{canonical(arguments)}\n{evidence}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = ""
    for _ in range(8):
        number, letter = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[letter]
    return f"{letters[:4]}-{letters[4:]}"


def same_code(given: object, code: str) -> bool:
    """Whether ``given`` is ``code``, however it was typed."""
    if not isinstance(given, str):
        return False
    typed = "".join(char for char in given.upper() if char.isalnum())
    return typed == code.replace("-", "")


def check_code(context: Context, code: str, confirm: str | None) -> None:
    """Refuses the code of another plan, and in production a missing one."""
    if confirm is None:
        if context.client.settings.is_production:
            raise ActionRefused(
                "code",
                f"{context.client.base_url} is production: look at the plan, then confirm it "
                f"with plan.submit(confirm={code!r}); nothing was sent",
            )
    elif not same_code(confirm, code):
        raise ActionRefused(
            "code",
            f"confirm={shorten(confirm)} is not the code of this plan but of another, or of an "
            "account that has changed since; nothing was sent: look at the plan again and give the "
            "code it shows",
        )


def check_expiry(context: Context, planned_at: int) -> None:
    """Refuses a plan that is older than it may be, or of a time that is yet to come."""
    now = context.now()
    if now < planned_at - SECOND:
        raise ActionRefused(
            "expired",
            f"the plan is of {shown_time(planned_at, now)}, but by this machine's clock it is "
            f"{shown_time(now, planned_at)}; nothing was sent: see to the clock, run the cell "
            "that plans again, look, and confirm",
        )
    if now >= planned_at + EXPIRES_AFTER:
        raise ActionRefused(
            "expired",
            f"the plan of {shown_time(planned_at, now)} expired at "
            f"{shown_time(planned_at + EXPIRES_AFTER, now)}; nothing was sent: run the cell that "
            "plans again, look, and confirm",
        )


def given_rows(arguments: Mapping[str, Any]) -> tuple[Row, ...]:
    """The end user, the memo, the metadata and the ``ref_id``, where they are given."""
    labels = {"identity_id": "Identity", "account_id": "End user account", "memo": "Memo"}
    metadata = arguments.get("metadata") or {}
    return (
        *(Row(labels[name], arguments[name]) for name in labels if arguments.get(name)),
        *(Row(f"Metadata {key}", text) for key, text in metadata.items()),
        Row("ref_id", arguments["ref_id"], "faint"),
    )


# ------------------------------------------------------------------------------ accounts


@dataclass(frozen=True)
class BankAccount:
    """What may be shown of an account, and a digest of all that must not change unseen.

    ``label`` is such as ``Harbor Trading LLC, First Harbor Bank ••••6789``.
    """

    id: str
    status: str
    owner: str
    number: str
    bank: str
    network: str
    label: str
    identity_id: str | None = None
    account_id: str | None = None
    details: Masked = field(default=Masked("{}"), repr=False)  # JSON of what is certified

    @property
    def evidence(self) -> str:
        """The digest of all that its confirmation is about."""
        return hashlib.sha256(self.details.reveal().encode()).hexdigest()


def bank_account(account: FiatAccount) -> BankAccount:
    """``account`` as it may be shown: its summary, and of a wire the routing; and what its
    confirmation is about: its end user, too."""
    shown, instructions = account.summary, account.fiat_network_instructions
    name, masked = shown.owner or "owner not shown", shown.number
    wire = instructions.wire if instructions is not None else None
    bank, network = shown.bank or "bank not shown", shown.network or "network not shown"
    if network == "cubix":
        network = "CUBIX"
    elif wire is not None and (routing := wire.routing_details) is not None:
        kind = f"{routing.routing_number_type or ''} wire"
        network = f"{kind}, routing {routing.routing_number}".strip()
    certified = {
        "id", "fiat_account_owner", "fiat_network_instructions", "identity_id", "account_id",
    }  # fmt: skip
    details = account.model_dump(mode="json", exclude_none=True, include=certified)
    return BankAccount(
        id=account.id, status=str(account.status), owner=name, number=masked, bank=bank,
        network=network, label=f"{name}, {bank} {masked}".strip(),
        identity_id=account.identity_id, account_id=account.account_id,
        details=Masked(canonical(details)),
    )  # fmt: skip


def check_unchanged(before: BankAccount, now: BankAccount) -> None:
    """Refuses an account of which anything that matters is no longer as it was shown."""
    if now.evidence == before.evidence:
        return
    shown = [traces("", json.loads(account.details.reveal())) for account in (before, now)]
    paths = sorted({*shown[0], *shown[1]})
    changed = [path.lstrip(".") for path in paths if shown[0].get(path) != shown[1].get(path)]
    what = f"it was {before.label}, it is {now.label}"
    if before.label == now.label:  # of a number the last four characters are compared and shown
        what = f"{', '.join(changed) or 'its account number'} is another than it was"
    raise ActionRefused(
        "account_changed",
        f"fiat account {before.id} has changed since the plan: {what}; nothing was sent: ask who "
        "changed it, then run the cell that plans again",
    )


# ------------------------------------------------------------------------------ asking, sending


def look_up(
    context: Context,
    operation: str,
    asked: Mapping[str, Any],
    *,
    ours: bool = False,
    named: str | None = None,
) -> Seen:
    """What the service has under the ``ref_id`` of the body ``asked``: its list names it, Get shows
    it. ``ours``: nobody else can have that ``ref_id``. ``named``: the id that the service gave for
    it, which its list may not show yet.

    A row that shows no ``ref_id`` may be anybody's: it is nobody's answer where it contradicts what
    was asked for, or the journal knows that it was made for another ``ref_id``."""
    client, ref_id = context.client, asked["ref_id"]

    def compared(resource: Any) -> Identity:
        return is_this_payment(asked, resource.to_json(), operation, ours=ours)

    def is_ours(resource: Any) -> bool:
        return bool((resource.ref_id or ref_id).casefold() == ref_id.casefold())

    def is_anothers(resource: Any) -> bool:
        return resource.ref_id is None and compared(resource).answer == "no"

    rows = [
        row for row in getattr(client, _LISTED_BY[operation])(
            ref_ids=[ref_id, ref_id.lower(), ref_id.upper()]
        )
        if is_ours(row) and not is_anothers(row)
    ]  # fmt: skip
    unnamed = {
        row.id: row for row in rows
        if row.ref_id is None and not context.journal.made_for(row.id, operation, ref_id)
    }  # fmt: skip
    ids = [*(row.id for row in rows if row.ref_id is not None), *unnamed]
    seen = Seen()
    for id_ in ids[:_FEW] or [named] * (named is not None):
        resource = getattr(client, _SHOWN_BY[operation])(id_)
        if id_ in unnamed and (is_anothers(resource) or not is_ours(resource)):
            continue
        identity = compared(resource)
        if seen.identity is None or identity.answer == "yes":
            seen = Seen(resource, identity)
    if seen.identity is None and ids[_FEW:]:  # each of the others may be it
        other = unnamed[ids[_FEW]]
        seen = Seen(other, compared(other))
    return seen


def check_seen(operation: str, ref_id: str, seen: Seen, *, may_be_sent: bool = False) -> None:
    """Refuses a ``ref_id`` under which the service has something else, or what may be.

    ``may_be_sent``: an earlier run may have sent it, so no other ``ref_id`` is advised.
    """
    if seen.identity is None or seen.answer == "yes":
        return
    noun, made = NOUNS[operation], seen.resource
    reason = "in_doubt" if seen.answer == "unknown" else "ref_id"
    if seen.answer == "unknown":
        may = "may stand" if made.ref_id is None else "stands"
        what = (
            f"ref_id={ref_id!r} {may} for {made.id} at the service, which does not show "
            f"{', '.join(seen.identity.absent)}: whether it is this {noun} cannot be told; nothing "
            "was sent now: ask the operator of the service, then run the same cell again"
        )
    else:
        kind = getattr(made, "type", None) or noun
        what = (
            f"ref_id={ref_id!r} belongs to {kind} {made.id} at the service, which is not what is "
            f"asked for: {'; '.join(seen.identity.contradictions)}; nothing was sent now: look at "
            "it" + (" before anything else" if may_be_sent else ", then choose another ref_id")
        )
    if may_be_sent:
        what = f"this {noun} may have been sent before; {what}"
    raise ActionRefused(reason, what)


def check_doubt(entry: Entry, refusal: ActionRefused) -> None:
    """Says first, of what is refused now, that it was or may have been sent before."""
    if entry.state != "done":
        now = str(refusal).replace("nothing was sent:", "nothing was sent now:")
        before = "may have been sent before, fl.resume() settles it"
        if entry.state == "refused":
            before = "was sent before, and refused by the service; fl.resume() asks it once more"
        raise ActionRefused(
            refusal.reason, f"this {NOUNS[entry.operation]} {before}; now: {now}"
        ) from None


def said_of(operation: str, made: Any) -> str:
    """A resource and its state, as a line under the cell has it."""
    status = getattr(made, "status", None) or "done"
    outcome = "but it FAILED and moved nothing" if status == "FAILED" else str(status)
    return f"{outcome}: {NOUNS[operation]} {made.id}"


def already_made(context: Context, entry: Entry) -> Any | None:
    """What the service has for ``entry``, said aloud; ``None`` if it has nothing."""
    if entry.state == "refused" or (entry.state != "done" and entry.operation not in _LISTED_BY):
        return None
    made = settle(context, entry)
    if made is not None:
        note = ""
        if entry.operation == WITHDRAWAL:
            note = "; if you mean one more, give it allow_duplicate=True and a ref_id of its own "
            note += "(--allow-duplicate --ref-id NAME)"
            if made.status == "FAILED":
                note = "; to try again, give it a ref_id of its own (--ref-id NAME)"
        at = shown_time(entry.recorded_at, context.now())
        context.say(f"already submitted {at}, {said_of(entry.operation, made)}{note}")
    return made


def settle(context: Context, entry: Entry) -> Any | None:
    """Ask the service what became of ``entry``, and write it down; what was made, if anything."""
    client, book, operation = context.client, context.journal, entry.operation
    if entry.state == "done" and operation in _SHOWN_BY:
        try:
            made = getattr(client, _SHOWN_BY[operation])(str(entry.resource_id))
        except NotFound:
            raise ActionRefused(
                "wrong_environment",
                f"{book.path} says that {NOUNS[operation]} {entry.resource_id} was made "
                f"{shown_time(entry.recorded_at, context.now())}, but {client.base_url} does "
                "not know it; nothing was sent now: if this is another service, or a sandbox "
                "started anew, use another journal (journal=…, FUNDLAB_JOURNAL)",
            ) from None
        if getattr(made, "status", None) != entry.status:
            book.note(entry, "done", made)
        return made
    if entry.state == "done":  # not shown by its id: the same request gives the same again
        return getattr(client, operation)(**entry.arguments)
    if operation in _LISTED_BY:  # by its ref_id, which the service knows if it was made
        seen = look_up_entry(context, entry)
        check_seen(operation, entry.ref_id, seen, may_be_sent=True)
        state = state_after("asked", seen, only_attempt=False)
        detail = None if state == "done" else "the service does not know it"
        book.note(entry, state, seen.resource, detail)
        return seen.resource
    if operation != UPDATE:  # not listed: the service carries out one of two requests alike
        if context.now() >= entry.sent_at + EXPIRES_AFTER:
            raise ActionRefused(
                "expired",
                f"whether this {NOUNS[operation]} was made cannot be asked, and its plan expired "
                f"{shown_time(entry.sent_at + EXPIRES_AFTER, context.now())}; nothing was sent: "
                "plan it again under the same ref_id, look, and confirm",
            )
        return send(context, book.attempt(entry), entry.arguments)
    # an update: is the account as was asked, and no longer as it was?
    before, asked = (entry.arguments[name] for name in ("before", "asked"))
    made = client.get_fiat_account(str(entry.facts["fiat_account_id"]))
    shown = made.model_dump(mode="json", exclude_none=True)
    now = traces(entry.origin, shown)
    as_asked = all(now.get(path, digest) == digest for path, digest in asked.items())
    if as_asked and keyed(entry.origin, "state", shown, without=()) != before:
        book.note(entry, "done", made)
        return made
    book.note(entry, "absent", detail="it is not as asked")
    return None


def look_up_entry(context: Context, entry: Entry) -> Seen:
    """What the service has under the ``ref_id`` of ``entry``, held against what the journal knows
    that it asked for: of bank details their digests."""
    asked = entry.arguments
    if "masked" not in asked:
        return look_up(context, entry.operation, asked, ours=entry.is_derived)
    seen = look_up(context, entry.operation, {"ref_id": entry.ref_id}, ours=True)
    if seen.answer != "yes":
        return seen
    shown = traces(entry.origin, seen.resource.to_json())
    others = tuple(path for path, digest in asked["asked"].items() if shown.get(path) != digest)
    differing = tuple(f"{path.lstrip('.')} differs" for path in others if path in shown)
    return Seen(seen.resource, Identity(differing, tuple(p for p in others if p not in shown)))


def send(context: Context, entry: Entry, arguments: Mapping[str, Any]) -> Any:
    """Send what is in the journal, and write down what came of it; the resource.

    Raises ``CallError`` as the client does, unless it was made in spite of it.
    """
    client, book, operation = context.client, context.journal, entry.operation
    given = {n: v for n, v in arguments.items() if n != "ref_id" or operation != UPDATE}
    observed: Observed = "doubt"
    made, problem, seen = None, None, Seen()
    try:
        made = getattr(client, operation)(**given)
    except KeyboardInterrupt as stop:
        stop.add_note(_HOPE)
        raise
    except CallError as error:
        observed, problem = observed_of(error, entry.ref_id), error
    if made is not None and (other := book.made_for(made.id, operation, entry.ref_id)) is not None:
        # an old answer that something in between gave once more: what became of this is unknown
        observed, problem = "doubt", ProtocolError(
            f"{operation}: the answer names {NOUNS[operation]} {made.id}, which was made for "
            f"ref_id {other!r}", hint=_HOPE, operation=operation,
        ).doubted()  # fmt: skip
        made = None
    if problem is None:
        book.note(entry, "done", made)
    else:
        # What does the service show? Not asked where nothing left, or nothing can be shown.
        if operation in _LISTED_BY and observed != "unsent":
            named = None
            if observed == "used" and isinstance(problem, Conflict):
                named = problem.existing.get("id")
            try:
                seen = look_up(context, operation, arguments, ours=entry.is_derived, named=named)
            except (CallError, InvalidRequest) as error:  # the latter of an id that none can be
                seen = Seen(failed=True)
                said = error.problem if isinstance(error, CallError) else str(error)
                problem.add_note(f"Asking for what is there brought no more: {said}")
        detail = type(problem).__name__
        if isinstance(problem, ServiceError):
            detail = f"{problem.status} {problem.title}"
            detail += f": {problem.detail}" * bool(problem.detail)
        try:
            state = book.note_attempt(
                entry,
                lambda only: state_after(observed, seen, only_attempt=only),
                seen.resource,
                detail,
            )
        except StoreError as trouble:  # the error matters more; it stays as it was recorded
            if seen.answer == "yes":
                raise
            problem.add_note(f"This could not be written down either: {trouble}")
            state = "unknown"
        if state != "done":
            if state == "unknown":
                problem.add_note(_HOPE)
            raise problem
        made = seen.resource
    context.say(f"submitted {shown_time(context.now(), context.now())}, {said_of(operation, made)}")
    return made


def resume(
    client: Client | None = None,
    *,
    store: TableStore | str | Path | None = None,
    now: Callable[[], int] = time.time_ns,
    say: Callable[[str], object] = announce,
) -> pd.DataFrame:
    """Ask the service about every intent whose outcome is unknown, or that was not final yet,
    whatever store it was confirmed with, and once more about refusals of the last 24 hours.

    Pays nothing: what the service does not know becomes ``absent``, and running its cell again
    sends it. Addresses and rules, for which the service has no list, are asked for by repeating
    their request, of which the service carries out one. Returns the rows of ``journal`` that were
    looked at, as they are now; one that cannot be settled is said, and its ``detail`` is why.
    ``client`` is ``fl.connect()`` by default. Raises ``CallError`` as the client does; what was
    settled until then stays settled. Of a journal that was restored from a backup, it shows every
    debit since that the journal does not know; only then does that journal pay again.

    >>> fl.resume(client)[["action", "state"]].empty
    True
    """
    if client is None:
        from fundlab.client.client import connect

        with connect() as found:
            return resume(found, store=store, now=now, say=say)
    context = context_of(client, store, now, say)
    book = context.journal
    looked_at, restored = [], book.restored_from()
    for entry in book.entries():
        problem = None
        if entry.state == "refused":  # what the list did not show in time may be there now
            is_over = restored is None and entry.noted_at < now() - DAY  # else made since, maybe
            if entry.operation not in _LISTED_BY or is_over:
                continue
            seen = look_up_entry(context, entry)
            if seen.answer != "yes":
                continue
            say(f"made although it was refused, {said_of(entry.operation, seen.resource)}")
        elif entry.is_settled:
            continue
        try:
            settle(context, entry)
        except (ActionRefused, NotFound, Conflict, ValidationFailed) as error:
            problem = str(error)
            say(f"not settled, {NOUNS[entry.operation]} {entry.ref_id}: {problem}")
        after = book.find(entry.ref_id) or entry
        looked_at.append((replace(after, detail=problem or after.detail), client.base_url))
    if restored is not None:
        # What was paid after the backup: the journal does not know it, the service does. By its
        # clock where that is behind the one of the backup, and an hour earlier, as clocks differ.
        behind = min(0, client.transport.service_ns(now()) - now())
        begin = Instant.from_ns(Instant.parse(restored).ns + behind - 3_600 * 10**9)
        for transfer in client.list_transfers(created_at_gte=str(begin), order="ASC"):
            if transfer.direction == "DEBIT" and not book.knows(transfer):
                say(
                    f"not in the restored journal: {transfer.type} {transfer.id} of "
                    f"{transfer.total} {transfer.asset}, {transfer.created_at}, ref_id "
                    f"{transfer.ref_id}: paid since the backup, or by somebody else"
                )
        book.mark_restored(None)
    return journal_frame(looked_at)
