"""Legal moves, in both directions."""

import pytest

from pydanube.model.errors import ProtocolError
from pydanube.wire import BROKER_MAY_SEND, CLIENT_MAY_SEND, HELLO_BYTES_MAX, Kind, Receiver, State

from .samples import FROM_BROKER, FROM_CLIENT, Case, expected, plain

SIDES = pytest.mark.parametrize(
    ("moves", "cases"), [(CLIENT_MAY_SEND, FROM_CLIENT), (BROKER_MAY_SEND, FROM_BROKER)], ids=["client", "broker"]
)
Moves = dict[tuple[State, Kind], State]


@SIDES
def test_a_whole_conversation(moves: Moves, cases: list[Case]) -> None:
    receiver = Receiver(moves)
    frames = receiver.feed(b"".join(case.data() for case in cases))
    assert [plain(frame) for frame in frames] == [expected(case) for case in cases]


@SIDES
def test_every_move(moves: Moves, cases: list[Case]) -> None:
    """What the table lists is followed, what it does not list is refused."""
    for state in State:
        for kind in Kind:
            receiver = Receiver(moves)
            receiver.state = state
            data = Case(kind, 1, b"").data()
            following = moves.get((state, kind))
            if following is None:
                with pytest.raises(ProtocolError, match=kind.name):
                    receiver.feed(data)
            else:
                assert len(receiver.feed(data)) == 1
                assert receiver.state is following
    assert {kind for _, kind in moves} == {case.kind for case in cases}


@pytest.mark.parametrize("case", FROM_CLIENT[1:], ids=lambda case: case.kind.name)
def test_nothing_comes_before_the_greeting(case: Case) -> None:
    with pytest.raises(ProtocolError):
        Receiver(CLIENT_MAY_SEND).feed(case.data())


@SIDES
def test_each_side_is_refused_the_others_frames(moves: Moves, cases: list[Case]) -> None:
    foreign = {case.kind for case in FROM_CLIENT + FROM_BROKER} - {case.kind for case in cases}
    greeting = cases[0].data()
    for case in FROM_CLIENT + FROM_BROKER:
        if case.kind in foreign:
            with pytest.raises(ProtocolError):
                Receiver(moves).feed(greeting + case.data())


def test_a_stranger_may_send_little() -> None:
    receiver = Receiver(CLIENT_MAY_SEND)
    with pytest.raises(ProtocolError, match=str(HELLO_BYTES_MAX)):
        receiver.feed(Case(Kind.HELLO, 0, bytes(HELLO_BYTES_MAX)).data())
    greeted = Receiver(CLIENT_MAY_SEND)
    greeted.feed(FROM_CLIENT[0].data())
    assert len(greeted.feed(Case(Kind.PUBLISH, 1, b"", (bytes(4 * HELLO_BYTES_MAX),)).data())) == 1


def test_after_goodbye_answers_may_still_come() -> None:
    receiver = Receiver(BROKER_MAY_SEND)
    receiver.feed(FROM_BROKER[0].data() + Case(Kind.GOODBYE, 0, b"").data())
    assert receiver.state is State.CLOSING
    assert len(receiver.feed(Case(Kind.DONE, 1, b"").data())) == 1
    with pytest.raises(ProtocolError):
        receiver.feed(Case(Kind.GOODBYE, 0, b"").data())


def test_a_refused_greeting_ends_it() -> None:
    receiver = Receiver(BROKER_MAY_SEND)
    receiver.feed(FROM_BROKER[1].data())
    assert receiver.state is State.CLOSING
