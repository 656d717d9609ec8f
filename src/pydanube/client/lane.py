"""A producer's lane to one topic or partition: collects messages, sends batches, sends them again when it has to."""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pydanube.model import TopicName
from pydanube.model.errors import ClientClosed, ConnectionLost, DanubeError, InvalidRequest, UnknownProducer
from pydanube.records import Codec
from pydanube.wire import Kind, encode, messages

from .batching import Identity, Parcel, Receipt
from .connection import PRODUCER, Connection
from .link import Link
from .retry import Backoff
from .window import Verdict, Window

_NOBODY = Identity(0, 0, 0)  # not opened yet, or given up: the broker gives a new id


@dataclass(frozen=True)
class LaneSettings:
    topic: messages.TopicSettings
    name: str  # what the broker is told
    name_in_messages: str | None
    is_idempotent: bool
    codec: Codec
    linger_s: float
    batch_bytes: int
    batch_count: int
    delivery_timeout_s: float


class Lane:
    def __init__(
        self,
        link: Link,
        topic: TopicName,
        settings: LaneSettings,
        now_us: Callable[[], int],
        on_done: Callable[["Lane", Parcel, DanubeError | None], None],
    ) -> None:
        self.topic = str(topic)
        self.base = str(topic.base)  # what users call it
        self.partition = topic.partition
        self.window = Window(settings.is_idempotent)
        self._link = link
        self._settings = settings
        self._batch_bytes = settings.batch_bytes
        self._batch_count = settings.batch_count
        self._now_us = now_us
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._draft: Parcel | None = None  # being filled
        self._connection: Connection | None = None  # while the producer is open on it
        self._handle = 0
        self._identity = _NOBODY
        self._attaching = asyncio.Lock()
        self._backoff = Backoff(random.random)
        self._pause: asyncio.TimerHandle | None = None  # before sending again
        self._deadline: asyncio.TimerHandle | None = None
        self._error: DanubeError | None = None  # the end of it

    # -- messages in -----------------------------------------------------------------------------------------------

    def add(
        self,
        payload: bytes,
        key: str | None,
        attributes: Mapping[str, str] | None,
        event_time_us: int | None,
        size: int,
        receipt: Receipt | None,
    ) -> bool:
        """One message. Whether it was the last one of its batch."""
        draft = self._draft
        if draft is None:
            draft = self._new_draft()
        if receipt is not None:
            draft.receipts.append(receipt)
            draft.awaited += 1
        draft.add(payload, key, attributes, event_time_us, size)
        if draft.bytes < self._batch_bytes and draft.count < self._batch_count:
            return False
        self.seal()
        return True

    @property
    def draft_count(self) -> int:
        """The index that the next message will have in its batch."""
        return 0 if self._draft is None else self._draft.count

    def new_parcel_times(self) -> tuple[int, float]:
        """Publish time and deadline of a parcel that is made now."""
        return self._now_us(), self._loop.time() + self._settings.delivery_timeout_s

    def _new_draft(self) -> Parcel:
        self._check()
        draft = self._draft = Parcel(*self.new_parcel_times())
        if self.window.is_empty:
            # Nobody to wait for: it goes out as soon as the caller lets the loop run.
            self._loop.call_soon(self._linger_over, draft)
        else:
            self._loop.call_later(self._settings.linger_s, self._linger_over, draft)
        return draft

    def _linger_over(self, draft: Parcel) -> None:
        if draft is self._draft:
            self.seal()

    def seal(self) -> None:
        """What was collected is a batch now."""
        if (draft := self._draft) is not None:
            self._draft = None
            self.submit(draft)

    def submit(self, parcel: Parcel) -> None:
        self._check()
        self.window.queued.append(parcel)
        if self._deadline is None:
            self._deadline = self._loop.call_at(parcel.deadline, self._on_deadline)
        self.pump()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    # -- batches out -----------------------------------------------------------------------------------------------

    def pump(self) -> None:
        connection, window = self._connection, self.window
        if connection is None or not connection.is_open or self._pause is not None:
            return
        while True:
            parcel = window.next_flight() or self._encode_next()
            if parcel is None:
                return
            if not connection.is_writable:
                connection.wait(self, len(parcel.data))
                return
            charge = connection.credit.take(len(parcel.data))
            if charge is None:
                self._want(connection, len(parcel.data))
                return
            window.sent(connection.publish(self, self._handle, parcel, charge))

    def _encode_next(self) -> Parcel | None:
        while (parcel := self.window.next_queued()) is not None:
            settings = self._settings
            try:
                parcel.encode(self._identity, self.window.next_sequence, settings.codec, settings.name_in_messages)
            except (DanubeError, TypeError, AttributeError) as error:
                self.window.queued.popleft()
                wrong = error if isinstance(error, DanubeError) else InvalidRequest(f"this cannot be sent: {error}")
                self._failed([parcel], wrong)
                continue
            self.window.encoded()
            return parcel
        return None

    def _want(self, connection: Connection, size: int) -> None:
        connection.wait(self, size + sum(parcel.bytes for parcel in self.window.queued))
        if (wanted := connection.credit.want(connection.waiting_bytes)) is not None:
            connection.tell(Kind.WANT, encode(messages.Want(wanted)))

    # -- answers ---------------------------------------------------------------------------------------------------

    def published(self, parcel: Parcel, first_offset: int) -> None:
        if self.window.published(parcel):
            self._backoff.reset()
            parcel.published(first_offset)
            self._on_done(self, parcel, None)
        if self._draft is not None and self.window.is_empty:
            self.seal()
        else:
            self.pump()

    def refused(self, parcel: Parcel, request: int, error: DanubeError) -> None:
        verdict = self.window.refused(parcel, request, error)
        if verdict is Verdict.AGAIN:
            if self._pause is None:
                self._pause = self._loop.call_later(self._backoff.next_s(), self._pause_over)
        elif verdict is Verdict.FAIL_ONE:
            self._failed([parcel], error)
        elif verdict is Verdict.RENEW:
            self._renew(self.window.renew(), error)
        elif verdict is Verdict.STOP:
            self._link.leave(self)
            self.fail(error)
        self.pump()

    def _pause_over(self) -> None:
        self._pause = None
        self.pump()

    def _on_deadline(self) -> None:
        """Timers are not moved with every batch: this one looks whose time is over and sleeps until the next one's."""
        self._deadline = None
        had_flights = bool(self.window.flights)
        overdue = self.window.overdue(self._loop.time())
        if overdue:
            error = ConnectionLost(f"no answer from the broker within {self._settings.delivery_timeout_s:.0f} s")
            if had_flights and not self.window.flights:
                self._renew(overdue, error)
            else:
                self._failed(overdue, error)
        first = self.window.flights or self.window.queued
        if first:
            self._deadline = self._loop.call_at(first[0].deadline, self._on_deadline)

    def _renew(self, failed: list[Parcel], error: DanubeError) -> None:
        """The broker would not take what follows from this producer: go on as a new one."""
        self._identity = _NOBODY
        if self._connection is not None:
            self._connection.question(Kind.PRODUCER_CLOSE, Kind.DONE, encode(messages.CloseHandle(self._handle)))
            self._connection = None
        self._failed(failed, error)
        self._link.reattach(self)

    def _failed(self, parcels: list[Parcel], error: DanubeError) -> None:
        for parcel in parcels:
            parcel.failed(error)
            self._on_done(self, parcel, error)

    # -- the connection --------------------------------------------------------------------------------------------

    async def attach(self, connection: Connection) -> None:
        async with self._attaching:
            opened = await self._open(connection)
            identity = Identity(opened.topic_id, opened.producer_id, opened.epoch)
            if not self._settings.is_idempotent:
                identity = Identity(opened.topic_id, 0, 0)
            if self._identity not in (_NOBODY, identity):
                text = f"topic {self.topic} was deleted and created again, or the broker has forgotten the producer"
                self._failed(self.window.renew(), UnknownProducer(text))
            self._identity = identity
            self._handle = opened.handle
            self._connection = connection
        self.pump()

    async def _open(self, connection: Connection) -> messages.ProducerOpen:
        settings = self._settings
        while True:
            known = self._identity
            name, topic = settings.name, settings.topic
            question = messages.OpenProducer(self.topic, name, topic, known.producer_id, known.epoch)
            try:
                opened = await connection.ask(PRODUCER, question)
            except UnknownProducer as error:
                if known == _NOBODY:
                    raise
                self._identity = _NOBODY
                self._failed(self.window.renew(), error)
                continue
            if known == self._identity:  # else it was given up meanwhile
                return opened

    def detach(self, error: DanubeError) -> None:
        self._connection = None
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._failed(self.window.disconnected(), error)

    def fail(self, error: DanubeError) -> None:
        """The end: everything that is here, and everything that comes, fails with this error."""
        self._error = error
        self._connection = None
        for timer in (self._pause, self._deadline):
            if timer is not None:
                timer.cancel()
        if (draft := self._draft) is not None:
            self._draft = None
            self.window.queued.append(draft)
        self._failed(self.window.abandon(), error)

    async def close(self) -> None:
        connection, handle = self._connection, self._handle
        self._link.leave(self)
        self.fail(ClientClosed(f"the producer on {self.topic} is closed"))
        if connection is not None and connection.is_open:
            with suppress(ConnectionLost):  # then it is closed by that
                await connection.question(Kind.PRODUCER_CLOSE, Kind.DONE, encode(messages.CloseHandle(handle)))
