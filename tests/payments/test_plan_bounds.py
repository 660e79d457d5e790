"""A plan, its code, what became of it: every arm by a table, with a client and a journal of lists.

Nobody serves here: what the service shows is given, what the journal is told is looked at.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

import fundlab as fl
from fundlab.base.errors import (
    ActionRefused,
    CallError,
    Conflict,
    InvalidRequest,
    NotFound,
    ServiceError,
    StoreError,
)
from fundlab.client.identity import Identity
from fundlab.display import Row
from fundlab.payments import identity, plan
from fundlab.payments.identity import DAY, SECOND, UPDATE, WITHDRAWAL, Entry, keyed, traces
from fundlab.payments.outcome import Seen, observed_of, state_after
from fundlab.payments.plan import Context, Plan
from fundlab.settings.secret import Masked

NOON = 1_763_726_400 * SECOND  # 2025-11-21T12:00:00Z
ACCOUNT, ADDRESS = "create_fiat_account", "create_deposit_address"
RULE = "create_orchestration_rule"
ASKED = {"profile_id": "p", "fiat_account_id": "a", "amount": "5.00", "asset": "USD"}


def entry(**more: Any) -> Entry:
    given: dict[str, Any] = {
        "number": 1, "origin": "j", "ref_id": "one", "operation": WITHDRAWAL, "recorded_at": NOON,
        "fingerprint": keyed("j", WITHDRAWAL, ASKED),
        "body": json.dumps(ASKED | {"ref_id": "one"}).encode(),
        "facts": {"account": "Ann"}, "batch": None, "store": None, "sent_at": NOON,
        "state": "unknown", "noted_at": NOON, "resource_id": None, "status": None, "fee": None,
        "total": None, "detail": None,
    }  # fmt: skip
    return Entry(**given | more)


class Book:
    """A journal that keeps what it is told; ``known`` are its entries."""

    path, id = "j.sqlite", "j"
    service: Mapping[str, str] = {"base_url": "https://api.example.com", "client_id": "desk"}

    def __init__(self, *known: Entry, fails: bool = False, other: str | None = None) -> None:
        self.known = {one.ref_id.casefold(): one for one in known}
        self.noted: list[tuple[Any, ...]] = []
        self.fails, self.other = fails, other

    def find(self, ref_id: str) -> Entry | None:
        return self.known.get(ref_id.casefold())

    def note(
        self, of: Entry, state: str, made: Any = None, detail: str | None = None, known: str = ""
    ) -> None:
        self.noted.append((of.ref_id, state, getattr(made, "id", None), detail))

    def note_attempt(self, of: Entry, state_of: Any, made: Any, detail: str) -> str:
        if self.fails:
            raise StoreError("no room")
        state: str = state_of(True)
        self.note(of, state, made, detail)
        return state

    def attempt(self, of: Entry) -> Entry:
        self.noted.append((of.ref_id, "attempt"))
        return of

    def made_for(self, resource_id: str, operation: str, ref_id: str) -> str | None:
        return self.other


def shown(id_: str = "t-1", **more: Any) -> Any:
    """A transfer as Get shows it, that is what ``ASKED`` asks for unless told otherwise."""
    row = ASKED | {
        "id": id_, "ref_id": "one", "type": "WIRE_WITHDRAWAL", "direction": "DEBIT",
        "status": "PENDING", "fee": "1", "total": "6.00", "created_at": "2025-11-21T12:00:00Z",
    }  # fmt: skip
    given = {name: value for name, value in (row | more).items() if value is not None}
    return fl.models.Transfer.model_validate(given)


def service(*rows: Any, **calls: Any) -> Any:
    """A client whose service has ``rows``; production, unless told otherwise."""

    def get(id_: str) -> Any:
        found = next((row for row in rows if row.id == id_), None)
        if found is None:
            raise NotFound(404, "Not Found")
        return found

    settings = SimpleNamespace(is_production=True, lenient_requests=False)
    every: dict[str, Any] = {
        "list_transfers": lambda **_: [*rows], "get_transfer": get, "settings": settings,
        "base_url": "https://api.example.com", "client_id": "desk", "transport": a_clock(0),
    }  # fmt: skip
    return SimpleNamespace(**every | calls)


def a_clock(ahead: int) -> Any:
    """Of a service, ``ahead`` (ns) of this machine's."""
    return SimpleNamespace(service_ns=lambda now: now + ahead)


def context(client: Any = None, book: Any = None, now: int = NOON) -> tuple[Any, list[str]]:
    said: list[str] = []
    store: Any = SimpleNamespace(name="s")
    return Context(client or service(), book or Book(), store, lambda: now, said.append), said


def planned(where: Any = None, **more: Any) -> Plan[Any]:
    given = {
        "operation": WITHDRAWAL, "body": Masked(json.dumps(ASKED | {"ref_id": "one"})),
        "ref_id": "one", "own_ref_id": False, "planned_at": NOON,
    } | more  # fmt: skip
    return Plan(context=where or context()[0], **given)


def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(ActionRefused) as caught:
        call()
    return caught.value.reason, str(caught.value)


# ------------------------------------------------------------------------ what became of it


@pytest.mark.parametrize(
    ("observed", "only", "states"),  # it, another's, cannot be told, nothing
    [
        ("refused", True, "done refused unknown refused"),
        ("refused", False, "done unknown unknown unknown"),
        ("used", True, "done refused unknown unknown"),
        ("used", False, "done unknown unknown unknown"),
        ("unsent", True, "done absent absent absent"),
        ("unsent", False, "done unknown unknown unknown"),
        ("doubt", True, "done unknown unknown unknown"),
        ("doubt", False, "done unknown unknown unknown"),
        ("asked", True, "done unknown unknown absent"),
        ("asked", False, "done unknown unknown absent"),
    ],
)
def test_the_state_by_what_was_observed_and_is_shown(
    observed: Any, only: bool, states: str
) -> None:
    seen = [Seen(1, Identity((), ())), Seen(1, Identity(("x",), ("y",))),
            Seen(1, Identity((), ("y",))), Seen()]  # fmt: skip
    assert [state_after(observed, one, only_attempt=only) for one in seen] == states.split()
    failed = state_after(observed, Seen(failed=True), only_attempt=only)
    assert failed == states.split()[2]


def test_what_an_error_says_of_its_call() -> None:
    def error(existing: Any = None, kind: Any = Conflict, **state: bool) -> CallError:
        meta = {} if existing is None else {"existing": existing}
        made: CallError = kind(409, "No", None, meta)
        vars(made).update({"refused": True} | state)
        return made

    for of, observed in [
        (error(in_doubt=True), "doubt"),
        (error(in_doubt=True, unsent=True), "unsent"),
        (error(refused=False), "doubt"),
        (error(refused=False, unsent=True), "unsent"),
        (error(kind=ServiceError), "refused"),
        (error(), "used"),
        (error({"ref_id": "ONE"}), "used"),
        (error({"ref_id": "two"}), "refused"),
        (error({"rule": {"ref_id": "two"}}), "refused"),
        (error({"rule": {"ref_id": "one"}}), "used"),
        (error({"rule": "two"}), "used"),
        (error("two"), "used"),
        (error({"ref_id": "two"}, ServiceError), "refused"),
    ]:
        assert observed_of(of, "one") == observed


# ---------------------------------------------------------------------- which payment it is


@pytest.mark.parametrize(
    ("asked", "fee", "total", "amount"),
    [
        ({"total": "6.00"}, "1", "6.00", "5.00"),
        ({"total": "6.00"}, None, "6.00", "6.00"),
        ({"total": "6.00"}, "1", None, "6.00"),
        ({"amount": "5.00"}, "1", "6.00", "5.00"),
    ],
)
def test_what_an_entry_sent(asked: Any, fee: Any, total: Any, amount: str) -> None:
    made = entry(body=json.dumps(asked).encode(), fee=fee, total=total)
    assert made.amount == Decimal(amount)


@pytest.mark.parametrize(
    ("state", "status", "live"),
    [
        ("unknown", None, True), ("absent", None, True), ("refused", None, False),
        ("done", "PENDING", True), ("done", "FAILED", False),
    ],
)  # fmt: skip
def test_for_which_entries_money_moved_or_may(state: Any, status: Any, live: bool) -> None:
    assert entry(state=state, status=status).is_live(()) is live
    # what the service shows as failed is what is known to have been made for it, or says nothing
    made = entry(state=state, status=status, resource_id="t")
    assert made.is_live({"u"}) is live
    assert made.is_live({"t"}) is (live and state != "done")


def test_an_entry_knows_what_it_was_confirmed_for() -> None:
    one = entry()
    assert "body" not in repr(one)
    assert one.asks(WITHDRAWAL, ASKED | {"amount": "5", "profile_id": "P", "ref_id": "two"})
    assert not one.asks(WITHDRAWAL, ASKED | {"amount": "5.01"})
    assert not one.asks(ACCOUNT, ASKED)
    one.check_asks(WITHDRAWAL, ASKED, NOON)
    kept = entry(facts={"account": "Ann", "fee": None, "asset": "USD"})
    reason, said = refusal(lambda: kept.check_asks(WITHDRAWAL, ASKED | {"memo": "x"}, NOON + DAY))
    assert reason == "ref_id"
    assert "confirmed 2025-11-21 12:00 UTC (Ann, USD); nothing was sent" in said
    digest = one.fingerprint
    assert [
        entry(ref_id=name).is_derived
        for name in (f"fundlab-{digest[:32]}", f"x-{digest[:31]}", digest[:32], "one")
    ] == [True, False, False, False]


def test_a_digest_is_of_the_journal_the_operation_and_what_counts() -> None:
    """Derived once, by the definition of HMAC: what is under it in old journals must be found."""
    text = 'x\n{"amount":"5","memo":"Hi","profile_id":"ab"}'
    key = b"j".ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + text.encode()).digest()
    by_hand = hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).hexdigest()
    asked = {"memo": "Hi", "profile_id": "AB", "amount": "5.00", "ref_id": "r"}
    assert keyed("j", "x", asked) == by_hand
    assert keyed("j", "x", {**asked, "more": "1"}, ("ref_id", "more")) == by_hand
    assert keyed("j", "x", asked, ()) != by_hand


def test_the_traces_of_bank_details() -> None:
    """A number by its last four characters, as both layouts have it; the rest in full."""
    details = {"name": "Ann", "wire": {"account_number": "0001234", "bank": "B", "none": None},
               "metadata": {"a": "1", "b": "2"}, "on": True}  # fmt: skip
    found = traces("j", details)
    assert sorted(found) == [".metadata", ".name", ".on", ".wire.account_number", ".wire.bank"]
    assert {len(digest) for digest in found.values()} == {32}

    def differs(**change: Any) -> list[str]:
        other = traces("j", details | change)
        return sorted(path for path in found if found[path] != other.get(path))

    assert differs(name="Bob") == [".name"]
    assert differs(wire={"account_number": "X1234", "bank": "B"}) == []
    assert differs(wire={"account_number": "0001334", "bank": "B"}) == [".wire.account_number"]
    assert differs(metadata={"a": "2", "b": "2"}) == [".metadata"]
    assert differs(metadata={"b": "2", "a": "1"}) == []
    assert differs(on=False) == [".on"]
    cubix = traces("j", {"fiat": {"wallet_address": "abc-9999"}})
    assert cubix == traces("j", {"fiat": {"cubix": {"account_id": "xyz-9999"}}})
    assert cubix != traces("j", {"fiat": {"cubix": {"account_id": "xyz-8999"}}})
    assert cubix != traces("k", {"fiat": {"wallet_address": "abc-9999"}})


def test_the_day_is_named_from_the_first_instant_of_another() -> None:
    midnight = NOON + DAY // 2
    for ns, now, said in [
        (midnight - 1, midnight - 1, "23:59 UTC"),
        (midnight - 1, midnight, "2025-11-21 23:59 UTC"),
        (midnight, midnight - 1, "2025-11-22 00:00 UTC"),
        (midnight, midnight + DAY - 1, "00:00 UTC"),
    ]:
        assert identity.shown_time(ns, now) == said


# ------------------------------------------------------------------------------- its code


def test_the_code_is_made_as_it_always_was() -> None:
    """A code that stands in a notebook fits next year: by hand, in base 30, lowest digit first."""
    text = (
        "https://api.example.com:443 desk\ncreate_fiat_withdrawal\n"
        '{"amount":"5","asset":"USD","fiat_account_id":"a","profile_id":"p","ref_id":"one"}\nE'
    )
    number = int(hashlib.sha256(text.encode()).hexdigest(), 16)
    letters = ["23456789ABCDEFGHJKMNPQRSTVWXYZ"[number // 30**place % 30] for place in range(8)]
    by_hand = "".join(letters[:4]) + "-" + "".join(letters[4:])
    assert planned(evidence="E").code == by_hand


def test_a_code_fits_however_it_is_typed_and_is_needed_where_money_is_real() -> None:
    for typed, fits in [
        ("K7QF-2M9D", True), ("k7qf2m9d", True), (" k7qf 2m9d ", True), ("K7QF-2M9", False),
        ("K7QF-2M9DD", False), ("", False), (None, False), (7, False),
    ]:  # fmt: skip
        assert plan.same_code(typed, "K7QF-2M9D") is fits
    real, _ = context()
    play, _ = context(service(settings=SimpleNamespace(is_production=False)))
    plan.check_code(play, "K7QF-2M9D", None)
    plan.check_code(real, "K7QF-2M9D", "k7qf2m9d")
    reason, said = refusal(lambda: plan.check_code(real, "K7QF-2M9D", None))
    assert (reason, "is production: look at the plan" in said) == ("code", True)
    for where in (real, play):
        assert refusal(lambda where=where: plan.check_code(where, "K7QF-2M9D", ""))[0] == "code"


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (-SECOND - 1, "but by this machine's clock it is 11:59 UTC"), (-SECOND, None), (0, None),
        (900 * SECOND - 1, None), (900 * SECOND, "of 12:00 UTC expired at 12:15 UTC"),
    ],
)  # fmt: skip
def test_a_plan_holds_for_a_quarter_of_an_hour(now: int, said: str | None) -> None:
    where, _ = context(now=NOON + now)
    one = planned(where)
    if said is None:
        one.look_again()
    else:
        reason, text = refusal(one.look_again)
        assert (reason, said in text) == ("expired", True)
    assert one.expires_at == NOON + 900 * SECOND


# ------------------------------------------------------------------------------- its state


@pytest.mark.parametrize(
    ("earlier", "elsewhere", "submitted", "status"),
    [
        (None, False, False, None),
        (None, True, True, "already submitted, from another store or program"),
        ({"state": "done", "status": "PENDING"}, False, True, "already submitted {}, PENDING"),
        ({"state": "done"}, False, True, "already submitted {}, done"),
        ({"state": "done", "status": "FAILED"}, False, True,
         "already submitted {}, FAILED; to try again, use a ref_id of its own"),
        ({"state": "absent"}, False, False,
         "confirmed {}, but the service does not know it; submit() sends it, once"),
        ({"state": "refused", "detail": "403 No"}, False, False,
         "confirmed {}, refused by the service (403 No); it may be tried again"),
        ({"state": "unknown"}, False, False,
         "confirmed {}, outcome unknown; submit() asks the service and does it once"),
    ],
)  # fmt: skip
def test_what_an_earlier_run_left(
    earlier: Any, elsewhere: bool, submitted: bool, status: str | None
) -> None:
    known = None if earlier is None else entry(**earlier)
    one = planned(earlier=known, elsewhere=elsewhere, unchecked=["a"], warnings=("b",))
    assert one.is_submitted is submitted
    assert one.status == (status and status.format("12:00 UTC"))
    shown = one.to_json()
    assert (shown["status"], shown["production"], shown["code"]) == (one.status, True, one.code)
    assert shown["warnings"] == ["Not checked: a.", "b"]
    assert (shown["planned_at"], shown["expires_at"]) == (
        "2025-11-21T12:00:00.000000000Z", "2025-11-21T12:15:00.000000000Z",
    )  # fmt: skip
    again = " · for one more like it, plan with allow_duplicate=True and another ref_id "
    assert (again in one.card().notes[0]) is submitted
    assert again not in planned(operation=RULE, elsewhere=True).card().notes[0]


def test_a_card_shows_what_was_submitted_since_it_was_planned() -> None:
    for known, status, note in [
        (entry(state="done", status="PENDING", resource_id="t-1"), "submitted 12:00 UTC, PENDING",
         "withdrawal t-1"),
        (entry(state="done", resource_id="t-1"), "submitted 12:00 UTC, done", "withdrawal t-1"),
        (entry(), None, None),
        (None, None, None),
    ]:  # fmt: skip
        card = planned(context(book=Book(*[known] * bool(known)))[0]).card()
        code = f"confirmation code {planned().code} · expires 12:15 UTC"
        assert (card.status, card.notes) == (status, (note or code,))


def test_the_rows_that_are_given() -> None:
    given = {"ref_id": "r", "memo": "", "identity_id": "i", "metadata": {"k": "v"}}
    assert plan.given_rows(given) == (
        Row("Identity", "i"), Row("Metadata k", "v"), Row("ref_id", "r", "faint"),
    )  # fmt: skip
    assert plan.given_rows({"ref_id": "r", "memo": "m", "account_id": "a"}) == (
        Row("End user account", "a"), Row("Memo", "m"), Row("ref_id", "r", "faint"),
    )  # fmt: skip


# ----------------------------------------------------------------------------- the account


def test_what_is_shown_and_certified_of_an_account() -> None:
    def account(**more: Any) -> Any:
        return plan.bank_account(
            fl.models.FiatAccount.model_validate({"id": "a", "status": "APPROVED"} | more)
        )

    routing = {"routing_number_type": "ABA", "routing_number": "021", "bank_name": "B"}
    wire = {"account_number": "000012341234", "routing_details": routing}
    owner = {"institution_details": {"name": "Ann"}}
    for given, label, network in [
        ({}, "owner not shown, bank not shown", "network not shown"),
        ({"fiat_network_instructions": {"sepa": {"iban": "DE1"}}},
         "owner not shown, bank not shown", "network not shown"),
        ({"fiat_account_owner": owner, "fiat_network_instructions": {"wire": wire}},
         "Ann, B ••••1234", "ABA wire, routing 021"),
        ({"fiat_network_instructions": {"wire": {"account_number": "000012341234"}}},
         "owner not shown, bank not shown ••••1234", "wire"),
        ({"fiat_network_instructions": {"wire": wire | {"routing_details": {
            "routing_number": "021"}}}}, "owner not shown, bank not shown ••••1234",
         "wire, routing 021"),
        ({"fiat_network_instructions": {"cubix": {"account_id": "customer-9876"}}},
         "owner not shown, CUBIX ••••9876", "CUBIX"),
    ]:  # fmt: skip
        found = account(**given)
        assert (found.label, found.network) == (label, network)
    base = account(fiat_account_owner=owner, fiat_network_instructions={"wire": wire})
    assert "details" not in repr(base)
    named = replace(base, details=Masked('{"id": "a", "identity_id": "i"}'))
    bare = replace(base, details=Masked('{"id": "a"}'))
    for before, now in ((named, bare), (bare, named)):
        said = refusal(lambda before=before, now=now: plan.check_unchanged(before, now))[1]
        assert "since the plan: identity_id is another than it was; nothing" in said
    for change, said in [
        ({}, None),
        ({"status": "PENDING"}, None),
        ({"identity_id": "i"}, "identity_id is another than it was"),
        ({"fiat_network_instructions": {"wire": wire | {"account_number": "999912341234"}}},
         "its account number is another than it was"),
        ({"fiat_account_owner": {"institution_details": {"name": "Bob"}}},
         "it was Ann, B ••••1234, it is Bob, B ••••1234"),
    ]:  # fmt: skip
        now = account(**{"fiat_account_owner": owner, "fiat_network_instructions": {"wire": wire},
                         **change})  # fmt: skip
        if said is None:
            plan.check_unchanged(base, now)
        else:
            reason, text = refusal(lambda now=now: plan.check_unchanged(base, now))
            assert (reason, f"since the plan: {said}; nothing" in text) == (
                "account_changed", True,
            )  # fmt: skip


# ------------------------------------------------------------------------ asking the service


@pytest.mark.parametrize(
    ("rows", "found", "answer"),
    [
        ([], None, "nothing"),
        ([shown()], "t-1", "yes"),
        ([shown(ref_id="ONE")], "t-1", "yes"),
        ([shown(ref_id="two")], None, "nothing"),
        ([shown(amount="7.00")], "t-1", "no"),
        ([shown(direction=None)], "t-1", "unknown"),
        ([shown(ref_id=None)], "t-1", "unknown"),  # which may be anybody's
        ([shown(ref_id=None, amount="7.00")], None, "nothing"),  # and is somebody's
        ([shown("t-2", amount="7.00"), shown("t-1")], "t-1", "yes"),
        ([shown("t-2", ref_id=None), shown("t-1", amount="7.00")], "t-1", "no"),
        ([shown("t-2", amount="7.00"), shown("t-1", direction=None)], "t-2", "no"),
        ([shown("t-2", ref_id=None, amount="7.00"), shown("t-1", ref_id=None)], "t-1", "unknown"),
        ([*[shown(f"o-{n}", amount="7.00") for n in range(4)], shown("t-1")], "t-1", "yes"),
        ([*[shown(f"o-{n}", amount="7.00") for n in range(5)], shown("t-1")], "o-0", "no"),
        ([*[shown(f"o-{n}", ref_id=None, type="WIRE_DEPOSIT") for n in range(9)],
          shown("t-1", ref_id=None)], "t-1", "unknown"),
        ([shown(f"o-{n}", ref_id=None) for n in range(9)], "o-0", "unknown"),
    ],
)  # fmt: skip
def test_what_the_service_has_under_a_name(rows: Any, found: str | None, answer: str) -> None:
    asked = ASKED | {"ref_id": "one"}
    questions = []

    def listed(**given: Any) -> Any:
        questions.append(given)
        return rows

    seen = plan.look_up(context(service(*rows, list_transfers=listed))[0], WITHDRAWAL, asked)
    assert (getattr(seen.resource, "id", None), seen.answer) == (found, answer)
    assert questions == [{"ref_ids": ["one", "one", "ONE"]}]


@pytest.mark.parametrize(
    ("count", "amount", "found", "answer"),
    [(5, "5.00", None, "nothing"), (5, "7.00", None, "nothing"), (6, "5.00", "o-5", "unknown")],
)
def test_of_rows_that_show_no_name_the_first_five_are_asked_for(
    count: int, amount: str, found: str | None, answer: str
) -> None:
    """By its id each is another's; what is not asked for may be it."""
    rows = [shown(f"o-{n}", ref_id=None) for n in range(count)]
    get = {row.id: shown(row.id, ref_id="two", amount=amount) for row in rows}.__getitem__
    where, _ = context(service(*rows, get_transfer=get))
    seen = plan.look_up(where, WITHDRAWAL, ASKED | {"ref_id": "one"})
    assert (getattr(seen.resource, "id", None), seen.answer) == (found, answer)


def test_what_the_journal_knows_as_anothers_is_nobodys_answer() -> None:
    """Where the service shows no name; what it shows by this name is its answer all the same."""
    for name, answer in ((None, "nothing"), ("one", "yes")):
        where, _ = context(service(shown(ref_id=name)), Book(other="two"))
        assert plan.look_up(where, WITHDRAWAL, ASKED | {"ref_id": "one"}).answer == answer


def test_what_the_service_added_is_a_difference_unless_the_name_is_ours() -> None:
    row = shown(memo="theirs")
    where, _ = context(service(row))
    asked = ASKED | {"ref_id": "one"}
    assert plan.look_up(where, WITHDRAWAL, asked).answer == "no"
    assert plan.look_up(where, WITHDRAWAL, asked, ours=True).answer == "yes"
    name = f"fundlab-{keyed('j', WITHDRAWAL, ASKED)[:32]}"
    derived = entry(ref_id=name, body=json.dumps(ASKED | {"ref_id": name}).encode())
    where, _ = context(service(shown(memo="theirs", ref_id=name)))
    assert plan.look_up_entry(where, derived).answer == "yes"
    assert plan.look_up_entry(context(service(row))[0], entry()).answer == "no"


def test_what_is_said_of_another_under_the_name() -> None:
    made = SimpleNamespace(id="t-9", type="WIRE_DEPOSIT", ref_id="one")
    nameless = SimpleNamespace(id="t-9", type="WIRE_WITHDRAWAL", ref_id=None)
    unlike, unclear = Identity(("amount is 7", "x"), ()), Identity((), ("asset", "type"))
    bare = SimpleNamespace(id="t-9", type=None)
    for seen in (Seen(), Seen(failed=True), Seen(made, Identity((), ()))):
        plan.check_seen(WITHDRAWAL, "one", seen)
    told = refusal(lambda: plan.check_seen(WITHDRAWAL, "one", Seen(made, unlike)))[1]
    assert told.endswith("then choose another ref_id")
    for seen, sent, reason, starts, ends in [
        (Seen(made, unlike), False, "ref_id", "ref_id='one' belongs to WIRE_DEPOSIT t-9 at",
         "asked for: amount is 7; x; nothing was sent now: look at it, then choose another ref_id"),
        (Seen(bare, unlike), True, "ref_id",
         "this withdrawal may have been sent before; ref_id='one' belongs to withdrawal t-9",
         "look at it before anything else"),
        (Seen(made, unclear), False, "in_doubt", "ref_id='one' stands for t-9 at the service, "
         "which does not show asset, type: whether it is this withdrawal", "the same cell again"),
        (Seen(nameless, Identity((), ("ref_id",))), False, "in_doubt", "ref_id='one' may stand for "
         "t-9 at the service, which does not show ref_id: whether", "the same cell again"),
        (Seen(made, unclear), True, "in_doubt", "this withdrawal may have been sent before; ref_id",
         "then run the same cell again"),
    ]:  # fmt: skip
        said = refusal(
            lambda seen=seen, sent=sent: plan.check_seen(WITHDRAWAL, "one", seen, may_be_sent=sent)
        )
        assert said[0] == reason
        assert said[1].startswith(starts)
        assert said[1].endswith(ends)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("done", None),
        ("unknown", "this withdrawal may have been sent before, fl.resume() settles it; now: no"),
        ("absent", "this withdrawal may have been sent before, fl.resume() settles it; now: no"),
        ("refused", "this withdrawal was sent before, and refused by the service; fl.resume() asks "
         "it once more; now: no"),
    ],
)  # fmt: skip
def test_a_refusal_says_first_that_it_may_have_been_sent(state: Any, said: str | None) -> None:
    why = ActionRefused("own_limit", "no; nothing was sent: pay less")
    if said is None:
        plan.check_doubt(entry(state=state), why)
        return
    found = refusal(lambda: plan.check_doubt(entry(state=state), why))
    assert found == ("own_limit", f"{said}; nothing was sent now: pay less")


def test_a_resource_as_a_line_has_it() -> None:
    for operation, status, said in [
        (WITHDRAWAL, "PENDING", "PENDING: withdrawal x"),
        (WITHDRAWAL, "FAILED", "but it FAILED and moved nothing: withdrawal x"),
        (ADDRESS, None, "done: deposit address x"),
    ]:
        assert plan.said_of(operation, SimpleNamespace(id="x", status=status)) == said
    assert plan.said_of(ADDRESS, SimpleNamespace(id="x")) == "done: deposit address x"


@pytest.mark.parametrize(
    ("state", "operation", "status", "said"),
    [
        ("refused", WITHDRAWAL, "PENDING", None),
        ("unknown", RULE, "PENDING", None),
        ("absent", UPDATE, "PENDING", None),
        ("unknown", WITHDRAWAL, "PENDING", "; if you mean one more, give it allow_duplicate=True "
         "and a ref_id of its own (--allow-duplicate --ref-id NAME)"),
        ("done", WITHDRAWAL, "FAILED",
         "; to try again, give it a ref_id of its own (--ref-id NAME)"),
        ("done", RULE, "ACTIVE", ""),
    ],
)  # fmt: skip
def test_what_is_made_already_is_said_and_returned(
    state: Any, operation: str, status: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = SimpleNamespace(id="x", status=status)
    monkeypatch.setattr(plan, "settle", lambda *_: made)
    where, lines = context(now=NOON + DAY)
    one = entry(state=state, operation=operation)
    assert plan.already_made(where, one) is (None if said is None else made)
    begin = f"already submitted 2025-11-21 12:00 UTC, {plan.said_of(operation, made)}"
    assert lines == ([] if said is None else [f"{begin}{said}"])
    monkeypatch.setattr(plan, "settle", lambda *_: None)
    assert plan.already_made(where, one) is None


def test_what_is_done_is_shown_again_and_noted_where_its_status_is_another() -> None:
    for status, noted in (("PENDING", []), (None, [("one", "done", "t-1", None)])):
        book = Book()
        one = entry(state="done", status=status, resource_id="t-1")
        made = plan.settle(context(service(shown()), book)[0], one)
        assert (made.id, book.noted) == ("t-1", noted)
    lost = entry(state="done", resource_id="t-9", recorded_at=NOON - DAY)
    where = context(service(shown()), book)[0]
    reason, said = refusal(lambda: plan.settle(where, lost))
    assert reason == "wrong_environment"
    assert "j.sqlite says that withdrawal t-9 was made 2025-11-20 12:00 UTC, but" in said
    rule = entry(state="done", operation=RULE, body=b'{"ref_id": "one", "nickname": "n"}')
    client = service(create_orchestration_rule=lambda **given: given)
    assert plan.settle(context(client)[0], rule) == {"ref_id": "one", "nickname": "n"}


def test_what_is_listed_is_settled_by_its_name() -> None:
    for rows, state, detail in [
        ([shown()], "done", None),
        ([], "absent", "the service does not know it"),
    ]:
        book = Book()
        made = plan.settle(context(service(*rows), book)[0], entry())
        assert getattr(made, "id", None) == (rows[0].id if rows else None)
        assert book.noted == [("one", state, made and made.id, detail)]
    where = context(service(shown(amount="7.00")), book)[0]
    assert refusal(lambda: plan.settle(where, entry()))[1].startswith("this withdrawal may have")


@pytest.mark.parametrize("late", [False, True])
def test_what_is_not_listed_is_sent_again_until_its_plan_expires(late: bool) -> None:
    book, made = Book(), SimpleNamespace(id="d", status=None)
    where, _ = context(
        service(create_deposit_address=lambda **given: made), book,
        NOON + 900 * SECOND - (not late),
    )  # fmt: skip
    one = entry(operation=ADDRESS, sent_at=NOON, recorded_at=NOON - DAY)
    if late:
        reason, said = refusal(lambda: plan.settle(where, one))
        assert (reason, book.noted) == ("expired", [])
        assert "this deposit address was made cannot be asked, and its plan expired 12:15 " in said
    else:
        assert plan.settle(where, one) is made
        assert book.noted == [("one", "attempt"), ("one", "done", "d", None)]


def test_an_update_is_done_where_the_account_is_as_asked_and_not_as_before() -> None:
    account = fl.models.FiatAccount.model_validate(
        {"id": "a", "status": "PENDING", "identity_id": "new"}
    )
    state = account.model_dump(mode="json", exclude_none=True)
    as_it_was = keyed("j", "state", state, without=())
    asked = traces("j", {"identity_id": "new", "account_id": "not shown"})
    for before, wanted, outcome in [
        ("other", asked, "done"), (as_it_was, asked, "absent"),
        ("other", traces("j", {"identity_id": "old"}), "absent"),
        ("other", traces("j", {"identity_id": "old", "status": "PENDING"}), "absent"),
    ]:  # fmt: skip
        book = Book()
        body = json.dumps({"before": before, "asked": wanted}).encode()
        one = entry(operation=UPDATE, body=body, facts={"fiat_account_id": "a"})
        made = plan.settle(context(service(get_fiat_account=lambda id_: account), book)[0], one)
        assert made is (account if outcome == "done" else None)
        detail = None if outcome == "done" else "it is not as asked"
        assert book.noted == [("one", outcome, made and "a", detail)]


def test_a_masked_account_is_known_by_its_digests() -> None:
    def listed(**more: Any) -> Any:
        given = {"id": "a", "status": "PENDING", "ref_id": "one", "identity_id": "i"} | more
        kept = {name: value for name, value in given.items() if value is not None}
        return fl.models.FiatAccount.model_validate(
            kept | {"fiat_account_owner": {"institution_details": {"name": "Ann"}},
                    "fiat_network_instructions": {"cubix": {"account_id": "c"}}}
        )  # fmt: skip

    body = {"masked": True, "ref_id": "one", "asked": traces("j", {"identity_id": "i"})}
    one = entry(operation=ACCOUNT, body=json.dumps(body).encode())
    for row, answer in [
        (listed(), Identity((), ())),
        (listed(identity_id="k"), Identity(("identity_id differs",), (".identity_id",)[1:])),
        (listed(identity_id=None), Identity((), (".identity_id",))),
    ]:
        client = service(list_fiat_accounts=lambda row=row, **_: [row],
                         get_fiat_account=lambda id_, row=row: row)  # fmt: skip
        seen = plan.look_up_entry(context(client)[0], one)
        assert (seen.resource, seen.identity) == (row, answer)
    none = service(list_fiat_accounts=lambda **_: [])
    assert plan.look_up_entry(context(none)[0], one) == Seen()


# ---------------------------------------------------------------------------------- sending


def problem(**more: Any) -> CallError:
    error = ServiceError(403, "No", more.pop("detail", None))
    vars(error).update({"refused": True} | more)
    return error


def test_what_is_made_is_noted_and_said() -> None:
    sent = []

    def make(**given: Any) -> Any:
        sent.append(given)
        return SimpleNamespace(id="x", status="PENDING")

    for operation in (WITHDRAWAL, UPDATE):
        book = Book()
        where, said = context(service(**{operation: make}), book)
        made = plan.send(where, entry(operation=operation), {"ref_id": "one", "memo": "m"})
        assert made.id == "x"
        assert book.noted == [("one", "done", "x", None)]
        assert said == [f"submitted 12:00 UTC, {plan.said_of(operation, made)}"]
    assert sent == [{"ref_id": "one", "memo": "m"}, {"memo": "m"}]


@pytest.mark.parametrize(
    ("error", "rows", "state", "detail", "hope"),
    [
        (problem(), [], "refused", "403 No", False),
        (problem(detail="why"), [], "refused", "403 No: why", False),
        (problem(refused=False), [], "unknown", "403 No", True),
        (problem(refused=False, unsent=True), [shown()], "absent", "403 No", False),
        (CallError("x"), [], "unknown", "CallError", True),
        (CallError("x"), [shown()], "done", "CallError", False),
        (problem(), [shown()], "done", "403 No", False),
    ],
)
def test_what_fails_is_asked_for_and_noted(
    error: CallError, rows: Any, state: str, detail: str, hope: bool
) -> None:
    book, given = Book(), ASKED | {"ref_id": "one"}
    error = error.with_traceback(None)
    error.__notes__ = []

    def fail(**_: Any) -> Any:
        raise error

    where, said = context(service(*rows, create_fiat_withdrawal=fail), book)
    if state == "done":
        assert plan.send(where, entry(), given).id == "t-1"
        assert said == ["submitted 12:00 UTC, PENDING: withdrawal t-1"]
    else:
        with pytest.raises(CallError) as caught:
            plan.send(where, entry(), given)
        assert caught.value is error
        assert [note.startswith("The journal holds it as unknown") for note in error.__notes__] == [
            True
        ] * hope
    assert book.noted == [("one", state, "t-1" if state == "done" else None, detail)]


@pytest.mark.parametrize("there", [False, True])
def test_what_cannot_be_written_down_beside_an_error(there: bool) -> None:
    """The error matters more, unless it was made: then the journal's does."""
    error = CallError("x")

    def fail(**_: Any) -> Any:
        raise error

    where, said = context(
        service(*[shown()] * there, create_fiat_withdrawal=fail), Book(fails=True)
    )
    with pytest.raises(StoreError if there else CallError):
        plan.send(where, entry(), ASKED | {"ref_id": "one"})
    notes = [] if there else ["This could not be written down either: no room", plan._HOPE]
    assert (getattr(error, "__notes__", []), said) == (notes, [])


def test_an_error_of_the_asking_leaves_it_in_doubt() -> None:
    def fail(**_: Any) -> Any:
        raise problem()

    def unseen(**_: Any) -> Any:
        raise CallError("nobody there")

    book = Book()
    where, _ = context(service(create_fiat_withdrawal=fail, list_transfers=unseen), book)
    with pytest.raises(ServiceError) as caught:
        plan.send(where, entry(), ASKED | {"ref_id": "one"})
    assert book.noted == [("one", "unknown", None, "403 No")]
    assert caught.value.__notes__[0] == "Asking for what is there brought no more: nobody there"


def test_an_answer_that_was_made_for_another_is_in_doubt() -> None:
    old = SimpleNamespace(id="t-9", status="PENDING")
    book = Book(other="two")
    where, said = context(service(create_fiat_withdrawal=lambda **_: old), book)
    with pytest.raises(fl.errors.ProtocolError, match="made for ref_id 'two'") as caught:
        plan.send(where, entry(), ASKED | {"ref_id": "one"})
    assert caught.value.in_doubt
    assert (book.noted, said) == ([("one", "unknown", None, "ProtocolError")], [])


def test_an_interrupt_says_what_to_do_and_asks_nothing() -> None:
    def stopped(**_: Any) -> Any:
        raise KeyboardInterrupt

    book = Book()
    with pytest.raises(KeyboardInterrupt) as caught:
        plan.send(context(service(create_fiat_withdrawal=stopped), book)[0], entry(), ASKED)
    assert (caught.value.__notes__, book.noted) == ([plan._HOPE], [])


# --------------------------------------------------------------------------------- planning


@pytest.mark.parametrize("name", ["", " ", "a\nb", 7, "a\x7f"])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"ref_id=.* is not accepted; give text"):
        plan.new_plan(context()[0], WITHDRAWAL, name, **ASKED)


@pytest.mark.parametrize(
    ("ref_id", "more", "known", "rows", "name", "elsewhere"),
    [
        (None, False, None, [shown()], "fundlab-", False),
        (None, True, None, [shown()], "fundlab-more-", False),
        ("one", False, None, [], "one", False),
        ("one", False, None, [shown()], "one", True),
        ("ONE", False, {"state": "done"}, [], "one", False),
    ],
)
def test_how_a_plan_is_named_and_looked_up(
    ref_id: Any, more: bool, known: Any, rows: Any, name: str, elsewhere: bool
) -> None:
    book = Book(*[entry(**known)] if known else [])
    where, _ = context(service(*rows), book)
    made = plan.new_plan(where, WITHDRAWAL, ref_id, more=more, **ASKED, memo=None)
    digest = "" if ref_id else keyed("j", WITHDRAWAL, ASKED)[:32]
    assert made.ref_id == made.arguments["ref_id"] == f"{name}{digest}"
    assert made.arguments == ASKED | {"ref_id": made.ref_id}
    assert (made.own_ref_id, made.elsewhere) == (ref_id is not None, elsewhere)
    assert made.earlier == book.find("one")
    if known:
        reason, _ = refusal(
            lambda: plan.new_plan(where, WITHDRAWAL, ref_id, **ASKED | {"amount": "6.00"})
        )
        assert reason == "ref_id"


def test_what_is_not_listed_is_planned_without_being_looked_up() -> None:
    given: dict[str, Any] = {"profile_id": "p", "crypto_network": "ETHEREUM"}
    for name in ("mine", None):
        one = plan.new_plan(context()[0], ADDRESS, name, **given)
        assert one.ref_id == (name or f"fundlab-{keyed('j', ADDRESS, given)[:32]}")
        assert (one.elsewhere, one.earlier) == (False, None)
    known = plan.new_plan(context()[0], ADDRESS, None, known_by={"id": "d"}, **given)
    assert known.ref_id == f"fundlab-{keyed('j', ADDRESS, given | {'id': 'd'})[:32]}"
    assert "id" not in known.arguments


def test_another_under_a_name_of_the_callers_is_refused_when_it_is_planned() -> None:
    where, _ = context(service(shown(amount="7.00")))
    assert refusal(lambda: plan.new_plan(where, WITHDRAWAL, "one", **ASKED))[0] == "ref_id"


def test_what_is_shown_under_the_cell_is_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    stream = SimpleNamespace(write=calls.append, flush=lambda: calls.append("flushed"))
    monkeypatch.setattr("sys.stderr", stream)
    plan.announce("line")
    assert calls == ["line\n", "flushed"]


# ------------------------------------------------------------------- what a plan carries out


class Recording(Book):
    """A journal that writes down what is about to be sent; ``faster`` is another kernel's."""

    def __init__(self, *known: Entry, faster: Entry | None = None) -> None:
        super().__init__(*known)
        self.faster, self.kept = faster, dict[str, Any]()

    @contextmanager
    def opened(self) -> Iterator[tuple[Any, None]]:
        yield self, None

    def record(self, *, at: int | None = None, allow: Any = None, **kept: Any) -> Entry:
        self.kept = kept
        if allow is not None:
            allow(self)
        self.noted.append(("recorded", at))
        return self.faster or entry()


def test_a_payment_is_recorded_then_sent_and_looked_at() -> None:
    book, sent, looked = Recording(), [], []
    made = shown()
    where, _ = context(service(create_fiat_withdrawal=lambda **g: sent.append(g) or made), book)
    one = planned(where)
    object.__setattr__(one, "check_journal", lambda of, now: looked.append((of is book, now)))
    object.__setattr__(one, "look_after", lambda of, now: looked.append((of.ref_id, now)))
    assert one.carry_out(lambda: "seen") is made
    assert looked == [(True, "seen"), ("one", made)]
    assert sent == [ASKED | {"ref_id": "one"}]
    assert book.noted == [("recorded", None), ("one", "done", "t-1", None)]
    body = book.kept["body"]
    assert (json.loads(body), book.kept["store"]) == (ASKED | {"ref_id": "one"}, "s")


def test_another_kernel_that_was_faster_is_shown_and_nothing_is_sent() -> None:
    done = entry(state="done", status="PENDING", resource_id="t-1")
    where, said = context(service(shown()), Recording(faster=done))
    assert planned(where).carry_out(lambda: None).id == "t-1"
    assert said[0].startswith("already submitted 12:00 UTC, PENDING: withdrawal t-1")
    where, _ = context(service(shown()), Recording(done))
    assert planned(where).carry_out(pytest.fail).id == "t-1"
    another = planned(where, body=Masked(json.dumps(ASKED | {"ref_id": "one", "amount": "9"})))
    assert refusal(lambda: another.carry_out(pytest.fail))[0] == "ref_id"


def test_a_plan_is_submitted_with_its_code() -> None:
    made = shown()
    where, _ = context(service(create_fiat_withdrawal=lambda **given: made), Recording())
    one = planned(where)
    for code in (None, "K7QF-2M9D"):
        assert refusal(lambda code=code: one.submit(code))[0] == "code"
    assert one.submit(one.code) is made


@pytest.mark.parametrize("own", [False, True])
def test_what_was_made_elsewhere_is_noted_and_not_sent(own: bool) -> None:
    sent = []
    client = service(shown(), create_fiat_withdrawal=lambda **given: sent.append(1) or shown())
    book = Recording()
    where, said = context(client, book)
    assert planned(where, own_ref_id=own).carry_out(lambda: None).id == "t-1"
    if own:
        assert said == ["already submitted, from another store or program, PENDING: withdrawal t-1"]
        assert book.noted == [("recorded", NOON), ("one", "done", "t-1", None)]
    assert len(sent) == (not own)
    unlike = planned(context(service(shown(amount="7.00")), book)[0], own_ref_id=True)
    assert refusal(lambda: unlike.carry_out(lambda: None))[0] == "ref_id"


@pytest.mark.parametrize("state", [None, "refused", "done"])
def test_a_refusal_of_the_second_look_is_looked_behind(state: Any) -> None:
    """Another kernel may have carried out this very plan since the first."""
    book = Recording()
    where, _ = context(service(shown()), book)

    def changed() -> Any:
        if state is not None:
            later = entry(state=state, status="PENDING", resource_id="t-1")
            book.known["one"] = later
        raise ActionRefused("own_limit", "no; nothing was sent: pay less")

    one = planned(where)
    if state == "done":
        assert one.carry_out(changed).id == "t-1"
        return
    said = refusal(lambda: one.carry_out(changed))[1]
    assert said.startswith("this withdrawal was sent before" if state else "no; nothing was sent: ")
    assert book.noted == []


def test_bank_details_are_kept_as_digests() -> None:
    asked = {
        "ref_id": "one", "fiat_account_owner": {"institution_details": {"name": "Ann"}},
        "fiat_network_instructions": {"cubix": {"account_id": "c-9876"}},
    }  # fmt: skip
    one = planned(operation=ACCOUNT, body=Masked(json.dumps(asked)))
    body = json.loads(one.kept()["body"])
    wanted = {name: value for name, value in asked.items() if name != "ref_id"}
    assert body == {"ref_id": "one", "masked": True, "asked": traces("j", wanted)}
    update = replace(one, body=Masked(json.dumps({"id": "a", "identity_id": "i"})))
    assert update.digests() == {"asked": traces("j", {"identity_id": "i"})}


# ------------------------------------------------------------------------------- the context


def test_a_plan_is_made_with_what_is_given_or_with_the_settings(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(plan, "connected", opened.append)
    monkeypatch.setattr(plan, "open_journal", lambda *given: given)
    client = service(settings=SimpleNamespace(store=tmp_path / "own"))
    made = plan.context_of(client, None, None, None)
    assert (opened, made.client, made.now, made.say) == (
        [client], client, time.time_ns, plan.announce,
    )  # fmt: skip
    assert made.store.path == tmp_path / "own"
    assert made.journal == (client, made.store, time.time_ns)
    given = plan.context_of(client, tmp_path / "other", context, repr)
    assert (given.store.path, given.now, given.say) == (tmp_path / "other", context, repr)
    assert plan.context_of(client, given.store, None, None).store is given.store


# ---------------------------------------------------------------------------------- resuming


class Resumed(Book):
    """A journal whose entries are as was noted last; restored from a backup of ``restored``."""

    def __init__(self, *known: Entry, restored: str | None = None) -> None:
        super().__init__(*known)
        self.restored = restored

    def entries(self) -> list[Entry]:
        return [*self.known.values()]

    def note(
        self, of: Entry, state: Any, made: Any = None, detail: str | None = None, known: str = ""
    ) -> None:
        super().note(of, state, made, detail)
        status = getattr(made, "status", None)
        self.known[of.ref_id.casefold()] = replace(of, state=state, status=status, detail=detail)

    def restored_from(self) -> str | None:
        return self.restored

    def mark_restored(self, at: str | None) -> None:
        self.restored = at

    def knows(self, transfer: Any) -> bool:
        return transfer.id == "known"


def resumed(
    book: Resumed, client: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[Any, ...]], list[str]]:
    where, said = context(client, book)
    monkeypatch.setattr(plan, "context_of", lambda *_: where)
    frame = plan.resume(where.client, now=where.now, say=said.append)
    return [(row["ref_id"], row["state"]) for row in frame.to_dict("records")], said


@pytest.mark.parametrize(
    ("known", "rows", "state", "said"),
    [
        ({"state": "refused", "noted_at": NOON - DAY}, [shown()], "done",
         ["made although it was refused, PENDING: withdrawal t-1"]),
        ({"state": "refused", "noted_at": NOON - DAY - 1}, [shown()], None, []),
        ({"state": "refused", "operation": ADDRESS}, [shown()], None, []),
        ({"state": "refused"}, [], None, []),
        ({"state": "done", "status": "COMPLETED", "resource_id": "t-1"}, [shown()], None, []),
        ({"state": "done", "status": "PENDING", "resource_id": "t-1"},
         [shown(status="COMPLETED")], "done", []),
        ({}, [shown()], "done", []),
        ({}, [], "absent", []),
        ({"state": "absent"}, [shown()], "done", []),
    ],
)  # fmt: skip
def test_what_is_asked_for_once_more(
    known: Any, rows: Any, state: Any, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"resource_id": "t-1"} if state == "done" else {}
    book = Resumed(entry(**given | known))
    client = service(*rows)
    found = resumed(book, client, monkeypatch)
    assert found == ([("one", state)] if state else [], said)
    assert bool(book.noted) is (state is not None)


def test_what_was_refused_before_a_backup_may_have_been_made_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = entry(state="refused", noted_at=NOON - 40 * DAY)
    book = Resumed(old, restored="2025-11-20T10:00:00Z")
    found, said = resumed(book, service(shown("known")), monkeypatch)
    assert found == [("one", "done")]
    assert said == ["made although it was refused, PENDING: withdrawal known"]


def test_what_cannot_be_settled_is_said_and_is_its_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    where, said = context(service(shown(amount="7.00")), Resumed(entry(detail="before")))
    monkeypatch.setattr(plan, "context_of", lambda *_: where)
    (row,) = plan.resume(where.client, now=where.now, say=said.append).to_dict("records")
    assert (row["state"], said) == ("unknown", [f"not settled, withdrawal one: {row['detail']}"])
    assert row["detail"].startswith("this withdrawal may have been sent before")


@pytest.mark.parametrize(
    ("ahead", "begin"), [(0, "2025-11-21T09"), (-2 * DAY, "2025-11-19T09"), (DAY, "2025-11-21T09")]
)
def test_a_restored_journal_is_told_what_was_paid_since(
    ahead: int, begin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Resumed(restored="2025-11-21T10:00:00Z")
    questions = []
    rows = [shown("known"), shown("t-1"), shown("t-2", direction="CREDIT"),
            shown("known-2", direction=None)]  # fmt: skip

    def listed(**given: Any) -> Any:
        questions.append(given)
        return rows

    client = service(list_transfers=listed, transport=a_clock(ahead))
    found, said = resumed(book, client, monkeypatch)
    assert questions == [{"created_at_gte": f"{begin}:00:00.000000000Z", "order": "ASC"}]
    assert said == [
        "not in the restored journal: WIRE_WITHDRAWAL t-1 of 6.00 USD, 2025-11-21T12:00:00Z, "
        "ref_id one: paid since the backup, or by somebody else"
    ]
    assert (found, book.restored) == ([], None)
    assert resumed(book, service(list_transfers=pytest.fail), monkeypatch) == ([], [])
