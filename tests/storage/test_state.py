"""The durable state: what each kind of entry does to it, and that a checkpoint holds all of it."""

import pytest
from tests.storage.rig import batch

from pydanube.records import restamped
from pydanube.storage import ParkedHead, entries
from pydanube.storage.entries import CursorMove, Released, WriterMove
from pydanube.storage.rounds import Draft, Kind, encode_round
from pydanube.storage.state import JournalState, Place, state_form, state_from_form

PLACE = Place(3, 5000, 1000)
BATCH = batch(7, b"one", b"two")[0]


def apply(
    state: JournalState,
    kind: Kind,
    topic_id: int,
    body: bytes = b"",
    *,
    first: int = 0,
    count: int = 0,
    place: Place = PLACE,
) -> None:
    """The entry takes the way through a round, as it does in life."""
    parts, (row,) = encode_round(
        [Draft(kind, topic_id, first, count, 1, body)], number=1, synced_through=0, writer_epoch=1, time_us=0, seed=0
    )
    state.apply(row, parts[1], place)


def publish(state: JournalState, topic_id: int, first: int, place: Place = PLACE) -> None:
    apply(state, Kind.BATCH, topic_id, restamped(BATCH, first, 1, 1000), first=first, count=2, place=place)


def cursor(state: JournalState, kind: Kind, generation: int, *ranges: tuple[int, int]) -> None:
    apply(state, kind, 7, entries.encode_cursor(CursorMove(9, generation, ranges)))


def park(state: JournalState, parked_id: int, topic_id: int = 7, place: Place = PLACE) -> None:
    body = entries.encode_park_head(ParkedHead(parked_id, 1, 2, 3)) + BATCH
    apply(state, Kind.PARK, topic_id, body, count=2, place=place)


def test_batch_extends_its_topic() -> None:
    state = JournalState()
    publish(state, 7, 0)
    publish(state, 7, 2)
    topic = state.topics[7]
    assert (topic.end, topic.last_us, topic.first_file) == (4, 1000, 3)


def test_session_ends_all_ledgers() -> None:
    state = JournalState()
    publish(state, 7, 0)
    publish(state, 8, 0)
    apply(state, Kind.SESSION, 0, entries.encode_ids([2]))
    assert all(topic.open_ledger is None for topic in state.topics.values())


def test_ledger_close_ends_one() -> None:
    state = JournalState()
    publish(state, 7, 0)
    publish(state, 8, 0)
    apply(state, Kind.LEDGER_CLOSE, 7)
    assert state.topics[7].open_ledger is None
    assert state.topics[8].open_ledger is not None


def test_cursor_is_founded_moved_and_dropped() -> None:
    state = JournalState()
    publish(state, 7, 0)
    cursor(state, Kind.CURSOR_RESET, 1, (0, 1), (3, 4))
    cursor(state, Kind.CURSOR_ACK, 1, (1, 2))
    found = state.topics[7].cursors[9]
    assert (found.position, found.generation, found.above.items()) == (2, 1, [(3, 4)])
    cursor(state, Kind.CURSOR_RESET, 2, (0, 0))
    cursor(state, Kind.CURSOR_ACK, 1, (0, 2))  # late
    assert (found.position, found.generation) == (0, 2)
    cursor(state, Kind.CURSOR_DROP, 0)
    assert state.topics[7].cursors == {}


def test_ack_of_a_cursor_that_was_never_founded_changes_nothing() -> None:
    state = JournalState()
    publish(state, 7, 0)
    cursor(state, Kind.CURSOR_ACK, 0, (0, 1))
    assert state.topics[7].cursors == {}


def test_parked_batch_is_remembered_with_its_place() -> None:
    state = JournalState()
    park(state, 50)
    parked = state.parked[50]
    assert (parked.topic_id, parked.owner, parked.expires_us, parked.due_us) == (7, 1, 2, 3)
    assert (parked.file_number, parked.record_count, parked.length) == (3, 2, len(BATCH))
    assert parked.position == 5000 + 48 + 40 + 32  # behind the round's head, its table and the entry's own head
    assert (state.parked_bytes, state.oldest_file_needed()) == (len(BATCH), 3)


def test_parking_again_replaces() -> None:
    state = JournalState()
    park(state, 50)
    park(state, 50, place=Place(4, 9000, 500))
    assert (state.parked[50].file_number, state.parked_bytes) == (4, len(BATCH))


def test_release_gives_offsets_and_pins_the_files_of_the_batches() -> None:
    state = JournalState()
    park(state, 50)
    park(state, 51, place=Place(4, 9000, 500))
    items = [
        Released(number, parked.file_number, parked.position, parked.length, parked.record_count)
        for number, parked in state.parked.items()
    ]
    body = entries.encode_released(items, 2000)
    apply(state, Kind.RELEASE, 7, body, first=0, count=4, place=Place(6, 4096, 300))
    (ledger,) = state.topics[7].ledgers
    assert (ledger.first, ledger.end, ledger.bytes, ledger.last_us) == (0, 4, 2 * len(BATCH), 2000)
    assert (ledger.first_file, ledger.last_file) == (3, 6)
    assert (state.parked, state.parked_bytes) == ({}, 0)


def test_discard_forgets() -> None:
    state = JournalState()
    park(state, 50)
    park(state, 51)
    apply(state, Kind.DISCARD, 0, entries.encode_ids([50, 99]))
    assert (list(state.parked), state.parked_bytes) == ([51], len(BATCH))


def test_writer_keeps_its_last_move() -> None:
    state = JournalState()
    for version in (1, 2):
        apply(state, Kind.WRITER, 0, entries.encode_writer(WriterMove("w", version, ((7, 0, version),), 5)))
    assert state.writers == {"w": WriterMove("w", 2, ((7, 0, 2),), 5)}


def test_deleted_topic_is_gone_with_all_that_hangs_on_it() -> None:
    state = JournalState()
    publish(state, 7, 0)
    park(state, 50)
    park(state, 51, topic_id=8)
    apply(state, Kind.ORPHAN, 7, entries.encode_time(5))
    apply(state, Kind.TOPIC_DELETE, 7)
    assert 7 not in state.topics
    assert (list(state.parked), state.orphans, state.deleted) == ([51], {}, {7: 3})


def test_entries_behind_the_delete_do_not_bring_a_topic_back() -> None:
    state = JournalState()
    apply(state, Kind.TOPIC_DELETE, 7)
    publish(state, 7, 0, Place(5, 4096, 100))
    park(state, 50, place=Place(6, 4096, 100))
    assert (state.topics, state.parked) == ({}, {})
    assert state.deleted == {7: 6}  # but their files mention it
    assert state.forget_deleted(6) == []
    assert state.forget_deleted(7) == [7]
    assert state.deleted == {}


def test_orphan_is_marked_once_and_adopted_again() -> None:
    state = JournalState()
    publish(state, 7, 0)
    apply(state, Kind.ORPHAN, 7, entries.encode_time(5))
    apply(state, Kind.ORPHAN, 7, entries.encode_time(6))
    assert state.orphans == {7: 5}
    apply(state, Kind.ORPHAN, 7, entries.encode_time(0))
    assert state.orphans == {}


def test_damage_of_a_topic_and_of_unknown_ones() -> None:
    state = JournalState()
    publish(state, 7, 0)
    apply(state, Kind.DAMAGE, 7, entries.encode_ids([2, 5]))
    apply(state, Kind.DAMAGE, 0, entries.encode_ids([0, 100]))
    assert (state.topics[7].end, state.topics[7].gaps.items()) == (5, [(2, 5)])
    assert state.topic(8).end == 100


def test_topic_that_begins_behind_a_loss_of_unknown_extent_is_read_as_it_is() -> None:
    state = JournalState()
    apply(state, Kind.DAMAGE, 0, entries.encode_ids([0, 100]))
    publish(state, 7, 0)
    assert (state.topics[7].first, state.topics[7].end, state.topics[7].gaps.items()) == (0, 2, [])
    publish(state, 8, 6)
    assert (state.topics[8].end, state.topics[8].gaps.items()) == (8, [(0, 6)])


def test_trim_moves_the_beginning() -> None:
    state = JournalState()
    publish(state, 7, 0)
    apply(state, Kind.TRIM, 7, first=2)
    assert (state.topics[7].first, state.oldest_file_needed()) == (2, None)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in (Kind.BATCH, Kind.PARK, Kind.RELEASE)])
def test_entries_about_the_unknown_give_no_offsets(kind: Kind) -> None:
    bodies: dict[Kind, bytes] = {
        Kind.SESSION: entries.encode_ids([1]),
        Kind.DISCARD: entries.encode_ids([1]),
        Kind.DAMAGE: entries.encode_ids([0, 0]),
        Kind.ORPHAN: entries.encode_time(0),
        Kind.WRITER: entries.encode_writer(WriterMove("w", 1, (), 0)),
    }
    state = JournalState()
    apply(state, kind, 7, bodies.get(kind, entries.encode_cursor(CursorMove(9, 0, ((0, 0),)))))
    assert all(topic.end == 0 for topic in state.topics.values())


def test_checkpoint_form_holds_everything() -> None:
    state = JournalState()
    publish(state, 7, 0)
    publish(state, 8, 0)
    cursor(state, Kind.CURSOR_RESET, 1, (0, 1))
    park(state, 50)
    apply(state, Kind.WRITER, 0, entries.encode_writer(WriterMove("w", 1, ((7, 0, 2),), 5)))
    apply(state, Kind.TOPIC_DELETE, 8)
    apply(state, Kind.ORPHAN, 7, entries.encode_time(5))
    apply(state, Kind.DAMAGE, 0, entries.encode_ids([0, 100]))
    copy = state_from_form(state_form(state))
    assert vars(copy).keys() == vars(state).keys()
    for name in vars(state).keys() - {"topics"}:
        assert getattr(copy, name) == getattr(state, name), name
        assert getattr(copy, name), name
    assert state_form(copy) == state_form(state)
