"""Runs of the store that end badly at a chosen step: killed outright, or with a disk that fails.

``Runner`` is one process that has imported everything and forks once a run, so a thousand runs take
minutes. A step is anything that touches the disk or the service. Run as a script, this file is
that process: it reads one JSON object a line and answers with how the run ended.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from fake_service import FakeService, moment, transfer, withdrawal

from fundlab import Store
from fundlab.base.errors import StoreError, StoreLocked
from fundlab.store import compaction, parts, staging

ROWS = 120


def first_state() -> FakeService:
    """Transfers of three profiles and as many events, ten to a page."""
    rows = [transfer(n, profile_id=f"p-{n % 3}") for n in range(ROWS)]
    rows += [withdrawal(ROWS + n, profile_id="p-1", amount="0.5", total="0.5") for n in range(10)]
    events = [{"id": f"e-{n:04d}", "created_at": moment(n)} for n in range(ROWS)]
    return FakeService(rows, events=events, largest_page=10)


def second_state() -> FakeService:
    """Later: the withdrawals are completed, and there are thirty more transfers."""
    service = first_state()
    for row in service.transfers[ROWS:]:
        row.update(status="COMPLETED", updated_at=moment(5000))
    service.transfers += [transfer(5000 + n, profile_id=f"p-{n % 4}") for n in range(30)]
    return service


@dataclass(frozen=True)
class Run:
    """``work`` is ``first``, ``second`` (a sync with that state), ``merging`` (the second, which
    removes what was merged before, and merges the files at its end), ``compact``, or ``backup``,
    into a folder beside the store's.

    At ``step`` the process is killed, or from there on the disk fails with the error ``fault``.
    ``step`` 0 counts the steps only.
    """

    store: str
    work: str
    step: int = 0
    fault: str | None = None
    lasting: bool = True
    workers: int = 1


@dataclass(frozen=True)
class Outcome:
    """``ended``: ``done``, ``killed``, ``locked``, ``refused`` (a StoreError), or the error."""

    ended: str
    steps: int = 0
    message: str = ""


class Runner:
    """Starts runs, waits for them, and says how they ended."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *runs: Run) -> list[Outcome]:
        """All of ``runs`` side by side."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([asdict(run) for run in runs]) + "\n")
        self._process.stdin.flush()
        return [Outcome(**found) for found in json.loads(self._process.stdout.readline())]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Steps:
    """Counts what touches the disk or the service, and strikes at the chosen one."""

    def __init__(self, run: Run) -> None:
        self.run, self.count = run, 0

    def take(self, torn: Callable[[], object] | None = None, *, disk: bool = True) -> None:
        self.count += 1
        run = self.run
        if run.fault is None:
            if self.count == run.step:
                if torn is not None:
                    torn()
                os.kill(os.getpid(), signal.SIGKILL)
        elif (
            disk
            and run.step
            and (self.count >= run.step if run.lasting else self.count == run.step)
        ):
            if torn is not None:
                torn()
            number = getattr(errno, run.fault)
            raise OSError(number, os.strerror(number))

    def before(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def taken(*args: Any, **keywords: Any) -> Any:
            self.take()
            return original(*args, **keywords)

        return taken

    def opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(path: Path, mode: str = "r", *args: Any, **keywords: Any) -> Any:
            file = original(path, mode, *args, **keywords)
            return Torn(file, self) if mode == "xb" else file

        return opened


class Torn:
    """A file whose write may be cut in half."""

    def __init__(self, file: Any, steps: Steps) -> None:
        self._file, self._steps = file, steps

    def write(self, data: Any) -> Any:
        content = bytes(data)

        def half() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        self._steps.take(half)
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Torn:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def work(run: Run) -> Outcome:
    """In a process of its own: what ``run`` says."""
    steps = Steps(run)
    staging.FILE_ROWS = 25  # type: ignore[misc]
    parts.ROW_GROUP_ROWS = 40  # type: ignore[misc]
    os.fsync = steps.before(os.fsync)
    for name in ("rename", "mkdir"):
        setattr(pathlib.Path, name, steps.before(getattr(pathlib.Path, name)))
    pathlib.Path.open = steps.opening(pathlib.Path.open)  # type: ignore[method-assign]
    if run.fault is None:
        pathlib.Path.unlink = steps.before(pathlib.Path.unlink)  # type: ignore[method-assign]
    store = Store(run.store)
    try:
        if run.work == "compact":
            store.compact()
        elif run.work == "backup":
            store.backup(f"{run.store}-copy")
        else:
            if run.work == "merging":
                compaction.GRACE_S = 0  # type: ignore[misc]
                compaction.WORTH_ROWS = compaction.FILE_ROWS  # type: ignore[misc]
            service = first_state() if run.work == "first" else second_state()
            service.hook = lambda operation, params: steps.take(disk=False)
            store.sync(service, workers=run.workers)  # type: ignore[arg-type]
    except StoreLocked as error:
        return Outcome("locked", steps.count, str(error))
    except StoreError as error:
        return Outcome("refused", steps.count, str(error))
    return Outcome("done", steps.count)


def fork(run: Run) -> tuple[int, int]:
    """The process and where its outcome can be read."""
    reading, writing = os.pipe()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading
    try:
        outcome = work(run)
    except BaseException as error:  # noqa: BLE001 - reported to the test
        outcome = Outcome(f"{type(error).__name__}: {error}")
    os.write(writing, json.dumps(asdict(outcome)).encode())
    os._exit(0)


def collect(process: int, reading: int) -> dict[str, Any]:
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return asdict(Outcome("killed" if os.WTERMSIG(status) == signal.SIGKILL else "crashed"))
    found: dict[str, Any] = json.loads(text)
    return found


def main() -> None:
    for line in sys.stdin:
        started = [fork(Run(**found)) for found in json.loads(line)]
        print(json.dumps([collect(*one) for one in started]), flush=True)


if __name__ == "__main__":
    main()
