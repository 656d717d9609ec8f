"""Sets of offsets against Python's own sets."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pydanube.storage.ranges import RangeSet

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)
OFFSETS = st.integers(0, 42)


def both(ranges: Iterable[tuple[int, int]]) -> tuple[RangeSet, set[int]]:
    found, expected = RangeSet(), set[int]()
    for start, end in ranges:
        found.add(start, end)
        expected.update(range(start, end))
    return found, expected


def assert_same(found: RangeSet, expected: set[int]) -> None:
    items = found.items()
    assert {offset for start, end in items for offset in range(start, end)} == expected
    assert len(found) == len(items)
    for (_, end), (start, _) in pairwise(items):
        assert end < start  # sorted, disjoint, and two that touch are one
    assert all(start < end for start, end in items)


@given(RANGES)
def test_add(ranges: list[tuple[int, int]]) -> None:
    found, expected = both(ranges)
    assert_same(found, expected)
    assert [offset for offset in range(45) if offset in found] == sorted(expected)


@given(RANGES.flatmap(lambda ranges: st.tuples(st.just(ranges), st.permutations(ranges))))
def test_order_of_adding_does_not_matter(orders: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    one, other = (both(ranges)[0].items() for ranges in orders)
    assert one == other


@given(RANGES, OFFSETS)
def test_take_prefix(ranges: list[tuple[int, int]], position: int) -> None:
    found, expected = both(ranges)
    end = position
    while end in expected:
        end += 1
    assert found.take_prefix(position) == end
    assert_same(found, {offset for offset in expected if offset >= end})


@given(RANGES, OFFSETS)
def test_cut_from(ranges: list[tuple[int, int]], offset: int) -> None:
    found, expected = both(ranges)
    found.cut_from(offset)
    assert_same(found, {kept for kept in expected if kept < offset})


@given(RANGES, OFFSETS)
def test_containing_and_first_from(ranges: list[tuple[int, int]], offset: int) -> None:
    found, _ = both(ranges)
    items = found.items()
    assert found.containing(offset) == next((item for item in items if item[0] <= offset < item[1]), None)
    assert found.first_from(offset) == next((item for item in items if item[1] > offset), None)
