"""Reading a journal file from end to end, damage included. Pure but for the reads that it is given.

The scan yields what it finds in order: whole rounds, rounds with damaged parts, and stretches in which nothing is
legible. Behind damage it looks for the next round by its magic and its salted CRC, and reads the rounds in between
backwards from there, by their tails. It judges nothing: what was durable is for `recovery.py` to say.
"""

from collections.abc import Iterator
from typing import NamedTuple

from pydanube.model import Buffer

from .files import File
from .rounds import (
    EMPTY_ROUND_BYTES,
    HEAD_BYTES,
    HEAD_MAGIC,
    ROUND_BYTES_BELIEVED,
    RoundHead,
    Row,
    check_head,
    entry_is_whole,
    read_head,
    read_rows,
    read_tail_before,
    rows_fit,
)

_WINDOW = 1 << 20
_MAGIC = HEAD_MAGIC.to_bytes(4, "little")
_ZEROS = bytes(_WINDOW)


class FoundRound(NamedTuple):
    position: int
    head: RoundHead
    rows: list[Row]
    data: bytes  # the whole round
    damaged: frozenset[int]  # entries that fail their CRC
    head_whole: bool  # with its table; one of the two is, or this would not be a round
    tail_whole: bool

    @property
    def is_whole(self) -> bool:
        return self.head_whole and self.tail_whole and not self.damaged

    @property
    def end(self) -> int:
        return self.position + self.head.length

    def body(self, row: Row) -> Buffer:
        return memoryview(self.data)[row.position : row.position + row.length]


class FoundDamage(NamedTuple):
    """Bytes in which no round can be read, neither from its head nor from its tail."""

    position: int
    end: int
    next_number: int  # of the round that follows


class FoundEnd(NamedTuple):
    """Nothing more behind this position; `last` is the end of the bytes there that are not zero."""

    position: int
    last: int


Found = FoundRound | FoundDamage | FoundEnd


def scan_rounds(file: File, start: int, end: int, seed: int, *, next_number: int | None = None) -> Iterator[Found]:
    """Everything in [start, end); the last item is a FoundEnd. With `next_number` the end is known to be the exact end
    of a round, and that is the number of the round that follows in the next file."""
    position = start
    while end - position >= EMPTY_ROUND_BYTES:
        found = read_round(file, position, end, seed)
        if found is None:
            follows = _find_round(file, position + 8, end, seed)
            if follows is None and next_number is not None:
                follows = (end, next_number)
            if follows is None:
                break
            yield from _salvage(file, position, follows[0], seed, follows[1])
            position = follows[0]
        else:
            yield found
            position = found.end
    yield FoundEnd(position, _last_byte(file, position, end))


def read_round(file: File, position: int, end: int, seed: int) -> FoundRound | None:
    """The round at a position, or None where its head or table is not whole."""
    head = read_head(file.read_at(position, HEAD_BYTES))
    if head is None or position + head.length > end:
        return None
    data = file.read_at(position, head.length)
    if len(data) < head.length or not check_head(data, head, seed):
        return None
    rows = list(read_rows(data, head.entry_count, HEAD_BYTES))
    if not rows_fit(rows, head):
        return None
    tail = read_tail_before(data, head.length, seed)
    tail_whole = tail is not None and tail[0] == head
    return FoundRound(position, head, rows, data, _damaged(rows, data), head_whole=True, tail_whole=tail_whole)


def _damaged(rows: list[Row], data: bytes) -> frozenset[int]:
    view = memoryview(data)
    return frozenset(
        number
        for number, row in enumerate(rows)
        if not entry_is_whole(row, view[row.position : row.position + row.length])
    )


def _find_round(file: File, start: int, end: int, seed: int) -> tuple[int, int] | None:
    """The next position with a whole head and table, and that round's number. Rounds begin at multiples of 8."""
    position = start + (-start & 7)
    while position < end:
        # Windows overlap by a head's length less one step, so that no candidate falls between two.
        window = file.read_at(position, min(_WINDOW, end - position))
        at = window.find(_MAGIC)
        while at >= 0:
            if (position + at) % 8 == 0 and (head := _whole_head(file, position + at, end, seed)):
                return position + at, head.number
            at = window.find(_MAGIC, at + 1)
        if len(window) < _WINDOW:
            return None
        position += _WINDOW - 8
    return None


def _whole_head(file: File, position: int, end: int, seed: int) -> RoundHead | None:
    head = read_head(file.read_at(position, HEAD_BYTES))
    if head is None or position + head.length > end:
        return None
    return head if check_head(file.read_at(position, head.entries_at), head, seed) else None


def _salvage(file: File, start: int, end: int, seed: int, next_number: int) -> Iterator[Found]:
    """Rounds whose head is damaged, read from their tails, backwards from what follows; and the rest as damage."""
    salvaged: list[FoundRound] = []
    at = end
    while at - start >= EMPTY_ROUND_BYTES and (found := _read_backwards(file, start, at, seed)) is not None:
        salvaged.insert(0, found)
        at = found.position
    if at > start:
        yield FoundDamage(start, at, salvaged[0].head.number if salvaged else next_number)
    yield from salvaged


def _read_backwards(file: File, start: int, end: int, seed: int) -> FoundRound | None:
    tail = None
    for reach in (_WINDOW, ROUND_BYTES_BELIEVED):  # a table may be larger than a window
        from_position = max(start, end - reach)
        window = file.read_at(from_position, end - from_position)
        tail = read_tail_before(window, len(window), seed)
        if tail is not None or from_position == start:
            break
    if tail is None or tail[0].length > end - start:
        return None
    head, table = tail
    rows = list(read_rows(table, head.entry_count))
    if not rows_fit(rows, head):
        return None
    position = end - head.length
    data = file.read_at(position, head.length)
    return FoundRound(position, head, rows, data, _damaged(rows, data), head_whole=False, tail_whole=True)


def _last_byte(file: File, position: int, end: int) -> int:
    """The end of the last byte in [position, end) that is not zero; `position` if there is none."""
    last = position
    while position < end:
        window = file.read_at(position, min(_WINDOW, end - position))
        if not window:
            break
        if window != _ZEROS[: len(window)]:
            last = position + len(window.rstrip(b"\0"))
        position += len(window)
    return last
