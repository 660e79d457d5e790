"""Every resource, request, query, enumeration and operation of the interface, once.

Answers (``Resource``) read leniently: unknown fields and enum values are kept, absent ones are
``None``, and ``to_json()`` gives back what was read, unchanged. Requests (``Request``) and queries
(``Query``) are strict: they are checked before anything is sent, and by the sandbox on arrival.
Section numbers are those of the interface.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fundlab.models import enumerations, resources
from fundlab.models.enumerations import *  # noqa: F403 - as their ``__all__`` says
from fundlab.models.resources import *  # noqa: F403

if TYPE_CHECKING:
    from fundlab.models.operations import *  # noqa: F403
    from fundlab.models.requests import *  # noqa: F403

_LATER = "operations", "requests"


def __getattr__(name: str) -> Any:
    """Of what is asked of a service: who only reads a store has no use for it."""
    if name == "__all__":
        return __dir__()
    for module in map(import_module, [f"{__name__}.{later}" for later in _LATER]):
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    later = [import_module(f"{__name__}.{name}") for name in _LATER]
    return [name for one in (enumerations, resources, *later) for name in one.__all__]
