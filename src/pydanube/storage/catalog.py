"""The journal's files as readers see them: open handles, where each ends, and its index. Bounded in number."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from pydanube.model.errors import DataDamaged, StorageFailed

from .file_header import FILE_HEADER_BYTES, FileHeader, decode_file_header, file_name, index_name
from .files import File, Files
from .index import FileIndex, IndexEntry, Sidecar, decode_sidecar
from .report import Finding, Report
from .rounds import GIVES_OFFSETS, salt_seed
from .scan import FoundRound, scan_rounds
from .state import append_time

_OPEN_FILES_MAX = 32
_INDEX_BYTES_MAX = 32 << 20


class ReadableFile(NamedTuple):
    file: File
    name: str
    seed: int
    end: int
    offsets: FileIndex | Sidecar


def read_file_header(files: Files, number: int) -> FileHeader:
    name = file_name(number)
    try:
        file = files.open(name)
    except FileNotFoundError as error:
        raise DataDamaged(f"the journal file {name} is missing") from error
    try:
        header, _ = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
    finally:
        file.close()
    if header is None:
        raise DataDamaged(f"the header of {name} is damaged")
    return header


def build_index(file: File, seed: int, end: int, stride_bytes: int) -> FileIndex:
    """The index of a file, made again from its rounds. Damaged entries are in it too: who reads them will see."""
    index = FileIndex(stride_bytes)
    for found in scan_rounds(file, FILE_HEADER_BYTES, end, seed):
        if isinstance(found, FoundRound):
            for number, row in enumerate(found.rows):
                if row.kind in GIVES_OFFSETS:
                    # The time inside a damaged entry may be anything, also one that an index cannot hold.
                    damaged = number in found.damaged
                    time_us = found.head.time_us if damaged else append_time(row, found.body(row))
                    index.add(row.topic_id, row.first_offset, found.position, time_us)
    return index


class Catalog:
    def __init__(self, files: Files, stride_bytes: int, report: Callable[[Report], None]) -> None:
        self._files = files
        self._stride_bytes = stride_bytes
        self._report = report
        self._open: OrderedDict[int, ReadableFile] = OrderedDict()
        self._index_bytes = 0
        self._unsaved: dict[int, FileIndex] = {}  # of closed files whose sidecar is not written yet
        self.current_number = 0
        self._current: tuple[File, int, int] | None = None  # handle, seed, durable end
        self.current_index = FileIndex(stride_bytes)

    def advance(self, number: int, file: File, end: int) -> bool:
        """A round became durable; returns whether it was the first of a new file."""
        is_new = number != self.current_number
        if is_new:
            if self.current_number:
                self._unsaved[self.current_number] = self.current_index
            self.current_number = number
            self.current_index = FileIndex(self._stride_bytes)
            seed = salt_seed(self._header(number, file).salt)
        else:
            assert self._current is not None
            seed = self._current[1]
        self._current = (file, seed, end)
        return is_new

    def _header(self, number: int, file: File) -> FileHeader:
        header, _ = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
        if header is None:
            raise DataDamaged(f"the header of {file_name(number)} is damaged")
        return header

    def keep_index(self, number: int, index: FileIndex) -> None:
        """An index that was made while recovering: no need to read the sidecar, or there is none."""
        self._unsaved[number] = index

    def unsaved(self, *, with_current: bool) -> list[tuple[int, FileIndex]]:
        """Indexes of closed files without a sidecar, oldest first; and of the current one, when it is being closed."""
        indexes = dict(self._unsaved)
        if with_current:
            indexes[self.current_number] = self.current_index
        return sorted(indexes.items())

    def saved(self, number: int) -> None:
        self._unsaved.pop(number, None)
        self._forget(number)

    def get(self, number: int) -> ReadableFile:
        if number == self.current_number and self._current is not None:
            file, seed, end = self._current
            return ReadableFile(file, file_name(number), seed, end, self.current_index)
        known = self._open.get(number)
        if known is not None:
            self._open.move_to_end(number)
            return known
        opened = self._open_closed(number)
        self._open[number] = opened
        if isinstance(opened.offsets, Sidecar):
            self._index_bytes += opened.offsets.length
        while len(self._open) > _OPEN_FILES_MAX or (self._index_bytes > _INDEX_BYTES_MAX and len(self._open) > 1):
            self._forget(next(iter(self._open)))
        return opened

    def _open_closed(self, number: int) -> ReadableFile:
        header = read_file_header(self._files, number)
        seed = salt_seed(header.salt)
        file = self._files.open(file_name(number))
        try:
            end = read_file_header(self._files, number + 1).previous_end
        except DataDamaged:
            end = file.size()  # as recovery does: what its successor has lost is not this file's fault
        index = self._unsaved.get(number) or self._load_sidecar(number) or self._rebuild(number, file, seed, end)
        return ReadableFile(file, file_name(number), seed, end, index)

    def _load_sidecar(self, number: int) -> Sidecar | None:
        try:
            file = self._files.open(index_name(number))
        except FileNotFoundError:
            return None
        try:
            sidecar = decode_sidecar(file.read_at(0, file.size()), number)
        finally:
            file.close()
        if sidecar is None:
            self._report(Report(Finding.INDEX, index_name(number), detail="made again from the journal file"))
        return sidecar

    def _rebuild(self, number: int, file: File, seed: int, end: int) -> FileIndex:
        index = build_index(file, seed, end, self._stride_bytes)
        self._unsaved[number] = index
        return index

    def _forget(self, number: int) -> None:
        # The handle is not closed here: a read job on another thread may hold it. The last one to let go closes it.
        opened = self._open.pop(number, None)
        if opened is not None and isinstance(opened.offsets, Sidecar):
            self._index_bytes -= opened.offsets.length

    def remove(self, number: int) -> None:
        """The file is being deleted."""
        self._unsaved.pop(number, None)
        self._forget(number)

    def find(self, number: int, topic_id: int, offset: int) -> tuple[ReadableFile, IndexEntry | None]:
        try:
            opened = self.get(number)
        except OSError as error:
            raise StorageFailed(f"{file_name(number)} could not be read: {error.strerror}") from error
        return opened, opened.offsets.find(topic_id, offset)
