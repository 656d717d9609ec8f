"""A client of few words: frames over a plain socket, so that tests can also say what no real client would."""

import socket
from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

from pydanube.model import Buffer
from pydanube.records import Records, encode_batch
from pydanube.wire import (
    BROKER_MAY_SEND,
    Frame,
    Kind,
    Receiver,
    decode,
    encode,
    error_from,
    frame_parts,
    hot,
    messages,
)

M = TypeVar("M")
SECONDS = 10.0


class Closed(Exception):
    """The broker has ended the connection."""


class RawClient:
    def __init__(self, port: int, *, hello: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self._receiver = Receiver(BROKER_MAY_SEND)
        self._frames: list[Frame] = []
        self._request = 0
        self.sequences: dict[int, int] = {}
        if hello:
            self.welcome = self.ask(Kind.HELLO, messages.Hello(1, "raw"), messages.Welcome)

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, kind: Kind, request: int, control: bytes, attachments: Sequence[Buffer] = ()) -> None:
        self.socket.sendall(b"".join(map(bytes, frame_parts(kind, request, control, attachments))))

    def receive(self) -> Frame:
        while not self._frames:
            count = self.socket.recv_into(self._receiver.buffer())
            if not count:
                raise Closed
            self._frames.extend(self._receiver.received(count))
        return self._frames.pop(0)

    def expect(self, kind: Kind) -> Frame:
        """The next frame of a kind; an error is raised as such, others are passed over."""
        while True:
            frame = self.receive()
            if frame.kind is kind:
                return frame
            if frame.kind is Kind.ERROR:
                raise error_from(decode(frame.control, messages.ErrorReply))

    def ask(self, kind: Kind, question: messages.Message, answer: type[M]) -> M:
        self._request += 1
        self.send(kind, self._request, encode(question))
        while True:
            frame = self.receive()
            if frame.request == self._request or (frame.kind is Kind.ERROR and frame.request == 0):
                break
        if frame.kind is Kind.ERROR:
            raise error_from(decode(frame.control, messages.ErrorReply))
        return decode(frame.control, answer) if len(frame.control) else answer()

    def admin(self, question: messages.Admin) -> dict[str, object]:
        return self.ask(Kind.ADMIN, question, messages.Administered).facts

    def producer(self, topic: str, **settings: object) -> messages.ProducerOpen:
        chosen = messages.TopicSettings(**settings)  # type: ignore[arg-type]
        return self.ask(Kind.PRODUCER, messages.OpenProducer(topic, "p", chosen, 0), messages.ProducerOpen)

    def encode(self, producer: messages.ProducerOpen, payloads: list[bytes]) -> bytearray:
        first = self.sequences.get(producer.producer_id, 0)
        self.sequences[producer.producer_id] = first + len(payloads)
        return encode_batch(
            Records(payloads=payloads),
            topic_id=producer.topic_id,
            producer_id=producer.producer_id,
            first_sequence=first,
        )

    def publish(self, producer: messages.ProducerOpen, payloads: list[bytes]) -> int:
        """Publishes one batch and waits; returns its first offset."""
        return self.publish_batch(producer, self.encode(producer, payloads))

    def publish_batch(self, producer: messages.ProducerOpen, batch: Buffer) -> int:
        self._request += 1
        self.send(Kind.PUBLISH, self._request, hot.encode_publish(producer.handle), [batch])
        while True:
            for published in hot.decode_published(self.expect(Kind.PUBLISHED).control):
                if published.request == self._request:
                    return published.first_offset

    def subscribe(self, topic: str, name: str, start: str = "earliest", credit: int = 1 << 20) -> messages.Subscribed:
        asked = messages.Subscribe(topic, name, start, "c")
        found = self.ask(Kind.SUBSCRIBE, asked, messages.Subscribed)
        if credit:
            self.flow(found, credit)
        return found

    def flow(self, consumer: messages.Subscribed, credit: int) -> None:
        self.send(Kind.FLOW, 0, hot.encode_flow(consumer.handle, credit))

    def ack(self, consumer: messages.Subscribed, *ranges: tuple[int, int]) -> None:
        """Waits until it is durable."""
        self.ask(
            Kind.ACK,
            messages.Ack(consumer.handle, consumer.session, consumer.generation, list(ranges)),
            messages.Message,
        )
