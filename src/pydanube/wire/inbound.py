"""Bytes in, frames out. The connection's shell lets the socket write straight into `buffer()` and then says how much
came; frames are views of that memory, so a batch is never copied on its way in.

Memory is an arena that frames are cut from; when it runs short, the next one begins with what is left of the last
frame. An arena lives as long as anything cut from it. Quiet connections have small ones.
"""

from pydanube.model.limits import FRAME_BYTES_MAX, KIB, MIB

from .frames import HEAD_BYTES, Frame, read_head

ARENA_BYTES_FIRST = 16 * KIB
ARENA_BYTES_MAX = 4 * MIB  # large, so that little of a large frame is copied from one arena to the next
_ROOM_LEAST = 4 * KIB


class Inbound:
    """Frames of at most `frame_bytes_max`; what is longer is refused before it is received."""

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._arena = bytearray(ARENA_BYTES_FIRST)
        self._view = memoryview(self._arena)
        self._start = 0  # of the first frame that is not complete
        self._end = 0  # of what was received

    @property
    def pending_bytes(self) -> int:
        """Received, and part of a frame that is not complete."""
        return self._end - self._start

    def buffer(self) -> memoryview:
        """Where the next bytes go."""
        if len(self._arena) - self._end < _ROOM_LEAST:
            self._next_arena(HEAD_BYTES)
        return self._view[self._end :]

    def received(self, count: int) -> list[Frame]:
        """`count` bytes were written into the buffer; returns the frames that are complete now."""
        self._end += count
        frames: list[Frame] = []
        at, end, view = self._start, self._end, self._view
        while end - at >= HEAD_BYTES:
            length, kind, request, control_bytes = read_head(view, at, self.frame_bytes_max)
            if end - at < length:
                break
            control_at = at + HEAD_BYTES
            attachment_at = control_at + control_bytes + (-control_bytes & 7)
            control = view[control_at : control_at + control_bytes]
            frames.append(Frame(kind, request, control, view[attachment_at : at + length]))
            at += length
        self._start = at
        if end - at >= HEAD_BYTES:
            length = read_head(view, at, self.frame_bytes_max)[0]
            if at + length > len(self._arena):
                self._next_arena(length)
        return frames

    def _next_arena(self, needed: int) -> None:
        """Each is four times as large as the last, so that a busy connection soon has a large one."""
        rest = self._view[self._start : self._end]
        size = max(min(4 * len(self._arena), ARENA_BYTES_MAX), needed + _ROOM_LEAST)
        arena = bytearray(size + (-size & 7))
        arena[: len(rest)] = rest
        self._arena, self._view = arena, memoryview(arena)
        self._start, self._end = 0, len(rest)
