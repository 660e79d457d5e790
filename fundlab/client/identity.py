"""Is this what was asked for? A request's body held against a resource, as Get shows it.

``is_this_payment`` is the one test of identity: of what a conflict, a list or the journal names
under a ``ref_id``, and of what may be a duplicate. Services leave members out and spell ids in
another case: case makes no other id, and what an answer leaves out contradicts nothing, but it
proves nothing either.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from fundlab.base.errors import shorten
from fundlab.models import TransferType

WITHDRAWAL: Final = "create_fiat_withdrawal"
_MADE_BY_IT: Final = (TransferType.WIRE_WITHDRAWAL, TransferType.CUBIX_WITHDRAWAL)
_DECISIVE: Final[Mapping[str, tuple[str, ...]]] = {
    WITHDRAWAL: ("ref_id", "type", "direction", "profile_id", "fiat_account_id", "asset"),
    "create_fiat_account": ("ref_id", "fiat_account_owner", "fiat_network_instructions"),
    "create_fiat_deposit_instructions": ("ref_id", "profile_id", "fiat_network_instructions"),
    "create_deposit_address": ("ref_id", "profile_id", "crypto_network"),
    "create_orchestration_rule": (
        "ref_id", "profile_id", "source_asset", "destination_asset", "source",
    ),
}  # fmt: skip
"""What must be shown of a resource before it is taken for the one asked for; of a withdrawal its
amount, or the total, too."""
_WHERE_TO: Final = {
    "create_deposit_address": "conversion_target_asset", "create_orchestration_rule": "destination",
}  # fmt: skip
"""The member that says what becomes of the money, decisive where it is asked for."""
_BY_DEFAULT: Final = {"conversion_target_asset": "NO_CONVERSION"}
"""What a resource shows of a member that was left out."""


@dataclass(frozen=True)
class Identity:
    """How a resource contradicts what was asked for, and what would decide but is not shown."""

    contradictions: tuple[str, ...]
    absent: tuple[str, ...]

    @property
    def answer(self) -> Literal["yes", "no", "unknown"]:
        return "no" if self.contradictions else "unknown" if self.absent else "yes"


def is_this_payment(
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    operation: str = WITHDRAWAL,
    *,
    ours: bool = False,
    named: bool = False,
    without: Collection[str] = (),
) -> Identity:
    """Whether ``found``, a resource as Get shows it, is what the body ``asked`` asks for.

    ``ours``: its ``ref_id`` can be nobody else's, so that what the service added is no difference.
    ``named``: the service named it by the ``ref_id``, which then need not be shown. ``without``:
    members that may differ, between a payment and its duplicate say.
    """
    wanted = {name: value for name, value in asked.items() if name not in without}
    found = {name: value for name, value in found.items() if name not in without}
    contradictions = differences(wanted, found, echoed=ours)
    decisive = _DECISIVE[operation]
    if operation == WITHDRAWAL:
        decisive = (*decisive, "total" if "total" in asked else "amount")
        kind, direction = found.get("type"), found.get("direction")
        if kind in set(TransferType) - {*_MADE_BY_IT}:
            contradictions.insert(0, f"type is {kind}")
        elif direction not in (None, "DEBIT"):
            contradictions.insert(0, f"direction is {direction}")
        elif kind is not None and kind not in _MADE_BY_IT:
            found = {**found, "type": None}  # of a kind that nobody listed nothing is known
    where_to = _WHERE_TO.get(operation, "")
    if asked.get(where_to) not in (None, _BY_DEFAULT.get(where_to)):
        decisive = (*decisive, where_to)
    known = {*without, *(["ref_id"] if named else [])}
    absent = [name for name in decisive if found.get(name) is None and name not in known]
    return Identity(tuple(contradictions), tuple(absent))


_AMOUNTS: Final = {"amount", "total"}
_DETAILS: Final = {"fiat_account_owner", "fiat_network_instructions"}
_IDS: Final = {"ref_id", "profile_id", "identity_id", "account_id", "fiat_account_id"}
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
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    complete: bool = False,
    echoed: bool = False,
) -> list[str]:
    """How ``asked`` (a request body) and ``found`` (a resource) differ; empty when equal.

    What ``found`` leaves out is no difference, unless it is ``complete``. Amounts are compared as
    numbers and metadata in full. In bank details, members that the service leaves out or masks to
    the last four characters count as equal. Metadata, a memo, an end user, and where the money goes
    from there, that ``found`` has and nobody asked for are differences. With ``echoed``, ``found``
    is the answer to the request: then only what answers repeat is compared, where it does.
    """
    problems = []
    for name, wanted in asked.items():
        shown = found.get(name)
        if shown is None and not (complete or name in _SHOWN_WITHIN):
            continue
        if echoed and name not in _ECHOED:
            continue
        if name in _SHOWN_WITHIN:
            shown = found.get("fiat_network_instructions")
            if name == "routing_number_type":
                for part in ("wire", "routing_details", "routing_number_type"):
                    shown = shown.get(part) if isinstance(shown, Mapping) else None
            elif isinstance(shown, Mapping):
                shown = "CUBIX" if shown.get("wire") is None else "WIRE"
            else:
                shown = None
            equal = shown is None or shown == wanted
        elif name == "metadata":
            members = shown if isinstance(shown, Mapping) else {}
            equal = dict(wanted) == {
                key: value if isinstance(value, str) else json.dumps(value)
                for key, value in members.items()
            }
        elif name in _AMOUNTS:
            try:
                equal = isinstance(shown, str) and Decimal(shown) == Decimal(wanted)
            except InvalidOperation:
                equal = False
        elif isinstance(wanted, Mapping):  # the same kind of owner, account or end, and equal in it
            wanted, shown = _in_one_layout(wanted), _in_one_layout(shown)
            if isinstance(shown, Mapping):
                kinds = {part for part in wanted if part in _VARIANTS}
                theirs = {part for part in shown if part in _VARIANTS and shown[part] is not None}
                equal = (not theirs or kinds == theirs) and _agree(name, wanted, shown, complete)
            else:
                equal = shown is None and name in _DETAILS
        else:
            equal = _agree(name, wanted, shown, complete) if name in _IDS else shown == wanted
        if not equal and name in _DETAILS:
            problems.append(f"{name} differs")
        elif not equal:
            problems.append(f"{name} is {shorten(shown)}, not {shorten(wanted)}")
    if echoed:
        return problems
    only_on_request = ["metadata", "account_id", "memo", *_WHERE_TO.values()]
    if "fiat_network" not in asked:  # deposit instructions always name an identity (§2.2)
        only_on_request.append("identity_id")
    return problems + [
        f"{name} is {shorten(found[name])}, not left out"
        for name in only_on_request
        if name not in asked and found.get(name) and found[name] != _BY_DEFAULT.get(name)
    ]


def _in_one_layout(details: Any) -> Any:
    """``details`` with the two layouts of a CUBIX account as one."""
    if isinstance(details, Mapping) and details.get("wallet_address") is not None:
        rest = {name: value for name, value in details.items() if name != "wallet_address"}
        return {**rest, "cubix": {"account_id": details["wallet_address"]}}
    return details


def _agree(name: str, asked: Any, found: Any, complete: bool) -> bool:
    if found is None:  # an empty text is as good as absent
        return not complete or asked == ""
    if isinstance(asked, Mapping) and isinstance(found, Mapping):
        return all(_agree(part, value, found.get(part), complete) for part, value in asked.items())
    if isinstance(asked, str) and isinstance(found, str):
        hidden, last = found[:-_LAST_SHOWN], found[-_LAST_SHOWN:]
        if set(hidden) == {"X"} and last == asked[-_LAST_SHOWN:]:
            return True  # ``XXXXXX6789`` stands for any text of that ending
        return asked.casefold() == found.casefold() if name in _IDS else asked == found
    return bool(found == asked)
