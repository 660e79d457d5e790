"""The six tables, and the Arrow schema of each, derived from the models (interface §2).

=============  ======================================================  =======================
a column of    is in Arrow, and on disk                                in a DataFrame
=============  ======================================================  =======================
text           ``string``                                              ``string``
ids            ``string``: a UUID in small letters, however it came    ``string``
amounts        ``decimal128(38, 18)``                                  ``decimal``
moments        ``timestamp('ns', 'UTC')``                              ``datetime64[ns, UTC]``
enumerations   ``string`` (values nobody listed survive)               ``category``
flags          ``bool``                                                ``boolean``
counts         ``int64``                                               ``Int64``
objects        ``string``: their JSON, byte for byte as it was sent    ``string``
=============  ======================================================  =======================

Every table ends with ``extra``: a JSON object of the members the interface does not list, or null.

To add a column, add the field to its model, and to ``MEANINGS`` beside it what it means
(`fundlab.models.resources`); write the page of the tables anew (`fundlab.tables.document`). Rows
written before read as null; what the service sent already stays in their ``extra`` until they are
fetched again (``sync --full``). ``SCHEMA_VERSION`` rises only when a reader of today would read new
files wrongly.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fundlab.base.arrow import AMOUNT_TYPE, numbers, of_numbers
from fundlab.base.errors import InvalidRequest
from fundlab.base.values import Amount, Instant
from fundlab.models import (
    CryptoDestinationAddress,
    Event,
    FiatAccount,
    FiatDepositInstructions,
    Resource,
    Transfer,
)

SCHEMA_VERSION: Final = 1
EXTRA: Final = "extra"
SETTLED_AT: Final = "settled_at"
"""Beside the columns of transfers: see :mod:`fundlab.store.settlement_times`."""
INSTANT_TYPE: Final = pa.timestamp("ns", "UTC")
FIRST_INSTANT: Final = pa.scalar(Instant.parse("1678-01-01T00:00:00Z").ns, INSTANT_TYPE)
LAST_INSTANT: Final = pa.scalar(Instant.parse("2261-12-31T23:59:59.999999999Z").ns, INSTANT_TYPE)

Kind = Literal["text", "amount", "instant", "enum", "flag", "count", "json"]
ARROW_TYPES: Final[Mapping[Kind, pa.DataType]] = {
    "text": pa.string(),
    "amount": AMOUNT_TYPE,
    "instant": INSTANT_TYPE,
    "enum": pa.string(),
    "flag": pa.bool_(),
    "count": pa.int64(),
    "json": pa.string(),
}


class BalanceObservation(Resource):
    """What a profile held of an asset (§2.5) when it was looked at: an assertion, never updated."""

    profile_id: str
    asset: str
    available: Amount
    trading: Amount
    observed_at: Instant


def is_id(member: str) -> bool:
    """Whether a member of this name is an id of the service, which has no case; what a caller or a
    wire called something stays as it is."""
    return member == "id" or (member.endswith("_id") and member not in ("ref_id", "memo_id"))


@dataclass(frozen=True)
class Column:
    """One column: its name, what it holds, and the listed values where it is an enumeration."""

    name: str
    kind: Kind
    type: pa.DataType
    members: tuple[str, ...] = ()

    @property
    def is_id(self) -> bool:
        """Whether it holds ids of the service."""
        return is_id(self.name)


@dataclass(frozen=True)
class Table:
    """One table: the operation that lists it, its model, its columns and what identifies a row.

    ``operation`` is ``None`` where no operation lists the rows (balances are read one at a time).
    ``items`` is the member of a page that holds the rows, ``page_size`` the largest page.
    """

    name: str
    model: type[Resource]
    key: tuple[str, ...] = ("id",)
    operation: str | None = None
    page_size: int = 1000

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        fields = self.model.model_fields.items()
        listed = [_column(name, field.annotation) for name, field in fields]
        return (*listed, Column(EXTRA, "json", ARROW_TYPES["json"]))

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the table's name and schema version in its metadata."""
        return pa.schema(
            [pa.field(column.name, column.type) for column in self.columns],
            metadata={"fundlab.table": self.name, "fundlab.tables.schema": str(SCHEMA_VERSION)},
        )

    @cached_property
    def required(self) -> frozenset[str]:
        """Columns that are never null: without them a record cannot be told from another."""
        return frozenset(
            name for name, field in self.model.model_fields.items() if field.is_required()
        )

    @property
    def items(self) -> str | None:
        from fundlab.models.operations import OPERATIONS

        return OPERATIONS[self.operation].items if self.operation else None

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    def of_kind(self, *kinds: Kind) -> Iterator[Column]:
        return (column for column in self.columns if column.kind in kinds)

    @cached_property
    def moment(self) -> str:
        """The column that places a row in time."""
        return "created_at" if "created_at" in self.schema.names else "observed_at"

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The columns that rows are ordered by: their moment, then their key."""
        return (self.moment, *(name for name in self.key if name != self.moment))

    def in_order(self, rows: pa.Table) -> pa.Table:
        """``rows`` by their moment, ties by key: the order of every frame, whoever wrote them."""
        keys = list(self.order)
        order = pc.sort_indices(rows.select(keys), sort_keys=[(name, "ascending") for name in keys])
        places = numbers(order)
        moved = np.flatnonzero(places != np.arange(rows.num_rows))
        if not len(moved):
            return rows
        first = int(
            moved[0]
        )  # most often few are not in order, the last: only what is taken is copied
        late = rows.slice(first).take(of_numbers(places[first:] - first))
        return pa.concat_tables([rows.slice(0, first), late])

    def distinct(self, rows: pa.Table) -> pa.Table:
        """``rows`` without repeated keys: of those the newest ``updated_at``, else the last one."""
        if self.key != ("id",) or pc.count_distinct(rows.column("id")).as_py() == rows.num_rows:
            return rows
        ids = rows.column("id").combine_chunks().dictionary_encode()
        moments = np.zeros(rows.num_rows, np.int64)
        if "updated_at" in rows.column_names:
            given = rows.column("updated_at").cast(pa.int64())
            moments = numbers(given.fill_null(np.iinfo(np.int64).min))
        order = np.argsort(moments, kind="stable")
        newest = np.empty(len(ids.dictionary), np.int64)
        newest[numbers(ids.indices)[order]] = order  # where one id is given several times, the last
        return rows.take(of_numbers(np.sort(newest)))


def _column(name: str, annotation: Any) -> Column:
    """The column that holds what ``annotation`` allows, ``None`` left out."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _column(name, get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        parts = [_column(name, one) for one in get_args(annotation) if one is not type(None)]
        enums = [part for part in parts if part.kind == "enum"]
        (part,) = enums or parts
        return part
    kinds: dict[Any, Kind] = {
        Amount: "amount", Instant: "instant", bool: "flag", int: "count", str: "text",
    }  # fmt: skip
    kind = kinds.get(annotation, "json")
    members: tuple[str, ...] = ()
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        kind, members = "enum", tuple(member.value for member in annotation)
    return Column(name, kind, ARROW_TYPES[kind], members)


TABLES: Final[Mapping[str, Table]] = types.MappingProxyType(
    {
        table.name: table
        for table in (
            Table("transfers", Transfer, operation="list_transfers"),
            Table("events", Event, operation="list_events", page_size=100),
            Table(
                "addresses",
                CryptoDestinationAddress,
                operation="list_crypto_destination_addresses",
            ),
            Table("fiat_accounts", FiatAccount, operation="list_fiat_accounts"),
            Table(
                "deposit_instructions",
                FiatDepositInstructions,
                operation="list_fiat_deposit_instructions",
            ),
            Table("balances", BalanceObservation, key=("profile_id", "asset", "observed_at")),
        )
    }
)
"""Every table by its name, in the order a sync goes through them."""


def find_table(table: Table | str) -> Table:
    """``table``, looked up where a name is given. Raises ``InvalidRequest`` for an unknown name."""
    if isinstance(table, Table):
        return table
    if table not in TABLES:
        raise InvalidRequest(f"table {table!r} is unknown; there are {', '.join(TABLES)}")
    return TABLES[table]


def parse_instants(texts: pa.Array) -> pa.Array:
    """Texts of times as moments. Raises ``pa.ArrowInvalid`` for what is no time, and for one
    outside the years 1678 to 2261."""
    moments = texts.cast(INSTANT_TYPE)
    # Before pyarrow 23 a time that 64 bits cannot hold becomes another one, so its day is looked at
    # as text, too; an offset moves it by less than one.
    days = (pa.scalar(day, texts.type) for day in ("1677-12-31", "2262-01-02"))
    for times, first, last in ((texts, *days), (moments, FIRST_INSTANT, LAST_INSTANT)):
        if pc.any(pc.or_(pc.less(times, first), pc.greater(times, last))).as_py():
            raise pa.ArrowInvalid("a time must be within the years 1678 to 2261")
    return moments
