"""What only the extra ``test-all`` installs: thorough tests ask for it, the quick ones do without.

Where ``TEST_ALL`` is set, as in ``.ci/run``, nothing may be skipped for want of a package.
"""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from typing import Any

import pytest


def needs(name: str) -> Any:
    """The module; where it is not installed, the test that asks is skipped."""
    if find_spec(name.partition(".")[0]) is None and not os.environ.get("TEST_ALL"):
        reason = f"{name} is not installed: it comes with pip install -e '.[test-all]'"
        pytest.skip(reason)
    return importlib.import_module(name)
