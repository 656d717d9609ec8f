"""What a topic has accepted and is not yet durable: offsets, sequences and the open ledger, one step ahead.

It exists only while something is under way. When a round fails, it is thrown away, and the topic is where its
durable state says.
"""

from collections import deque
from collections.abc import Callable

from pydanube.model import SEQUENCE_MODULUS, Buffer, DanubeError
from pydanube.model.errors import Overloaded
from pydanube.model.limits import PRODUCER_BATCHES_IN_FLIGHT_MAX
from pydanube.records import BatchHeader

from .ledger import TopicState
from .producers import Sent, find_resend
from .rounds import Draft, Kind

Done = Callable[[int, DanubeError | None], None]
"""Called once, when the outcome is known: with the first offset (0 where there is none), or with the error."""


class Entry:
    """One entry on its way to the disk, and who waits for it."""

    __slots__ = ("body", "count", "done", "epoch", "first", "kind", "length", "parked", "producer", "sent", "topic_id")

    def __init__(
        self, kind: Kind, topic_id: int, body: Buffer, *, first: int = 0, count: int = 0, epoch: int = 0
    ) -> None:
        self.kind = kind
        self.topic_id = topic_id
        self.body = body
        self.length = len(body)
        self.first = first
        self.count = count
        self.epoch = epoch
        self.done: list[Done] = []
        self.producer: tuple[int, int] | None = None  # producer id and epoch of an idempotent batch
        self.sent: Sent | None = None
        self.parked: tuple[int, ...] = ()  # what a release is about to release

    def draft(self) -> Draft:
        return Draft(self.kind, self.topic_id, self.first, self.count, self.epoch, self.body)

    @property
    def depends_on_order(self) -> bool:
        """Whether it was accepted on top of others, so that it falls with them."""
        return self.kind in (Kind.BATCH, Kind.LEDGER_CLOSE, Kind.PARK, Kind.RELEASE, Kind.WRITER)

    def is_followed_by(self, header: BatchHeader) -> bool:
        """Whether a batch is the next one of the same producer."""
        if self.producer != (header.producer_id, header.producer_epoch) or self.sent is None:
            return False
        return header.first_sequence == (self.sent.first_sequence + self.sent.record_count) % SEQUENCE_MODULUS

    def finish(self, error: DanubeError | None) -> None:
        waiting, self.done = self.done, []
        for done in waiting:
            done(self.first, error)


class Acceptance:
    __slots__ = ("_producers", "last_us", "ledger_bytes", "ledger_opened_us", "next_offset", "under_way")

    def __init__(self, topic: TopicState, epoch: int) -> None:
        self.next_offset = topic.end
        self.last_us = topic.last_us
        ledger = topic.open_ledger
        if ledger is not None and ledger.epoch == epoch:
            self.ledger_bytes, self.ledger_opened_us = ledger.bytes, ledger.opened_us
        else:
            self.ledger_bytes, self.ledger_opened_us = 0, 0
        self.under_way = 0
        self._producers: dict[int, deque[Entry]] = {}

    def find_resend(self, topic: TopicState, header: BatchHeader) -> Sent | Entry | None:
        """The stored batch, or the entry under way, that this batch repeats; None if it is the next one."""
        waiting = self._producers.get(header.producer_id)
        if waiting is None:
            pending = []
        else:
            newest = waiting[-1]
            if newest.is_followed_by(header):
                if len(waiting) >= PRODUCER_BATCHES_IN_FLIGHT_MAX:
                    raise Overloaded(f"a producer may have {PRODUCER_BATCHES_IN_FLIGHT_MAX} batches under way")
                return None
            pending = [(entry.producer[1], entry.sent) for entry in waiting if entry.producer and entry.sent]
        sent = find_resend(
            topic.producers.get(header.producer_id),
            pending,
            header.producer_epoch,
            header.first_sequence,
            header.record_count,
            header.crc,
        )
        if sent is None:
            return None
        return next((entry for entry in waiting or () if entry.sent is sent), sent)

    def take(self, entry: Entry, time_us: int) -> None:
        """The entry gets the next offsets."""
        self.next_offset += entry.count
        self.last_us = time_us
        if not self.ledger_bytes:
            self.ledger_opened_us = time_us
        self.ledger_bytes += entry.length
        self.begin(entry)
        if entry.producer is not None:
            self._producers.setdefault(entry.producer[0], deque()).append(entry)

    def begin(self, entry: Entry) -> None:
        self.under_way += 1
        if entry.kind == Kind.LEDGER_CLOSE:
            self.ledger_bytes = self.ledger_opened_us = 0

    def settle(self, entry: Entry) -> bool:
        """The entry is durable; returns whether nothing is under way any more."""
        self.under_way -= 1
        if entry.producer is not None:
            waiting = self._producers[entry.producer[0]]
            waiting.popleft()
            if not waiting:
                del self._producers[entry.producer[0]]
        return self.under_way == 0
