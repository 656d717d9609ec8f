"""Batches and strategies that several tests share."""

from typing import Any

from crc32c import crc32c
from hypothesis import strategies as st

from pydanube.records import STAMP_BYTES, Batch, Codec, Records, encode_batch, open_batch, stamp

TOPIC_ID = 0x1122334455667788

EVERY_COLUMN = Records(
    payloads=[b"first", b"", b"third message"],
    keys=["a", "bb", "ключ"],
    publish_times_us=[1_700_000_000_000_000, 1_700_000_000_000_001, 1_700_000_000_000_002],
    event_times_us=[1, -2, 3],
    attributes=[{"colour": "red", "size": "10"}, {}, {"ö": ""}],
    producer_names=["p1", "", "p1"],
)
WITH_NULLS = Records(
    payloads=[None, b"", b"x"],
    keys=["k", None, ""],
    event_times_us=[None, 7, None],
    attributes=[{}, None, {"a": "b"}],
    producer_names=[None, "", "n"],
)
PLAIN = Records(payloads=[b"hello", b"world!"])
COMPRESSIBLE = Records(payloads=[b"abcdefgh" * 16] * 20, keys=["same key"] * 20)

TEXT = st.text(max_size=6)
INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)


@st.composite
def any_records(draw: st.DrawFn, records_max: int = 12) -> Records:
    count = draw(st.integers(0, records_max))

    def column(values: st.SearchStrategy[Any]) -> Any:
        return draw(st.lists(values, min_size=count, max_size=count))

    def optional(values: st.SearchStrategy[Any]) -> Any:
        # Half of the columns without nulls: that is another way through the encoder.
        return draw(st.sampled_from([None, column(values), column(st.none() | values)]))

    return Records(
        payloads=column(st.binary(max_size=20)) if draw(st.booleans()) else column(st.none() | st.binary(max_size=20)),
        keys=optional(TEXT),
        publish_times_us=column(INT64) if draw(st.booleans()) else None,
        event_times_us=optional(INT64),
        attributes=optional(st.dictionaries(TEXT, TEXT, max_size=3)),
        producer_names=optional(TEXT),
    )


CODECS = st.sampled_from(list(Codec))


def stored(records: Records) -> Records:
    """What a batch gives back: a column that is null throughout is absent."""

    def kept(column: Any) -> Any:
        return None if column and all(value is None for value in column) else column

    return Records(
        payloads=records.payloads,
        keys=kept(records.keys),
        publish_times_us=records.publish_times_us,
        event_times_us=kept(records.event_times_us),
        attributes=kept(records.attributes),
        producer_names=kept(records.producer_names),
    )


def some_batch(records: Records, *, base_offset: int = 0, codec: Codec = Codec.NONE, **head: int) -> Batch:
    data = encode_batch(records, topic_id=TOPIC_ID, codec=codec, **head)
    stamp(data, base_offset, 3, 1_700_000_000_000_009)
    return open_batch(data) if records.payloads else Batch(data)


def with_crc(data: bytearray) -> bytearray:
    """The same bytes with a right checksum: what a liar would send."""
    data[12:16] = crc32c(memoryview(data)[STAMP_BYTES:]).to_bytes(4, "little")
    return data


def rows(records: Records, publish_time_us: int = 0) -> list[tuple[Any, ...]]:
    """Record by record, absent columns filled with nulls."""
    count = len(records.payloads)
    nulls = [None] * count
    return [
        *zip(
            records.payloads,
            records.keys or nulls,
            records.publish_times_us or [publish_time_us] * count,
            records.event_times_us or nulls,
            records.attributes or nulls,
            records.producer_names or nulls,
            strict=True,
        )
    ]
