"""The client: one link to a broker, and what is opened on it."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator
from datetime import datetime
from types import TracebackType
from typing import NamedTuple

from pydanube.model import SystemClock, parse_subscription, parse_topic
from pydanube.model.errors import InvalidRequest, TopicMismatch, UnknownTopic
from pydanube.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KIB, MIB
from pydanube.records import Codec, Records, encode_batch
from pydanube.wire import Kind, messages

from .address import parse_url
from .admin import Admin, TopicOffsets
from .batching import BATCH_BYTES_DEFAULT, BATCH_COUNT_DEFAULT
from .consumer import Consumer, next_consumer_number
from .lane import Lane, LaneSettings
from .link import Link
from .producer import Producer
from .reader import Cursor, read
from .received import ReceivedBatch
from .source import Source
from .times import microseconds, parse_start, start_text

LINGER_MS_DEFAULT = 1.0
DELIVERY_TIMEOUT_S_DEFAULT = 120.0
BUFFER_BYTES_DEFAULT = 32 * MIB
RECEIVE_BYTES_DEFAULT = 8 * MIB
RECEIVE_BYTES_LEAST = 64 * KIB  # for one partition of many
_CODECS = {None: Codec.NONE, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_numbers = itertools.count(1)


class Health(NamedTuple):
    broker: str
    address: str
    round_trip_s: float


class Client(Admin):
    """Made by `connect`. The first call, or `async with`, makes the connection; it is kept until `close`."""

    def __init__(self, url: str) -> None:
        self._link = Link(parse_url(url), f"pydanube {os.getpid()}")
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []

    async def __aenter__(self) -> "Client":
        await self._link.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.abandon()

    async def health(self) -> Health:
        """One round trip."""
        connection = await self._link.connection()
        started = time.monotonic()
        await connection.question(Kind.PING, Kind.PONG, b"")
        elapsed_s = time.monotonic() - started
        return Health(connection.welcomed.result().broker, str(self._link.address), elapsed_s)

    async def producer(
        self,
        topic: str,
        *,
        reliable: bool = True,
        partitions: int | None = None,
        compression: str | None = None,
        linger_ms: float = LINGER_MS_DEFAULT,
        name: str | None = None,
        idempotent: bool = True,
        durability: str = "fsync",
        batch_bytes: int = BATCH_BYTES_DEFAULT,
        batch_count: int = BATCH_COUNT_DEFAULT,
        buffer_bytes: int = BUFFER_BYTES_DEFAULT,
        delivery_timeout: float = DELIVERY_TIMEOUT_S_DEFAULT,
    ) -> Producer:
        """Open a producer. A topic that does not exist is created, with `partitions` if they are asked for.

        `batch_bytes` and `batch_count` say when a batch is full, `linger_ms` how long one waits to be while others are
        under way; `buffer_bytes` is what the producer may hold; what is not answered within `delivery_timeout` seconds
        has failed.
        """
        if not 0 < batch_bytes <= BATCH_BYTES_MAX or not 0 < batch_count <= BATCH_RECORDS_MAX:
            raise InvalidRequest(f"a batch has 1 to {BATCH_BYTES_MAX} bytes and 1 to {BATCH_RECORDS_MAX} messages")
        names = await self._names_to_open(topic, partitions)
        is_partitioned = parse_topic(names[0]).partition is not None
        settings = LaneSettings(
            topic=messages.TopicSettings(reliable, len(names) if is_partitioned else 0, durability),
            name=name or f"producer-{os.getpid()}-{next(_numbers)}",
            name_in_messages=name,
            # What is not stored is sent at most once: resending it could only make duplicates.
            is_idempotent=idempotent and reliable,
            codec=_codec(compression),
            linger_s=linger_ms / 1000,
            batch_bytes=batch_bytes,
            batch_count=batch_count,
            delivery_timeout_s=delivery_timeout,
        )
        producer = Producer(self._link, str(parse_topic(topic)), buffer_bytes, batch_bytes, batch_count)
        now_us = SystemClock().now_us
        await producer.open([Lane(self._link, parse_topic(each), settings, now_us, producer.on_done) for each in names])
        self._producers = [*(each for each in self._producers if not each.is_closed), producer]
        return producer

    async def _names_to_open(self, topic: str, partitions: int | None) -> list[str]:
        """The topics that a producer publishes to: one, or the partitions."""
        found = await self._lookup(topic)
        name = parse_topic(topic)
        if not found.partitions:
            if partitions is None:
                return [str(name)]
            if partitions < 1:
                raise InvalidRequest(f"a topic has at least one partition, not {partitions}")
            return [str(name.with_partition(number)) for number in range(partitions)]
        if partitions is not None:
            there = len(found.partitions) if found.is_partitioned else 0
            if partitions != there:
                raise TopicMismatch(f"topic {name} has {there} partitions, not {partitions}")
        return found.partitions

    async def subscribe(
        self,
        topic: str,
        name: str,
        *,
        type: str = "exclusive",
        start: str | int | datetime = "latest",
        receive_bytes: int = RECEIVE_BYTES_DEFAULT,
    ) -> Consumer:
        """Open a consumer on the subscription `name`, which is created if it is new.

        A new subscription begins at `start`: earliest, latest, an offset or a time. `receive_bytes` is what the broker
        may send ahead of the user.
        """
        subscription = parse_subscription(name)
        found = await self._lookup(topic)
        if not found.partitions:
            raise UnknownTopic(f"there is no topic {found.topic}")
        number = next_consumer_number()
        consumer = Consumer(self._link, found.topic, subscription, number)
        flow_bytes = max(receive_bytes // len(found.partitions), RECEIVE_BYTES_LEAST)
        who = f"consumer-{os.getpid()}-{number}"
        sources = [
            Source(
                messages.Subscribe(each, subscription, start_text(start), who, type),
                (number, index),
                flow_bytes,
                found.is_reliable,
                consumer.on_news,
            )
            for index, each in enumerate(found.partitions)
        ]
        await consumer.open(sources)
        self._consumers = [*(each for each in self._consumers if not each.is_closed), consumer]
        return consumer

    async def read(
        self, topic: str, start: str | int | datetime = "earliest", stop: str | int | None = "latest"
    ) -> AsyncIterator[ReceivedBatch]:
        """Messages by offset, without a subscription: up to where the topic ends now, to an offset, or, with None, on
        and on. Partitions are read in turn."""
        if not (stop is None or stop == "latest" or isinstance(stop, int)):
            raise InvalidRequest(f"a stop is 'latest', an offset or None, not {stop!r}")
        begin = parse_start(start)
        times = [begin] if isinstance(begin, datetime) else []
        cursors = [
            Cursor(
                parse_topic(each.topic),
                each.topic_id,
                _first_offset(begin, each),
                each.latest if stop == "latest" else stop if isinstance(stop, int) else None,
            )
            for each in await self.offsets(topic, [microseconds(time) for time in times])
        ]
        async for batch in read(self._link, cursors):
            yield batch

    async def close(self) -> None:
        """Flush and close everything that was opened. PublishErrors if posted messages could not be stored."""
        closing = [*(producer.close() for producer in self._producers), *(each.close() for each in self._consumers)]
        self._producers, self._consumers = [], []
        try:
            results = await asyncio.gather(*closing, return_exceptions=True)
        finally:
            await self._link.close()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def abandon(self) -> None:
        """Close at once: what is not answered has failed."""
        closing = [
            *(producer.abandon() for producer in self._producers),
            *(each.abandon() for each in self._consumers),
        ]
        self._producers, self._consumers = [], []
        await asyncio.gather(*closing, return_exceptions=True)
        await self._link.close()


def connect(url: str) -> Client:
    """A client for `danube://host:6651`, or several hosts of which the first that answers is used."""
    return Client(url)


def _codec(compression: str | None) -> Codec:
    codec = _CODECS.get(compression)
    if codec is None:
        raise InvalidRequest(f"compression is lz4, zstd or None, not {compression!r}")
    if codec is not Codec.NONE:
        encode_batch(Records(payloads=[b""]), topic_id=0, codec=codec)  # the library may be missing: say so now
    return codec


def _first_offset(begin: str | int | datetime, offsets: TopicOffsets) -> int:
    if isinstance(begin, datetime):
        return offsets.at_times[0]
    if isinstance(begin, int):
        return begin
    return offsets.earliest if begin == "earliest" else offsets.latest
