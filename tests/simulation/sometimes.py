"""States that are rare, and that some seed must reach: else a law about them was never tried.

``sometimes(state, condition)`` stands where the state would show; a run of many seeds says at its
end which of ``STATES`` none of them reached.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

STATES: Final = (
    # what stands between a client and the service
    "a payment met a gateway's 408, and was made",
    "a payment met a proxy that gives no tunnel",
    "a payment was made, and the tunnel of its answer ended",
    "a payment was made, and a gateway's page stood for its answer",
    "a payment in doubt was found again by fl.resume",
    # batches and limits
    "a batch was refused for the limit of the day",
    "a batch that the limit just covers was paid",
    "a batch was paid of which a row had been paid before",
    # approvals
    "a payment that another person had approved was made",
    "what nobody who may had approved for this payment was refused",
    # commands
    "a payment was made by the command line",
    "a command found what it had sent before",
    "a payment in doubt was asked for by the command line",
    # deposits
    "a deposit that was waited for arrived",
    "a stablecoin arrived at an address that was asked for",
    # what a notebook loads without a store
    "rows were loaded while others were added",
    "several workers loaded rows",
    # rules, quotes, other assets, internal transfers
    "a rule whose first answer was lost was made once",
    "a rule converted what arrived",
    "a fee was quoted",
    "a quote was asked for again after its answer was lost",
    "a stablecoin arrived that no rule converts",
    "more than one asset moved",
    "an internal transfer moved money between two profiles",
    "a payment asked for the ref_id of an internal transfer",
    # rows that vanish, cannot be read, or belong to a closed month
    "a transfer was listed no more",
    "a transfer that was listed no more was accepted",
    "a row was set aside",
    "a row that was set aside was accepted",
    "a row that was set aside was read later",
    "a closed month has moved",
    "a month was closed again after it was reopened",
    # the bank
    "a month agreed with its bank statement",
    "an error of the bank was found",
    # files elsewhere
    "rows were published",
    "rows were published again, and not every month was written",
    "a store in a bucket was brought up to date",
    "of two machines that published at once one was told",
    "somebody died on the way to a bucket",
    "a write to a bucket was done, and not answered",
    # deaths in the middle of what is seldom done
    "somebody died in the middle of a close",
    "somebody died in the middle of a reopening",
    "somebody died in the middle of an annotation",
    "somebody died in the middle of a publication",
    # this disk, and journals
    "the power went in the middle of a sync",
    "a disk was full in the middle of a sync",
    "a journal of before the last payments came back, and then paid",
    "a full sync found what had come late",
    "a sync whose filters were not heard was done",
    "old versions were read from merged files",
)
REACHED: Final[Counter[str]] = Counter()


def sometimes(state: str, condition: object = True) -> None:
    """``state`` has been reached, if ``condition`` holds. Raises ``KeyError`` for one that is not
    among ``STATES``."""
    if state not in STATES:
        raise KeyError(state)
    REACHED[state] += bool(condition)


def never() -> list[str]:
    """The states that no run of this process has reached."""
    return [state for state in STATES if not REACHED[state]]
