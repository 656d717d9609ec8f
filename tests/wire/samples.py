"""One frame of every kind, with the control body that belongs to it."""

from typing import NamedTuple

from pydanube.wire import Frame, Kind, encode, frame_parts, hot, messages


class Case(NamedTuple):
    kind: Kind
    request: int
    control: bytes
    attachments: tuple[bytes, ...] = ()

    def data(self) -> bytes:
        return b"".join(frame_parts(self.kind, self.request, self.control, self.attachments))


SETTINGS = messages.TopicSettings(True, 4, "fsync")
BATCH = bytes(range(8)) * 13  # opaque here; a multiple of 8, as every batch

FROM_CLIENT = [
    Case(Kind.HELLO, 0, encode(messages.Hello(1, "test", {"token": "x"}))),
    Case(Kind.PING, 1, b""),
    Case(Kind.LOOKUP, 2, encode(messages.Lookup("/default/a"))),
    Case(Kind.LIST, 3, encode(messages.List("topics", "default"))),
    Case(Kind.ADMIN, 4, encode(messages.CreateTopic("/default/a", SETTINGS))),
    Case(Kind.OFFSETS, 5, encode(messages.Offsets("/default/a", [1, 2]))),
    Case(Kind.PRODUCER, 6, encode(messages.OpenProducer("/default/a", "p", SETTINGS, 0))),
    Case(Kind.WANT, 0, encode(messages.Want(1 << 20))),
    Case(Kind.PUBLISH, 7, hot.encode_publish(3), (BATCH,)),
    Case(Kind.PRODUCER_CLOSE, 8, encode(messages.CloseHandle(3))),
    Case(Kind.SUBSCRIBE, 9, encode(messages.Subscribe("/default/a", "s", "earliest", "c"))),
    Case(Kind.FLOW, 0, hot.encode_flow(4, 1000)),
    Case(Kind.ACK, 10, encode(messages.Ack(4, 1, 0, [(0, 5), (7, 9)]))),
    Case(Kind.CONSUMER_CLOSE, 11, encode(messages.CloseHandle(4))),
    Case(Kind.PROGRESS, 12, encode(messages.Progress("/default/a", "s", 9))),
    Case(Kind.FETCH, 13, encode(messages.Fetch("/default/a", 5, 0, 1 << 20))),
    Case(Kind.GOODBYE, 0, b""),
]
FROM_BROKER = [
    Case(Kind.WELCOME, 0, encode(messages.Welcome(1, "b", 1 << 22, 1 << 22, 65536))),
    Case(Kind.ERROR, 1, encode(messages.ErrorReply(102, "there is none"))),
    Case(Kind.PONG, 1, b""),
    Case(Kind.LOOKED_UP, 2, encode(messages.LookedUp("/default/a", ["/default/a"], False, True))),
    Case(Kind.LISTED, 3, encode(messages.Listed(["a", "b"], True))),
    Case(Kind.ADMINISTERED, 4, encode(messages.Administered({"a": 1}))),
    Case(Kind.OFFSETS_ARE, 5, encode(messages.OffsetsAre(7, 0, 9, [3]))),
    Case(Kind.PRODUCER_OPEN, 6, encode(messages.ProducerOpen(3, 7, 8, 0))),
    Case(Kind.GRANT, 0, encode(messages.Grant(1 << 20))),
    Case(Kind.PUBLISHED, 0, hot.encode_published([hot.Published(7, 100, 5), hot.Published(8, 101, 6)])),
    Case(Kind.SUBSCRIBED, 9, encode(messages.Subscribed(4, 1, 0, 7, 0))),
    Case(Kind.DELIVER, 0, hot.encode_deliver(hot.Deliver(4, 1, 0, 12, ((1, 2), (5, 9)))), (BATCH, BATCH[:8])),
    Case(Kind.ACKED, 10, b""),
    Case(Kind.FETCHED, 13, encode(messages.Fetched(7, 0, 0, 9)), (BATCH,)),
    Case(Kind.DONE, 14, b""),
    Case(Kind.GOODBYE, 0, b""),
]
EVERY = FROM_CLIENT + FROM_BROKER


def plain(frame: Frame) -> tuple[Kind, int, bytes, bytes]:
    """A frame as values that can be compared."""
    return frame.kind, frame.request, bytes(frame.control), bytes(frame.attachment)


def expected(case: Case) -> tuple[Kind, int, bytes, bytes]:
    return case.kind, case.request, case.control, b"".join(case.attachments)
