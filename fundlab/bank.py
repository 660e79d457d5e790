"""The bank's side: statements that prove themselves.

``read`` takes the files of any bank into typed frames, proved.
"""

from fundlab.statements import Statements, read

__all__ = ["Statements", "read"]
