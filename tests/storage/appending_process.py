"""A process that appends until it is killed, and reports each durable ack on its output.

Run as a program it is a nursery: it imports everything once, then forks an appending child for each order that it
reads, waits for the child's end and says so. A start then costs milliseconds. Lines are shorter than PIPE_BUF, so
a kill never leaves half of one behind:

    started PID · ack TOPIC PRODUCER BATCH OFFSET · cursor TOPIC POSITION · failed WHY · ended
"""

import os
import queue
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec

from pydanube.model import DanubeError, SystemClock
from pydanube.records import Records, check_batch, encode_batch
from pydanube.storage import Log, OsFiles, Retention, StorageSettings, ThreadWriter

SETTINGS = StorageSettings(
    file_bytes=32 << 10,
    round_bytes=8 << 10,
    reserve_bytes=16 << 10,
    ledger_bytes=8 << 10,
    cache_bytes=4 << 10,
    index_stride_bytes=2 << 10,
)
TOPICS = 3
PRODUCERS = 2
SUBSCRIPTION = 0x51
IN_FLIGHT = 6
UPKEEP_EVERY = 40  # acks
LIFETIME_SECONDS = 60  # nobody needs it longer: a forgotten child ends itself

Key = tuple[int, int]  # topic, producer


class Order(msgspec.Struct):
    folder: str
    seed: int
    next_batches: list[tuple[int, int, int]]  # topic, producer, the first batch that was not acknowledged


def topic_id(topic: int) -> int:
    return 0xA0 + topic


def batch_count(batch: int) -> int:
    return batch % 3 + 1


def first_sequence(batch: int) -> int:
    """Of a producer's n-th batch; its sequences number records, and batches have 1, 2, 3, 1, 2, 3 … records."""
    return batch // 3 * 6 + (0, 1, 3)[batch % 3]


def payloads(topic: int, producer: int, batch: int) -> list[bytes]:
    """The same in every process: a resend is byte-identical."""
    first = first_sequence(batch)
    return [f"{topic} {producer} {first + n}".encode() + bytes(n * 40) for n in range(batch_count(batch))]


def encode(topic: int, producer: int, batch: int) -> bytearray:
    return encode_batch(
        Records(payloads(topic, producer, batch)),
        topic_id=topic_id(topic),
        producer_id=0xF0 + producer,
        first_sequence=first_sequence(batch),
    )


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class Appending:
    """Several producers on several topics, each with a few batches under way, and a subscription on each topic."""

    def __init__(self, order: Order) -> None:
        self._rng = Random(order.seed)
        self._next: dict[Key, int] = {(topic, producer): batch for topic, producer, batch in order.next_batches}
        self._in_flight = dict.fromkeys(self._next, 0)
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._acks = 0
        self._log = Log.open(OsFiles(Path(order.folder)), SETTINGS, SystemClock(), self._rng)
        self._writer = ThreadWriter(self._log, self._posted.put, idle_seconds=0.01)

    def run(self) -> None:
        while True:
            for key in self._next:
                while self._in_flight[key] < IN_FLIGHT:
                    self._send(key)
            self._writer.kick()
            self._posted.get()()

    def _send(self, key: Key) -> None:
        topic, producer = key
        number = self._next[key]
        self._next[key] += 1
        self._in_flight[key] += 1

        def done(offset: int, error: DanubeError | None) -> None:
            if error is not None:
                raise error
            say(f"ack {topic} {producer} {number} {offset}")
            self._in_flight[key] -= 1
            self._acks += 1
            if self._rng.random() < 0.2:
                self._acknowledge(topic)
            if self._acks % UPKEEP_EVERY == 0:
                # Not from in here: this runs in the middle of a commit.
                self._posted.put(self._upkeep)

        batch = encode(topic, producer, number)
        self._log.append(topic_id(topic), batch, check_batch(batch), done)

    def _acknowledge(self, topic: int) -> None:
        """Most of the time up to the end, else with a hole."""
        end = self._log.ends(topic_id(topic)).durable
        cursor = self._log.cursors.get(topic_id(topic), SUBSCRIPTION)
        position = 0 if cursor is None else cursor.position
        hole = self._rng.random() < 0.3 and position + 2 < end
        ranges = [(position + 2, int(end))] if hole else [(0, int(end))]

        def done(_offset: int, error: DanubeError | None) -> None:
            if error is not None:
                raise error
            if not hole:
                say(f"cursor {topic} {end}")

        self._log.cursors.ack(topic_id(topic), SUBSCRIPTION, 0, ranges, done, start=0)

    def _upkeep(self) -> None:
        for topic in range(TOPICS):
            retention = Retention(time_us=0, hold_unconsumed=True)
            self._log.upkeep.retain(topic_id(topic), retention, {SUBSCRIPTION: 0}, lambda _offset, _error: None)
        self._log.upkeep.delete_files()


def nursery() -> None:
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            signal.alarm(LIFETIME_SECONDS)
            try:
                say(f"started {os.getpid()}")
                Appending(msgspec.json.decode(line, type=Order)).run()
            except BaseException as error:
                say(f"failed {type(error).__name__}: {error}"[:400])
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        say("ended")


if __name__ == "__main__":
    nursery()
