"""One seeded run: a node on a simulated disk, random work and faults, crashes at any step, checks after each restart.

Everything random comes from the seed, time is moved by hand, and the only thread is this one: a seed that fails fails
again, step by step the same.
"""

import hashlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from pydanube.metadata import MemoryStore, Transaction, TransactionResult
from pydanube.model import DanubeError
from pydanube.model.errors import (
    OutOfSequence,
    Overloaded,
    StagedLost,
    StorageFailed,
    UnknownProducer,
    UnknownTopic,
)
from pydanube.records import Codec, Records, check_batch, encode_batch
from pydanube.storage import Finding, ParkedHead, Release, Retention, StorageSettings
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import Crashed, SimulatedDisk, SimulatedFiles
from pydanube.testing.node import Node, ignore

from .model import ModelCursor, ModelProducer, ModelTopic, SentBatch, Violation, check_cursor, check_topic

T = TypeVar("T")

SETTINGS = StorageSettings(
    file_bytes=24 << 10,
    file_age_us=600_000_000,
    round_bytes=3 << 10,
    reserve_bytes=64 << 10,
    pending_bytes=64 << 10,
    ledger_bytes=4 << 10,
    ledger_age_us=300_000_000,
    cache_bytes=4 << 10,
    staging_bytes=32 << 10,
    index_stride_bytes=1 << 10,
)
RETENTION = Retention(time_us=120_000_000)
ROOMY = 4 << 20
STEPS = 150


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("the coroutine waited for something")


class CrashingStore(MemoryStore):
    """Metadata that survives crashes, in a process that may die before or after any transaction."""

    def __init__(self, clock: ManualClock, rng: Random, disk: SimulatedDisk) -> None:
        super().__init__(clock)
        self._rng = rng
        self._disk = disk
        self.crash_chance = 0.0

    async def transact(self, transaction: Transaction) -> TransactionResult:
        crash = self._rng.random() < self.crash_chance
        if crash and self._rng.random() < 0.5:
            raise Crashed
        result = await super().transact(transaction)
        if crash:
            raise Crashed
        return result


class Simulator:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedDisk(Random(seed ^ 0x5EED))
        self.metadata = CrashingStore(self.clock, self.rng, self.disk)
        self.flips = seed % 4 == 3  # every fourth seed has bit flips, and with them excuses
        self.faulty = seed % 4 in (1, 2)
        self.topics: dict[int, ModelTopic] = {}
        self.deleting: set[int] = set()
        self.dead_ids: set[int] = set()
        self.parked: dict[int, tuple[int, list[bytes]]] = {}  # durable: parked id to topic and values
        self.expiry_us: dict[int, int] = {}
        self.releases: dict[str, tuple[int, list[int]]] = {}  # asked for and unanswered: writer to version and ids
        self.writer_versions: dict[str, int] = {}
        self.counter = 0
        self.lossy = False  # damage was done in this life or before
        self.trace = hashlib.blake2b(digest_size=16)
        self.node: Node
        self.restarts = 0
        self.steps: list[tuple[int, Callable[[], None]]] = [
            (30, self.publish),
            (14, self.write),
            (6, self.resend),
            (2, self.skip_sequence),
            (8, self.acknowledge),
            (2, self.move_cursor),
            (4, self.subscribe),
            (4, self.park),
            (5, self.release),
            (1, self.discard),
            (3, self.create_topic),
            (1, self.delete_topic),
            (4, self.go_idle),
            (5, self.upkeep),
            (4, self.pass_time),
            (3, self.read_something),
            (1, self.checkpoint),
            (2, self.change_weather),
            (4, self.arm_crash),
            (1, self.stop_cleanly),
        ]

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Runs the seed; returns the digest of everything that happened. Raises Violation."""
        self.start()
        weights = [weight for weight, _ in self.steps]
        actions = [action for _, action in self.steps]
        for _ in range(STEPS):
            action = self.rng.choices(actions, weights)[0]
            self.note(action.__name__)
            try:
                action()
            except Crashed:
                self.crash()
        self.disk.faults.capacity_bytes = None
        self.crash()
        self.check_reports()
        self.trace.update(self.disk.trace_digest().encode())
        return self.trace.hexdigest()

    def note(self, text: str) -> None:
        self.trace.update(text.encode() + b"\n")

    def start(self) -> None:
        """Starts a node, which may die on the way up, several times."""
        while True:
            try:
                files = SimulatedFiles(self.disk)
                self.node = now(Node.start(files, self.metadata, SETTINGS, self.clock, self.rng, ceiling_step=1 << 10))
                break
            except Crashed:
                self.disk.crash(power=self.rng.random() < 0.6)
                self.metadata.crash_chance = 0.0
            except (StorageFailed, DanubeError) as error:
                if not isinstance(error, StorageFailed):
                    raise
                self.disk.crash(power=False)
                self.calm()
        self.check()

    def calm(self) -> None:
        faults = self.disk.faults
        faults.write_eio = faults.sync_eio = faults.create_eio = faults.rename_eio = faults.remove_eio = 0.0
        faults.capacity_bytes = None

    def crash(self) -> None:
        power = self.rng.random() < 0.6
        self.note(f"crash {power}")
        self.disk.crash(power=power)
        self.metadata.crash_chance = 0.0
        self.calm()
        self.restarts += 1
        if self.flips and self.rng.random() < 0.5:
            self.flip()
        if self.rng.random() < 0.3:
            self.disk.crash_after(self.rng.randrange(1, 25))  # inside recovery, or soon after
        self.start()

    def flip(self) -> None:
        names = [name for name in self.disk.names() if name.endswith((".journal", ".checkpoint", ".index"))]
        if names:
            name = self.rng.choice(names)
            data = self.disk.read(name)
            used = len(data.rstrip(b"\0"))
            if used:
                try:
                    self.disk.flip_bit(name, self.rng.randrange(used))
                except ValueError:
                    return  # not durable
                self.lossy = True

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        log = self.node.log
        self.check_reports()
        known = set(now(self.node.topics()).values())
        for topic_id in list(self.deleting):
            self.deleting.discard(topic_id)
            if topic_id not in known:
                self.topics.pop(topic_id, None)
                self.dead_ids.add(topic_id)
        for topic_id in self.dead_ids:
            if topic_id in log.core.state.topics:
                raise Violation(f"topic {topic_id:016x} was deleted and is back")
        for topic in self.topics.values():
            check_topic(log, topic, lossy=self.lossy)
            self._settle_producers(topic)
            for number, cursor in topic.cursors.items():
                if self.lossy:
                    topic.cursors[number] = self._adopt_cursor(log.cursors.get(topic.topic_id, number), cursor)
                else:
                    check_cursor(f"{topic.name}/{number:x}", cursor, log.cursors.get(topic.topic_id, number))
        self._settle_parked()

    def check_reports(self) -> None:
        if not self.lossy:
            for report in self.node.log.reports:
                if report.finding not in (Finding.TORN_TAIL, Finding.ORPHAN):
                    raise Violation(f"damage reported where none was done: {report}")

    def _adopt_cursor(self, found: Any, cursor: ModelCursor) -> ModelCursor:
        if found is None:
            return ModelCursor(cursor.start)
        return ModelCursor(found.position, found.generation)

    def _settle_producers(self, topic: ModelTopic) -> None:
        """A restart leaves a producer with unacknowledged batches: they are sent again, in order."""
        for producer in topic.producers:
            if self.lossy:
                producer.acked.clear()

    def _settle_parked(self) -> None:
        state = self.node.log.core.state
        for parked_id, (topic_id, _) in list(self.parked.items()):
            released = self._was_released(parked_id)
            expired = self.expiry_us[parked_id] <= self.clock.now_us()
            excused = released or expired or topic_id not in self.topics or self.lossy
            if parked_id not in state.parked and not excused:
                raise Violation(f"parked batch {parked_id:x} was stored and is gone")
            if released or topic_id not in self.topics or parked_id not in state.parked:
                del self.parked[parked_id]
        for writer, (version, ids) in list(self.releases.items()):
            committed = self.node.log.parking.committed(writer)
            done = committed is not None and committed.version >= version
            left = [parked_id for parked_id in ids if parked_id in state.parked]
            if done and left and not self.lossy:
                raise Violation(f"{writer} released version {version}, but {len(left)} batches are still parked")
            if done:
                self.writer_versions[writer] = version
            del self.releases[writer]
        for writer, version in self.writer_versions.items():
            committed = self.node.log.parking.committed(writer)
            if not self.lossy and (committed is None or committed.version < version):
                raise Violation(f"{writer} had released version {version}, and it is forgotten")

    def _was_released(self, parked_id: int) -> bool:
        for writer, (version, ids) in self.releases.items():
            if parked_id in ids:
                committed = self.node.log.parking.committed(writer)
                return committed is not None and committed.version >= version
        return False

    # -- work -----------------------------------------------------------------------------------------------------

    def _topic(self) -> ModelTopic | None:
        alive = [topic for topic in self.topics.values() if topic.topic_id not in self.deleting]
        return self.rng.choice(alive) if alive else None

    def create_topic(self) -> None:
        name = f"/default/t{self.rng.randrange(6)}"
        topic_id = now(self.node.create_topic(name))
        if topic_id not in self.topics and topic_id not in self.dead_ids:
            self.topics[topic_id] = ModelTopic(topic_id, name)

    def delete_topic(self) -> None:
        topic = self._topic()
        if topic is not None:
            self.deleting.add(topic.topic_id)
            now(self.node.delete_topic(topic.name))
            self.node.writer.run()
            if topic.topic_id in self.node.log.core.state.deleted:
                self.deleting.discard(topic.topic_id)
                self.topics.pop(topic.topic_id)
                self.dead_ids.add(topic.topic_id)

    def _encode(self, topic: ModelTopic, tag: str, **facts: int) -> tuple[bytes, list[bytes]]:
        values = []
        for _ in range(self.rng.randrange(1, 4)):
            self.counter += 1
            value = f"{tag}/{self.counter}".encode()
            topic.sent_order[value] = self.counter
            values.append(value)
        filler = b"|" + bytes(self.rng.choice((1, 20, 20, 200, 900)))
        codec = self.rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4))
        data = encode_batch(
            Records(payloads=[value + filler for value in values]), topic_id=topic.topic_id, codec=codec, **facts
        )
        return bytes(data), values

    def publish(self) -> None:
        topic = self._topic()
        if topic is None:
            return self.create_topic()
        if not topic.producers or (len(topic.producers) < 3 and self.rng.random() < 0.2):
            topic.producers.append(ModelProducer(self.rng.getrandbits(63) | 1))
        producer = self.rng.choice(topic.producers)
        if len(producer.unacked) >= 8:
            return self.resend_all(topic, producer)
        data, values = self._encode(
            topic,
            f"{producer.producer_id:x}",
            producer_id=producer.producer_id,
            first_sequence=producer.next_sequence,
        )
        sent = SentBatch(data, producer.next_sequence, values)
        producer.next_sequence += len(values)
        producer.unacked.append(sent)
        self._send(topic, producer, sent)
        if self.rng.random() < 0.3:
            self.node.writer.run()
        return None

    def _send(self, topic: ModelTopic, producer: ModelProducer, sent: SentBatch) -> bool:
        """Returns whether the broker took it."""

        def done(offset: int, error: DanubeError | None) -> None:
            self.note(f"done {offset} {type(error).__name__}")
            if error is None:
                self._acknowledged(topic, producer, sent, offset)

        header = check_batch(sent.data, topic_id=topic.topic_id)
        try:
            self.node.log.append(topic.topic_id, sent.data, header, done)
        except (UnknownProducer, OutOfSequence) as error:
            if producer.unacked and sent is not producer.unacked[0]:
                return False  # its predecessor has failed: it has to be sent first
            if not self.lossy:
                raise Violation(f"{topic.name}: the producer kept its order and got: {error}") from error
            topic.producers.remove(producer)  # damage has taken what the broker knew: a new producer must be opened
            return False
        except (Overloaded, StorageFailed, UnknownTopic):
            return False
        return True

    def _acknowledged(self, topic: ModelTopic, producer: ModelProducer, sent: SentBatch, offset: int) -> None:
        if sent.offset is not None and sent.offset != offset and not self.lossy:
            raise Violation(f"{topic.name}: a resend was answered with {offset}, the original with {sent.offset}")
        sent.offset = offset
        if sent in producer.unacked:
            producer.unacked.remove(sent)
            producer.acked.append(sent)
            del producer.acked[:-8]
        for at, value in enumerate(sent.values):
            known = topic.stored.get(offset + at)
            if known is not None and known != value:
                raise Violation(f"{topic.name}: offset {offset + at} was given to {known!r} and to {value!r}")
            topic.stored[offset + at] = value

    def resend_all(self, topic: ModelTopic, producer: ModelProducer) -> None:
        for sent in list(producer.unacked):
            if sent in producer.unacked and not self._send(topic, producer, sent):
                break
        self.node.writer.run()

    def resend(self) -> None:
        topic = self._topic()
        if topic is None or not topic.producers:
            return
        producer = self.rng.choice(topic.producers)
        if producer.unacked:
            self.resend_all(topic, producer)
        elif producer.acked:
            self._send(topic, producer, self.rng.choice(producer.acked))

    def skip_sequence(self) -> None:
        """A batch with a gap before it must be refused."""
        topic = self._topic()
        if topic is None or not topic.producers:
            return
        producer = self.rng.choice(topic.producers)
        values = [b"never"]
        data = encode_batch(
            Records(payloads=values),
            topic_id=topic.topic_id,
            producer_id=producer.producer_id,
            first_sequence=producer.next_sequence + 1 + self.rng.randrange(3),
        )
        try:
            self.node.log.append(topic.topic_id, data, check_batch(data), ignore)
        except (OutOfSequence, UnknownProducer, Overloaded, StorageFailed):
            return
        raise Violation(f"{topic.name}: a batch with a gap in its sequence was accepted")

    def write(self) -> None:
        self.node.writer.run()

    def go_idle(self) -> None:
        self.node.writer.run()
        self.node.writer.mark_durable()

    def checkpoint(self) -> None:
        self.node.writer.checkpoint()

    def pass_time(self) -> None:
        self.clock.advance(self.rng.choice((1, 30, 120, 400)))

    def upkeep(self) -> None:
        retention = self.rng.choice((RETENTION, RETENTION, Retention(time_us=None), Retention(0, 8 << 10, False)))
        state = self.node.log.core.state
        before = {topic.topic_id: topic.ledgers for topic in state.topics.values()}
        # What may be trimmed is decided before it is known whether the process survives: ask the pure function.
        for topic in self.topics.values():
            held = [self._position(cursor) for cursor in topic.cursors.values()]
            if topic.topic_id in before:
                topic.first_allowed = max(
                    topic.first_allowed, self._may_trim(before[topic.topic_id], held, retention, topic)
                )
        now(self.node.upkeep(retention))

    def _position(self, cursor: ModelCursor) -> int:
        position = cursor.start
        while position in cursor.asked:
            position += 1
        return position

    def _may_trim(self, ledgers: list[Any], held: list[int], retention: Retention, topic: ModelTopic) -> int:
        """Independent of the code under test: messages that are old enough (or any, by size) and not held."""
        closed = [ledger for ledger in ledgers if ledger.closed]
        first = topic.first_allowed
        total = sum(ledger.bytes for ledger in ledgers)
        for ledger in closed:
            age = self.clock.now_us() - ledger.last_us
            over = retention.bytes is not None and total > retention.bytes
            old = retention.time_us is not None and age >= retention.time_us
            if retention.hold_unconsumed and held and ledger.end > min(held):
                break
            if not (over or old):
                break
            total -= ledger.bytes
            first = max(first, ledger.end)
        return first

    def subscribe(self) -> None:
        topic = self._topic()
        if topic is None or len(topic.cursors) >= 3:
            return
        end = self.node.log.ends(topic.topic_id).durable
        start = self.rng.choice((self.node.log.first_offset(topic.topic_id), end))
        name = f"s{self.rng.randrange(3)}"
        subscription = now(self.node.subscribe(topic.name, name, start))
        topic.cursors.setdefault(subscription.id, ModelCursor(subscription.start))

    def acknowledge(self) -> None:
        topic = self._topic()
        if topic is None or not topic.cursors:
            return
        number = self.rng.choice(list(topic.cursors))
        cursor = topic.cursors[number]
        end = self.node.log.ends(topic.topic_id).durable
        if end <= cursor.start:
            return
        generation = cursor.generation if self.rng.random() < 0.9 else cursor.generation - 1
        ranges = []
        for _ in range(self.rng.randrange(1, 3)):
            first = self.rng.randrange(cursor.start, end)
            if self.rng.random() < 0.4:
                first = self._position(cursor)
            if first < end:
                ranges.append((first, min(end, first + self.rng.randrange(1, 6))))
        if not ranges or generation < 0:
            return
        offsets = {offset for first, last in ranges for offset in range(first, last)}
        if generation == cursor.generation:
            cursor.asked |= offsets

        def done(_offset: int, error: DanubeError | None) -> None:
            if error is None and generation == cursor.generation:
                cursor.durable |= offsets

        try:
            self.node.log.cursors.ack(topic.topic_id, number, generation, ranges, done, start=cursor.start)
        except (StorageFailed, UnknownTopic):
            return
        if self.rng.random() < 0.5:
            self.node.writer.run()

    def move_cursor(self) -> None:
        topic = self._topic()
        if topic is None or not topic.cursors:
            return
        number = self.rng.choice(list(topic.cursors))
        cursor = topic.cursors[number]
        end = self.node.log.ends(topic.topic_id).durable
        position = self.rng.randrange(self.node.log.first_offset(topic.topic_id), end + 1)
        generation = max([cursor.generation, *(move[0] for move in cursor.moves)]) + 1
        cursor.moves.append((generation, position))
        moved = []
        # Acks of the old generation that are on their way may still be counted before the reset is.
        self.node.writer.run()
        self.node.log.cursors.reset(
            topic.topic_id, number, generation, position, lambda _offset, error: moved.append(error)
        )
        self.node.writer.run()
        if moved == [None]:
            cursor.generation, cursor.start = generation, position
            cursor.durable, cursor.asked = set(), set()

    def park(self) -> None:
        topic = self._topic()
        if topic is None:
            return
        data, values = self._encode(topic, "parked")
        topic.parked_values.update(values)
        parked_id = self.rng.getrandbits(63) | 1
        self.expiry_us[parked_id] = self.clock.now_us() + self.rng.choice((200, 3600)) * 1_000_000
        head = ParkedHead(parked_id, 0, self.expiry_us[parked_id], 0)

        def done(_offset: int, error: DanubeError | None) -> None:
            if error is None:
                self.parked[parked_id] = (topic.topic_id, values)

        try:
            self.node.log.parking.park(topic.topic_id, data, check_batch(data), head, done)
        except (StorageFailed, UnknownTopic):
            return
        if self.rng.random() < 0.5:
            self.node.writer.run()

    def release(self) -> None:
        state = self.node.log.core.state
        taken = {parked_id for _, ids in self.releases.values() for parked_id in ids}
        ids = [parked_id for parked_id in self.parked if parked_id in state.parked and parked_id not in taken]
        chosen = self.rng.sample(ids, min(len(ids), self.rng.randrange(1, 4)))
        if not chosen:
            return
        writer = f"w{self.rng.randrange(2)}"
        if writer in self.releases:  # unanswered, or it failed, and nobody knows whether it happened: the same again
            version, chosen = self.releases[writer]
        else:
            version = self.writer_versions.get(writer, 0) + 1
            self.releases[writer] = (version, chosen)

        def done(_offset: int, error: DanubeError | None) -> None:
            if error is not None or self.releases.pop(writer, None) is None:
                return
            self.writer_versions[writer] = version
            move = self.node.log.parking.committed(writer)
            if move is None or move.version != version:
                raise Violation(f"{writer} was told that version {version} is released")
            for topic_id, first, _end in move.ranges:
                values = [
                    value
                    for parked_id in chosen
                    for owner, batch in [self.parked[parked_id]]
                    if owner == topic_id
                    for value in batch
                ]
                if topic_id in self.topics:
                    for at, value in enumerate(values):
                        self.topics[topic_id].stored[first + at] = value
            for parked_id in chosen:
                del self.parked[parked_id]

        try:
            self.node.log.parking.release(Release(chosen, writer, version), done)
            if self.rng.random() < 0.3:  # asked again while it is under way: it happens once
                self.node.log.parking.release(Release(chosen, writer, version), ignore)
        except (StagedLost, StorageFailed, UnknownTopic):
            return
        if self.rng.random() < 0.6:
            self.node.writer.run()

    def discard(self) -> None:
        releasing = {parked_id for _, ids in self.releases.values() for parked_id in ids}
        ids = [parked_id for parked_id in self.parked if parked_id not in releasing]
        if ids:
            parked_id = self.rng.choice(ids)
            del self.parked[parked_id]
            self.node.log.parking.discard([parked_id], ignore)
            self.node.writer.run()

    def read_something(self) -> None:
        topic = self._topic()
        if topic is not None:
            check_topic(self.node.log, topic, lossy=self.lossy)

    # -- faults ---------------------------------------------------------------------------------------------------

    def change_weather(self) -> None:
        if not self.faulty:
            return
        self.calm()
        faults = self.disk.faults
        kind = self.rng.randrange(4)
        if kind == 0:
            faults.write_eio = faults.sync_eio = 0.15
        elif kind == 1:
            faults.create_eio = faults.rename_eio = 0.3
        elif kind == 2:
            used = sum(len(self.disk.read(name)) for name in self.disk.names())
            faults.capacity_bytes = used + self.rng.choice((0, 10_000, 40_000))

    def arm_crash(self) -> None:
        if self.rng.random() < 0.2:
            self.metadata.crash_chance = 0.3
        else:
            self.disk.crash_after(self.rng.randrange(1, 30))

    def stop_cleanly(self) -> None:
        self.calm()
        self.node.writer.close()
        self.disk.crash(power=self.rng.random() < 0.5)
        self.start()


def run_seed(seed: int) -> str:
    try:
        return Simulator(seed).run()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}") from violation
    except Exception as error:
        raise Violation(f"seed {seed}: {type(error).__name__}: {error}") from error
