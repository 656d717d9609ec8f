"""A subscription on a reliable topic: the shell around a dispatch window. It reads, sends and stores."""

import contextlib
from collections.abc import Callable
from functools import partial

from pydanube.model import DanubeError
from pydanube.model.errors import DataDamaged, OffsetOutOfRange, StorageFailed, SubscriptionBusy, UnknownTopic
from pydanube.storage import Cursor, StoredBatch
from pydanube.wire import hot

from .dispatch import ExclusiveWindow
from .outlet import Outlet
from .topic import ReliableTopic


class Subscription:
    """Alive while it has a consumer, or acks under way; its place is in the log."""

    def __init__(self, topic: ReliableTopic, name: str, subscription_id: int, start: int, delivery_bytes: int) -> None:
        self.topic = topic
        self.name = name
        self.subscription_id = subscription_id
        self.session = 0
        self._start = start
        self._delivery_bytes = delivery_bytes
        self._outlet: Outlet | None = None
        self._handle = 0
        self._is_reading = False
        self._is_pumping = False
        self.late_acks = 0
        durable = topic.host.log.cursors.get(topic.topic_id, subscription_id)
        cursor = Cursor(max(start, topic.first))
        if durable is not None:
            cursor = Cursor(durable.position, durable.generation, durable.above.items())
        self.window = ExclusiveWindow(cursor, topic.end)

    @property
    def generation(self) -> int:
        return self.window.cursor.generation

    @property
    def position(self) -> int:
        return self.window.cursor.position

    def join(self, outlet: Outlet, handle: int) -> None:
        if self._outlet is not None:
            raise SubscriptionBusy(f"subscription {self.name} on {self.topic.name} has a consumer already")
        self._outlet = outlet
        self._handle = handle
        self.session += 1
        self.topic.on_durable[self] = self._on_durable
        self.window.on_end(self.topic.end)
        self.window.on_join()

    def leave(self) -> None:
        self._outlet = None
        self.topic.on_durable.pop(self, None)
        self.window.on_leave()

    def flow(self, count: int) -> None:
        self.window.on_credit(count)
        self.pump()

    def _on_durable(self, end: int) -> None:
        self.window.on_end(end)
        self.pump()

    def pump(self) -> None:
        """Reads and sends for as long as the window wants to and the socket takes it."""
        if self._is_pumping:
            return  # a read was answered at once: the loop below goes on
        self._is_pumping = True
        try:
            while not self._is_reading and self._outlet is not None and self._outlet.has_room:
                offset = self.window.read_from()
                if offset is None:
                    return
                self._is_reading = True
                bytes_max = min(self._delivery_bytes, max(self.window.credit, 1))
                self.topic.read(offset, bytes_max, partial(self._on_read, self.session, offset))
        finally:
            self._is_pumping = False

    def _on_read(self, session: int, offset: int, batches: list[StoredBatch], error: DanubeError | None) -> None:
        self._is_reading = False
        if session != self.session or self._outlet is None:
            return  # the consumer has gone meanwhile
        if error is not None:
            self._on_read_error(offset, error)
            return
        delivery = self.window.on_batches(batches)
        if delivery is not None:
            first = delivery.batches[0].first_offset
            head = hot.Deliver(self._handle, self.session, self.generation, first, delivery.without)
            self._outlet.deliver(head, [batch.data for batch in delivery.batches])
        self.pump()

    def _on_read_error(self, offset: int, error: DanubeError) -> None:
        """What is lost is passed over, so that the rest can be consumed; what may come back is left for later."""
        if isinstance(error, DataDamaged):
            self._skip(offset, error.end_offset if error.end_offset is not None else offset + 1)
        elif isinstance(error, OffsetOutOfRange):
            self._skip(offset, self.topic.first)
        elif not isinstance(error, StorageFailed | UnknownTopic):
            raise error

    def _skip(self, first: int, end: int) -> None:
        end = min(end, self.topic.end)
        if end > first:
            self.window.on_lost(first, end)
            with contextlib.suppress(StorageFailed):  # not taken now: after a restart it is passed over again
                self.topic.host.log.cursors.ack(
                    self.topic.topic_id,
                    self.subscription_id,
                    self.generation,
                    [(first, end)],
                    lambda _offset, _error: None,
                    start=self._start,
                )
            self.topic.host.kick()
            self.pump()

    def ack(
        self, session: int, generation: int, ranges: list[tuple[int, int]], done: Callable[[DanubeError | None], None]
    ) -> None:
        """Acknowledges; `done` hears when it is durable. A late ack counts for nothing, and that is not an error."""
        if session != self.session:
            self.late_acks += 1
            done(None)
            return
        self.topic.host.log.cursors.ack(
            self.topic.topic_id,
            self.subscription_id,
            generation,
            ranges,
            lambda _offset, error: done(error),
            start=self._start,
        )
        was_at_bound = self.window.cursor.at_bound
        self.window.on_ack(generation, ranges)
        if was_at_bound and not self.window.cursor.at_bound:
            self.pump()
