"""The messages that a bench moves, and whether they arrived: each one, once, in order. Pure.

A producer's messages are a pool that both ends make from the same numbers, sent round and round. Comparing a received
list with a slice of the pool costs next to nothing, so that checking does not change what is measured.
"""

from random import Random

POOL_BYTES, POOL_MESSAGES_MAX = 32 << 20, 20_000
MARK_BYTES = 2  # which producer: the first bytes of a message


class Wrong(Exception):
    """A message that is missing, damaged, out of order or too many."""


def make_pool(producer: int, size: int) -> list[bytes]:
    """At least two messages; neighbours always differ, unless they are too small to."""
    count = max(2, min(POOL_MESSAGES_MAX, POOL_BYTES // max(size, 1)))
    rng = Random(producer << 32 | size)
    mark, filler = producer.to_bytes(MARK_BYTES), rng.randbytes(size)
    return [(mark + number.to_bytes(4) + filler)[:size] for number in range(count)]


def part_of(pool: list[bytes], first: int, count: int) -> list[bytes]:
    """Messages `first` and up of the endless sequence."""
    at = first % len(pool)
    part = pool[at : at + count]
    while len(part) < count:
        part += pool[: count - len(part)]
    return part


class Checker:
    """What comes out of one topic, written by some producers with so many messages each."""

    def __init__(self, producers: list[int], each: int, size: int) -> None:
        self._pools = {producer: make_pool(producer, size) for producer in producers}
        self._seen = dict.fromkeys(producers, 0)
        self._each = each
        self._next_offset = 0

    @property
    def is_done(self) -> bool:
        return all(seen >= self._each for seen in self._seen.values())

    def end(self) -> None:
        """Nothing more will come."""
        for producer, seen in self._seen.items():
            if seen < self._each:
                raise Wrong(f"{self._each - seen} messages of producer {producer} have not come")

    def take(self, offsets: list[tuple[int, int]], payloads: list[bytes]) -> None:
        """Messages, and where they are: first and end of each stretch."""
        for first, end in offsets:
            if first != self._next_offset:
                raise Wrong(f"offset {self._next_offset} should have come, {first} came")
            self._next_offset = end
        if len(self._seen) == 1:
            ((producer, seen),) = self._seen.items()
            self._compare(producer, seen, payloads)
            return
        by_mark: dict[int, list[bytes]] = {}
        for payload in payloads:
            by_mark.setdefault(int.from_bytes(payload[:MARK_BYTES]), []).append(payload)
        for mark, own in by_mark.items():
            if mark not in self._seen:
                raise Wrong(f"a message before offset {self._next_offset} is of no producer of this topic")
            self._compare(mark, self._seen[mark], own)

    def _compare(self, producer: int, seen: int, payloads: list[bytes]) -> None:
        if seen + len(payloads) > self._each:
            raise Wrong(f"{seen + len(payloads)} messages came of producer {producer}, {self._each} were sent")
        if payloads != part_of(self._pools[producer], seen, len(payloads)):
            raise Wrong(f"messages {seen} to {seen + len(payloads)} of producer {producer} are not what was sent")
        self._seen[producer] = seen + len(payloads)
