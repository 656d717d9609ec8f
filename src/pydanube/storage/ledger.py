"""A topic as storage sees it: a managed ledger, that is a chain of ledgers, the cursors and the producers on it.

A ledger is a stretch of offsets with one writer epoch. It is open until it is closed for ever (by size, by age,
by a new writer); the next append opens another. Retention removes whole closed ledgers from the front.

This is the durable state. It changes only by the entries of durable rounds, by the same calls whether a round
has just become durable or is read again by recovery.
"""

from bisect import bisect_right
from typing import NamedTuple

import msgspec

from pydanube.model.errors import DataDamaged
from pydanube.model.limits import PRODUCERS_PER_TOPIC_MAX

from .cursor import Cursor
from .producers import UNKNOWN_SEQUENCE, Producer, Sent
from .ranges import RangeSet


class Ledger(msgspec.Struct, array_like=True, gc=False):
    first: int
    end: int
    epoch: int
    bytes: int
    opened_us: int  # append times of its first and last batch
    last_us: int
    first_file: int  # its bytes lie in these journal files (released batches may lie in older ones than others)
    last_file: int
    closed: bool = False


class BatchFacts(NamedTuple):
    """What the durable state needs to know of a batch."""

    first_offset: int
    record_count: int
    length: int
    ledger_epoch: int
    append_time_us: int
    producer_id: int
    producer_epoch: int
    first_sequence: int
    crc: int


class TopicState:
    __slots__ = ("cursors", "encoded", "end", "first", "gaps", "last_us", "ledgers", "producers", "topic_id")

    def __init__(self, topic_id: int, first: int = 0) -> None:
        self.topic_id = topic_id
        self.first = first  # below: gone by retention
        self.end = first  # durable end
        self.last_us = 0
        self.ledgers: list[Ledger] = []
        self.gaps = RangeSet()  # lost to damage
        self.cursors: dict[int, Cursor] = {}
        self.producers: dict[int, Producer] = {}
        self.encoded: bytes | None = None  # the checkpoint's form, while nothing has changed since

    @property
    def open_ledger(self) -> Ledger | None:
        return self.ledgers[-1] if self.ledgers and not self.ledgers[-1].closed else None

    @property
    def has_closed_ledger(self) -> bool:
        return bool(self.ledgers) and self.ledgers[0].closed

    @property
    def first_file(self) -> int | None:
        """The oldest journal file that this topic still needs."""
        return min((ledger.first_file for ledger in self.ledgers), default=None)

    def extend(
        self, first: int, count: int, length: int, epoch: int, time_us: int, file_number: int, oldest_file: int
    ) -> None:
        """Messages [first, first + count) are durable. A jump in the offsets is what damage has left: a gap."""
        self.encoded = None
        if first > self.end:
            self.mark_lost(self.end, first)
        elif first < self.end:
            self._give_back(first)
        ledger = self.open_ledger
        if ledger is not None and (ledger.epoch != epoch or ledger.end != first):
            ledger.closed = True
            ledger = None
        if ledger is None:
            ledger = Ledger(first, first, epoch, 0, time_us, time_us, oldest_file, file_number)
            self.ledgers.append(ledger)
        ledger.end = self.end = first + count
        ledger.bytes += length
        ledger.last_us = self.last_us = max(time_us, self.last_us)
        ledger.first_file = min(ledger.first_file, oldest_file)
        ledger.last_file = file_number

    def add_batch(self, facts: BatchFacts, file_number: int) -> None:
        self.extend(
            facts.first_offset,
            facts.record_count,
            facts.length,
            facts.ledger_epoch,
            facts.append_time_us,
            file_number,
            file_number,
        )
        if facts.producer_id:
            self._record_producer(facts)

    def _record_producer(self, facts: BatchFacts) -> None:
        producer = self.producers.pop(facts.producer_id, None)
        if producer is None:
            producer = Producer(facts.producer_id, facts.producer_epoch, 0, 0, [])
            if len(self.producers) >= PRODUCERS_PER_TOPIC_MAX:
                del self.producers[next(iter(self.producers))]
        # Taken out and put back: the dictionary stays ordered by last use, so the first is the idlest.
        self.producers[facts.producer_id] = producer
        sent = Sent(facts.first_sequence, facts.record_count, facts.crc, facts.first_offset)
        producer.record(facts.producer_epoch, sent, facts.append_time_us)

    def mark_lost(self, first: int, end: int) -> None:
        """Damage: these offsets were given to messages that are gone. They are never given again."""
        self.encoded = None
        self.gaps.add(first, end)  # an empty range adds nothing
        if end > self.end:
            self.close_ledger()
            self.end = end
        # Whatever the lost batches said of their producers is lost too: a resend must not pass for a new batch.
        for producer in self.producers.values():
            producer.next_sequence = UNKNOWN_SEQUENCE

    def _give_back(self, first: int) -> None:
        """A loss was taken for larger than it was: the writer went on at `first`, so nothing above was lost."""
        if not self.ledgers and first < self.first:  # nor was anything lost below, if it is the topic's beginning
            self.first = self.end = 0
            self.mark_lost(0, first)
            return
        gap = self.gaps.containing(first)
        if gap is None or gap[1] != self.end:
            raise DataDamaged(f"topic {self.topic_id:016x} has two messages at offset {first}")
        self.gaps.cut_from(first)
        self.end = first

    def close_ledger(self) -> None:
        ledger = self.open_ledger
        if ledger is not None:
            self.encoded = None
            ledger.closed = True

    def trim(self, first: int) -> None:
        """Retention: whole ledgers below `first` go."""
        if first <= self.first:
            return
        self.encoded = None
        self.first = self.gaps.take_prefix(first)  # a gap that begins here has nothing to keep either
        while self.ledgers and self.ledgers[0].end <= self.first:
            del self.ledgers[0]
        self.end = max(self.end, self.first)

    def ledger_at(self, offset: int) -> Ledger | None:
        at = bisect_right(self.ledgers, offset, key=lambda ledger: ledger.first) - 1
        return self.ledgers[at] if at >= 0 and offset < self.ledgers[at].end else None


class _TopicForm(msgspec.Struct, array_like=True):
    """A topic in a checkpoint."""

    topic_id: int
    first: int
    end: int
    last_us: int
    ledgers: list[Ledger]
    gaps: list[tuple[int, int]]
    cursors: list[tuple[int, int, int, list[tuple[int, int]]]]  # subscription id, generation, position, ranges
    producers: list[Producer]


_decoder = msgspec.msgpack.Decoder(_TopicForm)
_encoder = msgspec.msgpack.Encoder()


def encode_topic(topic: TopicState) -> bytes:
    if topic.encoded is None:
        cursors = [
            (number, cursor.generation, cursor.position, cursor.above.items())
            for number, cursor in topic.cursors.items()
        ]
        form = _TopicForm(
            topic.topic_id,
            topic.first,
            topic.end,
            topic.last_us,
            topic.ledgers,
            topic.gaps.items(),
            cursors,
            list(topic.producers.values()),
        )
        topic.encoded = _encoder.encode(form)
    return topic.encoded


def decode_topic(data: bytes | msgspec.Raw) -> TopicState:
    form = _decoder.decode(data)
    topic = TopicState(form.topic_id, form.first)
    topic.end = form.end
    topic.last_us = form.last_us
    topic.ledgers = form.ledgers
    for start, end in form.gaps:
        topic.gaps.add(start, end)
    topic.cursors = {
        number: Cursor(position, generation, above) for number, generation, position, above in form.cursors
    }
    topic.producers = {producer.producer_id: producer for producer in form.producers}
    return topic
