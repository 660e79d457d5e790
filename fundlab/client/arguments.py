"""What the operations take: one name for each kind of argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, SupportsIndex, TypeAlias, TypedDict, TypeVar
from uuid import UUID

from fundlab.base.errors import InvalidRequest, a_type
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
Invalid: TypeAlias = Literal["stop", "set_aside"]
"""What becomes of a row that cannot be read."""
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


# The filters of the lists, as keywords of the client's methods and of the loaders.


class ListFilters(TypedDict, total=False):
    """What every list takes."""

    created_at_lt: Time | None
    created_at_lte: Time | None
    created_at_eq: Time | None
    created_at_gte: Time | None
    created_at_gt: Time | None
    order: Sorting | None


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


class LoadOptions(TypedDict, total=False):
    """What every loader takes beside the filters of its list."""

    since: Time | None
    until: Time | None
    workers: SupportsIndex
    progress: bool | None
    limit: SupportsIndex | None
    invalid: Invalid


class TransferLoad(LoadOptions, TransferFilters, total=False): ...


class FiatAccountLoad(LoadOptions, FiatAccountFilters, total=False): ...


class AddressLoad(LoadOptions, AddressFilters, total=False): ...


class EventLoad(LoadOptions, EventFilters, total=False): ...


_TIMES: Final = {
    f"{column}_{relation}": f"rows {column.removesuffix('_at')} {words} this time"
    for column in ("created_at", "updated_at")
    for relation, words in (
        ("lt", "before"), ("lte", "at or before"), ("eq", "exactly at"), ("gte", "at or after"),
        ("gt", "after"),
    )
}  # fmt: skip
KEYWORDS: Final[Mapping[str, str]] = {
    "client": "what ``fl.connect()`` gives",
    "since": "rows created at this time or later",
    "until": "rows created before this time",
    "workers": "how many pages are fetched at once, 1 or more",
    "progress": "whether a bar shows how far it is; by itself in a terminal and a notebook",
    "invalid": "what of a row that cannot be read: 'stop', or 'set_aside' with a warning",
    "expand": "whether the payload becomes columns",
    "order": f"{' or '.join(Order)}: oldest or newest first",
    "order_by": "what ``order`` is about; that of the time filter where one is given",
    "limit": "rows in one answer of the service",
    "page_size": "rows in one answer of the service",
    "max_rows": "how many rows come in all",
    "page_cursor": "where to start, from an earlier page",
    "ids": "one id or several",
    "ref_ids": "one ``ref_id`` or several",
    "profile_ids": "one profile or several",
    "identity_id": "one end user",
    "identity_ids": "one end user or several",
    "account_ids": "one account of an end user or several",
    "group_ids": "one group or several; an internal transfer's two halves share theirs",
    "crypto_tx_hashes": "one hash of a blockchain transaction or several",
    "type": f"one or several of {', '.join(TransferType)}, or another text; of events their kind, "
    "such as ``transfer.wire_deposit.completed``",
    "statuses": f"one or several of {', '.join(TransferStatus)}",
    "secondary_statuses": "one name of a secondary status or several",
    "crypto_networks": f"one or several of {', '.join(CryptoNetwork)}",
    "addresses": "one address or several, as they are written",
    "nicknames": "one nickname or several",
    "bookmarked_status": "``True`` or ``False``; both where it is absent",
    "is_test": "``True`` for events of tests, ``False`` (as where it is absent) for real ones",
    **_TIMES,
}
"""What a keyword of the lists and loaders keeps, and what it accepts."""

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")


def connected(client: C) -> C:
    """``client`` itself. Raises ``InvalidRequest`` for what is not a client, which is not quoted:
    it may be settings, or a secret.

    >>> connected("production")
    Traceback (most recent call last):
    ...
    fundlab.errors.InvalidRequest: client is a str; give what fl.connect() returns
    """
    if not hasattr(client, "fetch_page"):
        raise InvalidRequest(f"client is {a_type(client)}; give what fl.connect() returns")
    return client


_DEFAULTS: Final = {"workers": 1, "invalid": "stop"}


def spelled_out(filters: type) -> Callable[[F], F]:
    """Shows the keywords of ``filters`` in the signature of a function that takes them as
    ``**filters``, for ``help()`` and completion, which stop at the two asterisks; and says in its
    docstring what each of its keywords keeps and accepts."""

    def spell(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name),
                annotation=hint.__forward_arg__,
            )
            for name, hint in filters.__annotations__.items()
        ]
        shown = signature.replace(parameters=[*own, *keywords])
        setattr(function, "__signature__", shown)  # noqa: B010 - no attribute that types know
        told = [f":param {name}: {KEYWORDS[name]}" for name in shown.parameters if name != "self"]
        function.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", *told])
        return function

    return spell
