"""Books that other programs accept: Beancount and hledger judge what is written here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import closed_months as months
import pandas as pd
import pyarrow as pa
import pytest
from amounts import exactly
from beancount import loader
from beancount.core.data import Transaction
from fake_service import FakeService, transfer
from transfer_examples import DAY, START, Row, at_by_hand, exact_sum, make_rows, table

import fundlab as fl
from fundlab.base.errors import AnalysisError, InvalidRequest, PermissionDenied
from fundlab.exports.ledgers import WRITERS, Books
from fundlab.reports.books import books_of, write_books
from fundlab.settings.labels import OF_THE_SAMPLE

needs_hledger = pytest.mark.skipif(
    shutil.which("hledger") is None, reason="hledger is a program of the system: not installed"
)


@exactly()
def judged(path: Path) -> dict[tuple[str, str], Decimal]:
    """The balances that Beancount computes of ``path``, which it must find nothing wrong with."""
    entries, errors, _ = loader.load_file(str(path))
    assert not errors, errors[:3]
    sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for entry in entries:
        if isinstance(entry, Transaction):
            for posting in entry.postings:
                sums[posting.account, posting.units.currency] += posting.units.number
    return {key: amount for key, amount in sums.items() if amount}


def funds(sums: dict[tuple[str, str], Decimal]) -> dict[tuple[str, str], Decimal]:
    return {key: amount for key, amount in sums.items() if key[0].startswith("Assets:Funding:")}


def account_of(profile: str) -> str:
    """By its name, which the sample's have."""
    return f"Assets:Funding:{OF_THE_SAMPLE.get(profile, f'Profile-{profile}')}"


def balances(store: fl.Store, when: pd.Timestamp) -> dict[tuple[str, str], Decimal]:
    rows = fl.balances.at(store.read("transfers", settled=True), when, basis="settled")
    return {
        (account_of(row.profile_id), row.asset): row.balance
        for row in rows.itertuples()
        if row.balance
    }


@pytest.mark.seconds
@pytest.mark.parametrize("period", ["2026-10", "2025-11", "2026-Q3"])
def test_beancount_accepts_the_books_of_the_sample_and_their_40_assertions(
    tmp_path: Path, period: str
) -> None:
    store, path = fl.sample(), tmp_path / "books.beancount"
    books = write_books(store, period, path, "beancount")
    assert len(books.assertions) == 40
    end = pd.Timestamp(books.last, tz="UTC") + pd.Timedelta(days=1, nanoseconds=-1)
    assert funds(judged(path)) == balances(store, end)
    # The judge is awake: a cent more in one posting is refused, and one in two by an assertion.
    text = path.read_text(encoding="utf-8")
    line = next(one for one in text.splitlines() if one.startswith("  Assets") and " USD" in one)
    for changed in (
        f"{line}0 USD",
        f"{line}\n  {line.split()[0]}  0.01 USD\n  Equity:Conversions  -0.01 USD",
    ):
        other = changed if "\n" in changed else line.replace(line.split()[1], line.split()[1] + "9")
        path.write_text(text.replace(line, other, 1), encoding="utf-8")
        assert loader.load_file(str(path))[1]


@pytest.mark.parametrize("period", ["2026", "2026-11"])
def test_a_period_that_is_not_over_has_no_balance_at_its_end(tmp_path: Path, period: str) -> None:
    """The sample's service was last asked on 2 November, at 9."""
    store, path = fl.sample(), tmp_path / "books.beancount"
    books = write_books(store, period, path, "beancount")
    assert books.assertions == []
    assert "not over: known until 2026-11-02 09:00 UTC" in books.title
    assert funds(judged(path)) == balances(store, pd.Timestamp("2027-01-01", tz="UTC"))


def test_an_empty_zone_is_none() -> None:
    with pytest.raises(AnalysisError, match="tz='' is not a valid time zone"):
        books_of(fl.sample(), "2026-10", tz="")


def test_a_period_that_has_not_begun_has_no_books() -> None:
    with pytest.raises(AnalysisError, match=r"'2027-01' has not begun: .* ends at 2026-11-02T09"):
        books_of(fl.sample(), "2027-01")


def test_the_books_of_a_store_that_begins_late_begin_with_it(tmp_path: Path) -> None:
    """400 came in May, 600 in July and 77 from August on; the store begins on 1 August."""
    service = FakeService(honours={"created_at", "updated_at", "ids"}, complete=True)
    for n, (day, total) in enumerate(
        {"05-01": "400", "07-01": "600", "08-05": "7", "09-05": "70"}.items()
    ):
        made = dict.fromkeys(("created_at", "updated_at"), f"2026-{day}T00:00:00Z")
        service.transfers.append(transfer(n, amount=total, total=total, **made))
    now = [pd.Timestamp("2026-08-06", tz="UTC").value]
    store, path = fl.Store(tmp_path / "store", clock=lambda: now[0]), tmp_path / "books.beancount"
    last = service.transfers.pop()
    tables = ["transfers", "balances"]
    store.sync(service, tables, since="2026-08-01")  # type: ignore[arg-type]
    service.transfers.append(last)
    now[0] = pd.Timestamp("2026-11-02", tz="UTC").value
    store.sync(service, tables)  # type: ignore[arg-type]
    with pytest.raises(
        AnalysisError, match=r"'2026-06' is over before the store begins, at 2026-08"
    ):
        write_books(store, "2026-06", path, "beancount")
    assert not path.exists()
    books = write_books(store, "2026-Q3", path, "beancount")
    assert "The store begins at 2026-08-01 00:00 UTC: what moved from 2026-07-01" in books.title
    assert books.title in path.read_text(encoding="utf-8")
    assert [amount for *_, amount in books.assertions] == [Decimal(1077)]
    assert next(iter(judged(path).values())) == Decimal(1077)
    assert [
        (day, {row["debit"] or row["credit"] for row in rows}) for day, rows in by_day(books)
    ] == [
        (date(2026, 8, 1), {Decimal(1000)}),
        (date(2026, 8, 5), {Decimal(7)}),
        (date(2026, 9, 5), {Decimal(70)}),
    ]
    assert "The store begins" not in books_of(store, "2026-09").title
    drawn = fl.audit.sample("2026-Q3", store, size=1)
    assert "what moved from 2026-07-01 00:00 UTC until then is not" in drawn.facts["Missing"]
    assert "Missing" not in fl.audit.sample("2026-08", store, size=1).facts


def by_day(books: Books) -> list[tuple[date, list[Row]]]:
    return [(rows[0]["date"], rows) for _, rows in books.groups()]


def test_a_balance_is_asserted_where_it_was_reported_after_the_end(tmp_path: Path) -> None:
    """One that the service refuses since the 20th says nothing of the 31st."""

    def refuse(operation: str, query: dict[str, Any]) -> None:
        if operation == "get_profile_balance" and query["profile_id"] == "b":
            raise PermissionDenied(403, "Forbidden")

    service, now = FakeService(), [0]
    service.transfers += [
        transfer(n, profile_id=profile, created_at="2026-10-05T00:00:00Z")
        for n, profile in enumerate("ab")
    ]
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    for at in ("2026-10-20", "2026-11-02"):
        now[0] = pd.Timestamp(at, tz="UTC").value
        store.sync(service, ["transfers", "events", "balances"])  # type: ignore[arg-type]
        service.hook = refuse
    books = books_of(store, "2026-10")
    assert [account for account, *_ in books.assertions] == ["Assets:Funding:Profile-a"]


def test_a_closed_period_has_its_days_in_the_zone_it_was_closed_in(tmp_path: Path) -> None:
    month = months.made(tmp_path / "store", 1)
    month.sync(months.CLOSED_AT)
    month.store.close("2026-02", with_breaks="dates before creation")
    closed = books_of(month.store, "2026-02")
    assert books_of(month.store, "2026-02", tz="UTC").title == closed.title
    with pytest.raises(InvalidRequest, match="first closed with days in UTC; leave tz out"):
        books_of(month.store, "2026-02", tz="Europe/Berlin")


def test_the_books_are_those_of_the_first_close_though_a_later_one_ends_earlier(
    tmp_path: Path,
) -> None:
    store = months.made(tmp_path / "store", 5).store
    first = store.close("2026-02", with_breaks="known")
    written = books_of(store, "2026-02")
    store.reopen("2026-02", by="Ana", reason="the wrong zone")
    store.close("2026-02", tz="Asia/Tokyo", with_breaks="known")
    again = books_of(store, "2026-02")
    assert f"as closed at {first.record.at}" in again.title
    assert again.entries.equals(written.entries)


@pytest.mark.parametrize(
    ("wrong", "september", "october"),
    [
        # until 1 October, 04:00 UTC: what is booked there is not booked again
        ("America/New_York", {"a": 100, "b": 200}, {"c": 5}),
        # until 30 September, 15:00 UTC: what settled between the two is booked after all
        ("Asia/Tokyo", {}, {"a": 100, "b": 200, "c": 5}),
    ],
)
def test_books_go_on_from_those_of_a_close_in_another_zone(
    tmp_path: Path, wrong: str, september: dict[str, int], october: dict[str, int]
) -> None:
    """September is closed in a wrong zone, reopened and closed in the right one."""
    service, now = FakeService(), [0]
    for name, at, amount in (
        ("a", "2026-09-30T20:00", 100), ("b", "2026-10-01T02:00", 200), ("c", "2026-10-09T00:00", 5)
    ):  # fmt: skip
        times = dict.fromkeys(("created_at", "updated_at"), f"{at}:00Z")
        amounts = dict.fromkeys(("amount", "total"), f"{amount}")
        service.transfers.append(transfer(0, id=name, fee="0", **amounts, **times))
    now[0] = pd.Timestamp("2026-11-02", tz="UTC").value
    store = fl.Store(tmp_path / "store", clock=lambda: now[0])
    store.sync(service, ["transfers", "events", "balances"])  # type: ignore[arg-type]
    store.close("2026-09", tz=wrong)
    store.reopen("2026-09", by="Ana", reason="the wrong zone")
    store.close("2026-09", tz="UTC")
    store.close("2026-10")
    with pytest.raises(InvalidRequest, match=f"first closed with days in {wrong}; leave tz out"):
        books_of(store, "2026-09", tz="UTC")
    for period, there in (("2026-09", september), ("2026-10", october)):
        path = tmp_path / f"{period}.beancount"
        books = write_books(store, period, path, "beancount")
        rows = books.entries.to_pylist()
        assert {row["entry"]: int(row["debit"]) for row in rows if row["debit"]} == there
        assert {*books.entries.column("date").to_pylist()} <= {
            day.date() for day in pd.date_range(books.first, books.last)
        }
    both = tmp_path / "both.beancount"
    both.write_text('include "2026-09.beancount"\ninclude "2026-10.beancount"\n', encoding="utf-8")
    assert [*judged(both).values()].count(Decimal(305)) == 1


@pytest.mark.seconds
@needs_hledger
def test_hledger_accepts_them_too(tmp_path: Path) -> None:
    path = tmp_path / "books.journal"
    write_books(fl.sample(), "2026-10", path, "hledger")
    done = subprocess.run(["hledger", "-f", str(path), "check"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(" = ", " = 1", 1), encoding="utf-8")
    assert subprocess.run(
        ["hledger", "-f", str(path), "check"], capture_output=True, check=False
    ).returncode


def change(month: months.Month, at: int) -> None:
    """The service changes its mind about two rows, and says when."""
    before = {row["id"]: dict(row) for row in month.service.transfers}
    turns = [months.late, months.settles, months.amended, months.fails_after_all]
    for turn in month.random.sample(turns, 2):
        turn(month)
    for row in month.service.transfers:
        if row["id"] in before and row != before[row["id"]]:
            row["updated_at"] = months.text(at)


@pytest.mark.parametrize(
    ("last", "seed"),
    [
        pytest.param("2026-05", 1, marks=pytest.mark.thorough),
        pytest.param("2027-02", 1, marks=pytest.mark.campaign),
        pytest.param("2027-02", 2, marks=pytest.mark.campaign),
    ],
)
def test_closed_months_are_one_ledger_and_no_book_ever_changes(
    tmp_path: Path, last: str, seed: int
) -> None:
    month = months.made(tmp_path / "store", seed)
    store, written, ledger = month.store, {}, tmp_path / "books" / "all.beancount"
    corrections = 0
    for period in pd.period_range("2026-03", last, freq="M"):
        end = period.end_time.tz_localize("UTC").value
        for _ in range(4):
            created = end - month.random.randrange(1, 25) * months.DAY
            done = month.random.random() < 0.7
            month.add(created, "COMPLETED" if done else "PENDING", created + months.DAY // 24)
        change(month, end + months.DAY)
        month.sync(end + 2 * months.DAY)
        for moved in store.restatements()["period"].unique() if written else ():
            store.close(moved, by="Ana", restate="it moved", with_breaks="dates before creation")
        store.close(str(period), by="Ana", with_breaks="dates before creation")
        path = ledger.with_name(f"{period}.beancount")
        books = write_books(store, str(period), path, "beancount")
        first = books.entries.column("date").to_pylist().count(books.first)
        corrections += first if written else 0
        written[path.name] = path.read_bytes()
        write_books(store, str(period), path.with_suffix(".hledger"), "hledger")
    assert corrections
    ledger.write_text("".join(f'include "{name}"\n' for name in written), encoding="utf-8")
    assert funds(judged(ledger)) == balances(store, period.end_time.tz_localize("UTC"))
    if shutil.which("hledger") is not None:
        ledger.with_suffix(".hledger").write_text(
            "".join(f"include {Path(name).stem}.hledger\n" for name in written), encoding="utf-8"
        )
        assert accepts("hledger", ledger.with_suffix(".hledger"))
    for name, content in [*written.items()][::3]:
        write_books(store, name.removesuffix(".beancount"), tmp_path / name, "beancount")
        assert (tmp_path / name).read_bytes() == content, name


def written(rows: list[Row], folder: Path, view: str = "ledger") -> dict[str, Path]:
    """The books of ``rows`` for both judges. What must be there in the end is summed by hand, and
    opened a cent above what the transfers bring."""
    opening = {key: Decimal("0.01") for key in at_by_hand(rows, START + 400 * DAY, view)}
    opened = pa.table(
        {
            "profile_id": [profile for profile, _ in opening],
            "asset": [asset for _, asset in opening],
            "balance": pa.array([*opening.values()], pa.decimal128(38, 18)),
        }
    )
    entries = fl.books.entries(table(rows), opening=opened, view=view)
    asserted = [
        (account_of(profile), asset, exact_sum([amount, opening[profile, asset]]))
        for (profile, asset), amount in at_by_hand(rows, START + 400 * DAY, view).items()
    ]
    days = entries.column("date").to_pylist() or [date(2026, 1, 1)]
    books = Books("by hand", min(days), max(days), entries, asserted)
    paths = {}
    for name in ("beancount", "hledger"):
        paths[name] = folder / f"books.{name}"
        WRITERS[name](books, paths[name])
    return paths


def accepts(name: str, path: Path) -> bool:
    if name == "beancount":
        return not loader.load_file(str(path))[1]
    asked = ["hledger", "-f", str(path), "check"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def mutated(text: str, random: Random) -> Iterator[str]:
    """Another digit in an amount, funds booked elsewhere, an entry that is gone."""
    blocks = text.split("\n\n")
    places = [n for n, block in enumerate(blocks) if "  Assets:Funding:" in block
              and " * " in block and " = " not in block]  # fmt: skip
    entry = random.choice(places)
    head, *lines = blocks[entry].split("\n")
    posting = random.choice([n for n, line in enumerate(lines) if re.search(r"\d \w+$", line)])
    account, amount, asset = lines[posting].split()
    at = random.choice([n for n, letter in enumerate(amount) if letter.isdigit()])
    other = amount[:at] + str((int(amount[at]) + random.randrange(1, 10)) % 10) + amount[at + 1 :]
    changed = [*lines[:posting], f"    {account}  {other} {asset}", *lines[posting + 1 :]]
    elsewhere = blocks[entry].replace("  Assets:Funding:", "  Assets:Elsewhere:", 1)
    for block in (["\n".join([head, *changed])], [elsewhere], []):
        yield "\n\n".join([*blocks[:entry], *block, *blocks[entry + 1 :]])


@needs_hledger
@pytest.mark.parametrize(
    "count",
    [pytest.param(3, marks=pytest.mark.thorough), pytest.param(500, marks=pytest.mark.campaign)],
)
def test_both_judges_accept_seeded_histories_and_refuse_what_is_changed_in_them(
    tmp_path: Path, count: int, seed: int, figure: Callable[[str], None]
) -> None:
    refused = 0
    for number in range(count):
        random = Random(f"{seed} {number}")
        rows = make_rows(random.randrange(20, 80), random.randrange(10**9), random.randrange(2, 9))
        paths = written(rows, tmp_path, random.choice(["ledger", "available"]))
        for name, path in paths.items():
            assert accepts(name, path), f"history {number}"
            changed = mutated(path.read_text(encoding="utf-8"), random)
            for text in changed if number % 10 == 0 else ():
                path.write_text(text, encoding="utf-8")
                assert not accepts(name, path), f"history {number}: {text}"
                refused += 1
    figure(f"{count} histories accepted by Beancount and hledger, {refused} changed ones refused")


ROW = make_rows(60, 5, 3)[0] | {
    "type": "CRYPTO_WITHDRAWAL", "direction": "DEBIT", "asset": "ETH", "profile_id": "treasury-7",
    "crypto_network": "SOLANA", "amount": Decimal(5), "fee": Decimal(1), "total": Decimal(6),
    "status": "COMPLETED", "group_id": None, "balance_asset": None,
}  # fmt: skip
METADATA = '{"department": "ops-eu", "cost": 42}'


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("pattern", "fits", "metadata"),
    [
        ('role = "fee"', True, None),
        ('role = "held"', False, None),
        ('type = "CRYPTO_*"', True, None),
        ('type = "WIRE_*"', False, None),
        ('profile = "treasury-*"', True, None),
        ('profile = "Main *"', True, None),
        ('profile = "other"', False, None),
        ('asset = "E*"', True, None),
        ('asset = "USD"', False, None),
        ('direction = "DEBIT"', True, None),
        ('direction = "CREDIT"', False, None),
        ('network = "SOL*"', True, None),
        ('network = "STELLAR"', False, None),
        ('metadata = {department = "ops-*"}', True, METADATA),
        ('metadata = {department = "ops-*", cost = "42"}', True, METADATA),
        ('metadata = {department = "sales"}', False, METADATA),
        ('metadata = {branch = "*"}', False, METADATA),
        ('metadata = {department = "*"}', False, None),
    ],
)
def test_a_chart_goes_by_each_of_its_keys(
    tmp_path: Path, pattern: str, fits: bool, metadata: str | None
) -> None:
    chart = tmp_path / "chart.toml"
    rest = '[[account]]\naccount = "Equity:Rest"\n[profiles]\ntreasury-7 = "Main office"\n'
    chart.write_text(f'[[account]]\naccount = "Assets:Mine"\n{pattern}\n{rest}', encoding="utf-8")
    rows = table([ROW]).append_column("metadata", pa.array([metadata], pa.string()))
    found = fl.books.entries(rows, accounts=chart).column("account").to_pylist()
    assert ("Assets:Mine" in found) is fits


@pytest.mark.thorough
def test_profiles_have_their_names_as_in_the_books_of_a_month() -> None:
    store = fl.sample()
    booked = books_of(store, "2026-10", alone=True).entries.column("account").to_pylist()
    rows = store.read("transfers", settled=True)
    found = fl.books.entries(rows, period="2026-10", basis="settled")
    assert {*found["account"]} == {*booked}
    funds = {name for name in booked if name.startswith("Assets:Funding")}
    assert funds == {f"Assets:Funding:{name}" for name in
                     ("Treasury", "Operations", "Payouts", "Reserve")}  # fmt: skip


def test_each_kind_of_posting_that_no_rule_fits_is_named(tmp_path: Path) -> None:
    chart = tmp_path / "chart.toml"
    chart.write_text('[[account]]\nrole = "fee"\naccount = "Expenses:Fees"\n', encoding="utf-8")
    with pytest.warns(fl.errors.UnmappedWarning) as said:
        fl.books.entries(table([ROW]), accounts=chart)
    text = str(said[0].message)
    assert text.startswith("2 postings of 2 kinds fit no rule of the chart and go to ")
    for role in ("balance", "counterparty"):
        assert (
            f"role={role} type=CRYPTO_WITHDRAWAL profile_id=treasury-7 asset=ETH direction=DEBIT "
            "crypto_network=SOLANA" in text
        )


def test_amounts_of_an_entry_have_as_many_decimals_each(tmp_path: Path) -> None:
    """Beancount would take half of a tenth for nothing beside an amount with one decimal."""
    fee = Decimal("0.04")
    row = ROW | {"amount": Decimal("0.5"), "fee": fee, "total": Decimal("0.54"), "asset": "USD"}
    path = written([row], tmp_path)["beancount"]
    text = path.read_text(encoding="utf-8")
    assert "0.50 USD" in text
    path.write_text(text.replace("  0.04 USD", "  0.03 USD"), encoding="utf-8")
    assert not accepts("beancount", path)


@pytest.mark.seconds
def test_the_command_takes_the_format_from_the_suffix_or_prints(
    tmp_path: Path, fundlab: Any
) -> None:
    asked = ("books", "2026-10", "--store", fl.sample().path)
    write_books(fl.sample(), "2026-10", tmp_path / "expected", "beancount")
    expected = (tmp_path / "expected").read_text("utf-8")
    assert fundlab(*asked)[:2] == (0, expected)
    said = json.loads(fundlab(*asked, "--json")[1])
    assert (said["text"], "file" in said) == (expected, False)
    status, out, _ = fundlab(*asked, "--out", tmp_path / "october.beancount")
    assert (status, " entries and 40 balance assertions in " in out) == (0, True)
    assert (tmp_path / "october.beancount").read_text("utf-8") == expected
    status, _, err = fundlab(*asked, "--out", tmp_path / "october.txt")
    assert (status, "give --format, too" in err) == (2, True)
    status, out, _ = fundlab(*asked, "--out", tmp_path / "october.csv")  # which holds postings only
    assert (status, out.endswith(f" entries in {tmp_path / 'october.csv'}\n")) == (0, True)
    assert json.loads(fundlab(*asked, "--format", "csv", "--json")[1])["assertions"] == 0
    assert fundlab(*asked, "--out", tmp_path / "october.journal")[0] == 0
    assert (tmp_path / "october.journal").read_text("utf-8").startswith(("account", ";", "2026"))
