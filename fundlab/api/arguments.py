"""What the operations take: one name for each kind of argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, TypedDict, TypeVar
from uuid import UUID

from fundlab.models import (
    CryptoNetwork,
    FiatAccountOwner,
    FiatNetwork,
    FiatNetworkInstructions,
    Order,
    RoutingNumberType,
    RuleEnd,
    StableAsset,
    TransferStatus,
    TransferType,
)

if TYPE_CHECKING:
    import numpy as np

AmountLike: TypeAlias = str | Decimal | int
"""``"100.00"``, a ``Decimal`` or an ``int``; never a float."""
Time: TypeAlias = "date | str | np.datetime64"
"""An aware ``datetime`` (or ``Timestamp``), RFC 3339 text with a zone, or in UTC a ``date`` or
``datetime64``."""
Texts: TypeAlias = Iterable[str | UUID] | str | UUID
"""One text or any number of them: a list, an iterator, an array, a Series. Of none come no rows."""
Owner: TypeAlias = FiatAccountOwner | Mapping[str, Any]
Instructions: TypeAlias = FiatNetworkInstructions | Mapping[str, Any]
End: TypeAlias = RuleEnd | Mapping[str, Any]
Metadata: TypeAlias = Mapping[str, str]
"""At most 6 pairs; keys and values of at most 100 characters."""

# Values of an enumeration: a member, or its text. Filters also take texts that are not listed yet.
Network: TypeAlias = CryptoNetwork | str
Networks: TypeAlias = CryptoNetwork | Iterable[CryptoNetwork | str] | str
Asset: TypeAlias = StableAsset | str
FiatRail: TypeAlias = FiatNetwork | Literal["WIRE", "CUBIX"]
RoutingType: TypeAlias = RoutingNumberType | Literal["ABA", "SWIFT"]
Sorting: TypeAlias = Order | Literal["ASC", "DESC"]
Statuses: TypeAlias = TransferStatus | Iterable[TransferStatus | str] | str
Types: TypeAlias = TransferType | Iterable[TransferType | str] | str


# The filters of the loaders: those of the list operations, as keywords.


class ListFilters(TypedDict, total=False):
    """What every list takes. ``limit`` is the size of a page."""

    created_at_lt: Time | None
    created_at_lte: Time | None
    created_at_eq: Time | None
    created_at_gte: Time | None
    created_at_gt: Time | None
    order: Sorting | None
    limit: SupportsIndex | None


class TransferFilters(ListFilters, total=False):
    """§4.5"""

    order_by: Literal["CREATED_AT", "UPDATED_AT"] | None
    ids: Texts | None
    ref_ids: Texts | None
    profile_ids: Texts | None
    identity_ids: Texts | None
    account_ids: Texts | None
    group_ids: Texts | None
    crypto_tx_hashes: Texts | None
    type: Types | None
    statuses: Statuses | None
    secondary_statuses: Texts | None
    updated_at_lt: Time | None
    updated_at_lte: Time | None
    updated_at_eq: Time | None
    updated_at_gte: Time | None
    updated_at_gt: Time | None


class FiatAccountFilters(ListFilters, total=False):
    """§4.11, and §4.3 of deposit instructions"""

    order_by: Literal["CREATED_AT"] | None
    ids: Texts | None
    ref_ids: Texts | None


class AddressFilters(ListFilters, total=False):
    """§4.15"""

    order_by: Literal["CREATED_AT"] | None
    ids: Texts | None
    crypto_networks: Networks | None
    addresses: Texts | None
    nicknames: Texts | None
    bookmarked_status: bool | None
    identity_id: str | None
    identity_ids: Texts | None


class EventFilters(ListFilters, total=False):
    """§6"""

    type: str | None
    is_test: bool | None


F = TypeVar("F", bound=Callable[..., Any])


def spelled_out(filters: type) -> Callable[[F], F]:
    """Shows the keywords of ``filters`` in the signature of a function that takes them as
    ``**filters``: for ``help()`` and completion, which stop at the two asterisks."""

    def spell(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint.__forward_arg__
            )
            for name, hint in filters.__annotations__.items()
        ]
        shown = signature.replace(parameters=[*own, *keywords])
        setattr(function, "__signature__", shown)  # noqa: B010 - no attribute that types know
        return function

    return spell
