"""One payment, one transfer: reruns, copies, lost answers, two kernels' worth of threads."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import scripted

import fundlab as fl
from fundlab.base.errors import ActionRefused, CallError, NetworkError, StoreDamaged, Unavailable
from fundlab.client.connections import Http
from fundlab.client.http import Answer, Outgoing
from fundlab.models import CreateFiatWithdrawal
from fundlab.models.requests import body_bytes, checked


def test_a_payment_is_made_once_and_a_rerun_says_so(bench: Any) -> None:
    before = bench.available()
    first = bench.pay("100.00")
    again = bench.pay("100.00")
    assert first.id == again.id
    assert [t.id for t in bench.made()] == [first.id]
    assert before - bench.available() == Decimal("125.00")
    assert bench.said[0].startswith("submitted ")
    assert bench.said[1].startswith("already submitted ")
    assert f", PENDING: withdrawal {first.id}" in bench.said[1]
    assert bench.said[1].endswith("(--allow-duplicate --ref-id NAME)")


def test_a_rerun_after_completion_says_completed_and_the_plan_shows_it(bench: Any) -> None:
    transfer = bench.pay("41.00")
    bench.sandbox.clock.advance(6)
    plan = bench.plan("41")
    assert plan.is_submitted
    assert "already submitted" in repr(plan)
    advice = "for one more like it, plan with allow_duplicate=True and another ref_id"
    assert f"{advice} (--allow-duplicate --ref-id NAME)" in repr(plan)
    assert plan.submit(confirm=plan.code).status == "COMPLETED"
    assert f"COMPLETED: withdrawal {transfer.id}" in bench.said[-1]
    assert bench.journal()["status"].tolist() == ["COMPLETED"]
    one_more = bench.plan("41", allow_duplicate=True, ref_id=f"more-{bench.account.id}")
    assert one_more.submit(confirm=one_more.code).id != transfer.id


def test_a_plan_that_was_submitted_says_so_in_place_of_its_code(bench: Any) -> None:
    plan = bench.plan("43.00")
    assert plan.code in repr(plan)
    made = plan.submit(confirm=plan.code)
    shown = repr(plan)
    assert plan.code not in shown
    assert "PENDING" in shown
    assert f"withdrawal {made.id}" in shown


def test_a_literal_code_still_fits_when_the_notebook_runs_again(bench: Any) -> None:
    code = bench.plan("42.00").code
    first = bench.plan("42.00").submit(confirm=code)
    assert bench.plan("42.00").submit(confirm=code.lower().replace("-", " ")).id == first.id


def test_the_intent_is_on_disk_before_the_first_byte_is_sent(bench: Any) -> None:
    seen: list[list[str]] = []
    send = bench.client.create_fiat_withdrawal

    def watched(**given: Any) -> Any:
        seen.append(bench.journal()["state"].tolist())
        return send(**given)

    bench.client.create_fiat_withdrawal = watched
    plan = bench.plan("43.00")
    plan.submit(confirm=plan.code)
    assert seen == [["unknown"]]
    assert bench.journal()["state"].tolist() == ["done"]


def test_the_journal_holds_the_very_bytes_that_are_sent(bench: Any) -> None:
    plan = bench.plan("44.10", metadata={"invoice": "Nº 7"})
    sent = checked(CreateFiatWithdrawal, "create_fiat_withdrawal", plan.arguments)
    assert plan.submit().metadata == {"invoice": "Nº 7"}
    entry = plan.context.journal.find(plan.ref_id)
    assert entry is not None
    assert entry.body == body_bytes(sent, "create_fiat_withdrawal")


@pytest.mark.parametrize("kind", ["lost", "truncate", "reset"])
def test_a_lost_answer_pays_once(bench: Any, kind: str) -> None:
    bench.sandbox.faults.add(kind, "create_fiat_withdrawal", count=1)
    transfer = bench.pay("45.00")
    assert [t.id for t in bench.made()] == [transfer.id]


def test_an_outcome_nobody_knows_is_settled_by_running_it_again(bench: Any, lagging: Any) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(CallError) as failure:
        bench.pay("46.00")
    lagging.undo()
    assert "run the same cell again, or fl.resume()" in failure.value.__notes__[0]
    assert bench.journal()["state"].tolist() == ["unknown"]
    bench.sandbox.faults.clear()
    transfer = bench.pay("46.00")
    assert [t.id for t in bench.made()] == [transfer.id]
    assert bench.said[-1].startswith("already submitted")


def test_resume_asks_the_service_and_pays_nothing(bench: Any, lagging: Any) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(NetworkError):
        bench.pay("47.00")
    lagging.undo()
    bench.sandbox.faults.clear()
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=500)
    with pytest.raises(Unavailable):
        bench.pay("48.00")
    settled = fl.resume(bench.client, say=bench.said.append)
    assert settled["state"].tolist() == ["done", "absent"]
    assert settled["total"].tolist()[0] == Decimal("72.00")
    assert len(bench.made()) == 1
    bench.sandbox.faults.clear()
    bench.pay("48.00")
    assert sorted(t.amount for t in bench.made()) == [Decimal("47.00"), Decimal("48.00")]
    bench.sandbox.clock.advance(6)
    assert len(fl.resume(bench.client)) == 2
    assert bench.journal()["status"].tolist() == ["COMPLETED", "COMPLETED"]
    assert fl.resume(bench.client).empty


def test_what_the_service_refused_may_be_tried_again(bench: Any) -> None:
    problem = '{"title": "Bad Request", "status": 400, "detail": "not today"}'
    bench.sandbox.faults.add(
        "status", "create_fiat_withdrawal", count=1, status=400, body=problem,
        headers={"content-type": "application/problem+json"},
    )  # fmt: skip
    with pytest.raises(fl.errors.ValidationFailed, match="not today"):
        bench.pay("49.00")
    row = bench.journal().iloc[0]
    assert (row["state"], row["detail"]) == ("refused", "400 Bad Request: not today")
    assert "refused by the service (400 Bad Request: not today)" in repr(bench.plan("49.00"))
    transfer = bench.pay("49.00")
    assert [t.id for t in bench.made()] == [transfer.id]


def test_a_refusal_after_a_lost_answer_is_not_believed(bench: Any) -> None:
    """The first attempt got through, its answer was lost, and the second was refused."""
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal", count=1)
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", count=1, after=1, status=400)
    transfer = bench.pay("50.00")
    assert [t.id for t in bench.made()] == [transfer.id]
    assert bench.journal()["state"].tolist() == ["done"]


def test_a_refusal_is_not_believed_while_an_earlier_attempt_may_still_arrive(bench: Any) -> None:
    """A gateway gave the first attempt up, and may deliver it yet; the second was refused."""
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", count=1, status=504)
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", count=1, after=1, status=403)
    with pytest.raises(CallError):
        bench.pay("50.50")
    assert bench.journal()["state"].tolist() == ["unknown"]
    transfer = bench.pay("50.50")
    assert [t.id for t in bench.made()] == [transfer.id]


def test_nor_while_that_of_a_run_before_may_still_arrive(bench: Any) -> None:
    """That run ended without an answer; the service did not know the payment yet, and then refused
    the next attempt."""
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", status=504)
    with pytest.raises(Unavailable):
        bench.pay("50.75")
    assert fl.resume(bench.client)["state"].tolist() == ["absent"]
    bench.sandbox.faults.clear()
    bench.sandbox.faults.add("status", "create_fiat_withdrawal", count=1, status=403)
    with pytest.raises(CallError):
        bench.pay("50.75")
    assert bench.journal()["state"].tolist() == ["unknown"]
    transfer = bench.pay("50.75")
    assert [t.id for t in bench.made()] == [transfer.id]


def test_a_failed_transfer_is_said_and_needs_a_ref_id_of_its_own(bench: Any) -> None:
    bench.pay("51.13")
    bench.sandbox.clock.advance(6)
    assert bench.pay("51.13").status == "FAILED"
    assert "to try again, give it a ref_id of its own (--ref-id NAME)" in bench.said[-1]
    assert bench.pay("51.13", ref_id="second-try").ref_id == "second-try"


def test_what_the_service_shows_as_failed_holds_up_no_other_try(bench: Any) -> None:
    """The journal has it as pending still: nobody asked about it."""
    bench.pay("51.13", ref_id="shown-1")
    with pytest.raises(ActionRefused, match=r"PENDING, transfer .*, ref_id 'shown-1'"):
        bench.plan("51.13", ref_id="shown-2")
    bench.sandbox.clock.advance(6)
    assert bench.journal()["status"].tolist() == ["PENDING"]
    bench.pay("51.13", ref_id="shown-2")
    assert sorted(t.status for t in bench.made()) == ["FAILED", "PENDING"]
    with pytest.raises(ActionRefused, match=r"PENDING, transfer .*, ref_id 'shown-2'"):
        bench.plan("51.13", ref_id="shown-3")


def test_a_payment_in_doubt_holds_up_another_whatever_the_service_shows(
    bench: Any, lagging: Any
) -> None:
    bench.sandbox.faults.add("lost", "create_fiat_withdrawal")
    with pytest.raises(CallError):
        bench.pay("51.13", ref_id="doubted-1")
    lagging.undo()
    bench.sandbox.faults.clear()
    bench.sandbox.clock.advance(6)
    assert [t.status for t in bench.made()] == ["FAILED"]
    with pytest.raises(ActionRefused, match=r"its outcome is unknown; fl\.resume\(\) settles it"):
        bench.plan("51.13", ref_id="doubted-2")
    fl.resume(bench.client)
    bench.pay("51.13", ref_id="doubted-2")
    assert sorted(t.status for t in bench.made()) == ["FAILED", "PENDING"]


def test_allow_duplicate_is_one_more_payment_and_only_one(bench: Any) -> None:
    first = bench.pay("52.00")
    second = bench.pay("52.00", allow_duplicate=True)
    assert first.id != second.id
    assert bench.pay("52.00", allow_duplicate=True).id == second.id
    assert len(bench.made()) == 2


def test_a_ref_id_used_without_this_journal_is_found(new_bench: Callable[..., Any]) -> None:
    here, there = new_bench(), new_bench()
    there.account = here.account
    first = here.pay("53.00", ref_id=f"rent-{here.account.id}")
    again = there.plan("53.00", ref_id=f"rent-{here.account.id}")
    assert "already submitted, from another store or program" in repr(again)
    assert again.submit().id == first.id
    assert there.journal()["state"].tolist() == ["done"]


def test_many_threads_with_the_same_plan_pay_once(bench: Any) -> None:
    results: list[Any] = []

    def run() -> None:
        try:
            results.append(bench.pay("56.00").id)
        except CallError as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {*results} == {bench.made()[0].id}
    assert len(bench.made()) == 1


def test_the_journal_is_only_added_to(bench: Any) -> None:
    bench.pay("57.00")
    path = bench.journal_file()
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as database:
        for statement in ("DELETE FROM intents", "UPDATE events SET state = 'refused'"):
            with pytest.raises(sqlite3.IntegrityError, match="only added"):
                database.execute(statement)
    database.close()


def test_a_damaged_journal_sends_nothing(bench: Any) -> None:
    plan = bench.plan("58.00")
    path = bench.journal_file()
    path.write_bytes(b"\0" * 100 + path.read_bytes()[100:])
    with pytest.raises(StoreDamaged, match="restore it from a backup"):
        plan.submit()
    assert bench.made() == []


def test_a_journal_without_a_row_is_an_empty_typed_table(tmp_path: Path) -> None:
    empty = fl.journal(folder=tmp_path / "journal")
    assert len(empty) == 0
    assert str(empty["amount"].dtype) == "decimal"
    assert str(empty["confirmed_at"].dtype) == "datetime64[ns, UTC]"
    assert not (tmp_path / "journal").exists()


def test_a_forked_process_has_connections_of_its_own(bench: Any) -> None:
    """Both send at once on a client that was connected before the fork."""
    plans = [bench.plan(f"{59 + n}.00") for n in range(2)]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of the test may go on in here
        try:
            os.write(writer, plans[1].submit().id.encode())
        except BaseException as error:  # noqa: BLE001 - the parent shows it
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    mine = plans[0].submit()
    with os.fdopen(reader) as theirs:
        other = theirs.read()
    os.waitpid(child, 0)
    assert {t.id: t.amount for t in bench.made()} == {mine.id: Decimal(59), other: Decimal(60)}


def test_another_process_has_other_sockets() -> None:
    with scripted.running() as server:
        http, request = Http(connect_timeout=1, read_timeout=1), Outgoing("GET", server.url, {})
        for process, connections in ((0, 1), (0, 1), (1, 2)):
            http._process -= process
            assert isinstance(http.exchange(request, 5), Answer)
            assert server.connections == connections
        http.close()
