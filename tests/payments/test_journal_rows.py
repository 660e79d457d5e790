"""What the journal keeps and answers, row by row, by a clock that is set by hand."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fundlab.base.errors import ActionRefused, StoreDamaged, StoreError
from fundlab.payments import journal, journal_files
from fundlab.payments.identity import NOT_ALIKE, UPDATE, WITHDRAWAL, Entry, keyed
from fundlab.payments.journal import Journal, row_hash

SERVICE = {"base_url": "https://api.example.com", "client_id": "desk"}
ASKED = {"fiat_account_id": "A", "amount": "5.00"}


class Desk:
    """A journal whose clock shows ``now``."""

    def __init__(self, path: Path) -> None:
        self.now = 100
        self.book = Journal(path, SERVICE, lambda: self.now)

    def record(self, ref_id: str, at: int, operation: str = WITHDRAWAL, **more: Any) -> Entry:
        self.now = at
        asked = ASKED | {"ref_id": ref_id} | more
        asked = {name: text for name, text in asked.items() if text is not None}
        body = "{" + ",".join(f'"{name}":"{text}"' for name, text in asked.items()) + "}"
        return self.book.record(ref_id, operation, asked, body.encode(), {"amount": "5"})

    def note(self, of: Entry, state: Any, at: int, **made: Any) -> None:
        self.now = at
        self.book.note(of, state, SimpleNamespace(**made) if made else None, state)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "journal" / "service.sqlite")


def names(entries: list[Entry]) -> list[str]:
    return [one.ref_id for one in entries]


# ------------------------------------------------------------------------------ what it keeps


def test_an_entry_is_as_it_was_recorded(desk: Desk) -> None:
    kept = desk.book.record(
        "Rent", WITHDRAWAL, ASKED, b"{}", {"fee": None}, batch="b", store="s", at=7
    )
    assert kept == Entry(
        number=1, origin=desk.book.id, ref_id="Rent", operation=WITHDRAWAL, recorded_at=7,
        fingerprint=keyed(desk.book.id, WITHDRAWAL, ASKED), body=b"{}", facts={"fee": None},
        batch="b", store="s", sent_at=7, state="unknown", noted_at=7, resource_id=None,
        status=None, fee=None, total=None, detail="the service had it already, made at that time",
    )  # fmt: skip
    assert "body" not in repr(kept)
    assert desk.book.find("rENT") == kept == desk.book.entries()[0]
    assert desk.book.find("rent ") is None
    desk.now = 9
    again = desk.book.record("RENT", WITHDRAWAL, ASKED, b"other", {})
    assert (again.number, again.recorded_at, again.sent_at, again.noted_at) == (1, 7, 9, 9)
    assert (again.ref_id, again.body) == ("Rent", b"{}")
    with pytest.raises(ActionRefused, match="stands for another action"):
        desk.book.record("rent", WITHDRAWAL, ASKED | {"amount": "6"}, b"{}", {})


def test_what_is_done_stays_done_and_is_recorded_no_more(desk: Desk) -> None:
    one = desk.record("one", 1)
    desk.note(one, "refused", 2)
    found = desk.book.find("one")
    assert found is not None
    assert (found.state, found.detail, found.noted_at, found.sent_at) == (
        "refused", "refused", 2, 1,
    )  # fmt: skip
    desk.note(one, "done", 3, id="t", status="PENDING", fee="1", total="6")
    desk.note(one, "unknown", 4)
    assert desk.record("one", 5).state == "done"
    done = desk.book.find("one")
    assert done is not None
    assert (done.state, done.noted_at, done.sent_at) == ("done", 3, 4)
    assert (done.resource_id, done.status, done.fee, done.total) == ("t", "PENDING", "1", "6")
    desk.book.note(done, "done", SimpleNamespace(id="t", status=None))
    kept = desk.book.find("one")
    assert kept is not None
    assert (kept.status, kept.fee, kept.detail) == (None, None, "done")  # what was said stays said
    desk.book.note(done, "done", SimpleNamespace(id="t"), "unlike")
    kept = desk.book.find("one")
    assert (kept and kept.detail) == "unlike"


@pytest.mark.parametrize("refused", [False, True])
def test_what_is_allowed_is_looked_for_in_the_same_transaction(desk: Desk, refused: bool) -> None:
    desk.record("before", 1)
    seen: list[Any] = []

    def allow(book: Journal) -> None:
        seen.append(names(book.entries()))
        if refused:
            raise ActionRefused("own_limit", "no")

    asked: dict[str, Any] = {"allow": allow}
    if refused:
        with pytest.raises(ActionRefused):
            desk.book.record("one", WITHDRAWAL, ASKED, b"{}", {}, **asked)
    else:
        desk.book.record("one", WITHDRAWAL, ASKED, b"{}", {}, **asked)
    assert seen == [["before"]]
    assert names(desk.book.entries()) == ["before", *["one"] * (not refused)]


def test_which_attempt_is_the_only_one(desk: Desk) -> None:
    """A refusal settles those before it: the next is the only one again."""
    one, only = desk.record("one", 1), []
    desk.record("another", 1)

    def state(alone: bool) -> Any:
        only.append(alone)
        return "refused" if len(only) == 3 else "unknown" if len(only) < 6 else "done"

    made = SimpleNamespace(id="t", status="PENDING", fee=None, total=None)
    assert desk.book.note_attempt(one, state, made, "first") == "unknown"
    noted = desk.book.find("one")
    assert noted is not None
    assert (noted.detail, noted.resource_id) == ("first", None)
    for _ in range(2):
        desk.book.attempt(one)
        desk.book.note_attempt(one, state, None, "x")
    desk.book.attempt(one)
    for _ in range(3):
        desk.book.note_attempt(one, state, made, "x")
    assert only[:1] == [True]
    assert only[1:3] == [False, False]
    assert only[3] is True
    done = desk.book.find("one")
    assert done is not None
    assert (done.state, done.resource_id, done.detail) == ("done", "t", None)


def test_a_second_attempt_is_counted_since_the_last_refusal_alone(desk: Desk) -> None:
    one = desk.record("one", 1)
    found = []

    def state(alone: bool) -> Any:
        found.append(alone)
        return "refused"

    for attempts in (0, 1, 2, 1):
        for _ in range(attempts):
            desk.book.attempt(one)
        desk.book.note_attempt(one, state, None, "no")
    assert found == [True, True, False, True]


def test_what_was_accepted_leads_where_it_cannot_be_written(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = desk.record("one", 1)

    def full(*_: Any) -> int:
        raise StoreDamaged("no room")

    monkeypatch.setattr(Journal, "_add", full)
    with pytest.raises(StoreDamaged, match=r"^no room$"):
        desk.book.note(one, "absent")
    rest = "but this could not be written down; {}, once the journal is well: no room"
    for more, said in [
        ({}, "withdrawal t was accepted by the service (PENDING), " + rest.format(
            "running the same cell again finds it")),
        ({"known": "so", "otherwise": "or"}, "so, " + rest.format("or")),
    ]:  # fmt: skip
        with pytest.raises(StoreDamaged) as told:
            desk.book.note(one, "done", SimpleNamespace(id="t", status="PENDING"), **more)
        assert str(told.value) == said
    with pytest.raises(StoreDamaged, match=r"t was accepted by the service \(done\)"):
        desk.book.note(one, "done", SimpleNamespace(id="t"))


# -------------------------------------------------------------------------- what it is asked for


def test_what_was_sent_since_a_moment(desk: Desk) -> None:
    for name, at in (("a", 10), ("b", 20), ("c", 30)):
        desk.record(name, at)
    desk.record("update", 30, UPDATE)
    for since, found in [(10, "abc"), (11, "bc"), (20, "bc"), (30, "c"), (31, "")]:
        assert names(desk.book.sent_since(WITHDRAWAL, since)) == [*found]
    assert names(desk.book.sent_since(UPDATE, 0)) == ["update"]
    first = desk.book.find("a")
    assert first is not None
    desk.note(first, "refused", 40)  # no attempt
    assert names(desk.book.sent_since(WITHDRAWAL, 31)) == []
    desk.now = 50
    desk.book.attempt(first)
    assert names(desk.book.sent_since(WITHDRAWAL, 31)) == ["a"]
    desk.record("d", 5)  # by a clock that was set back
    assert names(desk.book.sent_since(WITHDRAWAL, 50)) == ["a", "d"]
    desk.now = 60
    desk.book.record("e", WITHDRAWAL, ASKED, b"{}", {}, at=7)  # found there, made long ago
    assert names(desk.book.sent_since(WITHDRAWAL, 50)) == ["a", "d"]
    assert names(desk.book.sent_since(WITHDRAWAL, 7)) == ["a", "b", "c", "d", "e"]
    desk.book.record("f", WITHDRAWAL, ASKED, b"{}", {}, at=55)  # and made lately
    assert names(desk.book.sent_since(WITHDRAWAL, 50)) == ["a", "d", "f"]


@pytest.mark.parametrize(
    ("operation", "theirs", "since", "found"),
    [
        (WITHDRAWAL, {}, 10, True),
        (WITHDRAWAL, {}, 11, False),
        (UPDATE, {}, 10, False),
        (WITHDRAWAL, {"amount": "5"}, 10, True),
        (WITHDRAWAL, {"amount": "5.01"}, 10, False),
        (WITHDRAWAL, {"memo": "x"}, 10, True),
        (WITHDRAWAL, {"fiat_account_id": "a"}, 10, True),
        (WITHDRAWAL, {"fiat_account_id": "b"}, 10, False),
        (WITHDRAWAL, {"amount": None, "total": "9"}, 10, True),
        (WITHDRAWAL, {"amount": None, "total": "9", "fiat_account_id": "a"}, 10, True),
        (WITHDRAWAL, {"amount": None, "total": "9", "fiat_account_id": "b"}, 10, False),
        (WITHDRAWAL, {"amount": None, "total": "9"}, 11, False),
    ],
)
def test_which_entries_ask_for_the_same(
    desk: Desk, operation: str, theirs: Any, since: int, found: bool
) -> None:
    desk.record("other", 10, operation, **theirs)
    desk.record("last", 10, WITHDRAWAL, fiat_account_id="c")
    assert names(desk.book.alike(WITHDRAWAL, ASKED, since)) == ["other"] * found
    by_total = {"fiat_account_id": "A", "total": "9.00"}
    is_there = operation == WITHDRAWAL and theirs.get("fiat_account_id", "A") in "Aa"
    same = names(desk.book.alike(WITHDRAWAL, by_total, since))
    assert same == ["other"] * (is_there and since == 10)


def test_an_account_whose_id_is_not_of_ascii_is_found_again(desk: Desk) -> None:
    desk.record("other", 10, fiat_account_id="é", amount=None, total="9")
    assert names(desk.book.alike(WITHDRAWAL, ASKED | {"fiat_account_id": "é"}, 10)) == ["other"]


def test_whose_a_resource_is(desk: Desk) -> None:
    one, update = desk.record("One", 1), desk.record("upd", 1, UPDATE)
    desk.note(one, "done", 2, id="t")
    desk.note(update, "done", 2, id="a")
    assert desk.book.made_for("t", one.operation, "two") == "One"
    assert desk.book.made_for("t", one.operation, "ONE") is None
    assert desk.book.made_for("u", one.operation, "two") is None
    assert desk.book.made_for("a", one.operation, "two") is None  # of another operation
    assert desk.book.made_for("a", UPDATE, "two") is None  # an update makes nothing

    def known(id_: str, ref_id: str | None) -> bool:
        transfer: Any = SimpleNamespace(id=id_, ref_id=ref_id)
        return desk.book.knows(transfer)

    assert known("t", None)
    assert known("x", "ONE")
    assert not known("x", "other")
    assert not known("x", None)


def test_a_restored_journal_pays_nothing_until_it_was_asked_about(desk: Desk) -> None:
    assert desk.book.restored_from() is None
    desk.book.mark_restored("2026-01-01T00:00:00.5Z")
    assert Journal(desk.book.path).restored_from() == "2026-01-01T00:00:00.5Z"
    with pytest.raises(ActionRefused, match="from a backup of 2026-01-01T00:00:00Z, and") as told:
        desk.record("one", 1)
    assert told.value.reason == "restored_journal"
    desk.book.mark_restored(None)
    assert desk.record("one", 1).number == 1
    assert Journal(desk.book.path, SERVICE).restored_from() is None


@pytest.mark.parametrize(("hours", "only"), [(0, False), (23, False), (24, True)])
def test_what_a_lost_journal_sent_may_be_on_its_way_for_a_day(
    desk: Desk, hours: int, only: bool
) -> None:
    """A refusal says nothing of an attempt that the journal does not know any more."""
    desk.book.mark_restored("2026-01-01T00:00:00Z")
    desk.now = 5
    desk.book.mark_restored(None)
    one = desk.record("one", desk.now + hours * 3600 * 10**9)
    other = desk.record("other", desk.now, "create_deposit_address")
    told: list[bool] = []

    def noticed(alone: bool) -> Any:
        told.append(alone)
        return "unknown"

    desk.book.note_attempt(one, noticed, None, "")
    assert told == [only]
    desk.book.note_attempt(other, noticed, None, "")
    assert told == [only, True], "nothing is paid by it, and asking for it is to send it again"
    last = desk.record("last", desk.now)
    desk.book.mark_restored("2026-01-01T00:00:00Z")  # it came back while this was on its way
    desk.book.note_attempt(last, noticed, None, "")
    assert told == [only, True, False]


# ------------------------------------------------------------------------------ its own file


def spoiled(book: Journal, *statements: str) -> None:
    with closing(sqlite3.connect(book.path)) as database:
        database.execute("PRAGMA synchronous = OFF")
        for name in ("intents_stay", "intents_kept", "events_stay", "events_kept"):
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(statement)
        database.commit()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("DELETE FROM intents WHERE number = 2", "1 of 2 rows are there: it is not"),
        ("DELETE FROM events WHERE number = 2", "1 of 2 rows are there: it is not"),
        ("UPDATE intents SET facts = '{}' WHERE number = 2", "intent 2 (two) is not what was"),
        ("UPDATE intents SET batch = '' WHERE number = 1", "intent 1 (one) is not what was"),
        ("UPDATE events SET at = 3 WHERE number = 2", "what is noted of intent 2 is not what was"),
        ("UPDATE about SET value = 'https://b.example' WHERE name = 'base_url'",
         "does not say whose it is as it was written"),
        ("DELETE FROM about WHERE name = 'client_id'", "does not say whose it is: restore"),
        ("DROP TABLE about", "does not say whose it is: restore"),
    ],
)  # fmt: skip
def test_damage_is_named(desk: Desk, statement: str, said: str) -> None:
    desk.record("one", 1)
    desk.record("two", 2)
    assert [row["number"] for row in desk.book._rows("intents")] == [1, 2]
    spoiled(desk.book, statement)
    with pytest.raises(StoreDamaged) as told:
        Journal(desk.book.path, SERVICE).entries()
    assert said in str(told.value)


def test_the_rows_of_a_damaged_one_are_read_where_they_are_not_counted(desk: Desk) -> None:
    desk.record("one", 1)
    desk.record("two", 2)
    spoiled(desk.book, "DELETE FROM events WHERE number = 2")
    with Journal(desk.book.path).opened(counted=False) as (book, _):
        assert [row["ref_id"] for row in book._rows("intents")] == ["one", "two"]
        assert [row["intent"] for row in book._rows("events")] == [1]


def test_a_hash_covers_each_value_and_the_row_before(desk: Desk) -> None:
    """As it was always made, so that journals of earlier versions are read."""
    desk.record("one", 1)
    desk.note(desk.record("two", 2), "refused", 3)
    with closing(sqlite3.connect(desk.book.path)) as database:
        rows = database.execute(
            "SELECT intent, at, state, resource_id, status, fee, total, detail, sha256 FROM events "
            "ORDER BY number"
        ).fetchall()
        likeness = database.execute("SELECT likeness FROM intents").fetchall()
    before = ""
    for *values, sha256 in rows:
        text = "".join(repr(value) for value in (*values, before))
        assert sha256 == hashlib.sha256(text.encode()).hexdigest()
        before = sha256
    assert likeness == [(keyed(desk.book.id, WITHDRAWAL, ASKED, NOT_ALIKE),)] * 2
    assert row_hash("é", b"\xff", 1, None) == hashlib.sha256(b"'\\xe9'b'\\xff'1None").hexdigest()


def test_a_file_that_is_cut_short_is_damaged(desk: Desk) -> None:
    desk.record("one", 1)
    size = desk.book.path.stat().st_size
    assert size % 4096 == 0
    with desk.book.path.open("ab") as file:
        file.write(b"\0")
    with pytest.raises(StoreDamaged, match="it is cut short"):
        Journal(desk.book.path, SERVICE).entries()


def test_a_journal_is_of_its_service_and_for_its_user_alone(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = desk.book.path
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    for mode, kept in ((0o640, 0o600), (0o601, 0o600), (0o400, 0o400)):
        path.chmod(mode)
        Journal(path).entries()
        assert path.stat().st_mode & 0o777 == mode  # only read, by whoever it is of
        Journal(path, SERVICE).entries()
        assert path.stat().st_mode & 0o777 == kept
    path.chmod(0o640)
    with monkeypatch.context() as another:  # who may change any file leaves another user's
        another.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
        Journal(path, SERVICE).entries()
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)
    with pytest.raises(StoreError, match=r"belongs to https://api\.example\.com \(client desk\), "):
        Journal(path, SERVICE | {"client_id": "other"}).entries()
    assert Journal(path).service == SERVICE
    assert Journal(path, {**SERVICE, "more": "x"}).service == SERVICE
    with pytest.raises(FileNotFoundError):
        Journal(tmp_path / "none.sqlite")
    other = Journal(tmp_path / "other.sqlite", SERVICE)
    assert other.id != desk.book.id
    assert len(other.id) == 32


def test_a_journal_that_was_replaced_is_told_by_its_id_and_by_its_file(
    desk: Desk, tmp_path: Path
) -> None:
    desk.record("one", 1)
    with desk.book.opened() as (book, _):
        Journal(tmp_path / "new.sqlite", SERVICE).path.replace(desk.book.path)
        with pytest.raises(StoreDamaged, match="has been replaced"), book.opened(write=True):
            pass
        desk.book.path.unlink()
        with pytest.raises(StoreDamaged, match="has been replaced"), book.opened(write=True):
            pass
    Journal(desk.book.path, SERVICE)
    with pytest.raises(StoreDamaged, match="has been replaced"):
        desk.book.entries()


def test_what_is_written_in_a_block_that_fails_is_not_kept(desk: Desk) -> None:
    one = desk.record("one", 1)

    def half() -> None:
        with desk.book.opened(write=True) as (book, database):
            book.note(one, "refused")
            assert database.in_transaction
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert [each.state for each in desk.book.entries()] == ["unknown"]
    with desk.book.opened() as (book, database):
        assert not database.in_transaction
        assert book.find("one") == one


def test_a_block_that_fails_leaves_the_connection_to_be_written_with(desk: Desk) -> None:
    one = desk.record("one", 1)

    def fail() -> None:
        with book.opened(write=True):
            book.note(one, "refused")
            raise ZeroDivisionError

    with desk.book.opened() as (book, database):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert not database.in_transaction
        book.note(one, "absent")
    assert [each.state for each in desk.book.entries()] == ["absent"]


def test_whatever_is_written_is_written_in_a_transaction(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, writes = Journal.opened, []

    def seen(book: Journal, *, write: bool = False, counted: bool = True) -> Any:
        if book._database is None:
            writes.append((write, counted))
        return opened(book, write=write, counted=counted)

    monkeypatch.setattr(Journal, "opened", seen)
    one = desk.record("one", 1)
    for call in (
        lambda: desk.book.attempt(one),
        lambda: desk.book.note_attempt(one, lambda only: "absent", None, ""),
        lambda: desk.book.note(one, "refused"),
        lambda: desk.book.mark_restored(None),
    ):
        call()
    assert writes == [(True, True)] * 5
    desk.book.find("one")
    assert writes[5:] == [(False, True)]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.unlink(), "it is gone; bring it back"),
        (lambda path: path.write_bytes(b""), "it is empty; restore it"),
        (lambda path: None, "see that its folder can be written and has room"),
    ],
)
def test_what_to_do_with_a_journal_that_cannot_be_used(
    desk: Desk, spoil: Callable[[Path], object], said: str
) -> None:

    def use() -> None:
        with desk.book.opened():
            spoil(desk.book.path)
            raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(StoreError, match=said):
        use()


@pytest.mark.parametrize(
    ("errors", "clock", "outcome"),
    [
        (["database is locked"] * 2, [0, 59, 59.9], "waited 2"),
        (["database is locked"] * 2, [0, 59, 60], "raised 2"),
        (["disk full"], [0], "raised 1"),
        ([], [0], "waited 0"),
    ],
)
def test_how_long_another_program_is_waited_for(
    errors: list[str], clock: list[float], outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, waits, tries = [*errors], [], []

    def execute(statement: str) -> None:
        tries.append(statement)
        if left:
            raise sqlite3.OperationalError(left.pop(0))

    times = iter(clock)
    monkeypatch.setattr(
        journal, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=waits.append)
    )
    database: Any = SimpleNamespace(execute=execute)
    if outcome.startswith("raised"):
        with pytest.raises(sqlite3.OperationalError):
            journal.patiently(database, "BEGIN")
    else:
        journal.patiently(database, "BEGIN")
        assert len(waits) == int(outcome[-1])
    assert len(tries) == len(errors) + outcome.startswith("waited")


@pytest.mark.parametrize(
    ("age_days", "service", "kept"),
    [
        (30.001, {"base_url": "http://127.0.0.1:1", "client_id": "c", "instance": "i"}, False),
        (29.999, {"base_url": "http://127.0.0.1:1", "client_id": "c", "instance": "i"}, True),
        (99, {"base_url": "http://127.0.0.1:1", "client_id": "c"}, True),
        (99, {"base_url": "https://a.example", "client_id": "c", "instance": "i"}, True),
        (99, None, True),
    ],
)
def test_the_journals_of_sandboxes_that_are_long_gone(
    tmp_path: Path, age_days: float, service: Any, kept: bool
) -> None:
    old = tmp_path / "old.sqlite"
    if service is None:
        old.write_text("damaged")
    else:
        Journal(old, service)
    then = time.time() - age_days * 86_400
    os.utime(old, (then, then))
    new = {"base_url": "http://127.0.0.1:2", "client_id": "c"}
    Journal(tmp_path / "new.sqlite", new)
    assert old.exists()  # only a sandbox's own, that names its instance, makes room
    Journal(tmp_path / "newer.sqlite", new | {"instance": "j"})
    assert old.exists() is kept


def test_new_journals_stay_on_a_disk_whose_clock_is_months_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_spring = time.time() + 99 * 86_400
    monkeypatch.setattr(journal.time, "time", lambda: in_spring)
    service = {"base_url": "http://127.0.0.1:1", "client_id": "c", "instance": "i"}
    for name in ("one", "other"):
        assert Journal(tmp_path / f"{name}.sqlite", service).entries() == []
    assert {one.name for one in tmp_path.iterdir()} == {"one.sqlite", "other.sqlite"}


def test_a_damaged_journal_is_kept_beside_those_that_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = {"base_url": "http://127.0.0.1:1", "client_id": "c", "instance": "i"}
    gone, damaged = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    Journal(gone, service)
    damaged.write_text("damaged")
    for path in (gone, damaged):
        os.utime(path, (0, 0))
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: [gone, damaged])
    Journal(tmp_path / "new.sqlite", service)
    assert (gone.exists(), damaged.exists()) == (False, True)


@pytest.mark.parametrize(
    ("base_url", "key", "begins"),
    [
        ("https://Api.example.com", "https://api.example.com:443 c", "api.example.com-"),
        ("https://api.example.com:443/v2", "https://api.example.com:443/v2 c", "api.example.com-"),
        ("https://api.example.com:8443", "https://api.example.com:8443 c", "api.example.com-"),
        ("http://localhost:80", "loopback:80 c", "loopback-"),
        ("http://127.0.0.1:80/x", "loopback:80/x c", "loopback-"),
    ],
)
def test_how_a_service_is_told_from_others(base_url: str, key: str, begins: str) -> None:
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    found = journal.identity_of({"base_url": base_url, "client_id": "c"})
    assert found == (key, f"{begins}{digest}")
    with pytest.raises(StoreError, match="names no service that it belongs to"):
        journal.check_owner("p", {}, SERVICE)


def test_where_a_clients_journal_is(tmp_path: Path) -> None:
    def client(loopback: bool, instance: str | None) -> Any:
        url = "http://127.0.0.1:9" if loopback else SERVICE["base_url"]
        settings = SimpleNamespace(on_loopback=loopback, journal=tmp_path / "journals")
        return SimpleNamespace(
            base_url=url, client_id="desk", settings=settings,
            transport=SimpleNamespace(instance=lambda: instance),
        )  # fmt: skip

    path, service = journal.place_of(client(False, "0123456789abcdef"))
    assert service == SERVICE
    assert path == tmp_path / "journals" / f"{journal.identity_of(SERVICE)[1]}.sqlite"
    path, service = journal.place_of(client(True, "0123456789abcdef"))
    assert service["instance"] == "0123456789abcdef"
    assert path.name.endswith("-0123456789ab.sqlite")
    assert "instance" not in journal.place_of(client(True, None))[1]

    one = client(False, None)
    assert journal.existing_journal(one) is None
    assert not (tmp_path / "journals").exists()
    store: Any = SimpleNamespace(path=tmp_path, service=lambda: None)
    made = journal.open_journal(one, store, lambda: 7)
    assert made._clock() == 7
    found = journal.existing_journal(one)
    assert found is not None
    assert (found.path, found.id, found.service) == (made.path, made.id, SERVICE)
    theirs = SERVICE | {"base_url": "https://b.example"}
    foreign: Any = SimpleNamespace(path=tmp_path, service=lambda: theirs)
    with pytest.raises(StoreError, match=r"belongs to https://b\.example"):
        journal.open_journal(one, foreign)


def test_a_journal_of_another_schema_is_refused(desk: Desk) -> None:
    assert repr(desk.book) == f"Journal({str(desk.book.path)!r})"
    with closing(sqlite3.connect(desk.book.path)) as database:
        about = dict(database.execute("SELECT name, value FROM about")) | {"schema_version": "99"}
        del about["sha256"]
        about["sha256"] = row_hash(*(text for pair in sorted(about.items()) for text in pair))
        for name, value in about.items():
            database.execute("UPDATE about SET value = ? WHERE name = ?", (value, name))
        database.commit()
    with pytest.raises(StoreError, match="is a journal of schema '99', this version of fundlab re"):
        Journal(desk.book.path).entries()


def test_a_connection_is_patient_and_is_closed_where_it_cannot_begin(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_PATIENCE_S", 1.5)
    with closing(desk.book._connect()) as database:
        assert database.execute("PRAGMA busy_timeout").fetchone() == (1_500,)
        assert database.isolation_level is None
    begun = []

    def fails(database: sqlite3.Connection, statement: str) -> None:
        begun.append(database)
        raise KeyboardInterrupt

    monkeypatch.setattr(journal, "patiently", fails)
    with pytest.raises(KeyboardInterrupt):
        desk.book._connect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        begun[0].execute("SELECT 1")


def test_an_index_that_would_hide_a_row_is_damage(desk: Desk) -> None:
    """Here it is said to be of other columns than it was made of."""
    desk.record("Rent", 1)
    with closing(sqlite3.connect(desk.book.path)) as database, database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX intents_recorded ON intents "
            "(recorded_at, operation)' WHERE name = 'intents_recorded'"
        )
    assert names([found for found in [desk.book.find("rent")] if found]) == ["Rent"]
    with pytest.raises(StoreDamaged, match=r"the file \(row 1 missing from index intents_recorded"):
        desk.book.entries()


def test_the_name_of_a_new_journal_is_on_disk_and_no_other_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[Path, list[str]]] = []

    def sync_folder(folder: Path) -> None:
        synced.append((folder, [one.name for one in folder.iterdir()]))

    monkeypatch.setattr(journal, "sync_folder", sync_folder)
    journal.create_journal(tmp_path / "a.sqlite", SERVICE)
    assert synced == [(tmp_path, ["a.sqlite"])]


def test_the_name_of_a_restored_journal_is_on_disk_and_no_other_is_left(
    tmp_path: Path, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, synced = tmp_path / "here", list[tuple[Path, list[str]]]()
    desk.record("Rent", 1)

    def sync_folder(folder: Path) -> None:
        synced.append((folder, [one.name for one in folder.iterdir()]))

    monkeypatch.setattr(journal_files, "journal_folder", lambda: here)
    monkeypatch.setattr(journal_files, "sync_folder", sync_folder)
    said = journal_files.put_back(desk.book.path, "2026-01-01T00:00:00Z")
    assert said.startswith("journal service.sqlite: restored; it pays nothing before ")
    assert synced == [(here, ["service.sqlite"])]


def test_a_journal_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(error: Exception, cause: Exception | None = None) -> Callable[..., Any]:
        def fail(*given: Any, **named: Any) -> None:
            try:
                raise cause or error
            except type(cause or error):
                raise error  # noqa: B904 - with its context

        return fail

    for name, fail, why in (
        ("os.link", fails(OSError(18, "Invalid cross-device link")), "Invalid cross-device link"),
        ("sqlite3.connect", fails(sqlite3.OperationalError("disk I/O error")), "disk I/O error"),
        ("make_folder", fails(StoreError("it is not there"), OSError("read-only")), "read-only"),
        ("make_folder", fails(StoreError("it is not there")), "it is not there"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"fundlab.payments.journal.{name}", fail)
            with pytest.raises(StoreError, match=f"a.sqlite cannot be made: {why}; nothing was se"):
                journal.create_journal(tmp_path / "a.sqlite", SERVICE)
        assert [*tmp_path.iterdir()] == []
