"""Messages from lines of a file or a pipe, or made up: groups of payloads, as they become available."""

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import CancelledError

CHUNK_BYTES = 1 << 20
_CHUNKS_AHEAD = 4
_GROUP_BYTES, _GROUP_MAX = 4 << 20, 20_000  # of messages that are made up: enough to keep a producer busy
Group = list[bytes]


class Splitter:
    """Bytes in, whole lines out; the last line needs no end."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> Group:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.removesuffix(b"\r") for line in lines]

    def end(self) -> Group:
        return [self._rest] if self._rest else []


async def lines_of(fd: int) -> AsyncIterator[Group]:
    """Read on a thread of its own, which nobody waits for: it may hang in a terminal when the program ends."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue(_CHUNKS_AHEAD)

    def hand_over(item: bytes | OSError) -> bool:
        """Waits for room. False: nobody wants it any more."""
        putting = chunks.put(item)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except (RuntimeError, CancelledError):
            putting.close()
            return False
        return True

    def read() -> None:
        try:
            while hand_over(chunk := os.read(fd, CHUNK_BYTES)) and chunk:
                pass
        except OSError as error:
            hand_over(error)

    threading.Thread(target=read, name="danube-lines", daemon=True).start()
    splitter = Splitter()
    while chunk := await chunks.get():
        if isinstance(chunk, OSError):
            raise chunk
        yield splitter.feed(chunk)
    yield splitter.end()


async def made_up(size: int, count: int | None) -> AsyncIterator[Group]:
    """Messages of one size that differ: their number, then letters."""
    group = max(1, min(_GROUP_MAX, _GROUP_BYTES // size))
    letters = random.Random(size).choices(b"abcdefghijklmnopqrstuvwxyz", k=size)
    filler = bytes(letters)
    number = 0
    while count is None or number < count:
        end = number + (group if count is None else min(group, count - number))
        yield [(b"%d " % each + filler)[:size] for each in range(number, end)]
        number = end


async def first(groups: AsyncIterator[Group], count: int | None) -> AsyncIterator[Group]:
    """At most so many messages."""
    left = count
    async for group in groups:
        if left is not None:
            group = group[:left]
            left -= len(group)
        if group:
            yield group
        if left == 0:
            return


async def paced(groups: AsyncIterator[Group], rate: float | None) -> AsyncIterator[Group]:
    """So many messages a second: pieces of about 20 ms, each in its time."""
    if rate is None:
        async for group in groups:
            yield group
        return
    loop = asyncio.get_running_loop()
    started, sent = loop.time(), 0
    async for group in groups:
        for piece in _pieces(group, max(1, round(rate / 50))):
            await asyncio.sleep(started + sent / rate - loop.time())
            yield piece
            sent += len(piece)


def _pieces(group: Group, length: int) -> Iterator[Group]:
    for at in range(0, len(group), length):
        yield group[at : at + length]
