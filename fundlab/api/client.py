"""The service as an object: one method for each operation of the interface (§4).

``connect()`` makes a ``Client`` from keywords, the environment or a profile of the settings file.
Every method checks its arguments before anything is sent (``InvalidRequest``) and raises
``ServiceError`` when the service says no, ``NetworkError`` when no usable answer arrives and
``ProtocolError`` when the answer is not the interface's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from fundlab.api.caller import Caller
from fundlab.api.rows import Rows
from fundlab.api.signing import Signer
from fundlab.errors import InvalidRequest
from fundlab.models import (
    OPERATIONS,
    CryptoDestinationAddress,
    CryptoNetwork,
    CryptoWithdrawalFee,
    DepositAddress,
    Event,
    FiatAccount,
    FiatAccountOwner,
    FiatDepositInstructions,
    FiatNetwork,
    FiatNetworkInstructions,
    OrchestrationRule,
    Order,
    ProfileBalance,
    RoutingNumberType,
    RuleEnd,
    StableAsset,
    Transfer,
    TransferStatus,
    TransferType,
)
from fundlab.settings import Settings, masked

AmountLike: TypeAlias = str | Decimal | int
"""``"100.00"``, a ``Decimal`` or an ``int``; never a float."""
Time: TypeAlias = datetime | str
"""An aware ``datetime`` (or ``Timestamp``), or RFC 3339 text."""
Texts: TypeAlias = Iterable[str] | str
"""One text, or at most 100 of them."""
Owner: TypeAlias = FiatAccountOwner | Mapping[str, Any]
Instructions: TypeAlias = FiatNetworkInstructions | Mapping[str, Any]
End: TypeAlias = RuleEnd | Mapping[str, Any]


def connect(profile: str | None = None, *, signer: Signer | None = None, **settings: Any) -> Client:
    """A client for the service named by ``settings``, the environment or ``profile``.

    Keywords are the fields of ``Settings`` (``base_url``, ``auth_url``, ``client_id``,
    ``client_secret``, ``signing_key`` …); ``profile`` is a table of ``config.toml`` in the user's
    configuration folder. ``signer`` signs instead of ``signing_key``: a key in an HSM or a KMS.
    Nothing is sent yet. Raises ``SettingsError`` naming what is missing, unknown or unsafe.
    """
    settings = masked(settings)  # a traceback shows the locals of this function too
    return Client(Settings.load(profile, **settings), signer=signer)


class Client(Caller):
    """A connection to the service, for any number of threads. Close it, or use it in ``with``.

    ``base_url`` and ``client_id`` say whom it talks to, and as whom.
    """

    # ---------------------------------------------------------------- deposit instructions

    def create_fiat_deposit_instructions(
        self,
        *,
        profile_id: str,
        fiat_network: FiatNetwork | str,
        routing_number_type: RoutingNumberType | str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        ref_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> FiatDepositInstructions:
        """Bank details and a ``memo_id`` that credit ``profile_id`` (§4.1).

        ``routing_number_type`` (``ABA``, ``SWIFT``) goes with ``fiat_network="WIRE"`` only.
        """
        return self._create(
            "create_fiat_deposit_instructions",
            FiatDepositInstructions,
            profile_id=profile_id,
            fiat_network=fiat_network,
            routing_number_type=routing_number_type,
            identity_id=identity_id,
            account_id=account_id,
            ref_id=ref_id,
            metadata=metadata,
        )

    def get_fiat_deposit_instructions(self, id: str) -> FiatDepositInstructions:
        """Deposit instructions by their id (§4.2)."""
        return self._get("get_fiat_deposit_instructions", FiatDepositInstructions, id=id)

    def list_fiat_deposit_instructions(
        self,
        *,
        ids: Texts | None = None,
        ref_ids: Texts | None = None,
        created_at_lt: Time | None = None,
        created_at_lte: Time | None = None,
        created_at_eq: Time | None = None,
        created_at_gte: Time | None = None,
        created_at_gt: Time | None = None,
        order: Order | str | None = None,
        order_by: str | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[FiatDepositInstructions]:
        """Deposit instructions, newest first unless ``order="ASC"`` (§4.3)."""
        return self._list(
            "list_fiat_deposit_instructions",
            max_rows,
            ids=ids,
            ref_ids=ref_ids,
            created_at_lt=created_at_lt,
            created_at_lte=created_at_lte,
            created_at_eq=created_at_eq,
            created_at_gte=created_at_gte,
            created_at_gt=created_at_gt,
            order=order,
            order_by=order_by,
            page_cursor=page_cursor,
            limit=page_size,
        )

    def initiate_sandbox_fiat_deposit(
        self,
        *,
        amount: AmountLike,
        memo_id: str,
        fiat_network_instructions: Instructions,
        fiat_account_owner: Owner,
        asset: str = "USD",
    ) -> None:
        """Simulate an incoming wire that quotes ``memo_id`` (§4.4).

        Refused with ``InvalidRequest`` unless the service is on loopback or its profile says
        ``sandbox = true``.
        """
        operation = OPERATIONS["initiate_sandbox_fiat_deposit"]
        if self.settings.is_production:
            raise InvalidRequest(
                f"{operation.name}: {self.base_url} is no sandbox; nothing was sent (if it is one, "
                "set sandbox = true in its profile)"
            )
        self._send(
            operation,
            given={
                "amount": amount,
                "asset": asset,
                "memo_id": memo_id,
                "fiat_network_instructions": fiat_network_instructions,
                "fiat_account_owner": fiat_account_owner,
            },
        )

    # --------------------------------------------------------------------------- transfers

    def list_transfers(
        self,
        *,
        ids: Texts | None = None,
        ref_ids: Texts | None = None,
        profile_ids: Texts | None = None,
        identity_ids: Texts | None = None,
        account_ids: Texts | None = None,
        group_ids: Texts | None = None,
        crypto_tx_hashes: Texts | None = None,
        type: TransferType | Iterable[TransferType | str] | str | None = None,
        statuses: TransferStatus | Iterable[TransferStatus | str] | str | None = None,
        secondary_statuses: Texts | None = None,
        created_at_lt: Time | None = None,
        created_at_lte: Time | None = None,
        created_at_eq: Time | None = None,
        created_at_gte: Time | None = None,
        created_at_gt: Time | None = None,
        updated_at_lt: Time | None = None,
        updated_at_lte: Time | None = None,
        updated_at_eq: Time | None = None,
        updated_at_gte: Time | None = None,
        updated_at_gt: Time | None = None,
        order: Order | str | None = None,
        order_by: str | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[Transfer]:
        """Transfers that meet every filter, newest first by default (§4.5).

        With a filter on ``updated_at`` they come in its order, oldest first. ``page_size`` (1 to
        1000, 100 by default) is how many come in one answer, ``max_rows`` how many in all.
        """
        return self._list(
            "list_transfers",
            max_rows,
            ids=ids,
            ref_ids=ref_ids,
            profile_ids=profile_ids,
            identity_ids=identity_ids,
            account_ids=account_ids,
            group_ids=group_ids,
            crypto_tx_hashes=crypto_tx_hashes,
            type=type,
            statuses=statuses,
            secondary_statuses=secondary_statuses,
            created_at_lt=created_at_lt,
            created_at_lte=created_at_lte,
            created_at_eq=created_at_eq,
            created_at_gte=created_at_gte,
            created_at_gt=created_at_gt,
            updated_at_lt=updated_at_lt,
            updated_at_lte=updated_at_lte,
            updated_at_eq=updated_at_eq,
            updated_at_gte=updated_at_gte,
            updated_at_gt=updated_at_gt,
            order=order,
            order_by=order_by,
            page_cursor=page_cursor,
            limit=page_size,
        )

    def get_transfer(self, id: str) -> Transfer:
        """A transfer by its id (§4.6)."""
        return self._get("get_transfer", Transfer, id=id)

    def create_fiat_withdrawal(
        self,
        *,
        amount: AmountLike,
        fiat_account_id: str,
        profile_id: str,
        asset: str = "USD",
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Transfer:
        """Send ``amount`` USD from ``profile_id`` to an ``APPROVED`` fiat account (§4.12).

        Give a ``ref_id``: with it a lost answer is asked for again and cannot pay twice, and a
        second call with the same arguments returns the first one's transfer. Raises ``Conflict``
        when the ``ref_id`` stands for another withdrawal, ``InsufficientFunds`` when the available
        balance is below amount plus fee.
        """
        return self._create(
            "create_fiat_withdrawal",
            Transfer,
            ref_id=ref_id,
            amount=amount,
            asset=asset,
            fiat_account_id=fiat_account_id,
            profile_id=profile_id,
            identity_id=identity_id,
            account_id=account_id,
            metadata=metadata,
        )

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        """What ``profile_id`` has of ``asset``: ``available`` and ``trading`` (§4.7)."""
        return self._get("get_profile_balance", ProfileBalance, profile_id=profile_id, asset=asset)

    # ----------------------------------------------------------------------- fiat accounts

    def create_fiat_account(
        self,
        *,
        fiat_account_owner: Owner,
        fiat_network_instructions: Instructions,
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> FiatAccount:
        """Register an external bank account; it is ``PENDING`` until reviewed (§4.8)."""
        return self._create(
            "create_fiat_account",
            FiatAccount,
            ref_id=ref_id,
            identity_id=identity_id,
            account_id=account_id,
            fiat_account_owner=fiat_account_owner,
            fiat_network_instructions=fiat_network_instructions,
            metadata=metadata,
        )

    def get_fiat_account(self, id: str) -> FiatAccount:
        """A fiat account by its id (§4.9)."""
        return self._get("get_fiat_account", FiatAccount, id=id)

    def update_fiat_account(
        self,
        id: str,
        *,
        fiat_account_owner: Owner | None = None,
        fiat_network_instructions: Instructions | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> FiatAccount:
        """Change what is given of a fiat account; it may be reviewed again (§4.10)."""
        operation = OPERATIONS["update_fiat_account"]
        body = self._send(
            operation,
            path={"id": id},
            given={
                "fiat_account_owner": fiat_account_owner,
                "fiat_network_instructions": fiat_network_instructions,
                "metadata": metadata,
            },
        )
        return self._read(FiatAccount, operation.name, body)

    def list_fiat_accounts(
        self,
        *,
        ids: Texts | None = None,
        ref_ids: Texts | None = None,
        created_at_lt: Time | None = None,
        created_at_lte: Time | None = None,
        created_at_eq: Time | None = None,
        created_at_gte: Time | None = None,
        created_at_gt: Time | None = None,
        order: Order | str | None = None,
        order_by: str | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[FiatAccount]:
        """Fiat accounts, newest first unless ``order="ASC"``; numbers may be masked (§4.11)."""
        return self._list(
            "list_fiat_accounts",
            max_rows,
            ids=ids,
            ref_ids=ref_ids,
            created_at_lt=created_at_lt,
            created_at_lte=created_at_lte,
            created_at_eq=created_at_eq,
            created_at_gte=created_at_gte,
            created_at_gt=created_at_gt,
            order=order,
            order_by=order_by,
            page_cursor=page_cursor,
            limit=page_size,
        )

    # ------------------------------------------------------- crypto, orchestration, events

    def create_deposit_address(
        self,
        *,
        profile_id: str,
        crypto_network: CryptoNetwork | str,
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> DepositAddress:
        """A crypto address whose deposits credit ``profile_id`` (§4.13)."""
        return self._create(
            "create_deposit_address",
            DepositAddress,
            profile_id=profile_id,
            crypto_network=crypto_network,
            ref_id=ref_id,
            identity_id=identity_id,
            account_id=account_id,
            metadata=metadata,
        )

    def create_orchestration_rule(
        self,
        *,
        ref_id: str,
        profile_id: str,
        source_asset: StableAsset | str,
        destination_asset: StableAsset | str,
        source: End,
        destination: End | None = None,
        nickname: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
    ) -> OrchestrationRule:
        """Convert what arrives at ``source`` from one asset to another (§4.14).

        ``source`` and ``destination`` hold one of ``crypto``, ``fiat`` and ``profile``, for example
        ``{"profile": {"profile_id": …}}``. Returns the rule itself.
        """
        return self._create(
            "create_orchestration_rule",
            OrchestrationRule,
            ref_id=ref_id,
            profile_id=profile_id,
            source_asset=source_asset,
            destination_asset=destination_asset,
            source=source,
            destination=destination,
            nickname=nickname,
            identity_id=identity_id,
            account_id=account_id,
        )

    def list_crypto_destination_addresses(
        self,
        *,
        ids: Texts | None = None,
        crypto_networks: CryptoNetwork | Iterable[CryptoNetwork | str] | str | None = None,
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
        order: Order | str | None = None,
        order_by: str | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[CryptoDestinationAddress]:
        """Saved crypto addresses, newest first unless ``order="ASC"`` (§4.15).

        Without ``identity_id`` only first-party addresses come. ``page_size`` is at most 1000.
        """
        return self._list(
            "list_crypto_destination_addresses",
            max_rows,
            ids=ids,
            crypto_networks=crypto_networks,
            addresses=addresses,
            nicknames=nicknames,
            bookmarked_status=bookmarked_status,
            identity_id=identity_id,
            identity_ids=identity_ids,
            created_at_lt=created_at_lt,
            created_at_lte=created_at_lte,
            created_at_eq=created_at_eq,
            created_at_gte=created_at_gte,
            created_at_gt=created_at_gt,
            order=order,
            order_by=order_by,
            page_cursor=page_cursor,
            limit=page_size,
        )

    def create_crypto_withdrawal_fee(
        self,
        *,
        asset: str,
        destination_address: str,
        crypto_network: CryptoNetwork | str,
        amount: AmountLike | None = None,
        total: AmountLike | None = None,
        identity_id: str | None = None,
    ) -> CryptoWithdrawalFee:
        """A fee guaranteed until ``expires_at`` for a crypto withdrawal (§4.16).

        Give exactly one of ``amount`` (without the fee) and ``total`` (with it).
        """
        return self._create(
            "create_crypto_withdrawal_fee",
            CryptoWithdrawalFee,
            asset=asset,
            destination_address=destination_address,
            crypto_network=crypto_network,
            amount=amount,
            total=total,
            identity_id=identity_id,
        )

    def list_events(
        self,
        *,
        type: str | None = None,
        is_test: bool | None = None,
        created_at_lt: Time | None = None,
        created_at_lte: Time | None = None,
        created_at_eq: Time | None = None,
        created_at_gte: Time | None = None,
        created_at_gt: Time | None = None,
        order: Order | str | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[Event]:
        """Events, oldest first unless ``order="DESC"`` (§4.17, §6); ``page_size`` up to 100."""
        return self._list(
            "list_events",
            max_rows,
            type=type,
            is_test=is_test,
            created_at_lt=created_at_lt,
            created_at_lte=created_at_lte,
            created_at_eq=created_at_eq,
            created_at_gte=created_at_gte,
            created_at_gt=created_at_gt,
            order=order,
            page_cursor=page_cursor,
            limit=page_size,
        )
