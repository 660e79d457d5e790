"""The ledger conserves money: 64 clients do everything at once while the server is killed.

After each kill the database is read with nothing but SQLite: the entries of every asset sum to
zero, and each balance is the sum of its entries. In the end every balance the interface reports is
rebuilt from the transfers it lists, and every payment that was acknowledged is there once.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pytest
from customers import STABLE, WAY, Customer, Shared
from served import Served

CLIENTS = 64
PAUSE_S = 0.02
EXACT = Context(prec=60)


def test_fifty_operations_each(tmp_path: Path, seed: int, figure: Any) -> None:
    conserve(tmp_path, seed, figure, operations=50, kills=1)


@pytest.mark.campaign
def test_a_thousand_operations_each(tmp_path: Path, seed: int, figure: Any) -> None:
    conserve(tmp_path, seed, figure, operations=1_000, kills=20)


def conserve(folder: Path, seed: int, figure: Any, *, operations: int, kills: int) -> None:
    options = ("--empty", "--profiles", "8", "--clock", "fast", "--seed", str(seed))
    with Served(folder / "sandbox.db", options) as server:
        shared = prepared(server, seed)
        entries = 0
        with ThreadPoolExecutor(CLIENTS) as threads:
            clients = [Customer(shared, number, seed) for number in range(CLIENTS)]
            working = [threads.submit(client.work, operations) for client in clients]
            for number in range(1, kills + 1):
                until(shared, CLIENTS * operations * number // (kills + 1), working)
                shared.alive.clear()
                server.kill()
                entries = check_books(server.db, folder / f"killed-{number}")
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
        check_books(server.db, folder / "stopped")


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
