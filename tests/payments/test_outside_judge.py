"""What a payment says, held against the log of a ledger that is not ours: each fault that an attack
from outside has ever found, and beside it the seeded campaign that looks for more.
"""

from __future__ import annotations

import itertools
import json
import re
from base64 import urlsafe_b64decode
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from other_ledger import ACCOUNT, CUTS, PROFILE, Fault, Ledger, Request, ago
from paying import WAYS, Attempt, World, broken_law, within_an_older_error

import fundlab as fl
from fundlab.base.errors import ActionRefused, CallError, FundlabError, NotFound

HTML = (400, 401, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422,
        423, 426, 428, 451)  # fmt: skip
"""Statuses of pages that a gateway gives in the service's place."""
TYPES = (
    "INTERNAL_TRANSFER_DEBIT", "INTERNAL_TRANSFER_CREDIT", "CRYPTO_DEPOSIT", "CRYPTO_WITHDRAWAL",
    "WIRE_DEPOSIT", "WIRE_WITHDRAWAL", "SEN_DEPOSIT", "SEN_WITHDRAWAL", "BANK_DEPOSIT",
    "BANK_WITHDRAWAL", "PAXOS_TRANSFER_DEBIT", "PAXOS_TRANSFER_CREDIT", "SIGNET_DEPOSIT",
    "SIGNET_WITHDRAWAL", "CBIT_WITHDRAWAL", "CBIT_DEPOSIT", "CUBIX_DEPOSIT", "CUBIX_WITHDRAWAL",
    "RTP_DEPOSIT", "LATER_WITHDRAWAL",
)  # fmt: skip
"""Those of the interface (§2.4), and one that nobody listed."""
FIAT_WITHDRAWALS = {
    "WIRE_WITHDRAWAL", "SEN_WITHDRAWAL", "BANK_WITHDRAWAL", "SIGNET_WITHDRAWAL",
    "CBIT_WITHDRAWAL", "CUBIX_WITHDRAWAL",
}  # fmt: skip
MEMBERS = ("type", "direction", "amount", "total", "fiat_account_id", "profile_id", "asset")
"""Those that tell which payment it is."""
REFUSED = Fault(
    effect=False, status=403, kind="application/problem+json",
    body=b'{"type": "about:blank", "title": "Forbidden", "status": 403}',
)  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS)
every_cut = pytest.mark.parametrize("how", CUTS)


def judged(
    ledger: Ledger, machines: list[Any], attempts: list[Attempt], ref_id: str | None
) -> None:
    problem = broken_law(machines, attempts, ref_id)
    assert problem is None, f"{problem}\n{[(one.way, one.text) for one in attempts]}"


# --------------------------------------------------------- was it sent? the socket knows


@every_cut
@pytest.mark.parametrize("path", ["proxy", "direct"])
@pytest.mark.parametrize("way", WAYS)
def test_a_payment_whose_connection_ends_after_it_is_made_once_and_is_in_doubt(
    world: World, how: str, path: str, way: str
) -> None:
    ledger = world.ledger(path, faults=[Fault(answer_at=0, how=how)] * 6)
    machine = world.machine(ledger)
    attempt = machine.pay(way)
    judged(ledger, [machine], [attempt], None)
    assert len(ledger.payments()) == 1
    if way == "raw":  # the same payment was asked for again, under a name to go on with
        (ref_id,) = {json.loads(request.body)["ref_id"] for request in attempt.sent}
        assert len(attempt.sent) > 1
        assert ref_id in attempt.text


@pytest.mark.parametrize("cut", [1, 40, 300])
@every_cut
def test_a_byte_in_the_tunnel_is_a_byte_that_was_sent(world: World, how: str, cut: int) -> None:
    """Of a TLS record that the service never got whole."""
    ledger = world.ledger()
    machine = world.machine(ledger, call_timeout=5)
    ledger.wire_cut = (1, cut, how)  # after the token
    ledger.tunnels = [200, *[503] * 9]
    with machine.client() as client, pytest.raises(CallError) as caught:
        client.create_fiat_withdrawal(profile_id=PROFILE, fiat_account_id=ACCOUNT, amount="1.00")
    assert ledger.log[1].wire >= 1
    assert "nothing was sent" not in str(caught.value)
    assert caught.value.in_doubt


@every_way
def test_an_older_error_of_the_caller_says_nothing_of_this_call(world: World, way: str) -> None:
    ledger = world.ledger("direct", faults=[Fault(answer_at=0, how="rst")] * 6)
    machine = world.machine(ledger)
    attempt = within_an_older_error(lambda: machine.pay(way))
    judged(ledger, [machine], [attempt], None)
    assert len(ledger.payments()) == 1


@pytest.mark.parametrize(("status", "times"), [(403, 1), (407, 1), (502, 6), (503, 6)])
def test_a_tunnel_that_never_was_says_that_nothing_was_sent(
    world: World, status: int, times: int
) -> None:
    """A proxy that refuses is asked once, one that fails again."""
    ledger = world.ledger(tunnels=[status] * 9)
    attempt = world.machine(ledger).pay("raw", ref_id="a")
    assert f"{status} Tunnel" in attempt.text
    assert "nothing was sent" in attempt.text
    assert len(ledger.tunnels) == 9 - times
    assert ledger.log == []
    assert not attempt.error.in_doubt  # type: ignore[attr-defined]


@every_cut
def test_funds_that_are_checked_first_refuse_nothing_that_moved(world: World, how: str) -> None:
    ledger = world.ledger(funds=Decimal(130), funds_first=True)
    machine = world.machine(ledger)
    ledger.faults = [Fault(answer_at=0, how=how)]
    ledger.lag()
    attempts = [machine.pay("plan", ref_id="a") for _ in range(2)]
    judged(ledger, [machine], attempts, "a")
    ledger.calm()
    assert machine.pay("plan", ref_id="a").transfer_id == ledger.payments()[0]["id"]
    judged(ledger, [machine], attempts, "a")


# ------------------------------------------------------------------------ is it mine?


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::fundlab.base.errors.UnknownValueWarning")
@pytest.mark.parametrize("direction", ["DEBIT", "CREDIT"])
@pytest.mark.parametrize(
    ("way", "shown"),
    [*((way, "all") for way in WAYS), ("plan", "no fiat_account_id"), ("raw", "no fiat_account_id"),
     ("plan", "only ids"), ("raw", "only ids")],
)  # fmt: skip
def test_no_other_kind_of_transfer_passes_for_the_payment(
    world: World, way: str, direction: str, shown: str
) -> None:
    """Under the caller's ref_id there is a transfer of each type and status, as like as can be; it
    is not taken for the withdrawal, and no other is made."""
    ledger = world.ledger("plain")
    machine = world.machine(ledger)
    ledger.hides = frozenset({"all": (), "no fiat_account_id": ("fiat_account_id",)}.get(
        shown, MEMBERS)
    )  # fmt: skip
    taken, numbers = [], itertools.count()
    for kind in TYPES:
        for status in ("PENDING", "COMPLETED", "FAILED"):
            ref_id = f"r-{next(numbers)}"
            ledger.transfers = []
            row = ledger.add(
                ref_id=ref_id, type=kind, direction=direction, status=status, amount="100.00",
                fiat_account_id=ACCOUNT,
            )  # fmt: skip
            attempt = machine.pay(way, ref_id=ref_id)
            assert ledger.transfers == [row]
            may_be = shown == "all" and direction == "DEBIT" and kind in FIAT_WITHDRAWALS
            if attempt.transfer_id is not None and not (may_be and status != "FAILED"):
                failed = may_be and attempt.status == status  # which is said
                taken += [] if failed else [f"{kind} {status}"]
    assert taken == []


# ------------------------------------------------------------------ refused is no guess


@pytest.mark.parametrize("status", [*HTML, 408, 425, 429])
@pytest.mark.parametrize("way", ["plan", pytest.param("batch", marks=pytest.mark.thorough)])
def test_a_page_of_a_gateway_refuses_nothing(world: World, status: int, way: str) -> None:
    ledger = world.ledger(faults=[Fault(status=status)] * 9)
    machine = world.machine(ledger)
    ledger.lag()
    attempts = [machine.pay(way, ref_id="a")]
    judged(ledger, [machine], attempts, "a")
    ledger.calm()
    attempts.append(machine.pay(way, ref_id="a"))
    assert attempts[1].transfer_id == ledger.payments()[0]["id"]
    judged(ledger, [machine], attempts, "a")


def test_a_refusal_of_one_kernel_settles_nothing_that_another_has_on_its_way(world: World) -> None:
    """The first kernel's request is late; the second's is refused; then the first arrives."""
    ledger = world.ledger(funds=Decimal(1000))
    machine = world.machine(ledger)
    ledger.faults = [Fault(late=True, answer_at=0), *[REFUSED] * 6]
    attempts = [machine.pay("plan", ref_id="a"), machine.pay("plan", ref_id="a")]
    assert machine.states("a") == ["unknown"]
    ledger.deliver()
    judged(ledger, [machine], attempts, "a")
    ledger.calm()
    with machine.client() as client:
        fl.resume(client, say=machine.said.append)
    assert machine.states("a") == ["done"]


def test_a_kernel_that_found_nothing_does_not_refuse_what_another_has_sent_since(
    world: World,
) -> None:
    """While the second looks once more at what it is to pay, the first sends, and gets no answer;
    the second is refused; then what the first has sent arrives."""
    ledger = world.ledger()
    machine = world.machine(ledger)
    attempts: list[Attempt] = []

    def pay_meanwhile(request: Request) -> None:
        if "/transfer/transfers" in request.target:
            ledger.before = lambda _: None
            ledger.faults = [Fault(late=True, answer_at=0)] * 20
            attempts.append(machine.pay("plan", ref_id="a"))
            ledger.faults = [REFUSED] * 20

    with machine.client() as client:
        asked = {"profile_id": PROFILE, "fiat_account_id": ACCOUNT, "amount": "100.00"}
        plan = fl.plan_withdrawal(client, **asked, ref_id="a", say=machine.said.append)
        ledger.before = pay_meanwhile
        with pytest.raises(FundlabError):
            plan.submit(confirm=plan.code)
    assert len(attempts) == 1
    ledger.deliver()
    assert len(ledger.payments("a")) == 1
    judged(ledger, [machine], attempts, "a")


def test_what_is_refused_here_after_a_refusal_of_the_service_says_that_it_was_sent(
    world: World,
) -> None:
    ledger = world.ledger()
    machine, other = world.machine(ledger), world.machine(ledger)
    ledger.faults = [REFUSED]
    first = machine.pay("plan", ref_id="r")
    assert machine.states("r") == ["refused"]
    assert other.pay("plan", ref_id="r").transfer_id is not None
    ledger.funds = Decimal(5)
    second = machine.pay("plan", ref_id="r")
    assert second.refused_here
    assert "was sent before, and refused by the service; fl.resume() asks it once" in second.text
    assert broken_law([machine, other], [first, second], "r") is None


# ---------------------------------------------------------- limits and duplicates


def test_a_clock_that_was_set_back_does_not_raise_a_daily_limit(world: World) -> None:
    ledger = world.ledger()
    machine = world.machine(ledger, daily_withdrawal_limit="1000")
    now, paid = int(datetime.now(UTC).timestamp()) * 10**9, Decimal(0)
    with machine.client() as client:
        for number, hours in enumerate([-30, -54, 0]):
            asked = {
                "profile_id": PROFILE,
                "fiat_account_id": ACCOUNT,
                "amount": f"600.{number:02}",
            }
            clock = now + hours * 3600 * 10**9
            try:
                plan = fl.plan_withdrawal(
                    client, **asked, now=lambda clock=clock: clock, say=machine.said.append
                )
                plan.submit(confirm=plan.code)
            except ActionRefused:
                continue
            paid += Decimal(asked["amount"])
    assert paid <= 1000


def test_ids_in_another_case_make_no_other_payment(world: World) -> None:
    ledger = world.ledger()
    machine = world.machine(ledger)
    for spelt in (str.lower, str.upper, str.title):
        machine.pay("plan", fiat_account_id=spelt(ACCOUNT), profile_id=spelt(PROFILE))
    assert len(ledger.payments()) == 1


@pytest.mark.parametrize("way", ["plan", "batch", "command"])
@pytest.mark.parametrize("trouble", ["fiat_account_id", "amount", "date"])
def test_duplicates_that_could_not_be_looked_for_are_said(
    world: World, trouble: str, way: str
) -> None:
    """Another machine has paid the same; whether it did cannot be seen."""
    ledger = world.ledger()
    theirs = world.machine(ledger).pay("plan", ref_id="theirs")
    assert theirs.transfer_id is not None
    ledger.transfers[0]["created_at"] = ago(minutes=1)
    if trouble == "date":
        ledger.date_ahead_s = 5 * 86400
    else:
        ledger.hides = frozenset({trouble})
    machine = world.machine(ledger)
    attempt = machine.pay(way, ref_id="mine")
    said = "\n".join([attempt.text, *machine.said]).lower()
    assert attempt.error is not None or "duplicate" in said


# ------------------------------------------------------------ the rest of what was found


@pytest.mark.parametrize("path", ["/v2/a%2fb", "/v2/%c3%a9", "/v2/%7euser"])
def test_what_is_signed_is_what_is_sent(world: World, path: str, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    made = Ed25519PrivateKey.generate()
    key.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    ledger = world.ledger()
    machine = world.machine(ledger, signing_key=key, signing_key_id="k")
    with machine.client() as client, pytest.raises(NotFound):
        client.get(path)
    (signature,) = re.findall(r"Service-Signature: ([^.]+)", ledger.log[-1].head)
    signed = json.loads(urlsafe_b64decode(f"{signature}=="))
    assert signed["service/request-path"] == ledger.log[-1].target
