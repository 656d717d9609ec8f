"""A connection belongs to the process that made it: after a fork two processes would write into one socket."""

import os

from pydanube.model.errors import UsedAfterFork


class Home:
    """Remembers the process that it was made in."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        if os.getpid() != self._process:
            raise UsedAfterFork("a client was used in another process than the one that opened it")
