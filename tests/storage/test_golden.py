"""Stored bytes as they were written once. Run with REWRITE_GOLDEN=1 to write them anew, which is a change of format."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pydanube.records import Records, encode_batch, stamp
from pydanube.storage import MemoryFiles
from pydanube.storage import entries as forms
from pydanube.storage.checkpoint import CheckpointForm, decode_checkpoint, encode_checkpoint
from pydanube.storage.cursor import Cursor
from pydanube.storage.entries import CursorMove, ParkedHead, Released, WriterMove
from pydanube.storage.file_header import FileHeader, decode_file_header, encode_file_header
from pydanube.storage.index import FileIndex, IndexEntry, decode_sidecar
from pydanube.storage.rounds import Draft, Kind, encode_round, salt_seed
from pydanube.storage.scan import read_round
from pydanube.storage.state import JournalState, Place, state_form, state_from_form

GOLDEN = Path(__file__).parent.parent / "golden"
TOPIC_ID = 0x1122334455667788
SALT = 0x0123456789ABCDEF
TIME_US = 1_700_000_000_000_000


def some_batch() -> bytes:
    data = encode_batch(
        Records(payloads=[b"hello", b"world!"]), topic_id=TOPIC_ID, producer_id=77, producer_epoch=2, first_sequence=0
    )
    stamp(data, 1000, 4, TIME_US)
    return bytes(data)


def drafts() -> list[Draft]:
    """One entry of every kind."""
    parked = forms.encode_park_head(ParkedHead(501, 9, TIME_US + 1, TIME_US + 2)) + some_batch()
    released = forms.encode_released([Released(501, 1, 4500, 136, 2)], TIME_US + 3)
    writer = forms.encode_writer(WriterMove("sink", 6, ((TOPIC_ID, 1002, 1004),), TIME_US + 3))
    return [
        Draft(Kind.SESSION, 0, 0, 0, 4, forms.encode_ids([4])),
        Draft(Kind.BATCH, TOPIC_ID, 1000, 2, 4, some_batch()),
        Draft(Kind.CURSOR_RESET, TOPIC_ID, 0, 0, 0, forms.encode_cursor(CursorMove(31, 1, ((0, 1000),)))),
        Draft(Kind.CURSOR_ACK, TOPIC_ID, 0, 0, 0, forms.encode_cursor(CursorMove(31, 1, ((1001, 1002),)))),
        Draft(Kind.CURSOR_DROP, TOPIC_ID, 0, 0, 0, forms.encode_cursor(CursorMove(32, 0, ()))),
        Draft(Kind.PARK, TOPIC_ID, 0, 2, 0, parked),
        Draft(Kind.RELEASE, TOPIC_ID, 1002, 2, 4, released),
        Draft(Kind.WRITER, 0, 0, 0, 0, writer),
        Draft(Kind.DISCARD, 0, 0, 0, 0, forms.encode_ids([502])),
        Draft(Kind.LEDGER_CLOSE, TOPIC_ID, 0, 0, 0, b""),
        Draft(Kind.TRIM, TOPIC_ID, 1000, 0, 0, b""),
        Draft(Kind.DAMAGE, TOPIC_ID, 1004, 0, 0, forms.encode_ids([1004, 1010])),
        Draft(Kind.ORPHAN, 5, 0, 0, 0, forms.encode_time(TIME_US)),
        Draft(Kind.TOPIC_DELETE, 6, 0, 0, 0, b""),
    ]


def round_bytes() -> bytes:
    parts, _ = encode_round(
        drafts(), number=12, synced_through=11, writer_epoch=4, time_us=TIME_US, seed=salt_seed(SALT)
    )
    return b"".join(parts)


def header() -> FileHeader:
    return FileHeader(bytes(range(16)), 2, SALT, 12, 9000, 12, 4, TIME_US)


def state() -> JournalState:
    """What the entries above lead to, and something of everything."""
    file = MemoryFiles(1 << 20).create("f")
    file.write_at(0, [round_bytes()])
    found = read_round(file, 0, file.size(), salt_seed(SALT))
    assert found is not None
    state = JournalState()
    for row in found.rows:
        state.apply(row, found.body(row), Place(2, 4096, found.head.length))
    state.topics[TOPIC_ID].cursors[33] = Cursor(1001, 2, [(1003, 1004)])
    state.topics[TOPIC_ID].encoded = None
    parked = forms.encode_park_head(ParkedHead(503, 0, TIME_US + 9, 0)) + some_batch()
    (row,) = encode_round(
        [Draft(Kind.PARK, TOPIC_ID, 0, 2, 0, parked)],
        number=13,
        synced_through=12,
        writer_epoch=4,
        time_us=TIME_US,
        seed=0,
    )[1]
    state.apply(row, parked, Place(2, 5800, 400))
    state.floor = 3
    return state


def checkpoint() -> CheckpointForm:
    return CheckpointForm(bytes(range(16)), 13, 2, 6200, TIME_US + 5, state_form(state()), 7)


def index() -> FileIndex:
    index = FileIndex(64)
    index.add(TOPIC_ID, 1000, 4096, TIME_US)
    index.add(TOPIC_ID, 1002, 4200, TIME_US + 3)
    index.add(5, 0, 4200, TIME_US + 4)
    return index


CASES: dict[str, Callable[[], bytes]] = {
    "round-v1": round_bytes,
    "journal-header-v1": lambda: encode_file_header(header()),
    "checkpoint-v1": lambda: encode_checkpoint(checkpoint()),
    "index-v1": lambda: index().encode(2),
}


def golden(name: str) -> bytes:
    path = GOLDEN / f"{name}.bin"
    if os.environ.get("REWRITE_GOLDEN") == "1":
        path.write_bytes(CASES[name]())
    return path.read_bytes()


@pytest.mark.parametrize("name", CASES)
def test_same_bytes_are_written(name: str) -> None:
    assert CASES[name]() == golden(name)


def test_old_round_is_read() -> None:
    data = golden("round-v1")
    file = MemoryFiles(1 << 20).create("f")
    file.write_at(0, [data])
    found = read_round(file, 0, len(data), salt_seed(SALT))
    assert found is not None
    assert found.is_whole
    assert (found.head.number, found.head.synced_through, found.head.writer_epoch) == (12, 11, 4)
    assert found.head.time_us == TIME_US
    assert {row.kind for row in found.rows} == set(Kind)
    for draft, row in zip(drafts(), found.rows, strict=True):
        assert (row.kind, row.topic_id, row.first_offset, row.record_count, row.ledger_epoch) == draft[:5]
        assert bytes(found.body(row))[: len(draft.body)] == draft.body


def test_old_header_is_read() -> None:
    assert decode_file_header(golden("journal-header-v1")) == (header(), True)


def test_old_checkpoint_is_read() -> None:
    form = decode_checkpoint(golden("checkpoint-v1"))
    assert form is not None
    assert (form.journal_id, form.round_number, form.file_number, form.position) == (bytes(range(16)), 13, 2, 6200)
    read = state_from_form(form.state)
    topic = read.topics[TOPIC_ID]
    assert (topic.first, topic.end, topic.gaps.items()) == (1000, 1010, [(1004, 1010)])
    assert [(ledger.first, ledger.end, ledger.closed) for ledger in topic.ledgers] == [(1000, 1004, True)]
    assert topic.cursors[31].position == 1000
    assert topic.cursors[31].above.items() == [(1001, 1002)]
    assert topic.cursors[33].generation == 2
    assert (read.parked[503].file_number, read.parked[503].record_count, read.parked_bytes) == (2, 2, 136)
    assert read.writers["sink"].ranges == ((TOPIC_ID, 1002, 1004),)
    assert (read.deleted, read.orphans, read.floor) == ({6: 2}, {5: TIME_US}, 3)


def test_old_sidecar_is_read() -> None:
    sidecar = decode_sidecar(golden("index-v1"), 2)
    assert sidecar is not None
    assert sidecar.find(TOPIC_ID, 1003) == IndexEntry(1002, 4200, TIME_US + 3)
    assert sidecar.find(5, 0) == IndexEntry(0, 4200, TIME_US + 4)
    assert sidecar.find(6, 0) is None
