"""What must be true: the oracle of the simulator. It knows what was asked for and what was acknowledged."""

from dataclasses import dataclass, field

from pydanube.model.errors import DataDamaged
from pydanube.records import Batch
from pydanube.storage import Cursor, Log


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class SentBatch:
    """A batch as its producer keeps it until it is acknowledged: resends are byte-identical."""

    data: bytes
    first_sequence: int
    values: list[bytes]
    offset: int | None = None  # where it is, once it is acknowledged


@dataclass
class ModelProducer:
    producer_id: int
    next_sequence: int = 0
    unacked: list[SentBatch] = field(default_factory=list)
    acked: list[SentBatch] = field(default_factory=list)  # the newest ones: for deliberate resends


@dataclass
class ModelCursor:
    start: int
    generation: int = 0
    durable: set[int] = field(default_factory=set)  # acknowledged, and told so, under this generation
    asked: set[int] = field(default_factory=set)  # asked for under this generation, whatever came of it
    moves: list[tuple[int, int]] = field(default_factory=list)  # resets asked for: generation, position


@dataclass
class ModelTopic:
    topic_id: int
    name: str
    producers: list[ModelProducer] = field(default_factory=list)
    cursors: dict[int, ModelCursor] = field(default_factory=dict)
    stored: dict[int, bytes] = field(default_factory=dict)  # offset to value: acknowledged, or seen by a reader
    first_allowed: int = 0  # retention was asked to keep everything from here on
    sent_order: dict[bytes, int] = field(default_factory=dict)  # value to the order in which its producer sent it
    parked_values: set[bytes] = field(default_factory=set)


def check_topic(log: Log, topic: ModelTopic, *, lossy: bool) -> None:
    """Reads the whole topic and compares. `lossy`: damage was done and reported, so messages may be missing, never
    wrong."""
    first, end = log.first_offset(topic.topic_id), log.ends(topic.topic_id).durable
    if first > topic.first_allowed and not lossy:
        raise Violation(f"{topic.name}: begins at {first}, but everything from {topic.first_allowed} on is to be kept")
    found = read_all(log, topic, first, end, lossy=lossy)
    values = list(found.values())
    if len(set(values)) != len(values):
        raise Violation(f"{topic.name}: a message is stored twice")
    for offset, value in found.items():
        known = topic.stored.get(offset)
        if known is not None and known != value:
            raise Violation(f"{topic.name}: offset {offset} held {known!r}, now {value!r}")
        if value not in topic.sent_order:
            raise Violation(f"{topic.name}: offset {offset} holds {value!r}, which nobody sent")
    for offset, value in topic.stored.items():
        if offset >= first and offset not in found and not lossy:
            raise Violation(f"{topic.name}: {value!r} at offset {offset} was acknowledged and is lost")
    _check_order(topic, found)
    if lossy:
        topic.stored = {}
    topic.stored.update(found)  # what a reader has seen is a promise, acknowledged or not


def _check_order(topic: ModelTopic, found: dict[int, bytes]) -> None:
    last: dict[bytes, int] = {}
    for offset in sorted(found):
        value = found[offset]
        producer, order = value.split(b"/")[0], topic.sent_order[value]
        if value in topic.parked_values:
            continue
        if order < last.get(producer, -1):
            raise Violation(f"{topic.name}: {value!r} at offset {offset} overtook an earlier message")
        last[producer] = order


def read_all(log: Log, topic: ModelTopic, first: int, end: int, *, lossy: bool) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    offset = first
    while offset < end:
        try:
            batches = log.read(topic.topic_id, offset, 2000)
        except DataDamaged as error:
            if not lossy:
                raise Violation(f"{topic.name}: offset {offset} cannot be read: {error}") from error
            offset = max(offset + 1, error.end_offset or end)
            continue
        if not batches:
            raise Violation(f"{topic.name}: nothing at offset {offset}, though the end is {end}")
        for stored in batches:
            if stored.first_offset > offset or stored.end_offset <= offset:
                raise Violation(f"{topic.name}: asked for {offset}, got {stored.first_offset} to {stored.end_offset}")
            batch = Batch(stored.data)
            if batch.header.base_offset != stored.first_offset or batch.header.topic_id != topic.topic_id:
                raise Violation(f"{topic.name}: the batch at {offset} is stamped {batch.header.base_offset}")
            for at, payload in enumerate(batch.payloads()):
                if stored.first_offset + at >= offset:
                    assert payload is not None
                    found[stored.first_offset + at] = payload.split(b"|")[0]
            offset = stored.end_offset
    return found


def check_cursor(name: str, model: ModelCursor, cursor: Cursor | None) -> None:
    """Never past what was acknowledged, never behind the last durable ack."""
    if cursor is None:
        if model.durable:
            raise Violation(f"{name}: acknowledged {sorted(model.durable)}, but there is no cursor")
        return
    if cursor.generation != model.generation:
        known = dict(model.moves)
        if cursor.generation not in known:
            raise Violation(f"{name}: generation {cursor.generation} was never asked for")
        # A reset whose outcome was unknown: the disk has the last word.
        if cursor.generation < model.generation and model.durable:
            raise Violation(f"{name}: generation {model.generation} was durable, now {cursor.generation}")
        model.generation, model.start = cursor.generation, known[cursor.generation]
        model.durable, model.asked = set(), set()
    for offset in model.durable:
        if not cursor.is_acked(offset):
            raise Violation(f"{name}: offset {offset} was durably acknowledged and comes again")
    for offset in range(model.start, cursor.position):
        if offset not in model.asked:
            raise Violation(f"{name}: offset {offset} was never acknowledged, but the cursor is at {cursor.position}")
    for start, end in cursor.above.items():
        if not model.asked.issuperset(range(start, end)):
            raise Violation(f"{name}: {start} to {end} was never acknowledged as a whole")
