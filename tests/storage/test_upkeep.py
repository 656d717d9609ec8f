"""Checkpoints, retention, deletion: what may go, when, and what must not."""

import pytest
from tests.storage.rig import Outcome, Rig

from pydanube.model.errors import InvalidAck, OffsetOutOfRange
from pydanube.storage import Finding, InlineWriter, Retention
from pydanube.storage.checkpoint import checkpoint_round
from pydanube.storage.file_header import index_name, number_of
from pydanube.storage.reader import run_read

A, B = 0xA, 0xB
AT_ONCE = Retention(time_us=0)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def files(rig: Rig) -> list[int]:
    return [number for number in map(number_of, rig.disk.names()) if number is not None]


def retain(rig: Rig, topic_id: int, retention: Retention = AT_ONCE, starts: dict[int, int] | None = None) -> int:
    outcome = Outcome()
    first = rig.log.upkeep.retain(topic_id, retention, starts or {}, outcome)
    rig.writer.run()
    assert outcome.offset == first
    return first


def close_ledgers(rig: Rig) -> None:
    rig.clock.advance(rig.settings.ledger_age_us / 1e6)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()


def delete(rig: Rig, topic_id: int) -> None:
    outcome = Outcome()
    rig.log.upkeep.delete_topic(topic_id, outcome)
    rig.writer.run()
    assert outcome.offset == 0


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_checkpoint_is_due_with_every_new_file(rig: Rig) -> None:
    assert rig.log.upkeep.checkpoint_due
    rig.checkpoint()
    assert not rig.log.upkeep.checkpoint_due
    rig.publish(A, b"a")
    assert not rig.log.upkeep.checkpoint_due
    rig.rotate()
    rig.publish(A, b"a")
    assert rig.log.upkeep.checkpoint_due


def test_failed_checkpoint_is_due_again(rig: Rig) -> None:
    rig.disk.faults.sync_eio = 1.0
    assert not InlineWriter(rig.log).checkpoint()
    rig.disk.faults.sync_eio = 0.0
    assert rig.log.upkeep.checkpoint_due
    rig.checkpoint()


def test_two_checkpoints_are_kept(rig: Rig) -> None:
    for _ in range(4):
        rig.publish(A, b"a")
        rig.checkpoint()
    rounds = [number for number in map(checkpoint_round, rig.disk.names()) if number is not None]
    assert rounds == [rig.log.core.last_round - 1, rig.log.core.last_round]


def test_closed_file_gets_a_sidecar_that_reading_uses(rig: Rig) -> None:
    for offset in range(20):
        rig.publish(A, b"%d" % offset)
        rig.publish(B, bytes(500))
    rig.rotate()
    rig.publish(B, b"b")
    rig.checkpoint()
    assert index_name(1) in rig.disk.names()
    rig.restart()
    assert rig.values(A) == {offset: b"%d" % offset for offset in range(20)}


def test_damaged_sidecar_is_made_again_and_reported(rig: Rig) -> None:
    rig.publish(A, b"a")
    rig.rotate()
    rig.publish(B, b"b")
    rig.checkpoint()
    rig.disk.crash(power=True)
    rig.disk.flip_bit(index_name(1), 40)
    rig.open()
    assert rig.values(A) == {0: b"a"}
    assert [report.file for report in rig.reports(Finding.INDEX)] == [index_name(1)]
    rig.checkpoint()
    rig.restart()
    assert rig.values(A) == {0: b"a"}
    assert rig.log.reports == []


# -- deletion ---------------------------------------------------------------------------------------------------------


def three_files(rig: Rig) -> None:
    for topic_id in (A, B, A):
        rig.publish(topic_id, b"x")
        rig.checkpoint()
        rig.rotate()
    rig.publish(B, b"x")
    rig.checkpoint()
    assert files(rig) == [1, 2, 3, 4]


def test_file_that_is_needed_stays_and_so_do_all_behind_it(rig: Rig) -> None:
    three_files(rig)
    delete(rig, B)
    assert rig.log.upkeep.delete_files() == 0
    assert files(rig) == [1, 2, 3, 4]


def test_files_go_oldest_first_when_nothing_in_them_is_needed(rig: Rig) -> None:
    three_files(rig)
    close_ledgers(rig)
    rig.checkpoint()
    rig.publish(A, b"more")
    rig.checkpoint()
    assert retain(rig, A) == 2  # of topic B file 2 is needed
    assert rig.log.upkeep.deletable_files() == [1]
    assert rig.log.upkeep.delete_files() == 1
    assert files(rig)[0] == 2
    assert index_name(1) not in rig.disk.names()
    rig.restart()
    assert rig.values(A) == {2: b"more"}
    assert len(rig.values(B)) == 2
    assert rig.log.reports == []


def test_file_goes_only_when_the_older_checkpoint_covers_it(rig: Rig) -> None:
    rig.publish(A, b"x")
    delete(rig, A)
    rig.rotate()
    rig.publish(B, b"x")  # file 2
    rig.checkpoint()
    assert rig.log.upkeep.deletable_files() == []  # there is one checkpoint, and it could be damaged
    rig.publish(B, b"x")
    rig.checkpoint()
    assert rig.log.upkeep.deletable_files() == [1]
    rig.rotate()
    rig.publish(B, b"x")  # file 3
    delete(rig, B)
    rig.checkpoint()
    assert rig.log.upkeep.deletable_files() == [1]  # file 2 is where the older checkpoint goes on


def test_open_reader_reads_on_when_the_file_is_deleted(rig: Rig) -> None:
    rig.publish(A, b"x")
    rig.rotate()
    rig.publish(B, b"x")
    rig.log.core.cache.drop(A)
    (part,) = rig.log.plan(A, 0)
    (job,) = rig.log.read_jobs(A, part, 1000)
    delete(rig, A)
    for _ in range(2):
        rig.publish(B, b"x")
        rig.checkpoint()
    assert rig.log.upkeep.delete_files() == 1
    assert [batch.first_offset for batch in run_read(job)] == [0]


def test_deleted_topic_is_forgotten_when_no_file_mentions_it(rig: Rig) -> None:
    rig.publish(A, b"x")
    delete(rig, A)
    rig.log.upkeep.delete_files()
    assert rig.log.upkeep.forgotten_topics == []
    rig.rotate()
    for _ in range(2):
        rig.publish(B, b"x")
        rig.checkpoint()
    rig.restart()
    assert A in rig.log.core.state.deleted
    rig.log.upkeep.delete_files()
    assert rig.log.upkeep.forgotten_topics == [A]
    assert rig.log.core.state.deleted == {}


def test_deleting_twice_is_the_same_as_once(rig: Rig) -> None:
    rig.publish(A, b"x")
    delete(rig, A)
    before = rig.log.core.last_round
    delete(rig, A)
    assert rig.log.core.last_round == before


# -- retention --------------------------------------------------------------------------------------------------------


def test_retention_is_durable(rig: Rig) -> None:
    rig.publish(A, b"old")
    close_ledgers(rig)
    rig.publish(A, b"new")
    assert retain(rig, A) == 1
    with pytest.raises(OffsetOutOfRange):
        rig.log.read(A, 0, 1000)
    rig.restart()
    assert (rig.log.first_offset(A), rig.values(A)) == (1, {1: b"new"})


def test_retention_waits_for_subscriptions_that_have_not_moved_yet(rig: Rig) -> None:
    rig.publish(A, b"old", b"old")
    close_ledgers(rig)
    assert retain(rig, A, starts={9: 0}) == 0
    rig.ack(A, 9, 0, 1)
    assert retain(rig, A, starts={9: 0}) == 0
    rig.ack(A, 9, 1, 2)
    assert retain(rig, A, starts={9: 0}) == 2


def test_subscription_that_is_gone_holds_nothing(rig: Rig) -> None:
    rig.publish(A, b"old")
    close_ledgers(rig)
    rig.ack(A, 9, 0, 1)
    rig.log.cursors.reset(A, 9, 1, 0, Outcome())
    rig.writer.run()
    assert retain(rig, A, starts={9: 0}) == 0
    assert retain(rig, A, starts={}) == 1


# -- orphans ----------------------------------------------------------------------------------------------------------


def mark(rig: Rig, *known: int) -> list[int]:
    found = rig.log.upkeep.mark_orphans(known, Outcome())
    rig.writer.run()
    return found


def test_unknown_topic_is_marked_and_kept_for_its_grace(rig: Rig) -> None:
    rig.publish(A, b"a")
    rig.publish(B, b"b")
    assert mark(rig, B) == [A]
    rig.restart()
    assert rig.values(A) == {0: b"a"}
    rig.clock.advance(rig.settings.orphan_grace_us / 1e6 - 1)
    assert mark(rig, B) == [A]  # the grace does not begin again
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert rig.log.core.state.deleted == {}
    rig.clock.advance(1)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert rig.log.core.state.deleted.keys() == {A}
    assert rig.values(B) == {0: b"b"}


def test_orphan_that_the_metadata_knows_again_is_adopted(rig: Rig) -> None:
    rig.publish(A, b"a")
    mark(rig)
    assert mark(rig, A) == []
    assert rig.log.core.state.orphans == {}
    rig.clock.advance(2 * rig.settings.orphan_grace_us / 1e6)
    rig.log.upkeep.tick(Outcome())
    rig.writer.run()
    assert rig.values(A) == {0: b"a"}


# -- cursors and times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "end"), [(0, 3), (2, 3), (1, 1), (1, 0), (-1, 1)])
def test_only_durable_messages_can_be_acknowledged(rig: Rig, first: int, end: int) -> None:
    rig.publish(A, b"a", b"b")
    rig.send(A, b"not yet durable")
    with pytest.raises(InvalidAck):
        rig.log.cursors.ack(A, 9, 0, [(first, end)], Outcome(), start=0)


def test_cursor_is_where_the_subscription_began_until_it_moves(rig: Rig) -> None:
    rig.publish(A, b"a", b"b", b"c")
    assert rig.log.cursors.get(A, 9) is None
    one, two = Outcome(), Outcome()
    rig.log.cursors.ack(A, 9, 0, [(2, 3)], one, start=1)
    rig.log.cursors.ack(A, 9, 0, [(1, 2)], two, start=1)
    assert rig.log.cursors.get(A, 9) is None  # only what is durable is visible
    rig.writer.run()
    assert (one.offset, two.offset) == (0, 0)
    rig.restart()
    cursor = rig.log.cursors.get(A, 9)
    assert cursor is not None
    assert cursor.position == 3


def test_dropped_cursor_is_gone(rig: Rig) -> None:
    rig.publish(A, b"a")
    rig.ack(A, 9, 0, 1)
    rig.log.cursors.drop(A, 9, Outcome())
    rig.writer.run()
    rig.restart()
    assert rig.log.cursors.get(A, 9) is None


@pytest.mark.parametrize("restarted", [False, True])
def test_offset_at_time(rig: Rig, restarted: bool) -> None:
    times = []
    for _ in range(40):
        rig.clock.advance(100)
        times.append(rig.clock.now_us())
        rig.publish(A, bytes(300), b"second of its batch")
        rig.publish(B, bytes(300))
    if restarted:
        rig.writer.close()
        rig.restart()
    assert len(rig.log.core.state.topics[A].ledgers) > 1
    assert len(files(rig)) > 1
    for number, time_us in enumerate(times):
        assert rig.log.offset_at_time(A, time_us) == 2 * number
        assert rig.log.offset_at_time(A, time_us - 1) == 2 * number
        assert rig.log.offset_at_time(A, time_us + 1) == 2 * number + 2
    assert rig.log.offset_at_time(A, 0) == 0
    assert rig.log.offset_at_time(A, times[-1] + 1) == rig.log.ends(A).durable


def test_offset_at_time_begins_where_retention_does(rig: Rig) -> None:
    rig.publish(A, b"old")
    close_ledgers(rig)
    rig.publish(A, b"new")
    retain(rig, A)
    assert rig.log.offset_at_time(A, 0) == 1
