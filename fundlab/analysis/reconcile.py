"""Rebuilt balances against reported ones, transfers against a bank's statement."""

from fundlab.analysis.bank import bank
from fundlab.analysis.compare import compare
from fundlab.analysis.explain import explain
from fundlab.analysis.judge import judge

__all__ = ["bank", "compare", "explain", "judge"]
