"""Whatever the books are: page, sheets, CSV, JSON, text, judgement and exit status say the same of
them, and it is what a sum by hand gives."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import openpyxl
import pytest
from fake_service import FakeService, change, transfer
from page_tables import PageTables

import fundlab as fl
from fundlab.models import ProfileBalance

BEGIN, END = "2026-02-01", "2026-03-01"
COLUMNS = {"opening": "Opening", "inflow": "In", "outflow": "Out", "closing": "Closing",
           "held": "Held by pending", "available": "Available"}  # fmt: skip
Pair = tuple[str, str]
Row = dict[str, Any]


class Lying(FakeService):
    """Reports some balances by ``lies`` too high."""

    lies: dict[Pair, Decimal]

    def get_profile_balance(self, profile_id: str, asset: str) -> ProfileBalance:
        with localcontext(prec=60):  # it is asked in threads
            found = super().get_profile_balance(profile_id, asset)
            available = found.available + self.lies.get((profile_id, asset), 0)
        return ProfileBalance.model_validate(
            {"asset": asset, "available": f"{available:f}", "trading": "0"}
        )


def drawn(chance: Random) -> Lying:
    """Months of a few profiles: amounts of cents and of 18 decimals, beyond 15 digits, none."""
    service = Lying()
    profiles = [f"p-{number}" for number in range(chance.choice([1, 3]))]
    for number, (profile, asset) in enumerate(product(profiles, ("USD", "ETH"))):
        if chance.random() < 0.7:  # enough for every debit that comes
            first = transfer(900 + number, profile_id=profile, asset=asset, amount=f"{10**19}",
                             total=f"{10**19}", created_at="2026-01-01T00:00:00Z")  # fmt: skip
            service.transfers.append(first)
    there = {pair(row) for row in service.transfers}
    for number in range(chance.choice([0, 8, 40]) if there else 0):
        profile, asset = chance.choice(sorted(there))
        places = chance.choice([0, 2]) if asset == "USD" else chance.choice([0, 6, 18])
        amount = Decimal(chance.randrange(1, 10 ** chance.choice([3, 6, 17]))).scaleb(-places)
        debit = chance.random() < 0.4
        fee = (
            Decimal(chance.choice(["0", "0.25", "25"])) if debit and asset == "USD" else Decimal(0)
        )
        created = f"2026-0{chance.randint(1, 3)}-{chance.randint(1, 28):02d}"
        later = max(created, f"2026-0{chance.randint(1, 3)}-{chance.randint(1, 28):02d}")
        service.transfers.append(
            transfer(
                number, profile_id=profile, asset=asset, amount=f"{amount:f}",
                fee=f"{fee:f}", total=f"{amount + fee:f}",
                direction="DEBIT" if debit else "CREDIT",
                type="WIRE_WITHDRAWAL" if debit else "WIRE_DEPOSIT",
                status=chance.choice(["COMPLETED", "COMPLETED", "COMPLETED", "PENDING", "FAILED"]),
                created_at=f"{created}T06:00:00Z", updated_at=f"{later}T18:00:00Z",
            )
        )  # fmt: skip
    service.lies = {one: Decimal(chance.choice([-1, 1])).scaleb(-chance.choice([0, 2, 18]))
                    for one in sorted(there) if chance.random() < 0.15}  # fmt: skip
    return service


def pair(row: Row) -> Pair:
    return row["profile_id"], row["asset"]


def by_hand(rows: list[Row]) -> dict[Pair, dict[str, Decimal]]:
    """Opening, in, out and closing of each balance in the period, row by row."""
    found: dict[Pair, dict[str, Decimal]] = {}
    for row in rows:
        sums = found.setdefault(pair(row), dict.fromkeys(list(COLUMNS)[:4], Decimal(0)))
        if row["status"] != "COMPLETED" or row["updated_at"] >= END:
            continue
        total = Decimal(row["total"])
        signed = total if row["direction"] == "CREDIT" else -total
        sums["closing"] += signed
        if row["updated_at"] < BEGIN:
            sums["opening"] += signed
        else:
            sums["inflow" if signed > 0 else "outflow"] += total
    return found


def amount(text: object) -> Decimal:
    return Decimal(str(text).replace(",", ""))


def from_page(page: PageTables, caption: str, first: int) -> dict[Pair, list[Decimal]]:
    """Of each balance the amounts from column ``first`` on; totals are left out."""
    _, *rows = page.by_caption.get(caption, [[]])
    return {
        (row[1], row[0]): [amount(cell) for cell in row[first:] if re.fullmatch(r"[-\d.,]+", cell)]
        for row in rows
        if not row[0].startswith("Total ")
    }


def from_sheet(book: Any, name: str, labels: list[str]) -> dict[Pair, list[Decimal]]:
    if name not in book.sheetnames:
        return {}
    header, *rows = book[name].iter_rows(4, values_only=True)
    places = [header.index(label) for label in labels]
    return {
        (row[header.index("Profile id")], row[0]): [amount(row[place]) for place in places]
        for row in rows
        if row[0] and not str(row[0]).startswith("Total ")
    }


def from_csv(path: Path, names: list[str]) -> dict[Pair, list[Decimal]]:
    with path.open(encoding="utf-8", newline="") as file:
        return {(row["profile_id"], row["asset"]): [amount(row[name]) for name in names]
                for row in csv.DictReader(file)}  # fmt: skip


def agrees(seed: int, folder: Path, fundlab: Any) -> None:
    service = drawn(Random(seed))
    if not service.transfers:
        return
    store = fl.Store(folder / "store")
    store.sync(service)  # type: ignore[arg-type]
    found = fl.report(store, "2026-02", out=folder / "out")
    stem = folder / "out" / "report-2026-02"
    page = PageTables(Path(f"{stem}.html").read_text(encoding="utf-8"))
    book = openpyxl.load_workbook(f"{stem}.xlsx", data_only=True)

    # Every balance of the period, wherever it stands.
    names = list(COLUMNS)
    told = from_csv(Path(f"{stem}.balances.csv"), names)
    assert from_page(page, "Balances by asset and profile", 2) == told
    assert from_sheet(book, "Balances", list(COLUMNS.values())) == told
    hand = by_hand(service.transfers)
    for key, amounts in told.items():
        opening, inflow, outflow, closing, held, available = amounts
        assert dict(zip(names[:4], amounts[:4], strict=True)) == hand[key], key
        assert opening + inflow - outflow == closing
        assert closing - held == available
    silent = {key: sums for key, sums in hand.items() if key not in told}
    assert not any(any(sums.values()) for sums in silent.values()), silent

    # What is rebuilt against what was reported.
    sides = from_csv(Path(f"{stem}.reconciliation.csv"), ["rebuilt", "reported", "difference"])
    assert from_page(page, "Rebuilt and reported balances", 2) == sides
    assert from_sheet(book, "Reconciliation", ["Rebuilt", "Reported", "Difference"]) == sides
    for key, (rebuilt, reported, difference) in sides.items():
        own = [row for row in service.transfers if pair(row) == key]
        assert rebuilt == sum(map(change, own), Decimal(0)), key
        assert reported - rebuilt == difference == service.lies.get(key, 0), key
    assert sides.keys() == hand.keys()

    # The verdict and the key figures, and what programs are told.
    breaks, kept = len(service.lies), len(sides) - len(service.lies)
    judged = fl.reconcile.judge(store)
    compared = fl.reconcile.compare(store.read("transfers"), store.read("balances"))
    body = found.to_json()
    assert judged.breaks == body["breaks"] == breaks
    assert (compared["status"] == "break").sum() == breaks
    assert body["text"].endswith(judged.text)  # before it, that the period has no transfers
    headline = next(row[0] for row in book["Report"].iter_rows(4, 4, values_only=True))
    assert headline == body["verdict"]
    assert f">{headline}<" in Path(f"{stem}.html").read_text(encoding="utf-8").replace("</h2>", "<")
    assert headline in repr(found)
    figures = {one["label"]: one["value"] for one in body["figures"]}
    if sides:
        assert figures["Balances proved"] == f"{kept} of {len(sides)}"
    there = [row for row in service.transfers if BEGIN <= placed(row) < END]
    assert figures["Transfers"] == f"{len(there):,}"
    fees = sum((Decimal(row["fee"]) for row in there if row["status"] == "COMPLETED"), Decimal(0))
    if "Fees in USD" in figures:
        assert amount(figures["Fees in USD"]) == fees
    cover = {row[0]: row[1] for row in book["Report"].iter_rows(5, 20, values_only=True)}
    for label, value in figures.items():
        assert str(cover[label]) == value or amount(cover[label]) == amount(value)

    # The exit statuses, and their words.
    for command in (
        ["verify"],
        ["report", "2026-02", "--out", folder / "again", "--format", "csv"],
    ):
        status, out, _ = fundlab(*command, "--store", store.path, "--json")
        assert status == (3 if breaks else 0), (command, out)
        assert judged.text in json.dumps(json.loads(out)), command


def placed(row: Row) -> str:
    """When a transfer belongs to a period: as it settled, else as it was created."""
    return str(row["updated_at"] if row["status"] == "COMPLETED" else row["created_at"])


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(1, marks=pytest.mark.thorough),
        pytest.param(100, marks=pytest.mark.campaign),
    ],
)
def test_outputs_agree_whatever_the_books_are(
    count: int, seed: int, tmp_path: Path, fundlab: Any, figure: Callable[[str], None]
) -> None:
    for one in range(seed * 1000, seed * 1000 + count):
        try:
            with localcontext(prec=60):  # by hand, too, nothing is rounded
                agrees(one, tmp_path / str(one), fundlab)
        except BaseException as error:
            error.add_note(f"of seed {one}")
            raise
    figure(f"{count} drawn books: page, sheets, CSV, JSON, text and exit statuses agree")
