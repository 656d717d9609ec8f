"""Legal moves: which frames a peer may send in which state of a connection. What is not listed is an error."""

from enum import Enum

from pydanube.model.errors import ProtocolError
from pydanube.model.limits import FRAME_BYTES_MAX, KIB

from .frames import Frame, Kind
from .inbound import Inbound

HELLO_BYTES_MAX = 16 * KIB  # all that a stranger may send


class State(Enum):
    HELLO = "hello"  # nothing but the greeting is allowed
    READY = "ready"
    CLOSING = "closing"  # the broker has said goodbye; what is under way may still be answered


CLIENT_MAY_SEND: dict[tuple[State, Kind], State] = {
    (State.HELLO, Kind.HELLO): State.READY,
    **{
        (State.READY, kind): State.READY
        for kind in (
            Kind.PING,
            Kind.LOOKUP,
            Kind.LIST,
            Kind.ADMIN,
            Kind.OFFSETS,
            Kind.PRODUCER,
            Kind.WANT,
            Kind.PUBLISH,
            Kind.PRODUCER_CLOSE,
            Kind.SUBSCRIBE,
            Kind.FLOW,
            Kind.ACK,
            Kind.CONSUMER_CLOSE,
            Kind.PROGRESS,
            Kind.FETCH,
            Kind.GOODBYE,
        )
    },
}
BROKER_MAY_SEND: dict[tuple[State, Kind], State] = {
    (State.HELLO, Kind.WELCOME): State.READY,
    (State.HELLO, Kind.ERROR): State.CLOSING,
    **{
        (state, kind): state
        for state in (State.READY, State.CLOSING)
        for kind in (
            Kind.ERROR,
            Kind.PONG,
            Kind.LOOKED_UP,
            Kind.LISTED,
            Kind.ADMINISTERED,
            Kind.OFFSETS_ARE,
            Kind.PRODUCER_OPEN,
            Kind.GRANT,
            Kind.PUBLISHED,
            Kind.SUBSCRIBED,
            Kind.DELIVER,
            Kind.ACKED,
            Kind.FETCHED,
            Kind.DONE,
        )
    },
    (State.READY, Kind.GOODBYE): State.CLOSING,
}


class Receiver:
    """One end of a connection: what comes in, checked against the moves of the other end."""

    def __init__(self, moves: dict[tuple[State, Kind], State]) -> None:
        self._moves = moves
        self.state = State.HELLO
        self._inbound = Inbound(HELLO_BYTES_MAX)

    def buffer(self) -> memoryview:
        return self._inbound.buffer()

    @property
    def pending_bytes(self) -> int:
        return self._inbound.pending_bytes

    def received(self, count: int) -> list[Frame]:
        frames = self._inbound.received(count)
        for frame in frames:
            following = self._moves.get((self.state, frame.kind))
            if following is None:
                raise ProtocolError(f"a {frame.kind.name} frame is not allowed in state {self.state.value}")
            if self.state is State.HELLO and following is State.READY:
                self._inbound.frame_bytes_max = FRAME_BYTES_MAX
            self.state = following
        return frames

    def feed(self, data: bytes) -> list[Frame]:
        """For tests: the same, with bytes that are there already."""
        frames: list[Frame] = []
        view = memoryview(data)
        while view:
            room = self.buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            frames.extend(self.received(count))
            view = view[count:]
        return frames
