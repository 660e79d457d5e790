"""What people look at: a frozen report of balances, flows, fees and their proof.

``report`` makes it from a store and writes it; ``build`` gathers the figures from frames,
``render_html`` and ``write`` make files of them. The same inputs give the same bytes.
"""

from typing import TYPE_CHECKING, Any

from fundlab.reports.build import build
from fundlab.reports.close import find_close, freeze
from fundlab.reports.facts import KeyFigure, Report, versions
from fundlab.reports.job import CaughtUp, catch_up, missing_months, read_report, report
from fundlab.reports.page import render_html, write
from fundlab.reports.report_files import FORMATS, write_report

if TYPE_CHECKING:
    from fundlab.reports.pack_files import NO_PDF, reperform, write_pack

__all__ = [
    "FORMATS",
    "NO_PDF",
    "CaughtUp",
    "KeyFigure",
    "Report",
    "build",
    "catch_up",
    "find_close",
    "freeze",
    "missing_months",
    "read_report",
    "render_html",
    "reperform",
    "report",
    "versions",
    "write",
    "write_pack",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Of a pack, which few reports are made for: it loads the bank's side and the samples."""
    if name not in ("NO_PDF", "reperform", "write_pack"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from fundlab.reports import pack_files

    return getattr(pack_files, name)
