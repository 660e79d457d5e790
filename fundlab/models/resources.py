"""What the service answers with (§§2–3), pages of it, tokens (§5) and problems (§7)."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from fundlab.models.enumerations import (
    CryptoNetwork,
    DepositInstructionsStatus,
    Direction,
    FiatAccountStatus,
    FiatNetwork,
    Open,
    RoutingNumberType,
    StableAsset,
    TransferStatus,
    TransferType,
)
from fundlab.models.parts import (
    FiatAccountOwner,
    FiatNetworkInstructions,
    Resource,
    WithInstructions,
    required,
)
from fundlab.values import Amount, Instant


class FiatDepositInstructions(WithInstructions):
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


class FiatAccount(WithInstructions):
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
    bookmarked: bool | None = Field(None, strict=True)
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
    undelivered_webhooks: int | None = Field(None, strict=True)
    is_test: bool | None = Field(None, strict=True)


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
