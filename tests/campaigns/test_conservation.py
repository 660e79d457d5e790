"""The ledger conserves money: 64 clients do everything at once while the server is killed.

After each kill the database is read with nothing but SQLite: the entries of every asset sum to
zero, and each balance is the sum of its entries. In the end every balance the interface reports is
rebuilt from the transfers it lists, and every payment that was acknowledged is there once.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
import urllib3
from served import Served

from fundlab.cli.demo import BANK, OWNER

WAY = "/v2/transfer"
STABLE = ("USDG", "PYUSD", "USDP", "USDC")
NETWORKS = ("ETHEREUM", "SOLANA", "BASE", "BITCOIN")
CENTS = ("00", "01", "13", "50", "99")  # a withdrawal that ends in .13 fails and is given back
LONGEST_DEATH_S = 60.0

Json = dict[str, Any]


@dataclass
class Shared:
    """What the clients know of the service, and what became of their requests."""

    server: Served
    profile_ids: list[str] = field(default_factory=list)
    known: dict[str, list[str]] = field(
        default_factory=lambda: {
            name: []
            for name in ("account", "instructions", "memo", "transfer", "address", "withdrawal")
        }
    )
    statuses: Counter[int] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    paid: dict[str, str] = field(default_factory=dict)
    unanswered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    alive: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> int:
        return self.kinds.total()


class Customer:
    """One client: its own connection, token and chance."""

    def __init__(self, shared: Shared, number: int, seed: int) -> None:
        self.shared, self.number = shared, number
        self.chance = Random(f"{seed} {number}")
        self.names = itertools.count()
        self.http = urllib3.PoolManager(retries=False, timeout=LONGEST_DEATH_S)
        self.token = ""

    def work(self, count: int) -> None:
        acts = [act for act, weight in self.acts().items() for _ in range(weight)]
        for _ in range(count):
            act = self.chance.choice(acts)
            act()
            with self.shared.lock:
                self.shared.kinds[act.__name__] += 1
        self.http.clear()

    def acts(self) -> dict[Callable[[], object], int]:
        """Everything a client does, and how often."""
        return {
            self.withdraw: 12, self.overdraw: 2, self.withdraw_twice: 2, self.deposit: 10,
            self.crypto_deposit: 4, self.read_balance: 6, self.list_transfers: 4,
            self.get_transfer: 4, self.list_events: 2, self.new_account: 2, self.get_account: 3,
            self.update_account: 1, self.list_accounts: 2, self.new_instructions: 2,
            self.get_instructions: 2, self.list_instructions: 2, self.new_address: 2,
            self.new_rule: 2, self.list_addresses: 2, self.quote: 3, self.nonsense: 3,
        }  # fmt: skip

    # ------------------------------------------------------------------ money

    def withdraw(self, amount: str | None = None) -> Json:
        body = {
            "ref_id": self.name(), "asset": "USD", "amount": amount or self.amount(40),
            "fiat_account_id": self.one("account"), "profile_id": self.profile(),
        }  # fmt: skip
        status, answer = self.post(f"{WAY}/fiat-withdrawals", body)
        if status == 200 or (status == 409 and answer["meta"].get("existing")):
            made = answer if status == 200 else answer["meta"]["existing"]
            self.learn("transfer", made["id"])
            with self.shared.lock:
                self.shared.paid[body["ref_id"]] = made["id"]
        return body

    def withdraw_twice(self) -> None:
        body = self.withdraw()
        self.post(f"{WAY}/fiat-withdrawals", {**body, "amount": "1.00"})

    def overdraw(self) -> None:
        self.withdraw("99999999999999999999.00")

    def deposit(self) -> None:
        body = {
            "amount": self.amount(400), "asset": "USD", "memo_id": self.one("memo"),
            "fiat_network_instructions": BANK, "fiat_account_owner": OWNER,
        }  # fmt: skip
        self.post("/v2/sandbox/fiat-deposits", body)

    def crypto_deposit(self) -> None:
        asset, amount = self.chance.choice((*STABLE, "BTC", "ETH")), self.chance.randrange(10**12)
        body = {"address": self.one("address"), "asset": asset, "amount": f"0.{amount + 1:018d}"}
        self.call("POST", "/_sandbox/crypto_deposit", body)

    def new_rule(self) -> None:
        """Converts and moves on what arrives: mostly at a new address, now and then elsewhere."""
        chance, profile_id = self.chance, self.profile()
        source: Json = {"crypto": {"network": chance.choice(NETWORKS[1:3])}}
        if chance.random() < 0.1:
            source = {"profile": {"profile_id": profile_id}}
        elif chance.random() < 0.3:
            source = {"fiat": {"network": "WIRE", "account_type": "ABA"}}
        ends: tuple[Json, ...] = (
            {"profile": {"profile_id": self.profile()}},
            {"crypto": {"network": "ETHEREUM", "address": "0x" + "ab" * 20}},
            {"fiat": {"fiat_account_id": self.one("account")}},
        )
        body = {
            "ref_id": self.name(), "profile_id": profile_id, "source": source,
            "source_asset": "USD" if "fiat" in source else chance.choice(("USD", *STABLE)),
            "destination_asset": chance.choice(("USD", *STABLE)),
            "destination": chance.choice(ends),
        }  # fmt: skip
        status, answer = self.post("/v2/orchestration/rules", body)
        if status == 200:
            source = answer["rule"]["source"]
            for name, end, member in (
                ("address", "crypto", "address"),
                ("memo", "fiat", "memo_id"),
            ):
                if end in source:
                    self.learn(name, source[end][member])

    def quote(self) -> None:
        body = {
            "asset": self.chance.choice(STABLE), "crypto_network": "ETHEREUM",
            "destination_address": "0x" + "ab" * 20,
            self.chance.choice(("amount", "total")): "250.00",
        }  # fmt: skip
        self.post(f"{WAY}/fees/crypto-withdrawal", body)

    # ------------------------------------------------------------------ the rest

    def read_balance(self) -> None:
        asset = self.chance.choice(("USD", *STABLE))
        self.call("GET", f"/v2/profiles/{self.profile()}/balances/{asset}")

    def list_transfers(self) -> None:
        self.listed(f"{WAY}/transfers")

    def list_events(self) -> None:
        self.listed("/v2/events")

    def list_accounts(self) -> None:
        self.listed(f"{WAY}/fiat-accounts")

    def list_instructions(self) -> None:
        self.listed(f"{WAY}/fiat-deposit-instructions")

    def list_addresses(self) -> None:
        self.listed(f"{WAY}/crypto-destination-addresses")

    def listed(self, path: str) -> None:
        order, limit = self.chance.choice(("ASC", "DESC")), self.chance.randint(1, 30)
        _, page = self.call("GET", f"{path}?order={order}&limit={limit}")
        if page["next_page_cursor"]:
            self.call("GET", f"{path}?order={order}&limit=5&page_cursor={page['next_page_cursor']}")

    def get_transfer(self) -> None:
        self.call("GET", f"{WAY}/transfers/{self.one('transfer')}")

    def get_account(self) -> None:
        self.call("GET", f"{WAY}/fiat-accounts/{self.one('account')}")

    def get_instructions(self) -> None:
        self.call("GET", f"{WAY}/fiat-deposit-instructions/{self.one('instructions')}")

    def new_account(self) -> None:
        body = {
            "ref_id": self.name(), "fiat_account_owner": OWNER, "fiat_network_instructions": BANK,
        }  # fmt: skip
        status, made = self.post(f"{WAY}/fiat-accounts", body)
        if status == 200:
            self.learn("account", made["id"])

    def update_account(self) -> None:
        body = {"metadata": {"by": str(self.number)}}
        self.call("PUT", f"{WAY}/fiat-accounts/{self.one('account')}", body)

    def new_instructions(self) -> None:
        body = {
            "ref_id": self.name(), "profile_id": self.profile(), "fiat_network": "WIRE",
            "routing_number_type": "ABA",
        }  # fmt: skip
        status, made = self.post(f"{WAY}/fiat-deposit-instructions", body)
        if status == 200:
            self.learn("instructions", made["id"])
            self.learn("memo", made["memo_id"])

    def new_address(self) -> None:
        body = {
            "ref_id": self.name(), "profile_id": self.profile(),
            "crypto_network": self.chance.choice(NETWORKS),
        }  # fmt: skip
        status, made = self.post(f"{WAY}/deposit-addresses", body)
        if status == 200:
            self.learn("address", made["address"])

    def nonsense(self) -> None:
        """What must be refused: amounts, bodies and ids that are none."""
        amount = self.chance.choice(("-1", "1e5", "", "0", "1.234", "NaN", 5, None, "9" * 65))
        body = {"amount": amount, "asset": "USD", "profile_id": self.profile()}
        self.chance.choice(
            (
                lambda: self.post(f"{WAY}/fiat-withdrawals", body),
                lambda: self.post("/v2/orchestration/rules", {"source": [amount]}),
                lambda: self.call("GET", f"{WAY}/transfers/{self.name()}"),
                lambda: self.call("GET", f"{WAY}/transfers?page_cursor={self.name()}"),
            )
        )()

    # ------------------------------------------------------------------ talking

    def post(self, path: str, body: Json) -> tuple[int, Any]:
        return self.call("POST", path, body)

    def call(self, method: str, path: str, body: Json | None = None) -> tuple[int, Any]:
        """Status and answer; asked again, with the same ``ref_id``, until there is one."""
        while True:
            try:
                answer = self.http.request(
                    method, self.shared.server.about["base_url"] + path, headers=self.headers(),
                    body=None if body is None else json.dumps(body).encode(),
                )  # fmt: skip
            except urllib3.exceptions.HTTPError:
                with self.shared.lock:
                    self.shared.unanswered += 1
                self.shared.alive.wait(LONGEST_DEATH_S)
                time.sleep(0.05)
                continue
            with self.shared.lock:
                self.shared.statuses[answer.status] += 1
            return answer.status, json.loads(answer.data or b"null")

    def headers(self) -> dict[str, str]:
        if not self.token:
            about = self.shared.server.about
            form = {"grant_type": "client_credentials", "scope": ""} | {
                name: about[name] for name in ("client_id", "client_secret")
            }
            answer = self.http.request("POST", f"{about['auth_url']}/oauth2/token", fields=form)
            self.token = json.loads(answer.data)["access_token"]
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    # ------------------------------------------------------------------ choosing

    def name(self) -> str:
        return f"c{self.number}-{next(self.names)}"

    def profile(self) -> str:
        return self.chance.choice(self.shared.profile_ids)

    def one(self, kind: str) -> str:
        return self.chance.choice(self.shared.known[kind])

    def learn(self, kind: str, name: str) -> None:
        self.shared.known[kind].append(name)

    def amount(self, most: int) -> str:
        return f"{self.chance.randint(1, most)}.{self.chance.choice(CENTS)}"


CLIENTS = 64
PAUSE_S = 0.02
EXACT = Context(prec=60)


@pytest.mark.parametrize(
    ("operations", "kills"), [(50, 1), pytest.param(1_000, 20, marks=pytest.mark.campaign)]
)
def test_operations_and_kills(
    tmp_path: Path, seed: int, figure: Any, operations: int, kills: int
) -> None:
    options = ("--empty", "--profiles", "8", "--clock", "fast", "--seed", str(seed))
    with Served(tmp_path / "sandbox.db", options) as server:
        shared = prepared(server, seed)
        entries = 0
        with ThreadPoolExecutor(CLIENTS) as threads:
            clients = [Customer(shared, number, seed) for number in range(CLIENTS)]
            working = [threads.submit(client.work, operations) for client in clients]
            for number in range(1, kills + 1):
                until(shared, CLIENTS * operations * number // (kills + 1), working)
                shared.alive.clear()
                server.kill()
                entries = check_books(server.db, tmp_path / f"killed-{number}")
                server.start()
                assert set(server.view("ledger")["totals"].values()) == {"0.00"}
                shared.alive.set()
            for one in working:
                one.result()
        server.act("advance", seconds=3600)
        statuses = dict(sorted(shared.statuses.items()))
        figure(
            f"the ledger conserves money: {CLIENTS} clients, {shared.done:,} operations of "
            f"{len(shared.kinds)} kinds, {kills} kills, {shared.unanswered} requests cut off, "
            f"{entries:,} entries at the last kill: 0 per asset each time; statuses {statuses}"
        )
        assert shared.done == CLIENTS * operations
        assert max(shared.statuses) < 500, shared.statuses
        check_transfers(server, shared)
        server.stop()
        check_books(server.db, tmp_path / "stopped")


def prepared(server: Served, seed: int) -> Shared:
    """Something of everything to begin with, and some money."""
    shared = Shared(server, server.about["profile_ids"])
    shared.alive.set()
    first = Customer(shared, -1, seed)
    for make in (first.new_account, first.new_instructions, first.new_address):
        for _ in range(8):
            make()
    for _ in range(40):
        first.deposit()
    server.act("advance", seconds=61)
    first.withdraw()
    shared.statuses.clear()
    return shared


def until(shared: Shared, count: int, working: list[Any]) -> None:
    while shared.done < count and not all(one.done() for one in working):
        time.sleep(PAUSE_S)


def check_books(database: Path, copy: Path) -> int:
    """As a copy of the files has them, without the sandbox: nothing made, nothing lost.

    Returns how many entries there are.
    """
    copy.mkdir()
    for path in database.parent.glob(f"{database.name}*"):
        shutil.copy(path, copy)
    connection = sqlite3.connect(copy / database.name)
    entries = connection.execute("SELECT account, amount FROM ledger_entries").fetchall()
    accounts = connection.execute(
        "SELECT seq, owner, asset, balance FROM ledger_accounts"
    ).fetchall()
    connection.close()
    booked: defaultdict[int, int] = defaultdict(int)
    for account, amount in entries:
        booked[account] += int(amount)
    totals: defaultdict[str, int] = defaultdict(int)
    for seq, owner, asset, balance in accounts:
        assert booked.pop(seq) == int(balance), (owner, asset)
        assert "/" not in owner or int(balance) >= 0, (owner, asset)
        totals[asset] += int(balance)
    assert not booked
    assert totals
    assert not any(totals.values()), totals
    shutil.rmtree(copy)
    return len(entries)


def check_transfers(server: Served, shared: Shared) -> None:
    """Balances are the sum of the transfers; what was acknowledged is there, once."""
    asking = Customer(shared, -2, 0)
    rows, cursor = [], ""
    while True:
        _, page = asking.call("GET", f"{WAY}/transfers?limit=1000&order=ASC&page_cursor={cursor}")
        rows += page["items"]
        cursor = page["next_page_cursor"]
        if not cursor:
            break
    assert len({row["id"] for row in rows}) == len(rows)
    by_ref = {row["ref_id"]: row["id"] for row in rows if row.get("ref_id")}
    assert {ref_id: by_ref.get(ref_id) for ref_id in shared.paid} == shared.paid
    assert all(row["status"] != "PENDING" for row in rows)
    sums: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["status"] == "COMPLETED":
            sign = 1 if row["direction"] == "CREDIT" else -1
            key = row["profile_id"], row.get("balance_asset", row["asset"])
            sums[key] = EXACT.add(sums[key], sign * Decimal(row["total"]))
    for profile_id in shared.profile_ids:
        for asset in ("USD", *STABLE, "BTC", "ETH"):
            _, balance = asking.call("GET", f"/v2/profiles/{profile_id}/balances/{asset}")
            reported = EXACT.add(Decimal(balance["available"]), Decimal(balance["trading"]))
            assert reported == sums[profile_id, asset], (profile_id, asset)
    asking.http.clear()
