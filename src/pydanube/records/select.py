"""Parts of a batch as batches: a range of its records, or a selection.

Bytes are copied by runs and text is never decoded: a slice costs one copy per column and one subtraction per
record and column, a selection one small copy per record and column. A compressed batch is decompressed first.
The offsets are checked as in decoding; the text is not, since whoever reads the result checks it.

Slices and selections are not compressed: they are made to be read soon. Each has a checksum of its own.
"""

from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TypeAlias

from pydanube.model import SEQUENCE_MODULUS

from .assemble import Identity, assemble
from .batch import Batch
from .columns import AttributeColumn, Columns, Values, offsets_of
from .compression import Codec
from .header import PUBLISH_TIME
from .layout import AttributesAt, ValuesAt

# A range is always one of neighbours (step 1) and is copied as one run; a list is copied record by record.
Pick: TypeAlias = range | list[int]


def slice_batch(batch: Batch, first: int, end: int) -> bytearray:
    """Records `first` to `end` (exclusive), as they would be had their producer sent them as a batch of their own."""
    if not 0 <= first <= end <= len(batch):
        raise IndexError(f"records {first} to {end} are not all in a batch of {len(batch)}")
    columns = pick_columns(batch, range(first, end))
    header = batch.header
    identity = identity_of(batch, columns)._replace(
        base_offset=header.base_offset + first,
        first_sequence=(header.first_sequence + first) % SEQUENCE_MODULUS,
    )
    return assemble(columns, identity, Codec.NONE)


def gather(batch: Batch, indexes: Sequence[int]) -> bytearray:
    """The records at `indexes`, in that order.

    The base offset stays that of the source, so that record i of the result has the offset base_offset +
    indexes[i]: whoever passes a selection on has to pass the indexes along. It has no producer and no sequence,
    because it is no resend of anything.
    """
    if len(indexes) and not 0 <= min(indexes) <= max(indexes) < len(batch):
        raise IndexError(f"records {min(indexes)} to {max(indexes)} are not all in a batch of {len(batch)}")
    columns = pick_columns(batch, list(indexes))
    identity = identity_of(batch, columns)._replace(producer_id=0, producer_epoch=0, first_sequence=0)
    return assemble(columns, identity, Codec.NONE)


def identity_of(batch: Batch, columns: Columns) -> Identity:
    """The head of `batch` for columns that begin with one of its records."""
    header = batch.header
    times = columns.times.get(PUBLISH_TIME)
    return Identity(
        header.topic_id,
        header.producer_id,
        header.producer_epoch,
        header.first_sequence,
        header.schema_id,
        header.schema_version,
        times[0] if times else header.first_publish_time_us,
        header.deliver_at_us,
        header.base_offset,
        header.ledger_epoch,
        header.append_time_us,
    )


def pick_columns(batch: Batch, indexes: Pick) -> Columns:
    """The columns of some records, as views where possible."""
    layout = batch.layout
    return Columns(
        len(indexes),
        {column: _pick_values(batch, places, len(batch), indexes) for column, places in layout.values.items()},
        {column: _pick_numbers(batch.int64s(column), indexes) for column in layout.times},
        None if layout.attributes is None else _pick_attributes(batch, layout.attributes, indexes),
        None if (slots := batch.key_slots()) is None else _pick_numbers(slots, indexes),
        {
            column: _pick_flags(flags, indexes)
            for column in layout.validity
            if (flags := batch.flags(column)) is not None
        },
    )


def _pick_flags(flags: bytes, indexes: Pick) -> bytes:
    if isinstance(indexes, range):
        return flags[indexes.start : indexes.stop]
    return bytes(map(flags.__getitem__, indexes))


def _pick_numbers(numbers: memoryview, indexes: Pick) -> "memoryview | array[int]":
    if isinstance(indexes, range):
        return numbers[indexes.start : indexes.stop]
    return array(numbers.format, map(numbers.__getitem__, indexes))


def _pick_values(batch: Batch, places: ValuesAt, count: int, indexes: Pick) -> Values:
    """A range of values is one piece, a selection one piece each."""
    offsets = batch.offsets(places.offsets, count, places.data_bytes)
    data = batch.body()[places.data : places.data + places.data_bytes]
    if isinstance(indexes, range):
        first, end = offsets[indexes.start], offsets[indexes.stop]
        return Values(_rebased(offsets[indexes.start : indexes.stop + 1]), [data[first:end]])
    pieces = [data[offsets[index] : offsets[index + 1]] for index in indexes]
    return Values(offsets_of(map(len, pieces)), pieces)


def _pick_attributes(batch: Batch, places: AttributesAt, indexes: Pick) -> AttributeColumn:
    offsets = batch.offsets(places.offsets, len(batch), places.entry_count)
    entries: Pick
    if isinstance(indexes, range):
        entries = range(offsets[indexes.start], offsets[indexes.stop])
        picked = _rebased(offsets[indexes.start : indexes.stop + 1])
    else:
        entries = [*chain.from_iterable(range(offsets[index], offsets[index + 1]) for index in indexes)]
        picked = offsets_of(offsets[index + 1] - offsets[index] for index in indexes)
    return AttributeColumn(
        picked,
        _pick_values(batch, places.keys, places.entry_count, entries),
        _pick_values(batch, places.values, places.entry_count, entries),
    )


def _rebased(offsets: list[int]) -> list[int]:
    base = offsets[0]
    return offsets if base == 0 else [offset - base for offset in offsets]
