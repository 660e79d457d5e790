"""Pages are stable: no row is missed or repeated while others are inserted and changed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from sandbox_caller import Caller, caller_of, deposit, fund, instructions

from fundlab.sandbox import Sandbox, serve

TRANSFERS = "/v2/transfer/transfers"


def test_an_ascending_pass_misses_and_repeats_nothing_while_rows_are_inserted(
    sandbox: Sandbox, caller: Caller
) -> None:
    """Business time stands still: everything would have the same time if it could."""
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    for _ in range(12):
        assert deposit(caller, memo_id, "1").ok
    seen: list[str] = []
    path = f"{TRANSFERS}?order=ASC&limit=3"
    cursor = ""
    for _ in range(8):
        page = caller.get(path + (f"&page_cursor={cursor}" if cursor else "")).json()
        seen += [row["id"] for row in page["items"]]
        cursor = page["next_page_cursor"]
        assert deposit(caller, memo_id, "1").ok
        assert deposit(caller, memo_id, "1").ok
        sandbox.clock.advance(7)  # some of the first become COMPLETED meanwhile
    while cursor:
        page = caller.get(f"{path}&page_cursor={cursor}").json()
        seen += [row["id"] for row in page["items"]]
        cursor = page["next_page_cursor"]
    assert seen == [row["id"] for row in caller.rows(f"{TRANSFERS}?order=ASC&limit=1000")]
    assert len(seen) == 28


def test_a_pass_by_updated_at_sees_every_change_after_its_cursor(
    sandbox: Sandbox, caller: Caller
) -> None:
    fund(caller, sandbox, sandbox.profile_ids[0], "1")
    memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
    for _ in range(6):
        assert deposit(caller, memo_id, "1").ok
    path = f"{TRANSFERS}?order_by=UPDATED_AT&order=ASC&limit=2"
    first = caller.get(path).json()
    sandbox.clock.advance(60)
    cursor, seen = first["next_page_cursor"], {}
    while cursor:
        page = caller.get(f"{path}&page_cursor={cursor}").json()
        seen |= {row["id"]: row["status"] for row in page["items"]}
        cursor = page["next_page_cursor"]
    rows = caller.rows(TRANSFERS)
    assert {row["id"] for row in rows} == set(seen) | {row["id"] for row in first["items"][:1]}
    assert set(seen.values()) == {"COMPLETED"}


@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize("by", ["CREATED_AT", "UPDATED_AT"])
@pytest.mark.parametrize(
    "narrowed",
    [
        "",
        pytest.param("&type=WIRE_DEPOSIT", marks=pytest.mark.thorough),
        pytest.param("&statuses=PENDING", marks=pytest.mark.thorough),
    ],
)
def test_thousands_of_equal_times_page_without_loss(
    equal_times: Sandbox, order: str, by: str, narrowed: str
) -> None:
    caller = caller_of(equal_times)
    path = f"{TRANSFERS}?limit=97&order={order}&order_by={by}{narrowed}"
    times = Counter(row["id"] for row in caller.rows(path))
    assert len(times) == 2_501
    assert set(times.values()) == {1}
    caller.close()


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_rows_of_equal_time_inserted_meanwhile_disturb_no_pass(
    equal_times: Sandbox, order: str
) -> None:
    caller = caller_of(equal_times)
    before = {row["id"] for row in caller.rows(f"{TRANSFERS}?limit=1000")}
    done = threading.Event()

    def insert() -> None:
        for batch in range(200):
            if done.is_set():
                return
            insert_copies(equal_times, f"{order}-{batch}", 5)

    inserting = threading.Thread(target=insert)
    inserting.start()
    try:
        times = Counter(row["id"] for row in caller.rows(f"{TRANSFERS}?limit=53&order={order}"))
    finally:
        done.set()
        inserting.join()
    after = {row["id"] for row in caller.rows(f"{TRANSFERS}?limit=1000")}
    assert len(after) > len(before)
    assert set(times.values()) == {1}
    assert before <= set(times) <= after
    if order == "ASC":
        # what came meanwhile sorts behind everything there was, so the pass met it as well
        assert len(times) > len(before)
    caller.close()


@pytest.fixture(scope="module")
def equal_times() -> Iterator[Sandbox]:
    """2,501 transfers of one and the same time."""
    with serve(empty=True, clock="manual", profiles=1) as sandbox:
        caller = caller_of(sandbox)
        memo_id = instructions(caller, sandbox.profile_ids[0])["memo_id"]
        assert deposit(caller, memo_id, "1").ok
        caller.close()
        insert_copies(sandbox, "first", 2_500)
        yield sandbox


def insert_copies(sandbox: Sandbox, name: str, count: int) -> None:
    """Copies of the first transfer, the same but for their ids, which are in no order."""
    database = sandbox._service.database
    with database.transaction():
        database.run(
            "WITH RECURSIVE n (k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < ?) "
            "INSERT INTO transfers (id, customer_id, created_at_ns, updated_at_ns, profile_id, "
            "type, status, body) SELECT hex(randomblob(8)) || ?, customer_id, created_at_ns, "
            "updated_at_ns, profile_id, type, status, body FROM transfers, n WHERE seq = 1",
            count, name,
        )  # fmt: skip
        database.run(
            "UPDATE transfers SET body = CAST(json_object('id', id) AS BLOB) WHERE id LIKE ?",
            f"%{name}",
        )
