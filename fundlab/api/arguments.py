"""What the operations take: one name for each kind of argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, TypeAlias

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

AmountLike: TypeAlias = str | Decimal | int
"""``"100.00"``, a ``Decimal`` or an ``int``; never a float."""
Time: TypeAlias = datetime | str
"""An aware ``datetime`` (or ``Timestamp``), or RFC 3339 text with a zone."""
Texts: TypeAlias = Iterable[str] | str
"""One text, or at most 100 of them."""
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
