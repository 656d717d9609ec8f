"""The log: the door to storage. One owner thread calls it; a writer (see `writer.py`) moves its rounds to the disk."""

from random import Random
from typing import NamedTuple

from pydanube.model import Buffer, Clock, LogEnds, Offset
from pydanube.model.errors import DataDamaged, JournalMismatch, OffsetOutOfRange, StorageFailed
from pydanube.model.limits import ROUND_ENTRIES_MAX
from pydanube.records import BatchHeader, read_header

from . import entries
from .acceptance import Done
from .appender import Appender
from .cache import StoredBatch
from .catalog import Catalog
from .core import Core
from .cursors import Cursors
from .file_header import file_name
from .files import Files
from .journal import Journal
from .ledger import Ledger
from .parking import Parking
from .plan import Slice, Tier, plan_read
from .reader import ReadJob, run_read
from .recovery import Recovered, Recovery
from .report import Report
from .rounds import Draft, Kind
from .scan import FoundRound
from .settings import StorageSettings
from .upkeep import Upkeep

NO_CEILING = 1 << 63


class Opening(NamedTuple):
    """What the metadata knows of the journal."""

    journal_id: bytes | None = None  # None: whatever is in the folder, or a new one
    may_create: bool = True  # whether the folder may be empty
    ceiling: int = NO_CEILING
    floor: int = 0  # after the loss of a disk: topics begin above every offset that was ever given


class JournalRead(NamedTuple):
    """A read from journal files. Holds open files, so it can run on any thread and at any time."""

    topic_id: int
    part: Slice
    bytes_max: int
    jobs: list[ReadJob]

    def run(self) -> list[StoredBatch]:
        """At least one batch, or DataDamaged."""
        offset = self.part.first
        for job in self.jobs:
            try:
                found = run_read(job)
            except OSError as error:
                raise StorageFailed(f"{job.file_name} could not be read: {error.strerror}") from error
            if found:
                return found
        raise DataDamaged(
            f"messages {offset} to {self.part.end} of topic {self.topic_id:016x} are not where they should be",
            offset,
            self.part.end,
        )


class Log:
    def __init__(
        self, files: Files, journal: Journal, core: Core, recovered: Recovered, journal_id: bytes, ceiling: int
    ) -> None:
        self.files = files
        self.journal = journal
        self.core = core
        self.journal_id = journal_id
        self.reports: list[Report] = recovered.reports
        self._appender = Appender(core, ceiling)
        self.cursors = Cursors(core)
        self.parking = Parking(core, self._appender)
        self.upkeep = Upkeep(core, self._appender, self.parking, files, journal_id, recovered.checkpoint_files)

    @classmethod
    def open(
        cls,
        files: Files,
        settings: StorageSettings,
        clock: Clock,
        rng: Random,
        opening: Opening = Opening(),  # noqa: B008 - a frozen value
    ) -> "Log":
        recovered = Recovery(files, clock, stride_bytes=settings.index_stride_bytes).run()
        journal_id = _identify(recovered, opening, rng)
        end = recovered.end._replace(journal_id=journal_id, writer_epoch=recovered.end.writer_epoch + 1)
        journal = Journal(files, settings, end, clock=clock, new_salt=lambda: rng.getrandbits(64))
        catalog = Catalog(files, settings.index_stride_bytes, recovered.reports.append)
        core = Core(recovered.state, settings, clock, catalog, journal.space, journal.writer_epoch)
        journal.space.make_reserve()
        _begin_session(journal, core, recovered, opening)
        return cls(files, journal, core, recovered, journal_id, opening.ceiling)

    def append(self, topic_id: int, batch: Buffer, header: BatchHeader, done: Done) -> None:
        self._appender.append(topic_id, batch, header, done)

    @property
    def ceiling(self) -> int:
        return self._appender.ceiling

    def raise_ceiling(self, ceiling: int) -> None:
        """The metadata has a higher ceiling by now."""
        self._appender.ceiling = max(ceiling, self._appender.ceiling)

    @property
    def offset_highest(self) -> int:
        """The highest offset that any topic has come to, to raise the ceiling in good time."""
        return self._appender.offset_highest

    # -- reading --------------------------------------------------------------------------------------------------

    def first_offset(self, topic_id: int) -> int:
        return self.core.topic(topic_id).first

    def ends(self, topic_id: int) -> LogEnds:
        topic = self.core.topic(topic_id)
        acceptance = self.core.acceptances.get(topic_id)
        accepted = topic.end if acceptance is None else acceptance.next_offset
        return LogEnds(archived=Offset(topic.first), durable=Offset(topic.end), accepted=Offset(accepted))

    def plan(self, topic_id: int, offset: int) -> list[Slice]:
        topic = self.core.topic(topic_id)
        if not topic.first <= offset <= topic.end:
            raise OffsetOutOfRange(f"offset {offset} is not between {topic.first} and {topic.end}")
        cached_from = self.core.cache.first_offset(topic_id)
        return plan_read(topic.ledgers, topic.gaps, cached_from, offset, topic.end)

    def read(self, topic_id: int, offset: int, bytes_max: int) -> list[StoredBatch]:
        """Durable batches from the one that holds `offset` on, at least one if there is any, about `bytes_max`.

        Raises DataDamaged, with the offsets concerned, where they begin with messages that damage took.
        """
        batches: list[StoredBatch] = []
        while sum(len(batch.data) for batch in batches) < bytes_max:
            try:
                found = self.prepare_read(topic_id, batches[-1].end_offset if batches else offset, bytes_max)
                if isinstance(found, JournalRead):
                    found = found.run()
            except DataDamaged:
                if not batches:
                    raise
                break  # what comes before the damage is handed out first
            if not found:
                break
            batches.extend(found)
        return batches

    def prepare_read(self, topic_id: int, offset: int, bytes_max: int) -> "list[StoredBatch] | JournalRead":
        """What the tail cache has, at once; else what has to be done to read it, which can run on another thread."""
        slices = self.plan(topic_id, offset)
        if not slices:
            return []
        part = slices[0]
        if part.tier is Tier.CACHE:
            return self.core.cache.read(topic_id, part.first, bytes_max)
        if part.tier is Tier.JOURNAL:
            return JournalRead(topic_id, part, bytes_max, self.read_jobs(topic_id, part, bytes_max))
        raise DataDamaged(
            f"messages {part.first} to {part.end} of topic {topic_id:016x} were lost to damage", part.first, part.end
        )

    def read_jobs(self, topic_id: int, part: Slice, bytes_max: int) -> list[ReadJob]:
        """The reads that a journal slice takes, in order; each can run on another thread."""
        jobs = []
        catalog = self.core.catalog
        for number in part.files:
            opened, entry = catalog.find(number, topic_id, part.first)
            if entry is None or entry.first_offset >= part.end:
                continue
            job = ReadJob(
                topic_id,
                part.first,
                part.end,
                bytes_max,
                opened.file,
                opened.name,
                opened.seed,
                entry.position,
                opened.end,
                lambda number: self.files.open(file_name(number)),
            )
            jobs.append(job)
        return jobs

    def offset_at_time(self, topic_id: int, time_us: int) -> int:
        """The first offset whose append time is at or after a time; the end if there is none."""
        topic = self.core.topic(topic_id)
        for ledger in topic.ledgers:
            if ledger.last_us < time_us:
                continue
            offset = max(ledger.first, topic.first, self._index_before(topic_id, ledger, time_us))
            while offset < ledger.end:
                batches = self.read(topic_id, offset, 1 << 20)
                for batch in batches:
                    if read_header(batch.data).append_time_us >= time_us:
                        return max(batch.first_offset, topic.first)
                offset = batches[-1].end_offset
        return topic.end

    def _index_before(self, topic_id: int, ledger: Ledger, time_us: int) -> int:
        """An offset before which everything is older than a time, from the index alone."""
        offset = 0
        for number in range(ledger.first_file, ledger.last_file + 1):
            entry = self.core.catalog.get(number).offsets.find_time(topic_id, time_us)
            if entry is not None and entry.time_us < time_us:
                offset = max(offset, entry.first_offset)
        return offset


def _identify(recovered: Recovered, opening: Opening, rng: Random) -> bytes:
    found, expected = recovered.end.journal_id, opening.journal_id
    if not found:
        if not opening.may_create:
            raise JournalMismatch("the data folder is empty, but the metadata knows of a journal")
        return expected or rng.randbytes(16)
    if expected is not None and found != expected:
        raise JournalMismatch(f"the data folder holds journal {found.hex()}, the metadata knows {expected.hex()}")
    return found


def _begin_session(journal: Journal, core: Core, recovered: Recovered, opening: Opening) -> None:
    """The first file of this writer: what was lost, what recovery kept, then the session."""
    damage = recovered.damage
    rounds = [damage[start : start + ROUND_ENTRIES_MAX] for start in range(0, len(damage), ROUND_ENTRIES_MAX)]
    rounds += [[_copy_draft(found, number) for number in range(len(found.rows))] for found in recovered.tail]
    session = [Draft(Kind.SESSION, 0, 0, 0, journal.writer_epoch, entries.encode_ids([journal.writer_epoch]))]
    if opening.floor:
        session.append(Draft(Kind.DAMAGE, 0, 0, 0, 0, entries.encode_ids([0, opening.floor])))
    rounds.append(session)
    written = journal.begin_session(rounds)
    for number, index in recovered.indexes.items():
        core.catalog.keep_index(number, index)
    for drafts, durable in zip(rounds, written, strict=True):
        core.apply(durable, [draft.body for draft in drafts], cache=False)


def _copy_draft(found: FoundRound, number: int) -> Draft:
    row = found.rows[number]
    return Draft(Kind(row.kind), row.topic_id, row.first_offset, row.record_count, row.ledger_epoch, found.body(row))
