"""Page bytes → records as structs: only members that are ever sent take time (interface §4).

A table's layout starts out small and grows with the members met. What the interface does not list
is kept as JSON, byte for byte.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Final

import msgspec

from fundlab.errors import DataError, ProtocolError
from fundlab.tables.schema import Column, Kind, Table

MAX_REMEMBERED_MEMBERS: Final = 128
INSTRUCTIONS: Final = "fiat_network_instructions"
_AWKWARD: Final = re.compile(r'[\x00-\x1f"\\]')  # what msgspec refuses in a member's name
_NULL: Final = msgspec.Raw(b"null")
_CURSORS: Final[Sequence[Any]] = (
    ("next_page_cursor", str | None, None),
    ("next_page", str | None, None),
)
MEMBER_TYPES: Final[Mapping[Kind, Any]] = {
    "text": str | None,
    "enum": str | None,
    "amount": str | None,
    "instant": str | None,
    "flag": bool | None,
    "count": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
    "json": msgspec.Raw,
}


@dataclass(frozen=True)
class Layout:
    """What a page of a table looks like, as far as it was met.

    ``attributes`` are those of a record's struct. ``unlisted`` maps a member the interface does
    not list to its attribute; ``None`` lets any member pass, to be read in a second look.
    """

    items: str
    attributes: tuple[str, ...]
    unlisted: Mapping[str, str] | None
    page: msgspec.json.Decoder[Any]


def read_page(table: Table, body: bytes, page: int) -> tuple[Layout, Any]:
    """The page as structs: its records in the attribute ``layout.items``, and its cursors.

    Raises ``ProtocolError`` where ``body`` is no page and ``DataError`` naming what is malformed.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"body is a {type(body).__name__}; give the bytes of the page")
    if not body.isascii():
        try:
            body.decode()  # kept JSON would otherwise be checked by nobody
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{table.name}, page {page}: not JSON: {error}") from None
    layout = _layouts.get(table.name) or _remember(table, _expected(table))
    try:
        try:
            return layout, layout.page.decode(body)
        except msgspec.ValidationError as error:
            refused = error
        layout = _widened(table, layout, _records(table, layout, body, page, refused))
        try:
            return layout, layout.page.decode(body)
        except msgspec.ValidationError as error:
            raise _culprit(table, layout, body, page, error) from None
    except RecursionError:
        raise ProtocolError(f"{table.name}, page {page}: nested too deeply to be read") from None
    except msgspec.DecodeError as error:
        raise ProtocolError(f"{table.name}, page {page}: not JSON: {error}") from None


def unlisted_members(table: Table, layout: Layout, body: bytes) -> list[dict[str, msgspec.Raw]]:
    """Of each record, what the interface does not list; for a layout that lets any member pass."""
    listed = {column.name for column in table.columns[:-1]}
    records = _records(table, layout, body, 0, RuntimeError("read before"))
    return [{name: raw for name, raw in one.items() if name not in listed} for one in records]


_layouts: dict[str, Layout] = {}
_layouts_lock = threading.Lock()


def _expected(table: Table) -> Sequence[str]:
    """The members a layout begins with: all of them where some are nested in odd places."""
    odd = INSTRUCTIONS in table.model.model_fields
    return [column.name for column in table.columns[:-1] if odd or column.name in table.required]


def _remember(table: Table, members: Sequence[str]) -> Layout:
    layout = _build_layout(table, members)
    with _layouts_lock:
        _layouts[table.name] = layout
    return layout


def _build_layout(table: Table, members: Sequence[str] | None) -> Layout:
    """``members``: all that were met, in the order they were met in; ``None``: any at all."""
    if table.items is None:
        raise ProtocolError(f"{table.name} does not come in pages")
    listed = {column.name: column for column in table.columns[:-1]}
    names = [*listed] if members is None else members
    unlisted = {name: f"unlisted_{n}" for n, name in enumerate(names) if name not in listed}
    fields: list[Any] = [(name, str) for name in listed if name in table.required]
    fields += [
        _field(listed[name]) if name in listed else (unlisted[name], msgspec.Raw, None)
        for name in names
        if name not in table.required
    ]
    # without the garbage collector: a page is thousands of objects that hold no cycle
    row = msgspec.defstruct(
        "Row", fields, gc=False, forbid_unknown_fields=members is not None,
        rename={attribute: member for member, attribute in unlisted.items()},
    )  # fmt: skip
    page = msgspec.defstruct("Page", [(table.items, list[row]), *_CURSORS])  # type: ignore[valid-type]
    return Layout(
        table.items,
        tuple(name for name, *_ in fields),
        None if members is None else unlisted,
        msgspec.json.Decoder(page),
    )


def _field(column: Column) -> tuple[str, Any, msgspec.Raw | None]:
    return column.name, MEMBER_TYPES[column.kind], _NULL if column.kind == "json" else None


def _widened(table: Table, layout: Layout, records: list[dict[str, msgspec.Raw]]) -> Layout:
    """A layout for the members of ``records`` too, in the order in which they come."""
    member_of = {attribute: name for name, attribute in (layout.unlisted or {}).items()}
    known = [member_of.get(attribute, attribute) for attribute in layout.attributes]
    met = list(dict.fromkeys(chain(chain.from_iterable(records), known)))
    if len(met) == len(known):
        return layout
    unlisted = set(met) - {column.name for column in table.columns[:-1]}
    if len(unlisted) > MAX_REMEMBERED_MEMBERS or any(map(_AWKWARD.search, unlisted)):
        return _build_layout(table, None)
    return _remember(table, met)


def _records(
    table: Table, layout: Layout, body: bytes, page: int, refused: Exception
) -> list[dict[str, msgspec.Raw]]:
    """The records as they are: their members and the JSON of each."""
    loose = msgspec.defstruct("Page", [(layout.items, list[msgspec.Raw]), *_CURSORS])
    try:
        raws = getattr(msgspec.json.decode(body, type=loose), layout.items)
    except msgspec.ValidationError:
        raise ProtocolError(f"{table.name}, page {page}: not a page: {refused}") from None
    records = []
    for number, raw in enumerate(raws, start=1):
        try:
            records.append(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
        except msgspec.ValidationError:
            raise DataError(
                "not an object", table=table.name, page=page, record=f"#{number}", value=_text(raw)
            ) from None
    return records


def _culprit(table: Table, layout: Layout, body: bytes, page: int, refused: Exception) -> DataError:
    """The first member of the first record that is not of its type."""
    required = table.required
    for number, record in enumerate(_records(table, layout, body, page, refused), start=1):
        name = _record_name(record.get("id"), number)
        for column in table.columns[:-1]:
            raw = record.get(column.name)
            if raw is None and column.name not in required:
                continue
            if raw is None:
                return DataError(
                    "missing", table=table.name, page=page, record=name, field=column.name
                )
            kind = str if column.name in required else MEMBER_TYPES[column.kind]
            try:
                msgspec.json.decode(raw, type=kind)
            except msgspec.ValidationError as error:
                return DataError(
                    str(error), table=table.name, page=page, record=name, field=column.name,
                    value=_text(raw),
                )  # fmt: skip
    return DataError(str(refused), table=table.name, page=page)


def _record_name(raw: msgspec.Raw | None, number: int) -> str:
    try:
        return msgspec.json.decode(raw, type=str) if raw is not None else f"#{number}"
    except msgspec.ValidationError:
        return f"#{number}"


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()
