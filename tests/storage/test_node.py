"""A log and its metadata joined: names, incarnations, and a disk that is lost."""

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

import pytest
from tests.storage.rig import SETTINGS, Outcome, batch, read_values

from pydanube.metadata import MemoryStore, keys
from pydanube.model.errors import JournalMismatch, StorageFailed
from pydanube.storage import Retention
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import SimulatedDisk, SimulatedFiles
from pydanube.testing.node import Node

T = TypeVar("T")
NAME = "/default/orders"
STEP = 100


def now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value  # type: ignore[no-any-return]


class Machine:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.rng = Random(1)
        self.metadata = MemoryStore(self.clock)
        self.disk = SimulatedDisk(Random(2))
        self.start()

    def start(self, *, disk_lost: bool = False) -> None:
        files = SimulatedFiles(self.disk)
        started = Node.start(
            files, self.metadata, SETTINGS, self.clock, self.rng, disk_lost=disk_lost, ceiling_step=STEP
        )
        self.node = now(started)

    def restart(self) -> None:
        self.disk.crash(power=True)
        self.start()

    def new_disk(self) -> None:
        self.disk = SimulatedDisk(Random(3))

    def create(self) -> int:
        return now(self.node.create_topic(NAME))

    def publish(self, topic_id: int, *values: bytes) -> int:
        outcome = Outcome()
        self.node.log.append(topic_id, *batch(topic_id, *values), outcome)
        self.node.writer.run()
        return outcome.offset

    def upkeep(self) -> None:
        now(self.node.upkeep(Retention(time_us=None)))


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_topic_is_the_same_after_a_restart(machine: Machine) -> None:
    topic_id = machine.create()
    machine.publish(topic_id, b"a")
    machine.restart()
    assert machine.create() == topic_id
    assert dict(read_values(machine.node.log, topic_id)) == {0: b"a"}


def test_recreated_topic_has_another_id_and_nothing_of_the_old_one(machine: Machine) -> None:
    old = machine.create()
    machine.publish(old, b"old")
    subscription = now(machine.node.subscribe(NAME, "s", 0))
    machine.node.log.cursors.ack(old, subscription.id, 0, [(0, 1)], Outcome(), start=0)
    machine.node.writer.run()
    now(machine.node.delete_topic(NAME))
    machine.node.writer.run()
    new = machine.create()
    assert new != old
    assert machine.publish(new, b"new") == 0
    assert now(machine.node.subscribe(NAME, "s", 0)).id != subscription.id
    for _ in range(2):
        log = machine.node.log
        assert dict(read_values(log, new)) == {0: b"new"}
        assert log.cursors.get(new, subscription.id) is None
        assert old in log.core.state.deleted
        machine.restart()


def test_delete_that_reached_the_metadata_alone_is_made_up_for(machine: Machine) -> None:
    topic_id = machine.create()
    machine.publish(topic_id, b"a")
    now(machine.node.delete_topic(NAME))  # its round is never written
    machine.restart()
    assert topic_id in machine.node.log.core.state.deleted
    assert machine.node.log.core.state.orphans == {}


def test_tombstone_goes_when_no_file_mentions_the_topic(machine: Machine) -> None:
    topic_id = machine.create()
    machine.publish(topic_id, b"a")
    now(machine.node.delete_topic(NAME))
    machine.node.writer.run()
    assert tombstones(machine) == [topic_id]
    for _ in range(3):  # new files, new checkpoints
        machine.clock.advance(SETTINGS.file_age_us / 1e6 + 1)
        machine.publish(machine.create(), b"b")
        machine.upkeep()
    assert tombstones(machine) == []
    machine.restart()
    assert machine.node.log.core.state.deleted == {}


def tombstones(machine: Machine) -> list[int]:
    page = now(machine.metadata.range(keys.TOMBSTONES_PREFIX))
    return [keys.parse_tombstone_key(entry.key) for entry in page.entries]


def test_lost_disk_is_noticed(machine: Machine) -> None:
    machine.publish(machine.create(), b"a")
    machine.new_disk()
    with pytest.raises(JournalMismatch):
        machine.start()
    assert [name for name in machine.disk.names() if name.endswith(".journal")] == []


def test_disk_of_another_node_is_noticed(machine: Machine) -> None:
    other = Machine()
    other.rng = Random(99)
    other.metadata = MemoryStore(other.clock)
    other.new_disk()
    other.start()
    machine.disk = other.disk
    machine.disk.crash(power=True)
    with pytest.raises(JournalMismatch):
        machine.start()


def test_after_the_loss_of_a_disk_offsets_go_on_above_the_ceiling(machine: Machine) -> None:
    topic_id = machine.create()
    machine.publish(topic_id, *[b"x"] * STEP)  # as many as the ceiling allows
    ceiling = machine.node.log.ceiling
    machine.new_disk()
    machine.start(disk_lost=True)
    assert machine.create() == topic_id  # the metadata still knows it
    assert machine.publish(topic_id, b"next") == ceiling
    machine.restart()  # from here on it is an ordinary journal
    assert machine.publish(topic_id, b"next") == ceiling + 1
    assert machine.node.log.reports == []


def test_lost_disk_that_is_not_lost_is_refused(machine: Machine) -> None:
    machine.publish(machine.create(), b"a")
    machine.disk.crash(power=True)
    with pytest.raises(JournalMismatch):
        machine.start(disk_lost=True)


def test_ceiling_is_raised_before_it_is_reached(machine: Machine) -> None:
    topic_id = machine.create()
    for _ in range(10):
        machine.publish(topic_id, *[b"x"] * (STEP // 2))
        machine.upkeep()
        assert machine.node.log.ceiling >= machine.node.log.offset_highest + STEP // 2
    assert machine.node.log.ends(topic_id).durable == 5 * STEP


def test_ceiling_is_never_passed(machine: Machine) -> None:
    topic_id = machine.create()
    machine.publish(topic_id, *[b"x"] * STEP)
    with pytest.raises(StorageFailed, match="ceiling"):
        machine.publish(topic_id, b"x")
    machine.restart()  # a start raises it, as upkeep does
    assert machine.publish(topic_id, b"x") == STEP


def test_topic_that_the_metadata_never_heard_of_is_an_orphan(machine: Machine) -> None:
    machine.publish(12345, b"a")
    machine.restart()
    assert machine.node.log.core.state.orphans.keys() == {12345}
