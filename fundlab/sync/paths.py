"""Any list of the service as a typed DataFrame: for what the interface does not describe.

The types are inferred from all rows, a column at a time, so that nothing is lost:

==============================  ==================================================================
every value is                  column
==============================  ==================================================================
a number, or text of the        ``decimal``; texts only where one has a point, or the column is
amounts' grammar (a ``-`` may   named as amounts are; a number or code in the name, or a leading
stand first)                    zero, makes it ``string``
RFC 3339 text                   ``datetime64[ns, UTC]``
a whole number of 64 bits       ``Int64``
``true`` or ``false``           ``boolean``
anything else, or a mixture     ``string``: texts as they are, the rest as its own JSON
==============================  ==================================================================
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fundlab.base.errors import ProtocolError
from fundlab.base.exact import AMOUNT
from fundlab.base.values import Instant
from fundlab.client.any_path import call_of
from fundlab.client.arguments import connected
from fundlab.client.pages import Pages

if TYPE_CHECKING:
    import pandas as pd

    from fundlab.client.client import Client

_page: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_text: Final = msgspec.json.Decoder(str | None)
_CURSORS: Final = ("next_page_cursor", "next_page")
_SIGNED: Final = re.compile(f"-?{AMOUNT}")
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")
_LEADING_ZERO: Final = re.compile(r"-?0[0-9]")
_MONEY: Final = re.compile(r"amount|balance|fee|total|price|value|available|trading|notional|limit")
_NAME: Final = re.compile(r"(^|_)(id|ids|ref|code|number|memo|index|version|zip|hash|phone)(_|$)")


def load_path(
    client: Client, path: str, items: str = "items", *, scope: str | None = None, **params: Any
) -> pd.DataFrame:
    """All rows of the list at ``path``, of this or another resource of the service, as a typed
    DataFrame: every page, each row once.

    ``items`` is the member of an answer that holds the rows; an answer that is a list holds them
    itself. ``params`` and ``scope`` are as of ``client.get``. Pages are followed by their
    ``next_page_cursor`` (or ``next_page``), sent as ``page_cursor``. Columns come in the order in
    which they are met. Amounts are exact ``decimal``, times ``datetime64[ns, UTC]``; this module
    says how types are inferred. Raises ``InvalidRequest``, ``ProtocolError`` and what other calls
    of the client raise.

    >>> found = fl.load_path(client, "/v2/transfer/fiat-accounts", order="ASC", limit=2)
    >>> found.dtypes["created_at"].name, found.dtypes["status"].name
    ('datetime64[ns, UTC]', 'string')
    >>> fl.load_path(client, "/v2/events", items="events", limit=100)["id"].is_unique
    True
    """
    import pandas as pd

    pages = Pages(call_of("GET", path, scope, params).operation, [])
    rows: list[dict[str, msgspec.Raw]] = []
    met: set[bytes] = set()
    while not pages.ended:
        call = call_of("GET", path, scope, params | dict(pages.params))
        reply = connected(client).transport.send(call)
        found, following = _rows_and_cursor(reply.body, items)
        if found is None:
            shown = following or "JSON of another kind"
            raise ProtocolError(
                f"{call.operation}: the answer has no list of objects called {items!r}; it is "
                f"{shown}",
                hint="name its list: items='…'",
                operation=call.operation,
                request_id=reply.request_id,
                status=reply.status,
            )
        ids = [bytes(row["id"]) if "id" in row else msgspec.json.encode(row) for row in found]
        pages.note(ids)
        for row, id_ in zip(found, ids, strict=True):
            if "id" not in row or id_ not in met:
                rows.append(row)
                met.add(id_)
        pages.follow(following)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pd.DataFrame({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _rows_and_cursor(
    body: bytes, items: str
) -> tuple[list[dict[str, msgspec.Raw]] | None, str | None]:
    """The rows of an answer and the cursor of the next page; without rows what it is instead."""
    try:
        if body.lstrip()[:1] == b"[":
            return _list.decode(body), None
        members = _page.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None, None
    cursor = None
    try:
        for name in _CURSORS:
            cursor = cursor or _text.decode(members.get(name, b"null"))
        rows = members[items] if {*members} - {*_CURSORS} else members.get(items, b"null")
        return [] if bytes(rows) == b"null" else _list.decode(rows), cursor
    except (KeyError, msgspec.DecodeError, RecursionError):
        return None, f"an object of {', '.join(members) or 'nothing'}"


def _column(name: str, values: list[msgspec.Raw | None]) -> Any:
    """A column of the narrowest type that holds every value as it came."""
    import pandas as pd

    raws = [None if raw is None or bytes(raw) == b"null" else bytes(raw) for raw in values]
    kinds = {raw[:1] for raw in raws if raw is not None}
    if kinds and kinds <= {b"t", b"f"}:
        return pd.array([None if raw is None else raw == b"true" for raw in raws], dtype="boolean")
    texts = [
        raw if raw is None else _text.decode(raw) if raw[:1] == b'"' else raw.decode()
        for raw in raws
    ]
    given = [text for text in texts if text is not None]
    numbers = bool(kinds) and b'"' not in kinds and kinds <= {*map(bytes, zip(b"-0123456789"))}
    if numbers and all(map(_WHOLE.fullmatch, given)):
        return pd.array([None if text is None else int(text) for text in texts], dtype="Int64")
    amounts = bool(given) and all(map(_SIGNED.fullmatch, given))
    if amounts and kinds == {b'"'}:
        amounts = not _NAME.search(name) and not any(map(_LEADING_ZERO.match, given))
        amounts = amounts and (any("." in text for text in given) or bool(_MONEY.search(name)))
    if amounts and (numbers or kinds == {b'"'}):
        return pd.Series(texts, dtype="decimal")
    if kinds == {b'"'}:
        try:
            moments = [None if text is None else Instant.parse(text).ns for text in texts]
        except ValueError:
            pass  # one is not a time, so it is a column of texts
        else:
            return pd.to_datetime(pd.array(moments, dtype="Int64"), unit="ns", utc=True)
    return pd.Series(texts, dtype=pd.StringDtype("pyarrow"))
