"""Checkpoints: the whole durable state after one round, so that recovery reads only the journal behind it.

     0 8s  magic   "DANUBEC\\x01"
     8 u32 crc     CRC32C of everything behind it
    12 u32 version 1
    16 u64 length  of the body
    24     body    msgpack of `CheckpointForm`

A file is written under another name, synced, and renamed: under its own name it is whole, or damaged later. Two are
kept, and journal files are deleted only when the older one covers them, so that one damaged checkpoint costs
nothing but a longer recovery.
"""

import contextlib
import struct

import msgspec
from crc32c import crc32c

from pydanube.model.errors import UnsupportedVersion

from .files import Files
from .state import StateForm

MAGIC = b"DANUBEC\x01"
VERSION = 1
_CHECKED_AT = 12
_CHECKED = struct.Struct("<IQ")
_BODY_AT = _CHECKED_AT + _CHECKED.size
_SUFFIX = ".checkpoint"
TEMPORARY = ".tmp"
KEPT = 2


class CheckpointForm(msgspec.Struct, array_like=True):
    journal_id: bytes
    round_number: int  # the state is the one after this round
    file_number: int  # where the next round begins
    position: int
    time_us: int
    state: StateForm
    writer_epoch: int  # the next writer has a higher one, even if the headers that say so are damaged


_decoder = msgspec.msgpack.Decoder(CheckpointForm)


def encode_checkpoint(form: CheckpointForm) -> bytes:
    body = msgspec.msgpack.encode(form)
    checked = _CHECKED.pack(VERSION, len(body)) + body
    return MAGIC + crc32c(checked).to_bytes(4, "little") + checked


def decode_checkpoint(data: bytes) -> CheckpointForm | None:
    """The checkpoint, or None where the bytes are damaged."""
    view = memoryview(data)
    if len(view) < _BODY_AT or bytes(view[:8]) != MAGIC:
        return None
    if crc32c(view[_CHECKED_AT:]) != int.from_bytes(view[8:_CHECKED_AT], "little"):
        return None
    version, length = _CHECKED.unpack_from(view, _CHECKED_AT)
    if version > VERSION:
        raise UnsupportedVersion(f"a checkpoint has format version {version}; this program reads up to {VERSION}")
    try:
        return _decoder.decode(view[_BODY_AT:]) if len(view) == _BODY_AT + length else None
    except msgspec.MsgspecError:
        return None


def checkpoint_name(round_number: int) -> str:
    return f"{round_number:020d}{_SUFFIX}"


def checkpoint_round(name: str) -> int | None:
    stem = name.removesuffix(_SUFFIX)
    return int(stem) if stem != name and stem.isdigit() else None


def write_whole(files: Files, name: str, data: bytes) -> None:
    """A file that is there whole or not at all, whatever happens; its name is durable with the next `sync_folder`."""
    temporary = name + TEMPORARY
    with contextlib.suppress(FileNotFoundError):
        files.remove(temporary)
    file = files.create(temporary)
    try:
        file.write_at(0, [data])
        file.sync()
    finally:
        file.close()
    files.rename(temporary, name)


def read_checkpoints(files: Files) -> list[tuple[str, CheckpointForm | None]]:
    """All checkpoints by name, newest first; None for a damaged one."""
    found = []
    for name in sorted((name for name in files.list() if checkpoint_round(name) is not None), reverse=True):
        file = files.open(name)
        try:
            found.append((name, decode_checkpoint(file.read_at(0, file.size()))))
        finally:
            file.close()
    return found
