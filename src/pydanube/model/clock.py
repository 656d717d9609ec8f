"""Time as an argument: microseconds since 1970, UTC. Only shells hold a clock; pure code is told the time."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int: ...


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000
