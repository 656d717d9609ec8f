"""Reading a batch: a view of its bytes, and columns as Python lists.

A batch may lie although its checksum is right, since the checksum is made by whoever lies. So every offset and
all text is checked before it is used; what does not hold raises InvalidBatch, and nothing else.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar, cast

from pydanube.model import Buffer
from pydanube.model.errors import InvalidBatch

from .bitmaps import bitmap_bytes, check_bitmap, unpack_bitmap
from .check import check_batch, check_layout
from .compression import Codec, decompress
from .encode import Records
from .header import ATTRIBUTES, EVENT_TIME, KEY, PAYLOAD, PRODUCER_NAME, PUBLISH_TIME, BatchHeader
from .layout import Layout, ValuesAt

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Cuttable = TypeVar("Cuttable", bytes, str, list[tuple[str, str]])


class Batch:
    """One batch whose checksum has been checked. Nothing is decoded, or decompressed, before it is asked for."""

    __slots__ = ("_body", "header", "layout", "view")

    def __init__(self, view: Buffer) -> None:
        self.header: BatchHeader
        self.layout: Layout
        self.header, self.layout = check_layout(view)
        self.view = memoryview(view)
        self._body: memoryview | None = None

    def __len__(self) -> int:
        return self.header.record_count

    def key_slots(self) -> memoryview | None:
        """The slots as uint16, without a copy and without opening the body; None when no record has a key."""
        if self.layout.slots is None:
            return None
        return self.view[self.layout.slots : self.layout.slots + 2 * len(self)].cast("H")

    @property
    def key_validity(self) -> memoryview | None:
        """The bitmap of the records that have a key; None when all have one, or none."""
        return self.bitmap(KEY)

    def payloads(self) -> list[bytes | None]:
        places = self.layout.values[PAYLOAD]
        offsets = self.offsets(places.offsets, len(self), places.data_bytes)
        data = bytes(self.body()[places.data : places.data + places.data_bytes])
        return self._with_nulls(PAYLOAD, _cut(data, offsets))

    def keys(self) -> list[str | None] | None:
        return self._names(KEY)

    def publish_times_us(self) -> list[int]:
        if PUBLISH_TIME not in self.layout.times:
            return [self.header.first_publish_time_us] * len(self)
        return self.int64s(PUBLISH_TIME).tolist()

    def event_times_us(self) -> list[int | None] | None:
        if EVENT_TIME not in self.layout.times:
            return None
        return self._with_nulls(EVENT_TIME, self.int64s(EVENT_TIME).tolist())

    def attributes(self) -> list[dict[str, str] | None] | None:
        """Where a map names a key twice, which no encoder of ours writes, the last value counts."""
        places = self.layout.attributes
        if places is None:
            return None
        offsets = self.offsets(places.offsets, len(self), places.entry_count)
        keys = self._texts(places.keys, places.entry_count)
        entries = [*zip(keys, self._texts(places.values, places.entry_count), strict=True)]
        return self._with_nulls(ATTRIBUTES, [dict(piece) for piece in _cut(entries, offsets)])

    def producer_names(self) -> list[str | None] | None:
        return self._names(PRODUCER_NAME)

    def records(self) -> Records:
        """All columns as lists. Publish times are there only when the batch has a column of them."""
        return Records(
            payloads=self.payloads(),
            keys=self.keys(),
            publish_times_us=self.publish_times_us() if PUBLISH_TIME in self.layout.times else None,
            event_times_us=self.event_times_us(),
            attributes=self.attributes(),
            producer_names=self.producer_names(),
        )

    def to_arrow(self) -> "pa.RecordBatch":
        """The batch as Arrow columns, without a copy where a column is present. Needs pyarrow and numpy."""
        from .arrow import to_arrow

        return to_arrow(self)

    # The arrays behind the columns, checked, for the other files of this room.

    def body(self) -> memoryview:
        """The columns as they were before compression; for an uncompressed batch a view of its own bytes."""
        if self._body is None:
            stored = self.view[self.layout.body : self.layout.body + self.header.body_bytes]
            if self.header.codec == Codec.NONE:
                self._body = stored
            else:
                self._body = memoryview(decompress(stored, self.header.codec, self.header.body_bytes_raw))
        return self._body

    def offsets(self, position: int, count: int, end: int) -> list[int]:
        """Where each of `count` values begins, and where the last one ends."""
        offsets: list[int] = self.body()[position : position + 4 * count + 4].cast("i").tolist()
        # Sorting what is sorted takes one pass in C.
        if offsets[0] != 0 or offsets[-1] != end or offsets != sorted(offsets):
            raise InvalidBatch(f"{count + 1} offsets do not divide {end} bytes or entries among {count} values")
        return offsets

    def int64s(self, column: int) -> memoryview:
        position = self.layout.times[column]
        return self.body()[position : position + 8 * len(self)].cast("q")

    def bitmap(self, column: int) -> memoryview | None:
        position = self.layout.validity.get(column)
        if position is None:
            return None
        within = self.view if column == KEY else self.body()
        bitmap = within[position : position + bitmap_bytes(len(self))]
        check_bitmap(bitmap, len(self))
        return bitmap

    def flags(self, column: int) -> bytes | None:
        bitmap = self.bitmap(column)
        return None if bitmap is None else unpack_bitmap(bitmap, len(self))

    def _names(self, column: int) -> list[str | None] | None:
        places = self.layout.values.get(column)
        return None if places is None else self._with_nulls(column, self._texts(places, len(self)))

    def _texts(self, places: ValuesAt, count: int) -> list[str]:
        offsets = self.offsets(places.offsets, count, places.data_bytes)
        data = bytes(self.body()[places.data : places.data + places.data_bytes])
        if data.isascii():
            return _cut(data.decode(), offsets)
        try:
            return [piece.decode() for piece in _cut(data, offsets)]
        except UnicodeDecodeError as error:
            raise InvalidBatch(f"text of the batch is not UTF-8: {error}") from None

    def _with_nulls(self, column: int, values: list[T]) -> list[T | None]:
        flags = self.flags(column)
        if flags is None:
            return cast("list[T | None]", values)
        return [value if valid else None for value, valid in zip(values, flags, strict=True)]


def _cut(whole: Cuttable, offsets: list[int]) -> list[Cuttable]:
    return [whole[first:end] for first, end in pairwise(offsets)]


def open_batch(view: Buffer) -> Batch:
    """Check the bytes, checksum included, and view them as a batch."""
    check_batch(view)
    return Batch(view)
