"""The decimal column arrives in pandas together with pandas itself, and not before it is needed.

pandas takes half a second to import, and neither ``fundlab --help`` nor a sync has any use for it.
So importing fundlab loads `fundlab.decimals` at once where pandas is there already, and otherwise
as the last step of whoever imports pandas: from then on the type ``decimal`` is known.

Arrow imports pandas with the first array it makes, and with each value of Python's whose type it is
to find, only to recognise what is pandas' own: :func:`without_pandas` refuses it. It takes that for
an answer until it is asked for a frame, so that once pandas is there it is asked for one at once.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final


def arrive(load_column: Callable[[], object]) -> None:
    """Load the column now or with pandas; once, when the package is imported."""
    refused: list[Any] = []

    def with_arrow() -> None:
        if "pandas" not in sys.modules:
            arrow = sys.modules["pyarrow"]
            with without_pandas():
                arrow.array([], arrow.null())
            refused.append(arrow)

    def with_pandas() -> None:
        for arrow in refused:
            arrow.table({}).to_pandas()
        load_column()

    sys.meta_path.insert(0, _FINDER)
    when_imported("pyarrow", with_arrow)
    when_imported("pandas", with_pandas)


def when_imported(name: str, follow: Callable[[], object]) -> None:
    """Call `follow` now if the module is imported, otherwise as the last step of its import."""
    if name in sys.modules:
        follow()
    else:
        _FINDER.followed.setdefault(name, []).append(follow)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Pandas, where it is not there yet, is not imported by this thread meanwhile."""
    threads, this = _FINDER.refused, threading.get_ident()
    inner = this in threads
    threads.add(this)
    try:
        yield
    finally:
        if not inner:
            threads.remove(this)


class _Finder:
    """Stands before the other finders, and stays there: who takes one out makes another thread skip
    the next one. Says to the threads ``refused`` that pandas is not there; finds a module that is
    ``followed`` as the others do, and sees to it that what follows comes after it."""

    def __init__(self) -> None:
        self.refused: set[int] = set()
        self.followed: dict[str, list[Callable[[], object]]] = {}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname == "pandas" and threading.get_ident() in self.refused:
            raise ModuleNotFoundError(f"{fullname} is imported where it is needed", name=fullname)
        follows = self.followed.pop(fullname, None)
        if follows is None:
            return None
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.followed[fullname] = follows
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_all(module: ModuleType) -> None:
            run(module)
            # only now: who looks for a module may not import it, and a failed import be repeated
            for follow in self.followed.pop(fullname, ()):
                follow()

        setattr(spec.loader, "exec_module", run_all)  # noqa: B010 - of this loader only
        return spec


_FINDER: Final = _Finder()
