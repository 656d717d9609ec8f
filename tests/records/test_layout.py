"""The format against bytes that are packed here by hand, so that code and golden files cannot drift together."""

import struct

import pytest
from crc32c import crc32c

from pydanube.records import Batch, Codec, Records, encode_batch, open_batch

HEAD = "<QIIqIBBHIIQQIIIHHqqII"


def by_hand(head: dict[str, int], rest: bytes) -> bytes:
    defaults = {
        "base_offset": 0,
        "ledger_epoch": 0,
        "crc": 0,
        "append_time_us": 0,
        "length": 96 + len(rest),
        "format_version": 1,
        "codec": 0,
        "columns": 1,
        "record_count": 1,
        "body_bytes_raw": 0,
        "topic_id": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "first_sequence": 0,
        "schema_id": 0,
        "schema_version": 0,
        "nulls": 0,
        "first_publish_time_us": 0,
        "deliver_at_us": 0,
        "body_bytes": 0,
        "reserved": 0,
    }
    assert head.keys() <= defaults.keys()
    data = bytearray(struct.pack(HEAD, *(defaults | head).values()) + rest)
    data[12:16] = struct.pack("<I", crc32c(bytes(data[24:])))
    return bytes(data)


def test_plain_batch_by_hand() -> None:
    rest = b"".join(
        [
            struct.pack("<II", 8, 0),  # sizes: payload bytes, padding
            struct.pack("<iiii", 0, 5, 5, 8),  # payload offsets of three records
            b"helloabc",
        ]
    )
    expected = by_hand(
        {
            "record_count": 3,
            "body_bytes_raw": 24,
            "body_bytes": 24,
            "topic_id": 0xA1A2A3A4A5A6A7A8,
            "producer_id": 0xB1B2B3B4B5B6B7B8,
            "producer_epoch": 0xC1C2C3C4,
            "first_sequence": 0xD1D2D3D4,
            "schema_id": 0xE1E2E3E4,
            "schema_version": 0xF1F2,
            "first_publish_time_us": -2,
            "deliver_at_us": 5,
        },
        rest,
    )
    encoded = encode_batch(
        Records([b"hello", b"", b"abc"]),
        topic_id=0xA1A2A3A4A5A6A7A8,
        producer_id=0xB1B2B3B4B5B6B7B8,
        producer_epoch=0xC1C2C3C4,
        first_sequence=0xD1D2D3D4,
        schema_id=0xE1E2E3E4,
        schema_version=0xF1F2,
        first_publish_time_us=-2,
        deliver_at_us=5,
    )
    assert bytes(encoded) == expected


def test_every_column_by_hand() -> None:
    records = Records(
        payloads=[b"pay", None],
        keys=[None, "k"],
        publish_times_us=[11, 12],
        event_times_us=[None, -1],
        attributes=[{"x": "yz", "u": "v"}, None],
        producer_names=[None, "me"],
    )
    slot = crc32c(b"k") & 0xFFFF
    zeros = bytes(8)
    routing = struct.pack("<HHI", 0, slot, 0) + b"\x02" + zeros[:7]
    body = b"".join(
        [
            b"\x01" + zeros[:7],  # payload: validity, offsets, bytes
            struct.pack("<iii", 0, 3, 3) + zeros[:4],
            b"pay" + zeros[:5],
            struct.pack("<iii", 0, 0, 1) + zeros[:4],  # key: offsets, bytes
            b"k" + zeros[:7],
            struct.pack("<qq", 11, 12),  # publish times
            b"\x02" + zeros[:7],  # event times: validity, values
            struct.pack("<qq", 0, -1),
            b"\x01" + zeros[:7],  # attributes: validity, offsets in entries
            struct.pack("<iii", 0, 2, 2) + zeros[:4],
            struct.pack("<iii", 0, 1, 2) + zeros[:4],  # their keys
            b"xu" + zeros[:6],
            struct.pack("<iii", 0, 2, 3) + zeros[:4],  # their values
            b"yzv" + zeros[:5],
            b"\x02" + zeros[:7],  # producer names: validity, offsets, bytes
            struct.pack("<iii", 0, 0, 2) + zeros[:4],
            b"me" + zeros[:6],
        ]
    )
    sizes = struct.pack("<IIIIII", 3, 1, 2, 2, 3, 2)
    expected = by_hand(
        {
            "columns": 0b111111,
            "nulls": 0b111011,
            "record_count": 2,
            "body_bytes_raw": len(body),
            "body_bytes": len(body),
            "topic_id": 9,
            "first_publish_time_us": 11,
        },
        sizes + routing + body,
    )
    assert bytes(encode_batch(records, topic_id=9)) == expected
    assert open_batch(expected).records() == records


def test_compressed_body_by_hand() -> None:
    lz4_block = pytest.importorskip("lz4.block")
    body = struct.pack("<ii", 0, 96) + bytes(96)
    compressed = lz4_block.compress(body, store_size=False)
    padding = bytes(-len(compressed) % 8)
    data = by_hand(
        {"codec": 1, "body_bytes_raw": len(body), "body_bytes": len(compressed)},
        struct.pack("<II", 96, 0) + compressed + padding,
    )
    assert open_batch(data).payloads() == [bytes(96)]


@pytest.mark.parametrize("size", range(20))
def test_one_plain_message_costs_at_most_120_bytes_more(size: int) -> None:
    data = encode_batch(Records([b"x" * size]), topic_id=1)
    assert len(data) - size <= 119
    assert len(data) % 8 == 0


def test_column_without_values_is_absent() -> None:
    nothing = [None, None]
    records = Records(nothing, nothing, None, nothing, nothing, nothing)
    batch = Batch(encode_batch(records, topic_id=1))
    assert batch.header.columns == 1
    assert batch.header.nulls == 1
    assert batch.payloads() == nothing


def test_compression_that_does_not_help_is_not_used() -> None:
    for codec in Codec:
        batch = Batch(encode_batch(Records([b"x"]), topic_id=1, codec=codec))
        assert batch.header.codec == Codec.NONE
