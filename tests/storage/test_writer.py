"""Moving rounds to the disk: group commit, failures, stopping. No test waits for time to pass."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest
from tests.storage.rig import SETTINGS, Outcome, batch, read_values

from pydanube.model import Buffer
from pydanube.model.errors import DiskFull, OffsetOutOfRange, StorageFailed
from pydanube.storage import InlineWriter, Log, MemoryFiles, OsFiles, Release, Retention, ThreadWriter
from pydanube.storage.files import MemoryFile
from pydanube.testing.clock import ManualClock

TOPIC = 7
PATIENCE_S = 30.0  # never waited for unless something hangs


class GateFile(MemoryFile):
    folder: "GateFiles"

    def sync(self) -> None:
        self.folder.syncs += 1
        self.folder.in_sync.set()
        assert self.folder.gate.wait(PATIENCE_S)
        if self.folder.failing:
            raise OSError(5, "broken")


class GateFiles(MemoryFiles):
    """Syncs wait at a gate, so that a test decides what comes together behind it."""

    def __init__(self) -> None:
        super().__init__(8 << 20)
        self.gate = threading.Event()
        self.gate.set()
        self.in_sync = threading.Event()
        self.failing = False
        self.syncs = 0

    def create(self, name: str) -> MemoryFile:
        super().create(name)
        file = GateFile(name, self)
        file.folder = self
        self._files[name] = file
        return file


class Owner:
    """The thread that owns the log: it runs what the writer posts, when the test tells it to."""

    def __init__(self, files: MemoryFiles) -> None:
        self.log = Log.open(files, SETTINGS, ManualClock(), Random(1))
        assert InlineWriter(self.log).checkpoint()  # so that none is due
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.rounds = 0
        self.writer = ThreadWriter(self.log, self.posted.put, idle_seconds=1e6, after_round=self._count)

    def _count(self) -> None:
        self.rounds += 1

    def send(self, *values: bytes, kick: bool = True) -> Outcome:
        outcome = Outcome()
        self.log.append(TOPIC, *batch(TOPIC, *values), outcome)
        if kick:
            self.writer.kick()
        return outcome

    def run_one(self) -> None:
        self.posted.get(timeout=PATIENCE_S)()

    def run_until(self, *outcomes: Outcome) -> None:
        while not all(outcome.heard for outcome in outcomes):
            self.run_one()

    def run_rest(self) -> None:
        while not self.posted.empty():
            self.run_one()

    def values(self) -> list[bytes]:
        return [value for _, value in read_values(self.log, TOPIC)]


@pytest.fixture
def gated() -> Iterator[tuple[Owner, GateFiles]]:
    files = GateFiles()
    owner = Owner(files)
    yield owner, files
    files.gate.set()
    owner.writer.stop()


def hold_a_round(owner: Owner, files: GateFiles) -> Outcome:
    """A round is in its sync, and stays there until the gate is opened."""
    files.gate.clear()
    files.in_sync.clear()
    first = owner.send(b"first")
    assert files.in_sync.wait(PATIENCE_S)
    return first


def test_what_comes_together_during_a_sync_shares_the_next_round(gated: tuple[Owner, GateFiles]) -> None:
    owner, files = gated
    first = hold_a_round(owner, files)
    rest = [owner.send(b"%d" % number) for number in range(50)]
    assert not first.heard
    syncs = files.syncs
    files.gate.set()
    owner.run_until(first, *rest)
    assert owner.rounds == 2
    assert files.syncs == syncs + 1
    assert [outcome.offset for outcome in rest] == list(range(1, 51))


def test_nothing_is_answered_before_its_sync_returns(gated: tuple[Owner, GateFiles]) -> None:
    owner, files = gated
    first = hold_a_round(owner, files)
    assert owner.posted.empty()
    assert owner.log.ends(TOPIC).durable == 0
    files.gate.set()
    owner.run_until(first)
    assert owner.log.ends(TOPIC).durable == 1


def test_after_a_failed_round_nothing_is_written_until_the_owner_has_rolled_back(
    gated: tuple[Owner, GateFiles],
) -> None:
    owner, files = gated
    first = hold_a_round(owner, files)
    on_top = owner.send(b"on top")
    files.failing = True
    files.gate.set()
    failure = owner.posted.get(timeout=PATIENCE_S)  # posted, not yet run
    files.failing = False
    syncs = files.syncs
    owner.writer.kick()
    late = owner.send(b"late")
    assert owner.posted.empty()
    assert files.syncs == syncs
    failure()
    for outcome in (first, on_top, late):
        assert isinstance(outcome.error, StorageFailed)
    again = owner.send(b"again")
    owner.run_until(again)
    assert again.offset == 0
    assert owner.values() == [b"again"]


def test_stop_writes_what_was_accepted(gated: tuple[Owner, GateFiles]) -> None:
    owner, _ = gated
    outcomes = [owner.send(b"%d" % number, kick=False) for number in range(5)]
    owner.writer.stop()
    owner.run_rest()
    assert [outcome.offset for outcome in outcomes] == [0, 1, 2, 3, 4]


def test_stop_behind_a_failed_round_writes_nothing_on_top_of_it(gated: tuple[Owner, GateFiles]) -> None:
    owner, files = gated
    first = hold_a_round(owner, files)
    on_top = owner.send(b"on top")
    files.failing = True
    files.gate.set()
    failure = owner.posted.get(timeout=PATIENCE_S)
    files.failing = False
    owner.writer.stop()
    failure()
    owner.run_rest()
    assert isinstance(first.error, StorageFailed)
    assert isinstance(on_top.error, StorageFailed)
    assert owner.log.ends(TOPIC).durable == 0


def test_idle_writer_says_once_that_the_last_round_is_durable() -> None:
    owner = Owner(MemoryFiles(8 << 20))
    owner.writer.stop()
    owner.writer = ThreadWriter(owner.log, owner.posted.put, idle_seconds=1e-3, after_round=owner._count)
    owner.run_until(owner.send(b"a"))
    owner.run_one()
    assert owner.rounds == 2
    assert owner.log.journal.is_marked  # it sleeps until something comes
    owner.writer.stop()


def test_checkpoint_is_written_beside_the_rounds(tmp_path_factory: pytest.TempPathFactory) -> None:
    files = OsFiles(tmp_path_factory.mktemp("data"))
    log = Log.open(files, SETTINGS, ManualClock(), Random(1))
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    writer = ThreadWriter(log, posted.put, idle_seconds=1e6)
    outcome = Outcome()
    log.append(TOPIC, *batch(TOPIC, b"a"), outcome)
    assert log.upkeep.checkpoint_due
    writer.kick()
    posted.get(timeout=PATIENCE_S)()
    assert outcome.offset == 0
    posted.get(timeout=PATIENCE_S)()  # the checkpoint is done
    assert not log.upkeep.checkpoint_due
    assert any(name.endswith(".checkpoint") for name in files.list())
    writer.stop()
    InlineWriter(log).close()
    files.close()


def test_writer_over_real_files_survives_a_restart(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("data")
    for number in range(3):
        files = OsFiles(folder)
        log = Log.open(files, SETTINGS, ManualClock(), Random(number))
        outcome = Outcome()
        log.append(TOPIC, *batch(TOPIC, b"%d" % number), outcome)
        writer = InlineWriter(log)
        writer.run()
        assert outcome.offset == number
        writer.close()
        files.close()


# -- the memory journal -----------------------------------------------------------------------------------------------


class MemoryLog:
    def __init__(self, bytes_max: int = 1 << 20) -> None:
        self.clock = ManualClock()
        self.files = MemoryFiles(bytes_max)
        self.log = Log.open(self.files, SETTINGS, self.clock, Random(1))
        self.writer = InlineWriter(self.log)

    def publish(self, values: Sequence[Buffer]) -> Outcome:
        outcome = Outcome()
        self.log.append(TOPIC, *batch(TOPIC, *map(bytes, values)), outcome)
        self.writer.run()
        return outcome


def test_memory_journal_from_end_to_end() -> None:
    memory = MemoryLog()
    assert [memory.publish([b"%d" % number, b"x"]).offset for number in range(30)] == list(range(0, 60, 2))
    acked = Outcome()
    memory.log.cursors.ack(TOPIC, 9, 0, [(0, 40)], acked, start=0)
    memory.writer.run()
    assert acked.offset == 0
    assert len(dict(read_values(memory.log, TOPIC))) == 60
    memory.log.parking.release(Release([], "w", 1), Outcome())
    memory.clock.advance(SETTINGS.ledger_age_us / 1e6)
    memory.log.upkeep.tick(Outcome())
    memory.writer.run()
    assert memory.log.upkeep.retain(TOPIC, Retention(0), {9: 0}, Outcome()) == 0  # 20 messages are not consumed
    memory.log.cursors.ack(TOPIC, 9, 0, [(40, 60)], Outcome(), start=0)
    memory.writer.run()
    assert memory.log.upkeep.retain(TOPIC, Retention(0), {9: 0}, Outcome()) == 60
    memory.writer.run()
    with pytest.raises(OffsetOutOfRange):
        memory.log.read(TOPIC, 0, 1000)


def test_full_memory_journal_refuses_batches() -> None:
    memory = MemoryLog(bytes_max=SETTINGS.file_bytes + SETTINGS.reserve_bytes + 1000)
    outcomes = [memory.publish([bytes(4000)])]
    while outcomes[-1].heard[0][1] is None:
        outcomes.append(memory.publish([bytes(4000)]))
    assert isinstance(outcomes[-1].error, DiskFull)
    assert len(outcomes) > 10
    acked = Outcome()
    memory.log.cursors.ack(TOPIC, 9, 0, [(0, 1)], acked, start=0)
    memory.writer.run()
    assert acked.offset == 0
