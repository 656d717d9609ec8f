"""Watches on a history, for stores that live in this process. All of it runs on the event loop."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from pydanube.model.errors import MetadataFailed

from .history import History
from .store import Change


class Watches:
    def __init__(self, history: History) -> None:
        self._history = history
        self._closed = False
        self._waiting: dict[asyncio.Future[None], None] = {}  # a set that keeps the order, so that runs repeat

    def publish(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._history.append(change)
        self._wake()

    @asynccontextmanager
    async def open(self, prefix: str, after_revision: int | None) -> AsyncIterator[AsyncIterator[Change]]:
        revision = self._history.revision if after_revision is None else after_revision
        self._history.after(revision)  # too old is said at once
        yield Follower(self, self._history, prefix, revision)

    def close(self) -> None:
        self._closed = True
        self._wake()

    async def wait(self) -> None:
        """Until something was published. Touches the event loop only here: a simulator may read without one."""
        self.require_open()
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    def require_open(self) -> None:
        if self._closed:
            raise MetadataFailed("the metadata store is closed")

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


class Follower:
    """One watch: a position that moves over the history. An interrupted wait loses nothing."""

    def __init__(self, watches: Watches, history: History, prefix: str, revision: int) -> None:
        self._watches = watches
        self._history = history
        self._prefix = prefix
        self._revision = revision

    def __aiter__(self) -> "Follower":
        return self

    async def __anext__(self) -> Change:
        while True:
            while (change := self._history.after(self._revision)) is not None:
                self._revision = change.revision
                events = tuple(event for event in change.events if event.key.startswith(self._prefix))
                if events:
                    return Change(change.revision, events)
            await self._watches.wait()
