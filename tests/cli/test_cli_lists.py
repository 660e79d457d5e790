"""``fundlab profiles`` and the other lists: complete ids, names, from the service or a store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import pytest
from amounts import exactly

import fundlab as fl
from fundlab import sandbox
from fundlab.base.errors import InvalidRequest
from fundlab.display import show
from fundlab.settings.labels import name_of

LISTS = ("profiles", "accounts", "balances", "addresses", "transfers")


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=40) as serving:
        yield serving


@pytest.fixture
def store(service: sandbox.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in service.announcement().items():
        if name not in ("control_url", "profile_ids"):
            monkeypatch.setenv(f"FUNDLAB_{name.upper()}", str(value))
    with service.connect() as client:
        fl.Store(tmp_path / "books").sync(client)
    return tmp_path / "books"


@pytest.fixture
def named(service: sandbox.Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "fundlab").mkdir()
    config = tmp_path / "fundlab" / "config.toml"
    config.write_text(f'[names]\n"{service.profile_ids[0].upper()}" = "Treasury USD"\n')
    config.chmod(0o600)
    return service.profile_ids[0]


@pytest.mark.parametrize("what", LISTS)
def test_the_service_and_its_store_list_the_same(fundlab: Any, store: Path, what: str) -> None:
    status, out, err = fundlab(what, "--json", "--limit", 10)
    assert (status, err) == (0, "")
    asked = json.loads(out)
    kept = json.loads(fundlab(what, "--json", "--limit", 10, "--store", store)[1])
    for row in (*asked[what], *kept[what]):
        row.pop("observed_at", None)
    assert asked[what]
    assert sorted(asked[what], key=str) == sorted(kept[what], key=str)
    assert asked["more"] == kept["more"] == (what in ("transfers", "balances", "addresses"))


def test_json_has_times_to_the_nanosecond(fundlab: Any, store: Path) -> None:
    rows = fl.Store(store).read("balances")  # observed by this machine's clock
    listed = json.loads(fundlab("balances", "--json", "--store", store)[1])["balances"]
    assert {row["observed_at"] for row in listed} == {at.isoformat() for at in rows["observed_at"]}
    assert any(re.search(r"\.\d{9}\+00:00$", row["observed_at"]) for row in listed)


def test_lists_are_narrowed_alike_at_the_service_and_in_a_store(
    fundlab: Any, store: Path, service: sandbox.Sandbox, named: str
) -> None:
    rows = fl.Store(store).read("transfers")
    some = rows[rows["profile_id"] == named].iloc[0]
    asked = ("--of", "Treasury USD", "--type", some["type"].lower(), "--status",
             some["status"].lower(), "--since", f"{some['created_at']:%Y-%m-%d}")  # fmt: skip
    of_it = rows[(rows["profile_id"] == named) & (rows["type"] == some["type"])
                 & (rows["status"] == some["status"])
                 & (rows["created_at"] >= some["created_at"].normalize())]  # fmt: skip
    for place in ((), ("--store", store)):
        found = json.loads(fundlab("transfers", *asked, "--json", *place)[1])["transfers"]
        assert {row["id"] for row in found} == {*of_it["id"]}
        kept = json.loads(fundlab("balances", "--of", named.upper(), "--json", *place)[1])
        assert {row["profile_id"] for row in kept["balances"]} == {named}
    month = f"{some['created_at']:%Y-%m}"
    after = f"{some['created_at'] + pd.offsets.MonthBegin():%Y-%m}"
    of_month = rows[rows["created_at"].dt.strftime("%Y-%m") == month]
    assert 0 < len(of_month) < len(rows)
    for place in ((), ("--store", store)):
        asked = ("--since", month, "--until", after, "--limit", "9999", "--json")
        found = json.loads(fundlab("transfers", *asked, *place)[1])["transfers"]
        assert {row["id"] for row in found} == {*of_month["id"]}
    for wrong, words in (
        (("--of", "Treasury"), "Treasury (did you mean Treasury USD?) is neither an id nor a name"),
        (("--of", ""), "is neither an id nor a name known here"),
        (("--of", "Mars"), "Mars is neither an id nor a name known here; 'fundlab profiles' lists"),
        (("--type", "WIRE"), "WIRE is not a type; there are BANK_DEPOSIT, BANK_WITHDRAWAL, "),
        (
            ("--since", "1.10.2026"),
            "since='1.10.2026' is not a date: write '2026-10-01', or a time",
        ),
    ):
        status, _, err = fundlab("transfers", *wrong)
        assert (status, words in " ".join(err.split())) == (2, True), err


@pytest.mark.parametrize(
    ("since", "until", "empty"),
    [
        ("2026-10", "2026-10", True),
        ("2026-10", "2026-10-01", True),
        ("2026-10-31", "2026-10-30T23:59:59Z", True),
        ("2026-10-01T00:00:00Z", "2026-10-01T00:00:00.000000001Z", False),
    ],
)
def test_a_range_that_holds_no_moment_is_refused_everywhere_in_the_same_words(
    fundlab: Any, store: Path, service: sandbox.Sandbox, tmp_path: Path, since: str, until: str,
    empty: bool,
) -> None:  # fmt: skip
    words = (
        f"until={until} is not after since={since}: a month or day stands for its first moment, "
        "and rows of until itself are left out"
    )
    ends = ("--since", since, "--until", until)
    out = str(tmp_path / "rows.csv")
    for command in (("transfers",), ("transfers", "--store", store),
                    ("export", "transfers", "--out", out, "--store", store)):  # fmt: skip
        status, _, err = fundlab(*command, *ends)
        wrong = f"Invalid value for --until: {words}"
        assert (status, wrong in " ".join(err.split())) == ((2, True) if empty else (0, False)), err
    kept = fl.Store(store)
    with service.connect() as client:
        for ask in (kept.read, kept.read_arrow, kept.known,
                    lambda _, **ends: fl.load_transfers(client, **ends)):  # fmt: skip
            if empty:
                with pytest.raises(InvalidRequest, match=f"^{re.escape(words)}$"):
                    ask("transfers", since=since, until=until)
            else:
                ask("transfers", since=since, until=until)


def test_ids_are_complete_and_amounts_aligned(
    fundlab: Any, store: Path, service: sandbox.Sandbox, named: str
) -> None:
    lines = fundlab("profiles", "--store", store)[1].splitlines()
    assert lines[0].split() == ["profile_id", "name", "assets"]
    row = next(line for line in lines if line.startswith(named))
    assert "Treasury USD" in row
    assert {line.split()[0] for line in lines[1:]} <= {*service.profile_ids}
    shown = fundlab("transfers", "--store", store, "--limit", 3)[1].splitlines()
    assert shown[-1] == "… and more; give a --limit of more than 3 rows"
    points = {line.index(".", line.index("  ", 20)) for line in shown[1:4]}
    assert len(points) == 1  # of amounts of several assets, one below the other
    accounts = fundlab("accounts", "--store", store)[1]
    assert "••••" in accounts
    assert "routing" not in accounts
    # A list of the service does not show who owns an account: no column for nothing.
    assert accounts.splitlines()[0].split()[:5] == ["id", "status", "network", "bank", "number"]
    rows = json.loads(fundlab("accounts", "--store", store, "--json")[1])["accounts"]
    assert {row["owner"] for row in rows} == {""}


def test_a_year_of_transfers_fits_120_columns_and_is_read_at_a_glance(fundlab: Any) -> None:
    sample = fl.sample()
    lines = fundlab("transfers", "--store", sample.path, "--limit", 3000)[1].splitlines()
    assert len(lines) == 3001
    assert max(map(len, lines)) <= 120
    largest = sample.read("transfers")["amount"].max()
    assert any(f"  {largest:,.2f} " in line and "  USD" in line for line in lines)
    names = {"Treasury", "Operations", "Payouts", "Reserve"}
    assert {line[29:43].split()[0] for line in lines[1:]} == names
    by_profile = fundlab("balances", "--store", sample.path)[1].splitlines()
    assert {line.split()[1] for line in by_profile[1:]} == names
    assert "14,340,998.04" in next(line for line in by_profile if "Treasury    USD  " in line)


def test_names_stand_for_ids_in_displays_with_the_id_on_hover(named: str, store: Path) -> None:
    assert name_of(named) == name_of(named.upper()) == "Treasury USD"
    assert name_of("another") is None
    assert fl.id_of("Treasury USD") == fl.id_of(named.upper()) == named
    with pytest.raises(InvalidRequest, match=r"USD \(did you mean Treasury USD\?\) is neither"):
        fl.id_of("Tresury USD")
    frame = fl.Store(store).read("balances", profile_id=named, columns=["profile_id", "asset"])
    cell = show(frame).rows[0][0]
    assert (cell.text, cell.title) == ("Treasury USD", named)


def test_names_that_cannot_be_read_are_a_warning(
    named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "fundlab" / "config.toml"
    config.write_text("[names]\na = 1\n")
    assert name_of(named) == "Treasury"  # as the sample has it
    assert 'must hold id = "name"' in caplog.text
    config.write_text(f'[names]\nTreasury = "{named}"\n')
    assert name_of(named) == "Treasury"  # as the sample has it
    assert "'Treasury' is not an id, so it names nothing" in caplog.text
    config.write_text(f'[names]\n"{UUID(int=7)}" = "Payouts"\n')
    assert fl.id_of("Payouts") == str(UUID(int=7))  # and not the sample's
    config.write_text(f'[names]\n"{UUID(int=7)}" = "A"\n"{UUID(int=8)}" = "A"\n')
    with pytest.raises(InvalidRequest, match="'A' is the name of 2 ids: give the id"):
        fl.id_of("A")
    config.write_text("names = 3\n")
    config.chmod(0o644)
    assert name_of(named) == "Treasury"  # as the sample has it
    assert "ids are shown without names" in caplog.text


def test_nothing_is_said_to_be_nothing(fundlab: Any, tmp_path: Path) -> None:
    (tmp_path / "empty" / "runs").mkdir(parents=True)
    for what in LISTS:
        assert fundlab(what, "--store", tmp_path / "empty") == (0, f"no {what}\n", "")


def test_balances_are_worth_what_their_newest_prices_say(fundlab: Any, tmp_path: Path) -> None:
    sample = Path(fl.sample().path)
    prices = tmp_path / "prices.csv"
    prices.write_text("asset,at,price\nLTC,2026-11-01T00:00:00Z,101.5\n", encoding="utf-8")
    asked = ("balances", "--store", sample, "--in", "usd", "--prices", prices)
    status, out, err = fundlab(*asked, "--json")
    assert (status, err) == (0, "")
    said = json.loads(out)
    rows = said["balances"]
    assert {row["price_from"] for row in rows} == {"transfers", "currency", "given"}
    with exactly():
        for row in rows:
            if row["asset"] in ("USD", "LTC"):
                price = 1 if row["asset"] == "USD" else Decimal("101.5")
                assert Decimal(row["value"]) == Decimal(row["available"]) * price
        total = sum(Decimal(row["value"]) for row in rows)
        cents = f"{total.quantize(Decimal('0.01')):,f}"
    assert said["totals"] == {
        "currency": "USD", "value": f"{total:f}", "priced": 40, "balances": 40, "proved": False,
        "unpriced": "",
    }  # fmt: skip
    assert fundlab(*asked)[1].splitlines()[-1] == (
        f"40 of 40 balances priced: {cents} USD; not part of the proof"
    )
    header, *lines = fundlab(*asked)[1].splitlines()[:-1]
    words = [dict(zip(header.split(), re.split(r"  +", line), strict=True)) for line in lines]
    for row, line in zip(rows, words, strict=True):
        assert re.fullmatch(r"[\d,]+\.\d\d", line["value"])
        assert abs(Decimal(line["value"].replace(",", "")) - Decimal(row["value"])) <= Decimal(
            "0.005"
        )
        assert len(re.sub(r"^[0.]*|[,.]", "", line["price"])) <= 12  # digits that count
        units, price = (Decimal(line[name].replace(",", "")) for name in ("available", "price"))
        with exactly():
            assert abs(units * price - Decimal(row["value"])) < Decimal("0.005")
        assert re.fullmatch(r"\d+ (d|h|min|s)( \d+ (h|min|s))?", line["price_age"])
    old = fundlab("balances", "--store", sample, "--in", "USD", "--max-age", "0s")[1]
    assert "4 of 40 balances priced" in old
    assert "no price in USD for 36 of 40 rows: BCH (the newest is " in old.splitlines()[-1]
    enough = old.split("a max_age= (--max-age) of ")[1].split()[0]
    asked = ("balances", "--store", sample, "--in", "USD", "--max-age", enough)
    assert "40 of 40 balances priced" in fundlab(*asked)[1]
    # A store has prices, too, and analysts try it.
    asked = ("balances", "--store", sample, "--in", "USD", "--max-age", "30d")
    assert fundlab(*asked, "--prices", sample) == fundlab(*asked)
    assert fundlab("balances", "--store", sample, "--prices", prices)[0] == 2
    euros = fundlab("balances", "--store", sample, "--in", "EUR")[1].splitlines()[-2]
    assert euros == "0 of 40 balances priced in EUR; not part of the proof"


def test_balances_of_a_service_have_its_prices(fundlab: Any, store: Path) -> None:
    asked, kept = (
        json.loads(fundlab("balances", "--in", "USD", "--max-age", "90D", "--json", *place)[1])
        for place in ((), ("--store", store))
    )
    assert asked["totals"]["priced"] == kept["totals"]["priced"] > 0
    for one, other in zip(asked["balances"], kept["balances"], strict=True):
        assert (one["price"], one["value"]) == (other["price"], other["value"])


def test_an_age_without_its_unit_is_not_taken_for_nanoseconds(fundlab: Any) -> None:
    status, out, err = fundlab("balances", "--in", "USD", "--max-age", "30")
    assert (status, out) == (2, "")
    assert "max_age='30' is not a length of time with its unit: give days" in " ".join(err.split())


def test_the_service_and_its_store_advise_the_age_that_prices_all(
    fundlab: Any, store: Path
) -> None:
    asked, kept = (
        json.loads(fundlab("balances", "--in", "USD", "--max-age", "1h", "--json", *place)[1])
        for place in ((), ("--store", store))
    )
    assert asked["totals"]["priced"] == kept["totals"]["priced"] < kept["totals"]["balances"]
    assert "(the newest is " in asked["totals"]["unpriced"]
    assert "none found" not in asked["totals"]["unpriced"]
    enough = asked["totals"]["unpriced"].split("a max_age= (--max-age) of ")[1].split()[0]
    every = json.loads(fundlab("balances", "--in", "USD", "--max-age", enough, "--json")[1])
    assert every["totals"]["priced"] == every["totals"]["balances"]
