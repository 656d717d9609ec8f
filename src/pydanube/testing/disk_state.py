"""What lies on a simulated disk: bytes and names, each with a visible state, a durable one, and the changes between.

Chance decides which changes a power cut leaves; syncing rules it out.
"""

import errno
from enum import Enum, auto
from random import Random
from typing import NamedTuple

SECTOR_BYTES = 512
# Drawn once per file and crash, so that "nearly nothing" and "nearly everything" survived are both common.
_SURVIVAL_CHANCES = (0.1, 0.5, 0.9)
_TEAR_CHANCES = (0.0, 0.1, 0.5)
_TEAR_AT_ANY_BYTE_CHANCE = 0.1


class LengthChange(Enum):
    """Changes of a file that move its end only."""

    GROW = auto()
    CUT = auto()


class _Image:
    """The bytes of a file. A tail that was never written is only a length, so preallocation costs nothing."""

    __slots__ = ("_data", "length")

    def __init__(self) -> None:
        self._data = bytearray()
        self.length = 0

    def read(self, position: int, length: int) -> bytes:
        end = min(position + length, self.length)
        return bytes(memoryview(self._data)[position:end]).ljust(end - position, b"\0")

    def apply(self, position: int, change: bytes | LengthChange) -> None:
        if change is LengthChange.GROW:
            self.length = max(self.length, position)
        elif change is LengthChange.CUT:
            self.length = min(self.length, position)
            del self._data[position:]
        else:
            hole = position - len(self._data)
            if hole > 0:
                self._data.extend(bytes(hole))
            end = position + len(change)
            self._data[position:end] = change
            self.length = max(self.length, end)

    def copy(self) -> "_Image":
        image = _Image()
        image._data, image.length = self._data[:], self.length
        return image


class Inode:
    __slots__ = ("durable", "is_folder", "unsynced", "visible")

    def __init__(self, *, is_folder: bool = False) -> None:
        self.is_folder = is_folder
        self.visible = _Image()
        self.durable = _Image()
        self.unsynced: list[tuple[int, bytes | LengthChange]] = []

    def apply(self, position: int, change: bytes | LengthChange) -> None:
        self.visible.apply(position, change)
        self.unsynced.append((position, change))

    def sync(self) -> None:
        for position, change in self.unsynced:
            self.durable.apply(position, change)
        self.unsynced.clear()

    def settle(self, rng: Random) -> None:
        """Chance decides what reached the disk; no later sync brings the rest there.

        A failed sync settles at once rather than at the next power cut: nobody can tell, and what is written and
        synced afterwards then lies above the remains, as it must.
        """
        survival, tear = rng.choice(_SURVIVAL_CHANCES), rng.choice(_TEAR_CHANCES)
        for position, change in self.unsynced:
            if rng.random() >= survival:
                continue
            if isinstance(change, LengthChange) or rng.random() >= tear:
                self.durable.apply(position, change)
            else:
                for start, stop in _torn(rng, position, len(change)):
                    self.durable.apply(position + start, change[start:stop])
        self.unsynced.clear()

    def power_cut(self, rng: Random) -> None:
        self.settle(rng)
        self.visible = self.durable.copy()


def _torn(rng: Random, position: int, length: int) -> list[tuple[int, int]]:
    """The pieces (start, stop) that are left of a write."""
    if rng.random() < _TEAR_AT_ANY_BYTE_CHANCE:
        cut = rng.randrange(length)
        return [rng.choice(((0, cut + 1), (cut, length)))]
    sectors = range(position // SECTOR_BYTES, (position + length - 1) // SECTOR_BYTES + 1)
    kept = rng.getrandbits(len(sectors))
    return [
        (max(sector * SECTOR_BYTES - position, 0), min((sector + 1) * SECTOR_BYTES - position, length))
        for bit, sector in enumerate(sectors)
        if kept >> bit & 1
    ]


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


class _Edit(NamedTuple):
    name: str
    before: Inode | None
    after: Inode | None


class _NameChange:
    """One create (an edit), remove (an edit) or rename (two edits, never one without the other)."""

    def __init__(self, edits: tuple[_Edit, ...]) -> None:
        self.edits = edits
        self.names = {edit.name for edit in edits}
        self.unsynced_folders = {folder_of(edit.name) for edit in edits}
        self.depends_on = self.names | self.unsynced_folders

    def possible(self, names: dict[str, Inode]) -> bool:
        """Whether these names are in the state that the change was made in."""
        return all(
            names.get(edit.name) is edit.before and (not (folder := folder_of(edit.name)) or folder in names)
            for edit in self.edits
        )

    def apply(self, names: dict[str, Inode]) -> None:
        for edit in self.edits:
            if edit.after is None:
                del names[edit.name]
            else:
                names[edit.name] = edit.after


class Names:
    def __init__(self) -> None:
        self.visible: dict[str, Inode] = {}
        self._durable: dict[str, Inode] = {}
        self._unsynced: list[_NameChange] = []

    def find(self, name: str) -> Inode:
        inode = self.visible.get(name)
        if inode is None or inode.is_folder:
            raise FileNotFoundError(errno.ENOENT, "there is no such file", name)
        return inode

    def check_folder(self, folder: str) -> None:
        if folder and not ((inode := self.visible.get(folder)) and inode.is_folder):
            raise FileNotFoundError(errno.ENOENT, "there is no such folder", folder)

    def change(self, holders: dict[str, Inode | None]) -> None:
        """Gives each name its new holder; None removes it."""
        change = _NameChange(tuple(_Edit(name, self.visible.get(name), inode) for name, inode in holders.items()))
        change.apply(self.visible)
        self._unsynced.append(change)

    def sync(self, folder: str) -> None:
        done: list[_NameChange] = []
        needed: set[str] = set()
        left: list[_NameChange] = []
        for change in reversed(self._unsynced):
            change.unsynced_folders.discard(folder)
            # What a durable change builds on is durable as well, whichever folder it was in.
            if not change.unsynced_folders or not needed.isdisjoint(change.names):
                needed |= change.depends_on
                done.append(change)
            else:
                left.append(change)
        for change in reversed(done):
            change.apply(self._durable)
        self._unsynced = left[::-1]

    def power_cut(self, rng: Random) -> None:
        survival = rng.choice(_SURVIVAL_CHANCES)
        for change in self._unsynced:
            if rng.random() < survival and change.possible(self._durable):
                change.apply(self._durable)
        self._unsynced.clear()
        self.visible = self._durable.copy()
