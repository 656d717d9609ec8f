"""Retention as a table: which of three closed ledgers and an open one stay."""

import pytest

from pydanube.storage import Ledger, Retention
from pydanube.storage.retention import first_to_keep

# Ten messages and 100 bytes each; last messages at 10, 20, 30 and 40.
LEDGERS = [
    Ledger(10 * n, 10 * n + 10, 1, 100, 10 * n + 1, 10 * n + 10, 1, 1, closed=n < 3)
    for n in range(4)
]  # fmt: skip
HOLD, LET_GO = True, False
FOREVER = None


@pytest.mark.parametrize(
    ("time_us", "size", "hold", "positions", "now_us", "first"),
    [
        # time alone
        (15, None, LET_GO, [], 24, 0),
        (15, None, LET_GO, [], 25, 10),
        (15, None, LET_GO, [], 35, 20),
        (15, None, LET_GO, [], 1000, 30),  # the open ledger stays, however old
        # for ever
        (FOREVER, None, HOLD, [40], 1000, 0),
        (FOREVER, None, LET_GO, [], 1000, 0),
        # bytes alone: as few ledgers go as bring the topic below
        (FOREVER, 400, LET_GO, [], 1000, 0),
        (FOREVER, 399, LET_GO, [], 0, 10),
        (FOREVER, 250, LET_GO, [], 0, 20),
        (FOREVER, 0, LET_GO, [], 0, 30),
        # either is enough
        (15, 250, LET_GO, [], 25, 20),
        (15, 10_000, LET_GO, [], 25, 10),
        # unconsumed ledgers are held, whole
        (15, None, HOLD, [0], 1000, 0),
        (15, None, HOLD, [19], 1000, 10),
        (15, None, HOLD, [20], 1000, 20),
        (15, None, HOLD, [40, 10, 20], 1000, 10),  # the slowest decides
        (FOREVER, 0, HOLD, [12], 1000, 10),
        (15, None, HOLD, [], 1000, 30),  # no subscription holds nothing
        (15, None, LET_GO, [0], 1000, 30),
        # 0: once consumed
        (0, None, HOLD, [25], 40, 20),
        (0, None, HOLD, [40], 40, 30),
        (0, None, HOLD, [0], 40, 0),
    ],
)
def test_first_to_keep(
    time_us: int | None, size: int | None, hold: bool, positions: list[int], now_us: int, first: int
) -> None:
    assert first_to_keep(LEDGERS, 0, positions, Retention(time_us, size, hold), now_us) == first


def test_topic_without_ledgers_stays_where_it_is() -> None:
    assert first_to_keep([], 7, [], Retention(0), 1000) == 7


def test_open_ledger_counts_for_the_bytes() -> None:
    assert first_to_keep(LEDGERS[2:], 20, [], Retention(None, 150, False), 0) == 30
