"""For tests, this project's own and its users': a real broker in the test's process, a clock that the test moves, a
simulated disk that fails."""

from .broker import RunningBroker, broker
from .clock import ManualClock

__all__ = ["ManualClock", "RunningBroker", "broker"]
