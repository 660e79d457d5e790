"""What somebody asks about papers once a run is over: approvals, journals, accounts, differences
that were accepted. Each is tried from both sides of its bound, on copies where it would be
damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from requests.structures import CaseInsensitiveDict

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    CallError,
    FundlabError,
    OutputError,
    SettingsError,
    StoreDamaged,
    StoreError,
)
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.client.signing import EdSigner
from fundlab.payments import approvals
from fundlab.payments.identity import UPDATE, WITHDRAWAL, Entry
from fundlab.payments.journal import Journal
from fundlab.payments.journal_files import damaged_journals, journal_entries
from fundlab.payments.reconciliation import Reconciliation, accept_payments, reconciled
from fundlab.payments.withdrawals import with_approvals
from tests.simulation import oracles
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, dec, refuses

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_DAY: Final = 24 * 3600 * NS


class Instead:
    """The connections of a client, of whose messages some come to ``answer`` instead: it is given
    the message and what sends it on."""

    def __init__(
        self, line: Any, answer: Callable[[Outgoing, Callable[[], Any]], Answer | Failure]
    ) -> None:
        self._line, self._answer = line, answer

    def exchange(self, request: Outgoing, timeout: float) -> Answer | Failure:
        return self._answer(request, lambda other=request: self._line.exchange(other, timeout))

    def close(self) -> None:
        """There is no connection to close."""


def heard(
    desk: Desk, answer: Callable[[Outgoing, Callable[[], Any]], Answer | Failure], **settings: Any
) -> Any:
    """A client of the payer whose messages come to ``answer``."""
    client = desk.client("payer", **settings)
    client.transport._opened = Instead(client.transport._opened, answer)  # type: ignore[assignment]
    return client


def changes(request: Outgoing) -> bool:
    """Whether a message changes anything at the service."""
    return request.method != "GET" and "/oauth2/" not in request.url


def lost(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
    """What changes anything never arrives."""
    return Failure("the answer took too long", sent=True) if changes(request) else send()


def unanswered(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
    """What changes anything is done, and its answer is lost."""
    found = send()
    return Failure("the connection broke", sent=True) if changes(request) else found


# ------------------------------------------------------------------------------ approvals


def signed(desk: Desk) -> None:
    """Who may sign, when, and for what; a payment goes out with two that count."""
    store, folder = desk.store(), desk.root / "office"
    folder.mkdir()

    def key(number: int) -> EdSigner:
        seed = b"%032d" % (desk.seed % 10**20 * 10 + number)
        return EdSigner(f"office-{number}", Ed25519PrivateKey.from_private_bytes(seed))

    def public(number: int) -> Path:
        file = folder / f"{number}.pub"
        found = key(number).key.public_key()
        file.write_bytes(found.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return file

    def add(name: str, number: int, role: Any = "approver") -> Any:
        return approvals.add_person(store, name, public(number), role, by="auditor")

    before = approvals.people(store)
    for number, (name, role) in enumerate(
        {"Ann": "approver", "Bob": "approver", "Cas": "maker", "n" * 100: "maker"}.items()
    ):
        made = add(name, number, role)
        raw = key(number).key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
        check((made.name, made.role, made.key) == (name, role, raw), f"{name} is {made}")
    refuses(lambda: add("ANN", 4), "has a key")
    refuses(lambda: add("Dora", 0), "the key of 'Ann'")
    for wrong in ("", " ", "a\nb", "n" * 101):
        refuses(lambda wrong=wrong: add(wrong, 4), "not a valid name")  # type: ignore[misc]
    refuses(lambda: add("Dora", 4, "boss"), "role='boss'", "approver or maker")
    half = "\ud800"
    for ask in (
        lambda: approvals.add_person(store, "Dora", public(4), by=half),
        lambda: approvals.remove_person(store, "Ann", by=half),
        lambda: approvals.make_request(
            folder / "half", [], base_url="a", client_id="b", why=half, now=0
        ),
    ):  # fmt: skip
        refuses(ask, "half a character")
    (folder / "no.pub").write_text("no key")
    refuses(lambda: approvals.add_person(store, "Dora", folder / "no.pub"), "not a public key")
    refuses(lambda: approvals.remove_person(store, "Dora"), "has no key here")
    approvals.remove_person(store, "N" * 100, by="Ann")
    now_known = {name: one.role for name, one in approvals.people(store).items()}
    known = {name: one.role for name, one in before.items()}
    known |= {"ann": "approver", "bob": "approver", "cas": "maker"}
    check(now_known == known, f"known are {now_known}")

    asked = {"profile_id": desk.profiles[0], "fiat_account_id": desk.account}
    say = desk.said.append
    with desk.client("payer", approvals=2) as client:

        def planned(amount: str = "4.41", ref_id: str = "office-1") -> Any:
            return fl.plan_withdrawal(client, amount=amount, ref_id=ref_id, say=say, **asked)

        plan = planned()
        check("2 of them" in repr(plan), "a card does not say how many must approve")
        request = plan.request(folder / "a.json", why="rent", by="Cas")
        said = json.loads(request.path.read_bytes())
        (body,) = (json.loads(text) for text in said["bodies"])
        got = said["by"], said["why"], body["amount"], body["ref_id"], said["saw"]
        check(got == ("Cas", "rent", "4.41", "office-1", repr(plan).splitlines()), f"asked: {got}")
        rest = {"format": "fundlab payment request 1", "base_url": client.base_url,
                "client_id": client.client_id, "allow_duplicate": False}  # fmt: skip
        check(said == said | rest, f"a request has {said}")
        asked_at, until = (oracles.moment(said[name]) for name in ("asked_at", "expires_at"))
        check(until - asked_at == _DAY, f"it holds from {asked_at} to {until}")
        check(request.arguments == [body] and request.by == "Cas", f"{request.arguments} is asked")
        check(request.command.endswith("a.json"), request.command)
        refuses(lambda: plan.request(request.path), "exists", by=OutputError)
        check(approvals.read_request(request.path).content == request.content, "read otherwise")
        for number, wrong in enumerate((
            request.content + b" ", b"{}", b"[]", b"no",
            *(approvals.canonical(said | more) for more in (
                {"bodies": []}, {"format": "another"}, {"asked_at": "soon"}, {"saw": [1]},
                {"bodies": ["1"]}, {"more": ""},
            )),
        )):  # fmt: skip
            other = folder / f"other-{number}"
            other.write_bytes(wrong)
            refuses(lambda other=other: approvals.read_request(other), by=ActionRefused,  # type: ignore[misc]
                    reason="approval")  # fmt: skip
        refuses(lambda: approvals.read_request(folder / "none"), by=SettingsError)
        (folder / "large").write_bytes(b" " * ((1 << 24) + 1))
        refuses(lambda: approvals.read_request(folder / "large"), "more than", by=SettingsError)

        def sign(name: str, number: int, at: int, plans: Any = None) -> Path:
            return approvals.approve(request, plans or [plan], name, key(number), at)

        def holding(at: int = asked_at, of: Any = None) -> Any:
            return approvals.approvals_of(of or request, [plan], store, at)

        def no(path: Path, why: str, *names: str) -> None:
            """What is in ``path`` does not count; nor does it stay."""
            found = holding()
            right = found.names == names and len(found.problems) == 1 and why in found.problems[0]
            check(right, f"{why}: {found.names} hold, and {found.problems}")
            path.unlink()

        check(holding() == approvals.Approved(request, ()), f"nobody signed, yet {holding()}")
        for at in (asked_at - 1, until):
            refuses(lambda at=at: holding(at), "holds from", by=ActionRefused, reason="approval")  # type: ignore[misc]
            no(sign("Ann", 0, at), "when the request did not hold")
        for at in (asked_at, until - 1):
            path = sign("Ann", 0, at)
            alone = approvals.Approved(request, ("Ann",))
            check(holding(until - 1) == alone, f"signed at {at}: {holding(until - 1)}")
            path.unlink()
        no(sign("Ann", 1, asked_at), "the signature is not of 'Ann'")
        no(sign("Cas", 2, asked_at), "is not an approver")
        no(sign("Dora", 4, asked_at), "is not an approver")
        no(sign("Ann", 0, asked_at, [SimpleNamespace(ref_id="office-1", code="0000")]), "not as")
        broken = folder / "a.approved-0.json"
        broken.write_bytes(b"{}")
        no(broken, "not an approval as it was written")
        path = sign("Ann", 0, asked_at)
        again = approvals.canonical(json.loads(path.read_bytes()) | {"more": 1})
        path.unlink()
        broken.write_bytes(again)
        no(broken, "not an approval as it was written")
        sign("ann", 0, asked_at)
        (half,) = with_approvals([plan], request.path)
        shown = "1 of 2 approvals, by Ann" in repr(half), "approved by" in repr(half)
        check(shown == (True, False), f"a card of what one of two approved: {half!r}")
        submit = lambda: plan.submit(plan.code, approved=request.path)  # noqa: E731
        refuses(lambda: plan.submit(plan.code), "2 other people", by=ActionRefused,
                reason="approval")  # fmt: skip
        refuses(submit, "2 other people", "Ann approved it", by=ActionRefused, reason="approval")
        no(sign("Ann", 0, asked_at + NS), "a second approval of 'Ann'", "Ann")
        for owner in ({"base_url": "https://b"}, {"client_id": "b"}):
            here = {"base_url": client.base_url, "client_id": client.client_id} | owner
            theirs = approvals.make_request(
                folder / f"theirs-{len(here['base_url'])}", said["bodies"], why="", now=asked_at,
                **here,
            )  # fmt: skip
            rest = here | {"allow_duplicate": False, "saw": [], "why": ""}
            check(theirs.said == theirs.said | rest, f"a request has {theirs.said}")
            refuses(lambda theirs=theirs: holding(of=theirs), "is for", by=ActionRefused,  # type: ignore[misc]
                    reason="approval")  # fmt: skip
        more = planned("4.42", "office-2")
        refuses(lambda: approvals.approvals_of(request, [more], store, asked_at),
                "does not ask for this payment", by=ActionRefused, reason="approval")  # fmt: skip
        # who asked cannot approve, by their name or by their key
        for name, number, asker in (("Bob", 1, "bob"), ("Bob", 1, "Bobby")):
            if asker == "Bobby":
                theirs = approvals.people(store)["bob"].key
                person = {"name": asker, "role": "maker", "key": theirs, "by": "auditor"}
                with store.lock() as held:
                    store.record("person", person, held)
            own = plan.request(folder / f"{asker}.json", by=asker)
            at = oracles.moment(own.said["asked_at"])
            approvals.approve(own, [plan], name, key(number), at)
            found = holding(at, own)
            check(not found.names and "asked for it" in found.problems[0], f"{asker}: {found}")
        sign("Bob", 1, asked_at)
        both = approvals.Approved(request, ("Ann", "Bob"))
        check(holding() == both, f"two signed, and {holding()}")
        (approved,) = with_approvals([plan], request.path)
        check(
            "approved by Ann, Bob" in repr(approved), f"a card of what was approved: {approved!r}"
        )
        made = submit()
        entry = Journal(next(desk.journal("payer").glob("*.sqlite"))).find("office-1")
        facts = {} if entry is None else dict(entry.facts)
        got = facts.get("approved_by"), facts.get("asked_by"), facts.get("amount")
        check(got == ("Ann, Bob", "Cas", "4.41"), f"of {made.id} the journal has {facts}")
        refuses(lambda: planned().request(folder / "late.json"), "nothing to approve",
                by=ActionRefused, reason="approval")  # fmt: skip
        approvals.remove_person(store, "Bob", by="Ann")
        check("bob" not in approvals.people(store), "who was removed has a key")


# ------------------------------------------------------------------------------ journals


def in_doubt(desk: Desk) -> None:
    """What becomes of payments that never arrive, that arrive without an answer, and that are
    refused; by the journal, on the card, and of a change of an account."""
    profile, say = desk.profiles[0], desk.said.append
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))

    def planned(client: Any, name: str, cents: int, **more: Any) -> Any:
        return fl.plan_withdrawal(
            client, profile_id=profile, fiat_account_id=desk.account, amount=f"4.{cents}",
            ref_id=f"doubt-{name}", say=say, **more,
        )  # fmt: skip

    def state(name: str) -> str:
        found = book.find(f"doubt-{name}")
        return "nothing" if found is None else found.state

    def there(name: str) -> int:
        rows = oracles.at_the_service(desk).values()
        return sum(row.get("ref_id") == f"doubt-{name}" for row in rows)

    for name, answer, cents, known in (("lost", lost, 51, 0), ("unanswered", unanswered, 52, 1)):
        with heard(desk, answer) as client:
            plan = planned(client, name, cents)
            try:
                plan.submit(plan.code)
            except CallError as error:
                check("may have been carried out" in str(error), f"{name}: {error}")
                check(not known, f"{name}: it is there, and its list says so, yet: {error}")
        check(there(name) == known, f"{name}: there are {there(name)} of it")
        check(state(name) == ("done" if known else "unknown"), f"{name}: it is {state(name)}")
    with desk.client("payer") as client:
        refuses(lambda: planned(client, "again", 51), "its outcome is unknown", by=ActionRefused,
                reason="duplicate")  # fmt: skip
        frame = fl.resume(client, say=say)
        got = dict(zip(frame["ref_id"], frame["state"], strict=True)).get("doubt-lost")
        check(got == "absent" == state("lost"), f"never arrived, and {got} after fl.resume")
        plan = planned(client, "lost", 51)
        check("does not know it" in repr(plan), f"never arrived: {plan!r}")
        refuses(lambda: planned(client, "again", 51), "not sent so far", by=ActionRefused,
                reason="duplicate")  # fmt: skip
        plan.submit(plan.code)
        check((state("lost"), there("lost")) == ("done", 1), "what never arrived was sent again")

    # lists and answers that show no ref_id: nothing is sent twice for that
    def unnamed(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
        found = unanswered(request, send)
        if isinstance(found, Failure) or found.status != 200 or "/transfers" not in request.url:
            return found
        page = json.loads(found.body)
        for row in page.get("items", [page]):
            if row.get("ref_id") == "doubt-unnamed":
                del row["ref_id"]
        return Answer(found.status, found.headers, json.dumps(page).encode())

    with heard(desk, unnamed) as client:
        plan = planned(client, "unnamed", 55)
        for _ in range(2):
            try:
                plan.submit(plan.code)
            except FundlabError:
                check(state("unnamed") != "absent", f"it is there, and {state('unnamed')}")
    check(there("unnamed") == 1, f"without a ref_id there are {there('unnamed')} of it")

    # the service says no
    def refused(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
        if not changes(request):
            return send()
        body = json.dumps({"title": "No", "detail": "not today", "status": 422}).encode()
        headers = {"Content-Type": "application/problem+json"}
        return Answer(422, CaseInsensitiveDict(headers), body)

    with heard(desk, refused) as client:
        plan = planned(client, "refused", 53)
        refuses(lambda: plan.submit(plan.code), "not today", by=CallError)
        check(state("refused") == "refused", f"it is {state('refused')}")
        check("refused by the service" in repr(planned(client, "refused", 53)), "of a refusal")
    with desk.client("payer") as client:
        fl.resume(client, say=say)
        check(state("refused") == "refused", "a refusal was made something else")
        plan = planned(client, "refused", 53)
        plan.submit(plan.code)
        check((state("refused"), there("refused")) == ("done", 1), "tried again after a refusal")

    def interrupted(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
        if changes(request):
            raise KeyboardInterrupt
        return send()

    with heard(desk, interrupted) as client:
        plan = planned(client, "stopped", 54)
        try:
            plan.submit(plan.code)
        except KeyboardInterrupt as stop:
            check(getattr(stop, "__notes__", ()), "who stops is not told what became of it")
        check(state("stopped") == "unknown", f"stopped while it was sent, it is {state('stopped')}")
    with desk.client("payer") as client:
        fl.resume(client, say=say)
        check(state("stopped") == "absent", f"it was never sent, and is {state('stopped')}")
        # what is in the way now is said with what was before
        plan = planned(client, "stopped", 54)
        began = Virtual.now_ns
        Virtual.now_ns += 16 * 60 * NS
        refuses(lambda: plan.submit(plan.code), by=ActionRefused, reason="expired")
        Virtual.now_ns = began


def unlisted(desk: Desk) -> None:
    """Of what the service has no list of, one of two requests alike is carried out, while the
    confirmation holds; what is done here and unknown there is another service's."""
    say = desk.said.append
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))

    def rule(client: Any, name: str) -> Any:
        desk.confirmed[name] = Virtual.now_ns
        return fl.plan_rule(
            client, profile_id=desk.profiles[0], source_asset="USDC", destination_asset="USD",
            source={"crypto": {"network": "BASE"}}, nickname=name, ref_id=name, say=say,
        )  # fmt: skip

    def there(name: str) -> int:
        bodies = desk.service.database.all("SELECT body FROM rules")
        return sum(json.loads(body).get("nickname") == name for (body,) in bodies)

    for name, answer in (("rule-lost", lost), ("rule-heard", unanswered)):
        with heard(desk, answer) as client:
            plan = rule(client, name)
            refuses(lambda plan=plan: plan.submit(plan.code), by=CallError)  # type: ignore[misc]
        entry = book.find(name)
        check(entry is not None and entry.state == "unknown", f"{name}: {entry}")
        with desk.client("payer") as client:
            fl.resume(client, say=say)
        entry = book.find(name)
        check(entry is not None and entry.state == "done", f"{name}, asked again: {entry}")
        check(there(name) == 1, f"{name} is there {there(name)} times")
    with heard(desk, lost) as client:
        plan = rule(client, "rule-late")
        refuses(lambda: plan.submit(plan.code), by=CallError)
    entry = book.find("rule-late")
    sent = 0 if entry is None else entry.sent_at
    with desk.client("payer") as client:
        Virtual.now_ns = max(Virtual.now_ns, sent + 15 * 60 * NS)
        begun = len(desk.said)
        fl.resume(client, say=say)
        told = [text for text in desk.said[begun:] if text.startswith("not settled") and
                "rule-late" in text]  # fmt: skip
        check(len(told) == 1 and "plan expired" in told[0], f"too late: {desk.said[begun:]}")
        check(there("rule-late") == 0, "too late, and asked for again")
        plan = rule(client, "rule-late")
        plan.submit(plan.code)
        check(there("rule-late") == 1, f"confirmed anew: {there('rule-late')}")
        made = fl.plan_withdrawal(
            client, profile_id=desk.profiles[0], fiat_account_id=desk.account, amount="4.71",
            ref_id="elsewhere-1", say=say,
        )  # fmt: skip
        transfer = made.submit(made.code)

    def knows_not(request: Outgoing, send: Callable[..., Any]) -> Answer | Failure:
        if request.method == "GET" and request.url.endswith(f"/transfers/{transfer.id}"):
            body = json.dumps({"title": "No", "status": 404}).encode()
            return Answer(404, CaseInsensitiveDict(send().headers), body)
        return cast("Answer", send())

    def again(client: Any) -> Any:
        plan = fl.plan_withdrawal(
            client, profile_id=desk.profiles[0], fiat_account_id=desk.account, amount="4.71",
            ref_id="elsewhere-1", say=say,
        )  # fmt: skip
        return plan.submit(plan.code)

    with heard(desk, knows_not) as client:
        refuses(lambda: again(client), transfer.id, by=ActionRefused, reason="wrong_environment")


def changed_since(desk: Desk) -> None:
    """What is another than the card showed is not paid; what is paid otherwise is said."""
    profile, say = desk.profiles[0], desk.said.append

    def planned(client: Any, name: str, **more: Any) -> Any:
        given = {"amount": "4.61", "fiat_account_id": desk.account} | more
        return fl.plan_withdrawal(client, profile_id=profile, ref_id=name, say=say, **given)

    with desk.client("payer") as client:
        # a name that is there in other letters
        first = planned(client, "Since-A")
        made = first.submit(first.code)
        refuses(lambda: planned(client, "since-a", amount="4.62"), by=ActionRefused,
                reason="ref_id")  # fmt: skip
        check(planned(client, "Since-A").submit(first.code).id == made.id, "made twice")
        Virtual.now_ns += 3600 * NS
        desk.settle()
        card, now = repr(planned(client, "Since-A")), client.get_transfer(made.id).status
        entry = Journal(next(desk.journal("payer").glob("*.sqlite"))).find("Since-A")
        check(now != "PENDING" and f", {now}" in card, f"it is {now}, and its card says {card}")
        check(entry is not None and entry.status == now, f"it is {now}, and noted is {entry}")
        held = client.get_profile_balance(profile_id=profile, asset="USD")
        has, fee = Decimal(held.available.text), Decimal(made.fee.text)
        # most of the money goes elsewhere
        all_of_it = planned(client, "since-b", amount=has - fee)
        desk.plant(1)
        refuses(lambda: all_of_it.submit(all_of_it.code), f"{has - Decimal('0.01'):,.2f}",
                by=ActionRefused, reason="balance_changed")  # fmt: skip
        desk.plant(-1)
        # so much that a table is not covered any more, though each of its payments is
        rows = [{"profile_id": profile, "fiat_account_id": desk.account, "ref_id": f"since-{name}",
                 "amount": amount} for name, amount in (
                     ("d", Decimal("4.64")), ("e", has - 2 * fee - Decimal("4.64")))]  # fmt: skip
        table = fl.plan_withdrawals(client, pd.DataFrame(rows), say=say)
        desk.plant(1)
        refuses(lambda: table.submit(table.code, progress=False), "0.01 USD are missing",
                by=ActionRefused, reason="insufficient_balance")  # fmt: skip
        desk.plant(-1)
    # or that less is left than a setting wants
    floor = {"balance_floor": {"USD": str(has - fee - Decimal("4.65"))}}
    with desk.client("payer", **floor) as client:
        plan = planned(client, "since-f", amount="4.65")
        desk.plant(1)
        refuses(lambda: plan.submit(plan.code), "would be left", by=ActionRefused,
                reason="balance_floor")  # fmt: skip
        desk.plant(-1)
    named = {row.get("ref_id") for row in oracles.at_the_service(desk).values()}
    check(not named & {f"since-{name}" for name in "bdef"}, "what was refused was sent")

    def dearer(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
        """The fee is a cent more than it was."""
        found = send()
        if request.method == "POST" and "/transfer" in request.url and found.status < 300:
            row = json.loads(found.body)
            row |= {"fee": str(Decimal(row["fee"]) + Decimal("0.01")),
                    "total": str(Decimal(row["total"]) + Decimal("0.01"))}  # fmt: skip
            return Answer(found.status, found.headers, json.dumps(row).encode())
        return found  # type: ignore[no-any-return]

    with heard(desk, dearer) as client:
        plan, begun = planned(client, "since-c", amount="4.63"), len(desk.said)
        if plan.fee is not None:
            desk.altered.add("since-c")
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                plan.submit(plan.code)
            told = [text for text in desk.said[begun:] if "not as its card showed" in text]
            check(len(told) == 1, f"of a dearer payment it is said: {desk.said[begun:]}")
            kinds = [one.category.__name__ for one in warned]
            check("CardWarning" in kinds, f"of a dearer payment it is warned: {kinds}")
    with desk.client("payer") as client:
        fl.resume(client, say=say)


def updated(desk: Desk) -> None:
    """A bank account is changed, once; what was planned before is not carried out; and of a change
    whose answer was lost it is found out whether it was made."""
    say = desk.said.append
    wire = {
        "account_number": "731999000", "fiat_account_owner_address": {"country": "US"},
        "routing_details": {
            "routing_number": "021000021", "routing_number_type": "ABA",
            "bank_name": "First Harbor Bank", "bank_address": {"country": "US"},
        },
    }  # fmt: skip
    desk.secrets.add("731999000")
    with desk.client("payer") as client:

        def register(ref_id: str, **more: Any) -> Any:
            return fl.register_fiat_account(
                client, fiat_account_owner={"institution_details": {"name": "Question"}},
                fiat_network_instructions={"wire": wire | more}, ref_id=ref_id, say=say,
            )  # fmt: skip

        first = register("question-account")
        made = fl.wait_for(client, first.submit(first.code))
        check(register("question-account").submit(first.code).id == made.id, "registered twice")
        alike = [text for text in register("question-other").warnings if "ends in" in text]
        check(len(alike) == 1 and made.id in alike[0], f"of one that is there: {alike}")
        for code, warned in (("DEUTDEFF", 0), ("DEUTDEFF500", 0), ("DEUTDEFF5", 1)):
            bank = {"routing_number_type": "SWIFT", "routing_number": code, "bank_name": "First",
                    "bank_address": {"country": "US"}}  # fmt: skip
            told = register("question-swift", routing_details=bank).warnings
            count = sum("SWIFT code" in text for text in told)
            check(count == warned, f"of {code} it is said: {told}")

        with desk.client("payer", approvals=1, approval_new_account=True) as strict:
            new = fl.plan_withdrawal(
                strict, profile_id=desk.profiles[0], fiat_account_id=made.id, amount="4.81",
                ref_id="question-new", say=say,
            )  # fmt: skip
            check(
                new.needs[0] == 1 and "no payment to this account" in new.needs[1], f"{new.needs}"
            )

        def change(client: Any = client, **given: Any) -> Any:
            return fl.plan_account_update(client, made.id, say=say, **given)

        plan, later = change(metadata={"a": "1"}), change(metadata={"a": "2"})
        got = plan.submit(plan.code)
        check(dict(got.metadata or {}) == {"a": "1"}, f"changed to {got.metadata}")
        again, begun = change(metadata={"a": "1"}), len(desk.said)
        check(again.is_submitted and again.submit(again.code).id == made.id, f"{again!r}")
        told = [text for text in desk.said[begun:] if "already as asked" in text]
        check(len(told) == 1, f"of a change that was made it is said: {desk.said[begun:]}")
        owner = {"institution_details": {"name": "Question Two"}}
        both = change(fiat_account_owner=owner)
        check("Question Two" in repr(both), f"a card of a change: {both!r}")
        both.submit(both.code)
        refuses(lambda: later.submit(later.code), "has changed since the plan", "Question Two",
                by=ActionRefused, reason="account_changed")  # fmt: skip
        # which of it, where nobody sees that on its label
        desk.secrets.add("551999000")
        for number, code, said in (
            ("731999000", "011000015", "routing_number is another than it was"),
            ("551999000", "011000015", "its account number is another than it was"),
        ):  # fmt: skip
            late = change(metadata={"a": number[:1]})
            routing = wire["routing_details"] | {"routing_number": code}
            other = wire | {"account_number": number, "routing_details": routing}
            first = change(fiat_network_instructions={"wire": other})
            first.submit(first.code)
            refuses(lambda late=late: late.submit(late.code), said, by=ActionRefused,  # type: ignore[misc]
                    reason="account_changed")  # fmt: skip
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))
    for name, answer, wanted in (("a", lost, "absent"), ("b", unanswered, "done")):
        number = f"73199910{len(name + wanted)}"
        desk.secrets.add(number)
        with heard(desk, answer) as client:
            plan = fl.register_fiat_account(
                client, fiat_account_owner={"institution_details": {"name": "Question"}},
                fiat_network_instructions={"wire": wire | {"account_number": number}},
                ref_id=f"question-{name}", say=say,
            )  # fmt: skip
            try:
                plan.submit(plan.code)
            except CallError:
                check(wanted == "absent", "an account whose answer was lost is in the list")
        with desk.client("payer") as client:
            fl.resume(client, say=say)
        entry = book.find(f"question-{name}")
        check(entry is not None and entry.state == wanted, f"an account that was {wanted}: {entry}")
    for answer, value, known in ((lost, "3", False), (unanswered, "4", True)):
        with heard(desk, answer) as client:
            plan = change(client, metadata={"a": value})
            refuses(lambda plan=plan: plan.submit(plan.code), by=CallError)  # type: ignore[misc]
        with desk.client("payer") as client:
            fl.resume(client, say=say)
            (entry,) = [one for one in book.entries()
                        if one.operation == UPDATE and one.ref_id == plan.ref_id]  # fmt: skip
            wanted = "done" if known else "absent"
            check(entry.state == wanted, f"a change that was {wanted} is {entry.state}")
            now = dict(client.get_fiat_account(made.id).metadata or {})
            check((now == {"a": value}) == known, f"the account has {now}")


def _held_by_another(book: Journal, entries: list[Entry]) -> None:
    """What another program holds is waited for, for a minute, and read once it lets go."""
    sleep, began = Virtual.sleep, Virtual.now_ns
    with closing(sqlite3.connect(book.path, isolation_level=None)) as other:

        def lets_go(seconds: float) -> None:
            sleep(seconds)
            if Virtual.now_ns >= began + 30 * NS and other.in_transaction:
                other.execute("ROLLBACK")

        other.execute("BEGIN EXCLUSIVE")
        refuses(book.entries, "another program has held it for a minute", by=StoreError)
        waited = Virtual.now_ns - began
        check(60 * NS <= waited < 61 * NS, f"given up after {waited / NS} s")
        began, Virtual.sleep = Virtual.now_ns, staticmethod(lets_go)
        try:
            check(book.entries() == entries, "once it is let go, a journal is read otherwise")
        finally:
            Virtual.sleep = staticmethod(sleep)
        waited = Virtual.now_ns - began
        check(30 * NS <= waited < 31 * NS, f"read after {waited / NS} s")


def journals_damaged(desk: Desk) -> None:
    """A copy of the payer's journal that is cut, altered or another's is not read as if it were
    whole; and nothing of a block that failed stays."""
    path, store = next(desk.journal("payer").glob("*.sqlite")), desk.store()
    book, folder = Journal(path), desk.root / "broken"
    entries, service = book.entries(), book.service
    folder.mkdir()
    copied = folder / path.name
    before, os.environ["FUNDLAB_JOURNAL"] = os.environ["FUNDLAB_JOURNAL"], str(folder)

    def anew() -> Journal:
        shutil.copyfile(path, copied)
        return Journal(copied)

    def sql(*statements: str) -> None:
        anew()
        with closing(sqlite3.connect(copied, isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)

    def damaged(what: str, *said: str, by: type[FundlabError] = StoreDamaged) -> None:
        refuses(lambda: Journal(copied).entries(), *said, by=by)
        told = [*damaged_journals(store)]
        check([one for one, _ in told] == [copied], f"{what}: verify says {told}")

    try:
        check(anew().entries() == entries, "a copy is read otherwise")
        check([*damaged_journals(store)] == [], "a copy is called damaged")
        check(journal_entries(store) == entries, "the journals of a store are others")
        for who, wrong in ((None, False), ({"base_url": "https://b", "client_id": "c"}, True),
                           (service | {"client_id": "c"}, True), (service, False)):  # fmt: skip
            if wrong:
                refuses(lambda who=who: Journal(copied, who).entries(), "belongs to", by=StoreError)  # type: ignore[misc]
            else:
                copied.chmod(0o644)
                check(Journal(copied, who).entries() == entries, f"as {who} it is another")
                mode = copied.stat().st_mode & 0o777
                check(mode == (0o644 if who is None else 0o600), f"as {who} it has {mode:o}")
        _held_by_another(anew(), entries)
        content = path.read_bytes()
        for what, those, said in (
            ("cut", content[:-1], "cut short"), ("empty", b"", "is empty"),
            ("of zeros", bytes(len(content)), "not what was written"),
            ("another file", b"no journal" * 4096, "not"),
        ):  # fmt: skip
            copied.write_bytes(those)
            damaged(what, *[said][: what != "another file"])
        number = max(one.number for one in entries)
        newest = "WHERE number = (SELECT MAX(number) FROM events)"
        for what, statement in (
            ("a body", f"UPDATE intents SET body = X'7b7d' WHERE number = {number}"),
            ("a fact", f"UPDATE intents SET facts = '{{}}' WHERE number = {number}"),
            ("a state", f"UPDATE events SET state = 'done' WHERE intent = {number}"),
            ("a total", f"UPDATE events SET total = '1' {newest}"),
            ("a row less", f"DELETE FROM events {newest}"),
            ("an owner", "UPDATE about SET value = 'https://b' WHERE name = 'base_url'"),
            ("no owner", "DELETE FROM about"),
            ("no hash", "DELETE FROM about WHERE name = 'sha256'"),
        ):  # fmt: skip
            sql("PRAGMA foreign_keys = OFF", *_unguarded(copied, path), statement)
            if what == "a state" and entries[-1].state == "done":
                continue
            damaged(what)
        copied.unlink()
        copied.symlink_to(folder / "nowhere")
        refuses(lambda: Journal(copied, service), "is a link to", by=StoreError)
        copied.unlink()
        refuses(lambda: Journal(copied), by=FileNotFoundError)
        check(fl.journal(folder=folder / "none").empty, "of a folder that is not there")

        # replaced while somebody has it
        ours = anew()
        check(ours.id == book.id, "a copy is another journal")
        copied.unlink()
        made = Journal(copied, service)
        check(made.entries() == [] and made.service == service, "a new journal is not empty")
        refuses(ours.entries, "has been replaced", by=StoreDamaged)
        said = SimpleNamespace(id="made-1", status="PENDING", fee=None, total=None)
        refuses(lambda: ours.note(entries[0], "done", said), "made-1", "PENDING", by=StoreDamaged)

        ours = anew()
        whole = ours.entries()
        done = next(  # (a journal does not have what was asked for of an account, but digests)
            (o for o in whole if o.state == "done" and o.operation == WITHDRAWAL), None
        )
        if done is not None:
            again = ours.record(done.ref_id, done.operation, done.arguments, done.body, done.facts)
            check(again == done and ours.entries() == whole, "what is done was recorded again")
            tried = ours.attempt(done)
            check(tried.state == "done" and tried.sent_at > done.sent_at, f"tried again: {tried}")
        ours = anew()
        check(ours.id == book.id, "a copy is another journal")
        with ours.opened() as (opened, _):
            copied.unlink()
            Journal(copied, service)
            refuses(lambda: opened.mark_restored(None), "has been replaced", by=StoreDamaged)
        ours = anew()
        copied.unlink()
        refuses(ours.entries, "it is gone", by=StoreError)
        anew()
        with closing(sqlite3.connect(copied, isolation_level=None)) as database:
            about = dict(database.execute("SELECT name, value FROM about")) | {
                "schema_version": "9"
            }
            del about["sha256"]
            words = [word for pair in sorted(about.items()) for word in pair]
            about["sha256"] = hashlib.sha256("".join(map(ascii, words)).encode()).hexdigest()
            for name, value in about.items():
                database.execute("UPDATE about SET value = ? WHERE name = ?", (value, name))
        refuses(Journal(copied).entries, "schema '9'", by=StoreError)

        # of a block that failed nothing stays, and the next one does
        kept = [one for one in entries if one.operation == WITHDRAWAL][:1]
        for one in kept:
            ours = anew()
            given = {"operation": one.operation, "arguments": one.arguments, "body": one.body,
                     "facts": one.facts}  # fmt: skip

            def forbids(_: Journal) -> None:
                raise ActionRefused("own_limit", "no")

            with ours.opened() as (opened, _):
                refuses(lambda: opened.record("block-1", allow=forbids, **given), "no",  # noqa: B023
                        by=ActionRefused, reason="own_limit")  # fmt: skip
                new = opened.record("block-2", **given)
            names = [entry.ref_id for entry in Journal(copied).entries()[len(entries) :]]
            check(names == ["block-2"], f"after a block that failed there is {names}")
            check(ours.find("BLOCK-2") == new, "by its name in other letters")
            since = [entry.ref_id for entry in ours.sent_since(one.operation, new.sent_at)]
            check("block-2" in since, f"sent since its moment: {since}")
            # (a clock that was wrong may have written of a later moment before)
            with closing(sqlite3.connect(copied)) as database:
                ((last,),) = database.execute("SELECT MAX(at) FROM events").fetchall()
            later = ours.sent_since(one.operation, last + 1)
            check(not later, f"sent before, and shown: {later}")
            at = "2026-11-02T00:00:00.5Z"
            ours.mark_restored(at)
            check(Journal(copied).restored_from() == at, "restored, and does not say so")
            refuses(lambda: ours.record("block-3", **given), f" {at[:19]}Z,", by=ActionRefused,  # noqa: B023
                    reason="restored_journal")  # fmt: skip
            ours.mark_restored(None)
            check(Journal(copied).restored_from() is None, "asked, and still restored")
            check(not [*damaged_journals(store)], "a journal that goes on is called damaged")
    finally:
        os.environ["FUNDLAB_JOURNAL"] = before


def _unguarded(copied: Path, path: Path) -> list[str]:
    """What takes away the triggers that keep rows as they are."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    return [f"DROP TRIGGER {name}" for (name,) in rows]


# ------------------------------------------------------------------------------ differences


def accepted(desk: Desk) -> None:
    """A payment that is not as its card is a difference, until somebody says why; another one is a
    new difference. What the journal has otherwise than the service is named by its kind."""
    store, theirs = desk.store(), oracles.at_the_service(desk)
    with desk.client("payer") as client:
        store.sync(client, progress=False)
    entries = journal_entries(store)
    mine = [one for one in entries if one.operation == WITHDRAWAL and one.state == "done"
            and one.resource_id in theirs and one.facts.get("amount")]  # fmt: skip
    if not mine:
        return
    before = reconciled(store, entries)
    wrong = {(one.kind, one.ref_id) for one in before.differences}

    def kinds(some: Any, **more: Any) -> Any:
        found = reconciled(store, some, **more)
        return found, {(one.kind, one.ref_id) for one in found.differences} - wrong

    def other(one: Any, **facts: str) -> list[Any]:
        new = replace(one, facts=dict(one.facts) | facts)
        return [new if entry.number == one.number else entry for entry in entries]

    one = mine[0]
    amount = Decimal(one.facts["amount"])
    some = other(one, amount=str(amount + 1))
    found, new = kinds(some)
    check(new == {("card", one.ref_id)}, f"another amount is called {new}")
    text = found.by_ref_id()[one.ref_id]
    check(f"{amount:,.2f}" in text and f"{amount + 1:,.2f}" in text, text)
    check("payment difference" in found.headline and text in str(found), str(found))
    check(len(found.to_json()["payment_differences"]) == len(before.differences) + 1, "as JSON")
    for name in ("profile_id", "fiat_account_id"):
        _, new = kinds(other(one, **{name: "another"}))
        check(new == {("card", one.ref_id)}, f"another {name} is called {new}")
    _, new = kinds([replace(e, state="refused") if e is one else e for e in entries])
    check(new == {("moved", one.ref_id)}, f"a payment that was not refused is called {new}")
    for several in (mine[1:2], mine[1:3]) if len(mine) > 2 else ():
        those = {e.number: replace(e, resource_id=one.resource_id) for e in several}
        found, new = kinds([those.get(e.number, e) for e in entries])
        check(("shared", several[-1].ref_id) in new, f"one transfer for {several} is called {new}")
        (text,) = [str(one) for one in found.differences if one.kind == "shared"]
        names = ", ".join(e.ref_id for e in (one, *several))
        check(f"{len(several) + 1} payments of the journal ({names})" in text, text)
    debits = {id_ for id_, row in theirs.items()
              if row["direction"] == "DEBIT" and row["status"] != "FAILED"}  # fmt: skip
    found, _ = kinds([], only_own=True)
    got = {one.transfer_id for one in found.differences} - desk.vanished.keys()
    check(got == debits and not found.others, f"only own: {got ^ debits}")
    found, _ = kinds([], only_own=False)
    check(found == Reconciliation(0, (), ()), f"nobody paid, yet: {found}")
    rest = len(before.others) - 3
    check((f"and {rest} more debit" in str(before)) == (rest > 0), f"{before} of {rest + 3}")

    for who in ({"by": "", "reason": "b"}, {"by": "a", "reason": ""}):
        refuses(lambda who=who: accept_payments(store, some, **who))  # type: ignore[misc]
    refuses(lambda: accept_payments(store, some, "nobody", by="a", reason="b"), "nobody")
    done = accept_payments(store, some, one.ref_id, by="ann", reason="the bank's fee")
    check([d.ref_id for d in done] == [one.ref_id], f"{done} was accepted")
    found, new = kinds(some)
    check(not new, f"accepted, and still {new}")
    (text,) = [str(d) for d in found.accepted if d.ref_id == one.ref_id]
    check("accepted by ann on " in text and "because: the bank's fee" in text, text)
    check("1 payment difference accepted" in str(found), str(found))
    check(len(found.to_json()["accepted_differences"]) == 1, "of what was accepted")
    check("accepted" in found.headline, found.headline)
    check("accepted by ann" in found.by_ref_id()[one.ref_id], "of an accepted payment")
    _, new = kinds(other(one, amount=str(amount + 2)))
    check(new == {("card", one.ref_id)}, f"another difference is accepted, too: {new}")
    frame = fl.journal(store, folder=desk.journal("payer"))
    by_store = {e.number for e in oracles.journalled(desk, "payer") if e.store == store.name}
    check({*frame["number"]} == by_store, "the journal of a store is another")
    made = dict(zip(frame["ref_id"], frame["total"], strict=True))
    for e in mine:
        if e.store == store.name and e.status != "PENDING":
            wanted = dec(theirs[e.resource_id]["total"])
            check(made[e.ref_id] == wanted, f"{e.ref_id} came to {made[e.ref_id]}, not {wanted}")
