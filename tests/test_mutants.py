"""The tool that plants faults: what it plants, and that it tells who notices."""

from __future__ import annotations

import ast
import faulthandler
import gc
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import mutants


@pytest.fixture(autouse=True)
def _fit_to_fork() -> Iterator[None]:
    """A fork that runs pytest would wait for this process's watchdog, which it does not have, and
    die of collecting what earlier tests left with threads: the tool freezes it, too."""
    faulthandler.cancel_dump_traceback_later()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    path = tmp_path / "due_fees.py"
    path.write_text(
        textwrap.dedent(
            """
            def due(amount: int, limit: int = 10) -> int:
                '''What is above the limit, 3 at most.'''
                if amount < limit and not False:
                    raise ValueError("é < 1")
                print(amount)
                return min(amount - limit, 3)
            """
        ),
        encoding="utf-8",
    )
    return path


def test_every_kind_of_fault_is_planted_and_only_in_code(module: Path) -> None:
    found = {(one.line, one.before, one.after) for one in mutants.mutants(module)}
    assert found == {
        (2, "10", "11"),
        (4, "amount < limit", "(amount <= limit)"),
        (4, "amount < limit and not False", "(amount < limit or not False)"),
        (4, "not False", "(False)"),
        (4, "False", "True"),
        (5, 'raise ValueError("é < 1")', "pass"),
        (6, "print(amount)", "pass"),
        (7, "return min(amount - limit, 3)", "return None"),
        (7, "min", "max"),
        (7, "amount - limit", "(amount + limit)"),
        (7, "3", "4"),
    }


def test_a_constant_is_judged_where_it_is_read(module: Path) -> None:
    text = "LIMIT = 10\nOTHER = 5\ndef due(n):\n    return n > LIMIT\ndef more(n):\n    return n\n"
    module.write_text(text, encoding="utf-8")
    used = {one.text: one.used_at for one in mutants.mutants(module) if one.loaded}
    assert used == {"LIMIT = 10": (4,), "OTHER = 5": ()}
    reached = mutants.Reached({"due_fees.py": {"4": ["a"], "6": ["b"]}}, {})
    tests = {one.text: reached.by(one) for one in mutants.mutants(module) if one.loaded}
    assert tests == {"LIMIT = 10": ["a"], "OTHER = 5": ["a", "b"]}


def test_each_is_one_change_of_a_module_that_still_parses(module: Path) -> None:
    whole = module.read_bytes()
    for one in mutants.mutants(module):
        ast.parse(one.applied())
        assert one.applied() != whole
        assert one.applied()[: one.start] == whole[: one.start]
        assert one.applied().endswith(whole[one.end :])


@pytest.mark.thorough
def test_a_test_that_looks_at_the_bound_notices_and_one_that_does_not_does_not(
    module: Path, tmp_path: Path
) -> None:
    config = tmp_path / "pyproject.toml"  # as this repository's: a warning of pytest is an error
    config.write_text('[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    (tmp_path / "test_due.py").write_text(
        "from due_fees import due\n\n"
        + "".join(f"def test_{amount}():\n    due({amount})\n" for amount in (10, 12))
    )
    whole = module.read_bytes()
    found = {one.after: one for one in mutants.mutants(module)}
    for after in ("(amount <= limit)", "11"):  # in the function, and as its module is loaded
        assert not mutants.survives(found[after], ["test_due.py::test_10"], tmp_path)
        assert mutants.survives(found[after], ["test_due.py::test_12"], tmp_path)
    assert module.read_bytes() == whole
    assert mutants.survives(None, ["test_due.py::test_10"], tmp_path)
    assert not mutants.survives(None, ["test_due.py::test_nothing"], tmp_path)
    (tmp_path / "test_others.py").write_text("import what_is_not_there\n")  # is not collected
    for test, unnoticed in (("10", False), ("12", True)):
        tests = [f"test_due.py::test_{test}"]
        one = found["(amount <= limit)"]
        assert mutants.survives(one, tests, tmp_path, "test_due.py") is unnoticed


@pytest.mark.thorough
def test_what_survives_meets_the_thorough_tests_that_reach_it(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["thorough", "slow", "campaign"]\n'
    )
    folder = tmp_path / "tests" / "due"
    folder.mkdir(parents=True)
    test = "import pytest\nfrom due_fees import due\n\n@pytest.mark.thorough\ndef test_it():\n"
    found = {one.after: one for one in mutants.mutants(module)}
    for amount, outlived in ((12, True), (10, False)):
        (folder / "test_due.py").write_text(f"{test}    due({amount})\n")
        for one in (None, found["(amount <= limit)"]):
            tests = ["tests/due/test_due.py::test_it"]
            assert mutants.outlives(one, tests, tmp_path) == (one is None or outlived)


def test_the_rooms_own_tests_come_first_and_the_quickest(module: Path) -> None:
    own, other = "tests/due/test_due.py::test_", "tests/sums/test_sums.py::test_"
    rooms = {
        "sums": mutants.Reached({"due_fees.py": {"4": [f"{other}sum"]}}, {f"{other}sum": 0.1}),
        "due": mutants.Reached(
            {"due_fees.py": {"4": [f"{own}slow", f"{own}bound", f"{own}long"], "7": []}},
            {f"{own}slow": 3, f"{own}bound": 0.2, f"{own}long": mutants.LONGEST_S},
        ),
    }
    (bound,) = (one for one in mutants.mutants(module) if one.after == "(amount <= limit)")
    (least,) = (one for one in mutants.mutants(module) if one.after == "max")
    first, others = [f"{own}bound", f"{own}slow"], [f"{own}long", f"{other}sum"]
    assert mutants.chosen_tests(bound, "due", rooms) == [first, others]
    assert mutants.chosen_tests(least, "due", rooms) == []
    (default,) = (one for one in mutants.mutants(module) if one.after == "11")
    assert default.loaded, "its line runs as the module is loaded, before any test begins"
    assert f"{own}bound" in mutants.chosen_tests(default, "due", rooms)[0]


def test_a_reason_holds_for_a_line_as_it_is(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = module.with_name("accepted.txt")
    accepted.write_text("# why\ndue_fees.py\tprint(amount)\tpass\tnobody reads it\n")
    monkeypatch.setattr(mutants, "ACCEPTED", accepted)
    (call,) = (one for one in mutants.mutants(module) if one.before == "print(amount)")
    assert call.key in mutants.accepted()
    module.write_text(module.read_text("utf-8").replace("print(amount)", "print( amount)"), "utf-8")
    (changed,) = (one for one in mutants.mutants(module) if one.before == "print( amount)")
    assert changed.key not in mutants.accepted()


@pytest.mark.seconds
def test_each_reason_is_of_a_line_that_there_is_and_stands_once() -> None:
    accepted = mutants.accepted()
    lines = mutants.ACCEPTED.read_text("utf-8").splitlines()
    assert len(accepted) == sum(not line.startswith("#") for line in lines)
    paths = {mutants.ROOT / path for path, _, _ in accepted}
    assert accepted <= {one.key for path in paths for one in mutants.mutants(path)}


def test_a_reason_is_of_one_place(module: Path) -> None:
    line = "    return n * 2 + 2\n"
    module.write_text(f"def due(n):\n{line}def owed(n):\n{line}", encoding="utf-8")
    twos = [one for one in mutants.mutants(module) if one.before == "2"]
    keys = [(one.line, one.start, one.key[2]) for one in twos]
    assert keys == [(2, 27, "3"), (2, 31, "3 #2"), (4, 61, "3 #3"), (4, 65, "3 #4")]
