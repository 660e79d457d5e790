"""What somebody asks for once a run is over, whose answer is known by hand: by the service's rows,
by the files, by an amount and the same less a cent. Nothing of it may change anything."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    NotFound,
    ProtocolError,
    StoreDamaged,
    StoreError,
)
from fundlab.client.client import Client
from fundlab.payments.identity import WITHDRAWAL
from fundlab.payments.reconciliation import reconcile
from tests.simulation import cards, edges, oracles, outcomes, papers, shelves
from tests.simulation.environment import NS, Virtual
from tests.simulation.oracles import check, dec, moment, refuses
from tests.simulation.reading import groups_of, known_by_time

if TYPE_CHECKING:
    from tests.simulation.desk import Desk

_DAY: Final = 24 * 3600 * NS
_LIST_BEHIND: Final = 15 * 60 * NS
_CENT: Final = Decimal("0.01")
_SUM: Final = Decimal("3.77")
"""What no payment of a run comes to."""


def asked(desk: Desk) -> None:
    """Of all of it what this seed draws. Raises ``Wrong``, or whatever the program must not
    raise."""
    chance = random.Random(f"questions {desk.seed}")
    chosen = {ask for ask, share in _SHARES.items() if chance.random() < share}
    store, before = desk.store(), oracles.payments(desk).copy()
    numbers = store.manifest().number, len(oracles.journalled(desk, "payer"))
    with desk.client("payer") as client:
        for ask in (payments, tables, lists, accounts):
            if ask in chosen:
                ask(desk, client)
    for ask in (usage, rows, journals):
        if ask in chosen:
            ask(desk, store)
    check(oracles.payments(desk) == before, "what was only asked for has paid")
    after = store.manifest().number, len(oracles.journalled(desk, "payer"))
    check(after == numbers, f"what was only asked for has written: {numbers}, then {after}")
    for ask in (damaged, paid, repeated):
        if ask in chosen:
            ask(desk)
    if any(desk.journal("payer").glob("*.sqlite")):
        for ask in (one for one in _LATER if one in chosen):
            Virtual.now_ns += 25 * 3600 * NS  # no payment of one is taken for another's
            desk.settle()
            ask(desk)


# ------------------------------------------------------------------------------ payments


def payments(desk: Desk, client: Client) -> None:
    """Each bound of what may be paid, from both sides; the card shows what is asked for."""
    say, profile = desk.said.append, desk.profiles[0]
    there = {
        (one.fiat_network_instructions.cubix is not None, one.status, one.identity_id): one.id
        for one in client.list_fiat_accounts()
        if one.fiat_network_instructions is not None
        and not (one.metadata or {}).get("account")  # registered in the run
    }
    cubix = there[True, "APPROVED", None]
    theirs = next(one for one in client.list_fiat_accounts() if one.identity_id)
    has = Decimal(client.get_profile_balance(profile_id=profile, asset="USD").available.text)
    fee = _last_fee(desk, cubix, "CUBIX")

    def plan(amount: Any = _SUM, settings: dict[str, Any] | None = None, **more: Any) -> Any:
        with desk.client("payer", **(settings or {})) as other:
            given = {"profile_id": profile, "fiat_account_id": cubix, "amount": amount, **more}
            return fl.plan_withdrawal(other, say=say, **given)

    def no(reason: str, *said: str, **given: Any) -> None:
        refuses(lambda: plan(**given), *said, by=ActionRefused, reason=reason)

    card = repr(plan())
    after = has - _SUM - fee
    for text in (
        f"Withdraw {_SUM} USD", cubix, f"{_SUM:,.2f} USD", f"{fee:,.2f} USD",
        f"{_SUM + fee:,.2f} USD", f"{has:,.2f} USD", f"{after:,.2f} USD",
    ):  # fmt: skip
        check(text in card, f"a card does not say {text}: {card}")
    least = has - fee
    check(f"{Decimal(0):,.2f} USD" in repr(plan(least)), "all there is cannot be paid")
    no("insufficient_balance", "0.01 USD are missing", amount=least + _CENT)
    # one that failed counts by the journal until somebody has asked, or seen, what became of it
    day = oracles.today()
    one_failed = any(
        row["status"] == "FAILED" and row["created_at"][:10] == day
        for row in oracles.at_the_service(desk).values()
    )
    by_day = oracles.counted_today(desk) + _SUM
    limits = {"withdrawal_limit": _SUM} | ({} if one_failed else {"daily_withdrawal_limit": by_day})
    for name, limit in limits.items():
        plan(settings={name: str(limit)})
        no("own_limit", "0.01 above", amount=_SUM + _CENT, settings={name: str(limit)})
    plan(settings={"balance_floor": {"USD": str(after)}})
    no("balance_floor", f"{after - _CENT:,.2f} USD would be left", amount=_SUM + _CENT,
       settings={"balance_floor": {"USD": str(after)}})  # fmt: skip
    plan(settings={"allowed_accounts": [desk.account, cubix]})
    no("own_limit", "not one of your 1 ", settings={"allowed_accounts": [theirs.id]})
    check(plan(None, total=_SUM).amount == _SUM - fee, "a total is another amount and its fee")
    if fee:
        no("amount", "does not exceed", amount=None, total=fee)
    plan(memo="m" * 40)
    no("memo", "41 characters", memo="m" * 41)
    for status in ("PENDING", "REJECTED"):
        for (_, its, _), account in there.items():
            if its == status:
                no("account_not_approved", status, fiat_account_id=account)
    ours = {"fiat_account_id": theirs.id, "identity_id": theirs.identity_id}
    plan(**ours)
    plan(fiat_account_id=theirs.id)
    somebody = "00000000-0000-4000-8000-000000000000"
    no("end_user", somebody, fiat_account_id=theirs.id, identity_id=somebody)
    no("end_user", somebody, account_id=somebody, **ours)
    no("amount", "3 decimals", amount="1.234")
    for wrong in ("0", "-1", "1,5", "abc", 1.5, True):
        refuses(lambda wrong=wrong: plan(wrong), "amount")  # type: ignore[misc]
    refuses(lambda: plan(total="1"))
    refuses(lambda: plan(None))
    refuses(lambda: plan(fiat_account_id=somebody), by=NotFound)

    # Who must approve.
    for settings, needed, told in (
        ({}, 0, ""), ({"approvals": 1}, 1, "setting approvals"),
        ({"approvals": 2, "approval_from": str(_SUM)}, 2, "setting approval_from"),
        ({"approvals": 1, "approval_from": str(_SUM + _CENT)}, 0, ""),
        ({"approvals": 1, "approval_new_account": True},
         int(not _paid_before(desk, cubix)), ""),
    ):  # fmt: skip
        count, why = plan(settings=settings).needs
        check(count == needed and told in why, f"{count} must approve by {why!r}, not {needed}")
    settings = {"approvals": 1, "approval_new_account": True}
    count, _ = plan(settings=settings, fiat_account_id=desk.account).needs
    check(count == (not _paid_before(desk, desk.account)), f"{count} must approve an old account")
    for most, needed in () if one_failed else ((by_day, 1), (by_day + _CENT, 0)):
        settings = {"approvals": 1, "approval_daily_from": str(most)}
        got, _ = plan(settings=settings).needs
        check(got == needed, f"{got} must approve {by_day} of a day, from {most} on")

    # When, and by which code; whoever is refused here would have paid.
    made = plan()
    for code in ("AAAA-AAAA", "", *([None] if client.settings.is_production else [])):
        refuses(lambda code=code: made.submit(code), by=ActionRefused, reason="code")  # type: ignore[misc]
    began = Virtual.now_ns
    for away in (15 * 60 * NS, -2 * NS):
        Virtual.now_ns = made.planned_at + away
        refuses(lambda: made.submit(made.code), by=ActionRefused, reason="expired")
    Virtual.now_ns = began


def _paid_before(desk: Desk, account: str) -> bool:
    """Whether the payer's journal has a payment to ``account`` that was made."""
    lines = oracles.lines_of_journals(desk, "payer")
    paid = [json.loads(line["body"]) for line in lines
            if line["state"] == "done" and line["operation"] == WITHDRAWAL]  # fmt: skip
    return any(body["fiat_account_id"] == account for body in paid)


def _last_fee(desk: Desk, account: str, rail: str) -> Decimal:
    """Of the newest withdrawal to ``account`` by its ``rail`` from the first profile."""
    rows = [
        row for row in oracles.at_the_service(desk).values()
        if row.get("fiat_account_id") == account and row["profile_id"] == desk.profiles[0]
        and row["type"] == f"{rail}_WITHDRAWAL"
    ]  # fmt: skip
    newest = max(rows, key=lambda row: str(row["created_at"]), default={"fee": "0"})
    return Decimal(newest["fee"])


def tables(desk: Desk, client: Client) -> None:
    """What is no table of payments, and one whose rows are in each other's way."""
    say = desk.said.append
    one = {"profile_id": desk.profiles[0], "fiat_account_id": desk.account, "amount": "3.77"}

    def plans(*rows: dict[str, Any], **more: Any) -> Any:
        return fl.plan_withdrawals(client, pd.DataFrame(list(rows)), say=say, **more)

    for what, *said in (
        ([one], "list"), (pd.DataFrame([{"amount": "1"}]), "profile_id"),
        (pd.DataFrame([one]).iloc[:0], "empty"),
        *((pd.DataFrame([one | {name: "1"}]), f"has the column {name}, which")
          for name in ("total", "allow_duplicate")),
        (pd.DataFrame([one | {"ref-id": "a"}]), "ref_id"),
        (pd.DataFrame([one | {"state": "done"}]), "state"),
        (pd.DataFrame([[*one.values(), "2"]], columns=[*one, "amount"]), "2 columns amount"),
    ):  # fmt: skip
        refuses(lambda what=what: fl.plan_withdrawals(client, what, say=say), *said)  # type: ignore[misc]
    named = [one | {"ref_id": f"table-{number}"} for number in range(2)]
    for rows, *said in (
        ([one, one], "1 of 2", "row 1: the same payment as row 0"),
        (named, "1 of 2", "like row 0"),
        ([one | {"amount": None}], "1 of 1", "amount is missing"),
        ([one | {"profile_id": 7}, one], "1 of 2", "profile_id=7"),
        ([one | {"amount": "1.234"}, one | {"amount": "0"}], "2 of 2", "row 0", "row 1"),
    ):  # fmt: skip
        refuses(lambda rows=rows: plans(*rows), *said, by=ActionRefused, reason="batch")  # type: ignore[misc]
    many = [one | {"amount": "0", "ref_id": f"many-{number}"} for number in range(12)]
    refuses(lambda: plans(*many), "12 of 12", "row 9", "and 2 more", by=ActionRefused,
            reason="batch")  # fmt: skip
    both = plans(*named, allow_duplicate=True)
    (total,) = both.totals
    there = client.get_profile_balance(profile_id=one["profile_id"], asset="USD")
    has = Decimal(there.available.text)
    fee = _last_fee(desk, desk.account, "WIRE")
    wanted = (2, 2 * _SUM, 2 * fee, has - 2 * _SUM - 2 * fee)
    got = (total.payments, total.amount, total.fees, total.after)
    check(got == wanted, f"two payments come to {got}, not {wanted}")
    half = (has - 2 * fee) / 2 + _CENT
    big = [row | {"amount": f"{half:.2f}"} for row in named]
    refuses(lambda: plans(*big, allow_duplicate=True), "are missing",
            by=ActionRefused, reason="insufficient_balance")  # fmt: skip
    refuses(lambda: both.submit("AAAA-AAAA"), by=ActionRefused, reason="code")


def accounts(desk: Desk, client: Client) -> None:
    """A change of an account is shown, and what is surely wrong with it named."""
    say = desk.said.append
    wired = next(one for one in client.list_fiat_accounts()
                 if one.fiat_network_instructions and one.fiat_network_instructions.wire
                 and one.status == "APPROVED" and not one.identity_id)  # fmt: skip

    def change(**given: Any) -> Any:
        return fl.plan_account_update(client, wired.id, say=say, **given)

    cubix = next(one.id for one in client.list_fiat_accounts()
                 if (bank := one.fiat_network_instructions) and bank.cubix)  # fmt: skip
    told = fl.plan_account_update(client, cubix, metadata={"a": "b"}, say=say).warnings
    check(len(told) == 1, f"of another note on an account it is said: {told}")
    refuses(change, "nothing is given", by=ActionRefused, reason="account_changed")
    same = change(metadata=dict(wired.metadata or {}))
    check("as asked already" in repr(same), f"nothing is to be changed, yet: {same!r}")
    address = {"country": "USA", "address1": "1 Main Street", "city": "A", "province": "NY",
               "zip_code": "10001"}  # fmt: skip
    for routing, number, warned in (
        ("021000021", "12345678", ()),
        ("021000022", "12345678", ("021000022",)),
        ("021000021", "12A45678", ("not digits only",)),
    ):
        bank = {"routing_number": routing, "routing_number_type": "ABA", "bank_name": "First",
                "bank_address": address}  # fmt: skip
        wire = {"account_number": number, "fiat_account_owner_address": address,
                "routing_details": bank}  # fmt: skip
        told = [text for text in change(fiat_network_instructions={"wire": wire}).warnings
                if "PENDING" not in text]  # fmt: skip
        right = len(told) == len(warned) and all(a in b for a, b in zip(warned, told, strict=True))
        check(right, f"of {routing} and {number} it is said: {told}")


# ------------------------------------------------------------------------------ what is loaded


def lists(desk: Desk, client: Client) -> None:
    """Every list as a notebook has it, each row of the service once; and its filters at a row."""
    theirs = oracles.at_the_service(desk)
    frame = fl.load_path(client, "/v2/transfer/transfers", limit=17)
    check(sorted(frame["id"]) == sorted(theirs), "load_path has not the transfers")
    amounts = dict(zip(frame["id"], frame["amount"], strict=True))
    for id_, row in theirs.items():
        check(amounts[id_] == dec(row["amount"]), f"{id_} is of {amounts[id_]}, not {row}")
    kinds = {name: str(frame[name].dtype) for name in ("id", "amount", "created_at")}
    wanted = {"id": "string", "amount": "decimal", "created_at": "datetime64[ns, UTC]"}
    check(kinds == wanted, f"load_path has the types {kinds}")
    refuses(lambda: fl.load_path(client, "/v2/transfer/transfers", items="rows"), "items='…'",
            by=ProtocolError)  # fmt: skip

    by_time = sorted(theirs.values(), key=lambda row: moment(row["created_at"]))
    middle = by_time[len(by_time) // 2]["created_at"]
    for since, until in ((middle, None), (None, middle)):
        found = fl.load_transfers(client, since=since, until=until)
        right = {row["id"] for row in by_time
                 if (row["created_at"] >= middle) == (since is not None)}  # fmt: skip
        check({*found["id"]} == right and len(found) == len(right), f"of {since} to {until}")
    for load, table in (
        (fl.load_fiat_accounts, "fiat_accounts"), (fl.load_events, "events"),
        (fl.load_deposit_instructions, "fiat_deposit_instructions"),
    ):  # fmt: skip
        known = {id_ for (id_,) in desk.service.database.all(f"SELECT id FROM {table}")}
        found = {*load(client)["id"]}
        check(found == known, f"{table}: not the same as at the service: {found ^ known}")
    check(fl.load_addresses(client)["id"].is_unique, "an address was loaded twice")
    profile = desk.profiles[0]
    mine = fl.load_transfers(client, profile_ids=profile)
    right = {id_ for id_, row in theirs.items() if row["profile_id"] == profile}
    check({*mine["id"]} == right, f"of one profile: {right ^ {*mine['id']}}")
    for given in (
        {"profile_ids": [profile], "assets": ["USD", "EURX"]}, {"transfers": mine, "assets": "USD"}
    ):  # fmt: skip
        (held,) = fl.load_balances(client, **given).to_dict("records")  # type: ignore[arg-type]
        there = client.get_profile_balance(profile_id=profile, asset="USD")
        got = held["profile_id"], held["asset"], held["available"], held["trading"]
        check(got == (profile, "USD", dec(there.available.text), dec(there.trading.text)),
              f"a balance is {got}, not {there}")  # fmt: skip
    all_of_them = fl.load_balances(client)
    moved = {(row["profile_id"], row["asset"]) for row in theirs.values()}
    pairs = {*zip(all_of_them["profile_id"], all_of_them["asset"], strict=True)}
    check(moved <= pairs, f"no balance of {moved - pairs}")
    refuses(lambda: fl.load_transfers(client, since=middle, created_at_gte=middle), "since")
    refuses(lambda: fl.load_transfers(client, invalid="drop"), "invalid")  # type: ignore[typeddict-item]
    refuses(lambda: fl.load_transfers(client, colour="red"), "colour")  # type: ignore[call-arg]

    for memo in client.list_fiat_deposit_instructions():
        sheet, bank = repr(fl.deposit_sheet(client, memo)), memo.fiat_network_instructions
        there = [memo.memo_id, memo.profile_id]
        if bank is not None and bank.wire is not None:
            there += [bank.wire.account_number, bank.wire.routing_details.bank_name,
                      bank.wire.routing_details.routing_number]  # fmt: skip
        elif bank is not None:
            there.append(bank.cubix.account_id if bank.cubix else bank.wallet_address)
        check(all(str(text) in sheet for text in there), f"of {there} a sheet says: {sheet}")
    quoted = {id_ for id_, row in theirs.items()
              if row.get("memo") == memo.memo_id and row["direction"] == "CREDIT"
              and row["profile_id"] == memo.profile_id}  # fmt: skip
    found = {one.id for one in fl.find_deposits(client, memo)}
    check(found <= quoted, f"with the memo there is {quoted}, not {found}")
    for wrong in (-1, "soon"):
        refuses(lambda wrong=wrong: fl.wait_for_deposit(client, memo, timeout=wrong), "timeout")  # type: ignore[misc]
    refuses(lambda: fl.wait_for(client, memo), "FiatDepositInstructions")  # type: ignore[type-var]
    done = client.get_transfer(by_time[0]["id"])
    check(fl.wait_for(client, done) is done, "a transfer that is done is waited for")


# ------------------------------------------------------------------------------ the store


def usage(desk: Desk, store: fl.Store) -> None:
    """What nobody may ask a store for, each with what is wrong in its message."""
    refuses(lambda: store.read("transfer"), "transfer")
    refuses(lambda: store.read("transfers", columns=["colour"]), "colour")
    refuses(lambda: store.read("transfers", "2026-10-01", pin="a"), "not both")
    refuses(lambda: store.read("transfers", pin="nobody's"), "nobody's")
    refuses(lambda: store.read("transfers", as_of="2020-01-01"), "knew nothing before")
    refuses(lambda: store.read("transfers", since="yesterday"), "since")
    for name in ("", "a/b", None, 7):
        refuses(lambda name=name: store.pin(name), "pin")  # type: ignore[misc]
    for name in list(store.pins())[:1]:
        refuses(lambda name=name: store.pin(name), "choose another", by=StoreError)  # type: ignore[misc]
    refuses(lambda: store.annotate("nobody", comment="a"), "nobody")
    row = store.read("transfers", columns=["id"])["id"][0]
    refuses(lambda: store.annotate(row, comment="\ud800"), "half a character")
    (desk.root / "partly").mkdir()
    (desk.root / "partly" / "balances").write_text("")  # the last of them takes no files
    refuses(lambda: store.publish(desk.root / "partly"), by=StoreError)
    there = [path.name for path in (desk.root / "partly").rglob("*") if path.is_file()]
    check(there == ["balances"], f"what cannot be published has left {there}")
    refuses(lambda: store.accept_gone(["nobody"], by="a", reason="b"), "nobody")
    refuses(lambda: store.accept_gone(by="", reason="b"), "by")
    refuses(lambda: store.accept_set_aside(by="a", reason=""), "reason")
    refuses(lambda: store.reopen("1999-01", by="a", reason="b"), "1999-01")
    refuses(lambda: store.publish(desk.root / "p", format="csv"), "csv")  # type: ignore[arg-type]
    refuses(lambda: store.publish(store.path / "p"))
    refuses(lambda: fl.Store(desk.root / "nowhere").read("transfers"), "no store", by=StoreError)
    refuses(lambda: fl.Store(next((store.path / "manifests").iterdir())), "is a file")
    reading = fl.Store(store.path, read_only=True)
    check(repr(reading) and oracles.as_read(reading) == oracles.held(store), "reading only")
    for write in (lambda: reading.pin("a"), lambda: reading.compact()):
        refuses(write, "read-only", by=StoreError)
    with desk.client("payer") as client:
        refuses(lambda: reading.sync(client, progress=False), by=StoreError)
        refuses(lambda: store.sync(client, tables=[], progress=False), "tables")
        refuses(lambda: store.sync(client, tables=["rows"], progress=False), "rows")


def rows(desk: Desk, store: fl.Store) -> None:
    """What was known at each moment that somebody noted, and a part of what is known now, at the
    time of a row; the same by SQL."""
    for at, known in desk.facts.history:
        frame = store.read("transfers", str(fl.base.values.Instant.from_ns(at)))
        found = dict(zip(frame["id"], frame["updated_at"].astype("int64"), strict=True))
        differ = dict(known.items() ^ found.items())
        check(not differ, f"of {at - Virtual.now_ns} ns ago it is read otherwise: {differ}")
    if not desk._skews:
        _as_of(store, random.Random(f"as of {desk.seed}"))
    theirs = oracles.at_the_service(desk)
    whole = store.read("transfers")
    check([*whole["created_at"]] == sorted(whole["created_at"]), "read out of order")
    middle = whole["created_at"][len(whole) // 2]
    profile = desk.profiles[0]
    for given, wanted in (
        ({"since": middle}, whole["created_at"] >= middle),
        ({"until": middle}, whole["created_at"] < middle),
        ({"profile_id": profile}, whole["profile_id"] == profile),
        ({"profile_id": desk.profiles}, whole["profile_id"].isin(desk.profiles)),
    ):
        found = [*store.read("transfers", columns=["id"], **given)["id"]]
        check(found == [*whole["id"][wanted]], f"with {given} there is {found}")
    assert isinstance(store.path, Path)
    bounds = {at for _, *both in groups_of(store.path, "transfers") for at in both}
    for at in random.Random(f"bounds {desk.seed}").sample(sorted(bounds), min(4, len(bounds))):
        text = str(fl.base.values.Instant.from_ns(at))
        for given, wanted in (
            ({"since": text}, whole["created_at"] >= text),
            ({"until": text}, whole["created_at"] < text),
        ):
            found = [*store.read("transfers", columns=["id"], **given)["id"]]
            check(found == [*whole["id"][wanted]], f"with {given} there is {found}")
    for pin in (None, *[*store.pins()][-1:]):
        count = store.current("transfers", pin=pin).count
        known = len(store.read("transfers", columns=["id"], pin=pin))
        check(count == known, f"of {known} rows at {pin} it is said that {count} are there")
    settled = store.read("transfers", settled=True)
    columns = ["id", "status", "settled_at", "updated_at"]
    for id_, status, at, changed in settled[columns].to_numpy():
        check((status == "COMPLETED") == (not pd.isna(at)), f"{id_} is {status}, settled {at}")
        if id_ in theirs and not pd.isna(at) and theirs[id_]["updated_at"] == str(changed):
            check(at <= changed, f"{id_} settled at {at}, after {changed}")
    ((count, total),) = store.scan("transfers").aggregate("COUNT(*), SUM(total)").fetchall()
    check((count, dec(str(total))) == (len(whole), whole["total"].sum()), f"by SQL {total}")
    old = store.history("transfers")
    check({*old["id"]} >= {*whole["id"]} and len(old) >= len(whole), "the history lacks rows")
    newest = old.sort_values("updated_at").groupby("id")["updated_at"].last()
    mine = whole.set_index("id")["updated_at"]
    check((newest[mine.index] >= mine).all(), "the history has no newest version")
    rows_there = desk.bucket.rows(oracles.COMPARED)
    if rows_there:
        elsewhere = desk.elsewhere("payer")
        check(oracles.as_read(elsewhere) == rows_there, "the bucket is read otherwise")
        count = elsewhere.scan("transfers").aggregate("COUNT(*)").fetchall()
        check(count == [(len(rows_there),)], f"by SQL the bucket has {count} rows")


def _as_of(store: fl.Store, chance: random.Random) -> None:
    """What was known at the very moment of some publications, and just before it."""
    assert isinstance(store.path, Path)
    known = known_by_time(store.path, "transfers")
    for number in chance.sample(range(1, len(known)), min(2, len(known) - 1)):
        for at, wanted in (known[number], (known[number][0] - 1, known[number - 1][1])):
            frame = store.read("transfers", str(fl.base.values.Instant.from_ns(at)))
            found = dict(zip(frame["id"], frame["updated_at"].astype("int64"), strict=True))
            check(
                found == wanted,
                f"as of {at} it is read otherwise: {wanted.items() ^ found.items()}",
            )


def damaged(desk: Desk) -> None:
    """A file of a copy of the store is lost, cut, or has another byte: who reads it is told."""
    chance = random.Random(f"damage {desk.seed}")
    whole = desk.store().path
    assert isinstance(whole, Path)
    newest = max((whole / "manifests").glob("????????.json"))
    tables = json.loads(newest.read_bytes())["manifest"]["files"]
    parts = [whole / table / name for table, some in sorted(tables.items()) for name, *_ in some]
    others = [whole / "head", newest, *sorted((whole / "records").glob("*.json"))[-1:]]
    kinds = ("lost", "cut", "byte")
    for kind, files in (*((kind, parts) for kind in kinds), (chance.choice(kinds), others)):
        path = chance.choice(files)
        copied = desk.root / f"damaged-{kind}-{path.name}-"
        shutil.copytree(whole, copied)
        there = copied / path.relative_to(whole)
        content = bytearray(there.read_bytes())
        if kind == "lost":
            there.unlink()
        else:
            place = chance.randrange(len(content))
            if kind == "byte":
                content[place] ^= 1 << chance.randrange(8)
            there.write_bytes(content if kind == "byte" else content[:place])
        try:
            seen = fl.Store(copied).verify()
            found, right = str(seen), seen.is_damaged
        except StoreDamaged as error:
            found, right = str(error), True
        shutil.rmtree(copied)
        if path in parts:  # a head with another number names another manifest
            named = [line for line in found.splitlines() if f"{path.name}: " in line]
            missing = any("is missing" in line for line in named)
            right = right and bool(named) and missing == (kind == "lost")
        check(right, f"{path.relative_to(whole)} is {kind}, and verify says: {found}")


# ------------------------------------------------------------------------------ the journals


def journals(desk: Desk, store: fl.Store) -> None:
    """The journal of who pays says of each payment what the service does; held against rows of
    which one is lost, another, or there twice, it says which."""
    entries = oracles.journalled(desk, "payer")
    theirs = oracles.at_the_service(desk)
    frame = fl.journal(folder=desk.journal("payer"))
    oracles.journal_shows(desk, "payer", frame)
    for row in frame.to_dict("records"):
        made = theirs.get(row["resource_id"])
        if made is None or row["state"] != "done":
            continue
        for name in ("amount", "fee", "total"):
            check(row[name] == dec(made[name]), f"the journal has {name} {row[name]} of {made}")
        check(row["asset"] == made["asset"], f"the journal has {row['asset']} of {made}")
    known = store.read("transfers")
    now = Virtual.now_ns
    paid = [one for one in entries if one.state == "done" and one.resource_id in theirs]
    payments_of_it = sum(one.operation == WITHDRAWAL for one in entries)
    doubtful = Counter(one.resource_id for one in paid)

    def kinds(some: pd.DataFrame) -> Counter[tuple[str, str | None]]:
        found = reconcile(entries, some, complete_until=now)
        check(found.entries == payments_of_it, f"{found.entries} payments of {payments_of_it}")
        return Counter((one.kind, one.ref_id) for one in found.differences)

    before = kinds(known)
    for one in paid[:1]:
        if doubtful[one.resource_id] > 1:
            continue
        at = known["id"] == one.resource_id
        for what, some in (
            ("missing", known[~at]),
            ("card", known.assign(amount=known["amount"].where(~at, known["amount"] + 1))),
            ("card", known.assign(direction=known["direction"].where(~at, "CREDIT"))),
            ("several", pd.concat([known, known[at].assign(id="another")])),
        ):
            new = kinds(some) - before
            check(new == {(what, one.ref_id): 1}, f"{what} of {one.ref_id} is called {new}")
        # a list may be so far behind, and is not called to lack it yet
        for lacks in (0, 1):
            until = one.noted_at + _LIST_BEHIND + lacks
            found = reconcile(entries, known[~at], complete_until=until)
            count = sum((d.kind, d.ref_id) == ("missing", one.ref_id) for d in found.differences)
            check(count == lacks, f"{one.ref_id} is missing until {until}: {found.differences}")
    others = reconcile([], known, complete_until=now).others
    debits = {id_ for id_, way, status in known[["id", "direction", "status"]].to_numpy()
              if way == "DEBIT" and status != "FAILED"}  # fmt: skip
    check({one.transfer_id for one in others} == debits, "what no journal knows is another")


def paid(desk: Desk) -> None:
    """One payment more, for its card's sum; for a day no other like it is made, and then one is."""
    account, profile, say = desk.account, desk.profiles[0], desk.said.append
    with desk.client("payer") as client:

        def plan(ref_id: str, **more: Any) -> Any:
            return fl.plan_withdrawal(
                client, profile_id=profile, fiat_account_id=account, amount=_SUM, ref_id=ref_id,
                say=say, **more,
            )  # fmt: skip

        one = plan("question-1")
        before = client.get_profile_balance(profile_id=profile, asset="USD").available
        made = one.submit(one.code)
        left = client.get_profile_balance(profile_id=profile, asset="USD").available
        came = Decimal(before.text) - Decimal(left.text)
        check(came == Decimal(made.total.text), f"{made} took {came}")
        check(one.submit(one.code).id == made.id, "a plan was carried out twice")
        given = {"profile_id": profile, "fiat_account_id": account, "amount": "3.88",
                 "asset": "USD", "ref_id": "question-3"}  # fmt: skip
        late = fl.plan_withdrawal(client, say=say, **given)
        other = client.create_fiat_withdrawal(**given)  # by another program, after the plan
        begun = len(desk.said)
        check(late.submit(late.code).id == other.id, "what another program made is made again")
        told = [text for text in desk.said[begun:] if "already submitted" in text]
        check(len(told) == 1, f"of what another program made it is said: {desk.said[begun:]}")
        began = Virtual.now_ns
        for after, is_one in ((NS, True), (_DAY - 60 * NS, True), (_DAY + 60 * NS, False)):
            Virtual.now_ns = began + after
            if is_one:
                refuses(lambda: plan("question-2"), made.id, by=ActionRefused,
                        reason="duplicate")  # fmt: skip
                check(made.id in repr(plan("question-2", allow_duplicate=True)),
                      "a card does not show what was paid before")  # fmt: skip
            else:
                check(made.id not in repr(plan("question-2")), "of a day before, yet on the card")
        refuses(
            lambda: fl.plan_withdrawal(client, say=say, **given | {"amount": "4.00"}),
            by=ActionRefused, reason="ref_id",
        )  # fmt: skip


def repeated(desk: Desk) -> None:
    """What is asked for again under its name is there already, and is said to be."""
    profile, say = desk.profiles[0], desk.said.append
    given: dict[str, Any] = {"profile_id": profile, "say": say}
    with desk.client("payer") as client:
        for number, plan in enumerate((
            lambda **named: fl.plan_deposit(client, **given, **named),
            lambda **named: fl.plan_deposit_address(
                client, crypto_network="SOLANA", **given, **named
            ),
            lambda **named: fl.plan_rule(
                client, source_asset="USDC", destination_asset="USD",
                source={"crypto": {"network": "BASE"}}, nickname="rule question", **given, **named
            ),
        )):  # fmt: skip
            desk.confirmed["rule question"] = Virtual.now_ns
            first = plan(ref_id=f"question-{number}-again")
            made, begun = first.submit(first.code), len(desk.said)
            again = plan(ref_id=f"question-{number}-again")
            check("already submitted" in repr(again) or again.is_submitted, f"again: {again!r}")
            check(again.submit(again.code).id == made.id, f"{made} was made again")
            told = [text for text in desk.said[begun:] if "already submitted" in text]
            check(len(told) == 1, f"of {made}, made before, it is said: {desk.said[begun:]}")


_LATER: Final[dict[Callable[[Desk], None], float]] = {
    papers.signed: 0.3, papers.changed_since: 0.3, papers.in_doubt: 0.3, papers.updated: 0.3,
    papers.unlisted: 0.3, papers.journals_damaged: 0.3, papers.accepted: 0.1,
    cards.shown: 0.3, cards.waited: 0.3, cards.between: 0.3, cards.together: 0.3, cards.many: 0.2,
    shelves.otherwise: 0.15, shelves.elsewhere: 0.1, shelves.results: 0.1, shelves.lists: 0.3,
    shelves.objects: 0.3, shelves.side_by_side: 0.15, shelves.odd: 0.1, shelves.scanned: 0.15,
    shelves.died: 0.15, shelves.later: 0.1, shelves.published: 0.2, shelves.spoilt: 0.15,
    shelves.ids: 0.3, outcomes.answered: 0.3, outcomes.at_once: 0.25,
    outcomes.by_total: 0.3, outcomes.noted: 0.3, outcomes.came_back: 0.2, outcomes.sandboxes: 0.3,
    outcomes.anchored: 0.15, outcomes.failed: 0.3, cards.tabled: 0.2, cards.forms: 0.3,
    edges.shared_out: 0.15, edges.unheard: 0.15,
    edges.undated: 0.1, edges.superseded: 0.1, edges.unpublished: 0.15,
    edges.moving: 0.15, edges.unreadable: 0.15, edges.forged: 0.15,
}  # fmt: skip
_SHARES: Final[dict[Callable[..., None], float]] = {
    payments: 0.3, tables: 0.3, lists: 0.3, accounts: 0.3, usage: 0.3, rows: 0.5, journals: 0.5,
    damaged: 0.3, paid: 0.5, repeated: 0.3, **_LATER,
}  # fmt: skip
"""Of the seeds in which each is asked: what takes long is asked in few."""
