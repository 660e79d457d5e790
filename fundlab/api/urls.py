"""Paths and queries, encoded once: what is built here is what is signed and what is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from fundlab.errors import InvalidRequest, shorten

_NAMED_PART: Final = re.compile(r"\{(\w+)\}")


def encoded_target(
    path: str, values: Mapping[str, Any] | None = None, params: Iterable[tuple[str, str]] = ()
) -> str:
    """``path`` with its ``{name}`` parts filled in from ``values``, and the query.

    Values keep ``A-Za-z0-9-._~``; every other byte of their UTF-8 becomes ``%XX``.
    Raises ``InvalidRequest`` for a value that no path can carry.
    """
    filled = _NAMED_PART.sub(lambda part: _segment(part[1], (values or {})[part[1]]), path)
    query = "&".join(f"{_quoted(name, name)}={_quoted(name, value)}" for name, value in params)
    return f"{filled}?{query}" if query else filled


def _segment(name: str, value: object) -> str:
    if not isinstance(value, str) or value in ("", ".", ".."):
        raise InvalidRequest(f"{name}={shorten(value)} is not accepted; give an id as text")
    return _quoted(name, value)


def _quoted(name: str, value: str) -> str:
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise InvalidRequest(f"{name}={shorten(value)} is not valid Unicode") from None
