"""Arrow schemas from the models, and typed frames there and back."""

from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from fundlab.errors import InvalidRequest, UnknownValueWarning
from fundlab.models import Transfer
from fundlab.tables import TABLES, decode_page, to_arrow, to_frame

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
        assert types_of(to_frame(TABLES["transfers"].empty())) == types_of(full)

    def test_unknown_values_become_categories_of_their_own(self) -> None:
        body = b'{"items":[{"id":"a","status":"SLEEPING"},{"id":"b","status":"FAILED"}]}'
        with pytest.warns(UnknownValueWarning):
            frame = to_frame(decode_page("transfers", body).rows)
        assert frame["status"].tolist() == ["SLEEPING", "FAILED"]
        assert frame["status"].cat.categories.tolist() == [
            "PENDING", "COMPLETED", "FAILED", "SLEEPING",
        ]  # fmt: skip

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
        rows = to_arrow(pd.DataFrame({"id": ["a"]}), "transfers")
        assert rows.schema.equals(TABLES["transfers"].schema)
        assert rows.column("amount").null_count == 1

    def test_unknown_columns_and_values_are_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="no column 'color'"):
            to_arrow(pd.DataFrame({"color": ["red"]}), "transfers")
        with pytest.raises(InvalidRequest, match="'amount'"):
            to_arrow(pd.DataFrame({"amount": ["much"]}), "transfers")
        with pytest.raises(InvalidRequest, match="table 'nonsense' is unknown"):
            to_arrow(pd.DataFrame(), "nonsense")
