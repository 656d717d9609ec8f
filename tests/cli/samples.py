"""Small journals with a bit of everything, for tests that look into folders or damage them."""

from random import Random

from pydanube.model import DanubeError
from pydanube.records import Records, check_batch, encode_batch
from pydanube.storage import Files, InlineWriter, Log, ParkedHead, StorageSettings
from pydanube.testing.clock import ManualClock

SETTINGS = StorageSettings(
    file_bytes=6 << 10,
    round_bytes=1 << 10,
    reserve_bytes=1 << 10,
    ledger_bytes=1 << 10,
    cache_bytes=1,  # nothing stays in memory: what is read comes from the files
    index_stride_bytes=4 << 10,  # a reader walks through several rounds to find a batch
)
TOPICS = (0xA1, 0xB2, 0xC3)
PRODUCER, SUBSCRIPTION, PARKED = 0x11, 0x51, 0x91

Messages = dict[int, list[bytes]]


def expect_no_error(_offset: int, error: DanubeError | None) -> None:
    if error is not None:
        raise error


def open_log(files: Files, *, seed: int = 1) -> Log:
    return Log.open(files, SETTINGS, ManualClock(), Random(seed))


def publish(log: Log, topic_id: int, stored: Messages, count: int) -> None:
    values = stored.setdefault(topic_id, [])
    fresh = [f"{topic_id:x}-{len(values) + number}".encode() for number in range(count)]
    batch = encode_batch(Records(fresh), topic_id=topic_id, producer_id=PRODUCER, first_sequence=len(values))
    log.append(topic_id, batch, check_batch(batch), expect_no_error)
    values.extend(fresh)


def fill(log: Log, stored: Messages, *, rounds: int) -> InlineWriter:
    """Rounds with changing topics, acknowledgements and a parked batch."""
    writer = InlineWriter(log)
    for number in range(rounds):
        topics = [TOPICS[number % 3]] if number % 4 else list(TOPICS)
        for topic_id in topics:
            publish(log, topic_id, stored, 1 + number % 3)
        writer.run()
        if number % 3 == 0:
            end = log.ends(topics[0]).durable
            log.cursors.ack(topics[0], SUBSCRIPTION, 0, [(0, end)], expect_no_error, start=0)
            writer.run()
    batch = encode_batch(Records([b"parked"]), topic_id=TOPICS[0])
    head = ParkedHead(PARKED, 0, 1 << 60, 0)
    log.parking.park(TOPICS[0], batch, check_batch(batch), head, expect_no_error)
    writer.run()
    return writer


def write_sample(files: Files, *, rounds: int = 8, close: bool = True) -> Messages:
    """A journal of several files and at least one checkpoint; returns the messages of its topics."""
    stored: Messages = {}
    writer = fill(open_log(files), stored, rounds=rounds)
    if close:
        writer.close()
    return stored
