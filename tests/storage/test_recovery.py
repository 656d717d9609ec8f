"""Opening a log again: each rule of recovery by itself."""

from contextlib import suppress
from random import Random

import pytest
from tests.storage.rig import SETTINGS, Rig, batch

from pydanube.model.errors import DataDamaged, JournalMismatch
from pydanube.records import restamped
from pydanube.storage import Finding, Log, MemoryFiles, Opening
from pydanube.storage.checkpoint import checkpoint_round
from pydanube.storage.file_header import FILE_HEADER_BYTES, file_name, number_of
from pydanube.storage.recovery import Recovery
from pydanube.storage.rounds import Draft, Kind
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import Crashed, SimulatedFiles

A, B = 0xA, 0xB  # topics
SEEDS = range(25)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def batch_draft(rig: Rig, topic_id: int, first: int, *values: bytes) -> Draft:
    epoch = rig.log.journal.writer_epoch
    data = restamped(batch(topic_id, *values)[0], first, epoch, rig.clock.now_us())
    return Draft(Kind.BATCH, topic_id, first, len(values), epoch, data)


# -- nothing is wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_acknowledged_survives_a_power_cut(seed: int) -> None:
    rig = Rig(seed)
    rig.publish(A, b"a0", b"a1")
    rig.publish(B, b"b0")
    rig.ack(A, 9, 0, 1)
    rig.park(50, B, b"parked")
    rig.restart()
    assert (rig.values(A), rig.values(B)) == ({0: b"a0", 1: b"a1"}, {0: b"b0"})
    cursor = rig.log.cursors.get(A, 9)
    assert cursor is not None
    assert cursor.position == 1
    assert 50 in rig.log.core.state.parked
    assert rig.log.reports == []


def test_everything_is_the_same_after_a_clean_stop(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.writer.close()
    rig.restart()
    assert rig.values(A) == {0: b"a0"}
    assert rig.publish(A, b"a1") == 1
    assert rig.log.reports == []


def test_every_start_is_a_new_file_and_a_new_epoch(rig: Rig) -> None:
    for epoch in (1, 2, 3):
        assert rig.log.journal.writer_epoch == epoch == rig.place.file_number
        rig.restart()


# -- the tail ---------------------------------------------------------------------------------------------------------


def test_torn_tail_is_cut_and_reported(rig: Rig) -> None:
    rig.publish(A, b"a0")
    end = rig.place.end
    rig.write_unsynced([batch_draft(rig, A, 1, b"torn"), batch_draft(rig, B, 0, b"torn")], length=300)
    rig.restart(power=False)
    (report,) = rig.log.reports
    assert (report.finding, report.file, report.first_byte) == (Finding.TORN_TAIL, file_name(1), end)
    assert report.end_byte >= end + 300  # as far as its head says
    assert rig.values(A) == {0: b"a0"}
    assert rig.publish(A, b"a1") == 1  # never durable, so given again, without a gap


def test_torn_tail_with_a_whole_head_names_its_round_and_topics(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.write_unsynced([batch_draft(rig, A, 1, b"torn"), batch_draft(rig, B, 0, b"torn")])
    name = file_name(1)
    SimulatedFiles(rig.disk).open(name).write_at(rig.place.end + 150, [bytes(20)])
    number = rig.log.core.last_round + 1
    rig.restart(power=False)
    (report,) = rig.reports(Finding.TORN_TAIL)
    assert report.round_number == number
    assert f"{A:016x}" in report.detail
    assert f"{B:016x}" in report.detail
    assert rig.log.core.state.topics.keys() == {A}


def test_cut_is_not_found_again(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.write_unsynced([batch_draft(rig, A, 1, b"torn")], length=100)
    rig.restart(power=False)
    rig.publish(A, b"a1")
    rig.restart()
    assert rig.log.reports == []
    assert rig.values(A) == {0: b"a0", 1: b"a1"}


def test_a_copy_of_the_cut_is_kept(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.write_unsynced([batch_draft(rig, A, 1, b"torn")], length=100)
    rig.restart(power=False)
    (name,) = [name for name in rig.disk.names() if name.startswith("quarantine/")]
    assert rig.disk.read(name).startswith(b"DNBR")


@pytest.mark.parametrize("seed", SEEDS)
def test_recovered_is_not_durable_until_it_is_copied_and_synced(seed: int) -> None:
    """The page cache shows a round that the disk never got. Once it is served, it must survive the power."""
    rig = Rig(seed)
    rig.publish(A, b"a0")
    rig.write_unsynced([batch_draft(rig, A, 1, b"a1")])
    rig.restart(power=False)
    assert rig.values(A) == {0: b"a0", 1: b"a1"}
    rig.restart(power=True)
    assert rig.values(A) == {0: b"a0", 1: b"a1"}
    assert rig.publish(A, b"a2") == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_unsynced_round_survives_as_a_whole_or_not_at_all(seed: int) -> None:
    rig = Rig(seed)
    rig.publish(A, b"a0")
    rig.write_unsynced([batch_draft(rig, A, 1, b"a1", bytes(2000)), batch_draft(rig, B, 0, b"b0")])
    rig.restart(power=True)
    kept = rig.log.ends(A).durable == 3
    assert rig.log.ends(A).durable == (3 if kept else 1)
    assert rig.log.ends(B).durable == (1 if kept else 0)
    assert len(rig.values(A)) == rig.log.ends(A).durable
    assert not rig.reports(Finding.CORRUPTION)


@pytest.mark.parametrize("operations", range(1, 12))
@pytest.mark.parametrize("power", [True, False])
def test_crash_inside_recovery_costs_nothing(operations: int, power: bool) -> None:
    rig = Rig(operations)
    rig.publish(A, b"a0")
    rig.checkpoint()
    rig.publish(A, b"a1")
    rig.write_unsynced([batch_draft(rig, A, 2, b"a2")])
    rig.disk.crash(power=False)
    rig.disk.crash_after(operations)
    with suppress(Crashed):
        rig.open()
    rig.restart(power=power)
    expected = {0: b"a0", 1: b"a1", 2: b"a2"}
    assert rig.values(A).items() >= {0: b"a0", 1: b"a1"}.items()
    assert rig.values(A).items() <= expected.items()
    assert not rig.reports(Finding.CORRUPTION)
    rig.restart()
    assert rig.values(A).items() <= expected.items()


# -- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_batch_below_synced_through_is_reported_by_topic_and_offsets(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.send(A, b"a1", b"a2")
    rig.send(B, b"b0")
    rig.writer.run()
    place = rig.place
    rig.publish(A, b"a3")  # it says that the round before is durable
    rig.disk.crash(power=True)
    rig.damage(place, 48 + 2 * 40 + 110)  # in the first batch
    rig.open()
    (report,) = rig.log.reports
    assert (report.finding, report.topic_id, report.file) == (Finding.CORRUPTION, A, file_name(1))
    assert (report.first_offset, report.end_offset) == (1, 3)
    assert rig.values(A) == {0: b"a0", 3: b"a3"}
    assert rig.values(B) == {0: b"b0"}
    with pytest.raises(DataDamaged) as lost:
        rig.log.read(A, 1, 1000)
    assert (lost.value.first_offset, lost.value.end_offset) == (1, 3)
    assert rig.publish(A, b"a4") == 4


def test_loss_is_remembered_over_restarts(rig: Rig) -> None:
    rig.publish(A, b"a0")
    place = rig.place
    rig.publish(B, b"b0")
    rig.disk.crash(power=True)
    rig.damage(place, 200)
    rig.open()
    rig.checkpoint()
    rig.restart()
    assert rig.values(A) == {}
    assert rig.publish(A, b"a1") == 1
    assert rig.log.core.state.topics[A].gaps.items() == [(0, 1)]


def test_damaged_head_is_made_up_for_by_the_tail(rig: Rig) -> None:
    rig.publish(A, b"a0")
    place = rig.place
    rig.publish(B, b"b0")
    rig.publish(A, b"a1")
    rig.disk.crash(power=True)
    rig.damage(place, 10)
    rig.open()
    assert [report.finding for report in rig.log.reports] == [Finding.REPAIRED]
    assert rig.values(A) == {0: b"a0", 1: b"a1"}
    assert rig.values(B) == {0: b"b0"}
    assert rig.publish(A, b"a2") == 2


def test_damaged_tail_costs_nothing(rig: Rig) -> None:
    rig.publish(A, b"a0")
    place = rig.place
    rig.publish(A, b"a1")
    rig.disk.crash(power=True)
    rig.damage(place, -10)
    rig.open()
    assert [report.finding for report in rig.log.reports] == [Finding.REPAIRED]
    assert rig.values(A) == {0: b"a0", 1: b"a1"}


def test_one_damaged_header_costs_nothing(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.disk.crash(power=True)
    rig.disk.flip_bit(file_name(1), 50)
    rig.open()
    assert [report.finding for report in rig.log.reports] == [Finding.REPAIRED]
    assert rig.values(A) == {0: b"a0"}


def test_idle_round_makes_damage_of_the_last_acknowledged_round_known(rig: Rig) -> None:
    rig.publish(A, b"a0")
    place = rig.place
    rig.writer.mark_durable()
    rig.disk.crash(power=True)
    rig.damage(place, 200)
    rig.open()
    (report,) = rig.log.reports
    assert (report.finding, report.topic_id, report.first_offset) == (Finding.CORRUPTION, A, 0)
    assert rig.publish(A, b"a1") == 1


def test_clean_stop_makes_damage_of_the_last_round_known() -> None:
    rig = Rig()
    rig.publish(A, b"a0")
    place = rig.place
    rig.writer.close()
    rig.disk.crash(power=True)
    rig.damage(place, 200)
    rig.open()
    with pytest.raises(DataDamaged):
        rig.log.read(A, 0, 1000)
    assert rig.publish(A, b"a1") == 1


def test_going_idle_twice_writes_one_round(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.writer.mark_durable()
    before = rig.log.core.last_round
    rig.writer.mark_durable()
    assert rig.log.core.last_round == before


def test_offsets_in_illegible_damage_are_never_given_again(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.publish(A, *(b"lost" for _ in range(50)))
    place = rig.place
    rig.publish(B, b"b0")
    rig.disk.crash(power=True)
    rig.damage(place, 10)
    rig.damage(place, -10)
    rig.open()
    assert rig.reports(Finding.CORRUPTION)
    assert rig.values(B) == {0: b"b0"}
    assert rig.publish(A, b"next") >= 51
    assert rig.publish(0xC, b"first of a topic that nobody has heard of") >= 51
    rig.restart()
    assert rig.publish(0xD, b"and of one that begins later") >= 51


def test_damaged_rounds_that_the_next_file_vouches_for_are_corruption(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.publish(A, b"a1")
    place = rig.place
    rig.rotate()
    rig.publish(A, b"a2")
    rig.disk.crash(power=True)
    rig.damage(place, 10)
    rig.damage(place, -10)
    rig.open()
    assert rig.reports(Finding.CORRUPTION)
    assert not rig.reports(Finding.TORN_TAIL)
    assert rig.values(A) == {0: b"a0", 2: b"a2"}


def test_what_lies_behind_illegible_damage_is_served(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.publish(A, b"a1")
    place = rig.place
    for value in (b"a2", b"a3"):
        rig.publish(A, value)
        rig.publish(B, value)
    rig.disk.crash(power=True)
    rig.damage(place, 10)
    rig.damage(place, -10)
    for _ in range(2):
        rig.open()
        assert rig.values(A) == {0: b"a0", 2: b"a2", 3: b"a3"}
        assert rig.values(B) == {0: b"a2", 1: b"a3"}
        assert rig.log.core.state.topics[A].gaps.items() == [(1, 2)]
        rig.disk.crash(power=True)


def test_losses_of_more_topics_than_a_round_has_entries(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    topics = range(1, 8)
    for topic_id in topics:
        rig.send(topic_id, b"lost")
    rig.writer.run()
    place = rig.place
    rig.publish(A, b"a0")
    rig.disk.crash(power=True)
    rig.damage(place, 10)
    monkeypatch.setattr("pydanube.storage.log.ROUND_ENTRIES_MAX", 3)
    rig.open()
    rig.restart()
    assert [rig.publish(topic_id, b"next") for topic_id in topics] == [1] * 7


def two_files_and_a_third(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.rotate()
    rig.publish(A, b"a1")
    rig.publish(B, b"b0")
    rig.rotate()
    rig.publish(A, b"a2")
    rig.publish(0xC, b"c0")


def test_missing_file_is_reported_and_the_others_are_served(rig: Rig) -> None:
    two_files_and_a_third(rig)
    rig.disk.crash(power=True)
    SimulatedFiles(rig.disk).remove(file_name(2))
    rig.open()
    assert [report.file for report in rig.reports(Finding.MISSING_FILE)] == [file_name(2)]
    assert rig.values(A) == {0: b"a0", 2: b"a2"}
    assert rig.values(0xC) == {0: b"c0"}
    assert rig.publish(B, b"b1") >= 1


def test_both_headers_damaged_lose_that_file_alone(rig: Rig) -> None:
    two_files_and_a_third(rig)
    rig.disk.crash(power=True)
    rig.damage_both_headers(2)
    rig.open()
    assert [report.file for report in rig.reports(Finding.CORRUPTION)][:1] == [file_name(2)]
    assert rig.values(A) == {0: b"a0", 2: b"a2"}
    assert rig.values(0xC) == {0: b"c0"}
    assert rig.publish(B, b"b1") >= 1


def test_last_file_with_both_headers_damaged_gives_no_offset_again(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.rotate()
    rig.publish(A, b"a1", b"a2")
    rig.disk.crash(power=True)
    rig.damage_both_headers(2)
    rig.open()
    assert rig.values(A) == {0: b"a0"}
    assert rig.publish(A, b"a3") >= 3


def test_topic_behind_the_floor_can_be_published_to_when_the_ceiling_is_raised(rig: Rig) -> None:
    """What is unknown begins above a high floor: whoever raises the ceiling has to hear of it."""
    rig.checkpoint()
    rig.publish(A, b"a0")
    rig.disk.crash(power=True)
    rig.damage_both_headers(1)
    rig.open(Opening(ceiling=1000))
    assert rig.log.offset_highest >= rig.log.core.state.floor > 1000
    rig.log.raise_ceiling(rig.log.offset_highest + 1000)
    assert rig.publish(A, b"a1") == rig.log.core.state.floor


# -- checkpoints ------------------------------------------------------------------------------------------------------


def checkpoints(rig: Rig) -> list[str]:
    return [name for name in rig.disk.names() if checkpoint_round(name) is not None]


def test_recovery_reads_only_what_lies_behind_the_checkpoint(rig: Rig) -> None:
    rig.publish(A, b"a0")
    place = rig.place
    rig.checkpoint()
    rig.publish(A, b"a1")
    rig.disk.crash(power=True)
    rig.damage(place, 200)
    rig.open()
    assert rig.log.reports == []
    assert rig.values(A) == {1: b"a1"}  # the reader sees it


def test_damaged_newest_checkpoint_falls_back_to_the_older(rig: Rig) -> None:
    for value in (b"a0", b"a1", b"a2"):
        rig.publish(A, value)
        rig.ack(A, 9, 0, 1)
        rig.checkpoint()
    rig.publish(A, b"a3")
    newest = checkpoints(rig)[1]
    rig.disk.crash(power=True)
    rig.disk.flip_bit(newest, 40)
    rig.open()
    assert [(report.finding, report.file) for report in rig.log.reports] == [(Finding.CHECKPOINT, newest)]
    assert rig.values(A) == {0: b"a0", 1: b"a1", 2: b"a2", 3: b"a3"}


def test_both_checkpoints_damaged_the_whole_journal_is_read(rig: Rig) -> None:
    for value in (b"a0", b"a1"):
        rig.publish(A, value)
        rig.checkpoint()
    rig.disk.crash(power=True)
    for name in checkpoints(rig):
        rig.disk.flip_bit(name, 40)
    rig.open()
    assert len(rig.reports(Finding.CHECKPOINT)) == 2
    assert rig.values(A) == {0: b"a0", 1: b"a1"}


def test_damaged_checkpoint_is_gone_when_others_have_taken_its_place(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.checkpoint()
    (damaged,) = checkpoints(rig)
    rig.disk.crash(power=True)
    rig.disk.flip_bit(damaged, 40)
    rig.open()
    for value in (b"a1", b"a2"):
        rig.publish(A, value)
        rig.checkpoint()
    rig.restart()
    assert rig.log.reports == []
    assert damaged not in rig.disk.names()


def test_half_written_checkpoints_do_not_pile_up(rig: Rig) -> None:
    for value in (b"a0", b"a1", b"a2"):
        rig.publish(A, value)
        rig.disk.crash_after(3)  # create, write, and no sync
        with suppress(Crashed):
            rig.checkpoint()
        rig.restart(power=False)
    rig.checkpoint()
    assert [name for name in rig.disk.names() if name.endswith(".tmp")] == []


def test_checkpoint_without_its_files_is_refused(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.checkpoint()
    rig.disk.crash(power=True)
    SimulatedFiles(rig.disk).remove(file_name(1))
    with pytest.raises(DataDamaged):
        rig.open()


# -- who may open it --------------------------------------------------------------------------------------------------


def test_journal_of_another_id_is_refused(rig: Rig) -> None:
    rig.publish(A, b"a0")
    known = rig.log.journal_id
    rig.disk.crash(power=True)
    before = {name: data for name, data in rig.snapshot().items() if number_of(name)}
    with pytest.raises(JournalMismatch):
        rig.open(Opening(journal_id=b"another journal!"))
    assert {name: data for name, data in rig.snapshot().items() if number_of(name)} == before
    rig.open(Opening(journal_id=known, may_create=False))
    assert rig.values(A) == {0: b"a0"}


def test_files_of_two_journals_are_refused(rig: Rig) -> None:
    rig.publish(A, b"a0")
    other = Rig(seed=99)
    rig.restart()
    rig.disk.crash(power=True)
    file = SimulatedFiles(rig.disk).open(file_name(2))
    file.write_at(0, [other.disk.read(file_name(1))[:FILE_HEADER_BYTES]])
    with pytest.raises(JournalMismatch):
        rig.open()


def test_empty_folder_is_refused_where_a_journal_is_known() -> None:
    files = MemoryFiles(1 << 20)
    with pytest.raises(JournalMismatch):
        Log.open(files, SETTINGS, ManualClock(), Random(1), Opening(b"j" * 16, may_create=False))
    assert files.list() == []


def test_new_journal_gets_the_id_that_the_metadata_has_for_it() -> None:
    log = Log.open(MemoryFiles(1 << 20), SETTINGS, ManualClock(), Random(1), Opening(b"j" * 16))
    assert log.journal_id == b"j" * 16


def test_after_the_loss_of_a_disk_topics_begin_above_the_floor() -> None:
    rig = Rig(opening=Opening(floor=1 << 20))
    assert rig.publish(A, b"a0") == 1 << 20
    rig.restart()
    assert rig.publish(B, b"b0") == 1 << 20
    assert rig.values(A) == {1 << 20: b"a0"}


# -- looking only -----------------------------------------------------------------------------------------------------


def test_read_only_recovery_changes_nothing(rig: Rig) -> None:
    rig.publish(A, b"a0")
    rig.checkpoint()
    rig.publish(A, b"a1")
    place = rig.place
    rig.publish(B, b"b0")
    rig.write_unsynced([batch_draft(rig, A, 2, b"torn")], length=100)
    SimulatedFiles(rig.disk).create("next.journal.tmp")
    rig.disk.crash(power=False)
    rig.damage(place, 200)
    before, operations = rig.snapshot(), rig.disk.operations
    found = Recovery(SimulatedFiles(rig.disk), rig.clock, stride_bytes=1024, read_only=True).run()
    assert {report.finding for report in found.reports} == {Finding.CORRUPTION, Finding.TORN_TAIL}
    assert (rig.snapshot(), rig.disk.operations) == (before, operations)


def test_file_without_a_name_of_its_own_is_not_part_of_the_journal(rig: Rig) -> None:
    rig.publish(A, b"a0")
    SimulatedFiles(rig.disk).create("next.journal.tmp").write_at(0, [rig.disk.read(file_name(1))])
    rig.restart(power=False)
    assert rig.values(A) == {0: b"a0"}
    assert rig.log.reports == []
