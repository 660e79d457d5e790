"""§4.3, §4.5, §4.11, §4.15, §4.17, §6, §8: filters, limits, orders and cursors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sandbox_caller import Caller, instructions

from fundlab.sandbox import Sandbox
from fundlab.values import Instant

TRANSFERS = "/v2/transfer/transfers"
EVENTS = "/v2/events"
DESTINATIONS = "/v2/transfer/crypto-destination-addresses"
LISTS = {
    TRANSFERS: ("items", 1000),
    EVENTS: ("events", 100),
    DESTINATIONS: ("addresses", 1000),
    "/v2/transfer/fiat-accounts": ("items", 1000),
    "/v2/transfer/fiat-deposit-instructions": ("items", 1000),
}


@pytest.fixture(scope="module")
def everything(reader: Caller) -> list[dict[str, Any]]:
    return list(reader.rows(f"{TRANSFERS}?limit=1000&order=ASC"))


def moment(row: dict[str, Any], field: str = "created_at") -> int:
    return Instant.parse(row[field]).ns


# ---------------------------------------------------------------------------- every list


@pytest.mark.parametrize("path", LISTS)
def test_limits(reader: Caller, path: str) -> None:
    items, largest = LISTS[path]
    assert len(reader.get(f"{path}?limit=1").json()[items]) == 1
    assert reader.get(f"{path}?limit={largest}").status_code == 200
    for bad in (0, -1, largest + 1, "x", "", "1.0", "1e1", "%D9%A1", "+5", " 5", "1_0"):
        refused = reader.get(f"{path}?limit={bad}")
        assert refused.status_code == 400, bad
        assert refused.json()["meta"]["field"] == "limit"


@pytest.mark.parametrize("path", LISTS)
def test_pages_follow_each_other_in_both_orders(reader: Caller, path: str) -> None:
    items, _ = LISTS[path]
    limit = 100 if path in (TRANSFERS, EVENTS) else 3
    up = list(reader.rows(f"{path}?limit={limit}&order=ASC", items))
    down = list(reader.rows(f"{path}?limit={limit}&order=DESC", items))
    assert len(up) > limit
    assert up == down[::-1]
    assert len({row["id"] for row in up}) == len(up)
    times = [moment(row) for row in up]
    assert times == sorted(times)


@pytest.mark.parametrize("path", LISTS)
def test_without_a_limit_a_page_has_100_rows(
    reader: Caller, everything: list[dict[str, Any]], path: str
) -> None:
    items, _ = LISTS[path]
    whole = len(list(reader.rows(path, items)))
    assert len(reader.get(path).json()[items]) == min(whole, 100)
    assert path not in (TRANSFERS, EVENTS) or whole > 100


@pytest.mark.parametrize("path", LISTS)
def test_the_end_of_a_list_is_an_empty_cursor(reader: Caller, path: str) -> None:
    items, _ = LISTS[path]
    alone = reader.get(f"{path}?limit=1").json()
    assert alone["next_page_cursor"]
    none = reader.get(f"{path}?created_at.lt=1970-01-01T00:00:00Z").json()
    assert none == {items: [], "next_page_cursor": ""}
    last = reader.get(f"{path}?created_at.eq={alone[items][0]['created_at']}").json()
    assert alone[items][0] in last[items]
    assert last["next_page_cursor"] == ""


@pytest.mark.parametrize("path", LISTS)
def test_the_default_order(reader: Caller, path: str) -> None:
    items, _ = LISTS[path]
    times = [moment(row) for row in reader.get(path).json()[items]]
    assert times == sorted(times, reverse=path != EVENTS)


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_that_was_not_given_is_400(reader: Caller, path: str) -> None:
    good = reader.get(f"{path}?limit=1").json()["next_page_cursor"]
    other = reader.get(f"{TRANSFERS if path == EVENTS else EVENTS}?limit=1").json()
    for bad in ("x", "%FF", "AAAA", good[:-1], good + "A", "é", other["next_page_cursor"]):
        refused = reader.get(f"{path}?limit=1&page_cursor={bad}")
        assert refused.status_code == 400, bad
    order = "ASC" if path != EVENTS else "DESC"
    assert reader.get(f"{path}?page_cursor={good}&order={order}").status_code == 400
    assert reader.get(f"{path}?page_cursor={good}").status_code == 200
    assert reader.get(f"{path}?page_cursor=").json() == reader.get(path).json()


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query",
    [
        "order=UP", "order=", "order_by=", "order=ASC&order=ASC", "unknown=1",
        "created_at.gte=yesterday",
        "created_at.gte=2026-01-01", "created_at.gte=2026-01-01T00:00:00", "%00=1", "order=%00",
        "order=%FF", "order_by=AMOUNT",
    ],
)  # fmt: skip
def test_bad_parameters_are_400(reader: Caller, path: str, query: str) -> None:
    refused = reader.get(f"{path}?{query}")
    assert refused.status_code == 400
    assert refused.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", LISTS)
def test_time_filters(reader: Caller, path: str) -> None:
    items, largest = LISTS[path]
    rows = reader.get(f"{path}?limit={largest}&order=ASC").json()[items]
    middle = rows[len(rows) // 2]
    ns, text = moment(middle), middle["created_at"]
    bound = f"created_at.lte={rows[-1]['created_at']}"
    tests: dict[str, Callable[[int], bool]] = {
        "lt": lambda at: at < ns, "lte": lambda at: at <= ns, "eq": lambda at: at == ns,
        "gte": lambda at: at >= ns, "gt": lambda at: at > ns,
    }  # fmt: skip
    for name, holds in tests.items():
        limits = [f"created_at.{name}={text}"] + ([bound] if name != "lte" else [])
        found = list(reader.rows(f"{path}?limit={largest}&order=ASC&{'&'.join(limits)}", items))
        assert found == [row for row in rows if holds(moment(row))], name


# ---------------------------------------------------------------------------- transfers


def test_array_filters_repeat_the_key(
    reader: Caller, everything: list[dict[str, Any]], seeded: Sandbox
) -> None:
    fields = {
        "ids": "id", "ref_ids": "ref_id", "profile_ids": "profile_id", "type": "type",
        "identity_ids": "identity_id", "account_ids": "account_id", "group_ids": "group_id",
        "crypto_tx_hashes": "crypto_tx_hash", "statuses": "status",
    }  # fmt: skip
    for parameter, field in fields.items():
        values = list(dict.fromkeys(row[field] for row in everything if field in row))[:2]
        for wanted in (values[:1], values):
            query = "&".join(f"{parameter}={value}" for value in wanted)
            found = list(reader.rows(f"{TRANSFERS}?limit=100&order=ASC&{query}"))
            assert found == [row for row in everything if row.get(field) in wanted], parameter
            assert found


def test_filters_combine(reader: Caller, everything: list[dict[str, Any]]) -> None:
    profile_id = everything[0]["profile_id"]
    query = f"profile_ids={profile_id}&type=WIRE_DEPOSIT&type=RTP_DEPOSIT&statuses=COMPLETED"
    found = list(reader.rows(f"{TRANSFERS}?order=ASC&{query}"))
    assert found == [
        row
        for row in everything
        if row["profile_id"] == profile_id
        and row["type"] in ("WIRE_DEPOSIT", "RTP_DEPOSIT")
        and row["status"] == "COMPLETED"
    ]


def test_secondary_statuses(reader: Caller, everything: list[dict[str, Any]]) -> None:
    found = list(reader.rows(f"{TRANSFERS}?secondary_statuses=REJECTED_BY_BANK&order=ASC"))
    names = [(row, row.get("secondary_status", {}).get("name")) for row in everything]
    assert found == [row for row, name in names if name == "REJECTED_BY_BANK"]


def test_at_most_100_entries_and_listed_values_only(reader: Caller) -> None:
    hundred = "&".join(f"ids={n}" for n in range(100))
    assert reader.get(f"{TRANSFERS}?{hundred}").json()["items"] == []
    assert reader.get(f"{TRANSFERS}?{hundred}&ids=100").status_code == 400
    for query in ("type=ACH", "statuses=COMPLETE", "statuses=", "type=wire_deposit"):
        assert reader.get(f"{TRANSFERS}?{query}").status_code == 400


def test_order_by_updated_at_goes_with_its_filter(
    reader: Caller, everything: list[dict[str, Any]]
) -> None:
    middle = everything[len(everything) // 2]["updated_at"]
    by = "order_by=UPDATED_AT&limit=1000"
    found = list(reader.rows(f"{TRANSFERS}?{by}&updated_at.gte={middle}"))
    times = [moment(row, "updated_at") for row in found]
    assert times == sorted(times)
    since = Instant.parse(middle).ns
    assert len(found) == sum(moment(row, "updated_at") >= since for row in everything)
    for query in (
        f"order_by=CREATED_AT&updated_at.gt={middle}", f"{by}&created_at.gt={middle}",
        f"created_at.gt={middle}&updated_at.gt={middle}",
    ):  # fmt: skip
        assert reader.get(f"{TRANSFERS}?{query}").status_code == 400


# ---------------------------------------------------------------------------- other lists


def test_destination_addresses_without_identity_are_first_party(
    seeded: Sandbox, reader: Caller
) -> None:
    first = list(reader.rows(f"{DESTINATIONS}?order=ASC", "addresses"))
    assert all("identity_id" not in row for row in first)
    assert {row["crypto_network"] for row in first} >= {"BITCOIN", "XLAYER", "STELLAR"}
    one = first[3]
    for name, field in (
        ("ids", "id"), ("addresses", "address"), ("nicknames", "nickname"),
        ("crypto_networks", "crypto_network"),
    ):  # fmt: skip
        query = f"{name}={one[field]}".replace(" ", "%20")
        found = list(reader.rows(f"{DESTINATIONS}?order=ASC&{query}", "addresses"))
        assert found == [row for row in first if row[field] == one[field]]
    for text, wanted in (("true", True), ("false", False)):
        found = list(reader.rows(f"{DESTINATIONS}?order=ASC&bookmarked_status={text}", "addresses"))
        assert found == [row for row in first if row["bookmarked"] is wanted]
        assert found
    assert reader.get(f"{DESTINATIONS}?bookmarked_status=yes").status_code == 400


def test_destination_addresses_of_an_identity(seeded: Sandbox, reader: Caller) -> None:
    user = seeded.control.add_identity()["identity_id"]
    saved = seeded.control.add_destination_address("BASE", nickname="own", identity_id=user)
    for query in (f"identity_id={user}", f"identity_ids={user}"):
        (found,) = reader.rows(f"{DESTINATIONS}?{query}", "addresses")
        assert found == saved


@pytest.mark.parametrize(
    "path", ["/v2/transfer/fiat-accounts", "/v2/transfer/fiat-deposit-instructions"]
)
def test_filters_by_id_and_ref_id(seeded: Sandbox, reader: Caller, path: str) -> None:
    if path.endswith("instructions"):
        instructions(reader, seeded.profile_ids[0], ref_id="by-ref")
    rows = list(reader.rows(path))
    chosen = [row for row in rows if "ref_id" in row][:2]
    for name, field in (("ids", "id"), ("ref_ids", "ref_id")):
        query = "&".join(f"{name}={row[field]}" for row in chosen)
        assert list(reader.rows(f"{path}?{query}")) == chosen
    both = f"{path}?ids={chosen[0]['id']}&ref_ids=other"
    assert list(reader.rows(both)) == []


def test_event_filters(seeded: Sandbox, reader: Caller) -> None:
    found = list(reader.rows(f"{EVENTS}?type=identity.approved", "events"))
    assert {row["type"] for row in found} == {"identity.approved"}
    before = len(list(reader.rows(f"{EVENTS}?is_test=true", "events")))
    seeded.control.add_event("identity.approved", "x", {"id": "1"})
    tests = list(reader.rows(f"{EVENTS}?is_test=true", "events"))
    assert len(tests) == before + 1
    assert tests[-1]["object"] == {"id": "1"}
    assert found == list(reader.rows(f"{EVENTS}?type=identity.approved", "events"))
