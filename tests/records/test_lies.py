"""Batches that lie although their checksum is right: they raise a DanubeError, or pass, and never cost memory."""

import random
import struct
import tracemalloc
from collections.abc import Callable

import lz4.block
import pytest
import zstandard
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.records.samples import COMPRESSIBLE, EVERY_COLUMN, PLAIN, TOPIC_ID, WITH_NULLS, with_crc

from pydanube.model.errors import DanubeError, InvalidBatch
from pydanube.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX
from pydanube.records import Batch, Codec, Records, encode_batch, gather, merge, open_batch, slice_batch

WAYS_OUT: list[Callable[[Batch], object]] = [
    lambda batch: batch.records(),
    lambda batch: batch.to_arrow().validate(full=True),
    lambda batch: slice_batch(batch, 0, len(batch) // 2 + len(batch) % 2),
    lambda batch: gather(batch, range(0, len(batch), 2)),
    lambda batch: merge([batch]),
]

VALID = [
    bytes(encode_batch(records, topic_id=TOPIC_ID, codec=codec))
    for records in (PLAIN, EVERY_COLUMN, WITH_NULLS, COMPRESSIBLE)
    for codec in Codec
]


def refused_or_harmless(data: bytes | bytearray) -> None:
    try:
        batch = open_batch(data)
    except DanubeError:
        return
    refused = []
    for way_out in WAYS_OUT:
        try:
            way_out(batch)
            refused.append(False)
        except InvalidBatch:
            refused.append(True)
    assert refused[0] == refused[1], "lists and Arrow must agree"


@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    refused_or_harmless(data)


@given(st.sampled_from(VALID), st.binary(min_size=1, max_size=200))
def test_random_bytes_behind_an_honest_head(valid: bytes, tail: bytes) -> None:
    data = bytearray(valid[:96] + tail + bytes(-len(tail) % 8))
    data[24:28] = len(data).to_bytes(4, "little")
    refused_or_harmless(with_crc(data))


@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_with_a_right_checksum(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(400):
        data = bytearray(chance.choice(VALID))
        for _ in range(chance.choice([1, 1, 1, 2, 4])):
            at = chance.randrange(24, len(data))
            kind = chance.randrange(4)
            if kind == 0:
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1:
                data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            elif kind == 2:
                at &= ~3
                data[at : at + 4] = struct.pack("<i", chance.choice([-1, 1, 1 << 30, -(1 << 31), len(data)]))
            else:
                data[28 + chance.randrange(68)] = chance.randrange(256)
        refused_or_harmless(with_crc(data))


@pytest.mark.parametrize("seed", range(2))
def test_cut_and_declared_so(seed: int) -> None:
    chance = random.Random(seed)
    for valid in VALID:
        for _ in range(20):
            data = bytearray(valid[: chance.randrange(96, len(valid)) & ~7])
            data[24:28] = len(data).to_bytes(4, "little")
            refused_or_harmless(with_crc(data))


def payload_batch(offsets: tuple[int, ...], data: bytes, column: int = 1) -> bytearray:
    """A batch of payloads, or of keys too, with any offsets."""
    count = len(offsets) - 1
    packed = struct.pack(f"<{count + 1}i", *offsets)
    values = packed + bytes(-len(packed) % 8) + data + bytes(-len(data) % 8)
    sizes, routing, body = struct.pack("<II", len(data), 0), b"", values
    if column == 2:
        empty = bytes((4 * count + 11) & ~7)
        sizes, routing, body = struct.pack("<II", 0, len(data)), bytes((2 * count + 7) & ~7), empty + values
    head = struct.pack(
        "<QIIqIBBHIIQQIIIHHqqII",
        *(0, 0, 0, 0, 96 + len(sizes + routing + body), 1, 0, 1 | column, count, len(body)),
        *(TOPIC_ID, 0, 0, 0, 0, 0, 0, 0, 0, len(body), 0),
    )
    return with_crc(bytearray(head + sizes + routing + body))


@pytest.mark.parametrize(
    "offsets",
    [(1, 2, 4), (0, 5, 4), (0, 2, 3), (0, 2, 5), (0, -1, 4), (-4, 0, 4), (0, 1 << 30, 4), (0, 2, -1)],
)
@pytest.mark.parametrize("column", [1, 2])
def test_offsets_that_lie(offsets: tuple[int, ...], column: int) -> None:
    batch = open_batch(payload_batch(offsets, b"abcd", column))
    for way_out in WAYS_OUT:
        with pytest.raises(InvalidBatch, match="offsets"):
            way_out(batch)


@pytest.mark.parametrize(
    ("offsets", "data"),
    [
        ((0, 1, 2), "é".encode()),  # divided inside of a character
        ((0, 1, 3), b"a\xc3\x28"),
        ((0, 0, 1), b"\xff"),
        ((0, 0, 3), b"\xed\xa0\x80"),  # a surrogate
    ],
)
def test_text_that_lies(offsets: tuple[int, ...], data: bytes) -> None:
    batch = open_batch(payload_batch(offsets, data, column=2))
    for way_out in WAYS_OUT[:2]:
        with pytest.raises(InvalidBatch, match="text"):
            way_out(batch)


def test_text_that_does_not_lie() -> None:
    data = "aéz€".encode()
    batch = open_batch(payload_batch((0, 3, 4, 7, 7), data, column=2))
    assert batch.keys() == ["aé", "z", "€", ""]
    assert batch.to_arrow().column("key").to_pylist() == batch.keys()


def test_bits_behind_the_last_record() -> None:
    data = encode_batch(Records([None, b"x"]), topic_id=TOPIC_ID)
    at = data.index(b"\x02" + bytes(7), 104)
    data[at] |= 0x80
    batch = open_batch(with_crc(data))
    for way_out in WAYS_OUT:
        with pytest.raises(InvalidBatch, match="bits"):
            way_out(batch)


def compressed_batch(codec: Codec, stored: bytes, payload_bytes: int) -> bytearray:
    """One record whose body is declared right, and stored as whatever is given."""
    raw_bytes = 8 + (payload_bytes + 7) // 8 * 8
    body = stored + bytes(-len(stored) % 8)
    head = struct.pack(
        "<QIIqIBBHIIQQIIIHHqqII",
        *(0, 0, 0, 0, 104 + len(body), 1, codec, 1, 1, raw_bytes),
        *(TOPIC_ID, 0, 0, 0, 0, 0, 0, 0, 0, len(stored), 0),
    )
    return with_crc(bytearray(head + struct.pack("<II", payload_bytes, 0) + body))


BOMB_BYTES = 32 << 20
ZSTD_UNKNOWN_SIZE = zstandard.ZstdCompressor(level=1, write_content_size=False)
COMPRESSED_LIES: dict[str, tuple[Codec, bytes]] = {
    "lz4 that is longer": (Codec.LZ4, lz4.block.compress(bytes(2000), store_size=False)),
    "lz4 that is shorter": (Codec.LZ4, lz4.block.compress(bytes(500), store_size=False)),
    "lz4 that is none": (Codec.LZ4, b"\xff" * 40),
    "lz4 of nothing": (Codec.LZ4, b""),
    "zstd that is longer": (Codec.ZSTD, zstandard.compress(bytes(2000))),
    "zstd that is shorter": (Codec.ZSTD, zstandard.compress(bytes(500))),
    "zstd that is cut": (Codec.ZSTD, zstandard.compress(struct.pack("<ii", 0, 1000) + bytes(1000))[:-3]),
    "zstd without a size": (Codec.ZSTD, ZSTD_UNKNOWN_SIZE.compress(struct.pack("<ii", 0, 1000) + bytes(1000))),
    "zstd and more": (Codec.ZSTD, zstandard.compress(struct.pack("<ii", 0, 1000) + bytes(1000)) + b"more"),
    "zstd twice": (Codec.ZSTD, zstandard.compress(struct.pack("<ii", 0, 1000) + bytes(1000)) * 2),
    "zstd that is skipped": (Codec.ZSTD, struct.pack("<II", 0x184D2A50, 1008) + bytes(20)),
    "zstd that is none": (Codec.ZSTD, b"\xff" * 40),
    "zstd of nothing": (Codec.ZSTD, b""),
}


def peak_bytes(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", COMPRESSED_LIES)
def test_compressed_lies(name: str) -> None:
    codec, stored = COMPRESSED_LIES[name]
    batch = open_batch(compressed_batch(codec, stored, payload_bytes=1000))
    for way_out in WAYS_OUT:
        with pytest.raises(InvalidBatch, match="body"):
            way_out(batch)


def zstd_claiming(content_bytes: int) -> bytes:
    """A frame head (single segment, 8-byte content size) that claims anything, and one empty last block."""
    return struct.pack("<IBQ", 0xFD2FB528, 0b1110_0000, content_bytes) + b"\x01\x00\x00"


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        (Codec.ZSTD, zstd_claiming(1 << 40)),
        (Codec.ZSTD, zstandard.compress(bytes(BOMB_BYTES))),
        (Codec.LZ4, lz4.block.compress(bytes(16 << 20), store_size=False)),
    ],
)
def test_bombs_do_not_go_off(codec: Codec, stored: bytes) -> None:
    data = compressed_batch(codec, stored, payload_bytes=200_000)
    batch = open_batch(data)

    def read() -> None:
        for way_out in WAYS_OUT:
            with pytest.raises(InvalidBatch):
                way_out(batch)

    assert peak_bytes(read) < 1 << 20


def huge(position: int, size: int, value: int) -> bytearray:
    data = bytearray(VALID[3])  # every column, not compressed
    data[position : position + size] = value.to_bytes(size, "little")
    return with_crc(data)


@pytest.mark.parametrize(
    "data",
    [huge(32, 4, count) for count in (BATCH_RECORDS_MAX, BATCH_RECORDS_MAX + 1, 0xFFFFFFFF)]
    + [huge(36, 4, raw_bytes) for raw_bytes in (BATCH_BYTES_MAX, 0xFFFFFFF8)]
    + [huge(96 + 4 * entry, 4, 0xFFFFFFFF) for entry in range(6)],
)
def test_huge_declarations_cost_nothing(data: bytearray) -> None:
    def read() -> None:
        with pytest.raises(InvalidBatch):
            open_batch(data)
        with pytest.raises(InvalidBatch):
            Batch(data)

    assert peak_bytes(read) < 1 << 20


def test_the_crafted_batches_are_otherwise_honest() -> None:
    assert open_batch(payload_batch((0, 1, 4), b"abcd")).payloads() == [b"a", b"bcd"]
    body = struct.pack("<ii", 0, 1000) + bytes(1000)
    for codec, stored in (
        (Codec.LZ4, lz4.block.compress(body, store_size=False)),
        (Codec.ZSTD, zstandard.compress(body)),
    ):
        assert open_batch(compressed_batch(codec, stored, payload_bytes=1000)).payloads() == [bytes(1000)]
    assert crc32c(VALID[3][24:]) == struct.unpack_from("<I", VALID[3], 12)[0]
