"""The heart of a log: durable state, what is accepted on top of it, and the way of a round through both.

    submit → queue → take → (the writer makes it durable) → commit, or fail

All but `take` run on the owner's thread. Only durable entries change the state, so readers, deduplication and
deletion see nothing that a crash could take back.
"""

import threading

from pydanube.model import Clock, DanubeError
from pydanube.model.errors import DiskFull, Overloaded, StorageClosed, UnknownTopic
from pydanube.model.limits import ROUND_ENTRIES_MAX

from .acceptance import Acceptance, Entry
from .cache import StoredBatch, TailCache
from .catalog import Catalog
from .journal import Written
from .ledger import TopicState
from .round_queue import RoundQueue
from .rounds import GIVES_OFFSETS, Kind
from .settings import StorageSettings
from .space import Space
from .state import JournalState, Place, append_time


class Core:
    def __init__(
        self, state: JournalState, settings: StorageSettings, clock: Clock, catalog: Catalog, space: Space, epoch: int
    ) -> None:
        self.state = state
        self.settings = settings
        self.clock = clock
        self.catalog = catalog
        self.space = space
        self.epoch = epoch
        self.cache = TailCache(settings.cache_bytes)
        self.acceptances: dict[int, Acceptance] = {}
        self.deleting: set[int] = set()  # their delete is under way: nothing may be accepted behind it
        self.closed = False
        self.last_round = 0
        self.last_place = Place(0, 0, 0)
        self._queue: RoundQueue[Entry] = RoundQueue(settings.round_bytes)
        self._lock = threading.Lock()  # the queue is filled by the owner and emptied by the writer
        self._taken_bytes = 0

    # -- accepting ------------------------------------------------------------------------------------------------

    def topic(self, topic_id: int) -> TopicState:
        if topic_id in self.state.deleted or topic_id in self.deleting:
            raise UnknownTopic(f"topic {topic_id:016x} is deleted")
        return self.state.topic(topic_id)

    def acceptance(self, topic: TopicState) -> Acceptance:
        found = self.acceptances.get(topic.topic_id)
        return found if found is not None else Acceptance(topic, self.epoch)

    def check_open(self) -> None:
        if self.closed:
            raise StorageClosed("the log is closed")

    def check_room(self, length: int) -> None:
        """Raises where a batch of this length cannot be taken now."""
        self.check_open()
        if self.space.full and not self.space.may_have_room():
            raise DiskFull("the disk is full: batches are refused, reads and acknowledgements still work")
        waiting = self._queue.bytes + self._taken_bytes
        if waiting and waiting + length > self.settings.pending_bytes:
            raise Overloaded(f"{waiting} bytes are waiting for the disk; {self.settings.pending_bytes} may wait")
        if self._queue.count >= ROUND_ENTRIES_MAX // 2:
            raise Overloaded(f"{self._queue.count} entries are waiting for the disk")

    def check_line(self) -> None:
        """Raises where not even a small entry can be taken now. Cursors and the like have as much room again as batches
        have, so that batches never keep them out, and a peer that only acknowledges cannot fill the memory."""
        self.check_open()
        waiting = self._queue.bytes + self._taken_bytes
        if waiting > 2 * self.settings.pending_bytes or self._queue.count >= 2 * ROUND_ENTRIES_MAX:
            raise Overloaded(f"{self._queue.count} entries with {waiting} bytes are waiting for the disk")

    def submit(self, entry: Entry, acceptance: Acceptance | None = None) -> None:
        if acceptance is not None:
            self.acceptances[entry.topic_id] = acceptance
        with self._lock:
            self._queue.add(entry)

    def submit_group(self, entries: list[Entry]) -> None:
        with self._lock:
            self._queue.add_group(entries)

    @property
    def has_waiting(self) -> bool:
        return self._queue.count > 0

    # -- the way of a round ---------------------------------------------------------------------------------------

    def take(self) -> list[Entry]:
        """What goes into the next round. The only method that another thread may call."""
        with self._lock:
            entries = self._queue.take()
            self._taken_bytes += sum(entry.length for entry in entries)
        return entries

    def commit(self, entries: list[Entry], written: Written) -> None:
        """The round is durable."""
        length = sum(entry.length for entry in entries)
        with self._lock:  # the writer may be taking the next round
            self._taken_bytes -= length
        self.apply(written, [entry.body for entry in entries], cache=True)
        for entry in entries:
            acceptance = self.acceptances.get(entry.topic_id)
            if acceptance is not None and entry.depends_on_order and acceptance.settle(entry):
                del self.acceptances[entry.topic_id]
        for entry in entries:
            entry.finish(None)

    def apply(self, written: Written, bodies: list[bytes | bytearray | memoryview], *, cache: bool) -> None:
        place = written.place
        self.last_round, self.last_place = written.number, place
        self.catalog.advance(place.file_number, written.file, place.end)
        index = self.catalog.current_index
        for row, body in zip(written.rows, bodies, strict=True):
            self.state.apply(row, body, place)
            if row.kind in GIVES_OFFSETS:
                index.add(row.topic_id, row.first_offset, place.position, append_time(row, body))
            if row.kind == Kind.BATCH:
                if cache and row.topic_id in self.state.topics:
                    end = row.first_offset + row.record_count
                    self.cache.add(row.topic_id, StoredBatch(row.first_offset, end, body))
            elif row.kind in (Kind.RELEASE, Kind.TOPIC_DELETE):
                self.cache.drop(row.topic_id)

    def fail(self, entries: list[Entry], error: DanubeError) -> None:
        """The round is not durable, and nothing that was accepted after it can be. All of it is as if it had never
        been. When batches find the disk full, cursors and the like stay in line: the reserve is for them."""
        with self._lock:
            fallen = entries + self._queue.clear()
            self._taken_bytes = 0
            # Without the batches their round may fit. A round that had none and did not fit is not tried again.
            if isinstance(error, DiskFull) and any(entry.depends_on_order for entry in entries):
                for entry in fallen:
                    if not entry.depends_on_order:
                        self._queue.add(entry)
                fallen = [entry for entry in fallen if entry.depends_on_order]
        self.acceptances.clear()
        for entry in fallen:
            entry.finish(error)
