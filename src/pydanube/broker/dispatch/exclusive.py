"""Who gets what on an exclusive subscription: one consumer, everything, in order. Events in, instructions out. Pure.

window = ExclusiveWindow(Cursor(0)); window.on_end(10)
window.on_join(); window.on_credit(1000)     → read_from() == 0: the shell reads there
window.on_batches([0..4, 4..10])             → Delivery: send these, without what is acknowledged
window.on_ack([(0, 4)])                      → the cursor is at 4
window.on_leave()                            → what was not acknowledged will be read again, from 4 on
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydanube.storage import Cursor, StoredBatch


class Delivery(NamedTuple):
    batches: list[StoredBatch]
    without: tuple[tuple[int, int], ...]  # offsets in them that are acknowledged already
    bytes: int


class ExclusiveWindow:
    def __init__(self, cursor: Cursor, end: int) -> None:
        self.cursor = cursor  # as acknowledged so far, durable or not
        self._end = end  # durable end of the topic
        self._next = cursor.position  # the next offset to read
        self._credit = 0
        self._has_consumer = False

    @property
    def has_consumer(self) -> bool:
        return self._has_consumer

    @property
    def credit(self) -> int:
        return self._credit

    def on_join(self) -> None:
        self._has_consumer = True
        self._credit = 0
        self._next = self.cursor.position

    def on_leave(self) -> None:
        self._has_consumer = False
        self._credit = 0
        self._next = self.cursor.position

    def on_credit(self, count: int) -> None:
        self._credit += count

    def on_end(self, end: int) -> None:
        self._end = max(end, self._end)

    def on_ack(self, generation: int, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether the ack counts: one from before a reset does not."""
        return self.cursor.ack(generation, ranges)

    def on_lost(self, first: int, end: int) -> None:
        """Messages that damage or retention took: nobody will ever acknowledge them."""
        self.cursor.ack(self.cursor.generation, [(min(first, self.cursor.position), end)])
        self._next = max(self._next, end)

    def read_from(self) -> int | None:
        """Where the shell should read now; None: nothing to read, nobody to send to, or no credit.

        At the bound of acknowledged ranges new messages stop, so that the cursor cannot grow without limit.
        """
        if not self._has_consumer or self._credit <= 0 or self.cursor.at_bound:
            return None
        while self._next < self._end and self.cursor.is_acked(self._next):
            above = self.cursor.above.containing(self._next)
            self._next = above[1] if above is not None else self.cursor.position
        return self._next if self._next < self._end else None

    def on_batches(self, batches: Sequence[StoredBatch]) -> Delivery | None:
        """The shell has read these; returns what goes to the consumer. Any credit left pays for one more batch."""
        taken: list[StoredBatch] = []
        size = 0
        for batch in batches:
            if size >= self._credit:
                break
            if batch.end_offset <= self._next:
                continue
            taken.append(batch)
            size += len(batch.data)
            self._next = batch.end_offset
        if not taken:
            return None
        self._credit -= size
        return Delivery(taken, self._acked_in(taken[0].first_offset, taken[-1].end_offset), size)

    def _acked_in(self, first: int, end: int) -> tuple[tuple[int, int], ...]:
        ranges = []
        if first < self.cursor.position:
            ranges.append((first, min(end, self.cursor.position)))
        if len(self.cursor.above):
            ranges += [(max(a, first), min(b, end)) for a, b in self.cursor.above.items() if a < end and b > first]
        return tuple(ranges)
