"""Accepting batches: sequence, offsets, stamp, and when a ledger is full."""

import heapq

from pydanube.model import Buffer, DanubeError
from pydanube.model.errors import StorageFailed
from pydanube.records import BatchHeader, stamp

from .acceptance import Acceptance, Done, Entry
from .core import Core
from .ledger import TopicState
from .producers import Sent
from .rounds import Kind


class Appender:
    def __init__(self, core: Core, ceiling: int) -> None:
        self._core = core
        self.ceiling = ceiling  # offsets from here on may not be given until the metadata has a higher one
        # A topic that is not known yet begins at the floor, so the floor counts too.
        self.offset_highest = max((core.state.floor, *(topic.end for topic in core.state.topics.values())))
        self._ledger_deadlines: list[tuple[int, int]] = []

    def append(self, topic_id: int, batch: Buffer, header: BatchHeader, done: Done) -> None:
        """Takes a batch that has passed `check_batch`, or raises. `done` hears when it is durable.

        The batch is stamped in place if it can be written to, else copied.
        """
        core = self._core
        core.check_room(header.length)
        topic = core.topic(topic_id)
        acceptance = core.acceptance(topic)
        if header.producer_id:
            resend = acceptance.find_resend(topic, header)
            if isinstance(resend, Entry):
                resend.done.append(done)
                return
            if resend is not None:
                done(resend.base_offset, None)
                return
        first = acceptance.next_offset
        self._check_ceiling(first + header.record_count)
        now_us = max(core.clock.now_us(), acceptance.last_us)
        self.close_if_full(topic, acceptance, header.length, now_us)
        if isinstance(batch, bytes) or (isinstance(batch, memoryview) and batch.readonly):
            batch = bytearray(batch)
        stamp(batch, first, core.epoch, now_us)
        entry = Entry(Kind.BATCH, topic_id, batch, first=first, count=header.record_count, epoch=core.epoch)
        entry.done.append(done)
        if header.producer_id:
            entry.producer = (header.producer_id, header.producer_epoch)
            entry.sent = Sent(header.first_sequence, header.record_count, header.crc, first)
        self.note_opened(topic_id, acceptance, now_us)
        acceptance.take(entry, now_us)
        core.submit(entry, acceptance)

    def _check_ceiling(self, end: int) -> None:
        if end > self.ceiling:
            raise StorageFailed(f"offset {end} is above the ceiling {self.ceiling} that the metadata allows so far")
        self.offset_highest = max(self.offset_highest, end)

    def give_offsets(self, acceptance: Acceptance, count: int) -> int:
        self._check_ceiling(acceptance.next_offset + count)
        return acceptance.next_offset

    def close_if_full(self, topic: TopicState, acceptance: Acceptance, length: int, now_us: int) -> None:
        settings = self._core.settings
        if not acceptance.ledger_bytes:
            return
        too_big = acceptance.ledger_bytes + length > settings.ledger_bytes
        too_old = now_us - acceptance.ledger_opened_us >= settings.ledger_age_us
        if too_big or too_old:
            self._close(topic.topic_id, acceptance)

    def _close(self, topic_id: int, acceptance: Acceptance) -> None:
        entry = Entry(Kind.LEDGER_CLOSE, topic_id, b"")

        def finished(_offset: int, error: DanubeError | None) -> None:
            if error is not None:  # its deadline may have passed already: look at it again
                heapq.heappush(self._ledger_deadlines, (0, topic_id))

        entry.done.append(finished)
        acceptance.begin(entry)
        self._core.submit(entry, acceptance)

    def note_opened(self, topic_id: int, acceptance: Acceptance, now_us: int) -> None:
        if not acceptance.ledger_bytes:
            deadline = now_us + self._core.settings.ledger_age_us
            heapq.heappush(self._ledger_deadlines, (deadline, topic_id))

    def close_aged(self, now_us: int) -> None:
        """Ends the ledgers of quiet topics when their time is up, so that retention can take them."""
        while self._ledger_deadlines and self._ledger_deadlines[0][0] <= now_us:
            _, topic_id = heapq.heappop(self._ledger_deadlines)
            topic = self._core.state.topics.get(topic_id)
            if topic is None:
                continue
            acceptance = self._core.acceptance(topic)
            if acceptance.ledger_bytes and now_us - acceptance.ledger_opened_us >= self._core.settings.ledger_age_us:
                self._close(topic_id, acceptance)
