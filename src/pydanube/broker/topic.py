"""Topics as the broker serves them: plain objects on the loop, made when first used.

A reliable topic stores a batch and answers when it is durable; its subscriptions read from the log at their own pace,
so publishing never waits for one. A non-reliable topic stores nothing: whoever listens and has credit gets the batch.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from pydanube.model import DanubeError, TopicName
from pydanube.model.errors import SubscriptionBusy, UnknownTopic
from pydanube.records import BatchHeader, check_batch, stamp
from pydanube.storage import Done
from pydanube.wire import hot

from .log_host import LogHost, ReadDone, read_batches
from .outlet import Outlet


class ReliableTopic:
    def __init__(
        self,
        name: TopicName,
        topic_id: int,
        host: LogHost,
        loop: asyncio.AbstractEventLoop,
        readers: Executor,
        batch_bytes_max: int,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.host = host
        self._loop = loop
        self._readers = readers
        self._batch_bytes_max = batch_bytes_max
        self.on_durable: dict[object, Callable[[int], None]] = {}  # active subscriptions
        self.is_deleted = False

    @property
    def first(self) -> int:
        return self.host.log.first_offset(self.topic_id)

    @property
    def end(self) -> int:
        return self.host.log.ends(self.topic_id).durable

    def publish(self, batch: memoryview, done: Done) -> BatchHeader:
        """Takes a batch from a producer, or raises. `done` hears when it is durable."""
        if self.is_deleted:
            raise UnknownTopic(f"topic {self.name} was deleted")
        header = check_batch(batch, topic_id=self.topic_id, batch_bytes_max=self._batch_bytes_max)
        self.host.log.append(self.topic_id, batch, header, done)
        return header

    def wake(self) -> None:
        """Something became durable."""
        if self.on_durable and not self.is_deleted:
            end = self.end
            for tell in list(self.on_durable.values()):
                tell(end)

    def read(self, offset: int, bytes_max: int, done: ReadDone) -> None:
        if self.is_deleted:
            done([], UnknownTopic(f"topic {self.name} was deleted"))
            return
        read_batches(self.host, self._loop, self._readers, self.topic_id, offset, bytes_max, done)


class TransientTopic:
    """A non-reliable topic. Offsets count what was published since the broker started."""

    def __init__(self, name: TopicName, topic_id: int, batch_bytes_max: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self._batch_bytes_max = batch_bytes_max
        self._consumers: dict[str, TransientConsumer] = {}
        self.is_deleted = False
        self.end = 0
        self.dropped = 0  # messages that a subscription did not get

    def publish(self, batch: memoryview, now_us: int) -> BatchHeader:
        if self.is_deleted:
            raise UnknownTopic(f"topic {self.name} was deleted")
        header = check_batch(batch, topic_id=self.topic_id, batch_bytes_max=self._batch_bytes_max)
        stamp(batch, self.end, 0, now_us)
        first = self.end
        self.end += header.record_count
        for consumer in self._consumers.values():
            if not consumer.deliver(first, batch):
                self.dropped += header.record_count
        return header

    def join(self, subscription: str, outlet: Outlet, handle: int) -> "TransientConsumer":
        if subscription in self._consumers:
            raise SubscriptionBusy(f"subscription {subscription} on {self.name} has a consumer already")
        consumer = self._consumers[subscription] = TransientConsumer(self, subscription, outlet, handle)
        return consumer

    def leave(self, subscription: str) -> None:
        self._consumers.pop(subscription, None)

    @property
    def subscriptions(self) -> list[str]:
        return sorted(self._consumers)


class TransientConsumer:
    """At most once: what finds no credit, or a socket that does not drain, is dropped and counted."""

    session = 1
    generation = 0

    def __init__(self, topic: TransientTopic, name: str, outlet: Outlet, handle: int) -> None:
        self._topic = topic
        self._name = name
        self._outlet = outlet
        self._handle = handle
        self._credit = 0

    @property
    def position(self) -> int:
        return self._topic.end

    def deliver(self, first: int, batch: memoryview) -> bool:
        if self._credit <= 0 or not self._outlet.has_room:
            return False
        self._credit -= len(batch)
        self._outlet.deliver(hot.Deliver(self._handle, self.session, self.generation, first), [batch])
        return True

    def flow(self, count: int) -> None:
        self._credit += count

    def ack(
        self,
        _session: int,
        _generation: int,
        _ranges: list[tuple[int, int]],
        done: Callable[[DanubeError | None], None],
    ) -> None:
        done(None)

    def pump(self) -> None:
        """Nothing waits."""

    def leave(self) -> None:
        self._topic.leave(self._name)


Topic = ReliableTopic | TransientTopic
