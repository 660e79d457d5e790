"""What people give to a function: a folder or file of this machine, a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, TypeVar

from fundlab.base.errors import InvalidRequest, a_type, shorten

S = TypeVar("S")
URI_AS_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/|$)")
"""A ``Path`` makes one slash of the two in a URI."""


def local_path(path: str | os.PathLike[str], parameter: str = "path") -> Path:
    """``path`` with a leading ``~`` as the home folder.

    Raises ``InvalidRequest`` for what is no path, for a URI, for nothing, and for a name that not
    every library here can open.

    >>> local_path("books").name
    'books'
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidRequest(f"{parameter} is {a_type(path)}; give the path of a file or folder")
    text = str(path)
    if isinstance(path, Path) and URI_AS_PATH.match(text):
        text = text.replace(":/", "://", 1)
    if not text or "://" in text:
        raise InvalidRequest(f"{parameter}={shorten(text)}: give a file or folder of this machine")
    try:
        folder = Path(path).expanduser()
        str(folder).encode()
    except (RuntimeError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"{parameter}={shorten(str(path))}: {error}") from None
    if re.search(r"(?:^|/)[A-Za-z]:[\\/]", str(folder)):
        raise InvalidRequest(
            f"{parameter}={shorten(str(path))}: a path of Windows; give one that begins with / "
            "(in WSL C: is /mnt/c)"
        )
    if "\0" in str(folder):
        raise InvalidRequest(f"{parameter}={shorten(str(path))}: no name holds a zero byte")
    return folder


def opened(store: S) -> S:
    """``store`` itself. Raises ``InvalidRequest`` for its path, and whatever else is not a store.

    >>> opened("books")
    Traceback (most recent call last):
    ...
    fundlab.errors.InvalidRequest: store='books' must be a store: give fl.Store('books')
    """
    if not hasattr(store, "read_arrow"):
        given = shorten(store)
        advice = f"fl.Store({given})" if isinstance(store, str) else "what fl.Store(path) returns"
        raise InvalidRequest(f"store={given} must be a store: give {advice}")
    return store
