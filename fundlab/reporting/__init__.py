"""What people look at: a frozen report of balances, flows, fees and their proof.

``report`` makes it from a store and writes it; ``build`` gathers the figures from frames,
``render_html`` and ``write`` make files of them. The same inputs give the same bytes.
"""

from fundlab.reporting.build import build
from fundlab.reporting.close import find_close, freeze
from fundlab.reporting.facts import KeyFigure, Report, versions
from fundlab.reporting.job import CaughtUp, catch_up, missing_months, read_report, report
from fundlab.reporting.pack_files import NO_PDF, reperform, write_pack
from fundlab.reporting.page import render_html, write
from fundlab.reporting.report_files import FORMATS, write_report

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
