"""What a deployment answers: recorded with its numbers masked, replayed, and held against the
sandbox; another sandbox stands for the deployment."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
import requests
import yaml
from sandbox_caller import WIRE, WITHDRAWALS, caller_of, fund
from scripted import answer, running

import fundlab as fl
from fundlab.base.errors import SandboxError
from fundlab.mirror.comparison import Difference, differences_of
from fundlab.mirror.recording import recording
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.app import own_document
from fundlab.sandbox.replay import read_recording


@pytest.fixture(scope="module")
def deployment() -> Iterator[Sandbox]:
    """It requires signatures, so that what is passed on must be exact."""
    with serve(transfers=150, clock="manual", signing=True, profiles=2) as live:
        yield live


def record(live: Sandbox, out: Path) -> dict[str, Any]:
    """What a client finds through the recording proxy."""
    seen: dict[str, Any] = {}
    with (
        recording(live.base_url, out) as url,
        live.connect(base_url=url, auth_url=url) as client,
    ):
        seen["transfers"] = fl.load_transfers(client)
        account = client.create_fiat_account(
            fiat_account_owner={"institution_details": {"name": "Harbor"}},
            fiat_network_instructions=WIRE,
            metadata={"a": f"from {WIRE['wire']['account_number']}, as agreed"},
        )  # fmt: skip
        seen["account"] = client.get_fiat_account(account.id)
        seen["balances"] = [
            client.get_profile_balance(live.profile_ids[0], "USD").available for _ in range(2)
        ]
        with pytest.raises(fl.errors.NotFound):
            client.get_transfer("00000000-0000-4000-8000-000000000000")
    return seen


def test_what_is_kept_has_no_secret_and_no_account_number(
    deployment: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "live.jsonl"
    seen = record(deployment, out)
    text = out.read_text()
    assert out.stat().st_mode & 0o777 == 0o600
    number = WIRE["wire"]["account_number"]
    assert seen["account"].fiat_network_instructions.wire.account_number == number
    assert number not in text
    assert f"from ••••{number[-4:]}, as agreed" in text
    for secret in (deployment.client_secret, "Bearer", "access_token", "Service-Signature", "eyJ"):
        assert secret not in text
    kept = read_recording(out)
    assert {one.method for one in kept} == {"GET", "POST"}
    assert [one.status for one in kept].count(404) == 1


@pytest.mark.parametrize("text", ["first\u2028second", "half \ud800", "one\x85two"])
def test_every_text_of_a_recording_is_read_again(
    text: str, deployment: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "live.jsonl"
    with recording(deployment.base_url, out) as url:
        body = {"metadata": {"note": text}}  # refused, and recorded all the same
        requests.post(f"{url}/v2/transfer/fiat-deposit-instructions", json=body, timeout=5)
    (kept,) = read_recording(out)
    assert kept.request["metadata"] == {"note": text}


def test_a_sandbox_answers_with_it(deployment: Sandbox, tmp_path: Path) -> None:
    out = tmp_path / "live.jsonl"
    seen = record(deployment, out)
    with serve(empty=True, replay=out) as sandbox, sandbox.connect() as client:
        assert fl.load_transfers(client).equals(seen["transfers"])
        account = client.get_fiat_account(seen["account"].id)
        assert account.status == seen["account"].status
        profile_id = deployment.profile_ids[0]
        for available in [*seen["balances"], seen["balances"][-1]]:  # the last one stays
            assert client.get_profile_balance(profile_id, "USD").available == available
        for id_ in ("00000000-0000-4000-8000-000000000000", "11111111-0000-4000-8000-000000000000"):
            with pytest.raises(fl.errors.NotFound):
                client.get_transfer(id_)
        assert "nothing was recorded for GET" in sandbox.requests()["problem"].iloc[-1]
    with serve(empty=True, replay=out, scopes=["events:read_event"]) as sandbox:
        caller = caller_of(sandbox)  # a replay lets nobody in who was not
        assert caller.get("/v2/transfer/transfers").status_code == 403
        assert (
            requests.get(f"{sandbox.base_url}/v2/transfer/transfers", timeout=5).status_code == 401
        )
        caller.close()


def test_a_replay_answers_the_body_that_was_recorded(tmp_path: Path) -> None:
    """Members in any order; a request with another amount is not answered with this one's."""
    out = tmp_path / "live.jsonl"
    asked = {"ref_id": "a", "amount": "4.44", "asset": "USD", "fiat_account_id": "f"}
    kept = {
        "method": "POST", "target": WITHDRAWALS, "status": 200, "request": asked,
        "answer": {"id": "t", "amount": "4.44"},
    }  # fmt: skip
    out.write_text(json.dumps(kept) + "\n")
    for ignoring, statuses in (((), (404, 404, 200)), (("ref_id",), (404, 200, 200))):
        with serve(empty=True, replay=out, replay_ignoring=ignoring) as sandbox:
            caller = caller_of(sandbox)
            answers = [
                caller.post(WITHDRAWALS, body)
                for body in (
                    {**asked, "amount": "9.99"}, {**asked, "ref_id": "b"},
                    dict(reversed(asked.items())),
                )
            ]  # fmt: skip
            assert tuple(answer.status_code for answer in answers) == statuses
            assert answers[-1].json() == kept["answer"]
            assert "with this body" in answers[0].json()["detail"]
            caller.close()


def test_what_the_interface_does_not_describe_is_replayed_too(tmp_path: Path) -> None:
    out = tmp_path / "live.jsonl"
    with running() as service:
        service.script(answer({"items": [{"id": "a", "amount": "1.50"}], "next_page_cursor": ""}))
        with (
            recording(service.url, out) as url,
            fl.connect(base_url=url, auth_url=url, client_id="a", client_secret="b") as client,
        ):
            live = fl.load_path(client, "/v2/other", limit=5)
    with serve(empty=True, replay=out) as sandbox, sandbox.connect() as client:
        assert fl.load_path(client, "/v2/other", limit=5).equals(live)
        with pytest.raises(fl.errors.NotFound):
            fl.load_path(client, "/v2/other", limit=6)


@pytest.mark.seconds
def test_what_a_sandbox_itself_answers_differs_in_nothing(
    deployment: Sandbox, tmp_path: Path
) -> None:
    out = tmp_path / "live.jsonl"
    record(deployment, out)
    assert differences_of(out) == []
    published = tmp_path / "openapi.json"
    published.write_text(json.dumps(own_document()))
    assert differences_of(published) == []


def test_a_recording_that_differs_is_shown_by_operation_and_member(tmp_path: Path) -> None:
    with serve(empty=True, clock="manual") as sandbox:
        caller, profile_id = caller_of(sandbox), sandbox.profile_ids[0]
        fund(caller, sandbox, profile_id, "5.00")
        (row,) = caller.get("/v2/transfer/transfers").json()["items"]
        caller.close()
    other = {**row, "status": "COMPLETE", "amount": 5, "region": "EU"}
    del other["fee"]
    out = tmp_path / "live.jsonl"
    lines = [
        {"answer": {"items": [other, other], "next_page_cursor": None}, "status": 200},
        {"answer": {"items": []}, "status": 418},
    ]
    target = {"method": "GET", "target": "/v2/transfer/transfers?limit=2", "request": None}
    lines = [{**target, **line} for line in lines]
    lines.append({**target, "target": "/v2/new", "answer": None, "status": 200})
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {(one.operation, one.part, one.field): one for one in differences_of(out)}
    assert set(found) == {
        ("GET /v2/new", "path", ""), ("list_transfers", "status", ""),
        ("list_transfers", "answer", "next_page_cursor"),
        ("list_transfers", "answer", "items[].status"),
        ("list_transfers", "answer", "items[].amount"),
        ("list_transfers", "answer", "items[].region"),
        ("list_transfers", "answer", "items[].fee"),
    }  # fmt: skip
    fee = found["list_transfers", "answer", "items[].fee"]
    assert (fee.sandbox, fee.theirs, fee.count) == ("always", "absent", 2)
    status = found["list_transfers", "answer", "items[].status"]
    assert status.theirs == "'COMPLETE'"


@pytest.mark.seconds
def test_a_document_that_differs_is_shown_by_operation_and_member(tmp_path: Path) -> None:
    document = json.loads(json.dumps(own_document()))
    schemas = document["components"]["schemas"]
    schemas["Transfer"]["properties"]["region"] = {"type": "string"}
    del schemas["Transfer"]["properties"]["memo"]
    schemas["CreateFiatWithdrawal"]["required"].append("ref_id")
    del document["paths"]["/v2/events"]
    document["paths"]["/v2/new/{id}"] = {"get": {"responses": {}}}
    renamed = document["paths"].pop("/v2/transfer/transfers/{id}")
    document["paths"]["/v2/transfer/transfers/{transfer_id}"] = renamed  # no difference
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document))
    found = differences_of(path)
    assert Difference("list_events", "path", "", "GET /v2/events", "absent") in found
    assert Difference("GET /v2/new/{}", "path", "", "absent", "published") in found
    assert Difference("get_transfer", "answer", "region", "absent", "string") in found
    assert Difference("get_transfer", "answer", "memo", "string", "absent") in found
    needs = Difference("create_fiat_withdrawal", "request", "ref_id", "optional", "required")
    assert needs in found
    assert {one.operation for one in found} == {
        "list_events", "GET /v2/new/{}", "get_transfer", "list_transfers",
        "create_fiat_withdrawal",
    }  # fmt: skip


OTHER: dict[str, Any] = {
    "openapi": "3.0.0",
    "servers": [{"url": "https://api.example.com/v2/"}],
    "paths": {
        "/sandbox/fiat-deposits": {
            "post": {"responses": {"200": {"content": {"application/json": {"schema": {
                "type": "object", "properties": {"id": {"type": "string"}},
            }}}}}},
        },
        "/transfer/fiat-accounts/{id}": {
            "get": {"responses": {"200": {"content": {"application/json": {"schema": {
                "allOf": [{"$ref": "#/components/schemas/Base"}, {"required": ["created_at"]}],
            }}}}}},
        },
        "/transfer/fiat-accounts": {
            "post": {
                "responses": {},
                "requestBody": {"content": {"application/json": {"schema": {
                    "properties": {"ref_id": {"type": "string", "maxLength": 10, "pattern": "^r"},
                    "identity_id": {"type": "string"},
                    "fiat_network_instructions": {"properties": {"wire": {
                        "type": "object",
                        "required": ["account_number", "routing_details"],
                        "properties": {
                            "account_number": {"type": "string"},
                            "routing_details": {"type": "object"},
                        },
                    }}}},
                }}}},
            },
        },
    },
    "components": {"schemas": {"Base": {
        "type": "object",
        "required": ["id"],
        "properties": {
            "id": {"type": "string"},
            "status": {"type": "string", "enum": ["PENDING", "CLOSED"]},
            "created_at": {"type": "string"},
            "rtp": {"type": "object", "properties": {"account_number": {"type": "string"}}},
        },
    }}},
}  # fmt: skip
"""A document as publishers write them: of few operations, below the path of its server."""


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_a_document_is_read_as_publishers_write_it(
    write: Callable[[Any], str], tmp_path: Path
) -> None:
    path = tmp_path / "openapi"
    path.write_text(write(OTHER))
    found = differences_of(path)
    assert not [one for one in found if one.part == "path" and one.theirs == "published"]
    account = {
        one.field: (one.sandbox, one.theirs) for one in found if one.operation == "get_fiat_account"
    }
    assert account["rtp"] == ("absent", "object")
    assert "rtp.account_number" not in account  # nor anything else inside of what one side lacks
    assert not [field for field in account if field.startswith("fiat_network_instructions.")]
    assert account["status"] == ("values APPROVED, REJECTED", "values CLOSED")
    assert not {"id", "created_at"} & account.keys()  # always there, by either part
    assert Difference("initiate_sandbox_fiat_deposit", "answer", "", "absent", "object") in found
    # what the sandbox's rules require of a body is required, although its models take less
    wire = "fiat_network_instructions.wire"
    created = {one.field for one in found if one.operation == "create_fiat_account"}
    assert Difference(
        "create_fiat_account", "request", "ref_id", "no other limits",
        "limits maxLength 10, pattern ^r",
    ) in found  # fmt: skip
    assert "identity_id" not in created  # which only the sandbox limits
    assert not {f"{wire}.account_number", f"{wire}.routing_details"} & created
    assert f"{wire}.intermediary_routing_details" in created


def own() -> tuple[dict[str, Any], dict[str, Any]]:
    """The sandbox's own document, and in it what it says of the members of a withdrawal."""
    document = json.loads(json.dumps(own_document()))
    where = document["paths"]["/v2/transfer/fiat-withdrawals"]["post"]["requestBody"]["content"]
    schema = where["application/json"]["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return document, schema["properties"]


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ({"type": "file"}, "the body of create_fiat_withdrawal cannot be read here: KeyError"),
        ({"type": "string", "pattern": r"\p{L}+"}, "cannot be read here: .*bad escape"),
        ({"$ref": "other.json#/x"}, "give a document that refers to itself only"),
    ],
)
def test_a_document_that_is_beyond_this_is_refused_by_the_operation(
    amount: dict[str, Any], said: str, tmp_path: Path
) -> None:
    document, members = own()
    members["amount"] = amount
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    with pytest.raises(SandboxError, match=said):
        differences_of(tmp_path / "openapi.json")


@pytest.mark.seconds
def test_what_a_valid_document_may_say_is_read(tmp_path: Path) -> None:
    path, (document, members) = tmp_path / "openapi.json", own()
    document["components"]["schemas"]["a/b~c"] = members["amount"]
    members["amount"] = {"$ref": "#/components/schemas/a~1b~0c"}
    path.write_text(json.dumps(document))
    assert differences_of(path) == []
    members["memo"] = True
    path.write_text(json.dumps(document))
    assert {one.operation for one in differences_of(path)} <= {"create_fiat_withdrawal"}
    members["memo"] = {"enum": [{"a": 1}]}
    path.write_text(json.dumps(document))
    assert {one.operation for one in differences_of(path)} == {"create_fiat_withdrawal"}
    path.write_text(json.dumps(document | {"paths": None}))
    assert {one.theirs for one in differences_of(path)} == {"absent"}


def test_a_document_in_yaml_that_cannot_be_read_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "openapi.yaml"
    path.write_text("openapi: 3.0.0\npaths: [\n")
    with pytest.raises(SandboxError, match="is not valid YAML in line 3"):
        differences_of(path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(SandboxError, match="is in YAML: pip install pyyaml"):
        differences_of(path)


@pytest.mark.parametrize("content", ["", "\n ", "text", "[]", '{"a": 1}', '{"method": "GET"}\n'])
def test_a_file_that_is_neither_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    said = "is not a recording: line 1" if content.strip() else "is empty: give a recording or an"
    with pytest.raises(SandboxError, match=said):
        differences_of(path)


def test_a_file_of_bytes_or_of_nothing_is_named_as_that(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(SandboxError, match="an OpenAPI document: it is not UTF-8"):
        differences_of(path)
    for nothing in ("", "\n"):
        path.write_text(nothing)
        with pytest.raises(SandboxError, match=f"the recording {path} is empty: 'fundlab record' "):
            read_recording(path)


def test_nothing_passes_unencrypted_beyond_this_machine(tmp_path: Path) -> None:
    with (
        pytest.raises(SandboxError, match="must be an https:// address"),
        recording("http://api.example.com", tmp_path / "x"),
    ):
        pass
    with running() as service, recording(service.url, tmp_path / "x") as url:
        rebound = requests.get(f"{url}/v2/events", headers={"Host": "evil.example"}, timeout=5)
        assert rebound.status_code == 400
        assert service.received == []


def test_certificates_that_cannot_be_read_are_named_before_it_serves(
    tmp_path: Path, fundlab: Any
) -> None:
    out, bundle = tmp_path / "out.jsonl", tmp_path / "ca.pem"
    asked = ("record", "https://127.0.0.1:1", "--out", out, "--ca-bundle", bundle)
    accepted = "give the path of a file of certificates in PEM\n"
    assert fundlab(*asked) == (
        1, "", f"fundlab: ca_bundle names no file (no such file or directory); {accepted}",
    )  # fmt: skip
    bundle.write_text("none")
    status, shown, err = fundlab(*asked)
    assert (status, shown, "holds no certificates in PEM" in err) == (1, "", True)
    assert not out.exists()


def test_certificates_that_are_lost_while_it_serves_are_an_answer(tmp_path: Path) -> None:
    bundle = Path(shutil.copy(certifi.where(), tmp_path))
    with recording("https://127.0.0.1:1", tmp_path / "x", ca_bundle=bundle) as url:
        bundle.unlink()
        assert requests.get(f"{url}/v2/events", timeout=5).status_code == 502


@pytest.mark.thorough
def test_the_commands(deployment: Sandbox, tmp_path: Path, fundlab: Any) -> None:
    out = tmp_path / "live.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", "fundlab", "record", deployment.base_url, "--out", str(out)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert url is not None
    with deployment.connect(base_url=url[0], auth_url=url[0]) as client:
        list(client.list_events(max_rows=1))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()
    assert fundlab("mirror", out)[:2] == (0, "no differences\n")
    out.write_text(out.read_text().replace('"object_type"', '"objectType"'))
    status, shown, _ = fundlab("mirror", out, "--json")
    assert status == 3
    assert {one["field"] for one in json.loads(shown)["differences"]} == {
        "events[].objectType", "events[].object_type",
    }  # fmt: skip


def test_a_saved_state_is_begun_with(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with serve(empty=True, clock="manual") as sandbox:
        caller = caller_of(sandbox)
        fund(caller, sandbox, sandbox.profile_ids[0], "5.00")
        path.write_bytes(sandbox.control.save())
        caller.close()
    with serve(empty=True, clock="manual", load=path) as sandbox, sandbox.connect() as client:
        assert client.get_profile_balance(sandbox.profile_ids[0], "USD").available == 5
    with pytest.raises(SandboxError, match="cannot be read"):
        serve(empty=True, load=tmp_path / "none")


@pytest.mark.thorough
def test_mirror_is_a_gate_in_three_classes(tmp_path: Path) -> None:
    """A line for a schema that several operations share; 3 for what is dangerous and not known."""
    theirs = json.loads(json.dumps(own_document()))
    schemas = theirs["components"]["schemas"]
    schemas["AddressInput"]["properties"]["city"]["maxLength"] = 10
    schemas["AddressInput"]["required"].append("zip_code")
    schemas["Transfer"]["properties"]["risk_score"] = {"type": "string"}
    schemas["Transfer"]["required"].remove("fee")
    schemas["CreateDepositAddress"]["properties"]["region"] = {"type": "string"}
    published, known = tmp_path / "theirs.json", tmp_path / "known.toml"
    published.write_text(json.dumps(theirs))

    def mirror(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "fundlab", "sandbox", "mirror", str(published), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    status, text = mirror()
    assert status == 3
    refuse, answer_, cosmetic = (
        text.index(kind)
        for kind in ("we accept, they refuse:", "they answer what we never do:", "cosmetic:")
    )
    assert refuse < answer_ < cosmetic
    line, sent = [line for line in text[refuse:answer_].splitlines() if "AddressInput" in line]
    assert "city sandbox limits maxLength 35, theirs limits maxLength 10" in line
    assert "zip_code sandbox optional, theirs required" in line
    assert "create_fiat_account, initiate_sandbox_fiat_deposit, update_fiat_account" in line
    assert "city sandbox takes it, theirs refuse 11 characters" in sent
    assert "zip_code sandbox takes it, theirs refuse its absence" in sent
    assert len(text[refuse:answer_].splitlines()) == 3
    assert "risk_score" in text[answer_:cosmetic]
    assert "fee sandbox required, theirs optional" in text[answer_:cosmetic]
    assert "region" in text[cosmetic:]

    listed = json.loads(mirror("--json")[1])["differences"]
    operations = {one["operation"] for one in listed if one["kind"] == "we accept, they refuse"}
    known.write_text("".join(f'"{name} * *" = "a ticket"\n' for name in sorted(operations)))
    assert mirror("--accepted", str(known))[0] == 3  # the answers are left
    with known.open("a") as file:
        file.write('"* answer *" = "kept as it comes"\n"list_moons *" = "gone"\n')
    status, text = mirror("--accepted", str(known))
    assert (status, "there is no such difference: list_moons *" in text) == (0, True)
    known.write_text('"* answer *" = ""\n')
    assert mirror("--accepted", str(known))[0] not in (0, 3)
