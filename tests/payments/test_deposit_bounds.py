"""Deposits, quotes, rules and waiting at their bounds, with a service of functions."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from test_journal_rows import Desk, spoiled
from test_plan_bounds import ADDRESS, NOON, Book, context, entry, refusal, service, shown

import fundlab as fl
from fundlab.base.errors import ActionError, InvalidRequest, StoreError, Unavailable
from fundlab.base.values import Instant
from fundlab.payments import deposits, journal_files, quotes, rules, waiting
from fundlab.payments.identity import SECOND
from fundlab.payments.journal import Journal, identity_of


def instructions(**more: Any) -> Any:
    given = {"id": "i", "status": "VALID", "profile_id": "p", "memo_id": "M1",
             "created_at": "2025-11-21T12:00:00Z"} | more  # fmt: skip
    kept = {name: value for name, value in given.items() if value is not None}
    return fl.models.FiatDepositInstructions.model_validate(kept)


ROUTING = {"routing_number_type": "ABA", "routing_number": "021", "bank_name": "B"}


@pytest.mark.parametrize(
    ("given", "rows", "warned"),
    [
        ({}, {}, False),
        ({"fiat_account_owner": {"institution_details": {"name": "Ann"}}}, {"Beneficiary": "Ann"},
         False),
        ({"fiat_account_owner": {}}, {}, False),
        ({"fiat_network_instructions": {"wire": {"account_number": "12345678",
                                                "routing_details": ROUTING}}},
         {"Account number": "12345678", "Bank": "B", "ABA routing number": "021"}, False),
        ({"fiat_network_instructions": {"wire": {}}}, {"Account number": "not shown"}, False),
        ({"fiat_network_instructions": {"cubix": {"account_id": "c"}}}, {"CUBIX account": "c"},
         False),
        ({"fiat_network_instructions": {"wallet_address": "w"}}, {"CUBIX account": "w"}, False),
        ({"fiat_network_instructions": {}}, {"CUBIX account": "not shown"}, False),
        ({"status": "EXPIRED"}, {}, True),
    ],
)  # fmt: skip
def test_what_to_quote_to_the_bank(given: Any, rows: Any, warned: bool) -> None:
    card = deposits.deposit_sheet(service(), instructions(**given)).card()
    assert {row.label: row.value for row in card.rows} == {"Memo": "M1", **rows,
                                                           "Credits": "profile p"}  # fmt: skip
    assert card.warnings == (
        ("These instructions are EXPIRED: do not send money to them.",) * warned
    )


def test_which_deposits_quote_the_memo() -> None:
    asked: list[Any] = []
    rows = [shown("a", memo="M1"), shown("b", memo="M2"), shown("c")]
    client = service(list_transfers=lambda **given: asked.append(given) or rows)
    assert [one.id for one in deposits.find_deposits(client, instructions())] == ["a"]
    (question,) = asked
    assert {*question.pop("type")} > {"WIRE_DEPOSIT", "CUBIX_DEPOSIT"}
    assert question == {"profile_ids": ["p"], "created_at_gte": "2025-11-21T12:00:00Z",
                        "order": "DESC", "order_by": "CREATED_AT"}  # fmt: skip
    asked.clear()
    bare = instructions(profile_id=None, created_at=None)
    assert [one.id for one in deposits.find_deposits(client, bare)] == ["a"]
    assert asked[0].keys() == {"type", "order", "order_by"}
    with pytest.raises(InvalidRequest, match="instructions i have no memo_id"):
        deposits.find_deposits(client, instructions(memo_id=None))


class Clock:
    """Seconds that pass as somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.naps = 0.0, list[float]()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("statuses", "outcome"),
    [
        ([None, "PENDING", "COMPLETED"], "COMPLETED"),
        (["FAILED"], "FAILED"),
        ([None] * 9, "has not arrived after 3 s"),
        (["PENDING"] * 9, "has arrived but is still PENDING after 3 s"),
    ],
)
def test_whether_a_deposit_has_arrived(statuses: Any, outcome: str) -> None:
    answers, clock = iter(statuses), Clock()

    def listed(**given: Any) -> Any:
        status = next(answers)
        return [] if status is None else [shown("a", memo="M1", status=status)]

    def wait() -> Any:
        return deposits.wait_for_deposit(
            service(list_transfers=listed), instructions(), timeout=3, sleep=clock.sleep,
            clock=clock, progress=False,
        )  # fmt: skip

    if "3 s" in outcome:
        with pytest.raises(ActionError, match=f"a deposit quoting M1 {outcome}; nothing is lost"):
            wait()
        assert clock.naps == [0.5, 0.75, 1.125, 0.625]
    else:
        assert wait().status == outcome


def test_pauses_grow_to_ten_seconds_and_a_service_that_is_down_is_asked_again() -> None:
    clock, trouble = Clock(), Unavailable(503, "No")
    outcomes: list[Any] = [trouble, 1, trouble, 2, *[3] * 20]

    def ask() -> Any:
        found = outcomes.pop(0)
        if found is trouble:
            raise trouble
        return found

    found = list(waiting.answers("x", ask, timeout=60, sleep=clock.sleep, clock=clock,
                                 progress=False))  # fmt: skip
    assert found[:3] == [1, 2, 3]
    assert clock.naps[:9] == [0.5 * 1.5**n for n in range(8)] + [10]
    assert clock.now == 60
    outcomes[:] = [1, *[trouble] * 20]
    again = Clock()
    asked: dict[str, Any] = {"timeout": 5, "sleep": again.sleep, "clock": again, "progress": False}
    with pytest.raises(ActionError, match="how x stands is not known after 5 s") as told:
        list(waiting.answers("x", ask, **asked))
    assert told.value.__cause__ is trouble
    once = waiting.answers(
        "x", lambda: 7, timeout=0, sleep=pytest.fail, clock=clock, progress=False
    )
    assert [*once] == [7]


def test_the_seconds_waited_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, bars = Clock(), []

    class Bar:
        def __init__(self, total: int, unit: str, **more: Any) -> None:
            self.total, self.n = total, 0
            bars.append(self)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *error: object) -> None: ...

        def update(self, more: int) -> None:
            self.n += more

    for module in (waiting, quotes):
        monkeypatch.setattr(module, "progress_bar", Bar)
    for _ in waiting.answers("x", lambda: 1, timeout=30, sleep=clock.sleep, clock=clock,
                             progress=True):  # fmt: skip
        assert bars[0].n <= round(clock.now)
    assert (bars[0].total, bars[0].n) == (30, 30)
    quote = a_quote(3.4, clock)
    quote.watch(clock.sleep)
    assert (bars[1].total, bars[1].n) == (3, 3)
    assert clock.naps[-4:-1] == [1.0] * 3
    assert clock.naps[-1] == pytest.approx(0.4)


@pytest.mark.parametrize("timeout", [-0.1, float("inf"), float("nan"), True, "5", None])
def test_what_is_no_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"timeout=.* is not accepted; give seconds, 0 or mo"):
        waiting.check_timeout(timeout)
    waiting.check_timeout(0)
    waiting.check_timeout(0.5)


# --------------------------------------------------------------- what ends is noted


@pytest.mark.parametrize(
    ("known", "noted"),
    [
        ({"state": "done", "resource_id": "t-1"}, True), ({"resource_id": "t-2"}, False),
        (None, False), ("no journal", False),
    ],
)  # fmt: skip
def test_how_it_ended_is_noted_of_its_own_entry(
    known: Any, noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[Any] = []
    book = Book(*([entry(**known)] if isinstance(known, dict) else []))
    book.note = lambda *given, **more: notes.append((given, more))  # type: ignore[method-assign]
    monkeypatch.setattr(waiting, "connected", lambda client: None)
    monkeypatch.setattr(
        waiting, "existing_journal", lambda client: None if known == "no journal" else book
    )
    statuses, clock = iter(["PENDING", "COMPLETED"]), Clock()
    client = service(get_transfer=lambda id_: shown(id_, status=next(statuses)))
    made = waiting.wait_for(client, shown(), sleep=clock.sleep, clock=clock, progress=False)
    assert (made.status, len(clock.naps), len(notes)) == ("COMPLETED", 2, noted)
    if noted:
        ((of, state, resource), more) = notes[0]
        assert (of.ref_id, state, resource) == ("one", "done", made)
        assert more == {"known": "withdrawal t-1 ended COMPLETED",
                        "otherwise": "fl.resume() notes it"}  # fmt: skip


def test_what_ended_and_cannot_be_noted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "connected", lambda client: None)

    def gone(client: Any) -> Any:
        raise StoreError("gone")

    monkeypatch.setattr(waiting, "existing_journal", gone)
    clock = Clock()
    account = fl.models.FiatAccount.model_validate({"id": "a", "status": "PENDING", "ref_id": "r"})
    ended = account.model_copy(update={"status": "REJECTED"})
    client = service(get_fiat_account=lambda id_: ended)
    waited: dict[str, Any] = {"sleep": clock.sleep, "clock": clock, "progress": False}
    with pytest.raises(StoreError, match=r"^fiat account a ended REJECTED, but this could not be"):
        waiting.wait_for(client, account, **waited)
    nameless = ended.model_copy(update={"ref_id": None})
    client = service(get_fiat_account=lambda id_: nameless)
    assert waiting.wait_for(client, account, **waited) is nameless
    assert waiting.wait_for(client, ended, sleep=pytest.fail) is ended
    pending = service(get_transfer=lambda id_: shown(id_))
    with pytest.raises(ActionError, match=r"Transfer t-1 is still PENDING after 2\.5 s; nothing"):
        waiting.wait_for(pending, shown(), timeout=2.5, **waited)
    resource: Any = "t-1"
    with pytest.raises(InvalidRequest, match="resource is a str; give the transfer or the fiat"):
        waiting.wait_for(pending, resource)


# ------------------------------------------------------------------------- quotes and rules


def a_quote(left_s: float | None, clock: Any = None, **more: Any) -> quotes.FeeQuote:
    expires = None if left_s is None else str(Instant.from_ns(NOON + round(left_s * SECOND)))
    given = {
        "id": "q",
        "asset": "USDC",
        "amount": "2500",
        "fee": "3",
        "total": "2503",
        "destination_address": "0x1",
        "crypto_network": "ETHEREUM",
        "expires_at": expires,
    }
    found = {name: value for name, value in (given | more).items() if value is not None}
    begun = 0.0 if clock is None else clock.now
    now = (lambda: NOON) if clock is None else lambda: NOON + round((clock.now - begun) * SECOND)
    return quotes.FeeQuote(fl.models.CryptoWithdrawalFee.model_validate(found), service(), now)


@pytest.mark.parametrize(
    ("left_s", "left", "status"),
    [
        (None, 0.0, None), (-5, 0.0, None), (0, 0.0, None), (0.4, 0.4, None),
        (1, 1.0, "holds for 0:01 more, until 12:00 UTC"),
        (61, 61.0, "holds for 1:01 more, until 12:01 UTC"),
        (600, 600.0, "holds for 10:00 more, until 12:10 UTC"),
    ],
)  # fmt: skip
def test_how_long_a_fee_holds(left_s: Any, left: float, status: str | None) -> None:
    quote = a_quote(left_s)
    assert quote.seconds_left == left
    card = quote.card()
    assert card.status == status
    assert card.warnings == (() if status else ("It has expired: ask for another.",))
    assert [(row.label, row.value) for row in card.rows] == [
        ("To", "0x1"), ("Amount", "2,500.00 USDC"), ("Fee", "3.00 USDC"),
        ("Total", "2,503.00 USDC"),
    ]  # fmt: skip
    assert [row.money for row in card.rows] == [False, True, True, True]
    assert card.notes == ("quote q",)
    assert quote.fee == Decimal(3)


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ({"profile": {"profile_id": "p"}}, "profile p"),
        ({"crypto": {"network": "N"}}, "a new deposit address on N"),
        ({"crypto": {"network": "N", "address_id": "i"}}, "i on N"),
        ({"crypto": {"network": "N", "address": "a", "address_id": "i"}}, "a on N"),
        ({"fiat": {"fiat_account_id": "f"}}, "fiat account f"),
        ({"fiat": {"deposit_instructions_id": "d", "memo_id": "m"}}, "deposit instructions d"),
        ({"fiat": {"memo_id": "m"}}, "deposit instructions m"),
        ({"fiat": {}}, "deposit instructions new"), ({}, "deposit instructions new"),
    ],
)  # fmt: skip
def test_an_end_of_a_rule_in_words(end: Any, words: str) -> None:
    assert rules._end(end) == words


@pytest.mark.parametrize(
    "more", [{}, {"nickname": "n", "destination": {"profile": {"profile_id": "q"}}}]
)
def test_what_a_rule_does_is_shown(more: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "context_of", lambda *_: context()[0])
    plan = rules.plan_rule(
        service(), profile_id="p", source_asset="USDC", destination_asset="USD",
        source={"crypto": {"network": "ETHEREUM"}}, **more,
    )  # fmt: skip
    then = "profile q" if more else "profile p, where it stays"
    assert [(row.label, row.value) for row in plan.rows[:-1]] == [
        ("What arrives", "USDC at a new deposit address on ETHEREUM"), ("Becomes", "USD"),
        ("Then goes to", then), ("Profile", "p"), *[("Nickname", "n")] * bool(more),
    ]  # fmt: skip
    assert plan.facts == {"profile_id": "p", "asset": "USDC → USD"}


@pytest.mark.parametrize(
    ("given", "kind", "title"),
    [
        ({}, "ABA", "ABA wire"), ({"routing_number_type": "SWIFT"}, "SWIFT", "SWIFT wire"),
        ({"fiat_network": "CUBIX"}, None, "cubix"),
    ],
)  # fmt: skip
def test_for_what_deposit_instructions_are(
    given: Any, kind: str | None, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deposits, "context_of", lambda *_: context()[0])
    plan = deposits.plan_deposit(service(), profile_id="p", **given)
    assert plan.arguments.get("routing_number_type") == kind
    assert plan.title == f"Deposit instructions for a {title} into the profile"
    assert (plan.warnings, plan.facts) == ((), {"profile_id": "p"})
    address = deposits.plan_deposit_address(service(), profile_id="p", crypto_network="ETHEREUM")
    assert address.operation == ADDRESS
    assert address.warnings == ("What arrives from another network than ETHEREUM may be lost.",)
    reason, said = refusal(
        lambda: deposits.simulate_deposit(service(), instructions(), "5.00")
    )  # fmt: skip
    assert (reason, "is production" in said) == ("wrong_environment", True)


# -------------------------------------------------------------------------- files of journals


def test_a_journal_as_a_table() -> None:
    by_total = json.dumps({"total": "6.00"}).encode()
    entries = [
        entry(facts={"amount": "5.00", "asset": "USD"}, recorded_at=7, noted_at=8),
        entry(body=by_total, facts={"amount": "4.00"}, ref_id="a"),
        entry(body=by_total, facts={}, ref_id="b", fee="1", total="6.00"),
        entry(body=by_total, facts={}, ref_id="c", fee="1"),
        entry(operation=ADDRESS, body=by_total, facts={"amount": "3"}, ref_id="d"),
    ]
    frame = journal_files.journal_frame([(one, "u") for one in entries], {"a": "differs"})
    amounts = [None if value is pd.NA else str(value) for value in frame["amount"].astype(object)]
    assert amounts == ["5", None, "5", None, "3"]
    assert frame["confirmed_at"].astype("int64").tolist()[0] == 7
    assert frame["noted_at"].astype("int64").tolist()[0] == 8
    assert frame["action"].tolist() == ["withdrawal"] * 4 + ["deposit address"]
    assert frame["difference"].tolist()[1] == "differs"
    assert journal_files.journal_frame([]).empty


def test_a_journal_is_put_back_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    monkeypatch.setattr(journal_files, "journal_folder", lambda: here)
    desk = Desk(tmp_path / "there" / "service.sqlite")
    desk.record("one", 1)
    copied = tmp_path / "copy.sqlite"
    journal_files.copy_journal(desk.book.path, copied)
    at = "2026-01-01T00:00:00Z"
    said = journal_files.put_back(copied, at)
    assert said == "journal copy.sqlite: restored; it pays nothing before fl.resume() has run"
    assert [path.name for path in here.iterdir()] == ["copy.sqlite"]
    back = Journal(here / "copy.sqlite")
    assert (back.restored_from(), [one.ref_id for one in back.entries()]) == (at, ["one"])
    assert (here / "copy.sqlite").stat().st_mode & 0o777 == 0o600
    assert "one is here already and stays" in journal_files.put_back(copied, at)
    # One that came back, was backed up and came back again lacks all since the first backup.
    journal_files.copy_journal(back.path, copied)
    back.path.unlink()
    journal_files.put_back(copied, "2026-01-03T00:00:00Z")
    assert back.restored_from() == at
    back.mark_restored(None)
    journal_files.copy_journal(back.path, copied)
    back.path.unlink()
    journal_files.put_back(copied, "2026-01-04T00:00:00Z")
    assert back.restored_from() == "2026-01-04T00:00:00Z"


def test_which_journals_are_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_files, "journal_folder", lambda: tmp_path)
    mine = {"base_url": "https://a.example", "client_id": "c"}
    names = [f"{identity_of(mine)[1]}.sqlite", "other.sqlite", "note.txt"]
    for name in names:
        (tmp_path / name).write_text("")
    every = journal_files.journal_files(tmp_path)
    assert [path.name for path in every] == sorted(names[:2])

    def of(service: Any, **more: Any) -> list[str]:
        def said() -> Any:
            if service == "damaged":
                raise StoreError("damaged")
            return service

        store: Any = SimpleNamespace(service=said)
        return [path.name for path in journal_files.journals_of(store, **more)]

    assert of(mine) == of(mine, unless_known=True) == names[:1]
    for unknown in (None, {}, "damaged"):
        assert of(unknown) == []
        assert of(unknown, unless_known=True) == sorted(names[:2])
    assert journal_files.journal_files(tmp_path / "none") == []


def test_a_journal_that_is_not_intact_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(*statements: str) -> list[str]:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.sqlite"
        desk = Desk(path)
        desk.record("one", 1)
        desk.record("two", 2)
        spoiled(desk.book, *statements)
        monkeypatch.setattr(journal_files, "journals_of", lambda store: [path])
        return [why for _, why in journal_files.damaged_journals(SimpleNamespace())]  # type: ignore[arg-type]

    assert damage() == []
    assert damage("DELETE FROM intents WHERE number = 2") == [
        "row 2 of events belongs to no intent"
    ]
    assert damage("DELETE FROM events WHERE number = 2") == ["nothing is noted of intent 2"]
    (changed,) = damage("UPDATE events SET at = 9 WHERE number = 1")
    assert "what is noted of intent 1 is not what was written" in changed
    (older,) = damage("INSERT INTO events (intent, at, state, sha256) VALUES (1, 3, 'done', 'x')")
    assert "what is noted of intent 1" in older


def test_a_deposit_is_simulated_as_it_is_given_or_by_an_example() -> None:
    sent: list[Any] = []
    settings = SimpleNamespace(is_production=False)
    client = service(settings=settings, initiate_sandbox_fiat_deposit=lambda **g: sent.append(g))
    deposits.simulate_deposit(client, instructions(), "5.00")
    deposits.simulate_deposit(
        client, instructions(memo_id=None), "6.00", sender={"a": 1}, sending_bank={"b": 2}
    )
    first, second = sent
    assert (first["amount"], first["memo_id"]) == ("5.00", "M1")
    assert first["fiat_account_owner"]["institution_details"]["name"] == "Example Sender Inc."
    assert first["fiat_network_instructions"]["wire"]["account_number"] == "000000000001"
    assert second == {"amount": "6.00", "memo_id": "", "fiat_account_owner": {"a": 1},
                      "fiat_network_instructions": {"b": 2}}  # fmt: skip


def test_a_fee_is_asked_for_by_the_clock_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOON)
    quote, asked = a_quote(600).quote, []
    client = service(
        create_crypto_withdrawal_fee=lambda **given: asked.append(given) or quote,
        transport=SimpleNamespace(service_ns=lambda ns: ns + 100 * SECOND),
    )
    given: dict[str, Any] = {"asset": "USDC", "destination_address": "0x1",
                             "crypto_network": "ETHEREUM", "amount": "1"}  # fmt: skip
    found = quotes.quote_fee(client, **given)
    assert (found.quote, found.seconds_left) == (quote, 500.0)
    assert asked == [given | {"total": None, "identity_id": None}]
    assert quotes.quote_fee(client, **given, now=lambda: NOON).seconds_left == 600.0
