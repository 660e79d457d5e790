"""A place to pay from: a store of its own, an approved account, a profile with money."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import fundlab as fl
from fundlab.cli.demo import BANK, OWNER
from fundlab.client.client import Client
from fundlab.client.transport import Environment
from fundlab.models import FiatAccount, Transfer
from fundlab.payments.actions import WithdrawalPlan
from fundlab.sandbox.serve import Sandbox


@dataclass
class Bench:
    """A store and a journal, an approved account, a profile with money, and what was said."""

    sandbox: Sandbox
    client: Client
    store: Path
    account: FiatAccount
    profile_id: str
    said: list[str] = field(default_factory=list)

    def plan(self, amount: str = "100.00", **given: Any) -> WithdrawalPlan:
        wanted: dict[str, Any] = {
            "profile_id": self.profile_id,
            "fiat_account_id": self.account.id,
            "amount": amount,
            "say": self.said.append,
        }
        return fl.plan_withdrawal(given.pop("client", self.client), **(wanted | given))

    def pay(self, amount: str = "100.00", **given: Any) -> Transfer:
        plan = self.plan(amount, **given)
        return plan.submit(confirm=plan.code)

    def made(self, account: FiatAccount | None = None) -> list[Transfer]:
        """Every withdrawal to the account, from the sandbox's own table."""
        wanted = (account or self.account).id
        rows = self.client.list_transfers(profile_ids=self.sandbox.profile_ids, page_size=1000)
        return [row for row in rows if row.fiat_account_id == wanted]

    def available(self) -> Decimal:
        """From the ledger, not from the interface."""
        owner = f"available/{self.profile_id}"
        accounts = self.sandbox.control.ledger()["accounts"]
        return next(
            Decimal(entry["balance"])
            for entry in accounts
            if (entry["owner"], entry["asset"]) == (owner, "USD")
        )

    def journal(self) -> Any:
        return fl.journal(folder=self.client.settings.journal)

    def journal_file(self) -> Path:
        (found,) = self.client.settings.journal.glob("*.sqlite")
        return found


def approved_account(sandbox: Sandbox, client: Client, **given: Any) -> FiatAccount:
    made = client.create_fiat_account(
        **({"fiat_account_owner": OWNER, "fiat_network_instructions": BANK} | given)
    )
    sandbox.clock.advance(11)
    return client.get_fiat_account(made.id)


def impatient(client: Client) -> Client:
    """The same client, that does not pause before it tries again."""
    return Client(client.settings, environment=Environment(sleep=lambda seconds: None))
