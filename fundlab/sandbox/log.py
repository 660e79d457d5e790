"""The log of requests, as a notebook wants to see it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pandas as pd

KEPT_REQUESTS: Final = 10_000
KEPT_CHARACTERS: Final = 8_192
"""Of a path, a method or a refusal's detail."""


@dataclass(frozen=True)
class Logged:
    """One request. ``path`` has its query; ``problem`` is the detail of a refusal or ``None``.

    ``status`` is what was or would have been answered: 0 for a connection reset before processing.
    """

    at_s: float
    method: str
    path: str
    operation: str | None
    status: int
    problem: str | None
    faults: str
    milliseconds: float


class RequestLog:
    """The last requests, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Logged] = deque(maxlen=KEPT_REQUESTS)

    def add(self, entry: Logged) -> None:
        self._kept.append(
            replace(
                entry,
                method=entry.method[:KEPT_CHARACTERS],
                path=entry.path[:KEPT_CHARACTERS],
                problem=entry.problem and entry.problem[:KEPT_CHARACTERS],
            )
        )

    def keep(self, entries: Iterable[Logged]) -> None:
        """Exactly these."""
        self._kept = deque(entries, maxlen=KEPT_REQUESTS)

    def entries(self) -> list[Logged]:
        return list(self._kept)

    def clear(self) -> None:
        self._kept.clear()

    def rows(self) -> list[dict[str, Any]]:
        return [asdict(entry) for entry in self.entries()]

    def frame(self) -> pd.DataFrame:
        """Columns ``at`` (UTC), ``method``, ``path``, ``operation``, ``status``, ``problem``,
        ``faults``, ``milliseconds``; one row per request."""
        import pandas as pd

        rows = self.rows()
        names = list(Logged.__dataclass_fields__)
        frame = pd.DataFrame(rows, columns=names)
        at = pd.to_datetime(frame.pop("at_s").astype("float64"), unit="s", utc=True)
        frame.insert(0, "at", at)
        texts = ("method", "path", "operation", "problem", "faults")
        return frame.astype(
            {**dict.fromkeys(texts, "string"), "status": "int64", "milliseconds": "float64"}
        )
