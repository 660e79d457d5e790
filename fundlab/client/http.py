"""What goes out in one HTTP exchange and what comes back, and what headers say of time.

`fundlab.client.connections` carries it: it is loaded with the first call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import unquote_plus

from fundlab.settings.secret import Secret

_MASK: Final = "***"
_SHORTEST_IN_RESOURCES: Final = 16
_SHORTEST_UNSENT: Final = 8


class MaskedText(str):
    """A header value that tracebacks and logs show as ``'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"'{_MASK}'"


class MaskedBytes(bytes):
    """A body that tracebacks and logs show as ``b'***'``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"b'{_MASK}'"


@dataclass(frozen=True)
class Outgoing:
    """A request ready to go: ``url`` ends in the encoded path and query.

    ``rows`` is how many rows the answer has at most, which bounds how many bytes of it are read.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    rows: int = 1


@dataclass(frozen=True)
class Answer:
    """What came back, decoded from its transfer and content coding; header names in any case."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class Failure:
    """No usable answer. ``sent``: bytes of the request left, so it may have been carried out."""

    problem: str
    sent: bool
    final: bool = False
    """Trying again would not help (certificate, proxy, size, coding)."""
    hint: str = ""
    """What to check, where it is not the address."""


# ----------------------------------------------------------------------- what headers say of time


def retry_after_seconds(value: str | None, now: float) -> float | None:
    """``Retry-After`` in seconds from ``now`` (UNIX): a number or an HTTP date; else ``None``."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        return float(text[:12])
    moment = http_date(text)
    try:
        return None if moment is None else max(0.0, moment.timestamp() - now)
    except OverflowError:
        return None


def clock_skew(date: str | None, now: float) -> float | None:
    """Seconds by which the service's ``Date`` is ahead of ``now``; ``None`` if unreadable."""
    moment = http_date(date or "")
    return None if moment is None else moment.timestamp() - now


def http_date(text: str) -> datetime | None:
    """The moment that an HTTP date stands for, in UTC where it names no zone; else ``None``."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# ------------------------------------------------------------- answers that repeat what was sent


def without(answer: Answer, sent: Secret, *others: Secret) -> Answer:
    """``answer`` without the secret that was ``sent``, nor ``others`` that the service knows.

    A text so short that it may stand in a resource by chance is left there; so are short
    ``others`` everywhere.
    """
    refused = answer.status >= 300
    shortest = _SHORTEST_UNSENT if refused else _SHORTEST_IN_RESOURCES
    secrets = [secret for secret in (sent, *others) if len(secret.reveal()) >= shortest]
    if refused and sent not in secrets:
        secrets.append(sent)
    body, headers = answer.body, answer.headers
    for secret in secrets:
        spellings = secret.spellings()
        for spelling in spellings:
            body = body.replace(spelling, _MASK.encode())
        if refused or b"\\" in body:  # escapes spell one text in many ways: compare what they say
            try:
                plain = json.dumps(json.loads(body))
            except (ValueError, RecursionError):
                plain = ""
            masked = plain.replace(json.dumps(secret.reveal())[1:-1], _MASK)
            body = body if masked == plain else masked.encode()
        for name in ("Location", "X-Request-Id"):  # messages show them
            if name not in headers:
                continue
            raw = headers[name].encode("latin-1", "replace")  # as http.client reads headers
            for spelling in spellings:
                raw = raw.replace(spelling, _MASK.encode())
            read = {unquote_plus(raw.decode(coding, "replace")) for coding in ("utf-8", "latin-1")}
            shown = raw.decode("latin-1")
            if any(secret.reveal() in text for text in read):
                shown = _MASK
            if shown != headers[name]:
                from urllib3 import HTTPHeaderDict  # as the answer's own are, loaded by then

                headers = HTTPHeaderDict(headers)
                headers[name] = shown
    return replace(answer, body=body, headers=headers)
