"""Service → typed DataFrames; ``table_pages.py`` is what a sync uses too: the pages of a list."""

from fundlab.load.loaders import (
    load_addresses,
    load_balances,
    load_deposit_instructions,
    load_events,
    load_fiat_accounts,
    load_transfers,
)
from fundlab.load.paths import load_path

__all__ = [
    "load_addresses",
    "load_balances",
    "load_deposit_instructions",
    "load_events",
    "load_fiat_accounts",
    "load_path",
    "load_transfers",
]
