"""The documentation: every name and command has a page, every example runs, every link leads on."""

from __future__ import annotations

import inspect
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import platformdirs
import pytest
from extra_packages import needs
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from typer.core import TyperGroup

import fundlab as fl
from fundlab import cli, docs
from fundlab.base.errors import FundlabError
from fundlab.client.arguments import KEYWORDS
from fundlab.docs import pages
from fundlab.models import OPERATIONS

ROOT = Path(__file__).parents[2]
GUIDES = sorted((docs.SOURCE / "guides").glob("*.md"))
every_guide = pytest.mark.parametrize(
    "path", [*GUIDES, docs.SOURCE / "index.md"], ids=lambda p: p.stem
)


def commands() -> list[str]:
    return list(cli.root_command().commands)


@pytest.mark.thorough
def test_every_public_name_and_every_command_has_a_page() -> None:
    made = pages.every(cli.root_command())
    assert [name for name in fl.__all__ if f"reference/{name}.md" not in made] == []
    assert [name for name in commands() if f"commands/{name}.md" not in made] == []
    missing = [
        one.name
        for one in OPERATIONS.values()
        if f"client.{one.name}()" not in made["reference/interface.md"]
    ]
    assert missing == []
    assert "--catch-up" in made["commands/report.md"]


def test_every_name_stands_under_one_subject() -> None:
    assert sorted(" ".join(pages.SUBJECTS.values()).split()) == sorted(fl.__all__)


def test_a_page_of_names_is_the_same_each_time_and_for_readers() -> None:
    made = {name: pages.page_of(name) for name in fl.__all__}
    assert [name for name, page in made.items() if re.search(r" at 0x[0-9a-f]{6}", page)] == []
    assert "- `PositiveAmount`: `fundlab.base.values.Amount`" in made["models"].splitlines()
    assert "- `Id`: `str`" in made["models"].splitlines()


def test_no_literal_of_a_docstring_runs_into_a_letter() -> None:
    """Which reStructuredText takes for no end of it, and all that follows for its inside."""
    public = [*dict(public_functions()).values(), *(getattr(fl, name) for name in fl.__all__)]
    after = [part for one in public for part in (inspect.getdoc(one) or "").split("``")[2::2]]
    assert [part[:30] for part in after if part[:1].isalnum()] == []


def public_functions() -> Iterator[tuple[str, Any]]:
    for name in fl.__all__:
        value = getattr(fl, name)
        if inspect.isfunction(value):
            yield f"fundlab.{name}", value
        elif isinstance(value, ModuleType):
            for member in dir(value):
                if inspect.isfunction(held := getattr(value, member)):
                    yield f"{name}.{member}", held
    for one in OPERATIONS.values():
        yield f"Client.{one.name}", getattr(fl.Client, one.name)


def test_every_parameter_of_a_function_is_explained() -> None:
    texts = tomllib.loads((docs.SOURCE / "parameters.toml").read_text("utf-8"))
    everywhere = texts.pop("everywhere")
    missing = []
    for path, function in public_functions():
        told = re.findall(r"^:param (\w+):", inspect.getdoc(function) or "", re.MULTILINE)
        known = {*everywhere, *texts.get(path, {}), *told, *(KEYWORDS if ".list_" in path else ())}
        names = {*inspect.signature(function).parameters} - {"self"}
        missing += [f"{path}: {name}" for name in sorted(names - known)]
    assert missing == []
    assert [*texts] == [path for path in texts if path in dict(public_functions())]


MODULES = [name for name in fl.__all__ if isinstance(getattr(fl, name), ModuleType)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODULES)
def test_what_a_module_offers_are_the_names_that_its_page_explains(name: str) -> None:
    shell = InteractiveShell()
    shell.run_cell("import fundlab as fl")
    with provisionalcompleter():
        typed = f"fl.{name}."
        offered = {one.text for one in shell.Completer.completions(typed, len(typed))}
    page = pages.page_of(name)
    explained = re.findall(r"^(?:## |- \[fl\.|- `)(\w+)", page, re.MULTILINE)
    assert offered
    assert offered == {*getattr(getattr(fl, name), "__all__", offered)}
    assert sorted(explained) == sorted(offered)


def test_every_section_of_the_interface_that_a_docstring_names_is_explained() -> None:
    told = set(re.findall(r"§(\d+(?:\.\d+)?)", pages.interface()))
    named = {
        number
        for path in (ROOT / "fundlab").rglob("*.py")
        for number in re.findall(
            r"(?<!RFC 6749 )(?<!RFC 7518 )§(\d+(?:\.\d+)?)", path.read_text(encoding="utf-8")
        )
    }
    assert named
    assert named - told == set()


@pytest.mark.thorough
@every_guide
def test_the_examples_of_a_guide_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(example, str(path), "exec"), names)


@pytest.mark.parametrize("path", [*GUIDES, ROOT / "README.md"], ids=lambda p: p.stem)
def test_the_commands_of_a_guide_are_commands(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNDLAB_PROFILE", "")  # which --profile sets, and this takes back
    for block in re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        subprocess.run(["/bin/sh", "-n"], input=block, text=True, check=True)
        for line in re.findall(r"^(?:\w+=\S+ )*fundlab (.+)$", block, re.MULTILINE):
            understood(shlex.split(line, comments=True))


def understood(arguments: list[str]) -> None:
    """Parse a command line without doing what it says; a mistake raises."""
    command: Any = cli.root_command()
    context = None
    while isinstance(command, TyperGroup):
        context = command.make_context(
            "fundlab", [*arguments], parent=context, resilient_parsing=True
        )
        name, *arguments = context._protected_args + context.args
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context(command.name, arguments, parent=context)


def test_a_command_line_that_is_wrong_is_noticed() -> None:
    with pytest.raises(AssertionError, match="snyc"):
        understood(["snyc"])
    with pytest.raises(Exception, match="--ful"):
        understood(["sync", "--ful"])


def test_the_command_builds_it_once_and_prints_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, opened = tmp_path / "index.html", []

    def build(program: Any) -> Path:
        assert list(program.commands) == commands()  # with a page of each
        return page

    monkeypatch.setattr(docs, "build", build)
    monkeypatch.setattr("webbrowser.open", opened.append)
    cli.run(["docs"])
    cli.run(["docs", "--open"])
    assert capsys.readouterr().out == f"{page.as_uri()}\n" * 2
    assert opened == [page.as_uri()]


@pytest.mark.thorough
def test_what_was_built_for_what_is_installed_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path))
    needs("sphinx")
    monkeypatch.setattr("sphinx.cmd.build.main", built := Built())
    assert docs.build(cli.root_command()) == docs.build(cli.root_command())
    assert built.times == 1


class Built:
    """Sphinx, but for its work."""

    times = 0

    def __call__(self, arguments: list[str]) -> int:
        self.times += 1
        Path(arguments[-1]).mkdir()
        (Path(arguments[-1]) / "index.html").touch()
        return 0


def test_without_its_extra_the_site_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FundlabError, match=r"pip install .*\[docs\]'"):
        docs.build(cli.root_command())


class Links(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.needed: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.places.add(found.get("id") or "")
        link = found.get("href" if tag in ("a", "link") else "src")
        if link is not None:
            self.links.append(link)
            if tag != "a" and urlsplit(link).netloc:
                self.needed.append(link)


@pytest.mark.thorough
def test_the_site_builds_without_warnings_and_every_link_leads_on(site: Path) -> None:
    read = {path: Links(path) for path in site.rglob("*.html")}
    assert len(read) > 60
    assert {link for found in read.values() for link in found.needed} == set()  # works offline
    broken = []
    for page, found in read.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not target.exists() or (
                parts.fragment
                and target in read
                and unquote(parts.fragment) not in read[target].places
            ):
                broken.append((page.name, link))
    assert broken == []
    assert (site / "_static" / "search_pages.js").exists()
