"""Answers that repeat what was sent, without the secrets in it: however a service spells them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final
from urllib.parse import quote, quote_plus, unquote_plus

from requests.structures import CaseInsensitiveDict

from fundlab.api.http import Answer
from fundlab.secret import Secret

_MASK: Final = "***"
_SHOWN_HEADERS: Final = ("Location", "X-Request-Id")
_SHORTEST_IN_RESOURCES: Final = 16
_SHORTEST_UNSENT: Final = 8


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
    body, headers = answer.body, CaseInsensitiveDict(answer.headers)
    for secret in secrets:
        body = _masked_body(body, secret, refused=refused)
        for name in _SHOWN_HEADERS:
            if name in headers:
                headers[name] = _masked_header(headers[name], secret)
    return replace(answer, body=body, headers=headers)


def _masked_body(body: bytes, secret: Secret, *, refused: bool) -> bytes:
    for spelling in _spellings(secret):
        body = body.replace(spelling, _MASK.encode())
    if not refused and b"\\" not in body:
        return body
    try:  # escapes spell one text in many ways: compare what they say
        plain = json.dumps(json.loads(body))
    except (ValueError, RecursionError):
        return body
    masked = plain.replace(json.dumps(secret.reveal())[1:-1], _MASK)
    return body if masked == plain else masked.encode()


def _masked_header(value: str, secret: Secret) -> str:
    raw = value.encode("latin-1", "replace")  # http.client reads headers as Latin-1
    for spelling in _spellings(secret):
        raw = raw.replace(spelling, _MASK.encode())
    read = {unquote_plus(raw.decode(coding, "replace")) for coding in ("utf-8", "latin-1")}
    return _MASK if any(secret.reveal() in text for text in read) else raw.decode("latin-1")


def _spellings(secret: Secret) -> set[bytes]:
    """``secret`` as it is, and as JSON, a URL or a form has it."""
    text = secret.reveal()
    as_json = (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
    in_url = (quote(text), quote(text, safe=""), quote_plus(text))
    spellings = {spelling.encode() for spelling in (text, *as_json, *in_url)}
    return spellings if text.isascii() else spellings | _in_latin(text)


def _in_latin(text: str) -> set[bytes]:
    return {text.encode("latin-1")} if all(ord(char) < 256 for char in text) else set()
