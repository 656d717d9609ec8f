"""Where every array of a batch lies: one pure function, shared by the encoder, the entry check and the decoder.

Each array starts at a multiple of 8. Positions of the routing section count from the start of the batch, those
of the columns from the start of the body, since a compressed body is laid out only after it was decompressed.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from .header import (
    ATTRIBUTES,
    COLUMNS_KNOWN,
    EVENT_TIME,
    HEADER_BYTES,
    KEY,
    PAYLOAD,
    PRODUCER_NAME,
    PUBLISH_TIME,
    TIMES,
)


class ValuesAt(NamedTuple):
    """Variable-length values: int32 offsets, one more than there are values, and the bytes that they divide."""

    offsets: int
    data: int
    data_bytes: int


class AttributesAt(NamedTuple):
    """An Arrow map: each record's entries lie between two offsets; entries are a key and a value."""

    offsets: int
    entry_count: int
    keys: ValuesAt
    values: ValuesAt


class Layout(NamedTuple):
    """Positions by column (one of the bits in header.py); a column that the batch does not have is not in them."""

    slots: int | None
    body: int
    body_bytes_raw: int
    validity: dict[int, int]  # of the bitmaps; that of the key lies in the routing section
    values: dict[int, ValuesAt]
    times: dict[int, int]
    attributes: AttributesAt | None


def padded(size: int) -> int:
    return (size + 7) & ~7


# Both by column set, so that a batch needs one lookup. Columns lie in the body in the order of their bits. Entries
# of the sizes table are u32, one per run of variable length and one for the count of attributes.
IN_ORDER = [[1 << bit for bit in range(6) if columns >> bit & 1] for columns in range(COLUMNS_KNOWN + 1)]
_ENTRIES = {PAYLOAD: 1, KEY: 1, PUBLISH_TIME: 0, EVENT_TIME: 0, ATTRIBUTES: 3, PRODUCER_NAME: 1}
_ENTRY_COUNTS = [sum(_ENTRIES[column] for column in columns) for columns in IN_ORDER]
SIZES = [Struct("<" + "I" * count + "4x" * (count % 2)) for count in _ENTRY_COUNTS]


def lay_out(columns: int, nulls: int, count: int, sizes: Sequence[int]) -> Layout:
    """Place the arrays of a batch; the columns must be known ones and `sizes` have SIZES[columns]' entries.

    The numbers may come from a lying batch. They are added up, never trusted: the caller compares the sums with
    the bytes that are there before anything is allocated or read.
    """
    bitmap_bytes = (count + 63) // 64 * 8
    offsets_bytes = padded(4 * count + 4)
    validity: dict[int, int] = {}
    values: dict[int, ValuesAt] = {}
    times: dict[int, int] = {}
    attributes = slots = None
    body = HEADER_BYTES + SIZES[columns].size
    if columns & KEY:
        slots = body
        body += padded(2 * count)
        if nulls & KEY:
            validity[KEY] = body
            body += bitmap_bytes

    at = 0
    sizes_left = iter(sizes)
    for column in IN_ORDER[columns]:
        if nulls & column and column != KEY:
            validity[column] = at
            at += bitmap_bytes
        if column & TIMES:
            times[column] = at
            at += 8 * count
        elif column == ATTRIBUTES:
            attributes = _lay_out_attributes(at, offsets_bytes, next(sizes_left), next(sizes_left), next(sizes_left))
            at = attributes.values.data + padded(attributes.values.data_bytes)
        else:
            data_bytes = next(sizes_left)
            values[column] = ValuesAt(at, at + offsets_bytes, data_bytes)
            at += offsets_bytes + padded(data_bytes)
    return Layout(slots, body, at, validity, values, times, attributes)


def _lay_out_attributes(at: int, offsets_bytes: int, entries: int, key_bytes: int, value_bytes: int) -> AttributesAt:
    entry_offsets_bytes = padded(4 * entries + 4)
    keys = at + offsets_bytes
    values = keys + entry_offsets_bytes + padded(key_bytes)
    return AttributesAt(
        at,
        entries,
        ValuesAt(keys, keys + entry_offsets_bytes, key_bytes),
        ValuesAt(values, values + entry_offsets_bytes, value_bytes),
    )
