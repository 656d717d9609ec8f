"""Every byte of a small journal damaged, one at a time: never wrong data, never a crash, always a report."""

from collections.abc import Iterator

import pytest
from tests.cli.samples import SUBSCRIPTION, TOPICS, Messages, open_log, write_sample

from pydanube.model.errors import DataDamaged
from pydanube.records import open_batch
from pydanube.storage import Finding, Log, MemoryFiles
from pydanube.storage.check import check_folder
from pydanube.storage.dump import dump_folder
from pydanube.storage.file_header import FILE_HEADER_BYTES
from pydanube.storage.rounds import GIVES_OFFSETS, salt_seed
from pydanube.storage.scan import FoundRound, scan_rounds

Contents = dict[str, bytes]
Topics = frozenset[int]

FIRST, LAST = "000000000001.journal", "000000000002.journal"


class Sample:
    """A journal as its process left it when it was killed: two files, a checkpoint at the beginning of the second."""

    def __init__(self) -> None:
        files = MemoryFiles(1 << 20)
        self.stored: Messages = write_sample(files, rounds=4, close=False)
        self.contents: Contents = {name: files.open(name).read_at(0, 1 << 20) for name in files.list()}
        self.rounds = {name: list(self._rounds(files, name)) for name in (FIRST, LAST)}

    def _rounds(self, files: MemoryFiles, name: str) -> Iterator[FoundRound]:
        file = files.open(name)
        salt = int.from_bytes(file.read_at(40, 8), "little")
        for found in scan_rounds(file, FILE_HEADER_BYTES, file.size(), salt_seed(salt)):
            if isinstance(found, FoundRound):
                yield found

    def topics_at(self, name: str, position: int) -> Topics:
        """Whose messages a damaged byte may cost: those of one entry, or all of a round whose head it hits."""
        for found in self.rounds.get(name, ()):
            if found.position <= position < found.end:
                rows = [row for row in found.rows if row.kind in GIVES_OFFSETS]
                for row in found.rows:
                    if 0 <= position - found.position - row.position < row.length:
                        rows = [row]
                return frozenset(row.topic_id for row in rows)
        return frozenset()


@pytest.fixture(scope="module")
def sample() -> Sample:
    made = Sample()
    assert {name.partition(".")[2] for name in made.contents} == {"journal", "checkpoint", "index", ""}
    assert sum(name.endswith(".journal") for name in made.contents) == 2
    return made


def in_memory(contents: Contents) -> MemoryFiles:
    files = MemoryFiles(1 << 20)
    for name, data in contents.items():
        files.create(name).write_at(0, [data])
    return files


def behind(loss: DataDamaged, offset: int) -> int:
    assert loss.end_offset is not None, f"a reader cannot go on behind this: {loss}"
    assert loss.end_offset > offset
    return loss.end_offset


def read_all(log: Log, topic_id: int) -> tuple[dict[int, bytes], list[DataDamaged]]:
    """What a reader gets who goes on behind each loss that names its end."""
    values: dict[int, bytes] = {}
    losses: list[DataDamaged] = []
    offset, end = log.first_offset(topic_id), log.ends(topic_id).durable
    while offset < end:
        try:
            batches = log.read(topic_id, offset, 1 << 20)
        except DataDamaged as loss:
            losses.append(loss)
            offset = behind(loss, offset)
            continue
        for batch in batches:
            payloads = open_batch(batch.data).payloads()
            assert batch.end_offset - batch.first_offset == len(payloads)
            values.update((number, value or b"") for number, value in enumerate(payloads, batch.first_offset))
        offset = batches[-1].end_offset
    return values, losses


def check_damaged(sample: Sample, contents: Contents, spared: Topics, *, may_cut: bool = False) -> None:
    """`spared`: the topics that the damage did not touch. `may_cut`: it looks like a torn tail, whose end is not
    missed by anyone."""
    findings = check_folder(in_memory(contents)).findings
    assert findings, "the check reports nothing"
    log = open_log(in_memory(contents), seed=2)
    for topic_id in TOPICS:
        expected = dict(enumerate(sample.stored[topic_id]))
        values, losses = read_all(log, topic_id)
        wrong = {offset: value for offset, value in values.items() if expected.get(offset) != value}
        assert not wrong, f"wrong messages of topic {topic_id:x}: {wrong}"
        if topic_id in spared:
            assert values == expected, f"topic {topic_id:x} was not touched, but lost messages: {losses}"
        if values != expected:
            damage = [each for each in log.reports if may_cut or each.finding is not Finding.TORN_TAIL]
            assert losses or damage, f"topic {topic_id:x} lost messages in silence"
        cursor = log.cursors.get(topic_id, SUBSCRIPTION)
        assert cursor is None or cursor.position <= len(expected)


def checked(sample: Sample, contents: Contents, spared: Topics, what: str, *, may_cut: bool = False) -> str | None:
    try:
        check_damaged(sample, contents, spared, may_cut=may_cut)
    except Exception as error:  # whatever it is: the loop has to say where
        return f"{what}: {type(error).__name__}: {error}"
    return None


def fail_with(failures: list[str | None]) -> None:
    found = [failure for failure in failures if failure]
    if found:
        pytest.fail(
            f"{len(found)} of {len(failures)} damages, the first ones:\n" + "\n".join(found[:10]), pytrace=False
        )


PARTS = {
    "first file's header": (FIRST, 0, FILE_HEADER_BYTES),
    "first file's rounds": (FIRST, FILE_HEADER_BYTES, 1 << 20),
    "last file's header": (LAST, 0, FILE_HEADER_BYTES),
    "last file's rounds": (LAST, FILE_HEADER_BYTES, 1 << 20),
}


def flipped(data: bytes, position: int) -> bytes:
    copy = bytearray(data)
    copy[position] ^= 1 << position % 8
    return bytes(copy)


@pytest.mark.parametrize("part", PARTS)
def test_every_byte_of_a_journal_file_flipped(sample: Sample, part: str) -> None:
    name, first, end = PARTS[part]
    data = sample.contents[name]
    last_round = sample.rounds[LAST][-1].position if name == LAST else len(data)
    fail_with(
        [
            checked(
                sample,
                {**sample.contents, name: flipped(data, position)},
                frozenset(TOPICS) - sample.topics_at(name, position),
                f"byte {position} of {name} flipped",
                may_cut=position >= last_round,
            )
            for position in range(first, min(end, len(data)))
        ]
    )


def test_every_byte_of_the_other_files_flipped(sample: Sample) -> None:
    """Checkpoints and indexes repeat what the journal says: nothing is lost with them."""
    fail_with(
        [
            checked(
                sample,
                {**sample.contents, name: flipped(data, position)},
                frozenset(TOPICS),
                f"byte {position} of {name} flipped",
            )
            for name, data in sample.contents.items()
            if name.endswith((".checkpoint", ".index"))
            for position in range(len(data))
        ]
    )


def test_every_byte_flipped_without_a_checkpoint(sample: Sample) -> None:
    """Recovery then reads the first file too."""
    contents = {name: data for name, data in sample.contents.items() if not name.endswith((".checkpoint", ".index"))}
    data = contents[FIRST]
    fail_with(
        [
            checked(
                sample,
                {**contents, FIRST: flipped(data, position)},
                frozenset(TOPICS) - sample.topics_at(FIRST, position),
                f"byte {position} of {FIRST} flipped, no checkpoint",
            )
            for position in range(FILE_HEADER_BYTES, len(data))
        ]
    )


def test_a_dump_shows_every_flipped_byte(sample: Sample) -> None:
    newest = sample.rounds[LAST][-1]
    whole = list(dump_folder(in_memory(sample.contents), with_payloads=True))
    assert all(entry.crc_ok for entry in whole)
    for name in (FIRST, LAST):
        data = sample.contents[name]
        for position in range(FILE_HEADER_BYTES, len(data)):
            files = in_memory({**sample.contents, name: flipped(data, position)})
            dumped = list(dump_folder(files, with_payloads=True))
            in_table = any(
                (found.position <= position < found.position + found.head.entries_at and found is not newest)
                or found.position + found.head.tail_at <= position < found.end
                for found in sample.rounds[name]
            )
            # A round has its table twice: as long as one of them is whole, the entries are as they were. (Only of
            # the newest round nothing says where it ends, so that its tail cannot be found without its head.)
            assert dumped == whole if in_table else not all(entry.crc_ok for entry in dumped), (
                f"byte {position} of {name}"
            )


def test_the_last_round_torn_at_every_byte(sample: Sample) -> None:
    data, last = sample.contents[LAST], sample.rounds[LAST][-1]
    spared = frozenset(TOPICS) - frozenset(row.topic_id for row in last.rows if row.kind in GIVES_OFFSETS)
    rest = len(data) - last.end
    failures = []
    for cut in range(last.position + 1, last.end):
        variants = {
            "truncated": data[:cut],
            "zeros": data[:cut] + bytes(len(data) - cut),
            "garbage": data[:cut] + b"\xa5" * (last.end - cut) + bytes(rest),
            "beginning lost": data[: last.position] + bytes(cut - last.position) + data[cut:],
        }
        for variant, torn in variants.items():
            if torn == data or not any(torn[last.position :]):
                continue  # what was lost were zeros, or nothing is left of it
            contents = {**sample.contents, LAST: torn}
            what = f"last round cut at byte {cut} of {LAST}, {variant}"
            failures.append(checked(sample, contents, spared, what, may_cut=True))
    fail_with(failures)
