"""``fundlab status``: silent while all is well; and each thing that did not happen, told."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab import reports, sandbox
from fundlab.base.errors import InvalidRequest, PermissionDenied, StoreDamaged
from fundlab.base.values import Instant
from fundlab.operate.status import Status, status
from fundlab.payments.reconciliation import Difference, Reconciliation
from fundlab.store.runs import RUNS

HOUR = 3600 * 10**9
NOW = int(datetime(2026, 11, 20, 8, tzinfo=UTC).timestamp()) * 10**9


class Clock:
    now = NOW

    def __call__(self) -> int:
        return self.now


@pytest.fixture(scope="module")
def client() -> Iterator[fl.Client]:
    with sandbox.serve(seed=7, transfers=30) as serving, serving.connect() as connected:
        yield connected


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(client: fl.Client, tmp_path: Path, clock: Clock) -> fl.Store:
    """A store after a good night, an hour ago."""
    books = fl.Store(tmp_path / "books", clock=clock)
    clock.now = NOW - HOUR
    books.sync(client)
    books.note_run("report", {"problems": 0})
    clock.now = NOW
    return books


def told(found: Status) -> list[tuple[str, str]]:
    return [(one.about.split(" of ")[0], one.kind) for one in found.findings]


def test_all_is_well_in_one_line(store: fl.Store) -> None:
    found = status(store, now=NOW)
    assert (found.ok, found.missed, told(found)) == (True, False, [])
    line = str(found)
    assert re.fullmatch(
        rf"all is well but for 4 transfers pending for up to 50 d 20 h: {store.path}: "
        r"synced 1 h ago, reported 1 h ago, [\d,.]+ GB free",
        line,
    )
    assert {*found.synced} == {
        "transfers", "events", "addresses", "fiat_accounts", "deposit_instructions", "balances",
    }  # fmt: skip


def test_a_report_is_missed_once_there_was_time_for_one(
    client: fl.Client, tmp_path: Path, clock: Clock
) -> None:
    store = fl.Store(tmp_path / "new", clock=clock)
    store.sync(client)
    assert told(status(store, now=NOW + HOUR)) == []
    clock.now = NOW + 20 * HOUR
    store.sync(client, full=True)
    assert told(status(store, now=NOW + 27 * HOUR)) == [("report", "missed")]


@pytest.mark.thorough
def test_a_report_is_noted_with_what_it_found(store: fl.Store, tmp_path: Path) -> None:
    fl.report(store, "2026-10-05", as_of="2027-01-01", out=tmp_path, formats=["csv"])
    assert store.runs()["report"] == {"at": "2026-11-20T07:00:00.000000000Z", "problems": 0}
    fl.report(store, "2026-10-05", out=tmp_path, formats=["csv"])
    assert store.runs()["report"] == {"at": "2026-11-20T08:00:00.000000000Z", "problems": 0}
    store.note_run("report", {"problems": 2})
    fl.report(store, "2026-10-05", out=tmp_path, formats=["csv"])  # of one day: it takes none back
    assert store.runs()["report"]["problems"] == 2
    reports.catch_up(store, tmp_path, ["csv"], since="2099-01")
    assert store.runs()["report"]["problems"] == 0


@pytest.mark.seconds
def test_a_report_of_a_period_takes_back_what_an_earlier_one_found_of_it(tmp_path: Path) -> None:
    """Of the two of September the service mends one before each of the reports."""
    clock = Clock()
    made = dict.fromkeys(("created_at", "updated_at"), "2026-09-05T00:00:00Z")
    service = FakeService(
        [transfer(n, total="9", amount="8", fee="0", **made) for n in (1, 2)], complete=True
    )
    store = fl.Store(tmp_path / "store", clock=clock)
    days = iter(range(1, 100))

    def problems(*periods: str | None, verify: bool = False, mend: int | None = None) -> int:
        clock.now = NOW + 24 * HOUR * next(days)
        if mend is not None:
            service.transfers[mend] |= {"amount": "9", "updated_at": "2026-10-01T00:00:00Z"}
        store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
        for period in periods:
            fl.report(store, period, out=tmp_path / "out", formats=["csv"])
        if verify:
            clock.now += HOUR
            store.verify()
        return status(store, now=clock.now + HOUR, expect=[]).problems

    assert problems("2026-09") == 2
    assert problems("2026-10") == 2
    assert problems("2026-09", mend=0) == 1
    assert problems(None) == 1
    assert problems("2026-10") == 1
    assert problems("2026-09", mend=1) == 1  # all rows had one: maybe it is another one
    assert problems(verify=True) == 0
    assert problems("2026-10") == 0
    assert problems(None) == 0


def test_a_run_that_did_not_come_is_told(store: fl.Store, client: fl.Client, clock: Clock) -> None:
    assert told(status(store, now=NOW + 24 * HOUR)) == []
    late = status(store, now=NOW + 26 * HOUR)
    assert told(late) == [("sync", "missed"), ("report", "missed")]
    assert "the last was 1 d 3 h ago, at 2026-11-20T07:00:00Z; see whether the timer" in str(late)
    # A sync that brings nothing new is one, too; then the report is what is missing.
    clock.now = NOW + 26 * HOUR
    store.sync(client)
    assert told(status(store, now=NOW + 26 * HOUR)) == [("report", "missed")]
    # One table that no run brings any more.
    clock.now = NOW + 53 * HOUR
    store.sync(client, tables=["transfers"])
    assert told(status(store, now=NOW + 53 * HOUR, expect=["sync"])) == [("sync", "missed")]


def test_a_clock_that_jumped_is_told(store: fl.Store, client: fl.Client, clock: Clock) -> None:
    clock.now = NOW + 5 * HOUR
    store.sync(client)
    found = status(store, now=NOW)
    assert told(found) == [("sync", "missed")]
    assert (
        "which is yet to come: set the clock right; if it was wrong then, run 'fundlab sync'\n"
    ) in str(found)
    assert ": synced 5 h ahead of this clock, reported 1 h ago, " in str(found)


def test_what_was_never_done_is_told_where_it_is_expected(store: fl.Store) -> None:
    expected = ["sync", "report", "verify", "close"]
    found = status(store, now=NOW, expect=expected)
    assert told(found) == [("verify", "missed"), ("close", "missed")]
    assert "close: run 'fundlab close 2026-10': it is over" in str(found)
    assert told(status(store, now=NOW - 12 * 24 * HOUR, expect=["close"])) == [
        ("sync", "missed"), ("report", "missed"), ("close", "missed"),
    ]  # fmt: skip
    store.verify()
    assert told(status(store, now=NOW, expect=["verify"])) == []


def test_a_store_in_which_nothing_was_compared_is_not_called_well(
    tmp_path: Path, fundlab: Any
) -> None:
    store, service = fl.Store(tmp_path / "books"), FakeService([transfer(1), transfer(2)])
    store.sync(service, tables=["transfers"])  # type: ignore[arg-type]
    found = status(store)
    said = (
        "nothing to compare: No balance was ever fetched, so nothing proves the 2 transfers: "
        "'fundlab sync balances' fetches what the service reports."
    )
    first, line = str(found).split("\n")
    assert (found.ok, first) == (True, said)
    assert line.startswith(f"{store.path}: synced ")
    exit_status, out, _ = fundlab("status", "--offline", "--quiet", "--store", store.path)
    assert (exit_status, out.split("\n")[0]) == (0, said)
    assert said in str(status(store, expect=["verify"]))  # beside what was missed
    store.sync(service, tables=["balances"])  # type: ignore[arg-type]
    assert str(status(store)).startswith("all is well: ")


@pytest.mark.parametrize(
    ("since", "accepted", "said"),
    [
        ("2026-10-01", False, "The store begins at 2026-10-01 00:00 UTC and has no transfers from "
         "then on: 'fundlab sync' fetches new ones, 'fundlab sync --full' those made before, too."),
        (None, True, "There are no transfers and no balances but those of profiles that are no "
         "longer ours."),
    ],
)  # fmt: skip
def test_a_store_without_a_balance_to_judge_is_not_called_well(
    tmp_path: Path, since: str | None, accepted: bool, said: str
) -> None:
    """Its one transfer was made before it begins, or is of a profile that is no longer ours."""
    service = FakeService([transfer(1, profile_id="p-1")])
    store = fl.Store(tmp_path)
    store.sync(service, ["transfers", "balances"], since=since)  # type: ignore[arg-type]
    if accepted:
        service.hook = refuse_balances
        store.sync(service, ["balances"])  # type: ignore[arg-type]
        store.accept_refused(profile_id="p-1", by="Ana", reason="sold")
    found = status(store)
    assert (found.ok, found.unproved) == (True, said)
    assert str(found).startswith(f"nothing to compare: {said}\n")
    judged = fl.reconcile.judge(store)
    assert judged.state == "nothing_to_compare"
    assert judged.text.startswith(f"Nothing to compare. {said}")


def refuse_balances(operation: str, query: dict[str, Any]) -> None:
    if operation == "get_profile_balance":
        raise PermissionDenied(403, "Forbidden")


def test_a_month_before_the_first_transfer_needs_no_close(tmp_path: Path) -> None:
    """The transfers are of March; within ten days of its end it need not be closed yet."""
    store = fl.Store(tmp_path)
    store.sync(FakeService([transfer(1)]))  # type: ignore[arg-type]
    days = {"2026-04-02": [], "2026-04-12": ["close: run 'fundlab close 2026-03': it is over"]}
    for day, expected in days.items():
        now = int(datetime.fromisoformat(f"{day}T08:00:00+00:00").timestamp()) * 10**9
        found = status(store, now=now, expect=["close"])
        assert [str(one) for one in found.findings if one.about == "close"] == expected


def test_rows_that_are_gone_are_named_with_the_command_that_accepts_them(tmp_path: Path) -> None:
    service = FakeService([transfer(number) for number in range(1, 7)], complete=True)
    books = fl.Store(tmp_path / "books")
    books.sync(service, tables=["transfers"])  # type: ignore[arg-type]
    del service.transfers[1:5]
    books.sync(service, tables=["transfers"], full=True)  # type: ignore[arg-type]
    (found,) = [one for one in status(books).findings if one.about == "gone rows"]
    assert found.detail == (
        "the service lists 4 rows no more: t-000002, t-000003, t-000004 and 1 more; run 'fundlab "
        "accept-gone' with the ids once you know why"
    )


def test_problems_are_open_until_a_verification_finds_none(store: fl.Store, clock: Clock) -> None:
    store.note_run("verify", {"problems": 2})
    clock.now += 1
    store.note_run("report", {"problems": 0})  # which reads no file's every byte
    found = status(store, now=NOW)
    assert told(found) == [("problems", "open")]
    assert "problems: 2 problems, by the last verify; run 'fundlab verify'" in str(found)
    assert not found.missed
    store.note_run("report", {"problems": 3})
    assert "problems: 3 problems, by the last report" in str(status(store, now=NOW))
    clock.now += 1
    store.verify()
    assert status(store, now=NOW).ok


def test_a_run_that_cannot_be_noted_is_done_and_says_so(
    store: fl.Store, caplog: pytest.LogCaptureFixture
) -> None:
    before = store.runs()
    (store.path / "runs" / "report.json").unlink(missing_ok=True)
    (store.path / "runs" / "report.json").mkdir()
    store.note_run("report", {"problems": 0})
    (said,) = caplog.messages
    assert said.startswith("this report is not noted for 'fundlab status': ")
    (store.path / "runs" / "report.json").rmdir()
    assert {run: noted for run, noted in before.items() if run != "report"} == store.runs()


def test_a_disk_that_is_full_is_told(store: fl.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10_000))
    found = status(store, now=NOW)
    assert told(found) == [("disk", "missed")]
    assert "disk: 0 MB free; make room: a sync may need 500 MB\n" in str(found)


@pytest.mark.parametrize(("seconds", "words"), [(600, "600 s behind"), (-600, "600 s ahead of")])
def test_a_clock_that_is_wrong_is_told(store: fl.Store, seconds: int, words: str) -> None:
    date = datetime.fromtimestamp(NOW / 1e9 + seconds, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    answer = SimpleNamespace(headers={"Date": date})
    asked: Any = SimpleNamespace(transport=SimpleNamespace(probe=lambda: answer))
    found = status(store, client=asked, now=NOW)
    assert (told(found), found.clock_skew) == ([("clock", "missed")], seconds)
    assert f"this machine's is {words} the service's" in str(found)


def test_an_action_of_which_nobody_knows_is_told(
    store: fl.Store, client: fl.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_JOURNAL", str(client.settings.journal))
    profile = str(store.read("balances")["profile_id"].iloc[0])
    plan = fl.plan_deposit(client, profile_id=profile, say=lambda line: None)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fl.Client, "create_fiat_deposit_instructions", dies)
    with pytest.raises(KeyboardInterrupt):
        plan.submit(confirm=plan.code)
    soon = status(store, expect=["report"], max_age=timedelta(days=9999))
    assert soon.pending == 0  # it may be on its way
    later = status(
        store, expect=["report"], max_age=timedelta(days=9999), now=time.time_ns() + HOUR
    )
    assert (later.pending, told(later)) == (1, [("payments", "missed")])


@pytest.mark.parametrize(
    ("kind", "ref_id", "how", "named"),
    [("missing", "one", "missed", "one"), ("other", None, "open", "t-1"),
     *((kind, "one", "open", "one") for kind in ("card", "moved", "several", "shared"))],
)  # fmt: skip
def test_a_payment_that_differs_is_open_and_one_that_is_not_there_did_not_happen(
    store: fl.Store, client: fl.Client, monkeypatch: pytest.MonkeyPatch, kind: Any,
    ref_id: str | None, how: str, named: str,
) -> None:  # fmt: skip
    one = Difference(kind, ref_id, "t-1", "it differs")
    monkeypatch.setattr(
        "fundlab.operate.status.reconciled", lambda *_: Reconciliation(1, (one,), ())
    )
    (found,) = status(store, now=NOW).findings
    advice = f"it differs; run 'fundlab accept-payment {named}' once you know why"
    assert (found.about, found.kind, found.detail) == ("payments", how, advice)


def test_the_command(
    store: fl.Store, client: fl.Client, fundlab: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    where = ("--store", str(store.path))
    fresh = fl.Store(store.path)
    fresh.sync(client)
    fresh.note_run("report", {})
    result, out, err = fundlab("status", "--offline", *where)
    assert (result, err) == (0, "")
    assert out.startswith("all is well but for 4 transfers pending for up to ")
    assert out.count("\n") == 1
    assert fundlab("status", "--offline", "--quiet", *where) == (0, "", "")
    # Asked once, the service says what time it is; without settings there is a way out.
    result, _, err = fundlab("status", *where)
    assert result == 1
    assert "Or give --offline" in err
    for name in ("base_url", "auth_url", "client_id", "client_secret"):
        value = getattr(client.settings, name)
        text = value.reveal() if name == "client_secret" else value
        monkeypatch.setenv(f"FUNDLAB_{name.upper()}", text)
    result, out, _ = fundlab("status", "--json", *where)
    assert (result, json.loads(out)["ok"]) == (0, True)
    assert abs(json.loads(out)["clock_skew"]) < 60
    # What did not happen is 1, what is open 3.
    fresh.note_run("report", {"problems": 1})
    assert fundlab("status", "--offline", *where)[0] == 3
    assert fundlab("status", "--offline", "--expect", "verify", *where)[0] == 1


@pytest.mark.parametrize("options", [("--max-age", "5x"), ("--expect", "moon"), ("--expect", "")])
def test_wrong_usage(fundlab: Any, options: tuple[str, str]) -> None:
    result, _, err = fundlab("status", *options)
    assert (result, " give " in err) == (2, True)


def test_what_no_expectation_is(store: fl.Store) -> None:
    with pytest.raises(InvalidRequest, match="expect='moon': give some of sync"):
        status(store, expect=["moon"])
    with pytest.raises(
        InvalidRequest, match="max_age=0:00:00: give a timedelta of more than nothing"
    ):
        status(store, max_age=timedelta(0))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_age": 5}, "max_age=5: give a timedelta"),
        ({"max_age": "26h"}, "max_age=26h: give a timedelta"),
        ({"expect": 5}, "expect=5: give a text or a list of texts"),
        ({"now": "x"}, "now='x': give the nanoseconds since 1970"),
    ],
)
def test_an_argument_of_another_type_is_named(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        status(fl.Store(tmp_path), **given)


def test_one_expectation_may_be_a_text(store: fl.Store) -> None:
    assert told(status(store, expect="verify"))[0][0] == "verify"


def test_a_run_that_cannot_be_noted_is_done(
    store: fl.Store, caplog: pytest.LogCaptureFixture
) -> None:
    for file in (store.path / RUNS).iterdir():
        file.unlink()
    (store.path / RUNS).rmdir()
    (store.path / RUNS).write_text("not a folder")
    assert store.verify().ok
    assert "this verify is not noted for 'fundlab status'" in caplog.text
    (store.path / RUNS).unlink()
    (store.path / RUNS).mkdir()
    assert store.runs() == {}


def test_a_note_that_was_changed_is_named_and_stops_no_sync(store: fl.Store) -> None:
    store.verify()
    path = store.path / RUNS / "verify.json"
    path.write_bytes(path.read_bytes().replace(b'"problems":0', b'"problems":1'))
    with pytest.raises(StoreDamaged, match=r"runs/verify.json: is not what was written"):
        store.runs()
    (finding,) = [one for one in status(store).findings if one.about == "notes"]
    assert "verify.json" in finding.detail
    store.verify()  # writes it anew
    assert store.runs()["verify"]["problems"] == 0


def test_what_a_killed_run_left_of_its_note_goes(store: fl.Store) -> None:
    left = store.path / RUNS / f".verify.json.{'a' * 32}.tmp"
    left.write_bytes(b"{")
    store.compact()
    assert not left.exists()


def test_a_read_only_store_is_not_written_to(store: fl.Store) -> None:
    before = store.runs()
    fl.Store(store.path, read_only=True).verify()
    assert store.runs() == before


def test_transfers_that_wait_for_long_are_counted_from_seven_days_on(store: fl.Store) -> None:
    rows = store.read("transfers")
    made = sorted(rows.loc[rows["status"] == "PENDING", "created_at"].astype("int64").tolist())
    for now in (NOW, made[-1], made[0] + 169 * HOUR, made[0] + 167 * HOUR):
        found = status(store, now=now, expect=["verify"])
        late = [at for at in made if at < now - 168 * HOUR]
        assert found.waiting == len(late)
        assert found.waiting_since == (str(Instant.from_ns(late[0])) if late else None)
