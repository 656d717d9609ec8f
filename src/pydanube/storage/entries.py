"""What stands inside the entries that are not batches: one encoder and one decoder each.

Little-endian, fixed fields first, then repeated groups. The entry's row (see `rounds.py`) holds kind, topic and
offsets; the bytes here are the rest. Padding behind an entry is zero and ignored.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pydanube.model import Buffer
from pydanube.model.errors import DataDamaged

_CURSOR = struct.Struct("<QII")  # subscription id, generation, number of ranges
_RANGE = struct.Struct("<QQ")
_PARK = struct.Struct("<QQqq")  # parked id, owner, expires_us, due_us
_COUNT = struct.Struct("<Q")
_RELEASED = struct.Struct("<QQQII")  # parked id, file number, position in the file, length, record count
_TIME = struct.Struct("<q")
_TIME_AND_COUNT = struct.Struct("<qQ")


class CursorMove(NamedTuple):
    """Acknowledged ranges to add, or (in a reset) the whole new cursor."""

    subscription_id: int
    generation: int
    ranges: tuple[tuple[int, int], ...]


class ParkedHead(NamedTuple):
    """Stands in front of a parked batch; 32 bytes, so that the batch stays 8-aligned."""

    parked_id: int
    owner: int  # who may release it; 0: nobody in particular
    expires_us: int
    due_us: int  # 0: when it is released by its owner


class Released(NamedTuple):
    parked_id: int
    file_number: int
    position: int  # of the batch in that file
    length: int
    record_count: int


class WriterMove(msgspec.Struct, frozen=True, array_like=True):
    """The last version that a writer has released, and where it went: the answer to a repeated commit."""

    writer: str
    version: int
    ranges: tuple[tuple[int, int, int], ...]  # topic id, first offset, end offset
    time_us: int


PARK_HEAD_BYTES = _PARK.size


def _unpack(form: struct.Struct, body: Buffer, what: str) -> tuple[int, ...]:
    try:
        return form.unpack_from(body)
    except struct.error as error:
        raise DataDamaged(f"{what} is not legible: {error}") from error


def encode_cursor(move: CursorMove) -> bytes:
    flat = [offset for pair in move.ranges for offset in pair]
    head = _CURSOR.pack(move.subscription_id, move.generation, len(move.ranges))
    return head + struct.pack(f"<{len(flat)}Q", *flat)


def decode_cursor(body: Buffer) -> CursorMove:
    try:
        subscription_id, generation, count = _CURSOR.unpack_from(body)
        view = memoryview(body)[_CURSOR.size : _CURSOR.size + count * _RANGE.size]
        ranges = tuple(_RANGE.iter_unpack(view))
    except struct.error as error:
        raise DataDamaged(f"a cursor entry is not legible: {error}") from error
    if len(ranges) != count:
        raise DataDamaged("a cursor entry is shorter than it says")
    return CursorMove(subscription_id, generation, ranges)


def encode_park_head(head: ParkedHead) -> bytes:
    return _PARK.pack(*head)


def decode_park_head(body: Buffer) -> ParkedHead:
    return ParkedHead(*_unpack(_PARK, body, "a parked batch"))


def encode_released(items: Sequence[Released], time_us: int) -> bytes:
    return _TIME.pack(time_us) + _COUNT.pack(len(items)) + b"".join(_RELEASED.pack(*item) for item in items)


def decode_released(body: Buffer) -> tuple[list[Released], int]:
    """The parked batches in the order of their offsets, and the append time that they share."""
    time_us, count = _unpack(_TIME_AND_COUNT, body, "a release entry")
    start = _TIME_AND_COUNT.size
    view = memoryview(body)[start : start + count * _RELEASED.size]
    if len(view) != count * _RELEASED.size:
        raise DataDamaged("a release entry is shorter than it says")
    return [Released(*fields) for fields in _RELEASED.iter_unpack(view)], time_us


def encode_ids(ids: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(ids) + 1}Q", len(ids), *ids)


def decode_ids(body: Buffer) -> tuple[int, ...]:
    (count,) = _unpack(_COUNT, body, "a list of ids")
    if len(body) < 8 * (count + 1):
        raise DataDamaged("a list of ids is shorter than it says")
    return struct.unpack_from(f"<{count}Q", body, 8)


def encode_time(time_us: int) -> bytes:
    return _TIME.pack(time_us)


def decode_time(body: Buffer) -> int:
    (time_us,) = _unpack(_TIME, body, "a time")
    return int(time_us)


def encode_writer(move: WriterMove) -> bytes:
    data = msgspec.msgpack.encode(move)
    return _COUNT.pack(len(data)) + data


def decode_writer(body: Buffer) -> WriterMove:
    (length,) = _unpack(_COUNT, body, "a writer entry")
    try:
        return msgspec.msgpack.decode(memoryview(body)[8 : 8 + length], type=WriterMove)
    except msgspec.MsgspecError as error:
        raise DataDamaged(f"a writer entry is not legible: {error}") from error
