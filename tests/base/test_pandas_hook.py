"""The type ``decimal`` is known to pandas whichever of the two is imported first."""

import subprocess
import sys
from pathlib import Path

import pytest

from fundlab import sample, sandbox

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


@pytest.mark.thorough
def test_a_sync_imports_neither_pandas_nor_other_engines(tmp_path: Path) -> None:
    with sandbox.serve(seed=7, transfers=60) as service:
        found = run(
            "import sys, numpy; own = {*sys.modules}  # an older NumPy loads all of itself",
            "import fundlab as fl",
            f"told = {service.announcement()!r}",
            "named = 'base_url', 'auth_url', 'client_id', 'client_secret'",
            "client = fl.connect(**{name: told[name] for name in named})",
            f"store = fl.Store({str(tmp_path / 'store')!r})",
            "first, second = store.sync(client), store.sync(client, workers=2)",
            "print(first.new > 60, second['transfers'].new)",
            "import os; from fundlab.cli import run",
            "os.environ |= {f'FUNDLAB_{name.upper()}': told[name] for name in named}",
            f"run(['sync', '--quiet', '--store', {str(tmp_path / 'store')!r}])",
            "print({'pandas', 'duckdb', 'narwhals', 'numpy.ma'} & {*sys.modules} - own)",
            "import pandas",
            "print(len(store.read('transfers')))",
        )
    assert found.splitlines() == ["True 0", "set()", "60"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("command", "said"),
    [(["status", "--offline"], "transfers pending"), (["balances"], "Treasury")],
)
def test_a_look_at_a_store_imports_neither_pandas_nor_duckdb(command: list[str], said: str) -> None:
    given = [*command, "--store", str(sample().path)]
    found = run(
        "import atexit, sys; from fundlab.cli import main",
        "told = lambda: print({'pandas', 'duckdb', 'jinja2', 'tqdm'} & {*sys.modules})",
        f"atexit.register(told); sys.argv = ['fundlab', *{given!r}]",
        "from contextlib import suppress",
        "with suppress(SystemExit): main()",
    )
    assert found.splitlines()[-1] == "set()"
    assert said in found


ARROW_OF_PANDAS = (
    "print(pa.array(pd.Series([1, None], dtype='Int64')).type)",
    "print(pa.array([pd.NA, pd.NaT, 'a'], pa.string(), from_pandas=True).null_count)",
    "print(pa.array(pd.Series(['0.1'], dtype='decimal')).type)",
    "print(pa.Table.from_pandas(pd.DataFrame({'a': [1]})).num_rows)",
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "before",
    [
        "import fundlab, pyarrow as pa; pa.array([1], pa.int8()); import pandas as pd",
        pytest.param(
            "import pyarrow as pa; import fundlab; pa.array([1], pa.int8()); import pandas as pd",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "import pyarrow as pa; pa.array([1], pa.int8()); import fundlab, pandas as pd",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            "import fundlab, pyarrow as pa; pa.table({}).to_pandas(); import pandas as pd",
            marks=pytest.mark.thorough,
        ),
        pytest.param("import pandas as pd, pyarrow as pa, fundlab", marks=pytest.mark.thorough),
    ],
)
def test_arrow_knows_what_is_pandas_own_whichever_comes_first(before: str) -> None:
    assert run(before, *ARROW_OF_PANDAS).splitlines() == [
        "int64",
        "2",
        "decimal128(38, 18)",
        "1",
    ]


@pytest.mark.thorough
def test_where_it_comes_later_it_keeps_its_own_loader_and_nobody_waits_any_more() -> None:
    found = run(
        "import sys, fundlab, pandas",
        SUM,
        "print(type(pandas.__loader__).__name__, pandas.__spec__.loader is pandas.__loader__)",
        "print(any('pandas' in vars(one).get('followed', ()) for one in sys.meta_path))",
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


@pytest.mark.thorough
def test_who_only_looks_for_pandas_does_not_end_the_waiting() -> None:
    found = run(
        "import fundlab, importlib.util",
        "importlib.util.find_spec('pandas'); importlib.util.find_spec('pandas')",
        "import pandas",
        SUM,
    )
    assert found == "0.3"
