"""The decimal column arrives in pandas together with pandas itself, and not before it is needed.

pandas takes half a second to import, and neither ``fundlab --help`` nor a sync has any use for it.
So importing fundlab loads `fundlab.decimals` at once where pandas is there already, and otherwise
as the last step of whoever imports pandas: from then on the type ``decimal`` is known.

Arrow imports pandas with the first array it makes, only to recognise what is pandas' own. It takes
a refusal for an answer until it is asked for a frame, so that once pandas is there it is asked for
one at once. (`fundlab.base.arrow` has what else would import it.)
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def arrive(load_column: Callable[[], object]) -> None:
    """Load the column now or with pandas; once, when the package is imported."""
    refused: list[Any] = []

    def with_arrow() -> None:
        if "pandas" not in sys.modules:
            arrow, refusal = sys.modules["pyarrow"], _Refusal("pandas")
            sys.meta_path.insert(0, refusal)
            try:
                arrow.array([], arrow.null())
            finally:
                sys.meta_path.remove(refusal)
            refused.append(arrow)

    def with_pandas() -> None:
        for arrow in refused:
            arrow.table({}).to_pandas()
        load_column()

    when_imported("pyarrow", with_arrow)
    when_imported("pandas", with_pandas)


def when_imported(name: str, follow: Callable[[], object]) -> None:
    """Call `follow` now if the module is imported, otherwise as the last step of its import."""
    if name in sys.modules:
        follow()
    else:
        sys.meta_path.insert(0, Companion(name, follow))


class _Refusal:
    """Says to this thread that a module is not there."""

    def __init__(self, name: str) -> None:
        self._name, self._thread = name, threading.get_ident()

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == self._name and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{fullname} is imported where it is needed", name=fullname)


class Companion:
    """Finds a module as the other finders do, and sees to it that `follow` comes after it."""

    def __init__(self, name: str, follow: Callable[[], object]) -> None:
        self._name = name
        self._follow = follow
        self._asking = False

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._name or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_both(module: ModuleType) -> None:
            run(module)
            # only now: who looks for a module may not import it, and a failed import be repeated
            sys.meta_path.remove(self)
            self._follow()

        setattr(spec.loader, "exec_module", run_both)  # noqa: B010 - of this loader only
        return spec
