"""Faults to inject, off by default: what a network or a service in trouble does to its clients.

==================  ===========================================================================
``status``          answer ``status`` with ``body`` and ``headers`` instead of processing
``rate_limit``      429 with ``Retry-After: seconds``
``latency``         wait ``seconds`` of real time first
``reset``           reset the connection before processing
``lost``            process the request, then reset the connection
``truncate``        process, then cut the body to the fraction ``keep`` and close
``lapse_token``     let every token lapse, then process (so: 401)
``duplicate_page``  after this page give it once more, under another cursor; then go on
``repeat_cursor``   give the request's own ``page_cursor`` as the next one
``late``            a simulated deposit shows itself ``seconds`` of business time late, under the
                    times it should have had: behind the watermark of a sync
==================  ===========================================================================
"""

from __future__ import annotations

import itertools
import random
import re
import threading
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Final, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from fundlab.base.errors import InvalidRequest, SandboxError
from fundlab.base.values import check_unicode
from fundlab.models import OPERATIONS
from fundlab.sandbox.refusals import first_fault

FaultKind = Literal[
    "status", "rate_limit", "latency", "reset", "lost", "truncate", "lapse_token",
    "duplicate_page", "repeat_cursor", "late",
]  # fmt: skip
ANY: Final = "*"
TOKEN: Final = "token"
LIST_FAULTS: Final = ("duplicate_page", "repeat_cursor")
NO_CONTENT: Final = (204, 304)
"""Statuses whose answers have no body."""
MAX_SECONDS: Final = 366 * 86_400
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[!-~]([ -~]*[!-~])?", re.ASCII)
DEPOSIT: Final = "initiate_sandbox_fiat_deposit"


@dataclass(frozen=True)
class Fault:
    """One rule: which operation, what happens, how often, how likely."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    kind: FaultKind
    operation: str = ANY
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    after: int = 0
    status: int = 500
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 1.0
    keep: float = 0.5

    def check(self) -> None:
        """Raises ``SandboxError`` naming the argument at fault."""
        if self.operation not in (ANY, TOKEN, *OPERATIONS):
            names = ", ".join((ANY, TOKEN, *OPERATIONS))
            raise SandboxError(f"operation {self.operation!r} must be one of {names}")
        if self.count is not None and self.count < 1:
            raise SandboxError(f"count {self.count} must be at least 1, or None for always")
        if not 0 < self.probability <= 1:
            raise SandboxError(f"probability {self.probability} must be above 0 and at most 1")
        if not 200 <= self.status <= 599:
            raise SandboxError(f"status {self.status} must be from 200 to 599")
        if self.status in NO_CONTENT and self.body:
            raise SandboxError(f"body: an answer with status {self.status} carries none")
        try:
            check_unicode(self.body, "body")
        except InvalidRequest as error:
            raise SandboxError(str(error)) from None
        if not 0 <= self.seconds <= MAX_SECONDS:
            raise SandboxError(f"seconds {self.seconds} must be from 0 to {MAX_SECONDS}")
        if self.after < 0 or not 0 <= self.keep < 1:
            raise SandboxError("after must not be negative; keep is from 0 to below 1")
        for name, value in self.headers.items():
            if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
                raise SandboxError(f"headers: {name!r}: {value!r} is not a header of HTTP")


_FAULT = TypeAdapter(Fault)


class Faults:
    """The faults in force. ``add`` returns a number for ``remove``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._armed: dict[int, _Armed] = {}

    def add(self, /, kind: FaultKind, operation: str = ANY, **options: Any) -> int:
        """Arm a fault. ``operation`` is a name of ``OPERATIONS``, ``token`` or ``*``.

        Options: ``count`` (how often, ``None`` for always), ``after`` (requests to let pass first),
        ``probability`` with ``seed``, and what the kind needs: ``status``, ``body``, ``headers``,
        ``seconds``, ``keep``. Raises ``SandboxError`` on a bad argument.
        """
        try:
            fault = _FAULT.validate_python({**options, "kind": kind, "operation": operation})
        except ValidationError as error:
            raise SandboxError(": ".join(first_fault(error))) from None
        fault.check()
        with self._lock:
            number = next(self._numbers)
            self._armed[number] = _Armed(fault)
        return number

    def remove(self, number: int) -> None:
        with self._lock:
            if self._armed.pop(number, None) is None:
                raise SandboxError(f"no fault {number}")

    def clear(self) -> None:
        with self._lock:
            self._armed.clear()

    def kept(self) -> dict[int, _Armed]:
        """What is armed, with how often it struck, for ``put_back``."""
        with self._lock:
            return deepcopy(self._armed)

    def put_back(self, kept: dict[int, _Armed]) -> None:
        with self._lock:
            self._armed = deepcopy(kept)

    def active(self) -> list[dict[str, Any]]:
        """The faults in force, with how often each struck."""
        with self._lock:
            return [
                {"number": number, "struck": armed.struck, **asdict(armed.fault)}
                for number, armed in self._armed.items()
            ]

    def strike(self, operation: str, *, has_cursor: bool) -> list[Fault]:
        """The faults that hit this request; spent ones are gone afterwards."""
        if not self._armed:
            return []
        with self._lock:
            struck = []
            for number, armed in list(self._armed.items()):
                if armed.fault.kind in LIST_FAULTS and not has_cursor:
                    continue
                if armed.fault.kind == "late" and operation != DEPOSIT:
                    continue
                if armed.strikes(operation):
                    struck.append(armed.fault)
                    if armed.struck == armed.fault.count:
                        del self._armed[number]
            return struck


class _Armed:
    def __init__(self, fault: Fault) -> None:
        self.fault, self.struck, self._passed = fault, 0, 0
        self._random = random.Random(fault.seed)  # noqa: S311 - repeatable on purpose

    def strikes(self, operation: str) -> bool:
        if self.fault.operation not in (ANY, operation):
            return False
        if self._passed < self.fault.after:
            self._passed += 1
            return False
        if self._random.random() >= self.fault.probability:
            return False
        self.struck += 1
        return True
