"""The compiled decoder gives the same rows as the careful one, or leaves the page to it."""

from __future__ import annotations

import json
import random
import shutil
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from test_decode import TRANSFER, page, transfer
from test_decode_campaign import random_amount, random_instant

from fundlab.base.compiled import compile_source, load
from fundlab.base.errors import DataError, ProtocolError, UnknownValueWarning
from fundlab.tables import decode_page, plain_pages
from fundlab.tables.schema import TABLES, Column, Table

TEXTS = (
    "",
    "a",
    "order-1",
    "12345678",
    "0F5E2C1A-9B3D-4C7E-8A6F-ABCDEFabcdef",
    "é",
    "日本",
    "\U0001f600",
    'say "x"',
    "a\\b",
    "\t\n",
    "\x7f/",
)
JSON_TEXTS = (
    "null", "{}", "[]", '{"a": {"b" :[1, -0.50, true,false ,null]}}', '"\\u00e9\\ud83d\\ude00"',
    "12", "-0", "1.5e3", "[[[[]]]]", '{"":""}', '"\\ud800"', "01", "1.", "+1", "nul", "{,}", "[1,]",
    '{"a":1 "b":2}', '"\\x"', "'a'", '"\x01"', "tru e", '{"a" "b"}', "{a:1}", "NaN",
    "[" * 70 + "]" * 70,
)  # fmt: skip
STRANGE = ("unlisted", "a b", "ключ", "x" * 40)


@pytest.fixture(scope="module", autouse=True)
def _compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """With the library of today's source, whatever was installed."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: the package runs without this decoder, too")
    path = tmp_path_factory.mktemp("compiled") / "libplain_pages.so"
    assert compile_source(plain_pages.SOURCE, path, "-Wall", "-Wextra", "-Werror")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plain_pages, "library", load(plain_pages.SOURCE, path))
        assert plain_pages.library is not None
        yield


def outcome(table: str, body: bytes) -> object:
    try:
        found = decode_page(table, body, page=3)
    except (DataError, ProtocolError) as error:
        return type(error), str(error)
    found.rows.validate(full=True)
    return found.rows, found.next_cursor


def compare(table: str, body: bytes) -> bool:
    """Whether the page is plain; the outcome is the same with and without the compiled decoder."""
    with_it = outcome(table, body)
    is_plain = plain_pages.read_plain(TABLES[table], body, ()) is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plain_pages, "library", None)
        without = outcome(table, body)
    assert with_it == without, body
    return is_plain


def random_value(chance: random.Random, column: Column, odd: float) -> str:
    """The JSON of a value of the column, or seldom of none that it can have."""
    if chance.random() < odd:
        return chance.choice((*JSON_TEXTS, json.dumps(chance.choice(TEXTS))))
    if chance.random() < 0.1:
        return "null"
    if column.kind == "json":
        return chance.choice(JSON_TEXTS[:10])
    if column.kind == "flag":
        return chance.choice(("true", "false"))
    if column.kind == "count":
        return str(chance.choice((0, 1, -1, 10**17, 10**18, 2**63 - 1, chance.randrange(-99, 99))))
    if column.kind == "amount":
        text = f"{chance.randrange(10**12)}.{chance.randrange(100):02d}"
        return json.dumps(random_amount(chance) if chance.random() < odd * 4 else text)
    if column.kind == "instant":
        text = f"2026-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T10:00:00."
        text += "".join(chance.choices("0123456789", k=chance.randint(1, 9))) + "Z"
        return json.dumps(random_instant(chance) if chance.random() < odd * 4 else text)
    if column.kind == "enum":
        return json.dumps(chance.choice(column.members))
    text = chance.choice(TEXTS[1:])
    return json.dumps(text, ensure_ascii=chance.random() < 0.5)


def random_page(chance: random.Random, table: Table, records: int) -> bytes:
    """A page, half of them of values that may be odd, a few with a flaw anywhere."""
    odd = chance.choice((0, 0, 0.002, 0.02))
    columns = [column for column in table.columns[1:-1] if chance.random() < 0.8]
    sep, colon = chance.choice(((",", ":"), (", ", ": "), (" ,\n\t", " : ")))
    rows = []
    for number in range(records):
        members = [("id", f'"r-{number}"')] if chance.random() >= odd else []
        members += [(c.name, random_value(chance, c, odd)) for c in columns]
        if chance.random() < odd:
            members.append((chance.choice(STRANGE), chance.choice(JSON_TEXTS[:10])))
        if chance.random() < odd:
            members.append(chance.choice(members or [("id", '"x"')]))  # a second time
        if chance.random() < 0.05:
            chance.shuffle(members)
        rows.append("{" + sep.join(f'"{name}"{colon}{raw}' for name, raw in members) + "}")
    ends = [
        f'"next_page_cursor"{colon}{chance.choice(("null", chr(34) * 2, chr(34) + "c" + chr(34)))}',
        f'"{table.items}"{colon}[{sep.join(rows)}]',
    ]
    chance.shuffle(ends)
    body = ("{" + sep.join(ends) + "}").encode()
    if chance.random() < odd * 5:
        at = chance.randrange(len(body))
        kept = at + chance.choice((0, 0, 1, 1, 5))
        body = (
            body[:at] + chance.choice((b"", b'"', b"{", b"\\", b",", b"\0", b"\xff")) + body[kept:]
        )
    return body


def fuzz(records: int, seed: int) -> tuple[int, int]:
    """How many pages there were, and how many of them plain."""
    chance = random.Random(seed)
    pages = are_plain = left = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownValueWarning)
        while left < records:
            count = chance.choice((0, 1, 2, 8, 9, 30, 150))
            table = TABLES[chance.choice(("transfers", "transfers", "events", "addresses"))]
            are_plain += compare(table.name, random_page(chance, table, count))
            pages, left = pages + 1, left + count
    return pages, are_plain


def test_a_usual_page_is_plain() -> None:
    usual = transfer(metadata={"a": "b"}, memo="Grüße\n", updated_at="2026-03-01T12:00:00Z")
    assert compare("transfers", page(usual, usual))
    assert compare("transfers", page(*[usual] * 1500))
    assert compare("transfers", page())
    assert not compare("transfers", page(TRANSFER))  # +02:00
    assert not compare("transfers", page(usual, transfer(amount="1e5")))


def test_a_member_that_nobody_listed_is_plain_from_its_second_page_on() -> None:
    body = page({"id": "t-1", "a_new_member": [1.50]}, {"id": "t-2", "a_new_member": None})
    assert not compare("transfers", body)
    found = plain_pages.read_plain(TABLES["transfers"], body, ("a_new_member",))
    assert found is not None
    assert found[0][-1].to_pylist() == [b"[1.5]", b"null"]
    extra = decode_page("transfers", body).rows.column("extra")
    assert extra.to_pylist() == ['{"a_new_member":[1.5]}', '{"a_new_member":null}']


@pytest.mark.parametrize("value", JSON_TEXTS)
@pytest.mark.parametrize("member", ["metadata", "memo", "created_at", "nobody_listed"])
def test_any_json_in_any_place(member: str, value: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownValueWarning)
        compare("transfers", f'{{"items":[{{"id":"a","{member}":{value}}}]}}'.encode())


YEARS, LEAP_YEARS = (1677, 1678, 2261, 2262, 2263), (1900, 2000, 2023, 2024)
CLOCKS = ("23:59:59", "24:00:00", "00:60:00", "00:00:60", "0a:00:00")
FRACTIONS = (".Z", ".1Z", ".123456789Z", ".1234567890Z", "", "z", "+00:00")


@pytest.mark.parametrize(
    ("member", "values"),
    [
        ("amount", ["1" * 20, "1" * 21, "." + "1" * 18, "." + "1" * 19, "0" * 21 + ".5"]),
        ("amount", ["9" * 20 + "." + "9" * 18, "5.", ".", "", "-1", "1.2.3", "1e5", r"1\u0030"]),
        ("created_at", [f"{year}-01-01T00:00:00Z" for year in YEARS]),
        ("created_at", [f"{y}-02-{d}T00:00:00Z" for y in LEAP_YEARS for d in (28, 29)]),
        ("created_at", [f"2026-{m:02d}-{d}T00:00:00Z" for m in range(14) for d in (30, 31, 32)]),
        ("created_at", ["2026-01-00T00:00:00Z", "1969-12-31T23:59:59.999999999Z"]),
        ("created_at", [f"2026-01-01T{clock}Z" for clock in CLOCKS]),
        ("created_at", [f"2026-01-01T00:00:00{fraction}" for fraction in FRACTIONS]),
        ("memo", [r"\ud83d\ude00", r"\ud83d", r"\ude00", r"\ud83d\u0041", r"\u0000", r"\u12"]),
        ("memo", [r"\u007f\u0080\u07ff\u0800\uffff\u00E9", "1234567\\", r"12345678\n9", "\\"]),
        ("memo", ["\x00", "\x1f", "12345678\x1f", "\x7f"]),
        ("id", ["", "x"]),
    ],
)
def test_what_lies_at_the_edge(member: str, values: list[str]) -> None:
    """Each beside a plain record, so that it is found wherever it is."""
    for value in values:
        for place in (0, 1):
            rows = ['{"id":"other"}', f'{{"id":"a","{member}":"{value}"}}'][:: 1 - 2 * place]
            if member == "id":
                rows = [f'{{"id":"{value}"}}']
            compare("transfers", f'{{"items":[{",".join(rows)}]}}'.encode())


def test_every_beginning_of_a_page() -> None:
    body = page(transfer(metadata={"a": "\\u00e9"}, updated_at="2026-03-01T12:00:00Z"))
    for end in range(len(body)):
        assert not compare("transfers", body[:end])


@pytest.mark.seconds
def test_thousands_of_records() -> None:
    pages, are_plain = fuzz(15_000, seed=3)
    assert pages // 3 < are_plain < pages  # of both kinds


@pytest.mark.campaign
def test_a_million_records(seed: int, figure: Any) -> None:
    pages, are_plain = fuzz(1_000_000, seed)
    figure(
        f"decoder: 1,000,000 records on {pages:,} pages, {are_plain:,} of them plain: the same "
        "rows and the same errors with and without the compiled decoder"
    )
