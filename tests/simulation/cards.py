"""What the cards of payments show, each line of it by the service's own rows; what comes between a
plan and its payment; waits that end without an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from requests.structures import CaseInsensitiveDict

import fundlab as fl
from fundlab.base.errors import ActionError, ActionRefused, CallError
from fundlab.client.http import Answer, Failure, Outgoing
from fundlab.payments.journal import Journal
from fundlab.payments.quotes import FeeQuote
from tests.simulation import oracles
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, moment, refuses
from tests.simulation.papers import changes, heard

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_DAY: Final = 24 * 3600 * NS
_CODE: Final = re.compile("[2-9A-HJKMNP-Z]{4}-[2-9A-HJKMNP-Z]{4}")


def _money(value: Decimal, asset: str = "") -> str:
    """As people write it: two decimals, or as many as there are."""
    text = f"{value.normalize():f}"
    decimals = max(2, len(text.partition(".")[2]))
    return f"{value:,.{decimals}f} {asset}".strip()


def _account(body: dict[str, Any]) -> tuple[str, str, str, str, str]:
    """Owner, bank, number, network and status, as a card may show them."""
    details = body.get("fiat_account_owner") or {}
    person, firm = details.get("person_details") or {}, details.get("institution_details") or {}
    owner = firm.get("name") or " ".join(
        person[name] for name in ("first_name", "last_name") if person.get(name)
    )
    bank = body["fiat_network_instructions"]
    if wire := bank.get("wire"):
        routing = wire["routing_details"]
        network = f"{routing.get('routing_number_type') or ''} wire, routing"
        number = f"••••{wire['account_number'][-4:]}"
        return owner, routing["bank_name"], number, f"{network} {routing['routing_number']}", \
            body["status"]  # fmt: skip
    cubix = (bank.get("cubix") or {}).get("account_id") or bank["wallet_address"]
    return owner, "CUBIX", f"••••{cubix[-4:]}", "CUBIX", body["status"]


def shown(desk: Desk) -> None:
    """Each line of a payment's card, and the payment as a program has it."""
    theirs = oracles.at_the_service(desk)
    bodies = [
        json.loads(body) for (body,) in desk.service.database.all("SELECT body FROM fiat_accounts")
    ]
    profile, say = desk.profiles[0], desk.said.append
    mine = sorted(
        (row for row in theirs.values() if row["profile_id"] == profile
         and row.get("fiat_account_id") and row["type"].endswith("_WITHDRAWAL")),
        key=lambda row: moment(row["created_at"]), reverse=True,
    )  # fmt: skip
    # a plan looks at the newest 25, and at those of a day
    mine = [row for number, row in enumerate(mine)
            if number < 25 or moment(row["created_at"]) >= Virtual.now_ns - _DAY]  # fmt: skip
    with desk.client("payer") as client:
        has = Decimal(client.get_profile_balance(profile_id=profile, asset="USD").available.text)
        for body in bodies:
            if body["status"] != "APPROVED" or (body.get("metadata") or {}).get("account"):
                continue
            owner, bank, number, network, status = _account(body)
            to_it = [row for row in mine if row.get("fiat_account_id") == body["id"]]
            kind = "CUBIX_WITHDRAWAL" if network == "CUBIX" else "WIRE_WITHDRAWAL"
            fee = next((Decimal(row["fee"]) for row in to_it if row["type"] == kind), None)
            given = {name: body[name] for name in ("identity_id", "account_id") if body.get(name)}
            for name in ("amount", "total"):
                more = {"memo": "rent", "metadata": {"floor": "2"}} if name == "amount" else {}
                wanted = Decimal("1234.56")
                plan = fl.plan_withdrawal(
                    client, profile_id=profile, fiat_account_id=body["id"], say=say,
                    ref_id=f"card-{name}", **{name: "1234.56"}, **given, **more,  # type: ignore[arg-type]
                )  # fmt: skip
                amount = wanted if name == "amount" else wanted - (fee or 0)
                total = wanted if name == "total" else None if fee is None else wanted + fee
                rows = {
                    "From": f"profile {profile}", "To": owner, "Account": body["id"],
                    "Amount": _money(amount, "USD"),
                    "Fee": "not known" if fee is None else _money(fee, "USD"),
                    **({} if total is None else {"Total": _money(total, "USD")}),
                    "Available before": _money(has, "USD"),
                    "Available after": _money(has - (amount if total is None else total), "USD"),
                    **({"Identity": given["identity_id"]} if "identity_id" in given else {}),
                    **({"End user account": given["account_id"]} if "account_id" in given else {}),
                    **({"Memo": "rent", "Metadata floor": "2"} if more else {}),
                    "ref_id": f"card-{name}",
                }  # fmt: skip
                got = {row.label: row.value for row in plan.rows}
                check(got == rows, f"a card shows {got}, not {rows}")
                strong = {row.label for row in plan.rows if row.weight == "strong"}
                check(strong == {"To", "Amount", "Total"} & rows.keys(), f"in bold is {strong}")
                beside = {row.label: row.detail for row in plan.rows}
                check(beside["To"] == f"{bank} {number}", f"to {beside['To']}, not {bank} {number}")
                check(beside["Account"] == f"{network} · {status}", f"{network}: {beside}")
                usual = sorted({Decimal(row["fee"]) for row in mine if row["type"] == kind})
                span = " to ".join(f"{one:.2f}" for one in (*usual[:1], *usual[1:][-1:]))
                wanted_fee = f"as for the last {kind} to this account"
                if fee is None:
                    wanted_fee = "the service says it when the withdrawal is made"
                    wanted_fee = (
                        f"of late {span} USD; no {kind} to this account" if usual else wanted_fee
                    )
                check(beside["Fee"] == wanted_fee, f"of {usual} it says {beside['Fee']}")
                check((beside["Available after"] == "less the fee") == (total is None), f"{beside}")
                check(_CODE.fullmatch(plan.code), f"{plan.code} is no code")
                for more_cents in (0, 1) if fee is None and usual and name == "amount" else ():
                    most = has - usual[-1] + Decimal(more_cents) / 100
                    told = fl.plan_withdrawal(
                        client, profile_id=profile, fiat_account_id=body["id"], amount=most,
                        ref_id="card-most", say=say, **given,
                    ).warnings  # fmt: skip
                    count = sum("would not be covered" in text for text in told)
                    check(count == more_cents, f"{most} of {has}, with {usual}: {told}")
                others = [
                    row for row in to_it if row["status"] != "FAILED"
                    and Decimal(row[name]) != wanted
                    and moment(row["created_at"]) >= Virtual.now_ns - _DAY
                ]  # fmt: skip
                also = [text for text in plan.warnings if text.startswith("Also to this account")]
                check(len(also) == bool(others), f"{len(others)} of the last day, yet: {also}")
                for row in others[:3]:
                    text = f"{_money(Decimal(row[name]), 'USD')} ({row['status']})"
                    check(text in also[0], f"{text} is not in {also}")
                rest = f"and {len(others) - 3} more"
                check(not also or (rest in also[0]) == (len(others) > 3), f"{rest}: {also}")
                said = plan.to_json()
                got_json = {name: said[name] for name in ("action", "ref_id", "code", "amount")}
                check(got_json == {
                    "action": "withdrawal", "ref_id": f"card-{name}", "code": plan.code,
                    "amount": None if fee is None and name == "total" else str(amount),
                } and said["production"] == client.settings.is_production, f"{said}")  # fmt: skip
                for text in (plan.title, plan.code, owner, bank, number, network):
                    check(text in repr(plan), f"{text} is not on its card")
                until = moment(said["expires_at"]) - moment(said["planned_at"])
                check(until == 15 * 60 * NS, f"it holds for {until} ns")
                for typed in (plan.code.lower(), plan.code.replace("-", " "), f" {plan.code}"):
                    check(fl.payments.plan.same_code(typed, plan.code), f"{typed} is another code")
                check(
                    not fl.payments.plan.same_code(plan.code[1:], plan.code), "a code less a sign"
                )
            if given:
                unnamed = fl.plan_withdrawal(
                    client, profile_id=profile, fiat_account_id=body["id"], amount="7.77",
                    ref_id="card-3", say=say,
                )  # fmt: skip
                ends = sum("an end user's" in text for text in unnamed.warnings)
                check(ends == len(given), f"of {given}: {unnamed.warnings}")
            else:
                somebody = "00000000-0000-4000-8000-000000000000"
                named = fl.plan_withdrawal(
                    client, profile_id=profile, fiat_account_id=body["id"], amount="7.77",
                    identity_id=somebody, ref_id="card-4", say=say,
                )  # fmt: skip
                says = [text for text in named.warnings if "does not say it is theirs" in text]
                check(len(says) == 1 and somebody in says[0], f"{named.warnings}")
        for wrong in ("", " ", "a\nb", 7):
            refuses(lambda wrong=wrong: fl.plan_withdrawal(  # type: ignore[misc]
                client, profile_id=profile, fiat_account_id=desk.account, amount="1",
                ref_id=wrong, say=say), "ref_id=")  # fmt: skip


def between(desk: Desk) -> None:
    """Between a plan and its payment another program pays, a fee changes, the service hides what
    its lists showed, or is by another clock."""
    profile, account, say = desk.profiles[0], desk.account, desk.said.append
    asked = {"profile_id": profile, "fiat_account_id": account}
    book = Journal(next(desk.journal("payer").glob("*.sqlite")))

    def plan(client: Any, cents: int, **more: Any) -> Any:
        return fl.plan_withdrawal(
            client, amount=f"5.{cents}", ref_id=more.pop("ref_id", f"between-{cents}"), say=say,
            **asked | more,
        )  # fmt: skip

    with desk.client("payer") as client:
        # by another program, and not in the journal
        ours = plan(client, 11)
        other = client.create_fiat_withdrawal(amount="5.11", asset="USD", **asked)
        refuses(lambda: ours.submit(ours.code), other.id, by=ActionRefused, reason="duplicate")
        refuses(lambda: plan(client, 11), other.id, by=ActionRefused, reason="duplicate")
        card = repr(plan(client, 11, allow_duplicate=True))
        at = f"was submitted {str(other.created_at)[11:16]} UTC already"
        check(other.id in card and at in card, f"one that is alike: {card}")
        # by a total that comes to the same
        amount = Decimal(other.total.text)
        refuses(lambda: fl.plan_withdrawal(client, total=str(amount), ref_id="between-total",
                                           say=say, **asked),
                other.id, by=ActionRefused, reason="duplicate")  # fmt: skip
        # to an end user's account, of whom one of the two says nothing
        theirs = next(one for one in client.list_fiat_accounts()
                      if one.identity_id and one.status == "APPROVED")  # fmt: skip
        end = {"fiat_account_id": theirs.id}
        for cents, named, unnamed in (
            (21, {"identity_id": theirs.identity_id}, {}),
            (22, {}, {"identity_id": theirs.identity_id}),
        ):  # fmt: skip
            other = client.create_fiat_withdrawal(
                amount=f"5.{cents}", asset="USD", **asked | end | named
            )
            refuses(lambda: plan(client, cents, **end, **unnamed), other.id,  # noqa: B023
                    by=ActionRefused, reason="duplicate")  # fmt: skip
    # what another program took on this day counts
    if client.settings.is_production:
        day = oracles.today()
        failed = any(row["status"] == "FAILED" and row["created_at"][:10] == day
                     for row in oracles.at_the_service(desk).values())  # fmt: skip
        spent = oracles.counted_today(desk)
        limit = {"daily_withdrawal_limit": str(spent + Decimal("5.13"))}
        if not failed:
            with desk.client("payer", **limit) as client:
                ours = plan(client, 13)
                client.create_fiat_withdrawal(amount="0.01", asset="USD", **asked)
                refuses(lambda: ours.submit(ours.code), "0.01 above", by=ActionRefused,
                        reason="own_limit")  # fmt: skip

    hidden: set[str] = set()
    more_fee = [Decimal(0)]

    def lists(request: Outgoing, send: Callable[..., Any]) -> Any:
        """Rows of a list without what is hidden, and with another fee."""
        found = send()
        if request.method != "GET" or "/transfers" not in request.url or found.status != 200:
            return found
        page = json.loads(found.body)
        for row in page.get("items", [page]):
            if "items" in page:
                for name in hidden:
                    row.pop(name, None)
            if row.get("fiat_account_id") == account and more_fee[0]:
                row["fee"] = str(Decimal(row["fee"]) + more_fee[0])
                row["total"] = str(Decimal(row["total"]) + more_fee[0])
        return Answer(found.status, found.headers, json.dumps(page).encode())

    with heard(desk, lists) as client:
        ours = plan(client, 14)
        more_fee[0] = Decimal("0.25")
        if ours.fee is not None:
            was = ours.fee
            refuses(lambda: ours.submit(ours.code), f"{was:,.2f} to {was + more_fee[0]:,.2f}",
                    by=ActionRefused, reason="fee_changed")  # fmt: skip
        more_fee[0] = Decimal(0)
        check(book.find("between-14") is None, "what was refused before it was sent is recorded")

    # by a clock that is ten minutes away nobody can say what was within a day
    for minutes, told in ((10, 1), (1, 0)):

        def dated(_: Outgoing, send: Callable[..., Any], minutes: int = minutes) -> Any:
            found = send()
            at = formatdate(Virtual.now_ns // NS + minutes * 60, usegmt=True)
            found.headers["Date"] = at
            return found

        with heard(desk, dated) as client:
            ours = plan(client, 15)
            lines = [text for text in ours.unchecked if "by one clock" in text]
            check(len(lines) == told, f"{minutes} minutes apart: {ours.unchecked}")
            check(("Not checked" in repr(ours)) == bool(ours.unchecked), f"{ours!r}")
            begun = len(desk.said)
            ours.look_again()
            lines = [text for text in desk.said[begun:] if text.startswith("not checked: ")]
            check(len([one for one in lines if "by one clock" in one]) == told, f"said: {lines}")

    # an old answer that something in between gives once more
    with desk.client("payer") as client:
        first = plan(client, 16)
        made = first.submit(first.code)

    def old(request: Outgoing, send: Callable[..., Any]) -> Any:
        if changes(request):
            body = made.model_dump_json(exclude_none=True).encode()
            return Answer(201, CaseInsensitiveDict({"Content-Type": "application/json"}), body)
        return send()

    with heard(desk, old) as client:
        ours = plan(client, 17)
        try:
            found = ours.submit(ours.code)
        except CallError as error:
            check(made.id in str(error) or error.problem, f"{error}")
        else:
            check(found.id != made.id, f"{made.id} was made for another, and shown as this")
    entry = book.find("between-17")
    check(
        entry is not None and entry.state != "done", f"an old answer is taken for its own: {entry}"
    )
    with desk.client("payer") as client:
        fl.resume(client, say=say)
        again = book.find("between-17")
        check(again is not None and again.state == "absent", f"it was not made: {again}")


def many(desk: Desk) -> None:
    """Of a day on which more was paid than a plan looks at first, the earliest is found, too."""
    profile, account, say = desk.profiles[0], desk.account, desk.said.append
    asked = {"profile_id": profile, "fiat_account_id": account}
    with desk.client("payer") as client:
        made = [client.create_fiat_withdrawal(amount=f"0.{one}", asset="USD", **asked)
                for one in range(40, 67)]  # fmt: skip
        first = made[0]
        refuses(lambda: fl.plan_withdrawal(client, amount="0.40", ref_id="many-1", say=say,
                                           **asked),
                first.id, by=ActionRefused, reason="duplicate")  # fmt: skip
        late = fl.plan_withdrawal(client, amount="0.39", ref_id="many-2", say=say, **asked)
        (also,) = [text for text in late.warnings if text.startswith("Also to this account")]
        check(f"and {len(made) - 3} more" in also, f"{len(made)} were made, and it says {also}")
        fresh = {"journal": str(desk.root / "many")}
    with desk.client("payer", **fresh) as client:  # of the journal of somebody else
        again = client.create_fiat_withdrawal(amount="0.39", asset="USD", **asked)
        refuses(lambda: late.submit(late.code), again.id, by=ActionRefused, reason="duplicate")


def waited(desk: Desk) -> None:
    """What is waited for in vain, and what the wait says; a quote runs out; a deposit comes without
    its memo."""
    say = desk.said.append
    with desk.client("payer") as client:
        pending = client.create_fiat_withdrawal(
            amount="5.31", asset="USD", profile_id=desk.profiles[0], fiat_account_id=desk.account
        )

    def still(request: Outgoing, send: Callable[..., Any]) -> Any:
        """It stays as it was."""
        found = send()
        if request.method == "GET" and request.url.endswith(f"/transfers/{pending.id}"):
            row = json.loads(found.body) | {"status": "PENDING"}
            return Answer(200, found.headers, json.dumps(row).encode())
        return found

    def down(request: Outgoing, send: Callable[..., Any]) -> Any:
        gone = Failure("no connection (Connection refused)", sent=False)
        return gone if request.method == "GET" else send()

    begun = replace_status(pending)
    for answer, said in ((still, "still PENDING after 30 s"), (down, "is not known after 30 s")):
        pauses: list[float] = []
        clock = [0.0]

        def sleep(seconds: float, pauses: list[float] = pauses, clock: list[float] = clock) -> None:
            pauses.append(seconds)
            clock[0] += seconds

        with heard(desk, answer) as client:
            refuses(lambda: fl.wait_for(client, begun, timeout=30, sleep=sleep,
                                        clock=lambda: clock[0], progress=False),  # noqa: B023
                    said, pending.id, by=ActionError)  # fmt: skip
        check(clock[0] == 30, f"waited {clock[0]} s of 30")
        grows = pauses[:-1] == sorted(pauses[:-1]) and pauses[0] < pauses[-2]
        check(len(pauses) > 2 and grows, f"pauses of {pauses}")
    with desk.client("payer") as client:
        check(fl.wait_for(client, begun, timeout=900, progress=False).status != "PENDING", "ended")
        check(fl.wait_for(client, begun, timeout=0, progress=False).status != "PENDING", "0 s")
        quote = fl.quote_fee(
            client, asset="USDC", destination_address="0x" + "1" * 40, crypto_network="ETHEREUM",
            amount="2500",
        )  # fmt: skip
        fee = Decimal(quote.quote.fee.text)
        check(quote.fee == fee, f"a quote of {quote.fee}, not {fee}")
        ends = quote.quote.expires_at.ns
        now = [ends - 90 * NS]
        held = FeeQuote(quote.quote, client, lambda: now[0])
        card = repr(held)
        for text in (_money(fee, "USDC"), _money(fee + 2500, "USDC"), "1:30 more", quote.quote.id):
            check(text in card, f"{text} is not on {card}")
        check(held.seconds_left == 90, f"{held.seconds_left} s are left of 90")
        for left, text in ((725, "12:05"), (61, "1:01"), (60, "1:00"), (59, "0:59"), (1, "0:01")):
            other = repr(FeeQuote(quote.quote, client, lambda: ends - left * NS))  # noqa: B023
            check(f"for {text} more" in other, f"{left} s are left: {other}")
        slept: list[float] = []

        def passes(seconds: float) -> None:
            slept.append(seconds)
            now[0] += round(seconds * NS)

        held.watch(passes)
        check(len(slept) == 90 and set(slept) == {1.0}, f"watched for {sum(slept)} s")
        check(held.seconds_left == 0 and "has expired" in repr(held), "expired, and not said")
        now[0] = ends + NS
        check(held.seconds_left == 0, f"{held.seconds_left} s are left after its end")

        made = next(one for one in client.list_fiat_deposit_instructions() if one.memo_id)
        bare = made.model_copy(update={"memo_id": None})
        refuses(lambda: fl.find_deposits(client, bare), "no memo_id")
        later = made.model_copy(update={"memo_id": "NOBODY"})
        clock = [0.0]

        def nap(seconds: float) -> None:
            clock[0] += seconds

        refuses(lambda: fl.wait_for_deposit(client, later, timeout=20, sleep=nap,
                                            clock=lambda: clock[0], progress=False),
                "has not arrived after 20 s", "NOBODY", by=ActionError)  # fmt: skip
        if client.settings.is_production:
            refuses(lambda: fl.payments.deposits.simulate_deposit(client, made, "5000"),
                    by=ActionRefused, reason="wrong_environment")  # fmt: skip
        else:
            before = {one.id for one in fl.find_deposits(client, made)}
            fl.payments.deposits.simulate_deposit(client, made, "5.37")
            Virtual.now_ns += 3600 * NS
            found = [one for one in fl.find_deposits(client, made) if one.id not in before]
            got = [Decimal(one.amount.text) for one in found]
            check(got == [Decimal("5.37")], f"of a deposit there is {got}")
        sheet = repr(fl.deposit_sheet(client, made.model_copy(update={"status": "DEPRECATED"})))
        check("do not send money" in sheet, f"of instructions that are no longer valid: {sheet}")
        for kind, end, said in (
            ("a", {"fiat": {"fiat_account_id": desk.account}}, f"fiat account {desk.account}"),
            ("p", {"profile": {"profile_id": desk.profiles[1]}}, f"profile {desk.profiles[1]}"),
        ):
            plan = fl.plan_rule(
                client, profile_id=desk.profiles[0], source_asset="USDC", destination_asset="USD",
                source={"crypto": {"network": "BASE"}}, destination=end, nickname=f"end {kind}",
                say=say,
            )  # fmt: skip
            rows = {row.label: row.value for row in plan.rows}
            got = rows["Then goes to"], rows["Becomes"], rows["Nickname"]
            check(got == (said, "USD", f"end {kind}"), f"a rule goes {got}")
            check("a new deposit address on BASE" in rows["What arrives"], f"{rows}")


def replace_status(made: Any) -> Any:
    """``made`` as it was when it began."""
    return made.model_copy(update={"status": "PENDING"})


def together(desk: Desk) -> None:
    """A table of payments: what its card, its request and its result say; one row is refused, one
    was paid before, and the connection ends in the middle."""
    profile, say = desk.profiles[0], desk.said.append
    asked = {"profile_id": profile, "fiat_account_id": desk.account}
    folder = desk.root / "together"
    folder.mkdir()

    def table(*cents: int) -> pd.DataFrame:
        rows = [asked | {"amount": f"6.{one}", "ref_id": f"together-{one}", "invoice": f"I{one}"}
                for one in cents]  # fmt: skip
        return pd.DataFrame(rows, index=[f"r{one}" for one in cents])

    with desk.client("payer") as client:
        has = Decimal(client.get_profile_balance(profile_id=profile, asset="USD").available.text)
        batch = fl.plan_withdrawals(client, table(41, 42, 43), say=say)
        fee = batch.plans[0].fee or Decimal(0)
        amount = Decimal("6.41") + Decimal("6.42") + Decimal("6.43")
        card = repr(batch)
        for text in (f"Withdraw {_money(amount, 'USD')} in 3 payments", _money(3 * fee, "USD"),
                     _money(has, "USD"), _money(has - amount - 3 * fee, "USD"), "I41", "r42",
                     "6.43", batch.code):  # fmt: skip
            check(text in card, f"{text} is not on {card}")
        check(batch.payments.equals(table(41, 42, 43)), "the table is another")
        check(batch.expires_at - batch.planned_at == 15 * 60 * NS, "how long it holds")
        request = batch.request(folder / "a.json", why="all", by="Cas")
        names = [one["ref_id"] for one in request.arguments]
        check(names == ["together-41", "together-42", "together-43"], f"{names} is asked for")
        one = fl.plan_withdrawal(client, amount="6.42", ref_id="together-42", say=say, **asked)
        made = one.submit(one.code)
        again = fl.plan_withdrawals(client, table(41, 42, 43), say=say)
        check("1 of 3 are already submitted" in repr(again), f"one was paid: {again!r}")
        check([plan.ref_id for plan in again.open_plans] == ["together-41", "together-43"], "open")
        (total,) = again.totals
        check((total.payments, total.amount) == (2, Decimal("12.84")), f"{total} is left")

    sent = [0]

    def breaks(request: Outgoing, send: Callable[..., Any]) -> Any:
        if changes(request):
            sent[0] += 1
            if sent[0] > 1:
                return Failure("the connection broke", sent=False)
        return send()

    with heard(desk, breaks) as client:
        again = fl.plan_withdrawals(client, table(41, 42, 43), say=say)
        try:
            again.submit(again.code, progress=False)
        except CallError as error:
            told = " ".join(getattr(error, "__notes__", ()))
            check("2 of 3 payments were gone through" in f"{error} {told}", f"{error} {told}")
        else:
            check(condition=False, what="a lost connection stopped nothing")

    def refused(request: Outgoing, send: Callable[..., Any]) -> Any:
        if changes(request) and b"together-44" in (request.body or b""):
            body = json.dumps({"title": "No", "detail": "not this one", "status": 422}).encode()
            return Answer(
                422, CaseInsensitiveDict({"Content-Type": "application/problem+json"}), body
            )
        return send()

    with heard(desk, refused) as client:
        again, begun = (
            fl.plan_withdrawals(client, table(41, 42, 43, 44, 45), say=say),
            len(desk.said),
        )
        found = again.submit(again.code, progress=False)
        got = dict(zip(found.index, found["state"], strict=True))
        check(got == {"r41": "done", "r42": "done", "r43": "done", "r44": "refused", "r45": "done"},
              f"a table of which one is refused: {got}")  # fmt: skip
        check(found["transfer_id"]["r42"] == made.id, "one that was paid before is another")
        check("not this one" in found["detail"]["r44"], f"{found['detail']['r44']}")
        theirs = oracles.at_the_service(desk)
        for label in ("r41", "r43", "r45"):
            row = theirs[found["transfer_id"][label]]
            got_row = row["ref_id"], row["amount"], str(found["amount"][label])
            check(
                got_row == (found["ref_id"][label], found["amount"][label], row["amount"]), "paid"
            )
            check(found["total"][label] == oracles.dec(row["total"]), f"{label} came to another")
        text = "4 of 5 payments submitted (2 of them already before), 1 refused"
        check(any(text in line for line in desk.said[begun:]), f"{desk.said[begun:]}")
    with desk.client("payer") as client:
        fl.resume(client, say=say)


def tabled(desk: Desk) -> None:
    """The card of a table of payments, cell by cell: what they take from each balance, the first
    twelve of them, what the caller calls them, and how many are warned of."""
    profiles, say = desk.profiles[:2], desk.said.append
    amounts = [Decimal(1000 + number) / 100 for number in range(14)]
    names = [f"tabled-{'x' * 9 * (number % 3)}{number}" for number in range(14)]
    memo = "m" * 41
    with desk.client("payer") as client:
        bodies = desk.service.database.all("SELECT body FROM fiat_accounts")
        wired = [
            one for (body,) in bodies if (one := json.loads(body))["status"] == "APPROVED"
            and one["fiat_network_instructions"].get("wire")
            and not (one.get("metadata") or {}).get("account")  # registered in the run
        ]  # fmt: skip
        to = [wired[number % len(wired)] for number in range(14)]
        frame = pd.DataFrame({
            "invoice": [f"I{number}" for number in range(14)], "due": "soon", "third": "no",
            "profile_id": [profiles[number % 2] for number in range(14)],
            "fiat_account_id": [one["id"] for one in to], "amount": [*map(str, amounts)],
            "ref_id": names, "memo": [memo if number == 3 else None for number in range(14)],
        }, index=[f"r{number}" for number in range(14)])  # fmt: skip
        batch = fl.plan_withdrawals(client, frame, say=say)
        has = [Decimal(client.get_profile_balance(profile_id=one, asset="USD").available.text)
               for one in profiles]  # fmt: skip
    fees = [plan.fee for plan in batch.plans]
    for number, plan in enumerate(batch.plans):
        rows = [row for row in oracles.at_the_service(desk).values()
                if row["profile_id"] == profiles[number % 2] and row["type"] == "WIRE_WITHDRAWAL"
                and row.get("fiat_account_id") == to[number]["id"]]  # fmt: skip
        newest = max(rows, key=lambda row: moment(row["created_at"]), default=None)
        recent = newest is not None and (
            moment(newest["created_at"]) >= Virtual.now_ns - _DAY or plan.fee is not None
        )
        wanted = None if newest is None or not recent else Decimal(newest["fee"])
        check(plan.fee == wanted, f"row {number} has the fee {plan.fee}, not {wanted}")
    sums, payments = (
        [[cell.text for cell in row] for row in table.rows] for table in batch.card().tables
    )
    right = []
    for number, profile in enumerate(profiles):
        mine = range(number, 14, 2)
        known = [fee for one in mine if (fee := fees[one]) is not None]
        amount, cost = sum(amounts[one] for one in mine), sum(known, Decimal(0))
        unknown = 7 - len(known)
        right.append([
            f"{profile[:4]}…{profile[-4:]}", "7", _money(Decimal(amount), "USD"),
            _money(cost, "USD") + f" + {unknown} unknown" * bool(unknown),
            _money(has[number], "USD"),
            _money(has[number] - amount - cost, "USD") + " less those fees" * bool(unknown),
        ])  # fmt: skip
    check(sums == right, f"{sums} is taken, not {right}")
    rows = []
    for number in range(12):
        owner, bank, ending, *_ = _account(to[number])
        fee = fees[number]
        name = names[number]
        rows.append([
            f"r{number}", f"I{number}", "soon",
            name if len(name) <= 20 else f"{name[:15]}…{name[-4:]}",
            right[number % 2][0], owner, f"{bank} {ending}", _money(amounts[number], "USD"),
            "not known" if fee is None else _money(fee, "USD"),
            f"{memo[:35]}…{memo[-4:]}" if number == 3 else "", "new",
        ])  # fmt: skip
    off = [one for one in zip(payments, rows, strict=True) if one[0] != one[1]]
    check(not off, f"rows are shown, and wanted: {off}")
    heads = [name for name, _ in batch.card().tables[1].columns]
    check(heads == ["row", "invoice", "due", "ref_id", "from", "to", "account", "amount", "fee",
                    "memo", "so far"], f"the columns are {heads}")  # fmt: skip
    check("and 2 more payments" in repr(batch), f"{batch!r}")
    warned = [plan for plan in batch.plans if plan.all_warnings]
    told = [text for text in batch.card().warnings if "have warnings" in text]
    count = f"{len(warned)} payments have warnings, the first: "
    check(len(told) == bool(warned), f"{len(warned)} have warnings: {told}")
    check(not told or told[0] == count + warned[0].all_warnings[0], f"{told}")


def forms(desk: Desk) -> None:
    """The cards of what is not a payment, line by line: deposits, addresses, rules, accounts; each
    is warned of with what is wrong with it, and with nothing else."""
    profile, say = desk.profiles[0], desk.said.append

    def shows(plan: Any, action: str, title: str, *warned: str, **rows: str) -> None:
        want = {name.replace("_", " "): text for name, text in rows.items()} | {"ref_id": "form"}
        got = {row.label: row.value for row in plan.rows}
        check(got == want, f"{title}: it shows {got}, not {want}")
        check(plan.title == title, f"{plan.title} is the title of {title}")
        said = plan.to_json()
        about = [said[name] for name in ("action", "title", "ref_id", "code", "status", "base_url")]
        right = [action, title, "form", plan.code, None, plan.context.client.base_url]
        check(about == right, f"a program is told {about}, not {right}")
        for told in (said["warnings"], [*plan.card().warnings]):
            same = len(told) == len(warned)
            same &= all(one in text for one, text in zip(warned, told, strict=same))
            check(same, f"{title}: {told} is wrong with it, not {warned}")

    with desk.client("payer") as client:
        asked: dict[str, Any] = {"profile_id": profile, "ref_id": "form", "say": say}
        here = f"profile {profile}"
        for given, network in (
            ({}, "ABA wire"), ({"routing_number_type": "SWIFT"}, "SWIFT wire"),
            ({"fiat_network": "CUBIX"}, "cubix"),
        ):  # fmt: skip
            shows(
                fl.plan_deposit(client, metadata={"a": "b"}, **given, **asked),
                "deposit instructions", f"Deposit instructions for a {network} into the profile",
                Credits=here, Metadata_a="b",
            )  # fmt: skip
        shows(
            fl.plan_deposit_address(client, crypto_network="BASE", **asked), "deposit address",
            "Deposit address on BASE", "another network than BASE may be lost", Credits=here,
        )  # fmt: skip
        for source, arrives in (
            ({"crypto": {"network": "BASE"}}, "USDC at a new deposit address on BASE"),
            ({"crypto": {"network": "BASE", "address": "0xab"}}, "USDC at 0xab on BASE"),
        ):  # fmt: skip
            shows(
                fl.plan_rule(client, source_asset="USDC", destination_asset="USD", source=source,
                             **asked),
                "orchestration rule", "Convert every USDC into USD",
                "shows, changes or ends a rule", What_arrives=arrives, Becomes="USD",
                Then_goes_to=f"{here}, where it stays", Profile=profile,
            )  # fmt: skip

        # what a bank account lacks, one thing after another
        address = {"country": "US", "address1": "1 Main Street", "city": "A", "province": "NY",
                   "zip_code": "10001"}  # fmt: skip
        bank = {"routing_number": "021000021", "routing_number_type": "ABA",
                "bank_name": "First", "bank_address": address}  # fmt: skip
        swift = bank | {"routing_number_type": "SWIFT", "routing_number": "DEUTDEFF"}
        wire = {"account_number": "12345678", "fiat_account_owner_address": address,
                "routing_details": bank}  # fmt: skip
        for more, *warned in (
            ({},), ({"intermediary_routing_details": bank},), ({"routing_details": swift},),
            ({"routing_details": swift, "account_number": "DE123456789"},),
            ({"account_number": "12A456789"}, "not digits only"),
            ({"fiat_account_owner_address": {"country": "US"}},
             "The owner's address has no address1, city, province, zip_code."),
            *(({"routing_details": bank | {"bank_address": {
                one: text for one, text in address.items() if one != name
            }}}, f"The bank's address has no {name}.") for name in address if name != "country"),
            ({"intermediary_routing_details": bank | {"routing_number": "021000012"}},
             "The bank between's ABA number '021000012'"),
            ({"intermediary_routing_details": bank | {"routing_number": "02100002"}},
             "The bank between's ABA number"),
            ({"routing_details": swift | {"routing_number": "DEUTDEF"}},
             "The bank's SWIFT code 'DEUTDEF'"),
            ({"routing_details": bank | {"routing_number": "121000021"},
              "account_number": "A23456789"},
             "The bank's ABA number '121000021'", "not digits only"),
        ):  # fmt: skip
            plan = fl.register_fiat_account(
                client, fiat_account_owner={"institution_details": {"name": "Form"}},
                fiat_network_instructions={"wire": wire | more}, ref_id="form", say=say,
            )  # fmt: skip
            number = (wire | more)["account_number"]
            shows(plan, "fiat account", "Register a bank account of Form", *warned, Owner="Form",
                  Bank="First", Number=f"••••{number[-4:]}")  # fmt: skip
