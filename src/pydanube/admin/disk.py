"""What the disk does for the journal, measured where it happens: how long a sync takes, how much a round writes."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from pydanube.broker.metrics import Histogram
from pydanube.model import Buffer
from pydanube.model.limits import KIB, MIB
from pydanube.storage import OsFiles
from pydanube.storage.files import OsFile
from pydanube.storage.journal import TEMPORARY

_BOUNDS_BYTES = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB)


class DiskTimes:
    """Filled by the journal's thread, read by the loop."""

    def __init__(self) -> None:
        self.sync_seconds = Histogram()
        self.round_bytes = Histogram(_BOUNDS_BYTES)

    def lines(self) -> str:
        found = self.sync_seconds.lines("danube_journal_sync_seconds", "one fdatasync of the journal")
        found += self.round_bytes.lines("danube_journal_round_bytes", "one write to the journal")
        return "\n".join(found) + "\n"


class _TimedFile(OsFile):
    def __init__(self, name: str, fd: int, times: DiskTimes) -> None:
        super().__init__(name, fd)
        self._times = times

    def write_at(self, position: int, parts: Sequence[Buffer]) -> None:
        super().write_at(position, parts)
        self._times.round_bytes.add(sum(map(len, parts)))

    def sync(self) -> None:
        started = time.perf_counter()
        super().sync()
        self._times.sync_seconds.add(time.perf_counter() - started)


class TimedFiles(OsFiles):
    """A data folder whose journal files are measured while they are written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.times = DiskTimes()

    def create(self, name: str) -> OsFile:
        created = super().create(name)
        if name != TEMPORARY:  # a journal file gets its own name when it is whole
            return created
        created.close()
        return _TimedFile(name, os.open(self.root / name, os.O_RDWR | os.O_CLOEXEC), self.times)
