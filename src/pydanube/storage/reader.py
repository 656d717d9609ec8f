"""Reading batches back from journal files. Every byte that is handed out has passed its CRC.

A `ReadJob` is made on the owner's thread, where the index is, and can be run on any thread: it holds an open file,
which stays readable even when retention removes the file meanwhile.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pydanube.model.errors import DataDamaged
from pydanube.model.limits import INDEX_STRIDE_BYTES
from pydanube.records import read_header, restamped

from . import entries
from .cache import StoredBatch
from .files import File
from .rounds import (
    GIVES_OFFSETS,
    HEAD_BYTES,
    Kind,
    RoundHead,
    Row,
    batch_is_whole,
    check_head,
    entry_is_whole,
    read_head,
    read_rows,
)
from .scan import FoundDamage, FoundEnd, FoundRound, scan_rounds

_ID = struct.Struct("<Q")


class ReadJob(NamedTuple):
    """Read the topic's batches in [first, end) from the rounds at `position` on, up to `file_end`."""

    topic_id: int
    first: int
    end: int
    bytes_max: int
    file: File
    file_name: str
    seed: int
    position: int
    file_end: int
    open_file: Callable[[int], File]  # for released batches, which may lie in other files; from any thread


class _Window:
    """A moving view of a file: small rounds are read many at a time."""

    def __init__(self, file: File, file_end: int) -> None:
        self._file = file
        self._file_end = file_end
        self._start = 0
        self._data = b""
        self._others: dict[int, File] = {}

    def get(self, position: int, length: int) -> memoryview:
        if position < self._start or position + length > self._start + len(self._data):
            wanted = max(length, min(INDEX_STRIDE_BYTES, self._file_end - position))
            self._data = self._file.read_at(position, wanted)
            self._start = position
        at = position - self._start
        return memoryview(self._data)[at : at + length]

    def other(self, number: int, open_file: Callable[[int], File]) -> File:
        file = self._others.get(number)
        if file is None:
            file = self._others[number] = open_file(number)
        return file


def run_read(job: ReadJob) -> list[StoredBatch]:
    """The batches, in order, at least one if there is any; empty if the file has none of them."""
    window = _Window(job.file, job.file_end)
    batches: list[StoredBatch] = []
    size = 0
    expected = job.first
    position = job.position
    while position < job.file_end and expected < job.end:
        found = _read_rows(job, window, position)
        if isinstance(found, FoundDamage | FoundEnd):
            # It may be about other topics. If it is about this one, the offsets that follow will tell.
            position = found.end if isinstance(found, FoundDamage) else job.file_end
            continue
        head, rows = found
        for row in rows:
            row_end = row.first_offset + row.record_count
            if row_end <= expected:
                continue
            if row.first_offset >= job.end:
                return batches
            if row.first_offset > expected:
                if not batches:
                    raise _damaged(job, expected, row.first_offset)
                return batches  # whoever asks for the rest will hear it
            try:
                for batch in _row_batches(job, window, position, row, expected):
                    if batches and size + len(batch.data) > job.bytes_max:
                        return batches
                    batches.append(batch)
                    size += len(batch.data)
                    expected = batch.end_offset
            except DataDamaged:
                if not batches:
                    raise
                return batches  # whoever asks for the rest will hear it
        position += head.length
    return batches


def _read_rows(job: ReadJob, window: _Window, position: int) -> tuple[RoundHead, list[Row]] | FoundDamage | FoundEnd:
    """The topic's rows that give offsets, of the round at a position. Where its head is damaged, its tail will do."""
    head = read_head(window.get(position, HEAD_BYTES))
    if head is not None:
        data = window.get(position, head.entries_at)
        if check_head(data, head, job.seed):
            table = data[HEAD_BYTES:]
            # Most rounds of a busy journal are about others: look before decoding.
            if _ID.pack(job.topic_id) not in bytes(table):
                return head, []
            return head, _rows_of(read_rows(table, head.entry_count), job.topic_id)
    # Readers stop at durable ends of rounds, so the end of what may be read is exact; the number is of no interest.
    found = next(scan_rounds(job.file, position, job.file_end, job.seed, next_number=0))
    return (found.head, _rows_of(found.rows, job.topic_id)) if isinstance(found, FoundRound) else found


def _rows_of(rows: Iterable[Row], topic_id: int) -> list[Row]:
    return [row for row in rows if row.topic_id == topic_id and row.kind in GIVES_OFFSETS]


def _row_batches(job: ReadJob, window: _Window, round_position: int, row: Row, expected: int) -> Iterator[StoredBatch]:
    """The batches of a row that end above `expected`, one at a time: a release may hold more than fits in memory."""
    body = window.get(round_position + row.position, row.length)
    if not entry_is_whole(row, body):
        raise _damaged(job, row.first_offset, row.first_offset + row.record_count)
    if row.kind == Kind.BATCH:
        yield StoredBatch(row.first_offset, row.first_offset + row.record_count, body)
        return
    items, time_us = entries.decode_released(body)
    end = row.first_offset
    for item in items:
        first, end = end, end + item.record_count
        if end <= expected:
            continue
        data = window.other(item.file_number, job.open_file).read_at(item.position, item.length)
        whole = len(data) == item.length and batch_is_whole(data)
        if not whole or read_header(data).record_count != item.record_count:
            raise _damaged(job, first, end)
        yield StoredBatch(first, end, restamped(data, first, row.ledger_epoch, time_us))


def _damaged(job: ReadJob, first: int, end: int) -> DataDamaged:
    return DataDamaged(
        f"messages {first} to {end} of topic {job.topic_id:016x} in {job.file_name} are damaged", first, end
    )
