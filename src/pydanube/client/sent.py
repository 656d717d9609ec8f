"""Where messages went: what `send` and `send_many` return, and the receipts that find it out."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from pydanube.model.errors import DanubeError


class SentMessage(NamedTuple):
    """On a non-reliable topic the offset tells nothing."""

    topic: str
    partition: int | None
    offset: int


class SendReceipt:
    """Of one message, at an index of its batch."""

    __slots__ = ("_future", "_index", "_partition", "_topic")

    def __init__(self, future: "asyncio.Future[SentMessage]", topic: str, partition: int | None, index: int) -> None:
        self._future = future
        self._topic = topic
        self._partition = partition
        self._index = index

    def published(self, first_offset: int) -> None:
        if not self._future.done():
            self._future.set_result(SentMessage(self._topic, self._partition, first_offset + self._index))

    def failed(self, error: DanubeError) -> None:
        if not self._future.done():
            self._future.set_exception(error)


class _Piece(NamedTuple):
    first: int  # in the order of sending
    topic: str
    partition: int | None
    first_offset: int


class SentMany(Sequence[SentMessage]):
    """Where each of many messages went, in the order in which they were given. It is made when it is looked at."""

    def __init__(self, count: int, pieces: list[_Piece], order: list[int] | None) -> None:
        self._count = count
        self._pieces = sorted(pieces)
        self._place: list[int] | None = None
        if order is not None:  # messages were sorted by partition: where each of them was put
            self._place = [0] * count
            for place, index in enumerate(order):
                self._place[index] = place

    def __len__(self) -> int:
        return self._count

    @property
    def offsets(self) -> list[int]:
        return [message.offset for message in self]

    @overload
    def __getitem__(self, index: int) -> SentMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[SentMessage]: ...
    def __getitem__(self, index: int | slice) -> "SentMessage | list[SentMessage]":
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        at = range(self._count)[index]
        place = at if self._place is None else self._place[at]
        piece = self._pieces[bisect_right(self._pieces, place, key=_first_of) - 1]
        return SentMessage(piece.topic, piece.partition, piece.first_offset + place - piece.first)

    def __iter__(self) -> Iterator[SentMessage]:
        return map(self.__getitem__, range(self._count))

    def __repr__(self) -> str:
        return f"<{self._count} messages sent>"


def _first_of(piece: _Piece) -> int:
    return piece.first


class ManyReceipts:
    """Of all batches of one `send_many`."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._error: DanubeError | None = None
        self._open = 0
        self._ended = asyncio.Event()
        self._ended.set()

    @property
    def error(self) -> DanubeError | None:
        return self._error

    def expect(self, first: int, topic: str, partition: int | None) -> "_ManyReceipt":
        self._open += 1
        self._ended.clear()
        return _ManyReceipt(self, first, topic, partition)

    def settle(self, piece: _Piece | None, error: DanubeError | None) -> None:
        if piece is not None:
            self._pieces.append(piece)
        self._error = self._error or error
        self._open -= 1
        if self._open == 0:
            self._ended.set()

    async def result(self, count: int, order: list[int] | None) -> SentMany:
        """When all are answered; the first error if there was one."""
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        return SentMany(count, self._pieces, order)


class _ManyReceipt:
    __slots__ = ("_all", "_first", "_partition", "_topic")

    def __init__(self, receipts: ManyReceipts, first: int, topic: str, partition: int | None) -> None:
        self._all = receipts
        self._first = first
        self._topic = topic
        self._partition = partition

    def published(self, first_offset: int) -> None:
        self._all.settle(_Piece(self._first, self._topic, self._partition, first_offset), None)

    def failed(self, error: DanubeError) -> None:
        self._all.settle(None, error)


class FlushReceipt:
    """Of the last batch before a `flush`; how it ends makes no difference."""

    __slots__ = ("_ended",)

    def __init__(self, ended: "asyncio.Future[None]") -> None:
        self._ended = ended

    def published(self, first_offset: int) -> None:
        del first_offset
        if not self._ended.done():
            self._ended.set_result(None)

    def failed(self, error: DanubeError) -> None:
        del error
        self.published(0)
