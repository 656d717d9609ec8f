"""The metadata store: a small, strongly consistent map of keys to bytes that can be watched.

The interface is what etcd v3 can do, and no more than that, so that SQLite, etcd and a replicated state machine keep
the same promises:

- One revision counter for the whole store, raised by one by every transaction that changes something. A put always
  changes something, even when the value is the same; deleting what is not there does not.
- Every read sees every write that was answered before the read began.
- A watch gets every change after a revision, once, in order, and whole transactions together.
- A key put under a lease goes away with the lease. Renewing a lease is the only thing that keeps it.

`MetadataFailed` means that the outcome is unknown: the transaction may have happened or may still happen. Whoever
needs to know reads again; a transaction with a compare can simply be sent again.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias

from msgspec import Struct

from .transactions import Delete, Get, Put, Transaction

RANGE_LIMIT = 1000
LEASE_SECONDS_MAX = 9_000_000_000  # etcd's


class Entry(Struct, frozen=True):
    key: str
    value: bytes
    create_revision: int  # of the put that made the key
    revision: int  # of the last put
    version: int  # puts since the key was made, from 1
    lease: int  # 0: none


class Event(Struct, frozen=True):
    """What happened to one key. A delete has no entry; who needs the old value keeps it."""

    key: str
    revision: int
    entry: Entry | None


class Change(Struct, frozen=True):
    """All events of one transaction, in the order of its operations."""

    revision: int
    events: tuple[Event, ...]


class TransactionResult(Struct, frozen=True):
    succeeded: bool  # whether all compares held, so `then` was done and not `otherwise`
    revision: int  # of the store, after the transaction
    found: tuple[Entry | None, ...]  # one for each Get that was done
    deleted: int  # keys that were there and are gone


class RangeResult(Struct, frozen=True):
    """One page, in the order of the keys' UTF-8 bytes. The next one begins `after` the last key.

    Pages are read at different revisions. To follow a range of many pages, watch from the revision of the first: a
    change that a later page shows already comes again then, with the revision that the entry has.
    """

    entries: tuple[Entry, ...]
    revision: int  # of the store, when the page was read
    more: bool


Watch: TypeAlias = AbstractAsyncContextManager[AsyncIterator[Change]]


def check_range(prefix: str, limit: int, after: str) -> None:
    if limit < 1:
        raise ValueError(f"a range has room for at least one entry, not {limit}")
    (prefix + after).encode()  # UnicodeEncodeError, a ValueError too, for what is no text


def check_ttl(ttl_seconds: int) -> None:
    if not 1 <= ttl_seconds <= LEASE_SECONDS_MAX:
        raise ValueError(f"a lease lasts 1 to {LEASE_SECONDS_MAX} seconds, not {ttl_seconds}")


class MetadataStore(Protocol):
    async def transact(self, transaction: Transaction) -> TransactionResult:
        """Does all of `then` if every compare holds, else all of `otherwise`; LeaseNotFound: nothing was done."""
        ...

    async def range(self, prefix: str, *, limit: int = RANGE_LIMIT, after: str = "") -> RangeResult:
        """The entries whose keys begin with `prefix` and come behind the key `after`."""
        ...

    def watch(self, prefix: str, *, after_revision: int | None = None) -> Watch:
        """The changes under `prefix` after a revision, or from now on.

        Raises RevisionCompacted, on entry or instead of the next change, when changes in between are no longer kept:
        the revision is too old, or the watcher too slow. Nothing is skipped in silence.
        """
        ...

    async def grant(self, ttl_seconds: int) -> int:
        """A new lease, never 0. It expires unless it is kept alive more often than every `ttl_seconds`."""
        ...

    async def keep_alive(self, lease: int) -> None:
        """The full time anew; LeaseNotFound when it has expired."""
        ...

    async def revoke(self, lease: int) -> None:
        """Ends the lease and deletes its keys, as one transaction."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted. Watches that are still open fail with MetadataFailed."""
        ...

    async def get(self, key: str) -> Entry | None:
        return (await self.transact(Transaction(then=(Get(key),)))).found[0]

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        """The revision of the put."""
        return (await self.transact(Transaction(then=(Put(key, value, lease),)))).revision

    async def delete(self, key: str) -> bool:
        """Whether the key was there."""
        return (await self.transact(Transaction(then=(Delete(key),)))).deleted > 0
