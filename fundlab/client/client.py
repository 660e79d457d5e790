"""The service as an object: one method for each operation of the interface (§4).

``connect()`` makes a ``Client`` from keywords, the environment or a profile of the settings file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

from fundlab.base.errors import InvalidRequest
from fundlab.client.any_path import call_of, read_json
from fundlab.client.arguments import (
    AddressFilters,
    AmountLike,
    Asset,
    End,
    EventFilters,
    FiatAccountFilters,
    FiatRail,
    Instructions,
    Metadata,
    Network,
    Owner,
    RoutingType,
    TransferFilters,
    spelled_out,
)
from fundlab.client.calls import Caller, Rows, check_empty
from fundlab.models import (
    ConversionTarget,
    CryptoDestinationAddress,
    CryptoWithdrawalFee,
    DepositAddress,
    Event,
    FiatAccount,
    FiatDepositInstructions,
    OrchestrationRule,
    ProfileBalance,
    Transfer,
)
from fundlab.settings.settings import SettingKeywords, Settings, masked

if TYPE_CHECKING:
    from fundlab.client.signing import Signer

_SANDBOX_ONLY: Final = "/v2/sandbox/"


def connect(
    profile: str | None = None,
    *,
    signer: Signer | None = None,
    **settings: Unpack[SettingKeywords],
) -> Client:
    """A client for the service named by ``settings``, the environment or ``profile``.

    Keywords are the fields of ``Settings`` (``base_url``, ``auth_url``, ``client_id``,
    ``client_secret``, ``signing_key`` …); ``profile`` is a table of ``config.toml`` in the user's
    configuration folder. ``signer`` signs instead of ``signing_key``: a key in an HSM or a KMS.
    Nothing is sent yet. Raises ``SettingsError`` naming what is missing, unknown or unsafe.

    >>> with fl.connect(
    ...     base_url=sandbox.base_url,
    ...     auth_url=sandbox.auth_url,
    ...     client_id=sandbox.client_id,
    ...     client_secret=sandbox.client_secret,
    ... ) as client:
    ...     balance = client.get_profile_balance(sandbox.profile_ids[0], "USD")
    >>> balance.asset
    'USD'
    """
    settings = cast(
        "SettingKeywords", masked(settings)
    )  # a traceback shows the locals of this function too
    return Client(Settings.load(profile, **settings), signer=signer)


def _not_a_sandbox(operation: str, base_url: str) -> str:
    return (
        f"{operation}: {base_url} is not a sandbox; nothing was sent (if it is one, set sandbox = "
        "true in its profile)"
    )


class Client(Caller):
    """A connection to the service, for any number of threads. Close it, or use it in ``with``.

    ``base_url`` and ``client_id`` say whom it talks to, and as whom. Every operation takes the
    interface's fields as keywords (a dotted ``created_at.gte`` is ``created_at_gte``) and checks
    them before anything is sent (``InvalidRequest``). It raises a ``CallError``: ``ServiceError``
    when the service says no, ``NetworkError`` when no usable answer arrives, ``ProtocolError`` when
    the answer is not the interface's.

    Lists come as ``Rows``: lazily, over all pages. ``page_size`` is how many rows one answer holds,
    ``max_rows`` how many come in all, ``page_cursor`` where to start. Filters take one text or any
    iterable of them, asked for in hundreds; of an empty one come no rows. A time is an aware
    ``datetime``, RFC 3339 text, or in UTC a ``date`` or NumPy's ``datetime64``. Rows that do not
    show what a filter is about are kept, with a warning; ids compare without regard to case.

    Reads are tried again when the network or the service falters. What changes something is tried
    again only with a ``ref_id``, by which the service knows it: a second call with the same
    ``ref_id`` and arguments returns what the first one made; with other arguments it raises
    ``Conflict``.

    >>> newest = client.list_transfers(type="WIRE_DEPOSIT", order="DESC", max_rows=2)
    >>> [str(transfer.status) for transfer in newest]
    ['PENDING', 'COMPLETED']
    >>> str(client.get_profile_balance(sandbox.profile_ids[0], "USD").trading)
    '0.00'
    """

    # ------------------------------------------------------- what the interface leaves out

    def get(self, path: str, *, scope: str | None = None, **params: Any) -> Any:
        """What the service answers to a read of any ``path`` of its API, as JSON has it.

        ``params`` are the query: texts, numbers, flags, times, and lists, whose values each go out
        under the same name; ``created_at_gte`` is sent as ``created_at.gte``. The call is signed
        and tried again as the others are. A path that the interface does not describe is asked
        for with all scopes of the credential, unless ``scope`` names one. Numbers with a point are
        ``Decimal``. `fundlab.load_path` reads all pages of a list. Raises ``InvalidRequest`` for
        what cannot be sent, and what the other calls raise.

        >>> client.get("/v2/transfer/transfers", limit=1)["items"][0]["asset"]
        'USD'
        """
        call = call_of("GET", path, scope, params)
        return read_json(call, self.transport.send(call))

    def post(self, path: str, body: Mapping[str, Any], *, scope: str | None = None) -> Any:
        """What the service answers to a ``body`` that is posted to any ``path`` of its API.

        Amounts in it are text or ``Decimal``, times aware ``datetime`` or text; a ``float`` is
        refused. It is sent again only where that cannot do it twice: where it never left, was one
        too many (429), or the interface says that the path takes a ``ref_id``, which it is given
        if it has none. A ``ref_id`` that is used already raises ``Conflict``. Nothing here is
        journalled or held against limits: pay with `fundlab.plan_withdrawal`.

        >>> quote = client.post(
        ...     "/v2/transfer/fees/crypto-withdrawal",
        ...     {
        ...         "asset": "USDC",
        ...         "amount": "2500",
        ...         "crypto_network": "ETHEREUM",
        ...         "destination_address": "0x" + "1" * 40,
        ...     },
        ... )
        >>> quote["fee"], quote["total"]
        ('3.00', '2503.00')
        """
        call = call_of("POST", path, scope, {}, body, self.transport.new_ref_id)
        if call.target.startswith(_SANDBOX_ONLY) and self.settings.is_production:
            raise InvalidRequest(_not_a_sandbox(call.operation, self.base_url))
        return read_json(call, self.transport.send(call))

    def _repr_html_(self) -> str:
        from fundlab.display import Card, Row, service_band  # which loads pandas

        signed = "requests are not signed"
        if self.signer is not None:
            signed = f"requests are signed with {self.settings.signing_key_id or 'your signer'}"
        rows = (
            Row("credential", self.client_id),
            Row("signature", signed),
            Row("tokens from", self.settings.auth_url),
        )
        return Card(
            "Client",
            rows,
            notes=("fl.load_balances(client) · fl.load_transfers(client) · store.sync(client)",),
            **service_band(self.base_url, real_money=self.settings.is_production),
        )._repr_html_()

    # ---------------------------------------------------------------- deposit instructions

    def create_fiat_deposit_instructions(
        self,
        *,
        profile_id: str,
        fiat_network: FiatRail,
        routing_number_type: RoutingType | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        ref_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> FiatDepositInstructions:
        """Bank details and a ``memo_id`` that credit ``profile_id`` (§4.1).

        ``fiat_network`` is ``WIRE``, with a ``routing_number_type`` (``ABA`` in the US, ``SWIFT``
        abroad), or ``CUBIX``, without. ``identity_id`` and ``account_id`` name an end user.
        ``metadata`` (at most 6 pairs of at most 100 characters) is copied to the deposits. The
        call is sent with a ``ref_id``, by default a new one; with yours it is safe to repeat.

        >>> instructions = client.create_fiat_deposit_instructions(
        ...     profile_id=sandbox.profile_ids[0], fiat_network="WIRE", routing_number_type="ABA"
        ... )
        >>> str(instructions.status), instructions.memo_id[:4]
        ('VALID', 'MEMO')
        """
        return self._call(
            FiatDepositInstructions, "create_fiat_deposit_instructions", profile_id=profile_id,
            fiat_network=fiat_network, routing_number_type=routing_number_type,
            identity_id=identity_id, account_id=account_id, ref_id=ref_id, metadata=metadata,
        )  # fmt: skip

    def get_fiat_deposit_instructions(self, id: str) -> FiatDepositInstructions:
        """Deposit instructions by their ``id`` (§4.2). Raises ``NotFound``.

        >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
        >>> client.get_fiat_deposit_instructions(instructions.id).memo_id == instructions.memo_id
        True
        """
        return self._call(FiatDepositInstructions, "get_fiat_deposit_instructions", id=id)

    @spelled_out(FiatAccountFilters)
    def list_fiat_deposit_instructions(
        self,
        *,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
        **filters: Unpack[FiatAccountFilters],
    ) -> Rows[FiatDepositInstructions]:
        """Deposit instructions, newest first unless ``order`` is ``ASC`` (§4.3).

        ``page_size`` is 1 to 1000 (100).

        >>> found = client.list_fiat_deposit_instructions(order="ASC", max_rows=3)
        >>> [str(one.status) for one in found]
        ['VALID', 'VALID', 'VALID']
        """
        return Rows(
            self, "list_fiat_deposit_instructions", filters, page_cursor, page_size, max_rows
        )

    def initiate_sandbox_fiat_deposit(
        self,
        *,
        amount: AmountLike,
        memo_id: str,
        fiat_network_instructions: Instructions,
        fiat_account_owner: Owner | None = None,
        asset: str = "USD",
    ) -> None:
        """Simulate an incoming wire of ``amount`` ``asset`` that quotes ``memo_id`` (§4.4).

        ``fiat_network_instructions`` and ``fiat_account_owner`` describe the sending bank account.
        The transfer shows itself about a minute later. Raises ``InvalidRequest`` unless the service
        is on loopback or its profile says ``sandbox = true``.

        >>> instructions = client.create_fiat_deposit_instructions(
        ...     profile_id=sandbox.profile_ids[0], fiat_network="WIRE", routing_number_type="ABA"
        ... )
        >>> client.initiate_sandbox_fiat_deposit(
        ...     amount="25.00",
        ...     memo_id=instructions.memo_id,
        ...     fiat_network_instructions=instructions.fiat_network_instructions,
        ...     fiat_account_owner={"person_details": {"first_name": "Ada", "last_name": "Okafor"}},
        ... )
        >>> [deposit.amount.text for deposit in fl.find_deposits(client, instructions)]
        ['25.00']
        """
        if self.settings.is_production:
            raise InvalidRequest(_not_a_sandbox("initiate_sandbox_fiat_deposit", self.base_url))
        given = {
            "amount": amount,
            "memo_id": memo_id,
            "fiat_network_instructions": fiat_network_instructions,
            "fiat_account_owner": fiat_account_owner,
            "asset": asset,
        }
        reply, _ = self._send("initiate_sandbox_fiat_deposit", given)
        check_empty("initiate_sandbox_fiat_deposit", reply)

    # ----------------------------------------------------------------------- fiat accounts

    def create_fiat_account(
        self,
        *,
        fiat_account_owner: Owner,
        fiat_network_instructions: Instructions,
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        metadata: Metadata | None = None,
    ) -> FiatAccount:
        """Register an external bank account; it is ``PENDING`` until reviewed (§4.8).

        ``fiat_account_owner`` holds ``institution_details`` or ``person_details``;
        ``fiat_network_instructions`` holds ``wire``, or ``cubix`` (or ``wallet_address``).
        ``identity_id`` and ``account_id`` name an end user; ``metadata`` has at most 6 pairs. The
        call is sent with a ``ref_id``, by default a new one; with yours it is safe to repeat.
        ``fundlab.wait_for`` waits for the review.

        >>> account = client.create_fiat_account(
        ...     fiat_account_owner={"institution_details": {"name": "Harbor Trading LLC"}},
        ...     fiat_network_instructions={"wallet_address": "CUBIX-9BDC4AEA9A4C"},
        ...     ref_id="harbor-1",
        ... )
        >>> str(account.status)
        'PENDING'
        """
        return self._call(
            FiatAccount, "create_fiat_account", fiat_account_owner=fiat_account_owner,
            fiat_network_instructions=fiat_network_instructions, ref_id=ref_id,
            identity_id=identity_id, account_id=account_id, metadata=metadata,
        )  # fmt: skip

    def get_fiat_account(self, id: str) -> FiatAccount:
        """A fiat account by its ``id`` (§4.9). Raises ``NotFound``.

        >>> account = next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")
        >>> str(client.get_fiat_account(account.id).status)
        'APPROVED'
        """
        return self._call(FiatAccount, "get_fiat_account", id=id)

    def update_fiat_account(
        self,
        id: str,
        *,
        fiat_account_owner: Owner | None = None,
        fiat_network_instructions: Instructions | None = None,
        metadata: Metadata | None = None,
    ) -> FiatAccount:
        """Change what is given of the fiat account ``id``; it may be reviewed again (§4.10).

        ``fiat_account_owner`` and ``metadata`` replace what was there; what is left out stays, of
        ``fiat_network_instructions`` each member. Raises ``NotFound``.

        >>> account = next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")
        >>> client.update_fiat_account(account.id, metadata={"department": "payroll"}).metadata
        {'department': 'payroll'}
        """
        return self._call(
            FiatAccount, "update_fiat_account", id=id, fiat_account_owner=fiat_account_owner,
            fiat_network_instructions=fiat_network_instructions, metadata=metadata,
        )  # fmt: skip

    @spelled_out(FiatAccountFilters)
    def list_fiat_accounts(
        self,
        *,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
        **filters: Unpack[FiatAccountFilters],
    ) -> Rows[FiatAccount]:
        """Fiat accounts, newest first unless ``order`` is ``ASC`` (§4.11).

        Account numbers may be masked and owners left out: ``get_fiat_account`` has them.
        ``page_size`` is 1 to 1000 (100).

        >>> sorted({str(account.status) for account in client.list_fiat_accounts()})
        ['APPROVED', 'PENDING', 'REJECTED']
        """
        return Rows(self, "list_fiat_accounts", filters, page_cursor, page_size, max_rows)

    # ------------------------------------------------------------------------- withdrawals

    def create_fiat_withdrawal(
        self,
        *,
        fiat_account_id: str,
        profile_id: str,
        amount: AmountLike | None = None,
        total: AmountLike | None = None,
        asset: str = "USD",
        ref_id: str | None = None,
        identity_id: str | None = None,
        account_id: str | None = None,
        memo: str | None = None,
        metadata: Metadata | None = None,
    ) -> Transfer:
        """Send ``amount`` ``asset`` from ``profile_id`` to the account ``fiat_account_id`` (§4.12).

        The account must be ``APPROVED``. Give exactly one of ``amount`` (without the fee) and
        ``total`` (with it), of at most 2 decimals. It is sent with a ``ref_id``, by default a new
        one, so that a lost answer is asked for again and cannot pay twice; with a ``ref_id`` of
        yours a second call with the same arguments returns the first one's transfer.
        ``identity_id`` and ``account_id`` name an end user; ``memo`` goes to the bank (at most 100
        characters by wire, 40 by CUBIX); ``metadata`` has at most 6 pairs.
        Raises ``Conflict`` when the ``ref_id`` stands for another withdrawal, ``InsufficientFunds``
        when the available balance is below amount plus fee.

        >>> own = [one for one in client.list_fiat_accounts() if not one.identity_id]
        >>> account = next(one for one in own if one.status == "APPROVED")
        >>> transfer = client.create_fiat_withdrawal(
        ...     amount="100.00",
        ...     asset="USD",
        ...     fiat_account_id=account.id,
        ...     profile_id=sandbox.profile_ids[0],
        ...     ref_id="rent-2026-11",
        ... )
        >>> str(transfer.status), str(transfer.direction), transfer.amount.text
        ('PENDING', 'DEBIT', '100.00')
        """
        return self._call(
            Transfer, "create_fiat_withdrawal", fiat_account_id=fiat_account_id,
            profile_id=profile_id, amount=amount, total=total, asset=asset, ref_id=ref_id,
            identity_id=identity_id, account_id=account_id, memo=memo, metadata=metadata,
        )  # fmt: skip

    # -------------------------------------------------------------- transfers, balances, events

    @spelled_out(TransferFilters)
    def list_transfers(
        self,
        *,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
        **filters: Unpack[TransferFilters],
    ) -> Rows[Transfer]:
        """Transfers that meet every filter, newest first by default (§4.5).

        Where filters on ``created_at`` and on ``updated_at`` are given, the first is
        applied here only. ``order_by`` is ``CREATED_AT`` with ``order`` ``DESC``, but
        ``UPDATED_AT`` with ``ASC`` where a filter on it is given. ``page_size`` is 1 to
        1000 (100).

        >>> transfers = client.list_transfers(type="WIRE_DEPOSIT", order="DESC", max_rows=2)
        >>> [str(transfer.status) for transfer in transfers]
        ['PENDING', 'COMPLETED']
        """
        return Rows(self, "list_transfers", filters, page_cursor, page_size, max_rows)

    def get_transfer(self, id: str) -> Transfer:
        """A transfer by its ``id`` (§4.6). Raises ``NotFound``.

        >>> newest = next(iter(client.list_transfers(order="DESC")))
        >>> client.get_transfer(newest.id).id == newest.id
        True
        """
        return self._call(Transfer, "get_transfer", id=id)

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        """What ``profile_id`` has of ``asset``: ``available`` and ``trading`` (§4.7).

        Raises ``NotFound``.

        >>> balance = client.get_profile_balance(sandbox.profile_ids[0], "USD")
        >>> balance.asset, balance.trading.text
        ('USD', '0.00')
        """
        return self._call(ProfileBalance, "get_profile_balance", profile_id=profile_id, asset=asset)

    @spelled_out(EventFilters)
    def list_events(
        self,
        *,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
        **filters: Unpack[EventFilters],
    ) -> Rows[Event]:
        """Events, oldest first unless ``order`` is ``DESC`` (§4.17, §6).

        ``page_size`` is 1 to 100 (100).

        >>> events = client.list_events(type="identity.approved", max_rows=1)
        >>> [event.object["new_summary_status"] for event in events]
        ['APPROVED']
        """
        return Rows(self, "list_events", filters, page_cursor, page_size, max_rows)

    # ------------------------------------------------------------------------------- crypto

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
        6 pairs. The call is sent with a ``ref_id``, by default a new one; with yours it is safe to
        repeat.

        >>> address = client.create_deposit_address(
        ...     profile_id=sandbox.profile_ids[0], crypto_network="ETHEREUM"
        ... )
        >>> str(address.crypto_network)
        'ETHEREUM'
        """
        return self._call(
            DepositAddress, "create_deposit_address", profile_id=profile_id,
            crypto_network=crypto_network, ref_id=ref_id, identity_id=identity_id,
            account_id=account_id, conversion_target_asset=conversion_target_asset,
            metadata=metadata,
        )  # fmt: skip

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
        return self._call(
            OrchestrationRule, "create_orchestration_rule", ref_id=ref_id, profile_id=profile_id,
            source_asset=source_asset, destination_asset=destination_asset, source=source,
            destination=destination, nickname=nickname, identity_id=identity_id,
            account_id=account_id,
        )  # fmt: skip

    @spelled_out(AddressFilters)
    def list_crypto_destination_addresses(
        self,
        *,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
        **filters: Unpack[AddressFilters],
    ) -> Rows[CryptoDestinationAddress]:
        """Saved crypto addresses, newest first unless ``order`` is ``ASC`` (§4.15).

        Without ``identity_id`` (or ``identity_ids``) only first-party addresses come.
        ``page_size`` is 1 to 1000 (100).

        >>> found = client.list_crypto_destination_addresses(crypto_networks=["SOLANA"])
        >>> {str(address.crypto_network) for address in found}
        {'SOLANA'}
        """
        return Rows(
            self, "list_crypto_destination_addresses", filters, page_cursor, page_size, max_rows
        )

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
        return self._call(
            CryptoWithdrawalFee, "create_crypto_withdrawal_fee", asset=asset,
            destination_address=destination_address, crypto_network=crypto_network, amount=amount,
            total=total, identity_id=identity_id,
        )  # fmt: skip
