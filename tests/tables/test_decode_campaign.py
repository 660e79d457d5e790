"""The decoder against an oracle on random values: no silent difference."""

import random
from typing import Any

import pytest
from test_decode import amount_by_hand, instant_by_hand, page
from test_decode import transfer as record

from fundlab.base.errors import DataError
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
