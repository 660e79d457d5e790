"""A month that is closed stays closed: what stands in the way, what is frozen, what moves it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import closed_months as months
import pandas as pd
import pytest
from amounts import exactly
from closed_months import CLOSED_AT, DAY, FEBRUARY, LATER, MARCH, D
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab import cli, reports
from fundlab.base.errors import (
    AnalysisError,
    CloseRefused,
    InvalidRequest,
    PermissionDenied,
    StoreDamaged,
)
from fundlab.evidence.closes import Close, closes_of, seal
from fundlab.evidence.verify import Verification
from fundlab.models import ProfileBalance
from fundlab.operate.assistant import Desk

BASES = ("settled", "created")
ENTRY = ["profile_id", "asset", "line", "type"]
ENTRY_OF_A_BANK = "bank-0123456789abcdef0123"


def as_lines(frame: pd.DataFrame) -> dict[tuple[str, ...], D]:
    found = frame.set_index(ENTRY)["amount"]
    return found[found != 0].to_dict()


@exactly()
def moved_by(before: dict[tuple[str, ...], D], after: dict[tuple[str, ...], D]):
    """By line without the closing, which is their sum."""
    keys = {key for key in {*before, *after} if key[2] != "closing"}
    found = {key: after.get(key, D(0)) - before.get(key, D(0)) for key in keys}
    return {key: amount for key, amount in found.items() if amount}


def close(store: fl.Store, basis: str, **given: Any) -> Close:
    """As ``store.close``, which verifies every byte first: these months are about the figures."""
    with store.lock() as check_held:
        found = Verification(str(store.path), 0, 0, 0, (), judgement=fl.reconcile.judge(store))
        content = reports.freeze(store, found, "2026-02", basis=basis, **given)  # type: ignore[arg-type]
        return seal(store, content, check_held)


def check_month(
    folder: Path, seed: int, turns: int, with_report: bool = True, restating: bool = True
) -> dict[str, tuple[int, int]]:
    """One month closed on each basis and turned; how many lines and transfers moved."""
    month = months.made(folder / "store", seed)
    store, count = month.store, {}
    closed = {basis: close(store, basis, by="Ana") for basis in BASES}
    before = {basis: months.lines(month, basis, closed[basis].pin) for basis in BASES}
    for basis in BASES:
        assert as_lines(closed[basis].lines) == before[basis]
    assert store.restatements().empty
    months.turn(month, turns)
    month.accept_some()
    found = store.restatements()
    for basis in BASES:
        after, mine = months.lines(month, basis), found[found["basis"] == basis]
        expected = moved_by(before[basis], after)
        sums = mine.groupby(ENTRY)["difference"].sum()
        assert sums[sums != 0].to_dict() == expected
        assert (mine["now"] - mine["then"] == mine["difference"]).all()
        assert (mine["difference"] != 0).all()
        disappeared = set(mine.loc[mine["cause"] == "disappeared", "transfer_id"])
        assert disappeared <= month.accepted
        moved = mine.groupby(ENTRY[:2])["difference"].sum().to_dict()
        closings = [
            {key[:2]: amount for key, amount in lines.items() if key[2] == "closing"}
            for lines in (before[basis], after)
        ]
        for key in {*closings[0], *closings[1], *moved}:
            then, now = (side.get(key, D(0)) for side in closings)
            with exactly():
                assert then + moved.get(key, D(0)) == now
        count[basis] = len(expected), mine["transfer_id"].nunique()
        if with_report and not month.waiting:
            check_report(store, closed[basis], basis)
        if len(mine) and restating:
            again = close(store, basis, by="Ben", restate="rows came late")
            assert as_lines(again.lines) == after
            bridge = again.content["restates"]["bridge"]
            assert [row[-1] for row in bridge] == [
                fl.base.values.plain_text(difference) for difference in mine["difference"]
            ]
            closes = store.closes()
            states = closes.loc[closes["basis"] == basis, "state"]
            assert states.tolist() == ["restated", "closed"]
    if restating:
        assert store.restatements().empty
    for number, basis in enumerate(BASES):
        assert as_lines(store_close(store, number).lines) == before[basis]
    return count


def check_report(store: fl.Store, closed: Close, basis: str) -> None:
    """The next month's report begins with the closing, and its roll-forward foots."""
    report = reports.read_report(store, "2026-03", basis=basis)  # type: ignore[arg-type]
    roll = report.roll_forward
    opening = roll[roll["line"] == "opening"].set_index(ENTRY[:2])["amount"]
    closing = closed.lines[closed.lines["line"] == "closing"].set_index(ENTRY[:2])["amount"]
    for key in {*opening.index, *closing.index}:
        assert opening.get(key, D(0)) == closing.get(key, D(0))
    known = report.balances.set_index(ENTRY[:2])["opening"]
    assert known[known != 0].to_dict() == closing[closing != 0].to_dict()
    footed = roll[roll["line"] != "closing"].groupby(ENTRY[:2])["amount"].sum()
    assert (footed == roll[roll["line"] == "closing"].set_index(ENTRY[:2])["amount"]).all()
    table = report.balances
    sides = table["opening"] + table["inflow"] - table["outflow"]
    assert (sides + table.get("restated", D(0)) == table["closing"]).all()
    for _, steps in report.movements.groupby("asset"):
        with exactly():
            assert sum(list(steps["amount"])[:-1], D(0)) == steps["amount"].iloc[-1]
        assert "Unexplained" not in set(steps["step"])
    assert bool(report.moved) == bool(len(store.restatements())) == bool(store.verify().moved)
    assert (report.tone == "good") == (report.verdict.state == "proved" and not report.moved)


def store_close(store: fl.Store, number: int) -> Close:
    return closes_of(store.records())[number]


@pytest.mark.seconds
def test_a_month_that_moves_is_bridged_transfer_by_transfer(tmp_path: Path) -> None:
    for lines, transfers in check_month(tmp_path, 3, 6).values():
        assert lines
        assert transfers


@pytest.mark.campaign
def test_a_thousand_months_on_both_bases(tmp_path: Path, seed: int, figure: Any) -> None:
    run_months(tmp_path, seed, 1_000, figure)


@pytest.mark.thorough
def test_some_months_on_both_bases(tmp_path: Path, seed: int, figure: Any) -> None:
    run_months(tmp_path, seed, 10, figure)


def run_months(folder: Path, seed: int, count: int, figure: Any) -> None:
    chance, sums = random.Random(seed), {basis: [0, 0, 0] for basis in BASES}
    for number in range(1, count + 1):
        place, turns = folder / str(number), chance.randrange(0, 8)
        found = check_month(
            place, chance.randrange(2**32), turns, number % 50 == 0, number % 10 == 0
        )
        shutil.rmtree(place)
        for basis, (lines, transfers) in found.items():
            for place_, more in enumerate((bool(lines), lines, transfers)):
                sums[basis][place_] += more
        if number % 50 == 0 or number == count:
            text = ", ".join(
                f"{basis} {moved} moved, {lines} lines by {transfers} transfers"
                for basis, (moved, lines, transfers) in sums.items()
            )
            print(f"{number} months: {text}", flush=True)
    figure(f"{count} months: {text}")
    assert all(moved for moved, _, _ in sums.values())


@pytest.mark.seconds
def test_what_settles_next_month_moves_no_closed_month_on_the_settled_basis(tmp_path: Path) -> None:
    for seed in range(2):
        month = months.made(tmp_path / str(seed), seed)
        for status in ("PENDING", "PENDING"):
            month.add(MARCH - 5 * DAY, status)
        month.sync(CLOSED_AT + DAY)
        month.store.close("2026-02")
        month.store.close("2026-02", "created")
        months.turn(month, 8, (months.settles, months.fails, months.new, months.touched))
        found = month.store.restatements()
        assert not len(found[found["basis"] == "settled"])
        assert len(found[found["basis"] == "created"]) or "settles" not in month.did


@pytest.mark.parametrize(
    ("turn", "cause"),
    [(months.late, "late"), (months.back_dated, "back_dated"), (months.amended, "amount"),
     (months.fails_after_all, "status")],
)  # fmt: skip
def test_each_cause_has_its_name(tmp_path: Path, turn, cause: str) -> None:
    month = months.made(tmp_path / "store", 11)
    month.store.close("2026-02", "created")
    months.turn(month, 1, (turn,))
    assert set(month.store.restatements()["cause"]) == {cause}


@pytest.mark.seconds
def test_a_row_that_the_service_lists_no_longer_moves_the_close_once_that_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    month = months.made(tmp_path / "store", 12)
    gone = month.add(MARCH - 5 * DAY, "COMPLETED", MARCH - 4 * DAY)
    month.sync(CLOSED_AT + DAY)
    store = month.store
    before = [store.close("2026-02", basis) for basis in BASES]  # type: ignore[arg-type]
    month.service.transfers.remove(gone)
    month.sync(MARCH + 40 * DAY)
    assert store.restatements().empty
    assert not store.verify().ok
    with pytest.raises(CloseRefused, match="2026-03 cannot be closed") as refused:
        store.close("2026-03")
    assert any(gone["id"] in line for line in refused.value.obstacles)
    with pytest.raises(cli.typer.Exit, match="3"):
        cli.run(["report", "--catch-up", "--period", "2026-02", "--out", str(tmp_path / "reports"),
                 "--store", str(store.path), "--format", "csv"])  # fmt: skip
    assert f"no longer at the service, and kept here as last seen: {gone['id']}" in (
        capsys.readouterr().out
    )
    store.accept_gone(gone["id"], by="Ana", reason="a test payment")
    month.accepted.add(gone["id"])
    found = store.restatements()
    assert set(found["cause"]) == {"disappeared"}
    assert set(found["transfer_id"]) == {gone["id"]}
    assert set(found["basis"]) == set(BASES)
    for basis, closed in zip(BASES, before, strict=True):
        bridge = found[found["basis"] == basis].groupby(ENTRY)["difference"].sum()
        expected = moved_by(as_lines(closed.lines), months.lines(month, basis))
        assert bridge.to_dict() == expected
        assert reports.read_report(store, "2026-03", basis=basis).moved  # type: ignore[arg-type]
        store.close("2026-02", basis, restate="it was a test payment")  # type: ignore[arg-type]
    assert store.restatements().empty
    assert store.verify().ok
    restated = closes_of(store.records())[2]
    reports.write_pack(store, restated, tmp_path / "pack")
    page = (tmp_path / "pack" / "close-2026-02.html").read_text(encoding="utf-8")
    assert f"The service does not list {gone['id']} of transfers since 2026-" in page
    assert "accepted by Ana, because: a test payment" in page
    assert ">disappeared<" in page
    assert reports.reperform(store, tmp_path / "pack") == []
    month.service.transfers.append(gone)  # it was not
    month.sync(MARCH + 41 * DAY)
    assert set(store.restatements()["transfer_id"]) == {gone["id"]}
    assert store.verify().ok
    reports.write_pack(store, before[0], tmp_path / "first")
    assert reports.reperform(store, tmp_path / "first") == []


@pytest.mark.seconds
def test_a_moved_month_with_a_break_is_restated_by_the_command_that_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    month = months.made(tmp_path / "store", 12)
    kept = month.add(MARCH - 5 * DAY, "COMPLETED", MARCH - 4 * DAY)
    lost = month.add(MARCH - 5 * DAY, "COMPLETED", MARCH - 4 * DAY)
    month.sync(CLOSED_AT + DAY)
    first = month.store.close("2026-02")
    for row in (kept, lost):
        month.service.transfers.remove(row)
    month.sync(LATER)
    month.store.accept_gone(lost["id"], by="Ana", reason="a test payment")  # the other one waits

    def close(*arguments: str) -> tuple[int, str]:
        status = 0
        try:
            cli.run(["close", "2026-02", *arguments, "--store", str(month.store.path)])
        except cli.typer.Exit as end:
            status = end.exit_code
        return status, capsys.readouterr().out

    status, out = close("--with-breaks", "--reason", "known")
    assert (status, "and nothing was changed" in out) == (3, True)
    assert (
        "accept it with 'fundlab close 2026-02 --restate --reason …', and --with-breaks while "
        "there are breaks"
    ) in out
    status, out = close("--restate", "--reason", "known")
    assert (status, out.splitlines()[0]) == (3, "2026-02 (settled basis) stays as it was closed:")
    assert kept["id"] in out
    assert "or accept it with --restate --with-breaks --reason … " in out.splitlines()[-1]
    said = json.loads(close("--restate", "--reason", "known", "--json")[1])
    assert (said["closed"], said["changed"]) == (True, False)
    assert month.store.closes()["hash"].tolist() == [first.hash]
    assert close("--restate", "--with-breaks", "--reason", "known")[0] == 0
    assert month.store.closes()["state"].tolist() == ["restated", "closed"]
    # Taken back, the row counts again, and the month has moved back.
    month.store.accept_gone(lost["id"], by="Ana", reason="it was none", still_counts=True)
    assert set(month.store.restatements()["transfer_id"]) == {lost["id"]}
    month.store.close("2026-02", restate="it was none", with_breaks="known")
    again = closes_of(month.store.records())[-1]
    assert as_lines(again.lines) == as_lines(first.lines)


def test_news_of_another_table_is_no_news_of_transfers(tmp_path: Path) -> None:
    """Synced in the middle of a month, and after its end only what is not money."""
    now, made = [FEBRUARY + 14 * DAY], months.text(FEBRUARY + DAY)
    service = FakeService([transfer(1, created_at=made, updated_at=made)])
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, ["transfers", "events", "balances"])  # type: ignore[arg-type]
    late = months.text(FEBRUARY + 20 * DAY)
    service.transfers.append(transfer(2, created_at=late, updated_at=late))
    service.events.append({
        "id": "e-1", "type": "transfer.wire_deposit.completed", "source": "s",
        "object": {"id": "t-000002"}, "created_at": late,
    })  # fmt: skip
    service.addresses.append({"id": "a-1", "created_at": made})
    now[0] = MARCH + DAY
    result = store.sync(service, ["events", "addresses"])  # type: ignore[arg-type]
    assert (result["events"].new, result["addresses"].new) == (1, 1)
    with pytest.raises(CloseRefused, match="nothing of transfers after 2026-02-15 00:00 UTC"):
        store.close("2026-02")
    assert "2026-02" not in reports.missing_months(store, tmp_path / "out")
    for given in (None, "2027-01-01"):
        report = fl.report(store, "2026-02", as_of=given)
        assert report.as_of == pd.Timestamp("2026-03-02", tz="UTC")
        assert "its transfers are known until 2026-02-15 00:00 UTC only" in report.text
        assert not report.to_json()["over"]
        with pytest.raises(AnalysisError, match="2026-03' has not begun"):
            fl.report(store, "2026-03", as_of=given)
    store.sync(service, ["balances"])  # type: ignore[arg-type]
    assert store.close("2026-02").lines["amount"].tolist()[-1] == D("21")
    assert "2026-02" in reports.missing_months(store, tmp_path / "out")


@pytest.mark.seconds
@pytest.mark.parametrize("tables", [["transfers"], ["transfers", "balances"]])
def test_a_sync_of_transfers_that_finds_nothing_new_ends_the_month(
    tmp_path: Path, tables: list[str]
) -> None:
    now, made = [FEBRUARY + 14 * DAY], months.text(FEBRUARY + DAY)
    service = FakeService([transfer(1, created_at=made, updated_at=made)])
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, tables)  # type: ignore[arg-type]
    given = {"with_breaks": "nothing is compared"} if len(tables) == 1 else {}
    with pytest.raises(CloseRefused, match="nothing of transfers after 2026-02-15 00:00 UTC"):
        store.close("2026-02", **given)
    now[0] = MARCH + DAY
    done = store.sync(service, ["transfers"])  # type: ignore[arg-type]
    assert (done.new, done["transfers"].part, done.at) == (0, None, months.text(now[0]))
    now[0] += DAY
    report = fl.report(store, "2026-02")
    assert (report.remark, report.as_of) == ("", pd.Timestamp("2026-03-02", tz="UTC"))
    assert fl.report(store, "2026-02", as_of=months.text(MARCH)).remark == ""
    assert fl.report(store, "2026-02", as_of=months.text(MARCH - DAY)).ends is not None
    assert store.close("2026-02", **given).content["known_at"] == months.text(MARCH + DAY)
    # What was learned later says nothing of what was known before.
    service.transfers.append(transfer(2, created_at=made, updated_at=made))
    now[0] += DAY
    store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
    assert fl.report(store, "2026-02", as_of=months.text(MARCH)).ends is not None


@pytest.mark.parametrize("missing", [False, True])
def test_fetching_the_transfers_that_made_an_opening_moves_no_closed_month(
    tmp_path: Path, missing: bool
) -> None:
    """As the verdict advises of a store that begins late; ``missing``: what they come to differs
    from the opening, and the month has moved by that."""
    now = [FEBRUARY - DAY]
    times = (FEBRUARY - 90 * DAY, FEBRUARY - 80 * DAY, FEBRUARY + DAY)
    service = FakeService([
        transfer(n, **dict.fromkeys(("created_at", "updated_at"), months.text(at)))
        for n, at in enumerate(times)
    ])  # fmt: skip
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, since="2026-01-15")  # type: ignore[arg-type]
    now[0] = MARCH + DAY
    store.sync(service)  # type: ignore[arg-type]
    closed = store.close("2026-02")
    assert closed.opening["balance"].tolist() == [D("21")]
    if missing:
        del service.transfers[0]
    store.sync(service, full=True)  # type: ignore[arg-type]
    moved = store.restatements()
    if missing:
        assert moved[["line", "cause", "difference"]].values.tolist() == [
            ["opening", "opening", D("-21")], ["opening", "late", D("10.5")],
        ]  # fmt: skip
    else:
        assert moved.empty
        assert not store.verify().moved
        now[0] = MARCH + 40 * DAY
        store.sync(service)  # type: ignore[arg-type]
        store.close("2026-03")


def deposits_of_two() -> FakeService:
    """For each of p-1 and p-2 a deposit of 10.50 in November, and one in February."""
    old, made = months.text(FEBRUARY - 90 * DAY), months.text(FEBRUARY + DAY)
    return FakeService([
        transfer(n, profile_id=f"p-{1 + n % 2}", created_at=at, updated_at=at)
        for n, at in enumerate((old, old, made, made))
    ])  # fmt: skip


def refuse_balance(operation: str, params: dict[str, str]) -> None:
    """A service that does not show the balance of p-2."""
    if operation == "get_profile_balance" and params["profile_id"] == "p-2":
        raise PermissionDenied(403, "Forbidden")


def test_an_opening_that_is_seen_later_moves_a_closed_month(tmp_path: Path) -> None:
    """Though no transfer has changed: of a profile that the service did not show until then."""
    now, service = [FEBRUARY - DAY], deposits_of_two()
    service.hook = refuse_balance
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, since="2026-01-15")  # type: ignore[arg-type]
    now[0] = MARCH + DAY
    store.sync(service)  # type: ignore[arg-type]
    never = "What there was of USD of p-2 when the store begins, at 2026-01-15 00:00 UTC, was never"
    assert never in fl.report(store, "2026-02").remark
    with pytest.raises(CloseRefused, match=never):
        store.close("2026-02")
    store.close("2026-02", with_breaks="p-2 is not shown")
    assert store.restatements().empty
    service.hook = lambda operation, params: None
    now[0] = MARCH + 2 * DAY
    store.sync(service)  # type: ignore[arg-type]
    (moved,) = store.restatements().to_dict("records")
    assert (moved["profile_id"], moved["line"], moved["then"], moved["now"]) == (
        "p-2", "opening", D(0), D("10.5")
    )  # fmt: skip
    assert store.verify().moved
    (row,) = fl.report(store, "2026-03").balances.query("profile_id == 'p-2'").to_dict("records")
    assert (row["opening"], row["restated"]) == (D("10.5"), D("10.5"))
    now[0] = MARCH + 40 * DAY
    store.sync(service)  # type: ignore[arg-type]
    with pytest.raises(CloseRefused, match=r"2026-02 .*has moved since"):
        store.close("2026-03")


def test_a_month_is_compared_where_only_an_opening_is_not_known(tmp_path: Path) -> None:
    """What moved in the month before is known, also of the profile that the service never showed:
    report and pack compare with it, and no sample, fees or flows of it lack anything."""
    now, service = [FEBRUARY - DAY], deposits_of_two()
    service.hook = refuse_balance
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, since="2026-01-15")  # type: ignore[arg-type]
    now[0] = MARCH + 40 * DAY
    store.sync(service)  # type: ignore[arg-type]
    report = fl.report(store, "2026-03")
    assert "What there was of USD of p-2 when the store begins" in report.remark
    assert (report.before, report.frames["flux"].empty) == ("2026-02", False)
    assert fl.audit.sample("2026-02", store, size=1, seed=1).missing == ""
    desk = Desk(store)
    assert "remark" not in desk.fees(period="2026-02")
    assert "remark" not in desk.flows(period="2026-02")
    assert "What there was of USD of p-2" in desk.balances(at="2026-02-15")["remark"]
    closed = store.close("2026-03", with_breaks="p-2 is not shown")
    page = reports.write_pack(store, closed, tmp_path / "pack")[0].read_text(encoding="utf-8")
    assert "there is nothing to compare with" not in page


@pytest.mark.seconds
def test_a_report_says_what_the_judgement_says_and_its_command_gives_it_again(
    tmp_path: Path,
) -> None:
    """Also where the last news is a row that a sync of one table could not read, or a close."""
    now = [MARCH + DAY]
    made = dict.fromkeys(("created_at", "updated_at"), months.text(FEBRUARY + DAY))
    march = dict.fromkeys(made, months.text(MARCH))
    service = FakeService([transfer(1, **made), transfer(3, **march)])
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service)  # type: ignore[arg-type]

    def agree(state: str) -> None:
        assert fl.reconcile.judge(store).state == state
        report = fl.report(store, "2026-03")
        caught_up = reports.catch_up(store, tmp_path / "out", ["csv"], since="2200-01")
        assert report.verdict.state == caught_up.verdict.state == state
        assert report.is_alarming == caught_up.is_alarming
        words = report.sources["Command"].split()
        again = fl.report(store, "2026-03", as_of=words[words.index("--as-of") + 1])
        assert again.text == report.text
        assert again.balances.equals(report.balances)
        now[0] += 3_600 * 10**9

    agree("proved")
    store.close("2026-02")
    service.transfers.append(transfer(2, **made))
    now[0] += DAY
    store.sync(service, full=True)  # type: ignore[arg-type]
    agree("proved")
    store.close("2026-02", restate="it came late")
    agree("proved")
    service.events.append({"id": "e-1", "type": "x", "created_at": "no time", "object": {}})
    now[0] += DAY
    store.sync(service, ["events"])  # type: ignore[arg-type]
    agree("partly_proved")
    store.accept_set_aside(by="Ana", reason="a test")
    agree("proved")


@pytest.mark.seconds
@pytest.mark.parametrize("table", ["transfers", "events"])
def test_a_closed_month_whose_rows_were_lost_and_fetched_again_has_not_moved(
    tmp_path: Path, table: str
) -> None:
    """What the close froze is compared with what is known now, line by line."""
    now = [MARCH + DAY]
    edge = dict.fromkeys(("created_at", "updated_at"), months.text(MARCH - DAY // 24))
    early = dict.fromkeys(edge, months.text(FEBRUARY - DAY))
    service = FakeService(
        [transfer(1, **early), transfer(2, **edge | {"updated_at": months.text(MARCH + 1)})],
        events=[{
            "id": "e-1", "type": "transfer.wire_deposit.completed", "source": "s",
            "object": {"id": "t-000002"}, "created_at": edge["created_at"],
        }],
    )  # fmt: skip
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service)  # type: ignore[arg-type]
    closed = store.close("2026-02")
    assert as_lines(closed.lines) == {
        ("p-1", "USD", "opening", ""): D("10.5"), ("p-1", "USD", "receipt", "WIRE_DEPOSIT"):
        D("10.5"), ("p-1", "USD", "closing", ""): D("21"),
    }  # fmt: skip
    path = min((tmp_path / "store" / table).glob("*.parquet"))
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    now[0] += DAY
    assert store.repair(service).tables  # type: ignore[arg-type]
    store.sync(service)  # type: ignore[arg-type]
    assert store.restatements().empty
    check_report(store, closed, "settled")
    assert "restated" not in fl.report(store, "2026-03").balances
    service.transfers[1].update(status="FAILED", updated_at=months.text(MARCH + DAY))
    store.sync(service)  # type: ignore[arg-type]
    (moved,) = store.restatements().to_dict("records")
    assert (moved["line"], moved["cause"], moved["then"], moved["now"], moved["difference"]) == (
        "receipt", "lost", D("10.5"), D(0), D("-10.5")
    )  # fmt: skip
    check_report(store, closed, "settled")


@pytest.mark.parametrize(
    ("way", "tone", "headline"),
    [
        ("proved", "good", "Unexplained difference: none"),
        ("not compared", "warn", "Unexplained difference: not known, no balance was compared"),
        ("a rule is broken", "bad", "Unexplained difference: 1.00 USD in totals that are not their "
         "amount and fee"),
    ],
)  # fmt: skip
def test_the_pack_is_green_only_where_nothing_was_closed_in_spite_of(
    tmp_path: Path, way: str, tone: str, headline: str
) -> None:
    made = dict.fromkeys(("created_at", "updated_at"), months.text(FEBRUARY + DAY))
    service = FakeService([transfer(1, **made)])
    if way == "a rule is broken":
        service.transfers[0]["amount"] = "9.50"
    store = fl.Store(tmp_path / "store", clock=lambda: MARCH + DAY)
    tables = ["transfers"] if way == "not compared" else ["transfers", "balances"]
    store.sync(service, tables)  # type: ignore[arg-type]
    closed = store.close("2026-02", with_breaks=None if way == "proved" else "known")
    page = reports.write_pack(store, closed, tmp_path / "pack")[0].read_text(encoding="utf-8")
    assert f'<section class="verdict {tone}"' in page
    assert f">{headline}<" in page


@pytest.mark.seconds
def test_what_was_before_the_store_begins_is_in_no_period_without_a_word(tmp_path: Path) -> None:
    """Four deposits of 10.50; the store begins, and is first synced, about the third."""
    days = [FEBRUARY + number * DAY for number in (1, 10, 12, 35)]
    service = FakeService([
        transfer(n, **dict.fromkeys(("created_at", "updated_at"), months.text(at)))
        for n, at in enumerate(days)
    ])  # fmt: skip
    now = [FEBRUARY + 13 * DAY]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    last = service.transfers.pop()
    store.sync(service, since="2026-02-12")  # type: ignore[arg-type]
    service.transfers.append(last)
    now[0] = MARCH + 40 * DAY
    store.sync(service)  # type: ignore[arg-type]
    lacks = (
        "The store begins at 2026-02-12 00:00 UTC: what moved from 2026-{}-01 00:00 UTC until then "
        "is not in it, and the opening is of that time; 'fundlab sync --full' fetches it."
    )
    with pytest.raises(CloseRefused) as refused:
        store.close("2026-01", with_breaks="known")
    assert list(refused.value.obstacles) == [lacks.format("01")]
    with pytest.raises(CloseRefused) as refused:
        store.close("2026-02")
    assert list(refused.value.obstacles) == [lacks.format("02")]
    report = fl.report(store, "2026-02")
    assert report.remark == lacks.format("02")
    quarter = fl.report(store, "2026-Q2", as_of=months.text(MARCH + 40 * DAY))
    assert quarter.remark == "The period is not over: it ends at 2026-07-01 00:00 UTC."
    both = fl.report(store, "2026").remark
    assert both == f"{lacks.format('01')} The period is not over: it ends at 2027-01-01 00:00 UTC."
    assert report.balances[["opening", "inflow", "closing"]].values.tolist() == [
        [D("21"), D("10.5"), D("31.5")]
    ]
    march = fl.report(store, "2026-03")
    assert (march.remark, march.before, march.frames["flux"].empty) == ("", "", True)
    assert {figure.before for figure in march.key_figures} == {""}
    closed = store.close("2026-03")
    files = reports.write_pack(store, closed, tmp_path / "pack")
    assert "there is nothing to compare with" in files[0].read_text(encoding="utf-8")
    now[0] += DAY
    store.sync(service, full=True)  # type: ignore[arg-type]
    march = fl.report(store, "2026-03")
    assert (march.before, march.frames["flux"].empty) == ("2026-02", False)
    store.close("2026-02")


@pytest.mark.seconds
def test_a_month_says_that_what_was_made_before_the_store_begins_may_have_settled_in_it(
    tmp_path: Path,
) -> None:
    """A deposit of 10.50 was made in January and settled on 3 February, another was made and
    settled on 6 February; the store begins on 1 February, and was first synced on 10 March."""
    days = [(FEBRUARY - 2 * DAY, FEBRUARY + 2 * DAY), (FEBRUARY + 5 * DAY, FEBRUARY + 5 * DAY)]
    service = FakeService(
        [transfer(n, created_at=months.text(made), updated_at=months.text(settled))
         for n, (made, settled) in enumerate(days)],
        complete=True,
    )  # fmt: skip
    now = [MARCH + 9 * DAY]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    tables = ["transfers", "balances"]
    store.sync(service, tables, since="2026-02-01")  # type: ignore[arg-type]
    now[0] = MARCH + 40 * DAY
    service.transfers.append(
        transfer(9, profile_id="p-2", **dict.fromkeys(("created_at", "updated_at"),
                                                      months.text(now[0] - DAY)))
    )  # fmt: skip
    store.sync(service, tables)  # type: ignore[arg-type]
    lacks = (
        "The store begins at 2026-02-01 00:00 UTC, and its openings were observed until 2026-03-10 "
        "00:00 UTC: what was made before the one and settled before the other is in the opening, "
        "not among what moved; 'fundlab sync --full' fetches it."
    )
    for period in ("2026-02", "2026-03"):
        with pytest.raises(CloseRefused) as refused:
            store.close(period)
        assert list(refused.value.obstacles) == [lacks]
        assert fl.report(store, period).remark == lacks
        assert fl.report(store, period, basis="created").remark == ""
    later = fl.report(store, "2026-04")
    assert later.remark == "The period is not over: it ends at 2026-05-01 00:00 UTC."
    closed = store.close("2026-02", with_breaks="the opening is the service's")
    assert closed.lines["amount"].tolist() == [*map(D, ("10.5", "10.5", "21", "0", "0"))]
    store.close("2026-02", basis="created")
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert fl.report(store, "2026-02").remark == ""
    assert store.restatements()["basis"].unique().tolist() == ["settled"]


def test_the_pack_of_a_store_that_begins_late_is_as_its_report(tmp_path: Path) -> None:
    """Movements are proved, balances are not: no more than a warning in either."""
    now = [FEBRUARY - DAY]
    days = (FEBRUARY - 90 * DAY, FEBRUARY + DAY)
    service = FakeService([
        transfer(n, **dict.fromkeys(("created_at", "updated_at"), months.text(at)))
        for n, at in enumerate(days)
    ])  # fmt: skip
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, since="2026-01-15")  # type: ignore[arg-type]
    now[0] = MARCH + DAY
    store.sync(service)  # type: ignore[arg-type]
    page = reports.write_pack(store, store.close("2026-02"), tmp_path / "pack")[0]
    assert '<section class="verdict warn"' in page.read_text(encoding="utf-8")
    assert fl.report(store, "2026-02").tone == "warn"


def test_the_pack_nets_no_differences_and_names_what_was_accepted_before_the_close(
    tmp_path: Path,
) -> None:
    now = [MARCH + DAY]
    made = dict.fromkeys(("created_at", "updated_at"), months.text(FEBRUARY + DAY))
    service = FakeService([transfer(n, profile_id=f"p-{n}", **made) for n in (1, 2, 3)],
                          complete=True)  # fmt: skip
    service.transfers.append(transfer(4, profile_id="p-3", **made, amount="1.2.3"))
    known = service.get_profile_balance

    def off(profile_id: str, asset: str) -> ProfileBalance:
        off_by = {"p-1": D(5), "p-2": D(-5), "p-3": D(0)}[profile_id]
        balance = D("10.5") if profile_id == "p-3" else known(profile_id, asset).available
        members = {"asset": asset, "available": f"{balance + off_by:f}", "trading": "0"}
        return ProfileBalance.model_validate(members)

    service.get_profile_balance = off  # type: ignore[method-assign]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service)  # type: ignore[arg-type]
    store.accept_set_aside(by="Ana", reason="a test of the operator")
    closed = store.close("2026-02", with_breaks="known")
    before = reports.write_pack(store, closed, tmp_path / "pack")
    page = before[0].read_text(encoding="utf-8")
    assert "Unexplained difference: 10.00 USD" in page
    assert "t-000004 of transfers could not be read (" in page
    assert "accepted by Ana, because: a test of the operator" in page
    del service.transfers[2]
    now[0] = MARCH + 2 * DAY
    store.sync(service, full=True)  # type: ignore[arg-type]
    store.accept_gone(by="Ben", reason="never executed")
    again = reports.write_pack(store, closed, tmp_path / "again")
    for path, other in zip(before, again, strict=True):
        assert path.read_bytes() == other.read_bytes(), path.name


def test_a_report_goes_on_from_no_close_with_days_in_another_zone(tmp_path: Path) -> None:
    """January and February are closed in New York: February's closing is of five hours later."""
    now = [MARCH + DAY]
    service = FakeService(honours={"created_at", "updated_at", "ids"}, complete=True)

    def made(name: str, at: str, amount: int) -> None:
        times = dict.fromkeys(("created_at", "updated_at"), f"2026-{at}:00:00Z")
        amounts = dict.fromkeys(("amount", "total"), str(amount))
        service.transfers.append(transfer(0, id=name, **amounts, **times))

    for name, at, amount in (("a", "01-15T00", 100), ("b", "02-15T00", 60), ("c", "03-01T02", 5)):
        made(name, at, amount)
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service)  # type: ignore[arg-type]
    for month in ("2026-01", "2026-02"):
        store.close(month, tz="America/New_York")
    made("late", "01-20T00", 3)
    made("late, too", "03-01T03", 4)
    now[0] = MARCH + 2 * DAY
    store.sync(service, full=True)  # type: ignore[arg-type]
    said = (
        "2026-02 (settled basis) was closed with days in America/New_York, and this report's days "
        "are in UTC: its openings are those known now, without a line that leads from that closing "
        "to them; a report with --tz America/New_York (tz='America/New_York') has it."
    )
    report = fl.report(store, "2026-03")
    assert said in report.moved
    (row,) = report.balances.to_dict("records")
    assert (row["opening"], row["inflow"], row["closing"]) == (D(163), D(9), D(172))
    assert "restated" not in row
    report = fl.report(store, "2026-03", tz="America/New_York")
    (row,) = report.balances.to_dict("records")
    assert (row["opening"], row["restated"], row["closing"]) == (D(165), D(7), D(172))
    assert said not in report.moved


@pytest.mark.parametrize("way", ["failed", "gone"])
def test_a_closed_balance_of_which_nothing_counts_any_more_is_in_the_next_report(
    tmp_path: Path, way: str
) -> None:
    now, made = [MARCH + DAY], months.text(FEBRUARY + DAY)
    service = FakeService(
        [transfer(n, profile_id=f"p-{n}", created_at=made, updated_at=made) for n in (1, 2)],
        complete=True,
    )
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service)  # type: ignore[arg-type]
    closed, now[0] = store.close("2026-02"), MARCH + 2 * DAY
    if way == "gone":
        del service.transfers[0]
    else:
        service.transfers[0].update(status="FAILED", updated_at=months.text(MARCH + DAY))
    store.sync(service, full=True)  # type: ignore[arg-type]
    if way == "gone":
        store.accept_gone(by="Ana", reason="never executed")
    check_report(store, closed, "settled")
    report = fl.report(store, "2026-03")
    (row,) = report.balances[report.balances["profile_id"] == "p-1"].to_dict("records")
    assert (row["opening"], row["restated"], row["closing"], row["available"]) == (
        D("10.5"), D("-10.5"), D(0), D(0)
    )  # fmt: skip
    lines = report.roll_forward[report.roll_forward["profile_id"] == "p-1"]
    assert lines["line"].tolist() == ["opening", "restatement", "closing"]
    first = report.movements.iloc[0]
    assert (first["step"], first["amount"]) == ("Opening", D("21"))


def test_what_was_taken_over_of_a_profile_stays_when_it_is_no_longer_ours(tmp_path: Path) -> None:
    """No verdict looks at it any more; its balance is still what it was."""
    now, service = [FEBRUARY - DAY], deposits_of_two()
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, since="2026-01-15")  # type: ignore[arg-type]
    now[0] = MARCH + DAY
    store.sync(service)  # type: ignore[arg-type]
    closed = store.close("2026-02")
    service.hook = refuse_balance
    now[0] = MARCH + 2 * DAY
    store.sync(service)  # type: ignore[arg-type]
    store.accept_refused(profile_id="p-2", by="Ana", reason="sold")
    judgement = fl.reconcile.judge(store)
    assert set(judgement.table["profile_id"]) == {"p-1"}
    found = fl.report(store, "2026-03").balances.set_index("profile_id")
    assert found["opening"].to_dict() == found["closing"].to_dict() == {
        "p-1": D("21"), "p-2": D("21")
    }  # fmt: skip
    assert closed.lines.groupby("profile_id")["amount"].last().to_dict() == {
        "p-1": D("21"), "p-2": D("21")
    }  # fmt: skip
    service.transfers[3]["updated_at"] = months.text(MARCH + DAY)  # nothing else of it
    store.sync(service)  # type: ignore[arg-type]
    assert store.restatements().empty


def test_what_stands_in_the_way_is_listed_and_breaks_can_be_accepted(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 5)
    store = month.store
    with pytest.raises(CloseRefused) as over:
        store.close("2026-03")
    assert "knows nothing of transfers after 2026-03-03 00:00 UTC" in over.value.obstacles[0]
    row = month.add(MARCH - 3 * DAY, "COMPLETED", MARCH - 3 * DAY)
    row["total"] = f"9{row['total']}"
    month.sync(CLOSED_AT + DAY)
    with pytest.raises(CloseRefused) as broken:
        store.close("2026-02")
    assert [text for text in broken.value.obstacles if row["id"] in text]
    assert "--with-breaks" in str(broken.value)
    assert store.closes().empty
    done = store.close("2026-02", with_breaks="the service was told")
    assert done.content["accepted"]["reason"] == "the service was told"
    assert done.content["accepted"]["problems"] == list(broken.value.obstacles)
    assert "unexplained" in set(done.lines["line"])
    with pytest.raises(InvalidRequest, match=r"is closed since .* it has not moved"):
        store.close("2026-02", with_breaks="again")
    with pytest.raises(InvalidRequest, match="has not moved since it was closed"):
        store.close("2026-02", restate="for nothing")
    with pytest.raises(InvalidRequest, match="it is not closed"):
        store.close("2026-01", restate="for nothing")


@pytest.mark.thorough
def test_a_moved_month_comes_before_the_next_one(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 6)
    store = month.store
    store.close("2026-01")
    store.close("2026-02")
    row = month.add(MARCH - 50 * DAY, "COMPLETED", MARCH - 49 * DAY)
    month.sync(MARCH + 40 * DAY)
    found = store.restatements()
    assert set(found["period"]) == {"2026-01", "2026-02"}
    assert set(found.loc[found["period"] == "2026-02", "line"]) == {"opening"}
    assert set(found["transfer_id"]) == {row["id"]}
    with pytest.raises(CloseRefused, match="The earlier period 2026-01"):
        store.close("2026-02", restate="late")
    store.close("2026-01", restate="late")
    store.close("2026-02", restate="late")
    last = store.close("2026-03")
    opening, closing = (
        as_lines(frame[frame["line"] == line].assign(line="")) for frame, line in
        ((last.lines, "opening"), (store_close(store, 3).lines, "closing"))
    )  # fmt: skip
    assert opening == closing


def test_reopened_is_closed_again_and_nothing_is_removed(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 7)
    store = month.store
    store.close("2026-02", by="Ana", note="first")
    with pytest.raises(InvalidRequest, match="period '2026-03' is not closed; closed are: 2026-02"):
        store.reopen("2026-03", by="Ben", reason="mistyped")
    store.reopen("2026-02", by="Ben", reason="a fee was wrong")
    store.close("2026-02", by="Ana")
    frame = store.closes()
    assert frame["state"].tolist() == ["reopened", "closed"]
    assert frame.columns.tolist()[:7] == [
        "period", "basis", "closed_at", "by", "pin", "hash", "state",
    ]  # fmt: skip
    kinds = [record.kind for record in store.records() if record.kind != "pass"]
    assert kinds == ["close", "reopen", "close"]
    assert frame["pin"].nunique() == 2
    assert set(frame["pin"]) <= set(store.pins())


def test_annotations_are_kept_and_need_something_to_say(tmp_path: Path) -> None:
    store = months.made(tmp_path / "store", 7).store
    store.annotate("t-00001", owner="Ana", by="Ben")
    store.annotate(ENTRY_OF_A_BANK, comment="asked the bank")
    with pytest.raises(InvalidRequest, match="nothing to record"):
        store.annotate("t-00001")
    for wrong in ("t-99999", "t-0000", f"{ENTRY_OF_A_BANK}0"):
        with pytest.raises(InvalidRequest, match=f"item_id='{wrong}' is not in .*store: give"):
            store.annotate(wrong, owner="Ana")
    with pytest.raises(InvalidRequest, match="item_id='': give a text"):
        store.annotate("", owner="Ana")
    found = store.annotations()
    assert found["owner"].tolist() == ["Ana", pd.NA]
    assert found.columns.tolist() == ["item_id", "owner", "comment", "decision", "by", "at"]
    assert found["at"].is_monotonic_increasing


@pytest.mark.seconds
@pytest.mark.parametrize("wrong", [5, b"Ana", "half \ud800"])
def test_what_no_table_could_hold_is_never_recorded(tmp_path: Path, wrong: Any) -> None:
    month = months.made(tmp_path / "store", 7)
    store = month.store
    for name in ("owner", "comment", "decision", "by"):
        given = {"comment": "asked", name: wrong}
        with pytest.raises(InvalidRequest, match=f"{name}="):
            store.annotate("t-00001", **given)
    for name in ("by", "note", "with_breaks"):
        with pytest.raises(InvalidRequest, match=f"{name}="):
            store.close("2026-02", **{name: wrong})
    store.close("2026-02")
    with pytest.raises(InvalidRequest, match="by="):
        store.reopen("2026-02", by=wrong, reason="a fee")
    assert (len(store.closes()), len(store.annotations())) == (1, 0)


@pytest.mark.seconds
def test_a_month_is_closed_in_the_zone_of_its_days(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    month = months.made(tmp_path / "store", 7)
    where = ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "pack")]
    cli.run(["close", "2026-02", "--tz", "Asia/Tokyo", *where])
    (closed,) = closes_of(month.store.records())
    assert closed.end == MARCH - 9 * DAY // 24
    assert "--tz Asia/Tokyo" in (tmp_path / "pack" / "close-2026-02.html").read_text("utf-8")
    assert reports.reperform(month.store, tmp_path / "pack") == []
    month.add(closed.end - 1, "COMPLETED", closed.end - 1, event=False)
    month.add(closed.end, "COMPLETED", closed.end, event=False)
    month.sync(LATER)
    assert month.store.restatements()["transfer_id"].nunique() == 1
    with pytest.raises(InvalidRequest, match="closed with days in Asia/Tokyo; leave tz out"):
        month.store.close("2026-02", restate="late", tz="UTC")
    again = month.store.close("2026-02", restate="late")
    assert (again.tz, again.end) == ("Asia/Tokyo", closed.end)
    assert moved_by(as_lines(closed.lines), as_lines(again.lines)) == {
        tuple(row[:4]): D(row[-1]) for row in again.content["restates"]["bridge"]
    }
    month.store.reopen("2026-02", by="Ana", reason="a fee was wrong")
    capsys.readouterr()
    cli.run(["close", "2026-02", *where[:2]])
    assert "; its days are in Asia/Tokyo" in capsys.readouterr().out
    assert closes_of(month.store.records())[-1].end == closed.end
    month.store.reopen("2026-02", by="Ana", reason="the wrong zone")
    assert month.store.close("2026-02", tz="UTC").tz == "UTC"


def test_a_record_that_was_changed_or_taken_away_is_an_error(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 8)
    store = month.store
    store.close("2026-02")
    for number in range(3):
        store.annotate("t-00001", comment=str(number))
    assert store.verify().ok
    paths = {path: path.read_bytes() for path in sorted((tmp_path / "store" / "records").iterdir())}
    assert len(paths) == 5  # what the first sync found, and four that people made
    for path, text in paths.items():
        path.write_bytes(text.replace(b'"comment":"0"', b'"comment":"9"')[:-1])
        for way in (store.annotations, store.closes, store.pins, lambda: store.read("transfers")):
            with pytest.raises(StoreDamaged, match=f"{path.name}: is not what was written"):
                way()
        (problem,) = [one for one in store.verify().problems if one.table == "records"]
        assert problem.where == path.name
        path.unlink()
        for way in (store.annotations, store.closes, store.pins, lambda: store.read("transfers")):
            with pytest.raises(StoreDamaged, match=f"{path.name}: is missing"):
                way()
        path.write_bytes(text)
    assert store.verify().ok


@pytest.mark.thorough
def test_the_commands_say_so_in_one_line_and_end_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    month = months.made(tmp_path / "store", 9)
    where = ["--store", str(tmp_path / "store")]

    def run(*arguments: str) -> tuple[int, str]:
        status = 0
        try:
            cli.run([*arguments, *where])
        except cli.typer.Exit as end:
            status = end.exit_code
        return status, capsys.readouterr().out

    assert run("close", "2026-03")[0] == 3
    status, out = run("close", "2026-02", "--by", "Ana")
    assert (status, out.startswith("2026-02 (settled basis) closed at ")) == (0, True)
    made, waiting = reports.read_report(fl.Store(where[1]), "2026-02").key_figures[1:3]
    assert f"\n{made.value} transfers in it, {waiting.value} items open at its end\n" in out
    told = json.loads(run("close", "2026-02", "--json")[1])
    assert (sum(told["transfers"].values()), told["open_items"]) == (10, 3)
    status, out = run("close", "2026-02", "--by", "Ben", "--with-breaks", "--reason", "a fee")
    assert status == 0
    assert out.startswith(
        "2026-02 (settled basis) was closed already and nothing was changed: closed at "
    )
    assert "by Ana, record" in out
    assert json.loads(run("close", "2026-02", "--json")[1])["changed"] is False
    with pytest.raises(cli.typer.BadParameter, match="closed with days in UTC, not Asia/Tokyo"):
        run("close", "2026-02", "--tz", "Asia/Tokyo")
    with pytest.raises(cli.typer.BadParameter) as wrong:
        run("close", "2026-13")
    assert wrong.value.param_hint == "PERIOD or --tz"
    month.add(MARCH - 5 * DAY, "COMPLETED", MARCH - 4 * DAY)
    month.sync(LATER)
    out_folder = ["--out", str(tmp_path / "out"), "--format", "csv"]
    for arguments in (
        ["verify"],
        ["report", "--period", "2026-03", *out_folder[:2], "--format", "html"],
        ["report", "--catch-up", "--period", "2026-02", *out_folder],
        ["close", "2026-02"],
    ):
        status, out = run(*arguments)
        lines = [line for line in out.splitlines() if "has moved since it was closed" in line]
        assert (status, len(lines)) == (3, 1), arguments
        assert "by 1 transfer; accept it with 'fundlab close 2026-02 --restate" in lines[0]
    page = (tmp_path / "out" / "report-2026-03.html").read_text(encoding="utf-8")
    assert "Closed periods that have moved, transfer by transfer" in page
    banner = page.split('<section class="verdict ')[1].split("</section>")[0]
    assert banner.startswith("warn")
    assert "has moved since it was closed" in banner
    assert "<th" in page.split("Restated")[0]
    table = page.split("<caption><span>Closed periods that have moved, transfer by transfer")[1]
    assert ">Basis" in table.split("</thead>")[0]  # the same lines move on both
    status, out = run("close", "2026-02", "--restate", "--reason", "late", "--json")
    assert (status, json.loads(out)["closed"]) == (0, True)
    assert run("verify")[0] == 0
    month.add(MARCH - 5 * DAY, "COMPLETED", MARCH - 4 * DAY)
    connected = contextlib.nullcontext(month.service)
    monkeypatch.setattr("fundlab.client.client.connect", lambda: connected)
    status, out = run("sync", "transfers", "events", "balances", "--full")
    assert (status, out.count("has moved since it was closed")) == (3, 1)
    assert run("reopen", "2026-02", "--by", "Ben", "--reason", "a fee")[0] == 0
    assert month.store.closes()["state"].tolist() == ["restated", "reopened"]
    _, out = run("close", "2016-02", "--by", "Ana")
    assert "\nno transfer in it, 0 items open at its end; if another period was meant" in out


def test_a_close_without_transfers_of_its_own_tells_what_is_still_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = months.FakeService(complete=True)
    month = months.Month(
        service, fl.Store(tmp_path, clock=lambda: CLOSED_AT), [CLOSED_AT], random.Random(1)
    )
    month.begin()
    month.add(months.FEBRUARY - 3 * DAY, "PENDING")
    month.sync(CLOSED_AT)
    cli.run(["close", "2026-02", "--basis", "created", "--store", str(tmp_path)])
    assert "\nno transfer in it, 1 item open at its end; if another" in capsys.readouterr().out
