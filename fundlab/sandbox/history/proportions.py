"""What a history is made of: its days, kinds of transfers and assets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from fundlab.models import CryptoNetwork, StableAsset, TransferType

COMPLETED, PENDING, FAILED = 0, 1, 2
T: Final = TransferType
N: Final = CryptoNetwork
NETWORKS: Final = tuple(CryptoNetwork)


@dataclass(frozen=True)
class Kind:
    """One row of the package's table. ``opposite`` is what it becomes when funds are short."""

    type: TransferType
    share: float
    assets: Literal["usd", "coins", "any"]
    median_usd: float
    settles_s: float
    opposite: TransferType | None = None


TOGETHER: Final = (
    Kind(T.CRYPTO_DEPOSIT, 0.20, "coins", 4_000, 900),
    Kind(T.CRYPTO_WITHDRAWAL, 0.16, "coins", 2_500, 1_200, T.CRYPTO_DEPOSIT),
    Kind(T.WIRE_DEPOSIT, 0.14, "usd", 25_000, 5_400),
    Kind(T.WIRE_WITHDRAWAL, 0.11, "usd", 15_000, 14_400, T.WIRE_DEPOSIT),
    Kind(T.INTERNAL_TRANSFER_DEBIT, 0.05, "any", 5_000, 0, T.PAXOS_TRANSFER_CREDIT),
    Kind(T.INTERNAL_TRANSFER_CREDIT, 0.05, "any", 5_000, 0),
    Kind(T.PAXOS_TRANSFER_CREDIT, 0.04, "any", 6_000, 20),
    Kind(T.PAXOS_TRANSFER_DEBIT, 0.04, "any", 5_000, 20, T.PAXOS_TRANSFER_CREDIT),
    Kind(T.CUBIX_DEPOSIT, 0.04, "usd", 12_000, 60),
    Kind(T.CUBIX_WITHDRAWAL, 0.03, "usd", 9_000, 90, T.CUBIX_DEPOSIT),
    Kind(T.BANK_DEPOSIT, 0.04, "usd", 1_800, 130_000),
    Kind(T.BANK_WITHDRAWAL, 0.03, "usd", 1_500, 100_000, T.BANK_DEPOSIT),
    Kind(T.RTP_DEPOSIT, 0.03, "usd", 900, 9),
    Kind(T.SEN_DEPOSIT, 0.008, "usd", 30_000, 30),
    Kind(T.SEN_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.SEN_DEPOSIT),
    Kind(T.SIGNET_DEPOSIT, 0.007, "usd", 30_000, 30),
    Kind(T.SIGNET_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.SIGNET_DEPOSIT),
    Kind(T.CBIT_DEPOSIT, 0.007, "usd", 30_000, 30),
    Kind(T.CBIT_WITHDRAWAL, 0.006, "usd", 30_000, 30, T.CBIT_DEPOSIT),
)
"""Drawn together: whoever changes this table changes every history."""
ADDED: Final[tuple[Kind, ...]] = ()
"""What is added: each draws by itself which of the others' transfers it takes over, so that the
rest of a history stays as it was."""
KINDS: Final = (*TOGETHER, *ADDED)
KIND_OF: Final = {kind.type: index for index, kind in enumerate(KINDS)}
DIRECTIONS: Final = tuple(kind.type.direction.value for kind in KINDS)
IS_CREDIT: Final = tuple(direction == "CREDIT" for direction in DIRECTIONS)
INTERNAL_DEBIT: Final = KIND_OF[T.INTERNAL_TRANSFER_DEBIT]
INTERNAL_CREDIT: Final = KIND_OF[T.INTERNAL_TRANSFER_CREDIT]
INTERNAL: Final = (INTERNAL_DEBIT, INTERNAL_CREDIT)


@dataclass(frozen=True)
class Asset:
    """``drawn`` decimals are drawn at once; ETH's eighteen need nine more."""

    name: str
    share: float
    price_usd: float
    drawn: int
    networks: tuple[CryptoNetwork, ...] = ()


ASSETS: Final = (
    Asset("USD", 0.40, 1, 2),
    Asset("USDC", 0.19, 1, 2, (N.ETHEREUM, N.SOLANA, N.BASE, N.POLYGON_POS, N.ARBITRUM_ONE)),
    Asset("USDG", 0.07, 1, 2, (N.ETHEREUM, N.SOLANA, N.INK, N.XLAYER)),
    Asset("PYUSD", 0.08, 1, 2, (N.ETHEREUM, N.SOLANA, N.STELLAR)),
    Asset("USDP", 0.05, 1, 2, (N.ETHEREUM, N.SOLANA)),
    Asset("BTC", 0.09, 98_000, 8, (N.BITCOIN,)),
    Asset("ETH", 0.07, 3_900, 9, (N.ETHEREUM, N.BASE, N.ARBITRUM_ONE)),
    Asset("SOL", 0.03, 190, 9, (N.SOLANA,)),
    Asset("LTC", 0.01, 95, 8, (N.LITECOIN,)),
    Asset("BCH", 0.01, 480, 8, (N.BITCOIN_CASH,)),
)
USD: Final = 0
STABLE: Final = [index for index, asset in enumerate(ASSETS) if asset.name in set(StableAsset)]
