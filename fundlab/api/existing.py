"""Is what exists under a ``ref_id`` what is asked for now? (decisions on a 409's ``existing``)

That a payment happens once is the work of `fundlab.actions.plan` and `fundlab.actions.journal`.

Services leave members out of their answers and spell ids in another case: a member that is absent
contradicts nothing, and case makes no other id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fundlab.errors import shorten

_AMOUNTS: Final = {"amount", "total"}
_DETAILS: Final = {"fiat_account_owner", "fiat_network_instructions"}
_IDS: Final = {"profile_id", "identity_id", "account_id", "fiat_account_id"}
_VARIANTS: Final = {
    "wire", "cubix", "institution_details", "person_details", "crypto", "fiat", "profile",
}  # fmt: skip
_LAST_SHOWN: Final = 4
_SHOWN_WITHIN: Final = ("fiat_network", "routing_number_type")  # the bank details
_ECHOED: Final = (
    "ref_id", "amount", "total", "asset", "profile_id", "identity_id", "account_id",
    "fiat_account_id", "crypto_network", "source_asset", "destination_asset",
    "memo",
)  # fmt: skip


def differences(
    asked: Mapping[str, Any], existing: Mapping[str, Any], *, complete: bool = False
) -> list[str]:
    """How ``asked`` (a request body) and ``existing`` (a resource) differ; empty when equal.

    What ``existing`` leaves out is no difference, unless it is ``complete``. Amounts are compared
    as numbers and metadata in full. In bank details, members that the service leaves out or masks
    to the last four characters count as equal. Metadata, a memo and an end user that ``existing``
    has and nobody asked for are differences.
    """
    compared = [
        _difference(name, asked[name], existing)
        for name in asked
        if complete or existing.get(name) is not None or name in _SHOWN_WITHIN
    ]
    only_on_request = ["metadata", "account_id", "memo"]
    if "fiat_network" not in asked:  # deposit instructions always name an identity (§2.2)
        only_on_request.append("identity_id")
    return [problem for problem in compared if problem] + [
        f"{name} is {shorten(existing[name])}, not left out"
        for name in only_on_request
        if name not in asked and existing.get(name)
    ]


def contradictions(asked: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """What ``made`` (the answer to a request) says otherwise than ``asked``, where it says it."""
    said = [name for name in _ECHOED if name in asked and made.get(name) is not None]
    compared = [_difference(name, asked[name], made) for name in said]
    return [problem for problem in compared if problem]


def _difference(name: str, asked: Any, existing: Mapping[str, Any]) -> str | None:
    found = existing.get(name)
    if name in _SHOWN_WITHIN:
        found = existing.get("fiat_network_instructions")
        if name == "routing_number_type":
            for part in ("wire", "routing_details", "routing_number_type"):
                found = found.get(part) if isinstance(found, Mapping) else None
        elif isinstance(found, Mapping):
            found = "CUBIX" if found.get("wire") is None else "WIRE"
        else:
            found = None
        equal = found is None or found == asked
    elif name == "metadata":
        shown = found if isinstance(found, Mapping) else {}
        equal = dict(asked) == {
            key: value if isinstance(value, str) else json.dumps(value)
            for key, value in shown.items()
        }
    elif name in _AMOUNTS:
        try:
            equal = isinstance(found, str) and Decimal(found) == Decimal(asked)
        except InvalidOperation:
            equal = False
    elif isinstance(asked, Mapping):  # the same kind of owner, account or end, and equal in it
        asked, found = _in_one_layout(asked), _in_one_layout(found)
        if isinstance(found, Mapping):
            kinds = {part for part in asked if part in _VARIANTS}
            shown_kinds = {part for part in found if part in _VARIANTS and found[part] is not None}
            equal = (not shown_kinds or kinds == shown_kinds) and _agree(name, asked, found)
        else:
            equal = found is None and name in _DETAILS
    else:
        equal = _agree(name, asked, found) if name in _IDS else found == asked
    if equal:
        return None
    return (
        f"{name} differs"
        if name in _DETAILS
        else (f"{name} is {shorten(found)}, not {shorten(asked)}")
    )


def _in_one_layout(details: Any) -> Any:
    """``details`` with the two layouts of a CUBIX account as one."""
    if isinstance(details, Mapping) and details.get("wallet_address") is not None:
        rest = {name: value for name, value in details.items() if name != "wallet_address"}
        return {**rest, "cubix": {"account_id": details["wallet_address"]}}
    return details


def _agree(name: str, asked: Any, found: Any) -> bool:
    if found is None:
        return True
    if isinstance(asked, Mapping) and isinstance(found, Mapping):
        return all(_agree(part, value, found.get(part)) for part, value in asked.items())
    if isinstance(asked, str) and isinstance(found, str):
        hidden, last = found[:-_LAST_SHOWN], found[-_LAST_SHOWN:]
        if set(hidden) == {"X"} and last == asked[-_LAST_SHOWN:]:
            return True  # ``XXXXXX6789`` stands for any text of that ending
        return asked.casefold() == found.casefold() if name in _IDS else asked == found
    return bool(found == asked)
