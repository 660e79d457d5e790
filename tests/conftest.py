"""What every test starts from, and what every campaign shares: a seed and a line with its figure.

``CAMPAIGN_SEED=11 pytest -m campaign`` replays all campaigns with seed 11. Each
also runs at a small part of its size, with the mark ``thorough``, in CI.

``DECIMAL_PRECISION=5 pytest tests/reports`` runs tests in a context of five digits that rounds up.
"""

from __future__ import annotations

import asyncio
import compileall
import decimal
import faulthandler
import fcntl
import gc
import io
import itertools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from _pytest.runner import runtestprotocol

for _name in [name for name in os.environ if name.startswith("FUNDLAB_")]:
    del os.environ[_name]  # the settings of whoever runs the tests are not the tests'

DEFAULT_SEED = 7
SHOWN_S = 0.005
"""What takes longer ``--durations`` shows."""
LONGEST_CAMPAIGN_S = 3 * 3600
"""For a test that has the mark ``campaign`` or ``slow``; of others pyproject.toml says it."""
_JOURNALS = itertools.count()
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_LOGGER = logging.getLogger("fundlab")

Figure = Callable[[str], None]
Command = Callable[..., tuple[int, str, str]]


def pytest_configure(config: pytest.Config) -> None:
    """What a shell starts in the background ignores SIGINT, and so would each child of a test."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(20_000)  # Python looks for cycles after 700 objects: a twentieth of the time
    if config.getoption("numprocesses", 0) and not _WORKER:
        # It runs no test; its workers, which begin now, find the package compiled.
        if not sys.dont_write_bytecode:
            compileall.compile_dir(Path(__file__).parents[1] / "fundlab", quiet=2)
        return
    from hypothesis import settings

    settings.register_profile("timeless", settings(), deadline=None)  # a machine may be busy
    settings.load_profile("timeless")
    if precision := os.environ.get("DECIMAL_PRECISION"):  # of every thread that begins, too
        decimal.DefaultContext.prec = int(precision)
        decimal.DefaultContext.rounding = decimal.ROUND_UP
        decimal.setcontext(decimal.DefaultContext)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Nothing is looked for among what the modules make, which stays: a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    """Every other worker begins at the end: what one of two has compiled the other finds so."""
    report = yield
    if isinstance(collector, pytest.Directory) and _WORKER[-1:] in tuple("13579"):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)  # before ``-m`` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.partition("::")[0])
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        long = {"campaign", "slow"} & marks
        if not long and ("figure" in getattr(item, "fixturenames", ()) or "seconds" in marks):
            item.add_marker("thorough")


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """As pytest has it, but of a test that passes only ``call`` is reported, and of what is set up
    and torn down what takes a while: each report is packed, sent and read on the way to who
    prints, a thousandth of a second. Nobody there reads its keywords."""
    if item.get_closest_marker("campaign") or item.get_closest_marker("slow"):
        stderr = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(LONGEST_CAMPAIGN_S, file=stderr, exit=True)
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration > SHOWN_S:
            report.keywords = {}
            hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="session", autouse=True)
def _no_users_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is written into the folders of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        patched.setenv("FUNDLAB_JOURNAL", str(tmp_path_factory.getbasetemp() / "journal"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_stops() -> Iterator[None]:
    """A sandbox stops in 20 ms instead of 200: its server looks more often whether it should.

    The tests start a thousand of them, one after another.
    """

    def sleep(seconds: float, *given: Any) -> Any:
        return asyncio.sleep(min(seconds, 0.01), *given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "uvicorn.server.asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep})
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _nobody_pulls_the_plug() -> Iterator[None]:
    """No disk is waited for: a test that looks for what is made durable puts its own there.

    And DuckDB has one thread, as each of several workers asks it for a few rows.
    """
    import duckdb

    connect = duckdb.connect

    def with_one_thread(*given: Any, config: dict[str, Any] | None = None, **rest: Any) -> Any:
        return connect(*given, config={"threads": 1} | (config or {}), **rest)

    duckdb.execute("SET threads = 1")  # what has no connection of its own goes through this one
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("duckdb.connect", with_one_thread)
        patched.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def once_a_run(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, Callable[[Path], object]], Path]:
    """What is dear is made by the worker that asks first, and only read: the folder of that name.

    What makes it is given the folder, and leaves none where it fails.
    """
    here = tmp_path_factory.getbasetemp()
    shared = here.parent if "PYTEST_XDIST_WORKER" in os.environ else here

    def made(name: str, make: Callable[[Path], object]) -> Path:
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (shared / name).exists():
                make(shared / name)
        return shared / name

    return made


@pytest.fixture(autouse=True)
def _by_itself(_no_users_folders: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each test is a user of its own, in all its processes: its journal's folder is made when it
    pays. It leaves behind neither the level that the command line logs at nor a context of
    ``decimal``."""
    os.environ["FUNDLAB_JOURNAL"] = f"{tmp_path_factory.getbasetemp()}/journals/{next(_JOURNALS)}"
    level = _LOGGER.level
    with decimal.localcontext():
        yield
    _LOGGER.setLevel(level)


@pytest.fixture
def fundlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line, in this process: exit status, standard output, standard error."""
    from fundlab import cli

    def run(*arguments: object, answer: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["fundlab", *map(str, arguments)])
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return int(stop.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("CAMPAIGN_SEED", str(DEFAULT_SEED)))


@pytest.fixture
def figure(request: pytest.FixtureRequest, seed: int) -> Figure:
    """Say the campaign's figure; it stands at the end of the run, whatever became of the test."""
    return lambda text: request.node.user_properties.append(("figure", f"{text} (seed {seed})"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for found in terminalreporter.stats.values() for r in found if hasattr(r, "when")]
    said = [
        text
        for report in reports
        if report.when == "call"
        for name, text in report.user_properties
        if name == "figure"
    ]
    if said:
        terminalreporter.section("campaigns")
    for line in said:
        terminalreporter.write_line(line)
