"""Sets of offsets as sorted, disjoint, non-adjacent half-open ranges."""

from bisect import bisect_left, bisect_right


class RangeSet:
    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def items(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._ends, strict=True))

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        # Everything that overlaps or touches [start, end) becomes one range with it.
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def take_prefix(self, position: int) -> int:
        """Drops all below `position`; if a range reaches over or begins at it, drops that too and returns its end."""
        last = bisect_right(self._starts, position)
        if last and self._ends[last - 1] > position:
            position = self._ends[last - 1]
        del self._starts[:last], self._ends[:last]
        return position

    def cut_from(self, offset: int) -> None:
        """Drops all from `offset` on."""
        last = bisect_left(self._starts, offset)
        del self._starts[last:], self._ends[last:]
        if self._ends and self._ends[-1] > offset:
            self._ends[-1] = offset

    def containing(self, offset: int) -> tuple[int, int] | None:
        at = bisect_right(self._starts, offset) - 1
        if at >= 0 and offset < self._ends[at]:
            return self._starts[at], self._ends[at]
        return None

    def first_from(self, offset: int) -> tuple[int, int] | None:
        """The first range that ends above `offset`."""
        at = bisect_right(self._ends, offset)
        return (self._starts[at], self._ends[at]) if at < len(self._starts) else None
