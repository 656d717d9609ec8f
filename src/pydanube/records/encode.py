"""Python values into a batch: once, at the producer, with a handful of calls per column and none per message."""

import struct
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec
from crc32c import crc32c

from pydanube.model import Buffer
from pydanube.model.errors import BatchTooLarge, InvalidBatch
from pydanube.model.limits import KEY_BYTES_MAX

from .assemble import Identity, assemble
from .columns import AttributeColumn, Columns, Values, offsets_of
from .compression import Codec
from .header import ATTRIBUTES, EVENT_TIME, KEY, PAYLOAD, PRODUCER_NAME, PUBLISH_TIME


class Records(msgspec.Struct, frozen=True):
    """The values of a batch by column. A column that is None is absent: every record's value is null.

    Without `publish_times_us` all records share the time in the head of the batch.
    """

    payloads: Sequence[Buffer | None]
    keys: Sequence[str | None] | None = None
    publish_times_us: Sequence[int] | None = None
    event_times_us: Sequence[int | None] | None = None
    attributes: Sequence[Mapping[str, str] | None] | None = None
    producer_names: Sequence[str | None] | None = None


def encode_batch(
    records: Records,
    *,
    topic_id: int,
    producer_id: int = 0,
    producer_epoch: int = 0,
    first_sequence: int = 0,
    schema_id: int = 0,
    schema_version: int = 0,
    first_publish_time_us: int = 0,
    deliver_at_us: int = 0,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """A batch with an empty stamp, writable so that a broker in the same process can stamp it in place.

    When the records have publish times of their own, the first of them is the head's first publish time.
    A body that compression would not make smaller is stored as it is.
    """
    count = len(records.payloads)
    columns = Columns(count, {})
    _encode_payloads(columns, records.payloads)
    if records.keys is not None:
        _require(count, "keys", records.keys)
        _encode_keys(columns, records.keys)
    if records.publish_times_us is not None:
        _require(count, "publish times", records.publish_times_us)
        columns.times[PUBLISH_TIME] = _int64s(records.publish_times_us)
        if count:
            first_publish_time_us = records.publish_times_us[0]
    if records.event_times_us is not None:
        _require(count, "event times", records.event_times_us)
        _encode_event_times(columns, records.event_times_us)
    if records.attributes is not None:
        _require(count, "attributes", records.attributes)
        _encode_attributes(columns, records.attributes)
    if records.producer_names is not None:
        _require(count, "producer names", records.producer_names)
        _encode_names(columns, PRODUCER_NAME, records.producer_names)
    identity = Identity(
        topic_id,
        producer_id,
        producer_epoch,
        first_sequence,
        schema_id,
        schema_version,
        first_publish_time_us,
        deliver_at_us,
    )
    return assemble(columns, identity, codec)


def _require(count: int, name: str, column: Sequence[object]) -> None:
    if len(column) != count:
        raise InvalidBatch(f"{count} payloads and {len(column)} {name} do not make a batch")


# Looking for None beforehand would cost as much as encoding; instead the fast way is tried, and fails on a None
# with a TypeError. A value of a wrong type fails on the slow way again, and that error reaches the caller.


def _encode_payloads(columns: Columns, payloads: Sequence[Buffer | None]) -> None:
    try:
        columns.values[PAYLOAD] = Values(offsets_of(map(len, payloads)), payloads)  # type: ignore[arg-type]
    except TypeError:
        filled = [b"" if payload is None else payload for payload in payloads]
        columns.values[PAYLOAD] = Values(offsets_of(map(len, filled)), filled)
        columns.flags[PAYLOAD] = _flags(payloads)


def _flags(values: Iterable[object]) -> bytes:
    return bytes([value is not None for value in values])


def _encode_texts(texts: Iterable[str]) -> Values:
    try:
        encoded = list(map(str.encode, texts))
    except UnicodeEncodeError as error:
        raise InvalidBatch(f"text with a lone surrogate cannot be written as UTF-8: {error}") from None
    return Values(offsets_of(map(len, encoded)), encoded)


def _encode_names(columns: Columns, column: int, names: Sequence[str | None]) -> None:
    try:
        columns.values[column] = _encode_texts(names)  # type: ignore[arg-type]
    except TypeError:
        columns.values[column] = _encode_texts(["" if name is None else name for name in names])
        columns.flags[column] = _flags(names)


def _encode_keys(columns: Columns, keys: Sequence[str | None]) -> None:
    _encode_names(columns, KEY, keys)
    offsets, encoded = columns.values[KEY]
    if offsets[-1] > KEY_BYTES_MAX and max(map(len, encoded)) > KEY_BYTES_MAX:
        raise BatchTooLarge(f"a key of {max(map(len, encoded))} bytes is over the limit of {KEY_BYTES_MAX}")
    # A slot is the lower half of a checksum: every second uint16 of the array, so that no Python code runs per key.
    # A record without a key has the checksum of nothing, which is 0.
    columns.slots = memoryview(struct.pack(f"<{len(encoded)}I", *map(crc32c, encoded))).cast("H")[::2].tobytes()


def _int64s(times: Iterable[int]) -> "array[int]":
    try:
        return array("q", times)
    except OverflowError:
        raise InvalidBatch("a time is outside of the range of int64 microseconds") from None


def _encode_event_times(columns: Columns, times: Sequence[int | None]) -> None:
    try:
        columns.times[EVENT_TIME] = _int64s(times)  # type: ignore[arg-type]
    except TypeError:
        columns.times[EVENT_TIME] = _int64s([0 if time is None else time for time in times])
        columns.flags[EVENT_TIME] = _flags(times)


def _encode_attributes(columns: Columns, attributes: Sequence[Mapping[str, str] | None]) -> None:
    maps = [entries or {} for entries in attributes]
    if None in attributes:
        columns.flags[ATTRIBUTES] = _flags(attributes)
    try:
        keys = _encode_texts(chain.from_iterable(maps))
        values = _encode_texts(chain.from_iterable(entries.values() for entries in maps))
    except TypeError:
        raise InvalidBatch("the keys and values of attributes must be text") from None
    columns.attributes = AttributeColumn(offsets_of(map(len, maps)), keys, values)
