"""Half a character (a lone surrogate), as a terminal that is not of UTF-8 or a cut text gives it,
is refused by name wherever a text is sent or written."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fundlab as fl
from fundlab.base.errors import FundlabError
from fundlab.payments import approvals
from fundlab.settings.settings import Settings

HALF = "ab\ud83d"
SHOWN = r"'ab\\ud83d'"
ASKED: dict[str, Any] = {"base_url": "https://a.example", "client_id": "c", "now": 0}


def of_profile(name: str) -> pd.DataFrame:
    rows = fl.sample().read("transfers").head(1)
    return rows.assign(profile_id=pd.Series([name], dtype=object))


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (lambda _: fl.sample().read("transfers", profile_id=HALF), f"profile_id={SHOWN} is not"),
        (lambda _: fl.sample().read("transfers", columns=["id", HALF]), f"columns={SHOWN} is not"),
        (lambda _: fl.Store(f"memory://{HALF}"), r"path='memory://ab\\ud83d' is not valid Unicode"),
        (lambda _: fl.bank.read(HALF), f"statement={SHOWN} is not valid Unicode"),
        (lambda _: fl.bank.read("none.csv", profile=HALF), f"profile={SHOWN}: .*; give a file, or"),
        (lambda at: fl.bank.read(at / "caf\udce9.xml"), r"caf\\udce9\.xml' is not valid Unicode"),
        (
            lambda at: fl.exports.replacing(at / "caf\udce9.csv").__enter__(),
            r"caf\\udce9\.csv' is not valid Unicode",
        ),
        (lambda _: fl.books.entries(of_profile("p"), accounts=HALF), "ab\ud83d cannot be read: "),
        (lambda _: fl.balances.at(of_profile(HALF), "2026-01-01"), "transfers column 'profile_id'"),
        (lambda at: approvals.make_request(at / "r", ["{}"], why=HALF, **ASKED), f"why={SHOWN} is"),
        (
            lambda at: approvals.make_request(at / "r", ["{}"], why="x", by=HALF, **ASKED),
            f"by={SHOWN} is not valid Unicode",
        ),
        (
            lambda at: approvals.make_request(at / HALF, ["{}"], why="x", **ASKED),
            "ab\ud83d cannot be written: .*; nothing was sent",
        ),
        (lambda at: approvals.read_request(at / HALF), "cannot be read: .*; nothing was sent"),
        (
            lambda at: approvals.add_person(fl.Store(at), "Ana", at / "key", by=HALF),
            f"by={SHOWN} is not valid Unicode",
        ),
        (
            lambda at: approvals.remove_person(fl.Store(at), "Ana", by=HALF),
            f"by={SHOWN} is not valid Unicode",
        ),
    ],
)
def test_half_a_character_is_named_with_its_place(
    give: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    with pytest.raises(FundlabError, match=said):
        give(tmp_path)


def test_half_a_character_in_the_secret_is_refused_without_showing_it() -> None:
    with pytest.raises(FundlabError, match="client_secret is not valid Unicode") as refused:
        Settings.load(
            base_url="https://a.example", auth_url="https://a.example", client_id="c",
            client_secret="s3cret\udcff", environ={},
        )  # fmt: skip
    assert "s3cret" not in "".join(traceback.format_exception(refused.value))
    assert refused.value.__context__ is None
