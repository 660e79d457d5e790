"""What a transfer means: one set of rules, the same in ``verify`` and ``checks.invariants``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import narwhals as nw
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fake_service import FakeService, moment, transfer
from hypothesis import given, settings
from hypothesis import strategies as st
from transfer_examples import arrow
from transfer_examples import transfer as example

import fundlab as fl
from fundlab import Store
from fundlab.base.errors import AnalysisError
from fundlab.base.exact import EXACT
from fundlab.models import Direction, TransferType
from fundlab.reports import read_report
from fundlab.tables import transfers as meaning

Row = dict[str, Any]
MONEY = pa.decimal128(38, 18)
NOT_SET = "0001-01-01T00:00:00Z"

# Each way in which a row can be wrong, and the rules it then breaks.
WRONG: dict[str, tuple[Row, set[str]]] = {
    "nothing": ({}, set()),
    "unlisted status": ({"status": "SETTLED"}, {"status"}),
    "empty status": ({"status": ""}, {"status"}),
    "COMPLETE": ({"status": "COMPLETE"}, set()),
    "unlisted type": ({"type": "CARD_REFUND"}, set()),
    "unlisted type that looks incoming": ({"type": "RETURNED_DEPOSIT"}, set()),
    "unlisted direction": ({"direction": "UP"}, {"direction", "direction_of_type"}),
    "direction of the type": ({"type": "WIRE_WITHDRAWAL"}, {"direction_of_type"}),
    "total": ({"total": "10.49"}, {"total"}),
    "largest amounts": (
        {"amount": "9" * 20, "fee": "9" * 20, "total": "9" * 20, "direction": "DEBIT",
         "type": "WIRE_WITHDRAWAL"},
        {"total"},
    ),
    "updated before created": ({"updated_at": "2026-02-28T23:59:59Z"}, {"updated_at"}),
    "no updated_at": ({"updated_at": None}, set()),
    "updated_at not set": ({"updated_at": NOT_SET}, set()),
    "no total": ({"total": None}, {"required"}),
    "no status": ({"status": None}, {"required"}),
    "empty asset": ({"asset": ""}, {"required"}),
    "other balance_asset": ({"balance_asset": "USDC"}, {"balance_asset"}),
    "other balance_asset, empty conversion": (
        {"balance_asset": "USDC", "auto_conversion": {}}, {"balance_asset"},
    ),
    "converted": (
        {"balance_asset": "USDC", "auto_conversion": {"from_transfer_id": "t-000000"}}, set(),
    ),
    "same balance_asset": ({"balance_asset": "USD", "auto_conversion": {}}, set()),
    "empty balance_asset": ({"balance_asset": ""}, {"balance_asset"}),
    "conversion of nothing": (
        {"balance_asset": "USDC", "auto_conversion": {"to_transfer_id": "t-none"}}, {"conversion"},
    ),
}  # fmt: skip


def store_of(folder: str, rows: list[Row]) -> Store:
    store = Store(Path(folder) / "store")
    service = FakeService(rows, honours={"created_at", "ids"})  # which sorts by no updated_at
    store.sync(service, tables=["transfers"])
    return store


def by_verify(store: Store) -> Counter[tuple[str, str]]:
    """What breaks a rule of a row; that several largest amounts fit no sum is another matter."""
    found = [problem for problem in store.verify().problems if problem.rule != "balance"]
    return Counter((problem.where, problem.rule) for problem in found)


def by_invariants(frame: Any) -> Counter[tuple[str, str]]:
    found = fl.checks.invariants(frame)
    return Counter(zip(found["transfer_id"], found["rule"], strict=True))


@pytest.mark.filterwarnings("ignore::fundlab.errors.UnknownValueWarning")
class TestOneSetOfRules:
    """Whatever is wrong with a transfer, ``verify`` and ``checks.invariants`` say the same."""

    def test_each_wrong_value_breaks_its_rule_in_both(self, tmp_path: Path) -> None:
        rows = [transfer(n, **members) for n, (members, _) in enumerate(WRONG.values())]
        store = store_of(str(tmp_path), rows)
        expected = Counter(
            (row["id"], rule)
            for row, (_, rules) in zip(rows, WRONG.values(), strict=True)
            for rule in rules
        )
        assert by_verify(store) == by_invariants(store.read("transfers")) == expected

    @given(
        rows=st.lists(
            st.tuples(
                st.sampled_from(sorted(WRONG)),
                st.sampled_from(["DEBIT", "CREDIT", None]),
                st.sampled_from(["g", "h", "", None]),
                st.sampled_from(["COMPLETED", "COMPLETE", "PENDING", "FAILED"]),
                st.sampled_from(["10.50", "9"]),
            ),
            max_size=30,
        )
    )
    @settings(max_examples=3, deadline=None)
    def test_whatever_the_transfers_both_find_the_same(self, rows: list[Any]) -> None:
        made = [transfer(0)]
        for number, (name, half, group, status, amount) in enumerate(rows, start=1):
            internal: Row = {}
            if half:
                internal = {
                    "type": f"INTERNAL_TRANSFER_{half}", "direction": half, "group_id": group,
                    "status": status, "amount": amount, "total": amount,
                }  # fmt: skip
            made.append(transfer(number, **{**internal, **WRONG[name][0]}))
        with TemporaryDirectory() as folder:
            store = store_of(folder, made)
            expected = Counter(broken(made))
            assert by_verify(store) == expected
            assert by_invariants(store.read("transfers")) == expected

    def test_the_history_of_the_sandbox_breaks_none(self, tmp_path: Path) -> None:
        with fl.sandbox.serve(seed=11, transfers=3_000) as sandbox:
            store = Store(tmp_path / "store")
            store.sync(sandbox.connect(), tables=["transfers"])
        frame = store.read("transfers")
        assert (frame["balance_asset"].notna() & (frame["balance_asset"] != frame["asset"])).any()
        assert by_verify(store) == by_invariants(frame) == Counter()

    def test_a_store_that_begins_later_follows_no_links(self, tmp_path: Path) -> None:
        rows = [transfer(5, auto_conversion={"from_transfer_id": "t-000001"})]
        store = Store(tmp_path / "store")
        store.sync(FakeService(rows), tables=["transfers"], since=moment(2))
        assert store.verify().ok
        assert fl.checks.invariants(store.read("transfers"), complete=False).empty


@pytest.mark.thorough
def test_a_report_of_a_month_sees_the_other_half_of_the_month_before(tmp_path: Path) -> None:
    half: Row = {"type": "INTERNAL_TRANSFER_DEBIT", "direction": "DEBIT", "group_id": "g"}
    before: Row = {"created_at": "2026-02-28T23:00:00Z"}
    rows = [
        transfer(9, **half, **before),
        transfer(1, **{**half, "type": "INTERNAL_TRANSFER_CREDIT", "direction": "CREDIT"}),
        transfer(2, auto_conversion={"from_transfer_id": "t-000009"}),
    ]
    store = store_of(str(tmp_path / "right"), rows)
    assert read_report(store, "2026-03").violations.empty
    rows[1].update(amount="9", total="9")
    rows[2].update(auto_conversion={"from_transfer_id": "t-none"}, balance_asset="USDC")
    rows.append(transfer(3, total="7", **before))
    store = store_of(str(tmp_path / "wrong"), rows)
    found = read_report(store, "2026-03").violations
    assert found[["transfer_id", "rule"]].values.tolist() == [
        ["t-000001", "halves"],
        ["t-000002", "conversion"],
    ]
    assert len(read_report(store).violations) == 3


def broken(rows: list[Row]) -> Iterator[tuple[str, str]]:
    """The rules of the interface by a loop over plain records."""
    ids = {row["id"] for row in rows}
    for row in rows:
        name = row["id"]
        needed = ("profile_id", "asset", "direction", "type", "status", "amount", "fee", "total",
                  "created_at")  # fmt: skip
        yield from ((name, "required") for field in needed if row[field] is None)
        if row["asset"] == "":
            yield name, "required"
        if row["status"] not in (None, "PENDING", "COMPLETED", "COMPLETE", "FAILED"):
            yield name, "status"
        if row["direction"] not in ("CREDIT", "DEBIT"):
            yield name, "direction"
        sides = {"_DEPOSIT": "CREDIT", "_CREDIT": "CREDIT", "_WITHDRAWAL": "DEBIT",
                 "_DEBIT": "DEBIT"}  # fmt: skip
        listed = row["type"] not in ("CARD_REFUND", "RETURNED_DEPOSIT")
        if listed and row["direction"] != sides["_" + row["type"].rpartition("_")[2]]:
            yield name, "direction_of_type"
        if row["direction"] in ("CREDIT", "DEBIT") and row["total"] is not None:
            fee = Decimal(row["fee"]) * (1 if row["direction"] == "DEBIT" else -1)
            if Decimal(row["total"]) != Decimal(row["amount"]) + fee:
                yield name, "total"
        if row["updated_at"] not in (None, NOT_SET) and row["updated_at"] < row["created_at"]:
            yield name, "updated_at"
        other = row.get("balance_asset")
        converted = row.get("auto_conversion") or {}
        if other == "" or (other not in (None, row["asset"]) and not converted):
            yield name, "balance_asset"
        yield from ((name, "conversion") for end in converted.values() if end not in ids)
    internal = [row for row in rows if row["type"].startswith("INTERNAL") and row.get("group_id")]
    for group in {row["group_id"] for row in internal}:
        mine = [row for row in internal if row["group_id"] == group]
        stand = [row for row in mine if row["status"] != "FAILED"]
        kinds = Counter(row["type"] for row in stand)
        wrong = max(kinds.values(), default=0) > 1
        if len(kinds) == len(stand) == 2:
            amounts, assets = ({row[name] for row in stand} for name in ("amount", "asset"))
            wrong = len(amounts) > 1 or len(assets) > 1
        if len(stand) == 1 and stand[0]["status"] in ("COMPLETED", "COMPLETE"):
            wrong = any(row["type"] != stand[0]["type"] for row in mine)
        if wrong:
            yield min(row["id"] for row in mine), "halves"


class TestEmptyBalanceAsset:
    """An empty text is not the name of an asset."""

    @pytest.mark.parametrize("name", ["balance_asset", "asset"])
    @pytest.mark.parametrize(
        "analysis",
        [
            fl.balances.running,
            fl.fees.summary,
            fl.flows.net,
            lambda frame: fl.balances.at(frame, "2026-12-31"),
        ],
    )
    def test_an_analysis_names_the_transfer(self, tmp_path: Path, name: str, analysis: Any) -> None:
        store = store_of(str(tmp_path), [transfer(0), transfer(1, **{name: ""})])
        with pytest.raises(AnalysisError, match=f"{name} '' is empty \\(id t-000001\\)"):
            analysis(store.read("transfers"))

    def test_a_stream_names_it_too(self, tmp_path: Path) -> None:
        store = store_of(str(tmp_path), [transfer(0), transfer(1, balance_asset="")])
        with pytest.raises(AnalysisError, match="balance_asset '' is empty \\(id t-000001\\)"):
            fl.balances.write_running(store, tmp_path / "out.parquet")


class TestConversionsAsMappings:
    """A hand-made frame may hold ``auto_conversion`` as the models give it."""

    @pytest.mark.parametrize(
        ("conversion", "rules"),
        [({"from_transfer_id": "t"}, []), ({}, ["balance_asset"]), (None, ["balance_asset"])],
    )
    @pytest.mark.parametrize("kind", ["pandas", "arrow", "polars", "duckdb"])
    def test_on_every_kind_of_frame(self, kind: str, conversion: Any, rules: list[str]) -> None:
        row = {**transfer(1), "id": "t", "balance_asset": "USDC"}
        frame = pd.DataFrame([row])
        for name in ("amount", "fee", "total"):
            frame[name] = frame[name].map(Decimal)
        for name in ("created_at", "updated_at"):
            frame[name] = pd.to_datetime(frame[name])
        if kind == "pandas":
            frame["auto_conversion"] = [conversion]
            found = fl.checks.invariants(frame)
        else:
            member = [("from_transfer_id", pa.string())] if conversion else [("x", pa.int64())]
            dicts = pa.array([conversion or None], pa.struct(member))
            table = pa.Table.from_pandas(frame).append_column("auto_conversion", dicts)
            made = {"arrow": lambda: table, "polars": lambda: pl.from_arrow(table),
                    "duckdb": lambda: duckdb.connect().from_arrow(table)}  # fmt: skip
            found = nw.from_native(fl.checks.invariants(made[kind]())).lazy().collect().to_native()
        assert nw.from_native(found).get_column("rule").to_list() == rules


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([*TransferType.__members__, "CARD_REFUND"]),
            "status": st.sampled_from([*meaning.STATUSES, "ODD", None]),
            "direction": st.sampled_from([*meaning.DIRECTIONS, "UP", None]),
            "asset": st.sampled_from(["USD", "ETH"]),
            "balance_asset": st.sampled_from([None, "USD", "USDC"]),
            **{
                name: st.decimals(0, Decimal("9" * 19), places=18, allow_nan=False)
                for name in meaning.AMOUNTS
            },
        }
    ),
    min_size=1,
    max_size=6,
)


@given(rows=ROWS)
@settings(max_examples=15, deadline=None)
def test_each_expression_says_what_its_plain_twin_says(rows: list[Row]) -> None:
    text = {name: pa.string() for name in ("type", "status", "direction", "asset", "balance_asset")}
    schema = pa.schema({**text, **dict.fromkeys(meaning.AMOUNTS, MONEY)})
    table = pa.Table.from_pylist(rows, schema)
    found = (
        nw.from_native(duckdb.connect().from_arrow(table))
        .with_columns(
            moved=meaning.moved_asset(),
            ledger=meaning.counts("ledger"),
            available=meaning.counts("available"),
            change=meaning.change(),
            inflow=meaning.inflow(),
            outflow=meaning.outflow(),
            right=meaning.has_right_total(),
            **{way: meaning.goes_against_its_type(way) for way in Direction},
        )
        .to_native()
        .to_arrow_table()
        .to_pylist()
    )
    coded = table.set_column(3, "asset", table.column("asset").dictionary_encode())
    assert [said["moved"] for said in found] == meaning.moved_asset_in(table).to_pylist()
    assert [said["moved"] for said in found] == meaning.moved_asset_in(coded).to_pylist()
    for row, said in zip(rows, found, strict=True):
        status, direction = row["status"], row["direction"]
        for view in ("ledger", "available"):
            assert bool(said[view]) is meaning.does_count(status, direction, view)
        if direction in meaning.DIRECTIONS:
            amount, fee, total = (int(row[name].scaleb(18, EXACT)) for name in meaning.AMOUNTS)
            change = meaning.change_of(direction, total)
            assert said["change"].scaleb(18, EXACT) == change
            assert said["change"] == EXACT.subtract(said["inflow"], said["outflow"])
            assert said["right"] is (total == meaning.right_total_of(direction, amount, fee))
            expected = meaning.direction_of_type(row["type"])
            against = any(said[way] for way in Direction)
            assert against is (expected is not None and expected != direction)


def test_a_half_that_failed_contradicts_only_one_that_completed_alone() -> None:
    def told(debit: str | None, credit: str | None) -> bool:
        sides = (("DEBIT", debit), ("CREDIT", credit))
        rows = [
            example(side, direction=side, type=f"INTERNAL_TRANSFER_{side}", status=status,
                    group_id="g")
            for side, status in sides if status is not None
        ]  # fmt: skip
        found = fl.checks.invariants(arrow(rows))
        return "halves" in found["rule"].to_pylist()

    assert told("COMPLETED", "FAILED")
    assert told("FAILED", "COMPLETED")
    for debit, credit in (
        ("COMPLETED", "COMPLETED"),
        ("FAILED", "FAILED"),
        ("PENDING", "FAILED"),
        ("COMPLETED", None),
        (None, "COMPLETED"),
        (None, "FAILED"),
    ):
        assert not told(debit, credit), (debit, credit)
