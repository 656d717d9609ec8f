"""The rules of the store, over rows that are kept elsewhere: in a dict, in SQLite, in a replicated log's state.

A transaction is decided on the rows as they are, and what follows from it is one `Change`, which alone is written. So
the rules exist once, a keyspace that refuses has written nothing, and a change is all that a watcher or a copy needs.
There is no clock in here: every call that depends on time is told the time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from .leases import Leases
from .store import Change, Entry, Event, RangeResult, TransactionResult
from .transactions import Absent, Compare, Delete, DeleteRange, Equals, Get, Present, Put, Transaction, Unchanged


class Applied(NamedTuple):
    result: TransactionResult
    change: Change | None  # None: nothing was changed, and the revision is the old one


class Keyspace(ABC):
    def __init__(self) -> None:
        self.revision = 0
        self.last_lease = 0
        self.leases = Leases()

    @abstractmethod
    def find(self, key: str) -> Entry | None: ...

    @abstractmethod
    def page(self, prefix: str, limit: int, after: str) -> RangeResult: ...

    @abstractmethod
    def keys_under(self, prefix: str) -> list[str]:
        """In order."""

    @abstractmethod
    def keys_leased(self, lease: int) -> list[str]:
        """In order."""

    @abstractmethod
    def write(self, change: Change) -> None: ...

    @abstractmethod
    def write_lease(self, lease: int, ttl_us: int) -> None: ...

    @abstractmethod
    def erase_lease(self, lease: int) -> None: ...

    def apply(self, transaction: Transaction) -> Applied:
        succeeded = all(_holds(compare, self.find(compare.key)) for compare in transaction.when)
        found: list[Entry | None] = []
        events: list[Event] = []
        for operation in transaction.then if succeeded else transaction.otherwise:
            match operation:
                case Get(key):
                    found.append(self.find(key))
                case Put():
                    events.append(self._put(operation))
                case Delete(key):
                    if self.find(key) is not None:
                        events.extend(self._deletes([key]))
                case DeleteRange(prefix):
                    events.extend(self._deletes(self.keys_under(prefix)))
        change = self._commit(events)
        deleted = sum(event.entry is None for event in events)
        return Applied(TransactionResult(succeeded, self.revision, tuple(found), deleted), change)

    def grant(self, ttl_us: int, now_us: int) -> int:
        self.last_lease += 1
        self.write_lease(self.last_lease, ttl_us)
        self.leases.add(self.last_lease, ttl_us, now_us)
        return self.last_lease

    def keep_alive(self, lease: int, now_us: int) -> None:
        self.leases.keep_alive(lease, now_us)

    def revoke(self, lease: int) -> Change | None:
        self.leases.remove(lease)
        change = self._commit(list(self._deletes(self.keys_leased(lease))))
        self.erase_lease(lease)
        return change

    def expire(self, now_us: int) -> list[Change]:
        """Ends the leases that are due, each as a transaction of its own."""
        changes = [self.revoke(lease) for lease in self.leases.due(now_us)]
        return [change for change in changes if change is not None]

    def _put(self, put: Put) -> Event:
        if put.lease:
            self.leases.require(put.lease)
        revision = self.revision + 1
        old = self.find(put.key)
        if old is None:
            entry = Entry(put.key, put.value, revision, revision, 1, put.lease)
        else:
            entry = Entry(put.key, put.value, old.create_revision, revision, old.version + 1, put.lease)
        return Event(put.key, revision, entry)

    def _deletes(self, keys: Iterable[str]) -> Iterable[Event]:
        return (Event(key, self.revision + 1, None) for key in keys)

    def _commit(self, events: list[Event]) -> Change | None:
        if not events:
            return None
        change = Change(self.revision + 1, tuple(events))
        self.write(change)
        self.revision = change.revision
        return change


def _holds(compare: Compare, entry: Entry | None) -> bool:
    match compare:
        case Absent():
            return entry is None
        case Present():
            return entry is not None
        case Unchanged(_, revision):
            return revision == (0 if entry is None else entry.revision)
        case Equals(_, value):
            return entry is not None and entry.value == value
