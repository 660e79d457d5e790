"""A progress bar for long work in a notebook or a terminal; elsewhere one line in the log."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)
_AT_ONCE: Final = 0.5
"""Seconds: what is done sooner shows no bar in a notebook, where it leaves an empty output."""
LEAST: Final = {"rows": 300_000, "bytes": 100_000_000}
"""What takes about a second to read, merge or copy."""
T = TypeVar("T")


@contextmanager
def progress_bar(
    total: int | None = None,
    unit: str = "rows",
    desc: str | None = None,
    enabled: bool | None = None,
) -> Iterator[Any]:
    """A ``tqdm`` bar with rows, rows a second and the time left, that goes away when done.

    ``enabled=None`` shows it only where it is seen; elsewhere the log gets one line at the end.
    """
    given: dict[str, Any] = {"total": total, "unit": f" {unit}", "desc": desc, "leave": False}
    notebook = in_notebook()
    if notebook:
        shown = enabled is not False
    elif sys.stderr is None:  # closed, as some schedulers do
        shown = False
    else:
        shown = sys.stderr.isatty() if enabled is None else enabled
    if shown and notebook:
        with _cell_bar(given) as bar:
            yield bar
        return
    if shown:
        from tqdm import tqdm  # which takes a while to load

        with tqdm(**given, dynamic_ncols=True) as bar:
            yield bar
        return
    count, started, stopped = _Count(), time.monotonic(), " before it stopped"
    try:
        yield count
        stopped = ""
    finally:
        seconds = time.monotonic() - started
        rate = count.n / seconds if seconds else 0
        log.info(
            "%s: %s %s in %.1f s, %s a second%s",
            desc or unit, f"{count.n:,}", unit, seconds, f"{rate:,.0f}", stopped,
        )  # fmt: skip


def with_progress(
    sized: Iterable[tuple[int, T]],
    total: int,
    desc: str,
    unit: str = "rows",
    enabled: bool | None = None,
) -> Iterator[T]:
    """Each of ``sized``, which has its size beside it, while a bar shows how much of ``total`` is
    done; none of less than a person would wait for."""
    if total < LEAST[unit]:
        yield from (item for _, item in sized)
        return
    with progress_bar(total, unit, desc, enabled) as bar:
        for size, item in sized:
            yield item
            bar.update(size)


def expect(bar: Any, total: int | None) -> None:
    """Have ``bar`` show the time left until ``total``, which may be another one later."""
    if total is None:
        return
    bar.total = total
    if hasattr(bar, "container"):  # a widget keeps its own, and its width where there was none
        widget = bar.container.children[1]
        widget.max, widget.layout.width = total, None


class _Count:
    """Counts like a bar, unseen."""

    n = 0
    total: int | None = None

    def update(self, n: int = 1) -> None:
        self.n += n


@contextmanager
def _cell_bar(given: dict[str, Any]) -> Iterator[Any]:
    """A widget where there are widgets, else text, of what is not done in half a second, in an
    output of its own that is emptied at the end. What is written to standard error would stay as a
    red stripe."""
    output = _Output()
    if find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget

        bar: Any = widget(**given, display=False, delay=_AT_ONCE)
        bar.displayed, draw = True, bar.display  # by us

        def display(msg: str | None = None, *rest: Any, **how: Any) -> None:
            if msg != "" and not how.keys() & {"close", "bar_style"}:  # as it has when it ends
                output.show(bar.container)
            draw(msg, *rest, **how)

        bar.display = bar.disp = display
    else:
        from tqdm import tqdm

        bar = tqdm(**given, file=output, ncols=80, ascii=False, mininterval=0.25, delay=_AT_ONCE)
    try:
        yield bar
    finally:
        bar.close()
        output.show({}, raw=True)  # a closed widget would leave its name


class _Output:
    """One output of a cell, once there is anything to show in it: also a file in which each line
    that is written replaces the one before."""

    def __init__(self) -> None:
        self._output: Any = None

    def show(self, what: Any, raw: bool = False) -> None:
        if self._output is not None:
            self._output.update(what, raw=raw)
        elif what:
            display = import_module("IPython.display").display  # a kernel brings it
            self._output = display(what, raw=raw, display_id=True)

    def write(self, text: str) -> None:
        line = text.strip()
        self.show({"text/plain": line} if line or self._output else {}, raw=True)

    def flush(self) -> None:
        pass


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config
