"""The closed lists of the interface (§§2–4), each open to values it does not name yet."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final, TypeVar

from pydantic import Field

__all__ = [
    "COMPLETED", "DIRECTIONS", "FINAL_STATUSES", "INTERNAL_TYPES", "SPELLINGS", "STATUSES",
    "CryptoNetwork", "DepositInstructionsStatus", "Direction", "FiatAccountStatus", "FiatNetwork",
    "Open", "Order", "RoutingNumberType", "StableAsset", "TransferStatus", "TransferType",
]  # fmt: skip


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


SPELLINGS: Final[Mapping[str, str]] = {"COMPLETE": TransferStatus.COMPLETED.value}
"""How else a value may be written: §2.4, the note."""
COMPLETED: Final = (TransferStatus.COMPLETED.value, "COMPLETE")
FINAL_STATUSES: Final = (*COMPLETED, TransferStatus.FAILED.value)
STATUSES: Final = (*(status.value for status in TransferStatus), "COMPLETE")
DIRECTIONS: Final = tuple(direction.value for direction in Direction)
INTERNAL_TYPES: Final = (
    TransferType.INTERNAL_TRANSFER_DEBIT.value,
    TransferType.INTERNAL_TRANSFER_CREDIT.value,
)


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
