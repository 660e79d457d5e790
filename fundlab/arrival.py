"""The decimal column arrives in pandas together with pandas itself.

pandas takes half a second to import, and ``fundlab --help`` has no use for it. So importing fundlab
loads `fundlab.decimals` at once where pandas is there already, and otherwise as the last step of
whoever imports pandas: from then on the type ``decimal`` is known.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType


def arrive() -> None:
    """Load the column now or with pandas; once, when the package is imported."""
    when_imported("pandas", lambda: importlib.import_module("fundlab.decimals"))


def when_imported(name: str, follow: Callable[[], object]) -> None:
    """Call `follow` now if the module is imported, otherwise as the last step of its import."""
    if name in sys.modules:
        follow()
    else:
        sys.meta_path.insert(0, Companion(name, follow))


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
