"""It installs beside what analysts have: today's releases of each, resolved together.

The resolver asks the registry, as an installation does. With ``-m slow`` each is installed in a
clean environment, and its own smoke test and ours run there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from registry import run_at_registry

ROOT = Path(__file__).parents[1]
OLDEST = "3.12"  # of today's Databricks Connect
NEIGHBOURS = {  # floors, so that the resolver takes no ancient one; and what shows that it runs
    "pandas==2.2.*": "import pandas; assert pandas.__version__.startswith('2.2')",
    "pyarrow==18.*": "import pyarrow; assert pyarrow.__version__.startswith('18')",
    "awswrangler>=3.16": "import awswrangler, pandas; awswrangler.s3.to_parquet",
    "databricks-connect>=19": (
        "from databricks.connect import DatabricksSession; DatabricksSession.builder"
    ),
    "streamlit>=1.60": (
        "from streamlit.testing.v1 import AppTest\n"
        "app = AppTest.from_string('import streamlit, fundlab as fl;'"
        "'streamlit.dataframe(fl.sample().read(\"balances\"))').run(timeout=300)\n"
        "assert not app.exception, app.exception"
    ),
    "dlt>=1.30": (
        "import dlt\n"
        "rows = dlt.resource([{'id': 1}], name='rows')\n"
        "assert [row['id'] for row in rows] == [1]"
    ),
    "databento>=0.85": "import databento; databento.Historical('db-' + 'a' * 29)",
    "pandera[pandas]>=0.33": (
        "import pandera.pandas as pa, pandas\n"
        "pa.DataFrameSchema({'x': pa.Column(int)}).validate(pandas.DataFrame({'x': [1]}))"
    ),
}
OURS = """
import fundlab as fl
store = fl.sample()
transfers, balances = store.read("transfers"), store.read("balances")
assert (fl.reconcile.compare(transfers, balances)["status"] == "match").all()
assert fl.checks.invariants(transfers).empty and len(fl.fees.effective(transfers))
assert len(fl.flows.net(transfers)) and fl.reconcile.judge(store).state == "proved"
"""


@pytest.mark.thorough
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_it_resolves_beside(neighbour: str) -> None:
    done = run_at_registry(
        [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header",
         "--python-version", OLDEST, "-"],
        input=f"-e {ROOT}\n{neighbour}\n", cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    name = neighbour.partition("=")[0].rstrip(">").partition("[")[0]
    assert f"\n{name}==" in f"\n{done.stdout}"


@pytest.mark.slow
@pytest.mark.parametrize("neighbour", NEIGHBOURS)
def test_both_run_where_both_are_installed(neighbour: str, tmp_path: Path) -> None:
    wheel = ["-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT)]
    subprocess.run([sys.executable, *wheel], check=True)
    (built,) = tmp_path.glob("*.whl")
    environment = tmp_path / "environment"
    uv = [sys.executable, "-m", "uv"]
    python = str(environment / "bin" / "python")
    of_pyenv = Path.home().glob(f".pyenv/versions/{OLDEST}.*/bin/python3")  # whose shims may refuse
    base = str(next(of_pyenv, OLDEST))
    subprocess.run([*uv, "venv", "--quiet", "--python", base, str(environment)], check=True)
    install = [*uv, "pip", "install", "--quiet", "--python", python, str(built), neighbour]
    installed = run_at_registry(install)
    assert installed.returncode == 0, installed.stderr[-2000:]
    for code in (NEIGHBOURS[neighbour], OURS):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
