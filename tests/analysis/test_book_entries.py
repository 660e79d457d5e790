"""The postings of a few transfers and the charts that name their accounts, written out by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from transfer_examples import DAY, START, Row, records, table, transfer

from fundlab.analysis.books import (
    Accounts,
    Rule,
    correcting,
    entries,
    in_entries,
    postings_of,
    with_accounts,
)
from fundlab.analysis.engines import Workbench
from fundlab.base.errors import AnalysisError, UnmappedWarning

D = Decimal
HOUR = DAY // 24
OUT: Row = {"direction": "DEBIT", "type": "WIRE_WITHDRAWAL"}
BY_ROLE = Accounts([Rule("{role}:{profile}", {})], {n: n for n in ("p1", "p3", "from", "to")})
Posting = tuple[str, int, str, str, Decimal | int, str | None]


def postings(rows: list[Row], **given: Any) -> list[Posting]:
    """Entry, day of January, account, asset, amount (more than 0 a debit), transfer."""
    found = []
    for row in records(entries(table(rows), given.pop("accounts", BY_ROLE), **given)):
        assert (row["debit"] is None) != (row["credit"] is None)
        day = (date.fromisoformat(row["date"]) - date(2025, 12, 31)).days
        amount = row["debit"] or -row["credit"]
        found.append((row["entry"], day, row["account"], row["asset"], amount, row["transfer_id"]))
    return found


def half(id_: str, direction: str, at: int, group: str | None, **given: Any) -> Row:
    kind = f"INTERNAL_TRANSFER_{direction}"
    return transfer(
        id_, direction=direction, type=kind, created_at=at, group_id=group,
        **{"profile_id": "to" if direction == "CREDIT" else "from", "amount": D(5)} | given,
    )  # fmt: skip


POSTINGS: list[tuple[Row, dict[str, int]]] = [
    ({"amount": D(10), "fee": D(1)}, {"Balance": 9, "Fee": 1, "Counterparty": -10}),
    ({"amount": D(20), "fee": D(2), **OUT}, {"Balance": -22, "Fee": 2, "Counterparty": 20}),
    ({"fee": D(0)}, {"Balance": 10, "Counterparty": -10}),
    ({"total": D(12)}, {"Balance": 12, "Counterparty": -10, "Unexplained": -2}),
    ({"total": D(9), **OUT}, {"Balance": -9, "Counterparty": 10, "Unexplained": -1}),
    ({"status": "FAILED"}, {}),
    ({"status": "PENDING", **OUT}, {}),
    ({"type": "INTERNAL_TRANSFER_CREDIT"}, {"Balance": 10, "Internal": -10}),
]


def test_the_postings_of_each_transfer() -> None:
    """A conversion passes through its account, once in each asset."""
    given = {"asset": "USDC", "balance_asset": "USD", "amount": D(30), "fee": D(3)}
    rows = [transfer(str(n), **row) for n, (row, _) in enumerate(POSTINGS)]
    assert postings([*rows, transfer("c", **given), transfer("d", **given, **OUT)]) == [
        *(
            (str(n), 1, f"{role}:P1", "USD", amount, str(n))
            for n, (_, expected) in enumerate(POSTINGS)
            for role, amount in expected.items()
        ),
        ("c", 1, "Balance:P1", "USD", 27, "c"),
        ("c", 1, "Fee:P1", "USD", 3, "c"),
        ("c", 1, "Conversion:P1", "USD", -30, "c"),
        ("c", 1, "Counterparty:P1", "USDC", -30, "c"),
        ("c", 1, "Conversion:P1", "USDC", 30, "c"),
        ("d", 1, "Balance:P1", "USD", -33, "d"),
        ("d", 1, "Fee:P1", "USD", 3, "d"),
        ("d", 1, "Conversion:P1", "USD", 30, "d"),
        ("d", 1, "Counterparty:P1", "USDC", 30, "d"),
        ("d", 1, "Conversion:P1", "USDC", -30, "d"),
    ]


def test_a_pending_debit_is_held_in_the_view_available() -> None:
    rows = [transfer("p", status="PENDING", fee=D(1), **OUT), transfer("c", status="PENDING"),
            transfer("d")]  # fmt: skip
    assert postings(rows, view="available") == [
        ("d", 1, "Balance:P1", "USD", 10, "d"),
        ("d", 1, "Counterparty:P1", "USD", -10, "d"),
        ("p", 1, "Balance:P1", "USD", -11, "p"),
        ("p", 1, "Held:P1", "USD", 11, "p"),
    ]


PAIRS: list[tuple[Row, Row, str]] = [
    # What the debit, made at midnight, and the credit an hour later have else; where it is one day
    ({}, {}, "UTC Berlin"),
    ({}, {"created_at": START + DAY - 1}, "UTC"),
    ({}, {"created_at": START + 23 * HOUR - 1}, "UTC Berlin"),
    ({}, {"created_at": START + DAY}, ""),
    ({"created_at": START - 1}, {}, "Berlin"),
    ({}, {"amount": D("5.01")}, ""),
    ({}, {"asset": "USDC"}, ""),
    ({}, {"group_id": "other"}, ""),
    ({}, {"group_id": None}, ""),
    ({}, {"direction": "DEBIT"}, ""),
    ({}, {"fee": D(1), "total": D(4)}, "UTC Berlin"),
]


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin"])
def test_two_halves_are_one_entry_if_of_one_day_and_amount(tz: str) -> None:
    rows, joined = [], {}
    for n, (out, into, where) in enumerate(PAIRS):
        rows.append(half(f"o{n}", "DEBIT", START, f"g{n}") | out)
        rows.append(half(f"i{n}", "CREDIT", START + HOUR, f"g{n}") | into)
        one = tz.partition("/")[2] in where if "/" in tz else tz in where
        joined |= dict.fromkeys((f"o{n}", f"i{n}"), f"g{n}" if one else None)
    rows += [half("a", "DEBIT", START, ""), half("b", "CREDIT", START, "")]
    # More than two of a group are entries of their own.
    rows += [half(f"{way}{n}", way, START, "g") for n in range(2) for way in ("CREDIT", "DEBIT")]
    found = postings(rows, tz=tz)
    assert {id_: entry for entry, *_, id_ in found} == {
        row["id"]: joined.get(row["id"]) or row["id"] for row in rows
    }
    within = {id_ for _, _, account, *_, id_ in found if account.startswith("Internal:")}
    assert within == {row["id"] for row in rows if not joined.get(row["id"])}


def test_entries_are_in_the_order_of_their_days_and_times() -> None:
    """The halves of one entry stand where the later one is."""
    rows = [
        half("o", "DEBIT", START + HOUR, "g"),
        half("i", "CREDIT", START + 3 * HOUR, "g"),
        transfer("late", created_at=START + DAY),
        transfer("b", created_at=START + 2 * HOUR),
        transfer("a", created_at=START + 2 * HOUR),
        transfer("last", created_at=START + 4 * HOUR),
        transfer("old", created_at=START - DAY),
    ]
    assert [(entry, day, transfer_id) for entry, day, *_, transfer_id in postings(rows)[::2]] == [
        ("old", 0, "old"), ("a", 1, "a"), ("b", 1, "b"), ("g", 1, "o"), ("last", 1, "last"),
        ("late", 2, "late"),
    ]  # fmt: skip
    assert [row[2] for row in postings(rows) if row[0] == "g"] == ["Balance:From", "Balance:To"]


OPENED = pa.table(
    {
        "profile_id": ["p1", "p2", "p3"],
        "asset": ["USD"] * 3,
        "balance": pa.array([D(100), D(0), D(-7)], pa.decimal128(38, 18)),
    }
)
DAYS = [transfer(f"t{n}", amount=D(n + 1), created_at=START + n * DAY) for n in range(4)]


@pytest.mark.parametrize(
    ("opening", "period", "day", "sides", "kept"),
    [
        (OPENED, None, 1, {"P1": 100, "P3": -7}, DAYS),
        (OPENED, "2026-01-02", 2, {"P1": 101, "P3": -7}, DAYS[1:2]),
        (None, ("2026-01-03", "2026-01-05"), 3, {"P1": 3}, DAYS[2:]),
        (None, "2026-01-01", 1, {}, DAYS[:1]),
    ],
)
def test_what_was_there_before_a_period_is_its_first_entry(
    opening: Any, period: Any, day: int, sides: dict[str, int], kept: list[Row]
) -> None:
    found = postings(DAYS, opening=opening, period=period)
    assert found[: 2 * len(sides)] == [
        ("opening", day, f"{role}:{profile}", "USD", sign * amount, None)
        for profile, amount in sides.items()
        for role, sign in (("Balance", 1), ("Opening", -1))
    ]
    assert [row[0] for row in found[2 * len(sides) :: 2]] == [row["id"] for row in kept]


def test_without_transfers_what_was_there_has_no_time() -> None:
    (row, *_) = records(entries(table([]), BY_ROLE, OPENED))
    assert (row["date"], row["at"]) == ("1970-01-01", "1970-01-01T00:00:00+00:00")


def test_a_settled_transfer_has_its_day_of_settlement_and_text() -> None:
    row = transfer("a", ref_id="r1", memo="rent", updated_at=START + DAY)
    rows = table([row]).append_column("settled_at", table([row]).column("updated_at"))
    (balance, _) = records(entries(rows, BY_ROLE, basis="settled"))
    assert [balance[name] for name in ("date", "type", "reference", "memo")] == [
        "2026-01-02", "WIRE_DEPOSIT", "r1", "rent"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "given", "words"),
    [
        ({}, {"view": "gross"}, "view='gross' is not one of"),
        ({"fee": None}, {}, r"transfers: fee is missing \(id a\)"),
        ({"total": None}, {}, r"transfers: total is missing \(id a\)"),
        ({"id": None}, {}, "transfers: id is missing"),
        ({"status": "ODD"}, {}, "transfers: status 'ODD'"),
        ({"updated_at": None}, {"basis": "settled"}, r"transfers: settled_at is missing \(id a\)"),
    ],
)
def test_what_cannot_be_booked_is_refused(change: Row, given: Any, words: str) -> None:
    rows = table([transfer("a") | change])
    rows = rows.append_column("settled_at", rows.column("updated_at"))
    with pytest.raises(AnalysisError, match=words):
        entries(rows, BY_ROLE, **given)


# ------------------------------------------------------------------------------------------ charts

FACTS = {
    "role": "fee", "type": "CRYPTO_WITHDRAWAL", "profile_id": "Treasury-7", "asset": "ETH",
    "direction": "DEBIT", "crypto_network": "SOLANA",
}  # fmt: skip
METADATA = '{"department": "ops-eu", "cost": 42}'


@pytest.mark.parametrize(
    ("patterns", "wanted", "metadata", "fits"),
    [
        ({}, {}, None, True),
        ({"role": "fee", "asset": "E*"}, {}, None, True),
        ({"role": "fee", "asset": "USD"}, {}, None, False),
        ({"role": "held"}, {}, None, False),
        ({"type": "CRYPTO_*"}, {}, None, True),
        ({"type": "crypto_*"}, {}, None, False),
        ({"profile": "Treasury-*"}, {}, None, True),
        ({"profile": "Main *"}, {}, None, True),
        ({"profile": "other"}, {}, None, False),
        ({"direction": "CREDIT"}, {}, None, False),
        ({"network": "SOL*"}, {}, None, True),
        ({"network": "STELLAR"}, {}, None, False),
        ({}, {"department": "ops-*"}, METADATA, True),
        ({}, {"department": "ops-*", "cost": "42"}, METADATA, True),
        ({}, {"department": "ops-*", "cost": "4"}, METADATA, False),
        ({}, {"branch": "*"}, METADATA, False),
        ({}, {"department": "*"}, None, False),
        ({"role": "held"}, {"department": "*"}, METADATA, False),
    ],
)
def test_a_rule_fits_where_every_pattern_does(
    patterns: dict[str, str], wanted: dict[str, str], metadata: str | None, fits: bool
) -> None:
    chart = Accounts([Rule("Mine:{profile}:{network}", patterns, wanted)], {"treasury-7": "Main a"})
    assert chart.account_of(FACTS, metadata) == ("Mine:Main-a:SOLANA" if fits else None)


def test_the_first_rule_that_fits_names_the_account() -> None:
    rules = [Rule("First", {"role": "held"}), Rule("Second:{profile}", {}), Rule("Third", {})]
    assert Accounts(rules).account_of(FACTS, None) == "Second:Profile-treasury-7"


@pytest.mark.parametrize(
    ("text", "component"),
    [
        ("main office", "Main-office"), ("WIRE_DEPOSIT", "Wire-Deposit"), ("USD", "USD"),
        ("  (ops) 7 ", "Ops-7"), ("éa", "A"), ("", "None"), ("__", "None"), ("a", "A"),
        ("A-B", "A-B"), ("p1", "P1"),
    ],
)  # fmt: skip
def test_a_part_of_an_accounts_name_has_what_every_ledger_takes(text: str, component: str) -> None:
    chart = Accounts([Rule("{asset}", {})])
    assert chart.account_of(FACTS | {"asset": text}, None) == component


def test_profiles_whose_names_would_stand_alike_do_with_their_id() -> None:
    names = {"one": "Main office", "two": "main-office", "three": "Ops"}
    chart = Accounts([Rule("{profile}", {})], names)
    assert [chart.account_of(FACTS | {"profile_id": name}, None) for name in
            ("one", "TWO", "three", "Four")] == [
        "Main-office-one", "Main-office-two", "Ops", "Profile-four"
    ]  # fmt: skip


def test_a_chart_in_a_file_has_its_rules_and_the_names_of_profiles(tmp_path: Path) -> None:
    path = tmp_path / "chart.toml"
    path.write_text(
        '[[account]]\nrole = "f*"\naccount = "Fees:{profile}:{type}"\nmetadata = {cost = "4*"}\n'
        '[[account]]\naccount = "Rest"\n[profiles]\nTREASURY-7 = "Main"\n',
        encoding="utf-8",
    )
    chart = Accounts.read(path, {"treasury-7": "Other", "two": "Second"})
    assert chart.names == {"treasury-7": "Main", "two": "Second"}
    assert [*chart.rules] == [
        Rule("Fees:{profile}:{type}", {"role": "f*"}, {"cost": "4*"}), Rule("Rest", {}, {})
    ]  # fmt: skip
    assert chart.account_of(FACTS, METADATA) == "Fees:Main:Crypto-Withdrawal"
    assert chart.account_of(FACTS, None) == "Rest"
    assert Accounts.read(path).names == {"treasury-7": "Main"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "chart.toml cannot be read: No such file or directory"),
        ("[[account", "chart.toml is not valid TOML"),
        ("x = 1\ny = 2", "chart.toml has x, y; give"),
        ('z = 1\n[[account]]\naccount = "A"', "chart.toml has z; give"),
        ("", r"chart.toml has no \[\[account\]\]; give"),
        ('account = "A"', r"chart.toml has no \[\[account\]\]; give"),
        ('profiles = 3\n[[account]]\naccount = "A"', r"\[profiles\] must hold id = \"name\""),
        ('[[account]]\naccount = "A"\n[profiles]\na = 3', r"\[profiles\] must hold id = \"name\""),
        ('[[account]]\naccount = "A"\n[[account]]\ncolour = "red"',
         r"chart.toml: colour of \[\[account\]\] 2 is not a pattern of role, type, profile"),
        ('[[account]]\naccount = "A"\nasset = 3', r"asset of \[\[account\]\] 1 is not a pattern"),
        ('[[account]]\naccount = "A"\nmetadata = 3', r"metadata of \[\[account\]\] 1 is not a pat"),
        ('[[account]]\naccount = "A"\nmetadata = {a = 3}', r"metadata of \[\[account\]\] 1 is not"),
        ('[[account]]\naccount = "A"\nrole = "feee"',
         r"role 'feee' of \[\[account\]\] 1 is not one of balance, counterparty, fee"),
        ('[[account]]\nrole = "fee"', r"chart.toml: \[\[account\]\] 1 has no text under 'account'"),
        ('[[account]]\naccount = ""', r"\[\[account\]\] 1 has no text under 'account'"),
        ("[[account]]\naccount = 3", r"\[\[account\]\] 1 has no text under 'account'"),
        ("account = [3]", r"\[\[account\]\] 1 has no text under 'account'"),
        ('[[account]]\naccount = "A:{bank}"', r"account 'A:{bank}' of \[\[account\]\] 1 names "
         "something else than {type}, {profile}, {asset}, {direction}, {network}: 'bank'"),
        ('[[account]]\naccount = "A:{role}"', "names something else than {type}"),
        ('[[account]]\naccount = "A:{0}"', "names something else than {type}"),
        ('[[account]]\naccount = "A:{type"', "names something else than {type}"),
    ],
)  # fmt: skip
def test_what_in_a_chart_cannot_be_used_is_named(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "chart.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(AnalysisError, match=words):
        Accounts.read(path)
    with pytest.raises(
        AnalysisError, match=r"^accounts=\{'A': 'B'\}: give the path of a TOML file$"
    ):
        entries(table([]), {"A": "B"})  # type: ignore[arg-type]


@pytest.mark.parametrize(("kinds", "more"), [(5, False), (6, True)])
def test_postings_that_no_rule_fits_are_counted_and_named(kinds: int, more: bool) -> None:
    rows = [transfer(f"{n}{copy}", asset=f"A{n}") for n in range(kinds) for copy in "ab"]
    chart = Accounts([Rule("Mine", {"role": "balance"})])
    with pytest.warns(UnmappedWarning) as said:
        found = records(entries(table(rows), chart))
    text = str(said[0].message)
    assert said[0].filename == __file__
    assert text.startswith(f"{2 * kinds} postings of {kinds} kinds fit no rule of the chart and go")
    assert text.count("role=counterparty type=WIRE_DEPOSIT profile_id=p1 asset=A") == min(kinds, 5)
    assert text.endswith("; and more") is more
    assert {row["account"] for row in found} == {"Mine", "Equity:Unmapped"}


def test_metadata_of_transfers_is_looked_at_where_a_rule_asks() -> None:
    rows = table([transfer("a"), transfer("b")])
    rows = rows.append_column("metadata", pa.array([METADATA, None], pa.string()))
    chart = Accounts([Rule("Mine", {}, {"department": "ops-*"}), Rule("Rest", {})])
    found = records(entries(rows, chart))
    assert {(row["entry"], row["account"]) for row in found} == {("a", "Mine"), ("b", "Rest")}


def test_what_changed_since_books_were_closed_is_booked_as_differences() -> None:
    """Of one that grew, one that came, one that is gone; of what stayed, and of a text, nothing."""
    kept, grown = transfer("kept"), transfer("grown", ref_id="r", memo="old")
    before = [kept, grown, transfer("gone", amount=D(3))]
    after = [kept | {"memo": "new"}, grown | {"amount": D(12), "total": D(11), "fee": D(1)},
             transfer("came", created_at=START - DAY, amount=D(4), **OUT)]  # fmt: skip
    now = table(after)
    with Workbench(now) as bench:
        sides = [
            with_accounts(bench, postings_of(bench, rows, "ledger", "created"), BY_ROLE)
            for rows in (now, table(before))
        ]
        moved = correcting(*sides, START + 2 * DAY)
        found = bench.collect(in_entries(bench, moved, "UTC")).to_pylist()
    names = ("entry", "account", "debit", "credit", "reference", "memo")
    assert sorted(tuple(str(row[name] or "").rstrip("0").rstrip(".") for name in names)
                  for row in found) == [
        ("came", "Balance:P1", "", "4", "", ""),
        ("came", "Counterparty:P1", "4", "", "", ""),
        ("gone", "Balance:P1", "", "3", "", ""),
        ("gone", "Counterparty:P1", "3", "", "", ""),
        ("grown", "Balance:P1", "1", "", "r", "old"),
        ("grown", "Counterparty:P1", "", "2", "r", "old"),
        ("grown", "Fee:P1", "1", "", "r", "old"),
    ]  # fmt: skip
    assert {row["date"] for row in found} == {date(2026, 1, 3)}
