"""The bank's side: statements that prove themselves, and what their entries stand for.

``read`` takes the files of any bank into typed frames, proved; ``match`` finds which transfers the
entries stand for.
"""

from fundlab.analysis.bank_matching import Matching, match
from fundlab.statements import Statements, read

__all__ = ["Matching", "Statements", "match", "read"]
