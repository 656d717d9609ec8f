"""Where a topic's batches lie in a journal file.

An index entry points at the start of a round that holds a batch of the topic; a topic gets another entry only when
its next batch lies INDEX_STRIDE_BYTES further on. Whoever reads walks the rounds from an entry: at most that
far. The current file's index is in memory; a closed file's is in a sidecar beside it, read when it is needed:

     0 8s  magic    "DANUBEI\\x01"
     8 u32 crc      CRC32C of everything behind it
    12 u32 version  1
    16 u64 file_number · 24 u32 number of topics · 28 u32 number of entries
    32     per topic, by id:  u64 topic id, u32 first entry, u32 number of entries
    ..     per entry:         u64 first offset, u64 position of the round, i64 append time

It is derived data: missing or damaged, it is made again from the journal file.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from crc32c import crc32c

from pydanube.model.errors import UnsupportedVersion
from pydanube.model.limits import INDEX_STRIDE_BYTES

MAGIC = b"DANUBEI\x01"
VERSION = 1
_CHECKED_AT = 12
_FIELDS = struct.Struct("<IQII")
_TOPIC = struct.Struct("<QII")
_ENTRY_BYTES = 24
_WIDTH = 3  # numbers an entry: offset, position, time


class IndexEntry(NamedTuple):
    first_offset: int
    position: int
    time_us: int


class FileIndex:
    """The index of the file that is being written."""

    def __init__(self, stride_bytes: int = INDEX_STRIDE_BYTES) -> None:
        self._stride_bytes = stride_bytes
        self._topics: dict[int, array[int]] = {}

    def add(self, topic_id: int, first_offset: int, position: int, time_us: int) -> None:
        """A batch of the topic lies in the round at `position`."""
        packed = self._topics.get(topic_id)
        if packed is None:
            self._topics[topic_id] = array("Q", (first_offset, position, time_us))
        elif position >= packed[-2] + self._stride_bytes:
            packed.extend((first_offset, position, time_us))

    def find(self, topic_id: int, offset: int) -> IndexEntry | None:
        """The last entry at or below an offset; the first one if all lie above it; None: the topic is not here."""
        packed = self._topics.get(topic_id)
        return None if packed is None else _find(packed, 0, len(packed) // _WIDTH, 0, offset)

    def find_time(self, topic_id: int, time_us: int) -> IndexEntry | None:
        """The same by append time: the last entry that is older than `time_us`, else the first one."""
        packed = self._topics.get(topic_id)
        return None if packed is None else _find(packed, 0, len(packed) // _WIDTH, 2, time_us - 1)

    def encode(self, file_number: int) -> bytes:
        topics = sorted(self._topics.items())
        table = bytearray()
        numbers = array("Q")
        for topic_id, packed in topics:
            table += _TOPIC.pack(topic_id, len(numbers) // _WIDTH, len(packed) // _WIDTH)
            numbers.extend(packed)
        fields = _FIELDS.pack(VERSION, file_number, len(topics), len(numbers) // _WIDTH)
        checked = fields + table + numbers.tobytes()
        return MAGIC + crc32c(checked).to_bytes(4, "little") + checked


class Sidecar:
    """The index of a closed file, over the bytes of its sidecar."""

    def __init__(self, ids: memoryview, table: memoryview, numbers: memoryview, length: int) -> None:
        self._ids = ids
        self._table = table
        self._numbers = numbers
        self.length = length

    def _entries_of(self, topic_id: int) -> tuple[int, int] | None:
        # Topic ids stand in every other u64 of the table.
        at = bisect_left(range(len(self._ids) // 2), topic_id, key=lambda row: self._ids[2 * row])
        if at * 2 >= len(self._ids) or self._ids[2 * at] != topic_id:
            return None
        _, first, count = _TOPIC.unpack_from(self._table, at * _TOPIC.size)
        return first, first + count

    def find(self, topic_id: int, offset: int) -> IndexEntry | None:
        span = self._entries_of(topic_id)
        return None if span is None else _find(self._numbers, *span, 0, offset)

    def find_time(self, topic_id: int, time_us: int) -> IndexEntry | None:
        span = self._entries_of(topic_id)
        return None if span is None else _find(self._numbers, *span, 2, time_us - 1)


def _find(numbers: "array[int] | memoryview", first: int, end: int, column: int, value: int) -> IndexEntry:
    at = bisect_right(range(first, end), value, key=lambda entry: numbers[_WIDTH * entry + column]) - 1
    start = _WIDTH * (first + max(at, 0))
    return IndexEntry(numbers[start], numbers[start + 1], numbers[start + 2])


def decode_sidecar(data: bytes, file_number: int) -> Sidecar | None:
    """The sidecar, or None where it is damaged or belongs to another file."""
    view = memoryview(data)
    table_at = _CHECKED_AT + _FIELDS.size
    if len(view) < table_at or bytes(view[:8]) != MAGIC:
        return None
    if crc32c(view[_CHECKED_AT:]) != int.from_bytes(view[8:_CHECKED_AT], "little"):
        return None
    version, number, topic_count, entry_count = _FIELDS.unpack_from(view, _CHECKED_AT)
    if version > VERSION:
        raise UnsupportedVersion(f"a journal index has format version {version}; this program reads up to {VERSION}")
    numbers_at = table_at + topic_count * _TOPIC.size
    whole = len(view) == numbers_at + entry_count * _ENTRY_BYTES
    if not whole or number != file_number:
        return None
    table = view[table_at:numbers_at]
    return Sidecar(table.cast("Q"), table, view[numbers_at:].cast("Q"), len(data))
