"""The file layer: everything storage asks of a disk, and nothing more.

One folder, named files in it, one sub-folder for quarantine. The simulator has a layer of its own that loses,
tears and reorders what was not synced, so the rules are written down here:

- Bytes written are durable after `File.sync` returned; before that any part of them may survive a crash.
- A name created, renamed or removed is durable after `Files.sync_folder` returned.
- After a failed `sync` nothing may be assumed about the bytes since the last good one, whatever a read shows.
"""

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pydanube.model import Buffer
from pydanube.model.errors import DataFolderInUse, DataFolderUnusable

_IOV_MAX = 1024


class File(Protocol):
    """An open file. Positions and lengths are bytes."""

    @property
    def name(self) -> str: ...
    def size(self) -> int: ...
    def used(self) -> int:
        """Where the file's contents end: behind it are only zeros that were allocated and never written."""

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        """Writes all parts one behind the other, or raises OSError; then any part of them may be there."""

    def read_at(self, position: int, length: int) -> bytes:
        """At most `length` bytes; fewer only at the end of the file."""

    def preallocate(self, length: int) -> None:
        """Makes the file at least `length` long; new bytes read as zeros and have disk space reserved."""

    def truncate(self, length: int) -> None:
        """Cuts the file to `length` and gives the space back."""

    def sync(self) -> None: ...
    def close(self) -> None: ...


class Files(Protocol):
    """A folder of files. Names are relative; at most one '/' (a file in a sub-folder)."""

    def create(self, name: str) -> File:
        """A new empty file; FileExistsError if the name is taken."""

    def open(self, name: str) -> File: ...
    def list(self, folder: str = "") -> list[str]:
        """Sorted names of the files (not folders) in a folder; empty if there is no such folder."""

    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def make_folder(self, folder: str) -> None: ...
    def sync_folder(self, folder: str = "") -> None: ...
    def free_bytes(self) -> int: ...
    def close(self) -> None: ...


class OsFile:
    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self._fd = fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def used(self) -> int:
        # A preallocated journal file is mostly holes; reading them all would cost more than all else at a start.
        size, end = self.size(), 0
        try:
            while end < size:
                end = os.lseek(self._fd, os.lseek(self._fd, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError as error:
            return end if error.errno == errno.ENXIO else size  # ENXIO: no more data; others: not supported
        return size

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        for start in range(0, len(parts), _IOV_MAX):
            group = parts[start : start + _IOV_MAX]
            expected = sum(map(len, group))
            written = os.pwritev(self._fd, group, position)
            position += written
            if written != expected:  # rare: a signal, or a disk that is nearly full
                rest = memoryview(b"".join(group))[written:]
                while rest:
                    written = os.pwrite(self._fd, rest, position)
                    position += written
                    rest = rest[written:]

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        parts = [data]
        got = len(data)
        while got < length and (more := os.pread(self._fd, length - got, position + got)):
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def preallocate(self, length: int) -> None:
        os.posix_fallocate(self._fd, 0, length)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        # Readers share handles with the writer; the last one to let go closes it.
        self.close()


def _sync_path(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _make_durable_folder(folder: Path) -> None:
    """Makes a folder and its parents, each with its name synced: a journal must not vanish with its folder."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        _sync_path(path.parent)


class OsFiles:
    """A folder on disk, locked against a second process for as long as it is open."""

    def __init__(self, root: Path, *, read_only: bool = False) -> None:
        self.root = root
        self._read_only = read_only
        self._lock_fd = -1
        if read_only:
            if not root.is_dir():
                raise DataFolderUnusable(f"there is no folder {root}")
            return
        try:
            _make_durable_folder(root)
            self._lock_fd = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataFolderUnusable(f"the data folder {root} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_fd)
            self._lock_fd = -1
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise DataFolderUnusable(f"the data folder {root} cannot be locked: {error.strerror}") from error
            raise DataFolderInUse(f"another process is using the data folder {root}") from error

    def create(self, name: str) -> OsFile:
        return OsFile(name, os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def open(self, name: str) -> OsFile:
        mode = os.O_RDONLY if self._read_only else os.O_RDWR
        return OsFile(name, os.open(self.root / name, mode | os.O_CLOEXEC))

    def list(self, folder: str = "") -> list[str]:
        try:
            with os.scandir(self.root / folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_file() and entry.name != "lock")
        except FileNotFoundError:
            return []

    def rename(self, old: str, new: str) -> None:
        os.rename(self.root / old, self.root / new)

    def remove(self, name: str) -> None:
        os.unlink(self.root / name)

    def make_folder(self, folder: str) -> None:
        (self.root / folder).mkdir(exist_ok=True)

    def sync_folder(self, folder: str = "") -> None:
        _sync_path(self.root / folder)

    def free_bytes(self) -> int:
        stat = os.statvfs(self.root)
        return stat.f_bavail * stat.f_frsize

    def close(self) -> None:
        if self._lock_fd >= 0:
            os.close(self._lock_fd)  # releases the lock
            self._lock_fd = -1


class MemoryFile:
    def __init__(self, name: str, folder: "MemoryFiles") -> None:
        self.name = name
        self._folder = folder
        self._data = bytearray()

    def size(self) -> int:
        return len(self._data)

    def used(self) -> int:
        return len(self._data)

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        end = position + sum(map(len, parts))
        self.preallocate(end)
        for part in parts:
            self._data[position : position + len(part)] = part
            position += len(part)

    def read_at(self, position: int, length: int) -> bytes:
        return bytes(memoryview(self._data)[position : position + length])

    def preallocate(self, length: int) -> None:
        grow = length - len(self._data)
        if grow > 0:
            if grow > self._folder.free_bytes():
                raise OSError(errno.ENOSPC, "the memory journal is full")
            self._data.extend(bytes(grow))

    def truncate(self, length: int) -> None:
        del self._data[length:]

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryFiles:
    """A folder in memory, bounded in bytes: where the rounds of `memory` topics go. A full one is a full disk."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._files: dict[str, MemoryFile] = {}

    def create(self, name: str) -> MemoryFile:
        if name in self._files:
            raise FileExistsError(errno.EEXIST, "the file exists already", name)
        self._files[name] = MemoryFile(name, self)
        return self._files[name]

    def open(self, name: str) -> MemoryFile:
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        return self._files[name]

    def list(self, folder: str = "") -> list[str]:
        prefix = f"{folder}/" if folder else ""
        names = [name.removeprefix(prefix) for name in self._files if name.startswith(prefix)]
        return sorted(name for name in names if "/" not in name)

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self.open(old)
        del self._files[old]

    def remove(self, name: str) -> None:
        self.open(name)  # raises if there is no such file
        del self._files[name]

    def make_folder(self, folder: str) -> None:
        pass

    def sync_folder(self, folder: str = "") -> None:
        pass

    def free_bytes(self) -> int:
        return self._bytes_max - sum(file.size() for file in self._files.values())

    def close(self) -> None:
        self._files.clear()
