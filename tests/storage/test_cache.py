"""The tail cache: the end of each topic, without holes, within its bytes."""

import weakref
from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from pydanube.storage import StoredBatch
from pydanube.storage.cache import BATCH_OVERHEAD_BYTES as OVERHEAD
from pydanube.storage.cache import TailCache

BYTES_MAX = 10 * (10 + OVERHEAD)  # ten batches of ten bytes


class Arena(bytearray):
    """A buffer that a test can see going away."""


def stored(first: int, count: int = 1, length: int = 10) -> StoredBatch:
    return StoredBatch(first, first + count, bytearray(length))


def view_of(batch: StoredBatch) -> memoryview:
    return memoryview(batch.data)


class Naive:
    """The same, said plainly: all batches in one line, oldest first."""

    def __init__(self) -> None:
        self.line: OrderedDict[tuple[int, int], StoredBatch] = OrderedDict()

    def add(self, topic_id: int, batch: StoredBatch) -> None:
        mine = [known for (owner, _), known in self.line.items() if owner == topic_id]
        if mine and mine[-1].end_offset != batch.first_offset:
            self.drop(topic_id)
        self.line[topic_id, batch.first_offset] = batch
        while self.bytes > BYTES_MAX:
            self.line.popitem(last=False)

    def drop(self, topic_id: int) -> None:
        for key in [key for key in self.line if key[0] == topic_id]:
            del self.line[key]

    @property
    def bytes(self) -> int:
        owners = {id(view.obj): memoryview(view.obj).nbytes for view in map(view_of, self.line.values())}
        return sum(owners.values()) + OVERHEAD * len(self.line)

    def read(self, topic_id: int, offset: int, bytes_max: int) -> list[StoredBatch]:
        mine = [batch for (owner, _), batch in self.line.items() if owner == topic_id]
        if not mine or offset < mine[0].first_offset:
            return []
        taken: list[StoredBatch] = []
        for batch in mine:
            if batch.end_offset > offset:
                if taken and sum(len(known.data) for known in taken) + len(batch.data) > bytes_max:
                    break
                taken.append(batch)
        return taken


@given(st.data())
def test_against_a_naive_cache(data: st.DataObject) -> None:
    cache, naive = TailCache(BYTES_MAX), Naive()
    arenas = [bytearray(size) for size in (20, 450, 2000)]
    ends: dict[int, int] = {}
    for _ in range(data.draw(st.integers(0, 30))):
        topic_id = data.draw(st.integers(1, 3))
        action = data.draw(st.sampled_from(["add", "add", "add", "hole", "drop"]))
        if action == "drop":
            cache.drop(topic_id)
            naive.drop(topic_id)
            continue
        first = ends.get(topic_id, 0) + (3 if action == "hole" else 0)
        ends[topic_id] = first + data.draw(st.integers(1, 4))
        arena = data.draw(st.sampled_from([*arenas, None]))
        content = bytearray(data.draw(st.integers(1, BYTES_MAX + 100))) if arena is None else memoryview(arena)[:10]
        batch = StoredBatch(first, ends[topic_id], content)
        cache.add(topic_id, batch)
        naive.add(topic_id, batch)
        assert cache.bytes == naive.bytes <= BYTES_MAX
        for owner in (1, 2, 3):
            mine = [known for (number, _), known in naive.line.items() if number == owner]
            assert cache.first_offset(owner) == (mine[0].first_offset if mine else None)
            offset, size = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 3000))
            assert cache.read(owner, offset, size) == naive.read(owner, offset, size)


def test_an_arena_is_charged_once_and_whole() -> None:
    cache = TailCache(BYTES_MAX)
    arena = bytearray(60)
    for number in range(4):
        cache.add(number % 2, StoredBatch(number // 2, number // 2 + 1, memoryview(arena)[number : number + 1]))
    assert cache.bytes == 60 + 4 * OVERHEAD
    cache.drop(0)
    assert cache.bytes == 60 + 2 * OVERHEAD
    cache.drop(1)
    assert cache.bytes == 0


def test_oldest_batches_leave_first() -> None:
    cache = TailCache(BYTES_MAX)
    for offset in range(15):
        cache.add(1, stored(offset))
    assert cache.first_offset(1) == 5
    assert [batch.first_offset for batch in cache.read(1, 5, 25)] == [5, 6]
    assert cache.read(1, 4, 1000) == []


def test_batch_that_is_larger_than_the_cache_is_not_kept() -> None:
    cache = TailCache(BYTES_MAX)
    cache.add(1, stored(0))
    cache.add(1, stored(1, length=BYTES_MAX + 1))
    assert (cache.first_offset(1), cache.bytes) == (None, 0)


def test_at_least_one_batch_is_read() -> None:
    cache = TailCache(BYTES_MAX)
    cache.add(1, stored(0, 3))
    assert len(cache.read(1, 2, 0)) == 1
    assert cache.read(1, 3, 1000) == []


def test_dropped_batches_are_let_go() -> None:
    cache = TailCache(BYTES_MAX)
    seen = []
    for offset in range(1000):
        arena = Arena(10)
        seen.append(weakref.ref(arena))
        cache.add(1, StoredBatch(offset, offset + 1, memoryview(arena)))
        del arena
        cache.drop(1)
    assert sum(arena() is not None for arena in seen) <= 10
