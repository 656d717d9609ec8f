"""Sizes and times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.cli.units import parse_size, parse_time_us, write_size, write_time

NUMBERS = st.one_of(st.integers(0, 1 << 50), st.integers(0, 1 << 20).map(lambda number: number << 20))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("17", 17),
        ("1KiB", 1024),
        ("64 MiB", 64 << 20),
        ("1.5gib", 3 << 29),
        ("2KB", 2000),
        ("3TB", 3 * 10**12),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "time_us"),
    [("0", 0), ("0s", 0), ("250ms", 250_000), ("5s", 5_000_000), ("1.5h", 5_400_000_000), ("2w", 14 * 86_400_000_000)],
)
def test_times(text: str, time_us: int) -> None:
    assert parse_time_us(text) == time_us


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 2", "64 QiB", "0x10", "1e3", "5s"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "5S", "1y", "1h30m", "64MiB"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        parse_time_us(text)


@given(NUMBERS)
def test_round_trip(number: int) -> None:
    assert parse_size(write_size(number)) == number
    assert parse_time_us(write_time(number)) == number


def test_the_shortest_form() -> None:
    assert [write_size(size) for size in (0, 1, 1023, 1024, 64 << 20, 1 << 40)] == [
        *("0B", "1B", "1023B", "1KiB", "64MiB", "1TiB")
    ]
    assert [write_time(us) for us in (0, 1, 1000, 5_000_000, 3_600_000_000, 7 * 86_400_000_000)] == [
        *("0s", "1us", "1ms", "5s", "1h", "7d")
    ]
