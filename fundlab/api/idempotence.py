"""Is what a ``ref_id`` made before what is asked for now? (decisions on a 409's ``existing``)

Services leave members out of their answers and spell ids in another case: a member that is absent
contradicts nothing, and case makes no other id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    found = [
        problem
        for name in asked
        if complete or existing.get(name) is not None or name in _SHOWN_WITHIN
        for problem in _compared(name, asked[name], existing)
    ]
    return found + [
        f"{name} is {shorten(existing[name])}, not left out"
        for name in _only_on_request(asked)
        if name not in asked and existing.get(name)
    ]


def contradictions(asked: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """What ``made`` (the answer to a request) says otherwise than ``asked``; absent is no word."""
    told = [name for name in _ECHOED if name in asked and made.get(name) is not None]
    return [problem for name in told for problem in _compared(name, asked[name], made)]


def _only_on_request(asked: Mapping[str, Any]) -> Iterator[str]:
    """What a resource has only if it was asked for."""
    yield from ("metadata", "account_id", "memo")
    if "fiat_network" not in asked:  # deposit instructions always name an identity (§2.2)
        yield "identity_id"


def _compared(name: str, asked: Any, existing: Mapping[str, Any]) -> Iterator[str]:
    if name in _SHOWN_WITHIN:
        found = _network(existing) if name == "fiat_network" else _routing_type(existing)
        equal = found is None or found == asked
    elif name in _DETAILS:
        found = existing.get(name)
        equal = found is None or _same_variant(name, _plain(asked), _plain(found))
    elif name == "metadata":
        found = existing.get(name)
        equal = _texts(found if isinstance(found, Mapping) else {}) == _texts(asked)
    elif name in _AMOUNTS:
        found = existing.get(name)
        equal = _number(found) == _number(asked) is not None
    elif isinstance(asked, Mapping):
        found = existing.get(name)
        equal = _same_variant(name, asked, found)
    else:
        found = existing.get(name)
        equal = _details_agree(name, asked, found) if name in _IDS else found == asked
    if not equal:
        secret = name in _DETAILS
        yield f"{name} differs" if secret else f"{name} is {shorten(found)}, not {shorten(asked)}"


def _number(value: object) -> Decimal | None:
    try:
        return Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        return None


def _texts(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in metadata.items()
    }


def _plain(details: Any) -> Any:
    """``details`` with the two layouts of a CUBIX account as one."""
    if isinstance(details, Mapping) and details.get("wallet_address") is not None:
        rest = {name: value for name, value in details.items() if name != "wallet_address"}
        return {**rest, "cubix": {"account_id": details["wallet_address"]}}
    return details


def _same_variant(name: str, asked: Any, found: Any) -> bool:
    """Whether both hold the same kind of owner, account or end, and agree in it."""
    if not isinstance(asked, Mapping) or not isinstance(found, Mapping):
        return False
    kinds = {name for name in asked if name in _VARIANTS}
    shown = {name for name, value in found.items() if name in _VARIANTS and value is not None}
    return (not shown or kinds == shown) and _details_agree(name, asked, found)


def _details_agree(name: str, asked: Any, found: Any) -> bool:
    if found is None:
        return True
    if isinstance(asked, Mapping) and isinstance(found, Mapping):
        return all(_details_agree(part, value, found.get(part)) for part, value in asked.items())
    if isinstance(asked, str) and isinstance(found, str):
        same = asked.casefold() == found.casefold() if name in _IDS else asked == found
        return same or _masks(found, asked)
    return bool(found == asked)


def _masks(found: str, asked: str) -> bool:
    """``XXXXXX6789`` stands for any text of that ending."""
    hidden = found[:-_LAST_SHOWN]
    return bool(hidden) and set(hidden) == {"X"} and found[-_LAST_SHOWN:] == asked[-_LAST_SHOWN:]


def _network(existing: Mapping[str, Any]) -> str | None:
    instructions = existing.get("fiat_network_instructions")
    if not isinstance(instructions, Mapping):
        return None
    return "WIRE" if instructions.get("wire") is not None else "CUBIX"


def _routing_type(existing: Mapping[str, Any]) -> Any:
    node: Any = existing
    for name in ("fiat_network_instructions", "wire", "routing_details", "routing_number_type"):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node
