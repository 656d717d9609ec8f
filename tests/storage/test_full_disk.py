"""A disk that is full, or read-only, or fails: real ones, on a small tmpfs in a mount namespace of its own.

The scenarios run inside that namespace: this file is then the program. Where namespaces are not allowed they are
skipped, but in CI they run on the simulated disk instead.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Protocol

import pytest

from pydanube.model import DanubeError
from pydanube.model.errors import DataFolderUnusable, DiskFull, StorageFailed
from pydanube.records import Records, check_batch, encode_batch, open_batch
from pydanube.storage import Files, Finding, InlineWriter, Log, OsFiles, StorageSettings, ThreadWriter
from pydanube.storage.acceptance import Entry
from pydanube.storage.check import check_folder
from pydanube.storage.journal import Written
from pydanube.storage.rounds import Draft
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import SimulatedDisk, SimulatedFiles

SETTINGS = StorageSettings(
    file_bytes=64 << 10, round_bytes=8 << 10, reserve_bytes=64 << 10, ledger_bytes=32 << 10, cache_bytes=1
)
DISK_BYTES = 1 << 20
FILLER_BYTES = 640 << 10
TOPIC, SUBSCRIPTION = 0xA1, 0x51
RESTARTS = 12


class Disk(Protocol):
    def files(self) -> Files: ...
    def fill(self) -> None: ...
    def free(self) -> None: ...
    def life(self, scene: Callable[[], int]) -> int:
        """Runs a scene in a process that is killed behind it; returns what the scene returned."""


class Tmpfs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filler = folder / "filler"

    def files(self) -> Files:
        return OsFiles(self._folder / "journal")

    def fill(self) -> None:
        self._filler.write_bytes(bytes(FILLER_BYTES))

    def free(self) -> None:
        self._filler.unlink()

    def life(self, scene: Callable[[], int]) -> int:
        results, result = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(result, str(scene()).encode())
            os.kill(os.getpid(), signal.SIGKILL)
        os.close(result)
        _, status = os.waitpid(child, 0)
        with os.fdopen(results) as answer:
            text = answer.read()
        assert os.WIFSIGNALED(status)
        assert text, "the scene failed"
        return int(text)


class Simulated:
    def __init__(self) -> None:
        self._disk = SimulatedDisk(Random(3))
        self._disk.faults.capacity_bytes = DISK_BYTES

    def files(self) -> Files:
        return SimulatedFiles(self._disk)

    def fill(self) -> None:
        self._disk.faults.capacity_bytes = DISK_BYTES - FILLER_BYTES

    def free(self) -> None:
        self._disk.faults.capacity_bytes = DISK_BYTES

    def life(self, scene: Callable[[], int]) -> int:
        result = scene()
        self._disk.crash(power=False)
        return result


class Broker:
    """A log with one topic, whose messages say their own offset."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.log = Log.open(files, SETTINGS, ManualClock(), Random(5))
        self.writer = InlineWriter(self.log)

    @property
    def end(self) -> int:
        return self.log.ends(TOPIC).durable

    def settle(self, begin: Callable[[Callable[[int, DanubeError | None], None]], None]) -> None:
        """Begins something, writes, and raises what came of it."""
        outcome: list[DanubeError | None] = []
        begin(lambda _offset, error: outcome.append(error))
        self.writer.run()
        (error,) = outcome
        if error is not None:
            raise error

    def publish(self) -> None:
        batch = encode_batch(Records([b"%d" % self.end + bytes(2000)]), topic_id=TOPIC)
        self.settle(lambda done: self.log.append(TOPIC, batch, check_batch(batch), done))

    def publish_until_full(self) -> DiskFull:
        for _ in range(DISK_BYTES // 2000):
            try:
                self.publish()
            except DiskFull as error:
                return error
        raise AssertionError("the disk never became full")

    def acknowledge(self, position: int) -> None:
        ranges = [(0, position)]
        self.settle(lambda done: self.log.cursors.ack(TOPIC, SUBSCRIPTION, 0, ranges, done, start=0))

    def check(self, end: int, position: int) -> None:
        """All `end` messages and the acknowledgement are there, and nothing is damaged."""
        assert {report.finding for report in self.log.reports} <= {Finding.TORN_TAIL}, self.log.reports
        assert self.end == end
        offset = 0
        while offset < end:
            for batch in self.log.read(TOPIC, offset, 1 << 20):
                for value in open_batch(batch.data).payloads():
                    assert value is not None
                    assert int(value.rstrip(b"\0")) == offset
                    offset += 1
        cursor = self.log.cursors.get(TOPIC, SUBSCRIPTION)
        assert cursor is not None
        assert cursor.position == position


def check_sentence(error: DanubeError) -> None:
    assert str(error)
    assert "\n" not in str(error)
    assert error.code
    assert error.advice


def full_then_free(disk: Disk) -> None:
    disk.fill()
    broker = Broker(disk.files())
    error = broker.publish_until_full()
    assert error.code == 402
    check_sentence(error)
    full_at = broker.end
    assert full_at > 20
    for position in range(1, 20):
        broker.acknowledge(position)
        assert isinstance(broker.publish_until_full(), DiskFull)
    broker.check(full_at, 19)
    disk.free()
    broker.publish()
    broker.publish()
    broker.check(full_at + 2, 19)
    broker.files.close()
    Broker(disk.files()).check(full_at + 2, 19)


def killed_when_full(disk: Disk) -> None:
    def first_life() -> int:
        broker = Broker(disk.files())
        broker.publish_until_full()
        broker.acknowledge(7)
        return broker.end

    def next_life() -> int:
        """Whether it starts."""
        files = disk.files()
        try:
            broker = Broker(files)
        except StorageFailed as error:
            check_sentence(error)
            return 0
        broker.check(end, 7)
        return 1

    disk.fill()
    end = disk.life(first_life)
    started = [disk.life(next_life) for _ in range(RESTARTS)]
    assert started[0], "the reserve is there for a first start"
    disk.free()
    broker = Broker(disk.files())
    broker.check(end, 7)
    broker.publish()
    broker.check(end + 1, 7)
    assert check_folder(broker.files).is_whole


def read_only(folder: Path) -> None:
    disk = Tmpfs(folder)

    def life() -> int:
        Broker(disk.files()).publish()
        return 1

    disk.life(life)
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    for name in ("journal", "new"):
        with pytest.raises(DataFolderUnusable) as caught:
            OsFiles(folder / name)
        assert str(folder / name) in str(caught.value)
        assert "Read-only" in str(caught.value)
        check_sentence(caught.value)
    assert check_folder(OsFiles(folder / "journal", read_only=True)).is_whole


SCENES: dict[str, Callable[[Disk], None]] = {"full_then_free": full_then_free, "killed_when_full": killed_when_full}


def in_namespace(scene: str, folder: Path) -> subprocess.CompletedProcess[str]:
    mount = f'mount -t tmpfs -o size={DISK_BYTES} none "$1" && exec "$2" "$3" "$4" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(folder), sys.executable, __file__, scene]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def namespaces_work(folder: Path) -> bool:
    try:
        return in_namespace("nothing", folder).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Path | None:
    """Where to mount it; None: the simulated disk has to do."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if namespaces_work(folder):
        return folder
    if os.environ.get("CI") == "true":
        return None
    pytest.skip("needs 'unshare -rm' and a tmpfs mounted in it (user namespaces); CI=true runs it on a simulated disk")


@pytest.mark.parametrize("scene", SCENES)
def test_full_disk(small_disk: Path | None, scene: str) -> None:
    if small_disk is None:
        SCENES[scene](Simulated())
        return
    done = in_namespace(scene, small_disk)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("scene", SCENES)
def test_full_simulated_disk(scene: str) -> None:
    SCENES[scene](Simulated())


def test_read_only_folder(small_disk: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if small_disk is not None:
        done = in_namespace("read_only", small_disk)
        assert done.returncode == 0, done.stderr
        return

    def refuse(*_: object, **__: object) -> int:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DataFolderUnusable, match="Read-only"):
        OsFiles(tmp_path)


def test_stopping_after_a_failed_round_writes_nothing_on_top_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was accepted behind a failed round falls with it, also when the owner hears of the failure late."""
    log = Log.open(SimulatedFiles(SimulatedDisk(Random(1))), SETTINGS, ManualClock(), Random(1))
    posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    outcome: list[DanubeError | None] = []
    writing, may_fail = threading.Event(), threading.Event()
    write = log.journal.write

    def fail_once(drafts: list[Draft]) -> Written:
        if writing.is_set():
            return write(drafts)
        writing.set()
        may_fail.wait()
        raise StorageFailed("the disk failed")

    def append() -> None:
        batch = encode_batch(Records([b"x"]), topic_id=TOPIC)
        log.append(TOPIC, batch, check_batch(batch), lambda _offset, error: outcome.append(error))

    monkeypatch.setattr(log.journal, "write", fail_once)
    append()
    writer = ThreadWriter(log, posted.put)
    writer.kick()
    writing.wait()
    append()
    may_fail.set()
    writer.stop()
    while not posted.empty():
        posted.get()()
    assert [type(error) for error in outcome] == [StorageFailed, StorageFailed]
    assert log.ends(TOPIC).durable == 0
    assert not log.core.topic(TOPIC).gaps.items()


def test_a_round_taken_during_a_commit_is_counted() -> None:
    """Bytes under way are counted on two threads; a lost update would make the bound drift, up to refusing all."""
    log = Log.open(SimulatedFiles(SimulatedDisk(Random(1))), SETTINGS, ManualClock(), Random(1))
    taken: list[list[Entry]] = []

    class Interrupted(list[Entry]):
        """The writer's thread takes the next round in the middle of the first pass over this one."""

        def __iter__(self) -> Iterator[Entry]:
            if len(taken) == 1:
                thread = threading.Thread(target=lambda: taken.append(log.core.take()))
                thread.start()
                thread.join()
            return super().__iter__()

    def append() -> None:
        batch = encode_batch(Records([bytes(4000)]), topic_id=TOPIC)
        log.append(TOPIC, batch, check_batch(batch), lambda _offset, _error: None)

    append()
    taken.append(log.core.take())
    append()
    first = log.journal.write([entry.draft() for entry in taken[0]])
    log.core.commit(Interrupted(taken[0]), first)
    log.core.commit(taken[1], log.journal.write([entry.draft() for entry in taken[1]]))
    assert log.core._taken_bytes == 0


if __name__ == "__main__":
    scene_name, mounted = sys.argv[1], Path(sys.argv[2])
    if scene_name == "read_only":
        read_only(mounted)
    elif scene_name != "nothing":
        SCENES[scene_name](Tmpfs(mounted))
