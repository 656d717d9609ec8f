"""A bound in bytes on what waits in a queue. Who finds no room waits in line. Runs on the event loop."""

import asyncio
from collections import deque

from pydanube.model.errors import DanubeError


class ByteBudget:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._taken = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size_bytes: int) -> None:
        if not self._line and self._fits(size_bytes):
            self._taken += size_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn came and the cancellation with it
                self.give_back(size_bytes)
            raise

    def give_back(self, size_bytes: int) -> None:
        self._taken -= size_bytes
        while self._line and (self._line[0][1].done() or self._fits(self._line[0][0])):
            size_bytes, turn = self._line.popleft()
            if not turn.done():
                self._taken += size_bytes
                turn.set_result(None)

    def refuse_all(self, error: DanubeError) -> None:
        """Sends everybody in line away."""
        for _, turn in self._line:
            if not turn.done():
                turn.set_exception(error)
        self._line.clear()

    def _fits(self, size_bytes: int) -> bool:
        # Something larger than everything still passes, alone.
        return self._taken == 0 or self._taken + size_bytes <= self._bytes_max
