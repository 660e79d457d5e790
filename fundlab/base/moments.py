"""A moment as people give it: ISO text, a ``datetime``, a ``pandas.Timestamp``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from fundlab.base.errors import InvalidRequest, shorten
from fundlab.base.values import Instant

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def moment_ns(value: object, parameter: str) -> int:
    """Nanoseconds since 1970 of ``value``; ``parameter`` is its name in an error message.

    A calendar day stands for its first moment, and a ``datetime`` without a zone is in UTC, like
    every time of the interface. Text with a time of day must name its zone.

    Raises ``InvalidRequest`` for anything else.
    """
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return Instant.parse(f"{value}T00:00:00Z").ns
        if isinstance(value, datetime) and value.tzinfo is None:
            return Instant.parse(value.replace(tzinfo=UTC)).ns
        return Instant.parse(value).ns
    except ValueError as error:
        problem = str(error)
    raise InvalidRequest(
        f"{parameter}={shorten(value)}: {problem}; give ISO text such as '2026-10-01' or "
        "'2026-10-01T09:30:00Z', a datetime or a Timestamp"
    )


def minute_text(ns: int | None) -> str:
    """``2026-10-31 17:04 UTC`` of nanoseconds since 1970, for people; of ``None`` nothing."""
    return "" if ns is None else f"{Instant.from_ns(ns):%Y-%m-%d %H:%M} UTC"
