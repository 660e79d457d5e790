"""Is this what was asked for? A request's body held against a resource, as Get shows it.

``is_this_payment`` is the one test of identity: of what a request is answered by, of what a
conflict, a list or the journal names under a ``ref_id``, and of what may be a duplicate. Services
leave members out and spell ids in another case: case makes no other id, and what an answer leaves
out contradicts nothing, but it proves nothing either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from pydantic import ValidationError

from fundlab.base.errors import shorten
from fundlab.models import FiatAccountOwner, TransferType

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
_BY_DEFAULT: Final[Mapping[str, Callable[[Mapping[str, Any]], Any]]] = {
    "conversion_target_asset": lambda _: "NO_CONVERSION",
    "destination": lambda asked: {"profile": {"profile_id": asked.get("profile_id")}},
}
"""What a resource may show of a member that was left out: what was converted stays where it is."""


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

    ``ours``: it is the request's own answer, or its ``ref_id`` can be nobody else's, so that
    descriptions are not compared, and of what the service added only where the money goes.
    ``named``: the service named it by the ``ref_id``, which then need not be shown. ``without``:
    members that may differ, between a payment and its duplicate say.
    """
    wanted = {name: value for name, value in asked.items() if name not in without}
    found = {name: value for name, value in found.items() if name not in without}
    contradictions = differences(wanted, found, ours=ours)
    decisive = _DECISIVE.get(operation, ())
    if operation == WITHDRAWAL:
        decisive = (*decisive, "total" if "total" in asked else "amount")
        kind, direction = found.get("type"), found.get("direction")
        if kind in set(TransferType) - {*_MADE_BY_IT}:
            contradictions.insert(0, f"type is {kind}")
        elif direction not in (None, "DEBIT"):
            contradictions.insert(0, f"direction is {direction}")
        elif kind is not None and kind not in _MADE_BY_IT:
            found = {**found, "type": None}  # of a kind that nobody listed nothing is known
    if where_to := _WHERE_TO.get(operation):
        if ours:
            contradictions += _added(wanted, found, [where_to])
        if asked.get(where_to) not in (None, _BY_DEFAULT[where_to](asked)):
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
_DESCRIPTIVE: Final = {
    "metadata", "nickname", "bank_name", "bank_address", "fiat_account_owner_address",
}  # fmt: skip
"""What a service may say in words of its own: a country by its name or code, a bank's full name."""


def differences(
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    *,
    complete: bool = False,
    ours: bool = False,
) -> list[str]:
    """How ``asked`` (a request body) and ``found`` (a resource) differ; empty when equal.

    What ``found`` leaves out is no difference, unless it is ``complete``. Amounts are compared as
    numbers and metadata in full. In bank details, members that the service leaves out or masks to
    the last four characters count as equal. Metadata, a memo, an end user, and where the money goes
    from there, that ``found`` has and nobody asked for are differences. With ``ours``, ``found`` is
    what the request made: then what describes it or was added is no difference, nor are the case
    and the spaces of names, numbers and addresses.
    """
    problems = []
    for name, wanted in asked.items():
        shown = found.get(name)
        if shown is None and not (complete or name in _SHOWN_WITHIN):
            continue
        if ours and name in _DESCRIPTIVE:
            continue
        if name in _SHOWN_WITHIN:
            shown = found.get("fiat_network_instructions")
            if name == "routing_number_type":
                for part in ("wire", "routing_details", "routing_number_type"):
                    shown = shown.get(part) if isinstance(shown, Mapping) else None
            else:
                shown = _in_one_layout(shown) if isinstance(shown, Mapping) else {}
                networks = [kind for kind in ("wire", "cubix") if shown.get(kind) is not None]
                shown = networks[0].upper() if len(networks) == 1 else None
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
                there = {part for part in shown if part in _VARIANTS and shown[part] is not None}
                equal = not there or kinds == there
                equal = equal and _agree(name, wanted, shown, complete, ours)
            else:
                equal = shown is None and name in _DETAILS
            if not equal and ours and name == "fiat_account_owner":  # a company as a person, say
                equal = _agree(name, _name_of(wanted), _name_of(shown), complete, ours)
        elif name in _IDS or (ours and name == "destination_address"):
            equal = _agree(name, wanted, shown, complete, ours)
        else:
            equal = shown == wanted
        if not equal and name in _DETAILS:
            problems.append(f"{name} differs")
        elif not equal:
            problems.append(f"{name} is {shorten(shown)}, not {shorten(wanted)}")
    if ours:
        return problems
    only_on_request = ["metadata", "account_id", "memo", *_WHERE_TO.values()]
    if "fiat_network" not in asked:  # deposit instructions always name an identity (§2.2)
        only_on_request.append("identity_id")
    return problems + _added(asked, found, only_on_request)


def _added(asked: Mapping[str, Any], found: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Which of ``names`` nobody asked for and ``found`` has nevertheless, unless by default."""
    return [
        f"{name} is {shorten(found[name])}, not left out"
        for name in names
        if name not in asked
        and found.get(name)
        and (
            name not in _BY_DEFAULT
            or differences({name: _BY_DEFAULT[name](asked)}, {name: found[name]})
        )
    ]


def _in_one_layout(details: Any) -> Any:
    """``details`` with the two layouts of a CUBIX account as one."""
    if isinstance(details, Mapping) and details.get("wallet_address") is not None:
        rest = {name: value for name, value in details.items() if name != "wallet_address"}
        return {**rest, "cubix": {"account_id": details["wallet_address"]}}
    return details


def _name_of(owner: Any) -> str | None:
    """The name in the details of an owner, whichever of its layouts holds it."""
    try:
        return FiatAccountOwner.model_validate(owner).name
    except ValidationError:
        return None


def _agree(name: str, asked: Any, found: Any, complete: bool, ours: bool) -> bool:
    if found is None:  # an empty text is as good as absent
        return not complete or asked == ""
    if isinstance(asked, Mapping) and isinstance(found, Mapping):
        return all(
            _agree(part, value, found.get(part), complete, ours)
            for part, value in asked.items()
            if not (ours and part in _DESCRIPTIVE)
        )
    if isinstance(asked, str) and isinstance(found, str):
        if ours and name not in _IDS:
            asked, found = ("".join(text.split()).upper() for text in (asked, found))
            if name == "routing_number":  # a SWIFT code of 11 characters: of the head office
                asked, found = (re.sub("^(.{8})XXX$", r"\1", text) for text in (asked, found))
        hidden, last = found[:-_LAST_SHOWN], found[-_LAST_SHOWN:]
        if set(hidden) == {"X"} and last == asked[-_LAST_SHOWN:]:
            return True  # ``XXXXXX6789`` stands for any text of that ending
        return bool(asked.casefold() == found.casefold() if name in _IDS else asked == found)
    return bool(found == asked)
