"""How Sphinx builds the site; ``fundlab.docs.build`` puts the pages in place first."""

import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from sphinx import addnodes
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
templates_path = ["templates"]
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


PARAMETERS = tomllib.loads(Path(__file__).with_name("parameters.toml").read_text("utf-8"))


def link_sections(
    app: Sphinx,  # noqa: ARG001 - what Sphinx gives
    what: str,
    name: str,
    obj: Any,
    options: Any,  # noqa: ARG001
    lines: list[str],
) -> None:
    """A section of the interface leads to the line that says what it is about; parameters are
    explained once, for all that take them."""
    if what in ("function", "method") and inspect.isfunction(obj):
        own = PARAMETERS.get(".".join(name.split(".")[-2:]), {})
        texts = (
            PARAMETERS["everywhere"] | (KEYWORDS if obj.__name__.startswith("list_") else {}) | own
        )
        given = {line.split(":")[1].split()[-1] for line in lines if line.startswith(":param")}
        names = [one for one in inspect.signature(obj).parameters if one in texts]
        lines += ["", *(f":param {one}: {texts[one]}" for one in names if one not in given)]
    for number, line in enumerate(lines):
        lines[number] = re.sub(
            r"§(\d+(?:\.\d+)?)(?!\.?\d)",
            lambda found: f":ref:`§{found[1]} <interface-{found[1].replace('.', '-')}>`",
            line,
        )


def parents(node: nodes.Node) -> Iterator[nodes.Node]:
    while node.parent is not None:
        node = node.parent
        yield node


def parts_of(doctree: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Anchor, title and text of each section of a page, and of each name it documents."""
    places = list(doctree.findall(lambda one: isinstance(one, nodes.section | addnodes.desc)))
    for node in places:
        inner = [one for one in places if one is not node and node in parents(one)]
        below = {id(text) for one in inner for text in one.findall(nodes.Text)}
        held = [text.astext() for text in node.findall(nodes.Text) if id(text) not in below]
        if isinstance(node, addnodes.desc):
            anchor = (node[0]["ids"] or [""])[0]
            title = "fl." + anchor.removeprefix("fundlab.").removeprefix("analysis.")
        else:
            anchor, title = node["ids"][0], node[0].astext()
        yield anchor, title, " ".join(" ".join(held).split())[:6_000]


def write_search_pages(app: Sphinx, exception: Exception | None) -> None:
    """The text of each section as a script, so that search needs no server."""
    if exception is not None:
        return
    pages = []
    for page in sorted(app.env.all_docs):
        parts = [*parts_of(app.env.get_doctree(page))]
        title = app.env.titles[page].astext()
        pages.append({"page": page, "title": title, "parts": parts})
    text = json.dumps(pages, ensure_ascii=False)
    path = Path(app.outdir, "_static", "search_pages.js")
    path.write_text(f"const SEARCH_PAGES = {text};\n", encoding="utf-8")
    Path(app.outdir, "searchindex.js").unlink()  # which a browser may not read from a file


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
    app.connect("build-finished", write_search_pages)
    app.connect("autodoc-process-docstring", link_sections)
    app.connect("html-page-context", end_the_tree_with_pages, priority=400)  # before the theme
