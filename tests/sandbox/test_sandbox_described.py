"""What the sandbox answers is what its document says, and what the live deployment's says.

``wire/live/lists_openapi.json`` has the paths, parameters and schemas of the five lists as the
document has them that the live deployment publishes (version 2.0, without its prose).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest
import requests
from sandbox_caller import ACCOUNTS, MISSING, OWNER, WIRE, WITHDRAWALS, Caller, Gallery, caller_of

from fundlab.models import OPERATIONS
from fundlab.sandbox import Sandbox, serve

Json = dict[str, Any]


class Undescribed(AssertionError):
    """An answer, a status or a parameter that the document does not describe."""


@dataclass
class DescribedClient:
    """Calls the operations of ``document`` by their ids."""

    document: Json
    caller: Caller

    def __post_init__(self) -> None:
        self.prefix = self.document.get("servers", [{"url": ""}])[0]["url"]
        self.operations: dict[str, tuple[str, str, Json]] = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in self.document["paths"].items()
            for method, operation in item.items()
        }
        self._validators: dict[str, Any] = {}

    def call(self, name: str, body: Any = None, **given: Any) -> Any:
        """The answer of an operation, checked; ``given`` are parameters of path and query."""
        method, path, operation = self.operations[name]
        parameters = {entry["name"]: entry for entry in operation["parameters"]}
        pairs = []
        for key, value in given.items():
            if key not in parameters:
                raise Undescribed(f"{name} has no parameter {key}")
            self.check(value, parameters[key]["schema"], f"{name}?{key}")
            if parameters[key]["in"] == "path":
                path = path.replace(f"{{{key}}}", quote(value))
            else:
                values = value if isinstance(value, list) else [value]
                pairs += [f"{key}={quote(str(entry), safe='')}" for entry in values]
        if body is not None:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            self.check(body, schema, f"{name} body")
        target = self.prefix + path + ("?" + "&".join(pairs) if pairs else "")
        return self.read(name, self.caller.call(method, target, body))

    def read(self, name: str, answer: Any) -> Any:
        """The body of an answer of the operation ``name``, once the document allows it."""
        described = self.operations[name][2]["responses"].get(str(answer.status_code))
        if described is None:
            raise Undescribed(f"{name} answered {answer.status_code}: {answer.text[:300]}")
        if "content" not in described:
            if answer.content:
                raise Undescribed(f"{name} answered a body")
            return None
        kind = answer.headers["Content-Type"]
        if kind not in described["content"]:
            raise Undescribed(f"{name} answered {kind}")
        value = answer.json()
        self.check(value, described["content"][kind]["schema"], f"{name} {answer.status_code}")
        return value

    def pages(self, name: str, **given: Any) -> Iterator[Json]:
        """Every page of a list, by the cursor that the document has for it."""
        cursor: dict[str, str] = {}
        while True:
            page = self.call(name, **given, **cursor)
            yield page
            if not page.get("next_page_cursor"):
                return
            cursor = {"page_cursor": page["next_page_cursor"]}

    def check(self, value: Any, schema: Json, what: str) -> None:
        validator = self._validators.get(what)
        if validator is None:
            whole = {**schema, "components": self.document["components"]}
            checks = jsonschema.Draft202012Validator.FORMAT_CHECKER
            validator = jsonschema.Draft202012Validator(whole, format_checker=checks)
            self._validators[what] = validator
        error = jsonschema.exceptions.best_match(validator.iter_errors(value))
        if error is not None:
            raise Undescribed(f"{what}: {error.json_path}: {error.message[:300]}")


LIVE = Path(__file__).parents[1] / "wire" / "live" / "lists_openapi.json"
LISTS = {
    "list_transfers": ("ListTransfers", "items", 400),
    "list_fiat_accounts": ("ListFiatAccounts", "items", 6),
    "list_fiat_deposit_instructions": ("ListFiatDepositInstructions", "items", 15),
    "list_crypto_destination_addresses": ("ListCryptoDestinationAddresses", "addresses", 22),
    "list_events": ("ListEvents", "events", 700),
}
"""Operation → its name in the live document, the member of its rows and their least number."""


@pytest.fixture(scope="module")
def busy() -> Iterator[Sandbox]:
    """A history, and after it everything that the sandbox does by itself."""
    with serve(transfers=400, clock="manual", seed=23) as running:
        caller = caller_of(running)
        profile = {"profile_id": running.profile_ids[0]}
        fiat = {"fiat_account_owner": OWNER, "fiat_network_instructions": FULL_WIRE}
        account = caller.post(ACCOUNTS, fiat).json()["id"]
        running.clock.advance(10)
        for amount in ("10.00", "10.13"):
            body = {**profile, "fiat_account_id": account, "asset": "USD", "amount": amount}
            assert caller.post(WITHDRAWALS, body).ok
        running.clock.advance(3 * 86_400)
        caller.close()
        yield running


FULL_WIRE = {
    "wire": {
        **WIRE["wire"],
        "fiat_account_owner_address": {"country": "USA", "address1": "1 Main St", "address2": ""},
        "routing_details": {
            **WIRE["wire"]["routing_details"], "bank_address": {"country": "USA", "address2": ""},
        },
    }
}  # fmt: skip


@pytest.fixture(scope="module")
def own(busy: Sandbox) -> DescribedClient:
    document = requests.get(f"{busy.base_url}/openapi.json", timeout=5).json()
    return DescribedClient(document, caller_of(busy))


@pytest.fixture(scope="module")
def live(busy: Sandbox) -> DescribedClient:
    return DescribedClient(json.loads(LIVE.read_text(encoding="utf-8")), caller_of(busy))


# ---------------------------------------------------------------------------- generated clients


@pytest.mark.parametrize("name", LISTS)
def test_a_client_made_from_the_sandboxs_document_reads_a_list_to_its_end(
    own: DescribedClient, name: str
) -> None:
    """§§4.3, 4.5, 4.11, 4.15, 6."""
    _, items, least = LISTS[name]
    rows = [row for page in own.pages(name, limit=90) for row in page[items]]
    assert len({row["id"] for row in rows}) == len(rows) >= least


@pytest.mark.parametrize("name", LISTS)
def test_a_client_made_from_the_live_document_reads_a_list_to_its_end(
    live: DescribedClient, own: DescribedClient, name: str
) -> None:
    """§§4.3, 4.5, 4.11, 4.15, 6."""
    theirs, items, _ = LISTS[name]
    rows = [row for page in live.pages(theirs, limit=90) for row in page[items]]
    assert rows == [row for page in own.pages(name, limit=100) for row in page[items]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"secondary_status": {"name": "REJECTED_BY_BANK", "detail": "x"}},
        {"type": "ACH_DEPOSIT"},
        {"fee": ""},
        {"crypto_network": "DOGE"},
    ],
)
def test_the_live_document_refuses_what_the_live_deployment_does_not_answer(
    live: DescribedClient, wrong: dict[str, Any]
) -> None:
    page = live.call("ListTransfers", limit=1)
    schema = live.operations["ListTransfers"][2]["responses"]["200"]["content"]
    page["items"][0] |= wrong
    with pytest.raises(Undescribed):
        live.check(page, schema["application/json"]["schema"], "ListTransfers 200")


# ---------------------------------------------------------------------------- every answer


@pytest.fixture(scope="module")
def answers(gallery: Gallery) -> dict[str, Any]:
    """What every operation answers to its fullest request; lists with all their rows."""
    document = requests.get(f"{gallery.sandbox.base_url}/openapi.json", timeout=5).json()
    client, found = DescribedClient(document, gallery.caller), {}
    known = {**gallery.known, "asset": "USD"}
    for name, operation in OPERATIONS.items():
        path = {"id": known["fiat_account_id"]} if "{id}" in operation.path else {}
        if name == "get_fiat_deposit_instructions":
            path = {"id": found["create_fiat_deposit_instructions"]["id"]}
        elif name == "get_transfer":
            path = {"id": found["list_transfers"]["items"][0]["id"]}
        elif name == "get_profile_balance":
            path = {key: known[key] for key in ("profile_id", "asset")}
        body = gallery.body(name) if operation.body is not None else None
        found[name] = client.call(name, body, **path)
        gallery.sandbox.clock.advance(10)  # an update is approved again
    return {"client": client, **found}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, op in OPERATIONS.items() if op.answer])
def test_the_document_refuses_every_change_of_an_answer(answers: dict[str, Any], name: str) -> None:
    """§§2, 4: what is required, listed or not empty is so in the document."""
    client: DescribedClient = answers["client"]
    schema = client.operations[name][2]["responses"]["200"]["content"]["application/json"]["schema"]
    whole = json.dumps(answers[name])
    client.check(json.loads(whole), schema, f"{name} 200")
    count = 0
    for place in places(answers[name]):
        for wrong in (None, "", 7.5, "UNLISTED"):
            if wrong in allowed(place):
                continue
            changed = json.loads(whole)
            put(changed, place, wrong)
            with pytest.raises(Undescribed):
                client.check(changed, schema, f"{name} 200")
            count += 1
    for within in {place[:-1] for place in places(answers[name]) if place[-1] != 0}:
        if {"object", "metadata"}.isdisjoint(within):
            changed = json.loads(whole)
            put(changed, (*within, "unheard_of"), "x")
            with pytest.raises(Undescribed):
                client.check(changed, schema, f"{name} 200")
    assert count >= 6


FREE = {
    "address", "address1", "address2", "account_number", "bank_name", "city", "country",
    "destination_address", "detail", "first_name", "last_name", "memo", "memo_id", "name",
    "nickname", "object_type", "province", "reason", "ref_id", "routing_number", "zip_code",
}  # fmt: skip
"""Texts of any kind, only not empty."""


def allowed(place: tuple[Any, ...]) -> tuple[Any, ...]:
    """Which of the changes are none: a text stays a text, the end of a list stays one."""
    if place[-1] == "next_page_cursor":
        return ("", "UNLISTED")
    if "metadata" in place[:-1]:
        return ("", "UNLISTED")
    if "object" in place[:-1]:
        return (None, "", 7.5, "UNLISTED")
    is_event_type = place[0] == "events" and place[-1] == "type"
    is_cubix = place[-2:] == ("cubix", "account_id")
    return ("UNLISTED",) if place[-1] in FREE or is_event_type or is_cubix else ()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every member that is no object or list, of lists the first entry's."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, (*path, name))
    elif isinstance(value, list):
        for entry in value[:1]:
            yield from places(entry, (*path, 0))
    else:
        yield path


def put(value: Any, path: tuple[Any, ...], wanted: object) -> None:
    for part in path[:-1]:
        value = value[part]
    value[path[-1]] = wanted


def test_a_required_member_cannot_be_absent_from_an_answer(answers: dict[str, Any]) -> None:
    """§2: ``{}`` is nothing that the sandbox answers, least of all a problem."""
    client: DescribedClient = answers["client"]
    for name, (_, _, operation) in client.operations.items():
        for status, response in operation["responses"].items():
            for content in response.get("content", {}).values():
                with pytest.raises(Undescribed):
                    client.check({}, content["schema"], f"{name} {status} {content['schema']}")


@pytest.mark.parametrize(
    ("name", "given", "body", "status"),
    [
        ("list_events", {"limit": "0"}, None, 400),
        ("get_transfer", {"id": MISSING}, None, 404),
        ("create_fiat_withdrawal", {}, {"refId": "x"}, 400),
        ("create_fiat_deposit_instructions", {}, {"ref_id": "wire"}, 409),
        ("create_fiat_withdrawal", {}, {"amount": "99999999999999999999"}, 403),
    ],
)
def test_a_refusal_is_as_the_document_says(
    answers: dict[str, Any], gallery: Gallery, name: str, given: dict[str, str], body: Any,
    status: int,
) -> None:  # fmt: skip
    """§7."""
    client: DescribedClient = answers["client"]
    path = OPERATIONS[name].path.format(**given) if "id" in given else OPERATIONS[name].path
    query = f"?limit={given['limit']}" if "limit" in given else ""
    sent = None if body is None else {**gallery.body(name), **body}
    answer = gallery.caller.call(OPERATIONS[name].method, path + query, sent)
    assert answer.status_code == status
    assert client.read(name, answer)["status"] == status


def test_no_text_of_an_answer_is_empty(
    answers: dict[str, Any], own: DescribedClient, reader: Caller
) -> None:
    """Decisions: what is absent is left out; only the end of a list is an empty text."""
    pages = [page for name in LISTS for page in own.pages(name)]
    rows = [own.call("get_fiat_account", id=row["id"])
            for page in own.pages("list_fiat_accounts") for row in page["items"]]  # fmt: skip
    made = [value for value in answers.values() if isinstance(value, dict)]
    problem = reader.get("/v2/events?limit=0").json()
    empty = {
        path
        for value in (*pages, *rows, *made, problem)
        for path in empty_texts(value)
        if path != ("next_page_cursor",)
    }
    assert empty == set()


def empty_texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from empty_texts(member, (*path, name))
    elif isinstance(value, list):
        for entry in value:
            yield from empty_texts(entry, path)
    elif value in ("", None):
        yield path


@pytest.mark.parametrize("amount", [".50", "0.5", "00000000000000000000.25"])
def test_the_document_takes_the_amounts_that_the_sandbox_takes(
    answers: dict[str, Any], gallery: Gallery, amount: str
) -> None:
    """§2."""
    made = answers["client"].call(
        "create_fiat_withdrawal", {**gallery.body("create_fiat_withdrawal"), "amount": amount}
    )
    assert float(made["amount"]) == float(amount)
