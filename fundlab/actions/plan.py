"""A plan: one action, frozen, that shows itself, is confirmed by its code and is carried out once.

What all plans share; ``withdrawals``, ``accounts``, ``deposits`` and ``rules`` make them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from fundlab.actions.announce import announce
from fundlab.actions.cards import Card, Row, html_of, text_of
from fundlab.actions.clock import SECOND, shown_time
from fundlab.actions.environment import Environment, environment_of
from fundlab.actions.identity import confirmation_code, same_code
from fundlab.actions.intents import (
    Draft,
    Intent,
    Journal,
    Pages,
    check_same_action,
    open_journal,
    service_key,
    store_name,
)
from fundlab.actions.kinds import KINDS, Kind
from fundlab.actions.submission import Sender, check_same
from fundlab.errors import ActionRefused, InvalidRequest, shorten
from fundlab.models import OPERATIONS, Request, Resource
from fundlab.models.requests import body_bytes, checked
from fundlab.store import Store
from fundlab.values import Instant

if TYPE_CHECKING:
    from pathlib import Path

    from fundlab.api.client import Client

LAPSES_AFTER: Final = 15 * 60 * SECOND
_TO_BE_DERIVED: Final = "derived"

R = TypeVar("R", bound=Resource)


@dataclass(frozen=True)
class Desk:
    """Where plans are made: a client, its service's journal, a clock (ns); ``say`` shows a line.

    ``store`` is the name of the store they are made with.
    """

    client: Client
    journal: Journal
    store: str
    now: Callable[[], int] = time.time_ns
    say: Callable[[str], object] = announce

    @property
    def environment(self) -> Environment:
        return environment_of(self.client)

    @property
    def sender(self) -> Sender:
        return Sender(self.client, self.journal, self.now, self.say)


def open_desk(
    client: Client,
    store: Store | str | Path | None,
    now: Callable[[], int] | None,
    say: Callable[[str], object] | None,
) -> Desk:
    """A desk at ``store``, by default that of the client's settings."""
    clock = now or time.time_ns
    place = store if isinstance(store, Store) else Store(store or client.settings.store)
    book = open_journal(client, place, clock)
    return Desk(client, book, store_name(place.path), clock, say or announce)


@dataclass(frozen=True)
class Order:
    """What is asked for: an operation with its arguments, checked, under its ``ref_id``."""

    kind: Kind
    text: str = field(repr=False)  # JSON, that nobody can change; may hold bank details
    ref_id: str
    own_ref_id: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """The body, and the id in the path of an update; a copy."""
        found: dict[str, Any] = json.loads(self.text)
        return found

    def body(self) -> bytes:
        """The bytes the client sends for it."""
        return body_bytes(_request(self.kind.operation, self.arguments), self.kind.operation)


def order(
    desk: Desk, operation: str, ref_id: str | None, *, more: bool = False, **given: Any
) -> Order:
    """An order for ``operation``; without ``ref_id`` one is derived, see ``identity``.

    Raises ``InvalidRequest`` naming the argument that the interface does not accept.
    """
    check_name(ref_id)
    asked = {name: value for name, value in given.items() if value is not None}
    body = _request(operation, asked | {"ref_id": ref_id or _TO_BE_DERIVED}).to_json()
    own = ref_id is not None
    if ref_id is None:
        ref_id = desk.journal.ref_id_for(operation, body | _path_of(asked), more=more)
    text = json.dumps({**body, **_path_of(asked), "ref_id": ref_id})
    return Order(KINDS[operation], text, ref_id, own)


def check_name(ref_id: object) -> None:
    """Refuses a ``ref_id`` that nobody could read or type again."""
    if ref_id is None:
        return
    if not isinstance(ref_id, str) or not ref_id.strip() or not ref_id.isprintable():
        raise InvalidRequest(
            f"ref_id={shorten(ref_id)} is not accepted; give text without line breaks, such as "
            "'rent-2026-12', or leave it out; nothing was sent"
        )


def _path_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The argument that goes into the path, not the body: the id of an update."""
    return {"id": arguments["id"]} if "id" in arguments else {}


def _request(operation: str, arguments: Mapping[str, Any]) -> Request:
    model = OPERATIONS[operation].body
    if model is None:
        raise InvalidRequest(f"{operation} sends no body")
    return checked(model, operation, arguments)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Plan(Generic[R]):
    """One action that can be confirmed. ``code`` is what confirms it; it expires after 15 minutes.

    ``rows`` and ``warnings`` are what the card shows, ``facts`` what the journal may keep,
    ``earlier`` the intent of an earlier run, ``elsewhere`` that the service has it although this
    journal has not, ``evidence`` what the code certifies beside the body.
    """

    desk: Desk = field(repr=False)
    order: Order
    title: str
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, str | None] = field(default_factory=dict)
    earlier: Intent | None = None
    elsewhere: bool = False
    evidence: str = ""
    planned_at: int = 0
    batch: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", MappingProxyType(dict(self.facts)))

    @property
    def ref_id(self) -> str:
        return self.order.ref_id

    @property
    def environment(self) -> Environment:
        return self.desk.environment

    @property
    def lapses_at(self) -> int:
        """When the plan expires, in nanoseconds since 1970."""
        return self.planned_at + LAPSES_AFTER

    @property
    def code(self) -> str:
        """The confirmation code: of this action, to this account, in this environment."""
        return confirmation_code(
            service_key(self.desk.journal.service),
            self.order.kind.operation,
            self.order.arguments,
            self.evidence,
        )

    @property
    def is_submitted(self) -> bool:
        """Whether it was carried out before, by a run that shares this journal or not."""
        earlier = self.earlier
        return self.elsewhere or (earlier is not None and earlier.outcome.state == "done")

    def submit(self, confirm: str | None = None) -> R:
        """Carry out exactly this plan, once; the resource the service made of it.

        ``confirm`` is ``plan.code``; in production it is needed, elsewhere it may be left out. An
        earlier run's result is returned, and said, instead of doing it again. Raises
        ``ActionRefused`` (wrong or missing code, expired, something changed since the plan; nothing
        was sent) and ``CallError`` as the client does; running it again is always safe.
        """
        check_code(self, confirm)
        result: R = self.desk.sender.submit(
            self.order.kind,
            self.draft(),
            self._sent(),
            recheck=self._recheck,
            allow=self.allowed,
            after=self.noticed,
            elsewhere=self.order.own_ref_id,
        )
        return result

    def draft(self) -> Draft:
        """What the journal keeps. Bank details are masked there."""
        kind = self.order.kind
        body = self.order.body()
        if kind.private:
            body = json.dumps({"ref_id": self.ref_id, "masked": True, **self._traced()}).encode()
        return Draft(
            ref_id=self.ref_id,
            operation=kind.operation,
            arguments=self.order.arguments,
            body=body,
            facts=self.facts,
            batch=self.batch,
            store=self.desk.store,
        )

    def _traced(self) -> dict[str, Any]:
        """What the journal keeps in place of bank details."""
        return {}

    def _sent(self) -> dict[str, Any]:
        return self.order.arguments

    def _recheck(self) -> Any:
        """Before it is recorded: is everything as it was when the plan was shown? What it found is
        for ``allowed`` and ``noticed``."""
        check_lapse(self)

    def allowed(self, pages: Pages, seen: Any = None) -> None:
        """Within the journal's transaction: do the own limits allow it?"""

    def noticed(self, made: R, seen: Any) -> str | None:
        """After it was sent: what there is to be warned of."""

    # -------------------------------------------------------------------------- showing

    @property
    def status(self) -> str | None:
        """What an earlier run left, in one sentence; ``None`` for a new plan."""
        if self.earlier is not None:
            return earlier_status(self.earlier, self.desk.now())
        return "already submitted, from another store or program" if self.elsewhere else None

    def to_json(self) -> dict[str, Any]:
        """What the card shows, for a program; amounts and times as text."""
        return {
            "action": self.order.kind.noun,
            "title": self.title,
            "base_url": self.environment.base_url,
            "production": self.environment.is_production,
            "ref_id": self.ref_id,
            "code": self.code,
            **self.facts,
            "warnings": list(self.warnings),
            "status": self.status,
            "planned_at": str(Instant.from_ns(self.planned_at)),
            "lapses_at": str(Instant.from_ns(self.lapses_at)),
        }

    def card(self) -> Card:
        now, status = self.desk.now(), self.status
        note = f"confirmation code {self.code} · expires {shown_time(self.lapses_at, now)}"
        return Card(self.title, self.environment, self.rows, self.warnings, status, note)

    def __repr__(self) -> str:
        return text_of(self.card())

    def _repr_html_(self) -> str:
        return html_of(self.card())


def earlier_status(earlier: Intent, now: int) -> str:
    """What an earlier run left, in one sentence."""
    at, outcome = shown_time(earlier.recorded_at, now), earlier.outcome
    if outcome.state == "done":
        again = "; to try again, use a ref_id of its own" if outcome.status == "FAILED" else ""
        return f"already submitted {at}, {outcome.status or 'done'}{again}"
    if outcome.state == "absent":
        return f"confirmed {at}, but the service does not know it; submit() sends it, once"
    if outcome.state == "refused":
        return f"confirmed {at}, refused by the service ({outcome.detail}); it may be tried again"
    return f"confirmed {at}, outcome unknown; submit() asks the service and does it once"


class Confirmable(Protocol):
    """What is confirmed by a code and expires: a plan or a batch of them."""

    @property
    def code(self) -> str: ...
    @property
    def planned_at(self) -> int: ...
    @property
    def lapses_at(self) -> int: ...
    @property
    def desk(self) -> Desk: ...
    @property
    def environment(self) -> Environment: ...


def check_code(plan: Confirmable, confirm: str | None) -> None:
    """Refuses the code of another plan, and in production a missing one."""
    if confirm is None:
        if plan.environment.is_production:
            raise ActionRefused(
                "code",
                f"{plan.environment.base_url} is production: look at the plan, then confirm it "
                f"with plan.submit(confirm={plan.code!r}); nothing was sent",
            )
    elif not same_code(confirm, plan.code):
        raise ActionRefused(
            "code",
            f"confirm={shorten(confirm)} is not the code of this plan but of another, or of an "
            "account that has changed since; nothing was sent: look at the plan again and give the "
            "code it shows",
        )


def check_lapse(plan: Confirmable) -> None:
    """Refuses a plan that is older than it may be, or of a time that is yet to come."""
    now = plan.desk.now()
    if now < plan.planned_at - SECOND:
        raise ActionRefused(
            "lapsed",
            f"the plan is of {shown_time(plan.planned_at, now)}, but by this machine's clock it is "
            f"{shown_time(now, plan.planned_at)}; nothing was sent: see to the clock, run the cell "
            "that plans again, look, and confirm",
        )
    if now >= plan.lapses_at:
        raise ActionRefused(
            "lapsed",
            f"the plan of {shown_time(plan.planned_at, now)} expired at "
            f"{shown_time(plan.lapses_at, now)}; nothing was sent: run the cell that plans again, "
            "look, and confirm",
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


def made_elsewhere(desk: Desk, wanted: Order) -> Any | None:
    """What the service has under a ``ref_id`` of the caller's; refuses it if it is another thing.

    Derived ones hold the journal's random id: nobody else has them.
    """
    if not wanted.own_ref_id or wanted.kind.listed is None:
        return None
    found = wanted.kind.find(desk.client, wanted.ref_id)
    if found is not None:
        check_same(wanted.kind, wanted.ref_id, wanted.arguments, found, derived=False)
    return found


def check_ref_id(plan: Plan[Any]) -> None:
    """Refuses a ``ref_id`` of the caller's that the journal knows for something else."""
    if plan.earlier is not None:
        check_same_action(plan.earlier, plan.draft(), plan.desk.now())
