"""One judgement: verify, report, demo, exit statuses and compare say the same, and it is so."""

from __future__ import annotations

import json
import pickle
import re
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import polars
import pytest
from fake_service import FakeService, moment, transfer, withdrawal

import fundlab as fl
from fundlab import Store
from fundlab import reports as reporting
from fundlab.evidence.observations import Moves
from fundlab.evidence.verdict import Judgement
from fundlab.models import ProfileBalance
from fundlab.operate.status import status
from fundlab.store import disk
from fundlab.store.remote import StorePath

Pair = tuple[str, str]
PROFILES = ("p-1", "p-2", "p-3")
ASSETS = ("USD", "USD", "BTC")
KINDS = (
    ("CREDIT", "WIRE_DEPOSIT", "COMPLETED"),
    ("CREDIT", "WIRE_DEPOSIT", "COMPLETED"),
    ("CREDIT", "WIRE_DEPOSIT", "PENDING"),
    ("DEBIT", "WIRE_WITHDRAWAL", "PENDING"),
    ("DEBIT", "WIRE_WITHDRAWAL", "COMPLETED"),
)


class Cut(BaseException):
    """A run that was killed."""


@dataclass
class Lying(FakeService):
    """Reports a balance ``lies`` more than it is, and remembers the last lie of each."""

    lies: dict[Pair, Decimal] = field(default_factory=dict)
    said: dict[Pair, Decimal] = field(default_factory=dict)

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        found = super().get_profile_balance(profile_id, asset)
        lie = self.said[profile_id, asset] = self.lies.get((profile_id, asset), Decimal(0))
        return ProfileBalance.model_validate(
            {"asset": asset, "available": f"{found.available + lie:f}", "trading": "0"}
        )


class History:
    """One store and its service, moved by chance; ``first`` and ``last`` are the lies that the
    store's first and last observation of each balance rest on."""

    def __init__(self, folder: Path, chance: Random, patch: pytest.MonkeyPatch) -> None:
        self.store, self.chance, self.patch = Store(folder), chance, patch
        with self.store.lock():
            pass  # as its first sync begins
        self.service = Lying(largest_page=5)
        self.now = 1_000
        self.first: dict[Pair, Decimal] = {}
        self.last: dict[Pair, Decimal] = {}
        self.unseen: dict[str, Pair] = {}
        for profile in PROFILES:
            for asset in ("USD", "BTC"):  # enough for every debit that comes
                self.arrive(profile, asset, KINDS[0], "1000")
        for _ in range(chance.randint(0, 12)):
            self.arrive()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            work = self.chance.choice(
                [self.arrive, self.arrive, self.settle, self.lie, self.sync, self.sync, self.sync,
                 self.cut, self.half, self.compact]
            )  # fmt: skip
            work()

    # ------------------------------------------------------------------ the service moves

    def arrive(
        self, profile: str = "", asset: str = "", kind: tuple[str, ...] = (), amount: str = ""
    ) -> None:
        self.now += self.chance.randint(1, 400)
        direction, name, status = kind or self.chance.choice(KINDS)
        amount = amount or str(self.chance.randint(1, 9))
        self.service.transfers.append(
            transfer(
                self.now,
                profile_id=profile or self.chance.choice(PROFILES),
                type=name,
                asset=asset or self.chance.choice(ASSETS),
                status=status,
                direction=direction,
                amount=amount,
                total=amount,
            )
        )

    def settle(self) -> None:
        pending = [row for row in self.service.transfers if row["status"] == "PENDING"]
        if not pending:
            return
        self.now += 1
        row = self.chance.choice(pending)
        row.update(status=self.chance.choice(["COMPLETED", "FAILED"]), updated_at=moment(self.now))
        begins = self.begins
        if begins is not None and row["created_at"] < begins:  # it begins too late to see this
            self.unseen[row["id"]] = row["profile_id"], row["asset"]

    def lie(self) -> None:
        pair = self.chance.choice(PROFILES), self.chance.choice(ASSETS)
        if self.service.lies.pop(pair, None) is None:
            self.service.lies[pair] = Decimal(self.chance.randint(1, 9)) / 4

    # ------------------------------------------------------------------ the store follows

    @property
    def begins(self) -> str | None:
        last = self.store.snapshot("transfers").last
        since = None if last is None else last.query["since"]
        return None if since is None or since.startswith("1970") else str(since)

    @property
    def looks(self) -> int:
        """How many times the store has looked at balances."""
        return len(self.store.snapshot("balances").publications)

    def sync(self) -> None:
        before = self.looks
        tables = self.chance.choice([None, None, ["transfers"], ["balances"], ["events"]])
        since = self.chance.choice([None, None, moment(self.chance.randint(0, self.now)),
                                    "1970-01-01T00:00:00Z"])  # fmt: skip
        self.service.said.clear()
        try:
            self.store.sync(
                self.service,  # type: ignore[arg-type]
                tables=tables, since=since, full=self.chance.random() < 0.1, progress=False,
            )  # fmt: skip
        finally:
            if self.looks > before:
                for pair, lie in self.service.said.items():
                    self.first.setdefault(pair, lie)
                    self.last[pair] = lie
                if self.begins is None:
                    self.unseen.clear()

    def cut(self) -> None:
        """A sync that is killed while it asks."""
        left = self.chance.randint(0, 12)

        def strike(operation: str, params: dict[str, str]) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Cut

        self.service.hook = strike
        self._ended()
        self.service.hook = lambda operation, params: None

    def half(self) -> None:
        """A sync that is killed between the renames of two tables."""
        left, original = self.chance.randint(0, 2), disk.publish

        def strike(hidden: Path, path: StorePath) -> None:
            nonlocal left
            left -= path.name.startswith("part")
            if left < 0:
                raise Cut
            original(hidden, path)

        self.patch.setattr(disk, "publish", strike)
        self._ended()
        self.patch.setattr(disk, "publish", original)

    def _ended(self) -> None:
        with suppress(Cut):
            self.sync()

    def compact(self) -> None:
        self.store.compact()

    # ------------------------------------------------------------------ what is true

    def broken(self) -> set[Pair]:
        """The balances that must break: what the store takes for the opening of one that begins
        late is the first observation, with the lie it was."""
        if self.begins is None:
            return {pair for pair, lie in self.last.items() if lie}
        return {pair for pair, lie in self.last.items() if lie != self.first[pair]}

    def unclear(self) -> set[Pair]:
        """Balances of which the store cannot know all: see :meth:`settle`."""
        return set(self.unseen.values())


D = Decimal


@pytest.fixture
def store(tmp_path: Path) -> fl.Store:
    return fl.Store(tmp_path / "store")


def pairs(frame: pd.DataFrame) -> set[Pair]:
    return set(zip(frame["profile_id"], frame["asset"], strict=True))


def compared(store: fl.Store, opening: pd.DataFrame | None = None) -> pd.DataFrame:
    return fl.reconcile.compare(store.read("transfers"), store.read("balances"), opening)


# ------------------------------------------------------------------------------- the law


def agree(store: fl.Store, reports: Path | None = None) -> Judgement:
    """Whatever looks at ``store`` says the same; with a folder the reports there, too."""
    judgement = fl.reconcile.judge(store)
    told = status(store)  # before verify notes anything for it
    assert told.breaks == judgement.breaks
    assert ("breaks" in [one.about for one in told.findings]) == bool(judgement.breaks)
    verified = store.verify()
    broken = pairs(judgement.broken)
    assert len(broken) == judgement.breaks
    assert (judgement.state == "breaks") == bool(broken)
    assert {problem.rule for problem in verified.problems} <= {"balance"}
    named = {problem.where.partition(", from ")[0] for problem in verified.problems}
    assert named == {f"profile {profile}, {asset}" for profile, asset in broken}
    assert verified.judgement is not None
    assert verified.judgement.text == judgement.text
    assert verified.ok is not judgement.is_alarming
    assert judgement.is_alarming == (judgement.state in ("breaks", "partly_proved"))
    assert [one.detail for one in told.findings if one.about == "proof"] == [
        line.rstrip(".") for line in judgement.shortfalls
    ]
    assert all(line in judgement.text for line in judgement.shortfalls)
    if judgement.state in ("proved", "moves_proved"):
        assert judgement.table["proof"].eq("now").all()
    if reports is not None:
        caught_up = reporting.catch_up(store, reports, ["csv"], since="2200-01")
        assert caught_up.verdict.text == judgement.text
        assert caught_up.is_alarming is judgement.is_alarming
    found = compared(store)
    differing = found[~found["status"].isin(["match", "opening_unknown"])]
    made_later = pairs(found[found["status"] == "only_rebuilt"]) - broken
    if judgement.state != "nothing_to_compare":
        never = judgement.table[judgement.table["status"] == "unobserved"]
        something = never["rebuilt"].notna() & never["rebuilt"].ne(0)
        assert pairs(never[something]) == made_later
        shown = re.search(r"([\d,]+) balances? that transfers made w", judgement.text)
        said = shown[1] if shown else "0"
        assert said == f"{len(never):,}" or "does not show" in judgement.text
    if judgement.state == "nothing_to_compare":
        assert set(found["status"]) <= {"only_rebuilt", "match", "opening_unknown"}
        assert found["reported"].isna().all()
    elif judgement.since is None:
        assert pairs(differing) == broken | made_later
        both = found.merge(judgement.table, on=["profile_id", "asset"])
        assert len(both) == judgement.balances - never["rebuilt"].isna().sum()
        both = both[both["status_y"] != "unobserved"]
        assert both["difference_x"].equals(both["difference_y"])
    else:
        assert set(found["status"]) <= {"opening_unknown", "only_rebuilt"}
        assert pairs(differing) <= broken | made_later
        opened = compared(store, judgement.opening)
        assert pairs(opened[opened["status"] != "match"]) == broken | made_later
    return judgement


def agree_in_every_command(store: fl.Store, out: Path, fundlab: Any) -> None:
    judgement = fl.reconcile.judge(store)
    expected, wanted = judgement.to_json(), 3 if judgement.is_alarming else 0
    ended, printed, _ = fundlab("verify", "--store", store.path, "--json")
    assert (ended, json.loads(printed)["judgement"]) == (wanted, expected)
    usual = ("report", "--store", store.path, "--out", out, "--format", "csv")
    ended, printed, _ = fundlab(*usual, "--json")
    found = json.loads(printed)
    assert (ended, {name: found[name] for name in expected}) == (wanted, expected)
    assert found["reconciled"] is (judgement.state == "proved")
    ended, printed, _ = fundlab(*usual)
    assert (ended, printed.startswith(judgement.text)) == (wanted, True)
    look = ("status", "--offline", "--expect", "verify,report", "--store", store.path, "--json")
    ended, printed, _ = fundlab(*look)
    assert (ended, json.loads(printed)["breaks"]) == (wanted, judgement.breaks)


@pytest.mark.parametrize(
    ("count", "every"), [(5, 5), pytest.param(2_000, 40, marks=pytest.mark.campaign)]
)
def test_no_two_judgements_of_a_store_contradict_each_other(
    count: int, every: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    fundlab: Any, figure: Any,
) -> None:  # fmt: skip
    """Of four stores one is judged by the report, too, of ``every`` so many one by the commands
    themselves."""
    states: dict[str, int] = {}
    for number in range(count):
        chance = Random(f"{seed} {number}")
        history = History(tmp_path / str(number), chance, monkeypatch)
        history.run(chance.randint(1, 12))
        if history.store.service() is None:
            states["empty"] = states.get("empty", 0) + 1
            continue
        try:
            judgement = agree(history.store, None if number % 4 else tmp_path / "reports")
            unclear = history.unclear()
            assert pairs(judgement.broken) - unclear == history.broken() - unclear
            since = None if judgement.since is None else judgement.since.isoformat()
            assert (since is None) == (history.begins is None)
            if number % every == 0:
                agree_in_every_command(history.store, tmp_path / "reports", fundlab)
        except AssertionError as error:
            raise AssertionError(f"store {number} of seed {seed}: {error}") from error
        states[judgement.state] = states.get(judgement.state, 0) + 1
    if count == 2_000:
        assert set(states) >= {
            "proved", "moves_proved", "partly_proved", "breaks", "nothing_to_compare"
        }  # fmt: skip
    figure(f"{count:,} stores, no contradiction: {states}")


# ------------------------------------------------------------------------------- its states


@pytest.mark.thorough
def test_a_late_store_widened_to_the_beginning_is_proved_as_the_service_has_it(
    tmp_path: Path,
) -> None:
    with fl.sandbox.serve(seed=5, transfers=400, profiles=3, clock="manual") as sandbox:
        client, store = sandbox.connect(), fl.Store(tmp_path / "late")
        for since in ("2026-10-01", "2026-08-01", "1970-01-01"):
            store.sync(client, since=since)
            agree(store, tmp_path)
            judgement, report = fl.reconcile.judge(store), reporting.read_report(store)
            rows = report.balances.itertuples()
            shown = {(row.profile_id, row.asset): row.available for row in rows}
            for (profile, asset), available in shown.items():
                found = client.get_profile_balance(profile_id=profile, asset=asset)
                assert available == found.available + found.trading
            assert report.verdict.text == judgement.text
            if since != "1970-01-01":
                assert judgement.state == "moves_proved"
                assert judgement.since == pd.Timestamp(since, tz="UTC")
                assert "taken over from the service as observed on 2026-" in judgement.text
                assert report.tone == "warn"
        assert judgement.state == "proved"
        assert (judgement.since, judgement.breaks, judgement.balances) == (None, 0, len(shown))
        assert report.verdict.headline == "Reconciled: 0 breaks"
        assert set(compared(store)["status"]) == {"match"}


@pytest.mark.thorough
def test_an_opening_that_was_taken_over_is_not_called_proved(store: fl.Store) -> None:
    service = FakeService([transfer(1), transfer(5000)])
    store.sync(service, since=moment(3000))
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.balances, judgement.breaks) == ("moves_proved", 1, 0)
    assert judgement.headline.endswith("no movement is proved yet")
    tile = reporting.read_report(store).key_figures[0]
    assert (tile.label, tile.value, tile.tone) == ("Movements proved", "0 of 1", "plain")
    assert "No later observation proves a movement yet: sync again." in judgement.text
    assert judgement.opening["balance"].tolist() == [D("10.5")]
    assert compared(store)["status"].tolist() == ["opening_unknown"]
    service.transfers.append(transfer(6000))
    store.sync(service)
    judgement = fl.reconcile.judge(store)
    assert judgement.headline.startswith("Movements reconciled: 0 breaks")
    assert "The 1 later observation equals what the transfers make of it" in judgement.text
    assert judgement.table["rebuilt"].tolist() == [D("31.5")]


def test_when_the_openings_were_taken_over_is_said_by_its_days(tmp_path: Path) -> None:
    now = [1_800_000_000 * 10**9]  # 2027-01-15
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    service = FakeService([transfer(1), transfer(10)])
    store.sync(service, since=moment(5))
    assert "as observed on 2027-01-15, not proved" in fl.reconcile.judge(store).text
    service.transfers.append(transfer(20, profile_id="p-2"))
    now[0] += 2 * 86_400 * 10**9
    store.sync(service)
    said = fl.reconcile.judge(store).text
    assert "as observed between 2027-01-15 and 2027-01-17, not proved" in said


def test_a_late_store_breaks_where_a_movement_does(store: fl.Store) -> None:
    service = Lying([transfer(1), transfer(5000)])
    store.sync(service, since=moment(3000))
    service.lies["p-1", "USD"] = D("0.25")
    store.sync(service)
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.breaks) == ("breaks", 1)
    assert judgement.broken["difference"].tolist() == [D("0.25")]
    assert "a transfer made before and pending then shows as a break, too" in judgement.text
    (problem,) = store.verify().problems
    assert problem.found == "a change of 0.25"


def test_rows_brought_by_widening_were_there_before(store: fl.Store) -> None:
    """A hold that was given back and a deposit that arrived, between the first look and then."""
    service = FakeService(
        [transfer(1, amount="100", total="100"), withdrawal(2000), withdrawal(2001),
         transfer(2002, status="PENDING"), transfer(5000)]
    )  # fmt: skip
    store.sync(service, since=moment(3000))
    service.transfers[1].update(status="FAILED", updated_at=moment(6000))
    service.transfers[2].update(status="COMPLETED", updated_at=moment(6000))
    service.transfers[3].update(status="COMPLETED", updated_at=moment(6000))
    store.sync(service, since=moment(1000))
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.since) == (
        "moves_proved", pd.Timestamp("2026-03-01T00:16:40Z"))  # fmt: skip
    assert judgement.opening["balance"].tolist() == [D("100")]
    store.sync(service, tables=["transfers"], full=True)
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert store.assertions()["difference"].eq(0).all()
    assert store.assertions()["complete"].all()
    store.compact()
    assert fl.reconcile.judge(store).text == judgement.text
    store.sync(service)
    assert fl.reconcile.judge(store).state == "proved"


def test_what_changed_before_the_first_look_had_changed_by_then(store: fl.Store) -> None:
    """Also where the newest update is of a transfer that the store does not begin with."""
    rows = [transfer(1), transfer(2, updated_at=moment(9000)), transfer(5000), transfer(7000)]
    service = FakeService(rows)
    for since in (moment(6000), moment(4000), moment(1)):
        store.sync(service, since=since)
        judgement = fl.reconcile.judge(store)
        assert (judgement.state, judgement.breaks) == ("moves_proved", 0)
    assert len(store.read("transfers")) == 4


@pytest.mark.thorough
def test_without_any_balance_there_is_nothing_to_compare(
    store: fl.Store, tmp_path: Path, fundlab: Any
) -> None:
    store.sync(FakeService([transfer(1), transfer(2)]), tables=["transfers"])
    judgement = agree(store, tmp_path / "out")
    assert (judgement.state, judgement.balances) == ("nothing_to_compare", 0)
    assert "No balance was ever fetched, so nothing proves the 2 transfers" in judgement.text
    agree_in_every_command(store, tmp_path / "out", fundlab)
    report = reporting.read_report(store)
    assert len(report.breaks) == len(report.causes) == 0


@pytest.mark.thorough
def test_a_period_without_transfers_says_so_and_is_not_green(store: fl.Store) -> None:
    store.sync(Lying([transfer(1)]))
    report = fl.report(store, "2026-02")
    assert report.verdict.headline == "No transfers in 2026-02"
    assert report.tone == "warn"
    assert report.verdict.text == fl.reconcile.judge(store, "2026-02").text
    assert fl.reconcile.judge(store, "2026-03").headline == "Reconciled: 0 breaks"
    store.sync(Lying([transfer(1)], lies={("p-1", "USD"): D(1)}))
    assert fl.report(store, "2026-02").verdict.headline == "Not reconciled: 1 break"


@pytest.mark.thorough
def test_what_differed_once_and_agrees_now_is_mentioned(store: fl.Store, tmp_path: Path) -> None:
    service = Lying([transfer(1)], lies={("p-1", "USD"): D(3)})
    store.sync(service)
    assert agree(store, tmp_path).state == "breaks"
    service.lies.clear()
    store.sync(service)
    judgement = agree(store, tmp_path)
    assert judgement.state == "proved"
    assert "1 earlier observation differed, and later ones agree" in judgement.text


@pytest.mark.thorough
def test_transfers_newer_than_the_balances_contradict_nothing(
    store: fl.Store, tmp_path: Path
) -> None:
    service = FakeService([transfer(1), withdrawal(2, amount="3", total="3")])
    store.sync(service)
    service.transfers += [transfer(3), transfer(4, profile_id="p-2")]
    service.transfers[1].update(status="FAILED", updated_at=moment(9))
    store.sync(service, tables=["transfers"])
    judgement = agree(store, tmp_path)
    assert (judgement.state, judgement.balances, judgement.breaks) == ("partly_proved", 2, 0)
    assert judgement.table["proof"].tolist() == ["until", "never_reported"]
    seen = store.read("balances")["observed_at"].tolist()
    assert judgement.table["proved_until"].tolist() == [*seen, pd.NaT]
    assert f"1 balance is proved only until {seen[0]:%Y-%m-%d %H:%M} UTC" in judgement.text
    assert "2 of 2 balances are not proved against the newest transfers" in judgement.headline
    store.sync(service)
    assert agree(store).state == "proved"


@pytest.mark.seconds
def test_a_balance_that_is_reported_no_more_is_not_proved(
    store: fl.Store, tmp_path: Path, fundlab: Any
) -> None:
    """The service has no answer for one profile any more, but its transfers go on."""
    service = FakeService([transfer(1), transfer(2, profile_id="p-2")])
    store.sync(service)
    seen = store.read("balances").set_index("profile_id")["observed_at"]
    service.get_profile_balance, known = _without(service, "p-2"), service.get_profile_balance
    service.transfers.append(transfer(3, profile_id="p-2"))
    notes = "\n".join(store.sync(service).notes)
    assert "USD of p-2 is no longer reported (the service answers 404); last seen " in notes
    judgement = agree(store, tmp_path)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert judgement.table["proof"].tolist() == ["now", "no_longer_reported"]
    assert judgement.table["proved_until"].tolist()[1] == seen["p-2"]
    assert "1 of 2 balances rebuilt from 3 transfers equals" in judgement.text
    assert "sync" not in judgement.shortfalls[0], "no sync helps"
    agree_in_every_command(store, tmp_path, fundlab)
    with pytest.raises(fl.errors.CloseRefused) as refused:
        store.close("2026-03")
    assert judgement.shortfalls[0] in refused.value.obstacles
    service.get_profile_balance = known
    store.sync(service)
    assert agree(store).state == "proved"


def test_a_balance_that_is_refused_blocks_nothing_and_is_no_break(
    store: fl.Store, tmp_path: Path
) -> None:
    service = FakeService([transfer(1), transfer(2, profile_id="p-2")])

    def refuse(operation: str, params: dict[str, str]) -> None:
        if operation == "get_profile_balance" and params["profile_id"] == "p-2":
            raise fl.errors.PermissionDenied(403, "Forbidden")

    service.hook = refuse
    store.sync(service)
    judgement = agree(store, tmp_path)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert judgement.table["proof"].tolist() == ["now", "never_reported"]
    assert "does not show 1 balance: USD of p-2" in judgement.text
    service.hook = lambda operation, params: None
    store.sync(service)
    assert agree(store).state == "proved"


@pytest.mark.parametrize(
    ("rows", "answers", "proof"),
    [
        pytest.param([{"status": "PENDING"}], 403, "never_reported", marks=pytest.mark.seconds),
        pytest.param([{"status": "FAILED"}], 403, "never_reported", marks=pytest.mark.seconds),
        # it never had one, and the transfers made none
        pytest.param([{"status": "FAILED"}], 404, None, marks=pytest.mark.seconds),
        ([{}, {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}], 403, "never_reported"),
        ([{}, {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}], 404, "never_reported"),
        pytest.param(
            [{}, {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}], 0, "never_reported",
            marks=pytest.mark.seconds,
        ),
    ],
)  # fmt: skip
def test_a_balance_of_nothing_that_nobody_could_look_at_is_not_proved(
    store: fl.Store, tmp_path: Path, rows: list[dict[str, Any]], answers: int, proof: str | None
) -> None:
    """Refused, not there, or (0) moving at every look."""
    mine = [transfer(2 + n, profile_id="p-2", **members) for n, members in enumerate(rows)]
    service = FakeService([transfer(1), *mine])

    def stand_in(operation: str, params: dict[str, str]) -> None:
        if operation != "get_profile_balance" or params["profile_id"] != "p-2":
            return
        if answers == 403:
            raise fl.errors.PermissionDenied(403, "Forbidden")
        if answers == 404:
            raise fl.errors.NotFound(404, "Not Found")
        later = moment(60 + len(service.calls))
        service.transfers[1].update(memo=later, updated_at=later)

    service.hook = stand_in
    store.sync(service)
    judgement = agree(store, tmp_path)
    assert judgement.table["proof"].tolist() == ["now", proof][: 1 + (proof is not None)]
    assert judgement.state == ("proved" if proof is None else "partly_proved")
    assert ("does not show 1 balance: USD of p-2" in judgement.detail) == bool(proof and answers)
    service.hook = lambda operation, params: None
    store.sync(service)
    assert agree(store).state == "proved"


@pytest.mark.seconds
@pytest.mark.parametrize("others", [1, 0])
def test_a_balance_that_was_answered_only_while_it_moved_is_not_proved_without_it(
    store: fl.Store, tmp_path: Path, others: int
) -> None:
    """Its only transfer moved at every look and failed: no observation was kept, nothing counts,
    and the service has no such balance any more."""
    service = FakeService([transfer(1, profile_id="p-2", status="FAILED")])
    service.transfers += [transfer(2)] * others

    def move(operation: str, params: dict[str, str]) -> None:
        if operation == "get_profile_balance" and params["profile_id"] == "p-2":
            later = moment(60 + len(service.calls))
            service.transfers[0].update(memo=later, updated_at=later)

    service.hook = move
    assert store.sync(service).unsettled == (("p-2", "USD"),)
    service.hook = lambda operation, params: None
    known, service.get_profile_balance = service.get_profile_balance, _without(service, "p-2")
    if not others:  # what makes a verdict of the store
        service.transfers.append(transfer(100))
    result = store.sync(service)
    assert result.unreported == (("p-2", "USD"),)
    assert "USD of p-2 is no longer reported (the service answers 404)" in "\n".join(result.notes)
    judgement = agree(store, tmp_path)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert judgement.table["proof"].tolist() == ["now", "no_longer_reported"]
    assert "does not show 1 balance: USD of p-2" in judgement.text
    store.accept_refused(profile_id="p-2", by="Ana", reason="sold")
    assert agree(store).state == "proved"
    service.hook, service.get_profile_balance = move, known
    assert store.sync(service).unsettled == (("p-2", "USD"),)
    service.hook, service.get_profile_balance = lambda *asked: None, _without(service, "p-2")
    store.sync(service)
    assert agree(store, tmp_path).state == "partly_proved", "it was reported again"


@pytest.mark.seconds
def test_a_store_of_which_every_balance_is_refused_is_proved_no_more(
    store: fl.Store, tmp_path: Path
) -> None:
    service = FakeService([transfer(1)])
    store.sync(service)
    assert agree(store).state == "proved"
    for error in (fl.errors.PermissionDenied(403, "Forbidden"), fl.errors.NotFound(404, "No")):

        def refuse(operation: str, params: dict[str, str], error: Exception = error) -> None:
            if operation == "get_profile_balance":
                raise error

        service.hook = refuse
        store.sync(service)
        judgement = agree(store, tmp_path)
        assert judgement.state == "partly_proved"
        assert judgement.table["proof"].tolist() == ["no_longer_reported"]
    service.hook = lambda operation, params: None
    store.sync(service)
    assert agree(store).state == "proved"


def test_a_balance_whose_transfers_are_accepted_as_gone_is_asked_for_again(store: fl.Store) -> None:
    """All that made it are no current rows any more, and the service still has it."""
    service = FakeService([transfer(1), transfer(2, profile_id="p-2")], complete=True)
    store.sync(service)
    service.transfers.pop()
    service.transfers.append(transfer(3))
    known = service.get_profile_balance

    def empty(profile_id: str, asset: str) -> ProfileBalance:
        if profile_id == "p-1":
            return known(profile_id, asset)
        nothing = {"asset": asset, "available": "0", "trading": "0"}
        return ProfileBalance.model_validate(nothing)

    service.get_profile_balance = empty  # type: ignore[method-assign]
    store.sync(service, full=True)
    store.accept_gone("t-000002", by="Ana", reason="test data")
    service.transfers.append(transfer(4))
    store.sync(service)
    assert fl.reconcile.judge(store).state == "proved"


def test_one_clock_reading_makes_no_two_balances_of_one_key(tmp_path: Path) -> None:
    """A frozen clock, and one that is set back."""
    now = [1_800_000_000_000_000_000]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    service = FakeService([transfer(1), transfer(2, profile_id="p-2")])
    for back in (0, 0, 10**9):
        now[0] -= back
        store.sync(service)
    observed = store.read("balances")
    assert len(observed) == 6
    assert not observed.duplicated(["profile_id", "asset", "observed_at"]).any()
    assert store.verify().ok


@pytest.mark.thorough
def test_a_balance_the_service_does_not_have_is_a_break(store: fl.Store, tmp_path: Path) -> None:
    service = FakeService([transfer(1), transfer(2, profile_id="p-2", asset="EUR")])
    service.get_profile_balance, known = _without(service, "p-2"), service.get_profile_balance
    store.sync(service)
    judgement = agree(store, tmp_path)
    assert judgement.broken["status"].tolist() == ["only_rebuilt"]
    (problem,) = store.verify().problems
    assert problem.found == "no balance at the service"
    assert problem.expected == "a balance of 10.5, as the transfers say"
    service.get_profile_balance = known
    store.sync(service)
    assert agree(store).state == "proved"


def test_a_balance_of_nothing_matches_and_one_not_asked_for_yet_is_unobserved(
    store: fl.Store,
) -> None:
    back = {"type": "WIRE_WITHDRAWAL", "direction": "DEBIT"}
    service = FakeService([transfer(1), transfer(2, **back)])
    store.sync(service)
    service.transfers.append(transfer(3, asset="EUR"))
    store.sync(service, tables=["transfers"])
    found = fl.reconcile.judge(store).table.set_index("asset")
    assert found["status"].to_dict() == {"USD": "match", "EUR": "unobserved"}
    assert found.at["USD", "reported"] == 0


def test_a_balance_the_service_does_not_have_is_compared_as_it_was_asked_for(
    store: fl.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the transfers known then: not by what came, or was accepted as gone, after that."""
    monkeypatch.setattr("fundlab.evidence.observations.ROW_GROUP_ROWS", 1)  # file by file
    euros = {"profile_id": "p-2", "asset": "EUR"}
    service = FakeService([transfer(1), transfer(2, **euros), transfer(3, **euros)], complete=True)
    service.get_profile_balance = _without(service, "p-2")
    store.sync(service)
    service.transfers.append(transfer(4, **euros))
    store.sync(service, tables=["transfers"])
    del service.transfers[1]
    store.sync(service, tables=["transfers"], full=True)
    assert len(store.accept_gone(by="ann", reason="made in error")) == 1
    (broken,) = fl.reconcile.judge(store).broken.to_dict("records")
    assert (broken["status"], broken["profile_id"]) == ("only_rebuilt", "p-2")
    (problem,) = store.verify().problems
    assert problem.found == "no balance at the service"
    assert problem.expected == "a balance of 21, as the transfers say"


def _without(service: FakeService, missing: str) -> Any:
    known = service.get_profile_balance

    def found(profile_id: str, asset: str) -> Any:
        return known("nobody" if profile_id == missing else profile_id, asset)

    return found


def test_balances_that_kept_moving_are_waited_for(store: fl.Store, tmp_path: Path) -> None:
    service = FakeService([transfer(1), transfer(2, profile_id="p-2")])

    def busy(operation: str, params: dict[str, str]) -> None:
        if operation == "get_profile_balance" and params["profile_id"] == "p-2":
            number = 10 + len(service.transfers)
            service.transfers.append(transfer(number, profile_id="p-2"))

    service.hook = busy
    assert store.sync(service).unsettled == (("p-2", "USD"),)
    judgement = agree(store, tmp_path)
    assert (judgement.state, judgement.balances) == ("partly_proved", 2)
    assert judgement.table["proof"].tolist() == ["now", "never_reported"]


def test_full_means_everything(store: fl.Store) -> None:
    service = FakeService(
        [transfer(1), transfer(5000)], events=[{"id": "e", "created_at": moment(1)}]
    )
    store.sync(service, since=moment(3000))
    assert len(store.read("events")) == 0
    store.sync(service, full=True)
    assert (len(store.read("transfers")), len(store.read("events"))) == (2, 1)
    assert agree(store).state == "proved"


def test_a_store_begun_late_before_anything_came_stays_begun_there(store: fl.Store) -> None:
    service = FakeService()
    store.sync(service, since=moment(3000))  # type: ignore[arg-type]
    judgement = fl.reconcile.judge(store)
    assert judgement.state == "nothing_to_compare"
    assert "begins at 2026-03-01 00:50 UTC and has no transfers from then on" in judgement.text
    service.transfers += [transfer(1), transfer(5000)]
    store.sync(service)  # type: ignore[arg-type]
    assert store.read("transfers")["id"].tolist() == ["t-005000"]
    assert fl.reconcile.judge(store).state == "moves_proved"
    assert store.verify().ok
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert len(store.read("transfers")) == 2


def test_one_is_not_written_as_many(store: fl.Store) -> None:
    service = Lying([transfer(1)])
    store.sync(service)  # type: ignore[arg-type]
    assert ": 2 files, 2 rows, 1 balance observation compared: no problems\n" in str(store.verify())
    assert "rebuilt from 1 transfer equals what" in fl.reconcile.judge(store).text
    service.lies["p-1", "USD"] = D(1)
    store.sync(service)  # type: ignore[arg-type]
    assert fl.reconcile.judge(store).detail.startswith("The one balance differs from what")
    assert "1 problem\n" in str(store.verify())


def test_that_nothing_is_older_is_known_after_a_full_sync(store: fl.Store) -> None:
    service = FakeService([transfer(5000)])
    store.sync(service, since=moment(3000))
    assert fl.reconcile.judge(store).state == "moves_proved"
    store.sync(service, full=True)
    assert fl.reconcile.judge(store).state == "proved"
    parts = sorted((store.path / "transfers").iterdir())
    store.sync(service, full=True)
    assert sorted((store.path / "transfers").iterdir()) == parts
    store.compact()
    assert agree(store).state == "proved"
    assert len(store.read("transfers")) == store.scan("transfers").count("*").fetchall()[0][0] == 1


def test_however_many_balances_break_a_few_are_explained_and_all_are_counted(
    store: fl.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Lying([transfer(n, profile_id=f"p-{n}") for n in range(30)])
    for lie in range(1, 4):
        service.lies = {(f"p-{n}", "USD"): D(lie) for n in range(30)}
        store.sync(service)
    passes = []
    original = Moves.of
    monkeypatch.setattr(Moves, "of", lambda *given: passes.append(1) or original(*given))
    found = store.verify()
    assert len(passes) == 2  # one for the sums, one for all causes
    assert (found.count, found.unexplained, found.judgement.breaks) == (90, 70, 30)
    assert sum(bool(problem.cause) for problem in found.problems) == 20
    assert str(found).endswith("… and 70 more breaks are not explained one by one")


# ------------------------------------------------------------------------- what frames know


class TestFramesKnowWhereTheirRowsBegin:
    @pytest.fixture
    def late(self, store: fl.Store) -> fl.Store:
        store.sync(FakeService([transfer(1), transfer(5000)]), since=moment(3000))
        return store

    def test_it_survives_what_pandas_lets_survive(self, late: fl.Store, tmp_path: Path) -> None:
        frame = late.read("transfers")
        assert frame.attrs["since"] == moment(3000)
        assert frame[frame["total"] > 0].copy().attrs == frame.attrs
        assert pickle.loads(pickle.dumps(frame)).attrs == frame.attrs
        frame.to_parquet(tmp_path / "t.parquet")
        assert pd.read_parquet(tmp_path / "t.parquet")["id"].tolist() == frame["id"].tolist()
        bare = pd.DataFrame(frame.to_dict("series"))
        assert bare.attrs == {}
        assert bare.equals(frame)
        pd.testing.assert_frame_equal(bare, frame)

    def test_of_a_store_with_every_row_none(self, store: fl.Store) -> None:
        store.sync(FakeService([transfer(1), transfer(5000)]))
        assert store.read("transfers").attrs["since"] is None
        cut = store.read("transfers", since=moment(3000))
        assert cut.attrs["since"] == moment(3000)
        found = fl.reconcile.compare(cut, store.read("balances"))
        assert found["status"].tolist() == ["opening_unknown"]
        opening = fl.balances.at(store.read("transfers"), moment(2999))
        known = fl.reconcile.compare(cut, store.read("balances"), opening)
        assert known["status"].tolist() == ["match"]

    @pytest.mark.parametrize("kind", ["arrow", "polars", "duckdb", "bare"])
    def test_frames_without_that_knowledge_are_compared_as_they_are(
        self, late: fl.Store, kind: str
    ) -> None:
        given: Any = late.read_arrow("transfers")
        if kind == "polars":
            given = polars.from_arrow(given)
        if kind == "duckdb":
            given = late.scan("transfers")
        if kind == "bare":
            given = late.read("transfers")
            given.attrs = {}
        found: Any = fl.reconcile.compare(given, late.read("balances"))
        rows = found if kind == "bare" else found.to_arrow_table() if kind == "duckdb" else found
        assert list(map(str, rows["status"])) == ["break"]

    @pytest.mark.seconds
    def test_what_until_cut_off_is_not_a_break(self, store: fl.Store) -> None:
        store.sync(FakeService([transfer(1), transfer(5000)]))  # type: ignore[arg-type]
        balances, cut = store.read("balances"), store.read("transfers", until=moment(3000))
        assert cut.attrs["until"] == moment(3000)
        found = fl.reconcile.compare(cut, balances)
        assert found["status"].tolist() == ["closing_unknown"]
        assert fl.reconcile.explain(cut, balances).empty
        built = reporting.build(cut, balances, as_of="2027-01-01T00:00:00Z", title="cut").verdict
        assert (built.state, built.breaks) == ("nothing_to_compare", 0)
        assert "read both without until" in built.text
        store.sync(FakeService([transfer(9000), transfer(1), transfer(5000)]))  # type: ignore[arg-type]
        seen_first = store.read(
            "balances", until=balances["observed_at"].max() + pd.Timedelta("1ns")
        )
        found = fl.reconcile.compare(store.read("transfers"), seen_first)
        assert found["status"].tolist() == ["closing_unknown"]

    def test_an_end_behind_the_last_row_cuts_nothing_off(self, store: fl.Store) -> None:
        store.sync(FakeService([transfer(1), transfer(5000)]))  # type: ignore[arg-type]
        frame = store.read("transfers", until=moment(5001))
        assert frame.attrs == store.read("transfers").attrs
        found = fl.reconcile.compare(frame, store.read("balances"))
        assert found["status"].tolist() == ["match"]

    def test_a_store_itself_knows(self, late: fl.Store) -> None:
        found: Any = fl.reconcile.compare(late, late.read("balances"))
        assert found.fetchall()[0][-1] == "opening_unknown"


@pytest.mark.parametrize(("lie", "status"), [("5", "only_reported"), ("0", "match")])
def test_a_balance_that_no_transfer_made_is_compared_with_nothing(
    store: fl.Store, lie: str, status: str
) -> None:
    service = Lying([transfer(1, status="PENDING")], lies={("p-1", "USD"): Decimal(lie)})
    store.sync(service)
    (row,) = fl.reconcile.judge(store).table.to_dict("records")
    assert (row["status"], row["reported"]) == (status, Decimal(lie))
    assert pd.isna(row["rebuilt"])


def test_a_balance_that_was_never_observed_matches_nothing(store: fl.Store) -> None:
    """The transfers were widened, the balances not asked for again."""
    service = FakeService([transfer(n, asset=f"A{n % 3}") for n in range(9)])
    store.sync(service, since=moment(8))  # type: ignore[arg-type]
    store.sync(service, tables=["transfers"], since="1970-01-01")  # type: ignore[arg-type]
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.balances) == ("partly_proved", 3)
    assert "2 balances that transfers made were never observed" in judgement.text
    found = compared(store).set_index("asset")["status"].to_dict()
    assert found == {"A0": "only_rebuilt", "A1": "only_rebuilt", "A2": "match"}
