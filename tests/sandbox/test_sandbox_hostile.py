"""Hostile bodies and requests: a 4xx problem each, and the next valid call works."""

from __future__ import annotations

import json
import re
import socket
from http.client import HTTPConnection

import pytest
from sandbox_caller import OWNER, WIRE, Caller, instructions

from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox

VALID = {"fiat_account_owner": OWNER, "fiat_network_instructions": WIRE}
TEXT = json.dumps(VALID)
HOSTILE = {
    "empty": b"",
    "not JSON": b"{",
    "array": b"[]",
    "null": b"null",
    "text": b'"x"',
    "NaN": b'{"amount": NaN}',
    "Infinity": b'{"amount": -Infinity}',
    "huge float": b'{"amount": 1e999}',
    "duplicate key": TEXT[:-1].encode() + b', "metadata": {}, "metadata": {}}',
    "nested duplicate key": b'{"metadata": {"a": "1", "a": "2"}}',
    "lone surrogate": b'{"ref_id": "\\ud800"}',
    "lone surrogate key": b'{"metadata": {"\\udfff": "x"}}',
    "NUL": b'{"ref_id": "a\\u0000b"}',
    "raw NUL": b'{"ref_id": "a\x00b"}',
    "latin-1": b'{"ref_id": "\xe9"}',
    "BOM": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "depth 100000": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "depth 100": b'{"x":' * 100 + b"1" + b"}" * 100,
    "array depth": b"[" * 100_000,
    "16000 digits": b'{"amount": ' + b"9" * 16_000 + b"}",
    "16000 digits as text": json.dumps({"amount": "9" * 16_000}).encode(),
    "arabic digits": '{"amount": "١٢", "asset": "USD"}'.encode(),
    "trailing newline": b'{"amount": "1\\n", "asset": "USD"}',
    "trailing data": TEXT.encode() + b"{}",
}
WRITES = [operation for operation in OPERATIONS.values() if operation.body is not None]
PATHS = {(op.method, re.sub("{.*?}", "x", op.path)) for op in OPERATIONS.values()}


@pytest.mark.thorough
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_to_every_path(sandbox: Sandbox, caller: Caller, name: str) -> None:
    """Also where no body is taken; only an empty one is none."""
    for method, path in sorted(PATHS):
        if method == "GET" and not HOSTILE[name]:
            continue
        answer = caller.call(method, path, HOSTILE[name])
        assert answer.status_code in (400, 404), (method, path, answer.text)
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == answer.status_code
    assert caller.post("/v2/transfer/fiat-accounts", VALID).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_to_the_token_endpoint(caller: Caller, name: str) -> None:
    for kind in ("application/json", "application/x-www-form-urlencoded"):
        answer = caller.http.post(
            f"{caller.base_url}/oauth2/token", data=HOSTILE[name], headers={"Content-Type": kind}
        )
        assert answer.status_code == 400
        assert answer.json()["error"] == "invalid_request"
    assert caller.ask_token().status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "path"), sorted(PATHS))
def test_10_megabytes_to_every_path_are_413(caller: Caller, method: str, path: str) -> None:
    answer = caller.call(method, path, b" " * 10_000_000)
    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert caller.get("/v2/events").status_code == 200


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/xml", "application/jsonx", "", "multipart/form-data"],
)
def test_another_content_type_is_415(caller: Caller, content_type: str) -> None:
    for operation in WRITES:
        path = operation.path.replace("{id}", "x")
        answer = caller.call(operation.method, path, b"{}", {"Content-Type": content_type})
        assert answer.status_code == 415
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert caller.post("/v2/transfer/fiat-accounts", VALID).status_code == 200


def test_json_with_a_charset_is_fine(caller: Caller) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = caller.call("POST", "/v2/transfer/fiat-accounts", TEXT.encode(), headers)
    assert answer.status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_10_megabytes_in_one_or_in_many_pieces_are_413(caller: Caller, chunked: bool) -> None:
    body = b'{"ref_id": "' + b"x" * 10_000_000 + b'"}'
    data = iter([body[at : at + 65_536] for at in range(0, len(body), 65_536)])
    answer = caller.http.post(
        f"{caller.base_url}/v2/transfer/fiat-accounts",
        data=data if chunked else body,
        headers={"Authorization": f"Bearer {caller.token()}", "Content-Type": "application/json"},
        timeout=10,
    )
    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert caller.post("/v2/transfer/fiat-accounts", VALID).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2", 404), ("GET", "/v2/transfer/transfers/", 404),
        ("GET", "//v2/events", 404), ("GET", "/v2/events/%00", 404),
        ("DELETE", "/v2/transfer/transfers", 405), ("POST", "/v2/events", 405),
        ("GET", "/oauth2/token", 405), ("PATCH", "/v2/transfer/fiat-accounts/x", 405),
        ("HEAD", "/v2/events", 405), ("OPTIONS", "/v2/events", 405),
        ("GET", "/v2/transfer/transfers/%00", 404), ("GET", "/v2/transfer/transfers/%FF%FE", 404),
        ("GET", "/v2/transfer/transfers/" + "x" * 20_000, 404),
    ],
)  # fmt: skip
def test_the_frameworks_own_refusals_are_problems(
    caller: Caller, method: str, path: str, status: int
) -> None:
    answer = caller.call(method, path)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    if method != "HEAD":
        assert answer.json()["status"] == status
    if status == 405:
        assert answer.headers["Allow"]


def test_a_whole_url_as_the_request_target_is_400(sandbox: Sandbox) -> None:
    """§7: what a client sends to a proxy is refused as such, not as a path that is missing."""
    host = sandbox.base_url.removeprefix("http://")
    connection = HTTPConnection(host)
    connection.putrequest("GET", f"{sandbox.base_url}/v2/events")
    connection.endheaders()
    answer = connection.getresponse()
    problem = json.loads(answer.read())
    connection.close()
    assert (answer.status, problem["status"]) == (400, 400)
    assert "request target" in problem["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
        b"Content-Length: 2\r\n\r\nxx",
    ],
)
def test_what_is_not_http_is_400(sandbox: Sandbox, caller: Caller, sent: bytes) -> None:
    host, port = sandbox.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall(sent)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert caller.get("/v2/events").status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        b"", b"--x", b"\xff\xfe", b"--x\r\nContent-Disposition: form-data\r\n\r\nv\r\n--x--\r\n",
        b"--x\r\nContent-Disposition: form-data; name=\"grant_type\"; filename=\"f\"\r\n\r\nv\r\n"
        b"--x--\r\n",
        b"--x\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\n\xff\r\n--x--\r\n",
    ],
)  # fmt: skip
def test_hostile_forms_are_rfc_6749_errors(caller: Caller, form: bytes) -> None:
    for kind in ("multipart/form-data; boundary=x", "multipart/form-data", "text/plain", "a"):
        answer = caller.http.post(
            f"{caller.base_url}/oauth2/token", data=form, headers={"Content-Type": kind}
        )
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"] in ("invalid_request", "unsupported_grant_type")
    assert caller.ask_token().status_code == 200


def test_texts_come_back_as_they_were_sent(sandbox: Sandbox, caller: Caller) -> None:
    metadata = {"naïve 🙂": '\u2028\u202e"\\</script>', "": "\x7f\x01"}
    made = instructions(caller, sandbox.profile_ids[0], metadata=metadata)
    path = f"/v2/transfer/fiat-deposit-instructions/{made['id']}"
    assert caller.get(path).json()["metadata"] == metadata
