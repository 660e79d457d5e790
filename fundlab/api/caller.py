"""What every operation shares: checked, sent, read; conflicts resolved; pages walked."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from fundlab.api.idempotence import contradictions, differences
from fundlab.api.pages import Rows, ask, whole_number
from fundlab.api.signing import Signer, load_signer
from fundlab.api.transport import Call, Environment, Reply, Transport
from fundlab.api.urls import encoded_target
from fundlab.api.validation import body_bytes, checked, read_answer, refuse_slips, unlisted_values
from fundlab.errors import (
    CallError,
    Conflict,
    InvalidRequest,
    ProtocolError,
    UnknownValueWarning,
    shorten,
)
from fundlab.models import (
    OPERATIONS,
    Operation,
    OrchestrationRule,
    OrchestrationRuleAnswer,
    Resource,
)
from fundlab.settings import Settings

_MAX_UNLISTED: Final = 100
"""Warnings of unlisted values that one client gives: a service may make them up without end."""

_SHOWN_BY: Final[Mapping[type[Resource], str]] = {
    operation.answer: name
    for name, operation in OPERATIONS.items()
    if operation.answer is not None and operation.path.endswith("/{id}") and not operation.body
}
"""The operation that shows a resource by its id, for those that have one."""

R = TypeVar("R", bound=Resource)


class Caller:
    """One service, one credential, any number of threads: what ``Client`` stands on."""

    def __init__(
        self,
        settings: Settings,
        *,
        signer: Signer | None = None,
        environment: Environment | None = None,
    ) -> None:
        self.settings = settings
        self.base_url, self.client_id = settings.base_url, settings.client_id
        if signer is None and settings.signing_key and settings.signing_key_id:
            signer = load_signer(
                settings.signing_key, settings.signing_key_id, settings.signing_key_password
            )
        self.signer = signer
        self.transport = Transport(settings, signer, environment)
        self._unlisted: set[str] = set()

    def __repr__(self) -> str:
        made = vars(self)  # a traceback may show one that is only half made
        shown = (f"{n}={made[n]!r}" for n in ("base_url", "client_id") if n in made)
        return f"{type(self).__name__}({', '.join(shown)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections. A later call opens new ones."""
        self.transport.close()

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        """One page of a list operation as it came: JSON bytes, decoded of their transfer only.

        ``operation`` is a ``list_…`` name; ``params`` are the query's pairs, ``page_cursor``
        among them.
        """
        listed = OPERATIONS.get(operation)
        if listed is None or listed.query is None:
            names = ", ".join(name for name, op in OPERATIONS.items() if op.query)
            raise InvalidRequest(f"operation={operation!r} is not accepted; give one of {names}")
        return self._send(listed, params=params).body

    def _get(self, name: str, model: type[R], **path: str) -> R:
        reply = self._send(OPERATIONS[name], path)
        return _about(self._read(model, name, reply), path, name, reply)

    def _tell(self, name: str, keywords: Mapping[str, Any]) -> None:
        """Send what changes something at the service and brings nothing back."""
        self._send(OPERATIONS[name], _without_self(keywords))

    def _change(self, name: str, model: type[R], keywords: Mapping[str, Any]) -> R:
        """Send what changes something at the service, and read the resource it answers with.

        ``keywords`` are the ``locals()`` of the operation's method.
        """
        operation, given = OPERATIONS[name], _without_self(keywords)
        try:
            reply: Reply | Conflict = self._send(operation, given)
        except Conflict as conflict:
            reply = conflict
        if isinstance(reply, Conflict):
            return self._existing(operation, model, given, reply)
        hint = _unread(given)
        made: Any
        if model is OrchestrationRule:
            made = self._read(OrchestrationRuleAnswer, name, reply, hint).rule
        else:
            made = self._read(model, name, reply, hint)
        return _about(made, given, name, reply, hint)  # type: ignore[no-any-return]

    def _existing(
        self, operation: Operation, model: type[R], given: Mapping[str, Any], conflict: Conflict
    ) -> R:
        """What an earlier request with the same ``ref_id`` made, if it asked for the same.

        The conflict may show little of it, only its id say: then the resource itself is asked for.
        """
        found = conflict.meta.get("existing")
        if isinstance(found, Mapping) and isinstance(found.get("rule"), Mapping):
            found = found["rule"]
        ref_id = given.get("ref_id")
        if operation.body is None or not ref_id or not isinstance(found, Mapping):
            raise conflict
        existing = _readable(model, operation.name, found)
        if existing is None:
            raise conflict
        asked = checked(operation.body, operation.name, given).to_json()
        shown = existing.model_dump(mode="json", exclude_none=True)
        if shown.get("ref_id", ref_id) != ref_id:
            raise conflict  # something else is in the way: the service says what
        id_ = str(shown.get("id", "another"))
        lacking = {name for name in asked if asked[name] and name in model.model_fields} - {*shown}
        if lacking and model in _SHOWN_BY:
            try:
                existing = self._get(_SHOWN_BY[model], model, id=id_)
            except CallError as error:
                conflict.add_note(f"Asking for what is there brought no more: {error}")
            else:
                shown |= existing.model_dump(mode="json", exclude_none=True)
        different = differences(asked, shown)
        if not different and asked.keys() & shown.keys():
            return existing
        what = f"ref_id {ref_id!r} already stands for {shorten(id_)}, "
        hint = "look at it first; trying again with the same ref_id is safe"
        if not different:
            what += "of which the service shows too little to tell whether that is asked for now"
        else:
            what += f"which is not what is asked for now: {'; '.join(different)}"
            if contradictions(asked, shown) and not conflict.in_doubt:
                hint = "nothing was done now; for a new intent choose another ref_id"
        told = Conflict(
            conflict.status,
            conflict.title,
            what,
            conflict.meta,
            type=conflict.type,
            operation=operation.name,
            request_id=conflict.request_id,
            hint=hint,
        )
        for note in getattr(conflict, "__notes__", ()):
            told.add_note(note)
        raise told.doubted() if conflict.in_doubt else told

    def _list(self, name: str, keywords: Mapping[str, Any]) -> Rows[Any]:
        """Every row of a list; ``keywords`` are the ``locals()`` of the operation's method."""
        operation, given = OPERATIONS[name], _without_self(keywords)
        if operation.answer is None or operation.items is None:
            raise InvalidRequest(f"{name} does not list anything")
        max_rows = given.pop("max_rows")
        if max_rows is not None:
            max_rows = whole_number(max_rows, f"{name}: max_rows", 0)
        asked = ask(operation, given, label=name)
        answer, items = operation.answer, operation.items

        def fetch(params: Sequence[tuple[str, str]], number: int) -> tuple[list[Any], str | None]:
            reply = self._send(operation, params=params)
            page: Any = read_answer(
                answer,
                name,
                reply.body,
                page=number,
                request_id=reply.request_id,
                status=reply.status,
            )
            rows: list[Any] = getattr(page, items)
            for row in rows:
                self._warn_of_unlisted(row)
            following = page.next_page_cursor or (page.model_extra or {}).get("next_page")
            return rows, None if following is None else str(following)

        return Rows(asked, fetch, max_rows)

    def _read(self, model: type[R], operation: str, reply: Reply, hint: str | None = None) -> R:
        resource = read_answer(
            model,
            operation,
            reply.body,
            request_id=reply.request_id,
            hint=hint,
            status=reply.status,
        )
        self._warn_of_unlisted(resource)
        return resource

    def _send(
        self,
        operation: Operation,
        given: Mapping[str, Any] | None = None,
        *,
        params: Iterable[tuple[str, str]] = (),
    ) -> Reply:
        given, params = given or {}, list(params)
        asked = dict(params).get("limit", "")
        body, repeatable, again = None, True, "trying again is safe"
        if operation.body is not None:
            request = checked(operation.body, operation.name, given)
            refuse_slips(request, operation.name, given)
            body = body_bytes(request, operation.name)
            repeatable, again = given.get("ref_id") is not None, _again(operation, given)
        return self.transport.send(
            Call(
                operation.name,
                operation.method,
                _target(operation, given, params),
                operation.scope,
                body,
                repeatable,
                again,
                rows=int(asked) if asked.isdecimal() else 1,
            )
        )

    def _warn_of_unlisted(self, resource: Resource) -> None:
        for name, value in unlisted_values(resource):
            text = f"{name} is {shorten(value)}, which the interface does not list; it is kept"
            if text not in self._unlisted and len(self._unlisted) < _MAX_UNLISTED:
                self._unlisted.add(text)
                warnings.warn(
                    text,
                    UnknownValueWarning,
                    stacklevel=4,
                )


def _about(
    resource: R, given: Mapping[str, Any], name: str, reply: Reply, hint: str | None = None
) -> R:
    """``resource``, if it is what ``given`` (the keywords of operation ``name``) asks for."""
    operation, other = OPERATIONS[name], []
    if operation.body is not None:
        asked = checked(operation.body, name, given).to_json()
        other = contradictions(asked, resource.model_dump(mode="json", exclude_none=True))
    for part in ("id", "asset"):  # of the path; services may spell them in another case
        found, wanted = getattr(resource, part, None), given.get(part)
        if f"{{{part}}}" in operation.path and str(found).casefold() != str(wanted).casefold():
            other.append(f"{part} is {shorten(found)}, not {shorten(wanted)}")
    if not other:
        return resource
    raise ProtocolError(
        f"{name}: the answer is about something else: {'; '.join(other)}",
        hint=hint or "show it to the operator of the service",
        operation=name,
        request_id=reply.request_id,
        status=reply.status,
    )


def _target(
    operation: Operation, given: Mapping[str, Any], params: Iterable[tuple[str, str]]
) -> str:
    try:
        return encoded_target(operation.path, given, params)
    except InvalidRequest as error:
        problem = str(error)
    raise InvalidRequest(f"{operation.name}: {problem}; nothing was sent")


def _readable(model: type[R], operation: str, found: Mapping[str, Any]) -> R | None:
    try:
        return read_answer(model, operation, json.dumps(found).encode())
    except ProtocolError:  # the service's own refusal says more
        return None


def _without_self(keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name != "self"}


def _again(operation: Operation, given: Mapping[str, Any]) -> str:
    """What to do when it is unknown whether a change was carried out."""
    if given.get("ref_id") is not None:
        return "trying again with the same ref_id is safe"
    if operation.body is not None and "ref_id" in operation.body.model_fields:
        return "look for it before trying again, and give a ref_id, with which that is safe"
    return "look for it before trying again"


def _unread(given: Mapping[str, Any]) -> str:
    """What to do when the service took a change but its answer cannot be read."""
    if given.get("ref_id") is not None:
        return (
            "it was probably carried out: look for it by its ref_id, or call again with the same "
            "ref_id, which does nothing twice"
        )
    return "it was probably carried out: look for it before trying again"
