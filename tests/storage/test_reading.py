"""Reading: from memory and from files alike, never a byte that fails its checksum, and past damage of others."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage.rig import SETTINGS, Rig

from pydanube.model.errors import DataDamaged, OffsetOutOfRange, StorageFailed
from pydanube.storage import Tier
from pydanube.storage.log import JournalRead

A, B = 0xA, 0xB


@pytest.fixture
def rig() -> Rig:
    return Rig()


def tiers(rig: Rig, topic_id: int, offset: int) -> list[Tier]:
    return [part.tier for part in rig.log.plan(topic_id, offset)]


def test_the_tail_comes_from_memory_and_the_rest_from_files() -> None:
    rig = Rig(settings=replace(SETTINGS, cache_bytes=1000))
    for offset in range(20):
        rig.publish(A, b"%d" % offset)
    assert tiers(rig, A, 0) == [Tier.JOURNAL, Tier.CACHE]
    assert tiers(rig, A, 19) == [Tier.CACHE]
    assert rig.values(A) == {offset: b"%d" % offset for offset in range(20)}


def test_nothing_is_read_at_the_end_and_nothing_outside(rig: Rig) -> None:
    rig.publish(A, b"a")
    assert rig.log.read(A, 1, 1000) == []
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            rig.log.read(A, offset, 1000)


def test_batch_that_holds_the_offset_comes_whole(rig: Rig) -> None:
    rig.publish(A, b"a", b"b", b"c")
    for _ in range(2):
        (stored,) = rig.log.read(A, 1, 1)
        assert (stored.first_offset, stored.end_offset) == (0, 3)
        rig.restart()


@pytest.mark.parametrize("cached", [True, False])
def test_one_read_gives_the_bytes_asked_for_or_one_batch(rig: Rig, cached: bool) -> None:
    for _ in range(5):
        rig.publish(A, bytes(100))
    if not cached:
        rig.writer.mark_durable()  # else the last round would be copied into another file
        rig.restart()

    def read(bytes_max: int) -> int:
        found = rig.log.prepare_read(A, 0, bytes_max)
        assert isinstance(found, JournalRead) is not cached
        return len(found.run() if isinstance(found, JournalRead) else found)

    length = len(rig.log.read(A, 0, 1)[0].data)
    assert [read(size) for size in (1, length, 2 * length - 1, 2 * length, 100 * length)] == [1, 1, 1, 2, 5]


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 3), st.integers(0, 900)), max_size=40), st.data())
def test_every_offset_is_read_wherever_it_lies(batches: list[tuple[int, int, int]], data: st.DataObject) -> None:
    rig = Rig(settings=replace(SETTINGS, cache_bytes=2000, file_bytes=16 << 10, ledger_bytes=4 << 10))
    expected: dict[int, dict[int, bytes]] = {A: {}, B: {}}
    for number, (topic_id, count, size) in enumerate(batches):
        values = [b"%d-%d" % (number, at) + bytes(size) for at in range(count)]
        first = rig.publish(topic_id, *values)
        expected[topic_id].update(enumerate(values, first))
    for _ in range(2):
        for topic_id in (A, B):
            assert rig.values(topic_id) == expected[topic_id]
            if expected[topic_id]:
                offset = data.draw(st.integers(0, len(expected[topic_id]) - 1))
                stored = rig.log.read(topic_id, offset, 1)[0]
                assert stored.first_offset <= offset < stored.end_offset
        rig.restart()


def test_damage_is_told_when_it_is_the_first_thing_asked_for(rig: Rig) -> None:
    places = []
    for value in (b"a0", b"a1", b"a2"):
        rig.publish(A, value)
        places.append(rig.place)
    rig.log.core.cache.drop(A)
    rig.damage(places[1], 200)
    assert [batch.first_offset for batch in rig.log.read(A, 0, 10_000)] == [0]
    with pytest.raises(DataDamaged) as damage:
        rig.log.read(A, 1, 10_000)
    assert (damage.value.first_offset, damage.value.end_offset) == (1, 2)
    assert [batch.first_offset for batch in rig.log.read(A, 2, 10_000)] == [2]


@pytest.mark.parametrize("at", [10, 60])
def test_damaged_head_or_table_hides_nothing(rig: Rig, at: int) -> None:
    rig.publish(B, b"b0")
    rig.publish(A, b"a0")
    place = rig.place
    rig.publish(B, b"b1")
    rig.publish(A, b"a1")
    rig.log.core.cache.drop(A)
    rig.log.core.cache.drop(B)
    rig.damage(place, at)
    assert rig.values(B) == {0: b"b0", 1: b"b1"}
    assert rig.values(A) == {0: b"a0", 1: b"a1"}


def test_reading_that_fails_is_no_damage(rig: Rig) -> None:
    rig.publish(A, b"a")
    rig.log.core.cache.drop(A)
    rig.disk.faults.read_eio = 1.0
    with pytest.raises(StorageFailed):
        rig.log.read(A, 0, 1000)
    rig.disk.faults.read_eio = 0.0
    assert rig.values(A) == {0: b"a"}


def test_many_files_are_read_with_few_of_them_open(rig: Rig) -> None:
    for offset in range(40):
        rig.publish(A, b"%d" % offset)
        rig.rotate()
    assert rig.place.file_number == 40
    rig.log.core.cache.drop(A)
    assert rig.values(A) == {offset: b"%d" % offset for offset in range(40)}
