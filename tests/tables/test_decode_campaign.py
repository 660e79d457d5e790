"""The decoder against an oracle on random values and broken pages: no silent difference."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_service import FakeService, transfer
from test_decode import amount_by_hand, instant_by_hand, page
from test_decode import transfer as record

from fundlab import Store, load_transfers
from fundlab.base.errors import DataError, ProtocolError
from fundlab.tables import decode_page

AMOUNT_PIECES = ("0", "1", "9", "00", ".", ".5", "e5", "-", "+", " ", "\n", "٣", "_", "1" * 18)
ZONES = ("Z", "Z", "Z", "z", "", "+00:00", "-23:59", "+24:00", "+0530", " Z", "Z\n")


def random_amount(chance: random.Random) -> str:
    kind = chance.random()
    if kind < 0.5:
        whole = "".join(chance.choices("0123456789", k=chance.randint(0, 21)))
        fraction = "".join(chance.choices("0123456789", k=chance.randint(0, 19)))
        return whole + chance.choice(("", ".")) + fraction
    if kind < 0.8:
        return f"{chance.randrange(10**12)}.{chance.randrange(100):02d}"
    return "".join(chance.choices(AMOUNT_PIECES, k=chance.randint(0, 5)))


def random_instant(chance: random.Random) -> str:
    year = chance.choice((1677, 1678, 1900, 2000, 2023, 2024, 2026, 2261, 2262, 9999))
    clock = f"{chance.randint(0, 24):02d}:{chance.randint(0, 60):02d}:{chance.randint(0, 60):02d}"
    digits = "".join(chance.choices("0123456789", k=chance.choice((0, 0, 1, 3, 6, 9, 9, 9, 10))))
    day = f"{chance.randint(1, 12):02d}-{chance.randint(1, 31):02d}"
    text = f"{year}-{day}{chance.choice('TTTt ')}{clock}"
    text += ("." if digits or chance.random() < 0.02 else "") + digits + chance.choice(ZONES)
    if chance.random() < 0.1:
        text = text.replace(chance.choice(text), chance.choice("0:-.TZ9a "), 1)
    return text


def check_column(name: str, texts: list[str], expected: list[Any]) -> None:
    """All valid ones on one page, as they are; each of the others stops its page."""
    valid = [text for text, value in zip(texts, expected, strict=True) if value is not None]
    rows = decode_page("transfers", page(*(record(**{name: text}) for text in valid))).rows
    column = rows.column(name)
    found = column.cast("int64") if name == "created_at" else column
    assert found.to_pylist() == [value for value in expected if value is not None]
    for text, value in zip(texts, expected, strict=True):
        if value is None:
            with pytest.raises(DataError) as caught:
                decode_page("transfers", page(record(), record(**{name: text})))
            assert caught.value.field == name


@pytest.mark.parametrize("count", [10_000, pytest.param(1_000_000, marks=pytest.mark.campaign)])
def test_values(count: int, seed: int, figure: Any) -> None:
    chance = random.Random(seed)
    for _ in range(count // 1000):
        amounts = [random_amount(chance) for _ in range(500)]
        check_column("amount", amounts, [amount_by_hand(text) for text in amounts])
        instants = [random_instant(chance) for _ in range(500)]
        check_column("created_at", instants, [instant_by_hand(text) for text in instants])
    figure(f"values: {count:,} amounts and times decoded as by hand, or refused by name")


def broken_pages(chance: random.Random) -> Iterator[tuple[bytes, int | None]]:
    """Pages with something wrong; of each the number of rows that can be read, ``None`` where it
    is not a page."""
    while True:
        records = [transfer(n) for n in range(200, 200 + chance.randint(1, 30))]
        body = json.dumps({"items": records, "next_page_cursor": ""})
        victim = chance.choice(records)
        kind = chance.randrange(7)
        if kind == 0:
            yield body[: chance.randrange(len(body))].encode(), None
        elif kind == 1:
            at = chance.randrange(1, len(body))
            yield body[:at].encode() + b"\xff" + body[at:].encode(), None
        elif kind == 6:
            other = chance.choice(([], {"items": {}}, {"rows": records}, 7))
            yield json.dumps(other).encode(), None
        else:
            if kind == 2:
                wrong = ("1e5", "-1", "+1", "5.", "", "NaN", "1,0", 5, "1" * 21, f".{'1' * 19}")
                victim[chance.choice(("amount", "fee", "total"))] = chance.choice(wrong)
            elif kind == 3:
                wrong = ("now", "", "2026-03-01", "2026-03-01T00:00:00", "2026-02-30T00:00:00Z", 7)
                victim[chance.choice(("created_at", "updated_at"))] = chance.choice(wrong)
            elif kind == 4:
                victim["id"] = chance.choice((None, "", 7, [], {}))
            else:
                wrong = (7, [], {}, True)
                victim[chance.choice(("memo", "status", "asset"))] = chance.choice(wrong)
            yield json.dumps({"items": records}).encode(), len(records) - 1


class OnePageBroken(FakeService):
    """Answers the second page of transfers with ``body``."""

    body = b""

    def fetch_page(self, operation: str, params: Any) -> bytes:
        found = super().fetch_page(operation, params)
        return self.body if "page_cursor" in dict(params) else found


@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.campaign)])
def test_broken_pages(tmp_path: Path, count: int, seed: int, figure: Any) -> None:
    """What is not a page stops a sync, and a row that cannot be read any loader to a frame; a sync
    sets the row aside and stores the others."""
    chance = random.Random(seed)
    pages = broken_pages(chance)
    aside = 0
    for number in range(count):
        store = Store(tmp_path / str(number))
        service: Any = OnePageBroken([transfer(n) for n in range(200)], largest_page=50)
        service.body, readable = next(pages)
        error = ProtocolError if readable is None else DataError
        with pytest.raises(error, match=r"transfers") as caught:
            load_transfers(service)
        assert "\n" not in str(caught.value)
        if readable is None:
            with pytest.raises(ProtocolError, match=r"transfers"):
                store.sync(service, tables=["transfers"])
            assert len(store.read("transfers")) == len(store.set_aside()) == 0
        else:
            store.sync(service, tables=["transfers"])
            # The first page, the newest (the list ended early), and what the broken one has.
            assert len(store.read("transfers")) == 50 + 50 + readable
            assert len(store.set_aside()) == 1
            aside += 1
    figure(
        f"values: {count:,} broken pages: {count - aside:,} refused by name, nothing of them "
        f"stored; of {aside:,} one row set aside and every other stored"
    )
