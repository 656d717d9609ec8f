"""The round: what is written is read again, and nothing else passes for a round."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.rig import batch

from pydanube.model.limits import ROUND_ENTRIES_MAX
from pydanube.records import restamped
from pydanube.storage import MemoryFiles
from pydanube.storage.entries import ParkedHead, encode_ids, encode_park_head
from pydanube.storage.rounds import (
    HEAD_BYTES,
    ROUND_BYTES_BELIEVED,
    ROW_BYTES,
    Draft,
    Kind,
    Row,
    check_head,
    encode_round,
    read_head,
    read_rows,
    read_tail_before,
    rows_fit,
    salt_seed,
)
from pydanube.storage.scan import FoundDamage, FoundEnd, FoundRound, read_round, scan_rounds

SEED = salt_seed(0x0123456789ABCDEF)
U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
BATCH = restamped(batch(7, b"one", b"two")[0], 40, 3, 1_700_000_000_000_000)
PARKED = encode_park_head(ParkedHead(99, 1, 2, 3)) + BATCH
SMALL = [
    Draft(Kind.BATCH, 7, 40, 2, 3, BATCH),
    Draft(Kind.CURSOR_DROP, 7, 0, 0, 0, b"sixteen bytes ok"),
    Draft(Kind.PARK, 7, 0, 2, 0, PARKED),
    Draft(Kind.DISCARD, 0, 0, 0, 0, b"padded"),
]


class Whole(NamedTuple):
    data: bytes
    rows: list[Row]


def encoded(drafts: list[Draft], *, number: int = 5, seed: int = SEED) -> Whole:
    parts, rows = encode_round(drafts, number=number, synced_through=4, writer_epoch=2, time_us=-1, seed=seed)
    return Whole(b"".join(parts), rows)


def found_in(data: bytes, seed: int = SEED) -> FoundRound | None:
    file = MemoryFiles(1 << 30).create("f")
    file.write_at(0, [data])
    return read_round(file, 0, len(data), seed)


def scan(data: bytes) -> list[FoundRound | FoundDamage | FoundEnd]:
    file = MemoryFiles(1 << 30).create("f")
    file.write_at(0, [data])
    return list(scan_rounds(file, 0, len(data), SEED))


def flips(data: bytes, first: int, end: int) -> Iterator[bytes]:
    for bit in range(8 * first, 8 * end):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


OTHER_KINDS = st.sampled_from([kind for kind in Kind if kind not in (Kind.BATCH, Kind.PARK)])
BATCHES = st.builds(Draft, st.just(Kind.BATCH), U64, U64, U32, U32, st.just(BATCH))
DRAFTS = st.lists(st.one_of(BATCHES, st.builds(Draft, OTHER_KINDS, U64, U64, U32, U32, st.binary(max_size=40))))


@given(DRAFTS, U64, U64, U32, st.integers(-(1 << 63), (1 << 63) - 1), U64)
def test_what_is_written_is_read(
    drafts: list[Draft], number: int, synced: int, epoch: int, time_us: int, salt: int
) -> None:
    parts, rows = encode_round(
        drafts, number=number, synced_through=synced, writer_epoch=epoch, time_us=time_us, seed=salt_seed(salt)
    )
    found = found_in(b"".join(parts), salt_seed(salt))
    assert found is not None
    assert found.is_whole
    assert found.rows == rows
    head = found.head
    assert (head.number, head.synced_through, head.writer_epoch, head.time_us) == (number, synced, epoch, time_us)
    for draft, row in zip(drafts, found.rows, strict=True):
        assert row.position % 8 == 0
        body = bytes(found.body(row))
        assert body[: len(draft.body)] == draft.body
        assert not any(body[len(draft.body) :])
        assert (row.kind, row.topic_id, row.first_offset) == draft[:3]
        assert (row.record_count, row.ledger_epoch) == draft[3:5]


def test_layout_by_hand() -> None:
    body = bytes(range(13))
    row = struct.pack("<BBHIQQIIII", 6, 0, 0, crc32c(body + bytes(3)), 77, 1000, 3, 88, 16, 9)
    fields = struct.pack("<QQIIIIq", 12, 11, 4, 1, 192, 0, 1_700_000_000_000_000)
    seed = crc32c(struct.pack("<Q", 0xFEDCBA9876543210))
    tail_seed = seed ^ int.from_bytes(b"DNBT", "little")
    expected = b"".join(
        [
            b"DNBR" + struct.pack("<I", crc32c(fields + row, seed)) + fields,
            row,
            body + bytes(3),
            row,
            b"DNBT" + struct.pack("<I", crc32c(row, crc32c(fields, tail_seed))) + fields,
        ]
    )
    parts, _ = encode_round(
        [Draft(Kind.CURSOR_ACK, 77, 1000, 3, 9, body)],
        number=12,
        synced_through=11,
        writer_epoch=4,
        time_us=1_700_000_000_000_000,
        seed=salt_seed(0xFEDCBA9876543210),
    )
    assert b"".join(parts) == expected


def test_kinds_keep_their_numbers() -> None:
    assert {kind.name: kind.value for kind in Kind} == {
        "BATCH": 1,
        "LEDGER_CLOSE": 2,
        "SESSION": 3,
        "TRIM": 4,
        "TOPIC_DELETE": 5,
        "CURSOR_ACK": 6,
        "CURSOR_RESET": 7,
        "CURSOR_DROP": 8,
        "PARK": 9,
        "RELEASE": 10,
        "DISCARD": 11,
        "WRITER": 12,
        "DAMAGE": 13,
        "ORPHAN": 14,
    }


def test_every_flipped_bit_of_head_and_table_is_noticed() -> None:
    data, _ = encoded(SMALL)
    head = read_head(data)
    assert head is not None
    for flipped in flips(data, 0, head.entries_at):
        assert found_in(flipped) is None
    for flipped in flips(data, 4, head.entries_at):  # the magic is for `read_head` to see
        assert not check_head(flipped, head, SEED)
    for flipped in flips(data, 0, 4):
        assert read_head(flipped) is None


def test_every_flipped_bit_of_an_entry_is_noticed_in_that_entry_alone() -> None:
    data, rows = encoded(SMALL)
    for number, row in enumerate(rows):
        for flipped in flips(data, row.position, row.position + row.length):
            found = found_in(flipped)
            assert found is not None
            assert found.damaged == {number}
            assert found.tail_whole


def test_every_flipped_bit_of_the_tail_is_noticed_and_harms_no_entry() -> None:
    data, rows = encoded(SMALL)
    head = read_head(data)
    assert head is not None
    for flipped in flips(data, head.tail_at, len(data)):
        assert read_tail_before(flipped, len(flipped), SEED) is None
        found = found_in(flipped)
        assert found is not None
        assert not found.tail_whole
        assert not found.damaged
        assert found.rows == rows


@pytest.mark.parametrize("length", [0, 8, HEAD_BYTES, 2 * HEAD_BYTES, 4096])
def test_zeros_are_never_a_round(length: int) -> None:
    zeros = bytes(length)
    assert read_head(zeros) is None
    assert read_tail_before(zeros, length, SEED) is None
    assert found_in(zeros) is None
    assert scan(zeros) == [FoundEnd(0, 0)]


@given(st.binary(max_size=300))
def test_random_bytes_are_never_a_round(data: bytes) -> None:
    assert found_in(b"DNBR" + data) is None


def test_every_cut_round_is_not_whole() -> None:
    data, _ = encoded(SMALL)
    for cut in range(len(data)):
        assert found_in(data[:cut]) is None  # the end of the file is nearer than the head says
        torn = found_in(data[:cut] + bytes(len(data) - cut))
        assert torn is None or not torn.is_whole or data[cut:].count(0) == len(data) - cut


def test_round_of_another_file_is_not_a_round_here() -> None:
    data, _ = encoded(SMALL, seed=salt_seed(1))
    assert found_in(data, salt_seed(1)) is not None
    assert found_in(data, salt_seed(2)) is None
    assert read_tail_before(data, len(data), salt_seed(2)) is None


def test_round_inside_a_payload_is_not_found_behind_damage() -> None:
    smuggled, _ = encoded([], number=6, seed=salt_seed(1))
    first, _ = encoded([Draft(Kind.DISCARD, 0, 0, 0, 0, smuggled)])
    second, _ = encoded(SMALL, number=7)
    broken = bytearray(first)
    broken[0] ^= 1  # head and tail are damaged: the scan looks for the next one
    broken[-1] ^= 1
    items = scan(bytes(broken) + second)
    assert [type(item) for item in items] == [FoundDamage, FoundRound, FoundEnd]
    damage, found = items[0], items[1]
    assert isinstance(damage, FoundDamage)
    assert isinstance(found, FoundRound)
    assert (damage.end, damage.next_number) == (len(first), 7)
    assert found.head.number == 7


def test_damaged_heads_are_made_up_for_by_their_tails() -> None:
    rounds = [encoded(SMALL, number=number) for number in (5, 6, 7)]
    data = bytearray(b"".join(whole.data for whole in rounds))
    data[9] ^= 1  # the heads of the first two
    data[len(rounds[0].data) + 9] ^= 1
    items = scan(bytes(data))
    salvaged = [item for item in items if isinstance(item, FoundRound)]
    assert [found.head.number for found in salvaged] == [5, 6, 7]
    assert [found.rows for found in salvaged] == [whole.rows for whole in rounds]
    assert [found.head_whole for found in salvaged] == [False, False, True]
    assert [found.is_whole for found in salvaged] == [False, False, True]
    assert not any(found.damaged for found in salvaged)


def test_damage_in_head_and_tail_is_lost() -> None:
    first, second = encoded(SMALL, number=5), encoded([], number=6)
    data = bytearray(first.data + second.data)
    data[9] ^= 1
    data[len(first.data) - 1] ^= 1
    damage = scan(bytes(data))[0]
    assert damage == FoundDamage(0, len(first.data), 6)


def test_scan_finds_a_round_across_its_windows() -> None:
    rest, _ = encoded([], number=9)
    for distance in range((1 << 20) - 64, (1 << 20) + 64, 8):
        items = scan(b"\1" * distance + rest)
        assert isinstance(items[0], FoundDamage)
        assert items[0].end == distance
        assert isinstance(items[1], FoundRound)


def test_scan_tells_where_the_bytes_behind_the_end_stop() -> None:
    whole, _ = encoded(SMALL)
    assert scan(whole + bytes(400) + b"\1" + bytes(99))[1:] == [FoundEnd(len(whole), len(whole) + 401)]


def test_rows_have_to_lie_one_behind_the_other() -> None:
    data, rows = encoded(SMALL)
    head = read_head(data)
    assert head is not None
    assert rows_fit(rows, head)
    assert not rows_fit(rows[:-1], head)
    assert not rows_fit([rows[1], rows[0], *rows[2:]], head)
    assert not rows_fit([rows[0]._replace(length=rows[0].length + 8), *rows[1:]], head)


def test_tables_are_alike_in_front_and_behind() -> None:
    data, rows = encoded(SMALL)
    tail = read_tail_before(data, len(data), SEED)
    assert tail is not None
    assert tail[0] == read_head(data)
    assert list(read_rows(tail[1], len(rows))) == rows
    assert tail[1] == data[HEAD_BYTES : HEAD_BYTES + ROW_BYTES * len(rows)]


def test_too_many_entries_are_refused() -> None:
    draft = Draft(Kind.TRIM, 1, 0, 0, 0, b"")
    with pytest.raises(ValueError, match="entries"):
        encoded([draft] * (ROUND_ENTRIES_MAX + 1))


def test_round_that_no_reader_would_believe_is_not_written() -> None:
    body = memoryview(bytes(ROUND_BYTES_BELIEVED // 4))
    with pytest.raises(ValueError, match="bytes"):
        encoded([Draft(Kind.RELEASE, 1, 0, 0, 0, body)] * 4)


def test_ids_survive_padding() -> None:
    data, (row,) = encoded([Draft(Kind.DISCARD, 0, 0, 0, 0, encode_ids([1, 2, 3]))])
    assert row.length == 32
    assert found_in(data) is not None
