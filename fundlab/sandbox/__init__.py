"""The whole service on one's own machine: real HTTP, tokens, signatures, states and a ledger.

``serve()`` starts it in the background, ``run()`` in the foreground. What the interface leaves open
is decided as the project's documentation says; the business clock, faults and seed data make it a
test bench.
"""

from typing import Any

from fundlab.base.errors import SandboxError, install_command

try:
    from fundlab.sandbox.run import run
    from fundlab.sandbox.serve import Sandbox, serve
except ModuleNotFoundError as error:
    if (error.name or "").startswith("fundlab"):
        raise
    _lacking = error

    def __getattr__(name: str) -> Any:
        """Without the extra the package can be imported, and says so where it is used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        raise SandboxError(
            f"the sandbox needs {_lacking.name}, which is not installed: run "
            f"{install_command('sandbox')}"
        ) from _lacking


__all__ = ["Sandbox", "run", "serve"]
__dir__ = __all__.copy  # what completion offers
