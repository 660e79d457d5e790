"""What people look at: a frozen report of balances, flows, fees and their proof.

``report`` makes it from a store and writes it; ``build`` gathers the figures from frames,
``render_html`` and ``write`` make files of them. The same inputs give the same bytes.
"""

from fundlab.reports.build import build
from fundlab.reports.close import find_close, freeze
from fundlab.reports.facts import KeyFigure, Report, versions
from fundlab.reports.job import CaughtUp, catch_up, missing_months, read_report, report
from fundlab.reports.pack_files import NO_PDF, reperform, write_pack
from fundlab.reports.page import render_html, write
from fundlab.reports.report_files import FORMATS, write_report

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
