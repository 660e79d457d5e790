"""Where a plan would be carried out, in words and a colour that cannot be missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fundlab.api.client import Client


@dataclass(frozen=True)
class Environment:
    """A service and credential. ``is_production``: the money is real (see ``Settings``)."""

    base_url: str
    client_id: str
    is_production: bool

    @property
    def name(self) -> str:
        return "PRODUCTION · real money" if self.is_production else "SANDBOX · play money"

    @property
    def colour(self) -> str:
        """Background of the card's band; its text is white."""
        return "#b3261e" if self.is_production else "#1d6b52"


def environment_of(client: Client) -> Environment:
    return Environment(client.base_url, client.client_id, client.settings.is_production)
