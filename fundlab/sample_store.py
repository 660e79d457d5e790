"""The sample store that comes with fundlab: a year of transfers, opened without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fundlab.errors import StoreError
from fundlab.store import Store

_PACKAGE: Final = Path(__file__).parent
_PLACES: Final = (_PACKAGE / "data" / "sample", _PACKAGE.parent / "data" / "sample")
"""In an installed package, and in a clone of the project."""


def sample() -> Store:
    """The sample store, read-only: 3,000 transfers of four profiles in ten assets, with events,
    balances, accounts and addresses, from November 2025 to 2 November 2026; the pin ``october``
    is the state before the last weekend. ``data/make_sample.py`` makes it from the sandbox's seed.

    Raises ``StoreError`` where it was not installed.

    >>> sample = fl.sample()
    >>> len(sample.read("transfers"))
    3000
    >>> sample.verify().ok
    True
    """
    for path in _PLACES:
        if path.is_dir():
            return Store(path, read_only=True)
    raise StoreError(f"the sample store is not at {_PLACES[0]}; install fundlab again")
