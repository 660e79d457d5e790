"""A progress bar for long work in a notebook or a terminal; elsewhere one line in the log."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from typing import Any, Self

from tqdm import TqdmWarning

with warnings.catch_warnings():
    warnings.simplefilter("ignore", TqdmWarning)  # without ipywidgets the bar is text: good enough
    from tqdm.auto import tqdm

log = logging.getLogger(__name__)


def progress_bar(
    total: int | None = None,
    unit: str = "rows",
    desc: str | None = None,
    enabled: bool | None = None,
) -> Any:
    """A ``tqdm`` bar with rows, rows a second and the time left, that goes away when done.

    ``enabled=None`` shows it only where it is seen; elsewhere the log gets one line at the end.
    """
    if not _is_shown(enabled):
        return _Line(desc or unit, unit)
    return tqdm(total=total, unit=f" {unit}", desc=desc, leave=False, dynamic_ncols=True)


def _is_shown(enabled: bool | None) -> bool:
    if in_notebook():
        return enabled is not False
    if sys.stderr is None:  # closed, as some schedulers do
        return False
    return sys.stderr.isatty() if enabled is None else enabled


class _Line:
    """Counts like a bar, and says one line at the end."""

    def __init__(self, desc: str, unit: str) -> None:
        self.n, self._desc, self._unit = 0, desc, unit
        self._started = time.monotonic()

    def update(self, n: int = 1) -> None:
        self.n += n

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *rest: object) -> None:
        seconds = time.monotonic() - self._started
        rate = self.n / seconds if seconds else 0
        stopped = " before it stopped" if error is not None else ""
        log.info(
            "%s: %s %s in %.1f s, %s a second%s",
            self._desc, f"{self.n:,}", self._unit, seconds, f"{rate:,.0f}", stopped,
        )  # fmt: skip


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config
