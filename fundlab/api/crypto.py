"""Crypto addresses, fee quotes and conversion rules (§4.13 to §4.16)."""

from __future__ import annotations

from typing import Literal

from fundlab.api.arguments import (
    AmountLike,
    Asset,
    End,
    Metadata,
    Network,
    Networks,
    Sorting,
    Texts,
    Time,
)
from fundlab.api.caller import Caller
from fundlab.api.pages import Rows
from fundlab.models import (
    ConversionTarget,
    CryptoDestinationAddress,
    CryptoWithdrawalFee,
    DepositAddress,
    OrchestrationRule,
)


class CryptoOperations(Caller):
    """Part of ``Client``."""

    def create_deposit_address(
        self,
        *,
        profile_id: str,
        crypto_network: Network,
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        conversion_target_asset: ConversionTarget | None = None,
        metadata: Metadata | None = None,
    ) -> DepositAddress:
        """An address on ``crypto_network`` whose deposits credit ``profile_id`` (§4.13).

        ``identity_id`` and ``account_id`` name an end user; ``conversion_target_asset`` is ``USD``
        to have stablecoins credited as USD, by default ``NO_CONVERSION``; ``metadata`` has at most
        6 pairs. With a ``ref_id`` the call is safe to repeat.

        >>> address = client.create_deposit_address(
        ...     profile_id=sandbox.profile_ids[0], crypto_network="ETHEREUM"
        ... )
        >>> str(address.crypto_network)
        'ETHEREUM'
        """
        return self._change("create_deposit_address", DepositAddress, locals())

    def create_orchestration_rule(
        self,
        *,
        ref_id: str,
        profile_id: str,
        source_asset: Asset,
        destination_asset: Asset,
        source: End,
        destination: End | None = None,
        nickname: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
    ) -> OrchestrationRule:
        """Convert what arrives at ``source`` from one asset to another (§4.14).

        ``source_asset`` and ``destination_asset`` are two of ``USDG``, ``PYUSD``, ``USDP``,
        ``USDC`` and ``USD``. ``source`` and ``destination`` hold one of ``crypto``, ``fiat`` and
        ``profile``, for example ``{"profile": {"profile_id": …}}``. ``profile_id`` is the account
        owner's; ``identity_id`` and ``account_id`` name an end user; ``nickname`` is yours. Returns
        the rule itself; the ``ref_id`` makes the call safe to repeat.

        >>> rule = client.create_orchestration_rule(
        ...     ref_id="rule-1",
        ...     profile_id=sandbox.profile_ids[0],
        ...     source_asset="USDC",
        ...     destination_asset="USD",
        ...     source={"crypto": {"network": "ETHEREUM"}},
        ... )
        >>> str(rule.source_asset), str(rule.destination_asset)
        ('USDC', 'USD')
        """
        return self._change("create_orchestration_rule", OrchestrationRule, locals())

    def list_crypto_destination_addresses(
        self,
        *,
        ids: Texts | None = None,
        crypto_networks: Networks | None = None,
        addresses: Texts | None = None,
        nicknames: Texts | None = None,
        bookmarked_status: bool | None = None,
        identity_id: str | None = None,
        identity_ids: Texts | None = None,
        created_at_lt: Time | None = None,
        created_at_lte: Time | None = None,
        created_at_eq: Time | None = None,
        created_at_gte: Time | None = None,
        created_at_gt: Time | None = None,
        order: Sorting | None = None,
        order_by: Literal["CREATED_AT"] | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[CryptoDestinationAddress]:
        """Saved crypto addresses, newest first unless ``order`` is ``ASC`` (§4.15).

        ``ids``, ``crypto_networks``, ``addresses`` and ``nicknames`` keep rows with one of the
        values given, ``bookmarked_status`` those that are bookmarked or not. Without
        ``identity_id`` (or ``identity_ids``) only first-party addresses come. ``created_at_lt``,
        ``created_at_lte``, ``created_at_eq``, ``created_at_gte`` and ``created_at_gt`` compare
        times; ``order_by`` is ``CREATED_AT``. ``page_size`` is 1 to 1000 (100), ``max_rows`` how
        many come in all, ``page_cursor`` where to start.

        >>> found = client.list_crypto_destination_addresses(crypto_networks=["SOLANA"])
        >>> {str(address.crypto_network) for address in found}
        {'SOLANA'}
        """
        return self._list("list_crypto_destination_addresses", locals())

    def create_crypto_withdrawal_fee(
        self,
        *,
        asset: str,
        destination_address: str,
        crypto_network: Network,
        amount: AmountLike | None = None,
        total: AmountLike | None = None,
        identity_id: str | None = None,
    ) -> CryptoWithdrawalFee:
        """A fee guaranteed until ``expires_at`` for withdrawing ``asset`` (§4.16).

        ``destination_address`` lies on ``crypto_network``. Give exactly one of ``amount`` (without
        the fee) and ``total`` (with it). ``identity_id`` is required for end users.

        >>> quote = client.create_crypto_withdrawal_fee(
        ...     asset="USDC",
        ...     destination_address="0x" + "1" * 40,
        ...     crypto_network="ETHEREUM",
        ...     amount="2500",
        ... )
        >>> quote.fee.text, quote.total.text
        ('3.00', '2503.00')
        """
        return self._change("create_crypto_withdrawal_fee", CryptoWithdrawalFee, locals())
