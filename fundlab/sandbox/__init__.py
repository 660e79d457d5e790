"""The whole service on one's own machine: real HTTP, tokens, signatures, states and a ledger.

``serve()`` starts it in the background, ``run()`` in the foreground. What the interface leaves open
is decided as the project's documentation says; the business clock, faults and seed data make it a
test bench.
"""

from fundlab.sandbox.run import run
from fundlab.sandbox.serve import Sandbox, serve

__all__ = ["Sandbox", "run", "serve"]
