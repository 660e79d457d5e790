"""How much of the package one call leads a reader through: functions entered, and their files.

Run ``python tests/benchmarks/calls.py [--names JOB]``. A sandbox serves in a process of its own;
client and store are made before, and each job is the first of its kind in this process. Counted
are the distinct named functions of ``fundlab`` entered, in any thread. Below stand the private
functions that the package names in one place only, as a share of all. Exits with 1 if a bar is
missed.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import fundlab as fl

PACKAGE = Path(fl.__file__).parent
BARS = {
    "plan and submit": (90, 15),
    "reconcile.compare": (45, 10),
    "idle sync": (90, 12),
    "get_transfer": (30, 8),
}
NAMED_ONCE_PERCENT = 6.0


def entered(job: Callable[[], object]) -> list[CodeType]:
    """The package's named functions that ``job`` enters."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(
        (
            code
            for code in codes
            if code.co_filename.startswith(f"{PACKAGE}{os.sep}")
            and code.co_name[0] != "<"
            and code.co_flags & inspect.CO_NEWLOCALS  # and no body of a class
        ),
        key=lambda code: (code.co_filename, code.co_firstlineno),
    )


def named_once() -> tuple[list[str], int]:
    """Private functions whose name the package uses once, and how many functions there are."""
    functions: list[str] = []
    uses: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(node.name)
            elif isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
    private = [n for n in functions if n.startswith("_") and not n.startswith("__")]
    return [name for name in private if uses[name] <= 1], len(functions)


def main(shown: str | None) -> bool:
    """Print each count beside its bar; whether all are met."""
    met = True
    with (
        tempfile.TemporaryDirectory() as folder,
        fl.sandbox.serve(seed=7, transfers=2_000, signing=True) as service,
        service.connect() as client,
    ):
        store = fl.Store(Path(folder) / "store")
        store.sync(client)
        transfers, balances = fl.load_transfers(client), fl.load_balances(client)
        account = next(a for a in client.list_fiat_accounts() if a.status == "APPROVED")
        profile_id = service.profile_ids[0]

        def pay() -> object:
            plan = fl.plan_withdrawal(
                client,
                profile_id=profile_id,
                fiat_account_id=account.id,
                amount="100.00",
                store=store,
            )
            return plan.submit(confirm=plan.code)

        jobs: dict[str, Callable[[], object]] = {
            "get_transfer": lambda: client.get_transfer(transfers["id"].iloc[0]),
            "idle sync": lambda: store.sync(client),
            "reconcile.compare": lambda: fl.reconcile.compare(transfers, balances),
            "plan and submit": pay,
        }
        for name, job in jobs.items():
            codes = entered(job)
            files = Counter(str(Path(c.co_filename).relative_to(PACKAGE)) for c in codes)
            functions_bar, files_bar = BARS[name]
            ok = len(codes) <= functions_bar and len(files) <= files_bar
            met &= ok
            print(
                f"{name:18} {len(codes):4} functions (bar {functions_bar}) in {len(files):3} files "
                f"(bar {files_bar}){'' if ok else '  MISSED'}"
            )
            if name == shown:
                for code in codes:
                    print(f"    {Path(code.co_filename).relative_to(PACKAGE)}: {code.co_qualname}")
    once, functions = named_once()
    share = 100 * len(once) / functions
    ok = share < NAMED_ONCE_PERCENT
    print(
        f"private and named once: {len(once)} of {functions:,} functions, {share:.1f}% "
        f"(bar {NAMED_ONCE_PERCENT:g}%){'' if ok else '  MISSED'}"
    )
    return met and ok


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--names", metavar="JOB", choices=BARS, help="list what JOB enters")
    sys.exit(0 if main(parser.parse_args().names) else 1)
