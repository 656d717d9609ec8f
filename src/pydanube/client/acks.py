"""Acknowledgements of one topic or partition: what was handed out, what of it is acknowledged, what is to be sent.

Offsets are kept as ranges, sorted and apart. Acknowledging again, or what was not handed out since the last connect,
does nothing: the broker would ignore it.
"""

from bisect import bisect_right
from typing import TypeAlias

Ranges: TypeAlias = list[tuple[int, int]]  # first and end


class Acks:
    def __init__(self) -> None:
        self._open: Ranges = []  # handed out, not acknowledged
        self._ready: Ranges = []  # acknowledged, not sent

    @property
    def is_settled(self) -> bool:
        """Whether everything that was handed out is acknowledged."""
        return not self._open

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def hand_out(self, first: int, end: int) -> None:
        _insert(self._open, first, end)

    def take_back(self, first: int, end: int) -> None:
        """Handed out too early: the user has not seen it."""
        _cut_out(self._open, first, end)

    def ack(self, first: int, end: int) -> None:
        for part in _cut_out(self._open, first, end):
            _insert(self._ready, *part)

    def take(self, ranges_max: int) -> Ranges:
        """The ranges for the next ACK frame."""
        taken, self._ready = self._ready[:ranges_max], self._ready[ranges_max:]
        return taken

    def again(self, ranges: Ranges) -> None:
        """These were sent, and the broker could not store them."""
        for part in ranges:
            _insert(self._ready, *part)

    def clear(self) -> None:
        """Another session: what was handed out before comes again, or was acknowledged."""
        self._open.clear()
        self._ready.clear()


def _insert(ranges: Ranges, first: int, end: int) -> None:
    """Add a range, joined with those that it touches or overlaps."""
    if not ranges or ranges[-1][1] < first:
        ranges.append((first, end))
        return
    if ranges[-1][1] == first:  # in order, as it nearly always comes
        ranges[-1] = (ranges[-1][0], end)
        return
    low = bisect_right(ranges, first, key=_first_of)
    if low and ranges[low - 1][1] >= first:
        low -= 1
    high = bisect_right(ranges, end, lo=low, key=_first_of)
    if low < high:
        first = min(first, ranges[low][0])
        end = max(end, ranges[high - 1][1])
    ranges[low:high] = [(first, end)]


def _cut_out(ranges: Ranges, first: int, end: int) -> Ranges:
    """Remove a range from the ranges; returns the parts of it that were there."""
    if ranges and ranges[0][0] == first and end < ranges[0][1]:  # in order, as it nearly always comes
        ranges[0] = (end, ranges[0][1])
        return [(first, end)]
    low = bisect_right(ranges, first, key=_first_of)
    if low and ranges[low - 1][1] > first:
        low -= 1
    high = low
    parts: Ranges = []
    while high < len(ranges) and ranges[high][0] < end:
        parts.append((max(first, ranges[high][0]), min(end, ranges[high][1])))
        high += 1
    if parts:
        left = [(ranges[low][0], first)] if ranges[low][0] < first else []
        right = [(end, ranges[high - 1][1])] if end < ranges[high - 1][1] else []
        ranges[low:high] = left + right
    return parts


def _first_of(part: tuple[int, int]) -> int:
    return part[0]
