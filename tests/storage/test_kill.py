"""A real process on real files, killed 50 times at random moments: what it acknowledged is there, once, in order."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import IO

import msgspec
from tests.storage.appending_process import (
    PRODUCERS,
    SETTINGS,
    SUBSCRIPTION,
    TOPICS,
    Key,
    Order,
    batch_count,
    first_sequence,
    payloads,
    topic_id,
)

from pydanube.model import SystemClock
from pydanube.records import open_batch
from pydanube.storage import Finding, Log, OsFiles

PROGRAM = Path(__file__).with_name("appending_process.py")
KILLS = 50


class Witness:
    """What the children have been told to be durable, and what was seen in the folder so far."""

    def __init__(self) -> None:
        self.next_batch: dict[Key, int] = {(topic, who): 0 for topic in range(TOPICS) for who in range(PRODUCERS)}
        self.values: list[dict[int, bytes]] = [{} for _ in range(TOPICS)]  # offset to payload, for ever
        self.cursors = [0] * TOPICS
        self.files_seen: set[str] = set()
        self.first_offsets = [0] * TOPICS

    def note(self, offset: int, topic: int, value: bytes) -> None:
        known = self.values[topic].setdefault(offset, value)
        assert known == value, f"offset {offset} of topic {topic} was {known!r} and is {value!r} now"

    def hear(self, line: str) -> None:
        match line.split():
            case ["ack", topic, producer, batch, offset]:
                key = int(topic), int(producer)
                assert int(batch) == self.next_batch[key], f"acks of {key} come in another order: {line}"
                self.next_batch[key] += 1
                for place, value in enumerate(payloads(*key, int(batch)), int(offset)):
                    self.note(place, key[0], value)
            case ["cursor", topic, position]:
                self.cursors[int(topic)] = max(self.cursors[int(topic)], int(position))
            case _:
                raise AssertionError(f"the child says: {line}")

    def check(self, folder: Path) -> None:
        files = OsFiles(folder)
        log = Log.open(files, SETTINGS, SystemClock(), Random(1))
        assert {report.finding for report in log.reports} <= {Finding.TORN_TAIL}, list(map(str, log.reports))
        self.files_seen.update(files.list())
        for topic in range(TOPICS):
            self._check_topic(log, topic)
        files.close()

    def _check_topic(self, log: Log, topic: int) -> None:
        number = topic_id(topic)
        first, end = log.first_offset(number), log.ends(number).durable
        assert not log.core.topic(number).gaps.items()
        assert end >= max(self.values[topic], default=-1) + 1, "messages that were durable are gone"
        cursor = log.cursors.get(number, SUBSCRIPTION)
        position = 0 if cursor is None else cursor.position
        assert self.cursors[topic] <= position <= end
        assert first <= position, "retention took what the subscription has not read"
        assert first >= self.first_offsets[topic]
        self.first_offsets[topic] = first
        self._check_messages(log, topic, first, end)

    def _check_messages(self, log: Log, topic: int, first: int, end: int) -> None:
        expected: dict[int, int] = {}  # the next sequence of each producer
        offset = first
        while offset < end:
            for batch in log.read(topic_id(topic), offset, 1 << 20):
                assert batch.first_offset == offset
                for value in open_batch(batch.data).payloads():
                    assert value is not None
                    self.note(offset, topic, value)
                    _, producer, sequence = map(int, value.rstrip(b"\0").split())
                    assert expected.get(producer, sequence) == sequence, f"{value!r} is stored twice or out of order"
                    expected[producer] = sequence + 1
                    offset += 1
        for producer, following in expected.items():
            last = self.next_batch[topic, producer] - 1
            assert last < 0 or following >= first_sequence(last) + batch_count(last)


@contextmanager
def nursery() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(PROGRAM)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(output: IO[str]) -> Iterator[str]:
    for line in output:
        if line == "ended\n":
            return
        yield line
    raise AssertionError("the nursery ended")


def append_until_killed(process: subprocess.Popen[str], order: Order, witness: Witness, reports: int) -> None:
    """Kills the child behind its n-th report; what it reported until it died counts too."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(msgspec.json.encode(order).decode() + "\n")
    process.stdin.flush()
    lines = lines_of(process.stdout)
    child = int(next(lines).removeprefix("started "))
    heard: list[str] = []
    try:
        while len(heard) < reports:
            heard.append(next(lines))
    finally:
        os.kill(child, signal.SIGKILL)
    for line in [*heard, *lines]:
        witness.hear(line)


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    chance = Random(11)
    witness = Witness()
    folder = tmp_path / "journal"
    with nursery() as process:
        for number in range(KILLS):
            next_batches = [(*key, batch) for key, batch in witness.next_batch.items()]
            order = Order(str(folder), number, next_batches)
            # None: while it starts and recovers. Otherwise anywhere in the work that follows.
            reports = chance.choice((0, 1, chance.randrange(2, 40), chance.randrange(40, 400)))
            append_until_killed(process, order, witness, reports)
            witness.check(folder)
    assert any(witness.first_offsets), "retention never had anything to do"
    journal_files = sorted(name for name in witness.files_seen if name.endswith(".journal"))
    left = {path.name for path in folder.glob("*.journal")}
    assert not left.issuperset(journal_files), "no file was ever deleted"
    assert any(name.endswith(".checkpoint") for name in witness.files_seen)
