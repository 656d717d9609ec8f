"""A consumer: the sources of one subscription, merged fairly. Messages by one or by the batch, acknowledgements."""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from os import getpid

from pydanube.model.errors import ClientClosed, InvalidAck, InvalidRequest
from pydanube.model.limits import BATCH_RECORDS_MAX, MIB

from .link import Link
from .received import Message, Origin, ReceivedBatch
from .source import Source

BATCH_BYTES_DEFAULT = 1 * MIB
_numbers = itertools.count(1)


def next_consumer_number() -> int:
    return next(_numbers)


class Consumer:
    """Made by `Client.subscribe`. It belongs to the event loop that it was made on."""

    def __init__(self, link: Link, topic: str, subscription: str, number: int) -> None:
        self.topic = topic
        self.subscription = subscription
        self._number = number
        self._link = link
        self._process = getpid()  # asked for with every message, so without a call more
        self._sources: list[Source] = []
        self._ready: deque[Source] = deque()  # sources with messages, in the order of their turn
        self._messages: deque[Message] = deque()  # of one source: decoded, and not yet seen by the user
        self._taken: ReceivedBatch | None = None  # what they are of
        self._news = asyncio.Event()  # something is ready, or will never be
        self._settled = asyncio.Event()  # an acknowledgement came
        self._is_closing = False
        self._is_closed = False

    async def open(self, sources: Sequence[Source]) -> None:
        self._sources = list(sources)
        try:
            for source in self._sources:
                await self._link.join(source)
        except BaseException:
            await self._leave()
            raise

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def state(self) -> str:
        """open | reconnecting | failed | closed"""
        if self._is_closed:
            return "closed"
        if any(source.error is not None for source in self._sources):
            return "failed"
        return "open" if all(source.is_attached for source in self._sources) else "reconnecting"

    # -- messages --------------------------------------------------------------------------------------------------

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Messages one by one, for ever; it ends when the consumer is closed, and raises when it cannot go on."""
        self._link.home.check()
        messages = self._messages
        while True:
            while messages:
                yield messages.popleft()
            if not await self._refill():
                return

    async def receive(self) -> Message:
        """The next message; ClientClosed when the consumer is closed."""
        self._link.home.check()
        while not self._messages:
            if not await self._refill():
                raise ClientClosed(f"the consumer on {self.topic} is closed")
        return self._messages.popleft()

    async def _refill(self) -> bool:
        """Wait until messages are decoded, by this task or another one. False: there will be no more."""
        while not self._messages:
            if (source := self._next_source()) is not None:
                self._taken = self._take(source, BATCH_RECORDS_MAX, 0)
                self._messages.extend(self._taken)
            elif not await self._more():
                return False
        return True

    async def batches(
        self, max_messages: int | None = None, max_bytes: int | None = None, max_wait: float = 0.0
    ) -> AsyncIterator[ReceivedBatch]:
        """Messages by the batch: what is here, up to the limits. `max_wait` seconds are given to fill a batch up."""
        self._link.home.check()
        count = BATCH_RECORDS_MAX if max_messages is None else max_messages
        size = BATCH_BYTES_DEFAULT if max_bytes is None else max_bytes
        if count < 1 or size < 1:
            raise InvalidRequest("a batch has at least one message of at least one byte")
        while True:
            self._put_back()
            if (source := self._next_source()) is None:
                if not await self._more():
                    return
                continue
            if max_wait > 0:
                await self._fill_up(source, count, size, max_wait)
                if not source.has_messages:
                    continue  # taken by another task, or lost with its connection and coming again
            yield self._take(source, count, size)

    def _next_source(self) -> Source | None:
        """The source with messages whose turn it is."""
        if self._is_closing:
            return None
        while self._ready and not self._ready[0].has_messages:
            self._ready.popleft()
        return self._ready[0] if self._ready else None

    async def _more(self) -> bool:
        """Wait for news. False: there will be none, the consumer is closed."""
        for source in self._sources:
            if source.error is not None:
                raise source.error
        if not self._is_closing:
            self._news.clear()
            await self._news.wait()
        return not self._is_closing

    async def _fill_up(self, source: Source, count: int, size: int, max_wait: float) -> None:
        try:
            async with asyncio.timeout(max_wait):
                while not self._is_closing and source.has_messages and not source.is_full(count, size):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return

    def _take(self, source: Source, count: int, size: int) -> ReceivedBatch:
        if self._ready and self._ready[0] is source:
            self._ready.rotate(-1)
        return source.take(count, size)

    def _put_back(self) -> None:
        """What was decoded for an iteration that went no further."""
        if self._messages and self._taken is not None:
            source = self._sources[self._taken.origin.source]
            source.put_back(self._taken.runs_from(self._messages[0].offset))
            self._messages.clear()
            if source not in self._ready:
                self._ready.appendleft(source)

    def on_news(self, source: Source) -> None:
        if self._messages and not self._is_current(self._messages[0]):
            self._messages.clear()  # not seen by the user yet, and of an older session: they come again
        if source.has_messages and source not in self._ready:
            self._ready.append(source)
        self._news.set()
        self._settled.set()

    def _is_current(self, message: Message) -> bool:
        return self._sources[message.origin.source].is_current(message.origin)

    # -- acknowledgements ------------------------------------------------------------------------------------------

    async def ack(self, what: Message | ReceivedBatch | Iterable[Message]) -> None:
        """Acknowledge. It is sent within milliseconds; `flush_acks` waits until it is durable."""
        if isinstance(what, Message):
            self._acknowledge(what.origin, what.offset, what.offset + 1)
        elif isinstance(what, ReceivedBatch):
            for first, end in what.offset_ranges:
                self._acknowledge(what.origin, first, end)
        else:
            for message in what:
                self._acknowledge(message.origin, message.offset, message.offset + 1)

    async def ack_up_to(self, message: Message) -> None:
        """Acknowledge this message and all that were handed out before it by the same topic or partition."""
        self._acknowledge(message.origin, 0, message.offset + 1)

    def _acknowledge(self, origin: Origin, first: int, end: int) -> None:
        if getpid() != self._process:
            self._link.home.check()
        if origin.consumer != self._number:
            raise InvalidAck("the message came from another consumer, or was read without a subscription")
        source = self._sources[origin.source]
        if source.is_current(origin):
            source.ack(first, end)
            self._settled.set()

    async def flush_acks(self) -> None:
        """Wait until everything acknowledged is durable. ConnectionLost if some of it was lost on the way: those
        messages come again."""
        self._link.home.check()
        for source in self._sources:
            await source.flush_acks()

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self, drain: float = 0.0) -> None:
        """Hand out nothing more, wait at most `drain` seconds for what was handed out, give the rest back at once."""
        if self._is_closing:
            return
        self._is_closing = True
        self._put_back()
        self._news.set()
        try:
            async with asyncio.timeout(drain):
                while not all(source.acks.is_settled for source in self._sources):
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            pass  # the rest goes to the next consumer
        try:
            await self.flush_acks()
        finally:
            await self._leave()

    async def abandon(self) -> None:
        """Close without waiting."""
        self._is_closing = True
        self._news.set()
        await self._leave()

    async def _leave(self) -> None:
        self._is_closed = True
        for source in self._sources:
            self._link.leave(source)
            await source.close()
