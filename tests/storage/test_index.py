"""The index of a journal file, in memory and beside it, against lists of everything."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.errors import UnsupportedVersion
from pydanube.storage.index import FileIndex, IndexEntry, Sidecar, decode_sidecar

STRIDE = 100
Batches = dict[int, list[IndexEntry]]


@st.composite
def any_batches(draw: st.DrawFn) -> list[tuple[int, IndexEntry]]:
    """Batches of a few topics, as they follow each other in a file."""
    position, time_us = 4096, 1000
    ends: dict[int, int] = {}
    batches = []
    for topic_id, count, length, later in draw(
        st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(0, 150), st.integers(0, 20)), max_size=40)
    ):
        position, time_us = position + length, time_us + later
        batches.append((topic_id, IndexEntry(ends.get(topic_id, 0), position, time_us)))
        ends[topic_id] = ends.get(topic_id, 0) + count
    return batches


def both(batches: list[tuple[int, IndexEntry]]) -> tuple[FileIndex, Sidecar]:
    index = FileIndex(STRIDE)
    for topic_id, entry in batches:
        index.add(topic_id, *entry)
    sidecar = decode_sidecar(index.encode(3), 3)
    assert sidecar is not None
    return index, sidecar


def sparse(batches: list[tuple[int, IndexEntry]], topic_id: int) -> list[IndexEntry]:
    """The entries that an index has to have, said in the plainest way."""
    kept: list[IndexEntry] = []
    for owner, entry in batches:
        if owner == topic_id and (not kept or entry.position >= kept[-1].position + STRIDE):
            kept.append(entry)
    return kept


@given(any_batches(), st.integers(1, 5), st.integers(0, 200))
def test_find_is_the_last_entry_at_or_below(batches: list[tuple[int, IndexEntry]], topic_id: int, offset: int) -> None:
    kept = sparse(batches, topic_id)
    below = [entry for entry in kept if entry.first_offset <= offset]
    expected = (below[-1] if below else kept[0]) if kept else None
    for index in both(batches):
        assert index.find(topic_id, offset) == expected


@given(any_batches(), st.integers(1, 5))
def test_find_time_is_the_last_entry_that_is_older(batches: list[tuple[int, IndexEntry]], topic_id: int) -> None:
    kept = sparse(batches, topic_id)
    indexes = both(batches)
    for time_us in {0, *(entry.time_us + later for _, entry in batches for later in (0, 1))}:
        older = [entry for entry in kept if entry.time_us < time_us]
        expected = (older[-1] if older else kept[0]) if kept else None
        for index in indexes:
            assert index.find_time(topic_id, time_us) == expected


@given(any_batches())
def test_walk_from_an_entry_is_shorter_than_a_stride(batches: list[tuple[int, IndexEntry]]) -> None:
    for index in both(batches):
        for topic_id, entry in batches:
            found = index.find(topic_id, entry.first_offset)
            assert found is not None
            assert found.position <= entry.position < found.position + STRIDE


def small() -> bytes:
    index, _ = both([(9, IndexEntry(5, 4096, 1)), (2, IndexEntry(0, 4096, 1)), (9, IndexEntry(7, 4300, 2))])
    return index.encode(3)


def test_layout_by_hand() -> None:
    checked = struct.pack("<IQII", 1, 3, 2, 3)
    checked += struct.pack("<QII", 2, 0, 1) + struct.pack("<QII", 9, 1, 2)
    checked += struct.pack("<QQq", 0, 4096, 1) + struct.pack("<QQq", 5, 4096, 1) + struct.pack("<QQq", 7, 4300, 2)
    assert small() == b"DANUBEI\x01" + struct.pack("<I", crc32c(checked)) + checked


def test_every_flipped_bit_makes_it_damaged() -> None:
    data = small()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        assert decode_sidecar(bytes(flipped), 3) is None


def test_every_cut_makes_it_damaged() -> None:
    data = small()
    assert [cut for cut in range(len(data)) if decode_sidecar(data[:cut], 3) is not None] == []


def test_index_of_another_file_is_not_believed() -> None:
    assert decode_sidecar(small(), 4) is None


def test_newer_version_is_refused() -> None:
    checked = struct.pack("<IQII", 2, 3, 0, 0)
    with pytest.raises(UnsupportedVersion):
        decode_sidecar(b"DANUBEI\x01" + struct.pack("<I", crc32c(checked)) + checked, 3)


def test_empty_index_finds_nothing() -> None:
    for index in both([]):
        assert index.find(1, 0) is None
        assert index.find_time(1, 0) is None
