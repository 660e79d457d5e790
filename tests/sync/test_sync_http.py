"""A store kept up to date with the sandbox, over real HTTP."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from fundlab import Store
from fundlab import sandbox as fl_sandbox
from fundlab.analysis import reconcile
from fundlab.base.errors import FundlabError, NetworkError
from fundlab.client.client import Client
from fundlab.sandbox import Sandbox
from fundlab.sync.loaders import load_balances, load_events, load_transfers

BANK = {
    "wire": {
        "account_number": "12345678",
        "fiat_account_owner_address": {"country": "US"},
        "routing_details": {
            "routing_number_type": "ABA",
            "routing_number": "021000021",
            "bank_name": "First Bank",
            "bank_address": {"country": "US"},
        },
    }
}


@pytest.fixture(scope="module")
def service() -> Iterator[Sandbox]:
    with fl_sandbox.serve(seed=7, transfers=400, clock="manual") as running:
        yield running


@pytest.fixture(scope="module")
def client(service: Sandbox) -> Iterator[Client]:
    with service.connect() as connected:
        yield connected


def breaks(store: Store) -> int:
    found = reconcile.compare(store.read("transfers"), store.read("balances"))
    return int((found["status"] != "match").sum())


def withdraw(client: Client, service: Sandbox, ref_id: str) -> str:
    account = client.create_fiat_account(
        ref_id=f"account-{ref_id}",
        fiat_account_owner={"institution_details": {"name": "Acme"}},
        fiat_network_instructions=BANK,
    )
    service.clock.advance(15)
    balances = load_balances(client, profile_ids=service.profile_ids, assets=["USD"])
    richest = balances.sort_values("available").iloc[-1]
    assert richest["available"] > 200
    return client.create_fiat_withdrawal(
        ref_id=ref_id,
        amount="100.00",
        asset="USD",
        fiat_account_id=account.id,
        profile_id=richest["profile_id"],
    ).id


@pytest.mark.thorough
def test_pending_to_completed_across_syncs(
    tmp_path: Path, service: Sandbox, client: Client
) -> None:
    store = Store(tmp_path / "store")
    first = store.sync(client)
    assert first["transfers"].new == 400
    assert first["events"].new == len(load_events(client))
    assert breaks(store) == 0

    second = store.sync(client)
    assert (second["transfers"].new, second["transfers"].changed) == (0, 0)
    assert second["transfers"].part is None

    paid = withdraw(client, service, "flow-1")
    third = store.sync(client)
    assert third["transfers"].new == 1
    pending = store.read("transfers").set_index("id").loc[paid]
    assert pending["status"] == "PENDING"
    assert breaks(store) == 0

    service.clock.advance(60)
    fourth = store.sync(client)
    assert (fourth["transfers"].new, fourth["transfers"].changed) == (0, 1)
    assert store.read("transfers").set_index("id").loc[paid, "status"] == "COMPLETED"
    versions = store.history("transfers").set_index("id").loc[[paid]]
    assert versions["status"].tolist() == ["PENDING", "COMPLETED"]
    then = store.read("transfers", as_of=versions["published_at"].iloc[0]).set_index("id")
    assert then.loc[paid, "status"] == "PENDING"
    assert breaks(store) == 0

    store.compact()
    assert breaks(store) == 0
    found = store.verify()
    assert found.ok, str(found)
    assert found.intervals == len(store.read("balances"))


def test_a_load_and_a_sync_agree(tmp_path: Path, client: Client) -> None:
    store = Store(tmp_path / "store")
    store.sync(client, tables=["transfers"])
    assert load_transfers(client).equals(store.read("transfers"))
    assert store.scan("transfers").aggregate("sum(total)").fetchall() == [
        (sum(load_transfers(client)["total"], Decimal(0)),)
    ]


def test_a_service_that_dies_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fundlab.client.transport.pause_before", lambda *_: 0.0)
    store = Store(tmp_path / "store")
    with (
        fl_sandbox.serve(seed=7, transfers=400, clock="manual") as running,
        running.connect() as client,
    ):
        store.sync(client, tables=["events"])
        before = {path: path.read_bytes() for path in store.path.rglob("*.parquet")}
        asked = 0
        fetch = client.fetch_page

        def dying(operation: str, params: list[tuple[str, str]]) -> bytes:
            nonlocal asked
            asked += 1
            if asked == 3:
                running.stop()
            return fetch(operation, params)

        client.fetch_page = dying  # type: ignore[method-assign, assignment]
        with pytest.raises(NetworkError) as caught:
            store.sync(client)
    assert isinstance(caught.value, FundlabError)
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in store.path.rglob("*.parquet")} == before
    assert list(store.path.rglob("*.tmp")) == []
    assert len(store.read("transfers")) == 0
