"""What happens in one call: its arguments are checked, it is sent, and its answer is read.

``Client`` stands on ``Caller`` here; ``Transport`` carries the bytes. ``Rows`` are the models of
the pages of a list, one after another. Whether an answer, or what exists under a ``ref_id`` (a
409's ``existing``), is what is asked for is said by `fundlab.client.identity`.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice, repeat
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar
from urllib.parse import quote

from pydantic import ValidationError
from pydantic_core import from_json

from fundlab.base.errors import (
    CallError,
    Conflict,
    DataError,
    InvalidRequest,
    ProtocolError,
    UnknownValueWarning,
    shorten,
)
from fundlab.base.values import check_unicode, id_text
from fundlab.client.identity import is_this_payment
from fundlab.client.pages import Asked, Walk, warn_of_filters, whole_number
from fundlab.client.transport import Call, Environment, Reply, Transport
from fundlab.models import OPERATIONS, OrchestrationRule, OrchestrationRuleAnswer, Resource
from fundlab.models.requests import body_bytes, checked, field_path, sentence
from fundlab.settings.secret import without_numbers
from fundlab.settings.settings import Settings

if TYPE_CHECKING:
    from fundlab.client.signing import Signer

_MAX_UNLISTED: Final = 100
"""Warnings of unlisted values that one client gives: a service may make them up without end."""

_SHOWN_BY: Final[Mapping[type[Resource], str]] = {
    operation.answer: name
    for name, operation in OPERATIONS.items()
    if operation.answer is not None and operation.path.endswith("/{id}") and not operation.body
}
"""The operation that shows a resource by its id, for those that have one."""
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NO_ID: Final = re.compile(r"[/?#\x00-\x1f\x7f-\x9f]|\.\.")
_NAMED_PART: Final = re.compile(r"\{(\w+)\}")
_START: Final = 60
_NOT_A_NUMBER: Final = re.compile(rb"NaN|Infinity")
_NUMBER_BEGINS: Final = re.compile(rb'"(?:account_number|account_id|wallet_address|iban)"\s*:')

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
            from fundlab.client.signing import load_signer  # cryptography: 50 ms

            signer = load_signer(
                settings.signing_key, settings.signing_key_id, settings.signing_key_password
            )
        self.signer = signer
        self.transport = Transport(settings, signer, environment)
        self.unlisted: set[str] = set()

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
        return self._send(operation, params=params)[0].body

    def _call(self, model: type[R], name: str, /, **given: object) -> R:
        """Carry out operation ``name`` with ``given``; its answer, read as ``model``. A create that
        takes a ``ref_id`` is sent with one, so that sending it again does nothing twice."""
        operation = OPERATIONS[name]
        body = operation.body
        if body is not None and "ref_id" in body.model_fields and given["ref_id"] is None:
            given["ref_id"] = self.transport.new_ref_id()
        conflict: Conflict | None = None
        try:
            reply, asked = self._send(name, given)
        except Conflict as error:
            conflict = error
        if conflict is not None:  # raised from there, for frames further down hold headers
            return self._existing(model, name, given, conflict)

        # What came, and whether it is about what was asked: a proxy may have mixed two up.
        hint = how_to_repeat(given.get("ref_id")) if operation.changes else None
        problem: CallError
        try:
            answer: Any = read_answer(
                OrchestrationRuleAnswer if model is OrchestrationRule else model, name, reply,
                hint=hint, unlisted=self.unlisted,
            )  # fmt: skip
        except CallError as error:
            problem = error
        else:
            answer = answer.rule if model is OrchestrationRule else answer
            other: list[str] = []
            if asked:
                shown = answer.model_dump(mode="json", exclude_none=True)
                other += is_this_payment(asked, shown, name, ours=True).contradictions
            for part in ("id", "asset"):
                found, wanted = getattr(answer, part, None), given.get(part)
                if f"{{{part}}}" not in operation.path:
                    continue
                if str(found).casefold() != str(wanted).casefold():  # ids in another case are equal
                    other.append(f"{part} is {shorten(found)}, not {shorten(wanted)}")
            if not other:
                return answer  # type: ignore[no-any-return]
            problem = ProtocolError(
                f"{name}: the answer is about something else: {'; '.join(other)}",
                hint=hint or "show it to the operator of the service",
                operation=name,
                request_id=reply.request_id,
                status=reply.status,
            )
        raise problem.doubted() if operation.changes else problem

    def _existing(
        self, model: type[R], name: str, given: Mapping[str, Any], conflict: Conflict
    ) -> R:
        """What an earlier request with the same ``ref_id`` made, if it asked for the same: as its
        operation shows it, for a conflict may say little of it, only its id say."""
        ref_id, body = given.get("ref_id"), OPERATIONS[name].body
        existing = None
        if body is not None and ref_id and conflict.existing:
            said = json.dumps(conflict.existing).encode()
            try:
                existing = read_answer(model, name, Reply(said, "", 409))
            except ProtocolError:  # the service's own refusal says more
                existing = None
        if existing is None or body is None:
            raise conflict
        asked = checked(body, name, given, lenient=self.settings.lenient_requests).to_json()
        id_ = str(getattr(existing, "id", "another"))
        shown = existing.to_json()
        if str(shown.get("ref_id") or ref_id).casefold() != str(ref_id).casefold():
            raise conflict  # something else is in the way: the service says what
        if model in _SHOWN_BY:
            shown = {}
            try:
                existing = self._call(model, _SHOWN_BY[model], id=id_)
                shown = existing.to_json()
            except (CallError, InvalidRequest) as error:
                problem = error.problem if isinstance(error, CallError) else str(error)
                conflict.add_note(f"Asking for what is there brought no more: {problem}")
        identity = is_this_payment(asked, shown, name, named=True)
        if identity.answer == "yes":
            return existing
        hint = "look at it first; trying again with the same ref_id is safe"
        if identity.answer == "unknown":
            what = (
                f"ref_id {ref_id!r} stands for {shorten(id_)}, of which the service does not show "
            )
            what += (
                f"{', '.join(identity.absent)}: too little to tell whether it is what is asked for"
            )
        else:
            what = f"ref_id {ref_id!r} belongs to {shorten(id_)}, which is not what is asked for "
            what += f"now: {'; '.join(identity.contradictions)}"
            only_added = is_this_payment(asked, shown, name, ours=True).answer != "no"
            if not only_added and not conflict.in_doubt:
                hint = "nothing was done now; for a new intent choose another ref_id"
        explained = Conflict(
            conflict.status,
            conflict.title,
            what,
            conflict.meta,
            type=conflict.type,
            operation=name,
            request_id=conflict.request_id,
            hint=hint,
        )
        for note in getattr(conflict, "__notes__", ()):
            explained.add_note(note)
        explained.refused = conflict.refused
        in_doubt = conflict.in_doubt or identity.answer == "unknown"
        raise explained.doubted() if in_doubt else explained

    def _send(
        self,
        name: str,
        given: Mapping[str, Any] | None = None,
        params: Iterable[tuple[str, str]] = (),
    ) -> tuple[Reply, dict[str, Any]]:
        """The reply to operation ``name``, and the members of the body that was sent.

        What is wrong with ``given`` or ``params`` is an ``InvalidRequest``, before anything leaves.
        """
        operation, given, params = OPERATIONS[name], given or {}, list(params)
        body, asked = None, dict[str, Any]()
        repeatable, again = True, "trying again is safe"
        if operation.body is not None:
            within_path = _NAMED_PART.findall(operation.path)
            members = {n: value for n, value in given.items() if n not in within_path}
            request = checked(operation.body, name, members, lenient=self.settings.lenient_requests)
            body, asked = body_bytes(request, name), request.to_json()
            # A second one is stopped by the ref_id, by which the service knows the first.
            repeatable = given.get("ref_id") is not None
            again = how_to_repeat(given.get("ref_id")) if operation.changes else again
        try:
            target = encoded_target(operation.path, given, params)
        except InvalidRequest as error:
            problem = f"{name}: {error}; nothing was sent"
        else:
            rows = dict(params).get("limit", "")
            call = Call(
                name, operation.method, target, operation.scope, body, repeatable, again,
                rows=int(rows) if rows.isdecimal() else 1, changes=operation.changes,
            )  # fmt: skip
            return self.transport.send(call), asked
        raise InvalidRequest(problem)


class Rows(Iterator[R], Generic[R]):
    """Lazily every row of a list: nothing is sent before the first ``next()``.

    ``repeated`` counts rows that came again and were dropped (the first is given, even where a
    later one is newer), ``unasked`` those that did not meet the filters (a service may not honour
    each of them), ``pages`` the answers.
    Raises ``ProtocolError`` when a cursor comes back, or when pages without a new row do not end.
    """

    def __init__(
        self,
        caller: Caller,
        operation: str,
        filters: Mapping[str, object],
        page_cursor: str | None,
        page_size: int | None,
        max_rows: int | None,
    ) -> None:
        if max_rows is not None:
            max_rows = whole_number(max_rows, f"{operation}: max_rows", 0)
        given = {**filters, "page_cursor": page_cursor, "page_size": page_size}
        asked = Asked(OPERATIONS[operation], given, operation)
        self.operation, self.pages, self.repeated, self.unasked = asked.label, 0, 0, 0
        self._caller = caller
        self._given: set[str] = set()
        self._warned: set[str] = set()
        parts = asked.parts
        rows: Iterator[R] = iter(())
        if parts:  # as one list would give the rows of all
            query = parts[0].query
            time = getattr(query, "order_by", "CREATED_AT").lower()
            rows = merge(
                *map(self._walk, parts),
                key=lambda row: getattr(getattr(row, time, None), "ns", 0),
                reverse=query.order == "DESC",
            )
        self._rows = islice(rows, max_rows)

    def __next__(self) -> R:
        return next(self._rows)

    def __repr__(self) -> str:
        made = vars(self)
        return f"<Rows of {made.get('operation')}: {made.get('pages', 0)} pages so far>"

    def _walk(self, asked: Asked) -> Iterator[R]:
        walk, operation = Walk(asked), asked.operation
        while not walk.ended:
            reply, _ = self._caller._send(operation.name, params=walk.params)
            page: Any = read_answer(
                operation.answer or Resource, operation.name, reply, page=self.pages + 1,
                unlisted=self._caller.unlisted,
            )  # fmt: skip
            self.pages += 1
            rows: list[Any] = getattr(page, str(operation.items))
            ids = [id_text(row.id) for row in rows]  # one id in two cases is one
            verdicts = [
                (check, [check.verdict(getattr(row, check.member, None)) for row in rows])
                for check in walk.checks
            ]
            judged = walk.judge(ids, verdicts)
            for kind, names in (("ignored", judged.ignored), ("unchecked", judged.unchecked)):
                if names and kind not in self._warned:
                    self._warned.add(kind)
                    warn_of_filters(self.operation, **{kind: names}, stacklevel=4)  # at next()
            for row, id_, belongs in zip(rows, ids, judged.belong or repeat(True), strict=False):
                if not belongs:
                    self.unasked += 1
                elif id_ in self._given:
                    self.repeated += 1
                else:
                    self._given.add(id_)
                    yield row
            following = page.next_page_cursor or (page.model_extra or {}).get("next_page")
            walk.follow(None if following is None else str(following))


def how_to_repeat(ref_id: object) -> str:
    """What to do where it is unknown whether a change was carried out."""
    if ref_id is None:
        return "look for it before trying again"
    return f"trying again with the same ref_id is safe (ref_id={ref_id!r})"


def encoded_target(
    path: str, values: Mapping[str, Any] | None = None, params: Iterable[tuple[str, str]] = ()
) -> str:
    """``path`` with its ``{name}`` parts filled in from ``values``, and the query: encoded once,
    as it is signed and sent.

    Values keep ``A-Za-z0-9-._~``; every other byte of their UTF-8 becomes ``%XX``, in the upper
    case that connections send escapes in. Raises ``InvalidRequest`` for a value that no path can
    carry, or that would be read as more than an id.
    """
    path = _ESCAPE.sub(lambda escape: escape[0].upper(), path)
    for name in _NAMED_PART.findall(path):
        value = (values or {})[name]
        if not isinstance(value, str) or value in ("", ".") or _NO_ID.search(value):
            raise InvalidRequest(
                f"{name}={shorten(value)} is not accepted; give an id as text, without / ? # "
                ".. and control characters"
            )
        check_unicode(value, f"{name}={shorten(value)}")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    pairs = []
    for name, value in params:
        check_unicode(f"{name}{value}", f"{name}={shorten(value)}")
        pairs.append(f"{quote(name, safe='')}={quote(value, safe='')}")
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def read_answer(
    model: type[R],
    operation: str,
    reply: Reply,
    *,
    page: int | None = None,
    hint: str | None = None,
    unlisted: set[str] | None = None,
) -> R:
    """The body of ``reply`` as ``model``; ``hint`` is what to do when that fails, where more than a
    read did. Values that no enumeration of the interface has are warned of, each once: those in
    ``unlisted`` were before.

    Raises ``ProtocolError`` when it is not a JSON object of that shape and ``DataError``, naming
    record and field, when one record is malformed.
    """
    first: Any = None
    try:
        answer = model.model_validate_json(reply.body)
        if _NOT_A_NUMBER.search(reply.body):  # which pydantic lets pass
            from_json(reply.body, allow_inf_nan=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    except ValueError:
        first = {"type": "json_invalid", "loc": ()}
    if first is None:
        seen = unlisted if unlisted is not None else set()
        found: list[Any] = [answer] if unlisted is not None else []
        for resource in found:  # which grows: by what holds such values in its turn
            for name in resource.listed:
                value = getattr(resource, name)
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, Resource):
                        found.append(one)
                    elif type(one) is str:  # a listed value is a member of its enumeration
                        text = (
                            f"{type(resource).__name__}.{name} is {shorten(one)}, which the "
                            "interface does not list; it is kept"
                        )
                        if text not in seen and len(seen) < _MAX_UNLISTED:
                            seen.add(text)
                            warnings.warn(text, UnknownValueWarning, stacklevel=4)
        return answer
    location = first["loc"]
    if first["type"] == "json_invalid" or not location:
        kind = "not JSON" if first["type"] == "json_invalid" else "not a JSON object"
        if first["type"] == "value_error":  # of the object itself: a page without its rows
            kind = f"not a page: it {sentence(first)}"
        raise ProtocolError(
            f"{operation}: the answer is {kind} ({_beginning(reply.body)})",
            hint=hint or "check base_url: is this the service, or a proxy or portal before it?",
            operation=operation,
            request_id=reply.request_id,
            status=reply.status,
        )
    # The record that is malformed: the answer itself, or a row of it, by its id or position.
    record = json.loads(reply.body)
    number = location[1] if len(location) > 1 else None
    rows = record.get(location[0])
    if isinstance(rows, list) and isinstance(number, int):
        record = rows[number] if isinstance(rows[number], dict) else {}
    else:
        number = None
    known = record.get("id")
    if not isinstance(known, str):
        known = None if number is None else f"number {number + 1}"
    path = field_path(location)
    raise DataError(
        sentence(first),
        table=operation,
        page=page,
        record=known,
        field=path or None,
        value=None if first["type"] == "missing" else without_numbers(first["input"], path),
        raw=reply.body.decode() if number is None and record == without_numbers(record) else None,
        hint=hint or "the answer breaks the interface: show it to the operator of the service",
        operation=operation,
        request_id=reply.request_id,
    )


def check_empty(operation: str, reply: Reply) -> None:
    """Raises ``ProtocolError``, in doubt, where ``reply`` to a change that nothing is told of is
    not empty: a login page or a proxy's message is no answer of the service."""
    if reply.body.strip() in (b"", b"{}", b"null"):
        return
    raise ProtocolError(
        f"{operation}: the answer is not the empty one of this operation "
        f"({_beginning(reply.body)})",
        hint=how_to_repeat(None),
        operation=operation,
        request_id=reply.request_id,
        status=reply.status,
    ).doubted()


def _beginning(body: bytes) -> str:
    """How an answer that cannot be read starts, as far as no number of an account is in it."""
    start = _NUMBER_BEGINS.split(body[:_START])[0]
    return f"it starts {start!r}" if body else "it is empty"
