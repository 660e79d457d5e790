"""Double entry. Every change of money is a posting whose entries sum to zero for each asset.

Amounts are Python integers scaled by 10^18 and kept as text, because 38 digits fit neither SQLite's
64-bit integers nor a double. Owners of ledger accounts:

=======================  =======================================================================
``available/<profile>``  what a profile may spend
``held/<profile>``       what its pending withdrawals hold
``trading/<profile>``    what is tied up in trading; 0 unless the control interface moves it there
``outside``              the world beyond; its balance is the negative of everything else
``fees``                 what the service earned
``conversion``           one side of every conversion, per asset
``transit``              between the two halves of an internal transfer
=======================  =======================================================================
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from fundlab.base.errors import SandboxError
from fundlab.base.exact import MAX_FRACTION_DIGITS, MAX_INTEGER_DIGITS
from fundlab.sandbox.database import Database

SCALE: Final = 10**MAX_FRACTION_DIGITS
MAX_UNITS: Final = 10 ** (MAX_INTEGER_DIGITS + MAX_FRACTION_DIGITS) - 1

OUTSIDE: Final = "outside"
FEES: Final = "fees"
CONVERSION: Final = "conversion"
TRANSIT: Final = "transit"

Entry = tuple[str, str, int]
"""Owner, asset, change in units of 10^-18."""


def available(profile_id: str) -> str:
    return f"available/{profile_id}"


def held(profile_id: str) -> str:
    return f"held/{profile_id}"


def trading(profile_id: str) -> str:
    return f"trading/{profile_id}"


def total_of(direction: str, amount: int, fee: int) -> int:
    """By how much a transfer changes the balance, unsigned (§2.4). A test holds it to the same of
    ``fundlab.tables.transfers``, which brings Arrow along: too long a start for a sandbox."""
    return amount - fee if direction == "CREDIT" else amount + fee


def units(amount: Decimal) -> int:
    """``amount`` in units of 10^-18, exact."""
    sign, digits, exponent = amount.as_tuple()
    if not isinstance(exponent, int) or exponent < -MAX_FRACTION_DIGITS:
        raise SandboxError(f"{amount} has more than {MAX_FRACTION_DIGITS} decimals")
    value: int = int("".join(map(str, digits))) * 10 ** (exponent + MAX_FRACTION_DIGITS)
    return -value if sign else value


def units_text(value: int) -> str:
    """Units as the interface's decimal text, with at least two decimals: ``100.00``."""
    whole, fraction = divmod(abs(value), SCALE)
    decimals = f"{fraction:018d}".rstrip("0").ljust(2, "0")
    return f"{'-' if value < 0 else ''}{whole}.{decimals}"


class Overdrawn(SandboxError):
    """A posting would leave a profile's account below zero, or the profile with over 38 digits."""


class Ledger:
    """Postings and balances. Every call happens inside the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def balance(self, owner: str, asset: str) -> int:
        row = self._database.one(
            "SELECT balance FROM ledger_accounts WHERE owner = ? AND asset = ?", owner, asset
        )
        return int(row[0]) if row else 0

    def all_of(self, profile_id: str, asset: str) -> int:
        """What a profile has, on hold and in trading too: all of it may become available again."""
        return sum(self.balance(owner(profile_id), asset) for owner in (available, held, trading))

    def balances(self) -> dict[tuple[str, str], int]:
        rows = self._database.all("SELECT owner, asset, balance FROM ledger_accounts")
        return {(owner, asset): int(balance) for owner, asset, balance in rows}

    def post(self, transfer_id: str, entries: Iterable[Entry]) -> None:
        """Book ``entries`` for a transfer.

        Raises ``SandboxError`` unless they sum to zero per asset, and ``Overdrawn`` when a
        profile's account would fall below zero or all of a profile's reach 10^20.
        """
        changes = [entry for entry in entries if entry[2]]
        check_zero(changes)
        balances: dict[tuple[str, str], int] = {}
        for owner, asset, change in changes:
            balance = balances.get((owner, asset))
            if balance is None:
                balance = self.balance(owner, asset)
            balances[owner, asset] = balance + change
        for (owner, asset), balance in balances.items():
            if "/" in owner and balance < 0:
                raise Overdrawn(f"{owner} would hold {units_text(balance)} {asset}")
        gains: defaultdict[tuple[str, str], int] = defaultdict(int)
        for owner, asset, change in changes:
            if profile_id := owner.partition("/")[2]:
                gains[profile_id, asset] += change
        for (profile_id, asset), gain in gains.items():
            if gain > 0 and (total := self.all_of(profile_id, asset) + gain) > MAX_UNITS:
                raise Overdrawn(f"{profile_id} would have {units_text(total)} {asset} in all")
        for (owner, asset), balance in balances.items():
            self._database.run(
                "INSERT INTO ledger_accounts (owner, asset, balance) VALUES (?, ?, ?) "
                "ON CONFLICT (owner, asset) DO UPDATE SET balance = excluded.balance",
                owner, asset, str(balance),
            )  # fmt: skip
        for owner, asset, change in changes:
            self._database.run(
                "INSERT INTO ledger_entries (transfer_id, account, amount) SELECT ?, seq, ? "
                "FROM ledger_accounts WHERE owner = ? AND asset = ?",
                transfer_id, str(change), owner, asset,
            )  # fmt: skip

    def audit(self) -> dict[str, int]:
        """Per asset, what the entries of all accounts sum to: 0 unless the ledger is broken.

        Raises ``SandboxError`` when an account's balance is not the sum of its entries.
        """
        booked: defaultdict[int, int] = defaultdict(int)
        for account, amount in self._database.each("SELECT account, amount FROM ledger_entries"):
            booked[account] += int(amount)
        totals: defaultdict[str, int] = defaultdict(int)
        accounts = self._database.all("SELECT seq, owner, asset, balance FROM ledger_accounts")
        for seq, owner, asset, balance in accounts:
            if booked[seq] != int(balance):
                raise SandboxError(f"{owner} {asset}: balance {balance}, entries {booked[seq]}")
            totals[asset] += int(balance)
        return dict(totals)


def check_zero(entries: Iterable[Entry]) -> None:
    sums: defaultdict[str, int] = defaultdict(int)
    for _, asset, change in entries:
        sums[asset] += change
    unbalanced = {asset: total for asset, total in sums.items() if total}
    if unbalanced:
        raise SandboxError(f"posting does not sum to zero: {unbalanced}")
