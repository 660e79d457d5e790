"""Exact pandas analytics for a fiat and crypto funding service.

>>> import fundlab as fl
>>> with fl.sandbox.serve(seed=7, transfers=200) as sandbox:
...     transfers = fl.load_transfers(sandbox.connect())
>>> len(transfers)
200

Importing registers the exact money column with pandas, under the name ``decimal``, whichever of the
two is imported first; everything else is loaded on first use.

Examples throughout know ``pd`` and ``fl``, a ``sandbox`` with its ``client``, a ``store`` synced
from it, a ``folder``, and the five ``transfers`` of :mod:`fundlab.analysis`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any, Final

if importlib.util.find_spec("fcntl") is None:
    raise ImportError(
        f"fundlab runs on Linux and macOS, not on {sys.platform}: its store and payment journal "
        "need file locks that end with a process, folders that can be synced to the disk, and "
        "files that can be replaced while they are read; on Windows, install it in WSL"
    )

from fundlab import arrival

if TYPE_CHECKING:
    from fundlab import actions, bank, charts, decimals, errors, exports, models, sandbox
    from fundlab.actions import (
        deposit_sheet,
        find_deposits,
        plan_account_update,
        plan_deposit,
        plan_deposit_address,
        plan_rule,
        plan_withdrawal,
        plan_withdrawals,
        quote_fee,
        register_fiat_account,
        resume,
        simulate_deposit,
        wait_for,
        wait_for_deposit,
    )
    from fundlab.analysis import balances, checks, events, fees, flows, reconcile
    from fundlab.api.client import Client, connect
    from fundlab.decimals import DecimalDtype, read_parquet, types_mapper
    from fundlab.display import show
    from fundlab.facade import Store, sample
    from fundlab.journal_files import journal
    from fundlab.load import (
        load_addresses,
        load_balances,
        load_deposit_instructions,
        load_events,
        load_fiat_accounts,
        load_path,
        load_transfers,
    )
    from fundlab.query import sql
    from fundlab.reporting import report
    from fundlab.settings import Settings

__version__ = "0.1.0"

_HOME: Final[dict[str, str]] = {
    "Client": "fundlab.api.client",
    "DecimalDtype": "fundlab.decimals",
    "Settings": "fundlab.settings",
    "Store": "fundlab.facade",
    "actions": "fundlab.actions",
    "balances": "fundlab.analysis.balances",
    "bank": "fundlab.bank",
    "charts": "fundlab.charts",
    "checks": "fundlab.analysis.checks",
    "connect": "fundlab.api.client",
    "decimals": "fundlab.decimals",
    "deposit_sheet": "fundlab.actions",
    "errors": "fundlab.errors",
    "events": "fundlab.analysis.events",
    "exports": "fundlab.exports",
    "fees": "fundlab.analysis.fees",
    "find_deposits": "fundlab.actions",
    "flows": "fundlab.analysis.flows",
    "journal": "fundlab.journal_files",
    "load_addresses": "fundlab.load",
    "load_balances": "fundlab.load",
    "load_deposit_instructions": "fundlab.load",
    "load_events": "fundlab.load",
    "load_fiat_accounts": "fundlab.load",
    "load_path": "fundlab.load",
    "load_transfers": "fundlab.load",
    "models": "fundlab.models",
    "plan_account_update": "fundlab.actions",
    "plan_deposit": "fundlab.actions",
    "plan_deposit_address": "fundlab.actions",
    "plan_rule": "fundlab.actions",
    "plan_withdrawal": "fundlab.actions",
    "plan_withdrawals": "fundlab.actions",
    "quote_fee": "fundlab.actions",
    "read_parquet": "fundlab.decimals",
    "reconcile": "fundlab.analysis.reconcile",
    "register_fiat_account": "fundlab.actions",
    "report": "fundlab.reporting",
    "resume": "fundlab.actions",
    "sample": "fundlab.facade",
    "sandbox": "fundlab.sandbox",
    "show": "fundlab.display",
    "simulate_deposit": "fundlab.actions",
    "sql": "fundlab.query",
    "types_mapper": "fundlab.decimals",
    "wait_for": "fundlab.actions",
    "wait_for_deposit": "fundlab.actions",
}
"""Where each public name is; one that a module is called by is the module itself."""

__all__ = [
    "Client",
    "DecimalDtype",
    "Settings",
    "Store",
    "actions",
    "balances",
    "bank",
    "charts",
    "checks",
    "connect",
    "decimals",
    "deposit_sheet",
    "errors",
    "events",
    "exports",
    "fees",
    "find_deposits",
    "flows",
    "journal",
    "load_addresses",
    "load_balances",
    "load_deposit_instructions",
    "load_events",
    "load_fiat_accounts",
    "load_path",
    "load_transfers",
    "models",
    "plan_account_update",
    "plan_deposit",
    "plan_deposit_address",
    "plan_rule",
    "plan_withdrawal",
    "plan_withdrawals",
    "quote_fee",
    "read_parquet",
    "reconcile",
    "register_fiat_account",
    "report",
    "resume",
    "sample",
    "sandbox",
    "show",
    "simulate_deposit",
    "sql",
    "types_mapper",
    "wait_for",
    "wait_for_deposit",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        said = importlib.import_module("fundlab.errors").with_likely(repr(name), __all__)
        raise AttributeError(f"module 'fundlab' has no attribute {said}")
    home = importlib.import_module(_HOME[name])
    value = globals()[name] = home if home.__name__.endswith(f".{name}") else getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


arrival.arrive()
