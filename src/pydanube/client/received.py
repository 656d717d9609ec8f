"""What a consumer or reader gets: batches whose columns are decoded once, when they are first asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain, repeat
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from pydanube.records import Batch

from .times import time_of

if TYPE_CHECKING:
    import pyarrow as pa

_NO_ATTRIBUTES: Mapping[str, str] = MappingProxyType({})
T = TypeVar("T")


class Origin(NamedTuple):
    """How a consumer finds its way back from a message. An acknowledgement counts only in the session in which the
    message came."""

    consumer: int
    source: int
    session: int


NO_ORIGIN = Origin(0, 0, 0)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message. A payload that is null, which other writers may send, is empty here."""

    payload: bytes
    key: str | None
    offset: int
    topic: str
    partition: int | None
    attributes: Mapping[str, str]
    publish_time_us: int
    event_time_us: int | None
    producer: str | None
    schema_id: int
    origin: Origin

    @property
    def publish_time(self) -> datetime:
        return time_of(self.publish_time_us)

    @property
    def event_time(self) -> datetime | None:
        return None if self.event_time_us is None else time_of(self.event_time_us)


class Decoded:
    """A stored batch, and its columns as lists."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @cached_property
    def payloads(self) -> list[bytes]:
        payloads = self.batch.payloads()
        return [payload or b"" for payload in payloads] if None in payloads else payloads  # type: ignore[return-value]

    @cached_property
    def keys(self) -> list[str | None]:
        return self.batch.keys() or [None] * len(self.batch)

    @cached_property
    def _messages(self) -> "list[Iterable[object]]":
        """The other columns of messages, as far as they are not the same for all of them."""
        batch = self.batch
        attributes = batch.attributes()
        return [
            repeat(_NO_ATTRIBUTES) if attributes is None else [each or _NO_ATTRIBUTES for each in attributes],
            batch.publish_times_us(),
            batch.event_times_us() or repeat(None),
            batch.producer_names() or repeat(None),
        ]

    def messages(self, first: int, end: int, topic: str, partition: int | None, origin: Origin) -> Iterator[Message]:
        base = self.batch.header.base_offset
        attributes, publish_times, event_times, producers = (_part(column, first, end) for column in self._messages)
        return map(
            Message,
            self.payloads[first:end],
            self.keys[first:end],
            range(base + first, base + end),
            repeat(topic),
            repeat(partition),
            attributes,
            publish_times,
            event_times,
            producers,
            repeat(self.batch.header.schema_id),
            repeat(origin),
        )


def _part(column: Iterable[object], first: int, end: int) -> Iterable[object]:
    return column[first:end] if isinstance(column, list) else column


class Run(NamedTuple):
    """Neighbours in one stored batch, by index."""

    decoded: Decoded
    first: int
    end: int

    @property
    def offsets(self) -> range:
        base = self.decoded.batch.header.base_offset
        return range(base + self.first, base + self.end)


class ReceivedBatch:
    """Messages of one topic or partition, in order."""

    def __init__(self, topic: str, partition: int | None, runs: Sequence[Run], origin: Origin = NO_ORIGIN) -> None:
        self.topic = topic
        self.partition = partition
        self.origin = origin
        self._runs = runs

    def __len__(self) -> int:
        return sum(run.end - run.first for run in self._runs)

    def __iter__(self) -> Iterator[Message]:
        parts = (
            run.decoded.messages(run.first, run.end, self.topic, self.partition, self.origin) for run in self._runs
        )
        return chain.from_iterable(parts)

    @property
    def messages(self) -> list[Message]:
        return list(self)

    @property
    def payloads(self) -> list[bytes]:
        return _joined([(run.decoded.payloads, run.first, run.end) for run in self._runs])

    @property
    def keys(self) -> list[str | None]:
        return _joined([(run.decoded.keys, run.first, run.end) for run in self._runs])

    @property
    def offsets(self) -> list[int]:
        return [*chain.from_iterable(run.offsets for run in self._runs)]

    @property
    def offset_ranges(self) -> list[tuple[int, int]]:
        """First and end of each stretch of neighbours."""
        return [(run.offsets.start, run.offsets.stop) for run in self._runs]

    def runs_from(self, offset: int) -> list[Run]:
        """The part that begins with this offset."""
        return [
            run._replace(first=max(run.first, run.first + offset - run.offsets.start))
            for run in self._runs
            if run.offsets.stop > offset
        ]

    def to_arrow(self) -> "pa.Table":
        """As Arrow columns, without a copy. Needs pyarrow and numpy."""
        import pyarrow as pa

        return pa.Table.from_batches(
            [run.decoded.batch.to_arrow().slice(run.first, run.end - run.first) for run in self._runs]
        )


def _joined(parts: "list[tuple[list[T], int, int]]") -> list[T]:
    if len(parts) == 1:
        column, first, end = parts[0]
        return column if end - first == len(column) else column[first:end]
    return [*chain.from_iterable(column[first:end] for column, first, end in parts)]


def runs_between(base: int, count: int, without: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The indexes of a batch's records that are not in the ranges left out, as first and end."""
    runs: list[tuple[int, int]] = []
    at = 0
    for first, end in without:
        if first - base > at:
            runs.append((at, min(first - base, count)))
        at = max(at, end - base)
        if at >= count:
            return runs
    runs.append((at, count))
    return runs
