"""The sandbox refuses what the documents refuse, and nothing else; the client refuses it unsent.

``live_limits.yaml`` is a transcription of the interface and of the live limits by hand, judged by
another validator; ``accepted_differences.yaml`` has what the sandbox refuses beyond it, with the
reason. Every member of every request is mutated, alone: one mutation in eight of a seed's choice,
as a campaign all of them.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jsonschema
import pytest
import yaml
from sandbox_caller import ADDRESS, BANK, Gallery

import fundlab as fl
from fundlab.models import OPERATIONS

HERE = Path(__file__).parent
LIMITS = yaml.safe_load((HERE / "live_limits.yaml").read_text(encoding="utf-8"))
ACCEPTED = yaml.safe_load((HERE / "accepted_differences.yaml").read_text(encoding="utf-8"))
VALIDATORS = {
    name: jsonschema.Draft202012Validator({**schema, "$defs": LIMITS["$defs"]})
    for name, schema in LIMITS["bodies"].items()
}
CREATES = sorted(LIMITS["bodies"])
READS = sorted(name for name in LIMITS["queries"] if not name.startswith("_"))
OTHER_CHARACTERS = (
    "Straße 12, Köln", "Nº 5 — März", "a_b", "a;b", "a\n", "a\nb", "\t", " ", "日本", "ａ", "a#",
    'a"b', "a\\b", "a@b", "[a]", "a*", "it's (a) b/c? d: e. f, g & h + i-j",
)  # fmt: skip
AMOUNTS = (
    "0", "0.00", ".0", "-1", "+1", "1e3", "1,000", "1.", ".5", ".05", "0.01", "1.2", "1.23",
    "1.234", "7.000", "NaN", "Infinity", " 1", "1 ", "1\n", "٣", "1" * 20, "1" * 21, "0" * 63 + "1",
    "0" * 64 + "1", "0" * 19 + "1", "1." + "1" * 18, "1." + "1" * 19, "0x1", "", ".", "1.2.3",
)  # fmt: skip
NUMBERS = (5, 5.0, -1, 0)
ONE_IN = pytest.mark.parametrize("one_in", [8, pytest.param(1, marks=pytest.mark.campaign)])


def test_the_transcription_covers_every_operation() -> None:
    assert {*CREATES, *READS} == set(OPERATIONS)


# ---------------------------------------------------------------------------- mutations


def bases(gallery: Gallery, operation: str) -> Iterator[dict[str, Any]]:
    """Valid bodies that have each member of the transcription at least once among them."""
    body = gallery.body(operation)
    yield body
    known = gallery.known
    if operation == "create_fiat_deposit_instructions":
        yield {"profile_id": known["profile_id"], "fiat_network": "CUBIX"}
    if operation in ("create_fiat_account", "initiate_sandbox_fiat_deposit"):
        company = {"fiat_account_owner": {"institution_details": {"name": "Acme Ltd"}}}
        yield {**body, **company, "fiat_network_instructions": {"cubix": {"account_id": "C-1"}}}
        yield {**body, **company, "fiat_network_instructions": {"wallet_address": "C-1"}}
    if operation == "update_fiat_account":
        for part in (
            {"account_number": "1"}, {"fiat_account_owner_address": ADDRESS},
            {"routing_details": BANK}, {"routing_details": {"bank_name": "Other Bank"}},
            {"intermediary_routing_details": BANK},
        ):  # fmt: skip
            yield {"fiat_network_instructions": {"wire": part}}
    if operation == "create_orchestration_rule":
        profile = {"profile": {"profile_id": known["profile_id"]}}
        fiat = {"fiat": {"network": "WIRE", "account_type": "ABA"}}
        dollars = {"source_asset": "USD", "destination_asset": "USDC"}
        yield {**body, **dollars, "source": profile}
        yield {**body, **dollars, "source": fiat, "destination": {"crypto": {"network": "BASE"}}}
        paid = {"fiat_account_id": known["fiat_account_id"], "memo": "rent"}
        yield {**body, "source": {"crypto": {"network": "BASE"}}, "destination": {"fiat": paid}}
    if operation in ("create_fiat_withdrawal", "create_crypto_withdrawal_fee"):
        yield {**{n: v for n, v in body.items() if n != "amount"}, "total": "100.00"}
    if operation == "create_crypto_withdrawal_fee":
        yield {**body, "asset": "BTC"}


def places(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every member, at every depth."""
    for name, member in value.items():
        yield (*at, name)
        if isinstance(member, dict):
            yield from places(member, (*at, name))


def values_for(name: str, old: Any) -> Iterator[tuple[str, Any]]:
    """What else to put in the place of ``old``: by the kind of mutation."""
    yield "null", None
    wrong = [*NUMBERS, True, [], {}, [old], {"x": old}]
    if isinstance(old, dict):
        yield "empty", {}
        yield from (("wrong type", value) for value in ("", "text", 5, True, [], [old]))
        yield "unknown", {**old, "surplus": "x"}
        yield "unknown", {**old, "surplus": {}}
        return
    yield "empty", ""
    yield from (("wrong type", value) for value in wrong)
    if name in ("amount", "total"):
        yield from (("characters", value) for value in AMOUNTS)
        return
    for length in (35, 36, 40, 41, 100, 101, 129, 257, 1_000):
        yield "length", "a" * length
    yield from (("characters", value) for value in OTHER_CHARACTERS)
    yield from (
        ("other value", value) for value in ("USD", "USDC", "USDG", "BTC", "usd", "WIRE", "ABA")
    )
    yield from (("other value", value) for value in (old.lower(), old.upper(), f" {old}"))


def metadata_values() -> Iterator[tuple[str, Any]]:
    yield from ((f"{count} pairs", {str(n): "x" for n in range(count)}) for count in (6, 7))
    for value in ("", "x" * 100, "x" * 101, "Nº", None, 5, True, {}, []):
        yield "pair", {"a": value}
    yield from (("pair", {key: "x"}) for key in ("", "k" * 100, "k" * 101, "Nº"))


def mutations(base: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Member, kind of mutation, the body with that one changed."""
    yield "", "none", base
    for unknown in ("surplus", "Amount", "id"):
        yield unknown, "unknown", {**base, unknown: "x"}
    for place in places(base):
        *way, name = place
        for kind, value in (
            ("absent", ...),
            *values_for(name, _member(base, place)),
            *(metadata_values() if place == ("metadata",) else ()),
        ):
            if place[:1] == ("metadata",) and len(place) > 1 and kind == "unknown":
                continue
            body = copy.deepcopy(base)
            holder = _member(body, tuple(way))
            if kind == "absent":
                del holder[name]
            else:
                holder[name] = value
            yield ".".join(place), kind, body
    for first, second in (("amount", "total"), ("total", "amount")):
        if first in base:
            yield second, "both", {**base, second: base[first]}
    others = {
        "fiat_account_owner": {"institution_details": {"name": "A"}},
        "fiat_network_instructions": {"wallet_address": "C-2"},
        "source": {"profile": {"profile_id": "p"}, "crypto": {"network": "BASE"}},
        "destination": {"profile": {"profile_id": "p"}, "crypto": {"network": "BASE"}},
    }
    for name in others.keys() & base.keys():
        yield name, "both", {**base, name: {**base[name], **others[name]}}


def _member(body: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        body = body[name]
    return body


def cases(
    gallery: Gallery, operation: str, one_in: int, seed: int
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each mutation chosen once: not again where another base has the same in its place, and a
    rule, whose assets are held against its ends, the same kinds of ends."""
    seen, chance = set(), random.Random(f"{seed} {operation}")
    for base in bases(gallery, operation):
        for member, kind, body in mutations(base):
            before, after = _member_or_none(base, member), _member_or_none(body, member)
            ends = [[*base.get(end, ())] for end in ("source", "destination")]
            mutation = member, kind, json.dumps([before, after, ends])
            if member and mutation in seen:
                continue
            seen.add(mutation)
            if kind != "none" and chance.randrange(one_in):
                continue
            if "ref_id" in body and member != "ref_id":
                body["ref_id"] = gallery.ref_id()
            yield member, kind, body


class Accepted:
    """The differences with a reason; each is met, or it goes."""

    def __init__(self, operation: str) -> None:
        self.mine = [
            one for one in ACCEPTED if operation in one["operations"] or one["operations"] == ["*"]
        ]
        self.used: Counter[int] = Counter()

    def covers(self, member: str, detail: str) -> bool:
        for number, one in enumerate(self.mine):
            if re.fullmatch(one["member"], member) and re.search(one["detail"], detail):
                self.used[number] += 1
                return True
        return False


# ---------------------------------------------------------------------------- bodies


@ONE_IN
@pytest.mark.parametrize("operation", CREATES)
def test_a_body_is_refused_as_the_documents_refuse_it(
    gallery: Gallery, operation: str, one_in: int, seed: int, figure: Any
) -> None:
    caller, accepted = gallery.caller, Accepted(operation)
    served = OPERATIONS[operation]
    path = served.path.replace("{id}", gallery.known["fiat_account_id"])
    differences, counted = [], Counter[str]()
    gallery.sandbox.checkpoint("refuses")
    for member, kind, body in cases(gallery, operation, one_in, seed):
        documented = VALIDATORS[operation].is_valid(body)
        answer = caller.call(served.method, path, body)
        counted["taken" if documented else "refused"] += 1
        detail = answer.json()["detail"] if answer.status_code >= 400 else ""
        # whether what is named exists, or was used before, is no matter of form
        taken = answer.status_code in (200, 403, 404, 409)
        assert answer.status_code in (200, 400, 403, 404, 409), (member, kind, answer.text)
        if taken != documented and not (documented and accepted.covers(member, detail)):
            differences.append((member, kind, _member_or_none(body, member), answer.text[:200]))
    gallery.sandbox.restore("refuses")
    assert differences == []
    unused = [one for number, one in enumerate(accepted.mine) if not accepted.used[number]]
    assert one_in > 1 or [one for one in unused if one["operations"] == [operation]] == []
    figure(
        f"the sandbox refuses what the documents refuse: {operation}, {counted.total():,} bodies, "
        f"{counted['refused']:,} of them refused: 0 differences"
    )
    assert counted["refused"] >= 50 / one_in
    assert counted["taken"] >= 10 / one_in


def _member_or_none(body: Any, member: str) -> Any:
    try:
        return _member(body, tuple(member.split("."))) if member else None
    except (KeyError, TypeError):
        return None


@ONE_IN
@pytest.mark.parametrize("operation", CREATES)
def test_the_client_refuses_the_same_before_it_sends(
    gallery: Gallery, operation: str, one_in: int, seed: int, figure: Any
) -> None:
    accepted = Accepted(operation)
    served = OPERATIONS[operation]
    within_path = {"id": gallery.known["fiat_account_id"]} if "{id}" in served.path else {}
    differences, refused, sent = [], 0, 0
    gallery.sandbox.checkpoint("client")
    with gallery.sandbox.connect() as client:
        method = getattr(client, operation)
        client.list_events(page_size=1, max_rows=1).__iter__()
        next(iter(client.list_events(page_size=1)), None)  # has a token from here on
        for member, kind, body in cases(gallery, operation, one_in, seed):
            if member.partition(".")[0] == member and kind == "null":
                continue  # None is how Python leaves an argument out
            if (member, kind) == (
                "asset",
                "absent",
            ) and operation != "create_crypto_withdrawal_fee":
                continue  # the client's default is USD
            value = _member_or_none(body, member)
            if member in ("amount", "total") and type(value) is int and value > 0:
                continue  # which Python holds exactly: the client writes it as text
            if operation == "update_fiat_account" and not body:
                continue  # nothing to change: refused by the client alone, because nothing happens
            documented = VALIDATORS[operation].is_valid(body)
            before = arrived(gallery)
            try:
                method(**within_path, **body)
                error = ""
            except (fl.errors.InvalidRequest, TypeError) as refusal:
                error = str(refusal)
            except fl.errors.FundlabError:
                error = ""  # it was sent, and answered
            now = arrived(gallery)
            if documented and error and accepted.covers(member, error):
                assert now == before
                continue
            refused, sent = refused + (not documented), sent + documented
            if documented != (error == "") or (now == before) != (not documented):
                differences.append((member, kind, _member_or_none(body, member), error[:200]))
    gallery.sandbox.restore("client")
    assert differences == []
    figure(
        f"the client refuses before it sends: {operation}, {refused:,} bodies refused, {sent:,} "
        "sent: 0 differences"
    )
    assert refused >= 50 / one_in


def arrived(gallery: Gallery) -> float:
    """When the last request reached the sandbox."""
    entries = gallery.sandbox._service.log.entries()
    return entries[-1].at_s if entries else 0.0


# ---------------------------------------------------------------------------- queries

IDS = {"id": "fiat_account_id"}
VALUES: dict[str, tuple[str, ...]] = {
    "limit": ("1", "100", "101", "1000", "1001", "0", "-1", "abc", "1.5", "", "1e2", "٣"),
    "order": ("ASC", "DESC", "asc", "", "UP"),
    "order_by": ("CREATED_AT", "UPDATED_AT", "created_at", "", "ID"),
    "page_cursor": ("", "abc", "…"),
    "time": (
        "2026-10-01T00:00:00Z", "2026-10-01T00:00:00.123456789+05:30", "2026-10-01", "yesterday",
        "2026-13-01T00:00:00Z", "2026-10-01T25:00:00Z", "2026-10-01T00:00:00", "",
        "2026-10-01T00:00:00.1234567890Z",
    ),
    "flag": ("true", "false", "True", "1", "yes", ""),
    "text": ("x", "", "Nº"),
}  # fmt: skip


def query_cases(operation: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    rules = LIMITS["queries"][operation]
    for unknown in ("surplus", "Limit", "next_page", "type[]", "created_at", "created_at.ne"):
        yield unknown, [(unknown, "x")]
    for name, rule in rules.items():
        if isinstance(rule, dict):
            listed = re.findall(r"[A-Z][A-Z_]+", rule.get("pattern", ""))
            good = {"statuses": "PENDING", "type": "RTP_DEPOSIT"}.get(name) or (
                listed[-1] if listed else "x"
            )
            yield from ((name, [(name, good)] * times) for times in (1, 2, 100, 101))
            yield from ((name, [(name, value)]) for value in ("lower", "Nº"))
            continue
        kind = name if name in VALUES else "text"
        kind = "time" if "." in name else "flag" if rule == "true|false" else kind
        yield from ((name, [(name, value)]) for value in VALUES[kind])
        yield name, [(name, VALUES[kind][0])] * 2


def query_is_documented(operation: str, pairs: list[tuple[str, str]]) -> bool:
    rules = LIMITS["queries"][operation]
    for name, count in Counter(name for name, _ in pairs).items():
        rule = rules.get(name)
        if rule is None:
            return False
        most, pattern = 1, rule
        if isinstance(rule, dict):
            most, pattern = rule["many"], rule.get("pattern", ".*")
        if count > most:
            return False
        for value in (value for own, value in pairs if own == name):
            if re.fullmatch(f"(?:{pattern})", value, re.ASCII) is None:
                return False
    return True


@pytest.mark.thorough
@pytest.mark.parametrize("operation", READS)
def test_a_query_is_refused_as_the_documents_refuse_it(gallery: Gallery, operation: str) -> None:
    caller, served, known = gallery.caller, OPERATIONS[operation], gallery.known
    (transfer,) = caller.get("/v2/transfer/transfers?limit=1").json()["items"]
    (made,) = caller.get("/v2/transfer/fiat-deposit-instructions?limit=1").json()["items"]
    ids = {
        "get_transfer": transfer["id"], "get_fiat_account": known["fiat_account_id"],
        "get_fiat_deposit_instructions": made["id"],
    }  # fmt: skip
    path = served.path.format(
        id=ids.get(operation, ""), profile_id=known["profile_id"], asset="USD"
    )
    differences = []
    for member, pairs in query_cases(operation):
        answer = caller.get(f"{path}?{urlencode(pairs)}")
        documented = query_is_documented(operation, pairs)
        if (answer.status_code == 200) != documented or answer.status_code not in (200, 400):
            differences.append((member, pairs[:2], len(pairs), answer.text[:150]))
    assert differences == []


def test_an_id_is_found_whatever_its_case(gallery: Gallery) -> None:
    """Ids compare without regard to case: in paths, in bodies, in filters."""
    caller, known = gallery.caller, gallery.known
    account, profile = known["fiat_account_id"], known["profile_id"]
    assert caller.get(f"/v2/transfer/fiat-accounts/{account.upper()}").json()["id"] == account
    assert caller.get(f"/v2/profiles/{profile.upper()}/balances/USD").status_code == 200
    body = {
        **gallery.body("create_fiat_withdrawal"), "profile_id": profile.upper(),
        "fiat_account_id": account.upper(),
    }  # fmt: skip
    answer = caller.post("/v2/transfer/fiat-withdrawals", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["profile_id"] == profile
    listed = caller.get(f"/v2/transfer/transfers?ids={answer.json()['id'].upper()}").json()["items"]
    assert [row["id"] for row in listed] == [answer.json()["id"]]


def test_a_laxer_deployment_is_a_setting_and_a_behaviour(gallery: Gallery) -> None:
    """By default neither sends nor takes it."""
    sandbox = gallery.sandbox
    sandbox.checkpoint("lax")
    wire = {
        "account_number": "1",
        "fiat_account_owner_address": {"address1": "Straße 12, Köln"},
        "routing_details": {"routing_number_type": "ABA", "routing_number": "021000021"},
    }
    asked = {
        "fiat_account_owner": {"person_details": {"first_name": "Ada"}},
        "fiat_network_instructions": {"wire": wire},
    }
    with sandbox.connect(lenient_requests=True) as client:
        with pytest.raises(fl.errors.ValidationFailed, match="last_name"):
            client.create_fiat_account(**asked)
        sandbox.control.configure(lenient_requests=True)
        made = client.create_fiat_account(**asked)
        shown = made.to_json()["fiat_network_instructions"]["wire"]
        assert shown["fiat_account_owner_address"] == {"address1": "Straße 12, Köln"}
    with sandbox.connect() as client, pytest.raises(fl.errors.InvalidRequest, match="country"):
        client.create_fiat_account(**asked)
    sandbox.restore("lax")


@ONE_IN
def test_the_served_document_refuses_the_same(
    gallery: Gallery, one_in: int, seed: int, figure: Any
) -> None:
    """By another validator of JSON Schema than the sandbox's."""
    compared = 0
    document = gallery.caller.http.get(f"{gallery.sandbox.base_url}/openapi.json").json()
    for operation in CREATES:
        accepted = Accepted(operation)
        served = OPERATIONS[operation]
        described = document["paths"][served.path][served.method.lower()]
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        validator = jsonschema.Draft202012Validator(
            {**schema, "components": document["components"]}
        )
        for member, kind, body in cases(gallery, operation, one_in, seed):
            compared += 1
            ours, theirs = validator.is_valid(body), VALIDATORS[operation].is_valid(body)
            if ours != theirs and "\n" not in json.dumps(body).replace("\\n", "\n"):
                fault = next(validator.iter_errors(body)).message
                assert theirs, (operation, member, kind, body)
                assert accepted.covers(member, "served document"), (operation, member, kind, fault)
    figure(f"the served document refuses what the documents refuse: {compared:,} bodies")
