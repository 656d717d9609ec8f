"""Moving rounds to the disk: on a thread of its own, or in place where there is nothing to wait for.

The thread always takes whatever has come together while the last round was being written: that is group commit. After a
failed round it waits until the owner has undone what was accepted on top of it.
"""

import threading
from collections.abc import Callable

from pydanube.model import DanubeError
from pydanube.model.errors import StorageFailed

from .acceptance import Entry
from .journal import Written
from .log import Log
from .upkeep import CheckpointJob, run_checkpoint


class InlineWriter:
    """Writes when it is told to, on the caller's thread: for tests, the simulator and the memory journal."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def run(self) -> None:
        core = self._log.core
        while core.has_waiting:
            entries = core.take()
            try:
                written = self._log.journal.write([entry.draft() for entry in entries])
            except DanubeError as error:
                core.fail(entries, error)
            else:
                core.commit(entries, written)
        if self._log.upkeep.checkpoint_due:
            self.checkpoint()

    def mark_durable(self) -> None:
        """Going idle: lets the disk say that the last round is durable."""
        journal, core = self._log.journal, self._log.core
        if not journal.is_marked and not core.has_waiting:
            try:
                core.apply(journal.mark_durable(), [], cache=False)
            except StorageFailed:
                return  # nothing was waiting for it; the next round will say so too

    def checkpoint(self, *, closing: bool = False) -> bool:
        upkeep = self._log.upkeep
        job = upkeep.begin_checkpoint(closing=closing)
        try:
            run_checkpoint(self._log.files, job)
        except OSError:
            upkeep.checkpoint_failed()
            return False
        upkeep.checkpoint_done(job)
        return True

    def close(self) -> None:
        """Everything accepted is made durable, the last round marked, the state written down."""
        self.run()
        self._log.core.closed = True
        self.mark_durable()
        self.checkpoint(closing=True)
        self._log.journal.close()


class ThreadWriter:
    """Writes on a thread of its own. `post` runs a function on the owner's thread; `after_round` runs there whenever a
    round has been answered, to do once what concerns all of it."""

    def __init__(
        self,
        log: Log,
        post: Callable[[Callable[[], None]], object],
        *,
        idle_seconds: float = 0.5,
        after_round: Callable[[], None] = lambda: None,
    ) -> None:
        self._after_round = after_round
        self._log = log
        self._post = post
        self._idle_seconds = idle_seconds
        self._wake = threading.Condition()
        self._stopping = False
        self._stalled = False  # a round failed, and the owner has not dealt with it yet
        self._checkpoint: CheckpointJob | None = None  # being written
        self._checkpoint_thread: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="danube-journal", daemon=True)
        self._thread.start()

    def kick(self) -> None:
        """Something has been submitted."""
        with self._wake:
            self._wake.notify()

    # -- on the writer's thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        core, journal = self._log.core, self._log.journal
        while True:
            with self._wake:
                while not self._stopping and (self._stalled or not core.has_waiting):
                    is_idle = not self._wake.wait(None if journal.is_marked else self._idle_seconds)
                    if is_idle and not self._stalled:
                        break
                if self._stopping and (self._stalled or not core.has_waiting):
                    return  # what was accepted on top of a failed round falls with it, when the owner hears of it
            self._write_next(core.take())

    def _write_next(self, entries: list[Entry]) -> None:
        try:
            written = self._log.journal.write([entry.draft() for entry in entries])
        except Exception as error:
            # Whatever it was, everybody who waits is answered, and the thread lives on.
            failure = (
                error if isinstance(error, DanubeError) else StorageFailed(f"a round could not be made: {error!r}")
            )
            self._stalled = True
            self._post(lambda: self._failed(entries, failure))
        else:
            self._post(lambda: self._written(entries, written))

    # -- on the owner's thread ------------------------------------------------------------------------------------

    def _written(self, entries: list[Entry], written: Written) -> None:
        self._log.core.commit(entries, written)
        self._after_round()
        if self._checkpoint is None and self._log.upkeep.checkpoint_due and not self._stopping:
            self._begin_checkpoint()

    def _failed(self, entries: list[Entry], error: DanubeError) -> None:
        self._log.core.fail(entries, error)
        self._after_round()
        with self._wake:
            self._stalled = False
            self._wake.notify()

    def _begin_checkpoint(self) -> None:
        job = self._checkpoint = self._log.upkeep.begin_checkpoint()

        def write() -> None:
            try:
                run_checkpoint(self._log.files, job)
            except OSError:
                self._post(self._checkpoint_failed)
            else:
                self._post(lambda: self._checkpoint_done(job))

        self._checkpoint_thread = threading.Thread(target=write, name="danube-checkpoint", daemon=True)
        self._checkpoint_thread.start()

    def _checkpoint_failed(self) -> None:
        self._checkpoint = None
        self._log.upkeep.checkpoint_failed()

    def _checkpoint_done(self, job: CheckpointJob) -> None:
        self._checkpoint = None
        self._log.upkeep.checkpoint_done(job)

    def stop(self) -> None:
        """Writes what was accepted and ends the thread. The owner then handles what was posted, and closes the log with
        an InlineWriter."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        if self._checkpoint_thread is not None:
            self._checkpoint_thread.join()
