"""Arrow sees the same values as the lists, in the same memory."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests.records.samples import CODECS, EVERY_COLUMN, TOPIC_ID, WITH_NULLS, any_records, rows, some_batch

from pydanube.model.errors import InvalidBatch
from pydanube.records import Batch, Codec, Records, encode_batch, stamp


def arrow_rows(table: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Times as numbers, since not every int64 is a date that Python knows."""

    def times(name: str) -> list[Any]:
        return table.column(name).cast(pa.int64()).to_pylist()

    attributes = [None if entries is None else dict(entries) for entries in table.column("attributes").to_pylist()]
    return [
        *zip(
            table.column("payload").to_pylist(),
            table.column("key").to_pylist(),
            times("publish_time"),
            times("event_time"),
            attributes,
            table.column("producer").to_pylist(),
            strict=True,
        )
    ]


@given(any_records(), CODECS)
def test_same_values_as_lists(records: Records, codec: Codec) -> None:
    batch = some_batch(records, codec=codec, base_offset=70, schema_id=2**32 - 1, schema_version=2**16 - 1)
    table = batch.to_arrow()
    table.validate(full=True)
    count = len(records.payloads)
    assert arrow_rows(table) == rows(records)
    assert table.column("offset").to_pylist() == list(range(70, 70 + count))
    assert table.column("append_time").cast(pa.int64()).to_pylist() == [1_700_000_000_000_009] * count
    assert table.column("schema_id").to_pylist() == [2**32 - 1] * count
    assert table.column("schema_version").to_pylist() == [2**16 - 1] * count


def test_columns_are_in_the_schema_whether_present_or_not() -> None:
    full, plain = some_batch(EVERY_COLUMN).to_arrow(), some_batch(Records([b""])).to_arrow()
    assert full.schema == plain.schema
    assert full.schema.names == [
        "offset",
        "append_time",
        "publish_time",
        "event_time",
        "key",
        "payload",
        "attributes",
        "producer",
        "schema_id",
        "schema_version",
    ]


@pytest.mark.parametrize("records", [EVERY_COLUMN, WITH_NULLS])
def test_nothing_is_copied(records: Records) -> None:
    data = encode_batch(records, topic_id=TOPIC_ID)
    start = pa.py_buffer(data).address
    table = Batch(data).to_arrow()
    present = ["payload", "key", "event_time", "attributes", "producer"]
    if records.publish_times_us is not None:
        present.append("publish_time")
    for name in present:
        for buffer in table.column(name).buffers():
            assert buffer is None or start <= buffer.address <= buffer.address + buffer.size <= start + len(data)


def test_a_batch_in_the_middle_of_a_buffer_gets_aligned_memory() -> None:
    data = bytes(encode_batch(EVERY_COLUMN, topic_id=TOPIC_ID))
    table = Batch(memoryview(b"odd" + data)[3:]).to_arrow()
    table.validate(full=True)
    assert arrow_rows(table) == rows(EVERY_COLUMN)
    assert all(buffer.address % 4 == 0 for buffer in table.column("payload").buffers() if buffer is not None)


def test_offsets_beyond_int64_are_refused() -> None:
    data = encode_batch(Records([b""]), topic_id=TOPIC_ID)
    stamp(data, 2**63, 0, 0)
    with pytest.raises(InvalidBatch, match="offset"):
        Batch(data).to_arrow()
