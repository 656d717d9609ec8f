"""A disk that breaks every promise the file layer did not make, from a seed.

The disk outlives its processes. Reads see the page cache; what a power cut leaves of it is decided by chance and
only `File.sync` and `Files.sync_folder` rule chance out. Bytes and names are kept the same way: a visible state, a
durable one, and the changes between them in order. Where real file systems differ, the least helpful one is
modelled: a rename between two folders is durable when both are synced, and file sync never saves a name.
"""

import errno
import hashlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random

from pydanube.model import Buffer

from .disk_state import Inode, LengthChange, Names, folder_of

_UNLIMITED_BYTES = 1 << 50


class Crashed(BaseException):
    """The process that held this handle is gone. No error handling may survive it, hence not an Exception."""


@dataclass
class FaultPlan:
    """Chances of failure, 0 to 1, per operation. May be changed while the disk is in use."""

    write_eio: float = 0.0  # a part of the write is done
    sync_eio: float = 0.0  # unsynced writes are given up, though reads still show them
    read_eio: float = 0.0
    create_eio: float = 0.0  # this and the next three change nothing
    rename_eio: float = 0.0
    remove_eio: float = 0.0
    sync_folder_eio: float = 0.0
    capacity_bytes: int | None = None  # counts the lengths of all files that have a name


class SimulatedDisk:
    """What stays when a process dies. One at a time uses it, through a `SimulatedFiles` of its own."""

    def __init__(self, rng: Random, faults: FaultPlan | None = None) -> None:
        self.faults = faults or FaultPlan()
        self.operations = 0
        self.process = 0  # the number of crashes so far; handles of an earlier process are dead
        self.tree = Names()
        self.rng = rng
        self._countdown = 0
        self._trace = hashlib.blake2b(digest_size=16)

    def crash(self, *, power: bool) -> None:
        """Ends the process; with `power` the page cache goes too."""
        self.process += 1
        self._countdown = 0
        self._trace.update(b"power cut" if power else b"killed")
        if power:
            self.tree.power_cut(self.rng)
            for inode in self.tree.visible.values():
                inode.power_cut(self.rng)

    def crash_after(self, operations: int) -> None:
        """The process dies in the n-th operation from now on, which is done, partly done or not done."""
        if operations < 1:
            raise ValueError("the first operation that can crash is the next one: 1")
        self._countdown = operations

    def flip_bit(self, name: str, position: int | None = None) -> int:
        """Flips a bit of one durable byte, and of what reads see there; returns the byte's position."""
        inode = self.tree.find(name)
        if position is None:
            position = self.rng.randrange(inode.durable.length)
        elif position >= inode.durable.length:
            raise ValueError(f"byte {position} of {name} is not durable")
        mask = 1 << self.rng.randrange(8)
        for image in (inode.durable, inode.visible):
            for byte in image.read(position, 1):  # none where the end of the file is cut off, but not yet durably
                image.apply(position, bytes([byte ^ mask]))
        return position

    def names(self) -> list[str]:
        return sorted(name for name, inode in self.tree.visible.items() if not inode.is_folder)

    def read(self, name: str) -> bytes:
        image = self.tree.find(name).visible
        return image.read(0, image.length)

    def trace_digest(self) -> str:
        """Of all operations and crashes so far, with the bytes written."""
        return self._trace.hexdigest()

    def free_bytes(self) -> int:
        capacity = self.faults.capacity_bytes
        if capacity is None:
            return _UNLIMITED_BYTES
        return max(0, capacity - sum(inode.visible.length for inode in self.tree.visible.values()))

    # From here on: for the handles of a process, not for tests.

    def check(self, process: int) -> None:
        if process != self.process:
            raise Crashed

    def hits(self, chance: float) -> bool:
        return chance > 0 and self.rng.random() < chance

    @contextmanager
    def operation(self, process: int, kind: str, name: str, detail: object, chance: float) -> Iterator[bool]:
        """Around the body of one operation, which is told whether to leave behind what a failed one does."""
        self.check(process)
        self.operations += 1
        self._trace.update(f"{kind} {name} {detail}\n".encode())
        self._countdown -= 1
        if self._countdown != 0:
            fails = self.hits(chance)
            yield fails
            if fails:
                raise OSError(errno.EIO, f"simulated failure of {kind}", name)
            return
        self.process += 1
        ending = self.rng.randrange(3)
        if ending > 0:
            with suppress(OSError):
                yield ending == 1 and kind == "write"  # nothing else can be half done
        raise Crashed


class SimulatedFile:
    def __init__(self, name: str, disk: SimulatedDisk, process: int, inode: Inode) -> None:
        self.name = name
        self._disk = disk
        self._process = process
        self._inode = inode
        self._closed = False

    def size(self) -> int:
        self._check()
        return self._inode.visible.length

    def used(self) -> int:
        return self.size()

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._check()
        data = b"".join(parts)
        detail = (position, len(data), zlib.crc32(data))
        with self._disk.operation(self._process, "write", self.name, detail, self._disk.faults.write_eio) as fails:
            missing = position + len(data) - self._inode.visible.length - self._disk.free_bytes()
            stop = len(data) - max(0, missing)
            if fails:
                stop = self._disk.rng.randint(0, max(0, stop))
            if stop > 0:
                self._inode.apply(position, data[:stop])
            if missing > 0:
                raise OSError(errno.ENOSPC, "the simulated disk is full", self.name)

    def read_at(self, position: int, length: int) -> bytes:
        self._check()
        if self._disk.hits(self._disk.faults.read_eio):
            raise OSError(errno.EIO, "simulated failure of read", self.name)
        return self._inode.visible.read(position, length)

    def preallocate(self, length: int) -> None:
        self._check()
        with self._disk.operation(self._process, "preallocate", self.name, length, 0.0):
            grow = length - self._inode.visible.length
            if grow > self._disk.free_bytes():
                raise OSError(errno.ENOSPC, "the simulated disk is full", self.name)
            if grow > 0:
                self._inode.apply(length, LengthChange.GROW)

    def truncate(self, length: int) -> None:
        self._check()
        with self._disk.operation(self._process, "truncate", self.name, length, 0.0):
            if length < self._inode.visible.length:
                self._inode.apply(length, LengthChange.CUT)

    def sync(self) -> None:
        self._check()
        with self._disk.operation(self._process, "sync", self.name, "", self._disk.faults.sync_eio) as fails:
            if fails:
                self._inode.settle(self._disk.rng)
            else:
                self._inode.sync()

    def close(self) -> None:
        self._disk.check(self._process)
        self._closed = True

    def _check(self) -> None:
        self._disk.check(self._process)
        if self._closed:
            raise OSError(errno.EBADF, "the file is closed", self.name)


class SimulatedFiles:
    """The files as one process sees them; the next process makes its own from the same disk."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._process = disk.process

    def create(self, name: str) -> SimulatedFile:
        with self._changing("create", name, "", self._disk.faults.create_eio) as names:
            names.check_folder(folder_of(name))
            if name in names.visible:
                raise FileExistsError(errno.EEXIST, "the file exists already", name)
            names.change({name: Inode()})
        return self.open(name)

    def open(self, name: str) -> SimulatedFile:
        self._disk.check(self._process)
        return SimulatedFile(name, self._disk, self._process, self._disk.tree.find(name))

    def list(self, folder: str = "") -> list[str]:
        self._disk.check(self._process)
        return sorted(name.rpartition("/")[2] for name in self._disk.names() if folder_of(name) == folder)

    def rename(self, old: str, new: str) -> None:
        with self._changing("rename", old, new, self._disk.faults.rename_eio) as names:
            names.check_folder(folder_of(new))
            names.change({old: None, new: names.find(old)})

    def remove(self, name: str) -> None:
        with self._changing("remove", name, "", self._disk.faults.remove_eio) as names:
            names.find(name)
            names.change({name: None})

    def make_folder(self, folder: str) -> None:
        with self._changing("make_folder", folder, "", 0.0) as names:
            if folder not in names.visible:
                names.change({folder: Inode(is_folder=True)})

    def sync_folder(self, folder: str = "") -> None:
        with self._changing("sync_folder", folder, "", self._disk.faults.sync_folder_eio) as names:
            names.check_folder(folder)
            names.sync(folder)

    def free_bytes(self) -> int:
        self._disk.check(self._process)
        return self._disk.free_bytes()

    def close(self) -> None:
        self._disk.check(self._process)

    @contextmanager
    def _changing(self, kind: str, name: str, detail: str, chance: float) -> Iterator[Names]:
        with self._disk.operation(self._process, kind, name, detail, chance) as fails:
            if fails:
                raise OSError(errno.EIO, f"simulated failure of {kind}", name)
            yield self._disk.tree
