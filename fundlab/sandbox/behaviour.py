"""How the service behaves where the interface leaves it open: delays, fees, failures, limits.

A file of it is TOML, and so is what the control interface takes as JSON; what is left out stays:

    deposit_seconds = 60              # business time until a simulated deposit completes
    withdrawal_seconds = 5
    review_seconds = 10               # of a fiat account
    wire_fees = { ABA = "25.00", SWIFT = "40.00" }
    cubix_fee = "0.00"
    network_fees = { SOLANA = "0.05" }  # of a crypto withdrawal, in USD; others as they are
    rate_limits = { "*" = 50, desk = 5 }  # requests a second by client id; 429 beyond
    token_rate_limits = { "*" = 0.1 }     # the same for requests of a token
    event_retention_seconds = 2592000   # older events are listed no more
    lenient_requests = false            # true takes bank details that the live reference refuses

    [[failures]]                      # the first that fits a transfer lets it fail when it is due
    type = "WIRE_WITHDRAWAL"
    above = "10000.00"
    probability = 0.5                 # the same for the same seed and transfer
    reason = "the receiving bank refused it"

Without a file it is as the project's documentation says: amounts ending in .13 are sent back.
"""

from __future__ import annotations

import math
import time
import tomllib
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fundlab.base.errors import SandboxError
from fundlab.base.values import Amount
from fundlab.models import CryptoNetwork, RoutingNumberType, TransferType
from fundlab.sandbox.clock import NS
from fundlab.sandbox.refusals import Refusal, first_fault

WIRE_FEES: Final = {
    RoutingNumberType.ABA: Amount("25.00"),
    RoutingNumberType.SWIFT: Amount("40.00"),
}
_Seconds = Annotated[float, Field(ge=0, le=366 * 86_400)]
_PerSecond = Annotated[float, Field(gt=0, le=1_000_000)]


class Failure(BaseModel):
    """Which transfers fail when they are due; what is left out does not matter."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: TransferType | None = None
    asset: str | None = None
    profile_id: str | None = None
    fiat_account_id: str | None = None
    above: Amount | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    reason: Annotated[str, Field(min_length=1, max_length=200)] = "a rule of the sandbox says so"

    def fits(self, row: Mapping[str, Any], draw: float) -> bool:
        """Whether the transfer ``row`` is one; ``draw`` in [0, 1) is its chance."""
        names = ("type", "asset", "profile_id", "fiat_account_id")
        wanted = {name: getattr(self, name) for name in names}
        return (
            all(value is None or row.get(name) == value for name, value in wanted.items())
            and (self.above is None or Decimal(row["amount"]) > self.above)
            and draw < self.probability
        )


class Behaviour(BaseModel):
    """Everything that can be set; the defaults are the documentation's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    deposit_seconds: _Seconds = 60
    withdrawal_seconds: _Seconds = 5
    review_seconds: _Seconds = 10
    wire_fees: dict[RoutingNumberType, Amount] = WIRE_FEES
    cubix_fee: Amount = Amount("0.00")
    network_fees: dict[CryptoNetwork, Amount] = Field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    rate_limits: dict[str, _PerSecond] = Field(default_factory=dict)
    token_rate_limits: dict[str, _PerSecond] = Field(default_factory=dict)
    event_retention_seconds: Annotated[float | None, Field(gt=0)] = None
    lenient_requests: bool = False

    def wire_fee(self, routing: RoutingNumberType) -> Amount:
        return self.wire_fees.get(routing, WIRE_FEES[routing])


def behaviour_of(given: Mapping[str, Any], what: str = "") -> Behaviour:
    """``given``, checked. Raises ``SandboxError`` that names the member after ``what``."""
    try:
        return Behaviour.model_validate(given)
    except ValidationError as error:
        raise SandboxError(what + ": ".join(first_fault(error, Behaviour))) from None


def read_behaviour(given: str | Path | Mapping[str, Any]) -> Behaviour:
    """From a TOML file, or as it is. Raises ``SandboxError``."""
    if isinstance(given, Mapping):
        return behaviour_of(given, "behaviour: ")
    path = Path(given)
    try:
        return behaviour_of(tomllib.loads(path.read_text(encoding="utf-8")), f"{path}: ")
    except OSError as error:
        raise SandboxError(f"the behaviour {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SandboxError(f"{path} is not TOML in UTF-8: {error}") from None


def seconds_ns(seconds: float) -> int:
    return round(seconds * NS)


class Rates:
    """How many requests of each credential may still come: a second's worth at once, in real time.

    Not thread-safe: the sandbox asks under its lock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, client_id: str, limits: Mapping[str, float]) -> None:
        """One request more, if ``limits`` (by client id, or ``*``) say how many there may be.
        Raises the 429 ``Refusal``, which says when to come again."""
        per_second = limits.get(client_id, limits.get("*"))
        if per_second is None:
            return
        now, most = self._clock(), max(1.0, per_second)
        left, at = self._left.get(client_id, (most, now))
        left = min(most, left + (now - at) * per_second)
        allowed = left >= 1
        self._left[client_id] = (left - allowed, now)
        if not allowed:
            wait = str(math.ceil((1 - left) / per_second))
            raise Refusal(
                429, f"more than {per_second:g} requests a second; try again in {wait} s",
                headers={"Retry-After": wait},
            )  # fmt: skip
