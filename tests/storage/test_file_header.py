"""The header of a journal file: twice, and one whole copy is enough."""

import struct

import pytest
from crc32c import crc32c

from pydanube.model.errors import UnsupportedVersion
from pydanube.storage.file_header import (
    FILE_HEADER_BYTES,
    FileHeader,
    decode_file_header,
    encode_file_header,
    file_name,
    index_name,
    number_of,
)

HALF = FILE_HEADER_BYTES // 2
HEADER = FileHeader(bytes(range(16)), 3, 0x8899AABBCCDDEEFF, 41, 65_536, 42, 7, 1_700_000_000_000_000)


def half_by_hand(version: int = 1) -> bytes:
    fields = struct.pack(
        "<I16sQQQQQIIq",
        version,
        HEADER.journal_id,
        HEADER.file_number,
        HEADER.salt,
        HEADER.first_round,
        HEADER.previous_end,
        HEADER.durable_through,
        HEADER.writer_epoch,
        0,
        HEADER.created_us,
    )
    checked = fields + bytes(2048 - 12 - len(fields))
    return b"DANUBEJ\x01" + struct.pack("<I", crc32c(checked)) + checked


def test_layout_by_hand() -> None:
    assert encode_file_header(HEADER) == half_by_hand() * 2


def test_what_is_written_is_read() -> None:
    assert decode_file_header(encode_file_header(HEADER)) == (HEADER, True)


@pytest.mark.parametrize("half", [0, HALF])
def test_every_flipped_bit_costs_one_copy_and_no_more(half: int) -> None:
    data = encode_file_header(HEADER)
    for bit in [*range(8 * 96), 8 * HALF - 1]:
        flipped = bytearray(data)
        flipped[half + bit // 8] ^= 1 << bit % 8
        assert decode_file_header(flipped) == (HEADER, False)


def test_two_damaged_copies_are_no_header() -> None:
    data = bytearray(encode_file_header(HEADER))
    data[50] ^= 1
    data[HALF + 70] ^= 1
    assert decode_file_header(data) == (None, False)


@pytest.mark.parametrize("length", [0, 11, HALF - 1])
def test_short_file_has_no_header(length: int) -> None:
    assert decode_file_header(encode_file_header(HEADER)[:length]) == (None, False)
    assert decode_file_header(bytes(length)) == (None, False)


def test_newer_version_is_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        decode_file_header(half_by_hand(2) * 2)


def test_names_lead_back_to_numbers() -> None:
    assert file_name(12) == "000000000012.journal"
    assert index_name(12) == "000000000012.index"
    assert number_of(file_name(12)) == 12
    for name in ("12.journal", "000000000012.index", "000000000012", "next.journal.tmp", "00000000001x.journal"):
        assert number_of(name) is None
