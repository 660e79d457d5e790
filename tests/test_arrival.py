"""The type ``decimal`` is known to pandas whichever of the two is imported first."""

import subprocess
import sys

import pytest

SUM = "print(pandas.Series(['0.1', '0.2'], dtype='decimal').sum())"


def run(*lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_column_is_there_where_pandas_came_first() -> None:
    assert run("import pandas, fundlab", SUM) == "0.3"


def test_importing_the_package_does_not_import_pandas() -> None:
    assert run("import sys, fundlab", "print('pandas' in sys.modules)") == "False"


def test_what_a_sync_takes_does_not_import_duckdb() -> None:
    lines = "import sys, fundlab as fl", "fl.Store, fl.Client", "print('duckdb' in sys.modules)"
    assert run(*lines) == "False"


def test_where_it_comes_later_it_keeps_its_own_loader_and_nobody_waits_any_more() -> None:
    found = run(
        "import sys, fundlab, pandas",
        SUM,
        "print(type(pandas.__loader__).__name__, pandas.__spec__.loader is pandas.__loader__)",
        "print(any(vars(finder).get('_name') == 'pandas' for finder in sys.meta_path))",
    )
    assert found.splitlines() == ["0.3", "SourceFileLoader True", "False"]


@pytest.mark.thorough
def test_a_failed_import_of_pandas_can_be_repeated() -> None:
    found = run(
        "import sys, fundlab",
        "sys.modules['numpy'] = None",
        "try: import pandas",
        "except ImportError: print('refused')",
        "del sys.modules['numpy']",
        "import pandas",
        SUM,
    )
    assert found.splitlines() == ["refused", "0.3"]


@pytest.mark.thorough
def test_dir_shows_what_a_user_may_use() -> None:
    found = run("import fundlab as fl", "fl.report", "print(set(dir(fl)) - set(fl.__all__))")
    assert found == "{'__version__'}"


def test_who_only_looks_for_pandas_does_not_end_the_waiting() -> None:
    found = run(
        "import fundlab, importlib.util",
        "importlib.util.find_spec('pandas'); importlib.util.find_spec('pandas')",
        "import pandas",
        SUM,
    )
    assert found == "0.3"
