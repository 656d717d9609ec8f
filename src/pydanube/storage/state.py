"""Everything that rounds have made durable: topics, parked batches, writers. Changed by entries, one by one.

`apply` is the only way in. The live path calls it when a round has become durable and recovery calls it with
what it reads, so that a restart arrives at the state that was there. It tolerates what damage leaves behind: an
entry about something unknown changes nothing.
"""

from typing import NamedTuple

import msgspec

from pydanube.model import Buffer
from pydanube.records import read_header

from . import entries
from .cursor import Cursor
from .entries import PARK_HEAD_BYTES, WriterMove
from .ledger import BatchFacts, TopicState, decode_topic, encode_topic
from .rounds import Kind, Row


class Parked(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A batch that waits for its offsets. It pins its journal file."""

    parked_id: int
    topic_id: int
    owner: int
    expires_us: int
    due_us: int
    file_number: int
    position: int  # of the batch itself in the file
    length: int
    record_count: int


class Place(NamedTuple):
    """Where a round lies."""

    file_number: int
    position: int
    length: int

    @property
    def end(self) -> int:
        return self.position + self.length


def batch_facts(row: Row, body: Buffer) -> BatchFacts:
    header = read_header(body)
    return BatchFacts(
        row.first_offset,
        row.record_count,
        row.length,
        row.ledger_epoch,
        header.append_time_us,
        header.producer_id,
        header.producer_epoch,
        header.first_sequence,
        header.crc,
    )


def append_time(row: Row, body: Buffer) -> int:
    """Of the messages of a row that gives offsets."""
    return read_header(body).append_time_us if row.kind == Kind.BATCH else entries.decode_time(body)


class JournalState:
    def __init__(self) -> None:
        self.topics: dict[int, TopicState] = {}
        self.parked: dict[int, Parked] = {}
        self.parked_bytes = 0
        self.writers: dict[str, WriterMove] = {}
        # Deleted topics, and the last file that may mention them: until that file is gone, so must they stay.
        self.deleted: dict[int, int] = {}
        self.floor = 0  # where a topic begins that is not known yet; above 0 only after a loss of unknown extent
        self.orphans: dict[int, int] = {}  # topics that the metadata does not know, and since when

    def topic(self, topic_id: int) -> TopicState:
        topic = self.topics.get(topic_id)
        if topic is None:
            topic = self.topics[topic_id] = TopicState(topic_id, self.floor)
        return topic

    def lose(self, topic_id: int, first: int, end: int) -> None:
        """Offsets that damage took. Topic 0 stands for those that are not known here: they begin above `end`."""
        if topic_id == 0:
            self.floor = max(self.floor, end)
        else:
            self.topic(topic_id).mark_lost(first, end)

    def apply(self, row: Row, body: Buffer, place: Place) -> None:
        kind, topic_id = row.kind, row.topic_id
        if topic_id in self.deleted:
            self.deleted[topic_id] = place.file_number
            return
        if kind == Kind.BATCH:
            self.topic(topic_id).add_batch(batch_facts(row, body), place.file_number)
        elif kind in (Kind.CURSOR_ACK, Kind.CURSOR_RESET, Kind.CURSOR_DROP):
            self._apply_cursor(kind, topic_id, entries.decode_cursor(body))
        elif kind == Kind.LEDGER_CLOSE:
            self.topic(topic_id).close_ledger()
        elif kind == Kind.SESSION:
            for topic in self.topics.values():
                topic.close_ledger()
        elif kind == Kind.TRIM:
            self.topic(topic_id).trim(row.first_offset)
        elif kind == Kind.TOPIC_DELETE:
            self._delete_topic(topic_id, place.file_number)
        elif kind == Kind.PARK:
            self._park(row, body, place)
        elif kind == Kind.RELEASE:
            self._release(row, body, place)
        elif kind == Kind.DISCARD:
            for parked_id in entries.decode_ids(body):
                self.unpark(parked_id)
        elif kind == Kind.WRITER:
            move = entries.decode_writer(body)
            self.writers[move.writer] = move
        elif kind == Kind.DAMAGE:
            first, end = entries.decode_ids(body)
            self.lose(topic_id, first, end)
        elif kind == Kind.ORPHAN:
            self._mark_orphan(topic_id, entries.decode_time(body))

    def _apply_cursor(self, kind: int, topic_id: int, move: entries.CursorMove) -> None:
        topic = self.topic(topic_id)
        topic.encoded = None
        if kind == Kind.CURSOR_DROP:
            topic.cursors.pop(move.subscription_id, None)
            return
        cursor = topic.cursors.get(move.subscription_id)
        if kind == Kind.CURSOR_ACK:
            # The first ack of a cursor is preceded by the reset that founds it; if damage took that, the acks
            # cannot be placed, and the subscription starts again from what the metadata says.
            if cursor is not None:
                cursor.ack(move.generation, move.ranges)
            return
        (_, position), *above = move.ranges
        if cursor is None:
            topic.cursors[move.subscription_id] = Cursor(position, move.generation, above)
        else:
            cursor.reset(move.generation, position, above)

    def _delete_topic(self, topic_id: int, file_number: int) -> None:
        self.topics.pop(topic_id, None)
        self.orphans.pop(topic_id, None)
        self.deleted[topic_id] = file_number
        for parked in [parked for parked in self.parked.values() if parked.topic_id == topic_id]:
            self.unpark(parked.parked_id)

    def _park(self, row: Row, body: Buffer, place: Place) -> None:
        head = entries.decode_park_head(body)
        self.unpark(head.parked_id)
        position = place.position + row.position + PARK_HEAD_BYTES
        length = row.length - PARK_HEAD_BYTES
        self.parked[head.parked_id] = Parked(
            head.parked_id,
            row.topic_id,
            head.owner,
            head.expires_us,
            head.due_us,
            place.file_number,
            position,
            length,
            row.record_count,
        )
        self.parked_bytes += length
        self.topic(row.topic_id)

    def unpark(self, parked_id: int) -> None:
        parked = self.parked.pop(parked_id, None)
        if parked is not None:
            self.parked_bytes -= parked.length

    def _release(self, row: Row, body: Buffer, place: Place) -> None:
        items, time_us = entries.decode_released(body)
        oldest_file = min((item.file_number for item in items), default=place.file_number)
        length = sum(item.length for item in items)
        for item in items:
            self.unpark(item.parked_id)
        self.topic(row.topic_id).extend(
            row.first_offset,
            row.record_count,
            length,
            row.ledger_epoch,
            time_us,
            place.file_number,
            min(oldest_file, place.file_number),
        )

    def _mark_orphan(self, topic_id: int, since_us: int) -> None:
        """A time of 0 means that the metadata knows the topic again."""
        if since_us:
            self.orphans.setdefault(topic_id, since_us)
        else:
            self.orphans.pop(topic_id, None)

    def oldest_file_needed(self) -> int | None:
        """The oldest journal file with anything in it that is still needed; None: no file is."""
        files = [topic.first_file for topic in self.topics.values()]
        files.extend(parked.file_number for parked in self.parked.values())
        return min((file for file in files if file is not None), default=None)

    def forget_deleted(self, oldest_file: int) -> list[int]:
        """Deleted topics that no file mentions any more: their ids, now forgotten here too."""
        gone = [topic_id for topic_id, last_file in self.deleted.items() if last_file < oldest_file]
        for topic_id in gone:
            del self.deleted[topic_id]
        return gone


class StateForm(msgspec.Struct, array_like=True):
    """The state in a checkpoint."""

    topics: list[msgspec.Raw]
    parked: list[Parked]
    writers: list[WriterMove]
    deleted: list[tuple[int, int]]
    orphans: list[tuple[int, int]]
    floor: int


def state_form(state: JournalState) -> StateForm:
    return StateForm(
        [msgspec.Raw(encode_topic(topic)) for topic in state.topics.values()],
        list(state.parked.values()),
        list(state.writers.values()),
        list(state.deleted.items()),
        list(state.orphans.items()),
        state.floor,
    )


def state_from_form(form: StateForm) -> JournalState:
    state = JournalState()
    for raw in form.topics:
        topic = decode_topic(raw)
        state.topics[topic.topic_id] = topic
    state.parked = {parked.parked_id: parked for parked in form.parked}
    state.parked_bytes = sum(parked.length for parked in form.parked)
    state.writers = {move.writer: move for move in form.writers}
    state.deleted = dict(form.deleted)
    state.orphans = dict(form.orphans)
    state.floor = form.floor
    return state
