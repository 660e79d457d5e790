"""What list operations may be asked for (§4, §6)."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fundlab.models.enumerations import CryptoNetwork, Open, Order, TransferStatus, TransferType
from fundlab.values import Instant

MAX_FILTER_ENTRIES: Final = 100
TIME_PATTERN: Final = (
    r"^(1679|16[89][0-9]|1[789][0-9]{2}|2[01][0-9]{2}|22[0-5][0-9]|2260)-[0-9]{2}-[0-9]{2}[Tt]"
    r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Years well inside what 64-bit nanoseconds can hold."""
_DIGITS: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_COMPARED: Final = {
    "lt": "before", "lte": "at or before", "eq": "exactly", "gte": "at or after", "gt": "after",
}  # fmt: skip


def _whole_number(value: object) -> object:
    if isinstance(value, str) and _DIGITS.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!a} is not a whole number")
    return value


def _true_or_false(value: object) -> object:
    if isinstance(value, str) and value not in ("true", "false"):
        raise ValueError(f"{value[:40]!a} is neither true nor false")
    return value


def _at(name: str) -> Any:
    """The field of a time that rows are compared with, such as ``created_at.gte``."""
    field, _, comparison = name.partition(".")
    note = f"Only rows whose {field} is {_COMPARED[comparison]} this RFC 3339 time."
    return Field(None, alias=name, description=note, json_schema_extra={"pattern": TIME_PATTERN})


T = TypeVar("T")
Filter = Annotated[list[T], Field(max_length=MAX_FILTER_ENTRIES)]
"""At most 100 entries, sent by repeating the key."""
Number = Annotated[int, BeforeValidator(_whole_number)]
Flag = Annotated[bool, BeforeValidator(_true_or_false)]
Cursor = Annotated[str | None, BeforeValidator(lambda given: given or None)]
"""An empty cursor is that of the first page."""
AMONG: Final[Any] = Field(
    None, description="Only rows with one of these values: repeat the parameter."
)
_order: Final = "`ASC` (oldest first) or `DESC`; by `UPDATED_AT` the default is `ASC`."
_order_by: Final[Any] = Field(
    "CREATED_AT",
    description="The time to go by; it must match the time filter where there is one.",
)


class Query(BaseModel):
    """What a list operation is asked for. ``to_params()`` gives the pairs to send, in order."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    limit: Number = Field(100, ge=1, le=1000, description="Rows on a page.")
    order: Order = Field(Order.DESC, description=_order)
    page_cursor: Cursor = Field(
        None,
        description="`next_page_cursor` of the page before, of the same query in the same order.",
    )
    created_at_lt: Instant | None = _at("created_at.lt")
    created_at_lte: Instant | None = _at("created_at.lte")
    created_at_eq: Instant | None = _at("created_at.eq")
    created_at_gte: Instant | None = _at("created_at.gte")
    created_at_gt: Instant | None = _at("created_at.gt")

    @classmethod
    def takes_list(cls, name: str) -> bool:
        """Whether the parameter is an array: sent by repeating the key."""
        return "list[" in str(cls.model_fields[name].annotation)

    def to_params(self) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        for name, value in self.model_dump(mode="json", by_alias=True, exclude_none=True).items():
            for entry in value if isinstance(value, list) else [value]:
                text = str(entry).lower() if isinstance(entry, bool) else str(entry)
                pairs.append((name, text))
        return pairs


class TransferQuery(Query):
    """§4.5"""

    order_by: Literal["CREATED_AT", "UPDATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    ref_ids: Filter[str] | None = AMONG
    profile_ids: Filter[str] | None = AMONG
    identity_ids: Filter[str] | None = AMONG
    account_ids: Filter[str] | None = AMONG
    group_ids: Filter[str] | None = AMONG
    crypto_tx_hashes: Filter[str] | None = AMONG
    type: Filter[Open[TransferType]] | None = AMONG
    statuses: Filter[Open[TransferStatus]] | None = AMONG
    secondary_statuses: Filter[str] | None = AMONG
    updated_at_lt: Instant | None = _at("updated_at.lt")
    updated_at_lte: Instant | None = _at("updated_at.lte")
    updated_at_eq: Instant | None = _at("updated_at.eq")
    updated_at_gte: Instant | None = _at("updated_at.gte")
    updated_at_gt: Instant | None = _at("updated_at.gt")

    @model_validator(mode="before")
    @classmethod
    def _in_order(cls, given: dict[str, Any]) -> dict[str, Any]:
        """By the time that is filtered on, and by the last change oldest first."""
        given = {name: value for name, value in given.items() if value is not None}
        filtered = {name[:10].upper() for name in given} & {"CREATED_AT", "UPDATED_AT"}
        order_by = given.get("order_by", max(filtered, default="CREATED_AT"))
        for time in sorted(filtered - {order_by}) if isinstance(order_by, str) else ():
            raise ValueError(f"order_by {order_by} does not match the filter on {time.lower()}")
        order = "ASC" if order_by == "UPDATED_AT" else "DESC"
        return {"order": order, "order_by": order_by, **given}


class FiatAccountQuery(Query):
    """§4.11"""

    order_by: Literal["CREATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    ref_ids: Filter[str] | None = AMONG


class FiatDepositInstructionsQuery(FiatAccountQuery):
    """§4.3"""


class CryptoDestinationAddressQuery(Query):
    """§4.15"""

    order_by: Literal["CREATED_AT"] = _order_by
    ids: Filter[str] | None = AMONG
    crypto_networks: Filter[Open[CryptoNetwork]] | None = AMONG
    addresses: Filter[str] | None = AMONG
    nicknames: Filter[str] | None = AMONG
    bookmarked_status: Flag | None = Field(
        None, description="Only bookmarked addresses, or only others."
    )
    identity_id: str | None = Field(
        None, description="Only addresses of this identity; without it, those of no identity."
    )
    identity_ids: Filter[str] | None = AMONG


class EventQuery(Query):
    """§6. Oldest first by default."""

    limit: Number = Field(100, ge=1, le=100, description="Rows on a page.")
    order: Order = Field(Order.ASC, description=_order)
    type: str | None = Field(None, description="Only rows of this type.")
    is_test: Flag | None = Field(None, description="Test events, or real ones (the default).")
