"""The control bodies that go along with every batch, packed by hand: a few hundred nanoseconds each."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from pydanube.model import Buffer
from pydanube.model.errors import ProtocolError

_PUBLISH = struct.Struct("<I")
_PUBLISHED = struct.Struct("<IIQq")  # request, 0, first offset, append time: one for each batch of a round
_FLOW = struct.Struct("<II")
_DELIVER = struct.Struct("<IIIIQ")  # handle, session, generation, number of ranges left out, first offset
_RANGE = struct.Struct("<QQ")


class Published(NamedTuple):
    request: int
    first_offset: int
    append_time_us: int


class Deliver(NamedTuple):
    """Batches behind it, one after the other; the first one begins at offset `first`."""

    handle: int
    session: int
    generation: int
    first: int
    without: tuple[tuple[int, int], ...] = ()  # offset ranges in them that are not for this consumer, in order


def encode_publish(handle: int) -> bytes:
    return _PUBLISH.pack(handle)


def decode_publish(body: Buffer) -> int:
    (handle,) = _unpack(_PUBLISH, body)
    return handle


def encode_published(items: Sequence[Published]) -> bytes:
    return b"".join(_PUBLISHED.pack(request, 0, offset, time_us) for request, offset, time_us in items)


def decode_published(body: Buffer) -> list[Published]:
    if len(body) % _PUBLISHED.size:
        raise ProtocolError(f"an answer of {len(body)} bytes to published batches")
    return [Published(request, offset, time_us) for request, _, offset, time_us in _PUBLISHED.iter_unpack(body)]


def encode_flow(handle: int, count: int) -> bytes:
    return _FLOW.pack(handle, count)


def decode_flow(body: Buffer) -> tuple[int, int]:
    handle, count = _unpack(_FLOW, body)
    return handle, count


def encode_deliver(deliver: Deliver) -> bytes:
    handle, session, generation, first, without = deliver
    head = _DELIVER.pack(handle, session, generation, len(without), first)
    return head if not without else head + b"".join(_RANGE.pack(*left_out) for left_out in without)


def decode_deliver(body: Buffer) -> Deliver:
    view = memoryview(body)
    handle, session, generation, count, first = _unpack(_DELIVER, view[: _DELIVER.size])
    rest = view[_DELIVER.size :]
    if len(rest) != count * _RANGE.size:
        raise ProtocolError(f"a delivery with {count} ranges in {len(rest)} bytes")
    return Deliver(handle, session, generation, first, tuple(_RANGE.iter_unpack(rest)))


def _unpack(layout: struct.Struct, body: Buffer) -> tuple[int, ...]:
    if len(body) != layout.size:
        raise ProtocolError(f"a control body of {len(body)} bytes where {layout.size} are due")
    return layout.unpack(body)
