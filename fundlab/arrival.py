"""The decimal column arrives in pandas together with pandas itself.

pandas takes half a second to import, and ``fundlab --help`` has no use for it. So importing fundlab
loads `fundlab.decimals` at once where pandas is there already, and otherwise as the last step of
whoever imports pandas: from then on the type ``decimal`` is known.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


def arrive() -> None:
    """Load the column now or with pandas; once, when the package is imported."""
    if "pandas" in sys.modules:
        importlib.import_module("fundlab.decimals")
    else:
        sys.meta_path.insert(0, Companion())


class Companion:
    """Finds pandas as the other finders do, and sees to it that the column follows."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)  # pandas may be installed later on
            return spec
        run = spec.loader.exec_module

        def run_both(module: ModuleType) -> None:
            try:
                run(module)
            except BaseException:
                sys.meta_path.insert(0, self)  # a failed import can be repeated
                raise
            importlib.import_module("fundlab.decimals")

        setattr(spec.loader, "exec_module", run_both)  # noqa: B010 - of this loader only
        return spec
