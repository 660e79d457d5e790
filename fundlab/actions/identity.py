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
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

from fundlab.values import Amount, plain_text

SECOND: Final = 1_000_000_000
DAY: Final = 86_400 * SECOND
"""In nanoseconds, as all moments here."""
NOT_ALIKE: Final = ("ref_id", "metadata", "memo")
"""What may differ between a payment and its duplicate."""
_ALPHABET: Final = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no letter that looks like a digit
_OTHER_NAMES: Final = {"wallet_address": "cubix.account_id"}  # two layouts of one number
_NUMBERS: Final = (".account_number", ".cubix.account_id")


def asked(arguments: Mapping[str, Any]) -> tuple[Literal["amount", "total"], Amount]:
    """Which of the two a withdrawal is asked for by, and how much."""
    name: Literal["amount", "total"] = "total" if "total" in arguments else "amount"
    return name, Amount(arguments[name])


def canonical(value: Mapping[str, Any]) -> str:
    """One text for equal arguments, however their amounts are written."""
    same = {
        name: plain_text(Decimal(text)) if name in ("amount", "total") else text
        for name, text in value.items()
    }
    return json.dumps(same, sort_keys=True, separators=(",", ":"))


def keyed(
    journal_id: str, what: str, value: Mapping[str, Any], without: Collection[str] = ()
) -> str:
    """A digest of ``value`` that says nothing, of bank details say, to who has not the journal."""
    kept = {name: member for name, member in value.items() if name not in without}
    text = f"{what}\n{canonical(kept)}"
    return hmac.new(journal_id.encode(), text.encode(), hashlib.sha256).hexdigest()


def fingerprint(journal_id: str, operation: str, arguments: Mapping[str, Any]) -> str:
    """What was asked for, whatever the ``ref_id``: equal for equal arguments in one journal."""
    return keyed(journal_id, operation, arguments, without=("ref_id",))


def traces(journal_id: str, details: Any, path: str = "") -> dict[str, str]:
    """A keyed digest of each text in ``details`` by its path.

    An update whose answer was lost is recognised by them: the journal may hold no bank details. Of
    numbers only the last four characters count, for a service may mask the others.
    """
    if isinstance(details, Mapping) and path != ".metadata":
        return {
            inner: digest
            for name, member in details.items()
            for inner, digest in traces(
                journal_id, member, f"{path}.{_OTHER_NAMES.get(name, name)}"
            ).items()
        }
    if details is None:
        return {}
    text = details if isinstance(details, str) else json.dumps(details, sort_keys=True)
    shown = text[-4:] if path.endswith(_NUMBERS) else text
    return {path: keyed(journal_id, path, {"text": shown})[:32]}


def confirmation_code(
    service: str, operation: str, arguments: Mapping[str, Any], evidence: str
) -> str:
    """Eight characters that stand for exactly this payment, such as ``K7QF-2M9D``.

    ``evidence`` is what the confirming person was shown beside the arguments: the account.
    """
    text = f"{service}\n{operation}\n{canonical(arguments)}\n{evidence}"
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = ""
    for _ in range(8):
        number, letter = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[letter]
    return f"{letters[:4]}-{letters[4:]}"


def same_code(given: object, code: str) -> bool:
    """Whether ``given`` is ``code``, however it was typed."""
    if not isinstance(given, str):
        return False
    typed = "".join(char for char in given.upper() if char.isalnum())
    return typed == code.replace("-", "")


def shown_time(ns: int, now: int) -> str:
    """``14:02 UTC``, or ``2026-11-20 14:02 UTC`` on another day than ``now``'s."""
    moment = datetime.fromtimestamp(ns // SECOND, UTC)
    same_day = ns // DAY == now // DAY
    return f"{moment:%H:%M} UTC" if same_day else f"{moment:%Y-%m-%d %H:%M} UTC"
