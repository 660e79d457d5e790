"""Bank money in and out: deposit instructions, fiat accounts, withdrawals (§4.1 to §4.4, §4.8 to
§4.12)."""

from __future__ import annotations

from typing import Literal

from fundlab.api.arguments import (
    AmountLike,
    FiatRail,
    Instructions,
    Metadata,
    Owner,
    RoutingType,
    Sorting,
    Texts,
    Time,
)
from fundlab.api.caller import Caller
from fundlab.api.pages import Rows
from fundlab.errors import InvalidRequest
from fundlab.models import FiatAccount, FiatDepositInstructions, Transfer


class FiatOperations(Caller):
    """Part of ``Client``."""

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
        ``metadata`` (at most 6 pairs of at most 100 characters) is copied to the deposits. With a
        ``ref_id`` the call is safe to repeat.

        >>> instructions = client.create_fiat_deposit_instructions(
        ...     profile_id=sandbox.profile_ids[0], fiat_network="WIRE", routing_number_type="ABA"
        ... )
        >>> str(instructions.status), instructions.memo_id[:4]
        ('VALID', 'MEMO')
        """
        return self._change("create_fiat_deposit_instructions", FiatDepositInstructions, locals())

    def get_fiat_deposit_instructions(self, id: str) -> FiatDepositInstructions:
        """Deposit instructions by their ``id`` (§4.2). Raises ``NotFound``.

        >>> instructions = next(iter(client.list_fiat_deposit_instructions()))
        >>> client.get_fiat_deposit_instructions(instructions.id).memo_id == instructions.memo_id
        True
        """
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
        order: Sorting | None = None,
        order_by: Literal["CREATED_AT"] | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[FiatDepositInstructions]:
        """Deposit instructions, newest first unless ``order`` is ``ASC`` (§4.3).

        ``ids`` and ``ref_ids`` keep rows with one of the values given; ``created_at_lt``,
        ``created_at_lte``, ``created_at_eq``, ``created_at_gte`` and ``created_at_gt`` compare
        times; ``order_by`` is ``CREATED_AT``. ``page_size`` is 1 to 1000 (100), ``max_rows`` how
        many come in all, ``page_cursor`` where to start.

        >>> found = client.list_fiat_deposit_instructions(order="ASC", max_rows=3)
        >>> [str(one.status) for one in found]
        ['VALID', 'VALID', 'VALID']
        """
        return self._list("list_fiat_deposit_instructions", locals())

    def initiate_sandbox_fiat_deposit(
        self,
        *,
        amount: AmountLike,
        memo_id: str,
        fiat_network_instructions: Instructions,
        fiat_account_owner: Owner,
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
            raise InvalidRequest(
                f"initiate_sandbox_fiat_deposit: {self.base_url} is no sandbox; nothing was sent "
                "(if it is one, set sandbox = true in its profile)"
            )
        self._tell("initiate_sandbox_fiat_deposit", locals())

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
        ``identity_id`` and ``account_id`` name an end user; ``metadata`` has at most 6 pairs. With
        a ``ref_id`` the call is safe to repeat. ``fundlab.wait_for`` waits for the review.

        >>> account = client.create_fiat_account(
        ...     fiat_account_owner={"institution_details": {"name": "Harbor Trading LLC"}},
        ...     fiat_network_instructions={"wallet_address": "CUBIX-9BDC4AEA9A4C"},
        ...     ref_id="harbor-1",
        ... )
        >>> str(account.status)
        'PENDING'
        """
        return self._change("create_fiat_account", FiatAccount, locals())

    def get_fiat_account(self, id: str) -> FiatAccount:
        """A fiat account by its ``id`` (§4.9). Raises ``NotFound``.

        >>> account = next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")
        >>> str(client.get_fiat_account(account.id).status)
        'APPROVED'
        """
        return self._get("get_fiat_account", FiatAccount, id=id)

    def update_fiat_account(
        self,
        id: str,
        *,
        fiat_account_owner: Owner | None = None,
        fiat_network_instructions: Instructions | None = None,
        metadata: Metadata | None = None,
    ) -> FiatAccount:
        """Change what is given of the fiat account ``id``; it may be reviewed again (§4.10).

        ``fiat_account_owner``, ``fiat_network_instructions`` and ``metadata`` replace what was
        there; what is left out stays. Raises ``NotFound``.

        >>> account = next(one for one in client.list_fiat_accounts() if one.status == "APPROVED")
        >>> client.update_fiat_account(account.id, metadata={"department": "payroll"}).metadata
        {'department': 'payroll'}
        """
        return self._change("update_fiat_account", FiatAccount, locals())

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
        order: Sorting | None = None,
        order_by: Literal["CREATED_AT"] | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[FiatAccount]:
        """Fiat accounts, newest first unless ``order`` is ``ASC`` (§4.11).

        Account numbers may be masked and owners left out: ``get_fiat_account`` has them. ``ids``
        and ``ref_ids`` keep rows with one of the values given; ``created_at_lt``,
        ``created_at_lte``, ``created_at_eq``, ``created_at_gte`` and ``created_at_gt`` compare
        times; ``order_by`` is ``CREATED_AT``. ``page_size`` is 1 to 1000 (100), ``max_rows`` how
        many come in all, ``page_cursor`` where to start.

        >>> sorted({str(account.status) for account in client.list_fiat_accounts()})
        ['APPROVED', 'PENDING', 'REJECTED']
        """
        return self._list("list_fiat_accounts", locals())

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
        ``total`` (with it), of at most 2 decimals. Give a ``ref_id``: with it a lost answer is
        asked for again and cannot pay twice, and a second call with the same arguments returns the
        first one's transfer. ``identity_id`` and ``account_id`` name an end user; ``memo`` goes to
        the bank (at most 100 characters by wire, 40 by CUBIX); ``metadata`` has at most 6 pairs.
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
        return self._change("create_fiat_withdrawal", Transfer, locals())
