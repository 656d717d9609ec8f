"""A batch as an Arrow record batch, without a copy where a column is present.

Arrow believes what it is told: an offset that lies makes it read foreign memory. So the same checks as for lists
are made first, as array operations. Imported only by `Batch.to_arrow`, since numpy and pyarrow are optional.
"""

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from pydanube.model.errors import InvalidBatch

from .batch import Batch
from .header import ATTRIBUTES, EVENT_TIME, KEY, PAYLOAD, PRODUCER_NAME, PUBLISH_TIME
from .layout import AttributesAt, ValuesAt

Array: TypeAlias = "pa.Array[Any]"

TIME = pa.timestamp("us", tz="UTC")
MAP = pa.map_(pa.string(), pa.string())

# Signed numbers only, wide enough for the unsigned ones of the head: table formats and Spark know no others.
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("append_time", TIME, nullable=False),
    pa.field("publish_time", TIME, nullable=False),
    pa.field("event_time", TIME),
    pa.field("key", pa.string()),
    pa.field("payload", pa.binary()),
    pa.field("attributes", MAP),
    pa.field("producer", pa.string()),
    pa.field("schema_id", pa.int64(), nullable=False),
    pa.field("schema_version", pa.int32(), nullable=False),
]
SCHEMA = pa.schema(_FIELDS)

_OFFSET_MAX = (1 << 63) - 1


def to_arrow(batch: Batch) -> pa.RecordBatch:
    header, count = batch.header, len(batch)
    if header.base_offset + count > _OFFSET_MAX:
        raise InvalidBatch(f"the base offset {header.base_offset} is beyond the range of int64")
    arrays = _Arrays(batch)
    return pa.RecordBatch.from_arrays(
        [
            _numbers(pa.int64(), np.arange(header.base_offset, header.base_offset + count, dtype=np.int64)),
            _numbers(TIME, np.full(count, header.append_time_us, dtype=np.int64)),
            arrays.publish_times(),
            arrays.event_times(),
            arrays.names(KEY),
            arrays.payloads(),
            arrays.attributes(),
            arrays.names(PRODUCER_NAME),
            _numbers(pa.int64(), np.full(count, header.schema_id, dtype=np.int64)),
            _numbers(pa.int32(), np.full(count, header.schema_version, dtype=np.int32)),
        ],
        schema=SCHEMA,
    )


def _numbers(kind: Any, values: "np.ndarray[Any, Any]") -> "Array":
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.data)])


class _Arrays:
    """The columns of one batch as Arrow arrays over its body."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.layout = batch.layout
        self.count = len(batch)
        self.body = batch.body()
        self.buffer = pa.py_buffer(self.body)
        if self.buffer.address % 8:
            # Arrow's arrays want aligned memory. A batch that was cut out of a larger buffer may not be.
            self.body = memoryview(bytes(self.body))
            self.buffer = pa.py_buffer(self.body)

    def payloads(self) -> "Array":
        return self.values(pa.binary(), self.layout.values[PAYLOAD], self.count, self.validity(PAYLOAD))

    def names(self, column: int) -> "Array":
        places = self.layout.values.get(column)
        if places is None:
            return pa.nulls(self.count, pa.string())
        return self.texts(places, self.count, self.validity(column))

    def publish_times(self) -> "Array":
        if PUBLISH_TIME not in self.layout.times:
            return _numbers(TIME, np.full(self.count, self.batch.header.first_publish_time_us, dtype=np.int64))
        return self.times(PUBLISH_TIME)

    def event_times(self) -> "Array":
        if EVENT_TIME not in self.layout.times:
            return pa.nulls(self.count, TIME)
        return self.times(EVENT_TIME)

    def times(self, column: int) -> "Array":
        data = self.slice(self.layout.times[column], 8 * self.count)
        return pa.Array.from_buffers(TIME, self.count, [self.validity(column), data])

    def attributes(self) -> "Array":
        places = self.layout.attributes
        if places is None:
            return pa.nulls(self.count, MAP)
        self.check_offsets(places.offsets, self.count, places.entry_count)
        return pa.Array.from_buffers(
            MAP,
            self.count,
            [self.validity(ATTRIBUTES), self.slice(places.offsets, 4 * self.count + 4)],
            children=[self.entries(places)],
        )

    def entries(self, places: AttributesAt) -> "Array":
        keys = self.texts(places.keys, places.entry_count, None)
        values = self.texts(places.values, places.entry_count, None)
        entry = pa.struct([MAP.key_field, MAP.item_field])
        return pa.Array.from_buffers(entry, places.entry_count, [None], children=[keys, values])

    def slice(self, position: int, size: int) -> pa.Buffer:
        return self.buffer.slice(position, size)

    def validity(self, column: int) -> pa.Buffer | None:
        bitmap = self.batch.bitmap(column)
        return None if bitmap is None else pa.py_buffer(bitmap)

    def texts(self, places: ValuesAt, count: int, validity: pa.Buffer | None) -> "Array":
        array = self.values(pa.string(), places, count, validity)
        data = self.body[places.data : places.data + places.data_bytes]
        try:
            text = str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidBatch(f"text of the batch is not UTF-8: {error}") from None
        if len(text) != len(data):
            # Not only ASCII: then a value might begin inside a character.
            starts = self.offsets(places.offsets, count)
            first_bytes = np.frombuffer(data, dtype=np.uint8)[starts[starts < len(data)]]
            if ((first_bytes & 0xC0) == 0x80).any():
                raise InvalidBatch("text of the batch is divided inside of a character")
        return array

    def values(self, kind: Any, places: ValuesAt, count: int, validity: pa.Buffer | None) -> "Array":
        self.check_offsets(places.offsets, count, places.data_bytes)
        offsets = self.slice(places.offsets, 4 * count + 4)
        return pa.Array.from_buffers(kind, count, [validity, offsets, self.slice(places.data, places.data_bytes)])

    def check_offsets(self, position: int, count: int, end: int) -> None:
        offsets = self.offsets(position, count)
        if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
            raise InvalidBatch(f"the offsets of {count} values do not divide {end} bytes")

    def offsets(self, position: int, count: int) -> "np.ndarray[Any, np.dtype[np.int32]]":
        return np.frombuffer(self.body, dtype=np.int32, count=count + 1, offset=position)
