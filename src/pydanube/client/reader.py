"""Reading without a subscription: FETCH by offset, one request ahead of the user."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence

from pydanube.model import TopicName
from pydanube.model.errors import ConnectionLost, InvalidBatch
from pydanube.model.limits import MIB
from pydanube.records import open_batch, read_header
from pydanube.wire import Frame, Kind, decode, encode, messages

from .link import Link
from .received import Decoded, ReceivedBatch, Run
from .retry import DELAY_S_FIRST

FETCH_BYTES = 1 * MIB
FOLLOW_S_MAX = 0.25  # between questions at the end of a topic


class Cursor:
    """How far one topic or partition was read."""

    def __init__(self, topic: TopicName, topic_id: int, offset: int, stop: int | None) -> None:
        self._topic = topic
        self.offset = offset
        self.stop = stop
        self._topic_id = topic_id
        self._ahead: asyncio.Future[Frame] | None = None

    @property
    def is_done(self) -> bool:
        return self.stop is not None and self.offset >= self.stop

    async def next(self, link: Link) -> ReceivedBatch | None:
        """What follows; None: nothing at the moment."""
        while True:
            if self._ahead is None:
                await self._ask(link)
            answer, self._ahead = self._ahead, None
            try:
                frame = await answer  # type: ignore[misc]
                break
            except ConnectionLost:
                continue  # nothing is lost by asking again
        fetched = decode(frame.control, messages.Fetched)
        self._topic_id = fetched.topic_id
        runs = self._runs(frame.attachment)
        if not runs:
            return None
        self.offset = runs[-1].offsets.stop
        if not self.is_done and self.offset < fetched.latest:
            await self._ask(link)
        return ReceivedBatch(str(self._topic.base), self._topic.partition, runs)

    async def _ask(self, link: Link) -> None:
        question = messages.Fetch(str(self._topic), self._topic_id, self.offset, FETCH_BYTES)
        self._ahead = (await link.connection()).question(Kind.FETCH, Kind.FETCHED, encode(question))

    def _runs(self, batches: memoryview) -> list[Run]:
        """Whole batches are fetched; what lies before the offset or behind the end is left out."""
        runs: list[Run] = []
        at = 0
        while at < len(batches):
            header = read_header(batches, at)
            if not 0 < header.length <= len(batches) - at:
                raise InvalidBatch(f"an answer of {len(batches)} bytes does not end with a batch")
            first = max(0, self.offset - header.base_offset)
            end = header.record_count
            if self.stop is not None:
                end = min(end, self.stop - header.base_offset)
            if first < end:
                runs.append(Run(Decoded(open_batch(batches[at : at + header.length])), first, end))
            at += header.length
        return runs


async def read(link: Link, cursors: Sequence[Cursor]) -> AsyncIterator[ReceivedBatch]:
    """Each cursor in turn, until all are at their stop; where there is nothing at the moment, it asks again later."""
    turn = deque(cursor for cursor in cursors if not cursor.is_done)
    idle = 0
    delay_s = DELAY_S_FIRST
    while turn:
        cursor = turn.popleft()
        batch = await cursor.next(link)
        if batch is not None:
            idle, delay_s = 0, DELAY_S_FIRST
            if not cursor.is_done:
                turn.append(cursor)
            yield batch
            continue
        turn.append(cursor)
        idle += 1
        if idle >= len(turn):
            await asyncio.sleep(delay_s)
            idle, delay_s = 0, min(2 * delay_s, FOLLOW_S_MAX)
