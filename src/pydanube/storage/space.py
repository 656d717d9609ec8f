"""Disk space: journal files that are allocated before they are used, and the reserve for a full disk.

A file gets all of its space when it is made, so a disk that fills up is noticed there and not in the middle of a
round. When no file for batches can be made any more, batches are refused, and cursors and checkpoints live on
the reserve, which was allocated long before.
"""

import contextlib
import errno

from .files import File, Files
from .settings import StorageSettings

RESERVE = "reserve"


def is_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class Space:
    def __init__(self, files: Files, settings: StorageSettings) -> None:
        self._files = files
        self._settings = settings
        self.full = False  # batches are refused

    def make_reserve(self) -> bool:
        if RESERVE in self._files.list():
            return True
        try:
            file = self._files.create(RESERVE)
            file.preallocate(self._settings.reserve_bytes)
            file.close()
        except OSError as error:
            if not is_full(error):
                raise
            self._remove(RESERVE)
            return False
        return True

    def allocate(self, name: str, needed: int, *, for_batches: bool) -> tuple[File, int]:
        """A new file with space for at least `needed` bytes, and how much it has. OSError(ENOSPC): there is none."""
        # Where room has come back, the reserve is filled up before anything else.
        if self.full and for_batches and not self.make_reserve():
            raise OSError(errno.ENOSPC, "the disk is full")
        wanted = max(self._settings.file_bytes, needed)
        least = max(self._settings.file_bytes_min, needed)
        while True:
            try:
                made = self._allocate(name, wanted)
                self.full = self.full and not for_batches
                return made
            except OSError as error:
                if not is_full(error):
                    raise
                if wanted == least:
                    break
                wanted = max(wanted // 2, least)
        self.full = True
        if for_batches:
            raise OSError(errno.ENOSPC, "the disk is full")
        self.release_reserve()
        return self._allocate(name, max(self._settings.reserve_bytes // 4, needed))

    def _allocate(self, name: str, length: int) -> tuple[File, int]:
        self._remove(name)
        file = self._files.create(name)
        try:
            file.preallocate(length)
        except OSError:
            file.close()
            self._remove(name)
            raise
        return file, length

    def release_reserve(self) -> None:
        self.full = True
        self._remove(RESERVE)

    def may_have_room(self) -> bool:
        """Whether it is worth trying batches again on a disk that was full."""
        settings = self._settings
        missing = 0 if RESERVE in self._files.list() else settings.reserve_bytes
        return self._files.free_bytes() > missing + settings.file_bytes_min

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(name)
