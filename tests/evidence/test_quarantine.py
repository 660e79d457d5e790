"""Rows that cannot be read and rows that the service refuses: the rest is kept, and all say so."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_service import FakeService, moment, transfer, withdrawal

import fundlab as fl
from fundlab.base.errors import (
    AuthenticationFailed,
    ContradictionWarning,
    DataError,
    EmptyListWarning,
    InvalidRequest,
    PermissionDenied,
    ProtocolError,
    SetAsideWarning,
)
from fundlab.client.calls import read_answer
from fundlab.client.transport import Reply
from fundlab.models import ProfileBalance
from fundlab.tables import decode, decode_page

DAY = 86_400 * 10**9
ZERO = "0001-01-01T00:00:00Z"


class Ledger(FakeService):
    """Reports balances of its own, whatever it lists; some Gets and balances it refuses."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, complete=True, **more)
        self.balances: dict[tuple[str, str], Decimal] = {}
        self.refused: set[str] = set()
        self.hook = self.refuse

    def refuse(self, operation: str, params: dict[str, str]) -> None:
        if {*params.values()} & self.refused and "list" not in operation:
            raise PermissionDenied(403, "Forbidden")

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        if (profile_id, asset) not in self.balances:
            return super().get_profile_balance(profile_id, asset)
        amount = f"{self.balances[profile_id, asset]:f}"
        return ProfileBalance.model_validate({"asset": asset, "available": amount, "trading": "0"})


@pytest.fixture
def now() -> list[int]:
    return [1_800_000_000_000_000_000]


@pytest.fixture
def store(tmp_path: Path, now: list[int]) -> fl.Store:
    return fl.Store(tmp_path / "store", clock=lambda: now[0])


@pytest.fixture
def odd() -> Ledger:
    """Of p-1 one row has a total that is no amount."""
    service = Ledger([transfer(1), transfer(2, profile_id="p-2"), transfer(3, total="1e5")])
    service.balances["p-1", "USD"] = Decimal("10.50")
    return service


@pytest.mark.parametrize("body", [b"{}", b'{"items": null}', b'{"next_page_cursor": ""}'])
def test_a_list_without_its_array_is_empty(
    body: bytes, store: fl.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "_empty", set())
    service = FakeService()
    service.fetch_page = lambda operation, params: body  # type: ignore[method-assign]
    with pytest.warns(EmptyListWarning, match="taken for a list without rows"):
        assert fl.load_transfers(service).empty  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fl.load_transfers(service).empty  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b'{"error": "x"}', b'{"transfers": []}', b"[]", b'{"items": 5}'])
def test_what_is_no_page_stays_an_error(body: bytes) -> None:
    for set_aside in (False, True):
        with pytest.raises(ProtocolError, match="not a page"):
            decode_page("transfers", body, set_aside=set_aside)


@pytest.mark.parametrize("text", [ZERO, "0001-01-01T00:00:00.000Z", "0001-01-01T00:00:00+00:00"])
def test_the_zero_time_is_no_time(text: str) -> None:
    body = json.dumps({"items": [transfer(1, updated_at=text), transfer(2)]}).encode()
    rows = decode_page("transfers", body).rows
    assert rows.column("updated_at").is_null().to_pylist() == [True, False]
    model = fl.models.Transfer.model_validate(transfer(1, updated_at=text))
    assert model.updated_at is None
    assert model.created_at is not None


@pytest.mark.parametrize("text", ["0001-01-01T00:00:01Z", "0001-01-01", "0002-01-01T00:00:00Z"])
def test_other_times_before_1678_are_not_read(text: str) -> None:
    body = json.dumps({"items": [transfer(1, updated_at=text)]}).encode()
    with pytest.raises(DataError, match="t-000001, field 'updated_at'"):
        decode_page("transfers", body)


def test_a_loader_stops_unless_it_is_asked_to_set_aside(odd: Ledger) -> None:
    odd.transfers += [{**transfer(4), "id": None}, {**transfer(5), "created_at": "yesterday"}]
    odd.transfers[-2]["id"] = "t-000004"
    del odd.transfers[-1]["total"]
    with pytest.raises(DataError, match="t-000003"):
        fl.load_transfers(odd)  # type: ignore[arg-type]
    with pytest.warns(SetAsideWarning, match="2 rows cannot be read and left out"):
        frame = fl.load_transfers(odd, invalid="set_aside")  # type: ignore[arg-type]
    assert frame["id"].tolist() == ["t-000001", "t-000002", "t-000004"]
    found = frame.attrs["set_aside"]
    assert [row["id"] for row in found] == ["t-000003", "t-000005"]
    assert [json.loads(row["raw"]) for row in found] == [odd.transfers[2], odd.transfers[-1]]
    assert found[0]["reason"].startswith("total: '1e5'")
    with pytest.raises(InvalidRequest, match="give 'stop' or 'set_aside'"):
        fl.load_transfers(odd, invalid="drop")  # type: ignore[arg-type]


def test_the_same_id_twice_in_a_page_is_said(store: fl.Store) -> None:
    service = FakeService([transfer(1), transfer(1, memo="other")])
    with pytest.warns(ContradictionWarning, match="t-000001 more than once"):
        fl.load_transfers(service)  # type: ignore[arg-type]
    notes = "\n".join(store.sync(service, ["transfers"]).notes)  # type: ignore[arg-type]
    assert "sent twice in a page, with other members each time: t-000001" in notes


@pytest.mark.seconds
def test_a_row_that_cannot_be_read_is_set_aside_and_named_everywhere(
    store: fl.Store, odd: Ledger, tmp_path: Path, fundlab: Callable[..., tuple[int, str, str]]
) -> None:
    done = store.sync(odd)  # type: ignore[arg-type]
    assert [row.id for row in done.set_aside] == ["t-000003"]
    assert "set aside, cannot be read: t-000003 (total: '1e5'" in str(done)
    assert store.read("transfers")["id"].tolist() == ["t-000001", "t-000002"]
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    (line,) = judgement.shortfalls
    assert "1 row of transfers is set aside" in line
    assert "t-000003" in line
    assert not store.verify().ok
    assert line in str(store.verify())
    assert line in fl.report(store).text
    for command in ("verify", "report"):
        ended, said, _ = fundlab(command, "--store", store.path, *["--out", tmp_path / "r"] * (
            command == "report"))  # fmt: skip
        assert (ended, line in said) == (3, True)
    ended, said, _ = fundlab("quarantine", "list", "--store", store.path, "--json")
    (row,) = json.loads(said)["rows"]
    assert (row["id"], row["state"], json.loads(row["raw"])) == (
        "t-000003", "open", odd.transfers[2])  # fmt: skip
    assert row["ended_at"] is None
    again = store.sync(odd)  # type: ignore[arg-type]
    assert again.set_aside == ()
    assert len(store.set_aside()) == 1
    with pytest.raises(InvalidRequest, match="not rows set aside; 'fundlab quarantine list'"):
        store.accept_set_aside("t-000009", by="Ana", reason="x")
    ended, said, _ = fundlab(
        "quarantine", "accept", "t-000003", "--by", "Ana", "--reason", "a test row",
        "--store", store.path,
    )  # fmt: skip
    assert (ended, said) == (0, "1 row accepted\n")
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.is_alarming) == ("proved", False)
    assert "1 row set aside was accepted." in judgement.text
    assert store.verify().ok
    assert store.sync(odd, full=True).set_aside == ()  # type: ignore[arg-type]
    odd.transfers[2]["total"] = "2e5"  # other bytes: that was not accepted
    store.sync(odd, full=True)  # type: ignore[arg-type]
    assert store.set_aside()["state"].tolist() == ["read", "open"]
    assert fl.reconcile.judge(store).state == "partly_proved"


def test_a_row_that_can_be_read_again_is_published(store: fl.Store, odd: Ledger) -> None:
    store.sync(odd)  # type: ignore[arg-type]
    assert store.retry_set_aside(odd) == 1  # type: ignore[arg-type]
    odd.transfers[2]["total"] = "10.50"
    odd.balances["p-1", "USD"] = Decimal("21")
    assert store.retry_set_aside(odd) == 0  # type: ignore[arg-type]
    assert len(store.read("transfers")) == 3
    assert fl.reconcile.judge(store).state == "proved"


def test_a_version_that_cannot_be_read_leaves_the_last_one_that_could(
    store: fl.Store, odd: Ledger
) -> None:
    odd.transfers[2]["total"] = "10.50"
    odd.balances["p-1", "USD"] = Decimal("21")
    store.sync(odd)  # type: ignore[arg-type]
    odd.transfers[2].update(total="a lot", updated_at=moment(99))
    store.sync(odd)  # type: ignore[arg-type]
    assert store.read("transfers")["total"].tolist() == [Decimal("10.50")] * 3
    assert fl.reconcile.judge(store).state == "partly_proved"


@pytest.mark.parametrize(
    "answer",
    [{"asset": "USD", "available": "abc", "trading": "0"}, {"asset": "USD", "available": "1"}],
)
def test_a_balance_that_cannot_be_read_is_set_aside(
    answer: dict[str, str], store: fl.Store, fundlab: Callable[..., tuple[int, str, str]]
) -> None:
    """Two of them have the same bytes; the rest of the sync is published."""
    service = Ledger([transfer(n, profile_id=f"p-{n}") for n in range(1, 4)])
    store.sync(service)  # type: ignore[arg-type]
    service.transfers += [transfer(9, profile_id="p-1"), transfer(10, profile_id="p-3")]
    known, broken = service.get_profile_balance, {"p-2", "p-3"}

    def balance(profile_id: str, asset: str) -> ProfileBalance:
        if profile_id not in broken:
            return known(profile_id, asset)
        reply = Reply(json.dumps(answer).encode(), "", 200)
        return read_answer(ProfileBalance, "get_profile_balance", reply)

    service.get_profile_balance = balance  # type: ignore[method-assign]
    with pytest.raises(DataError):
        fl.load_balances(service, ["p-2"], ["USD"])  # type: ignore[arg-type]
    done = store.sync(service)  # type: ignore[arg-type]
    assert [row.id for row in done.set_aside] == ["p-2 USD", "p-3 USD"]
    assert "balances: set aside, cannot be read: p-2 USD (" in str(done)
    assert "t-000010" in store.read("transfers")["id"].tolist()
    assert [json.loads(raw) for raw in store.set_aside()["raw"]] == [answer] * 2
    assert store.sync(service).set_aside == ()  # type: ignore[arg-type]
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert judgement.table["proof"].tolist() == ["now", "until", "until"]
    assert (
        "2 rows of balances are set aside, which this version cannot read: p-2 USD ("
        in judgement.text
    )
    assert fundlab("verify", "--store", store.path)[0] == 3
    broken.remove("p-3")
    assert store.retry_set_aside(service) == 1  # type: ignore[arg-type]
    assert store.set_aside()["state"].tolist() == ["open", "read"]
    assert fl.reconcile.judge(store).state == "partly_proved"
    accepted = store.accept_set_aside("p-2 USD", by="Ana", reason="a test profile")
    assert list(accepted.columns) == list(store.set_aside().columns)
    judgement = fl.reconcile.judge(store)  # nobody has seen that balance since
    assert (judgement.state, len(judgement.shortfalls)) == ("partly_proved", 1)
    assert "1 row set aside was accepted." in judgement.text
    broken.clear()
    store.sync(service)  # type: ignore[arg-type]
    assert store.set_aside()["state"].tolist() == ["read", "read"]
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, "accepted" in judgement.text) == ("proved", False)


@pytest.mark.thorough
def test_one_refused_row_blocks_nothing(
    store: fl.Store, fundlab: Callable[..., tuple[int, str, str]]
) -> None:
    """A profile was taken from the credential: its rows are listed no more, and Get is 403."""
    service = Ledger([transfer(1), transfer(2, profile_id="p-2"), withdrawal(3, profile_id="p-2")])
    store.sync(service)  # type: ignore[arg-type]
    taken = [service.transfers.pop(1) for _ in range(2)]
    service.refused = {"p-2", *(row["id"] for row in taken)}
    service.transfers.append(transfer(9))
    done = store.sync(service, full=True)  # type: ignore[arg-type]
    assert done.refused == (("transfers", "t-000002"), ("transfers", "t-000003"))
    assert "t-000009" in store.read("transfers")["id"].tolist()
    assert len(store.read("transfers")) == 4  # refused rows stay as last seen
    asked = len([name for name, _ in service.calls if name == "get_transfer"])
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert len([name for name, _ in service.calls if name == "get_transfer"]) == asked
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.breaks) == ("partly_proved", 0)
    assert "2 rows of transfers are refused by the service (403)" in judgement.text
    assert "1 balance is no longer reported" in judgement.text
    ended, said, _ = fundlab("verify", "--store", store.path)
    assert (ended, judgement.text in said) == (3, True)
    store.accept_refused("t-000002", by="Ana", reason="moved")
    assert store.gone()["state"].tolist() == ["accepted", "refused"]
    ended, said, _ = fundlab(
        "accept-refused", "--of", "p-2", "--by", "Ana", "--reason", "moved to B",
        "--store", store.path,
    )  # fmt: skip
    assert ended == 0
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.balances) == ("proved", 1)
    assert "Profile p-2 is left out, as no longer ours since" in judgement.text
    assert "by Ana, because: moved to B" in judgement.text
    assert len(store.read("transfers")) == 4
    assert store.verify().ok
    service.refused, service.transfers = set(), [*service.transfers, *taken]
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert store.gone()["state"].tolist() == ["back", "back"]
    assert store.unlisted().empty


@pytest.mark.thorough
def test_only_a_profile_that_the_service_refuses_is_left_out_and_until_it_is_reported_again(
    store: fl.Store,
) -> None:
    service = Ledger([transfer(n, profile_id=f"p-{n}") for n in range(1, 4)])
    service.balances["p-3", "USD"] = Decimal(7)
    store.sync(service)  # type: ignore[arg-type]
    who = {"by": "Ana", "reason": "moved"}
    service.refused = {"p-2"}
    store.sync(service)  # type: ignore[arg-type]
    for profile in ("p-1", "p-3", "p-typo"):
        with pytest.raises(InvalidRequest, match="refused to show balances of: p-2"):
            store.accept_refused(profile_id=profile, **who)
    service.refused = {"p-2", "p-3"}
    del service.balances["p-3", "USD"]  # which is shown whatever is refused
    store.sync(service)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="do not follow from its transfers: USD"):
        store.accept_refused(profile_id="p-3", **who)
    service.refused = {"p-2"}
    store.sync(service)  # type: ignore[arg-type]
    store.accept_refused(profile_id="p-2", **who)
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.balances) == ("proved", 2)
    assert "All 2 balances rebuilt from 2 transfers equal" in judgement.text
    assert judgement.text in str(store.verify())
    service.refused = set()
    service.balances["p-2", "USD"] = Decimal(3)
    store.sync(service)  # type: ignore[arg-type]
    judgement = fl.reconcile.judge(store)
    assert (judgement.state, judgement.balances, judgement.breaks) == ("breaks", 3, 1)
    assert "left out" not in judgement.text


def test_a_sync_that_misses_a_balance_ends_with_3_until_that_is_accepted(
    store: fl.Store,
    monkeypatch: pytest.MonkeyPatch,
    fundlab: Callable[..., tuple[int, str, str]],
) -> None:
    theirs = [transfer(n, profile_id="p-2", asset=asset) for n, asset in enumerate(["USD", "BTC"])]
    service = Ledger([transfer(9), *theirs])
    monkeypatch.setattr("fundlab.client.client.connect", lambda: nullcontext(service))
    assert fundlab("sync", "--store", store.path)[0] == 0
    service.refused = {"p-2"}
    ended, said, _ = fundlab("sync", "--store", store.path)
    assert (ended, "balances: BTC, USD of p-2 are no longer reported (" in said) == (3, True)
    store.accept_refused(profile_id="p-2", by="Ana", reason="moved")
    assert fundlab("sync", "--store", store.path)[0] == 0


def test_a_bad_token_is_not_taken_for_rows_that_are_refused(store: fl.Store) -> None:
    service = Ledger([transfer(1), transfer(2)])
    store.sync(service)  # type: ignore[arg-type]
    service.transfers.pop(0)
    ended = []

    def expire(operation: str, params: dict[str, str]) -> None:
        if operation == "get_transfer" or ended:
            ended.append(operation)
            raise AuthenticationFailed(401, "Unauthorized")

    service.hook = expire
    with pytest.raises(AuthenticationFailed):
        store.sync(service, full=True)  # type: ignore[arg-type]
    assert store.gone().empty


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_archived_rows_are_asked_for_once_and_again_a_few_at_a_time(
    count: int, store: fl.Store, now: list[int]
) -> None:
    service = Ledger([transfer(n) for n in range(count + 5)])
    service.balances["p-1", "USD"] = Decimal("10.50") * (count + 5)
    every = list(service.transfers)
    store.sync(service)  # type: ignore[arg-type]
    del service.transfers[:count]
    service.get_transfer = lambda id_: asked.append(id_) or transfer(1)  # type: ignore[func-returns-value,assignment,method-assign]
    asked: list[str] = []
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert len(asked) == count
    assert store.unlisted()["answer"].tolist() == ["there"] * count
    asked.clear()
    service.calls.clear()
    store.sync(service, full=True)  # type: ignore[arg-type]
    assert asked == []
    assert not [one for _, one in service.calls if "ids" in one]
    assert fl.reconcile.judge(store).state == "proved"
    now[0] += 31 * DAY
    for _ in range(2):
        asked.clear()
        store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
        assert len(asked) == len({*asked}) == 100
    assert store.unlisted()["asked_at"].nunique() == 3
    service.transfers = every
    store.sync(service, ["transfers"], full=True)  # type: ignore[arg-type]
    assert store.unlisted().empty


@pytest.mark.parametrize("newest", ["10.50", "1e5"])
def test_a_first_sync_notices_a_list_that_ends_early(newest: str, store: fl.Store) -> None:
    """Whether its newest row can be read or not."""
    service = Ledger([transfer(n) for n in range(399)] + [transfer(399, total=newest)])
    service.balances["p-1", "USD"] = Decimal("10.50") * (400 - (newest == "1e5"))
    listed = service.fetch_page

    def cut(operation: str, params: Any) -> bytes:
        page = json.loads(listed(operation, params))
        asked = dict(params)
        if (
            operation == "list_transfers"
            and asked["order"] == "ASC"
            and "updated_at.gte" not in asked
        ):
            page["items"] = [row for row in page["items"] if row["id"] < "t-000115"]
            page["next_page_cursor"] = ""
        return json.dumps(page).encode()

    service.fetch_page = cut  # type: ignore[method-assign]
    done = store.sync(service)  # type: ignore[arg-type]
    assert len(store.read("transfers")) == 400 - (newest == "1e5")
    assert "transfers: the list ended early; 285 rows came from its other end" in done.notes
    if newest == "1e5":
        assert store.set_aside()["id"].tolist() == ["t-000399"]
        store.accept_set_aside(by="Ana", reason="known")
    assert fl.reconcile.judge(store).state == "proved"


def test_a_version_that_was_shown_first_and_cannot_be_read_is_set_aside(store: fl.Store) -> None:
    """Although the list that follows ends before it."""
    rows = [transfer(n) for n in range(5)] + [transfer(5, updated_at=moment(9), total="1e5")]
    service = Ledger(rows)
    listed = service.fetch_page

    def cut(operation: str, params: Any) -> bytes:
        page, asked = json.loads(listed(operation, params)), dict(params)
        if asked.get("order_by") != "UPDATED_AT" and "ids" not in asked:
            page["items"] = [row for row in page["items"] if row["id"] < "t-000005"]
        return json.dumps(page).encode()

    service.fetch_page = cut  # type: ignore[method-assign]
    store.sync(service, ["transfers"])  # type: ignore[arg-type]
    assert store.set_aside()["id"].tolist() == ["t-000005"]


def test_events_are_swept_like_transfers(store: fl.Store, now: list[int]) -> None:
    """An event that was not listed when it was new is found by and by."""
    now[0] = pd.Timestamp("2026-03-02", tz="UTC").value
    events = [{"id": f"e-{n:03d}", "created_at": moment(100 * n)} for n in range(50)]
    late = events.pop(10)
    service = Ledger([transfer(1)], events=events)
    store.sync(service)  # type: ignore[arg-type]
    service.events.insert(10, late)
    for _ in range(5):
        now[0] += 8 * DAY
        done = store.sync(service)  # type: ignore[arg-type]
        assert any("old event" in note for note in done.notes)
    assert late["id"] in store.read("events")["id"].tolist()
