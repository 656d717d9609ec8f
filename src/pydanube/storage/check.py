"""Looking into a data folder without changing it: what is in it, whether it is whole, and every entry as a line.

Recovery reads what lies behind the newest checkpoint and judges it; this file runs it read-only, and reads every byte
in front of the checkpoint itself, where all was durable and nothing can be a torn tail. At last it compares: each
offset that a topic should have must have been seen in a file.

The folder may be in use. Files then vanish and rounds appear between two reads, so a finding counts only when a
second look shows the same one, and an incomplete last round is what a writer at work looks like.
"""

import contextlib
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from pydanube.model import Buffer, Clock, DanubeError, SystemClock
from pydanube.model.errors import DataDamaged, DataFolderUnusable, JournalMismatch
from pydanube.model.limits import INDEX_STRIDE_BYTES
from pydanube.records import Batch, read_header

from . import entries
from .checkpoint import checkpoint_round, decode_checkpoint
from .entries import PARK_HEAD_BYTES
from .file_header import FILE_HEADER_BYTES, FileHeader, decode_file_header, file_name, index_name, number_of
from .files import File, Files
from .index import decode_sidecar
from .ledger import TopicState
from .ranges import RangeSet
from .recovery import Recovered, Recovery
from .report import Finding, Report
from .rounds import GIVES_OFFSETS, Kind, Row, salt_seed
from .scan import FoundDamage, FoundEnd, FoundRound, scan_rounds
from .state import JournalState, Place

Progress = Callable[[int, int], None]
"""Hears now and then how many bytes of how many have been read."""

QUARANTINE = "quarantine"
_PROGRESS_BYTES = 1 << 20
_LOOKS_MAX = 5
_BATCH_AT: dict[int, int] = {Kind.BATCH: 0, Kind.PARK: PARK_HEAD_BYTES}  # where a batch begins in its entry
_HARMLESS = (Finding.TORN_TAIL,)


class FileFacts(msgspec.Struct):
    name: str
    size_bytes: int
    used_bytes: int  # up to the end of the last round
    rounds: int
    entries: int
    first_round: int | None
    last_round: int | None
    created_us: int | None
    index: str  # of its sidecar: whole, damaged or missing


class CheckpointFacts(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int
    is_whole: bool
    round_number: int | None = None
    file_number: int | None = None  # where recovery goes on from it
    position: int | None = None
    time_us: int | None = None


class LedgerFacts(msgspec.Struct, frozen=True):
    first_offset: int
    end_offset: int
    epoch: int
    bytes: int
    first_file: int
    last_file: int
    closed: bool


class CursorFacts(msgspec.Struct, frozen=True):
    subscription_id: int
    generation: int
    position: int
    ranges_above: list[tuple[int, int]]


class ProducerFacts(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int
    next_sequence: int


class TopicFacts(msgspec.Struct, frozen=True):
    topic_id: int
    first_offset: int
    end_offset: int
    bytes: int
    ledgers: list[LedgerFacts]
    lost: list[tuple[int, int]]
    cursors: list[CursorFacts]
    producers: list[ProducerFacts]
    parked_batches: int
    parked_bytes: int


class OtherFile(msgspec.Struct, frozen=True):
    name: str
    size_bytes: int


class Inspection(msgspec.Struct):
    journal_id: str
    in_use: bool
    files: list[FileFacts]
    checkpoints: list[CheckpointFacts]
    topics: list[TopicFacts]
    deleted_topics: int
    other_files: list[OtherFile]
    findings: list[Report]

    @property
    def is_whole(self) -> bool:
        """A torn tail is no damage: it was never acknowledged, and the next start cuts it off."""
        return all(report.finding in _HARMLESS for report in self.findings)


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
            report for report in again.findings if report in look.findings and report.finding not in _HARMLESS
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
            _topics(recovered.state),
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
        for found in scan_rounds(file, FILE_HEADER_BYTES, end, salt_seed(header.salt)):
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
        if not found.tail_whole:
            self._report(
                Finding.REPAIRED,
                name,
                found.position + found.head.tail_at,
                found.end,
                round_number=found.head.number,
                detail="the second table of a round is damaged; the first one is whole",
            )

    def _judge_loss(self, name: str, found: FoundDamage | FoundEnd, vouched_end: int) -> None:
        if isinstance(found, FoundEnd):
            detail = "rounds that were durable cannot be read"
            self._report(Finding.CORRUPTION, name, found.position, vouched_end, detail=detail)
            return
        for head, rows in found.legible:
            for row in rows:
                self._report_row(name, head.number, row, found.position)
        detail = "the head of a round is damaged" if found.is_covered else "rounds cannot be read"
        self._report(Finding.CORRUPTION, name, found.position, found.end, detail=detail)

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


def _topics(state: JournalState) -> list[TopicFacts]:
    parked: dict[int, list[int]] = {}
    for waiting in state.parked.values():
        parked.setdefault(waiting.topic_id, []).append(waiting.length)
    return [_topic_facts(topic, parked.get(topic_id, [])) for topic_id, topic in sorted(state.topics.items())]


def _topic_facts(topic: TopicState, parked_lengths: list[int]) -> TopicFacts:
    return TopicFacts(
        topic.topic_id,
        topic.first,
        topic.end,
        sum(ledger.bytes for ledger in topic.ledgers),
        [
            LedgerFacts(each.first, each.end, each.epoch, each.bytes, each.first_file, each.last_file, each.closed)
            for each in topic.ledgers
        ],
        topic.gaps.items(),
        [
            CursorFacts(number, cursor.generation, cursor.position, cursor.above.items())
            for number, cursor in topic.cursors.items()
        ],
        [ProducerFacts(each.producer_id, each.epoch, each.next_sequence) for each in topic.producers.values()],
        len(parked_lengths),
        sum(parked_lengths),
    )


def kind_name(kind: int) -> str:
    """For people; a kind that this program does not know is shown by its number."""
    try:
        return Kind(kind).name.lower().replace("_", " ")
    except ValueError:
        return f"kind {kind}"


# -- every entry as a line ----------------------------------------------------------------------------------------


class DumpedEntry(msgspec.Struct, frozen=True):
    """One entry of a round, or a stretch of bytes (without a round) in which none can be read."""

    file: str
    position: int
    length: int
    crc_ok: bool
    kind: str
    round_number: int | None = None
    topic_id: int | None = None
    first_offset: int | None = None
    end_offset: int | None = None
    record_count: int = 0
    detail: str = ""
    payloads: list[bytes | None] | None = None


def dump_folder(files: Files, *, topic_id: int | None = None, with_payloads: bool = False) -> Iterator[DumpedEntry]:
    """Everything in the journal in the order in which it was written; of one topic only, if asked for."""
    for number in sorted(number for number in map(number_of, files.list()) if number is not None):
        name = file_name(number)
        try:
            with contextlib.closing(files.open(name)) as file:
                for dumped in _dump_file(files, number, file, with_payloads):
                    # Bytes that cannot be read may have been anyone's.
                    if topic_id is None or dumped.topic_id == topic_id or dumped.round_number is None:
                        yield dumped
        except FileNotFoundError:
            continue  # deleted by a broker at work
        except OSError as error:
            yield DumpedEntry(name, 0, 0, False, "unreadable", detail=f"the file cannot be read: {error.strerror}")


def _dump_file(files: Files, number: int, file: File, with_payloads: bool) -> Iterator[DumpedEntry]:
    name, end = file_name(number), file.size()
    header, _ = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
    if header is None:
        yield DumpedEntry(name, 0, end, False, "unreadable", detail="both headers of the file are damaged")
        return
    with contextlib.suppress(OSError), contextlib.closing(files.open(file_name(number + 1))) as follower:
        next_header, _ = decode_file_header(follower.read_at(0, FILE_HEADER_BYTES))
        if next_header is not None:
            end = min(end, next_header.previous_end)
    for found in scan_rounds(file, FILE_HEADER_BYTES, end, salt_seed(header.salt)):
        if isinstance(found, FoundRound):
            yield from _dump_round(name, found, with_payloads)
        elif isinstance(found, FoundDamage):
            detail = "no round can be read here"
            yield DumpedEntry(name, found.position, found.end - found.position, False, "unreadable", detail=detail)
        elif found.last > found.position:
            detail = "an incomplete round at the end"
            yield DumpedEntry(name, found.position, found.last - found.position, False, "unreadable", detail=detail)


def _dump_round(name: str, found: FoundRound, with_payloads: bool) -> Iterator[DumpedEntry]:
    head = found.head
    if not found.rows:
        detail = f"says that round {head.synced_through} is durable"
        yield DumpedEntry(name, found.position, head.length, found.tail_whole, "mark", head.number, detail=detail)
    for number, row in enumerate(found.rows):
        crc_ok = number not in found.damaged
        gives = row.kind in GIVES_OFFSETS
        body = found.body(row)
        detail = _detail(row, body) if crc_ok else "the entry is damaged"
        payloads = None
        if with_payloads and crc_ok and row.kind in _BATCH_AT:
            try:
                payloads = Batch(memoryview(body)[_BATCH_AT[row.kind] :]).payloads()
            except DanubeError as error:
                detail = str(error)
        yield DumpedEntry(
            name,
            found.position + row.position,
            row.length,
            crc_ok,
            kind_name(row.kind),
            head.number,
            row.topic_id or None,
            row.first_offset if gives or row.kind == Kind.TRIM else None,
            row.first_offset + row.record_count if gives else None,
            row.record_count,
            detail,
            payloads,
        )


def _detail(row: Row, body: Buffer) -> str:
    try:
        return _describe(row, body)
    except (DanubeError, struct.error, msgspec.MsgspecError):
        return "its content is not legible"


def _describe(row: Row, body: Buffer) -> str:
    """What the row does not say already."""
    kind = row.kind
    if kind in (Kind.CURSOR_ACK, Kind.CURSOR_RESET, Kind.CURSOR_DROP):
        move = entries.decode_cursor(body)
        ranges = ", ".join(f"{first} to {end}" for first, end in move.ranges)
        return f"subscription {move.subscription_id:016x}, generation {move.generation}" + (ranges and f", {ranges}")
    if kind == Kind.BATCH:
        header = read_header(body)
        idempotent = f"producer {header.producer_id:016x}, sequence {header.first_sequence}"
        return idempotent if header.producer_id else ""
    if kind == Kind.PARK:
        return f"parked as {entries.decode_park_head(body).parked_id:016x}"
    if kind == Kind.RELEASE:
        return "released: " + ", ".join(f"{item.parked_id:016x}" for item in entries.decode_released(body)[0])
    if kind == Kind.DISCARD:
        return ", ".join(f"{parked_id:016x}" for parked_id in entries.decode_ids(body))
    if kind == Kind.SESSION:
        return f"writer epoch {entries.decode_ids(body)[0]}"
    if kind == Kind.WRITER:
        writer = entries.decode_writer(body)
        return f"writer {writer.writer}, version {writer.version}"
    if kind == Kind.DAMAGE:
        first, end = entries.decode_ids(body)
        return f"offsets {first} to {end} are lost"
    return ""
