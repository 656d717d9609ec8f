"""Cursors: acks in any order lead to the same place, none is lost, and those from before a reset do not count."""

from hypothesis import given
from hypothesis import strategies as st

from pydanube.model.limits import ACK_RANGE_BYTES_EACH, ACK_RANGE_BYTES_MAX
from pydanube.storage import Cursor

ACKS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)).map(lambda ack: (ack[0], ack[0] + ack[1])))


def acked(cursor: Cursor, first: int = 0) -> set[int]:
    return {offset for offset in range(first, 40) if cursor.is_acked(offset)}


@given(ACKS, st.integers(0, 10))
def test_what_is_acknowledged_is_what_was_asked_for(acks: list[tuple[int, int]], start: int) -> None:
    cursor = Cursor(start)
    expected = set(range(start))
    for ack in acks:
        assert cursor.ack(0, [ack])
        expected.update(range(*ack))
        assert acked(cursor) == expected
        assert cursor.position not in expected
        assert set(range(cursor.position)) <= expected
        assert all(start > cursor.position for start, _ in cursor.above.items())


@given(ACKS.flatmap(lambda acks: st.tuples(st.just(acks), st.permutations(acks))))
def test_order_does_not_matter(orders: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    one, other = Cursor(0), Cursor(0)
    for ack in orders[0]:
        one.ack(0, [ack])
    other.ack(0, orders[1])
    other.ack(0, orders[1])  # nor does it matter how often
    assert (one.position, one.above.items()) == (other.position, other.above.items())


@given(ACKS, ACKS, st.integers(0, 30))
def test_acks_from_before_a_reset_are_counted_and_not_applied(
    acks: list[tuple[int, int]], late: list[tuple[int, int]], position: int
) -> None:
    cursor = Cursor(0)
    cursor.ack(0, acks)
    cursor.reset(1, position, [(position + 5, position + 6)])
    before = acked(cursor)
    for ack in late:
        assert not cursor.ack(0, [ack])
        assert not cursor.ack(2, [ack])
    assert acked(cursor) == before == {*range(position), *({position + 5} if position + 5 < 40 else ())}
    assert cursor.stale_acks == 2 * len(late)
    assert cursor.generation == 1


def test_cursor_is_founded_with_ranges_above() -> None:
    cursor = Cursor(3, 4, [(3, 5), (7, 9)])
    assert (cursor.position, cursor.generation, cursor.above.items()) == (5, 4, [(7, 9)])


def test_at_the_bound_acks_are_still_applied() -> None:
    ranges_max = ACK_RANGE_BYTES_MAX // ACK_RANGE_BYTES_EACH
    assert ranges_max == 65_536
    cursor = Cursor(0)
    cursor.ack(0, ((2 * number, 2 * number + 1) for number in range(1, ranges_max)))
    assert not cursor.at_bound
    cursor.ack(0, [(2 * ranges_max, 2 * ranges_max + 1)])
    assert cursor.at_bound
    cursor.ack(0, [(2 * ranges_max + 2, 2 * ranges_max + 3)])
    assert cursor.is_acked(2 * ranges_max + 2)
    cursor.ack(0, [(0, 6)])
    assert cursor.position == 7
    assert not cursor.at_bound
