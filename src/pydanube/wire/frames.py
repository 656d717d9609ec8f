"""Frames: what both ends put on a connection.

    head (16 bytes) · control body, padded to 8 · attachment (batches, each a multiple of 8)

     0 u32 length         of the whole frame, a multiple of 8
     4 u8  kind           see `Kind`
     5 u8  flags          0
     6 u16 reserved       0
     8 u32 request        chosen by who asks; an answer carries the number of its question; 0: no answer is wanted
    12 u32 control_bytes  of the control body, without its padding

Every frame begins at a multiple of 8 bytes of the stream, so a batch that is received into an aligned buffer lies
aligned in it, and its columns can be used in place.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from pydanube.model import Buffer
from pydanube.model.errors import ProtocolError
from pydanube.model.limits import FRAME_BYTES_MAX

HEAD = struct.Struct("<IBBHII")
HEAD_BYTES = HEAD.size
_PADDING = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")


class Kind(IntEnum):
    """Kinds of frames. They cross the wire: a number is never given to another kind."""

    HELLO = 1
    WELCOME = 2
    ERROR = 3
    PING = 4
    PONG = 5
    GOODBYE = 6  # the broker is about to close the connection, in good order

    LOOKUP = 10
    LOOKED_UP = 11
    LIST = 12
    LISTED = 13
    ADMIN = 14
    ADMINISTERED = 15
    OFFSETS = 16
    OFFSETS_ARE = 17

    PRODUCER = 20
    PRODUCER_OPEN = 21
    WANT = 22  # a producer's connection asks for credit
    GRANT = 23
    PUBLISH = 24
    PUBLISHED = 25
    PRODUCER_CLOSE = 26

    SUBSCRIBE = 30
    SUBSCRIBED = 31
    FLOW = 32  # a consumer gives credit
    DELIVER = 33
    ACK = 34
    ACKED = 35
    CONSUMER_CLOSE = 36
    PROGRESS = 37

    FETCH = 40
    FETCHED = 41

    DONE = 50  # the plain answer to a request that has nothing to tell


_KINDS = {int(kind): kind for kind in Kind}


class Frame(NamedTuple):
    kind: Kind
    request: int
    control: memoryview
    attachment: memoryview

    @property
    def length(self) -> int:
        return HEAD_BYTES + len(self.control) + (-len(self.control) & 7) + len(self.attachment)


def frame_parts(kind: Kind, request: int, control: bytes, attachments: Sequence[Buffer] = ()) -> list[Buffer]:
    """The parts of a frame, to be written one behind the other. Attachments are not copied."""
    padding = _PADDING[len(control) & 7]
    length = HEAD_BYTES + len(control) + len(padding) + sum(map(len, attachments))
    return [HEAD.pack(length, kind, 0, 0, request, len(control)) + control + padding, *attachments]


def read_head(data: Buffer, at: int, frame_bytes_max: int = FRAME_BYTES_MAX) -> tuple[int, Kind, int, int]:
    """Length, kind, request and control length of the frame whose head is at `at`; ProtocolError if it is none."""
    length, kind, flags, reserved, request, control_bytes = HEAD.unpack_from(data, at)
    known = _KINDS.get(kind)
    if known is None or flags or reserved:
        raise ProtocolError(f"a frame of unknown kind {kind}, flags {flags}")
    if length > frame_bytes_max:
        raise ProtocolError(f"a frame of {length} bytes; at most {frame_bytes_max} are allowed")
    if length & 7 or HEAD_BYTES + control_bytes + (-control_bytes & 7) > length:
        raise ProtocolError(f"a frame of {length} bytes with a control body of {control_bytes} does not add up")
    return length, known, request, control_bytes
