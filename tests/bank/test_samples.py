"""Files that other projects test their readers with: accepted, or refused for a reason."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from fundlab.bank import statements
from fundlab.base.errors import AnalysisError, StatementError

SAMPLES = Path(__file__).parent / "samples"
D = Decimal
ACCEPTED = {
    # An account trailer may leave its control total out, where there is nothing to sum.
    "account_trailer_amount_blank_example.bai2": (2, "no", []),
    "nwb_example.bai2": (
        1, "balances", [D("-9.71"), D("-1"), D("-1.23"), D("-15.71"), D("0.89")]),
    "svb_us_example.bai2": (2, "balances", [D("4901.96"), D("9058")]),
    "anzcc.ofx": (1, "no", [D("-5.5")]),
    "bank_medium.ofx": (1, "no", [D("-6.6"), D("-316.67"), D("-22")]),
    "checking.ofx": (1, "no", [D("0.01"), D("-34.51"), D("-25")]),
    "ofx-v102-empty-tags.ofx": (1, "no", [D("12.34")]),
    "suncorp.ofx": (1, "no", [D("-16.85")]),
    "multiple_accounts2.ofx": (2, "no", []),
    # The same statement twice is one; a reversed credit takes it back.
    "MT940.txt": (1, "balances", [D("500.01"), D("-15.67"), D("15.67")]),
    # Without balances there is nothing to prove it by.
    "MT940-optional.txt": (1, "no", [D("500.01"), D("-15.67"), D("15.67")]),
    # Two pages, :60M: and :62M: between them; :NS: is a field of Polish banks.
    "test2.mt940x": (2, "balances", [D("-369"), D("-15.07"), D("-123"), D("-25")]),
    "test-with-NS.mt940x": (2, "balances", [D("-369"), D("-15.07"), D("-123"), D("-25")]),
}  # fmt: skip
REFUSED = {
    # Opening and closing are the same, though a cent came in.
    "citi_example.bai2": "closing balance is declared as 100; the opening 100 and 1 entry of 0.01",
    "date_missing.ofx": "line 33: a transaction has no DTPOSTED",
    # SWIFT's amounts have a comma, this one has none.
    "test1.mt940": "line 20: .*'500' is not an amount of MT940",
    "testX.mt940": "line 27: .*'500' is not an amount of MT940",
    # An account with a broker.
    "fidelity-savings.ofx": "it holds no statement of a bank account or card",
}


def test_every_sample_has_its_origin_and_its_case() -> None:
    names = {path.name for path in SAMPLES.iterdir()} - {"ORIGIN.md", "LICENSE-mt940js"}
    assert names == ACCEPTED.keys() | REFUSED.keys()
    origin = (SAMPLES / "ORIGIN.md").read_text()
    assert [name for name in names if f"| `{name}` |" not in origin] == []


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_honest_sample_is_read(name: str) -> None:
    count, proved, amounts = ACCEPTED[name]
    found = statements.read(SAMPLES / name)
    assert found.statements["proved"].tolist() == [proved] * count
    assert found.entries["amount"].tolist() == amounts


@pytest.mark.parametrize("name", REFUSED)
def test_a_sample_that_contradicts_itself_or_is_no_statement_is_refused(name: str) -> None:
    with pytest.raises(AnalysisError, match=REFUSED[name]) as refused:
        statements.read(SAMPLES / name)
    assert str(SAMPLES / name) in str(refused.value)
    assert isinstance(refused.value, StatementError) == name.startswith("citi")
