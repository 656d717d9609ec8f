"""The ceiling for appending: what this disk and this interpreter allow with nothing around it.

Opaque batches, one `pwritev` and one `fdatasync` a round into a preallocated file, CRC32C over each batch, the
next round gathered by the main thread while the last one is written. No offsets, sequences, table, state or
recovery: a number to compare with, not a journal.
"""

import os
import threading
import time
from pathlib import Path

from crc32c import crc32c

FILE_BYTES = 1 << 30


def append_ceiling(folder: Path, batches: list[bytearray], in_flight_bytes: int) -> float:
    """Seconds to make all batches durable, at most `in_flight_bytes` of them waiting at a time."""
    fd = os.open(folder / "ceiling", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    total = sum(map(len, batches))
    os.posix_fallocate(fd, 0, max(total, 1 << 20))
    wake = threading.Condition()
    waiting: list[bytearray] = []
    state = {"durable": 0, "accepted": 0, "done": False}

    def write() -> None:
        position = 0
        while True:
            with wake:
                while not waiting and not state["done"]:
                    wake.wait()
                if not waiting:
                    return
                taken = waiting[:]
                waiting.clear()
            for start in range(0, len(taken), 1024):
                position += os.pwritev(fd, taken[start : start + 1024], position)
            os.fdatasync(fd)
            with wake:
                state["durable"] = position
                wake.notify()

    started = time.perf_counter()
    thread = threading.Thread(target=write)
    thread.start()
    for batch in batches:
        crc32c(memoryview(batch)[24:])
        with wake:
            while state["accepted"] - state["durable"] > in_flight_bytes:
                wake.wait()
            waiting.append(batch)
            state["accepted"] += len(batch)
            wake.notify()
    with wake:
        state["done"] = True
        wake.notify()
    thread.join()
    elapsed = time.perf_counter() - started
    os.close(fd)
    (folder / "ceiling").unlink()
    return elapsed


def disk_limit(folder: Path, write_bytes: int, total_bytes: int) -> float:
    """MB/s of plain sequential writes with an `fdatasync` after each, into a preallocated file."""
    data = os.urandom(write_bytes)
    fd = os.open(folder / "disk", os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    os.posix_fallocate(fd, 0, total_bytes)
    started = time.perf_counter()
    for position in range(0, total_bytes - write_bytes + 1, write_bytes):
        os.pwrite(fd, data, position)
        os.fdatasync(fd)
    elapsed = time.perf_counter() - started
    os.close(fd)
    (folder / "disk").unlink()
    return total_bytes / elapsed / 1e6
