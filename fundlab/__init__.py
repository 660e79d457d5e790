"""Exact pandas analytics for a fiat and crypto funding service.

>>> import fundlab as fl
>>> with fl.sandbox.serve(seed=7, transfers=200) as sandbox:
...     transfers = fl.load_transfers(sandbox.connect())
>>> len(transfers)
200

What most people come for, each with an example in its own ``help``:

- load: ``store = fl.sample()``, a year of data, or ``fl.Store()``; ``store.read("transfers")``
- balance: ``fl.balances.at``, ``fl.balances.statement``; ``fl.show`` for a look at any frame
- prove: ``fl.reconcile.judge``; where a balance breaks, ``fl.reconcile.explore``
- close: ``fl.report`` for the month, then ``store.close``, or ``fundlab close`` in a shell
- pay: ``fl.plan_withdrawal``, whose plan is shown, confirmed and sent once

Importing registers the exact money column with pandas, under the name ``decimal``, whichever of the
two is imported first; everything else is loaded on first use.

Examples throughout know ``pd`` and ``fl``, a ``sandbox`` with its ``client``, a ``store`` synced
from it, a ``folder``, and the five ``transfers`` of :mod:`fundlab.analysis`.

What is decided where the name of no file says so::

    how a command ends: exit status, error line      base/terminal
    names of periods (2026-W40), when they begin     base/periods
    a call again: when, how long it waits; tokens    client/transport
    which filter a service did not heed              client/pages
    what is masked, and how                          settings/secret
    the user's own names for profiles                settings/labels
    how a quotient of decimals is rounded            decimals/wide
    which transfers count, with which sign           tables/transfers
    that another run writes to a store               store/lock
    who closed what, each record after the last      store/records
    that another machine has published               store/manifests
    which version of a row is current                store/snapshot
    what a sync asks for, and asks again             sync/run
    what may be said: proved, breaks                 evidence/verdict
    a payment's code, expiry, being sent once        payments/plan
    own limits; who must approve                     payments/withdrawals
    the sandbox's fees, delays, limits, and its 429  sandbox/behaviour
    a table of the report                            reports/sections
    the first sheet of a workbook                    exports/cover

The rooms, from the top down. Each imports what its line names, all of it further down, and what it
needs of the last six; no two modules import each other, be it by way of others::

    cli        each command: parse, call, print          [all below]
    docs       the documentation as a site               [client]
    operate    fl.Store, status, notices, schedules      [reports payments analysis sync evidence
                                                          store client]
    reports    a period frozen, as files; its close pack [payments bank analysis charts exports
                                                          evidence store]
    payments   plan, submit, batches, the journal        [evidence store client]
    bank       statements proved, matched, reconciled    [analysis]
    charts     a frame as a matplotlib figure            []
    analysis   frames in, frames out                     [exports evidence store]
    exports    tables as files                           [evidence]
    sync       service to store, service to frames       [evidence store client]
    evidence   what is kept about a store; its verdict   [store]
    store      tables as files, here or elsewhere        []
    mirror     a deployment recorded and compared        [sandbox client]
    sandbox    the service itself, to try things on      [client]
    client     operations, calls, transport, pages       []

    tables     models to frames; what a transfer means   [models decimals base]
    models     resources and requests of the interface   [display settings base]
    display    one card and one table for each surface   [settings decimals base]
    settings   profiles, secrets, masks, labels          [base]
    decimals   the exact decimal column                  [base]
    base       errors, values, files, threads, terminal  []
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

from fundlab.base import errors, pandas_hook
from fundlab.base.garbage import no_search

if TYPE_CHECKING:
    from fundlab import bank, charts, decimals, exports, models, sandbox
    from fundlab.analysis import (
        audit,
        balances,
        books,
        checks,
        events,
        fees,
        flows,
        flux,
        reconcile,
        value,
    )
    from fundlab.analysis.sql import sql
    from fundlab.client.client import Client, connect
    from fundlab.decimals import DecimalDtype, read_parquet, types_mapper
    from fundlab.display import show
    from fundlab.operate.assistant import context
    from fundlab.operate.store import Store, sample
    from fundlab.payments import actions
    from fundlab.payments.actions import (
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
    from fundlab.payments.journal_files import journal
    from fundlab.reports import report
    from fundlab.settings.labels import id_of
    from fundlab.settings.settings import Settings
    from fundlab.sync.loaders import (
        load_addresses,
        load_balances,
        load_deposit_instructions,
        load_events,
        load_fiat_accounts,
        load_transfers,
    )
    from fundlab.sync.paths import load_path

__version__ = "0.1.0"

_HOME: Final[dict[str, str]] = {
    "Client": "fundlab.client.client",
    "DecimalDtype": "fundlab.decimals",
    "Settings": "fundlab.settings.settings",
    "Store": "fundlab.operate.store",
    "actions": "fundlab.payments.actions",
    "audit": "fundlab.analysis.audit",
    "balances": "fundlab.analysis.balances",
    "bank": "fundlab.bank",
    "books": "fundlab.analysis.books",
    "charts": "fundlab.charts",
    "checks": "fundlab.analysis.checks",
    "connect": "fundlab.client.client",
    "context": "fundlab.operate.assistant",
    "decimals": "fundlab.decimals",
    "deposit_sheet": "fundlab.payments.actions",
    "errors": "fundlab.errors",
    "events": "fundlab.analysis.events",
    "exports": "fundlab.exports",
    "fees": "fundlab.analysis.fees",
    "find_deposits": "fundlab.payments.actions",
    "flows": "fundlab.analysis.flows",
    "flux": "fundlab.analysis.flux",
    "id_of": "fundlab.settings.labels",
    "journal": "fundlab.payments.journal_files",
    "load_addresses": "fundlab.sync.loaders",
    "load_balances": "fundlab.sync.loaders",
    "load_deposit_instructions": "fundlab.sync.loaders",
    "load_events": "fundlab.sync.loaders",
    "load_fiat_accounts": "fundlab.sync.loaders",
    "load_path": "fundlab.sync.paths",
    "load_transfers": "fundlab.sync.loaders",
    "models": "fundlab.models",
    "plan_account_update": "fundlab.payments.actions",
    "plan_deposit": "fundlab.payments.actions",
    "plan_deposit_address": "fundlab.payments.actions",
    "plan_rule": "fundlab.payments.actions",
    "plan_withdrawal": "fundlab.payments.actions",
    "plan_withdrawals": "fundlab.payments.actions",
    "quote_fee": "fundlab.payments.actions",
    "read_parquet": "fundlab.decimals",
    "reconcile": "fundlab.analysis.reconcile",
    "register_fiat_account": "fundlab.payments.actions",
    "report": "fundlab.reports",
    "resume": "fundlab.payments.actions",
    "sample": "fundlab.operate.store",
    "sandbox": "fundlab.sandbox",
    "show": "fundlab.display",
    "simulate_deposit": "fundlab.payments.actions",
    "sql": "fundlab.analysis.sql",
    "types_mapper": "fundlab.decimals",
    "value": "fundlab.analysis.value",
    "wait_for": "fundlab.payments.actions",
    "wait_for_deposit": "fundlab.payments.actions",
}
"""Where each public name is; one that a module is called by is the module itself."""

__all__ = [
    "Client",
    "DecimalDtype",
    "Settings",
    "Store",
    "actions",
    "audit",
    "balances",
    "bank",
    "books",
    "charts",
    "checks",
    "connect",
    "context",
    "decimals",
    "deposit_sheet",
    "errors",
    "events",
    "exports",
    "fees",
    "find_deposits",
    "flows",
    "flux",
    "id_of",
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
    "value",
    "wait_for",
    "wait_for_deposit",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        if name.startswith("_"):  # what tools ask of every module: no slip of a person
            raise AttributeError(f"module 'fundlab' has no attribute {name!r}")
        said = errors.with_likely(repr(name), __all__)
        raise AttributeError(f"module 'fundlab' has no attribute {said}")
    with no_search(stays=True):
        home = importlib.import_module(_HOME[name])
    value = globals()[name] = getattr(home, name, home)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


sys.modules["fundlab.errors"] = errors  # whose names people import, and tracebacks show
pandas_hook.arrive(lambda: importlib.import_module("fundlab.decimals"))
