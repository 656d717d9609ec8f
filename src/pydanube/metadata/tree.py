"""A keyspace in memory: a dict and the sorted list of its keys.

Inserting into the list moves the keys behind it, which for a hundred thousand keys takes some ten microseconds: far
less than a store's other costs, and not worth a balanced tree.
"""

from bisect import bisect_left, bisect_right, insort

from .keyspace import Keyspace
from .store import Change, Entry, RangeResult


class KeyTree(Keyspace):
    def __init__(self) -> None:
        super().__init__()
        self._entries: dict[str, Entry] = {}
        self._keys: list[str] = []  # sorted by code point, which is also the order of the UTF-8 bytes
        self._keys_of_lease: dict[int, set[str]] = {}

    def find(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def page(self, prefix: str, limit: int, after: str) -> RangeResult:
        first = max(bisect_left(self._keys, prefix), bisect_right(self._keys, after))
        keys = [key for key in self._keys[first : first + limit + 1] if key.startswith(prefix)]
        entries = tuple(self._entries[key] for key in keys[:limit])
        return RangeResult(entries, self.revision, more=len(keys) > limit)

    def keys_under(self, prefix: str) -> list[str]:
        first = bisect_left(self._keys, prefix)
        end = bisect_left(self._keys, True, lo=first, key=lambda key: not key.startswith(prefix))
        return self._keys[first:end]

    def keys_leased(self, lease: int) -> list[str]:
        return sorted(self._keys_of_lease.get(lease, ()))

    def write(self, change: Change) -> None:
        for event in change.events:
            old = self._entries.get(event.key)
            if old is not None and old.lease:
                self._keys_of_lease[old.lease].discard(event.key)
            if event.entry is None:
                del self._entries[event.key]
                del self._keys[bisect_left(self._keys, event.key)]
                continue
            if old is None:
                insort(self._keys, event.key)
            self._entries[event.key] = event.entry
            if event.entry.lease:
                self._keys_of_lease[event.entry.lease].add(event.key)

    def write_lease(self, lease: int, ttl_us: int) -> None:  # noqa: ARG002  (the deadlines are in `leases`)
        self._keys_of_lease[lease] = set()

    def erase_lease(self, lease: int) -> None:
        del self._keys_of_lease[lease]
