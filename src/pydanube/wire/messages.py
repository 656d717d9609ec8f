"""The control bodies: one struct a kind of frame, msgpack arrays.

A later version may add fields at the end with a default; it never removes or reorders them. What is sent for every
batch (PUBLISH, PUBLISHED, DELIVER, FLOW) is packed by hand in `hot.py`.
"""

from typing import TypeVar

import msgspec

from pydanube.model import ERRORS_BY_CODE, DanubeError
from pydanube.model.errors import ProtocolError

PROTOCOL_VERSION = 1


class Message(msgspec.Struct, array_like=True, frozen=True, omit_defaults=False):
    pass


class Hello(Message, frozen=True):
    version: int
    client: str  # name and version of the software, for the broker's log
    credentials: dict[str, str] = {}  # how a client shows who it is; none yet means anonymous


class Welcome(Message, frozen=True):
    version: int  # the one that both will speak
    broker: str
    frame_bytes_max: int
    message_bytes_max: int
    publish_credit: int  # bytes of batches that this connection may always have unanswered


class ErrorReply(Message, frozen=True):
    code: int
    text: str


class Lookup(Message, frozen=True):
    topic: str


class LookedUp(Message, frozen=True):
    topic: str
    partitions: list[str]  # of a partitioned topic its partitions' names, else the topic alone; none: there is no such
    is_partitioned: bool
    is_reliable: bool


class List(Message, frozen=True):
    what: str  # namespaces | topics | subscriptions
    under: str = ""  # a namespace for topics, a topic for subscriptions
    after: str = ""
    limit: int = 1000


class Listed(Message, frozen=True):
    names: list[str]
    more: bool


class TopicSettings(Message, frozen=True):
    is_reliable: bool = True
    partitions: int = 0  # 0: not partitioned
    durability: str = "fsync"


class RetentionSettings(Message, frozen=True):
    time_us: int | None = None  # None: for ever
    bytes: int | None = None
    hold_unconsumed: bool = True


class CreateTopic(Message, frozen=True, tag="create-topic"):
    topic: str
    settings: TopicSettings


class DeleteTopic(Message, frozen=True, tag="delete-topic"):
    topic: str


class DescribeTopic(Message, frozen=True, tag="describe-topic"):
    topic: str


class SetRetention(Message, frozen=True, tag="set-retention"):
    topic: str
    retention: RetentionSettings | None  # None: the broker's default again


class CreateNamespace(Message, frozen=True, tag="create-namespace"):
    namespace: str
    auto_create_topics: bool = True


class DescribeNamespace(Message, frozen=True, tag="describe-namespace"):
    namespace: str


class SetNamespace(Message, frozen=True, tag="set-namespace"):
    namespace: str
    auto_create_topics: bool


class DeleteNamespace(Message, frozen=True, tag="delete-namespace"):
    namespace: str


class DescribeSubscription(Message, frozen=True, tag="describe-subscription"):
    topic: str
    subscription: str


class DeleteSubscription(Message, frozen=True, tag="delete-subscription"):
    topic: str
    subscription: str


Admin = (
    CreateTopic
    | DeleteTopic
    | DescribeTopic
    | SetRetention
    | CreateNamespace
    | DescribeNamespace
    | SetNamespace
    | DeleteNamespace
    | DescribeSubscription
    | DeleteSubscription
)


class Administered(Message, frozen=True):
    facts: dict[str, object]


class Offsets(Message, frozen=True):
    topic: str
    times_us: list[int] = []


class OffsetsAre(Message, frozen=True):
    topic_id: int
    earliest: int
    latest: int  # the durable end: the offset that the next message will have, at least
    at_times: list[int]


class OpenProducer(Message, frozen=True):
    topic: str  # one topic or partition
    name: str
    settings: TopicSettings  # to create it with, and to compare if it is there
    producer_id: int  # 0: a new one; after a reconnect the one that the broker gave
    epoch: int = 0


class ProducerOpen(Message, frozen=True):
    handle: int
    topic_id: int
    producer_id: int
    epoch: int


class Want(Message, frozen=True):
    bytes: int


class Grant(Message, frozen=True):
    bytes: int


class CloseHandle(Message, frozen=True):
    handle: int


class Subscribe(Message, frozen=True):
    topic: str  # one topic or partition
    subscription: str
    start: str  # earliest | latest | an offset | a time in ISO 8601; only for a new subscription
    consumer: str
    type: str = "exclusive"


class Subscribed(Message, frozen=True):
    handle: int
    session: int
    generation: int
    topic_id: int
    position: int


class Ack(Message, frozen=True):
    handle: int
    session: int
    generation: int
    ranges: list[tuple[int, int]]


class Progress(Message, frozen=True):
    topic: str
    subscription: str
    position: int


class Fetch(Message, frozen=True):
    topic: str
    topic_id: int  # 0: whatever is under the name; else it must be this incarnation
    offset: int
    bytes_max: int


class Fetched(Message, frozen=True):
    topic_id: int
    first: int  # of the first batch in the attachment, or the offset asked for
    earliest: int
    latest: int


M = TypeVar("M")
_encoder = msgspec.msgpack.Encoder()
_decoders: dict[object, msgspec.msgpack.Decoder[object]] = {}


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(body: bytes | memoryview, kind: type[M]) -> M:
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        return decoder.decode(body)  # type: ignore[return-value]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(f"a control body is not what it should be: {error}") from error


def error_reply(error: DanubeError) -> ErrorReply:
    return ErrorReply(error.code, str(error))


def error_from(reply: ErrorReply) -> DanubeError:
    """The error that a peer has sent, as its own class; one that is not known here keeps its code in the text."""
    kind = ERRORS_BY_CODE.get(reply.code)
    return kind(reply.text) if kind is not None else DanubeError(f"error {reply.code}: {reply.text}")
