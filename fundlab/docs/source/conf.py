"""How Sphinx builds the site; ``fundlab.docs.build`` puts the pages in place first."""

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

import fundlab
from fundlab.client.arguments import KEYWORDS

project = "fundlab"
author = "The fundlab authors"
project_copyright = author
release = fundlab.__version__
extensions = ["sphinx.ext.autodoc", "myst_nb"]
html_theme = "furo"
html_title = f"fundlab {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
smartquotes = False  # --option is no dash
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

nb_execution_mode = "off"  # notebooks are shown as they were executed
nb_ipywidgets_js: dict[
    str, dict[str, str]
] = {}  # widgets of a stored notebook have no kernel, and the site no network
suppress_warnings = ["misc.highlighting_failure"]  # an example may leave an argument out with …
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_dmath_double_inline = False
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # those of pandas and pydantic are theirs
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88


def link_sections(
    app: Sphinx,  # noqa: ARG001 - what Sphinx gives
    what: str,
    name: str,  # noqa: ARG001
    obj: Any,
    options: Any,  # noqa: ARG001
    lines: list[str],
) -> None:
    """A section of the interface leads to the line that says what it is about; keywords of a
    list are explained once, for all of them."""
    if what == "method" and obj.__name__.startswith("list_"):
        names = [*inspect.signature(obj).parameters][1:]
        lines += ["", *(f":param {name}: {KEYWORDS[name]}" for name in names)]
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"§(\d+(?:\.\d+)?)(?!\.?\d)",
            lambda found: f":ref:`§{found[1]} <interface-{found[1].replace('.', '-')}>`",
            line,
        )


def end_the_tree_with_pages(
    app: Sphinx,  # noqa: ARG001 - what Sphinx gives
    page: str,  # noqa: ARG001
    template: str,  # noqa: ARG001
    context: dict[str, Any],
    doctree: Any,  # noqa: ARG001
) -> None:
    """The headings within pages, which the theme leaves out of the tree beside each page, are not
    copied for each of them first: a fifth of the whole build."""
    if (tree := context.get("toctree")) is not None:
        context["toctree"] = lambda **given: tree(**given | {"maxdepth": 2})


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", link_sections)
    app.connect("html-page-context", end_the_tree_with_pages, priority=400)  # before the theme
