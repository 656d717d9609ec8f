"""A scripted broker: real sockets, the real codec, and answers that a test chooses.

By itself it greets, opens producers and subscriptions, stores batches in memory and answers in order. A test holds the
answers back, refuses batches, delivers what it likes and drops connections; what came in is kept for it to look at.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, cast

from pydanube.model import DanubeError, parse_topic
from pydanube.model.errors import ProtocolError
from pydanube.records import BatchHeader, read_header
from pydanube.wire import (
    CLIENT_MAY_SEND,
    Frame,
    Kind,
    Receiver,
    decode,
    encode,
    error_reply,
    frame_parts,
    hot,
    messages,
)

TOPIC_ID = 77


class Batch(NamedTuple):
    connection: "Peer"
    request: int
    data: bytes
    header: BatchHeader


class Peer(asyncio.Protocol):
    """The broker's end of one connection."""

    def __init__(self, broker: "FakeBroker") -> None:
        self.broker = broker
        self.receiver = Receiver(CLIENT_MAY_SEND)
        self.transport: asyncio.Transport
        self.producers: dict[int, str] = {}
        self.flow: dict[int, int] = {}
        self.unanswered_bytes = 0
        self.granted_bytes = 0
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.broker.peers.append(self)

    def data_received(self, data: bytes) -> None:
        for frame in self.receiver.feed(data):
            self.broker.frames.append(frame)
            self.broker.handle(self, frame)
        self.broker.tell()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_lost = True
        self.broker.tell()

    def send(self, kind: Kind, request: int, body: bytes = b"", attachments: tuple[bytes, ...] = ()) -> None:
        self.transport.write(b"".join(frame_parts(kind, request, body, attachments)))

    def refuse(self, request: int, error: DanubeError) -> None:
        self.send(Kind.ERROR, request, encode(error_reply(error)))


class FakeBroker:
    def __init__(self, publish_credit: int = 1 << 20) -> None:
        self.publish_credit = publish_credit
        self.peers: list[Peer] = []
        self.frames: list[Frame] = []
        self.batches: list[Batch] = []  # every PUBLISH, in order of arrival
        self.wants: list[int] = []
        self.opened: list[messages.OpenProducer] = []
        self.subscribed: list[messages.Subscribe] = []
        self.acks: list[messages.Ack] = []
        self.partitions: dict[str, list[str]] = {}
        self.stored: dict[tuple[int, int, int], int] = {}  # producer, epoch, sequence: offset
        self.end = 0
        self.is_holding = False  # answers to batches are not sent
        self.refusals: list[DanubeError] = []  # for the next batches
        self.refuse_open: list[DanubeError] = []  # for the next producers
        self.on_opened: Callable[[], object] = lambda: None
        self.producer_ids = iter(range(1001, 2000))
        self.answers: dict[Kind, Callable[[Peer, Frame], None]] = {}
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "FakeBroker":
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Peer(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """As if the process had died."""
        if self._server is not None:
            self._server.close()
        for peer in self.peers:
            peer.transport.abort()
        await self.until(lambda: all(peer.is_lost for peer in self.peers))

    @property
    def url(self) -> str:
        return f"danube://127.0.0.1:{self.port}"

    def tell(self) -> None:
        self._news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something to have come in."""
        async with asyncio.timeout(20):
            while not condition():
                self._news.clear()
                await self._news.wait()

    # -- answers ---------------------------------------------------------------------------------------------------

    def handle(self, peer: Peer, frame: Frame) -> None:
        own = self.answers.get(frame.kind)
        if own is not None:
            own(peer, frame)
            return
        answer = getattr(self, f"on_{frame.kind.name.lower()}", None)
        if answer is None:
            raise ProtocolError(f"the fake broker knows no {frame.kind.name}")
        answer(peer, frame)

    def on_hello(self, peer: Peer, frame: Frame) -> None:
        welcome = messages.Welcome(1, "fake", 1 << 22, 1 << 20, self.publish_credit)
        peer.send(Kind.WELCOME, frame.request, encode(welcome))

    def on_ping(self, peer: Peer, frame: Frame) -> None:
        peer.send(Kind.PONG, frame.request)

    def on_goodbye(self, peer: Peer, _: Frame) -> None:
        peer.transport.close()

    def on_lookup(self, peer: Peer, frame: Frame) -> None:
        topic = decode(frame.control, messages.Lookup).topic
        names = self.partitions.get(topic, [topic])
        is_partitioned = len(names) > 1
        peer.send(Kind.LOOKED_UP, frame.request, encode(messages.LookedUp(topic, names, is_partitioned, True)))

    def on_producer(self, peer: Peer, frame: Frame) -> None:
        asked = decode(frame.control, messages.OpenProducer)
        self.opened.append(asked)
        if self.refuse_open:
            peer.refuse(frame.request, self.refuse_open.pop(0))
            return
        handle = len(peer.producers) + 1
        peer.producers[handle] = asked.topic
        number = asked.producer_id or next(self.producer_ids)
        topic_id = TOPIC_ID + (parse_topic(asked.topic).partition or 0)
        reply = messages.ProducerOpen(handle, topic_id, number, asked.epoch)
        peer.send(Kind.PRODUCER_OPEN, frame.request, encode(reply))
        self.on_opened()

    def on_producer_close(self, peer: Peer, frame: Frame) -> None:
        peer.send(Kind.DONE, frame.request)

    def on_want(self, _: Peer, frame: Frame) -> None:
        self.wants.append(decode(frame.control, messages.Want).bytes)

    def grant(self, peer: Peer, size: int) -> None:
        peer.granted_bytes += size
        peer.send(Kind.GRANT, 0, encode(messages.Grant(size)))

    def on_publish(self, peer: Peer, frame: Frame) -> None:
        data = bytes(frame.attachment)
        batch = Batch(peer, frame.request, data, read_header(data))
        self.batches.append(batch)
        peer.unanswered_bytes += len(data)
        if peer.unanswered_bytes > self.publish_credit + peer.granted_bytes:
            raise ProtocolError("the client is over its credit")
        if not self.is_holding:
            self.answer(batch)

    def answer(self, batch: Batch) -> None:
        header = batch.header
        batch.connection.unanswered_bytes -= len(batch.data)
        if self.refusals:
            batch.connection.refuse(batch.request, self.refusals.pop(0))
            return
        key = (header.producer_id, header.producer_epoch, header.first_sequence)
        if key not in self.stored or header.producer_id == 0:
            self.stored[key] = self.end
            self.end += header.record_count
        published = hot.encode_published([hot.Published(batch.request, self.stored[key], 0)])
        batch.connection.send(Kind.PUBLISHED, 0, published)

    def on_subscribe(self, peer: Peer, frame: Frame) -> None:
        asked = decode(frame.control, messages.Subscribe)
        self.subscribed.append(asked)
        handle = len(self.subscribed)
        peer.flow[handle] = 0
        peer.send(Kind.SUBSCRIBED, frame.request, encode(messages.Subscribed(handle, handle, 0, TOPIC_ID, 0)))

    def on_flow(self, peer: Peer, frame: Frame) -> None:
        handle, count = hot.decode_flow(frame.control)
        peer.flow[handle] += count

    def deliver(
        self, handle: int, batch: bytes, without: tuple[tuple[int, int], ...] = (), generation: int = 0
    ) -> None:
        peer = next(peer for peer in reversed(self.peers) if handle in peer.flow)
        peer.flow[handle] -= len(batch)
        first = read_header(batch).base_offset
        head = hot.Deliver(handle, handle, generation, first, without)
        peer.send(Kind.DELIVER, 0, hot.encode_deliver(head), (batch,))

    def on_ack(self, peer: Peer, frame: Frame) -> None:
        self.acks.append(decode(frame.control, messages.Ack))
        if frame.request:
            peer.send(Kind.ACKED, frame.request)

    def on_consumer_close(self, peer: Peer, frame: Frame) -> None:
        peer.flow.pop(decode(frame.control, messages.CloseHandle).handle, None)
        peer.send(Kind.DONE, frame.request)

    async def drop(self) -> None:
        """Cut the connections; the port stays open."""
        for peer in self.peers:
            with suppress(OSError):
                peer.transport.abort()
        await self.until(lambda: all(peer.is_lost for peer in self.peers))
