"""What every operation shares: checked, sent, read; conflicts resolved; pages walked."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from fundlab.api.idempotence import differences
from fundlab.api.rows import Rows
from fundlab.api.signing import Signer, load_signer
from fundlab.api.transport import Call, Environment, Transport
from fundlab.api.urls import encoded_target
from fundlab.api.validation import body_bytes, checked, read_answer, unlisted_values
from fundlab.errors import Conflict, DataError, InvalidRequest, UnknownValueWarning
from fundlab.models import (
    OPERATIONS,
    Operation,
    OrchestrationRule,
    OrchestrationRuleAnswer,
    Resource,
)
from fundlab.settings import Settings

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
        self._unlisted: set[tuple[str, str, str]] = set()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(base_url={self.base_url!r}, client_id={self.client_id!r})"

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
        return self._send(listed, params=params)

    def _get(self, name: str, model: type[R], **path: str) -> R:
        return self._read(model, name, self._send(OPERATIONS[name], path=path))

    def _create(self, name: str, model: type[R], **given: Any) -> R:
        operation = OPERATIONS[name]
        try:
            body = self._send(operation, given=given)
        except Conflict as conflict:
            return self._existing(operation, model, given, conflict)
        if model is not OrchestrationRule:
            return self._read(model, name, body)
        rule: Any = self._read(OrchestrationRuleAnswer, name, body).rule
        return rule  # type: ignore[no-any-return]

    def _existing(
        self, operation: Operation, model: type[R], given: Mapping[str, Any], conflict: Conflict
    ) -> R:
        """What an earlier request with the same ``ref_id`` made, if it asked for the same."""
        found = conflict.meta.get("existing")
        if isinstance(found, Mapping) and isinstance(found.get("rule"), Mapping):
            found = found["rule"]
        if operation.body is None or not given.get("ref_id") or not isinstance(found, Mapping):
            raise conflict
        existing = _readable(model, operation.name, found)
        if existing is None:
            raise conflict
        asked = checked(operation.body, operation.name, given).to_json()
        different = differences(asked, existing.model_dump(mode="json", exclude_none=True))
        if not different:
            return existing
        raise Conflict(
            conflict.status,
            conflict.title,
            f"ref_id {given['ref_id']!r} already stands for {getattr(existing, 'id', 'another')}, "
            f"which is not what is asked for now: {'; '.join(different)}",
            conflict.meta,
            type=conflict.type,
            operation=operation.name,
            request_id=conflict.request_id,
            hint="nothing was done now; for a new intent choose another ref_id",
        )

    def _list(self, name: str, max_rows: int | None, **given: Any) -> Rows[Any]:
        operation = OPERATIONS[name]
        if operation.query is None or operation.answer is None or operation.items is None:
            raise InvalidRequest(f"{name} is no list")
        if max_rows is not None and (not isinstance(max_rows, int) or max_rows < 0):
            raise InvalidRequest(f"{name}: max_rows={max_rows!r} is not accepted; give 0 or more")
        listed = {field: _listed(value) for field, value in given.items()}
        query = checked(operation.query, name, listed)
        answer, items = operation.answer, operation.items

        def fetch(cursor: str | None, number: int) -> tuple[list[Any], str | None]:
            asked = query if cursor is None else query.model_copy(update={"page_cursor": cursor})
            body = self._send(operation, params=asked.to_params())
            page: Any = read_answer(answer, name, body, number)
            rows: list[Any] = getattr(page, items)
            for row in rows:
                self._warn_of_unlisted(row)
            following = page.next_page_cursor or (page.model_extra or {}).get("next_page")
            return rows, None if following is None else str(following)

        return Rows(name, query, fetch, max_rows)

    def _read(self, model: type[R], operation: str, body: bytes) -> R:
        resource = read_answer(model, operation, body)
        self._warn_of_unlisted(resource)
        return resource

    def _send(
        self,
        operation: Operation,
        *,
        path: Mapping[str, str] | None = None,
        params: Iterable[tuple[str, str]] = (),
        given: Mapping[str, Any] | None = None,
    ) -> bytes:
        body, repeatable = None, operation.method == "GET"
        if operation.body is not None:
            request = checked(operation.body, operation.name, given or {})
            body = body_bytes(request, operation.name)
            repeatable = getattr(request, "ref_id", None) is not None
        return self.transport.send(
            Call(
                operation.name,
                operation.method,
                encoded_target(operation.path, path, params),
                operation.scope,
                body,
                repeatable,
            )
        )

    def _warn_of_unlisted(self, resource: Resource) -> None:
        for field, value in unlisted_values(resource):
            key = (type(resource).__name__, field, value)
            if key not in self._unlisted:
                self._unlisted.add(key)
                warnings.warn(
                    "{}.{} is {!r}, which the interface does not list; it is kept".format(*key),
                    UnknownValueWarning,
                    stacklevel=4,
                )


def _readable(model: type[R], operation: str, found: Mapping[str, Any]) -> R | None:
    try:
        return read_answer(model, operation, json.dumps(found).encode())
    except DataError:  # the service's own refusal says more
        return None


def _listed(value: Any) -> Any:
    """Any iterable of texts as the list a query wants."""
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        return value
    return list(value)
