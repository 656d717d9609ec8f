"""Benchmarks of the storage room: append with fsync, backlog read, recovery, many topics, memory.

    .venv/bin/python tests/bench/bench_storage.py [--folder D] [--rounds N] [--json]

Every measurement checks what it moved. Ratios are taken inside one round, one after the other; medians over rounds.
"""

import argparse
import gc
import json
import queue
import random
import shutil
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.ceiling.append import append_ceiling, disk_limit

from pydanube.model import DanubeError, SystemClock
from pydanube.model.limits import MIB, PRODUCER_BATCHES_IN_FLIGHT_MAX
from pydanube.records import BatchHeader, Records, check_batch, encode_batch
from pydanube.storage import InlineWriter, Log, OsFiles, StorageSettings, ThreadWriter

IN_FLIGHT_BYTES = 8 * MIB


class Owner:
    """The owner's thread: runs what the writer posts, and keeps a bounded number of bytes under way."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.writer = ThreadWriter(log, self.posted.put)
        self.under_way = 0
        self.pending: Counter[int] = Counter()
        self.rounds = 0
        self.failures: list[DanubeError] = []

    def append(self, topic_id: int, batch: bytearray, header: BatchHeader) -> None:
        pending = self.pending
        while self.under_way + len(batch) > IN_FLIGHT_BYTES or pending[topic_id] >= PRODUCER_BATCHES_IN_FLIGHT_MAX:
            self._run_one()
        self.under_way += len(batch)
        pending[topic_id] += 1

        def done(_offset: int, error: DanubeError | None) -> None:
            self.under_way -= len(batch)
            pending[topic_id] -= 1
            if error is not None:
                self.failures.append(error)

        self.log.append(topic_id, batch, header, done)
        self.writer.kick()

    def _run_one(self) -> None:
        self.rounds += 1
        self.posted.get()()

    def drain(self) -> None:
        while self.under_way:
            self._run_one()
        if self.failures:
            raise self.failures[0]

    def close(self) -> None:
        self.writer.stop()
        while not self.posted.empty():
            self.posted.get()()
        InlineWriter(self.log).close()
        self.log.files.close()


def make_batches(count: int, messages: int, size: int, topics: list[int]) -> list[tuple[int, bytearray, BatchHeader]]:
    made = []
    sequences = dict.fromkeys(topics, 0)
    payload = random.Random(1).randbytes(size)
    for number in range(count):
        topic_id = topics[number % len(topics)]
        batch = encode_batch(
            Records(payloads=[payload] * messages),
            topic_id=topic_id,
            producer_id=7,
            first_sequence=sequences[topic_id],
        )
        sequences[topic_id] += messages
        made.append((topic_id, batch, check_batch(batch)))
    return made


def open_log(folder: Path, **settings: int) -> Log:
    return Log.open(OsFiles(folder), StorageSettings(**settings), SystemClock(), random.Random(1))


def bench_append(folder: Path, batches: list[tuple[int, bytearray, BatchHeader]]) -> dict[str, float]:
    owner = Owner(open_log(folder))
    total = sum(len(batch) for _, batch, _ in batches)
    started = time.perf_counter()
    for topic_id, batch, _ in batches:
        header = check_batch(batch, topic_id=topic_id)  # as at the broker's door
        owner.append(topic_id, batch, header)
    owner.drain()
    elapsed = time.perf_counter() - started
    rounds = owner.log.core.last_round
    stored = sum(owner.log.ends(topic_id).durable for topic_id in {topic_id for topic_id, _, _ in batches})
    expected = sum(header.record_count for _, _, header in batches)
    if stored != expected:
        raise SystemExit(f"{stored} messages are durable, {expected} were sent")
    owner.close()
    return {"mb_per_second": total / elapsed / 1e6, "rounds_per_second": rounds / elapsed, "seconds": elapsed}


def bench_append_against_ceiling(root: Path, rounds: int, size: int, messages: int) -> dict[str, Any]:
    """One topic, a thousand topics with the same bytes, and the ceiling, in each round."""
    count = (256 * MIB) // (messages * size)
    results: dict[str, list[float]] = {
        "one": [],
        "thousand": [],
        "ceiling": [],
        "rounds_one": [],
        "rounds_thousand": [],
    }
    ratios: dict[str, list[float]] = {"one/ceiling": [], "thousand/one": []}
    for number in range(rounds):
        order = ["one", "thousand", "ceiling"]
        random.Random(number).shuffle(order)
        rates: dict[str, float] = {}
        for what in order:
            folder = Path(tempfile.mkdtemp(dir=root))
            if what == "ceiling":
                batches = [batch for _, batch, _ in make_batches(count, messages, size, [1])]
                total = sum(map(len, batches))
                rates[what] = total / append_ceiling(folder, batches, IN_FLIGHT_BYTES) / 1e6
            else:
                topics = [1] if what == "one" else list(range(1, 1001))
                measured = bench_append(folder, make_batches(count, messages, size, topics))
                rates[what] = measured["mb_per_second"]
                results[f"rounds_{what}"].append(measured["rounds_per_second"])
            results[what].append(rates[what])
            shutil.rmtree(folder)
        ratios["one/ceiling"].append(rates["one"] / rates["ceiling"])
        ratios["thousand/one"].append(rates["thousand"] / rates["one"])
    return {key: statistics.median(values) for key, values in {**results, **ratios}.items()}


def bench_read(folder: Path, size: int, messages: int) -> dict[str, float]:
    """A backlog of one topic, read from its start after a restart, so that nothing is in the tail cache."""
    count = (256 * MIB) // (messages * size)
    bench_append(folder, make_batches(count, messages, size, [1]))
    started = time.perf_counter()
    log = open_log(folder)
    opened = time.perf_counter() - started
    started = time.perf_counter()
    offset = total = 0
    end = log.ends(1).durable
    while offset < end:
        for stored in log.read(1, offset, MIB):
            if stored.first_offset != offset:
                raise SystemExit(f"asked for {offset}, got {stored.first_offset}")
            offset = stored.end_offset
            total += len(stored.data)
    elapsed = time.perf_counter() - started
    InlineWriter(log).close()
    log.files.close()
    return {"mb_per_second": total / elapsed / 1e6, "open_after_clean_stop_ms": opened * 1000}


def bench_recovery(folder: Path, size: int, messages: int) -> dict[str, float]:
    """A journal that was not closed: everything behind the last checkpoint is read and checked."""
    count = (200 * MIB) // (messages * size)
    owner = Owner(open_log(folder))
    total = 0
    for topic_id, batch, header in make_batches(count, messages, size, [1]):
        owner.append(topic_id, batch, header)
        total += len(batch)
    owner.drain()
    owner.writer.stop()
    owner.log.files.close()  # no checkpoint, no end mark: as after a kill
    started = time.perf_counter()
    log = open_log(folder)
    elapsed = time.perf_counter() - started
    if log.ends(1).durable != count * messages:
        raise SystemExit("messages are missing after recovery")
    log.files.close()
    return {"mb_per_second": total / elapsed / 1e6, "seconds": elapsed}


def bench_many_topics(folder: Path, topics: int) -> dict[str, float]:
    """Memory a topic, a checkpoint of them, and the time to open a folder with them, cleanly closed and not."""
    log = open_log(folder)
    writer = InlineWriter(log)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for topic_id, batch, header in make_batches(topics, 1, 100, list(range(1, topics + 1))):
        log.append(topic_id, batch, header, _raise)
    writer.run()
    log.core.cache = type(log.core.cache)(1)  # what the cache holds is counted by its own budget
    gc.collect()
    per_topic = (tracemalloc.get_traced_memory()[0] - before) / topics
    tracemalloc.stop()
    started = time.perf_counter()
    writer.checkpoint()
    checkpoint = time.perf_counter() - started
    log.files.close()
    started = time.perf_counter()
    log = open_log(folder)
    opened = time.perf_counter() - started
    if len(log.core.state.topics) != topics:
        raise SystemExit("topics are missing after opening")
    log.files.close()
    return {"bytes_per_topic": per_topic, "checkpoint_ms": checkpoint * 1000, "open_ms": opened * 1000}


def bench_backlog_memory(folder: Path, batches: int) -> dict[str, float]:
    """Memory held for a backlog of small batches, after it was written: must not grow with it."""
    log = open_log(folder, file_bytes=16 * MIB, cache_bytes=4 * MIB)
    writer = InlineWriter(log)
    held = []
    gc.collect()
    tracemalloc.start()
    for _ in range(2):
        for number in range(batches // 2):
            batch = encode_batch(Records(payloads=[b"x" * 100]), topic_id=1)
            log.append(1, batch, check_batch(batch), _raise)
            if number % 500 == 499:
                writer.run()
        writer.run()
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    log.files.close()
    return {"held_after_half_mb": held[0] / 1e6, "held_after_all_mb": held[1] / 1e6}


def _raise(_offset: int, error: DanubeError | None) -> None:
    if error is not None:
        raise error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=None, help="where to write (default: the temporary folder)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(dir=arguments.folder))
    results: dict[str, dict[str, Any]] = {}

    def run(name: str, work: Callable[[Path], dict[str, Any]]) -> None:
        print(f"… {name}", file=sys.stderr, flush=True)
        folder = Path(tempfile.mkdtemp(dir=root))
        results[name] = work(folder)
        shutil.rmtree(folder, ignore_errors=True)

    run("disk, 1 MiB writes, synced each", lambda folder: {"mb_per_second": disk_limit(folder, MIB, 512 * MIB)})
    run("disk, 4 MiB writes, synced each", lambda folder: {"mb_per_second": disk_limit(folder, 4 * MIB, 1024 * MIB)})
    rounds = arguments.rounds
    run("append 128 B, 2000 a batch, fsync", lambda folder: bench_append_against_ceiling(folder, rounds, 128, 2000))
    run("append 1 KiB, 250 a batch, fsync", lambda folder: bench_append_against_ceiling(folder, rounds, 1024, 250))
    run("read backlog 1 KiB", lambda folder: bench_read(folder, 1024, 250))
    run("read backlog 128 B", lambda folder: bench_read(folder, 128, 2000))
    run("recovery 1 KiB", lambda folder: bench_recovery(folder, 1024, 250))
    run("recovery, small batches (10 × 100 B)", lambda folder: bench_recovery(folder, 100, 10))
    run("10,000 topics", lambda folder: bench_many_topics(folder, 10_000))
    run("backlog of 60,000 batches", lambda folder: bench_backlog_memory(folder, 60_000))
    shutil.rmtree(root, ignore_errors=True)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for name, values in results.items():
        print(f"{name}")
        for key, value in values.items():
            print(f"    {key:28} {value:12,.2f}")


if __name__ == "__main__":
    main()
