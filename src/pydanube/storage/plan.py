"""The one read planner: which tier has which offsets. Pure.

Today's tiers are the tail cache and the journal; archived segments become one more kind of slice in front. Slices
are in order, without gap or overlap, and cover exactly what was asked for.
"""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from .ledger import Ledger
from .ranges import RangeSet


class Tier(Enum):
    LOST = "lost"  # damage took these messages
    JOURNAL = "journal"
    CACHE = "cache"


class Slice(NamedTuple):
    tier: Tier
    first: int
    end: int
    files: range = range(0)  # of a journal slice: where to look, oldest first


def plan_read(ledgers: Sequence[Ledger], gaps: RangeSet, cached_from: int | None, start: int, end: int) -> list[Slice]:
    """Slices for [start, end), which lies between the topic's first and durable offsets."""
    slices: list[Slice] = []
    position = start
    at = _ledger_before(ledgers, start)
    while position < end:
        if cached_from is not None and position >= cached_from:
            slices.append(Slice(Tier.CACHE, position, end))
            break
        stop = end if cached_from is None else min(end, cached_from)
        gap = gaps.first_from(position)
        if gap is not None and gap[0] <= position:
            until = min(gap[1], stop)
            slices.append(Slice(Tier.LOST, position, until))
            position = until
            continue
        if gap is not None:
            stop = min(stop, gap[0])
        while at < len(ledgers) and ledgers[at].end <= position:
            at += 1
        if at == len(ledgers) or ledgers[at].first > position:
            # Neither stored nor recorded as lost: nothing that this program does leads here, but a disk might.
            until = min(stop, ledgers[at].first) if at < len(ledgers) else stop
            slices.append(Slice(Tier.LOST, position, until))
            position = until
            continue
        ledger = ledgers[at]
        until = min(stop, ledger.end)
        slices.append(Slice(Tier.JOURNAL, position, until, range(ledger.first_file, ledger.last_file + 1)))
        position = until
    return slices


def _ledger_before(ledgers: Sequence[Ledger], offset: int) -> int:
    low, high = 0, len(ledgers)
    while low < high:
        middle = (low + high) // 2
        if ledgers[middle].end <= offset:
            low = middle + 1
        else:
            high = middle
    return low
