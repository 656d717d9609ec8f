"""Several batches in one: for neighbours that are stored or sent together.

Like a slice it copies by runs and decodes no text; it costs one addition per record and column.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import sub

from .assemble import assemble
from .batch import Batch
from .columns import AttributeColumn, Columns, Values, offsets_of
from .compression import Codec
from .header import ATTRIBUTES, EVENT_TIME, KEY, PAYLOAD, PRODUCER_NAME, PUBLISH_TIME
from .select import identity_of, pick_columns


def merge(batches: Sequence[Batch], codec: Codec = Codec.NONE) -> bytearray:
    """Neighbours in one topic as one batch, with the newest of their epochs and append times, and no producer.

    Publish times become a column when they are not all the same. ValueError when the batches do not follow each
    other, or differ in topic, schema or delivery time.
    """
    if not batches:
        raise ValueError("there are no batches to merge")
    _check_neighbours(batches)
    parts = [pick_columns(batch, range(len(batch))) for batch in batches]
    columns = _joined(parts)
    times = array("q", chain.from_iterable(batch.publish_times_us() for batch in batches))
    if len(set(times)) > 1:
        columns.times[PUBLISH_TIME] = times
    identity = identity_of(batches[0], columns)._replace(
        producer_id=0,
        producer_epoch=0,
        first_sequence=0,
        first_publish_time_us=times[0] if times else batches[0].header.first_publish_time_us,
        ledger_epoch=max(batch.header.ledger_epoch for batch in batches),
        append_time_us=max(batch.header.append_time_us for batch in batches),
    )
    return assemble(columns, identity, codec)


def _check_neighbours(batches: Sequence[Batch]) -> None:
    head = batches[0].header
    next_offset = head.base_offset
    for batch in batches:
        header = batch.header
        if header.base_offset != next_offset:
            raise ValueError(f"offset {next_offset} has to follow, but a batch begins at {header.base_offset}")
        if header.topic_id != head.topic_id:
            raise ValueError("batches of different topics cannot be merged")
        if (header.schema_id, header.schema_version) != (head.schema_id, head.schema_version):
            raise ValueError("batches of different schemas cannot be merged")
        if header.deliver_at_us != head.deliver_at_us:
            raise ValueError("batches with different delivery times cannot be merged")
        next_offset += header.record_count


def _joined(parts: list[Columns]) -> Columns:
    """All columns but the publish times. A column that a part lacks is null for its records."""
    columns = Columns(sum(part.count for part in parts), {})
    for column in (PAYLOAD, KEY, PRODUCER_NAME):
        if any(column in part.values for part in parts):
            columns.values[column] = _join_values([(part.values.get(column), part.count) for part in parts])
            columns.flags[column] = _join_flags(column, [(part, column in part.values) for part in parts])
    if any(part.slots is not None for part in parts):
        columns.slots = b"".join([part.slots or bytes(2 * part.count) for part in parts])
    if any(EVENT_TIME in part.times for part in parts):
        columns.times[EVENT_TIME] = b"".join([part.times.get(EVENT_TIME) or bytes(8 * part.count) for part in parts])
        columns.flags[EVENT_TIME] = _join_flags(EVENT_TIME, [(part, EVENT_TIME in part.times) for part in parts])
    if any(part.attributes is not None for part in parts):
        columns.attributes = _join_attributes(parts)
        columns.flags[ATTRIBUTES] = _join_flags(ATTRIBUTES, [(part, part.attributes is not None) for part in parts])
    return columns


def _join_flags(column: int, parts: list[tuple[Columns, bool]]) -> bytes:
    """Each part is its columns, and whether the one asked for is among them."""
    return b"".join([part.flags.get(column) or bytes([present]) * part.count for part, present in parts])


def _join_values(parts: list[tuple[Values | None, int]]) -> Values:
    """Each part is its values, or nothing and for how many records."""
    lengths = chain.from_iterable(
        repeat(0, count) if values is None else _lengths(values.offsets) for values, count in parts
    )
    pieces = chain.from_iterable(values.pieces for values, _ in parts if values is not None)
    return Values(offsets_of(lengths), [*pieces])


def _join_attributes(parts: list[Columns]) -> AttributeColumn:
    present = [part.attributes for part in parts if part.attributes is not None]
    lengths = chain.from_iterable(
        repeat(0, part.count) if part.attributes is None else _lengths(part.attributes.offsets) for part in parts
    )
    return AttributeColumn(
        offsets_of(lengths),
        _join_values([(column.keys, 0) for column in present]),
        _join_values([(column.values, 0) for column in present]),
    )


def _lengths(offsets: list[int]) -> Iterator[int]:
    return map(sub, offsets[1:], offsets)
