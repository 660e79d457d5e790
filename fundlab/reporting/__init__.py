"""What people look at: a frozen report of balances, flows, fees and their proof, and its HTML.

``build`` gathers the figures, ``render_html`` turns them into one self-contained page and
``write`` puts it on disk. The same inputs give the same bytes.
"""

from fundlab.reporting.facts import KeyFigure, Report, Verdict, build, versions
from fundlab.reporting.page import render_html, write

__all__ = ["KeyFigure", "Report", "Verdict", "build", "render_html", "versions", "write"]
