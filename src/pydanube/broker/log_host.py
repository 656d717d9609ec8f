"""A log on the event loop: its writer, its reading thread, its upkeep."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol

from pydanube.model.errors import DanubeError
from pydanube.storage import InlineWriter, Log, StoredBatch, ThreadWriter
from pydanube.storage.log import JournalRead

ReadDone = Callable[[list[StoredBatch], DanubeError | None], None]


class LogHost(Protocol):
    @property
    def log(self) -> Log: ...
    def kick(self) -> None:
        """Something was submitted since the last time."""

    def close(self) -> None: ...


class ThreadHost:
    """Rounds are written by a thread of their own: for logs on disk."""

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, after_round: Callable[[], None]) -> None:
        self.log = log
        self._stopped = False
        self._writer = ThreadWriter(log, loop.call_soon_threadsafe, after_round=after_round)

    def kick(self) -> None:
        if self.log.core.has_waiting:
            self._writer.kick()

    def stop_thread(self) -> None:
        """Blocks until what was accepted is written; its outcome comes over the loop."""
        self._writer.stop()

    def close(self) -> None:
        InlineWriter(self.log).close()


class InlineHost:
    """Rounds are written in place, once the loop comes round: for logs in memory."""

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, after_round: Callable[[], None]) -> None:
        self.log = log
        self._loop = loop
        self._writer = InlineWriter(log)
        self._after_round = after_round
        self._is_due = False

    def kick(self) -> None:
        if self.log.core.has_waiting and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_due = False
        self._writer.run()
        self._after_round()

    def close(self) -> None:
        self._writer.close()


def read_batches(
    host: LogHost,
    loop: asyncio.AbstractEventLoop,
    readers: Executor,
    topic_id: int,
    offset: int,
    bytes_max: int,
    done: ReadDone,
) -> None:
    """What the tail cache has is there at once; what lies on disk is read on another thread. `done` hears either."""
    try:
        found = host.log.prepare_read(topic_id, offset, bytes_max)
    except DanubeError as error:
        done([], error)
        return
    if not isinstance(found, JournalRead):
        done(found, None)
        return

    def finished(future: asyncio.Future[list[StoredBatch]]) -> None:
        error = future.exception() if not future.cancelled() else None
        if future.cancelled():
            return
        if error is None:
            done(future.result(), None)
        elif isinstance(error, DanubeError):
            done([], error)
        else:
            raise error

    loop.run_in_executor(readers, found.run).add_done_callback(finished)
