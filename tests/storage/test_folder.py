"""Folders that cannot be used: each says so in one sentence, and nothing in them is touched."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from crc32c import crc32c
from tests.cli.samples import TOPICS, open_log, write_sample

from pydanube.model import DanubeError
from pydanube.model.errors import DataFolderInUse, DataFolderUnusable, UnsupportedVersion
from pydanube.storage import OsFiles
from pydanube.storage.check import check_folder, is_in_use

HOLDER = """
import sys
from pathlib import Path
from pydanube.storage import OsFiles
files = OsFiles(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def check_sentence(error: DanubeError, code: int) -> None:
    assert error.code == code
    assert str(error)
    assert "\n" not in str(error)
    assert error.advice


@contextmanager
def held_by_another_process(folder: Path) -> Iterator[None]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    files = OsFiles(path)
    write_sample(files)
    files.close()
    return path


def test_a_second_process_is_refused_and_changes_nothing(folder: Path) -> None:
    before = contents(folder)
    with held_by_another_process(folder):
        assert is_in_use(folder)
        with pytest.raises(DataFolderInUse) as caught:
            OsFiles(folder)
        check_sentence(caught.value, 404)
        assert str(folder) in str(caught.value)
        assert contents(folder) == before
        assert check_folder(OsFiles(folder, read_only=True), in_use=True).is_whole
    assert not is_in_use(folder)
    log = open_log(OsFiles(folder), seed=2)
    assert not log.reports
    assert all(log.ends(topic_id).durable for topic_id in TOPICS)


def newer_header(data: bytearray) -> None:
    for half in (0, 2048):
        data[half + 12] += 1
        data[half + 8 : half + 12] = crc32c(bytes(data[half + 12 : half + 2048])).to_bytes(4, "little")


def newer_checkpoint(data: bytearray) -> None:
    data[12] += 1
    data[8:12] = crc32c(bytes(data[12:])).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("pattern", "make_newer"),
    [("*.journal", newer_header), ("*.checkpoint", newer_checkpoint)],
    ids=["file", "checkpoint"],
)
def test_data_of_a_newer_version_is_refused(
    folder: Path, pattern: str, make_newer: Callable[[bytearray], None]
) -> None:
    newest = max(folder.glob(pattern))
    data = bytearray(newest.read_bytes())
    make_newer(data)
    newest.write_bytes(data)
    before = contents(folder)
    files = OsFiles(folder)
    with pytest.raises(UnsupportedVersion, match="version 2") as caught:
        open_log(files, seed=2)
    check_sentence(caught.value, 204)
    assert contents(folder) == before
    with pytest.raises(UnsupportedVersion):
        check_folder(OsFiles(folder, read_only=True))


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("mine")
    for place in (path, path / "below"):
        with pytest.raises(DataFolderUnusable) as caught:
            OsFiles(place)
        check_sentence(caught.value, 405)
        assert str(place) in str(caught.value)
    assert path.read_text() == "mine"


def test_a_folder_where_the_lock_should_be(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(DataFolderUnusable):
        OsFiles(tmp_path)
