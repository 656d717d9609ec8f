"""Parked batches: stored without offsets, given them once, together, by reference."""

from dataclasses import replace

import pytest
from tests.storage.rig import FOR_EVER_US, SETTINGS, Outcome, Rig, batch

from pydanube.model.errors import OutOfSequence, StagedLost, StagingFull, StorageFailed, UnknownTopic
from pydanube.records import read_header
from pydanube.storage import InlineWriter, ParkedHead, Release
from pydanube.storage.file_header import file_name

A, B = 0xA, 0xB


@pytest.fixture
def rig() -> Rig:
    return Rig()


def release(rig: Rig, *ids: int, writer: str = "", version: int = 0) -> None:
    outcome = Outcome()
    rig.log.parking.release(Release(ids, writer, version), outcome)
    rig.writer.run()
    assert outcome.offset == 0


def test_parked_batch_has_no_offset_and_is_not_read(rig: Rig) -> None:
    rig.park(1, A, b"parked")
    assert rig.log.ends(A) == (0, 0, 0)
    assert rig.publish(A, b"published") == 0
    assert rig.values(A) == {0: b"published"}


def test_release_gives_offsets_in_the_order_of_the_ids(rig: Rig) -> None:
    rig.publish(A, b"first")
    rig.park(1, A, b"one", b"two")
    rig.park(2, A, b"three")
    release(rig, 2, 1)
    assert rig.values(A) == {0: b"first", 1: b"three", 2: b"one", 3: b"two"}
    assert rig.publish(A, b"last") == 4


def test_release_over_two_topics_is_one_round(rig: Rig) -> None:
    rig.park(1, A, b"a")
    rig.park(2, B, b"b")
    before = rig.log.core.last_round
    release(rig, 1, 2, writer="sink", version=1)
    assert rig.log.core.last_round == before + 1
    assert (rig.values(A), rig.values(B)) == ({0: b"a"}, {0: b"b"})


@pytest.mark.parametrize("fault", ["write_eio", "sync_eio"])
def test_failed_release_happens_for_no_topic_and_can_be_asked_for_again(rig: Rig, fault: str) -> None:
    rig.park(1, A, b"a")
    rig.park(2, B, b"b")
    outcome = Outcome()
    setattr(rig.disk.faults, fault, 1.0)
    rig.log.parking.release(Release([1, 2], "sink", 1), outcome)
    rig.writer.run()
    setattr(rig.disk.faults, fault, 0.0)
    assert isinstance(outcome.error, StorageFailed)
    assert (rig.values(A), rig.values(B), rig.log.parking.committed("sink")) == ({}, {}, None)
    release(rig, 1, 2, writer="sink", version=1)
    assert (rig.values(A), rig.values(B)) == ({0: b"a"}, {0: b"b"})


def test_release_of_a_version_happens_once(rig: Rig) -> None:
    rig.park(1, A, b"a")
    first, again = Outcome(), Outcome()
    rig.log.parking.release(Release([1], "sink", 1), first)
    rig.log.parking.release(Release([1], "sink", 1), again)  # while it is under way
    assert (first.heard, again.heard) == ([], [])
    rig.writer.run()
    assert (first.offset, again.offset) == (0, 0)
    release(rig, 1, writer="sink", version=1)  # and when it is durable
    assert rig.values(A) == {0: b"a"}
    for power in (True, False):
        rig.restart(power=power)
        release(rig, 1, writer="sink", version=1)
        assert rig.values(A) == {0: b"a"}


def test_commit_remembers_where_it_went(rig: Rig) -> None:
    rig.publish(A, b"before")
    rig.park(1, A, b"a", b"a")
    rig.park(2, B, b"b")
    release(rig, 1, 2, writer="sink", version=7)
    for _ in range(2):
        move = rig.log.parking.committed("sink")
        assert move is not None
        assert (move.version, sorted(move.ranges)) == (7, [(A, 1, 3), (B, 0, 1)])
        rig.restart()


def test_writer_goes_on_with_the_next_version(rig: Rig) -> None:
    for version in (1, 2):
        rig.park(version, A, b"%d" % version)
        release(rig, version, writer="sink", version=version)
    assert rig.values(A) == {0: b"1", 1: b"2"}
    release(rig, writer="sink", version=3)  # nothing to release is a commit as well
    move = rig.log.parking.committed("sink")
    assert move is not None
    assert (move.version, move.ranges) == (3, ())


def test_id_that_is_named_twice_is_released_once(rig: Rig) -> None:
    rig.park(1, A, b"a")
    release(rig, 1, 1)
    assert rig.values(A) == {0: b"a"}


def test_unknown_batch_lets_the_whole_release_fail(rig: Rig) -> None:
    rig.park(1, A, b"a")
    with pytest.raises(StagedLost):
        rig.log.parking.release(Release([1, 99]), Outcome())
    assert not rig.log.core.has_waiting
    release(rig, 1)
    with pytest.raises(StagedLost):
        rig.log.parking.release(Release([1]), Outcome())


def test_batch_that_is_being_released_is_not_released_by_another(rig: Rig) -> None:
    rig.park(1, A, b"a")
    rig.log.parking.release(Release([1], "one", 1), Outcome())
    with pytest.raises(StagedLost):
        rig.log.parking.release(Release([1], "other", 1), Outcome())
    with pytest.raises(OutOfSequence):
        rig.log.parking.park(A, *batch(A, b"new"), ParkedHead(1, 0, FOR_EVER_US, 0), Outcome())
    rig.writer.run()
    assert rig.values(A) == {0: b"a"}


def test_parking_under_a_known_id_replaces(rig: Rig) -> None:
    rig.park(1, A, b"old")
    rig.park(1, A, b"new")
    release(rig, 1)
    assert rig.values(A) == {0: b"new"}


def test_discarded_batch_is_gone(rig: Rig) -> None:
    rig.park(1, A, b"a")
    outcome = Outcome()
    rig.log.parking.discard([1, 99], outcome)
    with pytest.raises(StagedLost):  # from the moment it is asked for
        rig.log.parking.release(Release([1]), Outcome())
    rig.writer.run()
    assert outcome.offset == 0
    assert (rig.log.core.state.parked, rig.log.core.state.parked_bytes) == ({}, 0)
    rig.restart()
    assert rig.log.core.state.parked == {}


def test_discard_leaves_alone_what_is_being_released(rig: Rig) -> None:
    rig.park(1, A, b"a")
    rig.log.parking.release(Release([1]), Outcome())
    outcome = Outcome()
    rig.log.parking.discard([1], outcome)
    assert outcome.offset == 0
    rig.writer.run()
    assert rig.values(A) == {0: b"a"}


def test_what_nobody_releases_expires(rig: Rig) -> None:
    rig.park(1, A, b"short", expires_us=rig.clock.now_us() + 10_000_000)
    rig.park(2, A, b"long")
    rig.clock.advance(9)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert rig.log.core.state.parked.keys() == {1, 2}
    rig.clock.advance(1)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert rig.log.core.state.parked.keys() == {2}


def test_parked_bytes_are_bounded(rig: Rig) -> None:
    rig.park(1, A, bytes(10_000))
    with pytest.raises(StagingFull):
        rig.park(2, A, bytes(10_000))
    release(rig, 1)
    rig.park(2, A, bytes(10_000))


def test_bytes_on_their_way_count_as_parked() -> None:
    rig = Rig(settings=replace(SETTINGS, staging_bytes=5000))
    head = ParkedHead(1, 0, FOR_EVER_US, 0)
    rig.log.parking.park(A, *batch(A, bytes(3000)), head, Outcome())
    with pytest.raises(StagingFull):
        rig.log.parking.park(A, *batch(A, bytes(3000)), head._replace(parked_id=2), Outcome())
    rig.disk.faults.sync_eio = 1.0
    rig.writer.run()  # it fails, and its bytes are free again
    rig.disk.faults.sync_eio = 0.0
    rig.park(2, A, bytes(3000))


def test_deleted_topic_cannot_be_released_to(rig: Rig) -> None:
    rig.park(1, A, b"a")
    rig.park(2, B, b"b")
    rig.log.upkeep.delete_topic(A, Outcome())
    with pytest.raises(UnknownTopic):
        rig.log.parking.release(Release([1, 2]), Outcome())
    rig.writer.run()
    assert rig.log.core.state.parked.keys() == {2}
    release(rig, 2)


def test_parked_batch_keeps_its_file(rig: Rig) -> None:
    rig.park(1, A, b"a")
    for _ in range(3):
        rig.rotate()
        rig.publish(B, b"b")
        rig.checkpoint()
    rig.log.core.state.topics.pop(B)  # so that nothing else holds the files
    assert rig.log.upkeep.deletable_files() == []
    release(rig, 1)
    assert rig.log.upkeep.deletable_files() == []  # the released messages still lie there
    assert rig.values(A) == {0: b"a"}


def test_released_batches_are_stamped_with_the_release(rig: Rig) -> None:
    rig.publish(A, b"before")
    rig.park(1, A, b"one", b"two")
    rig.clock.advance(50)
    release(rig, 1)
    released_us, epoch = rig.clock.now_us(), rig.log.journal.writer_epoch
    for _ in range(2):
        (stored,) = rig.log.read(A, 1, 1000)
        header = read_header(stored.data)
        assert (stored.first_offset, stored.end_offset) == (1, 3)
        assert (header.base_offset, header.ledger_epoch, header.append_time_us) == (1, epoch, released_us)
        rig.clock.advance(50)
        rig.restart()


def test_released_batches_are_read_from_the_files_that_they_were_parked_in(rig: Rig) -> None:
    rig.park(1, A, b"one")
    rig.rotate()
    rig.park(2, A, b"two")
    rig.rotate()
    rig.publish(A, b"zero")
    release(rig, 1, 2)
    rig.publish(A, b"three")
    expected = {0: b"zero", 1: b"one", 2: b"two", 3: b"three"}
    assert rig.values(A) == expected
    InlineWriter(rig.log).close()
    rig.restart()
    assert rig.values(A) == expected


def test_parked_batch_in_a_kept_tail_is_found_at_its_new_place(rig: Rig) -> None:
    """Nothing vouches for the last round, so recovery copies it into another file."""
    rig.park(1, A, b"a")
    rig.restart(power=False)
    assert rig.log.core.state.parked[1].file_number == rig.place.file_number
    release(rig, 1)
    assert rig.values(A) == {0: b"a"}


def test_damage_of_a_parked_batch_is_noticed_when_it_is_read(rig: Rig) -> None:
    rig.park(1, A, b"good")
    rig.park(2, A, b"bad")
    parked = rig.log.core.state.parked[2]
    rig.rotate()
    release(rig, 1, 2)
    rig.disk.flip_bit(file_name(parked.file_number), parked.position + parked.length - 10)
    assert rig.values(A) == {0: b"good"}


def test_writer_is_forgotten_after_its_time(rig: Rig) -> None:
    release(rig, writer="sink", version=1)
    rig.checkpoint()
    assert rig.log.parking.committed("sink") is not None
    rig.clock.advance(rig.settings.writer_forget_us / 1e6)
    rig.checkpoint()
    assert rig.log.parking.committed("sink") is None
