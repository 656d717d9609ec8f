"""One client's connection: frames in, calls on the broker, frames out. Decides nothing.

What comes with every batch (PUBLISH, ACK, FLOW) is handled at once, in order; other questions run as tasks of the
broker. Reading never stops: a client that keeps to its credit cannot fill the broker's memory, and an ACK is never
stuck behind a PUBLISH.
"""

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydanube.model import Buffer, DanubeError
from pydanube.model.errors import InvalidRequest, Overloaded, ProtocolError
from pydanube.wire import (
    CLIENT_MAY_SEND,
    PROTOCOL_VERSION,
    Frame,
    Kind,
    Receiver,
    State,
    decode,
    encode,
    error_reply,
    frame_parts,
    hot,
    messages,
)

from .credit import SessionCredit
from .outlet import Attached
from .topic import ReliableTopic, Topic, TransientTopic

if TYPE_CHECKING:
    from .broker import Broker


class Session(asyncio.BufferedProtocol):
    def __init__(self, broker: "Broker", number: int) -> None:
        self._broker = broker
        self.number = number
        self._receiver = Receiver(CLIENT_MAY_SEND)
        self._transport: asyncio.Transport
        self._credit = SessionCredit(broker.settings.standing_credit_bytes)
        self._producers: dict[int, Topic] = {}
        self._consumers: dict[int, Attached] = {}
        self._handles = 0
        self._questions = 0
        self._published: list[hot.Published] = []
        self._is_paused = False
        self._is_closed = False
        self.drained = asyncio.Event()
        self.drained.set()
        self.client = ""

    # -- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        settings = self._broker.settings
        self._transport.set_write_buffer_limits(high=settings.outbound_bytes_max)
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._hello_timer = self._broker.loop.call_later(settings.hello_seconds, self._no_hello)
        self._broker.sessions[self.number] = self

    def _no_hello(self) -> None:
        if self._receiver.state is State.HELLO:
            self._fail(ProtocolError("no greeting came in time"))

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._handle(frame)
                if self._is_closed:
                    return
        except ProtocolError as error:
            self._fail(error)
        self._broker.after_read(self)

    def _fail(self, error: DanubeError) -> None:
        """The peer does not keep to the protocol: one answer, and the connection ends."""
        if not self._is_closed:
            self._broker.metrics.protocol_errors += 1
            self.send(Kind.ERROR, 0, encode(error_reply(error)))
            self._is_closed = True
            self._transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._is_closed = True
        self._hello_timer.cancel()
        for consumer in self._consumers.values():
            consumer.leave()
        self._consumers.clear()
        self._producers.clear()
        self.drained.set()
        self._broker.session_gone(self)

    def pause_writing(self) -> None:
        self._is_paused = True
        self.drained.clear()

    def resume_writing(self) -> None:
        self._is_paused = False
        self.drained.set()
        for consumer in list(self._consumers.values()):
            consumer.pump()

    def goodbye(self) -> None:
        if not self._is_closed:
            self.send(Kind.GOODBYE, 0, b"")

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._transport.close()

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, kind: Kind, request: int, control: bytes, attachments: Sequence[Buffer] = ()) -> None:
        if self._is_closed:
            return
        parts = frame_parts(kind, request, control, attachments)
        if attachments:
            self._transport.writelines(parts)
        else:
            self._transport.write(parts[0])

    def send_error(self, request: int, error: DanubeError) -> None:
        self.send(Kind.ERROR, request, encode(error_reply(error)))

    @property
    def has_room(self) -> bool:
        return not self._is_paused and not self._is_closed

    @property
    def outbound_bytes(self) -> int:
        """Waiting for the socket."""
        return 0 if self._is_closed else self._transport.get_write_buffer_size()

    def deliver(self, head: hot.Deliver, batches: Sequence[Buffer]) -> None:
        self._broker.metrics.delivered_bytes += sum(map(len, batches))
        self.send(Kind.DELIVER, 0, hot.encode_deliver(head), batches)

    def flush_published(self) -> None:
        """The answers of a round in one frame."""
        if self._published:
            answers, self._published = self._published, []
            self.send(Kind.PUBLISHED, 0, hot.encode_published(answers))

    # -- frames ---------------------------------------------------------------------------------------------------

    def _handle(self, frame: Frame) -> None:
        kind = frame.kind
        if kind is Kind.PUBLISH:
            self._publish(frame)
        elif kind is Kind.FLOW:
            handle, count = hot.decode_flow(frame.control)
            consumer = self._consumers.get(handle)
            if consumer is not None:  # else it was closed while this was on its way
                consumer.flow(count)
        elif kind is Kind.ACK:
            self._ack(frame)
        elif kind is Kind.HELLO:
            self._hello(frame)
        elif kind is Kind.WANT:
            self._broker.want(self, decode(frame.control, messages.Want).bytes)
        elif kind is Kind.PING:
            self.send(Kind.PONG, frame.request, b"")
        elif kind is Kind.PRODUCER_CLOSE:
            self._producers.pop(decode(frame.control, messages.CloseHandle).handle, None)
            self.send(Kind.DONE, frame.request, b"")
        elif kind is Kind.CONSUMER_CLOSE:
            consumer = self._consumers.pop(decode(frame.control, messages.CloseHandle).handle, None)
            if consumer is not None:
                consumer.leave()
            self.send(Kind.DONE, frame.request, b"")
        elif kind is Kind.GOODBYE:
            self.close()
        else:
            self._ask(frame.request, self._broker.answer(self, frame))

    def _hello(self, frame: Frame) -> None:
        hello = decode(frame.control, messages.Hello)
        if hello.version < 1:
            raise ProtocolError(f"version {hello.version} of the protocol is not known")
        self._hello_timer.cancel()
        self.client = hello.client
        settings = self._broker.settings
        welcome = messages.Welcome(
            min(hello.version, PROTOCOL_VERSION),
            self._broker.name,
            self._broker.frame_bytes_max,
            settings.message_bytes_max,
            settings.standing_credit_bytes,
        )
        self.send(Kind.WELCOME, frame.request, encode(welcome))

    def _ask(self, request: int, answer: Coroutine[Any, Any, None]) -> None:
        """A question that takes its time. Control bodies are decoded before the first wait."""
        if self._questions >= self._broker.settings.questions_max:
            answer.close()
            self.send_error(request, Overloaded(f"{self._questions} questions are open on this connection"))
            return
        self._questions += 1
        self._broker.spawn(self._finish(request, answer))

    async def _finish(self, request: int, answer: Coroutine[Any, Any, None]) -> None:
        try:
            await answer
        except ProtocolError as error:
            self._fail(error)
        except DanubeError as error:
            self.send_error(request, error)
        finally:
            self._questions -= 1

    def _publish(self, frame: Frame) -> None:
        request, batch = frame.request, frame.attachment
        topic = self._producers.get(hot.decode_publish(frame.control))
        if topic is None:
            self.send_error(request, InvalidRequest("there is no such producer on this connection"))
            return
        standing, granted = self._credit.take(len(batch))
        metrics = self._broker.metrics
        try:
            if isinstance(topic, TransientTopic):
                header = topic.publish(batch, self._broker.clock.now_us())
                self._answer(request, topic.end - header.record_count, standing, granted, None)
            else:
                started = self._broker.loop.time()
                header = topic.publish(
                    batch,
                    lambda offset, error: self._stored(topic, request, offset, standing, granted, started, error),
                )
        except DanubeError as error:
            self._answer(request, 0, standing, granted, error)
            return
        metrics.published_batches += 1
        metrics.published_messages += header.record_count
        metrics.published_bytes += len(batch)

    def _stored(
        self,
        topic: ReliableTopic,
        request: int,
        offset: int,
        standing: int,
        granted: int,
        started: float,
        error: DanubeError | None,
    ) -> None:
        if error is None:
            self._broker.metrics.publish_seconds.add(self._broker.loop.time() - started)
            self._broker.woken.add(topic)
        self._answer(request, offset, standing, granted, error)

    def _answer(self, request: int, offset: int, standing: int, granted: int, error: DanubeError | None) -> None:
        self._credit.give_back(standing)
        if granted and not self._is_closed:
            self._broker.answered(self, granted)
        if error is not None:
            self._broker.metrics.publish_errors += 1
            self.send_error(request, error)
        else:
            self._published.append(hot.Published(request, offset, 0))
            self._broker.unflushed.add(self)

    def grant(self, count: int) -> None:
        self._credit.grant(count)
        self.send(Kind.GRANT, 0, encode(messages.Grant(count)))

    def _ack(self, frame: Frame) -> None:
        ack = decode(frame.control, messages.Ack)
        consumer = self._consumers.get(ack.handle)
        request = frame.request

        def done(error: DanubeError | None) -> None:
            if request:
                if error is None:
                    self.send(Kind.ACKED, request, b"")
                else:
                    self.send_error(request, error)

        if consumer is None:
            done(None)  # late: its consumer is gone
            return
        try:
            consumer.ack(ack.session, ack.generation, ack.ranges, done)
        except DanubeError as error:
            self.send_error(request, error)

    # -- handles --------------------------------------------------------------------------------------------------

    def add_producer(self, topic: Topic) -> int:
        self._handles += 1
        self._producers[self._handles] = topic
        return self._handles

    def next_handle(self) -> int:
        self._handles += 1
        return self._handles

    def add_consumer(self, handle: int, consumer: Attached) -> None:
        if self._is_closed:
            consumer.leave()
        else:
            self._consumers[handle] = consumer
