"""The journal: how files follow each other, and that a failed one is never touched again."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from tests.storage.rig import SETTINGS, Outcome, Rig

from pydanube.model import Buffer
from pydanube.model.errors import DiskFull, StorageFailed
from pydanube.storage import InlineWriter, StorageSettings
from pydanube.storage.file_header import FILE_HEADER_BYTES, FileHeader, decode_file_header, file_name
from pydanube.storage.journal import Journal, JournalEnd, Written
from pydanube.storage.rounds import Draft, Kind, salt_seed
from pydanube.storage.scan import FoundEnd, FoundRound, scan_rounds
from pydanube.storage.space import RESERVE
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import SimulatedDisk, SimulatedFile, SimulatedFiles

NOTE = Draft(Kind.CURSOR_DROP, 7, 0, 0, 0, bytes(16))
BATCH = Draft(Kind.BATCH, 7, 0, 1, 1, bytes(200))
BIG = BATCH._replace(body=bytes(30_000))
START = JournalEnd(b"j" * 16, 5, 0, 0, 1)


class Bench:
    def __init__(self, settings: StorageSettings = SETTINGS, end: JournalEnd = START) -> None:
        self.disk = SimulatedDisk(Random(1))
        self.files = RecordingFiles(self.disk)
        self.clock = ManualClock()
        salts = iter(range(100, 200))
        self.journal = Journal(self.files, settings, end, clock=self.clock, new_salt=lambda: next(salts))

    def header(self, number: int) -> FileHeader:
        header, both = decode_file_header(self.disk.read(file_name(number)))
        assert header is not None
        assert both
        return header

    def rounds(self, number: int) -> list[int]:
        """The numbers of the rounds in a file."""
        file = SimulatedFiles(self.disk).open(file_name(number))
        found = list(scan_rounds(file, FILE_HEADER_BYTES, file.size(), salt_seed(self.header(number).salt)))
        assert isinstance(found[-1], FoundEnd)
        return [item.head.number for item in found if isinstance(item, FoundRound)]

    def names(self) -> list[str]:
        return [name for name in self.disk.names() if name.endswith(".journal")]


class RecordingFile(SimulatedFile):
    def __init__(self, files: "RecordingFiles", file: SimulatedFile) -> None:
        self.__dict__.update(file.__dict__)
        self._files = files

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._files.calls.append((id(self), "write"))
        super().write_at(position, parts)

    def sync(self) -> None:
        self._files.calls.append((id(self), "sync"))
        super().sync()


class RecordingFiles(SimulatedFiles):
    """Remembers in which order files are written, synced and named."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.calls: list[tuple[int, str]] = []
        self.made: list[RecordingFile] = []  # kept, so that no identity is used twice

    def create(self, name: str) -> SimulatedFile:
        self.made.append(RecordingFile(self, super().create(name)))
        return self.made[-1]

    def rename(self, old: str, new: str) -> None:
        self.calls.append((0, f"rename to {new}"))
        super().rename(old, new)

    def sync_folder(self, folder: str = "") -> None:
        self.calls.append((0, "sync folder"))
        super().sync_folder(folder)

    def taken(self) -> list[str]:
        calls, self.calls = self.calls, []
        return [call for _, call in calls]


def test_first_round_makes_the_first_file() -> None:
    bench = Bench()
    written = bench.journal.write([BATCH])
    assert (written.number, written.place.file_number, written.place.position) == (1, 1, FILE_HEADER_BYTES)
    header = bench.header(1)
    assert header == FileHeader(b"j" * 16, 1, 100, 1, 0, 0, 5, bench.clock.now_us())
    assert bench.rounds(1) == [1]


def test_file_is_synced_and_named_before_a_round_is_written_and_the_round_is_synced() -> None:
    bench = Bench()
    bench.journal.write([BATCH])
    assert bench.files.taken() == ["write", "sync", f"rename to {file_name(1)}", "sync folder", "write", "sync"]
    bench.journal.write([BATCH])
    assert bench.files.taken() == ["write", "sync"]


def test_rounds_follow_each_other() -> None:
    bench = Bench()
    places = [bench.journal.write([BATCH]).place for _ in range(3)]
    assert places[1].position == places[0].end
    assert places[2].position == places[1].end
    assert bench.rounds(1) == [1, 2, 3]


def fill_file(bench: Bench) -> list[Written]:
    """Rounds until the second file has one."""
    written = [bench.journal.write([BIG])]
    while written[-1].place.file_number == 1:
        written.append(bench.journal.write([BIG]))
    return written


def test_header_of_the_next_file_tells_the_end_of_the_last_one() -> None:
    bench = Bench()
    *before, first = fill_file(bench)
    header = bench.header(2)
    assert header.previous_end == before[-1].place.end
    assert header.first_round == first.number
    assert header.durable_through == before[-1].number
    assert (header.file_number, header.writer_epoch, header.journal_id) == (2, 5, b"j" * 16)
    assert header.salt != bench.header(1).salt
    assert len(bench.disk.read(file_name(1))) == header.previous_end  # what it did not use is given back
    assert first.place.position == FILE_HEADER_BYTES


def test_file_is_left_when_it_is_old() -> None:
    bench = Bench()
    bench.journal.write([NOTE])
    bench.clock.advance(SETTINGS.file_age_us / 1e6 + 1)
    assert bench.journal.write([NOTE]).place.file_number == 2
    assert bench.journal.write([NOTE]).place.file_number == 2


def test_session_opens_with_its_rounds_already_durable() -> None:
    bench = Bench(end=JournalEnd(b"j" * 16, 6, 4, 9000, 31))
    written = bench.journal.begin_session([[BATCH], [NOTE, NOTE]])
    assert [round_.number for round_ in written] == [31, 32]
    header = bench.header(5)
    assert (header.first_round, header.previous_end, header.durable_through) == (31, 9000, 32)
    assert bench.files.taken() == ["write", "sync", f"rename to {file_name(5)}", "sync folder"]
    assert bench.journal.is_marked
    assert bench.journal.write([NOTE]).number == 33
    assert bench.rounds(5) == [31, 32, 33]


def test_empty_round_marks_the_last_one_as_durable() -> None:
    bench = Bench()
    assert bench.journal.is_marked
    bench.journal.write([BATCH])
    assert not bench.journal.is_marked
    bench.journal.mark_durable()
    # It says so of the round before it; of itself nobody needs to know.
    file = SimulatedFiles(bench.disk).open(file_name(1))
    *_, last, _ = scan_rounds(file, FILE_HEADER_BYTES, file.size(), salt_seed(bench.header(1).salt))
    assert isinstance(last, FoundRound)
    assert (last.head.number, last.head.synced_through, last.rows) == (2, 1, [])


@pytest.mark.parametrize("fault", ["write_eio", "sync_eio"])
def test_failed_write_or_sync_ends_the_file_for_ever(fault: str) -> None:
    bench = Bench()
    good = bench.journal.write([BATCH])
    failed_file = id(good.file)
    setattr(bench.disk.faults, fault, 1.0)
    with pytest.raises(StorageFailed):
        bench.journal.write([BATCH])
    setattr(bench.disk.faults, fault, 0.0)
    bench.files.calls.clear()
    for number in (2, 3):  # the number of the failed round is given again
        assert bench.journal.write([BATCH]).number == number
    bench.journal.close()
    assert failed_file not in [file for file, _ in bench.files.calls]
    header = bench.header(2)
    assert (header.previous_end, header.first_round, header.durable_through) == (good.place.end, 2, 1)
    assert bench.rounds(2) == [2, 3]


@pytest.mark.parametrize("fault", ["create_eio", "rename_eio", "sync_folder_eio"])
def test_file_that_cannot_be_made_costs_nothing_but_the_round(fault: str) -> None:
    bench = Bench()
    good = bench.journal.write([BATCH])
    bench.clock.advance(SETTINGS.file_age_us / 1e6 + 1)
    setattr(bench.disk.faults, fault, 1.0)
    for _ in range(3):
        with pytest.raises(StorageFailed):
            bench.journal.write([BATCH])
    setattr(bench.disk.faults, fault, 0.0)
    written = bench.journal.write([BATCH])
    assert (written.number, written.place.file_number) == (2, 2)
    assert bench.header(2).previous_end == good.place.end
    assert bench.names() == [file_name(1), file_name(2)]


def test_round_that_is_larger_than_a_file_gets_a_file_of_its_size() -> None:
    bench = Bench()
    place = bench.journal.write([BATCH._replace(body=bytes(2 * SETTINGS.file_bytes))]).place
    assert place.length > 2 * SETTINGS.file_bytes
    assert bench.rounds(1) == [1]


# -- a full disk, seen from a log -------------------------------------------------------------------------------------


def fill_disk(rig: Rig, *, spare: int = 0) -> None:
    used = sum(len(rig.disk.read(name)) for name in rig.disk.names())
    rig.disk.faults.capacity_bytes = used + spare


def use_up_the_file(rig: Rig) -> None:
    while len(rig.disk.read(file_name(rig.place.file_number))) - rig.place.end > 1500:
        rig.publish(7, bytes(1000))


def test_full_disk_refuses_batches_and_acks_go_on() -> None:
    rig = Rig(settings=replace(SETTINGS, reserve_bytes=256 << 10))
    use_up_the_file(rig)
    end = rig.log.ends(7).durable
    fill_disk(rig)
    refused = rig.send(7, bytes(2000))
    rig.writer.run()
    assert isinstance(refused.error, DiskFull)
    with pytest.raises(DiskFull):
        rig.send(7, b"small")  # now it is known, and nothing is tried
    rig.ack(7, 9, 0, 3)
    assert rig.log.ends(7) == (0, end, end)
    assert len(rig.values(7)) == end
    rig.restart()
    cursor = rig.log.cursors.get(7, 9)
    assert cursor is not None
    assert cursor.position == 3


def test_acks_in_a_refused_round_are_written_by_themselves() -> None:
    rig = Rig(settings=replace(SETTINGS, reserve_bytes=256 << 10))
    use_up_the_file(rig)
    fill_disk(rig)
    refused = rig.send(7, bytes(2000))
    rig.ack(7, 9, 0, 3)  # in the same round
    assert isinstance(refused.error, DiskFull)


def test_publishing_goes_on_by_itself_and_the_reserve_is_made_again() -> None:
    rig = Rig()
    use_up_the_file(rig)
    end = rig.log.ends(7).durable
    fill_disk(rig)
    rig.send(7, bytes(2000))
    rig.writer.run()
    rig.ack(7, 9, 0, 3)
    assert RESERVE not in rig.disk.names()
    fill_disk(rig, spare=rig.settings.reserve_bytes // 2)
    with pytest.raises(DiskFull):
        rig.send(7, b"too early")
    fill_disk(rig, spare=rig.settings.reserve_bytes + 2 * rig.settings.file_bytes)
    assert rig.publish(7, b"again") == end
    assert RESERVE in rig.disk.names()
    assert not rig.log.core.space.full


def test_acks_that_find_no_room_at_all_are_refused_and_not_tried_for_ever() -> None:
    rig = Rig()
    use_up_the_file(rig)
    SimulatedFiles(rig.disk).remove(RESERVE)
    rig.rotate()
    fill_disk(rig)
    refused = Outcome()
    rig.log.cursors.reset(7, 9, 0, 3, refused)
    rig.writer.run()
    assert isinstance(refused.error, DiskFull)
    rig.disk.faults.capacity_bytes = None
    rig.ack(7, 9, 0, 3)


def test_log_opens_on_a_full_disk() -> None:
    rig = Rig()
    rig.publish(7, b"a")
    fill_disk(rig)
    rig.restart()
    assert rig.values(7) == {0: b"a"}
    rig.ack(7, 9, 0, 1)
    with pytest.raises(DiskFull):
        rig.send(7, b"b")


def test_log_that_cannot_open_on_a_full_disk_says_so() -> None:
    rig = Rig()
    rig.publish(7, b"a")
    SimulatedFiles(rig.disk).remove(RESERVE)
    fill_disk(rig)
    with pytest.raises(DiskFull):
        rig.restart(power=False)
    rig.disk.faults.capacity_bytes = None
    rig.restart()
    assert rig.values(7) == {0: b"a"}


def test_checkpoint_on_a_full_disk_uses_the_reserve() -> None:
    rig = Rig()
    rig.publish(7, b"a")
    fill_disk(rig)
    assert not InlineWriter(rig.log).checkpoint()
    assert RESERVE not in rig.disk.names()
    assert InlineWriter(rig.log).checkpoint()
