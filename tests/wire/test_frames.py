"""One table of cases for the writer, the reader and every split of the input."""

import struct
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.errors import ProtocolError
from pydanube.model.limits import FRAME_BYTES_MAX, KIB, MIB
from pydanube.wire import HEAD_BYTES, Frame, Inbound, Kind, frame_parts
from pydanube.wire.inbound import ARENA_BYTES_FIRST

from .samples import EVERY, Case, expected, plain


def feed(inbound: Inbound, data: bytes | memoryview) -> list[Frame]:
    """As a socket would, in as many pieces as the buffer asks for."""
    frames: list[Frame] = []
    view = memoryview(data)
    while view:
        room = inbound.buffer()
        count = min(len(room), len(view))
        room[:count] = view[:count]
        frames += inbound.received(count)
        view = view[count:]
    return frames


def test_the_table_has_every_kind() -> None:
    assert {case.kind for case in EVERY} == set(Kind)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.kind.name)
def test_every_cut(case: Case) -> None:
    data = case.data()
    assert len(data) % 8 == 0
    for cut in range(len(data) + 1):
        inbound = Inbound()
        frames = feed(inbound, data[:cut]) + feed(inbound, data[cut:])
        assert [plain(frame) for frame in frames] == [expected(case)]
        assert frames[0].length == len(data)
        assert inbound.pending_bytes == 0


def test_byte_by_byte() -> None:
    data = b"".join(case.data() for case in EVERY)
    inbound = Inbound()
    frames = [frame for at in range(len(data)) for frame in feed(inbound, data[at : at + 1])]
    assert [plain(frame) for frame in frames] == [expected(case) for case in EVERY]


@given(st.lists(st.sampled_from(EVERY), max_size=20), st.lists(st.integers(1, 5000), min_size=1))
def test_any_pieces(cases: list[Case], pieces: list[int]) -> None:
    data = b"".join(case.data() for case in cases)
    inbound = Inbound()
    frames: list[Frame] = []
    at = turn = 0
    while at < len(data):
        piece = pieces[turn % len(pieces)]
        frames += feed(inbound, data[at : at + piece])
        at, turn = at + piece, turn + 1
    assert [plain(frame) for frame in frames] == [expected(case) for case in cases]


def test_frames_larger_than_an_arena() -> None:
    sizes = [ARENA_BYTES_FIRST - 8, ARENA_BYTES_FIRST, 3 * ARENA_BYTES_FIRST, 2 * MIB, 8, FRAME_BYTES_MAX - KIB]
    cases = [Case(Kind.PUBLISH, at + 1, bytes([at]) * (at + 1), (bytes([at]) * size,)) for at, size in enumerate(sizes)]
    inbound = Inbound()
    frames = feed(inbound, b"".join(case.data() for case in cases))
    assert [plain(frame) for frame in frames] == [expected(case) for case in cases]


@pytest.mark.parametrize("control_bytes", range(17))
def test_attachments_are_aligned(control_bytes: int) -> None:
    """In memory, not only in the stream: a batch's columns are used in place."""
    data = b"".join(Case(Kind.PUBLISH, 1, b"c" * control_bytes, (b"a" * 8,)).data() for _ in range(3))
    for frame in feed(Inbound(), data):
        assert len(frame.attachment) == 8
        arena = memoryview(frame.attachment.obj)
        assert bytes(arena).find(frame.attachment) % 8 == 0
        frame.attachment.cast("q")


def test_frames_stay_when_more_comes() -> None:
    """A frame is a view of its arena, which is never written again."""
    inbound = Inbound()
    first = feed(inbound, Case(Kind.PUBLISH, 1, b"", (b"first---",)).data())[0]
    feed(inbound, Case(Kind.PUBLISH, 2, b"", (b"x" * 3 * MIB,)).data())
    assert bytes(first.attachment) == b"first---"


HEAD = struct.Struct("<IBBHII")


@pytest.mark.parametrize(
    "head",
    [
        HEAD.pack(16, 0, 0, 0, 0, 0),
        HEAD.pack(16, 99, 0, 0, 0, 0),
        HEAD.pack(16, Kind.PING, 1, 0, 0, 0),
        HEAD.pack(16, Kind.PING, 0, 1, 0, 0),
        HEAD.pack(17, Kind.PING, 0, 0, 0, 0),
        HEAD.pack(8, Kind.PING, 0, 0, 0, 0),
        HEAD.pack(0, Kind.PING, 0, 0, 0, 0),
        HEAD.pack(16, Kind.PING, 0, 0, 0, 1),
        HEAD.pack(24, Kind.PING, 0, 0, 0, 9),
        HEAD.pack(24, Kind.PING, 0, 0, 0, 0xFFFFFFFF),
        HEAD.pack(FRAME_BYTES_MAX + 8, Kind.PUBLISH, 0, 0, 0, 0),
        HEAD.pack(0xFFFFFFF8, Kind.PUBLISH, 0, 0, 0, 0),
    ],
)
def test_what_is_no_frame_is_refused(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        feed(Inbound(), head)


def test_a_frame_that_is_too_long_is_refused_by_its_head() -> None:
    inbound = Inbound(frame_bytes_max=1024)
    feed(inbound, b"".join(frame_parts(Kind.PUBLISH, 1, b"", (bytes(1024 - HEAD_BYTES),))))
    with pytest.raises(ProtocolError, match="1032"):
        feed(inbound, b"".join(frame_parts(Kind.PUBLISH, 1, b"", (bytes(1032 - HEAD_BYTES),)))[:HEAD_BYTES])


@given(st.binary(max_size=200), st.integers(0, 40))
def test_any_bytes_give_frames_or_an_error(data: bytes, damage_at: int) -> None:
    """Also frames with some bytes of their heads changed."""
    frame = EVERY[damage_at % len(EVERY)].data()
    for stream in (data, frame[: damage_at % 16] + data[:4] + frame[damage_at % 16 + 4 :] + data):
        inbound = Inbound()
        try:
            frames = feed(inbound, stream)
        except ProtocolError:
            continue
        assert sum(each.length for each in frames) + inbound.pending_bytes == len(stream)


def test_memory_is_bounded() -> None:
    """A connection that says little holds little, and a claim of a long frame costs no more than that frame."""
    inbound = Inbound()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        ping = Case(Kind.PING, 1, b"").data()
        for _ in range(1000):
            feed(inbound, ping * 100)
        assert tracemalloc.get_traced_memory()[0] - before < 6 * MIB
        feed(inbound, HEAD.pack(FRAME_BYTES_MAX, Kind.PUBLISH, 0, 0, 0, 0))
        assert tracemalloc.get_traced_memory()[1] - before < 12 * MIB
    finally:
        tracemalloc.stop()
