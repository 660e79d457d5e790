"""The bank's side: statements that prove themselves, and the transfers that they book.

``read`` takes the files of any bank into typed frames, proved; ``match`` finds which transfers the
entries book; ``reconcile`` gives the reconciliation and the proof of cash of a period;
``accept`` records what a person decides of what is open.
"""

from fundlab.bank.decisions import accept
from fundlab.bank.matching import Matching, match
from fundlab.bank.reconciliation import Reconciliation, reconcile
from fundlab.bank.statements import Statements, read, sample

__all__ = [
    "Matching",
    "Reconciliation",
    "Statements",
    "accept",
    "match",
    "read",
    "reconcile",
    "sample",
]
__dir__ = __all__.copy  # what completion offers
