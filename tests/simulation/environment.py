"""Time, chance and threads of this process come from the seed. Installed before the program is
imported: it holds on to ``time.time_ns`` and the like as it is loaded.

Nothing of the program is replaced but what it runs on: the clock, the system's randomness, the
order of threads.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import gc
import importlib
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final

NS: Final = 1_000_000_000
BEGIN_NS: Final = 1_793_491_200 * NS  # 2026-11-01, where the sandbox's business time begins
real_cpu_s: Final = time.process_time
real_clock_s: Final = time.monotonic


class Virtual:
    """Virtual time (``now_ns``) and chance of the run under way."""

    now_ns: int = BEGIN_NS
    at_service: bool = False
    """The service has a clock of its own, which is right."""
    skew_ns: Callable[[], int] = staticmethod(lambda: 0)
    """How far the wall clock of the machine that asks is wrong."""
    sleep: Callable[[float], object] = staticmethod(lambda _: None)
    chance: random.Random = random.Random(0)


def wall_ns() -> int:
    return Virtual.now_ns + (0 if Virtual.at_service else Virtual.skew_ns())


class Awaited(Future[Any]):
    """What ``work`` gives, done as late as it may be: when somebody asks for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work = work

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            try:
                self.set_result(self._work())
            except Exception as error:  # noqa: BLE001 - raised again in the next line
                self.set_exception(error)
        return super().result(timeout)


class Inline:
    """An executor without threads: what it is given is done when its result is asked for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Of a pool nothing is kept."""

    def submit(self, work: Callable[..., Any], *args: Any, **keywords: Any) -> Future[Any]:
        return Awaited(functools.partial(work, *args, **keywords))

    def map(self, work: Callable[..., Any], *items: Any) -> Iterator[Any]:
        return iter([work(*item) for item in zip(*items, strict=False)])

    def shutdown(self, *_: Any, **__: Any) -> None:
        """There is nothing to wait for."""

    def __enter__(self) -> Inline:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to wait for."""


class Produced:
    """As ``fundlab.base.threads.produced``: an item of each source in turn. A source that waits for
    another (``Waits``) lets the others go on from where it stands."""

    here = threading.local()
    """``now``: of the sources that this thread lets go on, whose they are."""

    def __init__(self, sources: Sequence[Generator[Any]], _ahead: int) -> None:
        self._waiting, self._all = deque(sources), sources
        self._ready = deque[tuple[Any, BaseException | None]]()

    def __iter__(self) -> Produced:
        return self

    def __next__(self) -> Any:
        while not self._ready:
            if not self.go_on():
                raise StopIteration
        item, error = self._ready.popleft()
        if error is not None:
            self.close()
            raise error
        return item

    def go_on(self) -> bool:
        """Let the next source that does not wait come to an item; whether there was one."""
        if not self._waiting:
            return False
        source, before = self._waiting.popleft(), getattr(self.here, "now", None)
        self.here.now = self
        try:
            self._ready.append((next(source), None))
            self._waiting.append(source)
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - raised again where the item is asked for
            self._ready.append((None, error))
        finally:
            self.here.now = before
        return True

    def close(self) -> None:
        self._waiting.clear()
        for source in self._all:
            source.close()


class Waits:
    """A ``threading.Condition`` of sources: who waits goes on once it was told to look again."""

    def __init__(self) -> None:
        self._told: list[bool] = []

    def __enter__(self) -> None:
        """One source runs at a time."""

    def __exit__(self, *_: object) -> None:
        """There is no lock."""

    def wait_for(self, condition: Callable[[], Any]) -> None:
        place = len(self._told)
        self._told.append(True)
        while not (self._told[place] and condition()):
            self._told[place] = False
            if not Produced.here.now.go_on():
                raise RuntimeError("a source waits for what nobody will say")
        self._told.pop()

    def notify(self) -> None:
        if False in self._told:
            self._told[self._told.index(False)] = True

    def notify_all(self) -> None:
        self._told[:] = [True] * len(self._told)


def _one_thread(
    connect: Callable[..., Any], *given: Any, config: dict[str, Any] | None = None, **more: Any
) -> Any:
    return connect(*given, config={**(config or {}), "threads": 1}, **more)


def install() -> None:
    """Raises ``RuntimeError`` where the program has been imported already."""
    if any(name == "fundlab" or name.startswith("fundlab.") for name in sys.modules):
        raise RuntimeError("the program was imported before its environment was made")
    time.time_ns = wall_ns
    time.time = lambda: wall_ns() / NS
    time.monotonic_ns = time.perf_counter_ns = lambda: Virtual.now_ns
    time.monotonic = time.perf_counter = lambda: Virtual.now_ns / NS
    time.sleep = lambda seconds: Virtual.sleep(seconds)  # type: ignore[assignment, arg-type]
    os.urandom = lambda size: Virtual.chance.randbytes(size)
    os.getpid = lambda: 4711  # messages show it
    os.cpu_count = lambda: 2
    random._urandom = os.urandom  # type: ignore[attr-defined]
    concurrent.futures.ThreadPoolExecutor = Inline  # type: ignore[assignment, misc]


def load() -> None:
    """Load the program, once for all runs of this process: some of it draws by chance when it is
    loaded or first used, and a seed that has been given that would give something else later."""
    import duckdb
    import duckdb._relation as relations
    import fastapi.dependencies.utils as routes
    import pyarrow as pa
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    import fundlab.base.threads

    # threads of their own hand over rows in an order of their own
    duckdb.connect = functools.partial(_one_thread, duckdb.connect)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    fundlab.base.threads.produced = Produced  # type: ignore[assignment, misc]
    condition, threading.Condition = threading.Condition, Waits  # type: ignore[assignment, misc]
    importlib.import_module("fundlab.sync.windows")  # it makes one for each load
    threading.Condition = condition  # type: ignore[misc]
    # OpenSSL has chance of its own
    Ed25519PrivateKey.generate = staticmethod(  # type: ignore[method-assign]
        lambda: Ed25519PrivateKey.from_private_bytes(Virtual.chance.randbytes(32))
    )
    # asked anew for each member of each request, a quarter of what the service takes
    for name in ("field_annotation_is_sequence", "_get_param_aliases", "_is_json_field"):
        setattr(routes, name, functools.cache(getattr(routes, name)))

    # looks through each expression for a warning that nobody is shown
    relations._warn_on_literal_names = lambda value, columns: None

    import fundlab.payments.actions
    import fundlab.reports
    import fundlab.sandbox.history
    import fundlab.store.changes
    import fundlab.store.objects
    import fundlab.store.parts
    import fundlab.store.staging
    from fundlab.store.duck import shared_connection

    # a day's hundred rows are in as many pieces as a year's hundred thousand
    fundlab.store.parts.ROW_GROUP_ROWS = 24  # type: ignore[misc]
    fundlab.store.staging.FILE_ROWS = fundlab.store.changes.FILE_ROWS = 20  # type: ignore[misc]
    fundlab.store.objects._READ = 50_000  # type: ignore[misc]

    shared_connection()
    gc.collect()
    gc.freeze()
    gc.disable()  # a run says when, for what is found then may have something to do at its end
    atexit.register(gc.unfreeze)
