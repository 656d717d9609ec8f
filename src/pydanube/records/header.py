"""The fixed head of a batch: 96 bytes, little-endian, format version 1. Drawn in docs/formats.md.

The first 24 bytes are the stamp. Its offset, epoch and append time are assigned by the broker, after the producer
has computed the checksum; so the stamp lies outside the checksum and a batch is stamped without hashing it again.
Stamp, length and version stay where they are in every later version: that is enough to verify and skip a batch.
"""

import struct
import sys
from typing import NamedTuple

from pydanube.model import Buffer
from pydanube.model.errors import InvalidBatch

if sys.byteorder != "little":
    # Arrays are read and written in place, in the machine's own byte order.
    raise ImportError("pydanube.records needs a little-endian machine")

FORMAT_VERSION = 1
STAMP_BYTES = 24
HEADER_BYTES = 96

# Columns, as bits of `columns` and `nulls`. Written to disk: a bit never changes its meaning.
PAYLOAD = 1
KEY = 2
PUBLISH_TIME = 4
EVENT_TIME = 8
ATTRIBUTES = 16
PRODUCER_NAME = 32
TIMES = PUBLISH_TIME | EVENT_TIME
COLUMNS_KNOWN = 63
COLUMNS_NULLABLE = COLUMNS_KNOWN & ~PUBLISH_TIME

HEADER = struct.Struct("<QIIqIBBHIIQQIIIHHqqI4x")
RESERVED_AT = 92
CRC = struct.Struct("<I")
CRC_AT = 12
_STAMP = struct.Struct("<QIIq")
_OFFSET_AND_EPOCH = struct.Struct("<QI")
_APPEND_TIME = struct.Struct("<q")
_APPEND_TIME_AT = 16


class BatchHeader(NamedTuple):
    base_offset: int
    ledger_epoch: int
    crc: int
    append_time_us: int
    length: int
    format_version: int
    codec: int
    columns: int
    record_count: int
    body_bytes_raw: int
    topic_id: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    schema_id: int
    schema_version: int
    nulls: int
    first_publish_time_us: int
    deliver_at_us: int
    body_bytes: int


def read_header(view: Buffer, position: int = 0) -> BatchHeader:
    """The fields as they are: nothing is checked except that there are enough bytes."""
    try:
        # Not BatchHeader(*fields): this skips a Python-level call on a path that every batch takes.
        return tuple.__new__(BatchHeader, HEADER.unpack_from(view, position))
    except struct.error:
        raise InvalidBatch(f"{len(view) - position} bytes are too few for a batch, its head alone has 96") from None


def stamp_bytes(base_offset: int, ledger_epoch: int, crc: int, append_time_us: int) -> bytes:
    return _STAMP.pack(base_offset, ledger_epoch, crc, append_time_us)


def stamp(buffer: bytearray | memoryview, base_offset: int, ledger_epoch: int, append_time_us: int) -> None:
    """Write what the broker assigns, in place. The checksum stays the producer's and stays valid."""
    _OFFSET_AND_EPOCH.pack_into(buffer, 0, base_offset, ledger_epoch)
    _APPEND_TIME.pack_into(buffer, _APPEND_TIME_AT, append_time_us)


def restamped(view: Buffer, base_offset: int, ledger_epoch: int, append_time_us: int) -> bytes:
    """A copy of the batch with another stamp, for bytes that may not be written to."""
    (crc,) = CRC.unpack_from(view, CRC_AT)
    return b"".join((stamp_bytes(base_offset, ledger_epoch, crc, append_time_us), memoryview(view)[STAMP_BYTES:]))
