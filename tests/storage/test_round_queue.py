"""What goes into the next round: every topic in its own order, nobody delayed by a busy neighbour."""

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.limits import ROUND_ENTRIES_MAX
from pydanube.storage.round_queue import RoundQueue

ROUND = 1000


class Item(NamedTuple):
    topic_id: int
    length: int
    number: int = 0


def queue(items: Iterable[Item], round_bytes: int = ROUND) -> RoundQueue[Item]:
    filled: RoundQueue[Item] = RoundQueue(round_bytes)
    for item in items:
        filled.add(item)
    return filled


def rounds(waiting: RoundQueue[Item]) -> list[list[Item]]:
    taken = []
    while waiting:
        taken.append(waiting.take())
        assert taken[-1]  # always something: the writer must not turn in circles
    return taken


def by_topic(items: Iterable[Item]) -> dict[int, list[Item]]:
    sorted_out: dict[int, list[Item]] = {}
    for item in items:
        sorted_out.setdefault(item.topic_id, []).append(item)
    return sorted_out


ITEMS = st.lists(st.builds(Item, st.integers(0, 4), st.integers(0, 600)), max_size=60).map(
    lambda items: [item._replace(number=number) for number, item in enumerate(items)]
)


@given(ITEMS)
def test_each_topic_keeps_its_order_and_nothing_is_lost(items: list[Item]) -> None:
    waiting = queue(items)
    assert (len(waiting), waiting.bytes) == (len(items), sum(item.length for item in items))
    taken = [item for part in rounds(waiting) for item in part]
    assert by_topic(taken) == by_topic(items)
    assert (len(waiting), waiting.bytes) == (0, 0)


@given(ITEMS)
def test_a_topic_lies_side_by_side_in_a_round(items: list[Item]) -> None:
    for part in rounds(queue(items)):
        order = [item.topic_id for item in part]
        runs = [topic for at, topic in enumerate(order) if at == 0 or order[at - 1] != topic]
        assert len(runs) == len(set(runs))


@given(ITEMS)
def test_a_round_goes_over_its_size_by_less_than_an_entry_a_topic(items: list[Item]) -> None:
    largest = max((item.length for item in items), default=0)
    for part in rounds(queue(items)):
        assert sum(item.length for item in part) <= ROUND + largest * len(by_topic(part))


@given(st.integers(1, 600))
def test_a_huge_backlog_does_not_delay_another_topic_by_a_round(length: int) -> None:
    backlog = [Item(99, 300, number) for number in range(200)]
    waiting = queue([*backlog, Item(7, length)])
    assert Item(7, length) in waiting.take()
    waiting.add(Item(8, length))  # and one that comes when the backlog is being written
    assert Item(8, length) in waiting.take()


def test_topics_that_did_not_fit_come_first_in_the_next_round() -> None:
    waiting = queue([Item(topic, 400, number) for topic in range(6) for number in range(2)])
    first = waiting.take()
    second = waiting.take()
    assert [item.topic_id for item in first] == [0, 1, 2]
    assert [item.topic_id for item in second] == [3, 4, 5]


def test_group_stays_whole_and_brings_what_waits_before_it() -> None:
    waiting = queue(Item(1, 400, number) for number in range(9))
    group = [Item(1, 10, 100), Item(2, 10, 101), Item(0, 10, 102)]
    waiting.add_group(group)
    taken = waiting.take()
    assert set(group) <= set(taken)
    assert [item.number for item in by_topic(taken)[1]] == [*range(9), 100]
    waiting.add(Item(1, 1))
    assert waiting.take() == [Item(1, 1)]


def test_after_a_group_rounds_are_cut_again() -> None:
    waiting = queue([])
    waiting.add_group([Item(1, 10), Item(2, 10)])
    waiting.take()
    for number in range(9):
        waiting.add(Item(1, 400, number))
    assert len(waiting.take()) < 9


def test_a_round_has_no_more_entries_than_it_may() -> None:
    waiting = queue((Item(number % 3, 0) for number in range(ROUND_ENTRIES_MAX + 5)), round_bytes=1 << 20)
    assert len(waiting.take()) == ROUND_ENTRIES_MAX
    assert len(waiting.take()) == 5


def test_a_group_behind_many_entries_still_makes_a_round_that_can_be_written() -> None:
    waiting = queue((Item(number % 3, 0) for number in range(ROUND_ENTRIES_MAX)), round_bytes=1 << 20)
    group = [Item(4, 0, 1), Item(5, 0, 2)]
    waiting.add_group(group)
    taken = rounds(waiting)
    assert all(len(part) <= ROUND_ENTRIES_MAX for part in taken)
    assert [part for part in taken if set(group) & set(part)] == [part for part in taken if set(group) <= set(part)]


def test_clear_gives_back_what_waited() -> None:
    items = [Item(1, 5), Item(2, 6), Item(1, 7)]
    waiting = queue(items)
    assert by_topic(waiting.clear()) == by_topic(items)
    assert (len(waiting), waiting.bytes, waiting.take()) == (0, 0, [])
