"""Service → frames: all pages, only what was asked for, nothing twice."""

import json
import logging
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer, withdrawal

from fundlab.base.errors import (
    ContradictionWarning,
    DataError,
    IgnoredFilterWarning,
    InvalidRequest,
    NetworkError,
    NotFound,
    PermissionDenied,
    ProtocolError,
    ScopeMissing,
    SetAsideWarning,
)
from fundlab.base.values import Instant
from fundlab.models import ProfileBalance
from fundlab.sync import loaders
from fundlab.sync.loaders import (
    load_addresses,
    load_balances,
    load_deposit_instructions,
    load_events,
    load_fiat_accounts,
    load_transfers,
    observe_balances,
    pairs_of,
)
from fundlab.sync.table_pages import ask_table, fetch
from fundlab.tables.decode import InvalidRow
from fundlab.tables.frames import to_arrow
from fundlab.tables.schema import TABLES


def ids(frame: pd.DataFrame) -> list[str]:
    return list(frame["id"])


class Pages:
    """A client that answers with these bodies, one after another."""

    base_url, client_id = "http://127.0.0.1:1", "c"

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self.bodies = list(bodies)
        self.asked: list[list[tuple[str, str]]] = []

    def fetch_page(self, operation: str, params: Sequence[tuple[str, str]]) -> bytes:
        self.asked.append(list(params))
        return json.dumps(self.bodies.pop(0)).encode()


class TestPaging:
    def test_every_page_in_order_of_creation(self) -> None:
        service = FakeService([transfer(n) for n in range(2500, 0, -1)])
        frame = load_transfers(service)
        assert ids(frame) == [f"t-{n:06d}" for n in range(1, 2501)]
        assert len(service.calls) == 3

    def test_ties_go_by_id_and_desc_turns_all_round(self) -> None:
        service = FakeService([transfer(n, created_at=moment(5)) for n in (3, 1, 2)])
        assert ids(load_transfers(service)) == ["t-000001", "t-000002", "t-000003"]
        assert ids(load_transfers(service, order="DESC")) == ["t-000003", "t-000002", "t-000001"]

    def test_an_empty_page_with_a_cursor_goes_on(self) -> None:
        pages = Pages(
            {"items": [], "next_page_cursor": "a"},
            {"items": [transfer(1)], "next_page": "b"},
            {"items": [], "next_page_cursor": None},
        )
        assert ids(load_transfers(pages)) == ["t-000001"]
        assert [dict(params).get("page_cursor") for params in pages.asked] == [None, "a", "b"]

    def test_a_row_on_two_pages_counts_once_in_its_newest_version(self) -> None:
        old, new = transfer(1, updated_at=moment(10)), transfer(1, updated_at=moment(20), memo="n")
        for first, second in ((old, new), (new, old)):
            pages = Pages(
                {"items": [first], "next_page_cursor": "a"}, {"items": [second, transfer(2)]}
            )
            frame = load_transfers(pages)
            assert ids(frame) == ["t-000001", "t-000002"]
            assert frame["memo"][0] == "n"

    def test_a_repeated_cursor_is_an_error(self) -> None:
        pages = Pages(*[{"items": [], "next_page_cursor": "a"}] * 3)
        with pytest.raises(ProtocolError, match="repeats the cursor 'a'"):
            load_transfers(pages)

    def test_the_same_questions_are_always_asked_in_full(self) -> None:
        service = FakeService([transfer(1)])
        load_transfers(service)
        load_addresses(service)
        load_events(service)
        assert service.calls == [
            ("list_transfers", {"limit": "1000", "order": "ASC", "order_by": "CREATED_AT"}),
            (
                "list_crypto_destination_addresses",
                {"limit": "1000", "order": "ASC", "order_by": "CREATED_AT"},
            ),
            ("list_events", {"limit": "100", "order": "ASC"}),
        ]

    def test_errors_on_the_way_come_out_unchanged(self) -> None:
        def fail(operation: str, params: dict[str, str]) -> None:
            if "page_cursor" in params:
                raise NetworkError("connection reset")

        service = FakeService([transfer(n) for n in range(1500)], hook=fail)
        with pytest.raises(NetworkError, match="connection reset"):
            load_transfers(service)

    def test_a_malformed_record_is_named_with_its_page(self) -> None:
        records = [transfer(n) for n in range(1200)]
        records[1100]["amount"] = "1e5"
        with pytest.raises(DataError, match=r"transfers, page 2, record t-001100, field 'amount'"):
            load_transfers(FakeService(records))


@pytest.mark.parametrize("flag", ["yes", "true", 1, 0])
def test_a_flag_is_true_or_false(flag: Any) -> None:
    service = FakeService([])
    with pytest.raises(InvalidRequest, match="is not accepted; give True or False"):
        load_events(service, is_test=flag)
    assert not service.calls, "nothing was asked"


def test_what_becomes_of_invalid_rows_is_one_of_two() -> None:
    service = FakeService([transfer(1)])
    with pytest.raises(InvalidRequest, match="invalid='drop': give 'stop' or 'set_aside'"):
        load_transfers(service, invalid="drop")  # type: ignore[arg-type]
    assert not service.calls, "nothing was asked"
    assert len(load_transfers(service, invalid="set_aside")) == 1


class TestWhatIsOdd:
    def test_a_row_that_cannot_be_read_is_set_aside_and_named(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        good, bad, anonymous = transfer(1), transfer(2, amount="1e5"), transfer(3, amount="x")
        del anonymous["id"]
        for records, says in (
            ([good, bad], r"load_transfers: 1 row cannot be read and left out, such as t-000002 "
             r"\(amount: .*\): see frame.attrs\['set_aside'\]"),
            ([good, anonymous, bad], "2 rows cannot be read .* such as one without an id "),
        ):  # fmt: skip
            pages = Pages({"items": records})
            with pytest.warns(SetAsideWarning, match=says) as caught:
                frame = load_transfers(pages, invalid="set_aside")
            assert [one.filename for one in caught] == [__file__]
            assert ids(frame) == ["t-000001"]
            assert [row["id"] for row in frame.attrs["set_aside"]] == [
                row.get("id") for row in records[1:]
            ]
            assert [json.loads(row["raw"]) for row in frame.attrs["set_aside"]] == records[1:]
        with caplog.at_level(logging.INFO, "fundlab"):
            assert load_transfers(Pages({"items": [good]})).attrs == {}
            assert load_transfers(Pages({"items": [good]}), invalid="set_aside").attrs == {
                "set_aside": []
            }
        assert caplog.text.count("transfers: 1 rows in ") == 2

    @pytest.mark.parametrize("count", [5, 6])
    def test_one_page_that_contradicts_itself(self, count: int) -> None:
        rows = [transfer(n, memo=memo) for n in range(1, count + 1) for memo in "ab"]
        named = ", ".join(f"t-{n:06d}" for n in range(1, 6))
        with pytest.warns(
            ContradictionWarning, match=f"load_transfers: a page has {named} more than once"
        ) as caught:
            assert len(load_transfers(Pages({"items": rows}))) == count
        assert [one.filename for one in caught] == [__file__]

    def test_where_a_filter_was_ignored_is_the_line_that_loads(self) -> None:
        service = FakeService([transfer(1)], honours=set())
        with pytest.warns(IgnoredFilterWarning) as first:
            load_transfers(service, profile_ids=["p-1"], statuses="PENDING")
        with pytest.warns(IgnoredFilterWarning) as second:
            load_balances(service, profile_ids=["p-2"])
        assert [one.filename for one in (*first, *second)] == [__file__] * 2

    def test_a_bar_knows_how_many_rows_to_expect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From the time that they cover."""
        bar = SimpleNamespace(total=None, update=lambda rows: None)
        monkeypatch.setattr(loaders, "progress_bar", lambda **_: nullcontext(bar))
        monkeypatch.setattr("time.time_ns", lambda: Instant.parse(moment(100)).ns)
        load_transfers(FakeService([transfer(n) for n in range(51)], largest_page=20))
        assert bar.total == 102


class TestWindows:
    records = tuple(transfer(n) for n in range(10))

    @pytest.mark.parametrize(
        "since",
        [
            moment(3),
            "2026-03-01T01:00:03+01:00",
            datetime(2026, 3, 1, 0, 0, 3, tzinfo=UTC),
            pd.Timestamp("2026-03-01T00:00:03Z"),
            pd.Timestamp("2026-03-01T00:00:03"),
        ],
    )
    def test_since_includes_and_until_excludes(self, since: Any) -> None:
        service = FakeService(list(self.records))
        assert ids(load_transfers(service, since=since, until=moment(5))) == [
            "t-000003", "t-000004",
        ]  # fmt: skip
        assert service.calls[0][1]["created_at.lt"] == "2026-03-01T00:00:05.000000000Z"

    def test_a_day_stands_for_its_first_moment(self) -> None:
        service = FakeService(list(self.records))
        assert len(load_transfers(service, since="2026-03-01")) == 10
        assert len(load_transfers(service, until=date(2026, 3, 1))) == 0

    def test_a_month_does_too(self) -> None:
        service = FakeService(list(self.records))
        assert len(load_transfers(service, since="2026-03", until="2026-04")) == 10
        assert service.calls[0][1]["created_at.gte"] == "2026-03-01T00:00:00.000000000Z"
        assert service.calls[0][1]["created_at.lt"] == "2026-04-01T00:00:00.000000000Z"
        with pytest.raises(InvalidRequest, match="since='2026-13'"):
            load_transfers(service, since="2026-13")

    def test_nanoseconds_count(self) -> None:
        service = FakeService([transfer(1, created_at=moment(1, n)) for n in (0, 1)])
        service.transfers[1]["id"] = "late"
        since = pd.Timestamp("2026-03-01T00:00:01.000000001Z")
        assert ids(load_transfers(service, since=since)) == ["late"]

    @pytest.mark.parametrize("bad", ["yesterday", "2026-03-01T00:00:00", 5, pd.NaT, "2026-02-30"])
    def test_what_is_no_time_is_refused(self, bad: Any) -> None:
        with pytest.raises(InvalidRequest, match="since="):
            load_transfers(FakeService(), since=bad)

    def test_a_service_that_ignores_them_is_found_out(self) -> None:
        service = FakeService(list(self.records), honours=set())
        with pytest.warns(
            IgnoredFilterWarning, match="load_transfers: the service ignored created_at_gte"
        ):
            frame = load_transfers(service, since=moment(8))
        assert ids(frame) == ["t-000008", "t-000009"]


class TestFilters:
    def test_are_sent_and_checked(self) -> None:
        records = [transfer(1), withdrawal(2), transfer(3, status="FAILED")]
        service = FakeService(records, honours=set())
        with pytest.warns(IgnoredFilterWarning, match="statuses"):
            assert ids(load_transfers(service, statuses="PENDING")) == ["t-000002"]
        assert service.calls[0][1]["statuses"] == "PENDING"

    @pytest.mark.filterwarnings("ignore:transfers. status 'COMPLETE'")
    def test_the_other_spelling_of_completed_belongs(self) -> None:
        service = FakeService([transfer(1), transfer(3, status="COMPLETE")], honours=set())
        assert len(load_transfers(service, statuses=["COMPLETED"])) == 2

    def test_secondary_statuses_beside_a_number_without_end(self) -> None:
        class Endless(FakeService):
            def fetch_page(self, *asked: Any) -> bytes:
                return super().fetch_page(*asked).replace(b'"@@"', b"9" * 5_000)

        service = Endless([transfer(1, secondary_status={"name": "HELD", "n": "@@"})])
        assert ids(load_transfers(service, secondary_statuses="HELD")) == ["t-000001"]

    def test_secondary_statuses_go_by_name(self) -> None:
        records = [transfer(n, secondary_status={"name": name, "detail": "x"})
                   for n, name in enumerate(("SENT", "HELD"), start=1)]  # fmt: skip
        with pytest.warns(IgnoredFilterWarning):
            assert ids(load_transfers(FakeService(records), secondary_statuses="HELD")) == [
                "t-000002"
            ]

    def test_a_filter_on_updates_is_not_mixed_with_one_on_creation(self) -> None:
        service = FakeService([transfer(n, updated_at=moment(100 + n)) for n in range(5)])
        frame = load_transfers(service, since=moment(3), updated_at_gte=moment(102))
        assert ids(frame) == ["t-000003", "t-000004"]
        assert "created_at.gte" not in service.calls[0][1]

    @pytest.mark.parametrize(
        ("filters", "says"),
        [
            ({"colour": "red"}, "load_transfers: colour is not accepted; accepted are limit, .*"),
            ({"name": "x"}, "load_transfers: name is not accepted; accepted are limit, .*"),
            ({"status": "PENDING"}, r"status \(did you mean statuses\?\) is not accepted"),
            ({"sinse": "2026-01-01"}, r"sinse \(did you mean since\?\) is not accepted"),
            ({"limit": 5000}, r"limit: .*1000 \(5000 given\)"),
            ({"page_cursor": "x"}, "page_cursor is not accepted, because all pages are read"),
            ({"created_at_gte": "soon"}, "created_at_gte: 'soon' is not an RFC 3339 time"),
            ({"since": "2026-01-01", "created_at_gte": moment(1)}, "either since or"),
            ({"workers": 0}, "workers=0"),
        ],
    )
    def test_what_the_operation_does_not_take_is_refused(
        self, filters: dict[str, Any], says: str
    ) -> None:
        service = FakeService()
        with pytest.raises(InvalidRequest, match=says):
            load_transfers(service, **filters)
        assert service.calls == []

    def test_an_address_need_not_show_its_identity(self) -> None:
        record = {"id": "a", "crypto_network": "SOLANA", "created_at": moment(1)}
        service = FakeService(addresses=[record, {**record, "id": "b", "identity_id": "other"}])
        with pytest.warns(IgnoredFilterWarning, match="identity_id"):
            assert ids(load_addresses(service, identity_id="mine")) == ["a"]


class TestOtherTables:
    def test_a_flag_is_true_or_false(self) -> None:
        service = FakeService()
        with pytest.raises(
            InvalidRequest, match="is_test='yes' is not accepted; give True or False"
        ):
            load_events(service, is_test="yes")
        load_events(service, is_test=False)
        assert [params["is_test"] for _, params in service.calls] == ["false"]

    def test_types_of_nothing(self) -> None:
        service = FakeService()
        for load in (load_events, load_addresses, load_fiat_accounts, load_deposit_instructions):
            frame = load(service)
            assert len(frame) == 0
            assert str(frame["created_at"].dtype) == "datetime64[ns, UTC]"

    def test_events_with_their_payload_as_columns(self) -> None:
        record = {"id": "x", "created_at": moment(1), "object": {"id": "t-1", "status": "FAILED"}}
        assert "object" in load_events(FakeService(events=[record]))
        frame = load_events(FakeService(events=[record]), expand=True)
        assert frame.loc[0, ["object_id", "object_status"]].tolist() == ["t-1", "FAILED"]

    def test_rows(self) -> None:
        record = {"id": "x", "created_at": moment(1), "status": "APPROVED"}
        service = FakeService(fiat_accounts=[record], events=[record], addresses=[record])
        assert load_fiat_accounts(service)["status"].tolist() == ["APPROVED"]
        assert ids(load_events(service)) == ["x"]


class TestBalances:
    def records(self) -> list[dict[str, Any]]:
        return [
            transfer(1, profile_id="p-1"),
            transfer(2, profile_id="p-2", asset="USDC", balance_asset="USD"),
            withdrawal(3, profile_id="p-1", total="0.25"),
        ]

    def test_of_the_profiles_and_assets_in_the_transfers(self) -> None:
        service = FakeService(self.records())
        frame = load_balances(service, transfers=load_transfers(service), clock=lambda: 123)
        found = frame[["profile_id", "asset", "available", "trading"]].values.tolist()
        assert found == [
            ["p-1", "USD", Decimal("10.25"), Decimal(0)],
            ["p-2", "USD", Decimal("10.5"), Decimal(0)],
        ]  # USDC of p-2: the service knows none
        assert frame["observed_at"].tolist() == [pd.Timestamp(123, tz="UTC")] * 2
        assert list(frame.columns) == ["profile_id", "asset", "available", "trading", "observed_at"]

    def test_found_by_paging_through_the_transfers(self) -> None:
        service = FakeService(self.records(), honours={"profile_ids"})
        assert load_balances(service)["profile_id"].tolist() == ["p-1", "p-2"]
        assert load_balances(service, profile_ids="p-2")["asset"].tolist() == ["USD"]

    def test_named_ones_are_asked_for_directly(self) -> None:
        service = FakeService(self.records())
        frame = load_balances(service, profile_ids=["p-1", "p-2"], assets=["USD"], workers=3)
        assert len(frame) == 2
        assert {name for name, _ in service.calls} == {"get_profile_balance"}

    def test_a_profile_in_two_cases_is_one_and_an_asset_has_its_code(self) -> None:
        service = FakeService(self.records())
        frame = load_balances(service, profile_ids=["p-1", "P-1", "p-2"], assets=["usd", "USD"])
        assert [*zip(frame["profile_id"], frame["asset"], strict=True)] == [
            ("p-1", "USD"), ("p-2", "USD")]  # fmt: skip

    @pytest.mark.parametrize("transfers", [pd.DataFrame({"x": [1]}), pa.table({"asset": ["USD"]})])
    def test_what_names_no_profiles_is_refused(self, transfers: Any) -> None:
        with pytest.raises(InvalidRequest, match="give a pandas DataFrame that has profile_id and"):
            load_balances(FakeService(self.records()), transfers=transfers)

    @pytest.mark.parametrize(
        ("named", "expected"),
        [
            ({"assets": ["usd"]}, [("p-1", "USD"), ("p-2", "USD")]),
            ({"assets": "Usdc"}, []),
            ({"profile_ids": "P-1"}, [("p-1", "USD")]),
            ({"profile_ids": "p-2"}, [("p-2", "USD")]),
            ({"profile_ids": []}, []),
            ({"assets": []}, []),
        ],
    )  # fmt: skip
    def test_which_of_those_in_the_transfers(
        self, named: dict[str, Any], expected: list[tuple[str, str]]
    ) -> None:
        service = FakeService(self.records())
        transfers = load_transfers(service).drop(columns="memo")
        service.calls.clear()
        frame = load_balances(service, transfers=transfers, **named)
        assert [*zip(frame["profile_id"], frame["asset"], strict=True)] == expected
        assert {name for name, _ in service.calls} <= {"get_profile_balance"}

    def test_pairs_are_of_what_names_both(self) -> None:
        rows = [
            {"profile_id": "p-1", "asset": "USD"}, {"profile_id": "p-1", "balance_asset": "EUR"},
            {"profile_id": None, "asset": "GBP"}, {"profile_id": "", "asset": "CHF"},
            {"profile_id": "p-2", "asset": ""},
        ]  # fmt: skip
        frame = pd.DataFrame(rows, columns=["profile_id", "asset", "balance_asset"])
        assert pairs_of(to_arrow(frame, "transfers")) == {("p-1", "USD"), ("p-1", "EUR")}

    def test_one_after_another_unless_told_otherwise(self) -> None:
        """By one thread, and the list in pages without a question beside them."""
        threads: list[str] = []

        def note(operation: str, params: dict[str, str]) -> None:
            if operation == "get_profile_balance":
                threads.append(threading.current_thread().name)

        service = FakeService(self.records(), hook=note)
        load_balances(service)
        assert len({*threads}) == 1
        assert [name for name, _ in service.calls].count("list_transfers") == 1

    @pytest.mark.parametrize(
        ("answer", "status"),
        [
            (NotFound(404, "Not Found"), 404),
            (PermissionDenied(403, "Forbidden"), 403),
            (ScopeMissing(403, "Forbidden"), None),
            (NetworkError("gone"), None),
            (DataError("odd", table="balances"), None),
            (DataError("odd", table="balances", field="available", raw="{}"), 200),
        ],
    )
    def test_what_the_service_says_of_one(self, answer: Exception, status: int | None) -> None:
        """That it is not there, not shown or not readable; anything else ends the reading."""

        def refuse(operation: str, params: dict[str, str]) -> None:
            if params["profile_id"] == "p-2":
                raise answer

        steps: list[int] = []
        aside: dict[str, InvalidRow] = {}
        pairs = [("p-2", "USD"), ("p-1", "USD")]

        def observe(aside: dict[str, InvalidRow] | None) -> Any:
            service = FakeService(self.records(), hook=refuse)
            return observe_balances(
                service, pairs, workers=1, clock=lambda: 7, step=lambda: steps.append(1),
                aside=aside,
            )  # fmt: skip

        if status is None:
            with pytest.raises(type(answer)) as caught:
                observe(aside)
            assert caught.value is answer
            return
        rows, unanswered = observe(aside)
        assert unanswered == {("p-2", "USD"): status}
        assert rows.column("profile_id").to_pylist() == ["p-1"]
        assert rows.schema.equals(TABLES["balances"].schema)
        assert len(steps) == 2
        assert [*aside.values()] == (
            [InvalidRow("balances", "p-2 USD", "{}", "available: odd")] if status == 200 else []
        )
        assert all(row.key == key for key, row in aside.items())
        if status == 200:
            with pytest.raises(DataError):
                observe(None)

    def test_an_answer_of_another_asset(self) -> None:
        class Odd(FakeService):
            def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
                return ProfileBalance.model_validate(
                    {"asset": "EUR", "available": "1", "trading": "2.5", "pending": "3"}
                )

        with pytest.raises(ProtocolError, match="asked for 'USD', the answer is of 'EUR'"):
            load_balances(Odd(), "p-1", "USD")
        with pytest.raises(InvalidRequest, match="client is a str"):
            load_balances("p-1", "p-1", "EUR")
        named = {"workers": 1, "clock": lambda: 9, "step": lambda: None}
        rows, _ = observe_balances(Odd(), [("p-1", "EUR")], **named)
        (row,) = rows.to_pylist()
        assert (row["available"], row["trading"]) == (Decimal(1), Decimal("2.5"))
        assert row["extra"] == '{"pending": "3"}'
        assert rows.column("observed_at").cast("int64").to_pylist() == [9]

    def test_none_have_the_types_of_some(self) -> None:
        frame = load_balances(FakeService(), profile_ids=[], assets=[])
        assert str(frame["available"].dtype) == "decimal"
        assert str(frame["observed_at"].dtype) == "datetime64[ns, UTC]"


@pytest.mark.seconds
@pytest.mark.parametrize("workers", [1, 3])
def test_how_many_rows_to_expect_follows_from_the_time_they_cover(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time_ns", lambda: Instant.parse(moment(10_000)).ns)
    service = FakeService([transfer(n) for n in range(10_000)], largest_page=500)
    found = [page.expected for page in fetch(service, ask_table(TABLES["transfers"], {}), workers)]
    assert len(found) >= 20
    assert all(one is not None and 9_000 < one < 12_000 for one in found)
    # a list that is not in the order of time says nothing
    updated = ask_table(TABLES["transfers"], {"updated_at_gte": moment(0)})
    assert {page.expected for page in fetch(service, updated, 1)} == {None}
