"""Columns into the bytes of a batch: the one place that writes the format."""

import struct
from typing import NamedTuple

from crc32c import crc32c

from pydanube.model import Buffer
from pydanube.model.errors import BatchTooLarge, InvalidBatch
from pydanube.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX

from .bitmaps import pack_flags
from .columns import Columns, Numbers, Values
from .compression import Codec, compress
from .header import (
    ATTRIBUTES,
    CRC,
    CRC_AT,
    FORMAT_VERSION,
    HEADER,
    KEY,
    PAYLOAD,
    PRODUCER_NAME,
    STAMP_BYTES,
)
from .layout import IN_ORDER, SIZES, Layout, ValuesAt, lay_out, padded


class Identity(NamedTuple):
    """What a head says beside the shape of the batch."""

    topic_id: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    schema_id: int
    schema_version: int
    first_publish_time_us: int
    deliver_at_us: int
    base_offset: int = 0
    ledger_epoch: int = 0
    append_time_us: int = 0


class _Parts:
    """Buffers to be joined, with the zeros between them that the layout asks for."""

    __slots__ = ("at", "buffers")

    def __init__(self, at: int) -> None:
        self.at = at
        self.buffers: list[Buffer] = []

    def put(self, position: int, numbers: "Numbers") -> None:
        data = memoryview(numbers).cast("B")
        if position != self.at:
            self.buffers.append(bytes(position - self.at))
        self.buffers.append(data)
        self.at = position + len(data)

    def put_offsets(self, position: int, offsets: list[int]) -> None:
        # Faster than an array by a third; the limits, checked before, keep the last one far below 2^31.
        self.put(position, struct.pack(f"<{len(offsets)}i", *offsets))

    def put_values(self, places: ValuesAt, values: Values) -> None:
        self.put_offsets(places.offsets, values.offsets)
        if places.data != self.at:
            self.buffers.append(bytes(places.data - self.at))
        self.buffers.extend(values.pieces)
        self.at = places.data + places.data_bytes

    def pad_to(self, end: int) -> None:
        if end != self.at:
            self.buffers.append(bytes(end - self.at))
            self.at = end


def assemble(columns: Columns, identity: Identity, codec: Codec) -> bytearray:
    _drop_what_is_empty(columns)
    present, nulls, sizes = _shape(columns)
    layout = lay_out(present, nulls, columns.count, sizes)
    if columns.count > BATCH_RECORDS_MAX:
        raise BatchTooLarge(f"{columns.count} records are too many for a batch, the limit is {BATCH_RECORDS_MAX}")
    length = layout.body + layout.body_bytes_raw
    if length > BATCH_BYTES_MAX:
        raise BatchTooLarge(f"a batch of {length} bytes before compression is over the limit of {BATCH_BYTES_MAX}")

    body = _body_buffers(columns, layout, present)
    body_bytes = layout.body_bytes_raw
    if codec != Codec.NONE:
        raw = b"".join(body)
        _check_joined(len(raw), layout.body_bytes_raw)
        compressed = compress(raw, codec)
        if len(compressed) < len(raw):
            body, body_bytes = [compressed, bytes(-len(compressed) % 8)], len(compressed)
            length = padded(layout.body + body_bytes)
        else:
            body, codec = [raw], Codec.NONE

    head = _pack_head(identity, columns, layout, present, nulls, codec, length, body_bytes)
    batch = bytearray().join([head, SIZES[present].pack(*sizes), *_routing_buffers(columns, layout), *body])
    _check_joined(len(batch), length)
    CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[STAMP_BYTES:]))
    return batch


def _check_joined(joined_bytes: int, expected_bytes: int) -> None:
    if joined_bytes != expected_bytes:
        # The length of a view counts its items, what is joined are its bytes.
        raise InvalidBatch("a payload is a view of items larger than a byte")


def _drop_what_is_empty(columns: Columns) -> None:
    """A column without a single value is absent, a bitmap without a single null too: every batch has one form."""
    for column, flags in list(columns.flags.items()):
        if 0 not in flags:
            del columns.flags[column]
        elif 1 not in flags and column != PAYLOAD:
            del columns.flags[column]
            columns.values.pop(column, None)
            columns.times.pop(column, None)
            if column == ATTRIBUTES:
                columns.attributes = None
            elif column == KEY:
                columns.slots = None


def _shape(columns: Columns) -> tuple[int, int, list[int]]:
    """Which columns are present, which have a bitmap, and the entries of the sizes table."""
    present = sum(columns.values) + sum(columns.times)
    sizes = [columns.values[column].offsets[-1] for column in (PAYLOAD, KEY) if column in columns.values]
    if columns.attributes is not None:
        present += ATTRIBUTES
        offsets, keys, values = columns.attributes
        sizes += (offsets[-1], keys.offsets[-1], values.offsets[-1])
    if PRODUCER_NAME in columns.values:
        sizes.append(columns.values[PRODUCER_NAME].offsets[-1])
    return present, sum(columns.flags), sizes


def _routing_buffers(columns: Columns, layout: Layout) -> list[Buffer]:
    if columns.slots is None or layout.slots is None:
        return []
    parts = _Parts(layout.slots)
    parts.put(layout.slots, columns.slots)
    if KEY in columns.flags:
        parts.put(layout.validity[KEY], pack_flags(columns.flags[KEY]))
    parts.pad_to(layout.body)
    return parts.buffers


def _body_buffers(columns: Columns, layout: Layout, present: int) -> list[Buffer]:
    parts = _Parts(0)
    for column in IN_ORDER[present]:
        if column in columns.flags and column != KEY:
            parts.put(layout.validity[column], pack_flags(columns.flags[column]))
        if column in columns.values:
            parts.put_values(layout.values[column], columns.values[column])
        elif column in columns.times:
            parts.put(layout.times[column], columns.times[column])
        elif columns.attributes is not None and layout.attributes is not None:
            parts.put_offsets(layout.attributes.offsets, columns.attributes.offsets)
            parts.put_values(layout.attributes.keys, columns.attributes.keys)
            parts.put_values(layout.attributes.values, columns.attributes.values)
    parts.pad_to(layout.body_bytes_raw)
    return parts.buffers


def _pack_head(
    identity: Identity,
    columns: Columns,
    layout: Layout,
    present: int,
    nulls: int,
    codec: Codec,
    length: int,
    body_bytes: int,
) -> bytes:
    try:
        return HEADER.pack(
            identity.base_offset,
            identity.ledger_epoch,
            0,
            identity.append_time_us,
            length,
            FORMAT_VERSION,
            codec,
            present,
            columns.count,
            layout.body_bytes_raw,
            identity.topic_id,
            identity.producer_id,
            identity.producer_epoch,
            identity.first_sequence,
            identity.schema_id,
            identity.schema_version,
            nulls,
            identity.first_publish_time_us,
            identity.deliver_at_us,
            body_bytes,
        )
    except struct.error as error:
        raise InvalidBatch(f"a number of the head is out of its range: {error}") from None
