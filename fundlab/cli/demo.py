"""The main job, end to end, on the embedded sandbox: ``fundlab demo``.

Signed and over HTTP, as against the real service: sync, rebuild, reconcile, withdraw, sync what
changed, prove again, report. The sandbox's clock is moved by hand, so the same seed gives the same
transfers and the same figures.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fundlab import reports, sandbox
from fundlab.analysis import reconcile
from fundlab.base.errors import ActionError, StoreError
from fundlab.base.exact import EXACT
from fundlab.client.client import Client
from fundlab.models import FiatAccountStatus
from fundlab.operate.store import Store
from fundlab.payments.actions import plan_withdrawal, register_fiat_account, wait_for
from fundlab.settings.labels import names_given
from fundlab.settings.settings import is_loopback

AMOUNT = Decimal("1000.00")
BANK = {
    "wire": {
        "account_number": "000123456789",
        "fiat_account_owner_address": {
            "country": "USA",
            "address1": "200 Market Street",
            "city": "San Francisco",
            "province": "CA",
            "zip_code": "94105",
        },
        "routing_details": {
            "routing_number_type": "ABA",
            "routing_number": "021000021",
            "bank_name": "First Harbor Bank",
            "bank_address": {
                "country": "USA",
                "address1": "1 Harbor Plaza",
                "city": "New York",
                "province": "NY",
                "zip_code": "10005",
            },
        },
    }
}
_UNFINISHED = '{"finished": false}\n'
OWNER = {"institution_details": {"name": "Harbor Trading LLC"}}


@dataclass(frozen=True)
class Withdrawal:
    """The demo's payment: what was asked, what it came to, and how the balance moved."""

    id: str
    status: str
    amount: str
    fee: str
    total: str
    balance_before: str
    balance_after: str


@dataclass(frozen=True)
class Demo:
    """What a run did, and where its results are."""

    seed: int
    transfers: int
    rows: dict[str, int]
    balances: int
    breaks: int
    state: str
    verdict: str
    withdrawal: Withdrawal
    seconds: float
    store: str
    report: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run(
    out: Path,
    *,
    seed: int = 7,
    transfers: int = 20_000,
    say: Callable[[str], object] = str,
) -> Demo:
    """Run the demo into the folder ``out``; ``say`` hears of each step.

    Writes ``store/``, ``report.html`` and ``demo.json``, and a journal of its own into
    ``journal/``. An earlier demo there is replaced, one that was interrupted too; a folder with
    another store is refused with ``ActionError``.
    """
    started = time.monotonic()
    store_path, report_path, summary_path = out / "store", out / "report.html", out / "demo.json"
    if os.path.lexists(store_path):
        # Only an earlier demo's store is replaced, with which nothing is lost: it is not a link,
        # holds no journal of payments, and its service was on this machine.
        earlier = summary_path.is_file() and not store_path.is_symlink()
        if earlier and not os.path.lexists(store_path / "journal"):
            try:
                service_was = Store(store_path).service()
                earlier = service_was is None or is_loopback(
                    urlsplit(service_was.get("base_url", "")).hostname
                )
            except StoreError:
                earlier = False
        else:
            earlier = False
        if not earlier:
            raise ActionError(
                f"{store_path} is not an earlier demo's, or holds payments; choose another folder "
                "with --out"
            )
        shutil.rmtree(store_path)
    summary_path.parent.mkdir(parents=True, exist_ok=True)
    summary_path.unlink(missing_ok=True)  # and not what a link of this name leads to
    summary_path.write_text(_UNFINISHED, encoding="utf-8")
    say(f"starting the sandbox with {transfers:,} transfers")
    with (
        sandbox.serve(seed=seed, transfers=transfers, signing=True, clock="manual") as service,
        service.connect(journal=out / "journal") as connected,
        # The demo's payment stands apart from the user's own: their limits and allowed accounts
        # are not meant for it.
        Client(
            replace(
                connected.settings,
                withdrawal_limit=None,
                daily_withdrawal_limit=None,
                allowed_accounts=None,
            )
        ) as client,
    ):
        store = Store(store_path, clock=lambda: service.clock.now().ns)
        say("syncing over HTTP, with tokens and signatures")
        store.sync(client)
        withdrawal = _withdraw(client, service, store, say)
        say("syncing what changed")
        store.sync(client)
        as_of = service.clock.now()
    say("rebuilding the balances and comparing them with what the service reports")
    frames = {table: store.read(table) for table in ("events", "balances")}
    frames["transfers"] = store.read("transfers", settled=True)  # as `fundlab report` does
    judgement = reconcile.judge(store)
    say("writing the report")
    built = reports.build(
        frames["transfers"],
        frames["balances"],
        title="Funding report: demo on the sandbox",
        as_of=as_of,
        events=frames["events"],
        fiat_accounts=store.read("fiat_accounts"),
        addresses=store.read("addresses"),
        judgement=judgement,
        withdrawals=[withdrawal.id],
        names=names_given(),
        sources={
            "Store": str(store_path),
            "Command": f"fundlab demo --out {out} --seed {seed} --transfers {transfers}",
            **reports.versions(),
        },
    )
    reports.write(built, report_path)
    result = Demo(
        seed=seed,
        transfers=transfers,
        rows={table: len(frame) for table, frame in frames.items()},
        balances=judgement.balances,
        breaks=judgement.breaks,
        state=judgement.state,
        verdict=judgement.text,
        withdrawal=withdrawal,
        seconds=round(time.monotonic() - started, 1),
        store=str(store_path),
        report=str(report_path),
    )
    summary_path.write_text(json.dumps(result.to_json(), indent=2) + "\n", encoding="utf-8")
    return result


def _withdraw(
    client: Client, service: sandbox.Sandbox, store: Store, say: Callable[[str], object]
) -> Withdrawal:
    """Register an account, wait for its approval, plan, confirm, wait: as one pays for real."""
    profile_id = service.profile_ids[0]
    say("registering a bank account and waiting for its approval")
    registration = register_fiat_account(
        client, fiat_account_owner=OWNER, fiat_network_instructions=BANK, ref_id="demo-account",
        store=store, say=str,
    )  # fmt: skip
    account = registration.submit(confirm=registration.code)
    account = wait_for(client, account, sleep=service.clock.advance)
    if account.status != FiatAccountStatus.APPROVED:
        raise ActionError(f"fiat account {account.id} ended {account.status}")
    plan = plan_withdrawal(
        client, profile_id=profile_id, fiat_account_id=account.id, amount=AMOUNT,
        ref_id="demo-withdrawal", store=store, say=str,
    )  # fmt: skip
    say(f"withdrawing {AMOUNT:,} USD: the plan is confirmed by its code and journalled, then sent")
    say(repr(plan))
    transfer = plan.submit(confirm=plan.code)
    store.sync(client, tables=["transfers", "balances"])
    transfer = wait_for(client, transfer, sleep=service.clock.advance)
    before = plan.available
    after = client.get_profile_balance(profile_id=profile_id, asset="USD").available
    moved = EXACT.subtract(before, after)
    if transfer.total is None or moved != transfer.total:
        raise ActionError(
            f"the balance moved by {moved} USD, not by the transfer's {transfer.total}"
        )
    return Withdrawal(
        id=transfer.id,
        status=str(transfer.status),
        amount=str(transfer.amount),
        fee=str(transfer.fee),
        total=str(transfer.total),
        balance_before=str(before),
        balance_after=str(after),
    )
