"""Counters that the broker keeps, and how they look to Prometheus. Pure."""

from dataclasses import dataclass, field

BOUNDS_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)


class Histogram:
    def __init__(self, bounds: tuple[float, ...] = BOUNDS_SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._sum += value
        for at, bound in enumerate(self._bounds):
            if value <= bound:
                self._counts[at] += 1
                return
        self._counts[-1] += 1

    def lines(self, name: str, text: str) -> list[str]:
        found = [f"# HELP {name} {text}", f"# TYPE {name} histogram"]
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            found.append(f'{name}_bucket{{le="{bound}"}} {total}')
        total += self._counts[-1]
        return [*found, f'{name}_bucket{{le="+Inf"}} {total}', f"{name}_sum {self._sum}", f"{name}_count {total}"]


@dataclass
class Metrics:
    published_batches: int = 0
    published_messages: int = 0
    published_bytes: int = 0
    publish_errors: int = 0
    delivered_bytes: int = 0
    fetched_bytes: int = 0
    protocol_errors: int = 0
    connections: int = 0
    publish_seconds: Histogram = field(default_factory=Histogram)

    def lines(self, gauges: dict[str, tuple[str, float]]) -> str:
        """The text that Prometheus reads; `gauges` are what is measured at the moment."""
        found: list[str] = []
        for name, text in _COUNTERS.items():
            full = f"danube_{name}_total"
            found += [f"# HELP {full} {text}", f"# TYPE {full} counter", f"{full} {getattr(self, name)}"]
        for name, (text, value) in gauges.items():
            full = f"danube_{name}"
            found += [f"# HELP {full} {text}", f"# TYPE {full} gauge", f"{full} {value}"]
        found += self.publish_seconds.lines("danube_publish_seconds", "from receiving a batch to its durability")
        return "\n".join(found) + "\n"


_COUNTERS = {
    "published_batches": "batches accepted from producers",
    "published_messages": "messages accepted from producers",
    "published_bytes": "bytes of batches accepted from producers",
    "publish_errors": "batches refused or failed",
    "delivered_bytes": "bytes of batches sent to consumers",
    "fetched_bytes": "bytes of batches read by offset",
    "protocol_errors": "connections closed because the peer broke the protocol",
    "connections": "connections accepted",
}
