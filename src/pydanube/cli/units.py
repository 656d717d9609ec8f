"""Sizes and times as people write them: `64MiB`, `5s`, `7d`, `forever`. Pure."""

import re

_NUMBER = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-zµ]*)")

_BINARY = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DECIMAL = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZES = {"": 1, "B": 1} | _BINARY | _DECIMAL
_SIZE_BY_NAME = {name.lower(): size for name, size in _SIZES.items()}

_TIMES_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60 * 1_000_000,
    "h": 3600 * 1_000_000,
    "d": 24 * 3600 * 1_000_000,
    "w": 7 * 24 * 3600 * 1_000_000,
}


def parse_size(text: str) -> int:
    """Bytes. A number alone counts bytes; KiB is 1024 of them, KB a thousand. ValueError: it is no size."""
    match = _NUMBER.fullmatch(text.strip())
    factor = _SIZE_BY_NAME.get(match["unit"].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is no size; write it like 64MiB")
    return round(float(match["number"]) * factor)


def parse_time_us(text: str) -> int:
    """Microseconds. Only zero may stand without a unit. ValueError: it is no time."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match["unit"] not in _TIMES_US and (match["unit"] or float(match["number"]))):
        raise ValueError(f"{text!r} is no time; write it like 5s, 90m or 7d")
    return round(float(match["number"]) * _TIMES_US.get(match["unit"], 1))


def write_size(count: int) -> str:
    """The shortest form that `parse_size` reads back as the same number."""
    for name, size in reversed(_BINARY.items()):
        if count and count % size == 0:
            return f"{count // size}{name}"
    return f"{count}B"


def write_time(time_us: int) -> str:
    """The shortest form that `parse_time_us` reads back as the same number; never weeks."""
    for name in ("d", "h", "m", "s", "ms"):
        if time_us and time_us % _TIMES_US[name] == 0:
            return f"{time_us // _TIMES_US[name]}{name}"
    return f"{time_us}us" if time_us else "0s"
