"""Clients of the sandbox that do all that can be done, at random, and outlive its deaths.

They speak plain HTTP and count every status; nothing here is fundlab's client.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import urllib3
from served import Served

from fundlab.demo import BANK, OWNER

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
