"""Disk space: files that are made whole or not at all, smaller ones on a nearly full disk, and the reserve."""

import errno

import pytest
from tests.storage.rig import SETTINGS

from pydanube.storage import MemoryFiles
from pydanube.storage.files import MemoryFile
from pydanube.storage.space import RESERVE, Space

FILE, LEAST, RESERVED = SETTINGS.file_bytes, SETTINGS.file_bytes_min, SETTINGS.reserve_bytes


def space_on(free: int, *, reserve: bool = False) -> tuple[Space, MemoryFiles]:
    files = MemoryFiles(free + RESERVED * reserve)
    space = Space(files, SETTINGS)
    if reserve:
        assert space.make_reserve()
    return space, files


def test_file_gets_all_of_its_space_at_once() -> None:
    space, files = space_on(FILE)
    file, length = space.allocate("a", 10, for_batches=True)
    assert length == FILE == file.size()
    assert files.free_bytes() == 0
    assert not space.full


def test_file_is_as_large_as_it_needs_to_be() -> None:
    space, _ = space_on(10 * FILE)
    assert space.allocate("a", 3 * FILE, for_batches=True)[1] == 3 * FILE


@pytest.mark.parametrize(("free", "length"), [(FILE - 1, FILE // 2), (FILE // 4, FILE // 4), (LEAST, LEAST)])
def test_nearly_full_disk_gets_a_smaller_file(free: int, length: int) -> None:
    space, _ = space_on(free)
    assert space.allocate("a", 10, for_batches=True)[1] == length
    assert not space.full


def test_full_disk_refuses_batches_and_leaves_the_reserve_alone() -> None:
    space, files = space_on(LEAST - 1, reserve=True)
    with pytest.raises(OSError, match="full") as refused:
        space.allocate("a", 10, for_batches=True)
    assert refused.value.errno == errno.ENOSPC
    assert space.full
    assert files.list() == [RESERVE]


def test_everything_else_lives_on_the_reserve() -> None:
    space, files = space_on(LEAST - 1, reserve=True)
    file, length = space.allocate("a", 10, for_batches=False)
    assert length == RESERVED // 4 == file.size()
    assert space.full
    assert files.list() == ["a"]


def test_without_room_for_the_reserve_there_is_none() -> None:
    space, files = space_on(RESERVED - 1)
    assert not space.make_reserve()
    assert files.list() == []


def test_reserve_is_filled_up_before_batches_are_taken_again() -> None:
    space, files = space_on(LEAST - 1, reserve=True)
    space.allocate("a", 10, for_batches=False)
    with pytest.raises(OSError, match="full"):
        space.allocate("b", 10, for_batches=True)
    files.remove("a")
    assert not space.may_have_room()  # the reserve would fit, a file beside it would not
    bigger, files = space_on(FILE, reserve=True)
    bigger.release_reserve()
    assert bigger.may_have_room()
    assert bigger.allocate("b", 10, for_batches=True)[1] == FILE
    assert RESERVE in files.list()
    assert not bigger.full


def test_room_for_others_does_not_open_the_disk_for_batches() -> None:
    space, _ = space_on(10 * FILE, reserve=True)
    space.release_reserve()
    space.allocate("a", 10, for_batches=False)
    assert space.full


def test_failure_of_another_kind_is_no_full_disk() -> None:
    class Broken(MemoryFiles):
        def create(self, name: str) -> MemoryFile:
            raise OSError(errno.EIO, "broken", name)

    space = Space(Broken(1 << 20), SETTINGS)
    with pytest.raises(OSError, match="broken"):
        space.allocate("a", 10, for_batches=True)
    with pytest.raises(OSError, match="broken"):
        space.make_reserve()
    assert not space.full


def test_remains_under_the_name_are_replaced() -> None:
    space, files = space_on(FILE)
    files.create("a").write_at(0, [b"old"])
    file, _ = space.allocate("a", 10, for_batches=True)
    assert not any(file.read_at(0, 100))
