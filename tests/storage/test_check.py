"""Looking into folders: whole ones, damaged ones, and those that are being written."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.cli.samples import PARKED, PRODUCER, SUBSCRIPTION, TOPICS, fill, open_log, publish, write_sample

from pydanube.model.errors import DataFolderUnusable
from pydanube.storage import Files, Finding, InlineWriter, MemoryFiles, OsFiles
from pydanube.storage.check import check_folder, find_journal
from pydanube.storage.dump import DumpedEntry, dump_folder
from pydanube.testing.faults import SimulatedDisk, SimulatedFiles


def copied(files: Files) -> MemoryFiles:
    copy = MemoryFiles(1 << 20)
    for name in files.list():
        copy.create(name).write_at(0, [files.open(name).read_at(0, 1 << 20)])
    return copy


def damage(files: Files, name: str, position: int) -> None:
    file = files.open(name)
    (byte,) = file.read_at(position, 1)
    file.write_at(position, [bytes([byte ^ 1])])


def entry_of(files: Files, topic_id: int, offset: int) -> DumpedEntry:
    return next(
        entry
        for entry in dump_folder(files, topic_id=topic_id)
        if entry.first_offset is not None and entry.end_offset is not None
        if entry.first_offset <= offset < entry.end_offset
    )


@pytest.fixture
def files() -> MemoryFiles:
    made = MemoryFiles(1 << 20)
    write_sample(made)
    return made


def test_a_whole_folder(files: MemoryFiles) -> None:
    found = check_folder(files)
    assert found.is_whole
    assert not found.findings
    assert not found.in_use
    assert len(found.journal_id) == 32
    assert [file.name for file in found.files] == [name for name in files.list() if name.endswith(".journal")]
    assert all(file.index == "whole" and file.used_bytes == file.size_bytes for file in found.files)
    rounds = [(file.first_round, file.last_round, file.rounds) for file in found.files]
    assert rounds[0][0] == 1
    for (_, last, _), (first, _, _) in pairwise(rounds):
        assert first == (last or 0) + 1
    assert [checkpoint.is_whole for checkpoint in found.checkpoints] == [True, True]
    assert found.checkpoints[-1].round_number == rounds[-1][1]
    assert [other.name for other in found.other_files] == ["reserve"]


def test_topics_as_they_are(files: MemoryFiles) -> None:
    topics = {topic.topic_id: topic for topic in check_folder(files).topics}
    assert set(topics) == set(TOPICS)
    first = topics[TOPICS[0]]
    assert (first.first_offset, first.end_offset) == (0, first.ledgers[-1].end_offset)
    assert [cursor.subscription_id for cursor in first.cursors] == [SUBSCRIPTION]
    assert [(producer.producer_id, producer.next_sequence) for producer in first.producers] == [
        (PRODUCER, first.end_offset)
    ]
    assert (first.parked_batches, first.lost) == (1, [])
    assert all(topic.parked_batches == 0 for topic_id, topic in topics.items() if topic_id != TOPICS[0])


def test_an_empty_folder_is_whole() -> None:
    found = check_folder(MemoryFiles(1 << 20))
    assert found.is_whole
    assert not found.files
    assert list(dump_folder(MemoryFiles(1 << 20))) == []


def test_a_check_changes_nothing(tmp_path: Path) -> None:
    writing = OsFiles(tmp_path)
    write_sample(writing, close=False)
    writing.close()
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir() if path.is_file()}
    reading = OsFiles(tmp_path, read_only=True)
    assert check_folder(reading).is_whole
    assert list(dump_folder(reading, with_payloads=True))
    after = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir() if path.is_file()}
    assert after == before


def test_damage_below_the_checkpoint_is_found(files: MemoryFiles) -> None:
    """Recovery does not read it."""
    entry = entry_of(files, TOPICS[1], 0)
    damage(files, entry.file, entry.position + 40)
    assert not open_log(copied(files), seed=2).reports
    found = check_folder(files)
    (report,) = found.findings
    assert not found.is_whole
    assert (report.finding, report.file, report.topic_id) == (Finding.CORRUPTION, entry.file, TOPICS[1])
    assert (report.first_offset, report.end_offset) == (entry.first_offset, entry.end_offset)


def test_a_damaged_index_and_checkpoint_are_found(files: MemoryFiles) -> None:
    checkpoint = next(name for name in files.list() if name.endswith(".checkpoint"))
    damage(files, "000000000001.index", 40)
    damage(files, checkpoint, 30)
    found = check_folder(files)
    assert {(report.finding, report.file) for report in found.findings} == {
        (Finding.INDEX, "000000000001.index"),
        (Finding.CHECKPOINT, checkpoint),
    }
    assert found.files[0].index == "damaged"
    assert not found.checkpoints[0].is_whole


def test_a_missing_file_is_found(files: MemoryFiles) -> None:
    files.remove("000000000002.journal")
    found = check_folder(files)
    missing = [report.file for report in found.findings if report.finding is Finding.MISSING_FILE]
    assert missing == ["000000000002.journal"]
    assert any(report.topic_id in TOPICS and report.first_offset is not None for report in found.findings)


def test_checkpoints_without_a_journal(files: MemoryFiles) -> None:
    for name in files.list():
        if name.endswith(".journal"):
            files.remove(name)
    found = check_folder(files)
    assert not found.is_whole
    assert "not in the folder" in str(found.findings[0])


def test_a_file_of_another_journal(files: MemoryFiles) -> None:
    other = MemoryFiles(1 << 20)
    fill(open_log(other, seed=9), {}, rounds=8).close()
    files.remove("000000000003.journal")
    files.create("000000000003.journal").write_at(0, [other.open("000000000003.journal").read_at(0, 1 << 20)])
    found = check_folder(files)
    assert not found.is_whole
    assert any("another journal" in str(report) for report in found.findings)


def test_a_torn_tail_is_reported_and_is_no_damage() -> None:
    files = MemoryFiles(1 << 20)
    write_sample(files, close=False)
    last = list(dump_folder(files))[-1]
    damage(files, last.file, last.position + 1)
    found = check_folder(files)
    assert [report.finding for report in found.findings] == [Finding.TORN_TAIL]
    assert found.is_whole
    assert not check_folder(files, in_use=True).findings  # a round on its way looks the same


def test_the_last_round_counts_although_nothing_vouches_for_it() -> None:
    """It may have been acknowledged right before a kill, and the next start keeps it."""
    files = MemoryFiles(1 << 20)
    stored: dict[int, list[bytes]] = {}
    log = open_log(files)
    for _ in range(3):
        publish(log, TOPICS[0], stored, 2)
        InlineWriter(log).run()
    (topic,) = check_folder(files).topics
    assert topic.end_offset == log.ends(TOPICS[0]).durable == 6


def test_a_folder_in_use_is_read_while_it_changes() -> None:
    """A writer goes on between any two reads of the check: rounds appear and files come."""
    files = MemoryFiles(1 << 20)
    stored: dict[int, list[bytes]] = {}
    log = open_log(files)
    writer = InlineWriter(log)

    class Busy(MemoryFiles):
        def __init__(self) -> None:
            super().__init__(1 << 20)
            self._files = files._files
            self.busy = False

        def list(self, folder: str = "") -> list[str]:
            if not self.busy and not folder:
                self.busy = True
                publish(log, TOPICS[0], stored, 2)
                writer.run()
                self.busy = False
            return super().list(folder)

    publish(log, TOPICS[0], stored, 2)
    writer.run()
    found = check_folder(Busy(), in_use=True)
    assert found.in_use
    assert found.is_whole, list(map(str, found.findings))
    assert len(files.list()) > 3


def test_a_disk_that_does_not_give_its_bytes() -> None:
    disk = SimulatedDisk(Random(1))
    write_sample(SimulatedFiles(disk))
    disk.faults.read_eio = 1.0
    found = check_folder(SimulatedFiles(disk))
    assert not found.is_whole
    assert any("cannot be read" in str(report) for report in found.findings)
    assert all(not entry.crc_ok for entry in dump_folder(SimulatedFiles(disk)))


def test_random_garbage_never_crashes_a_check(files: MemoryFiles) -> None:
    chance = Random(5)
    names = [name for name in files.list() if name != "reserve"]
    for _ in range(300):
        copy = copied(files)
        for name in chance.sample(names, chance.randrange(1, 4)):
            file = copy.open(name)
            at = chance.randrange(file.size())
            change = chance.randrange(3)
            if change == 0:
                file.truncate(at)
            else:
                length = chance.randrange(1, 2000)
                file.write_at(at, [chance.randbytes(length) if change == 1 else bytes(length)])
        check_folder(copy)
        list(dump_folder(copy, with_payloads=True))


def test_progress_comes_to_the_end(files: MemoryFiles) -> None:
    heard: list[tuple[int, int]] = []
    check_folder(files, progress=lambda done, total: heard.append((done, total)))
    total = sum(files.open(name).size() for name in files.list() if name.endswith(".journal"))
    assert heard[-1] == (total, total)
    assert heard == sorted(heard)


def test_a_dump_has_every_entry(files: MemoryFiles) -> None:
    dumped = list(dump_folder(files, with_payloads=True))
    assert all(entry.crc_ok for entry in dumped)
    kinds = {"session", "batch", "cursor reset", "cursor ack", "park", "mark"}
    assert {entry.kind for entry in dumped} == kinds
    stored = write_sample(MemoryFiles(1 << 20))
    for topic_id in TOPICS:
        batches = [entry for entry in dumped if entry.kind == "batch" and entry.topic_id == topic_id]
        assert [value for entry in batches for value in entry.payloads or ()] == stored[topic_id]
        assert batches[0].first_offset == 0
    (parked,) = [entry for entry in dumped if entry.kind == "park"]
    assert parked.payloads == [b"parked"]
    assert f"{PARKED:016x}" in parked.detail


def test_a_dump_of_one_topic(files: MemoryFiles) -> None:
    dumped = list(dump_folder(files, topic_id=TOPICS[2]))
    assert dumped
    assert {entry.topic_id for entry in dumped} == {TOPICS[2]}
    assert all(entry.payloads is None for entry in dumped)


def test_finding_the_journal(tmp_path: Path) -> None:
    with pytest.raises(DataFolderUnusable, match="no folder"):
        find_journal(tmp_path / "nowhere")
    with pytest.raises(DataFolderUnusable, match="no journal"):
        find_journal(tmp_path)
    below = OsFiles(tmp_path / "journal")
    write_sample(below)
    below.close()
    assert find_journal(tmp_path) == tmp_path / "journal"
    assert find_journal(tmp_path / "journal") == tmp_path / "journal"
