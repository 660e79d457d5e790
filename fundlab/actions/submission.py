"""Sending what was confirmed: journal first, then the service, then the outcome.

Safe at every instant: before the intent is on disk nothing has been sent; after it, whoever runs
the same plan again finds it, asks the service, and sends the same body under the same ``ref_id``,
of which the service carries out one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fundlab.actions.clock import shown_time
from fundlab.actions.identity import keyed, traces
from fundlab.actions.intents import (
    Draft,
    Intent,
    Journal,
    Outcome,
    Pages,
    State,
    check_same_action,
)
from fundlab.actions.kinds import Kind
from fundlab.api.idempotence import contradictions, differences
from fundlab.errors import (
    ActionRefused,
    CallError,
    Conflict,
    DuplicateWarning,
    NotFound,
    ServiceError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fundlab.api.client import Client

_FAILURES: Final = 500
_TIMED_OUT: Final = 408
_HOPE: Final = (
    "The journal holds it as unknown: run the same cell again, or fl.resume(); it is never done "
    "twice."
)


@dataclass(frozen=True)
class Sender:
    """Who sends: a client, the journal of its service, a clock (ns); ``say`` shows a line."""

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
        recheck: Callable[[], Any],
        allow: Callable[[Pages, Any], None],
        after: Callable[[Any, Any], str | None],
        elsewhere: bool = False,
    ) -> Any:
        """Carry out ``draft`` once, however often it is submitted; the service's resource.

        ``recheck`` looks at the service again and ``allow`` at the journal, unless the intent is
        there already; both may raise. Once it is sent, ``after`` looks once more, and what it says
        is warned of and noted. Both are given what ``recheck`` found. ``elsewhere``: the ``ref_id``
        may have been used without this journal. Raises ``CallError`` as the client does,
        ``ActionRefused`` for a ``ref_id`` that came to stand for something else since the plan.
        """
        intent = self._found(draft)
        if intent is not None:
            known = self.known(kind, intent)
            if known is not None:
                return known
        elif elsewhere and kind.listed is not None:
            made = kind.find(self.client, draft.ref_id)
            if made is not None:
                return self._adopted(kind, draft, arguments, made)
        try:
            seen = recheck()
        except ActionRefused as refusal:
            # what changed may be that another kernel has just carried out this very plan
            intent = self._found(draft)
            known = self.known(kind, intent) if intent is not None else None
            if known is not None:
                return known
            if intent is not None and intent.outcome.state == "unknown":
                raise ActionRefused(
                    refusal.reason,
                    f"this {kind.noun} may have been sent before, fl.resume() settles it; now: "
                    f"{refusal}",
                ) from None
            raise
        intent = self.journal.record(draft, lambda pages: allow(pages, seen))
        if intent.outcome.state == "done":  # another kernel was faster
            return self.known(kind, intent)
        made = self._send(kind, intent, arguments)
        self._warn(kind, intent, made, lambda: after(made, seen))
        return made

    def _warn(self, kind: Kind, intent: Intent, made: Any, look: Callable[[], str | None]) -> None:
        """Say aloud what ``look`` finds; ``made`` is done, whatever becomes of looking."""
        try:
            found = look()
        except CallError as error:
            self.say(f"whether {kind.noun} {made.id} has a duplicate could not be seen: {error}")
            return
        if found is None:
            return
        noted = replace(outcome_of(made), detail=found)
        with told_if_not_noted(f"{kind.noun} {made.id} was accepted; {found}", "fl.resume() helps"):
            self.journal.note(intent, noted)
        warnings.warn(found, DuplicateWarning, stacklevel=4)

    def _found(self, draft: Draft) -> Intent | None:
        """The intent of an earlier run; refuses a ``ref_id`` that stands for something else."""
        intent = self.journal.find(draft.ref_id)
        if intent is not None:
            check_same_action(intent, draft, self.now())
        return intent

    def _adopted(self, kind: Kind, draft: Draft, asked: Mapping[str, Any], made: Any) -> Any:
        """What was made under this ``ref_id`` without the journal, taken into it."""
        check_same(kind, draft.ref_id, asked, made, derived=False)
        made_at = None if made.created_at is None else made.created_at.ns
        intent = self.journal.record(draft, lambda _: None, at=made_at)
        self._note_made(kind, intent, made)
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
            note = ""
            if kind.moves_money:
                wish = "to try again" if status == "FAILED" else "if you mean one more"
                note = f"; {wish}, give it a ref_id of its own"
            self.say(
                f"already submitted {shown_time(intent.recorded_at, self.now())}, "
                f"{status or 'done'}: {kind.noun} {resource.id}{note}"
            )
        return resource

    def settle(self, kind: Kind, intent: Intent) -> None:
        """Ask the service what became of ``intent`` and write it down."""
        if intent.outcome.state == "done":
            self._as_it_is(kind, intent)
        elif kind.listed is not None:
            self.look(kind, intent)
        elif kind.changes:
            self._look_at_changed(kind, intent)
        else:
            self._send(kind, intent, arguments_of(intent))

    def look(self, kind: Kind, intent: Intent) -> Any | None:
        """Ask the service for ``intent`` by its ``ref_id`` and note what it says."""
        found = kind.find(self.client, intent.ref_id)
        if found is None:
            self.journal.note(intent, Outcome("absent", detail="the service does not know it"))
            return None
        if not kind.private:
            asked = arguments_of(intent)
            check_same(
                kind, intent.ref_id, asked, found, derived=intent.is_derived, may_be_sent=True
            )
        self.journal.note(intent, outcome_of(found))
        return found

    def _look_at_changed(self, kind: Kind, intent: Intent) -> None:
        """Whether what was to be changed is as asked by now; its details are kept as digests."""
        asked = arguments_of(intent)
        found = kind.get(self.client, str(intent.facts["fiat_account_id"]))
        if found is None or "asked" not in asked:
            return
        shown = found.model_dump(mode="json", exclude_none=True)
        now = traces(intent.origin, shown)
        as_asked = all(now.get(path, digest) == digest for path, digest in asked["asked"].items())
        if as_asked and keyed(intent.origin, "state", shown) != asked["before"]:
            self.journal.note(intent, outcome_of(found))
        else:
            self.journal.note(intent, Outcome("absent", detail="it is not as asked"))

    def _as_it_is(self, kind: Kind, intent: Intent) -> Any:
        outcome = intent.outcome
        try:
            resource = kind.get(self.client, str(outcome.resource_id))
        except NotFound:
            raise ActionRefused(
                "wrong_environment",
                f"{self.journal.path} says that {kind.noun} {outcome.resource_id} was made "
                f"{shown_time(intent.recorded_at, self.now())}, but {self.client.base_url} does "
                "not know it; nothing was sent now: if this is another service, or a sandbox "
                "started anew, use another journal (journal=…, FUNDLAB_JOURNAL)",
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
            resource = self._after_failure(kind, intent, arguments, error)
        except KeyboardInterrupt as stop:
            stop.add_note(_HOPE)
            raise
        self._note_made(kind, intent, resource)
        at = shown_time(self.now(), self.now())
        self.say(
            f"submitted {at}, {getattr(resource, 'status', None) or 'done'}: "
            f"{kind.noun} {resource.id}"
        )
        return resource

    def _note_made(self, kind: Kind, intent: Intent, resource: Any) -> None:
        status = getattr(resource, "status", None) or "done"
        with told_if_not_noted(
            f"{kind.noun} {resource.id} was accepted by the service ({status})",
            "running the same cell again finds it",
        ):
            self.journal.note(intent, outcome_of(resource))

    def _after_failure(
        self, kind: Kind, intent: Intent, arguments: Mapping[str, Any], error: CallError
    ) -> Any:
        """What was made in spite of ``error``; raises ``error`` if nothing was, or nobody knows."""
        if not isinstance(error, ServiceError) or _tells_nothing(error):
            self._note_failure(intent, Outcome("unknown", detail=type(error).__name__), error)
            raise error
        # an attempt whose answer was lost may have got through before this one was refused
        found = kind.find(self.client, intent.ref_id) if kind.listed is not None else None
        if found is not None and not unlike(arguments, found, derived=intent.is_derived):
            return found
        detail = f"{error.status} {error.title}" + (f": {error.detail}" if error.detail else "")
        state: State = "unknown" if _may_be_made(error, intent, arguments, found) else "refused"
        self._note_failure(intent, Outcome(state, detail=detail), error)
        raise error

    def _note_failure(self, intent: Intent, outcome: Outcome, error: CallError) -> None:
        """Write it down; ``error`` is what matters more where that fails too."""
        try:
            self.journal.note(intent, outcome)
        except StoreError as trouble:
            error.add_note(f"This could not be written down either: {trouble}")
            outcome = Outcome("unknown")  # as it was recorded
        if outcome.state == "unknown":
            error.add_note(_HOPE)


@contextmanager
def told_if_not_noted(known: str, otherwise: str) -> Iterator[None]:
    """What is ``known`` leads the message of a journal that cannot be written."""
    try:
        yield
    except StoreError as error:
        raise type(error)(
            f"{known}, but this could not be written down; {otherwise}, once the journal is well: "
            f"{error}"
        ) from error


def _tells_nothing(error: ServiceError) -> bool:
    """Whether the request may have been carried out in spite of this answer."""
    return error.status >= _FAILURES or error.status == _TIMED_OUT


def _may_be_made(
    error: ServiceError, intent: Intent, arguments: Mapping[str, Any], found: Any | None
) -> bool:
    """Whether a conflict may be with what an earlier attempt of this very intent made."""
    if not isinstance(error, Conflict):
        return False
    if found is not None:
        shown = found.model_dump(mode="json", exclude_none=True)
        return intent.is_derived or not contradictions(arguments, shown)
    existing = error.meta.get("existing")
    if isinstance(existing, dict):
        existing = existing.get("rule", existing)
    other = existing.get("ref_id") if isinstance(existing, dict) else None
    return other in (None, intent.ref_id)


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


def unlike(asked: Mapping[str, Any], found: Any, *, derived: bool) -> list[str]:
    """How ``found`` is not what was asked for.

    What has a ``derived`` ref_id was made by this journal: there, what the service added is none.
    """
    shown = found.model_dump(mode="json", exclude_none=True)
    return contradictions(asked, shown) if derived else differences(asked, shown)


def check_same(
    kind: Kind,
    ref_id: str,
    asked: Mapping[str, Any],
    found: Any,
    *,
    derived: bool,
    may_be_sent: bool = False,
) -> None:
    """Refuses a ``ref_id`` under which the service has something else than ``asked``.

    ``may_be_sent``: an earlier run may have sent it, so no other ``ref_id`` is advised.
    """
    different = unlike(asked, found, derived=derived)
    if not different:
        return
    what = (
        f"ref_id={ref_id!r} stands for {kind.noun} {found.id} at the service, which is not what is "
        f"asked for: {'; '.join(different)}; nothing was sent now: look at it"
    )
    shown = found.model_dump(mode="json", exclude_none=True)
    if may_be_sent:
        what = f"this {kind.noun} may have been sent before; {what} before anything else"
    elif contradictions(asked, shown):
        what += ", and choose another ref_id for the new one"
    raise ActionRefused("ref_id", what)
