"""A bank's habits in a small TOML file beside its statements, where their look does not say them.

format = "csv"
encoding = "cp1252"
dates = "%d.%m.%Y"
decimal = ","
asset = "EUR"
[columns]
booked_on = "Buchung"
amount = "Umsatz in EUR"
direction = "Richtung"
[words]
in = ["Eingang"]
out = ["Ausgang"]
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from fundlab.base.errors import AnalysisError, with_likely

_TEXTS: Final = ("format", "encoding", "dates", "decimal", "account", "asset")
_TABLES: Final = ("columns", "words")


def read_profile(profile: str | Path) -> dict[str, Any]:
    """What the profile says, as arguments of ``read``. Raises :class:`AnalysisError` for what is no
    TOML, an unknown key or a value of another kind."""
    try:
        known = tomllib.loads(Path(profile).read_text("utf-8"))
    except OSError as error:
        raise AnalysisError(f"profile={str(profile)!r}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AnalysisError(f"profile={str(profile)!r} is not TOML: {error}") from error
    for key, value in known.items():
        if key not in (*_TEXTS, *_TABLES):
            raise AnalysisError(
                f"profile={str(profile)!r}: unknown {with_likely(key, (*_TEXTS, *_TABLES))}; known "
                f"are {', '.join((*_TEXTS, *_TABLES))}"
            )
        fits = isinstance(value, str) if key in _TEXTS else isinstance(value, dict) and all(
            isinstance(one, str) if key == "columns" else
            isinstance(one, list) and all(isinstance(word, str) for word in one)
            for one in value.values()
        )  # fmt: skip
        if not fits or (key == "words" and not {*value} <= {"in", "out"}):
            shape = {
                "columns": "a table such as amount = 'Betrag'",
                "words": "a table of in and out, each a list of words",
            }.get(key, "a text")
            raise AnalysisError(f"profile={str(profile)!r}: {key} must be {shape}")
    return known
