"""The read planner: slices in order, without overlap, exactly what was asked for.

offsets   0        10        20      26   30        40        50
ledgers   |---A----|----B----|           |----C----|----D----|
gaps                         |--gap------|
cache                                         |-------------->
read 5    [A 5-10) [B 10-20) [lost 20-30) [C 30-35) [cache 35-50)
"""

from hypothesis import given
from hypothesis import strategies as st

from pydanube.storage import Ledger, Slice, Tier
from pydanube.storage.plan import plan_read
from pydanube.storage.ranges import RangeSet


def ledger(first: int, end: int, files: tuple[int, int] = (1, 1)) -> Ledger:
    return Ledger(first, end, 1, 100, 0, 0, *files)


def gaps(*ranges: tuple[int, int]) -> RangeSet:
    found = RangeSet()
    for start, end in ranges:
        found.add(start, end)
    return found


PICTURE = [ledger(0, 10), ledger(10, 20, (1, 2)), ledger(30, 40, (3, 3)), ledger(40, 50, (3, 4))]


def test_the_picture() -> None:
    assert plan_read(PICTURE, gaps((20, 30)), 35, 5, 50) == [
        Slice(Tier.JOURNAL, 5, 10, range(1, 2)),
        Slice(Tier.JOURNAL, 10, 20, range(1, 3)),
        Slice(Tier.LOST, 20, 30),
        Slice(Tier.JOURNAL, 30, 35, range(3, 4)),
        Slice(Tier.CACHE, 35, 50),
    ]


def test_the_tail_comes_from_memory_alone() -> None:
    assert plan_read(PICTURE, gaps((20, 30)), 35, 35, 50) == [Slice(Tier.CACHE, 35, 50)]
    assert plan_read(PICTURE, gaps((20, 30)), 35, 49, 50) == [Slice(Tier.CACHE, 49, 50)]


def test_without_a_cache_the_journal_has_it_all() -> None:
    assert plan_read(PICTURE[2:], gaps(), None, 30, 50) == [
        Slice(Tier.JOURNAL, 30, 40, range(3, 4)),
        Slice(Tier.JOURNAL, 40, 50, range(3, 5)),
    ]


def test_nothing_is_planned_at_the_end() -> None:
    assert plan_read(PICTURE, gaps((20, 30)), 35, 50, 50) == []
    assert plan_read([], gaps(), None, 0, 0) == []


def test_what_is_neither_stored_nor_recorded_as_lost_is_lost() -> None:
    assert plan_read(PICTURE[2:], gaps(), None, 20, 35) == [
        Slice(Tier.LOST, 20, 30),
        Slice(Tier.JOURNAL, 30, 35, range(3, 4)),
    ]
    assert plan_read(PICTURE[:1], gaps(), None, 5, 15) == [
        Slice(Tier.JOURNAL, 5, 10, range(1, 2)),
        Slice(Tier.LOST, 10, 15),
    ]


@st.composite
def any_topic(draw: st.DrawFn) -> tuple[list[Ledger], RangeSet, int | None, int]:
    """Ledgers and gaps one behind the other, and a cache of the end that has no gap."""
    offset, ledgers, lost, cacheable = 0, [], RangeSet(), 0
    for is_gap, count in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=8)):
        if is_gap:
            lost.add(offset, offset + count)
            cacheable = offset + count
        else:
            first_file = draw(st.integers(1, 5))
            ledgers.append(ledger(offset, offset + count, (first_file, first_file + draw(st.integers(0, 2)))))
        offset += count
    cached_from = draw(st.none() | st.integers(cacheable, offset)) if cacheable < offset else None
    return ledgers, lost, cached_from, offset


@given(any_topic(), st.data())
def test_slices_cover_exactly_what_was_asked_for(
    topic: tuple[list[Ledger], RangeSet, int | None, int], data: st.DataObject
) -> None:
    ledgers, lost, cached_from, topic_end = topic
    start = data.draw(st.integers(0, topic_end))
    end = data.draw(st.integers(start, topic_end))
    position = start
    for part in plan_read(ledgers, lost, cached_from, start, end):
        assert part.first == position < part.end
        position = part.end
        for offset in range(part.first, part.end):
            if cached_from is not None and offset >= cached_from:
                assert part.tier is Tier.CACHE
            elif offset in lost:
                assert part.tier is Tier.LOST
            else:
                (owner,) = [ledger for ledger in ledgers if ledger.first <= offset < ledger.end]
                assert part.tier is Tier.JOURNAL
                assert part.files == range(owner.first_file, owner.last_file + 1)
    assert position == end
