"""Paths that the interface does not describe: ``client.get``, ``post`` and ``fl.load_path``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import pandas as pd
import pytest
from pydantic import BaseModel
from scripted import Scripted, answer, problem, reset

import fundlab as fl
from fundlab.base.errors import Conflict, InvalidRequest, NetworkError, ProtocolError
from fundlab.client.any_path import call_of, read_json
from fundlab.client.transport import Reply
from fundlab.sandbox import Sandbox, serve

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - of no zone on purpose
TRANSFERS = "/v2/transfer/transfers"


@pytest.fixture(scope="module")
def signed() -> Iterator[Sandbox]:
    with serve(transfers=250, clock="manual", signing=True, profiles=2) as running:
        yield running


# ---------------------------------------------------------------------------- against the sandbox


def test_a_list_by_its_path_has_the_rows_and_amounts_of_its_loader(signed: Sandbox) -> None:
    with signed.connect() as client:
        typed = fl.load_transfers(client)
        found = fl.load_path(client, TRANSFERS, order="ASC", limit=100)
    assert sorted(found["id"]) == sorted(typed["id"])
    found = found.set_index("id").loc[typed["id"]].reset_index()  # equal times in one order
    for name in ("amount", "fee", "total", "created_at", "updated_at"):
        assert found[name].dtype == typed[name].dtype, name
        assert found[name].tolist() == typed[name].tolist(), name
    assert {str(found[name].dtype) for name in ("type", "memo", "ref_id")} == {"string"}


def test_filters_go_out_as_the_clients_do(signed: Sandbox) -> None:
    since = datetime(2026, 9, 1, tzinfo=UTC)
    with signed.connect() as client:
        expected = fl.load_transfers(client, since=since, type="WIRE_DEPOSIT")
        found = fl.load_path(client, TRANSFERS, created_at_gte=since, type="WIRE_DEPOSIT")
        assert set(found["id"]) == set(expected["id"])
        with pytest.raises(fl.errors.ValidationFailed, match="colour"):
            client.get(TRANSFERS, colour="red")
        signed_path = [
            row for row in signed.control.requests() if "created_at.gte=2026-09-01T" in row["path"]
        ]
        assert signed_path


def test_what_is_posted_is_exact_and_a_used_ref_id_is_a_conflict(signed: Sandbox) -> None:
    path = "/v2/transfer/fiat-deposit-instructions"
    body = {
        "profile_id": signed.profile_ids[0], "fiat_network": "WIRE", "routing_number_type": "ABA",
        "ref_id": "by path",
    }  # fmt: skip
    with signed.connect() as client:
        made = client.post(path, body)
        signed.faults.add("lost", "create_fiat_deposit_instructions", count=1)
        again = {**body, "ref_id": "lost"}
        with pytest.raises(Conflict) as caught:  # carried out once, its answer lost, asked again
            client.post(path, again)
        assert caught.value.meta["existing"]["ref_id"] == "lost"
        assert client.get(f"{path}/{made['id']}")["memo_id"] == made["memo_id"]
        quote = client.post(
            "/v2/transfer/fees/crypto-withdrawal",
            {
                "asset": "USDC", "amount": Decimal("2500.10"), "crypto_network": "ETHEREUM",
                "destination_address": "0x" + "1" * 40,
            },
        )  # fmt: skip
    assert quote["amount"] == "2500.10"


def test_all_scopes_are_asked_for_where_none_is_known(signed: Sandbox) -> None:
    with signed.connect() as client, pytest.raises(fl.errors.NotFound):
        client.get("/v2/unheard-of")
    asked = signed.control.requests()[-2:]
    assert [row["operation"] for row in asked] == ["token", None]


# ---------------------------------------------------------------------------- on the wire


def pages(*found: Any) -> list[bytes]:
    last = len(found) - 1
    return [
        answer(page if isinstance(page, bytes) else {
            "items": page, "next_page_cursor": "" if place == last else f"c{place}",
        })
        for place, page in enumerate(found)
    ]  # fmt: skip


def test_only_what_cannot_happen_twice_is_sent_again(server: Scripted, client: fl.Client) -> None:
    server.answers = [reset, answer({"ok": 1})]
    assert client.get("/v2/other") == {"ok": 1}
    for body in ({}, {"ref_id": "a"}):  # which this path may ignore
        server.received.clear()
        server.answers = [reset, answer({"ok": 1})]
        with pytest.raises(NetworkError, match="look for it before trying again"):
            client.post("/v2/other", body)
        assert len(server.received) == 1
    server.answers = [problem(429, headers={"Retry-After": "0"}), answer({"ok": 2})]
    assert client.post("/v2/other", {}) == {"ok": 2}


def test_the_query_is_encoded_once(server: Scripted, client: fl.Client) -> None:
    server.answers = [answer(b'{"x": 1.10, "n": 12345678901234567890}')]
    found = client.get(
        "/v2/a%20b", a="x y&z", n=3, f=True, d=Decimal("1E+2"), no=None, l=["p", "q"],
        created_at_lt=date(2026, 1, 1),
    )  # fmt: skip
    assert found == {"x": Decimal("1.10"), "n": 12345678901234567890}
    assert server.received[0].target == (
        "/v2/a%20b?a=x%20y%26z&n=3&f=true&d=100&l=p&l=q&created_at.lt=2026-01-01T00%3A00%3A00Z"
    )


@pytest.mark.parametrize(
    "path",
    ["v2/x", "", "//evil.example/v2", "https://evil.example/v2", "/v2/../x", "/v2/x?y=1", "/v2/x#y",
     "/v2/a b", "/v2/ü", "/v2/x\n", "/v2/{id}", None, 3],
)  # fmt: skip
def test_nothing_leaves_for_what_is_not_a_path_of_the_service(
    path: Any, server: Scripted, client: fl.Client
) -> None:
    with pytest.raises(InvalidRequest, match="nothing was sent"):
        client.get(path)
    assert server.received == []


@pytest.mark.parametrize("value", [1.5, float("nan"), object(), b"x", {1: 2}, NAIVE])
def test_what_would_lose_digits_or_has_no_json_is_named(
    value: Any, server: Scripted, client: fl.Client
) -> None:
    with pytest.raises(InvalidRequest, match=r"body\.amount\.0"):
        client.post("/v2/other", {"amount": [value]})
    assert server.received == []


def test_a_simulated_deposit_is_for_a_sandbox_only() -> None:
    with (
        fl.connect(
            base_url="https://api.example.com", auth_url="https://api.example.com",
            client_id="desk", client_secret="secret",
        ) as client,
        pytest.raises(InvalidRequest, match="is not a sandbox; nothing was sent"),
    ):  # fmt: skip
        client.post("/v2/sandbox/fiat-deposits", {})


# ---------------------------------------------------------------------------- what is sent


PAYS = "/v2/transfer/fiat-withdrawals"
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Sent(BaseModel):
    memo_id: str
    amount: Decimal | None = None


BODY = Sent(memo_id="m")


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (None, []), (True, ["true"]), ("x", ["x"]), (7, ["7"]), (UUID(int=1), [str(UUID(int=1))]),
        (Decimal("1.50"), ["1.50"]), (Decimal("1E+2"), ["100"]), (AT, ["2026-01-02T03:04:05Z"]),
        (date(2026, 1, 2), ["2026-01-02T00:00:00Z"]), (["a", None, 2], ["a", "2"]),
        (iter("ab"), ["a", "b"]),
        (1.5, "a float"), (Decimal("nan"), "a Decimal"), (Decimal("inf"), "a Decimal"),
        ({"a": 1}, "a dict"), (b"x", "a bytes"), ([1, b"x"], "a bytes"), (NAIVE, None),
    ],
)  # fmt: skip
def test_a_value_of_the_query(value: Any, texts: list[str] | str | None) -> None:
    if isinstance(texts, list):
        target = call_of("GET", "/v2/other", None, {"x": value}).target
        assert parse_qsl(target.partition("?")[2]) == [("x", text) for text in texts]
        return
    says = f"GET '/v2/other': x is {texts}; give text" if texts else "GET '/v2/other': x: .*"
    with pytest.raises(InvalidRequest, match=f"{says}.*; nothing was sent"):
        call_of("GET", "/v2/other", None, {"x": value})


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None), (True, True), (3, 3), ("x", "x"), (Decimal("1.50"), "1.50"),
        (AT, "2026-01-02T03:04:05Z"), (date(2026, 1, 2), "2026-01-02"),
        (UUID(int=1), str(UUID(int=1))), ({"a": [Decimal("1E+2"), (1,)]}, {"a": ["100", [1]]}),
        ([], []), ({}, {}), (BODY, {"memo_id": "m"}),
        (1.5, "body is a float"), (Decimal("nan"), "body is a Decimal"), (b"", "body is a bytes"),
        ({1: 2}, "body is a dict"), ({"a": 1, 2: 3}, "body is a dict"),
        ({"a": [0, 1.5]}, r"body\.a\.1 is a float"), (iter(()), "body is a tuple_iterator"),
    ],
)  # fmt: skip
def test_a_value_of_the_body(value: Any, plain: Any) -> None:
    if not isinstance(plain, str) or not plain.startswith("body"):
        content = call_of("PUT", "/v2/other", None, {}, value).body
        assert content == json.dumps(plain, separators=(",", ":")).encode()
        return
    with pytest.raises(InvalidRequest, match=f"{plain}; give text.*; nothing was sent"):
        call_of("PUT", "/v2/other", None, {}, value)


@pytest.mark.parametrize(
    ("scope", "body", "named"),
    [
        (None, {"a": {"b": ["x", "ab\ud83d"]}}, r"body\.a\.b\.1 is"),
        (None, {"a": {"ab\ud83d": 1}}, r"a name in body\.a, 'ab\\ud83d', is"),
        (None, Sent.model_construct(memo_id="ab\ud83d"), r"body\.memo_id is"),
        ("ab\ud83d", {}, r"scope='ab\\ud83d' is"),
    ],
)
def test_half_a_character_is_named_before_anything_leaves(
    scope: str | None, body: Any, named: str, server: Scripted, client: fl.Client
) -> None:
    says = f"^{named} not valid Unicode: it holds half a character; nothing was sent$"
    with pytest.raises(InvalidRequest, match=says):
        client.post("/v2/other", body, scope=scope)
    assert server.received == []


@pytest.mark.parametrize("query", [{"name": "ab\ud83d"}, {"ab\ud83d": "x"}])
def test_half_a_character_in_a_query_is_named(
    query: dict[str, str], server: Scripted, client: fl.Client
) -> None:
    says = r"^\S+=\S+ is not valid Unicode: it holds half a character"
    with pytest.raises(InvalidRequest, match=says):
        client.get("/v2/other", **query)
    assert server.received == []


@pytest.mark.parametrize(
    ("method", "path", "scope", "body", "sent", "repeatable", "asked"),
    [
        ("POST", PAYS, None, {}, {"ref_id": "new"}, True, "transfer:write_fiat_withdrawal"),
        (
            "POST",
            PAYS,
            None,
            {"ref_id": "own"},
            {"ref_id": "own"},
            True,
            "transfer:write_fiat_withdrawal",
        ),
        ("POST", PAYS, "a:b", {"ref_id": ""}, {"ref_id": "new"}, True, "a:b"),
        ("POST", PAYS, "", [1], [1], False, ""),
        ("PUT", PAYS, None, {}, {}, False, ""),  # of this path only POST is known
        ("POST", f"{PAYS}/x", None, {}, {}, False, ""),
        (
            "PUT",
            "/v2/transfer/fiat-accounts/a-1",
            None,
            {},
            {},
            False,
            "transfer:write_fiat_account",
        ),
        (
            "POST",
            "/v2/transfer/fees/crypto-withdrawal",
            None,
            {},
            {},
            False,
            "fee:write_crypto_withdrawal_fee",
        ),
        ("POST", "/v2/other", None, {"ref_id": "own"}, {"ref_id": "own"}, False, ""),
        ("GET", TRANSFERS, None, None, None, True, "transfer:read_transfer"),
        ("GET", f"{TRANSFERS}/t-1", None, None, None, True, "transfer:read_transfer"),
        ("GET", "/v2/other", None, None, None, True, ""),
    ],
)
def test_what_is_sent_and_whether_again(
    method: str, path: str, scope: str | None, body: Any, sent: Any, repeatable: bool, asked: str
) -> None:
    made = call_of(method, path, scope, {}, body, lambda: "new")
    assert (made.operation, made.method, made.target) == (f"{method} {path}", method, path)
    assert (made.scope, made.repeatable) == (asked, repeatable)
    assert made.body == (None if sent is None else json.dumps(sent).replace(" ", "").encode())
    changes = method != "GET" and "/fees/" not in path  # a quote moves nothing
    assert ("trying again is safe" in made.again) is not changes
    if changes:
        assert str(sent["ref_id"]) in made.again if repeatable else "look for it" in made.again


@pytest.mark.parametrize(
    ("limit", "rows"),
    [(None, 1000), (7, 7), ("0", 0), ("x", 1000), ("-1", 1000), ("\u0663", 1000), ("", 1000)],
)
def test_how_many_rows_may_come(limit: Any, rows: int) -> None:
    assert call_of("GET", "/v2/other", None, {"limit": limit}).rows == rows


def test_a_body_is_sent_as_text_of_utf_8() -> None:
    call = call_of("POST", "/v2/other", "", {}, {"memo": "Zürich"})
    assert call.body == '{"memo":"Zürich"}'.encode()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", None), (b" \n", None), (b"null", None), (b'{"a": 1.10}', {"a": Decimal("1.10")}),
        (b"{", ProtocolError), (b"[" * 100_000, ProtocolError), (b"\xff", ProtocolError),
    ],
)  # fmt: skip
def test_what_an_answer_says(body: bytes, found: Any) -> None:
    read, write = (call_of(method, "/v2/other", None, {}, {}) for method in ("GET", "POST"))
    reply = Reply(body, "r-1", 200)
    if found is not ProtocolError:
        assert read_json(read, reply) == read_json(write, reply) == found
        return
    for call, hint in ((read, "check the path"), (write, "it was probably carried out")):
        with pytest.raises(ProtocolError, match="/v2/other: the answer is not JSON") as caught:
            read_json(call, reply)
        error = caught.value
        assert (error.hint or "").startswith(hint)
        assert (error.operation, error.request_id, error.status) == (call.operation, "r-1", 200)
        assert error.__context__ is None


# ---------------------------------------------------------------------------- types by inference


def load(server: Scripted, *found: Any, **given: Any) -> pd.DataFrame:
    server.script(*pages(*found))
    with fl.connect(
        base_url=server.url, auth_url=server.url, client_id="desk", client_secret="secret"
    ) as client:
        return fl.load_path(client, "/v2/others", **given)


@pytest.mark.parametrize(
    ("name", "values", "dtype"),
    [
        ("amount", ["1.10", "-2", None], "decimal"), ("amount", ["1", "2"], "decimal"),
        ("rate", ["0.000000000000000001", "3"], "decimal"), ("x", ["1", "2"], "string"),
        ("account_number", ["123.5"], "string"), ("zip_code", ["10115"], "string"),
        ("limit", ["007"], "string"), ("amount", ["1,000.00"], "string"),
        ("amount", ["1" * 21], "string"), ("amount", ["0." + "1" * 19], "string"),
        ("amount", ["12345678901234567890.123456789012345678"], "decimal"),
        ("at", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00.5+01:00"], "datetime64[ns, UTC]"),
        ("at", ["2026-01-01T00:00:00Z", "soon"], "string"), ("on", ["2026-01-01"], "string"),
        ("n", [1, None, 3], "Int64"), ("n", [10**18 - 1], "Int64"), ("n", [2**70], "string"),
        ("n", [-1, *range(10)], "Int64"),  # every character that a number may begin with
        ("ok", [True, None], "boolean"), ("ok", [False, True], "boolean"),
        ("mixed", [1, "1", {"a": "b"}], "string"),
        ("o", [{"a": ["1.10"]}], "string"), ("none", [None, None], "string"),
    ],
)  # fmt: skip
def test_the_type_of_a_column(name: str, values: list[Any], dtype: str, server: Scripted) -> None:
    frame = load(server, [{"id": str(n), name: value} for n, value in enumerate(values)])
    assert str(frame[name].dtype) == dtype
    shown = frame[name].tolist()
    for value, found in zip(values, shown, strict=True):
        if value is None:
            assert found is pd.NA or found is pd.NaT
        elif dtype == "decimal":
            assert found == Decimal(value)
        elif dtype == "string":  # not a digit is lost
            text = json.dumps(value, separators=(",", ":"))
            assert found.replace(" ", "") == (
                value.replace(" ", "") if type(value) is str else text
            )
        elif dtype in ("Int64", "boolean"):
            assert found == value


def test_numbers_of_json_keep_their_digits(server: Scripted) -> None:
    body = b'{"items": [{"id": "a", "price": 0.100000000000000005}, {"id": "b", "price": -3}]}'
    assert load(server, body)["price"].tolist() == [Decimal("0.100000000000000005"), Decimal(-3)]


def test_pages_are_followed_and_a_row_that_comes_twice_is_there_once(
    server: Scripted,
) -> None:
    frame = load(
        server, [{"id": "a"}, {"id": "b"}], [], [{"id": "b", "x": 1}, {"id": "c"}], page_cursor="s"
    )
    assert frame["id"].tolist() == ["a", "b", "c"]
    assert [request.target.partition("=")[2] for request in server.received] == ["s", "c0", "c1"]


def test_rows_without_an_id_are_all_kept(server: Scripted) -> None:
    assert len(load(server, [{"x": 1}, {"x": 1}], [{"x": 1}])) == 3


def test_a_list_without_a_frame_around_it(server: Scripted) -> None:
    assert load(server, b'[{"id": "a"}, {"id": "b"}]')["id"].tolist() == ["a", "b"]


def test_no_rows_are_an_empty_frame(server: Scripted) -> None:
    assert load(server, []).shape == (0, 0)
    # the array may be null or absent, as in the lists of the interface
    for body in (b"{}", b'{"items": null, "count": 0}', b'{"next_page_cursor": ""}'):
        assert load(server, body).shape == (0, 0)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"events": []}', "no list of objects called 'items'; it is an object of events"),
        (b'{"items": {}}', "no list of objects called 'items'; it is an object of items"),
        (b'{"items": [1]}', "no list of objects"), (b"<html>", "JSON of another kind"),
    ],
)  # fmt: skip
def test_an_answer_without_the_list_is_named(body: bytes, said: str, server: Scripted) -> None:
    with pytest.raises(ProtocolError, match=said):
        load(server, body)


def test_a_service_that_ignores_the_cursor_is_not_asked_for_ever(
    server: Scripted, client: fl.Client
) -> None:
    server.answers = [answer({"items": [{"id": "a"}], "next_page": "same"})]
    with pytest.raises(ProtocolError, match="repeats the cursor"):
        fl.load_path(client, "/v2/others")
