"""A consumer's source: the subscription on one topic or partition, with what was delivered and what is acknowledged."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from pydanube.model import parse_topic
from pydanube.model.errors import ConnectionLost, DanubeError, InvalidBatch, Remedy
from pydanube.model.limits import KIB
from pydanube.records import open_batch, read_header
from pydanube.wire import Frame, Kind, encode, hot, messages

from .acks import Acks, Ranges
from .connection import SUBSCRIBE, Connection
from .received import Decoded, Origin, ReceivedBatch, Run, runs_between
from .retry import Backoff

ACK_DELAY_S = 0.005  # acknowledgements that come together are sent together
ACK_RANGES_MAX = 10_000  # in one frame
# A view keeps the whole arena alive that it was received into, so what waits in small pieces is copied out of it.
COPIED_BYTES_MAX = 256 * KIB


class _Delivered:
    """A batch as it came, and the runs of its records that are still to be taken."""

    __slots__ = ("decoded", "runs", "view")

    def __init__(self, view: memoryview, runs: list[tuple[int, int]]) -> None:
        self.view = view
        self.runs = runs
        self.decoded: Decoded | None = None


class Source:
    def __init__(
        self,
        question: messages.Subscribe,
        number: tuple[int, int],
        flow_bytes: int,
        is_acknowledged: bool,
        on_news: Callable[["Source"], None],
    ) -> None:
        topic = parse_topic(question.topic)
        self.topic = str(topic.base)  # what users call it
        self.partition = topic.partition
        self.acks = Acks()
        self.error: DanubeError | None = None
        self._question = question
        self._consumer, self._number = number
        self._flow_bytes = flow_bytes
        self._is_acknowledged = is_acknowledged  # a topic that stores nothing waits for no acknowledgement
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._opened = messages.Subscribed(0, 0, 0, 0, 0)
        self._session = 0  # counted here: each is a new start with what is handed out and acknowledged
        self._inbox: deque[_Delivered] = deque()
        self._owed_bytes = 0  # taken by the user, and not given back to the broker as credit
        self._ack_timer: asyncio.TimerHandle | None = None
        self._ack_answer: asyncio.Future[Frame] | None = None  # the one that is under way
        self._ack_news = asyncio.Event()
        self._backoff = Backoff(random.random)
        self._ack_error: DanubeError | None = None

    # -- messages --------------------------------------------------------------------------------------------------

    @property
    def has_messages(self) -> bool:
        return bool(self._inbox)

    @property
    def is_attached(self) -> bool:
        return self._connection is not None

    def delivered(self, deliver: hot.Deliver, batches: memoryview) -> None:
        if deliver.generation != self._opened.generation:
            # Somebody has moved the subscription: what was delivered before counts no more.
            opened = self._opened
            self._opened = messages.Subscribed(
                opened.handle, deliver.session, deliver.generation, opened.topic_id, opened.position
            )
            self._owed_bytes += sum(len(each.view) for each in self._inbox)
            self._new_session()
        if len(batches) < COPIED_BYTES_MAX:
            batches = memoryview(bytes(batches))
        at = 0
        while at < len(batches):
            header = read_header(batches, at)
            if not 0 < header.length <= len(batches) - at:
                raise InvalidBatch(f"a delivery of {len(batches)} bytes does not end with a batch")
            view = batches[at : at + header.length]
            runs = runs_between(header.base_offset, header.record_count, deliver.without)
            if runs:
                self._inbox.append(_Delivered(view, runs))
            else:
                self._give_back(len(view))
            at += header.length
        if self._inbox:
            self._on_news(self)

    def is_full(self, messages_max: int, bytes_max: int) -> bool:
        """Whether `take` with these limits would leave something behind, or nothing more can come."""
        count = sum(end - first for each in self._inbox for first, end in each.runs)
        size = sum(len(each.view) for each in self._inbox)
        return count >= messages_max or size >= min(bytes_max, self._flow_bytes)

    def take(self, messages_max: int, bytes_max: int) -> ReceivedBatch:
        """What is here, up to the limits, and at least one message."""
        runs: list[Run] = []
        count = size = 0
        while self._inbox and count < messages_max and (size < bytes_max or not runs):
            delivered = self._inbox[0]
            if runs and size + len(delivered.view) > bytes_max:
                break
            if delivered.decoded is None:
                try:
                    delivered.decoded = Decoded(open_batch(delivered.view))
                except DanubeError:
                    self._inbox.popleft()
                    self._give_back(len(delivered.view))
                    raise
            while delivered.runs and count < messages_max:
                first, end = delivered.runs.pop(0)
                if end - first > messages_max - count:
                    delivered.runs.insert(0, (first + messages_max - count, end))
                    end = first + messages_max - count
                run = Run(delivered.decoded, first, end)
                runs.append(run)
                count += end - first
                if self._is_acknowledged:
                    self.acks.hand_out(run.offsets.start, run.offsets.stop)
            if not delivered.runs:
                self._inbox.popleft()
                size += len(delivered.view)
                self._give_back(len(delivered.view))
        return ReceivedBatch(self.topic, self.partition, runs, Origin(self._consumer, self._number, self._session))

    def put_back(self, runs: list[Run]) -> None:
        """Taken, and not seen by the user: it is the next to be taken. Its bytes are not counted a second time."""
        for run in reversed(runs):
            delivered = _Delivered(memoryview(b""), [(run.first, run.end)])
            delivered.decoded = run.decoded
            self._inbox.appendleft(delivered)
            self.acks.take_back(run.offsets.start, run.offsets.stop)

    def is_current(self, origin: Origin) -> bool:
        return origin.session == self._session

    def _give_back(self, size: int) -> None:
        self._owed_bytes += size
        if 2 * self._owed_bytes >= self._flow_bytes and self._connection is not None:
            self._connection.tell(Kind.FLOW, hot.encode_flow(self._opened.handle, self._owed_bytes))
            self._owed_bytes = 0

    def _new_session(self) -> None:
        self._session += 1
        self._inbox.clear()
        self.acks.clear()

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def ack(self, first: int, end: int) -> None:
        self.acks.ack(first, end)
        self._schedule_acks()

    def _schedule_acks(self, delay_s: float = ACK_DELAY_S) -> None:
        if self._ack_timer is None and self._ack_answer is None and self.acks.has_ready:
            self._ack_timer = self._loop.call_later(delay_s, self._send_acks)

    def _send_acks(self) -> None:
        """One frame at a time: what comes until its answer goes with the next one."""
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        connection, opened = self._connection, self._opened
        if connection is None or self._ack_answer is not None or not self.acks.has_ready:
            return
        ranges = self.acks.take(ACK_RANGES_MAX)
        ack = messages.Ack(opened.handle, opened.session, opened.generation, ranges)
        self._ack_answer = connection.question(Kind.ACK, Kind.ACKED, encode(ack))
        self._ack_answer.add_done_callback(partial(self._on_acked, self._session, ranges))

    def _on_acked(self, session: int, ranges: Ranges, answer: "asyncio.Future[Frame]") -> None:
        self._ack_answer = None
        self._ack_news.set()
        error = None if answer.cancelled() else answer.exception()
        if not isinstance(error, DanubeError):
            self._backoff.reset()
            self._schedule_acks()
        elif error.remedy is Remedy.RETRY and session == self._session and not isinstance(error, ConnectionLost):
            self.acks.again(ranges)
            self._schedule_acks(self._backoff.next_s())
        else:
            self._ack_error = error
            self._schedule_acks()

    async def flush_acks(self) -> None:
        """Wait until everything acknowledged is durable; raises if some of it is not and will not be."""
        self._send_acks()
        while self._connection is not None and (self.acks.has_ready or self._ack_answer is not None):
            self._ack_news.clear()
            await self._ack_news.wait()
        error, self._ack_error = self._ack_error, None
        if error is not None:
            raise error

    # -- the connection --------------------------------------------------------------------------------------------

    async def attach(self, connection: Connection) -> None:
        opened = await connection.ask(SUBSCRIBE, self._question)
        self._opened = opened
        self._connection = connection
        self._owed_bytes = 0
        self._new_session()
        connection.consumers[opened.handle] = self
        connection.tell(Kind.FLOW, hot.encode_flow(opened.handle, self._flow_bytes))
        self._on_news(self)

    def detach(self, error: DanubeError) -> None:
        """What was acknowledged and not stored is lost with the session; those messages come again."""
        if self.acks.has_ready and self._ack_error is None:
            self._ack_error = error
        self._connection = None
        self._new_session()
        self._ack_news.set()
        self._on_news(self)

    def fail(self, error: DanubeError) -> None:
        self.error = error
        self._connection = None
        self._ack_news.set()
        self._on_news(self)

    async def close(self) -> None:
        """What was delivered and not acknowledged goes back at once."""
        connection, self._connection = self._connection, None
        if self._ack_timer is not None:
            self._ack_timer.cancel()
        self._inbox.clear()
        if connection is not None:
            handle = self._opened.handle
            connection.consumers.pop(handle, None)
            with suppress(ConnectionLost):  # then it is closed by that
                await connection.question(Kind.CONSUMER_CLOSE, Kind.DONE, encode(messages.CloseHandle(handle)))
