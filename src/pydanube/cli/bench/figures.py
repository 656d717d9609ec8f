"""Figures of a run: rates, percentiles. Pure."""

from collections.abc import Sequence

import msgspec


class Figures(msgspec.Struct, frozen=True):
    work: str
    messages: int
    size: int
    seconds: float
    messages_per_second: float
    mb_per_second: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p99_9_ms: float | None = None
    latency_of: str | None = None  # what the percentiles are of


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * round(share * 1000) // 1000) - 1))]


def make_figures(
    work: str, messages: int, size: int, seconds: float, latencies_ms: Sequence[float] = (), latency_of: str = ""
) -> Figures:
    rate = messages / seconds
    found = Figures(work, messages, size, seconds, rate, rate * size / 1e6)
    if not latencies_ms:
        return found
    ordered = sorted(latencies_ms)
    p50, p99, p99_9 = (percentile(ordered, share) for share in (0.5, 0.99, 0.999))
    return msgspec.structs.replace(found, p50_ms=p50, p99_ms=p99, p99_9_ms=p99_9, latency_of=latency_of)
