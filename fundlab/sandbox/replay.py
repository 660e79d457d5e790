"""What a deployment answered, read from a file and given again; what is kept of it is masked.

Of an account number the last four characters are kept, in its own member and, once it stood there,
in any other text. `fundlab.mirror.recording` writes such files.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from fundlab.base.errors import SandboxError
from fundlab.settings.secret import mask_number, without_numbers

LONG_ENOUGH: Final = 6
_IN_TEXT: Final = re.compile(rf"(?<![\w.-])\w{{{LONG_ENOUGH},}}(?!\w|[.-]\w)")
"""Where a number may stand alone; an amount or a part of an id does not."""


@dataclass(frozen=True)
class Exchange:
    """One request and its answer, as they are kept; a body that is not JSON is ``None``."""

    method: str
    target: str
    status: int
    request: Any
    answer: Any

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def key(self, ignoring: Set[str] = frozenset()) -> tuple[str, str, str, str]:
        """What the request asks, in whatever order its query and its body name it, but for members
        ``ignoring``."""
        query = sorted(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))
        body = json.dumps(_without(self.request, ignoring), sort_keys=True)
        return self.method, self.path, json.dumps(query), body


def read_recording(path: Path) -> list[Exchange]:
    """The exchanges in a file, oldest first. Raises ``SandboxError``."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SandboxError(f"the recording {path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise SandboxError(f"{path} is not a recording: it is not UTF-8") from None
    if not text.strip():
        raise SandboxError(f"the recording {path} is empty: 'fundlab record' fills one")
    exchanges = []
    lines = text.removesuffix("\n").split("\n")  # a text may hold what else ends a line
    for number, line in enumerate(lines, start=1):
        try:
            exchange = Exchange(**json.loads(line))
            exchange.key()  # which reads the target
        except (ValueError, TypeError, AttributeError):
            raise SandboxError(f"{path} is not a recording: line {number}") from None
        exchanges.append(exchange)
    return exchanges


class Replay:
    """Recorded answers by request, body and all: one after another where it was asked repeatedly,
    the last one again and again. Members named in ``ignoring`` (such as ``ref_id``) may differ, at
    whatever depth. Not thread-safe: the sandbox asks under its lock."""

    def __init__(self, exchanges: list[Exchange], ignoring: Iterable[str] = ()) -> None:
        self._ignoring = frozenset(ignoring)
        self._left: defaultdict[Any, list[Exchange]] = defaultdict(list)
        self._numbers: set[str] = set()
        for exchange in exchanges:
            self._left[exchange.key(self._ignoring)].append(exchange)

    def answer(self, method: str, target: str, body: bytes = b"") -> Exchange | None:
        asked, numbers = masked(body)  # as it was when it was recorded
        self._numbers |= numbers
        request = without_known(asked, self._numbers)
        left = self._left.get(Exchange(method, target, 0, request, None).key(self._ignoring))
        if not left:
            return None
        return left.pop(0) if len(left) > 1 else left[0]


def _without(value: Any, names: Set[str]) -> Any:
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    if isinstance(value, list):
        return [_without(one, names) for one in value]
    return value


def masked(body: bytes) -> tuple[Any, set[str]]:
    """A body's JSON with its account numbers masked, and the numbers; ``None`` for any other."""
    try:
        value = json.loads(body)
        hidden = without_numbers(value)
        return hidden, set(numbers_of(value, hidden))
    except (ValueError, RecursionError):
        return None, set()


def numbers_of(value: Any, hidden: Any) -> Iterator[str]:
    """What of ``value`` is masked in ``hidden``, where it is long enough to be told from others."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from numbers_of(member, hidden[name])
    elif isinstance(value, list):
        for one, other in zip(value, hidden, strict=True):
            yield from numbers_of(one, other)
    elif value != hidden and len(str(value)) >= LONG_ENOUGH:
        yield str(value)


def without_known(value: Any, numbers: Set[str]) -> Any:
    """``value`` with each of ``numbers`` masked in its texts: in a memo, in metadata, as a name."""
    if isinstance(value, dict):
        return {name: without_known(member, numbers) for name, member in value.items()}
    if isinstance(value, list):
        return [without_known(one, numbers) for one in value]
    if isinstance(value, str):
        return _IN_TEXT.sub(
            lambda found: mask_number(found[0]) if found[0] in numbers else found[0], value
        )
    return value
