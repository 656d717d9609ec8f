"""`danube bench`: its figures, its checks, and short runs of every kind."""

import json

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Danube

from pydanube.cli.bench import runs
from pydanube.cli.bench.content import Checker, Wrong, make_pool, part_of
from pydanube.cli.bench.figures import make_figures, percentile
from pydanube.cli.bench.worker import Task
from pydanube.cli.main import main

SIZE = 16


def test_percentiles() -> None:
    values = [float(number) for number in range(1, 1001)]
    assert [percentile(values, share) for share in (0.5, 0.99, 0.999, 1.0)] == [500, 990, 999, 1000]
    assert percentile([7.0], 0.5) == percentile([7.0], 0.999) == 7.0


def test_rates() -> None:
    figures = make_figures("publish", 1000, 500, 2.0, [3.0, 1.0, 2.0], "something")
    assert (figures.messages_per_second, figures.mb_per_second) == (500, 0.25)
    assert (figures.p50_ms, figures.p99_9_ms) == (2.0, 3.0)
    assert make_figures("consume", 1000, 500, 2.0).p50_ms is None


def test_messages_differ_and_have_their_size() -> None:
    for size in (8, 100, 5 << 20):
        pool = make_pool(3, size)
        assert {len(message) for message in pool} == {size}
        assert len(set(pool)) == len(pool) >= 2
    assert make_pool(3, 8) != make_pool(4, 8)


@given(st.integers(0, 10**6), st.integers(1, 50))
def test_parts_of_an_endless_sequence(first: int, count: int) -> None:
    pool = [bytes([number]) for number in range(7)]
    assert part_of(pool, first, count) == [pool[number % 7] for number in range(first, first + count)]


def sent(producer: int, first: int, count: int) -> list[bytes]:
    return part_of(make_pool(producer, SIZE), first, count)


def test_what_is_right() -> None:
    checker = Checker([0], 30_000, SIZE)
    checker.take([(0, 100), (100, 25_000)], sent(0, 0, 25_000))
    assert not checker.is_done
    checker.take([(25_000, 30_000)], sent(0, 25_000, 5_000))
    assert checker.is_done
    checker.end()


def test_producers_may_be_mixed() -> None:
    checker = Checker([0, 2], 4, SIZE)
    checker.take([(0, 5)], [*sent(2, 0, 2), *sent(0, 0, 1), *sent(2, 2, 2)])
    checker.take([(5, 8)], sent(0, 1, 3))
    assert checker.is_done


@pytest.mark.parametrize(
    ("offsets", "payloads", "message"),
    [
        ([(1, 3)], sent(0, 0, 2), "offset 0 should have come, 1 came"),
        ([(0, 1), (2, 3)], sent(0, 0, 2), "offset 1 should have come, 2 came"),
        ([(0, 2)], sent(0, 1, 2), "are not what was sent"),
        ([(0, 2)], sent(0, 0, 2)[::-1], "are not what was sent"),
        ([(0, 5)], sent(0, 0, 5), "5 messages came of producer 0, 4 were sent"),
    ],
)
def test_what_is_wrong(offsets: list[tuple[int, int]], payloads: list[bytes], message: str) -> None:
    with pytest.raises(Wrong, match=message):
        Checker([0], 4, SIZE).take(offsets, payloads)


def test_what_is_missing_or_of_somebody_else() -> None:
    with pytest.raises(Wrong, match="4 messages of producer 0 have not come"):
        Checker([0], 4, SIZE).end()
    with pytest.raises(Wrong, match="of no producer of this topic"):
        Checker([0, 1], 4, SIZE).take([(0, 1)], sent(5, 0, 1))


@pytest.mark.parametrize("work", ["publish", "consume", "end-to-end"])
def test_short_runs(danube: Danube, url: str, work: str) -> None:
    options = ("--producers", 2, "--topics", 2, "--batch", 10, "--compression", "lz4")
    figures = json.loads(danube("bench", work, "--count", 1000, "--url", url, *options, "--json").stdout)
    assert (figures["work"], figures["messages"], figures["size"]) == (work, 1000, 128)
    assert figures["messages_per_second"] > 0
    assert (figures["p50_ms"] is None) == (work == "consume")
    assert json.loads(danube("topic", "list", "--json").stdout) == [], "its topics are deleted behind it"


def test_a_broker_of_its_own() -> None:
    result = CliRunner().invoke(main, ["bench", "latency", "--count", "100", "--durability", "memory"])
    assert result.exit_code == 0
    assert "messages/s" in result.stdout
    assert "sent to received" in result.stdout
    assert "each message once and in order" in result.stdout


def test_a_worker_that_fails_fails_the_bench(danube: Danube, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = runs.Bench._producers
    monkeypatch.setattr(
        runs.Bench, "_producers", lambda bench: [Task("produce", url, "/none/x", 8, 1, producers=[0]), *replace(bench)]
    )
    failed = danube("bench", "publish", "--count", 10, "--url", url, status=1)
    assert "there is no namespace none" in failed.stderr
    assert not failed.stdout
