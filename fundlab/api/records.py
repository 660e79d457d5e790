"""Reading what happened: transfers, balances, events (§4.5 to §4.7, §4.17)."""

from __future__ import annotations

from typing import Literal

from fundlab.api.arguments import Sorting, Statuses, Texts, Time, Types
from fundlab.api.caller import Caller
from fundlab.api.pages import Rows
from fundlab.models import Event, ProfileBalance, Transfer


class RecordOperations(Caller):
    """Part of ``Client``."""

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
        type: Types | None = None,
        statuses: Statuses | None = None,
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
        order: Sorting | None = None,
        order_by: Literal["CREATED_AT", "UPDATED_AT"] | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[Transfer]:
        """Transfers that meet every filter, newest first by default (§4.5).

        ``ids``, ``ref_ids``, ``profile_ids``, ``identity_ids``, ``account_ids``, ``group_ids``,
        ``crypto_tx_hashes``, ``statuses``, ``secondary_statuses`` (by name) and ``type`` keep rows
        with one of the values given. ``created_at_lt``, ``created_at_lte``, ``created_at_eq``,
        ``created_at_gte``, ``created_at_gt`` and ``updated_at_lt``, ``updated_at_lte``,
        ``updated_at_eq``, ``updated_at_gte``, ``updated_at_gt`` compare times; where both kinds are
        given, the first is applied here only. ``order_by`` is ``CREATED_AT`` with ``order``
        ``DESC``, but ``UPDATED_AT`` with ``ASC`` where a filter on it is given. ``page_size`` is 1
        to 1000 (100), ``max_rows`` how many come in all, ``page_cursor`` where to start.

        >>> transfers = client.list_transfers(type="WIRE_DEPOSIT", order="DESC", max_rows=2)
        >>> [str(transfer.status) for transfer in transfers]
        ['PENDING', 'COMPLETED']
        """
        return self._list("list_transfers", locals())

    def get_transfer(self, id: str) -> Transfer:
        """A transfer by its ``id`` (§4.6). Raises ``NotFound``.

        >>> newest = next(iter(client.list_transfers(order="DESC")))
        >>> client.get_transfer(newest.id).id == newest.id
        True
        """
        return self._get("get_transfer", Transfer, id=id)

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        """What ``profile_id`` has of ``asset``: ``available`` and ``trading`` (§4.7).

        Raises ``NotFound``.

        >>> balance = client.get_profile_balance(sandbox.profile_ids[0], "USD")
        >>> balance.asset, balance.trading.text
        ('USD', '0.00')
        """
        return self._get("get_profile_balance", ProfileBalance, profile_id=profile_id, asset=asset)

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
        order: Sorting | None = None,
        page_cursor: str | None = None,
        page_size: int | None = None,
        max_rows: int | None = None,
    ) -> Rows[Event]:
        """Events, oldest first unless ``order`` is ``DESC`` (§4.17, §6).

        ``type`` is a kind such as ``identity.approved``; ``is_test`` asks for test events instead
        of real ones. ``created_at_lt``, ``created_at_lte``, ``created_at_eq``, ``created_at_gte``
        and ``created_at_gt`` compare times. ``page_size`` is 1 to 100 (100), ``max_rows`` how many
        come in all, ``page_cursor`` where to start.

        >>> events = client.list_events(type="identity.approved", max_rows=1)
        >>> [event.object["new_summary_status"] for event in events]
        ['APPROVED']
        """
        return self._list("list_events", locals())
