"""The tail cache: the newest durable batches of all topics, bounded in bytes.

Batches come in the order in which they became durable and leave in the same order, so what it has of a topic is
always the topic's end, without holes. A view keeps the whole buffer alive that it was cut from (a connection
receives many batches into one arena): that buffer is what is charged, once.
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from pydanube.model import Buffer

# What a cached batch costs besides its bytes (tuple, view, places in two queues and a table), measured: without it
# a cache full of single messages would take three times its budget.
BATCH_OVERHEAD_BYTES = 450


class StoredBatch(NamedTuple):
    """A durable batch. `data` is stamped: it can be sent as it is."""

    first_offset: int
    end_offset: int
    data: Buffer


class TailCache:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._topics: dict[int, deque[StoredBatch]] = {}
        # Topics and first offsets, not the batches: a place in line must not keep a dropped batch alive.
        self._order: deque[tuple[int, int]] = deque()
        self._dropped = 0  # places in line without a batch
        self._charges: dict[int, list[int]] = {}  # by identity of the buffer: how many batches, how many bytes
        self.bytes = 0

    def add(self, topic_id: int, batch: StoredBatch) -> None:
        batches = self._topics.get(topic_id)
        if batches is None:
            batches = self._topics[topic_id] = deque()
        elif batches and batches[-1].end_offset != batch.first_offset:
            self.drop(topic_id)  # a hole: only what comes behind it is the end of the topic
            batches = self._topics[topic_id] = deque()
        batches.append(batch)
        self._order.append((topic_id, batch.first_offset))
        self._charge(batch)
        while self.bytes > self._bytes_max:
            self._evict()

    def _charge(self, batch: StoredBatch) -> None:
        owner, size = _owner(batch.data)
        self.bytes += BATCH_OVERHEAD_BYTES
        charge = self._charges.get(owner)
        if charge is None:
            self._charges[owner] = [1, size]
            self.bytes += size
        else:
            charge[0] += 1

    def _release(self, batch: StoredBatch) -> None:
        owner, _ = _owner(batch.data)
        self.bytes -= BATCH_OVERHEAD_BYTES
        charge = self._charges[owner]
        charge[0] -= 1
        if charge[0] == 0:
            self.bytes -= charge[1]
            del self._charges[owner]

    def _evict(self) -> None:
        topic_id, first_offset = self._order.popleft()
        batches = self._topics.get(topic_id)
        if batches and batches[0].first_offset == first_offset:
            self._release(batches.popleft())
            if not batches:
                del self._topics[topic_id]
        else:
            self._dropped -= 1

    def drop(self, topic_id: int) -> None:
        """Forgets a topic. Its places in line stay behind, empty, until there are more of those than of others."""
        batches = self._topics.pop(topic_id, ())
        for batch in batches:
            self._release(batch)
        self._dropped += len(batches)
        if self._dropped > len(self._order) // 2:
            firsts = {number: kept[0].first_offset for number, kept in self._topics.items()}
            self._order = deque(place for place in self._order if place[1] >= firsts.get(place[0], place[1] + 1))
            self._dropped = 0

    def first_offset(self, topic_id: int) -> int | None:
        """From here on to its end the topic is in the cache."""
        batches = self._topics.get(topic_id)
        return batches[0].first_offset if batches else None

    def read(self, topic_id: int, offset: int, bytes_max: int) -> list[StoredBatch]:
        """Batches from the one that holds `offset` on; at least one if there is any."""
        batches = self._topics.get(topic_id)
        if not batches or offset < batches[0].first_offset:
            return []
        at = bisect_right(batches, offset, key=lambda batch: batch.first_offset) - 1
        taken: list[StoredBatch] = []
        size = 0
        while at < len(batches) and (not taken or size + len(batches[at].data) <= bytes_max):
            batch = batches[at]
            if batch.end_offset > offset:
                taken.append(batch)
                size += len(batch.data)
            at += 1
        return taken


def _owner(data: Buffer) -> tuple[int, int]:
    """The buffer that a view keeps alive: its identity and its size."""
    while isinstance(data, memoryview):
        data = data.obj  # type: ignore[assignment]
    return id(data), len(data)
