"""Arrow schemas from the models, and typed frames there and back."""

import inspect
import itertools
import runpy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fundlab.base.errors import InvalidRequest, UnknownValueWarning
from fundlab.models import Transfer
from fundlab.models.resources import MEANINGS
from fundlab.tables import TABLES, decode_page, expand, maps, to_arrow, to_frame
from fundlab.tables.document import FRAME_TYPES, document
from fundlab.tables.expand import member

PAGE = (
    b'{"items":[{"id":"a","amount":"1.10","fee":"0","total":"1.1","asset":"USD","type":"WIRE_DEPOSIT",'
    b'"status":"PENDING","created_at":"2026-03-01T10:00:00.123456789Z"},{"id":"b"}]}'
)
TRANSFER_TYPES = {
    "id": "string",
    "amount": "decimal",
    "notional_value": "decimal",
    "direction": "category",
    "type": "category",
    "status": "category",
    "crypto_network": "category",
    "metadata": "string",
    "created_at": "datetime64[ns, UTC]",
    "updated_at": "datetime64[ns, UTC]",
    "extra": "string",
}


def types_of(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


class TestSchemas:
    def test_transfers(self) -> None:
        schema = TABLES["transfers"].schema
        assert schema.names == [*Transfer.model_fields, "extra"]
        assert schema.field("amount").type == pa.decimal128(38, 18)
        assert schema.field("created_at").type == pa.timestamp("ns", "UTC")
        assert schema.field("type").type == pa.string()
        assert schema.field("auto_conversion").type == pa.string()
        assert schema.field("extra").type == pa.string()

    def test_rows_are_put_in_order_wherever_they_stand(self) -> None:
        table = TABLES["transfers"]
        assert table.order == ("created_at", "id")
        kinds = {"created_at": pa.timestamp("ns", "UTC"), "id": pa.string()}
        wanted = [(1, "b"), (2, "a"), (2, "c"), (3, "a")]
        for given in itertools.permutations(wanted):  # of some no row stands where it belongs
            rows = pa.table(
                [pa.array(values, kind) for values, kind in
                 zip(zip(*given, strict=True), kinds.values(), strict=True)], names=list(kinds),
            )  # fmt: skip
            found = table.in_order(rows)
            moments = found["created_at"].cast(pa.int64()).to_pylist()
            assert list(zip(moments, found["id"].to_pylist(), strict=True)) == wanted

    def test_flags_and_counts(self) -> None:
        assert TABLES["addresses"].schema.field("bookmarked").type == pa.bool_()
        assert TABLES["events"].schema.field("undelivered_webhooks").type == pa.int64()

    def test_balances(self) -> None:
        assert TABLES["balances"].schema.names == [
            "profile_id", "asset", "available", "trading", "observed_at", "extra",
        ]  # fmt: skip
        assert TABLES["balances"].key == ("profile_id", "asset", "observed_at")

    def test_enumerations_list_their_members(self) -> None:
        status = TABLES["transfers"].column("status")
        assert status is not None
        assert status.members == ("PENDING", "COMPLETED", "FAILED")


class TestToFrame:
    def test_types_and_values(self) -> None:
        frame = to_frame(decode_page("transfers", PAGE).rows)
        assert types_of(frame).items() >= TRANSFER_TYPES.items()
        assert frame["amount"].tolist() == [Decimal("1.1"), pd.NA]
        assert frame["created_at"][0] == pd.Timestamp("2026-03-01T10:00:00.123456789Z")
        assert frame["status"].tolist()[0] == "PENDING"
        assert frame["status"].isna().tolist() == [False, True]

    def test_an_empty_frame_has_the_same_types(self) -> None:
        full = to_frame(decode_page("transfers", PAGE).rows)
        assert types_of(to_frame(TABLES["transfers"].schema.empty_table())) == types_of(full)

    def test_empty_frames_can_be_merged(self) -> None:
        transfers, balances = (
            to_frame(TABLES[name].schema.empty_table()) for name in ("transfers", "balances")
        )
        assert len(transfers.merge(balances, on=["profile_id", "asset"], how="outer")) == 0

    def test_unknown_values_become_categories_of_their_own(self) -> None:
        body = b'{"items":[{"id":"a","status":"SLEEPING"},{"id":"b","status":"FAILED"}]}'
        with pytest.warns(UnknownValueWarning):
            frame = to_frame(decode_page("transfers", body).rows)
        assert frame["status"].tolist() == ["SLEEPING", "FAILED"]
        assert frame["status"].cat.categories.tolist() == [
            "PENDING", "COMPLETED", "FAILED", "SLEEPING",
        ]  # fmt: skip

    @pytest.mark.parametrize("coded", [False, True])
    def test_only_the_values_that_occur_are_categories(self, coded: bool) -> None:
        """A dictionary may also list what was filtered out, and each chunk has its own."""
        first = pa.array(["GONE", "FAILED", None, "SLEEPING"])
        second = pa.array(["AWAKE", "SLEEPING", "PENDING"])
        pieces = [one.dictionary_encode() if coded else one for one in (first, second)]
        rows = pa.table({"status": pa.chunked_array([pieces[0].slice(1), pieces[1]])})
        found = to_frame(rows, "transfers")["status"]
        assert found.astype(object).where(found.notna(), None).tolist() == [
            "FAILED", None, "SLEEPING", "AWAKE", "SLEEPING", "PENDING",
        ]  # fmt: skip
        assert found.cat.categories.tolist() == [
            "PENDING", "COMPLETED", "FAILED", "AWAKE", "SLEEPING",
        ]  # fmt: skip

    def test_values_beside_as_many_categories_as_their_type_can_number(self) -> None:
        texts = [f"v{number:03}" for number in range(128)]
        numbers = pa.array([127, None, 0], pa.int8())
        coded = pa.DictionaryArray.from_arrays(numbers, pa.array(texts))
        found = to_frame(pa.table({"status": coded}), "transfers")["status"]
        assert found.isna().tolist() == [False, True, False]
        assert found.dropna().tolist() == ["v127", "v000"]

    def test_a_column_of_nothing_has_the_categories(self) -> None:
        found = to_frame(pa.table({"status": pa.nulls(2)}), "transfers")["status"]
        assert found.isna().all()
        assert found.cat.categories.tolist() == ["PENDING", "COMPLETED", "FAILED"]

    def test_flags_and_counts_are_nullable(self) -> None:
        body = b'{"events":[{"id":"a","undelivered_webhooks":3},{"id":"b","is_test":true}]}'
        frame = to_frame(decode_page("events", body).rows)
        assert types_of(frame)["undelivered_webhooks"] == "Int64"
        assert types_of(frame)["is_test"] == "boolean"
        assert frame["undelivered_webhooks"].tolist() == [3, pd.NA]


class TestToArrow:
    def test_there_and_back(self) -> None:
        rows = decode_page("transfers", PAGE).rows
        assert to_arrow(to_frame(rows), "transfers").equals(rows)

    def test_columns_that_are_not_there_are_null(self) -> None:
        frame = pd.DataFrame({"id": ["a"], "memo": [float("nan")], "amount": [None]})
        rows = to_arrow(frame, "transfers")
        assert [rows.column(name).null_count for name in ("id", "memo", "amount")] == [0, 1, 1]
        assert rows.schema.equals(TABLES["transfers"].schema)
        assert rows.column("amount").null_count == 1

    def test_unknown_columns_and_values_are_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="no column 'color'"):
            to_arrow(pd.DataFrame({"color": ["red"]}), "transfers")
        with pytest.raises(InvalidRequest, match="'amount'"):
            to_arrow(pd.DataFrame({"amount": ["much"]}), "transfers")
        with pytest.raises(InvalidRequest, match="'created_at'"):
            to_arrow(pd.DataFrame({"created_at": ["2300-01-01T00:00:00Z"]}), "transfers")
        with pytest.raises(InvalidRequest, match="table 'nonsense' is unknown"):
            to_arrow(pd.DataFrame(), "nonsense")


class TestExpand:
    EVENTS = (
        b'{"events":[{"id":"a","type":"x","object":{"id":"i-1","n": 1.50,"list":["A"]}},'
        b'{"id":"b","object":{"id":"i-2","status":null}},{"id":"c"}]}'
    )

    def test_payloads_become_columns(self) -> None:
        frame = expand(to_frame(decode_page("events", self.EVENTS).rows))
        columns = ["object_id", "object_list", "object_n", "object_status"]
        there = list(frame.columns)
        assert there[there.index("object_id") - 1 :][:5] == ["object_type", *columns]
        assert frame["object_id"].tolist() == ["i-1", "i-2", pd.NA]
        assert frame["object_n"].tolist() == ["1.50", pd.NA, pd.NA]
        assert frame["object_list"].tolist() == ['["A"]', pd.NA, pd.NA]
        assert frame["object_status"].isna().all()
        assert set(types_of(frame[columns]).values()) == {"string"}
        assert "object" not in frame.columns

    def test_of_nothing(self) -> None:
        frame = to_frame(TABLES["events"].schema.empty_table())
        assert list(expand(frame).columns) == [name for name in frame.columns if name != "object"]

    def test_what_is_no_object_stays(self) -> None:
        frame = pd.DataFrame({"object": pd.array(['{"a":"x"}', "[1]"], dtype="string")})
        wide = expand(frame)
        assert wide["object"].tolist() == ['{"a":"x"}', "[1]"]
        assert wide["object_a"].tolist() == ["x", pd.NA]

    def test_names_that_are_taken_and_columns_that_are_not_there(self) -> None:
        frame = pd.DataFrame({"object": ['{"type":"x"}'], "object_type": ["y"]})
        assert expand(frame).iloc[0].to_dict() == {"object.type": "x", "object_type": "y"}
        with pytest.raises(InvalidRequest, match=r"object\.type exist already"):
            expand(frame.assign(**{"object.type": "z"}))
        with pytest.raises(InvalidRequest, match="column='payload'"):
            expand(frame, "payload")
        with pytest.raises(InvalidRequest, match="is not JSON"):
            expand(pd.DataFrame({"object": ["{"]}))

    @pytest.mark.parametrize("value", ["9" * 5_000, "[" * 100_000 + "]" * 100_000])
    def test_what_no_reader_can_hold_is_named(self, value: str) -> None:
        text = f'{{"n":{value}}}'
        with pytest.raises(InvalidRequest, match="column='metadata'"):
            maps(pd.Series([text], name="metadata"))
        if value.startswith("["):
            with pytest.raises(InvalidRequest, match="column='object'"):
                expand(pd.DataFrame({"object": [text]}))

    def test_metadata_as_mappings(self) -> None:
        texts = pd.Series(['{"desk": "a", "n": 7, "rate": 1.50}', pd.NA], dtype="string")
        assert maps(texts).tolist() == [{"desk": "a", "n": 7, "rate": Decimal("1.50")}, {}]
        assert str(maps(texts)[0]["rate"]) == "1.50"
        with pytest.raises(InvalidRequest, match="object"):
            maps(pd.Series(["[1]"], name="metadata"))


class TestDocument:
    def test_the_page_in_the_docs_is_what_the_models_say(self) -> None:
        page = Path(__file__).parents[2] / "notebooks" / "tables.md"
        assert page.read_text(encoding="utf-8") == document()

    def test_it_is_printed_for_who_runs_the_module(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name, said in (("fundlab.tables.document", ""), ("__main__", document())):
            runpy.run_path(inspect.getfile(document), run_name=name)
            assert capsys.readouterr().out == said

    def test_it_says_what_each_column_means(self) -> None:
        assert {c.name for table in TABLES.values() for c in table.columns} == MEANINGS.keys()

    def test_the_types_it_names_are_those_of_a_frame(self) -> None:
        for table in TABLES.values():
            types = types_of(to_frame(table.schema.empty_table()))
            assert types == {c.name: FRAME_TYPES[c.kind] for c in table.columns}


@pytest.mark.parametrize(
    ("rows", "kept"),  # id and updated_at; which places
    [
        ([("a", 1), ("b", 1)], [0, 1]),
        ([("a", 2), ("b", 1), ("a", 1)], [0, 1]),
        ([("a", 1), ("b", 1), ("a", 2)], [1, 2]),
        ([("a", 1), ("a", 1)], [1]),  # the last one
        ([("a", None), ("a", 1), ("a", None)], [1]),
        ([], []),
    ],
)
def test_of_a_key_given_twice_the_newest_stands(rows: list[Any], kept: list[int]) -> None:
    ids, times = [one[0] for one in rows], [one[1] for one in rows]
    table = pa.table({
        "id": pa.array(ids, pa.string()), "place": pa.array(range(len(rows)), pa.int64()),
        "updated_at": pa.array(times, pa.timestamp("ns", "UTC")),
    })  # fmt: skip
    assert TABLES["transfers"].distinct(table).column("place").to_pylist() == kept
    bare = TABLES["transfers"].distinct(table.drop_columns("updated_at"))
    last = sorted({id_: place for place, id_ in enumerate(ids)}.values())
    assert bare.column("place").to_pylist() == last
    assert TABLES["balances"].distinct(table) is table


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"x"}', "x"), ('{"a":1.50}', "1.50"), ('{"a":null}', None), ('{"b":1}', None),
        ('{"a":{"b" :1}}', '{"b" :1}'), ("[]", None), ("7", None), ("[" * 100_000, None),
        ('{"a":"0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEF"}', "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEF"),
    ],
)  # fmt: skip
def test_a_member_of_a_json_text(text: str, value: str | None) -> None:
    assert member(text, "a") == value


@pytest.mark.parametrize("read", [expand, maps])
def test_of_a_text_that_is_no_json_the_beginning_is_named(read: Any) -> None:
    frame = pd.DataFrame({"object": ["{" + "x" * 99]}, dtype="str")
    with pytest.raises(InvalidRequest) as told:
        read(frame if read is expand else frame["object"])
    assert f"'{{{'x' * 79}'" in str(told.value)


def test_what_was_expanded_still_knows_of_its_rows_and_a_missing_text_is_no_map() -> None:
    frame = pd.DataFrame({"metadata": pd.Series(['{"a": "1"}', None], dtype="str")})
    frame.attrs = {"since": "x"}
    wide = expand(frame, "metadata")
    assert wide.attrs == {"since": "x"}
    assert wide["metadata_a"].tolist() == ["1", pd.NA]
    assert maps(frame["metadata"]).tolist() == [{"a": "1"}, {}]
    with pytest.raises(InvalidRequest, match="column='metadata' holds an int; give one of JSON"):
        maps(pd.Series([5], name="metadata"))
