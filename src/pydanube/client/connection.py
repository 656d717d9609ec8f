"""One TCP connection to a broker: frames out, answers and news in. It decides nothing and remembers only questions."""

import asyncio
import socket
import sys
from collections import OrderedDict
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

from pydanube.model.errors import ConnectionLost, DanubeError, ProtocolError
from pydanube.model.limits import KIB, MIB
from pydanube.wire import (
    BROKER_MAY_SEND,
    PROTOCOL_VERSION,
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

from .batching import Parcel
from .credit import Credit

# Liveness is TCP's business: an event loop that is busy for a minute still has its connection.
KEEP_ALIVE_S, KEEP_ALIVE_EVERY_S, KEEP_ALIVE_TRIES = 60, 15, 4
UNACKNOWLEDGED_MS_MAX = 120_000  # keep-alive is silent while sent bytes wait for the peer's machine
OUTBOUND_BYTES_HIGH = 1 * MIB
JOINED_BYTES_MAX = 16 * KIB
_REQUEST_MAX = (1 << 32) - 1
A = TypeVar("A")


class Question(NamedTuple, Generic[A]):
    """A kind of question and what its answer is."""

    kind: Kind
    answer_kind: Kind
    answer: type[A]


LOOKUP = Question(Kind.LOOKUP, Kind.LOOKED_UP, messages.LookedUp)
LIST = Question(Kind.LIST, Kind.LISTED, messages.Listed)
ADMIN = Question(Kind.ADMIN, Kind.ADMINISTERED, messages.Administered)
OFFSETS = Question(Kind.OFFSETS, Kind.OFFSETS_ARE, messages.OffsetsAre)
PRODUCER = Question(Kind.PRODUCER, Kind.PRODUCER_OPEN, messages.ProducerOpen)
SUBSCRIBE = Question(Kind.SUBSCRIBE, Kind.SUBSCRIBED, messages.Subscribed)
# What a question opens that nobody waits for any more is closed again.
_CLOSED_BY: dict[Kind, tuple[Kind, type[messages.ProducerOpen] | type[messages.Subscribed]]] = {
    Kind.PRODUCER_OPEN: (Kind.PRODUCER_CLOSE, messages.ProducerOpen),
    Kind.SUBSCRIBED: (Kind.CONSUMER_CLOSE, messages.Subscribed),
}


class Carrier(Protocol):
    """Who sends batches."""

    def published(self, parcel: Parcel, first_offset: int) -> None: ...
    def refused(self, parcel: Parcel, request: int, error: DanubeError) -> None: ...
    def pump(self) -> None: ...


class Receiving(Protocol):
    """Who is delivered to."""

    def delivered(self, deliver: hot.Deliver, batches: memoryview) -> None: ...


class _Sent(NamedTuple):
    carrier: Carrier
    parcel: Parcel
    charge: int


class Connection(asyncio.BufferedProtocol):
    def __init__(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        self.welcomed: asyncio.Future[messages.Welcome] = loop.create_future()
        self.closed: asyncio.Future[DanubeError] = loop.create_future()
        self.is_open = False  # greeted, and not closed or about to be
        self.is_writable = True
        self.credit = Credit(0)
        self.consumers: dict[int, Receiving] = {}
        self._name = name
        self._receiver = Receiver(BROKER_MAY_SEND)
        self._transport: asyncio.Transport
        self._last_request = 0
        self._questions: dict[int, tuple[Kind, asyncio.Future[Frame]]] = {}
        self._sent: dict[int, _Sent] = {}
        # For credit or for the socket, in the order of their turn, each with the bytes that it has ready.
        self._waiting: OrderedDict[Carrier, int] = OrderedDict()
        self.waiting_bytes = 0
        self._reason: DanubeError | None = None

    # -- what the others ask for -----------------------------------------------------------------------------------

    def question(self, kind: Kind, answer_kind: Kind, body: bytes) -> "asyncio.Future[Frame]":
        """The answer to come. It is sent at once, so questions are answered in the order of these calls."""
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_notice)
        if not self.is_open:
            answer.set_exception(self._lost())
            return answer
        request = self._number()
        self._questions[request] = (answer_kind, answer)
        self._write(kind, request, body)
        return answer

    async def ask(self, question: Question[A], message: messages.Message) -> A:
        frame = await self.question(question.kind, question.answer_kind, encode(message))
        return decode(frame.control, question.answer)

    def tell(self, kind: Kind, body: bytes) -> None:
        if self.is_open:
            self._write(kind, 0, body)

    def publish(self, carrier: Carrier, handle: int, parcel: Parcel, charge: int) -> int:
        """Send a batch whose credit is taken; returns the number of the question."""
        request = self._number()
        self._sent[request] = _Sent(carrier, parcel, charge)
        parts = frame_parts(Kind.PUBLISH, request, hot.encode_publish(handle), (parcel.data,))
        if len(parcel.data) < JOINED_BYTES_MAX:
            self._transport.writelines(parts)
        else:
            # asyncio before 3.12 joins the lines; for a large batch a second call is cheaper than a copy.
            for part in parts:
                self._transport.write(part)
        return request

    def wait(self, carrier: Carrier, ready_bytes: int) -> None:
        """Pump the carrier, which has so many bytes to send, when there is credit or the socket takes more."""
        self.waiting_bytes += ready_bytes - self._waiting.get(carrier, 0)
        self._waiting[carrier] = ready_bytes

    def close(self) -> None:
        if not self._transport.is_closing():
            self.tell(Kind.GOODBYE, b"")
            self.is_open = False
            self._reason = self._reason or ConnectionLost("the connection was closed by this client")
            self._transport.close()

    # -- what asyncio calls ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=OUTBOUND_BYTES_HIGH)
        _keep_alive(transport.get_extra_info("socket"))
        self._write(Kind.HELLO, 0, encode(messages.Hello(PROTOCOL_VERSION, self._name)))

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._receiver.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._receiver.received(nbytes):
                self._handle(frame)
        except DanubeError as error:
            self._end(error)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        reason = self._lost(exc)
        for _, answer in self._questions.values():
            if not answer.done():
                answer.set_exception(reason)
        self._questions.clear()
        self._sent.clear()
        if not self.welcomed.done():
            self.welcomed.set_exception(reason)
        self.closed.set_result(reason)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._pump()

    # -- frames ----------------------------------------------------------------------------------------------------

    def _handle(self, frame: Frame) -> None:
        kind = frame.kind
        if kind is Kind.DELIVER:
            deliver = hot.decode_deliver(frame.control)
            if (consumer := self.consumers.get(deliver.handle)) is not None:  # else it was closed meanwhile
                consumer.delivered(deliver, frame.attachment)
        elif kind is Kind.PUBLISHED:
            for request, first_offset, _ in hot.decode_published(frame.control):
                sent = self._answered(request)
                sent.carrier.published(sent.parcel, first_offset)
            self._pump()
        elif kind is Kind.GRANT:
            self.credit.grant(decode(frame.control, messages.Grant).bytes)
            self._pump()
        elif kind is Kind.WELCOME:
            welcome = decode(frame.control, messages.Welcome)
            self.credit = Credit(welcome.publish_credit)
            self.is_open = True
            if not self.welcomed.done():
                self.welcomed.set_result(welcome)
        elif kind is Kind.ERROR:
            self._on_error(frame)
        elif kind is Kind.GOODBYE:
            # What is under way is answered still; what comes from here on waits for the next connection.
            self.is_open = False
            self._reason = ConnectionLost("the broker is closing")
        else:
            self._on_answer(frame)

    def _on_answer(self, frame: Frame) -> None:
        answer_kind, answer = self._questions.get(frame.request, (None, None))
        if answer is None or answer_kind is not frame.kind:
            raise ProtocolError(f"a {frame.kind.name} frame answers no question that was asked")
        del self._questions[frame.request]
        if not answer.done():
            answer.set_result(frame)
        elif frame.kind in _CLOSED_BY:
            closing_kind, opened_kind = _CLOSED_BY[frame.kind]
            handle = decode(frame.control, opened_kind).handle
            self.question(closing_kind, Kind.DONE, encode(messages.CloseHandle(handle)))

    def _on_error(self, frame: Frame) -> None:
        error = error_from(decode(frame.control, messages.ErrorReply))
        if frame.request in self._sent:
            sent = self._answered(frame.request)
            sent.carrier.refused(sent.parcel, frame.request, error)
            self._pump()
        elif frame.request:
            _, answer = self._questions.pop(frame.request, (None, None))
            if answer is not None and not answer.done():
                answer.set_exception(error)
        else:
            self._end(error)

    def _answered(self, request: int) -> _Sent:
        sent = self._sent.pop(request, None)
        if sent is None:
            raise ProtocolError(f"an answer to batch {request}, which was not sent")
        self.credit.back(sent.charge)
        return sent

    def _pump(self) -> None:
        """In the order of waiting, until one has to wait again: then there is nothing for those behind it either."""
        while self._waiting:
            carrier = next(iter(self._waiting))
            self.waiting_bytes -= self._waiting.pop(carrier)
            carrier.pump()
            if carrier in self._waiting:
                self._waiting.move_to_end(carrier, last=False)
                return

    def _end(self, error: DanubeError) -> None:
        self._reason = self._reason or error
        self.is_open = False
        self._transport.abort()

    def _lost(self, cause: Exception | None = None) -> ConnectionLost:
        detail = self._reason or cause or "the broker closed it"
        return ConnectionLost(f"the connection to the broker is lost: {detail}")

    def _number(self) -> int:
        number = self._last_request
        while True:
            number = number + 1 if number < _REQUEST_MAX else 1
            if number not in self._sent and number not in self._questions:
                self._last_request = number
                return number

    def _write(self, kind: Kind, request: int, body: bytes) -> None:
        self._transport.write(b"".join(frame_parts(kind, request, body)))


def _notice(answer: "asyncio.Future[Frame]") -> None:
    """Whoever asked may have gone: an error that nobody waits for is none to complain about."""
    if not answer.cancelled():
        answer.exception()


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_EVERY_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEP_ALIVE_TRIES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS_MAX)
