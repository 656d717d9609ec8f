"""Upkeep: checkpoints, retention, and which files may be deleted.

A journal file goes, oldest first, only when the older of two durable checkpoints covers its last round and nothing in
it is needed. Absence in the metadata never authorises deletion: a topic that it does not know is marked as an
orphan, and deleted only after a grace time.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydanube.model.errors import StorageFailed

from . import entries
from .acceptance import Done, Entry
from .appender import Appender
from .checkpoint import (
    KEPT,
    TEMPORARY,
    CheckpointForm,
    checkpoint_name,
    checkpoint_round,
    encode_checkpoint,
    write_whole,
)
from .core import Core
from .file_header import file_name, index_name, number_of
from .files import Files
from .index import FileIndex
from .parking import Parking
from .retention import Retention, first_to_keep
from .rounds import Kind
from .state import state_form


class CheckpointJob(NamedTuple):
    """Written by `run_checkpoint`, on any thread."""

    round_number: int
    file_number: int
    data: bytes
    sidecars: list[tuple[int, FileIndex]]  # of closed files: they do not change any more


def run_checkpoint(files: Files, job: CheckpointJob) -> None:
    for number, index in job.sidecars:
        write_whole(files, index_name(number), index.encode(number))
    write_whole(files, checkpoint_name(job.round_number), job.data)
    files.sync_folder()


class Upkeep:
    def __init__(
        self,
        core: Core,
        appender: Appender,
        parking: Parking,
        files: Files,
        journal_id: bytes,
        checkpoints: list[tuple[str, int]],
    ) -> None:
        self._core = core
        self._appender = appender
        self._parking = parking
        self._files = files
        self._journal_id = journal_id
        self._checkpoints = checkpoints  # durable ones, oldest first: name, and the file where replay begins
        self._checkpoint_file = checkpoints[-1][1] if checkpoints else 0
        self.forgotten_topics: list[int] = []  # deleted topics that no file mentions any more

    # -- checkpoints ----------------------------------------------------------------------------------------------

    @property
    def checkpoint_due(self) -> bool:
        """With every new journal file, so that recovery reads little more than one file."""
        return self._core.catalog.current_number != self._checkpoint_file

    def begin_checkpoint(self, *, closing: bool = False) -> CheckpointJob:
        core = self._core
        self._forget_idle(core.clock.now_us())
        place = core.last_place
        form = CheckpointForm(
            self._journal_id,
            core.last_round,
            place.file_number,
            place.end,
            core.clock.now_us(),
            state_form(core.state),
            core.epoch,
        )
        self._checkpoint_file = place.file_number
        sidecars = core.catalog.unsaved(with_current=closing)
        return CheckpointJob(core.last_round, place.file_number, encode_checkpoint(form), sidecars)

    def checkpoint_failed(self) -> None:
        self._checkpoint_file = 0  # due again
        self._core.space.release_reserve()

    def checkpoint_done(self, job: CheckpointJob) -> None:
        name = checkpoint_name(job.round_number)
        self._checkpoints = [known for known in self._checkpoints if known[0] != name]
        self._checkpoints.append((name, job.file_number))
        for number, _ in job.sidecars:
            self._core.catalog.saved(number)
        self._checkpoints = self._checkpoints[-KEPT:]
        kept = [known for known, _ in self._checkpoints]
        # By what is in the folder, so that damaged ones go too, and those that a crash left unfinished.
        for old in self._files.list():
            if checkpoint_round(old.removesuffix(TEMPORARY)) is not None and old not in kept:
                with contextlib.suppress(OSError):  # it does no harm, and the next checkpoint tries again
                    self._files.remove(old)

    def _forget_idle(self, now_us: int) -> None:
        state, settings = self._core.state, self._core.settings
        for writer in [w for w, move in state.writers.items() if move.time_us + settings.writer_forget_us <= now_us]:
            del state.writers[writer]
        for topic in state.topics.values():
            idle = [
                number
                for number, producer in topic.producers.items()
                if producer.last_us + settings.producer_forget_us <= now_us
            ]
            # A producer with batches under way is not idle, whatever its last durable batch says.
            if idle and topic.topic_id not in self._core.acceptances:
                topic.encoded = None
                for number in idle:
                    del topic.producers[number]

    # -- deletion -------------------------------------------------------------------------------------------------

    def deletable_files(self) -> list[int]:
        if len(self._checkpoints) < KEPT:
            return []
        covered = self._checkpoints[0][1]
        needed = self._core.state.oldest_file_needed()
        limit = covered if needed is None else min(covered, needed)
        return sorted(n for n in map(number_of, self._files.list()) if n is not None and n < limit)

    def delete_files(self) -> int:
        """Deletes what may go and returns how many files that were. A disk that refuses is asked again later."""
        numbers = self.deletable_files()
        try:
            for number in numbers:
                self._core.catalog.remove(number)
                self._files.remove(file_name(number))
                with contextlib.suppress(FileNotFoundError):
                    self._files.remove(index_name(number))
            if numbers:
                self._files.sync_folder()
        except OSError as error:
            raise StorageFailed(f"a journal file could not be deleted: {error.strerror}") from error
        remaining = [n for n in map(number_of, self._files.list()) if n is not None]
        if remaining:
            self.forgotten_topics.extend(self._core.state.forget_deleted(remaining[0]))
        return len(numbers)

    # -- retention ------------------------------------------------------------------------------------------------

    def may_let_go(self, topic_id: int, retention: Retention) -> bool:
        """Whether retention would let go of anything if no subscription held it."""
        topic = self._core.state.topics.get(topic_id)
        if topic is None:
            return False
        return first_to_keep(topic.ledgers, topic.first, (), retention, self._core.clock.now_us()) > topic.first

    def retain(self, topic_id: int, retention: Retention, starts: Mapping[int, int], done: Done) -> int:
        """Lets go of what retention does not keep; `starts` are the topic's subscriptions and where each began.
        Returns the first offset that stays, which `done` hears to be durable."""
        core = self._core
        core.check_open()
        topic = core.topic(topic_id)
        positions = (
            topic.cursors[number].position if number in topic.cursors else start for number, start in starts.items()
        )
        first = first_to_keep(topic.ledgers, topic.first, positions, retention, core.clock.now_us())
        if first <= topic.first:
            done(topic.first, None)
        else:
            entry = Entry(Kind.TRIM, topic_id, b"", first=first)
            entry.done.append(done)
            core.submit(entry)
        return first

    def delete_topic(self, topic_id: int, done: Done) -> None:
        """The topic's tombstone is in the metadata already."""
        core = self._core
        core.check_open()
        if topic_id in core.state.deleted or topic_id in core.deleting:
            done(0, None)
            return
        core.deleting.add(topic_id)
        entry = Entry(Kind.TOPIC_DELETE, topic_id, b"")
        entry.done.append(lambda _offset, _error: core.deleting.discard(topic_id))
        entry.done.append(done)
        core.submit(entry)

    def mark_orphans(self, known: Iterable[int], ignore: Done) -> list[int]:
        """Compares with the topics that the metadata knows (alive or tombstoned); returns the orphans."""
        core, state = self._core, self._core.state
        known = set(known)
        now_us = core.clock.now_us()
        orphans = [topic_id for topic_id in state.topics if topic_id not in known]
        marks = [(topic_id, now_us) for topic_id in orphans if topic_id not in state.orphans]
        marks += [(topic_id, 0) for topic_id in state.orphans if topic_id in known]
        for topic_id, time_us in marks:
            entry = Entry(Kind.ORPHAN, topic_id, entries.encode_time(time_us))
            entry.done.append(ignore)
            core.submit(entry)
        return orphans

    def tick(self, ignore: Done) -> None:
        """What time brings: ledgers grow old, parked batches expire, orphans run out of grace."""
        core = self._core
        now_us = core.clock.now_us()
        self._appender.close_aged(now_us)
        with contextlib.suppress(StorageFailed):
            self._parking.discard(self._parking.expired(now_us), ignore)
        for topic_id, since_us in list(core.state.orphans.items()):
            if since_us + core.settings.orphan_grace_us <= now_us:
                self.delete_topic(topic_id, ignore)
