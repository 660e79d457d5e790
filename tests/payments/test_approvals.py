"""Another person for every payment: requests, approvals, and what is not one.

Signatures are made here by hand, from the documented format: not by the code under test.
"""

from __future__ import annotations

import base64
import json
import os
import pty
import random
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches import Bench
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
)

import fundlab as fl
from fundlab.base.errors import ActionRefused, FundlabError, InvalidRequest
from fundlab.base.values import Instant
from fundlab.cli import agreement
from fundlab.client.signing import EdSigner
from fundlab.evidence.table_store import TableStore
from fundlab.payments import approvals
from fundlab.payments.actions import WithdrawalPlan
from fundlab.reports.job import payments_of, read_report

DAY_NS = 86_400 * 10**9
NewBench = Callable[..., Bench]


def canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


class Team:
    """A store with people, each with a key."""

    def __init__(self, folder: Path, store: TableStore) -> None:
        self.folder, self.store = folder, store
        self.keys: dict[str, Ed25519PrivateKey] = {}

    def join(self, name: str, role: approvals.Role = "approver") -> None:
        key = self.keys[name] = Ed25519PrivateKey.generate()
        path = self.folder / f"{name}.pub"
        path.write_bytes(
            key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        approvals.add_person(self.store, name, path, role, by="Zoe")

    def signed(
        self, name: str, request: Path, code: dict[str, str], at: str, *, key: str | None = None,
        content: bytes | None = None, file: str = "1", by: str | None = None,
    ) -> Path:  # fmt: skip
        said = {"by": by or name, "at": at, "codes": code}
        content = request.read_bytes() if content is None else content
        message = b"fundlab approval 1\n" + canonical(said) + b"\n" + content
        signature = base64.b64encode(self.keys[key or name].sign(message)).decode()
        path = request.with_name(f"{request.stem}.approved-{file}.json")
        path.write_bytes(canonical({"said": said, "signature": signature}))
        return path


@pytest.fixture
def team(bench: Bench, tmp_path: Path) -> Team:
    made = Team(tmp_path, fl.Store(bench.store))
    fl.Store(bench.store).sync(bench.client, tables=["balances"])
    for name in ("Bea", "Carl"):
        made.join(name)
    made.join("Mac", "maker")
    return made


@pytest.fixture
def guarded(new_bench: NewBench, bench: Bench) -> Bench:
    """The bench of ``team``'s store, where each payment needs another person."""
    return replace(bench, client=new_bench(store=bench.store, approvals=1).client)


def asked(bench: Bench, folder: Path, **given: Any) -> tuple[WithdrawalPlan, Path, str]:
    plan = bench.plan(**given)
    path = folder / f"{random.getrandbits(40):x}.json"
    request = plan.request(path, why="rent", by="Ana")
    return plan, path, str(request.said["asked_at"])


def test_a_payment_waits_for_another_person(
    guarded: Bench, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(guarded.client.settings.journal))
    plan, request, at = asked(guarded, tmp_path)
    assert "Other people must approve it first, 1 of them" in repr(plan)
    with pytest.raises(ActionRefused, match="approval of another person") as refused:
        plan.submit(confirm=plan.code)
    assert refused.value.reason == "approval"
    with pytest.raises(ActionRefused, match="approval of another person"):
        plan.submit(confirm=plan.code, approved=request)
    assert not guarded.made()

    team.signed("Bea", request, {plan.ref_id: plan.code}, at)
    made = plan.submit(confirm=plan.code, approved=request)
    assert [row.id for row in guarded.made()] == [made.id]
    (row,) = fl.journal(guarded.store, folder=guarded.client.settings.journal).to_dict("records")
    assert (row["asked_by"], row["approved_by"]) == ("Ana", "Bea")
    assert plan.submit(confirm=plan.code, approved=request).id == made.id  # once
    assert len(guarded.made()) == 1


@pytest.mark.thorough
def test_a_report_says_who_approved(
    guarded: Bench, team: Team, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(guarded.client.settings.journal))
    plan, request, at = asked(guarded, tmp_path)
    team.signed("Bea", request, {plan.ref_id: plan.code}, at)
    made = plan.submit(confirm=plan.code, approved=request)
    store = fl.Store(guarded.store)
    store.sync(guarded.client)
    report = read_report(store, payments=payments_of(store))
    shown = report.withdrawals.set_index("id")["approved_by"]
    assert shown.dropna().to_dict() == {made.id: "Bea"}


def test_our_own_approval_is_what_the_format_says(
    guarded: Bench, team: Team, tmp_path: Path
) -> None:
    plan, request, asked_at = asked(guarded, tmp_path)
    read = approvals.read_request(request)
    again = agreement.planned_again(guarded.client, read, team.store, guarded.said.append)
    path = approvals.approve(read, again, "Bea", EdSigner("", team.keys["Bea"]), plan.context.now())
    whole = json.loads(path.read_bytes())
    message = b"fundlab approval 1\n" + canonical(whole["said"]) + b"\n" + request.read_bytes()
    team.keys["Bea"].public_key().verify(base64.b64decode(whole["signature"]), message)
    assert whole["said"]["codes"] == {plan.ref_id: plan.code}
    team.signed("Carl", request, {plan.ref_id: plan.code}, asked_at, file="2")
    held = approvals.approvals_of(read, [plan], team.store, plan.context.now())
    assert (held.names, held.problems) == (("Bea", "Carl"), ())
    second = team.signed("Bea", request, {plan.ref_id: plan.code}, asked_at, file="z")
    held = approvals.approvals_of(read, [plan], team.store, plan.context.now())
    assert held.names == ("Bea", "Carl")
    assert held.problems == (f"{second.name}: a second approval of 'Bea'",)
    second.unlink()
    other = tmp_path / "spaced.json"  # the same payment, in other bytes than would be sent
    other.write_bytes(request.read_bytes())
    _rewritten(other, bodies=[json.dumps(json.loads(read.bodies[0]), indent=1)])
    with pytest.raises(ActionRefused, match=r"asks for other bytes .*; nothing was signed"):
        agreement.planned_again(
            guarded.client, approvals.read_request(other), team.store, guarded.said.append
        )
    assert plan.submit(confirm=plan.code, approved=request).ref_id == plan.ref_id


def test_only_an_approver_who_did_not_ask_signs_and_only_by_the_code(
    guarded: Bench, team: Team, tmp_path: Path
) -> None:
    plan, request, _ = asked(guarded, tmp_path)
    team.join("Ana")
    team.keys["Eve"] = Ed25519PrivateKey.generate()
    shown: list[object] = []

    def approve(name: str, typed: str = plan.code, signer: Any = None) -> Path | None:
        return agreement.approve(
            guarded.client, request, team.store, ask=lambda _: typed, show=shown.append,
            signer=lambda: signer or EdSigner("", team.keys[name]), say=guarded.said.append,
        )  # fmt: skip

    with pytest.raises(ActionRefused, match="what was typed is not the code that was shown"):
        approve("Bea", "AAAA-AAAA")
    for name, why in (
        ("Mac", "not of an approver of this store"),
        ("Eve", "not of an approver of this store"),
        ("Ana", "Ana asked for it: another person approves"),
    ):
        with pytest.raises(ActionRefused, match=why):
            approve(name)
    with pytest.raises(ActionRefused, match="the key is not of Ed25519; nothing was signed"):
        approve("Bea", signer=object())
    assert not [*tmp_path.glob("*.approved-*")]
    path = approve("Bea")
    assert path == next(tmp_path.glob(f"{request.stem}.approved-*"))
    assert "Ana asks, at 20" in str(shown[0])
    assert str(shown[0]).endswith("Z: rent")
    assert "approved by" not in str(shown[-1])
    approve("Carl")
    assert "approved by Bea\n" in str(shown[-1])  # who signs next sees who signed
    assert plan.submit(confirm=plan.code, approved=request).ref_id == plan.ref_id


def test_who_approved_stands_on_the_card_and_too_few_are_refused_before_the_question(
    new_bench: NewBench, bench: Bench, team: Team, tmp_path: Path
) -> None:
    guarded = replace(bench, client=new_bench(store=bench.store, approvals=2).client)
    plan, request, at = asked(guarded, tmp_path, amount="70.00")
    cards: list[str] = []
    questions: list[str] = []

    def pay(approved: Path | None = request, dry_run: bool = False) -> agreement.Done:
        return agreement.withdraw(
            plan, yes=False, confirm_amount=None, dry_run=dry_run, wait=False, timeout=1.0,
            ask=lambda text: questions.append(text) or "y", approved=approved,
            show=lambda card: cards.append(" ".join(str(card).split())),
        )  # fmt: skip

    with pytest.raises(ActionRefused, match="'fundlab approve FILE'"):
        pay(approved=None)
    assert "Other people must approve it first, 2 of them" in cards[-1]
    for names, card in (([], "0 of 2 approvals: "), (["Bea"], "1 of 2 approvals, by Bea: ")):
        for name in names:
            team.signed(name, request, {plan.ref_id: plan.code}, at, file=name)
        with pytest.raises(ActionRefused, match=f"fundlab approve {request}, then"):
            pay()
        assert card in cards[-1]
        assert "Other people must" not in cards[-1]
    assert pay(dry_run=True).transfer is None
    assert (questions, guarded.made()) == ([], [])

    team.signed("Carl", request, {plan.ref_id: plan.code}, at, file="Carl")
    made = pay().transfer
    assert "approved by Bea, Carl" in cards[-1]
    assert "2 of" not in cards[-1]
    assert questions == ["Send it? [y/N]"]
    assert made is not None
    assert [row.id for row in guarded.made()] == [made.id]


def test_a_wrong_code_is_said_to_be_wrong_and_a_no_is_a_no(
    guarded: Bench, team: Team, tmp_path: Path
) -> None:
    plan, request, _ = asked(guarded, tmp_path)

    def approve(typed: str) -> Path | None:
        return agreement.approve(
            guarded.client, request, team.store, ask=lambda _: typed, show=guarded.said.append,
            signer=lambda: EdSigner("", team.keys["Bea"]), say=guarded.said.append,
        )  # fmt: skip

    wrong = plan.code[:-1] + ("2" if plan.code[-1] != "2" else "3")
    with pytest.raises(ActionRefused, match="typed is not the code that was shown") as refused:
        approve(wrong)
    assert refused.value.reason == "code"
    assert "nothing was signed" in str(refused.value)
    assert [approve(typed) for typed in ("", " ", "n", "No")] == [None] * 4
    assert not [*tmp_path.glob("*.approved-*")]


@pytest.mark.parametrize(
    "changed",
    [
        {"bodies": []},
        {"bodies": ['{"amount":"1"}', '["1"]']},
        {"saw": ["Amount 1.00", 1]},
        {"format": 2},
        {"expires_at": "tomorrow"},
        {"more": 1},
    ],
)
def test_what_is_not_a_request_is_refused(
    bench: Bench, tmp_path: Path, changed: dict[str, Any]
) -> None:
    _, request, _ = asked(bench, tmp_path)
    assert approvals.read_request(request).said["by"] == "Ana"
    _rewritten(request, **changed)
    with pytest.raises(ActionRefused, match="is not a request for a payment as it was written"):
        approvals.read_request(request)


def test_a_request_holds_from_its_first_nanosecond_to_its_last(
    bench: Bench, tmp_path: Path
) -> None:
    said = approvals.read_request(asked(bench, tmp_path)[1])
    first, after = (Instant.parse(said.said[name]).ns for name in ("asked_at", "expires_at"))
    for held in (first, after - 1):
        said.check_time(held)
    for early_or_late in (first - 1, after):
        with pytest.raises(ActionRefused, match="holds from"):
            said.check_time(early_or_late)


def test_a_request_holds_no_secret_and_no_account_number(
    guarded: Bench, team: Team, tmp_path: Path
) -> None:
    _, request, _ = asked(guarded, tmp_path)
    text = request.read_text()
    wire = guarded.account.fiat_network_instructions.wire  # type: ignore[union-attr]
    assert wire is not None
    assert wire.account_number not in text
    assert guarded.client.settings.client_secret.reveal() not in text
    assert "rent" in text
    assert json.loads(json.loads(text)["bodies"][0])["fiat_account_id"] == guarded.account.id


REFUSED = {
    "nobody": "needs the approval",
    "altered request": "not a request|none of what it has|not of 'Bea'|holds from|is for",
    "altered approval": "not of 'Bea'|not an approval|not an approver|holds from",
    "wrong key": "not of 'Bea' for these bytes",
    "stranger": "'Eve' is not an approver",
    "maker by role": "'Mac' is not an approver",
    "self": "'Ana' asked for it",
    "self under another name": "asked for it|not of 'Bea'",
    "removed": "'Dan' is not an approver",
    "expired": "holds from",
    "signed too late": "when the request did not hold",
    "another payment": "none of what it has",
    "another environment": "is for base_url",
    "another credential": "is for client_id",
    "account changed": "account of .* is not as 'Bea' saw it",
    "approval of another request": "not of 'Bea' for these bytes",
    "twice the same person": "a second approval of 'Bea'",
}


def _rewritten(path: Path, **changed: Any) -> None:
    path.write_bytes(canonical(json.loads(path.read_bytes()) | changed))


def _forged(
    kind: str, rng: random.Random, bench: Bench, team: Team, folder: Path, plan: WithdrawalPlan
) -> tuple[WithdrawalPlan, Path]:  # fmt: skip
    """A request for ``plan`` whose approval does not hold, and the plan to submit with it."""
    request = folder / f"{rng.getrandbits(60):x}.json"
    by = "Ana" if kind != "self under another name" else "Bea"
    made = plan.request(request, why="rent", by=by)
    at, codes = str(made.said["asked_at"]), {plan.ref_id: plan.code}
    sign: dict[str, Any] = {"name": "Bea", "code": codes, "at": at}
    submitted = plan
    if kind in ("another environment", "another credential"):
        name = "base_url" if kind == "another environment" else "client_id"
        _rewritten(request, **{name: f"https://{rng.getrandbits(20):x}.example.com"})
    elif kind == "another payment":
        body = json.loads(made.bodies[0]) | {"amount": f"{rng.randint(2, 9_999)}.01"}
        _rewritten(request, bodies=[json.dumps(body)])
    elif kind == "expired":
        now = plan.context.now() + rng.randint(DAY_NS, 9 * DAY_NS)
        submitted = replace(plan, context=replace(plan.context, now=lambda: now))
    elif kind == "signed too late":
        sign["at"] = str(made.said["expires_at"])
    elif kind == "account changed":
        sign["code"] = {plan.ref_id: "2222-2222"}
    elif kind == "wrong key":
        sign["key"] = rng.choice(["Carl", "Mac", "Eve"])
    elif kind == "stranger":
        sign |= {"name": "Eve"}
    elif kind == "maker by role":
        sign |= {"name": "Mac"}
    elif kind == "self":
        sign |= {"name": "Ana"}
    elif kind == "removed":
        sign |= {"name": "Dan"}
    elif kind == "approval of another request":
        other = folder / f"{rng.getrandbits(60):x}.json"
        plan.request(other, why="other", by="Ana")
        sign["content"] = other.read_bytes()
    if kind != "nobody":
        path = team.signed(sign.pop("name"), request, sign.pop("code"), sign.pop("at"), **sign)
    if kind in ("altered request", "altered approval"):
        target = request if kind == "altered request" else path
        content = bytearray(target.read_bytes())
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        target.write_bytes(content)
    if kind == "twice the same person":
        team.signed("Bea", request, codes, at, file="2")
    return submitted, request


def _forge(
    bench: Bench, new_bench: NewBench, team: Team, folder: Path, count: int, seed: int
) -> dict[str, int]:
    for name in ("Ana", "Dan"):
        team.join(name)
    approvals.remove_person(team.store, "Dan")
    team.keys["Eve"] = Ed25519PrivateKey.generate()
    plain = bench.plan("123.45")
    strict = new_bench(store=bench.store, approvals=2).client
    two = fl.plan_withdrawal(
        strict, profile_id=bench.profile_id, fiat_account_id=bench.account.id, amount="543.21",
        say=bench.said.append,
    )  # fmt: skip
    rng, tried = random.Random(seed), dict.fromkeys(REFUSED, 0)
    for number in range(count):
        kind = list(REFUSED)[number % len(REFUSED)]
        wanted = two if kind == "twice the same person" else plain
        plan, request = _forged(kind, rng, bench, team, folder, wanted)
        with pytest.raises(FundlabError, match=REFUSED[kind]):
            plan.submit(confirm=plan.code, approved=request)
        tried[kind] += 1
        for path in folder.glob(f"{request.stem}*"):
            path.unlink()
    assert not bench.made()
    return tried


def test_forged_approvals_pay_nothing(
    guarded: Bench, new_bench: NewBench, team: Team, tmp_path: Path
) -> None:
    assert min(_forge(guarded, new_bench, team, tmp_path, 3 * len(REFUSED), 7).values()) == 3


@pytest.mark.campaign
def test_ten_thousand_forged_approvals_pay_nothing(
    guarded: Bench, new_bench: NewBench, team: Team, tmp_path: Path, seed: int,
    figure: Callable[[str], None],
) -> None:  # fmt: skip
    tried = _forge(guarded, new_bench, team, tmp_path, 10_000, seed)
    figure(f"{sum(tried.values()):,} forged approvals of {len(tried)} kinds: 0 payments")


class Killed(BaseException):
    """The process ends here."""


def _pay_under_faults(guarded: Bench, team: Team, folder: Path, count: int, seed: int) -> int:
    """Approved payments whose answers are lost and whose runs end anywhere; how many times that
    was."""
    rng, ended, client = random.Random(seed), 0, guarded.client
    real = client.create_fiat_withdrawal
    for number in range(count):
        plan, request, at = asked(
            guarded, folder, amount=f"{number / 100 + 1:.2f}", ref_id=f"{seed}-{number}"
        )
        team.signed(rng.choice(["Bea", "Carl"]), request, {plan.ref_id: plan.code}, at)
        for fault in [*rng.sample(["lost", "reset", "before", "after"], rng.randrange(4)), None]:

            def create(fault: str | None = fault, **given: Any) -> Any:
                if fault == "before":
                    raise Killed
                made = real(**given)
                if fault == "after":
                    raise Killed
                return made

            if fault in ("lost", "reset"):
                guarded.sandbox.faults.add(fault, "create_fiat_withdrawal", count=9)
            object.__setattr__(client, "create_fiat_withdrawal", create)
            try:
                plan.submit(confirm=plan.code, approved=request)
            except (Killed, FundlabError):
                ended += 1
            finally:
                guarded.sandbox.faults.clear()
                object.__delattr__(client, "create_fiat_withdrawal")
        for path in folder.glob(f"{request.stem}*"):
            path.unlink()
    refs = [row.ref_id for row in guarded.made()]
    assert sorted(refs) == sorted(f"{seed}-{number}" for number in range(count))
    return ended


def test_what_is_approved_is_sent_once_whatever_happens(
    guarded: Bench, team: Team, tmp_path: Path
) -> None:
    assert _pay_under_faults(guarded, team, tmp_path, 8, 3) > 4


@pytest.mark.campaign
def test_a_thousand_approved_payments_are_sent_once_each(
    guarded: Bench, team: Team, tmp_path: Path, seed: int, figure: Callable[[str], None]
) -> None:
    ended = _pay_under_faults(guarded, team, tmp_path, 1_000, seed)
    figure(f"1,000 approved payments, {ended:,} lost answers and killed runs: each sent once")


@pytest.mark.parametrize(
    ("settings", "amount", "needed"),
    [
        ({"approvals": 1, "approval_from": "100.00"}, "99.99", False),
        ({"approvals": 1, "approval_from": "100.00"}, "100.00", True),
        ({"approvals": 1, "approval_daily_from": "150.00"}, "74.99", False),
        ({"approvals": 1, "approval_daily_from": "150.00"}, "75.00", True),
        ({"approvals": 1, "approval_new_account": True}, "1.00", False),
        ({"approvals": 0, "approval_from": "1.00"}, "2.00", False),
        ({"approvals": 1}, "0.01", True),
    ],
)
def test_which_payments_need_approval(
    bench: Bench, new_bench: NewBench, settings: dict[str, Any], amount: str, needed: bool
) -> None:
    bench.pay("75.00")  # of today, and to the account
    ruled = new_bench(store=bench.store, journal=bench.client.settings.journal, **settings)
    plan = bench.plan(amount, client=ruled.client, ref_id=f"r-{uuid.uuid4()}", allow_duplicate=True)
    if needed:
        with pytest.raises(ActionRefused, match="needs the approval of another person"):
            plan.submit(confirm=plan.code)
    else:
        assert plan.submit(confirm=plan.code).ref_id == plan.ref_id


def test_the_first_payment_to_an_account_needs_approval(bench: Bench, new_bench: NewBench) -> None:
    ruled = new_bench(store=bench.store, approvals=1, approval_new_account=True)
    with pytest.raises(ActionRefused, match="your journal has no payment to this account"):
        ruled.pay("1.00")


def test_a_batch_is_approved_as_a_whole(guarded: Bench, team: Team, tmp_path: Path) -> None:
    import pandas as pd

    table = pd.DataFrame({"amount": ["10.00", "20.00"], "profile_id": guarded.profile_id,
                          "fiat_account_id": guarded.account.id})  # fmt: skip
    batch = fl.plan_withdrawals(guarded.client, table, say=guarded.said.append)
    with pytest.raises(ActionRefused, match="approval of another person"):
        batch.submit(confirm=batch.code, progress=False)
    request = tmp_path / "batch [2026-12].json"
    made = batch.request(request, why="salaries", by="Ana")
    codes = {plan.ref_id: plan.code for plan in batch.plans}
    team.signed("Carl", request, dict([*codes.items()][:1]), str(made.said["asked_at"]))
    with pytest.raises(ActionRefused, match="not as 'Carl' saw it"):
        batch.submit(confirm=batch.code, progress=False, approved=request)
    assert not guarded.made()
    team.signed("Carl", request, codes, str(made.said["asked_at"]), file="2")
    done = batch.submit(confirm=batch.code, progress=False, approved=request)
    assert done["state"].tolist() == ["done", "done"]
    assert len(guarded.made()) == 2
    paid = fl.plan_withdrawals(guarded.client, table, say=guarded.said.append)
    with pytest.raises(ActionRefused, match="every payment is submitted already"):
        paid.request(tmp_path / "again.json")


@pytest.mark.parametrize("nanoseconds", [0, -5, 3600 * 10**18, 3.6e12, True])
def test_a_request_that_could_never_hold_is_not_written(
    nanoseconds: Any, guarded: Bench, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match="nothing was written"):
        guarded.plan().request(tmp_path / "r.json", expires_after=nanoseconds)
    assert not [*tmp_path.glob("r.json")]


def test_a_key_and_a_name_belong_to_one_person(team: Team, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("not a key")
    with pytest.raises(InvalidRequest, match="is not a public key of Ed25519 in PEM"):
        approvals.add_person(team.store, "Nobody", tmp_path / "none.pem")
    with pytest.raises(FundlabError, match="has a key"):
        approvals.add_person(team.store, "bea", tmp_path / "Carl.pub")
    with pytest.raises(FundlabError, match="the key of 'Carl'"):
        approvals.add_person(team.store, "Dora", tmp_path / "Carl.pub")
    approvals.remove_person(team.store, "carl")
    assert sorted(approvals.people(team.store)) == ["bea", "mac"]
    with pytest.raises(FundlabError, match="has no key here"):
        approvals.remove_person(team.store, "carl")


# ------------------------------------------------------------------------------ two shells


def _shell(environ: dict[str, str], *arguments: object, typed: str = "") -> tuple[int, str]:
    """The command at a terminal of its own; what it printed there."""
    parent, child = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-m", "fundlab", *map(str, arguments)], stdin=child, stdout=child,
        stderr=child, env=environ, close_fds=True,
    )  # fmt: skip
    os.close(child)
    shown = b""
    while True:
        try:
            shown += os.read(parent, 65536)
        except OSError:
            break
        if typed and b"Type the confirmation code" in shown:
            word = (
                shown.split(b"confirmation code ")[1].split()[0]
                if typed == "CODE"
                else typed.encode()
            )
            os.write(parent, word + b"\n")
            typed = ""
    os.close(parent)
    return run.wait(), shown.decode().replace("\r\n", "\n")


@pytest.mark.thorough
def test_two_shells_as_two_people(bench: Bench, tmp_path: Path) -> None:
    environ = {**os.environ, **bench.sandbox.environment(), "FUNDLAB_STORE": str(bench.store)}
    ana = environ | {"FUNDLAB_JOURNAL": str(tmp_path / "ana"), "FUNDLAB_APPROVALS": "1"}
    bea = environ | {"FUNDLAB_JOURNAL": str(tmp_path / "bea")}
    request, key = tmp_path / "rent.json", tmp_path / "bea.pem"
    assert _shell(ana, "sync", "balances")[0] == 0
    status, shown = _shell(bea, "keys", "new", "--alg", "EdDSA", "--out", key)
    assert status == 0, shown
    public = tmp_path / "bea.pub"
    public.write_text("-----BEGIN" + shown.split("-----BEGIN")[1].split("KEY-----\nThe")[0]
                      + ("" if "KEY-----\nThe" not in shown else "KEY-----\n"))  # fmt: skip
    assert _shell(ana, "approvers", "add", "Bea", "--key", public)[0] == 0

    pay = ["withdraw", "--profile", bench.profile_id, "--fiat-account", bench.account.id,
           "--amount", "77.00"]  # fmt: skip
    status, shown = _shell(ana, *pay, "--yes")
    assert status == 1, shown
    assert "needs the approval of another person" in " ".join(shown.split())
    status, shown = _shell(ana, *pay, "--request", request, "--why", "rent", "--by", "Ana")
    assert status == 0, shown
    plain = subprocess.run(
        [sys.executable, "-m", "fundlab", "approve", str(request), "--key", str(key)],
        env=bea, input="y\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert plain.returncode == 1
    assert "not a terminal" in plain.stderr
    status, shown = _shell(bea, "approve", request, "--key", key, typed="no")
    assert status == 1, shown
    status, shown = _shell(bea, "approve", request, "--key", key, typed="CODE")
    assert status == 0, shown
    assert "Ana asks" in shown
    assert "rent" in shown
    assert not bench.made()

    changed = tmp_path / "changed.json"
    changed.write_bytes(request.read_bytes().replace(b"77.00", b"78.00"))
    (approval,) = tmp_path.glob("rent.approved-*.json")
    (tmp_path / approval.name.replace("rent", "changed")).write_bytes(approval.read_bytes())
    status, shown = _shell(ana, "withdraw", "--approved", changed, "--yes")
    assert status == 1, shown
    assert not bench.made()
    status, shown = _shell(ana, "withdraw", "--approved", request, "--yes")
    assert status == 0, shown
    assert [str(row.amount) for row in bench.made()] == ["77.00"]
    assert _shell(ana, "withdraw", "--approved", request, "--yes")[0] == 0
    assert len(bench.made()) == 1
