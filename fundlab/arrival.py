"""The decimal column arrives in pandas together with pandas itself.

pandas takes half a second to import, and ``fundlab --help`` has no use for it. So importing fundlab
loads `fundlab.decimals` at once where pandas is there already, and otherwise as the last step of
whoever imports pandas: from then on the type ``decimal`` is known.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

HOST: Final = "pandas"
GUEST: Final = "fundlab.decimals"


def arrive() -> None:
    """Load the guest now or with its host; once, when the package is imported."""
    if HOST in sys.modules:
        importlib.import_module(GUEST)
    elif not any(isinstance(finder, _Companion) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Companion())


class _Companion(MetaPathFinder):
    """Finds the host as the other finders do, and sees to it that the guest follows."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != HOST:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _ThenGuest(spec.loader, self)
                return spec
        return None


class _ThenGuest(Loader):
    """The host's own loader, and the guest after it."""

    def __init__(self, own: Loader, companion: _Companion) -> None:
        self._own, self._companion = own, companion

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        module.__loader__ = self._own
        self._own.exec_module(module)
        if self._companion in sys.meta_path:
            sys.meta_path.remove(self._companion)
        importlib.import_module(GUEST)
