"""The store of a single broker: a SQLite file, with a thread that commits in groups.

Leases expire by the clock that the store is given. Whatever is asked first finds what has expired by then gone; and
the thread wakes up for the earliest deadline by itself, so that watchers hear of it when nothing is asked.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydanube.model import Clock
from pydanube.model.errors import MetadataFailed

from .budget import ByteBudget
from .committer import Committer, Job, Outcome
from .history import HISTORY_BYTES_MAX, History
from .sqlite_rows import SqliteRows
from .store import RANGE_LIMIT, Change, MetadataStore, RangeResult, TransactionResult, Watch, check_range, check_ttl
from .transactions import Transaction
from .watching import Watches

Answer = TypeVar("Answer")

QUEUE_BYTES_MAX = 4 << 20
_JOB_BYTES = 1 << 10  # what a job takes beside its keys and values, generously


class SqliteStore(MetadataStore):
    """Made by `open`. Belongs to the event loop on which it was opened."""

    def __init__(self, rows: SqliteRows, clock: Clock, history_bytes_max: int) -> None:
        loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._is_closing = False
        self._budget = ByteBudget(QUEUE_BYTES_MAX)
        # The changes of earlier runs are not kept: whoever watched then is gone too.
        self._watches = Watches(History(rows.revision, history_bytes_max))
        self._committer = Committer(
            rows,
            clock,
            deliver=lambda outcomes, changes: loop.call_soon_threadsafe(self._deliver, outcomes, changes),
            closed=lambda: loop.call_soon_threadsafe(_settle, self._closed, None, None),
        )

    @classmethod
    async def open(cls, path: Path, clock: Clock, *, history_bytes_max: int = HISTORY_BYTES_MAX) -> "SqliteStore":
        rows = await asyncio.to_thread(SqliteRows.open, path, clock.now_us())
        store = cls(rows, clock, history_bytes_max)
        store._committer.start()
        return store

    async def transact(self, transaction: Transaction) -> TransactionResult:
        return await self._ask(lambda rows, _: rows.apply(transaction), transaction.size_bytes)

    async def range(self, prefix: str, *, limit: int = RANGE_LIMIT, after: str = "") -> RangeResult:
        check_range(prefix, limit, after)
        return await self._ask(lambda rows, _: (rows.page(prefix, limit, after), None))

    def watch(self, prefix: str, *, after_revision: int | None = None) -> Watch:
        return self._watches.open(prefix, after_revision)

    async def grant(self, ttl_seconds: int) -> int:
        check_ttl(ttl_seconds)
        return await self._ask(lambda rows, now_us: (rows.grant(ttl_seconds * 1_000_000, now_us), None))

    async def keep_alive(self, lease: int) -> None:
        def renew(rows: SqliteRows, now_us: int) -> tuple[None, None]:
            rows.keep_alive(lease, now_us)
            return None, None

        await self._ask(renew)

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda rows, _: (None, rows.revoke(lease)))

    async def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._budget.refuse_all(_closed_error())
            self._committer.stop()
        await asyncio.shield(self._closed)
        self._watches.close()

    async def _ask(self, do: Callable[[SqliteRows, int], tuple[Answer, Change | None]], size_bytes: int = 0) -> Answer:
        if self._is_closing:
            raise _closed_error()
        size_bytes += _JOB_BYTES
        await self._budget.take(size_bytes)
        if self._is_closing:  # while there was no room
            raise _closed_error()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._committer.submit(Job(do, future, size_bytes))
        return await future

    def _deliver(self, outcomes: list[Outcome], changes: list[Change]) -> None:
        # Watches first: who was told that a change is done can read it from a watch.
        self._watches.publish(changes)
        for job, answer, error in outcomes:
            self._budget.give_back(job.size_bytes)
            _settle(job.future, answer, error)


def _closed_error() -> MetadataFailed:
    return MetadataFailed("the metadata store is closed")


def _settle(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    if future.done():  # cancelled: nobody waits for it any more
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
