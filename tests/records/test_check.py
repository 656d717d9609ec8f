"""The entry check: what it lets in, what it refuses and why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.records.samples import COMPRESSIBLE, EVERY_COLUMN, PLAIN, TOPIC_ID, WITH_NULLS, any_records, with_crc

from pydanube.model.errors import BatchTooLarge, DanubeError, InvalidBatch, UnsupportedVersion, WrongTopic
from pydanube.model.limits import BATCH_RECORDS_MAX
from pydanube.records import (
    STAMP_BYTES,
    Batch,
    BatchHeader,
    Codec,
    Records,
    check_batch,
    encode_batch,
    read_header,
    restamped,
    stamp,
    stamp_bytes,
)

CRC_BITS = range(12 * 8, 16 * 8)


@pytest.mark.parametrize("records", [PLAIN, EVERY_COLUMN, WITH_NULLS])
def test_every_flipped_bit_is_noticed_but_for_the_stamp(records: Records) -> None:
    data = encode_batch(records, topic_id=TOPIC_ID)
    check_batch(data)
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        if bit < STAMP_BYTES * 8 and bit not in CRC_BITS:
            check_batch(data)
        else:
            with pytest.raises(InvalidBatch):
                check_batch(data)
        data[bit // 8] ^= 1 << bit % 8
    check_batch(data)


def test_every_other_length_is_noticed() -> None:
    data = bytes(encode_batch(EVERY_COLUMN, topic_id=TOPIC_ID))
    for size in range(len(data)):
        with pytest.raises(InvalidBatch):
            check_batch(data[:size])
    with pytest.raises(InvalidBatch, match="declares"):
        check_batch(data + bytes(8))


FIELD_AT = {
    "format_version": (28, 1),
    "codec": (29, 1),
    "columns": (30, 2),
    "record_count": (32, 4),
    "body_bytes_raw": (36, 4),
    "nulls": (70, 2),
    "body_bytes": (88, 4),
    "reserved": (92, 4),
    "payload_bytes": (96, 4),
}


def lie(data: bytes | bytearray, field: str, value: int) -> bytearray:
    at, size = FIELD_AT[field]
    lying = bytearray(data)
    lying[at : at + size] = value.to_bytes(size, "little")
    return with_crc(lying)


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("format_version", 0, InvalidBatch),
        ("format_version", 2, UnsupportedVersion),
        ("codec", 3, InvalidBatch),
        ("codec", Codec.LZ4, InvalidBatch),  # and a body that is no shorter
        ("columns", 0, InvalidBatch),
        ("columns", 2, InvalidBatch),  # without the payload
        ("columns", 3, InvalidBatch),  # with a key that is not there
        ("columns", 65, InvalidBatch),
        ("record_count", 0, InvalidBatch),
        ("record_count", 4, InvalidBatch),
        ("record_count", BATCH_RECORDS_MAX + 1, BatchTooLarge),
        ("record_count", 0xFFFFFFFF, BatchTooLarge),
        ("body_bytes_raw", 0, InvalidBatch),
        ("body_bytes_raw", 0xFFFFFFF8, InvalidBatch),
        ("nulls", 1, InvalidBatch),  # a bitmap that is not there
        ("nulls", 2, InvalidBatch),  # of a column that is not there
        ("nulls", 4, InvalidBatch),  # of a column that cannot have one
        ("body_bytes", 0, InvalidBatch),
        ("body_bytes", 31, InvalidBatch),  # one less, and the length is still right
        ("body_bytes", 0xFFFFFFF8, InvalidBatch),
        ("reserved", 1, InvalidBatch),
        ("payload_bytes", 20, InvalidBatch),
        ("payload_bytes", 0xFFFFFFFF, InvalidBatch),
    ],
)
def test_lies_about_the_shape(field: str, value: int, error: type[DanubeError]) -> None:
    lying = lie(encode_batch(PLAIN, topic_id=TOPIC_ID), field, value)
    with pytest.raises(error) as raised:
        check_batch(lying)
    assert type(raised.value) is error
    if field != "record_count" or value:
        with pytest.raises(error):
            Batch(lying)


def test_publish_times_have_no_nulls() -> None:
    data = encode_batch(Records([b""], publish_times_us=[1]), topic_id=1)
    with pytest.raises(InvalidBatch, match="bitmaps"):
        check_batch(lie(data, "nulls", 4))


def test_a_compressed_body_may_not_declare_more_than_the_limit() -> None:
    data = encode_batch(COMPRESSIBLE, topic_id=TOPIC_ID, codec=Codec.LZ4)
    without_compression = len(encode_batch(COMPRESSIBLE, topic_id=TOPIC_ID))
    assert len(data) < without_compression
    check_batch(data, batch_bytes_max=without_compression)
    with pytest.raises(BatchTooLarge, match="body"):
        check_batch(data, batch_bytes_max=without_compression - 1)


def test_a_compressed_body_may_not_declare_anything() -> None:
    data = encode_batch(COMPRESSIBLE, topic_id=TOPIC_ID, codec=Codec.LZ4)
    with pytest.raises(BatchTooLarge, match="body"):
        check_batch(lie(data, "body_bytes_raw", 0xFFFFFFF8))


def test_limit_of_the_caller() -> None:
    data = encode_batch(PLAIN, topic_id=TOPIC_ID)
    check_batch(data, batch_bytes_max=len(data))
    with pytest.raises(BatchTooLarge):
        check_batch(data, batch_bytes_max=len(data) - 1)


def test_topic() -> None:
    data = encode_batch(PLAIN, topic_id=TOPIC_ID)
    check_batch(data, topic_id=TOPIC_ID)
    with pytest.raises(WrongTopic):
        check_batch(data, topic_id=TOPIC_ID + 1)


def test_damage_is_not_mistaken_for_a_newer_version() -> None:
    data = encode_batch(PLAIN, topic_id=TOPIC_ID)
    data[28] = 9
    with pytest.raises(InvalidBatch, match="checksum"):
        check_batch(data)


@given(any_records(), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1))
def test_stamping_changes_only_the_stamp(records: Records, offset: int, epoch: int, time_us: int) -> None:
    data = encode_batch(records, topic_id=TOPIC_ID)
    before = read_header(data)
    copy = restamped(memoryview(data).toreadonly(), offset, epoch, time_us)
    stamp(data, offset, epoch, time_us)
    expected = before._replace(base_offset=offset, ledger_epoch=epoch, append_time_us=time_us)
    assert read_header(data) == expected
    assert copy == data
    assert data[:STAMP_BYTES] == stamp_bytes(offset, epoch, before.crc, time_us)


def test_header_is_read_in_the_middle_of_a_buffer() -> None:
    data = bytes(encode_batch(PLAIN, topic_id=TOPIC_ID))
    header = read_header(b"before" + data + b"after", 6)
    assert isinstance(header, BatchHeader)
    assert header == read_header(data)
    with pytest.raises(InvalidBatch, match="too few"):
        read_header(data, len(data) - 95)
