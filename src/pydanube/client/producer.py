"""A producer: one lane for each partition, one budget of bytes for all of them."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain
from os import getpid

from pydanube.model import Buffer
from pydanube.model.errors import BufferFull, ClientClosed, DanubeError, MessageTooLarge

from .batching import MESSAGE_BYTES_MORE, Columns, Parcel, check_message
from .errors import Failures
from .lane import Lane
from .link import Link
from .routing import Router
from .sent import FlushReceipt, ManyReceipts, SendReceipt, SentMany, SentMessage
from .times import microseconds

LANE_BATCHES_MAX = 40  # of send_many at a time: those that may be under way, and some that are ready to follow


class Producer:
    """Made by `Client.producer`. It belongs to the event loop that it was made on."""

    def __init__(self, link: Link, topic: str, buffer_bytes: int, batch_bytes: int, batch_count: int) -> None:
        self.topic = topic
        self._link = link
        self._process = getpid()  # asked for with every message, so without a call more
        self._lanes: list[Lane] = []
        self._only_lane: Lane | None = None
        self._router = Router(1)
        self._bytes = 0  # given to the producer and not answered
        self._bytes_max = buffer_bytes
        self._batch_bytes = batch_bytes
        self._batch_count = batch_count
        self._message_bytes_max = 0
        self._waiting: deque[asyncio.Future[None]] = deque()  # for room
        self._failures = Failures()
        self._is_closed = False

    async def open(self, lanes: Sequence[Lane]) -> None:
        self._lanes = list(lanes)
        self._router = Router(len(lanes))
        self._only_lane = lanes[0] if len(lanes) == 1 else None
        try:
            for lane in lanes:
                await self._link.join(lane)
        except BaseException:
            await self.abandon()
            raise
        welcome = self._link.welcome
        if welcome is not None:
            self._message_bytes_max = welcome.message_bytes_max

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    # -- publishing ------------------------------------------------------------------------------------------------

    async def send(
        self,
        payload: Buffer,
        key: str | None = None,
        attributes: Mapping[str, str] | None = None,
        event_time: datetime | int | None = None,
    ) -> SentMessage:
        """Publish one message; returns when it is stored, with its place."""
        self._check()
        data, size = check_message(payload, key, attributes, self._message_bytes_max)
        event_time_us = None if event_time is None else microseconds(event_time)
        while self._bytes + size > self._bytes_max and self._bytes:
            await self._room()
        future: asyncio.Future[SentMessage] = asyncio.get_running_loop().create_future()
        lane = self._only_lane or self._lane(key)
        self._bytes += size
        receipt = SendReceipt(future, lane.base, lane.partition, lane.draft_count)
        if lane.add(data, key, attributes, event_time_us, size, receipt) and key is None:
            self._router.advance()
        return await future

    def post(
        self,
        payload: Buffer,
        key: str | None = None,
        attributes: Mapping[str, str] | None = None,
        event_time: datetime | int | None = None,
    ) -> None:
        """Queue one message without waiting. What becomes of it is told by `flush`.

        BufferFull when the producer holds as many bytes as it may: let the event loop run, or wait for `flush`.
        """
        self._check()
        if key is None and attributes is None and type(payload) is bytes and len(payload) <= self._message_bytes_max:
            size = len(payload) + MESSAGE_BYTES_MORE
        else:
            payload, size = check_message(payload, key, attributes, self._message_bytes_max)
        event_time_us = None if event_time is None else microseconds(event_time)
        if self._bytes + size > self._bytes_max and self._bytes:
            raise BufferFull(f"{self._bytes} bytes of messages wait to be acknowledged, the limit is {self._bytes_max}")
        self._bytes += size
        lane = self._only_lane or self._lane(key)
        if lane.add(payload, key, attributes, event_time_us, size, None) and key is None:
            self._router.advance()

    async def send_many(
        self,
        payloads: Sequence[Buffer],
        keys: Sequence[str | None] | None = None,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
        event_times: Sequence[datetime | int | None] | None = None,
    ) -> SentMany:
        """Publish many messages: the fast way, straight into batches. Returns when all of them are stored.

        If some cannot be stored, the first error is raised, and the others may be stored or not.
        """
        self._check()
        times_us = None
        if event_times is not None:
            times_us = [None if time is None else microseconds(time) for time in event_times]
        columns = Columns(
            payloads if isinstance(payloads, list) else [*payloads],
            None if keys is None else [*keys],
            None if attributes is None else [*attributes],
            times_us,
        )
        columns.check()
        receipts = ManyReceipts()
        if keys is None or self._only_lane is not None:
            for first, end, size in columns.divide(self._batch_bytes, self._batch_count):
                lane = self._lanes[self._router.current()]
                self._router.advance()
                if not await self._submit(lane, columns, (first, end, size), receipts, first):
                    break
            return await receipts.result(len(payloads), None)
        groups = self._router.by_partition(keys)
        self._router.advance()
        at = 0
        for lane, indexes in zip(self._lanes, groups, strict=True):
            picked = columns.pick(indexes)
            for first, end, size in picked.divide(self._batch_bytes, self._batch_count):
                if not await self._submit(lane, picked, (first, end, size), receipts, at + first):
                    break
            at += len(indexes)
        return await receipts.result(len(payloads), [*chain.from_iterable(groups)])

    async def _submit(
        self, lane: Lane, columns: Columns, part: tuple[int, int, int], receipts: ManyReceipts, at: int
    ) -> bool:
        """One batch of send_many, when there is room for it. False: another one has failed, so it ends here."""
        first, end, size = part
        if end - first == 1 and size - MESSAGE_BYTES_MORE > self._message_bytes_max:
            raise MessageTooLarge(f"a message of {size} bytes; at most {self._message_bytes_max} are allowed")
        while (self._bytes + size > self._bytes_max and self._bytes) or lane.window.batches >= LANE_BATCHES_MAX:
            await self._room()
            if receipts.error is not None:
                return False
        lane.seal()  # what was sent before comes before
        parcel = columns.parcel(first, end, size, *lane.new_parcel_times())
        parcel.receipts.append(receipts.expect(at, lane.base, lane.partition))
        self._bytes += size
        lane.submit(parcel)
        return True

    async def flush(self) -> None:
        """Wait until everything that was given to the producer before is answered.

        PublishErrors if posted messages could not be stored; a `send` that has failed tells its own caller.
        """
        self._link.home.check()
        ends = []
        for lane in self._lanes:
            lane.seal()
            if (last := lane.window.last()) is not None:
                ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                last.receipts.append(FlushReceipt(ended))
                ends.append(ended)
        for ended in ends:
            await ended
        if (errors := self._failures.take()) is not None:
            raise errors

    async def close(self) -> None:
        """Flush, then close. The producer is closed in any case."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.flush()
        finally:
            for lane in self._lanes:
                await lane.close()

    async def abandon(self) -> None:
        """Close without waiting: what is not answered has failed."""
        self._is_closed = True
        for lane in self._lanes:
            await lane.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        if getpid() != self._process:
            self._link.home.check()
        if self._is_closed:
            raise ClientClosed(f"the producer on {self.topic} is closed")

    def _lane(self, key: str | None) -> Lane:
        return self._lanes[self._router.current() if key is None else self._router.of_key(key)]

    async def _room(self) -> None:
        """Wait until something is answered. Drafts are sent first: nobody else would."""
        for lane in self._lanes:
            lane.seal()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def on_done(self, lane: Lane, parcel: Parcel, error: DanubeError | None) -> None:
        self._bytes -= parcel.bytes
        posted = parcel.count - parcel.awaited
        if error is not None and posted:
            self._failures.add(lane.topic, posted, error)
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
