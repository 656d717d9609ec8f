"""One contract for every file layer, then what each has for itself."""

import errno
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pydanube.model import Buffer
from pydanube.model.errors import DataFolderInUse, DataFolderUnusable
from pydanube.storage.files import Files, MemoryFiles, OsFiles
from pydanube.testing.faults import SimulatedDisk, SimulatedFiles

LAYERS: dict[str, Callable[[Path], Files]] = {
    "os": OsFiles,
    "memory": lambda _: MemoryFiles(64 << 20),
    "simulated": lambda _: SimulatedFiles(SimulatedDisk(Random(0))),
}


@pytest.fixture(params=LAYERS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return LAYERS[request.param](tmp_path / "data")


def test_create_is_exclusive(files: Files) -> None:
    files.create("a").write_at(0, [b"mine"])
    with pytest.raises(FileExistsError):
        files.create("a")
    assert files.open("a").read_at(0, 9) == b"mine"


def test_open_needs_a_file(files: Files) -> None:
    with pytest.raises(FileNotFoundError):
        files.open("a")


def test_handles_share_the_file(files: Files) -> None:
    writer = files.create("a")
    reader = files.open("a")
    writer.write_at(0, [b"x"])
    assert (reader.name, reader.size(), reader.read_at(0, 1)) == ("a", 1, b"x")


def test_many_parts_of_mixed_kinds(files: Files) -> None:
    kinds: list[Callable[[bytes], Buffer]] = [bytes, bytearray, memoryview]
    parts = [kinds[number % 3](str(number).encode()) for number in range(2500)]
    file = files.create("a")
    file.write_at(3, parts)
    expected = b"\0\0\0" + "".join(map(str, range(2500))).encode()
    assert file.size() == len(expected)
    assert file.read_at(0, file.size()) == expected


def test_empty_writes(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [])
    file.write_at(0, [b"", b""])
    assert file.size() == 0


def test_writing_in_place(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"123456"])
    file.write_at(2, [b"x", b"y"])
    assert file.read_at(0, 9) == b"12xy56"


def test_reading_past_the_end(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"1234"])
    assert file.read_at(2, 100) == b"34"
    assert file.read_at(4, 1) == b""
    assert file.read_at(100, 1) == b""
    assert file.read_at(1, 0) == b""


def test_preallocation_reads_as_zeros_and_never_shortens(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"12"])
    file.preallocate(10_000)
    assert file.size() == 10_000
    assert file.read_at(0, 20_000) == b"12" + bytes(9_998)
    file.preallocate(5)
    file.write_at(5_000, [b"x"])
    assert file.size() == 10_000
    assert file.read_at(4_999, 3) == b"\0x\0"


def test_truncation_cuts_for_good(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"123456"])
    file.truncate(2)
    assert (file.size(), file.read_at(0, 9)) == (2, b"12")
    file.preallocate(4)
    assert file.read_at(0, 9) == b"12\0\0"


def test_rename_replaces_and_open_handles_keep_their_file(files: Files) -> None:
    for name in ("a", "b"):
        files.create(name).write_at(0, [name.encode()])
    replaced = files.open("b")
    files.rename("a", "b")
    assert files.list() == ["b"]
    assert files.open("b").read_at(0, 9) == b"a"
    assert replaced.read_at(0, 9) == b"b"


def test_remove(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"a"])
    files.remove("a")
    assert files.list() == []
    assert file.read_at(0, 9) == b"a"
    with pytest.raises(FileNotFoundError):
        files.open("a")
    assert files.create("a").size() == 0


def test_list_is_sorted_and_by_folder(files: Files) -> None:
    assert files.list("old") == []
    files.make_folder("old")
    files.make_folder("old")
    assert files.list("old") == []
    for name in ("c", "a", "b", "old/z"):
        files.create(name)
    files.rename("b", "old/b")
    assert files.list() == ["a", "c"]
    assert files.list("old") == ["b", "z"]
    assert files.open("old/z").name == "old/z"


def test_sync_changes_nothing_that_is_read(files: Files) -> None:
    file = files.create("a")
    file.write_at(0, [b"a"])
    file.sync()
    files.make_folder("old")
    files.sync_folder()
    files.sync_folder("old")
    assert file.read_at(0, 9) == b"a"
    assert files.list() == ["a"]


def test_closing(files: Files) -> None:
    file = files.create("a")
    assert files.free_bytes() > 0
    file.close()
    file.close()
    files.close()


def test_closed_folders_keep_what_was_written(tmp_path: Path) -> None:
    files = OsFiles(tmp_path)
    files.create("a").write_at(0, [b"a"])
    files.close()
    assert OsFiles(tmp_path).open("a").read_at(0, 9) == b"a"


def test_a_folder_in_use_by_this_process(tmp_path: Path) -> None:
    files = OsFiles(tmp_path)
    with pytest.raises(DataFolderInUse):
        OsFiles(tmp_path)
    files.close()
    OsFiles(tmp_path).close()


def test_a_folder_in_use_by_another_process(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from pydanube.storage.files import OsFiles\n"
        "files = OsFiles(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(DataFolderInUse):
            OsFiles(tmp_path)
        OsFiles(tmp_path, read_only=True)
        other.communicate()
    OsFiles(tmp_path).close()


def test_read_only_needs_a_folder_and_does_not_write(tmp_path: Path) -> None:
    with pytest.raises(DataFolderUnusable):
        OsFiles(tmp_path / "missing", read_only=True)
    files = OsFiles(tmp_path)
    files.create("a")
    file = OsFiles(tmp_path, read_only=True).open("a")
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(0, [b"x"])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for root in (tmp_path / "file", tmp_path / "file" / "data"):
        with pytest.raises(DataFolderUnusable):
            OsFiles(root)


def test_the_lock_is_not_listed(tmp_path: Path) -> None:
    assert OsFiles(tmp_path).list() == []
    assert (tmp_path / "lock").exists()


def test_memory_is_bounded() -> None:
    files = MemoryFiles(10)
    file = files.create("a")
    file.preallocate(6)
    assert files.free_bytes() == 4
    growing: list[Callable[[], None]] = [lambda: file.preallocate(11), lambda: file.write_at(5, [b"123456"])]
    for operation in growing:
        with pytest.raises(OSError, match="full") as caught:
            operation()
        assert caught.value.errno == errno.ENOSPC
    file.write_at(0, [b"0123456789"])
    files.remove("a")
    assert files.free_bytes() == 10
