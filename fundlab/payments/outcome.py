"""What became of an attempt: the one table that says which state the journal keeps.

What was **observed** of the attempt, on its connection and in the service's own words; what the
service then **shows** under its ``ref_id``, by `fundlab.client.identity`; and whether it was the
**only attempt** there was, this kernel's: of two, the refusal of one says nothing of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from fundlab.base.errors import CallError, Conflict
from fundlab.client.identity import Identity
from fundlab.payments.identity import State

Observed = Literal["refused", "used", "unsent", "doubt", "asked"]
"""Where no answer brought the resource. ``refused``: the service's problem, of all that was sent in
the call. ``used``: its problem that the ``ref_id`` is used already. ``unsent``: no byte left.
``doubt``: anything else. ``asked``: nothing was sent, only asked what is there."""

_COLUMNS: Final = ("yes", "no", "unknown", "nothing")
_TABLE: Final[Mapping[tuple[Observed, bool], tuple[State, State, State, State]]] = {
    # what the service shows:       it       another's   unclear    nothing
    ("refused", True):           ("done",    "refused", "unknown", "refused"),
    ("refused", False):          ("done",    "unknown", "unknown", "unknown"),
    ("used", True):              ("done",    "refused", "unknown", "unknown"),
    ("used", False):             ("done",    "unknown", "unknown", "unknown"),
    ("unsent", True):            ("done",    "absent",  "absent",  "absent"),
    ("unsent", False):           ("done",    "unknown", "unknown", "unknown"),
    ("doubt", True):             ("done",    "unknown", "unknown", "unknown"),
    ("doubt", False):            ("done",    "unknown", "unknown", "unknown"),
    ("asked", True):             ("done",    "unknown", "unknown", "absent"),
    ("asked", False):            ("done",    "unknown", "unknown", "absent"),
}  # fmt: skip
"""By what was observed, and whether it was the only attempt."""


@dataclass(frozen=True)
class Seen:
    """What the service shows under a ``ref_id``: a resource, and whether it is the one asked for.

    Nothing, or nothing that could be asked for: no ``resource``. Where asking failed, ``failed``.
    """

    resource: Any = None
    identity: Identity | None = None
    failed: bool = False

    @property
    def answer(self) -> Literal["yes", "no", "unknown", "nothing"]:
        if self.identity is not None:
            return self.identity.answer
        return "unknown" if self.failed else "nothing"


def state_after(observed: Observed, seen: Seen, *, only_attempt: bool) -> State:
    """The state that the journal keeps."""
    return _TABLE[observed, only_attempt][_COLUMNS.index(seen.answer)]


def observed_of(error: CallError, ref_id: str) -> Observed:
    """What ``error`` says of the call that raised it."""
    if error.in_doubt or not error.refused:
        return "unsent" if error.unsent else "doubt"
    if isinstance(error, Conflict):
        other = error.existing.get("ref_id")
        same = other is None or str(other).casefold() == ref_id.casefold()
        return "used" if same else "refused"
    return "refused"
