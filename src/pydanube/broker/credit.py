"""Publish credit: one budget of bytes for the whole broker, given out fairly. Pure.

Who wants to send more than its standing credit asks; grants go round in turn, each whole (at most a quantum, which is
more than the largest batch), so that a grant always covers a batch and nobody is starved by a greedy neighbour.
What is granted leaves the budget until the batch is answered or its connection is gone.
"""

from collections import OrderedDict
from typing import NamedTuple

from pydanube.model.errors import ProtocolError
from pydanube.model.limits import FRAME_BYTES_MAX


class Granted(NamedTuple):
    connection: int
    bytes: int


class CreditPool:
    def __init__(self, budget_bytes: int, quantum_bytes: int = FRAME_BYTES_MAX) -> None:
        if budget_bytes < quantum_bytes:
            raise ValueError(f"a budget of {budget_bytes} bytes does not cover one grant of {quantum_bytes}")
        self._budget_bytes = budget_bytes
        self._quantum_bytes = quantum_bytes
        self._out_bytes = 0  # granted, and neither answered nor given up
        self._held: dict[int, int] = {}  # granted and not yet answered, by connection
        self._wants: OrderedDict[int, int] = OrderedDict()  # in the order of their turn

    @property
    def free_bytes(self) -> int:
        return self._budget_bytes - self._out_bytes

    def want(self, connection: int, count: int) -> list[Granted]:
        """A connection's wish, which replaces its last one; 0 takes it back."""
        if count > 0:
            self._wants[connection] = count
        else:
            self._wants.pop(connection, None)
        return self._give()

    def answered(self, connection: int, count: int) -> list[Granted]:
        """Granted bytes were used and are done with."""
        held = self._held.get(connection, 0)
        if count > held:
            raise ValueError(f"{count} bytes are answered, {held} were granted")
        self._held[connection] = held - count
        self._out_bytes -= count
        return self._give()

    def gone(self, connection: int) -> list[Granted]:
        self._wants.pop(connection, None)
        self._out_bytes -= self._held.pop(connection, 0)
        return self._give()

    def _give(self) -> list[Granted]:
        granted = []
        while self._wants:
            connection, wanted = next(iter(self._wants.items()))
            count = min(wanted, self._quantum_bytes)
            if count > self.free_bytes:
                break  # the first in line waits, and nobody overtakes it
            self._out_bytes += count
            self._held[connection] = self._held.get(connection, 0) + count
            granted.append(Granted(connection, count))
            del self._wants[connection]
            if wanted > count:
                self._wants[connection] = wanted - count  # at the end of the line
        return granted


class SessionCredit:
    """What one connection may send: its standing credit first, then what it was granted."""

    def __init__(self, standing_bytes: int) -> None:
        self._standing_free = standing_bytes
        self._granted = 0

    def grant(self, count: int) -> None:
        self._granted += count

    def take(self, count: int) -> tuple[int, int]:
        """Charges a batch; returns how much of it each kind of credit pays. ProtocolError: there is not enough."""
        if count > self._standing_free + self._granted:
            raise ProtocolError(f"a batch of {count} bytes is over the credit of {self._standing_free + self._granted}")
        standing = min(count, self._standing_free)
        self._standing_free -= standing
        self._granted -= count - standing
        return standing, count - standing

    def give_back(self, standing: int) -> None:
        self._standing_free += standing
