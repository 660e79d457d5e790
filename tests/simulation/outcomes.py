"""What becomes of a payment, whatever is answered, whoever else makes it, however it is asked for:
by the service's rows, by the journal, by what is said."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd
from requests.structures import CaseInsensitiveDict

import fundlab as fl
from fundlab.base.errors import ActionError, ActionRefused, CallError
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.payments.journal import Journal
from fundlab.payments.journal_files import copy_journal, put_back
from tests.simulation import oracles
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, dec, moment, refuses
from tests.simulation.papers import changes, heard, lost

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_HOUR: Final = 3600 * NS
_CENT: Final = Decimal("0.01")
_PROBLEM: Final = "application/problem+json"
_TRIED: Final = 5
"""Of the answers, how many each seed tries."""


class _Case(NamedTuple):
    """What is answered to a payment, and what its journal must have then if the service shows
    nothing of it: only its own words settle that nothing was made."""

    what: str
    answer: Answer | Failure
    state: str
    in_doubt: bool = True
    """Whether the error says that it may have been carried out."""


def _answer(status: int, kind: str, *, of: int | None = None, **members: Any) -> Answer:
    body = {"title": "No", "status": of or status, **members}
    text = b"<html>sorry</html>" if kind == "text/html" else json.dumps(body).encode()
    headers = {"Content-Type": kind, "Location": "https://elsewhere.example"}
    return Answer(status, CaseInsensitiveDict(headers), text)


def _cases(ref_id: str) -> list[_Case]:
    def used(of: str | None) -> Answer:
        existing = {"id": "a"} if of is None else {"id": "a", "ref_id": of}
        return _answer(409, _PROBLEM, meta={"existing": existing})

    return [
        *(_Case(f"a problem of {status}", _answer(status, _PROBLEM), "refused", in_doubt=False)
          for status in (400, 403, 404, 422)),
        _Case("a problem in JSON", _answer(422, "application/json"), "refused", in_doubt=False),
        _Case("a conflict with another's", used("another"), "refused", in_doubt=False),
        _Case("a conflict, of which nothing is said", _answer(409, _PROBLEM), "unknown",
              in_doubt=False),
        _Case("a conflict with one of no name", used(None), "unknown"),
        _Case("a conflict with its own name", used(ref_id), "unknown"),
        _Case("a conflict with its name in other letters", used(ref_id.upper()), "unknown"),
        *(_Case(f"a page of {status}", _answer(status, "text/html"), "unknown")
          for status in (302, 400, 403, 404, 409, 413, 502)),
        *(_Case(f"a problem of {status}", _answer(status, _PROBLEM), "unknown")
          for status in (408, 425, 500, 503)),
        _Case("a problem of another status", _answer(400, _PROBLEM, of=500), "unknown"),
        _Case("half of an answer", Answer(201, CaseInsensitiveDict(
            {"Content-Type": "application/json"}), b'{"id": "a'), "unknown"),
        _Case("no answer", Failure("the connection broke", sent=True), "unknown"),
        _Case("no connection", Failure("no connection", sent=False), "absent", in_doubt=False),
    ]  # fmt: skip


def answered(desk: Desk) -> None:
    """Whatever is answered to a payment: where the service has it, it is found and shown as made;
    where it has not, only the service's own refusal and a connection that was never there say so.
    One that was made and that its lists show later is found within a day of its refusal."""
    chance, say = random.Random(f"answered {desk.seed}"), desk.said.append
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))
    named = [f"answered-{number:02d}" for number in range(2 * len(_cases("")))]
    chance.shuffle(numbers := [*range(len(named))])
    late, too_late = [one for one in numbers if _cases("")[one // 2].state == "refused"][:2]
    numbers = [one for one in numbers if one not in (late, too_late)][:_TRIED]

    def state(name: str) -> str:
        entry = book.find(name)
        return "nothing" if entry is None else entry.state

    def there(name: str) -> list[str]:
        rows = oracles.at_the_service(desk).values()
        return [row["id"] for row in rows if row.get("ref_id") == name]

    def paid(number: int, *, arrives: bool, listed: bool = True) -> Any:
        """The payment of this number, to which its case is answered: what was made, or the
        error."""
        name, sent = named[number], [False]
        case = _cases(name)[number // 2]

        def answer(request: Outgoing, send: Callable[[], Any]) -> Answer | Failure:
            if changes(request):
                if arrives and not sent[0]:
                    send()
                sent[0] = True
                return case.answer
            found = send()
            if not listed and "/transfers?" in request.url and found.status == 200:
                page = json.loads(found.body)
                page["items"] = [row for row in page["items"] if row.get("ref_id") != name]
                return Answer(200, found.headers, json.dumps(page).encode())
            return found  # type: ignore[no-any-return]

        with heard(desk, answer) as client:
            plan = fl.plan_withdrawal(
                client, profile_id=desk.profiles[0], fiat_account_id=desk.account,
                amount=f"9.{20 + number}", ref_id=name, say=say,
            )  # fmt: skip
            try:
                return plan.submit(plan.code)
            except CallError as error:
                told = "may have been carried out" in str(error)
                check(told == case.in_doubt, f"{case.what} is answered, and it is said: {error}")
                check(not told or "nothing was sent" not in str(error), f"{case.what}: {error}")
                return error

    for number in numbers:
        name, case = named[number], _cases(named[number])[number // 2]
        arrives = number % 2 == 1 and case.state != "absent"
        made = paid(number, arrives=arrives)
        if arrives:
            check([getattr(made, "id", None)] == there(name), f"{case.what}, and made: {made!r}")
            check(state(name) == "done", f"{case.what}, and made: it is {state(name)}")
        else:
            check(isinstance(made, CallError), f"{case.what}, and nothing is made, yet: {made!r}")
            check(state(name) == case.state, f"{case.what}: it is {state(name)}, not {case.state}")
    with desk.client("payer") as client:
        fl.resume(client, say=say)
        for number in numbers:
            name, case = named[number], _cases(named[number])[number // 2]
            wanted = "done" if there(name) else "refused" if case.state == "refused" else "absent"
            check(state(name) == wanted, f"{case.what}, and asked for: it is {state(name)}")

    # made, refused all the same, and in no list; then the lists have it
    for number, hours in ((late, 23), (too_late, 25)):
        name = named[number]
        error = paid(number, arrives=True, listed=False)
        check(isinstance(error, CallError), f"what is refused and not listed is {error!r}")
        check((state(name), len(there(name))) == ("refused", 1), f"refused: it is {state(name)}")
        Virtual.now_ns += hours * _HOUR
        asked: list[str] = []

        def listens(request: Outgoing, send: Callable[[], Any], asked: list[str] = asked) -> Any:
            asked.append(request.url)
            return send()

        begun = len(desk.said)
        with heard(desk, listens) as client:
            fl.resume(client, say=say)
        told = [text for text in desk.said[begun:] if there(name)[0] in text]
        if hours < 24:
            check(state(name) == "done", f"made {hours} h ago and refused: it is {state(name)}")
            check(len(told) == 1 and "although it was refused" in told[0], f"{desk.said[begun:]}")
        else:
            check(not [url for url in asked if name in url], f"asked {hours} h later: {asked}")
            check(state(name) == "refused" and not told, f"{hours} h later it is {state(name)}")
            with desk.client("payer") as client:
                plan = fl.plan_withdrawal(
                    client, profile_id=desk.profiles[0], fiat_account_id=desk.account,
                    amount=f"9.{20 + number}", ref_id=name, say=say,
                )  # fmt: skip
                check([plan.submit(plan.code).id] == there(name), "refused, and paid once more")


def at_once(desk: Desk) -> None:
    """Two programs of one person carry out the same at the same moment, whichever message of the
    first the second comes in between: it is made once, and both are given it."""
    say = desk.said.append
    way = random.Random(f"at once {desk.seed}").choice(["plan", "batch"])
    for number in range(12):
        name, sent, begins = f"{way}-{number}", list[str](), [False]
        asked = {"profile_id": desk.profiles[0], "fiat_account_id": desk.account,
                 "amount": f"8.{20 + number}", "ref_id": name}  # fmt: skip
        theirs: list[Any] = []

        def between(request: Outgoing, send: Callable[[], Any], number: int = number,
                    sent: list[str] = sent, theirs: list[Any] = theirs,
                    begins: list[bool] = begins) -> Any:  # fmt: skip
            if begins[0]:
                if len(sent) == number:
                    theirs.append(other.submit(other.code))  # noqa: B023 - called at once
                sent.append(request.method)
            return send()

        with desk.client("payer") as client, heard(desk, between) as ours:
            other = fl.plan_withdrawal(client, say=lambda _: None, **asked)
            if way == "plan":
                plan = fl.plan_withdrawal(ours, say=say, **asked)
                begins[0], begun = True, len(desk.said)
                made = plan.submit(plan.code).id
            else:
                batch = fl.plan_withdrawals(ours, pd.DataFrame([asked]), say=say)
                begins[0], begun = True, len(desk.said)
                (row,) = batch.submit(batch.code, progress=False).to_dict("records")
                made = row["transfer_id"]
                check(row["state"] == "done", f"what another program made, too: {row}")
        there = [row["id"] for row in oracles.at_the_service(desk).values()
                 if row.get("ref_id") == name]  # fmt: skip
        shown = [made, *(one.id for one in theirs)]
        check(len(there) == 1 and {*shown} == {*there}, f"there is {there}, shown is {shown}")
        if not theirs:
            check(number > 2, f"a payment takes {number} messages only")
            break
        if sent[: number + 1] == ["GET"] * (number + 1):  # before this one was to be sent
            told = [text for text in desk.said[begun:] if "already" in text]
            check(len(told) == 1, f"{way} at message {number} of {sent}: {told}")


def by_total(desk: Desk) -> None:
    """A payment of what leaves the profile, its fee included: what arrives is known once it is
    made; and until then every amount up to it may be the same."""
    say, profile = desk.said.append, desk.profiles[0]
    total = Decimal("45.50")

    def plan(client: Any, ref_id: str = "total-1", **asked: Any) -> Any:
        given = asked or {"total": str(total)}
        return fl.plan_withdrawal(
            client, profile_id=profile, fiat_account_id=desk.account, ref_id=ref_id, say=say,
            **given,
        )  # fmt: skip

    def journal() -> dict[str, Any]:
        frame = fl.journal(folder=desk.journal("payer"))
        (row,) = frame[frame["ref_id"] == "total-1"].to_dict("records")
        return row  # type: ignore[no-any-return]

    def alike(client: Any, **asked: Any) -> None:
        refuses(lambda: plan(client, "total-2", **asked), by=ActionRefused, reason="duplicate")

    with heard(desk, lost) as client:
        refuses(lambda: (one := plan(client)).submit(one.code), by=CallError)
    got = journal()
    nothing = [pd.isna(got[name]) for name in ("amount", "fee", "total", "status", "resource_id")]
    check(got["state"] == "unknown" and all(nothing), f"in doubt, and the journal has {got}")
    with desk.client("payer") as client:
        for cents in (Decimal(0), Decimal(20)):
            alike(client, amount=str(total - cents))
        plan(client, "total-2", amount=str(total + _CENT))
        alike(client, total=str(total))
        plan(client, "total-2", total=str(total + _CENT))
        one = plan(client)
        made = one.submit(one.code)
        row = oracles.at_the_service(desk)[made.id]
        check(dec(row["total"]) == total, f"{total} was to be taken, and there is {row}")
        got = journal()
        for name in ("amount", "fee", "total"):
            check(got[name] == dec(row[name]), f"{name} of {row} is {got[name]} in the journal")
        amount = Decimal(row["amount"])
        alike(client, amount=str(amount))
        plan(client, "total-2", amount=str(amount + _CENT))
        alike(client, total=str(total))
    # what it took, and what was paid before, counts for the limits of the day
    strict = client.settings.is_production
    day = oracles.today()
    today = [one for one in oracles.at_the_service(desk).values() if one["created_at"][:10] == day]
    if any(one["status"] == "FAILED" for one in today):
        return
    spent = oracles.counted_today(desk, by_payer=not strict)
    for more, above in ((Decimal("3.21"), 0), (Decimal("3.20"), 1)):
        limit = {"daily_withdrawal_limit": str(spent + more)}
        with desk.client("payer", **limit) as client:
            if above:
                refuses(lambda: plan(client, "total-3", amount="3.21"), "0.01 above",
                        f"{spent:,.2f} already", by=ActionRefused, reason="own_limit")  # fmt: skip
            else:
                plan(client, "total-3", amount="3.21")
        rule = {"approvals": 1, "approval_daily_from": str(spent + more)}
        with desk.client("payer", **rule) as client:
            needs, _ = plan(client, "total-3", amount="3.20").needs
            check(needs == above, f"{spent} and 3.20 of {rule}: {needs} must approve")


def failed(desk: Desk) -> None:
    """A payment that failed moved nothing, and is shown so: it is no duplicate of the next, counts
    for no limit of the day, and is made again under another name only."""
    say, profile, amount = desk.said.append, desk.profiles[0], Decimal("12.13")  # those fail
    other = amount + 1
    day = oracles.today()

    def plan(client: Any, ref_id: str = "failed-1", amount: Decimal = amount, **more: Any) -> Any:
        return fl.plan_withdrawal(
            client, profile_id=profile, fiat_account_id=desk.account, amount=amount,
            ref_id=ref_id, say=say, **more,
        )  # fmt: skip

    with desk.client("payer") as client:

        def has() -> Decimal:
            held = client.get_profile_balance(profile_id=profile, asset="USD")
            return Decimal(held.available.text)

        before, one = has(), plan(client)
        made = fl.wait_for(client, one.submit(one.code), progress=False)
        check((made.status, has()) == ("FAILED", before), f"it is {made}, and {has()} of {before}")
        again, begun = plan(client), len(desk.said)
        check(f"{made.status}; to try again, use a ref_id of its own" in repr(again), f"{again!r}")
        check(again.submit(again.code).id == made.id, "what failed was made again")
        told = [text for text in desk.said[begun:] if "already submitted" in text]
        for text in ("but it FAILED and moved nothing", made.id, "to try again, give it a ref_id"):
            check(len(told) == 1 and text in told[0], f"of what failed it is said: {told}")
        batch = fl.plan_withdrawals(client, pd.DataFrame([{
            "profile_id": profile, "fiat_account_id": desk.account, "amount": amount,
            "ref_id": "failed-1",
        }]), say=say)  # fmt: skip
        (row,) = batch.submit(batch.code, progress=False).to_dict("records")
        got = row["state"], row["status"], row["transfer_id"]
        check(got == ("done", "FAILED", made.id), f"in a table it is {row}")
        for more in ({}, {"allow_duplicate": True}):
            warned = plan(client, "failed-2", **more).warnings
            check(not [text for text in warned if made.id in text or "FAILED" in text], f"{warned}")
        warned = plan(client, "failed-2", other).warnings
        check(not [text for text in warned if "FAILED" in text], f"it moved nothing: {warned}")
        strict = client.settings.is_production
    others = [row for row in oracles.at_the_service(desk).values() if row["status"] == "FAILED"
              and row["created_at"][:10] == day and row["id"] != made.id]  # fmt: skip
    spent = oracles.counted_today(desk, by_payer=not strict)
    for cents, above in ((Decimal(0), 0), (_CENT, 1)) if not others else ():
        limit = {"daily_withdrawal_limit": str(spent + other - cents)}
        with desk.client("payer", **limit) as client:
            if above:
                refuses(lambda: plan(client, "failed-2", other), "0.01 above",
                        by=ActionRefused, reason="own_limit")  # fmt: skip
            else:
                plan(client, "failed-2", other)


def noted(desk: Desk) -> None:
    """How what is waited for ended is in the journal, if that has it; a wait asks at least once, if
    it has any time, and ends with it."""
    say, profile = desk.said.append, desk.profiles[0]
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))
    asked = {"profile_id": profile, "fiat_account_id": desk.account}
    with desk.client("payer") as client:
        plan = fl.plan_withdrawal(client, amount="8.71", ref_id="noted-1", say=say, **asked)
        ours = plan.submit(plan.code)
        others = [
            client.create_fiat_withdrawal(amount=f"8.{cents}", asset="USD", ref_id=name, **asked)
            for cents, name in ((72, "noted-2"), (73, None))
        ]
        began = client.get_transfer(ours.id)

    for timeout, least in ((0.25, 1), (1, 1), (7, 3)):
        clock, tries = [0.0], [0]

        def sleep(seconds: float, clock: list[float] = clock) -> None:
            clock[0] += seconds

        def still(request: Outgoing, send: Callable[[], Any], tries: list[int] = tries) -> Any:
            found = send()
            if request.method != "GET" or f"/transfers/{ours.id}" not in request.url:
                return found
            tries[0] += 1
            row = json.loads(found.body) | {"status": "PENDING"}
            return Answer(200, found.headers, json.dumps(row).encode())

        with heard(desk, still) as client:
            pending = began.model_copy(update={"status": "PENDING"})
            refuses(lambda: fl.wait_for(client, pending, timeout=timeout, sleep=sleep,  # noqa: B023
                                        clock=lambda: clock[0], progress=False),  # noqa: B023
                    f"after {timeout:g} s", by=ActionError)  # fmt: skip
        check(clock[0] == timeout, f"waited {clock[0]} s of {timeout}")
        check(tries[0] >= least, f"asked {tries[0]} times in {timeout} s")

    def named(request: Outgoing, send: Callable[[], Any]) -> Any:
        """The last one is shown under the name of the first."""
        found = send()
        if request.method != "GET" or f"/transfers/{others[1].id}" not in request.url:
            return found
        row = json.loads(found.body) | {"ref_id": "noted-1"}
        return Answer(200, found.headers, json.dumps(row).encode())

    before = oracles.lines_of_journals(desk, "payer")
    with heard(desk, named) as client:
        for one in others:
            ended = fl.wait_for(client, one.model_copy(update={"status": "PENDING"}),
                                timeout=900, progress=False)  # fmt: skip
            check(ended.id == one.id and ended.status != "PENDING", f"waited for {one}: {ended}")
        after = oracles.lines_of_journals(desk, "payer")
        check(after == before, f"of what another program made is noted {after[len(before) :]}")
        ended = fl.wait_for(client, pending, timeout=900, progress=False)
    entry, now = book.find("noted-1"), oracles.at_the_service(desk)[ours.id]["status"]
    check(ended.status == now != "PENDING", f"it is {now}, and waited for until {ended.status}")
    oracles.ended(desk, "payer", ended)
    check(entry is not None and entry.resource_id == ours.id, f"{ours.id} is noted as {entry}")


# ------------------------------------------------------------------------------ journals


def came_back(desk: Desk) -> None:
    """A copy of the journal is put where a user's are, durably, for them alone, and in nobody's
    place; it pays nothing before it has said what was paid from an hour before it on."""
    path, say = next(desk.journal("payer").glob("*.sqlite")), desk.said.append
    folder, whole = desk.root / "back" / "journal", Journal(path).entries()
    copied = desk.root.with_name(path.name)
    lines = oracles.lines_of_journals(desk, "payer")
    known = {line["resource_id"] for line in lines} | {line["ref_id"] for line in lines}
    unknown = sorted(
        moment(row["created_at"]) for row in oracles.at_the_service(desk).values()
        if row["direction"] == "DEBIT" and not known & {row["id"], row.get("ref_id")}
    )  # fmt: skip
    # one of them is just within the hour, and the one before it as close as may be
    apart, newest = min((b - a, b) for a, b in pairwise(unknown) if b > a)
    before, os.environ["FUNDLAB_JOURNAL"] = os.environ["FUNDLAB_JOURNAL"], str(folder)
    try:
        for at in (newest + _HOUR, newest + _HOUR + 1):
            for one in (copied, folder / path.name):
                one.unlink(missing_ok=True)
            copy_journal(path, copied)
            text = str(fl.base.values.Instant.from_ns(at))
            told = put_back(copied, text)
            check(path.name in told and "pays nothing" in told, f"put back: {told}")
            mode = (folder / path.name).stat().st_mode & 0o777
            check(mode == 0o600, f"a journal that was put back has {mode:o}")
            there = [one.name for one in folder.iterdir()]
            check(there == [path.name], f"beside a journal that was put back is {there}")
            book = Journal(folder / path.name)
            check(book.entries() == whole and book.restored_from() == text, "put back otherwise")
            content = (folder / path.name).read_bytes()
            told = put_back(copied, text)
            check("stays" in told and (folder / path.name).read_bytes() == content, told)
            with desk.client("payer", journal=str(folder)) as client:
                plan = fl.plan_withdrawal(
                    client, profile_id=desk.profiles[0], fiat_account_id=desk.account,
                    amount="8.81", ref_id="back-1", say=say,
                )  # fmt: skip
                refuses(lambda: plan.submit(plan.code), text[:19], by=ActionRefused,  # noqa: B023
                        reason="restored_journal")  # fmt: skip
                begun = len(desk.said)
                fl.resume(client, say=say)
            with desk.schedule.aside():
                oracles.missed(desk, "back", desk.said[begun:], (at, at))
            check(book.restored_from() is None, f"after fl.resume it is of {book.restored_from()}")
            check(apart > 0, "two debits of one moment")
            (folder / path.name).unlink()  # the one that nobody asked about comes back later
            put_back(copied, str(fl.base.values.Instant.from_ns(at + _HOUR)))
            check(book.restored_from() == text, f"it came back twice: {book.restored_from()}")
    finally:
        os.environ["FUNDLAB_JOURNAL"] = before


def sandboxes(desk: Desk) -> None:
    """Where a sandbox's journal is made, those of other sandboxes with which nobody has confirmed
    anything for thirty days go; and no others."""
    folder, day = desk.root.with_name("sandboxes"), 24 * 3600
    here = {"base_url": "http://127.0.0.1:8100", "client_id": "a"}
    there = {"base_url": "https://desk.example", "client_id": "a"}
    made = {"instance": "0" * 32}
    for name, service, days, stays in (
        ("old", here | made, 31, False), ("v6", here | made | {"base_url": "http://[::1]:9"}, 40,
                                          False),
        ("young", here | made, 29, True), ("nameless", here, 31, True),
        ("real", there, 400, True), ("elsewhere", there | made, 400, True),
    ):  # fmt: skip
        Journal(folder / f"{name}.sqlite", service)
        at = (folder / f"{name}.sqlite").stat().st_mtime - days * day
        os.utime(folder / f"{name}.sqlite", (at, at))
        if stays:
            (folder / f"{name}.stays").touch()
    for name in ("damaged.sqlite", "note.txt"):
        (folder / name).write_bytes(b"no journal")
        os.utime(folder / name, (0, 0))
    before = {one.name for one in folder.glob("*.sqlite")}
    Journal(folder / "another.sqlite", there)
    now = {one.name for one in folder.glob("*.sqlite")}
    check(now == before | {"another.sqlite"}, f"of {before} there is {now}")
    new = Journal(folder / "new.sqlite", here | made)
    now = {one.name for one in folder.glob("*.sqlite")}
    stay = {f"{one.stem}.sqlite" for one in folder.glob("*.stays")}
    wanted = stay | {"another.sqlite", "damaged.sqlite", "new.sqlite"}
    check(now == wanted, f"of old sandboxes and others there is {now}, not {wanted}")
    check((folder / "note.txt").exists(), "what is no journal is removed")
    check(new.service == here | made and new.entries() == [], f"{new.service} is new")


def anchored(desk: Desk) -> None:
    """What an anchor counts is what there is by the files, and proved with it; where journals are
    not there any more, it says so."""
    store, (path,) = desk.store(), desk.journal("payer").glob("*.sqlite")
    made = store.anchor()
    lines = oracles.lines_of_journals(desk, "payer")
    wanted = {
        "records": len(oracles.recorded(desk)),
        f"journal-{Journal(path).id[:12]}-intents": len({line["intent"] for line in lines}),
        f"journal-{Journal(path).id[:12]}-events": len(lines),
    }
    got = {name: made.counts.get(name, 0) for name in wanted}
    check(got == wanted, f"an anchor counts {got}, not {wanted}")

    def named() -> set[str]:
        text = str(store.verify(anchor=made.line))
        return {name for name in (*wanted, "journal is not here") if f"{name}: " in text
                or f": {name}" in text}  # fmt: skip

    check(not named(), f"of what is there an anchor misses {named()}")
    before, os.environ["FUNDLAB_JOURNAL"] = os.environ["FUNDLAB_JOURNAL"], str(desk.root / "none")
    try:
        text = str(store.verify(anchor=made.line))
        gone = [name for name in wanted if name.startswith("journal-") and name in text]
        check(len(gone) == 2, f"without its journals a store is called {text}")
    finally:
        os.environ["FUNDLAB_JOURNAL"] = before
