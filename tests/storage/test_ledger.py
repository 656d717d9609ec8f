"""A topic's chain of ledgers: when a ledger ends, what damage leaves, what retention takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.errors import DataDamaged
from pydanube.model.limits import PRODUCERS_PER_TOPIC_MAX
from pydanube.storage import Cursor
from pydanube.storage.ledger import BatchFacts, TopicState, decode_topic, encode_topic

TOPIC_ID = 7


def facts(first: int, count: int = 1, *, epoch: int = 1, time_us: int = 1000, producer: int = 0) -> BatchFacts:
    return BatchFacts(first, count, 100, epoch, time_us, producer, 0, 0, 0)


def topic_with(*batches: BatchFacts, file_number: int = 1) -> TopicState:
    topic = TopicState(TOPIC_ID)
    for batch in batches:
        topic.add_batch(batch, file_number)
    return topic


def chain(topic: TopicState) -> list[tuple[int, int, bool]]:
    return [(ledger.first, ledger.end, ledger.closed) for ledger in topic.ledgers]


def test_batches_of_one_writer_make_one_ledger() -> None:
    topic = topic_with(facts(0, 3, time_us=10), facts(3, 2, time_us=20))
    topic.add_batch(facts(5, 1, time_us=30), 2)
    (ledger,) = topic.ledgers
    assert (ledger.first, ledger.end, ledger.epoch, ledger.bytes) == (0, 6, 1, 300)
    assert (ledger.opened_us, ledger.last_us, ledger.first_file, ledger.last_file) == (10, 30, 1, 2)
    assert (topic.first, topic.end, topic.last_us) == (0, 6, 30)


def test_closed_ledger_stays_closed() -> None:
    topic = topic_with(facts(0))
    topic.close_ledger()
    topic.close_ledger()
    topic.add_batch(facts(1), 1)
    assert chain(topic) == [(0, 1, True), (1, 2, False)]


def test_new_epoch_ends_the_ledger() -> None:
    assert chain(topic_with(facts(0, epoch=1), facts(1, epoch=2))) == [(0, 1, True), (1, 2, False)]


def test_jump_in_the_offsets_is_a_gap_between_ledgers() -> None:
    topic = topic_with(facts(0, 2), facts(5, 1))
    assert chain(topic) == [(0, 2, True), (5, 6, False)]
    assert topic.gaps.items() == [(2, 5)]


def test_lost_offsets_are_not_given_again() -> None:
    topic = topic_with(facts(0, 2))
    topic.mark_lost(2, 10)
    assert (topic.end, topic.gaps.items(), chain(topic)) == (10, [(2, 10)], [(0, 2, True)])


def test_loss_in_the_middle_leaves_the_end_where_it_is() -> None:
    topic = topic_with(facts(0, 2))
    topic.mark_lost(0, 1)
    assert (topic.end, topic.gaps.items()) == (2, [(0, 1)])


def test_loss_that_was_taken_for_too_large_is_given_back() -> None:
    topic = topic_with(facts(0, 2))
    topic.mark_lost(2, 1000)
    topic.add_batch(facts(5, 1), 1)
    assert (topic.end, topic.gaps.items()) == (6, [(2, 5)])
    assert chain(topic) == [(0, 2, True), (5, 6, False)]


def test_loss_that_was_none_is_given_back_whole() -> None:
    topic = topic_with(facts(0, 2))
    topic.mark_lost(2, 1000)
    topic.add_batch(facts(2, 1), 1)
    assert (topic.end, topic.gaps.items()) == (3, [])


@pytest.mark.parametrize("first", [0, 1])
def test_two_messages_at_one_offset_are_damage(first: int) -> None:
    with pytest.raises(DataDamaged):
        topic_with(facts(0, 2), facts(first))


def test_damage_makes_producers_unknown() -> None:
    topic = topic_with(facts(0, producer=5))
    assert topic.producers[5].next_sequence == 1
    topic.mark_lost(1, 2)
    assert topic.producers[5].next_sequence < 0


def test_trim_takes_whole_ledgers_and_a_gap_behind_them() -> None:
    topic = topic_with(facts(0, 2), facts(5, 2, epoch=2), facts(7, 2, epoch=3))
    topic.trim(2)
    assert (topic.first, chain(topic), topic.gaps.items()) == (5, [(5, 7, True), (7, 9, False)], [])
    topic.trim(2)
    assert topic.first == 5


def test_trim_of_everything_keeps_the_end() -> None:
    topic = topic_with(facts(0, 4))
    topic.trim(4)
    assert (topic.first, topic.end, topic.ledgers, topic.first_file) == (4, 4, [], None)
    topic.add_batch(facts(4), 3)
    assert (topic.end, topic.first_file) == (5, 3)


def test_trim_in_a_ledger_keeps_the_ledger() -> None:
    topic = topic_with(facts(0, 4))
    topic.trim(3)
    assert (topic.first, chain(topic)) == (3, [(0, 4, False)])


def test_ledger_at() -> None:
    topic = topic_with(facts(0, 2), facts(5, 2, epoch=2))
    first, second = topic.ledgers
    expected = [first, first, None, None, None, second, second, None]
    assert [topic.ledger_at(offset) for offset in range(8)] == expected


def test_released_batches_pin_the_older_file_they_lie_in() -> None:
    topic = topic_with(facts(0), file_number=4)
    topic.extend(1, 2, 100, 1, 2000, 5, 2)
    (ledger,) = topic.ledgers
    assert (ledger.first_file, ledger.last_file, topic.first_file) == (2, 5, 2)


def test_append_time_never_goes_back() -> None:
    topic = topic_with(facts(0, time_us=2000), facts(1, time_us=1000))
    assert (topic.last_us, topic.ledgers[0].last_us) == (2000, 2000)


def test_idlest_producer_is_forgotten_first() -> None:
    topic = TopicState(TOPIC_ID)
    for number in range(1, PRODUCERS_PER_TOPIC_MAX + 1):
        topic.add_batch(facts(number - 1, producer=number), 1)
    topic.add_batch(facts(PRODUCERS_PER_TOPIC_MAX, producer=1), 1)
    topic.add_batch(facts(PRODUCERS_PER_TOPIC_MAX + 1, producer=999_999), 1)
    assert len(topic.producers) == PRODUCERS_PER_TOPIC_MAX
    assert 1 in topic.producers
    assert 2 not in topic.producers


def plain(topic: TopicState) -> object:
    cursors = {
        number: (cursor.position, cursor.generation, cursor.above.items()) for number, cursor in topic.cursors.items()
    }
    return (
        (topic.topic_id, topic.first, topic.end, topic.last_us),
        topic.ledgers,
        topic.gaps.items(),
        cursors,
        topic.producers,
    )


STEPS = st.lists(st.tuples(st.sampled_from(["batch", "jump", "close", "lose", "trim"]), st.integers(1, 4)), max_size=12)


@given(STEPS)
def test_checkpoint_form_is_the_topic_at_every_step(steps: list[tuple[str, int]]) -> None:
    topic = TopicState(TOPIC_ID)
    topic.cursors[3] = Cursor(1, 2, [(4, 5)])
    encode_topic(topic)
    for step, amount in steps:
        if step == "batch":
            topic.add_batch(facts(topic.end, amount, producer=amount), 1)
        elif step == "jump":
            topic.add_batch(facts(topic.end + amount, 1), 2)
        elif step == "close":
            topic.close_ledger()
        elif step == "lose":
            topic.mark_lost(topic.end, topic.end + amount)
        else:
            topic.trim(min(topic.first + amount, topic.end))
        # The form is kept as long as nothing has changed: a change that forgets to say so would be seen here.
        assert plain(decode_topic(encode_topic(topic))) == plain(topic)
