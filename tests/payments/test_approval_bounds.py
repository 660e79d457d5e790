"""Requests and approvals at their bounds: each member, each moment, each person once.

Signatures are made here by hand, from the documented format: not by the code under test.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from test_plan_bounds import NOON, refusal

from fundlab.base.errors import InvalidRequest, OutputError, SettingsError
from fundlab.base.values import Instant
from fundlab.client.signing import EdSigner
from fundlab.models import CreateFiatWithdrawal
from fundlab.payments import approvals
from fundlab.payments.identity import DAY

BODY = '{"amount":"5.00","ref_id":"one"}'
SAID = {
    "format": "fundlab payment request 1", "base_url": "https://a.example", "client_id": "c",
    "bodies": [BODY], "allow_duplicate": False, "by": "Ana", "why": "rent",
    "asked_at": "2025-11-21T12:00:00Z", "expires_at": "2025-11-21T13:00:00Z", "saw": ["card"],
}  # fmt: skip
HOUR = 3_600 * 10**9
KEYS = {name: Ed25519PrivateKey.from_private_bytes(name[0].encode() * 32)
        for name in ("Bea", "Carl", "Mac", "Ana", "Zoe")}  # fmt: skip


def canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def public(name: str) -> bytes:
    return KEYS[name].public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


class Store:
    """A store that has ``people`` (name, role, key) in its records, and keeps new ones."""

    def __init__(self, *people: tuple[str, Any, str | None]) -> None:
        self.kept = [
            {"name": name, "role": role, "key": key, "by": "Zoe"} for name, role, key in people
        ]
        self.held = False

    def records(self) -> list[Any]:
        other = SimpleNamespace(kind="accept", content={"name": "Bea", "key": None})
        return [other, *(
            SimpleNamespace(kind="person", content=said, at="2025-01-01T00:00:00Z")
            for said in self.kept
        )]  # fmt: skip

    @contextmanager
    def lock(self) -> Iterator[Any]:
        self.held = True
        yield "held"
        self.held = False

    def record(self, kind: str, said: Any, check_held: object) -> Any:
        assert (kind, check_held, self.held) == ("person", "held", True)
        self.kept.append(said)
        return SimpleNamespace(at="2025-02-02T00:00:00Z")


def staff(**more: Any) -> Any:
    people = {"Bea": "approver", "Carl": "approver", "Mac": "maker"} | more
    return Store(*((name, role, public(name).hex()) for name, role in people.items()))


# --------------------------------------------------------------------------------- requests


def written(folder: Path, content: Any) -> Path:
    path = folder / "r.json"
    path.write_bytes(content if isinstance(content, bytes) else canonical(content))
    return path


def test_a_request_is_what_its_file_says(tmp_path: Path) -> None:
    request = approvals.read_request(written(tmp_path, SAID))
    assert request.content == canonical(SAID)
    assert (request.bodies, request.arguments) == ([BODY], [json.loads(BODY)])
    assert (request.by, request.sha256) == ("Ana", hashlib.sha256(canonical(SAID)).hexdigest())
    assert request.command == f"fundlab approve {tmp_path / 'r.json'}"
    spaced = approvals.PaymentRequest(b"", Path("a b.json"))
    assert spaced.command == "fundlab approve 'a b.json'"


def test_a_body_may_have_every_member_of_a_withdrawal(tmp_path: Path) -> None:
    body = json.dumps(dict.fromkeys(CreateFiatWithdrawal.model_fields, "x"))
    assert approvals.read_request(written(tmp_path, SAID | {"bodies": [body]})).bodies == [body]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"7", b"[" * 100_000, json.dumps(SAID).encode(),
        *({name: value for name, value in SAID.items() if name != left} for left in SAID),
        SAID | {"more": 1}, SAID | {"format": "fundlab payment request 2"}, SAID | {"bodies": []},
        SAID | {"bodies": [BODY, "[]"]}, SAID | {"bodies": [BODY, "{"]}, SAID | {"bodies": ["7"]},
        SAID | {"bodies": ['{"say": 1}']}, SAID | {"bodies": ['{"allow_duplicate": true}']},
        SAID | {"saw": ["a", 7]}, SAID | {"allow_duplicate": 0}, SAID | {"why": None},
        SAID | {"asked_at": "now"}, SAID | {"expires_at": "2025-11-21"},
        canonical(SAID).replace(b'{"allow', b'{"why":"x","allow'),
    ],
)  # fmt: skip
def test_what_is_no_request_as_it_was_written(tmp_path: Path, content: Any) -> None:
    path = written(tmp_path, content)
    reason, said = refusal(lambda: approvals.read_request(path))
    assert (reason, "is not a request for a payment as it was written" in said) == (
        "approval", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("now", "holds"),
    [(NOON - 1, False), (NOON, True), (NOON + HOUR - 1, True), (NOON + HOUR, False)],
)
def test_when_a_request_holds(tmp_path: Path, now: int, holds: bool) -> None:
    request = approvals.read_request(written(tmp_path, SAID))
    if holds:
        request.check_time(now)
    else:
        assert "holds from 12:00 UTC to 13:00 UTC" in refusal(lambda: request.check_time(now))[1]
    request.check_environment("https://a.example", "c")
    for given in (("https://b.example", "c"), ("https://a.example", "d")):
        assert "r.json is for " in refusal(lambda g=given: request.check_environment(*g))[1]


def test_a_request_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    given: dict[str, Any] = {"base_url": "u", "client_id": "c", "why": "", "now": NOON}
    made = approvals.make_request(tmp_path / "r.json", [BODY], **given)
    assert approvals.read_request(made.path).content == made.content
    assert {name: made.said[name] for name in ("by", "saw", "allow_duplicate", "expires_at")} == {
        "by": "me", "saw": [], "allow_duplicate": False,
        "expires_at": str(Instant.from_ns(NOON + DAY)),
    }  # fmt: skip
    with pytest.raises(OutputError, match="exists and is not overwritten; choose another name"):
        approvals.make_request(made.path, [BODY], **given)
    with pytest.raises(OutputError, match="cannot be written: No such file or directory; nothing"):
        approvals.make_request(tmp_path / "none" / "r.json", [BODY], **given)
    with pytest.raises(SettingsError, match="cannot be read: No such file or directory; nothing"):
        approvals.read_request(tmp_path / "none.json")


@pytest.mark.parametrize("more", [0, 1])
def test_a_file_of_more_than_16_mebibytes_is_none_of_ours(tmp_path: Path, more: int) -> None:
    spare = (1 << 24) - len(canonical(SAID | {"why": ""})) + more
    path = written(tmp_path, SAID | {"why": "x" * spare})
    assert path.stat().st_size == (1 << 24) + more
    if more:
        with pytest.raises(SettingsError, match="has more than 16,777,216 bytes: it is no file"):
            approvals.read_request(path)
    else:
        assert len(approvals.read_request(path).said["why"]) == spare


def test_what_is_written_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "f", []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append(path.read_bytes()))
    approvals._write_new(path, b"content")
    assert synced == [b"content"]


# ----------------------------------------------------------------------------------- people


def test_who_has_a_key() -> None:
    store: Any = Store(("Bea", "approver", "k1"), ("Mac", "maker", "k2"), ("BEA", None, None),
                       ("mac", "approver", "k3"), ("Gone", None, None))  # fmt: skip
    assert approvals.people(store) == {
        "mac": approvals.Person("mac", "approver", "k3", "2025-01-01T00:00:00Z", "Zoe")
    }


def pem(folder: Path, key: Any) -> Path:
    path = folder / "key.pub"
    path.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return path


def test_who_joins_and_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "me")
    store, path = staff(), pem(tmp_path, KEYS["Zoe"])
    for name, given, said in [
        ("", {}, "'' is not a valid name; give 1 to 100 printable characters"),
        ("  ", {}, "is not a valid name"),
        ("a\n", {}, "is not a valid name"),
        ("x" * 101, {}, "is not a valid name"),
        ("Zoe", {"role": "boss"}, "role='boss' is not accepted; give approver or maker"),
        ("BEA", {}, "'BEA' has a key; 'fundlab approvers remove' takes it away"),
    ]:
        with pytest.raises(InvalidRequest) as told:
            approvals.add_person(store, name, path, **given)
        assert said in str(told.value)
    with pytest.raises(InvalidRequest, match="this is the key of 'Bea': each person needs an own"):
        approvals.add_person(store, "Zoe", pem(tmp_path, KEYS["Bea"]))
    (tmp_path / "no.pub").write_text("none")
    for wrong in (tmp_path / "no.pub", pem(tmp_path, generate_private_key(SECP256R1()))):
        with pytest.raises(InvalidRequest, match="is not a public key of Ed25519 in PEM"):
            approvals.add_person(store, "Zoe", wrong)
    with pytest.raises(SettingsError, match=r"(?i)no such file.*; nothing was recorded"):
        approvals.add_person(store, "Zoe", tmp_path / "none.pub")
    assert len(store.kept) == 3

    made = approvals.add_person(store, "x" * 100, pem(tmp_path, KEYS["Zoe"]))
    assert made == approvals.Person(
        "x" * 100, "approver", public("Zoe").hex(), "2025-02-02T00:00:00Z", "me"
    )
    maker = approvals.add_person(store, "Ana", pem(tmp_path, KEYS["Ana"]), "maker", by="Zoe")
    assert (maker.role, maker.by) == ("maker", "Zoe")
    assert store.kept[-1] == {"name": "Ana", "role": "maker", "key": maker.key, "by": "Zoe"}
    approvals.remove_person(store, "ANA")
    assert store.kept[-1] == {"name": "ANA", "role": None, "key": None, "by": "me"}
    with pytest.raises(InvalidRequest, match="'Ana' has no key here"):
        approvals.remove_person(store, "Ana", by="Zoe")


# ---------------------------------------------------------------------------------- signing


def plan(ref_id: str = "one", code: str = "K7QF-2M9D", body: str = BODY) -> Any:
    client = SimpleNamespace(base_url="https://a.example", client_id="c")
    return SimpleNamespace(
        ref_id=ref_id, code=code, context=SimpleNamespace(client=client),
        kept=lambda: {"body": body.encode()},
    )  # fmt: skip


def signed(request: Path, name: str, number: int = 1, **more: Any) -> Path:
    said = {"by": name, "at": "2025-11-21T12:30:00Z", "codes": {"one": "K7QF-2M9D"}}
    key = more.pop("key", name)
    said |= more
    message = b"fundlab approval 1\n" + canonical(said) + b"\n" + request.read_bytes()
    signature = base64.b64encode(KEYS[key].sign(message)).decode()
    path = request.with_name(f"{request.stem}.approved-{number}.json")
    path.write_bytes(canonical({"said": said, "signature": signature}))
    return path


def approved(request: Path, store: Any = None, now: int = NOON, **more: Any) -> Any:
    plans = more.pop("plans", [plan()])
    return approvals.approvals_of(approvals.read_request(request), plans, store or staff(), now)


def test_an_approval_is_signed_beside_its_request(tmp_path: Path) -> None:
    request = approvals.read_request(written(tmp_path, SAID))
    now = NOON + HOUR // 2
    path = approvals.approve(request, [plan()], "Bea", EdSigner("k", KEYS["Bea"]), now)
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    assert path == tmp_path / f"r.approved-{digest}.json"
    made = json.loads(content)
    at = str(Instant.from_ns(now))
    assert made["said"] == {"by": "Bea", "at": at, "codes": {"one": "K7QF-2M9D"}}
    by_hand = signed(request.path, "Bea", at=at)
    assert by_hand.read_bytes() == content
    by_hand.unlink()
    found = approved(request.path)
    assert (found.names, found.problems) == (("Bea",), ())
    assert found.facts == {"asked_by": "Ana", "approved_by": "Bea", "request": request.sha256}


@pytest.mark.parametrize(
    ("name", "more", "people", "problem"),
    [
        ("Bea", {}, {}, None),
        ("BEA", {"key": "Bea"}, {}, None),
        ("Bea", {"at": "2025-11-21T12:00:00Z"}, {}, None),
        ("Bea", {"at": "2025-11-21T11:59:59.999999999Z"}, {}, "it was signed at 2025-11-21T11:59:"),
        ("Bea", {"at": "2025-11-21T12:59:59.999999999Z"}, {}, None),
        ("Bea", {"at": "2025-11-21T13:00:00Z"}, {}, "when the request did not hold"),
        ("Bea", {"key": "Carl"}, {}, "the signature is not of 'Bea' for these bytes"),
        ("Zoe", {}, {}, "'Zoe' is not an approver of this store"),
        ("Mac", {}, {}, "'Mac' is not an approver of this store"),
        ("Ana", {}, {"Ana": "approver"}, "'Ana' asked for it, and cannot approve it"),
        ("Bea", {}, {"Ana": "maker"}, None),
        ("Bea", {"codes": {"one": "K7QF-2M9E"}}, {}, "the account of one is not as 'Bea' saw it"),
        ("Bea", {"codes": {"two": "K7QF-2M9D"}}, {}, "the account of one is not as 'Bea' saw it"),
        ("Bea", {"codes": {"one": "K7QF-2M9D", "two": "x"}}, {}, None),
    ],
)
def test_which_approvals_hold(
    tmp_path: Path, name: str, more: Any, people: Any, problem: str | None
) -> None:
    request = written(tmp_path, SAID)
    signed(request, name, **more)
    found = approved(request, staff(**people))
    if problem is None:
        assert (found.names, found.problems) == (("Bea",), ())
    else:
        assert found.names == ()
        assert found.problems[0].startswith("r.approved-1.json: ")
        assert problem in found.problems[0]


def test_whoever_asked_cannot_approve_under_another_name(tmp_path: Path) -> None:
    request = written(tmp_path, SAID)
    signed(request, "Bea")
    same = Store(("Bea", "approver", public("Bea").hex()), ("Ana", "maker", public("Bea").hex()))
    assert "'Bea' asked for it" in approved(request, same).problems[0]


def test_each_person_counts_once(tmp_path: Path) -> None:
    request = written(tmp_path, SAID)
    signed(request, "Carl", 1)
    signed(request, "Bea", 2)
    signed(request, "Bea", 3, at="2025-11-21T12:31:00Z")
    (tmp_path / "other.approved-1.json").write_bytes(b"{}")
    found = approved(request)
    assert found.names == ("Bea", "Carl")
    assert found.problems == ("r.approved-3.json: a second approval of 'Bea'",)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: b"", lambda content: b"[]", lambda content: content + b" ",
        lambda content: b"[" * 100_000,
        lambda content: content.replace(b'"said"', b'"says"'),
        lambda content: content.replace(b'"codes":{"one":"K7QF-2M9D"}', b'"codes":7'),
        lambda content: content.replace(b"2025-11-21T12:30:00Z", b"noon"),
        lambda content: content.replace(b'"signature":"', b'"signature":"*'),
    ],
)  # fmt: skip
def test_what_is_no_approval_as_it_was_written(tmp_path: Path, spoil: Any) -> None:
    request = written(tmp_path, SAID)
    path = signed(request, "Bea")
    path.write_bytes(spoil(path.read_bytes()))
    assert approved(request).problems == (
        "r.approved-1.json: it is not an approval as it was written",
    )


def test_a_request_is_of_these_payments_here_and_now(tmp_path: Path) -> None:
    request = written(tmp_path, SAID | {"bodies": [BODY, '{"amount":"6.00","ref_id":"two"}']})
    signed(request, "Bea")
    assert approved(request).names == ("Bea",)
    two = plan("two", body='{"amount":"6.00","ref_id":"two"}')
    assert "the account of two" in approved(request, plans=[plan(), two]).problems[0]
    dear = plan(body='{"amount":"9.00","ref_id":"one"}')
    said = refusal(lambda: approved(request, plans=[plan(), dear]))[1]
    assert "does not ask for this payment: {\"amount\":\"9.00\"" in said  # fmt: skip
    assert "holds from" in refusal(lambda: approved(request, now=NOON + HOUR))[1]
    elsewhere = plan()
    elsewhere.context.client.client_id = "d"
    assert "is for client_id='c'" in refusal(lambda: approved(request, plans=[elsewhere]))[1]
