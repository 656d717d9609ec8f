"""Small deciding parts: addresses, credit, acknowledgements, routing, waiting, times."""

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.client.acks import Acks
from pydanube.client.address import Address, parse_url
from pydanube.client.credit import Credit
from pydanube.client.errors import Failures
from pydanube.client.received import runs_between
from pydanube.client.retry import DELAY_S_FIRST, DELAY_S_MAX, Backoff
from pydanube.client.routing import Router
from pydanube.client.times import microseconds, start_text, time_of
from pydanube.model.errors import DiskFull, InvalidRequest
from pydanube.records import partition_of


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("danube://localhost", [("localhost", 6651)]),
        ("danube://127.0.0.1:7000/", [("127.0.0.1", 7000)]),
        ("danube://a:1,b,[::1]:2", [("a", 1), ("b", 6651), ("::1", 2)]),
    ],
)
def test_addresses(url: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_url(url) == addresses
    assert parse_url("danube://" + ",".join(map(str, map(Address._make, addresses)))) == addresses


@pytest.mark.parametrize(
    "url",
    ["", "localhost:6651", "http://a", "danube://", "danube://a,", "danube://a:0", "danube://a:99999", "danube://a/b"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_url(url)


@given(st.integers(0, 100), st.data())
def test_credit_counts_as_the_broker_does(standing: int, data: st.DataObject) -> None:
    """The model is the broker's rule: the standing credit first, grants for the rest."""
    credit = Credit(standing)
    free, granted = standing, 0
    charges: list[int] = []
    for _ in range(30):
        step = data.draw(st.sampled_from(["take", "grant", "back"]))
        size = data.draw(st.integers(1, 80))
        if step == "take":
            charge = credit.take(size)
            assert (charge is not None) == (size <= free + granted)
            if charge is not None:
                assert charge == min(size, free)
                free, granted = free - charge, granted - (size - charge)
                charges.append(charge)
        elif step == "grant":
            credit.grant(size)
            granted += size
        elif charges:
            charge = charges.pop()
            credit.back(charge)
            free += charge
        assert free + sum(charges) == standing


def test_wants() -> None:
    credit = Credit(100)
    assert credit.take(60) == 60
    assert credit.take(60) is None
    assert credit.want(500) == 460
    assert credit.want(900) is None  # a wish is open
    credit.grant(460)
    assert credit.take(60) == 40
    assert credit.want(2000) == 2000 - 440


RANGE = st.tuples(st.integers(0, 60), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.tuples(st.sampled_from(["hand", "ack", "back", "take", "again"]), RANGE), max_size=60))
def test_acks_against_sets(steps: list[tuple[str, tuple[int, int]]]) -> None:
    acks = Acks()
    handed: set[int] = set()
    ready: set[int] = set()
    for step, (first, end) in steps:
        offsets = set(range(first, end))
        if step == "hand":
            acks.hand_out(first, end)
            handed |= offsets
        elif step == "ack":
            acks.ack(first, end)
            ready |= handed & offsets
            handed -= offsets
        elif step == "back":
            acks.take_back(first, end)
            handed -= offsets
        elif step == "again":
            acks.again([(first, end)])
            ready |= offsets
        else:
            taken = acks.take(3)
            assert taken == sorted(taken)
            assert all(a < b for a, b in taken)
            assert all(before[1] < after[0] for before, after in pairwise(taken))
            got = {offset for part in taken for offset in range(*part)}
            assert got <= ready
            assert len(taken) == 3 or got == ready
            ready -= got
        assert acks.is_settled == (not handed)
        assert acks.has_ready == bool(ready)
    acks.clear()
    assert acks.is_settled
    assert not acks.has_ready


@given(st.integers(0, 50), st.integers(1, 30), st.sets(st.integers(0, 90)))
def test_runs_leave_out_what_they_should(base: int, count: int, left_out: set[int]) -> None:
    without: list[tuple[int, int]] = []
    for offset in sorted(left_out):
        if without and without[-1][1] == offset:
            without[-1] = (without[-1][0], offset + 1)
        else:
            without.append((offset, offset + 1))
    runs = runs_between(base, count, without)
    assert all(first < end for first, end in runs)
    kept = [base + index for first, end in runs for index in range(first, end)]
    assert kept == [offset for offset in range(base, base + count) if offset not in left_out]


def test_routing() -> None:
    router = Router(4)
    assert [router.of_key(f"k{n}") for n in range(50)] == [partition_of(f"k{n}", 4) for n in range(50)]
    turns = []
    for _ in range(5):
        turns.append(router.current())
        router.advance()
    assert turns == [0, 1, 2, 3, 0]
    groups = router.by_partition(["a", None, "b", None, "a"])
    assert sorted(index for group in groups for index in group) == [0, 1, 2, 3, 4]
    assert [index for index in groups[router.current()] if index in (1, 3)] == [1, 3]


def test_backoff() -> None:
    backoff = Backoff(lambda: 1.0)
    delays = [backoff.next_s() for _ in range(12)]
    assert delays[:3] == [DELAY_S_FIRST, 2 * DELAY_S_FIRST, 4 * DELAY_S_FIRST]
    assert delays[-1] == DELAY_S_MAX
    backoff.reset()
    assert backoff.next_s() == DELAY_S_FIRST
    assert Backoff(lambda: 0.0).next_s() == DELAY_S_FIRST / 2


def test_failures_are_bounded() -> None:
    failures = Failures()
    assert failures.take() is None
    for _ in range(3 * Failures.ERRORS_MAX):
        failures.add("/default/a", 2, DiskFull("full"))
    group = failures.take()
    assert group is not None
    assert len(group.exceptions) == Failures.ERRORS_MAX
    assert str(6 * Failures.ERRORS_MAX) in str(group)
    assert failures.take() is None


def test_times() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=2)))
    assert time_of(microseconds(time)) == time
    assert microseconds(7) == 7
    with pytest.raises(InvalidRequest):
        microseconds(datetime(2026, 1, 1))
    assert start_text(time) == time.astimezone(UTC).isoformat()
    with pytest.raises(InvalidRequest):
        start_text(-1)
