"""A subscription's place in a topic: everything below `position` is acknowledged, and the ranges above it."""

from collections.abc import Iterable

from pydanube.model.limits import ACK_RANGE_BYTES_EACH, ACK_RANGE_BYTES_MAX

from .ranges import RangeSet


class Cursor:
    """Acks may come in any order and more than once. None is ever dropped: at the bound the broker stops
    delivering new messages instead (`at_bound`), so the ranges can outgrow it only by what is on its way.
    """

    __slots__ = ("above", "generation", "position", "stale_acks")

    def __init__(self, position: int, generation: int = 0, above: Iterable[tuple[int, int]] = ()) -> None:
        self.position = position
        self.generation = generation
        self.above = RangeSet()
        self.stale_acks = 0
        self._add(above)

    def _add(self, ranges: Iterable[tuple[int, int]]) -> None:
        for start, end in ranges:
            if end > self.position:
                self.above.add(max(start, self.position), end)
        self.position = self.above.take_prefix(self.position)

    def ack(self, generation: int, ranges: Iterable[tuple[int, int]]) -> bool:
        """Adds ranges; those from before a reset are counted, never applied."""
        if generation != self.generation:
            self.stale_acks += 1
            return False
        self._add(ranges)
        return True

    def reset(self, generation: int, position: int, above: Iterable[tuple[int, int]] = ()) -> None:
        self.position = position
        self.generation = generation
        self.above = RangeSet()
        self._add(above)

    def is_acked(self, offset: int) -> bool:
        return offset < self.position or offset in self.above

    @property
    def at_bound(self) -> bool:
        return len(self.above) * ACK_RANGE_BYTES_EACH >= ACK_RANGE_BYTES_MAX
