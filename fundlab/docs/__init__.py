"""The documentation as a site: guides, notebooks as they were executed, every command and name.

It comes with a release. Elsewhere it is built by Sphinx (the extra ``docs``) from what is
installed, once, into the user's cache; nothing is fetched while it is built or read. What the code
knows is not written again: see ``pages``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import tempfile
from pathlib import Path
from typing import Final

import platformdirs
from typer.core import TyperGroup

from fundlab.base.errors import FundlabError, install_command
from fundlab.docs import pages

PACKAGE: Final = Path(__file__).parents[1]
SOURCE: Final = Path(__file__).with_name("source")
SITE: Final = Path(__file__).with_name("site")
"""Where it is in an installed release."""
NOTEBOOKS: Final = (Path(__file__).with_name("notebooks"), PACKAGE.parent / "notebooks")
"""Where they are in an installed package, and in a clone."""


def build(program: TyperGroup, folder: Path | None = None, *, strict: bool = False) -> Path:
    """The site's first page, in ``folder``, or as a release brings it, or in the user's cache,
    where it is built only once for what is installed. ``program`` is the command line, whose
    commands are described; ``strict`` makes an error of every warning.

    Raises ``FundlabError`` without the extra ``docs``, and where the site cannot be built.
    """
    if folder is None and (SITE / "index.html").exists():
        return SITE / "index.html"
    if importlib.util.find_spec("myst_nb") is None or importlib.util.find_spec("furo") is None:
        raise FundlabError(
            "the documentation is built with Sphinx, which is not installed; run "
            f"{install_command('docs')}, or read the docstrings: help(fundlab.load_transfers)"
        )
    notebooks = next(path for path in NOTEBOOKS if path.is_dir())
    if folder is None:
        files = [*PACKAGE.rglob("*.py"), *SOURCE.rglob("*.md"), *notebooks.iterdir()]
        state = sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
        name = hashlib.sha256(repr(state).encode()).hexdigest()[:16]
        folder = Path(platformdirs.user_cache_dir("fundlab")) / "docs" / name
        if (folder / "index.html").exists():
            return folder / "index.html"
    from sphinx.cmd.build import main as sphinx

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as temporary:
        source, built = Path(temporary) / "source", Path(temporary) / "html"
        shutil.copytree(SOURCE, source)
        shutil.copytree(notebooks, source / "notebooks")
        shutil.copy(Path(__file__).with_name("CHANGELOG.md"), source / "changelog.md")
        for name, text in pages.every(program).items():
            path = source / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        arguments = ["--quiet", "--doctree-dir", str(Path(temporary) / "doctrees")]
        arguments += ["--fail-on-warning", "--keep-going"] if strict else []
        if sphinx([*arguments, str(source), str(built)]):
            raise FundlabError("the documentation was not built; what was wrong stands above")
        titles = {
            str(page.relative_to(source).with_suffix(".html")): line.removeprefix("# ")
            for page in sorted(source.rglob("*.md"))
            if (line := page.read_text(encoding="utf-8").lstrip().partition("\n")[0])[:2] == "# "
        }
        (built / "llms.txt").write_text(pages.llms(titles), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        built.replace(folder)  # all of it or nothing
    return folder / "index.html"
