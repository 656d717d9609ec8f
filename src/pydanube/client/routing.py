"""Which partition a message goes to: one with a key to the key's own, the others in turn, a batch at a time."""

from collections.abc import Sequence

from pydanube.records import partition_of

# Hashing is a loop in Python; most keys come again. Bounded, and forgotten as a whole when it is full.
KEYS_REMEMBERED_MAX = 1 << 16


class Router:
    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._known: dict[str, int] = {}
        self._turn = 0

    def of_key(self, key: str) -> int:
        partition = self._known.get(key)
        if partition is None:
            if len(self._known) >= KEYS_REMEMBERED_MAX:
                self._known.clear()
            partition = self._known[key] = partition_of(key, self.partitions)
        return partition

    def current(self) -> int:
        """Where messages without a key go for now."""
        return self._turn

    def advance(self) -> None:
        """A batch is full: the next one goes elsewhere."""
        self._turn = (self._turn + 1) % self.partitions

    def by_partition(self, keys: Sequence[str | None]) -> list[list[int]]:
        """The indexes of the keys that go to each partition; messages without a key keep together."""
        indexes: list[list[int]] = [[] for _ in range(self.partitions)]
        turn = self._turn
        for index, key in enumerate(keys):
            indexes[turn if key is None else self.of_key(key)].append(index)
        return indexes
