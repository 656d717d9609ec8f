"""The round: the unit of durability.

Everything that must survive is an entry of a round. A round describes itself twice, so that one damaged place
never makes the rest illegible:

    head (48 bytes) · table (40 bytes an entry) · entries, each 8-aligned · table again · tail (48 bytes)

    head  0 u32 magic          "DNBR"; the tail has "DNBT"
          4 u32 crc            CRC32C of bytes 8..48 and of the table, seeded by the file's salt
          8 u64 number         of the round, from 1, without gaps
         16 u64 synced_through the last round known to be durable when this one was written
         24 u32 writer_epoch
         28 u32 entry_count
         32 u32 length         of the whole round
         36 u32 reserved       0
         40 i64 time_us
    row   0 u8 kind · 1 u8, 2 u16 reserved, 0
          4 u32 crc            of the entry's bytes; of a batch only of its stamp, which holds the CRC of its rest
          8 u64 topic_id       0: none
         16 u64 first_offset   24 u32 record_count: the offsets that the entry gives to messages
         28 u32 position       of the entry, from the start of the round · 32 u32 length
         36 u32 ledger_epoch

The salt keeps bytes inside a payload from passing for a round. Zeros are never a round: the magic is not zero.
The tail stands right before the next round, so a round with a damaged head is still read backwards from there.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from crc32c import crc32c

from pydanube.model import Buffer
from pydanube.model.limits import ROUND_BYTES_MAX, ROUND_ENTRIES_MAX
from pydanube.records import STAMP_BYTES

from .entries import PARK_HEAD_BYTES

HEAD_MAGIC = int.from_bytes(b"DNBR", "little")
TAIL_MAGIC = int.from_bytes(b"DNBT", "little")
HEAD = struct.Struct("<IIQQIIIIq")
ROW = struct.Struct("<BBHIQQIIII")
HEAD_BYTES = HEAD.size
ROW_BYTES = ROW.size
_HEAD_CHECKED = struct.Struct("<QQIIIIq")

# A round is cut at ROUND_BYTES_MAX, but an atomic group may stretch it; a reader believes no more than this.
ROUND_BYTES_BELIEVED = 16 * ROUND_BYTES_MAX
EMPTY_ROUND_BYTES = 2 * HEAD_BYTES
CRC_AT = 12  # of the CRC inside a batch's stamp


class Kind(IntEnum):
    """Kinds of entries. Written to disk: a number is never given to another kind."""

    BATCH = 1
    LEDGER_CLOSE = 2
    SESSION = 3  # a new writer: every open ledger ends here
    TRIM = 4  # messages below first_offset are gone by retention
    TOPIC_DELETE = 5
    CURSOR_ACK = 6
    CURSOR_RESET = 7
    CURSOR_DROP = 8
    PARK = 9  # a batch without offsets
    RELEASE = 10  # gives offsets to parked batches, by reference
    DISCARD = 11  # parked batches that nobody will release
    WRITER = 12  # what a writer has released last
    DAMAGE = 13  # offsets whose messages were lost to damage
    ORPHAN = 14  # a topic that the metadata does not know, and since when


# How much of an entry its row's CRC covers. A batch has a CRC of its own over everything behind its stamp, and the
# stamp holds it, so hashing up to the end of the stamp covers the whole without reading it twice.
_CRC_COVERS: dict[int, int] = {Kind.BATCH: STAMP_BYTES, Kind.PARK: PARK_HEAD_BYTES + STAMP_BYTES}


GIVES_OFFSETS = (Kind.BATCH, Kind.RELEASE)


class Row(NamedTuple):
    kind: int
    crc: int
    topic_id: int
    first_offset: int
    record_count: int
    position: int
    length: int
    ledger_epoch: int


class RoundHead(NamedTuple):
    number: int
    synced_through: int
    writer_epoch: int
    entry_count: int
    length: int
    time_us: int

    @property
    def entries_at(self) -> int:
        return HEAD_BYTES + ROW_BYTES * self.entry_count

    @property
    def tail_at(self) -> int:
        return self.length - HEAD_BYTES - ROW_BYTES * self.entry_count


class Draft(NamedTuple):
    """One entry on its way into a round. A batch is 8-aligned already; other entries are padded here."""

    kind: Kind
    topic_id: int
    first_offset: int
    record_count: int
    ledger_epoch: int
    body: Buffer


def pad8(length: int) -> int:
    return -length & 7


def entry_crc(kind: int, body: Buffer) -> int:
    covers = _CRC_COVERS.get(kind)
    return crc32c(body if covers is None else memoryview(body)[:covers])


def entry_is_whole(row: Row, body: Buffer) -> bool:
    if len(body) != row.length or entry_crc(row.kind, body) != row.crc:
        return False
    if row.kind == Kind.BATCH:
        return batch_is_whole(body)
    return row.kind != Kind.PARK or batch_is_whole(memoryview(body)[PARK_HEAD_BYTES:])


def batch_is_whole(batch: Buffer) -> bool:
    view = memoryview(batch)
    stored = int.from_bytes(view[CRC_AT : CRC_AT + 4], "little")
    return len(view) >= STAMP_BYTES and crc32c(view[STAMP_BYTES:]) == stored


def salt_seed(salt: int) -> int:
    return crc32c(salt.to_bytes(8, "little"))


def encode_round(
    drafts: Sequence[Draft], *, number: int, synced_through: int, writer_epoch: int, time_us: int, seed: int
) -> tuple[list[Buffer], list[Row]]:
    """The parts of a round, ready to be written one behind the other, and its rows. Bodies are not copied."""
    if len(drafts) > ROUND_ENTRIES_MAX:
        raise ValueError(f"a round has at most {ROUND_ENTRIES_MAX} entries, not {len(drafts)}")
    position = HEAD_BYTES + ROW_BYTES * len(drafts)
    bodies: list[Buffer] = []
    rows: list[Row] = []
    table = bytearray()
    for kind, topic_id, first_offset, record_count, ledger_epoch, body in drafts:
        length = len(body)
        if length & 7:
            body = bytes(body) + bytes(pad8(length))
            length = len(body)
        row = Row(kind, entry_crc(kind, body), topic_id, first_offset, record_count, position, length, ledger_epoch)
        table += ROW.pack(kind, 0, 0, *row[1:])
        rows.append(row)
        bodies.append(body)
        position += length
    length = position + len(table) + HEAD_BYTES
    if length > ROUND_BYTES_BELIEVED:
        raise ValueError(f"a round has at most {ROUND_BYTES_BELIEVED} bytes, not {length}")
    checked = _HEAD_CHECKED.pack(number, synced_through, writer_epoch, len(drafts), length, 0, time_us)
    head_crc = crc32c(table, crc32c(checked, seed))
    head = HEAD_MAGIC.to_bytes(4, "little") + head_crc.to_bytes(4, "little") + checked
    # The tail's magic is part of what tells it from a head, so it seeds its CRC too.
    tail_crc = crc32c(table, crc32c(checked, seed ^ TAIL_MAGIC))
    tail = TAIL_MAGIC.to_bytes(4, "little") + tail_crc.to_bytes(4, "little") + checked
    return [head + table, *bodies, bytes(table) + tail], rows


def _believable(entry_count: int, length: int, reserved: int) -> bool:
    return (
        reserved == 0
        and length % 8 == 0
        and length <= ROUND_BYTES_BELIEVED
        and entry_count <= ROUND_ENTRIES_MAX
        and 2 * (HEAD_BYTES + ROW_BYTES * entry_count) <= length
    )


def read_head(data: Buffer, at: int = 0) -> RoundHead | None:
    """The head at a position, its CRC not yet checked (that needs the table), or None where none can be."""
    if len(data) - at < HEAD_BYTES:
        return None
    magic, _, number, synced, epoch, count, length, reserved, time_us = HEAD.unpack_from(data, at)
    if magic != HEAD_MAGIC or not _believable(count, length, reserved):
        return None
    return RoundHead(number, synced, epoch, count, length, time_us)


def check_head(data: Buffer, head: RoundHead, seed: int, at: int = 0) -> bool:
    """Whether head and table (both in `data` from `at` on) are whole."""
    view = memoryview(data)
    if len(view) - at < head.entries_at:
        return False
    stored = int.from_bytes(view[at + 4 : at + 8], "little")
    return crc32c(view[at + 8 : at + head.entries_at], seed) == stored


def read_tail_before(data: Buffer, end: int, seed: int) -> tuple[RoundHead, bytes] | None:
    """The tail that ends at `end`, whole, with its table; or None."""
    at = end - HEAD_BYTES
    if at < 0:
        return None
    view = memoryview(data)
    magic, crc, number, synced, epoch, count, length, reserved, time_us = HEAD.unpack_from(view, at)
    if magic != TAIL_MAGIC or not _believable(count, length, reserved) or ROW_BYTES * count > at:
        return None
    table = bytes(view[at - ROW_BYTES * count : at])
    if crc32c(table, crc32c(view[at + 8 : end], seed ^ TAIL_MAGIC)) != crc:
        return None
    return RoundHead(number, synced, epoch, count, length, time_us), table


def read_rows(data: Buffer, entry_count: int, at: int = 0) -> Iterator[Row]:
    table = memoryview(data)[at : at + ROW_BYTES * entry_count]
    for kind, _, _, crc, topic_id, first, count, position, length, epoch in ROW.iter_unpack(table):
        yield Row(kind, crc, topic_id, first, count, position, length, epoch)


def rows_fit(rows: Sequence[Row], head: RoundHead) -> bool:
    """Whether the entries lie one behind the other between the tables, as a writer lays them."""
    position = head.entries_at
    for row in rows:
        if row.position != position or row.length % 8:
            return False
        position += row.length
    return position == head.tail_at
