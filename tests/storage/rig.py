"""A log on a simulated disk, small enough to look into, and the few steps that most tests are made of."""

from collections.abc import Iterator
from random import Random

from pydanube.model import DanubeError
from pydanube.model.errors import DataDamaged
from pydanube.records import Batch, BatchHeader, Codec, Records, check_batch, encode_batch
from pydanube.storage import Finding, InlineWriter, Log, Opening, ParkedHead, Report, StorageSettings
from pydanube.storage.file_header import FILE_HEADER_BYTES, decode_file_header, file_name
from pydanube.storage.rounds import Draft, encode_round, salt_seed
from pydanube.storage.state import Place
from pydanube.testing.clock import ManualClock
from pydanube.testing.faults import SimulatedDisk, SimulatedFiles

SETTINGS = StorageSettings(
    file_bytes=64 << 10,
    round_bytes=8 << 10,
    reserve_bytes=64 << 10,
    pending_bytes=64 << 10,
    ledger_bytes=32 << 10,
    cache_bytes=16 << 10,
    staging_bytes=16 << 10,
    index_stride_bytes=1 << 10,
)
FOR_EVER_US = 1 << 60


def batch(topic_id: int, *values: bytes, **head: int) -> tuple[bytes, BatchHeader]:
    data = bytes(encode_batch(Records(payloads=values), topic_id=topic_id, codec=Codec.NONE, **head))
    return data, check_batch(data, topic_id=topic_id)


class Outcome:
    """Hears what has become of something, once."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, DanubeError | None]] = []

    def __call__(self, offset: int, error: DanubeError | None) -> None:
        self.heard.append((offset, error))

    @property
    def offset(self) -> int:
        ((offset, error),) = self.heard
        assert error is None
        return offset

    @property
    def error(self) -> DanubeError:
        ((_, error),) = self.heard
        assert error is not None
        return error


class QuietWriter(InlineWriter):
    """Writes no checkpoints of its own accord, so that a test decides what recovery has to read."""

    def checkpoint(self, *, closing: bool = False) -> bool:
        return closing and super().checkpoint(closing=True)


class Rig:
    def __init__(self, seed: int = 0, settings: StorageSettings = SETTINGS, opening: Opening | None = None) -> None:
        self.clock = ManualClock()
        self.disk = SimulatedDisk(Random(seed))
        self.settings = settings
        self._rng = Random(seed + 1)
        self.open(opening)

    def open(self, opening: Opening | None = None) -> None:
        files = SimulatedFiles(self.disk)
        self.log = Log.open(files, self.settings, self.clock, self._rng, opening or Opening())
        self.writer = QuietWriter(self.log)

    def restart(self, *, power: bool = True) -> None:
        self.disk.crash(power=power)
        self.open()

    def checkpoint(self) -> None:
        assert InlineWriter(self.log).checkpoint()

    # -- work -----------------------------------------------------------------------------------------------------

    def send(self, topic_id: int, *values: bytes, **head: int) -> Outcome:
        """Accepted, not yet durable."""
        outcome = Outcome()
        self.log.append(topic_id, *batch(topic_id, *values, **head), outcome)
        return outcome

    def publish(self, topic_id: int, *values: bytes, **head: int) -> int:
        """A round of its own; returns the first offset."""
        outcome = self.send(topic_id, *values, **head)
        self.writer.run()
        return outcome.offset

    def ack(self, topic_id: int, subscription_id: int, first: int, end: int) -> None:
        outcome = Outcome()
        self.log.cursors.ack(topic_id, subscription_id, 0, [(first, end)], outcome, start=0)
        self.writer.run()
        assert outcome.offset == 0

    def park(self, parked_id: int, topic_id: int, *values: bytes, expires_us: int = FOR_EVER_US) -> None:
        outcome = Outcome()
        self.log.parking.park(topic_id, *batch(topic_id, *values), ParkedHead(parked_id, 0, expires_us, 0), outcome)
        self.writer.run()
        assert outcome.offset == 0

    def rotate(self) -> None:
        """The next round goes into a new file."""
        self.clock.advance(self.settings.file_age_us / 1e6 + 1)

    # -- looking --------------------------------------------------------------------------------------------------

    @property
    def place(self) -> Place:
        """Of the last durable round."""
        return self.log.core.last_place

    def values(self, topic_id: int) -> dict[int, bytes]:
        """All that can be read, by offset."""
        return dict(read_values(self.log, topic_id))

    def reports(self, finding: Finding) -> list[Report]:
        return [report for report in self.log.reports if report.finding is finding]

    # -- the disk -------------------------------------------------------------------------------------------------

    def damage(self, place: Place, at: int) -> None:
        """Flips a bit of a round; negative positions count from its end."""
        self.disk.flip_bit(file_name(place.file_number), place.position + at % place.length)

    def damage_both_headers(self, file_number: int) -> None:
        self.disk.flip_bit(file_name(file_number), 20)
        self.disk.flip_bit(file_name(file_number), FILE_HEADER_BYTES // 2 + 20)

    def write_unsynced(self, drafts: list[Draft], *, length: int | None = None, number: int | None = None) -> None:
        """What a writer leaves that dies between write and sync: the next round, whole or cut, in the page cache."""
        name = file_name(self.place.file_number)
        header, _ = decode_file_header(self.disk.read(name))
        assert header is not None
        last = self.log.core.last_round
        parts, _ = encode_round(
            drafts,
            number=last + 1 if number is None else number,
            synced_through=last,
            writer_epoch=header.writer_epoch,
            time_us=self.clock.now_us(),
            seed=salt_seed(header.salt),
        )
        SimulatedFiles(self.disk).open(name).write_at(self.place.end, [b"".join(parts)[:length]])

    def snapshot(self) -> dict[str, bytes]:
        return {name: self.disk.read(name) for name in self.disk.names()}


def read_values(log: Log, topic_id: int) -> Iterator[tuple[int, bytes]]:
    offset, end = log.first_offset(topic_id), log.ends(topic_id).durable
    while offset < end:
        try:
            batches = log.read(topic_id, offset, 1000)
        except DataDamaged as error:
            if error.end_offset is None or error.end_offset <= offset:
                raise
            offset = error.end_offset
            continue
        assert batches
        for stored in batches:
            payloads = Batch(stored.data).payloads()
            assert len(payloads) == stored.end_offset - stored.first_offset
            for at, payload in enumerate(payloads, stored.first_offset):
                assert payload is not None
                if at >= offset:
                    yield at, payload
        offset = batches[-1].end_offset
