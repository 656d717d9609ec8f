"""Looking into a data folder without changing it: what is in it, and whether it is whole.

Recovery reads what lies behind the newest checkpoint and judges it; this file runs it read-only, and reads every byte
in front of the checkpoint itself, where all was durable and nothing can be a torn tail. At last it compares: each
offset that a topic should have must have been seen in a file.

The folder may be in use. Files then vanish and rounds appear between two reads, so a finding counts only when a
second look shows the same one, and an incomplete last round is what a writer at work looks like.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from pydanube.model import Clock, SystemClock
from pydanube.model.errors import DataDamaged, DataFolderUnusable, JournalMismatch
from pydanube.model.limits import INDEX_STRIDE_BYTES

from .checkpoint import checkpoint_round, decode_checkpoint
from .dump import kind_name
from .facts import HARMLESS, CheckpointFacts, FileFacts, Inspection, OtherFile, topic_facts
from .file_header import FILE_HEADER_BYTES, FileHeader, decode_file_header, file_name, index_name, number_of
from .files import File, Files
from .index import decode_sidecar
from .ranges import RangeSet
from .recovery import Recovered, Recovery
from .report import Finding, Report
from .rounds import GIVES_OFFSETS, Row, salt_seed
from .scan import FoundDamage, FoundEnd, FoundRound, scan_rounds
from .state import JournalState, Place

Progress = Callable[[int, int], None]
"""Hears now and then how many bytes of how many have been read."""

QUARANTINE = "quarantine"
_PROGRESS_BYTES = 1 << 20
_LOOKS_MAX = 5


def find_journal(folder: Path) -> Path:
    """The journal of a data folder lies in it, or in its sub-folder `journal`."""
    candidates = [folder, folder / "journal"]
    if not folder.is_dir():
        raise DataFolderUnusable(f"there is no folder {folder}")
    try:
        for candidate in candidates:
            if candidate.is_dir() and any(map(_belongs, os.listdir(candidate))):
                return candidate
    except OSError as error:
        raise DataFolderUnusable(f"the folder {folder} cannot be read: {error.strerror}") from error
    raise DataFolderUnusable(f"there is no journal in {folder}, nor in {candidates[1]}")


def _belongs(name: str) -> bool:
    return number_of(name) is not None or checkpoint_round(name) is not None


def is_in_use(folder: Path) -> bool:
    """Whether a process has the folder locked. The lock is tried for a moment only: a broker may want to start."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def check_folder(
    files: Files, *, in_use: bool = False, progress: Progress | None = None, clock: Clock | None = None
) -> Inspection:
    """Reads everything. Damage becomes findings; only data of a newer version raises."""
    look = _look(files, in_use, progress, clock or SystemClock())
    if in_use and look.findings:
        again = _look(files, in_use, progress, clock or SystemClock())
        again.findings = [
            report for report in again.findings if report in look.findings and report.finding not in HARMLESS
        ]
        return again
    return look


def _look(files: Files, in_use: bool, progress: Progress | None, clock: Clock) -> Inspection:
    for _ in range(_LOOKS_MAX - 1):
        with contextlib.suppress(FileNotFoundError):  # deleted between two reads
            return _Check(files, in_use, progress, clock).run()
    return _Check(files, in_use, progress, clock).run()


class _Check:
    def __init__(self, files: Files, in_use: bool, progress: Progress | None, clock: Clock) -> None:
        self._files = files
        self._in_use = in_use
        self._progress = progress
        self._clock = clock
        self._findings: list[Report] = []
        self._seen: dict[int, RangeSet] = {}  # topic id to the offsets that were found whole
        self._done_bytes = self._told_bytes = self._total_bytes = 0

    def run(self) -> Inspection:
        names = self._files.list()
        names += [f"{QUARANTINE}/{name}" for name in self._files.list(QUARANTINE)]
        sizes = {name: self._size(name) for name in names}
        numbers = sorted(number for number in map(number_of, names) if number is not None)
        self._total_bytes = sum(sizes[file_name(number)] for number in numbers)
        checkpoints = [self._checkpoint(name) for name in names if checkpoint_round(name) is not None]
        newest = next((facts for facts in reversed(checkpoints) if facts.is_whole), None)
        recovered = self._recover()
        headers = {number: self._header(number, newest) for number in numbers}
        facts = []
        for number in numbers:
            size, follower = sizes[file_name(number)], headers.get(number + 1)
            end = size if follower is None else min(size, follower.previous_end)
            facts.append(self._file(number, headers[number], size, end, _vouched_end(newest, number, end)))
        self._find_missing(numbers, recovered.state)
        known = {file.name for file in facts} | {file.name for file in checkpoints} | set(map(index_name, numbers))
        return Inspection(
            recovered.end.journal_id.hex(),
            self._in_use,
            facts,
            checkpoints,
            topic_facts(recovered.state),
            len(recovered.state.deleted),
            [OtherFile(name, size) for name, size in sizes.items() if name not in known],
            self._findings,
        )

    def _report(self, finding: Finding, file: str, first: int = 0, end: int = 0, **facts: object) -> None:
        self._findings.append(Report(finding, file, first, end, **facts))  # type: ignore[arg-type]

    def _size(self, name: str) -> int:
        with contextlib.closing(self._files.open(name)) as file:
            return file.size()

    def _read(self, name: str, length: int | None = None) -> bytes | None:
        """The beginning of a file, or None where the disk does not give it."""
        try:
            with contextlib.closing(self._files.open(name)) as file:
                return file.read_at(0, file.size() if length is None else length)
        except FileNotFoundError:
            raise
        except OSError as error:
            self._report(Finding.CORRUPTION, name, detail=f"the file cannot be read: {error.strerror}")
            return None

    # -- what recovery sees ---------------------------------------------------------------------------------------

    def _recover(self) -> Recovered:
        recovery = Recovery(self._files, self._clock, stride_bytes=INDEX_STRIDE_BYTES, read_only=True)
        try:
            recovered = recovery.run()
        except FileNotFoundError:
            raise
        except (DataDamaged, JournalMismatch) as error:
            self._report(Finding.CORRUPTION, "the journal", detail=f"it cannot be opened: {error}")
        except OSError as error:
            self._report(Finding.CORRUPTION, "the journal", detail=f"it cannot be read: {error.strerror}")
        else:
            self._findings += recovered.reports
            for found in recovered.tail:  # whole, so the next start keeps it; it may have been acknowledged
                place = Place(recovered.end.file_number, found.position, found.head.length)
                for row in found.rows:
                    recovered.state.apply(row, found.body(row), place)
            return recovered
        return Recovered(JournalState())

    def _checkpoint(self, name: str) -> CheckpointFacts:
        """Recovery reports the damaged ones."""
        data = self._read(name) or b""
        form = decode_checkpoint(data)
        if form is None:
            return CheckpointFacts(name, len(data), False)
        return CheckpointFacts(name, len(data), True, form.round_number, form.file_number, form.position, form.time_us)

    # -- files ----------------------------------------------------------------------------------------------------

    def _header(self, number: int, newest: CheckpointFacts | None) -> FileHeader | None:
        name = file_name(number)
        data = self._read(name, FILE_HEADER_BYTES)
        if data is None:
            return None
        header, both = decode_file_header(data)
        if newest is not None and number < (newest.file_number or 0):  # else recovery has judged it
            if header is None:
                self._report(Finding.CORRUPTION, name, 0, FILE_HEADER_BYTES, detail="both headers are damaged")
            elif not both:
                self._report(Finding.REPAIRED, name, 0, FILE_HEADER_BYTES, detail="one of two headers is damaged")
        return header

    def _file(self, number: int, header: FileHeader | None, size: int, end: int, vouched_end: int) -> FileFacts:
        name = file_name(number)
        facts = FileFacts(name, size, 0, 0, 0, None, None, header and header.created_us, self._sidecar(number))
        begun_bytes = self._done_bytes
        if header is not None:
            try:
                with contextlib.closing(self._files.open(name)) as file:
                    self._rounds(file, header, facts, end, vouched_end)
            except FileNotFoundError:
                raise
            except OSError as error:
                self._report(Finding.CORRUPTION, name, detail=f"the file cannot be read: {error.strerror}")
        self._advance(begun_bytes + size)
        return facts

    def _sidecar(self, number: int) -> str:
        name = index_name(number)
        if name not in self._files.list():
            return "missing"
        data = self._read(name)
        if data is not None and decode_sidecar(data, number) is not None:
            return "whole"
        self._report(Finding.INDEX, name, detail="the next reader makes it again from the journal file")
        return "damaged"

    def _rounds(self, file: File, header: FileHeader, facts: FileFacts, end: int, vouched_end: int) -> None:
        begun_bytes = self._done_bytes
        expected = header.first_round
        # Where all of it is vouched for, its end is the exact end of a round.
        next_number = 0 if vouched_end >= end else None
        for found in scan_rounds(file, FILE_HEADER_BYTES, end, salt_seed(header.salt), next_number=next_number):
            vouched = found.position < vouched_end
            if isinstance(found, FoundRound):
                if vouched:
                    self._judge_round(facts.name, found, expected)
                self._count_round(facts, found)
                expected = found.head.number + 1
            elif vouched:
                self._judge_loss(facts.name, found, vouched_end)
            if isinstance(found, FoundDamage):
                expected = found.next_number
            self._advance(begun_bytes + found.position)

    def _count_round(self, facts: FileFacts, found: FoundRound) -> None:
        facts.used_bytes = found.end
        facts.rounds += 1
        facts.entries += len(found.rows)
        facts.last_round = found.head.number
        if facts.first_round is None:
            facts.first_round = found.head.number
        for number, row in enumerate(found.rows):
            if row.kind in GIVES_OFFSETS and number not in found.damaged:
                seen = self._seen.setdefault(row.topic_id, RangeSet())
                seen.add(row.first_offset, row.first_offset + row.record_count)

    def _judge_round(self, name: str, found: FoundRound, expected: int) -> None:
        if found.head.number != expected:
            detail = f"round {expected} should be here"
            self._report(
                Finding.CORRUPTION, name, found.position, found.end, round_number=found.head.number, detail=detail
            )
        for number in sorted(found.damaged):
            self._report_row(name, found.head.number, found.rows[number], found.position)
        if not (found.head_whole and found.tail_whole):
            first, end = (found.head.tail_at, found.head.length) if found.head_whole else (0, found.head.entries_at)
            self._report(
                Finding.REPAIRED,
                name,
                found.position + first,
                found.position + end,
                round_number=found.head.number,
                detail="one of the two tables of a round is damaged; the other one is whole",
            )

    def _judge_loss(self, name: str, found: FoundDamage | FoundEnd, vouched_end: int) -> None:
        if isinstance(found, FoundEnd):
            detail = "rounds that were durable cannot be read"
            self._report(Finding.CORRUPTION, name, found.position, vouched_end, detail=detail)
            return
        self._report(Finding.CORRUPTION, name, found.position, found.end, detail="rounds cannot be read")

    def _report_row(self, name: str, round_number: int, row: Row, round_position: int) -> None:
        gives = row.kind in GIVES_OFFSETS
        first = round_position + row.position
        self._report(
            Finding.CORRUPTION,
            name,
            first,
            first + row.length,
            round_number=round_number,
            topic_id=row.topic_id or None,
            first_offset=row.first_offset if gives else None,
            end_offset=row.first_offset + row.record_count if gives else None,
            detail="messages cannot be read" if gives else f"an entry of kind {kind_name(row.kind)} cannot be read",
        )

    # -- what should be there -------------------------------------------------------------------------------------

    def _find_missing(self, numbers: list[int], state: JournalState) -> None:
        needed = {parked.file_number for parked in state.parked.values()}
        for topic in state.topics.values():
            for ledger in topic.ledgers:
                needed.update(range(ledger.first_file, ledger.last_file + 1))
        reported = {report.file for report in self._findings if report.finding is Finding.MISSING_FILE}
        for number in sorted(needed.difference(numbers)):
            if file_name(number) not in reported:
                self._report(Finding.MISSING_FILE, file_name(number), detail="topics have messages in it")
        for report in self._findings:  # said already
            if report.topic_id is not None and report.first_offset is not None and report.end_offset is not None:
                self._seen.setdefault(report.topic_id, RangeSet()).add(report.first_offset, report.end_offset)
        for topic_id, topic in sorted(state.topics.items()):
            present = self._seen.get(topic_id, RangeSet())
            for first, end in topic.gaps.items():
                present.add(first, end)
            for first, end in _holes(present, topic.first, topic.end):
                self._report(
                    Finding.CORRUPTION,
                    "the journal",
                    topic_id=topic_id,
                    first_offset=first,
                    end_offset=end,
                    detail="these messages are in no file",
                )

    # -- progress -------------------------------------------------------------------------------------------------

    def _advance(self, done_bytes: int) -> None:
        self._done_bytes = done_bytes
        if self._progress is not None and (
            done_bytes >= self._told_bytes + _PROGRESS_BYTES or done_bytes >= self._total_bytes
        ):
            self._told_bytes = done_bytes
            self._progress(done_bytes, self._total_bytes)


def _vouched_end(newest: CheckpointFacts | None, number: int, end: int) -> int:
    """Up to where the checkpoint says that a file was durable; what lies behind is for recovery to judge."""
    start_file = 0 if newest is None else newest.file_number or 0
    if number == start_file and newest is not None:
        return newest.position or 0
    return end if number < start_file else 0


def _holes(present: RangeSet, first: int, end: int) -> list[tuple[int, int]]:
    holes = []
    for start, stop in present.items():
        if first < min(start, end):
            holes.append((first, min(start, end)))
        first = max(first, stop)
    if first < end:
        holes.append((first, end))
    return holes
