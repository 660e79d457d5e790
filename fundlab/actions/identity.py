"""Which payment is this? What makes two runs of a cell the same payment, and two payments two.

A cell is run again, a kernel restarted, a notebook copied: none of that is a new wish to pay. So a
payment is known by what was asked for, not by when or where the cell ran:

- Its **ref_id**, unless given, is derived from its arguments and the journal's random id. The same
  arguments by the same user are therefore the same payment, today and next year, in whichever
  folder the notebook lies, and a rerun finds it in the journal. A colleague has another journal,
  hence other ref_ids: a colleague's payment is never silently taken for one's own (the service's
  recent transfers are looked at instead).
- A second payment alike is a decision, and must be stable under reruns too: it gets a ``ref_id`` of
  its own (``"rent-2026-12"``), or ``allow_duplicate=True``, which stands for *one* more payment
  with these arguments; running that cell again finds that one.
- ``100`` and ``100.00`` are the same amount. Metadata and memo belong to the arguments, yet do not
  make two payments of one when duplicates are looked for.
- The **confirmation code** belongs to the payment and to the account as it was shown: service,
  credential, ref_id, every argument, and the account's owner, number and bank. It holds no time and
  no balance, so a code typed into a cell still fits when the notebook runs again, and no longer
  fits when the account has changed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from fundlab.values import plain_text

_AMOUNTS: Final = ("amount", "total")
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no letter that looks like a digit
_CODE_LENGTH: Final = 8
_TRACE: Final = 32
_OTHER_NAMES: Final = {"wallet_address": "cubix.account_id"}  # two layouts of one number
_NUMBERS: Final = (".account_number", ".cubix.account_id")


def fingerprint(journal_id: str, operation: str, body: Mapping[str, Any]) -> str:
    """What was asked for, whatever the ``ref_id``: equal for equal arguments in one journal."""
    asked = {name: value for name, value in body.items() if name != "ref_id"}
    return keyed(journal_id, operation, asked)


def likeness(journal_id: str, operation: str, body: Mapping[str, Any]) -> str:
    """As ``fingerprint``, without metadata and memo: what makes a likely duplicate."""
    asked = {name: body[name] for name in body if name not in ("ref_id", "metadata", "memo")}
    return keyed(journal_id, operation, asked)


def derived_ref_id(journal_id: str, operation: str, body: Mapping[str, Any], *, more: bool) -> str:
    """The ``ref_id`` of a payment that was not given one; ``more`` is the one more payment."""
    kind = "fundlab-more" if more else "fundlab"
    return f"{kind}-{fingerprint(journal_id, operation, body)[:32]}"


def confirmation_code(service: str, operation: str, body: Mapping[str, Any], evidence: str) -> str:
    """Eight characters that stand for exactly this payment, such as ``K7QF-2M9D``.

    ``evidence`` is what the confirming person was shown beside the body: the account.
    """
    digest = hashlib.sha256(f"{service}\n{operation}\n{_plain(body)}\n{evidence}".encode()).digest()
    number = int.from_bytes(digest, "big")
    letters = []
    for _ in range(_CODE_LENGTH):
        number, letter = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[letter])
    half = _CODE_LENGTH // 2
    return f"{''.join(letters[:half])}-{''.join(letters[half:])}"


def same_code(given: object, code: str) -> bool:
    """Whether ``given`` is ``code``, however it was typed."""
    if not isinstance(given, str):
        return False
    typed = "".join(char for char in given.upper() if char.isalnum())
    return typed == code.replace("-", "")


def evidence_of(value: Mapping[str, Any]) -> str:
    """A digest of what was shown, to tell whether it has changed."""
    return hashlib.sha256(_plain(value).encode()).hexdigest()


def traces(journal_id: str, details: Mapping[str, Any]) -> dict[str, str]:
    """A keyed digest of each text in ``details`` by its path, to recognise them by later.

    Of bank numbers only the last four characters count: a service may mask the others.
    """
    return {
        path: keyed(journal_id, path, {"text": text})[:_TRACE] for path, text in _texts(details, "")
    }


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and path != ".metadata":
        for name, member in value.items():
            yield from _texts(member, f"{path}.{_OTHER_NAMES.get(name, name)}")
    elif value is not None:
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        yield path, text[-4:] if path.endswith(_NUMBERS) else text


def keyed(journal_id: str, operation: str, asked: Mapping[str, Any]) -> str:
    """A digest that says nothing, of bank details say, to who has not the journal."""
    text = f"{operation}\n{_plain(asked)}"
    return hmac.new(journal_id.encode(), text.encode(), hashlib.sha256).hexdigest()


def _plain(value: Mapping[str, Any]) -> str:
    same = {
        name: plain_text(Decimal(text)) if name in _AMOUNTS else text
        for name, text in value.items()
    }
    return json.dumps(same, sort_keys=True, separators=(",", ":"))
