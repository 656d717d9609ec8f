"""What stands inside the entries: round trips, and bodies that are too short."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.errors import DataDamaged
from pydanube.storage import entries
from pydanube.storage.entries import CursorMove, ParkedHead, Released, WriterMove

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
I64 = st.integers(-(1 << 63), (1 << 63) - 1)
PADDING = st.integers(0, 7).map(bytes)

RANGES = st.lists(st.tuples(U64, U64), max_size=5).map(tuple)
RELEASED = st.lists(st.builds(Released, U64, U64, U64, U32, U32), max_size=5)
MOVES = st.builds(WriterMove, st.text(max_size=20), U64, st.lists(st.tuples(U64, U64, U64), max_size=4).map(tuple), I64)


@given(st.builds(CursorMove, U64, U32, RANGES), PADDING)
def test_cursor_moves(move: CursorMove, padding: bytes) -> None:
    assert entries.decode_cursor(entries.encode_cursor(move) + padding) == move


@given(st.builds(ParkedHead, U64, U64, I64, I64), st.binary(max_size=9))
def test_parked_heads(head: ParkedHead, batch: bytes) -> None:
    data = entries.encode_park_head(head)
    assert len(data) == entries.PARK_HEAD_BYTES == 32
    assert entries.decode_park_head(data + batch) == head


@given(RELEASED, I64, PADDING)
def test_releases(items: list[Released], time_us: int, padding: bytes) -> None:
    body = entries.encode_released(items, time_us) + padding
    assert entries.decode_released(body) == (items, time_us)
    assert entries.decode_time(body) == time_us  # the time stands in front: the index reads it alone


@given(st.lists(U64, max_size=5), PADDING)
def test_ids(ids: list[int], padding: bytes) -> None:
    assert entries.decode_ids(entries.encode_ids(ids) + padding) == tuple(ids)


@given(I64)
def test_times(time_us: int) -> None:
    assert entries.decode_time(entries.encode_time(time_us)) == time_us


@given(MOVES, PADDING)
def test_writer_moves(move: WriterMove, padding: bytes) -> None:
    assert entries.decode_writer(entries.encode_writer(move) + padding) == move


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (entries.encode_cursor(CursorMove(1, 2, ((0, 5), (7, 9)))), entries.decode_cursor),
        (entries.encode_park_head(ParkedHead(1, 2, 3, 4)), entries.decode_park_head),
        (entries.encode_released([Released(1, 2, 3, 4, 5)] * 2, 6), entries.decode_released),
        (entries.encode_ids([1, 2]), entries.decode_ids),
        (entries.encode_time(1), entries.decode_time),
        (entries.encode_writer(WriterMove("w", 1, ((1, 2, 3),), 4)), entries.decode_writer),
    ],
)
def test_short_body_is_damage(data: bytes, decode: Callable[[bytes], Any]) -> None:
    decode(data)
    for cut in range(len(data)):
        with pytest.raises(DataDamaged):
            decode(data[:cut])
