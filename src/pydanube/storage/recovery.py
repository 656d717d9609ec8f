"""Opening a data folder: from what lies on the disk to a journal that can be written.

1. Load the newest whole checkpoint.
2. Read every byte of the journal behind it. What the disk itself says to be durable (the header of a later file, or
   `synced_through` in a later round) is applied; damage in it is corruption, reported by topic and offsets.
3. At the end there may be one more whole round that nothing vouches for. **Recovered is not durable**: the page
   cache may show bytes that the disk never got. It is copied into a new file and synced with it, and counts only
   then. A damaged last round was never acknowledged: it is cut off, and the cut is reported.
4. The new file opens with the copy and a SESSION entry, which ends the ledgers of the last writer.
"""

import msgspec

from pydanube.model import Clock
from pydanube.model.errors import DataDamaged, JournalMismatch
from pydanube.model.limits import BATCH_RECORDS_MAX
from pydanube.records import HEADER_BYTES

from . import entries
from .catalog import build_index
from .checkpoint import read_checkpoints
from .file_header import FILE_HEADER_BYTES, FileHeader, decode_file_header, file_name, index_name, number_of
from .files import File, Files
from .index import FileIndex
from .journal import TEMPORARY, JournalEnd
from .report import Finding, Report
from .rounds import GIVES_OFFSETS, ROUND_BYTES_BELIEVED, Draft, Kind, RoundHead, Row, salt_seed
from .scan import FoundDamage, FoundEnd, FoundRound, scan_rounds
from .state import JournalState, Place, append_time, state_from_form

_QUARANTINE = "quarantine"
_QUARANTINE_BYTES_EACH_MAX = 16 << 20


class Recovered:
    """What the disk holds. `tail` is not durable until it stands in a new file."""

    def __init__(self, state: JournalState) -> None:
        self.state = state
        self.reports: list[Report] = []
        self.tail: list[FoundRound] = []
        self.damage: list[Draft] = []  # what was lost, as entries for the next session; they come before the tail
        self.indexes: dict[int, FileIndex] = {}  # of files that have no sidecar
        self.end = JournalEnd(b"", 0, 0, 0, 1)
        self.checkpoint_files: list[tuple[str, int]] = []  # whole checkpoints, oldest first, and where replay begins


class _JournalFile(msgspec.Struct):
    number: int
    name: str
    file: File
    size: int
    header: FileHeader | None


class Recovery:
    def __init__(self, files: Files, clock: Clock, *, stride_bytes: int, read_only: bool = False) -> None:
        self._files = files
        self._clock = clock
        self._stride_bytes = stride_bytes
        self._read_only = read_only
        self._synced = 0
        self._next_round = 1
        self._pending: FoundRound | None = None
        self._lost: set[int] = set()  # topics that lost messages; 0: topics that are not known
        self._result = Recovered(JournalState())

    def run(self) -> Recovered:
        result = self._result
        if not self._read_only:
            # Recovered is not durable, and that goes for names too: a file may be visible whose name is not synced.
            self._files.make_folder(_QUARANTINE)
            self._files.sync_folder()
        start_file, start_position = self._load_checkpoint()
        chain = self._open_files(start_file)
        expected = start_file or 1
        for at, journal_file in enumerate(chain):
            if journal_file.number > expected:
                self._lose_files(expected, journal_file)
            expected = journal_file.number + 1
            follower = chain[at + 1] if at + 1 < len(chain) else None
            start = start_position if journal_file.number == start_file and start_position else FILE_HEADER_BYTES
            self._read_file(journal_file, start, follower)
        if chain:
            last = chain[-1]
            end = result.tail[0].position if result.tail else result.end.file_end
            result.end = result.end._replace(file_number=last.number, file_end=end)
        result.end = result.end._replace(next_round=self._next_round - len(result.tail))
        result.damage = self._damage()
        for journal_file in chain:
            journal_file.file.close()
        return result

    def _report(self, finding: Finding, file: str, first: int = 0, end: int = 0, **facts: object) -> None:
        self._result.reports.append(Report(finding, file, first, end, **facts))  # type: ignore[arg-type]

    # -- the checkpoint -------------------------------------------------------------------------------------------

    def _load_checkpoint(self) -> tuple[int, int]:
        chosen = None
        for name, form in read_checkpoints(self._files):
            if form is None:
                self._report(Finding.CHECKPOINT, name, detail="an older one, or the whole journal, is read instead")
                continue
            self._result.checkpoint_files.insert(0, (name, form.file_number))
            chosen = chosen or form
        if chosen is None:
            return 0, 0
        self._result.state = state_from_form(chosen.state)
        self._result.end = self._result.end._replace(journal_id=chosen.journal_id, writer_epoch=chosen.writer_epoch)
        self._synced = chosen.round_number
        self._next_round = chosen.round_number + 1
        return chosen.file_number, chosen.position

    # -- the files ------------------------------------------------------------------------------------------------

    def _open_files(self, start_file: int) -> list[_JournalFile]:
        """The files to read, in order, with their headers."""
        if not self._read_only and TEMPORARY in self._files.list():
            self._files.remove(TEMPORARY)  # never part of the journal: it had no name of its own yet
        numbers = sorted(n for n in map(number_of, self._files.list()) if n is not None and n >= start_file)
        if self._result.checkpoint_files and not numbers:
            raise DataDamaged("the checkpoint names journal files that are not in the folder")
        return [self._open_file(number) for number in numbers]

    def _lose_files(self, first: int, follower: _JournalFile) -> None:
        for number in range(first, follower.number):
            self._report(Finding.MISSING_FILE, file_name(number), detail="the file is not in the folder")
        header = follower.header
        # Of the last of them its successor knows the length; the others are taken for as long as any file.
        length = header.previous_end if header is not None else ROUND_BYTES_BELIEVED
        self._lose_unknown(max(length, ROUND_BYTES_BELIEVED) * (follower.number - first))
        if header is not None:
            self._next_round = max(self._next_round, header.first_round)

    def _open_file(self, number: int) -> _JournalFile:
        name = file_name(number)
        file = self._files.open(name)
        header, both = decode_file_header(file.read_at(0, FILE_HEADER_BYTES))
        if header is not None:
            known = self._result.end.journal_id
            if known and header.journal_id != known:
                raise JournalMismatch(f"{name} belongs to another journal than its neighbours")
            self._result.end = self._result.end._replace(
                journal_id=header.journal_id, writer_epoch=max(self._result.end.writer_epoch, header.writer_epoch)
            )
            if not both:
                self._report(Finding.REPAIRED, name, 0, FILE_HEADER_BYTES, detail="one of two headers is damaged")
        return _JournalFile(number, name, file, file.used(), header)

    def _read_file(self, journal_file: _JournalFile, start: int, follower: _JournalFile | None) -> None:
        name, header = journal_file.name, journal_file.header
        if header is None:
            self._report(Finding.CORRUPTION, name, 0, journal_file.size, detail="both headers are damaged")
            self._quarantine(journal_file, 0, journal_file.size)
            self._lose_unknown(journal_file.size)
            if follower is not None and follower.header is not None:
                self._next_round = max(self._next_round, follower.header.first_round)
            self._result.end = self._result.end._replace(file_end=journal_file.size)
            return
        end, next_number = journal_file.size, None
        if follower is not None and follower.header is not None:
            # The successor's header was written when all before `previous_end` was durable.
            if end >= follower.header.previous_end:
                end, next_number = follower.header.previous_end, follower.header.first_round
            self._synced = max(self._synced, follower.header.first_round - 1)
        self._synced = max(self._synced, header.durable_through)
        index = self._index_up_to(journal_file, start, salt_seed(header.salt))
        for found in scan_rounds(journal_file.file, start, end, salt_seed(header.salt), next_number=next_number):
            if isinstance(found, FoundEnd):
                self._finish_file(journal_file, found, end, follower, index)
                break
            if isinstance(found, FoundDamage):
                self._settle(journal_file, index)
                self._lose_stretch(journal_file, found)
            else:
                self._synced = max(self._synced, found.head.synced_through)
                self._settle(journal_file, index)
                self._pending = found

    def _index_up_to(self, journal_file: _JournalFile, start: int, seed: int) -> FileIndex:
        """A file that is read from its middle on needs an index of its beginning too, unless it has a sidecar: then
        it was closed in good order and has the whole of it."""
        if start == FILE_HEADER_BYTES or index_name(journal_file.number) in self._files.list():
            return FileIndex(self._stride_bytes)
        return build_index(journal_file.file, seed, start, self._stride_bytes)

    def _settle(self, journal_file: _JournalFile, index: FileIndex) -> None:
        """Something follows the round that was found last, so it was durable."""
        found, self._pending = self._pending, None
        if found is not None:
            self._apply(journal_file, found, index)

    def _finish_file(
        self, journal_file: _JournalFile, found: FoundEnd, end: int, follower: _JournalFile | None, index: FileIndex
    ) -> None:
        pending = self._pending
        position = found.position
        if pending is not None and (pending.head.number <= self._synced or follower is not None):
            self._settle(journal_file, index)
        elif pending is not None:
            self._pending = None
            if pending.is_whole:
                self._result.tail.append(pending)
                self._next_round = pending.head.number + 1
            else:
                self._cut_tail(journal_file, pending.position, max(found.last, pending.end), pending)
                position = pending.position
        expected_next = follower.header.first_round if follower is not None and follower.header is not None else None
        if self._next_round <= self._synced or (expected_next is not None and position < end):
            # The disk says that more was durable here than can be found.
            self._report(
                Finding.CORRUPTION,
                journal_file.name,
                position,
                max(found.last, end if follower is not None else 0),
                round_number=self._next_round,
                detail="rounds that were durable cannot be read",
            )
            self._quarantine(journal_file, position, max(found.last, position))
            self._lose_unknown(max(end - position, HEADER_BYTES))
            self._next_round = max(self._next_round, self._synced + 1, expected_next or 0)
        elif found.last > found.position and follower is None and position == found.position:
            self._cut_tail(journal_file, position, found.last, None)
        self._result.end = self._result.end._replace(file_end=position)
        if index_name(journal_file.number) not in self._files.list():
            self._result.indexes[journal_file.number] = index

    # -- what is found --------------------------------------------------------------------------------------------

    def _apply(self, journal_file: _JournalFile, found: FoundRound, index: FileIndex) -> None:
        place = Place(journal_file.number, found.position, found.head.length)
        self._check_number(journal_file, found.head, found.position)
        for number, row in enumerate(found.rows):
            if number in found.damaged:
                self._lose_row(journal_file.name, found.head.number, row, found.position + row.position)
                continue
            body = found.body(row)
            self._result.state.apply(row, body, place)
            if row.kind in GIVES_OFFSETS:
                index.add(row.topic_id, row.first_offset, found.position, append_time(row, body))
        if found.damaged:
            self._quarantine(journal_file, found.position, found.end)
        if not (found.head_whole and found.tail_whole):
            first, end = (found.head.tail_at, found.head.length) if found.head_whole else (0, found.head.entries_at)
            self._report(
                Finding.REPAIRED,
                journal_file.name,
                found.position + first,
                found.position + end,
                round_number=found.head.number,
                detail="one of the two tables of a round is damaged; the other one is whole",
            )
        self._next_round = found.head.number + 1

    def _check_number(self, journal_file: _JournalFile, head: RoundHead, position: int) -> None:
        if head.number != self._next_round:
            self._report(
                Finding.CORRUPTION,
                journal_file.name,
                position,
                position,
                round_number=self._next_round,
                detail=f"the next round that can be read is {head.number}",
            )
            self._lose_unknown(HEADER_BYTES)

    def _lose_row(self, name: str, round_number: int, row: Row, position: int) -> None:
        gives = row.kind in GIVES_OFFSETS
        self._report(
            Finding.CORRUPTION,
            name,
            position,
            position + row.length,
            round_number=round_number,
            topic_id=row.topic_id or None,
            first_offset=row.first_offset if gives else None,
            end_offset=row.first_offset + row.record_count if gives else None,
            detail="messages lost" if gives else f"an entry of kind {_kind_name(row.kind)} lost",
        )
        if gives:
            self._lose_offsets(row.topic_id, row.first_offset, row.first_offset + row.record_count)

    def _lose_offsets(self, topic_id: int, first: int, end: int) -> None:
        if topic_id not in self._result.state.deleted:
            self._lost.add(topic_id)
            self._result.state.lose(topic_id, first, end)

    def _damage(self) -> list[Draft]:
        """What is known to be lost when all is read: rounds behind a loss may have shown that it was smaller."""
        state = self._result.state
        lost = [
            (topic_id, first, end)
            for topic_id in sorted(self._lost & state.topics.keys())
            for first, end in state.topics[topic_id].gaps.items()
        ]
        if 0 in self._lost:
            lost.append((0, 0, state.floor))
        return [
            Draft(Kind.DAMAGE, topic_id, first, 0, 0, entries.encode_ids([first, end])) for topic_id, first, end in lost
        ]

    def _lose_stretch(self, journal_file: _JournalFile, found: FoundDamage) -> None:
        """Nothing in it is legible, and a round follows: it was durable."""
        self._quarantine(journal_file, found.position, found.end)
        self._report(Finding.CORRUPTION, journal_file.name, found.position, found.end, detail="rounds cannot be read")
        self._lose_unknown(found.end - found.position)
        self._next_round = found.next_number

    def _lose_unknown(self, length: int) -> None:
        """Bytes that may have held messages of any topic. An offset that was durable is never given again, so every
        topic goes on above all offsets that could have been in there."""
        bound = (length // HEADER_BYTES + 1) * BATCH_RECORDS_MAX
        state = self._result.state
        for topic in list(state.topics.values()):
            self._lose_offsets(topic.topic_id, topic.end, topic.end + bound)
        self._lost.add(0)
        state.lose(0, 0, state.floor + bound)

    def _cut_tail(self, journal_file: _JournalFile, position: int, end: int, round_: FoundRound | None) -> None:
        topics = "" if round_ is None else ", ".join(sorted({f"{row.topic_id:016x}" for row in round_.rows}))
        self._report(
            Finding.TORN_TAIL,
            journal_file.name,
            position,
            end,
            round_number=None if round_ is None else round_.head.number,
            detail=f"never acknowledged, cut off{', topics ' + topics if topics else ''}",
        )
        self._quarantine(journal_file, position, end)

    def _quarantine(self, journal_file: _JournalFile, first: int, end: int) -> None:
        """Keeps a copy of damaged bytes for whoever looks into it. A full disk does not stop recovery."""
        if self._read_only or end <= first:
            return
        name = f"{_QUARANTINE}/{journal_file.number:012d}-{first}-{end}.bytes"
        data = journal_file.file.read_at(first, min(end - first, _QUARANTINE_BYTES_EACH_MAX))
        try:
            copy = self._files.create(name)
        except FileExistsError:
            return
        except OSError as error:
            self._report(Finding.CORRUPTION, name, detail=f"no copy was kept: {error.strerror}")
            return
        try:
            copy.write_at(0, [data])
        except OSError as error:
            self._report(Finding.CORRUPTION, name, detail=f"no copy was kept: {error.strerror}")
        finally:
            copy.close()


def _kind_name(kind: int) -> str:
    try:
        return Kind(kind).name.lower().replace("_", " ")
    except ValueError:
        return str(kind)
