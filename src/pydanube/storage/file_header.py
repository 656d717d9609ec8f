"""The first 4 KiB of a journal file: the same 2 KiB twice, so that one damaged place does not lose the file.

 0 8s  magic            "DANUBEJ\\x01"
 8 u32 crc              CRC32C of bytes 12..2048 of this half
12 u32 version          1
16 16s journal_id
32 u64 file_number      from 1, without gaps
40 u64 salt             random; seeds the CRCs of the round heads in this file
48 u64 first_round      the number of the first round in this file
56 u64 previous_end     where the predecessor ends; bytes behind that are not part of the journal
64 u64 durable_through  rounds of this file up to here were synced before the file got its name
72 u32 writer_epoch
76 u32 reserved         0
80 i64 created_us
then zeros
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

from pydanube.model import Buffer
from pydanube.model.errors import UnsupportedVersion

MAGIC = b"DANUBEJ\x01"
VERSION = 1
FILE_HEADER_BYTES = 4096
_HALF = FILE_HEADER_BYTES // 2
_FIELDS = struct.Struct("<I16sQQQQQIIq")
_CHECKED_AT = 12


class FileHeader(NamedTuple):
    journal_id: bytes
    file_number: int
    salt: int
    first_round: int
    previous_end: int
    durable_through: int
    writer_epoch: int
    created_us: int


def encode_file_header(header: FileHeader) -> bytes:
    fields = _FIELDS.pack(VERSION, *header[:7], 0, header.created_us)
    checked = fields + bytes(_HALF - _CHECKED_AT - len(fields))
    half = MAGIC + crc32c(checked).to_bytes(4, "little") + checked
    return half + half


def _decode_half(half: memoryview) -> FileHeader | None:
    if len(half) != _HALF or bytes(half[:8]) != MAGIC:
        return None
    if crc32c(half[_CHECKED_AT:]) != int.from_bytes(half[8:12], "little"):
        return None
    version, *fields = _FIELDS.unpack_from(half, _CHECKED_AT)
    if version > VERSION:
        raise UnsupportedVersion(f"a journal file has format version {version}; this program reads up to {VERSION}")
    del fields[-2]  # reserved
    return FileHeader._make(fields)


def decode_file_header(data: Buffer) -> tuple[FileHeader | None, bool]:
    """The header, and whether both of its copies are whole."""
    view = memoryview(data)
    first, second = _decode_half(view[:_HALF]), _decode_half(view[_HALF:FILE_HEADER_BYTES])
    return first or second, first is not None and first == second


def file_name(number: int) -> str:
    return f"{number:012d}.journal"


def index_name(number: int) -> str:
    return f"{number:012d}.index"


def number_of(name: str, suffix: str = ".journal") -> int | None:
    stem = name.removesuffix(suffix)
    return int(stem) if stem != name and len(stem) == 12 and stem.isdigit() else None
