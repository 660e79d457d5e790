"""The journal against what the service shows, row by row, of tables made by hand; and accounts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from test_plan_bounds import ASKED, NOON, context, entry, refusal, service
from test_withdrawal_bounds import Kept

import fundlab as fl
from fundlab.base.values import Instant
from fundlab.payments import accounts, reconciliation
from fundlab.payments.identity import DAY, SECOND, UPDATE, keyed
from fundlab.payments.reconciliation import (
    COLUMNS,
    Difference,
    Reconciliation,
    accept_payments,
    card_differences,
    reconcile,
    reconciled,
)

LATE = 900 * SECOND
CARD = {"account": "Ann", "amount": "5.00", "fee": "1", "total": "6.00", "asset": "USD",
        "profile_id": "p", "fiat_account_id": "a"}  # fmt: skip


def done(ref_id: str = "one", resource_id: str | None = "t-1", **more: Any) -> Any:
    body = json.dumps(ASKED | {"ref_id": ref_id}).encode()
    given = {"state": "done", "status": "PENDING", "facts": CARD, "body": body} | more
    return entry(ref_id=ref_id, resource_id=resource_id, **given)


def row(id_: str = "t-1", **more: Any) -> dict[str, Any]:
    base = dict.fromkeys(COLUMNS) | {
        "id": id_, "ref_id": "one", "type": "WIRE_WITHDRAWAL", "direction": "DEBIT",
        "status": "COMPLETED", "amount": Decimal("5.00"), "fee": Decimal(1),
        "total": Decimal("6.00"), "asset": "USD", "profile_id": "p", "fiat_account_id": "a",
        "created_at": pd.Timestamp("2025-11-21T12:00:00Z"),
    }  # fmt: skip
    return base | more


def held(entries: list[Any], rows: Any, until: int = NOON + DAY, **more: Any) -> Reconciliation:
    frame = None if rows is None else pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    return reconcile(entries, frame, complete_until=until, **more)


OF = "withdrawal one of 2025-11-21 12:00 UTC"


@pytest.mark.parametrize(
    ("entries", "rows", "differences"),
    [
        ([done()], [row()], []),
        ([done(resource_id="T-1")], [row(ref_id=None)], []),
        ([done("ONE")], [row()], []),
        ([entry(operation=UPDATE)], [row()], []),
        ([done()], [row(), row("t-2")], [("several", "one", "t-1", "t-1, t-2",
         f"{OF} has 2 transfers, not one: t-1, t-2")]),
        ([done()], [row(), row("t-2", status="FAILED")], []),
        ([done()], [row(), row("t-2", amount=Decimal(9))], []),  # somebody else's
        ([done(state="absent", resource_id=None)], [row()], [("moved", "one", "t-1", "absent",
         f"the journal says that {OF} was absent, and the service has made transfer t-1 "
         "(COMPLETED): run fl.resume()")]),
        ([done(state="refused", resource_id=None)], [row("t-9")], [
            ("moved", "one", "t-9", "refused", "was refused, and the service has made transfer")]),
        ([done(state="refused", resource_id=None)], [], []),
        ([done(state="unknown", resource_id=None)], [row()], []),
        ([done(state="unknown")], [], []),  # noted of an answer that was none of its own
        ([done(resource_id=None)], [], []),
        ([done()], [row("t-2", amount=Decimal(9))], [("missing", "one", "t-1", "",
         f"{OF} is done by the journal, and the service shows no transfer t-1: ask")]),
        ([done()], [row(fee=Decimal(2))], [("card", "one", "t-1",
         "fee 2.00 USD, the card showed 1.00",
         f"transfer t-1 of {OF} is not as its card: fee 2.00 USD, the card showed 1.00")]),
        ([done()], [row(type="WIRE_DEPOSIT")], [("card", "one", "t-1",
         "it is a WIRE_DEPOSIT (DEBIT)", "is not as its card: it is a WIRE_DEPOSIT (DEBIT)")]),
        ([done()], [row(direction="CREDIT", fee=Decimal(2))], [("card", "one", "t-1",
         "it is a WIRE_WITHDRAWAL (CREDIT); fee 2.00 USD, the card showed 1.00", "card")]),
        ([done(), done("two")], [row()], [("shared", "two", "t-1", "one, two",
         "transfer t-1 stands for 2 payments of the journal (one, two), and can be one of them")]),
        ([done(), done("two"), done("three", "T-1")], [row()],
         [("shared", "three", "T-1", "one, two, three", "stands for 3 payments of the journal")]),
    ],
)  # fmt: skip
def test_what_differs_between_journal_and_service(
    entries: Any, rows: Any, differences: list[tuple[str, ...]]
) -> None:
    found = held(entries, rows)
    assert [(one.kind, one.ref_id, one.transfer_id, one.what) for one in found.differences] == [
        one[:4] for one in differences
    ]
    for one, said in zip(found.differences, differences, strict=True):
        assert said[4] in one.text


@pytest.mark.parametrize(
    ("noted_at", "missing"), [(NOON + DAY - LATE, False), (NOON + DAY - LATE - 1, True)]
)
def test_a_list_may_lag_a_quarter_of_an_hour(noted_at: int, missing: bool) -> None:
    found = held([done(noted_at=noted_at)], [])
    assert [one.kind for one in found.differences] == ["missing"] * missing


def test_without_a_service_the_answers_noted_are_held_against_the_cards() -> None:
    found = held([done(fee="2", total="7"), done("two", "t-2")], None, 0)
    (one,) = found.differences
    assert one.what == (
        "fee 2.00 USD, the card showed 1.00; total 7.00 USD, the card showed 6.00"
    )  # fmt: skip
    assert (found.entries, found.others, found.statuses) == (2, (), {})


@pytest.mark.parametrize("only_own", [False, True])
def test_debits_that_no_journal_knows(only_own: bool) -> None:
    rows = [
        row(), row("T-2", ref_id=None), row("o-1", ref_id="theirs"), row("o-2", ref_id=None),
        row("c", direction="CREDIT", ref_id=None), row("f", status="FAILED", ref_id=None),
    ]  # fmt: skip
    entries = [done(facts=CARD | {"approved_by": "Bo"}), done("two", "t-2")]
    found = held(entries, rows, only_own=only_own)
    shown = found.differences if only_own else found.others
    assert [(one.kind, one.transfer_id) for one in shown] == [("other", "o-1"), ("other", "o-2")]
    assert (found.others if only_own else found.differences) == ()
    assert found.approved_by == {"one": "Bo"}
    assert found.statuses == {"t-1": "COMPLETED", "t-2": "COMPLETED"}


def test_a_figure_of_a_card_is_held_against_what_is_shown() -> None:
    for card, shown, said in [
        (CARD, {"amount": "5", "fee": "1.00", "profile_id": "P"}, []),
        (CARD, {"amount": None, "account": "Bob"}, []),
        ({"amount": None}, {"amount": "7"}, []),
        (CARD, {"amount": "1234.5"}, ["amount 1,234.50 USD, the card showed 5.00"]),
        ({"total": "1"}, {"total": "2"}, ["total 2.00 , the card showed 1.00"]),
        (CARD, {"fiat_account_id": "b"}, ["fiat_account_id b, the card showed a"]),
    ]:
        assert card_differences(card, shown) == said


def some(count: int, kind: Any = "card", accepted: str | None = None) -> Any:
    return tuple(
        Difference(kind, None if n == 1 else f"r{n % 2}", f"t{n}", f"text {n}", "", accepted)
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("differ", "accepted", "headline"),
    [
        (0, 0, ""),
        (0, 1, "1 payment difference accepted."),
        (1, 0, "1 payment difference between journal and service ('fundlab journal' shows each)."),
        (2, 3, "2 payment differences between journal and service ('fundlab journal' shows each), "
         "3 more accepted."),
    ],
)  # fmt: skip
def test_how_many_differ_in_one_line(differ: int, accepted: int, headline: str) -> None:
    found = Reconciliation(9, some(differ), (), some(accepted, accepted="why"))
    assert found.headline == headline
    lines = [f"text {n}" for n in range(differ)]
    known = f"{accepted} payment difference{'s' * (accepted > 1)} accepted"
    assert str(found) == "\n".join([*lines, *[known] * bool(accepted)])


def test_what_is_wrong_with_each_payment() -> None:
    found = Reconciliation(9, some(3), some(4, "other"), some(1, accepted="known"))
    assert found.by_ref_id() == {"r0": "text 0; text 2; text 0 (known)"}
    shown = found.to_json()
    assert [len(shown[name]) for name in (
        "payment_differences", "accepted_differences", "other_debits")] == [3, 1, 4]  # fmt: skip
    assert str(found).splitlines()[-4:] == [
        "text 0", "text 1", "text 2", "and 1 more debit like that",
    ]  # fmt: skip
    assert str(Reconciliation(9, (), some(3, "other"))) == "text 0\ntext 1\ntext 2"


# --------------------------------------------------------------------------------- accounts


@pytest.mark.parametrize(
    ("number", "valid"),
    [
        ("021000021", True), ("011401533", True), ("091000019", True),  # of the Federal Reserve
        ("021000022", False), ("021000012", False), ("02100002", False), ("0210000210", False),
        ("٠٢١٠٠٠٠٢١", False), ("", False),
    ],
)  # fmt: skip
def test_what_is_an_aba_number(number: str, valid: bool) -> None:
    assert accounts.is_aba_number(number) is valid


PLACE = {"address1": "1 Road", "city": "X", "province": "Y", "zip_code": "1"}
ROUTE = {"routing_number": "021000021", "routing_number_type": "ABA", "bank_address": PLACE}
WIRE = {"account_number": "123456789", "routing_details": ROUTE,
        "fiat_account_owner_address": PLACE}  # fmt: skip


def swift(code: str) -> Any:
    return {"routing_details": ROUTE | {"routing_number": code, "routing_number_type": "SWIFT"}}


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({}, []),
        ({"account_number": "12A"},
         ["The account number is not digits only, as those of US banks are."]),
        ({"account_number": None},
         ["The account number is not digits only, as those of US banks are."]),
        (swift("DEUTDEFF") | {"account_number": "DE12"}, []),
        (swift("DEUTDEFF500"), []),
        (swift("DEUTDEFF50"), ["The bank's SWIFT code 'DEUTDEFF50' is not one: 8 or 11 characters,"
                               " such as DEUTDEFF."]),
        (swift("DEUT1EFF"), ["The bank's SWIFT code 'DEUT1EFF' is not one: 8 or 11 characters, "
                             "such as DEUTDEFF."]),
        ({"routing_details": ROUTE | {"routing_number": "021000022"}},
         ["The bank's ABA number '021000022' is not one: nine digits with a checksum."]),
        ({"routing_details": ROUTE | {"routing_number": None}},
         ["The bank's ABA number '' is not one: nine digits with a checksum."]),
        ({"routing_details": ROUTE | {"bank_address": {"country": "US"}}},
         ["The bank's address has no address1, city, province, zip_code."]),
        ({"fiat_account_owner_address": PLACE | {"city": ""}},
         ["The owner's address has no city."]),
        ({"fiat_account_owner_address": None},
         ["The owner's address has no address1, city, province, zip_code."]),
        ({"intermediary_routing_details": ROUTE | {"routing_number": "1", "bank_address": None}},
         ["The bank between's ABA number '1' is not one: nine digits with a checksum.",
          "The bank between's address has no address1, city, province, zip_code."]),
        ({"routing_details": None, "account_number": "x"}, []),
    ],
)  # fmt: skip
def test_what_a_service_takes_and_is_surely_wrong(change: Any, warned: list[str]) -> None:
    found = accounts.doubts({"fiat_network_instructions": {"wire": WIRE | change}})
    assert list(found) == warned
    for none in ({}, {"fiat_network_instructions": None}, {"fiat_network_instructions": {}}):
        assert accounts.doubts(none) == ()


def account(id_: str = "a", **more: Any) -> Any:
    owner = {"institution_details": {"name": "Ann"}}
    return fl.models.FiatAccount.model_validate(
        {"id": id_, "status": "APPROVED", "fiat_account_owner": owner,
         "fiat_network_instructions": {"wire": {"account_number": "000123456789"}}} | more
    )  # fmt: skip


def test_an_account_that_looks_like_it_is_named() -> None:
    asked: list[Any] = []
    rows = [
        account("none", fiat_network_instructions={"wire": {}}),
        account("cubix", fiat_network_instructions={"cubix": {"account_id": "customer-6789"}}),
        account("other", fiat_network_instructions={"wire": {"account_number": "000123456780"}}),
        account("same", status="PENDING"), account("again"),
    ]  # fmt: skip
    client = service(list_fiat_accounts=lambda **given: asked.append(given) or rows)
    shown = accounts.bank_account(account("new"))
    assert accounts.look_alikes(client, shown) == (
        "An account at this bank that ends in 6789 is registered already: same (PENDING).",
    )
    assert asked == [{"page_size": 1000, "max_rows": 1000}]
    bare = accounts.bank_account(account("new", fiat_network_instructions={"wire": {}}))
    assert accounts.look_alikes(client, bare) == ()


class Updated(Kept):
    """A journal whose updates are ``sent``."""

    def sent_since(self, operation: str, since: int) -> list[Any]:
        assert (operation, since) == (UPDATE, 0)
        return [*self.sent]


def registering(monkeypatch: pytest.MonkeyPatch, *rows: Any, book: Any = None, **more: Any) -> Any:
    listed = [*rows]
    client = service(
        list_fiat_accounts=lambda **given: [
            one for one in listed if "ref_ids" not in given or one.ref_id in given["ref_ids"]
        ],
        get_fiat_account=lambda id_: next(one for one in listed if one.id == id_),
        settings=SimpleNamespace(is_production=True, lenient_requests=True), **more,
    )  # fmt: skip
    where, said = context(client, book or Updated())
    monkeypatch.setattr(accounts, "context_of", lambda *_: where)
    return client, said, listed


@pytest.mark.parametrize("known", [None, "elsewhere", "journal"])
def test_look_alikes_of_a_new_account_only(known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cubix = {"cubix": {"account_id": "customer-6789"}}
    given: dict[str, Any] = {
        "fiat_account_owner": {"institution_details": {"name": "Ann"}},
        "fiat_network_instructions": cubix,
    }  # fmt: skip
    book = Updated()
    if known == "journal":
        digest = keyed("j", "create_fiat_account", given)
        book.known["mine"] = entry(
            ref_id="mine", operation="create_fiat_account", fingerprint=digest
        )
    here = "mine" if known == "elsewhere" else "x"
    rows = [account(id_, ref_id=name, fiat_network_instructions=cubix)
            for id_, name in (("same", None), ("mine", here))]  # fmt: skip
    client, _, _ = registering(monkeypatch, *rows, book=book)
    plan = accounts.register_fiat_account(client, ref_id=known and "mine", **given)
    alike = [line for line in plan.warnings if "is registered already: same" in line]
    assert len(alike) == (known is None)
    assert plan.elsewhere is (known == "elsewhere")
    assert (plan.title, plan.facts["account"]) == (
        "Register a bank account of Ann", "Ann, CUBIX ••••6789",
    )  # fmt: skip
    assert [(one.label, one.value) for one in plan.rows[:3]] == [
        ("Owner", "Ann"), ("Bank", "CUBIX"), ("Number", "••••6789"),
    ]  # fmt: skip


def test_a_change_of_an_account_is_shown_beside_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    client, said, listed = registering(monkeypatch, account(metadata={"a": "1"}))
    update = accounts.plan_account_update
    reason, text = refusal(lambda: update(client, "a"))
    assert reason == "account_changed"
    assert "nothing is given to change of fiat account a; nothing was sent: give" in text

    same = update(client, "a", metadata={"a": "1"})
    assert (same.is_submitted, same.warnings) == (True, ())
    assert same.status == "the account is as asked already"
    assert same.submit(same.code) is listed[0]
    assert said == ["already as asked: fiat account a, APPROVED"]

    wire = {"wire": {"account_number": "000999999999"}}
    plan = update(client, "a", metadata={"b": "2"}, fiat_network_instructions=wire)
    assert (plan.is_submitted, plan.status) == (False, None)
    assert [(one.label, one.value) for one in plan.rows] == [
        ("Account", "a"), ("Now", "Ann, bank not shown ••••6789"),
        ("Then", "Ann, bank not shown ••••9999"), ("Metadata b", "2"),
    ]  # fmt: skip
    assert plan.warnings[0] == "It goes back to PENDING: no payments until it is reviewed."
    assert len(plan.warnings) == 2  # no address
    assert plan.facts == {"account": "Ann, bank not shown ••••9999", "fiat_account_id": "a"}
    assert plan.digests()["before"] == plan.state
    plan.look_again()
    listed[0] = account(identity_id="i")
    assert refusal(plan.look_again)[0] == "account_changed"
    object.__setattr__(plan, "planned_at", NOON - LATE)
    assert refusal(plan.look_again)[0] == "expired"


def test_a_change_there_and_back_again_is_another_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def ref_id(*sent: Any) -> str:
        client, _, _ = registering(monkeypatch, account(), book=Updated(*sent))
        plan = accounts.plan_account_update(client, "a", metadata={"a": "1"})
        assert not plan.is_submitted  # what is not shown is not as asked
        name: str = plan.ref_id
        return name

    made = entry(operation=UPDATE, state="done", facts={"fiat_account_id": "a"})
    theirs = entry(operation=UPDATE, state="done", facts={"fiat_account_id": "b"})
    lost = entry(operation=UPDATE, facts={"fiat_account_id": "a"})
    assert ref_id() == ref_id(theirs, lost)
    assert len({ref_id(), ref_id(made), ref_id(made, made)}) == 3


# ------------------------------------------------------------------------------ of a store


class Shown:
    """A store that has ``rows`` of transfers, published at noon and synced at ``synced``."""

    def __init__(self, *rows: Any, synced: int | None = None, empty: bool = False) -> None:
        self.rows, self.synced, self.empty = rows, synced, empty
        self.kept: list[Any] = []
        self.since: list[Any] = []

    def snapshot(self, table: str) -> Any:
        return SimpleNamespace(last=None if self.empty else SimpleNamespace(published_at=NOON))

    def current(self, table: str) -> str:
        return table

    def runs(self) -> Any:
        if self.synced is None:
            return {}
        return {"sync": {"tables": {"transfers": str(Instant.from_ns(self.synced))}}}

    def read(self, table: str, columns: Any, since: Any) -> pd.DataFrame:
        assert (table, columns) == ("transfers", list(COLUMNS))
        self.since.append(since)
        return self.frame(self.rows)

    def frame(self, rows: Any) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)

    def records(self) -> list[Any]:
        return self.kept

    @contextmanager
    def lock(self) -> Iterator[str]:
        yield "held"

    def record(self, kind: str, said: Any, check_held: str) -> None:
        assert check_held == "held"
        self.kept.append(SimpleNamespace(kind=kind, at="2026-02-03T04:05:06Z", content=said))


def by_names(store: Shown, monkeypatch: pytest.MonkeyPatch, *rows: Any) -> list[Any]:
    """What is asked of ``store`` by name, which finds ``rows``; their times are moments."""
    asked: list[Any] = []

    def found(snapshot: str, columns: Any, *, where: Any) -> Any:
        asked.append(dict(where))
        ((name, texts),) = where.items()
        return [one for one in rows if one[name] in texts]

    monkeypatch.setattr(reconciliation, "read_current", found)
    monkeypatch.setattr(reconciliation, "to_frame", store.frame)
    return asked


@pytest.mark.parametrize(
    ("synced", "missing"), [(None, False), (NOON + LATE, False), (NOON + LATE + 1, True)]
)
def test_entries_are_held_against_what_a_store_has(
    synced: int | None, missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until when it is complete: of the last sync, else of the last publication."""
    early = row("t-2", ref_id="two", created_at=pd.Timestamp("2025-11-20T00:00:00Z"))
    store: Any = Shown(row("t-2", ref_id="two"), row("debit", ref_id=None), synced=synced)
    asked = by_names(store, monkeypatch, early)
    entries = [done(), done("two", "t-2"), entry(ref_id="three")]
    found = reconciled(store, entries, only_own=False)
    assert [one.kind for one in found.differences] == ["missing"] * missing
    assert [one.transfer_id for one in found.others] == ["debit"]
    assert asked == [{"id": ["t-1", "t-2"]}, {"ref_id": ["one", "two", "three"]}]
    before = int(early["created_at"].value) - LATE
    assert store.since == [str(Instant.from_ns(before))]
    by_names(store, monkeypatch)
    reconciled(store, entries, only_own=False)
    assert store.since[1] == str(Instant.from_ns(NOON - LATE))


def test_without_entries_there_is_nothing_to_hold_unless_all_are_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store: Any = Shown(row("debit", ref_id=None))
    asked = by_names(store, monkeypatch)
    monkeypatch.setattr(reconciliation, "setting", lambda name: name == "only_own_payments")
    alone = reconciled(store, [])
    assert [one.transfer_id for one in alone.differences] == ["debit"]
    assert (store.since, len(asked)) == ([None], 2)
    monkeypatch.setattr(reconciliation, "setting", lambda name: None)
    assert reconciled(store, []).others == ()
    empty: Any = Shown(empty=True)
    noted = reconciled(empty, [done(fee="2")], only_own=True)
    assert [one.kind for one in noted.differences] == ["card"]
    assert (len(asked), empty.since) == (2, [])


def test_what_somebody_accepted_is_set_apart_while_it_differs_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [row(fee=Decimal(2)), row("t-2", ref_id="two", fee=Decimal(3))]
    store: Any = Shown(*rows)
    by_names(store, monkeypatch)
    entries = [done(), done("two", "t-2")]
    for given in ({"by": " ", "reason": "x"}, {"by": "Ann", "reason": ""}):
        with pytest.raises(fl.errors.InvalidRequest, match="give a text"):
            accept_payments(store, entries, **given)
    accepted = accept_payments(store, entries, "t-2", by="Ann", reason="known")
    assert [one.ref_id for one in accepted] == ["two"]
    assert store.kept[0].content == {
        "rows": [], "by": "Ann", "reason": "known",
        "payments": [["card", "two", "t-2", "fee 3.00 USD, the card showed 1.00"]],
    }  # fmt: skip
    found = reconciled(store, entries, only_own=False)
    assert [one.ref_id for one in found.differences] == ["one"]
    (known,) = found.accepted
    assert known.accepted == "accepted by Ann on 2026-02-03, because: known"
    assert str(known) == f"{known.text} ({known.accepted})"
    assert [one.ref_id for one in accept_payments(store, entries, by="A", reason="r")] == ["one"]
    assert accept_payments(store, entries, by="A", reason="r") == []
    assert len(store.kept) == 2
    rows[1]["fee"] = Decimal(4)  # otherwise it differs anew
    assert [one.ref_id for one in reconciled(store, entries, only_own=False).differences] == ["two"]
