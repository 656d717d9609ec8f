"""The thread that owns the SQLite file: it takes all jobs that wait, does them in order and commits them together.

While one commit waits for the disk the next group gathers, so the more is asked the more goes into one sync. A group
is one transaction of SQLite's; each job in it is still all or nothing, because a keyspace writes only after it has
decided. Reads stand in the same line: they see what was written before them, and are answered when that is committed.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

from pydanube.model import Clock
from pydanube.model.errors import DanubeError

from .sqlite_rows import SqliteRows, explain_failure
from .store import Change

# A clock may be set, so waiting for a lease's deadline is done in naps.
_NAP_SECONDS_MAX = 1.0


class Job(NamedTuple):
    do: Callable[[SqliteRows, int], tuple[Any, Change | None]]  # (rows, now_us) -> its answer and what it changed
    future: asyncio.Future[Any]  # only carried here: the event loop settles it
    size_bytes: int


class Outcome(NamedTuple):
    job: Job
    answer: Any
    error: Exception | None


class Committer:
    """Calls `deliver` after every group and `closed` at the end, both on its own thread."""

    def __init__(
        self,
        rows: SqliteRows,
        clock: Clock,
        *,
        deliver: Callable[[list[Outcome], list[Change]], object],
        closed: Callable[[], object],
    ) -> None:
        self._rows = rows
        self._clock = clock
        self._deliver = deliver
        self._closed = closed
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        # A daemon: a program that forgets to close its store still ends, and loses nothing that was answered.
        self._thread = threading.Thread(target=self._run, name="danube-metadata", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """Everything submitted before is still done."""
        self._jobs.put(None)

    def _run(self) -> None:
        rows = self._rows
        with closing(rows):
            is_last = False
            while not is_last:
                group, is_last = self._take(self._nap_seconds())
                now_us = self._clock.now_us()
                if group or rows.is_stale or rows.leases.due(now_us):
                    self._deliver(*self._commit(group, now_us))
        self._closed()

    def _nap_seconds(self) -> float | None:
        """How long to wait for a job at most; None: for ever."""
        if self._rows.is_stale:
            return _NAP_SECONDS_MAX
        look_again_us = self._rows.leases.look_again_us
        if look_again_us is None:
            return None
        return min(max(0.0, (look_again_us - self._clock.now_us()) / 1_000_000), _NAP_SECONDS_MAX)

    def _take(self, nap_seconds: float | None) -> tuple[list[Job], bool]:
        """All jobs that wait, none only when the nap is over; and whether they are the last."""
        group: list[Job] = []
        try:
            job = self._jobs.get(timeout=nap_seconds)
            while job is not None:
                group.append(job)
                job = self._jobs.get_nowait()
        except queue.Empty:
            return group, False
        return group, True

    def _commit(self, group: list[Job], now_us: int) -> tuple[list[Outcome], list[Change]]:
        rows = self._rows
        outcomes: list[Outcome] = []
        try:
            rows.begin(now_us)
            changes = rows.expire(now_us)
            for job in group:
                try:
                    answer, change = job.do(rows, now_us)
                except DanubeError as error:
                    outcomes.append(Outcome(job, None, error))
                    continue
                outcomes.append(Outcome(job, answer, None))
                if change is not None:
                    changes.append(change)
            rows.commit()
        except Exception as error:  # whatever it is, nobody may be left waiting and the thread must go on
            rows.roll_back()
            return [Outcome(job, None, explain_failure(error, rows.path)) for job in group], []
        return outcomes, changes
