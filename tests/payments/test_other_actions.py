"""Accounts, deposits, addresses, rules and quotes: planned, done once, said again on a rerun."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import ActionError, ActionRefused, Conflict, InvalidRequest, ProtocolError
from fundlab.cli.demo import BANK, OWNER

NUMBER = "000123456789"


def wire(number: str) -> dict[str, Any]:
    return {"wire": {**BANK["wire"], "account_number": number}}


def given(bench: Any, **more: Any) -> dict[str, Any]:
    return {"store": bench.store, "say": bench.said.append} | more


def register(bench: Any, number: str, **more: Any) -> Any:
    return fl.register_fiat_account(
        bench.client, fiat_account_owner=OWNER, fiat_network_instructions=wire(number),
        **given(bench, **more),
    )  # fmt: skip


def accounts_ending(bench: Any, ending: str) -> list[Any]:
    return [
        account
        for account in bench.client.list_fiat_accounts(page_size=1000)
        if account.fiat_network_instructions.wire is not None
        and account.fiat_network_instructions.wire.account_number.endswith(ending)
    ]


def test_an_account_is_registered_once_and_waited_for(bench: Any) -> None:
    plan = register(bench, "880000070001")
    assert "••••0001" in repr(plan)
    assert "Harbor Trading LLC" in plan._repr_html_()
    account = plan.submit(confirm=plan.code)
    assert account.status == "PENDING"
    approved = fl.wait_for(bench.client, account, sleep=bench.sandbox.clock.advance)
    assert approved.status == "APPROVED"
    again = register(bench, "880000070001").submit()
    assert (again.id, again.status) == (account.id, "APPROVED")
    assert len(accounts_ending(bench, "0001")) == 1
    assert bench.said[-1].startswith("already submitted")


def test_a_lost_answer_registers_once(bench: Any, lagging: Any) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_account")
    with pytest.raises(fl.errors.CallError):
        register(bench, "880000070002").submit()
    lagging.undo()
    bench.sandbox.faults.clear()
    assert fl.resume(bench.client)["state"].tolist() == ["done"]
    register(bench, "880000070002").submit()
    assert len(accounts_ending(bench, "0002")) == 1


def test_an_answer_that_shows_another_account_is_no_registration(
    bench: Any, lagging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Withdrawals would go to the id in it."""
    other = register(bench, "880000070008").submit().to_json()
    del other["ref_id"]
    plan = register(bench, "880000070009")
    transport = bench.client.transport
    send = transport.send
    monkeypatch.setattr(
        transport, "send", lambda call: replace(send(call), body=json.dumps(other).encode())
    )
    with pytest.raises(ProtocolError, match="something else: fiat_network_instructions differs"):
        plan.submit(confirm=plan.code)
    assert bench.journal()["state"].tolist() == ["done", "unknown"]
    monkeypatch.undo()
    assert register(bench, "880000070009").submit().id != other["id"]
    assert len(accounts_ending(bench, "0009")) == 1


def test_the_journal_keeps_no_bank_details(bench: Any) -> None:
    plan = register(bench, "880000070003")
    plan.submit()
    path = bench.journal_file()
    assert b"880000070003" not in path.read_bytes()
    assert "880000070003" not in repr(vars(plan)) + repr(plan) + plan._repr_html_()
    row = bench.journal().iloc[0]
    assert (row["action"], row["account"]) == (
        "fiat account", "Harbor Trading LLC, First Harbor Bank ••••0003",
    )  # fmt: skip


def test_an_account_that_looks_registered_is_warned_about(bench: Any) -> None:
    assert "that ends in 6789 is registered already" in repr(register(bench, NUMBER))
    plan = register(bench, "880000078123", ref_id="new-account")
    assert "registered already" not in repr(plan)
    plan.submit(confirm=plan.code)
    again = register(bench, "880000078123", ref_id="new-account")  # that is this one
    assert "registered already" not in repr(again)


def test_an_update_is_shown_beside_what_is_and_done_once(bench: Any) -> None:
    def plan() -> Any:
        return fl.plan_account_update(
            bench.client, bench.account.id, fiat_network_instructions=wire("990000000042"),
            **given(bench),
        )  # fmt: skip

    first = plan()
    assert "••••6789" in repr(first)
    assert "••••0042" in repr(first)
    assert "goes back to PENDING" in repr(first)
    assert first.submit(confirm=first.code).status == "PENDING"
    bench.sandbox.clock.advance(11)
    assert plan().submit().status == "APPROVED"  # left alone: not reviewed a second time
    assert bench.said[-1].startswith("already as asked")
    back = fl.plan_account_update(
        bench.client, bench.account.id, fiat_network_instructions=wire(NUMBER), **given(bench)
    )
    back.submit()
    assert plan().submit().status == "PENDING"  # there, back and there again is three changes


def test_an_update_of_a_part_shows_the_account_that_it_leads_to(bench: Any) -> None:
    def plan(**part: Any) -> Any:
        return fl.plan_account_update(
            bench.client, bench.account.id, fiat_network_instructions={"wire": part},
            **given(bench),
        )  # fmt: skip

    bank = {
        "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "Between",
        "bank_address": {"country": "US"},
    }  # fmt: skip
    for part, label in (
        ({"routing_details": {"bank_name": "Renamed"}}, f"Renamed ••••{NUMBER[-4:]}"),
        ({"intermediary_routing_details": bank}, f"Renamed ••••{NUMBER[-4:]}"),  # not there yet
    ):
        planned = plan(**part)
        assert planned.facts["account"].endswith(label)
        assert planned.submit(confirm=planned.code).status == "PENDING"
        bench.sandbox.clock.advance(11)
        assert plan(**part).submit().status == "APPROVED"  # as asked already
    now = bench.client.get_fiat_account(bench.account.id).fiat_network_instructions.wire
    assert (now.account_number, now.intermediary_routing_details.bank_name) == (NUMBER, "Between")


def test_an_update_of_an_account_changed_since_is_refused(bench: Any) -> None:
    plan = fl.plan_account_update(
        bench.client, bench.account.id, fiat_network_instructions=wire("990000000043"),
        **given(bench),
    )  # fmt: skip
    bench.client.update_fiat_account(
        bench.account.id, fiat_network_instructions=wire("990000000044")
    )
    with pytest.raises(ActionRefused, match=r"it is .*0044; nothing was sent: ask who changed it"):
        plan.submit(confirm=plan.code)
    with pytest.raises(ActionRefused, match="nothing is given to change"):
        fl.plan_account_update(bench.client, bench.account.id, **given(bench))


def test_a_deposit_from_instructions_to_arrival(bench: Any) -> None:
    plan = fl.plan_deposit(bench.client, profile_id=bench.profile_id, **given(bench))
    instructions = plan.submit(confirm=plan.code)
    assert fl.plan_deposit(
        bench.client, profile_id=bench.profile_id, **given(bench)
    ).submit().id == (instructions.id)
    sheet = fl.deposit_sheet(bench.client, instructions)
    for shown in (repr(sheet), sheet._repr_html_()):
        assert instructions.memo_id in shown
        assert "021000021" in shown
        assert "Beneficiary" in shown
    unowned = instructions.model_copy(update={"fiat_account_owner": None})
    assert "Beneficiary" not in repr(fl.deposit_sheet(bench.client, unowned))
    assert fl.find_deposits(bench.client, instructions) == []
    with pytest.raises(InvalidRequest, match=r"have no memo_id, by which deposits are recognised"):
        fl.find_deposits(bench.client, instructions.model_copy(update={"memo_id": None}))
    with pytest.raises(ActionError, match=r"has not arrived after 2 s; nothing is lost"):
        fl.wait_for_deposit(
            bench.client, instructions, timeout=2.0, clock=ticking(), sleep=lambda seconds: None
        )
    before = bench.available()
    fl.simulate_deposit(bench.client, instructions, "12.34")
    bench.sandbox.faults.add("status", "list_transfers", status=503, count=6)  # a whole call's
    arrived = fl.wait_for_deposit(
        bench.client, instructions, sleep=bench.sandbox.clock.advance, progress=False
    )
    assert (arrived.status, arrived.amount, arrived.memo) == (
        "COMPLETED", Decimal("12.34"), instructions.memo_id,
    )  # fmt: skip
    assert bench.available() - before == Decimal("12.34")


def ticking() -> Callable[[], float]:
    seconds = iter(range(1000))
    return lambda: float(next(seconds))


def test_a_simulated_deposit_is_refused_in_production_before_sending(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = fl.plan_deposit(bench.client, profile_id=bench.profile_id, **given(bench))
    instructions = plan.submit()
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)
    sent = len(bench.sandbox.requests())
    with pytest.raises(ActionRefused, match="production, where deposits cannot be simulated"):
        fl.simulate_deposit(bench.client, instructions, "5")
    assert len(bench.sandbox.requests()) == sent


def test_a_deposit_address_is_made_once(bench: Any) -> None:
    def plan() -> Any:
        return fl.plan_deposit_address(
            bench.client, profile_id=bench.profile_id, crypto_network="SOLANA", **given(bench)
        )

    first = plan().submit()
    again = plan()
    assert again.is_submitted
    assert again.submit().address == first.address
    bench.sandbox.faults.add("lost", "create_deposit_address")
    other = fl.plan_deposit_address(
        bench.client, profile_id=bench.profile_id, crypto_network="BASE", **given(bench)
    )
    with pytest.raises(fl.errors.CallError):
        other.submit()
    bench.sandbox.faults.clear()
    assert fl.resume(bench.client)["state"].tolist() == ["done"]


def test_a_rule_says_what_becomes_what_and_is_made_once(bench: Any) -> None:
    address = fl.plan_deposit_address(
        bench.client, profile_id=bench.profile_id, crypto_network="ETHEREUM", **given(bench)
    ).submit()

    def plan(into: str = "USD") -> Any:
        return fl.plan_rule(
            bench.client, profile_id=bench.profile_id, source_asset="USDC", destination_asset=into,
            source={"crypto": {"address_id": address.id, "network": "ETHEREUM"}}, **given(bench),
        )  # fmt: skip

    shown = repr(plan())
    assert "Convert every USDC into USD" in shown
    assert f"USDC at {address.id} on ETHEREUM" in shown
    rule = plan().submit()
    assert plan().submit().id == rule.id
    assert bench.said[-1].startswith("already submitted")
    with pytest.raises(Conflict):
        plan("PYUSD").submit()
    assert bench.journal()["state"].tolist() == ["done", "done", "refused"]
    with pytest.raises(InvalidRequest, match="must differ"):
        plan("USDC")


def test_a_quote_counts_down(bench: Any) -> None:
    quote = fl.quote_fee(
        bench.client, asset="USDC", destination_address="0x" + "1" * 40,
        crypto_network="ETHEREUM", amount="100",
    )  # fmt: skip
    assert 290 < quote.seconds_left <= 300, "by the sandbox's business time, which is another day's"
    expires = quote.quote.expires_at
    assert expires is not None
    held = fl.actions.FeeQuote(quote.quote, quote.client, lambda: expires.ns - 299 * 10**9)
    assert "holds for 4:59 more" in repr(held)
    assert "3.00 USDC" in held._repr_html_()
    times = [expires.ns - 2 * 10**9]
    watched = fl.actions.FeeQuote(quote.quote, quote.client, lambda: times[0])
    watched.watch(sleep=lambda seconds: times.__setitem__(0, times[0] + round(seconds * 10**9)))
    assert watched.seconds_left == 0
    assert "It has expired: ask for another." in repr(watched)


def test_an_account_changed_there_and_back_is_changed_every_time(bench: Any) -> None:
    """Neither the bank details nor the metadata are taken for done because they once were."""
    numbers = ["990000000052", NUMBER, "990000000052", NUMBER]
    for change in [{"fiat_network_instructions": wire(number)} for number in numbers]:
        plan = fl.plan_account_update(bench.client, bench.account.id, **change, **given(bench))
        plan.submit(confirm=plan.code)
        bench.sandbox.clock.advance(11)
        now = bench.client.get_fiat_account(bench.account.id).fiat_network_instructions.wire
        assert (
            now.account_number[-4:]
            == change["fiat_network_instructions"]["wire"]["account_number"][-4:]
        )
    for number in ("1", "2", "1", "2"):
        fl.plan_account_update(
            bench.client, bench.account.id, metadata={"seen": number}, **given(bench)
        ).submit()
        assert bench.client.get_fiat_account(bench.account.id).metadata == {"seen": number}
    assert [line for line in bench.said if line.startswith("already")] == []
    assert bench.journal()["state"].tolist() == ["done"] * 8


def test_a_change_needs_no_time_stamp_to_be_made_again(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = bench.client.get_fiat_account

    def timeless(fiat_account_id: str) -> Any:
        return get(fiat_account_id).model_copy(update={"updated_at": None})

    monkeypatch.setattr(bench.client, "get_fiat_account", timeless)
    for number in ("990000000062", NUMBER, "990000000062", NUMBER):
        fl.plan_account_update(
            bench.client, bench.account.id, fiat_network_instructions=wire(number), **given(bench)
        ).submit()
        bench.sandbox.clock.advance(11)
        shown = get(bench.account.id).fiat_network_instructions.wire.account_number
        assert shown[-4:] == number[-4:]


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        ({"routing_number": "abc"}, "The bank's ABA number 'abc' is not one: nine digits"),
        ({"routing_number": "021000022"}, "The bank's ABA number '021000022' is not one"),
        ({"routing_number": "021000021"}, None),
        ({"routing_number": "011401533"}, None),  # of two other banks
        ({"routing_number": "121000358"}, None),
        ({"routing_number_type": "SWIFT", "routing_number": "DEUTDEFF"}, None),
        ({"routing_number_type": "SWIFT", "routing_number": "DEUTDEFF500"}, None),
        ({"routing_number_type": "SWIFT", "routing_number": "DEUTDEF"}, "SWIFT code 'DEUTDEF' is"),
        ({"routing_number_type": "SWIFT", "routing_number": "D3UTDEFF"}, "SWIFT code 'D3UTDEFF'"),
        ({"bank_address": {"country": "US"}},
         "The bank's address has no address1, city, province, zip_code."),
        ({"account_number": "DE89"}, "The account number is not digits only"),
        ({"account_number": "é1"}, "The account number is not digits only"),
        ({"fiat_account_owner_address": {"country": "US", "city": "Ulm", "zip_code": "1",
                                         "province": "x"}},
         "The owner's address has no address1."),
    ],
)  # fmt: skip
def test_what_is_allowed_but_surely_wrong_is_a_warning_on_the_card(
    bench: Any, change: dict[str, Any], warning: str | None
) -> None:
    address = {
        "country": "US", "address1": "1 Main St", "city": "Ulm", "province": "x", "zip_code": "1",
    }  # fmt: skip
    routing = {
        "routing_number_type": "ABA", "routing_number": "021000021", "bank_name": "Bank",
        "bank_address": address,
    }  # fmt: skip
    wire = {
        "account_number": "4000123", "fiat_account_owner_address": address,
        "routing_details": routing,
    }  # fmt: skip
    for name, value in change.items():
        (wire if name in wire else routing)[name] = value
    plan = fl.register_fiat_account(
        bench.client, fiat_account_owner={"institution_details": {"name": "New Trading Ltd"}},
        fiat_network_instructions={"wire": wire}, **given(bench),
    )  # fmt: skip
    if warning is None:
        assert plan.warnings == ()
    else:
        assert len(plan.warnings) == 1
        assert warning in plan.warnings[0]
        assert warning in str(plan)
