from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import ROUND_UP, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import narwhals
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import fundlab as fl
from fundlab.base.errors import InvalidRequest
from fundlab.display import Card, Cell, Row, Table

ID = "37f447e2-2d7d-4635-ace9-061b9ec79d6b"


@pytest.fixture
def frame() -> pd.DataFrame:
    moments = ["2026-11-21T14:02:31.5Z", None]
    return pd.DataFrame(
        {
            "id": [ID, "short"],
            "amount": pd.Series(["1442725.5", "0.000000001"], dtype="decimal"),
            "asset": ["USD", "BTC"],
            "created_at": pd.to_datetime(pd.Series(moments), utc=True),
            "note": ["<b>bold</b>", None],
            "count": [1200, 7],
        }
    )


def test_money_times_and_ids_are_shown_for_people(frame: pd.DataFrame) -> None:
    lines = repr(fl.show(frame, tz="Europe/Zurich")).splitlines()
    assert lines[1].split() == [
        "37f447e2…9d6b", "1,442,725.50", "USD", "2026-11-21", "15:02:31", "<b>bold</b>", "1,200",
    ]  # fmt: skip
    assert lines[2].split() == ["short", "0.000000001", "BTC", "7"]
    assert lines[3] == "2 rows · times in Europe/Zurich"


def test_the_whole_shows_on_hover_and_text_is_escaped(frame: pd.DataFrame) -> None:
    page = fl.show(frame)._repr_html_()
    assert f'title="{ID}">37f447e2…9d6b</td>' in page
    assert 'title="2026-11-21T14:02:31.500000+00:00"' in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page


def test_numbers_stand_to_the_right_under_their_heads(frame: pd.DataFrame) -> None:
    page = fl.show(frame)._repr_html_()
    assert '<th scope="col" class="fl-number">amount</th>' in page
    assert '<td class="fl-number">1,442,725.50</td>' in page
    card = Card("A batch", tables=(Table((("fee", "number"),), ((Cell("40.00"),),)),))
    assert '<td class="fl-number">40.00</td>' in card._repr_html_()
    assert repr(card).splitlines()[1:] == ["    fee", "  40.00"]


@pytest.mark.parametrize(
    ("amount", "asset", "shown"),
    [
        ("1", "USD", "1.00"),
        ("1.005", "USD", "1.005"),
        ("0.1", "BTC", "0.10000000"),
        ("-1234.5", "ETH", "-1,234.500000"),
        ("0.000000000000000001", "ETH", "0.000000000000000001"),
        ("12", None, "12.00"),
    ],
)
def test_decimals_follow_the_asset_and_nothing_is_rounded(
    amount: str, asset: Any, shown: str
) -> None:
    frame = pd.DataFrame({"amount": pd.Series([amount], dtype="decimal"), "asset": [asset]})
    assert repr(fl.show(frame)).splitlines()[1].split()[0] == shown


@pytest.mark.parametrize(
    ("name", "figure", "shown"),
    [
        ("price", "2500.123456789012345678", "2,500.12345679"),
        ("price", "0.9999995207", "0.9999995207"),
        ("price", "12345678901234.567", "12,345,678,901,234.57"),
        ("price", "1", "1.00"),
        ("price", "0.00001234567890126", "0.0000123456789013"),
        ("balance_value", "37755920.973797852869316485", "37,755,920.97"),
        ("balance_value", "0.025", "0.02"),
        ("fee_value", "-0.001", "0.00"),
        ("balance_value", "7", "7.00"),
    ],
)
def test_what_comes_of_a_price_is_rounded_and_the_frame_is_not(
    name: str, figure: str, shown: str
) -> None:
    frame = pd.DataFrame({"asset": ["ETH"], name: pd.Series([figure], dtype="decimal")})
    ours = frame.assign(price_from="given", **{name.removesuffix("_value"): frame[name]})
    with localcontext(prec=3, rounding=ROUND_UP):
        cell = fl.show(ours).rows[0][1]
    assert cell.text == shown
    assert (cell.title or cell.text).replace(",", "") in (figure, f"{figure}.00")
    # a column of somebody's that is only called so is an amount, and exact
    for other in (frame, ours.rename(columns={name: "face_value"}).drop(columns="price_from")):
        assert Decimal(fl.show(other).rows[0][1].text.replace(",", "")) == Decimal(figure)
    assert frame[name].iloc[0] == Decimal(figure)


@pytest.mark.parametrize(
    ("units", "price", "value"),
    [
        ("23489.830000", "0.999987645632804", "23,489.54"),
        ("175805.034423", "0.999999520123456789", "175,804.95"),
        ("999999999.99", "0.999999999994999999", "999,999,999.98"),
        ("9041.12345678", "104233.456789012345678901", "942,387,551.16"),
        ("48000000000.5", "0.000012345678901234", "592,592.59"),
    ],
)
def test_what_is_shown_multiplies_to_the_value_that_is_shown(
    units: str, price: str, value: str
) -> None:
    """Each value is worked out with Python's fractions, of the whole price."""
    frame = pd.DataFrame({"price": pd.Series([price], dtype="decimal"), "price_from": "own"})
    shown = fl.show(frame).rows[0][0].text
    assert abs(Fraction(units) * Fraction(shown.replace(",", ""))
               - Fraction(value.replace(",", ""))) < Fraction("0.01")  # fmt: skip


def test_moments_that_head_columns_are_shown_as_in_cells() -> None:
    """What a pivot by month has: dates where all are midnights, in the zone asked for."""
    months = pd.to_datetime(["2026-08-01", "2026-09-01"], utc=True)
    frame = pd.DataFrame([["Payouts", 1, 2]], columns=["profile", *months])
    assert repr(fl.show(frame)).splitlines() == [
        "profile  2026-08-01  2026-09-01",
        "Payouts           1           2",
        "1 row · times in UTC",
    ]
    away = fl.show(frame, tz="Europe/Zurich")
    assert [name for name, _ in away.columns] == [
        "profile", "2026-08-01 02:00:00", "2026-09-01 02:00:00",
    ]  # fmt: skip
    local = frame.set_axis(["profile", *months.tz_localize(None)], axis=1)
    assert repr(fl.show(local)).splitlines()[0] == "profile  2026-08-01  2026-09-01"
    assert repr(fl.show(local)).splitlines()[2] == "1 row"


def test_ids_that_head_columns_and_rows_are_called_as_in_cells() -> None:
    """What a pivot by profile has; two of the same name stay apart."""
    treasury, payouts = map(fl.id_of, ("Treasury", "Payouts"))
    held = pd.DataFrame(
        {"asset": ["USD"] * 3, "profile_id": [treasury, payouts, ID],
         "balance": pd.Series(["1000", "2", "3"], dtype="decimal")}
    )  # fmt: skip
    by_asset = held.pivot(index="asset", columns="profile_id", values="balance")
    shown = by_asset[[treasury, payouts, ID]]
    assert repr(fl.show(shown)).splitlines()[:2] == [
        "asset  Treasury  Payouts  37f447e2…9d6b",
        "USD    1,000.00     2.00           3.00",
    ]
    called = [name for name, _ in fl.show(shown, names={ID: "Treasury"}).columns]
    assert called == ["asset", treasury, "Payouts", ID]
    called = [name for name, _ in fl.show(shown, names={ID: "Desk"}).columns]
    assert called == ["asset", "Treasury", "Payouts", "Desk"]
    by_profile = held.pivot(index="profile_id", columns="asset", values="balance")
    cells = [row[0] for row in fl.show(by_profile).rows]
    assert sorted(cell.text for cell in cells) == ["37f447e2…9d6b", "Payouts", "Treasury"]
    assert {cell.title for cell in cells} == {treasury, payouts, ID}


def test_long_frames_are_cut_and_say_so(frame: pd.DataFrame) -> None:
    assert repr(fl.show(pd.concat([frame] * 30))).endswith(
        "60 rows, 40 of them not shown (rows= shows more) · times in UTC"
    )
    assert fl.show(frame, rows=0).hidden == 2


def test_bad_arguments(frame: pd.DataFrame) -> None:
    with pytest.raises(InvalidRequest, match="tz='Mars' is not a time zone; give a name such as"):
        fl.show(frame, tz="Mars")
    with pytest.raises(InvalidRequest, match="rows=-1"):
        fl.show(frame, rows=-1)
    for other in (
        pa.table({"n": [1]}).to_reader(),
        pa.chunked_array([[1]]),
        narwhals.from_native(frame),
    ):
        with pytest.raises(InvalidRequest, match="give a DataFrame"):
            fl.show(other)


def test_a_missing_value_beside_a_large_integer_and_months_change_no_figure() -> None:
    beyond = 2**53 + 1
    for rows in (pa.table({"n": [beyond, None]}), pl.DataFrame({"n": [beyond, None]})):
        assert fl.show(rows).rows[0][0].text == f"{beyond:,}"
    lengths = duckdb.sql("SELECT INTERVAL 3 MONTH AS a, INTERVAL 36 HOUR AS b")
    months, hours = fl.show(lengths).rows[0]
    assert "3" in months.text
    assert hours.text == "1 d 12 h"


def test_an_index_that_is_a_column_too_is_shown_once(frame: pd.DataFrame) -> None:
    shown = repr(fl.show(frame.set_index("id", drop=False)))
    assert shown.splitlines()[0].split().count("id") == 1


def test_the_zone_is_named_only_where_there_are_times() -> None:
    assert repr(fl.show(pd.DataFrame({"count": [7]}))).endswith("\n1 row")


def test_basis_points_are_no_money_of_the_asset() -> None:
    frame = pd.DataFrame(
        {"asset": ["BTC"], "bps": pd.Series(["3.63"], dtype="decimal"), "count": [1]}
    )
    assert repr(fl.show(frame)).splitlines()[1].split() == ["BTC", "3.6300", "1"]


@pytest.mark.parametrize("tz", ["", "America", "../x", "UTC\0", "x" * 300, None, 5])
def test_what_is_no_zone_is_refused(tz: Any) -> None:
    with pytest.raises(InvalidRequest, match="is not a time zone; give a name such as"):
        fl.show(pd.DataFrame({"a": [1]}), tz=tz)


@pytest.mark.parametrize(
    ("frame", "rows"), [([1], 5), (None, 5), (pd.DataFrame(), "5"), (pd.DataFrame, 5)]
)
def test_what_cannot_be_shown_is_refused(frame: Any, rows: Any) -> None:
    with pytest.raises(InvalidRequest, match="give"):
        fl.show(frame, rows=rows)


def test_what_would_forge_a_row_or_repaint_the_terminal_is_marked() -> None:
    frame = pd.DataFrame({"no\nte": ["two\nlines\x1b[2J", "\u202eturned"]})
    lines = repr(fl.show(frame)).splitlines()
    assert lines == ["no�te", "two�lines�[2J", "�turned", "2 rows"]
    assert "\u202e" not in fl.show(frame)._repr_html_()


@pytest.mark.parametrize(
    ("value", "dtype", "shown"),
    [
        (1234567.89, "float64", "1,234,567.89"),
        (0.1, "float64", "0.1"),
        (1200.0, "float64", "1,200"),
        (1e22, "float64", "1e+22"),
        (2.5, "Float64", "2.5"),
        (float("inf"), "float64", "inf"),
    ],
)
def test_numbers_are_not_rounded_either(value: float, dtype: str, shown: str) -> None:
    frame = pd.DataFrame({"a": pd.Series([value], dtype=dtype)})
    assert repr(fl.show(frame)).splitlines()[1].strip() == shown


@pytest.mark.thorough
def test_what_an_analysis_gives_is_shown_whatever_it_is_of() -> None:
    """Of a store it is lazy: only the rows that are shown are fetched."""
    store = fl.sample()
    rows = store.read("transfers")
    arrow = store.read_arrow("transfers")
    for analysis in (fl.flows.settlement_time, fl.flows.net, fl.fees.summary):
        frame = analysis(rows)
        wanted = repr(fl.show(frame, rows=3))
        for given in (store, arrow, pl.from_arrow(arrow)):
            assert repr(fl.show(analysis(given), rows=3)) == wanted
    lazy = store.scan("transfers").project("created_at, total, asset")
    assert repr(fl.show(lazy, rows=0)) == repr(
        fl.show(rows[["created_at", "total", "asset"]], rows=0)
    )
    table = fl.show(lazy, rows=2)
    assert fl.show(table) is table


def test_durations_are_in_words_and_stand_to_the_right() -> None:
    spans = ["1 days 13:12:18.912809001", "0 days 00:00:27.3173155", "0 days 00:00:00.25",
             "-1 days +23:59:59", None]  # fmt: skip
    frame = pd.DataFrame({"p50": pd.to_timedelta(pd.Series(spans))})
    table = fl.show(frame)
    shown = ["1 d 13 h", "27 s", "250 ms", "-1 s", ""]
    assert [row[0].text for row in table.rows] == shown
    assert table.rows[0][0].title == "1 days 13:12:18.912809001"
    assert frame["p50"].iloc[0] == pd.Timedelta("1 days 13:12:18.912809001")
    assert table.columns == (("p50", "number"),)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("identity_required_documents_status", "identity_required_documents_status"),
        ("0x61d9d7d5c5a1f1d2b3c4d5e6f708192a3b4c1c50", "0x61d9d7…1c50"),
        ("bitcoincash:q5p7z76p8uypjxaz9t28wpy00uqys606rw8s3yfcpu", "bitcoinc…fcpu"),
        ("fundlab-da010a5b34e9443738932f5d62f272c", "fundlab-…272c"),
        ("Liabilities:2100-Clearing:Wire-Deposit", "Liabilities:2100-Clearing:Wire-Deposit"),
    ],
)
def test_ids_and_addresses_are_shortened_and_words_are_not(text: str, shown: str) -> None:
    ((cell,),) = fl.show(pd.DataFrame({"type": [text]})).rows
    assert cell.text == shown


def test_what_belongs_to_something_is_set_in_below_it() -> None:
    card = Card("Account", (Row("wire", ""), Row("bank", "First", depth=1), Row("id", "7")))
    assert repr(card).splitlines()[1:] == ["  wire", "    bank  First", "  id      7"]
    assert '<dt style="padding-left: 1em">bank</dt>' in card._repr_html_()


# ------------------------------------------------------------------ what shows itself


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any, fl.Store, Any]]:
    """A sandbox, its client, a store with rows that changed, and the last sync."""
    with fl.sandbox.serve(seed=7, transfers=60, clock="manual") as sandbox:
        client = sandbox.connect()
        store = fl.Store(tmp_path_factory.mktemp("shown") / "store")
        store.sync(client, progress=False)
        store.pin("october")
        sandbox.clock.advance(86_400)  # what was pending is completed
        yield sandbox, client, store, store.sync(client, progress=False)


def test_a_store_says_what_it_holds_as_its_tables_do(world: Any) -> None:
    *_, store, done = world
    assert done.changed  # so that current rows are not simply all rows
    lines = {line.split()[0]: line.split() for line in repr(store).splitlines()}
    for name in ("transfers", "events", "addresses", "fiat_accounts", "balances"):
        frame = store.read(name)
        moments = frame["observed_at" if name == "balances" else "created_at"]
        assert lines[name][1] == f"{len(frame):,}"
        first, last = f"{moments.min():%Y-%m-%d %H:%M}", f"{moments.max():%Y-%m-%d %H:%M}"
        assert " ".join(lines[name][2:8]) == f"{first} UTC {last} UTC"
    assert lines["pins"] == ["pins", "october"]
    assert "fl.reconcile.judge(store)" in store._repr_html_()


def test_a_store_without_rows_and_a_damaged_one_say_what_to_do(tmp_path: Path) -> None:
    store = fl.Store(tmp_path / "store")
    assert repr(store).splitlines()[1] == "empty; fill it: store.sync(fl.connect())"
    shutil.copytree(fl.sample().path, store.path)
    for path in (store.path / "events").iterdir():
        path.write_bytes(b"PAR1 no more")
    assert "store.verify() says all of it" in repr(store)


def test_everything_of_a_service_shows_itself_without_a_secret(world: Any) -> None:
    sandbox, client, store, done = world
    account = next(one for one in client.list_fiat_accounts() if one.fiat_network_instructions.wire)
    account = client.get_fiat_account(account.id)
    number = account.fiat_network_instructions.wire.account_number
    shown = {
        "client": client, "sandbox": sandbox, "sync": done, "judgement": fl.reconcile.judge(store),
        "verification": store.verify(), "account": account,
        "transfer": next(iter(client.list_transfers())),
    }  # fmt: skip
    pages = {name: value._repr_html_() for name, value in shown.items()}
    assert all(page.startswith('<div class="fl-card') for page in pages.values())
    assert all(sandbox.client_secret not in page for page in pages.values())
    assert number not in pages["account"]
    assert f"••••{number[-4:]}" in pages["account"]
    transfer = shown["transfer"]
    assert pages["transfer"].count(f" {transfer.asset}</b>") == 3  # amount, fee, total
    assert "SANDBOX · play money" in pages["client"]
    assert client.base_url in pages["sandbox"]
    assert f"{done.new:,} new row" in pages["sync"]
    assert "Reconciled: 0 breaks" in pages["judgement"]
    assert "no problems" in pages["verification"]


def test_a_decimal_too_wide_for_an_amount_is_shown_with_every_digit() -> None:
    wide = pa.array([Decimal("-123456789012345678901234567890"), None], pa.decimal128(38, 0))
    deep = pa.array([Decimal("0.1234567890123456789012345"), Decimal(0)], pa.decimal256(60, 25))
    shown = str(fl.show(pa.table({"wide": wide, "deep": deep})))
    assert "-123,456,789,012,345,678,901,234,567,890" in shown
    assert "0.1234567890123456789012345" in shown


def test_decimals_stand_one_below_the_other() -> None:
    amounts = pd.array(["1250.5", "0.000000000000000001", "-3"], dtype="decimal")
    frame = pd.DataFrame({"amount": amounts, "asset": ["USD", "ETH", "USD"]})
    lines = fl.show(frame).lines()
    assert [line.rstrip() for line in lines[1:]] == [
        "1,250.50                  USD",
        "    0.000000000000000001  ETH",
        "   -3.00                  USD",
    ]


@pytest.mark.thorough
def test_differences_unfold_into_candidates_rows_and_versions() -> None:
    store = fl.sample()
    transfers, balances = store.read("transfers"), store.read("balances")
    again = transfers.iloc[[2500]].assign(id="00000000-0000-4000-8000-000000000000", memo="<b>")
    doubled = pd.concat([transfers, again], ignore_index=True)
    found = fl.reconcile.explore(doubled, balances, history=store.history("transfers"))
    (one,) = found.differences
    first = one.candidates[0]
    assert first.cause == "duplicate"
    assert first.around is not None
    assert first.versions is not None
    (marked,) = [row for row in first.around.rows if row[0].text]
    assert marked[1].text == f"{again['created_at'].iloc[0]:%Y-%m-%d %H:%M:%S}"
    lines = repr(found).splitlines()
    assert lines[0] == "1 difference in 40 balances"
    assert lines[2] == "  1. duplicate: there twice, as 00000000-0000-4000-8000-000000000000"
    page = found._repr_html_()
    assert page.count("<details") == page.count("</details>") == len(one.candidates) + 2
    assert "<script" not in page
    assert "Each version of it that was seen" in page
    assert "The transfer (▸) among those before and after it" in page
    halves = transfers[(transfers["type"] == "INTERNAL_TRANSFER_DEBIT")
                       & (transfers["status"] == "COMPLETED")]  # fmt: skip
    gone = fl.reconcile.explore(transfers.drop(halves.index[-1]), balances).differences[0]
    half = next(one for one in gone.candidates if one.cause == "missing_half")
    assert half.said == "The transfer, which is of another balance"
    assert half.around is not None
    assert "profile_id" in dict(half.around.columns)
    # In words, with separators, and times that are read.
    assert repr(fl.reconcile.explore(transfers.iloc[1:], balances)).splitlines()[1:3] == [
        "5,834,323.03 USD of Treasury",
        "  1. ran below zero: a credit of 5,834,323.03 USD before 2025-11-04 14:10:49 UTC, when it "
        "ran below zero",
    ]
    assert fl.reconcile.explore(transfers, balances).differences == ()
    with pytest.raises(InvalidRequest, match="transfers='t' is not a frame; give a pandas"):
        fl.reconcile.explore("t", balances)  # type: ignore[arg-type]


def test_groups_series_and_what_has_a_card_are_shown_too() -> None:
    ids = " ".join(["f101441c-0f5a-4e63-80bd-999fa8cfce08"] * 3)
    several = fl.show(pd.DataFrame({"transfers": [ids, "two words"]}))
    assert [row[0].text for row in several.rows] == ["3 ids", "two words"]
    assert several.rows[0][0].title == ids
    total = fl.sample().read("transfers").groupby("asset")["total"].sum()
    assert fl.show(total).columns == (("asset", "text"), ("total", "number"))
    assert repr(fl.show(total)) == repr(fl.show(total.to_frame()))
    judgement = fl.reconcile.judge(fl.sample())
    assert fl.show(judgement) is judgement


def test_accounts_addresses_and_profiles_are_called_as_a_store_knows_them() -> None:
    store = fl.sample()
    profiles = store.read("transfers")["profile_id"].map(store.names())
    assert {*profiles} == {"Treasury", "Operations", "Payouts", "Reserve"}
    sides = fl.flows.counterparties(
        store.read("transfers"), instructions=store.read("deposit_instructions")
    )
    accounts = store.read("fiat_accounts").set_index("id")["fiat_network_instructions"]
    shown = fl.show(sides, rows=len(sides), names=store.names())
    assert [name for name, _ in shown.columns][1:3] == ["kind", "counterparty"]
    for row, kind, told in zip(shown.rows, sides["kind"], sides["counterparty"], strict=True):
        if kind == "fiat_account":  # as the account itself says, all but its last digits masked
            last, bank = row[2].text.removeprefix("••••").split(" ", 1)
            assert last in str(accounts[told])
            assert bank == "CUBIX" or bank in str(accounts[told])
        if kind == "instructions":
            (memo,) = store.read("deposit_instructions").query("id == @told")["memo_id"]
            assert row[2].text == f"memo {memo}"
        if kind != "unknown":
            assert (row[2].text != str(told), row[2].title) == (True, str(told))


def test_a_lazy_frame_of_polars_is_shown_by_its_first_rows() -> None:
    lazy = pl.DataFrame({"asset": ["BTC", "USD", "USD"], "n": [1, 2, 3]}).lazy()
    assert "3 rows, 1 of them not shown" in repr(fl.show(lazy, rows=2))


def test_of_two_columns_of_one_name_the_first_says_the_asset() -> None:
    frame = pd.DataFrame({"asset": ["BTC"], "fee": pd.array(["1.23456789"], dtype="decimal")})
    twice = pd.concat([frame, pd.DataFrame({"asset": ["USD"]})], axis=1)
    assert "1.23456789" in repr(fl.show(twice))
    wide = frame.pivot_table(index="fee", columns=["asset"], aggfunc="size")
    assert "BTC" in repr(fl.show(wide))
