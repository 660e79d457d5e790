"""The tree of errors, drawn in its module, is the tree of the classes; what messages share."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import re
import shlex
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest

import fundlab as fl
from fundlab.base import errors

ROOTS = (errors.FundlabError, UserWarning)


def drawn() -> dict[str, str]:
    """Each drawn class and the class it hangs from, by how far it is indented."""
    above: list[tuple[int, str]] = []
    found: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^[ │├└─]*([A-Z]\w+)", line.removeprefix("    "))
        if match is None or not line.startswith("    "):
            continue
        at, name = match.start(1), match[1]
        above = [(depth, parent) for depth, parent in above if depth < at]
        if above:
            found[name] = above[-1][1]
        above.append((at, name))
    return found


def real() -> dict[str, str]:
    """Each class of the module below a root, and the first class it is derived from."""
    found = {}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and kind not in ROOTS and kind.__module__ == errors.__name__:
            assert issubclass(kind, ROOTS), name
            found[name] = kind.__bases__[0].__name__
    return found


def test_the_tree_of_errors_is_drawn_whole() -> None:
    assert drawn() == real()
    assert len(drawn()) > 25


def test_each_error_says_in_its_docstring_what_it_is() -> None:
    for name in drawn():
        kind = getattr(errors, name)
        assert inspect.getdoc(kind), name
        assert kind.__doc__ != kind.__base__.__doc__, name


@pytest.mark.parametrize(
    ("origin", "pip", "command"),
    [
        (None, True, "pip install 'fundlab[docs]'"),
        (None, False, "uv pip install 'fundlab[docs]'"),
        ('{"url": "file:///src/my%20clone", "dir_info": {}}', True,
         "pip install '/src/my clone[docs]'"),
        ('{"url": "file:///src/clone", "dir_info": {"editable": true}}', False,
         "uv pip install -e '/src/clone[docs]'"),
        ('{"url": "https://example.com/fundlab.whl", "archive_info": {}}', True,
         "pip install 'fundlab[docs]'"),
    ],
)  # fmt: skip
def test_an_extra_is_added_from_where_fundlab_came_from(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, pip: bool, command: str
) -> None:
    installed = SimpleNamespace(read_text=lambda name: origin)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Path if pip else None)
    assert errors.install_command("docs") == command
    assert errors.install_command() == shlex.join(shlex.split(command.replace("[docs]", "")))


def test_a_type_has_its_article() -> None:
    given = (5, "x", None, 1.5, UUID(int=0), object(), Decimal(1), [])
    assert [errors.a_type(one) for one in given] == [
        "an int", "a str", "a NoneType", "a float", "a UUID", "an object", "a Decimal", "a list",
    ]  # fmt: skip
    assert (errors.a_type(5, "numpy"), errors.a_type(5, "ibis")) == ("a numpy int", "an ibis int")
    written = [
        f"{path.name}:{number}"
        for path in Path(errors.__file__).parents[1].rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(r"\b(is|not) an? \{type\(", line)
    ]
    assert not written, "a_type gives the article"


def test_a_name_that_only_tools_ask_for_is_not_taken_for_a_slip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(AttributeError, match=r"load_transfer' \(did you mean load_transfers\?\)"):
        _ = fl.load_transfer
    monkeypatch.setattr(errors, "with_likely", lambda *given: pytest.fail(f"{given}"))
    for name in ("__test__", "__wrapped__", "_mock_name"):  # as pytest and inspect do
        with pytest.raises(AttributeError, match=f"^module 'fundlab' has no attribute '{name}'$"):
            getattr(fl, name)
