"""Publish credit: bounded by the budget, fair, and whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pydanube.broker.credit import CreditPool, Granted, SessionCredit
from pydanube.model.errors import ProtocolError


def test_a_wish_is_granted_whole_up_to_a_quantum() -> None:
    pool = CreditPool(1000, 400)
    assert pool.want(1, 300) == [Granted(1, 300)]
    assert pool.want(2, 900) == [Granted(2, 400)]  # the next 400 do not fit: it waits rather than getting a part
    assert pool.free_bytes == 300
    assert pool.answered(1, 300) == [Granted(2, 400), Granted(2, 100)]


def test_a_greedy_connection_waits_for_its_turn() -> None:
    pool = CreditPool(800, 400)
    assert pool.want(1, 4000) == [Granted(1, 400), Granted(1, 400)]
    assert pool.want(2, 100) == []
    granted = pool.answered(1, 400)
    assert granted == [Granted(1, 400)]  # it was first in line, and now goes behind the other
    assert pool.answered(1, 400) == [Granted(2, 100)]


def test_a_connection_that_is_gone_holds_nothing() -> None:
    pool = CreditPool(800, 400)
    pool.want(1, 4000)
    pool.want(2, 400)
    assert pool.gone(1) == [Granted(2, 400)]
    assert pool.free_bytes == 400


def test_the_standing_credit_comes_back_and_grants_do_not() -> None:
    credit = SessionCredit(100)
    assert credit.take(80) == (80, 0)
    with pytest.raises(ProtocolError):
        credit.take(21)
    credit.grant(50)
    assert credit.take(60) == (20, 40)
    credit.give_back(80)
    assert credit.take(90) == (80, 10)
    with pytest.raises(ProtocolError):
        credit.take(1)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 900), st.sampled_from(["want", "answer", "gone"]))))
def test_the_budget_is_never_exceeded_and_nobody_starves(events: list[tuple[int, int, str]]) -> None:
    pool = CreditPool(1000, 400)
    held: dict[int, int] = {}
    wishes: dict[int, int] = {}

    def note(grants: list[Granted]) -> None:
        for connection, count in grants:
            assert 0 < count <= 400
            held[connection] = held.get(connection, 0) + count
            wishes[connection] -= count

    for connection, count, event in events:
        if event == "want":
            wishes[connection] = count
            note(pool.want(connection, count))
        elif event == "answer":
            done = min(count, held.get(connection, 0))
            held[connection] = held.get(connection, 0) - done
            note(pool.answered(connection, done))
        else:
            held.pop(connection, None)
            wishes.pop(connection, None)
            note(pool.gone(connection))
        assert sum(held.values()) + pool.free_bytes == 1000
    # When everything is answered, everybody gets what they asked for.
    for _ in range(20):
        for connection in list(held):
            done, held[connection] = held[connection], 0
            note(pool.answered(connection, done))
    assert not any(wishes.values())
