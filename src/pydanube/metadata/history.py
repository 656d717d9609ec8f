"""The last changes of a store, bounded in bytes: what watches read from.

A watch is a position in here and holds nothing itself. So memory is bounded once for all watchers, and a watcher that
is too slow and one that comes back too late are the same case: the next change it needs is no longer kept.
"""

from collections import deque

from pydanube.model.errors import RevisionCompacted

from .store import Change

HISTORY_BYTES_MAX = 16 << 20
_EVENT_BYTES = 300  # what an event takes beside the bytes of its key and value, roughly


class History:
    def __init__(self, revision: int, bytes_max: int) -> None:
        self.revision = revision  # the last one
        self._bytes_max = bytes_max
        self._bytes = 0
        self._changes: deque[Change] = deque()  # without a gap up to `revision`

    def append(self, change: Change) -> None:
        if change.revision <= self.revision:
            raise ValueError(f"revision {change.revision} cannot follow {self.revision}")
        if change.revision > self.revision + 1:
            # A commit that was taken for failed has happened after all. Watchers must not miss it in silence.
            self._changes.clear()
            self._bytes = 0
        self.revision = change.revision
        self._changes.append(change)
        self._bytes += _weight(change)
        while self._bytes > self._bytes_max:
            self._bytes -= _weight(self._changes.popleft())

    def after(self, revision: int) -> Change | None:
        """The first change after a revision, or None if it has not happened yet."""
        if revision >= self.revision:
            return None
        forgotten = self.revision - len(self._changes)
        if revision < forgotten:
            raise RevisionCompacted(f"changes are kept after revision {forgotten}, not after {revision}")
        return self._changes[revision - forgotten]


def _weight(change: Change) -> int:
    return sum(
        _EVENT_BYTES + len(event.key) + (len(event.entry.value) if event.entry is not None else 0)
        for event in change.events
    )
