"""How each kind of action is sent, and asked for again by its ``ref_id`` or its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fundlab.errors import ActionError
from fundlab.models import Resource

if TYPE_CHECKING:
    from fundlab.api.client import Client

WITHDRAWAL: Final = "create_fiat_withdrawal"


@dataclass(frozen=True)
class Kind:
    """``noun`` in messages; ``listed`` and ``single`` are operations, where the service has them.

    ``moves_money``: only these count against limits. ``private``: its body holds bank details.
    ``changes``: it makes nothing, but changes what ``single`` shows.
    """

    operation: str
    noun: str
    listed: str | None = None
    single: str | None = None
    moves_money: bool = False
    private: bool = False
    changes: bool = False

    def send(self, client: Client, arguments: Mapping[str, Any]) -> Any:
        """Carry it out; ``arguments`` is the body (and the id in the path of an update)."""
        create: Callable[..., Any] = getattr(client, self.operation)
        return create(**arguments)

    def find(self, client: Client, ref_id: str) -> Any | None:
        """What the service made under ``ref_id``, or ``None``."""
        if self.listed is None:
            raise ActionError(f"{self.noun}: the service has no list to look in")
        rows = getattr(client, self.listed)(ref_ids=[ref_id])
        found: Resource | None = next((row for row in rows if row.ref_id == ref_id), None)
        return found

    def get(self, client: Client, resource_id: str) -> Any | None:
        """The resource as it is now; ``None`` where the service does not show it."""
        return getattr(client, self.single)(resource_id) if self.single else None


KINDS: Final[Mapping[str, Kind]] = {
    kind.operation: kind
    for kind in (
        Kind(
            WITHDRAWAL, "withdrawal", "list_transfers", "get_transfer", moves_money=True,
        ),
        Kind(
            "create_fiat_account", "fiat account", "list_fiat_accounts", "get_fiat_account",
            private=True,
        ),
        Kind(
            "update_fiat_account", "account update", None, "get_fiat_account", private=True,
            changes=True,
        ),
        Kind(
            "create_fiat_deposit_instructions", "deposit instructions",
            "list_fiat_deposit_instructions", "get_fiat_deposit_instructions",
        ),
        Kind("create_deposit_address", "deposit address"),
        Kind("create_orchestration_rule", "orchestration rule"),
    )
}  # fmt: skip
