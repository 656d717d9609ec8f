"""What `danube doctor` looks at: each check is a function that returns one line."""

import os
import resource
import shutil
import socket
import statistics
import sys
import tempfile
import time
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

import msgspec

from pydanube.model.limits import KIB, MIB

from .output import show_bytes
from .ports import read_ports

_SEQUENTIAL_BYTES = 64 * MIB
_SYNCS = 100
_FREE_LEAST = 1 << 30
_FREE_GOOD = 10 << 30
_OPEN_FILES_GOOD = 4096
_RELEASED = 1_767_225_600  # 2026: a clock that says less is wrong


class Level(Enum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(msgspec.Struct, frozen=True):
    name: str
    level: Level
    text: str


def check_python() -> Check:
    text = f"Python {sys.version.split()[0]}"
    missing = [name for name in ("uvloop", "yaml", "starlette", "uvicorn", "lz4", "zstandard") if not find_spec(name)]
    if missing:
        return Check("python", Level.WARN, f"{text}; a broker needs {', '.join(missing)} too: pydanube[server]")
    return Check("python", Level.OK, text)


def check_clock() -> Check:
    if time.time() < _RELEASED:
        return Check("clock", Level.FAIL, f"it says {time.strftime('%Y-%m-%d', time.gmtime())}; set it")
    return Check("clock", Level.OK, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} UTC")


def check_open_files() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{soft:,} may be open at once"
    if soft < _OPEN_FILES_GOOD:
        return Check("files", Level.WARN, f"{text}; each connection takes one: raise it with ulimit -n")
    return Check("files", Level.OK, text)


def check_port(name: str, port: int, data_dir: Path) -> Check:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            ports = read_ports(data_dir)
            if ports is not None and port in (ports.native, ports.http):
                return Check(name, Level.OK, f"{port} is served by the broker of {data_dir}, process {ports.pid}")
            advice = f"'danube serve --{name} 0' picks a free one"
            return Check(name, Level.WARN, f"{port} cannot be used ({error.strerror}); {advice}")
    return Check(name, Level.OK, f"{port} is free")


def existing_folder(data_dir: Path) -> Path:
    """The folder itself, or where it would be made."""
    absolute = data_dir.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.is_dir())


def check_space(folder: Path) -> Check:
    usage = shutil.disk_usage(folder)
    text = f"{show_bytes(usage.free)} of {show_bytes(usage.total)} free at {folder}"
    if usage.free < _FREE_LEAST:
        return Check("space", Level.FAIL, f"{text}; a broker needs {show_bytes(_FREE_LEAST)} at least")
    return Check("space", Level.OK if usage.free >= _FREE_GOOD else Level.WARN, text)


def check_disk(folder: Path) -> list[Check]:
    """How fast the disk writes and syncs: what every acknowledgement waits for."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".danube-doctor-") as file:
            rate = _sequential(file.fileno())
            syncs_ms = _sync_times_ms(file.fileno())
    except OSError as error:
        return [Check("disk", Level.FAIL, f"{folder} cannot be written: {error.strerror}")]
    p50, p99 = statistics.median(syncs_ms), sorted(syncs_ms)[int(_SYNCS * 0.99) - 1]
    text = f"{p50:.2f} ms at the median, {p99:.2f} ms at p99; an acknowledgement waits for one"
    level = Level.OK
    if p50 < 0.02:
        level, text = Level.WARN, f"{text}. That is no disk's speed: it may not survive a power failure"
    elif p50 > 10:
        level, text = Level.WARN, f"{text}. That is slow: publish in larger batches, or use another disk"
    return [
        Check("write", Level.OK if rate >= 100e6 else Level.WARN, f"{rate / 1e6:,.0f} MB/s, synced every MiB"),
        Check("fdatasync", level, text),
    ]


def _sequential(fd: int) -> float:
    block = os.urandom(MIB)
    os.posix_fallocate(fd, 0, _SEQUENTIAL_BYTES)
    started = time.perf_counter()
    for position in range(0, _SEQUENTIAL_BYTES, MIB):
        os.pwrite(fd, block, position)
        os.fdatasync(fd)
    return _SEQUENTIAL_BYTES / (time.perf_counter() - started)


def _sync_times_ms(fd: int) -> list[float]:
    block, times = os.urandom(4 * KIB), []
    for number in range(_SYNCS):
        os.pwrite(fd, block, number * len(block))
        started = time.perf_counter()
        os.fdatasync(fd)
        times.append((time.perf_counter() - started) * 1000)
    return times
