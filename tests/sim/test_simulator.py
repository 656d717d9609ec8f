"""The simulator in CI: thousands of seeds, one of them twice, and proof that it notices what it is there to notice."""

from collections.abc import Callable
from typing import Any

import pytest

from .model import Violation
from .mutations import MUTATIONS
from .simulator import Simulator, run_seed

SEEDS = 4000
CHUNK = 250


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_seeds(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed)


@pytest.mark.parametrize("seed", [1, 2, 3, 40, 77])
def test_a_seed_replays_exactly(seed: int) -> None:
    assert run_seed(seed) == run_seed(seed)


def test_seeds_differ() -> None:
    assert run_seed(1) != run_seed(2)


def test_the_work_is_not_idle() -> None:
    """A simulator that does nothing finds nothing."""
    restarts = stored = files = 0
    for seed in range(40):
        simulator = Simulator(seed)
        simulator.run()
        restarts += simulator.restarts
        stored += sum(len(topic.stored) for topic in simulator.topics.values())
        files += simulator.node.log.core.catalog.current_number
    assert restarts > 80
    assert stored > 1000
    assert files > 200


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_mistakes_are_noticed(mutation: Callable[[], Any]) -> None:
    with mutation():
        for seed in range(1500):
            try:
                run_seed(seed)
            except Violation:
                return
    pytest.fail(f"1500 seeds did not notice: {mutation.__doc__}")
