"""Paths that the interface does not describe: ``client.get``, ``post`` and ``fl.load_path``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from scripted import Scripted, answer, problem, reset

import fundlab as fl
from fundlab.base.errors import Conflict, InvalidRequest, NetworkError, ProtocolError
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
        ("ok", [True, None], "boolean"), ("mixed", [1, "1", {"a": "b"}], "string"),
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
