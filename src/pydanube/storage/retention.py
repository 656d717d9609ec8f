"""Retention: which ledgers of a topic may go. Pure.

A ledger goes as a whole, from the front, when it is closed, past the time (or the topic is over the bytes), and,
with `hold_unconsumed`, read by every subscription. Time is append time.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .ledger import Ledger
from .settings import DAY_US

FOREVER = None


@dataclass(frozen=True)
class Retention:
    time_us: int | None = 7 * DAY_US  # None: for ever; 0: once consumed
    bytes: int | None = None
    hold_unconsumed: bool = True


def first_to_keep(
    ledgers: Sequence[Ledger], first: int, positions: Iterable[int], retention: Retention, now_us: int
) -> int:
    """The first offset that stays; `positions` are the subscriptions' (all below is acknowledged)."""
    held_from = min(positions, default=None) if retention.hold_unconsumed else None
    total = sum(ledger.bytes for ledger in ledgers)
    for ledger in ledgers:
        if not ledger.closed or (held_from is not None and ledger.end > held_from):
            break
        too_old = retention.time_us is not None and ledger.last_us + retention.time_us <= now_us
        too_much = retention.bytes is not None and total > retention.bytes
        if not (too_old or too_much):
            break
        total -= ledger.bytes
        first = ledger.end
    return first
