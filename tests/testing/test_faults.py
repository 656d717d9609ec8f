"""The simulated disk: what a crash may take, what it must leave, and that a seed decides which."""

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.testing.disk_state import SECTOR_BYTES
from pydanube.testing.faults import Crashed, FaultPlan, SimulatedDisk, SimulatedFile, SimulatedFiles

SEEDS = range(200)


def start(seed: int = 0, faults: FaultPlan | None = None) -> tuple[SimulatedDisk, SimulatedFiles]:
    disk = SimulatedDisk(Random(seed), faults)
    return disk, SimulatedFiles(disk)


def durable_file(files: SimulatedFiles, name: str, data: bytes) -> SimulatedFile:
    file = files.create(name)
    file.write_at(0, [data])
    file.sync()
    files.sync_folder()
    return file


def outcomes(steps: Callable[[SimulatedFiles], object], seeds: range = SEEDS) -> set[tuple[tuple[str, bytes], ...]]:
    """All states of the disk that some seed leaves when the power fails after the steps."""
    found = set()
    for seed in seeds:
        disk, files = start(seed)
        steps(files)
        disk.crash(power=True)
        found.add(tuple((name, disk.read(name)) for name in disk.names()))
    return found


def test_synced_bytes_under_a_synced_name_survive() -> None:
    assert outcomes(lambda files: durable_file(files, "a", b"kept")) == {(("a", b"kept"),)}


def test_file_sync_does_not_save_the_name() -> None:
    def steps(files: SimulatedFiles) -> None:
        file = files.create("a")
        file.write_at(0, [b"kept"])
        file.sync()

    assert outcomes(steps) == {(), (("a", b"kept"),)}


def test_unsynced_writes_survive_in_any_combination() -> None:
    def steps(files: SimulatedFiles) -> None:
        file = durable_file(files, "a", b"..")
        file.write_at(0, [b"1"])
        file.write_at(1, [b"2"])

    assert {data for ((_, data),) in outcomes(steps)} == {b"..", b"1.", b".2", b"12"}


def test_a_later_write_without_an_earlier_one_leaves_zeros_between() -> None:
    def steps(files: SimulatedFiles) -> None:
        file = durable_file(files, "a", b"-")
        file.write_at(1, [b"1"])
        file.write_at(2, [b"2"])

    assert {data for ((_, data),) in outcomes(steps)} == {b"-", b"-1", b"-\x002", b"-12"}


def test_writes_tear_at_sectors_and_now_and_then_at_any_byte() -> None:
    position, length = 100, 4 * SECTOR_BYTES

    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", bytes(position + length)).write_at(position, [b"x" * length])

    cuts: set[int] = set()
    for ((_, data),) in outcomes(steps, range(1000)):
        cuts.update(at for at in range(1, len(data)) if data[at] != data[at - 1])
    at_sectors = {cut for cut in cuts if cut % SECTOR_BYTES == 0}
    assert at_sectors == {SECTOR_BYTES * n for n in range(1, 5)}
    assert len(cuts - at_sectors - {position}) > 3


def test_unsynced_preallocation_is_lost_or_zeros() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"x").preallocate(4)

    assert outcomes(steps) == {(("a", b"x"),), (("a", b"x\0\0\0"),)}


def test_synced_preallocation_stays() -> None:
    def steps(files: SimulatedFiles) -> None:
        file = durable_file(files, "a", b"x")
        file.preallocate(4)
        file.sync()

    assert outcomes(steps) == {(("a", b"x\0\0\0"),)}


def test_an_unsynced_cut_may_be_undone() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"12").truncate(1)

    assert outcomes(steps) == {(("a", b"1"),), (("a", b"12"),)}


def test_a_synced_cut_is_final_and_what_grows_there_is_zeros() -> None:
    def steps(files: SimulatedFiles) -> None:
        file = durable_file(files, "a", b"12")
        file.truncate(1)
        file.sync()
        file.preallocate(2)
        file.sync()

    assert outcomes(steps) == {(("a", b"1\0"),)}


def test_a_killed_process_loses_nothing_yet_and_its_writes_stay_unsynced() -> None:
    lost = set()
    for seed in SEEDS:
        disk, files = start(seed)
        durable_file(files, "a", b"-").write_at(0, [b"+"])
        files.create("b")
        disk.crash(power=False)
        assert SimulatedFiles(disk).open("a").read_at(0, 9) == b"+"
        assert disk.names() == ["a", "b"]
        disk.crash(power=True)
        lost.add((disk.read("a"), disk.names() == ["a"]))
    assert lost == {(data, gone) for data in (b"-", b"+") for gone in (True, False)}


def test_the_next_process_can_sync_what_a_killed_one_wrote() -> None:
    for seed in SEEDS:
        disk, files = start(seed)
        durable_file(files, "a", b"old").write_at(0, [b"new"])
        disk.crash(power=False)
        SimulatedFiles(disk).open("a").sync()
        disk.crash(power=True)
        assert disk.read("a") == b"new"


def test_a_rename_is_one_step() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"a")
        durable_file(files, "b", b"b")
        files.rename("a", "b")

    assert outcomes(steps) == {(("a", b"a"), ("b", b"b")), (("b", b"a"),)}


def test_a_rename_before_the_bytes_are_synced_may_lose_both_contents() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"old")
        files.create("new").write_at(0, [b"new"])
        files.rename("new", "a")

    assert (("a", b""),) in outcomes(steps)


def test_names_reused_by_unsynced_changes_never_lose_a_durable_file() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"a")
        durable_file(files, "c", b"c")
        files.rename("a", "b")
        files.rename("c", "a")

    for state in outcomes(steps):
        assert sorted(data for _, data in state) == [b"a", b"c"]


def test_a_remove_that_did_not_survive_brings_the_durable_content_back() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"a")
        files.remove("a")

    assert outcomes(steps) == {(), (("a", b"a"),)}


def test_name_changes_survive_independently() -> None:
    def steps(files: SimulatedFiles) -> None:
        files.create("a")
        files.create("b")

    assert outcomes(steps) == {(), (("a", b""),), (("b", b""),), (("a", b""), ("b", b""))}


def test_synced_name_changes_are_final() -> None:
    def steps(files: SimulatedFiles) -> None:
        for name in "abc":
            durable_file(files, name, name.encode())
        files.remove("a")
        files.rename("b", "c")
        files.sync_folder()

    assert outcomes(steps) == {(("c", b"b"),)}


@pytest.mark.parametrize("synced", [[], [""], ["old"], ["", "old"]])
def test_a_move_between_folders_is_durable_when_both_are_synced(synced: list[str]) -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"a")
        files.make_folder("old")
        files.sync_folder()
        files.rename("a", "old/a")
        for folder in synced:
            files.sync_folder(folder)

    moved, stayed = (("old/a", b"a"),), (("a", b"a"),)
    assert outcomes(steps) == ({moved} if len(synced) == 2 else {moved, stayed})


def test_a_synced_name_takes_along_what_it_builds_on() -> None:
    def steps(files: SimulatedFiles) -> None:
        durable_file(files, "a", b"a")
        files.make_folder("old")
        files.rename("a", "old/a")
        durable_file(files, "a", b"b")

    assert outcomes(steps) == {(("a", b"b"), ("old/a", b"a"))}


def test_an_unsynced_folder_may_vanish_with_its_files() -> None:
    found = set()
    for seed in SEEDS:
        disk, files = start(seed)
        files.make_folder("old")
        files.create("old/a")
        disk.crash(power=True)
        with suppress(FileNotFoundError):
            SimulatedFiles(disk).create("old/b")
        found.add(tuple(disk.names()))
    assert found == {(), ("old/b",), ("old/a", "old/b")}


def test_a_failed_sync_gives_up_its_writes_for_good() -> None:
    contents = set()
    for seed in SEEDS:
        disk, files = start(seed)
        file = durable_file(files, "a", b"..")
        file.write_at(0, [b"1"])
        disk.faults.sync_eio = 1.0
        with pytest.raises(OSError, match="sync"):
            file.sync()
        disk.faults.sync_eio = 0.0
        file.write_at(1, [b"2"])
        file.sync()
        assert file.read_at(0, 2) == b"12"
        disk.crash(power=True)
        contents.add(disk.read("a"))
    assert contents == {b".2", b"12"}


def test_what_is_synced_over_a_failed_sync_stays() -> None:
    for seed in SEEDS:
        disk, files = start(seed)
        file = durable_file(files, "a", b"old")
        file.write_at(0, [b"bad"])
        disk.faults.sync_eio = 1.0
        with pytest.raises(OSError, match="sync"):
            file.sync()
        disk.faults.sync_eio = 0.0
        file.write_at(0, [b"new"])
        file.sync()
        disk.crash(power=True)
        assert disk.read("a") == b"new"


def test_a_failed_write_leaves_a_part() -> None:
    lengths = set()
    for seed in SEEDS:
        disk, files = start(seed, FaultPlan(write_eio=1.0))
        file = files.create("a")
        with pytest.raises(OSError, match="write") as caught:
            file.write_at(0, [b"12", b"34"])
        assert caught.value.errno == errno.EIO
        assert b"1234".startswith(disk.read("a"))
        lengths.add(file.size())
    assert lengths == {0, 1, 2, 3, 4}


def test_failed_reads_and_name_changes_change_nothing() -> None:
    disk, files = start()
    file = durable_file(files, "a", b"a")
    disk.faults = FaultPlan(read_eio=1.0, create_eio=1.0, rename_eio=1.0, remove_eio=1.0, sync_folder_eio=1.0)
    failing: list[Callable[[], object]] = [
        lambda: file.read_at(0, 1),
        lambda: files.create("b"),
        lambda: files.rename("a", "b"),
        lambda: files.remove("a"),
        files.sync_folder,
    ]
    for operation in failing:
        with pytest.raises(OSError, match="simulated failure") as caught:
            operation()
        assert caught.value.errno == errno.EIO
    assert disk.names() == ["a"]


def test_faults_come_with_their_chance() -> None:
    _, files = start(0, FaultPlan(write_eio=0.3))
    file = files.create("a")
    failed = 0
    for _ in range(1000):
        try:
            file.write_at(0, [b"x"])
        except OSError:
            failed += 1
    assert 200 < failed < 400


def test_a_full_disk() -> None:
    disk, files = start(0, FaultPlan(capacity_bytes=10))
    file = files.create("a")
    file.preallocate(6)
    assert files.free_bytes() == 4
    with pytest.raises(OSError, match="full") as caught:
        file.preallocate(11)
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 6
    with pytest.raises(OSError, match="full"):
        file.write_at(4, [b"1234567"])
    assert disk.read("a") == b"\0\0\0\x00123456"
    file.write_at(0, [b"0123456789"])  # in place: needs no space
    disk.faults.capacity_bytes = 5
    assert files.free_bytes() == 0
    file.write_at(0, [b"in place"])
    disk.faults.capacity_bytes = 12
    files.create("b").preallocate(2)
    with pytest.raises(OSError, match="full"):
        file.write_at(10, [b"x"])
    files.remove("b")
    file.write_at(10, [b"x"])
    assert files.free_bytes() == 1
    file.truncate(4)
    assert files.free_bytes() == 8


def test_after_a_crash_old_handles_are_dead() -> None:
    disk, files = start()
    file = durable_file(files, "a", b"a")
    disk.crash(power=False)
    uses: list[Callable[[], object]] = [
        file.size,
        lambda: file.write_at(0, [b"x"]),
        lambda: file.read_at(0, 1),
        lambda: file.preallocate(9),
        lambda: file.truncate(0),
        file.sync,
        file.close,
        lambda: files.create("b"),
        lambda: files.open("a"),
        files.list,
        lambda: files.rename("a", "b"),
        lambda: files.remove("a"),
        lambda: files.make_folder("f"),
        files.sync_folder,
        files.free_bytes,
        files.close,
    ]
    for use in uses:
        with pytest.raises(Crashed):
            use()
    assert SimulatedFiles(disk).open("a").read_at(0, 9) == b"a"


def test_error_handling_does_not_survive_a_crash() -> None:
    assert not issubclass(Crashed, Exception)


def test_a_closed_file_is_not_used() -> None:
    _, files = start()
    file = files.create("a")
    file.close()
    file.close()
    with pytest.raises(OSError, match="closed"):
        file.write_at(0, [b"x"])


def test_a_crash_in_a_write_leaves_nothing_a_part_or_all() -> None:
    contents = set()
    for seed in SEEDS:
        disk, files = start(seed)
        file = files.create("a")
        disk.crash_after(2)
        file.write_at(0, [b"123"])
        with pytest.raises(Crashed):
            file.write_at(3, [b"456"])
        with pytest.raises(Crashed):
            file.read_at(0, 1)
        disk.crash(power=False)
        contents.add(disk.read("a"))
    assert contents == {b"123", b"1234", b"12345", b"123456"}


OPERATIONS: list[Callable[[SimulatedFiles, SimulatedFile], object]] = [
    lambda _files, file: file.sync(),
    lambda files, _file: files.sync_folder(),
    lambda _files, file: file.preallocate(9),
    lambda _files, file: file.truncate(0),
    lambda files, _file: files.create("b"),
    lambda files, _file: files.rename("a", "b"),
    lambda files, _file: files.remove("a"),
]


@pytest.mark.parametrize("operation", range(len(OPERATIONS)))
def test_a_crash_in_any_other_operation_leaves_it_done_or_not(operation: int) -> None:
    found = set()
    for seed in SEEDS:
        disk, files = start(seed)
        file = durable_file(files, "a", b"a")
        file.write_at(0, [b"b"])
        files.create("c")
        disk.crash_after(1)
        with pytest.raises(Crashed):
            OPERATIONS[operation](files, file)
        disk.crash(power=False)
        found.add(tuple((name, len(disk.read(name))) for name in disk.names()))
    assert len(found) == (1 if operation < 2 else 2)  # a sync is not seen


def test_reads_do_not_count_as_operations() -> None:
    disk, files = start()
    file = durable_file(files, "a", b"a")
    before = disk.operations
    disk.crash_after(1)
    file.read_at(0, 1)
    files.open("a").size()
    files.list()
    assert disk.operations == before
    with pytest.raises(Crashed):
        file.sync()
    assert disk.operations == before + 1
    with pytest.raises(ValueError, match="1"):
        disk.crash_after(0)


def test_a_crash_disarms_the_countdown() -> None:
    disk, files = start()
    disk.crash_after(1)
    disk.crash(power=True)
    SimulatedFiles(disk).create("a")
    with pytest.raises(Crashed):
        files.list()


def test_a_flipped_bit_stays_flipped() -> None:
    disk, files = start()
    durable_file(files, "a", b"aaaa").write_at(4, [b"not durable"])
    assert disk.flip_bit("a", 2) == 2
    seen = disk.read("a")
    assert (seen[2] ^ ord("a")).bit_count() == 1
    disk.crash(power=True)
    assert disk.read("a")[:4] == seen[:4]
    with pytest.raises(ValueError, match="not durable"):
        disk.flip_bit("a", 400)


def test_a_bit_flips_below_an_unsynced_cut() -> None:
    disk, files = start()
    durable_file(files, "a", b"aaaa").truncate(2)
    disk.flip_bit("a", 3)
    assert disk.read("a") == b"aa"


def test_a_bit_flips_anywhere() -> None:
    disk, files = start()
    durable_file(files, "a", bytes(4))
    assert {disk.flip_bit("a") for _ in range(100)} == {0, 1, 2, 3}


def play(seed: int, steps: int, faults: FaultPlan) -> tuple[str, list[tuple[str, bytes]]]:
    """A random life of a disk; checks at every crash that what was synced under a synced name is there."""
    disk = SimulatedDisk(Random(seed), faults)
    chance = Random(seed + 1)
    promised: dict[str, bytes] = {}  # never overwritten, so it must be found as it is
    for number in range(steps):
        files = SimulatedFiles(disk)
        if chance.random() < 0.5:
            disk.crash_after(chance.randint(1, 30))
        with suppress(Crashed):
            work(files, chance, number, promised)
        disk.crash(power=chance.random() < 0.7)
        for name, data in promised.items():
            assert disk.read(name)[: len(data)] == data
    return disk.trace_digest(), [(name, disk.read(name)) for name in disk.names()]


def work(files: SimulatedFiles, chance: Random, number: int, promised: dict[str, bytes]) -> None:
    for attempt in range(4):
        name = f"{number}-{attempt}"
        try:
            data = b""
            file = files.create(f"{name}.new")
            file.preallocate(chance.choice((0, 1 << 20)))
            for _ in range(chance.randint(1, 6)):
                part = chance.randbytes(chance.choice((3, 700)))
                file.write_at(len(data), [part])
                data += part
                if chance.random() < 0.3:
                    file.sync()
            file.sync()
            files.rename(f"{name}.new", name)
            files.sync_folder()
            promised[name] = data
            file.write_at(len(data), [b"tail"])
            files.create(f"{name}.other")
            victim = chance.choice(list(promised))
            del promised[victim]
            files.remove(victim)
        except OSError:
            continue  # the next attempt uses a name and a file of its own


@given(st.integers(0, 1 << 32), st.integers(1, 6), st.sampled_from([0.0, 0.02, 0.2]))
def test_promises_hold_in_any_life_and_a_seed_decides_everything(seed: int, steps: int, chance: float) -> None:
    def faults() -> FaultPlan:
        return FaultPlan(
            write_eio=chance, sync_eio=chance, create_eio=chance, rename_eio=chance, capacity_bytes=5 << 20
        )

    assert play(seed, steps, faults()) == play(seed, steps, faults())


def test_other_seeds_live_other_lives() -> None:
    assert len({play(seed, 3, FaultPlan())[0] for seed in range(20)}) == 20
