"""How long to wait before the next try: twice as long each time, with chance in it, so that many clients do not
come back in step."""

from collections.abc import Callable

DELAY_S_FIRST = 0.02
DELAY_S_MAX = 2.0


class Backoff:
    """`chance` gives numbers from 0 to 1."""

    def __init__(self, chance: Callable[[], float]) -> None:
        self._chance = chance
        self._delay_s = DELAY_S_FIRST

    def next_s(self) -> float:
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, DELAY_S_MAX)
        return delay_s * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        self._delay_s = DELAY_S_FIRST
