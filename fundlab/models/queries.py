"""What list operations may be asked for (§4, §6)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fundlab.models.enumerations import CryptoNetwork, Open, Order, TransferStatus, TransferType
from fundlab.values import Instant

MAX_FILTER_ENTRIES: Final = 100


T = TypeVar("T")
Filter = Annotated[list[T], Field(max_length=MAX_FILTER_ENTRIES)]
"""At most 100 entries, sent by repeating the key."""


class Query(BaseModel):
    """What a list operation is asked for. ``to_params()`` gives the pairs to send, in order."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    order: Order = Order.DESC
    page_cursor: str | None = None
    created_at_lt: Instant | None = Field(None, alias="created_at.lt")
    created_at_lte: Instant | None = Field(None, alias="created_at.lte")
    created_at_eq: Instant | None = Field(None, alias="created_at.eq")
    created_at_gte: Instant | None = Field(None, alias="created_at.gte")
    created_at_gt: Instant | None = Field(None, alias="created_at.gt")

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

    order_by: Literal["CREATED_AT", "UPDATED_AT"] = "CREATED_AT"
    ids: Filter[str] | None = None
    ref_ids: Filter[str] | None = None
    profile_ids: Filter[str] | None = None
    identity_ids: Filter[str] | None = None
    account_ids: Filter[str] | None = None
    group_ids: Filter[str] | None = None
    crypto_tx_hashes: Filter[str] | None = None
    type: Filter[Open[TransferType]] | None = None
    statuses: Filter[Open[TransferStatus]] | None = None
    secondary_statuses: Filter[str] | None = None
    updated_at_lt: Instant | None = Field(None, alias="updated_at.lt")
    updated_at_lte: Instant | None = Field(None, alias="updated_at.lte")
    updated_at_eq: Instant | None = Field(None, alias="updated_at.eq")
    updated_at_gte: Instant | None = Field(None, alias="updated_at.gte")
    updated_at_gt: Instant | None = Field(None, alias="updated_at.gt")

    @model_validator(mode="before")
    @classmethod
    def _default_order(cls, given: dict[str, Any]) -> dict[str, Any]:
        updated = any(name.startswith("updated_at") and given[name] is not None for name in given)
        order_by = "UPDATED_AT" if updated else "CREATED_AT"
        order_by = order_by if given.get("order_by") is None else given["order_by"]
        order = "ASC" if order_by == "UPDATED_AT" else "DESC"
        order = order if given.get("order") is None else given["order"]
        return {**given, "order_by": order_by, "order": order}

    @model_validator(mode="after")
    def _check_order_by(self) -> Self:
        for field in ("created_at", "updated_at"):
            filtered = any(
                getattr(self, f"{field}_{op}") is not None
                for op in ("lt", "lte", "eq", "gte", "gt")
            )
            if filtered and self.order_by != field.upper():
                raise ValueError(f"order_by {self.order_by} does not match the filter on {field}")
        return self


class FiatAccountQuery(Query):
    """§4.11"""

    order_by: Literal["CREATED_AT"] = "CREATED_AT"
    ids: Filter[str] | None = None
    ref_ids: Filter[str] | None = None


class FiatDepositInstructionsQuery(FiatAccountQuery):
    """§4.3"""


class CryptoDestinationAddressQuery(Query):
    """§4.15"""

    order_by: Literal["CREATED_AT"] = "CREATED_AT"
    ids: Filter[str] | None = None
    crypto_networks: Filter[Open[CryptoNetwork]] | None = None
    addresses: Filter[str] | None = None
    nicknames: Filter[str] | None = None
    bookmarked_status: bool | None = None
    identity_id: str | None = None
    identity_ids: Filter[str] | None = None


class EventQuery(Query):
    """§6. Oldest first by default."""

    limit: Annotated[int, Field(ge=1, le=100)] = 100
    order: Order = Order.ASC
    type: str | None = None
    is_test: bool | None = None
