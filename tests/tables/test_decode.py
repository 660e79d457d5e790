"""Page bytes → Arrow: the same verdict and value as the grammar, written down twice."""

import calendar
import hashlib
import json
import re
from decimal import Decimal

import pandas  # noqa: F401 - Arrow gives moments as its own, where it has been imported
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fundlab.base.errors import DataError, EmptyListWarning, ProtocolError, UnknownValueWarning
from fundlab.base.values import Amount, Instant
from fundlab.tables import plain_pages
from fundlab.tables.decode import MAX_REMEMBERED_MEMBERS, decode_page
from fundlab.tables.schema import TABLES

TRANSFER = {
    "id": "t-1",
    "profile_id": "p-1",
    "amount": "100.50",
    "fee": "0.0000000",
    "total": ".25",
    "asset": "USD",
    "direction": "CREDIT",
    "type": "WIRE_DEPOSIT",
    "status": "COMPLETED",
    "created_at": "2026-03-01T10:00:00.123456789Z",
    "updated_at": "2026-03-01T12:00:00+02:00",
}


def page(*records: object, cursor: object = None, items: str = "items") -> bytes:
    return json.dumps({items: list(records), "next_page_cursor": cursor}).encode()


def transfer(**members: object) -> dict[str, object]:
    return {**TRANSFER, **members}


def rows_of(body: bytes, table: str = "transfers") -> list[dict[str, object]]:
    return decode_page(table, body).rows.to_pylist()


class TestValues:
    def test_amounts_are_exact_and_moments_keep_nanoseconds(self) -> None:
        rows = decode_page("transfers", page(TRANSFER)).rows
        assert rows.column("amount")[0].as_py() == Decimal("100.5")
        assert rows.column("fee")[0].as_py() == Decimal(0)
        assert rows.column("total")[0].as_py() == Decimal("0.25")
        assert rows.column("created_at").cast(pa.int64())[0].as_py() == 1772359200123456789
        assert rows.column("updated_at").cast(pa.int64())[0].as_py() == 1772359200000000000

    def test_the_largest_amount(self) -> None:
        text = "9" * 20 + "." + "9" * 18
        (row,) = rows_of(page(transfer(amount=text)))
        assert row["amount"] == Decimal(text)

    @pytest.mark.parametrize("field", ["ref_id", "fee", "created_at", "status", "metadata"])
    def test_absent_and_null_are_the_same(self, field: str) -> None:
        absent = {name: value for name, value in TRANSFER.items() if name != field}
        assert rows_of(page(absent))[0][field] is None
        assert rows_of(page(transfer(**{field: None})))[0][field] is None

    def test_objects_keep_their_bytes(self) -> None:
        body = b'{"items":[{"id":"t-1","metadata": {"rate" : 1.50, "n":"\\u00e9"} }]}'
        assert rows_of(body)[0]["metadata"] == '{"rate" : 1.50, "n":"\\u00e9"}'

    @pytest.mark.parametrize("library", [plain_pages.library, None], ids=["compiled", "careful"])
    def test_uuids_of_the_service_are_in_small_letters(
        self, library: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plain_pages, "library", library)
        given = "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFabcdef"
        others = {"ref_id": given, "memo": given, "metadata": {"id": given}}
        (row,) = rows_of(page(transfer(id=given, profile_id=given, group_id=None, **others)))
        assert row["id"] == row["profile_id"] == "0f5e2c1a-9b3d-4c7e-8a6f-abcdefabcdef"
        assert row["ref_id"] == row["memo"] == given
        assert row["metadata"] == json.dumps({"id": given})
        assert row["group_id"] is None
        escaped = page(transfer(id=given)).replace(b'"0F5E', b'"\\u0030F5E')
        assert rows_of(escaped)[0]["id"] == given.lower()

    @pytest.mark.parametrize(
        "text",
        [
            "T-1", "0F5E2C1A9B3D4C7E8A6FABCDEFABCDEF", "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEG",
            "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEFF", "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDE",
            "0F5E2C1A-9B3D-4C7E-8A6F_ABCDEFABCDEF", "0F5E2C1AF9B3D-4C7E-8A6F-ABCDEFABCDEF",
            "-F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEF", "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEF\n",
            "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCD\u0130", "\x00F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDEF",
            "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDE@", "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFABCDE\x10",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("library", [plain_pages.library, None], ids=["compiled", "careful"])
    def test_any_other_id_keeps_its_letters(
        self, text: str, library: object, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plain_pages, "library", library)
        (row,) = rows_of(page(transfer(id=text, profile_id=text)))
        assert row["id"] == row["profile_id"] == text

    def test_an_empty_page_has_all_columns(self) -> None:
        found = decode_page("events", b'{"events":[]}')
        assert found.rows.num_rows == 0
        assert found.rows.schema.names[0] == "id"
        assert found.next_cursor is None

    @pytest.mark.parametrize(
        ("members", "cursor"),
        [
            ('"next_page_cursor":"abc"', "abc"),
            ('"next_page":"abc"', "abc"),
            ('"next_page_cursor":"","next_page":"abc"', "abc"),
            ('"next_page_cursor":""', None),
            ('"next_page_cursor":null', None),
            ('"other":1', None),
        ],
    )
    def test_cursor(self, members: str, cursor: str | None) -> None:
        body = f'{{"items":[],{members}}}'.encode()
        assert decode_page("transfers", body).next_cursor == cursor


class TestUnlistedMembers:
    def test_are_kept_in_extra_with_their_bytes(self) -> None:
        body = b'{"items":[{"id":"a"},{"id":"b","z z": 1.50,"a":{"k" :null}},{"id":"c","a":null}]}'
        assert [row["extra"] for row in rows_of(body)] == [
            None,
            '{"a":{"k" :null},"z z":1.50}',
            '{"a":null}',
        ]

    def test_more_names_than_are_remembered(self) -> None:
        many = {f"member_{n}": n for n in range(MAX_REMEMBERED_MEMBERS + 20)}
        last = TABLES["transfers"].columns[-2].name
        (row,) = rows_of(page(transfer(**many, **{last: "2.5"})))
        assert json.loads(str(row["extra"])) == many
        assert rows_of(page(TRANSFER))[0]["extra"] is None

    def test_a_bad_value_beside_an_unlisted_member_is_still_found(self) -> None:
        with pytest.raises(DataError) as caught:
            decode_page("transfers", page(transfer(unheard_of=1, amount=5)))
        assert caught.value.field == "amount"


class TestUnknownEnumerationValues:
    def test_are_kept_and_named_once(self) -> None:
        body = page(transfer(status="RESTING"), transfer(id="t-2", status="RESTING"))
        with pytest.warns(UnknownValueWarning, match="status 'RESTING'") as caught:
            rows = rows_of(body)
        assert [row["status"] for row in rows] == ["RESTING", "RESTING"]
        assert [one.filename for one in caught] == [__file__]  # once, where the page is given
        rows_of(body)  # no second warning, which would be an error here

    def test_however_many_there_are_a_hundred_are_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("fundlab.tables.decode._reported", {})  # what other tests met
        body = page(*(transfer(id=f"t-{n}", type=f"KIND_{n}") for n in range(300)))
        with pytest.warns(UnknownValueWarning) as caught:
            rows = rows_of(body)
        assert len(rows) == 300
        assert len(caught) == 101
        assert str(caught[-1].message).startswith("transfers: type: and more")
        rows_of(body)  # no second warning, which would be an error here


class TestMalformed:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            (b"", "not JSON"),
            (b"<html>", "not JSON"),
            (b'{"items":[', "not JSON"),
            (b'{"items":[]} x', "not JSON"),
            (b'{"items":[{"id":"a","metadata":"\xff"}]}', "not JSON"),
            (b'{"items":[{"id":"a","metadata":{"a":01}}]}', "not JSON"),
            (b'{"items":[{"id":"a","memo":"\\ud800"}]}', "not JSON"),
            (
                b'{"items":[{"id":"a","metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
                "nested too deeply",
            ),
            (b"[]", "not a page"),
            (b'{"error":"x"}', "not a page"),
            (b'{"items":{}}', "not a page"),
            (b'{"items":[],"next_page_cursor":7}', "not a page"),
        ],
    )
    def test_pages(self, body: bytes, says: str) -> None:
        with pytest.raises(ProtocolError, match=f"transfers, page 3: {says}"):
            decode_page("transfers", body, page=3)

    @pytest.mark.parametrize(
        ("members", "field", "record"),
        [
            ({"amount": "1e5"}, "amount", "t-1"),
            ({"amount": "+1"}, "amount", "t-1"),
            ({"amount": "1\n"}, "amount", "t-1"),
            ({"amount": "5."}, "amount", "t-1"),
            ({"amount": ""}, "amount", "t-1"),
            ({"amount": "٣"}, "amount", "t-1"),
            ({"amount": 5}, "amount", "t-1"),
            ({"fee": "1" * 21}, "fee", "t-1"),
            ({"total": "0." + "1" * 19}, "total", "t-1"),
            ({"notional_value": "-1"}, "notional_value", "t-1"),
            ({"created_at": "2026-02-30T00:00:00Z"}, "created_at", "t-1"),
            ({"created_at": "2026-02-03T00:00:00"}, "created_at", "t-1"),
            ({"created_at": "2026-02-03 00:00:00Z"}, "created_at", "t-1"),
            ({"created_at": "2026-02-03T00:00:00.1234567890Z"}, "created_at", "t-1"),
            ({"created_at": "now"}, "created_at", "t-1"),
            ({"updated_at": "2300-01-01T00:00:00Z"}, "updated_at", "t-1"),
            ({"updated_at": 1772359200}, "updated_at", "t-1"),
            ({"memo": 7}, "memo", "t-1"),
            ({"id": ""}, "id", "#2"),
            ({"id": None}, "id", "#2"),
            ({"id": 7}, "id", "#2"),
        ],
    )
    def test_records(self, members: dict[str, object], field: str, record: str) -> None:
        body = page(transfer(id="good"), transfer(**members))
        with pytest.raises(DataError) as caught:
            decode_page("transfers", body, page=4)
        error = caught.value
        assert (error.table, error.page, error.record, error.field) == (
            "transfers", 4, record, field,
        )  # fmt: skip

    def test_the_last_member_of_a_record_is_named_too(self) -> None:
        body = b'{"events":[{"id":"e-1","is_test":"yes"}]}'
        with pytest.raises(DataError, match="record e-1, field 'is_test': must be true or false"):
            decode_page("events", body)

    def test_a_record_without_an_id(self) -> None:
        with pytest.raises(DataError, match="record #1, field 'id': missing"):
            decode_page("transfers", b'{"items":[{"memo":"x"}]}')

    def test_a_record_that_is_no_object(self) -> None:
        with pytest.raises(DataError, match="record #1: not an object: '7'"):
            decode_page("transfers", b'{"items":[7]}')

    def test_what_is_wrong_is_said_in_plain_words(self) -> None:
        with pytest.raises(DataError, match="'asset': must be text in quotes: '5'") as caught:
            decode_page("transfers", page(transfer(id="t", asset=5)))
        assert caught.value.reason == "asset: must be text in quotes"

    def test_a_member_that_is_there_twice_is_refused_by_its_first_value(self) -> None:
        body = b'{"items":[{"id":"a","memo":5,"memo":"5"}]}'
        with pytest.raises(DataError, match="transfers, page 1") as caught:
            decode_page("transfers", body)
        assert caught.value.table == "transfers"

    @pytest.mark.parametrize(("largest", "beyond"), [(2**63 - 1, 2**63), (-(2**63), -(2**63) - 1)])
    def test_a_count_beyond_64_bits(self, largest: int, beyond: int) -> None:
        body = page({"id": "e", "undelivered_webhooks": largest}, items="events")
        assert rows_of(body, "events")[0]["undelivered_webhooks"] == largest
        body = page({"id": "e", "undelivered_webhooks": beyond}, items="events")
        with pytest.raises(DataError, match="undelivered_webhooks"):
            decode_page("events", body)


class TestNestedOddities:
    def test_status_and_metadata_inside_the_instructions(self) -> None:
        nested = {"wire": None, "account_id": 7, "status": "APPROVED", "metadata": {"a": 1},
                  "updated_at": "2026-03-01T10:00:00Z"}  # fmt: skip
        (row,) = rows_of(page({"id": "f", "fiat_network_instructions": nested}), "fiat_accounts")
        assert row["status"] == "APPROVED"
        assert row["account_id"] is None, "what is of another type stays there only"
        assert str(row["updated_at"]).startswith("2026-03-01 10:00:00")
        assert row["metadata"] == '{"a": 1}'
        assert json.loads(str(row["fiat_network_instructions"])) == nested

    def test_the_instructions_inside_the_owner(self) -> None:
        owner = {
            "person_details": None,
            "fiat_network_instructions": {"wallet_address": "w", "status": "VALID"},
        }
        (row,) = rows_of(page({"id": "d", "fiat_account_owner": owner}), "deposit_instructions")
        assert row["status"] == "VALID"
        assert json.loads(str(row["fiat_network_instructions"]))["wallet_address"] == "w"

    def test_what_is_given_in_its_place_wins(self) -> None:
        record = {
            "id": "f",
            "status": "PENDING",
            "fiat_network_instructions": {"status": "APPROVED", "id": "other"},
        }
        (row,) = rows_of(page(record), "fiat_accounts")
        assert (row["status"], row["id"]) == ("PENDING", "f")


# ---------------------------------------------------------------------------- laws

amounts = st.one_of(
    st.from_regex(r"[0-9]{0,22}\.?[0-9]{0,20}", fullmatch=True),
    st.decimals(allow_nan=True, allow_infinity=True).map(str),
    st.text("0123456789.eE+- \n٣_", max_size=24),
)
digits = st.integers(0, 99).map(lambda n: f"{n:02d}")
instants = st.one_of(
    st.builds(
        lambda year, month, day, t, h, m, s, fraction, zone: (
            f"{year}-{month:02d}-{day:02d}{t}{h:02d}:{m:02d}:{s:02d}{fraction}{zone}"
        ),
        st.sampled_from(["1600", "1677", "1678", "1900", "2024", "2026", "2261", "2262", "2263"]),
        st.integers(0, 13),
        st.integers(0, 32),
        st.sampled_from("Tt "),
        st.integers(0, 25),
        st.integers(0, 61),
        st.integers(0, 61),
        st.from_regex(r"(\.[0-9]{0,11})?", fullmatch=True),
        st.one_of(
            st.sampled_from(["Z", "z", "", "+0530", "-00:00", "+24:00", "Z\n"]),
            st.from_regex(r"[+-][0-2][0-9]:[0-6][0-9]", fullmatch=True),
        ),
    ),
    st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
    st.text("0123456789-:TZtz+. \n", max_size=30),
)


def amount_by_hand(text: str) -> Decimal | None:
    """Written from the interface and the decisions, without the package."""
    whole, point, fraction = text.partition(".")
    digits = set("0123456789")
    if not set(whole + fraction) <= digits or not (fraction if point else whole):
        return None
    return None if len(whole) > 20 or len(fraction) > 18 else Decimal(text)


def instant_by_hand(text: str) -> int | None:
    match = re.fullmatch(
        r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})"
        r"(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))",
        text,
    )
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    off_hours, off_minutes = int(match[9] or 0), int(match[10] or 0)
    if not 1 <= month <= 12 or year < 1 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    if hour > 23 or minute > 59 or second > 59 or off_hours > 23 or off_minutes > 59:
        return None
    offset = (off_hours * 60 + off_minutes) * (-1 if match[8] == "-" else 1)
    seconds = calendar.timegm((year, month, day, hour, minute - offset, second))
    first, end = calendar.timegm((1678, 1, 1, 0, 0, 0)), calendar.timegm((2262, 1, 1, 0, 0, 0))
    if not first <= seconds < end:
        return None
    return seconds * 10**9 + int((match[7] or "").ljust(9, "0"))


@given(st.lists(amounts, max_size=5))
@example(["1\n"])
@example(["." + "0" * 18])
def test_amounts_agree_with_the_oracle_and_with_amount(texts: list[str]) -> None:
    for text in texts:
        expected = amount_by_hand(text)
        body = page(transfer(amount=text))
        if expected is None:
            with pytest.raises(ValueError, match="amount"):
                Amount(text)
            with pytest.raises(DataError):
                decode_page("transfers", body)
        else:
            assert Amount(text) == expected
            assert decode_page("transfers", body).rows.column("amount")[0].as_py() == expected


@given(instants)
@example("1677-12-31T23:59:59.9-00:01")
@example("2262-01-01T00:00:00+00:01")
@example("2261-12-31T23:59:59.999999999-23:59")
@example("2024-02-29t23:59:59z")
@example("1900-02-29T00:00:00Z")
def test_instants_agree_with_the_oracle_and_with_instant(text: str) -> None:
    expected = instant_by_hand(text)
    body = page(transfer(created_at=text))
    if expected is None:
        with pytest.raises(ValueError, match=r"time|zone|years"):
            Instant.parse(text)
        with pytest.raises(DataError):
            decode_page("transfers", body)
    else:
        assert Instant.parse(text).ns == expected
        found = decode_page("transfers", body).rows.column("created_at")
        assert found.cast(pa.int64())[0].as_py() == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=6), json_values, max_size=5), json_values)
def test_nothing_that_is_sent_is_lost(unlisted: dict[str, object], metadata: object) -> None:
    listed = {column.name for column in TABLES["transfers"].columns[:-1]}  # memo is as short
    unlisted = {name: value for name, value in unlisted.items() if name not in listed}
    record = {**transfer(metadata=metadata), **unlisted}
    (row,) = rows_of(page(record))
    kept = row["extra"]
    assert json.loads(str(kept)) == unlisted if unlisted else kept is None
    if metadata is None:
        assert row["metadata"] is None
    else:
        assert json.loads(str(row["metadata"])) == metadata


# ------------------------------------------------------------------------------- set aside


@pytest.mark.parametrize(
    ("raw", "id_", "reason"),
    [
        (b'{"id":"t","amount":"1e5"}', "t", "amount"),
        (b'{"id":"t", "amount" : 5}', "t", "must be text in quotes"),
        (b'{"amount":"5"}', None, "missing"),
        (b'{"id":7}', None, "must be text in quotes"),
        (b'{"id":""}', None, "empty"),
        (b"7", None, "not an object"),
        (b'{"id":"t","created_at":"2026-02-30T00:00:00Z"}', "t", "day is out of range"),
    ],
)
def test_a_record_that_cannot_be_read_is_set_aside_as_it_came(
    raw: bytes, id_: str | None, reason: str
) -> None:
    body = b'{"items":[{"id":"a"},' + raw + b',{"id":"b"}],"next_page_cursor":"c"}'
    with pytest.raises(DataError):
        decode_page("transfers", body)
    found = decode_page("transfers", body, set_aside=True)
    assert (found.rows.column("id").to_pylist(), found.next_cursor) == (["a", "b"], "c")
    (one,) = found.invalid
    assert (one.table, one.id, one.raw) == ("transfers", id_, raw.decode())
    assert reason in one.reason
    digest = hashlib.sha256((id_ or "").encode() + raw).hexdigest()
    assert one.key == digest[:16]
    whole = decode_page("transfers", b'{"items":[{"id":"a"}]}', set_aside=True)
    assert (len(whole.rows), whole.invalid) == (1, ())


def test_what_is_no_page_of_a_table_is_said() -> None:
    body: object = "{}"
    with pytest.raises(TypeError, match="body is a str; give the bytes of the page"):
        decode_page("transfers", body)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=r"transfers, page 7: not JSON: .*utf-8"):
        decode_page("transfers", b'{"items":[{"id":"\xff"}]}', page=7)
    bare = next(name for name, table in TABLES.items() if table.items is None)
    with pytest.raises(ProtocolError, match=f"{bare} does not come in pages"):
        decode_page(bare, b'{"items":[]}')
    with pytest.raises(DataError) as caught:
        decode_page("transfers", page({"id": "a"}, {"id": "b", "amount": "x"}), page=3)
    assert (caught.value.page, caught.value.record) == (3, "b")
    with pytest.raises(DataError, match="#2"):
        decode_page("transfers", b'{"items":[{"id":"a"},7]}')
    with pytest.raises(DataError, match="#2"):
        decode_page("transfers", page({"id": "a"}, {"amount": "1"}))


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_names_as_are_remembered(more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more, or one that no struct can have, is read all the same, and not remembered."""
    layouts: dict[str, object] = {}
    monkeypatch.setattr("fundlab.tables.decode._layouts", layouts)
    many = {f"member_{n}": n for n in range(MAX_REMEMBERED_MEMBERS + more)}
    for members in (many, {'a"b': 1, **dict(list(many.items())[:2])}, {"a\\b": None}):
        layouts.clear()
        (row,) = rows_of(page(transfer(**members)))
        assert json.loads(str(row["extra"])) == members
        unlisted = [one.unlisted for one in layouts.values()]  # type: ignore[attr-defined]
        remembered = len(members) == MAX_REMEMBERED_MEMBERS
        assert (len(many) in map(len, unlisted)) is remembered


def test_members_are_sorted_in_extra_whichever_way_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fundlab.tables.decode._layouts", {})
    bodies = [page(transfer(b=1, a=[2])), page(transfer(c=3, a=[2]), transfer(id="t-2"))]
    for _ in range(2):
        assert [row["extra"] for row in rows_of(bodies[0])] == ['{"a":[2],"b":1}']
        assert [row["extra"] for row in rows_of(bodies[1])] == ['{"a":[2],"c":3}', None]


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (["{}", "null", "[1]"], ["{}", None, "[1]"]), (["null", "null"], [None, None]),
        (["{}", "[]"], ["{}", "[]"]), ([], []),
    ],
)  # fmt: skip
def test_json_is_kept_and_null_is_none(values: list[str], kept: list[object]) -> None:
    records = ",".join(f'{{"id":"{n}","metadata":{raw}}}' for n, raw in enumerate(values))
    assert [row["metadata"] for row in rows_of(f'{{"items":[{records}]}}'.encode())] == kept


def test_a_page_without_its_array_is_told_once_for_a_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fundlab.tables.decode._empty", set())
    for table, items in (("transfers", "items"), ("events", "events")):
        with pytest.warns(
            EmptyListWarning, match=f"{table}: the array '{items}' of a page is nu"
        ) as caught:
            assert decode_page(table, f'{{"{items}":null}}'.encode()).rows.num_rows == 0
        assert caught[0].filename == __file__
        assert rows_of(b'{"next_page_cursor":null}', table) == []  # a warning is an error here
        assert rows_of(f'{{"{items}":null,"count":0}}'.encode(), table) == []
        with pytest.raises(ProtocolError, match=f"not a page: it has no array '{items}'"):
            rows_of(b'{"other":[]}', table)


def test_a_time_that_is_not_set_among_others_is_none() -> None:
    times = ["2026-03-01T10:00:00Z", "0001-01-01T00:00:00Z", None, "2026-03-01t10:00:00z"]
    body = page(*(transfer(id=str(n), created_at=time) for n, time in enumerate(times)))
    column = decode_page("transfers", body).rows.column("created_at").cast(pa.int64())
    assert column.to_pylist() == [1772359200 * 10**9, None, None, 1772359200 * 10**9]


@pytest.mark.parametrize("value", [True, False, None])
def test_flags_and_counts_are_what_was_sent(value: object) -> None:
    kinds = [
        (name, column.name, column.kind)
        for name, table in TABLES.items() if table.items is not None
        for column in table.columns if column.kind in ("flag", "count")
    ]  # fmt: skip
    assert {kind for *_, kind in kinds} <= {"flag", "count"}
    for name, column, kind in kinds:
        table = TABLES[name]
        sent = value if kind == "flag" or value is None else 2**63 - 1
        body = page({"id": "a", column: sent}, items=str(table.items))
        assert rows_of(body, name)[0][column] == sent
