"""What the process itself uses, for the metrics: read from /proc, and left out where there is none."""

import os
import resource
from pathlib import Path

Gauges = dict[str, tuple[str, float]]


def process_gauges(status: Path = Path("/proc/self/statm"), fds: Path = Path("/proc/self/fd")) -> Gauges:
    found: Gauges = {}
    try:
        resident_pages = int(status.read_text().split()[1])
        found["process_resident_bytes"] = ("memory of the broker's process", resident_pages * resource.getpagesize())
        found["process_open_files"] = ("open files and sockets of the broker's process", len(os.listdir(fds)))
    except OSError:
        return found
    return found
