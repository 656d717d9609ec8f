"""What a batch costs: encoding, checking and decoding, in nanoseconds a message. Contents are verified.

Run: python tests/bench/bench_records.py [--json]
"""

import argparse
import json
import random
import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from pydanube.model.limits import BATCH_BYTES_MAX
from pydanube.records import Batch, Codec, Records, check_batch, encode_batch, open_batch

T = TypeVar("T")

PAYLOAD_BYTES = (128, 1024)
COUNTS = (1, 100, 1_000, 10_000)
REPEATS = 7
REPEAT_SECONDS = 0.02
WORDS = [b"order", b"payment", b"customer", b"0123456789", b"warehouse", b"true", b"null", b"2024-05-17T12:00:00Z"]


class Row(NamedTuple):
    payload_bytes: int
    messages: int
    encode_ns: float
    encode_keyed_ns: float
    to_lists_ns: float
    to_arrow_ns: float
    check_us: float
    lz4_encode_ns: float
    lz4_to_lists_ns: float
    lz4_ratio: float
    zstd_encode_ns: float
    zstd_to_lists_ns: float
    zstd_ratio: float


def seconds_of(action: Callable[[], T]) -> tuple[float, T]:
    """The best of several rounds, each long enough for the clock, and the last result."""
    started = time.perf_counter()
    result = action()
    calls = max(1, int(REPEAT_SECONDS / max(time.perf_counter() - started, 1e-7)))
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        for _ in range(calls):
            result = action()
        best = min(best, (time.perf_counter() - started) / calls)
    return best, result


def text_like(chance: random.Random, size: int) -> bytes:
    """Compresses about as well as logs do, unlike zeros or noise."""
    text = bytearray()
    while len(text) < size:
        text += b"%s%d," % (chance.choice(WORDS), chance.randrange(10**6))
    return bytes(text[:size])


def must_equal(found: Any, expected: Any) -> None:
    if found != expected:
        raise SystemExit("the batch did not give back what was put in")


def measure(payload_bytes: int, count: int) -> Row:
    chance = random.Random(1)
    count = min(count, (BATCH_BYTES_MAX - 1024) // (payload_bytes + 32))  # 32: offsets, slot and key
    payloads = [text_like(chance, payload_bytes) for _ in range(count)]
    plain = Records(payloads)
    keyed = Records(payloads, keys=[f"customer-{chance.randrange(1000)}" for _ in range(count)])

    encode_s, data = seconds_of(lambda: encode_batch(plain, topic_id=1))
    must_equal(open_batch(data).records(), plain)
    keyed_s, keyed_data = seconds_of(lambda: encode_batch(keyed, topic_id=1))
    must_equal(open_batch(keyed_data).records(), keyed)
    check_s, header = seconds_of(lambda: check_batch(data, topic_id=1))
    must_equal(header.record_count, count)
    lists_s, decoded = seconds_of(lambda: Batch(data).payloads())
    must_equal(decoded, payloads)
    arrow_s, table = seconds_of(lambda: Batch(data).to_arrow())
    must_equal(table.column("payload").to_pylist(), payloads)

    costs = [seconds / count * 1e9 for seconds in (encode_s, keyed_s, lists_s, arrow_s)] + [check_s * 1e6]
    for codec in (Codec.LZ4, Codec.ZSTD):
        codec_encode_s, codec_data = _encoded(plain, codec)
        codec_lists_s, decoded = _decoded(codec_data)
        must_equal(decoded, payloads)
        costs += (codec_encode_s / count * 1e9, codec_lists_s / count * 1e9, len(data) / len(codec_data))
    return Row._make([payload_bytes, count, *costs])


def _encoded(records: Records, codec: Codec) -> tuple[float, bytearray]:
    return seconds_of(lambda: encode_batch(records, topic_id=1, codec=codec))


def _decoded(data: bytearray) -> tuple[float, list[bytes | None]]:
    return seconds_of(lambda: Batch(data).payloads())


def table_of(rows: list[Row]) -> str:
    cells = [[name.replace("_", " ") for name in Row._fields]]
    for row in rows:
        shown = [f"{value:.1f}" if isinstance(value, float) and value < 10 else f"{value:,.0f}" for value in row]
        if row.messages not in COUNTS:
            shown[1] += " (most that fit)"
        cells.append(shown)
    widths = [max(len(line[column]) for line in cells) for column in range(len(Row._fields))]
    lines = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    options = parser.parse_args()
    rows = [measure(payload_bytes, count) for payload_bytes in PAYLOAD_BYTES for count in COUNTS]
    print(json.dumps([row._asdict() for row in rows], indent=1) if options.json else table_of(rows))


if __name__ == "__main__":
    main()
