"""Mistakes that a storage engine must not make, each put into the code under test, so that the simulator can show
that it notices. A mutation replaces one method; everything else runs as it is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pydanube.model.errors import OutOfSequence, UnknownProducer
from pydanube.storage import acceptance, appender, core, cursor, journal, producers, reader, recovery, scan, upkeep
from pydanube.storage import round_queue as queue
from pydanube.storage.file_header import number_of
from pydanube.storage.journal import Written
from pydanube.storage.retention import first_to_keep
from pydanube.storage.rounds import Draft, encode_round
from pydanube.storage.state import Place, state_from_form


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def ack_before_sync() -> Any:
    """A round counts as durable when it is written, not when it is synced."""

    def write_round(self: journal.Journal, drafts: Sequence[Draft]) -> Written:
        number = self._next_round
        parts, rows = encode_round(
            drafts,
            number=number,
            synced_through=number - 1,
            writer_epoch=self.writer_epoch,
            time_us=self._clock.now_us(),
            seed=self._seed,
        )
        assert self._file is not None
        self._file.write_at(self._end, parts)
        place = Place(self._file_number, self._end, sum(map(len, parts)))
        self._end = place.end
        self._next_round = number + 1
        self._marked_through = number - 1
        return Written(number, place, rows, self._file)

    return _replaced(journal.Journal, "_write_round", write_round)


def sync_again_after_failure() -> Any:
    """A failed sync is tried again on the same file, and the second answer is believed."""
    original = journal.Journal._write_round

    def write_round(self: journal.Journal, drafts: Sequence[Draft]) -> Written:
        file: Any = self._file

        class Stubborn:
            def sync(self) -> None:
                with suppress(OSError):
                    file.sync()
                file.sync()

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        stubborn: Any = Stubborn()
        self._file = stubborn
        try:
            return original(self, drafts)._replace(file=file)
        finally:
            self._file = file

    return _replaced(journal.Journal, "_write_round", write_round)


def go_on_in_failed_file() -> Any:
    """After a failed round the same file is written on."""
    original = journal.Journal.write

    def write(self: journal.Journal, drafts: Sequence[Draft]) -> Written:
        file = self._file
        try:
            return original(self, drafts)
        except Exception:
            self._file = self._file or file
            raise

    return _replaced(journal.Journal, "write", write)


def trust_the_page_cache() -> Any:
    """Recovery serves what it reads, without making sure that the disk has it."""
    original = recovery.Recovery._finish_file

    def finish_file(
        self: recovery.Recovery, journal_file: Any, found: Any, end: Any, follower: Any, index: Any
    ) -> None:
        if self._pending is not None and self._pending.is_whole:
            self._synced = max(self._synced, self._pending.head.number)
        original(self, journal_file, found, end, follower, index)

    return _replaced(recovery.Recovery, "_finish_file", finish_file)


def delete_before_checkpoint() -> Any:
    """Files go as soon as nothing in them is needed, whether a checkpoint covers them or not."""

    def deletable(self: upkeep.Upkeep) -> list[int]:
        needed = self._core.state.oldest_file_needed()
        limit = self._core.catalog.current_number if needed is None else needed
        numbers = (journal_number for journal_number in map(number_of, self._files.list()))
        return sorted(number for number in numbers if number is not None and number < limit)

    return _replaced(upkeep.Upkeep, "deletable_files", deletable)


def delete_needed_file() -> Any:
    """Files go when a checkpoint covers them, whether they are needed or not."""

    def deletable(self: upkeep.Upkeep) -> list[int]:
        covered = self._checkpoints[0][1] if self._checkpoints else 0
        numbers = (journal_number for journal_number in map(number_of, self._files.list()))
        return sorted(number for number in numbers if number is not None and number < covered)

    return _replaced(upkeep.Upkeep, "deletable_files", deletable)


def accept_sequence_gap() -> Any:
    """A batch whose predecessor never came is stored."""
    original = producers.find_resend

    def find_resend(*arguments: Any) -> Any:
        try:
            return original(*arguments)
        except (OutOfSequence, UnknownProducer):
            return None

    return _replaced(acceptance, "find_resend", find_resend)


def forget_sequences_in_checkpoints() -> Any:
    """A checkpoint leaves the producers out, so that after a restart a resend looks new."""
    original = state_from_form

    def forgetful(form: Any) -> Any:
        state = original(form)
        for topic in state.topics.values():
            for producer in topic.producers.values():
                producer.next_sequence = 0
                producer.sent.clear()
        return state

    return _replaced(recovery, "state_from_form", forgetful)


def reuse_durable_offset() -> Any:
    """After a restart a topic goes on one message too early."""
    original = appender.Appender.__init__

    def init(self: appender.Appender, core: Any, ceiling: int) -> None:
        original(self, core, ceiling)
        for topic in core.state.topics.values():
            if topic.end > topic.first and topic.ledgers:
                topic.end -= 1
                topic.ledgers[-1].end -= 1

    return _replaced(appender.Appender, "__init__", init)


def roll_back_too_little() -> Any:
    """A failed round does not undo what was accepted on top of it."""

    def fail(self: core.Core, entries: Any, error: Any) -> None:
        self._taken_bytes = 0
        for entry in entries:
            entry.finish(error)

    return _replaced(core.Core, "fail", fail)


def rename_before_sync() -> Any:
    """A journal file gets its name before its header is on the disk."""
    original = journal.Journal._next_file

    def next_file(self: journal.Journal, rounds: Any, length: int, *, for_batches: bool) -> Any:
        allocate = self.space.allocate

        def lazy(*arguments: Any, **options: Any) -> Any:
            file, capacity = allocate(*arguments, **options)
            setattr(file, "sync", lambda: None)  # noqa: B010 - a method, as far as mypy knows
            return file, capacity

        with _replaced(self.space, "allocate", lazy):
            made = original(self, rounds, length, for_batches=for_batches)
        if self._file is not None:
            delattr(self._file, "sync")
        return made

    return _replaced(journal.Journal, "_next_file", next_file)


def name_not_synced() -> Any:
    """The folder is not synced after a new journal file got its name."""
    original = journal.Journal._next_file

    def next_file(self: journal.Journal, rounds: Any, length: int, *, for_batches: bool) -> Any:
        with _replaced(self._files, "sync_folder", lambda: None):
            return original(self, rounds, length, for_batches=for_batches)

    return _replaced(journal.Journal, "_next_file", next_file)


def lose_cursor_reset_generation() -> Any:
    """Late acks from before a reset are applied."""

    def ack(self: cursor.Cursor, _generation: int, ranges: Any) -> bool:
        self._add(ranges)
        return True

    return _replaced(cursor.Cursor, "ack", ack)


def trim_unconsumed() -> Any:
    """Retention does not wait for subscriptions."""

    def impatient(ledgers: Any, first: int, _positions: Any, retention: Any, now_us: int) -> int:
        return first_to_keep(ledgers, first, (), retention, now_us)

    return _replaced(upkeep, "first_to_keep", impatient)


def skip_crc() -> Any:
    """Entries are not checked when they are read."""

    @contextmanager
    def both() -> Iterator[None]:
        with (
            _replaced(reader, "entry_is_whole", lambda _row, _body: True),
            _replaced(scan, "entry_is_whole", lambda _row, _body: True),
        ):
            yield

    return both()


def half_a_release() -> Any:
    """A release over several topics is not one round."""

    def submit_group(self: core.Core, entries: Any) -> None:
        for entry in entries:
            self.submit(entry)

    @contextmanager
    def small_rounds() -> Iterator[None]:
        def take(self: Any) -> Any:
            return self._take_fairly() if self.count > 1 else original(self)

        original = queue.RoundQueue.take
        with (
            _replaced(core.Core, "submit_group", submit_group),
            _replaced(queue.RoundQueue, "take", take),
        ):
            yield

    return small_rounds()


MUTATIONS = [
    ack_before_sync,
    sync_again_after_failure,
    go_on_in_failed_file,
    trust_the_page_cache,
    delete_before_checkpoint,
    delete_needed_file,
    accept_sequence_gap,
    forget_sequences_in_checkpoints,
    reuse_durable_offset,
    roll_back_too_little,
    rename_before_sync,
    name_not_synced,
    lose_cursor_reset_generation,
    trim_unconsumed,
    skip_crc,
    half_a_release,
]
