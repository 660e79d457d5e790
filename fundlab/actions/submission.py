"""Sending what was confirmed: journal first, then the service, then the outcome.

Safe at every instant: before the intent is on disk nothing has been sent; after it, whoever runs
the same plan again finds it, asks the service, and sends the same body under the same ``ref_id``,
of which the service carries out one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fundlab.actions.clock import shown_time
from fundlab.actions.intents import Draft, Intent, Journal, Outcome, Pages
from fundlab.actions.kinds import Kind
from fundlab.api.idempotence import differences
from fundlab.errors import ActionRefused, CallError, Conflict, NotFound, ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fundlab.api.client import Client

_FAILURES: Final = 500
_HOPE: Final = (
    "The journal holds it as unknown: run the same cell again, or fl.resume(); it is never done "
    "twice."
)


@dataclass(frozen=True)
class Sender:
    """Who sends: a client, the journal of its service, a clock (ns) and a voice."""

    client: Client
    journal: Journal
    now: Callable[[], int]
    say: Callable[[str], object]

    def submit(
        self,
        kind: Kind,
        draft: Draft,
        arguments: Mapping[str, Any],
        *,
        recheck: Callable[[], None],
        allow: Callable[[Pages], None],
        elsewhere: bool = False,
    ) -> Any:
        """Carry out ``draft`` once, however often it is submitted; the service's resource.

        ``recheck`` looks at the service again and ``allow`` at the journal, unless the intent is
        there already; both may raise. ``elsewhere``: the ``ref_id`` may have been used without this
        journal. Raises ``CallError`` as the client does.
        """
        intent = self.journal.find(draft.ref_id)
        if intent is not None:
            known = self.known(kind, intent)
            if known is not None:
                return known
        elif elsewhere and kind.listed is not None:
            made = kind.find(self.client, draft.ref_id)
            if made is not None:
                return self._adopted(kind, draft, arguments, made)
        try:
            recheck()
        except ActionRefused:
            # what changed may be that another kernel has just carried out this very plan
            intent = self.journal.find(draft.ref_id)
            known = self.known(kind, intent) if intent is not None else None
            if known is None:
                raise
            return known
        intent = self.journal.record(draft, allow)
        if intent.outcome.state == "done":  # another kernel was faster
            return self.known(kind, intent)
        return self._send(kind, intent, arguments)

    def _adopted(self, kind: Kind, draft: Draft, asked: Mapping[str, Any], made: Any) -> Any:
        """What was made under this ``ref_id`` without the journal, taken into it."""
        check_same(kind, draft.ref_id, asked, made)
        intent = self.journal.record(draft, lambda _: None)
        self.journal.note(intent, outcome_of(made))
        self.say(
            f"already submitted, from another store or program, "
            f"{getattr(made, 'status', None) or 'done'}: {kind.noun} {made.id}"
        )
        return made

    def known(self, kind: Kind, intent: Intent) -> Any | None:
        """What the service has for ``intent``, said aloud; ``None`` if it has nothing."""
        outcome = intent.outcome
        if outcome.state == "done" and outcome.resource_id is not None:
            resource = self._as_it_is(kind, intent)
        elif outcome.state in ("unknown", "absent") and kind.listed is not None:
            resource = self.look(kind, intent)
        else:
            return None
        if resource is not None:
            status = getattr(resource, "status", None)
            note = "; to try again, give it a ref_id of its own" if status == "FAILED" else ""
            self.say(
                f"already submitted {shown_time(intent.recorded_at, self.now())}, "
                f"{status or 'done'}: {kind.noun} {resource.id}{note}"
            )
        return resource

    def refresh(self, ref_id: str, resource: Any) -> None:
        """Note how the resource of ``ref_id`` stands by now."""
        intent = self.journal.find(ref_id)
        if intent is not None:
            self.journal.note(intent, outcome_of(resource))

    def settle(self, kind: Kind, intent: Intent) -> None:
        """Ask the service what became of ``intent`` and write it down."""
        if intent.outcome.state == "done":
            self._as_it_is(kind, intent)
        elif kind.listed is not None:
            self.look(kind, intent)
        elif not kind.private:
            self._send(kind, intent, arguments_of(intent))

    def look(self, kind: Kind, intent: Intent) -> Any | None:
        """Ask the service for ``intent`` by its ``ref_id`` and note what it says."""
        found = kind.find(self.client, intent.ref_id)
        if found is None:
            self.journal.note(intent, Outcome("absent", detail="the service does not know it"))
            return None
        if not kind.private:
            check_same(kind, intent.ref_id, arguments_of(intent), found)
        self.journal.note(intent, outcome_of(found))
        return found

    def _as_it_is(self, kind: Kind, intent: Intent) -> Any:
        outcome = intent.outcome
        try:
            resource = kind.get(self.client, str(outcome.resource_id))
        except NotFound:
            raise ActionRefused(
                "wrong_environment",
                f"{self.journal.path} says that {kind.noun} {outcome.resource_id} was made "
                f"{shown_time(intent.recorded_at, self.now())}, but {self.client.base_url} does "
                "not know it; nothing was sent: if this is another service, or a sandbox started "
                "anew, use another store (store=…)",
            ) from None
        if resource is None:  # the service has no operation that shows it
            return kind.send(self.client, arguments_of(intent))
        if getattr(resource, "status", None) != outcome.status:
            self.journal.note(intent, outcome_of(resource))
        return resource

    def _send(self, kind: Kind, intent: Intent, arguments: Mapping[str, Any]) -> Any:
        try:
            resource = kind.send(self.client, arguments)
        except CallError as error:
            resource = self._after_failure(kind, intent, error)
        self.journal.note(intent, outcome_of(resource))
        at = shown_time(self.now(), self.now())
        self.say(
            f"submitted {at}, {getattr(resource, 'status', None) or 'done'}: "
            f"{kind.noun} {resource.id}"
        )
        return resource

    def _after_failure(self, kind: Kind, intent: Intent, error: CallError) -> Any:
        """What was made in spite of ``error``; raises ``error`` if nothing was, or nobody knows."""
        if not isinstance(error, ServiceError) or error.status >= _FAILURES:
            self.journal.note(intent, Outcome("unknown", detail=type(error).__name__))
            error.add_note(_HOPE)
            raise error
        detail = f"{error.status} {error.title}" + (f": {error.detail}" if error.detail else "")
        if not isinstance(error, Conflict) and kind.listed is not None:
            # an attempt whose answer was lost may have got through before this one was refused
            found = kind.find(self.client, intent.ref_id)
            if found is not None:
                return found
        self.journal.note(intent, Outcome("refused", detail=detail))
        raise error


def outcome_of(resource: Any) -> Outcome:
    """``done``, with what a journal keeps of the resource."""

    def text(name: str) -> str | None:
        value = getattr(resource, name, None)
        return None if value is None else str(value)

    return Outcome(
        "done", resource_id=resource.id, status=text("status"), fee=text("fee"), total=text("total")
    )


def arguments_of(intent: Intent) -> dict[str, Any]:
    """The keywords that send the journalled body again."""
    arguments: dict[str, Any] = json.loads(intent.body)
    return arguments


def check_same(kind: Kind, ref_id: str, asked: Mapping[str, Any], found: Any) -> None:
    """Refuses a ``ref_id`` under which the service has something else than ``asked``."""
    different = differences(asked, found.model_dump(mode="json", exclude_none=True))
    if different:
        raise ActionRefused(
            "ref_id",
            f"ref_id={ref_id!r} stands for {kind.noun} {found.id} at the service, which is not "
            f"what is asked for: {'; '.join(different)}; nothing was sent now: look at it, and "
            "choose another ref_id for the new one",
        )
