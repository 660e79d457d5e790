"""Every resource, request, query, enumeration and operation of the interface, once.

Answers (``Resource``) read leniently: unknown fields and enum values are kept, absent ones are
``None``, and ``to_json()`` gives back what was read, unchanged. Requests (``Request``) and queries
(``Query``) are strict: they are checked before anything is sent, and by the sandbox on arrival.
Section numbers are those of the interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from fundlab.values import Amount, Instant, fraction_digits

MAX_FILTER_ENTRIES: Final = 100
MAX_METADATA_PAIRS: Final = 6
MAX_METADATA_LENGTH: Final = 100
TOKEN_LIFETIME_S: Final = 3599
SIGNATURE_LIFETIME_S: Final = 30 * 60

# ---------------------------------------------------------------------------- enumerations


class TransferType(StrEnum):
    """§2.4"""

    INTERNAL_TRANSFER_DEBIT = "INTERNAL_TRANSFER_DEBIT"
    INTERNAL_TRANSFER_CREDIT = "INTERNAL_TRANSFER_CREDIT"
    CRYPTO_DEPOSIT = "CRYPTO_DEPOSIT"
    CRYPTO_WITHDRAWAL = "CRYPTO_WITHDRAWAL"
    WIRE_DEPOSIT = "WIRE_DEPOSIT"
    WIRE_WITHDRAWAL = "WIRE_WITHDRAWAL"
    SEN_DEPOSIT = "SEN_DEPOSIT"
    SEN_WITHDRAWAL = "SEN_WITHDRAWAL"
    BANK_DEPOSIT = "BANK_DEPOSIT"
    BANK_WITHDRAWAL = "BANK_WITHDRAWAL"
    PAXOS_TRANSFER_DEBIT = "PAXOS_TRANSFER_DEBIT"
    PAXOS_TRANSFER_CREDIT = "PAXOS_TRANSFER_CREDIT"
    SIGNET_DEPOSIT = "SIGNET_DEPOSIT"
    SIGNET_WITHDRAWAL = "SIGNET_WITHDRAWAL"
    CBIT_WITHDRAWAL = "CBIT_WITHDRAWAL"
    CBIT_DEPOSIT = "CBIT_DEPOSIT"
    CUBIX_DEPOSIT = "CUBIX_DEPOSIT"
    CUBIX_WITHDRAWAL = "CUBIX_WITHDRAWAL"
    RTP_DEPOSIT = "RTP_DEPOSIT"

    @property
    def direction(self) -> Direction:
        """The direction that belongs to the type."""
        credit = self.endswith(("_DEPOSIT", "_CREDIT"))
        return Direction.CREDIT if credit else Direction.DEBIT


class Direction(StrEnum):
    """§2.4"""

    CREDIT = "CREDIT"
    DEBIT = "DEBIT"


class TransferStatus(StrEnum):
    """§2.4, §3.3"""

    PENDING = "PENDING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class CryptoNetwork(StrEnum):
    """§2.7"""

    BITCOIN = "BITCOIN"
    ETHEREUM = "ETHEREUM"
    BITCOIN_CASH = "BITCOIN_CASH"
    LITECOIN = "LITECOIN"
    SOLANA = "SOLANA"
    POLYGON_POS = "POLYGON_POS"
    BASE = "BASE"
    ARBITRUM_ONE = "ARBITRUM_ONE"
    STELLAR = "STELLAR"
    INK = "INK"
    XLAYER = "XLAYER"


class FiatNetwork(StrEnum):
    """§4.1"""

    WIRE = "WIRE"
    CUBIX = "CUBIX"


class RoutingNumberType(StrEnum):
    """§2.1"""

    ABA = "ABA"
    SWIFT = "SWIFT"


class FiatAccountStatus(StrEnum):
    """§2.3, §3.1"""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"


class DepositInstructionsStatus(StrEnum):
    """§2.2, §3.2"""

    VALID = "VALID"
    DEPRECATED = "DEPRECATED"


class StableAsset(StrEnum):
    """Assets an orchestration rule converts between (§2.6); at most two decimals in requests."""

    USDG = "USDG"
    PYUSD = "PYUSD"
    USDP = "USDP"
    USDC = "USDC"
    USD = "USD"


class Order(StrEnum):
    """§4.5"""

    ASC = "ASC"
    DESC = "DESC"


E = TypeVar("E", bound=StrEnum)
Open = Annotated[E | str, Field(union_mode="left_to_right")]
"""A value of the enumeration, or any text it does not list yet."""

# ---------------------------------------------------------------------------- bases


class Resource(BaseModel):
    """Something the service answers with. Immutable; unknown fields are kept as attributes."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def to_json(self) -> dict[str, Any]:
        """What was read, unchanged: the same members, absent ones absent, texts to the letter."""
        return self.model_dump(mode="json", exclude_unset=True)


def required(*fields: str) -> ConfigDict:
    """Fields the interface requires in an answer: documented, though reading does without."""
    return ConfigDict(json_schema_extra={"required": list(fields)})


class Request(BaseModel):
    """A body sent to the service. ``to_json()`` leaves out what was not given."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


def _check_metadata(value: dict[str, str]) -> dict[str, str]:
    if len(value) > MAX_METADATA_PAIRS:
        raise ValueError(f"{len(value)} metadata pairs; at most {MAX_METADATA_PAIRS}")
    for key, text in value.items():
        if len(key) > MAX_METADATA_LENGTH or len(text) > MAX_METADATA_LENGTH:
            raise ValueError(
                f"metadata {key[:20]!r}: keys and values have at most "
                f"{MAX_METADATA_LENGTH} characters"
            )
    return value


def _check_positive(value: Amount) -> Amount:
    if not value:
        raise ValueError(f"amount {value.text!r} must be greater than 0")
    return value


Id = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Metadata = Annotated[
    dict[str, str],
    AfterValidator(_check_metadata),
    Field(json_schema_extra={"maxProperties": MAX_METADATA_PAIRS}),
]
PositiveAmount = Annotated[Amount, AfterValidator(_check_positive)]

# ---------------------------------------------------------------------------- §2.1 common parts


class Address(Resource):
    """§2.1"""

    country: str | None = None
    address1: str | None = None
    address2: str | None = None
    city: str | None = None
    province: str | None = None
    zip_code: str | None = None


class RoutingDetails(Resource):
    """§2.1"""

    routing_number_type: Open[RoutingNumberType] | None = None
    routing_number: str | None = None
    bank_name: str | None = None
    bank_address: Address | None = None


class WireInstructions(Resource):
    """§2.1. ``account_number`` may arrive masked with ``X``."""

    account_number: str | None = None
    fiat_account_owner_address: Address | None = None
    routing_details: RoutingDetails | None = None
    intermediary_routing_details: RoutingDetails | None = None


class CubixInstructions(Resource):
    """The account at the CUBIX bank, in the layout the live service returns."""

    account_id: str | None = None


class InstitutionDetails(Resource):
    """§2.1"""

    name: str | None = None


class PersonDetails(Resource):
    """§2.1"""

    first_name: str | None = None
    last_name: str | None = None
    name: str | None = None


class FiatAccountOwner(Resource):
    """§2.1. One of the two; live answers carry the other as ``null``."""

    institution_details: InstitutionDetails | None = None
    person_details: PersonDetails | None = None

    @property
    def name(self) -> str | None:
        """The owner's name, whichever variant holds it."""
        if self.institution_details is not None:
            return self.institution_details.name
        person = self.person_details
        if person is None:
            return None
        parts = [part for part in (person.first_name, person.last_name) if part]
        return " ".join(parts) or person.name


class FiatNetworkInstructions(Resource):
    """§2.1. ``wire``, or one of the two layouts of a CUBIX account."""

    wire: WireInstructions | None = None
    cubix: CubixInstructions | None = None
    wallet_address: str | None = None


class _WithInstructions(Resource):
    """Live answers nest ``status``, ``metadata`` and the instructions in unexpected places."""

    @model_validator(mode="after")
    def _lift_nested(self) -> Self:
        # Written past pydantic so that to_json() still gives back what was read.
        lifted = self.__dict__
        owner = lifted.get("fiat_account_owner")
        if lifted.get("fiat_network_instructions") is None and owner is not None:
            nested = (owner.model_extra or {}).get("fiat_network_instructions")
            if isinstance(nested, Mapping):
                lifted["fiat_network_instructions"] = FiatNetworkInstructions.model_validate(nested)
        instructions = lifted.get("fiat_network_instructions")
        if instructions is not None:
            for name, value in (instructions.model_extra or {}).items():
                if name in type(self).model_fields and lifted.get(name) is None:
                    lifted[name] = (
                        FiatAccountOwner.model_validate(value)
                        if name == "fiat_account_owner"
                        else value
                    )
        return self


# ---------------------------------------------------------------------------- resources


class FiatDepositInstructions(_WithInstructions):
    """§2.2"""

    model_config = required(
        "id", "profile_id", "status", "memo_id", "fiat_network_instructions", "created_at"
    )

    id: str
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    customer_id: str | None = None
    ref_id: str | None = None
    status: Open[DepositInstructionsStatus] | None = None
    memo_id: str | None = None
    fiat_network_instructions: FiatNetworkInstructions | None = None
    fiat_account_owner: FiatAccountOwner | None = None
    metadata: dict[str, Any] | None = None
    created_at: Instant | None = None


class FiatAccount(_WithInstructions):
    """§2.3"""

    model_config = required("id", "fiat_network_instructions", "status", "created_at")

    id: str
    ref_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    fiat_account_owner: FiatAccountOwner | None = None
    fiat_network_instructions: FiatNetworkInstructions | None = None
    status: Open[FiatAccountStatus] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None


class Transfer(Resource):
    """§2.4. ``total`` is the unsigned change of the balance of ``balance_asset`` or ``asset``."""

    model_config = required(
        "id", "customer_id", "profile_id", "amount", "fee", "total", "asset", "direction", "type",
        "status", "created_at", "updated_at",
    )  # fmt: skip

    id: str
    ref_id: str | None = None
    customer_id: str | None = None
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    amount: Amount | None = None
    fee: Amount | None = None
    total: Amount | None = None
    asset: str | None = None
    balance_asset: str | None = None
    direction: Open[Direction] | None = None
    type: Open[TransferType] | None = None
    status: Open[TransferStatus] | None = None
    secondary_status: dict[str, Any] | None = None
    status_details: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None
    auto_conversion: dict[str, Any] | None = None
    group_id: str | None = None
    fiat_account_id: str | None = None
    memo: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None
    crypto_tx_hash: str | None = None
    crypto_tx_index: str | None = None
    destination_address: str | None = None
    notional_value: Amount | None = None


class ProfileBalance(Resource):
    """§2.5"""

    model_config = required("asset", "available", "trading")

    asset: str
    available: Amount
    trading: Amount


class CryptoEnd(Resource):
    """§2.6. ``address_id`` on sources only."""

    address_id: str | None = None
    address: str | None = None
    network: Open[CryptoNetwork] | None = None


class FiatEnd(Resource):
    """§2.6. The first four belong to sources, the last two to destinations."""

    deposit_instructions_id: str | None = None
    network: Open[FiatNetwork] | None = None
    account_type: Open[RoutingNumberType] | None = None
    memo_id: str | None = None
    fiat_account_id: str | None = None
    memo: str | None = None


class ProfileEnd(Resource):
    """§2.6"""

    profile_id: str | None = None


class RuleEnd(Resource):
    """Source or destination of an orchestration rule: one of three variants (§2.6)."""

    crypto: CryptoEnd | None = None
    fiat: FiatEnd | None = None
    profile: ProfileEnd | None = None


class OrchestrationRule(Resource):
    """§2.6"""

    model_config = required(
        "id", "ref_id", "profile_id", "source_asset", "destination_asset", "source", "created_at"
    )

    id: str
    ref_id: str | None = None
    nickname: str | None = None
    profile_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    source_asset: Open[StableAsset] | None = None
    destination_asset: Open[StableAsset] | None = None
    source: RuleEnd | None = None
    destination: RuleEnd | None = None
    status: str | None = None
    created_at: Instant | None = None


class OrchestrationRuleAnswer(Resource):
    """§4.14"""

    rule: OrchestrationRule


class CryptoDestinationAddress(Resource):
    """§2.8"""

    model_config = required("id", "crypto_network", "address", "status", "created_at", "bookmarked")

    id: str
    crypto_network: Open[CryptoNetwork] | None = None
    address: str | None = None
    nickname: str | None = None
    status: str | None = None
    created_at: Instant | None = None
    bookmarked: bool | None = None
    identity_id: str | None = None


class CryptoWithdrawalFee(Resource):
    """§2.9"""

    model_config = required(
        "id", "fee", "asset", "expires_at", "destination_address", "crypto_network"
    )

    id: str
    fee: Amount
    asset: str | None = None
    amount: Amount | None = None
    total: Amount | None = None
    expires_at: Instant | None = None
    destination_address: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None


class DepositAddress(Resource):
    """§4.13, in the layout the live service returns."""

    model_config = required("id", "profile_id", "crypto_network", "address", "created_at")

    id: str
    profile_id: str | None = None
    customer_id: str | None = None
    ref_id: str | None = None
    identity_id: str | None = None
    account_id: str | None = None
    crypto_network: Open[CryptoNetwork] | None = None
    address: str | None = None
    conversion_target_asset: str | None = None
    compatible_crypto_networks: list[Open[CryptoNetwork]] | None = None
    metadata: dict[str, Any] | None = None
    created_at: Instant | None = None


class Event(Resource):
    """§2.10"""

    model_config = required("id", "type", "object_type", "object", "created_at")

    id: str
    type: str | None = None
    object_type: str | None = None
    object: dict[str, Any] | None = None
    created_at: Instant | None = None
    undelivered_webhooks: int | None = None
    is_test: bool | None = None


class TransferPage(Resource):
    """§4.5"""

    items: list[Transfer]
    next_page_cursor: str | None = None


class FiatAccountPage(Resource):
    """§4.11"""

    items: list[FiatAccount]
    next_page_cursor: str | None = None


class FiatDepositInstructionsPage(Resource):
    """§4.3"""

    items: list[FiatDepositInstructions]
    next_page_cursor: str | None = None


class CryptoDestinationAddressPage(Resource):
    """§4.15"""

    addresses: list[CryptoDestinationAddress]
    next_page_cursor: str | None = None


class EventPage(Resource):
    """§6"""

    events: list[Event]
    next_page_cursor: str | None = None


class Token(Resource):
    """§5.1"""

    access_token: str = Field(repr=False)
    expires_in: int
    scope: str = ""
    token_type: str = "bearer"


class Problem(Resource):
    """RFC 9457, the body of every error (§7)."""

    type: str = "about:blank"
    title: str | None = None
    status: int | None = None
    detail: str | None = None
    meta: dict[str, Any] | None = None


# ---------------------------------------------------------------------------- requests


def _check_owner(value: FiatAccountOwner) -> FiatAccountOwner:
    if (value.institution_details is None) == (value.person_details is None):
        raise ValueError("give exactly one of institution_details and person_details")
    if not value.name:
        raise ValueError("the owner has no name")
    return value


def _check_instructions(value: FiatNetworkInstructions) -> FiatNetworkInstructions:
    if value.wire is None and value.cubix is None and value.wallet_address is None:
        raise ValueError("give wire, cubix or wallet_address")
    if value.wire is not None:
        if value.cubix is not None or value.wallet_address is not None:
            raise ValueError("give either wire or a CUBIX account, not both")
        if not value.wire.account_number:
            raise ValueError("wire.account_number is missing")
        routing = value.wire.routing_details
        if routing is None or not routing.routing_number:
            raise ValueError("wire.routing_details.routing_number is missing")
        if routing.routing_number_type not in set(RoutingNumberType):
            raise ValueError("wire.routing_details.routing_number_type must be ABA or SWIFT")
    elif not (value.wallet_address or (value.cubix and value.cubix.account_id)):
        raise ValueError("the CUBIX account has no id")
    return value


def _check_decimals(asset: str | None, amount: Amount | None) -> None:
    if amount is not None and asset in set(StableAsset) and fraction_digits(amount) > 2:
        raise ValueError(f"amount {amount.text!r} has more than 2 decimals, too many for {asset}")


Owner = Annotated[FiatAccountOwner, AfterValidator(_check_owner)]
Instructions = Annotated[FiatNetworkInstructions, AfterValidator(_check_instructions)]


class CreateFiatDepositInstructions(Request):
    """§4.1. ``routing_number_type`` goes with ``WIRE`` and only with it."""

    profile_id: Id
    fiat_network: FiatNetwork
    routing_number_type: RoutingNumberType | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    ref_id: Id | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _check_routing(self) -> Self:
        if (self.fiat_network is FiatNetwork.WIRE) != (self.routing_number_type is not None):
            raise ValueError("routing_number_type is needed for WIRE and omitted for CUBIX")
        return self


class InitiateSandboxFiatDeposit(Request):
    """§4.4"""

    amount: PositiveAmount
    asset: Literal["USD"]
    memo_id: Id
    fiat_network_instructions: Instructions
    fiat_account_owner: Owner

    @model_validator(mode="after")
    def _check_amount(self) -> Self:
        _check_decimals(self.asset, self.amount)
        return self


class CreateFiatAccount(Request):
    """§4.8"""

    ref_id: Id | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    fiat_account_owner: Owner
    fiat_network_instructions: Instructions
    metadata: Metadata | None = None


class UpdateFiatAccount(Request):
    """§4.10. Every field optional."""

    fiat_account_owner: Owner | None = None
    fiat_network_instructions: Instructions | None = None
    metadata: Metadata | None = None


class CreateFiatWithdrawal(Request):
    """§4.12"""

    ref_id: Id | None = None
    amount: PositiveAmount
    asset: Literal["USD"]
    fiat_account_id: Id
    profile_id: Id
    identity_id: Id | None = None
    account_id: Id | None = None
    metadata: Metadata | None = None

    @model_validator(mode="after")
    def _check_amount(self) -> Self:
        _check_decimals(self.asset, self.amount)
        return self


class CreateDepositAddress(Request):
    """§4.13"""

    profile_id: Id
    crypto_network: CryptoNetwork
    ref_id: Id | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    metadata: Metadata | None = None


def _check_one_variant(value: RuleEnd) -> RuleEnd:
    given = [name for name in ("crypto", "fiat", "profile") if getattr(value, name) is not None]
    if len(given) != 1:
        raise ValueError("give exactly one of crypto, fiat and profile")
    return value


class CreateOrchestrationRule(Request):
    """§2.6, §4.14. Source and destination assets differ."""

    ref_id: Id
    profile_id: Id
    source_asset: StableAsset
    destination_asset: StableAsset
    source: Annotated[RuleEnd, AfterValidator(_check_one_variant)]
    nickname: Annotated[str, StringConstraints(max_length=200)] | None = None
    identity_id: Id | None = None
    account_id: Id | None = None
    destination: Annotated[RuleEnd, AfterValidator(_check_one_variant)] | None = None

    @model_validator(mode="after")
    def _check_assets(self) -> Self:
        if self.source_asset is self.destination_asset:
            raise ValueError(f"source_asset and destination_asset are both {self.source_asset}")
        return self


class CreateCryptoWithdrawalFee(Request):
    """§4.16. Exactly one of ``amount`` and ``total``."""

    asset: Id
    destination_address: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    crypto_network: CryptoNetwork
    amount: PositiveAmount | None = None
    total: PositiveAmount | None = None
    identity_id: Id | None = None

    @model_validator(mode="after")
    def _check_amount(self) -> Self:
        if (self.amount is None) == (self.total is None):
            raise ValueError("give exactly one of amount and total")
        _check_decimals(self.asset, self.amount or self.total)
        return self


# ---------------------------------------------------------------------------- queries


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


T = TypeVar("T")
Filter = Annotated[list[T], BeforeValidator(_as_list), Field(max_length=MAX_FILTER_ENTRIES)]
"""At most 100 entries; a lone text stands for a list of one. Sent by repeating the key."""


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
        order_by = given.get("order_by") or ("UPDATED_AT" if updated else "CREATED_AT")
        order = given.get("order") or ("ASC" if order_by == "UPDATED_AT" else "DESC")
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


# ---------------------------------------------------------------------------- operations


@dataclass(frozen=True)
class Operation:
    """One row of §4: where it is, which scope it needs, what goes in and what comes out."""

    name: str
    section: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    scope: str
    answer: type[Resource] | None
    body: type[Request] | None = None
    query: type[Query] | None = None

    @property
    def items(self) -> str | None:
        """The member of a page that holds its rows; ``None`` where nothing is paged."""
        if self.query is None or self.answer is None:
            return None
        return next(iter(self.answer.model_fields))


_TRANSFER = "/v2/transfer"
OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for operation in (
        Operation(
            "create_fiat_deposit_instructions", "4.1", "POST",
            f"{_TRANSFER}/fiat-deposit-instructions",
            "transfer:write_fiat_deposit_instructions", FiatDepositInstructions,
            body=CreateFiatDepositInstructions,
        ),
        Operation(
            "get_fiat_deposit_instructions", "4.2", "GET",
            f"{_TRANSFER}/fiat-deposit-instructions/{{id}}",
            "transfer:read_fiat_deposit_instructions", FiatDepositInstructions,
        ),
        Operation(
            "list_fiat_deposit_instructions", "4.3", "GET",
            f"{_TRANSFER}/fiat-deposit-instructions",
            "transfer:read_fiat_deposit_instructions", FiatDepositInstructionsPage,
            query=FiatDepositInstructionsQuery,
        ),
        Operation(
            "initiate_sandbox_fiat_deposit", "4.4", "POST", "/v2/sandbox/fiat-deposits",
            "transfer:write_sandbox_fiat_deposit", None, body=InitiateSandboxFiatDeposit,
        ),
        Operation(
            "list_transfers", "4.5", "GET", f"{_TRANSFER}/transfers",
            "transfer:read_transfer", TransferPage, query=TransferQuery,
        ),
        Operation(
            "get_transfer", "4.6", "GET", f"{_TRANSFER}/transfers/{{id}}",
            "transfer:read_transfer", Transfer,
        ),
        Operation(
            "get_profile_balance", "4.7", "GET", "/v2/profiles/{profile_id}/balances/{asset}",
            "funding:read_profile", ProfileBalance,
        ),
        Operation(
            "create_fiat_account", "4.8", "POST", f"{_TRANSFER}/fiat-accounts",
            "transfer:write_fiat_account", FiatAccount, body=CreateFiatAccount,
        ),
        Operation(
            "get_fiat_account", "4.9", "GET", f"{_TRANSFER}/fiat-accounts/{{id}}",
            "transfer:read_fiat_account", FiatAccount,
        ),
        Operation(
            "update_fiat_account", "4.10", "PUT", f"{_TRANSFER}/fiat-accounts/{{id}}",
            "transfer:write_fiat_account", FiatAccount, body=UpdateFiatAccount,
        ),
        Operation(
            "list_fiat_accounts", "4.11", "GET", f"{_TRANSFER}/fiat-accounts",
            "transfer:read_fiat_account", FiatAccountPage, query=FiatAccountQuery,
        ),
        Operation(
            "create_fiat_withdrawal", "4.12", "POST", f"{_TRANSFER}/fiat-withdrawals",
            "transfer:write_fiat_withdrawal", Transfer, body=CreateFiatWithdrawal,
        ),
        Operation(
            "create_deposit_address", "4.13", "POST", f"{_TRANSFER}/deposit-addresses",
            "transfer:write_deposit_address", DepositAddress, body=CreateDepositAddress,
        ),
        Operation(
            "create_orchestration_rule", "4.14", "POST", "/v2/orchestration/rules",
            "orchestration:write_orchestration_rule", OrchestrationRuleAnswer,
            body=CreateOrchestrationRule,
        ),
        Operation(
            "list_crypto_destination_addresses", "4.15", "GET",
            f"{_TRANSFER}/crypto-destination-addresses",
            "transfer:read_crypto_destination_address", CryptoDestinationAddressPage,
            query=CryptoDestinationAddressQuery,
        ),
        Operation(
            "create_crypto_withdrawal_fee", "4.16", "POST",
            f"{_TRANSFER}/fees/crypto-withdrawal",
            "fee:write_crypto_withdrawal_fee", CryptoWithdrawalFee,
            body=CreateCryptoWithdrawalFee,
        ),
        Operation(
            "list_events", "4.17", "GET", "/v2/events",
            "events:read_event", EventPage, query=EventQuery,
        ),
    )
}  # fmt: skip
"""Every operation of §4 by its name in snake case."""

SCOPES: Final[tuple[str, ...]] = tuple(sorted({op.scope for op in OPERATIONS.values()}))
"""Every scope of §5.1."""
