"""Checkpoints: a damaged one is never taken for a state."""

import struct
from contextlib import suppress
from random import Random

import msgspec
import pytest
from crc32c import crc32c

from pydanube.model.errors import UnsupportedVersion
from pydanube.storage import MemoryFiles
from pydanube.storage.checkpoint import (
    CheckpointForm,
    checkpoint_name,
    checkpoint_round,
    decode_checkpoint,
    encode_checkpoint,
    read_checkpoints,
    write_whole,
)
from pydanube.storage.state import JournalState, state_form
from pydanube.testing.faults import Crashed, SimulatedDisk, SimulatedFiles


def form(round_number: int = 9) -> CheckpointForm:
    state = JournalState()
    topic = state.topic(0x1122334455667788)
    topic.extend(0, 3, 120, 1, 1000, 1, 1)
    topic.mark_lost(3, 5)
    state.deleted[8] = 2
    return CheckpointForm(b"j" * 16, round_number, 1, 4096, 1_700_000_000_000_000, state_form(state), 1)


def test_what_is_written_is_read() -> None:
    assert decode_checkpoint(encode_checkpoint(form())) == form()


def test_layout_by_hand() -> None:
    body = msgspec.msgpack.encode(form())
    checked = struct.pack("<IQ", 1, len(body)) + body
    assert encode_checkpoint(form()) == b"DANUBEC\x01" + struct.pack("<I", crc32c(checked)) + checked


def test_every_flipped_bit_makes_it_damaged() -> None:
    data = encode_checkpoint(form())
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_checkpoint(bytes(flipped)) is None


def test_every_cut_makes_it_damaged() -> None:
    data = encode_checkpoint(form())
    assert [cut for cut in range(len(data)) if decode_checkpoint(data[:cut]) is not None] == []
    assert decode_checkpoint(data + b"\0") is None


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x91\x01", b"\xff"])
def test_body_of_another_shape_is_damaged_whatever_its_checksum(body: bytes) -> None:
    checked = struct.pack("<IQ", 1, len(body)) + body
    assert decode_checkpoint(b"DANUBEC\x01" + struct.pack("<I", crc32c(checked)) + checked) is None


def test_newer_version_is_refused() -> None:
    checked = struct.pack("<IQ", 2, 0)
    with pytest.raises(UnsupportedVersion):
        decode_checkpoint(b"DANUBEC\x01" + struct.pack("<I", crc32c(checked)) + checked)


def test_names_sort_by_round() -> None:
    assert checkpoint_round(checkpoint_name(12)) == 12
    assert checkpoint_name(9) < checkpoint_name(10)
    assert checkpoint_round(checkpoint_name(12) + ".tmp") is None
    assert checkpoint_round("reserve") is None


def test_newest_is_read_first_and_damage_is_told() -> None:
    files = MemoryFiles(1 << 20)
    for number in (9, 10):
        write_whole(files, checkpoint_name(number), encode_checkpoint(form(number)))
    files.open(checkpoint_name(10)).write_at(30, [b"?"])
    assert read_checkpoints(files) == [(checkpoint_name(10), None), (checkpoint_name(9), form(9))]


def test_remains_of_an_earlier_attempt_are_no_hindrance() -> None:
    files = MemoryFiles(1 << 20)
    files.create(checkpoint_name(9) + ".tmp").write_at(0, [b"half"])
    write_whole(files, checkpoint_name(9), encode_checkpoint(form()))
    assert files.list() == [checkpoint_name(9)]


@pytest.mark.parametrize("seed", range(30))
def test_power_cut_leaves_a_whole_one_or_none(seed: int) -> None:
    disk = SimulatedDisk(Random(seed))
    files = SimulatedFiles(disk)
    write_whole(files, checkpoint_name(1), encode_checkpoint(form(1)))
    files.sync_folder()
    disk.crash_after(1 + seed % 5)
    with suppress(Crashed):
        write_whole(files, checkpoint_name(2), encode_checkpoint(form(2)))
    disk.crash(power=True)
    found = read_checkpoints(SimulatedFiles(disk))
    assert found[-1] == (checkpoint_name(1), form(1))
    assert found[:-1] in ([], [(checkpoint_name(2), form(2))])
