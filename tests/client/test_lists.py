"""Lists: lazily over all pages, each row once, filters checked, what is odd kept and named."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import scripted
from scripted import answer

import fundlab as fl
from fundlab.base import errors
from fundlab.client.client import Client
from fundlab.client.pages import Asked, Pages, whole_number
from fundlab.models import OPERATIONS


def page(*ids: str, cursor: str | None = "", **more: Any) -> bytes:
    return answer({"items": [{"id": id_} for id_ in ids], "next_page_cursor": cursor} | more)


def test_a_list_is_lazy_and_walks_every_page(server: scripted.Scripted, client: Client) -> None:
    server.script(page("a", "b", cursor="c1"), page(cursor="c2"), page("c", cursor=None))
    rows = client.list_transfers(page_size=2)
    assert server.received == []
    assert next(rows).id == "a"
    assert len(server.received) == 1
    assert [row.id for row in rows] == ["b", "c"]
    assert [request.target.partition("page_cursor=")[2][:2] for request in server.received] == [
        "", "c1", "c2",
    ]  # fmt: skip
    assert all("limit=2&" in request.target for request in server.received)
    assert (rows.pages, rows.repeated, rows.unasked) == (3, 0, 0)


@pytest.mark.parametrize(
    "last",
    [
        answer({"items": []}),
        page(cursor=None),
        page(cursor=""),
        answer({"items": [], "next_page": ""}),
    ],
)
def test_every_way_to_end_a_list(last: bytes, server: scripted.Scripted, client: Client) -> None:
    first = answer({"items": [{"id": "a"}], "next_page": "the-other-name"})
    server.script(first, last)
    assert [row.id for row in client.list_transfers()] == ["a"]
    assert "page_cursor=the-other-name" in server.received[1].target


def test_max_rows_and_page_size_are_apart(server: scripted.Scripted, client: Client) -> None:
    server.script(page("a", "b", cursor="c1"), page("c", "d", cursor="c2"))
    assert [row.id for row in client.list_transfers(page_size=2, max_rows=3)] == ["a", "b", "c"]
    assert len(server.received) == 2
    assert list(client.list_transfers(max_rows=0)) == []
    assert len(server.received) == 2


def test_a_repeated_cursor_raises_at_once(server: scripted.Scripted, client: Client) -> None:
    server.script(page("a", cursor="x"), page("b", cursor="y"), page("c", cursor="x"))
    rows = client.list_transfers()
    assert [next(rows).id for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(errors.ProtocolError, match="page 3 repeats the cursor 'x'"):
        next(rows)
    assert len(server.received) == 3


def test_rows_that_come_again_are_dropped_and_counted(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(page("a", "b", cursor="x"), page("b", "c", "a"))
    rows = client.list_transfers()
    assert [row.id for row in rows] == ["a", "b", "c"]
    assert rows.repeated == 2


def test_a_row_whose_id_comes_in_two_cases_is_one_row(
    server: scripted.Scripted, client: Client
) -> None:
    """A UUID, as the loaders know it; of an id of another make nobody knows that, nor do they."""
    small, large = "0000000a-0000-4000-8000-00000000000b", "0000000A-0000-4000-8000-00000000000B"
    server.script(page(small, large, cursor="x"), page(large, "t", "T"))
    rows = client.list_transfers()
    assert [row.id for row in rows] == [small, "t", "T"]
    assert rows.repeated == 2
    server.script(page(small, large, cursor="x"), page(large, "t", "T"))
    with warnings.catch_warnings(action="ignore"):
        assert sorted(fl.load_transfers(client)["id"]) == [small, "T", "t"]


def test_rows_that_were_not_asked_for_are_dropped_and_counted(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(page("a", "b", "c"))
    rows = client.list_transfers(ids=["a", "d"])
    said = "list_transfers: the service ignored ids"
    with pytest.warns(errors.IgnoredFilterWarning, match=said) as caught:
        kept = list(rows)
    assert ([row.id for row in kept], rows.unasked) == (["a"], 2)
    assert caught[0].filename == __file__


def test_pages_that_bring_nothing_new_end(
    server: scripted.Scripted, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.client.pages.MAX_REPEATED_PAGES", 5)
    server.script(*(page("a", cursor=str(number)) for number in range(9)))
    with pytest.raises(errors.ProtocolError, match="6 pages in succession without a new row"):
        list(client.list_transfers())
    assert len(server.received) == 7


def test_a_value_that_nobody_listed_is_kept_and_named_once(
    server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({"id": "t", "status": "COMPLETE"}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert client.get_transfer("t").status == "COMPLETE"
        client.get_transfer("t")
    assert {warning.category for warning in caught} == {errors.UnknownValueWarning}
    assert [str(warning.message) for warning in caught] == [
        "Transfer.status is 'COMPLETE', which the interface does not list; it is kept"
    ]


def test_a_value_that_nobody_listed_is_named_wherever_it_is(
    server: scripted.Scripted, client: Client
) -> None:
    address = {"id": "a", "compatible_crypto_networks": ["BASE", "OPTIMISM"]}
    routing = {"routing_number_type": "IBAN"}
    account = {"id": "f", "fiat_network_instructions": {"wire": {"routing_details": routing}}}
    server.script(answer(address), answer({"items": [account, account]}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = client.create_deposit_address(profile_id="p", crypto_network="BASE")
        (listed,) = client.list_fiat_accounts()
    assert (made.to_json(), listed.to_json()) == (address, account)
    assert [str(warning.message).partition(",")[0] for warning in caught] == [
        "DepositAddress.compatible_crypto_networks is 'OPTIMISM'",
        "RoutingDetails.routing_number_type is 'IBAN'",
    ]


def test_a_malformed_row_is_named_and_nothing_of_its_page_is_given(
    server: scripted.Scripted, client: Client
) -> None:
    bad = answer({"items": [{"id": "b"}, {"id": "c", "amount": "1e5"}]})
    server.script(page("a", cursor="x"), bad)
    rows = client.list_transfers()
    assert next(rows).id == "a"
    with pytest.raises(errors.DataError) as caught:
        next(rows)
    error = caught.value
    assert (error.table, error.page, error.record, error.field) == (
        "list_transfers", 2, "c", "amount",
    )  # fmt: skip
    assert error.value == "1e5"


ROWS = {
    "list_transfers": "items", "list_fiat_accounts": "items",
    "list_fiat_deposit_instructions": "items", "list_events": "events",
    "list_crypto_destination_addresses": "addresses",
}  # fmt: skip
"""The member of each list's page that holds its rows (interface §4 and §6)."""


def test_each_list_of_the_interface_is_here() -> None:
    assert {name for name in OPERATIONS if name.startswith("list_")} == {*ROWS}


@pytest.mark.parametrize("operation", ROWS)
@pytest.mark.parametrize(
    "body",
    [
        {"message": "service busy"}, {"error": "x", "status": "error"}, {"data": [{"id": "b"}]},
        {"Items": [{"id": "b"}], "next_page_cursor": ""}, {"rows": [], "next_page": None},
    ],
)  # fmt: skip
def test_an_object_that_is_no_page_is_refused_as_the_first_and_as_a_later_one(
    operation: str, body: dict[str, Any], server: scripted.Scripted, client: Client
) -> None:
    array = ROWS[operation]
    refused = f"^{operation}: the answer is not a page: it has no array '{array}'"
    server.script(answer(body))
    with pytest.raises(errors.ProtocolError, match=refused) as caught:
        list(getattr(client, operation)())
    assert "is this the service, or a proxy" in str(caught.value.hint)
    server.script(answer({array: [{"id": "a"}], "next_page_cursor": "x"}), answer(body))
    rows = getattr(client, operation)()
    assert next(rows).id == "a"
    with pytest.raises(errors.ProtocolError, match=refused):
        next(rows)


@pytest.mark.parametrize("operation", ROWS)
@pytest.mark.parametrize("other", ["items", "events", "addresses"])
def test_the_array_of_another_list_makes_no_page(
    operation: str, other: str, server: scripted.Scripted, client: Client
) -> None:
    server.script(answer({other: [{"id": "a"}]}))
    if other == ROWS[operation]:
        assert [row.id for row in getattr(client, operation)()] == ["a"]
    else:
        with pytest.raises(errors.ProtocolError, match="not a page"):
            list(getattr(client, operation)())


@pytest.mark.parametrize("operation", ROWS)
def test_a_page_without_rows_may_have_no_array_or_a_null_one(
    operation: str, server: scripted.Scripted, client: Client
) -> None:
    """The decisions' "Empty lists"; members that nobody listed are no reason to refuse a page."""
    null = {ROWS[operation]: None, "total_count": 0}
    for body in ({}, {"next_page_cursor": ""}, {"next_page": None}, null):
        server.script(answer(body))
        assert list(getattr(client, operation)()) == []


def test_a_page_comes_as_its_bytes(server: scripted.Scripted, client: Client) -> None:
    raw = b'{"items": [ {"id":"a", "amount":"1.50"} ] , "next_page_cursor":""}'
    server.script(answer(raw))
    assert client.fetch_page("list_transfers", [("type", "A"), ("type", "B")]) == raw
    assert server.received[0].target == "/v2/transfer/transfers?type=A&type=B"
    with pytest.raises(errors.InvalidRequest, match="give one of list_fiat_deposit_instructions"):
        client.fetch_page("get_transfer", [])


@pytest.mark.parametrize("word", [b"NaN", b"Infinity", b"-Infinity"])
def test_a_number_that_json_does_not_have_is_no_answer(
    word: bytes, server: scripted.Scripted, client: Client
) -> None:
    """As the loaders say, which read the same pages."""
    body = b'{"items": [{"id": "t", "metadata": {"rate": %b}}]}' % word
    server.script(answer(body), answer({"items": [{"id": "t", "memo": "NaN Infinity"}]}))
    with pytest.raises(errors.ProtocolError, match="not JSON"):
        list(client.list_transfers())
    assert [row.memo for row in client.list_transfers()] == ["NaN Infinity"]


def test_a_walk_ends_beyond_its_bounds_and_not_on_them() -> None:
    pages = Pages("list", [])
    for number in range(3):
        for _ in range(1000):
            pages.note([])
        pages.note([f"row {number}"])
    for _ in range(1000):
        pages.note([])
    with pytest.raises(errors.ProtocolError, match="list: 1001 pages in succession without rows"):
        pages.note([])
    pages = Pages("list", [])
    pages.note(["a"])
    for _ in range(20):
        pages.note(["a", "a"])
    with pytest.raises(errors.ProtocolError, match="21 pages in succession without a new row"):
        pages.note(["a"])
    pages.note(["a", "b"])
    pages.note(["a"])  # one is repeated again
    pages = Pages("list", [("limit", "9"), ("page_cursor", "x")])
    pages.follow("y")
    assert pages.params == [("limit", "9"), ("page_cursor", "y")]
    with pytest.raises(errors.ProtocolError, match="page 2 repeats the cursor 'y' of an earlier"):
        pages.follow("y")
    assert not pages.ended
    pages.follow("")
    assert pages.ended


def test_what_a_list_cannot_be_asked_is_named() -> None:
    transfers = OPERATIONS["list_transfers"]
    many = [str(number) for number in range(101)]
    with pytest.raises(errors.InvalidRequest, match="get_transfer does not list anything"):
        Asked(OPERATIONS["get_transfer"], {}, "get_transfer")
    with pytest.raises(errors.InvalidRequest, match=r"all: status \(did you .* accepted are .*own"):
        Asked(transfers, {"status": "x"}, "all", ["own"])
    with pytest.raises(errors.InvalidRequest, match="page_cursor continues a single list; give at"):
        Asked(transfers, {"ids": many, "page_cursor": "x"}, "all")
    assert len(Asked(transfers, {"ids": many[:100], "page_cursor": "x"}, "all").parts) == 1
    parts = Asked(transfers, {"ids": many, "profile_ids": many}, "all").parts
    assert [len(part.filters["ids"]) for part in parts] == [100, 100, 1, 1]
    assert Asked(transfers, {"ids": []}, "all").parts == []
    for value, least, fits in ((7, 7, True), (6, 7, False), (-1, None, True), (True, None, False),
                               (1.0, None, False), ("1", None, False)):  # fmt: skip
        if fits:
            assert whole_number(value, "n", least) == value
            continue
        wanted = "a whole number" + (f", {least} or more" if least else "")
        with pytest.raises(errors.InvalidRequest, match=f"is not accepted; give {wanted}$"):
            whole_number(value, "n", least)


def test_a_client_closes_its_connections_and_says_how_far_a_list_is(
    server: scripted.Scripted, make_client: Any
) -> None:
    server.script(page("a"))
    with make_client() as client:
        rows = client.list_transfers()
        assert repr(rows) == "<Rows of list_transfers: 0 pages so far>"
        assert [row.id for row in rows] == ["a"]
        assert repr(rows) == "<Rows of list_transfers: 1 pages so far>"
        assert client.fetch_page("list_transfers", []) == page("a").partition(b"\r\n\r\n")[2]
        used = server.connections
    [*client.list_transfers()]
    assert server.connections > used  # as the first was closed
    for operation in ("get_transfer", "list_bogus"):
        with pytest.raises(errors.InvalidRequest, match=f"operation='{operation}' is not accepted"):
            client.fetch_page(operation, [])
