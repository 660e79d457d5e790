"""A statement that was cut or edited is refused by name; an honest one is not."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from made_statements import MUTATIONS, made_file

from fundlab.bank import statements
from fundlab.base.errors import AnalysisError, StatementError


def refuse_mutants(path: Path, format: str, count: int) -> None:
    for number in range(count):
        for name, mutate in MUTATIONS.items():
            rng = random.Random(f"{format} {name} {number}")
            one = made_file(rng, format)
            text = mutate(rng, one)
            assert text != one.text
            try:
                one.read(path, text)
            except AnalysisError as error:
                refused = error
            else:
                pytest.fail(f"{format}, {name}, {number}: accepted\n{text}")
            assert str(path) in str(refused)
            if isinstance(refused, StatementError):
                assert refused.file == str(path)
                assert refused.statement
                assert refused.declared != refused.found


def accept_honest(path: Path, format: str, count: int) -> None:
    for number in range(count):
        one = made_file(random.Random(f"honest {format} {number}"), format)
        read = one.read(path)
        assert read.findings.empty
        assert set(read.statements["proved"]) <= {"balances", "counts", "follows"}


@pytest.mark.parametrize("format", statements.FORMATS)
def test_mutated_statements_are_refused(format: str, tmp_path: Path) -> None:
    refuse_mutants(tmp_path / "statement", format, 3)


@pytest.mark.parametrize("format", statements.FORMATS)
def test_honest_statements_are_accepted(format: str, tmp_path: Path) -> None:
    accept_honest(tmp_path / "statement", format, 4)


@pytest.mark.campaign
@pytest.mark.parametrize("format", statements.FORMATS)
def test_a_thousand_mutated_statements_are_refused(format: str, tmp_path: Path) -> None:
    refuse_mutants(tmp_path / "statement", format, 20)  # 20 × 7 kinds × 8 formats: 1,120


@pytest.mark.campaign
@pytest.mark.parametrize("format", statements.FORMATS)
def test_two_hundred_honest_statements_are_accepted(format: str, tmp_path: Path) -> None:
    accept_honest(tmp_path / "statement", format, 200)
