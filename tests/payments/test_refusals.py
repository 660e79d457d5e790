"""Every refusal: nothing is sent, and one sentence says what to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from benches import approved_account

import fundlab as fl
from fundlab.base.errors import ActionRefused, InvalidRequest, NotFound, StoreError
from fundlab.base.exact import EXACT
from fundlab.base.values import Amount
from fundlab.cli.demo import BANK, OWNER
from fundlab.client.client import Client
from fundlab.client.transport import Environment
from fundlab.payments.actions import WithdrawalPlan
from fundlab.payments.plan import check_expiry

MINUTE = 60 * 1_000_000_000
HOUR = 60 * MINUTE


def refused(reason: str, match: str) -> Any:
    class Check:
        def __enter__(self) -> Any:
            self.context = pytest.raises(ActionRefused, match=match)
            self.found = self.context.__enter__()
            return self.found

        def __exit__(self, *error: Any) -> bool:
            ended = self.context.__exit__(*error)
            assert self.found.value.reason == reason
            assert "nothing was sent" in str(self.found.value)
            return bool(ended)

    return Check()


@pytest.fixture(autouse=True)
def nothing_is_sent(bench: Any, request: Any) -> Any:
    yield
    assert "paid" in request.node.name or bench.made() == []


def test_an_account_that_is_not_approved(bench: Any) -> None:
    pending = bench.client.create_fiat_account(
        fiat_account_owner=OWNER, fiat_network_instructions=BANK
    )
    with refused(
        "account_not_approved", r"is PENDING, not APPROVED.*wait for its review \('fundlab acc"
    ):
        bench.plan(fiat_account_id=pending.id)
    wire = BANK["wire"]
    routing = wire["routing_details"] | {"routing_number": "000000000"}
    bad = {"wire": wire | {"routing_details": routing}}
    rejected = approved_account(bench.sandbox, bench.client, fiat_network_instructions=bad)
    with refused("account_not_approved", r"is REJECTED.*register another account"):
        bench.plan(fiat_account_id=rejected.id)


def test_an_insufficient_balance_with_the_gap(bench: Any) -> None:
    available = bench.available()
    gap = Decimal("10.50")
    with refused("insufficient_balance", rf"{gap} USD are missing.*pay less, or fund the profile"):
        bench.plan(str(EXACT.add(available, gap)))


def test_an_insufficient_balance_counts_the_fee_that_is_known_paid(bench: Any) -> None:
    bench.pay("1.00")
    available = bench.available()
    with refused("insufficient_balance", r"with its fee of 25\.00 needs .* 25\.00 USD are missing"):
        bench.plan(str(available))


def test_the_own_limit_of_one_withdrawal(bench: Any, new_bench: Callable[..., Any]) -> None:
    limited = new_bench(withdrawal_limit="500.00")
    assert limited.plan("500.00").amount == Decimal(500)
    with refused("own_limit", r"0\.01 above your limit of 500\.00.*change the setting"):
        limited.plan("500.01")


def test_the_own_limit_of_a_day_paid(bench: Any, new_bench: Callable[..., Any]) -> None:
    limited = new_bench(daily_withdrawal_limit="100")
    limited.pay("60.00")
    with refused("own_limit", r"with the 60\.00 already withdrawn today .* 0\.01 above"):
        limited.plan("40.01")
    late = limited.plan("40.00")
    limited.pay("30.00")
    with pytest.raises(ActionRefused):
        late.submit()
    assert sorted(t.amount for t in limited.made()) == [Decimal(30), Decimal(60)]
    limited.sandbox.clock.advance(6)
    assert limited.pay("60.00").status == "COMPLETED"  # a rerun is no second payment


def test_a_daily_limit_holds_between_the_plan_and_its_record(new_bench: Callable[..., Any]) -> None:
    """Two plans that fit one by one; the second is refused in the journal's transaction."""
    limited = new_bench(daily_withdrawal_limit="100")
    first, second = limited.plan("60.00"), limited.plan("50.00")
    limited.pay("60.00")
    assert first.submit().amount == Decimal(60)
    with pytest.raises(ActionRefused) as refusal:
        second.check_journal(second.context.journal)
    assert refusal.value.reason == "own_limit"


def test_an_account_that_is_not_on_the_own_list(bench: Any, new_bench: Callable[..., Any]) -> None:
    limited = new_bench(allowed_accounts="one,two")
    with refused(
        "own_limit", r"is not one of your 2 allowed accounts.*pay one of those, or add it"
    ):
        limited.plan()


def test_a_lapsed_plan(bench: Any) -> None:
    times = [1_800_000_000 * 1_000_000_000]
    plan = bench.plan(now=lambda: times[0])
    times[0] += 15 * MINUTE - 1
    check_expiry(plan.context, plan.planned_at)
    times[0] += 1
    with refused("expired", r"expired at 08:15 UTC; .*run the cell that plans again"):
        plan.submit(confirm=plan.code)


@pytest.fixture
def available(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What the service says is available from now on."""
    ask = bench.client.get_profile_balance

    def show(amount: str) -> None:
        def shown(**given: Any) -> Any:
            return ask(**given).model_copy(update={"available": Amount(amount)})

        monkeypatch.setattr(bench.client, "get_profile_balance", shown)

    return show


def test_a_balance_that_no_longer_covers_the_plan(bench: Any, available: Any) -> None:
    available("60.00")
    assert bench.plan("60.00").available == 60
    available("100.00")
    plan = bench.plan("60.00")
    available("59.99")
    with refused("balance_changed", r"from 100.00 to 59.99 USD: .*needs 60.*plans again"):
        plan.submit(confirm=plan.code)


def test_amounts_in_a_refusal_have_their_separators_and_the_profile_its_name(
    bench: Any,
    available: Any,
    new_bench: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    available("1234.50")
    gap = (
        r"amount=100,000,000,039\.00 needs 100,000,000,039\.00 USD, but profile Payer · \S+ has "
        r"1,234\.50 available: 99,999,998,804\.50 USD"
    )
    names = {bench.sandbox.profile_ids[0]: "Payer"}
    monkeypatch.setattr("fundlab.settings.labels.OF_THE_SAMPLE", names)
    with refused("insufficient_balance", gap):
        bench.plan("100000000039.00")
    object.__setattr__(bench.client.settings, "balance_floor", {"USD": Decimal(1200)})
    of_total = r"^1,199\.50 USD would be left .* your floor of 1,200\.00"
    with refused("balance_floor", of_total):
        bench.plan(None, total="35.00")
    of_one = r"is 1,500\.01 above your limit of 1,000\.00"
    of_day = r"2,500\.01 with the 0\.00 already .* is 1,400\.01 above your daily limit of 1,100\.00"
    for name, limit, said in (
        ("withdrawal_limit", "1000", of_one), ("daily_withdrawal_limit", "1100", of_day)
    ):  # fmt: skip
        with refused("own_limit", said):
            new_bench(**{name: limit}).plan("2500.01")


def test_a_payment_that_the_service_let_fail_is_not_counted_as_paid(bench: Any) -> None:
    object.__setattr__(bench.client.settings, "daily_withdrawal_limit", Decimal(100))
    paid = bench.pay("70.13")
    with refused(
        "own_limit", rf"not known to be settled, .* ref_id {paid.ref_id}: 'fundlab resume"
    ):
        bench.plan("40.00")
    bench.sandbox.clock.advance(6)
    plan = bench.plan("40.00")
    assert plan.submit(confirm=plan.code).amount == 40


@pytest.mark.parametrize("left", ["99.99", "60.00"])
def test_a_balance_that_fell_and_still_covers_it_is_paid(
    bench: Any, available: Any, left: str
) -> None:
    available("100.00")
    plan = bench.plan("60.00")
    available(left)
    assert plan.submit(confirm=plan.code).amount == 60


def test_a_row_that_another_kernel_paid_needs_no_balance(bench: Any, available: Any) -> None:
    asked = {"profile_id": bench.profile_id, "fiat_account_id": bench.account.id}
    rows = pd.DataFrame([{**asked, "amount": "60.00", "ref_id": "a"},
                         {**asked, "amount": "30.00", "ref_id": "b"}])  # fmt: skip
    available("100.00")
    plans = fl.plan_withdrawals(bench.client, rows, say=bench.said.append)
    bench.pay("60.00", ref_id="a")
    available("30.00")
    assert plans.submit(plans.code, progress=False)["state"].tolist() == ["done", "done"]


def test_a_floor_of_the_balance(bench: Any, available: Any) -> None:
    object.__setattr__(bench.client.settings, "balance_floor", {"USD": Decimal(40)})
    available("100.00")
    with refused("balance_floor", r"39.99 USD would be left .*less than your floor of 40"):
        bench.plan(None, total="60.01")
    plan = bench.plan(None, total="60.00")
    available("99.99")
    with refused("balance_floor", "less than your floor of 40"):
        plan.submit(confirm=plan.code)
    available("1000.00")  # which covers it many times, and is asked for again all the same
    plan = bench.plan(None, total="60.00")
    available("99.99")
    with refused("balance_floor", "less than your floor of 40"):
        plan.submit(confirm=plan.code)


def test_an_account_that_changed_since_the_plan(bench: Any) -> None:
    plan = bench.plan("60.00")
    wire = dict(BANK["wire"], account_number="000999999999")
    bench.client.update_fiat_account(bench.account.id, fiat_network_instructions={"wire": wire})
    bench.sandbox.clock.advance(11)
    with refused("account_changed", r"it was .*6789, it is .*9999; .*ask who changed it") as found:
        plan.submit(confirm=plan.code)
    assert "000999999999" not in str(found.value)
    with refused("code", "an account that has changed since"):
        bench.plan("60.00").submit(confirm=plan.code)


def test_the_wrong_environment(bench: Any, tmp_path: Path) -> None:
    bench.plan("60.00")
    with (
        fl.sandbox.serve(seed=8, transfers=5) as other,
        other.connect(store=bench.store) as client,
    ):
        fl.Store(bench.store).sync(client, tables=["addresses"])
    with pytest.raises(StoreError, match=r"belongs to http://127.*connect to the service you mean"):
        bench.plan("60.00")


def test_a_service_that_does_not_know_what_was_paid(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.pay("5.00")
    plan = bench.plan("5.00")

    def unknown(id: str) -> Any:
        raise NotFound(404, "Not Found")

    monkeypatch.setattr(bench.client, "get_transfer", unknown)
    with refused("wrong_environment", r"does not know it; .*use another journal"):
        plan.submit()


def test_a_sandbox_started_anew_on_the_port_of_another_is_paid(bench: Any, tmp_path: Path) -> None:
    """Even under the same client id, and with the ids that the same seed gives."""
    with fl.sandbox.serve(seed=9, transfers=50) as first:
        port = int(first.base_url.rpartition(":")[2])
        client = first.connect(store=tmp_path / "kept")
        account = approved_account(first, client)
        wanted = {"profile_id": first.profile_ids[0], "fiat_account_id": account.id}
        fl.plan_withdrawal(client, amount="5.00", **wanted).submit()
        client.close()
    with fl.sandbox.serve(seed=9, transfers=50, port=port) as second:
        client = second.connect(store=tmp_path / "kept")
        assert approved_account(second, client).id == account.id
        for given in ({"ref_id": "again"}, {}):
            plan = fl.plan_withdrawal(client, amount="5.00", allow_duplicate=bool(given), **wanted,
                                      **given)  # fmt: skip
            assert not plan.is_submitted
        assert plan.submit().status == "PENDING"
        second.control.reset()
        with pytest.raises(NotFound):
            fl.plan_withdrawal(client, amount="5.00", **wanted)
        approved_account(second, client)
        assert not fl.plan_withdrawal(client, amount="5.00", **wanted).is_submitted
        client.close()


@pytest.fixture
def in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if loopback were none."""
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", True)


@pytest.mark.usefixtures("in_production")
def test_a_missing_code_in_production_paid(bench: Any) -> None:
    plan = bench.plan("60.00")
    with refused("code", r"is production: look at the plan, then confirm it with plan\.submit\("):
        plan.submit()
    assert bench.made() == []
    assert plan.submit(confirm=plan.code).amount == Decimal(60)


@pytest.mark.parametrize("production", [False, True])
def test_the_code_of_another_plan(
    bench: Any, production: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fundlab.settings.settings.Settings.is_production", production)
    other = bench.plan("61.00").code
    with refused("code", r"is not the code of this plan.*give the code it shows"):
        bench.plan("60.00").submit(confirm=other)


@pytest.mark.parametrize("name", ["amount", "total"])
def test_an_amount_that_is_not_one_is_named_once(bench: Any, name: str) -> None:
    with pytest.raises(
        InvalidRequest, match=rf"^{name} '100,00' must be digits, .*nothing was sent$"
    ):
        bench.plan(**{"amount": None, name: "100,00"})


def test_an_amount_with_three_decimals(bench: Any) -> None:
    with refused("amount", r"'100\.125' has 3 decimals, USD has 2; .*round it yourself"):
        bench.plan("100.125")
    with pytest.raises(InvalidRequest, match=r"more than 2 decimals.*'100\.120' given"):
        bench.plan("100.120")
    assert bench.plan(Decimal("100.120")).amount == Decimal("100.12")  # a number has no such zeros


@pytest.mark.parametrize("amount", [100.0, "1e3", "-5", "ten", ""])
def test_amounts_that_are_none(bench: Any, amount: Any) -> None:
    with pytest.raises(InvalidRequest, match="amount"):
        bench.plan(amount)


def test_a_duplicate_of_a_recent_withdrawal_paid(bench: Any) -> None:
    bench.pay("62.00")
    with refused("duplicate", r"plan it with allow_duplicate=True.* its own \(--ref-id\)"):
        bench.plan("62.00", ref_id=f"other-{bench.account.id}")
    assert len(bench.made()) == 1
    allowed = bench.plan("62.00", ref_id=f"other-{bench.account.id}", allow_duplicate=True)
    assert "The same amount to this account was submitted" in repr(allowed)


def test_a_duplicate_made_by_someone_else_paid(bench: Any) -> None:
    bench.client.create_fiat_withdrawal(
        amount="63.00", fiat_account_id=bench.account.id, profile_id=bench.profile_id
    )
    with refused("duplicate", "if you mean one more payment"):
        bench.plan("63")


def test_a_duplicate_made_between_the_plan_and_its_confirmation_paid(bench: Any) -> None:
    plan = bench.plan("64.00")
    bench.pay("64.00", ref_id=f"other-{bench.account.id}")
    with pytest.raises(ActionRefused):
        plan.submit(confirm=plan.code)
    assert len(bench.made()) == 1


def test_the_same_a_day_later_needs_only_a_ref_id_paid(bench: Any) -> None:
    """Recent is 24 hours; the payment is the newest one of its profile all the time."""
    start = time.time_ns()
    bench.pay("65.00", now=lambda: start)
    for hours, name in ((23, "early"), (25, "next")):
        bench.sandbox.clock.advance(2 * 3600 if name == "next" else 23 * 3600)
        at = start + hours * 3600 * 10**9
        wanted = {"ref_id": f"{name}-{bench.account.id}", "now": lambda at=at: at}
        if name == "early":
            with refused("duplicate", "was submitted .* already"):
                bench.plan("65.00", **wanted)
        else:
            assert bench.pay("65.00", **wanted).ref_id == wanted["ref_id"]


@pytest.mark.usefixtures("in_production")
def test_a_day_is_counted_by_the_clock_of_the_service_paid(bench: Any, tmp_path: Path) -> None:
    """This machine's clock is two days ahead; the payment was made by another program."""
    ahead = 2 * 86_400
    with fl.sandbox.serve(seed=12, transfers=50, clock="manual") as service:
        client = service.connect(store=tmp_path)
        account = approved_account(service, client)
        service.clock.advance(time.time() - service.clock.now().timestamp())
        wanted: dict[str, Any] = {
            "profile_id": service.profile_ids[0], "fiat_account_id": account.id, "amount": "66.00",
        }  # fmt: skip
        client.create_fiat_withdrawal(**wanted)
        fast = Client(client.settings, environment=Environment(now=lambda: time.time() + ahead))
        with refused("duplicate", "was submitted .* already"):
            fl.plan_withdrawal(fast, now=lambda: time.time_ns() + ahead * 10**9, **wanted)
        fast.close()
        client.close()


@pytest.mark.usefixtures("in_production")
@pytest.mark.parametrize(("paid_h", "now_h"), [(-48, 0), (0, 25)])
def test_a_wrong_clock_of_this_machine_hides_no_duplicate_paid(
    bench: Any, tmp_path: Path, paid_h: int, now_h: int
) -> None:
    """It was slow when the first was paid and is right now, or was right and is fast now."""
    with fl.sandbox.serve(seed=12, transfers=50, clock="manual") as service:
        right = service.connect(store=tmp_path)
        account = approved_account(service, right)
        service.clock.advance(time.time() - service.clock.now().timestamp())

        def plan(off_h: int, **given: Any) -> WithdrawalPlan:
            clock = Environment(now=lambda: time.time() + off_h * 3600)
            with Client(right.settings, environment=clock) as client:
                return fl.plan_withdrawal(
                    client, profile_id=service.profile_ids[0], fiat_account_id=account.id,
                    amount="66.00", now=lambda: time.time_ns() + off_h * HOUR, **given,
                )  # fmt: skip

        first = plan(paid_h)
        first.submit(confirm=first.code)
        with refused("duplicate", "was submitted .* already"):
            plan(now_h, ref_id="again")
        right.close()


def test_an_account_of_another_end_user(bench: Any) -> None:
    people = [bench.sandbox.control.add_identity() for _ in range(2)]
    owned = approved_account(
        bench.sandbox, bench.client, identity_id=people[0]["identity_id"],
        account_id=people[0]["account_id"],
    )  # fmt: skip
    with refused("end_user", r"belongs to identity .*pay to an account of that end user"):
        bench.plan(fiat_account_id=owned.id, identity_id=people[1]["identity_id"])
    assert "names no identity_id" in repr(bench.plan(fiat_account_id=owned.id))
    plan = bench.plan(
        fiat_account_id=owned.id, identity_id=people[0]["identity_id"],
        account_id=people[0]["account_id"],
    )  # fmt: skip
    transfer = plan.submit(confirm=plan.code)
    assert (transfer.identity_id, transfer.account_id) == (
        people[0]["identity_id"], people[0]["account_id"],
    )  # fmt: skip


def test_no_whole_account_number_is_shown_or_kept(bench: Any) -> None:
    plan = bench.plan("66.00")
    shown = repr(plan) + plan._repr_html_() + repr(vars(plan)) + str(bench.journal().to_dict())
    path = bench.journal_file()
    number = BANK["wire"]["account_number"]
    assert isinstance(number, str)
    assert number not in shown
    assert number.encode() not in path.read_bytes()
    assert "••••6789" in repr(plan)


@pytest.mark.parametrize("ref_id", ["", " ", "a\nb", "a\x1b[2J", 5])
def test_a_ref_id_nobody_could_type_again(bench: Any, ref_id: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"ref_id=.* is not accepted; give text"):
        bench.plan("60.00", ref_id=ref_id)


@pytest.mark.parametrize("confirm", [123, ["a"], b"code"])
def test_a_code_that_is_no_text(bench: Any, confirm: Any) -> None:
    with refused("code", "is not the code of this plan"):
        bench.plan("60.00").submit(confirm=confirm)


def test_a_plan_cannot_be_changed_paid(bench: Any) -> None:
    plan = bench.plan("60.00")
    plan.arguments["amount"] = "999.00"
    with pytest.raises(TypeError):
        plan.facts["amount"] = "1"
    assert plan.submit(confirm=plan.code).amount == Decimal(60)
    assert bench.journal()["amount"].tolist() == [Decimal(60)]


def test_a_plan_from_the_future(bench: Any) -> None:
    times = [1_800_000_000 * 1_000_000_000]
    plan = bench.plan(now=lambda: times[0])
    times[0] -= 10 * 86_400 * 1_000_000_000
    with refused(
        "expired", r"by this machine's clock it is .*; nothing was sent: see to the clock"
    ):
        plan.submit(confirm=plan.code)


def test_end_users_that_do_not_match(bench: Any) -> None:
    people = [bench.sandbox.control.add_identity() for _ in range(2)]
    owned = approved_account(bench.sandbox, bench.client, **end_user(people[0]))
    with refused("end_user", r"belongs to account .*pay to an account of that end user"):
        bench.plan(
            fiat_account_id=owned.id,
            **end_user(people[0]) | {"account_id": people[1]["account_id"]},
        )
    corporate = bench.plan(**end_user(people[0]))
    assert "but the account does not say it is theirs" in " ".join(repr(corporate).split())


def end_user(person: dict[str, Any]) -> dict[str, Any]:
    return {name: person[name] for name in ("identity_id", "account_id")}


def test_a_whole_number_of_numpy_is_one(bench: Any) -> None:
    assert bench.plan(np.int64(60)).amount == Decimal(60)


def test_a_duplicate_without_a_date_is_one_paid(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service left its ``created_at`` out: it may be of today."""
    bench.client.create_fiat_withdrawal(
        amount="67.00", fiat_account_id=bench.account.id, profile_id=bench.profile_id
    )
    listed = bench.client.list_transfers

    def undated(**given: Any) -> Any:
        return (row.model_copy(update={"created_at": None}) for row in listed(**given))

    monkeypatch.setattr(bench.client, "list_transfers", undated)
    with refused("duplicate", "was submitted at a time not shown already"):
        bench.plan("67.00")
