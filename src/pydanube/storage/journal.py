"""The journal: rounds, one behind the other, in a chain of files. All methods run on the writer's thread.

Rules (each has a test that fails without it):
- A file is made under a temporary name with its header, synced, renamed, and the folder synced, before a round
  is written to it. Its header says where its predecessor ends; what lies behind that is not part of the journal.
- A round counts when its bytes are written and synced, in this order, once. If either fails, the file is done for
  ever: it is neither written nor synced again, and the next round goes into a new file, whose header cuts off
  whatever the failed round has left behind.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pydanube.model import Clock
from pydanube.model.errors import DiskFull, StorageFailed

from .file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header, file_name
from .files import File, Files
from .rounds import Draft, Kind, Row, encode_round, salt_seed
from .settings import StorageSettings
from .space import Space, is_full
from .state import Place

TEMPORARY = "next.journal.tmp"


class Written(NamedTuple):
    """A durable round."""

    number: int
    place: Place
    rows: list[Row]
    file: File


class JournalEnd(NamedTuple):
    """Where a journal goes on: what recovery found out."""

    journal_id: bytes
    writer_epoch: int
    file_number: int  # of the last file; 0: there is none
    file_end: int  # where its durable part ends
    next_round: int


class Journal:
    def __init__(
        self,
        files: Files,
        settings: StorageSettings,
        end: JournalEnd,
        *,
        clock: Clock,
        new_salt: Callable[[], int],
    ) -> None:
        self._files = files
        self._settings = settings
        self._clock = clock
        self._new_salt = new_salt
        self._journal_id = end.journal_id
        self.writer_epoch = end.writer_epoch
        self.space = Space(files, settings)
        self._file: File | None = None  # where the next round goes; None: into a new file
        self._file_number = end.file_number
        self._end = end.file_end
        self._capacity = 0
        self._seed = 0
        self._created_us = 0
        self._next_round = end.next_round
        self._marked_through = end.next_round - 1  # the last round that a later one says to be durable

    @property
    def is_marked(self) -> bool:
        """Whether the disk itself says that the last round with anything in it is durable."""
        return self._marked_through >= self._next_round - 1

    def write(self, drafts: Sequence[Draft]) -> Written:
        """Makes a round durable, or raises StorageFailed; then nothing of it counts."""
        for_batches = any(draft.kind in (Kind.BATCH, Kind.PARK) for draft in drafts)
        length = sum(len(draft.body) + 8 for draft in drafts) + 128 + 80 * len(drafts)  # at least what it takes
        try:
            if self._file is None or self._must_leave_file(length, for_batches):
                self._next_file([], length, for_batches=for_batches)
            return self._write_round(drafts)
        except OSError as error:
            self._file = None
            if is_full(error):
                raise DiskFull(f"the disk is full: {error.strerror}") from error
            raise StorageFailed(f"a journal file could not be written: {error.strerror}") from error

    def _must_leave_file(self, length: int, for_batches: bool) -> bool:
        if self._end + length > self._capacity or (self.space.full and for_batches):
            return True
        old = self._clock.now_us() - self._created_us > self._settings.file_age_us
        return old and self._end > FILE_HEADER_BYTES

    def _write_round(self, drafts: Sequence[Draft]) -> Written:
        file = self._file
        assert file is not None
        number = self._next_round
        parts, rows = encode_round(
            drafts,
            number=number,
            synced_through=number - 1,
            writer_epoch=self.writer_epoch,
            time_us=self._clock.now_us(),
            seed=self._seed,
        )
        file.write_at(self._end, parts)
        file.sync()
        place = Place(self._file_number, self._end, sum(map(len, parts)))
        self._end = place.end
        self._next_round = number + 1
        # Of an empty round nobody needs to know: else a journal at rest would write one behind the other.
        self._marked_through = number - 1 if drafts else number
        return Written(number, place, rows, file)

    def begin_session(self, rounds: Sequence[Sequence[Draft]]) -> list[Written]:
        """Starts a new file that opens with these rounds. They become durable together with the file's name."""
        length = sum(len(draft.body) + 88 for drafts in rounds for draft in drafts) + 128 * len(rounds)
        try:
            return self._next_file(rounds, length, for_batches=False)
        except OSError as error:
            if is_full(error):
                raise DiskFull(f"the disk is full: {error.strerror}") from error
            raise StorageFailed(f"a journal file could not be made: {error.strerror}") from error

    def _next_file(self, rounds: Sequence[Sequence[Draft]], length: int, *, for_batches: bool) -> list[Written]:
        old, old_end = self._file, self._end
        self._file = None
        number = self._file_number + 1
        file, capacity = self.space.allocate(TEMPORARY, FILE_HEADER_BYTES + length, for_batches=for_batches)
        now_us = self._clock.now_us()
        header = FileHeader(
            journal_id=self._journal_id,
            file_number=number,
            salt=self._new_salt(),
            first_round=self._next_round,
            previous_end=self._end,
            durable_through=self._next_round - 1 + len(rounds),
            writer_epoch=self.writer_epoch,
            created_us=now_us,
        )
        seed = salt_seed(header.salt)
        parts: list[bytes | bytearray | memoryview] = [encode_file_header(header)]
        position = FILE_HEADER_BYTES
        written = []
        for round_number, drafts in enumerate(rounds, self._next_round):
            round_parts, rows = encode_round(
                drafts,
                number=round_number,
                synced_through=round_number - 1,
                writer_epoch=self.writer_epoch,
                time_us=now_us,
                seed=seed,
            )
            place = Place(number, position, sum(map(len, round_parts)))
            parts.extend(round_parts)
            written.append(Written(round_number, place, rows, file))
            position = place.end
        file.write_at(0, parts)
        file.sync()
        self._files.rename(TEMPORARY, file_name(number))
        self._files.sync_folder()
        self._file, self._file_number, self._capacity = file, number, capacity
        self._end, self._seed, self._created_us = position, seed, now_us
        self._next_round += len(rounds)
        self._marked_through = header.durable_through
        if old is not None:
            # Space that the old file did not use. Not a must: its successor's header says where it ends.
            with contextlib.suppress(OSError):
                old.truncate(old_end)
        return written

    def mark_durable(self) -> Written:
        """An empty round, so that the disk says of the last one that it is durable."""
        return self.write([])

    def close(self) -> None:
        """Gives back the space that the current file did not use."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            self._file = None
