"""A progress bar for long work: in a notebook or a terminal, and nowhere else."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm


def progress_bar(
    total: int | None = None,
    unit: str = "rows",
    desc: str | None = None,
    enabled: bool | None = None,
) -> Any:
    """A ``tqdm`` bar that goes away when done; ``enabled=None`` shows it only where it is seen."""
    shown = (_in_notebook() or sys.stderr.isatty()) if enabled is None else enabled
    return tqdm(
        total=total, unit=f" {unit}", desc=desc, leave=False, disable=not shown, dynamic_ncols=True
    )


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config
