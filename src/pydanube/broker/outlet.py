"""What a consumer needs of its connection, and no more."""

from collections.abc import Callable, Sequence
from typing import Protocol

from pydanube.model import Buffer, DanubeError
from pydanube.wire import hot


class Outlet(Protocol):
    @property
    def has_room(self) -> bool:
        """Whether the socket takes more; when it does again, the connection pumps its consumers."""

    def deliver(self, head: hot.Deliver, batches: Sequence[Buffer]) -> None: ...


class Attached(Protocol):
    """A consumer as its connection sees it."""

    @property
    def session(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def position(self) -> int: ...
    def flow(self, count: int) -> None: ...
    def ack(
        self, session: int, generation: int, ranges: list[tuple[int, int]], done: Callable[[DanubeError | None], None]
    ) -> None: ...
    def pump(self) -> None: ...
    def leave(self) -> None: ...
